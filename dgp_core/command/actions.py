"""The four commands: fit, predict, score and resume."""

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dgp_core.archive import Archive, Source, digest
from dgp_core.command.files import Refused, load, load_any, log, relative_path, write
from dgp_core.command.judging import print_scores
from dgp_core.command.training import (
    PROGRAM,
    create_archive,
    minibatches,
    stream,
    train_and_save,
)
from dgp_core.gp.data import Dataset, Scaled, Scaler, Task, counted
from dgp_core.gp.domain import Domain
from dgp_core.line_file import LineArchive
from dgp_core.outcome import Outcome, Tally
from dgp_core.tables.large_file import (
    STREAM_BYTES,
    TableParts,
    complete_rows,
    open_large,
    opens_in_parts,
    recipe_for,
    shuffled_beside,
)
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import READING, Recipe
from dgp_core.tables.shuffled import Shuffled, content_digest, find_shuffled, open_shuffled
from dgp_core.tables.splitting import propose_split, split_by
from dgp_core.tables.table import (
    Decision,
    Table,
    propose_missing,
    propose_task,
    read_alike,
    read_table,
)
from dgp_core.training.plan import training
from dgp_core.training.processes import lead_first
from dgp_core.training.progress import PassBar
from dgp_core.training.rows import HELD_OUT_ROWS, Sample, Survey, survey


def fit(args: argparse.Namespace) -> int:
    """Learns a column of a file from all others, and saves the model."""
    if args.stream or opens_in_parts(args.data):
        return _fit_in_parts(args)
    table = read_table(args.data, limits=None, **_reading(args))
    for name, kind, day_first in args.column:
        table = table.decide(name, kind, day_first)
    task = _task(args, table)
    missing = args.missing or propose_missing(table).value
    prepared = table.to_dataset(args.target, task, missing, args.transform, exposure=args.exposure)
    log(*prepared.report)
    source = _judged_by(args, table, Source(relative_path(args.out, args.data), 0, ""))
    places, groups = _places(table, prepared.rows, source)
    del table
    if places is not None:  # what stands for missing cells is decided by training rows alone
        prepared = prepared.refit(places[0])
    whole, recipe = prepared.dataset, prepared.recipe
    source = replace(source, rows=len(whole), digest=digest(whole.X, whole.Y))
    train, held_out = _parts(whole, places)
    del prepared, whole  # the split has a copy
    scaler = Scaler.fit(train)
    inputs = Scaled(train.X, scaler.inputs)
    domain = Domain.fit(train.X, scaler)
    targets = scaler.targets(train.X, train.Y) if train.exposure else train.Y
    record = create_archive(args, inputs, targets, len(train), scaler, recipe, source, domain)
    log(_are(len(held_out) if held_out else 0, "held out" + _in_words(source)))
    supply = minibatches(record, train)
    return train_and_save(record, supply, held_out, Path(args.out), args.log, train, groups)


