"""The pictures and the report of "Your data" and "Compare": right numbers, and nothing but text."""

import base64
import html
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import orjson
import plotly.graph_objects as go
import pytest

from dgp_core.evaluation import comparison, diagnostics, explain, forecast
from dgp_core.evaluation.explain import Group, Importance, Map, Relevance, Response
from dgp_core.gp.data import Dataset
from dgp_core.gp.references import BayesianLinear
from pages.figures import compare, report, svg
from pages.figures.palette import DARK, LIGHT
from pages.figures.playground import history_figure
from pages.figures.scores import together, with_error
from pages.figures.your_data import (
    agreement_figure,
    calibration_figure,
    importance_figure,
    interval_figure,
    probability_figure,
    relevance_figure,
    residual_figure,
    response_figure,
    two_inputs_figure,
)
from pages.ui.stage.wire import encode


@pytest.mark.parametrize(("layers", "name"), [(1, "single layer"), (3, "deep")])
def test_the_history_of_an_opened_model_is_its_bound_over_all_steps(layers, name):
    rng = np.random.default_rng(0)
    fit, kl = -np.exp(-np.linspace(0, 3, 40)) * 1e4, rng.uniform(1, 2, (40, layers))
    figure = history_figure(fit, kl, LIGHT)
    bound, *terms = go.Figure(figure).data
    assert bound.name == name and len(terms) == layers
    x, y = (np.frombuffer(base64.b64decode(a["bdata"]), a["dtype"]) for a in (bound.x, bound.y))
    assert x[0] == 1 and x[-1] <= 40
    np.testing.assert_allclose(y[0], fit[0] - kl[0].sum(), rtol=1e-5)


HOSTILE = "<img src=x onerror=alert(1)>**&\"'</script>"


def rows(n: int, task="regression", classes=(), D: int = 3) -> Dataset:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, D))
    f = X[:, :1] + 0.3 * rng.standard_normal((n, 1))
    Y = {
        "regression": f,
        "binary": (f > 0).astype(float),
        "multiclass": np.clip(np.round(f + 1), 0, 2),
        "counts": rng.poisson(np.exp(f)).astype(float),
    }[task]
    names = tuple(f"x{d}" for d in range(D))
    return Dataset("rows", X, Y, names, (HOSTILE,), task, "", classes)


def card_of(task="regression", classes=(), fold=0, n=60) -> comparison.ScoreCard:
    data = rows(120, task, classes)
    predictor = forecast.linear_predictor(data.take(np.arange(n)))
    held = np.arange(n, 120)
    return comparison.score("linear", predictor, data.take(held), n_train=n, fold=fold, rows=held)


@pytest.fixture(scope="module")
def cards():
    return {
        "regression": card_of(),
        "binary": card_of("binary", ("no", HOSTILE)),
        "multiclass": card_of("multiclass", ("a", "b", HOSTILE)),
        "counts": card_of("counts"),
    }


def checked(figure: dict) -> dict:
    """A figure that Plotly's own validation passes, that can be sent, and that holds no markup."""
    go.Figure(figure)
    text = encode(figure).decode()
    assert "<img" not in text and "</script" not in text
    return figure


@pytest.mark.parametrize("ink", [LIGHT, DARK])
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass", "counts"])
def test_every_task_has_its_pictures(cards, task, ink):
    card = cards[task]
    checked(calibration_figure(card, ink))
    figure = checked(agreement_figure(card, HOSTILE, ink))
    if task in ("regression", "counts"):
        checked(residual_figure(card, HOSTILE, ink))
        dots = figure["data"][1]
        assert np.array_equal(dots["x"], card.observed[:, 0])
        assert np.array_equal(dots["y"], card.forecast.mean[:, 0])
    else:
        counts = figure["data"][0]["customdata"]
        assert counts.sum() == len(card.rows)
        right = card.forecast.probabilities.argmax(1) == card.observed[:, 0]
        assert np.trace(counts) == right.sum()


def test_bars_of_calibration_are_shares_of_all_rows(cards):
    bars = calibration_figure(cards["regression"], LIGHT)["data"][0]
    assert np.isclose(np.sum(bars["y"]), 1.0) and len(bars["y"]) == 10


