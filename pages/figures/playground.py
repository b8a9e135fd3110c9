"""The playground's pictures: both models' predictions, every layer, and the bound.

Figures are plain dicts in Plotly's own form, since they are made several times a second: building
validated objects would cost more than the numbers themselves.
"""

import numpy as np

from dgp_core.live.views import LayerPanel, Panel, View1D
from pages.figures.marks import (
    band,
    base_layout,
    dots,
    frame,
    labelled_axis,
    line,
    lines,
    triangle,
    typed,
)
from pages.figures.palette import DEEP, DRAW, INDUCING, SINGLE, Ink, tint

SHADES = 0.55
"""Exponent of the shade: densities below one raise thin tails into view."""
MOST_POINTS = 240
"""Along a curve of the bound."""


def data_figure(x, y, x_name: str, y_name: str, ink: Ink, height: int = 285) -> dict:
    """The data alone, in the frame that the predictions will have."""
    layout = _prediction_layout(x, y, x_name, y_name, ink, height)
    return {"data": [dots(x, y, ink)], "layout": layout}


def prediction_figure(
    view: View1D, panel: Panel, deep: bool, bands: bool, ink: Ink, height: int = 285
) -> dict:
    """One model's prediction: blue and solid for the deep one, orange and dashed for its rival."""
    colour, dash = (DEEP, "solid") if deep else (SINGLE, "dash")
    x, y_range = typed(view.x), frame(view.data_y, 0.35)
    shade = _bands(view, panel, colour) if bands else [_density(view, panel, colour)]
    bottom = y_range[0] + 0.025 * (y_range[1] - y_range[0])
    mean = typed(panel.mean)
    traces = [
        *shade,
        {
            **lines(view.x, panel.draws),
            "name": f"{len(panel.draws)} function draws",
            "line": {"color": tint(DRAW, 0.55 if deep else 0.65), "width": 1},
        },
        {
            **line(x, mean),
            "line": {"color": tint(ink.paper, 0.85), "width": 5},
            "hoverinfo": "skip",
            "showlegend": False,
        },
        {
            **line(x, mean),
            "name": "mean",
            "line": {"color": colour, "width": 2.6, "dash": dash},
            "hovertemplate": "mean %{y:.3g}<extra></extra>",
        },
        dots(view.data_x, view.data_y, ink),
        {
            "type": "scatter",
            "mode": "markers",
            "name": "inducing points",
            "x": typed(panel.inducing),
            "y": typed(np.full(len(panel.inducing), bottom)),
            "marker": triangle(ink, 9),
            "hovertemplate": "inducing point at %{x:.3g}<extra></extra>",
        },
    ]
    layout = _prediction_layout(
        view.data_x, view.data_y, view.x_name, view.y_name, ink, height, view.x
    )
    return {"data": traces, "layout": layout}


def layer_figure(
    layer: LayerPanel, x_name: str, y_name: str, first: bool, last: bool, ink: Ink
) -> dict:
    """Left, the layer's own map with its inducing points; right, what came out, over x.

    Bars are q(u)'s mean ± 2σ, the band is the map's mean ± 2σ.
    """
    leaves = y_name if last else "what leaves"
    layout = base_layout(ink, 176)
    layout["xaxis"] = labelled_axis(ink, x_name if first else "what enters", domain=[0.0, 0.46])
    layout["yaxis"] = labelled_axis(ink, leaves)
    layout["xaxis2"] = labelled_axis(ink, x_name, domain=[0.56, 1.0], anchor="y2")
    layout["yaxis2"] = labelled_axis(ink, "", anchor="x2", matches="y")
    layout["xaxis2"]["range"] = [float(layer.x[0]), float(layer.x[-1])]
    traces = [
        {
            **lines(layer.x, layer.samples),
            "xaxis": "x2",
            "yaxis": "y2",
            "name": "samples",
            "line": {"color": tint(DRAW, 0.8), "width": 1.1},
        }
    ]
    if layer.map_x is not None:
        traces += _map(layer, ink)
        layout["xaxis"]["range"] = [float(layer.map_x[0]), float(layer.map_x[-1])]
    both = [layer.samples] + ([layer.map_mean] if layer.map_mean is not None else [])
    layout["yaxis"]["range"] = frame(np.concatenate([part.ravel() for part in both]), 0.12)
    layout["showlegend"] = False
    return {"data": traces, "layout": layout}


