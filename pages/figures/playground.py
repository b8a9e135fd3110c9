"""The playground's pictures: both models' predictions, every layer, and the bound.

Figures are plain dicts in Plotly's own form, since they are made several times a second: building
validated objects would cost more than the numbers themselves.
"""

import numpy as np

from dgp_core.live.views.playground import ClassPanel, LayerPanel, Panel, View1D
from dgp_core.tables.plain import plain
from pages.figures import classes as kinds
from pages.figures.legends import both_shades, data_keys, key, legend_row, stroke
from pages.figures.marks import (
    band,
    base_layout,
    beliefs,
    curve,
    dots,
    frame,
    labelled_axis,
    line,
    lines,
    saying,
    scatter,
    steady,
    triangle,
    typed,
)
from pages.figures.palette import DEEP, DRAW, INDUCING, SINGLE, Ink, tint

SHADES = 0.55
"""Exponent of the shade: densities below one raise thin tails into view."""
BELOW = {"xaxis": "x2", "yaxis": "y2", "showlegend": False}
"""Of curves in the lower half of the bound's picture."""
MOST_POINTS = 240
"""Along a curve of the bound."""


def data_figure(
    x, y, x_name: str, y_name: str, ink: Ink, height: int = 285, classes: tuple[str, ...] = ()
) -> dict:
    """The data alone, in the frame that the predictions will have."""
    layout = _prediction_layout(x, y, x_name, y_name, ink, height, classes=classes)
    return {"data": _data(x, y, classes, ink), "layout": layout}


def prediction_figure(
    view: View1D, panel: Panel | ClassPanel, deep: bool, bands: bool, ink: Ink, height: int = 285
) -> dict:
    """One model's prediction: blue and solid for the deep one, orange and dashed for its rival.

    Several classes have a curve each, in their own colours and strokes.
    """
    layout = _prediction_layout(
        view.data_x, view.data_y, view.x_name, view.y_name, ink, height, view.x, view.classes
    )
    low, high = layout["yaxis"]["range"]
    if isinstance(panel, ClassPanel):
        prediction = _class_curves(view, panel)
    else:
        prediction = _curve(view, panel, deep, bands, ink)
    floor = np.full(len(panel.inducing), low + 0.025 * (high - low))
    mark, hover = triangle(ink, 9), "inducing point at %{x:.3g}"
    inducing = scatter(panel.inducing, floor, "inducing points", mark, hover)
    data = _data(view.data_x, view.data_y, view.classes, ink)
    return {"data": [*prediction, *data, inducing], "layout": layout}


def _curve(view: View1D, panel: Panel, deep: bool, bands: bool, ink: Ink) -> list[dict]:
    """Shade, function draws and mean."""
    x, mean = typed(view.x), typed(panel.mean)
    colour, strong, dash = (DEEP, ink.deep, "solid") if deep else (SINGLE, ink.single, "dash")
    return [
        *(_bands(view, panel, colour) if bands else [_density(view, panel, colour)]),
        lines(
            view.x,
            panel.draws,
            f"{len(panel.draws)} function draws",
            tint(DRAW, 0.55 if dash == "solid" else 0.65),
            1,
        ),
        {
            **line(x, mean),
            "line": {"color": tint(ink.paper, 0.85), "width": 5},
            "hoverinfo": "skip",
            "showlegend": False,
        },
        curve(x, mean, "mean", strong, 2.6, _mean_word(view) + " %{y:.3g}", dash=dash),
    ]


def _class_curves(view: View1D, panel: ClassPanel) -> list[dict]:
    """The probability of each class."""
    curves = []
    for c, (name, p) in enumerate(zip(map(plain, view.classes), panel.probabilities, strict=True)):
        words, hover = f"probability of {name}", f"{name} " + "%{y:.0%}"
        curves.append(curve(view.x, p, words, kinds.colour(c), 2.4, hover, kinds.dash(c)))
    return curves


def _mean_word(view: View1D) -> str:
    """What the curve is."""
    if view.classes:
        return "probability"
    return "expected count" if view.counts else "mean"


def _shade_words(view: View1D) -> str:
    """What the shade is of."""
    if view.classes:
        return "the probability"
    if view.counts:
        return "the expected count"
    return "new points" if view.noise_included else "the function"


def _data(x, y, classes: tuple[str, ...], ink: Ink) -> list[dict]:
    """The data: dots, or a symbol for each class, a little apart."""
    if not classes:
        return [dots(x, y, ink)]
    jitter = np.random.default_rng(0).uniform(-1, 1, len(y))
    heights = y + 0.03 * jitter if len(classes) == 2 else -0.07 * (1 + y) + 0.015 * jitter
    return [
        scatter(
            x[y == c],
            heights[y == c],
            plain(name),
            kinds.class_marker(c, ink, 6),
            plain(name) + " at %{x:.3g}",
        )
        for c, name in enumerate(classes)
    ]


