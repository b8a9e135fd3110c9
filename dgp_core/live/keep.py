"""A live run as a file to take home: what the app saves goes on in `python -m dgp_core`."""

import json
from typing import Literal

from dgp_core.archive import Archive, Source, digest
from dgp_core.data import Dataset
from dgp_core.live.run import Run
from dgp_core.recipe import Recipe
from dgp_core.train import Progress

Which = Literal["deep", "rival"]


def archive_of(
    run: Run,
    which: Which = "deep",
    recipe: Recipe | None = None,
    whole: Dataset | None = None,
    held_out: float = 0.0,
    split_seed: int = 0,
) -> Archive:
    """One of a run's two models as it stands, ready to save.

    `whole` are all rows, of which `split` held out the share `held_out`; training can go on with
    the others.
    """
    with run._lock:
        states, seconds = run._states, run._seconds
        records = [record.arrays() for record in run._records]
    if states is None:
        raise ValueError("This run has not begun: wait for its first step, then save the model.")
    i = 0 if which == "deep" or run.model.layers == 1 else 1
    state, (fit, kl) = states[i], records[i]
    data = run.dataset
    return Archive(
        model=run.model if i == 0 else run.model.single_layer(),
        training=run.train,
        scaler=run.scaler,
        state=state,
        progress=Progress(
            steps=int(state.step),
            seconds=seconds,
            fit=[fit],
            kl=[kl],
            failures=int(state.failures),
            stopped=run.reason,
        ),
        task=data.task,
        input_names=data.input_names,
        output_names=data.output_names,
        classes=data.classes,
        recipe=None if recipe is None else json.loads(recipe.to_json()),
        source=None
        if whole is None
        else Source("", len(whole), digest(whole.X, whole.Y), held_out, split_seed),
    )
