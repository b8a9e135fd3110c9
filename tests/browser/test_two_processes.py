"""Two processes behind nginx: who comes where, a run's link, and one process that is killed."""

import os
import re
import signal
import sys

import pytest
from playwright.sync_api import Browser, Page, expect

from pages.ui.classroom import __main__ as classroom
from pages.ui.classroom.room import Room
from tests.browser.app_server import START
from tests.browser.conftest import PATIENCE

pytestmark = pytest.mark.skipif(
    classroom.find_nginx() is None,
    reason="nginx is not on this machine: apt-get install nginx",
)


@pytest.fixture
def room(monkeypatch, tmp_path):
    """The class's room, and its processes."""
    monkeypatch.setattr(classroom, "STREAMLIT", (sys.executable, "-c", START))
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    (port,) = classroom.free_ports(1)
    own = Room(f"http://127.0.0.1:{port}/", "posterior", 1, 2)
    with classroom.serving(own, port, "127.0.0.1", tmp_path) as processes:
        yield own, processes


def new_page(browser: Browser) -> Page:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(PATIENCE)
    return context.new_page()


def until_moving(page: Page) -> None:
    """Waits until two more frames have come."""
    page.wait_for_function("() => window.dgpStage?.frames > 0")
    seen = page.evaluate("dgpStage.frames")
    page.wait_for_function("seen => dgpStage.frames > seen + 1", arg=seen)


def run_of(page: Page) -> str:
    page.wait_for_url(re.compile(r"run=\d-"))
    return re.search(r"run=([\w-]+)", page.url)[1]


def test_two_processes_share_a_class(browser, room):
    own, processes = room
    stranger = new_page(browser)
    stranger.goto(own.address)
    expect(stranger.locator("body")).to_have_text(re.compile(r"^\s*This room has a word: .*\.\s*$"))

    first, second, guest = (new_page(browser) for _ in range(3))
    for page in (first, second):
        page.goto(own.link)
    runs = [run_of(page) for page in (first, second)]
    assert {run[0] for run in runs} == {"1", "2"}  # newcomers in turn
    for page, run in zip((first, second), runs, strict=True):
        assert page.url.startswith(f"{own.address}{run[0]}/?") and "word" not in page.url
        until_moving(page)

    # By a link that names another process, and by one that names none.
    guest.goto(f"{own.address}{runs[1][0]}/layers?v=1&run={runs[0]}&word={own.word}")
    assert run_of(guest) == runs[0] and f"/{runs[0][0]}/layers?" in guest.url
    asked = guest.context.request.get(f"{own.address}?v=1&run={runs[0]}", max_redirects=0)
    assert asked.headers["location"].endswith(f"/{runs[0][0]}/?v=1&run={runs[0]}")
    until_moving(guest)
    guest.close()

    killed = processes[int(runs[0][0]) - 1].running
    os.kill(killed.pid, signal.SIGKILL)
    expect(first.locator('[data-name="main/state"]')).to_contain_text("Connection lost")
    stranger.goto(f"{own.address}{runs[0][0]}/?word={own.word}")
    expect(stranger.locator("body")).to_contain_text("This part of the class has stopped")
    until_moving(second)  # the other process notices nothing
    assert run_of(second) == runs[1]
    expect(first.get_by_text("is over, so another one has been started")).to_be_visible()
    until_moving(first)
    assert run_of(first) != runs[0] and run_of(first)[0] == runs[0][0]
    for page in (stranger, first, second):
        page.context.close()
