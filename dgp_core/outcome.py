"""What a saved model says of a user's rows, in the units and under the names of the user's file."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dgp_core.archive import Archive, ArchiveError, Source
from dgp_core.evaluation import scores
from dgp_core.evaluation.boosting import Trees
from dgp_core.evaluation.conformal import Widening
from dgp_core.evaluation.forecast import (
    Forecast,
    Line,
    from_draws,
    from_mixture,
    from_probabilities,
    straight_line,
)
from dgp_core.evaluation.scores import EVEN_LEVELS, Draws
from dgp_core.gp.data import Dataset, Scaler, counted
from dgp_core.gp.domain import Domain
from dgp_core.line_file import LineArchive
from dgp_core.tables.plain import export_csv, visible
from dgp_core.tables.recipe import ColumnRecipe, Recipe
from dgp_core.tables.table import Table, as_written

if TYPE_CHECKING:
    from dgp_core.estimator import DeepGPClassifier, DeepGPRegressor

BLOCK = 2_000
"""Rows that are predicted at a time: a row has a hundred components."""

ROWS_WRITTEN = 10_000
"""Rows that are written to a file of predictions at a time."""


LEVELS = (0.025, 0.05, 0.25, 0.5, 0.75, 0.95, 0.975)
"""The quantiles of an exported prediction: they bound the central 50, 90 and 95 %."""

WIDENED = " (widened)"
"""Behind the name of a quantile that conformal widening has moved."""

OUTSIDE, DISTANCE, WHY_NOT = "outside", "distance", "why not"
"""Columns of an exported prediction: what of the row lies outside the training rows, how far it is
from them (1 is as far as 99 % of them are from their centres, at the most), and why it is blank."""

REASONS_SHOWN = 3


@dataclass
class Tally:
    """How many rows of a file were predicted, and why not the others."""

    rows: int = 0
    blank: Counter[str] = field(default_factory=Counter)
    outside: int = 0

    @property
    def predicted(self) -> int:
        return self.rows - self.blank.total()

    def sentences(self, name: str) -> list[str]:
        """What there is to say of the file, in words."""
        file = visible(name, 200)
        if not self.blank:
            sentences = [f"{counted(self.rows, 'row')} of {file} predicted."]
        else:
            n = self.blank.total()
            sentences = [
                f"{self.predicted:,} of {counted(self.rows, 'row')} of {file} predicted.",
                f"{counted(n, 'row')} {'is' if n == 1 else 'are'} left blank, and the column "
                f"“{WHY_NOT}” says why: {self._reasons()}.",
            ]
        if self.outside:
            sentences.append(
                f"{counted(self.outside, 'row')} {'lies' if self.outside == 1 else 'lie'} outside "
                f"the training rows, and the column “{OUTSIDE}” says where: the model "
                "extrapolates there."
            )
        return sentences

    def _reasons(self) -> str:
        common = self.blank.most_common(REASONS_SHOWN)
        listed = ", ".join(f"{why} ({counted(n, 'row')})" for why, n in common)
        return listed + (", …" if len(self.blank) > len(common) else "")


def line_record(train: Dataset, recipe: Recipe, source: Source | None = None) -> LineArchive:
    """The straight line through these rows, as its file holds it."""
    scaler = Scaler.fit(train)
    return LineArchive(
        line=straight_line(train),
        scaler=scaler,
        task=train.task,
        input_names=train.input_names,
        output_names=train.output_names,
        classes=train.classes,
        recipe=json.loads(recipe.to_json()),
        source=source,
        domain=Domain.fit(train.X, scaler),
    )


class Outcome:
    """A model beside the recipe of the file that it learnt from."""

    recipe: Recipe
    scaler: Scaler
    domain: Domain | None
    regressor: "DeepGPRegressor | Line | Trees | None"
    classifier: "DeepGPClassifier | Line | Trees | None"
    likelihood: str
    widening: Widening | None
    log: np.ndarray
    """Which targets are learnt as their logarithm (P,)."""

    @classmethod
    def of(
        cls, recipe: Recipe, train: Dataset, model: Line | Trees, widening: Widening | None = None
    ) -> "Outcome":
        """Of a model that has no file, fitted to these rows."""
        outcome, scaler = cls.__new__(cls), Scaler.fit(train)
        likelihood = "trees" if isinstance(model, Trees) else "gaussian"
        outcome._set(recipe, scaler, Domain.fit(train.X, scaler), model, likelihood, widening)
        return outcome

    def __init__(self, record: Archive | LineArchive):
        """Of a saved one."""
        if record.recipe is None:
            raise ArchiveError(
                "This model was saved without the recipe of a table, so its inputs have no columns "
                "in a file: open it in Python with DeepGPRegressor.load or DeepGPClassifier.load."
            )
        recipe = Recipe.from_json(json.dumps(record.recipe))
        if recipe.input_names != record.input_names or recipe.task != record.task:
            raise ArchiveError("The recipe of this model does not fit its inputs: save it again.")
        if isinstance(record, LineArchive):
            model: Any = Line(record.line)
            likelihood = "poisson" if record.task == "counts" else "gaussian"
        else:
            # A second to load, and thirty megabytes: only where a model is used.
            from dgp_core.estimator import DeepGPClassifier, DeepGPRegressor

            numbers = record.task in ("regression", "counts")
            model = (DeepGPRegressor if numbers else DeepGPClassifier).from_archive(record)
            # The recipe puts columns in order; what comes from it is an array without names.
            vars(model).pop("feature_names_in_", None)
            likelihood = record.model.likelihood
        self._set(recipe, record.scaler, record.domain, model, likelihood, record.widening)

    def _set(
        self,
        recipe: Recipe,
        scaler: Scaler,
        domain: Domain | None,
        model: Any,
        likelihood: str,
        widening: Widening | None,
    ) -> None:
        numbers = recipe.task in ("regression", "counts")
        self.recipe, self.scaler, self.domain = recipe, scaler, domain
        self.regressor, self.classifier = (model, None) if numbers else (None, model)
        self.likelihood, self.widening = likelihood, widening
        self.log = recipe.logs

    def predictions(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """A column for each thing that is predicted of rows X (N, D): its name, and a value a row.

        Mean, deviation and quantiles of each target, or the likeliest class and every class's
        probability.
        """
        if not len(X):
            one = self._predictions(np.zeros((1, X.shape[1])))
            return {name: values[:0] for name, values in one.items()}
        blocks = [self._predictions(part) for part in _blocks(X)]
        return {name: np.concatenate([b[name] for b in blocks]) for name in blocks[0]}

    def outside(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """What of each row lies outside the training rows, in words, and how far it is from them;
        nothing where the model's file does not say where they are."""
        if self.domain is None:
            return {}
        distance = self.domain.distance(X, self.scaler)
        words = np.full(len(X), "", object)
        blocks = (self.recipe.blocks(a[None] if a.ndim == 1 else a)
                  for a in (X, self.domain.low, self.domain.high))  # fmt: skip
        for column, x, low, high in zip(self.recipe.inputs_from, *blocks, strict=True):
            for row in np.flatnonzero(((x < low) | (x > high)).any(1)):
                words[row] += f"; {_beyond(column, x[row], low[0], high[0])}"
        words[distance > 1] += "; far from the training rows"
        words = np.array([word.removeprefix("; ") for word in words], object)
        return {OUTSIDE: words, DISTANCE: distance}

    def beside(self, table: Table, X: np.ndarray, why_not: np.ndarray) -> dict[str, np.ndarray]:
        """What is predicted of a table's rows X, to stand beside them: blank where it is said why.

        A prediction whose name the file has already gets a number behind it.
        """
        good = why_not == ""
        own = self.predictions(X[good]) | self.outside(X[good])
        columns = {}
        for name, values in own.items():
            values = values.astype(object) if values.dtype == object else values.astype(float)
            columns[name] = np.full(len(X), None if values.dtype == object else np.nan)
            columns[name][good] = values
        columns[WHY_NOT] = why_not
        return {_free(name, table): values for name, values in columns.items()}

    def csv(self, tables: Iterable[Table], tally: Tally) -> Iterator[bytes]:
        """A CSV file, some rows at a time: what tables hold, and beside it what is predicted."""
        begun = False
        for table in tables:
            X = self.recipe.inputs(table)
            why_not = self.recipe.why_not(table, X)
            for start in range(0, table.rows, ROWS_WRITTEN):
                rows = slice(start, start + ROWS_WRITTEN)
                own = self.beside(table, X[rows], why_not[rows])
                cells = table.cells.items()
                columns = {name: np.array(as_written(c, rows), object) for name, c in cells} | own
                tally.rows += len(why_not[rows])
                tally.blank.update(filter(None, why_not[rows]))
                tally.outside += sum(map(bool, own.get(_free(OUTSIDE, table), ())))
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
        quantiles = self.intervals(X)
        widened = self.widening is not None
        columns = {}
        for p, name in enumerate(targets):
            columns |= {f"{name} mean": mean[:, p], f"{name} sd": deviation[:, p]}
            columns |= {
                f"{name} {100 * t:g}%{WIDENED if widened and t != 0.5 else ''}": q[:, p]
                for t, q in zip(LEVELS, quantiles, strict=True)
            }
        return columns

    def intervals(self, X: np.ndarray) -> np.ndarray:
        """The quantiles at LEVELS (K, N, P), widened where the model says so, in the file's units.

        They are stretched where the model learnt, before a logarithm is undone.
        """
        q = self._learnt_quantiles(X, np.array(LEVELS))
        if self.widening is not None:
            median = q[LEVELS.index(0.5)]
            q = self.widening.stretch(q, median, self.recipe.task == "counts")
        return self.recipe.outputs_back(q)

    def _moments(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of each target (N, P), in the file's units.

        Where the model learnt log y, E[yᵏ] = (1/S) Σ_s exp(k m_s + ½k² v_s). A Student's t has no
        such moment: it is NaN there.
        """
        assert self.regressor is not None
        if isinstance(self.regressor, Trees):
            q = self._quantiles(X, EVEN_LEVELS)
            mean = np.where(self.log, q.mean(0), self.regressor.predict_mean(X))
            return mean, q.std(0)
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
        return self.recipe.outputs_back(self._learnt_quantiles(X, levels))

    def _learnt_quantiles(self, X: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Quantiles (K, N, P), of y or of log y, as the model learnt it."""
        assert self.regressor is not None
        return self.regressor.predict_quantiles(X, levels).reshape(len(levels), len(X), -1)

    def scores(self, rows: Dataset, forecast: Forecast | None = None) -> dict[str, float]:
        """Every score by its name, of rows whose targets are in the file's units; `forecast` is
        that of these rows, where it is known already."""
        forecast = self.forecast(rows) if forecast is None else forecast
        if forecast.probabilities is not None:
            return scores.class_scores(forecast.probabilities, rows.Y)
        found = forecast.scores(rows.Y)
        if self.widening is not None:
            q = np.concatenate([self.intervals(part) for part in _blocks(rows.X)], 1)
            low, high = q[LEVELS.index(0.05)], q[LEVELS.index(0.95)]
            found["widened_90"] = float(((low <= rows.Y) & (rows.Y <= high)).mean())
        return found

    def in_units(self, rows: Dataset) -> Dataset:
        """Rows as the recipe gives them, with targets in the file's units."""
        return replace(rows, Y=self.recipe.outputs_back(rows.Y))

    def forecast(self, rows: Dataset) -> Forecast:
        """Of rows whose targets are in the file's units: what a verdict compares."""
        if self.classifier is not None:
            p = np.concatenate([self.classifier.predict_proba(part) for part in _blocks(rows.X)])
            return from_probabilities(p, rows.Y)
        Y = np.where(self.log, np.log(np.where(self.log, rows.Y, 1.0)), rows.Y)
        pairs = zip(_blocks(rows.X), _blocks(Y), strict=True)
        return Forecast.join([self._forecast(x, y) for x, y in pairs])

    def _forecast(self, X: np.ndarray, Y: np.ndarray) -> Forecast:
        """Of numbers, in the file's units; with z = log y, log p(y) = log p(z) − z."""
        assert self.regressor is not None
        log_p = self.regressor.log_density(X, Y) - Y[:, self.log].sum(1)
        if self.likelihood == "gaussian" and not self.log.any():
            assert not isinstance(self.regressor, Trees)
            return from_mixture(self.regressor.predict_mixture(X), Y, log_p)
        y, mean = self.recipe.outputs_back(Y), self._moments(X)[0]
        quantiles = Draws(self._quantiles(X, EVEN_LEVELS), independent=False)
        return from_draws(quantiles, mean, y, log_p, np.random.default_rng(0))


def _free(name: str, table: Table) -> str:
    """A name that no column of the file has."""
    free, k = name, 2
    while free in table.cells:
        free, k = f"{name} ({k})", k + 1
    return free


def _beyond(column: ColumnRecipe, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> str:
    """In words, how a column's inputs (k,) lie beyond their range in the training rows."""
    title = f"“{visible(column.column)}”"
    if column.indicator and x[-1] > high[-1]:
        return f"{title} is missing, as in no training row"
    if column.kind == "category":
        levels = column.levels
        place = int(x[0]) if len(levels) == 2 else int(x[: len(levels)].argmax())
        return f"{title} is “{visible(levels[place])}”, as in no training row"
    if column.kind == "boolean":
        return f"{title} is {'yes' if x[0] else 'no'}, as in no training row"
    above = x[0] > high[0]
    bound = high[0] if above else low[0]
    if column.kind == "date":
        return f"{title} {'after' if above else 'before'} {column.date(bound)}"
    return f"{title} {'above' if above else 'below'} {bound:.6g}"


def _blocks(values: np.ndarray) -> list[np.ndarray]:
    return [values[i : i + BLOCK] for i in range(0, max(len(values), 1), BLOCK)]
