"""A server behind a stranger's nginx, below a path, as Chromium meets it.

Words from outside stay words, a blip of the network is no end, and nothing of an uploaded file is
in a log, a temporary file or a cache on disk.
"""

import csv
import io
import os
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from pages.ui.classroom import __main__ as classroom
from pages.ui.classroom.room import Room
from tests.browser.app_server import START
from tests.browser.conftest import BEEN_HERE, PATIENCE, chromium
from tests.browser.lesson_steps import COMPILED
from tests.browser.test_your_data import at_rest, downloaded, upload
from tests.security.test_words import LINK, OWN

NGINX = classroom.find_nginx()
pytestmark = pytest.mark.skipif(
    NGINX is None, reason="nginx is not on this machine: apt-get install nginx"
)

BASE = "/lab"
PROXY = """
pid {folder}/nginx.pid;
error_log stderr crit;
events {{}}
http {{
  access_log off;
  large_client_header_buffers 4 64k;  # of a link that is all hostile words
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  map $http_upgrade $connection_header {{ default upgrade; "" ""; }}
  server {{
    listen 127.0.0.1:{port};
    location {base}/ {{
      proxy_pass http://127.0.0.1:{inner};
      proxy_http_version 1.1;
      proxy_set_header Upgrade $http_upgrade;
      proxy_set_header Connection $connection_header;
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-Proto https;
      proxy_request_buffering off;
      client_max_body_size 1000m;
    }}
  }}
}}
"""
"""As the README asks of a proxy; that it speaks https is what it says, and what cookies follow."""

WATCHED = """
import os, sys, weakref
written, fitted = set(), []
def note(event, args):
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR):
        written.add(str(args[0]))
sys.addaudithook(note)
from streamlit import config
config.set_option("server.baseUrlPath", "lab")  # before its command line is read
from dgp_core.live import run, trial
from pages.ui.classroom import metrics
from tests.core.runs import by_chance
run.train_chunk = trial.train_chunk = by_chance
from pages.ui import session_end
session_end.LEFT_SECONDS, session_end.LEFT_LOOK_SECONDS = 8.0, 1.0
begin = trial.Trial.__init__
def noted(self, workshop, dataset, *args, **options):
    begin(self, workshop, dataset, *args, **options)
    fitted.extend(map(weakref.ref, (self, dataset, dataset.X)))
trial.Trial.__init__ = noted
numbers = metrics.metrics
def with_paths(own):
    paths = "".join(f"# written {path}\\n" for path in sorted(written))
    alive = [ref() is not None for ref in fitted]
    return numbers(own) + paths + f"# fitted {len(alive)}, of which {sum(alive)} are held\\n"
metrics.metrics = with_paths
"""
"""Every file that is opened for writing is named, and what of fits is still in memory; models move
by chance."""

WORDS = {
    "evilbold": "<b class=evil>evilbold</b>",
    "evillink": "[evillink](https://evil.test/)",
    "evilmath": "$evilmath$",
    "evilcode": "`evilcode`",
    "evilred": ":red[evilred]",
}
HOSTILE = " ".join(WORDS.values()) + ' <img src=//evil.test/p.png onerror="window.evil=1">'
FILE = "<b class=evil>evilbold [evillink](evil.test) $evilmath$ `evilcode`"
NEEDLE = "needle_5180339887"
NUMBER = "51803.39887"

FIND = """words => {
  const bad = [], roots = [document];
  while (roots.length) {
    const root = roots.pop();
    for (const one of root.querySelectorAll('*')) {
      if (one.shadowRoot) roots.push(one.shadowRoot);
      if (one.matches('.evil, [onerror]') ||
          ['href', 'src'].some(n => /^(https?:)?[/][/]evil/.test(one.getAttribute(n) ?? '')))
        bad.push(one.outerHTML.slice(0, 300));
    }
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const { data, parentNode } = texts.currentNode;
      if (parentNode.closest?.('style, script')) continue;
      const around = parentNode.textContent.replaceAll('\u2060', '');
      for (const [word, spelt] of Object.entries(words))
        if (data.includes(word) && !around.includes(spelt.slice(0, spelt.indexOf(word)) + word))
          bad.push(`${word} in: ${parentNode.outerHTML?.slice(0, 300)}`);
    }
  }
  if (window.evil) bad.push('a script ran');
  return bad;
}"""
"""What of the hostile words has become markup, in the page and in every shadow root."""


