"""Without a screen: fit a model to a file, predict, score, and go on with training.

    python -m dgp_core fit DATA.csv --target y --out model.npz
    python -m dgp_core predict model.npz NEW.csv --out predictions.csv
    python -m dgp_core score model.npz TEST.csv
    python -m dgp_core resume model.npz

Files are read, and models written, as the app does it: what one saves, the other opens.
"""

import argparse
import json
import os
import secrets
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import jax
import numpy as np

from dgp_core import archive
from dgp_core.archive import Archive, ArchiveError, Source, digest
from dgp_core.estimator import ProgressBar
from dgp_core.gp.data import Dataset, Scaled, Scaler, Task, split
from dgp_core.gp.likelihoods import for_task
from dgp_core.gp.model import SKETCH, create_model
from dgp_core.outcome import Outcome
from dgp_core.script import Decision
from dgp_core.tables.large_file import (
    STREAM_BYTES,
    LargeFile,
    TableParts,
    opens_in_parts,
    recipe_for,
)
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import Missing, Recipe, Transform
from dgp_core.tables.table import (
    Kind,
    Table,
    TableError,
    propose_missing,
    propose_task,
    read_table,
)
from dgp_core.training.optimise import TrainState, create_state
from dgp_core.training.plan import FULL_BATCH, propose
from dgp_core.training.rows import RowsError, Sample, Stream, Survey, survey
from dgp_core.training.train import HOPELESS, Progress, Rows, Supply, Windows, resume

PROGRAM = "python -m dgp_core"

CHECKPOINT_SECONDS = 60.0
"""How often a model under way is written to its file."""

MOST_COPIED_CELLS = 4_000_000
"""Rows times columns up to which rows in standard units are held beside those of the file."""

LIKELIHOODS: dict[str, tuple[str, ...]] = {
    "regression": ("gaussian", "student_t"),
    "counts": ("poisson",),
    "binary": ("bernoulli", "robust_max", "softmax"),
    "multiclass": ("robust_max", "softmax"),
}
"""The likelihoods that make sense of each task."""


class Refused(Exception):
    """A wish that cannot be met; the message says why and what to do."""


def main(words: list[str] | None = None) -> int:
    """Does what the command line asks; the exit code is 0, 2 after a refusal, 128 + a signal."""
    wishes = _parser().parse_args(words)
    try:
        return wishes.command(wishes)
    except (Refused, TableError, RowsError, ArchiveError) as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Stopped before there was anything to save.", file=sys.stderr)
        return 128 + signal.SIGINT


def _say(*sentences: str) -> None:
    print(*sentences, sep="\n", file=sys.stderr, flush=True)


# The four commands.


def fit(wishes: argparse.Namespace) -> int:
    """Learns a column of a file from all others, and saves the model."""
    if wishes.stream or opens_in_parts(wishes.data):
        return _fit_in_parts(wishes)
    table = read_table(wishes.data, limits=None)
    for name, kind, day_first in wishes.column:
        table = table.decide(name, kind, day_first)
    task = _task(wishes, table)
    missing = wishes.missing or propose_missing(table).value
    prepared = table.to_dataset(wishes.target, task, missing, wishes.transform)
    _say(*prepared.report)
    whole = prepared.dataset
    del table
    source = _source(wishes, len(whole), digest(whole.X, whole.Y))
    train, held_out = _parts(whole, source)
    recipe = prepared.recipe
    del prepared, whole  # the split has a copy
    scaler = Scaler.fit(train)
    inputs = Scaled(train.X, scaler.inputs)
    record = _begin(wishes, inputs, train.Y.shape[1], len(train), scaler, recipe, source)
    _say(f"{len(held_out) if held_out else 0:,} rows are held out.")
    return _train(record, _supply(record, train), held_out, Path(wishes.out))


