"""Good settings for any size and task, said in words, and how long they will take."""

import time
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from dgp_core.gp.counts import dispersion
from dgp_core.gp.data import Dataset, Scaler, Task, counted
from dgp_core.gp.likelihoods import for_task
from dgp_core.gp.model import ModelSpec
from dgp_core.training.train import TrainSpec

MOST_INDUCING = 100
"""M where rows are plenty, as in the paper."""

LINE_INDUCING = 50
"""M where there is a single input: on a line, more would lie on top of each other."""

LENGTHS = ((2_000, 4_000, 250), (20_000, 15_000, 500), (7_500_000, 15_000, 1_000))
"""Up to how many rows, steps, and rows a step: small sets gain nothing by more of either, and with
thousands of rows each must be seen often enough. Chosen by rows held out inside the training part
(benchmarks/recipe.jsonl); beyond the last of them it is FOR_MORE."""

FOR_MORE = (20_000, 1_000)

MANY_ROWS = 20_000
"""From so many rows on, one split holds out enough rows to judge by."""

FOLDS = 5

SPEED = 60e9
"""Products a second at which the costs below were measured: what `machine_speed` gave there."""

COSTS = (4.1e-5, 6.9e-11, 6.0e-10, 2.9e-9)
"""Seconds of a step for each layer's start, B M² P, M³ P and B M (D + 4), by least squares through
sixteen measured steps (M from 10 to 500, D from 1 to 50, one to three layers); the worst of them
is 25 % off, but for steps below a millisecond."""

FRESH_SECONDS = 30.0
"""How long a measurement of the machine's speed is believed."""

COMPILATION = 2.5
"""Seconds to compile the step, for each layer of a model, at that speed."""


@dataclass(frozen=True)
class Plan:
    """What to train, and how."""

    model: ModelSpec
    train: TrainSpec
    n_rows: int
    n_inputs: int
    n_outputs: int
    """Functions that the last layer has: columns of Y, or classes."""
    folds: int
    """How many folds to judge by; 0 where one split is enough."""
    why: str = ""
    """The reasons, in words."""
    why_likelihood: str = ""
    """Why counts are taken for Poisson's or for more variable ones."""

    @property
    def sentence(self) -> str:
        """The plan in words."""
        L, counts = self.model.layers, self.model.inducing_counts
        M = f"{counts[0]:,}" if len(set(counts)) == 1 else ", ".join(f"{m:,}" for m in counts)
        points = "point" if set(counts) == {1} else "points"
        batch = self.train.minibatch
        rows = (
            "all rows in every step"
            if batch is None or batch >= self.n_rows
            else f"minibatches of {batch:,}"
        )
        return (
            f"{counted(self.n_rows, 'row')} and {counted(self.n_inputs, 'column')}: "
            f"{counted(L, 'layer')} of {M} inducing {points}, {rows}, "
            f"{counted(self.train.steps, 'step')}."
        )


