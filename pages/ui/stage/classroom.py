"""A class: what a teacher's page shows now, for the pages that follow it, and its shows of hands.

A class is one browser's. Its token is public and made from the browser's secret, so that a reloaded
page finds its class again, and nobody can teach in another's place.
"""

import hashlib
import math
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from dgp_core.gp.data import counted
from dgp_core.live.limits import MOST_CLASSES, MOST_VOTES
from pages.ui.stage.viewers import Viewer


@dataclass
class Ballot:
    """A show of hands."""

    asked: int
    """When, by the class's changes: asked again, it is another one."""
    votes: dict[str, int] = field(default_factory=dict)
    """The answer's number, by voter."""
    revealed: bool = False
    """Whether the answer is no secret any more: nobody votes then."""


@dataclass
class Classroom:
    """One teacher's page, as those who follow it are to see it."""

    path: str = ""
    """Which lesson it shows: its script."""
    lesson: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    """What was set on it by hand, answered and revealed, by the session's key."""
    runs: dict[int, dict[str, str]] = field(default_factory=dict)
    """The run of each live part, by lesson and the part's name."""
    place: tuple[int, float] | None = None
    """The part that is looked at, and how far into it."""
    ballots: dict[str, Ballot] = field(default_factory=dict)
    """Of each question that the class was asked."""
    changes: int = 0
    """Counts all that only a page's script can show."""
    version: int = 0
    """The last change for which the whole page has to be made anew."""
    parts: dict[str, int] = field(default_factory=dict)
    """The last change of whatever a part of the page can show by itself, by the session's key."""

    def changed(self, keys: Collection[str] = (), whole: bool = False) -> int:
        """Counts one change: of these keys, or of the whole page."""
        self.changes += 1
        self.parts |= dict.fromkeys(keys, self.changes)
        if whole:
            self.version = self.changes
        return self.changes


class Classrooms:
    """One a process. `changed` is told the token of a class that shows something else, and whether
    pages have to be made anew for it."""

    def __init__(self, changed: Callable[[str, bool], None] = lambda token, anew: None):
        self._lock = threading.Lock()
        self._rooms: OrderedDict[str, Classroom] = OrderedDict()
        self._changed = changed

    def show(
        self,
        token: str,
        path: str,
        lesson: int,
        values: Mapping[str, Any],
        runs: Mapping[str, str],
        whole: Collection[str] = (),
    ) -> None:
        """The teacher's page shows this now; `whole` are the values that concern all of it."""
        with self._lock:
            room = self._rooms.setdefault(token, Classroom())
            self._rooms.move_to_end(token)
            while len(self._rooms) > MOST_CLASSES:
                self._rooms.popitem(last=False)
            known, before = room.runs.get(lesson, {}), room.values
            anew = room.path != path or known.keys() != runs.keys()
            changed = {k for k, v in values.items() if k not in before or not same(before[k], v)}
            changed |= {run_key(name) for name, run in runs.items() if known.get(name) != run}
            if room.path != path:
                room.place, room.parts = None, {}
            room.path, room.lesson, room.values = path, lesson, dict(values)
            room.runs[lesson] = dict(runs)
            if not (anew or changed):
                return
            room.changed(changed, anew or not changed.isdisjoint(whole))
        self._changed(token, True)

    def get(self, token: str) -> Classroom | None:
        """A class that somebody teaches."""
        return self._rooms.get(token)

    def runs(self, token: str, lesson: int) -> dict[str, str]:
        """The runs of a teacher's page; none where nobody teaches."""
        room = self._rooms.get(token)
        return dict(room.runs.get(lesson, {})) if room else {}

    def ask(self, token: str, question: str) -> None:
        """Asks the class, whose hands are down at first."""
        if (room := self._rooms.get(token)) is not None:
            with self._lock:
                room.ballots[question] = Ballot(room.changed([question]))
            self._changed(token, True)

    def reveal(self, token: str, question: str) -> None:
        """Says the answer to a question that was asked."""
        if (room := self._rooms.get(token)) is not None and question in room.ballots:
            with self._lock:
                room.ballots[question].revealed = True
                room.changed([question])
            self._changed(token, True)

    def vote(self, token: str, question: str, owner: str, answer: int) -> None:
        """One browser's answer, in place of its answer before."""
        room = self._rooms.get(token)
        ballot = room.ballots.get(question) if room else None
        if ballot is None or ballot.revealed:
            return
        with self._lock:
            voter = voter_of(owner, question)
            if voter in ballot.votes or len(ballot.votes) < MOST_VOTES:
                ballot.votes[voter] = answer
        self._changed(token, False)

    def look(self, token: str, place: Any) -> None:
        """Where on the page the teacher is: a part's number, and the share of it that is above."""
        room = self._rooms.get(token)
        part, share = place if isinstance(place, list) and len(place) == 2 else (None, None)
        if room is None or not isinstance(part, int) or not isinstance(share, int | float):
            return
        if -1 <= part < 1000 and math.isfinite(share):
            room.place = part, min(1.0, max(0.0, float(share)))
            self._changed(token, False)

    def page(self, viewer: Viewer, followers: int) -> dict[str, dict]:
        """What a browser is told of its class; of votes, how many, and never whose."""
        teaches = not viewer.follows
        room = self._rooms.get(viewer.follows or viewer.teaches)
        if room is None:
            return {}
        with self._lock:
            tallies = {
                f"tally_{question}": _tally(ballot, teaches or ballot.revealed, viewer, question)
                for question, ballot in room.ballots.items()
            }
        if not teaches:
            page = {"version": room.version, "parts": dict(room.parts), "place": room.place}
            return tallies | {"page": page}
        pages = counted(followers, "page") + (" follows" if followers == 1 else " follow")
        words = f"**You are teaching.** {pages} this one." if followers else ""
        return tallies | {"page": {"version": int(followers > 0)}, "followers": {"text": words}}


def _tally(ballot: Ballot, seen: bool, viewer: Viewer, question: str) -> dict:
    """How many chose each answer, for the teacher and for whoever has answered."""
    seen = seen or voter_of(viewer.owner, question) in ballot.votes
    count = Counter(ballot.votes.values())
    most = max(count, default=-1) + 1
    return {"hands": len(ballot.votes), "counts": [count[i] for i in range(most)] if seen else None}


def run_key(name: str) -> str:
    """The key of a live part's run, among those of a page's values."""
    return f"run_{name}"


def same(before: Any, after: Any) -> bool:
    """Whether two values show the same; what was measured only where it is the very object."""
    return before is after or (_is_plain(before) and before == after)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float)


def class_token(secret: str) -> str:
    """The public name of a browser's class."""
    return hashlib.sha256(f"class {secret}".encode()).hexdigest()[:20]


def voter_of(owner: str, question: str) -> str:
    """A browser as a voter: the same for one question, and nobody's name."""
    return hashlib.sha256(f"vote {question} {owner}".encode()).hexdigest()