def test_folds_are_taken_together_and_each_row_once(cards):
    one, two = card_of(fold=1), card_of(fold=2)
    card = together([cards["regression"], one, two], "linear")
    assert len(card.rows) == len(one.rows) + len(two.rows)
    assert np.array_equal(card.forecast.pit[: len(one.rows)], one.forecast.pit)
    assert card.forecast.inside[0.5].shape == (len(card.rows), 1)
    alone = together([cards["regression"]], "linear")
    assert np.array_equal(alone.rows, cards["regression"].rows)
    assert together([], "linear") is None


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        (1.23456, 0.0567, "1.235 ± 0.057"),
        (-12.3456, 1.2, "−12.3 ± 1.2"),
        (1234.5, 56.0, "1,234 ± 56"),
        (0.5, float("nan"), "0.5"),
        (float("nan"), 0.1, "–"),
        (1.0, 0.0, "1"),
    ],
)
def test_a_number_is_said_to_the_digit_of_its_error(value, error, said):
    assert with_error(value, error) == said


def found_response(labels=(), classes=0) -> Response:
    x = np.arange(len(labels), dtype=float) if labels else np.linspace(0, 1, 5)
    P = classes or 1
    mean = np.linspace(0, 1, len(x))[:, None] * np.ones(P)
    quantiles = mean[None] + np.linspace(-1, 1, len(explain.LEVELS))[:, None, None]
    return Response(HOSTILE, x, labels, mean, explain.LEVELS, quantiles, mean[None])


def test_what_was_learnt_is_drawn_with_its_numbers():
    bars = checked(importance_figure([Importance(HOSTILE, 0.5, 0.1, 0.2)], LIGHT))["data"][0]
    assert bars["x"][0] == 0.5 and bars["error_x"]["array"][0] == 0.4
    names = ("a", HOSTILE)
    relevance = Relevance(1, names, np.array([2.0, 1.0]), np.array([0.5, 1.0]))
    bars = checked(relevance_figure(relevance, LIGHT))
    assert list(bars["data"][0]["x"]) == [1.0, 0.5]
    assert bars["layout"]["yaxis"]["ticktext"][1] == "a"
    band = checked(response_figure(found_response(), HOSTILE, (), LIGHT))["data"][0]
    assert np.isclose(band["y"][0], -1.0) and np.isclose(band["y"][-1], 1.0)
    labelled = checked(response_figure(found_response(("u", HOSTILE)), "y", (), LIGHT))
    assert labelled["layout"]["xaxis"]["ticktext"][0] == "u"
    checked(response_figure(found_response(classes=2), "y", ("a", HOSTILE), LIGHT))
    several = checked(response_figure(found_response(classes=3), "y", ("a", "b", "c"), LIGHT))
    assert [trace["name"] for trace in several["data"]] == ["a", "b", "c"]
    z = np.arange(6.0).reshape(2, 3)
    names = (HOSTILE, "b")
    seen = Map(names, np.arange(3.0), np.arange(2.0), (), ("no", HOSTILE), z, 2 * z)
    for sd in (False, True):
        figure = checked(two_inputs_figure(seen, HOSTILE, sd, LIGHT))
        assert np.array_equal(figure["data"][0]["z"], z * (2 if sd else 1))
    of_class = replace(seen, mean=np.stack([z, -z], -1)[..., 1])  # a view of all classes' numbers
    sent = orjson.loads(encode(checked(two_inputs_figure(of_class, "p", False, LIGHT))))
    assert sent["data"][0]["z"] == (-z).tolist()
    checked(probability_figure(("a", HOSTILE), np.array([0.3, 0.7]), LIGHT))
    levels = {f"{100 * t:g}%": t for t in (0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975)}
    checked(interval_figure({"mean": 0.5, **levels}, HOSTILE, LIGHT))
    without = interval_figure({"mean": float("nan"), **levels}, "y", LIGHT)
    assert [t["name"] for t in without["data"]] == ["95 %", "90 %", "50 %", "median"]


class Tags(HTMLParser):
    """Which elements a page has, and every address in it."""

    def __init__(self, text: str):
        super().__init__()
        self.names, self.links, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.links += [v for k, v in attrs if k in ("src", "href", "xlink:href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass", "counts"])
