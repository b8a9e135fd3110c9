"""How fast runs train, from the steps that they had come to at the end of their turns; and how fast
frames are sent."""

import time
from collections import deque
from weakref import WeakKeyDictionary

from dgp_core.live.run import Run

SECONDS = 2.5
"""Over which it is measured, where there were enough turns."""

FRAMES_SECONDS = 10.0
"""Over which frames are counted."""


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


class Frames:
    """Frames that were sent to all browsers together."""

    def __init__(self, clock=time.monotonic):
        self._clock = clock
        self.total = 0
        self._lately: deque[float] = deque()

    def note(self) -> None:
        """One was sent."""
        self.total += 1
        self._lately.append(self._clock())
        self.rate()

    def rate(self) -> float:
        """Frames a second lately."""
        now = self._clock()
        while self._lately and now - self._lately[0] > FRAMES_SECONDS:
            self._lately.popleft()
        return len(self._lately) / FRAMES_SECONDS
