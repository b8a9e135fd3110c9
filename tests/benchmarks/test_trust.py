"""The benchmark of trust: a row says whether its aim is met, and every case is found."""

from importlib import import_module
from pkgutil import iter_modules

import pytest

from benchmarks import trusted
from benchmarks.trusted import row


@pytest.mark.parametrize(
    ("most", "least", "aim", "met"),
    [
        (0.5, None, "≤ 0.5", True),
        (0.1, None, "≤ 0.1", False),
        (None, 0.3, "≥ 0.3", False),
        (0.3, 0.1, "0.1 to 0.3", True),
        (None, None, None, None),
    ],
)
def test_a_row_says_whether_its_aim_is_met(most, least, aim, met):
    assert row("it", 0.2, most, least) == {"case": "it", "figure": 0.2, "aim": aim, "met": met}


def test_every_case_is_there_and_the_quick_ones_are_met():
    for module in iter_modules(trusted.__path__):
        import_module(f"{trusted.__name__}.{module.name}")
    wanted = "counts streams time headers encodings wide classes softmax coverage sets"
    assert set(wanted.split()) <= set(trusted.CASES)
    for name in ("headers", "encodings"):
        assert all(found["met"] for found in trusted.CASES[name]())
