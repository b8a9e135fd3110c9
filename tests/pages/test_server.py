"""Frames: painted once for all, only what is new is sent, and only a run's owner moves anything."""

import gc
import json
import os
import threading
import time
import tracemalloc
import weakref
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.live.run import Run, Snapshot
from dgp_core.training.compile_cache import remember_compilations
from dgp_core.training.train import TrainSpec
from pages.ui.classroom.entrance import same_origin
from pages.ui.stage.pace import Pace
from pages.ui.stage.server import (
    FILM_SECONDS,
    FIRST_SECONDS,
    FRAME_SECONDS,
    HOLD_SECONDS,
    LOOK_SECONDS,
    Frame,
    Scene,
    Server,
)
from pages.ui.stage.status import Place, status, waits_for
from pages.ui.stage.wire import encode

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


def frame(server, viewer, patient: bool = True) -> Frame:
    """What a viewer is sent; the impatient have a first picture painted aside."""
    server.attend(viewer)
    server.begin_painting(viewer)
    return server.frame(server.sights(viewer, patient))


def said(server, viewer) -> dict[str, dict]:
    return {name: json.loads(part) for name, part in frame(server, viewer).elements.items()}


def test_a_moment_is_painted_once_for_everybody_in_one_style(server, run_id):
    painted = []
    scene = Scene(run_id, counting(painted), ("plain",))
    for token in ("a", "b", "c"):
        viewer = server.viewers.get_or_create(token, "me")
        viewer.scenes = {"main": scene}
        assert "of step" in said(server, viewer)["main/deep"]["text"]
    assert len(painted) == 1
    viewer.scenes = {"main": Scene(run_id, counting(painted), ("other",))}
    frame(server, viewer)
    assert len(painted) == 2
    server.workshop.on_away(server.workshop.find(run_id))  # then nobody had looked for a while
    assert "of step" in said(server, viewer)["main/deep"]["text"]
    assert len(painted) == 3


def test_what_is_kept_for_a_browser_takes_no_more_room_than_it_needs():
    figure = {"y": np.random.default_rng(0).standard_normal(1500)}
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        packed = encode(figure)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert json.loads(packed)["y"] == figure["y"].tolist()
    assert taken < 1.2 * len(packed)


def test_a_frame_says_what_the_run_does_and_the_history_can_be_held(server, run_id):
    run = server.workshop.control(run_id, "me")
    before = run.latest.step
    run.step(5)
    server.workshop.wake()
    until(lambda: run.latest.step == before + 5 and len(run.history()) > 1)
    viewer = server.viewers.get_or_create("holder", "me")
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
    viewer = server.viewers.get_or_create("nonsense", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ("nonsense",))}
    before = said(server, viewer)
    server.hear(viewer, wrong)
    assert said(server, viewer) == before


def test_only_the_owner_moves_an_inducing_point(server, run_id):
    run = server.workshop.watch(run_id)
    move = {"move": {"name": "main/deep", "index": 2, "x": 1.25, "y": 0.0}}
    for owner, moved in (("somebody else", False), ("me", True)):
        viewer = server.viewers.get_or_create(f"mover {owner}", owner)
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
    viewer = server.viewers.get_or_create("early", "me")
    scene, clock = Scene("x", counting([]), (), film), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    server.begin_film(run, 0)
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
    viewer = server.viewers.get_or_create("replaced", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ("replaced",), clicks=3)}
    before = frame(server, viewer)
    state = json.loads(before.elements["main/state"])
    assert state["clicks"] == 3 and state["since"] is None
    assert before.news(before) == {} and before.news(Frame()) == before.elements
    busy = server.workshop._ticket(run_id)
    busy.busy = True  # no worker takes it up
    signature = server.signature(viewer)
    run.reset()
    assert run.outdated and server.signature(viewer) != signature
    now = said(server, viewer)
    assert "main/deep" not in now and "Start values" in now["main/state"]["text"]
    assert now["main/wait"]["since"] == now["main/state"]["since"] <= time.time()
    busy.busy = False
    server.workshop.wake()
    until(lambda: not run.outdated)
    after = frame(server, viewer)
    assert after.elements["main/deep"] == before.elements["main/deep"]
    assert after.news(before) == after.elements
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
    viewer = server.viewers.get_or_create("numbers", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ())}
    run = server.workshop.watch(run_id)
    for command, pace in ((run.play, True), (run.pause, False)):
        command()
        text = said(server, viewer)["main/numbers"]["text"]
        assert ("steps/s" in text) == pace and "s of training" in text


def test_a_film_goes_on_from_where_the_browser_had_come_by_itself(server, monkeypatch):
    film = tuple(SimpleNamespace(step=step) for step in (0, 7, 20, 30))
    clock = [100.0]
    monkeypatch.setattr("pages.ui.stage.server.time.monotonic", lambda: clock[0])
    run = Run(data(), MODEL, TRAIN)
    viewer, scene = server.viewers.get_or_create("early", "me"), Scene("x", counting([]), (), film)
    server.begin_film(run, 2)
    assert server._moment(viewer, "main", scene, run, False) is film[2]
    clock[0] += FILM_SECONDS + 0.01
    assert server._moment(viewer, "main", scene, run, False) is film[3]
    other = Run(data(), MODEL, TRAIN)  # the next run's film begins at its beginning
    assert server._moment(viewer, "main", scene, other, False) is film[0]


