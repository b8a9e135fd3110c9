"""What a run is doing, in words."""

from typing import Any

from dgp_core.live.run import Run, Snapshot
from dgp_core.live.workshop import queue_words


def phase(run: Run, place: int) -> str:
    """A word for it: queued, compiling, starting, training, paused, finished or stopped."""
    if place:
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


def status(run: Run, place: int) -> str:
    """That word, and a sentence that says what it means."""
    word = phase(run, place)
    sentence = {
        "queued": queue_words(place),
        "compiling": "The first run of this shape is turned into machine code, which takes some "
        "seconds; the next one starts at once.",
        "stopped": run.reason,
        "finished": f"{run.reason} Reset to see it again.",
        "starting": "Start values are being made.",
        "paused": "Play goes on from here; Step takes one gradient step.",
        "training": "Each step moves both models a little uphill on their bounds.",
    }[word]
    if word == "training" and run.catching_up:
        sentence = "The single layer catches up with the deep model that was opened."
    return f"**{word.capitalize()}.** {sentence}"


def numbers(run: Run, moment: Any, pace: float | None) -> str:
    """Step, pace and time, in a line that does not jump; a run at rest has no pace."""
    if not isinstance(moment, Snapshot):
        return "step **0**" if moment is None else f"recording of step **{moment.step}**"
    speed = "" if pace is None else f"{pace:,.0f} steps/s · "
    return f"step **{moment.step:,}** · {speed}{moment.seconds:.1f} s of training · {run.device}"
