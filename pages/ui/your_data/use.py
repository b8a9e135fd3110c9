"""Step 5 of "Your data": predict one row or a file, and download the model, script and report."""

import io
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dgp_core import archive
from dgp_core.archive import Archive
from dgp_core.evaluation import comparison, explain, forecast
from dgp_core.gp.data import sample_places
from dgp_core.outcome import Outcome
from dgp_core.script import Upload, decisions, script
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import UNITS
from dgp_core.tables.table import Table, TableError, read_table
from dgp_core.training.plan import counted
from pages.figures.report import fit_report
from pages.figures.your_data import interval_figure, probability_figure
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink
from pages.ui.your_data.commands import predict_command
from pages.ui.your_data.judge import choose_model, in_file, log_unit, verdict
from pages.ui.your_data.upload_state import (
    HELD_OUT,
    LIMITS,
    Fitted,
    cached,
    persistent_key,
    release,
    safe,
    upload_state,
    uploaded_file,
)

MOST_PREDICTED_CELLS = 20_000_000
"""Of a file that is predicted here."""


MOST_SLIDERS = 30


def packed(record: Archive) -> bytes:
    """A model as the bytes of its file."""
    file = io.BytesIO()
    archive.save(file, record)
    return file.getvalue()


def read_second(source: Any, name: str) -> None:
    """Reads a file to predict; where that fails, `second_error` says why."""
    state = upload_state()
    state.second, state.second_error = None, ""
    try:
        state.second = read_table(source, name, LIMITS)
    except TableError as error:
        state.second_error = str(error)


def predictions_csv(outcome: Outcome, table: Table) -> bytes:
    """A file's own columns and the predictions, as CSV."""
    file = io.BytesIO()
    file.writelines(outcome.csv([table]))
    return file.getvalue()


def show(fitted: Fitted | None) -> None:
    """Predictions and downloads."""
    st.header("5 · Use", anchor="use")
    state = upload_state()
    sources = (["fit"] if fitted is not None else []) + (["file"] if state.opened else [])
    source, opened = sources[0], state.opened[0] if state.opened else ""
    if len(sources) > 1:
        source = st.segmented_control(
            "Predict with",
            sources,
            format_func=lambda s: "The fit above" if s == "fit" else safe(opened),
            key=persistent_key("source", sources[-1], sources),
            required=True,
        )
    if source == "fit":
        assert fitted is not None
        which = choose_model(fitted, "used", "Which model?", ("linear",))
        record = fitted.archive("rival" if which == "single" else "deep")
        if record is None:
            st.markdown(fitted.without_model("use it as it is"))
            return
    else:
        assert state.opened is not None
        which, record = "deep", state.opened[1]
        fitted = None
    if which == "linear":
        assert fitted is not None
        use_line(fitted, record)
        return
    L, taken = record.model.layers, record.progress.steps
    rows, source = "", record.source
    if source is not None and source.rows:
        n = round((1 - source.held_out) * source.rows)
        rows = f" on {n:,} of {counted(source.rows, 'row')}"
    st.markdown(
        f"A model with {counted(L, 'layer')} that predicts "
        f"**{safe(', '.join(record.output_names))}** from "
        f"{counted(len(record.input_names), 'input')}, trained for {counted(taken, 'step')}{rows}."
    )
    predict(record, cached("outcome", record, lambda: Outcome(record)))
    downloads(fitted, record)


def use_line(fitted: Fitted, record: Archive) -> None:
    """Predictions of the straight line; the fit's script has it too."""
    data = fitted.prepared.dataset
    rows = fitted.trial.train_rows
    st.markdown(
        f"The straight line through {len(rows):,} of {counted(len(data), 'row')}: what any "
        f"spreadsheet would fit to **{safe(', '.join(data.output_names))}**. It has no model file; "
        "the script fits it too, under the name “linear”."
    )
    places, recipe = sample_places(rows, forecast.LINEAR_ROWS), fitted.prepared.recipe
    outcome = cached("line", fitted, lambda: Outcome.of_line(recipe, data.take(places)))
    predict(record, outcome, has_file=False)
    st.subheader("Download", anchor=False)
    with st.container(horizontal=True, key="downloads"):
        script_and_report(fitted, record)


