"""The four commands: fit, predict, score and resume."""

import argparse
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from dgp_core.archive import Archive, Source, digest
from dgp_core.command.files import Refused, load, log, relative_path, write
from dgp_core.command.training import (
    PROGRAM,
    create_archive,
    minibatches,
    print_scores,
    stream,
    train_and_save,
)
from dgp_core.gp.data import Dataset, Scaled, Scaler, Task, split
from dgp_core.outcome import Outcome
from dgp_core.tables.large_file import (
    STREAM_BYTES,
    LargeFile,
    TableParts,
    opens_in_parts,
    recipe_for,
)
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import Recipe
from dgp_core.tables.table import Table, propose_missing, propose_task, read_table
from dgp_core.training.plan import FULL_BATCH
from dgp_core.training.rows import Sample, survey


def fit(args: argparse.Namespace) -> int:
    """Learns a column of a file from all others, and saves the model."""
    if args.stream or opens_in_parts(args.data):
        return _fit_in_parts(args)
    table = read_table(args.data, limits=None)
    for name, kind, day_first in args.column:
        table = table.decide(name, kind, day_first)
    task = _task(args, table)
    missing = args.missing or propose_missing(table).value
    prepared = table.to_dataset(args.target, task, missing, args.transform)
    log(*prepared.report)
    whole = prepared.dataset
    del table
    source = _source(args, len(whole), digest(whole.X, whole.Y))
    train, held_out = _parts(whole, source)
    recipe = prepared.recipe
    del prepared, whole  # the split has a copy
    scaler = Scaler.fit(train)
    inputs = Scaled(train.X, scaler.inputs)
    record = create_archive(args, inputs, train.Y.shape[1], len(train), scaler, recipe, source)
    log(f"{len(held_out) if held_out else 0:,} rows are held out.")
    return train_and_save(record, minibatches(record, train), held_out, Path(args.out))


def _fit_in_parts(args: argparse.Namespace) -> int:
    """The same for a file that is larger than the memory."""
    if args.missing == "fill" or args.minibatch is None:
        raise Refused(
            "A file that is read in parts drops rows with missing cells, and trains on minibatches:"
            " leave out --missing fill and --minibatch all."
        )
    file = LargeFile(args.data)
    head = file.head()
    for name, kind, day_first in args.column:
        head = head.decide(name, kind, day_first)
    task = _task(args, head)
    recipe, messages = recipe_for(file, head, args.target, task, args.transform)
    log(f"{file.name} is read in {len(file):,} parts, {file.rows:,} rows in all.", *messages)
    parts = TableParts(file, recipe)
    result = survey(parts, task, args.holdout, args.seed)
    if result.rows < file.rows:
        log(f"{file.rows - result.rows:,} rows have a missing cell and are left out.")
    source = replace(_source(args, result.rows, result.digest), streamed=True)
    inputs, P = result.scaler.inputs(result.start.X), result.start.Y.shape[1]
    record = create_archive(args, inputs, P, sum(result.sizes), result.scaler, recipe, source)
    if record.training.minibatch is None or record.training.minibatch > sum(result.sizes):
        batch = min(FULL_BATCH, sum(result.sizes))
        record = replace(record, training=replace(record.training, minibatch=batch))
    log(f"{result.rows - sum(result.sizes):,} rows are held out.")
    with stream(record, parts, result) as supply:
        held_out = _sampled(file.name, recipe, result.held_out)
        return train_and_save(record, supply, held_out, Path(args.out))


