"""The playground in a real browser: it moves, obeys, keeps a zoom, and lets others watch."""

import csv
import io
import re
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, WebSocket, WebSocketRoute, expect
from streamlit.proto.BackMsg_pb2 import BackMsg

from pages.figures.palette import DARK, LIGHT
from pages.figures.table import ROWS_TRACE
from pages.ui.choices import Choices
from tests.browser.lesson_steps import COMPILED, under_the_pointer

SMALL = "/?data=step&inducing=5"
PICTURES = ".stage-host[data-kind=picture]"
DEEP = '[data-name="main/deep"]'
STEP = (
    "() => Number(/step ([\\d,]+)/.exec(document.querySelector('[data-name=\"main/numbers\"]')"
    "?.textContent ?? '')?.[1].replaceAll(',', '') ?? -1)"
)


def step(page: Page) -> int:
    return page.evaluate(STEP)


def state(page: Page):
    """What the run does, once it is said of the run that is to be seen."""
    return page.locator('[data-name="main/state"]:not([aria-busy])')


def trains(page: Page) -> Page:
    """Waits until the run trains and Plotly has drawn its pictures."""
    expect(state(page)).to_contain_text("Training", timeout=COMPILED)
    page.wait_for_function(
        f"""() => {{ const charts = [...document.querySelectorAll('{PICTURES}')];
                   return charts.length > 3 && charts.every(chart => chart.dataset.drawn
                     && chart.querySelector('.main-svg')); }}""",
        timeout=COMPILED,
    )
    return page


def drawn(page: Page) -> int:
    """How often the first picture has been drawn."""
    return int(page.locator(DEEP).get_attribute("data-drawn") or 0)


def after(page: Page, n: int) -> None:
    """Waits for n further pictures."""
    page.wait_for_function(
        "([name, n]) => Number(document.querySelector(name)?.dataset.drawn) >= n",
        arg=[DEEP, drawn(page) + n],
        timeout=COMPILED,
    )


def rises(page: Page) -> None:
    """Waits until the step grows between two looks, whatever it fell to before."""
    page.evaluate("() => { window.lastStep = Infinity; }")
    page.wait_for_function(
        f"""() => {{ const now = ({STEP})(), rose = window.lastStep >= 0 && now > window.lastStep;
                     window.lastStep = now; return rose; }}""",
        timeout=COMPILED,
    )


def at_rest(page: Page) -> int:
    """The step, once the run is paused and a chunk that had begun has been shown."""
    expect(state(page)).to_contain_text("Paused", timeout=COMPILED)
    page.evaluate("() => { window.rest = [-1, 0]; }")
    page.wait_for_function(
        f"""() => {{ const now = ({STEP})(), [last, looks] = window.rest;
                     window.rest = [now, now === last ? looks + 1 : 0];
                     return window.rest[1] >= 8; }}""",
        polling=250,
        timeout=COMPILED,
    )
    return step(page)


def run_of(page: Page) -> str:
    """The run in the address."""
    return parse_qs(urlsplit(page.url).query).get("run", [""])[0]


def another_run(page: Page, before: str) -> Page:
    """Waits until another run than this one is shown, and trains."""
    page.wait_for_url(lambda url: f"run={before}" not in url and "run=" in url, timeout=COMPILED)
    return trains(page)


def settled(page: Page) -> None:
    """Waits until the page's script has not run for a second: what a new phase asked for is done.

    Streamlit forgets the way forward where one presses Back while another run of it goes on.
    """
    page.evaluate("() => { window.looks = 0; }")
    page.wait_for_function(
        """() => { const app = document.querySelector('[data-testid=stApp]');
             window.looks = app.dataset.testScriptState === 'notRunning' ? window.looks + 1 : 0;
             return window.looks >= 10; }""",
        polling=100,
        timeout=COMPILED,
    )


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=re.compile(f"^{name}")).first.click()


