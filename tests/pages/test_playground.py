"""The playground without a browser: its pictures, its link, and the page in its states."""

import asyncio
import base64
import io
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import parse_qs, urlsplit

import jax
import numpy as np
import plotly
import plotly.graph_objects as go
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from datasets import catalogue
from datasets.starts import film
from dgp_core import archive
from dgp_core.live.run import Run
from pages.figures import boards
from pages.figures.palette import DARK, LIGHT
from pages.figures.playground import (
    bound_figure,
    bound_range,
    data_figure,
    layer_figure,
    legend,
    prediction_figure,
    typed,
)
from pages.ui import session, share
from pages.ui.choices import (
    DATA,
    OFFERED,
    Choices,
    DisplayOptions,
    display_sentences,
    nearest,
    read_display_options,
    read_points,
    read_query,
    write_points,
)
from pages.ui.classroom.room import qr_svg
from pages.ui.stage.library import SCRIPTS, STATIC, EarlyScripts, library, script
from pages.ui.stage.server import server
from tests.core.runs import by_chance, trained
from tests.pages.opened import PATIENCE, bars, elements, hosts, press, run_of, told

APP = str(Path(__file__).parents[2] / "app.py")
pytestmark = pytest.mark.usefixtures("moved_by_chance")


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
    assert (a["mean"]["line"]["color"], a["mean"]["line"]["dash"]) == (ink.deep, "solid")
    assert (b["mean"]["line"]["color"], b["mean"]["line"]["dash"]) == (ink.single, "dash")
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
    # What a download turns it back into, up to the peak and half a shade.
    back = shade["meta"]["peak"] * (z / 255) ** shade["meta"]["power"]
    real = np.minimum(view.deep.density, shade["meta"]["peak"])
    assert np.abs(back - real).max() < 0.005 * shade["meta"]["peak"]


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


def test_a_film_has_the_bound_s_curve_of_its_moments_so_far():
    run = Run(Choices().dataset, Choices().model, Choices().train)
    moments = film("step")
    figure = boards.playground(run, moments[0], boards.Look(LIGHT))["bound"]["figure"]
    assert "first step" in figure["layout"]["annotations"][0]["text"]
    figure = boards.playground(run, moments[5], boards.Look(LIGHT))["bound"]["figure"]
    traces = checked(figure)
    past = moments[1:6]
    assert values(traces["deep"]["x"]).tolist() == [seen.step for seen in past]
    assert values(traces["deep"]["y"]) == pytest.approx([seen.deep.bound for seen in past])
    assert values(traces["single layer"]["y"]) == pytest.approx([seen.rival.bound for seen in past])
    assert figure["layout"]["xaxis2"]["range"][1] >= np.log10(past[-1].step)


def test_what_needs_the_run_itself_says_so_during_a_film():
    run = Run(Choices().dataset, Choices().model, Choices().train)
    moment, look = film("step")[3], boards.Look(LIGHT)
    for painted, names in (
        (boards.layers(run, moment, LIGHT, 0, 0, 0), {"map", "passage", *boards.HISTORY}),
        (
            boards.mixtures(run, moment, look, "total_variation"),
            {"mixture", "cdf", "split", "differ", "varies"},
        ),
        (boards.calibrations(run, None, run.dataset, LIGHT), {"pit", "coverage"}),
    ):
        figures = {name: part["figure"] for name, part in painted.items() if "figure" in part}
        assert figures.keys() == names
        for figure in figures.values():
            go.Figure(figure)
            assert "as soon as" in figure["layout"]["annotations"][0]["text"]


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
    choices = Choices(
        data="drawn",
        layers=4,
        inducing=10,
        width=2,
        kernels="rbf,matern32,rbf,linear",
        mean="zero",
        likelihood="student_t",
        rate=0.02,
        natural=0.0,
        batch=32,
        samples=5,
        seed=17,
        speed="10",
        shade="bands",
        noise="without",
        star="0.25",
        at=300,
        points="-1_2~0.5_-3e-05",
    )
    assert read_query(choices.query()) == (choices, [])
    assert read_query({}) == (Choices(), [])
    assert read_query(Choices().query()) == (Choices(), [])


