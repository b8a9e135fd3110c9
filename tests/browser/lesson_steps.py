"""What a person does on a page: goes to a lesson, looks, points, slides, chooses, answers."""

import re
from functools import cache
from pathlib import Path

from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as TooLate

LEARN = Path(__file__).parents[2] / "pages" / "learn"
COMPILED = 300_000
"""Milliseconds that a model may take to compile on a loaded machine."""
BEGUN = re.compile("Compiling|Starting|Training|Paused")


@cache
def equations(name: str) -> int:
    """How many equations a lesson displays."""
    return len(
        re.findall(r"^ +(?:lesson\.)?Equation\($", (LEARN / f"{name}.py").read_text("utf-8"), re.M)
    )


def open_from_menu(page: Page, name: str) -> None:
    """By the menu Learn, which may close again while the page is drawn."""
    link = page.locator(f'a[href$="/{name}"]')
    menu = page.get_by_test_id("stTopNav").get_by_role("button", name="Learn")
    for patience in (*(5_000,) * 10, 60_000):
        if not link.is_visible():
            menu.click()
        try:
            link.click(timeout=patience)
            return
        except TooLate:
            if patience == 60_000:
                raise


def go_to(page: Page, name: str, number: int) -> Page:
    """Opens a lesson as a visitor would, and waits for its first picture and all equations."""
    open_from_menu(page, name)
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"{number} · ")
    drawn(page.locator(".stage-host[role=img]").first)
    rendered(page, equations(name))
    return page


def rendered(page: Page, count: int) -> None:
    """So many equations are displayed, and none failed to render."""
    expect(page.locator(".katex-display .katex-html")).to_have_count(count)
    expect(page.locator(".katex-error")).to_have_count(0)


def drawn(box: Locator) -> int:
    """How often a picture has been drawn, once it has."""
    expect(box).to_have_attribute("data-drawn", re.compile(r"\d+"))
    return int(box.get_attribute("data-drawn") or 0)


def host(page: Page, name: str) -> Locator:
    """A picture, or a line of words, by its name."""
    return page.locator(f'.stage-host[data-name="{name}"]')


def listening(box: Locator) -> Locator:
    """A picture once Plotly has drawn it: only then does a click count."""
    expect(box.locator(".main-svg").first).to_be_attached()
    return box


def step_of(page: Page, live: str) -> int:
    """The step that a run's line of numbers says."""
    return int(number_in(host(page, f"{live}/numbers").locator("strong").first.inner_text()))


def trained_to(page: Page, live: str, step: int) -> None:
    """Waits until a run has taken so many steps."""
    page.wait_for_function(
        """([name, step]) => {
             const text = document.querySelector(`.stage-host[data-name='${name}']`)?.textContent;
             const said = /^step ([\\d,]+) · /.exec(text ?? "");
             return said && Number(said[1].replaceAll(",", "")) >= step; }""",
        arg=[f"{live}/numbers", step],
        timeout=COMPILED,
    )


def number_in(text: str) -> float:
    """A number as the app writes it."""
    return float(text.replace("−", "-").replace(",", ""))


def button(page: Page, live: str, name: str) -> Locator:
    """A button of a run's bar."""
    return host(page, f"{live}/bar").get_by_role("button", name=name)


def pause(page: Page, live: str) -> int:
    """Holds a run still, waits until the page is at rest, and says at which step."""
    button(page, live, "Pause").click()
    expect(button(page, live, "Play")).to_be_visible()
    at_rest(page, f"{live}/numbers")
    return step_of(page, live)


def at_rest(page: Page, name: str) -> None:
    """Waits until a line has said the same for two seconds: what had begun has come."""
    page.wait_for_function(
        """name => {
             const text = document.querySelector(`.stage-host[data-name='${name}']`)?.textContent;
             const now = performance.now();
             if (!window.atRest || window.atRest.text !== text) window.atRest = { text, now };
             return text && now - window.atRest.now > 2000; }""",
        arg=name,
    )


def redrawn(page: Page, name: str, act=lambda: None) -> None:
    """Does something, and waits until the picture has been drawn anew."""
    before = drawn(host(page, name))
    act()
    page.wait_for_function(
        "([name, n]) => document.querySelector(`.stage-host[data-name='${name}']`)"
        "?.dataset.drawn > n",
        arg=[name, before],
        timeout=COMPILED,
    )


def under_the_pointer(box: Locator) -> None:
    """Puts the pointer on a picture: Plotly then draws every frame, and knows where marks are."""
    box.scroll_into_view_if_needed()
    box.hover()
    expect(box).not_to_have_class(re.compile("stage-sketched"), timeout=COMPILED)


def slide(page: Page, label: str, key: str, times: int = 1) -> None:
    whole = re.compile(rf"^{re.escape(label)}(?!\w)")  # its help may follow
    thumb = page.get_by_role("slider", name=whole).first
    for _ in range(times):
        thumb.press(key)


def choose(page: Page, name: str) -> None:
    page.get_by_test_id("stButtonGroup").get_by_text(name, exact=True).click()


def answer(page: Page, text: str) -> None:
    page.get_by_text(text, exact=True).click()
    expect(page.get_by_test_id("stAlert").filter(has_text="Yes.")).to_be_visible()
