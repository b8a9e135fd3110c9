"""A user's file, from bytes to columns of numbers and words, with a note of all choices made."""

import csv
import gzip
import io
import os
import zlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dgp_core.tables.csv_reader import read_text
from dgp_core.tables.dialect import sniff
from dgp_core.tables.encodings import ENCODINGS, HEAD_BYTES, to_utf8
from dgp_core.tables.excel import is_workbook, sheet_as_csv
from dgp_core.tables.limits import LIMITS, SAVE, WAY_ON, Limits, TableError, too_large
from dgp_core.tables.parquet import first_rows_of_parquet, read_parquet
from dgp_core.tables.parsing import Cells, parse_numbers, spread, weights
from dgp_core.tables.plain import visible

__all__ = ["LIMITS", "WAY_ON", "Limits", "Options", "Raw", "Reading", "TableError",
           "first_rows_of_parquet", "read_columns"]  # fmt: skip

_FOREIGN = (
    (b"PK\x03\x04", "a zip archive or a NumPy archive, and no Excel workbook (.xlsx)"),
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


@dataclass(frozen=True)
class Options:
    """How a file is to be read; None is guessed."""

    encoding: str | None = None
    """One of `encodings.ENCODINGS`."""
    separator: str | None = None
    """One character, such as those of `dialect.SEPARATORS`."""
    decimal: str | None = None
    """A point or a comma."""
    header: bool | None = None
    """Whether the first row names the columns."""
    sheet: str | None = None
    """The sheet of a workbook."""

    @property
    def given(self) -> dict[str, Any]:
        """What is not guessed, by name, as `read_table` takes it."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __post_init__(self):
        if self.encoding is not None and self.encoding not in ENCODINGS:
            raise TableError(f"The encoding is one of {', '.join(ENCODINGS)}.")
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\r\n'):
            raise TableError("The separator is one character, such as a comma or a tab.")
        if self.decimal not in (None, ".", ","):
            raise TableError("The decimal mark is a point or a comma.")


@dataclass(frozen=True)
class Reading:
    """How a file was read, whether chosen or guessed."""

    format: str
    """text, excel or parquet."""
    encoding: str = ""
    separator: str = ""
    decimal: str = "."
    header: bool = True
    sheet: str = ""
    sheets: tuple[str, ...] = ()
    doubtful: tuple[str, ...] = ()
    """Which of encoding, separator, decimal and header were guessed, and may be wrong."""


@dataclass(frozen=True, eq=False)
class Raw:
    """The columns of a file before anyone decided what they are for."""

    cells: dict[str, Cells]
    notation: dict[str, str]
    """How a column's numbers are written, or why it cannot be used, where there is more to say."""
    infinite: dict[str, int]
    """How many infinite cells of a column now count as missing."""
    unusable: frozenset[str]
    """Columns of a type that is no number, date or word."""
    rows_in: int
    """Rows that the file holds, those that could not be read included."""
    reading: Reading
    notes: tuple[str, ...]


def read_columns(source: Any, limits: Limits | None, options: Options | None = None) -> Raw:
    """The columns of a file: CSV, TSV and the like (may be gzipped), Excel or Parquet."""
    options = options or Options()
    data = _bytes(source, limits)
    if data[:2] == b"\x1f\x8b":
        data = _unzip(data, limits)
    if data[:4] == b"PAR1":
        cells, unusable, notes = read_parquet(data, limits)
        rows = len(next(iter(cells.values())))
        return _finish(cells, unusable, rows, Reading("parquet"), notes)
    if data[:4] == b"PK\x03\x04" and is_workbook(data):
        data, sheet, sheets = sheet_as_csv(data, limits, options.sheet)
        if not data.tobytes().strip(b'\n," '):
            raise TableError(f"The sheet “{visible(sheet)}” is empty: choose another one.")
        others = f", the first of {len(sheets)}" if len(sheets) > 1 and not options.sheet else ""
        notes = [f"The file is an Excel workbook: sheet “{visible(sheet)}” was read{others}."]
        options = Options(None, ",", ".", options.header, sheet)
        return _read_text(data, options, "", notes, (), sheets, limits)
    for magic, what in _FOREIGN:
        if bytes(data[: len(magic)]) == magic:
            raise TableError(f"This is {what}, not a table of text. {SAVE}")
    text, encoding, title, sure = to_utf8(data, options.encoding)
    del data
    notes = [f"The text is {title}{'' if sure else ', to judge by its letters'}."]
    doubtful = () if sure else ("encoding",)
    return _read_text(text, options, encoding, notes, doubtful, (), limits)


def _bytes(source: Any, limits: Limits | None) -> memoryview:
    """All bytes of a path, an open file or a bytes object; never more than the limit."""
    most = limits.bytes if limits else None
    if isinstance(source, bytes | bytearray | memoryview):
        data = memoryview(source).cast("B")
    elif isinstance(source, str | os.PathLike):
        try:
            with open(source, "rb") as file:
                data = memoryview(file.read() if most is None else file.read(most + 1))
        except (OSError, ValueError) as error:
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
        raise too_large(f"more than {most:,} bytes", most)
    if not len(data):
        raise TableError("This file is empty: bring one with a header and at least one row.")
    return data


def _unzip(data: memoryview, limits: Limits | None) -> memoryview:
    """What a gzip file holds; never more than the limit, since a small file can fill the memory."""
    most = min(limits.bytes, max(limits.slack, limits.ratio * len(data))) if limits else -2
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error):
        raise TableError("This gzip file is damaged or cut short: compress it again.") from None
    if limits and len(content) > most:
        raise too_large(f"more than {most:,} bytes once unpacked", most)
    if not content:
        raise TableError("This gzip file holds nothing: bring one with a header and rows.")
    if content[:2] == b"\x1f\x8b":
        raise TableError("This is a gzip file inside a gzip file: unpack it once and try again.")
    return memoryview(content)


