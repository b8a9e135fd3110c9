"""Explanations against models whose dependence on each input is known."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from dgp_core.evaluation import explain
from dgp_core.evaluation.boosting import boosted
from dgp_core.evaluation.explain import (
    Group,
    by_effect,
    groups_of,
    importance,
    relevance,
    response,
    two_inputs,
    typical_rows,
)
from dgp_core.evaluation.forecast import deep_predictor, straight_line
from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.domain import Domain
from dgp_core.gp.kernels import create_kernel
from dgp_core.gp.model import DeepGP, ModelSpec, create_model
from dgp_core.outcome import Line, Trees
from dgp_core.tables.table import read_table
from tests.core.textbook import optimal_q, rbf

pytestmark = pytest.mark.usefixtures("quick_compilation")


def made(n, seed=0):
    """y = 10 + 3a + cos b, nothing of c: in units far from standard ones."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 3)) * [1.0, 1.0, 50.0] + [0.0, 0.0, 7.0]
    Y = 10 + 3 * X[:, :1] + np.cos(X[:, 1:2]) + 0.05 * rng.standard_normal((n, 1))
    return Dataset("made", X, Y, ("a", "b", "c"), ("y",))


@pytest.fixture(scope="module")
def fitted() -> tuple[DeepGP, Scaler, Dataset]:
    """One layer whose q(u) is optimal for the rows, without any training."""
    data = made(120)
    scaler = Scaler.fit(data)
    X, Y = scaler.inputs(data.X), scaler.outputs(data.Y)
    model = create_model(ModelSpec(layers=1, inducing=60), X)
    layer, noise = model.layers[0], float(model.likelihood.variance[0])  # type: ignore
    kernel = replace(layer.kernel, log_lengthscales=jnp.log(jnp.array([3.0, 2.0, 9.0])))
    Z, scales = np.asarray(layer.inducing), np.array([3.0, 2.0, 9.0])
    variance = float(jnp.exp(layer.kernel.log_variance))  # type: ignore
    Kzz = rbf(Z, Z, variance, scales) + 1e-6 * variance * np.eye(60)
    m, S = optimal_q(rbf(X, Z, variance, scales), Kzz, Y[:, 0], noise)
    L = np.linalg.cholesky(Kzz)
    whitened = np.linalg.solve(L, np.linalg.solve(L, S).T)
    factor = jnp.asarray(np.linalg.cholesky(0.5 * (whitened + whitened.T)))
    q_mean = jnp.asarray(np.linalg.solve(L, m)[:, None])
    layer = replace(layer, kernel=kernel, q_mean=q_mean, q_factor=factor[None])
    return replace(model, layers=(layer,)), scaler, data


def test_inputs_are_columns_where_nobody_knows_better(fitted):
    assert groups_of(fitted[2]) == (Group("a", (0,)), Group("b", (1,)), Group("c", (2,)))


@pytest.fixture(scope="module")
def upload():
    lines = ["size,colour,sold,when,y"]
    for i in range(40):
        size = "" if i % 5 == 0 else f"{i * 0.37:.2f}"
        colour = ("red", "green", "blue")[i % 3]
        sold = ("yes", "no")[i % 2]
        lines.append(f"{size},{colour},{sold},2024-01-{1 + i % 28:02d},{i % 7 + 0.5}")
    table = read_table("\n".join(lines).encode())
    return table.to_dataset("y", "regression", "fill")


def test_a_categorys_columns_and_its_marker_go_together(upload):
    groups = {g.name.split(" ")[0]: g for g in groups_of(upload.dataset, upload.recipe)}
    names = upload.dataset.input_names
    assert [names[d] for d in groups["size"].every] == ["size", "size is missing"]
    assert groups["size"].marker is not None
    assert [names[d] for d in groups["colour"].columns] == [
        f"colour = {level}" for level in groups["colour"].labels
    ]
    assert len(groups["colour"].columns) == 3
    assert groups["sold"].labels == ("no", "yes") and len(groups["sold"].columns) == 1
    assert groups["when"].labels == () and len(groups["when"].columns) == 1
    every = [d for g in groups.values() for d in g.every]
    assert sorted(every) == list(range(len(names)))


