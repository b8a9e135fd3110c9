"""A user's file, from bytes to columns of numbers and words, with a note of all choices made."""

import codecs
import csv
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet

from dgp_core.tables.parsing import (
    MISSING_SPELLINGS,
    WHOLE,
    Cells,
    is_value,
    parse_numbers,
    pc,
    plain_numbers,
    spread,
    weights,
    words,
)
from dgp_core.tables.plain import visible


class TableError(ValueError):
    """A file, or a wish about it, that cannot be met; the message says what to do."""


@dataclass(frozen=True)
class Limits:
    """How large a file may be where many people share one server."""

    bytes: int = 300_000_000
    rows: int = 2_000_000
    columns: int = 1_000


LIMITS = Limits()
WAY_ON = "python -m dgp_core fit FILE --target COLUMN"
NAME_LIMIT = 200
HEAD_BYTES = 1 << 18
HEAD_LINES = 20
HEAD_ROWS = 500
BLOCK_BYTES = 1 << 22
BLOCK_ROWS = 20_000
COMMENT = re.compile(r"\s*(#|%|//)")
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}

_FOREIGN = (
    (b"PK\x03\x04", "an Excel workbook, a NumPy archive or a zip"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    (b"%PDF", "a PDF"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"GIF8", "a picture"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy file"),
    (b"BZh", "a bzip2 archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"\x28\xb5\x2f\xfd", "a zstd archive"),
    (b"ARROW1", "an Arrow file"),
    (b"{\\rtf", "a text document"),
)
_BOMS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte-order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
_SAVE = "Save the table as CSV (comma separated, UTF-8) and try again."


@dataclass(frozen=True, eq=False)
class Raw:
    """The columns of a file before anyone decided what they are for."""

    cells: dict[str, Cells]
    how: dict[str, str]
    """How a column's numbers are written, or why it cannot be used, where there is more to say."""
    infinite: dict[str, int]
    """How many infinite cells of a column now count as missing."""
    unusable: frozenset[str]
    """Columns of a type that is no number, date or word."""
    rows_in: int
    """Rows that the file holds, those that could not be read included."""
    decimal_comma: bool
    """Whether the file writes 1,5 for one and a half."""
    notes: tuple[str, ...]


def read_columns(source: Any, limits: Limits | None) -> Raw:
    """The columns of a file: CSV and its kin, gzip of these, or Parquet."""
    data = _bytes(source, limits)
    if data[:2] == b"\x1f\x8b":
        data = _unzip(data, limits)
    if data[:4] == b"PAR1":
        return _read_parquet(data, limits)
    text, encoding = _as_utf8(data)
    del data
    return _read_text(text, [f"The text is {encoding}."], limits)


def _too_large(what: str, limit: str) -> TableError:
    return TableError(
        f"This file has {what}; the limit here is {limit}, because the memory is shared by all who "
        f"are connected. Take fewer, or train without the screen, where there is no limit: {WAY_ON}"
    )


def _bytes(source: Any, limits: Limits | None) -> memoryview:
    """All bytes of a path, an open file or a bytes object; never more than the limit."""
    most = limits.bytes if limits else None
    too_large = f"more than {most or 0:,} bytes"
    if isinstance(source, bytes | bytearray | memoryview):
        data = memoryview(source).cast("B")
    elif isinstance(source, str | os.PathLike):
        try:
            if most is not None and os.path.getsize(source) > most:
                raise _too_large(too_large, f"{most:,}")
            with open(source, "rb") as file:
                data = memoryview(file.read() if most is None else file.read(most + 1))
        except (OSError, ValueError) as error:
            if isinstance(error, TableError):
                raise
            why = getattr(error, "strerror", None) or "it is no path"
            name = visible(os.path.basename(os.fspath(source)))
            raise TableError(f"The file {name} cannot be opened: {why}. Check its path.") from None
    else:
        # An uploaded file may have been read before.
        if getattr(source, "seekable", lambda: False)():
            source.seek(0)
        content = source.read() if most is None else source.read(most + 1)
        data = memoryview(content.encode() if isinstance(content, str) else content)
    if most is not None and len(data) > most:
        raise _too_large(too_large, f"{most:,}")
    if not len(data):
        raise TableError("This file is empty: bring one with a header and at least one row.")
    return data


def _unzip(data: memoryview, limits: Limits | None) -> memoryview:
    """What a gzip file holds; never more than the limit, lest a small file fill the memory."""
    most = limits.bytes if limits else -2
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error):
        raise TableError("This gzip file is damaged or cut short: compress it again.") from None
    if limits and len(content) > most:
        raise _too_large(f"more than {most:,} bytes once unpacked", f"{most:,}")
    if not content:
        raise TableError("This gzip file holds nothing: bring one with a header and rows.")
    if content[:2] == b"\x1f\x8b":
        raise TableError("This is a gzip file inside a gzip file: unpack it once and try again.")
    return memoryview(content)


def _as_utf8(data: memoryview) -> tuple[memoryview, str]:
    """The text as UTF-8 without a mark, and the name of the encoding that it came in."""
    head = bytes(data[:4096])
    for magic, what in _FOREIGN:
        if head.startswith(magic):
            raise TableError(f"This is {what}, not a table of text. {_SAVE}")
    for mark, encoding, title in _BOMS:
        if head.startswith(mark):
            return _transcode(data[len(mark) :], encoding), title
    if _is_utf8(data):
        if b"\0" not in head or not _two_bytes(head):
            _no_binary(data)
            return data, "UTF-8"
    if encoding := _two_bytes(head):
        return _transcode(data, encoding), "UTF-16 without a mark"
    _no_binary(data)
    try:
        return memoryview(str(data, "cp1252").encode()), "Latin-1 (Windows-1252)"
    except UnicodeDecodeError:
        return memoryview(str(data, "latin-1").encode()), "Latin-1"


def _is_utf8(data: memoryview) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), BLOCK_BYTES):
            decoder.decode(data[start : start + BLOCK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _two_bytes(head: bytes) -> str:
    """The kind of UTF-16 that the places of the zeros speak for, or nothing."""
    pairs = len(head) // 2
    low, high = head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
    if pairs >= 2 and max(low, high) > 0.4 * pairs and min(low, high) < 0.1 * pairs:
        return "utf-16-le" if high > low else "utf-16-be"
    return ""


def _transcode(data: memoryview, encoding: str) -> memoryview:
    if encoding == "utf-8":
        if _is_utf8(data):
            _no_binary(data)
            return data
        raise TableError(f"This file says that it is UTF-8, but parts of it are not. {_SAVE}")
    try:
        text = memoryview(str(data, encoding).encode())
    except UnicodeError:
        name = encoding[:6].upper()
        raise TableError(
            f"This file says that it is {name}, but parts of it are not. {_SAVE}"
        ) from None
    _no_binary(text)
    return text


def _no_binary(data: memoryview) -> None:
    """Text has no zero bytes and hardly any control characters."""
    head = bytes(data[:HEAD_BYTES])
    control = len(head) - len(head.translate(None, _CONTROL))
    zero = any(
        b"\0" in bytes(data[start : start + BLOCK_BYTES])
        for start in range(0, len(data), BLOCK_BYTES)
    )
    if zero or control > max(3, 0.01 * len(head)):
        raise TableError(f"This file is not text, so no table can be read from it. {_SAVE}")
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<svg")):
        raise TableError(f"This is a web page or XML, not a table. {_SAVE}")
    if re.match(rb'\{\s*["}]|\[\s*[\[{]', start):
        raise TableError(f"This is JSON, not a table. {_SAVE}")


_CONTROL = bytes(b for b in range(32) if b not in b"\t\n\r\f\x1a")


@dataclass(frozen=True)
class Dialect:
    """How a text file is written down."""

    delimiter: str
    names: tuple[str, ...]
    start: int
    """Where the first row of data begins, in bytes."""
    decimal_comma: bool
    comment: str
    """The sign that opens a line of comment, if the file has such lines."""
    careful: bool
    """Whether it takes the slower reader (spaces before quotes, comments between rows)."""
    notes: tuple[str, ...]


def _rows(lines: list[str], delimiter: str, quoting: bool) -> Iterator[list[str]]:
    """Rows of cells; a run of spaces or tabs is one delimiter where that is a space."""
    if delimiter == " ":
        lines = [line.replace("\t", " ").strip() + "\n" for line in lines]
    return csv.reader(
        lines,
        delimiter=delimiter,
        skipinitialspace=True,
        quoting=csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE,
    )


_COMMA_DECIMAL = re.compile(r"[-+−]?(\d*,(\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+|\d+(\.\d{3})+,\d+)")
_DOT_DECIMAL = re.compile(r"[-+−]?(\d*\.(\d{1,2}|\d{4,})|0\.\d+|\d{4,}\.\d+|\d+(,\d{3})+\.\d+)")


def _sniff(text: memoryview, limits: Limits | None) -> Dialect:
    """The delimiter, the header and the habits of a text file, from its first rows."""
    size = HEAD_BYTES
    while size < len(text) and len(bytes(text[:size]).splitlines()) < HEAD_LINES:
        size *= 4
    head = bytes(text[:size])
    cut = len(head) < len(text)
    lines = list(io.StringIO(head.decode("utf-8", "ignore"), newline=""))
    if cut and len(lines) > 1:
        lines = lines[:-1]
    notes, skip, given = [], 0, ""
    if found := re.fullmatch(r"\ufeff?\"?sep=(.)\"?\s*", lines[0], re.IGNORECASE):
        given, skip = found[1], 1
    top, comments = skip, []
    while top < len(lines) and (not lines[top].strip() or COMMENT.match(lines[top])):
        if lines[top].strip():
            comments.append(top)
        top += 1
    body = lines[top : top + HEAD_ROWS]
    comment = ""
    if comments and (match := COMMENT.match(lines[comments[0]])):
        comment = match[1]
    if not body:
        raise TableError(f"This file holds no rows, only blank lines or comments. {_SAVE}")

    quoting = cut or sum(line.count('"') for line in body) % 2 == 0
    delimiter, rows, width = _choose_delimiter(body, given, quoting)
    if limits and width > limits.columns:
        raise _too_large(f"{width:,} columns", f"{limits.columns:,}")

    # Rows of another width before the first full one are a title or remarks.
    full = [i for i, row in enumerate(rows) if len(row) == width]
    first = full[0]
    header: list[str] | None = None
    short = [row for row in rows[:first] if len(row) == width - 1 and not any(map(is_value, row))]
    if width > 1 and short and len(rows[first]) == width:
        trailing = all(not rows[i][-1].strip() for i in full)
        header = [*short[-1], ""] if trailing else ["", *short[-1]]
    elif comments and comments[-1] == top - 1:
        named = lines[comments[-1]].lstrip().removeprefix(comment)
        cells = next(_rows([named], delimiter, quoting), [])
        if len(cells) == width and sum(map(is_value, cells)) <= (not cells[0].strip()):
            header, comments = cells, comments[:-1]
    if header is None and _is_header(rows[first], [rows[i] for i in full[1:]]):
        header = rows[first]
        first += 1
    passed = _lines_of(body, delimiter, quoting, first)
    if header is None:
        notes.append(f"There is no header: the columns are called column 1 to column {width}.")
    titles = [" ".join(row) for row in rows[: full[0]] if row and row not in short[-1:]]
    if comments or titles:
        n = len(comments) + len(titles)
        sample = lines[comments[0]] if comments else titles[0]
        notes.append(f"{n} lines above the table were skipped: “{visible(sample)}”…")
    start = sum(len(line.encode()) for line in lines[: top + passed])

    names, renamed = _names(header, width)
    notes += renamed
    sample = [cell.strip() for row in rows[first:] for cell in row]
    commas = sum(_COMMA_DECIMAL.fullmatch(cell) is not None for cell in sample)
    dots = sum(_DOT_DECIMAL.fullmatch(cell) is not None for cell in sample)
    # Semicolons are there because the comma is taken.
    spoken_for = delimiter == ";" and any(re.fullmatch(r"[-+−]?\d+,\d+", c) for c in sample)
    decimal_comma = commas > dots or (spoken_for and dots == 0)
    if decimal_comma:
        notes.append("The comma is the decimal sign.")
    notes.insert(0, f"Columns are parted by {DELIMITERS.get(delimiter, repr(delimiter))}.")
    careful = (
        re.search(re.escape(delimiter) + ' +"', "".join(body)) is not None and delimiter != " "
    )
    return Dialect(delimiter, names, start, decimal_comma, comment, careful, tuple(notes))


def _choose_delimiter(
    body: list[str], given: str, quoting: bool
) -> tuple[str, list[list[str]], int]:
    """The delimiter under which rows are equally wide and cells make sense, the rows, the width."""
    best, chosen = 0.0, ("", [], 0)
    for delimiter in [given] if given else DELIMITERS:
        try:
            rows = [row for row in _rows(body, delimiter, quoting) if "".join(row).strip()]
        except csv.Error:
            continue
        if not rows:
            continue
        # The commonest width, the larger of two that are equally common.
        counts = Counter(map(len, rows))
        width = max(counts, key=lambda w: (counts[w], w))
        if width == 1 and not given:
            continue
        first = next(i for i, row in enumerate(rows) if len(row) == width)
        rest = rows[first:]
        even = sum(len(row) == width for row in rest) / len(rest)
        cells = [cell for row in rest[1:] or rest for cell in row if cell.strip()]
        sense = sum(map(is_value, cells)) / max(len(cells), 1)
        score = even * (0.3 + 0.7 * sense) * (1 if not first else 0.7 if first < 50 else 0.4)
        # Words alone may be prose, which must be more even to pass for a table.
        enough = given or (even >= (0.6 if sense > 0.2 else 0.9) and (len(rest) > 1 or not first))
        if score > best + 1e-9 and enough:
            best, chosen = score, (delimiter, rows, width)
    if chosen[0]:
        return chosen
    column = [[line.strip()] for line in body if line.strip()]
    below = [row[0] for row in column[1:]] or [column[0][0]]
    if sum(map(is_value, below)) >= 0.8 * len(below):
        return ",", column, 1
    raise TableError(
        "No table was found in this file: its lines do not split into equally many columns by "
        f"commas, semicolons, tabs, bars or spaces. {_SAVE}"
    )


def _lines_of(body: list[str], delimiter: str, quoting: bool, rows: int) -> int:
    """How many lines the first rows (blank ones not counted) take up."""
    if not rows:
        return 0
    reader = _rows(body, delimiter, quoting)
    for row in reader:
        rows -= bool("".join(row).strip())
        if not rows:
            break
    return reader.line_num  # type: ignore[attr-defined]


def _is_header(first: list[str], below: list[list[str]]) -> bool:
    """Whether the first row names the columns: it holds no values where the others do."""
    cells = [cell.strip() for cell in first]
    values = [cell for cell in cells if cell and is_value(cell)]
    if values:
        # A run of whole numbers beside an empty or a worded corner: pandas' columns, or years.
        whole = [int(cell) for cell in values if cell.isascii() and cell.isdigit()]
        run = len(whole) == len(values) >= 2 and all(b - a == 1 for a, b in zip(whole, whole[1:]))  # noqa: B905
        pandas = not cells[0] and bool(whole) and whole[0] == 0
        years = bool(whole) and 1800 <= whole[0] <= 2100 and len(values) >= 3
        return run and (pandas or (years and not is_value(cells[0]) and len(below) > 0))
    if not any(cells):
        return False
    if not below:
        return True
    if any(is_value(row[i]) for row in below[:50] for i, cell in enumerate(cells) if cell):
        return True
    # Words only: a name does not come back as a value of its own column.
    return len(set(cells)) == len(cells) and not any(
        cell and cell == row[i].strip() for row in below for i, cell in enumerate(cells)
    )


def _names(header: list[str] | None, width: int) -> tuple[tuple[str, ...], list[str]]:
    """A distinct name for each column, and what had to be changed."""
    names, notes, taken = [], [], set()
    given = [visible(cell, NAME_LIMIT) for cell in header or [""] * width]
    for i, cell in enumerate(given):
        name, k = cell or f"column {i + 1}", 2
        while name in taken or (name != cell and name in given):
            name, k = f"{cell or f'column {i + 1}'} ({k})", k + 1
        taken.add(name)
        names.append(name)
        if header is not None and not cell:
            notes.append(f"Column {i + 1} has no name: it is called “{visible(name)}”.")
        elif header is not None and name != cell:
            notes.append(f"The name “{visible(cell)}” is there again: it became “{visible(name)}”.")
    if len(notes) > 5:
        notes = [*notes[:5], f"… and {len(notes) - 5} more names."]
    return tuple(names), notes


class _Broken(Exception):
    """A reader met something that it does not understand; the next one is asked."""


@dataclass
class _Tally:
    """What a reader had to do to uneven rows."""

    padded: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    comments: int = 0
    rows: int = 0


Blocks = Iterator[list[pa.Array]]


def _fast(text: memoryview, dialect: Dialect, columns: list[int]) -> Blocks:
    """Blocks of text columns by Arrow; breaks off at the first row of another width."""
    names = [str(i) for i in range(len(dialect.names))]
    data = pa.py_buffer(text[dialect.start :])
    try:
        reader = arrow_csv.open_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES),
            parse_options=arrow_csv.ParseOptions(
                delimiter=dialect.delimiter, newlines_in_values=True
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                include_columns=[str(i) for i in columns],
                strings_can_be_null=True,
                null_values=MISSING_SPELLINGS,
                check_utf8=False,
            ),
        )
        for batch in reader:
            yield batch.columns
    except pa.ArrowInvalid as error:
        raise _Broken(str(error)) from None


