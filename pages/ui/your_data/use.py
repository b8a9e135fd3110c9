"""Step 5 of "Your data": predict one row or a file, and download the model, script and report."""

import io
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dgp_core import archive, line_file
from dgp_core.archive import Archive
from dgp_core.evaluation import comparison, explain
from dgp_core.gp.data import counted
from dgp_core.gp.domain import Domain
from dgp_core.line_file import LineArchive
from dgp_core.outcome import (
    DISTANCE,
    OUTSIDE,
    WIDENED,
    Outcome,
    Tally,
)
from dgp_core.script import Upload, decisions, script
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import UNITS, Recipe
from dgp_core.tables.table import Table, TableError, read_alike
from pages.figures.playground import history_figure
from pages.figures.report import fit_report
from pages.figures.scores import MODELS
from pages.figures.your_data import interval_figure, probability_figure
from pages.ui.download import download
from pages.ui.sentences import complaint, safe
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink
from pages.ui.your_data.commands import predict_command
from pages.ui.your_data.judge import (
    choose_model,
    in_file,
    judged_by,
    log_unit,
    verdict,
    widening,
)
from pages.ui.your_data.references import REFERENCES, line_of, reference_model, training_set
from pages.ui.your_data.understand import explanation
from pages.ui.your_data.upload_state import (
    HELD_OUT,
    LIMITS,
    Fitted,
    cached,
    persistent_key,
    release,
    upload_state,
    uploaded_file,
)

MOST_PREDICTED_CELLS = 20_000_000
"""Of a file that is predicted here."""


MOST_SLIDERS = 30


def packed(record: Archive | LineArchive) -> bytes:
    """A model as the bytes of its file."""
    file = io.BytesIO()
    if isinstance(record, LineArchive):
        line_file.save(file, record)
    else:
        archive.save(file, record)
    return file.getvalue()


def read_second(source: Any, name: str, recipe: Recipe) -> None:
    """Reads a file to predict as the model's own; where that fails, `second_error` says why."""
    state = upload_state()
    state.second, state.second_error = None, ""
    try:
        state.second = read_alike(source, recipe, name, LIMITS)
    except TableError as error:
        state.second_error = str(error)


def predictions_csv(outcome: Outcome, table: Table) -> tuple[bytes, Tally]:
    """A file's own columns and the predictions, as CSV, and how many there are."""
    file, tally = io.BytesIO(), Tally()
    file.writelines(outcome.csv([table], tally))
    return file.getvalue(), tally


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
        which = choose_model(fitted, "used", "Which model?", REFERENCES)
        record = fitted.archive("rival" if which == "single" else "deep")
        if record is None:
            st.markdown(fitted.without_model("use it as it is"))
            return
        if which in WITHOUT_STEPS:
            use_reference(fitted, record, which)
            return
        widened = widening(fitted, which)
        used: Archive | LineArchive = record
        if widened is not None:
            used = cached("widened", (record, widened), lambda: replace(record, widening=widened))
        say_what(used)
        predict(cached("outcome", used, lambda: Outcome(used)))
        downloads(used, fitted, record)
        return
    assert state.opened is not None
    opened_record = state.opened[1]
    say_what(opened_record)
    if isinstance(opened_record, Archive):
        show_history(opened_record)
    predict(cached("outcome", opened_record, lambda: Outcome(opened_record)))
    downloads(opened_record)


def say_what(record: Archive | LineArchive) -> None:
    """Which model this is, and whether its intervals were widened."""
    rows, source = "", record.source
    if source is not None and source.rows:
        n = round((1 - source.held_out) * source.rows)
        rows = f" on {n:,} of {counted(source.rows, 'row')}"
    what = "The straight line"
    if isinstance(record, Archive):
        what = f"A model with {counted(record.model.layers, 'layer')}"
        rows = f", trained for {counted(record.progress.steps, 'step')}{rows}"
    st.markdown(
        f"{what} that predicts **{safe(', '.join(record.output_names))}** from "
        f"{counted(len(record.input_names), 'input')}{rows}."
    )


def show_history(record: Archive) -> None:
    """The bound of an opened model over all its steps."""
    progress = record.progress
    if not progress.fit:
        return
    with st.expander("How its bound rose", icon=":material/show_chart:"):
        parts = np.concatenate(progress.fit), np.concatenate(progress.kl)
        alt = f"The bound over {counted(progress.steps, 'step')}, and each layer's KL."
        stage.figure(history_figure(*parts, page_ink()), alt, "your_history")
        left = record.training.steps - progress.steps
        st.caption(
            f"{counted(progress.steps, 'step')} in {progress.seconds:,.0f} s; bound "
            f"{np.mean(progress.bound[-100:]):,.1f} nats."
            + (f" {counted(left, 'step')} planned and not taken yet." if left > 0 else "")
        )


