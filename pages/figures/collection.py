"""What the rows of a data set look like, whatever their shape."""

import numpy as np
import plotly.graph_objects as go

from dgp_core.gp.data import Dataset
from dgp_core.tables.plain import plain
from pages.figures.marks import evenly, tally
from pages.figures.palette import DEEP, DRAW, FONT, INDUCING, SINGLE, Ink

CLASS_MARKS = (
    (DEEP, "circle"),
    (SINGLE, "diamond"),
    (INDUCING, "triangle-up"),
    (DRAW, "square"),
    ("#CC79A7", "cross"),
    ("#E69F00", "x"),
)
"""A colour and a mark for each class, never a colour alone."""
MOST_DOTS = 2000
PICTURES = 12


def rows_figure(dataset: Dataset, image: tuple[int, int] | None, ink: Ink) -> go.Figure:
    """One input: y over x. Two: their plane. Pictures: some of them. More: how y is spread."""
    if image is not None:
        figure = _pictures(dataset, image)
    elif dataset.X.shape[1] == 1:
        figure = _scatter(dataset, dataset.X[:, 0], dataset.Y[:, 0], dataset.output_names[0], ink)
    elif dataset.X.shape[1] == 2 and dataset.classes:
        figure = _scatter(dataset, dataset.X[:, 0], dataset.X[:, 1], dataset.input_names[1], ink)
    elif dataset.X.shape[1] == 2:
        figure = _height(dataset)
    else:
        figure = _spread(dataset, ink)
    figure.update_layout(
        template="none",
        height=380,
        margin=dict(l=60, r=20, t=20, b=55),
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font=dict(family=FONT, color=ink.text, size=14),
        legend=dict(orientation="h", y=1.02, yanchor="bottom"),
    )
    figure.update_xaxes(gridcolor=ink.grid, zeroline=False)
    figure.update_yaxes(gridcolor=ink.grid, zeroline=False)
    return figure


def _scatter(dataset: Dataset, x, y, y_name: str, ink: Ink) -> go.Figure:
    rows = evenly(len(dataset), MOST_DOTS)
    figure = go.Figure()
    if not dataset.classes:
        dots = dict(color=ink.data, size=6, opacity=0.75)
        figure.add_scatter(x=x[rows], y=y[rows], mode="markers", marker=dots, name="data")
    for code, label in enumerate(dataset.classes):
        of_class = rows[dataset.Y[rows, 0] == code]
        colour, mark = CLASS_MARKS[code % len(CLASS_MARKS)]
        figure.add_scatter(
            x=x[of_class],
            y=y[of_class],
            mode="markers",
            marker=dict(color=colour, symbol=mark, size=7, opacity=0.75),
            name=plain(label),
        )
    figure.update_xaxes(title=plain(dataset.input_names[0]))
    return figure.update_yaxes(title=plain(y_name))


def _height(dataset: Dataset) -> go.Figure:
    rows = evenly(len(dataset), MOST_DOTS)
    bar = dict(title=plain(dataset.output_names[0]))
    marker = dict(color=dataset.Y[rows, 0], colorscale="Cividis", size=8, colorbar=bar)
    figure = go.Figure(
        go.Scatter(x=dataset.X[rows, 0], y=dataset.X[rows, 1], mode="markers", marker=marker)
    )
    figure.update_xaxes(title=plain(dataset.input_names[0]))
    return figure.update_yaxes(title=plain(dataset.input_names[1]))


def _spread(dataset: Dataset, ink: Ink) -> go.Figure:
    y = dataset.Y[:, 0]
    if dataset.classes:
        counts = [int(np.sum(y == code)) for code in range(len(dataset.classes))]
        figure = go.Figure(go.Bar(x=[plain(c) for c in dataset.classes], y=counts))
    else:
        middle, counts, width = tally(y, 40)
        figure = go.Figure(go.Bar(x=middle, y=counts, width=width))
    figure.update_traces(marker=dict(color=DEEP, line=dict(color=ink.paper, width=1)))
    figure.update_xaxes(title=plain(dataset.output_names[0]))
    return figure.update_yaxes(title="rows")


def _pictures(dataset: Dataset, image: tuple[int, int]) -> go.Figure:
    """Pictures of every class in two rows, light on dark, with a gap between them."""
    height, width = image
    rows = np.argsort(dataset.Y[:, 0], kind="stable")
    rows = rows[np.linspace(0, len(rows) - 1, PICTURES).astype(int)]
    shots = dataset.X[rows].reshape(2, PICTURES // 2, height, width)
    gap = ((0, 0), (0, 0), (0, 1), (0, 1))
    shots = np.pad(shots, gap, constant_values=np.nan)
    sheet = np.concatenate([np.concatenate(list(line), 1) for line in shots], 0)
    figure = go.Figure(go.Heatmap(z=sheet, colorscale="Greys", reversescale=True, showscale=False))
    figure.update_yaxes(autorange="reversed", scaleanchor="x", visible=False)
    return figure.update_xaxes(visible=False)
