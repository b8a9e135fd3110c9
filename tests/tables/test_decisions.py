"""Which column is proposed, what gives a target away, what training rows alone decide."""

import numpy as np
import pytest

from dgp_core.gp.data import Scaler, split_places
from dgp_core.tables.leaks import likely_leaks
from dgp_core.tables.table import TableError, propose_target, propose_task, read_table


def written(header: str, rows) -> bytes:
    return "\n".join([header, *(",".join(map(str, row)) for row in rows)]).encode()


# Proposals.


@pytest.mark.parametrize(
    ("header", "row", "target"),
    [
        # Penguins, without their species, and with it.
        ("island,bill,mass,year", lambda i: ("ABC"[i % 3], i / 7, 99 + i, 2007 + i % 3), "mass"),
        ("species,bill,mass,year", lambda i: ("ABC"[i % 3], i / 7, i, 2007 + i % 3), "species"),
        # Orange juice.
        ("Purchase,StoreID,PctDisc,STORE", lambda i: ("CM"[i % 2], i % 5, i / 9, i), "Purchase"),
        ("LoyalCH,StoreID,PriceDiff,STORE", lambda i: (i / 8, i % 5, i / 9, i % 4), "PriceDiff"),
        ("a,b,year", lambda i: (i / 8, i % 5, 1990 + i), "b"),
    ],
)  # fmt: skip
def test_a_year_or_a_store_s_number_is_not_proposed_as_target(header, row, target):
    table = read_table(written(header, [row(i) for i in range(30)]))
    assert propose_target(table).value == target


def test_a_year_is_proposed_where_nothing_else_is_left():
    table = read_table(written("who,year", [(f"name {i}", 1990 + i % 7) for i in range(30)]))
    assert propose_target(table).value == "year"


@pytest.mark.parametrize("act", [propose_target, lambda table: table.to_dataset("y", "regression")])
def test_one_row_is_named_as_the_cause(act):
    with pytest.raises(TableError, match="one row.*at least two"):
        act(read_table(b"x,y\n1.5,2\n"))


@pytest.mark.parametrize(
    ("cells", "task", "words"),
    [
        ([5] * 4, "regression", "“y” is 5 in every row"),
        ([5] * 4, "binary", "“y” is 5 in every row"),
        (["no"] * 4, "multiclass", "“y” is no in every row"),
        (["no", "no", "yes", "no"], "binary", "“y” is no in every row that is left"),
    ],
)
def test_a_constant_target_is_named_as_the_cause(cells, task, words):
    rows = [(x, y) for x, y in zip((1.5, 2.5, "", 4), cells, strict=True)]
    with pytest.raises(TableError, match=words):
        read_table(written("x,y", rows)).to_dataset("y", task)


def test_a_constant_word_has_no_task():
    table = read_table(b"x,y\n1,a\n2,a\n4,a\n")
    with pytest.raises(TableError, match="the same in every row"):
        propose_task(table, "y")


def test_text_columns_are_named_as_the_cause():
    rows = [(f"Person {i}", f"likes the number {i * i}") for i in range(40)]
    table = read_table(written("who,what", rows))
    with pytest.raises(TableError, match="“who”: .*free text: 40 of 40.*“what”: .*free text"):
        propose_target(table)
    more = read_table(written("who,what,y", [(*row, i % 9) for i, row in enumerate(rows)]))
    with pytest.raises(TableError, match="No column is left to learn from. “who”: .*free text"):
        more.to_dataset("y", "regression")


# Leaks.


def leaks(header: str, rows, target: str, task: str, decide=()) -> tuple[str, ...]:
    table = read_table(written(header, rows))
    for name, kind in decide:
        table = table.decide(name, kind)
    made = table.to_dataset(target, task)
    found = likely_leaks(made.dataset, made.recipe)
    said = " ".join(made.report)
    assert all(f"“{name}” alone predicts “{target}” without error" in said for name in found)
    assert ("likely a leak" in said) == bool(found)
    return found


