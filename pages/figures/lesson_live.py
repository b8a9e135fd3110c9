"""What lessons show of a live run: some of the playground's elements, and sentences about it."""

from functools import lru_cache
from typing import Any

import numpy as np

from datasets import catalogue
from dgp_core.gp.data import Dataset
from dgp_core.gp.model import principal_axes
from dgp_core.gp.references import LeastSquares
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.views.mixture import MixtureView, mixture_at
from dgp_core.live.views.playground import View1D, View2D, ViewMany, WarpPanel, view, view_1d
from dgp_core.live.views.table import right_on
from dgp_core.tables.plain import plain
from pages.figures.boards import (
    NOTHING,
    Elements,
    Look,
    bound_words,
    kept,
    meter_words,
    picture,
    playground,
    record_of,
    star_row,
)
from pages.figures.classes import colour
from pages.figures.marks import band, base_layout, curve, labelled_axis, plot, saying, typed
from pages.figures.palette import DEEP, DRAW, INDUCING, SINGLE, Ink, tint
from pages.figures.plane import plane_legend, recorded_map
from pages.figures.playground import (
    bound_figure,
    bound_range,
    data_figure,
    layer_figure,
    prediction_figure,
    thinned,
)

COMPONENTS = ("first principal component", "second principal component")

FAINT = "#F0E442"
"""Yellow, which a letter cannot have on white."""


