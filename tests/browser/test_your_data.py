""" "Your data" in a real browser: upload, fit, verdict; what is downloaded is the core's own."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from dgp_core import archive
from dgp_core.outcome import Outcome
from dgp_core.tables.table import read_table
from pages.figures.scores import MODELS
from tests.browser.lesson_steps import COMPILED

# The server of these tests compiles so too, and its predictions are compared bit for bit.
pytestmark = pytest.mark.usefixtures("quick_compilation")


def table(n: int, separator: str, task: str = "regression") -> bytes:
    """A jump, a category with missing cells, and numbers as semicolon files write them."""
    rng = np.random.default_rng(5)
    x, colour = rng.uniform(-2, 2, n), rng.choice(["red", "green"], n)
    f = np.where(x > 0, 1.0, -1.0)
    noisy = f + 0.5 * rng.standard_normal(n)
    y = {
        "regression": [f"{v:.4f}" for v in f + 0.05 * rng.standard_normal(n)],
        "binary": np.where(noisy > 0, "tall", "short"),
        "multiclass": np.array(["low", "middle", "high"])[np.digitize(noisy, [-0.7, 0.7])],
        "counts": rng.poisson(np.exp(1 + f)).astype(str),
    }[task]
    target = "visits" if task == "counts" else "height"
    lines = [separator.join(("position", "colour", target))]
    for i in range(n):
        lines.append(separator.join((f"{x[i]:.4f}", colour[i] if i % 8 else "", y[i])))
    text = "\n".join(lines) + "\n"
    return (text.replace(".", ",") if separator == ";" else text).encode()


def go(page: Page, name: str) -> None:
    """To another page, by the menu."""
    page.get_by_role("button", name="Explore").click()
    page.locator(f"a[href$='/{name}']").click()


def at_your_data(page: Page) -> Page:
    """Goes there as a person does, by the menu."""
    expect(page.get_by_role("heading", name="Deep GP Lab")).to_be_visible()
    go(page, "your_data")
    expect(page.get_by_role("heading", name="1 · Bring")).to_be_visible()
    return page


def straight_there(open_page) -> Page:
    """Goes there by the address; the page is there before anything is asked of it."""
    page = open_page("/your_data")
    expect(page.get_by_role("heading", name="1 · Bring")).to_be_visible()
    return page


def at_rest(page: Page) -> None:
    """Waits until the page has been worked out."""
    expect(page.get_by_test_id("stApp")).to_have_attribute(
        "data-test-script-state", "notRunning", timeout=COMPILED
    )


def upload(page: Page, place: int, name: str, content: bytes) -> None:
    at_rest(page)
    page.locator("input[type=file]").nth(place).set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": content}
    )


def downloaded(page: Page, name: str, folder: Path) -> Path:
    with page.expect_download() as coming:
        page.get_by_role("button", name=name).click()
    path = folder / coming.value.suggested_filename
    coming.value.save_as(path)
    return path


def plan(page: Page, inducing: int, steps: str, folds: str = "") -> None:
    """Changes the plan by its controls; no folds is the slider's first place."""
    page.get_by_text("Change the plan").click()
    points = page.get_by_role("spinbutton", name="Inducing points")
    points.fill(str(inducing))
    points.press("Enter")
    expect(page.get_by_text(f"2 layers of {inducing} inducing points")).to_be_visible()
    slider = page.get_by_role("slider", name="Steps")
    for shown in ("2,000", "1,000", "500", "100"):
        slider.press("ArrowLeft")
        expect(page.get_by_text(f"{shown} steps.")).to_be_visible()
        if shown == steps:
            break
    slider = page.get_by_role("slider", name="Folds")
    slider.press("End")
    expect(page.get_by_text("judged by 20 folds")).to_be_visible()
    slider.press("ArrowLeft" if folds else "Home")
    expect(page.get_by_text(f"judged by {folds or 'one row in ten'}")).to_be_visible()
    at_rest(page)


def fit(page: Page) -> Locator:
    """Presses the button and waits for the end; returns the verdict."""
    page.evaluate("() => { window.table = document.querySelector('[data-testid=stDataFrame]'); }")
    page.get_by_role("button", name="Fit", exact=True).click()
    expect(page.get_by_role("button", name="Fit again")).to_be_visible()
    expect(page.locator('.stage-host[data-name="fit/deep"]')).to_be_in_viewport()
    assert page.evaluate("() => window.table.isConnected")  # nothing above was made anew
    phases = page.locator(".st-key-phases")
    expect(phases).to_contain_text("reading")
    verdict = page.locator(".st-key-verdict")
    expect(verdict).to_contain_text(re.compile("model|layer|rows"), timeout=COMPILED)
    # By its key: Streamlit's own status has a button of that name too.
    page.locator(".st-key-stop").wait_for(state="detached", timeout=COMPILED)
    expect(page.locator(".st-key-scores")).to_contain_text("Straight line")
    expect(phases).to_contain_text(re.compile("reading.+training.+scoring.+s"))
    return verdict


