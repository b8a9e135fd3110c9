"""Live runs: fair, isolated, replayable, and gone when nobody wants them."""

import gc
import os
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from dgp_core import archive
from dgp_core.gp.data import Dataset
from dgp_core.gp.model import Bound, ModelSpec
from dgp_core.live import run as run_module
from dgp_core.live import workshop as workshop_module
from dgp_core.live.run import BoundRecord, Run, Snapshot, thin
from dgp_core.live.views import one_input as views_1d
from dgp_core.live.workshop import GONE_SECONDS, IDLE_SECONDS, Workshop, WorkshopError
from dgp_core.training.compile_cache import without_cache
from dgp_core.training.programs import Programs, programs
from dgp_core.training.train import TrainSpec, _chunk

MODEL = ModelSpec(layers=2, inducing=8)
TRAIN = TrainSpec(steps=1_000_000, minibatch=None, decay=False)
OWN = replace(MODEL, kernels="rbf + linear")
"""No size class holds sums of kernels: it has programs of its own."""


def step_data(seed: int = 0, n: int = 40) -> Dataset:
    rng = np.random.default_rng(seed)
    X = np.sort(rng.uniform(-2, 2, (n, 1)), 0)
    Y = np.sign(X) + 0.05 * rng.standard_normal(X.shape)
    return Dataset("step", X, Y, ("x",), ("y",))