def _slow(
    text: memoryview, dialect: Dialect, quoting: bool, tally: _Tally, columns: list[int]
) -> Blocks:
    """Blocks of text columns by Python, with patience for uneven rows and comments."""
    width = len(dialect.names)
    tally.__init__()
    lines = io.TextIOWrapper(io.BytesIO(text[dialect.start :]), "utf-8", newline="")
    source: Iterator[str] = lines
    if dialect.comment:
        source = _uncommented(source, dialect.comment, tally)
    if dialect.delimiter == " ":
        source = (line.replace("\t", " ").strip() + "\n" for line in source)
    reader = csv.reader(
        source,
        delimiter=dialect.delimiter,
        skipinitialspace=True,
        quoting=csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE,
    )
    block: list[list[str]] = []
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise _Broken(str(error)) from None
        if row is None or len(block) == BLOCK_ROWS:
            if block:
                turned = list(zip(*block, strict=True))
                yield [pa.array(turned[i], pa.string()) for i in columns]
            block = []
        if row is None:
            return
        if len(row) != width:
            if not "".join(row).strip():
                continue
            while len(row) > width and not row[-1].strip():
                row.pop()
        elif width == 1 and not row[0].strip():
            continue
        tally.rows += 1
        if len(row) > width:
            tally.dropped.append(tally.rows)
            continue
        if len(row) < width:
            tally.padded.append(tally.rows)
            row += [""] * (width - len(row))
        block.append(row)


