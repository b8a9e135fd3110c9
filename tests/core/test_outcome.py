"""What a saved model says of a file: against draws, quadrature and the estimator's own word."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from dgp_core.archive import Archive, ArchiveError
from dgp_core.evaluation.scores import EVEN_LEVELS, Draws
from dgp_core.gp.data import Scaler
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.gp.references import BayesianLinear, BayesianLogistic, BayesianPoisson
from dgp_core.outcome import Outcome, line_record
from dgp_core.tables.table import read_table
from dgp_core.training.optimise import create_state
from dgp_core.training.train import Progress, TrainSpec
from tests.core.textbook import mixture_scores

pytestmark = pytest.mark.usefixtures("quick_compilation")

RNG = np.random.default_rng(3)
x = RNG.uniform(0, 3, 40)
Y = np.exp(np.sin(x) + 0.3 * RNG.standard_normal(40))
FILE = "x,y,k\n" + "\n".join(f"{x[i]:.4f},{Y[i]:.4f},{i % 3}" for i in range(40))


def outcome(target, task, transform="none", likelihood="gaussian", **spec):
    """An untrained model of a column of the file, and the file's rows."""
    table = read_table(FILE.encode())
    others = {"y", "k"} - set(target if isinstance(target, tuple) else (target,))
    for name in others:
        table = table.decide(name, "dropped")
    prepared = table.to_dataset(target, task, transform=transform)
    data = prepared.dataset
    scaler = Scaler.fit(data)
    model_spec = ModelSpec(layers=1, inducing=5, likelihood=likelihood, **spec)
    model = create_model(
        model_spec, scaler(data).X, data.Y.shape[1], max(2, len(data.classes)), seed=1
    )
    model = replace(
        model,
        layers=tuple(
            replace(
                layer,
                q_mean=layer.q_mean
                + np.linspace(-1, 1, layer.q_mean.size).reshape(layer.q_mean.shape),
            )
            for layer in model.layers
        ),
    )
    record = Archive(
        model=model_spec,
        training=TrainSpec(steps=0),
        scaler=scaler,
        state=create_state(model, jax.random.key(0)),
        progress=Progress(),
        task=data.task,
        input_names=data.input_names,
        output_names=data.output_names,
        classes=data.classes,
        recipe=json.loads(prepared.recipe.to_json()),
    )
    return Outcome(record), data, record


def test_regression_scores_are_those_of_the_mixture(monkeypatch):
    told, data, _ = outcome("y", "regression")
    whole = told.scores(told.in_units(data))
    mixture = told.regressor.predict_mixture(data.X)
    expected = mixture_scores(mixture, data.Y)
    assert set(whole) == set(expected)
    for name, value in expected.items():
        assert whole[name] == pytest.approx(value, rel=1e-5 if name == "crps" else 1e-9), name
    # Blocks of unequal length weigh as many rows as they have.
    monkeypatch.setattr("dgp_core.outcome.BLOCK", 16)
    assert told.scores(told.in_units(data)) == pytest.approx(whole, rel=1e-9)


def test_a_logarithm_is_undone_in_predictions_and_scores():
    told, data, _ = outcome("y", "regression", "log")
    columns = told.predictions(data.X)
    mixture = told.regressor.predict_mixture(data.X)
    y = np.exp(data.Y)

    def density(t, row):
        return (
            np.exp(
                Mixture(mixture.means[:, [row]], mixture.variances[:, [row]]).log_density(
                    np.log([[t]])
                )
            )[0, 0]
            / t
        )

    def moment(k, row):
        return quad(lambda t: t**k * density(t, row), 0, 400, limit=400, points=[0.1, 1, 10])[0]

    for row in (0, 7):
        first, second = moment(1, row), moment(2, row)
        assert columns["y mean"][row] == pytest.approx(first, rel=1e-5)
        assert columns["y sd"][row] == pytest.approx(np.sqrt(second - first**2), rel=1e-3)
    median = columns["y 50%"]
    np.testing.assert_allclose(mixture.cdf(np.log(median)[:, None])[:, 0], 0.5, atol=1e-9)

    found = told.scores(told.in_units(data))
    each = [np.log(density(y[i, 0], i)) for i in range(len(y))]
    assert found["log_likelihood"] == pytest.approx(np.mean(each), rel=1e-9)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y[:, 0] - columns["y mean"]) ** 2)))
    draws = np.sort(np.exp(mixture.sample(np.random.default_rng(0), 4000))[..., 0], 0)
    n = len(draws)
    # E|Y − y| − ½ E|Y − Y'|, the second from sorted draws.
    rank = (2 * np.arange(1, n + 1) - n - 1)[:, None]
    crps = np.abs(draws - y[:, 0]).mean(0) - (rank * draws).sum(0) / n**2
    assert found["crps"] == pytest.approx(crps.mean(), rel=0.02)


def test_a_students_t_has_no_mean_beneath_a_logarithm():
    told, data, _ = outcome("y", "regression", "log", "student_t")
    columns = told.predictions(data.X[:3])
    assert np.isnan(columns["y mean"]).all() and np.isnan(columns["y sd"]).all()
    assert (np.diff([columns[f"y {t}%"] for t in (5, 50, 95)], axis=0) > 0).all()


def test_the_score_from_quantiles_is_the_closed_one(rng):
    mixture = Mixture(rng.normal(size=(4, 6, 2)), rng.uniform(0.1, 2, (4, 6, 2)))
    y = rng.normal(size=(6, 2)) * 2
    by_quantiles = Draws(mixture.quantile(EVEN_LEVELS), independent=False).crps(y)
    np.testing.assert_allclose(by_quantiles, mixture.crps(y), rtol=3e-3, atol=3e-4)


