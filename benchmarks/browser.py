"""The playground as a browser sees it, and a classroom that watches.

    python -m benchmarks.browser [--seconds 10] [--json FILE]

A server of its own, Chromium with a fresh profile at 1440×900.
The class is made of protocol clients: each opens a Streamlit session as a browser would, finds the
token of its socket, and answers every frame at once.
"""

import argparse
import re
import statistics
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

import numpy as np
import orjson
import pyarrow as pa
from playwright.sync_api import Browser, Page, sync_playwright
from pyarrow import csv
from streamlit.proto.BackMsg_pb2 import BackMsg
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from benchmarks.report import print_table, write_rows
from datasets.toys import FIRST_POINTS
from dgp_core.live.workshop import IDLE_SECONDS
from tests.browser.app_server import ROOT, health, served
from tests.browser.conftest import FLAGS
from tests.browser.get_browser import find_browser

PATIENCE = 180_000
DRAWN = "document.querySelector('[data-name=\"main/deep\"]')?.dataset.drawn"
STEP = (
    "() => Number(/^step ([\\d,]+)/.exec(document.querySelector('[data-name=\"main/numbers\"]')"
    "?.textContent.trim() ?? '')?.[1].replaceAll(',', '') ?? -1)"
)
"""The step of the run itself that is shown; of a film, which says that it is a recording, -1."""
FOUR = ("main/deep", "main/rival", "main/bound", "main/layer_0")


def row(what: str, value: float, unit: str, aim: str) -> dict:
    print(f"{what}: {value:.3g} {unit}", flush=True)
    return {"what": what, "value": round(value, 3), "unit": unit, "aim": aim}


def rest() -> None:
    """Waits until what nobody watches any more has come to its pause."""
    time.sleep(IDLE_SECONDS + 2)


# One browser.


# The page keeps the time itself, at the frame after the one in which a picture appeared: a page
# that is busy with the rest answers nobody for a second or two, while the picture is there to see.
LOOK = """
window.looks = {};
const look = () => {
  const { looks } = window, { drawn, moved, own } = looks;
  const now = (performance.timeOrigin + performance.now()) / 1000;
  const pictures = [...document.querySelectorAll(
    '.early-picture[data-drawn], .stage-host[data-drawn]')];
  for (const name of ['drawn', 'moved', 'own']) if (looks[name] === 0) looks[name] = now;
  if (pictures.length && drawn === undefined)
    Object.assign(looks, { drawn: 0, live: pictures[0].dataset.kind === 'picture' });
  if (own === undefined && pictures.some(one => one.matches('.stage-host'))) looks.own = 0;
  if (pictures.some(one => one.dataset.drawn > 1) && moved === undefined) looks.moved = 0;
  requestAnimationFrame(look);
};
look();
"""


def first_picture(page: Page, url: str, moves: bool = False) -> dict:
    """Seconds until a picture is drawn, until it moves, and until the page itself has drawn one.

    The first may be of early.js, which shows the page's film before Streamlit has started.
    """
    page.add_init_script(LOOK)
    began = time.time()
    page.goto(url, wait_until="commit")
    names = ("drawn", "moved", "own") if moves else ("drawn", "own")
    for name in names:
        page.wait_for_function(f"() => window.looks?.{name} > 0", timeout=PATIENCE, polling=10)
    looks = page.evaluate("() => window.looks")
    return looks | {name: looks[name] - began for name in names}


def training(page: Page) -> None:
    """Waits until the run itself is shown."""
    page.wait_for_function(f"() => ({STEP})() > 0", timeout=PATIENCE)
    page.get_by_text("Training.").wait_for(timeout=PATIENCE)


def one_browser(browser: Browser, url: str, seconds: float) -> list[dict]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    opened, seen = time.perf_counter(), first_picture(page, url, moves=True)
    rows = [
        row("first picture, fresh server and profile", seen["drawn"], "s", "< 3"),
        row("… until it has moved", seen["moved"], "s", "< 3"),
        row("… until the page itself draws it", seen["own"], "s", ""),
    ]
    training(page)
    rows.append(row("… until the run itself is shown", time.perf_counter() - opened, "s", ""))
    page.close()
    rest()
    page = context.new_page()
    seen = first_picture(page, url)
    rows.append(row("first picture, warm", seen["drawn"], "s", "< 1.5"))
    rows.append(row("… until the page itself draws it", seen["own"], "s", ""))
    page.close()
    rest()

    page = context.new_page()
    first_picture(page, url + "/?data=chirp")
    training(page)
    rows += frames(page, seconds)
    rows += zoom(page)
    rows += pause(page)
    rows += slider(page)
    rows += click_answers(page, url)
    context.close()
    return rows


