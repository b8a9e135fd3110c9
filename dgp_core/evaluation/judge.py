"""Which model to believe: held-out scores with their errors, and a plain verdict.

Every number is about rows that the model has not seen, in the user's units.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields

import jax
import numpy as np
from scipy import stats

from dgp_core.evaluation import scores
from dgp_core.gp.data import Dataset, Scaler, Task
from dgp_core.gp.kernels import create_kernel
from dgp_core.gp.likelihoods import Gaussian, Poisson, StudentT
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import DeepGP
from dgp_core.gp.predict import class_probabilities, log_density, predict_latent, predict_observed
from dgp_core.gp.references import ExactGP, LinearRegression, LogisticRegression, PoissonRegression
from dgp_core.tables.plain import visible

MOST_SCORED = 10_000
"""Held-out rows of one split that are scored; of more, so many by chance."""

BLOCK = 1024
"""Rows that are predicted together; fewer are padded to a power of two."""

DRAWS = 400
"""Observations drawn a row where the noise is not Gaussian."""

LINEAR_ROWS = 100_000
"""Rows that a linear model is fitted to, at the most: enough for any number of its weights."""

SHARE = 0.9
"""What the interval between `low` and `high` should hold."""

NEGLIGIBLE = 0.01
"""Nats a row below which a difference does not matter, however sure: 1 % of a density."""

ERRORS = 2.0
"""A difference counts from so many standard errors."""

FEWEST_ROWS = 20
"""Held-out rows without which nothing can be said."""

RULE = (
    "Models are compared row by row, by the log-likelihood that they give to what was held out. "
    f"“Better” means more than {ERRORS:g} standard errors, and more than {NEGLIGIBLE:g} nats a row "
    f"(about {100 * NEGLIGIBLE:g} % of probability). Over folds, the standard error allows for "
    "training sets that overlap (Nadeau and Bengio 2003), and is never taken smaller than that of "
    "the rows; with one split it is that of the rows."
)


@dataclass(frozen=True, eq=False)
class Forecast:
    """What a model says of n held-out rows, and how that fits what was observed there."""

    log_density: np.ndarray
    """log p(y) of each row (n,), all outputs together."""
    mean: np.ndarray | None = None
    """(n, P), as everything below; None for classes."""
    median: np.ndarray | None = None
    low: np.ndarray | None = None
    """Where the central 90 % begin …"""
    high: np.ndarray | None = None
    """… and end."""
    pit: np.ndarray | None = None
    """P(Y ≤ y), a uniform number where predictions are honest; between two values for counts."""
    crps: np.ndarray | None = None
    inside: dict[float, np.ndarray] = field(default_factory=dict)
    """For each share, whether y is inside the central interval that should hold it."""
    probabilities: np.ndarray | None = None
    """Of each class (n, C); None for numbers."""

    def take(self, n: int) -> "Forecast":
        """The first n rows."""
        return _each_field([self], lambda parts: parts[0][:n])


Predictor = Callable[[Dataset], Forecast]
"""Rows in the user's units to a forecast."""


def _each_field(parts: list[Forecast], join: Callable) -> Forecast:
    """One forecast of several, array by array."""
    arrays = {}
    for item in fields(Forecast):
        values = [getattr(part, item.name) for part in parts]
        if item.name == "inside":
            arrays["inside"] = {share: join([v[share] for v in values]) for share in values[0]}
        elif values[0] is not None:
            arrays[item.name] = join(values)
    return Forecast(**arrays)


def _in_blocks(rows: Dataset, block: Callable[[np.ndarray, np.ndarray, int], Forecast]) -> Forecast:
    """A forecast made block by block, in few shapes; short blocks are padded with their first row.

    `block` takes X, Y and the block's number.
    """
    n = len(rows)
    size = min(BLOCK, max(8, 1 << (n - 1).bit_length()))
    parts = []
    for i, start in enumerate(range(0, n, size)):
        index = np.arange(start, start + size)
        index[index >= n] = start
        part = block(rows.X[index], rows.Y[index], i)
        parts.append(part.take(min(size, n - start)))
    return _each_field(parts, np.concatenate)


