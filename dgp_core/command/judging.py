"""What a trained model is worth: its scores on rows held out, and whether it beats a line."""

import shlex
from pathlib import Path

import numpy as np

from dgp_core.archive import Archive
from dgp_core.command.files import log, save
from dgp_core.evaluation.comparison import MOST_SCORED, score, verdict
from dgp_core.evaluation.forecast import LINEAR_ROWS, Forecast
from dgp_core.gp.data import Dataset, counted, sample_places
from dgp_core.gp.splits import question_of
from dgp_core.outcome import Outcome, line_record


def judge(
    record: Archive,
    held_out: Dataset,
    train: Dataset | None,
    saved: Path,
    groups: np.ndarray | None = None,
) -> None:
    """Prints a model's scores and, where the rows that train are given, the verdict between it and
    the straight line through them; a line that is not beaten is saved beside the model. `groups`
    are those of the held-out rows, where whole groups were held out."""
    outcome, source = Outcome(record), record.source
    rows = outcome.in_units(held_out)
    forecast = outcome.forecast(rows)
    print_scores(outcome, rows, forecast)
    if train is None or source is None:
        return
    sampled = train.take(sample_places(np.arange(len(train)), LINEAR_ROWS))
    line = line_record(sampled, outcome.recipe, source)
    scored = sample_places(np.arange(len(rows)), MOST_SCORED)
    predictors = {
        "deep" if record.model.layers > 1 else "single": lambda _: forecast.take(scored),
        "linear": Outcome(line).forecast,
    }
    question = question_of(source.split_way, source.split_column)
    found = verdict(
        score(name, predictor, rows, n_train=len(train), question=question, groups=groups)
        for name, predictor in predictors.items()
    )
    log(found.text)
    if found.model == "linear":
        beside = saved.with_name(f"{saved.stem}-line{saved.suffix}")
        save(beside, line)
        log(f"The straight line is in {shlex.quote(str(beside))}: predict with it in the same way.")


def print_scores(outcome: Outcome, rows: Dataset, forecast: Forecast | None = None) -> None:
    """Prints every score of rows in the file's units."""
    log(f"On {counted(len(rows), 'row')}, in the file's own units:")
    for name, value in outcome.scores(rows, forecast).items():
        print(f"{name:<16}{value:>14.6g}", flush=True)
