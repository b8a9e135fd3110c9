""" "Your data" without a browser: every state of the page, from no file to a model taken home."""

import gzip
import html
import io
import shlex
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from streamlit.testing.v1 import AppTest

from dgp_core import archive, line_file
from dgp_core.__main__ import main
from dgp_core.command.arguments import parser
from dgp_core.evaluation import comparison, conformal
from dgp_core.evaluation.conformal import Widening
from dgp_core.gp.references import BayesianLinear
from dgp_core.live.keep import archive_of, source_of
from dgp_core.outcome import Outcome
from dgp_core.tables.table import Limits, read_table
from pages.figures.scores import score_text
from pages.ui.your_data import bring, commands, fit, follow, understand, use
from pages.ui.your_data.upload_state import HELD_OUT
from tests.pages.opened import made

PAGE = str(Path(__file__).parents[2] / "pages" / "explore" / "your_data.py")
PATIENCE = 300
"""Seconds that a model may take to compile on a loaded machine."""
HOSTILE = "<b>*evil*</b> `x` $y$"


def table(n: int = 40, task: str = "regression", comma: bool = False) -> bytes:
    """A file with a number, a category with missing cells, an identifier, and a target."""
    rng = np.random.default_rng(3)
    x, colour = rng.uniform(-2, 2, n), rng.choice(["red", "green", "blue"], n)
    f = np.sin(2 * x) + (colour == "red")
    y = {
        "regression": [f"{v:.4f}" for v in f + 0.1 * rng.standard_normal(n)],
        "binary": np.where(f > 0.3, "yes", "no"),
        "multiclass": np.array(["low", "middle", "high"])[np.digitize(f, [-0.3, 0.7])],
        "counts": rng.poisson(np.exp(f)).astype(str),
    }[task]
    name = "visits" if task == "counts" else "y"
    lines = [f"id;{HOSTILE};colour;{name}"]
    for i in range(n):
        lines.append(f"{i + 7};{x[i]:.4f};{colour[i] if i % 10 else ''};{y[i]}")
    text = "\n".join(lines) + "\n"
    return (text.replace(".", ",") if comma else text.replace(";", ",")).encode()


def opened() -> AppTest:
    return sound(AppTest.from_file(PAGE, default_timeout=PATIENCE).run())


def sound(page: AppTest) -> AppTest:
    """A page without a failure of its own."""
    assert not page.exception
    failed = [e.value for e in page.error if "could not be" in e.value and "Reload" in e.value]
    assert failed == []
    return page


def with_file(content: bytes, name: str = "data.csv") -> AppTest:
    page = opened()
    page.file_uploader(key="your_file").set_value((name, content, "text/csv"))
    return sound(page.run())


def words(page: AppTest) -> str:
    blocks = [*page.markdown, *page.caption, *page.error, *page.info, *page.warning, *page.success]
    return html.unescape(" ".join(b.value for b in blocks)).replace("\u2060", "")


def columns_shown(page: AppTest):
    """The table of the columns, below the first rows."""
    return next(d.value for d in page.dataframe if "Type" in d.value)


def fitted(task: str = "regression", folds: int = 0, **more) -> AppTest:
    page = with_file(table(task=task, **more))
    page.number_input(key="your_inducing").set_value(5)
    page.select_slider(key="your_steps").set_value(10)
    page.select_slider(key="your_folds").set_value(folds)
    page.slider(key="your_layers").set_value(2)
    sound(page.run())
    page.button(key="fit").click()
    sound(page.run())
    return finished(page)


def finished(page: AppTest) -> AppTest:
    trial = page.session_state["your_data"].fitted.trial
    deadline = time.monotonic() + PATIENCE
    while trial.watch().status not in ("finished", "failed"):
        assert time.monotonic() < deadline, trial.progress()
        time.sleep(0.05)
    if trial.status != "finished":
        raise AssertionError(trial.failures()) from trial.error
    return sound(page.run())


def test_it_opens_with_nothing_and_says_what_to_bring():
    page = opened()
    assert [h.value for h in page.header] == ["1 · Bring"]
    assert not page.error and "table" in words(page)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "This file is empty"),
        (b"PK\x03\x04" + bytes(100), "Excel"),
        (b"a,b\n", "no rows below it"),
        (b"%PDF-1.4" + bytes(50), "PDF"),
        (b"name,word\nalpha,x\nbeta,x\ngamma,x\n", "No column of this file can be a target"),
    ],
)
def test_a_bad_file_gets_its_sentence_and_what_was_there_stays(content, sentence):
    page = with_file(table())
    page.file_uploader(key="your_file").set_value(("bad.csv", content, "text/csv")).run()
    assert sentence in words(page) and "still below" in words(page)
    assert page.session_state["your_data"].loaded.file == "data.csv"
    assert "2 · Fit" in [h.value for h in sound(page).header]