def _uncommented(lines: Iterator[str], comment: str, tally: _Tally) -> Iterator[str]:
    for line in lines:
        if line.lstrip().startswith(comment):
            tally.comments += 1
        else:
            yield line


def _squeeze(text: memoryview, dialect: Dialect) -> memoryview:
    """A file of columns parted by runs of spaces as one that is parted by single spaces."""
    body = re.sub(rb"[ \t]+", b" ", bytes(text[dialect.start :])).strip(b" ")
    for end in (b"\n", b"\r"):
        body = body.replace(b" " + end, end).replace(end + b" ", end)
    return memoryview(bytes(text[: dialect.start]) + body)


def _read_text(text: memoryview, notes: list[str], limits: Limits | None) -> Raw:
    """Rows of text as columns: by the fast reader where the file is even, else by a patient one."""
    while len(text) and text[-1] == 0x1A:
        text = text[:-1]
    if not bytes(text[:HEAD_BYTES]).strip():
        raise TableError("This file is blank: bring one with a header and at least one row.")
    try:
        dialect = _sniff(text, limits)
    except csv.Error as error:
        raise TableError(
            f"The rows of this file cannot be told apart ({visible(error, 120)}). {_SAVE}"
        ) from None
    width = len(dialect.names)
    body = text[dialect.start :]
    quotes = _count(body, b'"')
    comments = rb"(^|[\r\n])[ \t]*" + re.escape(dialect.comment.encode())
    if dialect.comment and not re.search(comments, body):
        dialect = replace(dialect, comment="")
    if dialect.delimiter == " " and not quotes and not dialect.comment:
        text = _squeeze(text, dialect)
    tally = _Tally()
    attempts: list[Callable[[list[int]], Blocks]] = []
    if not (quotes % 2 or dialect.careful or dialect.comment):
        attempts.append(lambda columns: _fast(text, dialect, columns))
    if quotes % 2 == 0:
        attempts.append(lambda columns: _slow(text, dialect, True, tally, columns))
    attempts.append(lambda columns: _slow(text, dialect, False, tally, columns))
    most = _most_rows(text[dialect.start :], limits)
    for i, blocks in enumerate(attempts):
        try:
            cells, rows = _gather(blocks, width, most, dialect.decimal_comma, limits)
        except _Broken as error:
            if i == len(attempts) - 1:
                raise TableError(
                    f"The rows of this file cannot be told apart ({visible(error, 120)}). {_SAVE}"
                ) from None
            continue
        if i == len(attempts) - 1 and quotes:
            notes.append(
                "A quotation mark is not closed: all of them were read as plain characters."
            )
        break
    if not rows:
        raise TableError(
            "This file has a header but no rows below it: bring one with at least one row."
        )
    padded, dropped = tally.padded, tally.dropped
    if len(padded) + len(dropped) > 0.5 * (rows + len(dropped)):
        raise TableError(
            f"Most rows of this file do not have the {width} columns of its first ones. {_SAVE}"
        )
    notes += dialect.notes
    if tally.comments:
        notes.append("Lines of comment between the rows were skipped.")
    if padded:
        notes.append(
            f"{_rows_word(len(padded))} too short ({_some(padded)}): the cells at the end count as "
            "missing."
        )
    if dropped:
        notes.append(
            f"{_rows_word(len(dropped))} left out, with more than {width} cells ({_some(dropped)})."
        )
    return _finish(dict(zip(dialect.names, cells, strict=True)), dialect.decimal_comma, {},
                   frozenset(), rows + len(dropped), notes)  # fmt: skip


