"""Marks that the pictures share, as plain dicts in Plotly's own form."""

import base64

import numpy as np

from pages.figures.palette import FONT, INDUCING, Ink, tint


def typed(values: np.ndarray, dtype: str = "f4") -> dict:
    """An array as Plotly reads it without parsing: its bytes, in base 64."""
    packed = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<"))
    spec = {"dtype": dtype, "bdata": base64.b64encode(packed.tobytes()).decode()}
    if packed.ndim == 2:
        spec["shape"] = f"{packed.shape[0]},{packed.shape[1]}"
    return spec


def frame(values: np.ndarray, margin: float) -> list[float]:
    """The range of some values, and a margin on both sides as a share of it."""
    low, high = float(np.min(values)), float(np.max(values))
    room = margin * ((high - low) or 1.0)
    return [low - room, high + room]


def steady(low: float, high: float) -> list[float]:
    """A range that holds both, and stays as it is while they only tremble from frame to frame."""
    grain = 2.0 ** np.floor(np.log2(high - low if high > low else 1.0)) / 4
    return [float(grain * np.floor(low / grain)), float(grain * np.ceil(high / grain))]


def evenly(n: int, most: int) -> np.ndarray:
    """Row numbers, evenly spread where there are more than a picture needs."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))


def tally(y: np.ndarray, bins: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The middles of bars, how many values are in each, and their width.

    Whole numbers that are near each other, such as marks or counts, have a bar each.
    """
    low, high = float(np.min(y)), float(np.max(y))
    if high - low < 2 * bins and np.all(y == np.round(y)):
        return np.arange(low, high + 1), np.bincount((y - low).astype(int)), 0.8
    counts, edges = np.histogram(y, bins)
    return 0.5 * (edges[1:] + edges[:-1]), counts, float(edges[1] - edges[0])


def line(x: dict | list, y: dict | list) -> dict:
    return {"type": "scatter", "mode": "lines", "x": x, "y": y}


def curve(
    x, y, name: str, colour: str, width: float, hover: str = "", dash: str = "", **more
) -> dict:
    """A line with its name; the pointer is told `hover`, or nothing."""
    stroke = {"color": colour, "width": width} | ({"dash": dash} if dash else {})
    return line(_sent(x), _sent(y)) | {"name": name, "line": stroke} | _said(hover) | more


def scatter(x, y, name: str, marker: dict, hover: str = "", packed: bool = True, **more) -> dict:
    """Marks with their name; the pointer is told `hover`, or nothing.

    What the report draws too has its numbers as they are, not `packed`.
    """
    x, y = (_sent(x), _sent(y)) if packed else (x, y)
    places = {"type": "scatter", "mode": "markers", "x": x, "y": y}
    return places | {"name": name, "marker": marker} | _said(hover) | more


def _sent(values) -> dict | list:
    """Coordinates as a figure holds them: arrays packed, lists as they are."""
    return typed(values) if isinstance(values, np.ndarray) else values


def _said(hover: str) -> dict:
    return {"hovertemplate": f"{hover}<extra></extra>"} if hover else {"hoverinfo": "skip"}


def lines(x: np.ndarray, curves: np.ndarray, name: str, colour: str, width: float, **more) -> dict:
    """Several curves (S, G) over the same x as one trace, with a gap after each."""
    gap = np.full((len(curves), 1), np.nan)
    xs = np.tile(np.append(x, np.nan), len(curves))
    return curve(xs, np.concatenate([curves, gap], 1).ravel(), name, colour, width, **more)


def band(x, low, high, name: str, fill: str) -> dict:
    """One closed outline: there along the lower edge, back along the upper."""
    xs, ys = np.concatenate([x, x[::-1]]), np.concatenate([low, high[::-1]])
    area = {"name": name, "line": {"width": 0}, "fill": "toself", "fillcolor": fill}
    return line(typed(xs), typed(ys)) | area | _said("")


