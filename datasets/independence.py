"""What independence costs on the step: both posteriors trained from several seeds, as stored.

`python -m datasets.independence` measures the file anew (20 trainings of 5,000 steps). The lesson
quotes it, and a test repeats the beginning of a training.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from datasets import catalogue
from dgp_core.evaluation.forecast import deep_predictor
from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.model import DeepGP, ModelSpec, create_model
from dgp_core.gp.pytree import leaf
from dgp_core.live.views.evaluate import Evaluated
from dgp_core.live.views.independence import passage, signal_to_noise
from dgp_core.training.optimise import TrainState
from dgp_core.training.train import LONGEST_CHUNK, Rows, TrainSpec, train, train_chunk

FILE = Path(__file__).parent / "independence.json"
CASES = ("tied", "apart", "apart_sure")
"""The layers tied; apart; and apart from a start with as little noise as the tied ones have."""
STEPS = (20, 100, 300, 1000, 2000, 3000, 5000)
SEEDS = (0, 1, 2, 3)
"""Of the training, on the rows that the app shows."""
DRAWS = (2, 3, 4, 5)
"""Of the data, with the first seed of the training."""
FRESH, FRESH_SEED = 2000, 1
"""Rows that no model has seen: how many, and the seed that they are drawn with."""
SURE = 1e-5
"""The noise between layers at the start of "apart_sure"."""
TRAIN = TrainSpec(steps=100_000, learning_rate=0.01, minibatch=None, decay=False)
"""As the playground's."""


@dataclass(frozen=True)
class Measured:
    """A training at one moment."""

    case: str
    seed: int
    draw: int
    """The seed of the data."""
    step: int
    bound: float
    """Averaged over the last 100 steps."""
    signal: float
    """The first layer's signal-to-noise ratio."""
    first_sd: float
    """The standard deviation of what leaves layer 1, averaged over rows."""
    correlation: float
    """Of what leaves the layers at the row that is nearest to the jump."""
    coverage: float
    """The share of fresh rows in the central 95 % band."""
    log_density: float
    """The mean over fresh rows, in nats."""


def start(case: str, seed: int, draw: int) -> tuple[TrainState, Scaler, Dataset]:
    """A model before its first step, its units and its rows."""
    data = catalogue.load("step", seed=draw)
    scaler = Scaler.fit(data)
    spec = ModelSpec(
        layers=2, inducing=25, posterior="doubly_stochastic" if case == "tied" else "mean_field"
    )
    model = create_model(spec, scaler.inputs(data.X), seed=seed)
    if case == "apart_sure":
        model = surer(model)
    none = replace(TRAIN, steps=0, seed=seed)
    return train(model, scaler.inputs(data.X), scaler.outputs(data.Y), none)[0], scaler, data


def surer(model: DeepGP) -> DeepGP:
    """The model at its start, with SURE as its noise between layers and as q(h)'s variance."""
    *inner, last = model.layers
    noise = leaf(np.log(SURE), np.float64)
    hidden = [
        replace(h, log_variance=leaf(np.full(h.mean.shape, np.log(SURE)), np.float64))
        for h in model.hidden
    ]
    layers = (*(replace(layer, log_noise=noise) for layer in inner), last)
    return replace(model, layers=layers, hidden=tuple(hidden))


def measure(case: str, seed: int, draw: int, steps: tuple[int, ...] = STEPS) -> Iterator[Measured]:
    """A training at these steps, measured now."""
    state, scaler, data = start(case, seed, draw)
    X, Y = scaler.inputs(data.X), scaler.outputs(data.Y)
    rows = Rows.create(X, Y, None, np.float64, seed)
    fresh = catalogue.load("step", n=FRESH, seed=FRESH_SEED)
    bounds: list[float] = []
    for step in steps:
        while int(state.step) < step:
            n = min(LONGEST_CHUNK, step - int(state.step))
            state, record = train_chunk(state, rows, replace(TRAIN, seed=seed), n)
            bounds += record.value.tolist()
        model = Evaluated(state.model, None)
        ways = [passage(model, X, row) for row in range(len(X))]
        forecast = deep_predictor(state.model, scaler, seed)(fresh)
        assert forecast.pit is not None
        first, last = ways[int(np.argmin(np.abs(data.X[:, 0])))]
        yield Measured(
            case=case,
            seed=seed,
            draw=draw,
            step=step,
            bound=round(float(np.mean(bounds[-100:])), 2),
            signal=float(f"{signal_to_noise(model, X):.4g}"),
            first_sd=float(f"{np.mean([way[0].std() for way in ways]):.4g}"),
            correlation=round(float(np.corrcoef(first[:, 0], last[:, 0])[0, 1]), 4),
            coverage=round(float(np.mean(np.abs(2 * forecast.pit - 1) <= 0.95)), 4),
            log_density=round(float(np.mean(forecast.log_density)), 4),
        )


@cache
def stored() -> tuple[Measured, ...]:
    """What was measured."""
    return tuple(Measured(**row) for row in json.loads(FILE.read_text()))


def at_end(case: str, draws: bool = False) -> list[Measured]:
    """The last moments of a case: of every seed on the app's rows, or on other draws of them."""
    return [
        row
        for row in stored()
        if row.case == case and row.step == STEPS[-1] and (row.draw in DRAWS) == draws
    ]


def main() -> None:
    trainings = [(case, seed, 0) for case in CASES for seed in SEEDS]
    trainings += [(case, SEEDS[0], draw) for case in CASES[:2] for draw in DRAWS]
    rows = []
    for case, seed, draw in trainings:
        rows += measure(case, seed, draw)
        print(rows[-1], flush=True)
    lines = ",\n".join(json.dumps(asdict(row)) for row in rows)
    FILE.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
