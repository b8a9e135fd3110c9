"""The scripts that a page's pictures need, served from `static/` and asked for as early as can be.

Plotly's own JavaScript comes out of the installed plotly package. It is large, so the page's HTML
names it: the browser fetches it while Streamlit's own scripts start, not after.
"""

import hashlib
import shutil
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path

import plotly

STATIC = Path(__file__).parents[2] / "static"


@cache
def library() -> str:
    """Where Plotly's JavaScript is served; puts it there first."""
    name = f"plotly-{plotly.__version__}.min.js"
    with as_file(files("plotly") / "package_data" / "plotly.min.js") as source:
        _provide(source, STATIC / name)
    return f"app/static/{name}"


@cache
def stage_script() -> str:
    """Where stage.js is served, under another name for other contents."""
    source = Path(__file__).with_name("stage.js")
    name = f"stage-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.js"
    _provide(source, STATIC / name)
    return f"app/static/{name}"


def _provide(source: Path, target: Path) -> None:
    if not target.exists() or target.stat().st_size != source.stat().st_size:
        STATIC.mkdir(exist_ok=True)
        part = target.with_suffix(".part")
        shutil.copyfile(source, part)
        part.replace(target)


class EarlyScripts:
    """ASGI middleware: the page's HTML asks for the pictures' scripts at once."""

    def __init__(self, app):
        self.app = app
        tags = f'<script async src="{library()}"></script>'
        tags += f'<link rel="modulepreload" href="{stage_script()}">'
        self.tags = tags.encode()

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", ()))
        if scope["type"] != "http" or b"text/html" not in headers.get(b"accept", b""):
            await self.app(scope, receive, send)
            return
        # Neither packed nor known already: the answer must be whole and readable here.
        kept = [
            (name, value)
            for name, value in scope["headers"]
            if name not in (b"accept-encoding", b"if-none-match", b"if-modified-since")
        ]
        start, body = None, b""

        async def hold(message):
            nonlocal start, body
            if message["type"] == "http.response.start":
                start = message
                return
            body += message.get("body", b"")
            if message.get("more_body") or start is None:
                return
            if b"</head>" in body:
                body = body.replace(b"</head>", self.tags + b"</head>", 1)
            fixed = [(n, v) for n, v in start["headers"] if n.lower() != b"content-length"]
            fixed.append((b"content-length", str(len(body)).encode()))
            await send({**start, "headers": fixed})
            await send({"type": "http.response.body", "body": body})

        await self.app({**scope, "headers": kept}, receive, hold)
