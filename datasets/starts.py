"""Starting points: the first moments of every toy at the playground's defaults, and of a lesson's
digits, as stored.

A first visitor of a fresh server watches them while the real step compiles; nothing is computed to
show them. `python -m datasets.starts` makes the files anew.
"""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from datasets import catalogue, moments
from datasets.toys import FIRST_POINTS
from dgp_core.gp.data import Dataset
from dgp_core.gp.likelihoods import for_task
from dgp_core.gp.model import ModelSpec, Posterior
from dgp_core.live.run import Run
from dgp_core.live.views.playground import View1D, View2D, ViewMany, view
from dgp_core.training.train import TrainSpec

View = View1D | View2D | ViewMany

FOLDER = Path(__file__).parent / "films"

NAMES = catalogue.names("toy")
"""Sets that have a film."""


class Filmed(NamedTuple):
    """What a film shows."""

    of: str
    """The set."""
    width: int | None = None
    """Of inner layers, where a lesson wants them narrow."""
    posterior: Posterior = "doubly_stochastic"


FILMS = {name: Filmed(name) for name in NAMES} | {
    "digits_2": Filmed("digits", 2),
    "step_mean_field": Filmed("step", posterior="mean_field"),
}
"""By their files."""

TRAIN = TrainSpec(steps=20_000, learning_rate=0.01, minibatch=None, decay=False)

STEPS = (0, 3, 7, 12, 20, 30, 45, 65, 100, 150, 220, 300)
"""The moments of a film."""


@lru_cache(maxsize=len(NAMES))
def data_of(name: str) -> Dataset:
    """The rows that a toy has where nobody chose."""
    options = {"points": FIRST_POINTS} if name == "drawn" else {}
    return catalogue.load(name, **options)


def model_of(
    data: Dataset, width: int | None = None, posterior: Posterior = "doubly_stochastic"
) -> ModelSpec:
    """What a film shows; a page that starts with another model has no film."""
    likelihood = for_task(data.task, n_classes=len(data.classes))
    return ModelSpec(
        layers=2, inducing=25, widths=width, likelihood=likelihood, posterior=posterior
    )


def record(
    data: Dataset, steps: tuple[int, ...] = STEPS, model: ModelSpec | None = None
) -> list[View]:
    """The moments of a run at these steps, computed now."""
    run, views = Run(data, model or model_of(data), TRAIN), []
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
    """The stored moments of a film, in order; none where there is no such film."""
    return list(_film(name))


def film_of(data: Dataset, model: ModelSpec) -> tuple[View, ...]:
    """The film of just these rows and this model, if there is one."""
    for name, shown in FILMS.items():
        if shown.of == data.name and model == model_of(data, shown.width, shown.posterior):
            own = data_of(shown.of)
            same = np.array_equal(data.X, own.X) and np.array_equal(data.Y, own.Y)
            return _film(name) if same else ()
    return ()


@lru_cache(maxsize=len(FILMS))
def _film(name: str) -> tuple[View, ...]:
    path = FOLDER / f"{name}.npz"
    return moments.load(path) if name in FILMS and path.is_file() else ()


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, shown in FILMS.items():
        path, data = FOLDER / f"{name}.npz", data_of(shown.of)
        moments.save(path, record(data, model=model_of(data, shown.width, shown.posterior)))
        print(f"{name}: {path.stat().st_size / 1024:,.0f} KB", flush=True)


if __name__ == "__main__":
    main()
