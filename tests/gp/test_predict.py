"""Predictions against Monte Carlo in plain numpy, dense algebra, and the mixture's own formulas."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.linalg import cholesky
from scipy.stats import norm

from dgp_core.gp import predict
from dgp_core.gp.layers import VARIANCE_FLOOR
from dgp_core.gp.likelihoods import LIKELIHOODS
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import JITTER, ModelSpec, create_model
from dgp_core.gp.predict import (
    MOST_DRAWN_ROWS,
    class_probabilities,
    function_draws,
    layer_views,
    log_density,
    predict_latent,
    predict_observed,
    prior_draws,
)
from tests.core.textbook import rbf, sparse_conditional

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(3)


def stirred(seed=0, size=0.3, n_inputs=1, n_outputs=1, n_classes=2, **spec):
    """A model of few inducing points with every leaf moved at random, away from its start."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (30, n_inputs))
    spec = {"layers": 2, "inducing": 6, **spec}
    model = create_model(ModelSpec(**spec), X, n_outputs, n_classes)
    moved = jax.tree.map(
        lambda a: jnp.asarray(np.asarray(a) + size * rng.normal(size=a.shape)), model
    )
    # Noise between layers and wide inner q(u), so that sample paths differ.
    inner = [
        replace(l, log_noise=jnp.asarray(np.log(0.05)), q_factor=0.5 * jnp.tril(l.q_factor + 0.3))
        for l in moved.layers[:-1]
    ]
    return replace(moved, layers=(*inner, moved.layers[-1]))


def dense(layer):
    """Z, Kzz, and the moments of q(u) of a layer's first output, in numpy."""
    Z = np.asarray(layer.inducing)
    v, l = np.exp(layer.kernel.log_variance), np.exp(layer.kernel.log_lengthscales)
    noise = 0.0 if layer.log_noise is None else np.exp(layer.log_noise)
    Kzz = rbf(Z, Z, v, l) + (noise + JITTER * v) * np.eye(len(Z))
    L, C = cholesky(Kzz), np.tril(layer.q_factor)
    return Z, Kzz, L @ np.asarray(layer.q_mean), np.stack([L @ c @ c.T @ L.T for c in C]), noise


def dense_conditional(layer, H):
    """Mean and variance (N, P) of a layer's outputs at H, by the textbook."""
    Z, Kzz, m, S, noise = dense(layer)
    v, l = np.exp(layer.kernel.log_variance), np.exp(layer.kernel.log_lengthscales)
    Kxz, kxx = rbf(H, Z, v, l), np.full(len(H), v)
    parts = [sparse_conditional(kxx, Kxz, Kzz, m[:, p], S[p]) for p in range(m.shape[1])]
    mean, variance = (np.stack(part, 1) for part in zip(*parts, strict=True))
    w = 0.0 if layer.mean_weights is None else H @ np.asarray(layer.mean_weights)
    return mean + w, np.maximum(variance + noise, VARIANCE_FLOOR)


def within(sample_mean, sample_sd, n, expected, errors=5.0):
    """Whether means of n draws lie within so many standard errors of what they should be."""
    return np.all(np.abs(sample_mean - expected) < errors * sample_sd / np.sqrt(n) + 1e-9)


@pytest.mark.parametrize("shared", [False, True])
def test_the_mixture_is_the_papers(rng, shared):
    """(1/S) Σ_s q(f|f̂_s) against 200,000 paths drawn in numpy."""
    model = stirred(n_inputs=2, widths=2)
    X = rng.uniform(-2, 2, (3, 2))
    mixture = predict_latent(model, X, KEY, 4000, shared=shared)
    assert mixture.means.shape == (4000, 3, 1)
    mean, variance = dense_conditional(model.layers[0], X)
    n = 200_000
    for i in range(3):
        H = mean[i] + np.sqrt(variance[i]) * rng.standard_normal((n, 2))
        m, v = dense_conditional(model.layers[1], H)
        f = (m + np.sqrt(v) * rng.standard_normal((n, 1)))[:, 0]
        spread = mixture.means[:, i, 0].std()
        assert spread > 0.05
        assert within(mixture.mean[i, 0], spread, 4000, f.mean())
        np.testing.assert_allclose(mixture.variance[i, 0], f.var(), rtol=0.05)
        # The whole law, not the moments alone.
        y = np.quantile(f, [0.05, 0.3, 0.7, 0.95])
        cdf = [mixture.cdf(np.full((3, 1), value))[i, 0] for value in y]
        np.testing.assert_allclose(cdf, [0.05, 0.3, 0.7, 0.95], atol=0.02)


