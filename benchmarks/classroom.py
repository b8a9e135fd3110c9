"""A classroom of live runs: how often each one's picture could move, and what sharing costs.

    python -m benchmarks.classroom --runs 1,10,30 --seconds 30 [--json FILE]
    python -m benchmarks.classroom --students 10,20 --processes 1,2 [--json FILE]

Every run is a two-layer model and its rival on the step toy, watched all the time. The total of
their steps is held against a bare loop of `train_chunk` over both models, in the same process
(`kept`), and against as many such loops at once as the machine has cores (`kept_of_all`). A second
table times the data of the playground's four pictures, which all watchers of a run share.

With `--students`, whole servers as `make class` starts them: protocol clients, each with a run of
its own, and the frames a second of the one that is served least.
"""

import argparse
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from benchmarks.browser import lesson
from benchmarks.report import print_table, write_rows
from datasets import catalogue
from dgp_core.gp.model import ModelSpec
from dgp_core.live.run import Run, train_chunk
from dgp_core.live.views.mixture import mixture_at
from dgp_core.live.views.playground import Gallery, view_1d
from dgp_core.live.workshop import Workshop
from dgp_core.training.train import TrainSpec
from pages.ui.classroom.__main__ import free_ports, serving
from pages.ui.classroom.room import Room

MODEL = ModelSpec(layers=2, inducing=25)
TRAIN = TrainSpec(steps=10_000_000, minibatch=None, decay=False)


def bare_loops(seconds: float, n: int) -> float:
    """Steps a second of n loops at once, each of a deep model and its rival, without a workshop."""
    run = Run(catalogue.load("step"), MODEL, TRAIN)
    run.prepare()
    start = run._make_start()
    rows, _ = start.supply.prefetch(0, 1)
    done, began = [0] * n, time.perf_counter()

    def loop(i: int) -> None:
        states, chunk = list(start.states), 50
        while time.perf_counter() - began < seconds:
            for k, state in enumerate(states):
                states[k], _ = train_chunk(state, rows, TRAIN, chunk)
            jax.block_until_ready(states)
            done[i] += chunk

    threads = [threading.Thread(target=loop, args=(i,)) for i in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.perf_counter() - began)


def held_mb() -> float:
    """Megabytes that this process holds now; NaN where the system does not say."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return float("nan")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def measure(n_runs: int, seconds: float, alone: float, together: float) -> dict:
    """One row: n runs at once, each watched by one person."""
    workshop = Workshop()
    seeds = range(n_runs)
    runs = []
    for seed in seeds:
        data = catalogue.load("step", seed=seed)
        runs.append(workshop.start(data, MODEL, TrainSpec(**{**vars(TRAIN), "seed": seed}))[0])
    while any(workshop.watch(i).latest is None for i in runs):
        time.sleep(0.01)

    def step(run_id: str) -> int:
        snapshot = workshop.watch(run_id).latest
        assert snapshot is not None
        return snapshot.step

    first = {i: step(i) for i in runs}
    seen = {i: {first[i]} for i in runs}
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        for i in runs:
            seen[i].add(step(i))
        time.sleep(0.01)
    taken = time.perf_counter() - start
    steps = sum(step(i) - first[i] for i in runs)
    held = held_mb()
    workshop.stop()

    frames = np.array([len(seen[i]) - 1 for i in runs]) / taken
    shares = np.array([len(seen[i]) for i in runs])
    return {
        "runs": n_runs,
        "snapshots_per_s_least": round(float(frames.min()), 2),
        "snapshots_per_s_median": round(float(np.median(frames)), 2),
        "steps_per_s_total": round(steps / taken, 1),
        "steps_per_s_bare": round(alone, 1),
        "kept": round(steps / taken / alone, 3),
        "aim": 0.8 if n_runs == 1 else 0.6,
        "kept_of_all": round(steps / taken / together, 3),
        "least_share_of_mean": round(float(shares.min() / shares.mean()), 3),
        "held_mb": round(held),
        "load": round(os.getloadavg()[0], 1),
    }


def measure_view(n_layers: int, repeats: int = 30) -> dict:
    """One row: the pictures' data of one moment, computed anew each time."""
    run = Run(catalogue.load("step"), ModelSpec(layers=n_layers, inducing=25), TRAIN)
    run.prepare()
    run.advance()
    assert run.latest is not None
    middle = np.median(run.dataset.X, 0)
    mixture_at(run, run.latest, middle)
    wall, cpu = [], []
    for _ in range(repeats):
        run.gallery = Gallery()
        clock, busy = time.perf_counter(), time.process_time()
        view_1d(run, run.latest)
        mixture_at(run, run.latest, middle)
        wall.append(1000 * (time.perf_counter() - clock))
        cpu.append(1000 * (time.process_time() - busy))
    return {
        "layers": n_layers,
        "inducing": 25,
        "view_ms_least": round(min(wall), 1),
        "view_ms_median": round(float(np.median(wall)), 1),
        "cpu_ms_median": round(float(np.median(cpu)), 1),
        "aim_ms": 25,
        "load": round(os.getloadavg()[0], 1),
    }


def students(processes: int, count: int, seconds: float) -> dict:
    """One row: so many students, each with a run of their own, at a server of so many processes."""
    (port,) = free_ports(1)
    room = Room(f"http://127.0.0.1:{port}/", "", 1, processes)
    paths = tuple(replace(room, process=n).own_base for n in range(1, processes + 1))
    with serving(room, port, "127.0.0.1"):
        seen = lesson(f"http://127.0.0.1:{port}", count, 1, seconds, paths)
    return {
        "processes": processes,
        "students": count,
        "frames_per_s_least": round(seen["least"], 2),
        "steps_per_s_total": round(seen["steps"], 1),
        "lag_ms": round(seen["lag"], 1),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.classroom")
    parser.add_argument("--runs", default="1,10,30")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--students", default="", help="such as 10,20: whole servers instead")
    parser.add_argument("--processes", default="1,2", help="of these servers")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    if options.students:
        counts = [int(n) for n in options.students.split(",")]
        processes = [int(n) for n in options.processes.split(",")]
        rows = [students(p, n, options.seconds) for p in processes for n in counts]
        print_table(rows)
        if options.json:
            write_rows(options.json, rows)
        return
    alone, together = (bare_loops(min(10.0, options.seconds), n) for n in (1, os.cpu_count() or 1))
    rows = [measure(int(n), options.seconds, alone, together) for n in options.runs.split(",")]
    print_table(rows)
    views = [measure_view(n_layers) for n_layers in (1, 2, 3)]
    print()
    print_table(views)
    if options.json:
        write_rows(options.json, rows + views)


if __name__ == "__main__":
    main()
