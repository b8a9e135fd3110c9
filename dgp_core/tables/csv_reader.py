"""Rows of text to columns of numbers and words: by Arrow where rows are even, else by Python."""

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from dgp_core.gp.data import counted
from dgp_core.tables.dialect import Dialect, csv_rows
from dgp_core.tables.encodings import BLOCK_BYTES, blocks
from dgp_core.tables.limits import SAVE, Limits, TableError, too_large
from dgp_core.tables.parsing import MISSING_SPELLINGS, Cells, plain_numbers, words

BLOCK_ROWS = 20_000
Blocks = Iterator[list[pa.Array]]


@dataclass
class _UnevenRows:
    """What the Python reader did to rows of another width, and how many comments it skipped."""

    padded: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    comments: int = 0
    rows: int = 0


def read_text(
    text: memoryview, dialect: Dialect, limits: Limits | None
) -> tuple[list[Cells], int, list[str]]:
    """The columns of a text, the rows it has (those left out included), and what had to be done.

    Each reader is tried in turn; csv.Error if the last one cannot split the rows either.
    """
    body = text[dialect.start :]
    quotes = _count(body, b'"')
    comments = rb"(^|[\r\n])[ \t]*" + re.escape(dialect.comment.encode())
    if dialect.comment and not re.search(comments, body):
        dialect = replace(dialect, comment="")
    if dialect.separator == " " and not quotes and not dialect.comment:
        body = _squeeze(body)
    uneven = _UnevenRows()
    attempts: list[Callable[[list[int]], Blocks]] = []
    if not (quotes % 2 or dialect.spaced_quotes or dialect.comment):
        attempts.append(lambda columns: _by_arrow(body, dialect, columns))
    if quotes % 2 == 0:
        attempts.append(lambda columns: _by_python(body, dialect, True, uneven, columns))
    attempts.append(lambda columns: _by_python(body, dialect, False, uneven, columns))
    width, notes = len(dialect.names), []
    most = _most_rows(body, limits)
    if not quotes:  # else a cell may have several lines, and rows are counted as they are read
        _check_cells((most - 1) * width, limits)
    cells, rows = [], 0
    for attempt in attempts:
        last = attempt is attempts[-1]
        try:
            cells, rows = _gather(attempt, width, most, dialect, limits)
        except csv.Error:
            if last:
                raise
            continue
        if last and quotes:
            notes.append(
                "A quotation mark is not closed: all of them were read as plain characters."
            )
        break
    if not rows:
        raise TableError(
            "This file has a header but no rows below it: bring one with at least one row."
        )
    padded, dropped = uneven.padded, uneven.dropped
    if len(padded) + len(dropped) > 0.5 * (rows + len(dropped)):
        raise TableError(
            f"Most rows of this file do not have the {counted(width, 'column')} of its first ones. "
            f"{SAVE}"
        )
    notes += dialect.notes
    if uneven.comments:
        notes.append("Comment lines between the rows were skipped.")
    if padded:
        notes.append(
            f"{_were(padded)} too short ({_some(padded)}): the cells at the end count as missing."
        )
    if dropped:
        more = counted(width, "cell")
        notes.append(f"{_were(dropped)} left out, with more than {more} ({_some(dropped)}).")
    return cells, rows + len(dropped), notes


def arrow_options(
    dialect: Dialect, columns: list[int], uneven: Callable[[Any], str] | None = None
) -> dict[str, Any]:
    """How Arrow reads these columns of a text, all as words; `uneven` is asked about rows of
    another width, and without it text is known to be UTF-8 and its rows to be even."""
    names = [str(i) for i in range(len(dialect.names))]
    return {
        "read_options": arrow_csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES),
        "parse_options": arrow_csv.ParseOptions(
            delimiter=dialect.separator, newlines_in_values=True, invalid_row_handler=uneven
        ),
        "convert_options": arrow_csv.ConvertOptions(
            column_types={name: pa.string() for name in names},
            include_columns=[str(i) for i in columns],
            strings_can_be_null=True,
            null_values=MISSING_SPELLINGS,
            check_utf8=uneven is not None,
        ),
    }


def _by_arrow(body: memoryview, dialect: Dialect, columns: list[int]) -> Blocks:
    """Blocks of text columns by Arrow; stops at the first row of another width."""
    try:
        reader = arrow_csv.open_csv(
            pa.BufferReader(pa.py_buffer(body)), **arrow_options(dialect, columns)
        )
        for batch in reader:
            yield batch.columns
    except pa.ArrowInvalid as error:
        raise csv.Error(str(error)) from None


