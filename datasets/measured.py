"""What the benchmarks measured, as they left it: the rows that lessons and the README show."""

import json
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "benchmarks"


def regression() -> list[dict]:
    """One row a set of the paper, model and split, scored on that split's test rows."""
    return _lines("paper.jsonl")


def pictures() -> list[dict]:
    """One row a set of pictures, model and number of steps, scored on test pictures."""
    return _lines("images.jsonl")


@cache
def _lines(name: str) -> list[dict]:
    """The rows of a file of JSON lines; none where the benchmark has left no file."""
    path = FOLDER / name
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [json.loads(line) for line in text.splitlines()]
