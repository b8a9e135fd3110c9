"""Layers in depth: units, maps, time, and what is left when one is taken away."""

import gc
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dgp_core.gp.layers import conditional, factorise, kl_from_prior
from dgp_core.gp.model import JITTER, DeepGP, ModelSpec, bound
from dgp_core.gp.predict import predict_latent
from dgp_core.live.views import layers as module
from dgp_core.live.views.layers import (
    layer_history,
    layers_in_depth,
    thinned,
    without_layers,
)
from tests.live.views.test_mixture import curve, moment

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def two(quick_compilation):
    return moment(curve(), ModelSpec(layers=2, inducing=7))


def test_layers_are_in_the_users_units_at_both_ends(two):
    run, snapshot = two
    first, last = layers_in_depth(run, snapshot)
    assert layers_in_depth(run, snapshot)[0] is first
    assert (first.title, last.title, first.last, last.last) == (
        "layer 1 of 2",
        "layer 2 of 2",
        False,
        True,
    )
    assert (first.names_in, first.names_out) == (("t0",), ("output 1 of layer 1",))
    assert (last.names_in, last.names_out) == (("output 1 of layer 1",), ("y",))
    x, (S, G) = first.x, (8, 120)
    assert x is not None and x.min() < run.dataset.X[:, 1].min()
    np.testing.assert_allclose(first.entering, np.broadcast_to(x[:, None], (S, G, 1)))
    np.testing.assert_array_equal(first.leaving, last.entering)
    assert first.inducing.min() > 5 and last.leaving.mean() > 100
    assert first.map_x.shape == (1, G) and first.map_mean.shape == (1, G, 1)


