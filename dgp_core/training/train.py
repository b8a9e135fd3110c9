"""Many steps in one call, and a whole training run: until it converges, or a limit is met."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec
from jax.typing import DTypeLike

from dgp_core.gp.data import Scaled
from dgp_core.gp.likelihoods import Counts
from dgp_core.gp.model import Bound, DeepGP, Share
from dgp_core.gp.pytree import leaf
from dgp_core.training.devices import AXIS, SPECS, Devices, Shares, first_copies, lost_processes
from dgp_core.training.optimise import Rates, TrainState, create_state, train_step

LONGEST_CHUNK = 1000
"""Steps in one call, at the most: the length of the record that a call fills."""

LARGEST_PADDED = 4096
"""Sets up to this many rows are padded, so that few shapes compile."""

QUEUED_CELLS = 1 << 20
"""Numbers that `Windows` makes ready at a time: 8 MiB."""

MOST_PIECES = 256
"""Pieces of a run's history, at the most."""

HOPELESS = 50
"""Failures in a row after which a run gives up."""


COUNT_RAMP = 10
"""Steps over which γ climbs, at the most, for counts in one layer."""


@dataclass(frozen=True)
class TrainSpec:
    """How a model is trained. Only minibatch, samples and natural trigger a recompilation.

    The defaults are the quickest way that was found to the paper's quality: natural gradients, five
    times the paper's learning rate, and a fall of both rates at the end; `plan.training` has the
    steps and rows a step for a set's size.
    """

    steps: int = 5000
    learning_rate: float = 0.05
    natural_rate: float = 0.1
    """γ for the last layer's q(u); 0 leaves it to Adam."""
    ramp_steps: int = 100
    minibatch: int | None = 1000
    """Rows a step; None takes all of them."""
    samples: int = 1
    """Sample paths a row."""
    decay: bool = True
    """Whether both rates fall along a cosine towards the last step."""
    final_fraction: float = 0.01
    tolerance: float = 0.0
    """Stops once the bound gains less than this many nats a row over `patience` steps; 0 never."""
    patience: int = 500
    seconds: float | None = None
    """A limit on the time, compilation included."""
    seed: int = 0

    def __post_init__(self):
        minibatch = 1 if self.minibatch is None else self.minibatch
        if self.steps < 0 or min(self.samples, minibatch, self.patience) < 1:
            raise ValueError("Steps, samples, minibatch and patience must be positive numbers.")
        if not (self.learning_rate >= 0 and 0 <= self.natural_rate <= 1):
            raise ValueError("The learning rate must be at least 0, the natural rate from 0 to 1.")

    @property
    def natural(self) -> bool:
        return self.natural_rate > 0

    @property
    def rates(self) -> Rates:
        numbers = (
            self.learning_rate,
            self.natural_rate,
            self.ramp_steps,
            self.steps if self.decay else 0,
            self.final_fraction,
        )
        return Rates(*(leaf(x, np.float64) for x in numbers))

    def rates_for(self, model: DeepGP) -> Rates:
        """The rates as a model takes them.

        Counts in one layer have a short ramp: their likelihood is log-concave, so that γ need not
        climb for long, and a q(u) that stays behind at the prior, where the expected rate is
        e^(v/2) times too large, would let Adam flatten the kernel first.
        """
        if len(model.layers) > 1 or not isinstance(model.likelihood, Counts):
            return self.rates
        return self.rates._replace(ramp_steps=leaf(min(self.ramp_steps, COUNT_RAMP), np.float64))


PAPER = TrainSpec(steps=20_000, learning_rate=0.01, natural_rate=0.0, minibatch=10_000, decay=False)
"""The paper's own recipe: Adam at 0.01 for everything, 20,000 steps."""


