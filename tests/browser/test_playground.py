"""The playground in a real browser: it moves, obeys, keeps a zoom, and lets others watch."""

import re

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from pages.figures.palette import DARK, LIGHT
from tests.browser.lesson_steps import COMPILED, under_the_pointer

SMALL = "/?data=step&inducing=5"
PICTURES = ".stage-host[data-kind=picture]"
DEEP = '[data-name="main/deep"]'
STEP = (
    "() => Number(/step ([\\d,]+)/.exec(document.querySelector('[data-name=\"main/numbers\"]')"
    "?.innerText ?? '')?.[1].replaceAll(',', '') ?? -1)"
)


def step(page: Page) -> int:
    return page.evaluate(STEP)


def state(page: Page):
    return page.locator('[data-name="main/state"]')


def trains(page: Page) -> Page:
    """Waits until the run trains and Plotly has drawn its pictures."""
    expect(state(page)).to_contain_text("Training", timeout=COMPILED)
    page.wait_for_function(
        f"""() => {{ const charts = [...document.querySelectorAll('{PICTURES}')];
                   return charts.length > 3 && charts.every(chart => chart.dataset.drawn
                     && chart.querySelector('.main-svg')); }}""",
        timeout=COMPILED,
    )
    return page


def drawn(page: Page) -> int:
    """How often the first picture has been drawn."""
    return int(page.locator(DEEP).get_attribute("data-drawn") or 0)


def after(page: Page, n: int) -> None:
    """Waits for n further pictures."""
    page.wait_for_function(
        "([name, n]) => Number(document.querySelector(name).dataset.drawn) >= n",
        arg=[DEEP, drawn(page) + n],
    )


def rises(page: Page) -> None:
    before = step(page)
    page.wait_for_function(f"before => ({STEP})() > before", arg=before)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=re.compile(f"^{name}")).first.click()


def pause(page: Page) -> None:
    """Presses Pause, and waits until the last step that was under way is shown and at rest."""
    press(page, "Pause")
    expect(state(page)).to_contain_text("Paused")
    expect(page.locator(DEEP)).not_to_have_class(re.compile("stage-sketched"))


