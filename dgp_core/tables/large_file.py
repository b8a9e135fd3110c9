"""Files larger than memory, by one door: a file, a folder or a glob of Parquet, Arrow, CSV or TSV,
or a memory-mapped array; read a part at a time."""

import glob
import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import ipc, parquet

from dgp_core.gp.data import Task
from dgp_core.tables.large_text import HEAD_ROWS, LargeText, demand_same_columns
from dgp_core.tables.limits import TableError
from dgp_core.tables.parquet import from_arrow
from dgp_core.tables.parsing import FALSE, TRUE
from dgp_core.tables.plain import visible
from dgp_core.tables.reading import Reading
from dgp_core.tables.recipe import (
    CLASS_LIMIT,
    LEVEL_LIMIT,
    UNITS,
    ColumnRecipe,
    Missing,
    Recipe,
    Transform,
    date_recipe,
    most_frequent,
)
from dgp_core.tables.shuffled import Facts, Shuffled, decided, demand_columns
from dgp_core.tables.table import Table, propose_task

STREAM_BYTES = 1 << 30
"""A Parquet file with more bytes of numbers than this, or a text with more bytes, is read in
parts."""

PART_ROWS = 65_536
"""Rows of one part of an array."""

PACKED = 8
"""How many times its size a gzipped text may well be."""

SHUFFLED = ".shuffled"
"""The end of the name of a folder with rows in random order."""

_ARROW = (".arrow", ".feather", ".ipc")
_TEXT = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".data")


