"""The mean-field posterior by the estimator, in a file, and by the command."""

import io
import runpy

import jax
import numpy as np
import pytest

from dgp_core import DeepGPRegressor, archive
from dgp_core.__main__ import main
from dgp_core.archive import ArchiveError, Arrays, unzipped
from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.live.run import Run
from dgp_core.live.views.playground import Panel, view_1d
from dgp_core.script import Named, script
from dgp_core.training.train import TrainSpec

N = 24


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (N, 1))
    return X, np.sign(X[:, 0]) + 0.05 * rng.normal(size=N)


@pytest.fixture(scope="module")
def model(rows):
    """Ten steps, all rows in each, though a minibatch is set."""
    return DeepGPRegressor(inducing=5, steps=10, minibatch=8, posterior="mean_field").fit(*rows)


@pytest.fixture(scope="module")
def content(model):
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def test_the_estimator_trains_it_on_all_rows(model, rows):
    assert model.train_spec_.minibatch is None and model.model_spec_.posterior == "mean_field"
    (hidden,) = model.state_.model.hidden
    assert hidden.mean.shape == (N, 1)
    assert np.isfinite(model.bound_).all() and len(model.bound_) == 10
    moved = np.abs(hidden.mean - model.scaler_.inputs(rows[0]))
    assert moved.min() > 0  # every row's q(h) is trained
    mean, sd = model.predict(np.array([[0.0], [5.0]]), return_std=True)
    assert np.isfinite(mean).all() and (sd > 0).all()
    assert model.single_layer()._model_spec("gaussian").mean_field is False


def test_a_file_holds_q_of_h_and_training_goes_on(model, content, rows):
    opened = DeepGPRegressor.load(io.BytesIO(content))
    assert opened.posterior == "mean_field"
    x = np.linspace(-2, 2, 7)[:, None]
    np.testing.assert_array_equal(opened.predict(x), model.predict(x))
    opened.continue_training(2, *rows)
    assert opened.n_iter_ == 12
    with pytest.raises(ValueError, match=f"this model has {N}, and 3 were given"):
        opened.continue_training(1, rows[0][:3], rows[1][:3])


def test_a_file_of_before_there_was_a_choice_is_doubly_stochastic(rows):
    file = io.BytesIO()
    DeepGPRegressor(layers=1, inducing=3, steps=0).fit(*rows).save(file)
    about, members = unzipped(file.getvalue())
    del about.value["model"]["posterior"]
    assert archive.rebuild(about, members).model.posterior == "doubly_stochastic"


def test_bad_numbers_of_rows_are_refused(content):
    about, members = unzipped(content)
    name = "state/model/hidden/0/mean.npy"
    with pytest.raises(ArchiveError, match="hidden/0/mean is missing"):
        archive.rebuild(about, {n: m for n, m in members.items() if n != name})
    # A header that promises more rows than there are.
    swollen = members[name].replace(f"({N}, 1)".encode(), b"(99,1) ")
    assert swollen != members[name]
    with pytest.raises(ArchiveError):
        archive.rebuild(about, {**members, name: swollen})
    nothing = members[name].replace(f"({N}, 1)".encode(), b"(0, 1) ")
    with pytest.raises(ArchiveError, match="no rows"):
        archive.rebuild(about, {**members, name: nothing})
    assert Arrays(members).length("state/model/hidden/0/mean") == N


def test_the_command_takes_it(rows, tmp_path, capsys):
    lines = ["x,y", *(f"{x:.6f},{y:.6f}" for x, y in zip(rows[0][:, 0], rows[1], strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    words = ["fit", str(tmp_path / "rows.csv"), "--target", "y", "--posterior", "mean-field"]
    words += ["--layers", "2", "--inducing", "5", "--steps", "10", "--holdout", "0"]
    out = str(tmp_path / "model.npz")
    assert main([*words, "--out", out, "--minibatch", "8"]) == 2
    assert "leave --minibatch out" in capsys.readouterr().err
    assert main([*words, "--out", out]) == 0
    opened = archive.load(out)
    assert opened.model.mean_field and opened.training.minibatch is None
    assert opened.state.model.hidden[0].mean.shape == (N, 1)
    assert main(["score", out, str(tmp_path / "rows.csv")]) == 0
    assert "rmse" in capsys.readouterr().out.lower()


def test_a_live_run_has_a_program_of_its_own_and_a_script(rows, tmp_path, monkeypatch):
    data = Dataset("step", rows[0], rows[1][:, None], ("x",), ("y",), "regression")
    spec = ModelSpec(layers=2, inducing=5, posterior="mean_field")
    train = TrainSpec(steps=10, minibatch=None, seed=0)
    run = Run(data, spec, train)
    assert run.size is None and run.shape != Run(data.take(np.arange(N - 1)), spec, train).shape
    run.status = "ready"
    while run.status == "ready":
        run.advance()
    assert run.status == "finished" and run.latest is not None
    assert run.latest.deep.hidden[0].mean.shape == (N, 1) and run.latest.rival.hidden == ()
    seen = view_1d(run, run.latest, n_grid=16, n_draws=2)
    assert isinstance(seen.deep, Panel) and np.isfinite(seen.deep.quantiles).all()

    monkeypatch.chdir(tmp_path)
    text = script(Named("step", {}, data), spec, train, fraction=None)
    (tmp_path / "script.py").write_text(text, encoding="utf-8")
    done = runpy.run_path(str(tmp_path / "script.py"))
    for a, b in zip(*map(jax.tree.leaves, (done["state"].model, run.latest.deep)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert archive.load(tmp_path / "model.npz").model == spec
