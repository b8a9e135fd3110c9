"""The prediction picture shows what its view holds, named in words."""

import numpy as np
import pytest

from pages.figures.palette import DARK, DEEP, LIGHT, SINGLE, tint
from pages.figures.prediction import (
    DataView,
    PredictionView,
    data_figure,
    frame,
    prediction_figure,
)


@pytest.fixture
def data() -> DataView:
    x = np.array([0.0, 1.0, 2.0])
    return DataView(x, x**2, "input time", "output height", (-0.5, 2.5), (-1.0, 5.0))


def view(data: DataView, layers: int) -> PredictionView:
    grid = np.linspace(-0.5, 2.5, 7)
    mean = grid**2
    quantiles = mean + np.array([-2.0, -1.0, 1.0, 2.0])[:, None]
    draws = mean + np.array([-0.3, 0.4])[:, None]
    return PredictionView(data, layers, grid, mean, quantiles, draws)


def traces(figure) -> dict:
    return {trace.name: trace for trace in figure.data if trace.name}


def test_every_part_is_there_and_named(data):
    seen = traces(prediction_figure(view(data, 2)))
    assert list(seen) == ["middle 95 %", "middle 50 %", "2 function draws", "mean", "data"]
    np.testing.assert_array_equal(seen["data"].x, data.x)
    np.testing.assert_array_equal(seen["data"].y, data.y)


def test_bands_lie_between_their_quantiles(data):
    shown = view(data, 2)
    seen = traces(prediction_figure(shown))
    for name, low, high in (("middle 95 %", 0, 3), ("middle 50 %", 1, 2)):
        there, back = np.split(np.asarray(seen[name].y), 2)
        np.testing.assert_array_equal(there, shown.quantiles[low])
        np.testing.assert_array_equal(back[::-1], shown.quantiles[high])
        assert seen[name].fill == "toself"


def test_draws_are_lines_with_gaps_between_them(data):
    shown = view(data, 2)
    trace = traces(prediction_figure(shown))["2 function draws"]
    lines = np.asarray(trace.y).reshape(2, -1)
    np.testing.assert_array_equal(lines[:, :-1], shown.draws)
    assert np.isnan(lines[:, -1]).all()


def test_models_differ_in_colour_and_in_stroke(data):
    deep = traces(prediction_figure(view(data, 3)))["mean"].line
    single = traces(prediction_figure(view(data, 1)))["mean"].line
    assert (deep.color, deep.dash) == (DEEP, "solid")
    assert (single.color, single.dash) == (SINGLE, "dash")


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_axes_are_in_words_and_shared(data, ink):
    for figure in (data_figure(data, ink), prediction_figure(view(data, 1), ink)):
        layout = figure.layout
        assert (
            layout.xaxis.title.text == "input time" and layout.yaxis.title.text == "output height"
        )
        assert layout.xaxis.range == (-0.5, 2.5) and layout.yaxis.range == (-1.0, 5.0)
        assert layout.font.color == ink.text


def test_frame_leaves_room_even_around_one_value():
    assert frame(np.array([0.0, 10.0]), 0.1) == (-1.0, 11.0)
    assert frame(np.array([3.0, 3.0]), 0.5) == (2.5, 3.5)


def test_tint_keeps_the_colour():
    assert tint("#0072B2", 0.25) == "rgba(0,114,178,0.25)"
