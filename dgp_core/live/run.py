"""One live run: a deep model and its single-layer rival, trained together, chunk by chunk.

A worker calls `advance`, one at a time; anybody else only reads `latest`, `history` and `record`,
or leaves a command (`play`, `pause`, `step`, …) that the next turn carries out.
"""

import itertools
import math
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import jax
import numpy as np

from dgp_core.archive import Archive
from dgp_core.gp.data import Dataset, Scaled, Scaler
from dgp_core.gp.domain import Domain
from dgp_core.gp.model import Bound, DeepGP, ModelSpec, create_model
from dgp_core.live.views.playground import Gallery, has_view, view, view_programs
from dgp_core.training.generic import (
    Batches,
    Size,
    layout_of,
    padded_batches,
    padded_state,
    size_of,
    unpadded_state,
)
from dgp_core.training.optimise import TrainState, create_state
from dgp_core.training.programs import Program, programs
from dgp_core.training.train import (
    HOPELESS,
    LONGEST_CHUNK,
    Progress,
    Rows,
    TrainSpec,
    Windows,
    converged,
    padded_size,
)
from dgp_core.training.train import train_chunk as own_train_chunk

TURN_SECONDS = 0.05
"""What a chunk should take."""

MOST_COPIED_CELLS = 4_000_000
"""Rows times columns up to which a run copies its rows to the device: 32 MB."""

HISTORY_BYTES = 8 * 2**20
"""Snapshots kept for the slider, both models' parameters together: some 250 of two layers, on a
slider of as many pixels."""

MOST_MOMENTS = 1000
"""Snapshots kept for the slider, however small they are."""

LEAF_BYTES = 512
"""What an array of parameters takes beside its numbers."""

_serials = itertools.count()


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A moment of a run: parameters as numpy, never pictures, so that any page can draw it."""

    step: int
    seconds: float
    """Spent in training so far."""
    deep: DeepGP
    rival: DeepGP
    deep_bound: Bound
    """Of the last step before this moment; NaN before the first."""
    rival_bound: Bound
    failures: int
    """Steps undone so far, in both models."""
    serial: int = field(init=False, default_factory=_serials.__next__)
    """No other moment of this process has it: what is computed of a moment is kept by it, and does
    not keep the moment."""

    @property
    def nbytes(self) -> int:
        leaves = jax.tree.leaves((self.deep, self.rival))
        return sum(leaf.nbytes + LEAF_BYTES for leaf in leaves)


class ClassRows(NamedTuple):
    """Training rows in the form of a size class: they serve any step."""

    batches: Batches
    size: Size

    @property
    def n(self) -> jax.Array:
        return self.batches.n

    def prefetch(self, step: int, n_steps: int) -> "tuple[ClassRows, int]":
        return self, n_steps


def train_chunk(
    state: TrainState, rows, train: TrainSpec, n_steps: int
) -> tuple[TrainState, Bound]:
    """The next n steps: by the program of the model's size class, or by one of its own."""
    if not isinstance(rows, ClassRows):
        return own_train_chunk(state, rows, train, n_steps)
    size, L = rows.size, len(state.model.layers)
    after, record = programs().get(Program("train", size))(
        padded_state(state, size),
        layout_of(state.model, size),
        rows.batches,
        np.float64(int(rows.n)),
        np.int64(n_steps),
        train.rates_for(state.model),
        np.int64(train.samples),
    )
    after = unpadded_state(after, state, size)
    fit, kl = np.asarray(record.fit)[:n_steps], np.asarray(record.kl)[:n_steps, :L]
    return after, Bound(fit, kl)  # pyright: ignore[reportArgumentType]


def size_programs(size: Size) -> tuple[Program, ...]:
    """The programs that a run of a size class needs, the training step's first."""
    return (Program("train", size), *view_programs(size))


class Start(NamedTuple):
    """Where a run begins: the states of both models, and the minibatches that its seed brings."""

    seed: int
    states: tuple[TrainState, TrainState]
    supply: Rows | Windows | ClassRows


