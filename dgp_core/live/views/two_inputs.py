"""A moment of a run on two inputs: both models' predictions as maps, each layer as a warped grid.

In the user's units; what lies between layers has none, and stays as the model has it.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from dgp_core.gp.data import Scaler
from dgp_core.gp.layers import Normal
from dgp_core.gp.likelihoods import Bernoulli, Counts, RobustMax, Softmax
from dgp_core.gp.model import Bound, DeepGP
from dgp_core.live.views.evaluate import Evaluated, departure, evaluated
from dgp_core.live.views.paths import (
    Judged,
    Sheet,
    class_names,
    even_normals,
    layer_title,
    mixture_probabilities,
    parts,
    readable_mean,
    shown_rows,
)

if TYPE_CHECKING:
    from dgp_core.live.run import Run, Snapshot

SIDE = 37
"""Grid points along each input."""

EVERY = 4
"""Of the grid's lines, one in so many is drawn through the layers."""

PATHS = 16
"""Components of a deep model's mixture; with two inputs a picture has a thousand places of it."""

MAP_SIDE = 25
"""Grid points along each side of a layer's own map."""


@dataclass(frozen=True, eq=False)
class PlanePanel(Judged):
    """What one model predicts, on a grid of A by B inputs."""

    value: np.ndarray
    """The mean of y, the rate, or the probability of the second class, of several the likeliest
    one's (B, A)."""
    winner: np.ndarray | None
    """The code of the likeliest class (B, A), where there are more than two."""
    probabilities: np.ndarray | None
    """Of each class (C, B, A)."""
    doubt: np.ndarray
    """Of measurements and counts the deviation of a new one; of two classes that of their
    probability; of several the entropy in bits (B, A)."""
    inducing: np.ndarray
    """The first layer's Z (M, 2)."""


@dataclass(frozen=True, eq=False)
class WarpPanel:
    """What one layer does to the plane; every layer passes on its mean.

    A space of two dimensions is drawn as it is, a wider one by the first two principal components
    of the data in it, a single dimension above the first input.
    """

    lines_in: np.ndarray
    """Lines of a regular grid over the inputs, as they enter the layer (K, J, 2)."""
    lines_out: np.ndarray
    """And as they leave it (K, J, 2)."""
    points_in: np.ndarray
    """The rows shown, as they enter (R, 2)."""
    points_out: np.ndarray
    """And as they leave (R, 2)."""
    names_in: tuple[str, str]
    """What the axes of the entering side mean."""
    names_out: tuple[str, str]
    inducing: np.ndarray | None
    """Z (M, 2); None where a single dimension enters."""
    u_mean: np.ndarray | None
    """q(u)'s mean, mean function included (M, 2); None where a single dimension leaves."""
    map_a: np.ndarray | None
    """Where two dimensions enter and one reading leaves: their grid (H,), (H,), and …"""
    map_b: np.ndarray | None
    map_value: np.ndarray | None
    """… the layer's own mean over it, read as PlanePanel.value in the last layer (H, H)."""
    map_winner: np.ndarray | None
    """The likeliest class there (H, H), where there are more than two."""
    width_in: int
    width_out: int
    departure: float
    """How far the layer is from its mean function, 0 to 1; a mean of zero gives 1."""
    kl: float
    """At the last step before this moment; NaN before the first."""
    title: str


@dataclass(frozen=True, eq=False)
class View2D:
    """A moment of a run on two inputs, in the user's units."""

    step: int
    a: np.ndarray
    """The grid along the first input: the data's range and a tenth of it on both sides (A,)."""
    b: np.ndarray
    """And along the second (B,)."""
    input_names: tuple[str, str]
    y_name: str
    value_name: str
    """What PlanePanel.value is, in words."""
    doubt_name: str
    rows: np.ndarray
    """Which rows of the data are shown (R,); a point keeps its number through all layers."""
    n_rows: int
    """How many there are."""
    data_x: np.ndarray
    """Of the rows shown (R, 2)."""
    data_y: np.ndarray
    """As recorded; a class is its code (R,)."""
    classes: tuple[str, ...]
    deep: PlanePanel
    rival: PlanePanel
    layers: tuple[WarpPanel, ...]
    """Of the deep model, from the first."""


