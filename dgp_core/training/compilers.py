"""Processes that compile a server's programs: first those that somebody waits for, then the rest.

While somebody waits, for a program or for a run to begin, whoever compiles for nobody yet stands
still: two cores then work for the one.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgp_core.training.programs import Program, Programs

COMPILERS = 3
"""One for any program, one that helps it once the server has been up for a while, and from then on
one for those who wait: they need not wait for what nobody has asked for."""
HELP_SECONDS = 12.0
"""How long the first visitors have the second compiler for themselves."""
NICE = 5
"""Compilers stand back for pictures, but not for training, which has 10."""
END_SECONDS = 1.0
"""A compiler without work for so long ends, and its memory is free."""


@dataclass
class _Request:
    program: "Program"
    urgent: bool
    """Whether somebody waits for it."""
    done: Future = field(default_factory=Future)
    compiler: int | None = None
    """Which one compiles it now."""


class Compilers:
    """Threads that each keep a compiler's process busy while there is something to compile."""

    def __init__(self, programs: "Programs", on_ready: Callable[[], None]):
        self._programs, self._on_ready = programs, on_ready
        self._requests: dict[Program, _Request] = {}
        """What is to be compiled or is being compiled, in the order of asking."""
        self._processes: dict[int, _Compiler] = {}
        self._changed = threading.Condition()
        self._stopping = self._standing_back = False
        self._began = time.monotonic()
        self._threads = [
            threading.Thread(target=self._serve, args=(i,), name=f"dgp-compiler-{i}", daemon=True)
            for i in range(COMPILERS)
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, program: "Program", urgent: bool) -> Future:
        """Has a program compiled; of those that are urgent, the one asked for first."""
        with self._changed:
            request = self._requests.get(program)
            if request is None or (urgent and not request.urgent and request.compiler is None):
                done = request.done if request is not None else Future()
                self._requests.pop(program, None)  # it goes behind those that are urgent already
                request = self._requests[program] = _Request(program, urgent, done)
            request.urgent |= urgent
            self._balance()
            self._changed.notify_all()
            return request.done

    def place(self, program: "Program") -> int:
        """How many programs are compiled before this one, with its own; 0 once it has begun."""
        with self._changed:
            waiting = [r.program for r in self._in_order() if r.compiler is None]
        return waiting.index(program) + 1 if program in waiting else 0

    def stand_back(self, wanted: bool) -> None:
        """Whether those that compile for nobody yet leave the cores to runs that begin."""
        with self._changed:
            if wanted != self._standing_back:
                self._standing_back = wanted
                self._balance()

    def stop(self) -> None:
        """Ends every compiler."""
        with self._changed:
            self._stopping = True
            for process in self._processes.values():
                process.kill()
            for request in self._requests.values():
                if request.compiler is None:
                    request.done.set_exception(RuntimeError("The server stops."))
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(5.0)

    def _in_order(self) -> list[_Request]:
        return sorted(self._requests.values(), key=lambda request: not request.urgent)

    def _may(self, index: int, request: _Request) -> bool:
        """Whether it is this compiler's to begin with a request now."""
        settled = time.monotonic() - self._began > HELP_SECONDS
        free = {0: True, 1: request.urgent or settled}.get(index, request.urgent and settled)
        return request.compiler is None and free

    def _next(self, index: int, seconds: float) -> _Request | None:
        """What this compiler is to do, marked as its own; None where nothing comes in time."""

        def found() -> _Request | None:
            return next((r for r in self._in_order() if self._may(index, r)), None)

        with self._changed:
            deadline = time.monotonic() + seconds
            while not self._stopping and (request := found()) is None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)
            if self._stopping:
                return None
            request.compiler = index
            self._balance()
            return request

    def _balance(self) -> None:
        """While somebody waits, those stand still that work for nobody yet."""
        working = {r.compiler: r for r in self._requests.values() if r.compiler is not None}
        pressing = self._standing_back or any(request.urgent for request in working.values())
        for index, process in self._processes.items():
            own = working.get(index)
            process.hold(pressing and (own is None or not own.urgent))

    def _serve(self, index: int) -> None:
        if index == 0:
            with suppress(OSError):
                self._process(index)
        while not self._stopping:
            request = self._next(index, END_SECONDS)
            if request is None:
                self._end(index)
            else:
                self._compile(index, request)
                self._on_ready()
        self._end(index)

    def _compile(self, index: int, request: _Request) -> None:
        """Has a program compiled, and says so to whoever waits."""
        try:
            if not self._programs.known(request.program):
                made = self._process(index).have(request.program)
                if not (made and self._programs.known(request.program)):
                    raise RuntimeError("The compiler failed, or its disk is full.")
            error = None
        except (OSError, RuntimeError) as failure:
            self._end(index)
            self._programs.failed(request.program)
            error = RuntimeError(str(failure))
        with self._changed:
            del self._requests[request.program]
            self._balance()
        request.done.set_result(None) if error is None else request.done.set_exception(error)

    def _process(self, index: int) -> "_Compiler":
        with self._changed:
            if self._stopping:
                raise OSError("The server stops.")
            if index not in self._processes:
                self._processes[index] = _Compiler(self._programs.folder)
                self._balance()
            return self._processes[index]

    def _end(self, index: int) -> None:
        with self._changed:
            process = self._processes.pop(index, None)
        if process is not None:
            process.end()


class _Compiler:
    """A process that answers a request a line."""

    def __init__(self, folder: Path | None):
        self._held = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dgp_core.training.compilers", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )

    def have(self, program: "Program") -> bool:
        """Has it compile and store a program; whether it has done so."""
        assert self._process.stdin is not None and self._process.stdout is not None
        request = {"name": program.name, "size": list(program.size)}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip() == "done"

    def hold(self, held: bool) -> None:
        """Makes it stand still, or go on, where the system can."""
        if held != self._held and hasattr(signal, "SIGSTOP"):
            self._process.send_signal(signal.SIGSTOP if held else signal.SIGCONT)
            self._held = held

    def kill(self) -> None:
        self._process.kill()

    def end(self) -> None:
        """Ends it, and gives back what it held."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what it was not told any more
                assert pipe is not None
                pipe.close()


def main(folder: str) -> None:
    """A compiler: one request a line, one answer a line, until there are no more."""
    if hasattr(os, "nice"):
        os.nice(NICE)
    if sys.platform.startswith("linux"):
        with suppress(OSError, AttributeError):  # ends with the server, however that ends
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    from dgp_core.training.generic import Size
    from dgp_core.training.programs import MODULES, Program, Programs

    for module in MODULES:
        import_module(module)
    own = Programs(Path(folder))
    for line in sys.stdin:
        request = json.loads(line)
        try:
            own.store(Program(request["name"], Size(*request["size"])))
            print("done", flush=True)
        except Exception as error:
            print(f"failed: {error!r}"[:500].replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
