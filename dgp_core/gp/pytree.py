"""Dataclasses as pytrees that JAX tells apart.

In JAX 0.10, two classes of `jax.tree_util.register_dataclass` with equally many leaves have equal
tree structures, whatever the classes. The cache of compiled programs trusts that, and about once in
a hundred it runs one kernel's program for another's. Here the class is part of the structure.
"""

from dataclasses import fields
from typing import TypeVar

import jax
import numpy as np
from jax.tree_util import GetAttrKey, register_pytree_with_keys
from jax.typing import DTypeLike
from numpy.typing import ArrayLike

T = TypeVar("T", bound=type)


def pytree(cls: T) -> T:
    """Registers a dataclass: fields with metadata `static=True` are structure, others leaves."""
    leaves = [f.name for f in fields(cls) if not f.metadata.get("static")]
    static = [f.name for f in fields(cls) if f.metadata.get("static")]

    def structure(made):
        return (cls, *(getattr(made, name) for name in static))

    def flatten(made):
        return tuple(getattr(made, name) for name in leaves), structure(made)

    def flatten_with_keys(made):
        return tuple((GetAttrKey(n), getattr(made, n)) for n in leaves), structure(made)

    def unflatten(kept, children):
        return cls(**dict(zip((*leaves, *static), (*children, *kept[1:]), strict=True)))

    register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def leaf(value: ArrayLike, dtype: DTypeLike) -> jax.Array:
    """A number or an array as JAX's own; nothing is compiled for a new shape."""
    return jax.device_put(np.asarray(value, dtype))
