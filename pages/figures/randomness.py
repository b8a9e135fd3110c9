"""Pictures of the two randomnesses of training, and of what a row's marginal depends on."""

import numpy as np

from dgp_core.live.views.randomness import GradientNoise, NoiseView, RowAlone
from pages.figures.classes import colour, dash, symbol
from pages.figures.marks import (
    base_layout,
    curve,
    error_bars,
    hatch,
    labelled_axis,
    log_ticks,
    scatter,
    typed,
)
from pages.figures.palette import DEEP, DRAW, INDUCING, SINGLE, Ink, tint

WAYS = (
    ("both", "both redrawn", DEEP, "circle"),
    ("rows", "minibatch redrawn", SINGLE, "diamond"),
    ("samples", "samples ε redrawn", INDUCING, "square"),
)
"""Of estimates: field, words, colour and symbol; from the bottom up."""

PARTS = (
    ("rows", "the rows alone", SINGLE, "/"),
    ("samples", "the samples alone", INDUCING, "."),
    ("together", "which samples meet which rows", DEEP, ""),
)
"""Of the gradient's variance: field, words, colour and pattern."""

SHOWN = 150
"""Estimates that are dots; the mean is of all of them."""


def bound_spread_figure(
    view: NoiseView,
    samples: int,
    batch: int,
    ink: Ink,
    height: int = 260,
    now: dict[str, int] | None = None,
) -> dict:
    """Estimates of the bound with one randomness redrawn, the other, or both; their means ± 2
    standard errors; the bound from all rows and many samples; and a short line at what each cloud
    is an estimate of, where something is kept: the kept minibatch's own bound, or that of the kept
    samples.

    `now` are the numbers of the estimates that were drawn last, by what was redrawn.
    """
    spread = view.spreads[samples, batch]
    layout = base_layout(ink, height) | {"showlegend": False}
    layout["xaxis"] = labelled_axis(ink, "estimate of the bound (nats)")
    layout["yaxis"] = labelled_axis(
        ink,
        "",
        tickvals=list(range(len(WAYS))),
        ticktext=[words for _, words, _, _ in WAYS],
        range=[-0.6, len(WAYS) - 0.4],
    )
    words, at, height_of = "all rows, many samples", "%{x:,.2f}", np.array([-0.6, len(WAYS) - 0.4])
    jitter = 0.24 * np.random.default_rng(0).uniform(-1, 1, SHOWN)
    traces = [
        curve(np.full(2, view.bound), height_of, words, ink.text, 1.6, f"{words}: {at}", "dash")
    ]
    kept = {
        "samples": (spread.of_batch, "this minibatch's own bound"),
        "rows": (spread.of_samples, "the bound with these samples"),
    }
    for place, (field, words, shade, mark) in enumerate(WAYS):
        values = getattr(spread, field)
        shown = values[:SHOWN]
        if field in kept:
            target, name = kept[field]
            across = np.full(2, target), place + np.array([-0.42, 0.42])
            traces.append(curve(*across, name, shade, 2.4, f"{name}: {at}"))
        error = 2 * values.std(ddof=1) / np.sqrt(len(values))
        cloud = {"color": tint(shade, 0.45), "symbol": mark, "size": 5}
        middle = {"color": ink.text, "symbol": "line-ns-open", "size": 12}
        bar = {"type": "data", "array": [float(error)], "color": ink.text, "width": 5}
        traces += [
            scatter(shown, place + jitter[: len(shown)], words, cloud, f"{words}: {at}"),
            scatter(
                [float(values.mean())],
                [place + 0.36],
                f"mean of {len(values)}, {words}",
                middle,
                f"mean {at} ± {error:.2g} ({words})",
                error_x=bar,
            ),
        ]
        if now and field in now:
            edge = {"color": ink.text, "width": 2}
            large = {"color": shade, "symbol": mark, "size": 13, "line": edge}
            x = float(values[now[field] % len(values)])
            traces.append(scatter([x], [place], f"drawn last, {words}", large, f"drawn last: {at}"))
    return {"data": traces, "layout": layout}


def gradient_noise_figure(
    view: NoiseView, ink: Ink, height: int = 285, group: int = 0, by: str = "samples"
) -> dict:
    """The gradient's noise beside its length, against samples or batch size, on log scales."""
    noise = view.gradients[group]
    relative = _relative(noise)
    across, others = (
        (view.samples, view.batches) if by == "samples" else (view.batches, view.samples)
    )
    table = relative.T if by == "samples" else relative  # (others, across)
    layout = base_layout(ink, height)
    title = "samples S a row" if by == "samples" else "rows B in a minibatch"
    layout["xaxis"] = labelled_axis(
        ink,
        title,
        type="log",
        tickangle=0,
        tickvals=list(across),
        ticktext=[_size(view, by, v) for v in across],
    )
    layout["yaxis"] = labelled_axis(ink, "noise ÷ gradient", **log_ticks(table))
    traces = []
    for k, (other, values) in enumerate(zip(others, table, strict=True)):
        name = f"B = {_size(view, 'rows', other)}" if by == "samples" else f"S = {other}"
        hover = name + ": %{y:.3g} at %{x}"
        by_size = curve(np.array(across), values, name, colour(5 + k), 2, hover, dash(k))
        traces.append(
            by_size | {"mode": "lines+markers", "marker": {"symbol": symbol(k), "size": 7}}
        )
    guide = table[-1][0] * np.sqrt(across[0] / np.array(across, float))
    root = "1/√S" if by == "samples" else "1/√B"
    traces.append(curve(np.array(across), guide, root, ink.data, 1.2, dash="dot"))
    return {"data": traces, "layout": layout}