def pause(page: Page) -> int:
    """Presses Pause, and waits until the last step that had begun is shown and at rest."""
    press(page, "Pause")
    page.mouse.move(2, 2)
    before = at_rest(page)
    expect(page.locator(DEEP)).not_to_have_class(re.compile("stage-sketched"))
    return before


def rgb(colour: str) -> str:
    """A colour as the browser writes it."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def test_it_moves_and_obeys_the_mouse_and_the_keyboard(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    expect(page).to_have_title("Deep GP Lab")
    expect(page.get_by_role("heading", name="Deep GP Lab")).to_be_visible()
    rises(page)
    before = pause(page)
    press(page, "Step")
    page.wait_for_function(f"before => ({STEP})() === before + 1", arg=before, timeout=COMPILED)

    # A link to this very moment is of the step that is shown when it is asked for.
    press(page, "Share")
    moment = page.get_by_text(f"trains to step {before + 1:,} and pauses")
    expect(moment).to_be_visible(timeout=COMPILED)
    expect(page.locator("code", has_text=f"at={before + 1}")).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("Escape")
    press(page, "Reset")
    page.wait_for_function(f"() => ({STEP})() === 0", timeout=COMPILED)

    # By the keyboard alone: a button that it has reached is pressed, and nothing else happens.
    page.get_by_role("button", name=re.compile("^Play")).focus()
    page.keyboard.press("Tab")
    focused = (
        "document.activeElement.matches('button:focus-visible') && document.activeElement.innerText"
    )
    assert "Step" in page.evaluate(focused)
    page.keyboard.press("Space")
    page.wait_for_function(f"() => ({STEP})() > 0", timeout=COMPILED)
    assert at_rest(page) == 1
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"() => ({STEP})() === 2", timeout=COMPILED)
    page.keyboard.press("Space")
    expect(state(page)).to_contain_text("Training")
    rises(page)
    page.keyboard.press("Space")
    expect(state(page)).to_contain_text("Paused")


def script_runs(page: Page) -> list[BackMsg]:
    """What the browser asks Streamlit to run from now on: every run of the page's script."""
    asked: list[BackMsg] = []

    def note(payload: str | bytes) -> None:
        message = BackMsg.FromString(payload) if isinstance(payload, bytes) else BackMsg()
        if message.HasField("rerun_script"):
            asked.append(message)

    def listen(socket: WebSocket) -> None:
        if "/_stcore/stream" in socket.url:
            socket.on("framesent", note)

    page.on("websocket", listen)
    return asked


def test_the_script_runs_once_for_a_visit_and_once_for_a_move_of_a_slider(open_page):
    """Not for what the run does by itself, nor for its buttons."""
    asked: list[list[BackMsg]] = []
    page = open_page(SMALL + "&speed=10", prepare=lambda page: asked.append(script_runs(page)))
    (runs,) = asked
    trains(page)
    settled(page)
    assert len(runs) == 1
    run = run_of(page)
    page.get_by_role("slider", name="Depth").focus()
    page.keyboard.press("ArrowLeft")
    another_run(page, run)
    settled(page)
    assert len(runs) == 2
    pause(page)
    press(page, "Step")
    press(page, "Reset")
    press(page, "Play")
    rises(page)
    settled(page)
    assert len(runs) == 2
    press(page, "New seed")
    page.wait_for_url(re.compile("seed=1"), timeout=COMPILED)
    page.get_by_role("group", name="Speed").get_by_role("button", name="100/s").click()
    page.wait_for_url(re.compile("speed=100"), timeout=COMPILED)
    settled(page)
    assert len(runs) == 4


