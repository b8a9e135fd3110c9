"""Frames: painted once for all, only what is new is sent, and only a run's owner moves anything."""

import gc
import json
import os
import threading
import time
import weakref
from types import SimpleNamespace

import jax
import numpy as np
import orjson
import pytest

from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.live.run import Run, Snapshot
from dgp_core.training.train import TrainSpec
from pages.ui.stage.server import (
    FILM_SECONDS,
    FIRST_SECONDS,
    HOLD_SECONDS,
    Scene,
    Server,
    _news,
    same_origin,
)
from pages.ui.stage.status import Place, status, waits_for

MODEL = ModelSpec(layers=2, inducing=8)
TRAIN = TrainSpec(steps=1_000_000, minibatch=None, decay=False)


def data() -> Dataset:
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-2, 2, (40, 1)), 0)
    return Dataset("step", X, np.sign(X), ("x",), ("y",))


def until(condition, seconds: float = 120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def server():
    own = Server()
    yield own
    own.stop()


@pytest.fixture(scope="module")
def run_id(server) -> str:
    """A run that stands still at step 10."""
    run_id, _ = server.workshop.start(data(), MODEL, TRAIN, owner="me")
    run = server.workshop.control(run_id, "me")
    run.play_until(10)
    until(lambda: server.workshop.watch(run_id).latest is not None and not run.playing)
    until(lambda: run.latest.step == 10)
    return run_id


def counting(painted: list):
    def paint(run, moment):
        painted.append(moment)
        return {"deep": {"text": f"{moment.step} of {run.dataset.name}"}}

    return paint


def said(server, viewer) -> dict[str, dict]:
    return {name: json.loads(part) for name, part in server.elements(viewer).items()}


def test_a_moment_is_painted_once_for_everybody_in_one_style(server, run_id):
    painted = []
    scene = Scene(run_id, counting(painted), ("plain",))
    for token in ("a", "b", "c"):
        viewer = server.viewer(token, "me")
        viewer.scenes = {"main": scene}
        assert "of step" in said(server, viewer)["main/deep"]["text"]
    assert len(painted) == 1
    viewer.scenes = {"main": Scene(run_id, counting(painted), ("other",))}
    server.elements(viewer)
    assert len(painted) == 2


def test_a_frame_says_what_the_run_does_and_the_history_can_be_held(server, run_id):
    run = server.workshop.control(run_id, "me")
    before = run.latest.step
    run.step(5)
    server.workshop.wake()
    until(lambda: run.latest.step == before + 5 and len(run.history()) > 1)
    viewer = server.viewer("holder", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ("held",))}
    now = said(server, viewer)
    assert now["main/state"]["phase"] == "paused" and "Paused" in now["main/state"]["text"]
    assert now["main/timeline"]["live"]
    before = server.signature(viewer)
    server.hear(viewer, {"at": 0.0})
    assert server.signature(viewer) != before
    held = said(server, viewer)
    assert held["main/deep"]["text"].startswith("0 of") and not held["main/timeline"]["live"]
    server.hear(viewer, {"at": None})
    assert said(server, viewer)["main/timeline"]["live"]


@pytest.mark.parametrize("wrong", [{"at": "x"}, {"at": 7}, {"at": True}, {"move": 3}, {"move": {}}])
def test_nonsense_from_a_socket_changes_nothing(server, run_id, wrong):
    viewer = server.viewer("nonsense", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ("nonsense",))}
    before = said(server, viewer)
    server.hear(viewer, wrong)
    assert said(server, viewer) == before


def test_only_the_owner_moves_an_inducing_point(server, run_id):
    run = server.workshop.watch(run_id)
    move = {"move": {"name": "main/deep", "index": 2, "x": 1.25, "y": 0.0}}
    for owner, moved in (("somebody else", False), ("me", True)):
        viewer = server.viewer(f"mover {owner}", owner)
        viewer.scenes = {"main": Scene(run_id, counting([]), ("move",))}
        before = run.latest
        server.hear(viewer, move)
        if moved:
            until(lambda before=before: run.latest is not before)
        scaler = run.scaler
        there = run.latest.deep.layers[0].inducing[2, 0] * scaler.x_scale[0] + scaler.x_mean[0]
        assert (abs(there - 1.25) < 1e-9) == moved


def test_a_film_plays_until_the_run_is_compiled(server, monkeypatch):
    film = tuple(SimpleNamespace(step=step) for step in (0, 7, 20))
    run = Run(data(), MODEL, TRAIN)
    viewer = server.viewer("early", "me")
    scene, clock = Scene("x", counting([]), (), film), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    for later, step in (
        (0, 0),
        (0.9 * FIRST_SECONDS, 0),
        (0.2 * FIRST_SECONDS, 7),
        (0.9 * FILM_SECONDS, 7),
        (0.2 * FILM_SECONDS, 20),
        (100, 20),
    ):
        clock[0] += later
        assert server._moment(viewer, "main", scene, run, True).step == step


