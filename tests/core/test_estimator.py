"""The estimators keep scikit-learn's conventions and speak in the user's units."""

import pickle
import subprocess
import sys

import jax
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from dgp_core import DeepGPClassifier, DeepGPRegressor, TrainSpec
from dgp_core.gp.model import factorise_all, scaled_fit
from dgp_core.gp.predict import predict_latent
from dgp_core.tables.table import read_table
from dgp_core.training.train import Rows

pytestmark = pytest.mark.usefixtures("quick_compilation")

# Small enough that the checks' many shapes, each of which compiles, take little time.
TINY = dict(inducing=5, steps=40, learning_rate=0.1, natural_rate=0.5, predict_samples=5)
DEEP_CHECKS = {
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
}
EQUIVALENCE = "check_sample_weight_equivalence_on_dense_data"


def checks():
    """All of scikit-learn's checks with one layer; with two, those that depth could break."""
    found = []
    for kind in (DeepGPRegressor, DeepGPClassifier):
        # Weights are repeated rows where k-means has no part, since there is an inducing point for
        # every row, and where the likelihood draws nothing: softmax has draws of its own per row.
        # Steps multiply by how much the two ways to add up differ, so they are few and small.
        exact = {"likelihood": "robust_max"} if kind is DeepGPClassifier else {}
        exact |= {"inducing": 20, "steps": 10, "learning_rate": 0.01}
        every = estimator_checks_generator(kind(layers=1, **{**TINY, **exact}))
        found += [(e, check) for e, check in every if check.func.__name__ == EQUIVALENCE]
        one = estimator_checks_generator(kind(layers=1, **TINY))
        found += [(e, check) for e, check in one if check.func.__name__ != EQUIVALENCE]
        deep = estimator_checks_generator(kind(**TINY))
        found += [(e, check) for e, check in deep if check.func.__name__ in DEEP_CHECKS]
    return found


def named(value):
    if hasattr(value, "func"):
        details = ",".join(f"{v}" for v in value.keywords.values())
        return value.func.__name__ + (f"({details})" if details else "")
    return f"{type(value).__name__}-{value.layers}"


@pytest.mark.parametrize(("estimator", "check"), checks(), ids=named)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def sine(n=40, seed=0, scale=1.0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 6, (n, 1))
    return X, (np.sin(X[:, 0]) + 0.05 * rng.normal(size=n)) * scale + shift


SMALL = dict(inducing=8, steps=100, learning_rate=0.02, natural_rate=0.5, predict_samples=20)
GRID = np.linspace(-1, 7, 12)[:, None]


@pytest.fixture(scope="module")
def regressor():
    return DeepGPRegressor(**SMALL).fit(*sine())


@pytest.fixture(scope="module")
def classifier():
    X, y = sine(60)
    return DeepGPClassifier(**SMALL).fit(X, np.where(y > 0, "up", "down"))