def test_a_teacher_s_link_keeps_its_display_options():
    display = DisplayOptions(lock=True, hide=("rival", "mixture"), projector=True)
    assert read_display_options(display.query()) == display
    assert read_display_options({"hide": "everything,rival", "lock": "yes"}) == DisplayOptions(
        hide=("rival",)
    )
    assert display_sentences(display.query()) == display_sentences({}) == []
    said = display_sentences({"hide": "everything,rival", "lock": "yes", "view": "big"})
    assert [word in s for word, s in zip(("everything", "yes", "big"), said, strict=True)] == [
        1
    ] * 3


def test_points_go_into_a_link_and_back():
    points = [(-1.5, 2.25), (0.0, -3e-5), (12345.0, 1e6)]
    assert np.allclose(read_points(write_points(points)), points, rtol=1e-3)
    for wrong in ("1_2~<b>", "1~2", "1_2_3", "1e9_0~2_2"):
        with pytest.raises(ValueError):
            read_points(wrong)


def test_each_layer_may_have_a_kernel_of_its_own():
    assert Choices(layers=3, kernels="rbf,linear").model.kernels == ("rbf", "linear", "linear")
    assert Choices(layers=3, kernels="matern32").model.kernels == "matern32"


def test_minibatches_suit_the_data_where_nobody_chose():
    assert Choices(data="step").minibatch is None
    assert Choices(data="banana").minibatch == 500
    assert Choices(data="banana", batch=32).minibatch == 32
    assert Choices(data="step", batch=500).minibatch is None


def test_a_mean_field_posterior_is_in_the_link_and_takes_all_rows():
    choices = Choices(data="banana", posterior="mean_field", batch=32)
    assert choices.minibatch is None and choices.model.mean_field
    assert replace(choices, layers=1).minibatch == 32
    assert choices.query()["posterior"] == "mean_field"
    assert read_query(choices.query()) == (choices, [])
    assert "posterior" not in Choices().query()  # as before there was a choice
    large, sentences = read_query({"data": "nyc_flights", "posterior": "mean_field"})
    assert large.posterior == "doubly_stochastic" and "10,000 at the most" in sentences[0]


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
        ({"kernels": "rbf,mattern32"}, Choices(kernels="rbf,matern32")),
        ({"star": "here"}, Choices()),
        ({"points": "1_1"}, Choices()),
        ({"star": "1,2"}, Choices()),
        ({"likelihood": "bernoulli"}, Choices()),
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
            if len(offered) > 1000:
                break
    assert all(getattr(Choices(), name) in offered for name, offered in OFFERED.items())
    assert set(DATA) >= {"step", "chirp", "motorcycle"}


