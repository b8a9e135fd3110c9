"""Which runs a teacher's page shows now, for those who follow it.

A desk is one browser's page of one lesson. Its token is public and made from the browser's secret,
so that a reloaded page finds its desk again, and nobody can sit down at another's.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping

MOST_DESKS = 1000
"""Desks that are remembered; the one that was not used for longest is forgotten first."""


class Desks:
    """One a process: a desk's token → the run of each live part, by the part's name."""

    def __init__(self):
        self._lock = threading.Lock()
        self._runs: OrderedDict[str, dict[str, str]] = OrderedDict()

    def put(self, token: str, runs: Mapping[str, str]) -> None:
        """These are the desk's runs now."""
        with self._lock:
            self._runs[token] = dict(runs)
            self._runs.move_to_end(token)
            while len(self._runs) > MOST_DESKS:
                self._runs.popitem(last=False)

    def runs(self, token: str) -> dict[str, str]:
        """The desk's runs; none where nobody sits there."""
        with self._lock:
            return dict(self._runs.get(token, {}))


desks = Desks()


def desk_token(secret: str, lesson: int) -> str:
    """The public name of a browser's desk in a lesson."""
    return hashlib.sha256(f"desk {lesson} {secret}".encode()).hexdigest()[:20]
