"""A teacher's link to a lesson: the exact moment, or the teacher's own page to follow."""

import re
import time
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.stage import classroom
from pages.ui.stage.server import server
from tests.pages.opened import bars, elements, hosts, made, parts, scenes, told, viewer_of

APP = str(Path(__file__).parents[2] / "app.py")
PATIENCE = 240
LESSON, NAME = "does_depth_help", "line"

pytestmark = pytest.mark.usefixtures("moved_by_chance")


def open_lesson(name: str = LESSON, cookie: str = "", **query: str) -> AppTest:
    """A lesson by a link; a cookie is another page's browser."""
    page = AppTest.from_file(APP, default_timeout=PATIENCE)
    if cookie:
        page.session_state.browser = cookie
    page.switch_page(f"pages/learn/{name}.py")
    for key, value in query.items():
        page.query_params[key] = value
    page.run()
    assert not page.exception and not page.error
    return page


def run_of(page: AppTest, number: int = 9, name: str = NAME):
    return server().workshop.watch(page.session_state.lesson_runs[number, name])


def link_of(page: AppTest, which: int = 0) -> dict[str, str]:
    """What the page's link says: 0 is this very moment, 1 is to follow."""
    return dict(parse_qsl(urlsplit(page.code[1 - which].value).query))


def paused(page: AppTest) -> int:
    """The step at which the page's run has paused; to ask is to watch."""
    deadline = time.monotonic() + PATIENCE
    while (run := run_of(page)).latest is None or run.playing:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return run.latest.step


@pytest.fixture(scope="module")
def teacher() -> AppTest:
    return open_lesson(**{f"{NAME}.inducing": "5", f"{NAME}.seed": "7", f"{NAME}.at": "20"})


def test_a_link_opens_the_exact_settings_and_pauses_at_the_step(teacher):
    run = run_of(teacher)
    assert (run.model.inducing, run.train.seed) == (5, 7)
    assert paused(teacher) == 20


def test_what_was_done_by_hand_on_a_lesson_does_not_reach_the_next_page(teacher):
    teacher.session_state.by_hand = True
    assert "by_hand" not in teacher.run().session_state


def test_the_lesson_gives_these_links(teacher):
    step = paused(teacher)
    teacher.run()
    said = link_of(teacher)
    assert (said[f"{NAME}.inducing"], said[f"{NAME}.seed"]) == ("5", "7")
    assert said[f"{NAME}.at"] == f"{step}"
    assert re.fullmatch(r"[0-9a-f]{20}", link_of(teacher, 1)["follow"])
    assert teacher.session_state.browser not in teacher.code[0].value


def test_a_link_with_a_step_is_taken_by_a_session_that_has_such_a_run(teacher):
    before = teacher.session_state.lesson_runs[9, NAME]
    teacher.query_params[f"{NAME}.at"] = "10"
    teacher.run()
    assert teacher.session_state.lesson_runs[9, NAME] != before
    assert paused(teacher) == 10


def test_students_follow_the_teacher_s_page_through_restarts(teacher):
    follow = link_of(teacher, 1)
    student = open_lesson(**follow)
    runs = teacher.session_state.lesson_runs
    assert student.session_state.lesson_runs[9, NAME] == runs[9, NAME]
    assert any("teacher's run" in caption.value for caption in student.caption)
    assert NAME not in bars(student) and NAME in bars(teacher)
    before = runs[9, NAME]
    teacher.select_slider(key=f"lesson_9_{NAME}_layers").set_value(3).run()
    assert teacher.session_state.lesson_runs[9, NAME] != before
    student.run()
    assert student.session_state.lesson_runs[9, NAME] == runs[9, NAME]
    assert run_of(student).model.layers == 3
    assert not any("shows no run now" in info.value for info in student.info)


def test_a_student_starts_runs_of_their_own_with_the_same_settings(teacher):
    student = open_lesson(**link_of(teacher, 1))
    student.button(key="own_9").click().run()
    assert not student.exception
    own = student.session_state.lesson_runs[9, NAME]
    assert own != teacher.session_state.lesson_runs[9, NAME]
    assert run_of(student).model == run_of(teacher).model
    assert NAME in bars(student)


def test_a_teacher_who_opens_the_own_link_keeps_the_controls(teacher):
    again = open_lesson(cookie=teacher.session_state.browser, **link_of(teacher, 1))
    assert again.session_state.lesson_runs[9, NAME] == teacher.session_state.lesson_runs[9, NAME]
    assert NAME in bars(again)
    assert not any(button.key == "own_9" for button in again.button)


def test_a_reload_finds_its_run_and_its_settings_again(teacher):
    run = run_of(teacher)
    again = open_lesson(cookie=teacher.session_state.browser)
    assert run_of(again) is run and run.model.inducing == 5


