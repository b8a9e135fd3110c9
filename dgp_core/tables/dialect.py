"""How a text file is written: its separator, its header, its decimal mark, and how sure that is."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dgp_core.gp.data import counted
from dgp_core.tables.encodings import HEAD_BYTES
from dgp_core.tables.limits import SAVE, Limits, TableError, check_size
from dgp_core.tables.parsing import MISSING, is_value
from dgp_core.tables.plain import visible

NAME_LIMIT = 200
HEAD_LINES = 20
HEAD_ROWS = 500
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
"""What may separate columns, and its name; a space stands for any run of spaces and tabs."""

_COMMENT = re.compile(r"\s*(#|%|//)")
_COMMA_DECIMAL = re.compile(r"[-+−]?(\d*,(\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+|\d+(\.\d{3})+,\d+)")
_DOT_DECIMAL = re.compile(r"[-+−]?(\d*\.(\d{1,2}|\d{4,})|0\.\d+|\d{4,}\.\d+|\d+(,\d{3})+\.\d+)")
_THOUSANDS_OR_DECIMALS = re.compile(r"[-+−]?[1-9]\d{0,2}[.,]\d{3}")


@dataclass(frozen=True)
class Dialect:
    """How a text file is written."""

    separator: str
    names: tuple[str, ...]
    header: bool
    """Whether the names stand in the file."""
    start: int
    """Where the first row of data begins, in bytes."""
    decimal_comma: bool
    comment: str
    """The mark that begins a comment line, if the file has such lines."""
    spaced_quotes: bool
    """Whether spaces stand between separators and quotation marks."""
    notes: tuple[str, ...]
    doubtful: tuple[str, ...]
    """Which of separator, decimal and header were guessed, and may be wrong."""


def csv_rows(lines: Iterator[str] | list[str], separator: str, quoting: bool):
    """Rows of cells; a run of spaces or tabs is one separator where that is a space."""
    if separator == " ":
        lines = (line.replace("\t", " ").strip() + "\n" for line in lines)
    return csv.reader(
        lines,
        delimiter=separator,
        skipinitialspace=True,
        quoting=csv.QUOTE_MINIMAL if quoting else csv.QUOTE_NONE,
    )


def sniff(
    text: memoryview,
    limits: Limits | None,
    separator: str | None = None,
    decimal: str | None = None,
    has_header: bool | None = None,
) -> Dialect:
    """The dialect of a text file from its first rows; what is given is not guessed."""
    lines, cut = _first_lines(text)
    doubtful, notes, skip = [], [], 0
    if given := re.fullmatch(r"\ufeff?\"?sep=(.)\"?\s*", lines[0], re.IGNORECASE):
        separator, skip = separator or given[1], 1
    top, comments = skip, []
    while top < len(lines) and (not lines[top].strip() or _COMMENT.match(lines[top])):
        if lines[top].strip():
            comments.append(top)
        top += 1
    body = lines[top : top + HEAD_ROWS]
    comment = ""
    if comments and (match := _COMMENT.match(lines[comments[0]])):
        comment = match[1]
    if not body:
        raise TableError(f"This file holds no rows, only blank lines or comments. {SAVE}")

    quoting = cut or sum(line.count('"') for line in body) % 2 == 0
    separator, rows, width, sure = _choose_separator(body, separator, quoting)
    if not sure:
        doubtful.append("separator")
    check_size(0, width, limits)

    # Rows of another width before the first full one are a title or remarks.
    full = [i for i, row in enumerate(rows) if len(row) == width]
    first = full[0]
    below = [rows[i] for i in full[1:]]
    header: list[str] | None = None
    short = [row for row in rows[:first] if len(row) == width - 1 and not any(map(_no_name, row))]
    named_by: list[list[str]] = []
    headless = has_header is False
    if width > 1 and short and not headless and _is_header(rows[first], below) != (True, True):
        trailing = all(not rows[i][-1].strip() for i in full)
        header = [*short[-1], ""] if trailing else ["", *short[-1]]
        named_by = short[-1:]
    elif comments and comments[-1] == top - 1 and not headless:
        named = lines[comments[-1]].lstrip().removeprefix(comment)
        cells = next(csv_rows([named], separator, quoting), [])
        if len(cells) == width and sum(map(_no_name, cells)) <= (not cells[0].strip()):
            header, comments = cells, comments[:-1]
    if header is None and has_header is None:
        has_header, sure = _is_header(rows[first], below)
        if not sure:
            doubtful.append("header")
    if header is None and has_header:
        header = rows[first]
        first += 1
    passed = _lines_of(body, separator, quoting, first)
    if header is None:
        columns = f"column 1 to column {width}" if width > 1 else "column 1"
        notes.append(f"There is no header: the columns are called {columns}.")
    titles = [" ".join(row) for row in rows[: full[0]] if row and row not in named_by]
    if comments or titles:
        n = len(comments) + len(titles)
        sample = lines[comments[0]] if comments else titles[0]
        were = "was" if n == 1 else "were"
        notes.append(f"{counted(n, 'line')} above the table {were} skipped: “{visible(sample)}”…")
    start = sum(len(line.encode()) for line in lines[: top + passed])

    names, renamed = distinct_names(header, width)
    notes += renamed
    decimal_comma, sure = decimal == ",", True
    if decimal is None:
        cells = [cell.strip() for row in rows[first:] for cell in row]
        decimal_comma, sure = _has_decimal_comma(cells, separator)
    if not sure:
        doubtful.append("decimal")
    if decimal_comma:
        notes.append("The comma is the decimal mark.")
    notes.insert(0, f"Columns are separated by {SEPARATORS.get(separator, repr(separator))}.")
    spaced = separator != " " and re.search(re.escape(separator) + ' +"', "".join(body)) is not None
    return Dialect(
        separator, names, header is not None, start, decimal_comma, comment, spaced, tuple(notes),
        tuple(doubtful),
    )  # fmt: skip


def _first_lines(text: memoryview) -> tuple[list[str], bool]:
    """The first lines, with their ends, and whether there are more."""
    size = HEAD_BYTES
    while size < len(text) and len(bytes(text[:size]).splitlines()) < HEAD_LINES:
        size *= 4
    head = bytes(text[:size])
    cut = len(head) < len(text)
    lines = list(io.StringIO(head.decode("utf-8", "ignore"), newline=""))
    return (lines[:-1] if cut and len(lines) > 1 else lines), cut


def _choose_separator(
    body: list[str], given: str | None, quoting: bool
) -> tuple[str, list[list[str]], int, bool]:
    """The separator under which rows are equally wide and cells make sense; the rows, the width,
    and whether no other separator does nearly as well."""
    candidates: list[tuple[float, str, list[list[str]], int]] = []
    for separator in [given] if given else SEPARATORS:
        try:
            rows = [row for row in csv_rows(body, separator, quoting) if "".join(row).strip()]
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
        enough = even >= (0.6 if sense > 0.2 else 0.9) and (len(rest) > 1 or not first)
        # Spaces within text are no separators where another one stands in nearly every line.
        known = [cell for cell in cells if cell.strip().lower() not in MISSING]
        if separator == " " and sum(map(is_value, known)) <= 0.5 * len(known):
            filled = [line for line in body if line.strip()]
            enough &= not any(
                sum(other in line for line in filled) >= 0.9 * len(filled)
                for other in SEPARATORS
                if other != " "
            )
        if enough or given:
            candidates.append((score, separator, rows, width))
    if candidates:
        candidates.sort(key=lambda c: -c[0])
        score, separator, rows, width = candidates[0]
        rivals = [c for c in candidates[1:] if c[0] > 0.8 * score]
        return separator, rows, width, not rivals
    column = [[line.strip()] for line in body if line.strip()]
    below = [row[0] for row in column[1:]] or [column[0][0]]
    if sum(map(is_value, below)) >= 0.8 * len(below):
        return ",", column, 1, True
    raise TableError(
        "No table was found in this file: its lines do not split into equally many columns by "
        f"commas, semicolons, tabs, bars or spaces. {SAVE}"
    )


def _lines_of(body: list[str], separator: str, quoting: bool, rows: int) -> int:
    """How many lines the first rows (blank ones not counted) take up."""
    if not rows:
        return 0
    reader = csv_rows(body, separator, quoting)
    for row in reader:
        rows -= bool("".join(row).strip())
        if not rows:
            break
    return reader.line_num


def _no_name(cell: str) -> bool:
    """Whether a cell is a number or a date; words for missing and infinite may be names."""
    word = cell.strip().lower()
    named = word in MISSING and word or word.lstrip("+-") in ("inf", "infinity", "∞")
    return is_value(cell) and not named


def _is_header(first: list[str], below: list[list[str]]) -> tuple[bool, bool]:
    """Whether the first row names the columns, that is, holds no values where the others do; and
    whether this is sure."""
    cells = [cell.strip() for cell in first]
    values = [cell for cell in cells if cell and _no_name(cell)]
    if values:
        # A run of whole numbers beside an empty or a worded corner: pandas' columns, or years.
        whole = [int(cell) for cell in values if cell.isascii() and cell.isdigit()]
        run = len(whole) == len(values) >= 2 and all(b - a == 1 for a, b in zip(whole, whole[1:]))  # noqa: B905
        pandas = not cells[0] and bool(whole) and whole[0] == 0
        years = bool(whole) and 1800 <= whole[0] <= 2100 and len(values) >= 3
        named = run and (pandas or (years and not is_value(cells[0]) and len(below) > 0))
        return named, len(values) > 0.5 * len(cells) and not run
    words = [cell for cell in cells if not is_value(cell)]
    if not words:
        return False, not any(cells)
    if not below:
        return True, False
    # A name does not come back as a value of its own column.
    again = any(cell and cell == row[i].strip() for row in below for i, cell in enumerate(cells))
    if any(is_value(row[i]) for row in below[:50] for i, cell in enumerate(cells) if cell):
        missing = len(words) < sum(map(bool, cells))
        return not (missing and again), not (missing or again)
    return len(set(cells)) == len(cells) and not again, False


def _has_decimal_comma(cells: list[str], separator: str) -> tuple[bool, bool]:
    """Whether the comma is the decimal mark, and whether this is sure."""
    commas = sum(_COMMA_DECIMAL.fullmatch(cell) is not None for cell in cells)
    dots = sum(_DOT_DECIMAL.fullmatch(cell) is not None for cell in cells)
    # Semicolons are there because the comma is taken.
    taken = separator == ";" and any(re.fullmatch(r"[-+−]?\d+,\d+", c) for c in cells)
    either = any(map(_THOUSANDS_OR_DECIMALS.fullmatch, cells))
    return commas > dots or (taken and dots == 0), (commas == 0 or dots == 0) and not (
        either and commas == dots == 0
    )


def distinct_names(header: Sequence[str] | None, width: int) -> tuple[tuple[str, ...], list[str]]:
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