class BoundRecord:
    """The bound at every step so far, whole."""

    def __init__(self, n_layers: int):
        self._n_layers = n_layers
        self._fit, self._kl = array("d"), array("d")

    def __len__(self) -> int:
        return len(self._fit)

    @property
    def nbytes(self) -> int:
        return 8 * (len(self._fit) + len(self._kl))

    def append(self, bound: Bound) -> None:
        self._fit.extend(np.asarray(bound.fit, np.float64))
        self._kl.extend(np.asarray(bound.kl, np.float64).ravel())

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The fit (T,) and the KL of each layer (T, L)."""
        fit = np.array(self._fit)
        return fit, np.array(self._kl)[: len(fit) * self._n_layers].reshape(-1, self._n_layers)

    def tail(self) -> Bound:
        """The last step's bound; NaN before the first."""
        if not len(self):
            return Bound(np.float64(np.nan), np.full(self._n_layers, np.nan))  # pyright: ignore
        return Bound(np.float64(self._fit[-1]), np.array(self._kl[-self._n_layers :]))  # pyright: ignore

    def latest(self, n: int) -> np.ndarray:
        """The bound at the last n steps."""
        fit = np.array(self._fit[-n:])
        kl = np.array(self._kl[-n * self._n_layers :]).reshape(len(fit), self._n_layers)
        return fit - kl.sum(1)