WITHOUT_STEPS = {
    "linear": "",
    "exact": "An exact GP's prediction needs its training rows, so it has no model file",
    "boosting": "Gradient boosting is scikit-learn's, so it has no model file",
}
"""Models that are fitted at once, and why some have no file."""


def use_reference(fitted: Fitted, record: Archive, which: str) -> None:
    """Predictions of the straight line, the exact GP or gradient boosting."""
    main, rows = fitted.main, fitted.trial.train_rows
    widened = widening(fitted, which)
    if which == "linear":
        line = line_of(fitted)
        used = cached("wide_line", (line, widened), lambda: replace(line, widening=widened))
        say_what(used)
        predict(cached("outcome", used, lambda: Outcome(used)))
        downloads(used, fitted, record)
        return
    st.markdown(
        f"{MODELS[which]} of {len(rows):,} of {counted(len(main.dataset), 'row')}, for "
        f"**{safe(', '.join(main.dataset.output_names))}**. {WITHOUT_STEPS[which]}: predict here"
        + (", or in Python with the script." if which == "boosting" else ".")
    )
    with st.spinner(f"Fitting {MODELS[which].lower()} …", show_time=True):
        model, train = reference_model(fitted, which), training_set(fitted)
    key = (model, widened)
    outcome = cached("outcome", key, lambda: Outcome.of(main.recipe, train, model, widened))
    predict(outcome, has_file=False)
    st.subheader("Download", anchor=False)
    with st.container(horizontal=True, key="downloads"):
        script_and_report(fitted, record)


def predict(outcome: Outcome, has_file: bool = True) -> None:
    """One row by its controls, or every row of a file."""
    if outcome.widening is not None:
        st.info(f"Widened intervals. {outcome.widening.sentence}", icon=":material/expand:")
    by_hand, by_file = st.columns(2, gap="large")
    with by_hand:
        predict_values(outcome)
    with by_file:
        predict_file(outcome, has_file)


def predict_values(outcome: Outcome) -> None:
    """One row, by a control for each input."""
    st.subheader("Predict one row", anchor=False)
    recipe, scaler = outcome.recipe, outcome.scaler
    groups = explain.groups_of(None, recipe)  # pyright: ignore[reportArgumentType]
    X = np.zeros((1, len(recipe.input_names)))
    X[0] = scaler.x_mean
    st.markdown("Move the inputs, and the prediction follows. They start at the data's mean.")
    panel = st.container(height=340 if len(groups) > 4 else "content", border=len(groups) > 4)
    with panel:
        for group, column in list(zip(groups, recipe.inputs_from, strict=True))[:MOST_SLIDERS]:
            X = group.at(X, _value(group, column, scaler, outcome.domain))
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
        say_how_far(outcome, X)
        return
    own = {
        name.removeprefix(f"{target} ").removesuffix(WIDENED): float(v)
        for name, v in predicted.items()
    }
    middle = own["mean"] if np.isfinite(own["mean"]) else own["50%"]
    kind = "widened 90 % interval" if outcome.widening else "90 % interval"
    st.markdown(
        f"**{safe(target)}: {_number(middle)}**; {kind} {_number(own['5%'])} to "
        f"{_number(own['95%'])}."
    )
    alt = (
        f"{visible(target)} for this row: mean {_number(middle)}, and the central 50, 90 and 95 % "
        "intervals of new observations."
    )
    stage.figure(interval_figure(own, target, page_ink()), alt, "your_one")
    say_how_far(outcome, X)


def say_how_far(outcome: Outcome, X: np.ndarray) -> None:
    """Whether one row is among the training rows, in words."""
    found = outcome.outside(X)
    if not found:
        return
    distance = f"distance {found[DISTANCE][0]:.2g}, where 99 % of the training rows are within 1"
    if words := found[OUTSIDE][0]:
        st.warning(
            f"Outside the training rows: {safe(words)} ({distance}). The model extrapolates here.",
            icon=":material/warning:",
        )
    else:
        st.caption(f"This row is among the training rows ({distance}).")


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def _value(group, column, scaler, domain: Domain | None) -> float:
    """One input's value from its control, as the model's number or level.

    Numbers stay within the range of the training rows; a date may lie as long before or after it
    as the range is.
    """
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
    low, high, whole = mean - 3 * sd, mean + 3 * sd, False
    if domain is not None:
        low, high, whole = float(domain.low[d]), float(domain.high[d]), bool(domain.whole[d])
    if column.kind == "date":
        origin = np.datetime64(column.origin, "us")
        unit, span = UNITS[column.unit], high - low
        days = [(origin + np.timedelta64(int(v * unit), "us")).astype("M8[D]").item()
                for v in (low - span, mean, high + span)]  # fmt: skip
        key = persistent_key(name, days[1])
        st.session_state[key] = min(max(st.session_state[key], days[0]), days[2])
        day: date = st.date_input(
            safe(column.column), key=key, min_value=days[0], max_value=days[2]
        )
        return float(column.since_origin(np.array([np.datetime64(day, "us")]))[0])
    if low == high:
        st.markdown(f"{title}: {_number(low)} in every training row.")
        return low
    if whole and high < 1 << 53:
        key = persistent_key(name, int(np.clip(round(mean), low, high)))
        st.session_state[key] = int(np.clip(st.session_state[key], low, high))
        return float(st.slider(title, int(low), int(high), step=1, key=key))
    step = float(f"{(high - low) / 100:.1g}") or 1.0
    key = persistent_key(name, float(np.clip(step * round(mean / step), low, high)))
    st.session_state[key] = float(np.clip(st.session_state[key], low, high))
    shown = f"%.{max(0, int(-np.floor(np.log10(step))))}f" if step < 1e6 else "%.3g"
    return st.slider(title, low, high, step=step, key=key, format=shown)


