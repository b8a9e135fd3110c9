"""Finds a Chromium for the browser tests; as a script, fetches one where there is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "google-chrome", "google-chrome-stable", "chromium-browser", "chrome")


def find_browser() -> str | None:
    """The path of a Chromium that starts: one on PATH, else Playwright's own."""
    on_path = [path for name in NAMES if (path := shutil.which(name))]
    return next((path for path in on_path if starts(path)), None) or playwrights_own()


def playwrights_own() -> str | None:
    """The path of the Chromium that Playwright fetched, if it has and it starts."""
    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() and starts(path) else None


def starts(path: str) -> bool:
    """Whether this is a browser and not a stub, with every library that it needs."""
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def fetch_browser() -> str | None:
    """A browser by the first of these ways that gives one that starts."""
    playwright = [sys.executable, "-m", "playwright", "install"]
    ways = [[*playwright, "chromium"]]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        ways += [[*playwright, "--with-deps", "chromium"]]
        if shutil.which("apt-get"):
            ways += [["apt-get", "update"], ["apt-get", "install", "-y", "chromium"]]
    for way in ways:
        print("Fetching a browser for the tests:", *way[-3:], flush=True)
        subprocess.run(way, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
        if path := find_browser():
            return path
    return None


if __name__ == "__main__":
    if not (find_browser() or fetch_browser()):
        sys.exit("No browser could be fetched: install Chromium or Google Chrome, then try again.")
