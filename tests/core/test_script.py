"""Scripts that are run, and give what the run itself gave, to the last bit."""

import ast
import runpy
import sys

import jax
import numpy as np
import pytest

from datasets import catalogue
from dgp_core import archive
from dgp_core.estimator import DeepGPRegressor
from dgp_core.evaluation.forecast import deep_predictor
from dgp_core.gp.data import split
from dgp_core.gp.model import ModelSpec
from dgp_core.live.run import Run
from dgp_core.script import MOST_NUMBERS, Named, Upload, decisions, script
from dgp_core.tables.table import Limits, read_table
from dgp_core.training.train import TrainSpec

pytestmark = pytest.mark.usefixtures("quick_compilation")

MODEL = ModelSpec(layers=2, inducing=5)
TRAIN = TrainSpec(steps=40, minibatch=None, seed=3)


def trained(dataset, model, train):
    run = Run(dataset, model, train)
    run.status = "ready"  # without the picture that `prepare` compiles
    while run.status == "ready":
        run.advance()
    assert run.status == "finished"
    return run


def execute(text, tmp_path, monkeypatch):
    """From a folder that is neither the script's nor the project's."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    monkeypatch.chdir(elsewhere)
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    return runpy.run_path(str(tmp_path / "script.py"))


def assert_same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        # The script's own program rounds otherwise than the app's, which serves a size class.
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=1e-8)


def test_a_toys_script_gives_the_runs_own_parameters(tmp_path, monkeypatch, capsys):
    """With no other package than dgp_core."""
    data = catalogue.load("step", n=40, seed=5)
    text = script(Named("step", {"n": 40, "seed": 5}, data), MODEL, TRAIN)
    for name in [name for name in sys.modules if name.partition(".")[0] == "datasets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "datasets", None)  # its import fails
    done = execute(text, tmp_path, monkeypatch)
    monkeypatch.undo()
    np.testing.assert_array_equal(done["dataset"].X, data.X)
    assert done["dataset"].input_names == data.input_names
    train, held = split(catalogue.load("step", n=40, seed=5), 0.9, seed=3)
    run = trained(train, MODEL, TRAIN)
    assert_same(done["state"].model, run.latest.deep)
    assert_same(done["rival_state"].model, run.latest.rival)
    forecast = deep_predictor(run.latest.deep, run.scaler, TRAIN.seed)(held)
    done_density = done["cards"][0].forecast.log_density
    np.testing.assert_allclose(done_density, forecast.log_density, rtol=1e-6)
    assert "held out" in capsys.readouterr().out


def test_a_run_that_was_stopped_early_is_trained_as_far(tmp_path, monkeypatch, capsys):
    done = execute(
        script(Named("step", {"n": 36}), MODEL, TRAIN, fraction=None, steps=11),
        tmp_path,
        monkeypatch,
    )
    said = capsys.readouterr().out
    assert "On the training rows" in said and "held out" not in said and "held_out" not in done
    run = Run(catalogue.load("step", n=36), MODEL, TRAIN)
    run.status = "ready"
    run.advance()
    while run.latest.step < 11:
        run.step(4 if run.latest.step < 8 else 3)
        run.advance()
    assert run.latest.step == 11
    assert_same(done["state"].model, run.latest.deep)


def test_a_shipped_files_script_holds_the_file(tmp_path, monkeypatch):
    rows = "x;y\n" + "\n".join(f"{i},5;{i % 7}" for i in range(40))
    source = Upload("datasets/files/a.csv", ("y",), "regression", content=rows.encode("cp1251"),
                    reading={"encoding": "cp1251", "decimal": ","})  # fmt: skip
    text = script(source, MODEL.single_layer(), TRAIN, steps=1)
    done = execute(text, tmp_path, monkeypatch)
    assert done["table"].reading.encoding == "cp1251" and done["dataset"].X[3, 0] == 3.5
    assert done["recipe"]["reading"] == {"encoding": "cp1251", "decimal": ","}


HOSTILE = 'a"\'\\\n"""); import os; os.abort() #'


