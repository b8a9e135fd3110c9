"""From a hundred thousand rows to a billion: what a step costs, what memory, and how good it gets.

    python -m benchmarks.scale --rows 1e5,1e6,1e7,1e8,1e9 --folder DIR --prepare
    python -m benchmarks.scale --rows 1e5,1e6,1e7,1e8,1e9 --folder DIR --json FILE [--delete]

A set like the taxi rides, sorted by time, with categories, outliers and missing cells, and with a
noise floor that is known. --prepare writes each size to DIR as Parquet files, shuffles it there and
measures it, which can be done beside other work: no step is timed. The second command trains on
what is prepared (and prepares what is not): SGP and DGP 2 (100 inducing points, minibatches of
10,000) for the same time at every size, each in a process of its own, and gradient boosting. Both
can be stopped and started again: files that are written, sets that are shuffled and rows that FILE
holds are not made again. --delete deletes each size once its rows are in FILE. Sizes for which the
disk has no room are left out, and said.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from benchmarks.report import print_table, write_rows
from datasets.printed import SECONDS_A_STEP

BLOCK = 1_000_000
"""Rows that are made and written together."""
FILE_ROWS = 10_000_000
"""Rows of one file of a set."""
MINIBATCH = 10_000
HELD_OUT_ROWS = 100_000
"""Rows held out, about, of any size."""
MOST_BOOSTED = 10_000_000
"""Rows that gradient boosting is given, at the most."""
SLACK_BYTES = 5e9
"""Room that is left on the disk."""
ROW_BYTES = 48
"""On disk, as Parquet and shuffled: measured at 1e6 rows, and rounded up."""
PAPER_STEPS = 500_000

NOISE = 60.0
"""The standard deviation of the noise, in seconds …"""
WILD_SHARE, WILD = 0.001, 10.0
"""… and the share of rides that have so many times more of it."""
FLOOR = NOISE * np.sqrt(1 - WILD_SHARE + WILD_SHARE * WILD**2)
"""The RMSE of who knows the function."""

WEEKDAYS = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
PAYMENTS = np.array(["card", "cash", "no charge", "dispute"])


def duration(day, hour, weekday, east, north, to_east, to_north, payment) -> np.ndarray:
    """Seconds that a ride between two places in metres takes without noise: slower in rush hours,
    downtown and late in the year."""
    east, north, to_east, to_north = (x / 1000 for x in (east, north, to_east, to_north))
    km = np.abs(to_east - east) + np.abs(to_north - north)
    rush = np.exp(-((hour - 8.5) ** 2) / 3) + np.exp(-((hour - 17.5) ** 2) / 5)
    downtown = np.exp(-(east**2 + north**2) / 18)
    pace = 110 + 90 * rush * (weekday < 5) + 70 * downtown + 0.1 * day
    return 120 + km * pace + 45 * (payment == 1) + 200 * (np.hypot(to_east - 9, to_north + 6) < 2)


def rides(first: int, last: int, n: int) -> dict[str, Any]:
    """The rides from one to another of n in the order of time: nine inputs, and seconds."""
    rng = np.random.default_rng([n, first])
    k = last - first
    when = (first + np.sort(rng.uniform(0, k, k))) * (365 / n)
    day = np.floor(when).clip(0, 364)
    hour, weekday = 24 * (when - day), day.astype(int) % 7
    east, north, to_east, to_north = rng.normal(scale=4000, size=(4, k)).round().astype(np.int32)
    payment = rng.choice(4, k, p=[0.55, 0.41, 0.03, 0.01])
    wild = np.where(rng.random(k) < WILD_SHARE, WILD, 1.0)
    seconds = duration(day, hour, weekday, east, north, to_east, to_north, payment)
    seconds = seconds + NOISE * wild * rng.normal(size=k)
    # The meter's distance says nothing that the places do not: it is wrong for some, and missing.
    metres = (np.abs(to_east - east) + np.abs(to_north - north)) // 100 * 100
    metres = np.where(rng.random(k) < 1e-4, 1_000_000, metres).astype(np.int32)
    return {
        "day": day.astype(np.int16),
        "weekday": pa.DictionaryArray.from_arrays(weekday.astype(np.int8), WEEKDAYS),
        "hour": hour.astype(np.float32),
        "pickup_east": east,
        "pickup_north": north,
        "dropoff_east": to_east,
        "dropoff_north": to_north,
        "metres": pa.array(metres, mask=rng.random(k) < 0.005),
        "payment": pa.DictionaryArray.from_arrays(payment.astype(np.int8), PAYMENTS),
        "seconds": seconds.astype(np.float32),
    }


def write(folder: Path, n: int, on_rows: Callable[[int], None] = lambda rows: None) -> None:
    """Files of n rides in the order of time; those that are there are not written again.

    `on_rows` is called with the number of rows that are written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for start in range(0, n, FILE_ROWS):
        path = folder / f"rides-{start // FILE_ROWS:04}.parquet"
        if path.exists():
            continue
        part, end, writer = path.with_suffix(".part"), min(n, start + FILE_ROWS), None
        for first in range(start, end, BLOCK):
            table = pa.table(rides(first, min(end, first + BLOCK), n))
            writer = writer or parquet.ParquetWriter(
                part,
                table.schema,
                compression="zstd",
                use_dictionary=["weekday", "payment"],  # pyright: ignore
            )
            writer.write_table(table, row_group_size=100_000)
            on_rows(first + table.num_rows)
        assert writer is not None
        writer.close()
        part.rename(path)


