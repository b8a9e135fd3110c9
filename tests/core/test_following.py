"""A fit is followed by its files: whatever becomes of them, what is known stays, and a sentence
says what is wrong."""

import io
import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dgp_core import archive, following, line_file
from dgp_core.__main__ import main
from dgp_core.archive import Archive
from dgp_core.command import training
from dgp_core.following import Followed, Follower, Scored, is_over, read_log, seconds_left
from dgp_core.gp.data import Dataset
from dgp_core.outcome import Outcome, line_record
from dgp_core.tables.table import read_table
from dgp_core.training import train
from tests.core.runs import by_chance

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def fit(tmp_path_factory) -> Path:
    """The files of a fit that has ended, with a checkpoint after every chunk of steps."""
    folder, rng = tmp_path_factory.mktemp("fit"), np.random.default_rng(0)
    rows = [f"{x:.3f},{'red' if x > 0 else 'blue'},{np.sin(x):.3f}" for x in rng.normal(size=60)]
    (folder / "DATA.csv").write_text("x,colour,y\n" + "\n".join(rows))
    words = ["--target=y", "--inducing=4", "--steps=40", f"--out={folder / 'model.npz'}"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train, "train_chunk", by_chance)
        patch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
        log = f"--log={folder / 'model.jsonl'}"
        assert main(["fit", str(folder / "DATA.csv"), *words, log]) == 0
    return folder


@pytest.fixture(scope="module")
def ended(fit) -> Archive:
    return archive.load(fit / "model.npz")


def at_step(record: Archive, step: int) -> Archive:
    """The checkpoint of a fit that goes on."""
    fit, kl = (np.concatenate(part)[:step] for part in (record.progress.fit, record.progress.kl))
    progress = replace(record.progress, steps=step, seconds=2.0 * step, stopped="")
    return replace(record, progress=replace(progress, fit=[fit], kl=[kl]))


def step_of(follower: Followed) -> int:
    assert follower.record is not None
    return follower.record.progress.steps


def test_what_the_command_writes_is_followed(fit, ended):
    follower = Follower(str(fit / "model.npz"), str(fit / "model.jsonl"))
    follower.look()
    assert (follower.problem, follower.log_problem, step_of(follower)) == ("", "", 40)
    assert follower.record is not None and is_over(follower.record)
    np.testing.assert_array_equal(follower.record.progress.bound, ended.progress.bound)
    lines = [json.loads(line) for line in (fit / "model.jsonl").read_text().splitlines()]
    assert [one.step for one in follower.scores] == list(dict.fromkeys(l["step"] for l in lines))
    assert follower.scores[-1].scores == lines[-1]["held_out"]
    assert {"rmse", "log_likelihood"} <= follower.scores[-1].scores.keys()
    # The newest score is that of the model in the file.
    table = read_table(fit / "DATA.csv")
    X, Y, _ = Outcome(ended).recipe.complete(table)
    source = ended.source
    assert source is not None
    order = np.arange(len(X))
    np.random.RandomState(source.split_seed).shuffle(order)
    held = order[int((1 - source.held_out) * len(X)) :]
    names = ended.input_names, ended.output_names
    scores = Outcome(ended).scores(Dataset("held", X[held], Y[held], *names))
    assert follower.scores[-1].scores["rmse"] == pytest.approx(scores["rmse"])


def test_a_file_is_read_again_only_where_it_has_changed(ended, tmp_path):
    path = tmp_path / "model.npz"
    archive.save(path, at_step(ended, 10))
    follower = Follower(str(path))
    follower.look()
    first = follower.record
    follower.look()
    assert follower.record is first and step_of(follower) == 10
    archive.save(path, at_step(ended, 20))
    follower.look()
    assert step_of(follower) == 20 and follower.age < 60


