"""A moment of a run on one input: both models' predictions along it, and what each layer does.

Everything that leaves here is in the user's units; what lies between layers has none, and stays as
the model has it. The ε are fixed, so that a picture moves only as far as the parameters do.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.likelihoods import Bernoulli, Counts, Gaussian, RobustMax, Softmax, StudentT
from dgp_core.gp.model import Bound, DeepGP
from dgp_core.live.views.evaluate import Evaluated, evaluated, of_both
from dgp_core.live.views.paths import (
    Judged,
    cdf,
    class_names,
    even_normals,
    frame,
    in_standard_units,
    in_users_units,
    layer_title,
    mixture_probabilities,
    noise_variances,
    noisy,
    parts,
    quantiles,
    readable,
    readable_mean,
    spanning,
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
    data, scaler, model = run.dataset.rates, run.scaler, snapshot.deep
    column = int(np.argmax(scaler.kept))
    x = spanning(data.X[:, column], G)
    X = in_standard_units(scaler, x)[:, None]
    axis = _Axis.of(data, scaler, model)

    def look(model: Evaluated, bound: Bound):
        draws = model.function_draws(X, S)
        return draws, _panel(model, bound, X, draws[-1][1][:, :, 0], scaler, axis, noise)

    (draws, deep), (_, rival) = of_both(run, snapshot, look)
    ready, kl = evaluated(run, snapshot), np.asarray(snapshot.deep_bound.kl, np.float64)
    return View1D(
        step=snapshot.step,
        x=x,
        x_name=data.input_names[column],
        y_name=data.output_names[0],
        data_x=data.X[:, column],
        data_y=data.Y[:, 0],
        deep=deep,
        rival=rival,
        layers=tuple(
            _layer_panel(ready, l, x, H, F, scaler, float(kl[l])) for l, (H, F) in enumerate(draws)
        ),
        noise_included=noise and isinstance(model.likelihood, Gaussian | StudentT),
        counts=isinstance(model.likelihood, Counts),
        classes=class_names(run),
    )


@dataclass(frozen=True, eq=False)
class _Axis:
    """Along y: the cells' edges as a person reads them, and the f that each of them stands for."""

    edges: np.ndarray
    latent: np.ndarray

    @classmethod
    def of(cls, data: Dataset, scaler: Scaler, model: DeepGP) -> "_Axis":
        likelihood = model.likelihood
        edges = np.linspace(*frame(data.Y[:, 0], likelihood), CELLS + 1)
        if isinstance(likelihood, Bernoulli):
            return cls(edges, special.ndtri(edges))
        if isinstance(likelihood, Counts):
            factor = np.log(edges[1:]) - np.asarray(likelihood.offset)[0]
            return cls(edges, np.concatenate([[-np.inf], factor]))
        return cls(edges, (edges - scaler.y_mean[0]) / scaler.y_scale[0])


@jax.jit
def _along_y(means: jax.Array, deviations: jax.Array, edges: jax.Array):
    """The mixture's quantiles (K, G), and its share between neighbouring edges (H, G)."""
    z = (edges[:, None, None] - means[None]) / deviations[None]
    return quantiles(means, deviations, LEVELS), jnp.diff(jnp.mean(cdf(z), 1), axis=0)


def _panel(
    model: Evaluated,
    bound: Bound,
    X: np.ndarray,
    draws: np.ndarray,
    scaler: Scaler,
    axis: _Axis,
    noise: bool,
) -> Panel | ClassPanel:
    """What a model predicts at X (G, 1), given functions drawn there (S, G), in standard units."""
    own, likelihood = model.model, model.model.likelihood
    inducing = in_users_units(scaler, np.asarray(own.layers[0].inducing)[:, 0])
    q = model.components(X, even_normals(PATHS, model.widths))
    if isinstance(likelihood, RobustMax | Softmax):
        probabilities = np.asarray(mixture_probabilities(likelihood, q), np.float64)
        return ClassPanel(probabilities.T, inducing, **parts(bound))
    means, deviations = noisy(q, noise_variances(own, PATHS) * noise)
    levels, masses = (np.asarray(a) for a in _along_y(means, deviations, axis.latent))
    height = np.diff(axis.edges)
    return Panel(
        mean=readable_mean(own, scaler, means, deviations**2),
        levels=np.array(LEVELS),
        quantiles=readable(own, scaler, levels),
        density_y=axis.edges[:-1] + 0.5 * height,
        density=masses / height[:, None],
        draws=readable(own, scaler, draws),
        inducing=inducing,
        **parts(bound),
    )


def _layer_panel(
    model: Evaluated,
    l: int,
    x: np.ndarray,
    H: np.ndarray,
    F: np.ndarray,
    scaler: Scaler,
    kl: float,
) -> LayerPanel:
    """A layer, given what enters (S, G, D) and leaves (S, G, P), in standard units.

    In the user's units is x where it is the first layer, and y (or f behind a link) where it is the
    last.
    """
    L = len(model)
    shift, scale = (scaler.y_mean[0], scaler.y_scale[0]) if l == L - 1 else (0.0, 1.0)
    map_x = map_mean = map_sd = inducing = u_mean = u_sd = None
    if H.shape[2] == 1:
        map_x, map_mean, map_sd = (a[0] for a in model.map(l, H, len(x)))
        map_mean, map_sd = map_mean[:, 0] * scale + shift, map_sd[:, 0] * scale
        inducing = np.asarray(model.layers[l].inducing)[:, 0]
        u_mean = model.inducing_mean(l)[:, 0] * scale + shift
        u_sd = model.inducing_sd(l)[:, 0] * scale
        if l == 0:
            map_x, inducing = in_users_units(scaler, map_x), in_users_units(scaler, inducing)
    return LayerPanel(
        x=x,
        samples=F[:, :, 0] * scale + shift,
        map_x=map_x,
        map_mean=map_mean,
        map_sd=map_sd,
        inducing=inducing,
        u_mean=u_mean,
        u_sd=u_sd,
        departure=model.departure(l, H.reshape(-1, H.shape[2])),
        kl=kl,
        title=layer_title(l, L),
    )
