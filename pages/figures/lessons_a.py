"""Pictures of the first five lessons: a GP by hand, its sparse cousin, two layers, the bound."""

from typing import Any

import numpy as np
from scipy.stats import norm

from dgp_core.live.run import Run, Snapshot
from dgp_core.live.views.by_hand import (
    BoundByHand,
    Composition,
    ExactByHand,
    GPByHand,
    KernelName,
    SparseByHand,
    correlation,
)
from dgp_core.live.views.playground import View1D, View2D, ViewMany, view_1d
from pages.figures.boards import NOTHING, bound_words, meter_words, record_of
from pages.figures.marks import (
    band,
    base_layout,
    dots,
    labelled_axis,
    line,
    lines,
    saying,
    triangle,
    typed,
)
from pages.figures.palette import DEEP, DRAW, INDUCING, SINGLE, Ink, tint
from pages.figures.playground import (
    _thinned,
    bound_figure,
    bound_range,
    data_figure,
    layer_figure,
    prediction_figure,
)

TITLED = {"l": 8, "r": 6, "t": 26, "b": 8}
"""Margins with room for a line of words above the picture."""
KL_COLOURS = (SINGLE, "#CC79A7", "#E69F00", DRAW, INDUCING)
"""Of the KL of each layer, from the first."""


# 1 · A GP by hand.


def gp_figure(
    seen: GPByHand, points: tuple[tuple[float, float], ...], ink: Ink, height: int = 380
) -> dict:
    """Functions that fit what was seen, their mean ± 2 deviations; a click puts down a point."""
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "x", range=[float(seen.x[0]), float(seen.x[-1])])
    layout["yaxis"] = labelled_axis(ink, "f(x)", range=[-3.2, 3.2])
    layout["meta"] = {"click": True, "draws": "your points"}
    low, high = seen.mean - 2 * seen.sd, seen.mean + 2 * seen.sd
    traces = [
        band(seen.x, low, high, "± 2 deviations", tint(DEEP, 0.16)),
        {
            **lines(seen.x, seen.draws),
            "name": "functions drawn",
            "line": {"color": tint(DRAW, 0.9), "width": 1.3},
        },
        {
            **line(typed(seen.x), typed(seen.mean)),
            "name": "mean",
            "line": {"color": DEEP, "width": 2.6},
            "hovertemplate": "mean %{y:.3g} at %{x:.3g}<extra></extra>",
        },
    ]
    if points:
        x, y = np.array(points).T
        marks = dots(x, y, ink)
        marks["name"] = "your points"
        marks["marker"] |= {"size": 10, "color": ink.data}
        traces.append(marks)
    return {"data": traces, "layout": layout}


def kernel_figure(kernel: KernelName, lengthscale: float, ink: Ink, height: int = 380) -> dict:
    """How alike f is at two inputs, by their distance; the lengthscale is marked."""
    distance = np.linspace(0, 4, 200)
    layout = base_layout(ink, height) | {"showlegend": False}
    layout["xaxis"] = labelled_axis(ink, "distance of two inputs", range=[0, 4])
    layout["yaxis"] = labelled_axis(ink, "correlation of f there", range=[0, 1.05])
    at = float(correlation(kernel, np.array(lengthscale), lengthscale))
    layout["shapes"] = [
        {
            "type": "line",
            "x0": lengthscale,
            "x1": lengthscale,
            "y0": 0,
            "y1": at,
            "line": {"color": ink.text, "width": 1, "dash": "dot"},
        }
    ]
    layout["annotations"] = [
        {
            "x": lengthscale,
            "y": at,
            "text": f"ℓ = {lengthscale:g}",
            "showarrow": False,
            "xanchor": "left",
            "yanchor": "bottom",
            "xshift": 5,
        }
    ]
    curve = {
        **line(typed(distance), typed(correlation(kernel, distance, lengthscale))),
        "name": "correlation",
        "line": {"color": DEEP, "width": 2.4},
        "hovertemplate": "correlation %{y:.3f} at distance %{x:.2f}<extra></extra>",
    }
    return {"data": [curve], "layout": layout}