@pytest.mark.parametrize("comma", [False, True])
def test_each_column_is_shown_with_its_type_and_can_be_changed(comma):
    page = with_file(table(comma=comma))
    shown = columns_shown(page)
    assert shown["Column"].tolist() == ["id", HOSTILE, "colour", "y"]
    assert shown["Type"].tolist() == ["Left out", "Number", "Category", "Number"]
    assert shown["Missing"].tolist()[2] == 4
    assert page.selectbox(key="your_target").value == "y"
    assert page.selectbox(key="your_task").value == "regression"
    assert page.selectbox(key="your_missing").value == "fill"
    raw = "".join(block.value for block in [*page.markdown, *page.caption])
    assert "<b>" not in raw and HOSTILE not in raw
    page.selectbox(key="your_column").set_value("colour").run()
    page.selectbox(key="your_kind colour").set_value("boolean").run()
    assert "neither yes nor no" in words(page)
    assert page.selectbox(key="your_kind colour").value == "category"
    page.selectbox(key="your_kind colour").set_value("dropped").run()
    assert columns_shown(page)["Type"].tolist()[2] == "Left out"
    page.selectbox(key="your_task").set_value("multiclass").run()
    assert page.session_state["your_data"].prepared.dataset.task == "multiclass"
    page.selectbox(key="your_task").set_value("binary").run()
    assert "different values, and this task takes two" in words(sound(page))


DATES = b"when,then,y\n" + b"".join(
    f"{1 + i % 12}/{1 + i % 11}/2024,{1 + i % 11}/{1 + i % 12}/2023,{i % 7}.5\n".encode()
    for i in range(24)
)


def test_a_new_file_of_the_same_columns_is_told_as_it_is():
    page = with_file(table())
    page.selectbox(key="your_column").set_value("colour").run()
    page.selectbox(key="your_kind colour").set_value("boolean").run()
    assert "neither yes nor no" in words(page)
    page.selectbox(key="your_kind colour").set_value("dropped").run()
    page.file_uploader(key="your_file").set_value(("again.csv", table(), "text/csv")).run()
    page.selectbox(key="your_column").set_value("colour").run()
    assert page.selectbox(key="your_kind colour").value == "category"
    page.selectbox(key="your_kind colour").set_value("boolean").run()
    page.file_uploader(key="your_file").set_value(("more.csv", table(), "text/csv")).run()
    assert "neither yes nor no" not in words(sound(page))


def test_each_column_of_dates_has_an_order_of_its_own_and_the_command_knows_it():
    page = with_file(DATES)
    orders = {}
    for name in ("when", "then"):
        page.selectbox(key="your_column").set_value(name).run()
        orders[name] = page.selectbox(key=f"your_day_first {name}").value
    other = {"day": "month", "month": "day"}[orders["then"]]
    page.selectbox(key="your_day_first then").set_value(other).run()
    table = sound(page).session_state["your_data"].loaded.decided
    assert table["then"].day_first == (other == "day")
    page.selectbox(key="your_column").set_value("when").run()
    assert page.selectbox(key="your_day_first when").value == orders["when"]
    options = parsed(page.code[-1].value)
    assert options.column == [("then", "date", other == "day")]


def test_a_target_that_becomes_a_category_becomes_classes():
    lines = "".join(f"{i * 0.7 % 3:.3f},{i % 3 + 1}\n" for i in range(30))
    page = with_file(f"x,y\n{lines}".encode())
    assert page.selectbox(key="your_task").value == "regression"
    page.selectbox(key="your_column").set_value("y").run()
    page.selectbox(key="your_kind y").set_value("category").run()
    assert sound(page).selectbox(key="your_task").value == "multiclass"
    assert page.session_state["your_data"].prepared.dataset.classes == ("1", "2", "3")


def test_counts_may_be_in_proportion_to_a_column():
    hours = [1 + i % 7 for i in range(30)]
    lines = "".join(f"{i * 0.7 % 3:.3f},{h},{h * (2 + i % 3)}\n" for i, h in enumerate(hours))
    page = with_file(f"x,hours,visits\n{lines}".encode())
    assert page.selectbox(key="your_task").value == "counts"
    assert page.selectbox(key="your_exposure").options == ["None", "x", "hours"]
    page.selectbox(key="your_exposure").set_value("hours").run()
    data = sound(page).session_state["your_data"].prepared.dataset
    assert data.exposure == "hours" and "“hours” is the exposure" in words(page)
    assert parsed(page.code[-1].value).exposure == "hours"
    page.selectbox(key="your_target").set_value("x").run()
    assert sound(page).session_state["your_data"].prepared.dataset.exposure == ""
    assert not [box for box in page.selectbox if box.key == "your_exposure"]


