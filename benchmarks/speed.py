"""How long a training step takes, against the best peers and against its own matrix products.

    python -m benchmarks.speed [--json FILE] [--workloads A,B,C]

Adam on every parameter, one sample path a row, float64: A is the paper's profile (10,000 rows,
100 inducing points, widths 1), B is 8 inputs and 8-wide layers at 1,000 rows, C the classroom's
case (100 rows, 20 inducing points). `limit_ms` is the time that a step's big products alone take in
this run, two a layer and output (B×M by M×M going forward, M×B by B×M going back).
"""

import argparse
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from benchmarks.report import add_row, print_table
from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.training.optimise import create_state
from dgp_core.training.train import Rows, TrainSpec, train_chunk

# (rows, inputs = inner width, [(layers, inducing points)], steps in a call)
WORKLOADS = {
    "A": (10_000, 1, [(1, 100), (2, 100), (3, 100), (4, 100), (5, 100), (1, 500)], 10),
    "B": (1_000, 8, [(1, 100), (2, 100), (3, 100), (5, 100)], 20),
    "C": (100, 1, [(1, 20), (2, 20), (3, 20), (4, 20), (5, 20)], 500),
}

# The better of GPyTorch 1.15 and GPflux 0.4.5 (TensorFlow 2.21, its best mode; for C a compiled
# loop of 100 steps), in ms a step, best of three, measured on 2 cores on another day.
BEST_PEER = {
    ("A", 1, 100): 40,
    ("A", 2, 100): 72,
    ("A", 3, 100): 96,
    ("A", 4, 100): 135,
    ("A", 5, 100): 160,
    ("A", 1, 500): 409,
    ("B", 1, 100): 7.3,
    ("B", 2, 100): 27,
    ("B", 3, 100): 53,
    ("B", 5, 100): 96,
    ("C", 1, 20): 0.20,
    ("C", 2, 20): 0.34,
    ("C", 3, 20): 0.50,
    ("C", 4, 20): 0.67,
    ("C", 5, 20): 0.80,
}


def best_of(times: int, call) -> float:
    """Seconds of the quickest of several calls."""
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        jax.block_until_ready(call())
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def products(n_rows: int, widths: list[int], M: int) -> float:
    """Seconds of a step's big products alone."""
    K = jnp.asarray(np.random.default_rng(0).random((n_rows, M)))
    Q = jnp.asarray(np.random.default_rng(1).random((M, M)))
    forward, backward = jax.jit(lambda K, Q: K @ Q), jax.jit(lambda K: K.T @ K)
    jax.block_until_ready((forward(K, Q), backward(K)))
    repeats = max(5, int(2e8 / (n_rows * M * M)))
    pair = best_of(repeats, lambda: forward(K, Q)) + best_of(repeats, lambda: backward(K))
    return sum(widths) * pair


def compile_seconds(state, rows: Rows, spec: TrainSpec) -> tuple[float, float]:
    """Until a first call has ended: with nothing kept, and with JAX's cache on disk."""

    def first_call() -> float:
        jax.clear_caches()
        return best_of(1, lambda: train_chunk(state, rows, spec, 0)[0])

    with TemporaryDirectory() as folder:
        cold = first_call()
        compilation_cache.reset_cache()
        jax.config.update("jax_compilation_cache_dir", folder)
        first_call()
        warm = first_call()
        jax.config.update("jax_compilation_cache_dir", None)
        compilation_cache.reset_cache()
    return cold, warm


def measure(workload: str, L: int, M: int) -> dict:
    """One row of the table."""
    n_rows, width, _, steps = WORKLOADS[workload]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, width))
    Y = np.sin(X.sum(1, keepdims=True)) + 0.1 * rng.standard_normal((n_rows, 1))
    spec = TrainSpec(natural_rate=0.0, minibatch=None, decay=False)
    state = create_state(create_model(ModelSpec(layers=L, inducing=M), X), jax.random.key(0))
    rows = Rows.create(X, Y, None, jnp.float64, 0)

    cold, warm = compile_seconds(state, rows, spec)
    train_chunk(state, rows, spec, steps)
    seconds = best_of(3, lambda: train_chunk(state, rows, spec, steps)[0]) / steps
    limit = products(n_rows, [width] * (L - 1) + [1], M)
    peer = BEST_PEER[workload, L, M]
    return {
        "workload": workload,
        "layers": L,
        "m": M,
        "ms": round(1e3 * seconds, 3),
        "compile_s": round(cold, 2),
        "cached_s": round(warm, 2),
        "limit_ms": round(1e3 * limit, 3),
        "ratio_to_limit": round(seconds / limit, 2),
        "peer_ms": peer,
        "times_faster": round(peer / (1e3 * seconds), 2),
        "aim": 2.0 if workload == "C" else 1.5,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.speed")
    parser.add_argument("--workloads", default="A,B,C")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    rows = []
    for workload in options.workloads.split(","):
        for L, M in WORKLOADS[workload][2]:
            add_row(rows, measure(workload, L, M), options.json)
    print_table(rows)


if __name__ == "__main__":
    main()
