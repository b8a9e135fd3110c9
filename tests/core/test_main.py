"""The command line: a file in, a model and its predictions out; stopped, and gone on with."""

import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from dgp_core import archive, outcome
from dgp_core.__main__ import main
from dgp_core.archive import Archive
from dgp_core.command import actions, training
from dgp_core.estimator import DeepGPClassifier, DeepGPRegressor
from dgp_core.gp.data import split
from dgp_core.gp.model import create_model
from dgp_core.live.keep import archive_of, source_of
from dgp_core.live.run import Run
from dgp_core.outcome import Outcome
from dgp_core.tables import shuffled
from dgp_core.tables.table import TableError, read_table
from dgp_core.training import rows
from dgp_core.training.optimise import create_state
from dgp_core.training.progress import ProgressBar
from dgp_core.training.train import Progress, Rows, Windows, train_chunk
from tests.core.textbook import mixture_scores

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROOT = Path(__file__).parents[2]
SMALL = ["--layers", "2", "--inducing", "5", "--steps", "40", "--minibatch", "16"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A file of sixty rows with an identifier, two numbers, a category and four targets."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    x, z = rng.uniform(-2, 2, 60), rng.normal(size=60)
    colour = rng.choice(["red", "green", "blue"], 60)
    y = np.sin(2 * x) + (colour == "red") + 0.1 * z
    lines = ["id;x;z;colour;y;=size;kind;visits"]
    for i in range(60):
        size, kind = "large" if y[i] > 0 else "small", "abc"[min(2, int(abs(y[i]) * 2))]
        cells = (i + 1, f"{x[i]:.5f}", f"{z[i]:.5f}", colour[i], f"{100 + 20 * y[i]:.4f}", size)
        lines.append(";".join(map(str, (*cells, kind, rng.poisson(np.exp(y[i]))))))
    lines[7] = lines[7].replace(lines[7].split(";")[2], "")  # a hole in z
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return folder


def dropped(*names) -> list[str]:
    return [word for name in names for word in ("--column", f"{name}=dropped")]


REGRESSION = ["--target", "y", *dropped("=size", "kind", "visits"), *SMALL]


@pytest.fixture(scope="module")
def model(folder) -> Path:
    """A model that was fitted to the end."""
    out = folder / "whole.npz"
    assert main(["fit", str(folder / "rows.csv"), *REGRESSION, "--out", str(out)]) == 0
    return out


def numbers(record: Archive) -> list[np.ndarray]:
    """Everything that the next step depends on, and the bound so far."""
    state = replace(record.state, key=jax.random.key_data(record.state.key))
    return [*map(np.asarray, jax.tree.leaves(state)), record.progress.bound]


def assert_same(one: Archive, two: Archive) -> None:
    for a, b in zip(numbers(one), numbers(two), strict=True):
        np.testing.assert_array_equal(a, b)


def test_predictions_are_the_estimators_own(folder, model, capsys):
    out = folder / "predictions.csv"
    text = (folder / "rows.csv").read_text().splitlines()
    full = folder / "full.csv"
    full.write_text("\n".join(text[:7] + text[8:]) + "\n")
    assert main(["predict", str(model), str(full), "--out", str(out)]) == 0
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [line.split(";")[0] for line in text[1:7] + text[8:]]
    assert rows[0]["colour"] == text[1].split(";")[3]
    assert "'=size" in rows[0]  # no text of an exported file can act as a formula

    estimator, record = DeepGPRegressor.load(model), archive.load(model)
    X = Outcome(record).recipe.inputs(read_table(full))
    with pytest.warns(UserWarning, match="feature names"):
        mean, sd = estimator.predict(X, return_std=True)
        quantiles = estimator.predict_quantiles(X, [0.05, 0.975])
    for name, values in (("mean", mean), ("sd", sd), ("5%", quantiles[0]), ("97.5%", quantiles[1])):
        np.testing.assert_array_equal([float(row[f"y {name}"]) for row in rows], values)
    assert not list(folder.glob(".*"))


def test_what_can_be_predicted_is_and_the_rest_says_why_not(folder, model, capsys):
    """Five rows of a thousand must not cost the others their predictions."""
    out, new = folder / "mixed.csv", folder / "new.csv"
    new.write_text("x,z,colour\n1,0.2,red\n,1,blue\n0.5,1,mauve\n90,0.1,green\n")
    assert main(["predict", str(model), str(new), "--out", str(out)]) == 0
    told = capsys.readouterr().err
    assert "2 of 4 rows of new.csv predicted." in told and "2 rows are left blank" in told
    assert "1 row lies outside the training rows" in told
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [bool(row["y mean"]) for row in rows] == [True, False, False, True]
    assert [row["why not"] for row in rows] == [
        "", "“x” is missing", "“colour” is “mauve”, never seen in training", ""
    ]  # fmt: skip
    high = archive.load(model).domain.high[0]
    assert [row["outside"] for row in rows] == [
        "", "", "", f"“x” above {high:.6g}; far from the training rows"
    ]  # fmt: skip
    assert float(rows[0]["distance"]) < 1 < float(rows[3]["distance"]) and not rows[1]["distance"]
    whole, alone = folder / "one.csv", folder / "alone.csv"
    alone.write_text("x,z,colour\n1,0.2,red\n")
    assert main(["predict", str(model), str(alone), "--out", str(whole)]) == 0
    with whole.open(newline="") as file:
        mean = float(next(csv.DictReader(file))["y mean"])
    assert mean == pytest.approx(float(rows[0]["y mean"]), rel=1e-9)
    new.write_text("x,z,colour\n1,0.2,mauve\n")
    assert main(["predict", str(model), str(new), "--out", str(out)]) == 1
    assert "0 of 1 row of new.csv predicted" in capsys.readouterr().err
    assert out.read_text().count("\n") == 2


def dated(path: Path, n: int = 200) -> Path:
    """A line in time that bends in its last tenth, rows in no order."""
    rng = np.random.default_rng(2)
    days = rng.permutation(n)
    y = 0.1 * days + rng.normal(0, 0.3, n) + 0.06 * np.maximum(days - 0.9 * n, 0)
    at = np.datetime64("2020-01-01") + days
    shop = [f"S{d % 10}" for d in days]
    rows = zip(at, shop, y, strict=True)
    path.write_text("date,shop,sales\n" + "".join(f"{d},{s},{v:.4f}\n" for d, s, v in rows))
    return path


def test_rows_are_held_out_by_time_or_groups_and_the_verdict_says_which(tmp_path, capsys):
    data, out = dated(tmp_path / "sales.csv"), tmp_path / "m.npz"
    fit = ["fit", str(data), "--target=sales", "--column=shop=dropped", "--layers=1"]
    fit += ["--inducing=3", "--steps=1", "--minibatch=all", f"--out={out}"]
    assert main(fit) == 0
    log = capsys.readouterr().err
    assert "Rows are held out by latest:date" in log and "all later in “date”" in log
    assert "rows later than any it was trained on" in log
    # One step has learnt nothing: the straight line is the one to use, though it is too sure of a
    # future that bends.
    assert "use the straight line" in log and "overconfident" in log
    assert main(["score", str(out), str(data)]) == 0
    by_time = float(capsys.readouterr().out.split("rmse")[1].split()[0])
    line = tmp_path / "m-line.npz"
    assert main(["predict", str(line), str(data), f"--out={tmp_path / 'p.csv'}"]) == 0
    with open(tmp_path / "p.csv", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    assert {"sales mean", "outside", "why not"} <= rows[0].keys()
    later = [row["date"] for row in rows if "“date” after 2020-06-28" in row["outside"]]
    assert len(later) == 20 and min(later) == "2020-06-29"
    capsys.readouterr()

    assert main([*fit, "--judge-by=chance"]) == 0
    assert "rows later than" not in capsys.readouterr().err
    assert main(["score", str(out), str(data)]) == 0
    assert float(capsys.readouterr().out.split("rmse")[1].split()[0]) < by_time

    assert main([*fit, "--judge-by=groups:shop"]) == 0
    log = capsys.readouterr().err
    assert "20 rows are held out: whole groups of “shop”" in log
    assert "from groups of “shop” that it was not trained on" in log
    assert main([*fit, "--judge-by=latest:shop"]) == 2
    assert "neither dates nor numbers" in capsys.readouterr().err


def test_held_out_rows_are_predicted_once_and_by_the_first_process(tmp_path, capsys, monkeypatch):
    data, rows = dated(tmp_path / "sales.csv"), []
    fit = ["fit", str(data), "--target=sales", "--column=shop=dropped", "--layers=1"]
    fit += ["--inducing=3", "--steps=1", "--minibatch=all", f"--out={tmp_path / 'm.npz'}"]
    known = DeepGPRegressor.log_density

    def counting(self, X, *rest):
        rows.append(len(X))
        return known(self, X, *rest)

    monkeypatch.setattr(DeepGPRegressor, "log_density", counting)
    monkeypatch.setattr(archive, "load", None)  # the model is at hand
    assert main(fit) == 0 and rows == [20]
    assert "use the straight line" in capsys.readouterr().err
    monkeypatch.setattr(training, "is_lead", lambda: False)
    monkeypatch.setattr(training, "judge", None)
    assert main(fit) == 0 and capsys.readouterr().out == ""


def test_long_predictions_are_written_in_parts(folder, model, monkeypatch):
    monkeypatch.setattr(outcome, "ROWS_WRITTEN", 7)
    text = (folder / "rows.csv").read_text().splitlines()
    some, out = folder / "some.csv", folder / "parts.csv"
    # A prediction's name that is taken already gets a number.
    some.write_text("\n".join([text[0].replace(";kind;", ";y mean;"), *text[8:28]]) + "\n")
    assert main(["predict", str(model), str(some), "--out", str(out)]) == 0
    monkeypatch.setattr(outcome, "ROWS_WRITTEN", 1000)
    assert main(["predict", str(model), str(some), "--out", str(folder / "one.csv")]) == 0
    with out.open(newline="") as file, (folder / "one.csv").open(newline="") as other:
        rows, whole = list(csv.DictReader(file)), list(csv.DictReader(other))
    assert len(rows) == 20 and {row["y mean"] for row in rows} <= set("abc")
    for row, same in zip(rows, whole, strict=True):
        assert row.keys() == same.keys() and row["id"] == same["id"]
        assert float(row["y mean (2)"]) == pytest.approx(float(same["y mean (2)"]), rel=1e-9)


def test_scores_are_of_rows_that_were_held_out(folder, model, capsys):
    assert main(["score", str(model), str(folder / "rows.csv")]) == 0
    told = capsys.readouterr()
    found = {name: float(value) for name, value in map(str.split, told.out.splitlines())}
    assert "On 6 rows" in told.err and "1 row is left out" in told.err
    estimator, record = DeepGPRegressor.load(model), archive.load(model)
    table = read_table(folder / "rows.csv")
    for name in ("=size", "kind", "visits"):
        table = table.decide(name, "dropped")
    _, test = split(table.to_dataset("y", "regression", "drop").dataset, 0.9, 0)
    with pytest.warns(UserWarning, match="feature names"):
        expected = mixture_scores(estimator.predict_mixture(test.X), test.Y)
    assert found == pytest.approx(expected, rel=1e-5)
    assert record.source is not None and record.source.file == "rows.csv"


def test_counts_that_vary_too_much_for_poisson_are_found_and_said(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(80)
    y = rng.negative_binomial(1, 1 / (1 + 2000 * np.exp(x)))
    lines = ["x,y", *(f"{a:.3f},{b}" for a, b in zip(x, y, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    out = tmp_path / "m.npz"
    words = ["--target", "y", "--task", "counts", *SMALL, "--out", str(out)]
    assert main(["fit", str(tmp_path / "rows.csv"), *words]) == 0
    assert "differ more than Poisson counts" in capsys.readouterr().err
    record = archive.load(out)
    assert record.model.likelihood == "negative_binomial"
    # The mean of the training rows, of counts in thousands, is where the rate begins.
    assert 6 < float(record.state.model.likelihood.offset[0]) < 9
    assert main(["fit", str(tmp_path / "rows.csv"), *words, "--likelihood", "poisson"]) == 0
    assert archive.load(out).model.likelihood == "poisson"


@pytest.mark.parametrize(
    ("target", "task", "likelihood"),
    [("=size", "binary", "bernoulli"), ("kind", "multiclass", "softmax"),
     ("visits", "counts", "poisson")],
)  # fmt: skip
def test_every_task_fits_scores_and_predicts(folder, capsys, target, task, likelihood):
    out, others = folder / f"{task}.npz", {"y", "=size", "kind", "visits"} - {target}
    words = [f"--target={target}", *dropped(*sorted(others)), *SMALL, "--missing", "fill"]
    words[words.index("--layers") + 1] = "1"
    assert main(["fit", str(folder / "rows.csv"), *words, "--out", str(out)]) == 0
    scores = dict(map(str.split, capsys.readouterr().out.splitlines()))
    record = archive.load(out)
    assert (record.task, record.model.likelihood) == (task, likelihood)
    assert record.progress.steps == 40 and len(record.progress.bound) == 40
    wanted = {"rmse", "crps"} if task == "counts" else {"accuracy", "auc"}
    assert wanted | {"log_likelihood"} <= scores.keys()
    predictions = folder / f"{task}.csv"
    words = [str(out), str(folder / "rows.csv"), "--out", str(predictions)]
    assert main(["predict", *words]) == 0
    with predictions.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if task == "counts":
        assert all(float(row["visits 2.5%"]) <= float(row["visits 97.5%"]) for row in rows)
        return
    classes = DeepGPClassifier.load(out).classes_
    name = "'=size" if target == "=size" else target
    p = np.array([[float(row[f"{name} = {c}"]) for c in classes] for row in rows])
    np.testing.assert_allclose(p.sum(1), 1, atol=1e-6)
    assert [row[f"{name} predicted"] for row in rows] == list(classes[p.argmax(1)])


class Impatient(ProgressBar):
    """Asks the program to stop as soon as it has taken a few steps."""

    number: signal.Signals = signal.SIGTERM

    def on_chunk(self, state, progress):
        super().on_chunk(state, progress)
        os.kill(os.getpid(), self.number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_goes_on_bit_for_bit(folder, model, monkeypatch, capsys, number):
    out = folder / f"stopped {number}.npz"
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(Impatient, "number", number)
        patch.setattr(training, "ProgressBar", Impatient)
        words = ["fit", str(folder / "rows.csv"), *REGRESSION, "--out", str(out)]
        assert main(words) == 128 + number
    assert signal.getsignal(signal.SIGTERM) is before
    told = capsys.readouterr()
    assert told.out == "" and "Saved at step 10 of 40" in told.err
    assert f"python -m dgp_core resume '{out}'" in told.err
    assert archive.load(out).progress.steps == 10
    assert main(["resume", str(out)]) == 0
    assert_same(archive.load(out), archive.load(model))
    assert "rmse" in capsys.readouterr().out
    assert main(["resume", str(out)]) == 0
    assert "has 40 steps already" in capsys.readouterr().err


def test_before_training_there_is_nothing_to_save(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(actions, "read_table", interrupted)
    assert main(["fit", "rows.csv", "--target", "y", "--out", "m.npz"]) == 130
    assert "before there was anything to save" in capsys.readouterr().err


def test_resume_takes_more_steps_and_another_file(folder, model, tmp_path):
    elsewhere = tmp_path / "elsewhere.csv"
    elsewhere.write_bytes((folder / "rows.csv").read_bytes())
    out = tmp_path / "longer.npz"
    words = [str(model), str(elsewhere), "--steps", "60", "--out", str(out)]
    assert main(["resume", *words]) == 0
    longer = archive.load(out)
    assert longer.progress.steps == 60 and longer.source is not None
    assert longer.source.file == "elsewhere.csv"
    assert archive.load(model).progress.steps == 40


def test_resume_refuses_other_rows(folder, model, tmp_path, capsys):
    text = (folder / "rows.csv").read_text()
    other = tmp_path / "other.csv"
    other.write_text("\n".join(text.splitlines()[:-1]) + "\n")
    assert main(["resume", str(model), str(other), "--steps", "60"]) == 2
    assert "other.csv holds other rows (58 complete ones)" in capsys.readouterr().err


def test_a_model_of_another_maker_goes_on_once_its_rows_are_named(folder, model, tmp_path, capsys):
    record = archive.load(model)
    path = tmp_path / "app.npz"
    archive.save(path, replace(record, source=None))
    assert main(["resume", str(path), "--steps", "45"]) == 2
    assert "name their file" in capsys.readouterr().err
    assert main(["resume", str(path), str(folder / "rows.csv"), "--steps", "45"]) == 0
    assert "those that were held out before included" in capsys.readouterr().err
    assert archive.load(path).progress.steps == 45


def test_what_the_app_saves_goes_on_as_if_begun_here(folder, model, tmp_path):
    here = archive.load(model)
    table = read_table(folder / "rows.csv")
    for name in ("=size", "kind", "visits"):
        table = table.decide(name, "dropped")
    prepared = table.to_dataset("y", "regression", "drop")
    train, _ = split(prepared.dataset, 0.9, 0)
    run = Run(train, here.model, here.training, own_program=True)  # the command's, to the last bit
    run.pause()
    run.step(15)
    while run.wants_turn(0.0) or run.status != "ready":
        run.prepare() if run.status != "ready" else run.advance()
    path = tmp_path / "app.npz"
    archive.save(
        path, archive_of(run, "deep", prepared.recipe, source_of(prepared.dataset, 0.1, 0))
    )
    assert archive.load(path).progress.steps == 15
    assert main(["resume", str(path), str(folder / "rows.csv")]) == 0
    assert_same(archive.load(path), here)


def test_many_rows_are_taken_from_where_they_are(folder, model, monkeypatch):
    record = archive.load(model)
    rows, _ = actions._dataset(read_table(folder / "rows.csv"), Outcome(record).recipe)
    record = replace(record, training=replace(record.training, minibatch=20))
    assert isinstance(training.minibatches(record, rows), Rows)
    monkeypatch.setattr(training, "MOST_COPIED_CELLS", 10)
    assert isinstance(training.minibatches(record, rows), Windows)


def test_ctrl_c_while_it_scores_says_that_the_model_is_saved(folder, tmp_path, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(training, "judge", interrupted)
    out = tmp_path / "model.npz"
    words = ["fit", str(folder / "rows.csv"), *REGRESSION, "--steps", "1", "--out", str(out)]
    assert main(words) == 128 + signal.SIGINT
    assert "the model is saved" in capsys.readouterr().err and archive.load(out).progress.steps == 1


def test_the_order_of_a_date_can_be_told(tmp_path):
    rows = "".join(f"{1 + i % 12}/{1 + i % 11}/2024,{i % 7}.5\n" for i in range(24))
    (tmp_path / "dates.csv").write_text(f"when,y\n{rows}")
    found = {}
    for order in ("day", "month"):
        out = str(tmp_path / f"{order}.npz")
        words = ["fit", str(tmp_path / "dates.csv"), "--target", "y", "--out", out]
        words += ["--steps", "0", "--column", f"when=date:{order}", "--inducing", "2"]
        assert main(words) == 0
        found[order] = Outcome(archive.load(out)).recipe.inputs_from[0].day_first
    assert found == {"day": True, "month": False}


def test_a_checkpoint_that_fails_stops_nothing(folder, tmp_path, monkeypatch, capsys):
    saves, really = [], archive.save

    def save(path, record):
        saves.append(record.progress.steps)
        if len(saves) == 2:
            raise OSError(28, "No space left on device")
        really(path, record)

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(archive, "save", save)
    out = tmp_path / "model.npz"
    assert main(["fit", str(folder / "rows.csv"), *REGRESSION, "--out", str(out)]) == 0
    assert saves[:2] == [0, 10] and len(saves) >= 4 and saves[-1] == 40
    assert "No checkpoint" in capsys.readouterr().err
    assert archive.load(out).progress.steps == 40


def no_space(*_):
    raise OSError(28, os.strerror(28))


def test_a_full_disk_at_the_last_save_does_not_lose_the_model(
    folder, tmp_path, monkeypatch, capsys
):
    """The folder takes the model of step 0, and then nothing more."""
    elsewhere = tmp_path / "temporary"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    really, count, out = archive.write, [], tmp_path / "model.npz"

    def write(path, blocks):
        count.append(path)
        (really if len(count) == 1 else no_space)(path, blocks)

    def only_there(suffix, prefix, folder, _make=tempfile.mkstemp):
        return _make(suffix, prefix, folder) if folder == elsewhere else no_space()

    monkeypatch.setattr(archive, "write", write)
    monkeypatch.setattr("tempfile.mkstemp", only_there)
    assert main(["fit", str(folder / "rows.csv"), *REGRESSION, "--out", str(out)]) == 1
    (saved,) = elsewhere.iterdir()
    told = capsys.readouterr()
    assert "No space left on device" in told.err and str(saved) in told.err and "rmse" in told.out
    assert archive.load(saved).progress.steps == 40 and archive.load(out).progress.steps == 0


def test_a_part_damaged_under_way_does_not_lose_what_was_learnt(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 400)
    table = pa.table({"x": x, "y": np.sin(x)})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=100)
    taken, read = [], shuffled.Shuffled.read

    def damaged(self, part, columns=None):
        taken.append(part)
        if len(taken) > 2 and len(trained) > 2:  # after the survey
            raise TableError("rows.parquet is damaged: write it again.")
        return read(self, part, columns)

    trained, on_chunk = [], ProgressBar.on_chunk

    def chunk(self, state, progress):
        trained.append(progress.steps)
        on_chunk(self, state, progress)

    monkeypatch.setattr(shuffled.Shuffled, "read", damaged)
    monkeypatch.setattr(shuffled, "PART_ROWS", 100)
    monkeypatch.setattr(rows, "BUFFER_CELLS", 200)
    monkeypatch.setattr(ProgressBar, "on_chunk", chunk)
    out = tmp_path / "model.npz"
    words = ["fit", str(tmp_path / "rows.parquet"), "--stream", "--target", "y", "--layers", "1"]
    words += ["--inducing", "5", "--steps", "1000000", "--minibatch", "50", "--out", str(out)]
    assert main(words) == 2
    told = capsys.readouterr().err
    assert "is damaged" in told and f"resume {out}" in told and "Traceback" not in told
    assert archive.load(out).progress.steps == trained[-1] > 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("fit no.csv --target y --out m.npz", "no.csv cannot be opened: No such file"),
        ("fit rows.csv --target Colours --out m.npz", "no column “Colours”"),
        ("fit rows.csv --target Colours --out m.npz", "Is “colour” meant?"),
        ("fit rows.csv --target x --task binary --out m.npz", "this task takes two"),
        ("fit rows.csv --target colour --task regression --out m.npz", "holds no numbers"),
        ("fit rows.csv --target x --task counts --out m.npz", "is no count"),
        ("fit rows.csv --target x --likelihood poisson --out m.npz", "not for regression"),
        ("fit rows.csv --target x --kernel magic --out m.npz", "no kernel 'magic'"),
        ("fit rows.csv --target x --out nowhere/m.npz", "cannot be written"),
        ("fit rows.csv --target x --holdout 0.99 --out m.npz", "With --holdout 0 all rows"),
        ("predict no.npz rows.csv --out p.csv", "no.npz cannot be opened"),
        ("predict rows.csv rows.csv --out p.csv", "no saved model"),
        ("predict whole.npz lacking.csv --out p.csv", "is “colours” meant for “colour”"),
        ("predict whole.npz short.csv --out nowhere/p.csv", "cannot be written"),
        ("score whole.npz untargeted.csv", "lacks “y”"),
        ("score whole.npz wordy.csv", "No row of wordy.csv"),
        ("resume whole.npz no.csv --steps 50", "no.csv cannot be opened"),
    ],
)
def test_what_cannot_be_done_gets_a_sentence(folder, model, monkeypatch, capsys, words, sentence):
    monkeypatch.chdir(folder)
    Path("short.csv").write_text("x,z,colour,y\n1,2,red,100\n0.5,1,blue,90\n")
    Path("lacking.csv").write_text("x,z,colours,y\n1,2,red,100\n0.5,1,blue,90\n")
    Path("untargeted.csv").write_text("x,z,colour\n1,2,red\n0.5,1,blue\n")
    Path("wordy.csv").write_text("x,z,colour,y\n1,2,red,high\n0.5,1,blue,low\n")
    assert main(words.split()) == 2
    told = capsys.readouterr()
    assert sentence in told.err and "Traceback" not in told.err and told.out == ""
    assert not list(folder.glob(".*.part"))


@pytest.mark.parametrize(
    "words",
    ["--steps -1", "--natural-rate 2", "--column x=colour", "--column x=date:year",
     "--column x=number:day", "--seed 4294967296", "--minibatch few", "--layer 3"],
)  # fmt: skip
def test_words_that_make_no_sense_end_the_program(folder, capsys, words):
    with pytest.raises(SystemExit, match="2"):
        main(["fit", str(folder / "rows.csv"), "--target", "y", "--out", "m.npz", *words.split()])
    assert words.split()[0] in capsys.readouterr().err


def test_the_bar_says_how_far_how_fast_and_how_long(capsys):
    with ProgressBar(1000, taken=10) as bar:
        part = np.full(100, 2.0)
        bar.on_chunk(None, Progress(100, 9.0, [part], [np.ones((100, 2))]))
    last = capsys.readouterr().err.strip().split("\r")[-1]
    assert "100/1000" in last and "bound 0.0" in last and "step/s" in last


def test_sigterm_saves_and_the_steps_are_those_of_an_unbroken_run(folder, tmp_path):
    """In a process of its own, stopped while it compiles or trains."""
    out = tmp_path / "model.npz"
    words = ["fit", str(folder / "rows.csv"), *REGRESSION, "--steps", "1000000", "--out", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-m", "dgp_core", *words],
        cwd=ROOT,
        env={
            **os.environ,
            "XDG_CACHE_HOME": str(tmp_path),
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        },
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 300
        while not out.exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 128 + signal.SIGTERM, told
    assert "Traceback" not in told and "python -m dgp_core resume" in told
    record = archive.load(out)
    n = record.progress.steps
    assert 0 < n < 1_000_000

    table = read_table(folder / "rows.csv")
    X, Y, _ = Outcome(record).recipe.complete(table)
    order = np.arange(59)
    np.random.RandomState(0).shuffle(order)
    rows = order[: int(0.9 * 59)]
    X, Y = record.scaler.inputs(X[rows]), record.scaler.outputs(Y[rows])
    state = create_state(create_model(record.model, X, 1, 2, 0), jax.random.key(0))
    supply, left = Rows.create(X, Y, 16, np.float64, 0), n
    while left:
        state, _ = train_chunk(state, supply, record.training, min(left, 1000))
        left -= min(left, 1000)
    unbroken = replace(record, state=state)
    assert_same(record, unbroken)
