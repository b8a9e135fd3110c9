"""Where minibatches come from when the rows are more than the memory holds.

A set in parts (arrays, memory-mapped ones, the row groups of Parquet files) is read once to measure
it, and then again in every epoch: parts in a random order, a few of them at a time shuffled row by
row. Every row comes once an epoch, memory holds a few parts, and which rows a step gets depends on
nothing but the seed and the step, so that a run can go on from anywhere.
"""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Protocol

import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jax.typing import DTypeLike
from pyarrow import parquet

from dgp_core.data import Moments, Scaler, Task
from dgp_core.model import SKETCH
from dgp_core.parsing import known_words
from dgp_core.plain import visible
from dgp_core.reading import TableError, from_arrow
from dgp_core.recipe import CLASS_LIMIT, ColumnRecipe, Recipe, Transform, some
from dgp_core.table import Table, propose_task, read_table
from dgp_core.train import LONGEST_CHUNK, Queue

STREAM_BYTES = 1 << 30
"""A Parquet file with more bytes of numbers than this is read in parts."""

BUFFER_CELLS = 1 << 21
"""Numbers that are shuffled together: 16 MiB."""

PART_ROWS = 65_536
"""Rows of one part of an array."""

HEAD_ROWS = 10_000
"""Rows that columns are decided by."""

HELD_OUT_ROWS = 10_000
"""Held-out rows that are kept to judge by, at the most; of more, so many by chance."""


