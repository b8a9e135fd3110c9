"""Step 4 of "Your data": which inputs matter, what each does, and the hidden layers."""

import streamlit as st

from dgp_core.archive import Archive
from dgp_core.evaluation import comparison, explain
from dgp_core.tables.plain import visible
from dgp_core.training.plan import counted
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
from pages.ui.your_data.upload_state import Fitted, cached, persistent_key, upload_state

PER_ROW = 3


def explain_clicked(record: Archive) -> None:
    upload_state().cache["explained"] = (record, True)


def show(fitted: Fitted, live: bool, essay: Linker) -> None:
    """What the model has learnt about its inputs, computed when asked for."""
    st.header("4 · Understand", anchor="understand")
    which = choose_model(fitted, "explained", "Explain")
    record = fitted.archive("rival" if which == "single" else "deep")
    if record is None:
        st.markdown(fitted.without_model("look inside"))
        return
    if upload_state().cache.get("explained", (None, None))[0] is not record:
        st.markdown(
            "Which inputs matter, and what does each do to the prediction? The answers come from "
            "predicting many changed rows."
        )
        st.button(
            "Explain",
            icon=":material/psychology:",
            key="explain",
            on_click=explain_clicked,
            args=(record,),
        )
        return
    data, model, scaler = fitted.main.dataset, record.state.model, record.scaler
    held_out = data.take(fitted.trial.held_rows)
    groups = explain.groups_of(data, fitted.main.recipe)
    with st.spinner("Permuting inputs, one after another …", show_time=True):
        importance = cached(
            "importance", record, lambda: explain.importance(model, scaler, held_out, groups)
        )
        relevances = cached(
            "relevance", record, lambda: explain.relevance(model, scaler, data.input_names)
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
        essay.write("**By layer.** " + explain.RELEVANCE_MEANS)
        for one in relevances:
            alt = f"Layer {one.layer}: one over the lengthscale along each of its inputs, as bars."
            stage.figure(relevance_figure(one, page_ink()), alt, f"your_relevance_{one.layer}")
    by_name, order = {group.name: group for group in groups}, [one.name for one in importance]
    _responses(fitted, record, by_name, order)
    if len(groups) > 1:
        _map(fitted, record, by_name, order)
    if live:
        _layers(fitted.plan.model.layers, essay)


def _responses(fitted: Fitted, record: Archive, groups: dict, order: list[str]) -> None:
    st.markdown(
        "**One input at a time.** The thick line is the mean prediction over rows as the input "
        "goes over its range, every row's other inputs as they are (partial dependence); thin "
        "lines are single rows, and shades show where new observations fall."
    )
    first = order[:PER_ROW]
    key = persistent_key("shown", first)
    st.session_state[key] = [n for n in st.session_state[key] if n in groups] or first
    shown = st.multiselect("Inputs", order, key=key, format_func=visible, max_selections=9)
    responses, data = cached("responses", record, dict), fitted.main.dataset
    model, scaler = record.state.model, record.scaler
    with st.spinner("Varying one input …", show_time=True):
        for name in shown:
            if name not in responses:
                responses[name] = explain.response(model, scaler, data, groups[name])
    y = data.output_names[0]
    for start in range(0, len(shown), PER_ROW):
        columns = st.columns(PER_ROW, gap="medium")
        for column, name in zip(columns, shown[start : start + PER_ROW], strict=False):
            with column:
                figure = response_figure(responses[name], y, data.classes, page_ink())
                alt = f"How the prediction of {visible(y)} changes as {visible(name)} varies."
                stage.figure(figure, alt, f"your_response_{name}")


def _map(fitted: Fitted, record: Archive, groups: dict, order: list[str]) -> None:
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
            (record, x, y, output),
            lambda: explain.two_inputs(
                record.state.model, record.scaler, data, groups[x], groups[y], output=output
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
