"""What every answer carries, and what every browser may ask: a cookie, headers, and a budget.

ASGI middleware, before all others. A browser is known by a secret in a cookie that only the server
reads; whoever has none, by its address.
"""

import asyncio
import base64
import hashlib
import ipaddress
import re
import secrets
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.formparsers import MultiPartParser
from starlette.responses import PlainTextResponse, Response
from streamlit import runtime

from dgp_core.live.limits import (
    BROWSERS,
    BURST,
    COOKIE_SECONDS,
    COSTS,
    EMBED,
    MESSAGE_BYTES,
    MOST_KNOWN,
    MOST_OPEN,
    RATE,
    SERVER_UPLOAD_BYTES,
    SESSION_UPLOAD_BYTES,
    SOCKET_COST,
)

COOKIE = "dgp_browser"
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),  # a link holds its run's name
    (b"cross-origin-opener-policy", b"same-origin-allow-popups"),
)
INLINE = re.compile(rb"<script(?![^>]*\ssrc=)[^>]*>(.*?)</script>", re.DOTALL)
TOO_MANY = "Too many requests from this browser: wait a few seconds and try again."
NO_ROOM = (
    "The files that wait to be read here are too large together: wait until others are read, or "
    "train without the screen, where there is no limit: python -m dgp_core fit"
)
UPLOAD = re.compile(r"/_stcore/upload_file/([^/]+)/")


def policy(page: bytes) -> bytes:
    """The Content-Security-Policy of a page: its own scripts, pictures and sockets, nobody else's.

    Streamlit does not bear it without these two: its styles are written into the page
    (unsafe-inline), and its components' scripts and its tables' workers are blobs. Scripts in the
    page are named by their hashes, so that markup from outside could not run even where it got in.
    """
    hashes = (hashlib.sha256(text).digest() for text in INLINE.findall(page))
    own = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in hashes)
    return (
        (
            f"default-src 'self'; script-src 'self' blob: {own}; "
            "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
            "media-src 'self' blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
            f"form-action 'self'; frame-ancestors 'self' {EMBED}"
        )
        .strip()
        .encode()
    )


def still_policy() -> bytes:
    """The Content-Security-Policy of HTML that has no scripts: its own styles and pictures."""
    still = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"
    return f"{still}; form-action 'none'; frame-ancestors 'self' {EMBED}".strip().encode()


def browser_of(scope: dict[str, Any]) -> str:
    """The secret that a request's browser is known by; empty where it has none."""
    cookies: SimpleCookie = SimpleCookie()
    with suppress(CookieError, UnicodeDecodeError):
        for name, value in scope.get("headers", ()):
            if name == b"cookie":
                cookies.load(value.decode("latin-1"))
    known = cookies[COOKIE].value if COOKIE in cookies else ""
    return known if is_secret(known) else ""


def is_secret(text: str) -> bool:
    """Whether a cookie's value may be one that `cookie` made."""
    return re.fullmatch(r"[\w-]{32,64}", text) is not None


def cookie(secret: str, secure: bool) -> bytes:
    """The browser's secret as a header: no script reads it, and no other site's form sends it.

    In a page that embeds this one browsers leave such a cookie out: a run there is its tab's own,
    and a reload begins another.
    """
    line = f"{COOKIE}={secret}; Path=/; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax"
    return (line + "; Secure" * secure).encode()


class Budgets:
    """Token buckets: each fills at a rate up to its burst; a request that costs takes from it."""

    def __init__(self, rate: float = RATE, burst: float = BURST, clock=time.monotonic):
        self._rate, self._burst, self._clock = rate, burst, clock
        self._lock = threading.Lock()
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, key: str, cost: float = 1.0, share: float = 1.0) -> float:
        """Takes `cost` of a budget that is `share` times the usual: 0.0 where it is there, else how
        many seconds to wait for it, and nothing is taken."""
        rate, burst, now = share * self._rate, share * self._burst, self._clock()
        with self._lock:
            left, since = self._left.pop(key, (burst, now))
            left = min(burst, left + rate * (now - since))
            missing = max(0.0, cost - left)
            self._left[key] = (left if missing else left - cost, now)
            while len(self._left) > MOST_KNOWN:
                self._left.popitem(last=False)
        return missing / rate


