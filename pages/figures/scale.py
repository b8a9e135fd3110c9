"""What a step costs as rows grow, and what depth buys: lessons 12 and 13."""

from collections.abc import Mapping, Sequence

import numpy as np

from datasets.printed import SYSTEMS, Printed
from pages.figures.marks import base_layout, curve, frame, labelled_axis, scatter
from pages.figures.palette import DEEP, SINGLE, Ink

WAYS = {
    "exact": ("exact GP, N³", SINGLE, "dash"),
    "full": ("full bound, N M² ΣD", "#CC79A7", "dot"),
    "minibatch": ("minibatch, B M² ΣD", DEEP, "solid"),
}
"""Three ways to take a step: words, colour and stroke."""

LARGEST = 1e9


def operations(N: float | np.ndarray, M: int, widths: int, B: int) -> dict[str, np.ndarray]:
    """Multiplications of a step, to leading order; `widths` is D¹ + … + D^L, B at most N."""
    N = np.asarray(N, float)
    row = float(M**2 * widths)
    return {"exact": N**3, "full": N * row, "minibatch": np.minimum(N, B) * row}


def cost_figure(N: int, M: int, widths: int, B: int, ink: Ink, height: int = 360) -> dict:
    """The cost of a step by the number of rows, both axes logarithmic, and N's place in it."""
    layout = base_layout(ink, height)
    grid = np.logspace(2, np.log10(LARGEST), 71)
    costs = operations(grid, M, widths, B)
    layout["xaxis"] = labelled_axis(
        ink, "rows N (log scale)", type="log", range=[1.9, 9.1], exponentformat="power", dtick=1
    )
    layout["yaxis"] = labelled_axis(
        ink, "operations a step (log scale)", type="log", exponentformat="power", dtick=3
    )
    layout["yaxis"]["range"] = [5.0, 27.5]
    traces = []
    for way, (words, shade, dash) in WAYS.items():
        traces.append(
            curve(
                grid, costs[way], words, shade, 2.4, words + ": %{y:.2g} at N = %{x:.2g}", dash=dash
            )
        )
    here = operations(N, M, widths, B)
    edge = {"width": 2.5, "color": [shade for _, shade, _ in WAYS.values()]}
    mark = {"symbol": "diamond", "size": 11, "color": ink.paper, "line": edge}
    costs_here = [float(here[way]) for way in WAYS]
    traces.append(scatter([N] * len(WAYS), costs_here, "your N", mark, "%{y:.2g} operations"))
    return {"data": traces, "layout": layout}


def systems_figure(
    paper: Mapping[str, Printed],
    ours: Mapping[str, float],
    title: str,
    ink: Ink,
    least: bool = False,
) -> dict:
    """A score of every system, the best on top (the least, or the largest): diamonds are printed,
    dots were measured here."""
    both: dict[str, float] = {system: value.value for system, value in paper.items()}
    for system, value in ours.items():
        both.setdefault(system, value)
    seen = sorted(both, key=both.__getitem__, reverse=not least)
    layout = base_layout(ink, 110 + 26 * len(seen))
    values = [v.value for v in paper.values()] + list(ours.values())
    layout["xaxis"] = labelled_axis(ink, title, range=frame(np.array(values), 0.08))
    layout["yaxis"] = labelled_axis(
        ink,
        "",
        tickvals=list(range(len(seen))),
        ticktext=[SYSTEMS[system] for system in seen],
        range=[len(seen) - 0.4, -0.6],
    )
    traces = []
    for name, of, marker in (
        (
            "printed in the paper",
            [(v.value, seen.index(s)) for s, v in paper.items()],
            {"symbol": "diamond", "color": ink.paper, "line": {"width": 2, "color": SINGLE}},
        ),
        ("measured here", [(v, seen.index(s)) for s, v in ours.items()], {"color": DEEP}),
    ):
        if of:
            xs, ys = ([place[i] for place in of] for i in (0, 1))
            traces.append(scatter(xs, ys, name, {"size": 11, **marker}, name + ": %{x:.4g}"))
    return {"data": traces, "layout": layout}


def markdown_table(lines: Sequence[Sequence[str]]) -> str:
    """A table whose first column is words and the others numbers."""
    rule = [":--"] + ["--:"] * (len(lines[0]) - 1)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (lines[0], rule, *lines[1:]))