def second_changed(recipe: Recipe) -> None:
    if (file := uploaded_file("your_second")) is not None:
        read_second(file, file.name, recipe)
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
    st.file_uploader(
        "A file to predict", key="your_second", on_change=second_changed, args=(outcome.recipe,)
    )
    state = upload_state()
    if state.second_error:
        complaint(state.second_error)
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
            content, tally = cached(
                "predictions", (outcome, table), lambda: predictions_csv(outcome, table)
            )
    except TableError as error:
        complaint(error)
        return
    first, *more = tally.sentences(table.name)
    st.markdown(f"**{safe(first)}**")
    for sentence in more:
        st.warning(safe(sentence), icon=":material/warning:")
    name, key = "predictions.csv", "download_predictions"
    download("Predictions (CSV)", content, name, "download", key, type="primary")


def downloads(
    used: Archive | LineArchive, fitted: Fitted | None = None, record: Archive | None = None
) -> None:
    """The model in use; of a fit also the script and the report, by its GP's record."""
    st.subheader("Download", anchor=False)
    st.markdown(
        "The model file opens again here (step 1, “A model that I saved”) and in a terminal: "
        "`python -m dgp_core predict model.npz NEW.csv --out predictions.csv`. It holds no rows."
        + (" Its intervals are widened there too." if used.widening else "")
    )
    with st.container(horizontal=True, key="downloads"):
        content = cached("packed", used, lambda: packed(used))
        download("Model (.npz)", content, "model.npz", "deployed_code", "download_model")
        if fitted is not None and record is not None:
            script_and_report(fitted, record)


def script_and_report(fitted: Fitted, record: Archive) -> None:
    """The script and the report of the whole fit."""
    code = _script(fitted, record)
    download("Python script", code, "fit.py", "code", "download_script")
    if verdict(fitted) is not None:
        make = partial(_report, fitted, code, dict(upload_state().cache), _widened(fitted))
        download("Report (HTML)", make, "report.html", "description", "download_report")


def _script(fitted: Fitted, record: Archive) -> str:
    recipe = fitted.prepared.recipe
    source = Upload(
        file=fitted.loaded.file,
        targets=tuple(target.column for target in recipe.targets),
        task=recipe.task,
        missing=recipe.missing,
        transforms=recipe.transforms,
        exposure=recipe.exposure,
        decisions=decisions(fitted.loaded.read, fitted.loaded.decided),
        reading=fitted.loaded.read.options.given,
        content=fitted.loaded.content,
        judge_by=(fitted.trial.by.way, fitted.trial.by.column),
    )
    return script(
        source,
        record.model,
        record.training,
        fraction=1 - HELD_OUT,
        steps=record.progress.steps,
    )


def _widened(fitted: Fitted) -> list[str]:
    """What the report says of widened intervals."""
    found = verdict(fitted)
    wide = widening(fitted, found.model) if found is not None else None
    if wide is None:
        return []
    shown = "The intervals of predictions are widened; those of the scores and pictures are not."
    return [f"{wide.sentence} {shown}"]


def _report(fitted: Fitted, code: str, cache: dict, widened: list[str]) -> bytes:
    """The whole fit in one file; runs on download, outside the page's script."""
    cards = in_file(fitted, fitted.scored())

    about = [*fitted.prepared.report, fitted.plan.sentence, judged_by(fitted)]
    about += [*filter(None, [log_unit(fitted)]), *widened]
    found = comparison.verdict(cards)
    importance, responses = explanation(fitted, found.model, cache)
    return fit_report(
        fitted.loaded.read.name,
        about,
        cards,
        found,
        fitted.prepared.dataset.output_names[0],
        importance,
        responses,
        code,
        MODELS[found.model],
    ).encode()
