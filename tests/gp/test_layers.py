"""One layer against the dense, unwhitened textbook; hand-written derivatives against others."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dgp_core.gp.kernels import RBF
from dgp_core.gp.layers import (
    VARIANCE_FLOOR,
    Layer,
    conditional,
    factorise,
    inducing_gram,
    inverse_cholesky,
    kl_from_prior,
    quadratic_form,
)
from tests.core.textbook import gaussian_kl, rbf, sparse_conditional

pytestmark = pytest.mark.usefixtures("quick_compilation")

VARIANCE, LENGTHSCALES, NOISE = 1.6, np.array([0.8, 1.5]), 0.05
M, D, P, B = 6, 2, 3, 9


@jax.jit
def marginals(layer, jitter, X, covariance=None):
    return conditional(factorise(layer, jitter, covariance), X)


def make_layer(rng, dtype=jnp.float64, mean=True, noise=True) -> Layer:
    """A layer away from every special value."""
    kernel = RBF(jnp.asarray(np.log(VARIANCE), dtype), jnp.asarray(np.log(LENGTHSCALES), dtype))
    # Rubbish above the diagonal must change nothing.
    C = 0.4 * rng.normal(size=(P, M, M)) + np.eye(M)
    return Layer(
        kernel=kernel,
        inducing=jnp.asarray(rng.normal(size=(M, D)), dtype),
        q_mean=jnp.asarray(rng.normal(size=(M, P)), dtype),
        q_factor=jnp.asarray(C, dtype),
        mean_weights=jnp.asarray(rng.normal(size=(D, P)), dtype) if mean else None,
        log_noise=jnp.asarray(np.log(NOISE), dtype) if noise else None,
    )


def unwhitened(layer, noise=NOISE):
    """Kzz, and the means and covariances of q(u) = N(Lm, L S Lᵀ), an output each."""
    Z = np.asarray(layer.inducing, float)
    K = rbf(Z, Z, VARIANCE, LENGTHSCALES) + noise * np.eye(M)
    L, C = np.linalg.cholesky(K), np.tril(np.asarray(layer.q_factor, float))
    means = (L @ np.asarray(layer.q_mean, float)).T
    return K, means, [L @ c @ c.T @ L.T for c in C]


def spd(rng, n):
    A = rng.normal(size=(n, n))
    return A @ A.T + np.eye(n)


def test_inverse_cholesky_inverts(rng):
    K = spd(rng, 7)
    inverse = np.asarray(inverse_cholesky(jnp.array(K)))
    np.testing.assert_allclose(inverse.T @ inverse, np.linalg.inv(K), atol=1e-12)
    np.testing.assert_array_equal(inverse, np.tril(inverse))


def test_inverse_cholesky_derivative(rng):
    """Against JAX's own derivative, and against finite differences along a symmetric direction."""
    K, E, weights = spd(rng, 7), spd(rng, 7), rng.normal(size=(7, 7))

    def own(K):
        return jnp.sum(weights * jnp.tanh(inverse_cholesky(K)))

    def plain(K):
        L = jnp.linalg.cholesky(K)
        return jnp.sum(weights * jnp.tanh(jnp.linalg.inv(L)))

    gradient = np.asarray(jax.jit(jax.grad(own))(jnp.array(K)))
    other = np.asarray(jax.jit(jax.grad(plain))(jnp.array(K)))
    np.testing.assert_allclose(gradient, (other + other.T) / 2, atol=1e-10)
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-12)
    h = 1e-5
    slope = (own(jnp.array(K + h * E)) - own(jnp.array(K - h * E))) / (2 * h)
    assert float(slope) == pytest.approx(np.sum(gradient * E), rel=1e-7)


def test_inverse_cholesky_of_an_indefinite_matrix_is_nan():
    assert bool(jnp.isnan(inverse_cholesky(-jnp.eye(3))).any())


def test_quadratic_form_and_its_derivative(rng):
    K = rng.normal(size=(B, M))
    Q = np.stack([spd(rng, M) - 5 * np.eye(M) for _ in range(P)])
    expected = [[k @ q @ k for q in Q] for k in K]
    np.testing.assert_allclose(quadratic_form(jnp.array(K), jnp.array(Q)), expected, rtol=1e-12)

    weights = rng.normal(size=(B, P))

    def own(K, Q):
        return jnp.sum(weights * jnp.sin(quadratic_form(K, Q)))

    def plain(K, Q):
        return jnp.sum(weights * jnp.sin(jnp.einsum("bm,pmk,bk->bp", K, Q, K)))

    arguments = jnp.array(K), jnp.array(Q)
    gradients, others = (jax.jit(jax.grad(f, (0, 1)))(*arguments) for f in (own, plain))
    for gradient, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(gradient, other, atol=1e-10)

    # Finite differences, Q moving along a symmetric direction.
    dK, dQ, h = rng.normal(size=K.shape), np.stack([spd(rng, M) for _ in range(P)]), 1e-6
    ahead, behind = (own(jnp.array(K + s * h * dK), jnp.array(Q + s * h * dQ)) for s in (1, -1))
    slope = np.sum(gradients[0] * dK) + np.sum(gradients[1] * dQ)
    assert float(ahead - behind) / (2 * h) == pytest.approx(float(slope), rel=1e-6)


