"""Pictures of many inputs, from views small enough to write down."""

import base64
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from dgp_core.live.views.playground import (
    HiddenPanel,
    Relevance,
    Reliability,
    Response,
    TablePanel,
    ViewMany,
)
from pages.figures.classes import SHAPES, SYMBOLS, mark
from pages.figures.palette import DARK, DEEP, LIGHT, SINGLE
from pages.figures.table import (
    agreement_figure,
    calibration_figure,
    hidden_figure,
    outcome_figure,
    relevance_figure,
    response_figure,
    share_words,
    table_legend,
)

R = 40


def values(spec: dict) -> np.ndarray:
    """What `typed` packed."""
    flat = np.frombuffer(base64.b64decode(spec["bdata"]), spec["dtype"])
    return flat.reshape([int(n) for n in spec["shape"].split(",")]) if "shape" in spec else flat


def checked(figure: dict) -> dict[str, dict]:
    """The traces by name, once Plotly's own validation has passed them."""
    go.Figure(figure)
    return {trace["name"]: trace for trace in figure["data"]}


def title(figure: dict, axis: str) -> str:
    return figure["layout"][axis]["title"]["text"]


def tiny(classes: tuple[str, ...] = ()) -> ViewMany:
    rng = np.random.default_rng(0)
    C = len(classes)
    y = np.arange(R) % C if C else rng.normal(size=R)
    predicted = rng.uniform(size=R)
    shares = np.array([0.5, 0.95])
    bins = Reliability(
        predicted=np.array([0.2, 0.8]),
        observed=np.array([0.1, 0.9]),
        error=np.array([0.1, 0.08]),
        low=np.array([0.05, 0.7]),
        high=np.array([0.2, 0.97]),
        counts=np.array([15, 25]),
    )
    panel = TablePanel(
        predicted=predicted,
        band=None if C else np.stack([predicted - 1, predicted + 2]),
        pit=None if C else rng.uniform(size=R),
        covered=None if C else np.array([0.4, 0.9]),
        probabilities=rng.dirichlet(np.ones(C), R) if C else None,
        confusion=np.arange(C * C).reshape(C, C) if C else None,
        reliability=bins if C else None,
        bound=-3.0,
        fit=-1.0,
        kl=(1.0, 1.0),
    )
    names = ("rain <mm>", "b", "c", "d")
    x = np.linspace(0, 1, 5)
    edges = None if C else np.stack([x - 1, x + 1])
    responses = tuple(Response(name, x, x, edges, x**2, edges) for name in names)
    hidden = HiddenPanel(
        points=rng.normal(size=(R, 2)),
        names=("principal component 1 (60 %)", "principal component 2 (20 %)"),
        width=7,
        departure=0.2,
        kl=1.0,
        title="layer 1 of 2",
    )
    return ViewMany(
        step=3,
        y_name="y",
        value_name=f"probability of {classes[1]}" if C else "y",
        classes=classes,
        rows=np.arange(R),
        n_rows=100,
        observed=y,
        shares=shares,
        relevance=Relevance(names, np.array([4.0, 3, 2, 1]), np.array([1.0, 2, 3, 4]), 9),
        responses=responses,
        deep=panel,
        rival=replace(panel, predicted=predicted + 0.1),
        layers=(hidden, replace(hidden, width=1, title="layer 2 of 2")),
    )


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_relevance_lists_inputs_by_name_the_sharpest_on_top(ink):
    figure = relevance_figure(tiny(), ink)
    traces = checked(figure)
    assert traces.keys() == {"deep", "single layer"} and figure["layout"]["height"] == 285
    assert "1/lengthscale" in title(figure, "xaxis")
    assert title(figure, "yaxis") == "inputs (5 less relevant ones left out)"
    assert figure["layout"]["yaxis"]["ticktext"][0] == "rain &#60;mm&#62;"
    assert values(traces["deep"]["y"])[0] == 3 and values(traces["deep"]["x"])[0] == 4
    symbols = [traces[k]["marker"]["symbol"] for k in ("deep", "single layer")]
    assert symbols == ["circle", "diamond"]


def test_agreement_has_intervals_around_each_prediction_on_one_frame():
    view = tiny()
    deep = agreement_figure(view, view.deep, True, LIGHT)
    rival = agreement_figure(view, view.rival, False, LIGHT)
    assert deep["layout"] == rival["layout"]
    assert title(deep, "xaxis") == "observed y" and "95 %" in title(deep, "yaxis")
    assert deep["layout"]["xaxis"]["range"] == deep["layout"]["yaxis"]["range"]
    rows = checked(deep)["training rows, middle 95 % of new points"]
    np.testing.assert_allclose(values(rows["x"]), view.observed, atol=1e-6)
    np.testing.assert_allclose(values(rows["error_y"]["array"]), 2.0, atol=1e-5)
    np.testing.assert_allclose(values(rows["error_y"]["arrayminus"]), 1.0, atol=1e-5)
    other = checked(rival)["training rows, middle 95 % of new points"]
    assert rows["marker"]["symbol"] != other["marker"]["symbol"]


@pytest.mark.parametrize(
    ("right", "rows", "words"),
    [(400, 400, "100 %"), (398, 400, "99.5 %"), (9999, 10_000, "99.9 %"), (0, 9, "0 %")],
)
def test_a_share_is_whole_only_of_all(right, rows, words):
    assert share_words(right, rows) == words
    assert share_words(1, 100_000) == "0.1 %"


