"""Every live run of a server: fair turns, limits, and who is watching.

Workers, as many as cores, take the run that has waited longest and train it for one short turn. The
programs of size classes serve nearly every run (`dgp_core.training.programs`). A model that needs
a program of its own has it compiled in a thread apart, so that nobody's picture freezes meanwhile.
"""

import os
import secrets
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import jax

from dgp_core.archive import Archive
from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.live.limits import (
    GONE_SECONDS,
    IDLE_MOMENTS,
    IDLE_SECONDS,
    LEFT_BEHIND_SECONDS,
    MOST_BYTES,
    MOST_CELLS,
    MOST_IDLE_BYTES,
    MOST_OWNED,
    MOST_QUEUED,
    MOST_RUNS,
    PROCESS,
    PROCESSES,
)
from dgp_core.live.run import TURN_SECONDS, Run
from dgp_core.training.memory import give_back
from dgp_core.training.plan import duration, pair_cost
from dgp_core.training.programs import programs
from dgp_core.training.train import TrainSpec

MOST_SHAPES = 250
"""Shapes whose compiled programs are kept; thousands of programs are more than XLA bears."""

MOST_BESIDE = 64
"""What JAX may have compiled in this process beside the programs of size classes, once nobody is
there or a fit is over: a fit in Your data adds 35, of up to twenty megabytes each."""

MOST_STARTING = 2
"""Runs whose start values are made at once, for which programs are loaded; other workers train."""

TIDY_SECONDS = 10.0
"""How often programs that nobody uses are let go, and what all runs hold is added up."""

JOIN_SECONDS = 60.0
"""How long an orderly stop waits for each thread."""

NICE = 10
"""How far training stands back for pictures, as Unix counts it."""

HEAVY_SECONDS = TURN_SECONDS / 4
"""A run whose single steps take longer is heavy."""

LONGEST_REST = 0.5
"""How long a heavy run rests after a turn, at the most: as long as the turn was, where somebody
watches a light one. XLA's threads serve all runs and all pictures in the order in which they ask,
and a small model's frames would wait behind every step of a large one."""

MOST_OWED = 5.0
"""Seconds of training up to which it is remembered whether awaited runs had less than the others,
or more."""

COPIES = 8
"""Of a model's parameters: at the start and now, Adam's two, gradients, a snapshot, the rival's."""


RUN_BYTES = 2**20
"""What a run takes beside its numbers: pictures, and what JAX holds for its arrays."""

LOOKED_SECONDS = 5.0
"""A run that was looked at so lately is on somebody's screen: sockets look once a second."""

ADMISSIONS = 20
"""The last ones from the queue, by which waiting times are told."""

SHUTTING = "The server is shutting down: open the page again in a minute."


class WorkshopError(ValueError):
    """Something that the workshop will not do, in a sentence for the user."""


class FullError(WorkshopError):
    """There is no room even to wait: see `Workshop.watch_public`."""


@dataclass
class Ticket:
    """A run, whose it is, and who has asked for it lately."""

    run: Run
    run_id: str
    owner: str
    """The key of whoever controls it."""
    start_bytes: int
    """Its data and its parameters."""
    seen: float
    shape: tuple
    turn: float
    """When it last had a turn, or came."""
    heavy: bool
    """Whether its steps are long."""
    awaited: bool = False
    """Whether somebody waits for its end, as in a fit, rather than watching it learn."""
    rest: float = 0.0
    """Until when, being heavy, it leaves XLA's threads to light ones."""
    busy: bool = False
    admitted: bool = False
    prepared: bool = False
    came: float = 0.0
    browser: str = ""
    """Whose it is, where that is not its owner: a fit has a key of its own."""
    left: bool = False
    """Whether its page was left: it goes as soon as nobody looks at it."""

    @property
    def whose(self) -> str:
        """The browser that it counts for."""
        return self.browser or self.owner

    @property
    def nbytes(self) -> int:
        """What it takes now."""
        return self.start_bytes + self.run.grown_bytes


