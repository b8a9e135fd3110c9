"""Pictures of deep priors: functions, their slopes, what survives, and a warped grid."""

import numpy as np

from dgp_core.live.views.prior import PriorView, WarpedGrid
from pages.figures.marks import base_layout, curve, frame, labelled_axis, lines, scatter
from pages.figures.palette import DEEP, DRAW, SINGLE, Ink, tint
from pages.figures.plane import SCALE

LOOKS = {
    "linear": ("linear mean", DEEP, "solid"),
    "zero": ("zero mean", SINGLE, "dash"),
    "concatenate": ("x beside it", "#CC79A7", "dashdot"),
}
"""Of every prior: words, colour and stroke."""

MARKERS = {"linear": "circle", "zero": "diamond", "concatenate": "square"}

FUNCTIONS = 8
"""Draws that are shown."""

FLAT = 0.02
"""Functions that vary by less along x, in standard deviations of a layer, are called flat."""
CLIFF = 30
"""How many times the median slope the steepest hundredth is, where there are cliffs."""

LEAST_DENSITY = 1e-3
"""Of log |slope|, beyond which its axis ends."""


def draws_figure(view: PriorView, depth: int, ink: Ink, height: int = 285) -> dict:
    """Functions of a prior of this depth; one of them thick, to be followed as layers come."""
    words, shade, dash = LOOKS[view.mean_function]
    functions = view.functions[depth - 1, :FUNCTIONS]
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "x", range=[float(view.x[0]), float(view.x[-1])])
    layout["yaxis"] = labelled_axis(ink, f"f(x) after {_layers(depth)}")
    layout["yaxis"]["range"] = [-3.6 * view.deviation, 3.6 * view.deviation]
    traces = [
        lines(view.x, functions[1:], f"draws, {words}", tint(DRAW, 0.8), 1.2),
        curve(view.x, functions[0], "one of them", shade, 2.4, "f(%{x:.3g}) = %{y:.4g}", dash=dash),
    ]
    return {"data": traces, "layout": layout}


def shape_words(view: PriorView, depth: int) -> str:
    """What the functions that are shown look like at this depth and output scale."""
    functions = view.functions[depth - 1, :FUNCTIONS]
    slopes = np.abs(view.slopes[depth - 1, :FUNCTIONS])
    varies = float((functions.std(-1) / view.deviation).mean())
    median, steep = float(np.median(slopes)), float(np.quantile(slopes, 0.99))
    if varies < FLAT:
        looks = "flat lines: next to nothing of x is left"
    elif steep > CLIFF * median:
        looks = "flat stretches and cliffs"
    else:
        looks = "smooth curves"
    return (
        f"{looks.capitalize()}. Half of the slopes are below {median:.2g}, one in a hundred is "
        f"above {steep:.2g}."
    )


def slope_figure(views: tuple[PriorView, ...], depth: int, ink: Ink, height: int = 260) -> dict:
    """The density of log |f′(x)| at any x, for each prior at this depth, and at depth 1."""
    layout = base_layout(ink, height)
    layout["yaxis"] = labelled_axis(ink, "density", rangemode="tozero")
    t, first = views[0].log_slope, views[0].log_slope_density[0]
    shown = first > LEAST_DENSITY
    traces = []
    if depth > 1:
        hover = "one layer: %{y:.3g} at log |slope| %{x:.3g}"
        traces.append(curve(t, first, "one layer", ink.data, 1.5, hover, dash="dot"))
    for view in views:
        words, shade, dash = LOOKS[view.mean_function]
        density = view.log_slope_density[depth - 1]
        shown = shown | (density > LEAST_DENSITY)
        name, hover = f"{words}, {_layers(depth)}", words + ": %{y:.3g} at log |slope| %{x:.3g}"
        traces.append(curve(t, density, name, shade, 2.4, hover, dash))
    layout["xaxis"] = labelled_axis(ink, "log |slope of f| (natural logarithm)")
    layout["xaxis"]["range"] = [float(t[shown].min()), float(t[shown].max())]
    return {"data": traces, "layout": layout}


def information_figure(views: tuple[PriorView, ...], ink: Ink, height: int = 260) -> dict:
    """How many values of f can be told apart, by depth: those in different cells of CELL σ."""
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "layers", dtick=1)
    G = len(views[0].x)
    title = f"values told apart, of {G}"
    layout["yaxis"] = labelled_axis(ink, title, rangemode="tozero")
    return {"data": [_by_depth(view, view.distinct) for view in views], "layout": layout}


def spread_figure(views: tuple[PriorView, ...], ink: Ink, height: int = 260) -> dict:
    """The standard deviation of log |slope| by depth: with zero mean it grows without bound."""
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "layers", dtick=1)
    layout["yaxis"] = labelled_axis(ink, "standard deviation of log |slope|", rangemode="tozero")
    return {"data": [_by_depth(v, v.log_slope_deviation) for v in views], "layout": layout}


