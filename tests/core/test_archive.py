"""A model comes back from its file to the last bit, and nothing else comes out of a bad one."""

import io
import json
import os
import pickle
import stat
import struct
import zipfile
from dataclasses import replace

import jax
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dgp_core import archive
from dgp_core.archive import ABOUT, Archive, ArchiveError, Source, digest, load, save
from dgp_core.estimator import DeepGPClassifier, DeepGPRegressor
from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.domain import Domain
from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.gp.predict import predict_latent
from dgp_core.training.optimise import create_state
from dgp_core.training.train import Progress, Rows, TrainSpec, resume, train

pytestmark = pytest.mark.usefixtures("quick_compilation")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2)) * [1.0, 300.0] + [0.0, 5.0]
Y = np.sin(X[:, :1]) + 2.0
ROWS = Dataset("rows", X, Y, ("α", "b"), ("=y",))
SCALER = Scaler.fit(ROWS)
SPEC = ModelSpec(inducing=(3, 4), widths=2, kernels=("rbf", "rbf*linear + matern32"))
TRAINING = TrainSpec(steps=30, minibatch=8, seed=5)


def begun(n_steps):
    """State and progress of a run that was stopped after so many steps."""
    model = create_model(SPEC, SCALER.inputs(X))

    def stop(state, progress):
        return progress.steps >= n_steps

    return train(model, SCALER.inputs(X), SCALER.outputs(Y), TRAINING, stop)


@pytest.fixture(scope="module")
def half() -> Archive:
    """A model stopped after 10 of its 30 steps."""
    state, progress = begun(10)
    assert progress.steps == 10
    recipe = {"columns": ["a", {"deep": [1, 2.5, None, True]}]}
    return Archive(
        model=SPEC, training=TRAINING, scaler=SCALER, state=state, progress=progress,
        task="regression", input_names=("α", "b"), output_names=("=y",), recipe=recipe,
        source=Source("../ρows.csv", 24, digest(X, Y), 0.1, 7), domain=Domain.fit(X, SCALER),
    )  # fmt: skip


@pytest.fixture(scope="module")
def content(half) -> bytes:
    return written(half)


def written(record) -> bytes:
    file = io.BytesIO()
    save(file, record)
    return file.getvalue()