# 2 · A sparse GP by hand.


def sparse_figure(
    x: np.ndarray,
    y: np.ndarray,
    names: tuple[str, str],
    exact: ExactByHand,
    sparse: SparseByHand,
    ink: Ink,
    height: int = 380,
) -> dict:
    """The sparse GP over the exact one, with q(u) as a bar at each inducing input."""
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, names[0], range=[float(exact.x[0]), float(exact.x[-1])])
    least, most = float(y.min()), float(y.max())
    room = 0.25 * (most - least)
    layout["yaxis"] = labelled_axis(ink, names[1], range=[least - room, most + room])
    edge = {"color": ink.text, "width": 1.3, "dash": "dash"}
    both = np.stack([exact.mean - 2 * exact.sd, exact.mean + 2 * exact.sd])
    low, high = sparse.mean - 2 * sparse.sd, sparse.mean + 2 * sparse.sd
    return {
        "data": [
            band(exact.x, low, high, "sparse ± 2 deviations", tint(DEEP, 0.2)),
            dots(x, y, ink),
            {**lines(exact.x, both), "name": "exact ± 2 deviations", "line": edge},
            {
                **line(typed(exact.x), typed(sparse.mean)),
                "name": "sparse mean",
                "line": {"color": DEEP, "width": 2.4},
                "hovertemplate": "mean %{y:.3g} at %{x:.3g}<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": "q(u) ± 2 deviations",
                "x": typed(sparse.inducing),
                "y": typed(sparse.u_mean),
                "error_y": {
                    "type": "data",
                    "array": typed(2 * sparse.u_sd),
                    "color": INDUCING,
                    "thickness": 1.8,
                    "width": 0,
                },
                "marker": triangle(ink, 10),
                "hovertemplate": "z = %{x:.3g}, q(u) mean %{y:.3g}<extra></extra>",
            },
        ],
        "layout": layout,
    }


def tightening_figure(
    bounds: np.ndarray, evidence: float, chosen: int, ink: Ink, height: int = 380
) -> dict:
    """The bound with 1, 2, … inducing points, below the evidence that it never passes."""
    M = np.arange(1, len(bounds) + 1)
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "inducing points M", range=[0, len(bounds) + 1])
    layout["yaxis"] = labelled_axis(
        ink, "nats", range=[evidence - 160, evidence + 16], tickformat=",d"
    )
    level = {"color": ink.text, "width": 1.5, "dash": "dash"}
    return {
        "data": [
            {
                **line(typed(np.array([0, len(bounds) + 1])), typed(np.full(2, evidence))),
                "name": "exact evidence",
                "line": level,
                "hovertemplate": "log p(y) = %{y:,.1f} nats<extra></extra>",
            },
            {
                **line(typed(M), typed(bounds)),
                "mode": "lines+markers",
                "name": "bound",
                "line": {"color": DEEP, "width": 2},
                "marker": {"size": 5, "color": DEEP},
                "hovertemplate": "M = %{x}: bound %{y:,.1f} nats<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"M = {chosen}",
                "x": [chosen],
                "y": [float(bounds[chosen - 1])],
                "marker": {"size": 13, "color": INDUCING, "symbol": "triangle-up"},
                "hoverinfo": "skip",
            },
        ],
        "layout": layout,
    }


# 3 · Two layers by hand.


def composition_figures(
    drawn: Composition, follow: float, first: str, ink: Ink, height: int = 280
) -> tuple[dict, dict, dict]:
    """f¹, f² and f² after f¹, a picture each; one input is followed through all three."""
    i = int(np.argmin(np.abs(drawn.x - follow)))
    x, h, f = float(drawn.x[i]), float(drawn.first[i]), float(drawn.composed[i])
    return (
        _map_figure(drawn.x, drawn.first, (x, h), ("x", f"h = {first}"), DRAW, ink, height),
        _map_figure(drawn.h, drawn.second, (h, f), ("h", "f²(h)"), DRAW, ink, height),
        _map_figure(drawn.x, drawn.composed, (x, f), ("x", "f²(f¹(x))"), DEEP, ink, height),
    )


