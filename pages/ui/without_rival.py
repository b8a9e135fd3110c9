"""What a page shows of a run whose single-layer rival a teacher's link leaves out."""

import re
from collections.abc import Callable
from typing import Any

from dgp_core.live.run import Run
from pages.ui.stage.viewers import Elements

RIVAL = re.compile(r"\bsingle\b|\brival\b", re.IGNORECASE)
KEY = re.compile(r"<span style=\"[^\"]*\"><span [^>]*>[^<]*</span>[^<]*single layer</span>")
"""An entry of a legend: see pages/figures/legends.py."""


def without_rival(paint: Callable[[Run, Any], Elements], run: Run, moment: Any) -> Elements:
    """The painter's elements, less the rival's own, its curves, its legend and its numbers."""
    kept = {n: part for n, part in paint(run, moment).items() if not RIVAL.search(n)}
    for part in kept.values():
        if "figure" in part:
            figure = part["figure"]
            figure["data"] = [t for t in figure["data"] if not RIVAL.search(t.get("name") or "")]
        part |= {name: _less(part[name]) for name in ("text", "alt") if name in part}
        if "html" in part:
            part["html"] = KEY.sub("", part["html"])
    return kept


def _less(text: str) -> str:
    """The text without the clauses that speak of the rival."""
    if not RIVAL.search(text):
        return text
    sentences = [
        "; ".join(clause for clause in re.split(r"; |, and ", sentence) if not RIVAL.search(clause))
        for sentence in re.split(r"(?<=[.!?])\s+", text)
    ]
    kept = " ".join(sentence for sentence in sentences if sentence)
    return kept if not kept or kept.endswith((".", "…")) else kept + "."