class Rows(NamedTuple):
    """Training rows on the device, in one of few shapes.

    A minibatch is a window at an offset drawn at random over rows that were shuffled once, the
    first of them repeated behind the last: every row is as likely as any other, none comes twice,
    and nothing is gathered. Without minibatches, small sets are padded with rows of no weight.
    """

    X: jax.Array
    Y: jax.Array
    weight: jax.Array | None
    """A row's weight, and 0 for padding; None where minibatches are drawn."""
    n: jax.Array
    """How many different rows there are."""
    drawn_weight: jax.Array | None = None
    """A row's weight where minibatches are drawn; None is 1 for all."""

    @classmethod
    def create(
        cls,
        X: np.ndarray | Scaled,
        Y: np.ndarray | Scaled,
        minibatch: int | None,
        dtype: DTypeLike,
        seed: int,
        weights: np.ndarray | None = None,
    ) -> "Rows":
        """Rows X and Y; `weights` (N,), all positive, multiply their terms of the bound."""
        n = len(X)
        count = leaf(n, np.int64)
        if minibatch is not None and minibatch < n:
            order = np.random.default_rng(seed).permutation(n)
            order = np.concatenate([order, order[: minibatch - 1]])
            drawn = None if weights is None else leaf(weights[order], dtype)
            return cls(leaf(X[order], dtype), leaf(Y[order], dtype), None, count, drawn)
        rows = np.minimum(np.arange(padded_size(n)), n - 1)
        real = np.arange(len(rows)) < n
        weight = real if weights is None else weights[rows] * real
        return cls(leaf(X[rows], dtype), leaf(Y[rows], dtype), leaf(weight, dtype), count)

    def batch(self, key: jax.Array, size: int, step: jax.Array | None = None):
        """Rows of a step, with their weights."""
        if self.weight is not None:
            return self.X, self.Y, self.weight
        offset = window_offset(key, self.n)
        take = partial(lax.dynamic_slice_in_dim, start_index=offset, slice_size=size)
        weight = jnp.ones(size, self.X.dtype)
        return (
            take(self.X),
            take(self.Y),
            (weight if self.drawn_weight is None else take(self.drawn_weight)),
        )

    def prefetch(self, step: int, n_steps: int) -> "tuple[Rows, int]":
        """These rows, which serve any step."""
        return self, n_steps


class Queue(NamedTuple):
    """Minibatches on the device in the order in which steps take them: a part of a large set."""

    X: jax.Array
    """(K, B, D), as many batches as fit."""
    Y: jax.Array
    first: jax.Array
    """The step that takes the first of them."""
    n: jax.Array
    """How many different rows the whole set has."""

    @property
    def weight(self) -> None:
        """None, as for all minibatches."""

    def batch(self, key: jax.Array, size: int, step: jax.Array):
        """Rows of a step, each of weight 1."""
        take = partial(lax.dynamic_index_in_dim, index=step - self.first, keepdims=False)
        return take(self.X), take(self.Y), jnp.ones(self.X.shape[1], self.X.dtype)


