"""The mean-field posterior: its bound against the textbook, quadrature and brute force."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import norm as gaussian
from scipy.stats import qmc

from dgp_core.gp.layers import inducing_gram
from dgp_core.gp.mean_field import MOST_ROWS
from dgp_core.gp.model import ModelSpec, bound, create_model, weighted_bound
from dgp_core.training.optimise import create_state
from dgp_core.training.train import Rows, TrainSpec, train_chunk
from tests.core.textbook import (
    expected_gaussian,
    gaussian_kl,
    rbf,
    sparse_conditional,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
SPEC = ModelSpec(layers=2, inducing=4, posterior="mean_field")
whole_bound = jax.jit(bound)


def stirred(model, rng, size=0.3):
    """The model with every leaf moved at random, and more noise between layers."""
    moved = jax.tree.map(lambda a: a + size * rng.normal(size=a.shape), model)
    first, last = moved.layers
    weights, noise = model.layers[0].mean_weights, jnp.asarray(np.log(0.2))
    return replace(moved, layers=(replace(first, log_noise=noise, mean_weights=weights), last))


def test_a_gaussian_for_every_row_and_inner_output(rng):
    X = rng.normal(size=(30, 3))
    model = create_model(ModelSpec(layers=3, inducing=5, widths=(3, 2), posterior="mean_field"), X)
    numbers = sum(leaf.size for leaf in jax.tree.leaves(model.hidden))
    assert numbers == 2 * 30 * (3 + 2)  # 2N(D¹ + … + D^{L−1})
    np.testing.assert_array_equal(model.hidden[0].mean, X)  # where the layer's mean function is
    assert create_model(replace(SPEC, posterior="doubly_stochastic"), X).hidden == ()


def test_a_single_layer_is_the_plain_model(rng):
    X, Y = rng.normal(size=(2, 8, 1))
    plain = create_model(ModelSpec(layers=1, inducing=4), X)
    one = create_model(replace(SPEC, layers=1), X)
    assert jax.tree.structure(one) == jax.tree.structure(plain)
    np.testing.assert_array_equal(
        whole_bound(one, X, Y, KEY, 8).value, whole_bound(plain, X, Y, KEY, 8).value
    )


# ------------------------------------------------------------------- the bound


@pytest.fixture(scope="module")
def tiny():
    """Five rows, two layers, every parameter away from its start."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-2, 2, (5, 1))
    return stirred(create_model(SPEC, X), rng), X, np.sin(2 * X)


def q_of_u(layer):
    """Kzz and q(u) with its mean function taken off, unwhitened."""
    K = np.asarray(inducing_gram(layer, 1e-6))
    L = np.linalg.cholesky(K)
    return K, L @ np.asarray(layer.q_mean)[:, 0], L @ np.asarray(layer.covariance)[0] @ L.T


def marginals(layer, x):
    """Mean and variance of f without noise at x (N,)."""
    K, m, S = q_of_u(layer)
    v, l = float(layer.kernel.variance), float(layer.kernel.lengthscales[0])
    Kxz = rbf(x[:, None], np.asarray(layer.inducing), v, l)
    mean, variance = sparse_conditional(np.full(len(x), v), Kxz, K, m, S)
    return mean + (0 if layer.mean_weights is None else x), variance


def textbook_bound(model, X, Y, degree=40):
    """Expected log densities of y and h, the entropy of q(h), less KL[q(u) ‖ p(u)].

    Integrals over h and over f¹ by Gauss–Hermite quadrature, each term as it is defined.
    """
    z, w = hermegauss(degree)
    w = w / w.sum()
    first, last = model.layers
    noise, sy = float(first.noise), float(model.likelihood.variance[0])
    m, s = (np.asarray(a)[:, 0] for a in (model.hidden[0].mean, model.hidden[0].variance))
    mean, variance = marginals(first, X[:, 0])
    total = 0.0
    for n, y in enumerate(Y[:, 0]):
        h = m[n] + np.sqrt(s[n]) * z
        f1 = mean[n] + np.sqrt(variance[n]) * z
        density_h = gaussian.logpdf(h[:, None], f1[None], np.sqrt(noise))
        f2_mean, f2_variance = marginals(last, h)
        total += w @ expected_gaussian(y, sy, f2_mean, f2_variance)
        total += w @ density_h @ w
        total -= w @ gaussian.logpdf(h, m[n], np.sqrt(s[n]))
    for layer in model.layers:
        K, m_u, S_u = q_of_u(layer)
        total -= gaussian_kl(m_u, S_u, np.zeros(len(m_u)), K)
    return total


@jax.jit
def _bounds(model, X, Y, keys):
    return jax.lax.map(lambda key: bound(model, X, Y, key, len(X)).value, keys)


def sampled_bounds(model, X, Y, n=2000):
    """The bound from n samples, each by itself."""
    model = jax.tree.map(jnp.asarray, model)
    return np.asarray(_bounds(model, X, Y, jax.random.split(KEY, n)))


def test_the_bound_is_the_textbooks(tiny):
    """The sampled bound, within three standard errors of quadrature; its two parts add up."""
    model, X, Y = tiny
    each = sampled_bounds(model, X, Y)
    error = each.std() / np.sqrt(len(each))
    assert error < 0.1
    assert abs(each.mean() - textbook_bound(model, X, Y)) < 3 * error


