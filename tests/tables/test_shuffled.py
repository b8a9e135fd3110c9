"""Rows in random order on disk: nothing is lost, any part is a fair sample, and once is enough."""

import gzip
import json
import os
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pyarrow import feather

from dgp_core.tables import large_text, shuffled
from dgp_core.tables.large_file import (
    LargeFile,
    TableParts,
    open_large,
    opens_in_parts,
    recipe_for,
    shuffled_beside,
)
from dgp_core.tables.shuffled import open_shuffled, pack, unpack
from dgp_core.tables.table import TableError, read_table
from dgp_core.training.rows import Stream, survey


@given(
    arrays.arrays(
        np.float64,
        st.integers(1, 30),
        elements=st.one_of(
            st.just(np.nan),
            st.floats(-1e300, 1e300),
            st.floats(-1e6, 1e6, width=32),
            st.integers(-(2**53) + 1, 2**53 - 1).map(float),
            st.integers(0, 9).map(lambda i: 1000.0 * i),
        ),
    )
)
@settings(max_examples=150, deadline=None)
def test_numbers_come_back_to_the_last_bit(x):
    how, q = pack(x)
    np.testing.assert_array_equal(unpack(how, q, "number"), x)


@given(arrays.arrays(np.int64, st.integers(1, 30), elements=st.integers(-(2**63), 2**63 - 1)))
@settings(max_examples=60, deadline=None)
def test_dates_and_codes_come_back_to_the_last_bit(x):
    how, q = pack(x)
    np.testing.assert_array_equal(unpack(how, q, "date"), x)


def test_a_run_of_small_numbers_takes_little_room():
    seconds = np.array([1.7e15, 1.7e15 + 3e6, 1.7e15 + 9e6])
    assert pack(seconds.astype(np.int64))[1].dtype == np.uint8
    assert pack(np.array([0.5, np.nan]))[1].dtype == np.float32
    assert pack(np.array([0.1, np.nan]))[1].dtype == np.float64


@pytest.fixture
def small_runs(monkeypatch):
    """Runs of 2,000 and parts of 1,000 rows of three columns."""
    monkeypatch.setattr(shuffled, "RUN_CELLS", 6000)
    monkeypatch.setattr(shuffled, "PART_ROWS", 1000)


N, BATCH = 20_000, 200


