"""Starts that go wrong: only what is wrong with them differs from a good start."""

import jax
import numpy as np
import pytest

from datasets import catalogue
from dgp_core.gp.model import ModelSpec
from dgp_core.live.poor_starts import SPREAD, random_inducing, unscaled
from dgp_core.live.run import Run
from dgp_core.live.views.playground import View1D, view
from dgp_core.training.train import TrainSpec

pytestmark = pytest.mark.usefixtures("quick_compilation")

MODEL = ModelSpec(layers=2, inducing=8)
TRAIN = TrainSpec(steps=50, minibatch=None, decay=False)


@pytest.fixture(scope="module")
def data():
    return catalogue.load("arm", n=60)


def start_of(run: Run):
    run.advance()
    assert run.latest is not None and run.latest.step == 0
    return run.latest.deep


def test_random_inducing_inputs_are_anywhere_and_all_else_is_the_same(data):
    usual = start_of(Run(data, MODEL, TRAIN))
    poor = start_of(Run(data, MODEL, TRAIN, random_inducing(data, MODEL, TRAIN)))
    for good, bad in zip(usual.layers, poor.layers, strict=True):
        assert bad.inducing.shape == good.inducing.shape
        assert abs(np.std(bad.inducing) - SPREAD) < 0.5 and np.std(good.inducing) < 1.5
        same = [jax.tree.leaves(layer) for layer in (good, bad)]
        differing = [not np.array_equal(a, b) for a, b in zip(*same, strict=True)]
        assert sum(differing) == 1
    again = random_inducing(data, MODEL, TRAIN)
    assert np.array_equal(poor.layers[0].inducing, again.state.model.layers[0].inducing)


def test_unscaled_rows_keep_their_units(data):
    saved = unscaled(data, MODEL, TRAIN)
    run = Run(data, MODEL, TRAIN, saved)
    standard = run.scaler(data)
    assert np.array_equal(standard.X, data.X) and np.array_equal(standard.Y, data.Y)
    model = start_of(run)
    inside = (model.layers[0].inducing >= data.X.min(0)) & (
        model.layers[0].inducing <= data.X.max(0)
    )
    assert inside.all()


def test_a_run_of_such_a_start_trains(data):
    run = Run(data, MODEL, TRAIN, random_inducing(data, MODEL, TRAIN))
    start_of(run)
    run.step(5)
    run.advance()
    assert run.latest is not None and run.latest.step == 5
    assert np.isfinite(run.latest.deep_bound.value) and np.isfinite(run.latest.rival_bound.value)


def test_a_model_in_single_precision_is_drawn_in_double():
    toy = catalogue.load("step", n=20)
    spec = ModelSpec(layers=2, inducing=5, precision="float32")
    run = Run(toy, spec, TRAIN)
    start_of(run)
    assert run.latest is not None
    seen = view(run, run.latest)
    assert isinstance(seen, View1D)
    assert np.isfinite(seen.deep.mean).all() and np.isfinite(seen.layers[0].samples).all()