def test_scikit_learn_is_loaded_with_the_first_estimator():
    """It takes a second, which the app's start does not wait for."""
    code = (
        "import sys, dgp_core, dgp_core.live.trial; print('sklearn' in sys.modules); "
        "dgp_core.DeepGPRegressor(); print('sklearn' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]


def test_scikit_learn_knows_what_they_are():
    assert is_regressor(DeepGPRegressor()) and is_classifier(DeepGPClassifier())


def test_clone_and_repr():
    model = DeepGPRegressor(layers=3, kernels=("rbf", "linear", "rbf"), seed=4)
    copy = clone(model)
    assert copy.get_params() == model.get_params() and copy is not model
    assert repr(model) == "DeepGPRegressor(kernels=('rbf', 'linear', 'rbf'), layers=3, seed=4)"


@pytest.mark.parametrize(
    ("n_rows", "steps", "minibatch"),
    [(200, 4000, None), (1500, 4000, 250), (8000, 15_000, 500), (10**6, 15_000, 1000)],
)
def test_defaults_go_by_the_number_of_rows(n_rows, steps, minibatch):
    assert DeepGPRegressor()._train_spec(n_rows) == TrainSpec(steps=steps, minibatch=minibatch)
    own = DeepGPRegressor(steps=30, minibatch=None)._train_spec(n_rows)
    assert (own.steps, own.minibatch) == (30, None)


def test_pipeline_scores_and_search():
    X, y = sine()
    small = DeepGPRegressor(layers=1, **SMALL)
    scores = cross_val_score(make_pipeline(StandardScaler(), small), X, y, cv=2)
    assert scores.shape == (2,) and scores.min() > 0.8
    search = GridSearchCV(small, {"inducing": np.array([2, 8])}, cv=2).fit(X, y)
    assert search.best_params_ == {"inducing": 8}


def test_learns_a_sine_and_knows_what_it_does_not_know(regressor):
    X, y = sine(30, seed=9)
    assert regressor.score(X, y) > 0.95
    mean, sd = regressor.predict(np.array([[3.0], [60.0]]), return_std=True)
    assert mean.shape == sd.shape == (2,) and sd[1] > 3 * sd[0]


def test_the_same_seed_gives_the_same_model(regressor):
    again = DeepGPRegressor(**SMALL).fit(*sine())
    np.testing.assert_array_equal(again.predict(GRID), regressor.predict(GRID))
    np.testing.assert_array_equal(again.bound_, regressor.bound_)
    other = DeepGPRegressor(**SMALL, seed=1).fit(*sine())
    assert not np.array_equal(other.predict(GRID), regressor.predict(GRID))


def test_units_are_the_users(regressor):
    """y and x in other units give the same model, said in those units."""
    X, y = sine()
    a, b = 250.0, -1e4
    other = DeepGPRegressor(**SMALL).fit(1e-3 * X + 7, a * y + b)
    grid = 1e-3 * GRID + 7
    close = dict(rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(other.predict(grid), a * regressor.predict(GRID) + b, **close)
    levels = [0.1, 0.5, 0.9]
    q, own = other.predict_quantiles(grid, levels), regressor.predict_quantiles(GRID, levels)
    assert q.shape == (3, 12) and (np.diff(q, axis=0) > 0).all()
    np.testing.assert_allclose(q, a * own + b, **close)
    np.testing.assert_allclose(
        other.log_density(1e-3 * X + 7, a * y + b),
        regressor.log_density(X, y) - np.log(a),
        atol=1e-4,
    )
    f, f_own = other.function_draws(grid, 4), regressor.function_draws(GRID, 4)
    assert f.shape == (4, 12)
    np.testing.assert_allclose(f, a * f_own + b, rtol=1e-4, atol=0.1)


def test_everything_comes_from_one_mixture(regressor):
    X, y = sine(15, seed=3)
    mixture = regressor.predict_mixture(X)
    assert mixture.means.shape == (20, 15, 1)
    mean, sd = regressor.predict(X, return_std=True)
    np.testing.assert_allclose(mean, mixture.mean[:, 0])
    np.testing.assert_allclose(sd, np.sqrt(mixture.variance[:, 0]))
    np.testing.assert_allclose(
        regressor.log_density(X, y), mixture.log_density(y[:, None])[:, 0], atol=1e-8
    )
    q = regressor.predict_quantiles(X, [0.2, 0.8])
    np.testing.assert_allclose(mixture.cdf(q[:, :, None])[1, :, 0], 0.8, atol=1e-6)


def test_draws_follow_their_seed(regressor):
    first = regressor.function_draws(GRID, 3)
    np.testing.assert_array_equal(first, regressor.function_draws(GRID, 3))
    np.testing.assert_array_equal(first, regressor.function_draws(GRID, 3, seed=0))
    assert not np.array_equal(first, regressor.function_draws(GRID, 3, seed=1))


def test_layer_views_enter_and_leave_in_the_users_units(regressor):
    views = regressor.layer_views(GRID, 3)
    np.testing.assert_allclose(views[0].entering, np.broadcast_to(GRID, (3, 12, 1)), atol=1e-12)
    np.testing.assert_allclose(views[-1].leaving[:, :, 0], regressor.function_draws(GRID, 3))
    assert views[0].grid.min() < -1 and views[0].grid.max() > 7
    assert (np.abs(views[0].inducing - 3) < 4).all()


def test_several_outputs_and_data_frames():
    X, y = sine()
    frame = pd.DataFrame({"time": X[:, 0], "same": 1.0, "noise": np.cos(9 * X[:, 0])})
    targets = pd.DataFrame({"up": y, "down": 5 - 2 * y})
    model = DeepGPRegressor(layers=1, **SMALL).fit(frame, targets)
    assert model.feature_names_in_.tolist() == ["time", "same", "noise"]
    assert model.output_names_ == ("up", "down") and model.n_features_in_ == 3
    assert model.predict(frame).shape == (40, 2)
    assert model.predict_quantiles(frame, [0.5]).shape == (1, 40, 2)
    assert model.function_draws(frame, 2).shape == (2, 40, 2)
    assert model.score(frame, targets) > 0.9
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(frame.to_numpy())
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame[["same", "time", "noise"]])
    with pytest.raises(ValueError, match="unseen at fit time:\n- other\n"):
        model.predict(frame.rename(columns={"time": "other"}))


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[1.0], [2.0], [3.0]], [4.0, 4.0, 4.0]),
        ([[1.0, 5.0], [1.0, 5.0], [1.0, 5.0]], [4.0, 6.0, 5.0]),
        ([[1.0]], [4.0]),
        ([[0.1]] * 3, [0.1, 0.1, 0.1]),
    ],
    ids=["constant target", "constant inputs", "one row", "all constant"],
)
def test_little_to_learn_from(X, y):
    model = DeepGPRegressor(**{**SMALL, "steps": 20}).fit(X, y)
    mean, sd = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, np.mean(y), atol=1.0)
    assert np.isfinite(sd).all()
    assert np.isfinite(model.predict(np.asarray(X) + 1)).all()


