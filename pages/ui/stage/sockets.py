"""The WebSocket that a browser is sent frames by, and tells what was pressed and dragged."""

import asyncio
import secrets
import time
from contextlib import suppress
from urllib.parse import urlsplit

import orjson
from starlette.middleware import Middleware
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from pages.ui.stage.library import EarlyScripts
from pages.ui.stage.server import LOOK_SECONDS, Frame, server
from pages.ui.stage.viewers import Bell, Viewer

DRAWN_SECONDS = 5.0
"""How long a frame may take to be drawn before the next one is sent all the same."""
SOON_SECONDS = 0.05
"""How often it is looked whether a run that starts at once has begun."""
LONGEST_MESSAGE = 2000


async def watch(socket: WebSocket) -> None:
    """Sends a viewer's frames: a new one when the last is drawn and there is something new."""
    viewer = server().viewers.get(socket.path_params["token"])
    await socket.accept()
    if viewer is None or not same_origin(socket):
        await socket.close(4404)
        return
    film = socket.query_params.get("film", "")
    viewer.film = int(film[:2]) if film.isdecimal() else 0
    bell, drawn = Bell(), asyncio.Event()
    drawn.set()
    listener = asyncio.create_task(_listen(socket, viewer, drawn))
    listener.add_done_callback(lambda _: bell.ring())
    viewer.bells.add(bell)
    try:
        await _send_frames(socket, viewer, bell, drawn, listener)
    except (WebSocketDisconnect, RuntimeError):
        pass  # the browser went away between two frames
    finally:
        viewer.bells.discard(bell)
        listener.cancel()


async def _send_frames(
    socket: WebSocket,
    viewer: Viewer,
    bell: Bell,
    drawn: asyncio.Event,
    listener: asyncio.Task,
) -> None:
    own, loop = server(), asyncio.get_running_loop()
    sent, signature, n = Frame(), None, 0
    attended, scenes = 0.0, None
    while not listener.done():
        began = loop.time()
        if viewer.scenes is not scenes or began - attended >= LOOK_SECONDS:
            own.attend(viewer)
            attended, scenes = began, viewer.scenes
        own.begin_painting(viewer)
        now = own.signature(viewer)
        if now == signature:
            await bell.wait(own.patience(viewer))
            continue
        if own.imminent(viewer):
            await bell.wait(SOON_SECONDS)
            continue
        signature, sights = now, own.sights(viewer, patient=False)
        paintings = [asyncio.wrap_future(s.painting) for s in sights if s.painting is not None]
        await asyncio.gather(*paintings, return_exceptions=True)
        frame = own.frame(sights)
        news = frame.news(sent)
        if news:  # painted while the browser drew the frame before
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(drawn.wait(), DRAWN_SECONDS)
            n, sent = n + 1, frame
            drawn.clear()
            await socket.send_bytes(_message(n, news | own.bars(viewer)))
        await asyncio.sleep(max(0.01, began + own.pause_between() - loop.time()))


def _message(n: int, news: dict[str, bytes]) -> bytes:
    parts = b",".join(orjson.dumps(name) + b":" + part for name, part in news.items())
    return b'{"n":%d,"now":%.3f,"elements":{' % (n, time.time()) + parts + b"}}"


async def _listen(socket: WebSocket, viewer: Viewer, drawn: asyncio.Event) -> None:
    with suppress(WebSocketDisconnect):
        while True:
            text = await socket.receive_text()
            try:
                message = orjson.loads(text) if len(text) <= LONGEST_MESSAGE else {}
            except orjson.JSONDecodeError:
                continue
            if not isinstance(message, dict):
                continue
            if "drawn" in message:
                drawn.set()
            server().hear(viewer, message)
            if "wish" in message:  # a button answers at once, whatever is being drawn
                await socket.send_bytes(_message(0, server().bars(viewer)))


def same_origin(socket: WebSocket) -> bool:
    """Whether a page of this server asks: no other site may look over a visitor's shoulder."""
    origin = urlsplit(socket.headers.get("origin", "")).netloc
    hosts = {socket.headers.get("host"), socket.headers.get("x-forwarded-host")}
    return bool(origin) and any(
        host is not None and secrets.compare_digest(origin.encode(), host.encode())
        for host in hosts
    )


routes = [WebSocketRoute("/stage/{token}", watch)]
middleware = [Middleware(EarlyScripts)]
