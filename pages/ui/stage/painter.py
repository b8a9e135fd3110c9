"""Pictures of moments, painted and packed once, whoever looks at them."""

import gc
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from dgp_core.live.run import Run, Snapshot
from pages.ui.stage.viewers import Scene
from pages.ui.stage.wire import encode

MOST_PAINTED = 8
"""Painted moments kept for each run."""


class Painter:
    """One a server."""

    def __init__(self):
        self.cost = 0.02
        """Seconds of a core that a moment takes, lately."""
        self._pool = ThreadPoolExecutor(4, "dgp-paint")
        self._first_pool = ThreadPoolExecutor(2, "dgp-first")
        """For pictures that may have to be compiled first: others' are not kept waiting."""
        self._lock = threading.Lock()
        self._painted: WeakKeyDictionary[Run, OrderedDict[Any, Future]] = WeakKeyDictionary()
        self._first: WeakKeyDictionary[Run, dict[Any, threading.Event]] = WeakKeyDictionary()
        self._settled = False

    def stop(self) -> None:
        for pool in (self._pool, self._first_pool):
            pool.shutdown(wait=True, cancel_futures=True)

    def paint(
        self, run: Run, scene: Scene, moment: Any, pool: Executor | None = None
    ) -> Future[dict[str, bytes]]:
        """A moment in a style, packed; one that failed is tried again by whoever asks next."""
        # A snapshot by its number, so that it is not kept; a film's frame, which lasts, by itself.
        key = (moment.serial if isinstance(moment, Snapshot) else moment, scene.style)
        with self._lock:
            kept = self._painted.setdefault(run, OrderedDict())
            if key in kept:
                return kept[key]
            painting = kept[key] = (pool or self._pool).submit(self._pack, run, scene, moment)
            while len(kept) > MOST_PAINTED:
                kept.popitem(last=False)
        painting.add_done_callback(
            lambda over: kept.pop(key, None) if over.cancelled() or over.exception() else None
        )
        return painting

    def put_away(self, run: Run) -> None:
        """Lets the painted moments of a run go: nobody looks at it now."""
        with self._lock:
            self._painted.pop(run, None)

    def begin(self, run: Run, scene: Scene, ready: Callable[[], None]) -> None:
        """Paints a first moment for such a page, aside, if nobody has asked for one yet."""
        page = scene.style[:1]
        with self._lock:
            pages = self._first.setdefault(run, {})
            if page in pages:
                return
            begun = pages[page] = threading.Event()

        def over(_: Future) -> None:
            begun.set()
            ready()

        self.paint(run, scene, run.latest, self._first_pool).add_done_callback(over)

    def has_begun(self, run: Run, scene: Scene) -> bool:
        """Whether a run was painted for such a page before: the next is painted at once."""
        first = self._first.get(run, {}).get(scene.style[:1])
        return first is not None and first.is_set()

    def _pack(self, run: Run, scene: Scene, moment: Any) -> dict[str, bytes]:
        began = time.thread_time()  # its own work, not its wait for others'
        try:
            elements = scene.paint(run, moment)
            return {name: encode(content) for name, content in elements.items()}
        finally:
            taken = min(0.5, time.thread_time() - began)
            self.cost += 0.2 * (taken - self.cost)
            if isinstance(moment, Snapshot):
                self._settle()

    def _settle(self) -> None:
        """After the first compilation: what is there stays, and no collection walks it again."""
        if not self._settled:
            self._settled = True
            gc.collect()
            gc.freeze()