def _fit_in_parts(args: argparse.Namespace) -> int:
    """The same for a file that is larger than the memory."""
    if args.minibatch is None:
        raise Refused(
            "A file that is read in parts trains on minibatches: leave out --minibatch all."
        )
    if args.judge_by is not None and args.judge_by[0] != "chance":
        raise Refused(
            "A file that is read in parts is judged by rows held out by chance: leave out "
            "--judge-by, or score the model on a file of later rows."
        )
    goals = [(name, "target", None) for name in args.target]
    shuffled = _shuffled(args.data, args.shards, [*goals, *args.column], **_reading(args))
    log(
        f"{shuffled.name} is read in {counted(len(shuffled), 'part')}, "
        f"{counted(shuffled.rows, 'row')} in all.",
        *shuffled.notes,
    )
    head = shuffled.head()
    for name, kind, day_first in args.column:
        if kind != "dropped" or name in shuffled.columns:
            head = head.decide(name, kind, day_first)
    task = _task(args, head)
    missing = args.missing or propose_missing(head).value
    recipe, messages = recipe_for(
        head,
        args.target,
        task,
        args.transform,
        missing,
        shuffled.facts,
        _reading(args),
        args.exposure,
    )
    log(*messages)
    parts, result = _measured(shuffled, recipe, args.holdout, args.seed)
    if result.rows < shuffled.rows:
        log(_are(shuffled.rows - result.rows, "left out: a cell is missing"))
    source = Source(
        relative_path(args.out, args.data),
        result.rows,
        shuffled.digest,
        args.holdout,
        args.seed,
        streamed=True,
        shards=relative_path(args.out, args.shards) if args.shards else "",
    )
    inputs = result.scaler.inputs(result.start.X)
    Y = result.scaler.targets(result.start.X, result.start.Y)
    n = sum(result.sizes)
    record = create_archive(args, inputs, Y, n, result.scaler, recipe, source, result.domain)
    if record.training.minibatch is None or record.training.minibatch > n:
        batch = training(n).minibatch or n
        record = replace(record, training=replace(record.training, minibatch=batch))
    log(_are(result.rows - n, "held out"))
    with stream(record, parts, result) as supply:
        held_out = recipe.dataset(shuffled.name, result.held_out.X, result.held_out.Y)
        return train_and_save(record, supply, held_out, Path(args.out), args.log)


def _shuffled(
    path: str | Path, shards: str | Path | None, decisions: Sequence[Decision] = (), **given: Any
) -> Shuffled:
    """A large file's rows in random order, beside the file or in the folder that is named."""
    where = Path(shards) if shards else shuffled_beside(path)
    with lead_first(), PassBar() as bar:
        return open_shuffled(open_large(path, **given), where, decisions, bar.begin)


def _measured(
    shuffled: Shuffled, recipe: Recipe, held_out: float, seed: int
) -> tuple[TableParts, Survey]:
    """A large file's rows as numbers, and what one pass over them tells; the pass is kept."""
    parts = TableParts(shuffled, recipe)
    asked = json.dumps([recipe.to_json(), held_out, seed])
    kept = shuffled.folder / f"survey-{digest(np.frombuffer(asked.encode(), np.uint8))}.npz"
    with lead_first():
        result = Survey.load(kept)
        if result is None or len(result.sizes) != len(parts):
            with PassBar() as bar:
                on_part = bar.begin("measuring", len(parts), "part")
                result = survey(parts, recipe.task, held_out, seed, on_part, recipe.exposed)
            result.save(kept)
    return parts, result


