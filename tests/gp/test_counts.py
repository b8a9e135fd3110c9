"""Laws of counts against SciPy's own, and the test of overdispersion against rows made to order."""

import numpy as np
import pytest
from scipy import stats

from dgp_core.estimator import DeepGPRegressor
from dgp_core.gp.counts import (
    count_cdf,
    count_log_probability,
    dispersion,
    draw_counts,
)
from dgp_core.gp.likelihoods import count_offset

pytestmark = pytest.mark.usefixtures("quick_compilation")

Y = np.array([0.0, 1.0, 7.0, 40.0])
RATE = np.array([0.2, 3.0, 5.0, 60.0])


@pytest.mark.parametrize("size", [np.inf, 0.7, 25.0])
def test_laws_are_scipys(size):
    law = stats.poisson(RATE) if np.isinf(size) else stats.nbinom(size, size / (size + RATE))
    np.testing.assert_allclose(count_cdf(Y, RATE, size), law.cdf(Y), rtol=1e-10)
    assert count_cdf(np.array([-1.0]), np.ones(1), size) == 0
    np.testing.assert_allclose(
        count_log_probability(Y, np.log(RATE), size), law.logpmf(Y), rtol=1e-9, atol=1e-12
    )
    drawn = draw_counts(np.random.default_rng(0), np.log(np.tile(RATE, (20_000, 1))), size)
    np.testing.assert_allclose(drawn.mean(0), law.mean(), rtol=0.05)
    np.testing.assert_allclose(drawn.var(0), law.var(), rtol=0.1)


def test_no_rate_is_too_large_to_draw():
    drawn = draw_counts(np.random.default_rng(0), np.full((3, 1), 1e6), np.array([1.0]))
    assert np.isfinite(drawn).all()


def rows(rng, n_inputs, mean, r):
    """300 rows whose rate changes by a factor of four with the first input."""
    X = rng.standard_normal((300, n_inputs))
    rate = mean * np.exp(0.7 * np.sin(2 * X[:, 0]))
    if np.isfinite(r):
        rate = rate * rng.gamma(r, 1 / r, 300)
    return X, rng.poisson(rate)[:, None].astype(float)


def share_over(n_inputs, mean, r, n=30):
    made = (rows(np.random.default_rng(seed), n_inputs, mean, r) for seed in range(n))
    return np.mean([dispersion(X, Y).is_over for X, Y in made])


@pytest.mark.parametrize(("n_inputs", "mean"), [(1, 0.3), (1, 3.0), (1, 30.0), (3, 3.0)])
def test_poisson_counts_are_seldom_called_overdispersed(n_inputs, mean):
    """The rate's own change between neighbours does not count; the test's level is 5 %."""
    assert share_over(n_inputs, mean, np.inf) <= 0.2


@pytest.mark.parametrize(
    ("n_inputs", "mean", "r"), [(1, 3.0, 2.0), (1, 1e4, 50.0), (3, 20.0, 5.0), (8, 300.0, 2.0)]
)
def test_overdispersed_counts_are_found(n_inputs, mean, r):
    assert share_over(n_inputs, mean, r, 10) == 1.0


def test_excess_is_one_over_the_size_and_the_sentence_names_the_likelihood():
    X, Y = rows(np.random.default_rng(0), 1, 20.0, 20.0)
    found = dispersion(X, Y)
    assert found.excess == pytest.approx(1 / 20, rel=0.5)
    assert found.likelihood == "negative_binomial" and "negative binomial" in found.sentence
    X, other = rows(np.random.default_rng(1), 1, 20.0, np.inf)
    plain = dispersion(X, other)
    assert plain.likelihood == "poisson" and "Poisson's" in plain.sentence
    # Of several outputs, one that varies too much decides.
    assert dispersion(X, np.hstack([other, Y])).is_over


def test_differences_of_exposure_are_no_overdispersion():
    over = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, exposure = rng.standard_normal((300, 1)), rng.uniform(1, 30, 300)
        Y = rng.poisson(exposure * np.exp(np.sin(X[:, 0])))[:, None]
        assert dispersion(X, Y).is_over
        over.append(dispersion(X, Y, exposure).is_over)
    assert np.mean(over) <= 0.25


@pytest.mark.parametrize("Y", [np.zeros((5, 1)), np.ones((2, 1)), np.array([[3.0]])])
def test_rows_that_say_nothing_are_taken_for_poissons(Y):
    assert dispersion(np.arange(len(Y), dtype=float)[:, None], Y).likelihood == "poisson"


def test_offset_is_the_log_of_the_mean_count_per_exposure():
    Y = np.array([[2.0, 0.0], [4.0, 0.0]])
    np.testing.assert_allclose(count_offset(Y, 2), np.log([3.0, 1e-3]))
    exposed = np.hstack([Y[:, :1], np.log([[1.0], [5.0]])])
    np.testing.assert_allclose(count_offset(exposed, 1), [0.0], atol=1e-12)
    assert not count_offset(None, 3).any()


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_one_layer_follows_small_counts_and_does_not_stay_flat(likelihood):
    """Rate exp(sin 2x): a flat rate would be off by 1.14 of it."""
    X = np.linspace(-2.0, 2.0, 300)[:, None]
    truth = np.exp(np.sin(2.0 * X[:, 0]))
    y = np.random.default_rng(0).poisson(truth).astype(float)
    model = DeepGPRegressor(1, likelihood=likelihood, inducing=15, steps=150).fit(X, y)
    assert np.sqrt(np.mean((model.predict(X) / truth - 1.0) ** 2)) < 0.31