def test_more_words_than_an_input_takes_can_be_the_target():
    letters = [chr(65 + i % 26) for i in range(78)]
    lines = "".join(f"{c},{ord(c) * 0.1 + i % 3:.2f},{i * 7 % 5}\n" for i, c in enumerate(letters))
    page = with_file(f"letter,a,b\n{lines}".encode())
    assert columns_shown(page)["Type"].tolist()[0] == "Category"
    page.selectbox(key="your_target").set_value("letter").run()
    assert sound(page).selectbox(key="your_task").value == "multiclass"
    assert len(page.session_state["your_data"].prepared.dataset.classes) == 26


def test_a_pasted_table_and_a_set_of_the_lab_come_through_the_same_door():
    page = opened()
    page.segmented_control(key="your_origin").set_value("paste").run()
    page.text_area(key="your_pasted").set_value("a\tb\n" + "1\t2\n2\t4\n3\t7\n" * 4).run()
    page.button(key="read_pasted").click().run()
    assert page.session_state["your_data"].loaded.read.rows == 12
    assert "Save it as pasted.csv" in {b.label for b in page.get("download_button")}
    page.segmented_control(key="your_origin").set_value("lab").run()
    page.selectbox(key="your_set").set_value("boston").run()
    assert "racial" in words(page)
    page.button(key="take_set").click().run()
    state = sound(page).session_state["your_data"]
    assert state.loaded.file == "datasets/files/boston.csv" and state.controls["target"] == "medv"
    assert state.prepared.dataset.X.shape == (506, 13)


def test_more_than_a_live_run_takes_gets_the_command_with_everything_filled_in(monkeypatch):
    monkeypatch.setattr(fit, "MOST_CELLS", 50)
    page = with_file(table(), "my data.csv")
    assert parsed(page.code[0].value).data == "YOUR_FILE.csv"  # where even the upload is refused
    page.selectbox(key="your_column").set_value("id").run()
    page.selectbox(key="your_kind id").set_value("number").run()
    assert not [b for b in page.button if b.key == "fit"]
    options = parsed(page.code[-1].value)
    assert (options.data, options.target, options.task) == ("my data.csv", ["y"], "regression")
    assert (options.layers, options.missing, options.out) == (2, "fill", "model.npz")
    assert options.column == [("id", "number", None)] and options.inducing == 20


def parsed(command: str):
    """What the terminal makes of a command."""
    said = shlex.split(command.replace("\\\n", " "))
    assert said[:3] == ["python", "-m", "dgp_core"]
    return parser().parse_args(said[3:])


def test_a_file_beyond_the_limits_gets_the_command_by_its_first_rows(monkeypatch):
    monkeypatch.setattr(bring, "LIMITS", Limits(rows=20))
    page = with_file(table(), "-big.csv")
    assert "the limit here is 20" in words(page)
    options = parsed(page.code[-1].value)
    assert options.data == "./-big.csv" and options.target == ["y"]
    for content, target in ((gzip.compress(table()), "y"), (parquet(), "y")):
        page.file_uploader(key="your_file").set_value(("big", content, "")).run()
        assert "the limit here is 20" in words(page)
        assert parsed(page.code[-1].value).target == [target]
    monkeypatch.setattr(commands, "first_rows_of_parquet", lambda source: b"")
    page.file_uploader(key="your_file").set_value(("other", parquet(), "")).run()
    assert parsed(page.code[-1].value).target == ["COLUMN"]  # where its first rows say nothing


def parquet() -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"x": np.arange(40.0), "y": np.arange(40.0) ** 2}), file)
    return file.getvalue()


@pytest.fixture(scope="module")
def regression() -> AppTest:
    return fitted(folds=10, comma=True)  # of the main fit's own shape: one compilation


