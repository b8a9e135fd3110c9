"""How much memory and time a fit takes when its file is larger than what is held of it.

    python -m benchmarks.scale [--rows 5000000] [--json FILE]

One epoch of `python -m dgp_core fit` over a Parquet file of eleven columns of float64, read in
parts and, for comparison, as a whole; each in a process of its own. The peak is that of the
resident set; the same fit to a small file shows what Python, JAX and its compiler take without any
data.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.report import print_table, write_rows

INPUTS = 10
GROUP = 100_000
"""Rows of a row group."""
MINIBATCH = 10_000
SMALL = 20_000
"""Rows of the file that hardly takes any memory."""
MEGABYTE = 1 << 20


def write(path: Path, rows: int) -> None:
    """Ten normal inputs, and a step in the first that the others bend."""
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(INPUTS)] + ["y"]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with parquet.ParquetWriter(path, schema) as file:
        for start in range(0, rows, GROUP):
            X = rng.standard_normal((min(GROUP, rows - start), INPUTS))
            y = np.tanh(4 * X[:, 0] + X[:, 1]) + 0.1 * rng.standard_normal(len(X))
            file.write_table(pa.table(dict(zip(names, [*X.T, y], strict=True)), schema))


def measure(path: Path, rows: int, streamed: bool) -> dict:
    """Peak memory and seconds of one epoch of a fit, from the start of its process to its end."""
    words = [f"--minibatch={MINIBATCH}", f"--steps={max(1, rows // MINIBATCH)}", "--inducing=50"]
    words += ["--target=y", f"--out={path.with_suffix('.npz')}"] + ["--stream"] * streamed
    command = [sys.executable, "-m", "dgp_core", "fit", str(path), *words]
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        told.seek(0)
        text = told.read()
    if process.returncode:
        raise SystemExit(f"The fit failed:\n{text}")
    scores = dict(line.split() for line in text.splitlines() if line.startswith("rmse"))
    return {
        "rows": rows,
        "read": "in parts" if streamed else "whole",
        "data MB": 8 * rows * (INPUTS + 1) / MEGABYTE,
        "peak MB": usage.ru_maxrss / (MEGABYTE if sys.platform == "darwin" else 1024),
        "seconds": seconds,
        "rmse": float(scores["rmse"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--json", type=Path)
    wishes = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in (SMALL, wishes.rows):
            path = Path(folder) / f"{rows}.parquet"
            write(path, rows)
            found += [measure(path, rows, streamed) for streamed in (True, False)]
    bare = {row["read"]: row["peak MB"] for row in found[:2]}
    for row in found:
        row["above the small file's"] = row["peak MB"] - bare[row["read"]]
    print_table(found)
    if wishes.json:
        write_rows(wishes.json, found)


if __name__ == "__main__":
    main()
