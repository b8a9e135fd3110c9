"""Natural gradients against Titsias' optimum, the schedule, and steps that are undone."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dgp_core.gp.kernels import RBF
from dgp_core.gp.layers import Layer
from dgp_core.gp.likelihoods import Gaussian, StudentT
from dgp_core.gp.model import JITTER, DeepGP, ModelSpec, bound, create_model
from dgp_core.training.optimise import (
    LEAST_CAUTION,
    MOST_JITTER,
    Rates,
    bound_and_gradient,
    create_state,
    natural_step,
    rates_at,
    train_step,
)
from tests.core.textbook import collapsed_bound, optimal_q, rbf

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
N, M = 20, 6
NOISE = np.array([0.1, 0.3])
one_natural_step = jax.jit(natural_step)
one_step = jax.jit(train_step, static_argnames=("n_samples", "natural"))


def rates(learning_rate=0.0, natural_rate=0.0, ramp=0.0, decay=0.0, final=1.0) -> Rates:
    return Rates(
        *(jnp.asarray(float(x)) for x in (learning_rate, natural_rate, ramp, decay, final))
    )


@pytest.fixture(scope="module")
def somewhere():
    """One layer of two outputs with a q(u) far from the best, and its data."""
    rng = np.random.default_rng(3)
    X, Z = rng.uniform(-2, 2, (N, 1)), np.linspace(-2, 2, M)[:, None]
    Y = np.concatenate([np.sin(2 * X), np.cos(X)], 1) + 0.1 * rng.normal(size=(N, 2))
    kernel = RBF(jnp.asarray(np.log(1.4)), jnp.asarray(np.log([0.7])))
    C = rng.normal(size=(2, M, M)) + 2 * np.eye(M)
    layer = Layer(kernel, jnp.array(Z), jnp.array(rng.normal(0, 3, (M, 2))), jnp.array(C))
    return X, Z, Y, DeepGP((layer,), Gaussian(jnp.asarray(np.log(NOISE))))


def best(X, Z, Y):
    """Titsias' bound and his q(u), output by output."""
    K, Kxz = rbf(Z, Z, 1.4, 0.7) + 1e-6 * 1.4 * np.eye(M), rbf(X, Z, 1.4, 0.7)
    values = [collapsed_bound(np.full(N, 1.4), Kxz, K, Y[:, p], NOISE[p]) for p in range(2)]
    return sum(values), [optimal_q(Kxz, K, Y[:, p], NOISE[p]) for p in range(2)], K


def test_one_full_natural_step_reaches_the_collapsed_bound_from_anywhere(somewhere):
    X, Z, Y, model = somewhere
    state = create_state(model, KEY)
    arguments = (jnp.array(X), jnp.array(Y), jnp.ones(N), KEY, N)
    after, before = one_step(state, *arguments, rates(0.0, 1.0), n_samples=1, natural=True)
    collapsed, pairs, K = best(X, Z, Y)
    reached = bound(after.model, jnp.array(X), jnp.array(Y), KEY, N).value
    assert float(before.value) < collapsed - 10
    assert float(reached) == pytest.approx(collapsed, rel=1e-8)
    # q(u) itself, unwhitened.
    layer, L = after.model.layers[0], np.linalg.cholesky(K)
    for p, (m, S) in enumerate(pairs):
        np.testing.assert_allclose(L @ np.asarray(layer.q_mean)[:, p], m, atol=1e-6)
        np.testing.assert_allclose(L @ np.asarray(layer.covariance)[p] @ L.T, S, atol=1e-7)
    # Nothing else moved.
    assert after.model.layers[0].kernel == layer.kernel
    np.testing.assert_array_equal(layer.kernel.log_variance, model.layers[0].kernel.log_variance)
    np.testing.assert_array_equal(after.model.likelihood.variance, model.likelihood.variance)