def _from_mixture(mixture: Mixture, Y: np.ndarray, log_p: np.ndarray) -> Forecast:
    """Exact, where each component is the distribution of y itself."""
    low, median, high = mixture.quantile(np.array([(1 - SHARE) / 2, 0.5, (1 + SHARE) / 2]))
    pit = mixture.cdf(Y)
    return Forecast(
        log_density=log_p,
        mean=mixture.mean,
        median=median,
        low=low,
        high=high,
        pit=pit,
        crps=mixture.crps(Y),
        inside={share: np.abs(pit - 0.5) <= share / 2 for share in scores.COVERAGES},
    )


def _from_draws(
    y: np.ndarray, mean: np.ndarray, Y: np.ndarray, log_p: np.ndarray, rng: np.random.Generator
) -> Forecast:
    """From observations drawn (K, n, P), where the noise is not Gaussian."""
    draws = scores.Draws(y)
    shares = np.array([SHARE, *scores.COVERAGES])
    levels = np.concatenate([(1 - shares) / 2, (1 + shares) / 2, [0.5]])
    q = draws.quantile(levels)
    low, high = q[: len(shares)], q[len(shares) : -1]
    inside = (low[1:] <= Y) & (Y <= high[1:])
    return Forecast(
        log_density=log_p,
        mean=mean,
        median=q[-1],
        low=low[0],
        high=high[0],
        pit=draws.pit(Y, rng),
        crps=draws.crps(Y),
        inside=dict(zip(scores.COVERAGES, inside, strict=True)),
    )


def draw_observations(
    model: DeepGP, latent: Mixture, rng: np.random.Generator, n_draws: int
) -> np.ndarray:
    """Draws of y in standard units (n_draws, N, P): components by turns, f ~ q_s, y ~ p(y|f).

    For counts and for Student's noise.
    """
    s = np.arange(n_draws) % len(latent.means)
    eps = rng.standard_normal((n_draws, *latent.means.shape[1:]))
    F = latent.means[s] + np.sqrt(latent.variances[s]) * eps
    if isinstance(model.likelihood, Poisson):
        return rng.poisson(np.exp(np.minimum(F, 40.0))).astype(np.float64)
    assert isinstance(model.likelihood, StudentT)
    nu, scale = np.asarray(model.likelihood.degrees), np.asarray(model.likelihood.scale)
    return F + scale * rng.standard_t(np.broadcast_to(nu, F.shape))


def deep_predictor(model: DeepGP, scaler: Scaler, seed: int = 0, n_samples: int = 100) -> Predictor:
    """Forecasts of a deep or single-layer GP, by the mixture that the estimators predict with."""
    key = jax.random.fold_in(jax.random.key(seed), 1)

    def block(X: np.ndarray, Y: np.ndarray, i: int) -> Forecast:
        latent = predict_latent(model, scaler.inputs(X), key, n_samples, shared=True)
        log_p = log_density(model, latent, scaler.outputs(Y)) - np.log(scaler.y_scale).sum()
        if hasattr(model.likelihood, "class_probabilities"):
            return Forecast(log_p, probabilities=class_probabilities(model, latent))
        observed = predict_observed(model, latent).affine(scaler.y_scale, scaler.y_mean)
        if isinstance(model.likelihood, Gaussian):
            return _from_mixture(observed, Y, log_p)
        rng = np.random.default_rng([seed, i])
        y = scaler.outputs_back(draw_observations(model, latent, rng, DRAWS))
        return _from_draws(y, observed.mean, Y, log_p, rng)

    return lambda rows: _in_blocks(rows, block)