def dots(x, y, ink: Ink) -> dict:
    edge = {"color": ink.paper, "width": 0.5}
    size = 5 if len(x) <= 150 else 4
    marker = {"color": tint(ink.data, 0.8), "size": size, "line": edge}
    return scatter(x, y, "data", marker, "data (%{x:.3g}, %{y:.3g})")


def triangle(ink: Ink, size: int) -> dict:
    edge = {"color": ink.paper, "width": 0.6}
    return {"symbol": "triangle-up", "size": size, "color": INDUCING, "line": edge}


def beliefs(z: np.ndarray, mean: np.ndarray, sd: np.ndarray, ink: Ink, size: int) -> dict:
    """Inducing points, each at the mean of its q(u) with bars of ± 2σ."""
    hover = "inducing point %{x:.3g}, q(u) mean %{y:.3g}"
    bars = error_bars(2 * sd, INDUCING, 1.2)
    name = "inducing points, q(u) ± 2σ"
    return scatter(z, mean, name, triangle(ink, size), hover, error_y=bars)


def base_layout(ink: Ink, height: int) -> dict:
    """Every colour set, since nothing else may choose one; zoom kept from frame to frame."""
    return {
        "height": height,
        "margin": {"l": 8, "r": 6, "t": 6, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": ink.text},
        "hoverlabel": {"bgcolor": ink.paper, "font": {"color": ink.text}},
        "legend": {"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
        "showlegend": True,
        "dragmode": "zoom",
        "uirevision": "kept",
    }


def heading(text: str, x: float = 0.5, **more) -> dict:
    """Words above a picture, or above a part of it."""
    place = {"xref": "paper", "yref": "paper", "x": x, "y": 1.0, "yanchor": "bottom"}
    return {"text": text, "showarrow": False, **place, **more}


def upright(x: float, colour: str, width: float, dash: str, **more) -> dict:
    """A line across the whole height, or to where `more` says."""
    stroke = {"color": colour, "width": width, "dash": dash}
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "line": stroke, **more}


def error_bars(sizes, colour: str, thickness: float, minus=None) -> dict:
    """Bars on both sides of a mark; below it of other sizes, where `minus` says so."""
    apart = {} if minus is None else {"symmetric": False, "arrayminus": _sent(minus)}
    sizes = {"type": "data", "array": _sent(sizes), **apart}
    return {**sizes, "color": colour, "thickness": thickness, "width": 0}


def hatch(shape: str, colour: str, solidity: float = 0.2) -> dict:
    """A second mark beside a bar's colour."""
    look = {"fillmode": "overlay", "fgcolor": colour, "size": 6, "solidity": solidity}
    return {"shape": shape, **look}


def saying(text: str, ink: Ink, height: int) -> dict:
    """A picture that has nothing to show says why."""
    words = {"text": text, "showarrow": False, "font": {"size": 13}}
    place = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
    layout = base_layout(ink, height) | {"annotations": [words | place]}
    return {"data": [], "layout": layout | {a: {"visible": False} for a in ("xaxis", "yaxis")}}


def log_ticks(values: np.ndarray) -> dict:
    """Where an axis of logarithms has its numbers, so that none touches the next: at 1, 2 and 5 of
    each decade; of many decades, at 1 alone; of less than one, where Plotly thinks best."""
    shown = values[np.isfinite(values) & (values > 0)]
    decades = np.ptp(np.log10(shown)) if shown.size else 0.0
    if decades < 0.7:  # 1, 2 and 5 might leave a single one
        return {"type": "log", "nticks": 6}
    return {"type": "log", "dtick": "D2" if decades < 2.5 else 1}


def plot(ink: Ink, height: int, x: str, y: str, **more) -> dict:
    """The layout of one pair of axes, by their titles."""
    axes = {"xaxis": labelled_axis(ink, x), "yaxis": labelled_axis(ink, y)}
    return base_layout(ink, height) | axes | more


def labelled_axis(ink: Ink, title: str, **more) -> dict:
    return {
        "title": {"text": title, "font": {"size": 13}, "standoff": 6},
        "gridcolor": ink.grid,
        "linecolor": ink.grid,
        "zeroline": False,
        "showline": True,
        "automargin": True,
        **more,
    }
