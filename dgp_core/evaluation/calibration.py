"""Whether probabilities come true: where observations fall in their predicted distributions."""

from dataclasses import dataclass, fields

import numpy as np
from scipy import special

from dgp_core.gp.counts import count_cdf

BINS = 10
"""Of a PIT histogram, and of a reliability curve."""

EDGES = np.linspace(0.0, 1.0, BINS + 1)

CONFIDENCE = 0.95
"""Of Wilson's interval, and of the bars of a calibrated model's PIT histogram."""


def inside(pit: np.ndarray, shares: np.ndarray | tuple[float, ...] | float) -> np.ndarray:
    """Whether each y is inside the central interval that should hold a share of it: (J, ...)."""
    shares = np.asarray(shares)
    return np.abs(pit - 0.5) <= shares.reshape(*shares.shape, *[1] * pit.ndim) / 2


def expected_bin_counts(n: int, n_bins: int = BINS) -> tuple[float, float]:
    """Between these two lie 95 % of a calibrated model's PIT bins of n rows."""
    tail = (1 - CONFIDENCE) / 2
    return _binomial_quantile(tail, n, 1 / n_bins), _binomial_quantile(1 - tail, n, 1 / n_bins)


def _binomial_quantile(q: float, n: int, p: float) -> float:
    """The smallest k of which P(count ≤ k) ≥ q."""
    k = np.ceil(special.bdtrik(q, n, p))
    return float(k - 1 if k > 0 and special.bdtr(k - 1, n, p) >= q else k)


def count_pit(
    mean: np.ndarray,
    variance: np.ndarray,
    y: np.ndarray,
    rng: np.random.Generator,
    size: float = np.inf,
) -> np.ndarray:
    """F(y − 1) + u (F(y) − F(y − 1)), u uniform, of counts of log-rate N(m_s, v_s) (S, G).

    Uniform where the model is calibrated (Czado et al. 2009).
    """
    below, at = (_count_cdf(mean, variance, k, size) for k in (y - 1, y))
    return below + rng.random(len(y)) * (at - below)


def _count_cdf(mean: np.ndarray, variance: np.ndarray, y: np.ndarray, size: float) -> np.ndarray:
    """P(count ≤ y) of each row (G,): the law's own, averaged over f by Gauss–Hermite."""
    z, weight = np.polynomial.hermite_e.hermegauss(40)
    total = np.zeros(len(y))
    for node, w in zip(z, weight / weight.sum(), strict=True):
        rate = np.exp(np.minimum(mean + node * np.sqrt(variance), 80.0))
        total += w * count_cdf(y, rate, size).mean(0)
    return total


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often what was given a probability happened, bin by bin; NaN in an empty bin."""

    predicted: np.ndarray
    """The mean probability (K,)."""
    observed: np.ndarray
    """The share that happened."""
    error: np.ndarray
    """√(p(1−p)/n) of that share where the predicted probabilities are right."""
    low: np.ndarray
    """Wilson's interval of 95 % for the share."""
    high: np.ndarray
    counts: np.ndarray

    def occupied(self) -> "Reliability":
        """The bins that are not empty."""
        some = self.counts > 0
        return Reliability(*(getattr(self, item.name)[some] for item in fields(self)))


def reliability(predicted: np.ndarray, happened: np.ndarray, n_bins: int = BINS) -> Reliability:
    """Predicted probabilities (N,), and whether it happened, in bins of equal width."""
    place = np.clip((predicted * n_bins).astype(int), 0, n_bins - 1)
    counts = np.bincount(place, minlength=n_bins)
    n = np.where(counts > 0, counts, np.nan)
    p = np.bincount(place, predicted, n_bins) / n
    k = np.bincount(place, happened, n_bins) / n
    z2 = special.ndtri(0.5 + CONFIDENCE / 2) ** 2
    middle = (k + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (k * (1 - k) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    return Reliability(p, k, np.sqrt(p * (1 - p) / n), middle - half, middle + half, counts)
