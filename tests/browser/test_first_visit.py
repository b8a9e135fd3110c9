"""A fresh server's first visitor may come by any link, and is told what this is, once."""

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


def test_a_first_visit_has_three_ways_on_and_does_not_come_back(open_page):
    page = open_page("/", first_visit=True)
    card = page.get_by_role("complementary", name="A first visit")
    expect(card).to_contain_text("deep Gaussian process")
    expect(card.get_by_role("img")).to_be_visible()
    for name, path in (("Learn", "what_is_a_gp"), ("Bring data", "your_data")):
        expect(card.get_by_role("link", name=name)).to_have_attribute("href", path)
    card.get_by_role("button", name="Play").click()
    expect(card).to_be_hidden()
    page.goto(page.url.partition("?")[0])
    expect(page.locator(".stage-host[role=img]").first).to_be_visible()
    expect(page.locator(".first-visit")).to_be_attached()
    expect(card).to_be_hidden()


def test_who_comes_by_a_link_is_not_stopped(open_page):
    page = open_page("/?data=nearly_linear&layers=1&inducing=5", first_visit=True)
    expect(page.locator(".stage-host[role=img]").first).to_be_visible()
    expect(page.locator(".st-key-bar")).to_be_visible()
    expect(page.locator(".first-visit")).to_have_count(0)
