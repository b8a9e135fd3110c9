"""The page for teachers, and what it prints: all sheets, and solutions only where they are asked
for."""

import json
import re
from base64 import b64decode
from typing import Any

import numpy as np
import pytest
from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.testing.v1 import AppTest

from pages.figures.palette import DARK, LIGHT, tint
from pages.ui.lessons.parts import Question, Try
from pages.ui.lessons.worksheet import Drawn, booklet, figures, sheet, solutions
from pages.ui.theme import on_paper
from tests.pages.opened import LEARN, names_of
from tests.pages.test_lesson_links import open_lesson

LESSONS = sorted(
    path.stem for path in LEARN.glob("*.py") if "\nLESSON = " in path.read_text("utf-8")
)


@pytest.fixture(scope="module")
def page() -> AppTest:
    return open_lesson("for_teachers")


def text_of(page: AppTest) -> str:
    return "\n".join(part.value for part in page.markdown)


def _papers(page: AppTest) -> dict[str, tuple[Any, dict]]:
    found = [component.proto for component in page.get("bidi_component")]
    told = [(p, json.loads(p.json)) for p in found if p.component_name == "stage_host"]
    return {data["label"]: (p, data) for p, data in told if data["kind"] == "paper"}


def papers(page: AppTest) -> dict[str, dict]:
    """What the buttons that print are told, by their labels."""
    return {label: data for label, (_, data) in _papers(page).items()}


def press(page: AppTest, label: str, event: str = "command") -> AppTest:
    """What the browser tells when such a button is pressed, or its file is saved."""
    proto, _ = _papers(page)[label]
    states = page._tree.get_widget_states()
    told = json.dumps([{"event": event, "value": True}])
    states.widgets.add(id=_make_trigger_id(proto.id, "events"), json_trigger_value=told)
    return page._run(states)


def test_the_path_takes_ninety_minutes_and_leads_to_lessons_that_are(page):
    table = next(part.value for part in page.markdown if "| Minutes |" in part.value)
    ends = [(int(a), int(b)) for a, b in re.findall(r"\| (\d+)–(\d+) \|", table)]
    assert ends[0][0] == 0 and ends[-1][1] == 90
    assert all(before[1] == after[0] for before, after in zip(ends, ends[1:], strict=False))
    walked = re.findall(r"\]\((\w+)\)", table)
    assert "what_independence_costs" in walked  # the paper's central claim
    linked = set(re.findall(r"\]\((\w+)\)", text_of(page)))
    assert set(LESSONS) <= linked  # on the path, or for home
    minutes = sum(names_of(name)["LESSON"].minutes for name in LESSONS)
    assert f"All {len(LESSONS)} lessons take {minutes} minutes" in text_of(page)


def test_what_thirty_students_get_is_what_was_measured(page):
    rows = json.loads((LEARN.parents[1] / "benchmarks" / "classroom.json").read_text("utf-8"))
    (row,) = (row for row in rows if row.get("runs") == 30)
    assert f"| 30 | {row['steps_per_s_total'] / 30:,.0f} |" in text_of(page)


def test_solutions_are_shown_only_by_the_link_s_option(page):
    secrets = [
        part.then
        for name in LESSONS
        for part in names_of(name)["LESSON"].parts
        if isinstance(part, Try)
    ]
    assert not any(secret in text_of(page) for secret in secrets)
    assert "All solutions as one booklet" not in papers(page)
    solved = open_lesson("for_teachers", solutions="1")
    assert all(secret in text_of(solved) for secret in secrets)
    assert "(why_deep?solutions=1)" in text_of(solved) and "(why_deep)" in text_of(page)
    press(solved, "All solutions as one booklet")
    told = papers(solved)["All solutions as one booklet"]["sheet"]
    assert told["html"].count("<h1>Solutions: ") == len(LESSONS)
    assert ": solutions</h1>" in told["html"] and "Name" not in told["html"]  # nobody fills it in


def test_the_booklet_has_every_lesson_with_its_pictures(page):
    press(page, "All sheets as one booklet")
    assert not page.exception and not page.error
    told = papers(page)["All sheets as one booklet"]["sheet"]
    for name in LESSONS:
        lesson = names_of(name)["LESSON"]
        assert f"<h1>{lesson.number} · " in told["html"]
        assert any(place.startswith(f"{lesson.number}-") for place in told["figures"]), name
    places = re.findall(r'data-picture="([\d-]+)"', told["html"])
    assert sorted(places) == sorted(told["figures"]) and len(places) == len(set(places))
    drawn = [json.loads(figure) for figure in told["figures"].values()]
    assert all(figure["layout"]["height"] and figure["data"] for figure in drawn)
    press(page, "All sheets as one booklet", "done")
    assert papers(page)["All sheets as one booklet"]["sheet"] == {}


def test_a_lesson_s_sheet_has_its_pictures_as_they_stand():
    page = open_lesson("what_is_a_gp", gp_points="-1_0.5~1_-0.25", gp_kernel="matern12")
    told = papers(press(page, "Printable sheet"))["Printable sheet"]["sheet"]
    pictures = [json.loads(figure) for figure in told["figures"].values()]
    (own,) = (t for p in pictures for t in p["data"] if t.get("name") == "your points")
    assert np.frombuffer(b64decode(own["y"]["bdata"]), "f4").tolist() == [0.5, -0.25]
    assert "<span>Name</span>" in told["html"] and told["file"] == "lesson-1.html"
    assert "Its solutions" not in papers(page)


@pytest.mark.parametrize("name", LESSONS)
def test_a_second_sheet_solves_every_exercise_of_the_first(name):
    lesson = names_of(name)["LESSON"]
    first, second = sheet(lesson), solutions(lesson)
    tasks = [p for p in lesson.on_paper or lesson.parts if isinstance(p, Try | Question)]
    assert first.count("<h3>Exercise") == second.count("<h3>Exercise") == len(tasks)
    right = sum(ok for task in tasks if isinstance(task, Question) for _, ok, _ in task.answers)
    assert second.count("<li class=right>") == right and "class=right>" not in first
    assert not any(mark in second for mark in ("**", "](", "$"))


def test_pictures_are_printed_in_the_ink_of_paper():
    lesson = names_of("the_bound")["LESSON"]
    i = next(i for i, part in enumerate(lesson.parts) if hasattr(part, "show"))
    night = {"data": [{"line": {"color": DARK.deep}}], "layout": {"font": {"color": DARK.text}}}
    night["layout"]["fill"] = tint(DARK.single, 0.25)
    drawn = {i: [[Drawn("a <b> picture", night), Drawn("another", night)]]}
    told = figures([lesson], [drawn])
    assert [*told] == [f"{lesson.number}-{i}-0-0", f"{lesson.number}-{i}-0-1"]
    day = json.loads(told[f"{lesson.number}-{i}-0-0"])
    assert day["data"][0]["line"]["color"] == LIGHT.deep
    assert day["layout"] == {"font": {"color": LIGHT.text}, "fill": tint(LIGHT.single, 0.25)}
    assert on_paper(json.dumps(day)) == json.dumps(day)
    text = booklet([lesson], [drawn])
    assert all(f'data-picture="{place}"' in text for place in told)
    assert "a &lt;b&gt; picture" in text and "a <b> picture" not in text
