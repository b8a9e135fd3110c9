"""Which rows models are judged by: chance, the latest rows, or whole groups of a column."""

from collections.abc import Mapping, Sequence

import streamlit as st

from dgp_core.gp.data import Dataset
from dgp_core.gp.splits import BY_CHANCE, SplitBy, SplitWay, by_input, split_columns
from dgp_core.tables.plain import visible
from dgp_core.tables.splitting import group_columns, propose_split, split_by, time_columns
from dgp_core.tables.table import Prepared, Proposal, Table, TableError
from pages.ui.sentences import safe
from pages.ui.your_data.upload_state import cached, persistent_key

JUDGE_BY = {"chance": "Chance", "latest": "The latest rows", "groups": "Whole groups"}
"""The ways to hold rows out, as they are offered."""

SPLIT_CONTROLS = ("judge_by", "latest_column", "groups_column")
"""The names of the controls, behind their page's prefix."""


def split_of_table(prepared: Prepared, table: Table, target: str, prefix: str = "") -> SplitBy:
    """The split that a person chose for a file; the proposal of its columns at first."""
    proposal, times, groups = cached(
        f"{prefix}judge_by",
        (table, target),
        lambda: (
            propose_split(table, target),
            time_columns(table, target),
            group_columns(table, target),
        ),
    )
    way, column = _control({"latest": times, "groups": groups}, proposal, prefix)
    try:
        return cached(
            f"{prefix}split_by",
            (prepared, table, way, column),
            lambda: split_by(table, way, column, prepared.rows),
        )
    except TableError as error:
        st.warning(f"{safe(error)} Rows are held out by chance.", icon=":material/warning:")
        return BY_CHANCE


def split_of_inputs(dataset: Dataset, time: str, prefix: str) -> SplitBy:
    """The same for a data set without a file, by its inputs; `time` is the one in time, if any."""
    columns = cached(f"{prefix}columns", dataset, lambda: split_columns(dataset))
    proposal = Proposal(("chance", ""), "No input puts the rows in time.")
    if time in columns["latest"]:
        proposal = Proposal(("latest", time), f"“{visible(time)}” puts the rows in time.")
    way, column = _control(columns, proposal, prefix)
    key = (dataset, way, column)
    return cached(f"{prefix}split_by", key, lambda: by_input(dataset, way, column))


def _control(
    columns: Mapping[SplitWay, Sequence[str]], proposal: Proposal, prefix: str
) -> tuple[SplitWay, str]:
    """The way and the column."""
    ways: list[SplitWay] = ["chance", *(way for way in columns if columns[way])]
    proposed, column = proposal.value
    with st.container(horizontal=True, vertical_alignment="top", key=f"{prefix}judge_by"):
        way = st.segmented_control(
            "Judge by",
            ways,
            format_func=JUDGE_BY.__getitem__,
            key=persistent_key(f"{prefix}judge_by", proposed, ways),
            required=True,
            help=f"Which rows the models do not see. Proposed: {JUDGE_BY[proposed].lower()}. "
            f"{safe(proposal.reason)} By chance, the verdict is about more rows of the same kind; "
            "for forecasts, hold out the latest rows; for new patients, shops or stations, whole "
            "groups.",
        )
        way = way or "chance"
        if way == "chance":
            return "chance", ""
        offered = columns[way]
        column = st.selectbox(
            "by the column" if way == "latest" else "of the column",
            offered,
            key=persistent_key(
                f"{prefix}{way}_column", column if column in offered else offered[0], offered
            ),
            format_func=visible,
            width=240,
        )
    return way, column
