"""Pictures of single layers: their maps, what passes through, their history, and their worth."""

from typing import Literal

import numpy as np

from dgp_core.live.views.layers import LayerDepth, LayerHistory, Removal
from dgp_core.tables.plain import plain
from pages.figures import classes as kinds
from pages.figures.marks import (
    band,
    base_layout,
    beliefs,
    curve,
    dots,
    frame,
    hatch,
    labelled_axis,
    line,
    lines,
    log_ticks,
    plot,
    saying,
    scatter,
    typed,
)
from pages.figures.palette import DEEP, DRAW, INDUCING, SINGLE, Ink, tint

What = Literal["lengthscales", "deviation", "noise", "departure", "kl"]

HISTORY_TITLES: dict[What, str] = {
    "lengthscales": "lengthscale",
    "deviation": "standard deviation √k(x, x)",
    "noise": "noise: a standard deviation",
    "departure": "departure (0 to 1)",
    "kl": "KL from the prior (nats)",
}

MOST_SCALES = 6
"""Lengthscales of a layer that are drawn, the shortest at the end first."""


def map_figure(
    layer: LayerDepth, ink: Ink, height: int = 320, input_index: int = 0, output_index: int = 0
) -> dict:
    """The layer's map of one input to one output, ± 2σ, with Z and q(u) ± 2σ.

    With several inputs the others rest at their middle, and inducing points are seen from the side.
    """
    d, p = input_index, output_index
    x, mean, sd = layer.map_x[d], layer.map_mean[d, :, p], layer.map_sd[d, :, p]
    many = len(layer.map_x) > 1
    layout = base_layout(ink, height)
    others = " (other inputs at their middle)" if many else ""
    layout["xaxis"] = labelled_axis(ink, "enters: " + plain(layer.names_in[d]) + others)
    layout["yaxis"] = labelled_axis(ink, "leaves: " + plain(layer.names_out[p]))
    layout["xaxis"]["range"] = [float(x[0]), float(x[-1])]
    u = layer.u_mean[:, p]
    inside = (layer.inducing[:, d] >= x[0]) & (layer.inducing[:, d] <= x[-1])
    seen = np.concatenate([mean - 2 * sd, mean + 2 * sd, u[inside]])
    layout["yaxis"]["range"] = frame(seen, 0.08)
    traces = [
        band(x, mean - 2 * sd, mean + 2 * sd, "map ± 2σ", tint(DEEP, 0.2)),
        curve(x, mean, "mean of the map", DEEP, 2.4, "%{x:.3g} goes to %{y:.3g}"),
        beliefs(layer.inducing[:, d], u, layer.u_sd[:, p], ink, 8),
    ]
    return {"data": traces, "layout": layout}


def passage_figure(
    layer: LayerDepth, ink: Ink, height: int = 260, input_index: int = 0, output_index: int = 0
) -> dict:
    """Samples as they enter and as they leave: functions of x, or rows where there is no single x.

    With more inputs, each row of the data is a dot: what enters across, what leaves up.
    """
    d, p = input_index, output_index
    entering, leaving = layer.entering[:, :, d], layer.leaving[:, :, p]
    enters, leaves = plain(layer.names_in[d]), plain(layer.names_out[p])
    layout = base_layout(ink, height)
    if layer.x is None:
        layout["xaxis"] = labelled_axis(ink, "enters: " + enters)
        layout["yaxis"] = labelled_axis(ink, "leaves: " + leaves)
        name = f"rows of the data, {len(entering)} samples each"
        mark, hover = {"color": tint(DRAW, 0.6), "size": 4}, "%{x:.3g} leaves as %{y:.3g}"
        trace = scatter(entering.ravel(), leaving.ravel(), name, mark, hover)
        return {"data": [trace], "layout": layout}
    x = plain(layer.x_name)
    layout["xaxis"] = labelled_axis(ink, x, domain=[0.0, 0.45])
    layout["yaxis"] = labelled_axis(ink, "enters: " + enters)
    layout["xaxis2"] = labelled_axis(ink, x, domain=[0.57, 1.0], anchor="y2")
    layout["yaxis2"] = labelled_axis(ink, "leaves: " + leaves, anchor="x2")
    for axis in ("xaxis", "xaxis2"):
        layout[axis]["range"] = [float(layer.x[0]), float(layer.x[-1])]
    colour, right = tint(DRAW, 0.85), {"xaxis": "x2", "yaxis": "y2", "showlegend": False}
    traces = [
        lines(layer.x, entering, f"{len(entering)} samples", colour, 1.2),
        lines(layer.x, leaving, "the same, one layer on", colour, 1.2, **right),
    ]
    return {"data": traces, "layout": layout}


