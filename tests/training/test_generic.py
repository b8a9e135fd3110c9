"""The program of a size class against the plain step: the same bound, gradient and run."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.training.generic import (
    Size,
    layout_of,
    padded_batches,
    padded_state,
    size_of,
    unpadded_state,
)
from dgp_core.training.optimise import create_state
from dgp_core.training.programs import Program, programs
from dgp_core.training.train import Rows, TrainSpec, train_chunk
from tests.core.runs import elsewhere

N, D, CLASSES = 150, 2, 3

SCALAR = Size(10, 2, 2, True, 1, 1, 0, 512)
SEVERAL = Size(10, 5, 2, True, CLASSES, 1, 1, 512)

CASES = {
    "one layer": (ModelSpec(1, 9, kernels="matern52"), {}),
    "two layers": (ModelSpec(2, (7, 10), kernels=("rbf", "matern12")), {"natural_rate": 0.0}),
    "three layers, mean of zero": (
        ModelSpec(3, 8, 1, ("matern32", "rbf", "rational_quadratic"), "zero", "student_t"),
        {},
    ),
    "four layers, x beside them": (
        ModelSpec(4, 6, 2, ("periodic", "rbf", "linear", "rbf"), "concatenate", "bernoulli"),
        {"samples": 3},
    ),
    "five layers": (
        ModelSpec(5, 5, (2, 1, 2, 1), "rbf", "linear", "poisson"),
        {"natural_rate": 0.0, "minibatch": 100},
    ),
    "counts": (ModelSpec(2, 6, likelihood="negative_binomial"), {}),
    "softmax": (ModelSpec(3, 7, likelihood="softmax"), {"natural_rate": 0.0}),
    "robust-max": (ModelSpec(2, 9, likelihood="robust_max"), {"minibatch": 140}),
}


@pytest.fixture(scope="module")
def program():
    """The program of a size class, compiled, made slim and loaded as a server's is."""

    def load(size: Size):
        programs().store(Program("train", size))
        return programs().get(Program("train", size))

    return load


@pytest.fixture
def quick_plain_steps(name):
    """Plain steps compile in a third of the time, and round as finely: but not Matérn-½ so near 0.

    Programs of a class have options of their own.
    """
    jax.config.update("jax_disable_most_optimizations", "matern12" not in CASES[name][0].kernels)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


def problem(spec: ModelSpec, train: TrainSpec):
    """Rows, and a state away from the start: there, gradients that are zero are only rounding."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, D))
    Y = np.sin(2 * X[:, :1]) + 0.3 * rng.standard_normal((N, 1))
    if spec.likelihood in ("poisson", "negative_binomial"):
        Y = np.round(1000 * np.exp(Y))
    if spec.likelihood in ("bernoulli", "robust_max", "softmax"):
        Y = np.digitize(Y, [0.0] if spec.likelihood == "bernoulli" else [-0.4, 0.4]).astype(float)
    model = elsewhere(create_model(spec, X, 1, CLASSES, Y=Y), np.random.default_rng(2), 0.05)
    layers = tuple(
        replace(layer, q_factor=layer.q_factor + 0.1 * jnp.eye(len(layer.inducing))[None])
        for layer in model.layers
    )
    state = create_state(replace(model, layers=layers), jax.random.key(3))
    # Enough jitter that rounding is not blown up: the two ways round differently.
    state = replace(state, jitter=jnp.asarray(1e-3))
    return state, Rows.create(X, Y, train.minibatch, np.float64, 0)


def by_class(program, size: Size, state, rows: Rows, train: TrainSpec, n_steps: int):
    drawn = rows.weight is None
    X, Y = (np.asarray(a)[: None if drawn else N] for a in (rows.X, rows.Y))
    batches = padded_batches(X, Y, N, train.minibatch if drawn else N, size)
    after, record = program(size)(
        padded_state(state, size),
        layout_of(state.model, size),
        batches,
        np.float64(N),
        np.int64(n_steps),
        train.rates,
        np.int64(train.samples),
    )
    return unpadded_state(after, state, size), jax.tree.map(lambda a: np.asarray(a)[0], record)


@pytest.mark.parametrize("name", CASES)
def test_the_program_of_a_class_takes_the_plain_steps(program, quick_plain_steps, name):
    """The bound and its gradient to 1e-10, 100 steps to 1e-6."""
    spec, options = CASES[name]
    train = TrainSpec(**{"minibatch": None, "decay": False, "learning_rate": 0.003} | options)
    size = SEVERAL if spec.likelihood in ("softmax", "robust_max") else SCALAR
    state, rows = problem(spec, train)
    plain, record = train_chunk(state, rows, train, 1)
    ours, parts = by_class(program, size, state, rows, train, 1)
    L = spec.layers
    np.testing.assert_allclose(parts.fit, record.fit[0], rtol=1e-10)
    np.testing.assert_allclose(parts.kl[:L], record.kl[0], rtol=1e-10, atol=1e-10)
    assert not np.any(parts.kl[L:])
    # Adam's mean after one step is a tenth of the gradient.
    gradient = np.asarray(plain.adam.mu)
    scale = np.abs(gradient).max()
    np.testing.assert_allclose(ours.adam.mu, gradient, rtol=1e-8, atol=1e-10 * scale)

    plain, _ = train_chunk(state, rows, train, 100)
    ours, _ = by_class(program, size, state, rows, train, 100)
    assert int(plain.failures) == int(ours.failures) == 0
    vectors = [ravel_pytree(s.model)[0] for s in (ours, plain)]
    np.testing.assert_allclose(*vectors, rtol=1e-6, atol=1e-6)


def test_padding_stays_at_the_prior_to_the_last_bit(program):
    """So that what a run comes to does not depend on where its chunks ended."""
    spec, train = CASES["one layer"][0], TrainSpec(minibatch=None, decay=False)
    state, rows = problem(spec, train)
    whole, _ = by_class(program, SCALAR, state, rows, train, 60)
    for n in (7, 1, 52):
        state, _ = by_class(program, SCALAR, state, rows, train, n)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(state), strict=True):
        if not jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            np.testing.assert_array_equal(a, b)


def test_classes_of_the_playground_are_few():
    """Every offered depth, number of inducing points and kernel of a set shares three classes."""
    sizes = {
        size_of(ModelSpec(L, M, kernels=kernel), 1, 1, 100, 1, 100)
        for L in range(1, 6)
        for M in (5, 10, 25, 50, 100)
        for kernel in ("rbf", "periodic", "linear")
    }
    assert len(sizes) == 3 and None not in sizes


@pytest.mark.parametrize(
    "spec",
    [
        ModelSpec(6, 10),
        ModelSpec(2, 101),
        ModelSpec(2, 10, kernels="rbf + linear"),
        ModelSpec(2, 10, precision="float32"),
        ModelSpec(2, 10, widths=33),
    ],
)
def test_models_beyond_the_classes_have_programs_of_their_own(spec):
    assert size_of(spec, 2, 1, 100, 1, 100) is None
