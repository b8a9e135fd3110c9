"""What a visitor brought: a table in this session's memory, and what was decided about it.

Nothing of it is logged, and nothing leaves the session. Streamlit forgets the controls of a page
that is not shown: `held` brings back what they said.
"""

import io
import shlex
import time
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import streamlit as st
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile

from datasets.shipped import FILES, SHIPPED
from dgp_core import archive
from dgp_core.archive import Archive, ArchiveError, Source
from dgp_core.evaluation.comparison import ScoreCard
from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.live.keep import Which, archive_of, source_of
from dgp_core.live.run import Run
from dgp_core.live.trial import Trial
from dgp_core.live.workshop import MOST_CELLS, Workshop, WorkshopError
from dgp_core.outcome import Outcome
from dgp_core.script import decisions
from dgp_core.tables.plain import plain, visible
from dgp_core.tables.reading import WAY_ON, first_rows_of_parquet
from dgp_core.tables.table import (
    Kind,
    Limits,
    Prepared,
    Table,
    TableError,
    as_written,
    propose_missing,
    propose_target,
    propose_task,
    propose_transform,
    read_table,
)
from dgp_core.training.plan import Plan
from dgp_core.training.train import TrainSpec

LIMITS = Limits(bytes=1_000_000_000)
"""What the app's own upload limit lets through."""
HELD_OUT = 0.1
"""The share of rows that the main fit does not see."""
HEAD_BYTES = 1 << 20
"""Of a file that is too large: enough to know its columns."""
OF_A_COLUMN = ("kind ", "day_first ", "at ")
"""How the names of controls begin that belong to a column of the file."""
MOST_PREDICTED_CELLS = 20_000_000
"""Cells of a second file up to which its predictions are put beside it here."""
CONTENDERS = {"deep": "the deep model", "single": "its single-layer rival"}
"""What a fit's models are called where it says what it does."""
SHOWN_ROWS = 8
SKETCHED_ROWS = 20_000
BARS = 14
FILE_SETS = tuple(name for name, shipped in SHIPPED.items() if not shipped.file.endswith(".npz"))
"""Shipped sets that are tables."""


@dataclass(frozen=True, eq=False)
class Brought:
    """A table, as it was read and as it was decided."""

    read: Table
    decided: Table
    file: str
    """Its name, as a person would write it in a command."""
    target: str | None = None
    """What a shipped set is about; None where the door proposes."""
    task: str | None = None
    seconds: float = 0.0
    """That it took to be read."""


@dataclass(eq=False)
class Fitted:
    """A fit, and what it was made of; scores and models outlive the trial."""

    trial: Trial
    prepared: Prepared
    brought: Brought
    plan: Plan
    folds: int
    reading: float
    """Seconds that the file took to be read, and its rows to become numbers."""
    cards: tuple[ScoreCard, ...] = ()
    archives: dict[Which, Archive] = field(default_factory=dict)
    """The models as they stand, by which: deep or rival."""
    source: Source | None = None
    """Which rows they learnt from; it takes a while to know."""

    @property
    def over(self) -> bool:
        return self.trial.status in ("finished", "failed", "closed")

    def scored(self) -> tuple[ScoreCard, ...]:
        """Every card so far, those of a trial that was let go too."""
        self.cards = self.trial.cards() or self.cards
        return self.cards

    def run(self) -> Run | None:
        """The main run; None where it was let go."""
        if self.trial.main_id is None:
            return None
        try:
            return self.trial.workshop.watch(self.trial.main_id)
        except WorkshopError:
            return None

    @property
    def learning(self) -> bool:
        """Whether the main run is there, and goes on."""
        run = self.run()
        return run is not None and run.playing and run.status not in ("finished", "failed")

    def keep(self) -> None:
        """Puts both models of the main run down as they stand: they outlive it."""
        run = self.run()
        if self.learning or run is None or run.latest is None or run.latest.step == 0:
            return
        if self.source is None:
            self.source = source_of(self.prepared.dataset, HELD_OUT, self.plan.train.seed)
        for which in ("deep", "rival") if self.plan.model.layers > 1 else ("deep",):
            known = self.archives.get(which)
            if known is None or known.progress.steps != run.latest.step:
                self.archives[which] = archive_of(run, which, self.prepared.recipe, self.source)

    def archive(self, which: Which) -> Archive | None:
        """A model of the main run as it stands, or as it last stood; None while it learns."""
        self.keep()
        return None if self.learning else self.archives.get(which)


