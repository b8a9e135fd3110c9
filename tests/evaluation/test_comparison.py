"""Forecasts against the estimators and closed forms; the verdict's rule against simulated truth."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from scipy import stats

from dgp_core.estimator import DeepGPClassifier, DeepGPRegressor
from dgp_core.evaluation import comparison, forecast, scores
from dgp_core.evaluation.comparison import (
    ScoreCard,
    binomial_test,
    calibration,
    compare,
    few_folds,
    fold_error,
    grouped_error,
    is_overconfident,
    paired_difference,
    score,
    table,
    verdict,
)
from dgp_core.evaluation.diagnostics import (
    confusion,
    pit_histogram,
    predicted_observed,
    reliability,
    residuals,
    worst_rows,
)
from dgp_core.evaluation.forecast import Forecast, deep_predictor, exact_predictor, linear_predictor
from dgp_core.gp import predict
from dgp_core.gp.data import Dataset, Scaler, sample_places, sample_rows
from dgp_core.gp.kernels import create_kernel
from dgp_core.gp.likelihoods import Poisson
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import DeepGP, ModelSpec, create_model
from dgp_core.gp.predict import _latent_rows, predict_latent
from dgp_core.gp.references import BayesianLinear, BayesianLogistic, ExactGP
from tests.core.textbook import mixture_scores

pytestmark = pytest.mark.usefixtures("quick_compilation")


def dataset(X, Y, task="regression", classes=()):
    inputs = tuple(f"x{d}" for d in range(X.shape[1]))
    return Dataset("made", X, Y, inputs, ("y",), task, classes=classes)


def card(model, log_density, fold=0, n_train=1000, **forecast):
    n = len(log_density)
    return ScoreCard(
        model=model,
        fold=fold,
        rows=np.arange(n),
        n_train=n_train,
        observed=np.zeros((n, 1)),
        forecast=Forecast(np.asarray(log_density, float), **forecast),
        task="regression",
        classes=(),
        scores={"log_likelihood": float(np.mean(log_density))},
        seconds_per_step=None,
        seconds=None,
    )


# Forecasts.


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 2)) * [1.0, 30.0]
    y = 100 + 10 * np.sin(2 * X[:, 0]) + rng.standard_normal(60)
    model = DeepGPRegressor(inducing=8, steps=0, seed=2).fit(X[:40], y[:40])
    # Not trained, but with an uncertain inner layer, so that components differ.
    inner, last = model.state_.model.layers
    last = replace(last, q_mean=last.q_mean + rng.standard_normal((8, 1)))
    layers = (replace(inner, q_factor=150 * inner.q_factor), last)
    model.state_ = replace(model.state_, model=replace(model.state_.model, layers=layers))
    assert model.predict_mixture(X[:5]).between.min() > 1e-3
    return model, X, y


def test_a_deep_forecast_is_the_estimators(fitted):
    model, X, y = fitted
    rows = dataset(X[40:], y[40:, None])
    f = deep_predictor(model.state_.model, model.scaler_, seed=2)(rows)
    mixture = model.predict_mixture(X[40:])
    np.testing.assert_allclose(f.log_density, model.log_density(X[40:], y[40:]), rtol=1e-12)
    np.testing.assert_allclose(f.mean[:, 0], model.predict(X[40:]), rtol=1e-12)
    quantiles = mixture.quantile([0.05, 0.5, 0.95])
    np.testing.assert_allclose([f.low, f.median, f.high], quantiles, rtol=1e-9)
    made = score("deep", lambda _: f, rows, n_train=40).scores
    assert made == pytest.approx(mixture_scores(mixture, rows.Y), rel=1e-4)


def test_a_forecast_of_any_number_of_rows_compiles_few_shapes(fitted):
    model, X, y = fitted
    predict = deep_predictor(model.state_.model, model.scaler_, seed=2)
    whole = predict(dataset(X[:13], y[:13, None]))
    size = _latent_rows._cache_size()
    for n in (9, 12, 16):
        part = predict(dataset(X[:n], y[:n, None]))
        np.testing.assert_array_equal(part.log_density[:9], whole.log_density[:9])
    assert _latent_rows._cache_size() == size


def test_blocks_are_joined_in_order(fitted, monkeypatch):
    model, X, y = fitted
    rows = dataset(X[:30], y[:30, None])
    whole = deep_predictor(model.state_.model, model.scaler_)(rows)
    monkeypatch.setattr(forecast, "BLOCK", 8)
    parts = deep_predictor(model.state_.model, model.scaler_)(rows)
    for name in ("log_density", "mean", "low", "pit", "crps"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-10)
    assert parts.inside[0.9].shape == (30, 1)


def test_student_forecasts_have_the_quantiles_of_an_integral(rng):
    X = rng.uniform(-2, 2, (30, 1))
    rows = dataset(X, 50 + 5 * X + 3 * rng.standard_t(3, (30, 1)))
    scaler = Scaler.fit(rows)
    model = create_model(ModelSpec(layers=1, inducing=8, likelihood="student_t"), scaler.inputs(X))
    f = deep_predictor(model, scaler)(rows)
    latent = predict_latent(model, scaler.inputs(X), jax.random.key(0))
    m, v = latent.means[0, :, 0], latent.variances[0, :, 0]
    eps = np.linspace(-8, 8, 4001)
    weight = stats.norm.pdf(eps)
    F = m[:, None] + np.sqrt(v)[:, None] * eps
    likelihood: Any = model.likelihood
    nu, s = float(likelihood.degrees[0]), float(likelihood.scale[0])
    for bound, level in ((f.low, 0.05), (f.median, 0.5), (f.high, 0.95)):
        z = (scaler.outputs(bound) - F) / s
        share = stats.t.cdf(z, nu) @ weight / weight.sum()
        # Of 400 draws, a quantile's own level is off by √(p(1−p)/400).
        error = np.sqrt(level * (1 - level) / 400)
        assert np.abs(share - level).max() < 4.5 * error
        assert share.mean() == pytest.approx(level, abs=1.5 * error)
    density = stats.t.pdf((scaler.outputs(rows.Y) - F) / s, nu) @ weight / weight.sum() / s
    np.testing.assert_allclose(f.log_density, np.log(density / scaler.y_scale[0]), atol=1e-4)


def test_class_forecasts_are_the_estimators(rng):
    X = rng.uniform(-2, 2, (30, 1))
    y = (X[:, 0] > 0.3 * rng.standard_normal(30)).astype(int)
    model = DeepGPClassifier(1, 8, steps=0).fit(X, y)
    rows = dataset(X, y[:, None].astype(float), "binary", ("no", "yes"))
    f = deep_predictor(model.state_.model, model.scaler_)(rows)
    np.testing.assert_allclose(f.probabilities, model.predict_proba(X), rtol=1e-9)
    np.testing.assert_allclose(f.log_density, np.log(f.probabilities[np.arange(30), y]), rtol=1e-6)
    made = score("c", lambda _: f, rows, n_train=30).scores
    theirs = scores.class_scores(f.probabilities, y)
    assert made == pytest.approx({name: theirs[name] for name in made}, rel=1e-6)


def test_the_straight_line_of_numbers_is_bayesian(rng):
    X = rng.standard_normal((50, 3))
    Y = X @ [[1.0], [2.0], [0.0]] + 0.3 * rng.standard_normal((50, 1))
    f = linear_predictor(dataset(X[:40], Y[:40]))(dataset(X[40:], Y[40:]))
    line = BayesianLinear.fit(X[:40], Y[:40]).predict(X[40:])
    mean, sd = line.means[0], np.sqrt(line.variances[0])
    np.testing.assert_allclose(f.log_density, stats.norm.logpdf(Y[40:], mean, sd)[:, 0])
    np.testing.assert_allclose(f.pit, stats.norm.cdf(Y[40:], mean, sd), atol=1e-12)


def test_an_honest_line_of_counts_covers_what_it_says(rng):
    X = rng.uniform(-1, 1, (4000, 1))
    Y = rng.poisson(np.exp(1 + X)).astype(float)
    rows = dataset(X, Y, "counts")
    f = linear_predictor(rows)(rows)
    # So many rows leave hardly a doubt about the weights.
    np.testing.assert_allclose(f.log_density, stats.poisson.logpmf(Y, f.mean)[:, 0], 1e-3, 1e-3)
    # The interval of whole numbers holds its share and, at its ends, some more.
    exact = stats.poisson.cdf(stats.poisson.ppf(0.95, f.mean), f.mean)
    exact -= stats.poisson.cdf(stats.poisson.ppf(0.05, f.mean) - 1, f.mean)
    made = score("linear", lambda _: f, rows, n_train=4000)
    assert made.scores["coverage_90"] == pytest.approx(exact.mean(), abs=0.02)
    assert np.abs(np.sort(f.pit[:, 0]) - np.linspace(0, 1, 4000)).max() < 0.03


def test_the_line_of_classes_is_logistic_regression(rng):
    X = rng.standard_normal((200, 1))
    y = rng.uniform(size=200) < 1 / (1 + np.exp(-2 * X[:, 0]))
    rows = dataset(X, y[:, None].astype(float), "binary", ("no", "yes"))
    f = linear_predictor(rows)(rows)
    line = BayesianLogistic.fit(X, y, 2)
    np.testing.assert_allclose(f.probabilities, line.predict_proba(X))
    np.testing.assert_allclose(
        np.exp(f.log_density), f.probabilities[np.arange(200), y.astype(int)]
    )


def test_the_exact_gp_is_fitted_as_far_as_in_one_go(rng):
    X = rng.uniform(-2, 2, (30, 1))
    Y = 7 + np.sin(2 * X) + 0.1 * rng.standard_normal((30, 1))
    rows = dataset(X, Y)
    f = exact_predictor(rows)(rows)
    scaler = Scaler.fit(rows)
    exact = ExactGP.fit(create_kernel("rbf", 1), scaler.inputs(X), scaler.outputs(Y))
    mixture = exact.predict(scaler.inputs(X)).affine(scaler.y_scale, scaler.y_mean)
    np.testing.assert_allclose(f.mean, mixture.mean, atol=2e-3)
    np.testing.assert_allclose(f.log_density.mean(), mixture.log_density(Y).mean(), atol=2e-3)
    with pytest.raises(ValueError, match="regression"):
        exact_predictor(replace(rows, task="counts"))


def test_of_very_many_rows_some_are_scored(monkeypatch, rng):
    monkeypatch.setattr(comparison, "MOST_SCORED", 20)
    X = rng.standard_normal((100, 1))
    rows = dataset(X, X)
    made = score("linear", linear_predictor(rows), rows, n_train=9, rows=np.arange(500, 600))
    assert len(set(made.rows)) == 20 and set(made.rows) <= set(range(500, 600))
    np.testing.assert_array_equal(made.observed, X[made.rows - 500])


# Errors.


def test_the_error_over_folds_allows_for_shared_rows():
    values = np.array([1.0, 2.0, 4.0, 5.0])
    naive = stats.sem(values)
    assert fold_error(values, 0.0) == pytest.approx(naive)
    assert fold_error(values, 1 / 3) == pytest.approx(naive * np.sqrt(1 + 4 / 3))


def test_the_error_over_rows_of_a_mean_is_the_textbooks(rng):
    made = card(
        "m", rng.standard_normal(20), mean=rng.standard_normal((20, 1)), crps=np.ones((20, 1))
    )
    made = replace(made, scores=made.forecast.scores(made.observed))
    found = table([made])["m"]
    # Twenty groups of one row: the jackknife's error of a mean is s/√n.
    assert found["log_likelihood"].error == pytest.approx(stats.sem(made.forecast.log_density))
    assert found["crps"].error == pytest.approx(0.0)
    squared = made.forecast.mean[:, 0] ** 2
    delta = stats.sem(squared) / (2 * np.sqrt(squared.mean()))
    assert found["rmse"].error == pytest.approx(delta, rel=0.25)


def test_the_table_is_of_the_folds_once_there_are_two(rng):
    numbers = dict(mean=np.zeros((50, 1)), crps=np.ones((50, 1)))
    own = [card("m", rng.standard_normal(50) + k, k, 100, **numbers) for k in range(3)]
    own = [replace(c, scores=c.forecast.scores(c.observed)) for c in own]
    assert table(own[:1])["m"]["log_likelihood"].n == 50
    assert table(own[:2])["m"]["log_likelihood"].n == 50
    means = [c.scores["log_likelihood"] for c in own[1:]]
    found = table(own)["m"]["log_likelihood"]
    assert (found.value, found.n) == (pytest.approx(np.mean(means)), 2)
    assert found.error == pytest.approx(np.sqrt((1 / 2 + 0.5) * np.var(means, ddof=1)))


def _rate(rng, K, n, spread, shift, noise, trials=1500):
    """How often the rule says better and worse, of scores with a shift in standard errors."""
    words = []
    size = np.sqrt((1 + spread**2) / (K * n)) * (few_folds(K) if K > 1 else 1.0)
    for _ in range(trials):
        d = noise((K, n)) + spread / np.sqrt(n) * rng.standard_normal((K, 1)) * (K > 1)
        mean, error = paired_difference(list(d + shift * size), 1 / (K - 1) if K > 1 else 0.11)
        words.append(np.sign(mean) * (abs(mean) > comparison.ERRORS * error))
    return np.mean(np.array(words) > 0), np.mean(np.array(words) < 0)


@pytest.mark.parametrize("K, n", [(1, 100), (3, 30), (5, 4), (5, 40), (10, 20)])
@pytest.mark.parametrize("heavy", [False, True])
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_the_rule_seldom_finds_what_is_not_there_and_finds_what_is(K, n, heavy, spread):
    rng = np.random.default_rng(8)

    def noise(shape):
        return rng.standard_t(4, shape) / np.sqrt(2) if heavy else rng.exponential(1, shape) - 1

    better, worse = _rate(rng, K, n, spread, 0.0, noise)
    assert better + worse <= 0.08
    better, worse = _rate(rng, K, n, spread, 6.0, noise)
    assert better >= 0.9 and worse == 0


@pytest.mark.parametrize(("G", "n"), [(4, 50), (8, 30), (20, 20)])
def test_rows_of_a_held_out_group_count_together(G, n):
    """Rows of which half the variance is their group's: the error is that of the groups' means, and
    neither the rule nor the test of intervals finds what is not there."""
    rng, trials = np.random.default_rng(4), 600
    groups = np.repeat(np.arange(G), n)
    means, errors, found, wrong, alone = [], [], 0, 0, 0
    for _ in range(trials):
        z = np.sqrt(0.5) * (rng.standard_normal(G)[groups] + rng.standard_normal(G * n))
        means.append(z.mean())
        errors.append(grouped_error(z, groups))
        mean, error = paired_difference([z], 0.1, groups)
        found += abs(mean) > comparison.ERRORS * error
        inside = np.abs(z) < stats.norm.ppf(0.95)  # 90 % of rows, many or few of a group
        own = card("m", z, mean=z[:, None], inside={0.9: inside[:, None]})
        wrong += is_overconfident([replace(own, groups=groups)])
        alone += is_overconfident([own])
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(means), rel=0.1)
    assert found / trials <= 0.08 and wrong / trials <= 0.08
    assert alone / trials > 0.12  # as if rows were independent


def test_errors_and_words_of_held_out_groups(rng):
    """With a row each, groups change nothing; of one group nothing is said."""
    y, groups = rng.standard_normal(400), np.repeat(np.arange(10), 40)
    assert grouped_error(y, np.arange(400)) == pytest.approx(y.std(ddof=1) / 20)
    y += 3 * rng.standard_normal(10)[groups]
    numbers = dict(mean=y[:, None], crps=np.ones((400, 1)), inside={0.9: np.abs(y)[:, None] < 5})
    own = card("deep", y, **numbers)
    own = replace(own, scores=own.forecast.scores(own.observed))
    by_group = replace(own, groups=groups)
    alone, together = (table([c])["deep"]["log_likelihood"].error for c in (own, by_group))
    by_hand = np.std([y[groups == g].mean() for g in range(10)], ddof=1) / np.sqrt(10)
    assert together == pytest.approx(by_hand, rel=1e-6) and alone < together / 3
    assert "of 400 rows of 10 groups" in calibration([by_group])
    lonely = [replace(c, groups=np.zeros(400)) for c in (own, replace(own, model="linear"))]
    lonely = [
        replace(c, question="from groups of “shop” that it was not trained on") for c in lonely
    ]
    found = verdict(lonely)
    assert found.word == "too_few" and "of 1 group only" in found.sentence
    assert "too few groups to tell" in found.calibration and found.honest


def test_the_rule_holds_for_real_folds_of_models_that_are_alike():
    """Two lines, each with a useless input of its own: by symmetry neither is better."""
    rng = np.random.default_rng(3)
    n, K, trials, found = 60, 5, 400, 0
    for _ in range(trials):
        X, y = rng.standard_normal((n, 7)), rng.standard_normal(n)
        y += X[:, 0]
        differences = []
        for k in range(K):
            held = np.arange(n) % K == k
            log_p = []
            for columns in ([0, 1, 2, 3], [0, 4, 5, 6]):
                A = np.column_stack([np.ones(n), X[:, columns]])
                w = np.linalg.lstsq(A[~held], y[~held], rcond=None)[0]
                s = np.sqrt(np.mean((y[~held] - A[~held] @ w) ** 2))
                log_p.append(stats.norm.logpdf(y[held], A[held] @ w, s))
            differences.append(log_p[0] - log_p[1])
        mean, error = paired_difference(differences, 1 / (K - 1))
        found += abs(mean) > max(comparison.ERRORS * error, comparison.NEGLIGIBLE)
    assert found / trials <= 0.08


# The verdict.


def cards_of(rng, folds, **means):
    """Cards whose rows share their noise, so that differences are the means'."""
    made = []
    for fold in range(1, folds + 1) if folds else [0]:
        common = 3 * rng.standard_normal(40)
        for model, mean in means.items():
            own = common + mean + 0.05 * rng.standard_normal(40)
            made.append(card(model, own, fold, n_train=160))
    return made


