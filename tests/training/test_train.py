"""Whole runs: one compilation, one outcome a seed, and an end with a reason."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dgp_core.gp.data import Dataset, Scaled, Scaler
from dgp_core.gp.layers import Layer
from dgp_core.gp.model import ModelSpec, bound, create_model
from dgp_core.training.optimise import create_state
from dgp_core.training.train import (
    HOPELESS,
    LONGEST_CHUNK,
    PAPER,
    Progress,
    Rows,
    TrainSpec,
    Windows,
    _chunk,
    converged,
    padded_size,
    resume,
    train,
    train_chunk,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

N = 40
SPEC = TrainSpec(steps=60, minibatch=10, learning_rate=0.02, natural_rate=0.1, ramp_steps=20)


@pytest.fixture(scope="module")
def problem():
    """Rows and a model of two layers: runs of these shapes share one compilation."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (N, 1))
    Y = np.sin(2 * X) + 0.1 * rng.normal(size=X.shape)
    return X, Y, create_model(ModelSpec(layers=2, inducing=5), X)


def start(problem, spec=SPEC, seed=0, Y=None):
    X, own, model = problem
    rows = Rows.create(X, own if Y is None else Y, spec.minibatch, jnp.float64, seed)
    return create_state(model, jax.random.key(seed)), rows


def numbers(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves((state.model, state.adam))]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(numbers(a), numbers(b), strict=True))


# ---------------------------------------------------------------------- minibatches


def test_every_row_is_in_as_many_windows_as_any_other(rng):
    X, Y = np.arange(23.0)[:, None], -np.arange(23.0)[:, None]
    rows = Rows.create(X, Y, 5, jnp.float64, 0)
    np.testing.assert_array_equal(rows.X, -rows.Y)
    windows = np.stack([np.asarray(rows.X)[o : o + 5, 0] for o in range(23)])
    assert windows.shape == (23, 5)
    np.testing.assert_array_equal(np.bincount(windows.astype(int).ravel()), np.full(23, 5))
    assert all(len(set(w)) == 5 for w in windows)
    assert not np.array_equal(windows[:, 0], np.sort(windows[:, 0]))  # shuffled


def test_windows_are_drawn_evenly():
    rows = Rows.create(np.arange(8.0)[:, None], np.zeros((8, 1)), 3, jnp.float64, 0)
    keys = jax.random.split(jax.random.key(1), 4000)
    X, _, weight = jax.jit(jax.vmap(lambda key: rows.batch(key, 3)))(keys)
    assert X.shape == (4000, 3, 1) and bool((weight == 1).all())
    seen = np.bincount(np.asarray(X).astype(int).ravel(), minlength=8) / 4000
    # Each row is in a window with probability 3/8.
    np.testing.assert_allclose(seen, 3 / 8, atol=4 * np.sqrt(3 / 8 * 5 / 8 / 4000))


def test_rows_that_stay_where_they_are_train_the_same_model(rng):
    """To rounding: two programs take the rows, and XLA may sum in another order in each."""
    X, Y = rng.standard_normal((90, 2)), rng.standard_normal((90, 1))
    data = Dataset("rows", X, Y, ("a", "b"), ("y",))
    scaler, spec = Scaler.fit(data), TrainSpec(steps=25, minibatch=10, seed=3)
    standard = scaler(data)
    model = create_model(ModelSpec(layers=2, inducing=5), standard.X, seed=3)
    copied, bounds = train(model, standard.X, standard.Y, spec)

    taken = Scaled(X, scaler.inputs), Scaled(Y, scaler.outputs)
    windows = Windows(*taken, 10, jnp.float64, 3)
    windows.length = 7
    start = create_state(
        create_model(ModelSpec(layers=2, inducing=5), taken[0], seed=3), jax.random.key(3)
    )
    stayed, same = resume(start, windows, spec, Progress())
    for one, two in zip(jax.tree.leaves(copied), jax.tree.leaves(stayed), strict=True):
        if not jnp.issubdtype(one.dtype, jax.dtypes.prng_key):
            np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(bounds.bound, same.bound, rtol=1e-10)
    assert same.steps == 25


