"""Step 4 of "Your data": which inputs matter, what each does, and the hidden layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dgp_core.evaluation import comparison, explain
from dgp_core.gp.data import Dataset, Scaler, counted
from dgp_core.gp.model import DeepGP
from dgp_core.outcome import Line, Trees
from dgp_core.tables.plain import visible
from pages.figures.scores import MODELS
from pages.figures.your_data import (
    importance_figure,
    relevance_figure,
    response_figure,
    two_inputs_figure,
)
from pages.ui.glossary_links import Linker
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink
from pages.ui.your_data.judge import choose_model
from pages.ui.your_data.references import REFERENCES, Keep, reference_model, training_set
from pages.ui.your_data.upload_state import Fitted, cached, persistent_key, upload_state

PER_ROW = 3


@dataclass(frozen=True)
class Subject:
    """The model that is explained."""

    key: Any
    """What its explanations are cached by."""
    model: DeepGP | Line | Trees
    scaler: Scaler


def subject_of(fitted: Fitted, which: str, keep: Keep = cached) -> Subject | None:
    """A model of a fit, to be explained; None of a GP that still trains, or was discarded."""
    if which in REFERENCES:
        model = reference_model(fitted, which, keep)
        return Subject((fitted, which), model, Scaler.fit(training_set(fitted)))
    record = fitted.archive("rival" if which == "single" else "deep")
    return None if record is None else Subject(record, record.state.model, record.scaler)


def explanation(
    fitted: Fitted, which: str, cache: dict[str, tuple[Any, Any]]
) -> tuple[tuple[explain.Importance, ...], list[explain.Response]]:
    """For the report: of this model, computed where it is not in the cache; nothing where no model
    was explained on the page. Runs outside the page's script."""

    def keep(name: str, key: Any, compute: Any) -> Any:
        return cache[name][1] if name in cache and cache[name][0] == key else compute()

    if "explained" not in cache or (subject := subject_of(fitted, which, keep)) is None:
        return (), []
    data, groups = fitted.main.dataset, explain.groups_of(fitted.main.dataset, fitted.main.recipe)
    held_out = data.take(fitted.trial.held_rows)
    of = (subject.model, subject.scaler)
    found = keep("importance", subject.key, lambda: explain.importance(*of, held_out, groups))
    by_name, known = {group.name: group for group in groups}, keep("responses", subject.key, dict)
    shown = list(known) or [one.name for one in found[:PER_ROW]]
    return found, [
        known[name] if name in known else explain.response(*of, data, by_name[name])
        for name in shown
    ]


def explain_clicked(key: Any) -> None:
    upload_state().cache["explained"] = (key, True)


def show(fitted: Fitted, live: bool, essay: Linker) -> None:
    """What the model has learnt about its inputs, computed when asked for."""
    st.header("4 · Understand", anchor="understand")
    which = choose_model(fitted, "explained", "Explain", REFERENCES)
    record = fitted.archive("rival" if which == "single" else "deep")
    if record is None:
        st.markdown(fitted.without_model("look inside"))
        return
    key = (fitted, which) if which in REFERENCES else record
    if upload_state().cache.get("explained", (None, None))[0] != key:
        st.markdown(
            "Which inputs matter, and what does each do to the prediction? The answers come from "
            "predicting many changed rows."
        )
        st.button(
            "Explain",
            icon=":material/psychology:",
            key="explain",
            on_click=explain_clicked,
            args=(key,),
        )
        return
    with st.spinner(f"Fitting {MODELS[which].lower()} …", show_time=True):
        subject = subject_of(fitted, which)
    assert subject is not None
    data, model, scaler = fitted.main.dataset, subject.model, subject.scaler
    held_out = data.take(fitted.trial.held_rows)
    groups = explain.groups_of(data, fitted.main.recipe)
    with st.spinner("Permuting inputs, one after another …", show_time=True):
        importance = cached(
            "importance", key, lambda: explain.importance(model, scaler, held_out, groups)
        )
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(
            "**Which inputs matter?** Each is permuted among held-out rows, and the bars show what "
            "that costs. Two inputs that carry the same information hide each other."
        )
        alt = (
            "The log-likelihood that held-out rows lose as an input is permuted; "
            f"{visible(importance[0].name)} costs most."
        )
        stage.figure(importance_figure(importance, page_ink()), alt, "your_importance")
        if len(held_out) < comparison.FEWEST_ROWS:
            are = "is" if len(held_out) == 1 else "are"
            st.caption(
                f"Only {counted(len(held_out), 'row')} {are} held out, so the order of these bars "
                "may be chance: bring more rows to be sure."
            )
    with right:
        if isinstance(model, DeepGP):
            _relevance(model, scaler, data.input_names, key, essay)
    by_name, order = {group.name: group for group in groups}, [one.name for one in importance]
    _responses(fitted, subject, by_name, order)
    if len(groups) > 1:
        _map(fitted, subject, by_name, order)
    if live:
        _layers(fitted.plan.model.layers, essay)