def test_a_fit_is_judged_with_errors_a_verdict_and_its_rule(regression):
    said = words(regression)
    trial = regression.session_state["your_data"].fitted.trial
    assert trial.verdict().sentence in said
    (phases,) = (c.value for c in regression.caption if c.value.startswith("Time spent: reading"))
    assert all(f"{name}\u00a0" in phases for name in ("training", "scoring"))
    assert "▸" not in phases and "left" not in phases
    assert "standard errors" in said and "| Deep GP |" in said and "| Straight line |" in said
    for model, scores in trial.table().items():
        assert np.isfinite(scores["rmse"].error), model
    worst = next(d.value for d in regression.dataframe if "nats" in d.value)
    assert len(worst) == 10 and HOSTILE + " " in worst.columns
    first = worst.iloc[0]
    own = read_table(table(comma=True)).cells[HOSTILE][first["row"] - 1]
    assert first[HOSTILE + " "] == own


def test_other_scores_are_shown_though_they_are_as_many(regression, monkeypatch):
    trial, runs, draw = regression.session_state["your_data"].fitted.trial, [], bring.show
    before = trial.cards()
    answers = iter([before])
    monkeypatch.setattr(bring, "show", lambda: (runs.append(len(runs)), draw()))
    once_more = (replace(before[0]), *before[1:])
    monkeypatch.setattr(trial, "cards", lambda: next(answers, once_more))
    sound(regression.run())
    assert len(runs) == 2


def test_a_fit_is_explained_when_asked(regression):
    assert "One input at a time" not in words(regression)
    regression.button(key="explain").click()
    sound(regression.run())
    assert "One input at a time" in words(regression)
    assert regression.multiselect(key="your_shown").value
    state = regression.session_state["your_data"]
    assert {one.name for one in state.cache["importance"][1]} == {HOSTILE, "colour"}
    regression.selectbox(key="your_map_x").set_value("colour").run()
    assert state.cache["map"][1].names == ("colour", HOSTILE)


def test_what_is_explained_first_and_in_the_report_is_the_recommended_model(regression):
    page, state = regression, regression.session_state["your_data"]
    assert page.segmented_control(key="your_explained").value == "linear"  # by the verdict
    key, of_line = state.cache["importance"]
    assert key == (state.fitted, "linear")
    # A person looks at another model: the report stays with the one that it recommends.
    page.segmented_control(key="your_explained").set_value("deep").run()
    page.button(key="explain").click()
    sound(page.run())
    assert state.cache["importance"][0] is state.fitted.archive("deep")
    with_deep = use._report(state.fitted, "", dict(state.cache), []).decode()
    assert "What the model has learnt (Straight line)" in with_deep
    assert "Diagnostics (Straight line)" in with_deep and "Permutation importance" in with_deep
    again, _ = understand.explanation(state.fitted, "linear", dict(state.cache))
    assert again == of_line
    page.segmented_control(key="your_explained").set_value("linear").run()
    page.button(key="explain").click()
    sound(page.run())


def test_values_slid_in_are_predicted_as_by_the_core(regression):
    assert regression.segmented_control(key="your_used").value == "linear"  # by the verdict
    regression.segmented_control(key="your_used").set_value("single")
    regression.slider(key=f"your_at {HOSTILE}").set_value(1.0)
    regression.selectbox(key="your_at colour").set_value(2).run()
    state = sound(regression).session_state["your_data"]
    outcome = Outcome(state.fitted.archive("rival"))
    X = np.zeros((1, 5))
    X[0, 0], X[0, 1 + 2] = 1.0, 1.0
    mean = outcome.predictions(X)["y mean"][0]
    assert f"y: {mean:.4g}".replace("-", "−") in words(regression)


def test_a_second_file_is_predicted_or_says_what_it_lacks(regression):
    page = regression

    def brought(content: bytes) -> str:
        page.file_uploader(key="your_second").set_value(("new.csv", content, "text/csv")).run()
        return words(sound(page))

    assert "lacks “colour”" in brought(f"{HOSTILE},other\n1,2\n2,3\n".encode())
    unseen = brought(f"{HOSTILE},colour\n1,red\n2,mauve\n".encode())
    assert "1 of 2 rows of new.csv predicted." in unseen
    assert "1 row is left blank" in unseen and "“mauve”, never seen in training" in unseen
    assert "This file is empty" in brought(b"")
    said = brought(f"colour,{HOSTILE},note\nred,1.5,a\nblue,,b\n".encode())
    assert "2 rows of new.csv predicted" in said
    state = page.session_state["your_data"]
    record = state.cache["outcome"][0]
    content, _ = state.cache["predictions"][1]
    back = read_table(content)
    second = read_table(f"colour,{HOSTILE},note\nred,1.5,a\nblue,,b\n".encode())
    own = Outcome(record).predictions(Outcome(record).recipe.inputs(second))
    added = ["outside", "distance", "why not"]
    assert list(back.cells) == ["colour", HOSTILE, "note", *own, *added]
    for name, values in own.items():
        assert np.array_equal(back.cells[name], values), name


