"""Models of a fit that need no steps: the straight line, the exact GP and gradient boosting."""

from collections.abc import Callable
from typing import Any

from dgp_core.evaluation import forecast
from dgp_core.evaluation.boosting import boosted
from dgp_core.gp.data import Dataset, sample_places
from dgp_core.line_file import LineArchive
from dgp_core.outcome import Line, Trees, line_record
from pages.ui.your_data.upload_state import Fitted, cached

REFERENCES = ("linear", "exact", "boosting")

Keep = Callable[[str, Any, Callable[[], Any]], Any]
"""Where slow results are kept: `cached`, or something like it outside a page's script."""


def training_set(fitted: Fitted) -> Dataset:
    """The main fit's training rows, no more than such a model takes."""
    rows = sample_places(fitted.trial.train_rows, forecast.LINEAR_ROWS)
    return fitted.main.dataset.take(rows)


def line_of(fitted: Fitted, keep: Keep = cached) -> LineArchive:
    """The straight line, as its file holds it."""
    made = (training_set(fitted), fitted.main.recipe, fitted.source)
    return keep("line", fitted, lambda: line_record(*made))


def reference_model(fitted: Fitted, which: str, keep: Keep = cached) -> Line | Trees:
    """One of REFERENCES, fitted once."""

    def fit() -> Line | Trees:
        if which == "linear":
            return Line(line_of(fitted, keep).line)
        if which == "exact":
            return Line(forecast.exact_gp(training_set(fitted), fitted.trial.kernel))
        return Trees(boosted(training_set(fitted)))

    return keep(f"reference_{which}", fitted, fit)
