"""Tables of many inputs: relevance, agreement, calibration and responses by independent routes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from dgp_core.evaluation.calibration import inside, reliability
from dgp_core.gp.data import Dataset
from dgp_core.gp.kernels import RBF, Linear
from dgp_core.gp.likelihoods import NegativeBinomial, Poisson
from dgp_core.gp.model import ModelSpec
from dgp_core.gp.predict import class_probabilities, predict_latent, predict_observed
from dgp_core.live.run import Run
from dgp_core.live.views import table as views_many
from dgp_core.live.views.evaluate import Evaluated
from dgp_core.live.views.playground import ViewMany, view, view_many
from dgp_core.training.train import TrainSpec
from tests.core.runs import moved, trained

pytestmark = pytest.mark.usefixtures("quick_compilation")

TRAIN = TrainSpec(steps=1_000_000, minibatch=None, decay=False)


def table(task="regression", n=90) -> Dataset:
    """Four inputs in units of their own, one of them constant; the second matters most."""
    rng = np.random.default_rng(7)
    X = rng.normal([10, 0, 5, 300], [2, 1, 0, 40], (n, 4))
    f = np.sin(2 * X[:, 1]) + 0.02 * (X[:, 3] - 300)
    Y = {
        "regression": 70 + 8 * f + rng.standard_normal(n),
        "multiclass": np.digitize(f, [-0.7, 0.7]),
        "counts": rng.poisson(np.exp(1 + 0.5 * f)),
    }[task]
    classes = ("low", "middle", "high") if task == "multiclass" else ()
    names = ("a", "b", "same", "c")
    return Dataset("table", X, Y[:, None].astype(float), names, ("y",), task, classes=classes)


@pytest.fixture(scope="module")
def run(quick_compilation) -> Run:
    return trained(Run(table(), ModelSpec(layers=2, inducing=12), TRAIN), 200)


@pytest.fixture(scope="module")
def seen(run) -> ViewMany:
    found = view(run, run.latest)
    assert isinstance(found, ViewMany)
    return found


def mixture(run: Run, model, X, n_samples):
    latent = predict_latent(model, run.scaler.inputs(X), jax.random.key(0), n_samples)
    observed = predict_observed(model, latent)
    return observed.affine(run.scaler.y_scale, run.scaler.y_mean)


def test_relevance_is_one_over_the_lengthscale_by_name(run, seen):
    lengthscales = np.exp(run.latest.deep.layers[0].kernel.log_lengthscales)
    order = np.argsort(lengthscales)
    assert seen.relevance.names == tuple(np.array(["a", "b", "c"])[order])
    np.testing.assert_allclose(seen.relevance.deep, 1 / lengthscales[order])
    rival = np.exp(run.latest.rival.layers[0].kernel.log_lengthscales)
    np.testing.assert_allclose(seen.relevance.rival, 1 / rival[order])
    assert seen.relevance.n_inputs == 3
    both = RBF.create(2, lengthscale=4.0) + Linear.create(2, variance=9.0)
    np.testing.assert_allclose(views_many.relevance(both), 3.0)


def test_the_single_layers_agreement_is_its_own_mixture(run, seen):
    one = mixture(run, run.latest.rival, run.dataset.X, 1)
    panel = seen.rival
    np.testing.assert_allclose(panel.predicted, one.mean[:, 0], rtol=1e-8)
    np.testing.assert_allclose(panel.band, one.quantile(views_many.BAND)[:, :, 0], rtol=1e-6)
    np.testing.assert_allclose(panel.pit, one.cdf(run.dataset.Y)[:, 0], atol=1e-8)
    np.testing.assert_allclose(
        panel.covered, inside(one.cdf(run.dataset.Y), seen.shares).mean((1, 2)), atol=1e-12
    )


def test_the_deep_agreement_is_that_of_thousands_of_paths(run, seen):
    many = mixture(run, run.latest.deep, run.dataset.X, 2000)
    sd = np.sqrt(many.variance[:, 0])
    assert np.abs((seen.deep.predicted - many.mean[:, 0]) / sd).mean() < 0.05
    expected = many.quantile(views_many.BAND)[:, :, 0]
    assert np.median(np.abs(seen.deep.band - expected) / sd) < 0.08
    assert np.abs(seen.deep.pit - many.cdf(run.dataset.Y)[:, 0]).mean() < 0.03


def test_responses_vary_one_input_and_keep_the_others_at_their_medians(run, seen):
    assert {r.name for r in seen.responses} == {"a", "b", "c"} and seen.value_name == "y"
    for response in seen.responses:
        X = np.repeat(np.median(run.dataset.X, 0)[None], len(response.x), 0)
        X[:, ("a", "b", "same", "c").index(response.name)] = response.x
        one = mixture(run, run.latest.rival, X, 1)
        np.testing.assert_allclose(response.rival, one.mean[:, 0], rtol=1e-8)
        quantile = one.quantile(views_many.BAND)[:, :, 0]
        np.testing.assert_allclose(response.rival_band, quantile, rtol=1e-6)
        assert (response.deep_band[0] < response.deep).all()
        assert (response.deep_band[1] > response.deep).all()


def test_hidden_layers_name_what_they_show(run, seen):
    first, last = seen.layers
    assert first.width == 3 and "principal component 2" in first.names[1]
    assert last.names == ("first principal component of the inputs", "y") and last.width == 1
    assert first.points.shape == last.points.shape == (90, 2)
    assert np.corrcoef(last.points[:, 1], run.dataset.Y[:, 0])[0, 1] > 0.8
    assert 0 <= first.departure <= 1 and last.departure == pytest.approx(1.0)


def test_several_classes_are_counted_and_binned():
    spec = ModelSpec(layers=1, inducing=12, likelihood="softmax")
    run = moved(Run(table("multiclass"), spec, TRAIN), 60)
    seen = view_many(run, run.latest)
    panel, y = seen.deep, run.dataset.Y[:, 0].astype(int)
    latent = predict_latent(run.latest.deep, run.scaler.inputs(run.dataset.X), jax.random.key(0), 1)
    assert np.abs(panel.probabilities - class_probabilities(run.latest.deep, latent)).max() < 0.03
    likeliest = panel.probabilities.argmax(1)
    for i in range(3):
        for j in range(3):
            assert panel.confusion[i, j] == np.sum((y == i) & (likeliest == j))
    bins = panel.reliability
    assert bins.counts.sum() == 90 and (bins.low <= bins.observed).all()
    right = (likeliest == y).mean()
    assert (bins.observed * bins.counts).sum() / 90 == pytest.approx(right)
    assert (bins.predicted * bins.counts).sum() / 90 == pytest.approx(panel.predicted.mean())
    assert seen.value_name.startswith("probability of ") and seen.responses[0].deep_band is None


def test_wilsons_interval_is_scipys():
    happened = np.arange(40) < 13
    bins = reliability(np.full(40, 0.33), happened).occupied()
    expected = stats.binomtest(13, 40).proportion_ci(0.95, "wilson")
    assert (bins.low[0], bins.high[0]) == pytest.approx((expected.low, expected.high))


@pytest.mark.parametrize(
    "likelihood",
    [Poisson.create(1, offset=1.0), NegativeBinomial.create(1, offset=1.0, size=1.5)],
    ids=["poisson", "nb"],
)
def test_counts_from_the_model_itself_are_evenly_placed(likelihood, rng):
    m, v = rng.normal(1, 0.5, (1, 4000)), rng.uniform(0.05, 0.3, (1, 4000))
    f = m[0] + np.sqrt(v[0]) * rng.standard_normal(4000)
    y = np.asarray(likelihood.sample(jax.random.key(0), jnp.asarray(f)[:, None]))[:, 0]
    band, pit = views_many._counts(likelihood, m, v, y)
    assert stats.kstest(pit, "uniform").pvalue > 0.01
    assert 0.93 < np.mean((band[0] <= y) & (y <= band[1])) < 0.99


def test_measurements_from_the_model_itself_are_evenly_placed(run):
    """y drawn from the deep model's own mixture at its own rows."""
    rows = np.random.default_rng(3).integers(0, 90, 400)
    X = run.dataset.X[rows]
    many = mixture(run, run.latest.deep, X, 500)
    y = many.sample(np.random.default_rng(4), 1)[0]
    data = Dataset("drawn", X, y, run.dataset.input_names, ("y",))
    fixed = views_many._Fixed.of(data, run.scaler)
    curves = np.zeros((len(views_many.SHARES), 3))
    numbers = views_many._numbers(Evaluated(run.latest.deep, run.size), curves, fixed)
    assert stats.kstest(numbers.pit, "uniform").pvalue > 0.01
