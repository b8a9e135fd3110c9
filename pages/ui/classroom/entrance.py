"""Who comes in: at this process's base path, from a page of this server, with the room's word."""

import secrets
from functools import cache, partial
from urllib.parse import parse_qsl, urlencode, urlsplit

from google.protobuf.message import DecodeError
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from streamlit import config
from streamlit.proto.BackMsg_pb2 import BackMsg

from dgp_core.live.limits import COOKIE_SECONDS, MOST_WRONG, WRONG_SECONDS
from pages.ui.classroom.room import WORD, Room, invitation_page, room, sentence_page
from pages.ui.stage.guard import Budgets, network_of, turn_away

COOKIE = "dgp_room"
OPEN = ("/metrics", "/_stcore/health")
"""What answers without the word: numbers only."""
NEEDS_WORD = (
    "This room has a word: open the link or scan the QR code that your teacher shows, with cookies "
    "allowed."
)
TOO_MANY = "Too many wrong words came from here: wait a minute, then open the teacher's link."

FOREIGN = "This socket is for this server's own pages: open the app's address itself."
RUBBISH = "This is no message of a page: reload the page."


@cache
def base_path() -> str:
    """Where Streamlit serves the app: empty, or such as /lab."""
    base = str(config.get_option("server.baseUrlPath")).strip("/")
    return f"/{base}" if base else ""


def same_origin(connection: HTTPConnection) -> bool:
    """Whether a page of this server asks: no other site may look over a visitor's shoulder.

    A proxy passes the browser's own Host, or names it in X-Forwarded-Host.
    """
    origin = urlsplit(connection.headers.get("origin", "")).netloc
    hosts = {connection.headers.get("host"), connection.headers.get("x-forwarded-host")}
    return bool(origin) and any(
        host is not None and secrets.compare_digest(origin.encode(), host.encode())
        for host in hosts
    )


async def _message_of(receive, send) -> dict:
    """What a browser tells Streamlit, which would write a traceback into the log for anything that
    is none of its messages."""
    message = await receive()
    if message["type"] == "websocket.receive":
        try:
            BackMsg.FromString(message.get("bytes") or b"\xff")
        except DecodeError:
            await send({"type": "websocket.close", "code": 1007, "reason": RUBBISH})
            return {"type": "websocket.disconnect", "code": 1007}
    return message


class Entrance:
    """ASGI middleware, before all others."""

    def __init__(self, app, own: Room | None = None, base: str | None = None):
        self.app, self.room = app, own or room()
        self.base = base_path() if base is None else base
        self._wrong = Budgets(MOST_WRONG / WRONG_SECONDS, MOST_WRONG)

    async def __call__(self, scope, receive, send):
        answer = None
        if scope["type"] in ("http", "websocket"):
            answer = self.turned_away(HTTPConnection(scope))
        if answer is not None:
            await turn_away(answer, 4403, scope, receive, send)
        elif scope["type"] == "websocket" and scope["path"] == f"{self.base}/_stcore/stream":
            await self.app(scope, partial(_message_of, receive, send), send)
        else:
            await self.app(scope, receive, send)

    def turned_away(self, connection: HTTPConnection) -> Response | None:
        """What somebody is told in place of the app; None lets them in."""
        path = connection.scope["path"]
        if not f"{path}/".startswith(f"{self.base}/"):
            query = connection.scope["query_string"].decode("latin-1")
            return RedirectResponse(f"{self.base}{path}{query and '?'}{query}", 307)
        # Streamlit would ask another server for this one's address first.
        foreign = "origin" in connection.headers and not same_origin(connection)
        if connection.scope["type"] == "websocket" and foreign:
            return PlainTextResponse(FOREIGN, 403)
        place = path.removeprefix(self.base)
        if self.room.word and place not in OPEN:
            answer = self._asked_for_word(connection)
            if answer is not None:
                return answer
        return HTMLResponse(invitation_page(self.room)) if place == "/room" else None

    def _asked_for_word(self, connection: HTTPConnection) -> Response | None:
        known = connection.cookies.get(COOKIE, "")
        inside = secrets.compare_digest(known.encode(), self.room.key.encode())
        shown = connection.query_params.get(WORD)
        if shown is None or connection.scope["type"] != "http":
            return None if inside else HTMLResponse(sentence_page(NEEDS_WORD), 403)
        return (None if inside else self._refused(connection, shown)) or self._welcome(connection)

    def _refused(self, connection: HTTPConnection, shown: str) -> Response | None:
        """What somebody is told whose word is wrong."""
        who = network_of(connection.scope)
        if self._wrong.wait(who):
            return HTMLResponse(sentence_page(TOO_MANY), 429)
        if not secrets.compare_digest(shown.encode(), self.room.word.encode()):
            return HTMLResponse(sentence_page(NEEDS_WORD), 403)
        self._wrong.wait(who, cost=-1.0)  # it was right: given back
        return None

    def _welcome(self, connection: HTTPConnection) -> Response:
        """The same address without the word, which a cookie stands for from now on."""
        query = parse_qsl(connection.url.query, keep_blank_values=True)
        rest = urlencode([(name, value) for name, value in query if name != WORD], safe=",~")
        last = connection.scope["path"].rpartition("/")[2]
        answer = RedirectResponse(f"./{last}{rest and '?'}{rest}", 303)
        answer.headers["referrer-policy"] = "no-referrer"
        answer.headers["cache-control"] = "no-store"
        answer.set_cookie(
            COOKIE,
            self.room.key,
            max_age=COOKIE_SECONDS,
            path=f"{self.room.base}/",
            secure=connection.url.scheme in ("https", "wss"),
            httponly=True,
            samesite="lax",
        )
        return answer
