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
from dgp_core.live.views.evaluate import Evaluated, evaluated, of_both
from dgp_core.live.views.paths import (
    Judged,
    Sheet,
    class_names,
    even_normals,
    in_standard_units,
    in_users_units,
    layer_title,
    mixture_probabilities,
    parts,
    probability_moments,
    readable_mean,
    shown_rows,
    spanning,
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
    a, b = (spanning(data.X[:, column], SIDE) for column in columns)
    rows = shown_rows(len(data))
    points = data.X[rows][:, columns]
    classes = class_names(run)
    grid = in_standard_units(scaler, np.stack(np.meshgrid(a, b), -1).reshape(-1, 2))
    deep, rival = of_both(run, snapshot, lambda model, bound: _panel(model, bound, grid, scaler))
    names = (data.input_names[columns[0]], data.input_names[columns[1]])
    value_name, doubt_name = _words(snapshot.deep, data.output_names[0], classes)
    kl = np.asarray(snapshot.deep_bound.kl, np.float64)
    X = np.concatenate([grid, in_standard_units(scaler, points)])
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
        layers=_warps(evaluated(run, snapshot), X, scaler, names, data.output_names[0], kl),
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


@jax.jit
def _moments(likelihood, q: Normal):
    """Mean and variance of y's first output over all paths (G,)."""
    m, v = jax.vmap(likelihood.moments)(q.mean, q.variance)
    return jnp.mean(m[:, :, 0], 0), jnp.mean(v[:, :, 0], 0) + jnp.var(m[:, :, 0], 0)


def _reading(probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """A map's value and winner from probabilities (..., C)."""
    if probabilities.shape[-1] == 2:
        return probabilities[..., 1], None
    return probabilities.max(-1), probabilities.argmax(-1)


def _panel(model: Evaluated, bound: Bound, grid: np.ndarray, scaler: Scaler) -> PlanePanel:
    """What a model predicts at the grid's places (B·A, 2), in standard units."""
    likelihood = model.model.likelihood
    q = model.components(grid, even_normals(PATHS, model.widths))
    winner = probabilities = None
    if isinstance(likelihood, RobustMax | Softmax):
        p = np.asarray(mixture_probabilities(likelihood, q), np.float64)
        value, winner = _reading(p)
        probabilities, doubt = p.T, special.entr(p).sum(1) / np.log(2)
    elif isinstance(likelihood, Bernoulli):
        m, v = (np.asarray(part)[:, :, 0] for part in q)
        p, square = probability_moments(m, v)
        value = p.mean(0)
        doubt = np.sqrt(np.maximum(square.mean(0) - value**2, 0.0))
        probabilities = np.stack([1 - value, value])
    else:
        mean, variance = (np.asarray(part) for part in _moments(likelihood, q))
        value = mean * scaler.y_scale[0] + scaler.y_mean[0]
        doubt = np.sqrt(variance) * scaler.y_scale[0]

    def square_of(values):
        return None if values is None else values.reshape(*values.shape[:-1], SIDE, SIDE)

    return PlanePanel(
        value=value.reshape(SIDE, SIDE),
        winner=square_of(winner),
        probabilities=square_of(probabilities),
        doubt=doubt.reshape(SIDE, SIDE),
        inducing=in_users_units(scaler, np.asarray(model.layers[0].inducing)),
        **parts(bound),
    )


def _warps(
    model: Evaluated,
    X: np.ndarray,
    scaler: Scaler,
    names: tuple[str, str],
    y_name: str,
    kl: np.ndarray,
) -> tuple[WarpPanel, ...]:
    """A panel for each layer, first to last; X has the grid's places first, then the rows shown."""
    x = in_users_units(scaler, X)[:, 0]
    L, panels = len(model), []
    grid, rows = slice(SIDE * SIDE), slice(SIDE * SIDE, None)
    linked = isinstance(model.model.likelihood, Bernoulli | Counts | RobustMax | Softmax)
    for l, (entering, q) in enumerate(model.mean_path(X)):
        H, Z = entering, np.asarray(model.layers[l].inducing)
        leaving, u = np.asarray(q.mean), model.inducing_mean(l)
        departure = model.departure(l, entering, leaving)
        words = "what leaves"
        if l == 0:
            H, Z = in_users_units(scaler, H), in_users_units(scaler, Z)
        if l == L - 1:
            words = f"f, of which {y_name} follows" if linked else y_name
            leaving, u = (f * scaler.y_scale + scaler.y_mean for f in (leaving, u))
        before = Sheet.of(H[rows], "what enters", names[0])
        after = Sheet.of(leaving[rows], words, names[0])
        into, out = before.place(H, x), after.place(leaving, x)
        alone_in, alone_out = H.shape[1] == 1, leaving.shape[1] == 1
        panels.append(
            WarpPanel(
                lines_in=_lines(into[grid]),
                lines_out=_lines(out[grid]),
                points_in=into[rows],
                points_out=out[rows],
                names_in=names if l == 0 else before.names,
                names_out=after.names,
                inducing=None if alone_in else before.place(Z, Z[:, 0]),
                u_mean=None if alone_out else after.place(u, u[:, 0]),
                **_own_map(model, l, entering, scaler),
                width_in=H.shape[1],
                width_out=leaving.shape[1],
                departure=departure,
                kl=float(kl[l]),
                title=layer_title(l, L),
            )
        )
    return tuple(panels)


def _lines(grid: np.ndarray) -> np.ndarray:
    """Every few lines along both inputs (K, SIDE, 2) of a grid's places (SIDE², 2)."""
    square = grid.reshape(SIDE, SIDE, 2)
    return np.concatenate([square[::EVERY], square[:, ::EVERY].swapaxes(0, 1)])


def _own_map(model: Evaluated, l: int, entering: np.ndarray, scaler: Scaler) -> dict[str, Any]:
    """A layer's reading over the plane that enters it."""
    last, own, likelihood = l == len(model) - 1, model.model, model.model.likelihood
    if entering.shape[1] != 2 or not (last or model.layers[l].q_mean.shape[1] == 1):
        return dict(map_a=None, map_b=None, map_value=None, map_winner=None)
    low, high = entering.min(0), entering.max(0)
    share = np.linspace(0.0, 1.0, MAP_SIDE)
    corners = np.stack(np.meshgrid(share, share), -1).reshape(-1, 2)
    q = model.conditional(l, low[None] + (high - low)[None] * corners)
    q = Normal(*(np.asarray(part)[None] for part in q))  # pyright: ignore[reportArgumentType]
    winner = None
    if not last:
        value = q.mean[0, :, 0]
    elif isinstance(likelihood, RobustMax | Softmax):
        value, winner = _reading(np.asarray(mixture_probabilities(likelihood, q), np.float64))
    else:
        value = readable_mean(own, scaler, *(np.asarray(part)[..., 0] for part in q))
    places = low + (high - low) * share[:, None]
    if l == 0:
        places = in_users_units(scaler, places)
    side = (MAP_SIDE, MAP_SIDE)
    return dict(
        map_a=places[:, 0],
        map_b=places[:, 1],
        map_value=value.reshape(side),
        map_winner=None if winner is None else winner.reshape(side),
    )
