"""Models by hand, against the library's own kernels, exact and sparse GPs, and quadrature."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from dgp_core.gp.kernels import RBF, Matern12, Matern32
from dgp_core.gp.references import ExactGP
from dgp_core.live.views.by_hand import (
    GRID,
    Settings,
    bound_by_hand,
    composition,
    correlation,
    exact_by_hand,
    gp_by_hand,
    place_inducing,
    sparse_by_hand,
)
from tests.core import textbook

pytestmark = pytest.mark.usefixtures("quick_compilation")

POINTS = ((-2.0, -1.0), (-0.5, 0.8), (-0.5, 0.4), (1.5, 0.3))


@pytest.mark.parametrize(
    ("name", "kind"), [("rbf", RBF), ("matern32", Matern32), ("matern12", Matern12)]
)
def test_correlations_are_the_kernels(name, kind, rng):
    kernel = kind.create(1)
    scale = float(kernel.lengthscales[0])
    x = np.sort(rng.standard_normal(9))
    ours = correlation(name, x[:, None] - x[None], scale)
    theirs = kernel.gram(jnp.asarray(x[:, None]), jnp.asarray(x[:, None])) / kernel.variance
    assert np.allclose(ours, theirs, atol=1e-12)


def test_the_exact_gp_is_the_reference(rng):
    X, y = np.array(POINTS)[:, :1], np.array(POINTS)[:, 1:]
    at = [int(np.argmin(np.abs(GRID - x))) for x in X[:, 0]]
    kernel = RBF.create(1, 1.0, 0.7)
    exact = ExactGP(kernel, jnp.asarray(0.04), jnp.asarray(GRID[at][:, None]), jnp.asarray(y))
    seen = gp_by_hand("rbf", 0.7, 0.2, POINTS)
    theirs = exact.predict_latent(GRID[:, None])
    assert np.allclose(seen.mean, theirs.means[0, :, 0], atol=1e-10)
    assert np.allclose(seen.sd**2, theirs.variances[0, :, 0], atol=1e-10)
    assert np.isclose(seen.evidence, exact.evidence)


def test_draws_have_the_law_of_the_posterior():
    seen = gp_by_hand("matern32", 1.0, 0.3, POINTS, seed=1, n_draws=4000)
    assert np.allclose(seen.prior.mean(0), 0, atol=0.07)
    assert np.allclose(seen.prior.std(0), 1, atol=0.05)
    assert np.allclose(seen.draws.mean(0), seen.mean, atol=0.07)
    assert np.allclose(seen.draws.std(0), seen.sd, atol=0.05)


def test_a_draw_keeps_its_shape_where_no_point_is_near():
    before, after = gp_by_hand("rbf", 0.3, 0.1), gp_by_hand("rbf", 0.3, 0.1, ((-2.0, 1.0),))
    far = GRID > 0
    assert np.allclose(before.draws[:, far], after.draws[:, far], atol=1e-6)
    assert np.array_equal(before.prior, after.prior)


@pytest.mark.parametrize("placement", ["evenly", "random", "crowded"])
def test_the_sparse_gp_is_the_reference(placement, rng):
    x = np.sort(rng.uniform(0, 10, 30))
    y = np.sin(x) + 0.3 * rng.standard_normal(30)
    at = Settings(deviation=1.2, lengthscale=1.1, noise=0.3)
    Z = place_inducing(x, 8, placement)
    assert len(Z) == 8 and x.min() <= Z.min() and Z.max() <= x.max()
    exact = exact_by_hand(x, y, at, 20)
    sparse = sparse_by_hand(x, y, Z, at, exact.x)
    kernel = RBF.create(1, at.deviation**2, at.lengthscale)
    noise = jnp.asarray(at.noise**2)
    X, Y = jnp.asarray(x[:, None]), jnp.asarray(y[:, None])
    Kxz, Kzz, Knz = (
        textbook.rbf(a[:, None], Z[:, None], at.deviation**2, at.lengthscale)
        for a in (x, Z, exact.x)
    )
    Kzz = Kzz + 1e-8 * at.deviation**2 * np.eye(8)
    prior = at.deviation**2
    bound = textbook.collapsed_bound(np.full(30, prior), Kxz, Kzz, y, at.noise**2)
    assert np.isclose(sparse.bound, bound, rtol=1e-5)
    m, S = textbook.optimal_q(Kxz, Kzz, y, at.noise**2)
    assert np.allclose(sparse.u_mean, m, atol=1e-5)
    assert np.allclose(sparse.u_sd**2, np.diagonal(S), atol=1e-5)
    mean, variance = textbook.sparse_conditional(np.full(len(exact.x), prior), Knz, Kzz, m, S)
    assert np.allclose(sparse.mean, mean, atol=1e-5)
    assert np.allclose(sparse.sd**2, variance, atol=1e-5)
    judge = ExactGP(kernel, noise, X, Y)
    assert np.isclose(exact.evidence, judge.evidence)
    theirs = judge.predict_latent(exact.x[:, None])
    assert np.allclose(exact.mean, theirs.means[0, :, 0]) and sparse.bound < exact.evidence
    assert np.allclose(exact.sd**2, theirs.variances[0, :, 0], atol=1e-10)


def test_a_composition_is_the_second_layer_after_the_first():
    drawn = composition(3, 4, n_grid=4001)
    again = np.interp(drawn.first, drawn.h, drawn.second)
    assert np.allclose(drawn.composed, again, atol=1e-5)
    # Slopes multiply.
    slope = np.gradient(drawn.composed, drawn.x)
    outer = np.interp(drawn.first, drawn.h, np.gradient(drawn.second, drawn.h))
    inner = np.gradient(drawn.first, drawn.x)
    assert np.allclose(slope[5:-5], (outer * inner)[5:-5], atol=0.02 * np.abs(slope).max())


def test_layers_are_redrawn_one_at_a_time():
    a, b = composition(0, 0), composition(0, 1)
    assert np.array_equal(a.first, b.first) and not np.allclose(a.second, b.second)
    plain, bent = composition(0, 0, "zero"), composition(0, 0, "linear")
    assert np.allclose(bent.first, bent.x + plain.first)
    draws = np.array([composition(seed, 0, "zero", n_grid=5).first for seed in range(400)])
    assert np.allclose(draws.mean(0), 0, atol=0.15) and np.allclose(draws.std(0), 1, atol=0.12)


@pytest.mark.parametrize(("mean", "sd"), [(0.0, 1.0), (1.2, 0.45), (-1.0, 0.2)])
def test_the_bound_of_one_unknown_by_quadrature(mean, sd):
    y, noise = 1.5, 0.5
    u = np.linspace(mean - 12 * sd, mean + 12 * sd, 20001)
    q = norm.pdf(u, mean, sd)
    fit = np.trapezoid(q * norm.logpdf(y, u, noise), u)
    kl = np.trapezoid(q * (norm.logpdf(u, mean, sd) - norm.logpdf(u)), u)
    parts = bound_by_hand(y, noise, mean, sd)
    assert np.allclose([parts.fit, parts.kl, parts.bound], [fit, kl, fit - kl], atol=1e-9)
    assert parts.bound < parts.evidence
    best = bound_by_hand(y, noise, parts.best_mean, parts.best_sd)
    assert np.isclose(best.bound, parts.evidence, atol=1e-12)
