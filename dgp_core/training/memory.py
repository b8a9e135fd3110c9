"""Memory that malloc holds though nobody uses it: few arenas, and free pages given back."""

import ctypes
import sys
from contextlib import suppress

ARENAS = 2
"""Of glibc's heap: each thread would have one of its own, and each keeps what it has freed."""

_M_ARENA_MAX = -8


def limit_arenas() -> None:
    """Lets threads share a few arenas, where the system's malloc has arenas."""
    _call("mallopt", _M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Gives free pages back to the system; loading a program leaves some fifty megabytes."""
    _call("malloc_trim", 0)


def peak_memory() -> int:
    """The most bytes that this process has held so far; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _call(name: str, *arguments: int) -> None:
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # not every libc has it
            getattr(ctypes.CDLL(None), name)(*arguments)
