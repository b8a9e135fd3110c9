"""Lessons 1 to 5 in a real browser: drawn, and every "try this" done once."""

import re

from playwright.sync_api import Page, expect

from tests.browser.lesson_steps import (
    COMPILED,
    answer,
    choose,
    drawn,
    go_to,
    host,
    redrawn,
    slide,
    under_the_pointer,
)


def test_every_lesson_is_played_through(open_page):
    page = open_page("/")
    drawn(page.locator(".stage-host[role=img]").first)
    what_is_a_gp(go_to(page, "what_is_a_gp", 1))
    inducing_points(go_to(page, "inducing_points", 2))
    why_deep(go_to(page, "why_deep", 3))
    the_bound(go_to(page, "the_bound", 5))
    why_not_zero_mean(go_to(page, "why_not_zero_mean", 4))


def what_is_a_gp(page: Page) -> None:
    box = host(page, "gp_picture")

    def click():
        box.scroll_into_view_if_needed()
        frame = box.bounding_box()
        assert frame is not None
        page.mouse.click(frame["x"] + 0.52 * frame["width"], frame["y"] + 0.4 * frame["height"])

    redrawn(page, "gp_picture", click)
    expect(page.get_by_text("1 point seen.")).to_be_visible()
    redrawn(page, "gp_picture", lambda: page.get_by_role("button", name="Clear").click())
    redrawn(page, "gp_picture", lambda: slide(page, "Lengthscale ℓ", "ArrowLeft", 3))
    redrawn(page, "gp_picture", lambda: page.get_by_role("button", name="Draw others").click())
    redrawn(page, "kernel_picture", lambda: choose(page, "Matérn 1/2"))
    redrawn(page, "gp_picture", lambda: page.get_by_role("button", name="Three points").click())
    expect(page.get_by_text("3 points seen.")).to_be_visible()
    answer(page, "It passes between them, and is surer there than after one point.")


def inducing_points(page: Page) -> None:
    expect(page.get_by_text("With 5 inducing points")).to_contain_text("115.10 nats")
    slide(page, "Inducing points M", "ArrowRight", 5)
    expect(page.get_by_text("With 10 inducing points")).to_contain_text("2.43 nats")
    choose(page, "All on the left")
    expect(page.get_by_text("With 10 inducing points")).to_contain_text("122.59 nats")
    state = host(page, "drag/state")
    expect(state).to_contain_text("Training", timeout=COMPILED)
    page.get_by_role("button", name="Pause").click()
    expect(state).to_contain_text("Paused")
    before = drag_an_inducing_point(page)
    page.wait_for_function(
        "before => document.querySelector(\".stage-host[data-name='drag/bound_words']\")"
        ".innerText !== before",
        arg=before,
    )
    page.get_by_role("button", name="Play").click()
    expect(state).to_contain_text("Training")


def drag_an_inducing_point(page: Page) -> str:
    """Takes the second triangle from the left to the right end; returns the bound before."""
    box = host(page, "drag/deep")
    under_the_pointer(box)
    places = box.evaluate(
        """box => {
             const trace = box._fullData.find((one) => one.name === "inducing points");
             const { xaxis, yaxis } = box._fullLayout;
             const frame = box.getBoundingClientRect();
             const order = [...trace.x.keys()].sort((a, b) => trace.x[a] - trace.x[b]);
             const at = (x) => frame.left + xaxis._offset + xaxis.d2p(x);
             return [at(trace.x[order[1]]), at(xaxis.range[1]) - 8,
                     frame.top + yaxis._offset + yaxis.d2p(trace.y[0])]; }"""
    )
    before = host(page, "drag/bound_words").inner_text()
    page.mouse.move(places[0], places[2])
    page.mouse.down()
    page.mouse.move(places[1], places[2], steps=4)
    page.mouse.up()
    return before


def why_deep(page: Page) -> None:
    drawn(host(page, "race/rival"))
    redrawn(page, "race/deep")
    for name in ("Draw another f¹", "Draw another f²"):
        button = page.get_by_role("button", name=name)
        redrawn(page, "compose_both_map", button.click)
    before = host(page, "compose_second_map").inner_text()
    slide(page, "Follow one input x", "ArrowRight", 4)
    expect(host(page, "compose_second_map")).not_to_have_text(before)
    expect(page.get_by_text("-0.80", exact=True)).to_be_visible()
    choose(page, "Ramp that turns rough")
    redrawn(page, "race/deep")
    answer(page, "It is flat too, whatever the second layer is.")


def the_bound(page: Page) -> None:
    redrawn(page, "parts/deep")
    expect(page.get_by_text("nats below the log evidence")).to_contain_text("4.80")
    slide(page, "Mean m of q(u)", "PageUp", 2)
    slide(page, "Mean m of q(u)", "ArrowRight", 4)
    slide(page, "Deviation s of q(u)", "ArrowLeft", 11)
    expect(page.get_by_text("nats below the log evidence")).to_contain_text("0.00 nats")
    expect(host(page, "parts/state")).to_contain_text("Training", timeout=COMPILED)
    expect(host(page, "parts/layers_words")).to_contain_text("Layer 1: KL")
    choose(page, "Step")
    redrawn(page, "parts/parts")
    slide(page, "Depth", "ArrowRight", 2)
    expect(host(page, "parts/state")).to_contain_text("Compiling")


def why_not_zero_mean(page: Page) -> None:
    redrawn(page, "prior_zero", lambda: slide(page, "Layers", "End"))
    expect(page.get_by_text("Slopes at 10 layers")).to_be_visible()
    redrawn(
        page, "prior_information", lambda: page.get_by_role("button", name="Draw others").click()
    )
    drawn(host(page, "zero/deep"))
    expect(host(page, "zero/state")).to_contain_text(re.compile("Compiling|Training"))
    choose(page, "Linear")
    expect(host(page, "zero/state")).to_contain_text(re.compile("Compiling|Training"))
    answer(page, "It hands its input on, unchanged.")
