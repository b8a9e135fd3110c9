"""The paper's large sets, measured again: year, airline, HIGGS, SUSY and taxi, whichever are there.

    python -m benchmarks.large --data DIR [--sets year,higgs] [--models sgp,dgp2] [--json FILE]

DIR holds `<set>.npy` (rows by columns, inputs first and the output last, as `datasets` keeps what
it fetches), `<set>.npz` with X and y (from which the .npy is made), or a Parquet or CSV file with
the output as its last column. Each fit is `python -m dgp_core fit`, whose model lies in DIR/models:
one that was broken off goes on from its last checkpoint, and what FILE holds is not measured again.
Rows are held out by chance, as large a share as in the paper where that says it.
"""

import argparse
import contextlib
import io
import json
from pathlib import Path

import numpy as np

from benchmarks.report import print_table, write_rows
from datasets.catalogue import entry
from datasets.printed import Score, printed
from dgp_core.__main__ import main as command
from dgp_core.tables.large_file import open_large

HELD_OUT = {"year": 0.1, "airline": 0.125, "higgs": 0.05, "susy": 0.1, "taxi": 0.05}
"""The share of rows held out; the paper says it for year (a tenth) and airline (an eighth)."""
MODELS = {"sgp": (1, 100), "sgp500": (1, 500)} | {f"dgp{L}": (L, 100) for L in range(2, 6)}
"""Layers and inducing points."""
ENDINGS = (".npy", ".parquet", ".csv", ".csv.gz")
SCORES: dict[str, tuple[tuple[Score, str], ...]] = {
    "regression": (("rmse", "rmse"), ("loglik", "log_likelihood")),
    "binary": (("auc", "auc"), ("loglik", "log_likelihood")),
}
"""The paper's name of a score, and the command's."""


def find(folder: Path, name: str) -> Path | None:
    """The file of a set, made of its .npz where there is no other."""
    for ending in ENDINGS:
        if (path := folder / f"{name}{ending}").exists():
            return path
    if not (packed := folder / f"{name}.npz").exists():
        return None
    with np.load(packed, allow_pickle=False) as file:
        rows = np.column_stack([file["X"], file["y"]]).astype(np.float64)
    part = folder / f"{name}.part.npy"
    np.save(part, rows)
    return part.rename(folder / f"{name}.npy")


def measure(path: Path, name: str, model: str, steps: int, minibatch: int) -> dict:
    """Fits one model to one set, or goes on with it, and scores it on the rows held out."""
    layers, inducing = MODELS[model]
    task = entry(name).task
    out = path.parent / "models" / f"{name}-{model}.npz"
    out.parent.mkdir(exist_ok=True)
    log = out.with_suffix(".jsonl")
    if out.exists():
        words = ["resume", str(out), str(path), f"--steps={steps}", f"--log={log}"]
    else:
        target = list(open_large(path).columns)[-1]
        words = ["fit", str(path), "--stream", f"--target={target}", f"--task={task}"]
        words += [f"--layers={layers}", f"--inducing={inducing}", f"--holdout={HELD_OUT[name]}"]
        words += [f"--steps={steps}", f"--minibatch={minibatch}", f"--out={out}", f"--log={log}"]
    with contextlib.redirect_stdout(io.StringIO()):
        if code := command(words):
            raise SystemExit(code)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        if code := command(["score", str(out), str(path)]):
            raise SystemExit(code)
    scores = dict(line.split() for line in output.getvalue().splitlines())
    row: dict = {"set": name, "model": model, "steps": steps, "minibatch": minibatch}
    for paper, own in SCORES[task]:
        row[paper] = float(scores[own])
        number = printed(name, paper).get(model)
        row[f"paper {paper}"] = None if number is None else number.value
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return row | {"seconds": round(lines[-1]["seconds"]) if lines else None}


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.large")
    parser.add_argument("--data", type=Path, required=True, help="a folder with some of the sets")
    parser.add_argument("--sets", default=",".join(HELD_OUT))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--minibatch", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="write a row a set and model")
    options = parser.parse_args()
    rows = json.loads(options.json.read_text()) if options.json and options.json.is_file() else []
    for name in options.sets.split(","):
        path = find(options.data, name)
        if path is None:
            print(f"{name} is not in {options.data}.")
            continue
        for model in options.models.split(","):
            if any((row["set"], row["model"]) == (name, model) for row in rows):
                continue
            rows.append(measure(path, name, model, options.steps, options.minibatch))
            print(rows[-1], flush=True)
            if options.json:
                write_rows(options.json, rows)
    names = list(dict.fromkeys(key for row in rows for key in row))
    print_table([{key: row.get(key) for key in names} for row in rows])


if __name__ == "__main__":
    main()
