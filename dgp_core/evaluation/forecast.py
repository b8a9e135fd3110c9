"""What a model says of held-out rows: the deep GP, the straight line and the exact GP alike.

Everything is in the user's units.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields

import jax
import numpy as np

from dgp_core.evaluation import scores
from dgp_core.evaluation.calibration import inside
from dgp_core.gp.data import Dataset, Scaler, sample_rows
from dgp_core.gp.kernels import create_kernel
from dgp_core.gp.likelihoods import Gaussian, Poisson
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import DeepGP
from dgp_core.gp.predict import (
    QUANTILE_DRAWS,
    class_probabilities,
    draw_observations,
    log_density,
    predict_latent,
    predict_observed,
)
from dgp_core.gp.references import BayesianLinear, BayesianLogistic, BayesianPoisson, ExactGP

BLOCK = 1024
"""Rows that are predicted together; fewer are padded to a power of two."""

DRAWS = 400
"""Observations drawn a row where the noise is not Gaussian."""

LINEAR_ROWS = 100_000
"""Rows that a linear model is fitted to, at the most: enough for any number of its weights."""

SHARE = 0.9
"""What the interval between `low` and `high` should hold."""


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

    def take(self, rows: slice | np.ndarray) -> "Forecast":
        """These rows alone."""
        return _each_field([self], lambda parts: parts[0][rows])

    @classmethod
    def join(cls, parts: list["Forecast"]) -> "Forecast":
        """Several forecasts of rows one behind another."""
        return _each_field(parts, np.concatenate)

    def scores(self, Y: np.ndarray) -> dict[str, float]:
        """Every score by its name, of what was observed (n, P)."""
        found = {"log_likelihood": float(self.log_density.mean())}
        if self.probabilities is not None:
            named = scores.class_scores(self.probabilities, Y)
            return found | {name: named[name] for name in ("accuracy", "auc", "brier")}
        assert self.mean is not None and self.crps is not None
        found["rmse"] = float(np.sqrt(np.mean((Y - self.mean) ** 2)))
        found["crps"] = float(self.crps.mean())
        for share, held in self.inside.items():
            found[f"coverage_{round(100 * share)}"] = float(held.mean())
        return found


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
        parts.append(part.take(slice(n - start)))
    return Forecast.join(parts)


def from_mixture(mixture: Mixture, Y: np.ndarray, log_p: np.ndarray) -> Forecast:
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
        inside=dict(zip(scores.COVERAGES, inside(pit, scores.COVERAGES), strict=True)),
    )


def from_probabilities(p: np.ndarray, Y: np.ndarray) -> Forecast:
    """From the probability of each class (n, C), the codes in Y (n, 1)."""
    chosen = np.take_along_axis(p, Y.astype(int), 1)[:, 0]
    return Forecast(np.log(np.maximum(chosen, 1e-300)), probabilities=p)


def from_draws(
    draws: scores.Draws,
    mean: np.ndarray,
    Y: np.ndarray,
    log_p: np.ndarray,
    rng: np.random.Generator,
) -> Forecast:
    """From a sample of y, where the noise is not Gaussian."""
    shares = np.array([SHARE, *scores.COVERAGES])
    levels = np.concatenate([(1 - shares) / 2, (1 + shares) / 2, [0.5]])
    q = draws.quantile(levels)
    low, high = q[: len(shares)], q[len(shares) : -1]
    held = (low[1:] <= Y) & (Y <= high[1:])
    return Forecast(
        log_density=log_p,
        mean=mean,
        median=q[-1],
        low=low[0],
        high=high[0],
        pit=draws.pit(Y, rng),
        crps=draws.crps(Y),
        inside=dict(zip(scores.COVERAGES, held, strict=True)),
    )


def deep_predictor(model: DeepGP, scaler: Scaler, seed: int = 0, n_samples: int = 100) -> Predictor:
    """Forecasts of a deep or single-layer GP, by the mixture that the estimators predict with."""
    key = jax.random.fold_in(jax.random.key(seed), 1)

    def block(X: np.ndarray, Y: np.ndarray, i: int) -> Forecast:
        latent = predict_latent(model, scaler.inputs(X), key, n_samples, shared=True)
        latent = latent.shifted(scaler.log_exposure(X))
        log_p = log_density(model, latent, scaler.outputs(Y)) - np.log(scaler.y_scale).sum()
        if hasattr(model.likelihood, "class_probabilities"):
            return Forecast(log_p, probabilities=class_probabilities(model, latent))
        observed = predict_observed(model, latent).affine(scaler.y_scale, scaler.y_mean)
        if isinstance(model.likelihood, Gaussian):
            return from_mixture(observed, Y, log_p)
        rng = np.random.default_rng([seed, i])
        y = scaler.outputs_back(draw_observations(model, latent, rng, DRAWS))
        return from_draws(scores.Draws(y), observed.mean, Y, log_p, rng)

    return lambda rows: _in_blocks(rows, block)


StraightLine = BayesianLinear | BayesianLogistic | BayesianPoisson


def straight_line(train: Dataset, seed: int = 0) -> StraightLine:
    """Bayesian linear, logistic or Poisson regression, as the task wants it."""
    train = sample_rows(train, LINEAR_ROWS, seed)[0]
    if train.task == "regression":
        return BayesianLinear.fit(train.X, train.Y)
    if train.task == "counts":
        return BayesianPoisson.fit(train.X, train.Y, train.exposed)
    return BayesianLogistic.fit(train.X, train.Y, max(2, len(train.classes)))


@dataclass(frozen=True, eq=False)
class ScaledExactGP:
    """The exact GP in the user's units."""

    exact: ExactGP
    scaler: Scaler

    def predict(self, X: np.ndarray) -> Mixture:
        """p(y) at new rows: one Gaussian each."""
        found = self.exact.predict(self.scaler.inputs(X))
        return found.affine(self.scaler.y_scale, self.scaler.y_mean)


