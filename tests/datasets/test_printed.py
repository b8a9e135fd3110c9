"""The paper's figures: all of them, with its slips set right."""

import pytest

from datasets.catalogue import entry
from datasets.printed import ERRATA, SECONDS_A_STEP, SETS, SYSTEMS, printed, size

SMALL = ("boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine_red")


def test_every_table_is_there_whole():
    assert SETS[:8] == SMALL and len(SETS) == 15
    for name in SMALL:
        for score in ("loglik", "rmse"):
            assert len(printed(name, score)) == 9
            assert all(value.error is not None for value in printed(name, score).values())
    for name in ("year", "airline", "taxi"):
        assert len(printed(name, "loglik")) == len(printed(name, "rmse")) == 6
    assert len(printed("higgs", "auc")) == len(printed("susy", "auc")) == 9
    assert len(printed("rectangles_images", "accuracy")) == 8
    assert len(printed("rectangles_images", "loglik")) == 6
    assert [v.value for v in printed("mnist", "accuracy").values()] == [97.48, 97.9, 98.06, 98.11]
    assert all(len(device) == 6 for device in SECONDS_A_STEP.values())
    assert printed("nothing", "rmse") == {}


def test_what_the_paper_s_text_says_of_its_tables():
    taxi = printed("taxi", "rmse")
    assert round(1 - taxi["dgp5"].value / taxi["sgp"].value, 2) == 0.21
    cpu, gpu = SECONDS_A_STEP["cpu"], SECONDS_A_STEP["gpu"]
    assert all(5 < cpu[system] / gpu[system] < 16 for system in cpu)
    for name in ("power", "protein", "kin8nm"):  # all DGPs beat SGP 500, or equal it as printed
        scores = printed(name, "loglik")
        assert all(scores[f"dgp{L}"].value >= scores["sgp500"].value for L in range(2, 6))


def test_the_slips_are_set_right():
    for name in SETS:
        assert size(name)[1] == entry(name).D
    assert size("susy")[0] == entry("susy").N == 5_000_000
    assert all(value.value < 0 for value in printed("rectangles_images", "loglik").values())
    assert set(ERRATA) <= set(SETS)


def test_the_deepest_is_best_on_three_sets_of_eight_not_on_five():
    best = {n: max(v.value for v in printed(n, "loglik").values()) for n in SMALL}
    deepest = [n for n in SMALL if printed(n, "loglik")["dgp5"].value == best[n]]
    wide = [n for n in SMALL if printed(n, "loglik")["sgp500"].value == best[n]]
    assert deepest == ["kin8nm", "power", "protein"]
    assert sorted(deepest + wide) == sorted(SMALL)


@pytest.mark.parametrize("name", SETS)
def test_systems_have_names(name):
    for score in ("loglik", "rmse", "auc", "accuracy"):
        assert printed(name, score).keys() <= SYSTEMS.keys()