@dataclass(eq=False)
class Memory:
    """What a session keeps of this page, whatever page is shown."""

    held: dict[str, Any] = field(default_factory=dict)
    """What the controls said last."""
    brought: Brought | None = None
    prepared: Prepared | None = None
    prepared_by: tuple = ()
    """What it was made from, so that it is made once."""
    preparing: float = 0.0
    """Seconds that it took."""
    refused: str = ""
    """Why the last file could not be taken."""
    too_large: str = ""
    """What to type where the last file is too large for here."""
    pasted: bytes = b""
    """The last table that was pasted, as a file."""
    undecided: str = ""
    """Why a column could not be what was last wished."""
    fitted: Fitted | None = None
    unfit: str = ""
    """Why the last fit could not be started."""
    opened: tuple[str, Archive] | None = None
    """A model that was saved before, and its file's name."""
    unopened: str = ""
    """Why the last model's file could not be opened."""
    second: Table | None = None
    """Another file, to predict."""
    unread: str = ""
    """Why the last such file could not be read."""
    made: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    """Answers that took a while, by name, with what they are the answers to."""


def memory() -> Memory:
    """This session's own."""
    return st.session_state.setdefault("your_data", Memory())


def held(name: str, first: Any, options: Iterable | None = None) -> str:
    """The key of a control, which shows what it said last, wherever the visitor has been since."""
    kept, key = memory().held, f"your_{name}"
    if key in st.session_state:
        kept[name] = st.session_state[key]
    value = kept.get(name, first)
    if options is not None and value not in options:
        value = first
    st.session_state[key] = kept[name] = value
    return key


def say(name: str, value: Any) -> None:
    """Sets a control from a callback."""
    memory().held[name] = st.session_state[f"your_{name}"] = value


def once(name: str, of: Any, compute: Callable[[], Any]) -> Any:
    """An answer that takes a while, worked out once for what it is the answer to."""
    made = memory().made
    if name not in made or made[name][0] != of:
        made[name] = (of, compute())
    return made[name][1]


def new_file(key: str) -> UploadedFile | None:
    """What was just put into an uploader, which then need not be kept: the bytes of a large table
    are as much as the table. None where a file was taken out."""
    file, context = st.session_state.get(key), get_script_run_ctx()
    if not isinstance(file, UploadedFile) or context is None:
        return None
    if isinstance(context.uploaded_file_mgr, MemoryUploadedFileManager):
        context.uploaded_file_mgr.remove_file(context.session_id, file.file_id)
    return file


def let_go(file: UploadedFile) -> None:
    """Empties a file that was read: the uploader holds on to it until its page runs again."""
    file.seek(0)
    file.truncate()


def forget(*names: str) -> None:
    """Lets controls begin again with what is proposed."""
    for name in names:
        memory().held.pop(name, None)
        st.session_state.pop(f"your_{name}", None)


def take(source: Any, name: str, target: str | None = None, task: str | None = None) -> None:
    """Reads a table; where it cannot be read, what was there stays, and a sentence says why."""
    kept = memory()
    kept.refused = kept.too_large = ""
    began = time.perf_counter()
    try:
        table = read_table(source, name, LIMITS)
        if target is None:
            target = propose_target(table).value
    except TableError as error:
        kept.refused = str(error)
        if WAY_ON in kept.refused:
            kept.too_large = _command_by_head(source, name)
        return
    seconds = time.perf_counter() - began
    kept.brought = Brought(table, table, name, target, task, seconds)
    kept.prepared, kept.prepared_by = None, ()
    kept.unfit = kept.undecided = ""
    forget("target", "task", "missing", "transform", "column")
    forget("layers", "inducing", "steps", "folds", "seed", "kernel")
    forget(*(name for name in kept.held if name.startswith(OF_A_COLUMN)))


def take_set(name: str) -> None:
    """A shipped file, through the same door."""
    shipped = SHIPPED[name]
    path = FILES / shipped.file
    take(path, path.name, shipped.output, shipped.task)
    if (brought := memory().brought) is not None:
        inputs = {*shipped.inputs, shipped.output, "date" if shipped.dates else ""}
        table = brought.read
        for column in table.columns:
            if column.name not in inputs and column.kind != "dropped":
                table = table.decide(column.name, "dropped")
        file = f"datasets/files/{shipped.file}"
        memory().brought = replace(brought, decided=table, file=file)


def _command_by_head(source: Any, name: str) -> str:
    """What to type for a file that is too large, filled in by its first rows."""
    try:
        source.seek(0)
        head = source.read(HEAD_BYTES)
        if head.startswith(b"\x1f\x8b"):
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        if head.startswith(b"PAR1"):
            head = first_rows_of_parquet(source)
        else:
            head = head[: head.rfind(b"\n") + 1]
        table = read_table(head, name, None)
        return command(Brought(table, table, name), propose_target(table).value)
    except (TableError, AttributeError, ValueError, zlib.error):
        return unknown_command(name)


