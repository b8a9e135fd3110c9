"""Each layer in depth: its map, what enters and leaves, how it came to be, and what it is worth."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax
import numpy as np

from dgp_core.gp.data import Dataset
from dgp_core.gp.layers import Normal, kl_from_prior
from dgp_core.gp.likelihoods import Gaussian, StudentT
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import DeepGP
from dgp_core.gp.predict import all_lengthscales
from dgp_core.live.views.evaluate import CURVE, Evaluated, evaluated
from dgp_core.live.views.gallery import PerMoment
from dgp_core.live.views.paths import (
    class_names,
    even_normals,
    in_users_units,
    inner_widths,
    layer_title,
    readable,
    readable_mean,
    varying_input,
    varying_name,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dgp_core.live.run import Run, Snapshot

MOST_ROWS = 100
"""Of the data, where functions are drawn at rows and not along one input."""

MOST_BOUND_ROWS = 1000
"""Of the data, for the bound without a layer; fewer rows then stand for all."""

PATHS = 40
"""Even sample paths of a prediction without a layer."""

SUMMARY_PATHS, SUMMARY_ROWS = 8, 64
"""Of a moment's departures."""


@dataclass(frozen=True, eq=False)
class LayerDepth:
    """What one layer does at a moment: D inputs, P outputs, M inducing points.

    What enters the first layer and leaves the last is in the user's units.
    """

    title: str
    last: bool
    names_in: tuple[str, ...]
    names_out: tuple[str, ...]
    x: np.ndarray | None
    """The one input of the whole model, in order (G,); None where it has more: then functions are
    drawn at rows of the data."""
    x_name: str
    entering: np.ndarray
    """Function draws as they enter (S, G, D)."""
    leaving: np.ndarray
    """And as they leave (S, G, P): the composed functions of x so far."""
    map_x: np.ndarray
    """Each input over the range that enters (D, H), the others at their middle."""
    map_mean: np.ndarray
    """The layer's own mean along that input (D, H, P)."""
    map_sd: np.ndarray
    """And its deviation, noise between layers included (D, H, P)."""
    inducing: np.ndarray
    """Z (M, D)."""
    u_mean: np.ndarray
    """q(u)'s mean, mean function included (M, P)."""
    u_sd: np.ndarray
    """q(u)'s deviation (M, P)."""
    departure: float
    """How far the layer is from its mean function, 0 to 1; a mean of zero gives 1."""
    kl: float


@dataclass(frozen=True, eq=False)
class LayerTrace:
    """One layer over time, a value for each kept moment (T,)."""

    title: str
    lengthscales: np.ndarray
    """(T, K); of the first layer in the user's units."""
    lengthscale_names: tuple[str, ...]
    """The input that each of them belongs to."""
    deviation: np.ndarray
    """√k(x, x), averaged over the inducing points; of the last layer in y's units."""
    noise: np.ndarray | None
    """σ_l between layers; the last layer has none."""
    departure: np.ndarray
    kl: np.ndarray


@dataclass(frozen=True, eq=False)
class LayerHistory:
    """The deep model's layers over the moments that a run has kept."""

    step: np.ndarray
    """(T,)"""
    layers: tuple[LayerTrace, ...]
    likelihood_noise: np.ndarray | None
    """σ, or Student's scale, in y's units; None where y has no such noise."""
    y_name: str


@dataclass(frozen=True, eq=False)
class Without:
    """The model with one inner layer replaced by its mean function, all else as trained."""

    layer: int
    """From 0."""
    title: str
    fit: float
    """Σ_i E[log p(y_i|f_i)] without the layer."""
    kl: float
    """Its KL, which is no longer paid."""
    bound: float
    """fit − KL of the other layers."""
    change: float
    """bound − the bound with the layer, at the same ε: below 0 where the layer is worth having."""
    change_error: float
    """Standard error of the change, over sample paths."""
    mean: np.ndarray | None
    """What is predicted (G,): y, a rate or a probability; None where there is no single x."""
    low: np.ndarray | None
    """The middle 95 % of its noise-free value (G,)."""
    high: np.ndarray | None