def _fit_in_parts(wishes: argparse.Namespace) -> int:
    """The same for a file that is larger than the memory."""
    if wishes.missing == "fill" or wishes.minibatch is None:
        raise Refused(
            "A file that is read in parts drops rows with missing cells, and trains on minibatches:"
            " leave out --missing fill and --minibatch all."
        )
    file = LargeFile(wishes.data)
    head = file.head()
    for name, kind, day_first in wishes.column:
        head = head.decide(name, kind, day_first)
    task = _task(wishes, head)
    recipe, said = recipe_for(file, head, wishes.target, task, wishes.transform)
    _say(f"{file.name} is read in {len(file):,} parts, {file.rows:,} rows in all.", *said)
    parts = TableParts(file, recipe)
    found = survey(parts, task, wishes.holdout, wishes.seed)
    if found.rows < file.rows:
        _say(f"{file.rows - found.rows:,} rows have a missing cell and are left out.")
    source = replace(_source(wishes, found.rows, found.digest), streamed=True)
    inputs, P = found.scaler.inputs(found.start.X), found.start.Y.shape[1]
    record = _begin(wishes, inputs, P, sum(found.sizes), found.scaler, recipe, source)
    if record.training.minibatch is None or record.training.minibatch > sum(found.sizes):
        batch = min(FULL_BATCH, sum(found.sizes))
        record = replace(record, training=replace(record.training, minibatch=batch))
    _say(f"{found.rows - sum(found.sizes):,} rows are held out.")
    with _stream(record, parts, found) as supply:
        held_out = _sampled(file.name, recipe, found.held_out)
        return _train(record, supply, held_out, Path(wishes.out))


def go_on(wishes: argparse.Namespace) -> int:
    """Goes on with a model's training, from its last step and with the same rows."""
    record, out = _load(wishes.model), Path(wishes.out or wishes.model)
    steps = record.training.steps if wishes.steps is None else wishes.steps
    if record.progress.steps >= steps:
        _say(
            f"This model has {record.progress.steps:,} steps already. For more of them: "
            f"{PROGRAM} resume {shlex.quote(wishes.model)} --steps N, where N counts all."
        )
        return 0
    source, recipe = record.source, Outcome(record).recipe
    if wishes.data is not None:
        path = Path(wishes.data)
    elif source is not None and source.file:
        path = Path(wishes.model).parent / source.file
    else:
        raise Refused(
            "This model does not say where its rows are: name their file, "
            f"{PROGRAM} resume {shlex.quote(wishes.model)} DATA.csv"
        )
    record = replace(
        record,
        training=replace(record.training, steps=steps, seconds=None),
        progress=replace(record.progress, stopped=""),
        source=source and replace(source, file=_seen_from(out, path)),
    )
    _say(f"It goes on from step {record.progress.steps:,}.")
    if source is not None and source.streamed:
        parts = TableParts(LargeFile(path), recipe)
        found = survey(parts, record.task, source.held_out, source.split_seed)
        _check_rows(source, path, found.rows, found.digest)
        held_out = _sampled(path.name, recipe, found.held_out)
        with _stream(record, parts, found) as supply:
            return _train(record, supply, held_out, out)
    whole = _dataset(read_table(path, limits=None), recipe)
    if source is not None:
        _check_rows(source, path, len(whole), digest(whole.X, whole.Y))
    else:
        _say(
            "This model does not say which rows it learnt from: it goes on with all rows of the "
            "file, those that were held out before included."
        )
    train, held_out = _parts(whole, source)
    del whole
    return _train(record, _supply(record, train), held_out, out)


def predict(wishes: argparse.Namespace) -> int:
    """Writes a model's predictions for the rows of a file beside all of its columns."""
    outcome = Outcome(_load(wishes.model))
    if opens_in_parts(wishes.data):
        file = LargeFile(wishes.data)
        tables = (file.read(part) for part in range(len(file)))
    else:
        tables = iter([read_table(wishes.data, limits=None)])
    rows = 0

    def counted() -> Iterable[Table]:
        nonlocal rows
        for table in tables:
            rows += table.rows
            yield table

    _write(Path(wishes.out), outcome.csv(counted()))
    _say(f"{rows:,} predictions are in {visible(wishes.out, 200)}.")
    return 0


def score(wishes: argparse.Namespace) -> int:
    """Prints how good a model's predictions are on the rows of a file."""
    record = _load(wishes.model)
    outcome = Outcome(record)
    streamed = record.source is not None and record.source.streamed
    if opens_in_parts(wishes.data, 0 if streamed else STREAM_BYTES):
        rows, known = _sampled_to_score(wishes.data, record, outcome.recipe)
    else:
        rows, known = _rows_to_score(wishes.data, record, outcome.recipe)
    if known:
        _say("The model learnt from these very rows: others will be predicted less well.")
    _print_scores(outcome, rows)
    return 0


