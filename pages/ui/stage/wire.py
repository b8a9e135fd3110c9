"""What is sent to a browser, as JSON."""

from typing import Any

import numpy as np
import orjson


def encode(content: Any) -> bytes:
    """Figures and words with their arrays; numpy's views too, which orjson passes to us.

    A copy, since orjson's own bytes keep all the room that they were written into: four kilobytes
    for a word, and up to twice of a figure.
    """
    packed = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY, default=_listed)
    return bytes(memoryview(packed))


def _listed(value: Any) -> list:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent to a browser")
