"""Pictures of the predictive mixture: at one input, along all of them, and held to its word."""

import numpy as np

from dgp_core.live.views.mixture import (
    Along,
    Calibration,
    Honesty,
    Measure,
    MixtureView,
    Side,
    VarianceSplit,
)
from dgp_core.tables.plain import plain
from pages.figures.marks import (
    band,
    base_layout,
    curve,
    evenly,
    frame,
    hatch,
    labelled_axis,
    line,
    saying,
    scatter,
    steady,
    typed,
)
from pages.figures.palette import DEEP, DRAW, SINGLE, Ink, tint
from pages.figures.table import MODELS

MEASURES = {
    "total_variation": "total variation (0 to 1)",
    "wasserstein": "Wasserstein, in units of",
}
"""What a measure's axis says; the second needs y's name."""

PARTS = (
    ("between", "between sample paths", "", 0.85),
    ("within", "within the last layer", "/", 0.5),
    ("noise", "noise", ".", 0.22),
)
"""Of the variance: field, words, pattern and opacity."""

MOST_BARS = 40
"""Counts that are shown one bar each; the others have next to no probability."""


def mixture_figure(view: MixtureView, ink: Ink, height: int = 360) -> dict:
    """Components thin, the mixture thick, its Gaussian summary dotted, the rival dashed; or bars.

    Components are drawn taller than their share, by a factor that the legend states.
    """
    if view.kind == "bars":
        return _bars_figure(view, ink, height)
    layout = base_layout(ink, height)
    y = plain(view.y_name)
    layout["xaxis"] = labelled_axis(ink, _value_title(view, y), range=_stretch(view))
    layout["yaxis"] = labelled_axis(ink, "density", rangemode="tozero")
    assert view.deep.summary is not None
    top = max(float(view.deep.density.max()), float(view.rival.density.max()))
    S = len(view.deep.components)
    share = view.deep.components / S
    taller = _round_factor(0.6 * top / float(share.max()))
    words = f"{S} components of weight 1/{S}, drawn {taller} times as tall"
    traces = [
        {
            **_outlines(view.y, taller * share),
            "name": words if S > 1 else "one component",
            "line": {"color": tint(DRAW, 0.6), "width": 1},
        },
        *_pair(view, "density", y),
        _curve(view, view.deep.summary) | _summary(),
    ]
    layout["yaxis"]["range"] = steady(0.0, 1.05 * top)
    return {"data": traces, "layout": layout}


def _round_factor(most: float) -> int:
    """1, 2 or 5 times a power of ten, at most this: it does not change with every frame."""
    power = 10 ** int(np.floor(np.log10(max(1.0, most))))
    return max(k * power for k in (1, 2, 5) if k * power <= max(1.0, most))


def cdf_figure(view: MixtureView, ink: Ink, height: int = 280) -> dict:
    """The share of the mixture below each y, beside its Gaussian summary's and the rival's."""
    if view.deep.cdf is None:
        return saying("Classes have no order,<br>so nothing lies below another.", ink, height)
    layout = base_layout(ink, height)
    y = plain(view.y_name)
    layout["xaxis"] = labelled_axis(ink, _value_title(view, y), range=_stretch(view))
    layout["yaxis"] = labelled_axis(ink, "cumulative probability", range=[-0.02, 1.02])
    traces = _pair(view, "cdf", y)
    if view.deep.summary_cdf is not None:
        traces.append(_curve(view, view.deep.summary_cdf) | _summary())
    if view.kind == "bars":
        for trace in traces:
            trace["line"]["shape"] = "hv"
    return {"data": traces, "layout": layout}


def split_figure(view: MixtureView, ink: Ink, height: int = 170) -> dict:
    """Where the variance at this input comes from, in both models."""
    layout = base_layout(ink, height) | {"barmode": "stack"}
    layout["xaxis"] = labelled_axis(ink, _variance_title(view.y_name), rangemode="tozero")
    layout["yaxis"] = labelled_axis(ink, "", autorange="reversed")
    traces = []
    for field, words, pattern, opacity in PARTS:
        for (name, colour, _), side in zip(MODELS, (view.deep, view.rival), strict=True):
            value = float(getattr(side.split, field))
            traces.append(
                {
                    "type": "bar",
                    "orientation": "h",
                    "name": words,
                    "legendgroup": field,
                    "showlegend": name == "deep",
                    "x": [value],
                    "y": [name],
                    "text": [f"{value / (float(side.split.total) or 1.0):.0%}"],
                    "textfont": {"color": ink.text},
                    "marker": {
                        "color": tint(colour, opacity),
                        "pattern": hatch(pattern, ink.text),
                    },
                    "hovertemplate": "%{y}: " + words + " %{x:.3g} (%{text})<extra></extra>",
                }
            )
    return {"data": traces, "layout": layout}


