"""A user's file as a table: what each column is for, and why; from there to a `Dataset`."""

import difflib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from dgp_core.gp.data import Task, counted
from dgp_core.tables.leaks import likely_leaks
from dgp_core.tables.limits import LIMITS, WAY_ON, Limits, TableError
from dgp_core.tables.parsing import (
    FALSE,
    TRUE,
    Cells,
    as_booleans,
    as_dates,
    as_numbers,
    compact_dates,
    fingerprint,
    is_missing,
    known_words,
    parse_dates,
    parse_numbers,
    spell,
    spread,
    weights,
)
from dgp_core.tables.plain import export_csv, plain, visible
from dgp_core.tables.reading import Options, Raw, Reading, read_columns
from dgp_core.tables.recipe import (
    CLASS_LIMIT,
    LEVEL_LIMIT,
    ONE_ROW,
    Missing,
    Prepared,
    Recipe,
    Transform,
    as_written,
    prepare,
    reasons,
    same_cells,
    some,
)

__all__ = [
    "LIMITS", "Column", "Kind", "Limits", "Prepared", "Proposal", "Recipe", "Table", "TableError",
    "as_written",
    "export_csv", "plain", "possible_targets", "propose_missing", "propose_target", "propose_task",
    "propose_transform", "read_table", "report", "visible",
]  # fmt: skip

Kind = Literal["number", "date", "category", "boolean", "dropped"]
Decision = tuple[str, str, bool | None]
"""A column, its kind, and for dates whether the day comes first."""
MOST_LEVELS = 1_000
"""A column with more different words than this is no category."""
MOSTLY = 0.9
"""A column is numbers (or dates) with slips if at least this share of its cells is."""

_IDENTIFIER = re.compile(
    r"(^|[\W_])(id|ids|uuid|guid|index|idx|rowid|rownum|row|record|serial)$|^id[\W_]|^unnamed\b|^__index_level",
    re.IGNORECASE,
)
_CAMEL_IDENTIFIER = re.compile(r"[a-z](Id|ID)$")
_TARGETS = (
    "target y label labels class classes outcome response output result price strength medv "
    "survived churn diagnosis default species purchase".split()
)
_PLACE_OR_TIME = re.compile(
    _IDENTIFIER.pattern
    + r"|^(year|yr|month|week|weekday|quarter|date|store|shop|branch|zip|zip ?code|postcode)$",
    re.IGNORECASE,
)
_CLASS_NAMES = re.compile(r"(^|[\W_])(class|label|labels|species|category|type|digit|group)$", re.I)
_COUNT_NAMES = re.compile(
    r"(^|[\W_])(counts?|visits|n|num|number|claims|events|cases)([\W_]|$)", re.I
)


@dataclass(frozen=True)
class Column:
    """What one column of the file is for, and why."""

    name: str
    kind: Kind
    reason: str
    """Why, in words."""
    missing: int
    """Cells that are missing, or that say nothing once the column is of this kind."""
    day_first: bool | None = None
    """Whether 1/2/2024 is 1 February; None where the question does not come up."""