def held_out_share(n: int) -> float:
    return min(0.1, HELD_OUT_ROWS / n)


def prepared(folder: Path, n: int):
    """The rows of a set in random order as numbers, what a pass over them tells, and what that
    took: all of it is kept beside the set."""
    from dgp_core.tables.large_file import TableParts, open_large, recipe_for, shuffled_beside
    from dgp_core.tables.shuffled import open_shuffled
    from dgp_core.training.progress import PassBar
    from dgp_core.training.rows import Survey, survey

    began = time.perf_counter()
    with PassBar() as bar:
        shuffled = open_shuffled(open_large(folder), shuffled_beside(folder), progress=bar.begin)
    shuffling = time.perf_counter() - began
    recipe, _ = recipe_for(
        shuffled.head(), ["seconds"], "regression", "none", "fill", shuffled.facts
    )
    parts = TableParts(shuffled, recipe)
    kept, about = shuffled.folder / "survey.npz", shuffled.folder / "took.json"
    found = Survey.load(kept)
    if found is None or not about.is_file():
        began = time.perf_counter()
        with PassBar() as bar:
            on_part = bar.begin("measuring", len(parts), "part")
            found = survey(parts, "regression", held_out_share(n), 0, on_part)
        measuring = time.perf_counter() - began
        found.save(kept)
        load = round(os.getloadavg()[0], 1)
        about.write_text(json.dumps({"shuffling": shuffling, "measuring": measuring, "load": load}))
    return parts, found, json.loads(about.read_text())


@dataclass
class Timed:
    """A supply of rows that notes how long training waits for it."""

    supply: Any
    waited: float = 0.0

    @property
    def n(self):
        return self.supply.n

    def prefetch(self, step: int, n_steps: int):
        began = time.perf_counter()
        found = self.supply.prefetch(step, n_steps)
        self.waited += time.perf_counter() - began
        return found


def measure(folder: Path, n: int, model: str, seconds: float) -> dict[str, Any]:
    """One model on one size, in this process."""
    import jax

    from benchmarks.paper import model_spec
    from dgp_core.evaluation.scores import log_likelihood, rmse
    from dgp_core.gp.model import create_model
    from dgp_core.gp.predict import predict_latent, predict_observed
    from dgp_core.training.memory import peak_memory
    from dgp_core.training.optimise import create_state
    from dgp_core.training.rows import Stream
    from dgp_core.training.train import TrainSpec

    imported, share = peak_memory(), held_out_share(n)
    parts, found, took = prepared(folder, n)
    scaler, batch = found.scaler, min(MINIBATCH, sum(found.sizes))
    if model == "boosting":
        return {"rows": n} | _boosted(parts, found, share)
    spec = TrainSpec(minibatch=batch)
    start = create_model(model_spec(model), scaler.inputs(found.start.X))
    state = create_state(start, jax.random.key(0))
    with Stream(parts, found, batch, 0, share, 0) as stream:
        # Its pace, compiled, tells how many steps the time holds; the rates fall over these.
        _, _, paces = trained(state, stream, replace(spec, steps=30))
        steps = max(50, int(seconds / min(paces)))
        supply, began = Timed(stream), time.perf_counter()
        state, progress, paces = trained(state, supply, replace(spec, steps=steps))
        taken = time.perf_counter() - began
    X, Y = found.held_out.X, found.held_out.Y
    latent = predict_latent(state.model, scaler.inputs(X), jax.random.key(1))
    mixture = predict_observed(state.model, latent).affine(scaler.y_scale, scaler.y_mean)
    step = taken / progress.steps
    ratio = SECONDS_A_STEP["gpu"][model] / SECONDS_A_STEP["cpu"][model]
    row = {
        "rows": n,
        "model": model,
        "ms a step": 1000 * step,
        "median ms": 1000 * float(np.median(paces)),
        "waits %": 100 * supply.waited / taken,
        "rows/s shuffled": n / took["shuffling"],
        "rows/s measured": n / took["measuring"],
        "load of these": took["load"],
        "rows/s trained": batch / step,
        "peak MB": (peak_memory() - imported) / 2**20,
        "steps": progress.steps,
        "rmse": rmse(mixture, Y),
        "noise floor": float(FLOOR),
        "loglik": log_likelihood(mixture, Y),
        "hours for 500,000 steps (projected)": PAPER_STEPS * step / 3600,
        "hours on a GPU by the paper's ratio (projected)": PAPER_STEPS * step * ratio / 3600,
        "load": round(os.getloadavg()[0], 1),
    }
    if n <= 1_000_000:
        pace = _in_memory(parts, found, start, spec)
        row["pace of in-memory %"] = 100 * pace / float(np.median(paces))
    return row


