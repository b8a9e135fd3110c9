"""The session's run: who this browser is, which run it shows, and what its controls say."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial, wraps
from typing import Any, ParamSpec

import numpy as np
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from datasets.catalogue import entry
from dgp_core.archive import Archive
from dgp_core.gp.likelihoods import OF_TASK
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.workshop import Workshop, WorkshopError
from pages.ui.choices import (
    IN_WORDS,
    MOST_POINTS,
    OFFERED,
    SPEEDS,
    Choices,
    DisplayOptions,
    display_sentences,
    judge_options,
    nearest,
    not_offered,
    read_display_options,
    read_query,
    write_points,
)
from pages.ui.sentences import notice, offer
from pages.ui.session_end import at_end
from pages.ui.stage import hosts as stage
from pages.ui.stage.guard import COOKIE, is_secret
from pages.ui.stage.server import COMMANDS, Scene, Viewer, server

CONTROLS = tuple(
    field.name
    for field in fields(Choices)
    if field.name not in ("seed", "speed", "star", "points", "kernels", "at")
)
"""Choices with a control of their own, whose key is choose_ and the name."""

P = ParamSpec("P")


def by_hand(act: Callable[P, None]) -> Callable[P, None]:
    """Marks what a control's callback does, in this run of the script.

    Such a run may carry an address that the page has just rewritten: it must not be taken for the
    browser's way back, which calls nothing.
    """

    @wraps(act)
    def marked(*args: P.args, **kwargs: P.kwargs) -> None:
        st.session_state.by_hand = True
        act(*args, **kwargs)

    return marked


def workshop() -> Workshop:
    """Every live run."""
    return server().workshop


def browser() -> str:
    """This browser's secret, which the server keeps in a cookie: after a reload, it still controls
    its run. Where cookies are refused, it is the session's own."""
    if "browser" not in st.session_state:
        known = str(st.context.cookies.get(COOKIE, ""))
        st.session_state.browser = known if is_secret(known) else secrets.token_urlsafe(24)
    return st.session_state.browser


def page_made() -> None:
    """The page is made: what was done by hand is behind it."""
    st.session_state.pop("by_hand", None)


def viewer() -> Viewer:
    """Who this session is to the socket."""
    if "viewer" not in st.session_state:
        st.session_state.viewer = secrets.token_urlsafe(16)
        lessons = st.session_state.setdefault("lesson_runs", {})
        at_end(partial(_leave, st.session_state.viewer, browser(), lessons))
    return server().viewers.get_or_create(st.session_state.viewer, browser())


def _leave(token: str, owner: str, lesson_runs: dict[Any, str]) -> None:
    """The tab is gone: nobody looks any more, and its lessons give their runs back."""
    server().viewers.forget(token)
    workshop().leave(lesson_runs.values(), owner)


def leave_lessons(shown: Iterable[str] = ()) -> None:
    """Gives back the runs of lessons, but those that the page shows; a look into the glossary
    leaves none."""
    lessons = st.session_state.get("lesson_runs", {}).values()
    workshop().leave(set(lessons) - set(shown), browser())


def leave_other_lessons(number: int) -> None:
    """Before a lesson starts its runs: those of the page that it comes after are looked at no more,
    and other lessons' are given back."""
    own = {run for (of, _), run in st.session_state.get("lesson_runs", {}).items() if of == number}
    looking = viewer()
    looking.scenes = {n: scene for n, scene in looking.scenes.items() if scene.run_id in own}
    leave_lessons(own)


def play(
    scenes: dict[str, Scene],
    on_click: Callable[[dict], None] = lambda where: None,
    teaches: str = "",
    follows: str = "",
    version: int = 0,
) -> None:
    """Shows these scenes in the page's hosts from now on; `on_click` is told of every click.

    A lesson names the class that it `teaches` or `follows`, and which `version` of it the page
    shows.
    """
    looking, taken = viewer(), clicks_taken()
    looking.teaches, looking.follows = teaches, follows
    scenes = {name: replace(scene, clicks=taken) for name, scene in scenes.items()}
    for name in set(looking.scenes) - set(scenes):
        looking.at.pop(name, None)
    known = {
        name: looking.scenes[name]
        for name in scenes
        if name in looking.scenes and _same_scene(looking.scenes[name], scenes[name])
    }
    looking.scenes = scenes | known
    looking.ring()
    leave_lessons(scene.run_id for scene in scenes.values())
    shown = {n: {"run": s.run_id, "mine": is_mine(s.run_id)} for n, s in scenes.items()}
    take = by_hand(partial(take_clicks, on_click))
    lesson = {"follows": bool(follows), "teaches": bool(teaches), "version": version}
    stage.connection(looking.token, shown, taken, take, lesson)