@pytest.mark.parametrize("minibatch", [None, 35, 100])
@pytest.mark.parametrize("n", [1, 8, 35])
def test_all_rows_are_taken_once_beside_padding_without_weight(n, minibatch):
    X = np.arange(float(n))[:, None]
    rows = Rows.create(X, -X, minibatch, jnp.float64, 0)
    inputs, outputs, weight = rows.batch(jax.random.key(0), n)
    kept = np.asarray(weight) == 1
    np.testing.assert_array_equal(np.asarray(inputs)[kept], X)
    np.testing.assert_array_equal(np.asarray(outputs)[kept], -X)
    assert int(rows.n) == n and float(weight.sum()) == n and len(inputs) == padded_size(n)


def test_padding_takes_few_shapes_and_little_room():
    sizes = [padded_size(n) for n in range(1, 5000)]
    assert all(n <= size <= n + max(7, n / 16) for n, size in enumerate(sizes, 1))
    assert [size for size in sizes if size < 32] == [8] * 8 + [16] * 8 + [24] * 8
    assert all(size <= n + n / 16 for n, size in enumerate(sizes, 1) if n >= 32)
    assert len(set(sizes[:4096])) <= 3 + 16 * 7 + 1 and padded_size(100) == 100
    assert padded_size(10**6 + 1) == 10**6 + 1


def test_padding_leaves_the_bound_as_it_is(problem):
    """35 rows padded to 36, against the bound of these 35 rows: one layer, so nothing is drawn."""
    X, Y, _ = problem
    model = create_model(ModelSpec(layers=1, inducing=5), X)
    rows = Rows.create(X[:35], Y[:35], None, jnp.float64, 0)
    assert len(rows.X) == 36
    spec = replace(SPEC, minibatch=None)
    _, record = train_chunk(create_state(model, jax.random.key(0)), rows, spec, 1)
    expected = bound(model, jnp.array(X[:35]), jnp.array(Y[:35]), jax.random.key(0), 35)
    np.testing.assert_allclose(record.value[0], expected.value, rtol=1e-12)


# ------------------------------------------------------- types, compilations, seeds


def test_types_are_the_same_before_and_after_a_chunk(problem):
    state, rows = start(problem)
    after, record = train_chunk(state, rows, SPEC, 3)
    before, now = (jax.tree.map(jax.typeof, s) for s in (state, after))
    assert jax.tree.structure(before) == jax.tree.structure(now)
    assert jax.tree.leaves(before) == jax.tree.leaves(now)
    assert not any(a.weak_type for a in jax.tree.leaves(before))
    assert record.fit.shape == (3,) and record.kl.shape == (3, 2)
    assert isinstance(record.fit, np.ndarray) and int(after.step) == 3


@pytest.mark.parametrize("natural_rate", [0.0, 0.1])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_types_are_the_same_in_either_precision(problem, precision, natural_rate):
    """By tracing alone: what a step returns is of the type that it was given."""
    X, Y, _ = problem
    model = create_model(ModelSpec(layers=2, inducing=5, precision=precision), X)
    state = create_state(model, jax.random.key(0))
    dtype = state.jitter.dtype
    rows = Rows.create(X, Y, None, dtype, 0)
    settings = dict(minibatch=None, samples=1, natural=natural_rate > 0)
    count, rates = jnp.asarray(3, jnp.int64), replace(SPEC, natural_rate=natural_rate).rates
    after, _ = jax.eval_shape(
        partial(_chunk, **settings), state, rows, jnp.asarray(N, dtype), count, rates
    )
    before = jax.tree.map(jax.typeof, state)
    for a, b in zip(jax.tree.leaves(after), jax.tree.leaves(before), strict=True):
        assert (a.shape, a.dtype, a.weak_type) == (b.shape, b.dtype, b.weak_type)
        assert b.dtype != (jnp.float64 if precision == "float32" else jnp.float32)


def test_one_compilation_a_shape(problem):
    state, rows = start(problem)
    state, _ = train_chunk(state, rows, SPEC, 2)
    compiled = _chunk._cache_size()
    for spec, n_steps in [
        (SPEC, 1),
        (SPEC, 0),
        (replace(SPEC, learning_rate=0.5, natural_rate=0.9), 3),
        (replace(SPEC, learning_rate=0.0, ramp_steps=0, decay=False), 7),
        (replace(SPEC, steps=10**6, final_fraction=0.5, seed=4, tolerance=1.0, seconds=9.0), 2),
    ]:
        state, _ = train_chunk(state, rows, spec, n_steps)
    state, _ = train_chunk(state, rows, SPEC, 2, n_data=1000)
    assert _chunk._cache_size() == compiled


