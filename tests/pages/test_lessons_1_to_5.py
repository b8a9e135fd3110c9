"""Lessons 1 to 5 without a browser: they open, answer, and promise only what models then do."""

import base64
from functools import lru_cache, partial

import jax.numpy as jnp
import numpy as np
import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from datasets import catalogue
from datasets.starts import film
from dgp_core.gp.kernels import RBF
from dgp_core.gp.layers import kl_from_prior
from dgp_core.gp.model import create_model
from dgp_core.gp.references import ExactGP
from dgp_core.live.run import Run
from dgp_core.live.views.by_hand import (
    GRID,
    Settings,
    bound_by_hand,
    composition,
    correlation,
    exact_by_hand,
    gp_by_hand,
    place_inducing,
    sparse_by_hand,
)
from dgp_core.live.views.layers import layer_history
from dgp_core.live.views.prior import prior_view
from pages.figures import lesson_live
from pages.figures.palette import DARK, LIGHT
from pages.ui.choices import Choices
from pages.ui.lessons.lesson import Question, Try, sheet
from tests.pages.opened import LEARN, PATIENCE, elements, made, names_of, open_lesson

pytestmark = pytest.mark.usefixtures("uncompiled")

LESSONS = ("what_is_a_gp", "inducing_points", "why_deep", "why_not_zero_mean", "the_bound")


# The pages.


@pytest.mark.parametrize(
    ("name", "pictures", "live"),
    [
        ("what_is_a_gp", {"gp_picture", "kernel_picture"}, set()),
        ("inducing_points", {"sparse_picture", "tightening_picture"}, {"drag/deep", "drag/bound"}),
        (
            "why_deep",
            {"compose_first_map", "compose_second_map", "compose_both_map"},
            {"race/deep", "race/rival"},
        ),
        (
            "why_not_zero_mean",
            {
                "prior_zero",
                "prior_linear",
                "prior_concatenate",
                "prior_information",
                "prior_slopes",
                "prior_weights",
                "prior_kept",
            },
            {"zero/deep", "zero/bound"},
        ),
        ("the_bound", {"belief_picture", "sum_picture"}, {"parts/deep", "parts/parts"}),
    ],
)
def test_a_lesson_opens_with_its_pictures_equations_and_tries(name, pictures, live):
    page = open_lesson(name)
    for figure in made(page).values():
        go.Figure(figure)
    assert made(page).keys() == pictures
    if live:
        shown = elements(page)
        assert live <= shown.keys() and all("figure" in shown[host] for host in live)
    assert len(page.latex) >= 2 and len(page.info) >= 3 and len(page.radio) == 3
    assert all("Try this" in part.value for part in page.info)
    text = " ".join(part.value for part in page.markdown)
    assert "](glossary#" in text


@pytest.mark.parametrize("name", LESSONS)
def test_every_question_answers_back(name):
    page = open_lesson(name)
    for i in range(3):
        said = []
        for answer in page.radio[i].options:
            page.radio[i].set_value(answer).run()
            assert not page.exception and len(page.success) + len(page.warning) == 1
            said.append((bool(page.success), [*page.success, *page.warning][0].value))
        assert sum(right for right, _ in said) == 1
        assert len({why for _, why in said}) == len(said)
        page.radio[i].set_value(None).run()


def test_the_two_lessons_with_films_move_at_once():
    for name, host in (("why_deep", "race"), ("the_bound", "parts")):
        shown = elements(open_lesson(name))
        assert "recording of step" in shown[f"{host}/numbers"]["text"]
        assert len(shown[f"{host}/deep"]["figure"]["data"]) > 3


