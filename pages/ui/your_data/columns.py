"""Step 1 of "Your data", continued: the type of each column, the target, and the rows left."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from dgp_core.gp.data import counted
from dgp_core.tables.plain import visible
from dgp_core.tables.table import (
    Prepared,
    TableError,
    possible_targets,
    propose_missing,
    propose_task,
    propose_transform,
)
from pages.figures.collection import rows_figure
from pages.ui.sentences import complaint, safe
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink
from pages.ui.your_data.judge_by import SPLIT_CONTROLS
from pages.ui.your_data.upload_state import (
    cached,
    persistent_key,
    reset_controls,
    row_table,
    set_control,
    upload_state,
)

KINDS = {
    "number": "Number",
    "date": "Date",
    "category": "Category",
    "boolean": "Yes or no",
    "dropped": "Left out",
}
TASKS = {
    "regression": "A number",
    "binary": "One of two classes",
    "multiclass": "One of several classes",
    "counts": "A count (0, 1, 2, …)",
}
MISSING = {"drop": "Drop these rows", "fill": "Fill in and flag"}
TRANSFORMS = {"none": "None", "log": "Logarithm"}
SHOWN_ROWS = 8
HISTOGRAM_ROWS = 20_000
BARS = 14


def show() -> Prepared | None:
    """Columns, target and rows; None where there is nothing to learn from."""
    show_columns()
    prepared = choose_target()
    if prepared is not None:
        show_rows(prepared)
    return prepared


def row_clicked() -> None:
    """Chooses the column whose row in the table was clicked."""
    clicked, loaded = st.session_state.get("your_columns"), upload_state().loaded
    rows = clicked.selection.rows if clicked is not None else ()
    if rows and loaded is not None and rows[0] < len(loaded.decided.columns):
        set_control("column", loaded.decided.columns[rows[0]].name)


def kind_changed(column: str) -> None:
    """Another type for a column; where that is refused, the control goes back.

    A browser that has not received a new file yet may still send a column of the old one.
    """
    state, kind = upload_state(), st.session_state.get(f"your_kind {column}")
    loaded = state.loaded
    if loaded is None or kind is None or column not in loaded.decided.cells:
        return
    order = st.session_state.get(f"your_day_first {column}")
    day_first = {"day": True, "month": False}.get(order) if order else None
    before, state.column_error = loaded.decided[column], ""
    if before.kind != kind or kind == "date" and before.day_first != day_first:
        try:
            decided = loaded.decided.decide(column, kind, day_first)
        except TableError as error:
            state.column_error = str(error)
        else:
            # A target's known task was that of its former type.
            task = loaded.task if column != loaded.target else None
            loaded = state.loaded = replace(loaded, decided=decided, task=task)
            reset_controls("missing", f"day_first {column}")
            if column == state.controls.get("target"):
                reset_controls("task", "transform")
    set_control(f"kind {column}", loaded.decided[column].kind)


def show_columns() -> None:
    """How each column was read, and controls to change it."""
    state = upload_state()
    assert state.loaded is not None
    table = state.loaded.decided
    dropped = sum(column.kind == "dropped" for column in table.columns)
    lost = table.rows_in - table.rows
    st.markdown(
        f"**{safe(table.name)}: {counted(table.rows, 'row')}** and "
        + counted(len(table.columns), "column")
        + (f", {dropped:,} of them left out" if dropped else "")
        + (f"; {counted(lost, 'row')} could not be read" if lost else "")
        + ". "
        + " ".join(safe(note) for note in table.notes)
    )
    histograms = cached(
        "histograms",
        state.loaded.read,
        lambda: [histogram(table.cells[column.name]) for column in table.columns],
    )
    st.dataframe(
        {
            "Column": [column.name for column in table.columns],
            "Type": [KINDS[column.kind] for column in table.columns],
            "Why": [column.reason for column in table.columns],
            "Missing": [column.missing for column in table.columns],
            "Distribution": histograms,
        },
        hide_index=True,
        height=min(420, 38 + 35 * len(table.columns)),
        key="your_columns",
        on_select=row_clicked,
        selection_mode="single-row",
        column_config={
            "Column": st.column_config.TextColumn(width="medium"),
            "Type": st.column_config.TextColumn(width="small"),
            "Why": st.column_config.TextColumn(width="large"),
            "Missing": st.column_config.NumberColumn(format="localized", width="small"),
            "Distribution": st.column_config.BarChartColumn(
                y_min=0, help="A histogram of its values; of text, the most frequent values first."
            ),
        },
        alt="How each column of the file was read, and why.",
    )
    names = [column.name for column in table.columns]
    with st.container(horizontal=True, vertical_alignment="bottom", key="change_column"):
        name = st.selectbox(
            "Change the type of a column",
            names,
            key=persistent_key("column", names[0], names),
            format_func=visible,
            help="Or click its row above.",
            width=280,
        )
        st.selectbox(
            "Type",
            list(KINDS),
            format_func=KINDS.__getitem__,
            key=persistent_key(f"kind {name}", table[name].kind, KINDS),
            on_change=kind_changed,
            args=(name,),
            width=200,
        )
        if table[name].kind == "date" and table[name].day_first is not None:
            first = "day" if table[name].day_first else "month"
            st.selectbox(
                "1/2/2024 is",
                ["day", "month"],
                format_func={"day": "1 February", "month": "2 January"}.__getitem__,
                key=persistent_key(f"day_first {name}", first),
                on_change=kind_changed,
                args=(name,),
                width=160,
            )
    if state.column_error:
        st.warning(safe(state.column_error), icon=":material/warning:")
    n = min(SHOWN_ROWS, table.rows)
    with st.expander(f"The first {counted(n, 'row')}" if n > 1 else "The only row"):
        st.dataframe(
            cached("rows", state.loaded.read, lambda: row_table(table, slice(SHOWN_ROWS))),
            hide_index=True,
        )


def histogram(cells: Any) -> list[float]:
    """The counts of a column's values in a few bins; of text, those of the most frequent values."""
    step = max(1, len(cells) // HISTOGRAM_ROWS)
    if not isinstance(cells, np.ndarray):
        values, counts = np.unique(
            np.array([w for w in cells[::step].to_pylist() if w is not None], object).astype(str),
            return_counts=True,
        )
        return [float(n) for n in np.sort(counts)[::-1][:BARS]]
    values = cells[::step]
    known = values[~(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))]
    if not len(known):
        return []
    return np.histogram(known.astype(float), BARS)[0].astype(float).tolist()


