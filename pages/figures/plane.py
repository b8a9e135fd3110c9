"""Pictures of two inputs: predictions as maps with contours, and every layer as a warped grid."""

import numpy as np

from dgp_core.live.views.playground import PlanePanel, View2D, WarpPanel
from dgp_core.tables.plain import plain
from pages.figures.classes import class_marker, colour, symbol
from pages.figures.legends import data_keys, key, legend_row, stroke
from pages.figures.marks import (
    base_layout,
    curve,
    evenly,
    frame,
    heading,
    labelled_axis,
    plot,
    scatter,
    triangle,
    typed,
)
from pages.figures.palette import DEEP, DRAW, INDUCING, Ink, tint

SCALE = ["#00224E", "#35456C", "#666970", "#948E77", "#C8B866", "#FEE838"]
"""Cividis: from dark blue to yellow, the same to every eye."""

CORNERS = np.array([[[0, 75, 122], [168, 67, 0]], [[143, 208, 245], [255, 195, 107]]])
"""Of a plane of colours, by second input and first: blue to orange, dark to light."""

FOLLOWED = 200
"""Points carried through the layers' pictures, at the most."""


def map_figure(
    view: View2D, panel: PlanePanel, deep: bool, doubt: bool, ink: Ink, height: int = 285
) -> dict:
    """One model's prediction as a map, or with `doubt` how unsure it is.

    Contours carry their values; they are solid for the deep model and dashed for its rival. Both
    models' maps share one scale.
    """
    dash = "solid" if deep else "dash"
    if doubt:
        surface = [_doubt(view, panel, dash, ink)]
    elif panel.winner is not None:
        surface = _winners(view, panel, dash, ink)
    elif view.classes:
        surface = [_probability(view, panel, dash, ink)]
    else:
        surface = [_mean(view, panel, dash, ink)]
    z, hover = panel.inducing, "inducing point at (%{x:.3g}, %{y:.3g})"
    inducing = scatter(z[:, 0], z[:, 1], "inducing points", triangle(ink, 9), hover)
    data = _data(view.data_x, view.data_y, view.y_name, view.classes, ink, view.rows)
    layout = _plane_layout(view.input_names, ink, height)
    layout["xaxis"]["range"] = [float(view.a[0]), float(view.a[-1])]
    layout["yaxis"]["range"] = [float(view.b[0]), float(view.b[-1])]
    return {"data": [*surface, *data, inducing], "layout": layout}


def recorded_map(view: View2D, panel: PlanePanel, ink: Ink, height: int = 285) -> dict:
    """The probability of the second of two classes as shade, dotted where it is one half.

    It has no contours, so that it is there before the charts' script is.
    """
    figure = map_figure(view, panel, True, False, ink, height)
    surface = figure["data"][0]
    x, y = _half_way(view.a, view.b, panel.value)
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    shade = {
        "type": "heatmap",
        "name": surface["name"],
        "x": surface["x"],
        "y": surface["y"],
        "z": typed(np.round(255 * np.clip(panel.value, 0, 1)), "u1"),
        "zmin": 0,
        "zmax": 255,
        "zsmooth": "best",
        "colorscale": surface["colorscale"],
        "colorbar": {
            **surface["colorbar"],
            "tickvals": [255 * at for at in ticks],
            "ticktext": [f"{at:g}" for at in ticks],
        },
        "hoverinfo": "skip",
    }
    border = scatter(x, y, "one half", {"color": tint(ink.text, 0.7), "size": 2})
    return {**figure, "data": [shade, border, *figure["data"][1:]]}


