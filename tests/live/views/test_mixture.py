"""The mixture at an input: against scipy, closed forms for Gaussians, and brute force."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from dgp_core.evaluation.calibration import inside
from dgp_core.gp.data import Dataset
from dgp_core.gp.likelihoods import Gaussian, NegativeBinomial, Poisson, StudentT
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import Bound, DeepGP, ModelSpec
from dgp_core.gp.predict import predict_latent
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.views import mixture as module
from dgp_core.live.views.evaluate import Evaluated
from dgp_core.live.views.mixture import LEVELS, along, calibration, latent, mixture_at
from dgp_core.training.train import TrainSpec

pytestmark = pytest.mark.usefixtures("quick_compilation")


def curve(task="regression", n=40, n_inputs=1, n_classes=3) -> Dataset:
    """In units far from standard ones, with a constant column that is dropped."""
    rng = np.random.default_rng(3)
    X = rng.uniform(10, 50, (n, n_inputs))
    f = (np.sign(X[:, :1] - 30) + 0.3 * np.sin(X[:, :1] / 3)).round(6)
    Y = {
        "regression": 200 + 30 * f + 3 * rng.standard_normal((n, 1)),
        "binary": (f > 0).astype(float),
        "counts": rng.poisson(np.exp(f + 1)).astype(float),
        "multiclass": rng.integers(0, n_classes, (n, 1)).astype(float),
    }[task]
    labels = {"binary": ("no", "yes"), "multiclass": tuple("abcdef"[:n_classes])}
    names = ("same", *(f"t{d}" for d in range(n_inputs)))
    X = np.hstack([np.full((n, 1), 7.0), X])
    return Dataset("curve", X, Y, names, ("y",), task, classes=labels.get(task, ()))


def moved(model: DeepGP, seed: int, size: float = 1.0) -> DeepGP:
    """A model as if it had learnt something: q(u) away from its start values."""
    rng = np.random.default_rng(seed)

    def layer(layer, size):
        M, P = layer.q_mean.shape
        factor = 0.3 * size * np.tril(0.1 * rng.standard_normal((P, M, M)) + np.eye(M))
        mean = size * rng.standard_normal((M, P))
        return replace(layer, q_mean=mean, q_factor=factor)

    *inner, last = model.layers
    layers = (*(layer(one, 0.5 * size) for one in inner), layer(last, size))
    return jax.tree.map(np.asarray, replace(model, layers=layers))


def moment(dataset: Dataset, spec: ModelSpec, size: float = 1.0) -> tuple[Run, Snapshot]:
    """A run and a moment of it, without training."""
    run = Run(dataset, spec, TrainSpec(minibatch=None))
    starts = run._make_start().states
    deep, rival = (moved(state.model, seed, size) for seed, state in enumerate(starts))
    bounds = [Bound(np.float64(-1.0), np.ones(len(m.layers))) for m in (deep, rival)]  # pyright: ignore
    return run, Snapshot(7, 0.1, deep, rival, bounds[0], bounds[1], 0)


@pytest.fixture(scope="module")
def gaussian(quick_compilation):
    return moment(curve(), ModelSpec(layers=2, inducing=8))


def users(run: Run, model: DeepGP, x: np.ndarray) -> Mixture:
    """The mixture of y in the user's units by the plain route."""
    q = latent(Evaluated(model, run.size), run.scaler.inputs(x[None]))
    assert isinstance(model.likelihood, Gaussian)
    noise = np.exp(model.likelihood.log_variance)
    return Mixture(q.means, q.variances + noise).affine(run.scaler.y_scale, run.scaler.y_mean)


X_STAR = np.array([7.0, 23.0])


def test_the_paths_are_those_of_the_model(gaussian):
    """Moments against many random paths."""
    run, snapshot = gaussian
    X = run.scaler.inputs(run.dataset.X[:5])
    mine = latent(Evaluated(snapshot.deep, run.size), X)
    other = predict_latent(snapshot.deep, X, jax.random.key(0), 4000)
    scale = np.sqrt(other.variance)
    assert (np.abs(mine.mean - other.mean) / scale).max() < 0.08
    np.testing.assert_allclose(np.sqrt(mine.variance), scale, rtol=0.08)


