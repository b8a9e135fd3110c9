"""What a model learns from: rows with names and a task, their split, and their units."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Task = Literal["regression", "binary", "multiclass", "counts"]

MEASURED_ROWS = 100_000
"""Rows whose mean and deviation are measured at a time."""


def counted(n: int, noun: str) -> str:
    """A number with its noun: 1 row, 2,000 rows."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows to learn from: N rows of D inputs and P outputs, all float64 and finite."""

    name: str
    X: np.ndarray
    """Inputs (N, D)."""
    Y: np.ndarray
    """Outputs (N, P); a class is its index into `classes`, a count is a whole number ≥ 0."""
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    task: Task = "regression"
    story: str = ""
    """What this set teaches, in a sentence or two."""
    classes: tuple[str, ...] = ()
    """The labels of a classification task, in the order of their codes."""
    exposure: str = ""
    """The input, all positive, that multiplies each row's rate of counts: hours watched, people at
    risk. Models take its logarithm as an offset, and learn the rate of one unit from the others."""

    def __post_init__(self):
        X, Y = np.asarray(self.X, np.float64), np.asarray(self.Y, np.float64)
        if X.ndim != 2 or Y.ndim != 2 or len(X) != len(Y):
            raise ValueError(f"X and Y must be tables of equally many rows: {X.shape}, {Y.shape}.")
        if (X.shape[1], Y.shape[1]) != (len(self.input_names), len(self.output_names)):
            raise ValueError("Every column of X and of Y needs one name.")
        if not (np.isfinite(X).all() and np.isfinite(Y).all()):
            raise ValueError("X and Y must be finite: fill or drop missing cells first.")
        if self.exposure and (X[:, self.exposed] <= 0).any():
            raise ValueError("Every exposure must be a positive number: drop the other rows.")
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "Y", Y)

    def __len__(self) -> int:
        return len(self.X)

    def take(self, rows) -> "Dataset":
        """The same set with only these rows, in this order."""
        return replace(self, X=self.X[rows], Y=self.Y[rows])

    @property
    def exposed(self) -> np.ndarray:
        """Which column of X is the exposure (D,); none where there is no such one."""
        return np.array([bool(self.exposure) and n == self.exposure for n in self.input_names])

    @property
    def rates(self) -> "Dataset":
        """The counts of one unit of exposure, to look at; the set itself where there is none."""
        if not self.exposure:
            return self
        names = tuple(f"{name} per {self.exposure}" for name in self.output_names)
        return replace(self, Y=self.Y / self.X[:, self.exposed], output_names=names)


def split(
    dataset: Dataset,
    fraction: float = 0.9,
    seed: int = 0,
    *,
    order: np.ndarray | None = None,
    group: np.ndarray | None = None,
) -> tuple[Dataset, Dataset]:
    """Training and held-out rows.

    By chance (the paper's splits: `seed` is the split's number); by `order`, a time per row, so
    that the latest rows are held out; or by `group`, a label per row. No time and no group is on
    both sides.
    """
    train, held = split_places(len(dataset), fraction, seed, order=order, group=group)
    return dataset.take(train), dataset.take(held)


