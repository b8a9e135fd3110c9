"""How a step's cost grows with rows, inducing points, depth and width, beside O(B·M²·ΣD).

    python -m benchmarks.growth [--only M,depth] [--json FILE]

One of B, M, L and the width P varies, the others stay at B = 2,000, M = 100, L = 2 and P = 4. The
exponent is the slope of a straight line through log ms against log of what varies, over all its
values and over its larger half: small sizes have costs of their own, which do not grow.
"""

import argparse
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.report import add_row, print_table, provenance
from benchmarks.speed import best_of
from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.training.optimise import create_state
from dgp_core.training.train import Rows, TrainSpec, train_chunk

MEASURED = "growth.json"
BASE = {"B": 2000, "M": 100, "depth": 2, "width": 4}
VARIED = {
    "B": (500, 1000, 2000, 4000, 8000, 16_000),
    "M": (25, 50, 100, 200, 400),
    "depth": (1, 2, 3, 4, 5),
    "width": (1, 2, 4, 8, 16),
}


def work(size: dict[str, int]) -> float:
    """B·M²·ΣD of a model whose inner layers are as wide as its inputs."""
    outputs = size["width"] * (size["depth"] - 1) + 1
    return float(size["B"] * size["M"] ** 2 * outputs)


def milliseconds(size: dict[str, int], seconds: float) -> float:
    """The quickest of three calls, each of about so many seconds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((size["B"], size["width"]))
    Y = np.sin(X.sum(1, keepdims=True)) + 0.1 * rng.standard_normal((size["B"], 1))
    spec = TrainSpec(natural_rate=0.0, minibatch=None, decay=False)
    model = create_model(ModelSpec(layers=size["depth"], inducing=size["M"]), X)
    state = create_state(model, jax.random.key(0))
    rows = Rows.create(X, Y, None, jnp.float64, 0)
    train_chunk(state, rows, spec, 1)
    one = best_of(3, lambda: train_chunk(state, rows, spec, 1)[0])
    n = int(np.clip(seconds / one, 1, 500))
    return 1e3 * best_of(3, lambda: train_chunk(state, rows, spec, n)[0]) / n


def exponent(sizes: np.ndarray, costs: np.ndarray) -> float:
    """The slope of log cost by log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def measure(name: str, seconds: float, values: tuple[int, ...]) -> dict:
    """A row: what varies, ms a step at each value, and the exponents."""
    sizes = [BASE | {name: value} for value in values]
    ms = np.array([milliseconds(size, seconds) for size in sizes])
    x, theory = np.array(values, float), np.array([work(size) for size in sizes])
    half = max(0, min(len(values) // 2, len(values) - 2))
    return {
        "varies": name,
        "values": " ".join(f"{value:,}" for value in values),
        "ms a step": " ".join(f"{one:.3g}" for one in ms),
        "exponent": round(exponent(x, ms), 2),
        "larger half": round(exponent(x[half:], ms[half:]), 2),
        "B·M²·ΣD, larger half": round(exponent(x[half:], theory[half:]), 2),
        "load": round(os.getloadavg()[0], 1),
    }


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.growth")
    parser.add_argument("--only", default=",".join(VARIED), help="B, M, depth, width")
    parser.add_argument("--seconds", type=float, default=0.5, help="of a call")
    parser.add_argument("--values", type=int, help="only the first so many of each")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    rows: list[dict] = []
    for name in options.only.split(","):
        row = measure(name, options.seconds, VARIED[name][: options.values])
        add_row(rows, row | provenance(), options.json)
    print_table(rows)


if __name__ == "__main__":
    main()
