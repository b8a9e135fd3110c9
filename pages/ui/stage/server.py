"""What all sessions share: the workshop, who is looking, and what they are to see.

A page's script says what is to be seen, as scenes; the frames themselves go through a WebSocket of
their own, so that nothing is rendered anew while a model trains. A moment is painted once, whoever
looks at it.
"""

import atexit
import math
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from dgp_core.live.limits import FRAME_SECONDS, SEND_SECONDS, SHARE
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.workshop import Workshop, WorkshopError
from dgp_core.training.compile_cache import remember_compilations
from pages.ui.stage.classroom import Classrooms
from pages.ui.stage.pace import Frames, Pace
from pages.ui.stage.painter import Painter
from pages.ui.stage.status import Place, numbers, phase, status, waits_for
from pages.ui.stage.timeline import held_step, timeline
from pages.ui.stage.viewers import Elements, Scene, Viewer, Viewers
from pages.ui.stage.wire import encode

__all__ = ["COMMANDS", "Elements", "Frame", "Scene", "Server", "Viewer", "server", "stop"]

FILM_SECONDS = 0.4
"""What each moment of a stored film is shown for."""
FIRST_SECONDS = 0.1
"""What its first is shown for: something moves at once."""
HOLD_SECONDS = 0.6
"""How long nothing new is shown at the most, where a run that starts at once is about to be."""
LOOK_SECONDS = 1.0
"""After which it is looked whether there is something new, though no run has told of it."""
COMMANDS = ("play", "pause", "step", "reset")
COULD_NOT_DRAW = "This moment could not be drawn: reset the run, or lower its rates."


class Sight(NamedTuple):
    """One scene as a viewer is to see it now."""

    name: str
    run: str
    """Which run it is, and how often it was reset."""
    words: Elements
    painting: Future[dict[str, bytes]] | None
    awaited: bool = False
    """Whether nothing is shown yet of a run that is about to be, or its start alone."""


@dataclass(frozen=True)
class Frame:
    """What a browser shows, packed: elements by their names, and each scene's run."""

    elements: dict[str, bytes] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)

    def news(self, before: "Frame") -> dict[str, bytes]:
        """What it does not show yet: where another run begins, all of its scene."""
        begun = {name for name, run in self.runs.items() if run != before.runs.get(name)}
        return {
            name: part
            for name, part in self.elements.items()
            if before.elements.get(name) != part or name.partition("/")[0] in begun
        }