def orders(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The same rows sorted, in long groups, and shuffled."""
    t = np.sort(rng.normal(size=N))
    group = np.concatenate([rng.permutation(block) for block in np.split(t, 20)[::-1]])
    return {"sorted": t, "grouped": group, "shuffled": rng.permutation(t)}


def deviation(parts) -> float:
    """The mean square of what an epoch's batch means miss the mean by, over that of batches drawn
    uniformly without replacement: σ²/B · (N − B)/(N − 1)."""
    found = survey(parts, "regression")
    with Stream(parts, found, BATCH, seed=0, buffer=1000) as stream:
        means = [stream.rows(t * BATCH, BATCH)[0].mean(0) for t in range(N // BATCH)]
    return float(np.mean(np.square(means))) / ((1 / BATCH) * (N - BATCH) / (N - 1))


@pytest.mark.parametrize("order", ["sorted", "grouped", "shuffled"])
def test_batches_are_as_good_as_uniform_ones_whatever_the_order(order, tmp_path, rng, small_runs):
    t = orders(rng)[order]
    frame = pd.DataFrame({"t": t, "t2": t**3, "y": np.sin(t)})
    frame.to_parquet(tmp_path / "f.parquet", row_group_size=1000)
    file = LargeFile(tmp_path / "f.parquet")
    made = open_shuffled(file, tmp_path / "f.shuffled")
    assert len(made) == 20 and len(made._runs) == 10
    recipe, _ = recipe_for(made.head(), ["y"], "regression", facts=made.facts)
    # Of 100 batches and two columns, 1 with a standard deviation of about √(2/200) = 0.1.
    assert 0.6 < deviation(TableParts(made, recipe)) < 1.4
    # The file's own parts do as badly as the order is bad.
    assert (deviation(TableParts(file, recipe)) > 20) == (order != "shuffled")


def text_rows(rng, n: int = 3000) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2024-03-01", periods=n, freq="h").strftime("%Y-%m-%d %H:%M"),
            "zone": rng.choice(["Süd", "nord", "ost"], n),
            "paid": rng.choice(["yes", "no"], n),
            "km": rng.gamma(2, 3, n).round(3),
            "y": rng.normal(size=n).round(6),
        }
    )
    frame["zone"] = np.where(np.arange(n) > n - 40, "hafen", frame["zone"])  # late in the file
    frame.loc[rng.permutation(n)[:200], "km"] = np.nan
    return frame


@pytest.mark.parametrize(
    "form", ["csv", "tsv.gz", "semicolons", "utf-16", "folder", "glob", "arrow"]
)
def test_every_kind_of_file_gives_the_rows_of_the_small_reader(form, tmp_path, rng, monkeypatch):
    monkeypatch.setattr(large_text, "HEAD_BYTES", 20_000)
    monkeypatch.setattr(shuffled, "RUN_CELLS", 5000)
    monkeypatch.setattr(shuffled, "PART_ROWS", 500)
    frame, path = text_rows(rng), tmp_path / "rows.csv"
    text = frame.to_csv(index=False)
    whole = read_table(text.encode(), "rows")
    if form == "tsv.gz":
        path = tmp_path / "rows.tsv.gz"
        path.write_bytes(gzip.compress(frame.to_csv(index=False, sep="\t").encode()))
    elif form == "semicolons":
        path.write_bytes(frame.to_csv(index=False, sep=";", decimal=",").encode("latin-1"))
    elif form == "utf-16":
        path.write_bytes(text.encode("utf-16"))
    elif form in ("folder", "glob"):
        for i, part in enumerate(np.array_split(np.arange(len(frame)), 3)):
            frame.iloc[part].to_csv(tmp_path / f"{i}.csv", index=False)
        path = tmp_path if form == "folder" else tmp_path / "[0-9].csv"
    elif form == "arrow":
        path = tmp_path / "rows.arrow"
        feather.write_feather(pa.Table.from_pandas(frame), path, chunksize=700)
    else:
        path.write_text(text, "utf-8")
    assert opens_in_parts(path) == (form in ("folder", "glob", "arrow"))
    assert opens_in_parts(path, 0)
    source = open_large(path)
    made = open_shuffled(source, tmp_path / "out")
    # (Of so short a file gzip reads more than its head.)
    assert made.rows == len(frame) and (2700 < source.rows < 3300 or form == "tsv.gz")
    assert len(made) > 2
    recipe, _ = recipe_for(made.head(), ["y"], "regression", missing="fill", facts=made.facts)
    small = whole.to_dataset("y", "regression", "fill")
    assert recipe == small.recipe
    assert "zone = hafen" in recipe.input_names and "km is missing" in recipe.input_names
    rows = [np.hstack(TableParts(made, recipe).read(p)) for p in range(len(made))]
    rows = np.concatenate(rows)
    expected = np.hstack([small.dataset.X, small.dataset.Y])
    np.testing.assert_array_equal(rows[np.argsort(rows[:, 0])], expected)
    first = made.read(0).cells["when"]
    assert np.ptp(first) > 0.9 * np.ptp(frame["when"].to_numpy().astype("M8[us]"))


def test_a_file_is_read_once(tmp_path, rng, monkeypatch):
    path = tmp_path / "rows.csv"
    text_rows(rng, 400).to_csv(path, index=False)
    calls, tables = [], large_text.LargeText.tables

    def counted(self, words=frozenset()):
        calls.append(words)
        return tables(self, words)

    monkeypatch.setattr(large_text.LargeText, "tables", counted)
    where = shuffled_beside(path)
    first = open_shuffled(open_large(path), where)
    again = open_shuffled(open_large(path), where)
    assert len(calls) == 1 and again.digest == first.digest and where.name == "rows.csv.shuffled"
    os.utime(path, (1, 1))  # copied: another time, the same bytes
    assert open_shuffled(open_large(path), where).digest == first.digest and len(calls) == 1
    # A column that a person dropped is not there for the next one who wants it.
    open_shuffled(open_large(path), where, [("km", "dropped", None)])
    assert len(calls) == 1
    without = open_shuffled(open_large(path), tmp_path / "w", [("km", "dropped", None)])
    assert "km" not in without.columns
    assert "km" in open_shuffled(open_large(path), tmp_path / "w").columns and len(calls) == 3
    path.write_text(path.read_text().replace("yes", "no "))
    assert open_shuffled(open_large(path), where).digest != first.digest and len(calls) == 4


def test_what_a_killed_process_leaves_is_not_believed(tmp_path, rng):
    path, where = tmp_path / "rows.csv", tmp_path / "rows.csv.shuffled"
    text_rows(rng, 400).to_csv(path, index=False)
    made = open_shuffled(open_large(path), where)
    unfinished = tmp_path / f".{where.name}.0123.part"
    shutil.copytree(where, unfinished)
    os.utime(unfinished, (1, 1))
    shutil.rmtree(where)
    again = open_shuffled(open_large(path), where)
    assert (where / "rows.bin").read_bytes() and again.digest == made.digest
    assert not unfinished.exists() and not list(tmp_path.glob(".*"))
    with (where / "rows.bin").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(TableError, match="damaged: delete that folder"):
        open_shuffled(open_large(path), where)


def test_a_full_disk_is_said_before_the_work_begins(tmp_path, rng, monkeypatch):
    path = tmp_path / "rows.csv"
    text_rows(rng, 400).to_csv(path, index=False)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))

    def tables(*_):
        raise AssertionError("the file is read")

    monkeypatch.setattr(large_text.LargeText, "tables", tables)
    with pytest.raises(TableError, match="GB are free on the disk.*--shards"):
        open_shuffled(open_large(path), tmp_path / "out")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["rows.csv"]
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    with pytest.raises(TableError, match="cannot be written .*--shards"):
        open_shuffled(open_large(path), tmp_path / "file" / "out")


def test_rows_of_another_width_are_left_out_and_said(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(large_text, "HEAD_BYTES", 4000)
    path = tmp_path / "rows.csv"
    lines = text_rows(rng, 400).to_csv(index=False).splitlines()
    lines[300] += ",1,2"
    path.write_text("\n".join(lines) + "\n")
    made = open_shuffled(open_large(path), tmp_path / "out")
    assert made.rows == 399 and "1 row of rows.csv with another number of cells" in made.notes[0]


def test_a_column_that_changes_its_mind_gets_a_sentence(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(large_text, "HEAD_BYTES", 4000)
    frame, path = text_rows(rng, 2000), tmp_path / "rows.csv"
    frame["km"] = [str(i % 50) if i < 1000 else "far" for i in range(2000)]
    frame.to_csv(path, index=False)
    with pytest.raises(TableError, match="“km” begins with numbers, and 1,000 cells"):
        open_shuffled(open_large(path), tmp_path / "out")
    made = open_shuffled(open_large(path), tmp_path / "out", [("km", "category", None)])
    assert made.facts["km"].levels is not None and made.facts["km"].levels["far"] == 1000


def test_free_text_is_not_kept(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(shuffled, "MOST_WORDS", 30)
    frame = text_rows(rng, 400)
    frame["note"] = [f"word {i % 60}" for i in range(400)]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    made = open_shuffled(open_large(tmp_path / "rows.csv"), tmp_path / "out")
    assert "note" not in made.columns and "over 30 different words" in made.notes[0]
    # What is written behind it is read from the right place.
    np.testing.assert_array_equal(np.sort(made.read(0, ["y"]).cells["y"]), np.sort(frame["y"]))


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"a.csv": "x,y\n1,2\n", "b.csv": "x,z\n1,2\n"}, "b.csv lacks “y”"),
        ({"a.csv": "x,y\n1,2\n", "b.parquet": "PAR1"}, "files of tables and text"),
        ({"a.csv": "x y\n1 2\n3 4\n5 6\n"}, "separates its columns by spaces"),
    ],
)
def test_folders_that_make_no_table_get_a_sentence(files, sentence, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(TableError, match=sentence):
        open_large(tmp_path)


def test_letters_that_turn_up_late_get_a_sentence(tmp_path, rng, monkeypatch):
    monkeypatch.setattr(large_text, "HEAD_BYTES", 4000)
    path = tmp_path / "rows.csv"
    text = text_rows(rng, 400).to_csv(index=False).replace("Süd", "sued")
    path.write_bytes(text.encode() + "2024-01-01,Süd,yes,1,1\n".encode("latin-1"))
    with pytest.raises(TableError, match="name its --encoding"):
        open_shuffled(open_large(path), tmp_path / "out")
    made = open_shuffled(open_large(path, encoding="latin-1"), tmp_path / "out")
    assert "Süd" in (made.facts["zone"].levels or {})
    assert json.loads((tmp_path / "out" / "about.json").read_text("utf-8"))["rows"] == 401