@dataclass(frozen=True, eq=False)
class Removal:
    """What each inner layer is worth to the bound, and to the picture."""

    step: int
    n_rows: int
    """Rows that the bounds were computed from; they stand for all."""
    n_samples: int
    fit: float
    bound: float
    """Of the whole model, at the same rows and ε."""
    x: np.ndarray | None
    x_name: str
    y_name: str
    mean: np.ndarray | None
    """Of the whole model (G,)."""
    low: np.ndarray | None
    high: np.ndarray | None
    without: tuple[Without, ...]
    """A layer each, but for the last."""


def layers_in_depth(
    run: "Run", snapshot: "Snapshot", n_draws: int = 8, n_grid: int = CURVE
) -> tuple[LayerDepth, ...]:
    """Every layer of the deep model at a moment; all of its outputs."""
    key = (snapshot.serial, "depth", n_draws, n_grid)
    return run.gallery.get(key, lambda: _layers_in_depth(run, snapshot, n_draws, n_grid))


def _layers_in_depth(run: "Run", snapshot: "Snapshot", S: int, G: int) -> tuple[LayerDepth, ...]:
    model, scaler, data = snapshot.deep, run.scaler, run.dataset
    x, rows = varying_input(run, G) or (None, data.X[_shuffled(data)[:MOST_ROWS]])
    ready = evaluated(run, snapshot)
    names = _names(run, model)
    L, found = len(model.layers), []
    for l, (H, F) in enumerate(ready.function_draws(scaler.inputs(rows), S)):
        H = np.broadcast_to(H, (S, *H.shape[1:]))
        places, mean, sd = ready.map(l, H, G)
        back = partial(in_users_units, scaler) if l == 0 else _same
        scale, shift = (scaler.y_scale, scaler.y_mean) if l == L - 1 else (1.0, 0.0)
        found.append(
            LayerDepth(
                title=layer_title(l, L),
                last=l == L - 1,
                names_in=names[l],
                names_out=names[l + 1][: F.shape[2]],
                x=x,
                x_name=varying_name(run),
                entering=back(H),
                leaving=F * scale + shift,
                map_x=back(places.T).T,
                map_mean=mean * scale + shift,
                map_sd=sd * scale,
                inducing=back(np.asarray(model.layers[l].inducing, np.float64)),
                u_mean=ready.inducing_mean(l) * scale + shift,
                u_sd=ready.inducing_sd(l) * scale,
                departure=ready.departure(l, H.reshape(-1, H.shape[2])),
                kl=float(_kl(model.layers[l])),
            )
        )
    return tuple(found)


_kl = jax.jit(kl_from_prior)


def _shuffled(data: Dataset) -> np.ndarray:
    """All rows in a random order, which is always the same."""
    return np.random.default_rng(0).permutation(len(data))


def _names(run: "Run", model: DeepGP) -> list[tuple[str, ...]]:
    """What enters each layer, and at the end what leaves the last."""
    pairs = zip(run.dataset.input_names, run.scaler.kept, strict=True)
    inputs = tuple(name for name, kept in pairs if kept)
    names = [inputs]
    for l, width in enumerate(inner_widths(model)):
        own = [f"output {p + 1} of layer {l + 1}" for p in range(width)]
        again = [f"{name} (standard units)" for name in inputs] if model.concatenate else []
        names.append((*own, *again))
    outputs, classes = run.dataset.output_names, class_names(run)
    if isinstance(model.likelihood, Gaussian | StudentT):
        return [*names, outputs]
    if model.layers[-1].q_mean.shape[1] == len(classes) > 2:
        return [*names, tuple(f"f of {name}" for name in classes)]
    return [*names, tuple(f"f of {name}" for name in outputs)]


def _same(z: np.ndarray) -> np.ndarray:
    return z


def _passed(model: Evaluated, X: np.ndarray, draws, kept) -> list[tuple[np.ndarray, Normal]]:
    """What enters every layer (S, N, D) and the q that leaves it (S, N, P), on S paths.

    ε of a layer is (S, N or 1, P). Where kept is 0, a layer passes on its mean function alone:
    f̂ = w(h) + kept (μ(h) − w(h) + ε √σ²(h)).
    """
    S = len(draws[0]) if draws else 1
    inputs = np.broadcast_to(X[None], (S, *X.shape))
    H, steps = inputs, []
    for l in range(len(model)):
        flat = model.conditional(l, H.reshape(-1, H.shape[2]))
        q = Normal(*(np.asarray(a).reshape(S, len(X), -1) for a in flat))  # pyright: ignore
        steps.append((H, q))
        if l < len(model) - 1:
            w = model.mean_function(l, H)
            H = model.beside(w + kept[l] * (q.mean - w + draws[l] * np.sqrt(q.variance)), inputs)
    return steps