def chosen(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """Of everything that the playground shows of a run, these elements."""
    elements = playground(run, moment, look)
    return {name: elements[name] for name in names if name in elements}


def with_layers(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """These elements, each inner layer's departure from its mean function, and the noise."""
    elements = chosen(run, moment, look, names)
    words = "How much each layer changes its input is known once the run has begun."
    if isinstance(moment, Snapshot):
        seen = view(run, moment)
        words = layers_words(seen) + noise_words(run, moment)
    elif moment is not None:
        words = layers_words(moment)
    return elements | {"layers_words": {"text": words}}


def noise_words(run: Run, moment: Snapshot) -> str:
    """The likelihood's noise as a share of the data's standard deviation."""
    log_variance = getattr(moment.deep.likelihood, "log_variance", None)
    if log_variance is None:
        return ""
    noise = float(np.exp(0.5 * np.asarray(log_variance).ravel()[0]))
    own = float(run.scaler.outputs(run.dataset.Y)[:, 0].std())
    return f" **Noise:** its standard deviation is {noise / own:.0%} of the data's."


def with_mixture(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """These elements, and the mixture at the chosen place in numbers."""
    elements = chosen(run, moment, look, names)
    words = "The mixture is drawn as soon as the run has begun."
    if isinstance(moment, Snapshot):
        words = mixture_words(mixture_at(run, moment, star_row(run, look.star), look.noise))
    return elements | {"mixture_words": {"text": words}}


def with_cut(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """These elements, and how well a line separates the classes before and after layer 1."""
    elements = chosen(run, moment, look, names)
    words = "How well a line separates the classes is known once the run has begun."
    seen = view(run, moment) if isinstance(moment, Snapshot) else moment
    if seen is not None:
        assert isinstance(seen, View2D)
        words = cut_words(seen, seen.layers[0])
        if seen is moment:
            for name, panel in (("deep", seen.deep), ("rival", seen.rival)):
                elements[name]["figure"] = recorded_map(seen, panel, look.ink)
            elements["legend"] = {"html": plane_legend(seen, look.ink, recorded=True)}
    return elements | {"cut_words": {"text": words}}


def with_nearest(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """These elements, the classes before and after layer 1, and how well they cluster."""
    elements = chosen(run, moment, look, names)
    words = "How well the classes cluster is known once the run has begun."
    seen = view(run, moment) if isinstance(moment, Snapshot) else moment
    if seen is None:
        return elements | {"nearest_words": {"text": words}}
    assert isinstance(seen, ViewMany)
    layer = seen.layers[0]
    for name, points, axes, where in (
        ("before", plane_of_inputs(run, seen), COMPONENTS, "by their pixels"),
        ("after", layer.points, layer.names, "as they leave layer 1"),
    ):
        figure = classes_figure(points, seen.observed, seen.classes, axes, look.ink)
        alt = f"The rows {where}, each as the number of its class, at step {seen.step}."
        elements[name] = picture(figure, alt, look.ink)
    before, after = lie_together(run, seen)
    words = (
        f"Nearest to the centre of their own class are **{before:.0%}** of the rows by their "
        f"pixels, and **{after:.0%}** as they leave layer 1."
    )
    if isinstance(moment, Snapshot):
        words += " " + unseen_words(run, moment)
    return elements | {"nearest_words": {"text": words}}


UNSEEN_SEED = 1
"""Of the rows that a toy's models were not trained on: another seed than theirs."""


@lru_cache(maxsize=8)
def unseen(name: str) -> Dataset:
    """As many rows of a toy as it has, drawn anew."""
    return catalogue.load(name, seed=UNSEEN_SEED)


def unseen_words(run: Run, moment: Snapshot) -> str:
    """How many of the rows that neither model has seen each of them has right."""
    data = unseen(run.dataset.name)
    deep, rival = right_on(run, moment, "unseen", data)
    return (
        f"Of {len(data)} that neither model has seen, two layers have **{deep:.0%}** right, one "
        f"layer **{rival:.0%}**."
    )


def plane_of_inputs(run: Run, seen: ViewMany) -> np.ndarray:
    """The rows shown by the first two principal components of their inputs (R, 2)."""

    def project() -> np.ndarray:
        X = run.scaler.inputs(run.dataset.X[seen.rows])
        X = X - X.mean(0)
        return X @ principal_axes(X, 2)

    return run.gallery.get("plane of inputs", project)


def lie_together(run: Run, seen: ViewMany) -> tuple[float, float]:
    """The shares of rows nearest to their own class's centre: by the first two principal
    components of the inputs, and as they leave layer 1."""
    codes = seen.observed.astype(int)
    planes = plane_of_inputs(run, seen), seen.layers[0].points
    return nearest_centre(planes[0], codes), nearest_centre(planes[1], codes)


def classes_figure(
    points: np.ndarray,
    codes: np.ndarray,
    classes: tuple[str, ...],
    names: tuple[str, str],
    ink: Ink,
    height: int = 320,
) -> dict:
    """Points (R, 2), each drawn as the number of its class and in its colour."""
    layout = plot(ink, height, plain(names[0]), plain(names[1]), showlegend=False)
    traces = [
        {
            "type": "scatter",
            "mode": "text",
            "name": name,
            "x": typed(points[codes == code, 0]),
            "y": typed(points[codes == code, 1]),
            "text": f"{code}",
            "textfont": {
                "color": ink.text if colour(code) == FAINT else colour(code),
                "size": 13,
                "weight": 700,
            },
            "hovertemplate": name + "<extra></extra>",
        }
        for code, name in enumerate(classes)
    ]
    return {"data": traces, "layout": layout}


def nearest_centre(points: np.ndarray, codes: np.ndarray) -> float:
    """The share of points (N, 2) that lie nearest to the mean of their own class."""
    known = np.unique(codes)
    centres = np.stack([points[codes == code].mean(0) for code in known])
    nearest = np.square(points[:, None] - centres).sum(2).argmin(1)
    return float(np.mean(known[nearest] == codes))


def straight_cut(points: np.ndarray, codes: np.ndarray) -> float:
    """The share of two classes' points (N, 2) on the right side of the least-squares line."""
    sides = 2.0 * codes[:, None] - 1.0
    fitted = LeastSquares.fit(points, sides).predict(points)
    return float(np.mean((fitted.mean > 0) == (sides > 0)))


def cut_words(seen: View2D, layer: WarpPanel) -> str:
    """How well a line separates two classes before and after a layer."""
    before = straight_cut(layer.points_in, seen.data_y)
    after = straight_cut(layer.points_out, seen.data_y)
    return (
        f"A straight line separates **{before:.0%}** of the points as they enter layer 1, and "
        f"**{after:.0%}** as they leave it."
    )


def summary_error(view: MixtureView) -> float:
    """½ ∫ |p − g| dy: the total variation distance of the mixture p and its Gaussian summary g."""
    if view.deep.summary is None:
        return 0.0
    return 0.5 * float(np.trapezoid(np.abs(view.deep.density - view.deep.summary), view.y))


def modes(y: np.ndarray, density: np.ndarray, least: float = 0.1) -> np.ndarray:
    """Where a density has a mode of at least this share of its highest."""
    inner = density[1:-1]
    peak = (inner > density[:-2]) & (inner >= density[2:]) & (inner > least * density.max())
    return y[1:-1][peak]


def mixture_words(view: MixtureView) -> str:
    """A mixture's modes, its distance from a Gaussian, and its variance between paths."""
    side = view.deep
    between = float(side.split.between / side.split.total)
    n = len(modes(view.y, side.density))
    shape = {1: "one mode", 2: "two modes"}.get(n, f"{n} modes")
    return (
        f"The mixture has **{shape}**. Its Gaussian summary misplaces "
        f"**{summary_error(view):.0%}** of its mass (total variation). **{between:.0%}** of the "
        "variance is between sample paths."
    )


KL_COLOURS = (SINGLE, "#CC79A7", "#E69F00", DRAW, INDUCING)
"""Of the KL of each layer, from the first."""


def parts_figure(
    record: tuple[np.ndarray, np.ndarray],
    ink: Ink,
    height: int = 300,
    steps: np.ndarray | None = None,
) -> dict:
    """The fit, what each layer's KL takes off it, and what is left: the bound, over the steps."""
    fit, kl = record
    if not len(fit):
        return saying("The curves begin with the first step.", ink, height)
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "step (log scale)", type="log", dtick=1)
    layout["yaxis"] = labelled_axis(ink, "nats")
    layout["legend"] |= {"font": {"size": 11}}
    step, parts = thinned(np.column_stack([fit, kl]), steps)
    levels = parts[:, :1] - np.cumsum(np.column_stack([np.zeros(len(step)), parts[:, 1:]]), 1)
    traces = []
    for l in range(kl.shape[1]):
        name = f"KL of layer {l + 1}"
        colour = KL_COLOURS[l % len(KL_COLOURS)]
        traces.append(band(step, levels[:, l + 1], levels[:, l], name, tint(colour, 0.45)))
    for name, values, shade, width, dash in (
        ("fit", levels[:, 0], ink.data, 1.8, "dash"),
        ("bound", levels[:, -1], DEEP, 2.6, ""),
    ):
        hover = name + " %{y:,.1f} nats at step %{x:,.0f}"
        traces.append(curve(step, values, name, shade, width, hover, dash))
    layout["yaxis"]["range"] = bound_range([levels[:, -1], levels[:, 0]])
    return {"data": traces, "layout": layout}


def live(run: Run, moment: Any, ink: Ink) -> dict[str, dict]:
    """What the lessons show of a run: predictions, layers, the bound and its parts."""
    if moment is None:
        return _before(run, ink)
    seen: View1D = view_1d(run, moment) if isinstance(moment, Snapshot) else moment
    deep, rival, steps = record_of(run, moment)
    both, parts = bound_figure(deep, rival, ink, steps=steps), parts_figure(deep, ink, steps=steps)
    elements = {
        "bound": picture(both, "The bound over the steps.", ink),
        "parts": picture(parts, "The deep model's fit, KL per layer, and bound.", ink),
        "bound_words": {"text": bound_words(seen)},
    }
    for name, panel, words in (
        ("deep", seen.deep, "The deep model's"),
        ("rival", seen.rival, "The single layer's"),
    ):
        figure = prediction_figure(seen, panel, name == "deep", False, ink)
        if name == "deep":
            figure["layout"]["meta"] = {"drag": {"trace": "inducing points"}}
        alt = f"{words} prediction at step {seen.step}, with the data."
        elements[name] = picture(figure, alt, ink)
    L = len(seen.layers)
    for l, layer in enumerate(seen.layers):
        figure = layer_figure(layer, seen.x_name, seen.y_name, l == 0, l == L - 1, ink)
        alt = f"What {layer.title} does, and what has come out of it."
        elements[f"layer_{l}"] = picture(figure, alt, ink)
    elements["layers_words"] = {"text": layers_words(seen)}
    return kept(elements, run.dataset.name)


def layers_words(seen: View1D | View2D | ViewMany) -> str:
    """Each inner layer's KL and how much it changes its input."""
    words = []
    for l, layer in enumerate(seen.layers[:-1]):
        kl = f"KL {layer.kl:,.1f} nats. " if np.isfinite(layer.kl) else ""
        words.append(f"**Layer {l + 1}:** {kl}{meter_words(layer.departure, False)}")
    return " ".join(words) or "A single layer has no inner layers."


def _before(run: Run, ink: Ink) -> dict[str, dict]:
    """The data alone, until the start values are there."""
    data = run.dataset
    figure = data_figure(data.X[:, 0], data.Y[:, 0], data.input_names[0], data.output_names[0], ink)
    data_alone = picture(figure, "The data, before any model has seen them.", ink)
    waiting = {"text": "The bound is known after the first step."}
    return {
        "deep": data_alone,
        "rival": data_alone,
        "bound": picture(bound_figure(NOTHING, NOTHING, ink), "No bound yet.", ink),
        "parts": picture(parts_figure(NOTHING, ink), "No bound yet.", ink),
        "bound_words": waiting,
        "layers_words": waiting,
    }