class Run:
    """A deep model and its rival: the same rows, the same seed, as many inducing points.

    Everything that changes is behind one lock; training itself goes on outside of it.
    """

    def __init__(
        self,
        dataset: Dataset,
        model: ModelSpec,
        train: TrainSpec,
        saved: Archive | None = None,
        own_program: bool = False,
    ):
        """With `saved`, the deep model goes on from there, and the rival catches up first.

        `own_program` asks for a program of the model's own, which takes seconds to compile and is
        faster where a step has much to do.
        """
        self.dataset = dataset
        self.scaler = Scaler.fit(dataset) if saved is None else saved.scaler
        self.model, self.train = model, train
        self.size = None if own_program else self._size()
        """The size class whose programs serve this run; None where it has programs of its own."""
        self.gallery = Gallery()
        """Pictures of this run that were computed already."""
        self.altered = False
        """Whether rates were changed or points moved during the run: no script repeats that."""
        self.label: object = None
        """What whoever started it calls it; the run itself does not look."""
        self._lock = threading.Lock()
        self._start: Start | None = None
        self._states: tuple[TrainState, TrainState] | None = None
        self._chunk = 1
        self._due = 0.0
        self._playing = True
        self._wanted_steps = 0
        self._until: int | None = None
        self._speed: float | None = None
        self._edits: list = []
        self._steady_since = 0
        """The step from which the bound may be said to have levelled off."""
        self._epoch = 0
        self._seconds = 0.0
        self._latest: Snapshot | None = None
        self._history: list[Snapshot] = []
        self._moment_bytes = 0
        self._records = self._empty_records()
        self._saved = saved
        self.status = "waiting"
        """waiting, compiling, ready, finished or failed; a run that is ready plays or is paused."""
        self.reason = ""
        """Why the run finished or failed, in words."""

    # What anybody may ask.

    @property
    def shape(self) -> tuple:
        """Everything that a compilation depends on: runs of equal shape share theirs."""
        if self.size is not None:
            return (self.size,)
        n, train = len(self.dataset), self.train
        batch = None if train.minibatch is None or train.minibatch >= n else train.minibatch
        return (
            self.model,
            int(self.scaler.kept.sum()),
            self.dataset.Y.shape[1],
            len(self.dataset.classes),
            self.dataset.exposure != "",
            padded_size(n) if batch is None and not self.model.mean_field else n,
            batch,
            train.samples,
            train.natural,
        )

    def _size(self) -> Size | None:
        data, train = self.dataset, self.train
        n, n_columns = len(data), data.Y.shape[1]
        D = int(self.scaler.kept.sum())
        if not (n and D) or data.exposure:  # whose log is one column more beside the outputs
            return None
        several = self.model.likelihood in ("robust_max", "softmax")
        latents = max(2, len(data.classes)) if several else n_columns
        batch = n if train.minibatch is None else min(n, train.minibatch)
        return size_of(self.model, D, latents, n, n_columns, batch)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The size class's programs that it needs, the training step's first."""
        return () if self.size is None else size_programs(self.size)

    @property
    def latest(self) -> Snapshot | None:
        """The newest moment; None until the start values are there."""
        return self._latest

    @property
    def epoch(self) -> int:
        """How often it was reset."""
        return self._epoch

    @property
    def outdated(self) -> bool:
        """Whether the newest moment is of before a reset: its start values are not made yet."""
        return self._states is None and self._latest is not None

    @property
    def begun(self) -> bool:
        """Whether a step was taken, since the last reset."""
        return not self.outdated and self._latest is not None and self._latest.step > 0

    @property
    def supply(self) -> Rows | Windows | ClassRows | None:
        """Where its minibatches come from, in standard units; None before its start."""
        return self._start.supply if self._start is not None else None

    @property
    def at_rest(self) -> bool:
        """Whether it trains no more, unless somebody asks it to."""
        over = self.status in ("finished", "failed")
        return over or (self.status == "ready" and not self._playing)

    @property
    def device(self) -> str:
        """Where it trains, in words."""
        device = jax.devices()[0]
        return "CPU" if device.platform == "cpu" else device.device_kind

    @property
    def playing(self) -> bool:
        return self._playing

    @property
    def speed(self) -> float | None:
        """Steps a second in slow motion; None is as fast as it goes."""
        return self._speed

    def history(self) -> tuple[Snapshot, ...]:
        """Moments for the slider, the first and the newest among them, early ones densest."""
        with self._lock:
            return tuple(self._history)

    def at(self, step: int) -> Snapshot | None:
        """The kept moment that is nearest to a step."""
        return min(self.history(), key=lambda s: abs(s.step - step), default=None)

    @property
    def catching_up(self) -> bool:
        """Whether the rival trains alone, up to the step of a deep model that was opened."""
        states = self._states
        return states is not None and int(states[1].step) < int(states[0].step)

    def archive(
        self, which: Literal["deep", "rival"] = "deep", settings: dict | None = None
    ) -> Archive:
        """One of the two models as it stands, with all that its next step depends on, no rows."""
        i = 0 if which == "deep" or self.model.layers == 1 else 1
        with self._lock:
            states, seconds, reason = self._states, self._seconds, self.reason
            fit, kl = self._records[i].arrays()
        if states is None:
            raise ValueError("There is no model to save before its start values are made.")
        data, state = self.dataset, states[i]
        n = int(state.step)
        parts = ([fit], [kl]) if n else ([], [])
        return Archive(
            model=self.model if i == 0 else self.model.single_layer(),
            training=self.train,
            scaler=self.scaler,
            state=state,
            progress=Progress(n, seconds, *parts, int(state.failures), reason),
            task=data.task,
            input_names=data.input_names,
            output_names=data.output_names,
            classes=data.classes,
            settings=settings,
            domain=self._domain,
        )

    @cached_property
    def _domain(self) -> Domain:
        return Domain.fit(self.dataset.X, self.scaler)

    @property
    def grown_bytes(self) -> int:
        """What its moments and its bounds take by now."""
        moments = len(self._history) * self._moment_bytes
        return moments + sum(record.nbytes for record in self._records)

    def put_away(self, most: int) -> None:
        """Keeps so many moments of its history at most, and no view: nobody looks at it now."""
        with self._lock:
            thin(self._history, most)
        self.gallery.clear()

    def record(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """The bound's parts at every step, of the deep model and of its rival: fit and KL."""
        with self._lock:
            deep, rival = self._records
            return deep.arrays(), rival.arrays()

    # Commands, for whoever started the run.

    def play(self) -> None:
        with self._lock:
            self._playing, self._until, self._due = True, None, 0.0

    def pause(self) -> None:
        with self._lock:
            self._playing, self._wanted_steps = False, 0

    def play_until(self, step: int) -> None:
        """Plays up to a step and pauses there."""
        with self._lock:
            self._playing, self._until, self._due = True, step, 0.0

    def step(self, n: int = 1) -> None:
        """A few gradient steps, then a pause.

        Steps add up while a turn runs, but to no more than a turn: a key that is held
        down must not keep others waiting.
        """
        with self._lock:
            self._playing = False
            most = min(max(n, self._chunk), LONGEST_CHUNK)
            self._wanted_steps = min(self._wanted_steps + n, most)

    def set_speed(self, steps_per_second: float | None) -> None:
        """Slow motion; None is as fast as it goes."""
        if steps_per_second is not None and not 0.1 <= steps_per_second <= 1000:
            raise ValueError("Slow motion goes from 0.1 to 1,000 steps a second.")
        with self._lock:
            self._speed, self._due = steps_per_second, 0.0

    def set_rates(
        self, learning_rate: float | None = None, natural_rate: float | None = None
    ) -> None:
        """Other rates from the next turn on, without a restart.

        Natural gradients cannot be switched on or off during a run: that would be recompiled.
        """
        changes = {"learning_rate": learning_rate, "natural_rate": natural_rate}
        changes = {name: value for name, value in changes.items() if value is not None}
        with self._lock:
            train = replace(self.train, **changes)
            if train.natural != self.train.natural:
                raise ValueError(
                    "Natural gradients are switched on or off by a new run, not during one."
                )
            if train != self.train and self._latest is not None:
                self.altered = True
                self._revive()
            self.train = train

    def move_inducing(self, layer: int, index: int, position: np.ndarray) -> None:
        """Puts one inducing input of the deep model somewhere else (standard units)."""
        with self._lock:
            others = [edit for edit in self._edits if edit[:2] != (layer, index)]
            self._edits = [*others, (layer, index, np.asarray(position, np.float64))]
            self.altered = True
            self._revive()

    def move_inducing_to(self, index: int, place: Sequence[float]) -> None:
        """Puts an inducing input of the first layer at a place in the user's units.

        The first inputs are given, as many as a picture shows; the others stay.
        """
        if not 0 <= index < self.model.inducing_counts[0] or self._latest is None:
            raise ValueError(f"There is no inducing point {index}.")
        kept = self.scaler.kept
        position = np.array(self._latest.deep.layers[0].inducing[index])
        n = min(len(place), len(position))
        shift, scale = self.scaler.x_mean[kept][:n], self.scaler.x_scale[kept][:n]
        position[:n] = (np.asarray(place[:n], np.float64) - shift) / scale
        self.move_inducing(0, index, position)

    def reset(self, seed: int | None = None) -> None:
        """Back to the start: of the same seed, so that the same run follows, or of another."""
        with self._lock:
            if seed is not None and seed != self.train.seed:
                self.train = replace(self.train, seed=seed)
            self._epoch += 1
            self._states = self._saved = None
            self.altered = False
            self._edits.clear()
            self._wanted_steps = self._steady_since = 0
            self._due = 0.0
            if self.status in ("finished", "failed"):
                self.status, self.reason = "ready", ""

    # What a worker does.

    def wants_turn(self, now: float) -> bool:
        """Whether there is anything to do now."""
        if self.status != "ready":
            return False
        command = self._states is None or self._wanted_steps > 0 or bool(self._edits)
        return command or (self._playing and now >= self._due)

    def due(self) -> float:
        """When a run in slow motion wants its next turn."""
        return self._due

    def prepare(self) -> None:
        """Start values and compilation, away from those who train: no step is taken.

        The picture is compiled too, so that no page waits for it.
        """
        try:
            self.status = "compiling"
            start = self._make_start()
            if has_view(self):
                view(self, self._snapshot(start.states))
            rows, _ = start.supply.prefetch(0, 0)
            for state in self._distinct(start.states):
                jax.block_until_ready(train_chunk(state, rows, self.train, 0)[0])
            self.status = "ready"
        except Exception as error:
            self._fail(error)

    def advance(self) -> None:
        """One turn: grants what was wished, trains a chunk, publishes a moment."""
        epoch = self._epoch
        try:
            self._advance()
        except Exception as error:
            with self._lock:
                if epoch == self._epoch:  # else it was reset meanwhile, and begins again
                    self._fail(error)

    def _advance(self) -> None:
        with self._lock:
            epoch, train, states = self._epoch, self.train, self._states
            edits, self._edits = self._edits, []
            wanted, until = self._wanted_steps, self._until
            playing, chunk = self._playing, self._chunk
        start = self._make_start()
        if states is None:
            with self._lock:
                if epoch == self._epoch:
                    self._states, self._seconds = start.states, 0.0
                    self._records, self._history = self._empty_records(), []
                    if self._saved is not None:
                        self._open(self._saved)
                    self._publish(self._states)
            return
        if edits:
            states = self._edited(states, edits)

        n = wanted or (chunk if playing else 0)
        speed = None if wanted else self._speed
        if speed is not None and playing:
            n = max(1, min(n, round(speed * TURN_SECONDS)))
        n = min(n, train.steps - int(states[-1].step))
        if until is not None and not wanted:
            n = min(n, max(0, until - int(states[-1].step)))
        due, began = max(self._due, time.monotonic()), time.perf_counter()
        rows, n = start.supply.prefetch(int(states[-1].step), n)
        bounds: list[Bound | None] = []
        behind = int(states[0].step) - int(states[-1].step)
        if n > 0 and behind > 0:
            rival, bound = train_chunk(states[1], rows, train, min(n, behind))
            states, bounds = (states[0], rival), [None, bound]
        elif n > 0:
            trained = []
            for state in self._distinct(states):
                state, bound = train_chunk(state, rows, train, n)
                trained.append(state)
                bounds.append(bound)
            states = (trained[0], trained[-1])
        taken = time.perf_counter() - began
        answer = None
        if edits and n == 0:  # the bound of the moved points, from a step that is not taken
            answer = train_chunk(states[0], rows, train, 1)[1]

        with self._lock:
            if epoch != self._epoch:  # reset meanwhile: this chunk never was
                return
            self._states = states
            self._seconds += taken
            self._wanted_steps = max(0, self._wanted_steps - n) if wanted else self._wanted_steps
            if n > 0:
                for record, bound in zip(self._records, (bounds[0], bounds[-1]), strict=True):
                    if bound is not None:
                        record.append(bound)
                if n == chunk or (speed is not None and not wanted):
                    self._chunk = _next_chunk(n, taken)
                self._due = due + n / speed if speed is not None else 0.0
            if n > 0 or edits:
                self._publish(states, answer)
            if until is not None and until == self._until and int(states[-1].step) >= until:
                self._playing, self._until = False, None
            self._finish_if_over(states, train)

    def _open(self, saved: Archive) -> None:
        """Puts a saved deep model in the place of the start values."""
        assert self._states is not None
        state, progress = saved.state, saved.progress
        rival = self._states[1] if self.model.layers > 1 else state
        self._states, self._seconds = (state, rival), progress.seconds
        for fit, kl in zip(progress.fit, progress.kl, strict=True):
            for record in self._records if self.model.layers == 1 else self._records[:1]:
                record.append(Bound(fit, kl))  # pyright: ignore

    def _finish_if_over(self, states, train: TrainSpec) -> None:
        step, n = int(states[-1].step), len(self.dataset)
        if max(int(state.streak) for state in states) >= HOPELESS:
            self.status = "failed"
            self.reason = (
                f"{HOPELESS} steps in a row ended in numbers that are not finite. The model shown "
                "is the last good one. Try a smaller learning rate, or another seed."
            )
        elif step >= train.steps:
            self.status, self.reason = "finished", f"Reached the limit of {train.steps:,} steps."
        elif step == int(states[0].step) >= self._steady_since + 2 * train.patience and all(
            converged(record.latest(2 * train.patience), train, n) for record in self._records
        ):
            self.status = "finished"
            self.reason = f"Converged: both bounds have levelled off at step {step:,}."

    def _revive(self) -> None:
        """Something was changed: a bound that had levelled off may rise again."""
        self._steady_since = len(self._records[0])
        if self.status == "finished":
            self.status, self.reason = "ready", ""

    def _make_start(self) -> Start:
        """Of the seed as it is now; another seed may be wished while it is made."""
        data, train, start = self.dataset, self.train, self._start
        if start is not None and start.seed == train.seed:
            return start
        seed, minibatch = train.seed, train.minibatch
        X = Scaled(data.X, self.scaler.inputs)
        Y = (
            self.scaler.targets(data.X, data.Y)
            if data.exposure
            else Scaled(data.Y, self.scaler.outputs)
        )
        if minibatch is not None and minibatch < len(data) and data.X.size > MOST_COPIED_CELLS:
            supply = Windows(X, Y, minibatch, self.model.dtype, seed)
        else:
            supply = Rows.create(X, Y, minibatch, self.model.dtype, seed)
        if self.size is not None and isinstance(supply, Rows):
            n = len(data)
            drawn = minibatch is not None and minibatch < n
            stored = len(supply.X) if drawn else n
            rows = padded_batches(
                np.asarray(supply.X)[:stored],
                np.asarray(supply.Y)[:stored],
                n,
                minibatch if drawn and minibatch is not None else n,
                self.size,
            )
            supply = ClassRows(rows, self.size)
        specs = [self.model] + ([self.model.single_layer()] if self.model.layers > 1 else [])
        states = []
        for spec in specs:
            P, C = data.Y.shape[1], max(2, len(data.classes))
            counts = Y[:] if data.task == "counts" else None
            model = create_model(spec, X, P, C, seed, counts)
            states.append(create_state(model, jax.random.key(seed)))
        self._start = Start(seed, (states[0], states[-1]), supply)
        return self._start

    def _distinct(self, states: tuple[TrainState, TrainState]) -> tuple[TrainState, ...]:
        """Both states, or the one that serves as both where the model has a single layer."""
        return states if self.model.layers > 1 else states[:1]

    def _edited(self, states, edits):
        deep, rival = states
        layers = list(deep.model.layers)
        for layer, index, position in edits:
            moved = np.array(layers[layer].inducing)
            moved[index] = position
            layers[layer] = replace(layers[layer], inducing=moved)
        edited = replace(deep, model=replace(deep.model, layers=tuple(layers)))
        return (edited, rival if self.model.layers > 1 else edited)

    def _snapshot(self, states, answer: Bound | None = None) -> Snapshot:
        """A moment; `answer` is the deep bound where points were moved since the last step."""
        deep, rival = states
        tail = self._records[0].tail()
        if answer is not None:
            tail = Bound(np.float64(answer.fit[0]), np.asarray(answer.kl[0]))  # pyright: ignore
        return Snapshot(
            step=int(deep.step),
            seconds=self._seconds,
            deep=jax.tree.map(_as_numpy, deep.model),
            rival=jax.tree.map(_as_numpy, rival.model),
            deep_bound=tail,
            rival_bound=self._records[1].tail(),
            failures=sum(int(state.failures) for state in self._distinct(states)),
        )

    def _publish(self, states, answer: Bound | None = None) -> None:
        snapshot = self._snapshot(states, answer)
        self._latest, self._moment_bytes = snapshot, snapshot.nbytes
        if self._history and self._history[-1].step == snapshot.step:
            self._history[-1] = snapshot
        else:
            self._history.append(snapshot)
        thin(self._history, min(MOST_MOMENTS, HISTORY_BYTES // self._moment_bytes))

    def _empty_records(self) -> tuple[BoundRecord, BoundRecord]:
        return BoundRecord(self.model.layers), BoundRecord(1)

    def _fail(self, error: Exception) -> None:
        self.status = "failed"
        self.reason = (
            f"This run could not go on ({type(error).__name__}). Reset it, or change its settings."
        )


def _as_numpy(leaf) -> np.ndarray:
    """NumPy's own copy of an array of JAX's, which would take two kilobytes beside its numbers for
    as long as anybody sees them."""
    return np.array(leaf) if isinstance(leaf, jax.Array) else np.asarray(leaf)


def _next_chunk(n: int, seconds: float) -> int:
    """Steps for the next turn, so that it takes about TURN_SECONDS; never a leap.

    Rounded up: the first step of a turn costs several, so that one long step alone is dear.
    """
    ratio = TURN_SECONDS / max(seconds, 1e-6)
    return min(LONGEST_CHUNK, math.ceil(n * min(2.0, max(0.5, ratio))))


def thin(history: list[Snapshot], most: int) -> None:
    """Drops moments until `most` are left: each time the one most crowded in log time.

    Early moments, when most happens, thus stay dense; the first and the last always stay, but
    where there is room for less than three, only the last does.
    """
    if most < 3:
        del history[:-1]
        return
    if len(history) <= most:
        return
    steps = np.log1p([snapshot.step for snapshot in history])
    while len(history) > most:
        closest = int(np.argmin(steps[2:] - steps[:-2])) + 1
        del history[closest]
        steps = np.delete(steps, closest)