def play_another(name: str, scene: Scene) -> None:
    """Shows another scene in one of the page's places from now on."""
    looking, scene = viewer(), replace(scene, clicks=clicks_taken())
    if name in looking.scenes and _same_scene(looking.scenes[name], scene):
        return
    looking.at.pop(name, None)
    looking.scenes = looking.scenes | {name: scene}
    looking.ring()
    leave_lessons(shown.run_id for shown in looking.scenes.values())


def clicks_taken() -> int:
    """How many of the browser's clicks have been dealt with."""
    return st.session_state.get("clicks_taken", 0)


def take_clicks(on_click: Callable[[dict], None]) -> None:
    """Every click that the browser still waits to be taken, each once, in their order."""
    memory = st.session_state
    clicks = getattr(memory.get("stage"), "click", None)
    for where in clicks if isinstance(clicks, list) else []:
        serial = where.get("serial") if isinstance(where, dict) else None
        if isinstance(serial, int) and serial > clicks_taken():
            memory.clicks_taken = serial
            on_click(where)


def _same_scene(a: Scene, b: Scene) -> bool:
    seen = [(s.run_id, s.style, s.clicks, s.until, id(s.stored)) for s in (a, b)]
    return seen[0] == seen[1]


def let_go() -> None:
    """Goes on with the newest moment, wherever the history slider is."""
    viewer().at.clear()


def shown_moment(run: Run) -> Snapshot | None:
    """The moment that this browser looks at: the newest, or the one that its slider holds."""
    at = viewer().at.get("main")
    return run.latest if at is None else run.at(at)


@st.fragment(run_every=1.0)
def wait_for_first_moment(run: Run) -> None:
    """Runs the page's script again when the run has begun."""
    if run.latest is not None:
        st.rerun()


def offer_to_watch(run_id: str) -> None:
    """Where a run waits for a seat, the server's own to watch meanwhile, until it has one."""
    with suppress(WorkshopError):  # else the page says that the run is over
        if workshop().place(run_id) and (public := workshop().watch_public()):
            _offered(run_id, public)


@st.fragment(run_every=2.0)
def _offered(run_id: str, public: str) -> None:
    with suppress(WorkshopError):
        if not workshop().place(run_id):
            st.rerun()
    offer(public, "yours begins here as soon as there is room")


def is_mine(run_id: str) -> bool:
    """Whether this browser started the run."""
    try:
        workshop().control(run_id, browser())
        return True
    except WorkshopError:
        return False


def arrive(*own: str) -> None:
    """Takes the link where it says something new: on a first visit, or by the browser's arrows.

    `own` are the page's own controls: see `linked`.
    """
    query = dict(st.query_params)
    memory = st.session_state
    memory.setdefault("messages", [])
    memory.own_names, memory.alone = own, False
    moved = _moved()
    if "choices" not in memory or (_is_new(query) and not moved):
        memory.choices, memory.messages = read_query(query)
        memory.run_id, memory.link = query.get("run"), query
        if query or "display_options" not in memory:  # a lock holds on the way from page to page
            memory.display_options = read_display_options(query)
        memory.messages += display_sentences(query)
        _take_own(query)
        _set_controls()
    elif any(f"choose_{name}" not in memory for name in CONTROLS):
        _set_controls()  # Streamlit forgets a control that another page did not show


def _is_new(query: dict[str, str]) -> bool:
    """Whether an address says what this session has not written there itself."""
    own = (st.session_state.get(name) for name in ("link", "own_link"))
    return bool(query) and query not in own


def _moved() -> bool:
    """Whether a control was moved, or a picture clicked, for this run of the script.

    To be asked once a run: the mark goes, lest a run that is cut short leave it to the next. Where
    the browser's arrows asked for the run too, they count for more.
    """
    memory = st.session_state
    own = memory.get("own_values", {}).items()
    marked = memory.pop("by_hand", False)
    return not _by_the_arrows() and (
        marked or any(str(memory.get(f"own_{name}", word)) != word for name, word in own)
    )


def _by_the_arrows() -> bool:
    """Whether the browser's way back or forward asked for this run of the script."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def arrive_alone(*own: str) -> None:
    """On a page without a run, the link says only what the page's own controls do."""
    leave_lessons()
    query, memory = dict(st.query_params), st.session_state
    memory.setdefault("messages", [])
    memory.own_names, memory.alone = own, True
    moved = _moved()
    if _is_new(query) and not moved:
        memory.messages = []
        _take_own(query)


