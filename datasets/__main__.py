"""What there is to learn on: `python -m datasets list`, and `show FILE` for a file of your own."""

import argparse
import dataclasses
import json
import os
import shutil
import sys
import textwrap
from pathlib import Path

from datasets import catalogue

HEADINGS: dict[catalogue.Kind, str] = {
    "toy": "Toys: drawn on the spot",
    "shipped": "Real: comes with the project",
    "fetched": "Real: fetched when first used",
}
HEADER = ("name", "N", "D", "task", "licence", "story")
LICENCE, STORY = 20, 40
"""The licence column's width, and the least that the story's may have."""


def table(width: int) -> str:
    """Every set in columns that fit the width; where it is narrow, the story goes underneath."""
    entries = {kind: [catalogue.entry(n) for n in catalogue.names(kind)] for kind in HEADINGS}
    rows = {kind: [_cells(e) for e in group] for kind, group in entries.items()}
    every = [HEADER, *(row for group in rows.values() for row in group)]
    fixed = [max(len(row[i]) for row in every) for i in range(4)]
    rest = width - sum(fixed) - LICENCE - 2 * 5
    lines = []
    for kind, heading in HEADINGS.items():
        lines += ["", heading, ""]
        lines += _lines(HEADER, fixed, rest, width)
        for row in rows[kind]:
            lines += _lines(row, fixed, rest, width)
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _cells(entry: catalogue.Entry) -> tuple[str, ...]:
    rows = "varies" if entry.N is None else f"{entry.N:,}"
    return entry.name, rows, str(entry.D), entry.task, entry.licence, entry.story


def _lines(row: tuple[str, ...], fixed: list[int], rest: int, width: int) -> list[str]:
    """One row, as many lines high as its licence or its story needs."""
    name, n, d, task, licence, story = row
    head = "  ".join(
        [name.ljust(fixed[0]), n.rjust(fixed[1]), d.rjust(fixed[2]), task.ljust(fixed[3])]
    )
    if rest < STORY:
        below = [] if row is HEADER else textwrap.wrap(story, max(width - 4, 20))
        return [f"{head}  {licence}", *(f"    {line}" for line in below)]
    left, right = textwrap.wrap(licence, LICENCE), textwrap.wrap(story, rest)
    lines = []
    for i in range(max(len(left), len(right))):
        start = head if i == 0 else " " * len(head)
        a, b = (part[i] if i < len(part) else "" for part in (left, right))
        lines.append(f"{start}  {a.ljust(LICENCE)}  {b}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m datasets", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    listing = commands.add_parser("list", help="every set: rows, inputs, task, licence, story")
    listing.add_argument("--json", metavar="FILE", type=Path, help="write the list here instead")
    showing = commands.add_parser("show", help="what becomes of a file of your own")
    showing.add_argument("file", metavar="FILE")
    chosen = parser.parse_args(arguments)
    if chosen.command == "show":
        from datasets.show import show

        return show(chosen.file)
    if chosen.json:
        entries = [dataclasses.asdict(catalogue.entry(n)) for n in catalogue.names()]
        chosen.json.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", "utf-8")
    else:
        print(table(shutil.get_terminal_size((100, 24)).columns))
    return 0


if __name__ == "__main__":
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read this, such as `head`, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)