def test_gradient_for_natural_steps_is_that_of_the_fit_alone(somewhere):
    """For Gaussian noise G = ∂fit/∂S = −½ L⁻¹ Kzx Kxz L⁻ᵀ / σ² in closed form."""
    X, Z, Y, model = somewhere
    evaluate = jax.jit(partial(bound_and_gradient, n_samples=1, natural=True))
    parts, gradient = evaluate(
        model, jnp.array(X), jnp.array(Y), jnp.ones(N), KEY, N, jitter=JITTER
    )
    _, _, K = best(X, Z, Y)
    A = np.linalg.solve(np.linalg.cholesky(K), rbf(Z, X, 1.4, 0.7))  # L⁻¹ Kzx
    for p in range(2):
        C = np.asarray(model.layers[0].factor)[p]
        by_factor = np.tril(2 * (-0.5 * A @ A.T / NOISE[p]) @ C)  # ∂fit/∂C = 2GC, lower part
        np.testing.assert_allclose(gradient.layers[0].q_factor[p], by_factor, atol=1e-7)
        residual = Y[:, p] - A.T @ np.asarray(model.layers[0].q_mean)[:, p]
        np.testing.assert_allclose(
            gradient.layers[0].q_mean[:, p], A @ residual / NOISE[p], atol=1e-6
        )
    assert parts.kl.shape == (1,)


