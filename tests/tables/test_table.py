"""Decisions about columns, the way to a data set, and the same way for a second file."""

import csv
import gzip
import html
import io
import os
import re
import subprocess
import sys

import numpy as np
import pandas
import pyarrow as pa
import pytest

from benchmarks import loading
from datasets.show import show
from dgp_core.tables import csv_reader, encodings
from dgp_core.tables.parsing import parse_dates, parse_numbers
from dgp_core.tables.recipe import ColumnRecipe
from dgp_core.tables.table import (
    Limits,
    Recipe,
    TableError,
    export_csv,
    plain,
    possible_targets,
    propose_missing,
    propose_target,
    propose_task,
    propose_transform,
    read_table,
    report,
    visible,
)

CARS = b"""id,when,colour,size,ok,weight,price
1,2024-01-01,red,1.5,yes,10,100
2,2024-01-03,blue,2.5,no,NA,250
3,2024-01-11,red,,yes,30,90
4,2024-02-01,green,4.5,no,40,1200
5,2024-03-01,red,5.5,,50,310
6,2024-03-02,,6.5,no,70,
7,2024-03-04,blue,7.5,yes,90,80
"""


@pytest.fixture
def cars():
    return read_table(CARS, "cars.csv")


def kinds(table) -> dict:
    return {c.name: c.kind for c in table.columns}


# Decisions.


def test_each_column_gets_a_decision_with_a_reason(cars):
    assert kinds(cars) == {
        "id": "dropped", "when": "date", "colour": "category", "size": "number",
        "ok": "boolean", "weight": "number", "price": "number",
    }  # fmt: skip
    assert "identifier" in cars["id"].reason
    assert [c.missing for c in cars.columns] == [0, 0, 1, 1, 1, 1, 1]


def test_a_decision_can_be_changed_and_the_table_stays(cars):
    changed = cars.decide("id", "number").decide("ok", "category").decide("when", "dropped")
    assert kinds(changed)["id"] == "number" and kinds(changed)["ok"] == "category"
    assert kinds(changed)["when"] == "dropped" and "You chose" in changed["when"].reason
    assert kinds(cars)["id"] == "dropped"
    made = changed.to_dataset("price", missing="fill")
    assert "id" in made.dataset.input_names and "ok = yes" in made.dataset.input_names


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("colour", "number", "can be read as a number"),
        ("colour", "date", "can be read as a date"),
        ("colour", "boolean", "neither yes nor no"),
        ("colour", "shape", "A column is one of"),
        ("hue", "number", "There is no column"),
    ],
)
def test_a_decision_that_cannot_be_is_refused(cars, name, kind, words):
    with pytest.raises(TableError, match=words):
        cars.decide(name, kind)


def test_a_category_has_at_most_a_thousand_levels_and_twenty_inputs():
    rows = b"".join(b"w%d,%d\n" % (i % 1001, i % 5) for i in range(3003))
    table = read_table(b"a,b\n" + rows)
    assert table["a"].kind == "dropped" and "too many" in table["a"].reason
    with pytest.raises(TableError, match="1,001 levels"):
        table.decide("a", "category")
    more = read_table(b"a,b\n" + b"".join(b"w%d,%d\n" % (i % 21, i % 5) for i in range(63)))
    names = more.to_dataset("b", "regression").recipe.input_names
    assert len(names) == 20 and names[-1] == "a = other"
    fewer = read_table(b"a,b\n" + b"".join(b"w%d,%d\n" % (i % 20, i % 5) for i in range(60)))
    assert len(fewer.to_dataset("b", "regression").recipe.input_names) == 20


def test_cells_that_no_longer_fit_are_counted():
    table = read_table(b"a,b\n" + b"1,2\n2,3\n3+,5\n" * 3)
    assert table["a"].kind == "category" and table["a"].missing == 0
    changed = table.decide("a", "number")
    assert changed["a"].missing == 3 and "3 cells" in changed["a"].reason


