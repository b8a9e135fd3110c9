"""Both randomnesses: unbiased, falling as they should, and told apart."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dgp_core.gp.layers import kl_from_prior
from dgp_core.gp.model import JITTER, ModelSpec, bound, factorise_all, propagate
from dgp_core.live.views import randomness as module
from dgp_core.live.views.randomness import noise_view, row_alone
from tests.gp.test_unbatched_lapack import batched_calls
from tests.live.views.test_mixture import curve, moment

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def noisy(quick_compilation):
    return moment(curve(n=80), ModelSpec(layers=2, inducing=6))


@pytest.fixture(scope="module")
def view(noisy):
    return noise_view(*noisy)


def test_the_table_is_all_there(noisy, view):
    run, snapshot = noisy
    assert (view.n_rows, view.batches, view.step) == (80, (8, 32, 80), 7)
    assert set(view.spreads) == {(S, B) for S in view.samples for B in view.batches}
    assert [g.group for g in view.gradients] == [
        "all parameters",
        *(
            f"layer {l}: {part}"
            for l in (1, 2)
            for part in ("q(u)", "inducing inputs", "kernel and noise")
        ),
        "likelihood",
    ]
    whole, *groups = view.gradients
    assert whole.norm == pytest.approx(np.sqrt(sum(g.norm**2 for g in groups)))
    np.testing.assert_allclose(whole.together, sum(g.together for g in groups), atol=1e-9)
    assert noise_view(run, snapshot) is view


def test_estimates_are_unbiased(noisy, view):
    """Against the full bound, which is itself held against the model's own."""
    run, snapshot = noisy
    for spread in view.spreads.values():
        assert abs(spread.both.mean() - view.bound) < 4 * spread.standard_error
        # What is kept does not average out: each cloud has a centre of its own.
        for estimates, centre in (
            (spread.samples, spread.of_batch),
            (spread.rows, spread.of_samples),
        ):
            error = estimates.std(ddof=1) / np.sqrt(len(estimates))
            assert abs(estimates.mean() - centre) < 4 * error + 1e-6 * abs(centre)
    small = view.spreads[1, 8]
    assert abs(small.samples.mean() - view.bound) > 20 * small.samples.std() / 20
    data = run.scaler(run.dataset)
    model = jax.tree.map(jnp.asarray, snapshot.deep)
    other = bound(model, jnp.asarray(data.X), jnp.asarray(data.Y), jax.random.key(1), 80, 60)
    assert float(other.value) == pytest.approx(view.bound, abs=6 * view.bound_error)


def test_with_all_rows_redrawing_the_minibatch_moves_nothing(view):
    for S in view.samples:
        spread = view.spreads[S, 80]
        assert spread.rows.std() < 1e-9 * abs(view.bound)
        assert spread.samples.std() > 0
    for g in view.gradients:
        assert np.all(g.redrawn_rows[:, -1] <= 1e-9 * g.norm**2 + 1e-12)
        assert np.all(g.redrawn_samples[:, -1] > 0)


def test_the_bounds_noise_falls_as_one_over_samples_and_rows(view):
    by_samples = [view.spreads[S, 80].samples.var() for S in view.samples]
    np.testing.assert_allclose(by_samples[0] / by_samples, view.samples, rtol=0.35)
    # Many samples leave the rows alone: 1/B (N − B)/(N − 1), drawn without replacement.
    few, more = (view.spreads[20, B].rows.var() for B in (8, 32))
    assert few / more == pytest.approx((1 / 8 * 72) / (1 / 32 * 48), rel=0.3)


def test_the_gradients_noise_falls_as_one_over_samples_and_rows(view):
    whole = view.gradients[0]
    for column in range(3):
        fall = whole.redrawn_samples[0, column] / whole.redrawn_samples[:, column]
        assert np.all(np.diff(fall) > 0)
        assert fall[-1] == pytest.approx(20, rel=0.7)
    # E_b Var_ε = N²/(B S) · the mean over rows: four times as many rows, a quarter.
    ratio = whole.redrawn_samples[:, 0] / whole.redrawn_samples[:, 1]
    assert np.median(ratio) == pytest.approx(4.0, rel=0.5)
    rows = whole.rows[-1]
    assert rows[0] / rows[1] == pytest.approx((1 / 8 * 72) / (1 / 32 * 48), rel=0.6)
    assert np.all(whole.cosine <= 1 + 1e-12) and np.all(whole.cosine[:, -1] > whole.cosine[:, 0])