def test_plotly_s_own_script_and_ours_are_served_whole():
    path = STATIC / Path(library()).name
    assert path.stat().st_size > 1_000_000 and plotly.__version__ in path.name
    for own in SCRIPTS.glob("*.js"):
        served = (STATIC / Path(script(own.stem)).name).read_text(encoding="utf-8")
        imported = re.findall(r'from "\./(\w+-\w+\.js)"', served)
        assert all((STATIC / name).exists() for name in imported)
        assert re.sub(r"-\w{12}\.js", ".js", served) == own.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("accept", "body", "changed"),
    [
        (b"text/html,*/*", [b"<html><head></he", b"ad><body></body></html>"], True),
        (b"text/html", [b"not a page"], False),
        (b"application/json", [b"<head></head>"], False),
    ],
)
def test_a_page_s_html_asks_for_the_scripts_at_once(accept, body, changed):
    sent = []

    async def app(scope, receive, send):
        assert accept != b"text/html,*/*" or b"accept-encoding" not in dict(scope["headers"])
        length = str(sum(map(len, body))).encode()
        kind = b"text/html" if body[0].startswith(b"<") else b"text/plain"
        headers = [(b"content-length", length), (b"content-type", kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for i, part in enumerate(body):
            more = i < len(body) - 1
            await send({"type": "http.response.body", "body": part, "more_body": more})

    async def send(message):
        sent.append(message)

    headers = [(b"accept", accept), (b"accept-encoding", b"gzip")]
    scope = {"type": "http", "method": "GET", "headers": headers}
    asyncio.run(EarlyScripts(app)(scope, None, send))
    whole = b"".join(message.get("body", b"") for message in sent)
    assert int(dict(sent[0]["headers"])[b"content-length"]) == len(whole)
    assert (library().encode() in whole) is changed


@pytest.mark.parametrize("ink", [LIGHT, DARK])
@pytest.mark.parametrize("name", ["step", "ridge", "spiral", "pinwheel", "arm", "digits"])
def test_a_recording_is_painted_without_any_computation(name, ink, monkeypatch):
    for kind in ("one_input", "two_inputs", "table"):
        monkeypatch.setattr(f"dgp_core.live.views.{kind}.evaluated", None)
    run = Run(Choices(data=name).dataset, Choices(data=name).model, Choices().train)
    for moment in (film(name)[0], film(name)[-1]):
        painted = boards.playground(run, moment, boards.Look(ink))
        assert {"deep", "rival", "bound", "legend", "layer_1_meter"} <= painted.keys()
        assert "as soon as" in painted["mixture"]["alt"]
        for element in painted.values():
            if "figure" in element:
                checked(element["figure"])


def test_a_frame_is_small(view):
    figure = prediction_figure(view, view.deep, True, False, LIGHT)
    assert len(json.dumps(figure)) < 60_000


# The page.


def open_page(**query) -> AppTest:
    page = AppTest.from_file(APP, default_timeout=PATIENCE)
    for name, value in query.items():
        page.query_params[name] = value
    return page.run()


def phase(page: AppTest) -> str:
    return elements(page)["main/state"]["phase"]


def shown(page: AppTest, until, what: str) -> AppTest:
    """Waits until a condition holds, and runs the page again, as its socket would have it."""
    deadline = time.monotonic() + PATIENCE
    while not until(page):
        assert time.monotonic() < deadline, f"{what}: {elements(page)['main/state']}"
        time.sleep(0.05)
    return page.run()


def trains(page: AppTest) -> AppTest:
    return shown(page, lambda page: phase(page) == "training", "trains")


def pictures(page: AppTest) -> dict[str, str]:
    """The alternative text of every picture that is sent."""
    return {name: part["alt"] for name, part in elements(page).items() if "figure" in part}


@pytest.mark.parametrize("data", ["step", "spiral", "arm", "drawn"])
def test_a_recording_is_shown_while_the_default_model_compiles(monkeypatch, data):
    monkeypatch.setattr(Run, "prepare", lambda run: None)
    page = open_page(data=data)
    assert phase(page) == "compiling" and not page.exception and not page.error
    assert "recording of step" in elements(page)["main/numbers"]["text"]
    assert hosts(page) - pictures(page).keys() <= {"main/mixture"}


def test_no_recording_is_shown_of_another_model_or_of_other_points(monkeypatch):
    monkeypatch.setattr(Run, "prepare", lambda run: None)
    mine = open_page(data="drawn", points="0_0~1_1~2_0")
    assert phase(mine) == "compiling" and "before any model" in pictures(mine)["main/deep"]
    other = open_page(data="step", layers="3")
    assert phase(other) == "compiling" and not other.exception
    assert "before any model" in pictures(other)["main/deep"]


@pytest.fixture(scope="module")
def one_page() -> AppTest:
    return open_page(inducing="5", speed="1", data="nearly_linear")


@pytest.fixture
def small(one_page) -> AppTest:
    """A page with a small model, in slow motion; it plays, whatever the last test did to it."""
    run = run_of(one_page)
    if run.status in ("finished", "failed"):
        run.reset()
    run.play()
    server().workshop.wake()
    return one_page.run()


def test_opens_moves_and_has_room_for_every_picture(small):
    assert not small.exception and not small.error
    assert small.title[0].value == "Deep GP Lab"
    trains(small)
    assert not small.exception and not small.error
    assert hosts(small) == pictures(small).keys() and len(hosts(small)) == 6
    assert all(pictures(small).values())
    assert small.query_params["run"] and small.query_params["v"]


def test_pause_step_and_reset(small):
    trains(small)
    press(small, "pause")
    assert phase(small) == "paused" and not elements(small)["main/bar"]["playing"]
    before = run_of(small).latest.step
    press(small, "step")
    shown(small, lambda page: run_of(page).latest.step > before, "takes a step")
    assert run_of(small).latest.step == before + 1 and phase(small) == "paused"
    press(small, "reset")
    shown(small, lambda page: run_of(page).latest.step == 0, "goes back to the start")


def test_rates_speed_and_seed_act_without_a_restart(small):
    trains(small)
    run = run_of(small)
    small.select_slider(key="choose_rate").set_value(0.02).run()
    press(small, "seed")
    assert run_of(small) is run
    assert (run.train.learning_rate, run.train.seed, run.speed) == (0.02, 1, 1.0)
    assert small.query_params["rate"] == "0.02" and small.query_params["seed"] == "1"
    assert elements(small)["main/bar"]["seed"] == 1
    for word, speed in (("10", 10.0), ("nonsense", 10.0), ("1", 1.0)):
        press(small, f"speed {word}")
        assert run.speed == speed == elements(small)["main/bar"]["speed"]
        assert small.query_params["speed"] == f"{speed:g}"


def test_bands_and_noise_change_the_picture_and_not_the_run(small):
    trains(small)
    run, density = run_of(small), elements(small)["main/deep"]
    small.segmented_control(key="choose_shade").set_value("bands").run()
    bands = elements(small)["main/deep"]
    assert run_of(small) is run and small.query_params["shade"] == "bands"
    names = [{t.get("name") for t in e["figure"]["data"]} for e in (density, bands)]
    assert any("density" in str(n) for n in names[0]) and "middle 95 %" in names[1]
    small.segmented_control(key="choose_shade").set_value("density").run()


def test_another_depth_restarts_and_says_so(small):
    before = run_of(small)
    small.slider(key="choose_layers").set_value(1).run()
    assert run_of(small) is not before
    assert run_of(small).train.seed == before.train.seed
    assert "depth" in told(small)[0] and "same seed" in told(small)[0]
    trains(small)
    assert hosts(small) == pictures(small).keys() and len(hosts(small)) == 5
    assert not small.exception and not small.error


def test_an_address_from_before_does_not_undo_what_is_chosen_but_the_way_back_does(uncompiled):
    """A control moved again before the browser has heard of its new address sends the old one."""
    page = open_page(data="nearly_linear", inducing="5", layers="1")
    old = dict(page.query_params)
    page.slider(key="choose_layers").set_value(2).run()
    page.query_params.clear()
    page.query_params.update(old)
    page.slider(key="choose_layers").set_value(3).run()
    assert run_of(page).model.layers == 3 and page.query_params["layers"] == "3"
    page.query_params.clear()
    page.query_params.update(old)
    page.run()
    assert run_of(page).model.layers == 1 and page.slider(key="choose_layers").value == 1


def test_the_way_back_counts_though_the_run_before_it_was_cut_short(uncompiled, monkeypatch):
    page = open_page(data="nearly_linear", inducing="5", layers="1")
    old = dict(page.query_params)
    with monkeypatch.context() as cut:
        cut.setattr(session, "say", st.stop)
        page.slider(key="choose_layers").set_value(2).run()
    page.query_params.clear()
    page.query_params.update(old)
    page.run()
    assert run_of(page).model.layers == 1


def test_the_way_back_counts_though_a_press_asks_for_the_same_run(uncompiled, monkeypatch):
    page = open_page(data="nearly_linear", inducing="5", layers="1")
    old = dict(page.query_params)
    page.slider(key="choose_layers").set_value(2).run()
    page.query_params.clear()
    page.query_params.update(old)
    page.session_state.by_hand = True
    with monkeypatch.context() as arrows:
        arrows.setattr(session, "_by_the_arrows", lambda: True)
        page.run()
    assert run_of(page).model.layers == 1


def do_by_numbers(page: AppTest, what: str, **numbers: float) -> AppTest:
    page.selectbox(key="number_what").set_value(what).run()
    for name, value in numbers.items():
        page.number_input(key=f"number_{name}").set_value(value)
    return page.button(key="number_do").click().run()


def test_what_the_mouse_does_can_be_done_by_numbers(small):
    trains(small)
    run = run_of(small)
    run.pause()
    do_by_numbers(small, "star", **{"0": 0.25})
    assert small.query_params["star"] == "0.25"
    least = float(run.latest.deep.layers[0].inducing.min())
    do_by_numbers(small, "inducing", inducing=1, **{"0": -3.0})
    place = (-3.0 - run.scaler.x_mean[0]) / run.scaler.x_scale[0]
    shown(
        small,
        lambda page: np.isclose(run.latest.deep.layers[0].inducing.min(), place),
        "moves the leftmost point",
    )
    assert place < least and "point" not in small.selectbox(key="number_what").options


def test_points_are_put_down_and_taken_away_by_numbers(uncompiled):
    page = open_page(data="drawn", inducing="5", layers="1")
    before = page.session_state.choices.drawn_points
    do_by_numbers(page, "point", **{"0": 0.123, "1": 0.456})
    assert page.session_state.choices.drawn_points == [*before, (0.123, 0.456)]
    do_by_numbers(page, "point", **{"0": 0.123, "1": 0.456})
    assert page.session_state.choices.drawn_points == before


def test_a_row_is_chosen_by_its_number(uncompiled):
    page = open_page(data="concrete", inducing="5", layers="1")
    do_by_numbers(page, "row", row=7)
    star = [float(part) for part in page.query_params["star"].split(",")]
    np.testing.assert_allclose(star, run_of(page).dataset.X[6], rtol=1e-3)


def test_a_qr_code_is_there_once_the_box_is_open(uncompiled):
    page = open_page(data="nearly_linear", inducing="5", layers="1")
    tools = [c.proto for c in page.get("bidi_component") if c.proto.component_name == "link_tools"]
    assert not tools
    page.session_state.share = True
    (tools,) = (
        json.loads(c.proto.json)
        for c in page.run().get("bidi_component")
        if c.proto.component_name == "link_tools"
    )
    assert tools["link"] == page.code[0].value and tools["code"].startswith("data:image/svg+xml")
    assert parse_qs(urlsplit(tools["link"]).query) == {"run": [page.session_state.run_id]}


def test_a_moment_s_link_pauses_once_and_not_again():
    page = open_page(inducing="5", data="nearly_linear", layers="1", speed="100", at="3")
    shown(page, lambda page: phase(page) == "paused", "pauses at the moment")
    assert run_of(page).latest.step == 3 and page.query_params["at"] == "3"
    press(page, "play")
    assert "at" not in page.query_params
    page.select_slider(key="choose_inducing").set_value(10).run()
    shown(page, lambda page: (run_of(page).latest or Start).step > 3, "goes on beyond it")
    assert phase(page) == "training"


class Start:
    step = 0


def test_another_browser_watches_and_may_start_its_own(small):
    watcher = open_page(run=small.session_state.run_id, shade="bands")
    assert watcher.query_params["data"] == "nearly_linear"
    assert watcher.query_params["shade"] == "bands"
    with_click(watcher, {"name": "main/deep", "x": 0.5, "y": 0.1, "near_x": 0.1, "near_y": 0.1})
    assert watcher.query_params["star"] == "0.5"
    assert watcher.session_state.run_id == small.session_state.run_id
    assert {b.label for b in watcher.button} == {"Start my own", "Apply"} and not watcher.slider
    assert watcher.selectbox(key="number_what").options == ["Look at an input x*"]
    assert not bars(watcher)
    watcher.button(key="own").click().run()
    assert watcher.session_state.run_id != small.session_state.run_id
    assert run_of(watcher).model == run_of(small).model
    assert set(bars(watcher)) == {"main"} and not watcher.exception


def test_a_teacher_s_link_locks_and_leaves_out():
    page = open_page(
        inducing="5", data="nearly_linear", layers="1", lock="1", hide="rival,mixture,history"
    )
    assert not page.exception and not page.error
    assert page.slider(key="choose_layers").disabled
    assert hosts(page) == {"main/deep", "main/bound", "main/layer_0"}
    assert page.query_params["lock"] == "1"


def test_a_click_chooses_x_star_or_puts_down_a_point(small):
    session_state = small.session_state
    star = {"name": "main/deep", "x": 0.5, "y": 0.1, "near_x": 0.01, "near_y": 0.01}
    with_click(small, star)
    assert session_state.choices.star == "0.5" and small.query_params["star"] == "0.5"
    drawing = open_page(data="drawn", inducing="5", layers="1")
    n = len(run_of(drawing).dataset)
    with_click(drawing, {**star, "x": 0.7, "y": 3.0})
    assert len(run_of(drawing).dataset) == n + 1
    with_click(drawing, {**star, "x": 0.7, "y": 3.0})
    assert len(run_of(drawing).dataset) == n
    with_click(drawing, {"x": "nonsense"})
    assert len(run_of(drawing).dataset) == n and not drawing.exception


def test_every_click_is_taken_once_in_its_order(monkeypatch):
    """The browser tells a click until it knows that it was taken, with those that came since."""
    taken = []
    monkeypatch.setattr(st, "session_state", memory := AttrDict())
    for clicks in ([1], [1, 2, 3], [3], [2, 4], "nonsense", [{}], None):
        told = clicks
        if isinstance(clicks, list):
            told = [{"serial": n} if isinstance(n, int) else n for n in clicks]
        memory.stage = SimpleNamespace(click=told)
        session.take_clicks(lambda where: taken.append(where["serial"]))
    assert taken == [1, 2, 3, 4] and session.clicks_taken() == 4


class AttrDict(dict):
    """Streamlit's session state, without a session."""

    __getattr__, __setattr__ = dict.__getitem__, dict.__setitem__


def with_click(page: AppTest, where: dict) -> None:
    """A click as the browser reports it, handled as the page's callback would."""

    def script():
        import streamlit as st

        from pages.ui import session

        session.browser()
        session.clicked(st.session_state.where)

    handler = AppTest.from_function(script)
    for name in ("choices", "run_id", "browser", "messages"):
        handler.session_state[name] = page.session_state[name]
    handler.session_state.where = where
    handler.run()
    page.session_state.choices = handler.session_state.choices
    page.run()


def test_every_control_says_its_choice_by_itself():
    """Not by its key alone: a browser that missed the run which set the key reports what it has."""
    page = open_page(inducing="5", speed="1", data="nearly_linear", rate="0.02", noise="without")
    protos = {w.key: w.proto for w in (*page.slider, *page.select_slider)}
    assert list(protos["choose_layers"].default) == [2]
    for key, name in (("choose_inducing", "inducing"), ("choose_rate", "rate")):
        chosen = OFFERED[name].index(getattr(page.session_state.choices, name))
        assert list(protos[key].default) == [chosen]
    group = next(g for g in page.button_group if g.key == "choose_noise")
    assert list(group.proto.default) == [OFFERED["noise"].index("without")]


def test_a_link_to_a_run_that_is_over_starts_another():
    page = open_page(run="gone", inducing="5", layers="77", data="nearly_linear")
    said = " ".join(told(page))
    assert "is over" in said and "'77'" in said and not page.exception
    assert run_of(page).model.layers == 5


def test_a_failure_is_a_sentence(small, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(session, "play", lambda *_: 1 / 0)
        small.run()
        assert "could not be started" in small.error[0].value and not small.exception
    small.run()
    assert not small.error


def test_a_run_that_failed_or_ended_says_why(small):
    run = run_of(small)
    run.status, run.reason = "failed", "Too steep."
    small.run()
    assert phase(small) == "stopped" and "Too steep." in elements(small)["main/state"]["text"]
    assert elements(small)["main/bar"]["over"]
    press(small, "reset")
    assert not elements(small)["main/bar"]["over"]
    trains(small)


@pytest.mark.parametrize("data", ["ridge", "pinwheel", "arm"])
def test_two_inputs_classes_and_tables_have_their_pictures(data):
    page = trains(open_page(data=data, inducing="5", layers="2", speed="1"))
    assert not page.exception and not page.error
    assert hosts(page) == pictures(page).keys()


def test_a_saved_model_is_opened_again(small):
    run = run_of(small)
    content = share.model_file(run)
    choices, saved = share.open_model(content)
    assert choices.shape == session.started_with(run).shape
    assert int(saved.state.step) == run.latest.step or run.playing
    assert saved.settings["altered"] is run.altered
    run.altered = True
    choices, saved = share.open_model(share.model_file(run))
    again = open_page(inducing="5", data="nearly_linear", layers=str(choices.layers), speed="1")
    opened(again, choices, saved)
    assert run_of(again).altered and not again.exception
    run.altered = False
    with pytest.raises(ValueError, match="Your data"):
        other = io.BytesIO()
        archive.save(other, run.archive())
        share.open_model(other.getvalue())
    with pytest.raises(ValueError):
        share.open_model(b"nonsense")


def opened(page: AppTest, choices: Choices, saved) -> None:
    """Goes on with a saved model, as the Share panel does."""

    def script():
        import streamlit as st

        from pages.ui import session

        session.browser()
        session.open_saved(st.session_state.choices, st.session_state.saved)

    handler = AppTest.from_function(script)
    for name in ("run_id", "browser", "messages"):
        handler.session_state[name] = page.session_state[name]
    handler.session_state.choices, handler.session_state.saved = choices, saved
    handler.run()
    page.session_state.choices = handler.session_state.choices
    page.session_state.run_id = handler.session_state.run_id
    page.run()


@pytest.mark.parametrize("data", ["drawn", "motorcycle"])
def test_the_run_as_python_trains_the_same_model(data, tmp_path, monkeypatch):
    choices = Choices(data=data, layers=1, inducing=5, seed=3)
    run = Run(choices.dataset, choices.model, choices.train)
    run.label = choices
    trained(run, 2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dgp_core.training.train.train_chunk", by_chance)
    found = {}
    exec(compile(share.run_script(run), "run.py", "exec"), found)
    assert np.array_equal(found["train"].X, run.dataset.X)
    own, theirs = (jax.tree.leaves(m) for m in (run.latest.deep, found["state"].model))
    assert all(np.array_equal(a, b) for a, b in zip(own, theirs, strict=True))


def test_of_real_data_a_tenth_is_held_out_and_no_row_is_on_both_sides():
    whole, choices = catalogue.load("concrete"), Choices(data="concrete")
    assert choices.held_out is not None
    rows = np.concatenate([choices.dataset.X, choices.held_out.X])
    assert len(choices.dataset) == int(0.9 * len(whole)) and len(rows) == len(whole)
    assert sorted(map(tuple, rows)) == sorted(map(tuple, whole.X))
    assert Choices(data="step").held_out is None is Choices(data="drawn").held_out


def test_links_are_spelt_safely_and_lose_their_run():
    address = "https://lab.example/?v=1&points=1_2~3_4&kernels=rbf,linear&run=abc"
    assert share.without_run(address) == address.removesuffix("&run=abc")
    assert share.without_run("https://lab.example/?run=abc") == "https://lab.example/?v=1"
    assert share.without_run("https://lab.example/?a=x%26y&run=1").endswith("?a=x%26y")


def test_a_short_link_names_the_run_and_how_it_is_looked_at():
    points = write_points([(i / 7, -i / 3) for i in range(200)])
    address = f"https://lab.example/?v=1&data=drawn&points={points}&shade=density&run=abc"
    assert share.short_link(address) == "https://lab.example/?run=abc"
    assert share.short_link(address + "&star=0.5") == "https://lab.example/?run=abc&star=0.5"


def test_a_link_gets_the_mark_that_it_needs():
    embed = {"embed": "true"}
    assert share.address_with("https://lab.example/a", embed) == "https://lab.example/a?embed=true"
    assert share.address_with("https://lab.example/?v=1", embed).endswith("/?v=1&embed=true")
    assert share.address_with("https://lab.example/a", {}) == "https://lab.example/a"


@pytest.mark.parametrize(
    ("host", "alone"),
    [
        ("localhost:8501", True),
        ("127.0.0.1", True),
        ("[::1]:8501", True),
        ("192.168.0.7:8501", False),
        ("lab.example", False),
    ],
)
def test_a_link_that_nobody_else_can_open_is_known(host, alone):
    assert share.only_here(f"http://{host}/?run=abc") is alone


@pytest.mark.parametrize("data", ["step", "concrete"])
def test_a_hidden_rival_leaves_neither_curves_nor_numbers(data):
    page = open_page(data=data, inducing="5", hide="rival")
    shown(page, lambda page: run_of(page).latest is not None, "begins")
    said = json.dumps({n: part for n, part in elements(page).items() if n != "main/state"})
    assert "single" not in said and "rival" not in said
    assert "Deep **" in elements(page)["main/bound_words"]["text"]
    page = open_page(data=data, inducing="5")
    shown(page, lambda page: "single" in json.dumps(elements(page)), "shows the rival")


def test_a_qr_code_is_a_picture_of_the_link():
    picture = qr_svg("https://lab.example/?v=1&data=step")
    assert picture.lstrip().startswith("<svg") and "https" not in picture.split(">")[1]
    assert picture != qr_svg("https://lab.example/?v=1&data=chirp")
