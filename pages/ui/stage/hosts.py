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

CSS = """
.stage-frame { position: relative; }
.stage-host { width: 100%; overflow: hidden; position: relative; }
.stage-sketch { position: absolute; top: 0; left: 0; pointer-events: none; }
.stage-sketched :is(.overplot, .shapelayer, .annotation) { visibility: hidden; }
.stage-host .main-svg { border-radius: 0; }
.stage-host[data-kind=picture]:empty::after { content: "The picture is on its way …";
  position: absolute; inset: 45% 0 auto; text-align: center; font-size: 0.875rem;
  color: color-mix(in srgb, var(--st-text-color) 60%, transparent);
  animation: stage-wait 0s 0.6s both; }
@keyframes stage-wait { from { visibility: hidden; } to { visibility: visible; } }
.stage-ring { position: absolute; width: 16px; height: 16px; margin: -8px 0 0 -8px;
  border: 2px solid var(--st-text-color); border-radius: 50%; pointer-events: none; z-index: 1; }
.stage-across { position: absolute; border-left: 1px solid var(--st-text-color); opacity: 0.6;
  pointer-events: none; z-index: 1; }
.stage-stale:not([data-kind=bar]) > :not(.stage-mark) { opacity: 0.3;
  transition: opacity 0.2s 0.2s; }
.stage-stale:is([data-kind=words]:not([data-name$="/state"], [data-name$="/numbers"]),
  [data-kind=meter]) { visibility: hidden; transition: visibility 0s 0.2s; }
.stage-elapsed { font-variant-numeric: tabular-nums; }
.stage-mark { position: absolute; transform: translate(-50%, -50%); border-radius: 50%;
  pointer-events: none; z-index: 1; }
.stage-mark-put, .stage-mark-kept { background: var(--ink, var(--st-text-color)); }
.stage-mark-taken { background: var(--st-background-color); outline: 1.5px dotted
  var(--st-text-color); }
.stage-host.stage-grip, .stage-host.stage-grip .nsewdrag { cursor: grab !important; }
.stage-host[data-kind=words] { font-size: 0.875rem; line-height: 1.45; overflow: visible;
  font-variant-numeric: tabular-nums; color: var(--st-text-color); }
.stage-host[data-kind=meter] { font-size: 0.8rem; color: var(--st-text-color); }
.stage-meter-track { height: 6px; border-radius: 3px; margin-top: 4px;
  background: color-mix(in srgb, var(--st-text-color) 15%, transparent); }
.stage-meter-track > div { height: 100%; border-radius: 3px; background: var(--st-primary-color); }
.stage-host[data-kind=timeline] { display: flex; align-items: center; gap: 0.75rem;
  font-size: 0.8rem; font-variant-numeric: tabular-nums; color: var(--st-text-color); }
.stage-host[data-kind=timeline] input { flex: 1; min-width: 0; height: 1.5rem;
  accent-color: var(--st-primary-color); }
.stage-host[data-kind=timeline] button, .stage-menu button { font: inherit; cursor: pointer;
  color: var(--st-text-color); background: var(--st-secondary-background-color);
  border: 1px solid var(--st-border-color); border-radius: 0.3rem; padding: 0.1rem 0.5rem; }
.stage-host[data-kind=timeline] button[hidden] { display: none; }
.stage-host[data-kind=bar] { display: flex; align-items: center; gap: 1rem; overflow: visible;
  width: max-content; }
.stage-button, .stage-choice button { font: inherit; cursor: pointer; white-space: nowrap;
  color: var(--st-text-color); background: var(--st-background-color);
  border: 1px solid var(--st-border-color); }
.stage-button { display: inline-flex; align-items: center; gap: 0.5rem; font-size: 0.875rem;
  min-height: 2.5rem; padding: 0.25rem 0.75rem; border-radius: var(--st-button-radius); }
.stage-button kbd { font: inherit; padding: 0; background: none; }
.stage-button.stage-primary { color: #fff; background: var(--st-primary-color);
  border-color: var(--st-primary-color); }
.stage-button:hover:not(:disabled), .stage-choice button:hover { border-color:
  var(--st-primary-color); }
.stage-button:not(.stage-primary):hover:not(:disabled) { color: var(--st-primary-color); }
.stage-button.stage-primary:hover:not(:disabled) { filter: brightness(0.9); }
.stage-button:disabled { cursor: not-allowed; color: color-mix(in srgb, var(--st-text-color) 40%,
  transparent); background: none; border-color: var(--st-border-color); }
.stage-button:focus-visible, .stage-choice button:focus-visible { outline: 2px solid
  var(--st-primary-color); outline-offset: 2px; z-index: 1; }
.stage-icon { font: 1rem/1 "Material Symbols Rounded"; width: 1rem; overflow: hidden; }
.stage-choice { display: flex; font-size: 0.875rem; }
.stage-choice button { padding: 0.25rem 1rem; min-height: 2rem; margin-right: -1px;
  position: relative; }
.stage-choice button:first-child { border-radius: var(--st-button-radius) 0 0
  var(--st-button-radius); }
.stage-choice button:last-child { border-radius: 0 var(--st-button-radius)
  var(--st-button-radius) 0; }
.stage-choice button[aria-pressed=true] { border-color: var(--st-primary-color); z-index: 1;
  background: color-mix(in srgb, var(--st-primary-color) 10%, var(--st-background-color)); }
@media (max-width: 1150px) {
  .stage-host[data-kind=bar] { gap: 0.35rem; }
  .stage-button kbd { display: none; }
}
@media (max-width: 900px) {
  .st-key-bar .stage-button { position: relative; overflow: hidden; }
  .st-key-bar .stage-button:not(.stage-primary) > :not(.stage-icon) { position: absolute;
    clip-path: inset(50%); }
  .st-key-bar .stage-choice button { padding: 0.25rem 0.6rem; }
}
@media (max-width: 640px) {
  .st-key-bar .stage-host[data-kind=bar] { gap: 0.2rem; }
  .st-key-bar .stage-button { padding: 0.25rem 0.5rem; min-height: 2.3rem; }
  .st-key-bar .stage-button.stage-primary > :not(.stage-icon) { position: absolute;
    clip-path: inset(50%); }
  .st-key-bar .stage-choice { font-size: 0.8rem; }
  .st-key-bar .stage-choice button { padding: 0.25rem 0.35rem; }
}
.stage-host[data-kind=paper] { display: flex; align-items: center; gap: 0.75rem; width: max-content;
  max-width: 100%; overflow: visible; font-size: 0.875rem; color: var(--st-text-color); }
.stage-host[data-kind=tally] { font-size: 0.875rem; color: var(--st-text-color); }
.stage-tally { display: grid; grid-template-columns: minmax(8rem, 1fr) 2fr 2.5rem;
  gap: 0.3rem 0.75rem; align-items: center; margin: 0.3rem 0 0; }
.stage-tally dd { margin: 0; font-variant-numeric: tabular-nums; }
.stage-tally-bar { height: 0.9rem; border-radius: 0.2rem; background: var(--st-primary-color);
  min-width: 1px; transition: width 0.2s; }
.stage-menu { position: absolute; top: 2px; right: 2px; font-size: 0.75rem; z-index: 2; }
.stage-menu summary { list-style: none; cursor: pointer; width: 1.5rem; height: 1.5rem;
  text-align: center; line-height: 1.5rem; border-radius: 0.3rem; opacity: 0.35;
  color: var(--st-text-color); margin-left: auto; }
.stage-menu summary:hover, .stage-menu summary:focus-visible, .stage-menu[open] summary {
  opacity: 1; background: var(--st-secondary-background-color); }
.stage-menu summary::-webkit-details-marker { display: none; }
"""

JS = """
export default async function (component) {
  window.dgpMount ??= (await import(new URL("STAGE", document.baseURI))).mount;
  return window.dgpMount(component); // at once, where the script is there
}
"""


_host = component(
    "stage_host",
    html='<div class="stage-host"></div>',
    css=CSS,
    js=JS.replace("STAGE", script("stage")),
    isolate_styles=False,
)


# Where a page has many and nobody sees them: each one's styles would be applied to all of it anew.
_unseen = component(
    "stage_unseen",
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
    _unseen(key=key, data=data, on_class_change=lambda: None)


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
