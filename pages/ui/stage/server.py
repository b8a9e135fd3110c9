"""What all sessions share: the workshop, who is looking, and the frames that they are sent.

A page's script says what is to be seen, as scenes; the frames themselves go through a WebSocket of
their own, so that nothing is rendered anew while a model trains. A moment is painted once, whoever
looks at it.
"""

import asyncio
import atexit
import gc
import math
import secrets
import threading
import time
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import orjson
from starlette.middleware import Middleware
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from dgp_core.live.run import Run, Snapshot
from dgp_core.live.workshop import Workshop, WorkshopError
from dgp_core.training.compile_cache import remember_compilations
from pages.ui.stage.library import EarlyScripts
from pages.ui.stage.status import Place, numbers, phase, status, waits_for
from pages.ui.stage.wire import encode

FRAME_SECONDS = 0.1
"""Between two frames at least."""
SHARE = 0.5
"""Of one core's time that painting may take, however many runs are watched."""
DRAWN_SECONDS = 5.0
"""How long a frame may take to be drawn before the next one is sent all the same."""
FILM_SECONDS = 0.4
"""What each moment of a stored film is shown for."""
FIRST_SECONDS = 0.1
"""What its first is shown for: something moves at once."""
HOLD_SECONDS = 0.6
"""How long nothing new is shown at the most, where a run that starts at once is about to be."""
GONE_SECONDS = 30 * 60.0
"""A viewer who has neither socket nor script run for so long is forgotten."""
MOST_PAINTED = 24
"""Painted moments kept for each run."""
LONGEST_MESSAGE = 2000
WISHES = ("play", "pause", "step", "reset")
COULD_NOT_DRAW = "This moment could not be drawn: reset the run, or lower its rates."

Elements = dict[str, dict]
"""What a host shows, by its name: a figure and its alt text, or words, or a meter's value."""


@dataclass(frozen=True)
class Scene:
    """A run, and how a page wants to see it."""

    run_id: str
    paint: Callable[[Run, Any], Elements]
    """From a run and a moment (a snapshot, a film's frame, or None before either) to elements."""
    style: tuple
    """Everything beside run and moment that the painting depends on."""
    film: tuple = ()
    """Moments to show while the run is being compiled."""
    clicks: int = 0
    """How many of the browser's clicks its run has taken in."""
    until: int = 0
    """The step at which it pauses when it is played from before, or reset; 0 goes on."""


@dataclass(eq=False)
class Viewer:
    """A session that looks at something."""

    token: str
    owner: str
    """The browser's secret: it controls the runs that it started."""
    scenes: dict[str, Scene] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    """The earlier step that a scene is held at; the newest where it has none."""
    seen: float = 0.0
    sockets: int = 0
    film: int = 0
    """The moment of its first film that its browser has come to by itself: see early.js."""
    looked: threading.Event = field(default_factory=threading.Event)
    """Whether its browser has drawn a picture, and of what moves two."""


