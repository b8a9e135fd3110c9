"""The WebSocket that a browser is sent frames by, and tells what was pressed and dragged."""

import asyncio
import time
from contextlib import suppress

import orjson
from starlette.middleware import Middleware
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from dgp_core.live.limits import MESSAGE_BYTES, MOST_SOCKETS
from pages.ui.classroom.entrance import Entrance, base_path, same_origin
from pages.ui.stage.guard import Guard
from pages.ui.stage.library import EarlyScripts
from pages.ui.stage.server import LOOK_SECONDS, Frame, server
from pages.ui.stage.viewers import Bell, Viewer
from pages.ui.stage.wire import encode

DRAWN_SECONDS = 5.0
"""How long a frame may take to be drawn before the next one is sent all the same."""
SOON_SECONDS = 0.05
"""How often it is looked whether a run that starts at once has begun."""
TOO_MANY = f"This page has {MOST_SOCKETS} newer connections: close its other tabs."
TOO_LONG = f"A message has {MESSAGE_BYTES:,} bytes at the most."
CLASS_SECONDS = 0.05
"""Between two messages about a class at least."""


async def watch(socket: WebSocket) -> None:
    """Sends a viewer's frames: a new one when the last is drawn and there is something new."""
    viewer = server().viewers.get(socket.path_params["token"])
    await socket.accept()
    if viewer is None or not same_origin(socket):
        await socket.close(4404, "This page is not known here any more: reload it.")
        return
    film = socket.query_params.get("film", "")
    viewer.film = int(film[:2]) if film.isdecimal() else 0
    bell, drawn = Bell(), asyncio.Event()
    drawn.set()
    listener = asyncio.create_task(_listen(socket, viewer, drawn))
    listener.add_done_callback(lambda _: bell.ring())
    viewer.attach(bell)
    teller = asyncio.create_task(_tell_of_class(socket, viewer))
    try:
        await _send_frames(socket, viewer, bell, drawn, listener)
        if bell.over:
            await socket.close(4429, TOO_MANY)
    except (WebSocketDisconnect, RuntimeError):
        pass  # the browser went away between two frames
    finally:
        viewer.bells.discard(bell)
        listener.cancel()
        teller.cancel()


async def _tell_of_class(socket: WebSocket, viewer: Viewer) -> None:
    """Sends what changes in a viewer's class at once, whatever is being painted or drawn."""
    bell, sent = Bell(), {}
    viewer.class_bells.add(bell)
    try:
        while True:
            page = server().class_page(viewer)
            news = {f"class/{n}": encode(part) for n, part in page.items() if part != sent.get(n)}
            if news:
                await socket.send_bytes(_message(0, news))
                sent = page
            await asyncio.sleep(CLASS_SECONDS)
            await bell.wait(LOOK_SECONDS)
    except (WebSocketDisconnect, RuntimeError):
        pass  # the browser went away
    finally:
        viewer.class_bells.discard(bell)


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
    while not (listener.done() or bell.over):
        began = loop.time()
        if viewer.scenes is not scenes or began - attended >= LOOK_SECONDS:
            own.attend(viewer)
            attended, scenes = began, viewer.scenes
        own.begin_painting(viewer)
        if (quiet := viewer.quiet_until - time.monotonic()) > 0:
            await asyncio.sleep(quiet)
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
            own.frames.note()
        await asyncio.sleep(max(0.01, began + own.pause_after(sights) - loop.time()))


def _message(n: int, news: dict[str, bytes]) -> bytes:
    parts = b",".join(orjson.dumps(name) + b":" + part for name, part in news.items())
    return b'{"n":%d,"now":%.3f,"elements":{' % (n, time.time()) + parts + b"}}"


async def _listen(socket: WebSocket, viewer: Viewer, drawn: asyncio.Event) -> None:
    with suppress(WebSocketDisconnect):
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text") or message.get("bytes") or b""
            if len(text) > MESSAGE_BYTES:  # where its server could not tell before it had arrived
                await socket.close(1009, TOO_LONG)
                return
            try:
                message = orjson.loads(text)
            except orjson.JSONDecodeError:
                continue
            if not isinstance(message, dict):
                continue
            if "drawn" in message:
                drawn.set()
            server().hear(viewer, message)
            if "command" in message:  # a button answers at once, whatever is being drawn
                await socket.send_bytes(_message(0, server().bars(viewer)))


routes = [WebSocketRoute(f"{base_path()}/stage/{{token}}", watch)]
middleware = [Middleware(Guard), Middleware(Entrance), Middleware(EarlyScripts)]
