"""The scripts that a page's pictures need, served from `static/` and asked for as early as can be.

Plotly's own JavaScript comes out of the installed plotly package. It is large, so the page's HTML
names it: the browser fetches it while Streamlit's own scripts start, not after.
"""

import hashlib
import os
import re
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from urllib.parse import parse_qs

import plotly
import streamlit

from pages.ui.classroom.entrance import base_path
from pages.ui.stage.guard import policy

PARTS = ("BidiComponent", "Button", "ButtonGroup", "Html", "Selectbox", "Slider")
"""Of a page: Streamlit has a script for each."""
SCRIPTS = Path(__file__).with_name("js")
STYLES = Path(__file__).with_name("stage.css")
STATIC = Path(__file__).parents[3] / "static"
OWN_SCRIPT = re.compile(
    rb"""<script type="module" crossorigin src="(\./static/js/[\w.-]+\.js)"></script>"""
)
"""The one that starts Streamlit, in its page."""
OTHERWISE = {"run", "hide", "view", "embed"}
"""What a link says that leads to a playground which looks another way than at first."""


@cache
def library() -> str:
    """Where Plotly's JavaScript is served; puts it there first."""
    name = f"plotly-{plotly.__version__}.min.js"
    _provide((files("plotly") / "package_data" / "plotly.min.js").read_bytes(), STATIC / name)
    return f"app/static/{name}"


@cache
def script(name: str) -> str:
    """Where one of our scripts is served: under another name for other contents, as are those that
    it imports."""
    text = re.sub(
        r"""from "\./(\w+)\.js\"""",
        lambda found: f'from "./{Path(script(found[1])).name}"',
        (SCRIPTS / f"{name}.js").read_text(encoding="utf-8"),
    )
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    _provide(text.encode(), STATIC / f"{name}-{digest}.js")
    return f"app/static/{name}-{digest}.js"


def _provide(content: bytes, target: Path) -> None:
    if not target.exists() or target.stat().st_size != len(content):
        STATIC.mkdir(exist_ok=True)
        part = target.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(content)
        part.replace(target)


@cache
def page_scripts() -> tuple[str, ...]:
    """Streamlit's own scripts of what a page here is made of, and those that they import.

    Streamlit asks for them once it knows what the page shows, a round trip for each generation.
    """
    root = Path(streamlit.__file__).parent / "static"
    waiting = [path for name in PARTS for path in (root / "static" / "js").glob(f"{name}.*.js")]
    found: dict[Path, str] = {}
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found[path] = path.relative_to(root).as_posix()
        imports = re.findall(r"""from["'`]\./([\w.-]+\.js)""", path.read_text(encoding="utf-8"))
        waiting += [path.with_name(name) for name in imports]
    return tuple(sorted(found.values()))


class EarlyScripts:
    """ASGI middleware: the page's HTML asks for the pictures' scripts at once, and holds their
    styles.

    The playground's asks first of all for the one that shows pictures before the others start.
    """

    def __init__(self, app):
        self.app = app
        tags = f'<link rel="preload" as="script" href="{library()}">'
        own = (script(path.stem) for path in sorted(SCRIPTS.glob("*.js")) if path.stem != "early")
        for path in (*own, *page_scripts()):
            tags += f'<link rel="modulepreload" href="{path}">'
        self.tags = f"{tags}<style>{STYLES.read_text(encoding='utf-8')}</style>".encode()
        early = script("early")
        self.early = "".join(
            f'<link rel="modulepreload" href="{path}">' for path in (early, script("sketch"))
        )
        self.start = (
            f'<script type="module" async>await import("./{early}")'
            r'.then(({ shown }) => shown).catch(() => {}); import("\1");</script>'
            r'<link rel="modulepreload" crossorigin href="\1">'
        )

    def opened(self, page: bytes, query: str) -> bytes:
        """The playground's HTML, which asks first of all for a picture.

        Streamlit's own script keeps the browser busy: it starts when the picture is there.
        """
        if OTHERWISE & parse_qs(query).keys():
            return page
        first = "".join(
            f'<link rel="preload" as="fetch" crossorigin media="(prefers-color-scheme: {scheme})" '
            f'href="early?dark={dark}&amp;moment=0&amp;{escape(query)}">'
            for dark, scheme in enumerate(("light", "dark"))
        )
        page = page.replace(b"<head>", f"<head>{first}{self.early}".encode(), 1)
        return OWN_SCRIPT.sub(self.start.encode(), page, 1)

    async def __call__(self, scope, receive, send):
        headers = dict(scope.get("headers", ()))
        wants = b"text/html" in headers.get(b"accept", b"")
        if scope["type"] != "http" or scope.get("method") != "GET" or not wants:
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
            if message["type"] == "http.response.start" and is_page(message):
                start = message
                return
            if start is None:  # a download, a part of one, or an error: as it is
                await send(message)
                return
            body += message.get("body", b"")
            if message.get("more_body"):
                return
            body = body.replace(b"</head>", self.tags + b"</head>", 1)
            if scope.get("path") == f"{base_path()}/":
                body = self.opened(body, scope.get("query_string", b"").decode("latin-1"))
            fixed = [(n, v) for n, v in start["headers"] if n.lower() != b"content-length"]
            fixed.append((b"content-length", str(len(body)).encode()))
            fixed.append((b"content-security-policy", policy(body)))
            await send({**start, "headers": fixed})
            await send({"type": "http.response.body", "body": body})

        await self.app({**scope, "headers": kept}, receive, hold)


def is_page(start: dict) -> bool:
    """Whether an answer is a whole page of HTML to be shown, and no file to be saved."""
    headers = {name.lower(): value for name, value in start.get("headers", ())}
    html = headers.get(b"content-type", b"").startswith(b"text/html")
    return start["status"] == 200 and html and b"content-disposition" not in headers