def _rows_to_score(path: str, record: Archive, recipe: Recipe) -> tuple[Dataset, bool]:
    """The rows of a file that the model has not seen; or all, and whether it learnt from them."""
    table, source = read_table(path, limits=None), record.source
    whole = _dataset(table, recipe)
    if len(whole) < table.rows:
        _say(f"{table.rows - len(whole):,} rows have a missing cell and are left out.")
    if source is None or digest(whole.X, whole.Y) != source.digest:
        return whole, False
    _, held_out = _parts(whole, source)
    if held_out is None:
        return whole, True
    _say("The model learnt from this file: only the rows that it has not seen count.")
    return held_out, False


def _sampled_to_score(path: str, record: Archive, recipe: Recipe) -> tuple[Dataset, bool]:
    """The same from a large file, of which some rows are scored, chosen by chance."""
    file, source = LargeFile(path), record.source
    parts, known = TableParts(file, recipe), False
    if source is not None and source.streamed:
        found = survey(parts, record.task, source.held_out, source.split_seed)
        known = found.digest == source.digest
        if known and len(found.held_out.X):
            _say("The model learnt from this file: only rows that it has not seen count.")
            return _sampled(file.name, recipe, found.held_out), False
    return _sampled(file.name, recipe, survey(parts, record.task).start), known


# What they share.


def _task(wishes: argparse.Namespace, table: Table) -> Task:
    """The task that was asked for, or the one that the target asks for."""
    if wishes.task is None and len(wishes.target) == 1:
        proposal = propose_task(table, wishes.target[0])
        _say(f"The task is {proposal.value}. {proposal.reason}")
        return proposal.value
    return wishes.task or "regression"


def _source(wishes: argparse.Namespace, rows: int, digest: str) -> Source:
    file = _seen_from(wishes.out, wishes.data)
    return Source(file, rows, digest, wishes.holdout, wishes.seed)