def test_a_class_without_a_teacher_gives_students_their_own():
    student = open_lesson(follow="0" * 20, **{f"{NAME}.inducing": "5"})
    assert any("Nobody teaches" in info.value for info in student.info)
    assert run_of(student).model.inducing == 5


def test_classes_are_bounded_and_the_oldest_is_forgotten(monkeypatch):
    monkeypatch.setattr(classroom, "MOST_CLASSES", 2)
    known = classroom.Classrooms()
    for token in ("a", "b", "a", "c"):
        known.show(token, "path", 1, {}, {"run": token})
    assert known.runs("a", 1) == {"run": "a"} and known.runs("b", 1) == {}
    assert classroom.class_token("secret") != classroom.class_token("another")


def test_a_student_s_page_shows_what_the_teacher_s_does_and_cannot_be_moved():
    teacher = open_lesson("why_deep")
    student = open_lesson("why_deep", **link_of(teacher, 1))
    teacher.slider(key="compose_follow").set_value(0.5).run()
    teacher.button(key="redraw_first").click().run()
    student.run()
    assert student.slider(key="compose_follow").value == 0.5
    assert made(student) == made(teacher)
    assert student.slider(key="compose_follow").disabled
    assert student.button(key="redraw_first").disabled
    teacher.radio[0].set_value(teacher.radio[0].options[1]).run()
    student.run()
    assert student.radio[0].value == teacher.radio[0].value
    student.button(key="own_3").click().run()
    assert "follow" not in student.query_params
    assert student.slider(key="compose_follow").value == 0.5  # it stays, and is their own now
    assert not student.slider(key="compose_follow").disabled
    student.slider(key="compose_follow").set_value(-0.5).run()
    teacher.run()
    assert teacher.slider(key="compose_follow").value == 0.5


def test_only_the_part_that_changes_is_made_anew_for_students():
    rung: list[tuple[str, bool]] = []
    known = classroom.Classrooms(lambda token, anew: rung.append((token, anew)))
    values = {"slider": 1, "q_3_9": None, "place": 0.0}

    def show(path: str = "path", run: str = "a", **changed) -> classroom.Classroom:
        known.show("t", path, 3, values | changed, {"race": run}, whole=["place"])
        room = known.get("t")
        assert room is not None
        return room

    room = show()
    opened = room.version
    assert opened == room.changes == 1
    assert show(slider=2).version == opened and room.parts["slider"] == 2
    show(slider=2)
    assert len(rung) == 2  # nothing new
    assert show(slider=2, run="b").version == opened and room.parts[classroom.run_key("race")] == 3
    known.ask("t", "q_3_9")
    known.show("t", "path", 3, {"slider": 2, "place": 0.0}, {"race": "b"})  # without what is asked
    assert room.version == opened and room.parts["q_3_9"] == room.changes == 4
    known.reveal("t", "q_3_9")
    assert room.version == opened and room.parts["q_3_9"] == 5
    assert show(slider=2, run="b", place=0.5).version == room.changes == 6
    assert show("another", "b", slider=2, place=0.5).version == 7 and "slider" not in room.parts


def test_a_page_that_follows_has_parts_that_run_by_themselves():
    teacher = open_lesson("why_deep")
    assert not parts(teacher)
    student = open_lesson("why_deep", **link_of(teacher, 1))
    shown = [key for part in parts(student) for key in part["shows"]]
    assert {"compose_follow", classroom.run_key("race"), str(teacher.radio[0].key)} <= set(shown)
    before = run_of(student, 3, "race")
    teacher.segmented_control(key="lesson_3_race_data").set_value("ramp").run()
    student.run()
    assert run_of(student, 3, "race") is run_of(teacher, 3, "race") is not before
    assert scenes(student)["race"].run_id == scenes(teacher)["race"].run_id
    assert {part["version"] for part in parts(student)} == {room_of(teacher).changes}


def test_students_go_along_to_the_next_lesson():
    teacher = open_lesson("the_bound")
    student = open_lesson("the_bound", **link_of(teacher, 1))
    teacher.switch_page("pages/learn/why_deep.py").run()
    student.run()
    assert student.title[0].value.startswith("3") and "follow" in student.query_params


def with_followers(page: AppTest) -> AppTest:
    """The page as it is when somebody follows it."""
    page.session_state.teaching = True
    return page.run()


def of_class(page: AppTest) -> dict[str, dict]:
    """What a page's browser is told of its class."""
    return server().class_page(viewer_of(page))


