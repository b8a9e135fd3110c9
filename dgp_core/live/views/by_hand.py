"""Models small enough to follow by hand: what the lessons' sliders move.

In NumPy, since a page's script should not wait for a compiler; tests hold every number against
`kernels`, `references` and `layers`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from dgp_core.live.views.prior import INPUT_RANGE, PriorMean, features

KernelName = Literal["rbf", "matern32", "matern12"]
Placement = Literal["evenly", "random", "crowded"]

GRID = np.linspace(-3.0, 3.0, 241)
"""Where the exact GP is drawn; points lie on it too."""

JITTER = 1e-8
"""Added to the diagonal of a kernel's matrix that is factorised, in proportion to its variance."""

MOST_INDUCING = 30


def correlation(kernel: KernelName, distance: np.ndarray, lengthscale: float) -> np.ndarray:
    """κ(r), r = |x − x'|/ℓ: e^{−r²/2}, (1 + √3 r) e^{−√3 r} or e^{−r}."""
    r = np.abs(distance) / lengthscale
    if kernel == "rbf":
        return np.exp(-0.5 * r * r)
    if kernel == "matern32":
        return (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r)
    return np.exp(-r)


# One exact GP, and points that a person puts down.


@dataclass(frozen=True, eq=False)
class GPByHand:
    """A GP of zero mean and unit variance before and after it sees some points."""

    x: np.ndarray
    """(G,)"""
    prior: np.ndarray
    """Functions drawn before any point is seen (S, G)."""
    draws: np.ndarray
    """The same functions, bent by what was seen (S, G): draws of the posterior."""
    mean: np.ndarray
    """Of the posterior (G,)."""
    sd: np.ndarray
    """Of f in the posterior, without noise (G,)."""
    evidence: float
    """log p(y); 0 where there are no points."""


@lru_cache(maxsize=256)
def gp_by_hand(
    kernel: KernelName,
    lengthscale: float,
    noise: float,
    points: tuple[tuple[float, float], ...] = (),
    seed: int = 0,
    n_draws: int = 6,
) -> GPByHand:
    """The exact posterior, and draws by Matheron's rule.

    f(x) + k(x, X) (K + σ²I)⁻¹ (y − f(X) − ε) for a draw f of the prior and ε of the noise has the
    law of f given y; so each function keeps its shape where no point is near.
    """
    x, G = GRID, len(GRID)
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((G, n_draws))
    epsilon = noise * rng.standard_normal((1000, n_draws))
    K = correlation(kernel, x[:, None] - x[None], lengthscale)
    prior = np.linalg.cholesky(K + JITTER * np.eye(G)) @ V
    if not points:
        return GPByHand(x, prior.T, prior.T, np.zeros(G), np.ones(G), 0.0)
    at = [int(np.argmin(np.abs(x - p[0]))) for p in points]
    y = np.array([p[1] for p in points])
    C = cho_factor(K[np.ix_(at, at)] + noise**2 * np.eye(len(at)), lower=True)
    k = K[:, at]
    draws = prior + k @ cho_solve(C, y[:, None] - prior[at] - epsilon[: len(at)])
    variance = 1.0 - np.sum(k * cho_solve(C, k.T).T, 1)
    evidence = -0.5 * (y @ cho_solve(C, y) + len(y) * np.log(2 * np.pi))
    evidence -= np.log(np.diagonal(C[0])).sum()
    sd = np.sqrt(np.maximum(variance, 0.0))
    return GPByHand(x, prior.T, draws.T, k @ cho_solve(C, y), sd, float(evidence))


# A sparse GP beside the exact one.


@dataclass(frozen=True)
class Settings:
    """A kernel e^{−r²/2} of its deviation and lengthscale, and the noise's deviation."""

    deviation: float
    lengthscale: float
    noise: float


@dataclass(frozen=True, eq=False)
class ExactByHand:
    """The exact GP along a grid, and what the sparse one is judged by."""

    x: np.ndarray
    """(G,)"""
    mean: np.ndarray
    sd: np.ndarray
    """Of f (G,)."""
    evidence: float
    """log p(y), which no bound passes."""


@dataclass(frozen=True, eq=False)
class SparseByHand:
    """A sparse GP whose q(u) is the best for its Z."""

    mean: np.ndarray
    """On the grid (G,)."""
    sd: np.ndarray
    """Of f (G,)."""
    inducing: np.ndarray
    """Z (M,)."""
    u_mean: np.ndarray
    """Of q(u) (M,)."""
    u_sd: np.ndarray
    bound: float


def exact_by_hand(x: np.ndarray, y: np.ndarray, at: Settings, n_grid: int = 200) -> ExactByHand:
    """With C = Kxx + σ²I: mean K*x C⁻¹ y, variance k** − k*x C⁻¹ kx*, evidence log N(y; 0, C)."""
    grid = np.linspace(x.min(), x.max(), n_grid)
    C = np.linalg.cholesky(_gram(x, x, at) + at.noise**2 * np.eye(len(x)))
    a = solve_triangular(C, y, lower=True)
    T = solve_triangular(C, _gram(x, grid, at), lower=True)
    sd = np.sqrt(np.maximum(at.deviation**2 - np.sum(T * T, 0), 0.0))
    evidence = -0.5 * (a @ a + len(y) * np.log(2 * np.pi)) - np.log(np.diagonal(C)).sum()
    return ExactByHand(grid, T.T @ a, sd, float(evidence))


