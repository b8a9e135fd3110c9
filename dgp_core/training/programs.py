"""Compiled programs of size classes: made once, kept on disk, loaded when somebody needs one.

A program takes seconds to compile, and some twenty megabytes once it is loaded, half of what it
would take had it not been made slim (`slim.py`). A server lets processes of their own compile
(`compilers.py`), so that neither the memory nor the time of it is the server's, and lets go of
programs that nobody has used for a while.

Programs are code, and loading one runs it: their folder is the user's own, as JAX's cache is.
"""

import hashlib
import os
import shutil
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import serialize_executable

from dgp_core.gp.model import Bound
from dgp_core.training import generic
from dgp_core.training.compile_cache import cache_folder, processor, without_cache
from dgp_core.training.compilers import Compilers
from dgp_core.training.generic import Size
from dgp_core.training.memory import give_back
from dgp_core.training.slim import slim

OPTIONS = {
    "xla_cpu_use_fusion_emitters": False,
    "xla_backend_optimization_level": 1,
    "xla_llvm_disable_expensive_passes": False,
}
"""For XLA on the CPU, whatever JAX is set to: half the time to compile, and steps no slower."""

MOST_IDLE = 1
"""Loaded training programs that are kept though nobody uses them; some twenty megabytes each."""
IDLE_SECONDS = 10.0
"""A program that was not called for so long is idle: to load it again takes 0.3 s."""
UNUSED_SECONDS = 20.0
"""After which an idle one goes in any case, where another training program is in use."""

MOST_KEPT = 3
"""Folders of other versions that stay on disk."""


class Program(NamedTuple):
    """What is compiled: a function of this project, for a size class."""

    name: str
    """In BUILDERS."""
    size: Size


class Built(NamedTuple):
    """A function to compile, the shapes that it is called with, and the form of its result."""

    function: Callable
    arguments: tuple
    result: Any


def _train(size: Size) -> Built:
    arguments = generic.example(size)

    def train(*given):
        return generic.train_chunk(*given, size=size)

    return Built(train, arguments, (arguments[0], Bound(0, 0)))  # pyright: ignore


BUILDERS: dict[str, Callable[[Size], Built]] = {"train": _train}
"""By name; the modules of MODULES add theirs."""

MODULES = ("dgp_core.live.views.playground",)

SOURCES = (
    "gp/pytree.py",
    "gp/kernels.py",
    "gp/likelihoods.py",
    "gp/layers.py",
    "gp/model.py",
    "gp/predict.py",
    "training/optimise.py",
    "training/train.py",
    "training/generic.py",
    "training/programs.py",
    "training/slim.py",
    "live/views/evaluate.py",
)
"""What programs are made of; a change of any is another version of them all."""


def compile_program(program: Program) -> jax.stages.Compiled:
    """The program, compiled here and now."""
    built = BUILDERS[program.name](program.size)
    options = OPTIONS if jax.default_backend() == "cpu" else None
    lowered = jax.jit(built.function).lower(*built.arguments)
    with without_cache():  # it is stored
        return lowered.compile(compiler_options=options)


def _load(program: Program, payload: bytes) -> Callable:
    built = BUILDERS[program.name](program.size)
    _prepare_lapack()
    return serialize_executable.deserialize_and_load(
        payload,
        jax.tree.structure((built.arguments, {})),
        jax.tree.structure(built.result),
    )


@cache
def _prepare_lapack() -> None:
    """JAX finds LAPACK when it first compiles a call of it; a loaded program trusts that it has."""

    def both(A):
        L = jax.lax.linalg.cholesky(A)
        return jax.lax.linalg.triangular_solve(L, A, left_side=True, lower=True)

    jax.jit(both)(jnp.eye(2)).block_until_ready()


@cache
def _fingerprint() -> str:
    """Of all that a compiled program depends on: this code, JAX, XLA's options, the processor."""
    versions = [version(name) for name in ("jax", "jaxlib", "optax")]
    parts = [*versions, sys.version, *processor()]
    parts += [os.environ.get("XLA_FLAGS", ""), jax.default_backend(), repr(OPTIONS)]
    parts += [(Path(__file__).parents[1] / name).read_text() for name in SOURCES]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


