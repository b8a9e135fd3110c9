"""Rows held out by time and by groups, one split and folds."""

import numpy as np
import pytest

from dgp_core.gp.data import Dataset
from dgp_core.gp.splits import SplitBy, fold_parts, main_part


def of(n: int) -> Dataset:
    X = np.arange(n, dtype=float)[:, None]
    return Dataset("rows", X, X + 1.0, ("x",), ("y",))


def test_the_latest_rows_are_held_out_whatever_the_order_of_the_file(rng):
    t = rng.permutation(100).astype(float)
    t[:3] = np.nan  # a missing time counts as the earliest
    part = main_part(of(100), 0.9, 0, SplitBy("latest", "t", t))
    assert np.nanmax(t[part.train]) < t[part.held].min() and len(part.held) == 10
    assert set(range(3)) <= set(part.train)


def test_folds_in_time_are_blocks_judged_by_models_of_all_earlier_rows(rng):
    t = rng.permutation(np.repeat(np.arange(50.0), 2))
    parts = fold_parts(of(100), 5, 0, SplitBy("latest", "t", t))
    assert [part.fold for part in parts] == [1, 2, 3, 4, 5]
    held = np.concatenate([part.held for part in parts])
    assert len(set(held)) == len(held) == 50  # the later half, each row once
    for part in parts:
        assert t[part.train].max() < t[part.held].min()
        assert set(part.train) == set(np.flatnonzero(t < t[part.held].min()))


def test_folds_of_groups_never_split_one_and_are_of_similar_size(rng):
    group = rng.permutation(np.repeat(np.arange(12), rng.integers(1, 12, 12)))
    parts = fold_parts(of(len(group)), 3, 0, SplitBy("groups", "g", group))
    assert sorted(np.concatenate([p.held for p in parts])) == list(range(len(group)))
    for part in parts:
        assert not set(group[part.train]) & set(group[part.held])
    sizes = [len(part.held) for part in parts]
    assert max(sizes) - min(sizes) <= np.bincount(group).max()


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        (SplitBy("latest", "t", np.repeat([1.0, 2.0], 10)), "too few different times for 5 folds"),
        (SplitBy("groups", "g", np.repeat([1, 2, 3, 4], 5)), "4 groups, too few for 5 folds"),
    ],
)
def test_folds_that_cannot_be_made_say_why(by, sentence):
    with pytest.raises(ValueError, match=sentence):
        fold_parts(of(20), 5, 0, by)


def test_a_column_that_is_the_same_everywhere_cannot_be_judged_by():
    with pytest.raises(ValueError, match="the same in every row"):
        SplitBy("groups", "g", np.ones(5))
    with pytest.raises(ValueError, match="those of a column"):
        SplitBy("latest")