def predicted(page: Page, content: bytes, folder: Path) -> Outcome:
    """Predicts a second file: what is downloaded is what the downloaded model says of it."""
    upload(page, -1, "new.csv", content)
    expect(page.get_by_text("12 rows of new.csv predicted")).to_be_visible(timeout=COMPILED)
    predictions = read_table(downloaded(page, "Predictions (CSV)", folder))
    outcome = Outcome(archive.load(downloaded(page, "Model (.npz)", folder)))
    second = read_table(content)
    own = outcome.predictions(outcome.recipe.inputs(second))
    assert list(predictions.cells) == [*second.cells, *own, "outside", "distance", "why not"]
    for name, values in own.items():
        assert np.array_equal(predictions.cells[name], values), name
    return outcome


def test_from_a_file_to_predictions_that_are_the_core_s_own(open_page, tmp_path):
    """Semicolons and decimal commas here; the tests of classes and counts bring commas."""
    separator = ";"
    page = at_your_data(open_page("/?data=step&inducing=5&layers=1"))
    upload(page, 0, "heights.csv", table(60, separator))
    expect(page.get_by_role("heading", name="2 · Fit")).to_be_visible()
    expect(page.get_by_text("60 rows").first).to_be_visible()
    # Ten folds have the main fit's own shape: one compilation serves all.
    plan(page, 8, "100", "10 folds")
    verdict = fit(page)
    page.wait_for_function(
        """() => ['fit/deep', 'fit/rival', 'fit/bound'].every(
             name => document.querySelector(`[data-name="${name}"]`)?.dataset.drawn)"""
    )
    # Whatever the verdict is for: a model that has a file.
    page.locator(".st-key-your_used").get_by_text(MODELS["deep"], exact=True).click()
    expect(page.get_by_role("button", name="Model (.npz)")).to_be_visible()
    upload(page, -1, "other.csv", b"position,other\n1,2\n2,3\n")
    expect(page.get_by_text("lacks “colour”")).to_be_visible()
    predicted(page, table(12, separator), tmp_path)
    expect(page.get_by_text("lacks “colour”")).to_have_count(0)
    script = downloaded(page, "Python script", tmp_path).read_text()
    compile(script, "fit.py", "exec")
    assert "heights.csv" in script
    report = downloaded(page, "Report (HTML)", tmp_path).read_text()
    assert "<svg" in report and "<script" not in report
    words = re.sub(r"\s+", " ", verdict.inner_text()).strip()
    assert words.split("(")[0].split(":")[0].strip() in report

    # Another page and back: nothing is lost.
    go(page, "collection")
    expect(page.get_by_text("Each set is here")).to_be_visible()
    go(page, "your_data")
    expect(verdict).to_contain_text(words[:20])
    expect(page.get_by_text("2 layers of 8 inducing points")).to_be_visible()


@pytest.mark.parametrize(
    ("task", "score"), [("binary", "AUC"), ("multiclass", "Brier"), ("counts", "CRPS")]
)
def test_classes_and_counts_go_the_whole_way(open_page, tmp_path, task, score):
    page = straight_there(open_page)
    upload(page, 0, "heights.csv", table(60, ",", task))
    expect(page.get_by_role("heading", name="2 · Fit")).to_be_visible()
    plan(page, 8, "100")
    verdict = fit(page)
    expect(verdict).to_contain_text("Only 6 rows were held out")
    expect(page.locator(".st-key-scores")).to_contain_text(score)
    page.get_by_role("button", name="Explain", exact=True).click()
    for name in ("your_importance", "your_response_colour", "your_map", "fit/layer_0"):
        expect(page.locator(f'.stage-host[data-name="{name}"]')).to_have_attribute(
            "data-drawn", re.compile(r"\d+"), timeout=COMPILED
        )
    outcome = predicted(page, table(12, ",", task), tmp_path)
    assert outcome.recipe.task == task


def test_bad_files_get_their_sentences_and_a_good_one_takes_them_away(open_page):
    page = at_your_data(open_page("/?data=step&inducing=5&layers=1"))
    for name, content, sentence in (
        ("empty.csv", b"", "This file is empty"),
        ("book.xlsx", b"PK\x03\x04" + bytes(200), "no Excel workbook (.xlsx)"),
        ("garbage.csv", bytes(range(256)) * 8, "This file is not text"),
        ("header.csv", b"a,b\n", "a header but no rows"),
        ("alike.csv", b"a,b\n1,2\n1,2\n", "No column of this file can be a target"),
        ("one.csv", b"x\n1\n2\n3\n", "No column is left to learn from"),
        ("twice.csv", b"a,a,b\n1,2,3\n2,4,1\n3,3,3\n", "The name “a” is there again"),
    ):
        upload(page, 0, name, content)
        expect(page.get_by_text(sentence)).to_be_visible()
    expect(page.locator(".st-key-fit")).to_be_visible()  # the last thing of the page
    upload(page, 0, "good.csv", table(20, ","))
    expect(page.get_by_text("good.csv: 20 rows")).to_be_visible()
    expect(page.get_by_text("No column is left to learn from")).to_have_count(0)
    expect(page.get_by_test_id("stAlert")).to_have_count(0)