def test_classes_are_counted_in_cells():
    view = tiny(("no", "yes"))
    figure = agreement_figure(view, view.deep, True, LIGHT)
    (cells,) = checked(figure).values()
    assert cells["text"] == [["", "1"], ["2", "3"]]
    assert cells["name"] == "3 of 6 training rows right (50 %)"
    assert (title(figure, "xaxis"), title(figure, "yaxis")) == ("likeliest class", "true class")
    np.testing.assert_allclose(values(cells["z"]), [[0, 1], [0.4, 0.6]], atol=1e-6)


def test_calibration_shows_places_and_coverage_of_both():
    view = tiny()
    figure = calibration_figure(view, LIGHT)
    traces = checked(figure)
    assert title(figure, "xaxis2") == "nominal coverage" and "PIT" in title(figure, "xaxis")
    edges, heights = (values(traces["deep"][k]) for k in "xy")
    assert np.sum(np.diff(edges) * heights[:-1]) == pytest.approx(1.0)  # a density
    np.testing.assert_allclose(values(traces["coverage, single layer"]["y"]), [0.4, 0.9], atol=1e-6)
    assert traces["deep"]["line"]["color"] == DEEP
    assert traces["single layer"]["line"] == {"color": SINGLE, "width": 2, "dash": "dash"}


def test_classes_have_a_reliability_diagram_instead():
    figure = calibration_figure(tiny(("no", "yes")), DARK)
    traces = checked(figure)
    assert traces.keys() == {"calibrated", "deep", "single layer"}
    assert title(figure, "xaxis") == "predicted probability of yes"
    np.testing.assert_allclose(values(traces["deep"]["error_y"]["array"]), [0.1, 0.07], atol=1e-6)
    np.testing.assert_array_equal(values(traces["deep"]["customdata"]), [15, 25])
    several = calibration_figure(tiny(("a", "b", "c")), DARK)
    assert title(several, "xaxis") == "predicted probability of the most probable class"


@pytest.mark.parametrize("classes", [(), ("a", "b", "c")])
def test_every_response_has_its_axis_and_both_models(classes):
    view = tiny(classes)
    figure = response_figure(view, LIGHT)
    traces = checked(figure)
    names = ("rain &#60;mm&#62;", "b", "c", "d")
    assert [title(figure, f"xaxis{n}") for n in ("", 2, 3, 4)] == list(names)
    assert title(figure, "yaxis") == view.value_name
    assert {f"deep: {n}" for n in names} | {f"single layer: {n}" for n in names} <= traces.keys()
    assert len(traces) == (8 if classes else 16)  # of several classes there are no bands
    assert len({tuple(figure["layout"][f"yaxis{n}"]["range"]) for n in ("", 2, 3, 4)}) == 1


def test_hidden_layers_say_that_they_are_principal_components():
    view = tiny()
    figure = hidden_figure(view, view.layers[0], LIGHT)
    trace = checked(figure)["training rows"]
    assert "of 7 dimensions" in figure["layout"]["annotations"][0]["text"]
    assert title(figure, "xaxis") == "principal component 1 &#40;60 %&#41;"
    np.testing.assert_allclose(values(trace["marker"]["color"]), view.observed, atol=1e-6)
    assert trace["marker"]["colorbar"]["title"]["text"] == "y"
    assert "annotations" not in hidden_figure(view, view.layers[1], LIGHT)["layout"]
    several = tiny(("a", "b", "c"))
    traces = checked(hidden_figure(several, several.layers[0], DARK))
    assert len({traces[c]["marker"]["symbol"] for c in "abc"}) == 3


def test_what_is_to_be_predicted_is_counted():
    y = np.random.default_rng(0).normal(size=50)
    (bars,) = checked(outcome_figure(y, "y", (), LIGHT)).values()
    assert values(bars["y"]).sum() == 50
    (bars,) = checked(outcome_figure(np.array([3.0, 6, 3, -1]), "y", (), LIGHT)).values()
    assert dict(zip(values(bars["x"]), values(bars["y"]), strict=True)) == {
        -1: 1, 0: 0, 1: 0, 2: 0, 3: 2, 4: 0, 5: 0, 6: 1
    }  # fmt: skip
    figure = outcome_figure(np.array([0.0, 1, 1]), "y", ("no", "yes"), LIGHT)
    (bars,) = checked(figure).values()
    assert list(values(bars["y"])) == [1, 2]
    assert figure["layout"]["xaxis"]["ticktext"] == ["no", "yes"]


def test_the_legend_says_which_rows_these_are():
    html = table_legend(tiny(), LIGHT)
    assert "40 of 100 training rows shown" in html and "middle 95 % of new points" in html
    assert "middle 95 %" not in table_legend(tiny(("a", "b", "c")), LIGHT)


def test_every_class_has_a_mark_of_its_own_that_needs_no_font():
    marks = [mark(code) for code in range(10)]
    assert len(set(marks)) == 10 and len(SHAPES) == len(SYMBOLS)
    html = table_legend(tiny(tuple("abcdefghij")), LIGHT)
    assert all(one in html for one in marks) and html.isascii()
