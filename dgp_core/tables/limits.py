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
    cells: int = 1_000_000
    """Cells of a spreadsheet, which takes longer to read than text."""


LIMITS = Limits()


def too_large(what: str, limit: int) -> TableError:
    """The error for a file that exceeds a limit."""
    return TableError(
        f"This file has {what}; the limit here is {limit:,}, because the memory is shared by all "
        f"who are connected. Take fewer, or train without the screen, where there is no limit: "
        f"{WAY_ON}"
    )


def check_size(rows: int, columns: int, limits: Limits | None) -> None:
    """Raises TableError for more rows or columns than the limits allow."""
    if limits and columns > limits.columns:
        raise too_large(f"{columns:,} columns", limits.columns)
    if limits and rows > limits.rows:
        raise too_large(f"{rows:,} rows", limits.rows)