def test_small_natural_steps_climb_between_the_ends(somewhere):
    """At γ the precision is the mean of old and best, weighed 1−γ and γ."""
    X, Z, Y, model = somewhere
    state = create_state(model, KEY)
    arguments = (jnp.array(X), jnp.array(Y), jnp.ones(N), KEY, N)
    after, _ = one_step(state, *arguments, rates(0.0, 0.25), n_samples=1, natural=True)
    _, pairs, K = best(X, Z, Y)
    L = np.linalg.cholesky(K)
    for p, (_, S) in enumerate(pairs):
        optimum = L.T @ np.linalg.inv(S) @ L
        old, new = (
            np.linalg.inv(np.asarray(m.layers[0].covariance)[p]) for m in (model, after.model)
        )
        np.testing.assert_allclose(new, 0.75 * old + 0.25 * optimum, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rate", [0.01, 0.5, 1.0])
def test_log_concave_likelihoods_never_give_an_indefinite_covariance(rate):
    """Any −G ≥ 0, however large or singular, from any q(u)."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        size = 10.0 ** rng.uniform(-6, 8)
        A = rng.normal(size=(2, M, rng.integers(1, M + 1)))
        # S with eigenvalues from 1e-6 to 100.
        V = np.linalg.qr(rng.normal(size=(2, M, M)))[0]
        S = V @ (10.0 ** rng.uniform(-6, 2, (2, M, 1)) * V.transpose(0, 2, 1))
        C = np.linalg.cholesky((S + S.transpose(0, 2, 1)) / 2)
        G = -size * A @ A.transpose(0, 2, 1)
        m, C = one_natural_step(
            jnp.array(rng.normal(size=(M, 2))),
            jnp.array(C),
            jnp.array(size * rng.normal(size=(M, 2))),
            jnp.array(np.tril(2 * G @ C)),
            jnp.asarray(rate),
        )
        assert np.isfinite(m).all() and np.isfinite(C).all()
        np.testing.assert_array_equal(C, np.tril(C))
        assert (np.diagonal(C, axis1=1, axis2=2) > 0).all()


def test_an_indefinite_covariance_shows_as_nan():
    m, C = one_natural_step(
        jnp.zeros((M, 2)),
        jnp.tile(jnp.eye(M), (2, 1, 1)),
        jnp.zeros((M, 2)),
        jnp.stack(
            [-2 * jnp.eye(M), 20 * jnp.eye(M)]
        ),  # the second: a precision of 0.5·1 + 0.5·(1 − 20)
        jnp.asarray(0.5),
    )
    assert np.isfinite(C[0]).all() and np.isnan(C[1]).any()
    # The first output: a precision of 0.5·1 + 0.5·3 = 2.
    np.testing.assert_allclose(C[0] @ C[0].T, 0.5 * np.eye(M), atol=1e-15)


def test_a_failed_step_is_undone_and_counted(somewhere):
    X, Z, Y, model = somewhere
    broken = Y.copy()
    broken[3, 1] = np.nan
    state = create_state(model, KEY)
    run = partial(one_step, n_samples=1, natural=True)
    settings = (jnp.ones(N), KEY, N, rates(0.01, 0.5))
    once, parts = run(state, jnp.array(X), jnp.array(broken), *settings)
    assert np.isnan(parts.value)
    assert (int(once.step), int(once.failures), int(once.streak)) == (1, 1, 1)
    for a, b in zip(
        jax.tree.leaves((once.model, once.adam)), jax.tree.leaves((model, state.adam)), strict=True
    ):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(once.jitter, 10 * JITTER)
    np.testing.assert_allclose(once.caution, 0.5)

    twice, _ = run(once, jnp.array(X), jnp.array(broken), *settings)
    assert (int(twice.failures), int(twice.streak)) == (2, 2)
    np.testing.assert_allclose((twice.jitter, twice.caution), (100 * JITTER, 0.25))

    well, _ = run(twice, jnp.array(X), jnp.array(Y), *settings)
    assert (int(well.step), int(well.failures), int(well.streak)) == (3, 2, 0)
    assert float(well.jitter) < float(twice.jitter) and float(well.caution) > 0.25
    assert not np.allclose(well.model.layers[0].q_mean, model.layers[0].q_mean)

    for _ in range(30):
        twice, _ = run(twice, jnp.array(X), jnp.array(broken), *settings)
    np.testing.assert_allclose((twice.jitter, twice.caution), (MOST_JITTER, LEAST_CAUTION))
    for _ in range(250):
        twice, _ = run(twice, jnp.array(X), jnp.array(Y), *settings)
    assert int(twice.failures) == 32 and int(twice.streak) == 0
    np.testing.assert_allclose((twice.jitter, twice.caution), (JITTER, 1.0))


def test_an_indefinite_covariance_is_undone_and_a_smaller_step_succeeds(somewhere):
    """Student's t bends upwards far from y: a full step has no covariance, a cautious one has.

    At f = 0, y = 1, s = 0.1, ν = 4: ∂² log p/∂f² = 5 (1 − 0.04)/1.04² = 4.4, in each of 20 rows.
    """
    X, _, Y, model = somewhere
    layer = replace(
        model.layers[0],
        q_mean=jnp.zeros((M, 1)),
        q_factor=jnp.asarray(0.1 * np.eye(M)[None]),
    )
    state = create_state(DeepGP((layer,), StudentT.create(1)), KEY)
    arguments = (jnp.array(X), jnp.ones((N, 1)), jnp.ones(N), KEY, N, rates(0.0, 1.0))
    after, parts = one_step(state, *arguments, n_samples=1, natural=True)
    assert np.isfinite(parts.value) and int(after.failures) == 1
    np.testing.assert_array_equal(after.model.layers[0].q_factor, layer.q_factor)
    for _ in range(6):
        after, parts = one_step(after, *arguments, n_samples=1, natural=True)
        if int(after.streak) == 0:
            break
    assert int(after.streak) == 0 and float(after.caution) < 0.6
    assert np.isfinite(after.model.layers[0].q_factor).all()
    assert float(np.abs(after.model.layers[0].q_mean).max()) > 0.01


def test_caution_makes_the_step_smaller(somewhere):
    """Adam's first step is its rate in every direction: half the caution, half the step."""
    X, _, Y, model = somewhere
    full = create_state(model, KEY)
    half = replace(full, caution=jnp.asarray(0.5))
    arguments, moves = (jnp.array(X), jnp.array(Y), jnp.ones(N), KEY, N), []
    for state in (full, half):
        after, _ = one_step(state, *arguments, rates(0.01, 0.5), n_samples=1, natural=True)
        moves.append(
            np.asarray(after.model.likelihood.log_variance - model.likelihood.log_variance)
        )
    np.testing.assert_allclose(np.abs(moves[0]), 0.01, rtol=1e-4)
    np.testing.assert_allclose(moves[1], moves[0] / 2, rtol=1e-6)


def test_a_gradient_too_large_to_square_is_a_failure(somewhere):
    """Adam squares gradients; an infinite square would stop the parameter for good, unseen."""
    X, _, Y, model = somewhere
    state = create_state(model, KEY)
    far = Y.copy()
    far[0, 0] = 1e100
    arguments = (jnp.array(X), jnp.array(far), jnp.ones(N), KEY, N)
    after, parts = one_step(state, *arguments, rates(0.01, 0.5), n_samples=1, natural=True)
    assert np.isfinite(parts.value) and int(after.failures) == 1
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(after.adam))