def test_a_show_of_hands_is_counted_once_a_browser_and_without_names():
    teacher = with_followers(open_lesson("why_deep"))
    question = teacher.radio[0]
    key = str(question.key)
    students = [open_lesson("why_deep", **link_of(teacher, 1)) for _ in range(3)]
    teacher.button(key=f"ask_{key}").click().run()
    for student, answer in zip(students, (0, 1, 1), strict=True):
        assert of_class(student.run())[f"tally_{key}"]["counts"] is None  # before the own answer
        assert not student.success and not student.warning
        student.radio(key=key).set_value(question.options[answer]).run()
        assert not student.success and not student.warning
    students[0].radio(key=key).set_value(question.options[1]).run()  # another, not one more
    for page in (teacher, students[0]):
        assert of_class(page)[f"tally_{key}"] == {"hands": 3, "counts": [0, 3]}
    assert not any(s.session_state.browser in str(of_class(teacher)) for s in students)
    teacher.button(key=f"answer_{key}").click().run()
    for student in students:
        assert student.run().success and student.radio(key=key).disabled
    server().classrooms.vote(told_class(teacher), key, "another browser", 0)
    assert of_class(teacher)[f"tally_{key}"]["hands"] == 3  # it is over


def room_of(page: AppTest) -> classroom.Classroom:
    room = server().classrooms.get(told_class(page))
    assert room is not None
    return room


def told_class(page: AppTest) -> str:
    return classroom.class_token(page.session_state.browser)


def test_what_should_happen_waits_for_a_guess_or_for_the_teacher():
    page = open_lesson("why_deep")
    said = [info.value for info in page.info]
    assert said and not any("What should happen" in text for text in said)
    guess = page.text_input[0]
    submit = next(b for b in page.button if b.label == "Show what should happen")
    submit.click().run()
    assert any("guess first" in caption.value for caption in page.caption)
    page.text_input(key=guess.key).set_value("It [bends](https://example.com).")
    next(b for b in page.button if b.label == "Show what should happen").click().run()
    assert "What should happen" in page.info[0].value
    assert page.text[0].value == "Your guess: It [bends](https://example.com)."


@pytest.mark.parametrize(
    ("query", "opened", "offered"),
    [({"reveal": "open"}, True, False), ({"reveal": "withheld"}, False, False), ({}, False, True)],
)
def test_a_link_opens_or_withholds_what_should_happen(query, opened, offered):
    page = open_lesson("why_deep", **query)
    assert all(("What should happen" in info.value) is opened for info in page.info)
    assert any("Show what" in button.label for button in page.button) is offered
    assert bool(open_lesson("why_deep", solutions="1").success)


def test_the_teacher_s_reveal_opens_it_for_those_who_follow():
    teacher = with_followers(open_lesson("why_deep"))
    student = open_lesson("why_deep", **link_of(teacher, 1))
    assert not any("Show what" in button.label for button in student.button)
    next(b for b in teacher.button if b.label.startswith("Reveal what")).click().run()
    assert "What should happen" in student.run().info[0].value
    assert "solutions" not in link_of(teacher, 1)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({f"{NAME}.inducing": "4711"}, "'4711'"),
        ({f"{NAME}.layers": "5"}, "does not offer: 3 is taken"),
        ({f"{NAME}.data": "banana"}, "nearly_linear is taken"),
        ({"depth_set": "mars"}, "'mars'"),
    ],
)
def test_what_is_not_offered_is_said(query, said):
    page = open_lesson(**query)
    assert any(said in words for words in told(page))
    assert run_of(page).dataset.name == "nearly_linear"


@pytest.mark.parametrize(
    ("name", "query"),
    [
        (
            "what_is_a_gp",
            {
                "gp_points": "-1_0.5~1_-0.25",
                "gp_kernel": "matern12",
                "gp_lengthscale": "0.3",
                "gp_noise": "0.5",
                "gp_seed": "4",
            },
        ),
        ("inducing_points", {"sparse_m": "12", "sparse_placement": "random"}),
        (
            "why_deep",
            {
                "compose_first": "3",
                "compose_second": "2",
                "compose_mean": "zero",
                "compose_follow": "0.35",
            },
        ),
        ("why_not_zero_mean", {"prior_depth": "7", "prior_seed": "2"}),
        ("the_bound", {"belief_mean": "1.2", "belief_sd": "0.45"}),
        (
            "prediction_is_a_mixture",
            {
                "bent_middle": "0.3",
                "bent_deviation": "0.1",
                "bent_steepness": "7.8",
                "star_7": "1.55",
            },
        ),
        ("does_depth_help", {"depth_set": "energy"}),
    ],
)
def test_what_was_set_by_hand_is_in_the_link_and_comes_back(name, query):
    plain, page = open_lesson(name), open_lesson(name, **query)
    assert made(page) != made(plain)
    said = {key: value for key, value in link_of(page).items() if "." not in key}
    assert said == query
    assert not any(key in link_of(plain) for key in query)


