"""Layers, Mixture, Prior and the two randomnesses without a browser, in their states."""

import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets.catalogue import load
from dgp_core.gp.model import ModelSpec
from dgp_core.live import workshop
from dgp_core.live.run import Run
from dgp_core.live.views.mixture import along
from dgp_core.training.train import TrainSpec
from pages.figures import boards
from pages.figures.boards import Look, can_look, mixtures, most_apart, place_clicked, star_row
from pages.figures.palette import LIGHT
from pages.ui.choices import Choices
from pages.ui.glossary_links import WORDS
from pages.ui.stage.wire import encode
from tests.core.runs import moved
from tests.pages.opened import PATIENCE, elements, hosts, made, run_of, told

APP = str(Path(__file__).parents[2] / "app.py")
pytestmark = pytest.mark.usefixtures("moved_by_chance")
PAGES = ("layers", "mixture", "prior", "randomness")
OF_A_RUN = ("layers", "mixture", "randomness")


def open_page(name: str, **query) -> AppTest:
    page = AppTest.from_file(APP, default_timeout=PATIENCE)
    for key, value in query.items():
        page.query_params[key] = value
    page.run()
    return go_to(page, name)


def go_to(page: AppTest, name: str) -> AppTest:
    return page.switch_page(f"pages/explore/{name}.py").run()


def begun(page: AppTest) -> AppTest:
    """Waits for the run's first steps, and runs the page again."""
    deadline = time.monotonic() + PATIENCE
    while (latest := run_of(page).latest) is None or latest.step < 3:
        assert time.monotonic() < deadline, run_of(page).reason
        time.sleep(0.05)
    return page.run()


def clean(page: AppTest) -> bool:
    return not page.exception and not page.error


def painted(page: AppTest) -> set[str]:
    return {name for name, part in elements(page).items() if "figure" in part}


def test_opens_while_the_model_is_being_compiled(uncompiled):
    page = open_page("layers", inducing="5", layers="3")
    for name in PAGES:
        go_to(page, name)
        assert clean(page) and page.title[0].value


@pytest.mark.parametrize(
    ("data", "layers"),
    [("nearly_linear", 2), ("ridge", 4), ("arm", 2), ("spiral", 2), ("pinwheel", 2)],
)
def test_every_picture_that_has_room_is_painted(data, layers):
    page = begun(open_page("layers", inducing="5", data=data, layers=str(layers), speed="10"))
    assert clean(page) and hosts(page) == painted(page)
    warps = {name for name in hosts(page) if "warp" in name}
    assert len(warps) == (layers if load(data).X.shape[1] == 2 else 0)
    go_to(page, "mixture")
    assert clean(page) and hosts(page) == painted(page) and "main/pit" in hosts(page)
    page.button(key="look_there").click().run()
    star = [float(part) for part in page.query_params["star"].split(",")]
    assert clean(page) and len(star) == load(data).X.shape[1]
    assert page.session_state.run_id == page.query_params["run"]
    words = elements(page)["main/mixture_title"]["text"]
    shown = re.search(r" = (−?[\d.]*\d)", words)
    assert shown and "median" not in words
    assert float(shown[1].replace("−", "-")) == pytest.approx(star[0], rel=1e-3)


def test_every_state_has_its_words():
    page = begun(open_page("layers", inducing="5", data="nearly_linear", layers="2", speed="1"))
    watcher = open_page("layers", run=page.session_state.run_id)
    assert clean(watcher) and [b.label for b in watcher.button][0] == "Start my own"
    run = run_of(page)
    for status, reason in (("failed", "Too steep."), ("finished", "At its end.")):
        run.status, run.reason = status, reason
        for name in OF_A_RUN:
            go_to(page, name)
            assert clean(page) and reason in elements(page)["main/state"]["text"]
            assert elements(page)["main/bar"]["over"]
    run.reset()
    run.pause()
    for name in OF_A_RUN:
        go_to(page, name)
        assert clean(page) and "Paused" in elements(page)["main/state"]["text"]
        go_to(watcher, name)
        assert clean(watcher) and watcher.session_state.run_id == page.session_state.run_id
        assert watcher.query_params["run"] == page.session_state.run_id  # a reload finds it
        assert watcher.query_params["data"] == "nearly_linear"
    gone = open_page("mixture", run="gone", inducing="5", data="nearly_linear")
    assert clean(gone) and any("is over" in words for words in told(gone))


def test_a_layer_and_what_it_is_worth():
    page = begun(open_page("layers", inducing="5", data="nearly_linear", speed="10"))
    words = elements(page)["main/layer_words"]["text"]
    page.segmented_control(key="own_layer").set_value(2).run()
    assert "Layer 1 of 2" in words and page.query_params["layer"] == "2"
    assert "Layer 2 of 2" in elements(page)["main/layer_words"]["text"]
    page.button(key="measure_without").click().run()
    assert clean(page) and page.session_state.removal[0] == page.session_state.run_id
    assert len(page.session_state.removal[1].without) == 1
    page.query_params["layer"] = "7"
    page.run()
    assert "Layer 2 of 2" in elements(page)["main/layer_words"]["text"]
    assert any("layer '7'" in words for words in told(page))


