"""Lessons 7 to 11 and the glossary without a browser; what they promise, measured on models."""

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import jax
import numpy as np
import plotly.graph_objects as go
import pytest
import streamlit as st

from datasets.measured import regression
from datasets.printed import printed
from datasets.toys import GAP_POINTS
from dgp_core.archive import Archive
from dgp_core.evaluation.scores import accuracy
from dgp_core.gp.predict import class_probabilities, predict_latent
from dgp_core.live.poor_starts import random_inducing, unscaled
from dgp_core.live.run import Run
from dgp_core.live.views.evaluate import evaluated
from dgp_core.live.views.layers import layer_history
from dgp_core.live.views.mixture import latent, mixture_at
from dgp_core.live.views.playground import View2D, ViewMany, view
from dgp_core.live.views.randomness import NoiseView, RowAlone, Spread, noise_view, row_alone
from dgp_core.live.views.table import right_on
from pages.figures import by_hand, depth_table
from pages.figures.lesson_live import (
    classes_figure,
    lie_together,
    mixture_words,
    modes,
    nearest_centre,
    straight_cut,
    summary_error,
    unseen,
    unseen_words,
)
from pages.figures.palette import DARK, LIGHT
from pages.ui.choices import Choices, write_points
from pages.ui.glossary_links import WORDS, Linker
from pages.ui.lessons.lesson import Equation, sheet
from pages.ui.stage.server import server
from tests.pages.opened import LEARN, elements, made, names_of, open_lesson, press, scenes

pytestmark = pytest.mark.usefixtures("uncompiled")

ROOT = Path(__file__).parents[2]
LESSONS = (
    "doubly_stochastic",
    "prediction_is_a_mixture",
    "does_depth_help",
    "classes",
    "for_practitioners",
)
FIRST = {
    "doubly_stochastic": "noise/deep",
    "prediction_is_a_mixture": "gap/deep",
    "does_depth_help": "line/deep",
    "classes": "spiral/deep",
    "for_practitioners": "sizes/deep",
}
"""A live picture that is there at once."""


SKETCHED = re.findall(
    r'"([\w-]+)"',
    re.search(r"SYMBOLS = \[(.*?)\]", (ROOT / "pages/ui/stage/js/sketch.js").read_text("utf-8"))[1],  # pyright: ignore
)
"""Symbols that the browser draws by itself."""


# The pages.


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_opens_with_a_picture_equations_and_tries(name):
    page = open_lesson(name)
    for figure in made(page).values():
        go.Figure(figure)
    first = elements(page)[FIRST[name]]
    assert len(first["figure"]["data"]) >= 1 and len(first["alt"]) > 20
    assert len(page.latex) >= 1 and len(page.radio) == 3 and page.info
    assert all("Try this" in part.value for part in page.info)


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


def test_lessons_with_a_film_move_at_once():
    for name in ("doubly_stochastic", "does_depth_help", "classes", "for_practitioners"):
        scene = FIRST[name].split("/")[0]
        shown = elements(open_lesson(name))
        assert "recording of step" in shown[f"{scene}/numbers"]["text"]


@pytest.mark.parametrize(
    "name", ["doubly_stochastic", "does_depth_help", "classes", "for_practitioners"]
)
def test_a_first_picture_is_drawn_before_the_charts_script_is_there(name):
    """What `sketchable` in sketch.js asks of a figure."""
    page = open_lesson(name)
    shown = [elements(page)[FIRST[name]]["figure"], *made(page).values()]
    for figure in shown if name == "does_depth_help" else shown[:1]:
        assert all(figure["layout"][axis]["range"] for axis in ("xaxis", "yaxis"))
        for trace in figure["data"]:
            if trace["type"] == "heatmap":
                assert trace["zsmooth"] and trace["z"]["dtype"] == "u1"
                continue
            assert trace["type"] == "scatter" and "text" not in trace["mode"]
            marker = trace.get("marker", {})
            assert marker.get("symbol", "circle") in SKETCHED
            assert isinstance(marker.get("color", ""), str)


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_prints_with_its_equations_and_exercises(name):
    lesson = names_of(name)["LESSON"]
    text = sheet(lesson)
    equations = sum(isinstance(part, Equation) for part in lesson.parts)
    assert text.count('display="block"') == equations
    assert "Exercise 4" in text
    assert not any(mark in text for mark in ("##", "**", "](", "$", "<p>1. ", "<p>| "))