@pytest.mark.parametrize("folds", [0, 5])
@pytest.mark.parametrize(
    ("means", "word", "start"),
    [
        (dict(deep=0.5, single=0.0, linear=-1.0), "deep", "The deep model is better by 0."),
        (dict(deep=0.0, single=0.0, linear=-1.0), "same", "No difference beyond noise"),
        (dict(deep=-0.5, single=0.0, linear=-1.0), "single", "The single layer is better by 0."),
        (dict(deep=0.0, single=0.0, linear=0.0), "linear", "Neither model beats the straight line"),
        (dict(deep=-0.5, single=-0.3, linear=0.0), "linear", "Neither model beats"),
        (dict(deep=0.5, single=0.0), "deep", "The deep model is better"),
        (dict(single=0.5, linear=0.0), "single", "The single layer beats the straight line by 0."),
        (dict(single=0.0, linear=0.0), "linear", "The single layer does not beat"),
        (dict(deep=0.5), "deep", "There is only the deep model"),
    ],
)
def test_the_verdict_says_what_is_so(folds, means, word, start):
    found = verdict(cards_of(np.random.default_rng(4), folds, **means))
    assert found.word == word
    assert found.sentence.startswith(start)
    if word in ("deep", "single") and found.comparisons:
        assert ("over 5 folds" if folds else "on 40 rows") in found.sentence


