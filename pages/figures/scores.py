"""Scores as text: names, errors, and one table for pages and the report."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np

from dgp_core.evaluation.comparison import Estimate, ScoreCard, groups_of
from dgp_core.evaluation.forecast import Forecast

MODELS = {
    "deep": "Deep GP",
    "single": "Single layer",
    "linear": "Straight line",
    "exact": "Exact GP",
    "boosting": "Gradient boosting",
}
"""Display names of the models of a fit."""

SCORES = {
    "log_likelihood": "log-likelihood, nats per row ↑",
    "rmse": "RMSE ↓",
    "crps": "CRPS ↓",
    "coverage_50": "inside 50 %",
    "coverage_90": "inside 90 %",
    "coverage_95": "inside 95 %",
    "accuracy": "accuracy ↑",
    "auc": "AUC ↑",
    "brier": "Brier ↓",
}
"""Display names of the scores; an arrow says which way is better."""


def with_error(value: float, error: float) -> str:
    """A number as exactly as its error allows: 1.234 ± 0.056."""
    if not np.isfinite(value):
        return "–"
    if not np.isfinite(error):
        return f"{value:.3g}".replace("-", "−")
    if error <= 0:
        return f"{value:.4g}".replace("-", "−")  # rows that are all alike tell no error
    digits = int(np.clip(1 - np.floor(np.log10(error)), 0, 6))
    return f"{value:,.{digits}f} ± {error:,.{digits}f}".replace("-", "−")


def score_text(score: str, estimate: Estimate) -> str:
    """A score with its error; shares of rows as percentages."""
    if score == "accuracy" or score.startswith("coverage"):
        return with_error(100 * estimate.value, 100 * estimate.error) + " %"
    return with_error(estimate.value, estimate.error)


def score_table(
    scored: Mapping[str, Mapping[str, Estimate]],
    titles: Mapping[str, str],
    more: Mapping[str, Mapping[str, str]] | None = None,
) -> list[list[str]]:
    """A header and a line per model, ordered as `titles`; `more` columns by title, then model."""
    models, more = [model for model in titles if model in scored], more or {}
    names = list(scored[models[0]])
    lines = [["model", *(SCORES[name] for name in names), *more]]
    for model in models:
        cells = (score_text(name, scored[model][name]) for name in names)
        lines.append([titles[model], *cells, *(column[model] for column in more.values())])
    return lines


def best_model(scored: Mapping[str, Mapping[str, Estimate]]) -> str:
    """The model of the highest log-likelihood."""
    return max(scored, key=lambda model: scored[model]["log_likelihood"].value)


def markdown(table: Sequence[Sequence[str]], best: str) -> str:
    """A table of scores in Markdown; the first score of the best line is bold."""
    lines = [[c[0], f"**{c[1]}**", *c[2:]] if c[0] == best else c for c in table]
    rule = ["---", *["--:"] * (len(table[0]) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (lines[0], rule, *lines[1:]))


def together(cards: Sequence[ScoreCard], model: str) -> ScoreCard | None:
    """A model's held-out rows as one card: those of all folds, or of the only split."""
    own = {card.fold: card for card in cards if card.model == model}
    folds = [card for fold, card in sorted(own.items()) if fold > 0]
    used = folds if len(folds) >= 2 else list(own.values())[:1]
    if not used:
        return None
    joined = {}
    for item in fields(Forecast):
        parts = [getattr(card.forecast, item.name) for card in used]
        if item.name == "inside":
            joined["inside"] = {s: np.concatenate([p[s] for p in parts]) for s in parts[0]}
        elif parts[0] is not None:
            joined[item.name] = np.concatenate(parts)
    return replace(
        used[0],
        rows=np.concatenate([card.rows for card in used]),
        observed=np.concatenate([card.observed for card in used]),
        forecast=Forecast(**joined),
        groups=groups_of(used),
    )