STRETCH = 0.06
"""Of log time, in which one moment is enough for a curve."""

_summaries = PerMoment()


def thinned(moments: "Sequence[Snapshot]") -> "list[Snapshot]":
    """The first moment in every stretch of log time, and the last: at most 200 in 100,000 steps.

    A moment that is in stays in while the run goes on, so that what is known of it is known.
    """
    cells = np.floor(np.log1p([moment.step for moment in moments]) / STRETCH)
    first = np.flatnonzero(np.diff(cells, prepend=-1.0)).tolist()
    return [moments[i] for i in sorted({*first, *range(len(moments))[-1:]})]


def layer_history(run: "Run") -> LayerHistory:
    """Hyperparameters, departures and KL of every layer over moments that a run has kept."""
    moments = thinned(run.history())
    if not moments:
        raise ValueError("This run has no moment yet: wait for its start values.")
    X = run.scaler.inputs(run.dataset.X[_shuffled(run.dataset)[:SUMMARY_ROWS]])
    each = [
        _summaries.get(moment, lambda m=moment: _summary(Evaluated(m.deep, run.size), X))
        for moment in moments
    ]
    model = moments[-1].deep
    names, L = _names(run, model), len(model.layers)
    x_scale = run.scaler.x_scale[run.scaler.kept]
    y_scale = run.scaler.y_scale[0]
    traces = []
    for l, layer in enumerate(model.layers):
        lengthscales = np.array([s.lengthscales[l] for s in each])
        repeats = lengthscales.shape[1] // len(names[l])
        traces.append(
            LayerTrace(
                title=layer_title(l, L),
                lengthscales=lengthscales * (np.tile(x_scale, repeats) if l == 0 else 1.0),
                lengthscale_names=names[l] * repeats,
                deviation=np.array([s.deviation[l] for s in each]) * (y_scale if l == L - 1 else 1),
                noise=None if layer.log_noise is None else np.array([s.noise[l] for s in each]),
                departure=np.array([s.departure[l] for s in each]),
                kl=np.array([s.kl[l] for s in each]),
            )
        )
    return LayerHistory(
        step=np.array([moment.step for moment in moments]),
        layers=tuple(traces),
        likelihood_noise=_likelihood_noise(run, moments),
        y_name=run.dataset.output_names[0],
    )


def _likelihood_noise(run: "Run", moments) -> np.ndarray | None:
    def deviation(likelihood) -> float:
        if isinstance(likelihood, Gaussian):
            return float(np.exp(0.5 * likelihood.log_variance[0]))
        return float(np.exp(likelihood.log_scale[0]))

    if not isinstance(moments[-1].deep.likelihood, Gaussian | StudentT):
        return None
    return np.array([deviation(m.deep.likelihood) for m in moments]) * run.scaler.y_scale[0]


@dataclass(frozen=True, eq=False)
class _Summary:
    """What the history needs of one moment: of every layer (L,)."""

    deviation: list[float]
    departure: list[float]
    kl: list[float]
    lengthscales: list[np.ndarray]
    noise: list[float]
    """Deviation after each layer."""


def _summary(model: Evaluated, X: np.ndarray) -> _Summary:
    draws = [eps[:, None] for eps in even_normals(SUMMARY_PATHS, model.widths)]
    passed = _passed(model, X, draws, np.ones(len(draws)))
    diagonals = [np.asarray(layer.kernel.diagonal(layer.inducing)) for layer in model.layers]
    return _Summary(
        deviation=[np.sqrt(np.mean(diagonal)) for diagonal in diagonals],
        departure=[model.departure(l, H, np.asarray(q.mean)) for l, (H, q) in enumerate(passed)],
        kl=[float(_kl(layer)) for layer in model.layers],
        lengthscales=[
            np.concatenate([*all_lengthscales(layer.kernel), np.zeros(0)]) for layer in model.layers
        ],
        noise=[float(np.sqrt(layer.noise)) for layer in model.layers],
    )


