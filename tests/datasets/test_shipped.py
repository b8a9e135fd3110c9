"""The files that come with the project: shape, content, credit."""

from pathlib import Path

import numpy as np
import pytest

from datasets.shipped import FILES, SHIPPED, decimal_year

SHAPES = {
    "motorcycle": (133, 1),
    "co2": (2225, 1),
    "seattle_weather": (1461, 4),
    "concrete": (1030, 8),
    "wine_red": (1599, 11),
    "boston": (506, 13),
    "nyc_flights": (20_000, 8),
    "banana": (5300, 2),
    "fashion_mnist": (3000, 784),
}
SHARED = Path(__file__).parents[3] / "shared" / "data"


def test_every_set_of_the_list_is_there():
    assert {n: (s.rows, len(s.inputs)) for n, s in SHIPPED.items()} == SHAPES


@pytest.mark.parametrize("name", SHAPES)
def test_a_file_loads_with_its_documented_shape(name):
    d = SHIPPED[name].load()
    assert d.X.shape == SHAPES[name] and d.Y.shape == (SHAPES[name][0], 1)
    assert np.isfinite(d.X).all() and np.isfinite(d.Y).all()
    assert d.X.std(0).max() > 0 and d.Y.std() > 0
    assert len(d.story) > 40 and SHIPPED[name].licence and SHIPPED[name].source
    if d.classes:
        assert set(np.unique(d.Y)) == set(range(len(d.classes)))


def test_the_readme_names_every_file_its_licence_and_no_other():
    readme = (FILES / "README.md").read_text("utf-8")
    files = {p.name for p in FILES.iterdir()} - {"README.md"}
    assert files == {s.file for s in SHIPPED.values()}
    lines = {line.split("|")[1].strip(" `"): line for line in readme.splitlines() if "| `" in line}
    assert set(lines) == files
    for s in SHIPPED.values():
        cells = lines[s.file].split("|")
        assert all(cell.strip() for cell in cells[1:-1])
        assert s.licence.split()[0].rstrip(",") in cells[5]
    assert "Copyright © 2017 Zalando SE" in readme and "WITHOUT WARRANTY" in readme


def test_boston_carries_its_warning():
    boston = SHIPPED["boston"]
    assert "racial" in boston.warning and "racial" in boston.story
    assert "racial" in (FILES / "README.md").read_text("utf-8")


def test_a_date_becomes_a_decimal_year():
    dates = np.array(["1999-01-01", "2000-07-01", "2001-12-31"], "datetime64[D]")
    assert np.allclose(decimal_year(dates), [1999, 2000 + 182 / 366, 2001 + 364 / 365])
    x = SHIPPED["co2"].load().X[:, 0]
    assert 1958.2 < x[0] < 1958.3 and 2001.9 < x[-1] < 2002 and np.all(np.diff(x) > 0)


def test_seattle_s_days_are_counted_from_the_first():
    assert SHIPPED["seattle_weather"].load().X[:, 0].tolist() == list(range(1461))


def test_pictures_are_grey_levels_between_0_and_1():
    X = SHIPPED["fashion_mnist"].load().X
    assert X.min() == 0 and X.max() == 1 and SHIPPED["fashion_mnist"].image == (28, 28)


@pytest.mark.parametrize("name", ["boston", "concrete", "wine_red"])
def test_the_rows_are_in_the_order_that_the_paper_s_splits_need(name):
    path = SHARED / "uci" / f"{name}.npz"
    if not path.exists():
        pytest.skip("the reference rows (../shared/data) are not here")
    d = SHIPPED[name].load()
    with np.load(path, allow_pickle=False) as z:
        assert np.allclose(d.X, z["X"], rtol=1e-12) and np.allclose(d.Y[:, 0], z["y"], rtol=1e-12)