def _read_text(
    text: memoryview,
    options: Options,
    encoding: str,
    notes: list[str],
    doubtful: tuple[str, ...],
    sheets: tuple[str, ...],
    limits: Limits | None,
) -> Raw:
    """The columns of a text in UTF-8."""
    while len(text) and text[-1] == 0x1A:
        text = text[:-1]
    if not bytes(text[:HEAD_BYTES]).strip():
        raise TableError("This file is blank: bring one with a header and at least one row.")
    try:
        dialect = sniff(text, limits, options.separator, options.decimal, options.header)
        columns, rows_in, more = read_text(text, dialect, limits)
    except csv.Error as error:
        raise TableError(
            f"The rows of this file cannot be told apart ({visible(error, 120)}). {SAVE}"
        ) from None
    if sheets:
        more = [note for note in more if not note.startswith("Columns are separated")]
    reading = Reading(
        "excel" if sheets else "text",
        encoding,
        dialect.separator,
        "," if dialect.decimal_comma else ".",
        dialect.header,
        options.sheet or "",
        sheets,
        (*doubtful, *dialect.doubtful),
    )
    cells = dict(zip(dialect.names, columns, strict=True))
    return _finish(cells, {}, rows_in, reading, notes + more)


def _finish(
    cells: dict[str, Cells],
    unusable: dict[str, str],
    rows_in: int,
    reading: Reading,
    notes: list[str],
) -> Raw:
    """Words that are numbers in another notation become numbers; infinities become missing."""
    infinite, notation = {}, dict(unusable)
    for name, column in cells.items():
        if not isinstance(column, np.ndarray):
            numbers = parse_numbers(column.dictionary, weights(column), reading.decimal == ",")
            used = weights(column) > 0
            if used.any() and not (
                np.isnan(numbers.values[used]).any() or numbers.codes or numbers.too_long
            ):
                column = spread(column, numbers.values, np.nan)
                if numbers.notation:
                    notation[name] = numbers.notation
        if isinstance(column, np.ndarray) and column.dtype == np.float64:
            endless = np.isinf(column)
            if endless.any():
                infinite[name] = int(endless.sum())
                column = np.where(endless, np.nan, column)
        cells[name] = column
    return Raw(cells, notation, infinite, frozenset(unusable), rows_in, reading, tuple(notes))