def test_a_late_bad_cell_neither_breaks_nor_vanishes(monkeypatch):
    """The first blocks are all numbers; only the last row of the last block is not."""
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 1 << 12)
    n = 5000
    rows = [f"{i / 7!r},{i % 3},{i}" for i in range(n)] + ["oops,1,17e"]
    table = read_table("\n".join(["a,b,c", *rows]).encode())
    for name in ("a", "c"):
        assert table[name].kind == "number" and table[name].missing == 1
        assert ("oops" if name == "a" else "17e") in table[name].reason
        assert len(table.cells[name]) == n + 1
    made = table.to_dataset("b", "regression")
    np.testing.assert_array_equal(made.dataset.X[:, 0], np.arange(n) / 7)
    assert len(made.dataset) == n and "1 has a missing input" in made.report[0]


def test_late_words_of_every_sort_come_through_many_blocks(monkeypatch):
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 1 << 10)
    colours = ["red", "green", "NA", "dark grey"] * 300
    text = "x,y\n" + "".join(f"{i},{c}\n" for i, c in enumerate(colours)) + "1200,007\n"
    column = read_table(text.encode()).cells["y"].to_pylist()
    assert column == [None if c == "NA" else c for c in colours] + ["007"]


# Numbers and dates, cell by cell.


@pytest.mark.parametrize(
    ("text", "comma", "value"),
    [
        ("1,234", False, 1234), ("1,234", True, 1.234), ("1.234", True, 1234),
        ("1.234", False, 1.234), ("1 234 567,25", False, 1234567.25), ("$ -5", False, -5),
        ("-€5.5", False, -5.5), ("12 %", False, 12), ("1,23,456", False, 123456),
        ("1’234.5", False, 1234.5), ("∞", False, np.inf), ("-inf", False, -np.inf),
        ("1,2,3", False, np.nan), ("1.2.3", False, np.nan), ("0x10", False, np.nan),
        ("1e5", True, 1e5), ("1,5e-3", False, 0.0015), ("12-5", False, np.nan),
        ("٣", False, np.nan), ("", False, np.nan), ("--5", False, np.nan),
    ],
)  # fmt: skip
def test_numbers_in_many_notations(text, comma, value):
    read = parse_numbers(pa.array([text]), np.ones(1, int), comma).values[0]
    np.testing.assert_equal(read, value)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-02-29", "2024-02-29"), ("2023-02-29", "NaT"), ("2024-1-5", "2024-01-05"),
        ("2024/01/05", "2024-01-05"), ("2024-07", "2024-07-01"), ("31.12.1999", "1999-12-31"),
        ("12/31/99", "1999-12-31"), ("31/12/68", "2068-12-31"), ("5 Jan 2024", "2024-01-05"),
        ("05-Jan-24", "2024-01-05"), ("January 5, 2024", "2024-01-05"), ("Jan 2024", "2024-01-01"),
        ("2024-01-05T06:07:08.25", "2024-01-05T06:07:08.25"), ("5 Foo 2024", "NaT"),
        ("2024-01-05 23:30:00+02:00", "2024-01-05T21:30"), ("2024-01-05T00:00Z", "2024-01-05"),
        ("1/31/2024 12:05 AM", "2024-01-31T00:05"), ("1/31/2024 12:05 PM", "2024-01-31T12:05"),
        ("2024-01-05 25:00", "NaT"), ("2024-13-01", "NaT"), ("0000-01-01", "NaT"),
    ],
)  # fmt: skip
def test_dates_in_many_notations(text, moment):
    read = parse_dates(pa.array([text]), np.ones(1, int)).values[0]
    np.testing.assert_equal(read, np.datetime64(moment, "us"))


def test_day_or_month_is_reported_and_can_be_changed():
    table = read_table(b"t,y\n01/02/2024,1\n05/01/2024,2\n03/04/2024,4\n")
    assert table["t"].day_first is False and "both ways" in table["t"].reason
    by_month = table.to_dataset("y", "regression").dataset
    assert by_month.input_names == ("t (days since 2024-01-02)",)
    np.testing.assert_array_equal(by_month.X[:, 0], [0, 120, 62])
    by_day = table.decide("t", "date", day_first=True).to_dataset("y", "regression").dataset
    assert by_day.input_names == ("t (days since 2024-01-05)",)
    np.testing.assert_array_equal(by_day.X[:, 0], [27, 0, 89])


def test_rows_in_order_settle_day_or_month():
    days = b"".join(b"%02d/%02d/2024,%d\n" % (d, m, d % 4) for m in (1, 2) for d in range(1, 13))
    column = read_table(b"t,y\n" + days)["t"]
    assert column.day_first is True and "both ways" in column.reason


