"""What tests ask of a page that AppTest has opened."""

import html
import json
from pathlib import Path

from streamlit.components.v2.bidi_component.main import _make_trigger_id
from streamlit.testing.v1 import AppTest

from dgp_core.live.run import Run
from pages.ui.stage.server import Scene, Viewer, server

LEARN = Path(__file__).parents[2] / "pages" / "learn"
PATIENCE = 240
"""Seconds that a model may take to compile on a loaded machine."""


def told(page: AppTest) -> list[str]:
    """What the page's boxes say, as a person reads it."""
    boxes = (*page.info, *page.error)
    return [html.unescape(box.value).replace("\u2060", "") for box in boxes]


def open_lesson(name: str) -> AppTest:
    """A lesson, or the glossary, as it is at first."""
    page = AppTest.from_file(str(LEARN / f"{name}.py"), default_timeout=PATIENCE).run()
    assert not page.exception and not page.error
    return page


def names_of(name: str) -> dict:
    """What a lesson's script defines, without showing it."""
    path = LEARN / f"{name}.py"
    own: dict = {"__name__": "lesson", "__file__": str(path)}
    exec(path.read_text(encoding="utf-8"), own)
    return own


def run_of(page: AppTest) -> Run:
    """The playground's run; to ask is to watch."""
    return server().workshop.watch(page.session_state.run_id)


def viewer_of(page: AppTest) -> Viewer:
    """Who the page's session is to the socket."""
    viewer = server().viewers.get(page.session_state.viewer)
    assert viewer is not None
    return viewer


def scenes(page: AppTest) -> dict[str, Scene]:
    """The runs that the page shows, and how."""
    return viewer_of(page).scenes


def elements(page: AppTest) -> dict[str, dict]:
    """What the page's hosts are sent, by their names."""
    viewer = viewer_of(page)
    server().attend(viewer)
    frame = server().frame(server().sights(viewer))
    return {name: json.loads(part) for name, part in frame.elements.items()}


def _hosts(page: AppTest, kind: str) -> list[dict]:
    found = [component.proto for component in page.get("bidi_component")]
    data = [json.loads(p.json) for p in found if p.component_name in ("stage_host", "stage_unseen")]
    return [one for one in data if one["kind"] == kind]


def parts(page: AppTest) -> list[dict]:
    """What can be made anew by itself, of a page that follows a teacher's."""
    return _hosts(page, "part")


def bars(page: AppTest) -> dict[str, dict]:
    """The bars that drive runs, by their scenes."""
    return {data["name"].removesuffix("/bar"): data for data in _hosts(page, "bar")}


def press(page: AppTest, word: str, scene: str = "main") -> AppTest:
    """Presses a button of a run's bar: the socket tells what is wished, or the script runs."""
    if word.split()[0] not in bars(page)[scene]["script"]:
        server().hear(viewer_of(page), {"command": {"scene": scene, "word": word}})
        return page
    (bar,) = (c.proto for c in page.get("bidi_component") if f'"{scene}/bar"' in c.proto.json)
    states = page._tree.get_widget_states()
    told = json.dumps([{"event": "command", "value": word}])
    states.widgets.add(id=_make_trigger_id(bar.id, "events"), json_trigger_value=told)
    return page._run(states)


def hosts(page: AppTest) -> set[str]:
    """The names of the live pictures that the page has room for."""
    return {data["name"] for data in _hosts(page, "picture")}


def made(page: AppTest) -> dict[str, dict]:
    """The figures that the page's script made, by their names."""
    found = {data["name"]: data for data in _hosts(page, "figure")}
    assert all(len(data["alt"]) > 20 for data in found.values())
    return {name: json.loads(data["figure"]) for name, data in found.items()}