def test_the_sheets_have_every_ailment_the_check_list_and_the_table():
    text = sheet(names_of("for_practitioners")["LESSON"])
    for ailment in names_of("for_practitioners")["AILMENTS"].values():
        assert f"<h3>{ailment.title}</h3>" in text
    assert text.count("<li>") > 7 and "<ol><li>Scale inputs" in text
    table = sheet(names_of("does_depth_help")["LESSON"])
    assert "<td>Two layers, 2 splits</td><td>1.33 (0.01)</td><td>1.34 (0.01)</td>" in table
    assert "<h4>wine_red</h4>" in table and "<td>266.40</td>" in table


def test_every_link_to_the_glossary_finds_its_term():
    anchors = {part.proto.anchor for part in open_lesson("glossary").subheader}
    for path in LEARN.glob("*.py"):
        wanted = set(re.findall(r"\]\(glossary#([\w-]+)\)", path.read_text(encoding="utf-8")))
        assert wanted <= anchors, (path.name, wanted - anchors)


def test_every_term_of_the_glossary_is_linked_from_a_lesson():
    anchors = {part.proto.anchor for part in open_lesson("glossary").subheader}
    linked: set[str] = set()
    for path in LEARN.glob("*.py"):
        if path.stem not in ("glossary", "for_teachers"):
            linker = Linker()
            lesson = names_of(path.stem)["LESSON"]
            for part in lesson.on_paper or lesson.parts:
                for field in ("text", "do", "then", "says"):
                    linker.linked(getattr(part, field, ""))
            linked |= linker.seen
    assert linked == anchors - {"letters", "the-paper", "errata"} == set(WORDS)


def test_a_term_is_linked_once_and_equations_links_and_names_are_left_alone():
    linker = Linker()
    text = (
        "## The kernel\n\nThe **kernel** of $k = kernel$ and `kernel` is [a kernel](x). A kernel "
        "is a kernel; RBF kernels, noise between the layers, subkernel."
    )
    assert linker.linked(text) == (
        "## The kernel\n\nThe **kernel** of $k = kernel$ and `kernel` is [a kernel](x). A "
        "[kernel](glossary#kernel) is a kernel; [RBF](glossary#rbf) kernels, "
        "[noise between the layers](glossary#layer-noise), subkernel."
    )
    assert linker.linked("A kernel, and [KL](glossary#kl-divergence) is KL.") == (
        "A kernel, and [KL](glossary#kl-divergence) is KL."
    )


def test_the_glossary_has_each_term_once_in_order_and_finds_one():
    page = open_lesson("glossary")
    anchors = [part.proto.anchor for part in page.subheader]
    assert len(set(anchors)) == len(anchors) > 55
    text = " ".join(part.value for part in page.markdown)
    for slip in ("11 inputs", "16 inputs", "28 inputs", "5 million rows", "minus sign"):
        assert slip in text
    assert "1705.08933" in text and "(why_not_zero_mean)" in text
    for address in re.findall(r"\]\((\w+)\)", text):
        assert (LEARN / f"{address}.py").is_file()
    page.text_input(key="glossary_wish").set_value("jitter").run()
    found = [part.proto.anchor for part in page.subheader]
    assert "jitter" in found and len(found) < 5
    page.text_input(key="glossary_wish").set_value("zzz").run()
    assert not page.subheader and len(page.info) == 1


def test_runs_that_cost_start_only_when_asked():
    page = open_lesson("classes")
    assert not any(name.startswith("banana") for name in elements(page))
    page.toggle(key="want_banana").set_value(True).run()
    assert not page.exception
    assert "figure" in elements(page)["banana/deep"]
    assert all(scene.film for scene in scenes(page).values())