class Server:
    """One a process. JAX's threads must have ended before the interpreter does: see `stop`."""

    def __init__(self):
        remember_compilations()
        self.workshop = Workshop()
        self._pool = ThreadPoolExecutor(4, "dgp-paint")
        self._easel = ThreadPoolExecutor(2, "dgp-first")
        """For pictures that may have to be compiled first: others' are not kept waiting."""
        self._lock = threading.Lock()
        self._viewers: dict[str, Viewer] = {}
        self._painted: WeakKeyDictionary[Run, OrderedDict] = WeakKeyDictionary()
        self._paces: WeakKeyDictionary[Run, deque] = WeakKeyDictionary()
        self._began: WeakKeyDictionary[Run, float] = WeakKeyDictionary()
        self._asked: WeakKeyDictionary[Run, float] = WeakKeyDictionary()
        self._waits: WeakKeyDictionary[Run, tuple[str, float]] = WeakKeyDictionary()
        """What each waits for, and since when."""
        self._first: WeakKeyDictionary[Run, dict[Any, threading.Event]] = WeakKeyDictionary()
        self._cost = 0.02
        self._settled = False

    def stop(self) -> None:
        """Ends every thread; the server is about to stop."""
        self.workshop.stop()
        for pool in (self._pool, self._easel):
            pool.shutdown(wait=True, cancel_futures=True)

    # For page scripts.

    def viewer(self, token: str, owner: str) -> Viewer:
        """A session's own viewer, made where there is none."""
        now = time.monotonic()
        with self._lock:
            for old in [
                t for t, v in self._viewers.items() if not v.sockets and now - v.seen > GONE_SECONDS
            ]:
                del self._viewers[old]
            viewer = self._viewers.setdefault(token, Viewer(token, owner))
            viewer.seen = now
            return viewer

    def looking(self) -> int:
        """How many browsers are being sent frames."""
        return sum(viewer.sockets > 0 for viewer in list(self._viewers.values()))

    def place(self, run_id: str) -> Place:
        """Who is served before a run."""
        return Place(self.workshop.place(run_id), self.workshop.compiling_place(run_id))

    # For the sockets.

    def known(self, token: str) -> Viewer | None:
        return self._viewers.get(token)

    def pause_between(self) -> float:
        """Seconds between frames: longer the more runs are painted, so that training goes on."""
        watched = {
            scene.run_id
            for viewer in list(self._viewers.values())
            if viewer.sockets
            for scene in list(viewer.scenes.values())
        }
        return max(FRAME_SECONDS, self._cost * len(watched) / SHARE)

    def signature(self, viewer: Viewer) -> tuple:
        """Changes when there is something new to show; cheap enough to ask ten times a second."""
        viewer.seen = time.monotonic()
        parts = []
        for name, scene in list(viewer.scenes.items()):
            try:
                run = self.workshop.watch(scene.run_id)
                place = self.place(scene.run_id)
            except WorkshopError:
                parts.append((name, "gone"))
                continue
            moment = self._moment(viewer, name, scene, run, patient=False)
            steady = self._pace(run) if run.playing else 0.0
            parts.append(
                (
                    name,
                    scene,
                    moment,
                    run.status,
                    place,
                    steady > 0,
                    run.outdated,
                    *_bar(run).values(),
                )
                + ((len(run.history()),) if viewer.at.get(name) is not None else ())
            )
        return tuple(parts)

    def imminent(self, viewer: Viewer) -> bool:
        """Whether a run of a known shape is about to be seen: its film, or its data alone, would
        only keep the browser busy."""
        now = time.monotonic()
        for name, scene in list(viewer.scenes.items()):
            with suppress(WorkshopError):
                run, known = self.workshop.watch(scene.run_id), self.workshop.knows(scene.run_id)
                fresh = now - self._asked.setdefault(run, now) < HOLD_SECONDS
                moment = self._moment(viewer, name, scene, run, patient=False)
                if known and fresh and run.status != "failed" and not isinstance(moment, Snapshot):
                    return True
        return False

    def elements(self, viewer: Viewer, patient: bool = True) -> dict[str, bytes]:
        """Everything that a viewer should see now, element by element, packed.

        A run's first picture may have to be compiled: the impatient see its film meanwhile.
        """
        packed: dict[str, bytes] = {}
        for name, scene in list(viewer.scenes.items()):
            try:
                run = self.workshop.watch(scene.run_id)
                place = self.place(scene.run_id)
            except WorkshopError as error:
                packed[f"{name}/state"] = encode({"text": str(error), "phase": "gone"})
                continue
            which, outdated = f"{scene.run_id} {run.epoch}", run.outdated
            moment = self._moment(viewer, name, scene, run, patient)
            state = {"phase": phase(run, place), "run": which, "clicks": scene.clicks}
            wait = waits_for(run, place, isinstance(moment, Snapshot))
            state |= {"text": status(run, place, wait), "since": self._since(run, wait)}
            painted: dict[str, bytes] = {}
            if not outdated:
                try:
                    painted = self._paint(run, scene, moment)
                except Exception:
                    state["text"] = COULD_NOT_DRAW
            own: Elements = {
                "state": state,
                "wait": {"text": state["text"] if wait else "", "since": state["since"]},
                "numbers": {"text": numbers(run, moment, self._pace(run) if run.playing else None)},
                "timeline": self._timeline(viewer, name, run),
                "bar": _bar(run),
            }
            for element, content in ({k: encode(v) for k, v in own.items()} | painted).items():
                packed[f"{name}/{element}"] = content
        return packed

    def bars(self, viewer: Viewer) -> dict[str, bytes]:
        """What the bars of a viewer's runs say, packed."""
        packed = {}
        for name, scene in list(viewer.scenes.items()):
            with suppress(WorkshopError):
                packed[f"{name}/bar"] = encode(_bar(self.workshop.watch(scene.run_id)))
        return packed

    def hear(self, viewer: Viewer, message: dict) -> None:
        """What a browser tells: what it has drawn, the slider's place, an inducing point's, or what
        was pressed in a run's bar."""
        seen = message.get("seen")
        if not viewer.looked.is_set() and isinstance(seen, int) and seen > self._moves(viewer):
            viewer.looked.set()
        if "at" in message:
            self._hold(viewer, message["at"])
        move = message.get("move")
        if isinstance(move, dict):
            self._move(viewer, move)
        wish = message.get("wish")
        if isinstance(wish, dict):
            self._wish(viewer, str(wish.get("scene")), wish.get("word"))

    # Inside.

    def _since(self, run: Run, wait: str) -> float | None:
        """When a run began to wait for this, by the server's clock; None where it does not."""
        what, since = self._waits.get(run, ("", 0.0))
        if wait != what:
            since = time.time()
            self._waits[run] = (wait, since)
        return since if wait else None

    def _moment(self, viewer: Viewer, name: str, scene: Scene, run: Run, patient: bool) -> Any:
        """What there is to see: the run, or until it is compiled its film, or nothing yet."""
        begun = run.latest is not None and run.status not in ("waiting", "compiling")
        if begun and (patient or self._drawable(run, scene)):
            at = viewer.at.get(name)
            return run.latest if at is None else run.at(at)
        if not scene.film:
            return None
        now = time.monotonic()
        seen, viewer.film = viewer.film, 0
        already = FIRST_SECONDS + (seen - 1) * FILM_SECONDS if seen else 0.0
        began = self._began.setdefault(run, now - already)
        frame = int(1 + (now - began - FIRST_SECONDS) / FILM_SECONDS)
        return scene.film[min(frame, len(scene.film) - 1)]

    def _moves(self, viewer: Viewer) -> bool:
        """Whether a second picture is coming soon: of a film, or of a run that trains."""
        for scene in list(viewer.scenes.values()):
            with suppress(WorkshopError):
                run = self.workshop.watch(scene.run_id)
                if scene.film if run.latest is None else not run.at_rest:
                    return True
        return False

    def _drawable(self, run: Run, scene: Scene) -> bool:
        """Whether the run was painted for such a page before; if not, a first moment is, aside."""
        page = scene.style[:1]
        with self._lock:
            pages = self._first.setdefault(run, {})
            if page not in pages:
                pages[page] = threading.Event()
                self._easel.submit(self._paint_first, pages[page], run, scene, run.latest)
        return pages[page].is_set()

    def _paint_first(self, done: threading.Event, run: Run, scene: Scene, moment: Any) -> None:
        with suppress(Exception):  # the next painting says so
            self._paint(run, scene, moment)
        done.set()

    def _paint(self, run: Run, scene: Scene, moment: Any) -> dict[str, bytes]:
        """A moment in a style, packed; painted once, whoever asks."""
        # A snapshot by its number, so that it is not kept; a film's frame, which lasts, by itself.
        key = (moment.serial if isinstance(moment, Snapshot) else moment, scene.style)
        with self._lock:
            kept = self._painted.setdefault(run, OrderedDict())
            future = kept.get(key)
            mine = future is None
            if future is None:
                future = kept[key] = Future()
                while len(kept) > MOST_PAINTED:
                    kept.popitem(last=False)
        if mine:
            self._fill(future, run, scene, moment)
            if future.exception() is not None:
                with self._lock:
                    kept.pop(key, None)
        return future.result()

    def _fill(self, future: Future, run: Run, scene: Scene, moment: Any) -> None:
        began = time.thread_time()  # its own work, not its wait for others'
        try:
            elements = scene.paint(run, moment)
            future.set_result({name: encode(content) for name, content in elements.items()})
        except Exception as error:
            future.set_exception(error)
        taken = min(0.5, time.thread_time() - began)
        self._cost += 0.2 * (taken - self._cost)
        if isinstance(moment, Snapshot):
            self._settle()

    def _settle(self) -> None:
        """After the first compilation: what is there stays, and no collection walks it again."""
        if not self._settled:
            self._settled = True
            gc.collect()
            gc.freeze()

    def _pace(self, run: Run) -> float:
        """Steps a second over the last two seconds."""
        step, now = run.latest.step if run.latest is not None else 0, time.monotonic()
        seen = self._paces.setdefault(run, deque(maxlen=200))
        if seen and (step < seen[-1][1]):
            seen.clear()
        if not seen or now - seen[-1][0] > 0.05:
            seen.append((now, step))
        while len(seen) > 1 and now - seen[0][0] > 2.5:
            seen.popleft()
        (began, first), (ended, last) = seen[0], seen[-1]
        return (last - first) / (ended - began) if ended - began > 0.2 else 0.0

    def _timeline(self, viewer: Viewer, name: str, run: Run) -> dict:
        steps = [snapshot.step for snapshot in run.history()]
        at = viewer.at.get(name)
        if not steps:
            return {"index": 0, "count": 0, "text": "History begins with the run.", "live": True}
        index = len(steps) - 1 if at is None else min(bisect_left(steps, at), len(steps) - 1)
        where = "now" if at is None else "held"
        text = f"step {steps[index]:,} of {steps[-1]:,}, {where}"
        return {"index": index, "count": len(steps), "text": text, "live": at is None}

    def _hold(self, viewer: Viewer, where: Any) -> None:
        """Holds every scene at a share of its history, or lets it go on with the newest."""
        for name, scene in list(viewer.scenes.items()):
            if not isinstance(where, int | float) or not 0 <= where < 1:
                viewer.at.pop(name, None)
                continue
            with suppress(WorkshopError):
                history = self.workshop.watch(scene.run_id).history()
                if history:
                    viewer.at[name] = history[round(where * (len(history) - 1))].step

    def _wish(self, viewer: Viewer, name: str, word: Any) -> None:
        """Play, pause, step or reset, by the run's owner; the newest moment is then looked at."""
        scene = viewer.scenes.get(name)
        if scene is None or word not in WISHES:
            return
        with suppress(WorkshopError):
            run = self.workshop.control(scene.run_id, viewer.owner)
            viewer.at.clear()
            getattr(run, word)()
            step = run.latest.step if run.latest is not None else 0
            if word == "reset" and scene.until or word == "play" and step < scene.until:
                run.play_until(scene.until)
            self.workshop.wake()

    def _move(self, viewer: Viewer, move: dict) -> None:
        """Puts an inducing point of the first layer where it was dragged, for the run's owner."""
        name, _, element = str(move.get("name")).partition("/")
        scene, index = viewer.scenes.get(name), move.get("index")
        if scene is None or not isinstance(index, int) or element not in ("deep", "layer_0"):
            return
        said = (move.get("x"), move.get("y"))
        place = [float(p) for p in said if isinstance(p, int | float) and math.isfinite(p)]
        if len(place) < 2:
            return
        with suppress(WorkshopError, ValueError):
            run = self.workshop.control(scene.run_id, viewer.owner)
            viewer.at.pop(name, None)
            run.move_inducing_to(index, place)
            self.workshop.wake()


