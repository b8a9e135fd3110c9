"""A moment of a run on one input: both models' predictions along it, and what each layer does.

Everything that leaves here is in the user's units; what lies between layers has none, and stays as
the model has it. The ε are fixed, so that a picture moves only as far as the parameters do.
"""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy import special

from dgp_core.data import Dataset, Scaler
from dgp_core.layers import Factors, Layer, conditional, factorise, inducing_gram
from dgp_core.likelihoods import Bernoulli, Gaussian, Poisson, RobustMax, Softmax, StudentT
from dgp_core.live.paths import (
    Judged,
    all_finite,
    cdf,
    class_names,
    components,
    departure,
    even_normals,
    inducing_mean,
    inner_widths,
    layer_title,
    mixture_probabilities,
    noise_variances,
    noisy,
    parts,
    quantiles,
    readable,
    readable_mean,
    settled,
)
from dgp_core.model import Bound, DeepGP
from dgp_core.predict import residual_roots
from dgp_core.pytree import pytree

if TYPE_CHECKING:
    from dgp_core.live.run import Run, Snapshot

LEVELS = (0.025, 0.25, 0.75, 0.975)
"""Of the quantiles: a band of 95 % and one of 50 %."""

PATHS = 40
"""Components of a deep model's mixture: their ε are spread evenly, and do the work of more."""

CELLS = 64
"""Of the density along y."""


@dataclass(frozen=True, eq=False)
class Panel(Judged):
    """What one model predicts, along a grid of G inputs."""

    mean: np.ndarray
    """Of y, or the probability of the second class (G,)."""
    levels: np.ndarray
    """Of the quantiles (K,)."""
    quantiles: np.ndarray
    """Of the mixture (K, G)."""
    density_y: np.ndarray
    """The middles of H cells of equal height, the same at every moment of a run (H,)."""
    density: np.ndarray
    """The mixture's density, averaged over each cell (H, G); what lies beyond them is left out."""
    draws: np.ndarray
    """Whole functions, without noise (S, G)."""
    inducing: np.ndarray
    """The first layer's Z (M,)."""


@dataclass(frozen=True, eq=False)
class ClassPanel(Judged):
    """What one model predicts along a grid of G inputs, where there are several classes."""

    probabilities: np.ndarray
    """Of each class (C, G)."""
    inducing: np.ndarray
    """The first layer's Z (M,)."""


@dataclass(frozen=True, eq=False)
class LayerPanel:
    """What one layer does; first output only."""

    x: np.ndarray
    """The grid of inputs of the whole model (G,)."""
    samples: np.ndarray
    """Functions of x after this layer (S, G)."""
    map_x: np.ndarray | None
    """What enters the layer, over its range (G,); None where it has several inputs."""
    map_mean: np.ndarray | None
    """The layer's own mean over that range (G,)."""
    map_sd: np.ndarray | None
    """And its deviation, noise between layers included (G,)."""
    inducing: np.ndarray | None
    """Z (M,)."""
    u_mean: np.ndarray | None
    """q(u)'s mean, mean function included (M,)."""
    u_sd: np.ndarray | None
    """q(u)'s deviation (M,)."""
    departure: float
    """How far the layer is from its mean function, 0 to 1; a mean of zero gives 1."""
    kl: float
    """At the last step before this moment; NaN before the first."""
    title: str


@dataclass(frozen=True, eq=False)
class View1D:
    """A moment of a run on one input, in the user's units."""

    step: int
    x: np.ndarray
    """The grid: the data's range and a tenth of it on both sides (G,)."""
    x_name: str
    y_name: str
    data_x: np.ndarray
    data_y: np.ndarray
    """As recorded; a class is its code."""
    deep: Panel | ClassPanel
    """The second kind where a likelihood of several classes was chosen."""
    rival: Panel | ClassPanel
    layers: tuple[LayerPanel, ...]
    """Of the deep model, from the first."""
    noise_included: bool
    """Whether quantiles and density are of new y; else of the function alone, of the rate, or of
    the second class's probability."""
    classes: tuple[str, ...] = ()
    """None where y is a measurement or a count."""
    counts: bool = False
    """Whether y is a count, and the mean its rate."""