def scored_cards(rng, folds, inside, n=40, task="regression", **rmse):
    """Cards with RMSEs, and a 90 % interval that holds the first `inside` rows of each."""
    made = []
    held = (np.arange(n) < inside)[:, None]
    for fold in range(1, folds + 1) if folds else [0]:
        common = rng.standard_normal(n)
        for model, error in rmse.items():
            log_p = common - error + 0.01 * rng.standard_normal(n)
            own = card(model, log_p, fold, n_train=160, inside={0.9: held})
            made.append(replace(own, task=task, scores={**own.scores, "rmse": error}))
    return made


def test_three_folds_need_more_than_two_standard_errors(rng):
    values = [np.full(50, v) + 1e-6 * rng.standard_normal(50) for v in (0.5, 1.0, 1.5)]
    mean, error = paired_difference(values, 0.0)
    # s/√3 times the 97.7 % quantile of Student's t of two degrees, over 2.
    assert mean == pytest.approx(1.0)
    assert 2 * error == pytest.approx(4.5266 * 0.5 / np.sqrt(3), rel=1e-3)
    assert few_folds(1000) == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize(
    ("k", "n", "share"), [(5, 12, 0.9), (36, 40, 0.9), (3, 3, 0.5), (0, 7, 0.2)]
)
def test_the_binomial_test_is_scipys(k, n, share):
    assert binomial_test(k, n, share) == pytest.approx(stats.binomtest(k, n, share).pvalue)