class Windows:
    """The minibatches of `Rows`, the very same, taken from rows that stay where they are.

    For sets so large that copies in standard units and on the device are too much.
    """

    def __init__(
        self,
        X: np.ndarray | Scaled,
        Y: np.ndarray | Scaled,
        minibatch: int,
        dtype: DTypeLike,
        seed: int,
        devices: Devices | None = None,
    ):
        self.X, self.Y, self.minibatch, self.dtype = X, Y, minibatch, dtype
        self.devices = devices
        self.n = jnp.asarray(len(X), jnp.int64)
        self.length = max(1, min(LONGEST_CHUNK, QUEUED_CELLS // (minibatch * X.shape[1])))
        """Batches that are made ready together."""
        self._order = np.random.default_rng(seed).permutation(len(X))
        self._key = jax.random.key(seed)
        self._queue: tuple[int, Queue | Shares] | None = None
        """The batches made last, by their place: `functools.cache` would keep the rows alive."""

    def prefetch(self, step: int, n_steps: int) -> "tuple[Queue | Shares, int]":
        """The minibatches of the next steps, and for how many of n they last."""
        place, within = divmod(step, self.length)
        kept = self._queue
        if kept is None or kept[0] != place:
            kept = self._queue = (place, self._make_queue(place))
        return kept[1], min(n_steps, self.length - within)

    def _make_queue(self, place: int) -> "Queue | Shares":
        """The batches of the steps from place·K on, K of them."""
        K, B, N = self.length, self.minibatch, len(self._order)
        first = jnp.asarray(place * K, jnp.int64)
        offsets = np.asarray(_offsets(self._key, first + jnp.arange(K), self.n))

        def take(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            rows = self._order[(offsets[:, None] + places) % N].ravel()
            X, Y = (a[rows].reshape(K, len(places), -1) for a in (self.X, self.Y))
            return X, Y

        if self.devices is not None:
            return self.devices.share(take, B, place * K, N, self.dtype)
        X, Y = (jnp.asarray(a, self.dtype) for a in take(np.arange(B)))
        return Queue(X, Y, first, self.n)


class WholeSet(NamedTuple):
    """All rows in every step, split over devices: the steps of `Rows` without minibatches."""

    shares: Shares

    @classmethod
    def create(
        cls, X: np.ndarray | Scaled, Y: np.ndarray | Scaled, dtype: DTypeLike, devices: Devices
    ) -> "WholeSet":
        return cls(
            devices.share(lambda rows: (X[rows][None], Y[rows][None]), len(X), 0, len(X), dtype)
        )

    @property
    def n(self) -> jax.Array:
        return first_copies(self.shares.n)

    def prefetch(self, step: int, n_steps: int) -> tuple[Shares, int]:
        """These rows, which serve any step."""
        return self.shares, n_steps


class Supply(Protocol):
    """Where training takes its rows from: `Rows`, `Windows` or `WholeSet` in memory, or
    `rows.Stream` from a file."""

    @property
    def n(self) -> jax.Array | int: ...

    def prefetch(self, step: int, n_steps: int) -> tuple[Rows | Queue | Shares, int]:
        """Rows for the steps from `step` on, and for how many of n steps they last."""
        ...


def padded_size(n: int) -> int:
    """n rounded up to one of sixteen sizes between two powers of two; large sets as they are.

    Below 32 rows, where a few rows more cost nothing, to a multiple of eight.
    """
    if n > LARGEST_PADDED:
        return n
    step = 8 if n < 32 else 1 << (n.bit_length() - 5)
    return -(-n // step) * step


def step_keys(key: jax.Array, step: jax.Array) -> tuple[jax.Array, jax.Array]:
    """A step's own randomness: for its rows, and for its bound."""
    return jax.random.fold_in(key, 2 * step), jax.random.fold_in(key, 2 * step + 1)


def window_offset(key: jax.Array, n: jax.Array) -> jax.Array:
    """Where a minibatch begins among n rows."""
    return (jax.random.uniform(key, (), jnp.float64) * n).astype(jnp.int64)


@jax.jit
def _offsets(key: jax.Array, steps: jax.Array, n: jax.Array) -> jax.Array:
    """Where the windows of these steps begin, as `Rows.batch` draws them."""
    return jax.vmap(lambda step: window_offset(step_keys(key, step)[0], n))(steps)


def _steps(
    state, rows: Rows | Queue | Shares, n_data, n_steps, rates, *, minibatch, samples, natural
):
    L = len(state.model.layers)
    dtype = state.jitter.dtype
    record = Bound(jnp.zeros(LONGEST_CHUNK, dtype), jnp.zeros((LONGEST_CHUNK, L), dtype))
    theta, unravel = ravel_pytree(state.model)
    share = Share(AXIS, rows.size.astype(dtype)) if isinstance(rows, Shares) else None

    def body(i, carry):
        state, theta, record = carry
        state = replace(state, model=unravel(theta))
        key_rows, key_bound = step_keys(state.key, state.step)
        batch = rows.batch(key_rows, minibatch, state.step)
        state, parts = train_step(state, *batch, key_bound, n_data, rates, samples, natural, share)
        record = jax.tree.map(lambda r, p: r.at[i].set(p), record, parts)
        return replace(state, model=None), ravel_pytree(state.model)[0], record

    start = (replace(state, model=None), theta, record)
    state, theta, record = lax.fori_loop(0, n_steps, body, start)
    return replace(state, model=unravel(theta)), record


_chunk = partial(jax.jit, static_argnames=("minibatch", "samples", "natural"))(_steps)


@partial(jax.jit, static_argnames=("mesh", "samples", "natural"))
def _shared_chunk(state, rows: Shares, n_data, n_steps, rates, *, mesh: Mesh, samples, natural):
    """The same steps on every device of a mesh, each with its share of the rows."""
    every = PartitionSpec()
    steps = partial(_steps, minibatch=None, samples=samples, natural=natural)
    return jax.shard_map(
        steps,
        mesh=mesh,
        in_specs=(every, SPECS, every, every, every),
        out_specs=every,
        check_vma=False,
    )(state, rows, n_data, n_steps, rates)


def train_chunk(
    state: TrainState,
    rows: Rows | Queue | Shares,
    spec: TrainSpec,
    n_steps: int,
    n_data: int | None = None,
) -> tuple[TrainState, Bound]:
    """The next n steps in one call, and the bound at each of them as numpy.

    `n_data` is the size of the whole set where `rows` is only a part of it. One compilation serves
    any number of steps and any rates.
    """
    if not 0 <= n_steps <= LONGEST_CHUNK:
        raise ValueError(f"A chunk has 0 to {LONGEST_CHUNK} steps, not {n_steps}.")
    if state.model.hidden:
        check_hidden(state.model, rows)
    N = np.asarray(rows.n if n_data is None else n_data, state.jitter.dtype)
    options, rates = {"samples": spec.samples, "natural": spec.natural}, spec.rates_for(state.model)
    if isinstance(rows, Shares):
        everywhere = Devices(rows.mesh).replicate((state, N, np.int64(n_steps), rates))
        state, N, n, rates = everywhere
        with lost_processes():
            result = _shared_chunk(state, rows, N, n, rates, mesh=rows.mesh, **options)
            state, record = jax.block_until_ready(first_copies(result))
    else:
        minibatch = None if rows.weight is not None else spec.minibatch
        state, record = _chunk(
            state, rows, N, np.int64(n_steps), rates, minibatch=minibatch, **options
        )
    return state, jax.tree.map(lambda a: np.asarray(a)[:n_steps], record)


def check_hidden(model: DeepGP, rows: Rows | Queue | Shares) -> None:
    """Refuses rows that are not those of a mean-field model's q(h)."""
    n = len(model.hidden[0].mean)
    if rows.weight is None:
        raise ValueError(
            "A mean-field posterior trains on all rows at each step: set minibatch to None."
        )
    if int(rows.n) != n:
        raise ValueError(
            f"A mean-field posterior belongs to its own rows: this model has {n:,}, and "
            f"{int(rows.n):,} were given. Train it on those that it was fitted to."
        )


@dataclass
class Progress:
    """How far a run has come, and why it ended."""

    steps: int = 0
    seconds: float = 0.0
    fit: list[np.ndarray] = field(default_factory=list)
    kl: list[np.ndarray] = field(default_factory=list)
    failures: int = 0
    stopped: str = ""
    """Why the run ended, in words; empty while it goes on."""

    def add(self, record: Bound) -> None:
        """Adds a chunk; many pieces become one, so that the whole stays quick to put together."""
        for pieces, new in ((self.fit, record.fit), (self.kl, record.kl)):
            pieces.append(np.asarray(new))
            if len(pieces) > MOST_PIECES:
                pieces[:] = [np.concatenate(pieces)]

    @property
    def bound(self) -> np.ndarray:
        """The bound at every step."""
        if not self.fit:
            return np.zeros(0)
        return np.concatenate(self.fit) - np.concatenate(self.kl).sum(1)


def train(
    model: DeepGP,
    X: np.ndarray,
    Y: np.ndarray,
    spec: TrainSpec,
    on_chunk: Callable[[TrainState, Progress], bool | None] | None = None,
) -> tuple[TrainState, Progress]:
    """Trains a model on rows in standard units until it converges or meets a limit.

    `on_chunk` is called about twice a second, and ends the run by returning True.
    """
    state = create_state(model, jax.random.key(spec.seed))
    rows = Rows.create(X, Y, spec.minibatch, state.jitter.dtype, spec.seed)
    return resume(state, rows, spec, Progress(), on_chunk)


def resume(
    state: TrainState,
    rows: Supply,
    spec: TrainSpec,
    progress: Progress,
    on_chunk: Callable[[TrainState, Progress], bool | None] | None = None,
    n_data: int | None = None,
    devices: Devices | None = None,
) -> tuple[TrainState, Progress]:
    """Goes on from a state, up to `spec.steps` steps in all; `devices` are those of the rows."""
    start, before = time.perf_counter(), progress.seconds
    chunk = 10
    if devices is not None:
        state = devices.from_lead(state)
    while not progress.stopped:
        n_steps = min(chunk, spec.steps - progress.steps)
        if n_steps <= 0:
            progress.stopped = f"reached {spec.steps:,} step{'s' if spec.steps != 1 else ''}"
            break
        part, n_steps = rows.prefetch(int(state.step), n_steps)
        began = time.perf_counter()
        state, record = train_chunk(state, part, spec, n_steps, n_data)
        now = time.perf_counter()
        progress.steps += n_steps
        progress.seconds = before + now - start
        progress.add(record)
        progress.failures = int(state.failures)
        if n_steps == chunk:  # not cut short
            longer = round(n_steps * min(2.0, 0.5 / (now - began)))
            chunk = min(max(1, longer), LONGEST_CHUNK)
        if int(state.streak) >= HOPELESS:
            progress.stopped = (
                f"failed {HOPELESS} times in a row; the model is the one before the first of these"
            )
        elif converged(progress.bound, spec, n_data or int(rows.n)):
            progress.stopped = f"converged: under {spec.tolerance:g} nats a row gained lately"
        elif spec.seconds is not None and progress.seconds >= spec.seconds:
            progress.stopped = f"reached {spec.seconds:g} seconds"
        if on_chunk is not None and on_chunk(state, progress) and not progress.stopped:
            progress.stopped = "stopped by request"
        if devices is not None:  # clocks and signals are each process's own
            chunk, going = devices.least(chunk, not progress.stopped)
            if not (going or progress.stopped):
                progress.stopped = "stopped by request"
    return state, progress


def converged(bound: np.ndarray, spec: TrainSpec, n_data: int) -> bool:
    """Whether the mean bound of the last `patience` steps is hardly above that of those before."""
    n = spec.patience
    if spec.tolerance <= 0 or len(bound) < 2 * n:
        return False
    before, latest = (part[np.isfinite(part)] for part in (bound[-2 * n : -n], bound[-n:]))
    if not (len(before) and len(latest)):
        return False
    return bool(latest.mean() - before.mean() < spec.tolerance * n_data)
