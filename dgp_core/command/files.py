"""Reading and writing for the command: every failure is a sentence that says what to do."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from dgp_core import archive, line_file
from dgp_core.archive import Archive
from dgp_core.line_file import LineArchive
from dgp_core.tables.plain import visible
from dgp_core.training.processes import is_lead

T = TypeVar("T")


class Refused(Exception):
    """What cannot be done; the message says why and what to do."""


def log(*sentences: str) -> None:
    """Says something on stderr, once for all processes that train one model."""
    if is_lead():
        print(*sentences, sep="\n", file=sys.stderr, flush=True)


def load(path: str) -> Archive:
    """A GP, to go on with its training."""
    return _open(path, archive.load)


def load_any(path: str) -> Archive | LineArchive:
    """A GP or a straight line, to predict with."""
    return _open(path, line_file.load)


def _open(path: str, read: Callable[[str], T]) -> T:
    try:
        return read(path)
    except OSError as error:
        raise Refused(
            f"The model {visible(path, 200)} cannot be opened: {error.strerror}. Check its path."
        ) from None


def save(path: Path, record: Archive | LineArchive) -> None:
    """Saves a model; of several processes that train it, the first does."""
    if not is_lead():
        return
    try:
        if isinstance(record, LineArchive):
            line_file.save(path, record)
        else:
            archive.save(path, record)
    except OSError as error:
        raise _unwritable(path, error) from None


def save_somewhere(path: Path, record: Archive) -> Path:
    """Saves a model where it should be; where that cannot be written, beside it, or else in the
    temporary folder. Returns where it is, and says so where that is elsewhere."""
    try:
        save(path, record)
        return path
    except Refused as error:
        log(str(error))
    start = f"{path.stem}-step-{record.progress.steps}-"
    for folder in (path.parent, Path(tempfile.gettempdir())):
        try:
            handle, name = tempfile.mkstemp(path.suffix, start, folder)
        except OSError:
            continue
        try:
            with open(handle, "wb") as file:
                archive.save(file, record)
            archive.load(name)  # a full disk may keep less than it was given
        except (OSError, archive.ArchiveError):
            Path(name).unlink(missing_ok=True)
            continue
        log(f"The model of step {record.progress.steps:,} is in {visible(name, 500)} instead.")
        return Path(name)
    raise Refused(
        f"The model of step {record.progress.steps:,} could be written neither there nor to the "
        "temporary folder: make room, and resume from the last checkpoint, if there is one."
    )


def _unwritable(path: Path, error: OSError) -> Refused:
    return Refused(
        f"{visible(path, 200)} cannot be written: {error.strerror}. Choose another --out."
    )


def write(path: Path, blocks: Iterable[bytes]) -> None:
    """Writes a file, all or nothing."""
    try:
        archive.write(path, blocks)
    except OSError as error:
        raise _unwritable(path, error) from None


def relative_path(model: str | Path, data: str | Path) -> str:
    """Where a file is, seen from a model's folder: both may move together."""
    try:
        return Path(os.path.relpath(data, Path(model).parent)).as_posix()
    except ValueError:  # another drive
        return Path(data).absolute().as_posix()
