"""Every data set by name: what it is, and the rows."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from datasets.fetch import SETS, cache_folder
from datasets.shipped import SHIPPED
from datasets.toys import DRAWN_STORY, TOYS, drawn
from dgp_core.gp.data import Dataset, Task

Kind = Literal["toy", "shipped", "fetched"]


@dataclass(frozen=True)
class Entry:
    """What a person is told before the rows are there."""

    name: str
    title: str
    kind: Kind
    task: Task
    N: int | None
    """Rows; for a toy, those drawn where nobody says; None where it depends."""
    D: int
    story: str
    licence: str
    source: str
    warning: str = ""
    """What must be said wherever the set is offered."""
    image: tuple[int, int] | None = None
    """Height and width, where a row is a picture."""
    options: tuple[str, ...] = ()
    """What `load` takes besides the name."""
    time: str = ""
    """The input that puts the rows in time; empty where none does."""


_OURS = "made here"


def _entries() -> dict[str, tuple[Entry, Callable[..., Dataset]]]:
    found: dict[str, tuple[Entry, Callable[..., Dataset]]] = {}
    for toy in TOYS.values():
        found[toy.name] = (
            Entry(
                toy.name,
                toy.title,
                "toy",
                toy.task,
                toy.n,
                len(toy.input_names),
                toy.story,
                _OURS,
                _OURS,
                image=toy.image,
                options=("n", "noise", "seed"),
            ),
            toy.generate,
        )
    found["drawn"] = (
        Entry(
            "drawn",
            "Your own points",
            "toy",
            "regression",
            None,
            1,
            DRAWN_STORY,
            _OURS,
            _OURS,
            options=("points", "labels"),
        ),
        drawn,
    )
    for real in (*SHIPPED.values(), *SETS.values()):
        fetched = real.name in SETS
        options = ("folder", "progress") if fetched else ()
        found[real.name] = (
            Entry(
                real.name,
                real.title,
                "fetched" if fetched else "shipped",
                real.task,
                real.rows,
                len(real.inputs),
                real.story,
                real.licence,
                real.source,
                real.warning,
                real.image,
                (*options, "month") if real.name == "taxi" else options,
                "" if fetched else SHIPPED[real.name].time,
            ),
            real.load,
        )
    return found


_ENTRIES = _entries()


def names(kind: Kind | None = None) -> tuple[str, ...]:
    """Every name, or those of one kind; toys first, then what is shipped, then what is fetched."""
    return tuple(n for n, (e, _) in _ENTRIES.items() if kind is None or e.kind == kind)


def cached() -> tuple[str, ...]:
    """The fetched sets that are on this machine already."""
    return tuple(n for n in names("fetched") if (cache_folder() / f"{n}.npy").exists())


def entry(name: str) -> Entry:
    """What there is to know about a set; capitals and hyphens do not matter."""
    return _find(name)[0]


def load(name: str, **options: Any) -> Dataset:
    """The rows of a set; `entry(name).options` says what may be chosen."""
    found, make = _find(name)
    if wrong := sorted(set(options) - set(found.options)):
        takes = f"takes {', '.join(found.options)}" if found.options else "takes no options"
        raise ValueError(f"{found.name} has no option {', '.join(wrong)}: it {takes}.")
    if found.name == "drawn" and "points" not in options:
        raise ValueError("Put down at least two points, each with an x and a y.")
    return make(**options)


def _find(name: str) -> tuple[Entry, Callable[..., Dataset]]:
    key = name.strip().lower().replace("-", "_").replace(" ", "_")
    if key not in _ENTRIES:
        near = difflib.get_close_matches(key, _ENTRIES, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(_ENTRIES)}."
        raise ValueError(f"There is no data set called {name!r}. {hint}")
    return _ENTRIES[key]
