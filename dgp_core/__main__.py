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
from dgp_core.compile_cache import remember_compilations
from dgp_core.data import Dataset, Scaler, Task, split
from dgp_core.estimator import ProgressBar
from dgp_core.likelihoods import for_task
from dgp_core.model import SKETCH, ModelSpec, create_model
from dgp_core.optimise import TrainState, create_state
from dgp_core.outcome import Outcome
from dgp_core.plain import visible
from dgp_core.recipe import Missing, Recipe, Transform
from dgp_core.table import (
    Kind,
    Table,
    TableError,
    export_csv,
    propose_missing,
    propose_task,
    read_table,
)
from dgp_core.train import HOPELESS, Progress, Rows, TrainSpec, resume

PROGRAM = "python -m dgp_core"

CHECKPOINT_SECONDS = 60.0
"""How often a model under way is written to its file."""

ROWS_WRITTEN = 10_000
"""Rows that are written to a file of predictions at a time."""

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
    except (Refused, TableError, ArchiveError) as error:
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
    table = read_table(wishes.data, limits=None)
    for name, kind in wishes.column:
        table = table.decide(name, kind)
    target, *more = wishes.target
    task = wishes.task
    if task is None:
        proposal = None if more else propose_task(table, target)
        task = "regression" if proposal is None else proposal.value
        _say(f"The task is {task}." + (f" {proposal.reason}" if proposal else ""))
    prepared = table.to_dataset(
        wishes.target,
        task,
        wishes.missing or propose_missing(table).value,
        wishes.transform,
    )
    _say(*prepared.report)
    whole = prepared.dataset
    del table
    source = Source(
        _seen_from(wishes.out, wishes.data),
        len(whole),
        digest(whole.X, whole.Y),
        wishes.holdout,
        wishes.seed,
    )
    train, held_out = _parts(whole, source)
    scaler = Scaler.fit(train)
    standard = scaler(train)
    model_spec, train_spec = _specs(wishes, train, standard)
    model = create_model(
        model_spec, standard.X, standard.Y.shape[1], max(2, len(whole.classes)), train_spec.seed
    )
    record = Archive(
        model=model_spec,
        training=train_spec,
        scaler=scaler,
        state=create_state(model, jax.random.key(train_spec.seed)),
        progress=Progress(),
        task=task,
        input_names=whole.input_names,
        output_names=whole.output_names,
        classes=whole.classes,
        recipe=json.loads(prepared.recipe.to_json()),
        source=source,
    )
    counts = ", ".join(map(str, model_spec.inducing_counts))
    _say(
        f"{len(train):,} rows of {standard.X.shape[1]:,} inputs train {model_spec.layers} "
        f"layer{'s' if model_spec.layers > 1 else ''} ({counts} inducing points, "
        f"{', '.join(dict.fromkeys(model_spec.kernel_names))}, {model_spec.likelihood}); "
        f"{len(held_out) if held_out else 0:,} rows are held out."
    )
    return _train(record, standard, held_out, Path(wishes.out))


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
    whole = _again(record, wishes)
    train, held_out = _parts(whole, record.source)
    record = replace(
        record,
        training=replace(record.training, steps=steps, seconds=None),
        progress=replace(record.progress, stopped=""),
    )
    if record.source is not None and record.source.file and wishes.data is None:
        moved = _seen_from(out, Path(wishes.model).parent / record.source.file)
        record = replace(record, source=replace(record.source, file=moved))
    elif record.source is not None:
        file = _seen_from(out, wishes.data)
        record = replace(record, source=replace(record.source, file=file))
    _say(f"{len(train):,} rows; from step {record.progress.steps:,} on.")
    return _train(record, record.scaler(train), held_out, out)


def predict(wishes: argparse.Namespace) -> int:
    """Writes a model's predictions for the rows of a file beside all of its columns."""
    outcome = Outcome(_load(wishes.model))
    table = read_table(wishes.data, limits=None)
    X = outcome.recipe.inputs(table)

    def blocks() -> Iterable[bytes]:
        for start in range(0, table.rows, ROWS_WRITTEN):
            part = slice(start, start + ROWS_WRITTEN)
            columns = {name: _cells(cells[part]) for name, cells in table.cells.items()}
            for name, values in outcome.predictions(X[part]).items():
                columns[_unlike(name, table.cells)] = values
            content = export_csv(columns)
            yield (
                content[len(export_csv({name: np.zeros(0) for name in columns})) :]
                if (start)
                else content
            )

    _write(Path(wishes.out), blocks())
    _say(f"{table.rows:,} predictions are in {visible(wishes.out, 200)}.")
    return 0


def score(wishes: argparse.Namespace) -> int:
    """Prints how good a model's predictions are on the rows of a file."""
    record = _load(wishes.model)
    outcome = Outcome(record)
    table = read_table(wishes.data, limits=None)
    whole = _dataset(table, outcome.recipe)
    if len(whole) < table.rows:
        _say(f"{table.rows - len(whole):,} rows have a missing cell and are left out.")
    source = record.source
    if source is not None and digest(whole.X, whole.Y) == source.digest:
        _, held_out = _parts(whole, source)
        if held_out is None:
            _say("The model learnt from these very rows: others will be predicted less well.")
        else:
            whole = held_out
            _say("The model learnt from this file: only the rows that it has not seen count.")
    _print_scores(outcome, whole)
    return 0


# What they share.


