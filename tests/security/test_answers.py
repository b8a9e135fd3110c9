"""What the server answers: pages are completed, downloads left alone, cookies and headers set."""

import asyncio
import re
from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from dgp_core.tables import plain
from pages.ui.classroom.entrance import COOKIE as ROOM_COOKIE
from pages.ui.classroom.entrance import Entrance
from pages.ui.classroom.room import Room
from pages.ui.stage import guard
from pages.ui.stage.guard import Guard, browser_of, network_of
from pages.ui.stage.library import EarlyScripts

PAGE = b"<html><head><script>one()</script></head><body></body></html>"
CSV = b"a,b\r\n</head>,1\r\n"
FILE = {"Content-Disposition": 'attachment; filename="lesson-1.html"'}
ANSWERS = {
    "/page": Response(PAGE, media_type="text/html"),
    "/media/sheet": Response(PAGE, media_type="text/html", headers=FILE),
    "/media/rows": Response(CSV, media_type="text/csv"),
    "/media/part": Response(PAGE[3:20], 206, {"Content-Range": "bytes 3-19/60"}, "text/html"),
    "/missing": Response(PAGE, 404, media_type="text/html"),
}


async def answer(request):
    return ANSWERS[request.url.path]


app = Guard(EarlyScripts(Starlette(routes=[Route(path, answer) for path in ANSWERS])))


def ask(path: str, cookie: str = "", scheme: str = "http") -> tuple[int, dict, bytes]:
    """Status, headers and body, as a browser that opens an address has them."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    headers = [(b"accept", b"text/html,*/*"), (b"host", b"lab"), (b"cookie", cookie.encode())]
    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "scheme": scheme,
             "headers": headers, "client": ("10.0.0.1", 1), "root_path": ""}  # fmt: skip
    asyncio.run(app(scope, receive, send))
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(m.get("body", b"") for m in sent[1:])


def test_a_page_is_completed():
    status, headers, body = ask("/page")
    assert status == 200 and b"modulepreload" in body
    assert headers["content-length"] == str(len(body))


@pytest.mark.parametrize("path", [path for path in ANSWERS if path != "/page"])
def test_a_download_a_part_and_an_error_are_left_as_they_are(path):
    status, headers, body = ask(path)
    assert body == ANSWERS[path].body and status == ANSWERS[path].status_code
    assert "set-cookie" not in headers and headers["x-content-type-options"] == "nosniff"
    if headers["content-type"].startswith("text/html"):
        rules = headers["content-security-policy"]
        assert "default-src 'none'" in rules and rules.endswith("frame-ancestors 'self'")


def test_the_owner_s_cookie_is_the_server_s_own():
    line = ask("/page")[1]["set-cookie"]
    made = SimpleCookie(line)[guard.COOKIE]
    assert made["httponly"] and made["samesite"] == "Lax" and not made["secure"]
    assert guard.is_secret(made.value) and made["path"] == "/"
    assert "Secure" in ask("/page", scheme="https")[1]["set-cookie"]
    again = ask("/page", f"{guard.COOKIE}={made.value}")[1]["set-cookie"]
    assert SimpleCookie(again)[guard.COOKIE].value == made.value
    short = ask("/page", f"{guard.COOKIE}=guessed")[1]["set-cookie"]
    assert SimpleCookie(short)[guard.COOKIE].value != "guessed"


def test_no_script_of_ours_touches_cookies():
    ours = Path(guard.__file__).parents[2]
    files = [*ours.rglob("*.py"), *ours.rglob("*.js")]
    assert [f.name for f in files if "document.cookie" in f.read_text(encoding="utf-8")] == []


def test_a_page_runs_its_own_scripts_only(monkeypatch):
    _, headers, body = ask("/page")
    rules = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
    assert "'unsafe-inline'" not in rules["script-src"] and "unsafe-eval" not in rules["script-src"]
    inline = re.findall(rb"<script(?![^>]* src)[^>]*>", body)
    assert rules["script-src"].count("sha256-") == len(inline) == 1
    assert rules["object-src"] == "'none'" and rules["frame-ancestors"] == "'self'"
    assert headers["referrer-policy"] == "same-origin"
    monkeypatch.setattr(guard, "EMBED", "https://course.example")
    assert ask("/page")[1]["content-security-policy"].endswith("'self' https://course.example")


def test_the_room_s_own_pages_may_not_be_framed_either(monkeypatch):
    """The invitation, and the sentence that asks for the word, are answered before Streamlit."""
    room = Room("http://lab/", "posterior")
    monkeypatch.setitem(globals(), "app", Guard(Entrance(None, room, "")))
    status, headers, body = ask("/", "")
    assert status == 403 and b"This room has a word" in body and b"<script" not in body
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    status, headers, body = ask("/room", f"{ROOM_COOKIE}={room.key}")
    assert status == 200 and b"QR code" in body
    assert "frame-ancestors 'self'" in headers["content-security-policy"]


def test_neighbours_of_one_ipv6_network_are_one():
    def network(host):
        return network_of({"client": (host, 1)})

    assert network("2001:db8::1") == network("2001:db8::ffff:2") != network("2001:db8:0:1::1")
    assert network("::ffff:10.0.0.1") != network("::ffff:10.0.0.2")
    assert network("10.0.0.1") == "10.0.0.1" and network_of({}) == network_of({"client": None})


@pytest.mark.parametrize(
    "cookie", ['"', "dgp_browser", "a=b; dgp_browser=\xff", "=;;=", "x" * 9000]
)
def test_a_broken_cookie_is_none(cookie):
    assert browser_of({"headers": [(b"cookie", cookie.encode("latin-1"))]}) == ""


def test_the_browser_s_csv_guard_is_as_strong_as_the_server_s():
    """Both name the same signs, and blanks before them hide none."""
    script = (Path(guard.__file__).parent / "js" / "downloads.js").read_text(encoding="utf-8")
    (pattern,) = re.findall(r"const FORMULA = /(.*)/;", script)
    own = re.compile(pattern)
    starts = [sign + "1" for sign in plain._FORMULA]
    for text in [
        *starts,
        *(" " + t for t in starts),
        *("\u00a0" + t for t in starts),
        "a=1",
        "",
        " a",
    ]:
        assert bool(own.match(text)) == plain._cell(text).startswith("'"), repr(text)
