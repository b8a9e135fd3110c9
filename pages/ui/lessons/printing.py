"""A lesson's pictures as they stand, for its sheet, and the buttons that print."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from dgp_core.live.run import Run
from pages.ui import session
from pages.ui.lessons.link import find
from pages.ui.lessons.parts import Lesson, Live
from pages.ui.lessons.worksheet import Drawings, Drawn, booklet, figures, sheet
from pages.ui.stage import hosts as stage
from pages.ui.stage.hosts import Placed
from pages.ui.stage.server import Elements
from pages.ui.without_rival import without_rival

MOST_BESIDE = 3
"""Pictures in a row."""


def drawings(lesson: Lesson, placed: Mapping[int, Sequence[Placed]]) -> Drawings:
    """Rows of pictures by the number of their part: those that the script `placed`, and the live
    ones at their newest moment."""
    painted = {
        f"{live.name}/{name}": element
        for live in lesson.lives
        for name, element in _painted(lesson, live).items()
        if "figure" in element and element["figure"]["data"]  # else only words are there yet
    }
    found = {}
    for i, part in enumerate(lesson.parts):
        if isinstance(part, Live):
            shown = {picture.name for picture in placed.get(i, ())}  # a link may leave some out
            rows = [[(f"{part.name}/{name}", words) for name, _, words in r] for r in part.hosts]
            drawn = [
                [Drawn(w, painted[n]["figure"]) for n, w in row if n in painted and n in shown]
                for row in rows
            ]
        else:
            seen = [_placed(picture, painted) for picture in placed.get(i, ())]
            made = [one for one in seen if one is not None]
            drawn = [made[j : j + MOST_BESIDE] for j in range(0, len(made), MOST_BESIDE)]
        found[i] = [row for row in drawn if row]
    return found


def _placed(picture: Placed, painted: Mapping[str, dict]) -> Drawn | None:
    """A picture of the script's own, or a live one that it gave a place."""
    if picture.figure is not None:
        return Drawn(picture.says, picture.figure)
    element = painted.get(picture.name)
    return None if element is None else Drawn(element["alt"], element["figure"])


def _painted(lesson: Lesson, live: Live) -> Elements:
    """What the run of a live part shows now; where it has not begun, the last of its film."""
    run_id = st.session_state.get("lesson_runs", {}).get((lesson.number, live.name))
    run, moment = find(run_id), None
    if run is not None:
        moment = run.latest
    else:
        run = Run(live.choices.dataset, live.choices.model, live.choices.train)
    if moment is None and live.film:
        moment = live.film[-1]
    if moment is None:
        return {}
    hidden = "rival" in session.display_options().hide
    return without_rival(live.paint, run, moment) if hidden else live.paint(run, moment)


def print_button(key: str, label: str, file: str, make: Callable[[], tuple[str, dict]]) -> None:
    """A button that prints what `make` returns when it is pressed: HTML, and its figures."""
    memory = st.session_state

    def wished() -> None:
        memory[f"print_{key}"] = memory.get("sheets_made", 0) + 1
        memory.sheets_made = memory[f"print_{key}"]

    made = {}
    if serial := memory.get(f"print_{key}"):
        html, pictures = make()
        made = {"serial": serial, "file": file, "html": html, "figures": pictures}
    stage.paper(key, label, wished, lambda: memory.pop(f"print_{key}", None), made)


def printed(lesson: Lesson, placed: Mapping[int, Sequence[Placed]]) -> tuple[str, dict[str, str]]:
    """A lesson's sheet, and its figures."""
    drawn = drawings(lesson, placed)
    return sheet(lesson, drawn), figures([lesson], [drawn])


def printed_booklet(
    lessons: Sequence[Lesson], placed: Sequence[Mapping[int, Sequence[Placed]]]
) -> tuple[str, dict[str, str]]:
    """The sheets of all lessons, and their figures."""
    drawn = [drawings(lesson, of) for lesson, of in zip(lessons, placed, strict=True)]
    return booklet(lessons, drawn), figures(lessons, drawn)