def resume(args: argparse.Namespace) -> int:
    """Goes on with a model's training, from its last step and with the same rows."""
    record, out = load(args.model), Path(args.out or args.model)
    steps = record.training.steps if args.steps is None else args.steps
    if record.progress.steps >= steps:
        log(
            f"This model has {record.progress.steps:,} steps already. For more of them: "
            f"{PROGRAM} resume {shlex.quote(args.model)} --steps N, where N counts all."
        )
        return 0
    source, recipe = record.source, Outcome(record).recipe
    if args.data is not None:
        path = Path(args.data)
    elif source is not None and source.file:
        path = Path(args.model).parent / source.file
    else:
        raise Refused(
            "This model does not say where its rows are: name their file, "
            f"{PROGRAM} resume {shlex.quote(args.model)} DATA.csv"
        )
    record = replace(
        record,
        training=replace(record.training, steps=steps, seconds=None),
        progress=replace(record.progress, stopped=""),
        source=source and replace(source, file=relative_path(out, path)),
    )
    log(f"It goes on from step {record.progress.steps:,}.")
    if source is not None and source.streamed:
        parts = TableParts(LargeFile(path), recipe)
        result = survey(parts, record.task, source.held_out, source.split_seed)
        _check_rows(source, path, result.rows, result.digest)
        held_out = _sampled(path.name, recipe, result.held_out)
        with stream(record, parts, result) as supply:
            return train_and_save(record, supply, held_out, out)
    whole = _dataset(read_table(path, limits=None), recipe)
    if source is not None:
        _check_rows(source, path, len(whole), digest(whole.X, whole.Y))
    else:
        log(
            "This model does not say which rows it learnt from: it goes on with all rows of the "
            "file, those that were held out before included."
        )
    train, held_out = _parts(whole, source)
    del whole
    return train_and_save(record, minibatches(record, train), held_out, out)


def predict(args: argparse.Namespace) -> int:
    """Writes a model's predictions for the rows of a file beside all of its columns."""
    outcome = Outcome(load(args.model))
    if opens_in_parts(args.data):
        file = LargeFile(args.data)
        tables = (file.read(part) for part in range(len(file)))
    else:
        tables = iter([read_table(args.data, limits=None)])
    rows = 0

    def counted() -> Iterable[Table]:
        nonlocal rows
        for table in tables:
            rows += table.rows
            yield table

    write(Path(args.out), outcome.csv(counted()))
    log(f"{rows:,} predictions are in {visible(args.out, 200)}.")
    return 0


def score(args: argparse.Namespace) -> int:
    """Prints how good a model's predictions are on the rows of a file."""
    record = load(args.model)
    outcome = Outcome(record)
    streamed = record.source is not None and record.source.streamed
    if opens_in_parts(args.data, 0 if streamed else STREAM_BYTES):
        rows, known = _sampled_to_score(args.data, record, outcome.recipe)
    else:
        rows, known = _rows_to_score(args.data, record, outcome.recipe)
    if known:
        log("The model learnt from these very rows: others will be predicted less well.")
    print_scores(outcome, rows)
    return 0


def _rows_to_score(path: str, record: Archive, recipe: Recipe) -> tuple[Dataset, bool]:
    """The rows of a file that the model has not seen; or all, and whether it learnt from them."""
    table, source = read_table(path, limits=None), record.source
    whole = _dataset(table, recipe)
    if len(whole) < table.rows:
        log(f"{table.rows - len(whole):,} rows have a missing cell and are left out.")
    if source is None or digest(whole.X, whole.Y) != source.digest:
        return whole, False
    _, held_out = _parts(whole, source)
    if held_out is None:
        return whole, True
    log("The model learnt from this file: only the rows that it has not seen count.")
    return held_out, False


def _sampled_to_score(path: str, record: Archive, recipe: Recipe) -> tuple[Dataset, bool]:
    """The same from a large file, of which some rows are scored, chosen by chance."""
    file, source = LargeFile(path), record.source
    parts, known = TableParts(file, recipe), False
    if source is not None and source.streamed:
        result = survey(parts, record.task, source.held_out, source.split_seed)
        known = result.digest == source.digest
        if known and len(result.held_out.X):
            log("The model learnt from this file: only rows that it has not seen count.")
            return _sampled(file.name, recipe, result.held_out), False
    return _sampled(file.name, recipe, survey(parts, record.task).start), known


def _task(args: argparse.Namespace, table: Table) -> Task:
    """The task that was asked for, or the one that the target asks for."""
    if args.task is None and len(args.target) == 1:
        proposal = propose_task(table, args.target[0])
        log(f"The task is {proposal.value}. {proposal.reason}")
        return proposal.value
    return args.task or "regression"


def _source(args: argparse.Namespace, rows: int, digest: str) -> Source:
    file = relative_path(args.out, args.data)
    return Source(file, rows, digest, args.holdout, args.seed)


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
