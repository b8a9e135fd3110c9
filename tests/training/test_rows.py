"""Rows from files larger than memory: measured in one pass, each visited once an epoch."""

from dataclasses import dataclass, replace
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgp_core import archive
from dgp_core.__main__ import main
from dgp_core.gp.data import Dataset, Moments, Scaler
from dgp_core.gp.model import ModelSpec, bound, create_model
from dgp_core.outcome import Outcome
from dgp_core.tables import shuffled
from dgp_core.tables.large_file import (
    LargeFile,
    TableParts,
    opens_in_parts,
    recipe_for,
    shuffled_beside,
)
from dgp_core.tables.shuffled import open_shuffled
from dgp_core.tables.table import TableError, read_table
from dgp_core.training import rows
from dgp_core.training.optimise import create_state, train_step
from dgp_core.training.rows import RowsError, Sample, Stream, survey
from dgp_core.training.train import Progress, TrainSpec, resume, step_keys, train_chunk

pytestmark = pytest.mark.usefixtures("quick_compilation")

N = 240
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2)) * [1.0, 30.0] + [5.0, -200.0]
Y = np.sin(X[:, :1]) + 0.1 * RNG.normal(size=(N, 1))
SPEC = ModelSpec(layers=2, inducing=4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The rows in two Parquet files with row groups of unequal length."""
    folder = tmp_path_factory.mktemp("parquet")
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y[:, 0]})
    frame[:100].to_parquet(folder / "1.parquet", row_group_size=40)
    frame[100:].to_parquet(folder / "2.parquet", row_group_size=60)
    return folder


@dataclass(frozen=True, eq=False)
class ArrayParts:
    """Arrays, memory-mapped or not, in parts of so many rows."""

    X: np.ndarray
    Y: np.ndarray
    rows: int

    def __len__(self) -> int:
        return -(-len(self.X) // self.rows)

    def read(self, part: int) -> tuple[np.ndarray, np.ndarray]:
        here = slice(part * self.rows, (part + 1) * self.rows)
        return np.array(self.X[here], np.float64), np.array(self.Y[here], np.float64)


@dataclass(frozen=True)
class OneOf:
    """The devices of one process of several, one each: as `Devices` shares rows out."""

    number: int
    processes: int

    def rows_of(self, batch: int) -> np.ndarray:
        each = -(-batch // self.processes)
        return np.arange(self.number * each, (self.number + 1) * each)

    def share(self, take, batch, first, n, dtype):
        places = self.rows_of(batch)
        return take(np.minimum(places, batch - 1)), places < batch


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(("batch", "processes"), [(33, 1), (33, 4), (2, 4), (40, 3)])
def test_each_process_decodes_its_own_rows_and_no_others(
    tmp_path, monkeypatch, batch, processes, missing
):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": ["red", "blue", "red"] * 80})
    frame["y"] = Y[:, 0]
    if missing:  # then only who reads a part knows which of its rows train
        frame.loc[::17, "b"] = np.nan
    frame.to_parquet(tmp_path / "rows.parquet")
    monkeypatch.setattr(shuffled, "PART_ROWS", 50)
    monkeypatch.setattr(shuffled, "RUN_CELLS", 4 * 70)
    file = open_shuffled(LargeFile(tmp_path / "rows.parquet"), tmp_path / "shards")
    recipe, _ = recipe_for(file.head(), ["y"], "regression", facts=file.facts)
    parts = TableParts(file, recipe)
    found = survey(parts, "regression", 0.1, 3)
    assert (found.rows < N) == missing
    decoded = []
    unpacked = shuffled.unpack
    monkeypatch.setattr(
        shuffled, "unpack", lambda how, q, kind: decoded.append(len(q)) or unpacked(how, q, kind)
    )
    given = (parts, found, batch, 0, 0.1, 3)
    with Stream(*given, buffer=120) as whole:
        for place in range(3):
            expected = whole.queue(place)
            together = []
            for number in range(processes):
                with Stream(*given, buffer=120, devices=OneOf(number, processes)) as own:  # type: ignore[arg-type]
                    del decoded[:]
                    (x, y), real = own.queue(place)
                    together.append((x[:, real], y[:, real]))
                    if processes > 1 and not missing and batch > processes:
                        needed = 4 * own.length * len(rows.own_places(own.devices, batch))  # type: ignore[arg-type]
                        # Blocks are read whole, and their rows beyond these steps come later.
                        assert sum(decoded) < needed + 4 * 2 * 120 / processes + 8 * processes
            X_, Y_ = (np.concatenate(a, 1) for a in zip(*together, strict=True))
            np.testing.assert_array_equal(X_, expected.X)  # type: ignore[union-attr]
            np.testing.assert_array_equal(Y_, expected.Y)  # type: ignore[union-attr]


def in_parts(folder) -> TableParts:
    file = LargeFile(folder)
    recipe, _ = recipe_for(file.head(), ["y"], "regression")
    return TableParts(file, recipe)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.floats(-1e8, 1e8),
    st.floats(1e-3, 1e3),
)
@settings(max_examples=60)
def test_moments_of_parts_are_those_of_the_whole(sizes, shift, scale):
    sizes = [*sizes, 2]
    whole = shift + scale * np.random.default_rng(sum(sizes)).normal(size=(sum(sizes), 3))
    parts = np.split(whole, np.cumsum(sizes)[:-1])
    total = Moments.of(parts[0])
    for part in parts[1:]:
        total = total + Moments.of(part)
    assert total.n == len(whole)
    np.testing.assert_allclose(total.mean, whole.mean(0), rtol=1e-13)
    rounding = 1e-14 * np.abs(shift)
    np.testing.assert_allclose(total.deviation, whole.std(0), rtol=1e-9, atol=rounding)


def test_a_survey_measures_as_numpy_does(folder):
    found = survey(in_parts(folder), "regression")
    expected = Scaler.fit(Dataset("rows", X, Y, ("a", "b"), ("y",)))
    for name in ("x_mean", "x_scale", "kept", "y_mean", "y_scale"):
        np.testing.assert_allclose(getattr(found.scaler, name), getattr(expected, name), rtol=1e-13)
    assert found.sizes == (40, 40, 20, 60, 60, 20) and found.rows == N
    assert len(found.start.X) == N and len(found.held_out.X) == 0


def test_held_out_rows_are_never_trained_on_nor_measured(folder):
    parts = in_parts(folder)
    found = survey(parts, "regression", 0.25, seed=3)
    held = found.held_out.X[:, 0]
    n = sum(found.sizes)
    assert n + len(held) == N and 30 < len(held) < 90
    train = X[~np.isin(X[:, 0], held)]
    np.testing.assert_allclose(found.scaler.x_mean, train.mean(0), rtol=1e-13)
    with Stream(parts, found, 10, 0, 0.25, 3) as stream:
        seen = found.scaler.inputs_back(stream.rows(0, n)[0])
    np.testing.assert_allclose(np.sort(seen[:, 0]), np.sort(train[:, 0]), rtol=1e-12)


def test_a_sample_takes_every_row_as_often():
    counts = np.zeros(20)
    for seed in range(2000):
        rng = np.random.default_rng(seed)
        sample = Sample(5, np.zeros((0, 1)), np.zeros((0, 1)), np.zeros(0))
        for part in np.split(np.arange(20.0)[:, None], [3, 4, 15]):
            sample = sample.add(part, part, rng)
        counts[sample.X[:, 0].astype(int)] += 1
    # Each of 20 rows in 5/20 of 2,000 samples: 500 with a deviation of √(2000·¼·¾) = 19.
    assert np.abs(counts - 500).max() < 80


@pytest.mark.parametrize("buffer", [1, 70, 10_000])
def test_every_row_comes_once_an_epoch(folder, buffer):
    parts = in_parts(folder)
    found = survey(parts, "regression")
    with Stream(parts, found, 7, seed=1, buffer=buffer) as stream:
        epochs = [stream.rows(e * N, N)[0][:, 0] for e in range(3)]
        batches = [stream.queue(p).X for p in range(-(-2 * N // (7 * stream.length)))]
    everything = np.sort(found.scaler.inputs(X)[:, 0])
    for epoch in epochs:
        np.testing.assert_array_equal(np.sort(epoch), everything)
    assert not np.array_equal(epochs[0], epochs[1])
    # The batches of successive queues are that order, cut into pieces.
    flat = np.concatenate([np.asarray(b).reshape(-1, 2)[:, 0] for b in batches])[: 2 * N]
    np.testing.assert_array_equal(flat, np.concatenate(epochs[:2]))
    if buffer == 10_000:  # then all rows are shuffled together
        assert np.abs(np.diff(np.argsort(np.argsort(epochs[0])))).max() > N / 2


def test_the_bound_of_a_streamed_batch_is_unbiased(folder):
    parts = in_parts(folder)
    found = survey(parts, "regression")
    Xs, Ys = found.scaler.inputs(X), found.scaler.outputs(Y)
    # One layer has one path: the bound is exact, and its mean over an epoch's batches too.
    model = create_model(ModelSpec(layers=1, inducing=5), Xs)
    key = jax.random.key(0)
    fit = jax.jit(lambda x, y: bound(model, x, y, key, N).fit)
    with Stream(parts, found, 12, seed=0, buffer=50) as stream:
        batches = [stream.rows(12 * t, 12) for t in range(N // 12)]
    each = [fit(x, y) for x, y in batches]
    np.testing.assert_allclose(np.mean(each), fit(Xs, Ys), rtol=1e-12)
    assert np.std(each) > 0


def started(found):
    standard = found.scaler(Dataset("rows", X, Y, ("a", "b"), ("y",)))
    return create_state(create_model(SPEC, standard.X), jax.random.key(4))


def same(one, two):
    def plain(s):
        return jax.tree.leaves(replace(s, key=jax.random.key_data(s.key)))

    return all(np.array_equal(a, b) for a, b in zip(plain(one), plain(two), strict=True))


def test_parquet_memory_maps_and_arrays_train_the_same_model(folder, tmp_path):
    spec = TrainSpec(steps=50, minibatch=16, seed=2)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "Y.npy", Y)
    mapped = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "XY"]

    class InPieces:
        """Arrays in the pieces that the row groups have."""

        ends = np.cumsum([0, 40, 40, 20, 60, 60, 20])

        def __len__(self):
            return 6

        def read(self, part):
            here = slice(*self.ends[part : part + 2])
            return X[here], Y[here]

    ends = {}
    for name, parts in (
        ("parquet", in_parts(folder)),
        ("arrays", InPieces()),
        ("memory map", ArrayParts(mapped[0], mapped[1], 60)),
        ("arrays in sixties", ArrayParts(X, Y, 60)),
    ):
        found = survey(parts, "regression")
        with Stream(parts, found, 16, spec.seed, buffer=40) as stream:
            ends[name], progress = resume(started(found), stream, spec, Progress())
            assert progress.steps == 50 and np.isfinite(progress.bound).all()
    assert same(ends["parquet"], ends["arrays"])
    assert same(ends["memory map"], ends["arrays in sixties"])
    assert not same(ends["parquet"], ends["memory map"])  # other parts, another order


def test_a_streamed_step_is_a_step_on_its_own_rows(folder):
    spec, parts = TrainSpec(steps=50, minibatch=16, seed=2), in_parts(folder)
    found = survey(parts, "regression")
    by_hand, step = started(found), jax.jit(train_step, static_argnums=(7, 8))
    with Stream(parts, found, 16, spec.seed, buffer=40) as stream:
        queue, n = stream.prefetch(0, 3)
        assert n == 2  # as many as the buffer holds
        streamed, _ = train_chunk(started(found), queue, spec, 2)
        streamed, record = train_chunk(streamed, stream.prefetch(2, 1)[0], spec, 1)
        for t in range(3):
            x, y = stream.rows(16 * t, 16)
            key = step_keys(by_hand.key, t)[1]
            rest = (np.ones(16), key, np.asarray(float(N)), spec.rates, 1, spec.natural)
            by_hand, parts_of_bound = step(by_hand, x, y, *rest)
    np.testing.assert_allclose(record.fit[-1], parts_of_bound.fit, rtol=1e-9)
    leaves = (jax.tree.leaves(state.model) for state in (streamed, by_hand))
    for a, b in zip(*leaves, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)


def test_a_stream_begins_anywhere(folder):
    parts = in_parts(folder)
    found = survey(parts, "regression")
    with Stream(parts, found, 8, 0, buffer=64) as one, Stream(parts, found, 8, 0, buffer=64) as two:
        for step in range(90):
            early, n = one.prefetch(step, 100)
            assert 1 <= n <= one.length
        late, _ = two.prefetch(89, 1)
    np.testing.assert_array_equal(early.X, late.X)
    assert int(early.first) == int(late.first) <= 89


def test_the_command_line_streams_stops_and_goes_on(folder, tmp_path, capsys):
    small = ["--inducing=4", "--minibatch=16", "--layers=2"]
    whole, halves = tmp_path / "whole.npz", tmp_path / "halves.npz"
    assert main(["fit", str(folder), "--target=y", *small, "--steps=30", f"--out={whole}"]) == 0
    told = capsys.readouterr()
    assert "is read in 1 part, 240 rows in all" in told.err and "rmse" in told.out
    record = archive.load(whole)
    assert record.source is not None and record.source.streamed
    archive.save(halves, begun(record, folder))
    assert main(["resume", str(halves), str(folder)]) == 0
    assert same(archive.load(halves).state, record.state)
    capsys.readouterr()
    assert main(["score", str(whole), str(folder)]) == 0
    assert capsys.readouterr().out == told.out
    # The rows of one file alone are others: all of them count.
    assert main(["score", str(whole), str(folder / "1.parquet")]) == 0
    assert "On 100 rows" in capsys.readouterr().err
    out = tmp_path / "p.csv"
    assert main(["predict", str(whole), str(folder), "--out", str(out)]) == 0
    predicted = pd.read_csv(out)
    np.testing.assert_allclose(predicted["a"], X[:, 0])
    assert predicted["y mean"].notna().all() and len(predicted) == N
    assert main(["resume", str(whole), str(folder / "1.parquet"), "--steps=40"]) == 2
    assert "other rows" in capsys.readouterr().err


def begun(record, folder):
    """The same run after its first steps, which were taken without the command line."""
    shuffled, source = open_shuffled(LargeFile(folder), shuffled_beside(folder)), record.source
    parts = TableParts(shuffled, Outcome(record).recipe)
    found = survey(parts, "regression", source.held_out, source.split_seed)
    model = create_model(record.model, found.scaler.inputs(found.start.X))
    state = create_state(model, jax.random.key(0))
    with Stream(parts, found, 16, 0, source.held_out, source.split_seed) as stream:
        state, progress = resume(state, stream, record.training, Progress(), lambda *_: True)
    assert progress.steps == 10
    source = replace(source, file="")
    return replace(record, state=state, progress=progress, source=source)


def test_columns_of_a_large_file_keep_what_those_of_a_small_one_keep(tmp_path):
    n = 50
    frame = pd.DataFrame(
        {
            "id": np.arange(n) + 1000,
            "late": np.r_[np.zeros(n - 5), np.arange(5.0)],
            "whole": np.arange(n) % 7,
            "yes": np.arange(n) % 2 == 0,
            "word": ["a", "b"] * (n // 2),
            "day": pd.date_range("2024-01-01", periods=n),
            "label": ["u", "v", "w", "u", "v"] * (n // 5),
            "y": np.where(np.arange(n) == 3, np.inf, np.linspace(0, 1, n)),
        }
    )
    frame.loc[4, "whole"] = None
    path = tmp_path / "f.parquet"
    frame.to_parquet(path, row_group_size=20)
    file = open_shuffled(LargeFile(path), tmp_path / "f")
    head = file.head()
    small = read_table(path).decide("label", "dropped").to_dataset("y", "regression", "drop")
    recipe, said = recipe_for(head.decide("label", "dropped"), ["y"], facts=file.facts)
    assert recipe.input_names == small.recipe.input_names and recipe.task == "regression"
    assert (
        recipe.input_names[-1] == "day (days since 2024-01-01)"
        and "word = b" in small.recipe.input_names
    )
    text = " ".join([*said, *file.notes])
    assert "“id” is dropped: It looks like an identifier" in text
    assert "“label” is dropped: You chose it." in text
    parts = TableParts(file, recipe)
    found = survey(parts, "regression")
    # A hole and an infinity: their rows are left out.
    assert found.rows == n - 2 == len(small.dataset) and found.sizes == (n - 2,)
    X, Y = parts.read(0)
    order = np.argsort(X[:, -1])
    np.testing.assert_array_equal(X[order], small.dataset.X)
    np.testing.assert_array_equal(Y[order], small.dataset.Y)
    filled, _ = recipe_for(head, ["y"], "regression", missing="fill", facts=file.facts)
    small = read_table(path).to_dataset("y", "regression", "fill")
    assert filled == small.recipe and "whole is missing" in filled.input_names
    X = TableParts(file, filled).read(0)[0]
    np.testing.assert_array_equal(np.sort(X, 0), np.sort(small.dataset.X, 0))
    recipe, _ = recipe_for(head, ["label"], "multiclass", facts=file.facts)
    assert recipe.classes == ("u", "v", "w")
    with pytest.raises(TableError, match="takes two"):
        recipe_for(head, ["label"], "binary", facts=file.facts)
    with pytest.raises(TableError, match="holds no numbers"):
        recipe_for(head, ["label"], "regression", facts=file.facts)


def test_files_that_cannot_be_read_in_parts_get_a_sentence(tmp_path, folder):
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    np.save(tmp_path / "rows.npy", np.c_[X, Y])
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and then nothing")
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    pd.DataFrame({"a": [1.0], "b": [2.0]}).to_parquet(mixed / "1.parquet")
    pd.DataFrame({"a": [1.0]}).to_parquet(mixed / "2.parquet")
    for name, sentence in (
        ("cube.npy", "rows by columns"),
        ("empty", "holds no file"),
        ("bad.parquet", "damaged or cut short"),
        ("none.parquet", "cannot be opened: No such file"),
        ("mixed", "lacks “b”"),
    ):
        with pytest.raises(TableError, match=sentence):
            LargeFile(tmp_path / name)
    with pytest.raises(TableError, match="lacks “z”"):
        LargeFile(folder).read(0, ["z"])
    pd.DataFrame({"a": [], "b": []}, dtype=float).to_parquet(mixed / "2.parquet")
    pd.DataFrame({"a": [], "b": []}, dtype=float).to_parquet(mixed / "0.parquet")
    assert len(LargeFile(mixed)) == 1 and LargeFile(mixed).head().rows == 1
    (mixed / "1.parquet").unlink()
    with pytest.raises(TableError, match="holds no rows"):
        LargeFile(mixed)

    file = LargeFile(tmp_path / "rows.npy")
    assert file.columns == ("column 1", "column 2", "column 3") and len(file) == 1
    recipe, _ = recipe_for(file.head(), ["column 3"], "regression")
    np.testing.assert_array_equal(TableParts(file, recipe).read(0)[0], X)
    assert opens_in_parts(folder) and opens_in_parts(tmp_path / "rows.npy")
    small = folder / "1.parquet"
    assert not opens_in_parts(small) and opens_in_parts(small, 100 * 3 * 8 - 1)
    assert not opens_in_parts(small, 100 * 3 * 8) and not opens_in_parts(tmp_path / "no.csv")


def test_a_file_that_changes_under_way_is_noticed(folder):
    parts = in_parts(folder)
    found = survey(parts, "regression")
    wrong = replace(found, sizes=(41, *found.sizes[1:]))
    with Stream(parts, wrong, 8, 0) as stream, pytest.raises(RowsError, match="has changed"):
        stream.prefetch(0, 1)
    with pytest.raises(ValueError, match="1 to 240 rows"):
        Stream(parts, found, 241, 0)
    assert rows.BUFFER_CELLS // 3 == Stream(parts, found, 8, 0).buffer