class Lab(NamedTuple):
    url: str
    folder: Path
    """Its temporary files and caches, and its log."""

    def numbers(self) -> str:
        with urllib.request.urlopen(f"{self.url}/metrics") as answer:
            return answer.read().decode()


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    inner, port = classroom.free_ports(2)
    folder.chmod(0o711)
    (folder / "nginx.conf").write_text(
        PROXY.format(folder=folder, base=BASE, inner=inner, port=port)
    )
    room = Room(f"http://127.0.0.1:{port}{BASE}/")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classroom, "STREAMLIT", (sys.executable, "-c", WATCHED + START))
        app = classroom.streamlit(room, "127.0.0.1", inner)
    (folder / "tmp").mkdir()
    app.environment |= {"TMPDIR": str(folder / "tmp"), "XDG_CACHE_HOME": str(folder / "cache"),
                        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
                        "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
    app.log = folder / "log.txt"
    command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"]
    front = classroom.Process("nginx", [*command, "-g", "daemon off;"], {}, folder / "nginx.txt")
    try:
        for process in (app, front):
            process.start()
        classroom._until_all_answer(room, port, [app, front])
        yield Lab(room.address.rstrip("/"), folder)
    finally:
        for process in (app, front):
            process.stop()
        for process in (app, front):
            process.wait(time.monotonic() + 20)


@pytest.fixture(scope="module")
def page(lab) -> Iterator[Page]:
    """One tab, which asks nobody else for anything."""
    with chromium() as browser:
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.set_default_timeout(PATIENCE)
        context.add_init_script(BEEN_HERE)
        context.add_init_script(
            "window.sockets = []; window.WebSocket = class extends WebSocket {"
            " constructor(...all) { super(...all); window.sockets.push(this); } };"
        )
        page, asked = context.new_page(), []
        page.on("request", lambda request: asked.append(request.url))
        yield page
        context.close()
        ours = (lab.url, "data:", "blob:")
        assert [url for url in asked if not url.startswith(ours)] == []


def unharmed(page: Page, said: str = "") -> None:
    """No hostile word has become markup; `said` is one that must be there to read."""
    if said:
        expect(page.get_by_text(said).first).to_be_visible()
    assert page.evaluate(FIND, WORDS) == []


def until_moving(page: Page) -> None:
    page.wait_for_function("() => window.dgpStage?.frames > 0")
    seen = page.evaluate("dgpStage.frames")
    page.wait_for_function("seen => dgpStage.frames > seen + 1", arg=seen)


def test_below_a_path_behind_a_proxy_the_socket_s_frames_come(lab, page):
    answer = page.goto(lab.url + "/?data=step&inducing=5&layers=1")
    until_moving(page)
    made = {cookie["name"]: cookie for cookie in page.context.cookies(lab.url)}["dgp_browser"]
    assert made["httpOnly"] and made["sameSite"] == "Lax" and made["secure"]
    assert "dgp_browser" not in page.evaluate("document.cookie")
    headers = answer.headers
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "same-origin"
    frames = [one for one in page.evaluate("sockets.map(s => s.url)") if "/stage/" in one]
    assert frames and all(one.startswith(f"ws{lab.url[4:]}/stage/") for one in frames)


@pytest.mark.parametrize("path", ["", "collection", "why_deep"])
def test_words_of_a_link_stay_words(lab, page, path):
    query = dict.fromkeys((*LINK, *OWN), HOSTILE)
    page.goto(f"{lab.url}/{path}?{urlencode(query)}")
    at_rest(page)
    unharmed(page, "" if path else "evillink")


def table(classes: tuple[str, str]) -> bytes:
    rng, file = np.random.default_rng(0), io.StringIO()
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow([f"{NEEDLE} {HOSTILE}", f"kind {HOSTILE}", f"class {HOSTILE}"])
    for i, x in enumerate(rng.normal(size=60)):
        lines.writerow([NUMBER if i == 7 else f"{x:.4f}", classes[i % 2], classes[int(x > 0)]])
    return file.getvalue().encode()


def test_words_of_a_file_and_a_model_stay_words(lab, page, tmp_path):
    """From a file to its fit, its explanation and its model, each with a hostile name."""
    page.goto(f"{lab.url}/your_data")
    expect(page.get_by_role("heading", name="1 · Bring")).to_be_visible()
    rows = "".join(f"{NUMBER},{i}\n" for i in range(90_000))  # more than a megabyte
    upload(page, 0, "large.csv", f"{NEEDLE},y\n{rows}".encode())
    expect(page.get_by_text("large.csv: 90,000 rows")).to_be_visible()
    upload(page, 0, f"{FILE}.csv", table((f"yes {HOSTILE}", f"no {HOSTILE}")))
    expect(page.get_by_text("60 rows").first).to_be_visible()
    at_rest(page)
    unharmed(page, "evilbold")
    page.get_by_text("Change the plan").click()
    points = page.get_by_role("spinbutton", name="Inducing points")
    points.fill("8")
    points.press("Enter")
    page.get_by_role("slider", name="Steps").press("Home")
    expect(page.get_by_text("10 steps.")).to_be_visible()
    page.get_by_role("slider", name="Folds").press("Home")
    expect(page.get_by_text("judged by one row in ten")).to_be_visible()
    page.get_by_role("button", name="Fit", exact=True).click()
    expect(page.locator(".st-key-verdict")).not_to_be_empty(timeout=COMPILED)
    page.locator(".st-key-stop").wait_for(state="detached", timeout=COMPILED)
    at_rest(page)
    unharmed(page, "evilbold")

    # The network is lost for a moment: Streamlit's socket comes back to the same session.
    before = page.evaluate("() => { sockets.forEach(s => s.close()); return sockets.length; }")
    page.wait_for_function("n => sockets.slice(n).some(s => s.readyState === 1)", arg=before)
    at_rest(page)
    expect(page.locator(".st-key-verdict")).not_to_be_empty()
    model = downloaded(page, "Model (.npz)", tmp_path).read_bytes()
    page.get_by_role("radio", name="A model that I saved").click()
    expect(page.get_by_text("A model file (.npz)")).to_be_visible()
    upload(page, 0, f"{FILE}.npz", model)
    expect(page.get_by_text("is open: step 5 below")).to_be_visible()
    at_rest(page)
    unharmed(page, "evilbold")


def test_nothing_of_the_file_was_written_anywhere(lab):
    """Every file that was opened for writing is one that we know, and none holds the needle."""
    written = re.findall(r"# written (.+)", lab.numbers())
    written = [path for path in written if not path.isdecimal()]  # a number is an open pipe's
    ours = (str(lab.folder), str(classroom.ROOT / "static"), "/dev/null", os.devnull)
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", "none")
    assert [path for path in written if not path.startswith((*ours, cache))] == []
    assert [path for path in written if path.startswith(str(lab.folder / "tmp"))] == []
    for path in lab.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert NEEDLE.encode() not in content and NUMBER.encode() not in content, path
            assert np.float64(NUMBER).tobytes() not in content, path
    log = (lab.folder / "log.txt").read_text()
    assert "evil" not in log and "Traceback" not in log


def test_the_rows_of_a_fit_go_with_their_tab(lab, page):
    """A fit, a blip of the network and a download later; a visit that is over holds nothing."""
    page.close()
    deadline = time.monotonic() + PATIENCE / 1000
    while not (held := re.search(r"# fitted (\d+), of which (\d+)", lab.numbers())) or int(held[2]):
        assert time.monotonic() < deadline, held
        time.sleep(0.2)
    assert int(held[1]) >= 3
