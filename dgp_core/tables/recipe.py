"""How columns of a file become numbers, written down so that a second file becomes the same."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from dgp_core.gp.data import Dataset, Task, counted
from dgp_core.tables.limits import TableError
from dgp_core.tables.parsing import (
    Cells,
    as_booleans,
    as_codes,
    as_dates,
    as_numbers,
    as_words,
    known_words,
)
from dgp_core.tables.plain import visible

if TYPE_CHECKING:
    from dgp_core.tables.table import Column, Table

Missing = Literal["drop", "fill"]
Transform = Literal["none", "log"]
CLASS_LIMIT = 100
LEVEL_LIMIT = 20
"""Of a category with more levels than this, the most frequent are inputs and the rest is one."""
ONE_ROW = "This file has one row, and learning takes at least two: bring more rows."
OTHER = "other"
READING = {"encoding", "separator", "decimal", "header", "sheet"}
"""What a file may be told to be read by: the fields of `reading.Options`."""
UNITS = {"days": 86_400e6, "hours": 3_600e6, "seconds": 1e6}
"""Microseconds in each unit that a date may be counted in."""


def date_recipe(low: float, high: float) -> tuple[str, str]:
    """The date that counts as zero, and the unit that dates are counted in, for dates between two
    numbers of microseconds since 1970."""
    first = np.datetime64(int(low), "us")
    hours = (high - low) / UNITS["hours"]
    unit = "days" if hours > 72 else "hours" if hours > 3 else "seconds"
    return str(first.astype("M8[D]" if unit != "seconds" else "M8[s]")), unit


def some(words, limit: int = 5) -> str:
    """The first few of many words, as a reader would list them."""
    words = list(words)
    listed = ", ".join(f"“{visible(word)}”" for word in words[:limit])
    return listed + (f" and {len(words) - limit:,} more" if len(words) > limit else "")


@dataclass(frozen=True)
class ColumnRecipe:
    """How one column becomes numbers."""

    column: str
    kind: Literal["number", "date", "category", "boolean"]
    levels: tuple[str, ...] = ()
    """The categories, in the order of their columns or codes."""
    origin: str = ""
    """The date that counts as zero."""
    unit: str = ""
    """What a date is counted in since its origin."""
    day_first: bool | None = None
    """Whether 1/2/2024 is 1 February."""
    median: float = 0.0
    """What stands for a missing number where missing cells are filled."""
    indicator: bool = False
    """Whether a further column says where the cell was missing."""
    other: bool = False
    """Whether the last level stands for every word that is no other level."""

    @classmethod
    def fit(cls, name: str, kind: str, cells: Cells, day_first: bool | None, comma: bool):
        """The recipe that a column's own cells ask for."""
        if kind == "category":
            levels = known_words(cells)
            if len(levels) > LEVEL_LIMIT:
                return cls(name, "category", most_frequent(levels), other=True)
            return cls(name, "category", levels=tuple(levels))
        origin, unit, moments = "", "", None
        if kind == "date":
            moments = as_dates(cells, day_first)
            known = moments[~np.isnat(moments)]
            if not known.size:
                raise TableError(f"Column “{visible(name)}” holds no date: choose another kind.")
            origin, unit = date_recipe(
                *(int(t.astype(np.int64)) for t in (known.min(), known.max()))
            )
        bare = cls(name, kind, origin=origin, unit=unit, day_first=day_first)  # type: ignore[arg-type]
        x = bare.codes(cells, comma)[0] if moments is None else bare.since_origin(moments)
        known = x[~np.isnan(x)]
        median = float(np.median(known)) if known.size else 0.0
        return cls(name, bare.kind, (), origin, unit, day_first, median)

    def codes(self, cells: Cells, decimal_comma: bool) -> tuple[np.ndarray, dict[str, int]]:
        """One number for each cell: its value, or its level's place; NaN where it is missing or no
        level. And how often each word that is no level occurs."""
        if self.kind == "category":
            x, unknown = as_codes(cells, self.levels)
            if self.other:
                x[np.isnan(x) & as_words(cells).is_valid().to_numpy(False)] = len(self.levels) - 1
                return x, {}
            return x, unknown
        if self.kind == "boolean":
            return as_booleans(cells)
        if self.kind == "date":
            return self.since_origin(as_dates(cells, self.day_first)), {}
        return as_numbers(cells, decimal_comma), {}

    def known_codes(self, cells: Cells, decimal_comma: bool) -> np.ndarray:
        """The codes of a column in which every word must be a level."""
        x, unknown = self.codes(cells, decimal_comma)
        if unknown:
            knows = (
                some(self.levels, 20)
                if self.kind == "category"
                else "yes and no, true and false, 1 and 0"
            )
            raise TableError(
                f"Column “{visible(self.column)}” holds {some(unknown)} in "
                f"{counted(sum(unknown.values()), 'cell')}, which the model never saw: it knows "
                f"{knows}. "
                "Change or remove those rows, or train again on data that has them."
            )
        return x

    def date(self, x: float) -> str:
        """The date that so many units since the origin are."""
        since = np.timedelta64(round(x * UNITS[self.unit]), "us")
        return as_written(np.array([np.datetime64(self.origin, "us") + since]))[0]

    def since_origin(self, moments: np.ndarray) -> np.ndarray:
        """Dates as numbers of units since the origin, NaN where they are missing."""
        since = moments - np.datetime64(self.origin, "us")
        x = np.where(np.isnat(since), np.nan, since / np.timedelta64(1, "us"))
        return x / UNITS[self.unit]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers that this column becomes."""
        if self.kind == "date":
            names = [f"{self.column} ({self.unit} since {self.origin})"]
        elif self.kind == "category":
            # Of two levels one says it all.
            shown = self.levels[1:] if len(self.levels) == 2 else self.levels
            names = [f"{self.column} = {level}" for level in shown]
        else:
            names = [self.column]
        return (*names, f"{self.column} is missing") if self.indicator else tuple(names)

    def inputs(self, x: np.ndarray, fill: bool) -> np.ndarray:
        """A column's codes (N,) as inputs (N, k); NaN where a cell is missing and not filled."""
        absent = np.isnan(x)
        if self.kind == "category":
            first = 1 if len(self.levels) == 2 else 0
            X = (x[:, None] == np.arange(first, len(self.levels))).astype(float)
            if not (fill and self.indicator):
                X[absent] = np.nan
        else:
            X = np.where(absent, self.median, x)[:, None] if fill else x[:, None]
        return np.hstack([X, absent[:, None]]) if self.indicator else X


