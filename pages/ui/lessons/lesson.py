"""The frame of every lesson: words, equations, live pictures, things to try, questions, a sheet.

A lesson is written as parts in order. The page shows them with live pictures; the sheet prints the
words, the equations and the exercises.
"""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from datasets.catalogue import entry
from datasets.starts import film_of
from dgp_core.live.run import Run
from dgp_core.live.workshop import WorkshopError
from pages.ui import session
from pages.ui.bar import dress
from pages.ui.choices import HIDEABLE, OFFERED, SPEEDS, DisplayOptions
from pages.ui.glossary_links import Linker
from pages.ui.lessons.following import desks
from pages.ui.lessons.link import (
    current,
    find,
    followed,
    links,
    own_desk,
    replace_run,
    take_hands,
    take_lives,
)
from pages.ui.lessons.parts import (
    Equation,
    Hand,
    Lesson,
    Live,
    Part,
    Picture,
    Question,
    Try,
    Words,
)
from pages.ui.lessons.worksheet import CITATION, sheet
from pages.ui.sentences import in_words
from pages.ui.share import HIDE_WORDS
from pages.ui.stage import hosts as stage
from pages.ui.stage.server import Elements, Scene

__all__ = [
    "CITATION",
    "STYLE",
    "Equation",
    "Hand",
    "Lesson",
    "Live",
    "Part",
    "Picture",
    "Question",
    "Try",
    "Words",
    "hand",
    "locked",
    "sheet",
    "show",
    "take_hands",
    "watched",
]

STYLE = """<style>
[data-testid=stMainBlockContainer] { max-width: 66rem; padding-top: 4.2rem; }
[data-stale=true] { opacity: 1 !important; transition: none !important; }
.stMarkdown > div:has(.katex-display), .stMarkdown > div > div:has(> .katex-display) {
  width: 100%;
}
[data-testid=stMarkdownContainer] .katex-display { overflow: auto hidden; padding: 2px 0; }
[data-testid=stMarkdownContainer]:has(> table) { overflow-x: auto; }
@media (max-width: 640px) {
  .katex-display > .katex { font-size: 1em; }
  .katex-display .katex-html > .tag { position: static !important; padding-left: 1em; }
}
@media print { [data-testid=stHeader], [data-testid=stSidebar] { display: none; } }
</style>"""
# Of a picture by hand: everything that sets something in it.
NO_CONTROLS = """<style>
[class*=st-key-by_hand_] :is([data-testid=stElementContainer], [data-testid=stColumn]):has(
  [data-testid=stSlider], [data-testid=stButtonGroup], [data-testid=stCheckbox],
  [data-testid=stButton]):not(:has(.stage-host)),
[class*=st-key-by_hand_] [data-testid=stPopover] { display: none; }
</style>"""
HIDDEN = {
    "rival": re.compile("rival"),
    "bound": re.compile("bound|parts"),
    "layers": re.compile("layer"),
    "mixture": re.compile("mixture"),
}
"""What a link's word leaves out of the live pictures, by their elements' names."""
IN_LESSONS = tuple(name for name in HIDEABLE if name != "history")
KEEP_UP_SECONDS = 2.0
"""After which those who follow look whether their teacher's page shows other runs."""


def show(lesson: Lesson, on_click: Callable[[dict], None] = lambda where: None) -> None:
    """The lesson's page."""
    session.browser()
    session.arrive_at_lesson()
    manner = session.manner()
    with in_words("This lesson's runs could not be started. Reload the page."):
        take_hands(lesson.number, lesson.hands)
        take_lives(lesson)
        teacher = followed(lesson.number)
        scenes = {live.name: _scene(lesson, live, teacher) for live in lesson.lives}
        _sit_down(lesson)
        session.play(scenes, (lambda where: None) if manner.lock else on_click)
        st.title(f"{lesson.number} · {lesson.title}", anchor=False)
        st.caption(f"{lesson.summary} About {lesson.minutes} minutes.")
        with st.container(key="said"):  # a place of its own, as in session.say
            _said(lesson, teacher)
        linker = Linker()
        for i, part in enumerate(lesson.parts):
            _show_part(lesson, i, part, manner, linker)
        _foot(lesson)
    session.keep_cookie()
    dress(STYLE + NO_CONTROLS * ("controls" in manner.hide))