def straight_line(
    train: Dataset, seed: int = 0
) -> LinearRegression | LogisticRegression | PoissonRegression:
    """Least squares, logistic or Poisson regression, as the task wants it."""
    train = sample_rows(train, LINEAR_ROWS, seed)[0]
    if train.task == "regression":
        return LinearRegression.fit(train.X, train.Y)
    if train.task == "counts":
        return PoissonRegression.fit(train.X, train.Y)
    return LogisticRegression.fit(train.X, train.Y, max(2, len(train.classes)))


def linear_predictor(train: Dataset, seed: int = 0) -> Predictor:
    """Forecasts of the straight line."""
    line = straight_line(train, seed)

    def block(X: np.ndarray, Y: np.ndarray, i: int) -> Forecast:
        if isinstance(line, LinearRegression):
            mixture = line.predict(X)
            return _from_mixture(mixture, Y, mixture.log_density(Y).sum(1))
        if isinstance(line, PoissonRegression):
            rate, rng = line.predict_rate(X), np.random.default_rng([seed, i])
            y = rng.poisson(rate, (DRAWS, *rate.shape)).astype(np.float64)
            return _from_draws(y, rate, Y, stats.poisson.logpmf(Y, rate).sum(1), rng)
        p = line.predict_proba(X)
        chosen = np.take_along_axis(p, Y.astype(int), 1)[:, 0]
        return Forecast(np.log(np.maximum(chosen, 1e-300)), probabilities=p)

    return lambda rows: _in_blocks(rows, block)


def exact_predictor(
    train: Dataset,
    kernel: str = "rbf",
    max_steps: int = 200,
    go_on: Callable[[], bool] = lambda: True,
) -> Predictor:
    """Forecasts of the exact GP, its hyperparameters of largest evidence; for regression.

    `go_on` is asked now and then; False ends the fit where it is.
    """
    if train.task != "regression":
        raise ValueError("The exact GP is for regression: its formula needs Gaussian noise.")
    scaler = Scaler.fit(train)
    X, Y = scaler.inputs(train.X), scaler.outputs(train.Y)
    start, noise, before = create_kernel(kernel, X.shape[1]), 0.01, -np.inf
    for _ in range(0, max_steps, 20):
        exact = ExactGP.fit(start, X, Y, noise, 20)
        start, noise, evidence = exact.kernel, float(exact.noise_variance), exact.evidence
        if evidence - before < 1e-3 or not go_on():
            break
        before = evidence

    def block(X: np.ndarray, Y: np.ndarray, i: int) -> Forecast:
        mixture = exact.predict(scaler.inputs(X)).affine(scaler.y_scale, scaler.y_mean)
        return _from_mixture(mixture, Y, mixture.log_density(Y).sum(1))

    return lambda rows: _in_blocks(rows, block)


def sample_rows(dataset: Dataset, most: int, seed: int = 0) -> tuple[Dataset, np.ndarray]:
    """At most so many rows, by chance and in their order, and which they are."""
    rows = sample_places(np.arange(len(dataset)), most, seed)
    return dataset if len(rows) == len(dataset) else dataset.take(rows), rows


def sample_places(places: np.ndarray, most: int, seed: int = 0) -> np.ndarray:
    """At most so many of these rows' places, the same as `sample_rows` takes of the rows."""
    n = len(places)
    if n <= most:
        return places
    return places[np.sort(np.random.default_rng(seed).choice(n, most, replace=False))]


@dataclass(frozen=True, eq=False)
class Card:
    """How one model did on the held-out rows of one split."""

    model: str
    fold: int
    """0 is the main split; folds count from 1."""
    rows: np.ndarray
    """Which rows of the whole set these are (n,)."""
    n_train: int
    observed: np.ndarray
    """Y (n, P)."""
    forecast: Forecast
    task: Task
    classes: tuple[str, ...]
    scores: dict[str, float]
    seconds_per_step: float | None
    """Measured after training; None where there are no steps."""
    seconds: float | None
    """What the whole fit took."""


