"""What the pictures of any data share: even sample paths, mixtures along them, the means' own path.

The ε are fixed, so that a picture moves only as far as the parameters do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import special

from dgp_core.gp.data import Scaler
from dgp_core.gp.layers import Normal
from dgp_core.gp.likelihoods import Bernoulli, Counts, Gaussian, RobustMax, Softmax, StudentT
from dgp_core.gp.model import JITTER, MOST_JITTER, Bound, DeepGP, principal_axes
from dgp_core.training.train import padded_size

if TYPE_CHECKING:
    from dgp_core.live.run import Run

HALVINGS = 40
"""Of a quantile's bracket: 1e-12 of it is left."""

CLASS_NODES = 128
"""Latents drawn for the probabilities of several classes, all paths together."""

MOST_ROWS = 400
"""Rows of the data that a picture shows."""


@lru_cache(maxsize=64)
def even_normals(n_paths: int, widths: tuple[int, ...]) -> list[np.ndarray]:
    """ε of every layer (S, P): Φ⁻¹ of S even shares, shuffled for each output, variance 1.

    A Latin hypercube: with one output in all it is a quadrature over ε.
    """
    rng = np.random.default_rng(0)
    even = special.ndtri((np.arange(n_paths) + 0.5) / n_paths)
    even /= even.std()
    return [np.stack([rng.permutation(even) for _ in range(P)], 1) for P in widths]


@lru_cache(maxsize=64)
def function_normals(n_draws: int, n_rows: int, shapes: tuple[tuple[int, int], ...]):
    """ε_u (S, M, P) and ε_r (S, G, P) of every layer, always the same."""
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((n_draws, M, P)), rng.standard_normal((n_draws, n_rows, P)))
        for M, P in shapes
    ]


def inner_widths(model: DeepGP) -> tuple[int, ...]:
    """Outputs of every layer but the last."""
    return tuple(layer.q_mean.shape[1] for layer in model.layers[:-1])


def noise_variances(model: DeepGP, n_paths: int) -> np.ndarray:
    """The noise of the first output on each path (S,), or (1,) where all have the same.

    Student's t is a Gaussian of variance s²/λ, λ ~ Gamma(ν/2, ν/2): the paths take λ's even
    quantiles. Behind a link there is none.
    """
    likelihood = model.likelihood
    if isinstance(likelihood, Gaussian):
        return np.exp(np.asarray(likelihood.log_variance, np.float64)[:1])
    if isinstance(likelihood, StudentT):
        nu = 2.0 + np.exp(float(likelihood.log_excess[0]))
        share = np.random.default_rng(2).permutation((np.arange(n_paths) + 0.5) / n_paths)
        precision = special.gammaincinv(0.5 * nu, share) / (0.5 * nu)
        return np.exp(2 * float(likelihood.log_scale[0])) / precision
    return np.zeros(1)


