"""Figures of "Your data": calibration, residuals, importance, responses, and one prediction.

Figures are plain dicts in Plotly's own form, on one pair of axes with numbers along both, so that
the report can draw them as SVG too. Names come from a visitor's file: `plain` makes them text.
"""

from collections.abc import Sequence

import numpy as np

from dgp_core.evaluation import diagnostics
from dgp_core.evaluation.comparison import ScoreCard
from dgp_core.evaluation.explain import Importance, Map, Relevance, Response
from dgp_core.gp.data import counted
from dgp_core.tables.plain import plain
from pages.figures.marks import evenly, plot, scatter
from pages.figures.palette import DEEP, DRAW, INDUCING, LIGHT, SINGLE, Ink, tint

MOST_DOTS = 1500
"""Of the rows in a figure; more are thinned evenly."""
MOST_BARS = 20
HEIGHT = 320
LOOKS = {
    "deep": (DEEP, "circle", "solid"),
    "single": (SINGLE, "diamond", "dash"),
    "linear": ("#7A6A9B", "square", "dot"),
    "exact": (INDUCING, "triangle-up", "dashdot"),
}
"""A colour, a mark and a stroke for each model, never a colour alone."""
CLASS_LOOKS = (
    (DEEP, "solid"),
    (SINGLE, "dash"),
    (INDUCING, "dot"),
    ("#CC79A7", "dashdot"),
    (DRAW, "longdash"),
    ("#E69F00", "longdashdot"),
)


def look_of(model: str) -> tuple[str, str, str]:
    return LOOKS.get(model, LOOKS["deep"])


def calibration_figure(card: ScoreCard, ink: Ink, height: int = HEIGHT) -> dict:
    """Numbers: a PIT histogram of ten bars, level if calibrated.

    Classes: a reliability diagram, on the diagonal if calibrated.
    """
    return (
        _reliability(card, ink, height)
        if card.forecast.probabilities is not None
        else _pit(card, ink, height)
    )


def _pit(card: ScoreCard, ink: Ink, height: int) -> dict:
    seen = diagnostics.pit_histogram(card)
    colour, _, _ = look_of(card.model)
    middle = 0.5 * (seen.edges[1:] + seen.edges[:-1])
    layout = plot(ink, height, "quantile of the observed value (PIT)", "share of rows")
    layout["xaxis"] |= {"range": [0, 1], "tickvals": [0, 0.25, 0.5, 0.75, 1]}
    layout["yaxis"]["range"] = [0, 1.15 * max(float(seen.shares.max()), seen.high)]
    edge = np.array([0.0, 1.0])
    return {
        "data": [
            {
                "type": "bar",
                "name": "held-out rows",
                "x": middle,
                "y": seen.shares,
                "width": np.diff(seen.edges) * 0.92,
                "marker": {"color": tint(colour, 0.75)},
                "hovertemplate": "%{y:.1%} of rows<extra></extra>",
            },
            _band(edge, [seen.low] * 2, [seen.high] * 2, "95 % of a calibrated model's bars", ink),
            _line(edge, np.full(2, 0.1), "calibrated", ink.text, "dot", 1.5),
        ],
        "layout": layout,
    }


def _reliability(card: ScoreCard, ink: Ink, height: int) -> dict:
    seen = diagnostics.reliability(card)
    held = seen.counts > 0
    colour, mark, _ = look_of(card.model)
    p = seen.predicted[held]
    of = plain(card.classes[1], 30) if len(card.classes) == 2 else "its most probable class"
    layout = plot(ink, height, f"probability given to {of}", "share that came true")
    layout["xaxis"]["range"] = layout["yaxis"]["range"] = [-0.02, 1.02]
    return {
        "data": [
            _line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "calibrated", ink.text, "dot", 1.5),
            scatter(
                p,
                seen.observed[held],
                "held-out rows in ten bins, ± 2 standard errors",
                {"color": colour, "size": 9, "symbol": mark},
                "predicted %{x:.1%}, came true %{y:.1%}, %{text}",
                packed=False,
                error_y=_bars(2 * seen.error[held], colour),
                text=[counted(int(n), "row") for n in seen.counts[held]],
            ),
        ],
        "layout": layout,
    }