def score(
    name: str,
    predictor: Predictor,
    held_out: Dataset,
    *,
    n_train: int,
    fold: int = 0,
    rows: np.ndarray | None = None,
    pad_to: int = 0,
    seconds_per_step: float | None = None,
    seconds: float | None = None,
) -> Card:
    """A model's card; `rows` are the held-out rows' places in the whole set.

    Fewer rows than `pad_to` are padded, so that folds of unequal sizes share compiled programs.
    """
    held, chosen = sample_rows(held_out, MOST_SCORED)
    forecast = predictor(_padded(held, min(pad_to, MOST_SCORED))).take(len(held))
    return Card(
        model=name,
        fold=fold,
        rows=chosen if rows is None else np.asarray(rows)[chosen],
        n_train=n_train,
        observed=held.Y,
        forecast=forecast,
        task=held.task,
        classes=held.classes,
        scores=_scores(forecast, held.Y),
        seconds_per_step=seconds_per_step,
        seconds=seconds,
    )


def _padded(rows: Dataset, n: int) -> Dataset:
    """At least n rows: the first one is repeated behind the last."""
    places = np.arange(max(n, len(rows)))
    places[len(rows) :] = 0
    return rows if len(places) == len(rows) else rows.take(places)


def _scores(forecast: Forecast, Y: np.ndarray) -> dict[str, float]:
    found = {"log_likelihood": float(forecast.log_density.mean())}
    if forecast.probabilities is not None:
        named = scores.class_scores(forecast.probabilities, Y)
        return found | {name: named[name] for name in ("accuracy", "auc", "brier")}
    assert forecast.mean is not None and forecast.crps is not None
    found["rmse"] = float(np.sqrt(np.mean((Y - forecast.mean) ** 2)))
    found["crps"] = float(forecast.crps.mean())
    for share, inside in forecast.inside.items():
        found[f"coverage_{round(100 * share)}"] = float(inside.mean())
    return found


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error."""

    value: float
    error: float
    """NaN where it cannot be had."""
    n: int
    """Folds, or rows of a single split."""


def _by_fold(cards: Iterable[Card], model: str) -> dict[int, Card]:
    return {card.fold: card for card in cards if card.model == model}


def _used(folds: Iterable[int]) -> list[int]:
    """The folds where there are two or more, else the one split."""
    folds = sorted(folds)
    numbered = [fold for fold in folds if fold > 0]
    return numbered if len(numbered) >= 2 else folds[:1]


def fold_error(values: np.ndarray, test_share: float) -> float:
    """The standard error of a mean over K folds whose training sets overlap.

    √((1/K + n_test/n_train) s²), s² the folds' variance (Nadeau & Bengio 2003): without the second
    term, rows that the folds share would count as new evidence.
    """
    K = len(values)
    return float(np.sqrt((1 / K + test_share) * np.var(values, ddof=1)))


def _test_share(cards: Iterable[Card]) -> float:
    return float(np.mean([len(card.rows) / card.n_train for card in cards]))


def table(cards: Iterable[Card]) -> dict[str, dict[str, Estimate]]:
    """Every model's scores: over folds where there are two or more, else of the one split."""
    cards = list(cards)
    found = {}
    for model in dict.fromkeys(card.model for card in cards):
        own = _by_fold(cards, model)
        found[model] = _estimates([own[fold] for fold in _used(own)])
    return found


def _estimates(used: list[Card]) -> dict[str, Estimate]:
    if len(used) == 1:
        card, errors = used[0], _row_errors(used[0])
        n = len(card.rows)
        return {name: Estimate(value, errors[name], n) for name, value in card.scores.items()}
    found = {}
    for name in used[0].scores:
        values = np.array([card.scores[name] for card in used])
        values = values[np.isfinite(values)]  # no AUC on a fold of one class
        value = float(values.mean()) if len(values) else np.nan
        error = fold_error(values, _test_share(used)) if len(values) > 1 else np.nan
        found[name] = Estimate(value, error, len(values))
    return found


PARTS = 20
"""Groups of rows that a jackknife leaves out in turn."""