def choose_target() -> Prepared | None:
    """What is to be predicted, and the rows to learn it from."""
    state = upload_state()
    assert state.loaded is not None
    table = state.loaded.decided
    names = cached("targets", table, lambda: possible_targets(table))
    st.subheader("What do you want to predict?", anchor=False)
    try:
        if not names:
            raise TableError("Every column is left out: change at least two of them above.")
        first = state.loaded.target if state.loaded.target in names else names[-1]
        columns = st.columns(4, gap="medium")
        with columns[0]:
            target = st.selectbox(
                "The column to predict (target)",
                names,
                key=persistent_key("target", first, names),
                on_change=reset_controls,
                args=("task", "transform", "exposure", "likelihood", *SPLIT_CONTROLS),
                help="Text with up to 100 distinct values can be a target; as an input it may have "
                "1,000, of which the 19 most frequent are told apart.",
                format_func=visible,
            )
        known = state.loaded.task if target == state.loaded.target else None
        proposals = cached(
            "proposals",
            (table, target, known),
            lambda: (
                propose_task(table, target),
                propose_missing(table),
                propose_transform(table, target),
            ),
        )
        task = proposals[0].value if known is None else known
        why = proposals[0].reason if known is None else "It is what this set is known for."
        with columns[1]:
            task = _proposed("The target is", "task", TASKS, task, why)
        with columns[2]:
            value, why = proposals[1].value, proposals[1].reason
            missing = _proposed("Rows with missing cells", "missing", MISSING, value, why)
        with columns[3]:
            transform, exposure = "none", ""
            if task == "counts":
                exposure = _choose_exposure(target)
            else:
                value, fixed = proposals[2].value, task != "regression"
                why = f"{proposals[2].reason} Predictions come back in the column's own unit."
                chosen = _proposed("Transform", "transform", TRANSFORMS, value, why, fixed)
                transform = "none" if fixed else chosen
        with st.spinner("Turning the rows into numbers …", show_time=True):
            return prepare(target, task, missing, transform, exposure)
    except TableError as error:
        complaint(error)
        return None


