"""How long a visitor waits for a live model, and what the server holds meanwhile.

    python -m benchmarks.waiting [--only fresh,warm,...] [--quick] [--before FILE] [--json FILE]

Each part has a server of its own, whose cache is empty; all but `fresh` and `memory` begin once it
has been up for two minutes. A model is live when a step of its own run is shown and it trains; a
film is not. What one visitor sees is measured in Chromium with a fresh profile, what many see by
protocol clients, which load no JavaScript: each opens a Streamlit session, finds the token of its
socket, and answers every frame at once. Every row is written as soon as it is measured, and a wait
is given up after 240 seconds. `--before` is the file of an earlier commit, on the same machine.
"""

import argparse
import json
import re
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import Browser, FilePayload, Page, sync_playwright
from playwright.sync_api import Error as BrowserError
from playwright.sync_api import TimeoutError as TooLate
from streamlit.proto.BackMsg_pb2 import BackMsg

from benchmarks.browser import STEP, Student, a_class, held, rest
from benchmarks.report import met, print_table, write_rows
from datasets.catalogue import entry, names
from pages.ui.choices import KERNELS, OFFERED, Choices
from tests.browser.app_server import ROOT, served
from tests.browser.conftest import FLAGS
from tests.browser.get_browser import find_browser

LONGEST = 240.0
"""Seconds after which a wait is given up."""
UP = 120.0
"""Seconds that a server has been up, except for those who come at its start."""
PAUSE_AT = 20
"""The step at which a visitor's run pauses, so that it does not train beside the next one's."""
RUNS = 200
"""Runs that are started and dropped, before memory is looked at again."""
FAR = (
    {"data": "step", "layers": 3, "inducing": 10, "kernels": "matern32"},
    {"data": "spiral", "layers": 4, "inducing": 50, "mean": "zero"},
    {"data": "concrete", "layers": 2, "inducing": 50, "kernels": "rational_quadratic"},
)
"""Choices that nobody makes first: one input, two, and a table."""
BESIDE = ("digits", "rectangles", "fashion_mnist", "nyc_flights")
"""Sets of images or of 20,000 rows: `warm` opens them one at a time."""


@dataclass
class Report:
    """Rows as they are measured, in the file at once."""

    quick: bool = False
    path: Path | None = None
    before: Sequence[dict] = ()
    """The rows of an earlier commit."""
    rows: list[dict] = field(default_factory=list)

    def add(
        self, name: str, what: str, value: float | None, unit: str, aim: str = "", detail: str = ""
    ) -> None:
        """A value against its aim, such as `≤ 10`; None is a wait that was given up."""
        measured = f"over {LONGEST:.0f} s"
        if value is not None:
            measured = f"{value:.0f} {unit}" if abs(value) >= 100 else f"{value:.3g} {unit}"
        self._keep(
            name=name,
            what=what,
            value=None if value is None else round(value, 3),
            unit=unit,
            measured=measured,
            aim=aim,
            met=met(value, aim),
            detail=detail,
        )

    def fail(self, name: str, why: str) -> None:
        """A part that ended before its time."""
        cells = {"value": None, "unit": "", "measured": "", "aim": ""}
        self._keep(name=name, what="could not be measured", **cells, met=False, detail=why)

    def _keep(self, **row: Any) -> None:
        self.rows.append(row)
        message = (f"{row['name']}: {row['what']}:", row["measured"], row["detail"])
        print(*filter(None, message), flush=True)
        if self.path is not None:
            write_rows(self.path, self.rows)

    def known(self, name: str, what: str) -> float | None:
        """What an earlier commit had for this."""
        found = [r["value"] for r in self.before if (r["name"], r["what"]) == (name, what)]
        return found[0] if found else None


def slowest(waits: dict[str, float | None]) -> tuple[float | None, str]:
    """The longest wait, None where one was given up, and in words whose it is."""
    given_up = [name for name, wait in waits.items() if wait is None]
    known = sorted(wait for wait in waits.values() if wait is not None)
    middle = f"median {statistics.median(known):.2f} s of {len(waits)}" if known else ""
    if given_up:
        return None, "; ".join(filter(None, (f"{', '.join(given_up)} not live", middle)))
    longest = max(waits, key=lambda name: waits[name] or 0.0)
    return waits[longest], f"{longest}; {middle}"