@pytest.mark.parametrize(
    ("cells", "unit", "values"),
    [
        (["2024-01-01 06:00", "2024-01-02 12:00"], "hours", [6, 36]),
        (["2024-01-01 06:00:10", "2024-01-01 06:01:00"], "seconds", [0, 50]),
        (["2024-01-01", "2024-12-31 12:00"], "days", [0, 365.5]),
    ],
)
def test_dates_are_counted_in_a_unit_that_suits_their_span(cells, unit, values):
    table = read_table(f"t,y\n{cells[0]},1\n{cells[1]},2\n".encode())
    dataset = table.to_dataset("y", "regression").dataset
    assert f"({unit} since 2024-01-01" in dataset.input_names[0]
    np.testing.assert_allclose(dataset.X[:, 0], values)


# From a table to a data set.


def test_rows_with_holes_are_dropped_and_the_report_adds_up(cars):
    made = cars.to_dataset("price")
    assert made.dataset.task == "regression" and made.dataset.name == "cars.csv"
    assert made.rows.tolist() == [0, 3, 6]
    assert made.dataset.Y[:, 0].tolist() == [100, 1200, 80]
    assert made.report[0] == "7 rows in, 3 out: 1 has no target, 3 have a missing input."
    assert any("“id” is dropped" in line for line in made.report)
    assert any("7 columns in: 5 became 7 inputs, 1 target, 1 dropped." in r for r in made.report)


def test_holes_are_filled_with_the_median_and_marked(cars):
    made = cars.to_dataset("price", missing="fill")
    names = made.dataset.input_names
    assert names == (
        "when (days since 2024-01-01)", "colour = blue", "colour = green", "colour = red",
        "colour is missing", "size", "size is missing", "ok", "ok is missing", "weight",
        "weight is missing",
    )  # fmt: skip
    X = dict(zip(names, made.dataset.X.T, strict=True))
    assert len(made.dataset) == 6
    np.testing.assert_array_equal(X["size"], [1.5, 2.5, 5.0, 4.5, 5.5, 7.5])
    np.testing.assert_array_equal(X["size is missing"], [0, 0, 1, 0, 0, 0])
    np.testing.assert_array_equal(X["weight"], [10, 45, 30, 40, 50, 90])
    np.testing.assert_array_equal(X["ok"], [1, 0, 1, 0, 0.5, 1])
    np.testing.assert_array_equal(X["colour = red"], [1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(X["when (days since 2024-01-01)"], [0, 2, 10, 31, 60, 63])


def test_classes_are_codes_into_their_labels(cars):
    made = cars.to_dataset("colour", missing="fill")
    assert made.dataset.task == "multiclass"
    assert made.dataset.classes == ("blue", "green", "red")
    assert made.dataset.Y[:, 0].tolist() == [2, 0, 2, 1, 2, 0]
    two = cars.to_dataset("ok", missing="fill").dataset
    assert two.task == "binary" and two.classes == ("no", "yes")
    assert two.Y[:, 0].tolist() == [1, 0, 1, 0, 0, 1]


def test_numbers_as_classes_are_in_the_order_of_numbers():
    rows = b"".join(b"%d,%d\n" % (i * i % 13, (2, 10, 9)[i % 3]) for i in range(12))
    table = read_table(b"x,class\n" + rows)
    assert propose_task(table, "class").value == "multiclass"
    assert table.to_dataset("class").dataset.classes == ("2", "9", "10")


def test_several_targets(cars):
    made = cars.to_dataset(["price", "weight"], missing="fill", transform=["log", "none"])
    assert made.dataset.output_names == ("log price", "weight")
    np.testing.assert_allclose(made.dataset.Y[0], [np.log(100), 10])
    np.testing.assert_allclose(made.recipe.outputs_back(made.dataset.Y)[0], [100, 10])
    assert not any(name.startswith("weight") for name in made.dataset.input_names)


def test_a_copy_of_the_target_is_no_input():
    table = read_table(b"x,y,z\n1,2,2\n3,4,4\n2,9,9\n")
    assert table["z"].kind == "dropped"
    made = table.to_dataset("z")
    assert made.dataset.input_names == ("x",)
    assert any("repeats the target" in line for line in made.report)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"targets": []}, "at least one"),
        ({"targets": ["price", "price"]}, "each of them once"),
        ({"targets": "hue"}, "There is no column"),
        ({"targets": "colour", "task": "regression"}, "no numbers"),
        ({"targets": "colour", "task": "binary"}, "3 different values"),
        ({"targets": "size", "task": "counts"}, "no count"),
        ({"targets": ["colour", "ok"], "task": "multiclass"}, "one target at a time"),
        ({"targets": "price", "task": "magic"}, "Choose a task"),
        ({"targets": "price", "missing": "ignore"}, "missing of"),
        ({"targets": "price", "transform": "cube"}, "transform of"),
        ({"targets": "colour", "transform": "log"}, "goes with regression"),
    ],
)
def test_a_wish_that_cannot_be_met_is_refused(cars, arguments, words):
    with pytest.raises(TableError, match=words):
        cars.to_dataset(**{"missing": "fill", **arguments})