def has_view_1d(run: "Run") -> bool:
    """Whether `view_1d` can draw a run: one varying input."""
    return int(run.scaler.kept.sum()) == 1 and len(run.dataset) > 0


def view_1d(
    run: "Run", snapshot: "Snapshot", n_grid: int = 120, n_draws: int = 8, noise: bool = True
) -> View1D:
    """A moment of a run on one input; each is computed once and shared.

    With `noise`, quantiles and density are of new measurements; else of the function alone.
    """
    if not has_view_1d(run):
        raise ValueError("This view needs rows of one varying input.")
    return run.gallery.get(
        (snapshot.serial, "1d", n_grid, n_draws, noise),
        lambda: _view_1d(run, snapshot, n_grid, n_draws, noise),
    )


def _view_1d(run: "Run", snapshot: "Snapshot", G: int, S: int, noise: bool) -> View1D:
    data, scaler = run.dataset, run.scaler
    column = int(np.argmax(scaler.kept))
    data_x = data.X[:, column]
    low, high = data_x.min(), data_x.max()
    margin = 0.1 * (high - low) or 1.0
    x = np.linspace(low - margin, high + margin, G)
    axis = _Axis.of(data, scaler, snapshot.deep)

    numbers = _numbers(snapshot.deep, x, scaler, axis, S, noise)
    deep = _panel(snapshot.deep, numbers, snapshot.deep_bound, scaler, axis)
    if snapshot.rival is snapshot.deep or len(snapshot.deep.layers) == 1:
        rival = deep
    else:
        single = _numbers(snapshot.rival, x, scaler, axis, S, noise)
        rival = _panel(snapshot.rival, single, snapshot.rival_bound, scaler, axis)
    kl = np.asarray(snapshot.deep_bound.kl, np.float64)
    L = len(snapshot.deep.layers)
    layers = tuple(
        _layer_panel(x, part, scaler, float(kl[l]), l, L) for l, part in enumerate(numbers.layers)
    )
    return View1D(
        step=snapshot.step,
        x=x,
        x_name=data.input_names[column],
        y_name=data.output_names[0],
        data_x=data_x,
        data_y=data.Y[:, 0],
        deep=deep,
        rival=rival,
        layers=layers,
        noise_included=noise and isinstance(snapshot.deep.likelihood, Gaussian | StudentT),
        counts=isinstance(snapshot.deep.likelihood, Poisson),
        classes=class_names(run),
    )


@dataclass(frozen=True, eq=False)
class _Axis:
    """Along y: the cells' edges as a person reads them, and the f that each of them stands for."""

    edges: np.ndarray
    latent: np.ndarray

    @classmethod
    def of(cls, data: Dataset, scaler: Scaler, model: DeepGP) -> "_Axis":
        y, likelihood = data.Y[:, 0], model.likelihood
        if isinstance(likelihood, Bernoulli):
            edges = np.linspace(0.0, 1.0, CELLS + 1)
            return cls(edges, special.ndtri(edges))
        room = 0.5 * (y.max() - y.min()) or 1.0
        low, high = y.min() - room, y.max() + room
        if isinstance(likelihood, Poisson):
            edges = np.linspace(0.0, high, CELLS + 1)
            return cls(edges, np.concatenate([[-np.inf], np.log(edges[1:])]))
        edges = np.linspace(low, high, CELLS + 1)
        return cls(edges, (edges - scaler.y_mean[0]) / scaler.y_scale[0])


@pytree
@dataclass(frozen=True)
class _LayerNumbers:
    samples: Any
    entering: Any
    map_mean: Any
    map_sd: Any
    inducing: Any
    u_mean: Any
    u_sd: Any
    departure: Any


