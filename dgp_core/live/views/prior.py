"""Deep GP priors before any data: what depth alone does to a function (Duvenaud et al. 2014).

With an RBF kernel of deviation σ and lengthscale ℓ a layer is drawn exactly, as a sum of features:

    g(h) = σ Σ_n a_n φ_n(h/ℓ),   φ_n(r) = e^{−r²/2} rⁿ/√n!,   a_n ~ N(0, 1),
    Σ_n φ_n(r) φ_n(s) = e^{−(r−s)²/2}                                       (Taylor, of e^{rs})

A draw is thus a smooth function that is known everywhere, with its derivative. The jitter of
`predict.prior_draws` would drown the slopes of 1e-6 that ten layers make.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import special

from dgp_core.gp.model import ModelSpec, create_model

PriorMean = Literal["zero", "linear", "concatenate"]
"""Of the inner layers; with "concatenate" it is zero, and every layer sees x beside the one below.
"""

MOST_LAYERS = 10

INPUT_RANGE = (-2.0, 2.0)

CELL = 0.02
"""Two outputs that differ by less than this share of σ count as one."""

FARTHEST = 60.0
"""Lengthscales from 0 that an input of a layer may lie, at the most: beyond, features overflow."""

SLOPE_STEP = 0.02
SLOPE_RANGE = (-60.0, 40.0)
"""Of log |slope|, where its density is known."""

DISTANCES = 40
"""Distances at which the correlation of outputs is measured, at the most."""


@dataclass(frozen=True, eq=False)
class PriorView:
    """Functions drawn from deep priors of depth 1 to L on one input.

    The layers of a draw are the same at every depth, so that one more layer changes only that.
    """

    mean_function: PriorMean
    lengthscale: float
    deviation: float
    x: np.ndarray
    """(G,)"""
    functions: np.ndarray
    """Draws of the model of each depth (L, S, G): its last layer has a mean of zero."""
    hidden: np.ndarray
    """What leaves each layer on the way to a deeper one, mean function included (L, S, G)."""
    slopes: np.ndarray
    """The functions' derivatives by x (L, S, G)."""
    log_slope: np.ndarray
    """t = log |slope|, the middles of even cells (H,)."""
    log_slope_density: np.ndarray
    """Of t at any one input, for each depth (L, H): exact but for the cells, nothing is sampled."""
    log_slope_mean: np.ndarray
    """(L,)"""
    log_slope_deviation: np.ndarray
    """(L,): with a mean of zero √(L π²/8), without bound; with x beside it, bounded."""
    distinct: np.ndarray
    """How many of the G inputs' outputs can be told apart at CELL σ, on average (L,)."""
    distances: np.ndarray
    """Between inputs (K,)."""
    correlation: np.ndarray
    """Of the outputs at these distances, over draws and inputs (L, K)."""


@dataclass(frozen=True, eq=False)
class WarpedGrid:
    """A grid of two inputs carried through layers of two outputs: one draw."""

    mean_function: PriorMean
    lines: np.ndarray
    """After 0, 1, …, L layers: K lines of J points, first those along the first input
    (L + 1, K, J, 2)."""
    start: np.ndarray
    """Where each point of a line started (K, J, 2)."""
    gradient: np.ndarray
    """log₁₀ of the smaller singular value of the Jacobian over the larger, at each point
    (L + 1, K, J): 0 where a neighbourhood keeps its shape, far below where it becomes a line."""