def test_an_input_is_set_as_the_recipe_would(upload):
    X = upload.dataset.X
    groups = {g.name.split(" ")[0]: g for g in groups_of(upload.dataset, upload.recipe)}
    red = groups["colour"].labels.index("red")
    changed = groups["colour"].at(X, red)
    np.testing.assert_array_equal(
        changed[:, groups["colour"].columns], np.tile(np.arange(3) == red, (len(X), 1))
    )
    others = [d for d in range(X.shape[1]) if d not in groups["colour"].columns]
    np.testing.assert_array_equal(changed[:, others], X[:, others])
    changed = groups["size"].at(X, 2.5)
    assert set(changed[:, groups["size"].columns[0]]) == {2.5}
    assert not changed[:, groups["size"].marker].any()
    # The range is that of cells that were there, not of the median that filled the others.
    known = X[X[:, groups["size"].marker] == 0, groups["size"].columns[0]]
    grid = groups["size"].range(X, 11)
    np.testing.assert_allclose(grid[[0, -1]], np.quantile(known, [0.01, 0.99]))
    np.testing.assert_array_equal(groups["colour"].range(X, 11), [0, 1, 2])


def test_shuffling_costs_what_the_closed_form_says(fitted):
    model, scaler, _ = fitted
    held = made(300, seed=1)
    found = importance(model, scaler, held, groups_of(held))
    assert [one.name for one in found] == ["a", "b", "c"]
    assert abs(found[2].drop) < 4 * found[2].row_error + 0.01
    # A Gaussian of variance v loses half of the mean squared change of its mean, over v: for a
    # shuffled input twice the variance of what it adds.
    f = deep_predictor(model, scaler)(held)
    v = ((f.high - f.low)[:, 0] / (2 * 1.6449)) ** 2
    for one, part in zip(found[:2], (3 * held.X[:, 0], np.cos(held.X[:, 1])), strict=True):
        expected = np.mean(np.var(part) / v)
        assert one.drop == pytest.approx(expected, rel=0.35)
        assert 0 < one.error < 0.1 * one.drop


def test_a_constant_column_has_no_importance(fitted):
    model, scaler, data = fitted
    wide = replace(
        data,
        X=np.column_stack([data.X, np.ones(len(data))]),
        input_names=(*data.input_names, "one"),
    )
    scaler = Scaler.fit(wide)
    found = {one.name: one.drop for one in importance(model, scaler, wide, groups_of(wide), 2)}
    assert found["one"] == 0.0 and found["a"] > 1


def test_responses_are_the_functions_that_made_the_data(fitted):
    model, scaler, data = fitted
    a, b, _ = groups_of(data)
    curve = response(model, scaler, data, a, n_grid=9)
    rest = np.cos(data.X[:, 1]).mean()
    np.testing.assert_allclose(curve.mean[:, 0], 10 + 3 * curve.x + rest, atol=0.15)
    assert curve.quantiles.shape == (5, 9, 1) and np.all(np.diff(curve.quantiles, axis=0) > 0)
    wave = response(model, scaler, data, b, n_grid=9)
    np.testing.assert_allclose(
        wave.mean[:, 0], 10 + 3 * data.X[:, 0].mean() + np.cos(wave.x), atol=0.2
    )
    # Over the rows, y spreads as a does.
    spread = 3 * np.quantile(data.X[:, 0], explain.LEVELS)
    middle = 10 + np.cos(wave.x[4])
    np.testing.assert_allclose(wave.quantiles[:, 4, 0], middle + spread, atol=0.6)
    # A row's own curve is the prediction at its own place.
    row = data.take(slice(0, 1))
    np.testing.assert_allclose(
        wave.each[0, :, 0],
        [deep_predictor(model, scaler)(replace(row, X=b.at(row.X, x))).mean[0, 0] for x in wave.x],
        rtol=1e-9,
    )


