"""What a session has uploaded, decided and fitted; it ends with the session.

None of it is logged, and none of it leaves the session. Streamlit drops the widget state of a page
that is not shown: `persistent_key` restores it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import streamlit as st
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile

from dgp_core.archive import Archive, Source
from dgp_core.evaluation.comparison import ScoreCard
from dgp_core.following import Followed
from dgp_core.line_file import LineArchive
from dgp_core.live.keep import Which, archive_of, source_of
from dgp_core.live.limits import MOST_OWNED
from dgp_core.live.run import Run
from dgp_core.live.trial import Trial
from dgp_core.live.workshop import WorkshopError
from dgp_core.tables.plain import visible
from dgp_core.tables.table import Limits, Prepared, Table, as_written
from dgp_core.training.plan import Plan
from pages.ui.session_end import at_end

LIMITS = Limits(bytes=1_000_000_000)
"""As much as the app's own upload limit."""
HELD_OUT = 0.1
"""The share of rows held out of the main fit."""


@dataclass(frozen=True, eq=False)
class LoadedTable:
    """A table as it was read, and with the column types that a person decided on."""

    read: Table
    decided: Table
    file: str
    """Its name, as a person would write it in a command."""
    target: str | None = None
    """The target of a shipped set, or the one proposed."""
    task: str | None = None
    seconds: float = 0.0
    """Time taken to read it."""
    content: bytes | None = None
    """The file itself, of a set that comes with this lab: its script holds it."""


@dataclass(eq=False)
class Fitted:
    """A fit and the data it was made from; scores and models outlive the trial."""

    trial: Trial
    prepared: Prepared
    loaded: LoadedTable
    plan: Plan
    folds: int
    reading: float
    """Seconds taken to read the file and turn its rows into numbers."""
    cards: tuple[ScoreCard, ...] = ()
    archives: dict[Which, Archive] = field(default_factory=dict)
    """The latest saved models, deep or rival."""
    source: Source | None = None
    """Which rows they were trained on; hashing them takes a while."""

    @cached_property
    def main(self) -> Prepared:
        """The rows as numbers that the main fit's training rows decide: what stands for a missing
        cell, and which levels are inputs."""
        return self.prepared.refit(self.trial.train_rows)

    @property
    def over(self) -> bool:
        return self.trial.status in ("finished", "failed", "closed")

    def scored(self) -> tuple[ScoreCard, ...]:
        """All scores so far, also those of a trial that was closed."""
        self.cards = self.trial.cards() or self.cards
        return self.cards

    def run(self) -> Run | None:
        """The main run; None once it was closed."""
        if self.trial.main_id is None:
            return None
        try:
            return self.trial.workshop.watch(self.trial.main_id)
        except WorkshopError:
            return None

    @property
    def learning(self) -> bool:
        """Whether the main run is training."""
        run = self.run()
        return run is not None and run.playing and run.status not in ("finished", "failed")

    def save(self) -> None:
        """Saves both models of the main run as they are now, so that they outlive it."""
        run = self.run()
        if self.learning or run is None or run.latest is None or run.latest.step == 0:
            return
        if self.source is None:
            seed, by = self.plan.train.seed, self.trial.by
            self.source = source_of(self.main.dataset, HELD_OUT, seed, by)
        for which in ("deep", "rival") if self.plan.model.layers > 1 else ("deep",):
            known = self.archives.get(which)
            if known is None or known.progress.steps != run.latest.step:
                self.archives[which] = archive_of(run, which, self.main.recipe, self.source)

    def archive(self, which: Which) -> Archive | None:
        """A model of the main run as last saved; None while it trains."""
        self.save()
        return None if self.learning else self.archives.get(which)

    def without_model(self, purpose: str) -> str:
        """Why there is no model yet, or none any more, and what to do."""
        if self.learning or not self.over:
            return f"The model is still training: wait for it, or stop it, to {purpose}."
        if self.trial.status == "failed":
            return "There is no model: its training failed, see above."
        return (
            "The model was discarded: nobody watched it for half an hour, or this browser has "
            f"started {MOST_OWNED} runs since. Fit again to {purpose}."
        )