@pytest.mark.parametrize("key", ["zero", "rate", "scale", "random", "float32"])
def test_every_ailment_can_be_switched_on_and_begins_anew_by_reset(key):
    page = open_lesson("for_practitioners")
    assert not any("ill_" in name for name in elements(page))
    page.segmented_control(key="ailment").set_value(key).run()
    assert not page.exception and not page.error
    shown = elements(page)
    assert "figure" in shown[f"ill_{key}/deep"] and "figure" in shown[f"well_{key}/deep"]
    films = [scenes(page)[f"{name}_{key}"].film for name in ("ill", "well")]
    assert all(films) and films[0] != films[1]
    runs = page.session_state.lesson_runs
    ill = server().workshop.watch(runs[11, f"ill_{key}"])
    well = server().workshop.watch(runs[11, f"well_{key}"])
    scales = ill.scaler.x_scale, well.scaler.x_scale
    assert (key == "scale") == (not np.array_equal(*scales))
    assert (key == "float32") == (ill.model.precision != well.model.precision)
    assert (key == "zero") == (ill.model.mean_function == "zero")
    assert (key == "rate") == (ill.train.learning_rate != well.train.learning_rate)
    press(page, "reset", f"ill_{key}")
    assert not page.exception
    well.pause()
    press(page, "reset", f"well_{key}")
    assert well.playing and well._until == names_of("for_practitioners")["AILMENTS"][key].well.at
    again = server().workshop.watch(page.session_state.lesson_runs[11, f"ill_{key}"])
    assert again is not ill and again.model == ill.model
    assert np.array_equal(again.scaler.x_scale, ill.scaler.x_scale)


def test_lesson_9_shows_the_layers_and_warns_of_boston():
    page = open_lesson("does_depth_help")
    said = elements(page)["line/layers_words"]["text"]
    assert "Layer 1" in said and "How much this layer changes its input" in said
    assert not page.warning
    page.segmented_control(key="depth_set").set_value("boston").run()
    assert any("racial" in part.value for part in page.warning)


def test_measurements_go_with_their_run():
    page = open_lesson("doubly_stochastic")
    run_id = page.session_state.lesson_runs[7, "noise"]
    marginals = ((np.zeros((8, 1)), np.ones((8, 1))),) * 2
    page.session_state.measured_alone = run_id, RowAlone(3, marginals, marginals, 0.0)
    page.run()
    assert any(
        "at most **less than 1e−15** standard deviations" in part.value for part in page.markdown
    )
    page.select_slider(key="lesson_7_noise_batch").set_value(10).run()
    assert page.session_state.lesson_runs[7, "noise"] != run_id and not page.exception
    assert any("Nobody has asked yet" in part.value for part in page.markdown)


def test_the_mean_of_estimates_has_its_standard_error(rng):
    values = -3.0 + 5.0 * rng.standard_normal(400)
    spread = Spread(values, values, values, -3.0, -3.0)
    seen = NoiseView(10, 100, (1,), (8,), -3.2, 0.12, {}, ())
    said = names_of("doubly_stochastic")["unbiased"](seen, spread)
    error = np.std(values, ddof=1) / 20
    apart = abs(values.mean() + 3.2) / np.sqrt(error**2 + 0.12**2)
    assert f"is {values.mean():,.1f} ± {error:,.1f}, the bound itself -3.2 ± 0.1" in said.replace(
        "−", "-"
    )
    assert f"**{apart:.1f}** standard errors apart" in said


@pytest.mark.parametrize(("name", "place"), [("gap/deep", 1.25), ("fork/deep", 0.0)])
def test_only_a_click_in_the_gap_moves_its_place(name, place):
    own = names_of("prediction_is_a_mixture")
    st.session_state.star_7 = 0.0
    own["clicked"]({"name": name, "x": 1.26, "y": 0.0})
    assert st.session_state.star_7 == place


def test_the_place_of_the_mixture_moves_and_by_hand_numbers_follow():
    page = open_lesson("prediction_is_a_mixture")
    page.slider(key="star_7").set_value(1.5).run()
    assert not page.exception
    viewer = server().viewers.get(page.session_state.viewer)
    assert viewer is not None and 1.5 in viewer.scenes["gap"].style[-1].star
    before = made(page)["bent_picture"]
    page.slider(key="bent_steepness").set_value(8.0).run()
    assert made(page)["bent_picture"] != before