class Workshop:
    """One a server. `clock` and `workers` are for tests."""

    def __init__(self, workers: int | None = None, clock=time.monotonic):
        self._clock = clock
        self.on_change: Callable[[str | None], None] = lambda run_id: None
        """Told of each turn of a run; with None, that anything else may have changed."""
        self.on_away: Callable[[Run], None] = lambda run: None
        """Called with each run that nobody has watched for a while, whose views were let go."""
        self._tickets: dict[str, Ticket] = {}
        self._known: set[tuple] = set()
        """Shapes that are compiled."""
        self._starting = 0
        """Workers that make a run's start values."""
        self._owed = 0.0
        """Seconds of training that the other runs have had beyond the awaited ones, lately."""
        self._wake = threading.Condition()
        self._admissions: deque[float] = deque(maxlen=ADMISSIONS)
        """When runs that had waited got a seat."""
        self.public: str | None = None
        """The run that anybody may watch who waits for one of their own; it never goes."""
        self._stopping = False
        self._tidied = clock()
        self._threads: list[threading.Thread] = []
        self.employ(self._compile, "dgp-compile")
        share = max(1, (os.cpu_count() or 1) // PROCESSES)
        for i in range(share if workers is None else workers):
            self.employ(self._work, f"dgp-train-{i}")

    def employ(self, task: Callable[[], None], name: str) -> threading.Thread:
        """A thread that stands back for pictures, and that `stop` waits for: its task must end
        soon after the workshop stops."""

        def work() -> None:
            _give_way(threading.get_native_id())
            task()

        thread = threading.Thread(target=work, name=name, daemon=True)
        with self._wake:
            if self._stopping:
                raise WorkshopError(SHUTTING)
            self._threads = [t for t in self._threads if t.is_alive()] + [thread]
            thread.start()
        return thread

    @property
    def stopping(self) -> bool:
        """Whether the server is about to stop."""
        return self._stopping

    # For pages.

    def start(
        self,
        dataset: Dataset,
        model: ModelSpec,
        train: TrainSpec,
        owner: str | None = None,
        saved: Archive | None = None,
        own_program: bool = False,
        awaited: bool = False,
        browser: str = "",
    ) -> tuple[str, str]:
        """A new run: its id, which anybody may watch by, and the key of whoever controls it.

        It begins at the start, or where a saved model of the same shape is; `own_program` as `Run`.
        Runs that are `awaited` get half of all training time between them, or more where an equal
        share each is more. What a browser may have counts by `browser`, or else by the owner.
        """
        cells = dataset.X.size + dataset.Y.size
        if cells > MOST_CELLS:
            raise WorkshopError(
                f"These data have {cells:,} cells, and a live run takes {MOST_CELLS:,} at the "
                "most. Train on fewer rows here, or without a screen: python -m dgp_core fit."
            )
        need = 3 * 8 * cells + RUN_BYTES + COPIES * parameter_bytes(model, dataset)
        if need > MOST_BYTES:
            raise WorkshopError(
                f"This run would need about {need / 2**30:.0f} GB, and all runs of this server "
                f"share {MOST_BYTES / 2**30:.0f} GB. Choose fewer inducing points, or narrower "
                "layers."
            )
        run = Run(dataset, model, train, saved, own_program)
        ticket = Ticket(
            run,
            new_id(),
            owner or secrets.token_urlsafe(16),
            need,
            self._clock(),
            run.shape,
            time.monotonic(),
            step_seconds(dataset, model, train, len(dataset)) > HEAVY_SECONDS,
            awaited,
            came=self._clock(),
            browser=browser,
        )
        with self._wake:
            if self._stopping:
                raise WorkshopError(SHUTTING)
            self._limit_browser(ticket.whose)
            waiting = len(self._queue())
            if waiting >= MOST_QUEUED:
                raise FullError(
                    f"{waiting} runs are waiting already: room for one more comes "
                    f"{when(self._wait(waiting))}. Until then, watch a run of somebody else."
                )
            if not self._at_once(ticket):
                run.status = "compiling"
                programs().request(run.programs)
            self._tickets[ticket.run_id] = ticket
            self._admit()
            programs().stand_back(self._begins(ticket.seen))
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
            ticket.seen, ticket.left = self._clock(), False
            self._wake.notify_all()
            return ticket.run

    def owns(self, run_id: str, owner: str) -> bool:
        """Whether somebody may change a run; to ask is not to watch."""
        with self._wake:
            return secrets.compare_digest(self._ticket(run_id).owner.encode(), owner.encode())

    def leave(self, run_ids: Iterable[str], owner: str) -> None:
        """Gives back an owner's runs whose page was left: they go as soon as nobody looks at them,
        unless their owner comes back before."""
        with self._wake:
            for run_id in run_ids:
                ticket = self._tickets.get(run_id)
                if ticket is not None and ticket.owner == owner:
                    ticket.left = True

    def watch_public(self) -> str | None:
        """The run that those may watch who wait, and which trains for them; None without one."""
        with suppress(WorkshopError):
            run = self.watch(self.public or "")
            run.reset() if run.status in ("finished", "failed") else None
            run.play()
            return self.public
        return None

    def find(self, run_id: str) -> Run:
        """The run with this id; to ask is not to watch."""
        with self._wake:
            return self._ticket(run_id).run

    def wake(self) -> None:
        """Tells the workers, and those who look, that somebody wished for something."""
        with self._wake:
            self._wake.notify_all()
        self.on_change(None)

    def place(self, run_id: str) -> int:
        """The run's place in the queue for a seat, from 1, or 0 with a seat; to ask is to watch."""
        with self._wake:
            ticket = self._ticket(run_id)
            if ticket.admitted:
                return 0
            ticket.seen = self._clock()
            return self._queue().index(ticket) + 1

    def compiling_place(self, run_id: str) -> int:
        """How much is compiled before what this run needs."""
        with self._wake:
            ticket, now = self._ticket(run_id), self._clock()
            if ticket.busy or ticket.prepared or self._at_once(ticket):
                return 0
            if ticket.run.size is not None and programs().delegated(ticket.run.programs):
                return max(programs().place(program) for program in ticket.run.programs)
            others = [t for t in self._tickets.values() if t.admitted and not t.prepared]
            waiting = [t for t in others if t.busy or now - t.seen <= IDLE_SECONDS]
            waiting = [t for t in waiting if not self._at_once(t)]
            before = waiting[: waiting.index(ticket)] if ticket in waiting else waiting
            return len(before)

    def knows(self, run_id: str) -> bool:
        """Whether a run's shape was compiled before: it starts at once."""
        with self._wake:
            ticket = self._ticket(run_id)
            return ticket.admitted and self._at_once(ticket)

    def wait(self, place: int) -> float | None:
        """Seconds until such a place in the queue becomes a seat, as it went lately; None where
        nobody has waited lately."""
        with self._wake:
            return self._wait(place)

    def queue_sentence(self, run_id: str) -> str:
        """Why a run waits and for how many others; empty once it has a seat."""
        place = self.place(run_id)
        return queue_words(place, self.wait(place)) if place else ""

    def drop(self, run_id: str, owner: str) -> None:
        """Ends a run; nothing of its data stays."""
        self.control(run_id, owner)
        with self._wake:
            self._tickets.pop(run_id, None)
            self._admit()
            self._wake.notify_all()
        self.on_change(None)

    def counts(self) -> dict[str, int]:
        """How many runs there are, by what they are doing."""
        with self._wake:
            states = [t.run.status if t.admitted else "queued" for t in self._tickets.values()]
        return {state: states.count(state) for state in sorted(set(states))}

    def held(self) -> int:
        """Bytes that all runs take: their data, their parameters and their histories."""
        with self._wake:
            return sum(t.nbytes for t in self._tickets.values() if t.admitted)

    def lighten(self) -> None:
        """Lets go of what JAX has compiled, where that is much and no run trains by a program of
        its own. For a moment in which nobody is there, or a fit is over: the next picture takes
        0.2 s longer, as in a server that has begun."""
        with self._wake:
            now = self._clock()
            own = any(t.run.size is None and self._plays(t, now) for t in self._tickets.values())
        if not own and programs().beside() > MOST_BESIDE:
            self._forget_compiled()
            give_back()

    def stop(self) -> None:
        """Ends every thread and lets every run go; the server is about to stop."""
        with self._wake:
            self._stopping = True
            self._tickets.clear()
            self._wake.notify_all()
        for thread in self._threads:
            thread.join(JOIN_SECONDS)

    # For the threads.

    def _ticket(self, run_id: str) -> Ticket:
        ticket = self._tickets.get(run_id)
        if ticket is None:
            raise WorkshopError(
                "This run is over: nobody watched it for half an hour, or the server started anew. "
                "Start another one with the same settings."
            )
        return ticket

    def _queue(self) -> list[Ticket]:
        """Who waits for a seat and is still there, in order."""
        now = self._clock()
        waiting = [t for t in self._tickets.values() if not t.admitted]
        return [t for t in waiting if now - t.seen <= IDLE_SECONDS]

    def _admit(self) -> None:
        """Gives free seats to those who have waited longest.

        Runs that nobody watches need none, nor do those that are over or paused; where memory is
        short, those that nobody has watched for longest go.
        """
        now, queue = self._clock(), self._queue()
        if not queue:
            return
        admitted = [t for t in self._tickets.values() if t.admitted]
        held = sum(t.nbytes for t in admitted)
        seats = MOST_RUNS - sum(
            now - t.seen <= IDLE_SECONDS and not t.run.at_rest for t in admitted
        )
        for ticket in queue:
            if seats <= 0:
                break
            held -= self._make_room(held + ticket.nbytes - MOST_BYTES, self._idle(now))
            if held + ticket.nbytes > MOST_BYTES:
                break
            ticket.admitted = True
            if now > ticket.came:
                self._admissions.append(now)
            held, seats = held + ticket.nbytes, seats - 1

    def _idle(self, now: float, seconds: float = IDLE_SECONDS) -> list[Ticket]:
        """Runs that nobody has watched for so long, the longest idle first."""
        return [
            t
            for t in sorted(self._tickets.values(), key=lambda t: t.seen)
            if t.admitted and not t.busy and now - t.seen > seconds and t.run_id != self.public
        ]

    def _make_room(self, wanted: int, idle: list[Ticket]) -> int:
        """Lets go of the first of these runs until so many bytes are free; of none where all of
        them would not do. Returns what is free by it."""
        sizes = [t.nbytes for t in idle]
        if wanted <= 0 or sum(sizes) < wanted:
            return 0
        freed = 0
        for ticket, size in zip(idle, sizes, strict=True):
            if freed >= wanted:
                break
            del self._tickets[ticket.run_id]
            freed += size
        return freed

    def _limit_browser(self, browser: str) -> None:
        """Makes room among a browser's runs for one more: one whose page was left goes, or the one
        that was not watched for longest; where all are on a screen, it raises WorkshopError."""
        now = self._clock()
        mine = [t for t in self._tickets.values() if t.whose == browser]
        mine.sort(key=lambda t: (not t.left, t.seen))
        for ticket in mine[: max(0, len(mine) - MOST_OWNED + 1)]:
            if not ticket.left and now - ticket.seen <= LOOKED_SECONDS:
                raise WorkshopError(
                    f"{MOST_OWNED} runs of this browser are on its screens already, and more are "
                    "not given to one: close one of their pages, and try again."
                )
            del self._tickets[ticket.run_id]

    def _wait(self, place: int) -> float | None:
        """As `wait`: the mean time between the last admissions, for each place."""
        now, times = self._clock(), self._admissions
        while times and now - times[0] > GONE_SECONDS:
            times.popleft()
        return place * (now - times[0]) / len(times) if times else None

    def _tidy(self, now: float) -> None:
        """Lets go of runs that nobody has watched for long, and fills the seats."""
        for run_id, t in list(self._tickets.items()):
            over = now - t.seen > (IDLE_SECONDS if t.left else GONE_SECONDS)
            if over and not t.busy and run_id != self.public:
                del self._tickets[run_id]
        if now - self._tidied > TIDY_SECONDS:
            self._tidied = now
            held = sum(t.nbytes for t in self._tickets.values() if t.admitted)
            self._make_room(held - MOST_BYTES, self._idle(now))  # what they hold grows
            for ticket in self._idle(now):
                ticket.run.put_away(IDLE_MOMENTS)
                self.on_away(ticket.run)
            left = self._idle(now, LEFT_BEHIND_SECONDS)
            too_much = sum(t.nbytes for t in self._idle(now)) - MOST_IDLE_BYTES
            self._make_room(min(too_much, sum(t.nbytes for t in left)), left)
            programs().tidy()
            give_back()
        self._admit()

    def _next(self, now: float) -> tuple[Ticket | None, float]:
        """The run that has waited longest for a turn, or how long there is nothing to do.

        An awaited run goes first while awaited ones have had less time than the others, and then
        one of which no step was taken yet.
        """
        best, first, sleep = None, (True, True, 0.0), 1.0
        light = any(self._plays(t, now) and not t.heavy for t in self._tickets.values())
        for ticket in self._tickets.values():
            if ticket.busy or not ticket.prepared or now - ticket.seen > IDLE_SECONDS:
                continue
            urgent = ticket.awaited and self._owed > 0
            rest = ticket.rest - time.monotonic()
            if rest > 0 and light and ticket.run.playing and not urgent:
                sleep = min(sleep, rest)
            elif ticket.run.wants_turn(time.monotonic()):
                order = (not urgent, ticket.run.begun, ticket.turn)
                if best is None or order < first:
                    best, first = ticket, order
            elif ticket.run.status == "ready" and ticket.run.playing:
                sleep = min(sleep, max(0.001, ticket.run.due() - time.monotonic()))
        return best, sleep

    def _had_turn(self, ticket: Ticket, seconds: float) -> None:
        """Notes who has had how much training time, as long as an awaited run wants some."""
        now = self._clock()
        if any(t.awaited and self._plays(t, now) for t in self._tickets.values()):
            owed = self._owed + (-seconds if ticket.awaited else seconds)
            self._owed = min(MOST_OWED, max(-MOST_OWED, owed))
        else:
            self._owed = 0.0

    def _plays(self, ticket: Ticket, now: float) -> bool:
        """Whether somebody watches it train."""
        watched = ticket.prepared and now - ticket.seen <= IDLE_SECONDS
        return watched and not ticket.run.at_rest

    def _at_once(self, ticket: Ticket) -> bool:
        """Whether all that a run needs is compiled."""
        if ticket.run.size is None:
            return ticket.shape in self._known
        return all(programs().known(program) for program in ticket.run.programs)

    def _begins(self, now: float) -> bool:
        """Whether somebody looks at a run that has a seat and has not begun yet."""
        return any(
            t.admitted and not t.prepared and now - t.seen <= IDLE_SECONDS
            for t in self._tickets.values()
        )

    def _unprepared(self, known: bool) -> Ticket | None:
        """A run that has a seat and awaits its start, all that it needs compiled or not.

        Somebody watches it, if there is such a one; nobody else is served before those who wait.
        """
        now, found = self._clock(), None
        for ticket in self._tickets.values():
            ready = ticket.admitted and not (ticket.prepared or ticket.busy)
            if ready and self._at_once(ticket) == known:
                if not known and ticket.run.size and programs().delegated(ticket.run.programs):
                    continue
                if now - ticket.seen <= IDLE_SECONDS:
                    return ticket
                found = found or ticket
        return found

    def _work(self) -> None:
        while True:
            with self._wake:
                if self._stopping:
                    return
                now = self._clock()
                self._tidy(now)
                programs().stand_back(self._begins(now))
                ticket, sleep = self._next(now)
                room = self._starting < MOST_STARTING
                fresh = self._unprepared(known=True) if room else None
                if fresh is not None and (ticket is None or ticket.run.begun):
                    ticket = fresh  # whoever waits sees something before others see more
                if ticket is None:
                    self._wake.wait(sleep)
                    continue
                ticket.busy = True
                self._starting += ticket is fresh
            if ticket is fresh:
                self._prepare(ticket)
                with self._wake:
                    self._starting -= 1
                continue
            began = time.monotonic()
            ticket.run.advance()
            with self._wake:
                ticket.busy = False
                ticket.turn = time.monotonic()
                self._had_turn(ticket, ticket.turn - began)
                if ticket.heavy:
                    ticket.rest = ticket.turn + min(ticket.turn - began, LONGEST_REST)
            self.on_change(ticket.run_id)

    def _compile(self) -> None:
        _give_way(*_xla_threads())
        while True:
            with self._wake:
                if self._stopping:
                    return
                ticket = self._unprepared(known=False)
                if ticket is None:
                    self._wake.wait(1.0)
                    continue
                ticket.busy = True
            if len(self._known) >= MOST_SHAPES:
                self._forget_compiled()
            self._prepare(ticket)
            give_back()

    def _forget_compiled(self) -> None:
        jax.clear_caches()
        with self._wake:
            self._known.clear()

    def _prepare(self, ticket: Ticket) -> None:
        ticket.run.prepare()
        with self._wake:
            ticket.busy, ticket.prepared = False, True
            if ticket.run.status == "ready":
                self._known.add(ticket.shape)
            self._wake.notify_all()
        self.on_change(None)


def _give_way(*threads: int) -> None:
    """Pictures and answers come first: where the system can tell threads apart, these, which train
    or compile, take what is left of the cores."""
    if sys.platform.startswith("linux"):
        for thread in threads:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, thread, NICE)


