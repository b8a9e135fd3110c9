"""CSV and TSV larger than memory: block by block, as the small ones are read."""

import codecs
import gzip
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from dgp_core.gp.data import counted
from dgp_core.tables.csv_reader import arrow_options
from dgp_core.tables.dialect import Dialect, sniff
from dgp_core.tables.encodings import BOMS, to_utf8
from dgp_core.tables.limits import SAVE, TableError
from dgp_core.tables.parsing import plain_numbers, words
from dgp_core.tables.plain import visible
from dgp_core.tables.reading import Reading
from dgp_core.tables.recipe import some
from dgp_core.tables.table import Table, read_table

HEAD_BYTES = 1 << 21
"""Of a text, to decide its notation and its columns by."""

HEAD_ROWS = 10_000
"""Rows that columns are decided by."""

_MARKS = {encoding: mark for mark, encoding, _ in BOMS}


def demand_same_columns(
    path: Path, names: Sequence[str], first: Path, needed: Sequence[str]
) -> None:
    """Refuses a file that lacks columns of the first one of its folder."""
    if absent := sorted(set(needed) - set(names)):
        raise TableError(
            f"{visible(path.name)} lacks {some(absent)}, which {visible(first.name)} has: the "
            "files of a folder need the same columns."
        )


class LargeText:
    """Text files of the same columns, read from the first row to the last."""

    def __init__(self, files: list[Path], name: str, **given: Any):
        self.files, self.name, self.given = files, visible(name, 200), given
        self.notes: list[str] = []
        self._dialects: list[tuple[Dialect, str]] = []
        sizes = []
        for path in files:
            dialect, encoding, row_bytes = self._sniffed(path)
            if self._dialects:
                demand_same_columns(path, dialect.names, files[0], self._dialects[0][0].names)
            self._dialects.append((dialect, encoding))
            sizes.append(path.stat().st_size / row_bytes)
        self.columns = self._dialects[0][0].names
        self.rows = max(1, round(sum(sizes)))
        """An estimate: bytes over the length of the first rows."""

    def _sniffed(self, path: Path) -> tuple[Dialect, str, float]:
        """A file's dialect, its encoding, and how many of its bytes make a row."""
        raw, text, encoding = self._head_of(path)
        dialect = sniff(text, None, *map(self.given.get, ("separator", "decimal", "header")))
        if dialect.separator == " ":
            raise TableError(
                f"{visible(path.name)} separates its columns by spaces, and a file larger than "
                "memory needs one mark between two cells: write commas or tabs instead."
            )
        lines = max(1, bytes(text[dialect.start :]).count(b"\n"))
        used = path.stat().st_size if len(raw) < HEAD_BYTES else self._raw_used(path)
        return dialect, encoding, max(1.0, used / lines)

    def _raw_used(self, path: Path) -> int:
        """How many bytes of the file itself its head takes."""
        with path.open("rb") as file:
            if file.read(2) != b"\x1f\x8b":
                return HEAD_BYTES
            file.seek(0)
            gzip.GzipFile(fileobj=file).read(HEAD_BYTES)
            return file.tell()

    def _head_of(self, path: Path) -> tuple[bytes, memoryview, str]:
        """The first bytes of a file, unzipped; the whole lines in them as UTF-8; the encoding."""
        try:
            with self._opened(path) as file:
                raw = file.read(HEAD_BYTES)
        except (OSError, EOFError) as error:
            why = getattr(error, "strerror", None) or "it is damaged or cut short"
            raise TableError(f"{visible(path.name)} cannot be opened: {why}.") from None
        given = self.given.get("encoding")
        for spare in range(4):  # a character may have been cut in two
            try:
                text, encoding, _, _ = to_utf8(memoryview(raw[: len(raw) - spare]), given)
                break
            except TableError:
                if spare == 3:
                    raise
        whole = bytes(text)
        if len(raw) == HEAD_BYTES and b"\n" in whole:
            whole = whole[: whole.rindex(b"\n") + 1]
        return raw, memoryview(whole), encoding

    @staticmethod
    def _opened(path: Path) -> IO[bytes]:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        return cast(IO[bytes], gzip.open(path)) if packed else path.open("rb")

    def head(self) -> Table:
        """The first rows, with a decision for each column, as for a small file."""
        text = bytes(self._head_of(self.files[0])[1])
        given = {n: v for n, v in self.given.items() if n != "encoding"}
        lines = text.split(b"\n", HEAD_ROWS)
        return read_table(b"\n".join(lines[:HEAD_ROWS]), self.name, None, **given)

    def tables(self, words: frozenset[str] = frozenset()) -> Iterator[Table]:
        """All rows in their order; columns named in `words` stay text."""
        self.notes = []
        for path, (dialect, encoding) in zip(self.files, self._dialects, strict=True):
            yield from self._tables_of(path, dialect, encoding, words)

    def _tables_of(
        self, path: Path, dialect: Dialect, encoding: str, kept: frozenset[str]
    ) -> Iterator[Table]:
        uneven = 0

        def skip(row) -> str:
            nonlocal uneven
            uneven += row.expected_columns != row.actual_columns
            return "skip"

        reading = Reading(
            "text", encoding, dialect.separator, "," if dialect.decimal_comma else "."
        )
        try:
            with self._opened(path) as file:
                mark = _MARKS.get(encoding, b"")
                start = len(mark) if file.read(len(mark)) == mark else 0
                file.seek(start + (dialect.start if encoding == "utf-8" else 0))
                body: Any = file if encoding == "utf-8" else _InUtf8(file, encoding)
                if encoding != "utf-8":
                    body.read(dialect.start)
                options = arrow_options(dialect, list(range(len(dialect.names))), skip)
                for batch in arrow_csv.open_csv(body, **options):
                    cells = {
                        name: _cells(column, dialect.decimal_comma, name in kept)
                        for name, column in zip(dialect.names, batch.columns, strict=True)
                    }
                    n = batch.num_rows
                    yield Table(self.name, (), cells, n, n, reading, ())
        except (pa.ArrowInvalid, EOFError, gzip.BadGzipFile, UnicodeError) as error:
            raise TableError(
                f"{visible(path.name)} cannot be read to its end ({visible(error, 120)}). Where "
                f"its letters are not UTF-8, name its --encoding; else: {SAVE}"
            ) from None
        if uneven:
            self.notes.append(
                f"{counted(uneven, 'row')} of {visible(path.name)} with another number of cells "
                f"than {len(dialect.names)} {'is' if uneven == 1 else 'are'} left out."
            )


class _InUtf8(io.RawIOBase):
    """A text in another encoding, read as UTF-8."""

    def __init__(self, file: IO[bytes], encoding: str):
        self.file, self.ready = file, b""
        self.decoder = codecs.getincrementaldecoder(encoding)()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while len(self.ready) < size:
            block = self.file.read(size)
            self.ready += self.decoder.decode(block, final=not block).encode()
            if not block:
                break
        found, self.ready = self.ready[:size], self.ready[size:]
        return found


def _cells(column: pa.Array, decimal_comma: bool, as_text: bool):
    if not as_text:
        x = plain_numbers(column, decimal_comma)
        if x is not None:
            return np.where(np.isinf(x), np.nan, x)
    return words(column).dictionary_encode()