def test_only_positive_numbers_have_a_logarithm():
    table = read_table(b"x,y\n1,0\n2,5\n4,7.5\n")
    with pytest.raises(TableError, match="choose the transform none"):
        table.to_dataset("y", transform="log")


def test_too_few_rows_or_columns_say_the_way_out():
    with pytest.raises(TableError, match="Fill missing cells"):
        read_table(b"a,b,y\n1,,1\n,2,3\n3,,4\n,5,4\n").to_dataset("y", "regression")
    with pytest.raises(TableError, match="No column is left"):
        read_table(b"a,y\n1,1\n1,2\n1,3\n").to_dataset("y", "regression")


# Proposals.


def test_the_target_is_proposed_by_name_or_place(cars):
    assert propose_target(cars).value == "price"
    last = read_table(b"u,v,w\n1,2,5\n2,2.5,6\n5,7,1\n")
    assert propose_target(last).value == "w" and "last" in propose_target(last).reason
    with pytest.raises(TableError, match="can be a target"):
        propose_target(read_table(b"who,id\nAnn,1\nBo,2\nCy,3\n"))


@pytest.mark.parametrize(
    ("values", "name", "task"),
    [
        ([1.5, 2, 3.25, 9], "y", "regression"),
        ([0, 1, 1, 0], "y", "binary"),
        (["u", "v", "u", "v"], "y", "binary"),
        (["u", "v", "w", "v"], "y", "multiclass"),
        ([1, 2, 3, 2], "label", "multiclass"),
        ([0, 0, 1, 0, 2, 0, 1, 7], "y", "counts"),
        ([3, 9, 4, 6], "visits", "counts"),
        ([3, 5, 6, 5, 7, 8, 5], "quality", "regression"),
        ([-1, 1, 1, -1], "y", "binary"),
    ],
)
def test_the_task_is_proposed_with_its_reason(values, name, task):
    rows = "".join(f"{i / 3},{v}\n" for i, v in enumerate(values))
    proposal = propose_task(read_table(f"x,{name}\n{rows}".encode()), name)
    assert proposal.value == task and proposal.reason


def test_the_logarithm_is_proposed_for_a_long_tail(rng):
    def table(y):
        return read_table(b"x,y\n" + "".join(f"{i / 3},{v}\n" for i, v in enumerate(y)).encode())

    assert propose_transform(table(rng.lognormal(0, 1, 300)), "y").value == "log"
    assert propose_transform(table(rng.normal(50, 3, 300)), "y").value == "none"
    assert propose_transform(table(rng.lognormal(0, 1, 300) - 1), "y").value == "none"


def test_few_holes_are_dropped_and_many_filled(cars):
    assert propose_missing(cars).value == "fill"
    rows = b"".join(b"%d,%d\n" % (i * 7 % 90, i % 11) for i in range(99))
    assert propose_missing(read_table(b"a,b\n" + rows + b",3\n")).value == "drop"
    assert "No cell" in propose_missing(read_table(b"a,b\n" + rows)).reason


# A second file.


def test_a_second_file_becomes_the_same_inputs(cars):
    for missing in ("drop", "fill"):
        recipe = cars.to_dataset("price", missing=missing).recipe
        whole = cars.to_dataset("price", missing=missing)
        second = b"weight;colour;when;extra;ok;size\n40,0;green;1.2.2024;x;no;4,5\n"
        X = recipe.inputs(read_table(second))
        row = whole.rows.tolist().index(3)
        np.testing.assert_array_equal(X, whole.dataset.X[row : row + 1])


