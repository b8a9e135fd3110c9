"""Compiled code that outlives the process: a second start of the server compiles almost nothing."""

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

MOST_BYTES = 512 * 2**20
"""Of the folder, when a process starts with it; the oldest files go first."""


def cache_folder() -> Path:
    """Where the user's caches are: XDG_CACHE_HOME or ~/.cache, and in it a folder of our own."""
    # The standard has paths that are not absolute ignored.
    home = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".cache") / "dgp-lab" / "compiled"


_alone = threading.Lock()
"""Held while the folder is changed, or not used for a while."""


def processor() -> tuple[str, ...]:
    """What compiled code runs on: the machine's kind and, on Linux, the processor's flags."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        named = [line for line in lines if line.startswith(("model name", "flags"))]
        return platform.machine(), *named[:2]
    return (platform.machine(),)


def remember_compilations(folder: Path | None = None) -> Path | None:
    """Keeps what takes half a second or more to compile in a folder, and finds it there again.

    Code only, never data. A folder that JAX was told of before stays. Where the folder cannot be
    written, nothing is kept and nothing fails: the answer is then None.
    """
    with _alone:
        named = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
        if folder is None and named:
            return Path(named)
        try:
            folder = cache_folder() if folder is None else folder
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not os.access(folder, os.W_OK | os.X_OK):
                return None
            thin(folder)
        except (OSError, RuntimeError):  # RuntimeError: there is no home
            return None
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
        _use(str(folder))
        return folder


@contextmanager
def without_cache() -> Iterator[None]:
    """Compiles anew whatever the folder holds: XLA on the CPU serialises a program that it has
    itself loaded without some of its functions (NOT_FOUND when it is called)."""
    with _alone:
        folder = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
        _use(None)
        try:
            yield
        finally:
            _use(folder)


def _use(folder: str | None) -> None:
    jax.config.update("jax_compilation_cache_dir", folder)
    compilation_cache.reset_cache()  # else a process that has compiled already would not notice


def thin(folder: Path) -> None:
    """Deletes the oldest files in a folder and below until the rest is small enough."""
    files = sorted((f for f in folder.rglob("*") if f.is_file()), key=lambda f: f.stat().st_mtime)
    total = sum(f.stat().st_size for f in files)
    for file in files:
        if total <= MOST_BYTES:
            return
        total -= file.stat().st_size
        file.unlink(missing_ok=True)
