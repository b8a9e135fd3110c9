"""Split-conformal widening: intervals stretched until they hold what was held out.

The factor comes from some held-out rows, and what it is worth is reported on the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dgp_core.evaluation.comparison import CHECKED, ScoreCard
from dgp_core.evaluation.forecast import SHARE
from dgp_core.gp.splits import BY_CHANCE, SplitBy

FEWEST = 20
"""Rows that the factor is computed from, and as many to check it by."""

MOST_FACTOR = 100.0
"""Intervals that would have to be stretched more than this are no intervals."""


@dataclass(frozen=True)
class Widening:
    """By how much intervals are stretched about their median."""

    factor: tuple[float, ...]
    """Of each output (P,); 1 or more."""
    rows: int
    """Held-out rows that the factor is from."""
    checked: int
    """Other held-out rows, by which it was checked."""
    before: float
    """Share of these that the 90 % intervals held, as they were …"""
    after: float
    """… and widened."""

    def stretch(self, quantiles: np.ndarray, median: np.ndarray, whole: bool) -> np.ndarray:
        """Quantiles (K, N, P) moved away from the median (N, P); counts outwards to whole ones."""
        q = median + np.array(self.factor) * (quantiles - median)
        if whole:
            q = np.maximum(np.where(q < median, np.floor(q), np.ceil(q)), 0.0)
        return q

    @property
    def sentence(self) -> str:
        """What was done, and what it is worth."""
        factor = " and ".join(f"{k:.3g}" for k in self.factor)
        error = np.sqrt(self.after * (1 - self.after) / self.checked)
        return (
            f"Intervals are stretched {factor} times about their median (split-conformal, from "
            f"{self.rows:,} held-out rows). Of {self.checked:,} other held-out rows, the 90 % "
            f"intervals then held {100 * self.after:.0f} % ± {100 * error:.0f} %, and "
            f"{100 * self.before:.0f} % before."
        )


def widening(cards: Sequence[ScoreCard], by: SplitBy = BY_CHANCE, seed: int = 0) -> Widening | None:
    """The widening that a model's held-out rows ask for; None where they are too few.

    The main split's rows, or where these are too few those of all folds, are halved as they were
    held out: by chance, by time (the later half checks) or by groups.
    """
    main = [card for card in cards if card.fold == 0]
    folds = [card for card in cards if card.fold > 0]
    enough = sum(len(card.rows) for card in main) >= 2 * FEWEST
    used = main if enough or not folds else folds
    if not used or used[0].forecast.low is None:
        return None
    rows, y = (np.concatenate([getattr(card, n) for card in used]) for n in ("rows", "observed"))
    low, median, high = (
        np.concatenate([np.asarray(getattr(card.forecast, name)) for card in used])
        for name in ("low", "median", "high")
    )
    fit, check = _halves(by, rows, seed)
    if min(len(fit), len(check)) < FEWEST:
        return None
    # How far each row's interval must be stretched to hold it.
    side = np.abs(np.where(y < median, low, high) - median)
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = np.where(y == median, 0.0, np.abs(y - median) / side)
    factor = np.maximum(_quantile(stretch[fit], SHARE), 1.0)
    if not (factor <= MOST_FACTOR).all():
        return None
    inside = np.concatenate([card.forecast.inside[CHECKED] for card in used])
    return Widening(
        tuple(factor.tolist()),
        len(fit),
        len(check),
        float(inside[check].mean()),
        float((stretch[check] <= factor).mean()),
    )


def _halves(by: SplitBy, rows: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that the factor is from, and rows that check it."""
    if by.values is not None and len(np.unique(by.values[rows])) > 1:
        by = SplitBy(by.way, by.column, by.values[rows])
    else:
        by = BY_CHANCE
    return by.places(len(rows), 0.5, seed) if len(rows) > 1 else (rows, rows[:0])


def _quantile(stretch: np.ndarray, share: float) -> np.ndarray:
    """The ⌈(n + 1) share⌉-th smallest of n (P,): a new row exceeds it with at most 1 − share."""
    n = len(stretch)
    k = int(np.ceil((n + 1) * share))
    return np.sort(stretch, 0)[k - 1] if k <= n else np.full(stretch.shape[1], np.inf)
