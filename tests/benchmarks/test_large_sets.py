"""The benchmarks of scale: a known noise floor, and small files with the columns of the paper's."""

import json
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from benchmarks import large, scale
from datasets.catalogue import entry
from datasets.printed import printed
from dgp_core.training import train
from tests.core.runs import by_chance

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_rides_are_sorted_and_their_noise_floor_is_what_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, "BLOCK", 15_000)
    monkeypatch.setattr(scale, "FILE_ROWS", 25_000)
    scale.write(tmp_path, 40_000)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    table = parquet.read_table(tmp_path)
    assert table.num_rows == 40_000 and len(table.column_names) == 10
    column = {name: table[name].to_numpy() for name in table.column_names}
    when = column["day"] + column["hour"].astype(float) / 24
    assert (np.diff(when) > -1e-5).all() and column["day"][-1] == 364
    weekday = np.array([list(scale.WEEKDAYS).index(w) for w in column["weekday"]])
    payment = np.array([list(scale.PAYMENTS).index(w) for w in column["payment"]])
    places = [f"{a}_{b}" for a in ("pickup", "dropoff") for b in ("east", "north")]
    truth = scale.duration(
        column["day"], column["hour"], weekday, *(column[n].astype(float) for n in places), payment
    )
    noise = column["seconds"] - truth
    # Heavy tails: the standard error of the mean square is about 8 %.
    assert np.sqrt(np.mean(noise**2)) == pytest.approx(scale.FLOOR, rel=0.1)
    assert 100 < table["metres"].null_count < 300 and np.nanmax(column["metres"]) == 1e6
    # What was not written is written as it would have been, and nothing else.
    content, before = files[1].read_bytes(), files[0].stat().st_mtime_ns
    files[1].unlink()
    scale.write(tmp_path, 40_000)
    assert files[1].read_bytes() == content and files[0].stat().st_mtime_ns == before


def test_a_set_is_prepared_once_and_only_where_there_is_room(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "rides-3000"
    monkeypatch.setattr(scale, "ROW_BYTES", 1e18)
    assert not scale.prepare(folder, 3000) and "GB are free" in capsys.readouterr().out
    assert not folder.exists()
    monkeypatch.setattr(scale, "ROW_BYTES", 48)
    monkeypatch.setattr(sys, "argv", ["scale", "--rows=3e3", f"--folder={tmp_path}", "--prepare"])
    scale.main()
    shuffled = tmp_path / "rides-3000.shuffled"
    before = {file: file.stat().st_mtime_ns for file in shuffled.iterdir()}
    parts, found, took = scale.prepared(folder, 3000)
    assert found.rows == 3000 and 200 < 3000 - sum(found.sizes) < 400 and took["measuring"] > 0
    assert before == {file: file.stat().st_mtime_ns for file in shuffled.iterdir()}
    # Seven numbers, one of them with missing cells that are filled and marked; two categories.
    assert parts.read(0)[0].shape == (3000, 7 + 4 + 7 + 1)


@pytest.mark.parametrize("name", ["year", "higgs"])
def test_small_files_with_the_papers_columns_are_fitted_and_resumed(
    name, tmp_path, monkeypatch, capsys
):
    rng, D = np.random.default_rng(0), entry(name).D
    X = rng.normal(size=(120, D))
    y = (X[:, 0] > 0).astype(float) if name == "higgs" else 1990 + 5 * X[:, 0]
    np.savez(tmp_path / f"{name}.npz", X=X, y=y)
    found = tmp_path / "found.json"
    words = ["large", f"--data={tmp_path}", "--models=sgp", "--minibatch=32", f"--json={found}"]
    monkeypatch.setattr(large, "MODELS", {"sgp": (1, 5)})
    monkeypatch.setattr(sys, "argv", [*words, "--steps=2"])
    large.main()
    (row,) = json.loads(found.read_text())
    score = "auc" if name == "higgs" else "rmse"
    assert row[f"paper {score}"] == printed(name, score)["sgp"].value and row[score] > 0
    assert "taxi is not in" in capsys.readouterr().out
    found.unlink()
    monkeypatch.setattr(sys, "argv", [*words, "--steps=4"])
    large.main()
    assert "goes on from step 2" in capsys.readouterr().err
    large.main()  # nothing is measured twice
    assert len(json.loads(found.read_text())) == 1 and "goes on" not in capsys.readouterr().err


def test_the_other_sets_in_every_kind_of_file(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "train_chunk", by_chance)
    monkeypatch.setattr(large, "MODELS", {"sgp": (1, 5)})
    rng = np.random.default_rng(0)
    for name, task in (("airline", "rmse"), ("susy", "auc"), ("taxi", "rmse")):
        rows = rng.normal(size=(80, entry(name).D + 1))
        if task == "auc":
            rows[:, -1] = rows[:, 0] > 0
        frame = pd.DataFrame(rows, columns=[f"c{i}" for i in range(rows.shape[1])])
        if name == "airline":
            frame.to_csv(tmp_path / "airline.csv", index=False)
        elif name == "susy":
            frame.to_parquet(tmp_path / "susy.parquet")
        else:
            np.save(tmp_path / "taxi.npy", rows)
    found = tmp_path / "found.json"
    words = [f"--data={tmp_path}", "--models=sgp", "--steps=2", "--minibatch=16", f"--json={found}"]
    monkeypatch.setattr(sys, "argv", ["large", *words])
    large.main()
    scores = {row["set"]: row for row in json.loads(found.read_text())}
    assert list(scores) == ["airline", "susy", "taxi"]
    for name, score in (("airline", "rmse"), ("susy", "auc"), ("taxi", "rmse")):
        assert scores[name][f"paper {score}"] == printed(name, score)["sgp"].value
        assert np.isfinite(scores[name][score]) and np.isfinite(scores[name]["loglik"])


def test_waiting_for_rows_is_noted():
    class Slow:
        n = 1

        def prefetch(self, step, n_steps):
            return pa.NULL, n_steps

    supply = scale.Timed(Slow())
    assert supply.prefetch(0, 3) == (pa.NULL, 3) and supply.waited > 0 and supply.n == 1