def test_the_verdict_gives_the_users_unit(rng):
    made = scored_cards(rng, 5, 36, deep=2.75, single=2.9, linear=4.0)
    found = verdict(made)
    assert found.sentence.startswith(
        "The deep model is better: RMSE 2.75 against 2.9 (0.150 ± 0.00"
    )
    assert (
        "nats per held-out row, over 5 folds)" in found.sentence and "One split" not in found.scope
    )
    found = verdict(scored_cards(rng, 5, 36, deep=2.9, single=2.75, linear=4.0))
    assert found.sentence.startswith("The single layer is better: RMSE 2.75 against 2.9 (")
    found = verdict(scored_cards(rng, 5, 36, deep=5.0, single=4.5, linear=4.0))
    assert "the better of them is at RMSE 4.5 against 4, −0.5" in found.sentence


def test_a_better_likelihood_with_a_larger_error_is_said_to_be_that(rng):
    made = scored_cards(rng, 5, 36, deep=2.75, single=2.9, linear=4.0)
    swapped = {"deep": 2.9, "single": 2.75}
    made = [
        replace(c, scores=c.scores | {"rmse": swapped[c.model]}) if c.model in swapped else c
        for c in made
    ]
    sentence = verdict(made).sentence
    assert sentence.startswith("The deep model is better by 0.150")
    assert "though its RMSE is 2.9 against 2.75" in sentence


