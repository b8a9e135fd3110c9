"""Shares of training time between fits and playgrounds: fake runs and a fake clock, no threads."""

import heapq
from types import SimpleNamespace

import pytest

from dgp_core.live import workshop as workshop_module
from dgp_core.live.workshop import LONGEST_REST, MOST_OWED, Ticket, Workshop


class FakeRun:
    """Wants a turn whenever it plays."""

    status, playing, begun = "ready", True, True

    @property
    def at_rest(self) -> bool:
        return not self.playing

    def wants_turn(self, now: float) -> bool:
        return self.playing

    def due(self) -> float:
        return 0.0


class Simulation:
    """Workers that take turns from a workshop's own `_next`, on a clock of their own."""

    def __init__(self, monkeypatch, workers: int):
        self.now, self.workers = 0.0, workers
        self.seconds: dict[str, float] = {}
        """Of a turn of each run."""
        self.had: dict[str, float] = {}
        monkeypatch.setattr(
            workshop_module, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=None)
        )
        self.shop = Workshop(workers=0, clock=lambda: self.now)

    def add(self, name: str, seconds: float = 0.05, awaited: bool = False, heavy: bool = False):
        ticket = Ticket(FakeRun(), name, "", 0, self.now, (), self.now, heavy, awaited)  # pyright: ignore
        ticket.admitted = ticket.prepared = True
        self.shop._tickets[name] = ticket
        self.seconds[name], self.had[name] = seconds, 0.0
        return ticket

    def run(self, seconds: float) -> dict[str, float]:
        """Training time that each run has had in so many seconds, as a share of one worker's."""
        before, end = dict(self.had), self.now + seconds
        turns = [(self.now, worker, "", 0.0) for worker in range(self.workers)]
        while turns[0][0] < end:
            self.now, worker, name, began = heapq.heappop(turns)
            for ticket in self.shop._tickets.values():
                ticket.seen = self.now
            if name:
                ticket = self.shop._tickets[name]
                ticket.busy, ticket.turn = False, self.now
                self.shop._had_turn(ticket, self.now - began)
                self.had[name] += self.now - began
                if ticket.heavy:
                    ticket.rest = self.now + min(self.now - began, LONGEST_REST)
            ticket, sleep = self.shop._next(self.now)
            if ticket is None:
                heapq.heappush(turns, (self.now + sleep, worker, "", 0.0))
                continue
            ticket.busy = True
            ends = self.now + self.seconds[ticket.run_id]
            heapq.heappush(turns, (ends, worker, ticket.run_id, self.now))
        for _, _, name, _ in turns:
            if name:
                self.shop._tickets[name].busy = False
        return {name: (self.had[name] - before[name]) / seconds for name in self.had}


@pytest.fixture
def simulation(monkeypatch):
    made: list[Simulation] = []

    def make(workers: int) -> Simulation:
        made.append(Simulation(monkeypatch, workers))
        return made[-1]

    yield make
    monkeypatch.undo()
    for one in made:
        one.shop.stop()


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("heavy", [False, True])
def test_a_fit_has_half_of_the_time_however_many_play(simulation, workers, heavy):
    room = simulation(workers)
    for i in range(20):
        room.add(f"play {i}")
    room.add("fit", 0.4 if heavy else 0.05, awaited=True, heavy=heavy)
    share = room.run(100.0)
    assert share["fit"] == pytest.approx(workers / 2, rel=0.1)
    playing = [share[f"play {i}"] for i in range(20)]
    assert min(playing) > 0.8 * max(playing) > 0  # among themselves they are as fair as before


def test_many_fits_leave_a_playground_its_equal_share(simulation):
    room = simulation(1)
    room.add("play")
    for i in range(4):
        room.add(f"fit {i}", awaited=True)
    share = room.run(100.0)
    assert all(value == pytest.approx(1 / 5, rel=0.1) for value in share.values())


def test_a_fit_among_playgrounds_brings_no_arrears_and_leaves_none(simulation):
    room = simulation(1)
    for i in range(4):
        room.add(f"play {i}")
    room.run(100.0)
    fit = room.add("fit", awaited=True)
    assert room.run(2.0)["fit"] == pytest.approx(1 / 2, abs=0.1)  # nobody stands still for it
    fit.run.playing = False
    assert room.run(1.0)["fit"] == 0 and room.shop._owed == 0
    fit.run.playing = True
    assert room.run(2.0)["fit"] == pytest.approx(1 / 2, abs=0.1)


def test_what_is_owed_to_a_fit_is_bounded(simulation):
    room = simulation(4)
    for i in range(8):
        room.add(f"play {i}")
    room.add("fit", awaited=True)
    assert room.run(100.0)["fit"] == pytest.approx(1.0, rel=0.05)  # a run has one worker at a time
    assert room.shop._owed <= MOST_OWED


def test_a_heavy_playground_still_rests_beside_a_fit(simulation):
    room = simulation(2)
    room.add("play", 0.4, heavy=True)
    room.add("fit", awaited=True)
    share = room.run(100.0)
    assert share["play"] == pytest.approx(1 / 2, rel=0.1) and share["fit"] > 0.9


def test_a_run_of_which_no_step_is_seen_goes_before_those_that_play(simulation):
    room = simulation(1)
    for i in range(9):
        room.add(f"play {i}")
    room.run(2.0)
    fresh = room.add("fresh")
    fresh.run.begun = False
    fresh.turn = room.now + 1.0  # the others have waited for longer
    assert room.shop._next(room.now)[0] is fresh
    assert room.run(0.1)["fresh"] == pytest.approx(1.0)
    fresh.run.begun = True
    assert room.run(2.0)["fresh"] == pytest.approx(1 / 10, rel=0.3)
