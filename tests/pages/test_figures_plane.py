"""Pictures of two inputs, from views small enough to write down."""

import base64
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from dgp_core.live.views.playground import PlanePanel, View2D, WarpPanel
from pages.figures.palette import DARK, LIGHT
from pages.figures.plane import (
    map_figure,
    plane_data_figure,
    plane_legend,
    recorded_map,
    start_colours,
    warp_figure,
)

A, B, R = 7, 5, 12


def values(spec: dict) -> np.ndarray:
    """What `typed` packed."""
    flat = np.frombuffer(base64.b64decode(spec["bdata"]), spec["dtype"])
    return flat.reshape([int(n) for n in spec["shape"].split(",")]) if "shape" in spec else flat


def checked(figure: dict) -> dict[str, dict]:
    """The traces by name, once Plotly's own validation has passed them."""
    go.Figure(figure)
    return {trace["name"]: trace for trace in figure["data"]}


def titles(figure: dict) -> dict[str, str]:
    axes = {k: v for k, v in figure["layout"].items() if k.startswith(("xaxis", "yaxis"))}
    return {k: v["title"]["text"] for k, v in axes.items()}


def tiny(classes: tuple[str, ...] = ()) -> View2D:
    rng = np.random.default_rng(0)
    C = len(classes)
    probabilities = rng.dirichlet(np.ones(C), (B, A)).transpose(2, 0, 1) if C else None
    value = rng.normal(size=(B, A)) if probabilities is None else probabilities[min(C, 2) - 1]
    winner = None
    if probabilities is not None and C > 2:
        winner, value = probabilities.argmax(0), probabilities.max(0)
    panel = PlanePanel(
        value=value,
        winner=winner,
        probabilities=probabilities,
        doubt=rng.uniform(0.1, 1, (B, A)),
        inducing=rng.uniform(size=(4, 2)),
        bound=-3.0,
        fit=-1.0,
        kl=(1.0, 1.0),
    )
    grid, points = rng.normal(size=(6, 5, 2)), rng.normal(size=(R, 2))
    inner = WarpPanel(
        lines_in=grid,
        lines_out=grid + 1,
        points_in=points,
        points_out=points + 1,
        names_in=("mass (kg)", "b"),
        names_out=("what leaves (1)", "what leaves (2)"),
        inducing=rng.normal(size=(4, 2)),
        u_mean=rng.normal(size=(4, 2)),
        map_a=None,
        map_b=None,
        map_value=None,
        map_winner=None,
        width_in=2,
        width_out=2,
        departure=0.3,
        kl=1.0,
        title="layer 1 of 2",
    )
    last = replace(
        inner,
        names_in=inner.names_out,
        map_a=np.arange(3.0),
        map_b=np.arange(3.0),
        map_value=rng.uniform(0.4, 1, (3, 3)),
        map_winner=np.arange(9).reshape(3, 3) % C if C > 2 else None,
        title="layer 2 of 2",
    )
    return View2D(
        step=3,
        a=np.linspace(0, 1, A),
        b=np.linspace(-1, 1, B),
        input_names=("mass (kg)", "b"),
        y_name="y",
        value_name=f"probability of {classes[1]}" if C == 2 else "mean of y",
        doubt_name="deviation of a new y",
        rows=np.arange(R) * 2,
        n_rows=2 * R,
        data_x=rng.uniform(size=(R, 2)),
        data_y=np.arange(R) % C if C else rng.normal(size=R),
        classes=classes,
        deep=panel,
        rival=replace(panel, value=0.5 * value, doubt=2 * panel.doubt),
        layers=(inner, last),
    )


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_a_map_of_measurements_has_labelled_contours_on_one_scale(ink):
    view = tiny()
    deep, rival = (map_figure(view, p, p is view.deep, False, ink) for p in (view.deep, view.rival))
    assert deep["layout"] == rival["layout"] and deep["layout"]["height"] == 285
    assert titles(deep) == {"xaxis": "mass &#40;kg&#41;", "yaxis": "b"}
    a, b = checked(deep), checked(rival)
    assert a.keys() == {"mean of y", "data", "inducing points"} == b.keys()
    surface, other = a["mean of y"], b["mean of y"]
    assert surface["contours"]["showlabels"] and surface["colorbar"]["title"]["text"] == "mean of y"
    assert (surface["zmin"], surface["zmax"]) == (other["zmin"], other["zmax"])
    assert (surface["line"]["dash"], other["line"]["dash"]) == ("solid", "dash")
    np.testing.assert_allclose(values(surface["z"]), view.deep.value, atol=1e-6)
    np.testing.assert_allclose(values(a["data"]["customdata"]), view.rows)
    assert a["inducing points"]["marker"]["symbol"] == "triangle-up"


def test_a_map_of_doubt_shows_the_deviation_of_both_on_one_scale():
    view = tiny()
    deep = checked(map_figure(view, view.deep, True, True, LIGHT))["deviation of a new y"]
    rival = checked(map_figure(view, view.rival, False, True, LIGHT))["deviation of a new y"]
    assert deep["zmax"] == rival["zmax"] == view.rival.doubt.max() and deep["zmin"] == 0
    np.testing.assert_allclose(values(rival["z"]), view.rival.doubt, atol=1e-6)