def _keys(scope: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The budgets that a request takes from: its browser's, and its address's, which a class may
    share. A browser without a cookie has only the latter, since anybody can leave it out."""
    if browser := browser_of(scope):
        yield browser, 1.0
    yield f"address {network_of(scope)}", BROWSERS


def network_of(scope: Mapping[str, Any]) -> str:
    """Where a request comes from: an address, or of IPv6 the network that one household has."""
    host = (scope.get("client") or ("",))[0]
    with suppress(ValueError):
        address = ipaddress.ip_address(host)
        if address.version == 6 and address.ipv4_mapped is None:
            return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return host


FREE = re.compile(r"/(static|media|component|metrics|_stcore/(health|host-config|bidi))\b")
"""Files that lie there ready, and numbers."""


def cost_of(scope: dict[str, Any]) -> float:
    """What a request, or a message of a socket, costs."""
    path = scope.get("path", "")
    if FREE.search(path):
        return 0.0
    return next((cost for part, cost in COSTS.items() if part in path), 1.0)


class Guard:
    """One for the whole app."""

    def __init__(self, app, budgets: Budgets | None = None):
        self.app, self.budgets = app, budgets or Budgets()
        self.uploads = Uploads()
        self._open: Counter[str] = Counter()

    def wait(self, scope: dict[str, Any], cost: float) -> float:
        """Seconds until a request's budgets allow it; 0.0 where they do."""
        return max(self.budgets.wait(key, cost, share) for key, share in _keys(scope))

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        elif scope["type"] == "http":
            await self._request(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _request(self, scope, receive, send) -> None:
        async def dressed(message):
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                known = {name.lower(): value for name, value in headers}
                headers += [(name, value) for name, value in HEADERS if name not in known]
                html = known.get(b"content-type", b"").startswith(b"text/html")
                if html and b"content-security-policy" not in known:  # a sentence, or a file
                    headers.append((b"content-security-policy", still_policy()))
                elif b"content-security-policy" in known:  # a page
                    secret = browser_of(scope) or secrets.token_urlsafe(24)
                    secure = scope.get("scheme") == "https"
                    headers.append((b"set-cookie", cookie(secret, secure)))
                message = {**message, "headers": headers}
            await send(message)

        cost = cost_of(scope)
        if cost and (seconds := self.wait(scope, cost)):
            again = (b"retry-after", str(int(seconds) + 1).encode())
            await _refuse(dressed, 429, TOO_MANY, again)
        elif found := UPLOAD.search(scope.get("path", "")) if scope["method"] == "PUT" else None:
            await self.uploads.take(found[1], self.app, scope, receive, dressed)
        else:
            await self.app(scope, receive, dressed)

    async def _socket(self, scope, receive, send) -> None:
        """A socket that is asked for too often is refused; one that tells too much is read more
        slowly, and its browser must wait."""
        keys = [key for key, _ in _keys(scope)]
        full = any(self._open[key] >= share * MOST_OPEN for key, share in _keys(scope))
        if full or self.wait(scope, SOCKET_COST):
            await turn_away(PlainTextResponse(TOO_MANY, 429), 1013, scope, receive, send)
            return
        if "/stage/" in scope.get("path", ""):
            limit_messages(receive, MESSAGE_BYTES)
        cost = cost_of(scope)

        async def paced():
            message = await receive()
            if message["type"] == "websocket.receive":
                while seconds := self.wait(scope, cost):
                    await asyncio.sleep(seconds)
            return message

        self._open.update(keys)
        try:
            await self.app(scope, paced, send)
        finally:
            self._open.subtract(keys)
            for key in keys:
                if not self._open[key]:
                    del self._open[key]


async def turn_away(answer: Response, code: int, scope, receive, send) -> None:
    """Answers in place of the app; a socket before it opens, where its server can, else it is
    closed with a code of its own."""
    if scope["type"] == "websocket":
        await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            reason = bytes(answer.body).decode() if answer.media_type == "text/plain" else ""
            await send({"type": "websocket.close", "code": code, "reason": reason})
            return
    await answer(scope, receive, send)


async def _refuse(send, status: int, sentence: str, *headers: tuple[bytes, bytes]) -> None:
    fields = [(b"content-type", b"text/plain; charset=utf-8"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": sentence.encode()})


class Uploads:
    """How much of files is on its way, and waits to be read: of a session, and of all."""

    def __init__(self):
        self._coming: Counter[str] = Counter()

    def room(self, session: str) -> int:
        """Bytes that a session may still send."""
        stored: dict[str, dict] = {}
        if runtime.exists():
            stored = getattr(runtime.get_instance().uploaded_file_mgr, "file_storage", stored)
        held = {name: sum(len(file.data) for file in list(files.values()))
                for name, files in list(stored.items())}  # fmt: skip
        own = SESSION_UPLOAD_BYTES - self._coming[session] - held.get(session, 0)
        return min(own, SERVER_UPLOAD_BYTES - self._coming.total() - sum(held.values()))

    async def take(self, session: str, app, scope, receive, send) -> None:
        """Passes a file on as it arrives, as long as there is room for it."""
        stated = dict(scope.get("headers", ())).get(b"content-length", b"0")
        if int(stated) > self.room(session) if stated.isdigit() else True:
            await _refuse(send, 413, NO_ROOM)
            return
        taken = 0

        async def counted():
            nonlocal taken
            message = await receive()
            size = len(message.get("body", b""))
            if size > self.room(session):
                return {"type": "http.disconnect"}
            taken += size
            self._coming[session] += size
            return message

        try:
            await app(scope, counted, send)
        finally:
            self._coming[session] -= taken
            if not self._coming[session]:
                del self._coming[session]


def keep_uploads_in_memory() -> None:
    """Has a file's bytes stay in memory as they arrive: Starlette would write those of more than a
    megabyte to a temporary file."""
    MultiPartParser.spool_max_size = 0  # no limit


def limit_messages(receive: Any, most: int) -> bool:
    """Has a socket's server close it where the head of a frame announces more than `most` bytes, so
    that they are not received at all; False where the server offers no way.

    Uvicorn has one limit for all sockets (Streamlit's server.maxMessageSize), so this asks the
    connection itself, which ASGI hides behind `receive`. What a browser sends before its socket is
    accepted is measured by that common limit; then `sockets` measures what has arrived.
    """
    connection = getattr(getattr(receive, "__self__", None), "conn", None)
    if connection is None or not hasattr(connection, "max_message_size"):
        return False
    connection.max_message_size = most
    return True