# The figures.


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_figures_build(ink, rng):
    rows = [
        {"set": "a", "model": model, "split": i, "loglik": -1.0 + i, "rmse": 1.0}
        for model in ("linear", "dgp2")
        for i in range(2)
    ]
    for figure in (
        by_hand.bent_figure(0.0, 0.8, 4.0, ink),
        by_hand.estimates_figure(rng.normal(3.0, 1.0, (4, 25)), 3.0, ink),
        depth_table.depth_figure([row | {"set": "boston"} for row in rows], "boston", "both", ink),
    ):
        go.Figure(figure)
        assert figure["layout"]["font"]["color"] == ink.text
    assert depth_table.summary(rows, "a", "loglik")["dgp2"] == (-0.5, 0.5, 2)


def test_modes_are_counted_and_a_straight_cut_is_the_best(rng):
    y = np.linspace(-4, 4, 801)
    bell = np.exp(-0.5 * ((y[:, None] - np.array([-2.0, 0.0, 2.0])) / 0.3) ** 2)
    assert np.allclose(modes(y, bell @ [1.0, 0.0, 0.5]), [-2, 2], atol=0.02)
    assert len(modes(y, bell @ [1.0, 0.0, 0.05])) == 1
    points = rng.standard_normal((200, 2))
    assert straight_cut(points, (points @ [1.0, -2.0] > 0).astype(float)) > 0.97
    assert straight_cut(points, (points[:, 0] * points[:, 1] > 0).astype(float)) < 0.7


def test_depth_gains_over_the_splits_that_both_models_have():
    scores = {("sgp", 0): 1.0, ("sgp", 1): 2.0, ("dgp2", 1): 2.5, ("dgp3", 2): 9.0}
    rows = [
        {"set": "a", "model": model, "split": split, "loglik": value, "rmse": 1.0}
        for (model, split), value in scores.items()
    ]
    assert depth_table.against_one_layer(rows, "a") == {"dgp2": {1: 0.5}}
    assert depth_table.against_one_layer(rows, "b") == {}


def test_every_row_is_drawn_as_the_number_of_its_class(rng):
    points, codes = rng.standard_normal((30, 2)), np.arange(30) % 3
    figure = classes_figure(points, codes, ("zero", "one", "two"), ("a", "<b>"), LIGHT)
    go.Figure(figure)
    assert figure["layout"]["yaxis"]["title"]["text"] == "&#60;b&#62;"
    assert [trace["text"] for trace in figure["data"]] == ["0", "1", "2"]


def test_rows_nearest_to_their_own_centre_are_counted(rng):
    three = rng.integers(3, size=300)
    apart = np.array([[0.0, 5.0], [5.0, 0.0], [-5.0, 0.0]])[three] + rng.standard_normal((300, 2))
    assert nearest_centre(apart, three) > 0.97
    assert nearest_centre(rng.standard_normal((300, 2)), three) < 0.6


# What is promised, measured on models.


def plain_run(choices: Choices, start: Archive | None = None) -> Run:
    """A run by the model's own program: the same steps, in half the time where rows are wide."""
    return Run(choices.dataset, choices.model, choices.train, start, own_program=True)


class Trained:
    """A run driven by hand."""

    def __init__(self, choices: Choices, run: Run | None = None):
        self.run = run or Run(choices.dataset, choices.model, choices.train)
        self.run.advance()

    def to(self, step: int) -> "Trained":
        while self.moment.step < step:
            assert self.run.status != "failed", self.run.reason
            self.run.step(min(1000, step - self.moment.step))
            self.run.advance()
        return self

    @property
    def moment(self):
        assert self.run.latest is not None
        return self.run.latest

    def bounds(self, which: int = 0) -> np.ndarray:
        """Of the deep model or of its rival at every step."""
        fit, kl = self.run.record()[which]
        return fit - kl.sum(1)

    @property
    def deep(self) -> float:
        return float(self.bounds()[-100:].mean())

    @property
    def single(self) -> float:
        return float(self.bounds(1)[-100:].mean())

    @property
    def departures(self) -> list[float]:
        return [float(layer.departure[-1]) for layer in layer_history(self.run).layers[:-1]]

    @property
    def noise(self) -> float:
        """The likelihood's variance, in standard units."""
        likelihood = self.moment.deep.likelihood
        return float(np.exp(np.asarray(likelihood.log_variance)[0]))  # pyright: ignore

    def means(self, x: np.ndarray | None = None) -> np.ndarray:
        """The deep model's predicted means in standard units."""
        X = self.run.dataset.X if x is None else x[:, None]
        model = evaluated(self.run, self.moment)
        return latent(model, self.run.scaler.inputs(X)).mean[:, 0]


