"""How every benchmark shows what it measured: a table on the terminal, flat rows in a file."""

import json
import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parents[1]


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


def met(value: float | None, aim: str) -> bool | None:
    """Whether a value is as `< 3`, `≤ 3` or `≥ 3` asks; None where there is no aim."""
    if not aim:
        return None
    sign, limit = aim.split()
    if value is None:
        return False
    return {"<": value < float(limit), "≤": value <= float(limit), "≥": value >= float(limit)}[sign]


def write_rows(path: Path, rows: list[dict]) -> None:
    """A JSON list of flat rows."""
    path.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def add_row(rows: list[dict], row: dict, path: Path | None) -> None:
    """One more row: printed, and in the file at once, if there is one."""
    rows.append(row)
    print(row, flush=True)
    if path:
        write_rows(path, rows)


def append_row(path: Path, row: dict) -> None:
    """One more line of JSON, on the disk before the next row is begun."""
    whole = not path.is_file() or path.read_bytes().endswith(b"\n") or not path.stat().st_size
    with path.open("a", encoding="utf-8") as file:
        # A process killed within a line has left the line without its end.
        file.write(("" if whole else "\n") + json.dumps(row, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_rows(path: Path) -> list[dict]:
    """The rows of a file of JSON lines, without a last one that was cut short; none, no file."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows


def provenance() -> dict[str, str]:
    """What a figure was measured with: the commit, the libraries' versions, the machine."""
    described = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    )
    libraries = " ".join(f"{name} {version(name)}" for name in ("jax", "numpy", "optax"))
    return {
        "commit": described.stdout.strip(),
        "versions": f"python {platform.python_version()} {libraries}",
        "machine": f"{_processor()}, {os.cpu_count()} cores",
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