@pytest.mark.parametrize("minibatch", [None, 9])
def test_weights_multiply_the_rows_terms_of_the_bound(minibatch):
    """The gradient's expectation, too: over all windows, a batch's term averages to the whole's."""
    X, y = sine(20)
    w = np.random.default_rng(1).uniform(0.2, 3.0, 20)
    rows = Rows.create(X, y[:, None], minibatch, np.float64, 0, w)
    model = DeepGPRegressor(layers=1, **{**SMALL, "steps": 0}).fit(X, y).state_.model
    factors = factorise_all(model)
    key = jax.random.key(0)

    @jax.jit
    def term(X, Y, weight):
        return scaled_fit(factors, model, X, Y, weight, key, 20)

    q = predict_latent(model, X, key)
    m, v = q.means[0, :, 0], q.variances[0, :, 0]
    noise = float(model.likelihood.variance[0])
    # E log N(y | f, σ²) in closed form.
    each = -0.5 * (np.log(2 * np.pi * noise) + ((y - m) ** 2 + v) / noise)
    if minibatch is None:
        X, Y, weight = rows.batch(key, 20)
        assert float(term(X, Y, weight)) == pytest.approx(w @ each, rel=1e-9)
        return
    found = [
        term(rows.X[i : i + 9], rows.Y[i : i + 9], rows.drawn_weight[i : i + 9]) for i in range(20)
    ]
    assert np.mean(found) == pytest.approx(w @ each, rel=1e-9)
    taken = rows.batch(key, 9)
    start = int(np.flatnonzero(np.asarray(rows.X[:20, 0]) == float(taken[0][0, 0]))[0])
    np.testing.assert_array_equal(taken[2], rows.drawn_weight[start : start + 9])


