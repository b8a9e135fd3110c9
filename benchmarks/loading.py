"""How fast a user's file loads, and in how much memory, against plain pandas.read_csv.

    python -m benchmarks.loading [--rows 1000000] [--json FILE]

Each reading runs in a process of its own, so that its peak of memory is its own: the peak of the
resident set while it reads, less what the imports alone had taken. A million rows of 10 columns
are to load in under 5 seconds and under 4 times the file's size, on 2 cores.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.report import print_table, write_rows

SECONDS, TIMES_THE_FILE = 5.0, 4.0
COLUMNS = 10
BLOCK = 50_000


def numbers(rng: np.random.Generator, n: int) -> list[list[str]]:
    """Ten columns of numbers with all their digits."""
    return [[repr(x) for x in rng.normal(size=n).tolist()] for _ in range(COLUMNS)]


def mixed(rng: np.random.Generator, n: int) -> list[list[str]]:
    """Five columns of numbers, one each of whole numbers, prices, words, dates and holes."""
    x = numbers(rng, n)
    whole = rng.integers(0, 1000, n).astype(str).tolist()
    price = [f"{p:.2f}" for p in rng.lognormal(3, 1, n).tolist()]
    colour = rng.choice(["red", "green", "blue", "dark grey"], n).tolist()
    days = (np.datetime64("2015-01-01") + rng.integers(0, 3000, n)).astype(str).tolist()
    holes = np.where(rng.random(n) < 0.1, "NA", np.array(x[9])).tolist()
    return [*x[:5], whole, price, colour, days, holes]


def write(path: Path, kind: str, rows: int) -> None:
    """A file of one kind: plain numbers, mixed columns, decimal commas, a late bad cell."""
    rng = np.random.default_rng(0)
    make = mixed if kind == "mixed" else numbers
    comma = kind == "decimal comma"
    with path.open("w", encoding="utf-8") as file:
        file.write((";" if comma else ",").join(f"x{i}" for i in range(COLUMNS)) + "\n")
        for start in range(0, rows, BLOCK):
            columns = make(rng, min(BLOCK, rows - start))
            if kind == "a late bad cell" and start + BLOCK >= rows:
                columns[3][-1] = "broken"
            lines = map(",".join, zip(*columns, strict=True))
            if comma:
                lines = (line.replace(",", ";").replace(".", ",") for line in lines)
            file.write("\n".join(lines) + "\n")


def measure(reader: str, path: str, decimal: str) -> dict:
    """Seconds and megabytes that one reader takes; meant for a process of its own."""
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401

    from dgp_core.tables.table import read_table

    before = peak()
    start = time.perf_counter()
    if reader == "pandas":
        table = pandas.read_csv(path, decimal=decimal, sep=";" if decimal == "," else ",")
        shape = table.shape
    else:
        table = read_table(path)
        shape = (table.rows, len(table.columns))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_mb": peak() - before, "rows": shape[0], "columns": shape[1]}


def peak() -> float:
    """The most resident memory that this process has had so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def results(rows: int, repeats: int) -> Iterator[dict]:
    """A flat row for each file and reader: the fastest of a few runs, the largest peak."""
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("numbers", "mixed", "decimal comma", "a late bad cell"):
            path = Path(folder) / "table.csv"
            write(path, kind, rows)
            size = path.stat().st_size / 1e6
            decimal = "," if kind == "decimal comma" else "."
            runs = {"pandas": [], "ours": []}
            for _ in range(repeats):
                for reader, list_of_runs in runs.items():
                    command = [sys.executable, "-m", __spec__.name, "--measure", reader]
                    command += [str(path), decimal]
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    list_of_runs.append(json.loads(done.stdout))
            pandas_seconds = min(run["seconds"] for run in runs["pandas"])
            for reader, of_reader in runs.items():
                seconds = min(run["seconds"] for run in of_reader)
                yield {
                    "what": f"{kind}, {'pandas.read_csv' if reader == 'pandas' else 'read_table'}",
                    "rows": of_reader[0]["rows"],
                    "columns": of_reader[0]["columns"],
                    "seconds": round(seconds, 3),
                    "peak_mb": round(max(run["peak_mb"] for run in of_reader), 1),
                    "file_mb": round(size, 1),
                    "ratio_to_pandas": round(seconds / pandas_seconds, 2),
                    "aim": ""
                    if reader == "pandas"
                    else f"< {SECONDS:g} s, < {TIMES_THE_FILE * size:.0f} MB",
                }


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the rows to this file too")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(*arguments.measure)))
        return 0
    table = list(results(arguments.rows, arguments.repeats))
    print_table(table)
    if arguments.json:
        write_rows(arguments.json, table)
    met = all(
        row["seconds"] < SECONDS and row["peak_mb"] < TIMES_THE_FILE * row["file_mb"]
        for row in table
        if row["aim"]
    )
    print("Every aim is met." if met else "Not every aim is met.")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
