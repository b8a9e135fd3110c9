"""A real server and a real Chromium: what a person sees, and what the browser complains of."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.app_server import served
from tests.browser.get_browser import find_browser

PATIENCE = 60_000
"""Milliseconds that a condition may take to hold: a loaded machine draws slowly."""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

BEEN_HERE = "localStorage.setItem('dgp-first-visit', 'over')"
"""The card of a first visit would lie over what is clicked."""

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="package")
def app_url() -> Iterator[str]:
    """The address of the app, served to all tests of this folder by a process of its own."""
    with served(for_tests=True) as (url, _):
        yield url


@pytest.fixture
def fresh_url() -> Iterator[str]:
    """The address of another server, which nobody has visited."""
    with served(for_tests=True) as (url, _):
        yield url


@contextmanager
def chromium() -> Iterator[Browser]:
    """A Chromium of its own."""
    path = find_browser()
    if path is None:
        pytest.fail("No Chromium was found: run python tests/browser/get_browser.py once.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """One Chromium for this folder; its event loop ends before the tests of another begin."""
    with chromium() as browser:
        yield browser


def bad(line: ConsoleMessage) -> bool:
    """Whether the browser complains; of a page's own address, Streamlit first tries its routes."""
    return line.type == "error" and "/_stcore/" not in line.location.get("url", "")


@pytest.fixture
def open_page(browser, app_url) -> Iterator[Callable[..., Page]]:
    """Opens a path of the app in a fresh profile.

    In the end, no page may have met an error or asked another server for anything.
    """
    contexts, complaints = [], []

    def note_request(request):
        if not request.url.startswith((app_url, "data:", "blob:", app_url.replace("http", "ws"))):
            complaints.append(f"asked another server: {request.url}")

    def open_page(
        path: str = "/",
        width: int = 1440,
        height: int = 900,
        colour_scheme: str = "light",
        touch: bool = False,
        prepare: Callable[[Page], object] = lambda page: None,
        wait_until: Literal["load", "commit"] = "load",
        first_visit: bool = False,
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=colour_scheme, has_touch=touch
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        if not first_visit:
            context.add_init_script(BEEN_HERE)
        page = context.new_page()
        page.on("request", note_request)
        page.on("pageerror", lambda error: complaints.append(f"script error: {error}"))
        page.on(
            "console",
            lambda line: complaints.append(f"console: {line.text}") if bad(line) else None,
        )
        prepare(page)
        page.goto(app_url + path, wait_until=wait_until)
        return page

    yield open_page
    for context in contexts:
        context.cookies()  # an answer: what the browser had to say before it has been heard
    said = list(complaints)  # closing a page breaks off what is loading, which is no error
    for context in contexts:
        context.close()
    assert said == []