def bound_figure(
    deep: tuple[np.ndarray, np.ndarray],
    rival: tuple[np.ndarray, np.ndarray],
    ink: Ink,
    height: int = 285,
) -> dict:
    """Above, both bounds over the steps; below, what each layer's KL takes off.

    A record is the fit (T,) and the KL of each layer (T, L). Steps are on a log scale, and each
    place on a curve is the mean of the steps around it.
    """
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(
        ink, "", type="log", anchor="y", matches="x2", showticklabels=False
    )
    layout["xaxis2"] = labelled_axis(ink, "step (log scale)", type="log", anchor="y2", nticks=5)
    layout["yaxis"] = labelled_axis(ink, "bound (nats)", domain=[0.46, 1.0])
    layout["yaxis2"] = labelled_axis(ink, "KL (nats)", domain=[0.0, 0.38], rangemode="tozero")
    layout["legend"] |= {"font": {"size": 11}}
    traces, shown = [], []
    L = deep[1].shape[1]
    for name, (fit, kl), colour, dash in (
        ("deep", deep, DEEP, "solid"),
        ("single layer", rival, SINGLE, "dash"),
    ):
        if not len(fit) or (name == "single layer" and L == 1):
            continue
        step, parts = _thinned(np.column_stack([fit - kl.sum(1), kl]))
        shown.append(parts[:, 0])
        traces.append(
            {
                **line(typed(step), typed(parts[:, 0])),
                "name": name,
                "line": {"color": colour, "width": 2, "dash": dash},
                "hovertemplate": name + " %{y:,.1f} at step %{x:,.0f}<extra></extra>",
            }
        )
        for l in range(kl.shape[1]):
            layer = f"KL of layer {l + 1}" if kl.shape[1] > 1 else "KL of the single layer"
            traces.append(
                {
                    **line(typed(step), typed(parts[:, 1 + l])),
                    "xaxis": "x2",
                    "yaxis": "y2",
                    "name": layer,
                    "showlegend": False,
                    "line": {
                        "color": colour,
                        "width": 1.4,
                        "dash": dash if name != "deep" else ("solid", "dot", "dashdot")[l % 3],
                    },
                    "hovertemplate": layer + " %{y:,.1f} at step %{x:,.0f}<extra></extra>",
                }
            )
    if shown:
        layout["yaxis"]["range"] = bound_range(shown)
    else:
        words = {"text": "The curves begin with<br>the first step.", "showarrow": False}
        place = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
        layout["annotations"] = [words | place]
        for axis in ("xaxis", "yaxis", "xaxis2", "yaxis2"):
            layout[axis]["visible"] = False
    return {"data": traces, "layout": layout}


def bound_range(curves: list[np.ndarray]) -> list[float]:
    """A range that shows the climb's last part, where models differ, not its first steep metres."""
    high = max(float(curve.max()) for curve in curves)
    low = min(float(np.quantile(curve, 0.35)) for curve in curves)
    room = 0.12 * ((high - low) or 1.0)
    return [low - room, high + room]


def legend(ink: Ink, bands: bool) -> str:
    """What the marks of the predictions mean, once for both of them, as HTML."""

    def key(mark: str, words: str, sign: str = "") -> str:
        drawing = f'<span aria-hidden="true" style="{mark}">{sign}</span>'
        style = "display:inline-flex;align-items:center;gap:6px;margin-right:16px"
        return f'<span style="{style}">{drawing}{words}</span>'

    def stroke(colour: str, width: float, dash: str = "solid") -> str:
        return f"width:22px;border-top:{width}px {dash} {colour}"

    def shade(opacity: float) -> str:
        deep, single = tint(DEEP, opacity), tint(SINGLE, opacity)
        halves = f"linear-gradient(90deg,{deep} 50%,{single} 50%)"
        return f"width:22px;height:11px;background:{halves}"

    shades = (
        [(0.5, "middle 50 % of new points"), (0.2, "middle 95 %")]
        if bands
        else [(0.4, "density of new points")]
    )
    keys = [
        key(stroke(DEEP, 2.5), "mean, deep"),
        key(stroke(SINGLE, 2.5, "dashed"), "mean, single layer"),
        *(key(shade(opacity), words) for opacity, words in shades),
        key(stroke(DRAW, 1.5), "functions drawn"),
        key(f"color:{ink.data}", "data", "●"),
        key(f"color:{INDUCING}", "inducing points", "▲"),
    ]
    style = f"color:{ink.text};font-size:13px;line-height:1.7;display:flex;flex-wrap:wrap"
    return f'<div style="{style}">{"".join(keys)}</div>'


def _thinned(record: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of a record (T, K) over at most MOST_POINTS stretches, even in log step."""
    T = len(record)
    edges = np.unique(np.geomspace(1, T + 1, MOST_POINTS + 1).astype(int)) - 1
    starts = edges[:-1]
    counts = np.diff(edges)
    means = np.add.reduceat(record, starts, 0) / counts[:, None]
    return starts + 1 + 0.5 * (counts - 1), means


def _density(view: View1D, panel: Panel, colour: str) -> dict:
    """The mixture's density as shade, darkest at the picture's own highest."""
    peak = np.quantile(panel.density, 0.995) or 1.0
    shade = np.clip(panel.density / peak, 0, 1) ** SHADES
    return {
        "type": "heatmap",
        "name": "density of new points",
        "x": typed(view.x),
        "y": typed(panel.density_y),
        "z": typed(np.round(255 * shade), "u1"),
        "zmin": 0,
        "zmax": 255,
        "zsmooth": "fast",
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
        {
            **line(typed(layer.map_x), typed(layer.map_mean)),
            "name": "map",
            "line": {"color": DEEP, "width": 2},
            "hovertemplate": "%{x:.3g} goes to %{y:.3g}<extra></extra>",
        },
    ]
    if layer.inducing is not None and layer.u_mean is not None and layer.u_sd is not None:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "inducing points, q(u) ± 2σ",
                "x": typed(layer.inducing),
                "y": typed(layer.u_mean),
                "error_y": {
                    "type": "data",
                    "array": typed(2 * layer.u_sd),
                    "color": INDUCING,
                    "thickness": 1.2,
                    "width": 0,
                },
                "marker": triangle(ink, 7),
                "hovertemplate": "inducing point %{x:.3g}, q(u) mean %{y:.3g}<extra></extra>",
            }
        )
    return traces


def _prediction_layout(x, y, x_name, y_name, ink: Ink, height: int, grid=None) -> dict:
    layout = base_layout(ink, height) | {"showlegend": False}
    x_range = frame(x, 0.1) if grid is None else [float(grid[0]), float(grid[-1])]
    layout["xaxis"] = labelled_axis(ink, x_name, range=x_range)
    layout["yaxis"] = labelled_axis(ink, y_name, range=frame(y, 0.35))
    return layout
