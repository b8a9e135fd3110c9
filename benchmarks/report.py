"""How every benchmark shows what it measured: a table on the terminal, flat rows in a JSON file."""

import json
from pathlib import Path


def print_table(rows: list[dict]) -> None:
    """Rows under their names, numbers to the right."""
    if not rows:
        return
    names = list(rows[0])
    cells = [names] + [[_text(row.get(name)) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    for line in cells:
        print("  ".join(text.rjust(width) for text, width in zip(line, widths, strict=True)))


def _text(value) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_rows(path: Path, rows: list[dict]) -> None:
    """A JSON list of flat rows."""
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
