"""The app, served by a process of its own for as long as it is wanted."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
START_SECONDS = 120
START = """
import time
from functools import partial
from dgp_core.evaluation import boosting
from dgp_core.live import workshop
from dgp_core.live.run import Run
workshop.IDLE_SECONDS = 6.0
boosting._trees = partial(boosting._trees, max_iter=10)
from pages.ui import startup
from pages.ui.choices import STEPS
from pages.ui.stage import server
server.FRAME_SECONDS = 0.2
advance = Run.advance
def sparing(run):
    began = time.monotonic()
    advance(run)
    if run.train.steps == STEPS:
        run._due = max(run._due, time.monotonic() + 3 * (time.monotonic() - began))
Run.advance = sparing
startup.wanted = tuple
from streamlit.web.cli import main
main(prog_name="streamlit")
"""


@contextmanager
def served(for_tests: bool = False, log: Path | None = None) -> Iterator[tuple[str, int]]:
    """The address of a server that nobody has visited, and its process; its cache is empty.

    For tests, the cache is the user's own and only what is needed is compiled, half as many frames
    keep the browser busy, runs that nobody watches any more stop after 6 seconds, not 30, and those
    that somebody watches train for a quarter of the time: they would take the cores of other tests.
    Gradient boosting has 10 trees, not 100, for every quantile of every fold.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command, environment = [sys.executable, "-m", "streamlit"], dict(os.environ)
    if for_tests:  # which share what they compile: see tests/conftest.py
        command, environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = [sys.executable, "-c", START], "1"
    else:
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as in the Makefile
    command += ["run", "app.py", "--server.headless=true", f"--server.port={port}"]
    command += ["--server.address=127.0.0.1", "--server.fileWatcherType=none"]
    with TemporaryDirectory() as folder:
        if not for_tests:
            environment["XDG_CACHE_HOME"] = folder
        log = log or Path(folder) / "log.txt"
        with log.open("w") as out:
            server = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=out, stderr=subprocess.STDOUT
            )
        try:
            _wait_until_healthy(server, url, log)
            yield url, server.pid
        finally:
            server.terminate()
            try:
                server.wait(timeout=20)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def health(url: str) -> float | None:
    """Seconds until the server says that it is well; None where it does not answer."""
    began = time.perf_counter()
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=10) as answer:
            return time.perf_counter() - began if answer.status == 200 else None
    except OSError:
        return None


def _wait_until_healthy(server: subprocess.Popen, url: str, log: Path) -> None:
    """Returns when the server answers; fails with its own words when it ends or stays silent."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if health(url) is not None:
            return
        if server.poll() is not None:
            raise RuntimeError(f"The app's server ended: {log.read_text()}")
        time.sleep(0.05)
    raise RuntimeError(f"The app's server gave no answer in {START_SECONDS} s: {log.read_text()}")