def test_a_recipe_survives_json(cars):
    for targets, task in (("price", "regression"), ("colour", "multiclass")):
        recipe = cars.to_dataset(targets, task, missing="fill").recipe
        again = Recipe.from_json(recipe.to_json())
        assert again == recipe
        np.testing.assert_array_equal(again.inputs(cars), recipe.inputs(cars))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "null", '{"inputs_from": 3}', "x" * 100, '{"inputs_from": [], "targets": []}'],
)
def test_what_is_no_recipe_is_refused(text):
    with pytest.raises(TableError, match="no recipe"):
        Recipe.from_json(text)


def test_a_tampered_recipe_is_refused(cars):
    text = cars.to_dataset("price").recipe.to_json()
    for old, new in (("regression", "magic"), ('"drop"', '"keep"'), ('"days"', '"moons"')):
        with pytest.raises(TableError, match="no recipe"):
            Recipe.from_json(text.replace(old, new))


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (b"when,colour,Size,ok,weight\n2024-01-01,red,1,yes,2\n", "lacks “size”.*is “Size” meant"),
        (b"a,b\n1,2\n", "lacks “when”, “colour”, “size”, “ok”, “weight”"),
    ],
)
def test_a_second_file_that_lacks_a_column_is_told_which(cars, second, words):
    recipe = cars.to_dataset("price").recipe
    with pytest.raises(TableError, match=words):
        recipe.inputs(read_table(second))


@pytest.mark.parametrize("missing", ["drop", "fill"])
def test_rows_that_cannot_be_predicted_say_why_and_the_others_are_as_ever(cars, missing):
    recipe = cars.to_dataset("price", missing=missing).recipe
    day = "2024-01-01"
    rows = [f"{day},red,1,yes,2", f"{day},mauve,1,yes,2", f"{day},red,1,perhaps,2",
            f"{day},red,NA,yes,2", f"{day},red,big,yes,2", "soon,mauve,1,yes,2"]  # fmt: skip
    table = read_table("\n".join(["when,colour,size,ok,weight", *rows]).encode())
    X = recipe.inputs(table)
    np.testing.assert_array_equal(
        X[:1], recipe.inputs(read_table(("when,colour,size,ok,weight\n" + rows[0]).encode()))
    )
    why = recipe.why_not(table, X)
    assert ((why == "") == np.isfinite(X).all(1)).all()
    filled = missing == "fill"
    assert why.tolist() == [
        "",
        "“colour” is “mauve”, never seen in training",
        "“ok” is “perhaps”, never seen in training",
        "" if filled else "“size” is missing",
        "" if filled else "“size” is “big”, no number",
        ("" if filled else "“when” is “soon”, no date; ")
        + "“colour” is “mauve”, never seen in training",
    ]


def test_a_second_file_with_holes_takes_the_first_file_s_medians(cars):
    recipe = cars.to_dataset("price", missing="fill").recipe
    second = read_table(b"when,colour,size,ok,weight\n2024-01-01,,NA,,?\n2024-01-01,red,1,no,5\n")
    X = dict(zip(recipe.input_names, recipe.inputs(second).T, strict=True))
    assert X["size"][0] == 5.0 and X["weight"][0] == 45 and X["ok"][0] == 0.5
    assert X["colour is missing"][0] == 1 and X["colour = red"].tolist() == [0, 1]


def test_a_level_that_looks_like_a_number_is_found_again():
    table = read_table(b"a,y\n1,2\n2,3\n3+,5\n1,7\n2,7\n3+,6.5\n")
    recipe = table.to_dataset("y", "regression").recipe
    assert recipe.inputs(read_table(b"a,b\n2,0\n1,0\n")).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_a_level_is_found_again_in_another_spelling():
    table = read_table(b"a,y\n1.50,2\n2.00,3\nx,5\n1.50,7\n2.00,7\nx,6.5\n")
    recipe = table.to_dataset("y", "regression").recipe
    assert recipe.inputs(read_table(b"a,b\n2,0\n1.5,0\n")).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_names_of_inputs_are_distinct():
    table = read_table(b"a,a = u,y\nu,1,1\nv,2,2\nw,4,3\nu,3,5\n")
    names = table.to_dataset("y", "regression").recipe.input_names
    assert names == ("a = u", "a = v", "a = w", "a = u (2)")
    assert ColumnRecipe("c", "category", ("x", "y")).names == ("c = y",)


