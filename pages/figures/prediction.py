"""A model's prediction along one input: data, quantile bands, mean and function draws."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from pages.figures.palette import DEEP, DRAW, FONT, LIGHT, SINGLE, Ink, tint

LEVELS = (0.025, 0.25, 0.75, 0.975)
"""The quantiles that bound the two bands, lowest first."""


@dataclass(frozen=True, eq=False)
class DataView:
    """Data along one input, in the user's units, and the frame that every picture of it shares."""

    x: np.ndarray
    """Inputs (N,)."""
    y: np.ndarray
    """Outputs (N,)."""
    x_name: str
    y_name: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]


@dataclass(frozen=True, eq=False)
class PredictionView:
    """What one model says along the input, on a grid of G places."""

    data: DataView
    layers: int
    grid: np.ndarray
    """Places (G,)."""
    mean: np.ndarray
    """Mean of the predictive mixture (G,)."""
    quantiles: np.ndarray
    """Quantiles of the predictive mixture at `LEVELS` (4, G)."""
    draws: np.ndarray
    """Coherent function draws, without noise (S, G)."""


def frame(data: np.ndarray, margin: float) -> tuple[float, float]:
    """The range of some values, and a margin on both sides as a share of it."""
    low, high = float(np.min(data)), float(np.max(data))
    room = margin * ((high - low) or 1.0)
    return low - room, high + room


def data_figure(view: DataView, ink: Ink = LIGHT) -> go.Figure:
    """The data alone."""
    return _framed(go.Figure(_dots(view, ink)), view, ink)


def prediction_figure(view: PredictionView, ink: Ink = LIGHT) -> go.Figure:
    """One model's prediction: solid and blue for a deep model, dashed and orange for one layer."""
    colour, dash = (DEEP, "solid") if view.layers > 1 else (SINGLE, "dash")
    low, lower, upper, high = view.quantiles
    figure = go.Figure(
        [
            _band(view.grid, low, high, "middle 95 %", tint(colour, 0.18)),
            _band(view.grid, lower, upper, "middle 50 %", tint(colour, 0.34)),
            _draws(view.grid, view.draws),
            _casing(view.grid, view.mean, ink),
            go.Scatter(
                x=view.grid,
                y=view.mean,
                name="mean",
                mode="lines",
                line={"color": colour, "width": 2.6, "dash": dash},
                hovertemplate="mean %{y:.3g}<extra></extra>",
            ),
            _dots(view.data, ink),
        ]
    )
    return _framed(figure, view.data, ink)


def _dots(view: DataView, ink: Ink) -> go.Scatter:
    return go.Scatter(
        x=view.x,
        y=view.y,
        name="data",
        mode="markers",
        marker={
            "color": tint(ink.data, 0.85),
            "size": 6 if len(view.x) <= 150 else 4,
            "line": {"color": ink.paper, "width": 0.5},
        },
        hovertemplate="data (%{x:.3g}, %{y:.3g})<extra></extra>",
    )


def _band(grid: np.ndarray, low: np.ndarray, high: np.ndarray, name: str, fill: str) -> go.Scatter:
    """One closed outline: there along the lower edge, back along the upper."""
    return go.Scatter(
        x=np.concatenate([grid, grid[::-1]]),
        y=np.concatenate([low, high[::-1]]),
        name=name,
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=fill,
        hoverinfo="skip",
    )


def _draws(grid: np.ndarray, draws: np.ndarray) -> go.Scatter:
    """All draws as one trace, with a gap after each."""
    gap = np.full((len(draws), 1), np.nan)
    return go.Scatter(
        x=np.tile(np.append(grid, np.nan), len(draws)),
        y=np.concatenate([draws, gap], 1).ravel(),
        name=f"{len(draws)} function draws",
        mode="lines",
        line={"color": tint(DRAW, 0.6), "width": 1},
        hoverinfo="skip",
    )


def _casing(grid: np.ndarray, mean: np.ndarray, ink: Ink) -> go.Scatter:
    """The page's own colour under the mean, which so stays clear of the draws that it crosses."""
    line = {"color": tint(ink.paper, 0.8), "width": 5.5}
    return go.Scatter(x=grid, y=mean, mode="lines", line=line, hoverinfo="skip", showlegend=False)


def _framed(figure: go.Figure, view: DataView, ink: Ink) -> go.Figure:
    """Axes in words, and every colour set, since nothing else may choose one."""
    axis = {
        "gridcolor": ink.grid,
        "zeroline": False,
        "linecolor": ink.grid,
        "showline": True,
        "automargin": True,
        "title": {"font": {"size": 14}, "standoff": 8},
    }
    figure.update_layout(
        height=390,
        margin={"l": 0, "r": 4, "t": 0, "b": 0},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": FONT, "size": 13, "color": ink.text},
        hoverlabel={"bgcolor": ink.paper, "font": {"color": ink.text}},
        legend={"orientation": "h", "x": 0, "y": 1.01, "yanchor": "bottom"},
        showlegend=True,
        dragmode=False,
        uirevision="kept",
        xaxis={**axis, "range": view.x_range},
        yaxis={**axis, "range": view.y_range},
    )
    figure.update_xaxes(title_text=view.x_name)
    figure.update_yaxes(title_text=view.y_name)
    return figure