def _half_way(a: np.ndarray, b: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where p (B, A) passes one half between neighbours of the grid, across and up."""
    d = p - 0.5
    i, j = np.nonzero(d[:, :-1] * d[:, 1:] < 0)
    t = d[i, j] / (d[i, j] - d[i, j + 1])
    k, l = np.nonzero(d[:-1] * d[1:] < 0)
    u = d[k, l] / (d[k, l] - d[k + 1, l])
    x = np.concatenate([a[j] + t * (a[j + 1] - a[j]), a[l]])
    return x, np.concatenate([b[i], b[k] + u * (b[k + 1] - b[k])])


def plane_data_figure(
    X: np.ndarray,
    y: np.ndarray,
    input_names: tuple[str, ...],
    y_name: str,
    classes: tuple[str, ...],
    ink: Ink,
    height: int = 285,
) -> dict:
    """The data alone, in the frame that the maps will have; a thousand rows are enough to see."""
    rows = evenly(len(X), 1000)
    layout = _plane_layout(input_names, ink, height)
    layout["xaxis"]["range"], layout["yaxis"]["range"] = frame(X[:, 0], 0.1), frame(X[:, 1], 0.1)
    return {"data": _data(X[rows], y[rows], y_name, classes, ink, rows), "layout": layout}


def warp_figure(view: View2D, layer: WarpPanel, ink: Ink, height: int = 190) -> dict:
    """Left, a regular grid of inputs and the data as they enter the layer; right, as they leave it.

    Where one reading leaves two dimensions, right is the layer's own map over what enters. Points
    have the colour of where they started, through all layers.
    """
    layout: dict = base_layout(ink, height) | {"showlegend": False}
    left, right = [0.0, 0.45], [0.56, 1.0]
    own_map = layer.map_value is not None
    names_out = layer.names_in if own_map else layer.names_out
    for suffix, names, domain in (("", layer.names_in, left), ("2", names_out, right)):
        layout["xaxis" + suffix] = _small_axis(ink, names[0], domain=domain, anchor="y" + suffix)
        layout["yaxis" + suffix] = _small_axis(ink, names[1], anchor="x" + suffix)
    layout["meta"] = {"follow": "data "}
    layout["margin"] |= {"t": 18}
    font = {"size": 11, "color": ink.text}
    layout["annotations"] = [
        heading("what enters", sum(left) / 2, font=font),
        heading("the layer's own map" if own_map else "what leaves", sum(right) / 2, font=font),
    ]
    traces = _passing(view, layer.lines_in, layer.points_in, "", ink)
    traces += _inducing(layer.inducing, "inducing inputs Z", "", ink)
    if own_map:
        traces += _own_map(view, layer, ink)
        traces += _inducing(layer.inducing, "inducing inputs Z on the map", "2", ink)
    else:
        traces += _passing(view, layer.lines_out, layer.points_out, "2", ink)
        traces += _inducing(layer.u_mean, "mean of q(u)", "2", ink)
    return {"data": traces, "layout": layout}


def plane_legend(view: View2D, ink: Ink, recorded: bool = False) -> str:
    """What the marks of the maps and of the grids mean, as HTML."""
    gradient = f"linear-gradient(90deg,{','.join(SCALE)})"
    lines = (
        [key(stroke(ink.text, 2, "dotted"), "a probability of one half")]
        if recorded
        else [
            key(stroke(ink.text, 1.5), "contours, deep"),
            key(stroke(ink.text, 1.5, "dashed"), "contours, single layer"),
        ]
    )
    keys = [
        *lines,
        *data_keys(view.classes, ink),
        key(f"color:{INDUCING}", "inducing points", "▲"),
    ]
    if not view.classes:
        bar = f"width:44px;height:11px;background:{gradient}"
        keys.insert(0, key(bar, f"{plain(view.value_name)}, low to high"))
    if len(view.rows) < view.n_rows:
        keys.append(f"<span>{len(view.rows):,} of {view.n_rows:,} rows shown</span>")
    return legend_row(keys, ink)


def star_mark(a: float, b: float, ink: Ink) -> dict:
    """The place x* of the mixture on a map."""
    edge = {"color": ink.paper, "width": 1.5}
    star = {"symbol": "star", "size": 15, "color": ink.text, "line": edge}
    return scatter([a], [b], "x*", star, "x* (%{x:.3g}, %{y:.3g})")


def start_colours(places: np.ndarray, a: np.ndarray, b: np.ndarray) -> list[str]:
    """A colour for each place (N, 2): its first input from blue to orange, its second from dark."""
    low, high = np.array([a[0], b[0]]), np.array([a[-1], b[-1]])
    s = np.clip((places - low) / np.where(high > low, high - low, 1.0), 0, 1)
    across = CORNERS[:, 0][None] * (1 - s[:, :1, None]) + CORNERS[:, 1][None] * s[:, :1, None]
    mixed = across[:, 0] * (1 - s[:, 1:]) + across[:, 1] * s[:, 1:]
    return [f"#{r:02x}{g:02x}{b:02x}" for r, g, b in np.round(mixed).astype(int)]


def even_scale(colours: list[str]) -> list[list]:
    """A colour scale with even steps."""
    return [[i / (len(colours) - 1), c] for i, c in enumerate(colours)]


def _surface(view: View2D, z: np.ndarray, name: str, dash: str, ink: Ink) -> dict:
    """A field of colour with labelled contours."""
    return {
        "type": "contour",
        "name": plain(name),
        "x": typed(view.a),
        "y": typed(view.b),
        "z": typed(z),
        "line": {"width": 1, "color": tint(ink.text, 0.7), "dash": dash},
        "colorbar": _bar(plain(name), ink),
        "hovertemplate": plain(name) + " %{z:.3g} at (%{x:.3g}, %{y:.3g})<extra></extra>",
    }


def _bar(title: str, ink: Ink) -> dict:
    return {
        "thickness": 9,
        "outlinewidth": 0,
        "title": {"text": title, "side": "right", "font": {"size": 12}},
        "tickfont": {"size": 11, "color": ink.text},
    }


def _levels(low: float, high: float, n: int) -> dict:
    """Contours at n round values."""
    step = (high - low) / n or 1.0
    power = 10.0 ** np.floor(np.log10(step))
    size = power * min((1, 2, 5, 10), key=lambda k: abs(k * power - step))
    start = float(np.ceil(low / size) * size)
    return {"start": start, "end": float(high), "size": float(size)}


def _contours(coloring: str, ink: Ink, levels: dict) -> dict:
    """Contours at these levels, with their values."""
    font = {"size": 10, "color": ink.text}
    return {"coloring": coloring, "showlabels": True, "labelfont": font, **levels}


def _mean(view: View2D, panel: PlanePanel, dash: str, ink: Ink) -> dict:
    low, high = (float(v) for v in frame(view.data_y, 0.0))
    pale = [tint(c, 0.75) for c in SCALE]
    return {
        **_surface(view, panel.value, view.value_name, dash, ink),
        "zmin": low,
        "zmax": high,
        "colorscale": even_scale(pale),
        "contours": _contours("heatmap", ink, _levels(low, high, 6)),
    }


def _probability(view: View2D, panel: PlanePanel, dash: str, ink: Ink) -> dict:
    first, second = colour(0), colour(1)
    return {
        **_surface(view, panel.value, view.value_name, dash, ink),
        "zmin": 0.0,
        "zmax": 1.0,
        "colorscale": [
            *([0, tint(first, 0.8)], [0.5, tint(first, 0.08)]),
            *([0.5, tint(second, 0.08)], [1, tint(second, 0.8)]),
        ],
        "contours": _contours("heatmap", ink, {"start": 0.1, "end": 0.9, "size": 0.2}),
    }


def _doubt(view: View2D, panel: PlanePanel, dash: str, ink: Ink) -> dict:
    high = max(float(view.deep.doubt.max()), float(view.rival.doubt.max()), 1e-12)
    return {
        **_surface(view, panel.doubt, view.doubt_name, dash, ink),
        "zmin": 0.0,
        "zmax": high,
        "colorscale": [[0, tint(ink.data, 0.02)], [1, tint(ink.data, 0.75)]],
        "contours": _contours("heatmap", ink, _levels(0.0, high, 5)),
    }


def _winners(view: View2D, panel: PlanePanel, dash: str, ink: Ink) -> list[dict]:
    """The likeliest class's colour, the denser the more probable it is; contours of that."""
    assert panel.winner is not None
    contours = {
        **_surface(view, panel.value, view.value_name, dash, ink),
        "showscale": False,
        "contours": _contours("none", ink, {"start": 0.5, "end": 0.9, "size": 0.2}),
    }
    regions = _regions(view.a, view.b, panel.winner, panel.value, view.classes, ink)
    return [regions[0], contours, regions[1]]


def _regions(a, b, winner: np.ndarray, value: np.ndarray, classes, ink: Ink) -> list[dict]:
    """Each class's region in its colour, with its name in the middle.

    One field for all: a class's code plus how far its probability is from 1/C to 1.
    """
    C = len(classes)
    sure = np.clip((value - 1 / C) / (1 - 1 / C), 0, 0.999)
    scale = []
    for c in range(C):
        scale += [[c / C, tint(colour(c), 0.05)], [(c + 0.999) / C, tint(colour(c), 0.75)]]
    scale[-1][0] = 1
    field = {
        "type": "heatmap",
        "name": "most probable class",
        "x": typed(a),
        "y": typed(b),
        "z": typed(winner + sure),
        "zmin": 0,
        "zmax": C,
        "showscale": False,
        "colorscale": scale,
        "hoverinfo": "skip",
    }
    codes = [c for c in range(C) if (winner == c).any()]
    middles = np.array([_middle(winner == c) for c in codes])
    names = {
        "type": "scatter",
        "mode": "text",
        "name": "names of the regions",
        "x": typed(a[middles[:, 1]]),
        "y": typed(b[middles[:, 0]]),
        "text": [plain(classes[c], 16) for c in codes],
        "textfont": {"size": 13, "color": ink.text},
        "hoverinfo": "skip",
    }
    return [field, names]


def _middle(region: np.ndarray) -> np.ndarray:
    """The cell of a region that is nearest to the mean of its cells (row, column)."""
    cells = np.argwhere(region)
    return cells[((cells - cells.mean(0)) ** 2).sum(1).argmin()]


def _data(X, y, y_name: str, classes: tuple[str, ...], ink: Ink, rows: np.ndarray) -> list[dict]:
    """The data: dots shaded by y on the map's own scale, or a symbol for each class."""
    common = {"type": "scatter", "mode": "markers"}
    if classes:
        return [
            {
                **common,
                "name": plain(name),
                "x": typed(X[y == c, 0]),
                "y": typed(X[y == c, 1]),
                "customdata": typed(rows[y == c], "i4"),
                "marker": class_marker(c, ink, 6),
                "hovertemplate": plain(name)
                + ", row %{customdata}, at (%{x:.3g}, %{y:.3g})<extra></extra>",
            }
            for c, name in enumerate(classes)
        ]
    low, high = frame(y, 0.0)
    return [
        {
            **common,
            "name": "data",
            "x": typed(X[:, 0]),
            "y": typed(X[:, 1]),
            "customdata": typed(rows, "i4"),
            "marker": {
                "color": typed(y),
                "cmin": low,
                "cmax": high,
                "colorscale": even_scale(SCALE),
                "size": 6,
                "line": {"color": ink.paper, "width": 0.8},
            },
            "hovertemplate": plain(y_name)
            + " %{marker.color:.3g}, row %{customdata}, at (%{x:.3g}, %{y:.3g})<extra></extra>",
        }
    ]


def _plane_layout(names: tuple[str, ...], ink: Ink, height: int) -> dict:
    layout = plot(ink, height, plain(names[0]), plain(names[1]), showlegend=False)
    return layout


def _small_axis(ink: Ink, title: str, **more) -> dict:
    axis = labelled_axis(ink, plain(title), nticks=5, **more)
    axis["title"] |= {"font": {"size": 11}, "standoff": 2}
    return axis | {"tickfont": {"size": 10}}


def _on(suffix: str) -> dict:
    return {"xaxis": "x" + suffix, "yaxis": "y" + suffix}


def _passing(view: View2D, grid: np.ndarray, points: np.ndarray, suffix: str, ink: Ink):
    """The grid's lines and the data's points in one of the two spaces."""
    half = len(grid) // 2
    first, second = view.input_names
    side = "leaving" if suffix else "entering"
    traces = []
    for part, name, shade, dash in (
        (grid[:half], f"lines along {plain(first)}, {side}", tint(DEEP, 0.55), ""),
        (grid[half:], f"lines along {plain(second)}, {side}", DRAW, "dot"),
    ):
        gaps = np.full((len(part), 1, 2), np.nan)
        path = np.concatenate([part, gaps], 1).reshape(-1, 2)
        traces.append(curve(path[:, 0], path[:, 1], name, shade, 1, dash=dash, **_on(suffix)))
    return [*traces, _followed(view, points, suffix, side, ink)]


def _followed(view: View2D, points: np.ndarray, suffix: str, side: str, ink: Ink) -> dict:
    """Points in the colour of where they started, with their row's number; a symbol a class."""
    shown = evenly(len(points), FOLLOWED)
    starts = view.data_x[shown]
    marker = {
        "color": start_colours(starts, view.a, view.b),
        "size": 5,
        "line": {"color": ink.paper, "width": 0.4},
    }
    if view.classes:
        marker["symbol"] = [symbol(int(c)) for c in view.data_y[shown]]
    first, second = (plain(name) for name in view.input_names)
    return {
        "type": "scatter",
        "mode": "markers",
        **_on(suffix),
        "name": f"data {side}",
        "x": typed(points[shown, 0]),
        "y": typed(points[shown, 1]),
        "customdata": typed(np.column_stack([view.rows[shown], starts])),
        "marker": marker,
        "hovertemplate": "row %{customdata[0]:.0f}, started at "
        + f"{first} %{{customdata[1]:.3g}}, {second} %{{customdata[2]:.3g}}<extra></extra>",
    }


def _inducing(places: np.ndarray | None, name: str, suffix: str, ink: Ink) -> list[dict]:
    if places is None:
        return []
    hover = name + " (%{x:.3g}, %{y:.3g})"
    return [scatter(places[:, 0], places[:, 1], name, triangle(ink, 6), hover, **_on(suffix))]


def _own_map(view: View2D, layer: WarpPanel, ink: Ink) -> list[dict]:
    """The layer's reading over what enters, in the colours of the prediction."""
    assert layer.map_value is not None
    assert layer.map_a is not None and layer.map_b is not None
    last = layer is view.layers[-1]
    words = view.value_name if last else "what leaves"
    common = {"x": typed(layer.map_a), "y": typed(layer.map_b), "showscale": False, **_on("2")}
    if layer.map_winner is not None:
        regions = _regions(
            layer.map_a, layer.map_b, layer.map_winner, layer.map_value, view.classes, ink
        )
        return [region | _on("2") for region in regions]
    surface = {
        **common,
        "type": "contour",
        "name": f"map: {plain(words)}",
        "z": typed(layer.map_value),
        "line": {"width": 0.8, "color": tint(ink.text, 0.6)},
        "hovertemplate": plain(words) + " %{z:.3g}<extra></extra>",
    }
    if last and view.classes:
        low, high, scale = 0.0, 1.0, [tint(colour(0), 0.8), ink.paper, tint(colour(1), 0.8)]
    else:
        shown = view.data_y if last else layer.map_value
        (low, high), scale = frame(shown, 0.0), [tint(c, 0.75) for c in SCALE]
    surface |= {"zmin": low, "zmax": high, "colorscale": even_scale(scale)}
    surface["contours"] = _contours("heatmap", ink, _levels(low, high, 4))
    surface["contours"]["labelfont"]["size"] = 9
    return [surface]