def agreement_figure(card: ScoreCard, y_name: str, ink: Ink, height: int = HEIGHT) -> dict:
    """Predicted against observed, with 90 % intervals; for classes, how often each is which."""
    if card.forecast.probabilities is not None:
        return _confusion(card, ink, height)
    seen = diagnostics.predicted_observed(card)
    rows = evenly(len(seen.observed), MOST_DOTS)
    colour, mark, _ = look_of(card.model)
    both = np.concatenate([seen.observed, seen.mean])
    both = both[np.isfinite(both)]
    ends = np.array([both.min(), both.max()])
    room = 0.05 * (float(np.ptp(ends)) or 1.0)
    layout = plot(ink, height, f"observed {plain(y_name, 40)}", f"predicted {plain(y_name, 40)}")
    layout["xaxis"]["range"] = layout["yaxis"]["range"] = [ends[0] - room, ends[1] + room]
    mean, low, high = seen.mean[rows], seen.low[rows], seen.high[rows]
    return {
        "data": [
            _line(ends, ends, "perfect", ink.text, "dot", 1.5),
            {
                "type": "scatter",
                "mode": "markers",
                "name": "mean and 90 % interval of a held-out row",
                "x": seen.observed[rows],
                "y": mean,
                "error_y": {
                    **_bars(np.maximum(high - mean, 0), tint(colour, 0.25)),
                    "arrayminus": np.maximum(mean - low, 0),
                    "symmetric": False,
                },
                "marker": {"color": tint(colour, 0.75), "size": 6, "symbol": mark},
                "text": [f"row {r + 1:,}" for r in seen.rows[rows]],
                "hovertemplate": "%{text}: observed %{x:.4g}, predicted %{y:.4g}<extra></extra>",
            },
        ],
        "layout": layout,
    }


def _confusion(card: ScoreCard, ink: Ink, height: int) -> dict:
    counts = diagnostics.confusion(card)
    labels = [plain(c, 20) for c in card.classes] or [str(i) for i in range(len(counts))]
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    places = np.arange(len(labels))
    layout = plot(ink, height, "predicted", "observed")
    layout["xaxis"] |= {"tickvals": places, "ticktext": labels}
    layout["yaxis"] |= {"tickvals": places, "ticktext": labels, "autorange": "reversed"}
    few = len(labels) <= 12
    return {
        "data": [
            {
                "type": "heatmap",
                "name": "rows",
                "x": places,
                "y": places,
                "z": share,
                "zmin": 0,
                "zmax": 1,
                "colorscale": [[0, ink.paper], [1, DEEP]],
                "showscale": False,
                "customdata": counts,
                "text": [[f"{n:,}" if few else "" for n in line] for line in counts],
                "texttemplate": "%{text}",
                "hovertemplate": "observed %{y}, predicted %{x}: %{customdata} rows<extra></extra>",
            }
        ],
        "layout": layout | {"showlegend": False},
    }


def residual_figure(card: ScoreCard, y_name: str, ink: Ink, height: int = HEIGHT) -> dict:
    """Standardised residuals: standard Gaussian at every prediction, if the model is calibrated."""
    seen = diagnostics.residuals(card)
    rows = evenly(len(seen.predicted), MOST_DOTS)
    colour, mark, _ = look_of(card.model)
    x = seen.predicted
    ends = np.array([x.min(), x.max()])
    layout = plot(ink, height, f"predicted {plain(y_name, 40)}", "residual / predicted σ")
    worst = max(3.2, 1.1 * float(np.abs(seen.standardised).max()))
    layout["yaxis"]["range"] = [-worst, worst]
    return {
        "data": [
            _band(ends, [-1.96] * 2, [1.96] * 2, "where 95 % should lie", ink),
            _line(ends, np.zeros(2), "none", ink.text, "dot", 1.5),
            scatter(
                x[rows],
                seen.standardised[rows],
                "held-out rows",
                {"color": tint(colour, 0.75), "size": 6, "symbol": mark},
                "%{text}: %{y:.2f} σ at %{x:.4g}",
                packed=False,
                text=[f"row {r + 1:,}" for r in seen.rows[rows]],
            ),
        ],
        "layout": layout,
    }