def test_another_depth_while_it_trains_restarts_it_and_the_way_back_leads_back(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    expect(page.locator(PICTURES)).to_have_count(6)
    run = run_of(page)
    page.evaluate(f"() => {{ window.picture = document.querySelector('{DEEP}'); }}")
    page.get_by_role("slider", name="Depth").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("from the same seed")).to_be_visible()
    expect(page.locator(PICTURES)).to_have_count(5, timeout=COMPILED)
    another_run(page, run)
    assert "layers=1" in page.url
    rises(page)
    assert page.evaluate("() => window.picture.isConnected")  # the sentence has not displaced it
    run = run_of(page)
    settled(page)
    page.go_back()
    expect(page.locator(PICTURES)).to_have_count(6, timeout=COMPILED)
    another_run(page, run)
    rises(page)
    assert "layers=2" in page.url
    run = run_of(page)
    settled(page)
    page.go_forward()
    expect(page.locator(PICTURES)).to_have_count(5, timeout=COMPILED)
    another_run(page, run)


def watch_for_blanks(page: Page) -> None:
    """From now on, window.worst is the least opacity that a picture has had, −1 without its own."""
    page.evaluate(
        """selector => {
          window.worst = 1;
          const look = () => {
            for (const chart of document.querySelectorAll(selector)) {
              if (!chart.querySelector('.main-svg')) window.worst = -1;
              for (let e = chart; e; e = e.parentElement)
                window.worst = Math.min(window.worst, Number(getComputedStyle(e).opacity));
            }
            requestAnimationFrame(look);
          };
          look();
        }""",
        PICTURES,
    )


def test_a_zoom_survives_twenty_pictures_none_fades_and_a_moment_can_be_held(open_page):
    page = trains(open_page(SMALL + "&speed=100"))
    watch_for_blanks(page)
    plot = page.locator(DEEP)
    box = plot.locator(".nsewdrag").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.3 * box["height"])
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.7 * box["height"], steps=8)
    page.mouse.up()
    zoomed = f"() => document.querySelector('{DEEP}').layout.xaxis.range.slice()"
    page.wait_for_function(f"() => {{ const [a, b] = ({zoomed})(); return b - a < 3; }}")
    before = page.evaluate(zoomed)
    after(page, 20)
    assert page.evaluate(zoomed) == pytest.approx(before)
    assert page.evaluate("window.worst") == 1
    titles = plot.locator(".xtitle, .ytitle").all_text_contents()
    assert titles == ["x", "y"]

    slider = page.get_by_role("slider", name="History")
    slider.focus()
    page.keyboard.press("Home")
    page.wait_for_function(f"() => ({STEP})() === 0", timeout=COMPILED)
    expect(page.get_by_text(re.compile("step 0 of .*held"))).to_be_visible()
    page.get_by_role("button", name="Back to now").click()
    page.wait_for_function(f"() => ({STEP})() > 0", timeout=COMPILED)


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_pictures_move_before_streamlit_starts_and_stay_in_their_places(open_page, width, height):
    places = """selector => [...document.querySelectorAll(selector)].slice(0, 2)
      .map(box => { const { x, y, width } = box.getBoundingClientRect(); return [x, y, width]; })"""
    held = []
    own_script = re.compile(r"/static/js/index\.[\w-]+\.js")
    page = open_page(
        width=width,
        height=height,
        colour_scheme="dark",
        prepare=lambda page: page.route(own_script, lambda request: held.append(request)),
        wait_until="commit",
    )
    page.wait_for_function(
        "() => document.querySelector('.early-picture')?.dataset.drawn > 2", timeout=COMPILED
    )
    assert page.locator("[data-testid=stApp]").count() == 0 and held
    early = page.evaluate(places, ".early-picture")
    expect(page.locator(".early")).to_have_css("background-color", rgb(DARK.paper))
    for request in held:
        request.continue_()
    page.wait_for_function("name => document.querySelector(name)?.dataset.drawn > 0", arg=DEEP)
    expect(page.locator(".early")).to_have_count(0)
    page.wait_for_function(
        f"""([names, early]) => {{ const own = ({places})(names);
              return own.length === early.length && own.flat().every(
                (at, i) => Math.abs(at - early.flat()[i]) <= 6); }}""",
        arg=[f"{DEEP}, [data-name='main/rival']", early],
    )
    expect(state(page)).to_contain_text(re.compile("Compiling|Training"), timeout=COMPILED)