def view_2d(run: "Run", snapshot: "Snapshot") -> View2D:
    """A moment of a run on two inputs; each is computed once and shared."""
    if int(run.scaler.kept.sum()) != 2 or not len(run.dataset):
        raise ValueError("This view needs rows of two varying inputs.")
    return run.gallery.get((snapshot.serial, "2d"), lambda: _view_2d(run, snapshot))


def _view_2d(run: "Run", snapshot: "Snapshot") -> View2D:
    data, scaler = run.dataset.rates, run.scaler
    columns = np.flatnonzero(scaler.kept)
    low, high = data.X[:, columns].min(0), data.X[:, columns].max(0)
    margin = np.where(high > low, 0.1 * (high - low), 1.0)
    a, b = (np.linspace(low[d] - margin[d], high[d] + margin[d], SIDE) for d in (0, 1))
    rows = shown_rows(len(data))
    points = data.X[rows][:, columns]
    classes = class_names(run)

    numbers = _numbers(evaluated(run, snapshot), a, b, points, scaler)
    deep = _panel(snapshot.deep, numbers, snapshot.deep_bound, scaler)
    rival = deep
    if len(snapshot.deep.layers) > 1:
        single = _numbers(evaluated(run, snapshot, "rival"), a, b, points, scaler)
        rival = _panel(snapshot.rival, single, snapshot.rival_bound, scaler)
    names = (data.input_names[columns[0]], data.input_names[columns[1]])
    value_name, doubt_name = _words(snapshot.deep, data.output_names[0], classes)
    kl = np.asarray(snapshot.deep_bound.kl, np.float64)
    layers = _warps(snapshot.deep, numbers, len(points), scaler, names, data.output_names[0], kl)
    return View2D(
        step=snapshot.step,
        a=a,
        b=b,
        input_names=names,
        y_name=data.output_names[0],
        value_name=value_name,
        doubt_name=doubt_name,
        rows=rows,
        n_rows=len(data),
        data_x=points,
        data_y=data.Y[rows, 0],
        classes=classes,
        deep=deep,
        rival=rival,
        layers=layers,
    )


def _words(model: DeepGP, y_name: str, classes: tuple[str, ...]) -> tuple[str, str]:
    """What a map's value and its doubt are."""
    if len(classes) > 2:
        return "probability of the likeliest class", "doubt: entropy (bits)"
    if len(classes) == 2:
        bernoulli = isinstance(model.likelihood, Bernoulli)
        doubt = "deviation of that probability" if bernoulli else "doubt: entropy (bits)"
        return f"probability of {classes[1]}", doubt
    if isinstance(model.likelihood, Counts):
        return f"expected {y_name}", f"deviation of a new {y_name}"
    return f"mean of {y_name}", f"deviation of a new {y_name}"


@dataclass(frozen=True, eq=False)
class _Layer:
    leaving: Any
    """Grid points first, then rows (G, P)."""
    inducing: Any
    u_mean: Any
    departure: Any
    low: Any
    """Of what enters, where the layer has a map of its own; else None."""
    high: Any
    map_q: Any


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Everything that the pictures of one model need, in its own units."""

    inputs: Any
    mean: Any
    """Of y's first output (B·A,), None behind a link of classes."""
    variance: Any
    latent: Any
    """The components of f (S, B·A) behind the link of two classes."""
    probabilities: Any
    """Of classes with a latent each (B·A, C)."""
    layers: tuple[_Layer, ...]