def _take_own(query: dict[str, str]) -> None:
    """The link's word for the page's own controls, which begin anew with it."""
    memory = st.session_state
    memory.from_link = {name for name in memory.own_names if name in query}
    memory.own_values = {
        **{n: v for n, v in memory.get("own_values", {}).items() if n not in memory.own_names},
        **{name: query[name] for name in memory.from_link},
    }
    for name in memory.own_names:
        memory.pop(f"own_{name}", None)


def linked(name: str, offered: Sequence, default: Any) -> Any:
    """What a page's own control begins with: the link's value, or the nearest that is offered.

    The control's key is own_ and the name, and `link` puts what it says back into the address.
    """
    memory = st.session_state
    if memory.get(f"own_{name}") not in offered:
        memory.pop(f"own_{name}", None)  # what another run or layer offered
    asked = memory.get("own_values", {}).get(name)
    if asked is None:
        return default
    value = nearest(asked, offered, default)
    if name in memory.get("from_link", ()):
        memory.from_link.discard(name)
        memory.own_values[name] = str(value)
        memory.messages += not_offered(name, asked, value)
    return value


def link(**values: Any) -> None:
    """Puts what the page's own controls say into the address; once moved, the link is the past."""
    memory = st.session_state
    words, known = {n: str(v) for n, v in values.items()}, memory.get("own_values", {})
    if any(known.get(name, word) != word for name, word in words.items()):
        memory.messages = []
    memory.own_values = known | words
    if not memory.alone:
        write_link()
        return
    memory.own_link = words
    if dict(st.query_params) != words:
        st.query_params.from_dict(words)


def say() -> None:
    """What a link could not have, and what began again.

    In a place of its own: pictures below it stay where they are in the page, and are not made anew.
    """
    with st.container(key="messages"):
        for sentence in st.session_state.messages:
            notice(sentence)


def arrive_at_lesson() -> None:
    """On a lesson, the link says only how the page should be; choices are the lesson's own."""
    memory, query = st.session_state, dict(st.query_params)
    memory.pop("by_hand", None)
    if "display_options" not in memory or (query and query != memory.get("lesson_display_options")):
        memory.display_options = read_display_options(query)
        memory.lesson_display_options = query
    memory.setdefault("messages", [])


def display_options() -> DisplayOptions:
    """How a teacher's link wants the page to be."""
    return st.session_state.get("display_options", DisplayOptions())


def alone() -> bool:
    """Whether the page is to stand by itself, without a way to others: locked, or embedded."""
    return display_options().lock or bool(st.context.is_embedded)


def control(
    name: str, locked: bool = False, options: Sequence = (), says: str = "value"
) -> dict[str, Any]:
    """What makes a widget the control of a choice; `says` is its argument for a first value.

    The choice is that first value too, not only the key's: a busy browser may skip the one run
    that sets the key, and would then report a control's own first value as if it were chosen.
    """
    choice = getattr(st.session_state.choices, name)
    if says == "index":
        choice = options.index(choice) if choice in options else 0
    return {
        says: choice,
        "key": f"choose_{name}",
        "disabled": locked,
        "on_change": choose,
        "args": (name,),
    }


@by_hand
def choose(name: str) -> None:
    """A control was moved: what it says now is the choice."""
    memory = st.session_state
    if memory.get(f"choose_{name}") not in OFFERED[name]:
        return  # a control that has just gone says nothing
    memory.messages = []
    choices = replace(memory.choices, at=0, **{name: memory[f"choose_{name}"]})
    if name == "data":
        fits = choices.posterior in choices.posteriors
        posterior = choices.posterior if fits else choices.posteriors[0]
        choices = replace(
            choices, likelihood="auto", star="", batch=0, judge="auto", posterior=posterior
        )
    memory.choices = choices
    if name == "data":
        _set_controls()


@by_hand
def choose_kernel(layer: int) -> None:
    """One layer's kernel was chosen."""
    choices = st.session_state.choices
    names = list(choices.kernel_names)
    names[layer] = st.session_state[f"choose_kernel_{layer}"]
    one = len(set(names)) == 1
    kernels = names[0] if one else ",".join(names)
    st.session_state.choices = replace(choices, at=0, kernels=kernels)


@by_hand
def choose_judge() -> None:
    """Other rows are to be held out."""
    memory = st.session_state
    if memory.get("own_judge") in judge_options(memory.choices.data):
        memory.messages, memory.choices = [], replace(memory.choices, at=0, judge=memory.own_judge)