def test_the_report_is_one_file_and_every_name_in_it_is_text(cards, task):
    deep = [
        comparison.ScoreCard(**{**vars(cards[task]), "model": model})
        for model in ("deep", "single", "linear")
    ]
    classes = cards[task].classes
    text = report.fit_report(
        HOSTILE,
        [HOSTILE],
        deep,
        comparison.verdict(deep),
        HOSTILE,
        [Importance(HOSTILE, 0.5, 0.1, 0.2)],
        [found_response(classes=len(classes))],
        f"x = {HOSTILE!r}",
    )
    page = Tags(text)
    assert not page.open and not page.links
    assert {"img", "script", "link", "iframe"}.isdisjoint(page.names)
    assert page.names.count("svg") == (4 if classes else 5)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert "NaN" not in text and ">nan<" not in text
    assert html.escape(HOSTILE) in text
    assert html.escape(comparison.verdict(deep).sentence) in text
    for worst in diagnostics.worst_rows(deep[0], 10):
        assert f"<td class=number>{worst.row + 1:,}</td>" in text


def test_svg_puts_dots_where_the_axes_say():
    figure = {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "name": "dots",
                "x": np.array([0.0, 10.0]),
                "y": np.array([0.0, 1.0]),
                "marker": {"color": "#000000", "size": 4},
            }
        ],
        "layout": {
            "height": 200,
            "xaxis": {"title": {"text": "a &#38; b"}, "range": [0, 10]},
            "yaxis": {"title": {"text": "y"}, "range": [0, 1]},
        },
    }
    text = svg.svg(figure, "title")
    dots = [tuple(map(float, d)) for d in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', text)]
    room = svg.ROOM
    assert dots == [
        (room["left"], 200 - room["bottom"]),
        (svg.WIDTH - room["right"], room["top"]),
    ]
    assert ">a &amp; b<" in text


def test_ticks_are_round_and_inside():
    for low, high in ((0.0, 1.0), (-3.2, 17.0), (1e-6, 4e-6), (1234.0, 1236.0)):
        values, labels = svg._ticks(low, high)
        assert 3 <= len(values) <= 8 and len(set(labels)) == len(values)
        assert min(values) >= low - 1e-12 and max(values) <= high + 1e-12


@pytest.mark.parametrize(
    ("task", "classes", "D"),
    [
        ("regression", (), 1),
        ("regression", (), 2),
        ("binary", ("a", HOSTILE), 1),
        ("binary", ("a", HOSTILE), 2),
        ("multiclass", ("a", "b", HOSTILE), 1),
        ("multiclass", ("a", "b", HOSTILE), 2),
        ("counts", (), 1),
    ],
)
def test_a_model_is_drawn_over_its_inputs(task, classes, D):
    data = rows(60, task, classes, D)
    found = compare.surface(forecast.linear_predictor(data), data)
    assert compare.has_surface(data) and (found.y is None) == (D == 1)
    figure = checked(compare.surface_figure(found, data, "linear", LIGHT))
    line = BayesianLinear.fit(data.X, data.Y) if task == "regression" else None
    if line is not None and D == 1:
        assert np.allclose(figure["data"][1]["y"], line.predict(found.x[:, None]).mean[:, 0])
    if line is not None and D == 2:
        x, y = np.meshgrid(found.x, found.y)
        grid = line.predict(np.column_stack([x.ravel(), y.ravel()])).mean.reshape(x.shape)
        assert np.allclose(figure["data"][0]["z"], grid)


def test_the_ladder_has_every_model_s_score_and_error():
    scored = {
        "linear": {"rmse": comparison.Estimate(1.0, 0.1, 5)},
        "dgp2": {"rmse": comparison.Estimate(0.5, float("nan"), 5)},
    }
    names = {"linear": HOSTILE, "dgp2": "b"}
    figure = checked(compare.ladder_figure(scored, names, "rmse", "RMSE", LIGHT))
    assert [t["x"][0] for t in figure["data"]] == [1.0, 0.5]
    assert [t["error_x"]["array"][0] for t in figure["data"]] == [0.1, 0.0]
    marks = {(t["marker"]["color"], t["marker"]["symbol"]) for t in figure["data"]}
    assert len(marks) == 2


def test_groups_that_controls_move_give_the_model_s_own_rows():
    X = np.zeros((1, 4))
    X = Group("c", (1, 2, 3), ("u", "v", "w")).at(Group("x", (0,)).at(X, 2.5), 1.0)
    assert X.tolist() == [[2.5, 0.0, 1.0, 0.0]]
