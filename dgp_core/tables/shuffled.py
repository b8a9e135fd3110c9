"""The rows of a file in random order on disk, so that a part of them is a fair sample of all.

The file is read once, in its own order. As many rows as a buffer holds, a run, are shuffled and
written in G pieces; part g of the set is piece g of every run. A piece is a uniform sample of its
run, so a part is a sample of the whole file, stratified by place: whatever the file's order, its
rows are as good as uniformly drawn ones. Runs are written one behind the other, without a sort, and
the file is not held twice in memory or on disk.
"""

import errno
import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dgp_core.gp.data import counted
from dgp_core.tables.limits import TableError
from dgp_core.tables.parsing import (
    Cells,
    as_dates,
    as_numbers,
    as_words,
    in_order,
    known_words,
    weights,
)
from dgp_core.tables.plain import visible
from dgp_core.tables.reading import Reading
from dgp_core.tables.recipe import some
from dgp_core.tables.table import MOST_LEVELS, MOSTLY, Decision, Table, read_table

RUN_CELLS = 1 << 24
"""Cells that are shuffled together: 128 MiB as numbers."""

PART_CELLS = 1 << 21
"""Cells of a part, at the most …"""

PART_ROWS = 1 << 17
"""… and its rows."""

SAMPLE_ROWS = 100_000
"""Rows, a uniform sample of the file, that columns are decided by and medians taken from."""

MOST_WORDS = 100_000
"""A column with more different words than this is not kept: its dictionary is held in memory."""

SPARE = 1.25
"""Room asked for on the disk, as a multiple of what the first rows need."""

STALE_SECONDS = 600.0
"""Age of an unfinished folder after which nobody is writing it any more."""

SEED = 0
"""Of the shuffle: the same file gives the same parts on every machine."""

Stored = Literal["number", "date", "words"]
Progress = Callable[[int], None]
"""Called with the number of rows that are done."""

_MISSING_DATE = np.iinfo(np.int64).min
_ABOUT, _ROWS = "about.json", "rows.bin"
_VERSION = 1


class RowSource(Protocol):
    """A file, or several, that can be read from the first row to the last."""

    name: str
    files: list[Path]
    columns: tuple[str, ...]
    notes: list[str]
    """What had to be put right, known once all rows are read."""

    @property
    def rows(self) -> int:
        """How many there are, or an estimate."""
        ...

    def head(self) -> Table:
        """The first rows, with a decision for each column."""
        ...

    def tables(self, words: frozenset[str] = frozenset()) -> Iterator[Table]:
        """All rows in the file's order; `words` names columns that stay text."""
        ...


@dataclass
class Facts:
    """What the whole of a column tells."""

    kind: Stored
    day_first: bool | None = None
    missing: int = 0
    stray: int = 0
    """Cells that are no number or date, and count as missing."""
    low: float = np.inf
    """Of numbers; of dates in microseconds since 1970."""
    high: float = -np.inf
    levels: dict[str, int] | None = None
    """Its different values with their counts; None where there are too many for a category."""
    dropped: bool = False
    """Whether it has more different words than are kept."""


@dataclass(frozen=True)
class Packed:
    """How a run's cells of one column are written."""

    dtype: str
    base: int = 0
    step: int = 0
    """Where positive, whole numbers base + (q − 1)·step, and q = 0 is missing; else floats."""


def pack(x: np.ndarray) -> tuple[Packed, np.ndarray]:
    """Cells in the smallest type that holds every one of them exactly: float64 (NaN is missing) or
    int64 (the least number is missing)."""
    if x.dtype.kind == "f":
        known = ~np.isnan(x)
        v = x[known]
        if (v != np.floor(v)).any() or (np.abs(v) >= 2.0**53).any():
            narrow = (
                np.abs(v).max() < np.finfo(np.float32).max and (v.astype(np.float32) == v).all()
            )
            dtype = np.float32 if narrow else np.float64
            return Packed(np.dtype(dtype).str), x.astype(dtype)
        v = v.astype(np.int64)
    else:
        known = x != _MISSING_DATE
        v = x[known]
    base = int(v.min()) if len(v) else 0
    # Python's numbers, since the range of int64 overflows in its own.
    if len(v) and int(v.max()) - base >= 2**63 - 1:
        return Packed(x.dtype.str), x
    v = v - base
    step = max(1, int(np.gcd.reduce(v)) if len(v) else 1)
    v //= step
    top = int(v.max(initial=0)) + 1
    dtype = next(t for t in ("<u1", "<u2", "<u4", "<u8") if top <= np.iinfo(t).max)
    q = np.zeros(len(x), dtype)
    q[known] = v.astype(dtype) + 1
    return Packed(dtype, base, step), q