def test_the_straight_line_can_be_used_like_the_models(regression):
    page = regression
    page.segmented_control(key="your_used").set_value("linear").run()
    content = f"colour,{HOSTILE}\nred,1.5\nblue,-0.5\n".encode()
    page.file_uploader(key="your_second").set_value(("new.csv", content, "text/csv")).run()
    assert "The straight line that predicts y from" in words(sound(page)).replace("**", "")
    state = page.session_state["your_data"]
    back = read_table(state.cache["predictions"][1][0])
    data, rows = state.fitted.prepared.dataset, state.fitted.trial.train_rows
    line = BayesianLinear.fit(data.X[rows], data.Y[rows])
    X = state.fitted.prepared.recipe.inputs(read_table(content))
    np.testing.assert_allclose(back.cells["y mean"], line.predict(X).mean[:, 0], rtol=1e-9)
    own = line_file.load(io.BytesIO(state.cache["packed"][1]))
    assert isinstance(own, line_file.LineArchive)
    again = Outcome(own).predictions(X)
    assert np.array_equal(again["y mean"], back.cells["y mean"])
    page.segmented_control(key="your_used").set_value("deep").run()
    assert "Model (.npz)" in [b.proto.label for b in sound(page).get("download_button")]


def test_a_second_file_of_too_many_cells_gets_the_command(regression, monkeypatch):
    monkeypatch.setattr(use, "MOST_PREDICTED_CELLS", 5)
    content = f"colour,{HOSTILE},note\nred,1.5,a\nblue,2,b\n".encode()
    page = regression
    page.file_uploader(key="your_second").set_value(("new $x.csv", content, "text/csv")).run()
    assert "more than this page writes" in words(sound(page))
    options = parsed(page.code[-1].value)
    assert (options.model, options.data, options.out) == (
        "model.npz",
        "new $x.csv",
        "predictions.csv",
    )
    page.segmented_control(key="your_used").set_value("boosting").run()  # which has no file
    assert "Split them into several files" in words(sound(page))
    assert not any("dgp_core predict" in code.value for code in page.code)
    page.segmented_control(key="your_used").set_value("deep").run()
    monkeypatch.undo()
    sound(page.run())


def test_the_model_taken_home_is_the_one_on_the_page(regression):
    state = regression.session_state["your_data"]
    record = state.cache["packed"][0]
    again = archive.load(io.BytesIO(state.cache["packed"][1]))
    X = np.zeros((3, 5))
    a, b = Outcome(record).predictions(X), Outcome(again).predictions(X)
    assert all(np.array_equal(a[name], b[name]) for name in a)
    assert again.source.held_out == HELD_OUT and again.source.rows == 40
    labels = {button.label for button in regression.get("download_button")}
    assert {"Model (.npz)", "Python script", "Report (HTML)", "Predictions (CSV)"} <= labels


def test_what_the_page_saves_goes_on_in_a_terminal(regression, tmp_path, capsys):
    state = regression.session_state["your_data"]
    run = state.fitted.run()
    whole = state.fitted.prepared
    source = source_of(whole.dataset, HELD_OUT, 0)
    record = archive_of(run, "deep", whole.recipe, source)
    archive.save(tmp_path / "model.npz", record)
    (tmp_path / "data.csv").write_bytes(table(comma=True))
    where = [str(tmp_path / "model.npz"), str(tmp_path / "data.csv")]
    assert main(["resume", *where, "--steps", "12"]) == 0
    later = archive.load(tmp_path / "model.npz")
    assert later.progress.steps == 12 and len(later.progress.bound) == 12
    assert np.array_equal(later.progress.bound[:10], record.progress.bound)


def test_an_overconfident_model_gets_its_remedies_at_hand(regression, monkeypatch):
    """Another likelihood and more steps, by a button each; the plan follows."""
    page, started = regression, []
    state = page.session_state["your_data"]
    own = comparison.verdict(state.fitted.scored())
    sure = replace(own, word="deep", model="deep", honest=False)
    monkeypatch.setattr(comparison, "verdict", lambda cards: sure)
    monkeypatch.setattr(fit, "start", lambda *given: started.append(given))
    sound(page.run())
    page.button(key="refit_likelihood").click()
    sound(page.run())
    (_, plan, folds, by) = started[0]
    assert plan.model.likelihood == "student_t"
    assert plan.train.steps == state.fitted.plan.train.steps
    assert page.selectbox(key="your_likelihood").value == "student_t"
    assert "--likelihood=student_t" in page.code[-1].value
    assert (folds, by) == (state.fitted.folds, state.fitted.trial.by)
    page.button(key="refit_steps").click()
    sound(page.run())
    assert started[1][1].train.steps == 100 and started[1][1].model.likelihood == "gaussian"
    monkeypatch.undo()
    sound(page.run())
    assert not [b for b in page.button if b.key and b.key.startswith("refit_")]


