"""The predictive mixture against sampling, integration and scipy."""

import numpy as np
import pytest
from scipy import stats

from dgp_core.gp import mixture as mixture_module
from dgp_core.gp.mixture import Mixture

LEVELS = np.array([0.025, 0.25, 0.5, 0.75, 0.975])


@pytest.fixture
def mixture(rng):
    return Mixture(2 * rng.standard_normal((7, 4, 2)), 10 ** rng.uniform(-2, 1, (7, 4, 2)))


@pytest.fixture
def draws(mixture, rng):
    """A sample of y that does not use `Mixture.sample` (D, N, P)."""
    which = rng.integers(7, size=100_000)
    noise = rng.standard_normal((100_000, 4, 2))
    return mixture.means[which] + np.sqrt(mixture.variances[which]) * noise


def test_moments_are_those_of_a_sample(mixture, draws):
    n = len(draws)
    assert np.all(np.abs(mixture.mean - draws.mean(0)) < 4.5 * draws.std(0) / np.sqrt(n))
    squares = (draws - draws.mean(0)) ** 2
    error = squares.std(0) / np.sqrt(n)
    assert np.all(np.abs(mixture.variance - draws.var(0)) < 4.5 * error)


def test_variance_splits_into_within_and_between(mixture):
    np.testing.assert_allclose(mixture.within + mixture.between, mixture.variance)
    certain = Mixture(mixture.means, np.zeros_like(mixture.means))
    np.testing.assert_allclose(certain.variance, mixture.means.var(0))
    agreed = Mixture(np.ones((3, 2, 1)), np.full((3, 2, 1), 0.7))
    np.testing.assert_allclose(agreed.between, 0.0, atol=1e-15)
    np.testing.assert_allclose(agreed.variance, 0.7)


def test_cdf_and_quantiles_are_those_of_a_sample(mixture, draws):
    q = mixture.quantile(LEVELS)
    assert q.shape == (5, 4, 2)
    share = (draws[None] < q[:, None]).mean(1)
    error = np.sqrt(LEVELS * (1 - LEVELS) / len(draws))[:, None, None]
    assert np.all(np.abs(share - LEVELS[:, None, None]) < 4.5 * error)
    np.testing.assert_allclose(mixture.cdf(q), np.broadcast_to(LEVELS[:, None, None], q.shape))
    np.testing.assert_allclose(mixture.cdf(q[1]), mixture.cdf(q)[1])


def test_log_density_is_the_slope_of_the_cdf_and_integrates_to_one(mixture):
    y = np.linspace(-30, 30, 6001)
    wide = np.broadcast_to(y[:, None, None], (6001, 4, 2))
    density = np.exp([mixture.log_density(row) for row in wide])
    np.testing.assert_allclose(np.trapezoid(density, y, axis=0), 1.0, rtol=1e-6)
    h = 1e-5
    slope = (mixture.cdf(mixture.mean + h) - mixture.cdf(mixture.mean - h)) / (2 * h)
    np.testing.assert_allclose(np.exp(mixture.log_density(mixture.mean)), slope, rtol=1e-7)


def test_one_component_is_scipys_normal(rng):
    m, v, y = (
        rng.standard_normal((1, 5, 2)),
        rng.uniform(0.1, 3, (1, 5, 2)),
        rng.normal(size=(5, 2)),
    )
    one, normal = Mixture(m, v), stats.norm(m[0], np.sqrt(v[0]))
    np.testing.assert_allclose(one.log_density(y), normal.logpdf(y))
    np.testing.assert_allclose(one.cdf(y), normal.cdf(y))
    for level, q in zip(LEVELS, one.quantile(LEVELS), strict=True):
        np.testing.assert_allclose(q, normal.ppf(level), rtol=1e-12, atol=1e-12)
    # The score of one Gaussian, as in Gneiting & Raftery (2007).
    z, s = (y - m[0]) / np.sqrt(v[0]), np.sqrt(v[0])
    known = s * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    np.testing.assert_allclose(one.crps(y), known, rtol=1e-12)


