"""What a run is doing, in words."""

from typing import Any, NamedTuple

from dgp_core.live.run import Run, Snapshot
from dgp_core.live.workshop import queue_words


class Place(NamedTuple):
    """Who is served before a run."""

    seat: int
    """Its place in the queue for a seat, from 1; 0 with a seat."""
    compiling: int
    """How many others are compiled before it."""
    minutes: int | None = None
    """Until it has a seat, by how it went lately; None where nobody knows."""


def phase(run: Run, place: Place) -> str:
    """A word for it: queued, compiling, starting, training, paused, finished or stopped."""
    if place.seat:
        return "queued"
    if run.status in ("waiting", "compiling"):
        return "compiling"
    if run.status == "failed":
        return "stopped"
    if run.status == "finished":
        return "finished"
    if run.latest is None:
        return "starting"
    return "training" if run.playing else "paused"


def waits_for(run: Run, place: Place, drawn: bool) -> str:
    """Why there is nothing new to see; empty where there is."""
    word = phase(run, place)
    if word in ("queued", "compiling", "starting"):
        return word
    if word == "stopped":
        return ""
    if run.outdated:
        return "starting"
    return "" if drawn else "drawing"


def status(run: Run, place: Place, wait: str, mine: bool = True) -> str:
    """That word, and a sentence that says what it means; the browser adds how long a wait lasts.

    Who only watches is not told to press what is not there.
    """
    word = phase(run, place)
    if wait == "compiling" and not place.compiling:
        return "**Compiling** this model (a few seconds)"
    if wait == "compiling":
        return (
            f"**Compiling.** This model is number {place.compiling + 1} in the queue; each takes "
            "a few seconds"
        )
    if wait == "starting":
        return "**Starting.** Start values are being made"
    if wait == "drawing":
        return f"**{word.capitalize()}.** Its first picture is being prepared (a few seconds)"
    sentence = {
        "queued": queue_words(place.seat, None if place.minutes is None else 60.0 * place.minutes),
        "stopped": run.reason,
        "finished": f"{run.reason} Reset to see it again." if mine else run.reason,
        "paused": "Play goes on from here; Step takes one gradient step."
        if mine
        else "Whoever started this run holds it here.",
        "training": "Each step moves both models a little uphill on their bounds.",
    }[word]
    if word == "training" and run.catching_up:
        sentence = "The single layer catches up with the deep model that was opened."
    return f"**{word.capitalize()}.** {sentence}"


def numbers(run: Run, moment: Any, pace: float | None) -> str:
    """Step, pace and time, in a line that does not jump; a run at rest has no pace."""
    if not isinstance(moment, Snapshot):
        return "step **0**" if moment is None else f"recording of step **{moment.step:,}**"
    speed = "" if pace is None else f"{pace:,.0f} steps/s · "
    return f"step **{moment.step:,}** · {speed}{moment.seconds:.1f} s of training · {run.device}"