def test_one_split_judges_the_fitted_models_only(rng):
    found = verdict(scored_cards(rng, 0, 36, deep=1.0, single=2.0, linear=3.0))
    assert "not the methods" in found.scope and found.text.endswith(found.scope)


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        (17, "held 42 % ± 8 % of 40 rows: overconfident; a Student-t likelihood"),
        (36, "held 90 % ± 5 % of 40 rows: as they should."),
        (40, "held 100 % ± 0 % of 40 rows: underconfident"),
    ],
)
def test_the_verdict_says_whether_intervals_can_be_believed(rng, inside, words):
    found = verdict(scored_cards(rng, 0, inside, deep=1.0, single=2.0, linear=3.0))
    assert f"Its 90 % intervals {words}" in found.calibration and found.calibration in found.text


def test_the_verdict_says_whether_class_probabilities_can_be_believed(rng):
    p = np.full((200, 2), [0.1, 0.9])
    for share, word in ((0.6, "overconfident"), (0.9, "honest")):
        codes = (np.arange(200) < 200 * share).astype(float)[:, None]
        made = [
            replace(card(m, np.full(200, v), probabilities=p), observed=codes, task="binary")
            for m, v in (("deep", 0.0), ("single", -1.0))
        ]
        said = verdict(made).calibration
        assert f"given 90 % on average, and was right in {100 * share:.0f} % ±" in said
        assert word in said


