"""Who looks at what: scenes, and the sessions that look at them."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dgp_core.live.limits import MOST_SOCKETS, TOKEN_SECONDS
from dgp_core.live.run import Run

QUIET_SECONDS = 1.2
"""In which a page that follows a teacher's is made anew, before frames keep its browser busy."""

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
    stored: Any = None
    """A stored moment to show in place of the run's own."""


class Bell:
    """Wakes one socket's task, from any thread."""

    def __init__(self):
        self._loop, self._rung = asyncio.get_running_loop(), asyncio.Event()
        self.since = time.monotonic()
        self.over = False
        """Whether its socket is to close, since its viewer has opened others."""

    def ring(self) -> None:
        if not self._rung.is_set():
            with suppress(RuntimeError):  # the server is about to stop: its loop is closed
                self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, seconds: float) -> None:
        """Until it rings, or for so long."""
        try:
            await asyncio.wait_for(self._rung.wait(), seconds)
        except TimeoutError:
            return
        self._rung.clear()


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
    bells: set[Bell] = field(default_factory=set)
    """Of its sockets."""
    film: int = 0
    """The moment of its first film that its browser has come to by itself: see early.js."""
    teaches: str = ""
    """The class that its page is shown to."""
    follows: str = ""
    """The class of somebody else that its page follows."""
    quiet_until: float = 0.0
    """Its browser makes a page anew: frames wait."""
    class_bells: set[Bell] = field(default_factory=set)
    """Of its sockets, for what is told of its class."""

    def attach(self, bell: Bell) -> None:
        """One more socket; where there are too many, the oldest closes: a bad network may not have
        told of its end."""
        self.bells.add(bell)
        for old in sorted(self.bells, key=lambda one: one.since)[:-MOST_SOCKETS]:
            self.bells.discard(old)
            old.over = True
            old.ring()

    def ring(self) -> None:
        """There may be something new to see."""
        for bell in (*self.bells, *self.class_bells):
            bell.ring()


class Viewers:
    """Every session that looks at something, by its token."""

    def __init__(self):
        self._lock = threading.Lock()
        self._viewers: dict[str, Viewer] = {}

    def get(self, token: str) -> Viewer | None:
        return self._viewers.get(token)

    def get_or_create(self, token: str, owner: str) -> Viewer:
        """A session's own viewer; those who have gone are forgotten."""
        now = time.monotonic()
        with self._lock:
            for old in [
                t for t, v in self._viewers.items() if not v.bells and now - v.seen > TOKEN_SECONDS
            ]:
                del self._viewers[old]
            viewer = self._viewers.setdefault(token, Viewer(token, owner))
            viewer.seen = now
            return viewer

    def forget(self, token: str) -> None:
        """A session is over; its sockets close."""
        with self._lock:
            viewer = self._viewers.pop(token, None)
        for bell in tuple(viewer.bells) if viewer is not None else ():
            bell.over = True
            bell.ring()

    def connected(self) -> list[Viewer]:
        """Those whose browsers are being sent frames."""
        return [viewer for viewer in list(self._viewers.values()) if viewer.bells]

    def watched(self) -> set[str]:
        """The runs that they look at."""
        return {s.run_id for viewer in self.connected() for s in list(viewer.scenes.values())}

    def ring(self, run_id: str | None) -> None:
        """Wakes those who look at a run, or with None everybody."""
        for viewer in self.connected():
            if run_id is None or any(s.run_id == run_id for s in list(viewer.scenes.values())):
                viewer.ring()

    def followers(self, token: str) -> int:
        """How many browsers follow a class."""
        return len({viewer.owner for viewer in self.connected() if viewer.follows == token})

    def ring_class(self, token: str, anew: bool = False) -> None:
        """Wakes those who teach or follow a class; pages that are made anew get no frames
        meanwhile."""
        for viewer in self.connected():
            if token in (viewer.teaches, viewer.follows):
                if anew and viewer.follows:
                    viewer.quiet_until = time.monotonic() + QUIET_SECONDS
                for bell in tuple(viewer.class_bells):
                    bell.ring()
