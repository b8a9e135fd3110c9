"""Starting points: the first moments of every toy at the playground's defaults and of the runs of
lessons, as stored; and later moments to which a lesson can skip.

A first visitor of a fresh server watches them while the real step compiles; nothing is computed to
show them. `python -m datasets.starts [NAME …]` makes the files anew.
"""

import argparse
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from datasets import catalogue, moments
from datasets.toys import FIRST_POINTS, GAP_POINTS
from dgp_core.gp.data import Dataset, split
from dgp_core.gp.likelihoods import for_task
from dgp_core.gp.model import ModelSpec
from dgp_core.live.poor_starts import Start, begin_with
from dgp_core.live.run import Run
from dgp_core.live.views.playground import View1D, View2D, ViewMany, view
from dgp_core.training.train import TrainSpec

View = View1D | View2D | ViewMany

FOLDER = Path(__file__).parent / "films"

NAMES = catalogue.names("toy")
"""Sets that have a film."""

TRAIN = TrainSpec(steps=20_000, learning_rate=0.01, minibatch=None, decay=False)

SPLIT = 0.9, 0
"""Of real data: the share of training rows, and the split's number."""

STEPS = (0, 3, 7, 12, 20, 30, 45, 65, 100, 150, 220, 300)
"""The moments of a film."""


BRIEF = (0, 30, 100, 300)
"""Those of a lesson's own run."""


@dataclass(frozen=True)
class Take:
    """What a film is of: a set, what its model has of its own, and the seed."""

    data: str
    model: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    steps: tuple[int, ...] = STEPS
    points: tuple[tuple[float, float], ...] = FIRST_POINTS
    """Of a set that is drawn."""
    train: dict[str, Any] = field(default_factory=dict)
    """What its training has of its own."""
    start: Start = "usual"

    @property
    def ill(self) -> bool:
        """Whether something is wrong with it on purpose, which its rows and model do not tell."""
        return self.start != "usual" or "learning_rate" in self.train


FILMS = {name: Take(name) for name in NAMES} | {
    "digits_2": Take("digits", {"widths": 2, "likelihood": "robust_max"}),
    "step_mean_field": Take("step", {"posterior": "mean_field"}, steps=BRIEF),
    "motorcycle_1": Take("motorcycle", {"layers": 1, "inducing": 10}, steps=BRIEF),
    "four_zero": Take("nearly_linear", {"layers": 4, "mean_function": "zero"}, 2, (*BRIEF, 2000)),
    "four_linear": Take("nearly_linear", {"layers": 4}, 2, (*BRIEF, 2000)),
    "gap": Take("drawn", {"layers": 3}, 0, BRIEF, GAP_POINTS),
    "banana": Take("banana", steps=BRIEF, train={"minibatch": 500}),
    "ill_zero": Take("step", {"layers": 4, "mean_function": "zero"}, 1, BRIEF),
    "well_zero": Take("step", {"layers": 4}, 1, BRIEF),
    "ill_rate": Take("step", steps=BRIEF, train={"learning_rate": 1.0}),
    "ill_scale": Take("step", steps=BRIEF, start="unscaled"),
    "ill_random": Take("arm", steps=BRIEF, start="random Z"),
    "ill_float32": Take("step", steps=BRIEF, start="float32"),
    "step_later": Take("step", steps=(5000,)),
    "ramp_later": Take("ramp", steps=(6000,)),
    "nearly_linear_later": Take("nearly_linear", steps=(3000,)),
    "two_branches_later": Take("two_branches", steps=(3000,)),
}
"""By their files."""


@lru_cache(maxsize=len(FILMS))
def data_of(name: str) -> Dataset:
    """The rows that a film is of: of a toy, those that it has where nobody chose; of real data, the
    training rows."""
    take = FILMS[name]
    options = {"points": take.points} if take.data == "drawn" else {}
    data = catalogue.load(take.data, **options)
    return data if catalogue.entry(take.data).kind == "toy" else split(data, *SPLIT)[0]


def model_of(data: Dataset, **own: Any) -> ModelSpec:
    """What a film shows; a page that starts with another model has no film."""
    likelihood = for_task(data.task, n_classes=len(data.classes))
    return replace(ModelSpec(layers=2, inducing=25, likelihood=likelihood), **own)


def record(name: str, steps: tuple[int, ...] | None = None) -> list[View]:
    """The moments of a film, computed now; or those at other steps."""
    data, take = data_of(name), FILMS[name]
    train = replace(TRAIN, seed=take.seed, **take.train)
    data, model, saved = begin_with(take.start, data, model_of(data, **take.model), train)
    run = Run(data, model, train, saved=saved)
    views = []
    run.prepare()
    run.advance()
    for step in take.steps if steps is None else steps:
        while run.latest is not None and run.latest.step < step:
            run.step(step - run.latest.step)
            run.advance()
        if run.latest is None or run.latest.step != step:
            raise RuntimeError(f"The run ended before step {step}: {run.reason}")
        views.append(view(run, run.latest))
    return views


def film(name: str) -> list[View]:
    """The stored first moments of a film, in order; none where there is no such film."""
    return [seen for seen in _film(name) if seen.step <= STEPS[-1]]


def film_of(data: Dataset, model: ModelSpec) -> tuple[View, ...]:
    """The film of just these rows and this model, if there is one."""
    stored = stored_of(data, model)
    return tuple(seen for seen in stored if seen.step <= STEPS[-1])


def later_of(data: Dataset, model: ModelSpec, train: TrainSpec) -> View | None:
    """A moment of just this run to which one can skip, if there is one."""
    ends = {name: getattr(TRAIN, name) for name in ("steps", "tolerance", "patience", "seed")}
    if replace(train, **ends) != TRAIN:
        return None
    return next((v for v in stored_of(data, model, train.seed) if v.step > STEPS[-1]), None)


def stored_of(data: Dataset, model: ModelSpec, seed: int | None = None) -> tuple[View, ...]:
    """Every stored moment of just these rows and this model; with a seed, of no other seed."""
    found: list[View] = []
    for name, take in FILMS.items():
        if take.ill or take.data != data.name or (seed is not None and seed != take.seed):
            continue
        if model == model_of(data, **take.model):
            own = data_of(name)
            if np.array_equal(data.X, own.X) and np.array_equal(data.Y, own.Y):
                found += _film(name)
    return tuple(found)


@lru_cache(maxsize=len(FILMS))
def _film(name: str) -> tuple[View, ...]:
    path = FOLDER / f"{name}.npz"
    return moments.load(path) if name in FILMS and path.is_file() else ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=(*FILMS, []), help="all where none is named")
    FOLDER.mkdir(exist_ok=True)
    for name in parser.parse_args().names or FILMS:
        path = FOLDER / f"{name}.npz"
        moments.save(path, record(name))
        print(f"{name}: {path.stat().st_size / 1024:,.0f} KB", flush=True)


if __name__ == "__main__":
    main()
