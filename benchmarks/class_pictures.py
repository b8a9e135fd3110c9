"""The pictures of the page for teachers, taken of a class in Chromium, by day and by night.

python -m benchmarks.class_pictures [--folder pages/learn/pictures]
"""

import argparse
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, sync_playwright

from benchmarks.class_follow import LESSON, PATIENCE, follow_link
from tests.browser.app_server import served
from tests.browser.conftest import FLAGS
from tests.browser.get_browser import find_browser

FOLDER = Path(__file__).parents[1] / "pages" / "learn" / "pictures"
SIZE = {"width": 860, "height": 720}
STUDENTS = 3
MAIN = "document.querySelector('[data-testid=stMain]')"


def open_page(browser: Browser, url: str, theme: str) -> Page:
    context = browser.new_context(viewport=SIZE, color_scheme=theme)  # pyright: ignore
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(url)
    page.locator(".stage-host[role=img][data-drawn]").first.wait_for()
    return page


def part(page: Page, words: str) -> Locator:
    return page.locator("[class*=st-key-part_]").filter(has_text=words).last


def take(browser: Browser, url: str, theme: str, folder: Path) -> None:
    """One class, picture by picture."""
    end = "-dark.png" if theme == "dark" else ".png"
    teacher = open_page(browser, url + LESSON, theme)
    path = follow_link(teacher).partition(LESSON)[2]
    students = [open_page(browser, url + LESSON + path, theme) for _ in range(STUDENTS)]
    teacher.get_by_role("button", name="Ask the class").first.wait_for()

    teacher.evaluate(f"{MAIN}.scrollTo(0, 0)")
    students[0].wait_for_function(f"() => {MAIN}.scrollTop === 0")
    students[0].locator('.stage-host[data-name="race/deep"] .main-svg').first.wait_for()
    students[0].screenshot(path=folder / f"follow{end}")

    teacher.get_by_role("button", name="Ask the class").first.click()
    for i, student in enumerate(students):
        asked = part(student, "Your teacher asks.")
        asked.get_by_role("radio").nth(min(i, 1)).check(force=True)
    teacher.locator(".stage-tally dd", has_text=str(STUDENTS - 1)).first.wait_for()
    question = part(teacher, "answers so far")
    question.screenshot(path=folder / f"hands{end}")

    teacher.get_by_role("button", name="Reveal what should happen").first.click()
    revealed = part(teacher, "What should happen:")
    revealed.wait_for()
    revealed.screenshot(path=folder / f"reveal{end}")

    with teacher.expect_download() as taken:
        teacher.get_by_role("button", name="Printable sheet").click()
    paper = teacher.context.new_page()
    paper.set_content(taken.value.path().read_text("utf-8"))
    paper.locator("img").first.wait_for()
    paper.screenshot(path=folder / f"sheet{end}")

    teacher.set_viewport_size({"width": SIZE["width"], "height": 1000})
    teacher.get_by_role("button", name="For a class").click()
    teacher.get_by_role("img", name="QR code of the link").wait_for()
    teacher.get_by_test_id("stPopoverBody").screenshot(path=folder / f"link{end}")
    for page in (teacher, *students):
        page.context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    args = parser.parse_args()
    args.folder.mkdir(exist_ok=True, parents=True)
    path_to_browser = find_browser()
    with served() as (url, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path_to_browser, args=list(FLAGS))
        for theme in ("light", "dark"):
            take(browser, url, theme, args.folder)
        browser.close()


if __name__ == "__main__":
    main()