def test_intervals_are_widened_by_a_toggle_wherever_the_model_is_used(regression, monkeypatch):
    """So few rows as here widen nothing: what more would ask for is given."""
    page, wide = regression, Widening((2.0,), 30, 30, 0.6, 0.9)
    toggles = [toggle for toggle in page.toggle if toggle.key == "your_widen"]
    assert not toggles  # the model is honest
    found = comparison.verdict(page.session_state["your_data"].fitted.scored())
    sure = replace(found, word="deep", model="deep", honest=False)
    monkeypatch.setattr(comparison, "verdict", lambda cards: sure)
    monkeypatch.setattr(conformal, "widening", lambda *given: wide)
    page.segmented_control(key="your_used").set_value("deep").run()
    before = page.session_state["your_data"].cache["outcome"][1]
    page.toggle(key="your_widen").set_value(True).run()
    assert sound(page).session_state["your_data"].fitted.over
    assert words(page).count("stretched 2 times") == 2 and "widened 90 % interval" in words(page)
    after = page.session_state["your_data"].cache["outcome"][1]
    X = np.zeros((1, 5))
    narrow, stretched = before.intervals(X)[:, 0, 0], after.intervals(X)[:, 0, 0]
    np.testing.assert_allclose(stretched - stretched[3], 2 * (narrow - narrow[3]))
    page.toggle(key="your_widen").set_value(False).run()
    assert "widened" not in words(sound(page))
    monkeypatch.undo()
    sound(page.run())


def test_other_data_leave_the_fit_and_say_so_and_moving_away_loses_nothing(regression):
    page = regression
    before = page.session_state["your_data"].fitted
    page.selectbox(key="your_missing").set_value("drop").run()
    assert "of the earlier fit" in words(sound(page))
    assert page.session_state["your_data"].fitted is before
    page.selectbox(key="your_missing").set_value("fill").run()
    # Another page was shown meanwhile: Streamlit has forgotten every control.
    again = AppTest.from_file(PAGE, default_timeout=PATIENCE)
    again.session_state["your_data"] = page.session_state["your_data"]
    sound(again.run())
    assert again.number_input(key="your_inducing").value == 5
    assert again.selectbox(key="your_target").value == "y"
    assert before.trial.verdict().sentence in words(again)


def test_a_saved_model_is_opened_and_a_bad_one_says_why(regression):
    whole = io.BytesIO()
    archive.save(whole, regression.session_state["your_data"].fitted.archive("deep"))
    content = whole.getvalue()
    page = opened()
    page.segmented_control(key="your_origin").set_value("model").run()
    page.file_uploader(key="your_model").set_value(("m.npz", b"nothing", "")).run()
    assert "no saved model" in words(page)
    broken = io.BytesIO()
    archive.save(broken, replace(archive.load(io.BytesIO(content)), recipe={"task": "none"}))
    page.file_uploader(key="your_model").set_value(("b.npz", broken.getvalue(), "")).run()
    assert "recipe" in words(sound(page)) and page.error
    page.file_uploader(key="your_model").set_value((f"{HOSTILE}.npz", content, "")).run()
    said = words(sound(page))
    assert "is open" in said and "10 steps" in said
    # The whole history came with it.
    assert [e.label for e in page.expander if "bound" in e.label] == ["How its bound rose"]
    steps = archive.load(io.BytesIO(content)).progress
    assert f"bound {np.mean(steps.bound):,.1f} nats" in " ".join(c.value for c in page.caption)
    assert [h.value for h in page.header] == ["1 · Bring", "5 · Use"]
    page.file_uploader(key="your_second").set_value(
        ("new.csv", f"colour,{HOSTILE}\nred,1.5\n".encode(), "text/csv")
    ).run()
    assert "1 row of new.csv predicted" in words(sound(page))


