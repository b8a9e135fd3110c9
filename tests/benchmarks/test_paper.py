"""The paper's tables: what is held out, how a killed run goes on, and how a cell is judged."""

from argparse import Namespace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import paper, recipes
from benchmarks.report import append_row, provenance, read_rows
from datasets.printed import Printed
from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.training.train import TrainSpec

ROWS = Dataset("rows", np.arange(100.0)[:, None], np.arange(100.0)[:, None], ("x",), ("y",))


def test_inner_rows_are_of_the_training_part_and_leave_the_test_rows_alone():
    for i in range(3):
        train_rows, test_rows = paper.parts(ROWS, i, inner=False)
        order = np.random.RandomState(i).permutation(np.arange(100))
        assert set(test_rows.X[:, 0]) == set(order[90:])
        inner_train, inner_held = paper.parts(ROWS, i, inner=True)
        assert len(inner_train) == 81 and len(inner_held) == 9
        inner = {*inner_train.X[:, 0], *inner_held.X[:, 0]}
        assert inner == set(train_rows.X[:, 0]) and not inner & set(test_rows.X[:, 0])


def test_a_killed_run_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    folder, log = tmp_path / "data", tmp_path / "log.jsonl"
    folder.mkdir()
    np.savez(folder / "rows.npz", X=ROWS.X, y=ROWS.Y[:, 0])
    asked, patience = [], 2

    def measure(dataset, model, i, recipe, inner):
        if len(asked) == patience:
            raise KeyboardInterrupt
        asked.append((model, i, recipe))
        row = {"set": "rows", "model": model, "split": i, "recipe": recipe, "held_out": "test"}
        return row | {"loglik": 0.0, "rmse": 1.0, "steps": 0, "processor_seconds": 0.0}

    monkeypatch.setattr(paper, "measure", measure)
    asks = {"sets": "rows", "splits": "0-1", "models": "linear,sgp", "whole": False}
    options = Namespace(**asks, inner=False, data=folder)
    with pytest.raises(KeyboardInterrupt):
        paper.run(options, ["default"], log)
    with log.open("a") as file:
        file.write('{"set": "rows", "mod')  # a line that was being written
    patience = 99
    paper.run(options, ["default"], log)
    whole = [("linear", 0, ""), ("sgp", 0, "default"), ("linear", 1, ""), ("sgp", 1, "default")]
    assert asked == whole
    rows = read_rows(log)
    assert [(row["model"], row["split"], row["recipe"]) for row in rows] == whole
    assert all(row["commit"] and "jax" in row["versions"] and row["machine"] for row in rows)
    assert capsys.readouterr().out.count("nats") == 4


def test_the_whole_tables_grow_split_by_split():
    jobs = paper.jobs(Namespace(whole=True), ["default"])
    assert len(set(jobs)) == len(jobs) == 4 * 4 * 20 + 2 * 20 + 2 * 3 * 5 + 6 * 3 * 5
    assert [job[2] for job in jobs] == sorted(job[2] for job in jobs)
    assert ("power", "linear", 19, "") in jobs and ("energy", "dgp5", 4, "default") in jobs


def test_rows_survive_a_line_cut_short(tmp_path):
    path = tmp_path / "rows.jsonl"
    assert read_rows(path) == []
    append_row(path, {"a": 1})
    path.write_bytes(path.read_bytes() + b'{"a": ')
    append_row(path, {"a": 2})
    assert read_rows(path) == [{"a": 1}, {"a": 2}]
    assert set(provenance()) == {"commit", "versions", "machine"}


@pytest.mark.parametrize(
    ("score", "ours", "paper_s", "judged"),
    [
        ("loglik", 1.33, Printed(1.34, 0.01), True),
        ("loglik", 1.32, Printed(1.34, 0.01), False),
        ("loglik", 1.50, Printed(1.34, 0.01), True),
        ("rmse", 0.47, Printed(0.47, 0.01), True),
        ("rmse", 0.49, Printed(0.47, 0.01), False),
        ("rmse", 0.40, Printed(0.47, None), True),
    ],
)
def test_a_cell_is_met_within_one_standard_error(score, ours, paper_s, judged):
    assert paper.met(score, ours, paper_s) is judged


def row(model: str, split: int, loglik: float, **others) -> dict:
    plain = {"set": "energy", "model": model, "split": split, "recipe": "default"}
    scores = {"held_out": "test", "loglik": loglik, "rmse": 0.47, "processor_seconds": 1.0}
    return plain | scores | others


def test_the_report_has_ours_beside_the_paper_s_and_no_inner_rows():
    rows = [row("dgp2", 0, -0.6), row("dgp2", 1, -0.8), row("sgp", 0, -1.4)]
    two, one = paper.report([*rows, row("dgp2", 2, 9.0, held_out="inner")])
    assert two["splits"] == 2 and two["loglik"] == "-0.70 (0.10)"
    assert two["paper loglik"] == "-0.73 (0.02)" and two["loglik is"] == two["rmse is"] == "met"
    assert one["loglik"] == "-1.40" and one["loglik is"] == "missed"


def test_what_was_tried_is_set_against_the_reference_on_the_same_splits():
    took = {"held_out": "inner", "bound": 0.5, "row_visits": 1000, "steps": 10}
    rows = [
        row("dgp2", 0, -0.8, **took, recipe=paper.REFERENCE),
        row("dgp2", 0, -0.7, **took, recipe="wide"),
        row("dgp2", 1, -0.1, **took, recipe="wide"),
    ]
    reference, wide = paper.tried(rows)
    assert reference["less 2000 steps"] == "+0.000"
    assert (wide["splits"], wide["less 2000 steps"]) == (2, "+0.100")


def test_the_best_of_several_starts_goes_on_and_all_visits_count(monkeypatch):
    begun = iter((1.0, 3.0, 2.0))
    seen = []

    def create_model(spec, X, seed):
        return SimpleNamespace(worth=next(begun))

    def train_chunk(state, rows, train, n_steps, n_data):
        seen.append((state.model.worth, n_steps, train.samples, n_data))
        return state, SimpleNamespace(value=np.full(n_steps, state.model.worth))

    monkeypatch.setattr(recipes, "create_model", create_model)
    monkeypatch.setattr(recipes, "create_state", lambda model, key: SimpleNamespace(model=model))
    monkeypatch.setattr(recipes, "train_chunk", train_chunk)
    train = TrainSpec(steps=500, minibatch=None)
    recipe = recipes.Recipe(train, starts=3, start_steps=100, anneal=0.5, last_samples=4)
    fit = recipes.fit(recipe, ModelSpec(layers=1), ROWS.X, ROWS.Y, seed=0)
    assert [one[0] for one in seen] == [1.0, 3.0, 2.0, 3.0, 3.0, 3.0, 3.0]
    assert fit.steps == 300 + 400 and fit.bound == pytest.approx(0.03)
    assert fit.row_visits == 100 * (300 + 300 + 4 * 100)
    # At a fifth of all steps the weight is 0.1^(1 − 0.4), and from the half on 1.
    assert [one[3] for one in seen[3:]] == [round(100 / 0.1**0.6), round(100 / 0.1**0.2), 100, 100]
