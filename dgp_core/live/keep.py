"""A live run as a file to take home: what the app saves goes on in `python -m dgp_core`."""

import json
from dataclasses import replace
from typing import Literal

from dgp_core.archive import Archive, Source, digest
from dgp_core.gp.data import Dataset
from dgp_core.gp.splits import BY_CHANCE, SplitBy
from dgp_core.live.run import Run
from dgp_core.tables.recipe import Recipe

Which = Literal["deep", "rival"]


def source_of(whole: Dataset, held_out: float, split_seed: int, by: SplitBy = BY_CHANCE) -> Source:
    """Which rows a run learns from: all of these but the share that was held out."""
    rows = digest(whole.X, whole.Y)
    return Source("", len(whole), rows, held_out, split_seed, False, by.way, by.column)


def archive_of(
    run: Run, which: Which = "deep", recipe: Recipe | None = None, source: Source | None = None
) -> Archive:
    """One of a run's two models as it stands, with the way from the user's file to its rows."""
    written = None if recipe is None else json.loads(recipe.to_json())
    return replace(run.archive(which), recipe=written, source=source)