def test_time_left_is_by_the_pace_after_compilation_and_the_time_that_was_given(ended):
    record = at_step(ended, 20)  # 2 s per step
    log = [Scored(10, 30.0, {}), Scored(15, 35.0, {})]
    assert seconds_left(record, log) == pytest.approx(20 * (40 - 30) / 10)
    assert seconds_left(at_step(ended, 10), log) is None and seconds_left(record) is None
    boxed = replace(record, training=replace(record.training, seconds=45.0))
    assert seconds_left(boxed, log) == pytest.approx(5.0)
    long = replace(record, progress=replace(record.progress, steps=200, seconds=400.0))
    long = replace(long, training=replace(record.training, steps=300))
    assert seconds_left(long) == pytest.approx(200.0)
    assert not is_over(record) and is_over(ended)


def test_a_file_that_is_cut_off_or_gone_leaves_the_last_checkpoint(ended, tmp_path):
    path = tmp_path / "model.npz"
    archive.save(path, at_step(ended, 10))
    follower = Follower(str(path))
    follower.look()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])  # as a slow copy from another machine has it
    follower.look()
    assert "no saved model" in follower.problem and step_of(follower) == 10
    path.write_bytes(whole)
    follower.look()
    assert follower.problem == ""
    moved = path.rename(tmp_path / "away.npz")
    follower.look()
    assert "There is no file" in follower.problem and step_of(follower) == 10
    moved.rename(path)
    follower.look()
    assert follower.problem == ""
    archive.save(path, replace(at_step(ended, 5), model=ended.model))  # begun again
    follower.look()
    assert step_of(follower) == 5 and follower.problem == ""


def test_whatever_else_has_the_name_is_a_sentence(fit, ended, tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    os.mkfifo(tmp_path / "pipe")  # to open it would wait for a writer
    recipe = Outcome(ended).recipe
    X, Y, _ = recipe.complete(read_table(fit / "DATA.csv"))
    rows = Dataset("rows", X, Y, recipe.input_names, recipe.output_names)
    line_file.save(tmp_path / "line.npz", line_record(rows, recipe))
    archive.save(tmp_path / "python.npz", replace(ended, recipe=None))
    for name, sentence in {
        "nothing.npz": "There is no file",
        "": "is a folder",
        "pipe": "is no plain file",
        "table.csv": "no saved model",
        "line.npz": "straight line, which is fitted at once",
        "python.npz": "saved without the recipe",
        "\0": "this is no path",
        "x" * 5000: "cannot be opened",
    }.items():
        follower = Follower(f"{tmp_path}/{name}", f"{tmp_path}/{name}")
        follower.look()
        assert sentence in follower.problem and follower.record is None, name
        assert "no log" in follower.log_problem or follower.log_problem == follower.problem


LINE = b'{"step": %d, "seconds": 1, "held_out": {"rmse": %s}}\n'


@pytest.mark.parametrize(
    ("content", "steps"),
    [
        (b"", []),
        (LINE % (10, b"1.5") + LINE % (20, b"1"), [10, 20]),
        (LINE % (10, b"1.5") + LINE[:9], [10]),  # the last line is being written
        (LINE % (10, b"1") + LINE % (20, b"1") + LINE % (10, b"2"), [10]),  # another fit
    ],
)
def test_a_log_is_read_up_to_its_last_whole_line(content, steps):
    assert [one.step for one in read_log(io.BytesIO(content))] == steps


def test_scores_that_are_no_numbers_are_left_out():
    assert read_log(io.BytesIO(LINE % (1, b"NaN"))) == (Scored(1, 1.0, {}),)


@pytest.mark.parametrize(
    "content",
    [
        b"x,y\n1,2\n",
        b"[1]\n",
        b'{"step": "1", "seconds": 1, "held_out": {}}\n',
        b'{"step": 1}\n',
        b"[" * 9999,
    ],
)
def test_what_is_no_log_is_said(content):
    followed = Followed()
    followed.take_log(io.BytesIO(content + b"\n"))
    assert "no log of a fit" in followed.log_problem


def test_of_a_long_log_the_end_counts(monkeypatch):
    monkeypatch.setattr(following, "MOST_LOG_BYTES", 1000)
    found = read_log(io.BytesIO(b"".join(LINE % (step, b"1") for step in range(100))))
    assert [one.step for one in found] == list(range(100 - len(found), 100))
    assert len(LINE % (99, b"1")) * (len(found) + 1) <= 1000 + len(LINE)
