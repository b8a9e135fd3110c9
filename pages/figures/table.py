"""Pictures of many inputs: what matters, agreement, responses, calibration, hidden layers."""

import numpy as np

from dgp_core.live.views.playground import HiddenPanel, Reliability, Response, TablePanel, ViewMany
from dgp_core.tables.plain import plain
from pages.figures.classes import class_marker, colour
from pages.figures.legends import both_shades, data_keys, key, legend_row, stroke
from pages.figures.marks import (
    band,
    base_layout,
    curve,
    error_bars,
    frame,
    heading,
    labelled_axis,
    plot,
    scatter,
    tally,
    typed,
)
from pages.figures.palette import DEEP, SINGLE, Ink, tint
from pages.figures.plane import SCALE, even_scale

MODELS = (("deep", DEEP, "solid"), ("single layer", SINGLE, "dash"))
"""Both models' names, colours and strokes."""

PIT_BINS = 10
ROWS_TRACE = "training rows, middle 95 % of new points"
"""Of predicted against observed; a row's number is its customdata."""


def relevance_figure(view: ViewMany, ink: Ink, height: int = 285) -> dict:
    """How sharply each model's first layer depends on each input: dots on a line an input."""
    seen = view.relevance
    names = [plain(name, 24) for name in seen.names]
    places = np.arange(len(names))[::-1]
    layout = base_layout(ink, height)
    title = "relevance: 1/lengthscale, of standardised inputs"
    layout["xaxis"] = labelled_axis(ink, title, rangemode="tozero")
    left_out = seen.n_inputs - len(names)
    side = f"inputs ({left_out:,} less relevant ones left out)" if left_out else "inputs"
    layout["yaxis"] = labelled_axis(
        ink,
        side,
        tickvals=[int(p) for p in places],
        ticktext=names,
        range=[-0.7, len(names) - 0.3],
        tickfont={"size": 11 if len(names) <= 12 else 9},
    )
    rows = [
        ("deep", DEEP, seen.deep, "circle", 9, 2),
        ("single layer", SINGLE, seen.rival, "diamond", 8, 1),
    ]
    traces = [
        scatter(
            values,
            places,
            name,
            {"color": shade, "symbol": symbol, "size": size},
            "%{text}: " + name + " %{x:.3g}",
            text=names,
            error_x=error_bars(np.zeros(len(values)), tint(shade, 0.5), thickness, minus=values),
        )
        for name, shade, values, symbol, size, thickness in (
            rows if len(view.layers) > 1 else rows[:1]
        )
    ]
    return {"data": traces, "layout": layout}


def pixels_figure(deep: np.ndarray, single: np.ndarray | None, ink: Ink, height: int = 285) -> dict:
    """How sharply each model's first layer depends on each pixel (side, side), as a picture."""
    layout: dict = base_layout(ink, height) | {"showlegend": False, "annotations": []}
    layout["margin"] |= {"t": 40}
    shown = [("deep", DEEP, deep)] + (
        [("single layer", SINGLE, single)] if single is not None else []
    )
    most = max(float(values.max()) for _, _, values in shown) or 1.0
    traces = []
    for k, (name, shade, values) in enumerate(shown):
        suffix, width = "" if k == 0 else str(k + 1), 0.96 / len(shown)
        left = k / len(shown) + 0.02
        bare = {"visible": False, "constrain": "domain"}
        layout["xaxis" + suffix] = bare | {"domain": [left, left + width], "anchor": "y" + suffix}
        layout["yaxis" + suffix] = bare | {
            "anchor": "x" + suffix,
            "scaleanchor": "x" + suffix,
            "autorange": "reversed",
        }
        words = f"{name}<br>1/lengthscale ≤ {values.max():.2g}"
        font = {"size": 11, "color": ink.text}
        above = heading(words, left + width / 2, font=font, xanchor="center")
        layout["annotations"].append(above)
        traces.append(
            {
                "type": "heatmap",
                "name": name,
                "xaxis": "x" + suffix,
                "yaxis": "y" + suffix,
                "z": typed(values),
                "zmin": 0,
                "zmax": most,
                "colorscale": [[0, tint(shade, 0.04)], [1, shade]],
                "showscale": False,
                "x0": 1,
                "y0": 1,
                "xgap": 0.5,
                "ygap": 0.5,
                "hovertemplate": name + ": row %{y}, column %{x}: %{z:.3g}<extra></extra>",
            }
        )
    return {"data": traces, "layout": layout}