def test_points_are_put_down_taken_away_and_cleared():
    page = open_lesson("what_is_a_gp")
    page.number_input(key="gp_x").set_value(0.5)
    page.button(key="gp_put").click().run()
    assert page.session_state.gp_points == ((0.5, 1.0),)
    assert any("1 point seen" in part.value for part in page.markdown)
    page.button(key="gp_example").click().run()
    assert len(page.session_state.gp_points) == 3
    drawn = {trace["name"] for trace in made(page)["gp_picture"]["data"]}
    assert {"functions drawn", "mean", "± 2 standard deviations", "your points"} == drawn
    page.button(key="gp_clear").click().run()
    assert page.session_state.gp_points == () and not page.exception


def test_the_41st_point_is_refused_in_a_sentence():
    page = open_lesson("what_is_a_gp")
    page.session_state.gp_points = tuple((0.1 * i - 2.0, 0.0) for i in range(40))
    page.number_input(key="gp_x").set_value(0.05)
    page.button(key="gp_put").click().run()
    assert len(page.session_state.gp_points) == 40
    assert any("40 points are the most" in part.value for part in page.markdown)


def test_a_click_puts_a_point_and_another_takes_it_away():
    def script():
        import streamlit as st

        memory = st.session_state
        own: dict = {"__name__": "lesson"}
        exec(memory.source, own)
        for click in memory.clicks:
            own["clicked"](click)

    page = AppTest.from_function(script, default_timeout=PATIENCE)
    page.session_state.source = (LEARN / "what_is_a_gp.py").read_text(encoding="utf-8")
    near = {"near_x": 0.1, "near_y": 0.1}
    page.session_state.clicks = [
        {"x": 0.0, "y": 1.0, **near},
        {"x": 1.0, "y": 9.0, **near},
        {"x": 0.05, "y": 0.95, **near},
        {"x": "nonsense"},
    ]
    page.run()
    assert not page.exception and page.session_state.gp_points == ((1.0, 3.2),)


def test_a_layer_is_redrawn_and_an_input_followed():
    page = open_lesson("why_deep")
    before = made(page)
    page.button(key="redraw_second").click().run()
    after = made(page)
    assert before["compose_first_map"] == after["compose_first_map"]
    assert before["compose_second_map"] != after["compose_second_map"]
    page.slider(key="compose_follow").set_value(1.0).run()
    drawn = composition(0, 1)
    i = int(np.argmin(np.abs(drawn.x - 1.0)))
    h, f = drawn.first[i], drawn.composed[i]
    moved = {name: figure["data"][1] for name, figure in made(page).items()}
    assert (moved["compose_second_map"]["x"], moved["compose_second_map"]["y"]) == ([h], [f])
    assert (moved["compose_both_map"]["x"], moved["compose_both_map"]["y"]) == ([1.0], [f])


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_prints(name):
    lesson = names_of(name)["LESSON"]
    text = sheet(lesson)
    exercises = sum(isinstance(part, Try | Question) for part in lesson.parts)
    assert exercises >= 5 and text.count("<h3>Exercise") == exercises
    assert "<h2>" in text and "<math" in text
    assert not any(mark in text for mark in ("##", "**", "\\begin", "<mi>&<", "](", "$"))


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_a_live_lesson_is_painted_before_and_during_a_film(ink):
    run = Run(catalogue.load("nearly_linear"), Choices().model, Choices().train)
    before = lesson_live.live(run, None, ink)
    during = lesson_live.live(run, film("nearly_linear")[-1], ink)
    assert before.keys() <= during.keys()
    for element in during.values():
        if "figure" in element:
            go.Figure(element["figure"])
    assert during["deep"]["figure"]["layout"]["meta"]["drag"]["trace"] == "inducing points"
    assert "Layer 1" in during["layers_words"]["text"]


def test_bands_of_the_bound_add_up():
    fit, kl = np.array([1.0, 5.0, 9.0]), np.array([[2.0, 1.0], [1.0, 1.5], [0.5, 2.0]])
    data = {t["name"]: t for t in lesson_live.parts_figure((fit, kl), LIGHT)["data"]}
    assert list(data) == ["KL of layer 1", "KL of layer 2", "fit", "bound"]
    bound = np.frombuffer(_bytes(data["bound"]["y"]), "f4")
    assert np.allclose(bound, fit - kl.sum(1))
    first = np.frombuffer(_bytes(data["KL of layer 1"]["y"]), "f4")
    assert np.allclose(first, [*(fit - kl[:, 0]), *fit[::-1]])