def _layer(model: Evaluated, l: int, H: np.ndarray, q: Normal) -> _Layer:
    """A layer's part, given what enters (G, D) and the q that leaves."""
    last, likelihood = l == len(model) - 1, model.model.likelihood
    mean, w = np.asarray(q.mean), model.mean_function(l, H)
    low = high = map_q = None
    if H.shape[1] == 2 and (mean.shape[1] == 1 or last):
        low, high = H.min(0), H.max(0)
        share = np.linspace(0.0, 1.0, MAP_SIDE)
        corners = np.stack(np.meshgrid(share, share), -1).reshape(-1, 2)
        map_q = model.conditional(l, low[None] + (high - low)[None] * corners)
        if last and isinstance(likelihood, RobustMax | Softmax):
            map_q = jax.tree.map(lambda a: a[None], map_q)
            map_q = np.asarray(mixture_probabilities(likelihood, map_q), np.float64)
    return _Layer(
        leaving=mean,
        inducing=np.asarray(model.layers[l].inducing),
        u_mean=model.inducing_mean(l),
        departure=departure(mean if w is None else mean - w, w),
        low=low,
        high=high,
        map_q=map_q,
    )


@jax.jit
def _moments(likelihood, q: Normal):
    """Mean and variance of y's first output over all paths (G,)."""
    m, v = jax.vmap(likelihood.moments)(q.mean, q.variance)
    return jnp.mean(m[:, :, 0], 0), jnp.mean(v[:, :, 0], 0) + jnp.var(m[:, :, 0], 0)


def _numbers(model: Evaluated, a, b, points: np.ndarray, scaler: Scaler) -> _Numbers:
    """Everything of a model that its pictures need."""
    kept, likelihood = scaler.kept, model.model.likelihood

    def standard(X):
        return (X - scaler.x_mean[kept]) / scaler.x_scale[kept]

    grid = standard(np.stack(np.meshgrid(a, b), -1).reshape(-1, 2))
    q = model.components(grid, even_normals(PATHS, model.widths))
    mean = variance = latent = probabilities = None
    if isinstance(likelihood, RobustMax | Softmax):
        probabilities = np.asarray(mixture_probabilities(likelihood, q), np.float64)
    elif isinstance(likelihood, Bernoulli):
        latent = Normal(q.mean[:, :, 0], q.variance[:, :, 0])
    else:
        mean, variance = (np.asarray(part) for part in _moments(likelihood, q))
    X = np.concatenate([grid, standard(points)])
    layers = [_layer(model, l, H, q) for l, (H, q) in enumerate(model.mean_path(X))]
    return _Numbers(X, mean, variance, latent, probabilities, tuple(layers))