def test_another_run_is_sent_whole_and_a_reset_one_without_what_it_was(server):
    run_id, _ = server.workshop.start(data(), MODEL, TRAIN, owner="me")
    run = server.workshop.control(run_id, "me")
    run.pause()
    until(lambda: run.latest is not None)
    viewer = server.viewer("replaced", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ("replaced",), clicks=3)}
    before = server.elements(viewer)
    state = json.loads(before["main/state"])
    assert state["clicks"] == 3 and state["since"] is None
    assert _news(before, before) == {} and _news(before, {}) == before
    busy = server.workshop._ticket(run_id)
    busy.busy = True  # no worker takes it up
    signature = server.signature(viewer)
    run.reset()
    assert run.outdated and server.signature(viewer) != signature
    now = said(server, viewer)
    assert "main/deep" not in now and "Start values" in now["main/state"]["text"]
    assert now["main/wait"]["since"] == now["main/state"]["since"] <= time.time()
    assert now["main/state"]["phase"] == state["phase"]  # the page's script need not run for it
    busy.busy = False
    server.workshop.wake()
    until(lambda: not run.outdated)
    after = server.elements(viewer)
    assert after["main/deep"] == before["main/deep"] and _news(after, before) == after
    server.workshop.drop(run_id, "me")


def test_a_wait_says_for_what_since_when_and_after_how_many_others(server):
    run, place = Run(data(), MODEL, TRAIN), Place(0, 0)
    assert waits_for(run, place, False) == "compiling"
    assert status(run, place, "compiling") == "**Compiling** this model (a few seconds)"
    assert "number 3 in the queue" in status(run, Place(0, 2), "compiling")
    assert "number 5 in the queue" in status(run, Place(5, 0), waits_for(run, Place(5, 0), False))
    since = server._since(run, "compiling")
    assert server._since(run, "compiling") == since and since <= time.time()
    run.status = "ready"
    assert waits_for(run, place, False) == "starting"
    assert server._since(run, "starting") >= since and server._since(run, "") is None


def test_a_run_at_rest_has_no_pace(server, run_id):
    viewer = server.viewer("numbers", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ())}
    run = server.workshop.watch(run_id)
    for wish, pace in ((run.play, True), (run.pause, False)):
        wish()
        said = orjson.loads(server.elements(viewer)["main/numbers"])["text"]
        assert ("steps/s" in said) == pace and "s of training" in said


def test_a_film_goes_on_from_where_the_browser_had_come_by_itself(server, monkeypatch):
    film = tuple(SimpleNamespace(step=step) for step in (0, 7, 20, 30))
    clock = [100.0]
    monkeypatch.setattr("pages.ui.stage.server.time.monotonic", lambda: clock[0])
    run = Run(data(), MODEL, TRAIN)
    viewer, scene = server.viewer("early", "me"), Scene("x", counting([]), (), film)
    viewer.film = 2
    assert server._moment(viewer, "main", scene, run, False) is film[2] and viewer.film == 0
    clock[0] += FILM_SECONDS + 0.01
    assert server._moment(viewer, "main", scene, run, False) is film[3]
    other = Run(data(), MODEL, TRAIN)  # the next run's film begins at its beginning
    assert server._moment(viewer, "main", scene, other, False) is film[0]


def test_a_run_of_a_known_shape_is_waited_for_a_moment_and_no_other(server, run_id, monkeypatch):
    again, _ = server.workshop.start(data(), MODEL, TRAIN, owner="me")
    server.workshop.watch(again).pause()
    viewer, held = server.viewer("again", "me"), threading.Event()

    def paint(run, moment):
        held.wait(60)
        return {"deep": {"text": "painted"}}

    viewer.scenes = {"main": Scene(again, paint, ("again",))}
    assert server.imminent(viewer)  # whether it is being started or painted
    began = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: began + HOLD_SECONDS + 1)
    assert not server.imminent(viewer)
    monkeypatch.undo()
    held.set()
    until(lambda: server.signature(viewer)[0][2] is not None)
    assert not server.imminent(viewer)
    other = ModelSpec(layers=1, inducing=3, kernels="rbf + linear")  # no size class holds it
    strange, _ = server.workshop.start(data(), other, TRAIN, owner="me")
    viewer.scenes = {"main": Scene(strange, paint, ("strange",))}
    assert not server.imminent(viewer)
    for over in (again, strange):
        server.workshop.drop(over, "me")