def _bar(run: Run) -> dict:
    """What the buttons that drive a run depend on."""
    over = run.status in ("finished", "failed")
    return {"playing": run.playing, "over": over, "seed": run.train.seed, "speed": run.speed}


_lock = threading.Lock()
_server: Server | None = None


def server() -> Server:
    """The process's own."""
    global _server
    with _lock:
        if _server is None:
            _server = Server()
            atexit.register(stop)
        return _server


def stop() -> None:
    """Ends the process's server, if there is one."""
    global _server
    with _lock:
        if _server is not None:
            _server.stop()
            _server = None


async def watch(socket: WebSocket) -> None:
    """Sends a viewer's frames: a new one when the last is drawn and there is something new."""
    viewer = server().known(socket.path_params["token"])
    await socket.accept()
    if viewer is None or not same_origin(socket):
        await socket.close(4404)
        return
    film = socket.query_params.get("film", "")
    viewer.film = int(film[:2]) if film.isdecimal() else 0
    drawn = asyncio.Event()
    drawn.set()
    listener = asyncio.create_task(_listen(socket, viewer, drawn))
    viewer.sockets += 1
    try:
        await _send_frames(socket, viewer, drawn, listener)
    except (WebSocketDisconnect, RuntimeError):
        pass  # the browser went away between two frames
    finally:
        viewer.sockets -= 1
        listener.cancel()