def noisy(q: Normal, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations of the first output (S, G), noise included."""
    mean, variance = (np.asarray(a)[:, :, 0] for a in q)
    variance = variance + noise[:, None]
    return np.broadcast_to(mean, variance.shape), np.sqrt(variance)


def cdf(z: jax.Array) -> jax.Array:
    """Φ(z) = ½ erfc(−z/√2); JAX's own ndtr takes seven times as long."""
    return 0.5 * lax.erfc(z * float(-np.sqrt(0.5)))


def quantiles(
    means: jax.Array, deviations: jax.Array, levels: tuple[float, ...], halvings: int = HALVINGS
) -> jax.Array:
    """Quantiles of the mixture (K, G), by halving the bracket of the components' own."""
    level = jnp.asarray(levels)[:, None]
    own = means[None] + deviations[None] * jnp.asarray(special.ndtri(levels))[:, None, None]
    inverse = 1.0 / deviations

    def halve(_, bracket):
        low, high = bracket
        middle = 0.5 * (low + high)
        below = jnp.mean(cdf((middle[:, None] - means[None]) * inverse[None]), 1) < level
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jnp.min(own, 1), jnp.max(own, 1)
    if len(means) > 1:
        low, high = lax.fori_loop(0, halvings, halve, (low, high))
    return 0.5 * (low + high)


@jax.jit
def mixture_probabilities(likelihood: RobustMax | Softmax, q: Normal) -> jax.Array:
    """p(y = c) of each row (G, C) for q(f^L) on each path (S, G, C), to look at.

    Off by under 0.01 on average. The latents are drawn, CLASS_NODES even ones among all paths, the
    same for every row. Softmax is averaged over them; the largest one's probability over all but
    the class's own latent, Φ((m_c − max_{j≠c} f_j)/√v_c), which is smooth.
    """
    S, G, C = q.mean.shape
    each = max(1, CLASS_NODES // S)
    nodes = even_normals(S * each, (C,))[0].astype(np.float32)
    eps = nodes.T.reshape(C, S, each, 1)
    # Classes first: what is summed or compared lies far apart, and rows lie side by side.
    m, v = (jnp.moveaxis(a.astype(jnp.float32), 2, 0)[:, :, None] for a in q)  # (C, S, 1, G)
    deviation = jnp.sqrt(v)
    F = m + deviation * eps
    largest = jnp.max(F, 0, keepdims=True)
    if isinstance(likelihood, Softmax):
        E = jnp.exp(F - largest)
        return jnp.mean(E / jnp.sum(E, 0, keepdims=True), (1, 2)).T
    second = jnp.max(jnp.where(F == largest, -jnp.inf, F), 0, keepdims=True)
    rest = jnp.where(F == largest, second, largest)
    p = jnp.mean(cdf((m - rest) / deviation), (1, 2))
    p = (p / jnp.sum(p, 0, keepdims=True)).T
    epsilon = likelihood.epsilon
    return (1 - epsilon) * p + epsilon / (C - 1) * (1.0 - p)


def settled(model: DeepGP, compute: Callable[[np.ndarray], tuple[Any, Any]]) -> Any:
    """What `compute(jitter) -> (numbers, finite)` gives with as much jitter as a model needs."""
    jitter = JITTER
    while jitter <= MOST_JITTER:
        numbers, finite = compute(np.asarray(jitter, model.layers[0].inducing.dtype))
        if finite:
            return jax.tree.map(lambda a: np.asarray(a, np.float64), numbers)
        jitter *= 10
    raise ValueError(
        "This moment cannot be drawn: its inducing points have no positive definite covariance. "
        "Reset the run with a smaller learning rate."
    )


def all_finite(numbers: Any) -> jax.Array:
    """Whether every number of a tree is finite."""
    return jnp.isfinite(sum(jnp.sum(leaf).astype(float) for leaf in jax.tree.leaves(numbers)))


def spanning(x: np.ndarray, n: int) -> np.ndarray:
    """So many even places over the range of x and a tenth of it on both sides (n,)."""
    low, high = x.min(), x.max()
    margin = 0.1 * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, n)


def varying_input(run: "Run", n: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The one input that varies, over its range (n,), and whole rows there (n, D); None where
    several do."""
    X, kept = run.dataset.X, run.scaler.kept
    if kept.sum() > 1:
        return None
    column = int(np.argmax(kept))
    x = spanning(X[:, column], n)
    rows = np.repeat(X[:1], n, 0)
    rows[:, column] = x
    return x, rows


def varying_name(run: "Run") -> str:
    """The name of the one input that varies; empty where several do."""
    kept = run.scaler.kept
    return run.dataset.input_names[int(np.argmax(kept))] if kept.sum() == 1 else ""


def in_standard_units(scaler: Scaler, x: np.ndarray) -> np.ndarray:
    """The inputs that vary (…, D), from the user's units."""
    return (x - scaler.x_mean[scaler.kept]) / scaler.x_scale[scaler.kept]


def in_users_units(scaler: Scaler, x: np.ndarray) -> np.ndarray:
    """The inputs that vary (…, D), from standard units."""
    return x * scaler.x_scale[scaler.kept] + scaler.x_mean[scaler.kept]


def frame(y: np.ndarray, likelihood: Any) -> tuple[float, float]:
    """The stretch of one output to show, the same at every moment of a run: all probabilities, or
    the range of y (N,) and half of it on both sides, from 0 on for counts."""
    if isinstance(likelihood, Bernoulli):
        return 0.0, 1.0
    room = 0.5 * (y.max() - y.min()) or 1.0
    low = 0.0 if isinstance(likelihood, Counts) else float(y.min() - room)
    return low, float(y.max() + room)


def probability_moments(m: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E Φ(f) and E Φ(f)² = Φ(a) − 2 T(a, 1/√(1+2v)), T Owen's function, a = m/√(1+v), of
    f ~ N(m, v)."""
    a = m / np.sqrt(1.0 + v)
    p = special.ndtr(a)
    return p, p - 2 * special.owens_t(a, 1.0 / np.sqrt(1.0 + 2 * v))


def readable(model: DeepGP, scaler: Scaler, f: np.ndarray) -> np.ndarray:
    """What a person reads for a value of f: y, a rate or a probability; increasing in f."""
    if isinstance(model.likelihood, Bernoulli):
        return special.ndtr(f)
    if isinstance(model.likelihood, Counts):
        return np.exp(np.minimum(f + np.asarray(model.likelihood.offset)[0], 80.0))
    return f * scaler.y_scale[0] + scaler.y_mean[0]


def readable_mean(model: DeepGP, scaler: Scaler, m: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The mean of that over components N(m, v) (S, ...)."""
    if isinstance(model.likelihood, Bernoulli):
        return special.ndtr(m / np.sqrt(1.0 + v)).mean(0)
    if isinstance(model.likelihood, Counts):
        log_rate = m + 0.5 * v + np.asarray(model.likelihood.offset)[0]
        return np.exp(np.minimum(log_rate, 80.0)).mean(0)
    return m.mean(0) * scaler.y_scale[0] + scaler.y_mean[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class Judged:
    """What every panel of a model says of its bound; see `parts`."""

    bound: float
    """At the last step before this moment; NaN before the first."""
    fit: float
    kl: tuple[float, ...]
    """Of each layer."""


def parts(bound: Bound) -> dict[str, Any]:
    """A bound as a panel has it: its value, the fit, and the KL of each layer."""
    kl = np.asarray(bound.kl, np.float64)
    return {
        "bound": float(bound.fit) - float(kl.sum()),
        "fit": float(bound.fit),
        "kl": tuple(float(k) for k in kl),
    }


def layer_title(l: int, n_layers: int) -> str:
    return "the whole model" if n_layers == 1 else f"layer {l + 1} of {n_layers}"


def class_names(run: "Run") -> tuple[str, ...]:
    """The classes that a run tells apart; none where y is a measurement or a count."""
    names = run.dataset.classes
    if run.model.likelihood not in ("bernoulli", "robust_max", "softmax"):
        return ()
    return names if len(names) >= 2 else ("0", "1")


def shown_rows(n_rows: int) -> np.ndarray:
    """The rows that a picture shows: all, or MOST_ROWS of them, always the same."""
    if n_rows <= MOST_ROWS:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, MOST_ROWS, replace=False))


def padded(rows: np.ndarray) -> np.ndarray:
    """Rows filled up with the first one to a size that few sets differ in: fewer shapes compile."""
    n = padded_size(len(rows))
    return np.concatenate([rows, np.repeat(rows[:1], n - len(rows), 0)])


@dataclass(frozen=True, eq=False)
class Sheet:
    """How places of a space are drawn on two axes.

    Two dimensions as they are; more by the first two principal components of some rows; a single
    one above something that each place brings along.
    """

    names: tuple[str, str]
    """Of the axes, in words."""
    middle: np.ndarray
    """(P,)."""
    directions: np.ndarray | None
    """(P, 2), each with its largest loading positive; None of a single dimension."""

    @classmethod
    def of(cls, rows: np.ndarray, words: str, beside: str) -> "Sheet":
        """For a space in which these rows (N, P) lie."""
        P = rows.shape[1]
        if P == 1:
            return cls((beside, words), np.zeros(1), None)
        if P == 2:
            return cls((f"{words} (1)", f"{words} (2)"), np.zeros(2), np.eye(2))
        middle = rows.mean(0)
        centred = rows - middle
        V = principal_axes(centred, 2)
        V = V * np.sign(V[np.abs(V).argmax(0), [0, 1]])
        share = ((centred @ V) ** 2).sum(0) / max((centred**2).sum(), np.finfo(float).tiny)
        names = [f"principal component {c + 1} ({100 * share[c]:.0f} %)" for c in (0, 1)]
        return cls((names[0], names[1]), middle, V)

    def place(self, H: np.ndarray, beside: np.ndarray) -> np.ndarray:
        """Where places H (N, P) are drawn (N, 2)."""
        if self.directions is None:
            return np.stack([beside, H[:, 0]], 1)
        return (H - self.middle) @ self.directions