@pytest.mark.parametrize("l", [0, 1])
def test_a_layers_map_is_its_conditional(two, l):
    run, snapshot = two
    depth, layer = layers_in_depth(run, snapshot)[l], snapshot.deep.layers[l]
    scale, shift = (run.scaler.x_scale[1], run.scaler.x_mean[1]) if l == 0 else (1.0, 0.0)
    q = conditional(factorise(layer, JITTER), jnp.asarray((depth.map_x.T - shift) / scale))
    out, base = (run.scaler.y_scale[0], run.scaler.y_mean[0]) if l == 1 else (1.0, 0.0)
    np.testing.assert_allclose(depth.map_mean[0], q.mean * out + base, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(depth.map_sd[0], np.sqrt(q.variance) * out, rtol=1e-4)
    # q(u) lies on the map where Z is: with noise and jitter small its mean is the map's.
    at_z = conditional(factorise(layer, JITTER), jnp.asarray(layer.inducing)).mean
    np.testing.assert_allclose(
        depth.u_mean, np.asarray(at_z) * out + base, rtol=0.05, atol=0.05 * out
    )
    assert depth.kl == pytest.approx(float(kl_from_prior(layer)))


def test_with_more_inputs_every_input_and_output_has_its_map():
    run, snapshot = moment(curve(n_inputs=3), ModelSpec(layers=2, inducing=7, widths=2))
    first, last = layers_in_depth(run, snapshot, n_grid=30)
    assert first.x is None and first.names_in == ("t0", "t1", "t2")
    assert first.map_x.shape == (3, 30) and first.map_mean.shape == (3, 30, 2)
    assert first.entering.shape == (8, 40, 3) and last.map_mean.shape == (2, 30, 1)
    middle = np.median(first.entering.reshape(-1, 3), 0)
    place = np.tile(middle, (30, 1))
    place[:, 1] = first.map_x[1]
    X = (place - run.scaler.x_mean[1:]) / run.scaler.x_scale[1:]
    q = conditional(factorise(snapshot.deep.layers[0], JITTER), jnp.asarray(X))
    np.testing.assert_allclose(first.map_mean[1], q.mean, rtol=1e-6, atol=1e-8)


def test_a_model_that_sees_its_inputs_again_names_them():
    spec = ModelSpec(layers=2, inducing=6, mean_function="concatenate", likelihood="softmax")
    run, snapshot = moment(curve("multiclass"), spec)
    first, last = layers_in_depth(run, snapshot, n_grid=20)
    assert last.names_in == ("output 1 of layer 1", "t0 (standard units)")
    assert last.names_out == ("f of a", "f of b", "f of c")
    assert first.map_mean.shape == (1, 20, 1) and last.map_mean.shape == (2, 20, 3)
    answer = without_layers(run, snapshot)
    assert answer.x is None and answer.without[0].mean is None
    assert np.isfinite(answer.without[0].bound)


def single(model: DeepGP) -> DeepGP:
    """The last layer alone."""
    return jax.tree.map(jnp.asarray, replace(model, layers=model.layers[-1:]))


def test_without_its_first_layer_a_model_of_two_is_its_last_layer_alone(two):
    """Where the mean function is the identity: the single layer's bound is exact."""
    run, snapshot = two
    answer = without_layers(run, snapshot)
    (without,) = answer.without
    data = run.scaler(run.dataset)
    X, Y = jnp.asarray(data.X), jnp.asarray(data.Y)
    expected = bound(single(snapshot.deep), X, Y, jax.random.key(0), len(data))
    assert without.layer == 0
    assert without.fit == pytest.approx(float(expected.fit), rel=1e-8)
    assert without.bound == pytest.approx(float(expected.value), rel=1e-8)
    assert without.kl == pytest.approx(float(kl_from_prior(snapshot.deep.layers[0])))
    assert without.change == pytest.approx(without.bound - answer.bound)

    model = jax.tree.map(jnp.asarray, snapshot.deep)
    whole = bound(model, X, Y, jax.random.key(3), len(data), 200)
    error = without.change_error  # of the whole bound too: the other side has no noise
    assert error > 0 and abs(answer.bound - float(whole.value)) < 5 * error

    assert answer.x is not None and without.mean is not None
    rows = np.stack([np.full(120, 7.0), answer.x], 1)
    q = predict_latent(single(snapshot.deep), run.scaler.inputs(rows), jax.random.key(0), 1)
    y = q.affine(run.scaler.y_scale, run.scaler.y_mean)
    np.testing.assert_allclose(without.mean, y.mean[:, 0], rtol=1e-8)
    low, high = y.quantile(np.array([0.025, 0.975]))[:, :, 0]
    np.testing.assert_allclose(without.low, low, rtol=1e-8)
    np.testing.assert_allclose(without.high, high, rtol=1e-8)


def test_a_layer_that_adds_nothing_is_not_missed():
    """Departure 0, no variance and q = p: the bound without it is the bound with it."""
    run, snapshot = moment(curve(), ModelSpec(layers=3, inducing=6))
    idle = snapshot.deep.layers[1]
    idle = replace(
        idle,
        kernel=replace(idle.kernel, log_variance=np.asarray(-40.0)),
        q_mean=np.zeros_like(idle.q_mean),
        q_factor=np.eye(6)[None],
        log_noise=np.asarray(-40.0),
    )
    first, _, last = snapshot.deep.layers
    deep = replace(snapshot.deep, layers=(first, idle, last))
    answer = without_layers(run, replace(snapshot, deep=deep))
    missed, idle = answer.without
    assert idle.kl == pytest.approx(0.0, abs=1e-9)
    assert idle.bound == pytest.approx(answer.bound, rel=1e-3)
    assert abs(idle.change) < 0.02 * abs(missed.change)
    scale = answer.high - answer.low
    assert (np.abs(idle.mean - answer.mean) / scale).max() < 1e-2
    assert (np.abs(missed.mean - answer.mean) / scale).max() > 0.1


def test_a_mean_of_zero_lets_nothing_through():
    spec = ModelSpec(layers=2, inducing=6, mean_function="zero", likelihood="poisson")
    run, snapshot = moment(curve("counts"), spec, 0.5)
    answer = without_layers(run, snapshot)
    (without,) = answer.without
    assert without.mean is not None
    np.testing.assert_allclose(without.mean, without.mean[0], rtol=1e-9)
    assert np.ptp(answer.mean) > 0.01 and np.all(without.mean > 0)  # a rate
    alone, one = moment(curve(), ModelSpec(layers=1, inducing=5))
    with pytest.raises(ValueError, match="two layers or more"):
        without_layers(alone, one)


def test_layers_over_time(two):
    run, snapshot = two
    with pytest.raises(ValueError, match="no moment yet"):
        layer_history(run)
    first, last = snapshot.deep.layers
    grown = replace(
        first,
        kernel=replace(first.kernel, log_lengthscales=first.kernel.log_lengthscales + np.log(3)),
        q_mean=np.zeros_like(first.q_mean),
    )
    later = replace(snapshot, step=50, deep=replace(snapshot.deep, layers=(grown, last)))
    run._history = [snapshot, later]
    history = layer_history(run)
    np.testing.assert_array_equal(history.step, [7, 50])
    one, two_ = history.layers
    assert one.lengthscale_names == ("t0",)
    assert one.lengthscales[0, 0] == pytest.approx(2.0 * run.scaler.x_scale[1])
    assert one.lengthscales[1, 0] == pytest.approx(3 * one.lengthscales[0, 0])
    np.testing.assert_allclose(one.deviation, np.sqrt(2.0))
    np.testing.assert_allclose(two_.deviation, np.sqrt(2.0) * run.scaler.y_scale[0])
    np.testing.assert_allclose(one.noise, np.sqrt(1e-5))
    assert two_.noise is None and one.departure[0] > 0.1 and one.departure[1] < 1e-9
    np.testing.assert_allclose(two_.departure, 1.0)  # a mean of zero
    assert one.kl[0] == pytest.approx(float(kl_from_prior(first)))
    np.testing.assert_allclose(history.likelihood_noise, 0.1 * run.scaler.y_scale[0])
    assert one.departure[0] == pytest.approx(layers_in_depth(run, snapshot)[0].departure, abs=0.15)
    assert snapshot in module._summaries
    run._history = []


def test_kernels_of_several_parts_have_a_lengthscale_each():
    run, snapshot = moment(curve(n_inputs=2), ModelSpec(layers=1, inducing=5, kernels="rbf+linear"))
    run._history = [snapshot]
    (layer,) = layer_history(run).layers
    assert layer.lengthscales.shape == (1, 2) and layer.lengthscale_names == ("t0", "t1")
    before = len(module._summaries)
    del run, snapshot
    gc.collect()
    assert len(module._summaries) < before  # gone with the moment


def test_a_long_history_is_thinned_and_what_is_in_stays_in():
    class Moment:
        def __init__(self, step):
            self.step = step

    moments = [Moment(step) for step in range(0, 100_001, 10)]
    few = thinned(moments)
    assert len(few) <= 200 and few[0].step == 0 and few[-1].step == 100_000
    assert len([m for m in few if m.step < 1000]) > 40  # early moments stay dense
    before = thinned(moments[:5000])
    assert set(before[:-1]) <= set(few)
    assert thinned([]) == [] and thinned(moments[:1]) == moments[:1]
