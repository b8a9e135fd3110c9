"""Finds a Chromium for the browser tests; as a script, fetches one where there is none, and nginx
where the system's packages need no password."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = (
    "chromium-headless-shell",
    "chromium",
    "google-chrome",
    "google-chrome-stable",
    "chromium-browser",
    "chrome",
)
"""The first draws the same pages without the rest of a browser: tests take a tenth less time."""


def find_browser() -> str | None:
    """The path of a Chromium that starts: one on PATH, else Playwright's own."""
    on_path = [path for name in NAMES if (path := shutil.which(name))]
    return next((path for path in [*on_path, playwrights_own()] if starts(path)), None)


def playwrights_own() -> str:
    """Where Playwright puts the Chromium that it fetches, whether it has or not."""
    with sync_playwright() as playwright:
        return playwright.chromium.executable_path


def starts(path: str) -> bool:
    """Whether this is a browser and not a stub, with every library that it needs."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def ways_to_fetch() -> Iterator[list[str]]:
    """Commands to try in turn; those of the system's packages only where they need no password."""
    playwright = [sys.executable, "-m", "playwright"]
    yield [*playwright, "install", "chromium"]
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    if Path(playwrights_own()).exists():
        yield [*playwright, "install-deps", "chromium"]
    if shutil.which("apt-get"):
        yield ["apt-get", "update"]
        yield ["apt-get", "install", "-y", "chromium-headless-shell"]
        yield ["apt-get", "install", "-y", "chromium"]


def fetch_browser() -> str | None:
    """A browser by the first way that gives one that starts."""
    for way in ways_to_fetch():
        print("Fetching a browser for the tests:", *way[-3:], flush=True)
        subprocess.run(way, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        if path := find_browser():
            return path
    return None


def fetch_nginx() -> None:
    """The tests of several processes need it, and are skipped where it cannot be had."""
    known = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
    if not known and shutil.which("apt-get") and os.geteuid() == 0:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for way in (["update"], ["install", "-y", "nginx"]):
            subprocess.run(["apt-get", *way], env=quiet)


if __name__ == "__main__":
    fetch_nginx()
    if not (find_browser() or fetch_browser()):
        sys.exit("No browser could be fetched: install Chromium or Google Chrome, then try again.")