def frames(page: Page, seconds: float) -> list[dict]:
    """How often each of four pictures is drawn, and whether one is ever blank or faded."""
    page.evaluate(
        """() => {
          window.seen = 0; window.faded = 0;
          const look = () => {
            const drawn = '.stage-host[data-kind=picture][data-drawn]';
            for (const chart of document.querySelectorAll(drawn)) {
              window.seen += 1;
              let worst = chart.querySelector('.main-svg, canvas') ? 1 : 0;
              for (let e = chart; e; e = e.parentElement)
                worst = Math.min(worst, Number(getComputedStyle(e).opacity));
              if (worst < 1) window.faded += 1;
            }
            window.looking = requestAnimationFrame(look);
          };
          look();
        }"""
    )

    def drawn() -> list[int]:
        return page.evaluate(
            'names => names.map(n => Number(document.querySelector(`[data-name="${n}"]`)'
            ".dataset.drawn ?? 0))",
            list(FOUR),
        )

    before, began = drawn(), time.perf_counter()
    page.wait_for_timeout(1000 * seconds)
    taken, after = time.perf_counter() - began, drawn()
    rates = [(b - a) / taken for a, b in zip(before, after, strict=True)]
    seen, faded = page.evaluate(
        "() => { cancelAnimationFrame(window.looking); return [window.seen, window.faded]; }"
    )
    return [
        row("frames of both predictions", min(rates[:2]), "1/s", "≥ 6"),
        row("frames of the least drawn of four pictures", min(rates), "1/s", "≥ 6"),
        row(f"blank or faded, of {seen} looks", faded, "", "0"),
    ]


def zoom(page: Page) -> list[dict]:
    """Whether a zoom is still there after a hundred updates."""
    box = page.locator('[data-name="main/deep"] .nsewdrag').first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.6 * box["height"], steps=6)
    page.mouse.up()
    ranges = "() => document.querySelector('[data-name=\"main/deep\"]').layout.xaxis.range.slice()"
    page.wait_for_timeout(500)
    before = page.evaluate(ranges)
    target = page.evaluate(f"Number({DRAWN})") + 100
    page.wait_for_function(f"n => Number({DRAWN}) >= n", arg=target, timeout=PATIENCE)
    kept = page.evaluate(ranges) == before
    return [row("zoom kept across 100 updates", float(kept), "", "1")]


def pause(page: Page) -> list[dict]:
    """From a click on Pause to the button that says Play, five times."""
    waits = []
    for _ in range(5):
        page.get_by_role("button", name="Pause").wait_for()
        waits.append(
            page.evaluate(
                """() => new Promise(done => {
                  const button = [...document.querySelectorAll('button')]
                    .find(b => b.innerText.includes('Pause'));
                  const began = performance.now();
                  button.click();
                  const look = () => [...document.querySelectorAll('button')]
                    .some(b => b.innerText.includes('Play'))
                    ? done(performance.now() - began) : setTimeout(look, 2);
                  look();
                })"""
            )
        )
        page.get_by_role("button", name="Play").click()
    return [
        row("play → pause answers, median of five", statistics.median(waits), "ms", "< 200"),
        row("play → pause answers, slowest of five", max(waits), "ms", "< 200"),
    ]


# Milliseconds until a picture is drawn of a run of so many layers, as the words beside it say.
NEW_PICTURE = f"""layers => {{
  const began = performance.now(), text = name =>
    document.querySelector(`[data-name="main/${{name}}"]`)?.textContent ?? '';
  window.waited = 0;
  const look = new MutationObserver(changes => {{
    if (!changes.some(({{ target }}) => target.dataset.name === 'main/deep')) return;
    if (!text('layer_0_title').includes(`of ${{layers}}`) || ({STEP})() < 0) return;
    window.waited = performance.now() - began;
    look.disconnect();
  }});
  look.observe(document, {{ subtree: true, attributeFilter: ['data-drawn'] }});
}}"""