def until(condition, seconds: float = 120.0):
    """Waits for a condition, and fails with it where it never comes."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.005)


@pytest.fixture
def workshop():
    shop = Workshop()
    yield shop
    shop.stop()


def same(a: Snapshot, b: Snapshot) -> bool:
    leaves = zip(
        jax.tree.leaves((a.deep, a.rival)), jax.tree.leaves((b.deep, b.rival)), strict=True
    )
    return a.step == b.step and all(np.array_equal(x, y) for x, y in leaves)


def advanced(run: Run, chunks: list[int]) -> Snapshot:
    """A prepared run after chunks of these lengths."""
    for n in chunks:
        run.step(n)
        run.advance()
    assert run.latest is not None
    return run.latest


@pytest.fixture(scope="module")
def ready_run() -> Run:
    run = Run(step_data(), MODEL, TRAIN)
    run.prepare()
    assert run.status == "ready"
    run.advance()
    return run


def test_a_run_starts_at_step_zero_with_both_models():
    run = Run(step_data(), MODEL, TRAIN)
    run.prepare()
    run.advance()
    snapshot = run.latest
    assert snapshot is not None and snapshot.step == 0
    assert len(snapshot.deep.layers) == 2 and len(snapshot.rival.layers) == 1
    assert snapshot.deep.layers[-1].inducing.shape == snapshot.rival.layers[0].inducing.shape
    assert np.isnan(snapshot.deep_bound.fit)


def test_the_start_of_a_new_shape_compiles_nothing():
    """Many come at once, each with a model of its own: start values must not wait for XLA."""
    Run(step_data(), MODEL, TRAIN)._make_start()
    compiled: list[str] = []

    def note(event: str, seconds: float, **_) -> None:
        compiled.extend([event] * event.endswith("backend_compile_duration"))

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        Run(step_data(n=33), ModelSpec(layers=3, inducing=7), TRAIN)._make_start()
        assert compiled == []
        jax.jit(lambda x: x + 33)(np.ones(33))
        assert compiled
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def test_reset_replays_bit_for_bit_whatever_the_chunks(ready_run):
    ready_run.reset()
    ready_run.advance()
    first = advanced(ready_run, [7, 3, 15])
    bounds = ready_run.record()
    ready_run.reset()
    ready_run.advance()
    assert ready_run.latest.step == 0 and len(ready_run.record()[0][0]) == 0
    again = advanced(ready_run, [1, 20, 4])
    assert same(first, again)
    for before, after in zip(bounds, ready_run.record(), strict=True):
        assert np.array_equal(before[0], after[0]) and np.array_equal(before[1], after[1])


def test_another_seed_is_another_run(ready_run):
    ready_run.reset(seed=0)
    ready_run.advance()
    first = advanced(ready_run, [10])
    ready_run.reset(seed=5)
    ready_run.advance()
    other = advanced(ready_run, [10])
    assert not same(first, other)
    ready_run.reset(seed=0)
    ready_run.advance()
    assert same(first, advanced(ready_run, [10]))


def test_a_seed_wished_for_while_another_is_being_made_is_the_one_that_runs(monkeypatch):
    started, go_on = threading.Event(), threading.Event()
    made = run_module.create_model

    def slow(*arguments):
        started.set()
        go_on.wait(60)
        return made(*arguments)

    run = Run(step_data(), MODEL, TRAIN)
    run.prepare()
    run.advance()
    monkeypatch.setattr(run_module, "create_model", slow)
    run.reset(seed=1)
    turn = threading.Thread(target=run.advance)
    turn.start()
    assert started.wait(60)
    run.reset(seed=2)
    go_on.set()
    turn.join()
    run.advance()
    fresh = Run(step_data(), MODEL, TrainSpec(**{**vars(TRAIN), "seed": 2}))
    fresh.prepare()
    fresh.advance()
    assert run.train.seed == 2 and same(advanced(run, [3]), advanced(fresh, [3]))


def test_a_key_held_down_asks_for_no_more_than_a_turn(ready_run):
    ready_run.reset()
    ready_run.advance()
    ready_run._chunk = 4
    for _ in range(50):
        ready_run.step()
    ready_run.advance()
    assert ready_run.latest.step == 4
    ready_run.step()
    ready_run.pause()
    assert not ready_run.wants_turn(time.monotonic())


def test_a_turn_with_nothing_to_do_publishes_nothing(ready_run):
    ready_run.reset()
    ready_run.advance()
    ready_run.pause()
    moment = ready_run.latest
    ready_run.advance()
    assert ready_run.latest is moment


def test_one_step_is_one_gradient_step_and_a_pause(ready_run):
    ready_run.reset()
    ready_run.advance()
    ready_run.step()
    ready_run.advance()
    assert ready_run.latest.step == 1 and not ready_run.playing
    assert not ready_run.wants_turn(time.monotonic())


def test_a_run_plays_up_to_a_step_and_pauses_there(ready_run):
    ready_run.reset()
    ready_run.play_until(37)
    for _ in range(60):
        ready_run.advance()
        if not ready_run.playing:
            break
    assert ready_run.latest.step == 37 and not ready_run.playing
    ready_run.play()
    ready_run.advance()
    assert ready_run.latest.step > 37 and ready_run.playing


def test_reset_forgets_steps_that_were_wished_for(ready_run):
    ready_run.step(5)
    ready_run.reset()
    ready_run.advance()
    assert ready_run.latest.step == 0 and not ready_run.wants_turn(time.monotonic())


def test_a_pause_holds_and_play_goes_on_from_there(ready_run):
    ready_run.reset()
    ready_run.advance()
    ready_run.play()
    ready_run.advance()
    ready_run.pause()
    step = ready_run.latest.step
    assert step > 0 and not ready_run.wants_turn(time.monotonic())
    ready_run.advance()
    assert ready_run.latest.step == step
    ready_run.play()
    assert ready_run.wants_turn(time.monotonic())
    ready_run.advance()
    assert ready_run.latest.step > step and len(ready_run.record()[0][0]) == ready_run.latest.step
    ready_run.pause()


def test_history_stays_within_its_memory(ready_run, monkeypatch):
    assert run_module.HISTORY_BYTES == 8 * 2**20
    ready_run.reset()
    ready_run.advance()
    budget = 20 * ready_run.latest.nbytes + 100
    monkeypatch.setattr(run_module, "HISTORY_BYTES", budget)
    advanced(ready_run, [1] * 60)
    history = ready_run.history()
    assert sum(snapshot.nbytes for snapshot in history) <= budget and len(history) == 20
    assert history[0].step == 0 and history[-1] is ready_run.latest
    assert ready_run.at(1).step == 1 and ready_run.at(1000).step == 60
    assert len(ready_run.record()[1][0]) == 60
    monkeypatch.setattr(run_module, "HISTORY_BYTES", ready_run.latest.nbytes // 2)
    advanced(ready_run, [1])
    assert ready_run.history() == (ready_run.latest,)


def test_the_learning_rate_changes_under_way(ready_run):
    ready_run.reset()
    ready_run.advance()
    start = advanced(ready_run, [5])
    ready_run.set_rates(learning_rate=0.0)
    ready_run.set_rates(natural_rate=1e-300)
    frozen = advanced(ready_run, [5])
    ready_run.set_rates(learning_rate=TRAIN.learning_rate, natural_rate=TRAIN.natural_rate)
    assert np.array_equal(start.deep.layers[0].inducing, frozen.deep.layers[0].inducing)
    moved = advanced(ready_run, [5])
    assert not np.array_equal(frozen.deep.layers[0].inducing, moved.deep.layers[0].inducing)
    with pytest.raises(ValueError, match="switched on or off"):
        ready_run.set_rates(natural_rate=0.0)


def test_a_moved_inducing_point_stays_where_it_was_put(ready_run):
    ready_run.reset()
    ready_run.advance()
    ready_run.pause()
    for place in (0.25, 0.5, 1.25):
        ready_run.move_inducing(0, 3, np.array([place]))
    assert len(ready_run._edits) == 1  # the newest of each point
    assert ready_run.wants_turn(time.monotonic())
    ready_run.advance()
    assert ready_run.latest.deep.layers[0].inducing[3, 0] == 1.25 and ready_run.latest.step == 0


def test_the_bound_answers_a_moved_point_though_no_step_is_taken(ready_run):
    ready_run.reset()
    ready_run.pause()
    ready_run.advance()
    before = advanced(ready_run, [40])
    scaler = ready_run.scaler
    far = float(scaler.x_mean[0] + 40 * scaler.x_scale[0])
    ready_run.move_inducing_to(3, [far, 0.0])
    ready_run.advance()
    after = ready_run.latest
    assert after.step == before.step and len(ready_run.record()[0][0]) == before.step
    assert after.deep.layers[0].inducing[3, 0] == pytest.approx(40.0)
    assert np.isfinite(after.deep_bound.fit) and after.deep_bound.fit != before.deep_bound.fit
    with pytest.raises(ValueError, match="no inducing point"):
        ready_run.move_inducing_to(99, [0.0])


def test_a_saved_model_goes_on_as_if_it_had_never_been_away(ready_run, tmp_path):
    ready_run.reset()
    ready_run.pause()
    ready_run.advance()
    middle = advanced(ready_run, [30])
    archive.save(tmp_path / "model.npz", ready_run.archive(settings={"name": "step"}))
    end = advanced(ready_run, [20])

    again = Run(step_data(), MODEL, TRAIN, archive.load(tmp_path / "model.npz"))
    again.prepare()
    again.pause()
    again.advance()
    assert again.latest.step == middle.step and again.catching_up
    while again.catching_up:
        again.step(12)
        again.advance()
    assert same(again.latest, middle)
    assert same(advanced(again, [20]), end)
    for mine, theirs in zip(again.record(), ready_run.record(), strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])
    again.reset()
    again.advance()
    assert again.latest.step == 0 and not again.catching_up


def test_a_run_ends_at_its_limit_and_says_so():
    run = Run(step_data(), MODEL, TrainSpec(steps=12, minibatch=None))
    run.prepare()
    while run.status == "ready":
        run.advance()
    assert run.status == "finished" and run.latest.step == 12 and "12 steps" in run.reason


def test_convergence_ends_a_run_with_its_reason():
    spec = TrainSpec(steps=100_000, minibatch=None, tolerance=1e3, patience=10)
    run = Run(step_data(), MODEL, spec)
    run.prepare()
    while run.status == "ready":
        run.advance()
    assert run.status == "finished" and "levelled off" in run.reason and run.latest.step < 10_000
    assert run.at_rest
    stopped, before = run.latest.step, float(run.latest.deep_bound.value)
    run.move_inducing(0, 0, np.array([1.5]))
    assert not run.at_rest
    run.pause()
    run.advance()
    assert run.latest.step == stopped and float(run.latest.deep_bound.value) != before
    run.play()
    run.advance()
    assert run.latest.step > stopped


def test_a_run_that_fails_says_why_and_harms_no_other(workshop):
    wild = TrainSpec(steps=100_000, minibatch=None, decay=False, learning_rate=1e300)
    good, _ = workshop.start(step_data(), MODEL, TRAIN)
    bad, _ = workshop.start(step_data(), MODEL, wild)
    until(lambda: workshop.watch(bad).status == "failed")
    assert "smaller learning rate" in workshop.watch(bad).reason
    leaves = [layer.q_mean for layer in workshop.watch(bad).latest.deep.layers]
    assert all(np.isfinite(leaf).all() for leaf in leaves)
    step = workshop.watch(good).latest.step if workshop.watch(good).latest else 0
    until(
        lambda: workshop.watch(good).latest is not None and workshop.watch(good).latest.step > step
    )


def test_data_that_no_number_can_hold_end_a_run_with_a_reason(workshop):
    """Finite cells whose variance is not: whatever breaks, it breaks this run alone, in words."""
    X = np.linspace(-1, 1, 40)[:, None]
    huge = Dataset("huge", X, np.where(X > 0, 1e308, -1e308), ("x",), ("y",))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        bad, _ = workshop.start(huge, MODEL, TRAIN)
        good, _ = workshop.start(step_data(), MODEL, TRAIN)
        until(lambda: workshop.watch(bad).status == "failed")
    assert workshop.watch(bad).reason.endswith((".", "!"))
    until(lambda: workshop.watch(good).latest is not None and workshop.watch(good).latest.step > 0)


def test_a_turn_that_breaks_ends_its_run_with_a_sentence_unless_it_was_reset(monkeypatch):
    run = Run(step_data(), MODEL, TRAIN)
    run.prepare()
    run.advance()

    def broken(*_):
        raise FloatingPointError("untold")

    def reset_meanwhile(*_):
        run.reset()
        raise FloatingPointError("untold")

    for breaking, status in ((reset_meanwhile, "ready"), (broken, "failed")):
        with monkeypatch.context() as patch:
            patch.setattr(run_module, "train_chunk", breaking)
            run.step()
            run.advance()
        assert run.status == status
        if status == "ready":
            run.advance()
    assert run.reason == (
        "This run could not go on (FloatingPointError). Reset it, or change its settings."
    )


def test_ten_runs_get_equal_shares(monkeypatch):
    """One worker: a second one that the machine keeps waiting would hold up its run alone."""
    monkeypatch.setattr(run_module, "TURN_SECONDS", 0.01)
    turns, workshop = Counter(), Workshop(workers=1)
    advance = Run.advance
    monkeypatch.setattr(Run, "advance", lambda run: (turns.update([run]), advance(run)))
    ids = [workshop.start(step_data(seed), MODEL, TRAIN)[0] for seed in range(10)]
    runs = [workshop.watch(i) for i in ids]

    def taken() -> np.ndarray:
        """Turns so far; each is of about the same length, which every run finds for itself."""
        assert all(workshop.watch(i).latest is not None for i in ids)
        return np.array([turns[run] for run in runs])

    try:
        until(lambda: all(workshop.watch(i).latest is not None for i in ids))
        start = taken()
        until(lambda: (taken() - start).mean() > 25)
        had = taken() - start
    finally:
        workshop.stop()
    assert 0.8 * had.mean() < had.min() and had.max() < 1.2 * had.mean()


@pytest.mark.parametrize("beside", ["a light run", "a heavy run", "a paused run"])
def test_a_heavy_run_rests_as_long_as_its_turns_where_a_light_one_plays(monkeypatch, beside):
    """Its single steps keep XLA's threads, which paint and train for everybody.

    One worker on a clock that only turns and waits move.
    """
    now, busy = [0.0], Counter()

    def advance(run):
        seconds = 0.1 if len(run.dataset) > 30 else 0.001
        now[0] += seconds
        busy["heavy" if seconds == 0.1 else "light"] += seconds
        shop._stopping = now[0] > 20.0

    def wait(seconds):
        now[0] += seconds

    monkeypatch.setattr(Run, "advance", advance)
    monkeypatch.setattr(Workshop, "_compile", lambda shop: None)
    monkeypatch.setattr(workshop_module, "step_seconds", lambda data, *_: len(data) / 1000)
    monkeypatch.setattr(workshop_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    shop = Workshop(workers=0, clock=lambda: now[0])
    other_rows = step_data(n=50 if beside == "a heavy run" else 4)
    for rows in (step_data(n=50), other_rows):
        run_id, _ = shop.start(rows, MODEL, TRAIN)
        ticket = shop._tickets[run_id]
        ticket.run.status, ticket.prepared = "ready", True
    if beside == "a paused run":
        ticket.run.pause()
    monkeypatch.setattr(shop._wake, "wait", wait)
    shop._work()
    share = busy["heavy"] / now[0]
    assert share == pytest.approx(0.5 if beside == "a light run" else 1.0, abs=0.02)
    assert (busy["light"] > 0.4 * now[0]) == (beside == "a light run")


def test_only_the_owner_controls_and_anybody_watches(workshop):
    run_id, owner = workshop.start(step_data(), MODEL, TRAIN)
    assert workshop.control(run_id, owner) is workshop.watch(run_id)
    with pytest.raises(WorkshopError, match="somebody else"):
        workshop.control(run_id, "a guess")
    with pytest.raises(WorkshopError, match="is over"):
        workshop.watch("no such run")
    other_id, other = workshop.start(step_data(), MODEL, TRAIN)
    assert len({run_id, owner, other_id, other}) == 4 and len(run_id) >= 20


def test_unwatched_runs_pause_then_go_and_a_reload_finds_them():
    now = [0.0]
    shop = Workshop(clock=lambda: now[0])
    try:
        run_id, _ = shop.start(step_data(), MODEL, TRAIN)
        run = shop.watch(run_id)
        until(lambda: run.latest is not None and run.latest.step > 0)
        now[0] += IDLE_SECONDS + 1
        until(lambda: not any(t.busy for t in shop._tickets.values()))
        paused_at = run.latest.step
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            assert run.latest.step == paused_at
        assert shop.watch(run_id) is run
        until(lambda: run.latest.step > paused_at)
        now[0] += GONE_SECONDS + 1
        until(lambda: not shop._tickets)
        with pytest.raises(WorkshopError, match="half an hour"):
            shop.watch(run_id)
    finally:
        shop.stop()


def test_a_full_workshop_queues_and_admits_in_order(workshop, monkeypatch):
    monkeypatch.setattr(workshop_module, "MOST_RUNS", 1)
    monkeypatch.setattr(workshop_module, "MOST_QUEUED", 2)
    first, owner = workshop.start(step_data(), MODEL, TRAIN)
    second, _ = workshop.start(step_data(), MODEL, TRAIN)
    third, _ = workshop.start(step_data(), MODEL, TRAIN)
    assert [workshop.place(i) for i in (first, second, third)] == [0, 1, 2]
    with pytest.raises(WorkshopError, match="waiting already"):
        workshop.start(step_data(), MODEL, TRAIN)
    workshop.drop(first, owner)
    assert [workshop.place(i) for i in (second, third)] == [0, 1]
    until(lambda: workshop.watch(second).latest is not None)
    assert workshop.watch(third).latest is None


def test_the_queue_says_where_one_stands_and_why(workshop, monkeypatch):
    monkeypatch.setattr(workshop_module, "MOST_RUNS", 1)
    first, _ = workshop.start(step_data(), MODEL, TRAIN)
    second, _ = workshop.start(step_data(), MODEL, TRAIN)
    assert workshop.queue_sentence(first) == ""
    assert "1 runs at once" in workshop.queue_sentence(second)
    assert "number 1 in the queue" in workshop.queue_sentence(second)


def test_a_run_knows_how_many_are_compiled_before_it(monkeypatch):
    go = threading.Event()
    monkeypatch.setattr(Run, "prepare", lambda run: go.wait(60) and setattr(run, "status", "ready"))
    shop = Workshop(workers=1)
    try:
        specs = [replace(OWN, inducing=M) for M in (3, 4, 5)]
        runs = [shop.start(step_data(), spec, TRAIN)[0] for spec in specs]
        until(lambda: shop._ticket(runs[0]).busy)
        assert [shop.compiling_place(run_id) for run_id in runs] == [0, 1, 2]
        go.set()
        until(lambda: all(shop.compiling_place(run_id) == 0 for run_id in runs))
    finally:
        go.set()
        shop.stop()


def test_seats_are_for_those_who_watch(monkeypatch):
    """Whoever left the queue is passed over; a run that nobody watches gives way, but stays."""
    monkeypatch.setattr(workshop_module, "MOST_RUNS", 1)
    now = [0.0]
    shop = Workshop(clock=lambda: now[0])
    try:
        first, _ = shop.start(step_data(), MODEL, TRAIN)
        left, _ = shop.start(step_data(), MODEL, TRAIN)
        now[0] += IDLE_SECONDS / 2
        third, _ = shop.start(step_data(), MODEL, TRAIN)
        shop.watch(first)
        assert shop.place(third) == 2
        now[0] += IDLE_SECONDS / 2 + 1
        assert shop.place(third) == 1
        now[0] += IDLE_SECONDS / 2
        until(lambda: shop.place(third) == 0)
        assert shop.place(left) == 1
        assert shop.watch(first) is not None and shop.place(first) == 0
    finally:
        shop.stop()


def test_a_model_too_large_for_the_server_is_met_with_the_way_on(workshop):
    with pytest.raises(WorkshopError, match="fewer inducing points"):
        workshop.start(step_data(), ModelSpec(layers=2, inducing=20_000), TRAIN)


def test_a_known_shape_does_not_wait_for_anothers_compilation(workshop, monkeypatch):
    known, _ = workshop.start(step_data(), MODEL, TRAIN)
    until(lambda: workshop.watch(known).latest is not None)
    release, prepare = threading.Event(), Run.prepare

    def slow(run):
        if run.model != MODEL:
            release.wait(60)
        prepare(run)

    monkeypatch.setattr(Run, "prepare", slow)
    stuck, _ = workshop.start(step_data(), replace(OWN, inducing=3), TRAIN)
    until(lambda: workshop._tickets[stuck].busy)
    quick, _ = workshop.start(step_data(1, n=39), MODEL, TrainSpec(**{**vars(TRAIN), "seed": 7}))
    try:
        until(lambda: workshop.watch(quick).latest is not None)
        assert workshop.watch(stuck).latest is None and not release.is_set()
    finally:
        release.set()


def test_any_depth_and_kernel_of_a_class_shares_its_programs(ready_run, monkeypatch):
    """Other rows, inducing points, layers, kernels, mean functions, batches, seeds and rates."""
    monkeypatch.setattr("dgp_core.training.programs.compile_program", None)
    own_steps = _chunk._cache_size()
    spec = TrainSpec(**{**vars(TRAIN), "seed": 3, "learning_rate": 0.002, "minibatch": 20})
    model = ModelSpec(3, 9, kernels=("rbf", "periodic", "matern32"), mean_function="zero")
    other = Run(step_data(5, n=71), model, spec)
    assert other.shape == ready_run.shape and other.programs == ready_run.programs
    other.prepare()
    other.advance()
    advanced(other, [3])
    assert other.status == "ready" and _chunk._cache_size() == own_steps


def test_compilers_stand_back_while_a_run_begins(workshop, monkeypatch):
    calls, release, prepare = [], threading.Event(), Run.prepare
    monkeypatch.setattr(Programs, "stand_back", lambda own, wanted: calls.append(wanted))

    def slow(run):
        release.wait(60)
        prepare(run)

    monkeypatch.setattr(Run, "prepare", slow)
    until(lambda: calls[-1:] == [False])
    run_id, _ = workshop.start(step_data(), MODEL, TRAIN)
    assert calls[-1]
    release.set()
    until(lambda: workshop.watch(run_id).latest is not None and not calls[-1])


@pytest.mark.parametrize(
    ("n", "turns", "then"),
    [(1, 0.8, 2), (1, 1.3, 1), (2, 1.1, 2), (2, 4, 1), (8, 0.1, 16), (8, 1, 8)],
)
def test_a_turn_has_as_many_steps_as_fit(n, turns, then):
    assert run_module._next_chunk(n, turns * run_module.TURN_SECONDS) == then


def test_two_runs_are_started_at_once(monkeypatch):
    shop, prepare, both = Workshop(workers=2), Run.prepare, threading.Barrier(2)
    monkeypatch.setattr(Workshop, "_at_once", lambda own, ticket: True)
    monkeypatch.setattr(Run, "prepare", lambda run: both.wait(120) in (0, 1) and prepare(run))
    try:
        runs = [shop.watch(shop.start(step_data(), MODEL, TRAIN)[0]) for _ in range(2)]
        until(lambda: all(run.latest is not None for run in runs))
    finally:
        both.abort()
        shop.stop()


def test_what_a_class_does_not_hold_has_programs_of_its_own():
    assert Run(step_data(), OWN, TRAIN).size is None
    assert Run(step_data(), MODEL, TRAIN, own_program=True).size is None
    shapes = {Run(step_data(n=n), OWN, TRAIN).shape for n in (39, 40, 41)}
    assert len(shapes) == 2  # 39 rows are padded to 40


def test_a_program_that_was_let_go_comes_back_the_same(ready_run, monkeypatch):
    ready_run.reset(seed=0)
    ready_run.advance()
    whole = advanced(ready_run, [30])
    ready_run.reset(seed=0)
    ready_run.advance()
    advanced(ready_run, [10])
    monkeypatch.setattr("dgp_core.training.programs.IDLE_SECONDS", -1.0)
    monkeypatch.setattr("dgp_core.training.programs.MOST_IDLE", 0)
    programs().tidy()
    assert not programs()._loaded and all(programs().known(p) for p in ready_run.programs)
    assert same(whole, advanced(ready_run, [20]))


def test_letting_compiled_programs_go_changes_no_number(monkeypatch):
    """A run that goes on after it, and another of its shape, compiled anew, say the same."""
    alone = Run(step_data(), OWN, TRAIN)
    alone.prepare()
    alone.advance()
    early, late = advanced(alone, [25]), advanced(alone, [35])
    assert all(leaf.base is None for leaf in jax.tree.leaves((late.deep, late.rival)))  # not JAX's
    cleared, clear = [], jax.clear_caches
    monkeypatch.setattr(workshop_module, "MOST_SHAPES", 1)
    monkeypatch.setattr(jax, "clear_caches", lambda: (cleared.append(len(shop._known)), clear()))
    shop = Workshop()

    def stepped(run_id: str, step: int) -> Run:
        """A run of the workshop, once it has played up to this step."""
        shop.watch(run_id).play_until(step)
        until(lambda: not shop.watch(run_id).playing)
        run = shop.watch(run_id)
        assert run.latest is not None and run.latest.step == step
        return run

    try:
        first, _ = shop.start(step_data(), OWN, TRAIN)
        assert same(early, stepped(first, 25).latest) and cleared == []
        other, _ = shop.start(step_data(), replace(OWN, layers=1, inducing=3), TRAIN)
        until(lambda: shop.watch(other).latest is not None)
        assert cleared == [1] and _chunk._cache_size() == 1
        run = stepped(first, 60)
        assert same(late, run.latest)
        again, _ = shop.start(step_data(), OWN, TRAIN)
        anew = stepped(again, 60)
        assert cleared == [1, 1] and same(late, anew.latest)
        trains_on = shop.watch(other)  # it did so while its program was let go
        step = trains_on.latest.step
        until(lambda: shop.watch(other).latest.step > step)
        assert trains_on.status == "ready"
        for before, after in zip(run.record(), anew.record(), strict=True):
            assert np.array_equal(before[0], after[0]) and np.array_equal(before[1], after[1])
    finally:
        shop.stop()


def test_data_too_large_for_a_live_run_are_met_with_the_way_on(workshop, monkeypatch):
    monkeypatch.setattr(workshop_module, "MOST_CELLS", 50)
    with pytest.raises(WorkshopError, match="python -m dgp_core fit"):
        workshop.start(step_data(), MODEL, TRAIN)


def moments_while(workshop: Workshop, run_id: str, going_on) -> list[float]:
    """When a run published moments while something went on, from its begin to its end.

    In seconds of this process's own work, on all cores: other processes do not count.
    """
    last, times = workshop.watch(run_id).latest.step, [time.process_time()]
    while going_on():
        step = workshop.watch(run_id).latest.step
        if step != last:
            last = step
            times.append(time.process_time())
        time.sleep(0.002)
    return [*times, time.process_time()]


def test_training_goes_on_while_another_model_is_compiled(workshop):
    run_id, _ = workshop.start(step_data(), MODEL, TRAIN)
    until(lambda: workshop.watch(run_id).latest is not None)
    with without_cache():
        other, _ = workshop.start(step_data(), replace(OWN, inducing=9), TRAIN)
        new = workshop.watch(other)
        assert new.status == "compiling"
        times = moments_while(workshop, run_id, lambda: new.status == "compiling")
    assert len(times) > 10
    assert np.diff(times).max() < (times[-1] - times[0]) / 3  # never held up by the whole of it


def process_bytes() -> int:
    """What this process holds in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_memory_is_flat_over_two_hundred_runs(workshop):
    """Each run trains, is looked at, and holds megabytes of rows: a few that stayed would show."""
    sizes, dropped = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        X, Y = rng.standard_normal((2, 100_000, 1))
        spec = TrainSpec(**{**vars(TRAIN), "minibatch": 8, "seed": seed})
        model = ModelSpec(layers=1, inducing=3)
        run_id, owner = workshop.start(Dataset("long", X, Y, ("x",), ("y",)), model, spec)
        run = workshop.watch(run_id)
        until(lambda run=run: run.latest is not None and run.latest.step > 0)
        views_1d.view_1d(run, run.latest)
        dropped.append(weakref.ref(run))
        workshop.drop(run_id, owner)
        del run, X, Y
        if seed % 50 == 49:
            gc.collect()
            sizes.append(process_bytes())
    until(lambda: gc.collect() >= 0 and not any(run() for run in dropped))
    assert sizes[-1] - sizes[0] < 60 * 2**20, sizes


