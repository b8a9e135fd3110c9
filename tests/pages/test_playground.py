"""The playground without a browser: its pictures, its link, and the page in its states."""

import base64
import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from streamlit.testing.v1 import AppTest

from datasets.starts import film
from dgp_core.live.run import Run
from pages.figures.palette import DARK, DEEP, LIGHT, SINGLE
from pages.figures.playground import (
    bound_figure,
    bound_range,
    data_figure,
    layer_figure,
    legend,
    prediction_figure,
    typed,
)
from pages.ui import session
from pages.ui.choices import DATA, OFFERED, Choices, nearest, read_query
from pages.ui.live_chart import LIBRARY, packed, provide_library

APP = str(Path(__file__).parents[2] / "app.py")
PATIENCE = 240
"""Seconds that a model may take to compile on a loaded machine."""


@pytest.fixture(scope="module")
def view():
    """A recorded moment of the default model."""
    return film("step")[-1]


def values(spec: dict) -> np.ndarray:
    """What `typed` packed."""
    flat = np.frombuffer(base64.b64decode(spec["bdata"]), spec["dtype"])
    return flat.reshape([int(n) for n in spec["shape"].split(",")]) if "shape" in spec else flat


def checked(figure: dict) -> dict[str, dict]:
    """The traces by name, once Plotly's own validation has passed them."""
    go.Figure(figure)
    return {trace["name"]: trace for trace in figure["data"] if "name" in trace}


@pytest.mark.parametrize("dtype", ["f4", "u1"])
@pytest.mark.parametrize("shape", [(6,), (3, 2)])
def test_arrays_are_packed_as_plotly_packs_its_own(rng, dtype, shape):
    array = rng.integers(0, 255, shape).astype(dtype)
    trace = go.Scatter(y=array) if len(shape) == 1 else go.Heatmap(z=array)
    packed_by_plotly = go.Figure(trace).to_dict()["data"][0]
    spec, own = typed(array, dtype), packed_by_plotly["y" if len(shape) == 1 else "z"]
    assert spec["bdata"] == own["bdata"] and np.dtype(spec["dtype"]) == np.dtype(own["dtype"])
    assert spec.get("shape", "").replace(" ", "") == own.get("shape", "").replace(" ", "")


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_predictions_share_their_axes_and_differ_in_colour_and_stroke(view, ink):
    deep, rival = (prediction_figure(view, p, p is view.deep, False, ink) for p in both(view))
    assert deep["layout"] == rival["layout"]
    assert deep["layout"]["xaxis"]["title"]["text"] == "x"
    assert deep["layout"]["yaxis"]["title"]["text"] == "y"
    assert deep["layout"]["font"]["color"] == ink.text
    a, b = checked(deep), checked(rival)
    assert {"density of new points", "mean", "data", "inducing points"} <= a.keys() == b.keys()
    assert (a["mean"]["line"]["color"], a["mean"]["line"]["dash"]) == (DEEP, "solid")
    assert (b["mean"]["line"]["color"], b["mean"]["line"]["dash"]) == (SINGLE, "dash")
    assert a["inducing points"]["marker"]["symbol"] == "triangle-up"
    assert np.allclose(values(a["mean"]["y"]), view.deep.mean, atol=1e-5)


def both(view):
    return view.deep, view.rival


def test_bands_say_their_quantiles_and_lie_in_one_another(view):
    traces = checked(prediction_figure(view, view.deep, True, True, LIGHT))
    wide, narrow = values(traces["middle 95 %"]["y"]), values(traces["middle 50 %"]["y"])
    G = len(view.x)
    assert np.all(wide[:G] <= narrow[:G]) and np.all(wide[G:] >= narrow[G:])
    assert "middle 95 %" in legend(LIGHT, True) and "middle 95 %" not in legend(LIGHT, False)


def test_the_shade_is_darkest_where_the_density_is_highest(view):
    shade = checked(prediction_figure(view, view.deep, True, False, LIGHT))["density of new points"]
    z = values(shade["z"])
    column = view.deep.density.max(0).argmax()
    assert z[:, column].argmax() == view.deep.density[:, column].argmax()
    assert z.max() == 255


def test_data_alone_have_the_frame_of_the_predictions(view):
    alone = data_figure(view.data_x, view.data_y, "x", "y", LIGHT)["layout"]
    later = prediction_figure(view, view.deep, True, False, LIGHT)["layout"]
    assert np.allclose(alone["xaxis"]["range"], later["xaxis"]["range"])
    assert alone["yaxis"]["range"] == later["yaxis"]["range"]