def test_what_moves_is_sketched_where_plotly_then_draws_it(open_page):
    page = open_page(SMALL + "&speed=10")
    page.mouse.move(2, 2)
    sketched = f"document.querySelector('{DEEP}').matches('.stage-sketched')"
    page.wait_for_function(f"() => ({STEP})() > 0 && {sketched}", timeout=COMPILED)
    pause(page)
    page.wait_for_function(
        f"""() => {{ const boxes = [...document.querySelectorAll('{PICTURES}')];
                     return boxes.every(box => box.querySelector('.main-svg')
                       && !box.matches('.stage-sketched')); }}""",
        timeout=COMPILED,
    )
    # Colours on the canvas at the places where Plotly's own axes put the marks. Each is sketched by
    # itself, since training may bring two inducing points together, and data cover the line.
    found = page.evaluate(
        """async name => {
          const { sketch } = await import(document.querySelector('link[href*=sketch-]').href);
          const box = document.querySelector(name);
          const { xaxis, yaxis } = box._fullLayout;
          const alone = trace => {
            const layout = { ...box.layout, height: box.clientHeight };  // Plotly's resize drops it
            sketch(box, { data: [trace], layout }, box._fullLayout);
            const pen = box.querySelector('canvas').getContext('2d');
            return ([x, y]) => [...pen.getImageData(
              Math.round(xaxis._offset + xaxis.d2p(x)),
              Math.round(yaxis._offset + yaxis.d2p(y)), 1, 1).data];
          };
          const within = (at, [low, high]) => at > low && at < high;
          const inside = ([x, y]) => within(x, xaxis.range) && within(y, yaxis.range);
          const places = (one, down = 0) =>
            Array.from(one.x, (x, i) => [x, one.y[i] - down]).filter(inside);
          const trace = wanted => box._fullData.find(one => one.name === wanted);
          const triangles = trace('inducing points');
          const beside = 12 * (yaxis.range[1] - yaxis.range[0]) / yaxis._length;
          const mean = trace('mean');
          const colour = alone(mean);
          const line = [places(mean), places(mean, beside)].map(some => some.map(colour));
          return [places(triangles).map(([x, y]) =>
            alone({ ...triangles, x: [x], y: [y] })([x, y])), ...line];
        }""",
        DEEP,
    )
    inducing, mean, beside = found
    assert 3 <= len(inducing) <= 5 and len(mean) > 50
    assert all(green > 120 and red < 90 for red, green, _, _ in inducing)
    on, off = (
        np.mean([blue > 120 and red < 60 and opaque > 200 for red, _, blue, opaque in line])
        for line in (mean, beside)
    )
    assert on > 0.6 and off < 0.1 * on


def test_a_reload_finds_its_run_and_another_browser_watches(open_page):
    page = trains(open_page(SMALL + "&speed=10"))
    link = page.url
    press(page, "Pause")
    expect(state(page)).to_contain_text("Paused")
    page.reload()
    expect(state(page)).to_contain_text("Paused")
    assert page.url == link
    press(page, "Play")
    trains(page)

    other = open_page("/?" + link.split("?")[1])
    trains(other)
    expect(other.get_by_role("button", name="Start my own")).to_be_visible()
    expect(other.get_by_role("button", name=re.compile("^Pause"))).to_have_count(0)
    expect(other.get_by_role("slider", name="Depth")).to_have_count(0)
    rises(other)
    press(other, "Start my own")
    expect(other.get_by_role("button", name=re.compile("^Pause"))).to_be_visible()
    other.wait_for_url(lambda url: url != link)


def pixel(page: Page, x: float, y: float) -> tuple[float, float]:
    """Where a place of the deep model's picture is on the screen."""
    return tuple(
        page.evaluate(
            """([name, x, y]) => { const box = document.querySelector(name);
              const { xaxis, yaxis } = box._fullLayout; const frame = box.getBoundingClientRect();
              return [frame.left + xaxis._offset + xaxis.d2p(x),
                      frame.top + yaxis._offset + yaxis.d2p(y)]; }""",
            [DEEP, x, y],
        )
    )


