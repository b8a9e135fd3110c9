"""No program asks LAPACK for a batch: on two cores, two such programs at once wait for ever."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.gp.predict import _function_draws
from dgp_core.training.optimise import create_state, natural_step, train_step
from dgp_core.training.train import TrainSpec


def batched_calls(function, *arguments) -> list[str]:
    """LAPACK calls of a program that are given several matrices at once."""
    text = jax.jit(function).lower(*arguments).as_text()
    calls = re.findall(r"custom_call @(lapack_\w+)\(.*?: \(tensor<([\dx]+)xf\d+>", text)
    assert calls, "the program has no LAPACK call at all: the pattern is out of date"
    return [f"{name} {shape}" for name, shape in calls if _batch(shape) > 1]


def _batch(shape: str) -> int:
    return int(np.prod([int(n) for n in shape.split("x")[:-2]]))


@pytest.fixture(scope="module")
def rows():
    X = np.random.default_rng(0).standard_normal((12, 2))
    return jnp.asarray(X), jnp.asarray(np.arange(12) % 3, jnp.float64)[:, None]


def test_the_pattern_finds_a_batch():
    K = jnp.broadcast_to(jnp.eye(4), (3, 4, 4))
    assert batched_calls(jnp.linalg.cholesky, K)
    assert not batched_calls(jnp.linalg.cholesky, K[0])


def test_natural_gradients_of_several_outputs():
    P, M = 3, 4
    eye, m = jnp.broadcast_to(jnp.eye(M), (P, M, M)), jnp.zeros((M, P))
    assert not batched_calls(natural_step, m, eye, m, -eye, jnp.asarray(0.1))


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_a_training_step_with_several_classes(rows, precision):
    X, Y = (a.astype(precision) for a in rows)
    spec = ModelSpec(layers=2, inducing=5, likelihood="robust_max", precision=precision)
    state = create_state(create_model(spec, np.asarray(X), 1, 3), jax.random.key(0))
    weight, n, rates = jnp.ones(12, precision), jnp.asarray(12, precision), TrainSpec().rates

    def step(state, X, Y):
        return train_step(state, X, Y, weight, state.key, n, rates, 1, True)

    assert not batched_calls(step, state, X, Y)


def test_function_draws(rows):
    model = create_model(ModelSpec(layers=2, inducing=5), np.asarray(rows[0]))

    def draw(model, X):
        return _function_draws(model, X, jax.random.key(0), jnp.asarray(1e-6), 4)

    assert not batched_calls(draw, model, rows[0])