def share_figure(
    view: NoiseView, samples: int, ink: Ink, height: int = 260, group: int = 0
) -> dict:
    """What the gradient's variance is due to, for each batch size, at one number of samples."""
    noise, row = view.gradients[group], view.samples.index(samples)
    total = np.maximum(noise.total[row], 1e-300)
    layout = base_layout(ink, height) | {"barmode": "stack"}
    layout["xaxis"] = labelled_axis(ink, "rows B in a minibatch", type="category")
    layout["yaxis"] = labelled_axis(ink, "share of the variance", range=[0, 1])
    layout["yaxis"]["tickformat"] = ".0%"
    traces = []
    for field, words, shade, pattern in PARTS:
        values = getattr(noise, field)[row]
        traces.append(
            {
                "type": "bar",
                "name": words,
                "x": [_size(view, "rows", B) for B in view.batches],
                "y": typed(values / total),
                "customdata": typed(values),
                "marker": {"color": tint(shade, 0.75), "pattern": hatch(pattern, ink.paper, 0.3)},
                "hovertemplate": words
                + ": %{y:.0%} (%{customdata:.3g}) at B = %{x}<extra></extra>",
            }
        )
    return {"data": traces, "layout": layout}


def direction_figure(
    view: NoiseView, samples: int, batch: int, ink: Ink, height: int = 260
) -> dict:
    """How well one estimate of the gradient points where the full one does, group by group."""
    place = view.samples.index(samples), view.batches.index(batch)
    layout = base_layout(ink, height) | {"showlegend": False}
    title = "cosine with the full gradient (1: the same direction)"
    layout["xaxis"] = labelled_axis(ink, title, range=[-1.05, 1.05], zeroline=True)
    layout["xaxis"]["zerolinecolor"] = ink.data
    layout["yaxis"] = labelled_axis(ink, "", autorange="reversed")
    values = [float(g.cosine[place]) for g in view.gradients]
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "cosine",
        "x": values,
        "y": [g.group for g in view.gradients],
        "text": [f"{value:.2f}" for value in values],
        "textfont": {"color": ink.text},
        "customdata": [f"{g.norm:.3g}" for g in view.gradients],
        "marker": {"color": [DEEP, *[tint(DEEP, 0.5)] * (len(values) - 1)]},
        "hovertemplate": "%{y}: %{x:.3f}; full gradient's length %{customdata}<extra></extra>",
    }
    return {"data": [bars], "layout": layout}


def alone_figure(answer: RowAlone, ink: Ink, height: int = 240) -> dict:
    """A row's sampled marginals in every layer, asked alone (circles) and among all (crosses)."""
    layout = base_layout(ink, height)
    L = len(answer.alone)
    layout["xaxis"] = labelled_axis(
        ink,
        "",
        tickvals=list(range(L)),
        ticktext=[f"layer {l + 1}" for l in range(L)],
        range=[-0.6, L - 0.4],
    )
    layout["yaxis"] = labelled_axis(ink, "first output, mean ± 2σ")
    traces = []
    for name, layers, mark, shade, size in (
        ("alone", answer.alone, "circle-open", DEEP, 11),
        ("among all rows", answer.among, "x-thin-open", SINGLE, 8),
    ):
        S = [len(mean) for mean, _ in layers]
        places = [
            l + np.linspace(-0.3, 0.3, n) if n > 1 else np.array([float(l)])
            for l, n in enumerate(S)
        ]
        means, sds = (np.concatenate([one[i][:, 0] for one in layers]) for i in (0, 1))
        bar, thickness = (DRAW, 3) if name == "alone" else (shade, 1)
        traces.append(
            scatter(
                np.concatenate(places),
                means,
                name,
                {"symbol": mark, "color": shade, "size": size},
                name + ": %{y:.6g}",
                error_y=error_bars(2 * sds, tint(bar, 0.6), thickness),
            )
        )
    return {"data": traces, "layout": layout}


def _relative(noise: GradientNoise) -> np.ndarray:
    """√(variance summed over parameters) ÷ the gradient's length (A, C)."""
    return np.sqrt(np.maximum(noise.total, 1e-300)) / max(noise.norm, 1e-300)


def _size(view: NoiseView, by: str, value: int) -> str:
    return f"all {value}" if by != "samples" and value == view.batches[-1] else str(value)