def rgb(colour: str) -> str:
    """A colour as the browser writes it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def test_something_moves_and_pause_step_and_reset_obey(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    expect(page).to_have_title("Deep GP Lab")
    expect(page.get_by_role("heading", name="Deep GP Lab")).to_be_visible()
    rises(page)
    pause(page)
    before = step(page)
    press(page, "Step")
    page.wait_for_function(f"before => ({STEP})() === before + 1", arg=before)
    press(page, "Reset")
    page.wait_for_function(f"() => ({STEP})() === 0")
    press(page, "Play")
    rises(page)


def test_space_and_the_arrow_drive_it_from_the_keyboard(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    page.keyboard.press("Space")
    expect(state(page)).to_contain_text("Paused")
    expect(page.get_by_role("button", name=re.compile("^Play"))).to_be_visible()
    before = step(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"before => ({STEP})() === before + 1", arg=before)
    page.keyboard.press("Space")
    expect(state(page)).to_contain_text("Training")
    rises(page)


def test_another_depth_while_it_trains_restarts_it_and_the_way_back_leads_back(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    expect(page.locator(PICTURES)).to_have_count(6)
    run = re.search("run=([^&]+)", page.url)
    page.get_by_role("slider", name="Depth").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("from the same seed")).to_be_visible()
    expect(page.locator(PICTURES)).to_have_count(5, timeout=COMPILED)
    trains(page)
    assert run is not None and run.group(1) not in page.url and "layers=1" in page.url
    rises(page)
    page.go_back()
    expect(page.locator(PICTURES)).to_have_count(6, timeout=COMPILED)
    trains(page)
    rises(page)
    page.wait_for_url(lambda url: "layers=2" in url and "run=" in url)
    page.go_forward()
    expect(page.locator(PICTURES)).to_have_count(5, timeout=COMPILED)
    trains(page)


def test_a_zoom_survives_twenty_pictures_and_an_earlier_moment_can_be_held(open_page):
    page = trains(open_page(SMALL + "&speed=100"))
    plot = page.locator(DEEP)
    box = plot.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"], steps=8)
    page.mouse.up()
    zoomed = f"() => document.querySelector('{DEEP}').layout.xaxis.range.slice()"
    page.wait_for_function(f"() => {{ const [a, b] = ({zoomed})(); return b - a < 3; }}")
    before = page.evaluate(zoomed)
    after(page, 20)
    assert page.evaluate(zoomed) == pytest.approx(before)
    titles = plot.locator(".xtitle, .ytitle").all_text_contents()
    assert titles == ["x", "y"]

    slider = page.get_by_role("slider", name="History")
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_function(f"() => ({STEP})() === 0")
    expect(page.get_by_text(re.compile("step 0 of .*held"))).to_be_visible()
    page.get_by_role("button", name="Back to now").click()
    page.wait_for_function(f"() => ({STEP})() > 0")


def test_no_picture_fades_or_goes_blank(open_page):
    page = trains(open_page(SMALL + "&speed=100"))
    page.evaluate(
        """selector => {
          window.worst = 1;
          const look = () => {
            for (const chart of document.querySelectorAll(selector)) {
              if (!chart.querySelector('.main-svg')) window.worst = -1;
              for (let e = chart; e; e = e.parentElement)
                window.worst = Math.min(window.worst, Number(getComputedStyle(e).opacity));
            }
            requestAnimationFrame(look);
          };
          look();
        }""",
        PICTURES,
    )
    after(page, 10)
    press(page, "Pause")
    expect(state(page)).to_contain_text("Paused")
    assert page.evaluate("window.worst") == 1


def test_what_moves_is_sketched_where_plotly_then_draws_it(open_page):
    page = trains(open_page(SMALL + "&speed=100"))
    page.mouse.move(2, 2)
    page.wait_for_function(f"document.querySelector('{DEEP}').matches('.stage-sketched')")
    press(page, "Pause")
    expect(state(page)).to_contain_text("Paused")
    page.mouse.move(2, 2)
    page.wait_for_function(
        f"""() => {{ const boxes = [...document.querySelectorAll('{PICTURES}')];
                     return boxes.every(box => !box.matches('.stage-sketched')); }}"""
    )
    # Colours on the canvas at the places where Plotly's own axes put the marks.
    found = page.evaluate(
        """async name => {
          const { sketch } = await import(document.querySelector('link[href*=sketch-]').href);
          const box = document.querySelector(name);
          sketch(box, { data: box.data, layout: box.layout }, box._fullLayout);
          const pen = box.querySelector('canvas').getContext('2d');
          const { xaxis, yaxis } = box._fullLayout;
          const colour = (x, y) => [...pen.getImageData(
            Math.round(xaxis._offset + xaxis.d2p(x)),
            Math.round(yaxis._offset + yaxis.d2p(y)), 1, 1).data];
          const trace = wanted => box._fullData.find(one => one.name === wanted);
          const all = (one, keep) => Array.from(one.x, (x, i) => [x, one.y[i]])
            .filter(keep).map(([x, y]) => colour(x, y));
          const inside = ([x, y]) => x > xaxis.range[0] && x < xaxis.range[1];
          const beside = 12 * (yaxis.range[1] - yaxis.range[0]) / yaxis._length;
          const mean = trace('mean');
          const off = { x: mean.x, y: Array.from(mean.y, y => y - beside) };
          return [trace('inducing points'), mean, off].map(one => all(one, inside));
        }""",
        DEEP,
    )
    inducing, mean, beside = found
    assert len(inducing) == 5 and len(mean) > 50
    assert all(green > 120 and red < 90 for red, green, _, _ in inducing)
    on, off = (
        np.mean([blue > 120 and red < 60 and opaque > 200 for red, _, blue, opaque in line])
        for line in (mean, beside)
    )
    assert on > 0.35 and off < 0.1 * on  # the data's dots cover some of the line


def test_a_reload_finds_its_run_and_another_browser_watches(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    link = page.url
    press(page, "Pause")
    expect(state(page)).to_contain_text("Paused")
    page.reload()
    expect(state(page)).to_contain_text("Paused")
    assert page.url == link
    press(page, "Play")
    trains(page)

    other = open_page("/?" + link.split("?")[1])
    trains(other)
    expect(other.get_by_role("button", name="Start my own")).to_be_visible()
    expect(other.get_by_role("button", name=re.compile("^Pause"))).to_have_count(0)
    expect(other.get_by_role("slider", name="Depth")).to_have_count(0)
    rises(other)
    press(other, "Start my own")
    expect(other.get_by_role("button", name=re.compile("^Pause"))).to_be_visible()
    other.wait_for_url(lambda url: url != link)


def pixel(page: Page, x: float, y: float) -> tuple[float, float]:
    """Where a place of the deep model's picture is on the screen."""
    return tuple(
        page.evaluate(
            """([name, x, y]) => { const box = document.querySelector(name);
              const { xaxis, yaxis } = box._fullLayout; const frame = box.getBoundingClientRect();
              return [frame.left + xaxis._offset + xaxis.d2p(x),
                      frame.top + yaxis._offset + yaxis.d2p(y)]; }""",
            [DEEP, x, y],
        )
    )


