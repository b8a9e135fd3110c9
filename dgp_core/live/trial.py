"""A trial: models fitted to one split and to folds of a data set, one after another, and scored.

Fits are ordinary runs of the workshop and take fair turns with everybody's. One thread a trial
starts them, waits, and scores; it ends with the trial, or soon after the workshop has stopped.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from dgp_core.evaluation.boosting import boosting_predictor
from dgp_core.evaluation.comparison import (
    MOST_SCORED,
    Estimate,
    ScoreCard,
    Verdict,
    score,
    table,
    verdict,
)
from dgp_core.evaluation.forecast import (
    LINEAR_ROWS,
    Predictor,
    deep_predictor,
    exact_predictor,
    linear_predictor,
)
from dgp_core.gp.data import Dataset, counted, sample_places
from dgp_core.gp.model import DeepGP, ModelSpec
from dgp_core.gp.splits import BY_CHANCE, FEWEST_FOLDS, Part, SplitBy, fold_parts, main_part
from dgp_core.live.run import Run, train_chunk
from dgp_core.live.workshop import (
    GONE_SECONDS,
    IDLE_SECONDS,
    Workshop,
    WorkshopError,
    step_seconds,
)
from dgp_core.training.generic import Size
from dgp_core.training.optimise import create_state
from dgp_core.training.train import LONGEST_CHUNK, TrainSpec

POLL_SECONDS = 0.2
"""How often a trial looks how far its run has come."""

TOUCH_SECONDS = GONE_SECONDS / 3
"""How often runs that are over, and are kept to be drawn, are asked for; they need no seat."""

MOST_FOLD_CELLS = 20_000_000
"""Rows times columns up to which folds are made: each holds a further copy of the rows."""

EXACT_ROWS = 1_000
"""Rows up to which the exact GP takes part: a fit costs some hundred times their cube."""

CLASS_SECONDS = 1.5e-7
"""What a step of a model and its rival takes longer by the programs of a size class than by those
of their own, for each number of a layer's q(u) in the class. Measured with 250 rows: 0.11 µs at 25
inducing points and 16 outputs, 0.19 at 100 and 16, 0.16 at 100 and 2, 0.17 at 100 and 1."""
OWN_SECONDS = 10.0
"""A fit whose models would take so much longer in all has programs of its own, which compile in
five seconds for the main split and five for the folds."""

TIMED_SECONDS = 0.2
"""How long steps are timed, at the most, once a run is over."""

Phase = Literal["waiting", "compiling", "training", "scoring", "paused", "over"]

PHASES: tuple[Phase, ...] = ("waiting", "compiling", "training", "scoring")
"""What a trial's time goes to, in the order in which a run passes through it."""


class _Line:
    """Something that one trial does at a time, in the order of asking."""

    def __init__(self):
        self._change = threading.Condition()
        self._line: list[Trial] = []

    @contextmanager
    def turn(self, trial: "Trial") -> Iterator[None]:
        """Waits until it is this trial's turn; raises `_Ended` where it is not wanted any more."""
        with self._change:
            self._line.append(trial)
        try:
            while self.before(trial):
                trial._check()
                trial._note()
                with self._change:
                    self._change.wait(POLL_SECONDS)
            trial._note()
            yield
        finally:
            with self._change:
                self._line.remove(trial)
                self._change.notify_all()

    def before(self, trial: "Trial") -> int:
        """How many trials come before this one; 0 where it does not wait."""
        with self._change:
            return self._line.index(trial) if trial in self._line else 0


_scoring = _Line()
"""One trial scores at a time, whatever the number of trials: the cores are for those who train."""


@dataclass(frozen=True)
class TrialProgress:
    """How far a trial has come."""

    fraction: float
    """Of all training, 0 to 1."""
    training_left: float | None
    """Seconds; None before there is a pace to tell it by."""
    scoring_left: float | None
    """Seconds; None before a fold was scored with programs that were compiled before."""
    phase: Phase
    seconds: float
    """In this phase so far, since it was last entered."""
    spent: dict[Phase, float]
    """Seconds in each phase, all splits and folds together, the present phase included."""
    sentence: str


