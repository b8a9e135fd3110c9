"""What a lesson is made of: words, equations, pictures, live runs, things to try, questions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dgp_core.live.run import Run
from pages.ui import session
from pages.ui.choices import Choices
from pages.ui.stage.server import Elements


@dataclass(frozen=True)
class Words:
    """A stretch of the essay, in Markdown; $…$ is an equation."""

    text: str


@dataclass(frozen=True)
class Equation:
    """An equation, its number in the paper where it has one, and what it says."""

    tex: str
    says: str
    number: str = ""


@dataclass(frozen=True)
class Hand:
    """A widget of a picture by hand: its key, its first value, and what it may be set to."""

    key: str
    first: Any
    offered: Sequence = ()
    read: Callable[[str], Any] | None = None
    """From a link's words to a value, where these cannot be listed; else a ValueError."""
    whole: bool = False
    """Whether more of the page depends on it than the pictures by hand."""


@dataclass(frozen=True)
class Picture:
    """A picture that the script makes, with whatever controls it needs."""

    show: Callable[[], None]
    says: str
    """What it shows, also for the sheet."""
    hands: tuple[Hand, ...] = ()
    """What a person may set in it."""
    on_paper: Callable[[], str] | None = None
    """What the sheet prints of it, in Markdown, beside its words."""
    shares: tuple[str, ...] = ()
    """Session keys of what was measured for it, which those who follow a teacher see too."""


@dataclass(frozen=True)
class Live:
    """A run that trains on the page, seen by one painter."""

    name: str
    choices: Choices
    paint: Callable[[Run, Any], Elements]
    style: tuple
    """Everything that the painter depends on beside run and moment."""
    hosts: tuple[tuple[tuple[str, int, str], ...], ...]
    """Rows of hosts: element, height, and the words above it. Height 0 is a line of words."""
    says: str
    controls: tuple[str, ...] = ()
    """Choices that may be changed under it."""
    offers: dict[str, tuple] = field(default_factory=dict)
    """What these controls offer, where that is less than in the playground."""
    film: tuple = ()
    """Shown while the run compiles; with other choices, the stored film of those, if any."""
    begin: Callable[[Choices], str] = session.start_with
    """Starts the run and returns its id; another one where choices cannot say what is special."""


@dataclass(frozen=True)
class Try:
    """Something to do, and what should happen."""

    do: str
    then: str


class Answer(NamedTuple):
    """An answer to a question, whether it is right, and why."""

    text: str
    right: bool
    why: str


@dataclass(frozen=True)
class Question:
    """A question whose every answer answers back."""

    ask: str
    answers: tuple[Answer, ...]


def question(ask: str, *answers: Answer) -> Question:
    return Question(ask, answers)


def right(text: str, why: str) -> Answer:
    return Answer(text, True, why)


def wrong(text: str, why: str) -> Answer:
    return Answer(text, False, why)


Part = Words | Equation | Picture | Live | Try | Question


@dataclass(frozen=True)
class Lesson:
    """A whole lesson."""

    number: int
    title: str
    summary: str
    minutes: int
    parts: tuple[Part, ...]
    on_paper: tuple[Part, ...] = ()
    """What the sheet prints, where that is not the same."""

    @property
    def lives(self) -> tuple[Live, ...]:
        return tuple(part for part in self.parts if isinstance(part, Live))

    @property
    def hands(self) -> tuple[Hand, ...]:
        return tuple(h for part in self.parts if isinstance(part, Picture) for h in part.hands)
