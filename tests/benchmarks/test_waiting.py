"""How `benchmarks.waiting` judges what it measured, and what it keeps of it."""

import json

import pytest

from benchmarks.waiting import Report, link, met, models, slowest
from pages.ui.choices import read_query


@pytest.mark.parametrize(
    ("value", "aim", "judged"),
    [
        (10.0, "≤ 10", True),
        (10.1, "≤ 10", False),
        (6.0, "≥ 6", True),
        (5.9, "≥ 6", False),
        (1.0, "< 1", False),
        (None, "≤ 10", False),
        (7.0, "", None),
        (None, "", None),
    ],
)
def test_an_aim_is_met_or_missed_or_there_is_none(value, aim, judged):
    assert met(value, aim) is judged


def test_a_wait_that_was_given_up_is_the_slowest():
    assert slowest({"a": 0.5, "b": 2.0, "c": 1.0}) == (2.0, "b; median 1.00 s of 3")
    assert slowest({"a": 0.5, "b": None}) == (None, "b not live; median 0.50 s of 2")
    assert slowest({"a": None}) == (None, "a not live")


def test_every_row_is_in_the_file_at_once(tmp_path):
    path = tmp_path / "rows.json"
    report = Report(path=path)
    report.add("fresh", "a far choice", None, "s", "≤ 10")
    report.fail("watch", "the server ended")
    rows = json.loads(path.read_text("utf-8"))
    assert [(row["name"], row["measured"], row["met"]) for row in rows] == [
        ("fresh", "over 240 s", False),
        ("watch", "", False),
    ]
    report.add("alone", "one run", 1000.0, "steps/s")
    later = Report(before=json.loads(path.read_text("utf-8")))
    assert later.known("alone", "one run") == 1000.0
    assert later.known("alone", "another") is None


def test_thirty_visitors_have_thirty_models_by_links_that_are_understood():
    found = [read_query({name: str(value) for name, value in m.items()}) for m in models(30)]
    assert len({choices.model for choices, _ in found}) == 30
    assert all(not sentences for _, sentences in found)
    assert link(models(1)[0]) == "v=1&data=step&layers=3&inducing=10&kernels=rbf&mean=linear"
