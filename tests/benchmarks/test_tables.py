"""The README's tables are those of the committed files; a step's growth is a slope."""

import numpy as np
import pytest

from benchmarks import growth, tables
from benchmarks.report import ROOT


def test_the_readme_s_tables_are_those_of_the_files():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert tables.written(text) == text


def test_a_table_says_met_or_missed_and_leaves_out_what_nobody_measured(monkeypatch):
    rows = [{"what": "a", "ms": 1.23456, "met": True}, {"what": "b", "ms": None, "met": False}]
    lines = tables.markdown(rows).splitlines()
    assert lines[2:] == ["| a | 1.23 | met |", "| b | – | missed |"]
    monkeypatch.setattr(tables, "SECTIONS", (("T", "w", lambda: rows), ("U", "w", lambda: [])))
    old = f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n"
    new = tables.written(old)
    assert new.startswith("before\n") and new.endswith("\nafter\n") and "old" not in new
    assert "### T" in new and "### U" not in new and tables.written(new) == new


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_its_power(power):
    x = np.array([1.0, 2.0, 8.0, 32.0])
    assert growth.exponent(x, 7 * x**power) == pytest.approx(power, abs=1e-12)


def test_work_is_rows_by_squared_inducing_points_by_outputs():
    assert growth.work({"B": 10, "M": 3, "depth": 3, "width": 4}) == 10 * 9 * (4 + 4 + 1)
    assert growth.work({"B": 10, "M": 3, "depth": 1, "width": 4}) == 10 * 9