def disagreement_figure(along: Along, measure: Measure, ink: Ink, height: int = 260) -> dict:
    """How far the models' predictive distributions are apart, and where most."""
    layout = base_layout(ink, height)
    values, best = along.values(measure), along.most(measure)
    title = MEASURES[measure] + ("" if measure == "total_variation" else f" {plain(along.y_name)}")
    top = 1.02 if measure == "total_variation" else 1.08 * float(values.max() or 1.0)
    layout["yaxis"] = labelled_axis(ink, title, range=[0.0, top])
    layout["yaxis"]["title"]["font"] = {"size": 11}
    if along.x is None:
        order = np.argsort(-values)
        x, words = np.arange(1, len(values) + 1), _row_words(along, order)
        layout["xaxis"] = labelled_axis(
            ink, "rows and places beside them, the farthest apart first"
        )
        values, best = values[order], 0
    else:
        x, words = along.x, None
        layout["xaxis"] = labelled_axis(ink, plain(along.x_name), range=[x[0], x[-1]])
    between = curve(x, values, "between deep and single layer", ink.text, 2, "%{y:.3g} at %{x:.4g}")
    if words is not None:
        between |= {"text": words, "hovertemplate": "%{y:.3g} at %{text}<extra></extra>"}
    place = plain(along.x_name) + f" = {x[best]:.4g}" if along.x is not None else "this row"
    edge = {"color": ink.paper, "width": 1}
    most = scatter(
        [float(x[best])],
        [float(values[best])],
        f"most: {values[best]:.3g} at {place}",
        {"symbol": "diamond", "size": 12, "color": SINGLE, "line": edge},
        "farthest apart: %{y:.3g}",
    )
    return {"data": [between, most], "layout": layout}


def variance_figure(along: Along, ink: Ink, height: int = 260) -> dict:
    """The deep model's variance, stacked by where it comes from, and the rival's total."""
    layout = base_layout(ink, height)
    layout["yaxis"] = labelled_axis(ink, _variance_title(along.y_name), rangemode="tozero")
    if along.x is None:
        order = np.argsort(-along.deep.total)
        x = np.arange(1, len(order) + 1)
        layout["xaxis"] = labelled_axis(ink, "rows and places beside them, most variance first")
        words = _row_words(along, order)
    else:
        order, x, words = np.arange(len(along.x)), along.x, None
        layout["xaxis"] = labelled_axis(ink, plain(along.x_name), range=[x[0], x[-1]])
    traces, base = [], np.zeros(len(x))
    most = max(float(along.deep.total.max()), float(np.median(along.rival.total)))
    layout["yaxis"]["range"] = [0.0, 1.15 * most]  # a rival that is far wider leaves the picture
    for field, name, shape, opacity in reversed(PARTS):  # noise lies at the bottom
        part = getattr(along.deep, field)[order]
        shade = band(x, base, base + part, name, tint(DEEP, opacity))
        pattern = {"shape": shape, "fillmode": "overlay", "fgcolor": tint(DEEP, 0.9)}
        traces.append(shade | {"fillpattern": pattern | {"solidity": 0.2}})
        base = base + part
    for name, split, colour, dash in (
        ("total, deep", along.deep, DEEP, "solid"),
        ("total, single layer", along.rival, SINGLE, "dash"),
    ):
        trace = curve(
            x, split.total[order], name, colour, 2, name + " %{y:.3g} at %{x:.4g}", dash=dash
        )
        if words is not None:
            trace |= {"text": words, "hovertemplate": name + " %{y:.3g} at %{text}<extra></extra>"}
        traces.append(trace)
    return {"data": traces, "layout": layout}


