"""What a deep GP predicts: a mixture of Gaussians for every row and output."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

PAIR_BUDGET = 4_000_000
"""Pairs of components held at once while the CRPS is summed; 32 MB an array."""


@dataclass(frozen=True, eq=False)
class Mixture:
    """p(y) = (1/S) Σ_s N(y; m_s, v_s), one for each of N rows and P outputs."""

    means: np.ndarray
    """m_s (S, N, P)."""
    variances: np.ndarray
    """v_s (S, N, P), of y or of the noise-free f; zero is a component at a point."""

    def __post_init__(self):
        means, variances = np.asarray(self.means), np.asarray(self.variances)
        if means.ndim != 3 or means.shape != variances.shape or len(means) == 0:
            raise ValueError(
                "A mixture needs means and variances of one shape (samples, rows, outputs): "
                f"{means.shape}, {variances.shape}."
            )
        # A variance that rounding left below zero is zero.
        variances = np.maximum(variances.astype(np.float64), 0.0)
        object.__setattr__(self, "means", means.astype(np.float64))
        object.__setattr__(self, "variances", variances)

    @property
    def mean(self) -> np.ndarray:
        """(1/S) Σ_s m_s   (N, P)."""
        return self.means.mean(0)

    @property
    def within(self) -> np.ndarray:
        """The mean of the components' variances: what every sample agrees is unknown (N, P)."""
        return self.variances.mean(0)

    @property
    def between(self) -> np.ndarray:
        """The variance of the components' means: what the samples disagree about (N, P)."""
        return self.means.var(0)

    @property
    def variance(self) -> np.ndarray:
        """within + between   (N, P)."""
        return self.within + self.between

    def affine(self, scale: np.ndarray | float, shift: np.ndarray | float) -> "Mixture":
        """The mixture of scale·y + shift, each a number or one an output (P,)."""
        scale = np.asarray(scale)
        return Mixture(self.means * scale + shift, self.variances * scale**2)

    def shifted(self, shift: np.ndarray) -> "Mixture":
        """The mixture of y + shift, a number a row (N, 1); (N, 0) is none."""
        if not shift.shape[1]:
            return self
        return Mixture(self.means + shift[None], self.variances)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """log Σ_s N(y; m_s, v_s) − log S for y (N, P)."""
        inverse = _inverse_deviation(self.variances)
        # Beyond 1e150 deviations the square would overflow.
        z = np.clip((y - self.means) * inverse, -1e150, 1e150)
        log_normal = np.log(inverse) - 0.5 * (np.log(2 * np.pi) + z * z)
        return logsumexp(log_normal, axis=0) - np.log(len(self.means))

    def cdf(self, y: np.ndarray) -> np.ndarray:
        """(1/S) Σ_s Φ((y − m_s)/√v_s) for y (N, P), or for many at once, (K, N, P)."""
        y = np.asarray(y, np.float64)
        if y.ndim == 3:
            return np.stack([self.cdf(one) for one in y])
        return ndtr((y - self.means) * _inverse_deviation(self.variances)).mean(0)

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """The y below which a share `level` of the mixture lies (K, N, P).

        It lies between the smallest and the largest of the components' own quantiles.
        """
        levels = np.atleast_1d(np.asarray(levels, np.float64))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError("Quantile levels must lie between 0 and 1, both excluded.")
        S, N, P = self.means.shape
        # A row's components side by side, so that its sums run along memory.
        means = np.ascontiguousarray(self.means.reshape(S, N * P).T)
        deviations = np.ascontiguousarray(np.sqrt(self.variances).reshape(S, N * P).T)
        inverse = _inverse_deviation(deviations**2)
        out = [_quantile(means, deviations, inverse, level) for level in levels]
        return np.stack(out).reshape(len(levels), N, P)

    def sample(self, rng: np.random.Generator, n_draws: int) -> np.ndarray:
        """Draws of y (n_draws, N, P), each from a component chosen for its row."""
        S, N, P = self.means.shape
        which = rng.integers(S, size=(n_draws, N, 1))
        m = np.take_along_axis(self.means, which, 0)
        v = np.take_along_axis(self.variances, which, 0)
        return m + np.sqrt(v) * rng.standard_normal((n_draws, N, P))

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Continuous ranked probability score E|Y − y| − ½ E|Y − Y'| for y (N, P); small is good.

        With A(μ, σ²) = E|N(μ, σ²)| (Grimit et al. 2006),
        (1/S) Σ_s A(y − m_s, v_s) − (1/2S²) Σ_s Σ_t A(m_s − m_t, v_s + v_t).
        """
        S, N, P = self.means.shape
        first = _mean_absolute(y - self.means, self.variances).mean(0).reshape(-1)
        m, v = self.means.reshape(S, -1), self.variances.reshape(S, -1)
        # Every pair s < t counts twice; a component with itself gives A(0, 2v) = 2√(v/π).
        second = 2 * np.sqrt(v / np.pi).sum(0)
        s, t = np.triu_indices(S, 1)
        block = max(1, PAIR_BUDGET // (N * P))
        for start in range(0, len(s), block):
            a, b = s[start : start + block], t[start : start + block]
            second += 2 * _mean_absolute(m[a] - m[b], v[a] + v[b]).sum(0)
        return (first - second / (2 * S**2)).reshape(N, P)


def _inverse_deviation(variances: np.ndarray) -> np.ndarray:
    """1/√v, finite at 0."""
    return 1.0 / np.sqrt(np.maximum(variances, np.finfo(np.float64).tiny))


def _mean_absolute(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """A(μ, σ²) = E|N(μ, σ²)| = 2σ φ(μ/σ) + μ (2Φ(μ/σ) − 1)."""
    z = mean * _inverse_deviation(variance)
    return 2 * np.sqrt(variance) * _bell(z) + mean * (2 * ndtr(z) - 1)


def _bell(z: np.ndarray) -> np.ndarray:
    """φ(z) = exp(−z²/2)/√2π, for any z without overflow."""
    z = np.minimum(np.abs(z), 40.0)
    return np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)


def _quantile(
    means: np.ndarray, deviations: np.ndarray, inverse: np.ndarray, level: float
) -> np.ndarray:
    """The level's quantile of each row (R,) of components (R, S), by safeguarded Newton.

    Newton's step on Φ⁻¹(cdf(y)), which is a straight line for one Gaussian; bisection where that
    leaves the bracket or does not halve the step before.
    """
    target = ndtri(level)
    own = means + deviations * target
    low, high = own.min(1), own.max(1)
    spread = np.sqrt((deviations**2).mean(1) + means.var(1))
    y = np.clip(means.mean(1) + spread * target, low, high)
    last, finest = high - low, deviations.min(1)
    rounding = 4 * np.finfo(np.float64).eps * np.maximum(np.abs(low), np.abs(high))
    active = np.flatnonzero(last > rounding)
    for _ in range(2100):  # bisection alone would cross all of float64's exponents in that
        if not len(active):
            break
        x, i = y[active], inverse[active]
        z = (x[:, None] - means[active]) * i
        share = ndtr(z).mean(1)
        slope = (_bell(z) * i).mean(1)
        a = np.where(share < level, x, low[active])
        b = np.where(share < level, high[active], x)
        error = np.clip(ndtri(share), -38.0, 38.0) - target
        # Where the cdf is flat the step is cut at a size that leaves any bracket.
        ratio = np.minimum(_bell(error + target) / np.maximum(slope, 1e-300), 1e300)
        step = np.clip(error * ratio, -1e300, 1e300)
        newton = (x - step >= a) & (x - step <= b) & (np.abs(step) <= 0.5 * last[active])
        step = np.where(newton, step, x - 0.5 * (a + b))
        low[active], high[active], y[active], last[active] = a, b, x - step, np.abs(step)
        # A step this small beside the narrowest component leaves nothing of an error this small.
        settled = newton & (np.abs(error) < 1e-8) & (np.abs(step) <= 1e-5 * finest[active])
        active = active[~(settled | (np.minimum(np.abs(step), b - a) <= rounding[active]))]
    return y
