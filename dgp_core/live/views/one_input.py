"""A moment of a run on one input: both models' predictions along it, and what each layer does.

Everything that leaves here is in the user's units; what lies between layers has none, and stays as
the model has it. The ε are fixed, so that a picture moves only as far as the parameters do.
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.likelihoods import Bernoulli, Counts, Gaussian, RobustMax, Softmax, StudentT
from dgp_core.gp.model import Bound, DeepGP
from dgp_core.live.views.evaluate import Evaluated, evaluated
from dgp_core.live.views.paths import (
    Judged,
    cdf,
    class_names,
    even_normals,
    function_normals,
    layer_title,
    mixture_probabilities,
    noise_variances,
    noisy,
    parts,
    quantiles,
    readable,
    readable_mean,
)

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
    data, scaler = run.dataset.rates, run.scaler
    column = int(np.argmax(scaler.kept))
    data_x = data.X[:, column]
    low, high = data_x.min(), data_x.max()
    margin = 0.1 * (high - low) or 1.0
    x = np.linspace(low - margin, high + margin, G)
    axis = _Axis.of(data, scaler, snapshot.deep)

    numbers = _numbers(evaluated(run, snapshot), x, scaler, axis, S, noise)
    deep = _panel(snapshot.deep, numbers, snapshot.deep_bound, scaler, axis)
    if snapshot.rival is snapshot.deep or len(snapshot.deep.layers) == 1:
        rival = deep
    else:
        single = _numbers(evaluated(run, snapshot, "rival"), x, scaler, axis, S, noise)
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
        counts=isinstance(snapshot.deep.likelihood, Counts),
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
        if isinstance(likelihood, Counts):
            edges = np.linspace(0.0, high, CELLS + 1)
            factor = np.log(edges[1:]) - np.asarray(likelihood.offset)[0]
            return cls(edges, np.concatenate([[-np.inf], factor]))
        edges = np.linspace(low, high, CELLS + 1)
        return cls(edges, (edges - scaler.y_mean[0]) / scaler.y_scale[0])


@dataclass(frozen=True, eq=False)
class _LayerNumbers:
    samples: np.ndarray
    entering: Any
    map_mean: Any
    map_sd: Any
    inducing: np.ndarray
    u_mean: np.ndarray
    u_sd: np.ndarray
    departure: float


@dataclass(frozen=True, eq=False)
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


@jax.jit
def _along_y(means: jax.Array, deviations: jax.Array, edges: jax.Array):
    """The mixture's quantiles (K, G), and its share between neighbouring edges (H, G)."""
    z = (edges[:, None, None] - means[None]) / deviations[None]
    return quantiles(means, deviations, LEVELS), jnp.diff(jnp.mean(cdf(z), 1), axis=0)


def _layer_numbers(model: Evaluated, l: int, H: np.ndarray, F: np.ndarray) -> _LayerNumbers:
    """A layer's map, q(u) and departure, given what enters (S, G, D) and leaves (S, G, P)."""
    rows = H.reshape(-1, H.shape[2])
    entering = map_mean = map_sd = None
    if H.shape[2] == 1:
        low, high = H.min(), H.max()
        margin = 0.05 * (high - low) + 1e-6
        entering = np.linspace(low - margin, high + margin, H.shape[1])
        q = model.conditional(l, entering[:, None])
        map_mean, map_sd = np.asarray(q.mean)[:, 0], np.sqrt(np.asarray(q.variance)[:, 0])
    return _LayerNumbers(
        samples=F[:, :, 0],
        entering=entering,
        map_mean=map_mean,
        map_sd=map_sd,
        inducing=np.asarray(model.layers[l].inducing)[:, 0],
        u_mean=model.inducing_mean(l)[:, 0],
        u_sd=model.inducing_sd(l)[:, 0],
        departure=model.departure(l, rows),
    )


def _numbers(
    model: Evaluated, x: np.ndarray, scaler: Scaler, axis: _Axis, n_draws: int, noise: bool
) -> _Numbers:
    """Everything of a model that its pictures need."""
    kept, likelihood = scaler.kept, model.model.likelihood
    X = ((x - scaler.x_mean[kept]) / scaler.x_scale[kept])[:, None]
    q = model.components(X, even_normals(PATHS, model.widths))
    means = variances = levels = masses = probabilities = None
    if isinstance(likelihood, RobustMax | Softmax):
        probabilities = np.asarray(mixture_probabilities(likelihood, q), np.float64)
    else:
        means, deviations = noisy(q, noise_variances(model.model, PATHS) * noise)
        variances = deviations**2
        levels, masses = (np.asarray(a) for a in _along_y(means, deviations, axis.latent))
    shapes = tuple(layer.q_mean.shape for layer in model.layers)
    layers, H = [], X[None]
    for l, (eps_u, eps_r) in enumerate(function_normals(n_draws, len(x), shapes)):
        F = model.functions(l, H, eps_u, eps_r)
        layers.append(_layer_numbers(model, l, H, F))
        H = model.beside(F, np.broadcast_to(X[None], (len(F), *X.shape)))
    return _Numbers(means, variances, levels, masses, probabilities, tuple(layers))


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