def agreement_figure(
    view: ViewMany, panel: TablePanel, deep: bool, ink: Ink, height: int = 285
) -> dict:
    """Predicted against observed with intervals of 95 %; of classes, true against likeliest."""
    if panel.confusion is not None:
        return _confusion(view, panel, deep, ink, height)
    assert panel.band is not None
    _, shade, dash = MODELS[0 if deep else 1]
    symbol, edge = "circle" if deep else "diamond", {"color": ink.paper, "width": 0.4}
    y = plain(view.y_name)
    low, high = panel.band
    above, below = np.maximum(high - panel.predicted, 0), np.maximum(panel.predicted - low, 0)
    layout: dict = base_layout(ink, height) | {"showlegend": False}
    both = [np.concatenate([view.observed, part.predicted]) for part in (view.deep, view.rival)]
    span = frame(np.concatenate(both), 0.06)
    layout["xaxis"] = labelled_axis(ink, f"observed {y}", range=span)
    layout["yaxis"] = labelled_axis(ink, "predicted, with the middle 95 %", range=span)
    traces = [
        curve(np.array(span), np.array(span), "predicted = observed", ink.text, 1, dash="dot"),
        scatter(
            view.observed,
            panel.predicted,
            ROWS_TRACE,
            {"color": tint(shade, 0.8), "symbol": symbol, "size": 5, "line": edge},
            "row %{customdata}: observed %{x:.3g}, predicted %{y:.3g}",
            customdata=typed(view.rows, "i4"),
            error_y=error_bars(above, tint(shade, 0.25), 1, minus=below),
        ),
    ]
    return {"data": traces, "layout": layout}


def calibration_figure(view: ViewMany, ink: Ink, height: int = 285) -> dict:
    """Whether both models are calibrated.

    Left, a PIT histogram (level if calibrated); right, coverage of central intervals. Of classes, a
    reliability diagram.
    """
    panels = [view.deep] + ([view.rival] if len(view.layers) > 1 else [])
    if view.deep.reliability is not None:
        return _reliability(view, [p.reliability for p in panels], ink, height)
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "quantile of the observed value (PIT)", domain=[0.0, 0.38])
    layout["yaxis"] = labelled_axis(ink, "density of training rows", rangemode="tozero")
    layout["xaxis2"] = labelled_axis(
        ink, "nominal coverage", domain=[0.62, 1.0], anchor="y2", range=[0, 1.02], tickformat=".0%"
    )
    layout["yaxis2"] = labelled_axis(
        ink, "observed coverage", anchor="x2", range=[0, 1.05], tickformat=".0%"
    )
    edges = np.linspace(0, 1, PIT_BINS + 1)
    unit, right = np.array([0.0, 1.0]), {"xaxis": "x2", "yaxis": "y2", "showlegend": False}
    traces: list[dict] = [
        curve(unit, np.ones(2), "calibrated", ink.text, 1, dash="dot", showlegend=False),
        curve(unit, unit, "observed = nominal", ink.text, 1, dash="dot", **right),
    ]
    for panel, (name, shade, dash) in zip(panels, MODELS, strict=False):
        assert panel.pit is not None and panel.covered is not None
        heights = np.histogram(panel.pit, edges)[0] * PIT_BINS / len(panel.pit)
        fill, symbol = ("tozeroy", "circle") if dash == "solid" else ("none", "diamond")
        stairs = np.repeat(edges, 2)[1:-1], np.repeat(heights, 2)
        hover = name + ": density %{y:.2f} at %{x:.2f}"
        shaded = {"fill": fill, "fillcolor": tint(shade, 0.15)}
        traces.append(curve(*stairs, name, shade, 2, hover, dash, **shaded))
        words, hover = f"coverage, {name}", name + ": %{y:.0%} inside the interval of %{x:.0%}"
        covered = curve(view.shares, panel.covered, words, shade, 1.6, hover, dash, **right)
        marker = {"size": 6, "symbol": symbol}
        traces.append(covered | {"mode": "lines+markers", "marker": marker})
    return {"data": traces, "layout": layout}