def _relevance(
    model: DeepGP, scaler: Scaler, names: Sequence[str], key: Any, essay: Linker
) -> None:
    relevances = cached("relevance", key, lambda: explain.relevance(model, scaler, names))
    essay.write("**By layer.** " + explain.RELEVANCE_MEANS)
    for one in relevances:
        alt = f"Layer {one.layer}: one over the lengthscale along each of its inputs, as bars."
        stage.figure(relevance_figure(one, page_ink()), alt, f"your_relevance_{one.layer}")


def _responses(fitted: Fitted, subject: Subject, groups: dict, order: list[str]) -> None:
    st.markdown(
        "**One input at a time.** The thick line is the mean prediction over rows as the input "
        "goes over its range, every row's other inputs as they are (partial dependence); thin "
        "lines are single rows, and shades show where new observations fall."
    )
    first = order[:PER_ROW]
    key = persistent_key("shown", first)
    st.session_state[key] = [n for n in st.session_state[key] if n in groups] or first
    shown = st.multiselect("Inputs", order, key=key, format_func=visible, max_selections=9)
    with st.spinner("Varying one input …", show_time=True):
        draw_responses(subject, fitted.main.dataset, [groups[name] for name in shown], "response")


def draw_responses(
    subject: Subject, data: Dataset, groups: Sequence[explain.Group], key: str
) -> None:
    """What the prediction does as each of these inputs varies, a picture each."""
    responses = cached(f"{key}s", subject.key, dict)
    for group in groups:
        if group.name not in responses:
            responses[group.name] = explain.response(subject.model, subject.scaler, data, group)
    y = data.output_names[0]
    for start in range(0, len(groups), PER_ROW):
        columns = st.columns(PER_ROW, gap="medium")
        for column, group in zip(columns, groups[start : start + PER_ROW], strict=False):
            with column:
                figure = response_figure(responses[group.name], y, data.classes, page_ink())
                alt = f"How the prediction of {visible(y)} changes as {visible(group.name)} varies."
                stage.figure(figure, alt, f"your_{key}_{group.name}")


def _map(fitted: Fitted, subject: Subject, groups: dict, order: list[str]) -> None:
    st.markdown(
        "**Two inputs together.** A map shows where the effect of one depends on the other."
    )
    data = fitted.main.dataset
    one, two, three, four = st.columns(4, gap="medium")
    with one:
        key = persistent_key("map_x", order[0], order)
        x = st.selectbox("Horizontal", order, key=key, format_func=visible)
    others = [name for name in order if name != x]
    with two:
        key = persistent_key("map_y", others[0], others)
        y = st.selectbox("Vertical", others, key=key, format_func=visible)
    with three:
        shade = st.selectbox(
            "Show",
            ["mean", "sd"],
            key=persistent_key("map_shade", "mean"),
            format_func={
                "mean": "Probability" if data.classes else "Mean",
                "sd": "Standard deviation over rows"
                if data.classes
                else "Standard deviation of new observations",
            }.__getitem__,
        )
    output = 0
    if data.classes:
        codes = list(range(len(data.classes)))
        with four:
            output = st.selectbox(
                "Of class",
                codes,
                key=persistent_key("map_class", min(1, len(codes) - 1), codes),
                format_func=lambda c: visible(data.classes[c]),
            )
    with st.spinner("Varying two inputs together …", show_time=True):
        found = cached(
            "map",
            (subject.key, x, y, output),
            lambda: explain.two_inputs(
                subject.model, subject.scaler, data, groups[x], groups[y], output=output
            ),
        )
    name = data.classes[output] if data.classes else data.output_names[0]
    what = f"probability of {name}" if data.classes else f"mean of {name}"
    if shade == "sd":
        what = f"standard deviation of {name}"
    figure = two_inputs_figure(found, what, shade == "sd", page_ink())
    alt = f"A map of the {visible(what)}, {visible(x)} horizontal and {visible(y)} vertical."
    stage.figure(figure, alt, "your_map")


def _layers(L: int, essay: Linker) -> None:
    essay.write(
        "**The hidden layers** of the deep model: what enters each, and what leaves it. A layer "
        "that is switched off passes its input on."
    )
    columns = st.columns(min(L, PER_ROW), gap="medium")
    for l in range(L):
        with columns[l % PER_ROW], st.container(gap="xsmall"):
            stage.words(f"fit/layer_{l}_title", 20)
            stage.picture(f"fit/layer_{l}", 176)
            stage.meter(f"fit/layer_{l}_meter")