def test_weighted_rows_are_repeated_rows():
    X, y = sine(12)
    w = np.random.default_rng(1).integers(0, 4, 12)
    setting = {**SMALL, "inducing": 20, "layers": 1}
    weighted = DeepGPRegressor(**setting).fit(X, y, sample_weight=w)
    repeated = DeepGPRegressor(**setting).fit(X.repeat(w, 0), y.repeat(w))
    # Sums in another order, amplified over a hundred steps.
    np.testing.assert_allclose(weighted.bound_, repeated.bound_, rtol=1e-4)
    np.testing.assert_allclose(weighted.predict(GRID), repeated.predict(GRID), rtol=1e-3)
    plain = DeepGPRegressor(**setting).fit(X, y)
    assert not np.allclose(weighted.predict(GRID), plain.predict(GRID), rtol=1e-2)
    with pytest.raises(ValueError, match="Negative"):
        DeepGPRegressor(**setting).fit(X, y, sample_weight=-np.ones(12))


@pytest.mark.parametrize("layers", [1, 2])
def test_the_covariance_is_that_of_joint_draws(layers):
    X, y = sine()
    model = DeepGPRegressor(**{**SMALL, "layers": layers, "predict_samples": 300}).fit(X, 7 * y)
    grid = np.linspace(-1, 7, 6)[:, None]
    mean, cov = model.predict(grid, return_cov=True)
    _, sd = model.predict(grid, return_std=True)
    assert cov.shape == (6, 6) and np.linalg.eigvalsh(cov).min() > 0
    exact = dict(rtol=1e-6) if layers == 1 else dict(rtol=0.25)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), sd, **exact)
    draws = model.sample_y(grid, 4000, random_state=1)
    assert draws.shape == (6, 4000)
    np.testing.assert_allclose(draws.mean(1), mean, atol=0.15 * sd.max())
    np.testing.assert_allclose(np.cov(draws), cov, atol=0.1 * cov.max())
    with pytest.raises(ValueError, match="not for both"):
        model.predict(grid, return_std=True, return_cov=True)


def test_draws_of_several_outputs_and_of_counts():
    X, y = sine()
    two = DeepGPRegressor(layers=1, **{**SMALL, "steps": 20}).fit(X, np.c_[y, 2 * y])
    assert two.sample_y(GRID, 3).shape == (12, 2, 3)
    assert two.predict(GRID, return_cov=True)[1].shape == (12, 12, 2)
    np.testing.assert_array_equal(two.sample_y(GRID, 2), two.sample_y(GRID, 2))
    assert not np.array_equal(two.sample_y(GRID, 2), two.sample_y(GRID, 2, random_state=5))
    counts = DeepGPRegressor(layers=1, likelihood="poisson", **SMALL).fit(X, np.round(y + 2))
    drawn = counts.sample_y(GRID[3:9], 500)
    assert (drawn % 1 == 0).all() and drawn.min() >= 0
    _, cov = counts.predict(GRID[3:9], return_cov=True)
    np.testing.assert_allclose(np.diag(cov), drawn.var(1), rtol=0.5)


def test_a_column_of_y_is_a_vector_as_for_scikit_learns_own():
    X, y = sine()
    column = DeepGPRegressor(layers=1, **SMALL).fit(X, y[:, None])
    kin = GaussianProcessRegressor(optimizer=None).fit(X, y[:, None])
    assert column.predict(GRID).shape == kin.predict(GRID).shape == (12,)
    assert column.sample_y(GRID, 3).shape == kin.sample_y(GRID, 3).shape
    _, cov = kin.predict(GRID, return_cov=True)
    assert column.predict(GRID, return_cov=True)[1].shape == cov.shape