def test_runs_that_start_when_asked_start_for_whoever_gets_the_link():
    page = open_lesson("classes", want_banana="1")
    assert "banana/deep" in hosts(page) and link_of(page)["want_banana"] == "1"
    page = open_lesson("for_practitioners", ailment="zero", **{"ill_zero.at": "7"})
    assert "ill_zero/deep" in hosts(page) and link_of(page)["ailment"] == "zero"
    student = open_lesson("for_practitioners", **link_of(page, 1))
    assert "ill_zero/deep" in hosts(student)
    page.segmented_control(key="ailment").set_value("rate").run()
    student.run()
    assert "ill_rate/deep" in hosts(student) and "ill_zero/deep" not in hosts(student)


@pytest.mark.parametrize("bad", ["nan", "", "9" * 400])
def test_nonsense_by_hand_is_said_and_left_out(bad):
    page = open_lesson("inducing_points", sparse_m=bad, sparse_placement=bad)
    assert page.slider(key="sparse_m").value in (1, 5, 30)
    for key in ("sparse_m", "sparse_placement"):
        assert any(key in words for words in told(page))


def test_too_many_points_are_left_out():
    page = open_lesson("what_is_a_gp", gp_points="~".join(["0_0"] * 41))
    assert page.session_state.gp_points == ()
    assert any("gp_points" in words for words in told(page))


def test_a_lock_holds_everything_but_the_play_of_runs():
    page = open_lesson("why_deep", lock="1")
    assert page.button(key="redraw_first").disabled and page.slider(key="compose_follow").disabled
    assert not any((c.key or "").startswith("lesson_3") for c in page.segmented_control)
    assert "race" in bars(page)
    figures = [part["figure"] for part in elements(page).values() if "figure" in part]
    assert figures and not any(figure["layout"].get("meta") for figure in figures)
    free = elements(open_lesson("why_deep"))["race/deep"]["figure"]
    assert free["layout"]["meta"]["drag"]
    page = open_lesson("what_is_a_gp", lock="1")
    assert page.button(key="gp_put").disabled and page.button(key="gp_example").disabled


def test_a_link_leaves_parts_out():
    page = open_lesson(hide="bar,rival,controls,words")
    assert f"{NAME}/deep" in hosts(page) and f"{NAME}/rival" not in hosts(page)
    assert not bars(page)
    assert not page.select_slider and not page.radio and not page.latex


def test_hidden_settings_leave_questions_and_take_the_pictures_own():
    """By a style, so that what the link has set still holds."""
    page = open_lesson("prediction_is_a_mixture", hide="controls", bent_steepness="8.0")
    assert any("st-key-by_hand_" in part.proto.body for part in page.get("html"))
    assert page.slider(key="bent_steepness").value == 8.0 and len(page.radio) == 3
    free = open_lesson("prediction_is_a_mixture")
    assert not any("st-key-by_hand_" in part.proto.body for part in free.get("html"))


def test_lock_and_large_type_stay_from_page_to_page():
    page = open_lesson(lock="1", view="projector")
    assert page.session_state.display_options.lock
    page.query_params.clear()
    page.switch_page("pages/learn/glossary.py").run()
    page.switch_page("pages/learn/why_deep.py").run()
    assert page.session_state.display_options.lock and page.session_state.display_options.projector


def test_a_link_may_lock_and_enlarge_as_well(teacher):
    teacher.checkbox(key="class_lock_9").check()
    teacher.checkbox(key="class_projector_9").check().run()
    for which in (0, 1):
        said = link_of(teacher, which)
        assert (said["lock"], said["view"]) == ("1", "projector")
    assert f"{NAME}.inducing" in link_of(teacher) and "follow" in link_of(teacher, 1)


def test_a_run_that_was_altered_is_said():
    page = open_lesson("for_practitioners")
    assert not any("moved during the run" in caption.value for caption in page.caption)
    deadline = time.monotonic() + PATIENCE
    while run_of(page, 11, "sizes").latest is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    page.select_slider(key="lesson_11_sizes_rate").set_value(0.05).run()
    assert any("moved during the run" in caption.value for caption in page.caption)


def test_a_stored_moment_is_skipped_to_and_back_and_those_who_follow_go_along():
    teacher = open_lesson("why_deep")
    student = open_lesson("why_deep", **link_of(teacher, 1))
    skip = next(b for b in teacher.button if b.label == "Skip to step 5,000")
    skip.click().run()
    for page in (teacher, student.run()):
        shown = elements(page)
        assert shown["race/numbers"]["text"] == "recording of step **5,000**"
        assert "at step 5000" in shown["race/deep"]["alt"]
        assert shown["race/wait"]["text"] == "" or "ompiling" in shown["race/wait"]["text"]
    assert not any("Skip" in b.label or "Back to" in b.label for b in student.button)
    next(b for b in teacher.button if b.label == "Back to the run").click().run()
    assert "5,000" not in elements(teacher)["race/numbers"]["text"]
    teacher.segmented_control[0].set_value("ramp").run()
    assert any(b.label == "Skip to step 6,000" for b in teacher.button)
