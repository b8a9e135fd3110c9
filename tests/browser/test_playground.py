"""The playground in a real browser: it moves, obeys, keeps a zoom, and lets others watch."""

import re

import pytest
from playwright.sync_api import Page, expect

from pages.figures.palette import DARK, LIGHT

COMPILED = 300_000
"""Milliseconds that a model may take to compile on a loaded machine."""
SMALL = "/?data=step&inducing=5"

STEP = "() => Number(/step ([\\d,]+)/.exec(document.body.innerText)?.[1].replaceAll(',', '') ?? -1)"


def step(page: Page) -> int:
    return page.evaluate(STEP)


def trains(page: Page) -> Page:
    """Waits until the run trains and its pictures are drawn."""
    expect(page.locator(".st-key-state")).to_contain_text("Training", timeout=COMPILED)
    page.wait_for_function(
        """() => { const charts = [...document.querySelectorAll('.live-chart')];
                   return charts.length > 3 && charts.every(chart => chart.dataset.drawn); }"""
    )
    return page


def drawn(page: Page) -> int:
    """How often the first picture has been drawn."""
    return int(page.locator(".live-chart").first.get_attribute("data-drawn") or 0)


def after(page: Page, n: int) -> None:
    """Waits for n further pictures."""
    wanted = drawn(page) + n
    page.wait_for_function(
        "n => Number(document.querySelector('.live-chart').dataset.drawn) >= n", arg=wanted
    )


def rises(page: Page) -> None:
    before = step(page)
    page.wait_for_function(f"before => ({STEP})() > before", arg=before)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def rgb(colour: str) -> str:
    """A colour as the browser writes it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def test_something_moves_and_pause_step_and_reset_obey(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    expect(page).to_have_title("Deep GP Lab")
    expect(page.get_by_role("heading", name="Deep GP Lab")).to_be_visible()
    rises(page)
    press(page, "Pause")
    expect(page.locator(".st-key-state")).to_contain_text("Paused")
    page.wait_for_function(
        "document.querySelector('.st-key-state').innerText.includes('· 0 steps')"
    )
    before = step(page)
    press(page, "Step")
    page.wait_for_function(f"before => ({STEP})() === before + 1", arg=before)
    press(page, "Reset")
    page.wait_for_function(f"() => ({STEP})() === 0")
    press(page, "Play")
    rises(page)


def test_another_depth_while_it_trains_restarts_it(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    expect(page.locator(".live-chart")).to_have_count(5)
    run = re.search("run=([^&]+)", page.url)
    page.get_by_role("slider", name="Depth").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("from the same seed")).to_be_visible()
    expect(page.locator(".live-chart")).to_have_count(4, timeout=COMPILED)
    trains(page)
    assert run is not None and run.group(1) not in page.url and "layers=1" in page.url
    rises(page)


def test_a_zoom_survives_twenty_pictures(open_page):
    page = trains(open_page(SMALL + "&speed=100"))
    plot = page.locator(".live-chart").first
    box = plot.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"], steps=8)
    page.mouse.up()
    zoomed = "() => document.querySelector('.live-chart').layout.xaxis.range.slice()"
    page.wait_for_function(f"() => {{ const [a, b] = ({zoomed})(); return b - a < 3; }}")
    before = page.evaluate(zoomed)
    after(page, 20)
    assert page.evaluate(zoomed) == pytest.approx(before)
    titles = plot.locator(".xtitle, .ytitle").all_text_contents()
    assert titles == ["x", "y"]


def test_no_picture_fades_or_goes_blank(open_page):
    page = trains(open_page(SMALL + "&speed=100"))
    page.evaluate(
        """() => {
          window.worst = 1;
          const look = () => {
            for (const chart of document.querySelectorAll('.live-chart')) {
              if (!chart.querySelector('.main-svg')) window.worst = -1;
              for (let e = chart; e; e = e.parentElement)
                window.worst = Math.min(window.worst, Number(getComputedStyle(e).opacity));
            }
            requestAnimationFrame(look);
          };
          look();
        }"""
    )
    after(page, 10)
    assert page.evaluate("window.worst") == 1


def test_a_reload_finds_its_run_and_another_browser_watches(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    link = page.url
    press(page, "Pause")
    expect(page.locator(".st-key-state")).to_contain_text("Paused")
    page.reload()
    expect(page.locator(".st-key-state")).to_contain_text("Paused")
    assert page.url == link
    press(page, "Play")
    trains(page)

    other = open_page("/?" + link.split("?")[1])
    trains(other)
    expect(other.get_by_role("button", name="Start my own")).to_be_visible()
    expect(other.get_by_role("button", name="Pause", exact=True)).to_have_count(0)
    expect(other.get_by_role("slider")).to_have_count(0)
    rises(other)
    press(other, "Start my own")
    expect(other.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    other.wait_for_url(lambda url: url != link)


def test_a_link_beyond_what_is_offered_is_met_with_a_sentence(open_page):
    page = open_page("/?data=step&inducing=3&layers=1")
    expect(page.get_by_text("number of inducing points '3'")).to_be_visible()
    trains(page)


def test_on_a_phone_pictures_stack_and_nothing_scrolls_sideways(open_page):
    page = trains(open_page(SMALL, width=390, height=844))
    boxes = [plot.bounding_box() for plot in page.locator(".live-chart").all()]
    tops = [box["y"] for box in boxes]
    assert tops == sorted(set(tops))
    expect(page.get_by_role("button", name=re.compile("Pause|Play"))).to_be_in_viewport()
    assert page.evaluate(
        """() => [document.documentElement, document.querySelector('[data-testid=stMain]')]
            .every(part => part.scrollWidth <= part.clientWidth)"""
    )


def test_all_pictures_are_above_the_fold_on_a_desk(open_page):
    page = trains(open_page(SMALL))
    expect(page.locator(".live-chart")).to_have_count(5)
    for plot in page.locator(".live-chart").all():
        box = plot.bounding_box()
        assert box is not None and box["y"] + box["height"] <= 900


def test_paper_by_day_and_ink_by_night(open_page):
    for colour_scheme, ink in (("light", LIGHT), ("dark", DARK)):
        page = trains(open_page(SMALL, colour_scheme=colour_scheme))
        title = page.locator(".live-chart .xtitle").first
        expect(page.locator("[data-testid=stApp]")).to_have_css("background-color", rgb(ink.paper))
        expect(title).to_have_css("fill", rgb(ink.text))


def test_every_picture_says_what_it_is(open_page):
    page = trains(open_page(SMALL))
    pictures = page.get_by_role("img", name=re.compile("prediction|bounds|layer"))
    expect(pictures).to_have_count(5)