def _xla_threads() -> list[int]:
    """XLA's own threads, which do the work for those that train; none where the system is mute."""
    jax.devices()  # they begin with it
    found = []
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            if "XLA" in (task / "comm").read_text():
                found.append(int(task.name))
    return found


def new_id() -> str:
    """A run's name; of several processes, the one that trains it comes first."""
    token = secrets.token_urlsafe(16)
    return f"{PROCESS}-{token}" if PROCESSES > 1 else token


def when(seconds: float | None) -> str:
    """When there will be room, as far as anybody knows."""
    if seconds is None:
        return "as soon as somebody leaves or pauses"
    return f"in {duration(seconds)}, as it went lately"


def queue_words(place: int, seconds: float | None = None) -> str:
    """Why a run waits, at which place, and for how long about."""
    return (
        f"This server trains {MOST_RUNS} runs at once, in {MOST_BYTES / 2**30:.0f} GB of "
        f"memory, and is full. This run is number {place} in the queue, and has its turn "
        f"{when(seconds)}: keep the page open."
    )


def step_seconds(dataset: Dataset, model: ModelSpec, train: TrainSpec, n_rows: int) -> float:
    """What a step of a run on so many of the rows takes, on the machine that plans were measured
    on."""
    D, P = dataset.X.shape[1], max(dataset.Y.shape[1], len(dataset.classes))
    return pair_cost(model, train, n_rows, D, P)


def parameter_bytes(model: ModelSpec, dataset: Dataset) -> int:
    """What the deep model's q(u) takes, nearly all of a model: M² + M numbers an output."""
    D = dataset.X.shape[1]
    widths = (*model.inner_widths(D), max(dataset.Y.shape[1], len(dataset.classes)))
    counts = zip(model.inducing_counts, widths, strict=True)
    return 8 * sum((M * M + M) * P for M, P in counts)