# What is shown and what is exported.


def test_cells_that_a_spreadsheet_would_run_are_escaped():
    text = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", " =1", "safe", "a=b", 'say "hi"', "x,y", "l\nm"]
    numbers = np.array([-1.5, 2, np.nan, -np.inf, 1e-300, 0, 1, 2, 3, 4, 5, 6])
    days = np.full(12, np.datetime64("2024-01-02"))
    data = export_csv(
        {"=cmd": np.array(text, object), "n": numbers, "whole": np.arange(-6, 6), "d": days}
    )
    rows = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert rows[0] == ["'=cmd", "n", "whole", "d"]
    assert [row[0] for row in rows[1:]] == [
        "'=1+1", "'+1", "'-1", "'@x", "'\tx", "'\rx", "' =1", "safe", "a=b", 'say "hi"', "x,y",
        "l\nm",
    ]  # fmt: skip
    assert [row[1] for row in rows[1:4]] == ["-1.5", "2.0", ""]
    assert [row[2] for row in rows[1:3]] == ["-6", "-5"] and rows[1][3] == "2024-01-02"
    with pytest.raises(ValueError, match="equally long"):
        export_csv({"a": np.zeros(2), "b": np.zeros(3)})


def test_what_is_exported_is_read_back(rng):
    x = rng.normal(size=50)
    table = read_table(export_csv({"x": x, "w": np.array(["u", "-v"] * 25)}))
    np.testing.assert_array_equal(table.cells["x"], x)
    assert table.cells["w"].to_pylist() == ["u", "'-v"] * 25


NASTY = [
    "<script>alert(1)</script>", "<b>bold</b>", "**bold** _it_ `code`", "[x](javascript:alert(1))",
    "![x](http://e.vil/p.png)", "$\\alpha$", ":red[text]", ":smile:", "# title", "&lt;b&gt;",
    "a<br>b", "www.e.vil", "me@e.vil", "~~gone~~", "| a | b |", "- item", "1. item", "-> <- --",
    '<a href="http://e.vil">x</a>', ":material/delete:", "{x}", "x^2^", "a\\*b", "1) item",
]  # fmt: skip


@pytest.mark.parametrize("name", NASTY)
def test_a_name_with_html_or_markdown_shows_as_it_is_spelt(name):
    shown = plain(name)
    assert not re.search(r"[<>*_`\[\]$\\|~{}()!^\"]|#(?![0-9]+;)|&(?!#[0-9]+;)", shown)
    assert not re.match(r"[0-9]+[.)]|[-+] ", shown)
    assert not re.search(r":\w+:|:\w+\[|://|www\.\w|\w@\w|->|<-|--", html.unescape(shown))
    assert html.unescape(shown).replace("\u2060", "") == name


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("a\x00b\x1b[31mc", "a b [31mc"), ("a\r\nb\tc", "a b c"), ("\u202egnp.exe", "gnp.exe"),
        ("x" * 300, "x" * 59 + "…"), ("zero\u200bwidth", "zero width"), ("\ud800", "\ufffd"),
    ],
)  # fmt: skip
def test_names_are_one_short_line_without_control_characters(name, seen):
    assert visible(name) == seen


def test_a_name_that_is_nothing_still_shows():
    assert html.unescape(plain("\x00 ")) == "(no name)"
    assert len(plain("<" * 10_000)) < 60 * 7


def test_errors_and_reports_carry_no_control_characters():
    table = read_table(b"a\x1b[2J,b\n1,x\x1b]0;pwned\x07\n2,y\n3,z\n1,y\n")
    with pytest.raises(TableError) as caught:
        table.decide("b", "boolean")
    assert "\x1b" not in str(caught.value) + report(table)


# Limits, and the file's way in.