def _count(data: memoryview, what: bytes) -> int:
    return sum(
        bytes(data[start : start + BLOCK_BYTES]).count(what)
        for start in range(0, len(data), BLOCK_BYTES)
    )


def _most_rows(body: memoryview, limits: Limits | None) -> int:
    """How many rows there can be: no more than line ends, and one that has none; of a file of too
    many rows, so many that this is seen."""
    ends = _count(body, b"\n")
    if returns := _count(body, b"\r"):
        ends += returns - _count(body, b"\r\n")
    return min(ends, limits.rows) + 1 if limits else ends + 1


def _rows_word(n: int) -> str:
    return f"{n:,} row was" if n == 1 else f"{n:,} rows were"


def _some(rows: list[int]) -> str:
    """The first few of many row numbers."""
    few = ", ".join(f"{r:,}" for r in rows[:3])
    return f"row {few}" if len(rows) == 1 else f"rows {few}{', …' if len(rows) > 3 else ''}"


def _gather(
    blocks: Callable[[list[int]], Blocks],
    width: int,
    most: int,
    decimal_comma: bool,
    limits: Limits | None,
) -> tuple[list[Cells], int]:
    """Columns put together from blocks: numbers as long as every block agrees, else words.

    Numbers go at once to where they stay, with room for as many rows as there can be: memory that
    is never written to is never taken. A column that stops being numbers at a late block is read a
    second time, as words, so that no cell is lost whatever the first blocks looked like.
    """
    numbers = np.empty((width, most))
    texts: list[list[pa.Array]] = [[] for _ in range(width)]
    again: set[int] = set()
    rows = 0
    for block in blocks(list(range(width))):
        before, rows = rows, rows + len(block[0])
        if limits and rows > limits.rows:
            raise _too_large(f"more than {limits.rows:,} rows", f"{limits.rows:,}")
        for i, cells in enumerate(block):
            if i in again:
                continue
            if not texts[i]:
                x = plain_numbers(cells, decimal_comma)
                if x is not None:
                    numbers[i, before:rows] = x
                    continue
                if before:
                    again.add(i)
                    continue
            texts[i].append(words(cells).dictionary_encode())
    if again:
        for block in blocks(sorted(again)):
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


