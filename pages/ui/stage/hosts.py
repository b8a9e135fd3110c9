"""Hosts on a page: pictures, words, meters, the history slider and the bar that drives a run, and
the socket that feeds them.

Plotly.react draws a figure anew only where it changed, so zoom, pan and hover survive. A page asks
no other server for anything.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.components.v2 import component

from pages.ui.stage.library import library, script
from pages.ui.stage.wire import encode

JS = """
export default async function (component) {
  window.dgpMount ??= (await import(new URL("STAGE", document.baseURI))).mount;
  return window.dgpMount(component); // at once, where the script is there
}
"""


# Its styles are the page's own, in stage.css: a component's would be sent with every host of it,
# and applied to the whole page anew.
_host = component(
    "stage_host",
    html='<div class="stage-host"></div>',
    js=JS.replace("STAGE", script("stage")),
    isolate_styles=False,
)


@dataclass(frozen=True)
class Placed:
    """A picture that a page's script has placed; a live one has no figure here."""

    name: str
    says: str = ""
    figure: dict | None = None


_placed: ContextVar[list[Placed] | None] = ContextVar("placed", default=None)


@contextmanager
def noting() -> Iterator[list[Placed]]:
    """Notes every picture that is placed meanwhile."""
    found: list[Placed] = []
    before = _placed.set(found)
    try:
        yield found
    finally:
        _placed.reset(before)


def _note(picture: Placed) -> None:
    if (found := _placed.get()) is not None:
        found.append(picture)


def connection(
    token: str,
    scenes: dict[str, dict],
    taken: int,
    on_click: Callable[[], Any],
    lesson: dict[str, Any],
    key: str = "stage",
) -> None:
    """Opens the socket; a click in a picture runs the page's script again, and so does what changes
    on a teacher's page that this one follows.

    `scenes` is what the script knows of each scene's run: which it is, and whether this browser
    controls it; `taken`, how many clicks have been dealt with; `lesson`, which version of a class
    the page shows, and whether it teaches or follows.
    """
    data = {"kind": "connection", "token": token, "scenes": scenes, "taken": taken}
    data |= {"lesson": lesson, "library": library()}
    _host(key=key, data=data, on_click_change=on_click, on_class_change=lambda: None)


def bar(
    scene: str,
    on_command: Callable[[str], None],
    script: tuple[str, ...],
    keyboard: bool = False,
    speeds: tuple[tuple[str, str], ...] = (),
) -> None:
    """Play or pause, step, reset; with `speeds` (words and labels), another seed and these too.

    Commands go to the server by the socket. Those in `script` run the page's script instead, by
    `on_command`. Space and → serve one run of a page.
    """
    key = f"stage_{scene}/bar"

    def commanded() -> None:
        word = getattr(st.session_state.get(key), "command", None)
        if isinstance(word, str):
            on_command(word)

    data = {"kind": "bar", "name": f"{scene}/bar", "script": script}
    data |= {"keyboard": keyboard, "speeds": speeds}
    _host(key=key, data=data, width="content", on_command_change=commanded)


def picture(name: str, height: int, seek: bool = False) -> None:
    """A live picture, such as `main/deep`; it may come into view where a press has brought it."""
    _note(Placed(name))
    data = {"kind": "picture", "name": name, "height": height, "library": library(), "seek": seek}
    _host(key=f"stage_{name}", data=data)


def titled(title: str, name: str, height: int, help: str | None = None, seek: bool = False) -> None:
    """A live picture below its title, which may explain itself."""
    with st.container(gap="xsmall"):
        st.markdown(title, help=help)
        picture(name, height, seek)


def words(name: str, height: int = 0) -> None:
    """A live line of words."""
    _host(key=f"stage_{name}", data={"kind": "words", "name": name, "height": height})


def meter(name: str) -> None:
    """A live share from 0 to 1 with its words."""
    _host(key=f"stage_{name}", data={"kind": "meter", "name": name})


def tally(name: str, answers: list[str]) -> None:
    """How many chose each of these answers, live."""
    _host(key=f"stage_{name}", data={"kind": "tally", "name": name, "answers": answers})


def part(key: str, shows: Sequence[str], version: int) -> None:
    """Inside a fragment of a page that follows a teacher's: runs it again where one of the keys
    that it `shows` has changed there since this version."""
    data = {"kind": "part", "shows": shows, "version": version}
    _host(key=key, data=data, on_class_change=lambda: None)


def paper(
    key: str, label: str, on_command: Callable[[], None], on_done: Callable[[], None], sheet: dict
) -> None:
    """A button for something to print: `on_command` makes the `sheet` (a file's name,
    HTML, and figures by the names of their places in it); the browser draws the figures into
    it, saves it as one file, and is `on_done`."""
    data = {"kind": "paper", "label": label, "sheet": sheet, "library": library()}
    _host(
        key=key,
        data=data,
        width="content",
        on_command_change=on_command,
        on_done_change=on_done,
    )


def timeline(name: str = "main/timeline") -> None:
    """The history slider of everything that is live on the page."""
    _host(key=f"stage_{name}", data={"kind": "timeline", "name": name})


def figure(figure: dict, alt: str, key: str, clicks: int = 0) -> None:
    """A picture that the page's script made itself, drawn in place of what the key showed.

    `clicks` is how many of the browser's clicks it has taken in.
    """
    _note(Placed(key, alt, figure))
    content = encode(figure).decode()
    data = {"kind": "figure", "figure": content, "alt": alt, "name": key, "clicks": clicks}
    _host(key=key, data=data | {"library": library()})
