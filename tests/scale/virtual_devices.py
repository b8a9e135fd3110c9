"""Runs on one device and on meshes of several, in a process with virtual devices: the differences.

    XLA_FLAGS=--xla_force_host_platform_device_count=4 python -m tests.scale.virtual_devices CASES

CASES is JSON, [[likelihood, minibatch, samples, taken, [devices, …]], …]; the answer, too: for each
case and number of devices, how far parameters are from those of one device after 1 and 100 steps,
and the bounds, relative to their size. `taken` steps come before on one device: where a gradient is
zero but for rounding, as at a classifier's start, Adam's first step is rounding over rounding.
"""

import json
import sys

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh

from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.training.devices import AXIS, Devices
from dgp_core.training.optimise import create_state
from dgp_core.training.train import (
    Progress,
    Rows,
    TrainSpec,
    WholeSet,
    Windows,
    resume,
    train_chunk,
)

N = 101


def differences(
    likelihood: str, minibatch: int | None, samples: int, taken: int, meshes: list[int]
) -> list:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    Y = np.sin(X.sum(1, keepdims=True)) + 0.1 * rng.normal(size=(N, 1))
    if likelihood == "softmax":
        Y = np.digitize(Y, [-0.5, 0.5]).astype(float)
    spec = TrainSpec(minibatch=minibatch, samples=samples, steps=taken + 100)
    model = create_model(ModelSpec(inducing=5, likelihood=likelihood), X, n_classes=3)
    state = create_state(model, jax.random.key(0))
    rows = Rows.create(X, Y, minibatch, np.float64, 0)
    state, _ = train_chunk(state, rows, spec, taken)
    one, hundred = (train_chunk(state, rows, spec, n) for n in (1, 100))
    found = []
    for n in meshes:
        devices = Devices(Mesh(np.array(jax.devices()[:n]), (AXIS,)))
        if minibatch is None:
            supply = WholeSet.create(X, Y, np.float64, devices)
        else:
            supply = Windows(X, Y, minibatch, np.float64, 0, devices)
        step = train_chunk(state, supply.prefetch(taken, 1)[0], spec, 1)
        end, progress = resume(state, supply, spec, Progress(taken), devices=devices)
        bound = hundred[1].value
        found.append(
            [
                far(step[0], one[0]),
                far(end, hundred[0]),
                float(np.abs(progress.bound / bound - 1).max()),
            ]
        )
    return found


def far(one, other) -> float:
    """The largest difference of any parameter."""
    a, b = (np.asarray(ravel_pytree(state.model)[0]) for state in (one, other))
    return float(np.abs(a - b).max())


if __name__ == "__main__":
    print(json.dumps([differences(*case) for case in json.loads(sys.argv[1])]))