def _begin(
    wishes: argparse.Namespace,
    X: np.ndarray | Scaled,
    P: int,
    n_rows: int,
    scaler: Scaler,
    recipe: Recipe,
    source: Source,
) -> Archive:
    """A model before its first step; of n training rows with P outputs, X are some or all."""
    task, C = recipe.task, len(recipe.classes)
    likelihood = wishes.likelihood or for_task(task, P, C)
    if likelihood not in LIKELIHOODS[task]:
        raise Refused(
            f"The likelihood {likelihood} is not for {task}: choose "
            f"{' or '.join(LIKELIHOODS[task])}, or another --task."
        )
    most = len(np.unique(X[:], axis=0)) if n_rows <= SKETCH else n_rows
    try:
        plan = propose(n_rows, X.shape[1], task, P, C, wishes.seed)
        model = replace(
            plan.model,
            layers=wishes.layers or plan.model.layers,
            inducing=min(wishes.inducing or plan.model.inducing_counts[0], most),
            kernels=wishes.kernel or plan.model.kernels,
            likelihood=likelihood,
        )
        given = {n: getattr(wishes, n) for n in ("steps", "learning_rate", "natural_rate")}
        training = replace(plan.train, **{n: v for n, v in given.items() if v is not None})
        training = replace(
            training,
            # A short run climbs within a fifth of its steps.
            ramp_steps=min(training.ramp_steps, training.steps // 5),
            minibatch=plan.train.minibatch if wishes.minibatch == "plan" else wishes.minibatch,
        )
        start = create_model(model, X, P, max(2, C), training.seed)
    except ValueError as error:
        raise Refused(str(error)) from None
    _say(
        f"{n_rows:,} rows of {X.shape[1]:,} inputs train {model.layers} "
        f"layer{'s' if model.layers > 1 else ''} ({model.inducing_counts[0]} inducing points each, "
        f"{visible(model.kernel_names[0])}, {likelihood}) for {training.steps:,} steps."
    )
    return Archive(
        model=model,
        training=training,
        scaler=scaler,
        state=create_state(start, jax.random.key(training.seed)),
        progress=Progress(),
        task=task,
        input_names=recipe.input_names,
        output_names=recipe.output_names,
        classes=recipe.classes,
        recipe=json.loads(recipe.to_json()),
        source=source,
    )


def _supply(record: Archive, train: Dataset) -> Supply:
    """Minibatches in standard units; of many rows there is no copy beside the rows themselves."""
    spec, dtype = record.training, record.state.jitter.dtype
    X, Y = Scaled(train.X, record.scaler.inputs), Scaled(train.Y, record.scaler.outputs)
    batch = spec.minibatch
    if batch is not None and batch < len(train) and train.X.size > MOST_COPIED_CELLS:
        return Windows(X, Y, batch, dtype, spec.seed)
    return Rows.create(X, Y, batch, dtype, spec.seed)


def _stream(record: Archive, parts: TableParts, found: Survey) -> Stream:
    source, spec = record.source, record.training
    assert source is not None and spec.minibatch is not None
    found, dtype = replace(found, scaler=record.scaler), record.state.jitter.dtype
    return Stream(
        parts, found, spec.minibatch, spec.seed, source.held_out, source.split_seed, dtype
    )


def _sampled(name: str, recipe: Recipe, sample: Sample) -> Dataset:
    """Rows that were chosen by chance from a large file."""
    names = (recipe.input_names, recipe.output_names)
    return Dataset(name, sample.X, sample.Y, *names, recipe.task, "", recipe.classes)


def _parts(whole: Dataset, source: Source | None) -> tuple[Dataset, Dataset | None]:
    """The rows that train, and those held out."""
    if source is None or not source.held_out:
        return whole, None
    try:
        return split(whole, 1 - source.held_out, source.split_seed)
    except ValueError as error:
        raise Refused(f"{error} With --holdout 0 all rows train.") from None


def _dataset(table: Table, recipe: Recipe) -> Dataset:
    """The complete rows of a file, made into numbers as the model's recipe says."""
    X, Y, rows = recipe.complete(table)
    if not len(rows):
        raise Refused(
            f"No row of {visible(table.name)} has all of the model's inputs and its target: "
            "check that its columns hold what those of the first file did."
        )
    return Dataset(
        table.name, X, Y, recipe.input_names, recipe.output_names, recipe.task, "", recipe.classes
    )


def _check_rows(source: Source, path: Path, rows: int, found: str) -> None:
    """Refuses rows that are not those of the model."""
    if found != source.digest:
        raise Refused(
            f"{visible(path.name, 200)} holds other rows ({rows:,} complete ones) than those that "
            f"the model learns from ({source.rows:,}), and training goes on only with the same. "
            f"To learn from these: {PROGRAM} fit"
        )


class _Signals:
    """Notes Ctrl-C and SIGTERM instead of dying of them; a second one is deadly again."""

    def __enter__(self) -> "_Signals":
        self.caught: signal.Signals | None = None
        self.before = {s: signal.signal(s, self._note) for s in (signal.SIGINT, signal.SIGTERM)}
        return self

    def _note(self, number: int, frame) -> None:
        self.caught = signal.Signals(number)
        self.__exit__()

    def __exit__(self, *_) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


def _train(record: Archive, supply: Supply, held_out: Dataset | None, out: Path) -> int:
    """Trains to the end or to a signal, with checkpoints; saves; scores on rows held out."""
    spec, bar, saved = record.training, ProgressBar(record.training.steps), time.monotonic()

    def on_chunk(state: TrainState, progress: Progress) -> bool:
        nonlocal saved
        bar(state, progress)
        if time.monotonic() >= saved + CHECKPOINT_SECONDS:
            try:
                _save(out, replace(record, state=state, progress=progress))
            except Refused as error:
                _say(f"No checkpoint: {error}")
            saved = time.monotonic()
        return signals.caught is not None

    with _Signals() as signals:
        _save(out, record)  # before an hour is spent on what then cannot be written
        state, progress = resume(record.state, supply, spec, record.progress, on_chunk)
        bar.close(progress)
        record = replace(record, state=state, progress=progress)
        _save(out, record)
    name = shlex.quote(str(out))
    if signals.caught is not None and progress.steps < spec.steps:
        _say(
            f"Saved at step {progress.steps:,} of {spec.steps:,}, after {signals.caught.name}. "
            f"To go on: {PROGRAM} resume {name}"
        )
        return 128 + signals.caught
    _say(f"The model is in {name}.")
    if int(state.streak) >= HOPELESS:
        _say("Its training failed: try a smaller --learning-rate.")
        return 1
    if held_out is not None and len(held_out):
        try:
            _print_scores(Outcome(record), held_out)
        except KeyboardInterrupt:
            _say("Stopped before it was scored; the model is saved.")
            return 128 + signal.SIGINT
    return 0


def _print_scores(outcome: Outcome, rows: Dataset) -> None:
    _say(f"On {len(rows):,} rows, in the file's own units:")
    for name, value in outcome.scores(rows.X, rows.Y).items():
        print(f"{name:<16}{value:>14.6g}", flush=True)


# Files.


def _load(path: str) -> Archive:
    try:
        return archive.load(path)
    except OSError as error:
        raise Refused(
            f"The model {visible(path, 200)} cannot be opened: {error.strerror}. Check its path."
        ) from None


def _save(path: Path, record: Archive) -> None:
    try:
        archive.save(path, record)
    except OSError as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: OSError) -> Refused:
    return Refused(
        f"{visible(path, 200)} cannot be written: {error.strerror}. Choose another --out."
    )