def hand(of: Hand, says: str = "value") -> dict[str, Any]:
    """What makes a widget one that links hold and lock; `says` is its argument for a first value.

    As with `session.control`, its value is that first value too.
    """
    value = st.session_state.setdefault(of.key, of.first)
    return {says: value, "key": of.key, "disabled": locked()}


def locked() -> bool:
    """Whether a teacher's link wants nothing to be changed."""
    return session.manner().lock


def watched(number: int) -> set[str] | None:
    """The live parts that a teacher's page has, for those who follow it."""
    return set(followed(number)) or None


def _said(lesson: Lesson, teacher: dict[str, str]) -> None:
    """What could not be taken from the link, and who drives."""
    for sentence in st.session_state.get("lesson_said", {}).get(lesson.number, []):
        st.info(sentence, icon=":material/info:")
    if lesson.number not in st.session_state.get("lesson_followed", {}):
        return
    if not teacher and not _at_own_desk(lesson):
        st.info(
            "Your teacher's page shows no run now: these are your own, until it does.",
            icon=":material/info:",
        )
    if not _at_own_desk(lesson):
        st.button(
            "Start my own",
            icon=":material/add:",
            on_click=_start_my_own,
            args=(lesson,),
            key=f"own_{lesson.number}",
            help="Runs with the same settings, which you control.",
        )
        _keep_up(lesson.number, teacher)


def _at_own_desk(lesson: Lesson) -> bool:
    return st.session_state.lesson_followed[lesson.number] == own_desk(lesson.number)


@st.fragment(run_every=KEEP_UP_SECONDS)
def _keep_up(number: int, shown: dict[str, str]) -> None:
    """Shows the page anew where the teacher's shows other runs."""
    if number in st.session_state.lesson_followed and followed(number) != shown:
        st.rerun()


def _start_my_own(lesson: Lesson) -> None:
    """Leaves the teacher's runs, and starts others with the same settings."""
    memory = st.session_state
    for live in lesson.lives:
        key = (lesson.number, live.name)
        run = find(memory.lesson_runs.get(key))
        if run is not None:
            memory.setdefault("lesson_choices", {})[key] = replace(
                session.started_with(run), at=live.choices.at
            )
    memory.lesson_followed.pop(lesson.number, None)


def _show_part(lesson: Lesson, i: int, part: Part, manner: DisplayOptions, linker: Linker) -> None:
    if "words" in manner.hide and not isinstance(part, Picture | Live):
        return
    if isinstance(part, Words):
        st.markdown(linker.linked(part.text))
    elif isinstance(part, Equation):
        number = rf" \tag{{{part.number}}}" if part.number else ""
        st.latex(part.tex + number)
        st.caption(linker.linked(part.says))
    elif isinstance(part, Picture):
        with st.container(border=True, key=f"by_hand_{lesson.number}_{i}"):
            part.show()
            st.caption(linker.linked(part.says))
    elif isinstance(part, Live):
        _show_live(lesson, part, manner, linker)
    elif isinstance(part, Try):
        then = linker.linked(part.then)
        st.info(f"**Try this.** {linker.linked(part.do)}\n\n**What should happen:** {then}")
    else:
        _show_question(lesson, i, part)


def _scene(lesson: Lesson, live: Live, teacher: dict[str, str]) -> Scene:
    """The part's run: the teacher's for those who follow, else one of this browser's own."""
    key = (lesson.number, live.name)
    kept: dict = st.session_state.setdefault("lesson_runs", {})
    if live.name in teacher:
        kept[key] = teacher[live.name]
    else:
        kept[key] = _own_run(lesson, live)
    choices = session.started_with(session.workshop().watch(kept[key]))
    own = choices.shape == live.choices.shape
    filmed = live.film if own else film_of(choices.dataset, choices.model)
    style = (lesson.number, live.name, *live.style)
    paint, until = live.paint, current(lesson.number, live).at
    if locked():
        paint, style = partial(_still, paint), (*style, "locked")
    return Scene(kept[key], paint, style, filmed, until=until)


