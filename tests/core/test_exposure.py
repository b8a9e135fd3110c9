"""Counts of rows that were watched for longer or shorter: the rate of a unit is what is learnt."""

import csv
import io
import json
import runpy
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import stats

from dgp_core import archive, line_file
from dgp_core.__main__ import main
from dgp_core.estimator import DeepGPRegressor
from dgp_core.evaluation.boosting import boosted
from dgp_core.evaluation.forecast import deep_predictor, linear_predictor, straight_line
from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.likelihoods import Poisson
from dgp_core.gp.model import DeepGP, ModelSpec, create_model
from dgp_core.gp.predict import predict_latent
from dgp_core.gp.references import BayesianPoisson
from dgp_core.live.run import Run
from dgp_core.live.views.playground import view
from dgp_core.outcome import Outcome, line_record
from dgp_core.script import Upload, script
from dgp_core.tables.recipe import Recipe
from dgp_core.tables.table import TableError, read_table
from dgp_core.training.plan import plan_for
from dgp_core.training.rows import Stream, survey
from dgp_core.training.train import TrainSpec

pytestmark = pytest.mark.usefixtures("quick_compilation")


def simulated(n: int = 150, seed: int = 0) -> tuple[Dataset, np.ndarray]:
    """Rows of a known rate per hour that were watched from 1 to 100 hours."""
    rng = np.random.default_rng(seed)
    x, hours = rng.uniform(-2, 2, n), rng.uniform(1, 100, n)
    rate = 20 * np.exp(np.sin(2 * x))
    y = rng.poisson(rate * hours)[:, None]
    names = (("x", "hours"), ("accidents",))
    X = np.stack([x, hours], 1)
    return Dataset("roads", X, y, *names, task="counts", exposure="hours"), rate


def text_of(data: Dataset) -> bytes:
    rows = zip(*data.X.T, data.Y[:, 0], strict=True)
    return b"x,hours,accidents\n" + b"".join(b"%.5f,%.5f,%d\n" % row for row in rows)


def test_the_exposure_is_no_input_and_its_logarithm_goes_beside_the_counts():
    data, _ = simulated(20)
    scaler = Scaler.fit(data)
    assert scaler.kept.tolist() == [True, False] and scaler.exposed.tolist() == [False, True]
    rows = scaler(data)
    assert rows.input_names == ("x",) and rows.output_names == ("accidents", "log hours")
    np.testing.assert_allclose(rows.Y, np.hstack([data.Y, np.log(data.X[:, 1:])]))
    np.testing.assert_allclose(data.rates.Y, data.Y / data.X[:, 1:])
    alone = replace(data, X=np.stack([np.ones(20), data.X[:, 1]], 1))
    assert Scaler.fit(alone).kept.tolist() == [True, False]
    with pytest.raises(ValueError, match="positive"):
        replace(data, X=-data.X)


def test_a_models_rate_is_multiplied_by_the_exposure():
    """The log-likelihood of a row is Poisson's of rate · hours, whatever the hours."""
    data, _ = simulated(12)
    scaler = Scaler.fit(data)
    rows = scaler(data)
    model = create_model(ModelSpec(1, 5, likelihood="poisson"), rows.X, 1, 2, 0, rows.Y)
    # Total counts over total hours are the rate that it begins with.
    offset = float(np.asarray(model.likelihood.offset)[0])
    assert offset == pytest.approx(np.log(data.Y.sum() / data.X[:, 1].sum()))
    (layer,) = model.layers
    kernel = replace(layer.kernel, log_variance=layer.kernel.log_variance - 40.0)
    certain = DeepGP((replace(layer, kernel=kernel),), model.likelihood)
    latent = predict_latent(certain, rows.X, jax.random.key(0))
    rate = np.exp(latent.mean[:, 0] + offset)
    forecast = deep_predictor(certain, scaler)(data)
    mean = rate * data.X[:, 1]
    expected = stats.poisson.logpmf(data.Y[:, 0], mean)
    np.testing.assert_allclose(forecast.log_density, expected, rtol=1e-5)
    np.testing.assert_allclose(forecast.mean[:, 0], mean, rtol=1e-6)