def unpack(how: Packed, q: np.ndarray, kind: Stored) -> np.ndarray:
    """The cells that `pack` was given."""
    if not how.step:
        return q.astype(np.float64 if kind == "number" else np.int64)
    v = (q.astype(np.int64) - 1) * how.step + how.base
    if kind == "number":
        return np.where(q > 0, v.astype(np.float64), np.nan)
    return np.where(q > 0, v, _MISSING_DATE)


class Shuffled:
    """A file's rows in random order on disk, a part at a time."""

    def __init__(self, folder: Path, about: dict[str, Any]):
        self.folder = folder
        self.name: str = about["name"]
        self.rows: int = about["rows"]
        self.digest: str = about["digest"]
        """Of the bytes of the files that it was made of."""
        written = {name: Facts(**facts) for name, facts in about["facts"].items()}
        self.facts = {name: facts for name, facts in written.items() if not facts.dropped}
        self.columns = tuple(self.facts)
        self.written = tuple(written)
        """All columns on disk, in their order there."""
        self.aside: dict[str, str] = about["aside"]
        """Columns that are not kept, and why."""
        self.identifiers = {name for name, why in self.aside.items() if "identifier" in why}
        self.notes: tuple[str, ...] = (
            *about["notes"],
            *(f"“{visible(name)}” is dropped: {why}" for name, why in self.aside.items()),
        )
        self.n_parts: int = about["parts"]
        self._words = {name: pa.array(held, pa.string()) for name, held in about["words"].items()}
        self._runs: list[tuple[int, list[Packed]]] = [
            (n, [Packed(*how) for how in columns]) for n, columns in about["runs"]
        ]
        self._path = folder / _ROWS
        if not self._path.is_file() or self._path.stat().st_size != about["bytes"]:
            raise TableError(
                f"The shuffled rows in {visible(folder, 300)} are damaged: delete that folder, and "
                "they are made again."
            )

    def __len__(self) -> int:
        return self.n_parts

    def count(self, part: int) -> int:
        """How many rows a part has."""
        return sum(last - first for first, last in self._pieces(part))

    def _pieces(self, part: int) -> list[tuple[int, int]]:
        """From which row of each run to which a part is."""
        G = self.n_parts
        return [(n * part // G, n * (part + 1) // G) for n, _ in self._runs]

    def read(
        self, part: int, columns: Sequence[str] | None = None, places: np.ndarray | None = None
    ) -> Table:
        """One part, of these columns or of all, without any decision about them; where `places` are
        given, which ascend, these of its rows."""
        names = self.columns if columns is None else columns
        demand_columns(self, names)
        wanted = {self.written.index(name) for name in names}
        pieces: dict[int, list[np.ndarray]] = {i: [] for i in wanted}
        place = rows = before = 0
        try:
            with self._path.open("rb", buffering=0) as file:
                for (n, columns_of), (first, last) in zip(
                    self._runs, self._pieces(part), strict=True
                ):
                    width = sum(np.dtype(how.dtype).itemsize for how in columns_of)
                    file.seek(place + first * width)
                    content = file.read((last - first) * width)
                    taken = np.arange(last - first)
                    if places is not None:
                        ends = np.searchsorted(places, [before, before + last - first])
                        taken = places[slice(*ends)] - before
                    place, start = place + n * width, 0
                    before, rows = before + last - first, rows + len(taken)
                    for i, how in enumerate(columns_of):
                        dtype = np.dtype(how.dtype)
                        if i in wanted:
                            q = np.frombuffer(content, dtype, last - first, start)
                            kind = self.facts[self.written[i]].kind
                            pieces[i].append(unpack(how, q if places is None else q[taken], kind))
                        start += (last - first) * dtype.itemsize
        except (OSError, ValueError):
            raise TableError(
                f"The shuffled rows in {visible(self.folder, 300)} cannot be read: delete that "
                "folder, and they are made again."
            ) from None
        cells = {}
        for name in names:
            cells[name] = self._cells(name, np.concatenate(pieces[self.written.index(name)]))
        return Table(self.name, (), cells, rows, rows, Reading("parquet"), ())

    def _cells(self, name: str, x: np.ndarray) -> Cells:
        kind = self.facts[name].kind
        if kind == "number":
            return x.astype(np.float64)
        if kind == "date":
            # The least int64 is NaT.
            return x.astype("M8[us]")
        absent = x == _MISSING_DATE
        codes = pa.array(np.where(absent, 0, x).astype(np.int32), mask=absent)
        return pa.DictionaryArray.from_arrays(codes, self._words[name])

    def head(self) -> Table:
        """A uniform sample of the rows, with a decision for each column, as for a small file."""
        n = min(self.n_parts, -(-SAMPLE_ROWS * self.n_parts // max(self.rows, 1)))
        tables = [self.read(part) for part in range(n)]
        arrays = {
            name: pa.chunked_array([_as_arrow(t.cells[name]) for t in tables])
            for name in self.columns
        }
        table = pa.table(arrays)
        if table.num_rows > SAMPLE_ROWS:
            rng = np.random.default_rng(SEED)
            table = table.take(np.sort(rng.permutation(table.num_rows)[:SAMPLE_ROWS]))
        return decided(table, self.name)


def demand_columns(file: Any, names: Sequence[str]) -> None:
    """Refuses a file that lacks some of these columns."""
    if absent := [name for name in names if name not in file.columns]:
        raise TableError(
            f"{file.name} lacks {some(absent)}; it has {some(file.columns, 20)}. "
            "Add or rename the columns."
        )


def decided(table: pa.Table, name: str) -> Table:
    """Rows with a decision for each column, as for a small file."""
    content = pa.BufferOutputStream()
    parquet.write_table(table, content)
    return read_table(content.getvalue().to_pybytes(), name, None)


def _as_arrow(cells: Cells) -> pa.Array:
    if isinstance(cells, np.ndarray):
        return pa.array(cells, from_pandas=True)
    return cells.cast(pa.string())


def stored_kinds(
    head: Table, decisions: Sequence[Decision]
) -> tuple[dict[str, Facts], dict[str, str]]:
    """What each column is kept as: numbers and dates where its first cells, or a person, say so;
    else as it is in the file. And why others are not kept: they are identifiers in the first rows,
    which alone show that a column counts them, or a person drops them."""
    chosen = {name: (kind, first) for name, kind, first in decisions}
    found, aside = {}, {}
    for column in head.columns:
        kind, first = chosen.get(column.name, (column.kind, column.day_first))
        cells = head.cells[column.name]
        if column.kind == "dropped" and "identifier" in column.reason and column.name not in chosen:
            aside[column.name] = column.reason
            continue
        if kind == "dropped" and column.name in chosen:
            aside[column.name] = "You chose it."
            continue
        if kind == "target":
            kind = column.kind
        if column.name in chosen and kind in ("category", "boolean"):
            kind = "words"
        elif kind not in ("number", "date"):
            is_text = isinstance(cells, pa.DictionaryArray)
            kind = "words" if is_text else "date" if cells.dtype.kind == "M" else "number"
        elif kind == "date" and isinstance(cells, np.ndarray) and cells.dtype == np.float64:
            kind = "number"  # 20240131, which is made a date when it is read
        found[column.name] = Facts(kind, first if kind == "date" else None, levels={})
    return found, aside


def open_shuffled(
    source: RowSource,
    folder: Path,
    decisions: Sequence[Decision] = (),
    progress: Callable[[str, int], Progress] | None = None,
) -> Shuffled:
    """The rows of a file in random order: those made before where they still fit, else made now.

    `progress` is called with what is done and the number of rows, and gives what is called with
    the rows that are done.
    """
    if kept := find_shuffled(source, folder):
        wanted = {name: kind for name, kind, _ in decisions}
        # A number such as 20240131 becomes a date when it is read.
        fits = all(
            name not in wanted
            or facts.kind
            == {"category": "words", "boolean": "words"}.get(wanted[name], wanted[name])
            or (facts.kind, wanted[name]) == ("number", "date")
            or wanted[name] in ("target", "dropped")
            for name, facts in kept.facts.items()
        )
        needed = {n for n in source.columns if wanted.get(n) != "dropped"}
        if fits and needed <= {*kept.written, *kept.identifiers} - (
            kept.identifiers & wanted.keys()
        ):
            return kept
    return _make(source, folder, decisions, progress)


def find_shuffled(source: RowSource, folder: Path) -> Shuffled | None:
    """The rows that were made of this very file before, if they are there."""
    try:
        about = json.loads((folder / _ABOUT).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if about.get("version") != _VERSION or [s for _, s, _ in about["files"]] != [
        s for _, s, _ in _fingerprint(source)
    ]:
        return None
    # The same name, size and time is the same file; else its bytes decide.
    if about["files"] != _fingerprint(source) and about["digest"] != content_digest(source):
        return None
    return Shuffled(folder, about)


def _fingerprint(source: RowSource) -> list[list]:
    return [[f.name, f.stat().st_size, f.stat().st_mtime_ns] for f in source.files]


def content_digest(source: RowSource) -> str:
    """Of the bytes of all files, in their order."""
    whole = hashlib.blake2b(digest_size=16)
    for path in source.files:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "blake2b").digest())
    return whole.hexdigest()


def _make(
    source: RowSource,
    folder: Path,
    decisions: Sequence[Decision],
    progress: Callable[[str, int], Progress] | None,
) -> Shuffled:
    head = source.head()
    facts, aside = stored_kinds(head, decisions)
    if not facts:
        raise TableError(f"No column of {source.name} is left to learn from.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for old in folder.parent.glob(f".{folder.name}.*.part"):
            with suppress(OSError):
                if old.stat().st_mtime < time.time() - STALE_SECONDS:
                    shutil.rmtree(old)
        beside = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.part")
        beside.mkdir()
    except OSError as error:
        raise TableError(
            f"The rows are shuffled on disk before they are learnt from, and {visible(folder, 300)}"
            f" cannot be written ({error.strerror}): name another folder with --shards."
        ) from None
    try:
        _check_room(source, head, facts, beside)
        files = _fingerprint(source)
        about = {
            "version": _VERSION,
            "name": source.name,
            "files": files,
            "digest": content_digest(source),
            "aside": aside,
            **_write(source, facts, beside / _ROWS, progress),
        }
        if _fingerprint(source) != files:
            raise TableError(f"{source.name} has changed while it was read: start again.")
        (beside / _ABOUT).write_text(json.dumps(about, ensure_ascii=False), "utf-8")
        with suppress(OSError):  # another fit may be reading it: what is open stays readable
            shutil.rmtree(folder)
        os.rename(beside, folder)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise TableError(
            f"The disk of {visible(folder, 300)} is full: make room, or name another folder with "
            "--shards."
        ) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return Shuffled(folder, about)


def _check_room(source: RowSource, head: Table, facts: dict[str, Facts], folder: Path) -> None:
    """Says that the disk is too small before the work begins."""
    cells = (as_stored(facts[name], head.cells[name], False, {}) for name in facts)
    width = sum(max(pack(x)[1].dtype.itemsize, 2) for x in cells)
    need, free = int(SPARE * width * source.rows), shutil.disk_usage(folder).free
    if need > free:
        raise TableError(
            f"The rows of {source.name} in random order take about {need / 1e9:,.1f} GB, and "
            f"{free / 1e9:,.1f} GB are free on the disk of {visible(folder.parent, 300)}: make "
            "room, or name a folder on another disk with --shards."
        )


def as_stored(facts: Facts, cells: Cells, decimal_comma: bool, codes: dict[str, int]) -> np.ndarray:
    """Cells as they are kept: numbers (NaN), dates in microseconds or the codes of words (the least
    int64 is missing). New words get a code."""
    if facts.kind == "number":
        x = as_numbers(cells, decimal_comma)
        return np.where(np.isfinite(x), x, np.nan)
    if facts.kind == "date":
        return as_dates(cells, facts.day_first).astype(np.int64)
    column = as_words(cells)
    held, used = column.dictionary.to_pylist(), weights(column) > 0
    own = [codes.setdefault(w, len(codes)) if u else 0 for w, u in zip(held, used, strict=True)]
    known = column.is_valid().to_numpy(zero_copy_only=False)
    x = np.full(len(column), _MISSING_DATE)
    x[known] = np.array(own, np.int64)[column.indices.drop_null().to_numpy(zero_copy_only=False)]
    return x


def _write(
    source: RowSource,
    facts: dict[str, Facts],
    path: Path,
    progress: Callable[[str, int], Progress] | None,
) -> dict[str, Any]:
    """Writes all rows, and tells all that is known of them afterwards."""
    estimate = max(1, source.rows)
    part_rows = min(PART_ROWS, max(1, PART_CELLS // len(facts)))
    n_parts, run_rows = -(-estimate // part_rows), max(1, RUN_CELLS // len(facts))
    codes: dict[str, dict[str, int]] = {n: {} for n, f in facts.items() if f.kind == "words"}
    waiting: dict[str, list[np.ndarray]] = {name: [] for name in facts}
    runs: list[tuple[int, list[list]]] = []
    rows = held = 0
    done = progress("reading", estimate) if progress else None
    with path.open("wb") as file:

        def flush() -> None:
            nonlocal held
            if not held:
                return
            order = np.random.default_rng([SEED, len(runs)]).permutation(held)
            ways, columns = [], []
            for name in facts:
                how, q = pack(np.concatenate(waiting[name]))
                waiting[name] = []
                ways.append([how.dtype, how.base, how.step])
                columns.append(q[order])
            ends = [held * g // n_parts for g in range(n_parts + 1)]
            for first, last in zip(ends, ends[1:], strict=False):
                file.writelines(q[first:last].data for q in columns)
            runs.append((held, ways))
            held = 0

        for table in source.tables(frozenset(n for n, f in facts.items() if f.kind == "words")):
            for name, about in facts.items():
                if name not in table.cells:
                    raise TableError(f"A part of {source.name} lacks “{visible(name)}”.")
                cells = table.cells[name]
                x = as_stored(about, cells, table.decimal_comma, codes.get(name, {}))
                _note(about, cells, x)
                if about.dropped or len(codes.get(name, ())) > MOST_WORDS:
                    about.dropped, codes[name] = True, {}
                    x = np.full(len(x), _MISSING_DATE)
                waiting[name].append(x)
            rows, held = rows + table.rows, held + table.rows
            if done:
                done(rows)
            if held >= run_rows:
                flush()
        flush()
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    if not rows:
        raise TableError(f"{source.name} holds no rows: bring one with at least one.")
    _check_stray(source, facts, rows)
    for about in facts.values():
        if about.levels is not None:
            about.levels = {word: about.levels[word] for word in in_order(about.levels)}
    return {
        "rows": rows,
        "parts": n_parts,
        "bytes": size,
        "facts": {name: asdict(about) for name, about in facts.items()},
        "words": {name: list(held) for name, held in codes.items()},
        "runs": runs,
        "notes": [*source.notes, *_dropped(facts)],
    }


def _note(about: Facts, cells: Cells, x: np.ndarray) -> None:
    """Adds a block's cells to what is known of its column."""
    absent = np.isnan(x) if x.dtype.kind == "f" else x == _MISSING_DATE
    empty = int(absent.sum()) if isinstance(cells, np.ndarray) else cells.null_count
    about.missing += int(absent.sum())
    about.stray += int(absent.sum()) - empty
    known = x[~absent]
    if len(known) and about.kind != "words":
        about.low = min(about.low, float(known.min()))
        about.high = max(about.high, float(known.max()))
    if about.levels is None or about.kind == "date":
        about.levels = None
        return
    if about.kind == "number" and len(np.unique(known[:2048])) > MOST_LEVELS:
        about.levels = None
        return
    for word, count in known_words(cells if about.kind == "words" else x).items():
        about.levels[word] = about.levels.get(word, 0) + count
    if len(about.levels) > MOST_LEVELS:
        about.levels = None


def _dropped(facts: dict[str, Facts]) -> list[str]:
    return [
        f"“{visible(name)}” is dropped: it has over {MOST_WORDS:,} different words."
        for name, about in facts.items()
        if about.dropped
    ]


def _check_stray(source: RowSource, facts: dict[str, Facts], rows: int) -> None:
    for name, about in facts.items():
        if about.stray > (1 - MOSTLY) * max(1, rows - about.missing + about.stray):
            raise TableError(
                f"“{visible(name)}” begins with {about.kind}s, and "
                f"{counted(about.stray, 'cell')} of {source.name} are none: decide it with "
                f"--column {visible(name)}=category or --column {visible(name)}=dropped."
            )