def _finish(
    cells: dict[str, Cells],
    decimal_comma: bool,
    how: dict[str, str],
    unusable: frozenset[str],
    rows_in: int,
    notes: list[str],
) -> Raw:
    """Words that are numbers in another notation become numbers; infinities become missing."""
    infinite = {}
    for name, column in cells.items():
        if not isinstance(column, np.ndarray):
            numbers = parse_numbers(column.dictionary, weights(column), decimal_comma)
            used = weights(column) > 0
            if used.any() and not (
                np.isnan(numbers.values[used]).any() or numbers.codes or numbers.too_long
            ):
                column = spread(column, numbers.values, np.nan)
                if numbers.how:
                    how[name] = numbers.how
        if isinstance(column, np.ndarray) and column.dtype == np.float64:
            endless = np.isinf(column)
            if endless.any():
                infinite[name] = int(endless.sum())
                column = np.where(endless, np.nan, column)
        cells[name] = column
    return Raw(cells, how, infinite, unusable, rows_in, decimal_comma, tuple(notes))


def _read_parquet(data: memoryview, limits: Limits | None) -> Raw:
    """The columns of a Parquet file; nested ones and raw bytes cannot be used."""
    try:
        file = parquet.ParquetFile(pa.BufferReader(pa.py_buffer(data)))
        rows, width = file.metadata.num_rows, len(file.schema_arrow)
        text = [f.name for f in file.schema_arrow if pa.types.is_string(f.type)]
    except Exception:
        raise TableError("This Parquet file is damaged or cut short: write it again.") from None
    if limits and width > limits.columns:
        raise _too_large(f"{width:,} columns", f"{limits.columns:,}")
    if limits and rows > limits.rows:
        raise _too_large(f"{rows:,} rows", f"{limits.rows:,}")
    if not rows or not width:
        raise TableError("This Parquet file holds no rows: bring one with at least one.")
    try:
        # Words stay shared, so that a small file cannot unfold to fill the memory.
        table = parquet.read_table(
            pa.BufferReader(pa.py_buffer(data)), read_dictionary=text, use_threads=True
        )
        names, notes = _names([str(n) for n in table.column_names], width)
        cells: dict[str, Cells] = {}
        how: dict[str, str] = {}
        columns = table.columns[::-1]
        del table
        for name in names:  # each goes when it has become cells
            cells[name], reason = from_arrow(columns.pop())
            if reason:
                how[name] = reason
    except Exception:
        raise TableError("This Parquet file is damaged or cut short: write it again.") from None
    unusable = frozenset(how)
    return _finish(cells, False, how, unusable, rows, ["The file is Parquet.", *notes])