class _Stopwatch:
    """How long a trial has spent in each phase; guarded by the trial's lock."""

    def __init__(self, clock: Callable[[], float]):
        self._clock = clock
        self.phase: Phase = "waiting"
        self.since = self._noted = clock()
        """When the present phase was entered."""
        self.spent: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)

    def note(self, phase: Phase) -> None:
        """Books the time since the last note on the phase of then."""
        now = self._clock()
        if self.phase in self.spent:
            self.spent[self.phase] += now - self._noted
        self._noted = now
        if phase != self.phase:
            self.phase, self.since = phase, now


@dataclass(frozen=True)
class _Pair:
    """A run's model and its rival, by the names that their cards bear; None is not scored."""

    spec: ModelSpec
    deep: str | None
    rival: str | None


def pairs(contenders: dict[str, ModelSpec], rival: str | None) -> list[_Pair]:
    """The runs that train every contender, as few as can be.

    A run brings its single-layer rival: a contender of that very kind is taken from it. `rival`
    names the first run's where no contender is it.
    """
    found: list[_Pair] = []
    covered: set[str] = set()
    deepest = sorted(contenders, key=lambda name: contenders[name].layers == 1)
    for name in deepest:
        spec = contenders[name]
        if name in covered:
            continue
        other = None
        if spec.layers > 1:
            same = [n for n, s in contenders.items() if s == spec.single_layer()]
            other = next((n for n in same if n not in covered), None)
            if not same and not found:
                other = rival
        found.append(_Pair(spec, name, other))
        covered |= {name, other or name}
    return found


class _Ended(Exception):
    """The trial was closed, or nobody wants it any more."""


