"""The session's run: who this browser is, which run it shows, and what state that run is in."""

import atexit
import gc
import re
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import streamlit as st
from streamlit.components.v2 import component

from datasets.catalogue import entry, load
from dgp_core.compile_cache import remember_compilations
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.workshop import Workshop, WorkshopError
from pages.ui.choices import IN_WORDS, OFFERED, SPEEDS, Choices, read_query

CONTROLS = ("data", "layers", "inducing", "rate", "natural")
"""Choices with a control beside the pictures."""
COOKIE = "dgp_browser"
ECHO_SECONDS = 0.25
VIEWER_SECONDS = 5.0
"""A session that has not asked for a picture for so long is not looking."""

_cookie = component(
    "browser_cookie",
    js="""export default ({ data }) => {
      document.cookie = `${data.name}=${data.value}; path=/; SameSite=Strict; max-age=86400`;
    }""",
)


class Server:
    """What all sessions share: the workshop, who is looking, and the newest pictures of each run.

    JAX's threads must have ended before the interpreter does, so the workshop is stopped at exit.
    """

    def __init__(self):
        remember_compilations()
        self.workshop = Workshop()
        atexit.register(self.workshop.stop)
        self._lock = threading.Lock()
        self._looking: dict[str, float] = {}
        self._pictures: WeakKeyDictionary[Run, dict] = WeakKeyDictionary()
        self._settled = False

    def settle(self) -> None:
        """After the first compilation: what is there stays, and no collection walks it again."""
        if not self._settled:
            self._settled = True
            gc.collect()
            gc.freeze()

    def viewers(self, session: str) -> int:
        """How many sessions look at any run, this one among them."""
        now = time.monotonic()
        with self._lock:
            self._looking[session] = now
            gone = [s for s, seen in self._looking.items() if now - seen > VIEWER_SECONDS]
            for other in gone:
                del self._looking[other]
            return len(self._looking)

    def pictures(self, run: Run, moment: object, style: str, make: Callable[[], Any]) -> Any:
        """A moment's pictures, made once for everybody who looks at the run in the same style."""
        with self._lock:
            kept = self._pictures.setdefault(run, {})
            lock = kept.setdefault("lock", threading.Lock())
        with lock:
            if kept.get(style, (None,))[0] is not moment:
                kept[style] = (moment, make())
            return kept[style][1]


@st.cache_resource(show_spinner=False)
def server() -> Server:
    """One a server."""
    return Server()


def workshop() -> Workshop:
    """Every live run."""
    return server().workshop


def viewers() -> int:
    """How many sessions are looking at any run."""
    st.session_state.setdefault("viewer", secrets.token_hex(8))
    return server().viewers(st.session_state.viewer)


def browser() -> str:
    """This browser's secret, kept in a cookie: after a reload, it still controls its run."""
    if "browser" not in st.session_state:
        known = str(st.context.cookies.get(COOKIE, ""))
        fits = re.fullmatch(r"[\w-]{32,64}", known)
        st.session_state.browser = known if fits else secrets.token_urlsafe(24)
    return st.session_state.browser


def keep_cookie() -> None:
    """Leaves the secret with the browser."""
    _cookie(key="cookie", data={"name": COOKIE, "value": browser()})


def is_mine(run_id: str) -> bool:
    """Whether this browser started the run."""
    try:
        workshop().control(run_id, st.session_state.browser)
        return True
    except WorkshopError:
        return False


def picture_seconds(viewers: int) -> float:
    """Seconds between pictures: longer the more are looking, so that a class does not stall it."""
    return min(2.0, max(0.25, 0.07 * viewers))


def film_second(run_id: str) -> float:
    """Seconds since this session first saw a run that is still being compiled."""
    seen = st.session_state.get("film")
    if seen is None or seen[0] != run_id:
        seen = st.session_state.film = (run_id, time.monotonic())
    return time.monotonic() - seen[1]


def pace(run_id: str, snapshot: Snapshot) -> float:
    """Steps a second, as seen by this session over the last two seconds; 0 while nothing moves."""
    now, seen = time.monotonic(), st.session_state.get("pace", (None, []))
    moments = seen[1] if seen[0] == run_id else []
    moments = [(t, step) for t, step in moments if now - t < 2.5 and step <= snapshot.step]
    moments.append((now, snapshot.step))
    st.session_state.pace = (run_id, moments)
    (began, first), (ended, last) = moments[0], moments[-1]
    return (last - first) / (ended - began) if ended - began > 0.2 else 0.0


def state(run: Run, place: int) -> tuple[str, str]:
    """What the run is doing, in a word and in a sentence."""
    if place:
        return "queued", f"Every seat is taken: this run is number {place} in the queue."
    if run.status in ("waiting", "compiling"):
        return "compiling", (
            "The first run of this shape is turned into machine code, which takes some seconds. "
            "The next one starts at once."
        )
    if run.status == "failed":
        return "stopped", run.reason
    if run.status == "finished":
        return "finished", f"{run.reason} Reset to see it again."
    if run.latest is None:
        return "starting", "Start values are being made."
    if not run.playing:
        return "paused", "Play goes on from here; Step takes one gradient step."
    return "training", "Each step moves both models a little uphill on their bounds."


