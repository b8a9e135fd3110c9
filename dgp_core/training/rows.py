"""Where minibatches come from when the rows are more than the memory holds.

A set in parts is read once to measure it, and then again in every epoch: parts in a random order, a
few of them at a time shuffled row by row. Every row comes once an epoch, memory holds a few parts,
and which rows a step gets depends on nothing but the seed and the step, so that a run can go on
from anywhere. Where each part is a fair sample of the set (`tables.shuffled` makes them so), a
minibatch is as good as one that is drawn uniformly from all rows.
"""

import os
import secrets
import zipfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from dgp_core.gp.data import Moments, Scaler, Task
from dgp_core.gp.domain import Domain
from dgp_core.gp.model import SKETCH
from dgp_core.training.devices import Devices, Shares
from dgp_core.training.train import LONGEST_CHUNK, Queue

BUFFER_CELLS = 1 << 21
"""Numbers that are shuffled together, and made ready together: 16 MiB."""

HELD_OUT_ROWS = 10_000
"""Held-out rows that are kept to judge by, at the most; of more, so many by chance."""


class RowsError(ValueError):
    """Rows that cannot be trained on, in words for whoever brought them."""


class Parts(Protocol):
    """A set that is read a part at a time."""

    def __len__(self) -> int: ...

    def read(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (n, D) and outputs (n, P) of one part, always the same rows in the same order."""
        ...


@runtime_checkable
class RowParts(Parts, Protocol):
    """One of which single rows can be read, where `read` leaves none of them out."""

    @property
    def rows(self) -> int | None:
        """How many there are, those that `read` leaves out included; None where they cannot."""
        ...

    def count(self, part: int) -> int:
        """How many of them a part has."""
        ...

    def read_rows(self, part: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of a part at these places, which ascend."""
        ...


@dataclass(frozen=True, eq=False)
class Sample:
    """A uniform sample of a stream of rows: reservoir sampling by random keys."""

    size: int
    X: np.ndarray
    Y: np.ndarray
    numbers: np.ndarray
    """A uniform number a row, by which it is kept."""

    def add(self, X: np.ndarray, Y: np.ndarray, rng: np.random.Generator) -> "Sample":
        numbers = np.concatenate([self.numbers, rng.random(len(X))])
        keep = np.sort(np.argsort(numbers, kind="stable")[: self.size])
        X, Y = np.concatenate([self.X, X]), np.concatenate([self.Y, Y])
        return Sample(self.size, X[keep], Y[keep], numbers[keep])


def in_training(part: int, n: int, held_out: float, seed: int) -> np.ndarray:
    """Which of a part's n rows train; the others, about a share `held_out`, are held out."""
    if not held_out:
        return np.ones(n, bool)
    return np.random.default_rng([seed, part]).random(n) >= held_out


@dataclass(frozen=True, eq=False)
class Survey:
    """What one pass over a set tells."""

    sizes: tuple[int, ...]
    """Training rows of each part."""
    rows: int
    """Complete rows, those held out included."""
    scaler: Scaler
    start: Sample
    """Training rows to place the inducing points by, in the user's units."""
    held_out: Sample
    domain: Domain
    """Where the training rows lie."""

    def save(self, path: Path) -> None:
        """Keeps what the pass has told; a copy that cannot be written is done without."""
        arrays = {"sizes": np.array(self.sizes), "rows": np.array(self.rows)}
        for name in ("scaler", "start", "held_out", "domain"):
            part = getattr(self, name)
            arrays |= {f"{name}.{f.name}": getattr(part, f.name) for f in fields(part)}
        beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            with beside.open("xb") as file:
                np.savez(file, allow_pickle=False, **arrays)
            os.replace(beside, path)
        except OSError:
            beside.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> "Survey | None":
        """What `save` kept; None where there is nothing, or it is damaged."""
        try:
            with np.load(path, allow_pickle=False) as kept:

                def part(kind, name: str):
                    return kind(**{f.name: kept[f"{name}.{f.name}"] for f in fields(kind)})

                start, held_out = part(Sample, "start"), part(Sample, "held_out")
                return cls(
                    tuple(kept["sizes"].tolist()),
                    int(kept["rows"]),
                    part(Scaler, "scaler"),
                    replace(start, size=int(start.size)),
                    replace(held_out, size=int(held_out.size)),
                    part(Domain, "domain"),
                )
        except (OSError, ValueError, KeyError, zipfile.BadZipFile):
            return None


def survey(
    parts: Parts,
    task: Task,
    held_out: float = 0.0,
    seed: int = 0,
    on_part: Callable[[int], None] | None = None,
    exposed: np.ndarray | None = None,
) -> Survey:
    """Counts, measures and samples a set, part by part, in one pass.

    `on_part` is called with the number of parts that are done; `exposed` (D,) says which input is
    the exposure of counts, where one is.
    """
    sizes, rows = [], 0
    x = y = start = rest = None
    for part in range(len(parts)):
        X, Y = parts.read(part)
        train = in_training(part, len(X), held_out, seed)
        rng = np.random.default_rng([seed, part, 1])
        if x is None or y is None or start is None or rest is None:
            x, y = Moments.of(X[:0]), Moments.of(Y[:0])
            start = Sample(SKETCH, X[:0], Y[:0], np.zeros(0))
            rest = replace(start, size=HELD_OUT_ROWS)
        x, y = x + Moments.of(X[train]), y + Moments.of(Y[train])
        start = start.add(X[train], Y[train], rng)
        rest = rest.add(X[~train], Y[~train], rng)
        sizes.append(int(train.sum()))
        rows += len(X)
        if on_part:
            on_part(part + 1)
    if x is None or y is None or start is None or rest is None or x.n < 2:
        raise RowsError("Too few complete rows are left to learn from: bring at least 2.")
    scaler = Scaler.from_moments(x.mean, x.deviation, y.mean, y.deviation, task, exposed)
    domain = Domain.fit(start.X, scaler, x.low, x.high)
    return Survey(tuple(sizes), rows, scaler, start, rest, domain)


@dataclass(eq=False)
class Stream:
    """Minibatches of a set in parts, in standard units, in an order that the seed decides.

    The order of rows is one without an end, an epoch after the other, and step t takes the rows
    from t·B to (t+1)·B of it. The next batches are made ready while the last ones train. Of several
    processes, each makes ready the rows of its own devices alone.
    """

    parts: Parts
    survey: Survey
    minibatch: int
    seed: int
    held_out: float = 0.0
    split_seed: int = 0
    dtype: DTypeLike = jnp.float64
    buffer: int | None = None
    """Rows that are shuffled together; at least one part."""
    devices: Devices | None = None
    """Those that share a minibatch, where there are several."""
    _ready: dict[int, Future] = field(default_factory=dict, init=False)

    def __post_init__(self):
        if not 1 <= self.minibatch <= self.n:
            raise ValueError(f"A minibatch has 1 to {self.n:,} rows here, not {self.minibatch:,}.")
        scaler = self.survey.scaler
        self.buffer = self.buffer or max(1, BUFFER_CELLS // (len(scaler.kept) + len(scaler.y_mean)))
        most = min(LONGEST_CHUNK, -(-self.n // self.minibatch))
        self.length = int(np.clip(self.buffer // self.minibatch, 1, most))
        self._mine = None if self.devices is None else own_places(self.devices, self.minibatch)
        self._worker = ThreadPoolExecutor(1, "rows")
        self._block = lru_cache(1)(self._read_block)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_) -> None:
        self._worker.shutdown(cancel_futures=True)

    @property
    def n(self) -> int:
        """Training rows."""
        return sum(self.survey.sizes)

    def prefetch(self, step: int, n_steps: int) -> tuple[Queue | Shares, int]:
        """The minibatches of the next steps, and for how many of n they last."""
        place, within = divmod(step, self.length)
        for wanted in (place, place + 1):
            if wanted not in self._ready:
                self._ready[wanted] = self._worker.submit(self.queue, wanted)
        for old in [p for p in self._ready if not place <= p <= place + 1]:
            del self._ready[old]
        return self._ready[place].result(), min(n_steps, self.length - within)

    def queue(self, place: int) -> Queue | Shares:
        """The batches of the steps from place·K on, K of them."""
        K, B = self.length, self.minibatch
        X, Y = (a.reshape(K, -1, a.shape[1]) for a in self.rows(place * K * B, K * B))
        if self.devices is not None:
            mine = self._mine
            assert mine is not None

            def take(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
                at = np.searchsorted(mine, places)
                return X[:, at], Y[:, at]

            return self.devices.share(take, B, place * K, self.n, self.dtype)
        return Queue(
            jnp.asarray(X, self.dtype),
            jnp.asarray(Y, self.dtype),
            jnp.asarray(place * K, jnp.int64),
            jnp.asarray(self.n, jnp.int64),
        )

    def rows(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """This process's rows of so many of the endless order, from a place on."""
        found, N = [], self.n
        while count:
            epoch, within = divmod(start, N)
            blocks, ends = self._blocks(epoch)
            block = int(np.searchsorted(ends, within, "right"))
            begin = int(ends[block - 1]) if block else 0
            n = min(count, int(ends[block]) - within)
            at, X, Y = self._block(epoch, block, blocks[block], begin)
            first, last = np.searchsorted(at, [within - begin, within - begin + n])
            found.append((X[first:last], Y[first:last]))
            start, count = start + n, count - n
        X, Y = zip(*found, strict=True)
        return np.concatenate(X), np.concatenate(Y)

    def _blocks(self, epoch: int) -> tuple[list[tuple[int, ...]], np.ndarray]:
        """An epoch's parts in their order, in blocks that are shuffled together, and their ends."""
        sizes, blocks, ends, total = self.survey.sizes, [], [], 0
        assert self.buffer is not None
        current: list[int] = []
        held = 0
        order = np.random.default_rng([self.seed, epoch]).permutation(len(sizes)).tolist()
        for part in order:
            if current and held + sizes[part] > self.buffer:
                blocks.append(tuple(current))
                ends.append(total)
                current, held = [], 0
            current.append(part)
            held, total = held + sizes[part], total + sizes[part]
        blocks.append(tuple(current))
        ends.append(total)
        return blocks, np.array(ends)

    def _read_block(self, epoch: int, block: int, parts: tuple[int, ...], begin: int):
        """A block's training rows in standard units, shuffled: of those of this process, the
        places in the block, X and Y. The block begins at a place of its epoch."""
        scaler, sizes = self.survey.scaler, self.survey.sizes
        n = sum(sizes[part] for part in parts)
        order = np.random.default_rng([self.seed, epoch, block]).permutation(n)
        at = np.arange(n)
        if self._mine is not None:
            # Place t of the endless order is place t mod B of its minibatch.
            first = (epoch * self.n + begin) % self.minibatch
            own = np.zeros(self.minibatch, bool)
            own[self._mine] = True
            at = np.flatnonzero(own[(first + at) % self.minibatch])
        # Each part goes straight to its rows' places, so that few copies are held at once.
        row_of = np.full(n, -1)
        row_of[at] = np.arange(len(at))
        columns = int(scaler.kept.sum()), len(scaler.y_mean) + int(scaler.exposed.sum())
        X, Y = (np.empty((len(at), k)) for k in columns)
        for part in parts:
            here, order = np.split(order, [sizes[part]])
            to = row_of[here]
            x, y = self._training_rows(part, to >= 0)
            X[to[to >= 0]], Y[to[to >= 0]] = scaler.inputs(x), scaler.targets(x, y)
        return at, X, Y

    def _training_rows(self, part: int, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of a part's training rows that are this process's."""
        parts = self.parts
        if not mine.all() and isinstance(parts, RowParts) and parts.rows == self.survey.rows:
            return parts.read_rows(part, self._training_places(part, parts.count(part))[mine])
        x, y = parts.read(part)
        places = self._training_places(part, len(x))[mine]
        return x[places], y[places]

    def _training_places(self, part: int, n: int) -> np.ndarray:
        places = np.flatnonzero(in_training(part, n, self.held_out, self.split_seed))
        if len(places) != self.survey.sizes[part]:
            raise RowsError("The file has changed while the model trained: start again.")
        return places


def own_places(devices: Devices, batch: int) -> np.ndarray:
    """The places in a minibatch of the rows that this process's devices take, padding included."""
    return np.unique(np.minimum(devices.rows_of(batch), batch - 1))