def _set_controls() -> None:
    """Every control shows the choice."""
    memory = st.session_state
    for name in CONTROLS:
        memory[f"choose_{name}"] = getattr(memory.choices, name)


def likelihoods(choices: Choices) -> tuple[str, ...]:
    """What may be chosen for the data: what suits, by itself or by name."""
    return "auto", *OF_TASK[choices.task]


def current_run() -> tuple[str, bool]:
    """The run to show, and whether this browser controls it; starts one where there is none."""
    memory = st.session_state
    if memory.run_id is not None:
        try:
            run = workshop().watch(memory.run_id)
        except WorkshopError:
            of = "its settings" if "data" in memory.link else "those that the page begins with"
            memory.messages = [
                *memory.messages,
                f"The run of this link is over, so another one has been started with {of}.",
            ]
            memory.run_id = None
        else:
            if not is_mine(memory.run_id):
                look = {name: getattr(memory.choices, name) for name in ("shade", "noise", "star")}
                memory.choices = replace(started_with(run), **look)
                write_link()
                return memory.run_id, False
            if started_with(run).shape == memory.choices.shape:
                follow(run, memory.choices)
                write_link()
                return memory.run_id, True
            memory.messages = restart_sentences(started_with(run), memory.choices)
            with suppress(WorkshopError):
                workshop().drop(memory.run_id, browser())
    return start(), True


def start(saved: Archive | None = None) -> str:
    """The playground's run, with the choices as they are, or from a saved model on."""
    memory = st.session_state
    memory.run_id = start_with(memory.choices, saved)
    write_link()
    return memory.run_id


def start_with(choices: Choices, saved: Archive | None = None) -> str:
    """A run of this browser's own."""
    run_id, _ = workshop().start(
        choices.dataset, choices.model, choices.train, owner=browser(), saved=saved
    )
    run = workshop().watch(run_id)
    run.label = replace(choices, at=0)
    run.altered |= saved is not None and bool((saved.settings or {}).get("altered"))
    follow(run, choices)
    if choices.at and saved is None:
        run.play_until(choices.at)
    return run_id


def open_saved(choices: Choices, saved: Archive) -> None:
    """Goes on with a saved model, in place of the run that was here."""
    memory = st.session_state
    memory.choices = choices
    with suppress(WorkshopError):
        workshop().drop(memory.run_id, browser())
    memory.run_id = None
    _set_controls()
    memory.messages = ["The saved model goes on where it was; the single layer catches up first."]
    start(saved)


@by_hand
def start_my_own() -> None:
    """Leaves the run that somebody else controls, and starts one with the same settings."""
    memory = st.session_state
    with suppress(WorkshopError):
        memory.choices = started_with(workshop().watch(memory.run_id))
    _set_controls()
    memory.run_id, memory.messages = None, []


def started_with(run: Run) -> Choices:
    """What a run was started with, as it stands now."""
    choices = run.label if isinstance(run.label, Choices) else Choices()
    return replace(
        choices,
        rate=run.train.learning_rate,
        natural=run.train.natural_rate,
        seed=run.train.seed,
        speed=next((word for word, speed in SPEEDS.items() if speed == run.speed), "full"),
    )


def restart_sentences(before: Choices, after: Choices) -> list[str]:
    """Why a run began again; nothing where a point was put down, which anybody sees."""
    if before.data == after.data == "drawn" and before.points != after.points:
        return []
    names = ("data", "layers", "inducing", "width", "kernels", "mean", "likelihood", "batch")
    changed = [
        IN_WORDS[n]
        for n in (*names, "posterior", "samples", "judge")
        if getattr(before, n) != getattr(after, n)
    ]
    if (before.natural > 0) != (after.natural > 0):
        changed.append(IN_WORDS["natural"])
    if before.data != after.data:
        changed = [IN_WORDS["data"]]
    return [f"Another {' and '.join(changed)}: both models began again, from the same seed."]


def change(**what: Any) -> None:
    """Something that needs no restart."""
    memory = st.session_state
    memory.choices = choices = replace(memory.choices, **what)
    with suppress(WorkshopError):  # the page says that the run is over
        run = workshop().control(memory.run_id, browser())
        if started_with(run).shape == choices.shape:  # else the page is about to begin another
            follow(run, choices)
            write_link()