def _own_run(lesson: Lesson, live: Live) -> str:
    """This browser's run of a part, started where there is none or where another is wanted."""
    memory, key = st.session_state, (lesson.number, live.name)
    known = memory.setdefault("lesson_choices", {})
    run_id = memory.lesson_runs.get(key)
    if key not in known:  # a page that was just opened, perhaps again
        run_id = desks.runs(own_desk(lesson.number)).get(live.name)
        run = find(run_id)
        if run is not None:
            known[key] = session.started_with(run)
    choices = current(lesson.number, live)
    run = find(run_id)
    if run_id is not None and run is not None and session.is_mine(run_id):
        if session.started_with(run).shape == choices.shape:
            session.follow(run, choices)
            return run_id
        memory.setdefault("lesson_replaced", []).append(run_id)
    return live.begin(choices)


def _sit_down(lesson: Lesson) -> None:
    """Tells those who follow which runs are shown, then ends those that were replaced."""
    memory = st.session_state
    runs = {live.name: memory.lesson_runs[lesson.number, live.name] for live in lesson.lives}
    mine = {name: run_id for name, run_id in runs.items() if session.is_mine(run_id)}
    if mine:
        desks.put(own_desk(lesson.number), mine)
    for run_id in memory.pop("lesson_replaced", []):
        with suppress(WorkshopError):
            session.workshop().drop(run_id, session.browser())


def _still(paint: Callable[[Run, Any], Elements], run: Run, moment: Any) -> Elements:
    """Pictures in which nothing can be dragged or clicked."""
    elements = paint(run, moment)
    for element in elements.values():
        if "figure" in element:
            element["figure"]["layout"].pop("meta", None)
    return elements


def _show_live(lesson: Lesson, live: Live, manner: DisplayOptions, linker: Linker) -> None:
    run_id = st.session_state.lesson_runs[(lesson.number, live.name)]
    with st.container(border=True):
        mine = session.is_mine(run_id)
        if not mine:
            st.caption("You are watching your teacher's run.")
        if mine and "bar" not in manner.hide:
            keyboard = manner.projector and live is lesson.lives[0]
            _bar(lesson, live, keyboard)
        else:
            stage.words(f"{live.name}/numbers", 20)
        if not any(element == "state" for row in live.hosts for element, _, _ in row):
            stage.words(f"{live.name}/wait")
        if live.controls and mine and not manner.lock and "controls" not in manner.hide:
            for name, column in zip(
                live.controls, st.columns(len(live.controls), gap="medium"), strict=True
            ):
                with column:
                    _control(lesson, live, name)
        hidden = [HIDDEN[word] for word in manner.hide if word in HIDDEN]
        for row in live.hosts:
            _hosts(live, [h for h in row if not any(word.search(h[0]) for word in hidden)])
        st.caption(linker.linked(live.says))


def _hosts(live: Live, row: list[tuple[str, int, str]]) -> None:
    """A row of hosts beside each other."""
    if not row:
        return
    for column, (element, height, words) in zip(
        st.columns(len(row), gap="medium"), row, strict=True
    ):
        with column, st.container(gap="xsmall"):
            if words:
                st.markdown(f"**{words}**")
            if height:
                stage.picture(f"{live.name}/{element}", height)
            elif element.endswith("meter"):
                stage.meter(f"{live.name}/{element}")
            else:
                stage.words(f"{live.name}/{element}", 20)


def _bar(lesson: Lesson, live: Live, keyboard: bool) -> None:
    """A reset ends a run that began in a way of its own, so that the page begins it so again."""
    key = (lesson.number, live.name)
    own_way = live.begin is not session.start_with
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        begin = session.by_hand(lambda word: replace_run(key))
        stage.bar(live.name, begin, ("reset",) if own_way else (), keyboard)
        stage.words(f"{live.name}/numbers", 20)


