"""Starting points: the first moments of every toy at the playground's defaults, as stored.

A first visitor of a fresh server watches them while the real step compiles; nothing is computed to
show them. `python -m datasets.starts` makes the files anew.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np

from datasets import catalogue, moments
from datasets.toys import FIRST_POINTS
from dgp_core.data import Dataset
from dgp_core.likelihoods import for_task
from dgp_core.live.run import Run
from dgp_core.live.views import View1D, View2D, ViewMany, view
from dgp_core.model import ModelSpec
from dgp_core.train import TrainSpec

View = View1D | View2D | ViewMany

FOLDER = Path(__file__).parent / "films"

NAMES = catalogue.names("toy")
"""Sets that have a film."""

TRAIN = TrainSpec(steps=20_000, learning_rate=0.01, minibatch=None, decay=False)

STEPS = (0, 3, 7, 12, 20, 30, 45, 65, 100, 150, 220, 300)
"""The moments of a film."""


@lru_cache(maxsize=len(NAMES))
def data_of(name: str) -> Dataset:
    """The rows that a toy has where nobody chose."""
    options = {"points": FIRST_POINTS} if name == "drawn" else {}
    return catalogue.load(name, **options)


def model_of(data: Dataset) -> ModelSpec:
    """What a film shows; a page that starts with another model has no film."""
    likelihood = for_task(data.task, n_classes=len(data.classes))
    return ModelSpec(layers=2, inducing=25, likelihood=likelihood)


def record(data: Dataset, steps: tuple[int, ...] = STEPS) -> list[View]:
    """The moments of a run at these steps, computed now."""
    run, views = Run(data, model_of(data), TRAIN), []
    run.prepare()
    run.advance()
    for step in steps:
        while run.latest is not None and run.latest.step < step:
            run.step(step - run.latest.step)
            run.advance()
        if run.latest is None or run.latest.step != step:
            raise RuntimeError(f"The run ended before step {step}: {run.reason}")
        views.append(view(run, run.latest))
    return views


def film(name: str) -> list[View]:
    """The stored moments of a toy at its defaults, in order; none where the set has no film."""
    return list(_film(name))


def film_of(data: Dataset, model: ModelSpec) -> tuple[View, ...]:
    """The film of just these rows and this model, if there is one."""
    if data.name not in NAMES or model != model_of(data):
        return ()
    own = data_of(data.name)
    same = np.array_equal(data.X, own.X) and np.array_equal(data.Y, own.Y)
    return _film(data.name) if same else ()


@lru_cache(maxsize=len(NAMES))
def _film(name: str) -> tuple[View, ...]:
    path = FOLDER / f"{name}.npz"
    return moments.load(path) if name in NAMES and path.is_file() else ()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in NAMES:
        path = FOLDER / f"{name}.npz"
        moments.save(path, record(data_of(name)))
        print(f"{name}: {path.stat().st_size / 1024:,.0f} KB", flush=True)


if __name__ == "__main__":
    main()