def propose(
    n_rows: int,
    n_inputs: int,
    task: Task = "regression",
    n_outputs: int = 1,
    n_classes: int = 0,
    seed: int = 0,
) -> Plan:
    """The plan for data of this size.

    Two layers, whatever the size: no measurement speaks for a deeper default. M is 100, but no more
    than half of the rows, so that any fold has as many rows as inducing points. Lengthscales start
    by the number of inputs: on rows held out inside the training part, deep models were at most
    0.01 nats worse than from a start at 2 and up to 0.15 better, and one layer within 0.015 of it
    (benchmarks/recipe.jsonl). Enough steps to see every row twice, up to a limit. Folds where one
    split would hold out too few rows to judge by.
    """
    if n_rows < 2 or n_inputs < 1:
        raise ValueError(
            f"{counted(n_rows, 'row')} and {counted(n_inputs, 'column')} are too few to learn "
            "from: bring at least 2 rows and 1 column beside the target."
        )
    most = LINE_INDUCING if n_inputs == 1 else MOST_INDUCING
    M = max(1, min(most, n_rows // 2))
    train = training(n_rows, seed)
    likelihood = for_task(task, n_outputs, n_classes)
    many = likelihood in ("robust_max", "softmax")
    return Plan(
        model=ModelSpec(layers=2, inducing=M, likelihood=likelihood, lengthscale=None),
        train=train,
        n_rows=n_rows,
        n_inputs=n_inputs,
        n_outputs=n_classes if many else n_outputs,
        folds=FOLDS if 2 * FOLDS <= n_rows < MANY_ROWS else 0,
        why=_reasons(n_rows, n_inputs, M, train),
    )


def training(n_rows: int, seed: int = 0) -> TrainSpec:
    """The steps, and the rows a step, that reach the paper's quality with so many rows."""
    lengths = (length for most, *length in LENGTHS if n_rows <= most)
    steps, batch = next(lengths, FOR_MORE)
    return TrainSpec(steps=steps, minibatch=batch if batch < n_rows else None, seed=seed)


def _reasons(n_rows: int, n_inputs: int, M: int, train: TrainSpec) -> str:
    """Why a plan is as it is."""
    if M < (LINE_INDUCING if n_inputs == 1 else MOST_INDUCING):
        points = "with half as many inducing points as rows, every fold has rows enough"
    elif n_inputs == 1:
        points = f"along one input, more than {M} inducing points would lie on top of each other"
    else:
        points = f"{M} inducing points are the paper's number"
    if train.minibatch is None:
        length = "so few rows can go through every step together"
    else:
        seen = train.steps * train.minibatch / n_rows
        times = "once" if seen < 1.5 else "twice" if seen < 2.5 else f"{seen:,.0f} times"
        length = f"in {train.steps:,} steps each row is seen about {times}"
    return f"Why so? Two layers are the fewest that are deep, and the quickest; {points}; {length}."


def plan_for(dataset: Dataset, seed: int = 0) -> Plan:
    """The plan for a data set."""
    N, D = dataset.X.shape
    plan = propose(N, D, dataset.task, dataset.Y.shape[1], len(dataset.classes), seed)
    if dataset.task != "counts":
        return plan
    scaler = Scaler.fit(dataset)
    exposure = dataset.X[:, dataset.exposed].prod(1)
    found = dispersion(scaler.inputs(dataset.X), dataset.Y, exposure)
    model = replace(plan.model, likelihood=found.likelihood)
    return replace(plan, model=model, why_likelihood=found.sentence)


def estimate(
    model: ModelSpec,
    train: TrainSpec,
    n_rows: int,
    n_inputs: int,
    n_outputs: int = 1,
    rival: bool = True,
) -> float:
    """Seconds that training takes on this machine as it is now, compilation left out."""
    each = pair_cost(model, train, n_rows, n_inputs, n_outputs, rival)
    return train.steps * each * SPEED / machine_speed()


def estimate_plan(plan: Plan, folds: int = 0) -> float:
    """Seconds for the main fit and so many folds, deep and single-layer, compilation included."""
    sizes = (plan.n_inputs, plan.n_outputs)
    held = round(0.9 * plan.n_rows)
    each = estimate(plan.model, plan.train, held, *sizes)
    compiled = COMPILATION * (plan.model.layers + 1) * SPEED / machine_speed()
    # The folds' training sets are smaller than the main one, and compile once for themselves.
    return each * (1 + folds) + compiled * (1 + (folds > 0))


def step_cost(
    model: ModelSpec, train: TrainSpec, n_rows: int, n_inputs: int, n_outputs: int = 1
) -> float:
    """Seconds of one step of one model, on the machine that the costs were measured on.

    B rows cost B M² P products a layer, q(u) and Kzz M³ P, and the kernel B M (D + 4).
    """
    B = n_rows if train.minibatch is None else min(train.minibatch, n_rows)
    B *= train.samples
    D, seconds = n_inputs, 0.0
    widths = (*model.inner_widths(n_inputs), n_outputs)
    for M, P in zip(model.inducing_counts, widths, strict=True):
        seconds += float(np.dot(COSTS, (1.0, B * M * M * P, M**3 * P, B * M * (D + 4))))
        D = P
    return seconds


def pair_cost(
    model: ModelSpec,
    train: TrainSpec,
    n_rows: int,
    n_inputs: int,
    n_outputs: int = 1,
    rival: bool = True,
) -> float:
    """Seconds of one step of a model and its single-layer rival, on that same machine."""
    specs = [model] + ([model.single_layer()] if rival and model.layers > 1 else [])
    return sum(step_cost(spec, train, n_rows, n_inputs, n_outputs) for spec in specs)


_measured: list[tuple[float, float]] = []
"""When this machine's speed was last measured, and what it was."""


def machine_speed() -> float:
    """Products a second that this machine has to give now; measured again after half a minute.

    The median of a few products of 1000 × 1000, as the training step makes them.
    """
    if _measured and time.monotonic() - _measured[-1][0] < FRESH_SECONDS:
        return _measured[-1][1]
    n, times = 1000, []
    A = jnp.asarray(np.random.default_rng(0).standard_normal((n, n)))
    _product(A).block_until_ready()
    for _ in range(5):
        began = time.perf_counter()
        _product(A).block_until_ready()
        times.append(time.perf_counter() - began)
    speed = 2.0 * n**3 / float(np.median(times))
    _measured[:] = [(time.monotonic(), speed)]
    return speed


@jax.jit
def _product(A: jax.Array) -> jax.Array:
    return A @ A


def duration(seconds: float) -> str:
    """A length of time as a person would say it: about 40 seconds, about 3 minutes."""
    if seconds < 2.5:
        return "a few seconds" if seconds > 1 else "about a second"
    if seconds < 90:
        step = 1 if seconds < 10 else 5 if seconds < 55 else 10
        return f"about {round(seconds / step) * step} seconds"
    if seconds < 90 * 60:
        return f"about {counted(round(seconds / 60), 'minute')}"
    hours = seconds / 3600
    return f"about {hours:.1f} hours" if hours < 9.95 else f"about {hours:,.0f} hours"
