"""A fit that another process runs, read from the files that it writes: its newest checkpoint, and
the scores of its log."""

import json
import math
import os
import stat
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

from dgp_core import line_file
from dgp_core.archive import Archive, ArchiveError
from dgp_core.outcome import Outcome
from dgp_core.tables.limits import TableError
from dgp_core.tables.plain import visible

MOST_LOG_BYTES = 8 << 20
"""Of a log, so many bytes from its end: weeks of checkpoints."""

LATE_SECONDS = 300.0
"""A checkpoint is written every minute; after so long without one, the fit may have ended."""


COMPILED_STEPS = 100
"""Steps after which the time that compilation took hardly counts."""


class FollowError(ValueError):
    """Why a fit cannot be followed by this file, in words for whoever named it."""


@dataclass(frozen=True)
class Scored:
    """The held-out scores of one checkpoint."""

    step: int
    seconds: float
    """Of training until then."""
    scores: dict[str, float]


def read_checkpoint(file: IO[bytes]) -> Archive:
    """The checkpoint that a model file holds."""
    try:
        record = line_file.load(file)
        Outcome(record)
    except (ArchiveError, TableError) as error:
        raise FollowError(str(error)) from error
    if not isinstance(record, Archive):
        raise FollowError(
            "This file holds a straight line, which is fitted at once: open it as a saved model."
        )
    return record


def read_log(file: IO[bytes]) -> tuple[Scored, ...]:
    """The scores that a log of JSON lines holds, of its last fit.

    A last line that is still being written is left for later.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - MOST_LOG_BYTES))
    content = file.read(MOST_LOG_BYTES)
    whole = content[: content.rfind(b"\n") + 1].splitlines()
    if size > MOST_LOG_BYTES:
        del whole[:1]  # it may be cut off
    found: dict[int, Scored] = {}
    for line in whole:
        if not line.strip():
            continue
        if (scored := _scored(line)) is None:
            raise FollowError("This is no log of a fit: name the file that --log wrote.")
        if found and scored.step < next(reversed(found)):
            found.clear()  # another fit goes on in the same file
        found[scored.step] = scored
    return tuple(found.values())


def _scored(line: bytes) -> Scored | None:
    """One line of a log; None where it is none."""
    try:
        row = json.loads(line)
        step, seconds, scores = row["step"], row["seconds"], row["held_out"]
        known = {name: float(value) for name, value in scores.items() if _is_number(value)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    fits = type(step) is int and step >= 0 and _is_number(seconds)
    return Scored(step, float(seconds), known) if fits else None


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


class Followed:
    """A fit in progress: its last checkpoint, and the held-out scores of all.

    Where a file cannot be read, what was read before stays, and a sentence says why.
    """

    def __init__(self):
        self.record: Archive | None = None
        self.scores: tuple[Scored, ...] = ()
        self.problem = self.log_problem = ""

    def take(self, file: IO[bytes]) -> None:
        """Takes a model file's checkpoint."""
        try:
            self.record, self.problem = read_checkpoint(file), ""
        except FollowError as error:
            self.problem = str(error)

    def take_log(self, file: IO[bytes]) -> None:
        """Takes the scores of a log."""
        try:
            self.scores, self.log_problem = read_log(file), ""
        except FollowError as error:
            self.log_problem = str(error)


class Follower(Followed):
    """The same by the paths of both files, each read again where it has changed."""

    def __init__(self, path: str, log: str = ""):
        super().__init__()
        self.path, self.log = path, log
        self.written = 0.0
        """When the last checkpoint was written, in seconds since 1970."""
        self._read: dict[str, tuple[int, int, int]] = {}

    def look(self) -> None:
        """Reads what has changed."""
        try:
            with _opened(self.path) as file:
                if self._is_new("model", file):
                    self.take(file)
                    self.written = os.fstat(file.fileno()).st_mtime
        except FollowError as error:
            self.problem = str(error)
            self._read.pop("model", None)
        if not self.log:
            return
        try:
            with _opened(self.log) as file:
                if self._is_new("log", file):
                    self.take_log(file)
        except FollowError as error:
            self.log_problem = str(error)
            self._read.pop("log", None)

    def _is_new(self, which: str, file: IO[bytes]) -> bool:
        """Whether a file is another one than was read last."""
        found, before = os.fstat(file.fileno()), self._read.get(which)
        self._read[which] = (found.st_ino, found.st_size, found.st_mtime_ns)
        return self._read[which] != before

    @property
    def age(self) -> float:
        """Seconds since the last checkpoint."""
        return max(0.0, time.time() - self.written)


def _opened(path: str) -> IO[bytes]:
    """A plain file, to be read; whatever else has this name is not opened at all."""
    name = visible(path, 200)
    try:
        kind = os.stat(path).st_mode
        if stat.S_ISREG(kind):
            return open(path, "rb")
    except FileNotFoundError:
        raise FollowError(
            f"There is no file {name}. Check its path: a fit writes it before its first step."
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is no path"
        raise FollowError(f"{name} cannot be opened: {reason}.") from None
    what = "a folder" if stat.S_ISDIR(kind) else "no plain file"
    raise FollowError(f"{name} is {what}: name the file that the fit writes.")


def is_over(record: Archive) -> bool:
    """Whether training has ended; `resume` may take it up again."""
    return bool(record.progress.stopped) or record.progress.steps >= record.training.steps


def seconds_left(record: Archive, scores: Sequence[Scored] = ()) -> float | None:
    """Until the last step by the pace since the log's first checkpoint, or until the time is up.

    The first steps wait for their compilation: None as long as nothing tells their pace from that.
    """
    progress, spec = record.progress, record.training
    first = scores[0] if scores else None
    if first is not None and first.step < progress.steps:
        pace = (progress.seconds - first.seconds) / (progress.steps - first.step)
    elif progress.steps >= COMPILED_STEPS:
        pace = progress.seconds / progress.steps
    else:
        return None
    left = (spec.steps - progress.steps) * pace
    return max(0.0, left if spec.seconds is None else min(left, spec.seconds - progress.seconds))