def test_a_row_number_in_a_file_sorted_by_class_is_a_likely_leak(rng):
    """As in fgl, once its row number is kept."""
    rows = [(i + 1, f"{rng.normal():.3f}", "WinF Veh Con".split()[i // 20]) for i in range(60)]
    arguments = ("count,Na,type", rows, "type", "multiclass")
    assert leaks(*arguments) == ("count",)
    shuffled = [rows[i] for i in rng.permutation(60)]
    assert leaks("count,Na,type", shuffled, "type", "multiclass") == ()


def test_a_copy_of_the_target_in_other_words_or_units_is_a_likely_leak(rng):
    y = rng.normal(20, 5, 50)
    rows = [(f"{v:.4f}", f"{v * 9 / 5 + 32:.4f}", f"{rng.normal():.3f}") for v in y]
    assert leaks("celsius,fahrenheit,x", rows, "celsius", "regression") == ("fahrenheit",)
    rows = [("MF"[int(v > 20)], ("male", "female")[int(v > 20)], f"{v:.3f}") for v in y]
    assert leaks("sex,sex in words,v", rows, "sex", "binary") == ("sex in words",)
    rows = [(i % 5, (3.5, 1.25, 8, 9, 2)[i % 5], f"{y[i]:.3f}") for i in range(50)]
    assert leaks("store,size,v", rows, "size", "regression") == ("store",)


def test_good_inputs_are_no_leaks(rng):
    """A threshold may split two classes, few rows agree by chance, a curve is to be learnt."""
    x = np.where(np.arange(60) < 30, rng.normal(1.5, 0.1, 60), rng.normal(4.5, 0.4, 60))
    rows = [(f"{v:.4f}", f"{rng.normal():.3f}", int(i >= 30)) for i, v in enumerate(x)]
    assert leaks("petal,noise,is_setosa", rows, "is_setosa", "binary") == ()
    few = [(i % 2, i % 2, i / 7) for i in range(20)]
    assert leaks("a,b,c", [(a, "uv"[b], c) for a, b, c in few], "a", "binary") == ()
    curve = [(f"{v:.4f}", f"{v**3:.5f}") for v in np.linspace(0.1, 2, 50)]
    assert leaks("x,y", curve, "y", "regression") == ()
    rare = [(f"c{i % 12}", int(i == 5), f"{rng.normal():.3f}") for i in range(13)] + [
        (f"c{i % 12}" if i % 12 != 5 else "c1", 0, f"{rng.normal():.3f}") for i in range(47)
    ]
    assert leaks("kind,y,z", rare, "y", "binary") == ()


def test_a_leak_is_found_in_many_rows_and_noise_is_not(rng):
    group = rng.integers(0, 40, 20_000)
    clean = [(g, g * 7 % 11, f"{rng.normal():.3f}") for g in group]
    assert leaks("g,y,v", clean, "y", "regression") == ("g",)
    clean[12_345] = (clean[12_345][0], 50, "0.1")
    assert leaks("g,y,v", clean, "y", "regression") == ()


# Training rows alone.


def test_medians_come_from_training_rows_alone(rng):
    x, when = rng.normal(size=40), rng.integers(1, 28, 40)
    cells = [f"{v:.3f}" if i % 4 else "" for i, v in enumerate(x)]
    rows = [(c, f"2024-01-{d:02d}" if i % 5 else "", "yes" if v > 0 else "no", f"{v * 3:.2f}")
            for i, (c, d, v) in enumerate(zip(cells, when, x, strict=True))]  # fmt: skip
    table = read_table(written("x,when,ok,y", rows))
    whole = table.to_dataset("y", "regression", "fill")
    train, held = split_places(40, 0.7, 3)
    made = whole.refit(train)
    known = np.array([float(cells[i]) for i in train if cells[i]])
    column = dict(zip(made.dataset.input_names, made.dataset.X.T, strict=True))
    assert np.median(known) != whole.recipe.inputs_from[0].median
    gaps = np.array([not c for c in cells])
    np.testing.assert_allclose(column["x"][gaps], np.median(known))
    np.testing.assert_array_equal(column["x"][~gaps], [float(c) for c in cells if c])
    np.testing.assert_array_equal(column["x is missing"], gaps)
    # What is held out says nothing: other values there give the same recipe.
    for i in held:
        rows[i] = ("" if i % 3 else 1e6, "2024-02-25" if rows[i][1] else "", *rows[i][2:])
    other = read_table(written("x,when,ok,y", rows)).to_dataset("y", "regression", "fill")
    assert other.recipe != whole.recipe and other.refit(train).recipe == made.recipe
    # The recipe makes the same numbers of the file, and the first data set stays as it was.
    np.testing.assert_allclose(made.recipe.inputs(table), made.dataset.X)
    np.testing.assert_array_equal(whole.recipe.inputs(table), whole.dataset.X)


def test_rows_that_were_dropped_need_no_medians():
    table = read_table(b"x,y\n1,2\n,3\n4,4.5\n5,1\n")
    made = table.to_dataset("y", "regression", "drop")
    assert made.refit(np.array([0, 1])) is made


def test_a_level_of_held_out_rows_alone_is_no_input_of_the_model():
    rows = [("abc"[min(i % 3, 1 if i < 30 else 2)], f"{i * 0.37 % 3:.2f}") for i in range(40)]
    made = read_table(written("k,y", rows)).to_dataset("y", "regression", "fill")
    train = made.dataset.take(np.arange(30))
    names = np.array(made.dataset.input_names)
    assert names[~Scaler.fit(train).kept].tolist() == ["k = c"]


def zones(rng, n=300) -> list[tuple]:
    """A hundred zones, the lower numbers more often."""
    return [(f"z{int(v)}", f"{rng.normal():.2f}") for v in 100 * rng.random(n) ** 2]


def test_of_many_levels_the_most_frequent_of_the_training_rows_are_inputs(rng):
    rows = zones(rng)
    table = read_table(written("zone,y", rows))
    made = table.to_dataset("y", "regression")
    train, held = split_places(300, 0.6, 1)
    for prepared, places in ((made, np.arange(300)), (made.refit(train), train)):
        counts = {z: [rows[i][0] for i in places].count(z) for z, _ in rows}
        (column,) = prepared.recipe.inputs_from
        *chosen, other = column.levels
        assert len(chosen) == 19 and other == "other" and column.other
        left = max(count for zone, count in counts.items() if zone not in chosen)
        assert min(counts[zone] for zone in chosen) >= left
        one_hot = [[z == level for level in chosen] + [z not in chosen] for z, _ in rows]
        np.testing.assert_array_equal(prepared.dataset.X, one_hot)
        np.testing.assert_array_equal(prepared.recipe.inputs(table), one_hot)
        assert prepared.dataset.input_names == prepared.recipe.input_names
    # What is held out says nothing.
    for i in held:
        rows[i] = ("z99", rows[i][1])
    changed = read_table(written("zone,y", rows)).decide("zone", "category")
    assert changed.to_dataset("y", "regression").refit(train).recipe == made.refit(train).recipe


def test_a_word_never_seen_counts_as_other_and_a_missing_one_does_not(rng):
    table = read_table(written("zone,y", [*zones(rng), ("", 1), ("other", 2)]))
    for missing in ("drop", "fill"):
        recipe = table.to_dataset("y", "regression", missing).recipe
        assert type(recipe).from_json(recipe.to_json()) == recipe
        X = recipe.inputs(read_table(b"zone,a\nnowhere,1\nother,2\n"))
        assert (X == X[0]).all() and X[0, recipe.input_names.index("zone = other")] == 1
        hole = read_table(b"zone,a\nz0,1\n,2\n")
        if missing == "drop":
            assert recipe.why_not(hole, recipe.inputs(hole)).tolist() == ["", "“zone” is missing"]
        else:
            assert recipe.inputs(hole)[1].tolist() == [0] * 20 + [1]
