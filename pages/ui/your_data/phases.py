"""What a fit's time goes to: one line of phases with their times, the present one marked."""

from dgp_core.live.trial import PHASES, TrialProgress
from dgp_core.training.plan import duration

STYLE = """<style>
[class*=st-key-phases] { font-variant-numeric: tabular-nums; }
[class*=st-key-phases] strong { color: var(--ink); }
[class*=st-key-phases] em { font-style: normal;
  color: color-mix(in srgb, var(--ink) 66%, transparent); }
</style>"""
SHORTEST = 0.05
"""Seconds below which a phase that is over is not worth a word."""


def clock(seconds: float, ticking: bool = False) -> str:
    """A time in few letters, on one line: 0.3 s, 12 s, 2 min 05 s; whole seconds where it ticks."""
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
    """Every phase with what it has taken and has left, in Markdown; those to come are faint.

    `reading` is how long the file took to be read, where there is one.
    """
    parts = [] if reading is None else [f"reading\u00a0{clock(reading)}"]
    over = progress.phase == "over"
    reached = max((i for i, name in enumerate(PHASES) if progress.spent[name]), default=-1)
    left = {"training": progress.training_left, "scoring": progress.scoring_left}
    for i, name in enumerate(PHASES):
        seconds, now = progress.spent[name], name == progress.phase
        if not now and seconds < SHORTEST:
            if i > reached and not over:
                parts.append(f"*{name}*")
            continue
        words = f"{name}\u00a0{clock(seconds, ticking=now)}"
        words = f"**▸\u00a0{words}**" if now else words
        rest = left.get(name)
        # A phase that is not under way tells what is left of it only where that is worth waiting.
        if not over and rest is not None and rest >= 1:
            words += f", {duration(rest)} left"
        parts.append(words)
    return " · ".join(parts)
