"""Intervals widened by held-out rows hold what they say, and nothing is widened by too few."""

import numpy as np
import pytest

from dgp_core.evaluation.comparison import ScoreCard
from dgp_core.evaluation.conformal import widening
from dgp_core.evaluation.forecast import Forecast
from dgp_core.gp.splits import SplitBy


def overconfident(rng: np.random.Generator, n: int, narrow: float, fold: int = 0) -> ScoreCard:
    """Standard Gaussian observations whose 90 % intervals are `narrow` times as wide as right."""
    y, half = rng.standard_normal((n, 1)), 1.6449 * narrow
    inside = {0.9: np.abs(y) <= half}
    zero = np.zeros((n, 1))
    forecast = Forecast(
        np.zeros(n), mean=zero, low=zero - half, median=zero, high=zero + half, inside=inside
    )
    rows = np.arange(n)
    return ScoreCard("deep", fold, rows, 9 * n, y, forecast, "regression", (), {}, None, None)


def test_the_factor_is_the_one_that_makes_the_intervals_right(rng):
    found = widening([overconfident(rng, 4000, 0.25)])
    assert found is not None and found.factor[0] == pytest.approx(4.0, rel=0.06)
    assert (found.rows, found.checked) == (2000, 2000)
    assert found.before == pytest.approx(0.32, abs=0.03) and found.after > 0.87
    q = np.array([[[-1.0]], [[3.0]]])
    np.testing.assert_allclose(
        found.stretch(q, np.ones((1, 1)), False), 1 + found.factor[0] * (q - 1)
    )
    counts = found.stretch(np.array([[[2.0]], [[5.0]]]), np.full((1, 1), 3.0), True)
    assert (counts % 1 == 0).all() and counts.min() >= 0


def test_new_rows_are_held_as_often_as_promised(rng):
    """Split conformal: over many small sets, at least 90 % of new rows are inside."""
    held = []
    for _ in range(400):
        found = widening([overconfident(rng, 60, 0.5)])
        assert found is not None
        held.append(np.abs(rng.standard_normal(20)) <= 1.6449 * 0.5 * found.factor[0])
    assert 0.895 < np.mean(held) < 0.93


def test_honest_intervals_are_never_narrowed(rng):
    found = widening([overconfident(rng, 400, 3.0)])
    assert found is not None and found.factor == (1.0,)


def test_later_rows_check_and_too_few_rows_widen_nothing(rng):
    assert widening([overconfident(rng, 39, 0.5)]) is None
    folds = [overconfident(rng, 13, 0.5, fold) for fold in (1, 2, 3, 4)]
    assert widening(folds) is not None  # the rows of all folds are enough
    card = overconfident(rng, 100, 0.5)
    by = SplitBy("latest", "t", np.arange(100.0))
    found = widening([card], by)
    assert found is not None
    # The factor is from the first 50: the ⌈51 · 0.9⌉ = 46th smallest of their stretches.
    stretch = np.sort(np.abs(card.observed[:50, 0]) / (1.6449 * 0.5))
    assert found.factor[0] == pytest.approx(stretch[45])