def test_random_state_is_a_seed_or_a_generator(regressor, tmp_path):
    quick = {**SMALL, "steps": 5, "layers": 1}
    one = DeepGPRegressor(**quick, random_state=3).fit(*sine())
    assert one.train_spec_.seed == 3
    np.testing.assert_array_equal(
        one.predict(GRID), DeepGPRegressor(**quick, seed=3).fit(*sine()).predict(GRID)
    )
    drawn = DeepGPRegressor(**quick, random_state=np.random.RandomState(7)).fit(*sine())
    assert drawn.train_spec_.seed == np.random.RandomState(7).randint(np.iinfo(np.int32).max)
    drawn.save(tmp_path / "m.npz")
    back = DeepGPRegressor.load(tmp_path / "m.npz")
    assert back.random_state is None and back.seed == drawn.train_spec_.seed


def test_missing_values_are_filled_and_marked_as_the_recipe_does(tmp_path):
    X, y = sine(60)
    X = np.hstack([X, np.cos(X), np.ones((60, 1))])
    X[::7, 1] = np.nan
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    table = read_table(frame.assign(y=y).to_csv(index=False).encode())
    for name, kind in (("c", "number"), ("a", "number")):
        table = table.decide(name, kind)
    made = table.to_dataset("y", "regression", "fill").dataset
    model = DeepGPRegressor(layers=1, **SMALL).fit(frame, y)
    filled = model._filled(X)
    order = [made.input_names.index(n) for n in ("a", "b", "c", "b is missing")]
    np.testing.assert_allclose(filled, made.X[:, order])
    new = pd.DataFrame([[1.0, np.nan, 1.0], [np.nan, 0.5, 1.0]], columns=["a", "b", "c"])
    assert np.isfinite(model.predict(new)).all()
    model.save(tmp_path / "m.npz")
    back = DeepGPRegressor.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(back.predict(new), model.predict(new))
    assert back.n_features_in_ == 3 and list(back.feature_names_in_) == ["a", "b", "c"]
    assert back.domain_.high.shape == (4,)
    dropped = DeepGPRegressor(layers=1, missing="drop", **SMALL).fit(frame, y)
    whole = ~np.isnan(X).any(1)
    same = DeepGPRegressor(layers=1, **SMALL).fit(frame[whole], y[whole])
    np.testing.assert_array_equal(dropped.predict(frame[whole]), same.predict(frame[whole]))
    with pytest.raises(ValueError, match="missing values in 2 rows"):
        dropped.predict(new)


def test_no_more_inducing_points_than_rows():
    X = np.repeat(np.arange(5.0), 8)[:, None]
    model = DeepGPRegressor(layers=1, **{**SMALL, "inducing": 100}).fit(X, np.sin(X[:, 0]))
    assert model.model_spec_.inducing_counts == (5,)
    assert model.inducing == 100


def test_the_rival_has_one_layer():
    deep = DeepGPRegressor(3, (10, 20, 30), (2, 1), ("rbf", "linear", "matern32"), seed=5)
    rival = deep.single_layer()
    changed = dict(layers=1, inducing=30, widths=None, kernels="matern32")
    assert rival.get_params() == {**deep.get_params(), **changed}
    assert not hasattr(rival, "state_")


def test_training_goes_on_where_it_stopped():
    X, y = sine()
    setting = {**SMALL, "decay": False, "natural_rate": 0.0}
    whole = DeepGPRegressor(**{**setting, "steps": 60}).fit(X, y)
    parts = DeepGPRegressor(**{**setting, "steps": 25}).fit(X, y).continue_training(35)
    np.testing.assert_array_equal(parts.bound_, whole.bound_)
    np.testing.assert_array_equal(parts.predict(GRID), whole.predict(GRID))
    assert parts.n_iter_ == 60 and parts.stopped_ == "reached 60 steps"


def test_a_copy_that_travels_holds_no_rows(regressor):
    copy = pickle.loads(pickle.dumps(regressor))
    np.testing.assert_array_equal(copy.predict(GRID), regressor.predict(GRID))
    with pytest.raises(ValueError, match="no training rows"):
        copy.continue_training(5)
    X, y = sine()
    more = copy.continue_training(5, X, y)
    here = clone(regressor).fit(X, y).continue_training(5)
    np.testing.assert_array_equal(more.predict(GRID), here.predict(GRID))