def first_rows_of_parquet(source: Any, rows: int = 1000) -> bytes:
    """A small Parquet file of the first rows of a large one, of which the rest is not read."""
    try:
        source.seek(0)
        batch = next(parquet.ParquetFile(source).iter_batches(rows))
        file = io.BytesIO()
        parquet.write_table(pa.Table.from_batches([batch]), file)
    except Exception:
        raise TableError("This Parquet file is damaged or cut short: write it again.") from None
    return file.getvalue()


def _is_text(t: pa.DataType) -> bool:
    return pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)


def from_arrow(column: pa.ChunkedArray) -> tuple[Cells, str]:
    """One Parquet column as numbers, times or words, or the reason why it is none of these."""
    t = column.type
    if pa.types.is_dictionary(t):
        t = t.value_type
    if pa.types.is_boolean(t) or _is_text(t):
        text = pc.cast(column, pa.string())
        return words(text.combine_chunks()).dictionary_encode(), ""
    if pa.types.is_integer(t):
        column = pc.cast(column, t)
        x = pc.cast(column, pa.float64(), safe=False).combine_chunks()
        x = x.to_numpy(zero_copy_only=False)
        if np.nanmax(np.abs(x), initial=0.0) >= WHOLE:
            return pc.cast(column, pa.string()).combine_chunks().dictionary_encode(), ""
        return x, ""
    if pa.types.is_floating(t) or pa.types.is_decimal(t) or pa.types.is_null(t):
        x = pc.cast(pc.cast(column, t), pa.float64(), safe=False).combine_chunks()
        return x.to_numpy(zero_copy_only=False).astype(np.float64), ""
    if pa.types.is_date(t) or pa.types.is_timestamp(t):
        moment = pc.cast(pc.cast(column, t), pa.timestamp("us", getattr(t, "tz", None)), safe=False)
        counts = pc.cast(moment, pa.int64()).combine_chunks()
        known = counts.is_valid().to_numpy(zero_copy_only=False)
        days = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False).astype("M8[us]")
        return np.where(known, days, np.datetime64("NaT", "us")), ""
    return np.full(
        len(column), np.nan
    ), f"cells of type {visible(t)} are no numbers, dates or words"