@dataclass(eq=False)
class UploadState:
    """What a session keeps of "Your data", whatever page is shown."""

    controls: dict[str, Any] = field(default_factory=dict)
    """The controls' last values."""
    loaded: LoadedTable | None = None
    load_error: str = ""
    command: str = ""
    """What to type in a terminal where the last file was too large."""
    source: tuple[str, bytes] | None = None
    """The last file and its name, to be read again in another way; None where it is too large."""
    unread: bool = False
    """Whether it could not be read."""
    reading_open: bool = False
    """Whether the controls of the reading are shown: a guess may be wrong, or somebody chose."""
    reading_error: str = ""
    """Why the file cannot be read as chosen."""
    pasted: bytes = b""
    """The last table that was pasted, as a file."""
    column_error: str = ""
    """Why the last change of a column's type was refused."""
    prepared: Prepared | None = None
    prepared_from: tuple = ()
    """The decisions that it was made from."""
    preparing: float = 0.0
    """Seconds that it took."""
    fitted: Fitted | None = None
    fit_error: str = ""
    opened: tuple[str, Archive | LineArchive] | None = None
    """The name of a saved model's file, and the model."""
    model_error: str = ""
    followed: Followed | None = None
    """A fit that runs in a terminal."""
    second: Table | None = None
    """A file to predict."""
    second_error: str = ""
    cache: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Slow results by name, each with the key that it was computed for."""

    def forget(self) -> bool:
        """Lets everything go, and ends what is still being fitted; whether there was anything."""
        if self.fitted is not None:
            self.fitted.trial.close()
        files = (self.loaded, self.source, self.second, self.opened, self.followed)
        held = any(one is not None for one in files)
        vars(self).update(vars(UploadState()))
        return held


def upload_state() -> UploadState:
    """This session's own."""
    if "your_data" not in st.session_state:
        st.session_state.your_data = UploadState()
        at_end(st.session_state.your_data.forget)
    return st.session_state.your_data


def persistent_key(name: str, default: Any, options: Iterable | None = None) -> str:
    """The key of a widget whose value survives a visit to another page."""
    controls, key = upload_state().controls, f"your_{name}"
    if key in st.session_state:
        controls[name] = st.session_state[key]
    value = controls.get(name, default)
    if options is not None and value not in options:
        value = default
    st.session_state[key] = controls[name] = value
    return key


def set_control(name: str, value: Any) -> None:
    """Sets a control from a callback."""
    upload_state().controls[name] = st.session_state[f"your_{name}"] = value


def reset_controls(*names: str) -> None:
    """Sets controls back to their proposed values."""
    for name in names:
        upload_state().controls.pop(name, None)
        st.session_state.pop(f"your_{name}", None)


def cached(name: str, key: Any, compute: Callable[[], Any]) -> Any:
    """A slow result, computed again only for another key."""
    cache = upload_state().cache
    if name not in cache or cache[name][0] != key:
        cache[name] = (key, compute())
    return cache[name][1]


def uploaded_file(key: str) -> UploadedFile | None:
    """The file just put into an uploader, or None where one was removed.

    Streamlit's own copy is deleted: the bytes of a large table are as much as the table.
    """
    file, context = st.session_state.get(key), get_script_run_ctx()
    if not isinstance(file, UploadedFile) or context is None:
        return None
    if isinstance(context.uploaded_file_mgr, MemoryUploadedFileManager):
        context.uploaded_file_mgr.remove_file(context.session_id, file.file_id)
    return file


def release(file: UploadedFile) -> None:
    """Empties a file that was read: the uploader refers to it until its page runs again."""
    file.seek(0)
    file.truncate()


def row_table(table: Table, rows: slice | np.ndarray) -> dict[str, list]:
    """Some rows of a table, all columns, under names that are safe to show."""
    return {visible(n, 80) or "·": as_written(c, rows) for n, c in table.cells.items()}