def layer_figure(
    layer: LayerPanel, x_name: str, y_name: str, first: bool, last: bool, ink: Ink
) -> dict:
    """Left, the layer's own map with its inducing points; right, what came out, over x.

    Bars are q(u)'s mean ± 2σ, the band is the map's mean ± 2σ.
    """
    x_name = plain(x_name)
    leaves = plain(y_name) if last else "what leaves"
    layout = base_layout(ink, 176)
    layout["xaxis"] = labelled_axis(ink, x_name if first else "what enters", domain=[0.0, 0.46])
    layout["yaxis"] = labelled_axis(ink, leaves)
    layout["xaxis2"] = labelled_axis(ink, x_name, domain=[0.56, 1.0], anchor="y2")
    layout["yaxis2"] = labelled_axis(ink, "", anchor="x2", matches="y")
    layout["xaxis2"]["range"] = [float(layer.x[0]), float(layer.x[-1])]
    traces = [
        lines(layer.x, layer.samples, "samples", tint(DRAW, 0.8), 1.1, xaxis="x2", yaxis="y2")
    ]
    if layer.map_x is not None:
        traces += _map(layer, ink)
        layout["xaxis"]["range"] = steady(layer.map_x[0], layer.map_x[-1])
    both = [layer.samples] + ([layer.map_mean] if layer.map_mean is not None else [])
    layout["yaxis"]["range"] = steady(*frame(np.concatenate([p.ravel() for p in both]), 0.08))
    layout["yaxis2"]["range"] = layout["yaxis"]["range"]
    layout["showlegend"] = False
    layout["meta"] = {"across": "x2"}
    return {"data": traces, "layout": layout}


def history_figure(fit: np.ndarray, kl: np.ndarray, ink: Ink) -> dict:
    """One model's bound over its steps, deep or not: the fit (T,) and each layer's KL (T, L)."""
    none = np.zeros(0), np.zeros((0, 2))
    return (
        bound_figure(none, (fit, kl), ink)
        if kl.shape[1] == 1
        else bound_figure((fit, kl), none, ink)
    )


def bound_figure(
    deep: tuple[np.ndarray, np.ndarray],
    rival: tuple[np.ndarray, np.ndarray],
    ink: Ink,
    height: int = 285,
    steps: np.ndarray | None = None,
) -> dict:
    """Above, both bounds over the steps; below, what each layer's KL takes off.

    A record is the fit (T,) and the KL of each layer (T, L), of every step or of a film's `steps`.
    These are on a log scale, and each place on a curve is the mean of the steps around it.
    """
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(
        ink, "", type="log", anchor="y", matches="x2", dtick=1, showticklabels=False
    )
    layout["xaxis2"] = labelled_axis(ink, "step (log scale)", type="log", anchor="y2", dtick=1)
    layout["yaxis"] = labelled_axis(ink, "bound (nats)", domain=[0.46, 1.0])
    layout["yaxis2"] = labelled_axis(ink, "KL (nats)", domain=[0.0, 0.38])
    layout["legend"] |= {"font": {"size": 11}}
    traces, shown, highest = [], [], 0.0
    L = deep[1].shape[1]
    for name, (fit, kl), colour, dash in (
        ("deep", deep, DEEP, "solid"),
        ("single layer", rival, SINGLE, "dash"),
    ):
        if not len(fit) or (name == "single layer" and L == 1):
            continue
        step, parts = thinned(np.column_stack([fit - kl.sum(1), kl]), steps)
        shown.append(parts[:, 0])
        highest = max(highest, float(parts[:, 1:].max()))
        traces.append(
            curve(
                step, parts[:, 0], name, colour, 2, name + " %{y:,.1f} at step %{x:,.0f}", dash=dash
            )
        )
        for l in range(kl.shape[1]):
            layer = f"KL of layer {l + 1}" if kl.shape[1] > 1 else "KL of the single layer"
            own = dash if name != "deep" else ("solid", "dot", "dashdot")[l % 3]
            hover = layer + " %{y:,.1f} at step %{x:,.0f}"
            below = curve(step, parts[:, 1 + l], layer, colour, 1.4, hover, own, **BELOW)
            traces.append(below)
    if not shown:
        return saying("The curves begin with<br>the first step.", ink, height)
    layout["yaxis"]["range"] = bound_range(shown)
    layout["yaxis2"]["range"] = steady(0.0, 1.05 * highest)
    last = max(len(deep[0]), len(rival[0])) if steps is None else steps[-1]
    decades = np.ceil(4 * np.log10(1 + last)) / 4
    layout["xaxis"]["range"] = layout["xaxis2"]["range"] = [0.0, float(decades)]
    return {"data": traces, "layout": layout}


def bound_range(curves: list[np.ndarray]) -> list[float]:
    """A range that shows the climb's last part, where models differ, not its first steep metres."""
    high = max(float(curve.max()) for curve in curves)
    low = min(float(np.quantile(curve, 0.35)) for curve in curves)
    room = 0.1 * ((high - low) or 1.0)
    return steady(low - room, high + room)


