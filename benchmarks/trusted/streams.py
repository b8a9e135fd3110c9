"""Streamed files: rows sorted by time must train as well as the same rows shuffled."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.trusted import Row, case, row
from dgp_core.__main__ import main

ROWS, GROUPS = 1_200_000, 4
"""Of the file, and the parts that it comes in."""

STEPS = 2000


@case("streams")
def streams() -> Iterator[Row]:
    """`fit --stream` on sin 2x + tanh 3x + 0.3z + 0.2ε, sorted by x and shuffled."""
    from pyarrow import parquet, table

    rng = np.random.default_rng(0)
    x, z = np.sort(rng.uniform(-3, 3, ROWS)), rng.standard_normal(ROWS)
    y = np.sin(2 * x) + np.tanh(3 * x) + 0.3 * z + 0.2 * rng.standard_normal(ROWS)
    orders = {"shuffled": rng.permutation(ROWS), "sorted": np.arange(ROWS)}
    found = {}
    with TemporaryDirectory() as folder:
        for name, order in orders.items():
            file = Path(folder) / f"{name}.parquet"
            columns = {"x": x[order], "z": z[order], "y": y[order]}
            parquet.write_table(table(columns), file, row_group_size=ROWS // GROUPS)
            output = io.StringIO()
            words = ["--target", "y", "--stream", "--inducing", "40", "--steps", str(STEPS)]
            with contextlib.redirect_stdout(output):
                main(["fit", str(file), *words, "--out", str(Path(folder) / "model.npz")])
            found[name] = {a: float(b) for a, b in map(str.split, output.getvalue().splitlines())}
            file.unlink()
    for name, aims in (("shuffled", 0.22), ("sorted", 1.05 * found["shuffled"]["rmse"])):
        yield row(f"{name}: RMSE (noise 0.2)", found[name]["rmse"], aims)
        yield row(f"{name}: log-likelihood a row", found[name]["log_likelihood"], least=0.1)
        yield row(f"{name}: share inside 95 %", found[name]["coverage_95"], 0.97, 0.93)
