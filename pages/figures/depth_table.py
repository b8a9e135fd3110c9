"""Held-out scores by depth: as the benchmark measured them, and as the paper prints them."""

from collections.abc import Mapping, Sequence

import numpy as np

from datasets.printed import Printed, Score, printed
from pages.figures.marks import base_layout, curve, frame, labelled_axis, scatter
from pages.figures.palette import DEEP, SINGLE, Ink, tint

MODELS = {
    "linear": "Linear",
    "sgp": "One layer",
    "sgp500": "One layer, 500 points",
    "aepdgp2": "Two layers by EP",
    "dgp2": "Two layers",
    "dgp3": "Three layers",
    "dgp4": "Four layers",
    "dgp5": "Five layers",
    "pbp": "Bayesian network",
}
"""By the benchmark's names, from the simplest; the paper's AEPDGP 2 is "by EP", PBP the network."""

SHOW = {"both": "Ours and the paper's", "ours": "Ours", "paper": "The paper's"}
"""Whose numbers a picture or a table shows."""

UNKNOWN = "–"


def summary(rows: Sequence[dict], name: str, score: str) -> dict[str, tuple[float, float, int]]:
    """Mean, standard error and number of splits of a score, by model, on one set."""
    found = {}
    for model in MODELS:
        values = [row[score] for row in rows if (row["set"], row["model"]) == (name, model)]
        if values:
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
            found[model] = (float(np.mean(values)), float(error), len(values))
    return found


def depth_figure(rows: Sequence[dict], name: str, show: str, ink: Ink) -> dict:
    """Held-out log-likelihood by model on one set: a dot a split, their mean, the paper's ± 1
    standard error. A model that was not run here is marked as printed."""
    means = summary(rows, name, "loglik") if show != "paper" else {}
    paper = printed(name, "loglik") if show != "ours" else {}
    seen = [model for model in MODELS if model in means or model in paper]
    layout = base_layout(ink, 84 + 26 * len(seen))
    own = [
        (row["loglik"], seen.index(row["model"]))
        for row in rows
        if row["set"] == name and row["model"] in means
    ]
    known = {model: value for model, value in paper.items() if model in MODELS}
    ends = [v.value + side * (v.error or 0.0) for v in known.values() for side in (-1, 1)]
    reach = frame(np.array([x for x, _ in own] + ends), 0.06)
    layout["xaxis"] = labelled_axis(ink, "log-likelihood (nats per row)", range=reach)
    names = [MODELS[m] + ("" if m in means or show == "paper" else " (printed)") for m in seen]
    layout["yaxis"] = labelled_axis(
        ink,
        "",
        tickvals=list(range(len(seen))),
        ticktext=names,
        range=[len(seen) - 0.4, -0.6],
    )
    bars = [
        (means[m][0], y + end, end) for y, m in enumerate(seen) if m in means for end in (-0.3, 0.3)
    ]
    traces = [
        _marks(own, "one split", {"color": tint(DEEP, 0.45), "size": 7}),
        _segments([bars[i : i + 2] for i in range(0, len(bars), 2)], "mean", DEEP, 3.0),
        _segments(
            [
                [(v.value + side * (v.error or 0.0), seen.index(m), 0.0) for side in (-1, 1)]
                for m, v in known.items()
            ],
            "its standard error",
            SINGLE,
            2.0,
        ),
        _marks(
            [(v.value, seen.index(m)) for m, v in known.items()],
            "the paper",
            {
                "color": ink.paper,
                "symbol": "diamond",
                "size": 10,
                "line": {"width": 2, "color": SINGLE},
            },
        ),
    ]
    shown = [
        trace for trace, places in zip(traces, (own, bars, known, known), strict=True) if places
    ]
    return {"data": shown, "layout": layout}


def _segments(ends: list[list[tuple]], name: str, colour: str, width: float) -> dict:
    """Strokes from (x, y) to (x, y), one a row."""
    places = [(x, y) for pair in ends for x, y in (*[e[:2] for e in pair], (np.nan, np.nan))]
    xs, ys = np.array(places).T if places else np.zeros((2, 0))
    return curve(xs, ys, name, colour, width, name + " %{x:.3f}")


def _marks(places: list[tuple[float, int]], name: str, marker: dict) -> dict:
    return scatter([x for x, _ in places], [y for _, y in places], name, marker, name + " %{x:.3f}")


def number(value: float | None, error: float | None = None) -> str:
    """As many digits as the paper prints, and the standard error in brackets."""
    if value is None:
        return UNKNOWN
    digits = 3 if abs(value) < 0.1 else 2
    known = error is not None and np.isfinite(error)
    return (f"{value:.{digits}f}" + (f" ({error:.{digits}f})" if known else "")).replace("-", "−")


def beside(
    ours: Mapping[str, Mapping[str, str]], name: str, titles: Mapping[str, str], show: str
) -> list[list[str]]:
    """A header, and a line for every model that is ours or the paper's: log-likelihood and RMSE.

    `ours` gives cells by model, then "loglik" or "rmse".
    """
    both: dict[Score, dict[str, Printed]] = {
        "loglik": printed(name, "loglik"),
        "rmse": printed(name, "rmse"),
    }
    show_ours, show_paper = show != "paper", show != "ours"
    lines = [["Model"]]
    for words in ("log-likelihood", "RMSE"):
        lines[0] += [f"Ours: {words}"] * show_ours + [f"The paper's: {words}"] * show_paper
    for model, title in titles.items():
        known = show_paper and any(model in scores for scores in both.values())
        if not known and not (show_ours and model in ours):
            continue
        mark = " (printed)" if model not in ours and show_ours else ""
        line = [title + mark]
        for score in both:
            value = both[score].get(model)
            line += [ours.get(model, {}).get(score, UNKNOWN)] * show_ours
            line += [UNKNOWN if value is None else number(*value)] * show_paper
        lines.append(line)
    return lines


def against_one_layer(rows: Sequence[dict], name: str) -> dict[str, dict[int, float]]:
    """What two and three layers gain on one, in nats per row, on each split that both have."""
    scores = {(r["model"], r["split"]): r["loglik"] for r in rows if r["set"] == name}
    found = {
        model: {
            split: value - scores["sgp", split]
            for (own, split), value in scores.items()
            if own == model and ("sgp", split) in scores
        }
        for model in ("dgp2", "dgp3", "dgp4", "dgp5")
    }
    return {model: gains for model, gains in found.items() if gains}