@pytest.mark.parametrize("mean", [True, False])
@pytest.mark.parametrize("noise", [True, False])
def test_conditional_is_the_dense_unwhitened_one(mean, noise, rng):
    """Noise between layers is the kernel's: on Kzz's diagonal and on k(x, x), not on k(x, z)."""
    layer = make_layer(rng, mean=mean, noise=noise)
    X, Z = rng.normal(size=(B, D)), np.asarray(layer.inducing)
    s2 = NOISE if noise else 0.0
    Kxz = rbf(X, Z, VARIANCE, LENGTHSCALES)
    K, means, covariances = unwhitened(layer, s2)
    q = marginals(layer, 0.0, jnp.array(X))
    for p in range(P):
        m, v = sparse_conditional(VARIANCE + s2, Kxz, K, means[p], covariances[p])
        if layer.mean_weights is not None:
            m = m + X @ np.asarray(layer.mean_weights)[:, p]
        np.testing.assert_allclose(q.mean[:, p], m, atol=1e-10)
        np.testing.assert_allclose(q.variance[:, p], v, atol=1e-10)


def test_triangular_form_in_float32_agrees_with_float64(rng):
    layer = make_layer(rng)
    low = jax.tree.map(lambda a: jnp.asarray(np.asarray(a), jnp.float32), layer)
    X = rng.normal(size=(B, D))
    ours, exact = (
        marginals(low, 1e-6, jnp.array(X, jnp.float32)),
        marginals(layer, 1e-6, jnp.array(X)),
    )
    assert low.inducing.dtype == ours.mean.dtype == ours.variance.dtype == jnp.float32
    np.testing.assert_allclose(ours.mean, exact.mean, rtol=2e-4, atol=2e-4)
    np.testing.assert_allclose(ours.variance, exact.variance, rtol=2e-4, atol=2e-4)


def test_triangular_form_survives_what_cancels_in_float32(rng):
    """A dense, nearly singular Kzz: the float32 variance stays near the float64 one."""
    Z = np.linspace(-1, 1, 30)[:, None]
    layer = Layer(
        RBF.create(1),
        jnp.array(Z),
        jnp.zeros((30, 1)),
        1e-2 * jnp.eye(30)[None],
    )
    low = jax.tree.map(lambda a: jnp.asarray(np.asarray(a), jnp.float32), layer)
    X = rng.uniform(-1, 1, size=(50, 1))
    exact = marginals(layer, 1e-4, jnp.array(X)).variance
    ours = marginals(low, 1e-4, jnp.array(X, jnp.float32)).variance
    assert float(exact.max()) < 0.01
    np.testing.assert_allclose(ours, exact, atol=2e-4)


def test_at_the_prior_the_prior_comes_back(rng):
    """q(v) = N(0, I) integrates out to the GP's own prior, whatever Z is."""
    layer = replace(
        make_layer(rng), q_mean=jnp.zeros((M, P)), q_factor=jnp.tile(jnp.eye(M), (P, 1, 1))
    )
    X = rng.normal(size=(B, D))
    q = marginals(layer, 1e-6, jnp.array(X))
    np.testing.assert_allclose(q.mean, X @ np.asarray(layer.mean_weights), atol=1e-14)
    np.testing.assert_allclose(q.variance, VARIANCE + NOISE, rtol=1e-12)


def test_a_certain_q_at_its_own_inducing_points_has_no_variance(rng):
    """With S → 0 and no noise, f(Z) is u itself; rounding never makes the variance negative."""
    layer = replace(make_layer(rng, mean=False, noise=False), q_factor=jnp.full((P, M, M), 1e-12))
    q = marginals(layer, 0.0, layer.inducing)
    _, means, _ = unwhitened(layer, 0.0)
    np.testing.assert_allclose(q.mean, np.transpose(means), atol=1e-7)
    assert float(q.variance.min()) >= VARIANCE_FLOOR and float(q.variance.max()) < 1e-9


def test_inducing_gram_has_noise_and_jitter_on_its_diagonal(rng):
    layer = make_layer(rng)
    Z = np.asarray(layer.inducing)
    expected = rbf(Z, Z, VARIANCE, LENGTHSCALES) + (NOISE + 1e-3 * VARIANCE) * np.eye(M)
    np.testing.assert_allclose(inducing_gram(layer, 1e-3), expected, rtol=1e-12)


def test_kl_is_zero_at_the_prior_and_only_there(rng):
    layer = make_layer(rng)
    at_prior = replace(layer, q_mean=jnp.zeros((M, P)), q_factor=jnp.tile(jnp.eye(M), (P, 1, 1)))
    assert float(kl_from_prior(at_prior)) == 0.0
    assert float(kl_from_prior(replace(at_prior, q_mean=at_prior.q_mean + 0.1))) > 0.05
    assert float(kl_from_prior(replace(at_prior, q_factor=0.9 * at_prior.q_factor))) > 0.05
    # C and −C are factors of the same covariance.
    assert float(kl_from_prior(replace(at_prior, q_factor=-at_prior.q_factor))) == 0.0


def test_kl_equals_that_of_the_unwhitened_gaussians(rng):
    """KL does not change with coordinates: KL[N(Lm, LSLᵀ) ‖ N(0, Kzz)] for each output."""
    layer = make_layer(rng)
    K, means, covariances = unwhitened(layer)
    expected = sum(
        gaussian_kl(m, S, np.zeros(M), K) for m, S in zip(means, covariances, strict=True)
    )
    assert float(kl_from_prior(layer)) == pytest.approx(expected, rel=1e-9)


def test_gradients_are_finite_at_inducing_points_and_none_for_the_mean_function(rng):
    layer = make_layer(rng)

    @jax.jit
    @jax.grad
    def gradient(layer):
        q = marginals(layer, 1e-6, layer.inducing)
        return jnp.sum(jnp.sqrt(q.variance)) + jnp.sum(q.mean**2)

    slopes = gradient(layer)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    np.testing.assert_array_equal(slopes.mean_weights, 0)
    assert np.abs(slopes.q_mean).min() > 0 and float(slopes.log_noise) != 0
