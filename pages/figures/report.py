"""The report to take home: one HTML file with pictures inside, which asks no server for anything.

`svg` draws the plain figures of this app (one pair of axes: lines, areas, dots, bars, a map) as
they are on the page.
"""

import html
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dgp_core.evaluation import comparison, diagnostics
from dgp_core.evaluation.comparison import ScoreCard, Verdict
from dgp_core.evaluation.explain import Importance, Response
from dgp_core.tables.plain import visible
from pages.figures.palette import LIGHT
from pages.figures.your_data import (
    MODELS,
    SCORES,
    agreement_figure,
    calibration_figure,
    importance_figure,
    residual_figure,
    response_figure,
    said,
    together,
)

WIDTH = 560
ROOM = {"left": 66, "right": 14, "top": 12, "bottom": 46}
CIVIDIS = (
    (0, 34, 78),
    (18, 53, 112),
    (87, 92, 109),
    (124, 123, 120),
    (188, 175, 111),
    (254, 232, 56),
)
DASHES = {
    "dot": "2 4",
    "dash": "8 5",
    "dashdot": "8 4 2 4",
    "longdash": "12 6",
    "longdashdot": "12 5 2 5",
}  # fmt: skip
STYLE = """
body { font: 16px/1.55 "Source Sans", "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
  color: #1B2733; background: #fff; max-width: 74rem; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.9rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0; } .small { color: #4C5A67; font-size: .88rem; }
.verdict { font-size: 1.35rem; line-height: 1.4; font-weight: 600; border-left: 4px solid #0072B2;
  padding-left: 1rem; max-width: 52rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #E3E8ED; }
td.number { text-align: right; } .wide { overflow-x: auto; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(27rem, 1fr));
  gap: 1.6rem; }
figure { margin: 0; } figcaption { font-size: .88rem; color: #4C5A67; max-width: 34rem; }
svg { width: 100%; height: auto; } svg text { font-family: inherit; }
pre { background: #F2F5F8; padding: .8rem 1rem; overflow-x: auto; font-size: .82rem; }
@media print { figure { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Picture:
    """A figure and what to say of it."""

    figure: dict
    title: str
    caption: str


@dataclass(frozen=True)
class Part:
    """A heading, and what is below it: sentences, a table, pictures, code."""

    title: str
    sentences: Sequence[str] = ()
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    pictures: Sequence[Picture] = ()
    code: str = ""


def report(title: str, verdict: str, rule: str, parts: Sequence[Part]) -> str:
    """The whole file; every text is escaped here, wherever it came from."""
    body = [
        f"<h1>{_text(title)}</h1>",
        f'<p class="verdict">{_text(verdict)}</p>',
        f'<p class="small">{_text(rule)}</p>',
    ]
    for part in parts:
        body.append(f"<h2>{_text(part.title)}</h2>")
        body += [f"<p>{_text(sentence)}</p>" for sentence in part.sentences]
        if part.rows:
            body.append(_table(part.header, part.rows))
        if part.pictures:
            shown = "".join(
                f"<figure>{svg(p.figure, p.title)}<figcaption><strong>{_text(p.title)}.</strong> "
                f"{_text(p.caption)}</figcaption></figure>"
                for p in part.pictures
            )
            body.append(f'<div class="pictures">{shown}</div>')
        if part.code:
            body.append(f"<pre>{_text(part.code)}</pre>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{_text(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>"
    )


def fit_report(
    name: str,
    about: Sequence[str],
    cards: Sequence[ScoreCard],
    verdict: Verdict,
    y_name: str,
    importance: Sequence[Importance] = (),
    responses: Sequence[Response] = (),
    script: str = "",
) -> str:
    """A fit from its data to its verdict: scores, honesty, errors, what matters, how to repeat."""
    scored = comparison.table(cards)
    models = [model for model in MODELS if model in scored]
    names = list(scored[models[0]])
    rows = [[MODELS[model], *(said(n, e) for n, e in scored[model].items())] for model in models]
    best = models[0] if verdict.word in ("deep", "too_few") or "single" not in models else "single"
    card = together(cards, best)
    parts = [
        Part("The data and the models", about),
        Part(
            "Scores on rows that no model had seen",
            ["A number and its standard error. Arrows say which way is better."],
            ["model", *(SCORES[n] for n in names)],
            rows,
        ),
    ]
    if card is not None:
        parts.append(Part(f"Is it honest? ({MODELS[best]})", pictures=_honesty(card, y_name)))
        worst = diagnostics.worst_rows(card, 10)
        parts.append(
            Part(
                "The held-out rows that surprised it most",
                ["Look here for slips in the file, or for what no column says."],
                ["row of the file", "log-likelihood, nats", "seen and predicted"],
                [
                    [
                        f"{one.row + 1:,}",
                        f"{one.log_likelihood:.2f}".replace("-", "−"),
                        one.surprise,
                    ]
                    for one in worst
                ],
            )
        )
    if importance:
        shown = [
            Picture(
                importance_figure(importance, LIGHT),
                "What each input is worth",
                "How much log-likelihood held-out rows lose when the input is shuffled among them.",
            )
        ]
        classes = card.classes if card is not None else ()
        shown += [
            Picture(
                response_figure(one, y_name, classes, LIGHT),
                f"Response to {visible(one.name, 40)}",
                "The prediction as this input goes over its range, the others as they are.",
            )
            for one in responses
        ]
        parts.append(Part("What it has learnt", pictures=shown))
    if script:
        parts.append(Part("The same in Python", code=script))
    return report(f"Deep GP Lab: {visible(name, 80)}", verdict.text, comparison.RULE, parts)


def _honesty(card: ScoreCard, y_name: str) -> list[Picture]:
    if card.forecast.probabilities is not None:
        return [
            Picture(
                calibration_figure(card, LIGHT),
                "Calibration",
                "Of what was said with a probability, so many came true. Honest is the diagonal.",
            ),
            Picture(
                agreement_figure(card, y_name, LIGHT),
                "Confusions",
                "Held-out rows of each class, and what they were taken for.",
            ),
        ]
    return [
        Picture(
            calibration_figure(card, LIGHT),
            "Calibration",
            "Where observations fell in their predicted distributions: flat is honest, a bowl says "
            "too sure, a hump too unsure.",
        ),
        Picture(
            agreement_figure(card, y_name, LIGHT),
            "Predicted against observed",
            "Each dot is a held-out row with its 90 % interval.",
        ),
        Picture(
            residual_figure(card, y_name, LIGHT),
            "Residuals",
            "What is left over, in units of each row's own predicted spread.",
        ),
    ]


def _text(text: object) -> str:
    """Text as HTML shows it; what `plain` made of it is undone first."""
    return html.escape(html.unescape(str(text)).replace("\u2060", ""))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def cell(text: str, tag: str) -> str:
        number = bool(re.match(r"[−–\d]", str(text)))
        return f"<{tag}{' class=number' if number else ''}>{_text(text)}</{tag}>"

    lines = ["".join(cell(text, "th") for text in header)]
    lines += ["".join(cell(text, "td") for text in row) for row in rows]
    return f'<div class="wide"><table>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'


def svg(figure: dict, title: str) -> str:
    """A figure of one pair of axes as SVG."""
    layout, height = figure["layout"], int(figure["layout"]["height"])
    names = [t for t in figure["data"] if t.get("name") and t.get("showlegend", True)]
    legend = names if layout.get("showlegend", True) and len(names) > 1 else []
    top = ROOM["top"] + 17 * len(legend)
    left = ROOM["left"]
    if labels := layout["yaxis"].get("ticktext"):
        left = max(left, 20 + 6.4 * max(len(_plain(label)) for label in labels))
    box = (left, top, WIDTH - ROOM["right"], height + 17 * len(legend) - ROOM["bottom"])
    x = _Scale(figure, "x", box[0], box[2])
    y = _Scale(figure, "y", box[3], box[1])
    parts = [*_grid(layout, x, y, box)]
    for trace in figure["data"]:
        parts += _DRAW[trace["type"]](trace, x, y)
    for i, trace in enumerate(legend):
        parts.append(_key(trace, left, ROOM["top"] + 17 * i))
    tall = height + 17 * len(legend)
    drawn = "".join(parts)
    clip = f"clip{zlib.crc32(drawn.encode())}"
    frame = (
        f'<rect x="{box[0]}" y="{box[1]}" width="{box[2] - box[0]}" height="{box[3] - box[1]}"/>'
    )
    drawn = drawn.replace("#CLIP", f"#{clip}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" role="img" '
        f'aria-label="{_text(title)}"><clipPath id="{clip}">{frame}</clipPath>{drawn}</svg>'
    )


class _Scale:
    """One axis: from its units to places in the picture."""

    def __init__(self, figure: dict, name: str, start: float, end: float):
        axis = figure["layout"][f"{name}axis"]
        span = axis.get("range")
        if span is None:
            span = _span([_extent(trace, name) for trace in figure["data"]])
        low, high = float(span[0]), float(span[1])
        if axis.get("autorange") == "reversed":
            low, high = high, low
        self.low, self.high, self.start, self.end = low, high, start, end
        self.ticks = axis.get("tickvals")
        self.labels = axis.get("ticktext")
        if self.ticks is None:
            self.ticks, self.labels = _ticks(min(low, high), max(low, high))
        elif self.labels is None:
            self.labels = [f"{value:g}" for value in self.ticks]
        self.title = _plain(axis["title"]["text"])
        self.visible = axis.get("visible", True)

    def __call__(self, values) -> np.ndarray:
        share = (np.asarray(values, float) - self.low) / ((self.high - self.low) or 1.0)
        return self.start + share * (self.end - self.start)


def _extent(trace: dict, name: str) -> tuple[float, float]:
    """The least and the largest that a trace reaches along an axis."""
    values = np.asarray(trace[name], float)
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 0.0
    low, high = float(values.min()), float(values.max())
    across = trace.get("orientation") == "h"
    if trace["type"] == "bar":
        if (name == "x") == across:
            return min(low, 0.0), max(high, 0.0)
        return low - 0.5, high + 0.5
    if trace["type"] == "heatmap" and len(values) > 1:
        half = 0.5 * float(np.abs(np.diff(values)).mean())
        return low - half, high + half
    return low, high


def _span(extents: list[tuple[float, float]]) -> tuple[float, float]:
    low, high = min(e[0] for e in extents), max(e[1] for e in extents)
    room = 0.03 * ((high - low) or 1.0)
    return low - room, high + room


def _ticks(low: float, high: float) -> tuple[list[float], list[str]]:
    """About five round numbers."""
    raw = (high - low) / 5 or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((m * power for m in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s - raw))
    values = np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step
    return list(values), [f"{value:.6g}".replace("-", "−") for value in values]


def _grid(layout: dict, x: _Scale, y: _Scale, box) -> list[str]:
    ink, parts = LIGHT, []
    left, top, right, bottom = box
    small = f'font-size="11" fill="{ink.text}"'
    if x.visible:
        for value, label in zip(x.ticks, x.labels or (), strict=True):
            at = float(x(value))
            if left - 1 <= at <= right + 1:
                parts.append(_stroke(at, top, at, bottom, ink.grid))
                parts.append(_words(at, bottom + 15, label, "middle", small))
        parts.append(_words((left + right) / 2, bottom + 36, x.title, "middle", small))
    if y.visible:
        for value, label in zip(y.ticks, y.labels or (), strict=True):
            at = float(y(value))
            if top - 1 <= at <= bottom + 1:
                parts.append(_stroke(left, at, right, at, ink.grid))
                parts.append(_words(left - 7, at + 4, label, "end", small))
        middle = (top + bottom) / 2
        turned = f'{small} transform="rotate(-90 14 {middle:.1f})"'
        parts.append(_words(14, middle, y.title, "middle", turned))
    return parts


def _words(x: float, y: float, text: object, anchor: str, more: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {more}>{_text(text)}</text>'


def _stroke(x0, y0, x1, y1, colour: str, width: float = 1.0) -> str:
    ends = f'x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width:g}"/>'


def _scatter(trace: dict, x: _Scale, y: _Scale) -> list[str]:
    X, Y = x(trace["x"]), y(trace["y"])
    known = np.isfinite(X) & np.isfinite(Y)
    X, Y = X[known], Y[known]
    inside = 'clip-path="url(#CLIP)"'
    if trace.get("fill") == "toself":
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(X, Y, strict=True))
        return [f'<polygon points="{points}" fill="{trace["fillcolor"]}" {inside}/>']
    parts, mode = [], trace["mode"]
    if "lines" in mode:
        line = trace["line"]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(X, Y, strict=True))
        dash = DASHES.get(line.get("dash", "solid"), "")
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{line["color"]}" '
            f'stroke-width="{line["width"]:g}" stroke-dasharray="{dash}" {inside}/>'
        )
    if "markers" in mode:
        marker = trace["marker"]
        if error := trace.get("error_y"):
            up = np.asarray(error["array"], float)[known]
            down = np.asarray(error.get("arrayminus", error["array"]), float)[known]
            v = np.asarray(trace["y"], float)[known]
            for a, b, c in zip(X, y(v - down), y(v + up), strict=True):
                bar = _stroke(a, b, a, c, error["color"], error["thickness"])
                parts.append(bar.replace("/>", f" {inside}/>"))
        r = marker["size"] / 2
        parts += [
            _mark(marker.get("symbol", "circle"), a, b, r, marker["color"], inside)
            for a, b in zip(X, Y, strict=True)
        ]
    return parts


def _mark(symbol: str, x: float, y: float, r: float, colour: str, inside: str = "") -> str:
    shapes = {
        "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        "diamond": ((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
        "triangle-up": ((0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
        "line-ns": ((-0.12, -1), (0.12, -1), (0.12, 1), (-0.12, 1)),
    }
    if symbol not in shapes:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r:g}" fill="{colour}" {inside}/>'
    points = " ".join(f"{x + r * a:.1f},{y + r * b:.1f}" for a, b in shapes[symbol])
    return f'<polygon points="{points}" fill="{colour}" {inside}/>'


def _bar(trace: dict, x: _Scale, y: _Scale) -> list[str]:
    across = trace.get("orientation") == "h"
    along, over = (x, y) if across else (y, x)
    lengths, places = (trace["x"], trace["y"]) if across else (trace["y"], trace["x"])
    parts = []
    for value, place, width in zip(lengths, places, trace["width"], strict=True):
        a, b = sorted((float(along(0.0)), float(along(value))))
        c, d = sorted((float(over(place - width / 2)), float(over(place + width / 2))))
        left, top, wide, high = (a, c, b - a, d - c) if across else (c, a, d - c, b - a)
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{high:.1f}" '
            f'fill="{trace["marker"]["color"]}" clip-path="url(#CLIP)"/>'
        )
    if error := trace.get("error_x"):
        for value, place, size in zip(lengths, places, error["array"], strict=True):
            a, b, c = float(x(value - size)), float(x(value + size)), float(y(place))
            parts.append(_stroke(a, c, b, c, error["color"], error["thickness"]))
    return parts


def _heatmap(trace: dict, x: _Scale, y: _Scale) -> list[str]:
    z = np.asarray(trace["z"], float)
    low, high = trace.get("zmin", float(z.min())), trace.get("zmax", float(z.max()))
    X, Y = _edges(np.asarray(trace["x"], float)), _edges(np.asarray(trace["y"], float))
    parts = []
    for i, line in enumerate(z):
        for j, value in enumerate(line):
            a, b = sorted((float(x(X[j])), float(x(X[j + 1]))))
            c, d = sorted((float(y(Y[i])), float(y(Y[i + 1]))))
            colour = _shade((value - low) / ((high - low) or 1.0), trace["colorscale"])
            parts.append(
                f'<rect x="{a:.1f}" y="{c:.1f}" width="{b - a + 0.3:.1f}" '
                f'height="{d - c + 0.3:.1f}" fill="{colour}" clip-path="url(#CLIP)"/>'
            )
            if (words := trace.get("text")) is not None and words[i][j]:
                ink = "#fff" if value > 0.55 * high else LIGHT.text
                more = f'font-size="11" fill="{ink}"'
                parts.append(_words((a + b) / 2, (c + d) / 2 + 4, words[i][j], "middle", more))
    return parts


def _edges(middles: np.ndarray) -> np.ndarray:
    if len(middles) == 1:
        return middles[0] + np.array([-0.5, 0.5])
    inner = 0.5 * (middles[1:] + middles[:-1])
    return np.concatenate([[2 * middles[0] - inner[0]], inner, [2 * middles[-1] - inner[-1]]])


def _shade(share: float, scale) -> str:
    """The colour at a share of a scale: Cividis by name, or two colours of our own."""
    ends = CIVIDIS if scale == "Cividis" else [_rgb(colour) for _, colour in scale]
    place = float(np.clip(share if np.isfinite(share) else 0, 0, 1)) * (len(ends) - 1)
    i = min(int(place), len(ends) - 2)
    mixed = (1 - (place - i)) * np.array(ends[i]) + (place - i) * np.array(ends[i + 1])
    return "rgb({:.0f},{:.0f},{:.0f})".format(*mixed)


def _rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[i : i + 2], 16) for i in (1, 3, 5))


def _key(trace: dict, left: float, top: float) -> str:
    """A line of the legend: the mark and its name."""
    if trace.get("fill") == "toself":
        mark = f'<rect x="{left}" y="{top}" width="18" height="10" fill="{trace["fillcolor"]}"/>'
    elif trace["type"] == "bar":
        colour = trace["marker"]["color"]
        mark = f'<rect x="{left}" y="{top}" width="18" height="10" fill="{colour}"/>'
    elif "lines" in trace.get("mode", ""):
        dash = DASHES.get(trace["line"].get("dash", "solid"), "")
        mark = _stroke(left, top + 5, left + 18, top + 5, trace["line"]["color"], 2)
        mark = mark.replace("/>", f' stroke-dasharray="{dash}"/>')
    else:
        marker = trace["marker"]
        mark = _mark(marker.get("symbol", "circle"), left + 9, top + 5, 4, marker["color"])
    more = f'font-size="11.5" fill="{LIGHT.text}"'
    return mark + _words(left + 25, top + 9, trace["name"], "start", more)


def _plain(text: object) -> str:
    return html.unescape(str(text)).replace("\u2060", "")


_DRAW = {"scatter": _scatter, "bar": _bar, "heatmap": _heatmap}