INDUCING = f"""() => {{ const trace = document.querySelector('{DEEP}')?._fullData
  ?.find(one => one.name === 'inducing points'); return [trace?.x[0], trace?.y[0]]; }}"""


def by_mouse(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=6)
    page.mouse.up()


def by_finger(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    hand = page.context.new_cdp_session(page)
    for share in np.linspace(0, 1, 9):
        x, y = (1 - share) * np.array(start) + share * np.array(end)
        kind = "touchMove" if share else "touchStart"
        touch = {"type": kind, "touchPoints": [{"x": float(x), "y": float(y)}]}
        hand.send("Input.dispatchTouchEvent", touch)
    hand.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def drag_an_inducing_point(page: Page, by: float, drag=by_mouse, up: float = 0.0) -> None:
    """Takes the first one so far towards the middle; the bound answers.

    After some steps: at first q(u) is the prior, and it is all one to the bound where Z lies.
    """
    page.wait_for_function(f"() => ({STEP})() >= 40", timeout=COMPILED)
    pause(page)
    words = page.locator('[data-name="main/bound_words"]').inner_text()
    if drag is by_mouse:
        under_the_pointer(page.locator(DEEP))
    x, y = page.evaluate(INDUCING)
    far = x + by if x < 0 else x - by
    drag(page, pixel(page, x, y), pixel(page, far, y + up))
    page.wait_for_function(
        f"far => Math.abs(({INDUCING})()[0] - far) < 0.1", arg=far, timeout=COMPILED
    )
    expect(page.locator('[data-name="main/bound_words"]')).not_to_have_text(words)


def test_a_strange_link_is_met_a_point_is_dragged_and_a_place_chosen(open_page):
    page = trains(open_page("/?data=step&inducing=3&speed=100"))
    expect(page.get_by_text("number of inducing points '3'")).to_be_visible()
    drag_an_inducing_point(page, 1.0)
    press(page, "Play")
    rises(page)
    page.mouse.click(*pixel(page, -1.0, 0.0))
    expect(page.locator('[data-name="main/mixture_title"]')).to_contain_text("x = −")
    page.wait_for_url(re.compile("star=-"), timeout=COMPILED)


def test_a_finger_drags_a_point_and_the_page_stays_where_it_is(open_page):
    page = trains(open_page(SMALL + "&speed=100", width=390, height=844, touch=True))
    page.locator(DEEP).scroll_into_view_if_needed()
    scrolled = "() => document.querySelector('[data-testid=stMain]').scrollTop"
    before = page.evaluate(scrolled)
    drag_an_inducing_point(page, 1.0, by_finger, up=1.0)
    assert page.evaluate(scrolled) == before
    box = page.locator(DEEP).bounding_box()
    assert box is not None
    middle, top = box["x"] + box["width"] / 2, box["y"]
    by_finger(page, (middle, top + 0.4 * box["height"]), (middle, top - 100))  # no point is there
    page.wait_for_function(f"before => ({scrolled})() > before + 50", arg=before)


def test_a_click_on_a_row_s_dot_shows_the_mixture_there(open_page):
    page = trains(open_page("/?data=arm&inducing=5&speed=10"))
    title = page.locator('[data-name="main/mixture_title"]')
    expect(title).to_have_text("The mixture at the median row")
    pause(page)
    under_the_pointer(page.locator(DEEP))
    row, x, y = page.evaluate(
        """([name, rows]) => { const box = document.querySelector(name);
          const trace = box._fullData.find(one => one.name === rows);
          const { xaxis, yaxis } = box._fullLayout;
          const dots = Array.from(trace.x, (x, i) => [xaxis.d2p(x), yaxis.d2p(trace.y[i])]);
          const room = dots.map(([x, y], i) => Math.min(...dots.map(([u, v], j) =>
            i === j ? Infinity : Math.hypot(u - x, v - y))));
          const i = room.indexOf(Math.max(...room));  // no other is near it
          return [trace.customdata[i], trace.x[i], trace.y[i]]; }""",
        [DEEP, ROWS_TRACE],
    )
    page.mouse.click(*pixel(page, x, y))
    expect(title).not_to_contain_text("median row")
    page.wait_for_url(re.compile("star="), timeout=COMPILED)
    star = [float(part) for part in parse_qs(urlsplit(page.url).query)["star"][0].split(",")]
    assert star == pytest.approx(Choices(data="arm").dataset.X[row], rel=1e-3)
    shown = re.search(r" = (−?[\d.]*\d)", title.inner_text())
    assert shown and float(shown[1].replace("−", "-")) == pytest.approx(star[0], rel=1e-3)


def test_a_lost_connection_is_said_and_comes_back(open_page):
    ways, lost = [], []

    def lead(way: WebSocketRoute) -> None:
        ways.append(way)
        if lost:
            way.close(code=1011)
        else:
            way.connect_to_server()

    page = open_page(
        SMALL + "&speed=10",
        prepare=lambda page: page.route_web_socket(re.compile("/stage/"), lead),
    )
    trains(page)
    page.evaluate("() => { window.before = dgpStage.socket; dgpStage.socket.close(); }")
    page.wait_for_function("() => dgpStage.socket !== before && dgpStage.socket.readyState === 1")
    rises(page)

    lost.append(True)
    ways[-1].close(code=1011)
    expect(state(page)).to_contain_text("Connection lost. Trying again …")
    count = len(ways)
    page.evaluate("() => { window.before = dgpStage.socket; }")
    page.wait_for_function("() => dgpStage.socket !== before")  # it does try again
    expect(state(page)).to_contain_text("Connection lost. Trying again …")
    lost.clear()
    expect(state(page)).to_contain_text("Training", timeout=COMPILED)
    assert len(ways) > count
    rises(page)


def test_points_are_put_down_and_taken_away(open_page):
    page = trains(open_page("/?data=drawn&inducing=5&layers=1&speed=10"))
    count = (
        f"() => document.querySelector('{DEEP}')?._fullData?.find(t => t.name === 'data')?.x.length"
    )
    before, run = page.evaluate(count), run_of(page)
    page.mouse.click(*pixel(page, 1.5, -1.2))
    page.wait_for_function(f"n => ({count})() === n + 1", arg=before, timeout=COMPILED)
    another_run(page, run)
    rises(page)
    pause(page)  # in the first steps the axes still follow the prediction
    page.mouse.click(*pixel(page, 1.5, -1.2))
    page.wait_for_function(f"n => ({count})() === n", arg=before, timeout=COMPILED)


def test_pictures_numbers_links_and_the_model_can_be_taken_home(open_page):
    page = trains(open_page(SMALL + "&speed=1"))
    pause(page)
    frame = page.locator(".stage-frame", has=page.locator(DEEP))
    for kind, start in (("PNG", b"\x89PNG"), ("SVG", b"<svg"), ("CSV", b"trace,x,y")):
        frame.locator("summary").click()
        with page.expect_download() as download:
            frame.get_by_role("button", name=kind).click()
        content = download.value.path().read_bytes()
        assert content.startswith(start) and len(content) > 2000
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    peak = page.evaluate(
        """name => document.querySelector(name)._fullData
             .find(one => one.name.startsWith('density')).meta.peak""",
        DEEP,
    )
    shades = [float(row["value"]) for row in rows if row["trace"].startswith("density")]
    assert max(shades) == pytest.approx(peak, rel=0.2) and min(shades) >= 0
    assert sum(row["trace"] == "data" for row in rows) == 100
    layer = page.locator(".stage-frame", has=page.locator('[data-name="main/layer_0"]'))
    layer.locator("summary").click()
    with page.expect_download() as download:
        layer.get_by_role("button", name="CSV").click()
    rows = list(csv.DictReader(io.StringIO(download.value.path().read_text())))
    inducing = [row for row in rows if row["trace"].startswith("inducing")]
    assert list(rows[0])[:3] == ["trace", "x", "what leaves"]
    assert len(inducing) == 5 and all(float(row["y plus"]) > 0 for row in inducing)
    press(page, "Share")
    expect(page.get_by_text("Watch this run with me")).to_be_visible()
    expect(page.get_by_role("img", name="QR code of the link").first).to_be_visible()
    for name, start in (("The model", b"PK"), ("The run as Python", b'"""')):
        with page.expect_download() as download:
            page.get_by_role("button", name=re.compile(name)).click()
        assert download.value.path().read_bytes().startswith(start)


def test_on_a_phone_pictures_stack_and_nothing_scrolls_sideways(open_page):
    page = trains(open_page(SMALL, width=390, height=844))
    boxes = [plot.bounding_box() for plot in page.locator(PICTURES).all()]
    tops = [box["y"] for box in boxes if box is not None]
    assert tops == sorted(set(tops))
    expect(page.get_by_role("button", name=re.compile("^Pause|^Play"))).to_be_in_viewport()
    assert page.evaluate(
        """() => [document.documentElement, document.querySelector('[data-testid=stMain]')]
            .every(part => part.scrollWidth <= part.clientWidth)"""
    )
    scroll = "() => document.querySelector('[data-testid=stMain]').scrollTo(0, 1e6)"
    page.evaluate(scroll)
    expect(page.get_by_text("Try this:")).to_be_in_viewport()
    expect(page.get_by_role("button", name=re.compile("^Pause"))).to_be_in_viewport()
    pause(page)
    assert serious(page) == []
    for path, last in (("/layers", "main/map"), ("/mixture", "main/coverage")):
        other = open_page(path + SMALL.lstrip("/"), width=390, height=844)
        shown(other, last)
        other.evaluate(scroll)
        expect(other.get_by_role("button", name=re.compile("^Pause"))).to_be_in_viewport()


@pytest.mark.parametrize(("colour_scheme", "ink"), [("light", LIGHT), ("dark", DARK)])
def test_by_day_and_by_night_and_for_those_who_hear_it(open_page, colour_scheme, ink):
    page = trains(open_page(SMALL + "&speed=1", colour_scheme=colour_scheme))
    title = page.locator(f"{DEEP} .xtitle").first
    expect(page.locator("[data-testid=stApp]")).to_have_css("background-color", rgb(ink.paper))
    expect(title).to_have_css("fill", rgb(ink.text))
    pictures = page.get_by_role("img", name=re.compile("prediction|bounds|layer|mixture"))
    expect(pictures).to_have_count(6)
    for plot in page.locator(PICTURES).all():  # all of them above the fold
        box = plot.bounding_box()
        assert box is not None and box["y"] + box["height"] <= 900
    assert serious(page) == []


def serious(page: Page) -> list[str]:
    """What axe-core finds that would shut somebody out, once the page has been worked out."""
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    page.mouse.move(2, 2)
    expect(page.get_by_test_id("stTooltipContent")).to_have_count(0)  # half faded has no contrast
    # On a phone, Streamlit's own page list puts its items into a list of its own making.
    ours = {"exclude": [["[data-testid=stSidebarNav]"]]}
    found = Axe().run(page, context=ours).response["violations"]
    return [
        f"{v['id']}: {v['help']}: {v['nodes'][0]['html'][:200]}"
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


def go_to(page: Page, path: str) -> None:
    """By the page list at the top."""
    page.get_by_text("Explore", exact=True).first.click()
    page.locator(f'a[href$="/{path}"]').first.click()
    page.wait_for_url(re.compile(rf"/{path}(\?|$)"))  # not a choice of that name, as in layers=2


def shown(page: Page, name: str) -> None:
    """Waits until a picture of something has been drawn, and not only the words that it will be."""
    page.wait_for_function(
        """name => { const box = document.querySelector(`[data-name="${name}"]`);
             return Number(box?.dataset.drawn) > 0 && box._fullData?.length > 0; }""",
        arg=name,
        timeout=COMPILED,
    )


def test_the_other_pages_show_the_same_run_from_other_sides(open_page):
    page = trains(open_page(SMALL + "&speed=10", colour_scheme="dark"))
    # A picture leaves the page while Plotly draws it, and Plotly looks at it once more.
    page.locator(DEEP).hover()
    page.evaluate(
        """() => { const react = Plotly.react;
             Plotly.react = async (box, ...rest) => {
               await react(box, ...rest);
               if (window.drawing) return box;
               window.drawing = true;
               while (box.isConnected) await new Promise(done => setTimeout(done, 20));
               window.late = Boolean(box._fullLayout._size);
               return box; }; }"""
    )
    page.wait_for_function("() => window.drawing")
    go_to(page, "layers")
    page.wait_for_function("() => window.late")
    page.reload()
    shown(page, "main/map")
    assert serious(page) == []
    go_to(page, "mixture")
    shown(page, "main/differ")
    box = page.locator('[data-name="main/differ"]')
    under_the_pointer(box)
    place = box.bounding_box()
    assert place is not None
    page.mouse.click(place["x"] + 0.3 * place["width"], place["y"] + 0.5 * place["height"])
    page.wait_for_url(re.compile("star=-"), timeout=COMPILED)
    assert serious(page) == []
    go_to(page, "randomness")
    shown(page, "noise_alone")
    assert serious(page) == []
    go_to(page, "prior")
    shown(page, "prior_zero")
    before = page.locator("[data-name=prior_zero]").get_attribute("data-drawn")
    page.get_by_role("slider", name="Depth").focus()
    page.keyboard.press("End")
    expect(page.get_by_text("10 layers").first).to_be_visible()
    expect(page.locator("[data-name=prior_zero]")).not_to_have_attribute("data-drawn", before)
    page.wait_for_url(re.compile("depth=10"))
    assert serious(page) == []
    frame = page.locator(".stage-frame", has=page.locator("[data-name=prior_zero]"))
    frame.locator("summary").click()
    with page.expect_download() as download:
        frame.get_by_role("button", name="SVG").click()
    assert rgb(DARK.paper) in download.value.path().read_text()  # light letters, on dark
    page.emulate_media(color_scheme="light")  # nothing is pressed, and pictures follow
    expect(page.locator("[data-name=prior_zero] .xtitle").first).to_have_css(
        "fill", rgb(LIGHT.text)
    )
    go_to(page, "collection")
    shown(page, "collection_rows")
    assert serious(page) == []


def test_two_inputs_are_clicked_dragged_and_followed(open_page):
    page = trains(open_page("/?data=ridge&inducing=5&speed=100"))
    drag_an_inducing_point(page, 0.6)
    page.mouse.click(*pixel(page, -0.9, 0.9))
    page.wait_for_url(re.compile("star=-"), timeout=COMPILED)
    names = f"document.querySelector('{DEEP}')?._fullData?.map(one => one.name)"
    page.wait_for_function(f"() => {names}?.includes('x*')", timeout=COMPILED)

    # A row under the pointer is ringed in both predictions and in every layer.
    layer = '[data-name="main/layer_0"]'
    under_the_pointer(page.locator(layer))
    place = page.evaluate(
        """name => { const box = document.querySelector(name), { xaxis, yaxis } = box._fullLayout;
          const trace = box._fullData.find(one => one.name === 'data entering');
          const frame = box.getBoundingClientRect();
          return [frame.left + xaxis._offset + xaxis.d2p(trace.x[7]),
                  frame.top + yaxis._offset + yaxis.d2p(trace.y[7])]; }""",
        layer,
    )
    page.mouse.move(place[0] + 25, place[1])
    page.mouse.move(*place, steps=4)
    page.wait_for_function(
        """() => new Set([...document.querySelectorAll('.stage-ring')]
             .map(one => one.parentElement.dataset.name)).size === 4"""
    )
