"""The frame of every lesson: words, equations, live pictures, things to try, questions, a sheet.

A lesson is written as parts in order. The page shows them with live pictures; the sheet prints the
words, the equations and the exercises.
"""

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

import latex2mathml.converter
import streamlit as st

from datasets.catalogue import entry
from datasets.starts import film_of
from dgp_core.live.run import Run
from dgp_core.live.workshop import WorkshopError
from pages.ui import session, stage
from pages.ui.bar import dress, drive
from pages.ui.choices import OFFERED, SPEEDS, Choices, read_query
from pages.ui.sentences import in_words
from pages.ui.server import Elements, Scene

CITATION = (
    "Hugh Salimbeni and Marc Peter Deisenroth, “Doubly stochastic variational inference for deep "
    "Gaussian processes”, NIPS 2017"
)
STYLE = """<style>
[data-testid=stMainBlockContainer] { max-width: 66rem; padding-top: 4.2rem; }
[data-stale=true] { opacity: 1 !important; transition: none !important; }
.st-key-stage, .st-key-cookie { position: absolute; }
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


@dataclass(frozen=True)
class Words:
    """A stretch of the essay, in Markdown; $…$ is an equation."""

    text: str


@dataclass(frozen=True)
class Equation:
    """An equation, its number in the paper where it has one, and what it says."""

    tex: str
    says: str
    number: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture that the script makes, with whatever controls it needs."""

    show: Callable[[], None]
    says: str
    """What it shows, also for the sheet."""


@dataclass(frozen=True)
class Live:
    """A run that trains on the page, seen by one painter."""

    name: str
    choices: Choices
    paint: Callable[[Run, Any], Elements]
    style: tuple
    """Everything that the painter depends on beside run and moment."""
    hosts: tuple[tuple[tuple[str, int, str], ...], ...]
    """Rows of hosts: element, height, and the words above it. Height 0 is a line of words."""
    says: str
    controls: tuple[str, ...] = ()
    """Choices that may be changed under it."""
    offers: dict[str, tuple] = field(default_factory=dict)
    """What these controls offer, where that is less than in the playground."""
    film: tuple = ()
    """Shown while the run compiles; with other choices, the stored film of those, if any."""
    begin: Callable[[Choices], str] = session.start_with
    """Starts the run and returns its id; another one where choices cannot say what is special."""


@dataclass(frozen=True)
class Try:
    """Something to do, and what should happen."""

    do: str
    then: str


@dataclass(frozen=True)
class Question:
    """A question whose every answer answers back."""

    ask: str
    answers: tuple[tuple[str, bool, str], ...]
    """An answer, whether it is right, and why."""


Part = Words | Equation | Picture | Live | Try | Question


@dataclass(frozen=True)
class Lesson:
    """A whole lesson."""

    number: int
    title: str
    summary: str
    minutes: int
    parts: tuple[Part, ...]

    @property
    def lives(self) -> tuple[Live, ...]:
        return tuple(part for part in self.parts if isinstance(part, Live))


def show(lesson: Lesson, on_click: Callable[[], None] = lambda: None) -> None:
    """The lesson's page."""
    session.browser()
    session.arrive_at_lesson()
    manner = session.manner()
    with in_words("This lesson's runs could not be started. Reload the page."):
        _arrive(lesson)
        scenes = {live.name: _scene(lesson, live) for live in lesson.lives}
        session.play(scenes, on_click)
        st.title(f"{lesson.number} · {lesson.title}", anchor=False)
        st.caption(f"{lesson.summary} About {lesson.minutes} minutes.")
        for i, part in enumerate(lesson.parts):
            _show_part(lesson, i, part, manner.lock)
        _foot(lesson)
    session.keep_cookie()
    dress(STYLE)


def _show_part(lesson: Lesson, i: int, part: Part, locked: bool) -> None:
    if isinstance(part, Words):
        st.markdown(part.text)
    elif isinstance(part, Equation):
        number = rf" \tag{{{part.number}}}" if part.number else ""
        st.latex(part.tex + number)
        st.caption(part.says)
    elif isinstance(part, Picture):
        with st.container(border=True):
            part.show()
            st.caption(part.says)
    elif isinstance(part, Live):
        _show_live(lesson, part, locked)
    elif isinstance(part, Try):
        st.info(f"**Try this.** {part.do}\n\n**What should happen:** {part.then}")
    else:
        _show_question(lesson, i, part)