def _map_figure(
    a: np.ndarray,
    b: np.ndarray,
    mark: tuple[float, float],
    names: tuple[str, str],
    colour: str,
    ink: Ink,
    height: int,
) -> dict:
    """A map from a to b, and where it takes one input."""
    layout = base_layout(ink, height) | {"showlegend": False, "margin": TITLED}
    layout["xaxis"] = labelled_axis(ink, names[0])
    layout["yaxis"] = labelled_axis(ink, names[1])
    layout["annotations"] = [
        {
            "text": f"{mark[0]:.2f} goes to {mark[1]:.2f}".replace("-", "−"),
            "xref": "paper",
            "yref": "paper",
            "x": 0.5,
            "y": 1.0,
            "yanchor": "bottom",
            "showarrow": False,
        }
    ]
    return {
        "data": [
            {
                **line(typed(a), typed(b)),
                "name": names[1],
                "line": {"color": colour, "width": 2.4},
                "hovertemplate": "%{x:.3g} goes to %{y:.3g}<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "markers",
                "name": "one input",
                "x": [mark[0]],
                "y": [mark[1]],
                "cliponaxis": False,
                "marker": {"size": 10, "color": SINGLE, "symbol": "diamond"},
                "hoverinfo": "skip",
            },
        ],
        "layout": layout,
    }


# 5 · The bound by hand, and part by part.


def belief_figure(
    y: float, noise: float, mean: float, sd: float, parts: BoundByHand, ink: Ink, height: int = 320
) -> dict:
    """The prior, what was seen, q(u), and the posterior that q(u) would be at its best."""
    u = np.linspace(-3.5, 3.5, 281)
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "u", range=[-3.5, 3.5])
    layout["yaxis"] = labelled_axis(ink, "density", range=[0, 1.75])
    best = norm.pdf(u, parts.best_mean, parts.best_sd)
    curves = (
        ("your q(u)", norm.pdf(u, mean, sd), {"color": DEEP, "width": 2.8}),
        ("prior p(u)", norm.pdf(u), {"color": ink.data, "width": 1.8, "dash": "dot"}),
        ("exact posterior", best, {"color": INDUCING, "width": 1.8, "dash": "dash"}),
    )
    traces = [
        {
            **line(typed(u), typed(p)),
            "name": name,
            "line": stroke,
            "hovertemplate": name + " %{y:.2f} at u = %{x:.2f}<extra></extra>",
        }
        for name, p, stroke in curves
    ]
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "y ± σ",
            "x": [y],
            "y": [0.05],
            "error_x": {"type": "data", "array": [noise], "color": ink.data, "thickness": 1.5},
            "marker": {"size": 9, "color": ink.data},
            "hovertemplate": "y = %{x:.2f}<extra></extra>",
        }
    )
    return {"data": traces, "layout": layout}


