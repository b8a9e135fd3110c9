""" "Your data" in a real browser: upload, fit, verdict; what is downloaded is the core's own."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from dgp_core import archive
from dgp_core.outcome import Outcome
from dgp_core.table import read_table

COMPILED = 300_000
"""Milliseconds that a fit may take on a loaded machine, compilation included."""


def table(n: int, separator: str) -> bytes:
    """A jump, a category with missing cells, and numbers as semicolon files write them."""
    rng = np.random.default_rng(5)
    x, colour = rng.uniform(-2, 2, n), rng.choice(["red", "green"], n)
    y = np.where(x > 0, 1.0, -1.0) + 0.05 * rng.standard_normal(n)
    lines = [separator.join(("position", "colour", "height"))]
    for i in range(n):
        cells = (f"{x[i]:.4f}", colour[i] if i % 8 else "", f"{y[i]:.4f}")
        lines.append(separator.join(cells))
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


def upload(page: Page, place: int, name: str, content: bytes) -> None:
    page.locator("input[type=file]").nth(place).set_input_files(
        {"name": name, "mimeType": "text/csv", "buffer": content}
    )


def downloaded(page: Page, name: str, folder: Path) -> Path:
    with page.expect_download() as coming:
        page.get_by_role("button", name=name).click()
    path = folder / coming.value.suggested_filename
    coming.value.save_as(path)
    return path


@pytest.mark.parametrize("separator", [",", ";"])
def test_from_a_file_to_predictions_that_are_the_core_s_own(open_page, tmp_path, separator):
    page = at_your_data(open_page("/?data=step&inducing=5&layers=1"))
    content = table(60, separator)
    upload(page, 0, "heights.csv", content)
    expect(page.get_by_role("heading", name="2 · Fit")).to_be_visible()
    expect(page.get_by_text("60 rows").first).to_be_visible()
    page.get_by_text("Change the plan").click()
    points = page.get_by_role("spinbutton", name="Inducing points")
    points.fill("8")
    points.press("Enter")
    expect(page.get_by_text("2 layers of 8 inducing points")).to_be_visible()
    steps = page.get_by_role("slider", name="Steps")
    for shown in ("2,000", "1,000", "500", "100"):
        steps.press("ArrowLeft")
        expect(page.get_by_text(f"{shown} steps.")).to_be_visible()
    # Ten folds have the main fit's own shape: one compilation serves all.
    page.get_by_role("slider", name="Folds").press("End")
    expect(page.get_by_text("judged by 20 folds")).to_be_visible()
    page.get_by_role("slider", name="Folds").press("ArrowLeft")
    expect(page.get_by_text("judged by 10 folds")).to_be_visible()
    page.get_by_role("button", name="Fit", exact=True).click()
    verdict = page.locator(".st-key-verdict")
    expect(verdict).to_contain_text(re.compile("model|layer|rows"), timeout=COMPILED)
    page.get_by_role("button", name="Stop").wait_for(state="detached", timeout=COMPILED)
    expect(page.locator(".st-key-scores")).to_contain_text("Straight line")
    page.wait_for_function(
        """() => ['fit/deep', 'fit/rival', 'fit/bound'].every(
             name => document.querySelector(`[data-name="${name}"]`)?.dataset.drawn)"""
    )

    new = table(12, separator)
    upload(page, -1, "new.csv", new)
    expect(page.get_by_text("12 rows of new.csv are predicted")).to_be_visible(timeout=COMPILED)
    predictions = read_table(downloaded(page, "Predictions (CSV)", tmp_path))
    record = archive.load(downloaded(page, "Model (.npz)", tmp_path))
    second = read_table(new)
    own = Outcome(record).predictions(Outcome(record).recipe.inputs(second))
    assert list(predictions.cells) == [*second.cells, *own]
    for name, values in own.items():
        assert np.array_equal(predictions.cells[name], values), name
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


def test_a_bad_file_gets_its_sentence(open_page):
    page = at_your_data(open_page("/?data=step&inducing=5&layers=1"))
    upload(page, 0, "book.xlsx", b"PK\x03\x04" + bytes(200))
    expect(page.get_by_text("This is an Excel workbook")).to_be_visible()
    upload(page, 0, "good.csv", table(20, ","))
    expect(page.get_by_role("heading", name="2 · Fit")).to_be_visible()
    expect(page.get_by_text("This is an Excel workbook")).to_have_count(0)
