"""For teachers: a path of 90 minutes, the tools for a class, how to serve a room, solutions."""

import json
import os
from pathlib import Path

import streamlit as st

from pages.figures.palette import DARK
from pages.figures.scale import markdown_table
from pages.ui import session
from pages.ui.bar import dress
from pages.ui.classroom.room import room
from pages.ui.lessons import lesson
from pages.ui.lessons.order import lesson_pages, read_lesson
from pages.ui.lessons.printing import print_button, printed_booklet
from pages.ui.lessons.worksheet import solutions_booklet
from pages.ui.sentences import in_words
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

HERE = Path(__file__).parent
PICTURES = HERE / "pictures"
# What `python -m benchmarks.classroom --runs 1,10,30 --json` wrote.
MEASURED = HERE.parents[1] / "benchmarks" / "classroom.json"
STUDENTS = 30

PATH: tuple[tuple[int, str, str], ...] = (
    (
        5,
        "",
        "Put the room's QR code on the wall (**For a class**, then a click on the code). Students "
        "open the link and follow your page; the playground's step trains meanwhile.",
    ),
    (
        10,
        "what_is_a_gp",
        "Draws from the prior, then three points by hand. Ask the class what happens to the shade "
        "when a point moves up.",
    ),
    (
        5,
        "inducing_points",
        "By hand only: M from 5 to 20. Read the gap to the evidence aloud.",
    ),
    (
        15,
        "why_deep",
        "Start the race and leave it. Compose by hand: follow one input, draw another f¹. Back to "
        "the race at step 5,000. Ask whether more inducing points would help one layer.",
    ),
    (
        10,
        "why_not_zero_mean",
        "Layers from 1 to 10, one at a time; guesses first. The formulas are for home.",
    ),
    (
        10,
        "the_bound",
        "Find the best belief by hand. Then the nearly straight data: which band goes away?",
    ),
    (
        10,
        "what_independence_costs",
        "Both runs train while you put equation (12) beside the other posterior. At step 1,000, "
        "the two clouds at x = 0, guesses first. Ask why one of them is round.",
    ),
    (
        10,
        "doubly_stochastic",
        "Minibatch 100, then 10. Measure the two clouds once. Ask why every row may have its own "
        "ε.",
    ),
    (
        10,
        "prediction_is_a_mixture",
        "Bend a Gaussian by hand; then x* in the gap and on the plain.",
    ),
    (5, "does_depth_help", "kin8nm and energy only. What would you need to see to believe it?"),
)
"""Minutes, a lesson's script, and what to do in it; the rest is for home, on sheets."""

TOOLS: tuple[tuple[str, str, str, str], ...] = (
    (
        "link",
        "One link for the room",
        "The box **For a class**.",
        "At the foot of every lesson, **For a class** has the link that makes a page follow yours, "
        "its QR code (a click shows it on the whole screen), and a link of this very moment for "
        "runs of one's own. Below them: lock the settings, large type for a projector, embed it in "
        "a course page, leave parts out, and whether what should happen is shown.",
    ),
    (
        "follow",
        "Follow me",
        "A student's page: no buttons, and your run.",
        "A page that follows yours shows your sliders, answers, runs and place on the page, and "
        "goes along to the next lesson. Nobody but you can change anything; whoever presses **Stop "
        "following** keeps what is there as their own.",
    ),
    (
        "hands",
        "Show of hands",
        "The question on your page, while answers come in.",
        "Once a page follows yours, each question has **Ask the class**. Students choose; you see "
        "how many chose what, live and without names, and so does each of them after their own "
        "answer. **Reveal the answer** ends it.",
    ),
    (
        "reveal",
        "Reveal",
        "What everybody sees once you have pressed it.",
        "What should happen in a *Try this* waits for a guess on a student's own page, and for "
        "your **Reveal** on pages that follow yours.",
    ),
    (
        "sheet",
        "Sheets",
        "The first page of a sheet.",
        "**Printable sheet** saves a lesson as it stands, pictures and all, with a line for the "
        "name and room to write. The booklet below has all lessons.",
    ),
)
SOLUTIONS = "?solutions=1"


def measured() -> list[dict]:
    """What the benchmark of a class has left; nothing where it has left no file."""
    return json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.is_file() else []


def carried() -> str:
    """What each of many students has, as it was measured, in Markdown."""
    lines = [["Students, a run each", "Steps a second, each", "Pictures a second, each", "Memory"]]
    for row in measured():
        if "runs" in row:
            each = row["steps_per_s_total"] / row["runs"]
            cells = (f"{each:,.0f}", f"{row['snapshots_per_s_least']:.1f}", f"{row['held_mb']} MB")
            lines.append([f"{row['runs']}", *cells])
    return markdown_table(lines)


def expected() -> str:
    """The measured figures, what they were measured on, and how to measure one's own machine."""
    cores = os.cpu_count() or 1
    command = f"`.venv/bin/python -m benchmarks.classroom --runs 1,10,{STUDENTS} --seconds 30`"
    own = f"This server's machine has {cores} cores; {command} measures it."
    if not any(row.get("runs") == STUDENTS for row in measured()):
        return f"Not measured on this copy. {own}"
    loads = [row["load"] for row in measured() if "runs" in row]
    return (
        f"{carried()}\n\nMeasured on 2 cores with other work beside it (load {min(loads):g} to "
        f"{max(loads):g}): the step data, two layers, 25 inducing points, one process. {own} A "
        "class that follows you watches *your* runs, and costs far less than this."
    )