def test_a_single_layer_has_none_to_remove():
    page = begun(open_page("layers", inducing="5", data="nearly_linear", layers="1"))
    assert clean(page) and any("no inner layer" in info.value for info in page.info)


def test_the_mixture_s_place_can_be_typed_and_is_in_the_link():
    page = begun(open_page("mixture", inducing="5", data="nearly_linear", speed="10"))
    before = elements(page)["main/mixture_title"]["text"]
    page.number_input[0].set_value(0.75).run()
    assert clean(page) and page.query_params["star"] == "0.75"
    after = elements(page)["main/mixture_title"]["text"]
    assert after != before and "0.75" in after
    page.segmented_control(key="own_measure").set_value("wasserstein").run()
    assert clean(page) and page.query_params["measure"] == "wasserstein"


def test_to_look_somewhere_draws_nothing():
    page = begun(open_page("mixture", inducing="5", data="drawn", speed="10"))
    run = run_of(page)
    page.button(key="look_there").click().run()
    assert clean(page) and run_of(page) is run and page.query_params["star"]
    assert "points" not in page.query_params


@pytest.mark.parametrize("data", ["nearly_linear", "ridge", "arm"])
def test_a_click_in_a_curve_goes_to_the_place_under_it(data):
    choices = Choices(data=data, inducing=5)
    run = moved(Run(choices.dataset, choices.model, choices.train), 3)
    moment, name = run.latest, "total_variation"
    rows = along(run, moment)
    figures = mixtures(run, moment, Look(LIGHT), name)
    meta = figures["differ"]["figure"]["layout"]["meta"]
    best = rows.rows[rows.most(name)]
    if data == "nearly_linear":
        assert meta["ranks"] is None
        assert place_clicked(run, moment, {"x": 0.5}, True) == pytest.approx([0.5])
        assert place_clicked(run, moment, {"x": float("nan")}, True) is None
    else:
        first = meta["ranks"][0]
        assert place_clicked(run, moment, {"x": 1.0, "row": first}, True) == pytest.approx(best)
        assert place_clicked(run, moment, {"x": 1.0}, True) is None
        assert place_clicked(run, moment, {"x": 1.0, "row": 10**6}, True) is None
    assert np.array_equal(most_apart(run, moment, True, name), best)


def test_a_fit_s_pictures_are_the_playground_s_without_what_its_page_does_not_show(monkeypatch):
    choices = Choices(data="step", inducing=5, layers=2)
    run = Run(choices.dataset, choices.model, choices.train)
    run.prepare()
    run.advance()
    assert run.latest is not None
    whole = boards.playground(run, run.latest, Look(LIGHT))
    monkeypatch.setattr(boards, "mixture", None)
    painted = boards.fit(run, run.latest, Look(LIGHT))
    layers = [f"layer_{l}{part}" for l in range(2) for part in ("", "_title", "_meter")]
    assert sorted(painted) == sorted(["deep", "rival", "bound", "legend", *layers])
    assert all(encode(painted[name]) == encode(whole[name]) for name in painted)


def test_hundreds_of_inputs_have_no_place_to_click_and_the_median_is_computed_once(monkeypatch):
    choices = Choices(data="rectangles", inducing=5, layers=1)
    run = Run(choices.dataset, choices.model, choices.train)
    assert not can_look(run)
    middle = star_row(run, ())
    monkeypatch.setattr(boards.np, "median", None)
    moved_by = star_row(run, (0.5,))
    assert moved_by[0] == 0.5 and np.array_equal(star_row(run, ()), middle)


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("playground", {"mixture", "inducing-points", "layer"}),
        ("layers", {"deep-gaussian-process", "lengthscale", "kl-divergence", "epsilon"}),
        ("mixture", {"sample-path", "gaussian"}),
        ("prior", {"deep-gaussian-process", "composition"}),
        ("randomness", {"minibatch"}),
        ("compare", {"inducing-points"}),
    ],
)
def test_terms_lead_to_the_glossary_where_they_first_appear(uncompiled, name, terms):
    page = open_page(name, inducing="5", layers="3")
    assert clean(page)
    texts = [part.value for part in (*page.markdown, *page.caption, *page.info)]
    anchors = re.findall(r"\]\(glossary#([\w-]+)\)", " ".join(texts))
    assert terms <= set(anchors) <= set(WORDS) and len(set(anchors)) == len(anchors)


