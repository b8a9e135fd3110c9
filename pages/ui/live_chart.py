"""A chart that is updated in place: zoom, pan and hover survive, and no frame is blank.

Plotly.react draws a figure anew only where it changed. Plotly's own JavaScript comes out of the
installed plotly package, is served once from `static/`, and never leaves the server otherwise.
"""

import os
import shutil
from importlib.resources import as_file, files
from pathlib import Path

import orjson
import plotly
from streamlit.components.v2 import component

STATIC = Path(__file__).parents[2] / "static"
LIBRARY = f"plotly-{plotly.__version__}.min.js"

JS = """
const load = (src) => (window.dgpPlotly ??= new Promise((done, failed) => {
  const script = document.createElement("script");
  script.src = src;
  script.onload = () => done(window.Plotly);
  script.onerror = failed;
  document.head.appendChild(script);
}));
const touch = () => window.matchMedia("(pointer: coarse)").matches;

export default function ({ parentElement, data }) {
  const box = parentElement.querySelector(".live-chart");
  const { figure, alt, frame } = JSON.parse(new TextDecoder().decode(data));
  if (box.dataset.frame === frame) return box.dispose;
  box.dataset.frame = frame;
  box.style.height = figure.layout.height + "px";
  box.setAttribute("aria-label", alt);
  box.newest = figure;
  if (touch()) figure.layout.dragmode = false;
  if (box.waiting) return box.dispose;
  box.waiting = true;
  load("app/static/LIBRARY").then((Plotly) => requestAnimationFrame(async () => {
    box.waiting = false;
    const { data, layout } = box.newest;
    await Plotly.react(box, data, layout, { displayModeBar: false, doubleClick: "reset" });
    box.dataset.drawn = Number(box.dataset.drawn ?? 0) + 1;
    if (box.observer) return;
    box.observer = new ResizeObserver(() => box.isConnected && Plotly.Plots.resize(box));
    box.observer.observe(box);
    box.dispose = () => { box.observer.disconnect(); Plotly.purge(box); };
  }), () => { box.textContent = "The charts' script did not load. Reload the page."; });
  return () => box.dispose?.();
}
"""

CSS = """
.live-chart { width: 100%; overflow: hidden; }
.live-chart .main-svg { border-radius: 0; }
"""

_host = component(
    "live_chart",
    html='<div class="live-chart" role="img"></div>',
    css=CSS,
    js=JS.replace("LIBRARY", LIBRARY),
    isolate_styles=False,
)


def provide_library() -> Path:
    """Puts the plotly package's own JavaScript where Streamlit serves files from."""
    target = STATIC / LIBRARY
    with as_file(files("plotly") / "package_data" / "plotly.min.js") as source:
        if not target.exists() or target.stat().st_size != source.stat().st_size:
            STATIC.mkdir(exist_ok=True)
            part = target.with_suffix(f".{os.getpid()}")
            shutil.copyfile(source, part)
            part.replace(target)
    return target


def packed(figure: dict, alt: str, frame: str) -> bytes:
    """A figure for `live_chart`; a frame's name says whether there is anything new to draw."""
    content = {"figure": figure, "alt": alt, "frame": frame}
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY)


def live_chart(content: bytes, key: str) -> None:
    """Shows what `packed` made, in place of what the same key showed before."""
    _host(key=key, data=content)
