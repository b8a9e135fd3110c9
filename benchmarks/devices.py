"""What several processes gain, and what their collectives cost.

    python -m benchmarks.devices [--processes 2] [--rows 10000] [--inducing 100] [--layers 1,2,3]
                                 [--steps 20] [--json FILE]

Minibatches of that many rows with 9 inputs, float64. `step_ms` is a step of the processes together,
`alone_ms` one process's step with all rows and `share_ms` with its share of them (each by itself on
the machine). A step has one collective, the sum of the gradient: `sum_ms` is its time alone, on
this machine's loopback, and `sum_share` its share of the step. On one machine processes also share
its cores, so that `step_ms` says little about many machines; rows with a network's name are
projections for as many machines as there are processes, from `share_ms` and a ring's time for
2(n−1)/n of the gradient's bytes and 2(n−1) messages. They are not measurements.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import PartitionSpec

from benchmarks.report import print_table, write_rows
from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.training import processes
from dgp_core.training.devices import AXIS, all_devices
from dgp_core.training.optimise import create_state
from dgp_core.training.train import Rows, TrainSpec, WholeSet, train_chunk

INPUTS = 9
NETWORKS = {"10 Gb/s Ethernet": (1.25e9, 50e-6), "100 Gb/s InfiniBand": (12.5e9, 5e-6)}
"""Bytes a second and seconds a message, as their vendors name them."""
PORT = 61437
REPEATS = 3


def best(call, steps: int) -> float:
    """Seconds a step, the best of a few calls after the first."""
    call()
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times) / steps


def measure(rows: int, layers: int, inducing: int, steps: int) -> dict:
    """This process's seconds a step, and of its collective alone; with all others, if any."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, INPUTS))
    Y = np.tanh(4 * X[:, :1] + X[:, 1:2]) + 0.1 * rng.standard_normal((rows, 1))
    model = create_model(ModelSpec(layers=layers, inducing=inducing), X)
    state, spec = create_state(model, jax.random.key(0)), TrainSpec(minibatch=None, decay=False)
    devices = all_devices()
    if devices is None:
        supply = Rows.create(X, Y, None, jnp.float64, 0)
    else:
        supply = WholeSet.create(X, Y, jnp.float64, devices)
    batches, _ = supply.prefetch(0, steps)
    found = {"step": best(lambda: train_chunk(state, batches, spec, steps), steps)}
    numbers = ravel_pytree(state.model)[0].size + 1
    found["bytes"] = 8 * numbers
    if devices is not None:
        every, n = PartitionSpec(), devices.mesh.devices.size

        @jax.jit
        @partial(jax.shard_map, mesh=devices.mesh, in_specs=every, out_specs=every, check_vma=False)
        def sums(vector):
            return lax.fori_loop(0, steps, lambda _, v: lax.psum(v, AXIS) / n, vector)

        vector = devices.replicate(np.ones(numbers))
        found["sum"] = best(lambda: jax.block_until_ready(sums(vector)), steps)
    return found


def in_processes(n: int, settings: dict) -> dict:
    """What the first of n processes measures."""
    command = [sys.executable, "-m", "benchmarks.devices", "--measure", json.dumps(settings)]
    given = {"JAX_NUM_PROCESSES": str(n), "JAX_COORDINATOR_ADDRESS": f"localhost:{PORT}"}
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **given, "JAX_PROCESS_ID": str(i)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(n)
    ]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("A process failed: see above.")
    return json.loads(outputs[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--inducing", type=int, default=100)
    parser.add_argument("--layers", default="1,2,3")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--measure", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure is not None:
        processes.join()
        print(json.dumps(measure(**args.measure)))
        return
    n, found = args.processes, []
    for L in map(int, args.layers.split(",")):
        settings = {"layers": L, "inducing": args.inducing, "steps": args.steps}
        alone = in_processes(1, {"rows": args.rows, **settings})
        share = in_processes(1, {"rows": -(-args.rows // n), **settings})
        together = in_processes(n, {"rows": args.rows, **settings})
        about = {
            "processes": n,
            "layers": L,
            "gradient_kb": together["bytes"] / 1000,
            "alone_ms": 1e3 * alone["step"],
            "share_ms": 1e3 * share["step"],
        }
        networks = {"loopback, measured": (together["step"], together["sum"])}
        for name, (bandwidth, latency) in NETWORKS.items():
            ring = 2 * (n - 1) * (together["bytes"] / n / bandwidth + latency)
            networks[f"{name}, projected"] = (share["step"] + ring, ring)
        found += [
            {
                **about,
                "network": name,
                "step_ms": 1e3 * step,
                "sum_ms": 1e3 * sum_,
                "sum_share": sum_ / step,
                "times_faster": alone["step"] / step,
                "load": round(os.getloadavg()[0], 1),
            }
            for name, (step, sum_) in networks.items()
        ]
    print_table(found)
    print(
        f"Of a step by {n} processes, the sum of the gradient is as much as sum_share says. Rows "
        "that are projected were not measured: they are what these processes' own work and a "
        "network of that kind would take, on as many machines."
    )
    if args.json:
        write_rows(args.json, found)


if __name__ == "__main__":
    main()