def correlation_figure(
    views: tuple[PriorView, ...], depth: int, ink: Ink, height: int = 260
) -> dict:
    """The correlation of f at two inputs by their distance, measured over the draws."""
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "distance of two inputs", rangemode="tozero")
    layout["yaxis"] = labelled_axis(ink, "correlation of their outputs", range=[-0.6, 1.05])
    traces = []
    for view in views:
        words, shade, dash = LOOKS[view.mean_function]
        name, hover = f"{words}, {_layers(depth)}", words + ": %{y:.3g} at distance %{x:.3g}"
        correlation = view.correlation[depth - 1]
        traces.append(curve(view.distances, correlation, name, shade, 2.2, hover, dash))
    return {"data": traces, "layout": layout}


def warp_figure(grid: WarpedGrid, depth: int, ink: Ink, height: int = 320) -> dict:
    """A grid of two inputs after so many layers; lines coloured by where they started.

    Lines along the first input are solid, and from dark to light by the second; the others dotted,
    by the first. Depth 0 is the grid itself.
    """
    layout = base_layout(ink, height) | {"showlegend": False}
    places = grid.lines[depth]
    names = ("first", "second")
    for axis, d in (("xaxis", 0), ("yaxis", 1)):
        title = f"{names[d]} input" if depth == 0 else f"{names[d]} output of layer {depth}"
        layout[axis] = labelled_axis(ink, title, range=frame(places[:, :, d], 0.06))
    K = len(places) // 2
    traces = []
    for k, path in enumerate(places):
        along, fixed = (0, 1) if k < K else (1, 0)
        share = (k % K) / max(K - 1, 1)
        start = grid.start[k, 0, fixed]
        squeezed = grid.gradient[depth][k]
        began = [
            f"{names[along]} input {a:.2f}, {names[fixed]} {start:.2f}; "
            f"squeezed to 1 : {10.0 ** max(-s, 0.0):,.3g}"
            for a, s in zip(grid.start[k, :, along], squeezed, strict=True)
        ]
        name, dash = f"{names[fixed]} input {start:.2g}", "solid" if k < K else "dot"
        way = curve(path[:, 0], path[:, 1], name, _on_scale(share), 1.6, "from %{customdata}", dash)
        traces.append(way | {"customdata": began})
    return {"data": traces, "layout": layout}


def weights_figure(
    weights: np.ndarray, names: tuple[str, ...], ink: Ink, height: int = 300
) -> dict:
    """W of a linear mean function: how much of each input goes into each output."""
    layout = base_layout(ink, height)
    D, P = weights.shape
    # Ranges that a picture of cells needs: half a cell beyond the first and the last.
    layout["xaxis"] = labelled_axis(ink, "output of the layer", range=[0.5, P + 0.5], dtick=1)
    layout["yaxis"] = labelled_axis(
        ink, "", tickvals=list(range(D)), ticktext=list(names), range=[D - 0.5, -0.5]
    )
    layout["margin"] |= {"l": 150}
    trace = {
        "type": "heatmap",
        "x": list(range(1, P + 1)),
        "y": list(range(D)),
        "z": weights.round(4).tolist(),
        "zmin": -1.0,
        "zmax": 1.0,
        "colorscale": [[0.0, SINGLE], [0.5, ink.paper], [1.0, DEEP]],
        "colorbar": {
            "title": {"text": "weight"},
            "thickness": 10,
            "tickfont": {"color": ink.text},
        },
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": "%{z:.2f} of input %{y} in output %{x}<extra></extra>",
    }
    return {"data": [trace], "layout": layout}


def kept_figure(kept: np.ndarray, width: int, ink: Ink, height: int = 300) -> dict:
    """The share of the inputs' variance that so many outputs keep."""
    layout = base_layout(ink, height)
    n = np.arange(1, len(kept) + 1)
    layout["xaxis"] = labelled_axis(ink, "outputs of the layer", range=[0.5, len(kept) + 0.5])
    layout["xaxis"] |= {"dtick": 1}
    layout["yaxis"] = labelled_axis(ink, "variance kept (%)", range=[0, 105])
    edge, hover = {"color": SINGLE, "width": 2.5}, "%{y:.1f} % with %{x} outputs"
    mark = {"symbol": "diamond", "size": 12, "color": ink.paper, "line": edge}
    traces = [
        curve(n, 100 * kept, "kept by W", DEEP, 2.2, hover) | {"mode": "lines+markers"},
        scatter([width], [float(100 * kept[width - 1])], "chosen", mark, hover),
    ]
    return {"data": traces, "layout": layout}


def _layers(depth: int) -> str:
    return "1 layer" if depth == 1 else f"{depth} layers"


def _by_depth(view: PriorView, values: np.ndarray) -> dict:
    words, shade, dash = LOOKS[view.mean_function]
    n, hover = np.arange(1, len(values) + 1), words + ": %{y:.3g} after %{x} layers"
    marker = {"symbol": MARKERS[view.mean_function], "size": 7}
    by_depth = curve(n, values, words, shade, 2.2, hover, dash)
    return by_depth | {"mode": "lines+markers", "marker": marker}


def _on_scale(share: float) -> str:
    """A colour of the scale, its ends left out so that both papers show it."""
    stops = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in SCALE])
    place = (0.25 + 0.65 * share) * (len(stops) - 1)
    i = min(int(place), len(stops) - 2)
    red, green, blue = stops[i] + (place - i) * (stops[i + 1] - stops[i])
    return f"rgb({red:.0f},{green:.0f},{blue:.0f})"
