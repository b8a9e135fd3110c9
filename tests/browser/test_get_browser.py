"""A browser is taken where it starts, and fetched where there is none."""

import os
import shutil

import pytest

from tests.browser import get_browser


def executable(path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def empty_path(tmp_path, monkeypatch):
    """A PATH with nothing on it, and no browser of Playwright's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(get_browser, "playwrights_own", lambda: str(tmp_path / "absent"))
    return tmp_path


def test_a_stub_on_the_path_is_passed_over(empty_path):
    executable(empty_path / "chromium", "exit 1")
    assert get_browser.find_browser() is None
    works = executable(empty_path / "google-chrome", "exit 0")
    assert get_browser.find_browser() == works


def test_playwrights_own_is_taken_where_the_path_has_none(empty_path, monkeypatch):
    own = executable(empty_path / "own", "exit 0")
    monkeypatch.setattr(get_browser, "playwrights_own", lambda: own)
    assert get_browser.find_browser() == own


def test_ways_are_tried_until_one_gives_a_browser(empty_path, monkeypatch):
    wanted = empty_path / "chromium"
    copy = executable(empty_path / "copy", "exit 0")
    ways = [
        [executable(empty_path / "fails", "exit 1")],
        [shutil.which("cp", path=os.defpath) or "/bin/cp", copy, str(wanted)],
        [executable(empty_path / "never", f': > "{empty_path}/reached"')],
    ]
    monkeypatch.setattr(get_browser, "ways_to_fetch", lambda: iter(ways))
    assert get_browser.fetch_browser() == str(wanted)
    assert not (empty_path / "reached").exists()


def test_system_packages_are_left_alone_without_the_right_to_them(empty_path, monkeypatch):
    executable(empty_path / "apt-get", "exit 0")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert [way[-2:] for way in get_browser.ways_to_fetch()] == [["install", "chromium"]]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert [way[-1] for way in get_browser.ways_to_fetch()] == [
        "chromium",
        "update",
        "chromium-headless-shell",
        "chromium",
    ]