def current(lesson_number: int, live: Live) -> Choices:
    """What a live part shows now: its own choices, and what was changed under it."""
    changed = st.session_state.setdefault("lesson_choices", {})
    return changed.setdefault((lesson_number, live.name), live.choices)


def _arrive(lesson: Lesson) -> None:
    """Takes a teacher's link where it says something new: other settings, a step, or a run."""
    memory, query = st.session_state, dict(st.query_params)
    if memory.get("lesson_link") == (lesson.number, query):
        return
    memory.lesson_link = (lesson.number, query)
    for live in lesson.lives:
        key, start = (lesson.number, live.name), f"{live.name}."
        own = {n.removeprefix(start): said for n, said in query.items() if n.startswith(start)}
        if not own:
            continue
        memory.setdefault("lesson_followed", {})[key] = own.pop("run", None)
        taken, sentences = read_query(own)
        given = {f.name: getattr(taken, f.name) for f in fields(Choices) if f.name in own}
        memory.setdefault("lesson_choices", {})[key] = replace(live.choices, **given)
        for sentence in sentences:
            st.info(sentence, icon=":material/info:")


def _links(lesson: Lesson) -> tuple[str, str]:
    """The address of this very moment, for a run of one's own; and that of the run itself."""
    moment, follow = {}, {}
    for live in lesson.lives:
        choices = current(lesson.number, live)
        for name in (f.name for f in fields(Choices)):
            if getattr(choices, name) != getattr(live.choices, name):
                moment[f"{live.name}.{name}"] = f"{getattr(choices, name)}"
        run_id = st.session_state.lesson_runs[(lesson.number, live.name)]
        latest = session.workshop().watch(run_id).latest
        if latest is not None and latest.step:
            moment[f"{live.name}.at"] = f"{latest.step}"
        follow[f"{live.name}.run"] = run_id
    page = str(st.context.url).partition("?")[0]
    return f"{page}?{urlencode(moment)}", f"{page}?{urlencode(follow)}"


def _scene(lesson: Lesson, live: Live) -> Scene:
    """The part's run, started where there is none or where another one is wanted."""
    choices = current(lesson.number, live)
    kept: dict = st.session_state.setdefault("lesson_runs", {})
    run_id = kept.get((lesson.number, live.name))
    workshop = session.workshop()
    followed = st.session_state.get("lesson_followed", {}).get((lesson.number, live.name))
    if followed is not None:
        try:
            workshop.watch(followed)
        except WorkshopError:
            st.session_state.lesson_followed.pop((lesson.number, live.name))
            st.info("The run of this link is over: here is one of your own.")
        else:
            kept[(lesson.number, live.name)] = followed
            return Scene(followed, live.paint, (lesson.number, live.name, *live.style), live.film)
    if run_id is not None:
        try:
            run = workshop.watch(run_id)
        except WorkshopError:
            run_id = None
        else:
            if not session.is_mine(run_id):
                run_id = None
            elif session.started_with(run).shape != choices.shape:
                workshop.drop(run_id, session.browser())
                run_id = None
            else:
                session.follow(run, choices)
    if run_id is None:
        run_id = live.begin(choices)
        kept[(lesson.number, live.name)] = run_id
    own = choices.shape == live.choices.shape
    film = live.film if own else film_of(choices.dataset, choices.model)
    return Scene(run_id, live.paint, (lesson.number, live.name, *live.style), film)


def _show_live(lesson: Lesson, live: Live, locked: bool) -> None:
    run_id = st.session_state.lesson_runs[(lesson.number, live.name)]
    run = session.workshop().watch(run_id)
    with st.container(border=True):
        mine = session.is_mine(run_id)
        if mine:
            _bar(lesson, live, run, run_id)
        else:
            st.caption("You are watching your teacher's run.")
            stage.words(f"{live.name}/numbers", 20)
        if live.controls and mine and not locked:
            for name, column in zip(
                live.controls, st.columns(len(live.controls), gap="medium"), strict=True
            ):
                with column:
                    _control(lesson, live, name)
        for row in live.hosts:
            for column, (element, height, words) in zip(
                st.columns(len(row), gap="medium"), row, strict=True
            ):
                with column, st.container(gap="xsmall"):
                    if words:
                        st.markdown(f"**{words}**")
                    if height:
                        stage.picture(f"{live.name}/{element}", height)
                    else:
                        stage.words(f"{live.name}/{element}", 20)
        st.caption(live.says)