def _row_errors(card: Card) -> dict[str, float]:
    """The errors of scores over the rows of one split: the jackknife's, group by group left out.

    √((g − 1)/g Σ_j (s_j − s̄)²), s_j the score without group j.
    """
    n = len(card.rows)
    g = min(PARTS, n)
    if g < 2:
        return dict.fromkeys(card.scores, np.nan)
    group = np.random.default_rng(0).permutation(n) % g
    without = []
    for j in range(g):
        keep = np.flatnonzero(group != j)
        forecast = _each_field([card.forecast], lambda parts, keep=keep: parts[0][keep])
        without.append(list(_scores(forecast, card.observed[keep]).values()))
    errors = np.sqrt((g - 1) * np.var(without, 0))
    return dict(zip(card.scores, errors.tolist(), strict=True))


@dataclass(frozen=True)
class Comparison:
    """The mean difference of two models' log-likelihoods, row by row."""

    one: str
    other: str
    difference: float
    """Nats a row; above 0, `one` is better."""
    error: float
    n_folds: int
    """1 for a single split."""
    n_rows: int
    word: str
    """What `one` is: better, worse, same, or too_few rows to say."""

    @property
    def amount(self) -> str:
        """The size of the difference, in words."""
        where = f"over {self.n_folds} folds" if self.n_folds > 1 else f"on {self.n_rows:,} rows"
        return f"{_with_error(abs(self.difference), self.error)} nats a held-out row, {where}"

    @property
    def signed(self) -> str:
        """The difference with its sign."""
        return ("+" if self.difference >= 0 else "−") + self.amount


def compare(cards: Iterable[Card], one: str, other: str) -> Comparison:
    """How much better one model predicts held-out rows than another, by RULE."""
    cards = list(cards)
    ones, others = _by_fold(cards, one), _by_fold(cards, other)
    folds = _used(ones.keys() & others.keys())
    if not folds:
        raise ValueError(f"{one} and {other} were not scored on the same rows yet.")
    differences = [ones[k].forecast.log_density - others[k].forecast.log_density for k in folds]
    rho = _test_share(ones[k] for k in folds)
    d, error = paired_difference(differences, rho)
    n = sum(map(len, differences))
    if n < FEWEST_ROWS:
        word = "too_few"
    elif abs(d) <= max(ERRORS * error, NEGLIGIBLE):
        word = "same"
    else:
        word = "better" if d > 0 else "worse"
    return Comparison(one, other, d, error, len(folds), n, word)


def paired_difference(differences: list[np.ndarray], test_share: float) -> tuple[float, float]:
    """The mean over folds of rows' differences, and its standard error.

    The larger of two: that of the folds' means, for what training sets and folds have in common,
    and that of the rows, since few folds can agree by chance.
    """
    rows = np.concatenate(differences)
    means = np.array([d.mean() for d in differences])
    error = rows.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.inf
    if len(means) > 1:
        error = max(error, fold_error(means, test_share))
    return float(means.mean()), float(error)


@dataclass(frozen=True)
class Verdict:
    """Which model to use, and why."""

    word: str
    """deep, single, same (use the single layer), linear (neither beats the line), or too_few."""
    sentence: str
    comparisons: tuple[Comparison, ...]