def response_figure(view: ViewMany, ink: Ink, height: int = 285) -> dict:
    """The prediction as one input varies and the others stay at their medians.

    Lines are means and shades the middle 95 %, on one common scale.
    """
    layout: dict = base_layout(ink, height) | {"showlegend": False}
    n = len(view.responses)
    columns = min(3, n)
    n_rows = -(-n // columns)
    deep_only = len(view.layers) == 1
    span = _response_span(view)
    traces = []
    for k, response in enumerate(view.responses):
        row, column = divmod(k, columns)
        suffix = "" if k == 0 else str(k + 1)
        x0, y1 = column / columns, 1 - row / n_rows
        layout["xaxis" + suffix] = labelled_axis(
            ink,
            plain(response.name, 24),
            domain=[x0 + 0.04 * (column > 0), x0 + 1 / columns - 0.02],
            anchor="y" + suffix,
            nticks=4,
        )
        layout["yaxis" + suffix] = labelled_axis(
            ink,
            plain(view.value_name, 30) if column == 0 else "",
            domain=[y1 - 1 / n_rows + (0.2 if n_rows > 1 else 0.0), y1],
            anchor="x" + suffix,
            range=span,
            nticks=4,
            showticklabels=column == 0,
        )
        for axis in ("xaxis" + suffix, "yaxis" + suffix):
            layout[axis]["title"] |= {"font": {"size": 11}, "standoff": 2}
            layout[axis]["tickfont"] = {"size": 10}
        traces += _responses(response, suffix, deep_only)
    return {"data": traces, "layout": layout}


def hidden_figure(view: ViewMany, layer: HiddenPanel, ink: Ink, height: int = 190) -> dict:
    """The rows as they leave a layer; colours are the observed y, or symbols the class."""
    layout = plot(ink, height, plain(layer.names[0]), plain(layer.names[1]), showlegend=False)
    layout["meta"] = {"follow": ""}
    for axis in ("xaxis", "yaxis"):
        layout[axis]["title"] |= {"font": {"size": 11}, "standoff": 2}
    if layer.width > 2:
        words = f"the first two principal components of {layer.width} dimensions"
        layout["margin"] |= {"t": 18}
        layout["annotations"] = [heading(words, font={"size": 11, "color": ink.text})]
    y, points = view.observed, layer.points
    if view.classes:
        traces = [
            scatter(
                points[y == c, 0],
                points[y == c, 1],
                plain(name),
                class_marker(c, ink, 6),
                plain(name) + ", row %{customdata}",
                customdata=typed(view.rows[y == c], "i4"),
            )
            for c, name in enumerate(view.classes)
        ]
        return {"data": traces, "layout": layout}
    low, high = frame(y, 0.0)
    bar = {"thickness": 8, "outlinewidth": 0, "tickfont": {"size": 10, "color": ink.text}}
    bar["title"] = {"text": plain(view.y_name, 24), "side": "right", "font": {"size": 11}}
    marker = {
        "color": typed(y),
        "cmin": low,
        "cmax": high,
        "colorscale": even_scale(SCALE),
        "size": 5,
        "line": {"color": tint(ink.data, 0.6), "width": 0.4},
        "colorbar": bar,
    }
    hover = plain(view.y_name) + " %{marker.color:.3g}, row %{customdata}"
    rows = typed(view.rows, "i4")
    trace = scatter(points[:, 0], points[:, 1], "training rows", marker, hover, customdata=rows)
    return {"data": [trace], "layout": layout}


def outcome_figure(
    y: np.ndarray, y_name: str, classes: tuple[str, ...], ink: Ink, height: int = 285
) -> dict:
    """What is to be predicted: how often each value or class occurs."""
    layout: dict = base_layout(ink, height) | {"showlegend": False, "bargap": 0.04}
    layout["yaxis"] = labelled_axis(ink, "rows", rangemode="tozero")
    layout["xaxis"] = labelled_axis(ink, plain(y_name))
    bars: dict = {"type": "bar", "name": "data", "marker": {"color": tint(ink.data, 0.7)}}
    if classes:
        counts = np.bincount(y.astype(int), minlength=len(classes))
        layout["xaxis"] |= {
            "tickvals": list(range(len(classes))),
            "ticktext": [plain(name, 16) for name in classes],
        }
        bars |= {"x": typed(np.arange(len(counts))), "y": typed(counts)}
        bars["marker"] = {"color": [colour(c) for c in range(len(classes))]}
    else:
        middle, counts, width = tally(y, 30)
        bars |= {"x": typed(middle), "y": typed(counts), "width": 0.96 * width}
    bars["hovertemplate"] = "%{y:,.0f} rows at %{x}<extra></extra>"
    return {"data": [bars], "layout": layout}


def table_legend(view: ViewMany, ink: Ink) -> str:
    """What the marks mean, once for all pictures, as HTML."""
    word = "probability" if view.classes else "mean"
    keys = [
        key(stroke(DEEP, 2.5), f"{word}, deep"),
        key(stroke(SINGLE, 2.5, "dashed"), f"{word}, single layer"),
    ]
    if view.responses and view.responses[0].deep_band is not None:
        of = "the probability" if view.classes else "new points"
        keys.append(key(both_shades(0.2), f"middle 95 % of {of}"))
    keys += data_keys(view.classes, ink) if view.classes else []
    shown = f"{len(view.rows):,} of {view.n_rows:,}" if len(view.rows) < view.n_rows else "all"
    keys.append(f"<span>{shown} training rows shown</span>")
    return legend_row(keys, ink)


def _confusion(view: ViewMany, panel: TablePanel, deep: bool, ink: Ink, height: int) -> dict:
    """Rows of each true class by their likeliest class; counts are written in the cells."""
    assert panel.confusion is not None
    counts = panel.confusion
    names = [plain(name, 16) for name in view.classes]
    codes = list(range(len(names)))
    layout: dict = base_layout(ink, height) | {"showlegend": False}
    ticks = {"tickvals": codes, "ticktext": names, "showgrid": False}
    layout["xaxis"] = labelled_axis(ink, "likeliest class", **ticks)
    layout["yaxis"] = labelled_axis(ink, "true class", autorange="reversed", **ticks)
    right, total = int(np.trace(counts)), int(counts.sum())
    shade = DEEP if deep else SINGLE
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    cells = {
        "type": "heatmap",
        "name": f"{right:,} of {total:,} training rows right ({share_words(right, total)})",
        "x": codes,
        "y": codes,
        "z": typed(share),
        "zmin": 0,
        "zmax": 1,
        "text": [[str(int(n)) if n else "" for n in row] for row in counts],
        "texttemplate": "%{text}",
        "textfont": {"color": ink.text, "size": 12 if len(names) <= 5 else 9},
        "colorscale": [[0, tint(shade, 0.03)], [1, tint(shade, 0.6)]],
        "showscale": False,
        "xgap": 1,
        "ygap": 1,
        "hovertemplate": "%{text} rows (%{z:.0%} of their class)<extra></extra>",
    }
    layout["title"] = {"text": cells["name"], "font": {"size": 12}, "x": 0.5, "y": 0.99}
    layout["margin"] |= {"t": 24}
    return {"data": [cells], "layout": layout}


def share_words(part: int, whole: int) -> str:
    """A share that says 100 % only of all, and 0 % only of none."""
    share = part / max(1, whole)
    tenths = min(99.9, max(0.1, round(100 * share, 1))) if 0 < part < whole else 100 * share
    return f"{tenths:.3g} %"


def _reliability(view: ViewMany, seen: list[Reliability | None], ink: Ink, height: int) -> dict:
    """How often what was predicted happened, in bins of the probability, with Wilson's 95 %."""
    two = len(view.classes) == 2
    what = plain(view.classes[1]) if two else "the most probable class"
    layout = base_layout(ink, height)
    ends = {"range": [-0.03, 1.03], "tickformat": ".0%"}
    layout["xaxis"] = labelled_axis(ink, f"predicted probability of {what}", **ends)
    layout["yaxis"] = labelled_axis(ink, "observed frequency (95 %)", **ends)
    unit = typed(np.array([0.0, 1.0]))
    traces: list[dict] = [curve(unit, unit, "calibrated", ink.text, 1, dash="dot")]
    for part, (name, shade, dash) in zip(seen, MODELS, strict=False):
        assert part is not None
        above, below = part.high - part.observed, part.observed - part.low
        hover = name + ": %{y:.0%} of %{customdata} rows, predicted %{x:.0%}"
        traces.append(
            {
                **curve(part.predicted, part.observed, name, shade, 2, hover, dash),
                "mode": "lines+markers",
                "marker": {"size": 7, "symbol": "circle" if dash == "solid" else "diamond"},
                "customdata": typed(part.counts, "i4"),
                "error_y": error_bars(above, tint(shade, 0.5), 1, minus=below),
            }
        )
    return {"data": traces, "layout": layout}


def _response_span(view: ViewMany) -> list[float]:
    """The range of every mean, and of the middle of the bands."""
    values = [part for r in view.responses for part in (r.deep, r.rival)]
    bands = [r.deep_band for r in view.responses if r.deep_band is not None]
    bands += [r.rival_band for r in view.responses if r.rival_band is not None]
    return frame(np.concatenate([*values, *(b.ravel() for b in bands)]), 0.06)


def _responses(response: Response, suffix: str, deep_only: bool) -> list[dict]:
    on = {"xaxis": "x" + suffix, "yaxis": "y" + suffix}
    name = plain(response.name, 24)
    models = [
        (response.deep, response.deep_band, *MODELS[0]),
        (response.rival, response.rival_band, *MODELS[1]),
    ]
    traces = []
    for mean, edges, model, shade, dash in models[:1] if deep_only else models:
        if edges is not None:
            low, high = edges
            words = f"middle 95 %, {model}: {name}"
            traces.append({**band(response.x, low, high, words, tint(shade, 0.15)), **on})
        words, hover = f"{model}: {name}", model + " %{y:.3g} at %{x:.3g}"
        traces.append(curve(response.x, mean, words, shade, 2, hover, dash, **on))
    return traces
