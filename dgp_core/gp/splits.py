"""Which rows are held out: by chance, the latest ones, or whole groups; one split, and folds."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dgp_core.gp.data import Dataset, latest_from, split_places

SplitWay = Literal["chance", "latest", "groups"]

FEWEST_FOLDS = 3
"""Two folds cannot tell a difference from chance."""

MOST_FOLDS = 20

FIRST_SHARE = 0.5
"""Of rows in time: the earliest, which no fold holds out."""


@dataclass(frozen=True, eq=False)
class SplitBy:
    """What a model is judged by: rows held out by chance, the latest rows, or whole groups."""

    way: SplitWay = "chance"
    column: str = ""
    """The column of the times or groups."""
    values: np.ndarray | None = None
    """Each row's time or group (N,); a missing time (NaN) counts as the earliest."""

    def __post_init__(self):
        if self.way not in ("chance", "latest", "groups"):
            raise ValueError(f"Judge by chance, latest or groups, not {self.way}.")
        if (self.way == "chance") != (self.values is None):
            raise ValueError("The latest rows and whole groups are those of a column.")
        if self.values is not None and len(np.unique(self.values)) < 2:
            raise ValueError(
                f"“{self.column}” is the same in every row: judge by chance or another column."
            )

    def places(self, n: int, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The places of training rows and of those held out, of n."""
        order = self.times() if self.way == "latest" else None
        group = self.values if self.way == "groups" else None
        return split_places(n, fraction, seed, order=order, group=group)

    def times(self) -> np.ndarray:
        """The rows' times, −∞ where they are missing."""
        assert self.values is not None
        return np.where(np.isnan(self.values), -np.inf, self.values)

    def groups_of(self, places: np.ndarray) -> np.ndarray | None:
        """The groups of the rows at these places, where whole groups are held out."""
        return self.values[places] if self.way == "groups" and self.values is not None else None

    @property
    def rows(self) -> str:
        """Which rows a verdict is about, behind the word “rows”; nothing for chance."""
        return question_of(self.way, self.column)


def question_of(way: SplitWay, column: str) -> str:
    """Which rows a verdict on such a split is about, behind the word “rows”."""
    return {
        "chance": "",
        "latest": "later than any it was trained on",
        "groups": f"from groups of “{column}” that it was not trained on",
    }[way]


BY_CHANCE = SplitBy()

FEWEST_TIMES = 10
"""A column of fewer different times is not offered to judge by."""

FEWEST_GROUPS = 3
"""Nor is one of fewer groups."""


def split_columns(dataset: Dataset) -> dict[SplitWay, list[str]]:
    """The inputs of a data set whose latest rows, or whole groups, can be held out."""
    found: dict[SplitWay, list[str]] = {"latest": [], "groups": []}
    for name, x in zip(dataset.input_names, dataset.X.T, strict=True):
        n = len(np.unique(x))
        if n >= FEWEST_TIMES:
            found["latest"].append(name)
        if FEWEST_GROUPS <= n <= len(x) / 2:
            found["groups"].append(name)
    return found


def by_input(dataset: Dataset, way: SplitWay, column: str) -> SplitBy:
    """A split by one of a data set's own inputs."""
    if way == "chance":
        return BY_CHANCE
    return SplitBy(way, column, dataset.X[:, dataset.input_names.index(column)])


@dataclass(frozen=True, eq=False)
class Part:
    """A way to part the rows."""

    fold: int
    """0 is the main split; folds count from 1."""
    train: np.ndarray
    """Places of the training rows."""
    held: np.ndarray
    """And of those held out."""


def main_part(dataset: Dataset, fraction: float, seed: int, by: SplitBy = BY_CHANCE) -> Part:
    """The main split, by the places of its rows."""
    return Part(0, *by.places(len(dataset), fraction, seed))


def fold_parts(dataset: Dataset, folds: int, seed: int, by: SplitBy = BY_CHANCE) -> list[Part]:
    """Folds by chance or by groups, each row held out once; of rows in time, forward chaining."""
    n = len(dataset)
    if not FEWEST_FOLDS <= folds <= min(MOST_FOLDS, n):
        raise ValueError(
            f"{folds} folds cannot be made of {n:,} rows: choose {FEWEST_FOLDS} to "
            f"{min(MOST_FOLDS, n)}."
        )
    if by.way == "latest":
        return _forward(by, folds)
    if by.way == "groups":
        return _group_folds(by, folds, seed)
    return _chance_folds(dataset, folds, seed)


def _chance_folds(dataset: Dataset, folds: int, seed: int) -> list[Part]:
    """Every class spread evenly over the folds.

    All training sets are of one size, so that one compilation serves them: those that would have a
    row more leave one out.
    """
    n = len(dataset)
    rng = np.random.default_rng(seed)
    order = rng.permutation(n)
    if dataset.classes:
        order = order[np.argsort(dataset.Y[order, 0], kind="stable")]
    fold = np.empty(n, int)
    fold[order] = np.arange(n) % folds
    size = n - -(-n // folds)
    parts = []
    for k in range(folds):
        train = rng.permutation(np.flatnonzero(fold != k))[:size]
        parts.append(Part(k + 1, np.sort(train), np.flatnonzero(fold == k)))
    return parts


def _forward(by: SplitBy, folds: int) -> list[Part]:
    """Forward chaining: blocks of the later rows, each judged by models of all earlier rows."""
    times = by.times()
    order = np.argsort(times, kind="stable")
    n = len(order)
    cuts = [latest_from(times[order], int(c)) for c in np.linspace(FIRST_SHARE * n, n, folds + 1)]
    if len(set(cuts)) <= folds or not cuts[0]:
        raise ValueError(
            f"“{by.column}” has too few different times for {folds} folds: choose fewer folds, or "
            "one split."
        )
    return [
        Part(k + 1, np.sort(order[: cuts[k]]), np.sort(order[cuts[k] : cuts[k + 1]]))
        for k in range(folds)
    ]


def _group_folds(by: SplitBy, folds: int, seed: int) -> list[Part]:
    """No group is in two folds: the largest first, each into the fold with the fewest rows."""
    assert by.values is not None
    names, code, counts = np.unique(by.values, return_inverse=True, return_counts=True)
    if len(names) < folds:
        raise ValueError(
            f"“{by.column}” has {len(names)} groups, too few for {folds} folds: choose fewer "
            "folds, or one split."
        )
    fold_of, rows = np.empty(len(names), int), np.zeros(folds)
    chance = np.random.default_rng(seed).permutation(len(names))
    for group in chance[np.argsort(-counts[chance], kind="stable")]:
        fold_of[group] = rows.argmin()
        rows[fold_of[group]] += counts[group]
    fold = fold_of[code]
    return [Part(k + 1, np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds)]