def split_places(
    n: int,
    fraction: float,
    seed: int,
    *,
    order: np.ndarray | None = None,
    group: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The places of the rows that `split` takes, of n."""
    if not 0 < fraction < 1:
        raise ValueError(f"The training fraction must lie between 0 and 1, not {fraction}.")
    if order is not None and group is not None:
        raise ValueError("Split by order or by group, not by both.")
    if group is not None:
        names = np.unique(group)
        if len(names) < 2:
            raise ValueError("A split by group needs at least two groups.")
        np.random.RandomState(seed).shuffle(names)
        n_train = min(max(int(fraction * len(names)), 1), len(names) - 1)
        in_train = np.isin(group, names[:n_train])
        return np.flatnonzero(in_train), np.flatnonzero(~in_train)
    rows = np.arange(n)
    n_train = int(fraction * n)
    if order is not None:
        rows = np.argsort(order, kind="stable")
        n_train = latest_from(np.asarray(order)[rows], n_train)
    else:
        np.random.RandomState(seed).shuffle(rows)
    if not 0 < n_train < n:
        raise ValueError(f"{n} rows are too few to hold any out: bring at least 2.")
    return rows[:n_train], rows[n_train:]


def latest_from(times: np.ndarray, place: int) -> int:
    """The place nearest to this one at which a time begins: no time is on both sides of it."""
    begins = np.append(np.flatnonzero(np.append(True, times[1:] != times[:-1])), len(times))
    inner = begins[(begins > 0) & (begins < len(times))] if 0 < place < len(times) else begins
    return int(inner[np.abs(inner - place).argmin()]) if len(inner) else place


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean, variance and range of each column, of rows that came in parts.

    For parts a and b with δ = m_b − m_a (Chan, Golub and LeVeque 1979):
    m = m_a + δ n_b/n,      Σ(x − m)² = M_a + M_b + δ² n_a n_b/n
    """

    n: int
    mean: np.ndarray
    squares: np.ndarray
    """Σ(x − m)² of each column."""
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray) -> "Moments":
        """Of one part."""
        ends = X.min(0, initial=np.inf), X.max(0, initial=-np.inf)
        if not len(X):
            return cls(0, np.zeros(X.shape[1]), np.zeros(X.shape[1]), *ends)
        mean = X.mean(0)
        return cls(len(X), mean, ((X - mean) ** 2).sum(0), *ends)

    @classmethod
    def in_parts(cls, X: np.ndarray) -> "Moments":
        """Of a whole table: in parts, since `std` would need another table of that size."""
        total = cls.of(X[:MEASURED_ROWS])
        for i in range(MEASURED_ROWS, len(X), MEASURED_ROWS):
            total += cls.of(X[i : i + MEASURED_ROWS])
        return total

    def __add__(self, other: "Moments") -> "Moments":
        n = self.n + other.n
        if not n:
            return self
        delta, share = other.mean - self.mean, other.n / n
        squares = self.squares + other.squares + delta**2 * (self.n * share)
        ends = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return Moments(n, self.mean + delta * share, squares, *ends)

    @property
    def deviation(self) -> np.ndarray:
        """√(Σ(x − m)²/n)."""
        return np.sqrt(self.squares / max(self.n, 1))