class Server:
    """One a process. JAX's threads must have ended before the interpreter does: see `stop`."""

    def __init__(self):
        remember_compilations()
        self.viewers, self.painter, self.pace = Viewers(), Painter(), Pace()
        self.classrooms = Classrooms(self.viewers.ring_class)
        self.workshop = Workshop()
        self.workshop.on_change, self.workshop.on_away = self._changed, self.painter.put_away
        self.frames = Frames()
        self._asked: WeakKeyDictionary[Run, float] = WeakKeyDictionary()
        """Since when somebody looks at it."""
        self._began: WeakKeyDictionary[Run, float] = WeakKeyDictionary()
        """When its film began."""
        self._waits: WeakKeyDictionary[Run, tuple[str, float]] = WeakKeyDictionary()
        """What each waits for, and since when."""

    def stop(self) -> None:
        """Ends every thread; the server is about to stop."""
        self.workshop.stop()
        self.painter.stop()

    def _changed(self, run_id: str | None) -> None:
        """A run has had a turn; or, with None, anything else may have changed."""
        if run_id is not None:
            with suppress(WorkshopError):
                self.pace.note(self.workshop.find(run_id))
        self.viewers.ring(run_id)

    def place(self, run_id: str) -> Place:
        """Who is served before a run."""
        seat = self.workshop.place(run_id)
        seconds = self.workshop.wait(seat) if seat else None
        minutes = None if seconds is None else math.ceil(seconds / 60)
        return Place(seat, self.workshop.compiling_place(run_id), minutes)

    # For the sockets.

    def attend(self, viewer: Viewer) -> None:
        """Notes that somebody looks: a run that nobody watches is paused."""
        now = viewer.seen = time.monotonic()
        for scene in list(viewer.scenes.values()):
            with suppress(WorkshopError):
                run = self.workshop.watch(scene.run_id)
                self._asked.setdefault(run, now)
                if scene.film:
                    self.begin_film(run, viewer.film)
        viewer.film = 0

    def begin_film(self, run: Run, seen: int) -> None:
        """Plays a run's film from the moment on that a browser has come to by itself."""
        already = FIRST_SECONDS + (seen - 1) * FILM_SECONDS if seen else 0.0
        self._began.setdefault(run, time.monotonic() - already)

    def begin_painting(self, viewer: Viewer) -> None:
        """Has the first picture of each run that has just begun painted, which may take seconds."""
        for scene in list(viewer.scenes.values()):
            with suppress(WorkshopError):
                run = self.workshop.find(scene.run_id)
                if _begun(run):
                    self.painter.begin(run, scene, partial(self.viewers.ring, scene.run_id))

    def pause_after(self, sights: list[Sight]) -> float:
        """Seconds from one frame to the next: longer the more runs are painted, and the more
        browsers are sent them, so that training goes on; but whoever waits for a run sees its first
        step without such a pause."""
        if any(sight.awaited for sight in sights):
            return FRAME_SECONDS
        return self.pause_between()

    def pause_between(self) -> float:
        """Seconds between frames of runs that train."""
        changing = sum(map(self._changing, self.viewers.watched()))
        painting = self.painter.cost * changing / SHARE
        return max(FRAME_SECONDS, painting, SEND_SECONDS * len(self.viewers.connected()))

    def _changing(self, run_id: str) -> float:
        """How often a run has a new picture, of the most that is painted: many tabs that are paused
        or in slow motion take nobody's frames."""
        try:
            run = self.workshop.find(run_id)
        except WorkshopError:
            return 1.0
        if run.at_rest:
            return 0.0
        return 1.0 if run.speed is None else min(1.0, FRAME_SECONDS * run.speed)

    def patience(self, viewer: Viewer) -> float:
        """Seconds after which there may be something new to see, though no run tells of it."""
        films = [scene for scene in list(viewer.scenes.values()) if scene.film]
        for scene in films:
            with suppress(WorkshopError):
                run = self.workshop.find(scene.run_id)
                if not (_begun(run) and self.painter.has_begun(run, scene)):
                    return FRAME_SECONDS
        return LOOK_SECONDS

    def signature(self, viewer: Viewer) -> tuple:
        """Differs from what it was where there is something new to show."""
        parts = []
        for name, scene in list(viewer.scenes.items()):
            try:
                run = self.workshop.find(scene.run_id)
                place = self._place(run, scene)
            except WorkshopError:
                parts.append((name, "gone"))
                continue
            moment, at = self._moment(viewer, name, scene, run, False), viewer.at.get(name)
            held = len(run.history()) if at is not None else 0
            parts.append(
                (name, scene, moment, run.status, place, run.outdated, held, *_bar(run).values())
            )
        return tuple(parts)

    def imminent(self, viewer: Viewer) -> bool:
        """Whether a run of a known shape is about to be seen: its film, or its data alone, would
        only keep the browser busy."""
        now = time.monotonic()
        for name, scene in list(viewer.scenes.items()):
            with suppress(WorkshopError):
                run, known = self.workshop.find(scene.run_id), self.workshop.knows(scene.run_id)
                fresh = now - self._asked.get(run, now) < HOLD_SECONDS
                moment = self._moment(viewer, name, scene, run, False)
                if known and fresh and run.status != "failed" and not isinstance(moment, Snapshot):
                    return True
        return False

    def sights(self, viewer: Viewer, patient: bool = True) -> list[Sight]:
        """Everything that a viewer should see now; pictures are being painted.

        A run's first picture may have to be compiled: the impatient see its film meanwhile.
        """
        found = []
        for name, scene in list(viewer.scenes.items()):
            try:
                run = self.workshop.find(scene.run_id)
                place = self._place(run, scene)
            except WorkshopError as error:
                found.append(
                    Sight(name, "", {"state": {"text": str(error), "phase": "gone"}}, None)
                )
                continue
            which, outdated = f"{scene.run_id} {run.epoch}", run.outdated
            moment = self._moment(viewer, name, scene, run, patient)
            drawn = isinstance(moment, Snapshot) or moment is scene.stored is not None
            wait = waits_for(run, place, drawn)
            mine = self.workshop.owns(scene.run_id, viewer.owner)
            text, since = status(run, place, wait, mine), self._since(run, wait)
            words: Elements = {
                "state": {"phase": phase(run, place), "run": which, "clicks": scene.clicks}
                | {"text": text, "since": since},
                "wait": {"text": text if wait else "", "since": since},
                "numbers": {
                    "text": numbers(run, moment, self.pace.of(run) if run.playing else None)
                },
                "timeline": timeline(run, viewer.at.get(name)),
                "bar": _bar(run),
            }
            painting = None if outdated else self.painter.paint(run, scene, moment)
            nothing = moment is None or (isinstance(moment, Snapshot) and moment.step == 0)
            awaited = nothing and not (run.at_rest or name in viewer.at)
            found.append(Sight(name, which, words, painting, awaited))
        return found

    def frame(self, sights: list[Sight]) -> Frame:
        """What is to be seen, packed; waits for pictures that are not painted yet."""
        elements: dict[str, bytes] = {}
        for name, _, words, painting, _ in sights:
            painted: dict[str, bytes] = {}
            if painting is not None:
                try:
                    painted = painting.result()
                except Exception:
                    words["state"]["text"] = COULD_NOT_DRAW
            packed = {element: encode(content) for element, content in words.items()} | painted
            elements |= {f"{name}/{element}": part for element, part in packed.items()}
        return Frame(elements, {sight.name: sight.run for sight in sights})

    def bars(self, viewer: Viewer) -> dict[str, bytes]:
        """What the bars of a viewer's runs say, packed."""
        packed = {}
        for name, scene in list(viewer.scenes.items()):
            with suppress(WorkshopError):
                packed[f"{name}/bar"] = encode(_bar(self.workshop.find(scene.run_id)))
        return packed

    def class_page(self, viewer: Viewer) -> dict:
        """What a browser is told of the class that its page teaches or follows."""
        token = viewer.follows or viewer.teaches
        return self.classrooms.page(viewer, self.viewers.followers(token)) if token else {}

    def hear(self, viewer: Viewer, message: dict) -> None:
        """What a browser tells: the history slider's place, an inducing point's, what was pressed
        in a run's bar, or where on the page a teacher is."""
        if "at" in message:
            self._hold(viewer, message["at"])
        if "place" in message and not viewer.follows:
            self.classrooms.look(viewer.teaches, message["place"])
        move, command = message.get("move"), message.get("command")
        if isinstance(move, dict):
            self._move(viewer, move)
        if isinstance(command, dict):
            self._run_command(viewer, str(command.get("scene")), command.get("word"))

    # Inside.

    def _place(self, run: Run, scene: Scene) -> Place:
        waits = run.status in ("waiting", "compiling")
        return self.place(scene.run_id) if waits else Place(0, 0)

    def _since(self, run: Run, wait: str) -> float | None:
        """When a run began to wait for this, by the server's clock; None where it does not."""
        what, since = self._waits.get(run, ("", 0.0))
        if wait != what:
            since = time.time()
            self._waits[run] = (wait, since)
        return since if wait else None

    def _moment(self, viewer: Viewer, name: str, scene: Scene, run: Run, patient: bool) -> Any:
        """What there is to see: the run, or until it can be drawn its film, or nothing yet."""
        if scene.stored is not None:
            return scene.stored
        if _begun(run) and (patient or self.painter.has_begun(run, scene)):
            at = viewer.at.get(name)
            return run.latest if at is None else run.at(at)
        if not scene.film:
            return None
        now = time.monotonic()
        frame = int(1 + (now - self._began.get(run, now) - FIRST_SECONDS) / FILM_SECONDS)
        return scene.film[min(frame, len(scene.film) - 1)]

    def _hold(self, viewer: Viewer, where: Any) -> None:
        """Holds every scene at a share of its history, or lets it go on with the newest."""
        for name, scene in list(viewer.scenes.items()):
            with suppress(WorkshopError):
                step = held_step(self.workshop.find(scene.run_id), where)
                if step is None:
                    viewer.at.pop(name, None)
                else:
                    viewer.at[name] = step
        viewer.ring()

    def _run_command(self, viewer: Viewer, name: str, word: Any) -> None:
        """Play, pause, step or reset, by the run's owner; the newest moment is then looked at."""
        scene = viewer.scenes.get(name)
        if scene is None or word not in COMMANDS:
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
        xy = (move.get("x"), move.get("y"))
        place = [float(p) for p in xy if isinstance(p, int | float) and math.isfinite(p)]
        if len(place) < 2:
            return
        with suppress(WorkshopError, ValueError):
            run = self.workshop.control(scene.run_id, viewer.owner)
            viewer.at.pop(name, None)
            run.move_inducing_to(index, place)
            self.workshop.wake()


def _begun(run: Run) -> bool:
    return run.latest is not None and run.status not in ("waiting", "compiling")


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
