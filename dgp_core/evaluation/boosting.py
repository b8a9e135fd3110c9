"""Gradient boosting, what a person would use otherwise: scikit-learn's trees as a distribution."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import special
from threadpoolctl import threadpool_limits

from dgp_core.evaluation import scores
from dgp_core.evaluation.forecast import Forecast, Predictor, from_draws, from_probabilities
from dgp_core.gp.data import Dataset, sample_rows, split_places

BOOSTED_ROWS = 100_000
"""Rows that trees are fitted to, at the most."""

LEVELS = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
"""The quantiles that have trees of their own."""

Z = special.ndtri(LEVELS)

CALIBRATED = 0.8
"""The share of training rows that is fitted for the width alone, judged on the others."""

LEAST_SLOPE = 0.1
"""Of g, in standard deviations of residuals: trees may give two quantiles one value."""

SHRINKAGES = (0.0, 0.25, 0.5, 0.75, 1.0)


def _one_thread(work: Callable, *arguments: Any) -> Any:
    """Done by one thread: where other work has the cores, OpenMP's threads wait for each other."""
    with threadpool_limits(1, user_api="openmp"):
        return work(*arguments)


def _trees(
    kind: str, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None, **options: Any
) -> Any:
    from sklearn import ensemble  # a second to load: only where it is fitted

    # The library's own settings, but leaves that few rows can fill.
    leaf = int(np.clip(len(X) // 20, 2, 20))
    trees = getattr(ensemble, kind)(min_samples_leaf=leaf, random_state=0, **options)
    return _one_thread(trees.fit, X, y, weights)


def _least(loss: Callable[[float], float], bounds: tuple[float, float]) -> tuple[float, float]:
    """The least loss of a positive number between these bounds, on a log scale, and where."""
    from scipy.optimize import minimize_scalar  # ten megabytes: only where it is fitted

    found: Any = minimize_scalar(
        lambda v: loss(float(np.exp(v))), bounds=tuple(np.log(bounds)), method="bounded"
    )
    return float(found.fun), float(np.exp(found.x))


@dataclass(frozen=True, eq=False)
class BoostedNumber:
    """y = g(z), z ~ N(0, 1), g linear between the boosted quantiles, drawn towards N(m, s²).

    g' = w ((1 − a) Δq/Δz + a s) about (1 − a) q_½ + a m, and log p(y) = log φ(z) − log g'(z): where
    the true distribution is Gaussian, so is this. a and w have the largest log-likelihood of rows
    that the trees had not seen.
    """

    mean: Any
    """m: the trees of squared error."""
    levels: list[Any]
    """q: those of each quantile."""
    spread: float
    """s: the standard deviation of residuals of rows not seen."""
    shrinkage: float = 1.0
    """a."""
    width: float = 1.0
    """w."""

    @classmethod
    def fit(cls, X: np.ndarray, y: np.ndarray) -> Self:
        train, rest = split_places(len(X), CALIBRATED, 0)
        first = cls._fit(X[train], y[train], 1.0)
        values, unseen = first._values(X[rest]), y[rest]
        spread = float(np.sqrt(np.mean((unseen - values[0]) ** 2)))
        spread = max(spread, 1e-6 * (float(np.std(y)) or 1.0))
        first, best = replace(first, spread=spread), (np.inf, 1.0, 1.0)
        for a in SHRINKAGES:
            shrunk = replace(first, shrinkage=a)
            loss, width = _least(
                lambda w, shrunk=shrunk: (
                    -replace(shrunk, width=w)._log_density(values, unseen).mean()
                ),
                (0.2, 20.0),
            )
            best = min(best, (loss, a, width))
        return replace(cls._fit(X, y, spread), shrinkage=best[1], width=best[2])

    @classmethod
    def _fit(cls, X: np.ndarray, y: np.ndarray, spread: float) -> Self:
        kind = "HistGradientBoostingRegressor"
        mean = _trees(kind, X, y)
        return cls(mean, [_trees(kind, X, y, loss="quantile", quantile=t) for t in LEVELS], spread)

    def _values(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """m (N,), and the quantiles in their order (N, K)."""
        q = np.sort(np.stack([_one_thread(trees.predict, X) for trees in self.levels], 1), 1)
        return self.predict_mean(X), q

    def _knots(self, values: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """g at the levels' z (N, K), and the slopes between them (N, K − 1)."""
        (m, q), a = values, self.shrinkage
        dz, middle = np.diff(Z), len(Z) // 2
        slopes = self.width * np.maximum(
            (1.0 - a) * np.diff(q, axis=1) / dz + a * self.spread, LEAST_SLOPE * self.spread
        )
        steps = np.cumsum(np.pad(slopes * dz, ((0, 0), (1, 0))), 1)
        centre = (1.0 - a) * q[:, middle] + a * m
        return steps - steps[:, [middle]] + centre[:, None], slopes

    def _log_density(self, values: tuple[np.ndarray, np.ndarray], y: np.ndarray) -> np.ndarray:
        g, slopes = self._knots(values)
        k = np.clip((g <= y[:, None]).sum(1) - 1, 0, slopes.shape[1] - 1)[:, None]
        g, slope = np.take_along_axis(g, k, 1)[:, 0], np.take_along_axis(slopes, k, 1)[:, 0]
        z = Z[k[:, 0]] + (y - g) / slope  # g⁻¹(y)
        return -0.5 * (z**2 + np.log(2 * np.pi)) - np.log(slope)

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        """log p(y) of each row (N,)."""
        return self._log_density(self._values(X), y)

    def predict_quantiles(self, X: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """(K, N)."""
        g, slopes = self._knots(self._values(X))
        z = special.ndtri(levels)
        k = np.clip(np.searchsorted(Z, z, "right") - 1, 0, len(Z) - 2)
        return (g[:, k] + (z - Z[k]) * slopes[:, k]).T

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        return _one_thread(self.mean.predict, X)


@dataclass(frozen=True, eq=False)
class BoostedCount:
    """y ~ NB of mean m and variance m + m²/r, m by Poisson's loss, r by rows not seen.

    Where rows have an exposure e, trees of the other inputs learn the rate m/e.
    """

    rate: Any
    size: float
    """r; 10⁶ is as good as Poisson."""
    exposed: np.ndarray
    """Which column of X is the exposure (D,)."""

    @classmethod
    def fit(cls, X: np.ndarray, y: np.ndarray, exposed: np.ndarray | None = None) -> Self:
        exposed = np.zeros(X.shape[1], bool) if exposed is None else exposed
        train, rest = split_places(len(X), CALIBRATED, 0)
        first = cls._fit(X[train], y[train], exposed)
        m = first.predict_mean(X[rest])
        _, size = _least(lambda r: -_negative_binomial(m, r).logpmf(y[rest]).mean(), (1e-2, 1e6))
        return replace(cls._fit(X, y, exposed), size=size)

    @classmethod
    def _fit(cls, X: np.ndarray, y: np.ndarray, exposed: np.ndarray) -> Self:
        if not y.any():  # Poisson's loss needs a count
            y = np.full(len(y), 0.5 / len(y))
        e = X[:, exposed].prod(1)
        kind, rate = "HistGradientBoostingRegressor", y / e
        weights = e if exposed.any() else None
        return cls(_trees(kind, X[:, ~exposed], rate, weights, loss="poisson"), 1.0, exposed)

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        rate = np.maximum(_one_thread(self.rate.predict, X[:, ~self.exposed]), 1e-9)
        return rate * X[:, self.exposed].prod(1)

    def predict_quantiles(self, X: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """(K, N)."""
        m = self.predict_mean(X)
        return np.asarray(_negative_binomial(m, self.size).ppf(np.asarray(levels)[:, None]))

    def log_density(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(_negative_binomial(self.predict_mean(X), self.size).logpmf(y))


def _negative_binomial(mean: np.ndarray, size: float) -> Any:
    from scipy import stats  # forty megabytes: only where counts are fitted

    return stats.nbinom(size, size / (size + mean))


@dataclass(frozen=True, eq=False)
class BoostedClasses:
    """p(c) ∝ p_c^(1/T) of the trees' probabilities, T by the log-likelihood of rows not seen."""

    trees: Any
    n_classes: int
    temperature: float = 1.0

    @classmethod
    def fit(cls, X: np.ndarray, codes: np.ndarray, n_classes: int) -> Self:
        train, rest = split_places(len(X), CALIBRATED, 0)
        first = cls._fit(X[train], codes[train], n_classes)
        p = first.predict_proba(X[rest])
        _, temperature = _least(
            lambda T: -from_probabilities(_tempered(p, T), codes[rest, None]).log_density.mean(),
            (0.5, 20.0),
        )
        return cls(cls._fit(X, codes, n_classes).trees, n_classes, temperature)

    @classmethod
    def _fit(cls, X: np.ndarray, codes: np.ndarray, n_classes: int) -> Self:
        trees = None
        if len(np.unique(codes)) > 1:
            trees = _trees("HistGradientBoostingClassifier", X, codes.astype(int))
        return cls(trees, n_classes)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """(N, C); a class without training rows has a share of 10⁻³."""
        p = np.full((len(X), self.n_classes), 1e-3)
        if self.trees is not None:
            p[:, self.trees.classes_] = _one_thread(self.trees.predict_proba, X)
        return _tempered(p, self.temperature)


def _tempered(p: np.ndarray, temperature: float) -> np.ndarray:
    p = np.maximum(p, 1e-12) ** (1.0 / temperature)
    return p / p.sum(1, keepdims=True)


Boosted = BoostedClasses | tuple[BoostedNumber | BoostedCount, ...]


def boosted(train: Dataset, seed: int = 0) -> Boosted:
    """Trees for each output, or for the classes."""
    train = sample_rows(train, BOOSTED_ROWS, seed)[0]
    if len(train) < 5:
        raise ValueError("gradient boosting needs at least 5 rows.")
    if train.task in ("binary", "multiclass"):
        return BoostedClasses.fit(train.X, train.Y[:, 0], max(2, len(train.classes)))
    if train.task == "counts":
        return tuple(BoostedCount.fit(train.X, y, train.exposed) for y in train.Y.T)
    return tuple(BoostedNumber.fit(train.X, y) for y in train.Y.T)


class Trees:
    """Gradient boosting that answers as an estimator does, in the data set's units."""

    def __init__(self, model: Boosted):
        self._model = model

    @property
    def _outputs(self) -> tuple[BoostedNumber | BoostedCount, ...]:
        assert not isinstance(self._model, BoostedClasses)
        return self._model

    def predict_mean(self, X: np.ndarray) -> np.ndarray:
        return np.stack([one.predict_mean(X) for one in self._outputs], 1)

    def predict_quantiles(self, X: np.ndarray, levels: np.ndarray) -> np.ndarray:
        return np.stack([one.predict_quantiles(X, levels) for one in self._outputs], 2)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        assert isinstance(self._model, BoostedClasses)
        return self._model.predict_proba(X)

    def log_density(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        outputs = zip(self._outputs, Y.T, strict=True)
        return np.sum([one.log_density(X, y) for one, y in outputs], 0)


def boosting_predictor(train: Dataset, seed: int = 0) -> Predictor:
    """Forecasts of gradient boosting."""
    trees = Trees(boosted(train, seed))

    def forecast(rows: Dataset) -> Forecast:
        X, Y = rows.X, rows.Y
        if rows.task in ("binary", "multiclass"):
            return from_probabilities(trees.predict_proba(X), Y)
        quantiles = trees.predict_quantiles(X, scores.EVEN_LEVELS)
        draws = scores.Draws(quantiles, independent=False)
        log_p, rng = trees.log_density(X, Y), np.random.default_rng(0)
        return from_draws(draws, trees.predict_mean(X), Y, log_p, rng)

    return forecast
