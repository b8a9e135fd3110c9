"""A teacher and two students in browsers of their own: students' pages show what the teacher's
does."""

from playwright.sync_api import Page, expect

from tests.browser.lesson_steps import button, host, trained_to

LESSON = "/why_deep"


def slider(page: Page):
    return page.locator(".st-key-compose_follow input")


def whole_page(page: Page) -> int:
    """The change of the class at which the whole page was last made."""
    return page.evaluate("dgpStage.lesson.version")


def test_a_class_of_two_sees_what_its_teacher_does(open_page):
    teacher = open_page(LESSON)
    trained_to(teacher, "race", 1)
    teacher.get_by_role("button", name="For a class").click()
    link = teacher.get_by_test_id("stCode").first
    expect(link).to_contain_text("?follow=")
    expect(teacher.get_by_text("Nobody else can open this link")).to_be_visible()
    expect(teacher.get_by_role("img", name="QR code of the link")).to_be_visible()
    path = LESSON + link.inner_text().strip().partition(LESSON)[2]
    teacher.keyboard.press("Escape")
    students = [open_page(path) for _ in range(2)]
    expect(teacher.get_by_text("2 pages follow this one.")).to_be_attached()

    made = [whole_page(student) for student in students]
    slider(teacher).press("ArrowRight")
    moved = slider(teacher).input_value()
    for student in students:
        expect(slider(student)).to_have_value(moved)
        expect(slider(student)).to_be_disabled()
        expect(student.locator(".st-key-compose_follow")).to_be_in_viewport()  # they went along

    button(teacher, "race", "Pause").click()
    for student in students:
        expect(host(student, "race/state")).to_contain_text("Whoever started this run")
        expect(student.locator(".stage-host[data-kind=bar]")).to_have_count(0)
        expect(student.get_by_role("button", name="Ask")).to_have_count(0)

    teacher.get_by_role("button", name="Ask the class").first.click()
    for i, student in enumerate(students):
        asked = student.locator("[class*=st-key-part_]").filter(has_text="Your teacher asks.")
        asked.get_by_role("radio").first.check(force=True)
        expect(asked.get_by_text(f"{i + 1} answer")).to_be_visible()
    tally = teacher.locator(".stage-tally dd").nth(1)
    expect(tally).to_have_text("2")
    teacher.get_by_role("button", name="Reveal the answer").click()
    for student in students:
        expect(student.get_by_test_id("stAlertContentSuccess")).to_be_visible()

    teacher.get_by_role("button", name="Reveal what should happen").first.click()
    for student in students:
        expect(student.get_by_text("What should happen:").first).to_be_attached()
    assert [whole_page(student) for student in students] == made  # only its parts were made anew
    left, stays = students
    left.get_by_role("button", name="Stop following").click()
    expect(slider(left)).to_be_enabled()
    expect(slider(left)).to_have_value(moved)
    teacher.get_by_role("link", name="Next lesson").click()
    expect(stays.get_by_role("heading", level=1)).to_contain_text("4 · ")
    expect(left.get_by_role("heading", level=1)).to_contain_text("3 · ")


def test_a_locked_or_embedded_page_has_no_menu(open_page):
    for path in (f"{LESSON}?lock=1", f"{LESSON}?embed=true"):
        page = open_page(path)
        expect(page.get_by_role("heading", level=1)).to_contain_text("3 · ")
        expect(host(page, "race/bar")).to_be_attached()
        expect(page.get_by_test_id("stTopNav")).to_have_count(0)
        expect(page.get_by_role("link", name="Next lesson")).to_have_count(0)