def predict(record: Archive, outcome: Outcome, has_file: bool = True) -> None:
    """One row by its controls, or every row of a file."""
    by_hand, by_file = st.columns(2, gap="large")
    with by_hand:
        predict_values(record, outcome)
    with by_file:
        predict_file(outcome, has_file)


def predict_values(record: Archive, outcome: Outcome) -> None:
    """One row, by a control for each input."""
    st.subheader("Predict one row", anchor=False)
    recipe, scaler = outcome.recipe, record.scaler
    groups = explain.groups_of(None, recipe)  # pyright: ignore[reportArgumentType]
    X = np.zeros((1, len(record.input_names)))
    X[0] = scaler.x_mean
    st.markdown("Move the inputs, and the prediction follows. They start at the data's mean.")
    panel = st.container(height=340 if len(groups) > 4 else "content", border=len(groups) > 4)
    with panel:
        for group, column in list(zip(groups, recipe.inputs_from, strict=True))[:MOST_SLIDERS]:
            X = group.at(X, _value(group, column, scaler))
    if len(groups) > MOST_SLIDERS:
        rest = counted(len(groups) - MOST_SLIDERS, "more input")
        st.caption(f"{rest} at the mean: use a file to change them.")
    predicted = {name: values[0] for name, values in outcome.predictions(X).items()}
    target = recipe.targets[0].column
    if recipe.classes:
        p = np.array([predicted[f"{target} = {c}"] for c in recipe.classes])
        likeliest = safe(predicted[f"{target} predicted"])
        st.markdown(f"**{safe(target)}: {likeliest}**, with probability {p.max():.1%}.")
        alt = f"The probability of each class of {visible(target)} for this row, as bars."
        stage.figure(probability_figure(recipe.classes, p, page_ink()), alt, "your_one")
        return
    own = {name.removeprefix(f"{target} "): float(v) for name, v in predicted.items()}
    middle = own["mean"] if np.isfinite(own["mean"]) else own["50%"]
    st.markdown(
        f"**{safe(target)}: {_number(middle)}**; 90 % interval {_number(own['5%'])} to "
        f"{_number(own['95%'])}."
    )
    alt = (
        f"{visible(target)} for this row: mean {_number(middle)}, and the central 50, 90 and 95 % "
        "intervals of new observations."
    )
    stage.figure(interval_figure(own, target, page_ink()), alt, "your_one")


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def _value(group, column, scaler) -> float:
    """One input's value from its control, as the model's number or level."""
    title, name = safe(group.name), f"at {group.name}"
    if group.labels:
        places = list(range(len(group.labels)))
        at = st.selectbox(
            title,
            places,
            key=persistent_key(name, 0, places),
            format_func=lambda i: visible(group.labels[i]),
        )
        return float(at)
    d = group.columns[0]
    mean, sd = float(scaler.x_mean[d]), float(scaler.x_scale[d])
    low, high = mean - 3 * sd, mean + 3 * sd
    if column.kind == "date":
        origin = np.datetime64(column.origin, "us")
        unit = UNITS[column.unit]
        days = [(origin + np.timedelta64(int(v * unit), "us")).astype("M8[D]").item()
                for v in (low, mean, high)]  # fmt: skip
        key = persistent_key(name, days[1])
        st.session_state[key] = min(max(st.session_state[key], days[0]), days[2])
        day: date = st.date_input(
            safe(column.column), key=key, min_value=days[0], max_value=days[2]
        )
        return float(column.since_origin(np.array([np.datetime64(day, "us")]))[0])
    step = float(f"{sd / 20:.1g}") or 1.0
    low, high = step * round(low / step), step * round(high / step)
    key = persistent_key(name, float(np.clip(step * round(mean / step), low, high)))
    st.session_state[key] = float(np.clip(st.session_state[key], low, high))
    shown = f"%.{max(0, int(-np.floor(np.log10(step))))}f" if step < 1e6 else "%.3g"
    return st.slider(title, low, high, step=step, key=key, format=shown)


def second_changed() -> None:
    if (file := uploaded_file("your_second")) is not None:
        read_second(file, file.name)
        release(file)