class Programs:
    """The programs of this process; `folder` is where they are kept, None keeps none."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        self._lock = threading.Lock()
        self._loaded: OrderedDict[Program, tuple[Callable, float]] = OrderedDict()
        self._loading: dict[Program, Future] = {}
        self._compilers: Compilers | None = None
        self._failed: set[Program] = set()

    def get(self, program: Program) -> Callable:
        """The program, ready to be called; whoever comes first waits for it to be made."""
        now = time.monotonic()
        with self._lock:
            if program in self._loaded:
                function = self._loaded[program][0]
                self._loaded[program] = (function, now)
                self._loaded.move_to_end(program)
                return function
            future = self._loading.get(program)
            first = future is None
            if future is None:
                future = self._loading[program] = Future()
        if first:
            try:
                function = self._make(program)
                with self._lock:
                    self._loaded[program] = (function, time.monotonic())
                    self._let_go()
                future.set_result(function)
            except BaseException as error:
                future.set_exception(error)
            finally:
                with self._lock:
                    del self._loading[program]
        return future.result()

    def known(self, program: Program) -> bool:
        """Whether it is there within half a second."""
        if program in self._loaded:
            return True
        path = self._path(program)
        return path is not None and path.is_file()

    def request(self, programs: Iterable[Program]) -> None:
        """Has programs compiled that somebody waits for, in this order."""
        if self._compilers is not None:
            for program in programs:
                if not self.known(program):
                    self._compilers.ask(program, urgent=True)

    def delegated(self, programs: Iterable[Program]) -> bool:
        """Whether compilers make what is missing of these, if need be from now on.

        What a compiler has failed at is left to whoever calls it.
        """
        missing = [program for program in programs if not self.known(program)]
        if not self.coming(missing):
            return False
        self.request(missing)
        return True

    def coming(self, missing: Iterable[Program]) -> bool:
        """Whether compilers will make these."""
        return self._compilers is not None and not self._failed.intersection(missing)

    def place(self, program: Program) -> int:
        """How many programs are compiled before this one."""
        return self._compilers.place(program) if self._compilers is not None else 0

    def employ(self, wanted: Iterable[Program], on_ready: Callable[[], None]) -> None:
        """Starts the compilers, which begin with what is wanted though nobody waits for it yet."""
        if self.folder is not None and self._compilers is None:
            self._compilers = Compilers(self, on_ready)
            for program in wanted:
                self.prefetch(program)

    def failed(self, program: Program) -> None:
        """Notes that a compiler could not make a program."""
        self._failed.add(program)

    def prefetch(self, program: Program) -> None:
        """Has a program compiled before anybody asks for it."""
        if self._compilers is not None and not self.known(program):
            self._compilers.ask(program, urgent=False)

    def beside(self) -> int:
        """How many programs XLA holds in this process beside these: what `jax.jit` has compiled."""
        return len(jax.devices()[0].client.live_executables()) - len(self._loaded)

    def stop(self) -> None:
        """Ends the compilers."""
        if self._compilers is not None:
            self._compilers.stop()
            self._compilers = None

    def stand_back(self, wanted: bool) -> None:
        """Whether compilers leave the cores to runs that are about to begin, except for what
        somebody waits for."""
        if self._compilers is not None:
            self._compilers.stand_back(wanted)

    def store(self, program: Program) -> None:
        """Compiles a program and keeps it on disk: what a compiler does."""
        path = self._path(program)
        if path is not None and not path.is_file():
            self._keep(path, program, compile_program(program))

    def _keep(self, path: Path, program: Program, compiled: jax.stages.Compiled) -> None:
        """Writes a program, slim where what comes of it loads."""
        payload = serialize_executable.serialize(compiled)[0]
        lighter = slim(payload)
        if len(lighter) < len(payload):
            with suppress(Exception):  # another XLA's: it stays as it is
                _load(program, lighter)
                payload = lighter
        self._write(path, payload)

    def _make(self, program: Program) -> Callable:
        path = self._path(program)
        if path is None:
            return compile_program(program)
        if not path.is_file() and self._compilers is not None:
            with suppress(RuntimeError):  # then it is compiled here
                self._compilers.ask(program, urgent=True).result()
        if path.is_file():
            try:
                function = _load(program, path.read_bytes())
                give_back()
                return function
            except Exception:  # written by something else: made anew
                path.unlink(missing_ok=True)
        compiled = compile_program(program)
        with suppress(ValueError):  # it cannot be serialised
            self._keep(path, program, compiled)
        return compiled

    def _write(self, path: Path, payload: bytes) -> None:
        with suppress(OSError):  # a full disk keeps nothing, and nothing fails
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
            part.write_bytes(payload)
            part.replace(path)

    def _path(self, program: Program) -> Path | None:
        if self.folder is None:
            return None
        numbers = "-".join(str(int(n)) for n in program.size)
        return self.folder / _fingerprint() / f"{program.name}-{numbers}.program"

    def _let_go(self) -> None:
        """Forgets the oldest of the training programs that nobody uses now, and the pictures'
        programs of the same classes."""
        now = time.monotonic()
        idle = [p for p, (_, used) in self._loaded.items() if now - used > IDLE_SECONDS]
        train = [program for program in idle if program.name == "train"]
        for program in train[: max(0, len(train) - MOST_IDLE)]:
            del self._loaded[program]
        if any(p.name == "train" and p not in idle for p in self._loaded):
            for program in train:
                if program in self._loaded and now - self._loaded[program][1] > UNUSED_SECONDS:
                    del self._loaded[program]
        used = {p.size.of_layers for p in self._loaded if p.name == "train"}
        for program in idle:
            if program.name != "train" and program.size not in used:
                self._loaded.pop(program, None)

    def tidy(self) -> None:
        """Lets go of what nobody uses, in memory and on disk."""
        with self._lock:
            self._let_go()
        if self.folder is not None and self.folder.is_dir():
            with suppress(OSError):
                others = [f for f in self.folder.iterdir() if f.name != _fingerprint()]
                others.sort(key=lambda f: f.stat().st_mtime, reverse=True)
                for old in others[MOST_KEPT:]:
                    shutil.rmtree(old, ignore_errors=True)


def default_folder() -> Path | None:
    """Where the user's caches are, or None where there is no such place."""
    try:
        folder = cache_folder().parent / "programs"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except (OSError, RuntimeError):
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None


_making = threading.Lock()
_own: Programs | None = None


def programs() -> Programs:
    """This process's own; whichever of its threads asks first, all get the same."""
    global _own
    with _making:
        if _own is None:
            for module in MODULES:
                import_module(module)
            _own = Programs(default_folder())
        return _own
