"""Step 1 of "Your data": a file, a pasted table, a shipped set, a saved model, or a fit that runs
in a terminal."""

import os
import time
from dataclasses import replace
from typing import Any

import streamlit as st

from datasets.catalogue import entry
from datasets.shipped import FILES, SHIPPED
from dgp_core import line_file
from dgp_core.archive import ArchiveError
from dgp_core.outcome import Outcome
from dgp_core.tables.encodings import check_text
from dgp_core.tables.plain import visible
from dgp_core.tables.reading import WAY_ON
from dgp_core.tables.table import TableError, propose_target, read_table
from pages.ui.download import download
from pages.ui.sentences import complaint, safe
from pages.ui.your_data import follow
from pages.ui.your_data.commands import large_file_command, unknown_command
from pages.ui.your_data.judge_by import SPLIT_CONTROLS
from pages.ui.your_data.upload_state import (
    LIMITS,
    LoadedTable,
    persistent_key,
    release,
    reset_controls,
    upload_state,
    uploaded_file,
)

ORIGINS = {
    "file": "A file",
    "paste": "Paste a table",
    "lab": "A set from this lab",
    "model": "A model that I saved",
    "progress": "A fit in progress",
}
PASTED = "pasted.csv"
"""The file name of a pasted table, in a command and in a script."""

COLUMN_PREFIXES = ("kind ", "day_first ", "at ")
"""Prefixes of the names of controls that belong to a column of the file."""


FILE_SETS = tuple(name for name, shipped in SHIPPED.items() if not shipped.file.endswith(".npz"))
"""Shipped sets that are tables."""


KEPT_BYTES = 64 << 20
"""A file up to this size can be read again in another way; a larger one would be held twice."""


def load_table(
    source: Any,
    name: str,
    target: str | None = None,
    task: str | None = None,
    options: dict[str, Any] | None = None,
) -> str:
    """Reads a table, as it is guessed or as `options` say; where that fails, the last one stays.

    Returns why it failed, or nothing; of a file that is new, `load_error` says it.
    """
    state = upload_state()
    again = options is not None
    state.load_error = state.command = state.reading_error = ""
    began = time.perf_counter()
    try:
        table = read_table(source, name, LIMITS, **(options or {}))
        if target is None:
            target = propose_target(table).value
    except TableError as error:
        if not again:
            state.source = _kept(source, name)
            state.unread = state.reading_open = state.source is not None and WAY_ON not in str(
                error
            )
            reset_controls(*(name for name in state.controls if name.startswith("read ")))
            state.load_error = str(error)
            if WAY_ON in state.load_error:
                state.command = large_file_command(source, name)
        return str(error)
    seconds = time.perf_counter() - began
    state.loaded = LoadedTable(table, table, name, target, task, seconds)
    state.prepared, state.prepared_from = None, ()
    state.fit_error = state.column_error = ""
    state.unread = False
    if not again:
        state.source, state.reading_open = _kept(source, name), bool(table.reading.doubtful)
        reset_controls(*(name for name in state.controls if name.startswith("read ")))
    reset_controls("target", "task", "missing", "transform", "exposure", "column")
    reset_controls("layers", "inducing", "steps", "folds", "seed", "kernel", "likelihood")
    reset_controls(*SPLIT_CONTROLS, *(f"compare_{name}" for name in SPLIT_CONTROLS))
    reset_controls(*(name for name in state.controls if name.startswith(COLUMN_PREFIXES)))
    return ""


def _kept(source: Any, name: str) -> tuple[str, bytes] | None:
    """A file that was brought, to be read again; None of a path, and of what is too large."""
    if isinstance(source, bytes):
        return name, source
    if isinstance(source, str | os.PathLike) or source.seek(0, 2) > KEPT_BYTES:
        return None
    source.seek(0)
    return name, source.read()


def _is_text(file: tuple[str, bytes] | None) -> bool:
    """Whether a file that could not be read may be a table all the same."""
    if file is None or not file[1].strip():
        return False
    try:
        check_text(memoryview(file[1]))
    except TableError:
        return False
    return True