def test_a_fit_in_a_terminal_is_followed_by_its_files(regression, tmp_path, monkeypatch):
    ended = regression.session_state["your_data"].fitted.archive("deep")
    path, log = tmp_path / "model.npz", tmp_path / "model.jsonl"
    progress = replace(ended.progress, seconds=20.0, stopped="")
    record = replace(ended, progress=progress, training=replace(ended.training, steps=1000))
    archive.save(path, record)
    line = '{"step": %d, "seconds": %d, "held_out": {"rmse": 0.25, "log_likelihood": -0.5}}\n'
    log.write_text(line % (5, 10) + line % (10, 20))
    page = opened()
    page.segmented_control(key="your_origin").set_value("progress").run()
    assert not page.text_input and "reads no files by their paths" in words(page)
    monkeypatch.setattr(follow, "may_name_paths", lambda: True)
    page.run()
    page.text_input(key="your_follow_path").set_value(f"  {path} ")
    page.text_input(key="your_follow_log").set_value(str(log))
    page.button(key="follow_it").click()
    sound(page.run())
    (bar,) = page.get("progress")
    assert bar.proto.text.startswith(
        "Step 10 of 1,000 · 20\xa0s of training · about 33 minutes left"
    )
    assert "RMSE ↓ 0.25" in words(page) and "to predict **y** from" in words(page)
    figures = made(page)
    assert list(figures["follow_score"]["data"][0]["y"]) == [-0.5, -0.5]
    assert {"follow_bound", "your_follow_response_colour"} <= figures.keys()
    path.unlink()
    assert "There is no file" in words(sound(page.run())) and "Shown is step 10" in words(page)
    archive.save(path, replace(record, progress=replace(progress, stopped="reached 10 steps")))
    assert "Training has ended" in words(sound(page.run())) and not page.error
    page.button(key="use_followed").click()
    sound(page.run())
    assert "5 · Use" in [h.value for h in page.header]


@pytest.mark.parametrize(
    ("address", "headers", "here"),
    [
        ("127.0.0.1", {"Host": "localhost:8501", "Origin": "http://localhost:8501"}, True),
        ("::1", {"Host": "[::1]:8501"}, True),
        ("0.0.0.0", {"Host": "localhost:8501"}, False),
        (None, {"Host": "localhost:8501"}, False),
        ("127.0.0.1", {}, False),
        ("127.0.0.1", {"Host": "lab.example.org"}, False),  # a proxy, or a name that is rebound
        ("127.0.0.1", {"Host": "notlocalhost:8501"}, False),
        ("127.0.0.1", {"Host": "127.0.0.1:8501", "Origin": "https://lab.example.org"}, False),
        ("127.0.0.1", {"Host": "127.0.0.1:8501", "X-Forwarded-For": "192.0.2.7"}, False),
    ],
)
def test_paths_are_taken_only_from_this_machine_itself(address, headers, here):
    assert follow.only_this_machine(address, headers) is here


