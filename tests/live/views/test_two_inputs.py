"""Maps and warped grids of two inputs: right by independent routes."""

from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy import special

from dgp_core.gp.data import Dataset
from dgp_core.gp.layers import conditional, factorise
from dgp_core.gp.model import JITTER, ModelSpec
from dgp_core.gp.predict import class_probabilities, predict_latent, predict_observed
from dgp_core.live.run import Run
from dgp_core.live.views import paths
from dgp_core.live.views import two_inputs as views_2d
from dgp_core.live.views.playground import View2D, view, view_2d
from dgp_core.training.generic import Size
from dgp_core.training.programs import BUILDERS
from dgp_core.training.train import TrainSpec
from tests.core.runs import moved
from tests.gp.test_unbatched_lapack import batched_calls

pytestmark = pytest.mark.usefixtures("quick_compilation")

TRAIN = TrainSpec(steps=1_000_000, minibatch=None, decay=False)


def plane(task="regression", n=70) -> Dataset:
    """In units far from standard ones, with a constant column between the two that vary."""
    rng = np.random.default_rng(5)
    X = np.stack([rng.uniform(100, 180, n), np.full(n, 4.0), rng.uniform(-0.3, 0.1, n)], 1)
    f = np.sin((X[:, 0] - 140) / 12) + 6 * X[:, 2]
    Y = {
        "regression": 50 + 9 * f + rng.standard_normal(n),
        "binary": f + 0.3 * rng.standard_normal(n) > 0,
        "multiclass": np.digitize(f, [-1.2, 0.0]),
        "counts": rng.poisson(np.exp(1 + 0.5 * f)),
    }[task]
    classes = {"binary": ("no", "yes"), "multiclass": ("low", "middle", "high")}.get(task, ())
    names = ("length", "same", "slope")
    return Dataset("plane", X, Y[:, None].astype(float), names, ("y",), task, classes=classes)


def grid_of(run: Run, seen: View2D) -> np.ndarray:
    """The map's places in standard units (B·A, 2)."""
    a, b = (m.ravel() for m in np.meshgrid(seen.a, seen.b))
    return run.scaler.inputs(np.stack([a, np.full(len(a), 4.0), b], 1))


@pytest.fixture(scope="module")
def run(quick_compilation) -> Run:
    return moved(Run(plane(), ModelSpec(layers=2, inducing=15), TRAIN), 150)


@pytest.fixture(scope="module")
def seen(run) -> View2D:
    found = view(run, run.latest)
    assert isinstance(found, View2D) and view_2d(run, run.latest) is found
    return found


def test_a_plane_names_its_axes_and_numbers_its_points(run, seen):
    assert seen.input_names == ("length", "slope") and seen.y_name == "y" and not seen.classes
    assert seen.value_name == "mean of y" and seen.doubt_name == "deviation of a new y"
    assert seen.a[0] < run.dataset.X[:, 0].min() and seen.b[-1] > run.dataset.X[:, 2].max()
    np.testing.assert_array_equal(seen.data_x, run.dataset.X[:, [0, 2]][seen.rows])
    for panel in (seen.deep, seen.rival):
        assert panel.value.shape == panel.doubt.shape == (views_2d.SIDE, views_2d.SIDE)
        assert panel.inducing.shape == (15, 2) and panel.winner is None
        assert panel.bound == pytest.approx(panel.fit - sum(panel.kl))
    assert [layer.title for layer in seen.layers] == ["layer 1 of 2", "layer 2 of 2"]


def test_the_single_layers_map_is_its_conditional(run, seen):
    layer = jax.tree.map(np.asarray, run.latest.rival).layers[0]
    q = conditional(factorise(layer, JITTER), grid_of(run, seen))
    noise = np.exp(run.latest.rival.likelihood.log_variance[0])
    mean = np.asarray(q.mean)[:, 0] * run.scaler.y_scale[0] + run.scaler.y_mean[0]
    sd = np.sqrt(np.asarray(q.variance)[:, 0] + noise) * run.scaler.y_scale[0]
    np.testing.assert_allclose(seen.rival.value.ravel(), mean, rtol=1e-8)
    np.testing.assert_allclose(seen.rival.doubt.ravel(), sd, rtol=1e-6)


