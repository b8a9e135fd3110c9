"""A model before its first step, its minibatches, and training with checkpoints."""

import argparse
import json
import shlex
import signal
import time
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from dgp_core.archive import Archive, Source
from dgp_core.command.files import Refused, log, save, save_somewhere
from dgp_core.command.judging import judge
from dgp_core.gp.counts import dispersion
from dgp_core.gp.data import Dataset, Scaled, Scaler, counted
from dgp_core.gp.domain import Domain
from dgp_core.gp.likelihoods import OF_TASK, for_task
from dgp_core.gp.model import SKETCH, create_model
from dgp_core.outcome import Outcome
from dgp_core.tables.large_file import TableParts
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import Recipe
from dgp_core.training.devices import Devices, all_devices
from dgp_core.training.memory import peak_memory
from dgp_core.training.optimise import TrainState, create_state
from dgp_core.training.plan import propose
from dgp_core.training.processes import is_lead
from dgp_core.training.progress import ProgressBar
from dgp_core.training.rows import Stream, Survey
from dgp_core.training.train import (
    HOPELESS,
    Progress,
    Rows,
    Supply,
    WholeSet,
    Windows,
    resume,
)

PROGRAM = "python -m dgp_core"

CHECKPOINT_SECONDS = 60.0
"""How often a checkpoint is written."""

LOGGED_STEPS = 100
"""Steps that a line of the log takes the mean of."""

LOGGED_ROWS = 1000
"""Held-out rows that a line of the log scores, at the most."""

MOST_COPIED_CELLS = 4_000_000
"""Rows times columns up to which rows in standard units are held beside those of the file."""