def legend(ink: Ink, bands: bool, view: View1D | None = None) -> str:
    """What the marks of the predictions mean, once for both of them, as HTML."""
    inducing = key(f"color:{INDUCING}", "inducing points", "▲")
    if view is not None and isinstance(view.deep, ClassPanel):
        styles = {"solid": "solid", "dot": "dotted"}
        curves = [
            key(
                stroke(kinds.colour(c), 2.5, styles.get(kinds.dash(c), "dashed")),
                f"probability of {plain(name)}",
            )
            for c, name in enumerate(view.classes)
        ]
        return legend_row([*curves, *data_keys(view.classes, ink), inducing], ink)
    word, of = ("mean", "new points") if view is None else (_mean_word(view), _shade_words(view))
    shades = (
        [(0.5, f"middle 50 % of {of}"), (0.2, "middle 95 %")]
        if bands
        else [(0.4, f"density of {of}")]
    )
    keys = [
        key(stroke(ink.deep, 2.5), f"{word}, deep"),
        key(stroke(ink.single, 2.5, "dashed"), f"{word}, single layer"),
        *(key(both_shades(opacity), words) for opacity, words in shades),
        key(stroke(DRAW, 1.5), "functions drawn"),
        *data_keys(() if view is None else view.classes, ink),
        inducing,
    ]
    return legend_row(keys, ink)


def thinned(record: np.ndarray, steps: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Means of a record (T, K) over at most MOST_POINTS stretches, even in log step.

    With `steps` of its own it is a film's, which has few.
    """
    if steps is not None:
        return steps, record
    T = len(record)
    edges = np.unique(np.geomspace(1, T + 1, MOST_POINTS + 1).astype(int)) - 1
    starts = edges[:-1]
    counts = np.diff(edges)
    means = np.add.reduceat(record, starts, 0) / counts[:, None]
    return starts + 1 + 0.5 * (counts - 1), means


def _density(view: View1D, panel: Panel, colour: str) -> dict:
    """The mixture's density as shade, darkest at the picture's own highest; meta turns it back.

    density = peak · (shade / 255)^power, up to the peak.
    """
    peak = np.quantile(panel.density, 0.995) or 1.0
    shade = np.clip(panel.density / peak, 0, 1) ** SHADES
    return {
        "type": "heatmap",
        "name": f"density of {_shade_words(view)}",
        "x": typed(view.x),
        "y": typed(panel.density_y),
        "z": typed(np.round(255 * shade), "u1"),
        "zmin": 0,
        "zmax": 255,
        "zsmooth": "fast",
        "meta": {"peak": float(peak), "power": 1 / SHADES},
        "showscale": False,
        "showlegend": True,
        "colorscale": [[0, tint(colour, 0)], [0.25, tint(colour, 0.12)], [1, tint(colour, 0.6)]],
        "hoverinfo": "skip",
    }


def _bands(view: View1D, panel: Panel, colour: str) -> list[dict]:
    low, lower, upper, high = panel.quantiles
    return [
        band(view.x, low, high, "middle 95 %", tint(colour, 0.18)),
        band(view.x, lower, upper, "middle 50 %", tint(colour, 0.34)),
    ]


def _map(layer: LayerPanel, ink: Ink) -> list[dict]:
    assert layer.map_x is not None and layer.map_mean is not None and layer.map_sd is not None
    low, high = layer.map_mean - 2 * layer.map_sd, layer.map_mean + 2 * layer.map_sd
    traces = [
        band(layer.map_x, low, high, "map ± 2σ", tint(DEEP, 0.2)),
        curve(layer.map_x, layer.map_mean, "map", DEEP, 2, "%{x:.3g} goes to %{y:.3g}"),
    ]
    if layer.inducing is not None and layer.u_mean is not None and layer.u_sd is not None:
        traces.append(beliefs(layer.inducing, layer.u_mean, layer.u_sd, ink, 7))
    return traces


def _prediction_layout(
    x, y, x_name, y_name, ink: Ink, height: int, grid=None, classes: tuple[str, ...] = ()
) -> dict:
    layout = base_layout(ink, height) | {"showlegend": False}
    x_range = frame(x, 0.1) if grid is None else [float(grid[0]), float(grid[-1])]
    layout["xaxis"] = labelled_axis(ink, plain(x_name), range=x_range)
    layout["yaxis"] = labelled_axis(ink, plain(y_name), range=frame(y, 0.35))
    if classes:
        two = len(classes) == 2
        title = f"probability of {plain(classes[1])}" if two else "probability of each class"
        bottom = -0.14 if two else -0.07 * (len(classes) + 1.2)
        layout["yaxis"] = labelled_axis(
            ink, title, range=[bottom, 1.14], tickvals=[0, 0.25, 0.5, 0.75, 1]
        )
    return layout