def resume(args: argparse.Namespace) -> int:
    """Goes on with a model's training, from its last step and with the same rows."""
    record, out = load(args.model), Path(args.out or args.model)
    steps = record.training.steps if args.steps is None else args.steps
    if record.progress.steps >= steps:
        log(
            f"This model has {counted(record.progress.steps, 'step')} already. For more of them: "
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
        given = {**recipe.reading, **_reading(args)}
        shards = args.shards or _shards_of(source, args.model)
        shuffled = _shuffled(path, shards, _as_stored(recipe), **given)
        _check_rows(source, path, shuffled.rows, shuffled.digest)
        parts, result = _measured(shuffled, recipe, source.held_out, source.split_seed)
        held_out = recipe.dataset(path.name, result.held_out.X, result.held_out.Y)
        with stream(record, parts, result) as supply:
            return train_and_save(record, supply, held_out, out, args.log)
    table = read_alike(path, recipe, limits=None, **_reading(args))
    whole, rows = _dataset(table, recipe)
    if source is not None:
        _check_rows(source, path, len(whole), digest(whole.X, whole.Y))
    else:
        log(
            "This model does not say which rows it learnt from: it goes on with all rows of the "
            "file, those that were held out before included."
        )
    places, groups = _places(table, rows, source)
    train, held_out = _parts(whole, places)
    del whole, table
    supply = minibatches(record, train)
    return train_and_save(record, supply, held_out, out, args.log, train, groups)


def predict(args: argparse.Namespace) -> int:
    """Writes a model's predictions for the rows of a file beside all of its columns."""
    outcome = Outcome(load_any(args.model))
    if opens_in_parts(args.data):
        words = frozenset(c.column for c in outcome.recipe.inputs_from if c.kind == "category")
        given = {**outcome.recipe.reading, **_reading(args)}
        tables = open_large(args.data, **given).tables(words)
    else:
        tables = [read_alike(args.data, outcome.recipe, limits=None, **_reading(args))]
    tally = Tally()
    write(Path(args.out), outcome.csv(tables, tally))
    widened = [] if outcome.widening is None else [outcome.widening.sentence]
    where = f"They are in {visible(args.out, 200)}."
    log(*tally.sentences(Path(args.data).name), *widened, where)
    return 0 if tally.predicted else 1


def score(args: argparse.Namespace) -> int:
    """Prints how good a model's predictions are on the rows of a file."""
    record = load_any(args.model)
    outcome = Outcome(record)
    streamed = record.source is not None and record.source.streamed
    if opens_in_parts(args.data, 0 if streamed else STREAM_BYTES):
        rows, known = _sampled_to_score(args, record, outcome.recipe)
    else:
        table = read_alike(args.data, outcome.recipe, limits=None, **_reading(args))
        rows, known = _rows_to_score(table, record, outcome.recipe)
    if known:
        log("The model learnt from these very rows: others will be predicted less well.")
    print_scores(outcome, outcome.in_units(rows))
    return 0


def _rows_to_score(
    table: Table, record: Archive | LineArchive, recipe: Recipe
) -> tuple[Dataset, bool]:
    """The rows of a file that the model has not seen; or all, and whether it learnt from them."""
    source, (whole, rows) = record.source, _dataset(table, recipe)
    if len(whole) < table.rows:
        log(_are(table.rows - len(whole), "left out: a cell is missing, or was never seen"))
    if source is None or digest(whole.X, whole.Y) != source.digest:
        return whole, False
    places, _ = _places(table, rows, source)
    _, held_out = _parts(whole, places)
    if held_out is None:
        return whole, True
    log(
        "The model learnt from this file: only the rows that it has not seen count"
        f"{_in_words(source)}."
    )
    return held_out, False


def _sampled_to_score(
    args: argparse.Namespace, record: Archive | LineArchive, recipe: Recipe
) -> tuple[Dataset, bool]:
    """The same from a large file, of which some rows are scored, chosen by chance."""
    source, given = record.source, {**recipe.reading, **_reading(args)}
    file = open_large(args.data, **given)
    shards = _shards_of(source, args.model)
    kept = find_shuffled(file, shards or shuffled_beside(args.data))
    known = source is not None and (kept.digest if kept else content_digest(file)) == source.digest
    if known and source is not None and source.held_out:
        shuffled = kept or _shuffled(args.data, shards, _as_stored(recipe), **given)
        _, result = _measured(shuffled, recipe, source.held_out, source.split_seed)
        log("The model learnt from this file: only rows that it has not seen count.")
        return recipe.dataset(file.name, result.held_out.X, result.held_out.Y), False
    words = frozenset(c.column for c in recipe.inputs_from if c.kind == "category")
    sample, rng = None, np.random.default_rng(0)
    for table in file.tables(words):
        X, Y = complete_rows(recipe, table)
        if sample is None:
            sample = Sample(HELD_OUT_ROWS, X[:0], Y[:0], np.zeros(0))
        sample = sample.add(X, Y, rng)
    if sample is None or not len(sample.X):
        raise Refused(f"No row of {visible(file.name)} has all inputs and its target.")
    return recipe.dataset(file.name, sample.X, sample.Y), known


def _shards_of(source: Source | None, model: str) -> Path | None:
    """Where a model's rows in random order are, if not beside their file."""
    return Path(model).parent / source.shards if source is not None and source.shards else None


def _as_stored(recipe: Recipe) -> list[Decision]:
    """What columns must be kept as to be made into numbers by a recipe."""
    return [
        (c.column, c.kind if c.kind in ("number", "date") else "target", c.day_first)
        for c in (*recipe.inputs_from, *recipe.targets)
    ]


def _reading(args: argparse.Namespace) -> dict[str, Any]:
    """How the table is to be read, as far as that was said."""
    return {name: v for name in sorted(READING) if (v := getattr(args, name)) is not None}


def _are(n: int, what: str) -> str:
    return f"{counted(n, 'row')} {'is' if n == 1 else 'are'} {what}."


def _task(args: argparse.Namespace, table: Table) -> Task:
    """The task that was asked for, or the one that the target asks for."""
    if args.task is None and len(args.target) == 1:
        proposal = propose_task(table, args.target[0])
        log(f"The task is {proposal.value}. {proposal.reason}")
        return proposal.value
    return args.task or "regression"


def _judged_by(args: argparse.Namespace, table: Table, source: Source) -> Source:
    """The source with the split that was asked for, or the one that the columns ask for."""
    way, column = args.judge_by or ("chance", "")
    if args.holdout and args.judge_by is None:
        proposal = propose_split(table, args.target[0])
        way, column = proposal.value
        if way != "chance":
            log(
                f"{proposal.reason} Rows are held out by {way}:{visible(column)}; --judge-by "
                "chooses otherwise."
            )
    return replace(
        source,
        held_out=args.holdout,
        split_seed=args.seed,
        split_way=way,
        split_column=table[column].name if column else "",
    )


def _in_words(source: Source) -> str:
    """Which rows are held out, behind a sentence about them; nothing where that is by chance."""
    if source.split_way == "chance":
        return ""
    column = visible(source.split_column)
    return {
        "latest": f", all later in “{column}” than those that train",
        "groups": f": whole groups of “{column}”, none of which trains",
    }[source.split_way]


def _places(
    table: Table, rows: np.ndarray, source: Source | None
) -> tuple[tuple[np.ndarray, np.ndarray] | None, np.ndarray | None]:
    """Of these rows of a table, the places of those that train and of those held out, and the
    groups of the latter where whole groups are."""
    if source is None or not source.held_out:
        return None, None
    try:
        by = split_by(table, source.split_way, source.split_column, rows)
        places = by.places(len(rows), 1 - source.held_out, source.split_seed)
    except ValueError as error:
        raise Refused(f"{error} With --holdout 0 all rows train.") from None
    return places, by.groups_of(places[1])


def _parts(
    whole: Dataset, places: tuple[np.ndarray, np.ndarray] | None
) -> tuple[Dataset, Dataset | None]:
    """The rows that train, and those held out."""
    if places is None:
        return whole, None
    return whole.take(places[0]), whole.take(places[1])


def _dataset(table: Table, recipe: Recipe) -> tuple[Dataset, np.ndarray]:
    """The complete rows of a file, made into numbers as the model's recipe says, and which they
    are."""
    X, Y, rows = recipe.complete(table)
    if not len(rows):
        raise Refused(
            f"No row of {visible(table.name)} has all of the model's inputs and its target: "
            "check that its columns hold what those of the first file did."
        )
    return recipe.dataset(table.name, X, Y), rows


def _check_rows(source: Source, path: Path, rows: int, found: str) -> None:
    """Refuses rows that are not those of the model."""
    if found != source.digest:
        raise Refused(
            f"{visible(path.name, 200)} holds other rows ({rows:,} complete ones) than those that "
            f"the model learns from ({source.rows:,}), and training goes on only with the same. "
            f"To learn from these: {PROGRAM} fit"
        )
