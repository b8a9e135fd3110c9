"""What a saved model says of a user's rows, in the units and under the names of the user's file."""

import json
from collections.abc import Iterable, Iterator

import numpy as np

from dgp_core.archive import Archive, ArchiveError
from dgp_core.estimator import QUANTILE_DRAWS, DeepGPClassifier, DeepGPRegressor
from dgp_core.evaluation import scores
from dgp_core.evaluation.forecast import (
    Forecast,
    StraightLine,
    from_draws,
    from_mixture,
    straight_line,
)
from dgp_core.evaluation.scores import Draws
from dgp_core.gp.data import Dataset
from dgp_core.gp.likelihoods import Poisson
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import DeepGP
from dgp_core.gp.predict import draw_observations, log_density, predict_observed
from dgp_core.gp.references import BayesianLinear, BayesianLogistic, BayesianPoisson
from dgp_core.tables.plain import export_csv
from dgp_core.tables.recipe import Recipe
from dgp_core.tables.table import Table, as_written

BLOCK = 2_000
"""Rows that are predicted at a time: a row has a hundred components."""

ROWS_WRITTEN = 10_000
"""Rows that are written to a file of predictions at a time."""


LEVELS = (0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975)
"""The quantiles of an exported prediction: they bound the central 50, 90 and 95 %."""

EVEN_LEVELS = (np.arange(400) + 0.5) / 400
"""The quantiles by which a distribution without a formula is scored."""


