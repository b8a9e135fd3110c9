"""What a file may hold on a shared server, and the error that says what is wrong with it."""

from dataclasses import dataclass

WAY_ON = "python -m dgp_core fit FILE --target COLUMN"
SAVE = "Save the table as CSV (comma separated, UTF-8) and try again."


class TableError(ValueError):
    """A file, or a choice about it, that cannot be used; the message says what to do."""


@dataclass(frozen=True)
class Limits:
    """How large a file may be where many people share one server."""

    bytes: int = 300_000_000
    rows: int = 2_000_000
    columns: int = 1_000
    cells: int = 60_000_000
    """Rows times columns: as many as a live run takes, half a gigabyte as numbers."""
    sheet_cells: int = 1_000_000
    """Cells of a spreadsheet, which takes longer to read than text."""
    sheet_bytes: int = 150_000_000
    """A workbook's cells and words once unpacked: 150 a cell."""
    other_bytes: int = 20_000_000
    """All else in it, which openpyxl reads whole: styles take ten times as much in memory."""
    ratio: int = 30
    """How many times its size a packed text may take: gzip gets 3 to 10 out of tables …"""
    slack: int = 16_000_000
    """… and so many bytes in any case: a short file may repeat itself a thousand times."""


LIMITS = Limits()


def too_large(what: str, limit: int) -> TableError:
    """The error for a file that exceeds a limit."""
    return TableError(
        f"This file has {what}; the limit here is {limit:,}, because the memory is shared by all "
        f"who are connected. Take fewer, or train without the screen, where there is no limit: "
        f"{WAY_ON}"
    )


def check_size(rows: int, columns: int, limits: Limits | None, cells: int = 0) -> None:
    """Raises TableError for more rows, columns or cells than the limits allow; `cells` where there
    are more than rows times columns."""
    if limits and columns > limits.columns:
        raise too_large(f"{columns:,} columns", limits.columns)
    if limits and rows > limits.rows:
        raise too_large(f"{rows:,} rows", limits.rows)
    cells = max(cells, rows * columns)
    if limits and cells > limits.cells:
        raise too_large(f"{cells:,} cells", limits.cells)