def _proposed(
    label: str, name: str, options: Mapping[str, str], value: str, why: str, fixed: bool = False
) -> str:
    """A choice that begins with what is proposed, and says why."""
    return st.selectbox(
        label,
        list(options),
        key=persistent_key(name, value, options),
        format_func=options.__getitem__,
        disabled=fixed,
        help=f"Proposed: {options[value].lower()}. {safe(why)}",
    )


def _choose_exposure(target: str) -> str:
    """The column that counts are in proportion to; empty where there is none."""
    loaded = upload_state().loaded
    assert loaded is not None
    names = [c.name for c in loaded.decided.columns if c.kind == "number" and c.name != target]
    return st.selectbox(
        "Exposure",
        ["", *names],
        key=persistent_key("exposure", "", ["", *names]),
        format_func=lambda name: visible(name) or "None",
        help="A column that counts are in proportion to, such as hours watched or people at risk: "
        "twice as much of it, twice the count. The models learn the rate per unit of it.",
    )


def prepare(target: str, task: str, missing: str, transform: str, exposure: str) -> Prepared:
    """The rows to learn from, made once for the same decisions."""
    state = upload_state()
    assert state.loaded is not None
    decisions = (state.loaded.decided, target, task, missing, transform, exposure)
    if state.prepared is None or state.prepared_from != decisions:
        state.prepared, began = None, time.perf_counter()
        state.prepared = state.loaded.decided.to_dataset(
            target,
            task,  # pyright: ignore[reportArgumentType]
            missing,  # pyright: ignore[reportArgumentType]
            transform,  # pyright: ignore[reportArgumentType]
            exposure=exposure,
        )
        state.prepared_from, state.preparing = decisions, time.perf_counter() - began
        state.loaded.decided.share(state.prepared)
    return state.prepared


def show_rows(prepared: Prepared) -> None:
    """Which rows and columns are used, and a figure of them."""
    words, rows = st.columns((5, 7), gap="large")
    with words:
        st.markdown("**What is used.** " + safe(prepared.report[0]))
        st.markdown("\n".join(f"- {safe(line)}" for line in prepared.report[1:6]))
        if len(prepared.report) > 6:
            with st.expander("Every column that was left out"):
                st.text("\n".join(prepared.report[6:]))
    with rows:
        data, ink = prepared.dataset, page_ink()
        st.markdown(f"**The data.** {_caption(prepared)}")
        figure = cached(
            "rows_figure", (prepared, ink), lambda: rows_figure(data, None, ink).to_plotly_json()
        )
        figure["layout"] |= {"height": 260, "margin": {"l": 50, "r": 10, "t": 10, "b": 45}}
        figure["layout"]["font"]["size"] = 12
        stage.figure(figure, _caption(prepared), "your_rows")


def _caption(prepared: Prepared) -> str:
    data = prepared.dataset
    target = safe(data.output_names[0])
    if data.X.shape[1] == 1:
        return f"Every row: {target} over {safe(data.input_names[0])}."
    if data.X.shape[1] == 2:
        return f"Every row by its two inputs, coloured by {target}."
    D = data.X.shape[1]
    return f"The distribution of {target} over {counted(len(data), 'row')} with {D} inputs."