class Line:
    """A straight line that answers as a GP's estimator does, in the units of the data set."""

    def __init__(self, line: StraightLine):
        self._line = line

    def _counts(self, X: np.ndarray) -> tuple[DeepGP, Mixture] | None:
        """The log-rate of counts, and what makes counts of it."""
        if not isinstance(self._line, BayesianPoisson):
            return None
        latent = self._line.predict_latent(X)
        return DeepGP((), Poisson.create(latent.means.shape[2])), latent

    def predict_mixture(self, X: np.ndarray) -> Mixture:
        if counts := self._counts(X):
            return predict_observed(*counts)
        assert isinstance(self._line, BayesianLinear)
        return self._line.predict(X)

    def predict_quantiles(self, X: np.ndarray, levels: np.ndarray) -> np.ndarray:
        if counts := self._counts(X):
            y = draw_observations(*counts, np.random.default_rng(0), QUANTILE_DRAWS)
            return np.quantile(y, levels, 0, method="inverted_cdf")
        return self.predict_mixture(X).quantile(levels)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        assert isinstance(self._line, BayesianLogistic)
        return self._line.predict_proba(X)

    def log_density(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        if counts := self._counts(X):
            return log_density(*counts, Y)
        return self.predict_mixture(X).log_density(Y).sum(1)


class Outcome:
    """A model beside the recipe of the file that it learnt from."""

    recipe: Recipe
    regressor: DeepGPRegressor | Line | None
    classifier: DeepGPClassifier | Line | None
    likelihood: str

    @classmethod
    def of_line(cls, recipe: Recipe, train: Dataset) -> "Outcome":
        """The straight line through these rows, in place of a saved model."""
        outcome, line = cls.__new__(cls), Line(straight_line(train))
        of_classes = recipe.task not in ("regression", "counts")
        outcome.recipe, outcome.log = recipe, _is_log(recipe)
        outcome.regressor, outcome.classifier = (None, line) if of_classes else (line, None)
        outcome.likelihood = "poisson" if recipe.task == "counts" else "gaussian"
        return outcome

    def __init__(self, record: Archive):
        """Of a saved one."""
        if record.recipe is None:
            raise ArchiveError(
                "This model was saved without the recipe of a table, so its inputs have no columns "
                "in a file: open it in Python with DeepGPRegressor.load or DeepGPClassifier.load."
            )
        self.recipe = Recipe.from_json(json.dumps(record.recipe))
        if self.recipe.input_names != record.input_names or self.recipe.task != record.task:
            raise ArchiveError("The recipe of this model does not fit its inputs: save it again.")
        self.regressor = self.classifier = None
        if record.task in ("regression", "counts"):
            self.regressor = DeepGPRegressor.from_archive(record)
        else:
            self.classifier = DeepGPClassifier.from_archive(record)
        # The recipe puts columns in order; what comes from it is an array without names.
        vars(self.regressor or self.classifier).pop("feature_names_in_", None)
        self.log = _is_log(self.recipe)
        self.likelihood = record.model.likelihood

    def predictions(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """A column for each thing that is predicted of rows X (N, D): its name, and a value a row.

        Mean, deviation and quantiles of each target, or the likeliest class and every class's
        probability.
        """
        blocks = [self._predictions(part) for part in _blocks(X)]
        return {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}

    def beside(
        self, table: Table, X: np.ndarray, rows: slice = slice(None)
    ) -> dict[str, np.ndarray]:
        """Columns to export: those of the file, and what is predicted of its rows X beside them.

        A prediction whose name the file has already gets a number behind it.
        """
        cells = table.cells
        columns = {name: np.array(as_written(c, rows), object) for name, c in cells.items()}
        for name, values in self.predictions(X[rows]).items():
            again, k = name, 2
            while again in cells:
                again, k = f"{name} ({k})", k + 1
            columns[again] = values
        return columns

    def csv(self, tables: Iterable[Table]) -> Iterator[bytes]:
        """A CSV file, some rows at a time: what tables hold, and beside it what is predicted."""
        begun = False
        for table in tables:
            X = self.recipe.inputs(table)
            for start in range(0, table.rows, ROWS_WRITTEN):
                columns = self.beside(table, X, slice(start, start + ROWS_WRITTEN))
                header = export_csv({name: np.zeros(0) for name in columns}) if begun else b""
                yield export_csv(columns)[len(header) :]
                begun = True

    def _predictions(self, X: np.ndarray) -> dict[str, np.ndarray]:
        targets = [target.column for target in self.recipe.targets]
        if self.classifier is not None:
            p, labels, (name,) = self.classifier.predict_proba(X), self.recipe.classes, targets
            columns = {f"{name} predicted": np.asarray(labels, object)[p.argmax(1)]}
            return columns | {f"{name} = {c}": p[:, i] for i, c in enumerate(labels)}
        mean, deviation = self._moments(X)
        quantiles = self._quantiles(X, np.array(LEVELS))
        columns = {}
        for p, name in enumerate(targets):
            columns |= {f"{name} mean": mean[:, p], f"{name} sd": deviation[:, p]}
            columns |= {
                f"{name} {100 * t:g}%": q[:, p] for t, q in zip(LEVELS, quantiles, strict=True)
            }
        return columns

    def _moments(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of each target (N, P), in the file's units.

        Where the model learnt log y, E[yᵏ] = (1/S) Σ_s exp(k m_s + ½k² v_s). A Student's t has no
        such moment: it is NaN there.
        """
        assert self.regressor is not None
        mixture = self.regressor.predict_mixture(X)
        mean, variance = mixture.mean, mixture.variance
        if self.log.any():
            m, v = mixture.means[..., self.log], mixture.variances[..., self.log]
            with np.errstate(over="ignore", invalid="ignore"):
                first, second = (np.exp(k * m + k**2 * v / 2).mean(0) for k in (1, 2))
                exists = self.likelihood == "gaussian"
                mean[:, self.log] = first if exists else np.nan
                variance[:, self.log] = second - first**2 if exists else np.nan
        return mean, np.sqrt(variance)

    def _quantiles(self, X: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Quantiles (K, N, P), in the file's units."""
        assert self.regressor is not None
        q = self.regressor.predict_quantiles(X, levels)
        return self.recipe.outputs_back(q.reshape(len(levels), len(X), -1))

    def scores(self, X: np.ndarray, Y: np.ndarray) -> dict[str, float]:
        """Every score by its name, in the file's units; Y (N, P) is as the recipe gives it."""
        if self.classifier is not None:
            p = np.concatenate([self.classifier.predict_proba(part) for part in _blocks(X)])
            return scores.class_scores(p, Y)
        parts = [self._forecast(x, y) for x, y in zip(_blocks(X), _blocks(Y), strict=True)]
        return Forecast.join(parts).scores(self.recipe.outputs_back(Y))

    def _forecast(self, X: np.ndarray, Y: np.ndarray) -> Forecast:
        """Of numbers, in the file's units; with z = log y, log p(y) = log p(z) − z."""
        assert self.regressor is not None
        log_p = self.regressor.log_density(X, Y) - Y[:, self.log].sum(1)
        if self.likelihood == "gaussian" and not self.log.any():
            return from_mixture(self.regressor.predict_mixture(X), Y, log_p)
        y, mean = self.recipe.outputs_back(Y), self._moments(X)[0]
        quantiles = Draws(self._quantiles(X, EVEN_LEVELS), independent=False)
        return from_draws(quantiles, mean, y, log_p, np.random.default_rng(0))


def _is_log(recipe: Recipe) -> np.ndarray:
    """Whether each target was learnt as its logarithm (P,)."""
    return np.array([transform == "log" for transform in recipe.transforms])


def _blocks(values: np.ndarray) -> list[np.ndarray]:
    return [values[i : i + BLOCK] for i in range(0, max(len(values), 1), BLOCK)]