def _bytes(spec: dict) -> bytes:
    return base64.b64decode(spec["bdata"])


# What each "try this" promises, measured.


def test_one_point_teaches_within_two_lengthscales():
    before, after = gp_by_hand("rbf", 1.0, 0.1), gp_by_hand("rbf", 1.0, 0.1, ((0.0, 1.0),))
    middle = len(GRID) // 2
    assert after.sd[middle] == pytest.approx(0.1 * before.sd[middle], rel=0.01)
    assert np.all(np.abs(after.draws[:, middle] - 1.0) < 4 * 0.1)
    assert np.all(after.sd[np.abs(GRID) >= 2] > 0.99 * before.sd[0])


def test_zero_crossings_follow_the_lengthscale():
    for lengthscale, expected in ((1.0, 2), (0.3, 6)):
        draws = gp_by_hand("rbf", lengthscale, 0.1, (), 5, 500).prior
        crossings = np.mean(np.sum(np.diff(np.sign(draws), axis=1) != 0, 1))
        assert crossings == pytest.approx(6 / (np.pi * lengthscale), rel=0.1)
        assert round(crossings) == expected


def test_a_rough_kernel_travels_farther_under_the_same_shade():
    smooth, rough = (gp_by_hand(name, 1.0, 0.1, (), 2, 50) for name in ("rbf", "matern12"))
    travelled = [np.abs(np.diff(seen.prior, axis=1)).sum(1).mean() for seen in (smooth, rough)]
    assert travelled[1] > 5 * travelled[0] and np.array_equal(smooth.sd, rough.sd)


def test_three_points_tell_a_stiff_kernel_but_not_the_noise():
    points = names_of("what_is_a_gp")["EXAMPLE"]
    evidence = {
        (length, noise): gp_by_hand("rbf", length, noise, points).evidence
        for length, noise in ((1.0, 0.1), (1.0, 0.5), (3.0, 0.1))
    }
    assert evidence[1.0, 0.1] - evidence[3.0, 0.1] > 10
    assert abs(evidence[1.0, 0.1] - evidence[1.0, 0.5]) < 0.1


def test_the_questions_of_lesson_1_are_right():
    one, two = (gp_by_hand("rbf", 1.0, 0.3, ((0.0, 1.0), (0.0, 0.2))[:n]) for n in (1, 2))
    middle = len(GRID) // 2
    assert 0.2 < two.mean[middle] < 1.0 and two.sd[middle] < one.sd[middle]
    low, high = (gp_by_hand("rbf", 1.0, 0.1, ((-1.0, 0.0), (0.5, y))) for y in (0.5, 3.0))
    assert np.array_equal(low.sd, high.sd) and high.evidence < low.evidence
    near, far = correlation("rbf", np.array([1.0, 5.0]), 2.0)
    assert near > 0.88 and far < 0.05
    assert correlation("matern12", np.array(1.0), 2.0) == pytest.approx(0.61, abs=0.005)


@lru_cache
def crash():
    data = catalogue.load("motorcycle")
    x, y = data.X[:, 0], data.Y[:, 0] - data.Y[:, 0].mean()
    kernel = names_of("inducing_points")["KERNEL"]
    return x, y, kernel, exact_by_hand(x, y, kernel)


def gap(M: int, placement) -> float:
    x, y, kernel, exact = crash()
    Z = place_inducing(x, M, placement)
    return exact.evidence - sparse_by_hand(x, y, Z, kernel, exact.x).bound