def test_a_map_is_the_responses_of_two(fitted):
    model, scaler, data = fitted
    a, b, _ = groups_of(data)
    drawn = two_inputs(model, scaler, data, a, b, n_grid=7)
    assert drawn.mean.shape == drawn.sd.shape == (7, 7)
    expected = 10 + 3 * drawn.x[None, :] + np.cos(drawn.y)[:, None]
    np.testing.assert_allclose(drawn.mean[1:-1, 1:-1], expected[1:-1, 1:-1], atol=0.3)
    assert np.all(drawn.sd > 0)


def test_probabilities_of_classes_respond(rng):
    X = rng.standard_normal((40, 2))
    data = Dataset("c", X, np.zeros((40, 1)), ("a", "b"), ("y",), "multiclass", "", ("p", "q", "r"))
    scaler = Scaler.fit(data)
    spec = ModelSpec(layers=1, inducing=5, likelihood="robust_max")
    model = create_model(spec, scaler.inputs(X), 1, 3)
    layer = model.layers[0]
    model = replace(model, layers=(replace(layer, q_mean=layer.q_mean.at[:, 1].set(3.0)),))
    curve = response(model, scaler, data, groups_of(data)[0], n_grid=4)
    assert curve.mean.shape == (4, 3) and curve.quantiles.shape == (5, 4, 3)
    np.testing.assert_allclose(curve.mean.sum(1), 1.0, atol=1e-6)
    f = deep_predictor(model, scaler)(data)
    assert f.probabilities.mean(0).argmax() == curve.mean.mean(0).argmax() == 1
    drawn = two_inputs(model, scaler, data, *groups_of(data), n_grid=4, output=1)
    assert drawn.mean.max() > 0.5 and drawn.mean.shape == (4, 4)


def test_counts_respond_in_counts(rng):
    X = rng.standard_normal((40, 1))
    data = Dataset("c", X, np.ones((40, 1)), ("a",), ("y",), "counts")
    scaler = Scaler.fit(data)
    model = create_model(ModelSpec(layers=1, inducing=5, likelihood="poisson"), scaler.inputs(X))
    model = replace(
        model, layers=(replace(model.layers[0], q_factor=0.3 * model.layers[0].q_factor),)
    )
    curve = response(model, scaler, data, groups_of(data)[0], n_grid=4)
    assert np.all(curve.quantiles % 1 == 0) and np.all(curve.mean > 0)
    np.testing.assert_allclose(curve.mean[:, 0], curve.each[0, :, 0])


def test_relevance_is_one_over_the_lengthscale(fitted):
    model, scaler, data = fitted
    (only,) = relevance(model, scaler, data.input_names)
    np.testing.assert_allclose(only.lengthscales, [3.0, 2.0, 9.0])
    np.testing.assert_allclose(only.relevance, [2 / 3, 1.0, 2 / 9])
    assert only.names == ("a", "b", "c") and only.layer == 1


def test_relevance_names_what_enters_each_layer(rng):
    X = np.column_stack([rng.standard_normal((30, 4)), np.ones(30)])
    names = ("a", "b", "c", "d", "constant")
    scaler = Scaler.fit(Dataset("d", X, X[:, :1], names, ("y",)))
    inputs = scaler.inputs(X)
    same = create_model(ModelSpec(layers=3, inducing=5), inputs)
    found = relevance(same, scaler, names)
    assert found[0].names == ("a", "b", "c", "d")
    assert found[2].names == ("a, warped", "b, warped", "c, warped", "d, warped")
    narrow = create_model(ModelSpec(layers=2, inducing=5, widths=2), inputs)
    assert relevance(narrow, scaler, names)[1].names == (
        "output 1 of layer 1",
        "output 2 of layer 1",
    )
    beside = create_model(ModelSpec(2, 5, mean_function="concatenate"), inputs)
    assert relevance(beside, scaler, names)[1].names[4:] == ("a", "b", "c", "d")
    mixed = replace(same, layers=(replace(same.layers[0], kernel=create_kernel("linear", 4)),))
    assert relevance(mixed, scaler, names) == ()


