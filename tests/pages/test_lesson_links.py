"""A teacher's link to a lesson: the exact moment, or the teacher's own run."""

import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.server import server

APP = str(Path(__file__).parents[2] / "app.py")
PATIENCE = 240
LESSON, NAME = "pages/learn/does_depth_help.py", "line"


def open_lesson(**query: str) -> AppTest:
    page = AppTest.from_file(APP, default_timeout=PATIENCE).switch_page(LESSON)
    for name, value in query.items():
        page.query_params[name] = value
    return page.run()


def run_of(page: AppTest):
    return server().workshop.watch(page.session_state.lesson_runs[(8, NAME)])


@pytest.fixture(scope="module")
def teacher() -> AppTest:
    return open_lesson(**{f"{NAME}.inducing": "5", f"{NAME}.seed": "7", f"{NAME}.at": "20"})


def test_a_link_opens_the_exact_settings_and_pauses_at_the_step(teacher):
    run = run_of(teacher)
    assert not teacher.exception and not teacher.error
    assert (run.model.inducing, run.train.seed) == (5, 7)
    deadline = time.monotonic() + PATIENCE
    while run.latest is None or run.playing:
        assert time.monotonic() < deadline
        run_of(teacher)
        time.sleep(0.05)
    assert run.latest.step == 20


def test_the_lesson_gives_these_links(teacher):
    teacher.run()
    links = [code.value for code in teacher.code]
    assert any(f"{NAME}.inducing=5" in link and f"{NAME}.at=" in link for link in links)
    run_id = teacher.session_state.lesson_runs[(8, NAME)]
    assert any(f"{NAME}.run={run_id}" in link for link in links)


def test_students_follow_the_teacher_s_run_and_cannot_change_it(teacher):
    run_id = teacher.session_state.lesson_runs[(8, NAME)]
    student = open_lesson(**{f"{NAME}.run": run_id})
    assert not student.exception and not student.error
    assert student.session_state.lesson_runs[(8, NAME)] == run_id
    assert any("teacher's run" in caption.value for caption in student.caption)
    keys = [button.key for button in student.button]
    assert not any(key and key.endswith(f"8_{NAME}") for key in keys)


def test_a_run_that_is_over_becomes_one_of_their_own():
    student = open_lesson(**{f"{NAME}.run": "gone", f"{NAME}.inducing": "5"})
    assert not student.exception and any("is over" in info.value for info in student.info)
    assert run_of(student).model.inducing == 5


def test_what_is_not_offered_is_said():
    page = open_lesson(**{f"{NAME}.inducing": "4711"})
    assert any("'4711'" in info.value for info in page.info) and not page.exception
