"""Pictures of layers: what they show, in words, in both inks."""

from dataclasses import replace

import numpy as np
import pytest

from dgp_core.gp.model import ModelSpec
from dgp_core.live.views.layers import layer_history, layers_in_depth, without_layers
from pages.figures.layers import (
    HISTORY_TITLES,
    history_figure,
    map_figure,
    passage_figure,
    removal_figure,
    without_figure,
)
from pages.figures.marks import log_ticks
from pages.figures.palette import DARK, LIGHT
from tests.live.views.test_mixture import curve, moment
from tests.pages.test_figures_mixture import checked, titles, values

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def two(quick_compilation):  # noqa: F811
    run, snapshot = moment(curve(), ModelSpec(layers=2, inducing=7))
    run._history = [snapshot, replace(snapshot, step=90)]
    return run, snapshot


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_a_map_with_its_inducing_points(two, ink):
    first, last = layers_in_depth(*two)
    figure = map_figure(first, ink)
    traces = checked(figure)
    assert titles(figure) == ("enters: t0", "leaves: output 1 of layer 1")
    assert set(traces) == {"map ± 2σ", "mean of the map", "inducing points, q(u) ± 2σ"}
    points = traces["inducing points, q(u) ± 2σ"]
    assert points["marker"]["symbol"] == "triangle-up" and len(values(points["x"])) == 7
    np.testing.assert_allclose(values(points["error_y"]["array"]), 2 * first.u_sd[:, 0], rtol=1e-6)
    G = first.map_x.shape[1]
    edge = values(traces["map ± 2σ"]["y"])
    width = edge[G:][::-1] - edge[:G]
    np.testing.assert_allclose(width, 4 * first.map_sd[0, :, 0], rtol=1e-3, atol=1e-4)
    assert titles(map_figure(last, ink)) == ("enters: output 1 of layer 1", "leaves: y")


def test_samples_enter_and_leave(two):
    first, _ = layers_in_depth(*two)
    figure = passage_figure(first, LIGHT)
    traces = checked(figure)
    left, right = traces["8 samples"], traces["the same, one layer on"]
    assert (right["xaxis"], right["yaxis"]) == ("x2", "y2")
    drawn = values(right["y"]).reshape(8, -1)[:, :-1]
    np.testing.assert_allclose(drawn, first.leaving[:, :, 0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(values(left["y"])[:120], first.x, rtol=1e-6)
    assert figure["layout"]["yaxis2"]["title"]["text"] == "leaves: output 1 of layer 1"


def test_with_more_inputs_a_map_says_where_the_others_are(two):
    first, _ = layers_in_depth(*two)

    def twice(a: np.ndarray, axis: int) -> np.ndarray:
        return np.concatenate([a, 2 * a], axis)

    wide = replace(
        first,
        x=None,
        names_in=("t0", "t1"),
        names_out=("a", "b"),
        entering=twice(first.entering, 2),
        leaving=twice(first.leaving, 2),
        map_x=twice(first.map_x, 0),
        map_mean=twice(twice(first.map_mean, 0), 2),
        map_sd=twice(twice(first.map_sd, 0), 2),
        inducing=twice(first.inducing, 1),
        u_mean=twice(first.u_mean, 1),
        u_sd=twice(first.u_sd, 1),
    )
    figure = map_figure(wide, LIGHT, input_index=1, output_index=1)
    assert titles(figure) == ("enters: t1 (other inputs at their middle)", "leaves: b")
    trace = checked(figure)["mean of the map"]
    np.testing.assert_allclose(values(trace["x"]), 2 * first.map_x[0], rtol=1e-6)
    np.testing.assert_allclose(
        values(trace["y"]), 4 * first.map_mean[0, :, 0], rtol=1e-5, atol=1e-6
    )
    (dots,) = checked(passage_figure(wide, LIGHT, input_index=1)).values()
    assert "rows of the data" in dots["name"] and dots["mode"] == "markers"
    np.testing.assert_allclose(values(dots["x"]), 2 * first.entering.ravel(), rtol=1e-6)
    answer = replace(without_layers(*two), x=None)
    empty = without_figure(answer, 0, LIGHT)
    assert not empty["data"] and "one input" in empty["layout"]["annotations"][0]["text"]


@pytest.mark.parametrize("what", list(HISTORY_TITLES))
def test_history_by_layer(two, what):
    history = layer_history(two[0])
    figure = history_figure(history, what, DARK)
    traces = checked(figure)
    assert titles(figure) == ("step (log scale)", HISTORY_TITLES[what])
    looks = {(t["line"]["color"], t["line"]["dash"]) for t in traces.values()}
    assert len(looks) == len(traces) == 2
    for trace in traces.values():
        np.testing.assert_array_equal(values(trace["x"]), [7, 90])
    if what == "noise":
        assert any("likelihood, in units of y" in name for name in traces)
    if what == "lengthscales":
        assert "layer 1 of 2, t0" in traces


@pytest.mark.parametrize(
    ("values", "dtick"),
    [([1.0, 3.0], None), ([0.2, 1.1], "D2"), ([0.01, 0.0, np.nan, 100.0], 1), ([0.0], None)],
)
def test_numbers_on_a_log_axis_keep_clear_of_each_other(values, dtick):
    """With 1, 2 and 5 there are always two of them, and never more than nine."""
    ticks = log_ticks(np.array(values))
    assert ticks["type"] == "log" and ticks.get("dtick") == dtick


def test_what_a_layer_is_worth(two):
    run, snapshot = two
    answer = without_layers(run, snapshot)
    figure = removal_figure(answer, LIGHT)
    fit, kl, change = figure["data"]
    checked(figure)
    assert fit["y"][0] + kl["y"][0] == pytest.approx(change["y"][0])
    assert change["error_y"]["array"] == [pytest.approx(2 * answer.without[0].change_error)]
    assert "nats" in titles(figure)[1] and fit["x"] == ["without layer 1 of 2"]
    data = (run.dataset.X[:, 1], run.dataset.Y[:, 0])
    figure = without_figure(answer, 0, LIGHT, data=data)
    traces = checked(figure)
    assert titles(figure) == ("t0", "y") and "data" in traces
    whole, less = traces["whole model"], traces["without layer 1 of 2"]
    assert whole["line"]["dash"] != less["line"]["dash"]
    np.testing.assert_allclose(values(less["y"]), answer.without[0].mean, rtol=1e-5)