def _reading(probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """A map's value and winner from probabilities (..., C)."""
    if probabilities.shape[-1] == 2:
        return probabilities[..., 1], None
    return probabilities.max(-1), probabilities.argmax(-1)


def _panel(model: DeepGP, numbers: _Numbers, bound: Bound, scaler: Scaler) -> PlanePanel:
    winner = probabilities = None
    if numbers.probabilities is not None:
        value, winner = _reading(numbers.probabilities)
        probabilities = numbers.probabilities.T
        doubt = special.entr(numbers.probabilities).sum(1) / np.log(2)
    elif numbers.latent is not None:
        m, v = numbers.latent
        z = m / np.sqrt(1.0 + v)
        p = special.ndtr(z)
        # E[Φ(f)²] = Φ(z) − 2T(z, 1/√(1+2v)), T Owen's.
        square = p - 2 * special.owens_t(z, 1 / np.sqrt(1.0 + 2 * v))
        value = p.mean(0)
        doubt = np.sqrt(np.maximum(square.mean(0) - value**2, 0.0))
        probabilities = np.stack([1 - value, value])
    else:
        value = numbers.mean * scaler.y_scale[0] + scaler.y_mean[0]
        doubt = np.sqrt(numbers.variance) * scaler.y_scale[0]

    def square_of(values):
        return None if values is None else values.reshape(*values.shape[:-1], SIDE, SIDE)

    return PlanePanel(
        value=value.reshape(SIDE, SIDE),
        winner=square_of(winner),
        probabilities=square_of(probabilities),
        doubt=doubt.reshape(SIDE, SIDE),
        inducing=_x_back(scaler, numbers.layers[0].inducing),
        **parts(bound),
    )


def _x_back(scaler: Scaler, X: np.ndarray) -> np.ndarray:
    return X * scaler.x_scale[scaler.kept] + scaler.x_mean[scaler.kept]


def _warps(
    model: DeepGP,
    numbers: _Numbers,
    n_points: int,
    scaler: Scaler,
    names: tuple[str, str],
    y_name: str,
    kl: np.ndarray,
) -> tuple[WarpPanel, ...]:
    """A panel for each layer, first to last."""
    X = _x_back(scaler, numbers.inputs)
    n_grid, L = SIDE * SIDE, len(model.layers)
    rows = slice(n_grid, n_grid + n_points)
    measured = not isinstance(model.likelihood, Bernoulli | Counts | RobustMax | Softmax)
    entering, panels = numbers.inputs, []
    for l, layer in enumerate(numbers.layers):
        H, Z, leaving, u = entering, layer.inducing, layer.leaving, layer.u_mean
        words = "what leaves"
        if l == 0:
            H, Z = X, _x_back(scaler, Z)
        if l == L - 1:
            words = y_name if measured else f"f, of which {y_name} follows"
            if measured:
                leaving, u = (f * scaler.y_scale + scaler.y_mean for f in (leaving, u))
        before = Sheet.of(H[rows], "what enters", names[0])
        after = Sheet.of(leaving[rows], words, names[0])
        into, out = before.place(H, X[:, 0]), after.place(leaving, X[:, 0])
        alone_in, alone_out = H.shape[1] == 1, leaving.shape[1] == 1
        panels.append(
            WarpPanel(
                lines_in=_lines(into[:n_grid]),
                lines_out=_lines(out[:n_grid]),
                points_in=into[rows],
                points_out=out[rows],
                names_in=names if l == 0 else before.names,
                names_out=after.names,
                inducing=None if alone_in else before.place(Z, Z[:, 0]),
                u_mean=None if alone_out else after.place(u, u[:, 0]),
                **_own_map(model, layer, scaler, l),
                width_in=H.shape[1],
                width_out=leaving.shape[1],
                departure=float(layer.departure),
                kl=float(kl[l]),
                title=layer_title(l, L),
            )
        )
        entering = layer.leaving
        if model.concatenate:
            entering = np.concatenate([layer.leaving, numbers.inputs], 1)
    return tuple(panels)


def _lines(grid: np.ndarray) -> np.ndarray:
    """Every few lines along both inputs (K, SIDE, 2) of a grid's places (SIDE², 2)."""
    square = grid.reshape(SIDE, SIDE, 2)
    return np.concatenate([square[::EVERY], square[:, ::EVERY].swapaxes(0, 1)])


def _own_map(model: DeepGP, layer: _Layer, scaler: Scaler, l: int) -> dict[str, Any]:
    """A layer's reading over the plane that enters it."""
    if layer.map_q is None:
        return dict(map_a=None, map_b=None, map_value=None, map_winner=None)
    share = np.linspace(0.0, 1.0, MAP_SIDE)[:, None]
    places = layer.low + (layer.high - layer.low) * share
    if l == 0:
        places = _x_back(scaler, places)
    winner = None
    if isinstance(layer.map_q, np.ndarray):
        value, winner = _reading(layer.map_q)
    elif l < len(model.layers) - 1:
        value = layer.map_q.mean[:, 0]
    else:
        m, v = (a[None, :, 0] for a in layer.map_q)
        value = readable_mean(model, scaler, m, v)
    side = (MAP_SIDE, MAP_SIDE)
    return dict(
        map_a=places[:, 0],
        map_b=places[:, 1],
        map_value=value.reshape(side),
        map_winner=None if winner is None else winner.reshape(side),
    )