def test_noise_between_layers_and_of_the_likelihood_move_and_mean_weights_do_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    Y = np.sin(X[:, :1]) + 0.1 * rng.normal(size=(30, 1))
    model = create_model(ModelSpec(inducing=5, widths=2), X)
    state = create_state(model, KEY)
    arguments = (jnp.array(X), jnp.array(Y), jnp.ones(30), KEY, 30)
    still, _ = one_step(state, *arguments, rates(0.0), n_samples=1, natural=False)
    for a, b in zip(jax.tree.leaves(still.model), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(a, b)
    for _ in range(3):
        state, _ = one_step(state, *arguments, rates(0.01), n_samples=1, natural=False)
    before, after = model.layers[0], state.model.layers[0]
    np.testing.assert_array_equal(after.mean_weights, before.mean_weights)
    assert abs(float(after.log_noise - before.log_noise)) > 1e-3
    moved = state.model.likelihood.log_variance - model.likelihood.log_variance
    assert abs(float(moved[0])) > 1e-3
    # Adam's first steps are as long as its rate, in every other leaf as well.
    for a, b in zip(jax.tree.leaves(state.model), jax.tree.leaves(model), strict=True):
        if a.shape != before.mean_weights.shape:
            assert 1e-4 < float(np.abs(a - b).max()) < 0.031


def at(step, **settings):
    return [float(r) for r in rates_at(rates(**settings), jnp.asarray(step))]


def test_schedule_by_hand():
    fixed = dict(learning_rate=0.02, natural_rate=0.1)
    assert at(0, **fixed) == at(10_000, **fixed) == pytest.approx([0.02, 0.1])
    # The ramp: γ from a thousandth of its rate by a constant factor a step; Adam's is as it was.
    ramp = dict(**fixed, ramp=100)
    assert at(0, **ramp) == pytest.approx([0.02, 1e-4])
    assert at(50, **ramp) == pytest.approx([0.02, 0.1 * 1e-3**0.5])
    assert at(51, **ramp)[1] / at(50, **ramp)[1] == pytest.approx(1e3**0.01)
    assert at(100, **ramp) == at(5000, **ramp) == pytest.approx([0.02, 0.1])
    # The fall: a half cosine from all to a tenth, and no further.
    fall = dict(**fixed, decay=1000, final=0.1)
    assert at(0, **fall) == pytest.approx([0.02, 0.1])
    assert at(500, **fall) == pytest.approx([0.02 * 0.55, 0.1 * 0.55])
    assert at(250, **fall)[0] == pytest.approx(0.02 * (0.1 + 0.9 * (1 + 0.5**0.5) / 2))
    assert at(1000, **fall) == at(2000, **fall) == pytest.approx([0.002, 0.01])
    # Both at once.
    both = at(500, **fixed, ramp=1000, decay=1000, final=0.0)
    assert both == pytest.approx([0.01, 0.05 * 1e-3**0.5])