def test_classes_by_their_names(classifier):
    X = np.linspace(0.3, 5.9, 20)[:, None]
    assert classifier.classes_.tolist() == ["down", "up"]
    p = classifier.predict_proba(X)
    np.testing.assert_allclose(p.sum(1), 1)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[p.argmax(1)])
    truth = np.where(np.sin(X[:, 0]) > 0, "up", "down")
    assert classifier.score(X, truth) >= 0.9
    np.testing.assert_allclose(
        np.exp(classifier.log_density(X, truth)), p[np.arange(20), (truth == "up") * 1], atol=1e-8
    )
    draws = classifier.function_draws(X, 3)
    assert draws.shape == (3, 20, 2)
    np.testing.assert_allclose(draws.sum(2), 1)
    with pytest.raises(ValueError, match="no class 'sideways'"):
        classifier.log_density(X[:1], ["sideways"])


def test_counts_of_an_exposure_give_the_rate_of_one():
    """Rows of a known rate that were watched from 1 to 100 hours."""
    rng = np.random.default_rng(0)
    X, hours = np.linspace(-2, 2, 150)[:, None], rng.uniform(1, 100, 150)
    rate = 20 * np.exp(np.sin(2 * X[:, 0]))
    y = rng.poisson(rate * hours).astype(float)
    settings = {**SMALL, "inducing": 20, "steps": 300}
    model = DeepGPRegressor(layers=1, likelihood="counts", **settings).fit(X, y, exposure=hours)
    assert np.sqrt(np.mean((model.predict(X) / rate - 1) ** 2)) < 0.05
    twice = model.predict_mixture(X, exposure=np.full(150, 2.0))
    np.testing.assert_allclose(twice.mean[:, 0], 2 * model.predict(X))
    low, high = model.predict_quantiles(X, [0.05, 0.95], exposure=hours)
    assert 0.75 < np.mean((low <= y) & (y <= high)) <= 1
    # Without their exposure the same counts are very unlikely.
    told = model.log_density(X, y, exposure=hours).mean()
    assert told > model.log_density(X, y).mean() + 10
    before = model.progress_.steps
    model.continue_training(5, X, y, exposure=hours)
    assert model.progress_.steps == before + 5
    for wrong, sentence in ((hours[:5], "one number for each"), (0 * hours, "positive")):
        with pytest.raises(ValueError, match=sentence):
            model.fit(X, y, exposure=wrong)
    with pytest.raises(ValueError, match="for counts"):
        DeepGPRegressor(**SMALL).fit(X, y, exposure=hours)


