"""What models of a table are judged by: a column of times or of groups, and which to propose."""

import re

import numpy as np
import pyarrow.compute as pc

from dgp_core.gp.splits import BY_CHANCE, FEWEST_GROUPS, FEWEST_TIMES, SplitBy, SplitWay
from dgp_core.tables.parsing import as_dates, as_numbers, as_words
from dgp_core.tables.plain import visible
from dgp_core.tables.table import Column, Proposal, Table, TableError, named_identifier

_TIME_NAMES = re.compile(r"(^|[\W_])(year|yr|date|time|timestamp|month|week|day)$", re.IGNORECASE)
_SUBJECT_NAMES = re.compile(
    r"(^|[\W_])(subject|patient|person|participant|student|customer|user|household|firm)$", re.I
)


def times(table: Table, column: str) -> np.ndarray | None:
    """A column's dates or numbers (N,), NaN where they are missing; None where most are."""
    cells, about = table.cells[table[column].name], table[column]
    x = np.full(table.rows, np.nan)
    if about.kind == "date" or not isinstance(cells, np.ndarray) or cells.dtype.kind == "M":
        moments = as_dates(cells, about.day_first)
        x = np.where(np.isnat(moments), np.nan, moments.astype(np.int64).astype(np.float64))
    if np.isnan(x).mean() > 0.5:
        x = as_numbers(cells, table.decimal_comma)
    return None if np.isnan(x).mean() > 0.5 else x


def groups(table: Table, column: str) -> np.ndarray:
    """Each row's group (N,): the code of its word; missing cells are a group of their own."""
    return pc.fill_null(as_words(table.cells[table[column].name]).indices, -1).to_numpy(False)


def split_by(table: Table, way: SplitWay, column: str, rows: np.ndarray) -> SplitBy:
    """What models of these rows of a table are judged by."""
    if way == "chance":
        return BY_CHANCE
    values = times(table, column) if way == "latest" else groups(table, column)
    if values is None:
        raise TableError(
            f"“{visible(column)}” holds neither dates nor numbers, so no row is the latest: judge "
            "by chance, by groups, or by another column."
        )
    try:
        return SplitBy(way, column, values[rows])
    except ValueError as error:
        raise TableError(str(error)) from None


def time_columns(table: Table, target: str) -> list[str]:
    """Columns whose latest rows can be held out: dates first, then numbers."""
    named = [c for c in table.columns if c.name != target]
    dates = [c.name for c in named if c.kind == "date" or _is_dropped_date(table, c)]
    return dates + [c.name for c in named if c.kind == "number" and c.name not in dates]


def _is_dropped_date(table: Table, column: Column) -> bool:
    cells = table.cells[column.name]
    if column.kind != "dropped":
        return False
    if isinstance(cells, np.ndarray):
        return cells.dtype.kind == "M"
    return column.day_first is not None


def group_columns(table: Table, target: str) -> list[str]:
    """Columns whose cells repeat: those that look like identifiers first."""
    found = [
        (not _is_identifier(column.name), column.name)
        for column in table.columns
        if column.name != target and _repeats(table, column.name)
    ]
    return [name for _, name in sorted(found, key=lambda one: one[0])]


def _is_identifier(name: str) -> bool:
    return named_identifier(name) or bool(_SUBJECT_NAMES.search(name))


def _repeats(table: Table, column: str) -> bool:
    """At least three groups, of two rows or more on average."""
    n_groups = len(np.unique(groups(table, column)))
    return FEWEST_GROUPS <= n_groups <= table.rows / 2


def propose_split(table: Table, target: str) -> Proposal:
    """The way and the column: the latest rows where there is a date, groups where an identifier
    repeats, else chance."""
    columns = [c for c in table.columns if c.name != target]
    for column in columns:
        dated = column.kind == "date" or _is_dropped_date(table, column)
        named = column.kind == "number" and _TIME_NAMES.search(column.name)
        if not (dated or named):
            continue
        x = times(table, column.name)
        if x is None or len(np.unique(x[~np.isnan(x)])) < FEWEST_TIMES:
            continue
        # A number under the name of a time tells the order of the rows only where they are in it.
        if dated or (np.diff(x[~np.isnan(x)]) >= 0).all():
            why = f"“{visible(column.name)}” puts the rows in time, and later ones are predicted."
            return Proposal(("latest", column.name), why)
    for column in columns:
        if _is_identifier(column.name) and _repeats(table, column.name):
            why = f"“{visible(column.name)}” names the same several times, and others will come."
            return Proposal(("groups", column.name), why)
    return Proposal(("chance", ""), "No column is a date or an identifier that repeats.")
