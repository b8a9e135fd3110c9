"""Lessons 7 to 11 and the glossary in a real browser: drawn, and every control driven once."""

import re

from playwright.sync_api import Page, expect

from tests.browser.lesson_steps import (
    BEGUN,
    COMPILED,
    answer,
    button,
    choose,
    drawn,
    go_to,
    host,
    open_from_menu,
    pause,
    redrawn,
    rendered,
    slide,
    trained_to,
)


def test_every_lesson_is_played_through(open_page):
    page = open_page("/")
    drawn(page.locator(".stage-host[role=img]").first)
    does_depth_help(go_to(page, "does_depth_help", 9))
    doubly_stochastic(go_to(page, "doubly_stochastic", 7))
    prediction_is_a_mixture(go_to(page, "prediction_is_a_mixture", 8))
    classes(go_to(page, "classes", 10))
    for_practitioners(go_to(page, "for_practitioners", 11))
    glossary(page)


def test_a_link_is_of_the_moment_at_which_the_box_is_opened(open_page):
    page = open_page("/does_depth_help")
    trained_to(page, "line", 20)
    pause(page, "line")
    page.get_by_role("button", name="For a class").click()
    link = page.get_by_test_id("stCode").nth(1)
    expect(link).to_contain_text("line.at=")
    step = int(re.findall(r"line\.at=(\d+)", link.inner_text())[0])
    expect(host(page, "line/numbers").locator("strong").first).to_have_text(f"{step:,}")
    path = "/does_depth_help?" + link.inner_text().strip().partition("?")[2]
    other = open_page(path)
    trained_to(other, "line", step)
    expect(button(other, "line", "Play")).to_be_visible()
    expect(host(other, "line/numbers").locator("strong").first).to_have_text(f"{step:,}")


def test_students_see_their_teacher_s_new_run_by_themselves(open_page):
    teacher = open_page("/why_not_zero_mean")
    trained_to(teacher, "zero", 1)
    teacher.get_by_role("button", name="For a class").click()
    link = teacher.get_by_test_id("stCode").first
    expect(link).to_contain_text("follow=")
    student = open_page("/why_not_zero_mean?" + link.inner_text().strip().partition("?")[2])
    expect(student.get_by_text("You are watching your teacher's run.")).to_be_visible()
    teacher.keyboard.press("Escape")
    pause(teacher, "zero")
    choose(teacher, "Linear")
    expect(host(teacher, "zero/state")).to_contain_text("Training", timeout=COMPILED)
    trained_to(teacher, "zero", 1)
    step = pause(teacher, "zero")
    expect(host(student, "zero/numbers").locator("strong").first).to_have_text(f"{step:,}")
    expect(student.get_by_role("button", name="Stop following")).to_be_visible()


def test_hidden_settings_are_gone_and_questions_are_not(open_page):
    page = open_page("/prediction_is_a_mixture?hide=controls&bent_steepness=8.0")
    drawn(host(page, "bent_picture"))
    expect(page.get_by_role("radio").first).to_be_visible()
    expect(page.get_by_role("slider")).to_have_count(0)
    expect(button(page, "gap", "Pause")).to_be_visible()


def test_on_a_wall_type_is_large_and_space_pauses(open_page):
    page = open_page("/does_depth_help?view=projector")
    trained_to(page, "line", 1)
    large = """() => document.querySelector(".stage-host[data-name='line/deep']")
                 ?._fullLayout?.font.size > 14"""
    page.wait_for_function(large)
    expect(button(page, "line", "Pause")).to_be_visible()
    page.keyboard.press("Space")
    expect(button(page, "line", "Play")).to_be_visible()
    # The type of a picture that does not move grows with the page's.
    page.evaluate("() => { document.documentElement.style.fontSize = '16px'; }")
    page.wait_for_function(f"() => !({large})()")
    page.evaluate("() => { document.documentElement.style.fontSize = ''; }")
    page.wait_for_function(large)


def test_a_sheet_prints_on_several_pages(open_page):
    page = open_page("/for_practitioners")
    trained_to(page, "sizes", 1)
    pause(page, "sizes")
    with page.expect_download() as taken:
        page.get_by_role("button", name="Printable sheet").click()
    expect(page.get_by_text("Saved. Open the file, and print it.")).to_be_visible()
    page.set_content(taken.value.path().read_text("utf-8"))
    for picture in page.get_by_role("img").all():
        assert picture.evaluate("one => one.complete && one.naturalWidth > 200")
    assert page.get_by_role("img").count() >= 2 and page.locator("script").count() == 0
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF") and len(re.findall(rb"/Type\s*/Page\b", printed)) > 3


