"""Data parallel training: devices, of one process or of several, share every minibatch.

Parameters are on all devices. A step's gradient is summed over them in one collective, and each
takes the same step. The random numbers of a row belong to its place in the minibatch, so that the
run is that of one device, to rounding, however many there are.
"""

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import DTypeLike

AXIS = "rows"
"""The mesh's only axis: minibatches are split along their rows."""

T = TypeVar("T")


class ProcessLost(Exception):
    """Another process has ended: what cannot go on, in words for whoever started them."""


class Shares(NamedTuple):
    """Minibatches in the order in which steps take them, each split over the devices of a mesh.

    Every device has equally many rows; the last ones may be padding. A single batch serves all
    steps.
    """

    X: jax.Array
    """(K, R, D), R rows at least as many as the minibatch has."""
    Y: jax.Array
    weight: jax.Array
    """(R,): 1, and 0 for padding."""
    first: jax.Array
    """The step that takes the first of them."""
    size: jax.Array
    """Rows of a minibatch."""
    n: jax.Array
    """How many different rows the whole set has."""

    def batch(self, key: jax.Array, size: int | None, step: jax.Array):
        """This device's rows of a step, with their weights."""
        # An index beyond the end is that of the last batch.
        take = partial(lax.dynamic_index_in_dim, index=step - self.first, keepdims=False)
        return take(self.X), take(self.Y), self.weight

    @property
    def mesh(self) -> Mesh:
        sharding = self.X.sharding
        assert isinstance(sharding, NamedSharding)
        return sharding.mesh  # pyright: ignore[reportReturnType]


_BATCHES, _ROWS, _EVERY = PartitionSpec(None, AXIS), PartitionSpec(AXIS), PartitionSpec()

SPECS = Shares._make([_BATCHES, _BATCHES, _ROWS, _EVERY, _EVERY, _EVERY])
"""How the parts of `Shares` lie on the mesh."""


@dataclass(frozen=True)
class Devices:
    """Two devices or more, of this process and of the others that train the same model."""

    mesh: Mesh

    @property
    def processes(self) -> int:
        return len({device.process_index for device in self.mesh.devices.flat})

    def rows_of(self, batch: int) -> np.ndarray:
        """This process's places in a minibatch; padding has places from `batch` on."""
        n = self.mesh.devices.size
        each = -(-batch // n)
        mine = [i for i, d in enumerate(self.mesh.devices.flat) if d in self.mesh.local_devices]
        return np.concatenate([np.arange(i * each, (i + 1) * each) for i in mine])

    def share(
        self,
        take: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
        batch: int,
        first: int,
        n: int,
        dtype: DTypeLike,
    ) -> Shares:
        """Batches on their devices; `take` gives X (K, r, D) and Y of r places in each batch."""
        places = self.rows_of(batch)
        X, Y = take(np.minimum(places, batch - 1))

        def put(local, spec, dtype) -> jax.Array:
            """One array of all devices, from the part of it that this process's devices hold."""
            sharding = NamedSharding(self.mesh, spec)
            return jax.make_array_from_process_local_data(sharding, np.asarray(local, dtype))

        parts = (X, Y, places < batch, first, batch, n)
        types = (dtype,) * 3 + (np.int64,) * 3
        return Shares._make(map(put, parts, SPECS, types))

    def replicate(self, tree: T) -> T:
        """The arrays of a tree on every device; the other processes do the same with theirs."""
        sharding = NamedSharding(self.mesh, _EVERY)

        def everywhere(a):
            a = jnp.asarray(a)
            copies = [jax.device_put(a, d) for d in self.mesh.local_devices]
            return jax.make_array_from_single_device_arrays(a.shape, sharding, copies)

        return jax.tree.map(everywhere, tree)

    def from_lead(self, tree: T) -> T:
        """The first process's numbers on all: machines may round start values differently."""
        if self.processes == 1:
            return tree
        leaves, structure = jax.tree.flatten(tree)
        keys = [jnp.issubdtype(a.dtype, jax.dtypes.prng_key) for a in leaves]
        data = [jax.random.key_data(a) if k else a for a, k in zip(leaves, keys, strict=True)]
        shared = self._over_processes(_sum_of_first, data)
        same = [
            jax.random.wrap_key_data(jnp.asarray(a), impl=jax.random.key_impl(b)) if k else a
            for a, b, k in zip(shared, leaves, keys, strict=True)
        ]
        return jax.tree.unflatten(structure, same)

    def least(self, *numbers: int) -> list[int]:
        """Of each of these numbers, the least that any process has."""
        if self.processes == 1:
            return list(numbers)
        return [int(a) for a in self._over_processes(_least, [np.int64(x) for x in numbers])]

    def _over_processes(self, function: Callable, arrays: list) -> list[jax.Array]:
        with lost_processes():
            return first_copies(_collective(self.mesh, function)(self.replicate(arrays)))


def _sum_of_first(arrays: list) -> list:
    leads = lax.axis_index(AXIS) == 0
    return [lax.psum(jnp.where(leads, a, jnp.zeros_like(a)), AXIS) for a in arrays]


def _least(arrays: list) -> list:
    return [lax.pmin(a, AXIS) for a in arrays]


@lru_cache
def _collective(mesh: Mesh, function: Callable) -> Callable:
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=_EVERY, out_specs=_EVERY, check_vma=False)
    )


def first_copies(tree: T) -> T:
    """This process's own copy of arrays that are the same on every device."""
    return jax.tree.map(lambda a: a.addressable_data(0), tree)


@contextmanager
def lost_processes():
    """Says in words that a collective failed since another process has gone."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        if "Gloo" not in str(error):
            raise
        raise ProcessLost(
            f"Process {jax.process_index() + 1} of {jax.process_count()} stops: another one has "
            "ended, or cannot be reached any more. Training can go on from the last checkpoint, "
            "with as many processes as there are: resume it."
        ) from None


def all_devices() -> Devices | None:
    """All devices of all processes; None where there is only one."""
    devices = jax.devices()
    return Devices(Mesh(np.array(devices), (AXIS,))) if len(devices) > 1 else None