def few() -> bytes:
    """The least that the page is made for: twenty rows and one column beside the target."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-2, 2, 20)
    return b"x,y\n" + b"".join(b"%.4f,%.4f\n" % (a, np.sin(2 * a)) for a in x)


def test_twenty_rows_stopped_are_judged_continued_and_let_go():
    page = with_file(few())
    page.select_slider(key="your_steps").set_value(50_000)
    page.select_slider(key="your_folds").set_value(0)
    sound(page.run())
    page.button(key="fit").click()
    sound(page.run())
    fitted = page.session_state["your_data"].fitted
    trial, run = fitted.trial, fitted.run()
    deadline = time.monotonic() + PATIENCE

    def wait(until) -> None:
        while not until():
            trial.watch()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    wait(lambda: run.latest is not None and run.latest.step > 0)
    page.run()
    (phases,) = (c.value for c in page.caption if c.value.startswith("reading"))
    assert "**▸\u00a0training\u00a0" in phases and phases.endswith("*scoring*")
    page.button(key="stop").click()
    sound(page.run())
    wait(lambda: trial.verdict() is not None)
    page.run()
    assert "Only 2 rows were held out" in words(sound(page))
    first = fitted.scored()
    step = run.latest.step
    page.button(key="continue").click()
    sound(page.run())
    assert run.playing
    # Stopped again: other scores, though as many.
    wait(lambda: run.latest.step > step)
    page.run()
    page.button(key="stop").click()
    page.run()
    wait(lambda: {id(c) for c in trial.cards()} - {id(c) for c in first})
    wait(lambda: trial.status == "paused")
    sound(page.run())
    assert set(fitted.archives) == {"deep", "rival"}
    shown = next(b.value for b in page.markdown if b.value.startswith("| model"))
    scores = comparison.table(trial.cards())["deep"]
    assert score_text("log_likelihood", scores["log_likelihood"]) in shown
    trial.close()
    after = words(sound(page.run()))
    assert "was stopped before its end" in after and "still training" not in after
    assert "Predict one row" in [s.value for s in page.subheader]
    fitted.archives.clear()
    assert "The model was discarded" in words(sound(page.run()))


def test_a_word_about_a_column_of_the_last_file_is_let_pass():
    def spoken_late():
        import streamlit as st

        from pages.ui.your_data import bring, columns
        from pages.ui.your_data.upload_state import upload_state, uploaded_file

        bring.load_table(b"a,b\n1,2\n2,3\n3,5\n", "new.csv")
        before = upload_state().loaded
        st.session_state["your_kind x"] = "dropped"
        columns.kind_changed("x")
        columns.row_clicked()
        assert uploaded_file("your_file") is None
        st.write("unchanged" if upload_state().loaded is before else "changed")

    page = AppTest.from_function(spoken_late, default_timeout=PATIENCE).run()
    assert not page.exception and page.markdown[0].value == "unchanged"


def grouped() -> bytes:
    """Seven rows of each of twelve patients, who differ."""
    rng = np.random.default_rng(6)
    level = rng.normal(0, 3, 12)
    rows = [
        f"P{i:02d},{d},{level[i] + 0.1 * d + 0.2 * rng.standard_normal():.3f}\n"
        for i in range(12)
        for d in range(7)
    ]
    return ("patient,dose,pain\n" + "".join(rows)).encode()


def test_groups_are_held_out_whole_and_their_name_can_be_left_out_of_the_inputs():
    page = sound(with_file(grouped(), "pain.csv"))
    assert page.segmented_control(key="your_judge_by").value == "groups"
    assert page.selectbox(key="your_groups_column").value == "patient"
    assert "“patient” is an input too" in words(page) and "groups:patient" in page.code[-1].value
    page.button(key="drop_group").click()
    sound(page.run())
    assert "is an input too" not in words(page)
    assert page.selectbox(key="your_groups_column").value == "patient"
    state = page.session_state["your_data"]
    assert state.prepared.dataset.input_names == ("dose",)
    page.select_slider(key="your_folds").set_value(0)
    page.select_slider(key="your_steps").set_value(10)
    page.number_input(key="your_inducing").set_value(3)
    page.button(key="fit").click()
    trial = sound(page.run()).session_state["your_data"].fitted.trial
    who = read_table(grouped()).cells["patient"].to_pylist()
    seen, held = ({who[i] for i in rows} for rows in (trial.train_rows, trial.held_rows))
    assert not seen & held and seen | held == set(who)
    trial.close()


def test_how_a_file_is_read_can_be_chosen_and_goes_into_the_command():
    """A wrong guess of every kind: encoding, separator, decimal mark and header."""
    rows = "".join(f"{'абв'[i % 3]};{i % 7},{i % 9}5\n" for i in range(40))
    text = f"имя ящика;цена\n{rows}".encode("koi8_r")
    page = with_file(text, "names.csv")
    state = page.session_state["your_data"]
    assert state.reading_open and "Guessed, and may be wrong" in words(sound(page))
    page.selectbox(key="your_read encoding").set_value("koi8_r").run()
    assert list(state.loaded.read.cells) == ["имя ящика", "цена"]
    assert "--encoding=koi8_r" in page.code[-1].value
    page.selectbox(key="your_read header").set_value("no").run()
    assert list(state.loaded.read.cells) == ["column 1", "column 2"]
    assert state.loaded.read.rows == 41
    options = parsed(page.code[-1].value)
    assert options.encoding == "koi8_r" and options.header is False
    page.selectbox(key="your_read header").set_value("as guessed").run()
    page.selectbox(key="your_read decimal").set_value(".").run()
    assert state.loaded.read.reading.decimal == "."
    page.selectbox(key="your_read encoding").set_value("utf-8").run()
    assert "was to be read as UTF-8" in words(sound(page))
    assert list(state.loaded.read.cells) == ["имя ящика", "цена"]  # the last one that worked
    # Another file is guessed anew.
    plain = ("plain.csv", b"a,b\n1,2\n2,3\n3,5\n", "text/csv")
    page.file_uploader(key="your_file").set_value(plain).run()
    assert not state.reading_open and page.selectbox(key="your_read encoding").value == "as guessed"
    # One that no guess can read.
    odd = ("odd.csv", b"a^b\nred ink^3 4\nblue^5\nred^7 1\nblue^2\n", "text/csv")
    page.file_uploader(key="your_file").set_value(odd).run()
    assert state.unread and "No table was found" in words(page)
    page.selectbox(key="your_read separator").set_value(",").run()
    assert state.unread and "No column of this file" in state.reading_error