def unknown_command(name: str) -> str:
    """The command for a file of which nothing but its name is known."""
    return f"{_program(name)} \\\n  --target=COLUMN \\\n  --out=model.npz"


def _program(file: str) -> str:
    return f"python -m dgp_core fit {shlex.quote(f'./{file}' if file.startswith('-') else file)}"


def decide(column: str, kind: Kind, day_first: bool | None) -> str:
    """Another decision for a column; a sentence where it cannot be."""
    kept = memory()
    assert kept.brought is not None
    before = kept.brought.decided[column]
    if before.kind == kind and (kind != "date" or before.day_first == day_first):
        return ""
    try:
        decided = kept.brought.decided.decide(column, kind, day_first)
    except TableError as error:
        return str(error)
    # What was known of the target is of the kind that it had.
    task = kept.brought.task if column != kept.brought.target else None
    kept.brought = replace(kept.brought, decided=decided, task=task)
    return ""


def proposed(table: Table, target: str, task: str | None) -> dict[str, tuple[Any, str]]:
    """What is proposed for a target, and why: the task, the transform, and missing cells."""
    return once("proposed", (table, target, task), lambda: _proposed(table, target, task))


def _proposed(table: Table, target: str, task: str | None) -> dict[str, tuple[Any, str]]:
    found = propose_task(table, target)
    missing = propose_missing(table)
    transform = propose_transform(table, target)
    return {
        "task": (found.value, found.reason)
        if task is None
        else (task, "It is what this set is known for."),
        "missing": (missing.value, missing.reason),
        "transform": (transform.value, transform.reason),
    }


def prepare(target: str, task: str, missing: str, transform: str) -> Prepared:
    """The rows to learn from, made once for what was decided."""
    kept = memory()
    assert kept.brought is not None
    by = (kept.brought.decided, target, task, missing, transform)
    if kept.prepared is None or kept.prepared_by != by:
        kept.prepared, began = None, time.perf_counter()
        kept.prepared = kept.brought.decided.to_dataset(
            target,
            task,  # pyright: ignore[reportArgumentType]
            missing,  # pyright: ignore[reportArgumentType]
            transform if task == "regression" else "none",  # pyright: ignore[reportArgumentType]
        )
        kept.prepared_by, kept.preparing = by, time.perf_counter() - began
        kept.brought.decided.share(kept.prepared)
    return kept.prepared


def start(workshop: Workshop, plan: Plan, folds: int) -> None:
    """Fits the prepared rows; a sentence stays where that cannot be."""
    kept = memory()
    assert kept.brought is not None and kept.prepared is not None
    kept.unfit = ""
    if kept.fitted is not None:  # its rows go before others come
        kept.fitted.scored()
        kept.fitted.keep()
        kept.fitted.trial.close()
    try:
        trial = Trial(
            workshop,
            kept.prepared.dataset,
            {"deep": plan.model},
            plan.train,
            folds,
            fraction=1 - HELD_OUT,
            titles=CONTENDERS,
        )
    except (WorkshopError, ValueError) as error:
        kept.unfit = str(error)
        return
    reading = kept.brought.seconds + kept.preparing
    kept.fitted = Fitted(trial, kept.prepared, kept.brought, plan, folds, reading)
    forget("judged", "explained", "used", "shown", "map_x", "map_y")


def open_model(file: Any) -> None:
    """Opens a model that was saved before; a sentence stays where it cannot be."""
    kept = memory()
    kept.unopened = ""
    try:
        record = archive.load(file)
        Outcome(record)
    except (ArchiveError, TableError) as error:
        kept.unopened = str(error)
        return
    kept.opened = (visible(file.name, 60), record)
    forget("used", *(name for name in kept.held if name.startswith("at ")))


def packed(record: Archive) -> bytes:
    """A model's file."""
    file = io.BytesIO()
    archive.save(file, record)
    return file.getvalue()


def read_second(source: Any, name: str) -> None:
    """Reads a file to predict; a sentence stays where it cannot be read."""
    kept = memory()
    kept.second, kept.unread = None, ""
    try:
        kept.second = read_table(source, name, LIMITS)
    except TableError as error:
        kept.unread = str(error)


def too_many(prepared: Prepared) -> bool:
    """Whether there are more cells than a live run takes."""
    return prepared.dataset.X.size + prepared.dataset.Y.size > MOST_CELLS