class Parts(Protocol):
    """A set that is read a part at a time."""

    def __len__(self) -> int: ...

    def read(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs (n, D) and outputs (n, P) of one part, always the same rows in the same order."""
        ...


@dataclass(frozen=True, eq=False)
class ArrayParts:
    """Arrays, memory-mapped or not, in parts of so many rows."""

    X: np.ndarray
    Y: np.ndarray
    rows: int = PART_ROWS

    def __len__(self) -> int:
        return -(-len(self.X) // self.rows)

    def read(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        here = slice(part * self.rows, (part + 1) * self.rows)
        return np.array(self.X[here], np.float64), np.array(self.Y[here], np.float64)


@dataclass(frozen=True, eq=False)
class TableParts:
    """The complete rows of a large file, made into numbers as a recipe says."""

    file: "LargeFile"
    recipe: Recipe

    def __len__(self) -> int:
        return len(self.file)

    def read(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        columns = [c.column for c in (*self.recipe.inputs_from, *self.recipe.targets)]
        X, Y, _ = self.recipe.complete(self.file.read(part, columns))
        finite = np.isfinite(X).all(1) & np.isfinite(Y).all(1)
        return (X, Y) if finite.all() else (X[finite], Y[finite])


class LargeFile:
    """A Parquet file, a folder of such files or a .npy file of rows, as one table after another."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.name = visible(self.path.name, 200)
        self.array: np.ndarray | None = None
        self.groups: list[tuple[Path, int]] = []
        """Each part's file, and which of its row groups it is."""
        self.rows = 0
        try:
            if self.path.suffix == ".npy":
                self._open_array()
            else:
                self._open_parquet()
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else "it is damaged"
            raise TableError(f"{self.name} cannot be opened: {why}. Check its path.") from None
        except (pa.ArrowException, ValueError) as error:
            if isinstance(error, TableError):
                raise
            raise TableError(f"{self.name} is damaged or cut short: write it again.") from None
        if not self.rows:
            raise TableError(f"{self.name} holds no rows: bring one with at least one.")

    def _open_array(self) -> None:
        array = np.load(self.path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise TableError(
                f"{self.name} must hold one table of numbers, rows by columns; it holds "
                f"{array.dtype} of shape {array.shape}."
            )
        self.array, self.rows = array, len(array)
        self.columns = tuple(f"column {i + 1}" for i in range(array.shape[1]))

    def _open_parquet(self) -> None:
        folder = self.path.is_dir()
        files = sorted(self.path.rglob("*.parquet")) if folder else [self.path]
        if not files:
            raise TableError(f"The folder {self.name} holds no file *.parquet: choose another.")
        self.columns = ()
        for path in files:
            with parquet.ParquetFile(path) as file:
                names = tuple(file.schema_arrow.names)
                if not self.columns:
                    self.columns = names
                if absent := set(self.columns) - set(names):
                    raise TableError(
                        f"{visible(path.name)} lacks {some(sorted(absent))}, which "
                        f"{visible(files[0].name)} has: the files of a folder need the same "
                        "columns."
                    )
                about = file.metadata
                sizes = [about.row_group(g).num_rows for g in range(about.num_row_groups)]
                self.groups += [(path, g) for g, n in enumerate(sizes) if n]
                self.rows += sum(sizes)

    def __len__(self) -> int:
        return len(self.groups) if self.array is None else -(-self.rows // PART_ROWS)

    @property
    def bytes(self) -> int:
        """What its cells take as numbers."""
        return 8 * self.rows * len(self.columns)

    def read(self, part: int, columns: Sequence[str] | None = None) -> Table:
        """One part, of these columns or of all, without any decision about them."""
        names = self.columns if columns is None else columns
        if absent := [name for name in names if name not in self.columns]:
            raise TableError(
                f"{self.name} lacks {some(absent)}; it has {some(self.columns, 20)}. "
                "Add or rename the columns."
            )
        if self.array is not None:
            block = self.array[part * PART_ROWS : (part + 1) * PART_ROWS]
            places = [self.columns.index(name) for name in names]
            cells = {
                n: np.array(block[:, i], np.float64) for n, i in zip(names, places, strict=True)
            }
            rows = len(block)
        else:
            path, group = self.groups[part]
            try:
                with parquet.ParquetFile(path) as file:
                    found = file.read_row_group(group, columns=list(names), use_threads=False)
            except (pa.ArrowException, OSError):
                raise TableError(f"{visible(path.name)} is damaged: write it again.") from None
            cells = {name: from_arrow(found.column(name))[0] for name in names}
            rows = found.num_rows
        return Table(self.name, (), cells, rows, rows, False, ())

    def head(self) -> Table:
        """The first rows, with a decision for each column, as for a small file."""
        if self.array is not None:
            first = {n: pa.array(self.array[:HEAD_ROWS, i]) for i, n in enumerate(self.columns)}
            found = pa.table(first)
        else:
            path, group = self.groups[0]
            with parquet.ParquetFile(path) as file:
                batch = next(file.iter_batches(HEAD_ROWS, [group], list(self.columns)))
                found = pa.Table.from_batches([batch])
        content = pa.BufferOutputStream()
        parquet.write_table(found, content)
        return read_table(content.getvalue().to_pybytes(), self.name, None)


def opens_in_parts(path: str | os.PathLike[str], most: int = STREAM_BYTES) -> bool:
    """Whether a path is a folder, a .npy file, or a Parquet file of more bytes of numbers."""
    path = Path(path)
    if path.is_dir() or path.suffix == ".npy":
        return True
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PAR1":
                return False
        with parquet.ParquetFile(path) as opened:
            return 8 * opened.metadata.num_rows * opened.metadata.num_columns > most
    except (OSError, pa.ArrowException):
        return False


def recipe_for(
    file: LargeFile,
    head: Table,
    targets: Sequence[str],
    task: Task | None = None,
    transform: Transform = "none",
) -> tuple[Recipe, list[str]]:
    """How a large file becomes numbers, and what there is to say about it.

    Inputs are numbers and yes or no, as the head's columns are decided; rows with a missing cell
    are left out. Categories and dates need a file that fits in memory.
    """
    kinds = {column.name: column for column in head.columns}
    if task is None:
        task = propose_task(head, targets[0]).value if len(targets) == 1 else "regression"
    assert task is not None
    sources, said = [], []
    for name, column in kinds.items():
        cells = head.cells[name]
        numeric = isinstance(cells, np.ndarray) and cells.dtype.kind == "f"
        # A number that does not vary in the first rows may do so later.
        constant = numeric and np.nanmin(cells, initial=np.inf) == np.nanmax(cells, initial=-np.inf)
        chosen = column.reason == "You chose it."
        if name in targets:
            continue
        if column.kind == "boolean" and not numeric:
            sources.append(ColumnRecipe(name, "boolean"))
        elif numeric and (column.kind != "dropped" or (constant and not chosen)):
            sources.append(ColumnRecipe(name, "number"))
        elif column.kind == "dropped":
            said.append(f"“{visible(name)}” is dropped: {column.reason}")
        else:
            said.append(
                f"“{visible(name)}” is dropped: a {column.kind} is learnt from only where the "
                "whole file fits in memory."
            )
    if not sources:
        raise TableError(
            "No column of numbers is left to learn from, and a file that is read in parts offers "
            "no others: write categories as numbers first."
        )
    if task in ("binary", "multiclass"):
        if len(targets) > 1:
            raise TableError("Classes can be learnt for one target at a time: choose one.")
        goals = (ColumnRecipe(targets[0], "category", _classes(file, targets[0], task)),)
    else:
        for name in targets:
            if np.isnan(ColumnRecipe(name, "number").codes(head.cells[name], False)).all():
                raise TableError(
                    f"“{visible(name)}” holds no numbers, so {task} cannot learn it: choose a task "
                    "with classes, or another target."
                )
        goals = tuple(ColumnRecipe(name, "number") for name in targets)
    return Recipe(tuple(sources), goals, task, (transform,) * len(goals), "drop"), said


def _classes(file: LargeFile, target: str, task: Task) -> tuple[str, ...]:
    """The labels of a column in all parts of a file."""
    most = 2 if task == "binary" else CLASS_LIMIT
    held: dict[str, int] = {}
    for part in range(len(file)):
        held |= known_words(file.read(part, [target]).cells[target])
        if len(held) > most:
            break
    if not 2 <= len(held) <= most:
        raise TableError(
            f"“{visible(target)}” has {'over ' if len(held) > most else ''}"
            f"{min(len(held), most):,} different values, and {task} takes "
            f"{'two' if most == 2 else f'2 to {most}'}: choose another task or target."
        )
    ordered = pa.array(list(held), pa.string()).dictionary_encode()
    return tuple(known_words(ordered))


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows chosen by chance from a stream, every row as likely: those of the smallest numbers."""

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
    digest: str
    """Of all complete rows."""


def survey(parts: Parts, task: Task, held_out: float = 0.0, seed: int = 0) -> Survey:
    """Counts, measures and samples a set, part by part, in one pass."""
    sizes, rows, hashed = [], 0, hashlib.blake2b(digest_size=16)
    x = y = start = rest = None
    for part in range(len(parts)):
        X, Y = parts.read(part)
        hashed.update(np.ascontiguousarray(X).view(np.uint8).data)
        hashed.update(np.ascontiguousarray(Y).view(np.uint8).data)
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
    if x is None or y is None or start is None or rest is None or x.n < 2:
        raise TableError("Too few complete rows are left to learn from: bring at least 2.")
    scaler = Scaler.from_moments(x.mean, x.deviation, y.mean, y.deviation, task)
    return Survey(tuple(sizes), rows, scaler, start, rest, hashed.hexdigest())


@dataclass(eq=False)
class Stream:
    """Minibatches of a set in parts, in standard units, in an order that the seed decides.

    The order of rows is one without an end, an epoch after the other, and step t takes the rows
    from t·B to (t+1)·B of it. The next batches are made ready while the last ones train.
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
    _ready: dict[int, Future] = field(default_factory=dict, init=False)

    def __post_init__(self):
        if not 1 <= self.minibatch <= self.n:
            raise ValueError(f"A minibatch has 1 to {self.n:,} rows here, not {self.minibatch:,}.")
        scaler = self.survey.scaler
        self.buffer = self.buffer or max(1, BUFFER_CELLS // (len(scaler.kept) + len(scaler.y_mean)))
        most = min(LONGEST_CHUNK, -(-self.n // self.minibatch))
        self.length = int(np.clip(self.buffer // (4 * self.minibatch), 1, most))
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

    def ahead(self, step: int, n_steps: int) -> tuple[Queue, int]:
        """The minibatches of the next steps, and for how many of n they last."""
        place, within = divmod(step, self.length)
        for wanted in (place, place + 1):
            if wanted not in self._ready:
                self._ready[wanted] = self._worker.submit(self.queue, wanted)
        for old in [p for p in self._ready if not place <= p <= place + 1]:
            del self._ready[old]
        return self._ready[place].result(), min(n_steps, self.length - within)

    def queue(self, place: int) -> Queue:
        """The batches of the steps from place·K on, K of them."""
        K, B = self.length, self.minibatch
        X, Y = self.rows(place * K * B, K * B)
        return Queue(
            jnp.asarray(X.reshape(K, B, -1), self.dtype),
            jnp.asarray(Y.reshape(K, B, -1), self.dtype),
            jnp.asarray(place * K, jnp.int64),
            jnp.asarray(self.n, jnp.int64),
        )

    def rows(self, start: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """So many rows of the endless order, from a place on."""
        found, N = [], self.n
        while count:
            epoch, within = divmod(start, N)
            blocks, ends = self._blocks(epoch)
            block = int(np.searchsorted(ends, within, "right"))
            first = within - (ends[block - 1] if block else 0)
            n = min(count, int(ends[block]) - within)
            X, Y = self._block(epoch, block, blocks[block])
            found.append((X[first : first + n], Y[first : first + n]))
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

    def _read_block(self, epoch: int, block: int, parts: tuple[int, ...]):
        """A block's training rows in standard units, shuffled."""
        scaler, sizes = self.survey.scaler, self.survey.sizes
        n = sum(sizes[part] for part in parts)
        # Each part goes straight to its rows' places, so that few copies are held at once.
        places = np.random.default_rng([self.seed, epoch, block]).permutation(n)
        X, Y = np.empty((n, int(scaler.kept.sum()))), np.empty((n, len(scaler.y_mean)))
        for part in parts:
            x, y = self.parts.read(part)
            train = in_training(part, len(x), self.held_out, self.split_seed)
            if int(train.sum()) != sizes[part]:
                raise TableError("The file has changed while the model trained: start again.")
            here, places = np.split(places, [sizes[part]])
            X[here], Y[here] = scaler.inputs(x[train]), scaler.outputs(y[train])
        return X, Y