def _specs(
    wishes: argparse.Namespace, train: Dataset, standard: Dataset
) -> tuple[ModelSpec, TrainSpec]:
    """The model and its training as they were wished for."""
    likelihood = wishes.likelihood or for_task(train.task, train.Y.shape[1], len(train.classes))
    if likelihood not in LIKELIHOODS[train.task]:
        raise Refused(
            f"The likelihood {likelihood} is not for {train.task}: choose "
            f"{' or '.join(LIKELIHOODS[train.task])}, or another --task."
        )
    X = standard.X
    most = len(np.unique(X, axis=0)) if len(X) <= SKETCH else len(X)
    try:
        model = ModelSpec(
            layers=wishes.layers,
            inducing=min(wishes.inducing, most),
            kernels=wishes.kernel,
            likelihood=likelihood,
        )
        create_model(replace(model, inducing=1), X[:1], standard.Y.shape[1], len(train.classes))
        training = TrainSpec(
            steps=wishes.steps,
            learning_rate=wishes.learning_rate,
            natural_rate=wishes.natural_rate,
            ramp_steps=min(TrainSpec.ramp_steps, wishes.steps // 5),
            minibatch=wishes.minibatch,
            seed=wishes.seed,
        )
    except ValueError as error:
        raise Refused(str(error)) from None
    return model, training


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


def _again(record: Archive, wishes: argparse.Namespace) -> Dataset:
    """The rows that a model learns from, found and read again."""
    source = record.source
    path = wishes.data
    if path is None:
        if source is None or not source.file:
            raise Refused(
                "This model does not say where its rows are: name their file, "
                f"{PROGRAM} resume {shlex.quote(wishes.model)} DATA.csv"
            )
        path = Path(wishes.model).parent / source.file
    whole = _dataset(read_table(path, limits=None), Outcome(record).recipe)
    if source is not None and digest(whole.X, whole.Y) != source.digest:
        raise Refused(
            f"{visible(os.path.basename(path), 200)} holds other rows ({len(whole):,} complete "
            f"ones) than those that the model learns from ({source.rows:,}), and training goes on "
            f"only with the same. To learn from these: {PROGRAM} fit"
        )
    return whole


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


def _train(record: Archive, rows: Dataset, held_out: Dataset | None, out: Path) -> int:
    """Trains to the end or to a signal, with checkpoints; saves; scores on rows held out."""
    spec, bar, saved = record.training, ProgressBar(record.training.steps), time.monotonic()
    dtype = record.state.jitter.dtype

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
        supply = Rows.create(rows.X, rows.Y, spec.minibatch, dtype, spec.seed)
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
    if held_out is not None:
        _print_scores(Outcome(record), held_out)
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


def _cells(cells) -> np.ndarray:
    """A column of the user's file for an export: whole numbers without a point."""
    if not isinstance(cells, np.ndarray):
        return np.array(cells.to_pylist(), object)
    if cells.dtype.kind == "f":
        known = cells[~np.isnan(cells)]
        if (known % 1 == 0).all() and (np.abs(known) < 1 << 53).all():
            return np.array([None if x != x else int(x) for x in cells.tolist()], object)
    return cells


def _unlike(name: str, taken: Iterable[str]) -> str:
    """The name, or one with a number behind it where it is taken."""
    again, k = name, 2
    while again in taken:
        again, k = f"{name} ({k})", k + 1
    return again


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


def _batch(text: str) -> int | None:
    return None if text == "all" else _number(1)(text)


def _decision(text: str) -> tuple[str, str]:
    name, _, kind = text.rpartition("=")
    if not name or kind not in get_args(Kind):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=KIND, with a kind of {', '.join(get_args(Kind))}"
        )
    return name, kind


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

    table = ("data", "a table: CSV and its kin, gzip of these, or Parquet")
    model = ("model", "a model's file, from here or from the app")

    sub = command("fit", fit, table)
    add = sub.add_argument
    add("--target", required=True, action="append", metavar="COLUMN", help="may be given again")
    add("--out", required=True, metavar="MODEL.npz", help="where the model goes")
    add("--task", choices=get_args(Task), help="proposed from the target where it is not given")
    add("--layers", type=_number(1, 100), default=ModelSpec.layers, help="%(default)s")
    add("--inducing", type=_number(1, 10_000), default=ModelSpec.inducing, help="%(default)s")
    add("--kernel", default=ModelSpec.kernels, help='%(default)s; or "matern52 + linear", …')
    add("--likelihood", help="the task's own; student_t for outliers, softmax for classes")
    add("--steps", type=_number(0), default=TrainSpec.steps, help="%(default)s")
    add("--minibatch", type=_batch, default=TrainSpec.minibatch, help="%(default)s rows, or all")
    add("--learning-rate", type=_rate(0, 10), default=TrainSpec.learning_rate, help="%(default)s")
    add("--natural-rate", type=_rate(0, 1), default=TrainSpec.natural_rate, help="%(default)s")
    add("--seed", type=_number(0, (1 << 32) - 1), default=0, help="%(default)s")
    add("--holdout", type=_rate(0, 0.99), default=0.1, help="the share to judge by: %(default)s")
    add("--missing", choices=get_args(Missing), help="drop rows with holes, or fill the holes")
    add("--transform", choices=get_args(Transform), default="none", help="of the target")
    add(
        "--column",
        type=_decision,
        action="append",
        default=[],
        metavar="NAME=KIND",
        help=f"decides a column: {', '.join(get_args(Kind))}; may be given again",
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
    remember_compilations()
    sys.exit(main())