def predict_file(outcome: Outcome, has_file: bool = True) -> None:
    """Every row of a second file; a model that `has_file` can predict in a terminal too."""
    st.subheader("Predict a file", anchor=False)
    needed = [column.column for column in outcome.recipe.inputs_from]
    listed = ", ".join(safe(name) for name in needed[:12])
    more = f" and {len(needed) - 12} more" if len(needed) > 12 else ""
    st.markdown(
        f"Rows with the columns {listed}{more}, in any order; further columns are kept. The "
        "predictions are added as columns."
    )
    st.file_uploader("A file to predict", key="your_second", on_change=second_changed)
    state = upload_state()
    if state.second_error:
        st.error(safe(state.second_error), icon=":material/error:")
    if state.second is None:
        return
    table = state.second
    if table.rows * len(table.cells) > MOST_PREDICTED_CELLS:
        way = "Download the model below, and predict in a terminal:"
        st.info(
            f"{counted(table.rows, 'row')} of {counted(len(table.cells), 'column')} are more than "
            "this page writes. " + (way if has_file else "Split them into several files."),
            icon=":material/terminal:",
        )
        if has_file:
            st.code(predict_command(table), language="bash")
        return
    try:
        with st.spinner(f"Predicting {counted(table.rows, 'row')} …", show_time=True):
            content = cached(
                "predictions", (outcome, table), lambda: predictions_csv(outcome, table)
            )
    except TableError as error:
        st.error(safe(error), icon=":material/error:")
        return
    st.markdown(f"**{counted(table.rows, 'row')} of {safe(table.name)} predicted.**")
    st.download_button(
        "Predictions (CSV)",
        content,
        file_name="predictions.csv",
        mime="text/csv",
        icon=":material/download:",
        key="download_predictions",
        on_click="ignore",
        type="primary",
    )


def downloads(fitted: Fitted | None, record: Archive) -> None:
    """The model, the script, the report."""
    st.subheader("Download", anchor=False)
    st.markdown(
        "The model file opens again here (step 1, “A model that I saved”) and in a terminal: "
        "`python -m dgp_core predict model.npz NEW.csv --out predictions.csv`. It holds no rows."
    )
    with st.container(horizontal=True, key="downloads"):
        st.download_button(
            "Model (.npz)",
            cached("packed", record, lambda: packed(record)),
            file_name="model.npz",
            mime="application/octet-stream",
            icon=":material/deployed_code:",
            key="download_model",
            on_click="ignore",
        )
        if fitted is not None:
            script_and_report(fitted, record)


def script_and_report(fitted: Fitted, record: Archive) -> None:
    """The script and the report of the whole fit."""
    code = _script(fitted, record)
    st.download_button(
        "Python script",
        code,
        file_name="fit.py",
        mime="text/x-python",
        icon=":material/code:",
        key="download_script",
        on_click="ignore",
    )
    if verdict(fitted) is not None:
        st.download_button(
            "Report (HTML)",
            partial(_report, fitted, record, code, dict(upload_state().cache)),
            file_name="report.html",
            mime="text/html",
            icon=":material/description:",
            key="download_report",
            on_click="ignore",
        )


def _script(fitted: Fitted, record: Archive) -> str:
    recipe = fitted.prepared.recipe
    source = Upload(
        file=fitted.loaded.file,
        targets=tuple(target.column for target in recipe.targets),
        task=recipe.task,
        missing=recipe.missing,
        transforms=recipe.transforms,
        decisions=decisions(fitted.loaded.read, fitted.loaded.decided),
    )
    return script(
        source,
        record.model,
        record.training,
        fraction=1 - HELD_OUT,
        steps=record.progress.steps,
    )


def _report(fitted: Fitted, record: Archive, code: str, cache: dict) -> bytes:
    """The whole fit in one file; runs on download, outside the page's script."""
    cards = in_file(fitted, fitted.scored())

    def known(name: str) -> Any:
        return cache[name][1] if name in cache and cache[name][0] is record else None

    about = [*fitted.prepared.report, fitted.plan.sentence, *filter(None, [log_unit(fitted)])]
    return fit_report(
        fitted.loaded.read.name,
        about,
        cards,
        comparison.verdict(cards),
        fitted.prepared.dataset.output_names[0],
        known("importance") or (),
        list((known("responses") or {}).values()),
        code,
    ).encode()
