"""A run on many devices is the run on one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

from dgp_core.gp.model import ModelSpec, create_model, draws_from, row_draws
from dgp_core.training import train
from dgp_core.training.devices import AXIS, Devices
from dgp_core.training.optimise import create_state

ROOT = Path(__file__).parents[2]


def on_virtual_devices(*cases) -> list:
    """The differences between a run on one device and on several, for each case."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4"
    environment = {
        **os.environ,
        "XLA_FLAGS": flags,
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, "-m", "tests.scale.virtual_devices", json.dumps(cases)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def assert_one_run(found: list) -> None:
    for case in found:
        for step, hundred, bound in case:
            assert step < 1e-10 and hundred < 1e-6 and bound < 1e-6, found


def test_a_minibatch_with_a_remainder_trains_the_same_on_two_and_four_devices():
    """37 rows are 19 and 18, or 10, 10, 10 and 7."""
    assert_one_run(on_virtual_devices(["gaussian", 37, 1, 0, [2, 4]]))


@pytest.mark.slow
def test_every_remainder_and_kind_of_row():
    assert_one_run(
        on_virtual_devices(
            ["gaussian", None, 1, 0, [1, 2, 3, 4]],
            ["gaussian", 3, 1, 0, [1, 4]],  # fewer rows than devices
            ["gaussian", 40, 3, 0, [4]],  # no remainder; samples are more rows
            ["softmax", 38, 2, 20, [2, 4]],  # whose likelihood draws, too
        )
    )


@pytest.mark.parametrize("first", [0, 1, 127, 128, 300])
def test_a_share_draws_what_its_rows_have_in_the_whole_minibatch(first):
    key = jax.random.key(3)
    whole = row_draws(key, 1, 512, 2, np.float64)
    part = draws_from(np.int64(first), key, 1, 150, 2, np.float64)
    np.testing.assert_array_equal(part, whole[first : first + 150])


@pytest.fixture
def devices() -> Devices:
    """A mesh of this process's only device."""
    return Devices(Mesh(np.array(jax.devices()[:1]), (AXIS,)))


def test_shares_hold_every_row_once_and_padding_has_no_weight(devices, monkeypatch):
    class Many:
        """A mesh of seven devices, of which this process has the third and the fourth."""

        devices = np.arange(7)
        local_devices = (2, 3)

    for batch in (1, 6, 7, 8, 100):
        places = []
        for local in ((0, 1), (2, 3), (4, 5, 6)):
            monkeypatch.setattr(Many, "local_devices", local)
            mine = Devices(Many()).rows_of(batch)  # pyright: ignore[reportArgumentType]
            assert len(mine) == len(local) * -(-batch // 7)
            places += mine.tolist()
        assert places == list(range(len(places))) and len(places) >= batch

    shares = devices.share(lambda p: (p[None, :, None],) * 2, 5, 40, 99, np.float64)
    np.testing.assert_array_equal(shares.X[0, :, 0], np.arange(5))
    assert shares.weight.sum() == shares.size == 5 and shares.first == 40 and shares.n == 99


def lowered(devices: Devices | None) -> str:
    """The program of a chunk, before it is compiled."""
    X = np.linspace(-1, 1, 9)[:, None]
    spec = train.TrainSpec(minibatch=4)
    state = create_state(create_model(ModelSpec(inducing=3), X), jax.random.key(0))
    numbers = (np.float64(9), np.int64(1), spec.rates)
    options = {"samples": 1, "natural": True}
    if devices is None:
        rows = train.Rows.create(X, X, 4, np.float64, 0)
        return train._chunk.lower(state, rows, *numbers, minibatch=4, **options).as_text()
    shares = train.Windows(X, X, 4, np.float64, 0, devices).prefetch(0, 1)[0]
    return train._shared_chunk.lower(
        state, shares, *numbers, mesh=devices.mesh, **options
    ).as_text()


def test_a_step_has_one_collective_and_on_one_device_none(devices):
    assert lowered(devices).count("all_reduce") == 1
    alone = lowered(None)
    assert "all_reduce" not in alone and "manual_computation" not in alone