@dataclass(frozen=True, eq=False)
class Table:
    """A file that was read, with a decision for each of its columns."""

    name: str
    columns: tuple[Column, ...]
    cells: dict[str, Cells]
    """What each column holds: float64 (NaN), datetime64[us] (NaT) or words (null)."""
    rows: int
    rows_in: int
    """Rows in the file; more than `rows` if some could not be read."""
    reading: Reading
    """How the file was read, and which guesses may be wrong."""
    notes: tuple[str, ...]
    """The same in sentences, and what had to be put right."""
    options: Options = Options()
    """What of the reading was given, not guessed."""

    @property
    def decimal_comma(self) -> bool:
        """Whether the file writes 1,5 for one and a half."""
        return self.reading.decimal == ","

    def __getitem__(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        folded = {title.casefold(): title for title in self.cells}
        near = [folded[n] for n in difflib.get_close_matches(name.casefold(), folded, 3, 0.6)]
        hint = f" Is {some(near)} meant?" if near else ""
        raise TableError(
            f"There is no column “{visible(name)}”: choose from {some(self.cells, 20)}.{hint}"
        )

    def decide(self, name: str, kind: Kind, day_first: bool | None = None) -> "Table":
        """The table with another decision for one column."""
        before, cells = self[name], self.cells[name]
        if kind not in get_args(Kind):
            raise TableError(
                f"A column is one of {', '.join(get_args(Kind))}, not {visible(kind)}."
            )
        title = visible(name)
        day_first = before.day_first if day_first is None else day_first
        reason = "You chose it."
        if kind == "category":
            levels = known_words(cells)
            if not 2 <= len(levels) <= MOST_LEVELS:
                raise TableError(
                    f"“{title}” has {counted(len(levels), 'level')}; a category has 2 to "
                    f"{MOST_LEVELS:,}. Join some in the file, or drop the column."
                )
            if len(levels) > LEVEL_LIMIT:
                reason += f" {_frequent(len(levels))}"
        elif kind == "boolean":
            if unknown := as_booleans(cells)[1]:
                raise TableError(
                    f"“{title}” holds {some(unknown)}, which is neither yes nor no: category fits."
                )
        elif kind == "date":
            reason = _which_first(day_first) or reason
        column = Column(name, kind, reason, before.missing, day_first if kind == "date" else None)
        if kind != "dropped":
            absent, empty = int(_absent(self, column).sum()), int(is_missing(cells).sum())
            if absent == self.rows:
                raise TableError(
                    f"No cell of “{title}” can be read as a {kind}: choose another kind."
                )
            if absent > empty:
                reason += " " + _no_values(absent - empty, kind)
            column = replace(column, reason=reason, missing=absent)
        return replace(self, columns=tuple(column if c is before else c for c in self.columns))

    def to_dataset(
        self,
        targets: str | Sequence[str],
        task: Task | None = None,
        missing: Missing = "drop",
        transform: Transform | Sequence[Transform] = "none",
        story: str = "",
        exposure: str = "",
    ) -> Prepared:
        """The data set to learn these targets from all other columns that are not dropped.

        Rows without a target are left out; rows with a missing input are left out (`drop`), or take
        the median and are marked (`fill`). `exposure` is the column, if any, that multiplies each
        row's rate of counts.
        """
        names = (targets,) if isinstance(targets, str) else tuple(targets)
        if not names or len(set(names)) < len(names):
            raise TableError("Choose at least one column as the target, each of them once.")
        for name in (*names, *filter(None, [exposure])):
            self[name]
        if task is None:
            task = propose_task(self, names[0]).value if len(names) == 1 else "regression"
        transforms = (transform,) * len(names) if isinstance(transform, str) else tuple(transform)
        prepared = prepare(
            self,
            names,
            task,  # pyright: ignore[reportArgumentType]
            missing,
            transforms,  # pyright: ignore[reportArgumentType]
            story,
            exposure,
        )
        leaks = tuple(
            f"“{visible(column)}” alone predicts “{visible(names[0])}” without error. It is likely "
            "a leak, such as a copy of the target, or a row number in a file that is sorted by "
            "class: drop it unless it is known before the target is."
            for column in likely_leaks(prepared.dataset, prepared.recipe)
        )
        return replace(prepared, report=prepared.report + leaks)

    def share(self, prepared: Prepared) -> None:
        """Lets the data set that was made of this table hold the numbers of both.

        Columns that are inputs just as they are become views of these; no other one keeps a larger
        whole alive, such as all that was read, or an earlier data set.
        """
        X, place = prepared.dataset.X, 0
        if len(X) < self.rows:
            return
        views = {}
        for made in prepared.recipe.inputs_from:
            if made.kind == "number" and not made.indicator:
                views[made.column] = X[:, place]
            place += len(made.names)
        for name, cells in self.cells.items():
            if not isinstance(cells, np.ndarray):
                continue
            if name in views and cells.dtype == np.float64:
                self.cells[name] = views[name]
            elif cells.base is not None:
                self.cells[name] = cells.copy()


def read_table(
    source: Any,
    name: str = "",
    limits: Limits | None = LIMITS,
    *,
    encoding: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    sheet: str | None = None,
) -> Table:
    """The table in a file: CSV, TSV and the like (may be gzipped), Excel or Parquet.

    The source is a path, an open binary file or bytes. What is not given is guessed, and the
    table's `reading` says how. Whatever is wrong with the file raises TableError.
    """
    if not name and isinstance(source, str | os.PathLike):
        name = os.path.basename(os.fspath(source))
    options = Options(encoding, separator, decimal, header, sheet)
    raw = read_columns(source, limits, options)
    pa.default_memory_pool().release_unused()
    rows = len(next(iter(raw.cells.values())))
    nameless = all(name == f"column {i + 1}" for i, name in enumerate(raw.cells))
    columns: list[Column] = []
    seen: dict[bytes, str] = {}
    for i, (title, cells) in enumerate(raw.cells.items()):
        unnamed = title == f"column {i + 1}" and (not nameless or i == 0)
        column = _decide(title, cells, raw, unnamed, nameless)
        if column.kind != "dropped":
            first = seen.setdefault(fingerprint(cells), title)
            if first != title and same_cells(cells, raw.cells[first]):
                reason = f"Every cell is the same as in “{visible(first)}”."
                column = replace(column, kind="dropped", reason=reason)
        columns.append(column)
    return Table(
        visible(name, 200) or "table", tuple(columns), raw.cells, rows, raw.rows_in,
        raw.reading, raw.notes, options,
    )  # fmt: skip


def read_alike(
    source: Any, recipe: Recipe, name: str = "", limits: Limits | None = LIMITS, **given: Any
) -> Table:
    """A second file, read as the first one was told to be, or as is given; where that finds not the
    columns that the recipe needs and a guess does, by the guess."""

    def read(options: dict[str, Any]) -> Table:
        table = read_table(source, name, limits, **options)
        recipe.find(table, recipe.inputs_from)
        return table

    try:
        return read({**recipe.reading, **given})
    except TableError:
        if recipe.reading and not given:
            with suppress(TableError):
                return read({})
        raise


def _which_first(day_first: bool | None) -> str:
    if day_first is None:
        return ""
    return (
        "Read day first (1/2 is 1 February)."
        if day_first
        else "Read month first (1/2 is 2 January)."
    )


def _decide(name: str, cells: Cells, raw: Raw, unnamed: bool, no_header: bool) -> Column:
    """What a column is for, by its own cells and its name."""
    empty, n = int(is_missing(cells).sum()), len(cells)
    if name in raw.unusable:
        return Column(name, "dropped", f"Its {raw.notation[name]}.", empty)
    if empty == n:
        return Column(name, "dropped", "Every cell is missing.", empty)
    if isinstance(cells, pa.DictionaryArray):
        column = _decide_words(name, cells, raw.reading.decimal == ",", unnamed, no_header)
    elif cells.dtype.kind == "M":
        column = Column(name, "date", "The file says that these are dates.", empty)
        if np.nanmin(cells) == np.nanmax(cells):
            column = replace(column, kind="dropped", reason=f"Every cell is {np.nanmin(cells)}.")
    else:
        column = _decide_numbers(name, cells, unnamed, no_header)
    if column.kind == "dropped":
        return column
    extra = []
    if notation := raw.notation.get(name):
        extra.append(notation[0].upper() + notation[1:] + ".")
    if endless := raw.infinite.get(name):
        counts = "counts" if endless == 1 else "count"
        extra.append(f"{counted(endless, 'infinite cell')} {counts} as missing.")
    column = replace(column, reason=" ".join([column.reason, *extra]))
    if column.missing > 0.5 * n:
        reason = f"{column.missing:,} of {n:,} cells are missing."
        return replace(column, kind="dropped", reason=reason)
    return column


def named_identifier(name: str) -> bool:
    """Whether a column has the name of an identifier."""
    return bool(_IDENTIFIER.search(name) or _CAMEL_IDENTIFIER.search(name))


def _identifier(name: str, x: np.ndarray, unnamed: bool, no_header: bool) -> str:
    """Why whole numbers (NaN: missing or stray cells) identify their rows, or nothing."""
    places = np.flatnonzero(~np.isnan(x))
    known = x[places]
    if len(known) < 3 or (known[:64] % 1 != 0).any() or (known % 1 != 0).any():
        return ""
    if no_header and unnamed:
        # Of columns without names only the first can be a row number, and it counts from 0 or 1.
        counts = (known - places == known[0] - places[0]).all()
        return "a row number." if counts and known[0] - places[0] in (-1, 0, 1) else ""
    named = named_identifier(name) or unnamed
    return (
        "a different whole number in every row."
        if named and len(np.unique(known)) == len(known)
        else ""
    )


def _decide_numbers(name: str, x: np.ndarray, unnamed: bool, no_header: bool) -> Column:
    empty = int(np.isnan(x).sum())
    known = x[~np.isnan(x)] if empty else x
    low, high = known.min(), known.max()
    if low == high:
        return Column(name, "dropped", f"Every cell is {spell(low)}.", empty)
    if low >= 19000101 and high <= 21001231 and not np.isnat(compact_dates(known)).any():
        return Column(name, "date", "Every number is a date, written like 20240131.", empty)
    if low == 0 and high == 1 and ((known == 0) | (known == 1)).all():
        return Column(name, "boolean", "Only 0 and 1.", empty)
    if why := _identifier(name, x, unnamed, no_header):
        return Column(name, "dropped", f"It looks like an identifier: {why}", empty)
    if (known[:64] % 1 == 0).all() and (known % 1 == 0).all():
        if not empty and len(known) > 2 and (np.diff(known) == 1).all():
            reason = "Whole numbers that count the rows; drop it if it is a mere row number."
            return Column(name, "number", reason, empty)
        return Column(name, "number", "Whole numbers.", empty)
    return Column(name, "number", "Numbers.", empty)


def _decide_words(
    name: str, cells: pa.DictionaryArray, decimal_comma: bool, unnamed: bool, no_header: bool
) -> Column:
    counts, empty = weights(cells), cells.null_count
    held = counts > 0
    k, n = int(held.sum()), int(counts.sum())
    texts = cells.dictionary
    if k == 1:
        word = texts[int(np.flatnonzero(held)[0])].as_py()
        return Column(name, "dropped", f"Every cell is “{visible(word)}”.", empty)
    if k <= LEVEL_LIMIT:
        lower = {w.lower() for w, h in zip(texts.to_pylist(), held, strict=True) if h}
        if lower <= TRUE | FALSE and lower & TRUE and lower & FALSE:
            return Column(name, "boolean", f"Only {some(sorted(lower))}.", empty)
    repeated = k <= LEVEL_LIMIT and n >= 2 * k
    listed = f"{k} different words." if k > 5 else f"Only {some(known_words(cells))}."

    numbers = parse_numbers(texts, counts, decimal_comma)
    x = np.where(np.isinf(numbers.values), np.nan, numbers.values)
    fit = counts[~np.isnan(x)].sum() / n
    if fit == 1 and (numbers.codes or numbers.too_long):
        widths = {len(w) for w, h in zip(texts.to_pylist(), held, strict=True) if h}
        if numbers.too_long or (len(widths) == 1 and min(widths) > 2):
            what = "too long to be a number" if numbers.too_long else "with leading zeros"
            if repeated:
                return Column(name, "category", f"Codes {what}. {listed}", empty)
            return Column(name, "dropped", f"It looks like an identifier: codes {what}.", empty)
        return Column(name, "number", "Numbers, some with leading zeros.", empty)

    # Where many cells are numbers, too few are left to be dates.
    if fit <= 1 - MOSTLY and (column := _decide_dates(name, cells, counts)):
        return column
    if fit >= MOSTLY and not repeated:
        bad = int(counts[np.isnan(x)].sum())
        if why := _identifier(name, spread(cells, x, np.nan), unnamed, no_header):
            return Column(name, "dropped", f"It looks like an identifier: {why}", empty + bad)
        reason = f"Numbers. {_slips(texts, held & np.isnan(x), 'number', bad)}".strip()
        if numbers.notation:
            reason += f" {numbers.notation[0].upper()}{numbers.notation[1:]}."
        return Column(name, "number", reason, empty + bad)
    mixed = " Numbers and words are mixed." if fit > 0 else ""
    if k <= LEVEL_LIMIT and (k < n or n <= 2):
        return Column(name, "category", listed + mixed, empty)
    if k > 0.9 * n:
        reason = f"It looks like an identifier or free text: {k:,} of {n:,} cells differ."
        return Column(name, "dropped", reason + mixed, empty)
    if k <= MOST_LEVELS and n >= 2 * k:
        return Column(name, "category", _frequent(k) + mixed, empty)
    reason = f"{k:,} different words are too many for a category."
    return Column(name, "dropped", reason + mixed, empty)


def _frequent(k: int) -> str:
    return (
        f"{k:,} different words: the {LEVEL_LIMIT - 1} most frequent are inputs, and all others "
        "count as “other”."
    )


def _decide_dates(name: str, cells: pa.DictionaryArray, counts: np.ndarray) -> Column | None:
    """A column of dates, if most of its cells are some."""
    dates = parse_dates(cells.dictionary, counts)
    real = ~np.isnat(dates.values) & (counts > 0)
    n, dated = int(counts.sum()), int(counts[real].sum())
    if dated < MOSTLY * n or dates.values[real].min() == dates.values[real].max():
        return None
    reason = _which_first(dates.day_first)
    if dates.ambiguous:
        reason += " Every cell could be read both ways: change it if this is wrong."
    slips = _slips(cells.dictionary, ~real & (counts > 0), "date", n - dated)
    reason = " ".join(filter(None, ["Dates.", reason, slips]))
    return Column(name, "date", reason, cells.null_count + n - dated, dates.day_first)


def _slips(texts: pa.Array, where: np.ndarray, kind: str, cells: int) -> str:
    """The cells that do not fit, in words."""
    if not where.any():
        return ""
    words = some(texts.filter(pa.array(where)).slice(0, 50).to_pylist(), 3)
    return _no_values(int(cells), kind).removesuffix(".") + f": {words}."


def _no_values(n: int, kind: str) -> str:
    if n == 1:
        return f"1 cell that is no {kind} counts as missing."
    return f"{n:,} cells that are no {kind} count as missing."


@dataclass(frozen=True)
class Proposal:
    """A choice made for the user, who may change it."""

    value: Any
    reason: str


def propose_target(table: Table) -> Proposal:
    """The column that is most likely to be predicted."""
    kept = [
        c
        for c in table.columns
        if c.kind in ("number", "boolean") or (c.kind == "category" and _has_classes(table, c))
    ]
    if table.rows < 2:
        raise TableError(ONE_ROW)
    if not kept:
        raise TableError(
            f"No column of this file can be a target. {reasons(table.columns)}A target is numbers, "
            "classes, or yes and no."
        )
    for title in _TARGETS:
        for column in kept:
            if column.name.lower() == title:
                return Proposal(column.name, f"Its name is “{visible(column.name)}”.")
    measured = [c for c in kept if not _PLACE_OR_TIME.search(c.name)] or kept
    why = "" if measured[-1] is kept[-1] else " and is no date, place or identifier"
    return Proposal(measured[-1].name, f"It is the last column that can be predicted{why}.")


def possible_targets(table: Table) -> list[str]:
    """The columns that can be predicted: those that are kept, unless they have too many levels."""
    return [
        c.name
        for c in table.columns
        if c.kind != "dropped" and (c.kind != "category" or _has_classes(table, c))
    ]


def _has_classes(table: Table, column: Column) -> bool:
    return len(known_words(table.cells[column.name])) <= CLASS_LIMIT


def propose_task(table: Table, target: str) -> Proposal:
    """What kind of thing the target is: a number, one of two or many classes, a count."""
    column, cells = table[target], table.cells[target]
    x = as_numbers(cells, table.decimal_comma)
    x = x[~np.isnan(x)]
    if column.kind == "date":
        return Proposal("regression", "It is a date.")
    if column.kind == "boolean":
        return Proposal("binary", "It is yes or no.")
    if column.kind == "category" or len(x) == 0:
        k = len(known_words(cells))
        if k == 1:
            raise TableError(
                f"“{visible(target)}” is the same in every row, so there is nothing to learn: "
                "choose another target."
            )
        if k == 2:
            return Proposal("binary", "It has two different values.")
        if 2 < k <= CLASS_LIMIT:
            return Proposal("multiclass", f"It has {k} different values that are words.")
        raise TableError(
            f"“{visible(target)}” has {k:,} different words: a target is numbers, or 2 to "
            f"{CLASS_LIMIT} classes. Choose another target."
        )
    values = np.unique(x)
    if len(values) == 2:
        return Proposal("binary", "It has two different values.")
    whole = bool((x % 1 == 0).all())
    if whole and 2 < len(values) <= LEVEL_LIMIT and _CLASS_NAMES.search(target):
        return Proposal("multiclass", f"{len(values)} whole numbers under a name that says class.")
    if whole and x.min() >= 0 and len(values) > 2:
        if _COUNT_NAMES.search(target):
            return Proposal("counts", "Whole numbers from 0 on under a name that says count.")
        if (x == 0).any() and x.mean() < 20 and _skew(x) > 0.5:
            return Proposal("counts", "Whole numbers from 0 on, small and with a tail upwards.")
    return Proposal("regression", "It is a number.")


def _skew(x: np.ndarray) -> float:
    """The third standardised moment."""
    spread = x.std()
    return float((((x - x.mean()) / spread) ** 3).mean()) if spread > 0 else 0.0


def propose_transform(table: Table, target: str) -> Proposal:
    """The logarithm where a positive target has a long tail that the logarithm takes away."""
    x = as_numbers(table.cells[target], table.decimal_comma)
    x = x[~np.isnan(x)]
    if table[target].kind != "number" or len(x) < 3:
        return Proposal("none", "It is no number.")
    if x.min() <= 0:
        return Proposal("none", "Not all values are positive.")
    before, after = _skew(x), _skew(np.log(x))
    if before > 1 and abs(after) < 0.7 * before:
        return Proposal(
            "log", f"Positive and skewed: {before:.1f}, and {after:.1f} as a logarithm."
        )
    return Proposal("none", f"Hardly skewed ({before:.1f}), or a logarithm does not mend it.")


def propose_missing(table: Table) -> Proposal:
    """Drop the rows with missing cells if they are few, else fill."""
    holes = np.zeros(table.rows, bool)
    for column in table.columns:
        if column.kind != "dropped" and column.missing:
            holes |= _absent(table, column)
    n = int(holes.sum())
    if not n:
        return Proposal("drop", "No cell is missing.")
    share = f"{n:,} of {counted(table.rows, 'row')} {'has' if n == 1 else 'have'} a missing cell"
    if n <= 0.05 * table.rows:
        return Proposal("drop", f"Only {share}.")
    return Proposal("fill", f"{share}: too many to leave out.")


def _absent(table: Table, column: Column) -> np.ndarray:
    """Which cells are missing, or say nothing of the column's kind (N,)."""
    cells = table.cells[column.name]
    if column.kind == "date":
        return np.isnat(as_dates(cells, column.day_first))
    if column.kind == "number":
        return np.isnan(as_numbers(cells, table.decimal_comma))
    return is_missing(cells)


def report(table: Table) -> str:
    """The whole story of a file as text for a terminal: rows, columns, decisions, proposals."""
    kept = [c for c in table.columns if c.kind != "dropped"]
    lost = table.rows_in - table.rows
    lines = [
        f"{visible(table.name)}: {counted(table.rows_in, 'row')} in the file, {table.rows:,} read"
        + (f", {lost:,} left out" if lost else "")
        + f"; {counted(len(table.columns), 'column')}, {len(kept):,} kept, "
        f"{len(table.columns) - len(kept):,} dropped.",
        *(f"  {visible(note, 200)}" for note in table.notes),
        "",
    ]
    width = max(6, *(len(visible(c.name, 32)) for c in table.columns))
    lines.append(f"  {'column':<{width}}  {'kind':<8}  {'missing':>9}  reason")
    for c in table.columns:
        lines.append(f"  {visible(c.name, 32):<{width}}  {c.kind:<8}  {c.missing:>9,}  {c.reason}")
    lines.append("")
    try:
        target = propose_target(table)
        task = propose_task(table, target.value)
        lines.append(f"  target   {visible(target.value)}: {target.reason}")
        lines.append(f"  task     {task.value}: {task.reason}")
        if task.value == "regression":
            transform = propose_transform(table, target.value)
            lines.append(f"  transform {transform.value}: {transform.reason}")
        missing = propose_missing(table)
        lines.append(f"  missing  {missing.value}: {missing.reason}")
    except TableError as error:
        lines.append(f"  {error}")
    lines.append(f"  Any of these can be changed. Without the screen: {WAY_ON}")
    return "\n".join(lines)