@lru_cache
def on_the_step() -> Trained:
    return Trained(Choices(batch=100)).to(1000)


def roughness(trained: Trained) -> float:
    return float(np.abs(np.diff(trained.bounds()[-300:])).mean())


def test_a_small_minibatch_makes_the_bound_rough_and_it_climbs_all_the_same():
    few = Trained(Choices(batch=10)).to(1000)
    assert few.run.train.minibatch == 10 and on_the_step().run.train.minibatch is None
    assert roughness(few) > 4 * roughness(on_the_step())
    climb = few.bounds()
    assert climb[-300:].mean() > climb[:50].mean() + 500


def test_both_dice_are_fair_and_rows_are_the_wilder_one():
    trained = on_the_step()
    seen = noise_view(trained.run, trained.moment)
    N = seen.n_rows
    for spread in seen.spreads.values():
        error = np.hypot(spread.standard_error, seen.bound_error)
        assert abs(spread.both.mean() - seen.bound) < 4 * error
    wide = seen.spreads[1, 8].both.std()
    assert seen.spreads[20, 8].both.std() > 0.7 * wide
    assert seen.spreads[1, 32].both.std() < 0.8 * wide
    assert seen.spreads[1, N].both.std() < 0.3 * wide


@pytest.mark.parametrize("row", [0, 50, 99])
def test_a_row_alone_answers_as_among_all_others(row):
    trained = on_the_step()
    assert row_alone(trained.run, trained.moment, row).difference < 1e-6


def apart(mixture) -> tuple[float, np.ndarray, np.ndarray]:
    """How far a mixture by hand is from its summary, and both densities."""
    y = np.linspace(-3, 3, 1201)
    p = np.exp(mixture.log_density(y[:, None])).ravel()
    m, v = mixture.mean.item(), mixture.variance.item()
    g = np.exp(-0.5 * (y - m) ** 2 / v) / np.sqrt(2 * np.pi * v)
    return 0.5 * float(np.trapezoid(np.abs(p - g), y)), p, g


def test_a_gentle_slope_keeps_a_gaussian_and_a_cliff_tears_it():
    y = np.linspace(-3, 3, 1201)
    gentle, p, _ = apart(by_hand.bent_mixture(0.0, 0.8, 0.4))
    assert gentle < 0.05 and len(modes(y, p)) == 1
    torn, p, g = apart(by_hand.bent_mixture(0.0, 0.8, 8.0))
    assert torn > 0.4 and len(modes(y, p)) == 2
    assert p[g.argmax()] < 0.1 * p.max()
    _, p, _ = apart(by_hand.bent_mixture(1.0, 0.1, 8.0))
    assert len(modes(y, p)) == 1


def test_in_the_gap_the_paths_disagree_and_on_the_plain_they_do_not():
    choices = Choices(data="drawn", points=write_points(GAP_POINTS), layers=3)
    trained = Trained(choices).to(1000)
    plain = mixture_at(trained.run, trained.moment, np.array([1.5]))
    assert summary_error(plain) < 0.01 and len(modes(plain.y, plain.deep.density)) == 1
    torn = mixture_at(trained.run, trained.moment, np.array([0.0]))
    assert 0.08 < summary_error(torn) < 0.13 and len(modes(torn.y, torn.deep.density)) > 1
    assert torn.deep.split.between / torn.deep.split.total > 0.8
    assert torn.rival.deviation < 0.5 * torn.deep.deviation
    assert "modes" in mixture_words(torn) and "one mode" in mixture_words(plain)


