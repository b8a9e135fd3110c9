"""The controls of "Your data" before there is a fit: what is brought, and what is predicted."""

from dataclasses import replace

import streamlit as st

from datasets.catalogue import entry
from dgp_core.live.trial import FEWEST_FOLDS, MOST_FOLD_CELLS, MOST_FOLDS
from dgp_core.tables.plain import visible
from dgp_core.tables.table import Prepared, TableError, possible_targets
from dgp_core.training.plan import Plan, estimate_plan, plan_for
from pages.ui.your_data import desk
from pages.ui.your_data.desk import held, memory, once, safe

ORIGINS = {
    "file": "A file",
    "paste": "Paste a table",
    "lab": "A set of this lab",
    "model": "A model that I saved",
}
KINDS = {
    "number": "Number",
    "date": "Date",
    "category": "Category",
    "boolean": "Yes or no",
    "dropped": "Leave out",
}
TASKS = {
    "regression": "A number",
    "binary": "One of two classes",
    "multiclass": "One of several classes",
    "counts": "A count (0, 1, 2, …)",
}
MISSING = {"drop": "Leave such rows out", "fill": "Fill them and mark it"}
TRANSFORMS = {"none": "As it is", "log": "Its logarithm"}
KERNELS = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic")
LONG_SECONDS = 300.0
"""Folds that would take longer are not proposed: they can be added once the main fit is over."""
PASTED = "pasted.csv"
"""What a pasted table is called, in a command and in a script."""
STEPS = (10, 100, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)


# 1. Bring.


def uploaded() -> None:
    if (file := desk.new_file("your_file")) is not None:
        desk.take(file, file.name)
        desk.let_go(file)


def pasted() -> None:
    memory().pasted = st.session_state.your_pasted.encode()
    desk.take(memory().pasted, PASTED)


def model_uploaded() -> None:
    if (file := desk.new_file("your_model")) is not None:
        desk.open_model(file)


def bring_data() -> None:
    """A file, a text, a set of the lab, or a model that was saved."""
    st.header("1 · Bring", anchor="bring")
    st.markdown(
        "A table with a row for each thing that you observed, and a column to be predicted from "
        "the others. It stays in this session's memory, and goes when you close the page."
    )
    origin = st.segmented_control(
        "What do you bring?",
        list(ORIGINS),
        format_func=ORIGINS.__getitem__,
        key=held("origin", "file", ORIGINS),
        required=True,
    )
    kept = memory()
    if origin == "file":
        st.file_uploader(
            "CSV or its kin (commas, semicolons, tabs), gzip of these, or Parquet",
            key="your_file",
            on_change=uploaded,
            help="Names in the first row help, but are not needed. Missing cells, dates, decimal "
            "commas and words are understood; what was made of them is shown below.",
        )
        most = st.get_option("server.maxUploadSize")
        with st.expander(f"A file of more than {most:,} MB?", icon=":material/terminal:"):
            st.markdown(
                "It does not fit through the browser. In a terminal there is no limit; this reads "
                "it where it is, proposes the rest by its rows, and makes a model that opens here:"
            )
            st.code(desk.unknown_command("YOUR_FILE.csv"), language="bash")
    elif origin == "paste":
        st.text_area(
            "A table with its header, as you copy it from a spreadsheet",
            key=held("pasted", ""),
            height=160,
            placeholder="height\tweight\n171\t64\n183\t80",
        )
        with st.container(horizontal=True, key="paste_bar"):
            st.button("Read it", on_click=pasted, key="read_pasted", icon=":material/table_rows:")
            if kept.brought is not None and kept.brought.file == PASTED:
                st.download_button(
                    f"Keep it as {PASTED}",
                    kept.pasted,
                    file_name=PASTED,
                    mime="text/csv",
                    icon=":material/download:",
                    key="download_pasted",
                    on_click="ignore",
                    help="The command and the script of the steps below look for this file.",
                )
    elif origin == "lab":
        name = st.selectbox(
            "A real table that comes with this lab",
            desk.FILE_SETS,
            format_func=lambda name: entry(name).title,
            key=held("set", "concrete", desk.FILE_SETS),
        )
        st.markdown(safe(entry(name).story))
        if entry(name).warning:
            st.warning(safe(entry(name).warning), icon=":material/warning:")
        st.button(
            "Take it",
            on_click=desk.take_set,
            args=(name,),
            key="take_set",
            icon=":material/download:",
        )
    else:
        st.file_uploader(
            "A model's file (.npz), from step 5 here or from `python -m dgp_core fit`",
            key="your_model",
            on_change=model_uploaded,
        )
        if kept.unopened:
            st.error(safe(kept.unopened), icon=":material/error:")
        if kept.opened is not None:
            st.success(
                f"**{safe(kept.opened[0])}** is open: step 5 below predicts with it.",
                icon=":material/check:",
            )
    if kept.refused and origin != "model":
        st.error(safe(kept.refused), icon=":material/error:")
        if kept.too_large:
            st.markdown("Where there is a terminal, this trains on the whole file:")
            st.code(kept.too_large, language="bash")
        if kept.brought is not None:
            st.caption("What you brought before is still below.")


