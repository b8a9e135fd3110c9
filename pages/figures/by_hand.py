"""Figures that a lesson's controls drive: a GP, its sparse approximation, two layers, the bound, a
Gaussian behind a layer, means of noisy estimates."""

import numpy as np

from dgp_core.gp.mixture import Mixture
from dgp_core.live.views.by_hand import (
    BoundByHand,
    Composition,
    ExactByHand,
    GPByHand,
    KernelName,
    SparseByHand,
    correlation,
)
from dgp_core.live.views.paths import even_normals
from pages.figures.marks import (
    band,
    base_layout,
    curve,
    dots,
    error_bars,
    heading,
    labelled_axis,
    lines,
    plot,
    scatter,
    triangle,
    upright,
)
from pages.figures.palette import DEEP, DRAW, INDUCING, SINGLE, Ink, tint

TITLED = {"l": 8, "r": 6, "t": 26, "b": 8}
"""Margins with room for a line of words above the picture."""
# 1 · A GP by hand.


def gp_figure(
    seen: GPByHand, points: tuple[tuple[float, float], ...], ink: Ink, height: int = 380
) -> dict:
    """Functions that fit what was seen, their mean ± 2 SD; a click adds a point."""
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "x", range=[float(seen.x[0]), float(seen.x[-1])])
    layout["yaxis"] = labelled_axis(ink, "f(x)", range=[-3.2, 3.2])
    layout["meta"] = {"click": True, "draws": "your points"}
    low, high = seen.mean - 2 * seen.sd, seen.mean + 2 * seen.sd
    traces = [
        band(seen.x, low, high, "± 2 standard deviations", tint(DEEP, 0.16)),
        lines(seen.x, seen.draws, "functions drawn", tint(DRAW, 0.9), 1.3),
        curve(seen.x, seen.mean, "mean", DEEP, 2.6, "mean %{y:.3g} at %{x:.3g}"),
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
    layout["shapes"] = [upright(lengthscale, ink.text, 1, "dot", y1=at)]
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
    hover = "correlation %{y:.3f} at distance %{x:.2f}"
    alike = correlation(kernel, distance, lengthscale)
    return {
        "data": [curve(distance, alike, "correlation", DEEP, 2.4, hover)],
        "layout": layout,
    }


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
    both = np.stack([exact.mean - 2 * exact.sd, exact.mean + 2 * exact.sd])
    low, high = sparse.mean - 2 * sparse.sd, sparse.mean + 2 * sparse.sd
    return {
        "data": [
            band(exact.x, low, high, "sparse ± 2 standard deviations", tint(DEEP, 0.2)),
            dots(x, y, ink),
            lines(exact.x, both, "exact ± 2 standard deviations", ink.text, 1.3, dash="dash"),
            curve(exact.x, sparse.mean, "sparse mean", DEEP, 2.4, "mean %{y:.3g} at %{x:.3g}"),
            scatter(
                sparse.inducing,
                sparse.u_mean,
                "q(u) ± 2 standard deviations",
                triangle(ink, 10),
                "z = %{x:.3g}, q(u) mean %{y:.3g}",
                error_y=error_bars(2 * sparse.u_sd, INDUCING, 1.8),
            ),
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
    ends, level = np.array([0, len(bounds) + 1]), np.full(2, evidence)
    says = "log p(y) = %{y:,.1f} nats"
    mark = {"size": 13, "color": INDUCING, "symbol": "triangle-up"}
    return {
        "data": [
            curve(ends, level, "exact evidence", ink.text, 1.5, says, dash="dash"),
            {
                **curve(M, bounds, "bound", DEEP, 2, "M = %{x}: bound %{y:,.1f} nats"),
                "mode": "lines+markers",
                "marker": {"size": 5, "color": DEEP},
            },
            scatter([chosen], [float(bounds[chosen - 1])], f"M = {chosen}", mark),
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
    layout = plot(ink, height, names[0], names[1], showlegend=False, margin=TITLED)
    layout["annotations"] = [heading(f"{mark[0]:.2f} goes to {mark[1]:.2f}".replace("-", "−"))]
    diamond = {"size": 10, "color": SINGLE, "symbol": "diamond"}
    return {
        "data": [
            curve(a, b, names[1], colour, 2.4, "%{x:.3g} goes to %{y:.3g}"),
            scatter([mark[0]], [mark[1]], "one input", diamond, cliponaxis=False),
        ],
        "layout": layout,
    }


# 5 · The bound by hand.


def _normal(u: np.ndarray, mean: float, sd: float) -> np.ndarray:
    """N(u; mean, sd²)."""
    return np.exp(-0.5 * ((u - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))


def belief_figure(
    y: float, noise: float, mean: float, sd: float, parts: BoundByHand, ink: Ink, height: int = 320
) -> dict:
    """The prior, what was seen, q(u), and the posterior that q(u) would be at its best."""
    u = np.linspace(-3.5, 3.5, 281)
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "u", range=[-3.5, 3.5])
    layout["yaxis"] = labelled_axis(ink, "density", range=[0, 1.75])
    best = _normal(u, parts.best_mean, parts.best_sd)
    curves = (
        ("your q(u)", _normal(u, mean, sd), DEEP, 2.8, ""),
        ("prior p(u)", _normal(u, 0.0, 1.0), ink.data, 1.8, "dot"),
        ("exact posterior", best, INDUCING, 1.8, "dash"),
    )
    traces = [
        curve(u, p, name, colour, width, name + " %{y:.2f} at u = %{x:.2f}", dash)
        for name, p, colour, width, dash in curves
    ]
    bar = {"type": "data", "array": [noise], "color": ink.data, "thickness": 1.5}
    mark = {"size": 9, "color": ink.data}
    traces.append(scatter([y], [0.05], "y ± σ", mark, "y = %{x:.2f}", error_x=bar))
    return {"data": traces, "layout": layout}


def sum_figure(parts: BoundByHand, ink: Ink, height: int = 320) -> dict:
    """Fit less KL is the bound, which never passes the evidence."""
    layout = base_layout(ink, height) | {"showlegend": False, "margin": TITLED}
    low = min(-4.0, 1.15 * parts.bound)
    layout["xaxis"] = labelled_axis(ink, "nats", range=[max(low, -12.0), 0.6])
    layout["yaxis"] = labelled_axis(ink, "", autorange="reversed")
    e = parts.evidence
    layout["shapes"] = [upright(e, ink.text, 1.5, "dash", yref="paper")]
    words = f"log evidence {e:.2f}".replace("-", "−")
    place = {"x": e, "y": 1, "yref": "paper", "yanchor": "bottom"}
    layout["annotations"] = [{"text": words, "showarrow": False, **place}]
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


PATHS = 40
"""Sample paths of the layer that is bent by hand."""


OWN_NOISE = 0.12
"""The standard deviation that the layer by hand adds to each path."""


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
    goes, at = "h = %{x:.2f} goes to %{y:.2f}", "h = %{x:.2f}, y = %{y:.2f}"
    dotted = "summary %{x:.2f} at y = %{y:.2f}"
    mark = {"color": DRAW, "size": 8, "line": {"color": ink.paper, "width": 1}}
    traces = [
        band(h, floor, floor + 0.6 * belief, "belief about h", tint(DEEP, 0.22)),
        curve(h, bend(h, steepness), "the second layer", ink.text, 2, goes),
        scatter(paths, bend(paths, steepness), f"{PATHS} sample paths", mark, f"a path: {at}"),
        curve(density, y, "mixture", DEEP, 3, "mixture %{x:.2f} at y = %{y:.2f}", **right),
        curve(summary, y, "Gaussian summary", tint(DEEP, 0.75), 2, dotted, dash="dot", **right),
    ]
    return {"data": traces, "layout": layout}


def estimates_figure(values: np.ndarray, truth: float, ink: Ink, height: int = 260) -> dict:
    """Running means of estimates (K, T), each from its own draws, and what they estimate."""
    layout = base_layout(ink, height)
    T = values.shape[1]
    layout["xaxis"] = labelled_axis(ink, "estimates so far", type="log", range=[0, np.log10(T)])
    layout["yaxis"] = labelled_axis(ink, "their mean")
    n, ends = np.arange(1, T + 1), np.array([1, T])
    means = np.cumsum(values, 1) / n
    spread = 2 * values.std() / np.sqrt(n)
    traces = [
        band(n, truth - spread, truth + spread, "truth ± 2 standard errors", tint(DEEP, 0.16)),
        lines(n, means, f"{len(values)} people who average", DRAW, 1.4),
        curve(ends, np.full(2, truth), "truth", ink.text, 2, "truth %{y:.3g}", dash="dash"),
    ]
    reach = 1.2 * 2 * float(values.std()) or 1.0
    layout["yaxis"]["range"] = [truth - reach, truth + reach]
    return {"data": traces, "layout": layout}