def slider(page: Page) -> list[dict]:
    """From a depth that is known already to the new model's first picture."""
    waits = []
    training(page)
    for key, layers in (("ArrowRight", 3), ("ArrowLeft", 2), ("ArrowRight", 3), ("ArrowLeft", 2)):
        page.get_by_role("slider", name="Depth").focus()
        page.evaluate(NEW_PICTURE, layers)
        page.keyboard.press(key)
        page.wait_for_function("() => window.waited", timeout=PATIENCE)
        waits.append(page.evaluate("window.waited") / 1000)
        training(page)
    return [
        row("slider → new model's picture, known shape", max(waits[1:]), "s", "< 1"),
        row("slider → new model's picture, first time", waits[0], "s", ""),
    ]


# Milliseconds from a click to the frame after the one in which a further point is there.
NEW_POINT = """() => {
  const points = () => document.querySelectorAll('[data-name="main/deep"] .stage-mark-put').length
    + (document.querySelector('[data-name="main/deep"]')._fullData
      .find(one => one.name === 'data')?.x.length ?? 0);
  window.answered = 0;
  addEventListener('pointerdown', () => {
    const began = performance.now(), before = points();
    const look = () => points() > before
      ? requestAnimationFrame(() => (window.answered = performance.now() - began))
      : requestAnimationFrame(look);
    look();
  }, { capture: true, once: true });
}"""


def click_answers(page: Page, url: str) -> list[dict]:
    """From a click in one's own data to the point that it puts down; and how many were lost."""
    page.goto(url + "/?data=drawn")
    training(page)
    page.wait_for_function(
        "() => document.querySelector('[data-name=\"main/deep\"] .nsewdrag')", timeout=PATIENCE
    )
    box = page.locator('[data-name="main/deep"] .nsewdrag').first.bounding_box()
    assert box is not None
    taken = "() => new URL(location).searchParams.get('points')?.split('~').length ?? 0"
    waits = []
    for i in range(10):
        page.evaluate(NEW_POINT)
        page.mouse.click(
            box["x"] + (0.08 + 0.085 * i) * box["width"], box["y"] + 0.1 * box["height"]
        )
        page.wait_for_function("() => window.answered", timeout=PATIENCE, polling=10)
        waits.append(page.evaluate("window.answered"))
    training(page)
    page.wait_for_function("() => dgpStage.taken === dgpStage.serial", timeout=PATIENCE)
    page.wait_for_function(f"() => ({taken})() > 0", timeout=PATIENCE)
    lost = len(FIRST_POINTS) + len(waits) - page.evaluate(taken)
    return [
        row("click → its point is seen, slowest of ten", max(waits), "ms", "< 150"),
        row("points lost, of ten clicks", lost, "", "0"),
    ]


# The lessons.


def lessons(browser: Browser, url: str) -> list[dict]:
    """Seconds until each lesson's first picture, and until it moves if it is of a run."""
    rows = []
    for path in sorted((ROOT / "pages" / "learn").glob("*.py")):
        if path.stem == "glossary":
            continue
        rest()
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        seen = first_picture(context.new_page(), f"{url}/{path.stem}", moves=True)
        rows.append(row(f"lesson {path.stem}", seen["drawn"], "s", "< 3"))
        if seen["live"]:
            rows.append(row("… until it has moved", seen["moved"], "s", "< 3"))
        context.close()
    return rows


# A large file beside a playground.


