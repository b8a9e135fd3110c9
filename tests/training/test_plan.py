"""Plans for any size: sensible, said in words, with a time that follows from the work."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.training import plan as plan_module
from dgp_core.training.plan import (
    COSTS,
    duration,
    estimate,
    estimate_plan,
    machine_speed,
    plan_for,
    propose,
    step_cost,
)
from dgp_core.training.train import TrainSpec


@pytest.mark.parametrize(
    ("size", "sentence"),
    [
        (
            (20, 1),
            "20 rows and 1 column: 2 layers of 10 inducing points, all rows in every step, "
            "4,000 steps.",
        ),
        (
            (2000, 8),
            "2,000 rows and 8 columns: 2 layers of 100 inducing points, minibatches of 250, "
            "4,000 steps.",
        ),
        (
            (8192, 8),
            "8,192 rows and 8 columns: 2 layers of 100 inducing points, minibatches of 500, "
            "15,000 steps.",
        ),
        (
            (1_000_000, 50),
            "1,000,000 rows and 50 columns: 2 layers of 100 inducing points, minibatches of "
            "1,000, 15,000 steps.",
        ),
    ],
)
def test_a_plan_is_said_in_words(size, sentence):
    assert propose(*size).sentence == sentence


@pytest.mark.parametrize(
    ("size", "steps", "reason"),
    [
        ((20, 1), 4000, "half as many inducing points as rows"),
        ((160, 1), 4000, "along one input, more than 50"),
        ((1_000_000, 50), 15_000, "each row is seen about 15 times"),
        ((7_500_000, 5), 15_000, "each row is seen about twice"),
        ((20_000_000, 3), 20_000, "each row is seen about once"),
    ],
)
def test_a_plan_gives_its_reasons_and_sees_millions_of_rows_too(size, steps, reason):
    plan = propose(*size)
    assert plan.train.steps == steps and reason in plan.why


@given(st.integers(2, 10**6), st.integers(1, 60))
def test_every_size_gets_fewer_inducing_points_than_rows(n_rows, n_inputs):
    plan = propose(n_rows, n_inputs)
    assert 1 <= max(plan.model.inducing_counts) <= max(1, n_rows // 2)
    assert plan.train.minibatch is None or plan.train.minibatch < n_rows
    # What one split holds out, or all folds together, is enough to judge by where there is enough.
    assert plan.folds or n_rows < 10 or n_rows // 10 >= 1000


@pytest.mark.parametrize(
    ("task", "n_classes", "likelihood", "n_outputs"),
    [
        ("regression", 0, "gaussian", 1),
        ("counts", 0, "poisson", 1),
        ("binary", 2, "bernoulli", 1),
        ("multiclass", 4, "softmax", 4),
    ],
)
def test_the_task_decides_the_likelihood(task, n_classes, likelihood, n_outputs):
    classes = tuple("abcd"[:n_classes])
    dataset = Dataset(
        "d", np.arange(30.0)[:, None], np.ones((30, 1)), ("x",), ("y",), task, classes=classes
    )
    plan = plan_for(dataset, seed=7)
    assert plan.model.likelihood == likelihood and plan.train.seed == 7
    model = create_model(plan.model, dataset.X, 1, max(2, n_classes))
    assert model.layers[-1].q_mean.shape == (15, n_outputs) and plan.n_outputs == n_outputs


def test_counts_get_the_likelihood_that_their_rows_speak_for():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((200, 1))
    for r, likelihood in ((1.0, "negative_binomial"), (np.inf, "poisson")):
        factor = rng.gamma(r, 1 / r, 200) if np.isfinite(r) else np.ones(200)
        Y = rng.poisson(30 * np.exp(0.3 * X[:, 0]) * factor)[:, None]
        plan = plan_for(Dataset("d", X, Y, ("x",), ("y",), "counts"))
        assert plan.model.likelihood == likelihood and "Poisson" in plan.why_likelihood
    assert not plan_for(Dataset("d", X, X, ("x",), ("y",))).why_likelihood


def test_too_little_data_are_refused():
    with pytest.raises(ValueError, match="1 row and 3 columns are too few"):
        propose(1, 3)


def test_the_cost_of_a_step_has_its_four_terms():
    train = TrainSpec(minibatch=None)

    def cost(rows=0, M=0, D=0, P=0):
        return step_cost(ModelSpec(layers=1, inducing=10 + M), train, 50 + rows, 3 + D, 1 + P)

    by_output = cost(P=1) - cost()
    assert by_output == pytest.approx(COSTS[1] * 50 * 10**2 + COSTS[2] * 10**3)
    assert cost(D=1) - cost() == pytest.approx(COSTS[3] * 50 * 10)
    by_row = COSTS[1] * 10**2 + COSTS[3] * 10 * (3 + 4)
    assert cost(rows=1) - cost() == pytest.approx(by_row)
    # Two layers of 3 inputs: the inner one has 3 outputs.
    two = step_cost(ModelSpec(layers=2, inducing=10), train, 50, 3)
    assert two == pytest.approx(cost() + cost(P=2))


def test_minibatches_bound_the_cost_of_a_step():
    model, train = ModelSpec(), TrainSpec(minibatch=1000)
    assert step_cost(model, train, 10**6, 8) == step_cost(model, train, 1000, 8)
    assert step_cost(model, train, 500, 8) < step_cost(model, train, 1000, 8)
    twice = TrainSpec(minibatch=1000, samples=2)
    assert step_cost(model, twice, 5000, 8) == step_cost(model, TrainSpec(minibatch=2000), 5000, 8)


def test_the_estimate_follows_the_machines_speed(monkeypatch):
    model, train = ModelSpec(), TrainSpec()
    monkeypatch.setattr(plan_module, "machine_speed", lambda: plan_module.SPEED)
    here = estimate(model, train, 2000, 8)
    deep, single = (step_cost(m, train, 2000, 8) for m in (model, model.single_layer()))
    assert here == pytest.approx(5000 * (deep + single))
    assert estimate(model, train, 2000, 8, rival=False) == pytest.approx(5000 * deep)
    assert estimate(model.single_layer(), train, 2000, 8) == pytest.approx(5000 * single)
    plan = propose(2000, 8)
    assert estimate_plan(plan, 5) > 5 * estimate_plan(plan) - 60
    monkeypatch.setattr(plan_module, "machine_speed", lambda: plan_module.SPEED / 2)
    assert estimate(model, train, 2000, 8) == pytest.approx(2 * here)


def test_the_machines_speed_is_measured_once_in_a_while(monkeypatch):
    monkeypatch.setattr(plan_module, "_measured", [])
    speed = machine_speed()
    assert speed > 0
    assert machine_speed() == speed


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "about a second"),
        (1.5, "a few seconds"),
        (7.2, "about 7 seconds"),
        (41.0, "about 40 seconds"),
        (64.0, "about 60 seconds"),
        (95.0, "about 2 minutes"),
        (600.0, "about 10 minutes"),
        (3 * 3600.0, "about 3.0 hours"),
        (30 * 3600.0, "about 30 hours"),
    ],
)
def test_a_time_is_said_as_a_person_would(seconds, words):
    assert duration(seconds) == words
