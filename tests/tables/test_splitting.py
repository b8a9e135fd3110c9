"""Which rows of a table are proposed to be held out, by its dates and identifiers."""

import numpy as np
import pytest

from dgp_core.tables.splitting import group_columns, propose_split, split_by, time_columns
from dgp_core.tables.table import TableError, read_table


def table(header: str, row, n: int = 60):
    return read_table("\n".join([header, *(row(i) for i in range(n)), ""]).encode(), "t.csv")


def month(i: int) -> str:
    return f"{2000 + i // 12}-{i % 12 + 1:02d}-01"


@pytest.mark.parametrize(
    ("header", "row", "value"),
    [
        ("date,x,y", lambda i: f"{month(i)},{i % 7},{i * 1.5}", ("latest", "date")),
        ("year,x,y", lambda i: f"{1950 + i},{i % 7},{i * 1.5}", ("latest", "year")),
        # A year that does not put the rows in order tells no time.
        ("year,x,y", lambda i: f"{1950 + i * 7 % 31},{i % 7},{i * 1.5}", ("chance", "")),
        ("patient,x,y", lambda i: f"P{i // 5},{i % 7},{i * 1.5}", ("groups", "patient")),
        ("store_id,x,y", lambda i: f"{i // 6},{i % 7},{i * 1.5}", ("groups", "store_id")),
        # An identifier that never repeats is no group.
        ("patient,x,y", lambda i: f"P{i},{i % 7},{i * 1.5}", ("chance", "")),
        ("colour,x,y", lambda i: f"{'rgb'[i % 3]},{i % 7},{i * 1.5}", ("chance", "")),
    ],
)
def test_the_columns_propose_how_to_judge(header, row, value):
    proposal = propose_split(table(header, row), "y")
    assert proposal.value == value and proposal.reason


def test_dates_and_repeated_cells_are_offered():
    t = table("date,who,x,y", lambda i: f"{month(i)},P{i // 5},{i * 7 % 60 + 0.5},{i * 1.5}")
    assert time_columns(t, "y") == ["date", "x"]
    assert group_columns(t, "y") == ["who"]
    rows = np.arange(10, 60)
    assert np.array_equal(np.argsort(split_by(t, "latest", "date", rows).values), np.arange(50))
    assert len(np.unique(split_by(t, "groups", "who", rows).values)) == 10
    with pytest.raises(TableError, match="neither dates nor numbers"):
        split_by(t, "latest", "who", rows)