def test_a_page_goes_on_once_a_picture_was_seen_or_two_of_what_moves(server, run_id, monkeypatch):
    viewer = server.viewer("first", "me")
    for seen in ("two", None, 0):
        server.hear(viewer, {"seen": seen})
        assert not viewer.looked.is_set()
    server.hear(viewer, {"seen": 1})
    assert viewer.looked.is_set()

    still = server.viewer("still", "me")
    still.scenes = {"main": Scene(run_id, counting([]), ())}
    server.hear(still, {"seen": 1})
    assert still.looked.is_set()

    def seen_twice(name: str, film: tuple) -> None:
        watching = server.viewer(name, "me")
        watching.scenes = {"main": Scene(run_id, counting([]), (), film)}
        server.hear(watching, {"seen": 1})
        assert not watching.looked.is_set()
        server.hear(watching, {"seen": 2})
        assert watching.looked.is_set()

    with monkeypatch.context() as trains:
        trains.setattr(Run, "at_rest", False)
        seen_twice("trains", ())
    monkeypatch.setattr(Run, "latest", None)
    seen_twice("film", (SimpleNamespace(step=0),))


def test_a_film_goes_on_while_the_first_picture_is_being_made(server, run_id):
    made, run = threading.Event(), server.workshop.watch(run_id)

    def paint(run, moment):
        if isinstance(moment, Snapshot):
            assert made.wait(60)
        return {"deep": {"text": f"step {moment.step}"}}

    class Frame:
        step = 3

    viewer = server.viewer("impatient", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ("quick",))}
    until(lambda: b" of step" in server.elements(viewer, patient=False).get("main/deep", b""))
    viewer.scenes = {"main": Scene(run_id, paint, ("slow",), (Frame(),))}
    assert b"step 3" in server.elements(viewer, patient=False)["main/deep"]
    before = server.signature(viewer)
    made.set()
    until(lambda: server.signature(viewer) != before)
    now = f"step {run.latest.step}".encode()
    assert now in server.elements(viewer, patient=False)["main/deep"]


def test_a_painter_that_fails_is_a_sentence_and_the_run_goes_on(server, run_id):
    def paint(run, moment):
        raise RuntimeError("secret detail")

    viewer = server.viewer("unlucky", "me")
    viewer.scenes = {"main": Scene(run_id, paint, ("fails",))}
    text = json.dumps(said(server, viewer))
    assert "secret detail" not in text and "could not be drawn" in text
    assert isinstance(server.workshop.watch(run_id).latest, Snapshot)


def test_a_run_whose_first_picture_fails_is_let_go_with_its_data(server):
    def paint(run, moment):
        raise RuntimeError("untold")

    run_id, _ = server.workshop.start(data(), MODEL, TRAIN, owner="me")
    until(lambda: server.workshop.watch(run_id).latest is not None)
    viewer = server.viewer("sorry", "me")
    viewer.scenes = {"main": Scene(run_id, paint, ("broken",))}
    run = weakref.ref(server.workshop.watch(run_id))
    until(lambda: server._drawable(run(), viewer.scenes["main"]))
    assert "could not be drawn" in json.dumps(said(server, viewer))
    server.workshop.drop(run_id, "me")
    until(lambda: gc.collect() >= 0 and run() is None)


def test_compiled_code_outlives_the_server(server):
    """In the folder that the tests named, not in the user's own."""
    assert jax.config.jax_compilation_cache_dir == os.environ["JAX_COMPILATION_CACHE_DIR"]


def test_a_run_that_is_over_is_said(server):
    viewer = server.viewer("late", "me")
    viewer.scenes = {"main": Scene("no such run", counting([]), ())}
    assert said(server, viewer)["main/state"]["phase"] == "gone"


@pytest.mark.parametrize(
    ("headers", "ours"),
    [
        ({"origin": "http://lab.example:8501", "host": "lab.example:8501"}, True),
        (
            {"origin": "https://lab.example", "host": "inner", "x-forwarded-host": "lab.example"},
            True,
        ),
        ({"origin": "http://evil.example", "host": "lab.example:8501"}, False),
        ({"host": "lab.example:8501"}, False),
        ({"origin": "null", "host": "lab.example"}, False),
    ],
)
def test_only_this_servers_own_pages_are_sent_frames(headers, ours):
    assert same_origin(SimpleNamespace(headers=headers)) is ours


def test_more_runs_mean_fewer_frames_of_each(server):
    server._cost = 0.05
    viewers = [server.viewer(f"class {i}", "me") for i in range(20)]
    for i, viewer in enumerate(viewers):
        viewer.scenes = {"main": Scene(f"run {i}", counting([]), ())}
        viewer.sockets = 1
    assert server.pause_between() == pytest.approx(20 * 0.05 / 0.5)
    for viewer in viewers:
        viewer.sockets = 0
    assert server.pause_between() == pytest.approx(0.1)
