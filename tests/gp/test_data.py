"""Splits that leak nothing, and units that come back."""

import numpy as np
import pytest

from dgp_core.gp.data import Dataset, Scaler, split


def rows(n=20, n_inputs=3, n_outputs=1, task="regression", seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(5.0, 3.0, (n, n_inputs))
    X[:, 0] = np.arange(n)  # the row's number, to tell rows apart
    Y = (
        rng.integers(0, 3, (n, n_outputs))
        if task != "regression"
        else rng.normal(7, 2, (n, n_outputs))
    )
    names = [
        tuple(f"{letter}{i}" for i in range(k)) for letter, k in (("x", n_inputs), ("y", n_outputs))
    ]
    return Dataset("rows", X, Y, *names, task=task)


def numbers(dataset):
    return dataset.X[:, 0].astype(int).tolist()


@pytest.mark.parametrize("number", [0, 1, 7])
def test_split_is_the_papers(number):
    order = np.arange(23)
    np.random.RandomState(number).shuffle(order)
    train, held_out = split(rows(23), 0.9, number)
    assert numbers(train) == order[:20].tolist()  # int(0.9 · 23) = 20
    assert numbers(held_out) == order[20:].tolist()


def test_split_carries_outputs_along():
    whole = rows()
    train, _ = split(whole)
    np.testing.assert_array_equal(train.Y, whole.Y[numbers(train)])


def test_split_by_order_holds_out_the_latest():
    time = np.random.default_rng(3).permutation(20)
    train, held_out = split(rows(), 0.75, order=time)
    assert time[numbers(train)].tolist() == list(range(15))
    assert time[numbers(held_out)].tolist() == list(range(15, 20))


@pytest.mark.parametrize("seed", range(5))
def test_split_by_group_keeps_groups_whole(seed):
    group = np.array(list("aabbbcddddeeffghhhij"))
    train, held_out = split(rows(), 0.7, seed, group=group)
    left, right = set(group[numbers(train)]), set(group[numbers(held_out)])
    assert not left & right and len(left) == 7 and len(right) == 3
    assert sorted(numbers(train) + numbers(held_out)) == list(range(20))


def test_split_by_group_depends_on_the_seed_alone():
    group = np.arange(20) // 2
    first = [numbers(split(rows(), 0.5, s, group=group)[0]) for s in range(4)]
    assert first[0] == numbers(split(rows(), 0.5, 0, group=group)[0])
    assert any(f != first[0] for f in first)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("between 0 and 1", dict(fraction=1.0)),
        ("between 0 and 1", dict(fraction=0.0)),
        ("not by both", dict(order=np.arange(20), group=np.arange(20))),
        ("two groups", dict(group=np.zeros(20))),
    ],
)
def test_impossible_splits_say_so(message, arguments):
    with pytest.raises(ValueError, match=message):
        split(rows(), **arguments)


def test_a_single_row_cannot_be_split():
    with pytest.raises(ValueError, match="too few"):
        split(rows(1))


def test_two_groups_always_leave_one_on_each_side():
    for fraction in (0.05, 0.95):
        train, held_out = split(rows(), fraction, group=np.arange(20) < 12)
        assert len(train) and len(held_out)


def test_scaler_is_fitted_on_training_rows_only():
    train, held_out = split(rows(50, n_outputs=2))
    held_out.X[:] *= 1e6
    scaler = Scaler.fit(train)
    np.testing.assert_allclose(scaler.x_mean, train.X.mean(0))
    np.testing.assert_allclose(scaler.x_scale, np.sqrt(((train.X - train.X.mean(0)) ** 2).mean(0)))
    standard = scaler(train)
    np.testing.assert_allclose(standard.X.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(standard.X.std(0), 1)
    np.testing.assert_allclose(standard.Y.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(standard.Y.std(0), 1)
    # Held-out rows are measured with the training rows' stick, not with their own.
    expected = (held_out.X - train.X.mean(0)) / train.X.std(0)
    np.testing.assert_allclose(scaler(held_out).X, expected)
    assert abs(scaler(held_out).X).max() > 1e3


def test_scaler_goes_there_and_back():
    train, held_out = split(rows(50, n_outputs=2))
    scaler = Scaler.fit(train)
    np.testing.assert_allclose(
        scaler.inputs_back(scaler.inputs(held_out.X)), held_out.X, rtol=1e-13
    )
    np.testing.assert_allclose(
        scaler.outputs_back(scaler.outputs(held_out.Y)), held_out.Y, rtol=1e-13
    )


def test_many_rows_are_measured_in_parts_and_the_table_stays_as_it_is():
    data = rows(250_001, 2)
    before, scaler = data.X.copy(), Scaler.fit(data)
    np.testing.assert_allclose(scaler.x_scale, data.X.std(0), rtol=1e-12)
    np.testing.assert_allclose(scaler(data).X.std(0), 1.0, rtol=1e-9)
    assert np.array_equal(data.X, before)


def test_constant_columns_are_dropped_and_come_back():
    whole = rows(1000, n_inputs=5)
    whole.X[:, 1] = 0.1  # whose mean is not 0.1 to the last bit
    whole.X[:, 3] = 0.0
    whole.X[:, 4] *= 1e-9  # small, but it varies
    scaler = Scaler.fit(whole)
    assert scaler.kept.tolist() == [True, False, True, False, True]
    standard = scaler(whole)
    assert standard.X.shape == (1000, 3) and standard.input_names == ("x0", "x2", "x4")
    np.testing.assert_allclose(standard.X.std(0), 1)
    np.testing.assert_allclose(scaler.inputs_back(standard.X), whole.X, rtol=1e-12, atol=1e-15)


def test_a_column_constant_in_training_alone_is_dropped():
    train, held_out = split(rows())
    train.X[:, 2] = 4.0
    assert Scaler.fit(train).inputs(held_out.X).shape == (2, 2)


def test_constant_outputs_are_centred_not_blown_up():
    whole = rows()
    whole.Y[:] = 0.3
    np.testing.assert_allclose(Scaler.fit(whole).outputs(whole.Y), 0, atol=1e-15)


@pytest.mark.parametrize("task", ["binary", "multiclass", "counts"])
def test_classes_and_counts_keep_their_units(task):
    whole = rows(task=task)
    np.testing.assert_array_equal(Scaler.fit(whole)(whole).Y, whole.Y)


@pytest.mark.parametrize(
    ("message", "X", "Y"),
    [
        ("equally many rows", np.zeros((3, 1)), np.zeros((4, 1))),
        ("equally many rows", np.zeros((3, 1)), np.zeros(3)),
        ("needs one name", np.zeros((3, 2)), np.zeros((3, 1))),
        ("finite", np.array([[0.0], [np.nan]]), np.zeros((2, 1))),
        ("finite", np.zeros((2, 1)), np.array([[0.0], [np.inf]])),
    ],
)
def test_bad_tables_are_refused(message, X, Y):
    with pytest.raises(ValueError, match=message):
        Dataset("bad", X, Y, ("x",), ("y",))


def test_take_keeps_order_and_repeats():
    assert numbers(rows().take([3, 1, 3])) == [3, 1, 3]


def test_whole_numbers_become_float64():
    whole = Dataset("whole", np.arange(6).reshape(3, 2), np.arange(3)[:, None], ("a", "b"), ("y",))
    assert whole.X.dtype == whole.Y.dtype == np.float64