def importance_figure(found: Sequence[Importance], ink: Ink) -> dict:
    """The log-likelihood that held-out rows lose as each input is permuted, the largest on top."""
    shown = list(found)[:MOST_BARS]
    drops = np.array([one.drop for one in shown])
    return _bars_across(
        [one.name for one in shown],
        drops,
        np.array([2 * one.row_error if np.isfinite(one.row_error) else 0.0 for one in shown]),
        "nats per row lost, ± 2 standard errors",
        DEEP,
        ink,
    )


def relevance_figure(found: Relevance, ink: Ink) -> dict:
    """One layer's 1/lengthscale along each of its inputs, the largest as 1."""
    order = np.argsort(-found.relevance, kind="stable")[:MOST_BARS]
    return _bars_across(
        [found.names[i] for i in order],
        found.relevance[order],
        None,
        f"relevance in layer {found.layer} (1 / lengthscale)",
        INDUCING,
        ink,
    )


def _bars_across(names, values, errors, title: str, colour: str, ink: Ink) -> dict:
    places = np.arange(len(names))
    layout = plot(ink, 90 + 24 * max(len(names), 3), title, "")
    layout["yaxis"] |= {
        "tickvals": places,
        "ticktext": [plain(name, 28) for name in names],
        "autorange": "reversed",
        "showgrid": False,
    }
    layout["xaxis"] |= {"zeroline": True, "zerolinecolor": ink.text}
    layout["showlegend"] = False
    bar = {
        "type": "bar",
        "orientation": "h",
        "name": title,
        "x": values,
        "y": places,
        "width": np.full(len(names), 0.72),
        "marker": {"color": tint(colour, 0.8)},
        "hovertemplate": "%{y}: %{x:.3g}<extra></extra>",
    }
    if errors is not None:
        bar["error_x"] = _bars(errors, ink.text)
    return {"data": [bar], "layout": layout}


def response_figure(
    found: Response, y_name: str, classes: Sequence[str], ink: Ink, height: int = 260
) -> dict:
    """What the output does as one input goes over its range, every row's others as they are."""
    layout = plot(
        ink, height, plain(found.name, 40), "probability" if classes else plain(y_name, 40)
    )
    x = found.x
    if found.labels:
        layout["xaxis"] |= {"tickvals": x, "ticktext": [plain(l, 16) for l in found.labels]}
        layout["xaxis"]["range"] = [-0.5, len(x) - 0.5]
    mode = "lines+markers" if found.labels else "lines"
    traces = []
    if classes:
        shown = [1] if len(classes) == 2 else list(range(min(len(classes), len(CLASS_LOOKS))))
        for c in shown:
            colour, dash = CLASS_LOOKS[0 if len(classes) == 2 else c]
            low, high = found.quantiles[1, :, c], found.quantiles[-2, :, c]
            if len(classes) == 2:
                traces.append(_band(x, low, high, "middle half of the rows", ink, colour))
            name = plain(classes[c], 24)
            traces.append(_line(x, found.mean[:, c], name, colour, dash, 2.5, mode))
        layout["yaxis"]["range"] = [-0.02, 1.02]
    else:
        quantile = {level: found.quantiles[k, :, 0] for k, level in enumerate(found.levels)}
        traces += [
            _band(x, quantile[0.05], quantile[0.95], "90 % of new observations", ink, DEEP, 0.14),
            _band(x, quantile[0.25], quantile[0.75], "50 %", ink, DEEP, 0.24),
            *(
                _line(x, one[:, 0], "", tint(DRAW, 0.45), "solid", 1) | {"showlegend": False}
                for one in found.each[:8]
            ),
            _line(x, found.mean[:, 0], "mean over rows", DEEP, "solid", 2.8, mode),
        ]
    return {"data": traces, "layout": layout}