def test_a_layer_shows_its_map_its_inducing_points_and_its_samples(view):
    first, last = view.layers
    figure = layer_figure(first, "time", "height", True, False, LIGHT)
    traces = checked(figure)
    assert {"samples", "map ± 2σ", "map", "inducing points, q(u) ± 2σ"} == traces.keys()
    bars = values(traces["inducing points, q(u) ± 2σ"]["error_y"]["array"])
    assert np.allclose(bars, 2 * first.u_sd, atol=1e-5)
    assert titles(figure) == ("time", "what leaves", "time")
    assert titles(layer_figure(last, "time", "height", False, True, LIGHT)) == (
        "what enters",
        "height",
        "time",
    )
    without = replace(first, map_x=None, map_mean=None, map_sd=None, inducing=None, u_mean=None)
    assert checked(layer_figure(without, "x", "y", True, False, LIGHT)).keys() == {"samples"}


def titles(figure) -> tuple:
    return tuple(figure["layout"][a]["title"]["text"] for a in ("xaxis", "yaxis", "xaxis2"))


def test_the_bound_is_fit_less_kl_and_thinning_keeps_its_mean():
    T = 5000
    fit, kl = np.linspace(-100.0, 50.0, T), np.stack([np.full(T, 3.0), np.full(T, 4.0)], 1)
    figure = bound_figure((fit, kl), (fit - 20, kl[:, :1]), LIGHT)
    traces = checked(figure)
    assert traces.keys() == {
        "deep",
        "single layer",
        "KL of layer 1",
        "KL of layer 2",
        "KL of the single layer",
    }
    step, deep = values(traces["deep"]["x"]), values(traces["deep"]["y"])
    assert len(deep) <= 240 and np.allclose(deep, np.interp(step, np.arange(1, T + 1), fit - 7.0))
    assert np.allclose(values(traces["KL of layer 2"]["y"]), 4.0)
    assert "log" in figure["layout"]["xaxis2"]["title"]["text"]


def test_the_bound_before_the_first_step_says_so():
    nothing = np.zeros(0), np.zeros((0, 1))
    figure = bound_figure(nothing, nothing, LIGHT)
    go.Figure(figure)
    assert "first step" in figure["layout"]["annotations"][0]["text"]


def test_the_bound_s_range_shows_where_the_models_differ():
    steep = np.concatenate([np.full(20, -1e6), np.linspace(0, 10, 80)])
    low, high = bound_range([steep, steep - 5])
    assert -10 < low < 0 and 10 < high < 20


def test_a_link_keeps_every_choice():
    choices = Choices("chirp", 4, 10, 0.02, 0.0, 17, "10")
    assert read_query(choices.query()) == (choices, [])
    assert read_query({}) == (Choices(), [])


@pytest.mark.parametrize(
    ("query", "taken"),
    [
        ({"layers": "9"}, Choices(layers=5)),
        ({"layers": "-3"}, Choices(layers=1)),
        ({"inducing": "30"}, Choices(inducing=25)),
        ({"rate": "nan"}, Choices()),
        ({"rate": "inf"}, Choices(rate=0.1)),
        ({"data": "sawtoth"}, Choices(data="sawtooth")),
        ({"data": "<script>"}, Choices()),
        ({"seed": "soon"}, Choices()),
        ({"v": "7"}, Choices()),
    ],
)
def test_what_a_link_may_not_ask_for_is_said_and_the_nearest_taken(query, taken):
    choices, sentences = read_query(query)
    assert choices == taken and len(sentences) == 1
    assert next(iter(query.values())) in sentences[0]


def test_every_choice_that_is_offered_is_taken_as_it_is():
    for name, offered in OFFERED.items():
        for value in offered:
            assert nearest(str(value), offered, getattr(Choices(), name)) == value
    assert all(getattr(Choices(), name) in offered for name, offered in OFFERED.items())
    assert set(DATA) >= {"step", "chirp", "motorcycle"}


def test_plotly_s_own_script_is_served_and_whole():
    path = provide_library()
    assert path.name == LIBRARY and path.stat().st_size > 1_000_000
    assert provide_library() == path


def test_a_frame_is_small(view):
    figure = prediction_figure(view, view.deep, True, False, LIGHT)
    content = json.loads(packed(figure, "words", "1"))
    assert content["alt"] == "words" and len(json.dumps(content)) < 60_000


# The page.


def open_page(**query) -> AppTest:
    page = AppTest.from_file(APP, default_timeout=PATIENCE)
    for name, value in query.items():
        page.query_params[name] = value
    return page.run()