@dataclass(frozen=True, eq=False)
class Scaler:
    """The one place where units change: the training rows' mean and deviation of each column."""

    x_mean: np.ndarray
    x_scale: np.ndarray
    kept: np.ndarray
    """Which input columns vary on the training rows (D,); the others are dropped. Where none does,
    the first stays, since a model needs an input."""
    y_mean: np.ndarray
    y_scale: np.ndarray
    exposed: np.ndarray
    """Which input is the exposure of counts (D,), at the most one. It is no input in standard
    units: its logarithm goes beside the outputs."""

    @classmethod
    def fit(cls, train: Dataset, weights: np.ndarray | None = None) -> "Scaler":
        """Measured on training rows only, each of weight 1 or of its own (N,); classes and counts
        keep their units."""
        if weights is not None:
            means = [np.average(a, 0, weights) for a in (train.X, train.Y)]
            variances = [
                np.average((a - m) ** 2, 0, weights)
                for a, m in zip((train.X, train.Y), means, strict=True)
            ]
            (x_mean, y_mean), (x_scale, y_scale) = means, map(np.sqrt, variances)
            moments = x_mean, x_scale, y_mean, y_scale
        else:
            x, y = Moments.in_parts(train.X), Moments.in_parts(train.Y)
            moments = x.mean, x.deviation, y.mean, y.deviation
        return cls.from_moments(*moments, train.task, train.exposed)

    @classmethod
    def from_moments(
        cls,
        x_mean: np.ndarray,
        x_scale: np.ndarray,
        y_mean: np.ndarray,
        y_scale: np.ndarray,
        task: Task,
        exposed: np.ndarray | None = None,
    ) -> "Scaler":
        """From the mean and the deviation of each column, however they were measured."""
        exposed = np.zeros(len(x_mean), bool) if exposed is None else exposed
        # A column is constant when its deviation is only rounding.
        varies = x_scale > 1e-12 * np.maximum(np.abs(x_mean), 1e-300)
        kept = varies & ~exposed
        if not kept.any():
            kept = np.arange(len(x_mean)) == int(np.argmin(exposed))
        if task == "regression":
            y_scale = np.where(y_scale > 1e-12 * np.abs(y_mean), y_scale, 1.0)
        else:
            y_mean, y_scale = np.zeros_like(y_mean), np.ones_like(y_scale)
        return cls(x_mean, np.where(varies, x_scale, 1.0), kept, y_mean, y_scale, exposed)

    def inputs(self, X: np.ndarray) -> np.ndarray:
        """Inputs in standard units, constant columns dropped."""
        # One copy of the rows, which may be most of the memory, and no other.
        scaled = np.asarray(X, np.float64)[:, self.kept]
        scaled -= self.x_mean[self.kept]
        scaled /= self.x_scale[self.kept]
        return scaled

    def inputs_back(self, X: np.ndarray) -> np.ndarray:
        """Inputs in the user's units; a dropped column returns as its constant."""
        back = np.repeat(self.x_mean[None], len(X), 0)
        back[:, self.kept] += X * self.x_scale[self.kept]
        return back

    def outputs(self, Y: np.ndarray) -> np.ndarray:
        """Outputs in standard units."""
        return (Y - self.y_mean) / self.y_scale

    def log_exposure(self, X: np.ndarray) -> np.ndarray:
        """The logarithm of the rows' exposure (N, 1); (N, 0) where there is none."""
        return np.log(np.asarray(X, np.float64)[:, self.exposed])

    def targets(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """What a likelihood is given: outputs in standard units, and the log exposure beside."""
        Y = self.outputs(Y)
        return np.hstack([Y, self.log_exposure(X)]) if self.exposed.any() else Y

    def outputs_back(self, Y: np.ndarray) -> np.ndarray:
        """Outputs in the user's units."""
        return Y * self.y_scale + self.y_mean

    def __call__(self, dataset: Dataset) -> Dataset:
        """A data set in standard units, the log exposure beside its outputs."""
        names = tuple(n for n, k in zip(dataset.input_names, self.kept, strict=True) if k)
        beside = tuple(f"log {dataset.exposure}" for exposed in self.exposed if exposed)
        return replace(
            dataset,
            X=self.inputs(dataset.X),
            Y=self.targets(dataset.X, dataset.Y),
            input_names=names,
            output_names=(*dataset.output_names, *beside),
            exposure="",
        )


@dataclass(frozen=True, eq=False)
class Scaled:
    """Rows that change their units when they are taken, so that a large set is not held twice."""

    rows: np.ndarray
    change: Callable[[np.ndarray], np.ndarray]
    """`Scaler.inputs` or `Scaler.outputs`."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self[:0].shape[1:])

    def __getitem__(self, places: np.ndarray | slice) -> np.ndarray:
        return self.change(self.rows[places])


def sample_rows(dataset: Dataset, most: int, seed: int = 0) -> tuple[Dataset, np.ndarray]:
    """At most so many rows, by chance and in their order, and which they are."""
    rows = sample_places(np.arange(len(dataset)), most, seed)
    return dataset if len(rows) == len(dataset) else dataset.take(rows), rows


def sample_places(places: np.ndarray, most: int, seed: int = 0) -> np.ndarray:
    """At most so many of these rows' places, the same as `sample_rows` takes of the rows."""
    n = len(places)
    if n <= most:
        return places
    return places[np.sort(np.random.default_rng(seed).choice(n, most, replace=False))]
