"""Files of Cyrillic and of Japanese names, in their old encodings, taken the whole way."""

import csv
import io

import numpy as np
import pytest
from playwright.sync_api import expect

from dgp_core import archive
from pages.figures.scores import MODELS
from tests.browser.lesson_steps import COMPILED
from tests.browser.test_your_data import downloaded, fit, plan, straight_there, upload

pytestmark = pytest.mark.usefixtures("quick_compilation")

FILES = {
    "cp1251": ("цены.csv", ("площадь", "город", "цена"), ("Москва", "Казань", "Тверь")),
    "cp932": ("価格.csv", ("面積", "都市", "価格"), ("東京", "大阪", "京都")),
}


def table(encoding: str, n: int, rng: np.random.Generator) -> bytes:
    _, names, cities = FILES[encoding]
    x = rng.uniform(20, 90, n)
    rows = [f"{x[i]:.1f},{cities[i % 3]},{x[i] * (1 + i % 3) + rng.normal():.2f}" for i in range(n)]
    return "\n".join([",".join(names), *rows, ""]).encode(encoding)


@pytest.mark.parametrize("encoding", FILES)
def test_names_of_other_scripts_go_the_whole_way(open_page, tmp_path, encoding, rng):
    name, (area, city, price), cities = FILES[encoding]
    page = straight_there(open_page)
    upload(page, 0, name, table(encoding, 40, rng))
    expect(page.get_by_text(f"{name}: 40 rows")).to_be_visible()
    expect(page.get_by_text("Guessed, and may be wrong: encoding")).to_be_visible()
    plan(page, 8, "100")
    fit(page)
    page.get_by_role("button", name="Explain", exact=True).click()
    response = page.locator(f'.stage-host[data-name="your_response_{city}"]')
    expect(response).to_have_attribute("data-drawn", "1", timeout=COMPILED)
    page.locator(".st-key-your_used").get_by_text(MODELS["deep"], exact=True).click()
    upload(
        page, -1, f"2 {name}", table(encoding, 5, rng) + f"50,{cities[0][::-1]},\n".encode(encoding)
    )
    expect(page.get_by_text(f"5 of 6 rows of 2 {name} predicted.")).to_be_visible(timeout=COMPILED)
    content = downloaded(page, "Predictions (CSV)", tmp_path).read_bytes()
    rows = list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"))))
    assert [row[city] for row in rows[:3]] == list(cities) and rows[0][f"{price} mean"]
    assert cities[0][::-1] in rows[5]["why not"] and not rows[5][f"{price} mean"]
    record = archive.load(downloaded(page, "Model (.npz)", tmp_path))
    assert record.output_names == (price,) and f"{city} = {cities[0]}" in record.input_names
    script = downloaded(page, "Python script", tmp_path).read_text(encoding="utf-8")
    compile(script, "fit.py", "exec")
    assert repr(name) in script and repr(price) in script
    report = downloaded(page, "Report (HTML)", tmp_path).read_text(encoding="utf-8")
    assert all(word in report for word in (name, area, city, price))