def test_every_thread_ends():
    before = set(threading.enumerate())
    shop = Workshop()
    shop.start(step_data(), MODEL, TRAIN)
    shop.stop()
    assert set(threading.enumerate()) <= before
    with pytest.raises(WorkshopError, match="shutting down"):
        shop.start(step_data(), MODEL, TRAIN)
    shop.stop()


def test_a_process_that_trains_ends_in_good_order():
    """No crash of a thread that is still in compiled code when the interpreter goes."""
    program = """
import atexit, time
import numpy as np
from dgp_core.gp.data import Dataset
from dgp_core.live.workshop import Workshop
from dgp_core.gp.model import ModelSpec
from dgp_core.training.train import TrainSpec, _chunk
X = np.linspace(-1, 1, 8)[:, None]
shop = Workshop()
atexit.register(shop.stop)
spec = TrainSpec(steps=10**6, minibatch=None)
run_id, _ = shop.start(
    Dataset("line", X, X, ("x",), ("y",)), ModelSpec(layers=1, inducing=2), spec
)
while shop.watch(run_id).latest is None or shop.watch(run_id).latest.step == 0:
    time.sleep(0.01)
"""
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_slow_motion_takes_its_time(ready_run):
    ready_run.reset()
    ready_run.advance()
    ready_run.set_speed(10.0)
    ready_run.play()
    began = time.monotonic()
    ready_run.advance()
    assert ready_run.latest.step == 1
    assert ready_run.due() >= began + 0.1
    assert not ready_run.wants_turn(began + 0.09) and ready_run.wants_turn(ready_run.due())
    ready_run.set_speed(1.0)
    assert ready_run.wants_turn(time.monotonic())
    ready_run.set_speed(None)
    with pytest.raises(ValueError, match="Slow motion"):
        ready_run.set_speed(0.0)


def test_thinning_keeps_both_ends_and_early_moments():
    class Moment:
        def __init__(self, step):
            self.step = step

    history = [Moment(i) for i in range(1000)]
    thin(history, 50)  # pyright: ignore[reportArgumentType]
    steps = [m.step for m in history]
    assert len(steps) == 50 and steps[0] == 0 and steps[-1] == 999 and steps == sorted(steps)
    assert steps[:5] == [0, 1, 2, 3, 4] and np.max(np.diff(steps)) > 20


def test_the_record_is_whole():
    record = BoundRecord(2)
    record.append(Bound(np.arange(3.0), np.ones((3, 2))))  # pyright: ignore[reportArgumentType]
    record.append(Bound(np.arange(2.0), np.zeros((2, 2))))  # pyright: ignore[reportArgumentType]
    fit, kl = record.arrays()
    assert fit.tolist() == [0, 1, 2, 0, 1] and kl.shape == (5, 2)
    assert record.latest(3).tolist() == [0.0, 0.0, 1.0]
