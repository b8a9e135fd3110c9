"""Every live run of a server: fair turns, limits, and who is watching.

Workers, as many as cores, take the run that has waited longest and train it for one short turn. New
shapes compile in a thread of their own, so that nobody's picture freezes while another's model is
being built; a shape that somebody has used before is ready at once.
"""

import os
import secrets
import threading
import time
from dataclasses import dataclass

from dgp_core.data import Dataset
from dgp_core.live.run import HISTORY_BYTES, Run
from dgp_core.model import ModelSpec
from dgp_core.train import TrainSpec

IDLE_SECONDS = 30.0
"""A run that nobody has watched for so long is paused …"""

GONE_SECONDS = 30 * 60.0
"""… and for so long, let go."""

MOST_RUNS = 64
"""Runs that train, or may train at once; more wait in a queue."""

MOST_QUEUED = 200

MOST_CELLS = 60_000_000
"""Rows times columns of one run's data."""

MOST_BYTES = 8 * 2**30
"""What all runs together may hold, as estimated at their start."""


class WorkshopError(ValueError):
    """Something that the workshop will not do, in a sentence for the user."""


@dataclass
class Ticket:
    """A run, whose it is, and who has asked for it lately."""

    run: Run
    run_id: str
    owner: str
    nbytes: int
    seen: float
    turn: float = 0.0
    """When it last had a turn."""
    busy: bool = False
    admitted: bool = False
    prepared: bool = False