def create_archive(
    args: argparse.Namespace,
    X: np.ndarray | Scaled,
    Y: np.ndarray,
    n_rows: int,
    scaler: Scaler,
    recipe: Recipe,
    source: Source,
    domain: Domain,
) -> Archive:
    """A model before its first step; X and Y are some or all of n training rows, in standard
    units, the log exposure of counts beside Y."""
    task, P, C = recipe.task, len(recipe.targets), len(recipe.classes)
    likelihood = args.likelihood or for_task(task, P, C)
    if args.likelihood is None and task == "counts":
        exposure = np.exp(Y[:SKETCH, P:]).prod(1)
        found = dispersion(X[:SKETCH], Y[:SKETCH, :P], exposure)
        likelihood = found.likelihood
        log(found.sentence)
    if likelihood not in OF_TASK[task]:
        raise Refused(
            f"The likelihood {likelihood} is not for {task}: choose "
            f"{' or '.join(OF_TASK[task])}, or another --task."
        )
    most = len(np.unique(X[:], axis=0)) if n_rows <= SKETCH else n_rows
    try:
        plan = propose(n_rows, X.shape[1], task, P, C, args.seed)
        model = replace(
            plan.model,
            layers=args.layers or plan.model.layers,
            inducing=min(args.inducing or plan.model.inducing_counts[0], most),
            kernels=args.kernel or plan.model.kernels,
            likelihood=likelihood,
            posterior=args.posterior.replace("-", "_"),
        )
        given = {n: getattr(args, n) for n in ("steps", "learning_rate", "natural_rate")}
        training = replace(plan.train, **{n: v for n, v in given.items() if v is not None})
        training = replace(
            training,
            # A short run climbs within a fifth of its steps.
            ramp_steps=min(training.ramp_steps, training.steps // 5),
            minibatch=plan.train.minibatch if args.minibatch == "plan" else args.minibatch,
        )
        if model.mean_field:
            if len(X) < n_rows:
                raise Refused(
                    "A mean-field posterior has a Gaussian of its own for every row, and a file "
                    "that is read in parts has too many: take the doubly stochastic posterior."
                )
            if args.minibatch not in ("plan", None):
                raise Refused(
                    "A mean-field posterior trains on all rows at each step: leave --minibatch "
                    "out, or set it to all."
                )
            training = replace(training, minibatch=None)
        start = create_model(model, X, P, max(2, C), training.seed, Y)
    except ValueError as error:
        raise Refused(str(error)) from None
    log(
        f"{counted(n_rows, 'row')} of {counted(X.shape[1], 'input')} train "
        f"{counted(model.layers, 'layer')} "
        f"({counted(model.inducing_counts[0], 'inducing point')} each, "
        f"{visible(model.kernel_names[0])}, {likelihood}) for {counted(training.steps, 'step')}."
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
        domain=domain,
    )


def minibatches(record: Archive, train: Dataset) -> Supply:
    """Minibatches in standard units; of many rows there is no copy beside the rows themselves."""
    spec, dtype = record.training, record.state.jitter.dtype
    X, Y = Scaled(train.X, record.scaler.inputs), Scaled(train.Y, record.scaler.outputs)
    if train.exposure:
        Y = record.scaler.targets(train.X, train.Y)
    batch, devices = spec.minibatch, all_devices()
    if record.model.mean_field and devices is not None:
        if devices.processes > 1:
            raise Refused(
                "A mean-field posterior has a Gaussian of its own for every row, and trains in one "
                "process: start one, or take the doubly stochastic posterior."
            )
        devices = None
    if batch is None or batch >= len(train):
        batch = None
    if devices is not None and batch is None:
        return WholeSet.create(X, Y, dtype, devices)
    if batch is not None and (devices is not None or train.X.size > MOST_COPIED_CELLS):
        return Windows(X, Y, batch, dtype, spec.seed, devices)
    return Rows.create(X, Y, batch, dtype, spec.seed)


def stream(record: Archive, parts: TableParts, found: Survey) -> Stream:
    source, spec = record.source, record.training
    assert source is not None and spec.minibatch is not None
    found, dtype = replace(found, scaler=record.scaler), record.state.jitter.dtype
    split = (source.held_out, source.split_seed)
    devices = all_devices()
    return Stream(parts, found, spec.minibatch, spec.seed, *split, dtype, devices=devices)


class RunLog:
    """A file of JSON lines, one for every checkpoint: how far the run is, and how good."""

    def __init__(self, path: str | None, record: Archive, held_out: Dataset | None):
        self.path, self.held_out = Path(path) if path and is_lead() else None, held_out
        self.before, self.since = record.progress.steps, time.monotonic()
        if self.path:
            try:
                self.path.touch()
            except OSError as error:
                raise Refused(
                    f"{visible(self.path, 200)} cannot be written: {error.strerror}. Choose "
                    "another --log."
                ) from None

    def write(self, record: Archive) -> None:
        """Adds a line: the mean of the last steps' bound and its parts, pace, memory, scores."""
        progress, now = record.progress, time.monotonic()
        if not self.path or not progress.fit:
            return
        fit, kl = (np.concatenate(part)[-LOGGED_STEPS:] for part in (progress.fit, progress.kl))
        batch = record.training.minibatch or (record.source.rows if record.source else 0)
        line: dict[str, Any] = {
            "step": progress.steps,
            "steps": record.training.steps,
            "bound": float(np.mean(fit - kl.sum(1))),
            "fit": float(np.mean(fit)),
            "kl": kl.mean(0).tolist(),
            "seconds": round(progress.seconds, 3),
            "rows_per_second": round(
                batch * (progress.steps - self.before) / max(now - self.since, 1e-9)
            ),
            "peak_memory_mb": round(peak_memory() / 2**20),
            "held_out": self._scores(record),
        }
        self.before, self.since = progress.steps, time.monotonic()
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            log(f"The log cannot be written: {error.strerror}.")

    def _scores(self, record: Archive) -> dict[str, float]:
        if self.held_out is None or not len(self.held_out):
            return {}
        outcome = Outcome(record)
        return outcome.scores(outcome.in_units(self.held_out.take(slice(LOGGED_ROWS))))


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


def train_and_save(
    record: Archive,
    supply: Supply,
    held_out: Dataset | None,
    out: Path,
    log_file: str | None = None,
    train: Dataset | None = None,
    groups: np.ndarray | None = None,
) -> int:
    """Trains to the end or to a signal, with checkpoints; saves; judges by rows held out, beside
    the straight line through the rows that train, where these are given; `groups` are those of the
    rows held out, where whole groups are."""
    spec, saved = record.training, time.monotonic()
    newest, devices, run_log = record, all_devices(), RunLog(log_file, record, held_out)
    if devices is not None:
        _check_alike(record, devices)

    def on_chunk(state: TrainState, progress: Progress) -> bool:
        nonlocal saved, newest
        # The run goes on filling its own lists.
        kept = replace(progress, fit=list(progress.fit), kl=list(progress.kl))
        newest = replace(record, state=state, progress=kept)
        bar.on_chunk(state, progress)
        if time.monotonic() >= saved + CHECKPOINT_SECONDS:
            try:
                save(out, newest)
            except Refused as error:
                log(f"No checkpoint: {error}")
            run_log.write(newest)
            saved = time.monotonic()
        return signals.caught is not None

    with _Signals() as signals:
        save(out, record)  # before an hour is spent on what then cannot be written
        try:
            with ProgressBar(spec.steps, record.progress.steps, is_lead()) as bar:
                state, progress = resume(
                    record.state, supply, spec, record.progress, on_chunk, devices=devices
                )
            if devices is not None:  # a signal to one is one to all
                number = -devices.least(-(signals.caught or 0))[0]
                signals.caught = signal.Signals(number) if number else None
        except BaseException as error:  # whatever it is, what was learnt is kept
            if newest is record:
                raise
            where = shlex.quote(str(save_somewhere(out, newest)))
            log(
                f"Training broke off. What was learnt up to step {newest.progress.steps:,} is in "
                f"{where}. To go on: {PROGRAM} resume {where}"
            )
            if isinstance(error, KeyboardInterrupt):
                return 128 + signal.SIGINT
            raise
        log(f"{progress.stopped}, in {progress.seconds:,.1f} s")
        record = replace(record, state=state, progress=progress)
        where = save_somewhere(out, record)
        run_log.write(record)
    name = shlex.quote(str(where))
    if signals.caught is not None and progress.steps < spec.steps:
        log(
            f"Saved at step {progress.steps:,} of {spec.steps:,}, after {signals.caught.name}. "
            f"To go on: {PROGRAM} resume {name}"
        )
        return 128 + signals.caught
    log(f"The model is in {name}.")
    if int(state.streak) >= HOPELESS:
        log("Its training failed: try a smaller --learning-rate.")
        return 1
    if held_out is not None and len(held_out) and is_lead():
        try:
            judge(record, held_out, train, where, groups)
        except KeyboardInterrupt:
            log("Stopped before it was scored; the model is saved.")
            return 128 + signal.SIGINT
    return 0 if where == out else 1


def _check_alike(record: Archive, devices: Devices) -> None:
    """Refuses processes that train different models, or on different rows."""
    settings = repr((record.model, record.training, record.source, record.progress.steps))
    digest = zlib.crc32(settings.encode())
    low, high = devices.least(digest, -digest)
    if low != -high:
        raise Refused(
            "The processes were not given the same rows and settings: start each by the same "
            "command, where all of them see the same files."
        )