def held(pid: int, which: Literal["VmRSS", "VmHWM"] = "VmRSS") -> float:
    """Megabytes that a process holds now, or held at its peak; NaN where the system is mute."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(rf"{which}:\s+(\d+)", status.read_text()) if status.exists() else None
    return int(found.group(1)) / 1024 if found else float("nan")


class Peak(threading.Thread):
    """The most that a process holds while this goes on, looked at many times a second."""

    def __init__(self, pid: int):
        super().__init__(daemon=True)
        self.pid, self.most, self.over = pid, held(pid), threading.Event()
        self.start()

    def run(self) -> None:
        while not self.over.wait(0.05):
            self.most = max(self.most, held(self.pid))


def a_million(
    browser: Browser, url: str, pid: int, folder: Path, seconds: float, columns: int
) -> list[dict]:
    """Frames of one session's playground while another session fits a million rows."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1_000_000, columns)).round(4)
    y = (np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(len(X))).round(4)
    path = folder / "million.csv"
    csv.write_csv(pa.table({**{f"x{d}": X[:, d] for d in range(columns)}, "y": y}), path)
    data_mb, named = (X.nbytes + y.nbytes) / 2**20, f"1M × {columns} rows"
    del X, y

    player = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    first_picture(player, url + "/?data=chirp&speed=100")
    training(player)

    def rate() -> float:
        before, began = player.evaluate(f"Number({DRAWN})"), time.perf_counter()
        player.wait_for_timeout(1000 * seconds)
        drawn = player.evaluate(f"Number({DRAWN})") - before
        return drawn / (time.perf_counter() - began)

    alone, before = rate(), held(pid)
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url + "/your_data")
    page.get_by_role("heading", name="1 · Bring").wait_for()
    peak, began = Peak(pid), time.perf_counter()
    page.locator("input[type=file]").first.set_input_files(path)
    page.get_by_role("heading", name="2 · Fit").wait_for()
    brought = time.perf_counter() - began
    page.get_by_role("button", name="Fit", exact=True).click()
    page.wait_for_function(
        "() => Number(document.querySelector('[data-name=\"fit/deep\"]')?.dataset.drawn) > 1",
        timeout=PATIENCE,
    )
    beside = rate()
    peak.over.set()
    for one in (page, player):
        one.context.close()
    rest()
    return [
        row(f"{named}: from the upload to the proposed fit", brought, "s", ""),
        row(
            f"{named}: memory at its peak from the upload to the fit, of the data",
            (peak.most - before) / data_mb,
            "×",
            "< 4",
        ),
        row(f"{named}: frames kept by a playground beside", 100 * beside / alone, "%", "≥ 70"),
    ]


# A class.


class Student(threading.Thread):
    """A protocol client: a Streamlit session, and the socket of its frames."""

    def __init__(self, url: str, query: str):
        super().__init__(daemon=True)
        self.address, self.url, self.query = url, url.replace("http", "ws"), query
        self.origin = Origin(url)
        self.headers: dict[str, str] = {}
        """Beside those of any socket: a cookie."""
        self.session: ClientConnection | None = None
        self.token = self.run_id = self.phase = ""
        self.frames: list[float] = []
        self.step = 0
        self.came = self.started = self.live = 0.0
        """When it came, when the page's script had started its run, and when it saw that train."""
        self.answered = threading.Event()
        self.ready = threading.Event()
        self.over = threading.Event()

    def ask(self, message: BackMsg) -> None:
        """Runs the page's script."""
        assert self.session is not None
        message.rerun_script.query_string = self.query
        self.session.send(message.SerializeToString())

    def hear(self, message: bytes) -> None:
        """What the page's script said: the token of the frames' socket, and the run."""
        if found := re.search(rb'"token":\s*"([\w-]{16,})"', message):
            self.token = found.group(1).decode()
        if found := re.search(rb"run=([\w-]{16,})", message):
            self.run_id = found.group(1).decode()
        if self.token and self.run_id:
            self.answered.set()

    def look(self, elements: dict) -> None:
        """What a frame says of the run: its step and phase."""
        self.phase = elements.get("main/state", {}).get("phase", self.phase)
        if "main/numbers" in elements:
            found = re.search(r"^step \*\*([\d,]+)", elements["main/numbers"]["text"])
            self.step = int(found.group(1).replace(",", "")) if found else 0
        if self.step > 0 and self.phase in ("training", "paused", "finished"):
            self.live = self.live or time.perf_counter()

    def run(self) -> None:
        self.came = time.perf_counter()
        with (
            suppress(ConnectionClosed),
            connect(
                f"{self.url}/_stcore/stream",
                subprotocols=[Subprotocol("streamlit")],
                origin=self.origin,
                additional_headers=self.headers,
                max_size=None,
                open_timeout=PATIENCE / 1000,
                ping_interval=None,
            ) as self.session,
        ):
            self.ask(BackMsg())
            reader = threading.Thread(target=self._read, args=(self.session,), daemon=True)
            reader.start()
            while not self.answered.wait(1):
                if self.over.is_set():
                    return
            self.started = time.perf_counter()
            self._watch()

    def _watch(self) -> None:
        with connect(
            f"{self.url}/stage/{self.token}",
            origin=self.origin,
            additional_headers=self.headers,
            max_size=None,
            open_timeout=PATIENCE / 1000,
            ping_interval=None,
        ) as frames:
            self.ready.set()
            while not self.over.is_set():
                try:
                    frame = orjson.loads(frames.recv(timeout=1))
                except TimeoutError:
                    continue
                self.frames.append(time.perf_counter())
                seen = {"drawn": frame["n"], "seen": len(self.frames)}
                frames.send(orjson.dumps(seen).decode())
                self.look(frame["elements"])

    def _read(self, session: ClientConnection) -> None:
        with suppress(ConnectionClosed):
            while not self.over.is_set():
                with suppress(TimeoutError):
                    message = session.recv(timeout=1)
                    self.hear(message if isinstance(message, bytes) else message.encode())


