"""A model to one plain file and back: arrays as npz, the rest as JSON inside it, never pickle.

The file holds all that the next training step depends on, and no training rows; but q(h) of a
mean-field model has a mean for each of them, which may lie close to the row's inputs. Its members
are stored, not packed, so that no file can unpack to more than itself; every array is checked
against the structure that the written specification asks for before anything is believed.
"""

import glob
import hashlib
import io
import json
import math
import os
import secrets
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any, get_args

import jax
import jax.numpy as jnp
import numpy as np
from numpy.lib import format as npy

from dgp_core.evaluation.conformal import Widening
from dgp_core.gp import mean_field
from dgp_core.gp.data import Scaler, Task
from dgp_core.gp.domain import Domain
from dgp_core.gp.model import MOST_JITTER, ModelSpec, Posterior, create_model
from dgp_core.gp.splits import SplitWay
from dgp_core.training.optimise import TrainState, create_state
from dgp_core.training.train import Progress, TrainSpec

FORMAT = 1
"""The version of the file's layout; a reader refuses those above its own."""

MOST_BYTES = 1 << 30
"""The size of a file that is uploaded, at the most; one that is named by its path may be larger."""

MOST_TEXT = 16 << 20
"""The size of the JSON inside it, at the most."""

MOST_LAYERS = 1000
"""Layers, at the most."""

MOST_WEIGHTS = 10_000_000
"""Inputs times outputs of a layer, at the most."""

ABOUT = "about.json"

PART = ".part"
"""The end of the name of a file that is being written."""

STALE_SECONDS = 600.0
"""Age of such a file after which nobody is writing it any more."""

File = str | os.PathLike[str] | IO[bytes]


class ArchiveError(ValueError):
    """Why a file holds no model that can be trusted."""


def library_version() -> str:
    """The installed version of this library."""
    try:
        return version("dgp-lab")
    except PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True)
class Source:
    """Which rows a model learns from: training goes on with these, and scoring takes the others."""

    file: str
    """Where they are, seen from the model's own folder; empty where nobody knows."""
    rows: int
    """Complete rows of the file, those held out included."""
    digest: str
    """Of these rows as numbers: see `digest`."""
    held_out: float = 0.0
    """The share of rows held out, by `split`; 0 where the model learns from all."""
    split_seed: int = 0
    streamed: bool = False
    """Whether the rows were read from the file a part at a time."""
    split_way: SplitWay = "chance"
    """By chance, the latest rows, or whole groups …"""
    split_column: str = ""
    """… of this column of the file."""
    shards: str = ""
    """Where streamed rows are kept in random order, seen from the model's folder; empty where that
    is beside the file."""


def digest(*arrays: np.ndarray) -> str:
    """A hash of numbers, which tells the same rows in the same order from all others."""
    hashed = hashlib.blake2b(digest_size=16)
    for array in arrays:
        hashed.update(f"{array.dtype.str}{array.shape}".encode())
        hashed.update(np.ascontiguousarray(array).view(np.uint8).data)
    return hashed.hexdigest()


@dataclass(frozen=True, eq=False, kw_only=True)
class Described:
    """What files of GPs and of straight lines say alike."""

    scaler: Scaler
    """The training rows' mean and standard deviation of each column."""
    task: Task
    input_names: tuple[str, ...]
    """Of all input columns, the dropped ones included (D,)."""
    output_names: tuple[str, ...]
    classes: tuple[str | int | float | bool, ...] = ()
    """The labels of a classification task, in the order of their codes."""
    recipe: dict | None = None
    """How a user's table became numbers, as JSON."""
    source: Source | None = None
    """Which rows the model learns from; None where nobody wrote it down."""
    domain: Domain | None = None
    """Where the training rows lie; None in files that were written before there was this."""
    widening: Widening | None = None
    """By how much its intervals are stretched; None where they are its own."""
    library: str = field(default_factory=library_version)
    """The version of the library that wrote the file."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Archive(Described):
    """All there is to know of a trained model but its training rows."""

    model: ModelSpec
    training: TrainSpec
    state: TrainState
    progress: Progress
    settings: dict | None = None
    """How the estimator was made, as JSON."""


def save(file: File, archive: Archive) -> None:
    """Writes a model to a path, all or nothing, or to an open binary file.

    The same model gives the same bytes.
    """
    write_bytes(file, _pack(archive))


def write_bytes(file: File, content: bytes) -> None:
    """Writes a model's bytes to a path, all or nothing, or to an open binary file."""
    if not isinstance(file, str | os.PathLike):
        file.write(content)
        return
    write(Path(file), [content])