def test_an_uploads_script_reads_the_file_with_its_decisions(tmp_path, monkeypatch, rng):
    n = 36
    header = '"' + HOSTILE.replace('"', '""') + '"'
    lines = [f"{header},colour,code,y"]
    for i in range(n):
        x = rng.standard_normal()
        lines.append(f"{x:.4f},{'red' if i % 3 else 'blue'},{i % 4},{np.exp(x):.5f}")
    (tmp_path / "my 'data'.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    before = read_table(tmp_path / "my 'data'.csv")
    assert HOSTILE.replace("\n", " ") in before.cells
    after = before.decide("code", "category")
    made = after.to_dataset("y", "regression", "drop", "log")
    choices = decisions(before, after)
    assert choices == (("code", "category", None),)
    source = Upload("my 'data'.csv", ("y",), "regression", "drop", ("log",), choices)
    model = MODEL.single_layer()
    # However large the file is: what the page took, the script takes.
    monkeypatch.setattr(read_table, "__defaults__", ("", Limits(rows=10)))
    done = execute(script(source, model, TRAIN), tmp_path, monkeypatch)
    train, _ = split(made.dataset, 0.9, seed=3)
    run = trained(train, model, TRAIN)
    assert_same(done["state"].model, run.latest.deep)
    # What it saves opens, knows its columns, and predicts the same.
    record = archive.load(tmp_path / "elsewhere" / "model.npz")
    assert record.recipe["targets"][0]["column"] == "y"
    # And which rows it has not seen, so that training never goes on with them.
    known = record.source
    assert (known.file, known.rows) == ("my 'data'.csv", n)
    assert known.digest == archive.digest(made.dataset.X, made.dataset.Y)
    again, _ = split(made.dataset, 1 - known.held_out, known.split_seed)
    np.testing.assert_array_equal(again.X, train.X)
    saved = DeepGPRegressor.load(tmp_path / "elsewhere" / "model.npz")
    X = made.dataset.X[:8]
    with pytest.warns(UserWarning, match="feature names"):
        mean = saved.predict(X)
    rows = made.dataset.take(slice(0, 8))
    forecast = deep_predictor(run.latest.deep, run.scaler, TRAIN.seed)(rows)
    np.testing.assert_allclose(mean, forecast.mean[:, 0], rtol=1e-6)


def test_no_script_of_a_set_that_comes_with_the_lab_needs_the_collection():
    most = max(
        data.X.size + data.Y.size for data in map(catalogue.load, catalogue.names("shipped"))
    )
    assert most <= MOST_NUMBERS
    data = catalogue.load("co2")
    text = script(Named("co2", {}, data, ("latest", "year")), MODEL, TRAIN)
    assert "from datasets" not in text and "by_input(dataset, 'latest', 'year')" in text


def test_untrusted_names_stay_inside_their_quotes():
    source = Upload(HOSTILE, (HOSTILE,), "counts", "fill", ("none",), ((HOSTILE, "date", True),))
    tree = ast.parse(script(source, MODEL, TRAIN))
    imported = {
        a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names
    }
    assert imported == {"jax", "json"}
    strings = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    assert strings.count(HOSTILE) == 4


def test_specs_are_written_as_they_are():
    model = ModelSpec(
        3, (4, 5, 6), (2, 3), ("rbf", "linear", "rbf"), "zero", "student_t", None, "float32"
    )
    train = TrainSpec(7, 0.125, 0.0, 3, 11, 2, False, 0.5, 1e-3, 9, 2.5, 8)
    tree = ast.parse(script(Named("step"), model, train))
    made = {
        node.targets[0].id: eval(ast.unparse(node.value))
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("spec", "training")
    }
    assert made == {"spec": model, "training": train}


@pytest.mark.parametrize("options", [{"n": object()}, {"seed=0); x = (1": 1}])
def test_what_cannot_be_written_is_refused(options):
    with pytest.raises((TypeError, ValueError)):
        script(Named("step", options), MODEL, TRAIN)


def test_one_layer_has_no_rival():
    text = script(Named("step", {"n": 40}), MODEL.single_layer(), TRAIN, fraction=None)
    assert "rival_state" not in text
    ast.parse(text)