async def _send_frames(socket: WebSocket, viewer: Viewer, drawn, listener) -> None:
    own, loop = server(), asyncio.get_running_loop()
    sent: dict[str, bytes] = {}
    signature, n = None, 0
    while not listener.done():
        began = loop.time()
        now = own.signature(viewer)
        if now != signature and own.imminent(viewer):
            await asyncio.sleep(0.02)
            continue
        if now != signature:
            signature = now
            elements = await loop.run_in_executor(own._pool, own.elements, viewer, False)
            news = _news(elements, sent)
            if news:  # painted while the browser drew the frame before
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(drawn.wait(), DRAWN_SECONDS)
                n, sent, news = n + 1, elements, news | own.bars(viewer)
                drawn.clear()
                await socket.send_text(_message(n, news))
        await asyncio.sleep(max(0.01, began + own.pause_between() - loop.time()))


def _news(elements: dict[str, bytes], sent: dict[str, bytes]) -> dict[str, bytes]:
    """What a browser does not show yet: where another run begins, all of its scene."""

    def run(part: bytes | None) -> str:
        return orjson.loads(part).get("run", "") if part else ""

    begun = {
        name.removesuffix("state")
        for name, part in elements.items()
        if name.endswith("/state") and run(part) != run(sent.get(name))
    }
    return {
        name: part
        for name, part in elements.items()
        if sent.get(name) != part or name[: name.index("/") + 1] in begun
    }


def _message(n: int, news: dict[str, bytes]) -> str:
    parts = b",".join(orjson.dumps(name) + b":" + part for name, part in news.items())
    return (b'{"n":%d,"now":%.3f,"elements":{' % (n, time.time()) + parts + b"}}").decode()


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
                await socket.send_text(_message(0, server().bars(viewer)))


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