def test_the_bound_closes_in_on_the_evidence_as_points_are_added():
    assert gap(5, "evenly") > 100
    assert 0 < gap(20, "evenly") < 0.05 < gap(10, "evenly") < 3
    assert gap(12, "evenly") < 1 and gap(12, "random") > 10 and gap(12, "crowded") > 100
    assert gap(30, "crowded") > 90


def test_lesson_2_has_a_kernel_near_the_best():
    x, y, kernel, exact = crash()
    start = RBF.create(1, kernel.deviation**2, kernel.lengthscale)
    best = ExactGP.fit(start, x[:, None], y[:, None], kernel.noise**2)
    assert jnp.isfinite(best.evidence) and exact.evidence > best.evidence - 1


def test_twice_as_many_points_for_half_the_lengthscale():
    x, y, kernel, _ = crash()
    short = Settings(kernel.deviation, kernel.lengthscale / 2, kernel.noise)
    judge = exact_by_hand(x, y, short)

    def enough(at: Settings, evidence: float) -> int:
        for M in range(1, 60):
            Z = place_inducing(x, M, "evenly")
            if evidence - sparse_by_hand(x, y, Z, at, judge.x).bound < 1:
                return M
        raise AssertionError("never enough")

    long = enough(kernel, crash()[3].evidence)
    assert 1.6 * long <= enough(short, judge.evidence) <= 2.4 * long


class Trained:
    """A run of a lesson, taken to a step by hand."""

    def __init__(self, choices: Choices):
        self.run = Run(choices.dataset, choices.model, choices.train)
        self.run.status = "ready"
        self.run.advance()

    def to(self, step: int) -> "Trained":
        run = self.run
        while run.latest is not None and run.latest.step < step:
            run.step(min(500, step - run.latest.step))
            run.advance()
        assert run.status == "ready" and run.latest is not None and run.latest.step == step
        return self

    @property
    def deep(self) -> float:
        """The bound, as the mean of the last hundred steps."""
        fit, kl = self.run.record()[0]
        return float((fit - kl.sum(1))[-100:].mean())

    @property
    def single(self) -> float:
        fit, kl = self.run.record()[1]
        return float((fit - kl.sum(1))[-100:].mean())

    @property
    def kl(self) -> np.ndarray:
        """Of each layer, likewise (L,)."""
        return self.run.record()[0][1][-100:].mean(0)

    @property
    def departures(self) -> list[float]:
        return [float(layer.departure[-1]) for layer in layer_history(self.run).layers[:-1]]


def test_a_dragged_inducing_point_costs_and_is_won_back():
    trained = Trained(Choices(data="motorcycle", layers=1, inducing=10)).to(500)
    run = trained.run
    assert run.latest is not None
    before, scaler = trained.deep, run.scaler
    Z = run.latest.deep.layers[0].inducing[:, 0] * scaler.x_scale[0] + scaler.x_mean[0]
    held = int(np.argmin(np.abs(np.asarray(Z) - 17.5)))
    assert 14 < Z[held] < 21
    run.pause()
    run.move_inducing_to(held, [55.0])
    run.advance()
    moved = run.latest.deep_bound
    fallen = float(moved.fit - moved.kl.sum())
    assert before - fallen > 100
    trained.to(700)
    assert trained.deep - fallen > 0.5 * (before - fallen)


@lru_cache
def on_the_step() -> Trained:
    return Trained(Choices(data="step")).to(5000)


def test_depth_pays_on_the_step_and_its_first_layer_stays_on():
    trained = on_the_step()
    assert trained.deep - trained.single > 50
    assert trained.kl[0] > 10 and trained.departures[0] > 0.25


def test_depth_pays_where_smoothness_changes():
    trained = Trained(Choices(data="ramp")).to(6000)
    assert trained.deep - trained.single > 50


def test_a_layer_that_is_not_needed_switches_off():
    trained = Trained(Choices(data="nearly_linear")).to(500)
    assert trained.kl[0] > 3
    trained.to(3000)
    assert trained.kl[0] < 1 and trained.departures[0] < 0.05
    assert abs(trained.deep - trained.single) < 2


