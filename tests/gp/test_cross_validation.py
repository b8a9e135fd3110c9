"""The ways to hold rows out, as scikit-learn takes them."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import cross_val_score

from dgp_core import JudgeBy


def test_time_is_harder_than_chance_where_the_future_is_not_the_past(rng):
    """A line through a cubic: fine among its rows, wrong beyond them."""
    x = rng.permutation(np.linspace(0, 1, 200))
    X, y = x[:, None], x**3
    days = np.datetime64("2020-01-01") + (1000 * x).astype(int)
    scoring = "neg_root_mean_squared_error"

    def rmse(way: str) -> float:
        cv = JudgeBy(way, folds=4)  # type: ignore[arg-type]
        return -cross_val_score(
            LinearRegression(), X, y, cv=cv, groups=days, scoring=scoring
        ).mean()

    assert rmse("latest") > 1.5 * rmse("chance"), (rmse("latest"), rmse("chance"))


def test_folds_are_those_of_the_way(rng):
    X = np.zeros((60, 1))
    who = rng.permutation(np.repeat(["a", "b", "c", "d", "e", "f"], 10))
    for train, held in JudgeBy("groups", 3).split(X, groups=who):
        assert not set(who[train]) & set(who[held]) and len(train) + len(held) == 60
    t = rng.permutation(60).astype(float)
    (one,) = JudgeBy("latest", 0).split(X, groups=t)
    assert t[one[0]].max() < t[one[1]].min() and len(one[1]) == 6
    labels = np.repeat(["no", "yes"], [50, 10])
    assert all(sum(labels[held] == "yes") == 2 for _, held in JudgeBy().split(X, labels))
    assert JudgeBy(folds=3).get_n_splits() == 3 and JudgeBy(folds=0).get_n_splits() == 1


def test_a_way_without_its_column_says_what_to_pass():
    with pytest.raises(ValueError, match="pass groups="):
        next(JudgeBy("latest").split(np.zeros((9, 1))))