def sum_figure(parts: BoundByHand, ink: Ink, height: int = 320) -> dict:
    """Fit less KL is the bound, which never passes the evidence."""
    layout = base_layout(ink, height) | {"showlegend": False, "margin": TITLED}
    low = min(-4.0, 1.15 * parts.bound)
    layout["xaxis"] = labelled_axis(ink, "nats", range=[max(low, -12.0), 0.6])
    layout["yaxis"] = labelled_axis(ink, "", autorange="reversed")
    e = parts.evidence
    layout["shapes"] = [
        {
            "type": "line",
            "x0": e,
            "x1": e,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"color": ink.text, "width": 1.5, "dash": "dash"},
        }
    ]
    layout["annotations"] = [
        {
            "x": e,
            "y": 1,
            "yref": "paper",
            "yanchor": "bottom",
            "text": f"log evidence {e:.2f}".replace("-", "−"),
            "showarrow": False,
        }
    ]
    values = {"fit": parts.fit, "− KL": -parts.kl, "bound": parts.bound}
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "parts of the bound",
        "x": list(values.values()),
        "y": list(values),
        "text": [f"{value:.2f}".replace("-", "−") for value in values.values()],
        "textposition": "auto",
        "marker": {"color": [DRAW, SINGLE, DEEP]},
        "hovertemplate": "%{y}: %{x:.3f} nats<extra></extra>",
    }
    return {"data": [bars], "layout": layout}


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
    layout["xaxis"] = labelled_axis(ink, "step (log scale)", type="log", nticks=6)
    layout["yaxis"] = labelled_axis(ink, "nats")
    layout["legend"] |= {"font": {"size": 11}}
    step, parts = _thinned(np.column_stack([fit, kl]), steps)
    levels = parts[:, :1] - np.cumsum(np.column_stack([np.zeros(len(step)), parts[:, 1:]]), 1)
    traces = []
    for l in range(kl.shape[1]):
        name = f"KL of layer {l + 1}"
        colour = KL_COLOURS[l % len(KL_COLOURS)]
        traces.append(band(step, levels[:, l + 1], levels[:, l], name, tint(colour, 0.45)))
    for name, values, stroke in (
        ("fit", levels[:, 0], {"color": ink.data, "width": 1.8, "dash": "dash"}),
        ("bound", levels[:, -1], {"color": DEEP, "width": 2.6}),
    ):
        traces.append(
            {
                **line(typed(step), typed(values)),
                "name": name,
                "line": stroke,
                "hovertemplate": name + " %{y:,.1f} nats at step %{x:,.0f}<extra></extra>",
            }
        )
    layout["yaxis"]["range"] = bound_range([levels[:, -1], levels[:, 0]])
    return {"data": traces, "layout": layout}


# Live runs on one input.


def live(run: Run, moment: Any, ink: Ink) -> dict[str, dict]:
    """What the lessons show of a run: predictions, layers, the bound and its parts."""
    if moment is None:
        return _before(run, ink)
    seen: View1D = view_1d(run, moment) if isinstance(moment, Snapshot) else moment
    deep, rival, steps = record_of(run, moment)
    both, parts = bound_figure(deep, rival, ink, steps=steps), parts_figure(deep, ink, steps=steps)
    elements = {
        "bound": _picture(both, "The bound over the steps.", ink),
        "parts": _picture(parts, "The deep model's fit, KL a layer, and bound.", ink),
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
        elements[name] = _picture(figure, alt, ink)
    L = len(seen.layers)
    for l, layer in enumerate(seen.layers):
        figure = layer_figure(layer, seen.x_name, seen.y_name, l == 0, l == L - 1, ink)
        alt = f"What {layer.title} does, and what has come out of it."
        elements[f"layer_{l}"] = _picture(figure, alt, ink)
    elements["layers_words"] = {"text": layers_words(seen)}
    for element in elements.values():
        if "figure" in element:
            element["figure"]["layout"]["uirevision"] = run.dataset.name
    return elements


def layers_words(seen: View1D | View2D | ViewMany) -> str:
    """Each inner layer's KL and how on it is, in a line."""
    said = []
    for l, layer in enumerate(seen.layers[:-1]):
        kl = f"KL {layer.kl:,.1f} nats. " if np.isfinite(layer.kl) else ""
        said.append(f"**Layer {l + 1}:** {kl}{meter_words(layer.departure, False)}")
    return " ".join(said) or "One layer has nothing below it that could be on or off."


def _before(run: Run, ink: Ink) -> dict[str, dict]:
    """The data alone, until the start values are there."""
    data = run.dataset
    figure = data_figure(data.X[:, 0], data.Y[:, 0], data.input_names[0], data.output_names[0], ink)
    picture = _picture(figure, "The data, before any model has seen them.", ink)
    waiting = {"text": "The bound is known after the first step."}
    return {
        "deep": picture,
        "rival": picture,
        "bound": _picture(bound_figure(NOTHING, NOTHING, ink), "No bound yet.", ink),
        "parts": _picture(parts_figure(NOTHING, ink), "No bound yet.", ink),
        "bound_words": waiting,
        "layers_words": waiting,
    }


def _picture(figure: dict, alt: str, ink: Ink) -> dict:
    return {"figure": figure, "alt": alt, "paper": ink.paper}