@lru_cache(maxsize=64)
def prior_view(
    depth: int,
    mean_function: PriorMean,
    lengthscale: float = 1.0,
    deviation: float = 1.0,
    n_draws: int = 20,
    n_grid: int = 400,
    seed: int = 0,
) -> PriorView:
    """Deep priors of every depth up to this one, the inner layers' mean function zero, the
    identity, or zero with x beside what the layer below gives."""
    _check(depth, mean_function, lengthscale, deviation)
    x = np.linspace(*INPUT_RANGE, n_grid)
    H = np.broadcast_to(x, (n_draws, n_grid))
    H_slope = np.ones_like(H)
    functions, hidden, slopes = [], [], []
    for l in range(depth):
        G, G_slope = np.empty_like(H), np.empty_like(H)
        for s in range(n_draws):
            place = (seed, l, s)
            if mean_function == "concatenate" and l:
                G[s], G_slope[s] = _draw_beside(H[s], H_slope[s], x, lengthscale, deviation, place)
            else:
                G[s], G_slope[s] = _draw(H[s], lengthscale, deviation, place)
                G_slope[s] *= H_slope[s]
        functions.append(G)
        slopes.append(G_slope)
        if mean_function == "linear":
            H, H_slope = H + G, H_slope + G_slope
        else:
            H, H_slope = G, G_slope
        hidden.append(H)
    functions, slopes = np.stack(functions), np.stack(slopes)
    t, density = slope_densities(depth, mean_function, deviation / lengthscale)
    mean = density @ t * SLOPE_STEP
    second = density @ t**2 * SLOPE_STEP
    lags, correlation = _correlations(functions)
    return PriorView(
        mean_function=mean_function,
        lengthscale=lengthscale,
        deviation=deviation,
        x=x,
        functions=functions,
        hidden=np.stack(hidden),
        slopes=slopes,
        log_slope=t,
        log_slope_density=density,
        log_slope_mean=mean,
        log_slope_deviation=np.sqrt(second - mean**2),
        distinct=_distinct(functions, CELL * deviation),
        distances=lags * (x[1] - x[0]),
        correlation=correlation,
    )


@lru_cache(maxsize=64)
def warped_grid(
    depth: int,
    mean_function: PriorMean,
    lengthscale: float = 1.0,
    deviation: float = 1.0,
    n_lines: int = 13,
    n_points: int = 41,
    seed: int = 0,
) -> WarpedGrid:
    """One draw of a prior from two inputs to two outputs, after every layer."""
    _check(depth, mean_function, lengthscale, deviation)
    if mean_function == "concatenate":
        raise ValueError("The warped grid is of a mean function of zero or the identity.")
    fine, coarse = np.linspace(*INPUT_RANGE, n_points), np.linspace(*INPUT_RANGE, n_lines)
    rows = np.stack(np.meshgrid(fine, coarse), 2)  # a line along the first input each
    start = np.concatenate([rows, rows[:, :, ::-1]])
    X = start.reshape(-1, 2)
    J = np.broadcast_to(np.eye(2), (len(X), 2, 2))
    lines, gradient = [start], [np.zeros(start.shape[:2])]
    for l in range(depth):
        F, F_slope = _draw_plane(X, lengthscale, deviation, (seed, l, 0))
        if mean_function == "linear":
            F, F_slope = X + F, np.eye(2) + F_slope
        X, J = F, F_slope @ J
        lines.append(X.reshape(start.shape))
        singular = np.maximum(np.linalg.svd(J, compute_uv=False), 1e-300)
        gradient.append(np.log10(singular[:, 1] / singular[:, 0]).reshape(start.shape[:2]))
    return WarpedGrid(mean_function, np.stack(lines), start, np.stack(gradient))


def linear_mean(X: np.ndarray, width: int) -> tuple[np.ndarray, float]:
    """W (D, P) of the first layer's mean function m(x) = x W, as a model of this width starts with
    it, and the share of the inputs' variance that x W keeps: standard units, X is centred."""
    model = create_model(ModelSpec(layers=2, inducing=1, widths=width), X)
    W = np.asarray(model.layers[0].mean_weights)
    return W, float(np.square(X @ W).sum() / np.square(X).sum())