def arrive() -> None:
    """Takes the link where it says something new: on a first visit, or by the browser's arrows."""
    query = dict(st.query_params)
    memory = st.session_state
    memory.setdefault("said", [])
    if "choices" not in memory or (query and query != memory.get("link")):
        memory.choices, memory.said = read_query(query)
        memory.run_id, memory.link = query.get("run"), query
        _set_controls()
    elif any(f"choose_{name}" not in memory for name in CONTROLS):
        _set_controls()  # Streamlit forgets a control that another page did not show


def choose() -> None:
    """A control was moved: what it says now is the choice."""
    memory = st.session_state
    chosen = {name: memory[f"choose_{name}"] for name in CONTROLS}
    memory.said = []
    memory.choices = replace(memory.choices, **chosen)


def _set_controls() -> None:
    """Every control shows the choice."""
    memory = st.session_state
    for name in CONTROLS:
        memory[f"choose_{name}"] = getattr(memory.choices, name)
    if "choose_speed" in memory:
        memory.choose_speed = memory.choices.speed


def current_run() -> tuple[str, bool]:
    """The run to show, and whether this browser controls it; starts one where there is none."""
    memory = st.session_state
    if memory.run_id is not None:
        try:
            run = workshop().watch(memory.run_id)
        except WorkshopError:
            memory.said = [
                *memory.said,
                "The run of this link is over, so another one has been started with its settings.",
            ]
            memory.run_id = None
        else:
            if not is_mine(memory.run_id):
                return memory.run_id, False
            if choices_of(run).shape == memory.choices.shape:
                _follow(run, memory.choices)
                _write_link()
                return memory.run_id, True
            memory.said = [restart_sentence(choices_of(run), memory.choices)]
            workshop().drop(memory.run_id, memory.browser)
    return start(), True


def start() -> str:
    """A run of this browser's own, with the choices as they are."""
    memory, choices = st.session_state, st.session_state.choices
    run_id, _ = workshop().start(
        load(choices.data), choices.model, choices.train, owner=memory.browser
    )
    memory.run_id = run_id
    _follow(workshop().watch(run_id), choices)
    _write_link()
    return run_id


def start_my_own() -> None:
    """Leaves the run that somebody else controls, and starts one with the same settings."""
    memory = st.session_state
    with suppress(WorkshopError):
        memory.choices = choices_of(workshop().watch(memory.run_id))
    _set_controls()
    memory.run_id, memory.said = None, []


def choices_of(run: Run) -> Choices:
    """What a run was started with, as it stands now."""
    M = run.model.inducing
    return Choices(
        data=run.dataset.name,
        layers=run.model.layers,
        inducing=M if isinstance(M, int) else M[0],
        rate=run.train.learning_rate,
        natural=run.train.natural_rate,
        seed=run.train.seed,
        speed=next(word for word, speed in SPEEDS.items() if speed == run.speed),
    )


def restart_sentence(before: Choices, after: Choices) -> str:
    """Why a run began again."""
    names = {
        "data": before.data != after.data,
        "layers": before.layers != after.layers,
        "inducing": before.inducing != after.inducing,
        "natural": (before.natural > 0) != (after.natural > 0),
    }
    changed = [IN_WORDS[name] for name, differs in names.items() if differs]
    return f"Another {' and '.join(changed)}: both models began again, from the same seed."


def new_seed() -> None:
    """Other start values and other noise in the gradients, on the same data."""
    choices = st.session_state.choices
    if not _is_echo("seed"):
        _change(replace(choices, seed=(choices.seed + 1) % len(OFFERED["seed"])))


def new_speed() -> None:
    """The speed's control was moved."""
    _change(replace(st.session_state.choices, speed=st.session_state.choose_speed))


def _change(choices: Choices) -> None:
    """Something that needs no restart."""
    memory = st.session_state
    memory.choices = choices
    with suppress(WorkshopError):  # the page says that the run is over
        _follow(workshop().control(memory.run_id, memory.browser), choices)
        _write_link()


def wish(name: str) -> None:
    """Play, pause, step or reset, by whoever controls the run."""
    memory = st.session_state
    if _is_echo(name):
        return
    with suppress(WorkshopError):  # the page says that the run is over
        getattr(workshop().control(memory.run_id, memory.browser), name)()
        workshop().wake()


def _is_echo(name: str) -> bool:
    """Whether a click is counted again: the page's timer may come between it and its run."""
    last, memory = st.session_state.get("wished", ("", 0.0)), st.session_state
    memory.wished = (name, time.monotonic())
    return last[0] == name and memory.wished[1] - last[1] < ECHO_SECONDS


def _follow(run: Run, choices: Choices) -> None:
    """What acts without a restart: rates, speed, and another seed's start values."""
    now = choices_of(run)
    if (now.rate, now.natural) != (choices.rate, choices.natural):
        run.set_rates(choices.rate, choices.natural)
    if now.speed != choices.speed:
        run.set_speed(SPEEDS[choices.speed])
    if now.seed != choices.seed:
        run.reset(choices.seed)
    workshop().wake()


def _write_link() -> None:
    memory = st.session_state
    memory.link = {**memory.choices.query(), "run": memory.run_id}
    if dict(st.query_params) != memory.link:
        st.query_params.from_dict(memory.link)


def choices_in_words(run_id: str) -> str:
    """A run's settings, for those who watch it."""
    choices = choices_of(workshop().watch(run_id))
    natural = f"{choices.natural:g}" if choices.natural else "off"
    return (
        f"{entry(choices.data).title}, depth {choices.layers}, {choices.inducing} inducing points, "
        f"learning rate {choices.rate:g}, natural-gradient rate {natural}, seed {choices.seed}."
    )