def test_the_limits_say_why_and_the_way_on(tmp_path):
    path = tmp_path / "big.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 1000)
    with pytest.raises(TableError, match="shared.*python -m dgp_core fit"):
        read_table(path, limits=Limits(bytes=1000))
    with pytest.raises(TableError, match="shared.*python -m dgp_core fit"):
        read_table(path, limits=Limits(rows=999))
    assert read_table(path, limits=None).rows == 1000
    assert read_table(path, limits=Limits(rows=1000)).rows == 1000


def test_a_small_gzip_cannot_fill_the_memory():
    bomb = gzip.compress(b"0" * 50_000_000)
    with pytest.raises(TableError, match="once unpacked"):
        read_table(bomb, limits=Limits(bytes=1_000_000))


def test_every_way_in_gives_the_same(tmp_path):
    path = tmp_path / "cars.csv"
    path.write_bytes(CARS)
    with path.open("rb") as file:
        tables = [read_table(x) for x in (CARS, str(path), path, file, io.BytesIO(CARS))]
    assert len({report(t).replace("table", "cars.csv") for t in tables}) == 1
    with pytest.raises(TableError, match="cannot be opened"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="cannot be opened"):
        read_table(tmp_path)
    upload = io.BytesIO(CARS)
    assert report(read_table(upload)) == report(read_table(upload))


def test_very_wide_files_are_read_quickly(rng):
    """Long names and few rows, as of genes: the header alone is larger than a first look."""
    names = [f"a gene with quite a long name, number {i}" for i in range(8000)]
    X = rng.integers(0, 3, (6, 8000))
    text = ";".join(names) + "\n" + "\n".join(";".join(map(str, row)) for row in X) + "\n"
    assert len(";".join(names)) > encodings.HEAD_BYTES
    table = read_table(text.encode(), limits=None)
    assert list(table.cells) == names
    np.testing.assert_array_equal(np.array([*table.cells.values()]).T, X)
    assert sum("same as in" in c.reason for c in table.columns) > 7000


def test_show_prints_the_report(tmp_path, capsys):
    path = tmp_path / "cars.csv"
    path.write_bytes(CARS)
    assert show(path) == 0
    out = capsys.readouterr().out
    assert "7 rows in the file, 7 read; 7 columns, 6 kept, 1 dropped." in out
    assert "target   price" in out and "identifier" in out
    path.write_bytes(b"PK\x03\x04")
    assert show(path) == 2
    assert "Excel" in capsys.readouterr().err


def test_shipped_files_load_with_their_tasks(shared_data):
    tasks = {
        "motorcycle": "regression", "boston": "regression", "concrete": "regression",
        "wine_red": "regression", "banana": "binary", "seattle_weather": "multiclass",
        "co2_mauna_loa_weekly": "regression",
    }  # fmt: skip
    for name, task in tasks.items():
        table = read_table(shared_data / "ship" / f"{name}.csv")
        target = propose_target(table).value
        made = table.to_dataset(target)
        assert made.dataset.task == task and len(made.dataset) == table.rows_in


@pytest.mark.parametrize("kind", ["numbers", "mixed", "decimal comma", "a late bad cell"])
def test_the_benchmark_writes_files_that_both_readers_read_alike(tmp_path, kind):
    path, decimal = tmp_path / "table.csv", "," if kind == "decimal comma" else "."
    loading.write(path, kind, 300)
    for reader in ("pandas", "ours"):
        row = loading.measure(reader, str(path), decimal)
        assert (row["rows"], row["columns"]) == (300, 10) and row["seconds"] > 0
    peer = pandas.read_csv(path, decimal=decimal, sep=";" if decimal == "," else ",")
    table = read_table(path)
    for name in peer.columns:
        if peer[name].dtype.kind in "fi":
            np.testing.assert_allclose(table.cells[name], peer[name].to_numpy(float), rtol=1e-15)
        else:
            assert [str(w) for w in table.cells[name].to_pylist()] == list(map(str, peer[name]))


# Memory.