def slope_densities(
    depth: int, mean_function: PriorMean, ratio: float
) -> tuple[np.ndarray, np.ndarray]:
    """The density of t = log |slope| of a prior of each depth, at any input: t (H,), p (L, H).

    At one input a layer's slope is N(0, ratio²), ratio = σ/ℓ, whatever its value; so the slope of
    depth L is a product of L independent factors: N(0, ratio²) of the last layer, and of each inner
    one the same, or N(1, ratio²) where its mean is the identity. Logarithms add, densities are
    convolved. With x beside it a slope s becomes a s + b, a and b independent, both N(0, ratio²),
    which is N(0, ratio² (1 + s²)): log |slope| = log ratio + ½ log(1 + s²) + log |ε|.
    """
    n = round((SLOPE_RANGE[1] - SLOPE_RANGE[0]) / SLOPE_STEP)
    edges = SLOPE_RANGE[0] + SLOPE_STEP * np.arange(n + 1)
    middle = edges[:-1] + 0.5 * SLOPE_STEP

    def masses(mean: float) -> np.ndarray:
        """P(log |N(mean, ratio²)| in a cell), the first cell with all below it."""
        high = np.exp(np.minimum(edges, 300.0))
        below = special.ndtr((high - mean) / ratio) - special.ndtr((-high - mean) / ratio)
        below[0] = 0.0
        return np.diff(below)

    last, inner = masses(0.0), masses(1.0 if mean_function == "linear" else 0.0)
    if mean_function == "concatenate":
        return middle, _densities_beside(depth, middle, last)
    # Sums of l + 1 middles lie at (l + 1) times the first, and so many steps above it.
    size = (depth + 1) * n
    last_hat, inner_hat = np.fft.rfft(last, size), np.fft.rfft(inner, size)
    densities = []
    for l in range(depth):
        total = np.maximum(np.fft.irfft(last_hat * inner_hat**l, size), 0.0)
        place = (l + 1) * middle[0] + SLOPE_STEP * np.arange(size)
        densities.append(np.interp(middle, place, total) / SLOPE_STEP)
    return middle, np.stack(densities)