def chosen_row() -> None:
    """A row of the table of columns was clicked: its column is the one to change."""
    seen, brought = st.session_state.get("your_columns"), memory().brought
    rows = seen.selection.rows if seen is not None else ()
    if rows and brought is not None and rows[0] < len(brought.decided.columns):
        desk.say("column", brought.decided.columns[rows[0]].name)


def decided(column: str) -> None:
    """Another kind for a column; the control goes back where it cannot be.

    A browser that has not heard of a new file yet may still speak of a column of the old one.
    """
    kept, kind = memory(), st.session_state.get(f"your_kind {column}")
    if kept.brought is None or kind is None or column not in kept.brought.decided.cells:
        return
    order = st.session_state.get(f"your_day_first {column}")
    before = kept.brought.decided
    kept.undecided = desk.decide(
        column,
        kind,
        {"day": True, "month": False}.get(order) if order else None,
    )
    if kept.brought.decided is not before:
        desk.forget("missing", f"day_first {column}")
        if column == kept.held.get("target"):
            desk.forget("task", "transform")
    desk.say(f"kind {column}", kept.brought.decided[column].kind)


def decide_columns() -> None:
    """The door's report, and how to disagree with it."""
    kept = memory()
    assert kept.brought is not None
    table = kept.brought.decided
    dropped = sum(column.kind == "dropped" for column in table.columns)
    lost = table.rows_in - table.rows
    st.markdown(
        f"**{safe(table.name)}: {table.rows:,} rows** and {len(table.columns):,} columns"
        + (f", {dropped:,} of them left out" if dropped else "")
        + (f"; {lost:,} rows could not be read" if lost else "")
        + ". "
        + " ".join(safe(note) for note in table.notes)
    )
    sketches = once("sketch", kept.brought.read, lambda: _sketches(table))
    st.dataframe(
        {
            "Column": [column.name for column in table.columns],
            "Became": [KINDS[column.kind] for column in table.columns],
            "Why": [column.reason for column in table.columns],
            "Missing": [column.missing for column in table.columns],
            "Spread": sketches,
        },
        hide_index=True,
        height=min(420, 38 + 35 * len(table.columns)),
        key="your_columns",
        on_select=chosen_row,
        selection_mode="single-row",
        column_config={
            "Column": st.column_config.TextColumn(width="medium"),
            "Became": st.column_config.TextColumn(width="small"),
            "Why": st.column_config.TextColumn(width="large"),
            "Missing": st.column_config.NumberColumn(format="localized", width="small"),
            "Spread": st.column_config.BarChartColumn(
                y_min=0, help="How its values are spread; of words, the commonest first."
            ),
        },
        alt="What each column of the file became, and why.",
    )
    names = [column.name for column in table.columns]
    with st.container(horizontal=True, vertical_alignment="bottom", key="change_column"):
        name = st.selectbox(
            "Change what a column is",
            names,
            key=held("column", names[0], names),
            format_func=visible,
            help="Or click its row above.",
            width=280,
        )
        st.selectbox(
            "It is",
            list(KINDS),
            format_func=KINDS.__getitem__,
            key=held(f"kind {name}", table[name].kind, KINDS),
            on_change=decided,
            args=(name,),
            width=200,
        )
        if table[name].kind == "date" and table[name].day_first is not None:
            st.selectbox(
                "1/2/2024 is",
                ["day", "month"],
                format_func={"day": "1 February", "month": "2 January"}.__getitem__,
                key=held(f"day_first {name}", "day" if table[name].day_first else "month"),
                on_change=decided,
                args=(name,),
                width=160,
            )
    if kept.undecided:
        st.warning(safe(kept.undecided), icon=":material/warning:")
    with st.expander(f"The first {min(desk.SHOWN_ROWS, table.rows)} rows"):
        st.dataframe(
            once("rows", kept.brought.read, lambda: desk.row_table(table, slice(desk.SHOWN_ROWS))),
            hide_index=True,
        )


def _sketches(table) -> list[list[float]]:
    return [desk.sketch(table.cells[column.name]) for column in table.columns]