READING = """
import io, re, sys, threading, time
from pathlib import Path
import numpy as np, pyarrow as pa
from pyarrow import csv
from dgp_core.tables.table import read_table

def held():
    return 1024 * int(re.search(r"VmRSS:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def write(N):
    X = np.random.default_rng(0).standard_normal((N, 21)).round(4)
    file = io.BytesIO()
    csv.write_csv(pa.table({f"x{d}": X[:, d] for d in range(21)}), file)
    return file.getvalue()

read_table(write(100)).to_dataset("x20")  # what is loaded with the first
Path("data.csv").write_bytes(write(600_000))
pa.default_memory_pool().release_unused()
before = most = held()
over = threading.Event()

def look():
    global most
    while not over.wait(0.002):
        most = max(most, held())

looking = threading.Thread(target=look)
looking.start()
file = io.BytesIO(Path("data.csv").read_bytes())
table = read_table(file, "data.csv")
file.seek(0), file.truncate()
made = table.to_dataset("x20")
table.share(made)
over.set(), looking.join()
data = made.dataset.X.nbytes + made.dataset.Y.nbytes
print((most - before) / data, (held() - before) / data)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells it")
def test_a_file_becomes_a_data_set_in_less_than_three_times_its_numbers(tmp_path):
    """And what stays is little more than once: the table has no copy of its own."""
    here = {**os.environ, "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", READING]
    run = subprocess.run(
        command, cwd=tmp_path, env=here, capture_output=True, text=True, check=True
    )
    most, left = map(float, run.stdout.split())
    assert most < 3.0 and left < 1.6


def test_a_table_shares_its_numbers_with_the_data_set_and_says_the_same():
    rng = np.random.default_rng(0)
    lines = [
        f"{a:.3f},{b:.3f},{'uvw'[i % 3]},{i % 2},2024-01-{1 + i % 28:02d},{c:.3f}"
        for i, (a, b, c) in enumerate(rng.standard_normal((60, 3)))
    ]
    text = "\n".join(["a,b,word,flag,day,y", *lines]).encode()
    table, fresh = read_table(text), read_table(text)
    made = table.to_dataset("y")
    table.share(made)
    X = made.dataset.X
    assert np.shares_memory(table.cells["a"], X) and np.shares_memory(table.cells["b"], X)
    for name in ("flag", "y"):  # these do not keep all that was read
        assert table.cells[name].base is None
    again = table.to_dataset("a")
    table.share(again)
    assert np.shares_memory(table.cells["y"], again.dataset.X)
    assert not any(np.shares_memory(c, X) for c in table.cells.values() if hasattr(c, "base"))
    np.testing.assert_array_equal(again.dataset.X, fresh.to_dataset("a").dataset.X)
    for name, cells in fresh.cells.items():
        ours = table.cells[name]
        assert np.array_equal(ours, cells) if isinstance(cells, np.ndarray) else ours.equals(cells)


@pytest.mark.parametrize("missing", ["drop", "fill"])
def test_a_table_keeps_its_own_cells_where_the_data_set_has_others(missing):
    text = "a,b,y\n" + "".join(f"{'' if i == 3 else i * 0.5},{i * i / 7},{i}\n" for i in range(20))
    table, fresh = read_table(text.encode()), read_table(text.encode())
    made = table.to_dataset("y", "regression", missing)
    table.share(made)
    for name, cells in fresh.cells.items():
        assert np.array_equal(table.cells[name], cells, equal_nan=True)
    assert not np.shares_memory(table.cells["a"], made.dataset.X)
    assert np.shares_memory(table.cells["b"], made.dataset.X) == (missing == "fill")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_there_is_room_for_every_row_however_lines_end(end):
    text = end.join(["x,note,y", *(f'{i},"a{end}b",{i / 8}' for i in range(40))])
    for tail in ("", end, 3 * end):
        table = read_table((text + tail).encode())
        np.testing.assert_array_equal(table.cells["x"], np.arange(40.0))
        np.testing.assert_array_equal(table.cells["y"], np.arange(40) / 8)


def test_words_that_are_too_many_for_classes_are_no_target():
    lines = "".join(f"{chr(65 + i % 26)},name {i},{i},{i % 5}\n" for i in range(78))
    table = read_table(f"letter,who,a,b\n{lines}".encode())
    assert [c.kind for c in table.columns] == ["category", "dropped", "number", "number"]
    assert possible_targets(table) == ["letter", "a", "b"]
    many = "".join(f"w{i % 101},{i},{i % 5}\n" for i in range(303))
    table = read_table(f"zone,a,b\n{many}".encode())
    assert table["zone"].kind == "category" and possible_targets(table) == ["a", "b"]