@dataclass(frozen=True, eq=False)
class TableParts:
    """The complete rows of a large file, made into numbers as a recipe says."""

    file: "Shuffled | LargeFile"
    recipe: Recipe

    def __len__(self) -> int:
        return len(self.file)

    @cached_property
    def _columns(self) -> list[str]:
        return [c.column for c in (*self.recipe.inputs_from, *self.recipe.targets)]

    def read(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        return complete_rows(self.recipe, self.file.read(part, self._columns))

    @property
    def rows(self) -> int | None:
        """All rows of the file, incomplete ones too; None where rows cannot be read singly."""
        return self.file.rows if isinstance(self.file, Shuffled) else None

    def count(self, part: int) -> int:
        """How many of them a part has."""
        assert isinstance(self.file, Shuffled)
        return self.file.count(part)

    def read_rows(self, part: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of a part at these places, where all rows of the file are complete."""
        assert isinstance(self.file, Shuffled)
        return complete_rows(self.recipe, self.file.read(part, self._columns, places))


def complete_rows(recipe: Recipe, table: Table) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and outputs of the rows of a table that have all of them."""
    X, Y, _ = recipe.complete(table)
    finite = np.isfinite(X).all(1) & np.isfinite(Y).all(1)
    return (X, Y) if finite.all() else (X[finite], Y[finite])


class LargeFile:
    """Parquet or Arrow files or a .npy file of rows, as one table after another."""

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path)
        self.name = visible(self.path.name, 200)
        self.files: list[Path] = []
        self.array: np.ndarray | None = None
        self.groups: list[tuple[Path, int]] = []
        """Each part's file, and which of its row groups or record batches it is."""
        self.rows = 0
        self.notes: list[str] = []
        try:
            self.files = files_of(path)
            if self.files[0].suffix == ".npy":
                self._open_array()
            else:
                self._open_tables()
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
        if len(self.files) > 1:
            raise TableError(f"{self.name} holds several .npy files: name one of them.")
        array = np.load(self.files[0], mmap_mode="r", allow_pickle=False)
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise TableError(
                f"{self.name} must hold one table of numbers, rows by columns; it holds "
                f"{array.dtype} of shape {array.shape}."
            )
        self.array, self.rows = array, len(array)
        self.columns = tuple(f"column {i + 1}" for i in range(array.shape[1]))

    def _open_tables(self) -> None:
        self.columns = ()
        for path in self.files:
            with closing(_opened(path)) as file:
                names = tuple(file.names)
                if not self.columns:
                    self.columns = names
                demand_same_columns(path, names, self.files[0], self.columns)
                sizes = file.sizes
                self.groups += [(path, g) for g, n in enumerate(sizes) if n]
                self.rows += sum(sizes)

    def __len__(self) -> int:
        return len(self.groups) if self.array is None else -(-self.rows // PART_ROWS)

    def read(self, part: int, columns: Sequence[str] | None = None) -> Table:
        """One part, of these columns or of all, without any decision about them."""
        names = self.columns if columns is None else columns
        demand_columns(self, names)
        if self.array is not None:
            block = self.array[part * PART_ROWS : (part + 1) * PART_ROWS]
            cells = {n: np.array(block[:, self.columns.index(n)], np.float64) for n in names}
            rows = len(block)
        else:
            path, group = self.groups[part]
            try:
                with closing(_opened(path)) as file:
                    block = file.read(group, list(names))
            except (pa.ArrowException, OSError):
                raise TableError(f"{visible(path.name)} is damaged: write it again.") from None
            cells = {name: from_arrow(block.column(name))[0] for name in names}
            rows = block.num_rows
        return Table(self.name, (), cells, rows, rows, Reading("parquet"), ())

    def tables(self, words: frozenset[str] = frozenset()) -> Iterator[Table]:
        """All rows in their order."""
        return (self.read(part) for part in range(len(self)))

    def head(self) -> Table:
        """The first rows, with a decision for each column, as for a small file."""
        if self.array is not None:
            first = {n: pa.array(self.array[:HEAD_ROWS, i]) for i, n in enumerate(self.columns)}
            return decided(pa.table(first), self.name)
        path, group = self.groups[0]
        with closing(_opened(path)) as file:
            return decided(file.first(group, HEAD_ROWS, list(self.columns)), self.name)


class _ParquetFile:
    """The row groups of a Parquet file."""

    def __init__(self, path: Path):
        self.file = parquet.ParquetFile(path)
        about = self.file.metadata
        self.names = self.file.schema_arrow.names
        self.sizes = [about.row_group(g).num_rows for g in range(about.num_row_groups)]

    def close(self) -> None:
        self.file.close()

    def read(self, group: int, names: list[str]) -> pa.Table:
        return self.file.read_row_group(group, columns=names, use_threads=False)

    def first(self, group: int, rows: int, names: list[str]) -> pa.Table:
        return pa.Table.from_batches([next(self.file.iter_batches(rows, [group], names))])


class _ArrowFile:
    """The record batches of an Arrow file."""

    def __init__(self, path: Path):
        self.map = pa.memory_map(str(path))
        self.file = ipc.open_file(self.map)
        self.names = self.file.schema.names
        n = self.file.num_record_batches
        self.sizes = [self.file.get_batch(i).num_rows for i in range(n)]

    def close(self) -> None:
        self.map.close()

    def read(self, group: int, names: list[str]) -> pa.Table:
        return pa.Table.from_batches([self.file.get_batch(group)]).select(names)

    def first(self, group: int, rows: int, names: list[str]) -> pa.Table:
        return self.read(group, names).slice(0, rows)


def _opened(path: Path) -> _ParquetFile | _ArrowFile:
    with path.open("rb") as file:
        is_arrow = file.read(6) == b"ARROW1"
    return _ArrowFile(path) if is_arrow else _ParquetFile(path)


def _is_glob(path: str | os.PathLike[str]) -> bool:
    return glob.has_magic(os.fspath(path)) and not Path(path).exists()


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """The files of a path: itself, or those of a folder or a glob, which are all of one kind."""
    if Path(path).is_dir():
        found = [f for f in sorted(Path(path).rglob("*")) if f.is_file() and _kind(f)]
        found = [f for f in found if not any(_aside(part) for part in f.relative_to(path).parts)]
    elif _is_glob(path):
        found = [Path(f) for f in sorted(glob.glob(os.fspath(path), recursive=True))]
        found = [f for f in found if f.is_file() and _kind(f)]
    else:
        return [Path(path)]
    name = visible(Path(path).name)
    if not found:
        raise TableError(
            f"{name} holds no file *.parquet, *.arrow, *.csv, *.tsv or *.npy: choose another."
        )
    if len(kinds := sorted({_kind(f) for f in found})) > 1:
        raise TableError(
            f"{name} holds files of {' and '.join(kinds)}: bring those of one kind, such as "
            "'folder/*.csv'."
        )
    return found


def _aside(name: str) -> bool:
    return name.startswith(".") or name.endswith(SHUFFLED)


def _kind(path: Path) -> str:
    name = path.name.lower()
    if name.endswith(_TEXT):
        return "text"
    if name.endswith((".parquet", *_ARROW)):
        return "tables"
    return "arrays" if name.endswith(".npy") else ""


def open_large(path: str | os.PathLike[str], **given: Any) -> LargeFile | LargeText:
    """A file, folder or glob that is read from the first row to the last; `given` says how a text
    is to be read."""
    files = files_of(path)
    try:
        with files[0].open("rb") as file:
            start = file.read(6)
    except OSError:
        return LargeFile(path)  # which says why not
    if start.startswith((b"PAR1", b"ARROW1", b"\x93NUMPY")) or _kind(files[0]) in (
        "tables",
        "arrays",
    ):
        return LargeFile(path)
    return LargeText(files, Path(path).name, **given)


def shuffled_beside(path: str | os.PathLike[str]) -> Path:
    """Where the rows of a file in random order are kept unless a folder is named."""
    if not _is_glob(path):
        return Path(path).with_name(Path(path).name + SHUFFLED)
    code = hashlib.blake2b(os.fspath(path).encode(), digest_size=6).hexdigest()
    return files_of(path)[0].parent / f"rows-{code}{SHUFFLED}"


def opens_in_parts(path: str | os.PathLike[str], most: int = STREAM_BYTES) -> bool:
    """Whether a path is a folder, a glob, a .npy or Arrow file, a Parquet file of more bytes of
    numbers, or a text of more bytes."""
    path = Path(path)
    if path.is_dir() or path.suffix == ".npy" or _is_glob(path):
        return True
    try:
        with path.open("rb") as file:
            start, size = file.read(6), path.stat().st_size
        if start == b"ARROW1":
            return True
        if start[:4] == b"PAR1":
            with parquet.ParquetFile(path) as opened:
                return 8 * opened.metadata.num_rows * opened.metadata.num_columns > most
        if start[:2] == b"\x1f\x8b":
            size *= PACKED
        return start[:4] not in (b"PK\x03\x04", b"\xd0\xcf\x11\xe0") and size > most
    except (OSError, pa.ArrowException):
        return False


def recipe_for(
    head: Table,
    targets: Sequence[str],
    task: Task | None = None,
    transform: Transform = "none",
    missing: Missing = "drop",
    facts: dict[str, Facts] | None = None,
    reading: dict[str, Any] | None = None,
    exposure: str = "",
) -> tuple[Recipe, list[str]]:
    """How a large file becomes numbers, and what there is to say about it.

    Columns are decided, and medians taken, by a sample of the rows, as those of a small file;
    `facts` of the whole file tell the levels of categories and classes, where dates begin and
    whether a cell is missing anywhere.
    """
    if task is None:
        task = propose_task(head, targets[0]).value if len(targets) == 1 else "regression"
    assert task is not None
    facts = facts or {}
    prepared = head.to_dataset(targets, task, missing, transform, exposure=exposure)
    recipe, messages = prepared.recipe, list(prepared.report[1:])
    sources = tuple(
        _of_whole(c, facts[c.column], missing == "fill" and c.column != exposure)
        if c.column in facts
        else c
        for c in recipe.inputs_from
    )
    goals = recipe.targets
    if recipe.classes and targets[0] in facts:
        goals = (replace(goals[0], levels=_classes(targets[0], facts[targets[0]], task)),)
    goals = tuple(
        _of_whole(c, facts[c.column], False) if c.kind == "date" and c.column in facts else c
        for c in goals
    )
    recipe = replace(recipe, inputs_from=sources, targets=goals, reading=reading or {})
    return recipe, messages


def _of_whole(column: ColumnRecipe, facts: Facts, fill: bool) -> ColumnRecipe:
    """A column's recipe with what the whole file tells of it."""
    column = replace(column, indicator=fill and (facts.missing > 0 or column.indicator))
    if column.kind == "date" and facts.kind == "date":
        origin, unit = date_recipe(facts.low, facts.high)
        if (origin, unit) == (column.origin, column.unit):
            return column
        between = np.datetime64(column.origin, "us") - np.datetime64(origin, "us")
        since = column.median * UNITS[column.unit] + between.astype(np.int64)
        return replace(column, origin=origin, unit=unit, median=float(since / UNITS[unit]))
    if facts.levels is None:
        return column
    levels = facts.levels
    if column.kind == "boolean" and not {w.lower() for w in levels} <= TRUE | FALSE:
        column = replace(column, kind="category")
    if column.kind != "category":
        return column
    if len(levels) > LEVEL_LIMIT:
        return replace(column, levels=most_frequent(levels), other=True)
    return replace(column, levels=tuple(levels), other=False)


def _classes(target: str, facts: Facts, task: Task) -> tuple[str, ...]:
    """The labels of a column in the whole of a file."""
    most = 2 if task == "binary" else CLASS_LIMIT
    n = most + 1 if facts.levels is None else len(facts.levels)
    if facts.levels is None or not 2 <= n <= most:
        raise TableError(
            f"“{visible(target)}” has {'over ' if n > most else ''}"
            f"{min(n, most):,} different values, and {task} takes "
            f"{'two' if most == 2 else f'2 to {most}'}: choose another task or target."
        )
    return tuple(facts.levels)