def history_figure(history: LayerHistory, what: What, ink: Ink, height: int = 260) -> dict:
    """One property of every layer over the steps, on log scales where it is positive."""
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "step (log scale)", type="log", dtick=1)
    layout["yaxis"] = labelled_axis(ink, HISTORY_TITLES[what])
    if what == "departure":
        layout["yaxis"]["range"] = [-0.02, 1.02]
    step = np.maximum(history.step, 0.5)  # a log scale has no 0: the start lies at a half
    curves = _curves(history, what)
    if what in ("lengthscales", "deviation", "noise"):
        layout["yaxis"] |= log_ticks(np.concatenate([values for _, values, _, _ in curves]))
    traces = [
        {
            **line(typed(step), typed(values)),
            "mode": "lines" if len(step) > 1 else "markers",
            "name": name,
            "line": {"color": kinds.colour(5 + l), "width": 2, "dash": kinds.dash(k)},
            "marker": {"symbol": kinds.symbol(k), "size": 8},
            "customdata": typed(history.step),
            "hovertemplate": name + ": %{y:.3g} at step %{customdata:,.0f}<extra></extra>",
        }
        for name, values, l, k in curves
    ]
    return {"data": traces, "layout": layout}


def removal_figure(removal: Removal, ink: Ink, height: int = 240) -> dict:
    """What the bound gains or loses without each inner layer: the fit, its KL, and both."""
    layout = base_layout(ink, height) | {"barmode": "group"}
    layout["xaxis"] = labelled_axis(ink, "")
    layout["yaxis"] = labelled_axis(ink, "change of the bound (nats)", zeroline=True)
    layout["yaxis"]["zerolinecolor"] = ink.data
    titles = [f"without {part.title}" for part in removal.without]
    parts = removal.without
    rows = (
        ("the fit changes by", [w.fit - removal.fit for w in parts], tint(DEEP, 0.45), "/"),
        ("its KL is saved", [w.kl for w in parts], tint(INDUCING, 0.8), "."),
        ("the bound changes by (± 2 standard errors)", [w.change for w in parts], DEEP, ""),
    )
    traces: list[dict] = [
        {
            "type": "bar",
            "name": name,
            "x": titles,
            "y": values,
            "marker": {"color": shade, "pattern": hatch(pattern, ink.text)},
            "hovertemplate": name + " %{y:+,.2f} nats<extra></extra>",
        }
        for name, values, shade, pattern in rows
    ]
    traces[-1]["error_y"] = {
        "type": "data",
        "array": [2 * w.change_error for w in parts],
        "color": ink.text,
        "thickness": 1.4,
    }
    return {"data": traces, "layout": layout}


def without_figure(
    removal: Removal,
    index: int,
    ink: Ink,
    height: int = 285,
    data: tuple[np.ndarray, np.ndarray] | None = None,
) -> dict:
    """The whole model's prediction, and what is left of it without one inner layer."""
    part = removal.without[index]
    if removal.x is None or removal.mean is None or part.mean is None:
        return saying("This picture needs one input<br>and no more than two classes.", ink, height)
    layout = plot(ink, height, plain(removal.x_name), plain(removal.y_name))
    x = removal.x
    layout["xaxis"]["range"] = [float(x[0]), float(x[-1])]
    traces = []
    for name, low, high, mean, shade, stroke in (
        ("whole model", removal.low, removal.high, removal.mean, DEEP, "solid"),
        (f"without {part.title}", part.low, part.high, part.mean, SINGLE, "dashdot"),
    ):
        traces += [
            band(x, low, high, f"{name}: middle 95 %, no noise", tint(shade, 0.18)),
            curve(x, mean, name, shade, 2.4, name + " %{y:.3g} at %{x:.3g}", dash=stroke),
        ]
    if data is not None:
        traces.append(dots(*data, ink))
    return {"data": traces, "layout": layout}


def _curves(history: LayerHistory, what: What) -> list[tuple[str, np.ndarray, int, int]]:
    """Names, values, the layer and a number within it of what is drawn."""
    found = []
    for l, layer in enumerate(history.layers):
        if what == "lengthscales":
            shortest = np.argsort(layer.lengthscales[-1])[:MOST_SCALES]
            for k, i in enumerate(shortest):
                name = f"{layer.title}, {plain(layer.lengthscale_names[i], 24)}"
                found.append((name, layer.lengthscales[:, i], l, k))
        elif what == "noise":
            if layer.noise is not None:
                found.append((f"σ after {layer.title}", layer.noise, l, 0))
        else:
            found.append((layer.title, getattr(layer, what), l, l))
    if what == "noise" and history.likelihood_noise is not None:
        name = f"σ of the likelihood, in units of {plain(history.y_name, 24)}"
        found.append((name, history.likelihood_noise, len(history.layers), 1))
    return found