def test_a_run_of_a_known_shape_is_waited_for_a_moment_and_no_other(server, run_id, monkeypatch):
    again, _ = server.workshop.start(data(), MODEL, TRAIN, owner="me")
    server.workshop.watch(again).pause()
    viewer, held = server.viewers.get_or_create("again", "me"), threading.Event()

    def paint(run, moment):
        held.wait(60)
        return {"deep": {"text": "painted"}}

    viewer.scenes = {"main": Scene(again, paint, ("again",))}
    server.attend(viewer)
    until(lambda: server.workshop.find(again).latest is not None)
    server.begin_painting(viewer)
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


def test_a_film_goes_on_while_the_first_picture_is_being_made(server, run_id):
    made, run = threading.Event(), server.workshop.watch(run_id)

    def paint(run, moment):
        if isinstance(moment, Snapshot):
            assert made.wait(60)
        return {"deep": {"text": f"step {moment.step}"}}

    class Frame:
        step = 3

    viewer = server.viewers.get_or_create("impatient", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ("quick",))}
    until(lambda: b" of step" in frame(server, viewer, False).elements.get("main/deep", b""))
    viewer.scenes = {"main": Scene(run_id, paint, ("slow",), (Frame(),))}
    assert b"step 3" in frame(server, viewer, False).elements["main/deep"]
    before = server.signature(viewer)
    made.set()
    until(lambda: server.signature(viewer) != before)
    now = f"step {run.latest.step}".encode()
    assert now in frame(server, viewer, False).elements["main/deep"]


def test_a_painter_that_fails_is_a_sentence_and_the_run_goes_on(server, run_id):
    def paint(run, moment):
        raise RuntimeError("secret detail")

    viewer = server.viewers.get_or_create("unlucky", "me")
    viewer.scenes = {"main": Scene(run_id, paint, ("fails",))}
    text = json.dumps(said(server, viewer))
    assert "secret detail" not in text and "could not be drawn" in text
    assert isinstance(server.workshop.watch(run_id).latest, Snapshot)


def test_a_run_whose_first_picture_fails_is_let_go_with_its_data(server):
    def paint(run, moment):
        raise RuntimeError("untold")

    run_id, _ = server.workshop.start(data(), MODEL, TRAIN, owner="me")
    until(lambda: server.workshop.watch(run_id).latest is not None)
    viewer = server.viewers.get_or_create("sorry", "me")
    viewer.scenes = {"main": Scene(run_id, paint, ("broken",))}
    run = weakref.ref(server.workshop.watch(run_id))
    server.begin_painting(viewer)
    until(lambda: server.painter.has_begun(run(), viewer.scenes["main"]))
    assert "could not be drawn" in json.dumps(said(server, viewer))
    server.workshop.drop(run_id, "me")
    until(lambda: gc.collect() >= 0 and run() is None)


def test_compiled_code_outlives_the_server(server):
    """In the folder that the tests named, not in the user's own."""
    assert remember_compilations() == Path(os.environ["JAX_COMPILATION_CACHE_DIR"])


def test_a_run_that_is_over_is_said(server):
    viewer = server.viewers.get_or_create("late", "me")
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


class RungBell:
    """Counts how often it rings, without a socket."""

    def __init__(self):
        self.rings = 0

    def ring(self) -> None:
        self.rings += 1


def test_to_ask_what_is_new_changes_nothing(server, run_id):
    film = (SimpleNamespace(step=0),)
    viewer = server.viewers.get_or_create("asks", "me")
    viewer.scenes = {"main": Scene(run_id, counting(painted := []), ("asks",), film)}
    ticket = server.workshop._ticket(run_id)
    seen = (viewer.seen, ticket.seen, viewer.film)
    before = server.signature(viewer)
    server.imminent(viewer), server.patience(viewer)
    assert server.signature(viewer) == before
    assert (viewer.seen, ticket.seen, viewer.film) == seen and painted == []
    server.attend(viewer)
    assert viewer.seen > seen[0] and ticket.seen > seen[1]


def test_a_turn_wakes_those_who_look_at_the_run_and_nobody_else(server, run_id):
    other, _ = server.workshop.start(data(), MODEL, TRAIN, owner="me")
    server.workshop.control(other, "me").pause()
    until(lambda: server.workshop.watch(other).latest is not None)
    bells = {}
    for name, seen in (("looks", run_id), ("looks away", other)):
        viewer = server.viewers.get_or_create(name, "me")
        viewer.scenes = {"main": Scene(seen, counting([]), ("wake",))}
        viewer.bells.add(bells.setdefault(name, RungBell()))
    run = server.workshop.control(run_id, "me")
    before = run.latest
    run.step(1)
    with server.workshop._wake:  # the workers, and no viewer
        server.workshop._wake.notify_all()
    until(lambda: run.latest is not before and bells["looks"].rings > 0)
    assert bells["looks away"].rings == 0
    server.hear(server.viewers.get("looks away"), {"at": 0.0})
    assert bells["looks away"].rings == 1
    server.workshop.drop(other, "me")
    for name in bells:
        server.viewers.get(name).bells.clear()