class Workshop:
    """One a server. `clock` and `workers` are for tests."""

    def __init__(self, workers: int | None = None, clock=time.monotonic):
        self._clock = clock
        self._tickets: dict[str, Ticket] = {}
        self._wake = threading.Condition()
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._compile, name="dgp-compile", daemon=True),
            *(
                threading.Thread(target=self._work, name=f"dgp-train-{i}", daemon=True)
                for i in range(workers if workers is not None else os.cpu_count() or 1)
            ),
        ]
        for thread in self._threads:
            thread.start()

    # For pages.

    def start(
        self, dataset: Dataset, model: ModelSpec, train: TrainSpec, owner: str | None = None
    ) -> tuple[str, str]:
        """A new run: its id, which anybody may watch by, and the key of whoever controls it."""
        cells = dataset.X.size + dataset.Y.size
        if cells > MOST_CELLS:
            raise WorkshopError(
                f"These data have {cells:,} cells, and a live run takes {MOST_CELLS:,} at the "
                "most. Train on fewer rows here, or without a screen: python -m dgp_core fit."
            )
        need = 3 * 8 * cells + HISTORY_BYTES
        ticket = Ticket(
            Run(dataset, model, train),
            secrets.token_urlsafe(16),
            owner or secrets.token_urlsafe(16),
            need,
            self._clock(),
        )
        with self._wake:
            if self._stopping:
                raise WorkshopError("The server is shutting down: open the page again in a minute.")
            waiting = sum(not t.admitted for t in self._tickets.values())
            if waiting >= MOST_QUEUED:
                raise WorkshopError(
                    f"{waiting} runs are waiting already. Watch another's, or try again later."
                )
            self._tickets[ticket.run_id] = ticket
            self._admit()
            self._wake.notify_all()
        return ticket.run_id, ticket.owner

    def watch(self, run_id: str) -> Run:
        """The run with this id, for anybody to look at; counts as somebody watching."""
        with self._wake:
            ticket = self._ticket(run_id)
            ticket.seen = self._clock()
            self._wake.notify_all()
            return ticket.run

    def control(self, run_id: str, owner: str) -> Run:
        """The run with this id, for its owner to change."""
        with self._wake:
            ticket = self._ticket(run_id)
            if not secrets.compare_digest(ticket.owner.encode(), owner.encode()):
                raise WorkshopError(
                    "This run belongs to somebody else: you can watch it, and start your own."
                )
            ticket.seen = self._clock()
            self._wake.notify_all()
            return ticket.run

    def wake(self) -> None:
        """Tells the workers that somebody wished for something."""
        with self._wake:
            self._wake.notify_all()

    def place(self, run_id: str) -> int:
        """The run's place in the queue for a seat, from 1; 0 once it has one."""
        with self._wake:
            ticket = self._ticket(run_id)
            if ticket.admitted:
                return 0
            queue = [t for t in self._tickets.values() if not t.admitted]
            return queue.index(ticket) + 1

    def drop(self, run_id: str, owner: str) -> None:
        """Ends a run; nothing of its data stays."""
        self.control(run_id, owner)
        with self._wake:
            self._tickets.pop(run_id, None)
            self._admit()
            self._wake.notify_all()

    def counts(self) -> dict[str, int]:
        """How many runs there are, by what they are doing."""
        with self._wake:
            states = [t.run.status if t.admitted else "queued" for t in self._tickets.values()]
        return {state: states.count(state) for state in sorted(set(states))}

    def stop(self) -> None:
        """Ends every thread and lets every run go; the server is about to stop."""
        with self._wake:
            self._stopping = True
            self._tickets.clear()
            self._wake.notify_all()
        for thread in self._threads:
            thread.join()

    # For the threads.

    def _ticket(self, run_id: str) -> Ticket:
        ticket = self._tickets.get(run_id)
        if ticket is None:
            raise WorkshopError(
                "This run is over: nobody watched it for half an hour, or the server started anew. "
                "Start another one with the same settings."
            )
        return ticket

    def _admit(self) -> None:
        """Gives free seats to those who have waited longest."""
        admitted = [t for t in self._tickets.values() if t.admitted]
        held, seats = sum(t.nbytes for t in admitted), MOST_RUNS - len(admitted)
        for ticket in self._tickets.values():
            if ticket.admitted:
                continue
            fits = held + ticket.nbytes <= MOST_BYTES or not admitted
            if seats <= 0 or not fits:
                break
            ticket.admitted = True
            admitted.append(ticket)
            held, seats = held + ticket.nbytes, seats - 1

    def _tidy(self, now: float) -> None:
        """Lets go of runs that nobody has watched for long."""
        gone = [i for i, t in self._tickets.items() if now - t.seen > GONE_SECONDS and not t.busy]
        for run_id in gone:
            del self._tickets[run_id]
        if gone:
            self._admit()

    def _next(self, now: float) -> tuple[Ticket | None, float]:
        """The run that has waited longest for a turn, or how long there is nothing to do."""
        best, sleep = None, 1.0
        for ticket in self._tickets.values():
            if ticket.busy or not ticket.prepared or now - ticket.seen > IDLE_SECONDS:
                continue
            if ticket.run.wants_turn(time.monotonic()):
                if best is None or ticket.turn < best.turn:
                    best = ticket
            elif ticket.run.status == "ready" and ticket.run.playing:
                sleep = min(sleep, max(0.001, ticket.run.due() - time.monotonic()))
        return best, sleep

    def _work(self) -> None:
        while True:
            with self._wake:
                if self._stopping:
                    return
                now = self._clock()
                self._tidy(now)
                ticket, sleep = self._next(now)
                if ticket is None:
                    self._wake.wait(sleep)
                    continue
                ticket.busy = True
            ticket.run.advance()
            with self._wake:
                ticket.busy = False
                ticket.turn = time.monotonic()

    def _compile(self) -> None:
        while True:
            with self._wake:
                if self._stopping:
                    return
                waiting = [t for t in self._tickets.values() if t.admitted and not t.prepared]
                ticket = next((t for t in waiting if not t.busy), None)
                if ticket is None:
                    self._wake.wait(1.0)
                    continue
                ticket.busy = True
            ticket.run.prepare()
            with self._wake:
                ticket.busy = False
                ticket.prepared = True
                self._wake.notify_all()