def _by_python(
    body: memoryview, dialect: Dialect, quoting: bool, uneven: _UnevenRows, columns: list[int]
) -> Blocks:
    """Blocks of text columns by Python, which takes uneven rows and comments too."""
    width = len(dialect.names)
    uneven.__init__()
    lines: Iterator[str] = io.TextIOWrapper(io.BytesIO(body), "utf-8", newline="")
    if dialect.comment:
        lines = _uncommented(lines, dialect.comment, uneven)
    block: list[list[str]] = []
    for row in csv_rows(lines, dialect.separator, quoting):
        while len(row) > width and not row[-1].strip():
            row.pop()
        if len(row) != width or width == 1:
            if not "".join(row).strip():
                continue
        uneven.rows += 1
        if len(row) > width:
            uneven.dropped.append(uneven.rows)
            continue
        if len(row) < width:
            uneven.padded.append(uneven.rows)
            row += [""] * (width - len(row))
        block.append(row)
        if len(block) == BLOCK_ROWS:
            yield _turned(block, columns)
            block = []
    if block:
        yield _turned(block, columns)


def _turned(rows: list[list[str]], columns: list[int]) -> list[pa.Array]:
    turned = list(zip(*rows, strict=True))
    return [pa.array(turned[i], pa.string()) for i in columns]


def _uncommented(lines: Iterator[str], comment: str, uneven: _UnevenRows) -> Iterator[str]:
    for line in lines:
        if line.lstrip().startswith(comment):
            uneven.comments += 1
        else:
            yield line


def _squeeze(body: memoryview) -> memoryview:
    """Columns separated by runs of spaces as columns separated by single ones."""
    single = re.sub(rb"[ \t]+", b" ", bytes(body)).strip(b" ")
    for end in (b"\n", b"\r"):
        single = single.replace(b" " + end, end).replace(end + b" ", end)
    return memoryview(single)


def _count(data: memoryview, what: bytes) -> int:
    return sum(block.count(what) for block in blocks(data))


def _most_rows(body: memoryview, limits: Limits | None) -> int:
    """An upper bound of the rows: the line ends and one more, or one more than the limit."""
    ends = _count(body, b"\n")
    if returns := _count(body, b"\r"):
        ends += returns - _count(body, b"\r\n")
    return min(ends, limits.rows) + 1 if limits else ends + 1


def _check_cells(cells: int, limits: Limits | None) -> None:
    if limits and cells > limits.cells:
        raise too_large(f"more than {limits.cells:,} cells", limits.cells)


def _were(rows: list[int]) -> str:
    return f"{counted(len(rows), 'row')} {'was' if len(rows) == 1 else 'were'}"


def _some(rows: list[int]) -> str:
    """The first few of many row numbers."""
    few = ", ".join(f"{r:,}" for r in rows[:3])
    return f"row {few}" if len(rows) == 1 else f"rows {few}{', …' if len(rows) > 3 else ''}"


def _gather(
    attempt: Callable[[list[int]], Blocks],
    width: int,
    most: int,
    dialect: Dialect,
    limits: Limits | None,
) -> tuple[list[Cells], int]:
    """Columns put together from blocks: numbers as long as every block agrees, else words.

    Numbers are written where they stay, with room for as many rows as there can be: pages that are
    never written to take no memory. A column that stops being numbers at a late block is read a
    second time, as words, so that no cell is lost whatever the first blocks looked like.
    """
    numbers = np.empty((width, most))
    texts: list[list[pa.Array]] = [[] for _ in range(width)]
    again: set[int] = set()
    rows = 0
    for block in attempt(list(range(width))):
        before, rows = rows, rows + len(block[0])
        if limits and rows > limits.rows:
            raise too_large(f"more than {limits.rows:,} rows", limits.rows)
        _check_cells(rows * width, limits)
        for i, cells in enumerate(block):
            if i in again:
                continue
            if not texts[i]:
                x = plain_numbers(cells, dialect.decimal_comma)
                if x is not None:
                    numbers[i, before:rows] = x
                    continue
                if before:
                    again.add(i)
                    continue
            texts[i].append(words(cells).dictionary_encode())
    if again:
        for block in attempt(sorted(again)):
            for i, cells in zip(sorted(again), block, strict=True):
                texts[i].append(words(cells).dictionary_encode())
    columns: list[Cells] = []
    for i in range(width):
        if texts[i]:
            columns.append(pa.chunked_array(texts[i]).unify_dictionaries().combine_chunks())
        else:
            columns.append(numbers[i, :rows])
        texts[i] = []
    return columns, rows