def two_inputs_figure(found: Map, what: str, sd: bool, ink: Ink, height: int = 380) -> dict:
    """The mean (or the standard deviation) as two inputs go over their ranges."""
    layout = plot(ink, height, plain(found.names[0], 40), plain(found.names[1], 40))
    for axis, labels in (("xaxis", found.x_labels), ("yaxis", found.y_labels)):
        if labels:
            layout[axis] |= {
                "tickvals": np.arange(len(labels)),
                "ticktext": [plain(label, 16) for label in labels],
            }
    return {
        "data": [
            {
                "type": "heatmap",
                "name": plain(what, 60),
                "x": found.x,
                "y": found.y,
                "z": found.sd if sd else found.mean,
                "colorscale": "Cividis",
                "colorbar": {"title": {"text": plain(what, 30), "side": "right"}, "thickness": 12},
                "hovertemplate": "%{x:.4g}, %{y:.4g}: %{z:.4g}<extra></extra>",
            }
        ],
        "layout": layout | {"showlegend": False},
    }


def probability_figure(classes: Sequence[str], p: np.ndarray, ink: Ink) -> dict:
    """The probability of each class for one row, the likeliest on top."""
    order = np.argsort(-p, kind="stable")[:MOST_BARS]
    names = [classes[i] for i in order]
    figure = _bars_across(names, p[order], None, "probability", DEEP, ink)
    figure["layout"]["xaxis"]["range"] = [0, 1]
    return figure


def interval_figure(columns: dict[str, float], y_name: str, ink: Ink) -> dict:
    """One row's prediction along its unit: mean, and the middle 50, 90 and 95 %."""
    layout = plot(ink, 130, plain(y_name, 40), "")
    layout["yaxis"] |= {"visible": False, "range": [-1, 1]}
    traces = []
    for low, high, opacity, name in (
        ("2.5%", "97.5%", 0.16, "95 %"),
        ("5%", "95%", 0.26, "90 %"),
        ("25%", "75%", 0.45, "50 %"),
    ):
        a, b = columns[low], columns[high]
        x, y = np.array([a, b, b, a, a]), np.array([-0.5, -0.5, 0.5, 0.5, -0.5])
        traces.append(area(x, y, name, _shade(DEEP, opacity, ink)))
    edge = {"color": ink.text, "width": 2}
    for column, name, mark, size in (
        ("50%", "median", "line-ns", 18),
        ("mean", "mean", "diamond", 9),
    ):
        if np.isfinite(columns[column]):
            at, marker = np.array([columns[column]]), {"symbol": mark, "size": size}
            marker |= {"color": ink.text, "line": edge}
            traces.append(scatter(at, np.zeros(1), name, marker, "%{x:.4g}", packed=False))
    return {"data": traces, "layout": layout}


def scored_figure(steps: Sequence[int], values: Sequence[float], title: str, ink: Ink) -> dict:
    """A held-out score at each checkpoint of a fit."""
    layout = plot(ink, 285, "step", title)
    layout["showlegend"] = False
    x, y = np.array(steps, np.float64), np.array(values, np.float64)
    curve = _line(x, y, title, DEEP, "solid", 2, "lines+markers")
    return {
        "data": [curve | {"hovertemplate": "%{y:.4g} at step %{x:,.0f}<extra></extra>"}],
        "layout": layout,
    }


def _line(x, y, name: str, colour: str, dash: str, width: float, mode: str = "lines") -> dict:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": np.ascontiguousarray(x),
        "y": np.ascontiguousarray(y),
        "line": {"color": colour, "width": width, "dash": dash},
        "marker": {"color": colour, "size": 7},
        "hoverinfo": "skip" if not name else "x+y",
    }


def _band(x, low, high, name: str, ink: Ink, colour: str = "", opacity: float = 0.18) -> dict:
    x, y = np.concatenate([x, x[::-1]]), np.concatenate([low, np.asarray(high)[::-1]])
    return area(x, y, name, _shade(colour or ink.data, opacity, ink))


def area(x: np.ndarray, y: np.ndarray, name: str, fill: str) -> dict:
    """The inside of an outline."""
    look = {"line": {"width": 0}, "fill": "toself", "fillcolor": fill, "hoverinfo": "skip"}
    return {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, **look}


def _shade(colour: str, opacity: float, ink: Ink) -> str:
    """A tint for an area: by night, it takes more of a colour to be seen."""
    return tint(colour, opacity if ink == LIGHT else round(1.8 * opacity, 3))


def _bars(sizes: np.ndarray, colour: str) -> dict:
    return {"type": "data", "array": sizes, "color": colour, "thickness": 1.2, "width": 0}
