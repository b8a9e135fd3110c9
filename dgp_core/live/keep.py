"""A live run as a file to take home: what the app saves goes on in `python -m dgp_core`."""

import json
from dataclasses import replace
from typing import Literal

from dgp_core.archive import Archive, Source, digest
from dgp_core.gp.data import Dataset
from dgp_core.live.run import Run
from dgp_core.tables.recipe import Recipe

Which = Literal["deep", "rival"]


def source_of(whole: Dataset, held_out: float, split_seed: int) -> Source:
    """Which rows a run learns from: all of these but the share that `split` held out."""
    return Source("", len(whole), digest(whole.X, whole.Y), held_out, split_seed)


def archive_of(
    run: Run, which: Which = "deep", recipe: Recipe | None = None, source: Source | None = None
) -> Archive:
    """One of a run's two models as it stands, with the way from the user's file to its rows."""
    written = None if recipe is None else json.loads(recipe.to_json())
    return replace(run.archive(which), recipe=written, source=source)