def choose_target() -> Prepared | None:
    """What is to be predicted, from what; the rows that are left to learn from."""
    kept = memory()
    assert kept.brought is not None
    table = kept.brought.decided
    names = once("targets", table, lambda: possible_targets(table))
    st.subheader("What shall be predicted?", anchor=False)
    try:
        if not names:
            raise TableError("Every column is left out: change at least two of them above.")
        first = kept.brought.target if kept.brought.target in names else names[-1]
        what, how, gaps, scale = st.columns(4, gap="medium")
        with what:
            target = st.selectbox(
                "The column to predict",
                names,
                key=held("target", first, names),
                on_change=desk.forget,
                args=("task", "transform"),
                help="Words of up to 100 levels can be predicted as classes, though more than 20 "
                "are too many for an input.",
                format_func=visible,
            )
        known = kept.brought.task if target == kept.brought.target else None
        wished = desk.proposed(table, target, known)
        with how:
            task = st.selectbox(
                "It is",
                list(TASKS),
                key=held("task", wished["task"][0], TASKS),
                format_func=TASKS.__getitem__,
                help=f"Proposed: {TASKS[wished['task'][0]].lower()}. {safe(wished['task'][1])}",
            )
        with gaps:
            missing = st.selectbox(
                "Rows with missing cells",
                list(MISSING),
                key=held("missing", wished["missing"][0], MISSING),
                format_func=MISSING.__getitem__,
                help=f"Proposed: {MISSING[wished['missing'][0]].lower()}. {wished['missing'][1]}",
            )
        with scale:
            transform = st.selectbox(
                "Learn",
                list(TRANSFORMS),
                key=held("transform", wished["transform"][0], TRANSFORMS),
                format_func=TRANSFORMS.__getitem__,
                disabled=task != "regression",
                help=f"Proposed: {TRANSFORMS[wished['transform'][0]].lower()}. "
                f"{wished['transform'][1]} Predictions come back in the column's own unit.",
            )
        with st.spinner("The rows become numbers …", show_time=True):
            prepared = desk.prepare(target, task, missing, transform)
    except TableError as error:
        st.error(safe(error), icon=":material/error:")
        return None
    return prepared


# 2. The plan.


def can_fold(prepared: Prepared) -> bool:
    """Whether folds can be made of these rows."""
    data = prepared.dataset
    return data.X.size <= MOST_FOLD_CELLS and len(data) >= FEWEST_FOLDS


def chosen_plan(prepared: Prepared) -> tuple[Plan, int]:
    """The plan for these rows, as changed in the expander, and the number of folds."""
    data = prepared.dataset
    plan = plan_for(data)
    most = max(1, int(0.9 * len(data)))
    offered = [0, *(k for k in (3, 5, 10, MOST_FOLDS) if k <= len(data))]
    offered = offered if can_fold(prepared) else [0]
    with st.expander("Change the plan", icon=":material/tune:"):
        one, two, three = st.columns(3, gap="medium")
        with one:
            layers = st.slider(
                "Depth",
                1,
                5,
                key=held("layers", plan.model.layers),
                help="Layers of the deep model. With one, it is its own rival.",
            )
            kernel = st.selectbox(
                "Kernel",
                KERNELS,
                key=held("kernel", "rbf", KERNELS),
                help="What functions a layer believes in: rbf is very smooth, matern12 rough.",
            )
        with two:
            key = held("inducing", min(plan.model.inducing_counts[0], most))
            st.session_state[key] = min(st.session_state[key], most, 1000)
            inducing = st.number_input(
                "Inducing points",
                1,
                min(most, 1000),
                key=key,
                help="M: how much each layer can remember. Cost grows with its square.",
            )
            steps = st.select_slider(
                "Steps",
                STEPS,
                key=held("steps", plan.train.steps, STEPS),
                format_func=lambda n: f"{n:,}",
                help="Gradient steps. Rates fall towards the last one.",
            )
        with three:
            wait = estimate_plan(plan, plan.folds)
            first = plan.folds if plan.folds in offered and wait < LONG_SECONDS else 0
            folds = (
                st.select_slider(
                    "Folds",
                    offered,
                    key=held("folds", first, offered),
                    format_func=lambda k: str(k) if k else "one split",
                    help="How often the models are fitted anew, each time without other rows, to "
                    "judge them by. More folds, surer verdict, longer wait.",
                )
                if len(offered) > 1
                else 0
            )
            seed = st.number_input(
                "Seed", 0, 9999, key=held("seed", 0), help="Another seed splits the rows otherwise."
            )
    model = replace(plan.model, layers=layers, inducing=int(inducing), kernels=kernel)
    train = replace(plan.train, steps=steps, seed=int(seed), ramp_steps=min(100, steps // 5))
    own = model == plan.model and train.steps == plan.train.steps
    changed = replace(plan, model=model, train=train, why=plan.why if own else "")
    return changed, int(folds)
