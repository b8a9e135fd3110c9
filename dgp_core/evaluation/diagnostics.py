"""The numbers of a score card's pictures: calibration, residuals, confusions, the worst rows."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dgp_core.evaluation import calibration
from dgp_core.evaluation.calibration import BINS, Reliability
from dgp_core.evaluation.comparison import ScoreCard
from dgp_core.evaluation.forecast import Forecast
from dgp_core.tables.plain import visible


@dataclass(frozen=True, eq=False)
class Histogram:
    """PIT values in bins: flat where predictions are calibrated."""

    edges: np.ndarray
    shares: np.ndarray
    """Of all rows and outputs, in each bin."""
    low: float
    """Between `low` and `high`, 95 % of a calibrated model's bars lie."""
    high: float


def pit_histogram(card: ScoreCard, n_bins: int = BINS) -> Histogram:
    """Where observations fall in their predicted distributions.

    Hump-shaped: too wide; U-shaped: too narrow; sloped: biased.
    """
    pit = card.forecast.pit
    if pit is None:
        raise ValueError("Classes have no PIT values: draw their reliability instead.")
    counts, edges = np.histogram(pit, n_bins, (0.0, 1.0))
    low, high = calibration.expected_bin_counts(pit.size, n_bins)
    return Histogram(edges, counts / pit.size, low / pit.size, high / pit.size)


def reliability(card: ScoreCard, n_bins: int = BINS, of_class: int | None = None) -> Reliability:
    """Of one class; where none is named, of the second of two, or of each row's likeliest."""
    p = card.forecast.probabilities
    if p is None:
        raise ValueError("Numbers have no reliability bins: draw their PIT values instead.")
    codes = card.observed[:, 0].astype(int)
    if of_class is None and p.shape[1] == 2:
        of_class = 1
    predicted = p.max(1) if of_class is None else p[:, of_class]
    happened = codes == (p.argmax(1) if of_class is None else of_class)
    return calibration.reliability(predicted, happened, n_bins)


@dataclass(frozen=True, eq=False)
class Observed:
    """Predicted against observed, one output."""

    observed: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rows: np.ndarray


def predicted_observed(card: ScoreCard, output: int = 0) -> Observed:
    """What was predicted, with its 90 % interval, and what was seen."""
    f = _numbers(card)
    assert f.mean is not None and f.low is not None and f.high is not None
    p = output
    return Observed(card.observed[:, p], f.mean[:, p], f.low[:, p], f.high[:, p], card.rows)


@dataclass(frozen=True, eq=False)
class Residuals:
    """What is left of each row once its prediction is taken away."""

    predicted: np.ndarray
    residual: np.ndarray
    """Observed less the mean."""
    standardised: np.ndarray
    """Φ⁻¹ of the PIT value: standard Gaussian where predictions are honest, whatever the noise."""
    rows: np.ndarray


def residuals(card: ScoreCard, output: int = 0) -> Residuals:
    """Residuals of one output."""
    f = _numbers(card)
    assert f.mean is not None and f.pit is not None
    mean, pit = f.mean[:, output], np.clip(f.pit[:, output], 1e-12, 1 - 1e-12)
    return Residuals(mean, card.observed[:, output] - mean, ndtri(pit), card.rows)


def _numbers(card: ScoreCard) -> Forecast:
    if card.forecast.mean is None:
        raise ValueError("Classes have no residuals: draw their confusions instead.")
    return card.forecast


@dataclass(frozen=True)
class Worst:
    """A row that the model found hard to believe."""

    row: int
    """Its place in the whole set."""
    log_likelihood: float
    surprise: str
    """What was seen and what was predicted."""


def worst_rows(card: ScoreCard, n: int = 10) -> list[Worst]:
    """The held-out rows of least log-likelihood, the worst first."""
    worst = np.argsort(card.forecast.log_density, kind="stable")[:n]
    return [
        Worst(int(card.rows[i]), float(card.forecast.log_density[i]), _surprise(card, i))
        for i in worst
    ]


def _surprise(card: ScoreCard, i: int) -> str:
    f = card.forecast
    if f.probabilities is not None:
        code, likeliest = int(card.observed[i, 0]), int(f.probabilities[i].argmax())
        seen = f"{visible(_label(card, code))}, given {f.probabilities[i, code]:.1%}"
        if likeliest == code:
            return f"{seen}, the likeliest class"
        chance = f.probabilities[i, likeliest]
        return f"{seen}; {visible(_label(card, likeliest))} was given {chance:.1%}"
    assert f.median is not None and f.low is not None and f.high is not None
    return "; ".join(
        f"{y:.4g}, predicted {m:.4g} (90 %: {a:.4g} to {b:.4g})"
        for y, m, a, b in zip(card.observed[i], f.median[i], f.low[i], f.high[i], strict=True)
    )


def _label(card: ScoreCard, code: int) -> str:
    return card.classes[code] if code < len(card.classes) else str(code)


def confusion(card: ScoreCard) -> np.ndarray:
    """How many rows of each class (down) were taken for each class (across)."""
    p = card.forecast.probabilities
    if p is None:
        raise ValueError("Numbers cannot be confused: draw predicted against observed instead.")
    counts = np.zeros((p.shape[1], p.shape[1]), int)
    np.add.at(counts, (card.observed[:, 0].astype(int), p.argmax(1)), 1)
    return counts