def test_a_film_is_looked_at_again_soon_and_a_run_when_it_tells(server, run_id):
    viewer = server.viewers.get_or_create("patient", "me")
    viewer.scenes = {"main": Scene(run_id, counting([]), ("patient",))}
    assert server.patience(viewer) == LOOK_SECONDS
    viewer.scenes = {"main": Scene(run_id, counting([]), ("film",), (SimpleNamespace(step=0),))}
    assert server.patience(viewer) < FILM_SECONDS  # until its first picture is painted
    server.begin_painting(viewer)
    until(lambda: server.patience(viewer) == LOOK_SECONDS)


def test_a_pace_is_that_of_the_last_turns(monkeypatch):
    run, pace, clock = Paced(), Pace(), [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    assert pace.of(run) == 0.0
    for step in range(0, 1000, 10):  # 100 steps a second, then 20
        clock[0] += 0.1 if step < 500 else 0.5
        run.latest = SimpleNamespace(step=step)
        pace.note(run)
        if step == 490:
            assert pace.of(run) == pytest.approx(100)
    assert pace.of(run) == pytest.approx(20)
    run.latest = SimpleNamespace(step=0)  # a reset
    pace.note(run)
    assert pace.of(run) == 0.0


class Paced:
    """A run as far as its pace is concerned."""

    latest = None


@pytest.mark.parametrize(("owner", "obeys"), [("me", True), ("somebody else", False)])
def test_only_the_owner_drives_a_run(server, run_id, owner, obeys):
    run = server.workshop.control(run_id, "me")
    run.play()
    run.pause()
    viewer = server.viewers.get_or_create(f"driver {owner}", owner)
    viewer.scenes = {"main": Scene(run_id, counting([]), ("driven",), until=run.latest.step)}

    def command(word) -> None:
        server.hear(viewer, {"command": {"scene": "main", "word": word}})

    viewer.at["main"] = 0
    command("play")
    assert run.playing is obeys and run._until is None and (viewer.at == {}) is obeys
    run.pause()
    resets = run.epoch
    command("reset")
    assert (run.epoch == resets + 1) is obeys
    assert run.playing is obeys and (run._until is not None) is obeys  # it pauses there again
    run.pause()
    for nonsense in ("archive", "set_speed", ["play"], None):
        command(nonsense)
    server.hear(viewer, {"command": {"scene": "elsewhere", "word": "play"}})
    assert not run.playing
    until(lambda: not run.outdated)


@pytest.mark.parametrize(
    ("step", "playing", "held", "waits"),
    [
        (None, True, False, True),
        (0, True, False, True),
        (0, False, False, False),
        (0, True, True, False),
        (10, True, False, False),
    ],
)
def test_who_waits_for_a_first_step_does_not_wait_for_others_frames(
    server, run_id, monkeypatch, step, playing, held, waits
):
    monkeypatch.setattr(server, "pause_between", lambda: 4.0)
    run = server.workshop.find(run_id)
    moment = None if step is None else replace(run.latest, step=step)
    monkeypatch.setattr(Run, "at_rest", not playing)
    monkeypatch.setattr(server, "_moment", lambda *_: moment)
    viewer = server.viewers.get_or_create("waits", "me")
    viewer.scenes = {"main": Scene(run_id, lambda run, moment: {}, ("waits",))}
    viewer.at = {"main": 0} if held else {}
    sights = server.sights(viewer)
    assert server.pause_after(sights) == (FRAME_SECONDS if waits else 4.0)
    # A run that is gone, and a page without any, keep nobody waiting.
    viewer.scenes = {"main": Scene("no such run", lambda run, moment: {}, ())}
    assert server.pause_after(server.sights(viewer)) == server.pause_after([]) == 4.0


def test_more_runs_mean_fewer_frames_of_each(server):
    server.painter.cost = 0.05
    viewers = [server.viewers.get_or_create(f"class {i}", "me") for i in range(20)]
    for i, viewer in enumerate(viewers):
        viewer.scenes = {"main": Scene(f"run {i}", counting([]), ())}
        viewer.bells.add(RungBell())
    assert server.pause_between() == pytest.approx(20 * 0.05 / 0.5)
    for viewer in viewers:  # all look at one run
        viewer.scenes = viewers[0].scenes
    assert server.pause_between() == pytest.approx(0.1)
    others = [server.viewers.get_or_create(f"more {i}", "me") for i in range(10)]
    for viewer in others:
        viewer.scenes = viewers[0].scenes
        viewer.bells.add(RungBell())
    assert 1 / 7 < server.pause_between() < 1 / 6
    for viewer in others:
        viewer.bells.clear()
    for viewer in viewers:
        viewer.bells.clear()
    assert server.pause_between() == pytest.approx(0.1)