def test_the_fork_is_swallowed_by_the_noise():
    trained = Trained(Choices(data="two_branches")).to(3000)
    for x in (-0.5, 0.3, 0.6, 0.9):
        seen = mixture_at(trained.run, trained.moment, np.array([x]))
        assert len(modes(seen.y, seen.deep.density)) == 1
        assert summary_error(seen) < 0.01
        assert seen.deep.deviation > 0.3
    assert abs(trained.deep - trained.single) < 5


def test_the_table_says_what_the_lesson_says():
    rows = regression()
    arm, heat = (depth_table.summary(rows, name, "loglik") for name in ("kin8nm", "energy"))
    gains = depth_table.against_one_layer(rows, "kin8nm")
    assert min(gain for one in gains.values() for gain in one.values()) > 0.1
    assert arm["dgp3"][0] > arm["dgp2"][0] > arm["sgp"][0]
    assert {"sgp", "dgp2", "dgp3"} <= heat.keys()
    keys = [(row["set"], row["model"], row["split"]) for row in rows]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", ["boston", "concrete", "energy", "kin8nm", "power", "wine_red"])
def test_least_squares_agrees_with_every_digit_that_the_paper_prints(name):
    rows = regression()
    for score in ("loglik", "rmse"):
        mean, _, splits = depth_table.summary(rows, name, score)["linear"]
        assert splits == 20 and round(mean, 2) == printed(name, score)["linear"].value


def test_lesson_9_shows_ours_beside_the_paper_s_and_marks_what_was_only_printed():
    page = open_lesson("does_depth_help")

    def table() -> str:
        return next(part.value for part in page.markdown if part.value.startswith("| Model"))

    assert "| Two layers, 2 splits | 1.33 (0.01) | 1.34 (0.01) | 0.06" in table()
    assert "| Bayesian network (printed) | – | 0.90 (0.01) |" in table()
    page.segmented_control(key="depth_show").set_value("paper").run()
    assert "| Bayesian network | 0.90 (0.01) | 0.10 (0.00) |" in table()
    drawn = {trace["name"] for trace in made(page)["depth_picture"]["data"]}
    assert drawn == {"the paper", "its standard error"}
    page.segmented_control(key="depth_show").set_value("ours").run()
    assert "Bayesian" not in table() and "paper" not in table()
    page.segmented_control(key="depth_set").set_value("taxi").run()
    assert not page.exception and any("Not measured here" in p.value for p in page.markdown)
    page.segmented_control(key="depth_show").set_value("both").run()
    assert "| Five layers (printed) | – | −7.00 | – | 266.40 |" in table()


def test_lesson_9_says_where_the_paper_s_gain_comes_from():
    own = names_of("does_depth_help")
    assert own["paper_gain"]("energy") == pytest.approx(0.56, abs=1e-9)
    said = own["two_recipes"]("energy")
    assert "gain +0.56 nats" in said and "−1.29 to −0.73" in said and "ours is better" in said
    text = " ".join(part.value for part in open_lesson("does_depth_help").markdown)
    assert said in text and "five fall to 6.41 (0.28)" in text and "without fear" not in text


@pytest.mark.parametrize("gain", [None, 0.3, 0.004, -0.2])
def test_sentences_about_depth_follow_the_numbers(gain, monkeypatch):
    own = names_of("does_depth_help")
    rows = [
        {"set": "wine_red", "model": model, "split": i, "loglik": value, "rmse": 0.6, "steps": 5}
        for i in range(2)
        for model, value in (("sgp", -0.9), ("dgp2", -0.9 + (gain or 0.0)))
        if gain is not None or model == "sgp"
    ]
    monkeypatch.setitem(own, "measured", lambda: rows)
    said, worst = own["ours"]("wine_red"), own["worst"](("boston", "wine_red"))
    whether = own["whether"]("wine_red")
    if gain is None:
        assert said == "We have not measured depth on it." and worst == whether == ""
        return
    count = {0.3: "ahead on 2 of 2 splits, and behind on none", 0.004: "not helped"}
    assert count.get(gain, "ahead on 0 of 2 splits, and behind on 2") in whether
    number = f"{gain:+.2f}".replace("-", "−")
    assert said == f"Ours, against one layer: two layers {number} nats per row (2 splits)."
    assert (f"lose on them is {number}: two layers on wine_red" in worst) == (gain < -0.05)
    assert ("no deep model loses" in worst) == (gain > -0.05)


