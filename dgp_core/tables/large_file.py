"""Files larger than memory: Parquet, folders of it, memory-mapped arrays; read a part at a time."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dgp_core.gp.data import Task
from dgp_core.tables.limits import TableError
from dgp_core.tables.parquet import from_arrow
from dgp_core.tables.parsing import known_words
from dgp_core.tables.plain import visible
from dgp_core.tables.reading import Reading
from dgp_core.tables.recipe import CLASS_LIMIT, ColumnRecipe, Recipe, Transform, some
from dgp_core.tables.table import Table, propose_task, read_table

STREAM_BYTES = 1 << 30
"""A Parquet file with more bytes of numbers than this is read in parts."""

PART_ROWS = 65_536
"""Rows of one part of an array."""

HEAD_ROWS = 10_000
"""Rows that columns are decided by."""


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
                    block = file.read_row_group(group, columns=list(names), use_threads=False)
            except (pa.ArrowException, OSError):
                raise TableError(f"{visible(path.name)} is damaged: write it again.") from None
            cells = {name: from_arrow(block.column(name))[0] for name in names}
            rows = block.num_rows
        return Table(self.name, (), cells, rows, rows, Reading("parquet"), ())

    def head(self) -> Table:
        """The first rows, with a decision for each column, as for a small file."""
        if self.array is not None:
            first = {n: pa.array(self.array[:HEAD_ROWS, i]) for i, n in enumerate(self.columns)}
            table = pa.table(first)
        else:
            path, group = self.groups[0]
            with parquet.ParquetFile(path) as file:
                batch = next(file.iter_batches(HEAD_ROWS, [group], list(self.columns)))
                table = pa.Table.from_batches([batch])
        content = pa.BufferOutputStream()
        parquet.write_table(table, content)
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
    sources, messages = [], []
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
            messages.append(f"“{visible(name)}” is dropped: {column.reason}")
        else:
            messages.append(
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
            if np.isnan(ColumnRecipe(name, "number").codes(head.cells[name], False)[0]).all():
                raise TableError(
                    f"“{visible(name)}” holds no numbers, so {task} cannot learn it: choose a task "
                    "with classes, or another target."
                )
        goals = tuple(ColumnRecipe(name, "number") for name in targets)
    return Recipe(tuple(sources), goals, task, (transform,) * len(goals), "drop"), messages


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
