"""The welcome page in a real browser: it opens, fits, and holds on a phone and at night."""

import re

from playwright.sync_api import expect

from pages.figures.palette import DARK, LIGHT


def fit(page):
    """Presses Fit and waits for both pictures."""
    page.get_by_role("button", name="Fit", exact=True).click()
    expect(page.get_by_role("heading", name="Single layer")).to_be_visible(timeout=300_000)
    expect(page.locator(".js-plotly-plot .main-svg .scatterlayer")).to_have_count(2)


def rgb(colour: str) -> str:
    """A colour as the browser writes it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def test_opens_with_its_title_and_the_data(open_page):
    page = open_page()
    expect(page).to_have_title("Deep GP Lab")
    expect(page.get_by_role("heading", name="Deep GP Lab")).to_be_visible()
    expect(page.get_by_text("press Fit")).to_be_visible()
    expect(page.locator(".js-plotly-plot .scatterlayer .point").first).to_be_visible()


def test_fits_both_models_side_by_side(open_page):
    page = open_page()
    fit(page)
    expect(page.get_by_text("press Fit")).to_have_count(0)
    expect(page.get_by_text(re.compile("could not be fitted"))).to_have_count(0)
    boxes = [plot.bounding_box() for plot in page.locator(".js-plotly-plot").all()]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
    legend = page.locator(".js-plotly-plot").first.locator(".legendtext").all_text_contents()
    assert {"middle 95 %", "middle 50 %", "mean", "data"} <= set(legend)


def test_another_data_set_waits_for_its_own_fit(open_page):
    page = open_page()
    fit(page)
    page.get_by_role("radio").nth(1).click()
    expect(page.get_by_text("press Fit")).to_be_visible()
    expect(page.get_by_role("heading", name="Single layer")).to_have_count(0)


def test_on_a_phone_pictures_stack_and_nothing_scrolls_sideways(open_page):
    page = open_page(width=390, height=844)
    fit(page)
    boxes = [plot.bounding_box() for plot in page.locator(".js-plotly-plot").all()]
    assert boxes[1]["y"] >= boxes[0]["y"] + boxes[0]["height"]
    assert page.evaluate(
        """() => [document.documentElement, document.querySelector('[data-testid=stMain]')]
            .every(part => part.scrollWidth <= part.clientWidth)"""
    )


def test_paper_by_day_and_ink_by_night(open_page):
    for colour_scheme, ink in (("light", LIGHT), ("dark", DARK)):
        page = open_page(colour_scheme=colour_scheme)
        title = page.locator(".js-plotly-plot .xtitle").first
        expect(page.locator("[data-testid=stApp]")).to_have_css("background-color", rgb(ink.paper))
        expect(title).to_have_css("fill", rgb(ink.text))
