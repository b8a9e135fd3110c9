"""The ways to hold rows out as a cross-validator of scikit-learn's kind."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dgp_core.gp.data import Dataset
from dgp_core.gp.splits import SplitBy, SplitWay, fold_parts, main_part


@dataclass(frozen=True)
class JudgeBy:
    """Folds by chance, in time (forward chaining) or of whole groups, for `cross_val_score`.

    `groups`, as scikit-learn passes it on, holds each row's time or group:
    `cross_val_score(model, X, y, cv=JudgeBy("latest"), groups=dates)`.
    """

    way: SplitWay = "chance"
    folds: int = 5
    """0 is one split, with a tenth of the rows held out."""
    seed: int = 0

    def split(
        self, X: Any, y: Any = None, groups: Any = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The places of training rows and of those held out, fold by fold."""
        n = len(X)
        rows = Dataset("rows", np.zeros((n, 1)), np.zeros((n, 1)), ("x",), ("y",))
        by = SplitBy(self.way, "groups", self._values(groups, n))
        if self.way == "chance" and y is not None and (codes := _codes(y)) is not None:
            labels = tuple(map(str, range(int(codes.max()) + 1)))
            rows = Dataset("rows", rows.X, codes[:, None], ("x",), ("y",), "multiclass", "", labels)
        parts = fold_parts(rows, self.folds, self.seed, by) if self.folds else []
        for part in parts or [main_part(rows, 0.9, self.seed, by)]:
            yield part.train, part.held

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return self.folds or 1

    def _values(self, groups: Any, n: int) -> np.ndarray | None:
        if self.way == "chance":
            return None
        if groups is None or len(groups) != n:
            raise ValueError(
                f"To judge by {self.way}, pass groups= with a time or a group for every row."
            )
        values = np.asarray(groups)
        if self.way == "groups":
            return np.unique(values.astype(str), return_inverse=True)[1]
        if values.dtype.kind == "M":
            return np.where(np.isnat(values), np.nan, values.astype("M8[us]").astype(np.float64))
        return values.astype(np.float64)


def _codes(y: Any) -> np.ndarray | None:
    """The classes of labels (N,) as numbers; None of anything else."""
    values = np.asarray(y)
    if values.ndim != 1 or values.dtype.kind == "f":
        return None
    return np.unique(values.astype(str), return_inverse=True)[1].astype(np.float64)