def test_real_data_are_judged_by_rows_held_out_and_drawn_points_by_none():
    page = begun(open_page("mixture", inducing="5", data="motorcycle", layers="1"))
    assert clean(page) and any("14 rows that neither" in words.value for words in page.markdown)
    assert "of 14" in elements(page)["main/pit"]["figure"]["layout"]["yaxis"]["title"]["text"]
    page = open_page("mixture", inducing="5", data="drawn", layers="1")
    assert clean(page) and any("nothing is left" in info.value for info in page.info)
    assert "main/pit" not in hosts(page)


def test_dated_rows_are_judged_by_the_latest_and_other_ways_are_in_the_link():
    page = begun(open_page("mixture", inducing="5", data="co2", layers="1"))
    assert clean(page) and page.selectbox(key="own_judge").value == "latest:year"
    said = " ".join(words.value for words in page.markdown)
    assert "223 rows that neither model has seen (the latest by year: a forecast)" in said
    choices = page.session_state["choices"]
    assert choices.dataset.X.max() < choices.held_out.X.min()
    page.selectbox(key="own_judge").set_value("chance").run()
    assert clean(page) and page.query_params["judge"] == "chance"
    chosen = page.session_state["choices"].held_out
    assert chosen.X.min() < choices.held_out.X.min() and len(chosen) == 223
    assert any("Another way to hold rows out" in sentence for sentence in told(page))
    page = begun(open_page("mixture", inducing="5", data="co2", layers="1", judge="groups:city"))
    assert clean(page) and any("'groups:city'" in sentence for sentence in told(page))
    assert page.selectbox(key="own_judge").value == "latest:year"


def test_a_deeper_prior_and_another_draw_are_in_the_link():
    page = open_page("prior", inducing="5")
    page.slider(key="own_depth").set_value(10).run()
    assert clean(page) and any("10 layers" in words.value for words in page.markdown)
    page.button(key="prior_again").click().run()
    link = {"depth": "10", "swing": "1.0", "draw": "1"}
    assert clean(page) and page.query_params == link
    go_to(page, "layers")
    assert "depth" not in page.query_params and page.query_params["inducing"] == "5"
    page.query_params = {}
    go_to(page, "prior")
    page.query_params = {"depth": "99", "swing": "0.3"}
    page.run()
    assert page.slider(key="own_depth").value == 10
    said = " ".join(told(page))
    assert "depth '99'" in said and "output scale '0.3'" in said
    page.slider(key="own_depth").set_value(3).run()
    assert not any("'99'" in words for words in told(page))


def test_each_randomness_is_redrawn_alone_and_everything_anew():
    page = begun(open_page("randomness", inducing="5", data="nearly_linear", speed="1"))
    assert clean(page)
    view = page.session_state.noise[1]

    def marks() -> dict[str, float]:
        traces = made(page)["noise_bound"]["data"]
        return {t["name"]: t["x"][0] for t in traces if t["name"].startswith("drawn last")}

    before = marks()
    page.button(key="redraw_samples").click().run()
    after = marks()
    moved_marks = {name for name in before if before[name] != after[name]}
    assert clean(page) and len(before) == 2 and len(moved_marks) == 1
    assert any("redrew the **samples** and kept the minibatch" in m.value for m in page.markdown)
    page.button(key="redraw_rows").click().run()
    last = marks()
    assert {name for name in after if after[name] != last[name]} == before.keys() - moved_marks
    page.select_slider(key="own_B").set_value(view.n_rows).run()
    assert page.button(key="redraw_rows").disabled and page.query_params["B"] == str(view.n_rows)
    page.button(key="noise_again").click().run()
    again = page.session_state.noise[1]
    assert clean(page) and again is not view and page.query_params["redraw"] == "1"


def test_what_the_workshop_will_not_do_it_says(uncompiled, monkeypatch):
    monkeypatch.setattr(workshop, "MOST_RUNS", 0)
    page = open_page("layers", inducing="5", data="ramp")
    state = elements(page)["main/state"]
    assert state["phase"] == "queued" and "trains 0 runs at once" in state["text"]
    monkeypatch.setattr(workshop, "MOST_QUEUED", 0)
    page = open_page("layers", inducing="5", data="chirp")
    assert "waiting already" in told(page)[0]
    monkeypatch.setattr(workshop, "MOST_CELLS", 10)
    page = open_page("layers", inducing="5", data="sawtooth")
    assert "cells" in told(page)[0] and "10 at the most" in told(page)[0]


@pytest.mark.parametrize(
    ("value", "words"),
    [(1978.0, "1978"), (1988.25, "1988.2"), (-0.5, "−0.5"), (0.0, "0"), (123456.0, "123456"),
     (0.349264, "0.3493"), (2.5e-7, "2.5e−07"), (3e12, "3e+12")],
)  # fmt: skip
def test_a_place_is_told_in_plain_numbers(value, words):
    run = Run(replace(load("step"), input_names=("year",)), ModelSpec(1, 3), TrainSpec())
    assert boards.star_words(run, np.array([value])) == f"the mixture at year = {words}"
