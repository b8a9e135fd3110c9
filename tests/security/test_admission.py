"""Who gets a run, and for how long: nobody fills the server, and nobody keeps what they left."""

from types import SimpleNamespace

import numpy as np
import pytest

from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.live import workshop as workshop_module
from dgp_core.live.limits import (
    GONE_SECONDS,
    IDLE_MOMENTS,
    IDLE_SECONDS,
    LEFT_BEHIND_SECONDS,
    MOST_OWNED,
)
from dgp_core.live.run import BoundRecord, Run
from dgp_core.live.workshop import MOST_BESIDE, Workshop, WorkshopError
from dgp_core.training.programs import Programs
from dgp_core.training.train import TrainSpec

X = np.linspace(-1, 1, 40)[:, None]
STEP = Dataset("step", X, X, ("x",), ("y",))
MODEL, TRAIN = ModelSpec(layers=2, inducing=25), TrainSpec()


class Shop(Workshop):
    """One without threads that work, whose clock a test sets."""

    def __init__(self):
        self.now = 0.0
        super().__init__(workers=0, clock=lambda: self.now)

    def come(self, owner: str) -> str:
        return self.start(STEP, MODEL, TRAIN, owner=owner)[0]

    def pass_by(self, seconds: float, watched: tuple[str, ...] = ()) -> None:
        """Time goes by, while some runs are looked at."""
        for _ in range(int(seconds)):
            self.now += 1.0
            for run_id in watched:
                self.watch(run_id)
        with self._wake:
            self._tidy(self.now)


@pytest.fixture
def shop(monkeypatch):
    monkeypatch.setattr(Run, "prepare", lambda run: None)
    shop = Shop()
    yield shop
    shop.stop()


def test_a_run_is_charged_what_it_takes(shop):
    ticket = shop._ticket(shop.come("me"))
    assert 2**20 < ticket.nbytes < 2 * 2**20  # its data and parameters, before any moment
    before, run = ticket.nbytes, ticket.run
    run._moment_bytes, run._history = 40_000, [object()] * 100
    record = BoundRecord(2)
    run._records = (record, BoundRecord(1))
    record._fit.extend([0.0] * 500)
    record._kl.extend([0.0] * 1000)
    assert ticket.nbytes - before == 100 * 40_000 + 8 * 1500


def test_visitors_who_have_left_keep_nobody_waiting(shop, monkeypatch):
    monkeypatch.setattr(workshop_module, "MOST_BYTES", 40 * 2**20)
    for visitor in range(300):  # one every five seconds, who leaves at once
        run_id = shop.come(str(visitor))
        assert shop.place(run_id) == 0, f"visitor {visitor} waits"
        shop.pass_by(5)
    held = sum(ticket.nbytes for ticket in shop._tickets.values())
    assert held <= 40 * 2**20 and len(shop._tickets) < 40


def test_the_longest_idle_goes_first_and_the_watched_stay(shop, monkeypatch):
    first, second, third = (shop.come(name) for name in "abc")
    shop.pass_by(10, (second, third))
    shop.pass_by(10, (third,))
    shop.pass_by(40, (third,))
    monkeypatch.setattr(
        workshop_module, "MOST_BYTES", sum(t.nbytes for t in shop._tickets.values()) + 1000
    )
    shop.come("d")
    assert first not in shop._tickets and {second, third} < shop._tickets.keys()
    shop.pass_by(1, (third,))
    shop.come("e")
    assert second not in shop._tickets and third in shop._tickets


def test_what_grows_makes_room_too(shop, monkeypatch):
    old, grown = shop.come("a"), shop.come("b")
    shop.pass_by(60, (grown,))
    monkeypatch.setattr(workshop_module, "MOST_BYTES", 20 * 2**20)
    run = shop.find(grown)
    run._moment_bytes, run._history = 2**20, [object()] * 18
    shop.pass_by(11, (grown,))
    assert old not in shop._tickets and grown in shop._tickets