def test_the_straight_line_and_trees_know_the_exposure():
    """Of two groups the line's rates are total counts over total hours; nothing else would fit."""
    rng = np.random.default_rng(1)
    group, hours = rng.integers(0, 2, 400), rng.uniform(1, 100, 400)
    rate = np.where(group, 9.0, 2.0)
    X, y = np.stack([group, hours], 1), rng.poisson(rate * hours)[:, None]
    data = Dataset("roads", X, y, ("g", "hours"), ("y",), task="counts", exposure="hours")
    line = straight_line(data)
    assert isinstance(line, BayesianPoisson)
    found = np.exp(line.predict_latent(np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 7.0]])).mean[:, 0])
    totals = [y[group == g].sum() / hours[group == g].sum() for g in (0, 1)]
    np.testing.assert_allclose(found, [*totals, 7 * totals[1]], rtol=2e-3)
    # With the hours as an input the logarithm of the rate would be a line in them.
    worse = linear_predictor(replace(data, exposure=""))(data).log_density.mean()
    assert linear_predictor(data)(data).log_density.mean() > worse + 1
    trees, *_ = boosted(data)
    np.testing.assert_allclose(trees.predict_mean(X), np.array(totals)[group] * hours, rtol=0.02)

    table = read_table(text_of(data), "roads.csv")
    recipe = table.to_dataset("accidents", "counts", exposure="hours").recipe
    named = replace(data, input_names=("x", "hours"), output_names=("accidents",), exposure="hours")
    file = io.BytesIO()
    line_file.save(file, line_record(named, recipe))
    file.seek(0)
    again = Outcome(line_file.load(file)).predictions(X[:3])["accidents mean"]
    np.testing.assert_allclose(again, (np.array(totals)[group] * hours)[:3], rtol=3e-3)


def test_a_table_says_what_its_exposure_does_and_why_a_row_lacks_it():
    data, _ = simulated(30)
    text = text_of(data).decode().splitlines()
    text[1] = text[1].split(",")[0] + ",0,5"
    text[2] = text[2].split(",")[0] + ",,5"
    table = read_table("\n".join(text).encode(), "roads.csv")
    for missing in ("drop", "fill"):
        prepared = table.to_dataset("accidents", "counts", missing, exposure="hours")
        assert len(prepared.dataset) == 28 and prepared.dataset.exposure == "hours"
        assert prepared.dataset.input_names == ("x", "hours")
        report = " ".join(prepared.report)
        assert "“hours” is the exposure" in report and "2 rows without a positive" in report
    recipe = Recipe.from_json(prepared.recipe.to_json())
    assert recipe == prepared.recipe and recipe.exposed.tolist() == [False, True]
    why = recipe.why_not(table, recipe.inputs(table))
    assert why[:3].tolist() == ["“hours” is “0”, no positive number", "“hours” is missing", ""]
    for target, task, exposure, sentence in (
        ("accidents", "regression", "hours", "for counts, not for regression"),
        ("accidents", "counts", "accidents", "is the target"),
        ("accidents", "counts", "minutes", "no column"),
        ("hours", "counts", "accidents", "is no count"),
    ):
        with pytest.raises(TableError, match=sentence):
            table.to_dataset(target, task, exposure=exposure)
    with pytest.raises(TableError, match="No column is left"):
        table.decide("x", "dropped").to_dataset("accidents", "counts", exposure="hours")
    damaged = json.loads(recipe.to_json()) | {"exposure": "minutes"}
    with pytest.raises(TableError, match="no recipe"):
        Recipe.from_json(json.dumps(damaged))


