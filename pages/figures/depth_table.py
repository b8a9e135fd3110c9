"""Held-out scores by depth, as the benchmark measured them: lesson 8."""

from collections.abc import Sequence

import numpy as np

from pages.figures.marks import base_layout, frame, labelled_axis, line, typed
from pages.figures.palette import DEEP, SINGLE, Ink, tint

MODELS = {"linear": "Linear", "sgp": "One layer", "dgp2": "Two layers", "dgp3": "Three layers"}
"""By the benchmark's names, from the simplest."""


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
    layout["xaxis"] = labelled_axis(ink, "held-out log-likelihood (nats per row)", range=reach)
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
    """What two and three layers gain on one, in nats per row, on each split that both have."""
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