def test_one_layer_is_one_gaussian(rng):
    model = stirred(layers=1, n_outputs=2)
    X = rng.uniform(-3, 3, (7, 1))
    mixture = predict_latent(model, X, KEY, 50)
    mean, variance = dense_conditional(model.layers[0], X)
    assert mixture.means.shape == (1, 7, 2)
    np.testing.assert_allclose(mixture.mean, mean, atol=1e-8)
    np.testing.assert_allclose(mixture.variance, variance, atol=1e-8)


def test_padding_and_company_change_nothing(rng):
    model = stirred()
    X = rng.uniform(-2, 2, (16, 1))
    whole = predict_latent(model, X, KEY, 8)
    fewer = predict_latent(model, X[:11], KEY, 8)  # padded to the same 16 rows
    np.testing.assert_allclose(fewer.means, whole.means[:, :11], atol=1e-10)
    np.testing.assert_allclose(fewer.variances, whole.variances[:, :11], atol=1e-10)
    together = predict_latent(model, X, KEY, 8, shared=True)
    alone = predict_latent(model, X[12:13], KEY, 8, shared=True)
    np.testing.assert_allclose(alone.means, together.means[:, 12:13], atol=1e-10)


def test_many_rows_go_in_blocks(rng, monkeypatch):
    model = stirred()
    X = rng.uniform(-2, 2, (20, 1))
    whole = predict_latent(model, X, KEY, 8, shared=True)
    monkeypatch.setattr(predict, "ROWS_AT_ONCE", 8)
    blocks = predict_latent(model, X, KEY, 8, shared=True)
    np.testing.assert_allclose(blocks.means, whole.means, atol=1e-10)
    # Rows that do not share their ε get new ones in every block.
    same = predict_latent(model, np.repeat(X[:1], 16, 0), KEY, 8)
    assert not np.allclose(same.means[:, 0], same.means[:, 8])


def test_log_density_is_the_gaussian_mixtures_own(rng):
    model = stirred(n_outputs=2)
    X, Y = rng.uniform(-2, 2, (5, 1)), rng.normal(size=(5, 2))
    latent = predict_latent(model, X, KEY, 20)
    noise = np.exp(model.likelihood.log_variance)
    observed = predict_observed(model, latent)
    np.testing.assert_allclose(observed.means, latent.means, atol=1e-12)
    np.testing.assert_allclose(observed.variances, latent.variances + noise, atol=1e-12)
    # Outputs of one path are independent, so its densities multiply; then paths are averaged.
    densities = norm.pdf(Y[None], observed.means, np.sqrt(observed.variances)).prod(2)
    np.testing.assert_allclose(log_density(model, latent, Y), np.log(densities.mean(0)))
    one = Mixture(latent.means[:, :, :1], observed.variances[:, :, :1])
    alone = replace(model, likelihood=LIKELIHOODS["gaussian"](model.likelihood.log_variance[:1]))
    first = Mixture(latent.means[:, :, :1], latent.variances[:, :, :1])
    np.testing.assert_allclose(
        log_density(alone, first, Y[:, :1]), one.log_density(Y[:, :1])[:, 0], atol=1e-10
    )


