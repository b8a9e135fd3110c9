"""Scores against scikit-learn where it has them, else by hand and by simulation."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from dgp_core.evaluation import scores
from dgp_core.evaluation.calibration import inside
from dgp_core.evaluation.forecast import from_mixture
from dgp_core.gp.mixture import Mixture


@pytest.fixture
def honest(rng):
    """A mixture and outputs truly drawn from it: 4,000 rows, two outputs."""
    mixture = Mixture(rng.standard_normal((3, 4000, 2)), rng.uniform(0.1, 2, (3, 4000, 2)))
    which = rng.integers(3, size=(1, 4000, 1))
    m = np.take_along_axis(mixture.means, which, 0)[0]
    v = np.take_along_axis(mixture.variances, which, 0)[0]
    return mixture, m + np.sqrt(v) * rng.standard_normal((4000, 2))


def test_log_likelihood_sums_outputs_and_averages_rows(honest):
    mixture, Y = honest
    normal = stats.norm(mixture.means, np.sqrt(mixture.variances))
    by_hand = np.log(normal.pdf(Y[None]).mean(0)).sum(1).mean()
    np.testing.assert_allclose(scores.log_likelihood(mixture, Y), by_hand)


def test_rmse_is_scikit_learns(honest):
    mixture, Y = honest
    expected = np.sqrt(metrics.mean_squared_error(Y, mixture.means.mean(0)))
    np.testing.assert_allclose(scores.rmse(mixture, Y), expected)


def test_honest_predictions_cover_as_they_claim(honest):
    mixture, Y = honest
    shares = np.array(scores.COVERAGES)
    error = np.sqrt(shares * (1 - shares) / Y.size)
    ours = inside(mixture.cdf(Y), scores.COVERAGES).mean((1, 2))
    # The two outputs share their component, so the error is at most √2 larger.
    assert np.all(np.abs(ours - shares) < 4 * np.sqrt(2) * error)
    certain = Mixture(mixture.mean[None], mixture.variance[None] / 100)
    assert np.all(inside(certain.cdf(Y), scores.COVERAGES).mean((1, 2)) < ours - 0.1)


def test_coverage_by_hand():
    mixture = Mixture(np.zeros((1, 4, 1)), np.ones((1, 4, 1)))
    Y = np.array([[0.0], [0.5], [1.0], [1.7]])
    # The central half reaches 0.674, the central 0.9 reaches 1.645.
    np.testing.assert_allclose(inside(mixture.cdf(Y), (0.5, 0.9)).mean((1, 2)), [0.5, 0.75])


def test_pit_values_of_honest_predictions_are_uniform(honest):
    mixture, Y = honest
    pit = mixture.cdf(Y)
    assert pit.shape == (4000, 2)
    assert all(stats.kstest(pit[:, p], "uniform").pvalue > 1e-3 for p in range(2))


def test_crps_equals_a_large_sample(honest, rng):
    mixture, Y = (Mixture(honest[0].means[:, :5], honest[0].variances[:, :5]), honest[1][:5])
    a, b = mixture.sample(rng, 100_000), mixture.sample(rng, 100_000)
    values = np.abs(a - Y) - 0.5 * np.abs(a - b)
    error = values.mean((1, 2)).std() / np.sqrt(100_000)
    assert abs(mixture.crps(Y).mean() - values.mean()) < 4 * error


@pytest.fixture
def binary(rng):
    """Probabilities with ties, and labels that follow them loosely."""
    p = np.round(rng.uniform(size=300), 1)
    y = (rng.uniform(size=300) < 0.2 + 0.6 * p).astype(float)
    return np.column_stack([1 - p, p]), y


@pytest.fixture
def several(rng):
    p = rng.dirichlet([1.0, 2.0, 0.5, 1.0], 400)
    y = np.array([rng.choice(4, p=0.5 * row + 0.125) for row in p])
    return p, y


def auc_by_pairs(p, inside):
    """How often a row inside is ranked above one outside, pair by pair."""
    a, b = p[inside][:, None], p[~inside][None]
    return np.mean((a > b) + 0.5 * (a == b))


def test_two_class_scores_are_scikit_learns(binary):
    p, y = binary
    np.testing.assert_allclose(scores.auc(p, y), auc_by_pairs(p[:, 1], y == 1))
    np.testing.assert_allclose(scores.brier(p, y), metrics.brier_score_loss(y, p[:, 1]))
    np.testing.assert_allclose(scores.log_loss(p, y), metrics.log_loss(y, p))
    np.testing.assert_allclose(scores.accuracy(p, y), metrics.accuracy_score(y, p.argmax(1)))


def test_multiclass_scores_are_scikit_learns(several):
    p, y = several
    expected = np.mean([auc_by_pairs(p[:, c], y == c) for c in range(4)])
    np.testing.assert_allclose(scores.auc(p, y), expected)
    np.testing.assert_allclose(scores.log_loss(p, y), metrics.log_loss(y, p))
    np.testing.assert_allclose(scores.accuracy(p, y), metrics.accuracy_score(y, p.argmax(1)))
    one_hot = (y[:, None] == np.arange(4)[None]).astype(float)
    np.testing.assert_allclose(scores.brier(p, y), ((p - one_hot) ** 2).sum() / len(y))


def test_scores_at_the_edges():
    sure = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert scores.auc(sure, [0, 1]) == 1.0 and scores.auc(sure, [1, 0]) == 0.0
    assert np.isnan(scores.auc(sure, [1, 1]))
    assert scores.auc(np.full((4, 2), 0.5), [0, 1, 0, 1]) == 0.5
    assert scores.brier(sure, [0, 1]) == 0.0 and scores.brier(sure, [1, 0]) == 1.0
    assert np.isfinite(scores.log_loss(sure, [1, 0]))
    # A class that never occurs on the held-out rows is left out of the mean.
    three = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1]])
    assert scores.auc(three, [0, 1]) == 1.0


def test_all_scores_by_name(honest, several):
    mixture = Mixture(honest[0].means[:, :50], honest[0].variances[:, :50])
    Y = honest[1][:50]
    by_name = from_mixture(mixture, Y, mixture.log_density(Y).sum(1)).scores(Y)
    assert list(by_name) == [
        "log_likelihood",
        "rmse",
        "crps",
        "coverage_50",
        "coverage_90",
        "coverage_95",
    ]
    assert by_name["crps"] == mixture.crps(Y).mean()
    by_name = scores.class_scores(*several)
    assert list(by_name) == ["log_likelihood", "log_loss", "accuracy", "auc", "brier"]
    assert by_name["log_likelihood"] == -scores.log_loss(*several)


def test_a_column_of_labels_is_as_good_as_a_row(binary, honest):
    p, y = binary
    assert scores.class_scores(p, y[:, None]) == scores.class_scores(p, y)
    mixture = Mixture(honest[0].means[:, :9, :1], honest[0].variances[:, :9, :1])
    y = honest[1][:9, 0]
    for score in (scores.rmse, scores.log_likelihood):
        assert score(mixture, y) == score(mixture, y[:, None])


def test_bad_input_is_refused_with_a_word(binary, honest):
    with pytest.raises(ValueError, match="rows, outputs"):
        scores.rmse(honest[0], honest[1][:5])
    with pytest.raises(ValueError, match="one row for each"):
        scores.accuracy(binary[0], binary[1][:5])
    with pytest.raises(ValueError, match="codes 0 to 1"):
        scores.accuracy(binary[0], binary[1] + 1)


def test_draws_score_as_the_mixture_that_they_are_drawn_of(rng):
    mixture = Mixture(rng.standard_normal((5, 40, 2)), rng.uniform(0.1, 2.0, (5, 40, 2)))
    y = 2 * rng.standard_normal((40, 2))
    draws = scores.Draws(mixture.sample(rng, 4000))
    np.testing.assert_allclose(draws.crps(y).mean(), mixture.crps(y).mean(), atol=0.01)
    np.testing.assert_allclose(draws.pit(y, rng), mixture.cdf(y), atol=0.04)
    np.testing.assert_allclose(draws.quantile([0.1, 0.5]), mixture.quantile([0.1, 0.5]), atol=0.25)


def test_few_draws_leave_no_bias_in_the_crps(rng):
    y = np.zeros((50_000, 1))
    of_two = scores.Draws(rng.standard_normal((2, 50_000, 1))).crps(y)
    exact = (np.sqrt(2) - 1) / np.sqrt(np.pi)  # of a standard Gaussian at its mean
    np.testing.assert_allclose(of_two.mean(), exact, atol=4 * of_two.std() / np.sqrt(50_000))


def test_pit_values_of_honest_counts_are_uniform(rng):
    rate = rng.uniform(0.2, 3.0, (20_000, 1))
    pit = scores.Draws(rng.poisson(rate, (50, *rate.shape))).pit(rng.poisson(rate), rng)
    shares = np.histogram(pit, 10, (0, 1))[0] / len(rate)
    np.testing.assert_allclose(shares, 0.1, atol=4 * np.sqrt(0.1 * 0.9 / len(rate)))