def verdict(
    cards: Iterable[Card], deep: str = "deep", single: str = "single", linear: str = "linear"
) -> Verdict:
    """The plain answer for a person who must choose, by RULE.

    Where neither GP beats the straight line, that is the answer; else the deep model against the
    single layer, and the simpler of two that are alike.
    """
    cards = list(cards)
    present = {card.model for card in cards}
    titles = {deep: "the deep model", single: "the single layer"}
    gps = [name for name in (deep, single) if name in present]
    if not gps:
        raise ValueError("No model has been scored yet.")
    by_line = [compare(cards, name, linear) for name in gps if linear in present]
    between = [compare(cards, deep, single)] if len(gps) == 2 else []
    every = (*between, *by_line)
    if not every:
        return Verdict(gps[0], f"There is only {titles[gps[0]]}: nothing to compare it with.", ())
    if any(c.word == "too_few" for c in every):
        return Verdict("too_few", _too_few(every[0]), every)
    if by_line and not any(c.word == "better" for c in by_line):
        best = max(by_line, key=lambda c: c.difference)
        if len(gps) == 1:
            nobody, better = f"{_capital(titles[gps[0]])} does not beat", "it"
        else:
            nobody, better = "Neither model beats", "the better of them"
        alike = between and between[0].word == "same"
        also = ", and there is no difference beyond noise between the two" if alike else ""
        sentence = (
            f"{nobody} the straight line ({better} is at {best.signed}){also}: use the straight "
            "line."
        )
        return Verdict("linear", sentence, every)
    if not between:
        c = by_line[0]
        return Verdict(
            gps[0], f"{_capital(titles[gps[0]])} beats the straight line by {c.amount}.", every
        )
    c = between[0]
    if c.word == "same":
        sentence = (
            f"No difference beyond noise between the deep model and the single layer ({c.signed}): "
            "use the single layer, which is simpler and quicker."
        )
        return Verdict("same", sentence, every)
    winner, loser = (deep, single) if c.word == "better" else (single, deep)
    what = "density" if cards[0].task == "regression" else "probability"
    sentence = (
        f"{_capital(titles[winner])} is better by {c.amount}: it gives what was observed "
        f"{_times(abs(c.difference))} times the {what} that {titles[loser]} does."
    )
    return Verdict("deep" if c.word == "better" else "single", sentence, every)


def _with_error(value: float, error: float) -> str:
    """A number to the digit that its error is of."""
    digits = 2 if not 0 < error < np.inf else int(np.clip(-np.floor(np.log10(error)), 0, 4))
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def _times(nats: float) -> str:
    """e^nats as a person would say it."""
    factor = np.exp(min(nats, 50.0))
    return f"{factor:.2f}" if factor < 10 else f"{factor:,.0f}" if factor < 1e6 else f"{factor:.0e}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _too_few(c: Comparison) -> str:
    rows = "1 row was" if c.n_rows == 1 else f"{c.n_rows} rows were"
    return (
        f"Only {rows} held out, too few to tell the models apart: cross-validate over folds, or "
        "bring more rows."
    )


# What a page draws.


@dataclass(frozen=True, eq=False)
class Histogram:
    """PIT values in bins: flat where predictions are honest."""

    edges: np.ndarray
    shares: np.ndarray
    """Of all rows and outputs, in each bin."""
    low: float
    """Between `low` and `high`, 95 % of an honest model's bars lie."""
    high: float


def pit_histogram(card: Card, n_bins: int = 10) -> Histogram:
    """Where observations fall in their predicted distributions.

    A hump says too wide, a bowl too narrow, a slope too high or too low.
    """
    pit = card.forecast.pit
    if pit is None:
        raise ValueError("Classes have no PIT values: draw their reliability instead.")
    counts, edges = np.histogram(pit, n_bins, (0.0, 1.0))
    n = pit.size
    low, high = stats.binom.ppf([0.025, 0.975], n, 1 / n_bins) / n
    return Histogram(edges, counts / n, float(low), float(high))


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often what was said with a probability came true; on the diagonal where honest."""

    edges: np.ndarray
    predicted: np.ndarray
    """The mean probability in each bin; NaN in an empty one, as below."""
    observed: np.ndarray
    """The share that came true."""
    error: np.ndarray
    """√(p(1−p)/n) of that share where the predicted probabilities are right."""
    count: np.ndarray


def reliability(card: Card, n_bins: int = 10, of_class: int | None = None) -> Reliability:
    """Of one class; where none is named, of the second of two, or of each row's likeliest."""
    p = card.forecast.probabilities
    if p is None:
        raise ValueError("Numbers have no reliability bins: draw their PIT values instead.")
    codes = card.observed[:, 0].astype(int)
    if of_class is None and p.shape[1] == 2:
        of_class = 1
    said = p.max(1) if of_class is None else p[:, of_class]
    true = codes == (p.argmax(1) if of_class is None else of_class)
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    place = np.clip(np.digitize(said, edges) - 1, 0, n_bins - 1)
    count = np.bincount(place, minlength=n_bins)
    n = np.where(count > 0, count, np.nan)
    predicted = np.bincount(place, said, n_bins) / n
    observed = np.bincount(place, true, n_bins) / n
    return Reliability(edges, predicted, observed, np.sqrt(predicted * (1 - predicted) / n), count)


