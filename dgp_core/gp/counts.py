"""Counts as numbers: Poisson's and the negative binomial's laws, and a test of which one suits.

A negative binomial of mean μ and size r has the variance μ + μ²/r; r = ∞ is Poisson's.
"""

from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.spatial import KDTree

MOST_LOG_RATE = 40.0
"""Above e^40 the whole numbers no longer fit, nor does the noise show."""

TESTED_ROWS = 2000
"""Rows that the test looks at, at the most."""

NEIGHBOURS = 4
"""Of each row, with which it is compared."""

SIGNIFICANT = 1.645
"""Standard errors: the upper 5 % of a Gaussian."""

WORTH = 0.01
"""Of the variance: a smaller excess over Poisson's is not worth another parameter."""


def count_cdf(y: np.ndarray, rate: np.ndarray, size: float) -> np.ndarray:
    """P(count ≤ y), 0 below 0: for the negative binomial I_{r/(r+μ)}(r, y + 1)."""
    k = np.maximum(y, 0.0)
    if np.isinf(size):
        below = special.pdtr(k, rate)
    else:
        below = special.betainc(size, k + 1.0, size / (size + rate))
    return np.where(np.asarray(y) >= 0, below, 0.0)


def count_log_probability(y: np.ndarray, log_rate: np.ndarray, size: float) -> np.ndarray:
    """log P(count = y)."""
    if np.isinf(size):
        return y * log_rate - np.exp(log_rate) - special.gammaln(y + 1.0)
    h = log_rate - np.log(size)
    ways = special.gammaln(y + size) - special.gammaln(size) - special.gammaln(y + 1.0)
    return ways + y * h - (y + size) * np.logaddexp(0.0, h)


def draw_counts(
    rng: np.random.Generator, log_rate: np.ndarray, sizes: np.ndarray | float
) -> np.ndarray:
    """Counts of these log-rates (..., P), and of a size each or an output (P,): Poisson's, whose
    rates are first multiplied by Gamma(r)/r where r is finite."""
    log_rate = np.asarray(log_rate, np.float64)
    sizes = np.broadcast_to(sizes, log_rate.shape)
    rate = np.exp(np.minimum(log_rate, MOST_LOG_RATE))
    if np.isfinite(sizes).all():
        rate = np.minimum(rate * rng.gamma(sizes) / sizes, np.exp(MOST_LOG_RATE))
    return rng.poisson(rate).astype(np.float64)


@dataclass(frozen=True)
class Dispersion:
    """How much counts vary beyond Poisson's law: Var y = μ + α μ², α = 1/r."""

    excess: float
    """α."""
    error: float
    """Its standard error."""
    mean: float
    """Of the counts."""

    @property
    def is_over(self) -> bool:
        """Whether α is above 0 by more than chance, and by enough to matter."""
        return self.excess > SIGNIFICANT * self.error and self.excess * self.mean > WORTH

    @property
    def likelihood(self) -> str:
        return "negative_binomial" if self.is_over else "poisson"

    @property
    def sentence(self) -> str:
        """Which likelihood it speaks for, and why."""
        ratio = 1.0 + max(self.excess, 0.0) * self.mean
        if self.is_over:
            return (
                f"Rows that lie close together differ more than Poisson counts would: at the mean "
                f"count of {self.mean:,.3g} their variance is about {ratio:,.3g} times the mean. "
                "So the likelihood is a negative binomial, whose variance is learnt too."
            )
        return (
            "Rows that lie close together differ no more than Poisson counts would: the "
            "likelihood is Poisson's."
        )


def dispersion(X: np.ndarray, Y: np.ndarray, exposure: np.ndarray | None = None) -> Dispersion:
    """Of counts Y (N, P) at rows X (N, D) in standard units, that of the output that has most.

    `exposure` (N,), where given, is what each row's rate is multiplied by.
    """
    each = np.ones(len(X)) if exposure is None else np.asarray(exposure, np.float64)
    found = [_dispersion(X, y, each) for y in np.asarray(Y, np.float64).T]
    return max(found, key=lambda one: one.excess / one.error)


def _dispersion(X: np.ndarray, y: np.ndarray, exposure: np.ndarray) -> Dispersion:
    """α of Var y = μ + α μ², from how much neighbouring rows differ.

    Of two Poisson counts of one rate whose sum is n, y is Binomial(n, π), π its share of the
    exposure, ½ where there is none: E (y − πn)² = π(1 − π) n, whatever the rate. In
    t = ((y − πn)²/π(1 − π) − n)/n² what is left is 2π(1 − π)α and, where the rate changes with x, a
    term that grows with the squared distance: α is the slope of a plane through t, each pair
    weighed by the inverse of its variance under Poisson's law, 2/n² but for a small count's share.
    """
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(X))[:TESTED_ROWS]
    X, y, exposure = np.asarray(X, np.float64)[rows], y[rows], exposure[rows]
    mean = float(y.mean())
    if len(X) < 2 or mean == 0.0:
        return Dispersion(0.0, np.inf, mean)
    # Rows at one place come in a random order: a tiny shift of all chooses neighbours by chance.
    shifted = X + 1e-9 * rng.standard_normal(X.shape)
    found = KDTree(shifted).query(shifted, min(NEIGHBOURS + 1, len(X)))
    distance, near = (np.asarray(a) for a in found)
    i = np.repeat(np.arange(len(X)), near.shape[1] - 1)
    j, d2 = near[:, 1:].ravel(), distance[:, 1:].ravel() ** 2
    # Every pair once.
    _, once = np.unique(np.sort(np.stack([i, j], 1), 1), axis=0, return_index=True)
    i, j, d2 = i[once], j[once], d2[once]
    n = y[i] + y[j]
    some = n > 1  # of one count in two rows, the difference is known
    i, j, d2, n = i[some], j[some], d2[some], n[some]
    if len(n) < 3:
        return Dispersion(0.0, np.inf, mean)
    share = exposure[i] / (exposure[i] + exposure[j])
    both = share * (1.0 - share)
    t = ((y[i] - share * n) ** 2 / both - n) / n**2
    # Where π = ½, Var (2y − n)² = 2n(n − 1).
    weight = n**3 / (2.0 * (n - 1.0))
    A = np.stack([2.0 * both, d2 / max(float(d2.mean()), 1e-300)], 1)
    inverse = np.linalg.pinv(A.T @ (A * weight[:, None]))
    line = inverse @ (A.T @ (weight * t))
    # Pairs share rows: the scores of all pairs of a row are summed before they are squared.
    scores = A * (weight * (t - A @ line))[:, None]
    by_row = np.zeros((len(X), 2))
    np.add.at(by_row, i, scores)
    np.add.at(by_row, j, scores)
    alone = scores.T @ scores
    covariance = inverse @ (by_row.T @ by_row - alone) @ inverse
    theory = np.sqrt(inverse[0, 0])
    error = max(np.sqrt(max(covariance[0, 0], 0.0)), theory)
    return Dispersion(float(line[0]), float(error), mean)
