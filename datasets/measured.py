"""What the benchmarks measured, as they left it: the rows that lessons and the README show."""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"


def regression() -> list[dict]:
    """One row a set of the paper, model and split, scored on that split's test rows."""
    return of_one_recipe(_lines("paper.jsonl"))


def of_one_recipe(rows: Sequence[dict]) -> list[dict]:
    """Each set's rows of one recipe: that with the most models, of equals the newest.

    Models that were trained in different ways do not tell what depth gains. Least squares has no
    recipe, and stays.
    """
    models: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        models.setdefault((row["set"], row["recipe"]), set()).add(row["model"])
    chosen: dict[str, str] = {}
    for (name, recipe), trained in models.items():
        if recipe and len(trained) >= len(models.get((name, chosen.get(name, "")), ())):
            chosen[name] = recipe
    return [row for row in rows if row["recipe"] in ("", chosen.get(row["set"]))]


def pictures() -> list[dict]:
    """One row a set of pictures, model and number of steps, scored on test pictures."""
    return _lines("images.jsonl")


@cache
def _lines(name: str) -> list[dict]:
    """The rows of a file of JSON lines; none where the benchmark has left no file."""
    path = FOLDER / name
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]