def pit_figure(check: Calibration, ink: Ink, height: int = 260) -> dict:
    """PIT histograms on held-out rows: flat where a model is calibrated.

    For classes: how often each probability was given.
    """
    layout = base_layout(ink, height) | {"barmode": "group", "bargap": 0.12}
    middle = 0.5 * (check.edges[:-1] + check.edges[1:])
    pit = check.kind == "pit"
    title = "quantile of the observed value (PIT)" if pit else "probability given to a class"
    layout["xaxis"] = labelled_axis(ink, title, range=[0, 1])
    layout["yaxis"] = labelled_axis(ink, f"held-out rows (of {check.n_rows:,})" if pit else "times")
    traces = []
    if pit:
        mean, low, high = check.expected
        ends, words = np.array([0.0, 1.0]), "95 % of a calibrated model's bars"
        traces += [
            band(ends, np.full(2, low), np.full(2, high), words, tint(ink.data, 0.18)),
            curve(ends, np.full(2, mean), "flat: calibrated", ink.data, 1.5, dash="dot"),
        ]
    for (name, colour, _), side in zip(MODELS, (check.deep, check.rival), strict=True):
        traces.append(
            {
                "type": "bar",
                "name": name,
                "x": typed(middle),
                "y": typed(side.counts),
                "marker": _bar(name, colour, ink),
                "hovertemplate": name + ": %{y:,.0f} between %{customdata}<extra></extra>",
                "customdata": [
                    f"{a:.1f} and {b:.1f}"
                    for a, b in zip(check.edges[:-1], check.edges[1:], strict=True)
                ],
            }
        )
    return {"data": traces, "layout": layout}


def coverage_figure(check: Calibration, ink: Ink, height: int = 260) -> dict:
    """Observed against nominal coverage; for classes, observed frequency against probability."""
    layout = base_layout(ink, height)
    pit = check.kind == "pit"
    side_words = (
        ("nominal coverage of a central interval", "observed coverage")
        if pit
        else ("probability given to a class", "observed frequency")
    )
    layout["xaxis"] = labelled_axis(ink, side_words[0], range=[0, 1.02], tickformat=".0%")
    layout["yaxis"] = labelled_axis(ink, side_words[1], range=[-0.02, 1.04], tickformat=".0%")
    ends = np.array([0.0, 1.0])
    traces = [curve(ends, ends, "calibrated", ink.data, 1.5, dash="dot")]
    for (name, colour, dash), side in zip(MODELS, (check.deep, check.rival), strict=True):
        traces.append(_coverage(name, colour, dash, side))
    return {"data": traces, "layout": layout}


def _coverage(name: str, colour: str, dash: str, side: Honesty) -> dict:
    there = np.isfinite(side.observed)
    return {
        **line(typed(side.predicted[there]), typed(side.observed[there])),
        "mode": "lines+markers",
        "name": name,
        "line": {"color": colour, "width": 2, "dash": dash},
        "marker": {"symbol": "circle" if name == "deep" else "diamond", "size": 7},
        "hovertemplate": name + ": %{y:.0%} where %{x:.0%} is nominal<extra></extra>",
    }


def _bar(name: str, colour: str, ink: Ink) -> dict:
    """The rival's bars are hatched as well as orange."""
    if name == "deep":
        return {"color": colour}
    return {"color": colour, "pattern": hatch("/", ink.paper, 0.3)}


def _bars_figure(view: MixtureView, ink: Ink, height: int) -> dict:
    layout = base_layout(ink, height) | {"barmode": "group", "bargap": 0.2}
    y = plain(view.y_name)
    shown = slice(0, _last_bar(view) + 1)
    labels = [plain(label, 24) for label in view.labels[shown]]
    layout["xaxis"] = labelled_axis(ink, y, type="category")
    layout["yaxis"] = labelled_axis(ink, "probability", rangemode="tozero")
    traces = []
    for (name, colour, _), side in zip(MODELS, (view.deep, view.rival), strict=True):
        low, high = np.quantile(side.components[:, shown], [0.05, 0.95], axis=0)
        p = side.density[shown]
        many = len(side.components) > 1
        traces.append(
            {
                "type": "bar",
                "name": name + (", with the middle 90 % of its sample paths" if many else ""),
                "x": labels,
                "y": typed(p),
                "marker": _bar(name, colour, ink),
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "visible": many,
                    "array": typed(np.maximum(high - p, 0.0)),
                    "arrayminus": typed(np.maximum(p - low, 0.0)),
                    "color": ink.text,
                    "thickness": 1.2,
                    "width": 3,
                },
                "hovertemplate": name + ": %{y:.3g} for %{x}<extra></extra>",
            }
        )
    return {"data": traces, "layout": layout}


