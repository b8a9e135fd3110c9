"""A fresh server's first visitor may come by any link."""

from playwright.sync_api import expect

from tests.browser.conftest import bad


def test_the_very_first_visit_may_go_straight_to_a_page(browser, fresh_url):
    page = browser.new_context().new_page()
    errors = []
    page.on("console", lambda line: errors.append(line.text) if bad(line) else None)
    page.goto(fresh_url + "/prior")
    expect(page.get_by_role("heading", name="Before any data")).to_be_visible()
    expect(page.get_by_text("Page not found")).to_have_count(0)
    assert errors == []
    page.context.close()
