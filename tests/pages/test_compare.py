""" "Compare" without a browser: rows come and go, scores and times stand beside the paper's."""

import html
import time
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets import catalogue
from datasets.catalogue import load
from datasets.measured import regression
from datasets.printed import printed
from dgp_core.evaluation import comparison as compared
from dgp_core.live.trial import fold_parts
from dgp_core.tables.table import read_table
from pages.figures.depth_table import number, summary
from pages.ui.your_data.upload_state import UploadState
from tests.pages.opened import made

PAGE = str(Path(__file__).parents[2] / "pages" / "explore" / "compare.py")
PATIENCE = 300


def sound(page: AppTest) -> AppTest:
    assert not page.exception and not page.error, [e.value for e in page.error]
    return page


def words(page: AppTest) -> str:
    blocks = [*page.markdown, *page.caption, *page.info]
    return html.unescape(" ".join(block.value for block in blocks)).replace("\u2060", "")


def opened(**kept) -> AppTest:
    page = AppTest.from_file(PAGE, default_timeout=PATIENCE)
    page.session_state["your_data"] = UploadState(**kept)
    return sound(page.run())


def trained(page: AppTest, models: list[str]) -> AppTest:
    page.multiselect(key="your_compare_models").set_value(models)
    sound(page.run())
    page.button(key="train_comparison").click()
    sound(page.run())
    comparison = page.session_state["comparison"]
    deadline = time.monotonic() + PATIENCE
    while not comparison.over:
        assert time.monotonic() < deadline
        for trial in comparison.trials:
            trial.watch()
        time.sleep(0.05)
    assert [trial.failures() for trial in comparison.trials] == [()] * len(comparison.trials)
    return sound(page.run())


@pytest.fixture(scope="module")
def small() -> AppTest:
    """Two models and the line on a toy, in few steps."""
    held = {"compare_data": "step", "compare_inducing": 5, "compare_steps": 10, "compare_folds": 3}
    return trained(opened(controls=held), ["linear", "sgp", "dgp2"])


def rows(page: AppTest) -> list[str]:
    table = next(block.value for block in page.markdown if block.value.startswith("| model"))
    return [line.split(" | ")[0].strip("| ") for line in table.splitlines()[2:]]


def test_it_opens_untrained_and_says_what_to_do():
    page = opened()
    assert "Nothing is trained yet" in words(page)
    assert not page.button(key="train_comparison").disabled
    page.multiselect(key="your_compare_models").set_value([]).run()
    assert sound(page).button(key="train_comparison").disabled


def test_every_row_has_scores_with_errors_and_times(small):
    assert rows(small) == ["Straight line", "SGP, 5 inducing points", "DGP, 2 layers"]
    comparison = small.session_state["comparison"]
    scored = compared.table(comparison.cards())
    assert all(np.isfinite(e.error) for model in scored.values() for e in model.values())
    said = words(small)
    for model in ("sgp", "dgp2"):
        card = next(c for c in comparison.cards() if c.model == model and c.seconds_per_step)
        assert f"{1000 * card.seconds_per_step:.2g} ms" in said or card.seconds_per_step >= 0.1
    assert "Side by side" in [s.value for s in small.subheader]


def test_all_models_are_judged_on_the_same_rows(small):
    cards = small.session_state["comparison"].cards()
    data = load("step")
    for part in fold_parts(data, 3, 0):
        of_fold = [card for card in cards if card.fold == part.fold]
        assert {card.model for card in of_fold} == {"linear", "sgp", "dgp2"}
        assert all(np.array_equal(card.rows, part.held) for card in of_fold)