def write(path: Path, blocks: Iterable[bytes]) -> None:
    """Writes a file, all or nothing, and to the disk itself.

    What a process that was killed while saving has left of the same file goes first.
    """
    for old in path.parent.glob(f".{glob.escape(path.name)}.{'[0-9a-f]' * 16}{PART}"):
        with suppress(OSError):
            if old.stat().st_mtime < time.time() - STALE_SECONDS:
                old.unlink()
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}{PART}")
    try:
        with beside.open("xb") as part:
            part.writelines(blocks)
            part.flush()
            os.fsync(part.fileno())
        os.replace(beside, path)
        _sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Puts a folder's list of names on the disk, where the system can: after a loss of power the
    new file is there under its name. (It is written whether or not this works.)"""
    if os.name == "posix":
        with suppress(OSError):
            opened = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)


def load(file: File) -> Archive:
    """Reads a model from a path or an open binary file.

    Whatever the content, it gives a model or an ArchiveError; a path that cannot be opened gives
    Python's own OSError.
    """
    content = read_bytes(file)
    with whatever_happens():
        return rebuild(*unzipped(content))


def read_bytes(file: File) -> bytes:
    """The bytes of a file; of one that is no path, no more than an upload may have."""
    if isinstance(file, str | os.PathLike):
        with open(file, "rb") as opened:
            return opened.read()
    content = file.read(MOST_BYTES + 1)
    _demand(len(content) <= MOST_BYTES, f"A saved model has at most {MOST_BYTES:,} bytes.")
    return content


@contextmanager
def whatever_happens() -> Iterator[None]:
    """Every failure to read a file is an ArchiveError."""
    try:
        yield
    except ArchiveError:
        raise
    except Exception as error:  # whatever a hostile file may cause, it is the file's fault
        raise ArchiveError(
            f"This file cannot be read as a saved model ({type(error).__name__}). "
            "It may be damaged: save the model again."
        ) from error


def _demand(condition: bool, sentence: str) -> None:
    if not condition:
        raise ArchiveError(sentence)


def _plain_key(state: TrainState) -> TrainState:
    """The state with its random key as the numbers that it is made of."""
    return replace(state, key=jax.random.key_data(state.key))


def _named_leaves(state: TrainState) -> dict[str, Any]:
    """Every array of a state by its path, such as model/layers/0/kernel/log_variance."""
    leaves = jax.tree_util.tree_leaves_with_path(_plain_key(state))
    return {jax.tree_util.keystr(p, simple=True, separator="/"): leaf for p, leaf in leaves}


SCALER = tuple(f.name for f in fields(Scaler))
DOMAIN = tuple(f.name for f in fields(Domain))


def _pack(archive: Archive) -> bytes:
    """The file's bytes: members in a fixed order, without dates, not compressed."""
    state, progress = archive.state, archive.progress
    about = description(archive) | {
        "model": asdict(archive.model),
        "dtype": str(state.model.layers[0].inducing.dtype),
        "training": asdict(archive.training),
        "progress": {
            "steps": progress.steps,
            "seconds": progress.seconds,
            "failures": progress.failures,
            "stopped": progress.stopped,
        },
        "settings": archive.settings,
    }
    L = len(state.model.layers)
    fit = np.concatenate([np.zeros(0), *progress.fit])
    kl = np.concatenate([np.zeros((0, L)), *progress.kl])
    arrays = {f"state/{name}": np.asarray(leaf) for name, leaf in _named_leaves(state).items()}
    arrays |= {f"scaler/{name}": np.asarray(getattr(archive.scaler, name)) for name in SCALER}
    arrays |= {"history/fit": fit, "history/kl": kl}
    content = zipped(about, arrays | domain_arrays(archive.domain))
    # What was written is read back before anybody relies on it.
    rebuild(*unzipped(content))
    return content


