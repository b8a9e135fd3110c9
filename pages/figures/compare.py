"""Figures of "Compare": models side by side on one data set, and their scores on one scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dgp_core.evaluation.comparison import Estimate
from dgp_core.evaluation.forecast import Forecast, Predictor
from dgp_core.gp.data import Dataset
from dgp_core.tables.plain import plain
from pages.figures.collection import CLASS_MARKS
from pages.figures.marks import base_layout, evenly, labelled_axis, plot, scatter
from pages.figures.palette import DEEP, INDUCING, SINGLE, Ink, tint
from pages.figures.your_data import area

GRID = 120
SIDE = 36
"""Cells along each side of a map."""
MOST_DOTS = 600
HEIGHT = 250


def look_of(model: str) -> tuple[str, str, str]:
    """A model's colour, dash and symbol."""
    if model.startswith("dgp"):
        return DEEP, "solid", "circle"
    return {
        "linear": ("#7A6A9B", "dot", "square"),
        "exact": (INDUCING, "dashdot", "triangle-up"),
        "sgp5": ("#CC79A7", "longdash", "cross"),
    }.get(model, (SINGLE, "dash", "diamond"))


@dataclass(frozen=True, eq=False)
class Surface:
    """A model's predictions along one input, or over a grid of two."""

    x: np.ndarray
    y: np.ndarray | None
    """None where there is one input."""
    forecast: Forecast


def has_surface(dataset: Dataset) -> bool:
    """Whether predictions can be drawn over the inputs."""
    return dataset.X.shape[1] <= 2


def surface(predictor: Predictor, dataset: Dataset) -> Surface:
    """A model's forecast over the range of the data, and a tenth of it beyond on both sides."""
    low, high = dataset.X.min(0), dataset.X.max(0)
    room = np.where(high > low, 0.1 * (high - low), 1.0)
    n = GRID if dataset.X.shape[1] == 1 else SIDE
    sides = [np.linspace(a, b, n) for a, b in zip(low - room, high + room, strict=True)]
    X = np.stack(np.meshgrid(*sides), -1).reshape(-1, len(sides))
    rows = Dataset(
        "grid",
        X,
        np.zeros((len(X), dataset.Y.shape[1])),
        dataset.input_names,
        dataset.output_names,
        dataset.task,
        "",
        dataset.classes,
    )
    return Surface(sides[0], sides[1] if len(sides) > 1 else None, predictor(rows))


def surface_figure(surface: Surface, dataset: Dataset, model: str, ink: Ink) -> dict:
    """A model's prediction over the inputs, with the rows."""
    return (_curve if surface.y is None else _map)(surface, dataset, model, ink)


def _curve(surface: Surface, dataset: Dataset, model: str, ink: Ink) -> dict:
    colour, dash, _ = look_of(model)
    rows, forecast = evenly(len(dataset), MOST_DOTS), surface.forecast
    y = dataset.Y[rows, 0]
    layout = _layout(dataset.input_names[0], dataset.output_names[0], ink)
    traces = []
    if forecast.probabilities is not None:
        shown = [1] if len(dataset.classes) == 2 else range(len(dataset.classes))
        for c in shown:
            own, mark = CLASS_MARKS[c % len(CLASS_MARKS)] if len(shown) > 1 else (colour, "circle")
            name = plain(dataset.classes[c], 24)
            traces.append(_line(surface.x, forecast.probabilities[:, c], name, own, dash))
        y = y / max(1, len(dataset.classes) - 1)
        layout["yaxis"]["title"]["text"] = "probability"
    else:
        assert forecast.mean is not None and forecast.low is not None and forecast.high is not None
        there_and_back = np.concatenate([surface.x, surface.x[::-1]])
        band = np.concatenate([forecast.low[:, 0], forecast.high[::-1, 0]])
        traces += [
            area(there_and_back, band, "90 % of new points", tint(colour, 0.2)),
            _line(surface.x, forecast.mean[:, 0], "mean", colour, dash),
        ]
        low, high = float(dataset.Y[:, 0].min()), float(dataset.Y[:, 0].max())
        room = 0.3 * ((high - low) or 1.0)
        layout["yaxis"]["range"] = [low - room, high + room]
    traces.append(_dots(dataset.X[rows, 0], y, ink.data, "circle"))
    return {"data": traces, "layout": layout}


