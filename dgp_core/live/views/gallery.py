"""Pictures' data of one run, each computed once and shared by all who watch."""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any

MOST_VIEWS = 8
"""Kept a run: watchers look at the newest moment, and at a few that a slider names."""


class Gallery:
    """Views of one run: each is computed once, whoever asks, and a few are kept."""

    def __init__(self, most: int = MOST_VIEWS):
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Future] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Lets every view go; who asks for one again has it computed anew."""
        with self._lock:
            self._kept.clear()

    def get(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """The view of this key; who comes while another computes it waits for that."""
        with self._lock:
            future = self._kept.get(key)
            first = future is None
            if future is None:
                future = self._kept[key] = Future()
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
        if first:
            try:
                future.set_result(compute())
            except BaseException as error:
                with self._lock:
                    self._kept.pop(key, None)
                future.set_exception(error)
        return future.result()


class PerMoment:
    """A few numbers of each moment, kept as long as the moment: a gallery has room for few views,
    and a history asks about every one."""

    def __init__(self):
        self._lock = threading.Lock()
        self._kept: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, moment: object) -> bool:
        return moment in self._kept

    def get(self, moment: object, compute: Callable[[], Any]) -> Any:
        """What is known of a moment, computed where nothing is."""
        with self._lock:
            known = self._kept.get(moment)
        if known is None:
            known = compute()
            with self._lock:
                self._kept[moment] = known
        return known