def lesson(
    url: str, runs: int, watchers: int, seconds: float, paths: tuple[str, ...] = ("",)
) -> dict[str, float]:
    """So many runs, each watched by so many: frames a second, lag, and steps a second in all.

    `paths` are those of the processes, which have the runs in turn.
    """
    rest()
    owners = []
    for i in range(runs):
        student = Student(url + paths[i % len(paths)], f"data=chirp&seed={i}")
        student.start()
        if not student.ready.wait(60):
            raise RuntimeError("A session gave no token.")
        owners.append(student)
    others = [
        Student(owner.address, f"run={owner.run_id}")
        for owner in owners
        for _ in range(watchers - 1)
    ]
    for student in others:
        student.start()
    everybody = owners + others
    deadline = time.perf_counter() + PATIENCE / 1000
    while not all(s.ready.is_set() and s.step > 0 for s in everybody):
        if time.perf_counter() > deadline:
            raise RuntimeError("Not every student has seen a step.")
        time.sleep(0.05)
    lags: list[float] = []
    began, steps = time.perf_counter(), [owner.step for owner in owners]
    while time.perf_counter() - began < seconds:
        lags.append(health(url + paths[0]) or 10.0)
        time.sleep(0.1)
    taken = time.perf_counter() - began
    for student in everybody:
        student.over.set()
    counts = [sum(t > began for t in student.frames) / taken for student in everybody]
    return {
        "least": min(counts),
        "lag": 1000 * statistics.quantiles(lags, n=20)[-1],
        "steps": sum(o.step - s for o, s in zip(owners, steps, strict=True)) / taken,
    }


def a_class(url: str, seconds: float) -> list[dict]:
    alone, many, ten_alone, ten = (
        lesson(url, runs, watchers, seconds)
        for runs, watchers in ((1, 1), (1, 30), (10, 1), (10, 3))
    )
    return [
        row("30 watch one run: frames of the least served", many["least"], "1/s", "≥ 6"),
        row("30 watch one run: event loop's lag, 95 %", many["lag"], "ms", "< 100"),
        row("30 watch one run: training kept", 100 * many["steps"] / alone["steps"], "%", "≥ 80"),
        row("10 runs, 3 watch each: frames of the least", ten["least"], "1/s", "≥ 2"),
        row("10 runs, 3 watch each: event loop's lag, 95 %", ten["lag"], "ms", "< 100"),
        row(
            "10 runs, 3 watch each: training kept",
            100 * ten["steps"] / ten_alone["steps"],
            "%",
            "≥ 80",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    path = find_browser()
    if path is None:
        raise SystemExit("No Chromium was found: run python tests/browser/get_browser.py once.")
    with tempfile.TemporaryDirectory() as folder, served() as (url, pid):
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
            rows = one_browser(browser, url, arguments.seconds)
            rows += lessons(browser, url)
            for columns in (10, 50):
                rows += a_million(browser, url, pid, Path(folder), arguments.seconds, columns)
            browser.close()
        rows += a_class(url, arguments.seconds)
    print_table(rows)
    if arguments.json:
        write_rows(arguments.json, rows)


if __name__ == "__main__":
    main()
