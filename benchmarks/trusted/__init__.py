"""The cases of `benchmarks.trust`: every module of this folder adds its own.

@case("counts")
def counts() -> Iterator[Row]:
    yield row("counts, rate 1,000", relative_rmse, 0.02)
"""

from collections.abc import Callable, Iterator
from typing import Any

Row = dict[str, Any]
"""case, figure, aim (None where the figure is there to compare by), met (None without an aim)."""

CASES: dict[str, Callable[[], Iterator[Row]]] = {}
"""By name, which `--only` takes."""


def case(name: str):
    """Adds a case to the benchmark."""

    def add(measure: Callable[[], Iterator[Row]]) -> Callable[[], Iterator[Row]]:
        CASES[name] = measure
        return measure

    return add


def row(name: str, figure: float, most: float | None = None, least: float | None = None) -> Row:
    """A figure, and whether it is at most, or at least, or within what it should be."""
    if most is None and least is None:
        return {"case": name, "figure": figure, "aim": None, "met": None}
    if most is None:
        aim = f"≥ {least:g}"
    else:
        aim = f"≤ {most:g}" if least is None else f"{least:g} to {most:g}"
    met = (most is None or figure <= most) and (least is None or figure >= least)
    return {"case": name, "figure": figure, "aim": aim, "met": bool(met)}