def test_the_command_learns_the_rate_and_predicts_the_counts(tmp_path, capsys):
    data, rate = simulated()
    file, out = tmp_path / "roads.csv", tmp_path / "m.npz"
    file.write_bytes(text_of(data))
    fit = ["fit", str(file), "--target=accidents", "--task=counts", "--exposure=hours"]
    small = ["--layers=1", "--inducing=20", "--minibatch=all", "--steps=300"]
    assert main([*fit, *small, f"--out={out}", "--judge-by=chance"]) == 0
    said = capsys.readouterr()
    assert "“hours” is the exposure" in said.err and "no more than Poisson counts" in said.err
    scores = {name: float(value) for name, value in map(str.split, said.out.splitlines())}
    assert scores["rmse"] < 150  # of counts from 10 to 5,000
    assert main([*fit, *small, f"--out={out}", "--likelihood=poisson", "--holdout=0"]) == 0
    model = DeepGPRegressor.load(out)
    hours = np.full(150, 10.0)
    X = np.stack([data.X[:, 0], hours], 1)
    with pytest.warns(UserWarning, match="feature names"):
        mean = model.predict(X)
        draws = model.function_draws(X, 20)
        sampled = model.sample_y(X, 200)
    assert np.sqrt(np.mean((mean / (10 * rate) - 1) ** 2)) < 0.05
    np.testing.assert_allclose(draws.mean(0), mean, rtol=0.1)
    np.testing.assert_allclose(sampled.mean(1), mean, rtol=0.1)

    new, predictions = tmp_path / "new.csv", tmp_path / "p.csv"
    new.write_text("x,hours\n0.5,10\n0.5,40\n0.5,0\n")
    assert main(["predict", str(out), str(new), f"--out={predictions}"]) == 0
    with predictions.open(newline="", encoding="utf-8-sig") as opened:
        one, four, none = csv.DictReader(opened)
    assert float(four["accidents mean"]) == pytest.approx(4 * float(one["accidents mean"]))
    assert float(one["accidents 5%"]) < 10 * 20 * np.exp(np.sin(1.0)) < float(one["accidents 95%"])
    assert none["why not"] == "“hours” is “0”, no positive number" and not none["accidents mean"]
    capsys.readouterr()
    assert main(["resume", str(out), "--steps=302"]) == 0
    assert archive.load(out).progress.steps == 302
    stream = [*fit, "--stream", "--layers=1", "--inducing=5", "--minibatch=20", "--steps=2"]
    assert main([*stream, f"--out={out}"]) == 0
    assert archive.load(out).scaler.exposed.tolist() == [False, True]
    assert main([*fit, "--task=regression", *small, f"--out={out}"]) == 2
    assert "for counts, not for regression" in capsys.readouterr().err


def test_a_stream_gives_the_log_exposure_beside_the_counts():
    data, _ = simulated(40)

    class Halves:
        def __len__(self):
            return 2

        def read(self, part):
            rows = slice(20 * part, 20 * part + 20)
            return data.X[rows], data.Y[rows]

    found = survey(Halves(), "counts", exposed=data.exposed)
    with Stream(Halves(), found, 8, 0) as stream:
        X, Y = stream.rows(0, 40)
    assert X.shape == (40, 1) and Y.shape == (40, 2)
    order = np.argsort(Y[:, 0], kind="stable")
    expected = np.log(data.X[np.argsort(data.Y[:, 0], kind="stable"), 1])
    np.testing.assert_allclose(np.sort(Y[order, 1]), np.sort(expected))


def test_a_live_run_and_its_script_learn_the_rate(tmp_path, monkeypatch):
    data, rate = simulated(60)
    plan = plan_for(data)
    assert plan.model.likelihood == "poisson"
    spec, train = ModelSpec(1, 8, likelihood="poisson"), TrainSpec(steps=3, ramp_steps=1)
    run = Run(data, spec, train)
    run.prepare()
    run.step(3)
    while run.latest is None or run.latest.step < 3:
        run.advance()
    assert isinstance(run.latest.deep.likelihood, Poisson)
    seen = view(run, run.latest)
    assert seen.y_name == "accidents per hours"
    np.testing.assert_allclose(seen.data_y, data.Y[:, 0] / data.X[:, 1])
    source = Upload("roads.csv", ("accidents",), "counts", exposure="hours")
    (tmp_path / "roads.csv").write_bytes(text_of(data))
    path = tmp_path / "fit.py"
    path.write_text(script(source, spec, train, fraction=None))
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(path))
    saved = archive.load(tmp_path / "model.npz")
    assert saved.scaler.exposed.tolist() == [False, True]
    assert saved.recipe is not None and saved.recipe["exposure"] == "hours"
