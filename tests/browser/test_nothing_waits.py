"""A run that is replaced, clicks and drags, while the server has not answered yet."""

import json
import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.lesson_steps import COMPILED, under_the_pointer
from tests.browser.test_playground import (
    DEEP,
    INDUCING,
    SMALL,
    STEP,
    another_run,
    pause,
    pixel,
    press,
    rises,
    run_of,
    settled,
    state,
    trains,
)

PUT = f"{DEEP} .stage-mark-put"
STALE = ".stage-host.stage-stale"
COUNT = f"() => document.querySelector('{DEEP}')?._fullData?.find(t => t.name === 'data')?.x.length"
TRIANGLE = f"""() => {{
  const groups = [...document.querySelectorAll('{DEEP} .scatterlayer .trace')];
  const own = groups.find(one => one.__data__[0].trace.name === 'inducing points');
  const place = own.querySelector('.point').getBoundingClientRect();
  return place.x + place.width / 2; }}"""


class Frames:
    """What the server sends to a page's socket, which can be held back."""

    def __init__(self):
        self.held: list | None = None

    def lead(self, way: WebSocketRoute) -> None:
        self.way = way
        way.connect_to_server().on_message(self.pass_on)

    def pass_on(self, message: str | bytes) -> None:
        if self.held is None:
            self.way.send(message)
        else:
            self.held.append(message)

    def hold(self) -> None:
        self.held = []

    def let_go(self) -> None:
        held, self.held = self.held or [], None
        for message in held:
            self.way.send(message)

    def open(self, open_page, path: str) -> Page:
        route = re.compile("/stage/")
        return open_page(path, prepare=lambda page: page.route_web_socket(route, self.lead))


def test_what_is_of_a_replaced_run_is_dimmed_until_the_new_one_is_drawn(open_page):
    frames = Frames()
    page = trains(frames.open(open_page, SMALL + "&speed=100"))
    title = page.locator('[data-name="main/layer_0_title"]')
    expect(title).to_contain_text("Layer 1 of 2")
    run = run_of(page)
    frames.hold()
    page.get_by_role("slider", name="Depth").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("Deep model: 1 layer")).to_be_visible()
    for name in ("deep", "rival", "bound", "layer_0", "mixture"):
        picture = page.locator(f'{STALE}[data-name="main/{name}"]')
        expect(picture).to_have_attribute("aria-busy", "true")
        expect(picture.locator(".plot-container")).to_have_css("opacity", "0.3")
    expect(title).not_to_be_visible()  # nobody reads "Layer 1 of 2" under "1 layer"
    assert page.locator(DEEP).evaluate("box => getComputedStyle(box).opacity") == "1"
    frames.let_go()
    another_run(page, run)
    expect(page.locator(STALE)).to_have_count(0, timeout=COMPILED)
    expect(title).to_contain_text("The whole model")
    expect(title).to_be_visible()

    # A reset is the same run, and its first moment may look as before.
    rises(page)
    pause(page)
    press(page, "Reset")
    page.wait_for_function(f"() => ({STEP})() === 0", timeout=COMPILED)
    expect(page.locator(STALE)).to_have_count(0, timeout=COMPILED)


def test_a_run_that_comes_back_is_shown_though_its_frame_is_earlier_than_the_script(open_page):
    frames = Frames()
    page = trains(frames.open(open_page, SMALL + "&speed=100"))
    first = run_of(page)
    page.get_by_role("slider", name="Depth").focus()
    page.keyboard.press("ArrowLeft")
    another_run(page, first)
    shallow = run_of(page)
    settled(page)
    page.go_back()
    another_run(page, shallow)
    settled(page)
    frames.hold()
    words = {"phase": "training", "run": f"{shallow} 0", "clicks": 0, "text": "It is back."}
    frames.way.send(json.dumps({"n": 0, "now": 100, "elements": {"main/state": words}}))
    expect(state(page)).to_contain_text("Training")  # the other run is still to be seen
    page.go_forward()
    expect(state(page)).to_have_text("It is back.")
    frames.let_go()
    trains(page)
    expect(page.locator(STALE)).to_have_count(0, timeout=COMPILED)


def test_a_wait_counts_its_seconds_without_a_frame(open_page):
    frames = Frames()
    page = trains(frames.open(open_page, SMALL + "&speed=100"))
    frames.way.send(
        '{"n": 0, "now": 100, "elements": {"main/state": {"phase": "training", "since": 97, '
        '"text": "**Compiling** this model (a few seconds)"}}}'
    )
    frames.hold()
    expect(state(page)).to_have_text(re.compile(r"^Compiling this model \(a few seconds\) · 3 s"))
    expect(state(page)).to_contain_text(re.compile(r"· [4-9] s"))
    frames.let_go()


def test_fast_clicks_are_all_seen_at_once_and_become_points(open_page):
    frames = Frames()
    page = trains(frames.open(open_page, "/?data=drawn&inducing=5&layers=1&speed=10"))
    before, run = page.evaluate(COUNT), run_of(page)
    places = ((-1.5, 0.6), (-0.5, -1.0), (0.2, -0.4), (1.1, -1.1), (1.6, 1.2), (2.2, 0.5))
    pixels = [pixel(page, *place) for place in places]
    frames.hold()
    for n, there in enumerate(pixels, 1):
        page.mouse.click(*there)
        assert page.locator(PUT).count() == n  # the server cannot have answered
    page.mouse.click(*pixels[0])  # on a point that is not there yet: it goes
    assert page.locator(PUT).count() == n - 1
    expect(page.locator(PUT).first).to_be_visible()
    frames.let_go()
    another_run(page, run)
    wanted = before + len(places) - 1
    page.wait_for_function(f"n => ({COUNT})() === n", arg=wanted, timeout=COMPILED)
    expect(page.locator(".stage-mark")).to_have_count(0, timeout=COMPILED)
    page.wait_for_url(re.compile("points="), timeout=COMPILED)
    points = parse_qs(urlsplit(page.url).query)["points"][0].split("~")
    assert len(points) == wanted
    rises(page)


def test_a_dragged_point_is_under_the_pointer_before_the_server_has_answered(open_page):
    frames = Frames()
    page = trains(frames.open(open_page, SMALL + "&speed=100"))
    page.wait_for_function(f"() => ({STEP})() >= 40", timeout=COMPILED)
    pause(page)
    under_the_pointer(page.locator(DEEP))
    x, y = page.evaluate(INDUCING)
    far = x + 1.0 if x < 0 else x - 1.0
    start, end = pixel(page, x, y), pixel(page, far, y)
    frames.hold()
    page.evaluate(
        """() => { window.moves = []; const { socket } = dgpStage, tell = socket.send.bind(socket);
             socket.send = text => { tell(text); if (text.includes('move')) moves.push(text); }; }
        """
    )
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=20)
    assert abs(page.evaluate(TRIANGLE) - end[0]) < 1
    page.mouse.up()
    assert abs(page.evaluate(TRIANGLE) - end[0]) < 1  # let go, and still no answer
    page.wait_for_function("far => Math.abs(JSON.parse(moves.at(-1)).move.x - far) < 0.02", arg=far)
    assert page.evaluate("moves.length") < 20  # not each place on the way
    frames.let_go()
    page.wait_for_function(
        f"far => Math.abs(({INDUCING})()[0] - far) < 0.02", arg=far, timeout=COMPILED
    )
    page.wait_for_function(f"() => !dgpStage.stateOf(document.querySelector('{DEEP}')).held")
    page.wait_for_function(f"end => Math.abs(({TRIANGLE})() - end) < 1", arg=end[0])