def test_the_same_seed_gives_the_same_run_whatever_the_chunks(problem):
    (state, rows), ends, records = start(problem), [], []
    for lengths in [(12,), (5, 7), (1,) * 12]:
        current, record = state, []
        for n in lengths:
            current, parts = train_chunk(current, rows, SPEC, n)
            record.append(parts.value)
        ends.append(current)
        records.append(np.concatenate(record))
    assert same(ends[0], ends[1]) and same(ends[0], ends[2])
    np.testing.assert_array_equal(records[0], records[1])
    np.testing.assert_array_equal(records[0], records[2])
    other, rows = start(problem, seed=1)
    assert not same(train_chunk(other, rows, SPEC, 12)[0], ends[0])


def test_train_is_the_same_run_twice(problem):
    X, Y, model = problem
    (first, record), (second, again) = (train(model, X, Y, SPEC) for _ in range(2))
    assert same(first, second)
    np.testing.assert_array_equal(record.bound, again.bound)
    assert record.bound.shape == (60,) and record.stopped == "reached 60 steps"
    by_chunks = train_chunk(*start(problem), SPEC, 60)[0]
    assert same(first, by_chunks)


def test_steps_draw_different_rows_and_paths(problem):
    """At rates of zero nothing moves, and the bound still differs from step to step."""
    still = replace(SPEC, learning_rate=0.0, natural_rate=1e-300)
    # A few steps first: the last layer starts at its prior, which is the same on every path.
    state, rows = start(problem)
    state, _ = train_chunk(state, rows, SPEC, 5)
    after, record = train_chunk(state, rows, still, 20)
    for a, b in zip(jax.tree.leaves(after.model), jax.tree.leaves(state.model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    assert len(np.unique(record.fit)) == 20
    np.testing.assert_allclose(record.kl, np.tile(record.kl[:1], (20, 1)), rtol=1e-9)


def test_the_whole_set_may_be_larger_than_the_rows_at_hand(problem):
    state, rows = start(problem)
    _, once = train_chunk(state, rows, SPEC, 1)
    _, thrice = train_chunk(state, rows, SPEC, 1, n_data=3 * N)
    np.testing.assert_allclose(thrice.fit, 3 * once.fit, rtol=1e-12)
    np.testing.assert_array_equal(thrice.kl, once.kl)


@pytest.mark.parametrize("n_steps", [-1, LONGEST_CHUNK + 1])
def test_chunks_have_a_length(problem, n_steps):
    with pytest.raises(ValueError, match="0 to 1000 steps"):
        train_chunk(*start(problem), SPEC, n_steps)


# -------------------------------------------------------------- learning, and its end


def test_training_climbs_and_moves_what_it_should(problem):
    X, Y, model = problem
    spec = replace(SPEC, steps=300)
    state, progress = train(model, X, Y, spec)
    assert np.mean(progress.bound[-20:]) > np.mean(progress.bound[:20]) + 50
    assert progress.failures == 0 and progress.steps == 300
    inner, began = state.model.layers[0], model.layers[0]
    np.testing.assert_array_equal(inner.mean_weights, began.mean_weights)
    assert float(inner.log_noise) != float(began.log_noise)
    assert float(state.model.likelihood.log_variance[0]) != float(model.likelihood.log_variance[0])
    for a, b in zip(state.model.layers, model.layers, strict=True):
        assert isinstance(a, Layer)
        assert not np.allclose(a.inducing, b.inducing) and not np.allclose(a.q_mean, b.q_mean)


def test_failing_minibatches_are_undone_and_counted(problem):
    """One row is not a number: the windows that hold it, 10 of 40, fail, and the others train."""
    broken = problem[1].copy()
    broken[7] = np.nan
    state, rows = start(problem, Y=broken)
    after, record = train_chunk(state, rows, SPEC, 60)
    assert int(after.failures) == np.isnan(record.fit).sum()
    assert 5 <= int(after.failures) <= 27
    assert all(np.isfinite(a).all() for a in numbers(after))
    assert not same(after, state)


def test_a_hopeless_run_stops_and_keeps_its_model(problem):
    X, Y, model = problem
    spec = replace(SPEC, steps=100_000, learning_rate=np.inf)
    state, progress = train(model, X, Y, spec)
    assert "failed 50 times in a row" in progress.stopped
    assert progress.failures >= HOPELESS and progress.steps < 5000
    for a, b in zip(jax.tree.leaves(state.model), jax.tree.leaves(model), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_but_missing_numbers_stops_quietly(problem):
    """Bounds that are all NaN bring no warning from the test for convergence."""
    X, Y, model = problem
    spec = replace(SPEC, steps=100_000, tolerance=1e-3, patience=2)
    _, progress = train(model, X, Y * np.nan, spec)
    assert "failed 50 times in a row" in progress.stopped


def test_convergence_by_hand():
    spec = TrainSpec(tolerance=0.01, patience=10)
    flat, rising = np.full(20, 5.0), np.arange(20.0)
    assert converged(flat, spec, 100) and not converged(flat[:19], spec, 100)
    assert not converged(flat, replace(spec, tolerance=0.0), 100)
    # The last ten lie 10 nats above the ten before: 0.1 nats a row of 100, 0.005 of 2,000.
    assert not converged(rising, spec, 100) and converged(rising, spec, 2000)
    holes = flat.copy()
    holes[[3, 15]] = np.nan
    assert converged(holes, spec, 100)
    early = np.concatenate([np.arange(100.0), flat + 95])
    assert converged(early, spec, 100)


def test_a_run_stops_at_convergence(problem):
    X, Y, model = problem
    spec = replace(SPEC, steps=100_000, learning_rate=0.0, natural_rate=1e-3)
    spec = replace(spec, tolerance=5.0, patience=20)
    _, progress = train(model, X, Y, spec)
    assert progress.stopped.startswith("converged") and 40 <= progress.steps < 5000


def test_a_run_stops_at_its_time(problem):
    X, Y, model = problem
    _, progress = train(model, X, Y, replace(SPEC, steps=10**9, seconds=0.2))
    assert progress.stopped == "reached 0.2 seconds"
    assert 0.2 <= progress.seconds < 30 and progress.steps > 0


def test_a_run_stops_when_asked(problem):
    X, Y, model = problem
    calls = []

    def on_chunk(state, progress):
        calls.append((int(state.step), progress.steps, len(progress.bound)))
        return len(calls) == 3

    _, progress = train(model, X, Y, replace(SPEC, steps=10**6), on_chunk)
    assert progress.stopped == "stopped by request" and len(calls) == 3
    assert all(step == steps == length for step, steps, length in calls)


def test_a_run_goes_on_where_it_ended(problem):
    """Half a run and its other half are the whole run; the schedule goes on as well."""
    state, rows = start(problem)
    whole, record = resume(state, rows, SPEC, Progress())
    halves = Progress()
    part, _ = resume(state, rows, SPEC, halves, lambda state, progress: progress.steps >= 20)
    assert halves.stopped == "stopped by request" and halves.steps < 60
    halves.stopped = ""
    part, halves = resume(part, rows, SPEC, halves)
    assert same(part, whole) and halves.stopped == "reached 60 steps"
    np.testing.assert_array_equal(halves.bound, record.bound)


def test_no_steps_are_no_harm(problem):
    X, Y, model = problem
    state, progress = train(model, X, Y, replace(SPEC, steps=0))
    assert progress.stopped == "reached 0 steps" and progress.bound.shape == (0,)
    assert int(state.step) == 0


# --------------------------------------------------------------------- the settings


def test_the_papers_recipe():
    assert (PAPER.steps, PAPER.learning_rate, PAPER.minibatch, PAPER.samples) == (
        20_000,
        0.01,
        10_000,
        1,
    )
    assert not PAPER.natural and not PAPER.decay and float(PAPER.rates.decay_steps) == 0


@pytest.mark.parametrize(
    "setting",
    [
        dict(steps=-1),
        dict(samples=0),
        dict(minibatch=-5),
        dict(minibatch=0),
        dict(patience=0),
        dict(learning_rate=-0.1),
        dict(learning_rate=float("nan")),
        dict(natural_rate=1.5),
        dict(natural_rate=-0.1),
    ],
)
def test_impossible_settings_say_so(setting):
    with pytest.raises(ValueError, match="must be"):
        TrainSpec(**setting)