@pytest.mark.parametrize("likelihood", ["student_t", "poisson", "negative_binomial"])
def test_other_noises_have_their_own_quantiles(likelihood):
    rng = np.random.default_rng(0)
    X = np.linspace(0, 3, 80)[:, None]
    rate = np.exp(1 + np.sin(2 * X[:, 0]))
    y = rate + 0.1 * rng.standard_t(2.5, 80) if likelihood == "student_t" else rng.poisson(rate)
    model = DeepGPRegressor(layers=1, likelihood=likelihood, **SMALL).fit(X, y)
    low, middle, high = model.predict_quantiles(X, [0.05, 0.5, 0.95])
    assert (low <= middle).all() and (middle <= high).all()
    assert 0.8 < np.mean((low <= y) & (y <= high)) <= 1
    if likelihood != "student_t":
        assert (np.concatenate([low, middle, high]) % 1 == 0).all() and low.min() >= 0
        assert (model.function_draws(X, 2) > 0).all()
        assert np.corrcoef(model.predict(X), rate)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("message", "settings", "X", "y"),
    [
        ("Reshape your data", {}, np.arange(3.0), np.arange(3.0)),
        ("inhomogeneous shape", {}, [[1.0, 2.0], [3.0]], [1.0, 2.0]),
        ("Input X contains NaN", {"missing": "error"}, [[1.0], [np.nan]], [1.0, 2.0]),
        ("missing is one of", {"missing": "guess"}, [[1.0], [2.0]], [1.0, 2.0]),
        ("No row is left", {"missing": "drop"}, [[np.nan], [np.nan]], [1.0, 2.0]),
        ("Input y contains NaN", {}, [[1.0], [2.0]], [1.0, np.nan]),
        ("Input y contains infinity", {}, [[1.0], [2.0]], [1.0, np.inf]),
        ("inconsistent numbers", {}, [[1.0], [2.0]], [1.0]),
        ("too large to be scaled", {}, [[1e308], [-1e308]], [1.0, 2.0]),
        ("whole numbers from 0", {"likelihood": "poisson"}, [[1.0], [2.0]], [0.5, 1.0]),
        ("has no likelihood 'bernoulli'", {"likelihood": "bernoulli"}, [[1.0], [2.0]], [0, 1]),
        ("no kernel 'cubic'", {"kernels": "cubic"}, [[1.0], [2.0]], [0, 1]),
        ("at least 1 layer", {"layers": 0}, [[1.0], [2.0]], [0, 1]),
        ("predict_samples must be", {"predict_samples": 0}, [[1.0], [2.0]], [0, 1]),
        ("positive numbers", {"steps": -1}, [[1.0], [2.0]], [0, 1]),
    ],
)
def test_bad_input_gets_a_sentence(message, settings, X, y):
    with pytest.raises(ValueError, match=message):
        DeepGPRegressor(**settings).fit(X, y)


@pytest.mark.parametrize(
    ("message", "y"),
    [
        ("continuous", [0.5, 1.5]),
        ("1 class only", ["a", "a"]),
        ("mixes text and numbers", np.array(["a", 1], dtype=object)),
        ("a label is missing", np.array(["a", None], dtype=object)),
    ],
)
def test_labels_that_are_none(message, y):
    with pytest.raises(ValueError, match=message):
        DeepGPClassifier().fit([[1.0], [2.0]], y)


def test_unfitted_models_and_unknown_settings():
    with pytest.raises(AttributeError, match="not fitted yet"):
        _ = DeepGPRegressor().bound_
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        DeepGPRegressor().set_params(depth=3)


def test_progress_is_told_on_stderr(capsys):
    DeepGPRegressor(layers=1, progress=True, **{**SMALL, "seconds": 1e-9}).fit(*sine())
    told = capsys.readouterr()
    assert told.out == "" and "reached 1e-09 seconds" in told.err


def test_a_hopeless_run_says_so(monkeypatch):
    monkeypatch.setattr("dgp_core.estimator.HOPELESS", 0)
    with pytest.warns(UserWarning, match="smaller learning rate"):
        DeepGPRegressor(layers=1, **{**SMALL, "steps": 1}).fit(*sine())


def test_float32_is_a_choice_that_predicts_alike():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 1))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.standard_normal(60)
    fits = {
        precision: DeepGPRegressor(
            layers=2,
            inducing=10,
            steps=200,
            learning_rate=0.01,
            minibatch=None,
            precision=precision,
        ).fit(X, y)
        for precision in ("float32", "float64")
    }
    leaves = {name: fit.state_.model.layers[0].inducing.dtype for name, fit in fits.items()}
    assert leaves == {"float32": np.float32, "float64": np.float64}
    assert int(fits["float32"].state_.failures) == 0
    single, double = (fits[name].predict(X) for name in ("float32", "float64"))
    assert np.sqrt(np.mean((single - double) ** 2)) < 0.05
    with pytest.raises(ValueError, match="float32 or float64"):
        DeepGPRegressor(precision="float16").fit(X, y)