def test_the_deep_map_agrees_with_thousands_of_random_paths(run, seen):
    some = slice(None, None, 9)
    latent = predict_latent(run.latest.deep, grid_of(run, seen)[some], jax.random.key(0), 2000)
    mixture = predict_observed(run.latest.deep, latent)
    mixture = mixture.affine(run.scaler.y_scale, run.scaler.y_mean)
    sd = np.sqrt(mixture.variance[:, 0])
    error = np.abs(seen.deep.value.ravel()[some] - mixture.mean[:, 0]) / sd
    assert error.max() < 0.4 and error.mean() < 0.05
    ratio = seen.deep.doubt.ravel()[some] / sd
    assert np.abs(np.log(ratio)).max() < 0.4 and np.abs(np.log(ratio)).mean() < 0.06


def test_layers_carry_grid_and_points_by_their_means(run, seen):
    first, last = seen.layers
    layers = jax.tree.map(np.asarray, run.latest.deep).layers
    X = run.scaler.inputs(run.dataset.X[seen.rows])
    hidden = np.asarray(conditional(factorise(layers[0], JITTER), X).mean)
    np.testing.assert_allclose(first.points_in, seen.data_x)
    np.testing.assert_allclose(first.points_out, hidden, atol=1e-8)
    np.testing.assert_allclose(last.points_in, hidden, atol=1e-8)
    f = np.asarray(conditional(factorise(layers[1], JITTER), hidden).mean)[:, 0]
    np.testing.assert_allclose(last.points_out[:, 0], seen.data_x[:, 0])
    y = f * run.scaler.y_scale[0] + run.scaler.y_mean[0]
    np.testing.assert_allclose(last.points_out[:, 1], y, rtol=1e-6)

    # Lines of the grid: along the first input, then along the second, both over the whole map.
    K = -(-views_2d.SIDE // views_2d.EVERY)
    assert first.lines_in.shape == first.lines_out.shape == (2 * K, views_2d.SIDE, 2)
    np.testing.assert_allclose(first.lines_in[0, :, 0], seen.a)
    np.testing.assert_allclose(first.lines_in[0, :, 1], seen.b[0])
    np.testing.assert_allclose(first.lines_in[K, :, 1], seen.b)
    np.testing.assert_allclose(first.lines_in[-1, :, 0], seen.a[-1])
    np.testing.assert_allclose(first.lines_out, last.lines_in, atol=1e-12)

    # The last layer's own map: its mean over what enters.
    assert last.map_value is not None and first.map_value is None
    H = np.stack(np.meshgrid(last.map_a, last.map_b), -1).reshape(-1, 2)
    own = np.asarray(conditional(factorise(layers[1], JITTER), H).mean)[:, 0]
    own = own * run.scaler.y_scale[0] + run.scaler.y_mean[0]
    np.testing.assert_allclose(last.map_value.ravel(), own, rtol=1e-6)
    np.testing.assert_allclose(last.inducing, layers[1].inducing)
    np.testing.assert_allclose(first.inducing, seen.deep.inducing)


def test_a_new_model_leaves_the_grid_as_it_is(run):
    """Identity mean functions and q(u) = 0: nothing is warped, and every layer is off."""
    fresh = moved(Run(plane(), ModelSpec(layers=2, inducing=15), TRAIN), 0)
    seen = view_2d(fresh, fresh.latest)
    first = seen.layers[0]
    shift, scale = fresh.scaler.x_mean[[0, 2]], fresh.scaler.x_scale[[0, 2]]
    np.testing.assert_allclose(first.lines_out * scale + shift, first.lines_in, atol=1e-2)
    np.testing.assert_allclose(first.points_out * scale + shift, seen.data_x, atol=1e-2)
    assert first.departure == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(first.u_mean * scale + shift, first.inducing, atol=1e-2)


def test_wide_layers_are_drawn_by_two_principal_components():
    spec = ModelSpec(layers=3, inducing=9, widths=(4, 1))
    run = moved(Run(plane(), spec, TRAIN), 20)
    wide, narrow, last = view_2d(run, run.latest).layers
    assert (wide.width_out, narrow.width_out, last.width_in) == (4, 1, 1)
    assert "principal component 1" in wide.names_out[0]
    layers = jax.tree.map(np.asarray, run.latest.deep).layers
    hidden = np.asarray(
        conditional(factorise(layers[0], JITTER), run.scaler.inputs(run.dataset.X)).mean
    )
    centred = hidden - hidden.mean(0)
    _, s, V = np.linalg.svd(centred, full_matrices=False)
    scores = centred @ V[:2].T
    for c in (0, 1):
        sign = np.sign(wide.points_out[:, c] @ scores[:, c])
        np.testing.assert_allclose(wide.points_out[:, c], sign * scores[:, c], atol=1e-8)
    assert f"({100 * s[0] ** 2 / (s**2).sum():.0f} %)" in wide.names_out[0]
    assert narrow.names_out == ("length", "what leaves") and last.inducing is None
    np.testing.assert_allclose(narrow.points_out[:, 0], run.dataset.X[:, 0])


@pytest.mark.parametrize("layers", [1, 2])
def test_two_classes_show_their_probability_and_its_deviation(layers):
    spec = ModelSpec(layers=layers, inducing=12, likelihood="bernoulli")
    run = moved(Run(plane("binary"), spec, TRAIN), 100)
    seen = view_2d(run, run.latest)
    assert seen.value_name == "probability of yes" and seen.classes == ("no", "yes")
    some = slice(None, None, 11)
    latent = predict_latent(run.latest.deep, grid_of(run, seen)[some], jax.random.key(0), 1500)
    expected = class_probabilities(run.latest.deep, latent)[:, 1]
    error = np.abs(seen.deep.value.ravel()[some] - expected)
    f = latent.sample(np.random.default_rng(0), 4000)[:, :, 0]
    spread = special.ndtr(f).std(0)
    off = np.abs(seen.deep.doubt.ravel()[some] - spread)
    if layers == 1:
        assert error.max() < 1e-8 and off.max() < 0.015 and seen.rival is seen.deep
    else:
        assert error.max() < 0.1 and error.mean() < 0.02 and off.mean() < 0.03


@pytest.mark.parametrize("likelihood", ["robust_max", "softmax"])
def test_of_several_classes_the_likeliest_is_shown(likelihood):
    run = moved(
        Run(plane("multiclass"), ModelSpec(layers=2, inducing=9, likelihood=likelihood), TRAIN), 80
    )
    seen = view_2d(run, run.latest)
    panel = seen.deep
    assert panel.probabilities is not None and panel.winner is not None
    np.testing.assert_allclose(panel.probabilities.sum(0), 1.0, atol=1e-5)
    np.testing.assert_array_equal(panel.winner, panel.probabilities.argmax(0))
    np.testing.assert_array_equal(panel.value, panel.probabilities.max(0))
    bits = -(panel.probabilities * np.log2(panel.probabilities)).sum(0)
    np.testing.assert_allclose(panel.doubt, bits, atol=1e-6)
    assert seen.layers[-1].map_winner is not None
    some = slice(None, None, 13)
    for model, mine in ((run.latest.deep, panel), (run.latest.rival, seen.rival)):
        latent = predict_latent(model, grid_of(run, seen)[some], jax.random.key(0), 400)
        expected = class_probabilities(model, latent)
        error = np.abs(mine.probabilities.reshape(3, -1).T[some] - expected)
        assert error.mean() < 0.02 and error.max() < 0.12


def test_counts_show_their_rate(run):
    counted = Run(plane("counts"), ModelSpec(layers=1, inducing=9, likelihood="poisson"), TRAIN)
    moved(counted, 60)
    seen = view_2d(counted, counted.latest)
    latent = predict_latent(counted.latest.deep, grid_of(counted, seen), jax.random.key(0), 1)
    observed = predict_observed(counted.latest.deep, latent)
    assert seen.value_name == "expected y"
    np.testing.assert_allclose(seen.deep.value.ravel(), observed.mean[:, 0], rtol=1e-6)
    np.testing.assert_allclose(seen.deep.doubt.ravel(), observed.variance[:, 0] ** 0.5, rtol=1e-6)


def test_large_sets_show_the_same_few_rows_every_time():
    rows = paths.shown_rows(5000)
    assert len(np.unique(rows)) == paths.MOST_ROWS and rows.max() < 5000
    np.testing.assert_array_equal(rows, paths.shown_rows(5000))
    np.testing.assert_array_equal(paths.shown_rows(7), np.arange(7))


def test_a_moment_without_a_covariance_says_so(run):
    deep = run.latest.deep
    lost = replace(deep.layers[0], inducing=np.full_like(deep.layers[0].inducing, np.nan))
    snapshot = replace(run.latest, deep=replace(deep, layers=(lost, *deep.layers[1:])))
    with pytest.raises(ValueError, match="cannot be drawn"):
        view_2d(run, snapshot)


@pytest.mark.parametrize("name", ["train", "ready", "roots"])
def test_no_program_batches_lapack(name):
    built = BUILDERS[name](Size(10, 5, 2, True, 3, 1, 1, 512))
    assert not batched_calls(built.function, *built.arguments)
