"""The lessons in their order, as the app's menu has them."""

import re
import runpy

from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.ui.lessons.parts import Lesson


def lesson_pages() -> dict[str, str]:
    """Each lesson's script and title; none where a page is run without its app."""
    context = get_script_run_ctx()
    pages = context.pages_manager.get_pages().values() if context is not None else ()
    found = {page["script_path"]: page.get("page_name", "") for page in pages}
    return {path: title for path, title in found.items() if re.match(r"\d+ · ", title)}


def this_page() -> str | None:
    """The script of the page that is shown."""
    context = get_script_run_ctx()
    if context is None:
        return None
    page = context.pages_manager.get_pages().get(context.page_script_hash)
    return page["script_path"] if page is not None else None


def next_lesson() -> tuple[str, str] | None:
    """The script and the title of the lesson after this one."""
    pages, here = list(lesson_pages().items()), this_page()
    return next((b for (path, _), b in zip(pages, pages[1:], strict=False) if path == here), None)


def read_lesson(path: str) -> Lesson:
    """What the script of a lesson defines, without showing it."""
    return runpy.run_path(path, run_name="lesson")["LESSON"]
