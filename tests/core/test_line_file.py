"""The straight line's own model file: read back to the last bit, or refused in words."""

import io
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from dgp_core import line_file
from dgp_core.archive import ArchiveError, Source
from dgp_core.command.files import load_any
from dgp_core.evaluation.conformal import Widening
from dgp_core.outcome import Outcome, line_record
from dgp_core.tables.table import read_table

COLOURS = ("red", "green", "blue")


def record(task: str):
    rng = np.random.default_rng(1)
    rows = []
    for i in range(60):
        x = rng.uniform(-2, 2)
        y = {
            "regression": f"{2 * x + rng.normal():.3f}",
            "counts": f"{rng.poisson(np.exp(x))}",
        }.get(task, "high" if x + 0.3 * rng.normal() > 0 else "low" if x > -1 else "lowest")
        rows.append(f"{x:.3f},{COLOURS[i % 3]},{y}")
    table = read_table("\n".join(["x,colour,y", *rows, ""]).encode(), "t.csv")
    prepared = table.to_dataset("y", task)
    return prepared, line_record(prepared.dataset, prepared.recipe, Source("t.csv", 60, "0" * 32))


@pytest.mark.parametrize("task", ["regression", "counts", "multiclass"])
def test_a_line_is_read_back_and_predicts_the_same(task, tmp_path):
    prepared, line = record(task)
    line_file.save(tmp_path / "line.npz", line)
    again = load_any(str(tmp_path / "line.npz"))
    assert isinstance(again, line_file.LineArchive) and again.source == line.source
    X = prepared.dataset.X[:7]
    one, two = Outcome(line).predictions(X), Outcome(again).predictions(X)
    assert one.keys() == two.keys()
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert Outcome(again).outside(X).keys() == {"outside", "distance"}


def test_far_outside_the_data_a_line_admits_that_it_knows_less(tmp_path):
    _, line = record("regression")
    own = Outcome(line).predictions(np.array([[0.0, 1, 0, 0], [1000.0, 1, 0, 0]]))
    assert own["y sd"][1] > 20 * own["y sd"][0]


def test_widened_intervals_are_marked_and_survive_the_file():
    prepared, line = record("regression")
    file = io.BytesIO()
    line_file.save(file, replace(line, widening=Widening((2.0,), 30, 30, 0.6, 0.9)))
    file.seek(0)
    wide, X = Outcome(line_file.load(file)), prepared.dataset.X[:5]
    own, plain = wide.predictions(X), Outcome(line).predictions(X)
    middle = plain["y 50%"]
    np.testing.assert_allclose(own["y 95% (widened)"], middle + 2 * (plain["y 95%"] - middle))
    np.testing.assert_array_equal(own["y mean"], plain["y mean"])
    assert wide.widening is not None and "stretched 2 times" in wide.widening.sentence


def test_a_damaged_line_is_refused():
    _, line = record("regression")
    file = io.BytesIO()
    line_file.save(file, line)
    damaged = io.BytesIO()
    with zipfile.ZipFile(file) as whole, zipfile.ZipFile(damaged, "w") as part:
        for name in whole.namelist():
            if "covariance" not in name:
                part.writestr(name, whole.read(name))
    damaged.seek(0)
    with pytest.raises(ArchiveError, match="covariance"):
        line_file.load(damaged)