def does_depth_help(page: Page) -> None:
    redrawn(page, "line/deep")
    redrawn(page, "depth_picture", lambda: choose(page, "energy"))
    drawn(host(page, "jump/deep"))
    expect(page.get_by_role("table")).to_contain_text("Two layers")
    slide(page, "Depth", "End")
    expect(page.get_by_role("slider", name="Depth")).to_have_attribute("aria-valuetext", "3")
    drawn(host(page, "line/deep"))
    answer(page, "One layer is enough here. Keep it, or keep three without harm.")


def doubly_stochastic(page: Page) -> None:
    redrawn(page, "noise/deep")
    trained_to(page, "noise", 1)
    slide(page, "Row", "ArrowRight", 3)
    page.get_by_role("button", name="Ask this row").click()
    expect(page.get_by_text("That is rounding.")).to_be_visible(timeout=COMPILED)
    drawn(host(page, "alone_picture"))
    page.get_by_role("button", name="Measure this moment").click()
    expect(page.get_by_text("The mean of 400 estimates is")).to_be_visible(timeout=COMPILED)
    redrawn(page, "spread_picture", lambda: slide(page, "Samples per row, S", "ArrowRight"))
    redrawn(page, "running_picture", lambda: slide(page, "Rows in a minibatch, B", "End"))
    answer(page, "Yes: one die is left, the sample paths.")
    slide(page, "Minibatch", "Home")
    expect(page.get_by_role("slider", name="Minibatch").first).to_have_attribute(
        "aria-valuetext", "10"
    )
    drawn(host(page, "noise/deep"))


def prediction_is_a_mixture(page: Page) -> None:
    for label, key in (
        ("Steepness of layer 2", "End"),
        ("Standard deviation of h", "Home"),
        ("Mean of h", "End"),
    ):
        redrawn(page, "bent_picture", lambda label=label, key=key: slide(page, label, key))
    drawn(host(page, "gap/deep"))
    drawn(host(page, "fork/deep"))
    words = host(page, "gap/mixture_words")
    expect(words).to_contain_text("of the variance is between", timeout=COMPILED)
    slide(page, "Place x*", "End")
    expect(host(page, "gap/mixture_title")).to_have_text("The mixture at x = 2")
    answer(page, "No: the paths may disagree.")


def classes(page: Page) -> None:
    drawn(host(page, "spiral/rival"))
    expect(host(page, "spiral/cut_words")).to_contain_text("A straight line separates")
    redrawn(page, "digits/after")
    drawn(host(page, "digits/before"))
    expect(host(page, "digits/nearest_words")).to_contain_text("as they leave layer 1")
    page.get_by_text("Train on the bananas", exact=True).click()
    drawn(host(page, "banana/deep"))
    answer(page, "About one half for each of two classes.")


def for_practitioners(page: Page) -> None:
    drawn(host(page, "sizes/deep"))
    for title, key in (
        ("Zero mean", "zero"),
        ("Huge learning rate", "rate"),
        ("No scaling", "scale"),
        ("Random Z", "random"),
        ("float32", "float32"),
    ):
        choose(page, title)
        drawn(host(page, f"ill_{key}/deep"))
        drawn(host(page, f"well_{key}/deep"))
        expect(host(page, f"ill_{key}/state")).to_contain_text(BEGUN)
    slide(page, "Inducing points", "Home")
    drawn(host(page, "sizes/deep"))
    answer(page, "Standardise each column by the training rows.")


def glossary(page: Page) -> None:
    link = page.get_by_role("link", name="overfitting", exact=True)
    assert link.evaluate("link => new URL(link.href).pathname") == "/glossary"
    anchor = link.evaluate("link => new URL(link.href).hash")
    open_from_menu(page, "glossary")
    expect(page.get_by_role("heading", level=1)).to_have_text("Glossary")
    rendered(page, 0)
    expect(page.locator(anchor)).to_be_visible()
    page.evaluate("anchor => { window.location.hash = anchor; }", anchor)
    expect(page.locator(anchor)).to_be_in_viewport()
    page.get_by_role("textbox", name="Find a term").fill("jitter")
    page.get_by_role("textbox", name="Find a term").press("Enter")
    expect(page.locator(anchor)).to_have_count(0)
    expect(page.locator("#jitter")).to_be_visible()
