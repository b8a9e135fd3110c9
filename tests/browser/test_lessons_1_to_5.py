"""Lessons 1 to 5 in a real browser: drawn, and every "try this" done once."""

import re

from playwright.sync_api import Page, expect

from tests.browser.lesson_steps import (
    BEGUN,
    COMPILED,
    answer,
    choose,
    drawn,
    go_to,
    host,
    listening,
    number_in,
    pause,
    redrawn,
    slide,
    trained_to,
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
    box = listening(host(page, "gp_picture"))

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
    trained_to(page, "drag", 300)
    pause(page, "drag")
    before = bound(page)
    drag_an_inducing_point(page)
    page.wait_for_function(
        """most => Number(document.querySelector(
             ".stage-host[data-name='drag/bound_words'] strong")?.textContent
             .replace("−", "-").replaceAll(",", "")) < most""",
        arg=before - 5,
    )
    page.get_by_role("button", name="Play").click()
    expect(host(page, "drag/state")).to_contain_text("Training")


def bound(page: Page) -> float:
    """What the line below the pictures says, in nats."""
    return number_in(host(page, "drag/bound_words").locator("strong").first.inner_text())


# Where the triangle nearest to the steep fall is, and the picture's right end: in pixels, and its
# number and its place in the data's units.
TRIANGLE = """box => {
  const trace = box._fullData.find((one) => one.name === "inducing points");
  const { xaxis, yaxis } = box._fullLayout;
  const frame = box.getBoundingClientRect();
  const far = (i) => Math.abs(trace.x[i] - 17.5);
  const i = [...trace.x.keys()].sort((a, b) => far(a) - far(b))[0];
  const at = (x) => frame.left + xaxis._offset + xaxis.d2p(x);
  const y = frame.top + yaxis._offset + yaxis.d2p(trace.y[i]);
  return { i, from: at(trace.x[i]), to: at(xaxis.range[1]) - 8, y, x: trace.x[i] }; }"""


def drag_an_inducing_point(page: Page) -> None:
    """Takes the triangle nearest to the steep fall to the right end, and sees it there."""
    box = listening(host(page, "drag/deep"))
    under_the_pointer(box)
    here = box.evaluate(TRIANGLE)
    page.mouse.move(here["from"], here["y"])
    expect(box).to_have_class(re.compile("stage-grip"))
    page.mouse.down()
    page.mouse.move(here["to"], here["y"], steps=4)
    page.mouse.up()
    page.wait_for_function(
        """([name, i, x]) => document.querySelector(`.stage-host[data-name='${name}']`)?._fullData
             ?.find((one) => one.name === "inducing points")?.x[i] > x + 10""",
        arg=["drag/deep", here["i"], here["x"]],
    )


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
    slide(page, "Standard deviation s of q(u)", "ArrowLeft", 11)
    expect(page.get_by_text("nats below the log evidence")).to_contain_text("0.00 nats")
    expect(host(page, "parts/state")).to_contain_text("Training", timeout=COMPILED)
    expect(host(page, "parts/layers_words")).to_contain_text("Layer 1: KL")
    choose(page, "Step")
    trained_to(page, "parts", 10)
    redrawn(page, "parts/parts")
    slide(page, "Depth", "ArrowRight", 2)
    expect(host(page, "parts/state")).to_contain_text(BEGUN)


def why_not_zero_mean(page: Page) -> None:
    redrawn(page, "prior_zero", lambda: slide(page, "Layers", "End"))
    expect(page.get_by_text("Slopes at 10 layers")).to_be_visible()
    redrawn(
        page, "prior_information", lambda: page.get_by_role("button", name="Draw others").click()
    )
    drawn(host(page, "zero/deep"))
    expect(host(page, "zero/state")).to_contain_text(BEGUN)
    choose(page, "Linear")
    expect(host(page, "zero/state")).to_contain_text(BEGUN)
    answer(page, "It passes its input on, unchanged.")