def _write(path: Path, blocks: Iterable[bytes]) -> None:
    """Writes a file, all or nothing."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
    try:
        with beside.open("xb") as part:
            for block in blocks:
                part.write(block)
        os.replace(beside, path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        beside.unlink(missing_ok=True)


def _seen_from(model: str | Path, data: str | Path) -> str:
    """Where a file is, seen from a model's folder: both may move together."""
    try:
        return Path(os.path.relpath(data, Path(model).parent)).as_posix()
    except ValueError:  # another drive
        return Path(data).absolute().as_posix()


# The words of the command line.


def _number(least: int, most: int = 1 << 53) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return whole


def _rate(least: float, most: float) -> Callable[[str], float]:
    def rate(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least:g} to {most:g}")
        return value

    return rate


def _batch(text: str) -> int | str | None:
    return None if text == "all" else text if text == "plan" else _number(1)(text)


def _decision(text: str) -> Decision:
    name, _, said = text.rpartition("=")
    kind, _, first = said.partition(":")
    orders = {"": None, "day": True, "month": False} if kind == "date" else {"": None}
    if not name or kind not in get_args(Kind) or first not in orders:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=KIND, with a kind of {', '.join(get_args(Kind))}, date:day or "
            "date:month"
        )
    return name, kind, orders[first]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        PROGRAM, description="Deep Gaussian processes without a screen.", allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True, metavar="fit | predict | score | resume")

    def command(name: str, action: Callable, *operands: tuple[str, str]):
        sub = commands.add_parser(
            name, help=action.__doc__, description=action.__doc__, allow_abbrev=False
        )
        sub.set_defaults(command=action)
        for operand, meaning in operands:
            sub.add_argument(operand, help=meaning)
        return sub

    table = ("data", "CSV and its kin, gzip of these, Parquet or a folder of it, or .npy")
    model = ("model", "a model's file, from here or from the app")

    sub = command("fit", fit, table)
    sub.epilog = "What is not given is chosen by the size of the data."
    add = sub.add_argument
    add("--target", required=True, action="append", metavar="COLUMN", help="may be given again")
    add("--out", required=True, metavar="MODEL.npz", help="where the model goes")
    add("--task", choices=get_args(Task), help="proposed from the target where it is not given")
    add("--layers", type=_number(1, 100), help="1 is the sparse GP")
    add("--inducing", type=_number(1, 10_000), help="inducing points of every layer")
    add("--kernel", help='rbf, matern52, "rbf*periodic + linear", …')
    add("--likelihood", help="the task's own; student_t for outliers, softmax for classes")
    add("--steps", type=_number(0))
    add("--minibatch", type=_batch, default="plan", help="rows a step, or all")
    add("--learning-rate", type=_rate(0, 10))
    add("--natural-rate", type=_rate(0, 1), help="0 leaves everything to Adam")
    add("--seed", type=_number(0, (1 << 32) - 1), default=0, help="%(default)s")
    add("--holdout", type=_rate(0, 0.99), default=0.1, help="the share to judge by: %(default)s")
    add("--missing", choices=get_args(Missing), help="drop rows with holes, or fill the holes")
    add("--transform", choices=get_args(Transform), default="none", help="of the target")
    add("--stream", action="store_true", help="read a Parquet file in parts, however small")
    add(
        "--column",
        type=_decision,
        action="append",
        default=[],
        metavar="NAME=KIND",
        help=f"decides a column: {', '.join(get_args(Kind))}; date:day where 1/2 is 1 February, "
        "date:month where it is 2 January; may be given again",
    )

    sub = command("predict", predict, model, table)
    sub.add_argument("--out", required=True, metavar="PREDICTIONS.csv")

    command("score", score, model, table)

    sub = command("resume", go_on, model)
    sub.add_argument("data", nargs="?", help="the model's table, where it is elsewhere now")
    sub.add_argument("--steps", type=_number(0), help="steps in all, those taken included")
    sub.add_argument("--out", metavar="MODEL.npz", help="where the model goes; else where it was")
    return parser


if __name__ == "__main__":
    sys.exit(main())