def test_two_classes_have_symbols_and_a_scale_from_0_to_1():
    traces = checked(map_figure(tiny(("no", "yes")), tiny(("no", "yes")).deep, True, False, LIGHT))
    surface = traces["probability of yes"]
    assert (surface["zmin"], surface["zmax"]) == (0.0, 1.0)
    levels = np.arange(surface["contours"]["start"], 1, surface["contours"]["size"])
    assert np.isclose(levels, 0.5).any()
    assert traces["no"]["marker"]["symbol"] != traces["yes"]["marker"]["symbol"]
    assert traces["no"]["marker"]["color"] != traces["yes"]["marker"]["color"]


def test_a_recorded_map_has_no_contours_and_dots_at_one_half():
    view = tiny(("no", "yes"))
    value = np.linspace(0, 1, A * B).reshape(B, A)
    figure = recorded_map(view, replace(view.deep, value=value), LIGHT)
    assert {trace["type"] for trace in figure["data"]} == {"heatmap", "scatter"}
    traces = checked(figure)
    np.testing.assert_array_equal(values(traces["probability of yes"]["z"]), np.round(255 * value))
    x, y = (values(traces["one half"][k]) for k in "xy")
    i, j = (np.interp(v, grid, np.arange(len(grid))) for v, grid in ((y, view.b), (x, view.a)))
    np.testing.assert_allclose((A * i + j) / (A * B - 1), 0.5, atol=1e-5)


def test_regions_of_several_classes_carry_their_names():
    view = tiny(("<one>", "two", "three"))
    traces = checked(map_figure(view, view.deep, True, False, DARK))
    field = values(traces["most probable class"]["z"])
    np.testing.assert_array_equal(np.floor(field), view.deep.winner)
    assert set(traces["names of the regions"]["text"]) <= {"&#60;one&#62;", "two", "three"}
    x, y = (values(traces["names of the regions"][k]) for k in "xy")
    for name, a, b in zip(traces["names of the regions"]["text"], x, y, strict=True):
        cell = view.deep.winner[np.abs(view.b - b).argmin(), np.abs(view.a - a).argmin()]
        assert name == ("&#60;one&#62;", "two", "three")[cell]
    assert len({traces[k]["marker"]["symbol"] for k in ("&#60;one&#62;", "two", "three")}) == 3


@pytest.mark.parametrize("classes", [(), ("no", "yes"), ("a", "b", "c")])
def test_a_layer_shows_what_enters_and_what_leaves(classes):
    view = tiny(classes)
    first = warp_figure(view, view.layers[0], LIGHT)
    assert titles(first) == {
        "xaxis": "mass &#40;kg&#41;",
        "yaxis": "b",
        "xaxis2": "what leaves &#40;1&#41;",
        "yaxis2": "what leaves &#40;2&#41;",
    }
    assert [note["text"] for note in first["layout"]["annotations"]] == [
        "what enters",
        "what leaves",
    ]
    traces = checked(first)
    enter, leave = traces["data entering"], traces["data leaving"]
    assert enter["marker"] == leave["marker"] and enter["customdata"] == leave["customdata"]
    np.testing.assert_allclose(values(leave["x"]), values(enter["x"]) + 1, atol=1e-6)
    np.testing.assert_allclose(values(enter["customdata"])[:, 0], view.rows)
    assert {"inducing inputs Z", "mean of q(u)"} <= traces.keys()
    path = values(traces["lines along b, entering"]["x"])
    assert np.isnan(path).sum() == 3 and len(path) == 3 * 6

    last = warp_figure(view, view.layers[1], LIGHT)
    assert last["layout"]["annotations"][1]["text"] == "the layer's own map"
    names = checked(last).keys()
    assert any("map: " in n or n == "most probable class" for n in names)
    assert "data leaving" not in names


def test_colours_tell_where_a_point_started():
    a, b = np.array([0.0, 1.0]), np.array([0.0, 1.0])
    corners = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
    assert start_colours(corners, a, b) == ["#004b7a", "#a84300", "#8fd0f5", "#ffc36b"]
    assert start_colours(np.array([[0.5, 0.0]]), a, b) == ["#54473d"]


def test_the_data_alone_share_the_frame():
    view = tiny(("no", "yes"))
    args = (view.data_x, view.data_y, view.input_names, "y", view.classes, LIGHT)
    figure = plane_data_figure(*args)
    assert checked(figure).keys() == {"no", "yes"} and figure["layout"]["height"] == 285
    assert titles(figure) == {"xaxis": "mass &#40;kg&#41;", "yaxis": "b"}


def test_the_legend_names_every_mark_and_how_many_rows_are_shown():
    html = plane_legend(tiny(("<no>", "yes")), LIGHT)
    assert "&#60;no&#62;" in html and "<no>" not in html
    assert "12 of 24 rows shown" in html and "inducing points" in html
    assert "mean of y, low to high" in plane_legend(tiny(), DARK)
    assert "contours" in html and "one half" not in html
    recorded = plane_legend(tiny(("no", "yes")), LIGHT, recorded=True)
    assert "one half" in recorded and "contours" not in recorded