INDUCING = f"""() => {{ const trace = document.querySelector('{DEEP}')._fullData
  .find(one => one.name === 'inducing points'); return [trace.x[0], trace.y[0]]; }}"""


def test_an_inducing_point_can_be_dragged_and_the_bound_answers(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    pause(page)
    words = page.locator('[data-name="main/bound_words"]').inner_text()
    under_the_pointer(page.locator(DEEP))
    x, y = page.evaluate(INDUCING)
    far = x + 1.0 if x < 0 else x - 1.0
    page.mouse.move(*pixel(page, x, y))
    page.mouse.down()
    page.mouse.move(*pixel(page, far, y), steps=6)
    page.mouse.up()
    page.wait_for_function(f"far => Math.abs(({INDUCING})()[0] - far) < 0.1", arg=far)
    expect(page.locator('[data-name="main/bound_words"]')).not_to_have_text(words)
    press(page, "Play")
    rises(page)


def test_a_click_chooses_the_place_of_the_mixture(open_page):
    page = trains(open_page(SMALL + "&speed=1"))
    page.mouse.click(*pixel(page, -1.0, 0.0))
    expect(page.locator('[data-name="main/mixture_title"]')).to_contain_text("x = -")
    page.wait_for_url(re.compile("star=-"))


def test_points_are_put_down_and_taken_away(open_page):
    page = trains(open_page("/?data=drawn&inducing=5&layers=1&speed=10"))
    count = (
        f"() => document.querySelector('{DEEP}')._fullData.find(t => t.name === 'data').x.length"
    )
    before, link = page.evaluate(count), page.url
    page.mouse.click(*pixel(page, 1.5, -1.2))
    page.wait_for_function(f"n => ({count})() === n + 1", arg=before, timeout=COMPILED)
    page.wait_for_url(lambda url: url != link)
    trains(page)
    rises(page)
    page.mouse.click(*pixel(page, 1.5, -1.2))
    page.wait_for_function(f"n => ({count})() === n", arg=before, timeout=COMPILED)


def test_pictures_numbers_links_and_the_model_can_be_taken_home(open_page):
    page = trains(open_page(SMALL + "&speed=1"))
    frame = page.locator(".stage-frame", has=page.locator(DEEP))
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"trace,x,y")):
        frame.locator("summary").click()
        with page.expect_download() as download:
            frame.get_by_role("button", name=kind).click()
        content = download.value.path().read_bytes()
        assert content.startswith(start) and len(content) > 2000
    press(page, "Share")
    expect(page.get_by_text("Watch this run with me")).to_be_visible()
    expect(page.get_by_text("The first link, for a camera")).to_be_visible()
    for name, start in (("The model", b"PK"), ("The run as Python", b'"""')):
        with page.expect_download() as download:
            page.get_by_role("button", name=re.compile(name)).click()
        assert download.value.path().read_bytes().startswith(start)