def test_what_is_left_behind_is_thinned_and_does_not_grow(shop, monkeypatch):
    first = shop.come("a")
    run = shop.find(first)
    run._moment_bytes, run._history = 2**20, [SimpleNamespace(step=k) for k in range(100)]
    run.gallery.get("a view", lambda: 1)
    away = []
    shop.on_away = away.append
    shop.pass_by(20)
    assert len(run._history) == 100  # somebody has only just gone
    assert len(run.gallery) == 1 and away == []
    shop.pass_by(20)
    steps = [moment.step for moment in run._history]
    assert len(steps) == IDLE_MOMENTS and steps[:3] == [0, 1, 2] and steps[-1] == 99
    assert len(run.gallery) == 0 and away == [run]
    held = shop.held()
    monkeypatch.setattr(workshop_module, "MOST_IDLE_BYTES", held // 2)
    shop.pass_by(LEFT_BEHIND_SECONDS - 50)
    assert shop.find(first) is run  # a while is no end
    watched = shop.come("b")
    shop.pass_by(30, (watched,))
    assert first not in shop._tickets and watched in shop._tickets
    assert shop.held() < held // 2


def test_what_was_compiled_is_let_go_where_it_is_much(shop, monkeypatch):
    cleared = []
    monkeypatch.setattr(workshop_module.jax, "clear_caches", lambda: cleared.append(1))
    for beside, known in ((MOST_BESIDE, 1), (MOST_BESIDE + 1, 0)):
        monkeypatch.setattr(Programs, "beside", lambda own, n=beside: n)
        shop._known.add(("a shape",))
        shop.lighten()
        assert len(shop._known) == known
    assert cleared == [1]
    shop.come("a")
    (ticket,) = shop._tickets.values()
    ticket.prepared, ticket.run.status = True, "ready"
    of_class = ticket.run.size
    for size, times in ((None, 1), (of_class, 2)):  # none: it trains by a program of its own
        ticket.run.size = size
        shop.lighten()
        assert len(cleared) == times


def test_an_owner_has_eight_runs(shop):
    runs = [shop.come("me") for _ in range(MOST_OWNED)]
    with pytest.raises(WorkshopError, match="8 runs of this browser are on its screens"):
        shop.come("me")
    assert shop.place(shop.come("somebody else")) == 0
    shop.pass_by(10, tuple(runs[1:]))
    shop.come("me")  # in the place of the one that nobody looks at
    assert runs[0] not in shop._tickets and set(runs[1:]) < shop._tickets.keys()
    mine = [t for t in shop._tickets.values() if t.owner == "me"]
    assert len(mine) == MOST_OWNED


def test_a_run_whose_page_was_left_makes_room_at_once(shop):
    runs = [shop.come("me") for _ in range(MOST_OWNED)]
    shop.leave(runs[3:4], "me")
    shop.come("me")
    assert runs[3] not in shop._tickets and len(shop._tickets) == MOST_OWNED
    with pytest.raises(WorkshopError, match="on its screens"):
        shop.come("me")


def test_a_lesson_that_was_left_gives_its_runs_back(shop):
    lesson, playground, followed = shop.come("me"), shop.come("me"), shop.come("me")
    shop.leave([lesson, followed, "gone"], "me")
    shop.leave([playground], "somebody else")
    shop.pass_by(IDLE_SECONDS - 5, (followed,))
    shop.control(lesson, "me")  # back in time
    shop.pass_by(IDLE_SECONDS + 5, (followed,))
    assert {lesson, playground, followed} == shop._tickets.keys()
    shop.leave([lesson], "me")
    shop.pass_by(IDLE_SECONDS + 5, (followed,))
    assert {playground, followed} == shop._tickets.keys()  # the class still looks at that one
    shop.pass_by(GONE_SECONDS)
    assert not shop._tickets


def test_a_full_server_says_when_there_will_be_room(shop, monkeypatch):
    monkeypatch.setattr(workshop_module, "MOST_RUNS", 2)
    runs = [shop.come(str(i)) for i in range(4)]
    assert "as soon as somebody leaves" in shop.queue_sentence(runs[2])
    shop.pass_by(120, tuple(runs))
    shop.drop(runs[0], "0")
    shop.pass_by(120, tuple(runs[1:]))
    shop.drop(runs[1], "1")
    late = shop.come("late")
    shop.pass_by(60, (runs[2], runs[3], late))
    assert shop.place(late) == 1
    assert "in about 2 minutes, as it went lately" in shop.queue_sentence(late)
    monkeypatch.setattr(workshop_module, "MOST_QUEUED", 1)
    with pytest.raises(WorkshopError, match="room for one more comes in about 2 min.* watch"):
        shop.come("later")


def test_who_waits_may_watch_the_server_s_own_run(shop, monkeypatch):
    assert shop.watch_public() is None
    shop.public = shop.come("nobody")
    shop.find(shop.public).pause()
    monkeypatch.setattr(workshop_module, "MOST_BYTES", 3 * 2**20)
    shop.pass_by(2 * GONE_SECONDS)
    shop.come("a"), shop.come("b")
    assert shop.watch_public() == shop.public  # it never goes
    assert shop.find(shop.public).playing