@dataclass(frozen=True, eq=False)
class Observed:
    """Predicted against observed, one output."""

    observed: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rows: np.ndarray


def predicted_observed(card: Card, output: int = 0) -> Observed:
    """What was predicted, with its 90 % interval, and what was seen."""
    f = _numbers(card)
    assert f.mean is not None and f.low is not None and f.high is not None
    p = output
    return Observed(card.observed[:, p], f.mean[:, p], f.low[:, p], f.high[:, p], card.rows)


@dataclass(frozen=True, eq=False)
class Residuals:
    """What is left of each row once its prediction is taken away."""

    predicted: np.ndarray
    residual: np.ndarray
    """Observed less the mean."""
    standardised: np.ndarray
    """Φ⁻¹ of the PIT value: standard Gaussian where predictions are honest, whatever the noise."""
    rows: np.ndarray


def residuals(card: Card, output: int = 0) -> Residuals:
    """Residuals of one output."""
    f = _numbers(card)
    assert f.mean is not None and f.pit is not None
    mean, pit = f.mean[:, output], np.clip(f.pit[:, output], 1e-12, 1 - 1e-12)
    return Residuals(mean, card.observed[:, output] - mean, stats.norm.ppf(pit), card.rows)


def _numbers(card: Card) -> Forecast:
    if card.forecast.mean is None:
        raise ValueError("Classes have no residuals: draw their confusions instead.")
    return card.forecast


@dataclass(frozen=True)
class Worst:
    """A row that the model found hard to believe."""

    row: int
    """Its place in the whole set."""
    log_likelihood: float
    surprise: str
    """What was seen and what was predicted."""


def worst_rows(card: Card, n: int = 10) -> list[Worst]:
    """The held-out rows of least log-likelihood, the worst first."""
    worst = np.argsort(card.forecast.log_density, kind="stable")[:n]
    return [
        Worst(int(card.rows[i]), float(card.forecast.log_density[i]), _surprise(card, i))
        for i in worst
    ]


def _surprise(card: Card, i: int) -> str:
    f = card.forecast
    if f.probabilities is not None:
        code, likeliest = int(card.observed[i, 0]), int(f.probabilities[i].argmax())
        seen = f"{visible(_label(card, code))}, given {f.probabilities[i, code]:.1%}"
        if likeliest == code:
            return f"{seen}, the likeliest class"
        chance = f.probabilities[i, likeliest]
        return f"{seen}; {visible(_label(card, likeliest))} was given {chance:.1%}"
    assert f.median is not None and f.low is not None and f.high is not None
    return "; ".join(
        f"{y:.4g}, predicted {m:.4g} (90 %: {a:.4g} to {b:.4g})"
        for y, m, a, b in zip(card.observed[i], f.median[i], f.low[i], f.high[i], strict=True)
    )


def _label(card: Card, code: int) -> str:
    return card.classes[code] if code < len(card.classes) else str(code)


def confusion(card: Card) -> np.ndarray:
    """How many rows of each class (down) were taken for each class (across)."""
    p = card.forecast.probabilities
    if p is None:
        raise ValueError("Numbers cannot be confused: draw predicted against observed instead.")
    counts = np.zeros((p.shape[1], p.shape[1]), int)
    np.add.at(counts, (card.observed[:, 0].astype(int), p.argmax(1)), 1)
    return counts