LABELS = {
    "layers": "Depth",
    "inducing": "Inducing points",
    "mean": "Mean function of inner layers",
    "rate": "Learning rate",
    "natural": "Natural-gradient rate",
    "batch": "Minibatch",
    "samples": "Samples",
    "data": "Data set",
    "speed": "Steps a second",
    "seed": "Seed",
}
MEANS = {"linear": "Linear", "zero": "Zero", "concatenate": "Zero, and x beside it"}


def _control(lesson: Lesson, live: Live, name: str) -> None:
    key = f"lesson_{lesson.number}_{live.name}_{name}"
    choices = current(lesson.number, live)
    st.session_state[key] = getattr(choices, name)

    def changed() -> None:
        kept = st.session_state.lesson_choices
        kept[(lesson.number, live.name)] = replace(
            kept[(lesson.number, live.name)], **{name: st.session_state[key]}
        )

    options = live.offers.get(name) or tuple(SPEEDS if name == "speed" else OFFERED[name])
    if name in ("data", "mean"):
        st.segmented_control(
            LABELS[name],
            options,
            format_func=lambda word: entry(word).title if name == "data" else MEANS[word],
            key=key,
            on_change=changed,
            required=True,
        )
    else:
        st.select_slider(LABELS[name], options, key=key, on_change=changed)


def _show_question(lesson: Lesson, i: int, question: Question) -> None:
    with st.container(border=True):
        texts = [text for text, _, _ in question.answers]
        chosen = st.radio(
            f"**Question.** {question.ask}", texts, index=None, key=f"q_{lesson.number}_{i}"
        )
        for text, right, why in question.answers:
            if text == chosen:
                (st.success if right else st.warning)(
                    f"**{'Yes.' if right else 'Not quite.'}** {why}",
                    icon=":material/check:" if right else ":material/undo:",
                )


def _for_the_class(lesson: Lesson) -> None:
    """Links that open the lesson as it is when the box is opened."""
    box = st.popover(
        "For a class",
        icon=":material/share:",
        key=f"class_{lesson.number}",
        on_change="rerun",
    )
    with box:
        lock = st.checkbox(
            "Lock it",
            key=f"class_lock_{lesson.number}",
            help="Settings, sliders, clicks and drags are held; play, pause and reset stay.",
        )
        projector = st.checkbox(
            "Large type, for a wall",
            key=f"class_projector_{lesson.number}",
            help="Space plays and pauses the first run, → steps.",
        )
        hide = st.multiselect(
            "Leave out",
            IN_LESSONS,
            format_func=lambda name: HIDE_WORDS[name],
            key=f"class_hide_{lesson.number}",
            help="Settings are all sliders, choices and buttons of the pictures: they stay as they "
            "are now. Questions stay too, unless the words go.",
        )
        moment, follow = links(lesson, DisplayOptions(lock, tuple(hide), projector))
        if lesson.lives:
            st.markdown(
                "**This very moment:** the same settings, seed and step, in runs of one's own."
            )
        else:
            st.markdown("**This very moment:** all that is set here.")
        st.code(moment, language=None, wrap_lines=True)
        if any(_altered(lesson, live) for live in lesson.lives):
            st.caption(
                "Rates were changed or points moved under way: a run of one's own begins with the "
                "rates as they are now, and so ends elsewhere. Reset first for one that it repeats."
            )
        if lesson.lives:
            st.markdown("**Follow me:** everybody who opens it watches the runs of this page.")
            st.code(follow, language=None, wrap_lines=True)
        st.caption("Add &embed=true to put it into a course page.")


def _altered(lesson: Lesson, live: Live) -> bool:
    run = find(st.session_state.lesson_runs[lesson.number, live.name])
    return run is not None and run.altered


def _foot(lesson: Lesson) -> None:
    st.divider()
    _for_the_class(lesson)
    st.download_button(
        "Printable sheet",
        data=lambda: sheet(lesson),
        file_name=f"lesson-{lesson.number}.html",
        mime="text/html",
        icon=":material/print:",
        on_click="ignore",
        key=f"sheet_{lesson.number}",
        help="Words, equations and exercises on paper: open it and print.",
    )
    st.caption(f"The paper: {CITATION}. Equation numbers are the paper's.")