@pytest.mark.parametrize("noise", [True, False])
def test_density_and_cdf_are_those_of_scipy(gaussian, noise):
    run, snapshot = gaussian
    view = mixture_at(run, snapshot, X_STAR, noise)
    assert view.kind == "density" and view.labels == () and view.noise_included is noise
    for side, model in ((view.deep, snapshot.deep), (view.rival, snapshot.rival)):
        mixture = users(run, model, X_STAR)
        variance = mixture.variances[:, 0, 0]
        if not noise:
            lost = np.exp(model.likelihood.log_variance)[0] * run.scaler.y_scale[0] ** 2
            variance = variance - lost
        law = stats.norm(mixture.means[:, 0], np.sqrt(variance)[:, None])
        assert len(side.components) == (module.PATHS if model is snapshot.deep else 1)
        np.testing.assert_allclose(side.components, law.pdf(view.y), rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(side.cdf, law.cdf(view.y).mean(0), atol=1e-9)
        np.testing.assert_allclose(side.density, side.components.mean(0))
        assert np.trapezoid(side.density, view.y) == pytest.approx(1.0, abs=1e-3)
        # The Gaussian summary has the mixture's own moments.
        mean = np.trapezoid(view.y * side.density, view.y)
        second = np.trapezoid((view.y - mean) ** 2 * side.density, view.y)
        assert side.mean == pytest.approx(mean, abs=1e-2 * np.sqrt(second))
        assert side.deviation == pytest.approx(np.sqrt(second), rel=1e-2)
        summary = stats.norm(side.mean, side.deviation).pdf(view.y)
        np.testing.assert_allclose(side.summary, summary, rtol=1e-9, atol=1e-300)
    assert view.frame[0] < run.dataset.Y.min() and view.frame[1] > run.dataset.Y.max()


def test_variance_splits_by_the_law_of_total_variance(gaussian):
    run, snapshot = gaussian
    curves = along(run, snapshot)
    assert curves.x is not None and len(curves.x) == len(curves.rows) == module.CANDIDATES
    for split, model in ((curves.deep, snapshot.deep), (curves.rival, snapshot.rival)):
        q = latent(Evaluated(model, run.size), run.scaler.inputs(curves.rows))
        total = (q.variance[:, 0] + np.exp(model.likelihood.log_variance)) * run.scaler.y_scale**2
        np.testing.assert_allclose(split.total, total, rtol=1e-10)
        np.testing.assert_allclose(split.noise, split.noise[0])
    assert np.all(curves.deep.between > 0)
    np.testing.assert_array_equal(curves.rival.between, 0.0)  # one layer has one path
    at = mixture_at(run, snapshot, curves.rows[30])
    assert at.deep.split.total == pytest.approx(curves.deep.total[30])
    assert at.deep.deviation**2 == pytest.approx(curves.deep.total[30])


def law_of(mean, variance, likelihood=None) -> module._Law:
    """A law from its components (S,) without any scaling."""
    q = Mixture(np.reshape(mean, (-1, 1, 1)), np.reshape(variance, (-1, 1, 1)))
    return module._Law(likelihood or Gaussian.create(1, variance=1e-12), q, 0.0, 1.0, 0)


def test_distances_of_gaussians_are_those_of_closed_forms():
    # Equal deviations: TV = 2Φ(|m₁ − m₂|/2σ) − 1 and W₁ = |m₁ − m₂|.
    for gap in (0.1, 1.0, 4.0):
        pair = law_of([0.0], [2.25]), law_of([gap], [2.25])
        variation, distance = module._apart(pair, 0, True)
        assert variation == pytest.approx(2 * special.ndtr(gap / 3.0) - 1, abs=1e-3)
        assert distance == pytest.approx(gap, rel=2e-3)
    # Equal means: W₁ = |σ₁ − σ₂| E|N(0, 1)|, and TV from where the densities cross.
    wide = law_of([5.0], [1.0]), law_of([5.0], [9.0])
    variation, distance = module._apart(wide, 0, True)
    cross = np.sqrt(2 * np.log(3.0) / (1 - 1 / 9))
    expected = 2 * (special.ndtr(cross) - special.ndtr(cross / 3))
    assert variation == pytest.approx(expected, abs=1e-3)
    assert distance == pytest.approx(2 * np.sqrt(2 / np.pi), rel=2e-3)
    same = law_of([1.0, 2.0], [1.0, 0.5])
    assert module._apart((same, same), 0, True) == (0.0, 0.0)


def test_distances_of_mixtures_are_those_of_a_fine_grid(gaussian):
    run, snapshot = gaussian
    curves = along(run, snapshot)
    for g in (10, 64, 100):
        deep, rival = (users(run, m, curves.rows[g]) for m in (snapshot.deep, snapshot.rival))
        y = np.linspace(-200, 600, 8_001)
        P, Q = (m.cdf(y[:, None, None])[:, 0, 0] for m in (deep, rival))
        variation = 0.5 * np.abs(np.diff(P - Q)).sum()
        assert curves.total_variation[g] == pytest.approx(variation, abs=4e-3)
        assert curves.wasserstein[g] == pytest.approx(
            np.trapezoid(np.abs(P - Q), y), rel=1e-2, abs=1e-2
        )
    best = curves.most()
    assert curves.total_variation[best] == curves.total_variation.max()
    assert curves.wasserstein[curves.most("wasserstein")] == curves.wasserstein.max()
    at = mixture_at(run, snapshot, curves.rows[best])
    assert at.total_variation == pytest.approx(curves.total_variation[best])
    assert at.wasserstein == pytest.approx(curves.wasserstein[best])


def test_with_more_inputs_candidates_are_rows_and_places_beside_them():
    run, snapshot = moment(curve(n_inputs=3), ModelSpec(layers=2, inducing=8))
    curves = along(run, snapshot)
    assert curves.x is None and curves.rows.shape == (module.CANDIDATES, 4)
    rows = {tuple(row) for row in run.dataset.X}
    assert all(tuple(row) in rows for row in curves.rows[:40])
    assert not any(tuple(row) in rows for row in curves.rows[40:])
    np.testing.assert_array_equal(curves.rows[:, 0], 7.0)  # a constant column stays as it is
    at = mixture_at(run, snapshot, curves.rows[curves.most()])
    assert at.total_variation == pytest.approx(curves.total_variation.max())


@pytest.mark.parametrize("degrees", [2.1, 4.0, 50.0])
def test_students_t_is_a_sum_of_gaussians(degrees):
    likelihood = StudentT.create(1, scale=0.7, degrees=degrees)
    law = law_of([1.5], [1e-12], likelihood)
    y = 1.5 + np.linspace(-9, 9, 301)
    expected = stats.t(degrees, 1.5, 0.7)
    np.testing.assert_allclose(law.path_cdf(0, y, True)[0], expected.cdf(y), atol=2e-4)
    np.testing.assert_allclose(law.path_density(0, y, True)[0], expected.pdf(y), atol=5e-4)
    split = law.split()
    assert split.noise[0] == pytest.approx(expected.var())
    # Beside a q(f) of some width: against the likelihood's own integral.
    law = law_of([1.5], [0.4], likelihood)
    m, v = jnp.full((301, 1), 1.5), jnp.full((301, 1), 0.4)
    density = np.exp(likelihood.log_predictive(m, v, jnp.asarray(y[:, None])))
    np.testing.assert_allclose(law.path_density(0, y, True)[0], density, atol=3e-4)


def brute(law: module._Law, g: int, n: int = 200_000) -> np.ndarray:
    """Draws of f on random paths (n, P)."""
    rng = np.random.default_rng(1)
    m, v = law.latent.means[:, g], law.latent.variances[:, g]
    path = rng.integers(len(m), size=n)
    return m[path] + np.sqrt(v[path]) * rng.standard_normal((n, m.shape[1]))


@pytest.mark.parametrize(
    ("task", "likelihood", "readable"),
    [
        ("binary", "bernoulli", special.ndtr),
        ("counts", "poisson", np.exp),
        ("counts", "negative_binomial", np.exp),
    ],
)
def test_behind_a_link(task, likelihood, readable):
    run, snapshot = moment(curve(task), ModelSpec(layers=2, inducing=8, likelihood=likelihood), 0.6)
    law = module._Law.of(
        Evaluated(snapshot.deep, run.size), run.scaler.inputs(X_STAR[None]), run.scaler, 0
    )
    if task == "counts":
        np.testing.assert_allclose(law.shift, snapshot.deep.likelihood.offset[0])
    value = readable(brute(law, 0)[:, 0] + law.shift)
    rng = np.random.default_rng(2)
    if likelihood == "negative_binomial":
        seen = rng.negative_binomial(law.size, law.size / (law.size + value))
    else:
        seen = rng.poisson(value) if task == "counts" else (rng.random(len(value)) < value)
    bars = mixture_at(run, snapshot, X_STAR)
    free = mixture_at(run, snapshot, X_STAR, noise=False)
    assert (bars.kind, free.kind) == ("bars", "density")

    shares = np.bincount(seen.astype(int), minlength=len(bars.y))[: len(bars.y)] / len(seen)
    np.testing.assert_allclose(bars.deep.density, shares, atol=4e-3)
    assert bars.deep.mean == pytest.approx(seen.mean(), rel=0.02)
    assert bars.deep.split.total == pytest.approx(seen.var(), rel=0.05)
    split = bars.deep.split
    assert split.between + split.within == pytest.approx(value.var(), rel=0.05)
    p, q = bars.deep.density, bars.rival.density
    assert bars.total_variation == pytest.approx(0.5 * np.abs(p - q).sum())
    assert bars.labels == (("no", "yes") if task == "binary" else tuple(map(str, range(128))))
    assert (bars.wasserstein is None) == (task == "binary")

    assert free.deep.mean == pytest.approx(value.mean(), rel=0.02)
    assert free.deep.deviation == pytest.approx(value.std(), rel=0.03)
    assert np.trapezoid(free.deep.density, free.y) == pytest.approx(1.0, abs=5e-3)
    at = np.quantile(value, [0.1, 0.5, 0.9])
    np.testing.assert_allclose(np.interp(at, free.y, free.deep.cdf), [0.1, 0.5, 0.9], atol=0.01)
    curves = along(run, snapshot)
    assert np.all((curves.total_variation >= 0) & (curves.total_variation <= 1 + 1e-9))


@pytest.mark.parametrize(
    "likelihood", [Poisson.create(1), NegativeBinomial.create(1, size=2.0)], ids=["poisson", "nb"]
)
def test_counts_are_those_of_the_likelihoods_own_integral(likelihood):
    m, v = np.array([[-2.0, 0.3], [1.0, 3.0]]), np.array([[0.01, 1.0], [1e-8, 0.3]])
    counts = np.arange(40.0)
    mine = module._count_probabilities(m, v, counts, likelihood.sizes[0])
    pairs = [np.broadcast_to(a[..., None], (2, 2, 40)).reshape(-1, 1) for a in (m, v)]
    y = np.broadcast_to(counts, (2, 2, 40)).reshape(-1, 1)
    log = likelihood.log_predictive(*(jnp.asarray(a) for a in (*pairs, y)))
    np.testing.assert_allclose(mine, np.exp(log).reshape(2, 2, 40), atol=1e-3)


@pytest.mark.parametrize("likelihood", ["softmax", "robust_max"])
def test_several_classes_are_bars(likelihood):
    run, snapshot = moment(
        curve("multiclass"), ModelSpec(layers=2, inducing=6, likelihood=likelihood), 0.5
    )
    view = mixture_at(run, snapshot, X_STAR)
    assert view.kind == "bars" and view.labels == ("a", "b", "c") and view.deep.cdf is None
    np.testing.assert_allclose(view.deep.components.sum(1), 1.0, atol=1e-6)
    law = module._Law.of(
        Evaluated(snapshot.deep, run.size), run.scaler.inputs(X_STAR[None]), run.scaler, 0
    )
    f = brute(law, 0)
    p = special.softmax(f, 1)
    if likelihood == "robust_max":
        p = np.where(np.arange(3) == f.argmax(1)[:, None], 1 - 1e-3, 0.5e-3)
    np.testing.assert_allclose(view.deep.density, p.mean(0), atol=0.01)
    split = view.deep.split
    assert split.total == pytest.approx((p.mean(0) * (1 - p.mean(0))).sum(), rel=0.02, abs=2e-3)
    assert split.noise == pytest.approx((p * (1 - p)).sum(1).mean(), rel=0.05, abs=2e-3)
    curves = along(run, snapshot)
    with pytest.raises(ValueError, match="total variation"):
        curves.most("wasserstein")
    check = calibration(run, snapshot, run.dataset)
    assert check.kind == "reliability" and check.deep.pit is None
    assert check.deep.counts.sum() == 3 * len(run.dataset)
    full = check.deep.counts > 0
    predicted = check.deep.predicted[full]
    assert np.all((predicted >= check.edges[:-1][full]) & (predicted <= check.edges[1:][full]))
    assert (check.deep.counts * np.nan_to_num(check.deep.observed)).sum() == pytest.approx(40)


def honest(run: Run, snapshot: Snapshot, n: int) -> Dataset:
    """Rows whose y are drawn from the deep model's own predictive distribution."""
    rng = np.random.default_rng(5)
    X = np.stack([np.full(n, 7.0), rng.uniform(10, 50, n)], 1)
    law = module._Law.of(Evaluated(snapshot.deep, run.size), run.scaler.inputs(X), run.scaler, 0)
    path = rng.integers(len(law.mean), size=n)
    f = law.mean[path, range(n)] + np.sqrt(law.variance[path, range(n)]) * rng.standard_normal(n)
    if run.dataset.task == "counts":
        y = rng.poisson(np.exp(f)).astype(float)
    elif run.dataset.task == "binary":
        y = (rng.random(n) < special.ndtr(f)).astype(float)
    else:
        y = f + np.sqrt(law.scales(True)[0][0]) * rng.standard_normal(n)
    return replace(run.dataset, X=X, Y=y[:, None])


def test_on_its_own_draws_a_model_is_honest_and_the_other_is_not(gaussian):
    run, snapshot = gaussian
    heldout = honest(run, snapshot, 500)
    check = calibration(run, snapshot, heldout)
    assert check.n_rows == 500 and check.kind == "pit" and check.deep.pit is not None
    assert stats.kstest(check.deep.pit, "uniform").pvalue > 0.01
    assert stats.kstest(check.rival.pit, "uniform").pvalue < 1e-6
    assert check.deep.counts.sum() == 500
    mean, low, high = check.expected
    assert mean == 50 and np.mean((check.deep.counts >= low) & (check.deep.counts <= high)) >= 0.8
    assert np.abs(check.deep.observed - LEVELS).max() < 0.07
    # The coverage by another route: quantiles of the mixture.
    q = latent(Evaluated(snapshot.deep, run.size), run.scaler.inputs(heldout.X))
    noise = np.exp(snapshot.deep.likelihood.log_variance)
    mixture = Mixture(q.means, q.variances + noise).affine(run.scaler.y_scale, run.scaler.y_mean)
    np.testing.assert_allclose(
        check.deep.observed, inside(mixture.cdf(heldout.Y), LEVELS).mean((1, 2))
    )
    assert calibration(run, snapshot, heldout) is check


@pytest.mark.parametrize("task", ["counts", "binary"])
def test_counts_and_two_classes_are_checked_too(task):
    likelihood = {"counts": "poisson", "binary": "bernoulli"}[task]
    run, snapshot = moment(curve(task), ModelSpec(layers=2, inducing=8, likelihood=likelihood), 0.6)
    check = calibration(run, snapshot, honest(run, snapshot, 600))
    if task == "counts":
        assert check.deep.pit is not None
        assert stats.kstest(check.deep.pit, "uniform").pvalue > 0.01
    else:
        n, p = check.deep.counts, check.deep.predicted
        full = n >= 10
        error = (check.deep.observed - p)[full] / np.sqrt(p * (1 - p) / np.maximum(n, 1))[full]
        assert full.sum() >= 3 and np.abs(error).max() < 3.5


def test_a_moment_is_computed_once_and_bad_input_is_named(gaussian):
    run, snapshot = gaussian
    assert mixture_at(run, snapshot, X_STAR) is mixture_at(run, snapshot, list(X_STAR))
    assert along(run, snapshot) is along(run, snapshot)
    with pytest.raises(ValueError, match="2 finite numbers"):
        mixture_at(run, snapshot, np.zeros(3))
    with pytest.raises(ValueError, match="no output 1"):
        along(run, snapshot, output=1)
    with pytest.raises(ValueError, match="same columns"):
        calibration(run, snapshot, curve(n_inputs=2))
    with pytest.raises(ValueError, match="at least one"):
        calibration(run, snapshot, run.dataset.take([]))
    with pytest.raises(ValueError, match="measures are"):
        along(run, snapshot).most("distance")  # pyright: ignore


def test_a_single_layer_is_its_own_rival():
    run, snapshot = moment(curve(), ModelSpec(layers=1, inducing=8))
    view = mixture_at(run, snapshot, X_STAR)
    assert view.total_variation == 0.0 and view.deep.mean == view.rival.mean