@pytree
@dataclass(frozen=True)
class _Numbers:
    """Everything that the pictures of one model need, in its own units."""

    means: Any
    """Of the mixture's components (S, G), noise included."""
    variances: Any
    quantiles: Any
    masses: Any
    """The mixture's share of each cell (H, G)."""
    probabilities: Any
    """Of several classes (G, C), which need nothing of the above."""
    layers: tuple[_LayerNumbers, ...]


def _masses(means: jax.Array, deviations: jax.Array, edges: jax.Array) -> jax.Array:
    """The mixture's share between neighbouring edges (H, G)."""
    z = (edges[:, None, None] - means[None]) / deviations[None]
    return jnp.diff(jnp.mean(cdf(z), 1), axis=0)


def _leaving(layer: Layer, L: jax.Array, H: jax.Array, eps_u: jax.Array, eps_r: jax.Array):
    """Functions of a layer (S, G, P) at inputs H (S, G, D), or (1, G, D) where all are the same.

    w(h) + Tᵀ(m + C ε_u) + chol(K_hh − TᵀT) ε_r, as `predict.function_draws`.
    """
    T, root = lax.map(partial(residual_roots, layer, L), H)  # never a batch: see layers.py
    v = layer.q_mean[None] + jnp.einsum("pij,sjp->sip", layer.factor, eps_u)
    F = jnp.swapaxes(T, 1, 2) @ v + root @ eps_r
    return F if layer.mean_weights is None else F + H @ layer.mean_weights


def _layer_numbers(layer: Layer, factor: Factors, L, H, F) -> _LayerNumbers:
    """A layer's map, q(u) and departure, given what enters (S, G, D) and leaves (S, G, P)."""
    rows = H.reshape(-1, H.shape[2])
    added = factor.kernel.gram(rows, factor.inducing) @ _weights(layer, L)
    kept = None if layer.mean_weights is None else rows @ layer.mean_weights
    entering = map_mean = map_sd = None
    if H.shape[2] == 1:
        low, high = jnp.min(H), jnp.max(H)
        margin = 0.05 * (high - low) + 1e-6
        share = jnp.asarray(np.linspace(0.0, 1.0, H.shape[1]), H.dtype)
        entering = low - margin + (high - low + 2 * margin) * share
        q = conditional(factor, entering[:, None])
        map_mean, map_sd = q.mean[:, 0], jnp.sqrt(q.variance[:, 0])
    return _LayerNumbers(
        samples=F[:, :, 0],
        entering=entering,
        map_mean=map_mean,
        map_sd=map_sd,
        inducing=layer.inducing[:, 0],
        u_mean=inducing_mean(layer, L)[:, 0],
        u_sd=jnp.sqrt(jnp.sum((L @ layer.factor[0]) ** 2, 1)),
        departure=departure(added, kept),
    )


def _weights(layer: Layer, L: jax.Array) -> jax.Array:
    """L⁻ᵀ m (M, P)."""
    return lax.linalg.triangular_solve(
        L, layer.q_mean, left_side=True, lower=True, transpose_a=True
    )


@lru_cache(maxsize=64)
def _function_normals(n_draws: int, n_rows: int, shapes: tuple[tuple[int, int], ...]):
    """ε_u (S, M, P) and ε_r (S, G, P) of every layer, always the same."""
    rng = np.random.default_rng(1)
    return [
        (rng.standard_normal((n_draws, M, P)), rng.standard_normal((n_draws, n_rows, P)))
        for M, P in shapes
    ]