def test_several_targets_each_have_their_columns():
    told, data, _ = outcome(("y", "k"), "regression")
    columns = told.predictions(data.X)
    mean, sd = told.regressor.predict(data.X, return_std=True)
    for p, name in enumerate(("y", "k")):
        np.testing.assert_array_equal(columns[f"{name} mean"], mean[:, p])
        np.testing.assert_array_equal(columns[f"{name} sd"], sd[:, p])


def test_classes_have_names_and_probabilities():
    told, data, _ = outcome("k", "multiclass", likelihood="robust_max")
    columns = told.predictions(data.X)
    p = np.stack([columns[f"k = {c}"] for c in "012"], 1)
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(p, told.classifier.predict_proba(data.X))
    assert list(columns["k predicted"]) == [str(c) for c in p.argmax(1)]
    assert {"log_likelihood", "accuracy", "auc"} <= told.scores(told.in_units(data)).keys()


def test_what_lies_outside_the_training_rows_is_named():
    """Numbers, dates, levels and holes beyond what the training rows have."""
    lines = [f"{i * 0.1:.1f},2024-01-{i % 28 + 1:02d},{'ab'[i % 2]},{i % 5},{'' if i == 3 else i}"
             for i in range(60)]  # fmt: skip
    table = read_table(("x,when,k,y,hole\n" + "\n".join(lines)).encode())
    prepared = table.to_dataset("y", "regression", "fill")
    train = prepared.dataset.take(np.flatnonzero(prepared.dataset.X[:, 2] == 0)[2:])  # no k = b
    told = Outcome(line_record(train, prepared.recipe))
    new = read_table(b"x,when,k,hole\n3,2024-01-05,a,30\n99,2024-03-01,b,\n-1,2023-12-31,a,20\n")
    said = told.outside(prepared.recipe.inputs(new))
    first, second, third = said["outside"]
    assert first == "" and said["distance"][0] <= 1
    assert second == (
        "“x” above 5.8; “when” after 2024-01-27; “k” is “b”, as in no training row; "
        "“hole” is missing, as in no training row; far from the training rows"
    )
    assert third.startswith("“x” below 0.4; “when” before 2024-01-01")


def test_a_model_without_a_recipe_or_with_anothers_is_refused():
    _, _, record = outcome("y", "regression")
    with pytest.raises(ArchiveError, match="without the recipe"):
        Outcome(replace(record, recipe=None))
    with pytest.raises(ArchiveError, match="does not fit"):
        Outcome(replace(record, input_names=("z",)))


def line(target, task, transform="none"):
    """The straight line through the file's rows, and these."""
    table = read_table(FILE.encode())
    table = table.decide("k" if target == "y" else "y", "dropped")
    prepared = table.to_dataset(target, task, transform=transform)
    return Outcome(line_record(prepared.dataset, prepared.recipe)), prepared.dataset


@pytest.mark.parametrize("transform", ["none", "log"])
def test_the_straight_line_predicts_as_the_bayesian_line_does(transform):
    told, data = line("y", "regression", transform)
    columns = told.predictions(data.X)
    predicted = BayesianLinear.fit(data.X, data.Y).predict(data.X)
    m, s = predicted.means[0, :, 0], np.sqrt(predicted.variances[0, :, 0])
    q = stats.norm.ppf(0.95, m, s)
    law = stats.lognorm(s, scale=np.exp(m)) if transform == "log" else stats.norm(m, s)
    np.testing.assert_allclose(columns["y mean"], law.mean(), rtol=1e-9)
    np.testing.assert_allclose(columns["y sd"], law.std(), rtol=1e-9)
    np.testing.assert_allclose(columns["y 95%"], np.exp(q) if transform == "log" else q, rtol=1e-6)
    y = data.Y[:, 0] if transform == "none" else np.exp(data.Y[:, 0])
    found = told.scores(told.in_units(data))
    assert found["log_likelihood"] == pytest.approx(law.logpdf(y).mean(), rel=1e-9)
    assert found["rmse"] == pytest.approx(np.sqrt(np.mean((y - law.mean()) ** 2)), rel=1e-9)


def test_the_straight_line_of_counts_is_a_poisson_regression():
    told, data = line("k", "counts")
    columns = told.predictions(data.X)
    latent = BayesianPoisson.fit(data.X, data.Y).predict_latent(data.X)
    m, v = latent.means[0, :, 0], latent.variances[0, :, 0]
    # By brute force over the log-rate.
    z = np.linspace(-8, 8, 2001)
    weight = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    rate = np.exp(m[:, None] + np.sqrt(v)[:, None] * z)
    np.testing.assert_allclose(columns["k mean"], rate @ weight, rtol=1e-6)
    variance = rate @ weight + rate**2 @ weight - (rate @ weight) ** 2
    np.testing.assert_allclose(columns["k sd"], np.sqrt(variance), rtol=1e-6)
    below = stats.poisson.cdf(columns["k 95%"][:, None] - 1, rate) @ weight
    reached = stats.poisson.cdf(columns["k 95%"][:, None], rate) @ weight
    assert (below < 0.96).all() and (reached > 0.94).all()
    expected = np.log(stats.poisson.pmf(data.Y, rate) @ weight).mean()
    assert told.scores(told.in_units(data))["log_likelihood"] == pytest.approx(expected, rel=1e-6)


def test_the_straight_line_of_classes_is_a_logistic_regression():
    told, data = line("k", "multiclass")
    columns = told.predictions(data.X)
    p = np.stack([columns[f"k = {c}"] for c in "012"], 1)
    expected = BayesianLogistic.fit(data.X, data.Y, 3).predict_proba(data.X)
    np.testing.assert_allclose(p, expected, rtol=1e-12)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-12)
    assert list(columns["k predicted"]) == [str(c) for c in p.argmax(1)]