class Trial:
    """Contenders on the main split and on folds, in the background of a workshop.

    Pages only read, and call `watch` at each refresh. Nothing of the data outlives `close`.
    """

    def __init__(
        self,
        workshop: Workshop,
        dataset: Dataset,
        contenders: dict[str, ModelSpec],
        train: TrainSpec,
        folds: int = 0,
        *,
        main: bool = True,
        fraction: float = 0.9,
        linear: bool = True,
        exact: bool | None = None,
        boosting: bool = False,
        rival: str | None = "single",
        by: SplitBy = BY_CHANCE,
        refit: Callable[[np.ndarray], Dataset] | None = None,
        titles: Mapping[str, str] | None = None,
        browser: str = "",
        clock: Callable[[], float] = time.monotonic,
    ):
        """`titles` say what contenders are called in sentences; the runs count as `browser`'s.

        `refit` gives the rows as numbers that the training rows at these places alone decide (what
        stands for a missing cell); without it they are those of the data set.
        """
        if not (contenders or linear or boosting):
            raise ValueError("A trial needs at least one model.")
        self.workshop, self.train, self.owner = workshop, train, secrets.token_urlsafe(16)
        self._dataset: Dataset | None = dataset
        self._pairs = pairs(contenders, rival)
        self._linear, self._exact, self._boosting = linear, exact, boosting
        self._clock, self.by, self._refit = clock, by, refit
        self._refitted: tuple[Part | None, Dataset | None] = None, None
        """The part that is fitted now, and its rows as numbers."""
        self._titles, self._browser = titles or {}, browser
        self._lock = threading.RLock()
        """For every field that changes: pages and the trial's thread both write them."""
        self._closing = threading.Event()
        self._cards: list[ScoreCard] = []
        self._failures: list[str] = []
        self._complete: list[tuple[str, int]] = []
        """Models that were scored at their end, each with its fold."""
        self._kept: dict[int, str] = {}
        """Ids of the first part's runs, by their place in `_pairs`."""
        self._active: str | None = None
        self._run_now: Run | None = None
        """The active run."""
        self._playing, self._over = True, False
        self._place = ""
        """Which split or fold it is at."""
        self._judged = ""
        """What is being scored, in words; empty while nothing is."""
        self._seen = self._touched = clock()
        self._times = _Stopwatch(clock)
        self._done = self._total = self._cost_now = 0.0
        self._worked = self._wall = 0.0
        self._unscored = 0
        """Splits and folds that are not wholly scored."""
        self._scoring_took: float | None = None
        """Seconds of scoring of the last one, where nothing was compiled for it."""
        self._scoring_before = 0.0
        """And in all, when the present one began."""
        self.error: Exception | None = None
        """What broke the trial, where something did that has no sentence of its own."""
        self.main_id: str | None = None
        """The run of the main split's first contender, to be watched and drawn."""
        self._parts = [main_part(dataset, fraction, train.seed, by)] if main else []
        self._parts += self._new_folds(folds) if folds else []
        if not self._parts:
            raise ValueError(f"Without a main split there must be {FEWEST_FOLDS} folds or more.")
        self._total = sum(self._cost(part, pair) for part in self._parts for pair in self._pairs)
        if self._pairs:
            # In the caller's thread, so that it hears at once what the workshop will not do.
            self._start(self._parts[0], 0)
            self.main_id = self._active
        self._thread = self._begin(list(self._parts))

    # What anybody may ask.

    @property
    def train_rows(self) -> np.ndarray:
        """Training rows of the first part, by their places in the data set."""
        return self._parts[0].train

    @property
    def held_rows(self) -> np.ndarray:
        """Held-out rows of the first part."""
        return self._parts[0].held

    @property
    def status(self) -> str:
        """training, scoring, paused, finished, failed or closed."""
        if self._closing.is_set():
            return "closed"
        with self._lock:
            self._note()
            if self._over:
                scored = {card.model for card in self._cards}
                return "finished" if self._contenders() <= scored else "failed"
            run = self._run_now
            still = run is not None and run.status == "ready" and not run.playing
            if still or not self._playing:
                return "paused"
            return "scoring" if self._times.phase == "scoring" else "training"

    def watch(self) -> "Trial":
        """Says that somebody looks: the trial and its runs go on."""
        now = self._clock()
        with self._lock:
            self._seen = now
            ids = [self._active] if self._active else []
            if now - self._touched > TOUCH_SECONDS:
                ids, self._touched = [*ids, *self._kept.values()], now
        for run_id in ids:
            try:
                self.workshop.watch(run_id)
            except WorkshopError:
                pass  # the thread notices, and says so
        return self

    def progress(self) -> TrialProgress:
        """How far it is, in which phase and since when, and how long it will take."""
        with self._lock:  # a run that is over counts as one that is done, or as itself: never twice
            self._note()
            times = self._times
            phase, seconds = times.phase, self._clock() - times.since
            spent, over, place = dict(times.spent), self._over, self._place
            done, run, run_id, judged = self._done, self._run_now, self._active, self._judged
            step = run.latest.step if run is not None and run.latest is not None else 0
            if run is not None:
                ended = run.status in ("finished", "failed")
                done += self._cost_now * (1.0 if ended else min(1.0, step / self._most_steps))
            left = max(0.0, self._total - done)
            pace = self._wall / self._worked if self._worked > 0 else None
            scoring_left = self._scoring_left()
        if over or self._closing.is_set():
            sentence = f"The trial is {self.status}."
            return TrialProgress(1.0, 0.0, 0.0, "over", seconds, spent, sentence)
        return TrialProgress(
            fraction=1.0 if self._total <= 0 else min(1.0, 1.0 - left / self._total),
            training_left=0.0 if left == 0 else None if pace is None else pace * left,
            scoring_left=scoring_left,
            phase=phase,
            seconds=seconds,
            spent=spent,
            sentence=f"{place}: {self._doing(phase, run, run_id, step, judged)}.",
        )

    def _scoring_left(self) -> float | None:
        if self._scoring_took is None:
            return None
        here = self._times.spent["scoring"] - self._scoring_before
        return max(0.0, self._unscored * self._scoring_took - here)

    def wanted(self) -> set[str]:
        """Every model that it was started for."""
        references = {
            "linear": self._linear,
            "exact": bool(self._exact),
            "boosting": self._boosting,
        }
        return self._contenders() | {name for name, so in references.items() if so}

    def on_its_way(self) -> set[str]:
        """The models that it has scored on every part, or still will."""
        if self.status not in ("finished", "failed", "closed"):
            return self.wanted()
        with self._lock:
            complete = list(self._complete)
            every = {part.fold for part in self._parts}
        return {m for m in self.wanted() if every <= {fold for name, fold in complete if name == m}}

    def _contenders(self) -> set[str]:
        return {name for pair in self._pairs for name in (pair.deep, pair.rival) if name}

    def cards(self) -> tuple[ScoreCard, ...]:
        """What has been scored so far."""
        with self._lock:
            return tuple(self._cards)

    def failures(self) -> tuple[str, ...]:
        """A sentence for each fit that came to nothing."""
        with self._lock:
            return tuple(self._failures)

    def verdict(self, deep: str = "deep", single: str = "single") -> Verdict | None:
        """The verdict on what has been scored so far; None while that is nothing."""
        cards = self.cards()
        if not {deep, single} & {card.model for card in cards}:
            return None
        return verdict(cards, deep, single)

    def table(self) -> dict[str, dict[str, Estimate]]:
        """Every model's scores so far."""
        return table(self.cards())

    def runs(self) -> dict[str, tuple[Run, Literal["deep", "rival"]]]:
        """The first part's runs, by contender, to be drawn; kept until the trial is closed."""
        found: dict[str, tuple[Run, Literal["deep", "rival"]]] = {}
        with self._lock:
            kept = dict(self._kept)
        for i, run_id in kept.items():
            run = self._run(run_id)
            if run is not None:
                pair = self._pairs[i]
                found |= {pair.deep: (run, "deep")} if pair.deep else {}
                found |= {pair.rival: (run, "rival")} if pair.rival else {}
        return found

    # Commands, for whoever started it.

    def pause(self) -> None:
        """Stands still; what the main run has learnt so far is scored."""
        self._set_playing(False)

    def play(self) -> None:
        """Goes on."""
        self._set_playing(True)

    def _set_playing(self, playing: bool) -> None:
        with self._lock:
            self._playing = playing
            if self._run_now is not None:
                self._run_now.play() if playing else self._run_now.pause()
            self._note()
        self.watch()

    def cross_validate(self, folds: int) -> None:
        """So many folds more, once what was begun is over; earlier folds are forgotten."""
        with self._lock:
            over = self._over and not self._closing.is_set()
        if not over:
            raise ValueError("The trial is still at work: ask for folds when it is over.")
        parts = self._new_folds(folds)
        total = sum(self._cost(part, pair) for part in parts for pair in self._pairs)
        with self._lock:
            self._cards = [card for card in self._cards if card.fold == 0]
            self._failures.clear()
            self._parts = [part for part in self._parts if part.fold == 0] + parts
            self._done, self._total, self._playing, self._over = 0.0, total, True, False
            self._place = "Folds"
            self._note()
        self.watch()
        self._thread = self._begin(parts)

    def close(self) -> None:
        """Ends the trial and lets its runs, its data and its scores go."""
        self._closing.set()
        with self._lock:
            ids = {*self._kept.values(), *([self._active] if self._active else [])}
            self._kept, self._active, self._run_now = {}, None, None
            self._note()
            self._cards, self._failures = [], []
            self._dataset, self._refitted = None, (None, None)
        for run_id in ids:
            self._drop(run_id)

    # What the thread does.

    def _begin(self, parts: list[Part]) -> threading.Thread:
        return self.workshop.employ(lambda: self._drive(parts), "dgp-trial")

    def _drive(self, parts: list[Part]) -> None:
        with self._lock:
            self._unscored = len(parts)
        try:
            compiled = False
            for part in parts:
                self._one_part(part)
                self._part_done(compiled)
                compiled = part.fold > 0
        except _Ended:
            self.close()
        except WorkshopError as error:
            self._failed(f"{self._place} could not start: {error}")
        except Exception as error:
            self.error = error
            self._failed(f"{self._place} could not go on ({type(error).__name__}).")
        with self._lock:
            self._over, self._judged = True, ""
            self._note()
        self.workshop.lighten()  # what was compiled for its shapes serves no other fit

    def _one_part(self, part: Part) -> None:
        title = "Main fit" if part.fold == 0 else f"Fold {part.fold} of {self._n_folds}"
        self._at(title)
        sample = sample_places(part.train, LINEAR_ROWS)
        if self._linear:
            self._reference("linear", "the straight line", linear_predictor, part, sample)
        if self._boosting:
            self._reference("boosting", "gradient boosting", boosting_predictor, part, sample)
        for i, pair in enumerate(self._pairs):
            self._at(title if len(self._pairs) == 1 else f"{title}, {self._title(pair.deep)}")
            if self._active is None:
                self._wait_until(lambda: self._playing)
                self._start(part, i)
            try:
                self._follow(part, pair)
            except WorkshopError as error:  # the run was let go, or the workshop has stopped
                raise _Ended from error
            self._release(self._cost(part, pair))
        if self._wants_exact(part):
            self._at(title)
            fit = partial(exact_predictor, kernel=self.kernel, go_on=self._wanted)
            self._reference("exact", "the exact GP", fit, part, part.train)

    def _start(self, part: Part, i: int) -> None:
        pair = self._pairs[i]
        data = self._rows_of(part).take(part.train)
        run_id, _ = self.workshop.start(
            data,
            pair.spec,
            self.train,
            self.owner,
            own_program=self._longer_in_class(Run(data, pair.spec, self.train).size) > OWN_SECONDS,
            awaited=True,
            browser=self._browser,
        )
        run = self.workshop.watch(run_id)
        with self._lock:
            self._active, self._run_now = run_id, run
            self._cost_now = self._cost(part, pair)
            if part is self._parts[0]:
                self._kept[i] = run_id
            if not self._playing:  # somebody has stopped it meanwhile, and knew of no run yet
                run.pause()
            self._note()

    def _longer_in_class(self, size: Size | None) -> float:
        """Seconds that the steps of all splits and folds take longer by a size class's programs."""
        if size is None:
            return 0.0
        numbers = size.width * size.inducing**2
        return len(self._parts) * self.train.steps * CLASS_SECONDS * numbers

    def _follow(self, part: Part, pair: _Pair) -> None:
        """Waits for a run to be over and scores it; and a main run that stands still meanwhile."""
        with self._lock:
            run, run_id, scored = self._run_now, self._active, 0
        if run is None or run_id is None:
            raise _Ended
        before, step_before, last = self._clock(), 0, 0
        while run.status not in ("finished", "failed"):
            self._check()
            self._note()
            self.workshop.place(run_id)  # raises where the run is gone
            now, step = self._clock(), run.latest.step if run.latest is not None else 0
            idle = now - self._seen > IDLE_SECONDS
            if step > step_before > 0 and not idle:
                with self._lock:
                    self._wall += now - before
                    self._worked += self._cost_now * (step - step_before) / self._most_steps
            if step > step_before or not run.playing or idle:
                before, step_before = now, step
            # A turn that was running when somebody stopped the run ends first.
            settled, last = step == last, step
            if not run.playing and settled and part.fold == 0 and step > scored:
                scored = step
                self._score(run, part, pair)
            self._closing.wait(POLL_SECONDS)
        self._check()
        if run.status == "failed":
            self._failed(f"{self._place}: {run.reason}")
        else:
            self._score(run, part, pair)
            names = [name for name in (pair.deep, pair.rival) if name]
            with self._lock:
                self._complete += [(name, part.fold) for name in names]

    def _score(self, run: Run, part: Part, pair: _Pair) -> None:
        snapshot = run.latest
        if snapshot is None:
            return
        names = [name for name in (pair.deep, pair.rival) if name]
        cards = []
        with self._judging(" and ".join(map(self._title, names))), _scoring.turn(self):
            for name, model in ((pair.deep, snapshot.deep), (pair.rival, snapshot.rival)):
                if name is None:
                    continue
                self._check()
                pace = timed_step(run, model) if part is self._parts[0] else None
                predictor = deep_predictor(model, run.scaler, self.train.seed)
                seconds = None if pace is None else pace * snapshot.step
                cards.append(
                    self._card(name, predictor, part, seconds_per_step=pace, seconds=seconds)
                )
        self._keep(cards)

    def _reference(
        self, name: str, title: str, fit: Callable, part: Part, places: np.ndarray
    ) -> None:
        """Fits a model that has no steps to the rows at these places, and scores it."""
        try:
            with self._judging(title), _scoring.turn(self):
                self._check()
                began = time.perf_counter()
                predictor = fit(self._rows_of(part).take(places))
                seconds = time.perf_counter() - began
                self._check()
                card = self._card(name, predictor, part, seconds=seconds)
            self._keep([card])
            with self._lock:
                self._complete.append((name, part.fold))
        except (ValueError, ArithmeticError) as error:
            self._failed(f"{self._place}: scoring {title} failed: {error}")

    def _card(
        self, name: str, predictor: Predictor, part: Part, **measured: float | None
    ) -> ScoreCard:
        """A model's card by the held-out rows of a split or fold."""
        places = sample_places(part.held, MOST_SCORED)
        return score(
            name,
            predictor,
            self._rows_of(part).take(places),
            n_train=len(part.train),
            fold=part.fold,
            rows=places,
            pad_to=self._most_held(part),
            question=self.by.rows,
            groups=self.by.groups_of(places),
            **measured,
        )

    def _keep(self, cards: list[ScoreCard]) -> None:
        """Puts cards down, in the place of earlier ones of the same fit."""
        new = {(card.model, card.fold) for card in cards}
        with self._lock:
            if not self._closing.is_set():
                old = [card for card in self._cards if (card.model, card.fold) not in new]
                self._cards = [*old, *cards]

    def _release(self, cost: float) -> None:
        """Puts a run down as done, and lets it go, but those of the first part."""
        with self._lock:
            run_id, self._active, self._run_now = self._active, None, None
            self._done += cost
            self._note()
            kept = run_id in self._kept.values()
        if run_id is not None and not kept:
            self._drop(run_id)

    def _part_done(self, compiled: bool) -> None:
        """Puts down what the scoring of a split or fold took, for those that are left: of one whose
        programs were compiled before."""
        with self._lock:
            self._note()
            scoring = self._times.spent["scoring"]
            if compiled:
                self._scoring_took = scoring - self._scoring_before
            self._scoring_before = scoring
            self._unscored -= 1

    def _at(self, place: str) -> None:
        with self._lock:
            self._place = place

    @contextmanager
    def _judging(self, title: str) -> Iterator[None]:
        """Says what is being scored."""
        with self._lock:
            self._judged = title
            self._note()
        try:
            yield
        finally:
            with self._lock:
                self._judged = ""
                self._note()

    def _note(self) -> None:
        """Books the time so far on the phase that it was in."""
        with self._lock:
            self._times.note(self._phase_now())

    def _phase_now(self) -> Phase:
        """What the person waits for: the run as long as there is one that is not over."""
        if self._over or self._closing.is_set():
            return "over"
        run = self._run_now
        if run is not None and run.status in ("finished", "failed"):
            run = None
        if run is not None and run.status == "compiling":
            return "compiling"
        still = run is not None and not run.playing
        if still or self._clock() - self._seen > IDLE_SECONDS:
            return "scoring" if self._judged else "paused"
        if run is not None:
            return "waiting" if run.status == "waiting" or run.latest is None else "training"
        if self._judged:
            return "waiting" if _scoring.before(self) else "scoring"
        return "waiting" if self._playing else "paused"

    def _drop(self, run_id: str) -> None:
        try:
            self.workshop.drop(run_id, self.owner)
        except WorkshopError:
            pass  # gone already

    def _failed(self, sentence: str) -> None:
        with self._lock:
            self._failures.append(sentence)

    def _wanted(self) -> bool:
        over = self._closing.is_set() or self.workshop.stopping
        return not over and self._clock() - self._seen <= GONE_SECONDS

    def _check(self) -> None:
        if not self._wanted():
            raise _Ended

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        """Until it is so and somebody watches; the trial ends where nobody does for long."""
        while not (condition() and self._clock() - self._seen <= IDLE_SECONDS):
            self._check()
            self._closing.wait(POLL_SECONDS)

    # Small questions.

    @property
    def _data(self) -> Dataset:
        dataset = self._dataset
        if dataset is None:
            raise _Ended
        return dataset

    def _rows_of(self, part: Part) -> Dataset:
        """The data set with what stands for missing cells decided by this part's training rows."""
        dataset = self._data
        if self._refit is None:
            return dataset
        known, rows = self._refitted
        if known is not part or rows is None:
            rows = self._refit(part.train)
            self._refitted = part, rows
        return rows

    @property
    def kernel(self) -> str:
        """The first contender's, of its last layer: the exact GP has it too."""
        return self._pairs[0].spec.kernel_names[-1] if self._pairs else "rbf"

    @property
    def _n_folds(self) -> int:
        return sum(part.fold > 0 for part in self._parts)

    def _most_held(self, part: Part) -> int:
        """Rows that the largest fold holds out, or the main split: all folds are scored alike."""
        return max(len(p.held) for p in self._parts if (p.fold > 0) == (part.fold > 0))

    def _new_folds(self, folds: int) -> list[Part]:
        if self._data.X.size > MOST_FOLD_CELLS:
            raise ValueError(
                f"These data have {self._data.X.size:,} cells, and folds are made up to "
                f"{MOST_FOLD_CELLS:,}: one split holds out enough of so many rows to judge by."
            )
        return fold_parts(self._data, folds, self.train.seed, self.by)

    def _wants_exact(self, part: Part) -> bool:
        possible = self._data.task == "regression" and len(part.train) <= EXACT_ROWS
        return possible and self._exact is not False

    def _cost(self, part: Part, pair: _Pair) -> float:
        each = step_seconds(self._data, pair.spec, self.train, len(part.train))
        return self.train.steps * each

    def _run(self, run_id: str | None) -> Run | None:
        """A run of this trial, which to ask for is to watch; None where it is gone."""
        if run_id is None:
            return None
        try:
            return self.workshop.watch(run_id)
        except WorkshopError:
            return None

    def _title(self, name: str | None) -> str:
        """What a contender is called in a sentence."""
        return self._titles.get(name or "", name or "")

    @property
    def _most_steps(self) -> int:
        return max(1, self.train.steps)

    def _doing(
        self, phase: Phase, run: Run | None, run_id: str | None, step: int, judged: str
    ) -> str:
        """What it does now, and while it waits, what for and at which place."""
        learning = run is not None and run.status not in ("finished", "failed")
        if learning and phase == "waiting" and run_id is not None:
            return self._waits_for(run_id)
        if learning and phase == "compiling":
            return "compiling the model"
        if learning and not (phase == "scoring" and judged):
            return f"step {step:,} of {self.train.steps:,}"
        if judged and (before := _scoring.before(self)):
            others = "another fit is" if before == 1 else f"{before} other fits are"
            return f"waiting to score {judged}: {others} scored first"
        return f"scoring {judged}" if judged else "about to start"

    def _waits_for(self, run_id: str) -> str:
        try:
            if sentence := self.workshop.queue_sentence(run_id):
                return sentence.rstrip(".")
            before = self.workshop.compiling_place(run_id)
        except WorkshopError:  # it is gone; the thread notices, and says so
            before = 0
        if not before:
            return "about to start"
        are = "is" if before == 1 else "are"
        others = counted(before, "other model")
        return f"waiting until {others} that came before it {are} compiled"


def timed_step(run: Run, model: DeepGP) -> float:
    """Seconds that a step of a run's model takes by itself now: steps that are not kept, timed."""
    if run.supply is None:
        return float("nan")
    state = create_state(jax.tree.map(jnp.asarray, model), jax.random.key(0))
    rows, most = run.supply.prefetch(0, LONGEST_CHUNK)
    train_chunk(state, rows, run.train, 1)
    n = 1
    while True:
        began = time.perf_counter()
        train_chunk(state, rows, run.train, n)
        seconds = time.perf_counter() - began
        if seconds >= TIMED_SECONDS / 4 or n == most:
            return seconds / n
        n = min(most, 4 * n)
