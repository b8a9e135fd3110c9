"""Trials in the background: what is scored on which rows, how they stop, and that nothing stays."""

import contextlib
import gc
import logging
import threading
import time
import weakref
from dataclasses import replace
from functools import partial

import jax
import numpy as np
import pytest

from dgp_core.evaluation.comparison import score
from dgp_core.evaluation.forecast import deep_predictor
from dgp_core.gp.data import Dataset, split
from dgp_core.gp.model import ModelSpec
from dgp_core.live import trial as trial_module
from dgp_core.live.run import Run
from dgp_core.live.trial import Trial, fold_parts, main_part, pairs
from dgp_core.live.workshop import GONE_SECONDS, IDLE_SECONDS, Workshop, WorkshopError
from dgp_core.training import train as train_module
from dgp_core.training.train import TrainSpec

pytestmark = pytest.mark.usefixtures("quick_compilation", "what_is_compiled_stays")

MODEL = ModelSpec(layers=2, inducing=6)
TRAIN = TrainSpec(steps=15, minibatch=None)
SIZE = 0.66
"""A main split of the size of three folds, so that little compiles."""


def make(n=61, seed=0, **changes):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    Y = np.sin(2 * X[:, :1]) + 0.1 * rng.standard_normal((n, 1))
    return Dataset(
        **{**dict(name="made", X=X, Y=Y, input_names=("a", "b"), output_names=("y",)), **changes}
    )


@pytest.fixture
def workshop():
    workshop = Workshop(workers=1)
    yield workshop
    workshop.stop()


@pytest.fixture
def compiled():
    """Names of programs, as they are compiled in any thread."""
    names: list[str] = []

    class Names(logging.Handler):
        def emit(self, record):
            if record.getMessage().startswith("Compiling "):
                names.append(record.getMessage().split()[1])

    handler, logger = Names(), logging.getLogger("jax")
    logger.addHandler(handler)
    jax.config.update("jax_log_compiles", True)
    yield names
    jax.config.update("jax_log_compiles", False)
    logger.removeHandler(handler)


