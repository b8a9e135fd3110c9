"""Ways to train that were tried for the recipe, each by its name.

`benchmarks.paper --inner --recipes …` scores them on rows held out inside the training part.
"""

from dataclasses import dataclass, field, replace

import jax
import numpy as np

from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.training.optimise import TrainState, create_state
from dgp_core.training.plan import training
from dgp_core.training.train import PAPER, Rows, TrainSpec, converged, train_chunk

CHUNK = 100
"""Steps between two looks at the bound."""

LEAST_KL = 0.1
"""The weight from which an annealed KL climbs to 1."""


@dataclass(frozen=True)
class Recipe:
    """The library's settings, and what may come to them."""

    train: TrainSpec = field(default_factory=TrainSpec)
    starts: int = 1
    """Short runs, each from its own k-means and sample paths; the one of the best bound goes on."""
    start_steps: int = 200
    wide: bool = False
    """Whether lengthscales begin at √D, as far as a row is from the mean, and not at 2."""
    anneal: float = 0.0
    """The share of all steps over which the KL's weight climbs from LEAST_KL to 1."""
    last_samples: int = 1
    """Sample paths a row in the last fifth of the steps."""
    fall: int = 0
    """Rates stay until the bound gains less than the tolerance, and then fall in so many steps;
    0 lets them fall from the first step to the last."""


@dataclass
class Fit:
    """A model in training, and what it has taken."""

    state: TrainState
    rows: Rows
    n_rows: int
    bounds: list[float] = field(default_factory=list)
    """The bound at every step since the schedule began."""
    steps: int = 0
    """Optimisation steps, those of other starts included."""
    row_visits: int = 0
    """Rows times sample paths over all steps."""

    def go_on(self, train: TrainSpec, n_steps: int, kl_weight: float = 1.0) -> None:
        """The next steps. ℒ_β/β = (N/β)/B Σ … − KL has the maximum of Σ … − β KL."""
        n_data = round(self.n_rows / kl_weight)
        self.state, record = train_chunk(self.state, self.rows, train, n_steps, n_data)
        self.bounds += list(record.value)
        batch = self.n_rows if train.minibatch is None else min(train.minibatch, self.n_rows)
        self.steps += n_steps
        self.row_visits += batch * n_steps * train.samples

    @property
    def bound(self) -> float:
        """Nats per row, averaged over the last steps."""
        last = np.array(self.bounds[-CHUNK:])
        return float(last[np.isfinite(last)].mean() / self.n_rows)


def fit(recipe: Recipe, spec: ModelSpec, X: np.ndarray, Y: np.ndarray, seed: int) -> Fit:
    """Trains a model on rows in standard units."""
    train = replace(recipe.train, seed=seed)
    spec = replace(spec, lengthscale=None) if recipe.wide else spec
    rows = Rows.create(X, Y, train.minibatch, spec.dtype, seed)
    fits = []
    for start in range(recipe.starts):
        model = create_model(spec, X, seed=seed + 1000 * start)
        fits.append(Fit(create_state(model, jax.random.key(seed + 1000 * start)), rows, len(X)))
        while recipe.starts > 1 and fits[-1].steps < recipe.start_steps:
            fits[-1].go_on(train, CHUNK)
    best = max(fits, key=lambda one: one.bound) if recipe.starts > 1 else fits[0]
    for other in fits:
        if other is not best:
            best.steps += other.steps
            best.row_visits += other.row_visits
    if recipe.fall:
        steady = replace(train, decay=False)
        while best.steps < train.steps - recipe.fall:
            best.go_on(steady, CHUNK)
            if converged(np.array(best.bounds), steady, len(X)):
                break
        # The fall is a schedule of its own, from step 0 on.
        state = best.state
        best.state = replace(state, step=0 * state.step, key=jax.random.fold_in(state.key, 1))
        best.bounds = []
        train = replace(train, steps=recipe.fall, ramp_steps=0)
    while len(best.bounds) < train.steps:
        done = len(best.bounds) / train.steps
        S = recipe.last_samples if done >= 0.8 else train.samples
        climb = min(1.0, done / recipe.anneal) if recipe.anneal else 1.0
        n_steps = min(CHUNK, train.steps - len(best.bounds))
        best.go_on(replace(train, samples=S), n_steps, LEAST_KL ** (1 - climb))
    return best


CHOSEN = "by size and inputs"
"""The library's own: what `plan.propose` proposes for so many rows and inputs. "by size" in the
committed rows had its steps and minibatches, and lengthscales that start at 2."""


def recipe_for(name: str, n_rows: int) -> Recipe:
    """The recipe of that name for so many training rows."""
    return Recipe(training(n_rows), wide=True) if name == CHOSEN else RECIPES[name]


BASE = TrainSpec()
RECIPES = {
    "default": Recipe(),
    "paper": Recipe(PAPER),
    "1000 steps": Recipe(replace(BASE, steps=1000)),
    "2000 steps": Recipe(replace(BASE, steps=2000)),
    "4000 steps": Recipe(replace(BASE, steps=4000)),
    "10000 steps": Recipe(replace(BASE, steps=10_000)),
    "15000 steps": Recipe(replace(BASE, steps=15_000)),
    "rate 0.02": Recipe(replace(BASE, steps=2000, learning_rate=0.02)),
    "rate 0.1": Recipe(replace(BASE, steps=2000, learning_rate=0.1)),
    "natural 0.3": Recipe(replace(BASE, steps=2000, natural_rate=0.3)),
    "wide": Recipe(replace(BASE, steps=2000), wide=True),
    "annealed": Recipe(replace(BASE, steps=2000), anneal=0.3),
    "three starts": Recipe(replace(BASE, steps=2000), starts=3),
    "5 samples at the end": Recipe(replace(BASE, steps=2000), last_samples=5),
    "batch 250": Recipe(replace(BASE, steps=4000, minibatch=250)),
    "batch 250 at rate 0.02": Recipe(replace(BASE, steps=4000, minibatch=250, learning_rate=0.02)),
    "batch 250 wide": Recipe(replace(BASE, steps=4000, minibatch=250), wide=True),
    "batch 250 for 10000 steps": Recipe(replace(BASE, steps=10_000, minibatch=250)),
    "batch 250 for 20000 steps": Recipe(replace(BASE, steps=20_000, minibatch=250)),
    "batch 500 for 15000 steps": Recipe(replace(BASE, steps=15_000, minibatch=500)),
    "batch 500 for 15000 steps wide": Recipe(replace(BASE, steps=15_000, minibatch=500), wide=True),
    "stop": Recipe(replace(BASE, steps=4000, tolerance=0.005, patience=300), fall=800),
}
"""The short ones have 2,000 steps, so that what they add to "2000 steps" is seen at its length."""