def test_log_density_is_the_mixtures_not_the_mean_of_logs():
    two = Mixture(np.array([-3.0, 3.0]).reshape(2, 1, 1), np.ones((2, 1, 1)))
    y = np.array([[3.0]])
    known = np.log(0.5 * stats.norm.pdf(0) + 0.5 * stats.norm.pdf(6))
    np.testing.assert_allclose(two.log_density(y), known)


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e9])
def test_quantiles_hold_for_far_apart_and_narrow_components(scale):
    m = scale * np.array([-1e4, 0.0, 1e-3, 50.0]).reshape(4, 1, 1)
    v = (scale * np.array([1e-6, 1e-3, 10.0, 1e-9])).reshape(4, 1, 1) ** 2
    mixture = Mixture(m, v)
    for level in (1e-6, 0.125, 0.3, 0.6, 0.7, 0.874, 0.99, 1 - 1e-6):
        q = mixture.quantile(level)
        # The cdf crosses the level within a few units of rounding of y.
        gap = 1e-14 * np.max(np.abs(m))
        assert mixture.cdf(q[0] - gap)[0, 0] <= level <= mixture.cdf(q[0] + gap)[0, 0]


def test_components_at_a_point_give_a_staircase():
    steps = Mixture(np.array([1.0, 2.0, 4.0, 4.0]).reshape(4, 1, 1), np.zeros((4, 1, 1)))
    np.testing.assert_allclose(steps.quantile([0.1, 0.4, 0.8])[:, 0, 0], [1.0, 2.0, 4.0])
    assert steps.cdf(np.array([[3.0]]))[0, 0] == 0.5
    np.testing.assert_allclose(steps.crps(np.array([[3.0]]))[0, 0], sample_crps([1, 2, 4, 4], 3.0))
    assert np.isfinite(steps.log_density(np.array([[3.0]]))).all()
    same = Mixture(np.full((3, 1, 1), 5.0), np.zeros((3, 1, 1)))
    assert same.quantile(0.9)[0, 0, 0] == 5.0


def sample_crps(values, y):
    """E|Y − y| − ½ E|Y − Y'| of equally likely values."""
    values = np.asarray(values, float)
    return np.abs(values - y).mean() - 0.5 * np.abs(values[:, None] - values[None]).mean()


def test_crps_is_the_integral_of_its_definition(mixture, rng, monkeypatch):
    """∫ (cdf(t) − 1[t ≥ y])² dt, and the same however the pairs are cut into blocks."""
    y = rng.standard_normal((4, 2))
    t = np.linspace(-40, 40, 20_001)
    cdf = mixture.cdf(np.broadcast_to(t[:, None, None], (20_001, 4, 2)))
    squared = (cdf - (t[:, None, None] >= y)) ** 2
    np.testing.assert_allclose(mixture.crps(y), np.trapezoid(squared, t, axis=0), atol=4e-3)
    whole = mixture.crps(y)
    monkeypatch.setattr(mixture_module, "PAIR_BUDGET", 17)
    np.testing.assert_allclose(mixture.crps(y), whole, rtol=1e-12)


def test_affine_changes_units(mixture, rng):
    y, scale, shift = rng.standard_normal((4, 2)), np.array([2.0, -0.5]), np.array([1.0, 3.0])
    moved = mixture.affine(scale, shift)
    np.testing.assert_allclose(moved.mean, mixture.mean * scale + shift)
    np.testing.assert_allclose(moved.variance, mixture.variance * scale**2)
    changed = mixture.log_density(y) - np.log(np.abs(scale))
    np.testing.assert_allclose(moved.log_density(y * scale + shift), changed)
    np.testing.assert_allclose(moved.crps(y * scale + shift), mixture.crps(y) * np.abs(scale))


def test_draws_follow_the_cdf(mixture, rng):
    y = mixture.sample(rng, 4000)
    for n, p in np.ndindex(4, 2):
        one = Mixture(
            mixture.means[:, n : n + 1, p : p + 1], mixture.variances[:, n : n + 1, p : p + 1]
        )
        share = one.cdf(y[:, n : n + 1, p : p + 1])[:, 0, 0]
        assert stats.kstest(share, "uniform").pvalue > 1e-4


def test_bad_input_is_refused_with_a_word(mixture):
    with pytest.raises(ValueError, match="one shape"):
        Mixture(np.zeros((3, 2, 1)), np.zeros((3, 2)))
    for level in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            mixture.quantile([0.5, level])
    assert Mixture(np.zeros((1, 1, 1)), np.full((1, 1, 1), -1e-18)).variance[0, 0] == 0.0
