"""What a person does on a page: goes to a lesson, looks, points, slides, chooses, answers."""

import re

from playwright.sync_api import Locator, Page, expect

COMPILED = 300_000
"""Milliseconds that a model may take to compile on a loaded machine."""


def go_to(page: Page, name: str, number: int) -> Page:
    """Opens a lesson as a visitor would, by the menu, and waits for its first picture."""
    page.get_by_test_id("stTopNav").get_by_role("button", name="Learn").click()
    page.locator(f'a[href$="/{name}"]').click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"{number} · ")
    drawn(page.locator(".stage-host[role=img]").first)
    expect(page.locator(".katex-display .katex-html").first).to_be_visible()
    assert page.locator(".katex-error").count() == 0
    return page


def drawn(box: Locator) -> int:
    """How often a picture has been drawn, once it has."""
    expect(box).to_have_attribute("data-drawn", re.compile(r"\d+"))
    return int(box.get_attribute("data-drawn") or 0)


def host(page: Page, name: str) -> Locator:
    """A picture, or a line of words, by its name."""
    return page.locator(f'.stage-host[data-name="{name}"]')


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
    thumb = page.get_by_role("slider", name=label).first
    for _ in range(times):
        thumb.press(key)


def choose(page: Page, name: str) -> None:
    page.get_by_test_id("stButtonGroup").get_by_text(name, exact=True).click()


def answer(page: Page, text: str) -> None:
    page.get_by_text(text, exact=True).click()
    expect(page.get_by_test_id("stAlert").filter(has_text="Yes.")).to_be_visible()