def test_gradients_are_those_of_automatic_differentiation(noisy):
    """All in one expression, without blocks or factors held apart."""
    run, snapshot = noisy
    model, data = jax.tree.map(jnp.asarray, snapshot.deep), run.scaler(run.dataset)
    X, Y = jnp.asarray(data.X), jnp.asarray(data.Y)
    rng = np.random.default_rng(0)
    draws, orders = rng.standard_normal((3, 20, 80, 1)), np.stack([rng.permutation(80)] * 6)
    S, B = 5, 32
    numbers = (np.int64(1), np.int64(S), np.int64(B), np.float64(80), np.float64(JITTER))
    mine = np.asarray(module._gradients(model, X, Y, jnp.asarray(draws), orders, *numbers)[0])
    assert np.all(mine[1:] == 0) and mine.shape[:2] == (6, 3)

    def objective(model, eps):
        rows = orders[0][:B]
        factors = factorise_all(model)
        fit = 0.0
        for s in range(S):
            q = propagate(factors, X[rows], [eps[s, rows]])[-1]
            key = jax.random.key(0)
            fit += model.likelihood.expected_log_density(q.mean, q.variance, Y[rows], key).sum()
        return 80 / (B * S) * fit - sum(kl_from_prior(layer) for layer in model.layers)

    for e in (0, 2):
        gradient = jax.grad(objective)(model, jnp.asarray(draws[e]))
        leaves = [leaf.ravel() for _, group in module._trained(gradient) for leaf in group]
        np.testing.assert_allclose(mine[0, e], np.concatenate(leaves), rtol=1e-6, atol=1e-7)


def test_an_analysis_of_variance_finds_what_was_put_in(rng):
    rows, samples, both = 3.0, 1.5, 0.7
    P = 4000
    g = 2.0 + rows * rng.standard_normal((6, 1, P)) + samples * rng.standard_normal((1, 3, P))
    g = g + both * rng.standard_normal((6, 3, P))
    found = module._parts(g, np.full(P, 2.0))
    np.testing.assert_allclose(found[:3], P * np.array([rows, samples, both]) ** 2, rtol=0.1)
    expected = [
        a @ np.full(P, 2.0) / (np.linalg.norm(a) * 2 * np.sqrt(P)) for a in g.reshape(-1, P)
    ]
    assert found[3] == pytest.approx(np.mean(expected))


@pytest.mark.parametrize("spec", [ModelSpec(layers=3, inducing=5), ModelSpec(layers=1, inducing=5)])
def test_a_marginal_depends_only_on_its_own_input(spec):
    run, snapshot = moment(curve(n=30, n_inputs=2), spec)
    answer = row_alone(run, snapshot, 4)
    assert len(answer.alone) == len(answer.among) == spec.layers
    assert answer.difference < 1e-5
    other = row_alone(run, snapshot, 5)
    assert np.abs(other.alone[0][0] - answer.alone[0][0]).max() > 1e-3
    with pytest.raises(ValueError, match="no row 30"):
        row_alone(run, snapshot, 30)


def test_a_long_table_is_thinned_and_stands_for_the_whole():
    run, snapshot = moment(curve(n=300), ModelSpec(layers=2, inducing=5))
    pool_rows = noise_view(run, snapshot)
    assert pool_rows.n_rows == module.MOST_ROWS
    data, model = run.scaler(run.dataset), jax.tree.map(jnp.asarray, snapshot.deep)
    whole = bound(model, jnp.asarray(data.X), jnp.asarray(data.Y), jax.random.key(0), 300, 20)
    terms = pool_rows.spreads[20, 128].rows.std()
    assert pool_rows.bound == pytest.approx(float(whole.value), abs=4 * terms)


def test_no_lapack_call_is_batched(noisy):
    run, snapshot = noisy
    data = run.scaler(run.dataset)
    draws, orders = jnp.zeros((3, 20, 80, 1)), jnp.zeros((6, 80), int)
    numbers = (np.int64(1), np.int64(1), np.int64(8), np.float64(80), np.float64(JITTER))
    model = jax.tree.map(jnp.asarray, snapshot.deep)
    rows = (jnp.asarray(data.X), jnp.asarray(data.Y))
    assert not batched_calls(module._gradients, model, *rows, draws, orders, *numbers)