def _last_bar(view: MixtureView) -> int:
    """The last bar worth showing: all classes, or counts up to where little is left."""
    if view.deep.cdf is None or view.rival.cdf is None:
        return len(view.y) - 1
    both = np.minimum(view.deep.cdf, view.rival.cdf)
    return int(min(np.searchsorted(both, 0.998), len(view.y) - 1, MOST_BARS - 1))


MOST_PLACES = 500
"""Points along a curve over y."""

OUTLINE = 48
"""Points along one component."""


def _curve(view: MixtureView, values: np.ndarray) -> dict:
    """A curve over y, thinned: places lie close together where there is mass, and stay so."""
    places = evenly(len(view.y), MOST_PLACES)
    return line(typed(view.y[places]), typed(values[places]))


def _summary() -> dict:
    """How the Gaussian summary is drawn; a dict of its own, since a curve may become stairs."""
    return {
        "name": "Gaussian of the same mean and standard deviation",
        "line": {"color": tint(DEEP, 0.75), "width": 1.6, "dash": "dot"},
        "hovertemplate": "Gaussian summary %{y:.3g} at %{x:.4g}<extra></extra>",
    }


def _outlines(y: np.ndarray, curves: np.ndarray) -> dict:
    """Many narrow curves (S, H) as one trace, each only where it can be seen."""
    xs, ys = [], []
    for one in curves:
        seen = np.flatnonzero(one > 2e-3 * one.max())
        places = seen[evenly(len(seen), OUTLINE)]
        xs += [y[places], [np.nan]]
        ys += [one[places], [np.nan]]
    return line(typed(np.concatenate(xs)), typed(np.concatenate(ys))) | {"hoverinfo": "skip"}


def _stretch(view: MixtureView) -> list[float]:
    """The run's own stretch of y, cut to where either model has some probability."""
    if view.kind == "bars":
        return [-0.5, float(view.y[_last_bar(view)]) + 0.5]

    def ends(side: Side) -> list[float]:
        assert side.cdf is not None
        inside = (side.cdf > 5e-4) & (side.cdf < 1 - 5e-4)
        return [float(view.y[inside].min()), float(view.y[inside].max())] if inside.any() else []

    found = np.array(ends(view.deep) + ends(view.rival) or list(view.frame))
    low, high = steady(*frame(found, 0.04))
    return [max(low, view.frame[0]), min(high, view.frame[1])]


def _pair(view: MixtureView, field: str, y: str) -> list[dict]:
    """Both models' density or cdf; the rival first, so that the deep one lies on top."""
    traces = []
    for (name, colour, dash), side in zip(MODELS, (view.deep, view.rival), strict=True):
        traces.append(
            {
                **_curve(view, getattr(side, field)),
                "name": {"deep": "deep: the mixture"}.get(name, name),
                "line": {"color": colour, "width": 3 if name == "deep" else 2, "dash": dash},
                "hovertemplate": name + " %{y:.3g} at " + y + " = %{x:.4g}<extra></extra>",
            }
        )
    return traces[::-1]


def _value_title(view: MixtureView, y: str) -> str:
    if view.kind == "bars" or view.noise_included:
        return y
    if view.frame == (0.0, 1.0):
        return f"probability of {y}"
    return f"{y} without noise"


def _variance_title(y_name: str) -> str:
    return f"variance of {plain(y_name)} (its units, squared)"


def _row_words(along: Along, order: np.ndarray) -> list[str]:
    """A row's inputs in words, the first few of them."""
    names = [plain(name, 20) for name in along.input_names[:6]]
    more = ", …" if len(along.input_names) > 6 else ""
    return [
        ", ".join(f"{name} {value:.4g}" for name, value in zip(names, along.rows[i], strict=False))
        + more
        for i in order
    ]


def split_words(split: VarianceSplit) -> str:
    """The split at one input as a sentence."""
    total = float(split.total) or 1.0
    between, within, noise = (float(p) / total for p in (split.between, split.within, split.noise))
    return (
        f"{between:.0%} of the variance lies between sample paths, {within:.0%} within the last "
        f"layer, and {noise:.0%} is noise."
    )
