"""What a session held goes with its tab, and nothing of a file is written anywhere."""

import asyncio
import gc
import logging
import threading
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from starlette.formparsers import MultiPartParser

from dgp_core.gp.model import ModelSpec
from dgp_core.live.limits import LEFT_LOOK_SECONDS, LEFT_SECONDS
from dgp_core.live.run import Run
from dgp_core.live.trial import Trial
from dgp_core.tables.table import propose_target, read_table
from dgp_core.training.train import TrainSpec
from pages.ui import session, session_end
from pages.ui.comparison import Comparison
from pages.ui.session_end import RESTING_LOOKS, Sessions, collect, end_sessions
from pages.ui.stage.guard import keep_uploads_in_memory
from pages.ui.stage.server import Scene, server, stop
from pages.ui.your_data.upload_state import Fitted, LoadedTable, UploadState

PINGS = 60.0
"""Seconds after which Streamlit's server gives up a socket that is silent: two of its pings."""
NEEDLE = "needle_5180339887"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_session_ends_within_two_minutes_of_its_tab_and_a_blip_is_no_end():
    clock, ended, connected = Clock(), [], {"a", "b", "c"}
    sessions = Sessions(clock)
    for name in ("a", "b", "c"):
        sessions.at_end(name, lambda name=name: ended.append(name))
    online = connected.__contains__
    assert sessions.over(online) == []
    connected -= {"a", "b"}
    assert sessions.over(online) == []
    clock.now += LEFT_SECONDS - 1
    assert sessions.over(online) == []
    connected.add("b")  # its network is back
    clock.now += 1
    assert sessions.over(online) == ["a"]
    sessions.end("a")
    sessions.end("a")
    assert ended == ["a"] and sessions.over(online) == []
    connected.remove("b")
    assert sessions.over(online) == []  # another blip counts from its own beginning
    clock.now += LEFT_SECONDS
    assert sessions.over(online) == ["b"]
    assert PINGS + LEFT_SECONDS + LEFT_LOOK_SECONDS < 120


def test_an_end_that_fails_keeps_the_others_and_says_nothing_of_the_data(caplog):
    sessions, ended = Sessions(), []

    def fails():
        raise ValueError(NEEDLE)

    sessions.at_end("a", fails)
    sessions.at_end("a", lambda: ended.append("a"))
    with caplog.at_level(logging.ERROR):
        sessions.end("a")
    assert ended == ["a"] and "ValueError" in caplog.text and NEEDLE not in caplog.text


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setattr(Run, "prepare", lambda run: None)
    stop()  # what another file's tests may have left
    yield server()
    stop()


def test_the_rows_of_a_session_are_gone_with_it(own):
    """The file, the table, its numbers, the fit's runs and what is compared."""
    rng = np.random.default_rng(0)
    rows = "".join(f"{x:.3f},{y:.3f}\n" for x, y in rng.random((60, 2)))
    table = read_table(f"{NEEDLE},y\n{rows}".encode(), "x.csv")
    prepared = table.to_dataset(propose_target(table).value)
    spec = {"deep": ModelSpec(layers=2, inducing=5)}
    trial = Trial(own.workshop, prepared.dataset, spec, TrainSpec(steps=9), browser="me",
                  refit=lambda train, p=prepared: p.refit(train).dataset)  # fmt: skip
    loaded = LoadedTable(table, table, "x.csv")
    state = UploadState(loaded=loaded, source=("x.csv", rows.encode()), prepared=prepared)
    state.fitted = Fitted(trial, prepared, loaded, SimpleNamespace(), 0, 0.0)
    state.cache["preview"] = (table, {"rows": rows})
    compared = Comparison((), prepared.dataset, TrainSpec(steps=9), 0, browser="me")
    compared.add(own.workshop, spec, {"deep"}, {})
    viewer = own.viewers.get_or_create("tab", "me")
    viewer.scenes = {"fit": Scene(trial.main_id, lambda run, moment, p=prepared: {}, ("fit",))}
    run = own.workshop.watch(trial.main_id)
    held = [table, prepared, prepared.dataset, prepared.dataset.X, trial, run, viewer]
    alive = [weakref.ref(one) for one in held]
    threads = [trial._thread, *(one._thread for one in compared.trials)]

    sessions = Sessions()
    sessions.at_end("tab", state.forget)
    sessions.at_end("tab", compared.close)
    sessions.at_end("tab", lambda: session._leave("tab", "me", {}))
    del table, prepared, trial, loaded, run, viewer, held
    gc.collect()
    assert all(ref() is not None for ref in alive)
    assert sessions.end("tab") is True and not UploadState().forget()
    assert vars(state) == vars(UploadState())
    del compared
    for thread in threads:
        thread.join(60)
    until(lambda: gc.collect() is not None and not any(ref() is not None for ref in alive))
    assert own.workshop.counts() == {} and own.viewers.get("tab") is None


def test_a_cycle_that_was_frozen_is_collected_too():
    class Rows:
        pass

    rows = Rows()
    rows.own = rows
    gone = weakref.ref(rows)
    gc.freeze()  # as after the first picture
    try:
        del rows
        gc.collect()
        assert gone() is not None
        collect()
        assert gone() is None
    finally:
        gc.unfreeze()


def test_a_server_where_nobody_is_left_is_at_rest_once(monkeypatch):
    class OverError(Exception):
        pass

    there = [1, *[0] * (RESTING_LOOKS - 1), 1, *[0] * (RESTING_LOOKS + 2), 1]
    looked, rested = [], []

    def count() -> int:
        if len(looked) == len(there):
            raise OverError
        looked.append(there[len(looked)])
        return looked[-1]

    own = SimpleNamespace(
        is_active_session=lambda session: True,
        _session_mgr=SimpleNamespace(num_active_sessions=count),
    )
    known = SimpleNamespace(exists=lambda: True, get_instance=lambda: own)
    monkeypatch.setattr(session_end, "runtime", known)
    monkeypatch.setattr(session_end, "LEFT_LOOK_SECONDS", 0.0)
    with pytest.raises(OverError):
        asyncio.run(end_sessions(lambda: rested.append(len(looked))))
    assert rested == [len(there) - 3]


def until(condition, seconds: float = 30.0) -> None:
    done, end = threading.Event(), time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        done.wait(0.05)


def test_a_lesson_gives_its_runs_back_at_the_end_of_its_tab(own):
    data = read_table(b"x,y\n1,2\n2,3\n3,5\n", "x.csv")
    dataset = data.to_dataset("y").dataset
    lesson, _ = own.workshop.start(dataset, ModelSpec(inducing=2), TrainSpec(), owner="me")
    other, _ = own.workshop.start(dataset, ModelSpec(inducing=2), TrainSpec(), owner="me")
    session._leave("tab", "me", {(1, "fit"): lesson})
    assert own.workshop._tickets[lesson].left and not own.workshop._tickets[other].left


def test_an_upload_of_any_size_stays_in_memory(monkeypatch):
    monkeypatch.setattr(MultiPartParser, "spool_max_size", 1024)
    keep_uploads_in_memory()
    assert MultiPartParser.spool_max_size == 0  # as SpooledTemporaryFile has it: never written
