"""How fast runs train, from the steps that they had come to at the end of their turns."""

import time
from collections import deque
from weakref import WeakKeyDictionary

from dgp_core.live.run import Run

SECONDS = 2.5
"""Over which it is measured, where there were enough turns."""


class Pace:
    """One a server."""

    def __init__(self):
        self._turns: WeakKeyDictionary[Run, deque[tuple[float, int]]] = WeakKeyDictionary()

    def note(self, run: Run) -> None:
        """A turn is over."""
        if run.latest is None:
            return
        step, now = run.latest.step, time.monotonic()
        turns = self._turns.setdefault(run, deque(maxlen=200))
        if turns and step < turns[-1][1]:
            turns.clear()
        turns.append((now, step))
        while len(turns) > 2 and now - turns[0][0] > SECONDS:
            turns.popleft()

    def of(self, run: Run) -> float:
        """Steps a second lately; 0 where nobody knows yet."""
        turns = tuple(self._turns.get(run, ()))
        if not turns:
            return 0.0
        (began, first), (ended, last) = turns[0], turns[-1]
        return (last - first) / (ended - began) if ended - began > 0.2 else 0.0