def command(
    brought: Brought,
    target: str,
    task: str | None = None,
    missing: str | None = None,
    transform: str | None = None,
    model: ModelSpec | None = None,
    train: TrainSpec | None = None,
) -> str:
    """What to type to train the same without the screen."""
    words: list[tuple[str, Any]] = [
        ("target", target),
        ("task", task),
        ("missing", missing),
        ("transform", None if transform in (None, "none") else transform),
        *(("column", decision) for decision in _decisions(brought)),
    ]
    if model is not None and train is not None:
        words += [
            ("layers", model.layers),
            ("inducing", model.inducing_counts[0]),
            ("kernel", None if model.kernels == ModelSpec.kernels else model.kernels),
            ("steps", train.steps),
            ("minibatch", "all" if train.minibatch is None else train.minibatch),
            ("seed", train.seed),
        ]
    words.append(("out", "model.npz"))
    said = [f"--{name}={shlex.quote(str(value))}" for name, value in words if value is not None]
    return " \\\n  ".join([_program(brought.file), *said])


def _decisions(brought: Brought) -> list[str]:
    """What was decided otherwise than the file itself proposes, as the command line takes it."""
    first = {None: "", True: ":day", False: ":month"}
    return [
        f"{name}={kind}{first[day_first]}"
        for name, kind, day_first in decisions(brought.read, brought.decided)
    ]


def predict_command(table: Table) -> str:
    """What to type to predict a file without the screen."""
    file = f"./{table.name}" if table.name.startswith("-") else table.name
    return f"python -m dgp_core predict model.npz {shlex.quote(file)} --out=predictions.csv"


def row_table(table: Table, rows: slice | np.ndarray) -> dict[str, list]:
    """Some rows of a table, all columns, under names that are safe to show."""
    return {visible(n, 80) or "·": as_written(c, rows) for n, c in table.cells.items()}


def sketch(cells: Any) -> list[float]:
    """How a column's cells are spread: a few bars, the commonest words first."""
    step = max(1, len(cells) // SKETCHED_ROWS)
    if not isinstance(cells, np.ndarray):
        values, counts = np.unique(
            np.array([w for w in cells[::step].to_pylist() if w is not None], object).astype(str),
            return_counts=True,
        )
        return [float(n) for n in np.sort(counts)[::-1][:BARS]]
    values = cells[::step]
    known = values[~(np.isnat(values) if values.dtype.kind == "M" else np.isnan(values))]
    if not len(known):
        return []
    return np.histogram(known.astype(float), BARS)[0].astype(float).tolist()


def predictions_csv(outcome: Outcome, table: Table) -> bytes:
    """A file's own columns, and beside them what the model says of each row."""
    file = io.BytesIO()
    file.writelines(outcome.csv([table]))
    return file.getvalue()


def safe(sentence: object) -> str:
    """A sentence that may hold names from a file, for Markdown."""
    return plain(sentence, 1200)


@dataclass(eq=False)
class Contest:
    """Models on one data set, the same splits and seed; one trial for each time some were added."""

    by: tuple
    """What all of them share: data, sizes, steps, folds, seed."""
    dataset: Dataset
    train: TrainSpec
    folds: int
    trials: list[Trial] = field(default_factory=list)
    known: dict[tuple[str, int], ScoreCard] = field(default_factory=dict)
    """Cards so far, by model and fold; they outlive their trials."""
    made: dict[str, tuple[ScoreCard, Any]] = field(default_factory=dict)
    """Pictures' numbers by model, with the card that they were made beside."""

    @property
    def over(self) -> bool:
        return all(trial.status in ("finished", "failed", "closed") for trial in self.trials)

    @property
    def asked(self) -> set[str]:
        """Models that are trained or on their way, but not those that failed or were let go."""
        return {name for trial in self.trials for name in trial.on_its_way()}

    def lost(self) -> set[str]:
        """Models that were to be trained, and came to nothing."""
        return {name for trial in self.trials for name in trial.wanted()} - self.asked

    def cards(self) -> list[ScoreCard]:
        """Everything that has been scored so far."""
        for trial in self.trials:
            for card in trial.cards():
                self.known[card.model, card.fold] = card
        return list(self.known.values())

    def runs(self) -> dict[str, tuple[Run, Which]]:
        """Every model's run on the first split."""
        return {name: found for trial in self.trials for name, found in trial.runs().items()}

    def add(
        self,
        workshop: Workshop,
        specs: dict[str, ModelSpec],
        models: set[str],
        titles: dict[str, str],
    ) -> None:
        """Trains those of the models that were not asked for yet."""
        new = models - self.asked
        contenders = {name: spec for name, spec in specs.items() if name in new}
        if not new:
            return
        self.trials.append(
            Trial(
                workshop,
                self.dataset,
                contenders,
                self.train,
                self.folds,
                main=not self.folds,
                fraction=1 - HELD_OUT,
                linear="linear" in new or not contenders,
                exact="exact" in new,
                rival=None,
                titles=titles,
            )
        )

    def close(self) -> None:
        for trial in self.trials:
            trial.close()
