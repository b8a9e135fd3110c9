"""Inputs that give the target away: each alone predicts it without error."""

import numpy as np

from dgp_core.gp.data import Dataset
from dgp_core.tables.recipe import Recipe

FEWEST_ROWS = 30
"""Fewer rows than this may agree by chance."""
FEWEST_OTHERS = 10
"""Rows outside the commonest target that an input has to predict."""
FIRST_LOOK = 5_000


def likely_leaks(dataset: Dataset, recipe: Recipe) -> tuple[str, ...]:
    """The columns that alone predict the (first) target without error."""
    y, is_class = dataset.Y[:, 0], bool(recipe.classes)
    leaks = []
    for column, block in zip(recipe.inputs_from, recipe.blocks(dataset.X), strict=True):
        # A one-hot row is the place of its one.
        x = block @ np.arange(1.0, block.shape[1] + 1) if column.levels else block[:, 0]
        one_input = len(recipe.inputs_from) == 1
        look = slice(None, None, max(len(y) // FIRST_LOOK, 1))
        if all(_predicts(x[rows], y[rows], is_class, one_input) for rows in (look, slice(None))):
            leaks.append(column.column)
    return tuple(leaks)


def _predicts(x: np.ndarray, y: np.ndarray, is_class: bool, one_input: bool) -> bool:
    """Whether x determines y, by its repeated values or by the order of its distinct ones."""
    if len(y) < FEWEST_ROWS or (one_input and not is_class):
        return False
    values, first, group, size = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True
    )
    if 3 * len(values) <= len(x):
        _, code, count = np.unique(y[size[group] > 1], return_inverse=True, return_counts=True)
        others = len(code) - count.max(initial=0)
        return bool((y == y[first][group]).all()) and others >= FEWEST_OTHERS
    if is_class:
        # Any separating feature splits two classes at a threshold; a row number does so in order.
        in_order = (np.diff(x) > 0).all() or (np.diff(x) < 0).all()
        return bool(in_order) and np.count_nonzero(np.diff(y)) == len(np.unique(y)) - 1
    if len(values) < len(x):
        return False
    steps = np.diff(y[np.argsort(x)])
    return bool((steps > 0).all() or (steps < 0).all())