@jax.jit
def _compiled(model: DeepGP, X, edges, noise, paths, functions, jitter):
    factors = tuple(factorise(layer, jitter) for layer in model.layers)
    q = components(model, factors, X, paths)
    means = variances = levels = masses = probabilities = None
    if isinstance(model.likelihood, RobustMax | Softmax):
        probabilities = mixture_probabilities(model.likelihood, q)
    else:
        means, deviations = noisy(q, noise)
        variances = deviations**2
        levels = quantiles(means, deviations, LEVELS)
        masses = _masses(means, deviations, edges)
    layers, H = [], X[None]
    for layer, factor, (eps_u, eps_r) in zip(model.layers, factors, functions, strict=True):
        L = jnp.linalg.cholesky(inducing_gram(layer, jitter))
        F = _leaving(layer, L, H, eps_u, eps_r)
        layers.append(_layer_numbers(layer, factor, L, H, F))
        inputs = jnp.broadcast_to(X[None], (len(F), *X.shape))
        H = jnp.concatenate([F, inputs], 2) if model.concatenate else F
    numbers = _Numbers(means, variances, levels, masses, probabilities, tuple(layers))
    return numbers, all_finite(numbers)


def _numbers(
    model: DeepGP, x: np.ndarray, scaler: Scaler, axis: _Axis, n_draws: int, noise: bool
) -> _Numbers:
    """Everything of a model in one compiled call.

    Always in double precision: single has too few digits to draw a function at neighbouring places.
    """
    model = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)
    dtype = np.float64
    kept = scaler.kept
    X = ((x - scaler.x_mean[kept]) / scaler.x_scale[kept])[:, None].astype(dtype)
    shapes = tuple(layer.q_mean.shape for layer in model.layers)
    paths = even_normals(PATHS, inner_widths(model))
    functions = _function_normals(n_draws, len(x), shapes)
    paths, functions = jax.tree.map(lambda eps: eps.astype(dtype), (paths, functions))
    variances = (
        noise_variances(model, PATHS) * noise
    )  # zeros have the same shape: no new compilation
    return settled(model, partial(_compiled, model, X, axis.latent, variances, paths, functions))


def _panel(
    model: DeepGP, numbers: _Numbers, bound: Bound, scaler: Scaler, axis: _Axis
) -> Panel | ClassPanel:
    inducing = _x_back(scaler, numbers.layers[0].inducing)
    if numbers.probabilities is not None:
        return ClassPanel(numbers.probabilities.T, inducing, **parts(bound))
    height = np.diff(axis.edges)
    return Panel(
        mean=readable_mean(model, scaler, numbers.means, numbers.variances),
        levels=np.array(LEVELS),
        quantiles=readable(model, scaler, numbers.quantiles),
        density_y=axis.edges[:-1] + 0.5 * height,
        density=numbers.masses / height[:, None],
        draws=readable(model, scaler, numbers.layers[-1].samples),
        inducing=inducing,
        **parts(bound),
    )


def _x_back(scaler: Scaler, x: np.ndarray) -> np.ndarray:
    return x * scaler.x_scale[scaler.kept] + scaler.x_mean[scaler.kept]


def _layer_panel(
    x: np.ndarray, part: _LayerNumbers, scaler: Scaler, kl: float, l: int, n_layers: int
) -> LayerPanel:
    """One layer: x where it is the first, y (or f behind a link) where it is the last."""
    shift, scale = (0.0, 1.0) if l < n_layers - 1 else (scaler.y_mean[0], scaler.y_scale[0])
    alone = part.entering is not None
    enters = partial(_x_back, scaler) if l == 0 else lambda z: z
    return LayerPanel(
        x=x,
        samples=part.samples * scale + shift,
        map_x=enters(part.entering) if alone else None,
        map_mean=part.map_mean * scale + shift if alone else None,
        map_sd=part.map_sd * scale if alone else None,
        inducing=enters(part.inducing) if alone else None,
        u_mean=part.u_mean * scale + shift if alone else None,
        u_sd=part.u_sd * scale if alone else None,
        departure=float(part.departure),
        kl=kl,
        title=layer_title(l, n_layers),
    )