def test_a_sure_but_tiny_difference_does_not_matter(rng):
    common = rng.standard_normal(10_000)
    pair = [card("deep", common + 0.005), card("single", common)]
    assert compare(pair, "deep", "single").word == "same"
    pair = [card("deep", common + 0.02), card("single", common)]
    assert compare(pair, "deep", "single").word == "better"
    assert compare(pair, "single", "deep").word == "worse"


def test_few_rows_say_nothing(rng):
    found = verdict([card("deep", np.ones(4)), card("single", np.zeros(4))])
    assert found.word == "too_few" and "4 rows were held out" in found.sentence


def test_models_are_compared_on_folds_that_both_have(rng):
    made = [card("deep", np.ones(30), fold) for fold in (0, 1)]
    made += [card("linear", np.zeros(30), fold) for fold in (0, 1, 2)]
    found = compare(made, "deep", "linear")
    assert (found.n_folds, found.n_rows, found.difference) == (1, 30, 1.0)
    with pytest.raises(ValueError, match="same rows"):
        compare([card("a", np.ones(3), 1), card("b", np.ones(3), 2)], "a", "b")


# Pictures.


def test_honest_pit_values_fill_flat_bars(rng):
    pit = rng.uniform(size=(5000, 1))
    h = pit_histogram(card("m", np.zeros(5000), pit=pit))
    assert h.shares.sum() == pytest.approx(1) and h.low < 0.1 < h.high
    assert np.mean((h.shares >= h.low) & (h.shares <= h.high)) >= 0.8
    narrow = pit_histogram(card("m", np.zeros(5000), pit=np.round(pit)))
    assert narrow.shares[0] > h.high and narrow.shares[5] < h.low