@pytest.mark.parametrize(
    ("likelihood", "n_classes"), [("bernoulli", 2), ("robust_max", 3), ("softmax", 4)]
)
def test_class_probabilities_sum_to_one_and_agree_with_the_density(rng, likelihood, n_classes):
    model = stirred(likelihood=likelihood, n_classes=n_classes)
    latent = predict_latent(model, rng.uniform(-2, 2, (6, 1)), KEY, 10)
    p = class_probabilities(model, latent)
    assert p.shape == (6, n_classes) and (p > 0).all()
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    for c in range(n_classes):
        density = log_density(model, latent, np.full((6, 1), c))
        np.testing.assert_allclose(np.exp(density), p[:, c], rtol=1e-5)


@pytest.mark.parametrize("mean_function", ["linear", "zero", "concatenate"])
def test_function_draws_have_the_mixtures_marginals(rng, mean_function):
    model = stirred(mean_function=mean_function, size=0.2)
    # Draws leave the noise between layers out, so it has to be small here.
    inner = replace(model.layers[0], log_noise=jnp.asarray(np.log(1e-8)))
    model = replace(model, layers=(inner, model.layers[1]))
    X = np.linspace(-2, 2, 6)[:, None]
    n = 4000
    draws = function_draws(model, X, KEY, n)
    assert [d.shape for d in draws] == [(n, 6, 1), (n, 6, 1)]
    mixture = predict_latent(model, X, KEY, n)
    sd = np.sqrt(mixture.variance)
    assert within(draws[-1].mean(0), sd, n, mixture.mean, errors=7)  # both sides are sampled
    np.testing.assert_allclose(draws[-1].std(0), sd, rtol=0.08)
    first, variance = dense_conditional(model.layers[0], X)
    assert within(draws[0].mean(0), np.sqrt(variance), n, first)
    np.testing.assert_allclose(draws[0].std(0), np.sqrt(variance), rtol=0.08)


def test_function_draws_are_continuous():
    model = stirred()
    X = np.linspace(-1, 1, 161)[:, None]
    F = function_draws(model, X, KEY, 5)[-1]
    steps = [np.abs(np.diff(F[:, ::every], axis=1)).max() for every in (16, 4, 1)]
    assert steps[1] < 0.5 * steps[0] and steps[2] < 0.5 * steps[1]


