"""The history slider: which earlier moments of a run there are, and which is held."""

from bisect import bisect_left
from typing import Any

from dgp_core.live.run import Run


def timeline(run: Run, at: int | None) -> dict:
    """What the slider shows, with a scene held at a step or, with None, at the newest."""
    steps = [snapshot.step for snapshot in run.history()]
    if not steps:
        return {"index": 0, "count": 0, "text": "History begins with the run.", "live": True}
    index = len(steps) - 1 if at is None else min(bisect_left(steps, at), len(steps) - 1)
    where = "now" if at is None else "held"
    text = f"step {steps[index]:,} of {steps[-1]:,}, {where}"
    return {"index": index, "count": len(steps), "text": text, "live": at is None}


def held_step(run: Run, where: Any) -> int | None:
    """The step at a share of the history; None is the newest, also where that is no share."""
    history = run.history()
    if not history or not isinstance(where, int | float) or not 0 <= where < 1:
        return None
    return history[round(where * (len(history) - 1))].step
