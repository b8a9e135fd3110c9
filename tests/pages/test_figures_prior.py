"""Pictures of deep priors: what they show, in words, in both inks."""

import numpy as np
import pytest

from dgp_core.live.views.prior import prior_view, warped_grid
from pages.figures.palette import DARK, LIGHT
from pages.figures.prior import (
    correlation_figure,
    draws_figure,
    information_figure,
    slope_figure,
    spread_figure,
    warp_figure,
)
from tests.pages.test_figures_mixture import checked, titles, values


@pytest.fixture(scope="module")
def both():
    return tuple(prior_view(4, mean, 1.0, 0.5, 6, 60) for mean in ("zero", "linear"))


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_draws_of_one_depth(both, ink):
    figure = draws_figure(both[0], 3, ink)
    traces = checked(figure)
    assert titles(figure) == ("x", "f(x) after 3 layers")
    np.testing.assert_allclose(
        values(traces["one of them"]["y"]), both[0].functions[2, 0], rtol=1e-5, atol=1e-6
    )
    assert titles(draws_figure(both[0], 1, ink))[1] == "f(x) after 1 layer"


def test_the_density_of_the_slope(both):
    figure = slope_figure(both, 4, LIGHT)
    traces = checked(figure)
    assert list(traces) == ["one layer", "zero mean, 4 layers", "linear mean, 4 layers"]
    for trace in traces.values():
        assert np.trapezoid(values(trace["y"]), values(trace["x"])) == pytest.approx(1.0, abs=1e-3)
    assert len({t["line"]["dash"] for t in traces.values()}) == 3
    assert "log |slope" in titles(figure)[0]
    assert list(checked(slope_figure(both, 1, LIGHT))) == [
        "zero mean, 1 layer",
        "linear mean, 1 layer",
    ]


def test_by_depth(both):
    for figure, field in (
        (information_figure(both, DARK), "distinct"),
        (spread_figure(both, DARK), "log_slope_deviation"),
    ):
        traces = checked(figure)
        assert titles(figure)[0] == "layers"
        np.testing.assert_array_equal(values(traces["zero mean"]["x"]), [1, 2, 3, 4])
        np.testing.assert_allclose(
            values(traces["zero mean"]["y"]), getattr(both[0], field), rtol=1e-6
        )
    traces = checked(correlation_figure(both, 2, DARK))
    assert all(values(trace["y"])[0] == pytest.approx(1.0) for trace in traces.values())


def test_a_warped_grid():
    grid = warped_grid(2, "linear", 1.0, 0.4, 5, 11)
    for depth in (0, 2):
        figure = warp_figure(grid, depth, LIGHT)
        checked(figure)
        assert len(figure["data"]) == 10
        for k, trace in enumerate(figure["data"]):
            xy = np.stack([values(trace["x"]), values(trace["y"])], 1)
            np.testing.assert_allclose(xy, grid.lines[depth, k], rtol=1e-5, atol=1e-6)
            assert trace["line"]["dash"] == ("solid" if k < 5 else "dot")
            assert trace["customdata"][0].startswith("first input" if k < 5 else "second input")
    assert titles(warp_figure(grid, 0, LIGHT)) == ("first input", "second input")
    assert titles(figure)[0] == "first output of layer 2"