def members(content) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(parts, compression=zipfile.ZIP_STORED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as target:
        for name, part in parts.items():
            target.writestr(zipfile.ZipInfo(name), part, compression)
    return io.BytesIO(file.getvalue())


def plain(tree):
    """A state as numpy, its key as numbers."""
    leaves = jax.tree.leaves(replace(tree, key=jax.random.key_data(tree.key)))
    return [np.asarray(leaf) for leaf in leaves]


def test_everything_comes_back(half, content):
    back = load(io.BytesIO(content))
    for mine, theirs in zip(plain(half.state), plain(back.state), strict=True):
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape
        np.testing.assert_array_equal(mine, theirs)
    assert jax.tree.structure(half.state) == jax.tree.structure(back.state)
    same = ("model", "training", "task", "input_names", "output_names", "classes", "recipe")
    for name in (*same, "library", "settings", "source"):
        assert getattr(back, name) == getattr(half, name)
    for name in ("x_mean", "x_scale", "kept", "y_mean", "y_scale"):
        np.testing.assert_array_equal(getattr(back.scaler, name), getattr(SCALER, name))
    for name in ("low", "high", "whole", "centres", "radius"):
        np.testing.assert_array_equal(getattr(back.domain, name), getattr(half.domain, name))
    np.testing.assert_array_equal(back.progress.bound, half.progress.bound)
    for name in ("steps", "seconds", "failures", "stopped"):
        assert getattr(back.progress, name) == getattr(half.progress, name)
    key = jax.random.key(1)
    first, second = (predict_latent(a.state.model, SCALER.inputs(X), key, 3) for a in (half, back))
    np.testing.assert_array_equal(first.means, second.means)
    np.testing.assert_array_equal(first.variances, second.variances)


def test_training_goes_on_as_if_it_had_never_stopped(half, content):
    whole = begun(30)
    back = load(io.BytesIO(content))
    rows = Rows.create(SCALER.inputs(X), SCALER.outputs(Y), TRAINING.minibatch, float, 5)
    state, progress = resume(back.state, rows, TRAINING, replace(back.progress, stopped=""))
    assert progress.steps == 30 == whole[1].steps
    for mine, theirs in zip(plain(whole[0]), plain(state), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(progress.bound, whole[1].bound)


def test_the_same_model_gives_the_same_bytes_without_rows(half, content):
    assert written(half) == content == written(load(io.BytesIO(content)))
    for number in (X[3, 1], Y[3, 0], SCALER.inputs(X)[3, 1]):
        assert struct.pack("<d", number) not in content


def test_it_is_plain_npz_and_json(content):
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        assert arrays["state/model/layers/1/q_factor"].shape == (1, 4, 4)
        assert json.loads(arrays[ABOUT])["model"]["layers"] == 2
    assert json.loads(members(content)[ABOUT])["format"] == archive.FORMAT


def test_paths_are_written_whole_or_not_at_all(half, content, tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    save(path, half)
    assert path.read_bytes() == content
    assert load(str(path)).model == SPEC
    monkeypatch.setattr(archive.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        save(path, replace(half, recipe=None))
    assert [p.name for p in tmp_path.iterdir()] == ["model.npz"]
    assert path.read_bytes() == content
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.npz")


def test_what_a_killed_process_left_goes_and_the_folder_is_synced(half, tmp_path, monkeypatch):
    old, new = (tmp_path / f".model.npz.{digit * 16}.part" for digit in "ab")
    other, mine = tmp_path / f".model2.npz.{'a' * 16}.part", tmp_path / ".model.npz.mine.part"
    for part in (old, new, other, mine):
        part.write_bytes(b"half a model")
    for part in (old, other, mine):
        os.utime(part, (0, 0))
    synced, fsync = [], os.fsync

    def noted(file):
        synced.append(stat.S_ISDIR(os.fstat(file).st_mode))
        fsync(file)

    monkeypatch.setattr(os, "fsync", noted)
    save(tmp_path / "model.npz", half)
    assert not old.exists() and new.exists() and other.exists() and mine.exists()
    assert synced == [False, True]


def test_float32_stays_float32(half):
    model = create_model(replace(SPEC, precision="float32"), SCALER.inputs(X))
    state = create_state(model, jax.random.key(0))
    back = load(io.BytesIO(written(replace(half, state=state, progress=Progress()))))
    assert back.progress.bound.shape == (0,)
    assert back.state.model.layers[0].inducing.dtype == np.float32


def npy(array, **options) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(array), **options)
    return file.getvalue()


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


Z0 = "state/model/layers/0/inducing.npy"
BAD_PARTS = {
    "missing": ("is missing", {Z0: None}),
    "extra": ("unknown parts", {"state/more.npy": npy([1.0])}),
    "traversal": ("unknown parts", {"../../etc/passwd": b"root"}),
    "absolute": ("unknown parts", {"/etc/passwd": b"root"}),
    "another shape": ("another shape or type", {Z0: npy(np.zeros((4, 2)))}),
    "absurd shape": ("another shape or type", {Z0: npy(np.zeros((3, 2))).replace(b"2)", b"9)")}),
    "another type": ("another shape or type", {Z0: npy(np.zeros((3, 2), np.float32))}),
    "byte order": ("another shape or type", {Z0: npy(np.zeros((3, 2), ">f8"))}),
    "Fortran order": ("another shape or type", {Z0: npy(np.asfortranarray(np.ones((3, 2))))}),
    "cut off": ("cut off", {Z0: npy(np.zeros((3, 2)))[:-8]}),
    "too long": ("cut off", {Z0: npy(np.zeros((3, 2))) + b"\0"}),
    "not finite": ("not finite", {Z0: npy([[np.nan] * 2] * 3)}),
    "infinite": ("not finite", {Z0: npy([[np.inf] * 2] * 3)}),
    "objects": ("another shape or type", {Z0: npy(np.array([[Trap()] * 2] * 3))}),
    "a pickle": ("cannot be read", {Z0: pickle.dumps(np.zeros((3, 2)))}),
    "no array": ("cannot be read", {Z0: b"hello"}),
    "a new version": ("no array of this format", {Z0: npy(np.zeros((3, 2)), version=(2, 0))}),
    "no text": ("cannot be read", {ABOUT: b"\xff\xfe"}),
    "no JSON": ("cannot be read", {ABOUT: b"{"}),
    "no object": ("something else", {ABOUT: b"[]"}),
    "deep JSON": ("cannot be read", {ABOUT: b"[" * 100_000}),
    "NaN in JSON": ("no number", {ABOUT: b'{"format": NaN}'}),
    "no description": ("no saved model", {ABOUT: None}),
    "scale of zero": ("scale must be positive", {"scaler/y_scale.npy": npy([0.0])}),
    "negative scale": ("scale must be positive", {"scaler/x_scale.npy": npy([1.0, -1.0])}),
    "no column kept": ("scale must be positive", {"scaler/kept.npy": npy([False, False])}),
    "fewer columns kept": ("another shape", {"scaler/kept.npy": npy([True, False])}),
    "history of two lengths": ("another shape", {"history/kl.npy": npy(np.zeros((3, 2)))}),
    "jitter": ("damaged", {"state/jitter.npy": npy(-1.0)}),
    "caution": ("damaged", {"state/caution.npy": npy(2.0)}),
    "step": ("damaged", {"state/step.npy": npy(-1)}),
}


@pytest.mark.parametrize(("sentence", "parts"), BAD_PARTS.values(), ids=BAD_PARTS)
def test_bad_parts_are_refused(content, sentence, parts):
    changed = {**members(content), **parts}
    with pytest.raises(ArchiveError, match=sentence):
        load(packed({name: part for name, part in changed.items() if part is not None}))


BAD_ENTRIES = {
    "future": ("newer version", ["format"], 2),
    "distant future": ("newer version", ["format"], 10**15),
    "no format": ("makes no sense", ["format"], "1"),
    "format zero": ("no format 0", ["format"], 0),
    "task": ("makes no sense", ["task"], "magic"),
    "names": ("makes no sense", ["input_names"], [1, 2]),
    "no names": ("at least one input", ["input_names"], []),
    "more names": ("another shape", ["input_names"], ["a", "b", "c"]),
    "names as text": ("makes no sense", ["output_names"], "y"),
    "layers": ("makes no sense", ["model", "layers"], 10**9),
    "true layers": ("makes no sense", ["model", "layers"], True),
    "fewer layers": ("entries for 1 layers", ["model", "layers"], 1),
    "negative": ("makes no sense", ["model", "inducing"], -1),
    "huge inducing": ("smaller than the model", ["model", "inducing"], 10**9),
    "no inducing": ("at least 1 inducing", ["model", "inducing"], 0),
    "huge widths": ("smaller than the model", ["model", "widths"], 10**7),
    "kernel": ("no kernel", ["model", "kernels"], "magic"),
    "many kernels": ("smaller than the model", ["model", "kernels"], "rbf+" * 5000 + "rbf"),
    "likelihood": ("no likelihood", ["model", "likelihood"], "magic"),
    "lengthscale": ("above 0", ["model", "lengthscale"], -1.0),
    "lengthscale in words": ("makes no sense", ["model", "lengthscale"], "long"),
    "mean function": ("no mean function", ["model", "mean_function"], "magic"),
    "unknown entry": ("unknown entries", ["model", "colour"], "red"),
    "steps": ("makes no sense", ["training", "steps"], 1.5),
    "rate": ("makes no sense", ["training", "learning_rate"], 1e305),
    "natural rate": ("from 0 to 1", ["training", "natural_rate"], 2.0),
    "seed": ("makes no sense", ["training", "seed"], 10**30),
    "seconds": ("makes no sense", ["progress", "seconds"], "long"),
    "recipe": ("makes no sense", ["recipe"], [1]),
    "classes": ("named twice", ["classes"], ["a", "a"]),
    "mixed classes": ("one kind", ["classes"], ["1", 1]),
    "task without classes": ("do not fit", ["task"], "binary"),
    "source": ("something else", ["source"], [1]),
    "share held out": ("makes no sense", ["source", "held_out"], 1.5),
    "split": ("makes no sense", ["source", "split_seed"], 1 << 32),
    "more of a source": ("unknown entries", ["source", "colour"], "red"),
    "type": ("another shape or type", ["dtype"], "float32"),
    "type by name": ("makes no sense", ["dtype"], "object"),
}


@pytest.mark.parametrize(("sentence", "path", "value"), BAD_ENTRIES.values(), ids=BAD_ENTRIES)
def test_bad_entries_are_refused(content, sentence, path, value):
    parts = members(content)
    about = json.loads(parts[ABOUT])
    entry = about
    for name in path[:-1]:
        entry = entry[name]
    entry[path[-1]] = value
    with pytest.raises(ArchiveError, match=sentence):
        load(packed({**parts, ABOUT: json.dumps(about).encode()}))


def test_every_entry_is_missed(content):
    parts = members(content)
    about = json.loads(parts[ABOUT])
    for name in about:
        less = {n: v for n, v in about.items() if n != name}
        file = packed({**parts, ABOUT: json.dumps(less).encode()})
        if name in ("source", "widening"):  # which the first files did not have
            assert getattr(load(file), name) is None
            continue
        with pytest.raises(ArchiveError, match=f"'{name}' is missing"):
            load(file)


def test_a_file_from_before_some_choices_is_read(content):
    parts = members(content)
    about = json.loads(parts[ABOUT])
    for name in ("posterior", "lengthscale"):
        del about["model"][name]
    model = load(packed({**parts, ABOUT: json.dumps(about).encode()})).model
    assert (model.posterior, model.lengthscale) == ("doubly_stochastic", 2.0)


def test_a_digest_tells_rows_apart():
    A = np.arange(6.0).reshape(3, 2)
    assert digest(A, A) == digest(A.copy(), np.asfortranarray(A))
    others = (A[::-1], A.reshape(2, 3), A.astype(np.float32), A + 1e-15 * (A > 4), A.view(np.int64))
    assert len({digest(B) for B in (A, *others)}) == 6


def test_packed_files_are_refused_before_they_unpack(content):
    bomb = packed({**members(content), Z0: bytes(50_000_000)}, zipfile.ZIP_DEFLATED)
    with pytest.raises(ArchiveError, match="stored as"):
        load(bomb)


def test_parts_that_lie_about_their_size_are_refused(content):
    # The directory's copy of a size, made as large as it can be.
    at = content.rindex(Z0.encode()) - 46
    assert content[at : at + 4] == b"PK\x01\x02"
    lie = bytearray(content)
    lie[at + 20 : at + 28] = struct.pack("<II", 0x7FFFFFFF, 0x7FFFFFFF)
    with pytest.raises(ArchiveError, match="stored as"):
        load(io.BytesIO(bytes(lie)))


@pytest.mark.parametrize("nothing", [b"", b"PK", b"hello", bytes(1000), b"PK\x05\x06" + bytes(18)])
def test_other_files_are_refused(nothing):
    with pytest.raises(ArchiveError, match="no saved model"):
        load(io.BytesIO(nothing))


def test_large_files_are_refused(content, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 100)
    with pytest.raises(ArchiveError, match="at most 100 bytes"):
        load(io.BytesIO(content))


def test_a_model_on_disk_may_be_of_any_size(half, tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 100)
    archive.save(tmp_path / "large.npz", half)
    assert load(tmp_path / "large.npz").progress.steps == half.progress.steps


@settings(max_examples=60)
@given(st.data())
def test_damage_gives_a_model_or_the_error(content, data):
    """Bytes overwritten, cut or repeated anywhere: nothing but ArchiveError comes out."""
    at = data.draw(st.integers(0, len(content) - 1))
    what = data.draw(st.sampled_from(["flip", "cut", "repeat"]))
    damaged = {
        "flip": content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :],
        "cut": content[:at],
        "repeat": content[:at] + content[at : at + 64] + content[at:],
    }[what]
    try:
        back = load(io.BytesIO(damaged))
    except ArchiveError:
        return
    for leaf in plain(back.state):
        assert np.isfinite(leaf).all()


def test_what_cannot_be_read_back_is_not_written(half):
    broken = replace(half.state, jitter=half.state.jitter * np.nan)
    with pytest.raises(ArchiveError, match="not finite"):
        written(replace(half, state=broken))
    with pytest.raises(ArchiveError, match="not plain JSON"):
        written(replace(half, recipe={"a": {1, 2}}))


SMALL = dict(inducing=4, steps=10, predict_samples=3, kernels=["rbf", "matern52"])


def test_estimators_come_back(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b"])
    model = DeepGPRegressor(**SMALL, seed=3).fit(frame, Y)
    model.recipe_ = {"from": "a table"}
    model.save(tmp_path / "a.npz")
    back = DeepGPRegressor.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    assert back.predict(frame).shape == (24,)
    np.testing.assert_array_equal(back.bound_, model.bound_)
    assert back.stopped_ == model.stopped_ and back.recipe_ == model.recipe_
    assert back.feature_names_in_.tolist() == ["a", "b"]
    assert back.get_params() == {**model.get_params(), "kernels": ("rbf", "matern52")}
    model.continue_training(10)
    back.continue_training(10, frame, Y)
    np.testing.assert_array_equal(back.predict(frame), model.predict(frame))
    with pytest.raises(ArchiveError, match="DeepGPRegressor.load"):
        DeepGPClassifier.load(tmp_path / "a.npz")


COUNTS = np.random.default_rng(1).negative_binomial(1, 1e-3, 24).astype(float)


@pytest.mark.parametrize("likelihood", ["counts", "negative_binomial", "poisson"])
def test_counts_come_back_with_their_offset(likelihood):
    model = DeepGPRegressor(likelihood=likelihood, **{**SMALL, "layers": 1, "kernels": "rbf"})
    model.fit(X, COUNTS)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    back = DeepGPRegressor.load(file)
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.likelihood == likelihood and back.model_spec_ == model.model_spec_
    if likelihood == "counts":
        assert model.model_spec_.likelihood == "negative_binomial" and model.dispersion_.is_over
    offset = back.state_.model.likelihood.offset
    np.testing.assert_allclose(offset, [np.log(COUNTS.mean())])


def test_a_file_of_counts_from_before_there_were_offsets_is_read():
    """It lacks the offset, which was 0, and as many numbers of Adam's."""
    model = DeepGPRegressor(likelihood="poisson", **{**SMALL, "layers": 1, "kernels": "rbf"})
    model.fit(X, COUNTS)
    file = io.BytesIO()
    model.save(file)
    parts = members(file.getvalue())
    del parts["state/model/likelihood/offset.npy"]
    for name in ("state/adam/mu.npy", "state/adam/nu.npy"):
        short = io.BytesIO()
        np.save(short, np.load(io.BytesIO(parts[name]))[:-1])
        parts[name] = short.getvalue()
    back = DeepGPRegressor.load(packed(parts))
    assert not np.any(back.state_.model.likelihood.offset)
    np.testing.assert_array_equal(back.state_.adam.mu, model.state_.adam.mu)
    assert back.predict(X).shape == (24,)


@pytest.mark.parametrize("labels", [["a", "b", "c"], [3, 5, 9], [False, True]], ids=str)
def test_classes_come_back(labels):
    y = np.asarray(labels)[np.arange(24) % len(labels)]
    model = DeepGPClassifier(**{**SMALL, "layers": 1, "kernels": "rbf"}).fit(X, y)
    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    back = DeepGPClassifier.load(file)
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    assert back.classes_.dtype == model.classes_.dtype


@pytest.mark.parametrize(
    "settings",
    [
        {"parameters": {"predict_samples": 10**12}},
        {"parameters": {"layers": "many"}},
        {"parameters": {"colour": "red"}},
        {"parameters": {"likelihood": "poisson"}},
        {"parameters": []},
        {"named_inputs": "yes"},
        {"vector_output": None},
    ],
    ids=str,
)
def test_bad_settings_are_refused(half, settings):
    good = {"parameters": {}, "named_inputs": True, "vector_output": True}
    file = io.BytesIO(written(replace(half, settings={**good, **settings})))
    with pytest.raises(ArchiveError, match="settings of this estimator"):
        DeepGPRegressor.load(file)


def test_a_model_without_settings_is_an_estimator_too(content):
    model = DeepGPRegressor.load(io.BytesIO(content))
    assert model.inducing == (3, 4) and model.seed == 5 and model.n_iter_ == 10
    with pytest.warns(UserWarning, match="feature names"):
        assert model.predict(X).shape == (24,)
    assert isinstance(model.progress_, Progress)