def exact_gp(
    train: Dataset,
    kernel: str = "rbf",
    max_steps: int = 200,
    go_on: Callable[[], bool] = lambda: True,
) -> ScaledExactGP:
    """The exact GP with hyperparameters of largest evidence; for regression.

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
    return ScaledExactGP(exact, scaler)


class Line:
    """A straight line or an exact GP that answers as an estimator does, in the data set's units."""

    def __init__(self, line: StraightLine | ScaledExactGP):
        self._line = line

    @property
    def of_classes(self) -> bool:
        return isinstance(self._line, BayesianLogistic)

    def counts(self, X: np.ndarray) -> tuple[DeepGP, Mixture] | None:
        """What makes counts of a log-rate, and this at rows X; None of other things than counts."""
        if not isinstance(self._line, BayesianPoisson):
            return None
        latent = self._line.predict_latent(X)
        return DeepGP((), Poisson.create(latent.means.shape[2])), latent

    def predict_mixture(self, X: np.ndarray) -> Mixture:
        if counts := self.counts(X):
            return predict_observed(*counts)
        assert isinstance(self._line, BayesianLinear | ScaledExactGP)
        return self._line.predict(X)

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        return self.predict_mixture(X).mean

    def predict_quantiles(self, X: np.ndarray, levels: np.ndarray) -> np.ndarray:
        if counts := self.counts(X):
            y = draw_observations(*counts, np.random.default_rng(0), QUANTILE_DRAWS)
            return np.quantile(y, levels, 0, method="inverted_cdf")
        return self.predict_mixture(X).quantile(levels)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        assert isinstance(self._line, BayesianLogistic)
        return self._line.predict_proba(X)

    def log_density(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        if counts := self.counts(X):
            return log_density(*counts, Y)
        return self.predict_mixture(X).log_density(Y).sum(1)


def linear_predictor(train: Dataset, seed: int = 0) -> Predictor:
    """Forecasts of the straight line."""
    return _predictor(Line(straight_line(train, seed)), seed)


def exact_predictor(
    train: Dataset, kernel: str = "rbf", go_on: Callable[[], bool] = lambda: True
) -> Predictor:
    """Forecasts of the exact GP."""
    return _predictor(Line(exact_gp(train, kernel, go_on=go_on)))


def _predictor(line: Line, seed: int = 0) -> Predictor:
    def block(X: np.ndarray, Y: np.ndarray, i: int) -> Forecast:
        if line.of_classes:
            return from_probabilities(line.predict_proba(X), Y)
        if counts := line.counts(X):
            rng = np.random.default_rng([seed, i])
            draws = scores.Draws(draw_observations(*counts, rng, DRAWS))
            mean = predict_observed(*counts).mean
            return from_draws(draws, mean, Y, log_density(*counts, Y), rng)
        mixture = line.predict_mixture(X)
        return from_mixture(mixture, Y, mixture.log_density(Y).sum(1))

    return lambda rows: _in_blocks(rows, block)