def test_a_link_beyond_what_is_offered_is_met_with_a_sentence(open_page):
    page = open_page("/?data=step&inducing=3&layers=1")
    expect(page.get_by_text("number of inducing points '3'")).to_be_visible()
    trains(page)


def test_on_a_phone_pictures_stack_and_nothing_scrolls_sideways(open_page):
    page = trains(open_page(SMALL, width=390, height=844))
    boxes = [plot.bounding_box() for plot in page.locator(PICTURES).all()]
    tops = [box["y"] for box in boxes]
    assert tops == sorted(set(tops))
    expect(page.get_by_role("button", name=re.compile("^Pause|^Play"))).to_be_in_viewport()
    assert page.evaluate(
        """() => [document.documentElement, document.querySelector('[data-testid=stMain]')]
            .every(part => part.scrollWidth <= part.clientWidth)"""
    )


def test_all_pictures_are_above_the_fold_on_a_desk(open_page):
    page = trains(open_page(SMALL))
    expect(page.locator(PICTURES)).to_have_count(6)
    for plot in page.locator(PICTURES).all():
        box = plot.bounding_box()
        assert box is not None and box["y"] + box["height"] <= 900


@pytest.mark.parametrize(("colour_scheme", "ink"), [("light", LIGHT), ("dark", DARK)])
def test_by_day_and_by_night_and_for_those_who_hear_it(open_page, colour_scheme, ink):
    page = trains(open_page(SMALL + "&speed=1", colour_scheme=colour_scheme))
    title = page.locator(f"{DEEP} .xtitle").first
    expect(page.locator("[data-testid=stApp]")).to_have_css("background-color", rgb(ink.paper))
    expect(title).to_have_css("fill", rgb(ink.text))
    pictures = page.get_by_role("img", name=re.compile("prediction|bounds|layer|mixture"))
    expect(pictures).to_have_count(6)
    assert serious(page) == []


def serious(page: Page) -> list[str]:
    """What axe-core finds that would shut somebody out."""
    found = Axe().run(page).response["violations"]
    return [
        f"{v['id']}: {v['help']}: {v['nodes'][0]['html'][:200]}"
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


def go_to(page: Page, path: str) -> None:
    """By the page list at the top."""
    page.get_by_text("Explore", exact=True).first.click()
    page.locator(f'a[href$="/{path}"]').first.click()
    page.wait_for_url(re.compile(path))


def test_the_other_pages_show_the_same_run_from_other_sides(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    for name, picture in (("Layers", "main/map"), ("Mixture", "main/mixture")):
        go_to(page, name.lower())
        page.wait_for_function(
            'name => Number(document.querySelector(`[data-name="${name}"]`)?.dataset.drawn) > 1',
            arg=picture,
            timeout=COMPILED,
        )
        assert serious(page) == []
    go_to(page, "prior")
    page.wait_for_function(
        "() => Number(document.querySelector('[data-name=prior_zero]')?.dataset.drawn) > 0"
    )
    before = page.locator("[data-name=prior_zero]").get_attribute("data-drawn")
    page.get_by_role("slider", name="Depth").focus()
    page.keyboard.press("End")
    expect(page.get_by_text("10 layers").first).to_be_visible()
    expect(page.locator("[data-name=prior_zero]")).not_to_have_attribute("data-drawn", before)
    assert serious(page) == []
