"""Pictures of lessons 6 to 10: a Gaussian bent by a layer, and measured scores by depth."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dgp_core.gp.mixture import Mixture
from dgp_core.gp.references import LeastSquares
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.views.mixture import MixtureView, mixture_at
from dgp_core.live.views.paths import even_normals
from dgp_core.live.views.playground import View2D, ViewMany, WarpPanel, view
from dgp_core.tables.plain import plain
from pages.figures.boards import Elements, Look, playground, star_row
from pages.figures.classes import colour
from pages.figures.lessons_a import layers_words
from pages.figures.marks import band, base_layout, frame, labelled_axis, line, lines, typed
from pages.figures.palette import DEEP, DRAW, SINGLE, Ink, tint
from pages.figures.plane import plane_legend, recorded_map

PATHS = 40
"""Sample paths of the layer that is bent by hand."""

OWN_NOISE = 0.12
"""Deviation that the layer by hand adds to each path."""

COMPONENTS = ("first principal component", "second principal component")

FAINT = "#F0E442"
"""Yellow, which a letter cannot have on white."""

MODELS = {"linear": "Linear", "sgp": "One layer", "dgp2": "Two layers", "dgp3": "Three layers"}
"""By the benchmark's names, from the simplest."""


def chosen(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """Of everything that the playground shows of a run, these elements."""
    elements = playground(run, moment, look)
    return {name: elements[name] for name in names if name in elements}


def with_layers(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """These elements, each inner layer's departure from its mean function, and the noise."""
    elements = chosen(run, moment, look, names)
    words = "How on the layers are is known once the run has begun."
    if isinstance(moment, Snapshot):
        seen = view(run, moment)
        words = layers_words(seen) + noise_words(run, moment)
    elif moment is not None:
        words = layers_words(moment)
    return elements | {"layers_words": {"text": words}}


def noise_words(run: Run, moment: Snapshot) -> str:
    """The likelihood's noise beside the data's own deviation."""
    log_variance = getattr(moment.deep.likelihood, "log_variance", None)
    if log_variance is None:
        return ""
    noise = float(np.exp(0.5 * np.asarray(log_variance).ravel()[0]))
    own = float(run.scaler.outputs(run.dataset.Y)[:, 0].std())
    return f" **Noise:** its deviation is {noise / own:.0%} of the data's."


def with_mixture(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """These elements, and what the mixture at the chosen place has to say."""
    elements = chosen(run, moment, look, names)
    words = "The mixture is drawn as soon as the run has begun."
    if isinstance(moment, Snapshot):
        words = mixture_words(mixture_at(run, moment, star_row(run, look.star), look.noise))
    return elements | {"mixture_words": {"text": words}}


def with_cut(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """These elements, and how well a straight cut parts the classes before and after layer 1."""
    elements = chosen(run, moment, look, names)
    words = "How well a straight cut parts the classes is known once the run has begun."
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
    """These elements, the classes before and after layer 1, and how well they lie together."""
    elements = chosen(run, moment, look, names)
    words = "How well the classes lie together is known once the run has begun."
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
        elements[name] = {"figure": figure, "alt": alt, "paper": look.ink.paper}
    before, after = lie_together(run, seen)
    words = (
        f"Nearest to the centre of their own class are **{before:.0%}** of the rows by their "
        f"pixels, and **{after:.0%}** as they leave layer 1."
    )
    return elements | {"nearest_words": {"text": words}}


def plane_of_inputs(run: Run, seen: ViewMany) -> np.ndarray:
    """The rows shown by the first two principal components of their inputs (R, 2)."""

    def project() -> np.ndarray:
        X = run.scaler.inputs(run.dataset.X[seen.rows])
        X = X - X.mean(0)
        return X @ np.linalg.svd(X, full_matrices=False)[2][:2].T

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
    layout = base_layout(ink, height) | {"showlegend": False}
    layout["xaxis"] = labelled_axis(ink, plain(names[0]))
    layout["yaxis"] = labelled_axis(ink, plain(names[1]))
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
    """The share of two classes' points (N, 2) on the right side of the least-squares cut."""
    sides = 2.0 * codes[:, None] - 1.0
    fitted = LeastSquares.fit(points, sides).predict(points)
    return float(np.mean((fitted.mean > 0) == (sides > 0)))


def cut_words(seen: View2D, layer: WarpPanel) -> str:
    """How far a layer has pulled two classes apart."""
    before = straight_cut(layer.points_in, seen.data_y)
    after = straight_cut(layer.points_out, seen.data_y)
    return (
        f"One straight cut puts **{before:.0%}** of the points on their side as they enter layer "
        f"1, and **{after:.0%}** as they leave it."
    )


def misplaced(view: MixtureView) -> float:
    """½ ∫ |p − g| dy of the deep mixture p and its Gaussian summary g: the share of its mass that
    the summary puts in the wrong place."""
    if view.deep.summary is None:
        return 0.0
    return 0.5 * float(np.trapezoid(np.abs(view.deep.density - view.deep.summary), view.y))


def humps(y: np.ndarray, density: np.ndarray, least: float = 0.1) -> np.ndarray:
    """Where a density has a peak of at least this share of its highest."""
    inner = density[1:-1]
    peak = (inner > density[:-2]) & (inner >= density[2:]) & (inner > least * density.max())
    return y[1:-1][peak]


def mixture_words(view: MixtureView) -> str:
    """What there is to see in a mixture, with its numbers."""
    side = view.deep
    between = float(side.split.between / side.split.total)
    n = len(humps(view.y, side.density))
    shape = {1: "one hump", 2: "two humps"}.get(n, f"{n} humps")
    return (
        f"The mixture has **{shape}**. Its Gaussian summary puts **{misplaced(view):.0%}** of its "
        f"mass in the wrong place. **{between:.0%}** of the variance is between sample paths."
    )


def bend(h: np.ndarray, steepness: float) -> np.ndarray:
    """The second layer by hand: from −1 to 1, around h = 0."""
    return np.tanh(steepness * h)


def bent_mixture(middle: float, deviation: float, steepness: float) -> Mixture:
    """What a Gaussian belief about h becomes behind `bend`: a component a sample path."""
    h = middle + deviation * even_normals(PATHS, (1,))[0]
    f = bend(h, steepness)[:, :, None]
    return Mixture(f, np.full_like(f, OWN_NOISE**2))


def bent_figure(
    middle: float, deviation: float, steepness: float, ink: Ink, height: int = 340
) -> dict:
    """Left, a Gaussian belief about h below the layer's curve; right, what comes out of it."""
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(
        ink, "h, what leaves the first layer", range=[-2.2, 2.2], domain=[0, 0.6]
    )
    layout["yaxis"] = labelled_axis(ink, "y", range=[-1.75, 1.75])
    h = np.linspace(-2.2, 2.2, 241)
    y = np.linspace(-1.75, 1.75, 281)
    mixture = bent_mixture(middle, deviation, steepness)
    paths = middle + deviation * even_normals(PATHS, (1,))[0][:, 0]
    belief = np.exp(-0.5 * ((h - middle) / deviation) ** 2)
    density = np.exp(mixture.log_density(y[:, None])).ravel()
    mean, variance = mixture.mean.item(), mixture.variance.item()
    summary = np.exp(-0.5 * (y - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
    most = 1.05 * float(max(density.max(), summary.max()))
    layout["xaxis2"] = labelled_axis(ink, "density of y", range=[0, most], domain=[0.66, 1])
    layout["yaxis2"] = labelled_axis(
        ink, "", range=[-1.75, 1.75], matches="y", anchor="x2", showticklabels=False
    )
    floor = np.full_like(h, -1.75)
    right = {"xaxis": "x2", "yaxis": "y2"}
    traces = [
        band(h, floor, floor + 0.6 * belief, "belief about h", tint(DEEP, 0.22)),
        {
            **line(typed(h), typed(bend(h, steepness))),
            "name": "the second layer",
            "line": {"color": ink.text, "width": 2},
            "hovertemplate": "h = %{x:.2f} goes to %{y:.2f}<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "markers",
            "name": f"{PATHS} sample paths",
            "x": typed(paths),
            "y": typed(bend(paths, steepness)),
            "marker": {"color": DRAW, "size": 8, "line": {"color": ink.paper, "width": 1}},
            "hovertemplate": "a path: h = %{x:.2f}, y = %{y:.2f}<extra></extra>",
        },
        {
            **line(typed(density), typed(y)),
            **right,
            "name": "mixture",
            "line": {"color": DEEP, "width": 3},
            "hovertemplate": "mixture %{x:.2f} at y = %{y:.2f}<extra></extra>",
        },
        {
            **line(typed(summary), typed(y)),
            **right,
            "name": "Gaussian summary",
            "line": {"color": tint(DEEP, 0.75), "width": 2, "dash": "dot"},
            "hovertemplate": "summary %{x:.2f} at y = %{y:.2f}<extra></extra>",
        },
    ]
    return {"data": traces, "layout": layout}


def estimates_figure(values: np.ndarray, truth: float, ink: Ink, height: int = 260) -> dict:
    """Running means of estimates (K, T), each from its own draws, and what they estimate."""
    layout = base_layout(ink, height)
    T = values.shape[1]
    layout["xaxis"] = labelled_axis(ink, "estimates so far", type="log", range=[0, np.log10(T)])
    layout["yaxis"] = labelled_axis(ink, "their mean")
    n = np.arange(1, T + 1)
    means = np.cumsum(values, 1) / n
    spread = 2 * values.std() / np.sqrt(n)
    traces = [
        band(n, truth - spread, truth + spread, "truth ± 2 standard errors", tint(DEEP, 0.16)),
        {
            **lines(n, means),
            "name": f"{len(values)} people who average",
            "line": {"color": DRAW, "width": 1.4},
        },
        {
            **line(typed(np.array([1, T])), typed(np.array([truth, truth]))),
            "name": "truth",
            "line": {"color": ink.text, "width": 2, "dash": "dash"},
            "hovertemplate": "truth %{y:.3g}<extra></extra>",
        },
    ]
    reach = 1.2 * 2 * float(values.std()) or 1.0
    layout["yaxis"]["range"] = [truth - reach, truth + reach]
    return {"data": traces, "layout": layout}


def summary(rows: Sequence[dict], name: str, score: str) -> dict[str, tuple[float, float, int]]:
    """Mean, standard error and number of splits of a score, by model, on one set."""
    found = {}
    for model in MODELS:
        values = [row[score] for row in rows if (row["set"], row["model"]) == (name, model)]
        if values:
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            found[model] = (float(np.mean(values)), float(error), len(values))
    return found


def depth_figure(
    rows: Sequence[dict], name: str, printed: dict[str, float | None], ink: Ink, height: int = 240
) -> dict:
    """Held-out log-likelihood by model on one set: a dot a split, their mean, the paper's."""
    layout = base_layout(ink, height)
    means = summary(rows, name, "loglik")
    seen = list(means)
    own = [(row["loglik"], seen.index(row["model"])) for row in rows if row["set"] == name]
    paper = [(value, seen.index(m)) for m, value in printed.items() if value is not None]
    reach = frame(np.array([x for x, _ in own + paper]), 0.06)
    layout["xaxis"] = labelled_axis(ink, "held-out log-likelihood (nats a row)", range=reach)
    layout["yaxis"] = labelled_axis(
        ink,
        "",
        tickvals=list(range(len(seen))),
        ticktext=[MODELS[model] for model in seen],
        range=[len(seen) - 0.4, -0.6],
    )
    bars = [(means[model][0], y, end) for y, model in enumerate(seen) for end in (-0.3, 0.3, None)]
    mean = {
        **line(
            typed(np.array([x for x, _, _ in bars])),
            typed(np.array([np.nan if end is None else y + end for _, y, end in bars])),
        ),
        "name": "mean",
        "line": {"width": 3, "color": DEEP},
        "hovertemplate": "mean %{x:.3f}<extra></extra>",
    }
    traces = [
        _marks(own, "one split", {"color": tint(DEEP, 0.45), "size": 7}),
        mean,
        _marks(
            paper,
            "the paper",
            {
                "color": ink.paper,
                "symbol": "diamond",
                "size": 10,
                "line": {"width": 2, "color": SINGLE},
            },
        ),
    ]
    return {"data": traces, "layout": layout}


def _marks(places: list[tuple[float, int]], name: str, marker: dict) -> dict:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [x for x, _ in places],
        "y": [y for _, y in places],
        "marker": marker,
        "hovertemplate": name + " %{x:.3f}<extra></extra>",
    }


def against_one_layer(rows: Sequence[dict], name: str) -> dict[str, dict[int, float]]:
    """What two and three layers gain on one, in nats a row, on each split that both have."""
    scores = {(r["model"], r["split"]): r["loglik"] for r in rows if r["set"] == name}
    found = {
        model: {
            split: value - scores["sgp", split]
            for (own, split), value in scores.items()
            if own == model and ("sgp", split) in scores
        }
        for model in ("dgp2", "dgp3")
    }
    return {model: gains for model, gains in found.items() if gains}
