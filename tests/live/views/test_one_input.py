"""Pictures' data of a live run: right by independent routes, shared, and gone with the run."""

import gc
import threading
import time
import weakref
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from dgp_core.gp.data import Dataset
from dgp_core.gp.layers import inducing_gram
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import JITTER, ModelSpec
from dgp_core.gp.predict import (
    _draw_layer,
    class_probabilities,
    layer_views,
    log_density,
    predict_latent,
    predict_observed,
)
from dgp_core.live.run import Run
from dgp_core.live.views import one_input as views_1d
from dgp_core.live.views.evaluate import Evaluated
from dgp_core.live.views.gallery import Gallery
from dgp_core.live.views.one_input import LEVELS
from dgp_core.live.views.paths import (
    even_normals,
    function_normals,
    in_standard_units,
    noise_variances,
    noisy,
)
from dgp_core.live.views.playground import ClassPanel, has_view_1d, view_1d
from dgp_core.training.train import TrainSpec
from tests.core.runs import moved, trained

pytestmark = pytest.mark.usefixtures("quick_compilation")

TRAIN = TrainSpec(steps=1_000_000, minibatch=None, decay=False)


def curve(task="regression", n=60) -> Dataset:
    """In units far from standard ones, with a constant column that is dropped."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(10, 50, (n, 1)), 0)
    f = np.sign(x - 30) + 0.3 * np.sin(x / 3)
    Y = {
        "regression": 200 + 30 * f + 3 * rng.standard_normal((n, 1)),
        "binary": (f + 0.3 * rng.standard_normal((n, 1)) > 0).astype(float),
        "counts": rng.poisson(np.exp(f + 1)).astype(float),
    }[task]
    classes = ("no", "yes") if task == "binary" else ()
    X = np.hstack([np.full((n, 1), 7.0), x])
    return Dataset("curve", X, Y, ("same", "t"), ("y",), task, classes=classes)


@pytest.fixture(scope="module")
def run(quick_compilation) -> Run:
    return trained(Run(curve(), ModelSpec(layers=2, inducing=12), TRAIN), 200)


@pytest.fixture(scope="module")
def view(run):
    return view_1d(run, run.latest)


def mixture_of(run: Run, model, view) -> Mixture:
    """The view's own components of y in the user's units."""
    ready, X = Evaluated(model, run.size), in_standard_units(run.scaler, view.x)[:, None]
    q = ready.components(X, even_normals(views_1d.PATHS, ready.widths))
    means, deviations = noisy(q, noise_variances(model, views_1d.PATHS))
    mixture = Mixture(means[:, :, None], deviations[:, :, None] ** 2)
    return mixture.affine(run.scaler.y_scale, run.scaler.y_mean)


def test_a_view_names_its_axes_and_spans_the_data(run, view):
    assert (view.x_name, view.y_name) == ("t", "y") and view.noise_included
    assert view.x[0] < view.data_x.min() and view.x[-1] > view.data_x.max()
    np.testing.assert_array_equal(view.data_x, run.dataset.X[:, 1])
    G, S, H = 120, 8, 64
    for panel in (view.deep, view.rival):
        assert panel.mean.shape == (G,) and panel.quantiles.shape == (4, G)
        assert panel.density_y.shape == (H,) and panel.density.shape == (H, G)
        assert panel.draws.shape == (S, G) and panel.inducing.shape == (12,)
        assert panel.bound == pytest.approx(panel.fit - sum(panel.kl))
    assert [layer.title for layer in view.layers] == ["layer 1 of 2", "layer 2 of 2"]
    assert view.layers[1].samples == pytest.approx(view.deep.draws)
    leaves = jax.tree.leaves([vars(view.deep), vars(view.rival), [vars(p) for p in view.layers]])
    assert all(np.isfinite(leaf).all() for leaf in leaves if not isinstance(leaf, str))
    record = run.record()[0]
    assert view.deep.fit == record[0][-1] and view.deep.kl == tuple(record[1][-1])


@pytest.mark.parametrize("which", ["deep", "rival"])
def test_mean_quantiles_and_density_are_the_mixtures(run, view, which):
    panel, model = getattr(view, which), getattr(run.latest, which)
    mixture = mixture_of(run, model, view)
    assert len(mixture.means) == (views_1d.PATHS if which == "deep" else 1)
    np.testing.assert_allclose(panel.mean, mixture.mean[:, 0], rtol=1e-10)
    scale = np.sqrt(mixture.variance[:, 0])
    error = (panel.quantiles - mixture.quantile(np.array(LEVELS))[:, :, 0]) / scale
    assert np.abs(error).max() < 1e-8

    # A cell's height is Simpson's mean of the density within it, on a mesh finer than any peak.
    step = np.diff(panel.density_y)[0]
    inside = np.linspace(-0.5, 0.5, 201) * step
    weights = np.ones(201)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    for h in (20, 32, 40):
        at = panel.density_y[h] + inside
        fine = np.exp([mixture.log_density(np.full((120, 1), y))[:, 0] for y in at])
        np.testing.assert_allclose(
            panel.density[h], weights @ fine / weights.sum(), atol=1e-7 / step
        )

    low, high = panel.density_y[0] - step / 2, panel.density_y[-1] + step / 2
    share = mixture.cdf(np.full((120, 1), high)) - mixture.cdf(np.full((120, 1), low))
    np.testing.assert_allclose(panel.density.sum(0) * step, share[:, 0], atol=1e-10)
    near_data = (view.x > view.data_x.min()) & (view.x < view.data_x.max())
    assert (panel.density.sum(0) * step)[near_data].min() > 0.99


def test_forty_even_paths_do_the_work_of_thousands_at_random(run, view):
    X = run.scaler.inputs(np.stack([np.full(120, 7.0), view.x], 1))
    latent = predict_latent(run.latest.deep, X, jax.random.key(0), 4000)
    mixture = predict_observed(run.latest.deep, latent).affine(
        run.scaler.y_scale, run.scaler.y_mean
    )
    scale = np.sqrt(mixture.variance[:, 0])
    assert np.abs((view.deep.mean - mixture.mean[:, 0]) / scale).max() < 0.1
    assert np.abs((view.deep.mean - mixture.mean[:, 0]) / scale).mean() < 0.02
    expected = mixture.quantile(np.array(LEVELS))[:, :, 0]
    assert np.median(np.abs((view.deep.quantiles - expected) / scale)) < 0.03


def test_a_three_layer_model_that_sees_its_inputs_again_agrees_too():
    spec = ModelSpec(layers=3, inducing=9, mean_function="concatenate")
    run = moved(Run(curve(), spec, TRAIN), 0)
    view = view_1d(run, run.latest)
    X = run.scaler.inputs(np.stack([np.full(120, 7.0), view.x], 1))
    latent = predict_latent(run.latest.deep, X, jax.random.key(0), 4000, shared=True)
    mixture = predict_observed(run.latest.deep, latent).affine(
        run.scaler.y_scale, run.scaler.y_mean
    )
    ratio = np.diff(view.deep.quantiles[[0, 3]], axis=0)[0]
    ratio = ratio / np.diff(mixture.quantile(np.array(LEVELS))[[0, 3], :, 0], axis=0)[0]
    assert np.abs(ratio - 1).max() < 0.05
    assert view.layers[0].map_x is not None
    assert view.layers[1].map_x is None and view.layers[1].u_mean is None
    assert [layer.departure for layer in view.layers] == [0.0] * 3  # q(u) has learnt nothing yet


def test_draws_are_whole_functions_through_every_layer(run, view):
    """Layer by layer against the draw of `predict`, at the same ε."""
    deep = jax.tree.map(jnp.asarray, run.latest.deep)
    x = run.scaler.inputs(np.stack([np.full(120, 7.0), view.x], 1))
    shapes = tuple(layer.q_mean.shape for layer in deep.layers)
    H = [jnp.asarray(x)] * 8
    for layer, (eps_u, eps_r) in zip(deep.layers, function_normals(8, 120, shapes), strict=True):
        L = jnp.linalg.cholesky(inducing_gram(layer, JITTER))
        H = [_draw_layer(layer, L, H[s], eps_u[s], eps_r[s]) for s in range(8)]
    expected = run.scaler.outputs_back(np.stack(H)[:, :, 0])
    np.testing.assert_allclose(view.deep.draws, expected, rtol=1e-6, atol=1e-4)


def test_layers_show_what_layer_views_shows(run, view):
    """Maps, q(u) and departures by the other route; what enters differs by the draws alone."""
    X = run.scaler.inputs(np.stack([np.full(120, 7.0), view.x], 1))
    expected = layer_views(run.latest.deep, X, jax.random.key(2), 8, 120)
    first, last = view.layers
    x_mean, x_scale = run.scaler.x_mean[1], run.scaler.x_scale[1]
    np.testing.assert_allclose(first.map_x, expected[0].grid * x_scale + x_mean)
    np.testing.assert_allclose(first.map_mean, expected[0].map_mean[:, 0], rtol=1e-6)
    np.testing.assert_allclose(first.map_sd, expected[0].map_sd[:, 0], rtol=1e-4)
    np.testing.assert_allclose(first.inducing, expected[0].inducing[:, 0] * x_scale + x_mean)
    np.testing.assert_allclose(first.u_mean, expected[0].u_mean[:, 0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(first.u_sd, expected[0].u_sd[:, 0], rtol=1e-6)
    y_mean, y_scale = run.scaler.y_mean[0], run.scaler.y_scale[0]
    np.testing.assert_allclose(last.u_mean, expected[1].u_mean[:, 0] * y_scale + y_mean, rtol=1e-6)
    np.testing.assert_allclose(last.u_sd, expected[1].u_sd[:, 0] * y_scale, rtol=1e-6)
    for mine, other in zip(view.layers, expected, strict=True):
        assert mine.departure == pytest.approx(other.departure, abs=0.05)
        assert mine.kl == pytest.approx(other.kl, rel=0.2)


@pytest.mark.parametrize(
    ("task", "likelihood", "readable"),
    [
        ("binary", "bernoulli", special.ndtr),
        ("counts", "poisson", np.exp),
        ("counts", "negative_binomial", np.exp),
    ],
)
def test_behind_a_link_a_view_shows_the_probability_or_the_rate(task, likelihood, readable):
    spec = ModelSpec(layers=1, inducing=12, likelihood=likelihood)
    run = moved(Run(curve(task), spec, TRAIN), 100)
    view = view_1d(run, run.latest)
    panel = view.deep
    assert not view.noise_included and view.rival is panel and len(view.layers) == 1
    X = run.scaler.inputs(np.stack([np.full(120, 7.0), view.x], 1))
    latent = predict_latent(run.latest.deep, X, jax.random.key(0), 1)
    f = np.random.default_rng(0).standard_normal((20_000, 120))
    shift = run.latest.deep.likelihood.offset[0] if task == "counts" else 0.0
    f = readable(latent.means[0, :, 0] + shift + np.sqrt(latent.variances[0, :, 0]) * f)
    assert np.abs(panel.mean - f.mean(0)).max() < 0.03 * f.std(0).max()
    levels = latent.quantile(np.array(LEVELS))[:, :, 0] + shift
    np.testing.assert_allclose(panel.quantiles, readable(levels), rtol=1e-6)
    step = np.diff(panel.density_y)[0]
    edges = np.append(panel.density_y - step / 2, panel.density_y[-1] + step / 2)
    for g in (5, 60, 110):
        share = np.histogram(f[:, g], edges)[0] / len(f)
        assert np.abs(panel.density[:, g] * step - share).max() < 0.02
    if task == "binary":
        np.testing.assert_allclose(panel.density.sum(0) * step, 1.0)


def test_data_that_one_axis_cannot_show_are_said_to_be(run):
    rng = np.random.default_rng(0)
    plane = Dataset("plane", rng.normal(size=(20, 2)), rng.normal(size=(20, 1)), ("a", "b"), ("y",))
    wide = Run(plane, ModelSpec(layers=2, inducing=5), TRAIN)
    assert has_view_1d(run) and not has_view_1d(wide)
    with pytest.raises(ValueError, match="one varying input"):
        view_1d(wide, run.latest)


def test_a_moment_is_computed_once_whoever_asks(run, monkeypatch):
    calls = []

    def slow(*arguments):
        calls.append(arguments)
        time.sleep(0.05)
        return object()

    monkeypatch.setattr(views_1d, "_view_1d", slow)
    monkeypatch.setattr(run, "gallery", Gallery())
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.append(view_1d(run, run.latest))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1 and len(seen) == 8 and all(view is seen[0] for view in seen)
    view_1d(run, run.latest, 120, 64)
    assert len(calls) == 2 and len(run.gallery) == 2


def test_a_gallery_keeps_few_and_forgets_failures():
    gallery = Gallery(most=3)
    for key in range(10):
        assert gallery.get(key, lambda key=key: key + 1) == key + 1
    assert len(gallery) == 3
    gallery.get(7, lambda: pytest.fail("7 was kept"))
    gallery.get(10, lambda: 11)
    gallery.get(7, lambda: pytest.fail("7 was used lately"))

    def broken():
        raise ValueError("not this time")

    with pytest.raises(ValueError, match="not this time"):
        gallery.get("a", broken)
    assert gallery.get("a", lambda: 1) == 1


def test_views_go_with_their_run():
    dataset = curve()
    run = moved(Run(dataset, ModelSpec(layers=2, inducing=12), TRAIN), 0)
    gone = [weakref.ref(o) for o in (run, run.latest, dataset, view_1d(run, run.latest))]
    del run, dataset
    gc.collect()
    assert [reference() for reference in gone] == [None] * 4


def test_a_moment_whose_covariance_needs_more_jitter_is_drawn_all_the_same(run):
    """All inducing points of a layer in one place, and no noise there to tell them apart."""
    deep = run.latest.deep
    last = replace(deep.layers[-1], inducing=np.zeros_like(deep.layers[-1].inducing))
    snapshot = replace(run.latest, deep=replace(deep, layers=(*deep.layers[:-1], last)))
    assert np.isfinite(view_1d(run, snapshot).deep.density).all()
    lost = replace(last, inducing=np.full_like(last.inducing, np.nan))
    snapshot = replace(run.latest, deep=replace(deep, layers=(*deep.layers[:-1], lost)))
    with pytest.raises(ValueError, match="cannot be drawn"):
        view_1d(run, snapshot)


def test_several_classes_have_a_probability_each():
    x = np.linspace(10, 50, 60)[:, None]
    Y = np.digitize(x, [20.0, 40.0]).astype(float)
    data = Dataset("steps", x, Y, ("t",), ("y",), "multiclass", classes=("a", "b", "c"))
    run = moved(Run(data, ModelSpec(layers=1, inducing=9, likelihood="robust_max"), TRAIN), 60)
    view = view_1d(run, run.latest)
    assert isinstance(view.deep, ClassPanel) and view.classes == ("a", "b", "c")
    X = run.scaler.inputs(view.x[:, None])
    latent = predict_latent(run.latest.deep, X, jax.random.key(0), 1)
    expected = class_probabilities(run.latest.deep, latent).T
    assert np.abs(view.deep.probabilities - expected).max() < 0.03
    np.testing.assert_allclose(view.deep.probabilities.sum(0), 1.0, atol=1e-5)


def test_students_noise_is_part_of_the_density(run):
    """Against the likelihood's own predictive density, cell by cell."""
    spec = ModelSpec(layers=1, inducing=12, likelihood="student_t")
    run = moved(Run(curve(), spec, TRAIN), 60)
    view = view_1d(run, run.latest)
    assert view.noise_included
    X = run.scaler.inputs(np.stack([np.full(120, 7.0), view.x], 1))
    latent = predict_latent(run.latest.deep, X, jax.random.key(0), 1)
    step = np.diff(view.deep.density_y)[0]
    for h in (20, 32, 44):
        inside = view.deep.density_y[h] + np.linspace(-0.5, 0.5, 41) * step
        y = [run.scaler.outputs(np.full((120, 1), value)) for value in inside]
        exact = np.mean([np.exp(log_density(run.latest.deep, latent, one)) for one in y], 0)
        exact /= run.scaler.y_scale[0]
        np.testing.assert_allclose(view.deep.density[h], exact, atol=0.02 * exact.max())


def test_without_noise_the_density_is_of_the_function_alone(run, view):
    bare = view_1d(run, run.latest, noise=False)
    assert not bare.noise_included
    np.testing.assert_array_equal(bare.deep.mean, view.deep.mean)
    assert (np.diff(bare.rival.quantiles[[0, 3]], axis=0) > 0).all()
    latent = predict_latent(
        run.latest.rival,
        run.scaler.inputs(np.stack([np.full(120, 7.0), view.x], 1)),
        jax.random.key(0),
        1,
    ).affine(run.scaler.y_scale, run.scaler.y_mean)
    np.testing.assert_allclose(
        bare.rival.quantiles, latent.quantile(np.array(LEVELS))[:, :, 0], rtol=1e-8
    )