def test_a_large_model_is_asked_of_fewer_rows(fitted, monkeypatch):
    model, scaler, data = fitted
    monkeypatch.setattr(explain, "WORK", 1.0)
    drawn = response(model, scaler, data, groups_of(data)[0], n_grid=3)
    assert len(drawn.each) == 16


def test_a_straight_line_responds_by_its_slopes(rng):
    """Of y = 10 + 3a + cos b and nothing of c, in closed form."""
    data = made(2000)
    line, scaler = Line(straight_line(data)), Scaler.fit(data)
    groups = groups_of(data)
    found = response(line, scaler, data, groups[0])
    slope = np.diff(found.mean[:, 0]) / np.diff(found.x)
    np.testing.assert_allclose(slope, 3.0, atol=0.05)
    # What new observations do at a grid point: the other inputs' part and the noise.
    low, high = found.quantiles[0], found.quantiles[-1]
    noise = line.predict_mixture(data.X).variance.mean()
    spread = np.sqrt(noise + np.var(found.each[:, 0], 0))
    np.testing.assert_allclose(high - low, np.full_like(low, 2 * 1.645 * spread[0]), rtol=0.07)
    first, *others = importance(line, scaler, made(500, 1), groups)
    # E log p falls by E (3a − 3a')² / 2σ² = 9 Var(a) / σ².
    assert first.name == "a" and first.drop == pytest.approx(9 * (4 / 3) / noise, rel=0.15)
    assert all(abs(one.drop) < 0.05 for one in others)
    seen = two_inputs(line, scaler, data, groups[0], groups[2])
    np.testing.assert_allclose(np.diff(seen.mean[0]) / np.diff(seen.x), 3.0, atol=0.05)
    assert seen.sd.min() > 0.9 * np.sqrt(noise)


def test_trees_respond_in_numbers_and_in_probabilities(rng):
    data = made(300)
    trees, scaler = Trees(boosted(data)), Scaler.fit(data)
    found = response(trees, scaler, data, groups_of(data)[0], n_grid=5, n_rows=20)
    assert found.mean[-1, 0] - found.mean[0, 0] == pytest.approx(12.0, abs=1.0)
    y = (data.X[:, :1] > 0).astype(float)
    classes = replace(data, Y=y, task="binary", classes=("no", "yes"))
    trees = Trees(boosted(classes))
    found = response(trees, scaler, classes, groups_of(data)[0], n_grid=5, n_rows=20)
    assert found.mean.shape == (5, 2) and found.mean[0, 0] > 0.9 < found.mean[-1, 1]
    assert importance(trees, scaler, classes, groups_of(data))[0].name == "a"


def test_inputs_by_their_effect(fitted):
    """Over the rows, 3a changes by 12 and cos b by 1.4, in any units of c."""
    model, scaler, data = fitted
    assert by_effect(model, scaler, data, groups_of(data)[::-1]) == ("a", "b", "c")


def test_centres_of_training_rows_are_rows_that_could_be():
    rng = np.random.default_rng(0)
    colours, sold = rng.choice(["red", "green", "blue"], 90), rng.choice(["yes", "no"], 90)
    size = [f"{x:.2f}" if i % 7 else "" for i, x in enumerate(rng.normal(9, 2, 90))]
    lines = [f"{size[i]},{colours[i]},{sold[i]},{i % 5}.5" for i in range(90)]
    table = read_table(("size,colour,sold,y\n" + "\n".join(lines)).encode(), "rows.csv")
    prepared = table.to_dataset(["y"], "regression", "fill", "none")
    data, recipe = prepared.dataset, prepared.recipe
    scaler = Scaler.fit(data)
    domain = Domain.fit(data.X, scaler)
    rows = typical_rows(domain, scaler, recipe)
    assert len(rows) == len(domain.centres) and rows.input_names == data.input_names
    known = [set(map(tuple, X[:, 1:].tolist())) for X in (rows.X, data.X)]
    assert known[0] <= known[1]  # each has one colour, is sold or not, and its size missing or not
    np.testing.assert_allclose(rows.X[:, 0], scaler.inputs_back(domain.centres)[:, 0])