def _bar(lesson: Lesson, live: Live, run: Run, run_id: str) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        drive(run, partial(_wish, live, run_id), f"_{lesson.number}_{live.name}")
        stage.words(f"{live.name}/numbers", 20)


def _wish(live: Live, run_id: str, word: str) -> None:
    """A reset ends a run that began in a way of its own, so that the page begins it so again."""
    session.let_go()
    with in_words("This run is over. Reload the page for another one."):
        if word == "reset" and live.begin is not session.start_with:
            session.workshop().drop(run_id, session.browser())
            return
        getattr(session.workshop().control(run_id, session.browser()), word)()
        session.workshop().wake()


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
    """Links that open the lesson as it is here."""
    with st.popover("For a class", icon=":material/share:"):
        page = str(st.context.url).partition("?")[0]
        if lesson.lives:
            moment, follow = _links(lesson)
            st.markdown(
                "**This very moment:** the same settings, seed and step, a run of one's own."
            )
            st.code(moment, language=None, wrap_lines=True)
            st.markdown("**Follow me:** everybody who opens it watches the runs of this page.")
            st.code(follow, language=None, wrap_lines=True)
        st.markdown("**On a wall**, in large type; and **locked**, without controls.")
        st.code(f"{page}?view=projector", language=None, wrap_lines=True)
        st.code(f"{page}?lock=1", language=None, wrap_lines=True)
        st.caption("Add &embed=true to put it into a course page.")


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


def sheet(lesson: Lesson) -> str:
    """The lesson on paper: one HTML file that asks no server for anything; equations as MathML."""
    body = [f"<h1>{lesson.number} · {html.escape(lesson.title)}</h1>"]
    body.append(f"<p class=summary>{html.escape(lesson.summary)}</p>")
    exercise = 0
    for part in lesson.parts:
        if isinstance(part, Words):
            body += [_paragraph(text) for text in part.text.split("\n\n")]
        elif isinstance(part, Equation):
            tag = f"<span class=number>({html.escape(part.number)})</span>" if part.number else ""
            math = latex2mathml.converter.convert(part.tex, display="block")
            body.append(f"<div class=equation>{math}{tag}</div><p class=small>{_inline(part.says)}")
        elif isinstance(part, Try):
            exercise += 1
            body.append(f"<h3>Exercise {exercise}</h3><p>{_inline(part.do)}</p>")
            body.append("<p class=room>What happened?</p>")
        elif isinstance(part, Question):
            exercise += 1
            body.append(f"<h3>Exercise {exercise}</h3><p>{_inline(part.ask)}</p><ul class=choose>")
            body += [f"<li>{_inline(text)}</li>" for text, _, _ in part.answers]
            body.append("</ul><p class=room>Because:</p>")
        else:
            body.append(f"<p class=small>On screen: {_inline(part.says)}</p>")
    body.append(f"<footer>The paper: {CITATION}.</footer>")
    return PAGE.format(title=html.escape(lesson.title), body="\n".join(body))


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
@page {{ size: A4; margin: 18mm; }}
body {{ font: 11.5pt/1.5 Georgia, serif; max-width: 44rem; margin: 2rem auto; color: #111; }}
h1 {{ font-size: 20pt; }} h3 {{ break-after: avoid; margin-bottom: 0; }}
.summary, .small, footer {{ color: #444; font-size: 10pt; }}
.equation {{ display: flex; align-items: center; justify-content: center; gap: 2rem; }}
.room {{ min-height: 7rem; border: 1px solid #bbb; padding: .3rem .6rem; color: #777; }}
.choose {{ list-style: "☐  "; }}
</style></head><body>
{body}
</body></html>
"""


def _paragraph(text: str) -> str:
    """A heading, or the paragraph that it is."""
    if text.startswith("## "):
        return f"<h2>{_inline(text[3:])}</h2>"
    return f"<p>{_inline(text)}</p>"


def _inline(text: str) -> str:
    """The little Markdown that lessons use, as HTML: bold, emphasis, links' words, $equations$."""
    pieces = text.split("$")
    out = []
    for i, piece in enumerate(pieces):
        if i % 2:
            out.append(latex2mathml.converter.convert(piece))
            continue
        safe = html.escape(piece)
        out.append(_marks(safe))
    return "".join(out)


def _marks(text: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"(?<![*\w])\*([^*]+)\*", r"<i>\1</i>", text)