def lessons() -> dict[str, lesson.Lesson]:
    """Every lesson by its script, in the menu's order."""
    return {path: read_lesson(path) for path in lesson_pages()}


def titled(one: lesson.Lesson) -> str:
    return f"{one.number} · {one.title}"


def linked(one: lesson.Lesson, name: str) -> str:
    """A link to a lesson, with its solutions where this page has them."""
    return f"[{titled(one)}]({name}{SOLUTIONS if session.display_options().solutions else ''})"


def path_table(of: dict[str, lesson.Lesson]) -> str:
    """The way through 90 minutes, in Markdown."""
    named = {Path(path).stem: one for path, one in of.items()}
    lines, at = ["| Minutes | Lesson | What to do |", "|:--|:--|:--|"], 0
    for minutes, name, do in PATH:
        title = linked(named[name], name) if name in named else "Begin"
        lines.append(f"| {at}–{at + minutes} | {title} | {do} |")
        at += minutes
    return "\n".join(lines)


def others(of: dict[str, lesson.Lesson]) -> str:
    """What the path leaves out, and how long everything takes."""
    walked = {name for _, name, _ in PATH}
    left = [
        f"{linked(one, Path(path).stem)} ({one.minutes} minutes)"
        for path, one in of.items()
        if Path(path).stem not in walked
    ]
    total = sum(one.minutes for one in of.values())
    return (
        f"All {len(of)} lessons take {total} minutes, so this path leaves out most of the reading. "
        f"For home, or for a second session: {', '.join(left)}."
    )


def tools() -> None:
    """Each tool in words, with a picture of it."""
    night = "-dark" if page_ink() == DARK else ""
    for name, title, caption, says in TOOLS:
        left, right = st.columns([2, 3], gap="medium")
        left.subheader(title, anchor=name)
        left.markdown(says)
        with right.container(border=True):
            st.image(PICTURES / f"{name}{night}.png", caption=caption)


def booklets(of: dict[str, lesson.Lesson], solved: bool) -> None:
    """All sheets as one file, and their solutions."""

    def make() -> tuple[str, dict[str, str]]:
        with st.container(key="unseen"):  # controls of pictures that are only drawn on paper
            placed = [shown(one) for one in of.values()]
        return printed_booklet([*of.values()], placed)

    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        print_button("booklet", "All sheets as one booklet", "deep-gp-worksheets.html", make)
        if solved:
            print_button(
                "booklet_solved",
                "All solutions as one booklet",
                "deep-gp-solutions.html",
                lambda: (solutions_booklet([*of.values()]), {}),
            )


def shown(one: lesson.Lesson) -> dict[int, list[stage.Placed]]:
    """The pictures of a lesson's own script, as they are at first."""
    placed = {}
    for i, part in enumerate(one.parts):
        with stage.noting() as placed[i]:
            if isinstance(part, lesson.Picture):
                part.show()
            elif isinstance(part, lesson.Live):
                names = (f"{part.name}/{name}" for row in part.hosts for name, _, _ in row)
                placed[i].extend(map(stage.Placed, names))
    return placed


def solution(one: lesson.Lesson) -> None:
    """Every exercise and question of a lesson, solved."""
    exercise = 0
    for part in one.on_paper or one.parts:
        exercise += isinstance(part, lesson.Try | lesson.Question)
        if isinstance(part, lesson.Try):
            st.markdown(f"**{exercise}.** {part.do}\n\n{part.then}")
        elif isinstance(part, lesson.Question):
            st.markdown(f"**{exercise}.** {part.ask}")
            st.markdown(
                "\n".join(
                    f"- {'✓' if right else '✗'} **{text}** {why}"
                    for text, right, why in part.answers
                )
            )


session.browser()
session.arrive_at_lesson()
solved = session.display_options().solutions
with in_words("This page could not be shown. Reload it."):
    known = lessons()
    st.title("For teachers", anchor=False)
    st.markdown(
        "Ninety minutes on deep Gaussian processes that you can give tomorrow: a path through the "
        "lessons, the tools for a class, how to serve a room, sheets to print, and solutions."
    )
    st.header("Ninety minutes", anchor="ninety-minutes")
    st.markdown(path_table(known))
    st.markdown(others(known))
    st.header("The tools", anchor="tools")
    tools()
    st.header("Serving a room", anchor="room")
    st.markdown(
        "`make app` is for you alone. For others, start the app with\n\n"
        "```\nmake class                               # everyone in your network\n"
        "make class WORD=posterior                # only those who have the link with the word\n"
        "make class WORD=posterior PROCESSES=4    # several processes, for more than 5 students\n"
        "```\n\nIt prints the address and its QR code. The README says how to stand behind a "
        "proxy, and how many students a machine carries."
    )
    if room().address:
        st.markdown("This server serves a room: [its address and QR code, for a wall](room).")
    st.subheader(f"How fast it is for {STUDENTS} students", anchor="speed")
    st.markdown(expected())
    st.header("Sheets and solutions", anchor="sheets")
    st.markdown(
        "Every sheet has the lesson's words, equations, pictures and exercises. Save the booklet, "
        "open it, and print it, or print it to a PDF."
    )
    booklets(known, solved)
    if solved:
        for one in known.values():
            with st.expander(f"Solutions of {titled(one)}"):
                solution(one)
    else:
        st.markdown(
            "**Solutions** of every exercise and question are behind an option of the link, which "
            f"no link for students has: put `{SOLUTIONS}` at the end of this page's address. "
            "Lessons that you then open from here show theirs too, on your page alone."
        )
session.page_made()
dress(lesson.STYLE + "<style>.st-key-unseen { display: none; }</style>")