def test_a_draw_stays_the_same_and_moves_only_as_far_as_the_parameters():
    model = stirred()
    X = np.linspace(-2, 2, 20)[:, None]
    first, again = (function_draws(model, X, KEY, 3)[-1] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    other = function_draws(model, X, jax.random.key(4), 3)[-1]
    nudged = jax.tree.map(lambda a: a + 1e-4, model)
    moved = function_draws(nudged, X, KEY, 3)[-1]
    assert 0 < np.abs(moved - first).max() < 0.02 * np.abs(other - first).max()


def test_prior_draws_of_one_layer_have_the_kernels_covariance():
    model = stirred(layers=1)
    X = np.linspace(-2, 2, 5)[:, None]
    n = 20_000
    F = prior_draws(model, X, KEY, n)[-1][:, :, 0]
    kernel = model.layers[0].kernel
    K = rbf(X, X, np.exp(kernel.log_variance), np.exp(kernel.log_lengthscales))
    # The standard error of a covariance of Gaussians is √((K_ii K_jj + K_ij²)/n).
    error = np.sqrt((np.outer(np.diag(K), np.diag(K)) + K**2) / n)
    assert (np.abs(F.T @ F / n - K) < 5 * error).all()
    assert within(F.mean(0), np.sqrt(np.diag(K)), n, 0)


def test_layer_views_against_dense_algebra():
    model = stirred()
    X = np.linspace(-2, 2, 9)[:, None]
    views = layer_views(model, X, KEY, n_draws=4, n_grid=17)
    draws = function_draws(model, X, KEY, 4)
    np.testing.assert_array_equal(views[0].entering, np.broadcast_to(X, (4, 9, 1)))
    np.testing.assert_array_equal(views[0].leaving, draws[0])
    np.testing.assert_array_equal(views[1].entering, draws[0])
    np.testing.assert_array_equal(views[1].leaving, draws[1])
    for view, layer in zip(views, model.layers, strict=True):
        Z, Kzz, m, S, noise = dense(layer)
        w = 0.0 if layer.mean_weights is None else np.asarray(layer.mean_weights)
        np.testing.assert_array_equal(view.inducing, Z)
        np.testing.assert_allclose(view.u_mean, m + Z @ np.reshape(w, (1, -1)), atol=1e-10)
        np.testing.assert_allclose(view.u_sd[:, 0], np.sqrt(np.diag(S[0])), atol=1e-10)
        assert view.grid is not None and view.map_sd is not None and view.grid.shape == (17,)
        assert view.grid[0] < view.entering.min() and view.grid[-1] > view.entering.max()
        mean, variance = dense_conditional(layer, view.grid[:, None])
        np.testing.assert_allclose(view.map_mean, mean, atol=1e-8)
        np.testing.assert_allclose(view.map_sd, np.sqrt(variance), atol=1e-7)
        H = view.entering.reshape(-1, 1)
        straight = H @ np.reshape(w, (1, -1))
        added = np.mean((dense_conditional(layer, H)[0] - straight) ** 2)
        expected = np.sqrt(added / (added + np.mean(straight**2)))
        np.testing.assert_allclose(view.departure, expected, atol=1e-8)
        np.testing.assert_allclose(view.lengthscales[0], np.exp(layer.kernel.log_lengthscales))
        np.testing.assert_allclose(view.prior_variance, np.exp(layer.kernel.log_variance))
        np.testing.assert_allclose(view.noise, noise)


def test_an_untouched_identity_layer_has_not_departed():
    X = np.linspace(-2, 2, 9)[:, None]
    model = create_model(ModelSpec(inducing=5), X)
    inner, last = layer_views(model, X, KEY, n_draws=3)
    assert inner.departure == 0.0
    # With a mean of zero everything is departure, but for a layer that is zero itself.
    assert last.departure == 0.0
    moved = replace(model.layers[1], q_mean=jnp.ones_like(model.layers[1].q_mean))
    model = replace(model, layers=(model.layers[0], moved))
    assert layer_views(model, X, KEY, n_draws=3)[1].departure == 1.0


def test_concatenated_inputs_reach_every_layer(rng):
    model = stirred(n_inputs=2, layers=3, mean_function="concatenate")
    X = rng.uniform(-2, 2, (5, 2))
    views = layer_views(model, X, KEY, n_draws=3)
    assert [v.entering.shape[2] for v in views] == [2, 4, 4]
    np.testing.assert_array_equal(views[2].entering[:, :, 2:], np.broadcast_to(X, (3, 5, 2)))
    assert all(v.grid is None for v in views)
    mixture = predict_latent(model, X, KEY, 7)
    assert mixture.means.shape == (7, 5, 1) and np.isfinite(mixture.means).all()


def test_too_many_rows_to_draw_at():
    with pytest.raises(ValueError, match="Thin the rows"):
        function_draws(stirred(), np.zeros((MOST_DRAWN_ROWS + 1, 1)), KEY)


def test_a_model_without_a_covariance_says_so():
    model = stirred()
    broken = replace(model.layers[0], inducing=model.layers[0].inducing * np.nan)
    with pytest.raises(ValueError, match="cannot predict"):
        predict_latent(replace(model, layers=(broken, model.layers[1])), np.zeros((2, 1)), KEY)


def test_class_probabilities_of_many_rows_fit_in_little_memory():
    latent = jax.ShapeDtypeStruct((100, 1000, 10), jnp.float64)
    program = predict._class_probabilities.lower(
        LIKELIHOODS["robust_max"].create(10), latent, latent
    )
    assert program.compile().memory_analysis().temp_size_in_bytes < 100e6