def load_shipped(name: str) -> None:
    """Reads a shipped file, like an upload."""
    shipped = SHIPPED[name]
    path = FILES / shipped.file
    load_table(path, path.name, shipped.output, shipped.task)
    if (loaded := upload_state().loaded) is not None:
        inputs = {*shipped.inputs, shipped.output, "date" if shipped.dates else ""}
        table = loaded.read
        for column in table.columns:
            if column.name not in inputs and column.kind != "dropped":
                table = table.decide(column.name, "dropped")
        file = f"datasets/files/{shipped.file}"
        content = path.read_bytes()
        upload_state().loaded = replace(loaded, decided=table, file=file, content=content)


def open_model(file: Any) -> None:
    """Opens a saved model; where that fails, `model_error` says why."""
    state = upload_state()
    state.model_error = ""
    try:
        record = line_file.load(file)
        Outcome(record)
    except (ArchiveError, TableError) as error:
        state.model_error = str(error)
        return
    state.opened = (visible(file.name, 60), record)
    reset_controls("used", *(name for name in state.controls if name.startswith("at ")))


def file_changed() -> None:
    if (file := uploaded_file("your_file")) is not None:
        load_table(file, file.name)
        release(file)


def read_pasted() -> None:
    upload_state().pasted = st.session_state.your_pasted.encode()
    load_table(upload_state().pasted, PASTED)


def model_changed() -> None:
    if (file := uploaded_file("your_model")) is not None:
        open_model(file)


def show() -> None:
    """The step's controls."""
    st.header("1 · Bring", anchor="bring")
    st.markdown(
        "A table with one row per observation, and a column to be predicted from the others. It "
        "stays in this session's memory, is written nowhere, and is deleted within two minutes of "
        "your closing the page."
    )
    origin = st.segmented_control(
        "What do you bring?",
        list(ORIGINS),
        format_func=ORIGINS.__getitem__,
        key=persistent_key("origin", "file", ORIGINS),
        required=True,
    )
    state = upload_state()
    if origin == "file":
        st.file_uploader(
            "CSV or TSV (may be gzipped), Excel (.xlsx) or Parquet",
            key="your_file",
            on_change=file_changed,
            help="A header is not needed. Semicolons, decimal commas, missing cells, dates and "
            "text are recognised: how each column was read is shown below.",
        )
        most = st.get_option("server.maxUploadSize")
        with st.expander(f"A file of more than {most:,} MB?", icon=":material/terminal:"):
            st.markdown(
                "It is too large to upload. In a terminal there is no limit: this command reads it "
                "where it is, chooses settings by its rows, and saves a model that opens here:"
            )
            st.code(unknown_command("YOUR_FILE.csv"), language="bash")
    elif origin == "paste":
        st.text_area(
            "A table with its header, copied from a spreadsheet",
            key=persistent_key("pasted", ""),
            height=160,
            placeholder="height\tweight\n171\t64\n183\t80",
        )
        with st.container(horizontal=True, key="paste_bar"):
            st.button(
                "Read it", on_click=read_pasted, key="read_pasted", icon=":material/table_rows:"
            )
            if state.loaded is not None and state.loaded.file == PASTED:
                download(
                    f"Save it as {PASTED}",
                    state.pasted,
                    PASTED,
                    "download",
                    "download_pasted",
                    help="The command and the script below read this file.",
                )
    elif origin == "lab":
        name = st.selectbox(
            "A real table that comes with this lab",
            FILE_SETS,
            format_func=lambda name: entry(name).title,
            key=persistent_key("set", "concrete", FILE_SETS),
        )
        st.markdown(safe(entry(name).story))
        if entry(name).warning:
            st.warning(safe(entry(name).warning), icon=":material/warning:")
        st.button(
            "Use it",
            on_click=load_shipped,
            args=(name,),
            key="take_set",
            icon=":material/download:",
        )
    elif origin == "progress":
        follow.show()
    else:
        st.file_uploader(
            "A model file (.npz), from step 5 here or from `python -m dgp_core fit`",
            key="your_model",
            on_change=model_changed,
        )
        if state.model_error:
            complaint(state.model_error)
        if state.opened is not None:
            st.success(
                f"**{safe(state.opened[0])}** is open: step 5 below predicts with it.",
                icon=":material/check:",
            )
    if state.load_error and origin not in ("model", "progress"):
        complaint(state.load_error)
        if state.command:
            st.markdown("In a terminal, this trains on the whole file:")
            st.code(state.command, language="bash")
        if state.loaded is not None:
            st.caption("The table that you loaded before is still below.")