def trained(state, supply, spec):
    """The state and progress after a run, and the seconds a step of each chunk but the first."""
    from dgp_core.training.train import Progress, resume

    paces: list[float] = []
    last = [time.perf_counter(), 0]

    def on_chunk(_, progress: Progress) -> None:
        now = time.perf_counter()
        paces.append((now - last[0]) / (progress.steps - last[1]))
        last[:] = now, progress.steps

    state, progress = resume(state, supply, spec, Progress(), on_chunk)
    return state, progress, paces[1:] or paces


def _in_memory(parts, found, start, spec) -> float:
    """Seconds a step of the same model with all rows in memory."""
    import jax

    from dgp_core.training.optimise import create_state
    from dgp_core.training.train import Rows

    rows = [parts.read(part) for part in range(len(parts))]
    X = found.scaler.inputs(np.concatenate([x for x, _ in rows]))
    Y = found.scaler.outputs(np.concatenate([y for _, y in rows]))
    supply = Rows.create(X, Y, spec.minibatch, np.float64, 0)
    state = create_state(start, jax.random.key(0))
    return float(np.median(trained(state, supply, replace(spec, steps=100))[2]))


def _boosted(parts, found, share: float) -> dict[str, Any]:
    """Gradient boosting on as many rows as it can hold."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    from dgp_core.training.memory import peak_memory
    from dgp_core.training.rows import in_training

    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = min(MOST_BOOSTED, int(free / 4 / (8 * len(found.scaler.kept))))
    X, Y, held = [], [], 0
    for part in range(len(parts)):
        x, y = parts.read(part)
        train = in_training(part, len(x), share, 0)
        X.append(x[train])
        Y.append(y[train, 0])
        held += len(X[-1])
        if held >= most:
            break
    began = time.perf_counter()
    x, y = np.concatenate(X)[:most], np.concatenate(Y)[:most]
    del X, Y
    trees = HistGradientBoostingRegressor(max_iter=300).fit(x, y)
    error = trees.predict(found.held_out.X) - found.held_out.Y[:, 0]
    return {
        "model": "boosting",
        "boosted rows": len(x),
        "seconds": time.perf_counter() - began,
        "peak MB": peak_memory() / 2**20,
        "rmse": float(np.sqrt(np.mean(error**2))),
        "noise floor": float(FLOOR),
    }


def prepare(folder: Path, n: int) -> bool:
    """Writes, shuffles and measures a set, as far as that is not done; False where the disk has no
    room for it."""
    from dgp_core.training.progress import PassBar

    written = sum(file.stat().st_size for file in folder.parent.glob(f"*{folder.name}*/*"))
    need, free = ROW_BYTES * n - written, shutil.disk_usage(folder.parent).free
    if need > 0 and need + SLACK_BYTES > free:
        print(
            f"{n:,} rows take {need / 1e9:,.0f} GB more and {SLACK_BYTES / 1e9:,.0f} GB are left "
            f"for others, but {free / 1e9:,.0f} GB are free."
        )
        return False
    with PassBar() as bar:
        write(folder, n, bar.begin("writing", n))
    prepared(folder, n)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.scale")
    parser.add_argument("--rows", default="1e5,1e6,1e7", help="such as 1e5,1e9")
    parser.add_argument("--folder", type=Path, required=True, help="where the sets are written")
    parser.add_argument("--prepare", action="store_true", help="write, shuffle and measure only")
    parser.add_argument("--models", default="sgp,dgp2,boosting")
    parser.add_argument(
        "--seconds", type=float, default=300.0, help="of training, a model and size"
    )
    parser.add_argument("--json", type=Path, help="a row a size and model")
    parser.add_argument("--delete", action="store_true", help="each set once it is measured")
    parser.add_argument("--one", nargs=2, metavar=("ROWS", "MODEL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        n, model = int(options.one[0]), options.one[1]
        row = measure(options.folder / f"rides-{n}", n, model, options.seconds)
        print(json.dumps(row), flush=True)
        return
    rows = json.loads(options.json.read_text()) if options.json and options.json.is_file() else []
    options.folder.mkdir(parents=True, exist_ok=True)
    for n in [int(float(word)) for word in options.rows.split(",")]:
        folder, done = options.folder / f"rides-{n}", {(row["rows"], row["model"]) for row in rows}
        models = [model for model in options.models.split(",") if (n, model) not in done]
        if (options.prepare or models) and not prepare(folder, n):
            continue
        if options.prepare:
            continue
        for model in models:
            command = [sys.executable, "-m", "benchmarks.scale", "--folder", str(options.folder)]
            command += ["--seconds", str(options.seconds), "--one", str(n), model]
            ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            rows.append(json.loads(ended.stdout.splitlines()[-1]))
            print(rows[-1], flush=True)
            if options.json:
                write_rows(options.json, rows)
        if options.delete:
            for made in (folder, Path(f"{folder}.shuffled")):
                shutil.rmtree(made, ignore_errors=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    print_table([{name: row.get(name) for name in names} for row in rows])


if __name__ == "__main__":
    main()