def wait(trial, until, seconds=300):
    """Watches a trial until something is so."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, (trial.status, trial.progress(), trial.failures())
        trial.watch()
        time.sleep(0.01)


def at_rest(run, seconds=60):
    """Waits until a run has taken no step for a while; returns where it stands."""
    end, since, step = time.monotonic() + seconds, time.monotonic(), run.latest.step
    while time.monotonic() < since + 0.3:
        assert time.monotonic() < end
        if run.latest.step != step:
            since, step = time.monotonic(), run.latest.step
        time.sleep(0.02)
    return step


def test_folds_hold_every_row_out_once_and_train_on_equally_many():
    dataset = make(61)
    parts = fold_parts(dataset, 5, seed=0)
    assert sorted(np.concatenate([p.held for p in parts])) == list(range(61))
    assert {len(p.train) for p in parts} == {61 - 13}
    assert all(not set(p.train) & set(p.held) for p in parts)
    assert {len(p.held) for p in parts} == {12, 13}


def test_folds_have_their_share_of_every_class():
    y = np.repeat([0.0, 1.0], [40, 10])[:, None]
    dataset = make(50, Y=y, task="binary", classes=("no", "yes"))
    for part in fold_parts(dataset, 5, seed=3):
        assert dataset.Y[part.held].sum() == 2


def test_what_was_compiled_for_a_fit_may_go_with_its_end(monkeypatch, workshop):
    over = []
    monkeypatch.setattr(Workshop, "lighten", lambda shop: over.append(shop))
    trial = Trial(workshop, make(), {}, TRAIN)
    wait(trial, lambda: over)
    assert over == [workshop] and trial.status == "finished"
    trial.close()


@pytest.mark.parametrize(
    ("steps", "inducing", "folds", "own"),
    [(4000, 50, 0, False), (4000, 50, 5, True), (4000, 8, 0, False), (20, 50, 5, False)],
)
def test_a_long_fit_has_programs_of_its_own(monkeypatch, workshop, steps, inducing, folds, own):
    asked = []
    start = Workshop.start

    def noted(shop, *args, own_program=False, **options):
        asked.append(own_program)
        return start(shop, *args, **options)

    monkeypatch.setattr(Workshop, "start", noted)
    monkeypatch.setattr(Run, "prepare", lambda run: None)
    spec, train = ModelSpec(inducing=inducing), TrainSpec(steps=steps, minibatch=None)
    trial = Trial(workshop, make(), {"deep": spec}, train, folds, linear=False)
    wait(trial, lambda: asked)
    trial.close()
    assert asked == [own]


def test_the_main_part_is_the_split(rng):
    dataset = make(50)
    part = main_part(dataset, 0.9, seed=4)
    train, held = split(dataset, 0.9, seed=4)
    np.testing.assert_array_equal(dataset.X[part.train], train.X)
    np.testing.assert_array_equal(dataset.X[part.held], held.X)


@pytest.mark.parametrize("folds", [2, 21, 11])
def test_too_few_or_too_many_folds_are_refused(folds):
    with pytest.raises(ValueError, match="choose 3 to 10"):
        fold_parts(make(10), folds, seed=0)


def test_a_contender_that_is_anothers_rival_is_not_trained_twice():
    sgp, wide = ModelSpec(layers=1, inducing=6), ModelSpec(layers=1, inducing=30)
    deep = ModelSpec(layers=3, inducing=6)
    found = pairs({"linear 2": sgp, "wide": wide, "deep": MODEL, "deeper": deep}, None)
    assert [(p.deep, p.rival) for p in found] == [
        ("deep", "linear 2"),
        ("deeper", None),
        ("wide", None),
    ]
    (alone,) = pairs({"deep": MODEL}, "single")
    assert (alone.deep, alone.rival) == ("deep", "single")
    (one_layer,) = pairs({"single": sgp}, "single")
    assert (one_layer.deep, one_layer.rival) == ("single", None)


def test_a_trial_scores_the_main_split_and_every_fold(workshop, monkeypatch):
    dataset, at_ends, release = make(40), [], Trial._release

    def seen(trial, *cost):
        at_ends.append(trial.progress().fraction)
        release(trial, *cost)

    monkeypatch.setattr(Trial, "_release", seen)
    trial = Trial(workshop, dataset, {"deep": MODEL}, TRAIN, folds=3, fraction=SIZE)
    wait(trial, lambda: any(card.model == "deep" for card in trial.cards()))
    compiled = train_module._chunk._cache_size()
    fractions = []

    def over():
        fractions.append(trial.progress().fraction)
        return trial.status == "finished"

    wait(trial, over)
    # The folds' runs share one compilation.
    assert train_module._chunk._cache_size() == compiled
    assert trial.failures() == ()
    # A run at its end counts once.
    assert at_ends == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1], abs=0.01)
    assert all(0 <= f <= 1 for f in fractions) and np.all(np.diff(fractions) > -1e-9)
    found = {(card.model, card.fold) for card in trial.cards()}
    models = ("deep", "single", "linear", "exact")
    assert found == {(model, fold) for model in models for fold in range(4)}
    held = [c.rows for c in trial.cards() if c.model == "deep" and c.fold > 0]
    assert sorted(np.concatenate(held)) == list(range(40))
    # Of the runs, only the main one is left; it is the model that was scored.
    assert sum(workshop.counts().values()) == 1
    run, part = trial.runs()["single"]
    assert part == "rival" and run is workshop.watch(trial.main_id)
    again = score(
        "single",
        deep_predictor(run.latest.rival, run.scaler),
        dataset.take(trial.held_rows),
        n_train=26,
    )
    card = next(c for c in trial.cards() if (c.model, c.fold) == ("single", 0))
    np.testing.assert_array_equal(card.forecast.log_density, again.forecast.log_density)
    assert card.seconds_per_step > 0 and card.seconds == pytest.approx(15 * card.seconds_per_step)
    assert trial.verdict().comparisons[0].n_folds == 3
    assert trial.table()["deep"]["rmse"].n == 3
    trial.close()
    assert workshop.counts() == {} and trial.cards() == () and trial.status == "closed"


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [("step", "The deep model is better:"), ("line", "no difference beyond noise")],
)
def test_a_jump_gets_better_and_a_straight_line_the_honest_verdict(workshop, shape, sentence):
    rng = np.random.default_rng(3)
    x, noise = rng.uniform(-2, 2, (160, 1)), rng.standard_normal((160, 1))
    y = np.where(x > 0, 1.0, -1.0) + 0.05 * noise if shape == "step" else 0.5 * x + 0.2 * noise
    dataset, model = Dataset(shape, x, y, ("x",), ("y",)), ModelSpec(layers=2, inducing=15)
    train = TrainSpec(steps=500, minibatch=None)
    trial = Trial(workshop, dataset, {"deep": model}, train, folds=10, main=False)
    wait(trial, lambda: trial.status == "finished")
    assert trial.failures() == () and sentence in trial.verdict().sentence
    trial.close()


def test_a_second_fold_and_its_scoring_compile_nothing(workshop, compiled):
    # The folds hold 17, 16 and 16 rows out, and blocks of 16 and of 32 rows are two programs.
    trial = Trial(workshop, make(49), {"deep": MODEL}, TRAIN, folds=3, main=False)
    assert [len(part.held) for part in trial._parts] == [17, 16, 16]
    wait(trial, lambda: trial._unscored == 2)
    first = list(compiled)
    assert first
    wait(trial, lambda: trial.status == "finished")
    assert compiled == first and trial.failures() == ()
    (card,) = (c for c in trial.cards() if (c.model, c.fold) == ("deep", 2))
    assert len(card.rows) == len(card.forecast.log_density) == len(card.forecast.pit) == 16
    trial.close()


def test_every_second_of_a_trial_is_booked_on_the_phase_that_it_was_in(workshop):
    """Runs and scoring change under a clock that only the test moves."""
    now = [0.0]
    trial = Trial(
        workshop,
        make(40),
        {"deep": MODEL},
        TRAIN,
        fraction=SIZE,
        exact=False,
        clock=lambda: now[0],
    )
    wait(trial, lambda: trial.status == "finished")
    trial._over = False  # as if it had just begun
    trial._place = "Main fit"

    class FakeRun:
        status, playing, latest = "waiting", True, None

    run = trial._run_now = FakeRun()
    trial._done = 0.0

    def passes(seconds, **state):
        """What is said right after a change, and so many seconds later."""
        for name, value in state.items():
            setattr(run, name, value)
        trial.watch()
        before = trial.progress()
        now[0] += seconds
        trial.watch()
        after = trial.progress()
        assert before.phase == after.phase and after.seconds - before.seconds == seconds
        return after

    assert passes(3).phase == "waiting"
    assert passes(4, status="compiling").phase == "compiling"
    assert passes(2, status="ready").phase == "waiting"  # for its first turn
    learning = passes(12, latest=workshop.watch(trial.main_id).latest)
    assert learning.phase == "training" and learning.seconds == 12
    assert passes(50, playing=False).phase == "paused"
    assert passes(5, playing=True).phase == "training"
    trial._cost_now = trial._total
    run.status = "finished"
    with trial._judging("deep"):
        scoring = passes(6)
    assert scoring.phase == "scoring" and scoring.sentence == "Main fit: scoring deep."
    assert scoring.training_left == 0 and scoring.fraction == 1
    assert scoring.spent == {"waiting": 5, "compiling": 4, "training": 17, "scoring": 6}
    trial._over = True
    trial._note()
    now[0] += 100
    assert trial.progress().spent == scoring.spent
    trial.close()


def test_a_run_that_ended_early_has_no_training_left_while_it_is_scored(workshop, monkeypatch):
    said, scored = [], Trial._score

    def seen(trial, *args):
        run = trial._run_now
        run._latest = replace(run.latest, step=7)  # as if its bounds had levelled off there
        with trial._judging("deep and single"):
            said.append(trial.progress())
        scored(trial, *args)

    monkeypatch.setattr(Trial, "_score", seen)
    trial = Trial(workshop, make(40), {"deep": MODEL}, TRAIN, folds=3, fraction=SIZE, exact=False)
    wait(trial, lambda: trial.status == "finished")
    assert [p.phase for p in said] == ["scoring"] * 4
    assert [p.fraction for p in said] == pytest.approx([1 / 4, 2 / 4, 3 / 4, 1], abs=0.01)
    assert all("step" not in p.sentence for p in said)
    assert said[-1].training_left == pytest.approx(0, abs=1e-9)
    # What scoring takes is known by a fold for which nothing was compiled.
    assert [p.scoring_left is None for p in said] == [True, True, True, False]
    trial.close()


def test_trials_are_scored_in_the_order_of_asking_and_say_how_many_come_before(workshop):
    first, second, third = (
        Trial(workshop, make(40), {"deep": MODEL}, TRAIN, fraction=SIZE, exact=False, linear=False)
        for _ in range(3)
    )
    for trial in (first, second, third):
        wait(trial, lambda trial=trial: trial.status == "finished")
        trial._over = False
    order, begin = [], threading.Event()

    def score(trial):
        ended = contextlib.suppress(trial_module._Ended)
        with ended, trial._judging("deep"), trial_module._scoring.turn(trial):
            order.append(trial)
            begin.wait(60)

    threads = []
    for i, trial in enumerate((first, second, third)):
        threads.append(threading.Thread(target=score, args=(trial,)))
        threads[-1].start()
        wait(trial, lambda i=i: len(trial_module._scoring._line) == i + 1)
    assert first.progress().phase == "scoring"
    for trial, others in ((second, "another fit is"), (third, "2 other fits are")):
        assert trial.progress().phase == "waiting"
        assert f"waiting to score deep: {others} scored first" in trial.progress().sentence
    second.close()  # it leaves the line
    threads[1].join(60)
    assert "another fit is" in third.progress().sentence
    begin.set()
    for thread in threads:
        thread.join(60)
    assert order == [first, third] and trial_module._scoring._line == []
    first.close()
    third.close()


def test_a_run_that_waits_says_for_what_and_at_which_place(workshop, monkeypatch):
    trial = Trial(workshop, make(40), {"deep": MODEL}, TRAIN, fraction=SIZE, exact=False)
    wait(trial, lambda: trial.status == "finished")
    place, before = [3], [0]
    monkeypatch.setattr(workshop, "place", lambda run_id: place[0])
    monkeypatch.setattr(workshop, "compiling_place", lambda run_id: before[0])
    said = partial(trial._waits_for, trial.main_id)
    assert "is full. This run is number 3 in the queue" in said()
    place[0], before[0] = 0, 2
    assert said() == "waiting until 2 other models that came before it are compiled"
    before[0] = 0
    assert said() == "about to start"
    monkeypatch.undo()
    trial.close()


def test_a_play_while_a_run_is_started_is_not_undone(workshop, monkeypatch):
    start = workshop.start

    def stopped_and_on(*args, **options):
        trial.pause()
        found = start(*args, **options)
        trial.play()
        return found

    trial = Trial(workshop, make(40), {"deep": MODEL}, TRAIN, folds=3, main=False, exact=False)
    monkeypatch.setattr(workshop, "start", stopped_and_on)
    wait(trial, lambda: trial.status == "finished")
    trial.close()


def test_a_fold_is_the_run_that_anybody_would_train(workshop):
    dataset = make(40)
    trial = Trial(workshop, dataset, {"deep": MODEL}, TRAIN, folds=3, main=False, exact=False)
    wait(trial, lambda: trial.status == "finished")
    part = fold_parts(dataset, 3, TRAIN.seed)[1]
    run = Run(dataset.take(part.train), MODEL, TRAIN)
    run.prepare()
    while run.status == "ready":
        run.advance()
    alone = deep_predictor(run.latest.deep, run.scaler)(dataset.take(part.held))
    (card,) = [c for c in trial.cards() if (c.model, c.fold) == ("deep", 2)]
    np.testing.assert_array_equal(card.forecast.log_density, alone.log_density)
    trial.close()


def test_a_paused_main_fit_is_scored_as_it_is_and_goes_on(workshop):
    long = TrainSpec(steps=100_000, minibatch=None)
    trial = Trial(workshop, make(40), {"deep": MODEL}, long, fraction=SIZE, exact=False)
    run = workshop.watch(trial.main_id)
    wait(trial, lambda: run.latest is not None and run.latest.step > 0)
    trial.pause()
    wait(trial, lambda: trial.verdict() is not None)
    wait(trial, lambda: trial.status == "paused")
    step = run.latest.step
    trial.play()
    wait(trial, lambda: run.latest.step > step)
    assert trial.status == "training" and trial.progress().fraction < 1
    trial.close()


def test_a_pause_while_a_run_is_started_holds_that_run_too(workshop, monkeypatch):
    start = workshop.start

    def stopped_meanwhile(*args, **options):
        found = start(*args, **options)
        trial.pause()
        return found

    trial = Trial(workshop, make(40), {"deep": MODEL}, TRAIN, folds=3, main=False, exact=False)
    first = trial._active
    monkeypatch.setattr(workshop, "start", stopped_meanwhile)
    wait(trial, lambda: trial._active not in (first, None))
    wait(trial, lambda: trial.status == "paused")
    assert not workshop.watch(trial._active).playing
    trial.close()


def test_folds_can_be_asked_for_later(workshop):
    trial = Trial(workshop, make(40), {"deep": MODEL}, TRAIN, fraction=SIZE, exact=False)
    with pytest.raises(ValueError, match="still at work"):
        trial.cross_validate(3)
    wait(trial, lambda: trial.status == "finished")
    assert {card.fold for card in trial.cards()} == {0}
    trial.cross_validate(3)
    wait(trial, lambda: trial.status == "finished")
    assert {card.fold for card in trial.cards()} == {0, 1, 2, 3}
    trial.close()


def test_a_fold_that_fails_says_why_and_the_others_go_on(workshop, monkeypatch):
    advance = Run.advance
    unlucky = []

    def sometimes(run):
        if len(unlucky) < 2 and not any(run is one for one in unlucky):
            unlucky.append(run)
        if any(run is one for one in unlucky):  # it may be asked again before its end is seen
            run.status, run.reason = "failed", "This fold was unlucky."
        else:
            advance(run)

    dataset = make(40)
    monkeypatch.setattr(Run, "advance", sometimes)
    trial = Trial(workshop, dataset, {"deep": MODEL}, TRAIN, folds=3, main=False, exact=False)
    wait(trial, lambda: trial.status in ("finished", "failed"))
    assert trial.status == "finished"
    assert [("unlucky" in s, s.split(":")[0]) for s in trial.failures()] == [
        (True, "Fold 1 of 3"),
        (True, "Fold 2 of 3"),
    ]
    assert {c.fold for c in trial.cards() if c.model == "deep"} == {3}
    trial.close()


def test_nobody_watching_pauses_and_then_ends_a_trial(monkeypatch):
    now, looks = [0.0], []
    workshop = Workshop(workers=1, clock=lambda: now[0])
    try:
        long = TrainSpec(steps=100_000, minibatch=None)
        trial = Trial(
            workshop,
            make(40),
            {"deep": MODEL},
            long,
            fraction=SIZE,
            exact=False,
            clock=lambda: now[0],
        )
        run, check = workshop.watch(trial.main_id), trial._check
        monkeypatch.setattr(trial, "_check", lambda: (looks.append(now[0]), check()))
        wait(trial, lambda: trial._worked > 0)
        now[0] += IDLE_SECONDS + 1
        step = at_rest(run)
        end = time.monotonic() + 60
        while looks[-2:] != [now[0]] * 2:  # its thread has seen that nobody watches
            assert time.monotonic() < end
            time.sleep(0.01)
        trial.watch()
        worked = trial._worked
        wait(trial, lambda: run.latest.step > step and trial._worked > worked)
        # The clock stood still while it was watched: the time alone is no time at work.
        assert trial.progress().training_left == 0
        now[0] += GONE_SECONDS + 1
        trial._thread.join(300)
        assert not trial._thread.is_alive() and trial.status == "closed"
        assert workshop.counts() == {}
    finally:
        workshop.stop()


def test_the_thread_ends_with_the_workshop():
    workshop = Workshop(workers=1)
    long = TrainSpec(steps=100_000, minibatch=None)
    trial = Trial(workshop, make(40), {"deep": MODEL}, long, fraction=SIZE, exact=False)
    workshop.stop()
    trial._thread.join(300)
    assert not trial._thread.is_alive() and trial.status == "closed"


def test_nothing_of_the_data_outlives_a_trial(workshop):
    dataset = make(40)
    trial = Trial(workshop, dataset, {"deep": MODEL}, TRAIN, fraction=SIZE, exact=False)
    wait(trial, lambda: trial.status == "finished")
    run = weakref.ref(workshop.watch(trial.main_id))
    rows = weakref.ref(dataset)
    trial.close()
    trial._thread.join(300)
    del dataset
    end = time.monotonic() + 60  # a worker may still be looking at the run
    while (run() is not None or rows() is not None) and time.monotonic() < end:
        workshop.wake()
        gc.collect()
        time.sleep(0.05)
    assert run() is None and rows() is None


def test_what_the_workshop_will_not_do_is_heard_at_once(workshop, monkeypatch):
    monkeypatch.setattr("dgp_core.live.workshop.MOST_CELLS", 10)
    with pytest.raises(WorkshopError, match="cells"):
        Trial(workshop, make(40), {"deep": MODEL}, TRAIN)


def test_folds_of_very_large_data_are_refused(workshop, monkeypatch):
    monkeypatch.setattr(trial_module, "MOST_FOLD_CELLS", 10)
    with pytest.raises(ValueError, match="one split holds out enough"):
        Trial(workshop, make(40), {"deep": MODEL}, TRAIN, folds=3)
