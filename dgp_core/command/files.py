"""Reading and writing for the command: every failure is a sentence that says what to do."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from dgp_core import archive
from dgp_core.archive import Archive
from dgp_core.tables.plain import visible


class Refused(Exception):
    """What cannot be done; the message says why and what to do."""


def log(*sentences: str) -> None:
    print(*sentences, sep="\n", file=sys.stderr, flush=True)


def load(path: str) -> Archive:
    try:
        return archive.load(path)
    except OSError as error:
        raise Refused(
            f"The model {visible(path, 200)} cannot be opened: {error.strerror}. Check its path."
        ) from None


def save(path: Path, record: Archive) -> None:
    try:
        archive.save(path, record)
    except OSError as error:
        raise _unwritable(path, error) from None


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