def test_reliability_counts_what_came_true(rng):
    p = rng.uniform(size=20_000)
    y = rng.uniform(size=20_000) < p
    made = card("m", np.zeros(20_000), probabilities=np.column_stack([1 - p, p]))
    made = replace(made, observed=y[:, None].astype(float), classes=("no", "yes"))
    r = reliability(made)
    assert r.counts.sum() == 20_000
    assert np.all(np.abs(r.observed - r.predicted) < 4 * r.error)
    np.testing.assert_allclose(r.predicted, np.arange(10) / 10 + 0.05, atol=0.01)
    counts = confusion(made)
    assert counts[1, 0] == np.sum(y & (p < 0.5)) and counts.sum() == 20_000


def test_reliability_of_many_classes_is_of_the_likeliest():
    p = np.array([[0.7, 0.2, 0.1], [0.1, 0.15, 0.75], [0.7, 0.2, 0.1]])
    made = replace(
        card("m", np.zeros(3), probabilities=p), observed=np.array([[0.0], [2.0], [1.0]])
    )
    r = reliability(made, n_bins=4)
    assert r.counts.tolist() == [0, 0, 2, 1]
    np.testing.assert_allclose(r.observed[2:], [0.5, 1.0])
    assert np.isnan(r.observed[0])
    one = reliability(made, n_bins=4, of_class=1)
    assert one.counts.tolist() == [3, 0, 0, 0] and one.observed[0] == pytest.approx(1 / 3)


def test_rows_of_little_likelihood_come_first(fitted):
    model, X, y = fitted
    y = y.copy()
    y[45] += 100
    rows = dataset(X[40:], y[40:, None])
    made = score(
        "deep",
        deep_predictor(model.state_.model, model.scaler_, seed=2),
        rows,
        n_train=40,
        rows=np.arange(40, 60),
    )
    worst = worst_rows(made, 3)
    assert worst[0].row == 45 and len(worst) == 3
    assert f"{y[45]:.4g}, predicted" in worst[0].surprise
    left = residuals(made)
    np.testing.assert_allclose(left.residual, y[40:] - model.predict(X[40:]))
    assert left.standardised[5] > 6 and np.isfinite(left.standardised).all()
    drawn = predicted_observed(made)
    assert np.all(drawn.low <= drawn.high) and drawn.rows[5] == 45


def test_surprising_classes_are_named_safely():
    p = np.array([[0.9, 0.1], [0.4, 0.6]])
    made = replace(
        card("m", np.log([0.1, 0.6]), probabilities=p),
        observed=np.array([[1.0], [1.0]]),
        classes=("no", "y\u202ees"),
    )
    first, second = worst_rows(made)
    assert "given 10.0%; no was given 90.0%" in first.surprise and "\u202e" not in first.surprise
    assert "likeliest" in second.surprise


def test_the_wrong_picture_is_refused_with_the_right_one():
    numbers = card("m", np.zeros(3), pit=np.zeros((3, 1)), mean=np.zeros((3, 1)))
    classes = card("m", np.zeros(3), probabilities=np.full((3, 2), 0.5))
    for draw, wrong in (
        (pit_histogram, classes),
        (residuals, classes),
        (predicted_observed, classes),
        (reliability, numbers),
        (confusion, numbers),
    ):
        with pytest.raises(ValueError, match="instead"):
            draw(wrong)


def test_draws_of_counts_have_their_moments(rng):
    latent = Mixture(rng.uniform(-1, 2, (2, 40, 1)), rng.uniform(0, 0.3, (2, 40, 1)))
    model = DeepGP((), Poisson.create(1))
    y = predict.draw_observations(model, latent, rng, 20_000)
    # E y = E e^f and Var y = E e^f + Var e^f, with E e^(kf) = mean of e^(km + k²v/2).
    first, second = (
        np.exp(k * latent.means + k * k * latent.variances / 2).mean(0) for k in (1, 2)
    )
    sd = np.sqrt(first + second - first**2)
    assert np.abs((y.mean(0) - first) / (sd / np.sqrt(20_000))).max() < 4.5
    np.testing.assert_allclose(y.std(0), sd, rtol=0.06)


@pytest.mark.parametrize("most", [10, 40, 100])
def test_places_are_sampled_as_their_rows_are(most):
    """So that a trial need not copy rows of which it takes few."""
    X = np.arange(60.0)[:, None]
    data, places = Dataset("d", X, X, ("x",), ("y",)), np.random.default_rng(1).permutation(60)[:40]
    rows, chosen = sample_rows(data.take(places), most)
    few = sample_places(places, most)
    np.testing.assert_array_equal(places[chosen], few)
    np.testing.assert_array_equal(rows.X, data.take(few).X)