def _map(surface: Surface, dataset: Dataset, model: str, ink: Ink) -> dict:
    rows, forecast = evenly(len(dataset), MOST_DOTS), surface.forecast
    assert surface.y is not None
    shape = (len(surface.y), len(surface.x))
    layout = _layout(dataset.input_names[0], dataset.input_names[1], ink)
    shade = {
        "type": "heatmap",
        "x": surface.x,
        "y": surface.y,
        "zsmooth": "best",
        "hoverinfo": "skip",
    }
    X, y = dataset.X[rows], dataset.Y[rows, 0]
    dots = []
    for code in range(len(dataset.classes)):
        own, mark = CLASS_MARKS[code % len(CLASS_MARKS)]
        of = y == code
        dots.append(_dots(X[of, 0], X[of, 1], own, mark))
    if forecast.probabilities is None:
        assert forecast.mean is not None
        z = forecast.mean[:, 0].reshape(shape)
        shade |= {"colorscale": "Cividis", "zmin": dataset.Y.min(), "zmax": dataset.Y.max()}
        bar = {"title": {"text": plain(dataset.output_names[0], 24), "side": "right"}}
        shade |= {"name": "mean", "colorbar": {**bar, "thickness": 10}}
    elif len(dataset.classes) == 2:
        z = forecast.probabilities[:, 1].reshape(shape)
        ends = [[0, tint(CLASS_MARKS[0][0], 0.75)], [0.5, ink.paper]]
        shade |= {"colorscale": [*ends, [1, tint(CLASS_MARKS[1][0], 0.75)]], "zmin": 0, "zmax": 1}
        title = {"text": f"probability of {plain(dataset.classes[1], 20)}", "side": "right"}
        shade |= {"name": "probability", "colorbar": {"title": title, "thickness": 10}}
    else:
        C = len(dataset.classes)
        z = forecast.probabilities.argmax(1).reshape(shape).astype(float)
        steps = [
            [(c + side) / C, tint(CLASS_MARKS[c % len(CLASS_MARKS)][0], 0.45)]
            for c in range(C)
            for side in (0, 1)
        ]
        shade |= {"colorscale": steps, "zmin": -0.5, "zmax": C - 0.5, "showscale": False}
        shade |= {"name": "likeliest class", "zsmooth": False}
    return {
        "data": [{**shade, "z": np.ascontiguousarray(z)}, *dots],
        "layout": layout | {"showlegend": False},
    }


def ladder_figure(
    scored: dict[str, dict[str, Estimate]], titles: dict[str, str], score: str, words: str, ink: Ink
) -> dict:
    """One score of every model with ± 1 standard error, on one scale."""
    names: Sequence[str] = list(scored)
    places = np.arange(len(names))
    layout = base_layout(ink, 70 + 30 * max(3, len(names))) | {"showlegend": False}
    layout["xaxis"] = labelled_axis(ink, words)
    layout["yaxis"] = labelled_axis(
        ink,
        "",
        tickvals=places,
        ticktext=[plain(titles[name], 40) for name in names],
        range=[len(names) - 0.5, -0.5],
        showgrid=False,
    )
    traces = []
    for place, name in zip(places, names, strict=True):
        colour, _, mark = look_of(name)
        one = scored[name][score]
        error = one.error if np.isfinite(one.error) else 0.0
        bar = {"type": "data", "array": np.array([error]), "color": colour}
        traces.append(
            scatter(
                np.array([one.value]),
                np.array([float(place)]),
                plain(titles[name], 40),
                {"color": colour, "size": 11, "symbol": mark},
                "%{x:.4g}",
                packed=False,
                error_x=bar,
            )
        )
    return {"data": traces, "layout": layout}


def _layout(x: str, y: str, ink: Ink) -> dict:
    return plot(ink, HEIGHT, plain(x, 40), plain(y, 40), showlegend=False)


def _line(x, y, name: str, colour: str, dash: str) -> dict:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": np.ascontiguousarray(y),
        "line": {"color": colour, "width": 2.5, "dash": dash},
        "hovertemplate": "%{x:.3g}: %{y:.3g}<extra></extra>",
    }


def _dots(x, y, colour: str, mark: str) -> dict:
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    marker = {"color": tint(colour, 0.65), "size": 4.5, "symbol": mark}
    return scatter(x, y, "data", marker, packed=False)