def link(choices: dict[str, Any]) -> str:
    """A share link's part after the question mark."""
    return urlencode({"v": 1, **choices})


def named(choices: dict[str, Any]) -> str:
    """Choices in a few words."""
    return " ".join(str(value) for value in choices.values())


def models(n: int) -> list[dict[str, Any]]:
    """As many different models, over small sets of one input, two, and more."""
    sets = [name for name in OFFERED["data"] if name not in BESIDE]
    return [
        {
            "data": sets[i % len(sets)],
            "layers": (3, 1, 4, 2, 5)[i % 5],
            "inducing": (10, 50, 25, 5, 100)[(i + i // 5) % 5],
            "kernels": KERNELS[i % len(KERNELS)],
            "mean": OFFERED["mean"][i % len(OFFERED["mean"])],
        }
        for i in range(n)
    ]


@contextmanager
def long_up(report: Report) -> Iterator[tuple[str, int]]:
    """A server that has been up for two minutes, or in a quick look for a few seconds."""
    with served() as (url, pid):
        time.sleep(15.0 if report.quick else UP)
        yield url, pid


# One browser.


# The page keeps the time itself, when it shows a step of the run and that it trains, and when
# Streamlit's own JavaScript is there and asks for the page.
FIRST_STEP = f"""
window.waited = {{ asked: 0, live: 0 }};
const now = () => (performance.timeOrigin + performance.now()) / 1000;
const Socket = window.WebSocket;
window.WebSocket = class extends Socket {{
  constructor(url, ...rest) {{
    super(url, ...rest);
    if (String(url).includes("_stcore/stream")) window.waited.asked ||= now();
  }}
}};
const look = () => {{
  const state = document.querySelector('[data-name="main/state"]')?.textContent ?? "";
  if (state.trim().startsWith("Training") && ({STEP})() > 0) window.waited.live = now();
  else requestAnimationFrame(look);
}};
look();
"""

# Milliseconds from the last key or press to the first step of another run than the one that is
# shown. That is another one once a film is shown, or step 0, or fewer steps or seconds than before.
ANOTHER = f"""() => {{
  let began = performance.now(), last = null, fell = false;
  const hand = () => {{ if (!fell) began = performance.now(); }};
  for (const kind of ["keydown", "pointerdown"]) document.addEventListener(kind, hand, true);
  window.switched = 0;
  const look = () => {{
    const text = name =>
      document.querySelector(`[data-name="main/${{name}}"]`)?.textContent.trim() ?? "";
    const step = ({STEP})(), words = text("numbers");
    const seconds = parseFloat(/([\\d.]+) s of training/.exec(words)?.[1] ?? 0);
    if (words) {{
      fell ||= step <= 0 || (last !== null && (step < last.step || seconds < last.seconds));
      last = {{ step, seconds }};
    }}
    if (fell && step > 0 && text("state").startsWith("Training")) {{
      window.switched = performance.now() - began;
      for (const kind of ["keydown", "pointerdown"]) document.removeEventListener(kind, hand, true);
    }} else requestAnimationFrame(look);
  }};
  look();
}}"""


TRAINED = """() => parseFloat(/([\\d.]+) s of training/.exec(
  document.querySelector('[data-name="main/numbers"]')?.textContent ?? "")?.[1] ?? 0) >= 2"""
"""Whether the run that is shown has trained for two seconds."""

# Steps of the run that is shown, over so many milliseconds or until it is over.
PACE = f"""milliseconds => new Promise(done => {{
  const step = {STEP}, began = performance.now(), first = step();
  const look = () => {{
    const steps = step() - first, seconds = (performance.now() - began) / 1000;
    const state = document.querySelector('[data-name="main/state"]').textContent.trim();
    if (1000 * seconds < milliseconds && state.startsWith("Training")) setTimeout(look, 20);
    else done({{ steps, seconds }});
  }};
  look();
}})"""

# Whether every picture in view is drawn, and no run has still to begin.
OPENED = """() => {
  const inView = box => {
    const { top, bottom, height } = box.getBoundingClientRect();
    return height > 0 && bottom > 0 && top < innerHeight;
  };
  const boxes = [...document.querySelectorAll(".stage-host")];
  return boxes.filter(box => box.dataset.kind === "picture" && inView(box))
      .every(box => box.dataset.drawn)
    && !boxes.some(box => /^(Queued|Compiling|Starting)/.test(box.textContent.trim()));
}"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser that has been started already."""
    path = find_browser()
    if path is None:
        raise SystemExit("No Chromium was found: run python tests/browser/get_browser.py once.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield browser
        browser.close()


@contextmanager
def a_page(browser: Browser) -> Iterator[Page]:
    """A page in a fresh profile."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.set_default_timeout(1000 * LONGEST)
    yield context.new_page()
    context.close()


def first_step(page: Page, url: str) -> tuple[float | None, float | None]:
    """Seconds to the first live step: from the navigation, and from Streamlit's own request."""
    page.add_init_script(FIRST_STEP)
    began = time.time()
    page.goto(url, wait_until="commit")
    try:
        page.wait_for_function("() => window.waited.live > 0", polling=20)
    except TooLate:
        return None, None
    waited = page.evaluate("() => window.waited")
    return waited["live"] - began, waited["live"] - waited["asked"]


def at_rest(page: Page) -> None:
    """Waits until the page's script has come to its end."""
    page.wait_for_function(
        "() => document.querySelector('[data-testid=stApp]')?.dataset.testScriptState"
        " === 'notRunning'"
    )


def fresh(report: Report) -> None:
    """One visitor at a server that was started a moment ago."""
    for choices in FAR[:1] if report.quick else FAR:
        with chromium() as browser:
            began = time.perf_counter()
            with served() as (url, _), a_page(browser) as page:
                up = time.perf_counter() - began
                whole, asked = first_step(page, f"{url}/?{link(choices)}")
                what = f"a moment after the start: {named(choices)}"
                detail = f"the server had answered after {up:.1f} s"
                if asked is not None:
                    detail = f"{asked:.1f} s of it after Streamlit's JavaScript; {detail}"
                report.add("fresh", what, whole, "s", "≤ 10", detail)


def choices_in_turn(quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Every value of each control, the others as they are at first."""
    every = {
        "depth": [{"layers": value} for value in OFFERED["layers"]],
        "number of inducing points": [{"inducing": value} for value in OFFERED["inducing"]],
        "kernel": [{"kernels": value} for value in KERNELS],
        "mean function": [{"mean": value} for value in OFFERED["mean"]],
        "toy": [{"data": value} for value in names("toy")],
        "shipped set": [{"data": value} for value in names("shipped")],
    }
    return {kind: some[1:2] if quick else some for kind, some in every.items()}


def warm(report: Report) -> None:
    """One visitor after another at a server that has been up: every value of every control."""
    everything: dict[str, float | None] = {}
    begun: dict[str, float | None] = {}
    with long_up(report) as (url, _):
        for kind, some in choices_in_turn(report.quick).items():
            waits: dict[str, float | None] = {}
            for choices in some:
                model = f"{kind} {named(choices)}"
                student = Student(url, link({**choices, "at": PAUSE_AT}))
                student.start()
                if wait_until(lambda one=student: one.live > 0):
                    wait_until(lambda one=student: one.phase == "paused")
                student.over.set()
                student.join()
                waits[model] = waited(student)
                begun[model] = student.live - student.started if student.live else None
            value, detail = slowest(waits)
            report.add("warm", f"every {kind}: slowest", value, "s", "≤ 1", detail)
            everything |= waits
        value, detail = slowest(begun)
        what = "slowest, from the run's start in the page's script"
        report.add("warm", what, value, "s", "", detail)
        known = [wait for wait in everything.values() if wait is not None]
        report.add("warm", "median of all", statistics.median(known) if known else None, "s", "≤ 1")
        with chromium() as browser:
            for choices in FAR[:1] if report.quick else FAR:
                rest()
                with a_page(browser) as page:
                    whole, asked = first_step(page, f"{url}/?{link(choices)}")
                what = f"in Chromium, once Streamlit's JavaScript is there: {named(choices)}"
                report.add("warm", what, asked, "s", "≤ 1")
                report.add("warm", "… from the navigation", whole, "s")


def switch(report: Report) -> None:
    """One visitor moves one control after another, and each time another run begins."""
    with long_up(report) as (url, _), chromium() as browser, a_page(browser) as page:
        if first_step(page, f"{url}/?{link({'data': 'step'})}")[0] is None:
            report.add("switch", "first run", None, "s", "≤ 0.5")
            return
        page.get_by_text("More of the model").click()
        for what, acts in switches(page, report.quick).items():
            waits = {name: switched(page, act) for name, act in acts.items()}
            value, detail = slowest(waits)
            report.add("switch", f"another {what}: slowest", value, "s", "≤ 0.5", detail)


def switches(page: Page, quick: bool) -> dict[str, dict[str, Callable[[], None]]]:
    """By what it changes: what each act gives, and the act; what was chosen first comes last."""

    def press(slider: str, key: str) -> Callable[[], None]:
        return lambda: page.get_by_role("slider", name=slider).press(key)

    def choose(box: str, option: str) -> Callable[[], None]:
        def act() -> None:
            page.get_by_role("combobox", name=box, exact=True).fill(option)
            page.get_by_role("option", name=option, exact=True).click()

        return act

    def offered(box: str) -> list[str]:
        page.get_by_role("combobox", name=box, exact=True).click()
        page.get_by_role("option").first.wait_for()
        words = page.get_by_role("option").all_inner_texts()
        page.keyboard.press("Escape")
        return words

    sliders = {
        "depth": ("Depth", "layers"),
        "number of inducing points": ("Inducing points", "inducing"),
    }
    every: dict[str, dict[str, Callable[[], None]]] = {}
    for what, (slider, name) in sliders.items():
        first = OFFERED[name].index(getattr(Choices(), name))
        above, below = OFFERED[name][first + 1 :], OFFERED[name][: first + 1]
        keys = [*("ArrowRight" for _ in above), "Home", *("ArrowRight" for _ in below[1:])]
        every[what] = {
            str(value): press(slider, key)
            for value, key in zip((*above, *below), keys, strict=True)
        }
    one_input = [entry(name).title for name in OFFERED["data"] if entry(name).D == 1]
    boxes = {
        "kernel": ("Kernel of layer 1", offered("Kernel of layer 1")),
        "mean function": (
            "Mean function of inner layers",
            offered("Mean function of inner layers"),
        ),
        "data set": ("Data set", one_input),
    }
    for what, (box, words) in boxes.items():
        every[what] = {word: choose(box, word) for word in (*words[1:], words[0])}
    return {what: dict(list(acts.items())[: 1 if quick else None]) for what, acts in every.items()}


def switched(page: Page, act: Callable[[], None]) -> float | None:
    """Seconds from an act of the hand to the first live step of the run that it starts."""
    try:
        at_rest(page)
        page.wait_for_function(TRAINED)
        page.evaluate(ANOTHER)
        act()
        page.wait_for_function("() => window.switched", polling=20)
    except TooLate:
        return None
    return page.evaluate("() => window.switched") / 1000


def alone(report: Report) -> None:
    """Steps a second of a run that one visitor watches, while nobody else is there."""
    what = "one run alone, step, L=2, M=25"
    with long_up(report) as (url, _), chromium() as browser, a_page(browser) as page:
        if first_step(page, f"{url}/?{link({'data': 'step'})}")[0] is None:
            report.add("alone", what, None, "steps/s")
            return
        page.wait_for_function(TRAINED)
        counts = page.evaluate(PACE, 1000 * (3.0 if report.quick else 10.0))
    before = report.known("alone", what)
    aim = f"≥ {0.8 * before:.0f}" if before else ""
    detail = f"before: {before:.0f}" if before else ""
    report.add("alone", what, counts["steps"] / counts["seconds"], "steps/s", aim, detail)


# Many visitors.


def wait_until(true: Callable[[], bool], seconds: float = LONGEST) -> bool:
    """Whether something came true in time."""
    deadline = time.perf_counter() + seconds
    while not true():
        if time.perf_counter() > deadline:
            return False
        time.sleep(0.01)
    return True


def waited(student: Student) -> float | None:
    """Seconds from a student's coming to the first live step; None where there is none."""
    return student.live - student.came if student.live else None


@contextmanager
def visitors(url: str, n: int) -> Iterator[dict[str, float | None]]:
    """So many who come at once, each to a model of its own, and how long each waits."""
    students = [Student(url, link(choices)) for choices in models(n)]
    for student in students:
        student.start()
    wait_until(lambda: all(student.live for student in students))
    yield {
        named(choices): waited(student)
        for choices, student in zip(models(n), students, strict=True)
    }
    for student in students:
        student.over.set()
    for student in students:
        student.join()


def at_once(report: Report, name: str, n: int, aim: str) -> None:
    """So many visitors with as many models; in a quick look, three."""
    n = 3 if report.quick else n
    with long_up(report) as (url, _), visitors(url, n) as waits:
        value, detail = slowest(waits)
    report.add(name, f"{n} visitors, {n} models, at once: slowest", value, "s", aim, detail)


def eight(report: Report) -> None:
    """Eight visitors with eight models."""
    at_once(report, "eight", 8, "≤ 3")


def thirty(report: Report) -> None:
    """Thirty visitors with thirty models."""
    at_once(report, "thirty", 30, "≤ 8")


def watch(report: Report) -> None:
    """Many who watch one run or a few: frames, and what it costs the training."""
    with long_up(report) as (url, _):
        for row in a_class(url, 3.0 if report.quick else 10.0):
            report.add("watch", row["what"], row["value"], row["unit"], row["aim"])


# Memory.


class Chooser(Student):
    """A protocol client that moves its sliders: each time its run is dropped for another."""

    def __init__(self, url: str, query: str):
        super().__init__(url, query)
        self.sliders: dict[str, str] = {}

    def hear(self, message: bytes) -> None:
        super().hear(message)
        for found in re.finditer(rb"\$\$ID-[0-9a-f]+-choose_(layers|inducing)", message):
            self.sliders[found.group(1).decode()] = found.group().decode()

    def choose(self, layers: int, inducing: int) -> bool:
        """Another depth and number of inducing points; whether that run was seen to train."""
        message, before = BackMsg(), self.run_id
        widgets = message.rerun_script.widget_states.widgets
        widgets.add(id=self.sliders["layers"]).double_array_value.data.append(layers)
        widgets.add(id=self.sliders["inducing"]).string_array_value.data.append(str(inducing))
        self.ask(message)
        if not wait_until(lambda: self.run_id != before):
            return False
        frames = len(self.frames)
        wait_until(lambda: len(self.frames) > frames + 1, 1.0)  # of the run before, perhaps
        self.step, self.live = 0, 0.0
        return wait_until(lambda: self.live > 0)


def memory(report: Report) -> None:
    """What the server's process holds after visits, models, fits, and runs that came and went."""
    quick = report.quick
    with served() as (url, pid), chromium() as browser:

        def weigh(what: str, aim: str, detail: str = "") -> float:
            now = held(pid)
            detail = "; ".join(filter(None, (f"peak {held(pid, 'VmHWM'):.0f} MB", detail)))
            report.add("memory", what, now, "MB", aim, detail)
            return now

        paths = ["", *sorted(path for path in addresses() if path != "playground")]
        paths = paths[:3] if quick else paths
        late = open_each(browser, url, paths)
        weigh(f"one visitor has opened {len(paths)} pages", "≤ 600", gave_up(late))
        n, fits = (3, 1) if quick else (30, 6)
        with visitors(url, n) as waits:
            late = [name for name, wait in waits.items() if wait is None]
            weigh(f"{n} visitors with {n} models are there", "", gave_up(late))
        late = [name for name in list(TABLES)[:fits] if not fit(browser, url, name)]
        rest()
        before = weigh(
            f"after {n} visitors with {n} models and {fits} fits", "≤ 900", gave_up(late)
        )
        runs = 5 if quick else RUNS
        seen = drop_runs(url, runs)
        rest()
        after = weigh(f"after {runs} more runs", "", f"{seen} of them live")
        growth = 100 * (after - before) / before
        report.add("memory", f"growth by {runs} runs started and dropped", growth, "%", "≤ 5")


def addresses() -> list[str]:
    """Every page's path."""
    parts = (ROOT / "pages" / part for part in ("explore", "learn"))
    return [path.stem for part in parts for path in part.glob("*.py")]


def gave_up(late: Sequence[str]) -> str:
    """Which waits were given up, in words."""
    return f"not within {LONGEST:.0f} s: {', '.join(late)}" if late else ""


def open_each(browser: Browser, url: str, paths: Iterable[str]) -> list[str]:
    """Opens pages in turn until all is drawn that is in view; returns those given up."""
    late = []
    with a_page(browser) as page:
        for path in paths:
            page.goto(f"{url}/{path}")
            try:
                at_rest(page)
                page.wait_for_function(OPENED)
            except TooLate:
                late.append(path)
    return late


TABLES = {
    "a jump": (60, 1, lambda X: np.sign(X[:, 0])),
    "a wave": (200, 2, lambda X: np.sin(3 * X[:, 0]) + X[:, 1]),
    "a ridge": (400, 3, lambda X: np.tanh(4 * X.sum(1))),
    "a plane": (600, 5, lambda X: X @ np.arange(1, 6)),
    "a bowl": (150, 4, lambda X: (X**2).sum(1)),
    "two kinds": (200, 2, lambda X: np.where(np.hypot(*X.T) > 1.5, "far", "near")),
}
"""Files that are brought to Your data: rows, inputs, and the target."""


def file_of(name: str) -> bytes:
    """One of TABLES as a CSV file."""
    rows, inputs, target = TABLES[name]
    rng = np.random.default_rng(rows)
    X = rng.uniform(-2, 2, (rows, inputs))
    y = target(X)
    if y.dtype.kind == "f":
        y = y + 0.1 * rng.standard_normal(rows)
    lines = [[*(f"x{d}" for d in range(inputs)), "y"]]
    lines += [[*(f"{x:.4f}" for x in X[i]), str(y[i])] for i in range(rows)]
    return "\n".join(",".join(cells) for cells in lines).encode()


def fit(browser: Browser, url: str, name: str) -> bool:
    """Brings a file and fits it as is proposed; whether it came to its verdict in time."""
    file: FilePayload = {"name": f"{name}.csv", "mimeType": "text/csv", "buffer": file_of(name)}
    with a_page(browser) as page:
        try:
            page.goto(f"{url}/your_data")
            page.get_by_role("heading", name="1 · Bring").wait_for()
            at_rest(page)
            page.locator("input[type=file]").first.set_input_files(file)
            page.get_by_role("heading", name="2 · Fit").wait_for()
            at_rest(page)
            page.get_by_role("button", name="Fit", exact=True).click()
            page.get_by_role("button", name="Fit again").wait_for()
            page.locator(".st-key-verdict").wait_for()
            page.locator(".st-key-stop").wait_for(state="detached")
        except TooLate:
            return False
    return True


def drop_runs(url: str, runs: int) -> int:
    """Starts one run after another in a session, each in place of the last; how many were live."""
    chooser = Chooser(url, link({"data": "step", "layers": 2, "inducing": 10}))
    chooser.start()
    try:
        if not wait_until(lambda: chooser.live > 0 and len(chooser.sliders) == 2):
            return 0
        every = [(L, M) for M in OFFERED["inducing"] for L in OFFERED["layers"]]
        return sum(chooser.choose(*every[i % len(every)]) for i in range(runs))
    finally:
        chooser.over.set()
        chooser.join()


PARTS: dict[str, Callable[[Report], None]] = {
    part.__name__: part for part in (fresh, warm, switch, eight, thirty, memory, watch, alone)
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.waiting")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    parser.add_argument("--quick", action="store_true", help="a few choices, and a short warm-up")
    parser.add_argument("--before", type=Path, help="the JSON file of an earlier commit")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := sorted(set(wanted) - set(PARTS)):
        parser.error(f"no part {', '.join(unknown)}: there are {', '.join(PARTS)}")
    before = json.loads(options.before.read_text(encoding="utf-8")) if options.before else ()
    report = Report(options.quick, options.json, before)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server ends with the benchmark
    for name in wanted:
        try:
            PARTS[name](report)
        except (BrowserError, RuntimeError, OSError) as error:
            report.fail(name, str(error).splitlines()[0])
    print()
    print_table(
        [
            {
                "what": f"{row['name']}: {row['what']}",
                "measured": row["measured"],
                "aim": row["aim"],
                "": {True: "met", False: "missed", None: ""}[row["met"]],
                "detail": row["detail"],
            }
            for row in report.rows
        ]
    )


if __name__ == "__main__":
    main()