@by_hand
def run_command(word: str) -> None:
    """What was pressed in the bar, where the link changes with it."""
    let_go()
    name, _, value = word.partition(" ")
    choices = st.session_state.choices
    if name == "seed":
        change(at=0, seed=(choices.seed + 1) % len(OFFERED["seed"]))
    elif name == "speed" and value in SPEEDS:
        change(speed=value)
    elif name in COMMANDS:
        change(at=0)
        with suppress(WorkshopError):  # the page begins another
            getattr(workshop().control(st.session_state.run_id, browser()), name)()
            workshop().wake()


def follow(run: Run, choices: Choices) -> None:
    """What acts without a restart: rates, speed, and another seed's start values."""
    if (run.train.learning_rate, run.train.natural_rate) != (choices.rate, choices.natural):
        run.set_rates(choices.rate, choices.natural)
    if run.speed != SPEEDS[choices.speed]:
        run.set_speed(SPEEDS[choices.speed])
    if run.train.seed != choices.seed:
        run.reset(choices.seed)
    workshop().wake()


def write_link() -> None:
    """The address says what is on the page."""
    memory = st.session_state
    own = {
        n: v for n, v in memory.get("own_values", {}).items() if n in memory.get("own_names", ())
    }
    memory.link = {
        **memory.choices.query(),
        **display_options().query(),
        **own,
        "run": memory.run_id,
    }
    if dict(st.query_params) != memory.link:
        st.query_params.from_dict(memory.link)


def clicked(where: dict) -> None:
    """A click in a picture: a point where a person draws, else the place x* of the mixture."""
    memory = st.session_state
    try:
        x, y = float(where["x"]), float(where["y"])
        near_x, near_y = float(where["near_x"]), float(where["near_y"])
    except (KeyError, TypeError, ValueError):
        return
    if memory.choices.data == "drawn" and is_mine(memory.run_id):
        _draw(x, y, near_x, near_y)
        return
    try:
        data = workshop().watch(memory.run_id).dataset
    except WorkshopError:
        return  # the page says that the run is over
    D, row = data.X.shape[1], where.get("row")
    if D <= 2:
        choose_star((x, y)[:D])
    elif isinstance(row, int) and 0 <= row < len(data):
        choose_star(data.X[row])


@by_hand
def choose_star(row: Sequence[float] | np.ndarray) -> None:
    """Looks at the mixture there; nothing is drawn, and nothing begins again."""
    memory = st.session_state
    memory.choices = replace(memory.choices, star=",".join(f"{value:.4g}" for value in row))


def _draw(x: float, y: float, near_x: float, near_y: float) -> None:
    """Puts down a point, or takes away the one that was clicked."""
    memory = st.session_state
    points = memory.choices.drawn_points
    rest = [p for p in points if abs(p[0] - x) > near_x or abs(p[1] - y) > near_y]
    if len(rest) == len(points):
        rest = [*points, (x, y)]
    if len(rest) < 2:
        memory.messages = ["A model needs at least two points to learn from: put down another."]
    elif len(rest) > MOST_POINTS:
        memory.messages = [f"{MOST_POINTS} points are the most that a link can hold."]
    else:
        memory.choices = replace(memory.choices, at=0, points=write_points(rest))


@by_hand
def act_by_numbers(what: str) -> None:
    """What clicks and drags do, from the numbers that were typed: see `by_numbers` of its page."""
    memory = st.session_state
    place = [memory[f"number_{i}"] for i in range(2) if f"number_{i}" in memory]
    try:
        run = workshop().watch(memory.run_id)
        if what == "row":
            choose_star(run.dataset.X[memory.number_row - 1])
        elif what == "star":
            choose_star(place)
        elif what == "point":
            near = np.ptp(run.dataset.X[:, 0]), np.ptp(run.dataset.Y[:, 0])
            _draw(place[0], place[1], *(0.01 * float(width) for width in near))
        else:
            run = workshop().control(memory.run_id, browser())
            if run.latest is not None:  # else the page says that it has not begun
                across = run.latest.deep.layers[0].inducing[:, 0]
                run.move_inducing_to(int(np.argsort(across)[memory.number_inducing - 1]), place)
                let_go()
                workshop().wake()
    except WorkshopError:
        pass  # the page says that the run is over


def choices_in_words(run_id: str) -> str:
    """A run's settings, for those who watch it."""
    choices = started_with(workshop().watch(run_id))
    natural = f"{choices.natural:g}" if choices.natural else "off"
    return (
        f"{entry(choices.data).title}, depth {choices.layers}, {choices.inducing} inducing points, "
        f"learning rate {choices.rate:g}, natural-gradient rate {natural}, seed {choices.seed}."
    )