def test_what_lesson_9_says_of_depth_is_what_was_measured():
    page = open_lesson("does_depth_help")
    text = " ".join(part.value for part in page.markdown)
    text = re.sub(r"\[([^\]]*)\]\(glossary#[\w-]+\)", r"\1", text)
    for name in ("boston", "wine_red", "naval"):
        assert names_of("does_depth_help")["ours"](name) in text
    for name in ("kin8nm", "energy"):
        assert names_of("does_depth_help")["two_recipes"](name) in text
    assert names_of("does_depth_help")["whether"]("energy") in text


def test_on_a_line_needless_layers_switch_off():
    trained = Trained(Choices(data="nearly_linear", layers=3)).to(2000)
    assert abs(trained.deep - trained.single) < 3
    assert max(trained.departures) < 0.01


def test_on_a_jump_depth_pays():
    trained = on_the_step()
    assert trained.deep - trained.single > 50 and trained.departures[0] > 0.25


def seen_classes(trained: Trained) -> tuple[float, float, float, float]:
    """Shares that both models have right, and that a straight cut parts before and after."""
    seen = view(trained.run, trained.moment)
    assert isinstance(seen, View2D)
    a = np.abs(seen.a[:, None] - seen.data_x[:, 0]).argmin(0)
    b = np.abs(seen.b[:, None] - seen.data_x[:, 1]).argmin(0)
    right = [
        float(np.mean((panel.value[b, a] > 0.5) == (seen.data_y > 0.5)))
        for panel in (seen.deep, seen.rival)
    ]
    layer = seen.layers[0]
    cuts = [straight_cut(p, seen.data_y) for p in (layer.points_in, layer.points_out)]
    return right[0], right[1], cuts[0], cuts[1]


def test_the_first_layer_unrolls_the_spiral():
    trained = Trained(Choices(data="spiral")).to(300)
    _, _, before, after = seen_classes(trained)
    assert 0.68 < before < 0.74 and after == 1.0
    deep, single, _, _ = seen_classes(trained.to(1000))
    assert deep == 1.0 and 0.7 < single < 0.8


def test_on_bananas_depth_adds_nothing():
    deep, single, before, after = seen_classes(Trained(Choices(data="banana")).to(300))
    assert abs(deep - single) < 0.03 and 0.87 < min(deep, single)
    assert before < 0.62 and 0.8 < after < 0.9


def test_the_hidden_layer_brings_digits_of_one_kind_together(whole_compilation):
    choices = names_of("classes")["DIGITS"].choices
    trained = Trained(choices, plain_run(choices))
    shares, right = {}, {}
    for step in (300, 1000):
        seen = view(trained.to(step).run, trained.moment)
        assert isinstance(seen, ViewMany)
        shares[step] = lie_together(trained.run, seen)
        tables = seen.deep.confusion, seen.rival.confusion
        right[step] = [np.trace(table) / table.sum() for table in tables]  # pyright: ignore
    assert 0.35 < shares[300][0] == shares[1000][0] < 0.45
    assert 0.65 < shares[300][1] < 0.77 and 0.77 < shares[1000][1] < 0.88
    assert 0.8 < right[1000][0] < 0.92 and right[1000][1] > 0.97
    new, own = unseen("digits"), trained.run.dataset
    assert not (new.X[:, None] == own.X[None]).all(2).any()  # none of them was trained on
    deep, rival = right_on(trained.run, trained.moment, "unseen", new)
    assert 0.65 < deep < 0.75 and 0.87 < rival < 0.95
    for which, share in (("deep", deep), ("rival", rival)):  # by the core's own prediction
        model = getattr(trained.moment, which)
        latent = predict_latent(model, trained.run.scaler.inputs(new.X), jax.random.key(0))
        exact = accuracy(class_probabilities(model, latent), new.Y)
        assert share == pytest.approx(exact, abs=0.03)
    assert f"**{deep:.0%}** right, one layer **{rival:.0%}**" in unseen_words(
        trained.run, trained.moment
    )


