"""Hosts on a page: pictures, words, meters and the history slider, and the socket that feeds them.

Plotly.react draws a figure anew only where it changed, so zoom, pan and hover survive. A page asks
no other server for anything.
"""

from collections.abc import Callable
from typing import Any

from streamlit.components.v2 import component

from pages.ui.stage.library import library, stage_script
from pages.ui.stage.wire import encode

CSS = """
.stage-frame { position: relative; }
.stage-host { width: 100%; overflow: hidden; position: relative; }
.stage-sketch { position: absolute; top: 0; left: 0; pointer-events: none; }
.stage-sketched :is(.overplot, .shapelayer, .annotation) { visibility: hidden; }
.stage-host .main-svg { border-radius: 0; }
.stage-ring { position: absolute; width: 16px; height: 16px; margin: -8px 0 0 -8px;
  border: 2px solid var(--st-text-color); border-radius: 50%; pointer-events: none; z-index: 1; }
.stage-stale > :not(.stage-mark) { opacity: 0.3; transition: opacity 0.2s 0.2s; }
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
    js=JS.replace("STAGE", stage_script()),
    isolate_styles=False,
)


def connection(
    token: str,
    scenes: dict[str, dict],
    taken: int,
    on_click: Callable[[], Any],
    on_phase: Callable[[], Any],
    key: str = "stage",
) -> None:
    """Opens the socket; a click in a picture, or another phase, runs the page's script again.

    `scenes` is what the script knows of each scene's run: which it is, what it is doing, and
    whether this browser controls it; `taken`, how many clicks have been dealt with.
    """
    data = {"kind": "connection", "token": token, "scenes": scenes, "taken": taken}
    _host(
        key=key,
        data=data | {"library": library()},
        on_click_change=on_click,
        on_phase_change=on_phase,
    )


def picture(name: str, height: int, seek: bool = False) -> None:
    """A live picture, such as `main/deep`; it may come into view where a press has brought it."""
    data = {"kind": "picture", "name": name, "height": height, "library": library(), "seek": seek}
    _host(key=f"stage_{name}", data=data)


def words(name: str, height: int = 0) -> None:
    """A live line of words."""
    _host(key=f"stage_{name}", data={"kind": "words", "name": name, "height": height})


def meter(name: str) -> None:
    """A live share from 0 to 1 with its words."""
    _host(key=f"stage_{name}", data={"kind": "meter", "name": name})


def timeline(name: str = "main/timeline") -> None:
    """The history slider of everything that is live on the page."""
    _host(key=f"stage_{name}", data={"kind": "timeline", "name": name})


def figure(figure: dict, alt: str, key: str, clicks: int = 0) -> None:
    """A picture that the page's script made itself, drawn in place of what the key showed.

    `clicks` is how many of the browser's clicks it has taken in.
    """
    content = encode(figure).decode()
    data = {"kind": "figure", "figure": content, "alt": alt, "name": key, "clicks": clicks}
    _host(key=key, data=data | {"library": library()})