def without_layers(run: "Run", snapshot: "Snapshot", n_samples: int = 20) -> Removal:
    """The bound and the prediction with each inner layer replaced by its mean function.

    f^l = w(f^{l−1}) with no variance, no noise and no KL of its own; every other layer, and the
    likelihood, as trained: they were not trained to do without it. One bound over the data, the
    mean of S sample paths a row, against the whole model's at the same ε.
    """
    if len(snapshot.deep.layers) < 2:
        raise ValueError("A single layer has no inner layer to remove: choose two layers or more.")
    key = (snapshot.serial, "without", n_samples)
    return run.gallery.get(key, lambda: _without_layers(run, snapshot, n_samples))


def _without_layers(run: "Run", snapshot: "Snapshot", S: int) -> Removal:
    model, data = snapshot.deep, run.scaler(run.dataset)
    ready, L = evaluated(run, snapshot), len(model.layers)
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(data))[:MOST_BOUND_ROWS])
    X, Y = data.X[rows], data.Y[rows]
    draws = [rng.standard_normal((S, len(rows), P)) for P in inner_widths(model)]
    kept = np.ones((L, L - 1))  # the whole model first, then without each inner layer
    kept[1:] -= np.eye(L - 1)
    fits = np.stack([_fit(ready, X, Y, draws, some) for some in kept])
    kl = np.array([float(_kl(layer)) for layer in ready.layers])
    fits = fits * (len(data) / len(rows))  # (L, S)
    x, pictures = _predictions(run, ready, kept)
    bound = fits[0].mean() - kl.sum()
    without = []
    for l in range(L - 1):
        change = fits[l + 1] - fits[0] + kl[l]
        mean, low, high = pictures[l + 1]
        without.append(
            Without(
                layer=l,
                title=layer_title(l, L),
                fit=float(fits[l + 1].mean()),
                kl=float(kl[l]),
                bound=float(bound + change.mean()),
                change=float(change.mean()),
                change_error=float(change.std(ddof=1) / np.sqrt(S)) if S > 1 else float("nan"),
                mean=mean,
                low=low,
                high=high,
            )
        )
    mean, low, high = pictures[0]
    return Removal(
        step=snapshot.step,
        n_rows=len(rows),
        n_samples=S,
        fit=float(fits[0].mean()),
        bound=float(bound),
        x=x,
        x_name=varying_name(run),
        y_name=run.dataset.output_names[0],
        mean=mean,
        low=low,
        high=high,
        without=tuple(without),
    )


@jax.jit
def _expected(likelihood, mean, variance, Y):
    """E[log p(y|f)] of each row, whatever the model."""
    noise = jax.random.normal(jax.random.key(0), mean.shape, mean.dtype)
    return likelihood.expected_log_density(mean, variance, Y, noise)


def _fit(model: Evaluated, X: np.ndarray, Y: np.ndarray, draws, kept: np.ndarray) -> np.ndarray:
    """Σ_i E[log p(y_i|f_i)] on each path (S,), with the layers that are kept."""
    q = _passed(model, X, draws, kept)[-1][1]
    likelihood = model.model.likelihood
    each = [_expected(likelihood, m, v, Y) for m, v in zip(q.mean, q.variance, strict=True)]
    return np.array([float(np.sum(terms)) for terms in each])


def _predictions(run: "Run", model: Evaluated, kept: np.ndarray):
    """x (G,), and mean, low and high (G,) for each way to keep layers; None without a single x."""
    varying = varying_input(run, CURVE)
    if varying is None or len(class_names(run)) > 2:
        return None, [(None, None, None)] * len(kept)
    x, rows = varying
    X = run.scaler.inputs(rows)
    draws = [eps[:, None] for eps in even_normals(PATHS, model.widths)]
    show, pictures = partial(readable, model.model, run.scaler), []
    for some in kept:
        q = _passed(model, X, draws, some)[-1][1]
        m, v = (np.asarray(a)[:, :, :1] for a in q)
        quantile = Mixture(m, v).quantile(np.array([0.025, 0.975]))
        low, high = show(quantile[:, :, 0])
        mean = readable_mean(model.model, run.scaler, m[..., 0], v[..., 0])
        pictures.append((mean, low, high))
    return x, pictures
