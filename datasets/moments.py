"""Views of a run at several moments as one small file, and back again.

A view is a tree of dataclasses. Its shape is kept as JSON and its numbers in one array a type, so
that nothing in a file is ever run; what is the same at every moment is kept once.
"""

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any
from zipfile import ZIP_LZMA, ZipFile

import numpy as np

from dgp_core.live.views import playground as views

KINDS: dict[str, Any] = {
    name: kind for name in views.__all__ if is_dataclass(kind := getattr(views, name))
}
"""What a tree may be made of."""

SHADED = 25
"""A grid of so many lines both ways is seen as shade: a byte a number is as fine as the eye."""

GOOD_ENOUGH = 0.002
"""What rounding may cost, as a share of the range."""


def save(path: Path, moments: Sequence[Any]) -> None:
    """Writes views of the same kind to a file."""
    shelves: dict[str, list[np.ndarray]] = {}
    film = {"moments": len(moments), "tree": _packed(moments, shelves)}
    words = np.frombuffer(json.dumps(film, separators=(",", ":")).encode(), np.uint8)
    numbers = {name: np.concatenate(parts) for name, parts in shelves.items()}
    # As np.savez_compressed, by LZMA: smaller by a third, and np.load reads it too.
    with ZipFile(path, "w", ZIP_LZMA) as file:
        for name, array in {"film": words, **numbers}.items():
            with file.open(f"{name}.npy", "w") as part:
                np.lib.format.write_array(part, array, allow_pickle=False)


def load(path: Path) -> tuple[Any, ...]:
    """The views that a file holds, in order."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    film = json.loads(arrays.pop("film").tobytes())
    return tuple(_unpacked(film["tree"], i, arrays) for i in range(film["moments"]))


def _packed(values: Sequence[Any], shelves: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    """One place of the tree through all moments."""
    first = values[0]
    alike = all(type(value) is type(first) for value in values)
    if alike and is_dataclass(first):
        parts = {
            field.name: _packed([getattr(value, field.name) for value in values], shelves)
            for field in fields(first)
        }
        return {"kind": type(first).__name__, "parts": parts}
    if alike and isinstance(first, tuple) and all(len(value) == len(first) for value in values):
        return {"tuple": [_packed(part, shelves) for part in zip(*values, strict=True)]}
    if alike and isinstance(first, np.ndarray) and len({value.shape for value in values}) == 1:
        return _packed_array(np.stack(values), shelves)
    if all(value is None or isinstance(value, str | int | float) for value in values):
        return {"same": first} if all(value == first for value in values) else {"plain": values}
    if len(values) == 1:
        raise TypeError(f"A film cannot hold {type(first).__name__}.")
    return {"each": [_packed([value], shelves) for value in values]}


def _packed_array(values: np.ndarray, shelves: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    """Numbers (T, …) on the shelf of the smallest type that is good enough for them."""
    node: dict[str, Any] = {}
    if np.array_equal(values, np.broadcast_to(values[:1], values.shape), equal_nan=True):
        values = values[:1]
    if values.dtype.kind in "iu":
        kept = values.astype(np.uint8 if 0 <= values.min() <= values.max() < 256 else np.int32)
    elif values.ndim > 2 and min(values.shape[-2:]) >= SHADED:
        axes = tuple(range(1, values.ndim))
        low, high = values.min(axes, keepdims=True), values.max(axes, keepdims=True)
        room = np.where(high > low, high - low, 1.0)
        kept = np.round(255 * (values - low) / room).astype(np.uint8)
        node = {"low": low.ravel().tolist(), "high": high.ravel().tolist()}
    else:
        kept = _halved(values) if len(values) > 1 else values.astype(np.float32)
    shelf = shelves.setdefault(kept.dtype.name, [])
    node |= {"array": kept.dtype.name, "at": sum(map(len, shelf)), "shape": list(kept.shape)}
    shelf.append(kept.ravel())
    return node


def _halved(values: np.ndarray) -> np.ndarray:
    """In half precision, or in single where that would show."""
    finite = values[np.isfinite(values)]
    room = GOOD_ENOUGH * float(np.ptp(finite)) if finite.size else 0.0
    with np.errstate(over="ignore"):
        half = values.astype(np.float16)
    fine = np.allclose(half, values, rtol=0, atol=room, equal_nan=True)
    return half if fine else values.astype(np.float32)


def _unpacked(node: dict[str, Any], i: int, arrays: dict[str, np.ndarray]) -> Any:
    """The tree at moment i."""
    if "kind" in node:
        parts = {name: _unpacked(part, i, arrays) for name, part in node["parts"].items()}
        return KINDS[node["kind"]](**parts)
    if "tuple" in node:
        return tuple(_unpacked(part, i, arrays) for part in node["tuple"])
    if "array" in node:
        return _unpacked_array(node, i, arrays[node["array"]])
    if "each" in node:
        return _unpacked(node["each"][i], 0, arrays)
    return node["same"] if "same" in node else node["plain"][i]


def _unpacked_array(node: dict[str, Any], i: int, shelf: np.ndarray) -> np.ndarray:
    moments, *shape = node["shape"]
    i = min(i, moments - 1)
    size = int(np.prod(shape))
    start = node["at"] + i * size
    values = shelf[start : start + size].reshape(shape)
    if "low" in node:
        low, high = node["low"][i], node["high"][i]
        return low + values * ((high - low) / 255)
    return values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