def shown(page: AppTest, until, what: str) -> AppTest:
    """Runs the page again, as its timer would, until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not until(page):
        assert time.monotonic() < deadline, f"{what}: {[m.value for m in page.markdown]}"
        time.sleep(0.1)
        page.run()
    return page


def word(page: AppTest) -> str:
    """What the page says that the run is doing."""
    found = [m.value for m in page.markdown if "-badge[" in m.value]
    return found[0].split("[")[1].split("]")[0]


def run_of(page: AppTest):
    return session.server().workshop.watch(page.session_state.run_id)


def press(page: AppTest, key: str) -> AppTest:
    return page.button(key=key).click().run()


def charts(page: AppTest) -> list[dict]:
    """Every live chart's content."""
    found = [c.proto for c in page.get("bidi_component")]
    return [json.loads(p.bytes) for p in found if p.component_name == "live_chart"]


def test_a_recording_is_shown_while_the_default_model_compiles(monkeypatch):
    monkeypatch.setattr(Run, "prepare", lambda run: None)
    page = open_page(data="step")
    assert word(page) == "Compiling" and not page.exception and not page.error
    assert any("recording of step" in m.value for m in page.markdown)
    assert len(charts(page)) == 5
    other = open_page(data="step", layers="3")
    assert word(other) == "Compiling" and not other.exception
    assert len(charts(other)) == 3 and "before any model" in charts(other)[0]["alt"]


@pytest.fixture(scope="module")
def small() -> AppTest:
    """A page with a small model, in slow motion."""
    return open_page(inducing="5", speed="1", data="nearly_linear")


def test_opens_moves_and_shows_every_picture(small):
    assert not small.exception and not small.error
    assert small.title[0].value == "Deep GP Lab"
    shown(small, lambda page: word(page) == "Training", "trains")
    assert not small.exception and not small.error
    alts = [chart["alt"] for chart in charts(small)]
    assert len(alts) == 5 and all(alts)
    assert small.query_params["run"] and small.query_params["v"]


def test_pause_step_and_reset(small):
    shown(small, lambda page: word(page) == "Training", "trains")
    press(small, "pause")
    assert word(small) == "Paused" and small.button(key="play").label == "Play"
    before = run_of(small).latest.step
    press(small, "step")
    shown(small, lambda page: run_of(page).latest.step > before, "takes a step")
    assert run_of(small).latest.step == before + 1 and word(small) == "Paused"
    press(small, "reset")
    shown(small, lambda page: run_of(page).latest.step == 0, "goes back to the start")
    press(small, "play")


def test_rates_speed_and_seed_act_without_a_restart(small):
    shown(small, lambda page: word(page) == "Training", "trains")
    run = run_of(small)
    small.select_slider(key="choose_rate").set_value(0.02).run()
    press(small, "seed")
    assert run_of(small) is run
    assert (run.train.learning_rate, run.train.seed, run.speed) == (0.02, 1, 1.0)
    assert small.query_params["rate"] == "0.02" and small.query_params["seed"] == "1"


def test_another_depth_restarts_and_says_so(small):
    before = run_of(small)
    small.slider(key="choose_layers").set_value(1).run()
    assert run_of(small) is not before
    assert run_of(small).train.seed == before.train.seed
    assert "depth" in small.info[0].value and "same seed" in small.info[0].value
    shown(small, lambda page: word(page) == "Training", "trains")
    assert len(charts(small)) == 4 and not small.exception and not small.error


def test_another_browser_watches_and_may_start_its_own(small):
    watcher = open_page(run=small.session_state.run_id)
    assert watcher.session_state.run_id == small.session_state.run_id
    assert [b.label for b in watcher.button] == ["Start my own"] and not watcher.slider
    press(watcher, "own")
    assert watcher.session_state.run_id != small.session_state.run_id
    assert run_of(watcher).model == run_of(small).model
    assert watcher.button(key="pause") and not watcher.exception


def test_a_link_to_a_run_that_is_over_starts_another():
    page = open_page(run="gone", inducing="5", layers="77", data="nearly_linear")
    said = " ".join(info.value for info in page.info)
    assert "is over" in said and "'77'" in said and not page.exception
    assert run_of(page).model.layers == 5


def test_a_failure_is_a_sentence(small, monkeypatch):
    shown(small, lambda page: word(page) == "Training", "trains")
    with monkeypatch.context() as patched:
        patched.setattr(session, "state", lambda *_: 1 / 0)
        small.run()
        assert "could not be drawn" in small.error[0].value and not small.exception
    small.run()
    assert not small.error


def test_a_run_that_failed_or_ended_says_why(small):
    run = run_of(small)
    run.status, run.reason = "failed", "Too steep."
    small.run()
    assert word(small) == "Stopped" and "Too steep." in [c.value for c in small.caption]
    assert small.button(key="play").disabled and not small.button(key="reset").disabled
    press(small, "reset")
    shown(small, lambda page: word(page) == "Training", "trains again")