def test_pixels_of_digits_spread_most_by_how_far_they_lean():
    digits = Choices(data="digits").dataset
    ink = digits.X.reshape(-1, 10, 10)
    ink = ink / ink.sum((1, 2), keepdims=True)
    y, x = np.indices((10, 10))[:, None]
    y = y - (ink * y).sum((1, 2), keepdims=True)
    x = x - (ink * x).sum((1, 2), keepdims=True)
    lean = (ink * x * y).sum((1, 2)) / (ink * y * y).sum((1, 2))
    X = (digits.X - digits.X.mean(0)) / digits.X.std(0)
    first = X @ np.linalg.svd(X, full_matrices=False)[2][0]
    assert abs(np.corrcoef(lean, first)[0, 1]) > 0.6


def test_five_inducing_points_end_lower_and_still_find_the_jump():
    few = Trained(Choices(inducing=5)).to(1000)
    assert few.deep < on_the_step().deep
    y = few.run.scaler.outputs(few.run.dataset.Y)[:, 0]
    assert np.corrcoef(few.means(), y)[0, 1] > 0.97


def test_zero_means_flatten_four_layers():
    ailment = names_of("for_practitioners")["AILMENTS"]["zero"]
    ill, well = (Trained(choices).to(1000) for choices in (ailment.ill, ailment.well))
    assert np.std(ill.means()) < 0.1 and ill.deep < ill.single - 200
    y = well.run.scaler.outputs(well.run.dataset.Y)[:, 0]
    assert np.corrcoef(well.means(), y)[0, 1] > 0.97


def test_a_huge_learning_rate_calls_everything_noise():
    ailment = names_of("for_practitioners")["AILMENTS"]["rate"]
    ill = Trained(ailment.ill).to(300)
    assert ill.run.train.learning_rate == 1.0
    stuck = ill.deep
    assert ailment.ill.at == 1000
    ill.to(1000)
    assert np.std(ill.means()) < 0.1 and abs(ill.noise - 1.0) < 0.1
    assert abs(ill.deep - stuck) < 5 and ill.deep < on_the_step().deep - 100


def test_without_scaling_the_bound_is_worse_by_millions():
    choices = Choices()
    data = choices.dataset
    data = replace(data, X=1000 * data.X, Y=1000 * data.Y)
    start = unscaled(data, choices.model, choices.train)
    ill = Trained(choices, Run(data, choices.model, choices.train, start)).to(300)
    assert ill.deep < on_the_step().deep - 1e6 and ill.departures[0] < 0.05
    x = np.sort(data.X[:, 0])
    widest = np.argsort(np.diff(x))[-10:]
    middle = 0.5 * (x[widest] + x[widest + 1])
    middle = middle[np.abs(middle) > 100]  # away from the jump, where the truth is ± 1,000
    assert np.abs(ill.means(middle) - 1000 * np.sign(middle)).mean() > 300
    ill.to(3000)
    assert np.abs(ill.means(middle) - 1000 * np.sign(middle)).mean() < 150
    assert ill.departures[0] < 0.05


def test_random_inducing_inputs_lag_behind(whole_compilation):
    ailment = names_of("for_practitioners")["AILMENTS"]["random"]
    data, model, train = ailment.ill.dataset, ailment.ill.model, ailment.ill.train
    ill = Trained(ailment.ill, plain_run(ailment.ill, random_inducing(data, model, train)))
    well = Trained(ailment.well, plain_run(ailment.well))
    assert ill.to(300).deep < well.to(300).deep - 1000
    assert ill.to(1000).deep < well.to(1000).deep - 200


def test_single_precision_does_no_visible_harm_here():
    choices = Choices()
    model = replace(choices.model, precision="float32")
    ill = Trained(choices, Run(choices.dataset, model, choices.train)).to(1000)
    well = on_the_step()
    assert abs(ill.deep - well.deep) < np.ptp(well.bounds()[-500:])
    assert ill.moment.failures == 0