def _densities_beside(depth: int, middle: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Densities of log |slope| with x beside every layer: `factor` holds the masses of log |N(0,
    ratio²)|, to which ½ log(1 + e^{2t}) of the layer below is added."""
    n, mass, masses = len(middle), factor, [factor]
    place = (0.5 * np.logaddexp(0.0, 2.0 * middle) - middle[0]) / SLOPE_STEP
    cell = np.minimum(place.astype(int), n - 2)
    upper = np.clip(place - cell, 0.0, 1.0)
    for _ in range(depth - 1):
        grown = np.bincount(cell, mass * (1.0 - upper), n) + np.bincount(cell + 1, mass * upper, n)
        total = np.fft.irfft(np.fft.rfft(grown, 2 * n) * np.fft.rfft(factor, 2 * n), 2 * n)
        at = 2.0 * middle[0] + SLOPE_STEP * np.arange(2 * n)
        mass = np.interp(middle, at, np.maximum(total, 0.0))
        masses.append(mass)
    return np.stack(masses) / SLOPE_STEP


def log_slope_drift(mean: float, ratio: float) -> float:
    """E log |slope| of one layer, a slope of N(mean, ratio²): what each layer adds on average.

    = log ratio + ½ log 2 + ½ Σ_j Poisson(j; mean²/(2 ratio²)) ψ(j + ½)   (log of a non-central χ²)
    """
    half = 0.5 * (mean / ratio) ** 2
    j = np.arange(int(half + 12.0 * np.sqrt(half) + 40.0))
    weights = np.exp(special.xlogy(j, half) - half - special.gammaln(j + 1.0))
    return float(np.log(ratio) + 0.5 * (np.log(2.0) + weights @ special.digamma(j + 0.5)))


def features(r: np.ndarray) -> np.ndarray:
    """φ_n(r) = e^{−r²/2} rⁿ/√n! (R, N) for r (R,), with as many n as matter to the last digit.

    φ_n² is Poisson's probability of n at the mean r², hence N ≈ r² + 8 |r| + 40. By φ_n = φ_{n−1}
    r/√n, with e^{−r²/2} spread over the first K ≥ r² factors, so that nothing under- or overflows.
    """
    top = float(np.abs(r).max())
    if not top <= FARTHEST:
        raise ValueError(
            f"These layers stretch their inputs over more than {FARTHEST:g} lengthscales: choose a "
            "longer lengthscale, a smaller deviation or fewer layers."
        )
    n = np.arange(1, int(top**2 + 8.0 * top + 40.0))
    K = int(top**2) + 1
    factors = np.ones((len(r), len(n) + 1))
    factors[:, 1:] = r[:, None] / np.sqrt(n)[None]
    factors[:, 1 : K + 1] *= np.exp(-0.5 * r**2 / K)[:, None]
    phi = np.cumprod(factors, 1)
    # The first K features lack the factors still to come.
    missing = np.exp(-0.5 * r[:, None] ** 2 * (1.0 - np.arange(K) / K)[None])
    phi[:, :K] *= missing
    return phi


def _slopes(phi: np.ndarray, r: np.ndarray) -> np.ndarray:
    """φ_n' = √n φ_{n−1} − r φ_n   (R, N)."""
    n = np.arange(1, phi.shape[1])
    rising = np.concatenate([np.zeros((len(r), 1)), np.sqrt(n)[None] * phi[:, :-1]], 1)
    return rising - r[:, None] * phi


def _draw(h: np.ndarray, lengthscale: float, deviation: float, place) -> tuple:
    """One function and its derivative at h (G,); the same place gives the same function."""
    r = h / lengthscale
    phi = features(r)
    a = np.random.default_rng(place).standard_normal(phi.shape[1])  # a prefix of one long draw
    return deviation * (phi @ a), deviation / lengthscale * (_slopes(phi, r) @ a)


def _draw_beside(
    h: np.ndarray, h_slope: np.ndarray, x: np.ndarray, lengthscale: float, deviation: float, place
) -> tuple:
    """g(h(x), x) = σ Σ_nm a_nm φ_n(h/ℓ) φ_m(x/ℓ) and its derivative by x, at x (G,)."""
    r, t = h / lengthscale, x / lengthscale
    left, right = features(r), features(t)
    a = np.random.default_rng(place).standard_normal((left.shape[1], right.shape[1]))
    by_h, by_x = _slopes(left, r) @ a * right, left @ a * _slopes(right, t)
    slope = by_h.sum(1) * h_slope + by_x.sum(1)
    return deviation * (left @ a * right).sum(1), deviation / lengthscale * slope


def _draw_plane(X: np.ndarray, lengthscale: float, deviation: float, place) -> tuple:
    """Two functions g_p(x) = σ Σ_nm a_pnm φ_n(x₁/ℓ) φ_m(x₂/ℓ) of two inputs, and their Jacobian."""
    R = X / lengthscale
    phi = [features(R[:, d]) for d in range(2)]
    slope = [_slopes(phi[d], R[:, d]) for d in range(2)]
    N = max(p.shape[1] for p in phi)
    F, J = np.empty((len(X), 2)), np.empty((len(X), 2, 2))
    for p in range(2):
        a = _square_draw(N, (*place, p))[: phi[0].shape[1], : phi[1].shape[1]]
        half, half_slope = phi[0] @ a, slope[0] @ a
        F[:, p] = (half * phi[1]).sum(1)
        J[:, p, 0] = (half_slope * phi[1]).sum(1)
        J[:, p, 1] = (half * slope[1]).sum(1)
    return deviation * F, deviation / lengthscale * J


def _square_draw(N: int, place) -> np.ndarray:
    """Normals (N, N), of which a larger N keeps all: row by row, each from its own seed."""
    return np.stack([np.random.default_rng((*place, n)).standard_normal(N) for n in range(N)])


def _distinct(functions: np.ndarray, cell: float) -> np.ndarray:
    """How many cells of the output each draw visits, on average over draws (L,)."""
    L, S, _ = functions.shape
    cells = np.floor(functions / cell)
    return np.array([np.mean([len(np.unique(cells[l, s])) for s in range(S)]) for l in range(L)])


def _correlations(functions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E f(x) f(x+d) / √(E f(x)² E f(x+d)²) over draws and inputs: lags in steps (K,), (L, K)."""
    G = functions.shape[2]
    lags = np.unique(np.linspace(0, G // 2, DISTANCES).astype(int))
    each = []
    for lag in lags:
        here, there = functions[:, :, : G - lag], functions[:, :, lag:]
        power = (here**2).mean((1, 2)) * (there**2).mean((1, 2))
        each.append((here * there).mean((1, 2)) / np.sqrt(power))
    return lags, np.stack(each, 1)


def _check(depth: int, mean_function: str, lengthscale: float, deviation: float) -> None:
    if not 1 <= depth <= MOST_LAYERS:
        raise ValueError(f"The depth goes from 1 to {MOST_LAYERS} layers, not to {depth}.")
    if mean_function not in ("zero", "linear", "concatenate"):
        raise ValueError("The inner layers' mean function is zero, linear or concatenate.")
    if not (lengthscale > 0 and deviation > 0):
        raise ValueError("Lengthscale and deviation must be above 0.")
