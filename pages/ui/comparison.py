"""Models compared on one data set, by the same splits and seed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dgp_core.evaluation.comparison import ScoreCard
from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.gp.splits import BY_CHANCE, SplitBy
from dgp_core.live.keep import Which
from dgp_core.live.run import Run
from dgp_core.live.trial import Trial
from dgp_core.live.workshop import Workshop
from dgp_core.training.train import TrainSpec
from pages.ui.your_data.upload_state import HELD_OUT


@dataclass(eq=False)
class Comparison:
    """One trial for each time that models were added."""

    settings: tuple
    """Those that all models share: data, sizes, steps, folds, seed, and which rows judge them."""
    dataset: Dataset
    train: TrainSpec
    folds: int
    by: SplitBy = BY_CHANCE
    refit: Callable[[np.ndarray], Dataset] | None = None
    """The rows as numbers that the training rows at these places decide."""
    browser: str = ""
    """Whose runs they are."""
    trials: list[Trial] = field(default_factory=list)
    known: dict[tuple[str, int], ScoreCard] = field(default_factory=dict)
    """Scores so far, by model and fold; they outlive their trials."""
    cache: dict[str, tuple[ScoreCard, Any]] = field(default_factory=dict)
    """Each model's predictions over the inputs, with the card of the same fit."""

    @property
    def over(self) -> bool:
        return all(trial.status in ("finished", "failed", "closed") for trial in self.trials)

    @property
    def requested(self) -> set[str]:
        """Models that are trained or training; not those that failed or were closed."""
        return {name for trial in self.trials for name in trial.on_its_way()}

    def lost(self) -> set[str]:
        """Models whose training failed or was closed."""
        return {name for trial in self.trials for name in trial.wanted()} - self.requested

    def cards(self) -> list[ScoreCard]:
        """All scores so far."""
        for trial in self.trials:
            for card in trial.cards():
                self.known[card.model, card.fold] = card
        return list(self.known.values())

    def runs(self) -> dict[str, tuple[Run, Which]]:
        """Every model's run on the first split."""
        return {name: run for trial in self.trials for name, run in trial.runs().items()}

    def add(
        self,
        workshop: Workshop,
        specs: dict[str, ModelSpec],
        models: set[str],
        titles: dict[str, str],
    ) -> None:
        """Trains those of the models that were not requested yet."""
        new = models - self.requested
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
                linear="linear" in new or not (contenders or "boosting" in new),
                exact="exact" in new,
                boosting="boosting" in new,
                rival=None,
                by=self.by,
                refit=self.refit,
                titles=titles,
                browser=self.browser,
            )
        )

    def training_rows(self) -> Dataset:
        """Those of the first split, as numbers that they alone decide."""
        places = self.trials[0].train_rows
        return (self.dataset if self.refit is None else self.refit(places)).take(places)

    def close(self) -> None:
        for trial in self.trials:
            trial.close()