def test_four_layers_switch_off_with_a_linear_mean_and_fail_with_zero():
    straight = partial(Choices, data="nearly_linear", layers=4, seed=2)
    cured, ill = Trained(straight()).to(2000), Trained(straight(mean="zero")).to(2000)
    assert abs(cured.deep - cured.single) < 10
    assert ill.single - ill.deep > 100 and np.all(ill.kl[:3] < 1)
    cured.to(3000)
    assert np.all(cured.kl[:3] < 1) and max(cured.departures) < 0.05
    assert abs(cured.deep - cured.single) < 3


def test_ten_layers_of_zero_mean_forget_and_of_linear_mean_do_not():
    zero, linear = (prior_view(10, mean) for mean in ("zero", "linear"))
    varies = {view.mean_function: view.functions.std(2).mean(1) for view in (zero, linear)}
    assert varies["zero"][0] == pytest.approx(0.57, abs=0.005) and varies["zero"][9] < 0.05
    assert min(varies["linear"]) > 0.3
    assert np.allclose(zero.distinct[[0, 4, 9]], [96, 13, 4], atol=0.6)
    assert 40 < linear.distinct[9] < 0.5 * linear.distinct[0]
    beside = prior_view(10, "concatenate")
    assert beside.distinct[9] > beside.distinct[0]
    flat = {v.mean_function: np.mean(np.abs(v.slopes[9]) < 0.1) for v in (zero, linear, beside)}
    assert flat["zero"] > 0.9 and 0.4 < flat["linear"] < 0.65 and flat["concatenate"] < 0.1
    assert np.abs(linear.slopes[9]).max() > 100 > np.abs(zero.slopes[9]).max()
    said = names_of("why_not_zero_mean")["steepness"](linear, 10)
    assert "Flatter than 0.1 on **58%**" in said and "Mean log slope **−2.51**" in said
    assert zero.log_slope_mean[0] == pytest.approx(-0.635, abs=0.001)
    assert np.allclose(np.diff(zero.log_slope_mean), -0.635, atol=0.01)


def test_the_first_layer_of_lesson_5_pays_for_starting_certain():
    M, variance = 25, 1e-5
    each = 0.5 * (variance - 1 - np.log(variance))  # KL[N(0, s) | N(0, 1)]
    start = create_model(Choices(data="nearly_linear").model, np.linspace(-1, 1, 80)[:, None])
    assert float(kl_from_prior(start.layers[0]).sum()) == pytest.approx(M * each, rel=1e-6)
    assert round(M * each) == 131 and round(each, 2) == 5.26


def test_the_pca_map_of_lesson_4_keeps_what_it_says():
    own = names_of("why_not_zero_mean")
    kept = [share for _, share in own["mean_maps"]()]
    X = own["concrete"]()[0]
    values = np.sort(np.linalg.eigvalsh(X.T @ X))[::-1]
    assert np.allclose(kept, np.cumsum(values) / values.sum())
    assert [round(100 * kept[i - 1]) for i in (1, 2, 5)] == [29, 46, 88]
    assert np.abs(own["mean_maps"]()[6][0]).max(1).min() > 0.1


def test_the_best_belief_about_one_unknown():
    sure, best = bound_by_hand(1.5, 0.5, 1.5, 0.05), bound_by_hand(1.5, 0.5, 1.2, 0.45)
    assert sure.fit > best.fit and sure.kl == pytest.approx(3.6, abs=0.05)
    assert 1.9 < sure.evidence - sure.bound < 2
    assert best.evidence - best.bound < 0.001
    grid = [(m, s) for m in np.arange(-2, 3.01, 0.05) for s in np.arange(0.05, 2.01, 0.05)]
    top = max(grid, key=lambda at: bound_by_hand(1.5, 0.5, *at).bound)
    assert np.allclose(top, (1.2, 0.45))