@dataclass(frozen=True)
class Recipe:
    """How a file becomes inputs and outputs; it goes into the model's file."""

    inputs_from: tuple[ColumnRecipe, ...]
    targets: tuple[ColumnRecipe, ...]
    task: Task
    transforms: tuple[Transform, ...]
    """What was done to each target."""
    missing: Missing
    reading: dict[str, str | bool] = field(default_factory=dict)
    """How the file was told to be read, as `read_table` takes it; what is not here was guessed."""
    exposure: str = ""
    """The input column that multiplies each row's rate of counts, if there is one: its cells are
    positive, and never filled."""

    @property
    def exposed(self) -> np.ndarray:
        """Which column of X that is (D,)."""
        each = [(c.column == self.exposure != "", c.names) for c in self.inputs_from]
        return np.array([exposed for exposed, names in each for _ in names])

    def dataset(self, name: str, X: np.ndarray, Y: np.ndarray) -> Dataset:
        """Rows as this recipe makes them, under the names of their columns."""
        names = (self.input_names, self.output_names)
        return Dataset(name, X, Y, *names, self.task, "", self.classes, self.exposure)

    @property
    def input_names(self) -> tuple[str, ...]:
        """A distinct name for each column of X."""
        names: list[str] = []
        for name in (name for column in self.inputs_from for name in column.names):
            again, k = name, 2
            while again in names:
                again, k = f"{name} ({k})", k + 1
            names.append(again)
        return tuple(names)

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name for each column of Y, in the units that it has there."""
        return tuple(
            f"log {name}" if transform == "log" else name
            for target, transform in zip(self.targets, self.transforms, strict=True)
            for name in ((target.column,) if target.kind == "category" else target.names)
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of a classification task, in the order of their codes."""
        return self.targets[0].levels if self.task in ("binary", "multiclass") else ()

    def inputs(self, table: "Table") -> np.ndarray:
        """The inputs (N, D) of a file, made as those of the first; NaN where a cell is missing and
        not filled, or holds a word that the first file did not.

        Columns are found by name, in any order; others are passed over. A missing cell takes the
        first file's median if that file's were filled.
        """
        self.find(table, self.inputs_from)
        X = np.empty((table.rows, sum(len(column.names) for column in self.inputs_from)))
        for column, block in zip(self.inputs_from, self.blocks(X), strict=True):
            cells = table.cells[column.column]
            codes, unknown = column.codes(cells, table.decimal_comma)
            exposure = column.column == self.exposure
            block[:] = column.inputs(codes, self.missing == "fill" and not exposure)
            if exposure:
                block[~(block > 0)] = np.nan
            if unknown:
                block[np.isnan(codes) & as_words(cells).is_valid().to_numpy(False)] = np.nan
        return X

    def why_not(self, table: "Table", X: np.ndarray) -> np.ndarray:
        """Why each row of a file with inputs X cannot be predicted (N,): empty where it can."""
        why = np.full(len(X), "", object)
        for column, block in zip(self.inputs_from, self.blocks(X), strict=True):
            rows = np.flatnonzero(~np.isfinite(block).all(1))
            if not rows.size:
                continue
            title = visible(column.column)
            lacks = (
                "never seen in training"
                if column.kind in ("category", "boolean")
                else "no positive number"
                if column.column == self.exposure
                else f"no {column.kind}"
            )
            for row, word in zip(rows, as_written(table.cells[column.column], rows), strict=True):
                own = "is missing" if word is None else f"is “{visible(word)}”, {lacks}"
                why[row] = f"{why[row]}; “{title}” {own}".removeprefix("; ")
        return why

    def outputs(self, table: "Table") -> np.ndarray:
        """The outputs (N, P) of a file, in the units of training; NaN where they are missing."""
        self.find(table, self.targets)
        Y = np.empty((table.rows, len(self.targets)))
        for p, (target, transform) in enumerate(zip(self.targets, self.transforms, strict=True)):
            y = target.known_codes(table.cells[target.column], table.decimal_comma)
            title = visible(target.column)
            if transform == "log":
                if (low := np.nanmin(y, initial=np.inf)) <= 0:
                    raise TableError(
                        f"“{title}” goes down to {low:g}, and only positive numbers have a "
                        "logarithm: choose the transform none."
                    )
                y = np.log(y)
            if self.task == "counts" and (np.any(y < 0) or np.any(y[~np.isnan(y)] % 1)):
                raise TableError(
                    f"“{title}” is no count: counts are whole numbers from 0 on. Choose regression."
                )
            Y[:, p] = y
        return Y

    def complete(self, table: "Table") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs and outputs of the rows of a file that have all of them, and which these are."""
        X, Y = self.inputs(table), self.outputs(table)
        keep = np.flatnonzero(~(np.isnan(X).any(1) | np.isnan(Y).any(1)))
        return (X, Y, keep) if len(keep) == len(X) else (X[keep], Y[keep], keep)

    def outputs_back(self, Y: np.ndarray) -> np.ndarray:
        """Outputs (…, P) from the units of training to those of the file."""
        return np.where(self.logs, np.exp(np.where(self.logs, Y, 0.0)), Y)

    @property
    def logs(self) -> np.ndarray:
        """Which targets are learnt as their logarithm (P,)."""
        return np.array([transform == "log" for transform in self.transforms])

    def blocks(self, X: np.ndarray) -> list[np.ndarray]:
        """X split into what each column gave."""
        ends = np.cumsum([len(column.names) for column in self.inputs_from])
        return np.split(X, ends[:-1], axis=1)

    def find(self, table: "Table", columns: tuple[ColumnRecipe, ...]) -> None:
        """Refuses a file that lacks some of these columns."""
        absent = [c.column for c in columns if c.column not in table.cells]
        if not absent:
            return
        near = {name: difflib.get_close_matches(name, table.cells, 1, 0.75) for name in absent[:5]}
        hint = "; ".join(
            f"is “{visible(n[0])}” meant for “{visible(a)}”?" for a, n in near.items() if n
        )
        raise TableError(
            f"This file lacks {some(absent)}, which the model needs; it has {some(table.cells)}. "
            f"Add or rename the columns{': ' + hint if hint else '.'}"
        )

    def to_json(self) -> str:
        """The recipe as JSON text."""
        return json.dumps(asdict(self), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Recipe":
        """The recipe that `to_json` wrote."""
        try:
            fields = json.loads(text)
            for part in ("inputs_from", "targets"):
                fields[part] = tuple(
                    ColumnRecipe(**{**column, "levels": tuple(column["levels"])})
                    for column in fields[part]
                )
            fields["transforms"] = tuple(fields["transforms"])
            recipe = cls(**fields)
            ok = (
                recipe.task in get_args(Task)
                and recipe.missing in get_args(Missing)
                and set(recipe.transforms) <= set(get_args(Transform))
                and len(recipe.targets) == len(recipe.transforms) > 0
                and all(c.kind != "date" or c.unit in UNITS for c in recipe.inputs_from)
                and recipe.exposure in ("", *(c.column for c in recipe.inputs_from))
                and set(recipe.reading) <= READING
                and all(type(v) is (bool if n == "header" else str)
                        for n, v in recipe.reading.items())
            )  # fmt: skip
        except (TypeError, KeyError, ValueError, AttributeError):
            ok = False
        if not ok:
            raise TableError("This text is no recipe of a table: save the model again.")
        return recipe


@dataclass(frozen=True, eq=False)
class Prepared:
    """A file made ready to learn from."""

    dataset: Dataset
    recipe: Recipe
    rows: np.ndarray
    """Which rows of the file are in the set, to take a column that the split goes by."""
    report: tuple[str, ...]
    """Rows and columns in and out, and why."""
    words: dict[str, Cells]
    """The words of the rows in the set, for each category of which only some levels are inputs."""

    def refit(self, train: np.ndarray) -> "Prepared":
        """The same rows, with medians and most frequent levels of the training rows alone.

        (A level that no training row has is a constant input there, which the Scaler drops.)
        """
        fill = self.recipe.missing == "fill"
        if not fill and not self.words:
            return self
        blocks, sources = [], []
        for column, block in zip(
            self.recipe.inputs_from, self.recipe.blocks(self.dataset.X), strict=True
        ):
            if column.other:
                cells = self.words[column.column]
                levels = most_frequent(known_words(cells.take(train)))  # type: ignore[arg-type]
                column = replace(column, levels=levels)
                block = column.inputs(column.codes(cells, False)[0], fill)
            elif column.kind != "category" and fill:
                block = block.copy()
                absent = block[:, -1] == 1 if column.indicator else np.zeros(len(block), bool)
                known = block[train, 0][~absent[train]]
                median = float(np.median(known)) if known.size else 0.0
                block[absent, 0] = median
                column = replace(column, median=median)
            sources.append(column)
            blocks.append(block)
        recipe = replace(self.recipe, inputs_from=tuple(sources))
        dataset = replace(self.dataset, X=np.hstack(blocks), input_names=recipe.input_names)
        return replace(self, dataset=dataset, recipe=recipe)


def prepare(
    table: "Table",
    targets: tuple[str, ...],
    task: Task,
    missing: Missing,
    transforms: tuple[Transform, ...],
    story: str,
    exposure: str = "",
) -> Prepared:
    """The data set of a table as its columns are decided, and the recipe that made it."""
    if task not in get_args(Task) or missing not in get_args(Missing):
        raise TableError(f"Choose a task of {get_args(Task)} and missing of {get_args(Missing)}.")
    if not set(transforms) <= set(get_args(Transform)) or len(transforms) != len(targets):
        raise TableError(f"Choose a transform of {get_args(Transform)} for each target.")
    if table.rows < 2:
        raise TableError(ONE_ROW)
    report = []
    goals = tuple(_target(table, name, task) for name in targets)
    if task in ("binary", "multiclass") and len(targets) > 1:
        raise TableError("Classes can be learnt for one target at a time: choose one.")
    if task != "regression" and "log" in transforms:
        raise TableError(
            f"A logarithm goes with regression, not with {task}: choose the transform none."
        )

    if exposure:
        _check_exposure(table, exposure, targets, task)
    sources = []
    for column in table.columns:
        cells = table.cells[column.name]
        if column.kind == "dropped" or column.name in targets:
            continue
        twin = [t for t in targets if same_cells(cells, table.cells[t])]
        if twin:
            report.append(f"“{visible(column.name)}” is left out: it repeats the target.")
            continue
        made = ColumnRecipe.fit(
            column.name, column.kind, cells, column.day_first, table.decimal_comma
        )
        indicator = missing == "fill" and column.missing > 0 and column.name != exposure
        sources.append(replace(made, indicator=indicator))
    if {source.column for source in sources} <= {exposure}:
        others = [c for c in table.columns if c.name not in targets]
        raise TableError(
            f"No column is left to learn from. {reasons(others)}Bring a file with more columns, or "
            "decide that one of the dropped columns is a number or a category."
        )
    recipe = Recipe(tuple(sources), goals, task, transforms, missing, table.options.given, exposure)

    Y = recipe.outputs(table)
    X = recipe.inputs(table)
    if exposure:
        report.append(_exposure_line(exposure, int(np.isnan(X[:, recipe.exposed]).sum())))
    no_target, no_input = np.isnan(Y).any(1), np.isnan(X).any(1)
    keep = np.flatnonzero(~(no_target | no_input))
    report.insert(
        0, _rows_line(table, len(keep), int(no_target.sum()), int((no_input & ~no_target).sum()))
    )
    if len(keep) < 2:
        way = " Fill missing cells instead of dropping their rows." if missing == "drop" else ""
        raise TableError(f"Too few rows are left to learn from. {report[0]}{way}")
    for p, name in enumerate(targets):
        if (Y[keep, p] == Y[keep[0], p]).all():
            raise TableError(_constant(name, as_written(table.cells[name], keep[:1])[0]))
    if missing == "fill":
        filled = {s.column for s in sources} - {exposure}
        filled = [c for c in table.columns if c.missing and c.name in filled]
        if filled:
            report.append(
                f"Missing cells of {some(c.name for c in filled)} were filled (with the median, or "
                "no category) and marked in a column of their own."
            )
    dropped = [c for c in table.columns if c.kind == "dropped" and c.name not in targets]
    report.append(
        f"{counted(len(table.columns), 'column')} in: {len(sources):,} became "
        f"{counted(len(recipe.input_names), 'input')}, {counted(len(goals), 'target')}, "
        f"{len(dropped):,} dropped."
    )
    report += [f"“{visible(c.name)}” is dropped: {c.reason}" for c in dropped]
    for target, transform in zip(targets, transforms, strict=True):
        if transform == "log":
            report.append(f"The model learns the logarithm of “{visible(target)}”.")
    dataset = recipe.dataset(table.name, X[keep] if len(keep) < len(X) else X, Y[keep])
    dataset = replace(dataset, story=story)
    words = {s.column: table.cells[s.column].take(keep) for s in sources if s.other}
    return Prepared(dataset, recipe, keep, tuple(report), words)


def _check_exposure(table: "Table", exposure: str, targets: tuple[str, ...], task: Task) -> None:
    """Refuses a column that cannot multiply a rate."""
    title = visible(exposure)
    if task != "counts":
        raise TableError(f"An exposure is for counts, not for {task}: leave it out.")
    if exposure in targets:
        raise TableError(f"“{title}” is the target, so it cannot be its exposure: choose another.")
    if table[exposure].kind != "number":
        raise TableError(
            f"“{title}” is not a number, and an exposure is one: decide that the column is a "
            "number, or choose another."
        )


def _exposure_line(exposure: str, unusable: int) -> str:
    """What an exposure does, and how many rows lack it."""
    line = (
        f"“{visible(exposure)}” is the exposure: counts are taken to be in proportion to it, and "
        "what is learnt is the rate per unit."
    )
    if not unusable:
        return line
    are = "is" if unusable == 1 else "are"
    return f"{line} {counted(unusable, 'row')} without a positive exposure {are} left out."


def most_frequent(levels: dict[str, int]) -> tuple[str, ...]:
    """The most frequent levels, in their own order, and one for all others."""
    ranked = sorted((word for word in levels if word != OTHER), key=lambda word: -levels[word])
    chosen = set(ranked[: LEVEL_LIMIT - 1])
    return (*(word for word in levels if word in chosen), OTHER)


def _target(table: "Table", name: str, task: Task) -> ColumnRecipe:
    """How a target becomes numbers: classes as codes, everything else by its value."""
    column, cells, title = table[name], table.cells[name], visible(name)
    if task in ("binary", "multiclass"):
        levels = known_words(cells)
        if len(levels) == 1:
            raise TableError(_constant(name, next(iter(levels))))
        if len(levels) < 2 or len(levels) > CLASS_LIMIT or (task == "binary" and len(levels) > 2):
            wanted = "two" if task == "binary" else f"2 to {CLASS_LIMIT}"
            raise TableError(
                f"“{title}” has {len(levels):,} different values, and this task takes {wanted}: "
                "choose another task or target."
            )
        return ColumnRecipe(name, "category", tuple(levels))
    kind = column.kind if column.kind in ("date", "boolean") else "number"
    goal = ColumnRecipe.fit(name, kind, cells, column.day_first, table.decimal_comma)
    if np.isnan(goal.known_codes(cells, table.decimal_comma)).all():
        raise TableError(
            f"“{title}” holds no numbers, so {task} cannot learn it: choose a task with "
            "classes, or another target."
        )
    return goal


def _constant(name: str, value: object) -> str:
    return (
        f"“{visible(name)}” is {visible(value)} in every row that is left, so there is nothing to "
        "learn: choose another target."
    )


def reasons(columns: Sequence["Column"]) -> str:
    """Why each of these columns cannot be used, for the first few."""
    return "".join(f"“{visible(c.name)}”: {c.reason} " for c in columns[:3])


def _rows_line(table: "Table", out: int, no_target: int, no_input: int) -> str:
    """What became of the rows, in one line."""
    why = []
    if table.rows_in > table.rows:
        why.append(f"{table.rows_in - table.rows:,} could not be read")
    if no_target:
        why.append(f"{no_target:,} {'has' if no_target == 1 else 'have'} no target")
    if no_input:
        why.append(f"{no_input:,} {'has' if no_input == 1 else 'have'} a missing input")
    return f"{counted(table.rows_in, 'row')} in, {out:,} out" + (
        f": {', '.join(why)}." if why else "."
    )


def as_written(cells: Cells, rows: slice | np.ndarray = slice(None)) -> list:
    """Cells as a person wrote them: whole numbers without a point, days without a time."""
    if not isinstance(cells, np.ndarray):
        return (cells[rows] if isinstance(rows, slice) else cells.take(rows)).to_pylist()
    values = cells[rows]
    if values.dtype.kind == "M":
        days = bool((values.astype("M8[D]").astype("M8[us]") == values)[~np.isnat(values)].all())
        shown = np.datetime_as_string(values, unit="D" if days else "s")
        return [None if np.isnat(v) else str(s) for v, s in zip(values, shown, strict=True)]
    whole = bool((values[~np.isnan(values)] % 1 == 0).all())
    return [
        None if v != v else int(v) if whole and abs(v) < 1 << 53 else v for v in values.tolist()
    ]


def same_cells(one: Cells, two: Cells) -> bool:
    """Whether two columns hold the same in every row."""
    if isinstance(one, np.ndarray) and isinstance(two, np.ndarray):
        if one.dtype != two.dtype or not np.array_equal(one[:64], two[:64], equal_nan=True):
            return False
        return np.array_equal(one, two, equal_nan=True)
    if isinstance(one, np.ndarray) or isinstance(two, np.ndarray):
        return False
    if one[:64].to_pylist() != two[:64].to_pylist():
        return False
    if one.null_count != two.null_count or len(one) != len(two):
        return False
    return one.cast("string").equals(two.cast("string"))