def place_inducing(x: np.ndarray, n_inducing: int, placement: Placement) -> np.ndarray:
    """Z (M,): even over the range of x, at random, or all in its first third."""
    low, high = float(x.min()), float(x.max())
    if placement == "random":
        return np.sort(np.random.default_rng(3).uniform(low, high, MOST_INDUCING)[:n_inducing])
    if placement == "crowded":
        high = low + (high - low) / 3
    edge = 0.5 * (high - low) / n_inducing
    return np.linspace(low + edge, high - edge, n_inducing)


def sparse_by_hand(
    x: np.ndarray, y: np.ndarray, inducing: np.ndarray, at: Settings, grid: np.ndarray
) -> SparseByHand:
    """The best q(u) for these Z, its prediction and its bound (Titsias 2009).

    With Kzz = LLᵀ, A = L⁻¹Kzx/σ and B = I + AAᵀ, the best q(u) is N(L B⁻¹ A y/σ, L B⁻¹ Lᵀ), and the
    bound is log N(y; 0, Q + σ²I) − tr(Kxx − Q)/2σ² with Q = Kxz Kzz⁻¹ Kzx.
    """
    Z, s, M, N = inducing, at.noise, len(inducing), len(x)
    L = np.linalg.cholesky(_gram(Z, Z, at) + JITTER * at.deviation**2 * np.eye(M))
    A = solve_triangular(L, _gram(Z, x, at), lower=True) / s
    B = np.linalg.cholesky(np.eye(M) + A @ A.T)
    c = solve_triangular(B, A @ y, lower=True) / s
    bound = -0.5 * N * np.log(2 * np.pi * s * s) - np.log(np.diagonal(B)).sum()
    bound -= 0.5 * (y @ y / s**2 - c @ c)
    bound -= 0.5 * (N * at.deviation**2 / s**2 - np.sum(A * A))
    T = solve_triangular(L, _gram(Z, grid, at), lower=True)
    R = solve_triangular(B, T, lower=True)
    U = solve_triangular(B, L.T, lower=True)  # UᵀU = L B⁻¹ Lᵀ
    variance = at.deviation**2 - np.sum(T * T, 0) + np.sum(R * R, 0)
    return SparseByHand(
        mean=R.T @ c,
        sd=np.sqrt(np.maximum(variance, 0.0)),
        inducing=Z,
        u_mean=U.T @ c,
        u_sd=np.sqrt(np.sum(U * U, 0)),
        bound=float(bound),
    )


def _gram(a: np.ndarray, b: np.ndarray, at: Settings) -> np.ndarray:
    return at.deviation**2 * correlation("rbf", a[:, None] - b[None], at.lengthscale)


# Two layers, drawn one after the other.


@dataclass(frozen=True, eq=False)
class Composition:
    """f²(f¹(x)), and the two maps that it is made of."""

    x: np.ndarray
    """(G,)"""
    first: np.ndarray
    """h = f¹(x) (G,)."""
    h: np.ndarray
    """What may enter the second layer, in order (H,)."""
    second: np.ndarray
    """f² there (H,)."""
    composed: np.ndarray
    """f²(f¹(x)) (G,)."""


@lru_cache(maxsize=256)
def composition(
    first_seed: int,
    second_seed: int,
    mean_function: PriorMean = "linear",
    lengthscale: float = 0.7,
    n_grid: int = 401,
) -> Composition:
    """One draw of each layer: f¹(x) = x + g(x), or g(x) alone with a mean of zero."""
    x = np.linspace(*INPUT_RANGE, n_grid)
    first = _drawn(x, lengthscale, (first_seed, 1)) + (x if mean_function == "linear" else 0.0)
    h = np.linspace(first.min(), first.max(), n_grid)
    second = _drawn(np.concatenate([h, first]), lengthscale, (second_seed, 2))
    return Composition(x, first, h, second[:n_grid], second[n_grid:])


def _drawn(h: np.ndarray, lengthscale: float, place: tuple[int, int]) -> np.ndarray:
    """One function with a kernel of unit variance; the same place gives the same function."""
    phi = features(h / lengthscale)
    return phi @ np.random.default_rng(place).standard_normal(phi.shape[1])


# The bound of a single unknown.


@dataclass(frozen=True)
class BoundByHand:
    """u ~ N(0, 1), one observation y = u + noise, and q(u) = N(m, s²)."""

    fit: float
    """E_q[log p(y|u)]."""
    kl: float
    """KL[q(u) ‖ p(u)]."""
    evidence: float
    """log p(y)."""
    best_mean: float
    best_sd: float
    """Of the posterior, where the bound meets the evidence."""

    @property
    def bound(self) -> float:
        return self.fit - self.kl


def _log_normal(difference: float, sd: float) -> float:
    """log N(difference; 0, sd²)."""
    return float(-0.5 * (difference / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))


def bound_by_hand(y: float, noise: float, mean: float, sd: float) -> BoundByHand:
    """log N(y; m, σ²) − s²/2σ², less (m² + s² − 1)/2 − log s."""
    fit = _log_normal(y - mean, noise) - 0.5 * (sd / noise) ** 2
    kl = 0.5 * (mean**2 + sd**2 - 1.0) - np.log(sd)
    best = noise**2 + 1.0
    return BoundByHand(
        fit=float(fit),
        kl=float(kl),
        evidence=_log_normal(y, np.sqrt(best)),
        best_mean=y / best,
        best_sd=float(noise / np.sqrt(best)),
    )