def domain_arrays(domain: Domain | None) -> dict[str, np.ndarray]:
    """Where the training rows lie, by the names of the file's parts."""
    return {f"domain/{name}": getattr(domain, name) for name in DOMAIN} if domain else {}


def description(record: Described) -> dict[str, Any]:
    """What a record says, as JSON, but for the arrays."""
    widened = record.widening
    return {
        "format": FORMAT,
        "library": record.library,
        "task": record.task,
        "input_names": list(record.input_names),
        "output_names": list(record.output_names),
        "classes": list(record.classes),
        "recipe": record.recipe,
        "source": None if record.source is None else asdict(record.source),
        "widening": None if widened is None else asdict(widened) | {"factor": [*widened.factor]},
    }


def zipped(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The bytes of a file: its description as JSON, and its arrays."""
    try:
        text = json.dumps(about, allow_nan=False, ensure_ascii=False, indent=1).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ArchiveError(
            f"This model cannot be saved: its description is not plain JSON ({error}). "
            "Class labels and settings must be text, numbers or lists of them."
        ) from error
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as members:
        members.writestr(zipfile.ZipInfo(ABOUT), text)
        for name, array in arrays.items():
            member = io.BytesIO()
            npy.write_array(member, np.asarray(array, order="C"), (1, 0), allow_pickle=False)
            members.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return whole.getvalue()


def unzipped(content: bytes) -> "tuple[Text, dict[str, bytes]]":
    """The description and the arrays that these bytes hold."""
    _demand(
        zipfile.is_zipfile(io.BytesIO(content)),
        "This is no saved model: choose a file that `save` wrote.",
    )
    with zipfile.ZipFile(io.BytesIO(content)) as members:
        listed = members.infolist()
        names = [member.filename for member in listed]
        _demand(ABOUT in names, "This is no saved model: it has no description inside.")
        _demand(len(set(names)) == len(names), "This file names a part twice: save it again.")
        _demand(
            all(
                m.compress_type == zipfile.ZIP_STORED
                and m.file_size == m.compress_size
                and not m.flag_bits & 1
                for m in listed
            )
            and sum(m.file_size for m in listed) <= len(content),
            "This file was packed again or is damaged: the parts of a saved model are stored as "
            "they are.",
        )
        _demand(members.getinfo(ABOUT).file_size <= MOST_TEXT, "Its description is too long.")
        about = Text(_json(members.read(ABOUT)), "the description")
        return about, {n: members.read(n) for n in names if n != ABOUT}


def _json(text: bytes) -> Any:
    def refuse(constant: str):
        raise ArchiveError(f"The description holds {constant}, which is no number.")

    return json.loads(text.decode("utf-8"), parse_constant=refuse)


class Text:
    """A JSON object whose entries are checked as they are taken."""

    def __init__(self, value: Any, what: str):
        _demand(isinstance(value, dict), f"Where {what} should be, there is something else.")
        self.value, self.what = value, what

    def take(self, name: str, fits: Callable[[Any], bool]) -> Any:
        _demand(name in self.value, f"The entry {name!r} is missing in {self.what}.")
        value = self.value[name]
        _demand(fits(value), f"The entry {name!r} of {self.what} makes no sense.")
        return value

    def only(self, *names: str) -> None:
        _demand(set(self.value) <= set(names), f"There are unknown entries in {self.what}.")


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 53


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _is_text(value: Any) -> bool:
    return type(value) is str


def _list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: type(value) is list and all(map(fits, value))


def _or_list(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: fits(value) or _list_of(fits)(value)


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


def _is_label(value: Any) -> bool:
    return type(value) in (str, bool, int) or _is_number(value)


def _one_of(*values: str) -> Callable[[Any], bool]:
    return lambda value: type(value) is str and value in values


def _is_object(value: Any) -> bool:
    return type(value) is dict


_MODEL: dict[str, Callable[[Any], bool]] = {
    "layers": lambda value: _is_count(value) and value <= MOST_LAYERS,
    "inducing": _or_list(_is_count),
    "widths": _or_none(_or_list(_is_count)),
    "kernels": _or_list(_is_text),
    "mean_function": _is_text,
    "likelihood": _is_text,
    "lengthscale": _or_none(_is_number),
    "precision": _one_of("auto", "float32", "float64"),
    "posterior": _one_of(*get_args(Posterior)),
}
_TRAINING: dict[str, Callable[[Any], bool]] = {
    "steps": _is_count,
    "learning_rate": _is_number,
    "natural_rate": _is_number,
    "ramp_steps": _is_count,
    "minibatch": _or_none(_is_count),
    "samples": _is_count,
    "decay": lambda value: type(value) is bool,
    "final_fraction": _is_number,
    "tolerance": _is_number,
    "patience": _is_count,
    "seconds": _or_none(_is_number),
    "seed": lambda value: type(value) is int and abs(value) < 1 << 63,
}
_SOURCE: dict[str, Callable[[Any], bool]] = {
    "file": _is_text,
    "rows": _is_count,
    "digest": _is_text,
    "held_out": lambda value: _is_number(value) and 0 <= value < 1,
    "split_seed": lambda value: _is_count(value) and value < 1 << 32,
    "streamed": lambda value: type(value) is bool,
    "split_way": _one_of(*get_args(SplitWay)),
    "split_column": _is_text,
    "shards": _is_text,
}
_WIDENING: dict[str, Callable[[Any], bool]] = {
    "factor": _list_of(lambda value: _is_number(value) and value >= 1),
    "rows": _is_count,
    "checked": lambda value: _is_count(value) and value > 0,
    "before": lambda value: _is_number(value) and 0 <= value <= 1,
    "after": lambda value: _is_number(value) and 0 <= value <= 1,
}


def _spec(kind: type, rules: dict[str, Callable[[Any], bool]], about: Text) -> Any:
    """A specification from its JSON; its own checks have the last word."""
    about.only(*rules)
    values = {name: about.take(name, fits) for name, fits in rules.items()}
    try:
        return kind(**{n: tuple(v) if type(v) is list else v for n, v in values.items()})
    except ValueError as error:
        raise ArchiveError(f"In {about.what}: {error}") from error


def rebuild(about: Text, members: dict[str, bytes]) -> Archive:
    """The archive from its description and its arrays."""
    _demand(
        "kind" not in about.value,
        "This file holds a straight line, which has no steps: it predicts and scores, and that is "
        "all.",
    )
    named = described(about)
    task, classes = named["task"], named["classes"]
    # Files that were written before there was a choice lack these entries.
    before = {"posterior": "doubly_stochastic", "lengthscale": 2.0}
    chosen = {**before, **about.take("model", _is_object)}
    spec = _spec(ModelSpec, _MODEL, Text(chosen, "the model"))
    training = _spec(TrainSpec, _TRAINING, Text(about.take("training", _is_object), "training"))
    dtype = about.take("dtype", _one_of("float32", "float64"))

    read = Arrays(members)
    D, P = len(named["input_names"]), len(named["output_names"])
    scaler = scaler_of(read, D, P)
    if task in ("binary", "multiclass"):
        fits = P == 1 and (
            len(classes) == 2 if spec.likelihood == "bernoulli" else len(classes) > 1
        )
        _demand(fits, "The classes of this model do not fit its likelihood.")
    n_inputs = int(scaler.kept.sum())
    domain = domain_of(read, D, n_inputs)
    state = _state(spec, dtype, n_inputs, P, len(classes), read)
    progress = _progress(Text(about.take("progress", _is_object), "the progress"), spec, read)
    _demand(not read.left, "There are unknown parts in this file.")
    return Archive(
        model=spec,
        training=training,
        scaler=scaler,
        state=state,
        progress=progress,
        domain=domain,
        settings=about.take("settings", _or_none(_is_object)),
        **named,
    )


def described(about: Text) -> dict[str, Any]:
    """What `description` wrote, checked."""
    written = about.take("format", _is_count)
    _demand(
        written <= FORMAT,
        f"This model was saved by a newer version of the library (format {written}; this one "
        f"reads up to {FORMAT}): update dgp-lab to open it.",
    )
    _demand(written == FORMAT, f"There is no format {written} of saved models.")
    task = about.take("task", _one_of(*get_args(Task)))
    input_names = tuple(about.take("input_names", _list_of(_is_text)))
    output_names = tuple(about.take("output_names", _list_of(_is_text)))
    classes = tuple(about.take("classes", _list_of(_is_label)))
    _demand(len({type(c) for c in classes}) < 2, "The classes of this model are not of one kind.")
    _demand(len(set(classes)) == len(classes), "A class of this model is named twice.")
    _demand(bool(input_names and output_names), "A model needs at least one input and one output.")
    # Files that were written before there were these entries lack them.
    source, widened = about.value.get("source"), about.value.get("widening")
    if isinstance(source, dict):
        source = {"split_way": "chance", "split_column": "", "shards": "", **source}
    if widened is not None:
        widened = _spec(Widening, _WIDENING, Text(widened, "the widening"))
        fits = task in ("regression", "counts") and len(widened.factor) == len(output_names)
        _demand(fits, "The widening of this model does not fit its outputs.")
    return {
        "task": task,
        "input_names": input_names,
        "output_names": output_names,
        "classes": classes,
        "recipe": about.take("recipe", _or_none(_is_object)),
        "source": None if source is None else _spec(Source, _SOURCE, Text(source, "the source")),
        "widening": widened,
        "library": about.take("library", _is_text),
    }


def scaler_of(read: "Arrays", n_inputs: int, n_outputs: int) -> Scaler:
    """The units of a model."""
    taken = {
        name: read.take(
            f"scaler/{name}",
            (n_outputs if name.startswith("y") else n_inputs,),
            "bool" if name in ("kept", "exposed") else "float64",
        )
        for name in SCALER
        if name != "exposed" or read.has("scaler/exposed")
    }
    # Files that were written before there was an exposure lack it.
    scaler = Scaler(**{"exposed": np.zeros(n_inputs, bool)} | taken)
    _demand(
        bool(scaler.kept.any() and (scaler.x_scale > 0).all() and (scaler.y_scale > 0).all()),
        "The units of this model are damaged: a scale must be positive.",
    )
    _demand(
        scaler.exposed.sum() <= 1 and not (scaler.kept & scaler.exposed).any(),
        "The units of this model are damaged: an exposure is one column, and no input.",
    )
    return scaler


class Arrays:
    """The file's arrays, each taken by its name, shape and type."""

    def __init__(self, members: dict[str, bytes]):
        self.left = dict(members)

    def size(self) -> int:
        return sum(map(len, self.left.values()))

    def has(self, name: str) -> bool:
        return f"{name}.npy" in self.left

    def length(self, name: str) -> int:
        """How many rows an array has, by its own header."""
        shape = self._header(name)[1]
        n = math.prod(shape[:1]) if shape else 0
        _demand(n > 0, f"The part {name} has no rows.")
        return n

    def _header(self, name: str) -> tuple[io.BytesIO, tuple[int, ...], bool, np.dtype]:
        """An array's file, read up to its numbers: shape, whether columns come first, and type."""
        _demand(self.has(name), f"The part {name} is missing.")
        member = io.BytesIO(self.left[f"{name}.npy"])
        _demand(npy.read_magic(member) == (1, 0), f"The part {name} is no array of this format.")
        return member, *npy.read_array_header_1_0(member)

    def take(self, name: str, shape: tuple[int | None, ...], dtype: str) -> np.ndarray:
        """An array of finite numbers; a length of None is any."""
        member, found, fortran, kind = self._header(name)
        del self.left[f"{name}.npy"]
        fits = len(found) == len(shape) and all(
            want is None or have == want for have, want in zip(found, shape, strict=True)
        )
        _demand(
            fits and kind == np.dtype(dtype) and not fortran,
            f"The part {name} has another shape or type than this model's.",
        )
        values = member.read()
        _demand(
            len(values) == math.prod(found) * kind.itemsize, f"The part {name} has been cut off."
        )
        array = np.frombuffer(values, kind).reshape(found).copy()
        # The bound of a step that was undone need not be finite.
        _demand(
            name.startswith("history/") or bool(np.isfinite(array).all()),
            f"The part {name} holds numbers that are not finite.",
        )
        return array


def domain_of(read: Arrays, D: int, n_inputs: int) -> Domain | None:
    """Where the training rows lie; None in files that were written before there was this."""
    if not read.has("domain/low"):
        return None
    shapes: dict[str, tuple[int | None, ...]] = {"centres": (None, n_inputs), "radius": ()}
    domain = Domain(
        **{
            name: read.take(
                f"domain/{name}", shapes.get(name, (D,)), "bool" if name == "whole" else "float64"
            )
            for name in DOMAIN
        }
    )
    _demand(
        bool((domain.low <= domain.high).all() and len(domain.centres) and domain.radius > 0),
        "The range of the training rows is damaged.",
    )
    return domain


def _state(
    spec: ModelSpec, dtype: str, n_inputs: int, n_outputs: int, n_classes: int, read: Arrays
) -> TrainState:
    """The training state: the structure that the specification gives, filled from the arrays."""
    many = spec.likelihood in ("robust_max", "softmax")
    widths = (*spec.inner_widths(n_inputs), n_classes if many else n_outputs)
    entering = (n_inputs, *widths[:-1])
    n_parts = sum(name.count("+") + name.count("*") + 1 for name in spec.kernel_names)
    n_numbers = sum(M * M * P for M, P in zip(spec.inducing_counts, widths, strict=True))
    # Room is made only for a structure that the file is large enough to fill.
    _demand(
        n_parts <= len(read.left)
        and 4 * n_numbers <= read.size()
        and max(D * P for D, P in zip(entering, widths, strict=True)) <= MOST_WEIGHTS,
        "This file is smaller than the model that it describes.",
    )
    try:
        model = create_model(
            replace(spec, precision=dtype), np.zeros((1, n_inputs)), n_outputs, n_classes
        )
    except ValueError as error:
        raise ArchiveError(f"In the model: {error}") from error
    if spec.mean_field:
        n = read.length("state/model/hidden/0/mean")
        _demand(
            n <= mean_field.MOST_ROWS and 8 * n * sum(widths[:-1]) <= read.size(),
            "This file is smaller than the model that it describes, or its rows are too many.",
        )
        model = replace(model, hidden=mean_field.resized(model.hidden, n))
    pattern = create_state(model, jax.random.key(0))
    named = _named_leaves(pattern)
    shorter = _without_offset(spec, n_outputs, read)
    leaves = []
    for name, leaf in named.items():
        if shorter and name == OFFSET:
            leaves.append(jnp.zeros_like(leaf))
            continue
        lacks = shorter if name in ("adam/mu", "adam/nu") else 0
        shape = (len(leaf) - lacks,) if lacks else leaf.shape
        found = read.take(f"state/{name}", shape, str(leaf.dtype))
        leaves.append(jnp.asarray(np.pad(found, (0, lacks)) if lacks else found))
    state: TrainState = jax.tree.unflatten(jax.tree.structure(_plain_key(pattern)), leaves)
    jitter, caution = float(state.jitter), float(state.caution)
    _demand(
        # A hair above, for float32's rounding.
        0 < jitter <= 1.001 * MOST_JITTER
        and 0 < caution <= 1
        and min(int(n) for n in (state.step, state.failures, state.streak)) >= 0,
        "The training state of this model is damaged.",
    )
    return replace(state, key=jax.random.wrap_key_data(state.key))


OFFSET = "model/likelihood/offset"


def _without_offset(spec: ModelSpec, n_outputs: int, read: Arrays) -> int:
    """How many numbers a file lacks that was written before counts had an offset, which is 0 there:
    the last of all parameters."""
    return n_outputs if spec.likelihood == "poisson" and not read.has(f"state/{OFFSET}") else 0


def _progress(about: Text, spec: ModelSpec, read: Arrays) -> Progress:
    about.only("steps", "seconds", "failures", "stopped")
    fit = read.take("history/fit", (None,), "float64")
    kl = read.take("history/kl", (len(fit), spec.layers), "float64")
    return Progress(
        steps=about.take("steps", _is_count),
        seconds=about.take("seconds", _is_number),
        fit=[fit] if len(fit) else [],
        kl=[kl] if len(fit) else [],
        failures=about.take("failures", _is_count),
        stopped=about.take("stopped", _is_text),
    )