def test_rows_are_added_without_training_the_others_again_and_removed(small):
    comparison = small.session_state["comparison"]
    before = {c.model: c for c in comparison.cards() if c.fold == 1}
    trained(small, ["sgp", "dgp2", "sgp5"])
    assert small.session_state["comparison"] is comparison and len(comparison.trials) == 2
    assert rows(small) == ["SGP, 5 inducing points", "SGP, 25 inducing points", "DGP, 2 layers"]
    after = {c.model: c for c in comparison.cards() if c.fold == 1}
    assert all(after[model] is card for model, card in before.items())
    new = [c for c in comparison.cards() if c.model == "sgp5"]
    assert {c.fold for c in new} == {1, 2, 3}
    assert np.array_equal(new[0].rows, before["sgp"].rows)


def test_other_settings_say_that_the_table_is_of_the_earlier_ones(small):
    small.number_input(key="your_compare_seed").set_value(1).run()
    assert "of the earlier ones" in words(sound(small)) and rows(small)
    small.number_input(key="your_compare_seed").set_value(0).run()
    assert "of the earlier ones" not in words(sound(small))


def test_five_times_as_many_inducing_points_are_as_many_as_there_are_rows():
    page = opened(controls={"compare_data": "step", "compare_inducing": 50, "compare_folds": 3})
    N = len(load("step"))
    n_train = N - -(-N // 3)
    named = page.multiselect(key="your_compare_models").options
    assert f"SGP, {n_train} (every row) inducing points" in named


def test_stopped_it_shows_what_was_learnt_and_continues_under_the_same_pictures():
    held = {"compare_data": "step", "compare_inducing": 5, "compare_steps": 500, "compare_folds": 0}
    page = opened(controls=held | {"compare_models": ["linear", "sgp", "dgp2"]})
    sound(page.button(key="train_comparison").click().run())
    comparison = page.session_state["comparison"]
    (trial,) = comparison.trials
    run, _ = trial.runs()["dgp2"]
    run.set_speed(2)  # 500 steps are not over before somebody stops them

    def until(condition) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline and trial.failures() == ()
            trial.watch()
            time.sleep(0.05)

    def models() -> set[str]:
        return {card.model for card in comparison.cards()}

    until(lambda: run.latest is not None and run.latest.step > 0 and "linear" in models())
    sound(page.run())
    assert made(page).keys() == {"comparison_ladder", "comparison_linear"}
    sound(page.button(key="stop").click().run())
    until(lambda: trial.status == "paused" and models() == {"linear", "sgp", "dgp2"})
    stood = run.latest.step
    sound(page.run())
    stopped = made(page)
    said = page.get("progress")[0].proto.text
    assert said.startswith("Paused. Main fit: step ") and rows(page)[2] == "DGP, 2 layers"
    names = {"comparison_ladder", "comparison_linear", "comparison_sgp", "comparison_dgp2"}
    assert stopped.keys() == names and run.latest.step == stood < 500

    sound(page.button(key="continue").click().run())
    assert made(page) == stopped and page.button(key="stop")
    until(lambda: run.latest.step > stood)
    run.set_speed(None)
    until(lambda: comparison.over)
    sound(page.run())
    over = made(page)
    assert over.keys() == names and run.latest.step == 500
    assert over["comparison_linear"] == stopped["comparison_linear"]
    assert all(over[name] != stopped[name] for name in ("comparison_sgp", "comparison_dgp2"))
    assert not [b for b in page.button if b.label in ("Stop", "Continue")]


def test_what_was_let_go_can_be_trained_again_and_new_scores_get_new_pictures(small):
    comparison = small.session_state["comparison"]
    before = dict(comparison.cache)
    lost = comparison.trials[-1]
    assert comparison.lost() == set() and small.button(key="train_comparison").disabled
    # As if nobody had watched before the last of them was done.
    lost._complete = [one for one in lost._complete if one != ("sgp5", 3)]
    lost.close()
    sound(small.run())
    assert comparison.lost() == {"sgp5"} and "was discarded" in words(small)
    trained(small, ["sgp", "dgp2", "sgp5"])
    assert comparison.lost() == set() and len(comparison.trials) == 3
    assert (
        comparison.cache["sgp"] is before["sgp"]
        and comparison.cache["sgp5"][1] is not before["sgp5"][1]
    )


def test_sets_of_the_paper_that_were_fetched_are_offered(monkeypatch, tmp_path):
    monkeypatch.setenv("DGP_DATA", str(tmp_path))
    for name in ("kin8nm", "mnist", "higgs"):
        (tmp_path / f"{name}.npy").touch()
    assert catalogue.cached() == ("kin8nm", "higgs", "mnist")
    page = opened()
    options = page.selectbox(key="your_compare_data").options
    titles = {name: catalogue.entry(name).title for name in catalogue.cached()}
    assert [name for name, title in titles.items() if title in options] == ["kin8nm"]


def test_a_set_of_the_paper_has_the_paper_s_numbers_beside_ours():
    held = {"compare_data": "boston", "compare_folds": 10}
    page = trained(opened(controls=held), ["linear"])
    said, error = words(page), printed("boston", "rmse")["linear"].value
    assert "| −2.89 (0.03) |" in said and "| 4.24 (0.16) |" in said
    assert "| Bayesian network (printed) | – | −2.57 (0.09) | – | 3.01 (0.18) |" in said
    assert "Salimbeni and Deisenroth" in said and "100 inducing points" in said
    known = summary(regression(), "boston", "loglik")["dgp2"]
    title = f"Two layers, our benchmark ({known[2]} splits)"
    assert f"| {title} | {number(*known[:2])} | −2.47 (0.05) |" in said
    ours = compared.table(page.session_state["comparison"].cards())["linear"]["rmse"].value
    assert abs(ours - error) < 1.0  # other splits, the same least squares
    sound(page.segmented_control(key="your_compare_show").set_value("ours").run())
    assert "printed" not in words(page) and "Straight line" in words(page)


def test_rows_in_time_are_judged_by_the_latest_and_the_words_say_so():
    held = {"compare_data": "co2", "compare_folds": 0}
    page = opened(controls=held)
    assert page.segmented_control(key="your_compare_judge_by").value == "latest"
    page = trained(page, ["linear", "boosting"])
    comparison, data = page.session_state["comparison"], load("co2")
    assert {card.model for card in comparison.cards()} == {"linear", "boosting"}
    for card in comparison.cards():
        before = np.setdiff1d(np.arange(len(data)), card.rows)
        assert data.X[before].max() < data.X[card.rows].min()
    assert "This is about rows later than any it was trained on." in words(page)
    page.segmented_control(key="your_compare_judge_by").set_value("chance").run()
    assert "of the earlier ones" in words(sound(page))


def test_medians_of_your_data_are_those_of_each_split_s_training_rows():
    lines = "".join(f"{i % 3 if i % 4 else ''},{i % 5},{i * 0.1:.1f}\n" for i in range(40))
    table = read_table(f"a,b,y\n{lines}".encode(), "t.csv")
    prepared = table.to_dataset("y", missing="fill")
    page = opened(prepared=prepared, controls={"compare_data": "your data", "compare_folds": 0})
    comparison = trained(page, ["linear"]).session_state["comparison"]
    own = prepared.refit(comparison.trials[0].train_rows).dataset
    assert np.array_equal(comparison.training_rows().X, own.X[comparison.trials[0].train_rows])
    assert comparison.trials[0]._refit is not None


def test_what_was_brought_to_your_data_is_offered():
    lines = "".join(f"{i % 7},{i % 3},{i * 0.1:.1f}\n" for i in range(30))
    prepared = read_table(f"a,b,y\n{lines}".encode(), "<i>mine</i>").to_dataset("y")
    page = opened(prepared=prepared, controls={"compare_data": "your data", "compare_folds": 0})
    options = [html.unescape(o) for o in page.selectbox(key="your_compare_data").options]
    assert options[0].replace("\u2060", "") == "Your data: <i>mine</i>"
    page = trained(page, ["linear"])
    assert page.session_state["comparison"].dataset is prepared.dataset
    assert rows(page) == ["Straight line"]
