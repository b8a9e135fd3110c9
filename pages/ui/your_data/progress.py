"""How far fits are: a bar, one line of phases with their times, and a button to stop."""

from collections.abc import Sequence

import streamlit as st

from dgp_core.live.trial import PHASES, Trial, TrialProgress
from dgp_core.training.plan import duration

STYLE = """<style>
[class*=st-key-phases] { font-variant-numeric: tabular-nums; }
[class*=st-key-phases] strong { color: var(--ink); }
[class*=st-key-phases] em { font-style: normal;
  color: color-mix(in srgb, var(--ink) 66%, transparent); }
</style>"""
PATIENCE = 1.0
"""Seconds between two polls of a fit."""
SHORTEST = 0.05
"""Seconds below which a finished phase is not mentioned, unless it is training."""


def clock(seconds: float, ticking: bool = False) -> str:
    """A short time: 0.3 s, 12 s, 2 min 05 s; in whole seconds while it is ticking."""
    if seconds < SHORTEST and not ticking:
        return "under\u00a00.1\u00a0s"
    if seconds < 10 and not ticking:
        return f"{seconds:.1f}\u00a0s"
    whole = int(seconds)
    if whole < 90:
        return f"{whole}\u00a0s"
    if whole < 5400:
        return f"{whole // 60}\u00a0min\u00a0{whole % 60:02d}\u00a0s"
    return f"{whole // 3600}\u00a0h\u00a0{whole % 3600 // 60:02d}\u00a0min"


def phase_line(progress: TrialProgress, reading: float | None = None) -> str:
    """Every phase with the time taken and left, in Markdown; those to come are faint.

    `reading` is the time taken to read the file, if there is one.
    """
    parts = [] if reading is None else [f"reading\u00a0{clock(reading)}"]
    over = progress.phase == "over"
    reached = max((i for i, name in enumerate(PHASES) if progress.spent[name]), default=-1)
    left = {"training": progress.training_left, "scoring": progress.scoring_left}
    for i, name in enumerate(PHASES):
        seconds, now = progress.spent[name], name == progress.phase
        if not now and seconds < SHORTEST and not (over and name == "training"):
            if i > reached and not over:
                parts.append(f"*{name}*")
            continue
        words = f"{name}\u00a0{clock(seconds, ticking=now)}"
        words = f"**▸\u00a0{words}**" if now else words
        rest = left.get(name)
        # Less than a second left is not worth mentioning.
        if not over and rest is not None and rest >= 1:
            words += f", {duration(rest)} left"
        parts.append(words)
    return " · ".join(parts)


def progress_bar(trial: Trial, key: str, reading: float | None = None) -> None:
    """A fit's progress and its phases; once it is over, the phases alone."""
    now = trial.progress()
    with st.container(gap="xsmall"):
        if now.phase == "over":
            st.empty()  # in the bar's place, so that the line below is not shown twice meanwhile
        else:
            paused = "Paused. " if trial.status == "paused" else ""
            st.progress(min(1.0, max(0.0, now.fraction)), text=f"{paused}{now.sentence}")
        with st.container(key=key):
            line = phase_line(now, reading)
            st.caption(f"Time spent: {line}." if now.phase == "over" else line)


def stop_button(trials: Sequence[Trial], help: str | None = None) -> None:
    """Pauses fits, or resumes them once all are paused."""
    paused = all(trial.status == "paused" for trial in trials)
    st.button(
        "Continue" if paused else "Stop",
        icon=":material/play_arrow:" if paused else ":material/pause:",
        key="continue" if paused else "stop",
        on_click=_resume if paused else _pause,
        args=(trials,),
        help="Resumes training from here." if paused else help,
    )


def _pause(trials: Sequence[Trial]) -> None:
    for trial in trials:
        trial.pause()


def _resume(trials: Sequence[Trial]) -> None:
    for trial in trials:
        trial.play()
