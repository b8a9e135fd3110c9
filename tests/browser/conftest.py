"""A real server and a real Chromium: what a person sees, and what the browser complains of."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.browser.get_browser import find_browser

ROOT = Path(__file__).parents[2]
START_SECONDS = 120
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

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def app_url(tmp_path_factory) -> Iterator[str]:
    """The address of the app, served by a process of its own."""
    yield from served(tmp_path_factory)


@pytest.fixture
def fresh_url(tmp_path_factory) -> Iterator[str]:
    """The address of another server, which nobody has visited."""
    yield from served(tmp_path_factory)


def served(tmp_path_factory) -> Iterator[str]:
    """A server for as long as it is wanted."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.headless=true"]
    command += [f"--server.port={port}", "--server.address=127.0.0.1"]
    command += ["--server.fileWatcherType=none"]
    with log.open("w") as out:
        server = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_until_healthy(server, url, log)
        yield url
    finally:
        server.terminate()
        try:
            server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def wait_until_healthy(server: subprocess.Popen, url: str, log: Path):
    """Returns when the server answers; fails with its own words when it ends or stays silent."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        try:
            server.wait(timeout=0.1)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(f"The app's server ended: {log.read_text()}")
    pytest.fail(f"The app's server gave no answer in {START_SECONDS} s: {log.read_text()}")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for the whole suite."""
    path = find_browser()
    if path is None:
        pytest.fail("No Chromium was found: run python tests/browser/get_browser.py once.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


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
        path: str = "/", width: int = 1440, height: int = 900, colour_scheme: str = "light"
    ) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=colour_scheme
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("request", note_request)
        page.on("pageerror", lambda error: complaints.append(f"script error: {error}"))
        page.on(
            "console",
            lambda line: complaints.append(f"console: {line.text}") if bad(line) else None,
        )
        page.goto(app_url + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