def test_the_gradient_by_finite_differences(tiny):
    """Along random directions: of all parameters but the frozen mean function, and of q(h)."""
    model, X, Y = tiny
    value = jax.jit(lambda m: weighted_bound(m, X, Y, jnp.ones(5), KEY, 5, 2).value)
    gradient = jax.tree.map(np.asarray, jax.jit(jax.grad(value))(model))
    rng, step = np.random.default_rng(0), 1e-5
    drawn = jax.tree.map(lambda a: rng.normal(size=a.shape), model)
    frozen = replace(drawn.layers[0], mean_weights=np.zeros((1, 1)))
    everything = replace(drawn, layers=(frozen, drawn.layers[1]))
    hidden = replace(jax.tree.map(np.zeros_like, drawn), hidden=drawn.hidden)
    for direction in (everything, hidden):
        up, down = (
            value(jax.tree.map(lambda a, d, h=h: a + h * d, model, direction))
            for h in (step, -step)
        )
        slopes = jax.tree.map(lambda g, d: np.sum(g * d), gradient, direction)
        np.testing.assert_allclose(
            sum(jax.tree.leaves(slopes)), (up - down) / (2 * step), rtol=2e-6
        )


def test_padding_and_weights(tiny):
    """Rows of no weight change nothing, and a weight of two is a row twice."""
    model, X, Y = tiny
    rows = Rows.create(X, Y, None, jnp.float64, 0)
    assert len(rows.X) > 5
    padded = weighted_bound(model, rows.X, rows.Y, rows.weight, KEY, 5)
    plain = whole_bound(model, X, Y, KEY, 5)
    np.testing.assert_allclose(padded.value, plain.value, rtol=1e-12)
    doubled = weighted_bound(model, X, Y, 2 * jnp.ones(5), KEY, 5)
    np.testing.assert_allclose(doubled.fit, 2 * plain.fit, rtol=1e-12)


# ------------------------------------------------------------------- brute force


@pytest.fixture(scope="module")
def fitted():
    """Five rows with an inducing point each, trained until the bound rests."""
    X = np.linspace(-1.5, 1.5, 5)[:, None]
    Y = np.array([[-1.0], [-0.9], [0.0], [0.9], [1.0]])
    found = []
    for posterior in ("mean_field", "doubly_stochastic"):
        spec = replace(SPEC, inducing=5, posterior=posterior)
        rows = Rows.create(X, Y, None, jnp.float64, 0)
        state = create_state(create_model(spec, X), KEY)
        train = TrainSpec(steps=600, learning_rate=0.03, minibatch=None, samples=5)
        state, _ = train_chunk(state, rows, train, 600)
        found.append(jax.tree.map(np.asarray, state.model))
    return X, Y, found


def exact(model, X, Y, n=1 << 15):
    """The log evidence, and the posterior's mean and standard deviation of every h_n.

    h ~ N(w(X), K¹ + σ₁²I) by Sobol points around what the layers have found; given h, y has the
    density of an exact GP.
    """
    first, last = model.layers
    x, y, N = X[:, 0], Y[:, 0], len(X)

    v, l = float(first.kernel.variance), float(first.kernel.lengthscales[0])
    K1 = rbf(X, X, v, l) + float(first.noise) * np.eye(N)
    L1 = np.linalg.cholesky(K1)
    z = gaussian.ppf(qmc.Sobol(N, seed=0).random(n).clip(1e-12, 1 - 1e-12))
    h = x + z @ L1.T
    l = float(last.kernel.lengthscales[0])
    K2 = float(last.kernel.variance) * np.exp(-0.5 * ((h[:, :, None] - h[:, None]) / l) ** 2)
    C = K2 + float(model.likelihood.variance[0]) * np.eye(N)
    log_weight = -0.5 * (
        N * np.log(2 * np.pi)
        + np.linalg.slogdet(C)[1]
        + np.einsum("i,nij,j->n", y, np.linalg.inv(C), y)
    )
    top = log_weight.max()
    w = np.exp(log_weight - top)
    evidence = top + np.log(w.mean())
    w = w / w.sum()
    mean = w @ h
    return evidence, mean, np.sqrt(w @ (h - mean) ** 2), 1 / np.sum(w**2)


def test_the_bound_lies_below_the_evidence_by_brute_force(fitted):
    X, Y, models = fitted
    for model in models:
        evidence, _, _, effective = exact(model, X, Y)
        assert effective > 300
        value = sampled_bounds(model, X, Y).mean()
        assert value < evidence - 0.01
        assert value > evidence - 10  # and not far


def test_q_of_h_is_the_brute_force_posterior_but_surer(fitted):
    """Mean-field finds the posterior's means, and a spread that is a fifth to a third too small."""
    X, Y, (model, _) = fitted
    _, mean, sd, _ = exact(model, X, Y)
    q_mean = np.asarray(model.hidden[0].mean)[:, 0]
    q_sd = np.exp(0.5 * np.asarray(model.hidden[0].log_variance)[:, 0])
    assert np.all(np.abs(q_mean - mean) < 0.1 * sd)
    assert np.all((0.65 < q_sd / sd) & (q_sd / sd < 0.85))


def test_what_it_refuses(rng, tiny):
    X = np.zeros((MOST_ROWS + 1, 1))
    with pytest.raises(ValueError, match="10,000 rows at the most, not 10,001"):
        create_model(SPEC, X)
    with pytest.raises(ValueError, match="no posterior 'tied'"):
        ModelSpec(posterior="tied")  # pyright: ignore[reportArgumentType]
    model, X, Y = tiny
    state = create_state(model, KEY)
    with pytest.raises(ValueError, match="minibatch to None"):
        train_chunk(state, Rows.create(X, Y, 2, jnp.float64, 0), TrainSpec(minibatch=2), 1)
    with pytest.raises(ValueError, match="this model has 5, and 4 were given"):
        train_chunk(state, Rows.create(X[:4], Y[:4], None, jnp.float64, 0), TrainSpec(), 1)
