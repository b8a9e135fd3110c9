"""Deep GPs as scikit-learn's estimators, in the user's own units."""

import operator
import warnings
from dataclasses import replace
from typing import Any, Literal, Self, get_args

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dgp_core import archive
from dgp_core.archive import Archive, ArchiveError
from dgp_core.gp.counts import dispersion
from dgp_core.gp.data import Dataset, Scaler, Task, counted
from dgp_core.gp.domain import Domain
from dgp_core.gp.likelihoods import Counts, for_task
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import SKETCH, MeanFunction, ModelSpec, Posterior, Precision, create_model
from dgp_core.gp.predict import (
    QUANTILE_DRAWS,
    LayerView,
    class_probabilities,
    draw_observations,
    function_draws,
    joint_latent,
    layer_views,
    log_density,
    predict_latent,
    predict_observed,
)
from dgp_core.training.optimise import TrainState, create_state
from dgp_core.training.plan import training
from dgp_core.training.progress import ProgressBar
from dgp_core.training.train import HOPELESS, Progress, Rows, TrainSpec, resume

MOST_PREDICT_SAMPLES = 10_000
"""Sample paths of one prediction, at the most: more would fill the memory."""


Missing = Literal["fill", "drop", "error"]


def _several(value: Any) -> Any:
    """One entry for all layers, or a tuple of one for each, as Python's own numbers and text."""
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(_several(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


class _DeepGP(BaseEstimator):
    """What both estimators share."""

    def __init__(
        self,
        layers: int = 2,
        inducing: int | tuple[int, ...] = 100,
        widths: int | tuple[int, ...] | None = None,
        kernels: str | tuple[str, ...] = "rbf",
        mean_function: MeanFunction = "linear",
        likelihood: str | None = None,
        steps: int | None = None,
        learning_rate: float = TrainSpec.learning_rate,
        natural_rate: float = TrainSpec.natural_rate,
        minibatch: int | Literal["auto"] | None = "auto",
        samples: int = TrainSpec.samples,
        decay: bool = TrainSpec.decay,
        tolerance: float = TrainSpec.tolerance,
        seconds: float | None = None,
        seed: int = 0,
        predict_samples: int = 100,
        precision: Precision = "auto",
        posterior: Posterior = "doubly_stochastic",
        progress: bool = False,
        missing: Missing = "fill",
        random_state: int | np.random.RandomState | None = None,
    ):
        self.layers = layers
        self.inducing = inducing
        self.widths = widths
        self.kernels = kernels
        self.mean_function: MeanFunction = mean_function
        self.likelihood = likelihood
        self.steps = steps
        self.learning_rate = learning_rate
        self.natural_rate = natural_rate
        self.minibatch: int | Literal["auto"] | None = minibatch
        self.samples = samples
        self.decay = decay
        self.tolerance = tolerance
        self.seconds = seconds
        self.seed = seed
        self.predict_samples = predict_samples
        self.precision: Precision = precision
        self.posterior: Posterior = posterior
        self.progress = progress
        self.missing: Missing = missing
        self.random_state = random_state

    # The learnt part, set by `fit` and `load`.
    model_spec_: ModelSpec
    train_spec_: TrainSpec
    scaler_: Scaler
    state_: TrainState
    progress_: Progress
    n_features_in_: int
    feature_names_in_: np.ndarray
    output_names_: tuple[str, ...]
    recipe_: dict | None
    """How a user's table became numbers, as JSON: saved along with the model."""
    domain_: Domain | None
    """Where the training rows lie."""
    medians_: np.ndarray | None
    """What stands for a missing value of each feature; None where they are not filled."""
    marked_: np.ndarray
    """Features whose missing values have an input of their own, by their places."""

    _estimator: str
    _likelihoods: tuple[str, ...]

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the training rows: a copy that travels holds no data."""
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_rows"}

    def single_layer(self) -> Self:
        """The rival, not yet fitted: one layer with the last one's M and kernel, the same seed."""

        def last(value):
            return value[-1] if isinstance(value, list | tuple | np.ndarray) else value

        one = {"layers": 1, "widths": None}
        one |= {name: last(getattr(self, name)) for name in ("inducing", "kernels")}
        return type(self)(**{**self.get_params(), **one})

    # Settings, checked when they are used.

    def _train_spec(self, n_rows: int) -> TrainSpec:
        S = operator.index(self.predict_samples)
        if not 1 <= S <= MOST_PREDICT_SAMPLES:
            raise ValueError(
                f"predict_samples must be from 1 to {MOST_PREDICT_SAMPLES:,}, not {S}."
            )
        proposed = training(n_rows)
        steps = proposed.steps if self.steps is None else operator.index(self.steps)
        return TrainSpec(
            steps=steps,
            learning_rate=float(self.learning_rate),
            natural_rate=float(self.natural_rate),
            # A short run climbs within a fifth of its steps.
            ramp_steps=min(TrainSpec.ramp_steps, steps // 5),
            minibatch=self._minibatch(proposed.minibatch),
            samples=operator.index(self.samples),
            decay=bool(self.decay),
            tolerance=float(self.tolerance),
            seconds=None if self.seconds is None else float(self.seconds),
            seed=self._seed(),
        )

    def _minibatch(self, proposed: int | None) -> int | None:
        """Rows a step; a mean-field posterior takes all of them, whatever is set."""
        if self.minibatch is None or (self.posterior == "mean_field" and self.layers > 1):
            return None
        return proposed if self.minibatch == "auto" else operator.index(self.minibatch)

    def _seed(self) -> int:
        """`random_state` where there is one, as scikit-learn understands it, else `seed`."""
        if self.random_state is None:
            return operator.index(self.seed)
        if isinstance(self.random_state, np.random.RandomState):
            return int(self.random_state.randint(np.iinfo(np.int32).max))
        return operator.index(self.random_state)

    def _model_spec(self, likelihood: str, most_inducing: int | None = None) -> ModelSpec:
        if likelihood not in self._likelihoods:
            raise ValueError(
                f"{type(self).__name__} has no likelihood {likelihood!r}. "
                f"Choose from {', '.join(self._likelihoods)}."
            )
        spec = ModelSpec(
            layers=operator.index(self.layers),
            inducing=_several(self.inducing),
            widths=_several(self.widths),
            kernels=_several(self.kernels),
            mean_function=self.mean_function,
            likelihood=likelihood,
            lengthscale=None,
            precision=self.precision,
            posterior=self.posterior,
        )
        if most_inducing is None or max(spec.inducing_counts) <= most_inducing:
            return spec
        return replace(spec, inducing=tuple(min(M, most_inducing) for M in spec.inducing_counts))

    def _checked(self, X: Any) -> np.ndarray:
        """X as numbers (N, D), checked against what the model was fitted to."""
        check_is_fitted(self)
        rows: Any = validate_data(self, X, reset=False, dtype=np.float64, **self._finite)
        return self._filled(rows)

    def _inputs(self, X: Any) -> np.ndarray:
        """The same in standard units."""
        return self.scaler_.inputs(self._checked(X))

    # Missing values, by the rule of `tables.recipe`.

    @property
    def _finite(self) -> dict[str, Any]:
        if self.missing not in get_args(Missing):
            raise ValueError(f"missing is one of {', '.join(get_args(Missing))}.")
        return {"ensure_all_finite": True if self.missing == "error" else "allow-nan"}

    def _learn_missing(self, X: np.ndarray) -> None:
        """Medians of the training rows; features with a missing value there are marked."""
        self.medians_, self.marked_ = None, np.zeros(0, int)
        if self.missing == "fill":
            absent = np.isnan(X)
            self.marked_ = np.flatnonzero(absent.any(0))
            known = np.where(absent.all(0), 0.0, X)
            self.medians_ = np.nanmedian(known, 0)

    def _filled(self, X: np.ndarray) -> np.ndarray:
        """Rows (N, features) as inputs: missing values filled, and marked in further columns."""
        absent = np.isnan(X)
        if self.medians_ is None:
            if absent.any():
                raise ValueError(
                    f"X has missing values in {counted(int(absent.any(1).sum()), 'row')}, and this "
                    "model was not fitted to fill them: complete these rows, or fit with "
                    "missing='fill'."
                )
            return X
        if not (absent.any() or self.marked_.size):
            return X
        return np.hstack([np.where(absent, self.medians_, X), absent[:, self.marked_]])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _rows_of(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """X (N, D) and y (N, P) as numbers; a class as its code."""
        raise NotImplementedError

    # Fitting.

    def _used(
        self, X: np.ndarray, Y: np.ndarray, sample_weight: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """The rows that train, and their weights: not those of weight 0, nor incomplete ones that
        are to be dropped."""
        use = np.ones(len(X), bool)
        if self.missing == "drop":
            use &= ~np.isnan(X).any(1)
        w = None
        if sample_weight is not None:
            w = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            use &= w > 0
        if not use.any():
            raise ValueError("No row is left to learn from: all are incomplete or weigh nothing.")
        return X[use], Y[use], None if w is None else w[use]

    def _fit(
        self,
        X: np.ndarray,
        Y: np.ndarray,
        task: Task,
        likelihood: str,
        n_classes: int,
        weights: np.ndarray | None,
        log_exposure: np.ndarray | None = None,
    ):
        self._learn_missing(X)
        X = self._filled(X)
        rows = Dataset("rows", X, Y, self._input_names(), self.output_names_, task)
        with np.errstate(over="ignore", invalid="ignore"):
            scaler = Scaler.fit(rows, weights)
            raw, X, Y = X, scaler.inputs(X), scaler.outputs(Y)
        sizes = (X, Y, scaler.x_scale, scaler.y_scale)
        if not all(np.isfinite(size).all() for size in sizes):
            raise ValueError("X or y holds numbers too large to be scaled: change their unit.")
        most = len(np.unique(X, axis=0)) if len(X) <= SKETCH else len(X)
        train_spec = self._train_spec(len(X))
        if likelihood == "counts":
            exposure = None if log_exposure is None else np.exp(log_exposure[:, 0])
            self.dispersion_ = dispersion(X, Y, exposure)
            likelihood = self.dispersion_.likelihood
        spec = self._model_spec(likelihood, most)
        P = Y.shape[1]
        Y = Y if log_exposure is None else np.hstack([Y, log_exposure])
        model = create_model(spec, X, P, n_classes, train_spec.seed, Y)
        self.model_spec_, self.scaler_, self.recipe_ = spec, scaler, None
        self.domain_ = Domain.fit(raw, scaler)
        self._rows = X, Y, weights
        state = create_state(model, jax.random.key(train_spec.seed))
        return self._train(state, train_spec, Progress())

    def _input_names(self) -> tuple[str, ...]:
        """A name for each input: the features, and which of them are missing."""
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        return (*names, *(f"{names[i]} is missing" for i in self.marked_))

    def _train(self, state: TrainState, spec: TrainSpec, progress: Progress) -> Self:
        X, Y, weights = self._rows
        rows = Rows.create(X, Y, spec.minibatch, state.jitter.dtype, spec.seed, weights)
        with ProgressBar(spec.steps, progress.steps, shown=self.progress) as bar:
            self.state_, self.progress_ = resume(state, rows, spec, progress, bar.on_chunk)
        self.train_spec_ = spec
        if int(self.state_.streak) >= HOPELESS:
            warnings.warn(
                f"Training {self.progress_.stopped}. Try a smaller learning rate.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return self

    def continue_training(
        self,
        steps: int,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
        exposure: Any = None,
    ) -> Self:
        """So many steps more, from where training stopped; the rates fall towards the new end.

        X, y, their weights and exposure are those of `fit`; they are needed again only after
        `load`, since a file holds no training rows.
        """
        check_is_fitted(self)
        if X is not None:
            X, Y = self._rows_of(X, y, reset=False)
            Y = np.hstack([self.scaler_.outputs(Y), self._log_exposure(exposure, len(X))])
            X, Y, weights = self._used(X, Y, sample_weight)
            self._rows = self.scaler_.inputs(self._filled(X)), Y, weights
        elif not hasattr(self, "_rows"):
            raise ValueError(
                "A saved model holds no training rows: call continue_training(steps, X, y) with "
                "those that it was fitted to."
            )
        before = self.progress_
        spec = replace(self.train_spec_, steps=before.steps + operator.index(steps))
        if self.seconds is not None:
            spec = replace(spec, seconds=before.seconds + float(self.seconds))
        progress = replace(before, fit=list(before.fit), kl=list(before.kl), stopped="")
        return self._train(self.state_, spec, progress)

    @property
    def bound_(self) -> np.ndarray:
        """The bound at every step so far."""
        return self._fitted().progress_.bound

    @property
    def n_iter_(self) -> int:
        """Steps so far."""
        return self._fitted().progress_.steps

    @property
    def stopped_(self) -> str:
        """Why training ended, in words."""
        return self._fitted().progress_.stopped

    def __sklearn_is_fitted__(self) -> bool:
        return "state_" in vars(self)

    def _fitted(self) -> Self:
        check_is_fitted(self)
        return self

    # Prediction.

    def _key(self, seed: int | None, purpose: int) -> jax.Array:
        """A key of its own for every purpose; the seed is that of the fit where none is given."""
        seed = self.train_spec_.seed if seed is None else operator.index(seed)
        return jax.random.fold_in(jax.random.key(seed), purpose)

    def _latent(self, X: Any) -> Mixture:
        """q(f*), standard units, with the log exposure where it is a column of X. Rows share their
        ε: a row's prediction is its own alone."""
        rows, n_samples = self._checked(X), operator.index(self.predict_samples)
        inputs, key = self.scaler_.inputs(rows), self._key(None, 1)
        latent = predict_latent(self.state_.model, inputs, key, n_samples, shared=True)
        return latent.shifted(self.scaler_.log_exposure(rows))

    def _log_exposure(self, exposure: Any, n_rows: int) -> np.ndarray:
        """log of what each row's rate is multiplied by (N, 1); (N, 0) where none is given."""
        if exposure is None:
            return np.zeros((n_rows, 0))
        if self._task() != "counts":
            raise ValueError('An exposure is for counts: choose likelihood="counts".')
        values = np.asarray(exposure, np.float64)
        if values.shape != (n_rows,):
            raise ValueError(
                f"The exposure must be one number for each of {n_rows} rows, not an array of shape "
                f"{values.shape}."
            )
        if not (np.isfinite(values) & (values > 0)).all():
            raise ValueError("Every exposure must be a positive number: drop the other rows.")
        return np.log(values)[:, None]

    def _inputs_and_shift(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """X in standard units, and its log exposure where that is a column of it, else 0 (N, 1)."""
        rows = self._checked(X)
        return self.scaler_.inputs(rows), self.scaler_.log_exposure(rows).sum(1, keepdims=True)

    def _exposed(self, X: Any, exposure: Any) -> Mixture:
        """q(f*) with the rows' log exposure added."""
        latent = self._latent(X)
        return latent.shifted(self._log_exposure(exposure, latent.means.shape[1]))

    def log_density(self, X: Any, y: Any, exposure: Any = None) -> np.ndarray:
        """log p(y*) of each row (N,) under the predictive mixture, in the user's units.

        With y = s·z + m, z the model's standard units, log p(y) = log p(z) − Σ_p log s_p.
        """
        _, Y = self._fitted()._rows_of(X, y, reset=False)
        latent = self._exposed(X, exposure)
        standard = log_density(self.state_.model, latent, self.scaler_.outputs(Y))
        return standard - np.log(self.scaler_.y_scale).sum()

    def layer_views(self, X: Any, n_draws: int = 10, seed: int | None = None) -> list[LayerView]:
        """What each layer does to rows X.

        What enters the first layer is in X's units and, for a regression, what leaves the last in
        y's; between them, and in lengthscales and variances, units are the model's own.
        """
        X = self._inputs(X)
        views = layer_views(self.state_.model, X, self._key(seed, 2), n_draws)
        scaler, first = self.scaler_, views[0]
        mean, scale = scaler.x_mean[scaler.kept], scaler.x_scale[scaler.kept]
        views[0] = replace(
            first,
            entering=first.entering * scale + mean,
            grid=None if first.grid is None else first.grid * scale[0] + mean[0],
            inducing=first.inducing * scale + mean,
        )
        last, s = views[-1], scaler.y_scale
        if last.leaving.shape[2] == len(s):
            back = scaler.outputs_back
            views[-1] = replace(
                last,
                leaving=back(last.leaving),
                map_mean=None if last.map_mean is None else back(last.map_mean),
                map_sd=None if last.map_sd is None else last.map_sd * s,
                u_mean=back(last.u_mean),
                u_sd=last.u_sd * s,
            )
        return views

    # Files.

    def _classes(self) -> tuple:
        return ()

    def _task(self) -> Task:
        raise NotImplementedError

    def save(self, file: archive.File) -> None:
        """Writes the model, but no training rows, to a path or an open binary file."""
        check_is_fitted(self)
        parameters = {n: _several(v) for n, v in self.get_params().items()}
        if isinstance(self.random_state, np.random.RandomState):
            parameters |= {"seed": self.train_spec_.seed, "random_state": None}
        medians = None if self.medians_ is None else self.medians_.tolist()
        archive.save(
            file,
            Archive(
                model=self.model_spec_,
                training=self.train_spec_,
                scaler=self.scaler_,
                state=self.state_,
                progress=self.progress_,
                task=self._task(),
                input_names=self._input_names(),
                output_names=self.output_names_,
                classes=self._classes(),
                recipe=self.recipe_,
                settings={
                    "parameters": parameters,
                    "named_inputs": hasattr(self, "feature_names_in_"),
                    "vector_output": self._vector_output,
                    "medians": medians,
                    "marked": self.marked_.tolist(),
                },
                domain=self.domain_,
            ),
        )

    @classmethod
    def load(cls, file: archive.File) -> Self:
        """The model that `save` wrote; it predicts the same to the last bit."""
        return cls.from_archive(archive.load(file))

    @classmethod
    def from_archive(cls, record: Archive) -> Self:
        """The model of an archive, whoever wrote it."""
        kind = "regressor" if record.task in ("regression", "counts") else "classifier"
        if kind != cls._estimator:
            raise ArchiveError(f"This file holds a {kind}: open it with DeepGP{kind.title()}.load.")
        settings = record.settings or {
            "parameters": _parameters(record),
            "named_inputs": True,
            "vector_output": len(record.output_names) == 1,
        }
        parameters = settings.get("parameters")
        named, vector = settings.get("named_inputs"), settings.get("vector_output")
        if not (
            isinstance(parameters, dict) and isinstance(named, bool) and isinstance(vector, bool)
        ):
            raise ArchiveError("The settings of this estimator are damaged: save it again.")
        try:
            model = cls(**{n: _several(v) for n, v in parameters.items()})
            model._train_spec(n_rows=1)  # checks the settings
            # "counts" left the choice to a test.
            chosen = None if model.likelihood == record.task == "counts" else model.likelihood
            model._model_spec(chosen or record.model.likelihood)
            if chosen not in (None, record.model.likelihood):
                raise ValueError("its likelihood is not the model's.")
        except (TypeError, ValueError) as error:
            raise ArchiveError(f"In the settings of this estimator: {error}") from error
        model.model_spec_, model.train_spec_ = record.model, record.training
        model.scaler_, model.state_ = record.scaler, record.state
        model.progress_, model.recipe_ = record.progress, record.recipe
        model.domain_ = record.domain
        model._restore_missing(settings, len(record.input_names))
        if named:
            features = record.input_names[: model.n_features_in_]
            model.feature_names_in_ = np.asarray(features, dtype=object)
        model.output_names_ = record.output_names
        model._vector_output = vector and len(record.output_names) == 1
        model._restore_classes(record)
        return model

    def _restore_missing(self, settings: dict, n_inputs: int) -> None:
        """How missing values are filled; files that were written before there was this lack it."""
        medians, marked = settings.get("medians"), settings.get("marked", [])
        D = n_inputs - len(marked) if isinstance(marked, list) else 0
        good = (
            D > 0
            and all(type(i) is int and 0 <= i < D for i in marked)
            and (
                not marked
                if medians is None
                else isinstance(medians, list)
                and len(medians) == D
                and all(type(m) in (int, float) and np.isfinite(m) for m in medians)
            )
        )
        if not good:
            raise ArchiveError("How this estimator fills missing values is damaged: save it again.")
        self.n_features_in_, self.marked_ = D, np.array(marked, int)
        self.medians_ = None if medians is None else np.array(medians, np.float64)

    _vector_output: bool
    """Whether y was a vector, so that predictions are vectors too."""

    def _restore_classes(self, record: Archive) -> None:
        pass


def _parameters(record: Archive) -> dict[str, Any]:
    """An estimator's settings from what a model was made of."""
    model, training = record.model, record.training
    names = ("layers", "inducing", "widths", "kernels", "mean_function", "likelihood", "posterior")
    more = ("steps", "learning_rate", "natural_rate", "minibatch", "samples", "decay", "tolerance")
    return {
        **{name: getattr(model, name) for name in names},
        **{name: getattr(training, name) for name in (*more, "seconds", "seed")},
    }


class DeepGPRegressor(RegressorMixin, _DeepGP):
    """A deep GP for numbers: `fit(X, y)`, then `predict(X)`, in the units of X and y.

    `likelihood` is "gaussian" (the default) or "student_t" for outliers; for counts, "poisson",
    "negative_binomial" where they vary more, or "counts", where a test of the training rows chooses
    between these two: `model_spec_.likelihood` says which, `dispersion_` why. `steps=None` and
    `minibatch="auto"` go by the number of rows; `seed` fixes everything that is drawn, or
    `random_state`, where it is given. Missing values (NaN) in X are filled with the training rows'
    medians and marked in inputs of their own; `missing="drop"` leaves out their rows, "error"
    refuses them.
    """

    _estimator = "regressor"
    _likelihoods = ("gaussian", "student_t", "counts", "poisson", "negative_binomial")

    def fit(self, X: Any, y: Any, sample_weight: Any = None, exposure: Any = None) -> Self:
        """Learns from rows X (N, D) and y, (N,) or (N, P).

        A row of weight w counts w times in the bound's likelihood term: Σ w_i E log p(y_i | f_i).
        For counts, `exposure` (N,) is what each row's rate is multiplied by: hours watched, people
        at risk.
        """
        names = getattr(y, "columns", [getattr(y, "name", None)])
        X, Y = self._rows_of(X, y, reset=True)
        P, log_exposure = Y.shape[1], self._log_exposure(exposure, len(X))
        X, Y, weights = self._used(X, np.hstack([Y, log_exposure]), sample_weight)
        log_exposure = None if exposure is None else Y[:, P:]
        Y = Y[:, :P]
        # A column is a vector, as for scikit-learn's GaussianProcessRegressor.
        self._vector_output = Y.shape[1] == 1
        named = all(isinstance(name, str) for name in names)
        self.output_names_ = tuple(names if named else (f"y{i}" for i in range(Y.shape[1])))
        task = self._task()
        likelihood = self.likelihood or for_task(task)
        return self._fit(X, Y, task, likelihood, 0, weights, log_exposure)

    def _task(self) -> Task:
        counts = ("counts", "poisson", "negative_binomial")
        return "counts" if self.likelihood in counts else "regression"

    def _rows_of(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        form: dict[str, Any] = dict(
            dtype=np.float64, multi_output=True, y_numeric=True, **self._finite
        )
        X, y = validate_data(self, X, y, reset=reset, **form)
        Y = y.astype(np.float64).reshape(len(X), -1)
        if self._task() == "counts" and ((Y < 0).any() or (Y % 1 != 0).any()):
            raise ValueError("A likelihood of counts needs counts: y must be whole numbers from 0.")
        return X, Y

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Values (…, N, P), without P where y was a vector."""
        return values[..., 0] if self._vector_output else values

    def predict_mixture(self, X: Any, exposure: Any = None) -> Mixture:
        """The mixture of y*, in the user's units; exact where the noise is Gaussian.

        Counts are those of an exposure of 1, or of the rows' own (N,).
        """
        latent = self._exposed(X, exposure)
        observed = predict_observed(self.state_.model, latent)
        return observed.affine(self.scaler_.y_scale, self.scaler_.y_mean)

    def predict(
        self, X: Any, return_std: bool = False, return_cov: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of y* for each row; where asked, its standard deviation, noise included, or the
        covariance of all rows (N, N), or (N, N, P)."""
        if return_std and return_cov:
            raise ValueError("Ask for return_std or for return_cov, not for both.")
        mixture = self.predict_mixture(X)
        mean = self._shaped(mixture.mean)
        if return_cov:
            return mean, self._covariance(X)
        return (mean, self._shaped(np.sqrt(mixture.variance))) if return_std else mean

    def _covariance(self, X: Any) -> np.ndarray:
        """Cov y = Cov E[y | f] + diag E Var[y | f], in the user's units."""
        (X, shift), model = self._inputs_and_shift(X), self.state_.model
        key, S = self._key(None, 3), operator.index(self.predict_samples)
        if self.model_spec_.likelihood in ("gaussian", "student_t"):  # E[y | f] = f
            mean, covariance = joint_latent(model, X, key, S)
            noise = predict_observed(model, Mixture(mean[None], np.zeros_like(mean)[None])).variance
        else:
            F = function_draws(model, X, key, S)[-1] + shift
            observed = predict_observed(model, Mixture(F, np.zeros_like(F)))
            centred = observed.means - observed.means.mean(0)
            covariance = np.einsum("snp,smp->pnm", centred, centred) / S
            noise = observed.variances.mean(0)
        covariance = np.moveaxis(covariance + noise.T[:, None] * np.eye(len(X)), 0, 2)
        return self._shaped(covariance * self.scaler_.y_scale**2)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: int | np.random.RandomState | None = 0
    ) -> np.ndarray:
        """Observations drawn together at all rows, noise included: (N, S), or (N, P, S)."""
        (X, shift), model = self._inputs_and_shift(X), self.state_.model
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        key_f, key_y = jax.random.split(jax.random.key(seed))
        F = function_draws(model, X, key_f, operator.index(n_samples))[-1] + shift
        Y = np.asarray(model.likelihood.sample(key_y, jnp.asarray(F)), np.float64)
        return np.moveaxis(self._shaped(self.scaler_.outputs_back(Y)), 0, -1)

    def predict_quantiles(self, X: Any, levels: Any, exposure: Any = None) -> np.ndarray:
        """The values below which y* lies with these probabilities: (K, N), or (K, N, P).

        From the mixture where the noise is Gaussian, else from observations drawn of it.
        """
        if self.model_spec_.likelihood == "gaussian":
            return self._shaped(self.predict_mixture(X).quantile(levels))
        latent = self._exposed(X, exposure)
        levels = np.atleast_1d(np.asarray(levels, np.float64))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError("Quantile levels must lie between 0 and 1, both excluded.")
        parts = []
        for start in range(0, latent.means.shape[1], 500):
            rows = slice(start, start + 500)
            part = Mixture(latent.means[:, rows], latent.variances[:, rows])
            rng = np.random.default_rng([self.train_spec_.seed, start])
            y = draw_observations(self.state_.model, part, rng, QUANTILE_DRAWS)
            parts.append(np.quantile(y, levels, 0, method="inverted_cdf"))
        return self._shaped(self.scaler_.outputs_back(np.concatenate(parts, 1)))

    def function_draws(self, X: Any, n_draws: int = 10, seed: int | None = None) -> np.ndarray:
        """Whole functions, coherent in x and without noise: (S, N), or (S, N, P).

        For counts, the rate e^f. The same seed gives the same draws.
        """
        (X, shift), model = self._inputs_and_shift(X), self.state_.model
        F = function_draws(model, X, self._key(seed, 2), n_draws)[-1] + shift
        if isinstance(model.likelihood, Counts):
            F = np.exp(F + np.asarray(model.likelihood.offset))
        return self._shaped(self.scaler_.outputs_back(F))


class DeepGPClassifier(ClassifierMixin, _DeepGP):
    """A deep GP for classes: `fit(X, y)`, then `predict(X)` and `predict_proba(X)`.

    `likelihood` is "bernoulli" for two classes and "softmax" for more where none is chosen;
    "robust_max", which bears wrong labels, is the other choice.
    """

    _estimator = "classifier"
    _likelihoods = ("bernoulli", "robust_max", "softmax")

    classes_: np.ndarray

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learns from rows X (N, D) and a label a row, y (N,), each row of its weight."""
        labels: Any
        X, labels = validate_data(self, X, y, dtype=np.float64, **self._finite)
        X, labels, weights = self._used(X, labels, sample_weight)
        try:
            check_classification_targets(labels)
            self.classes_ = np.unique(labels)
        except TypeError:
            raise ValueError(
                "Unknown label type: y mixes text and numbers, or a label is missing: every row "
                "needs a label, all of one kind."
            ) from None
        C = len(self.classes_)
        if C < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes, but y has 1 class only: "
                f"{self.classes_[0]!r}."
            )
        likelihood = self.likelihood or for_task("multiclass", 1, C)
        if likelihood == "bernoulli" and C > 2:
            raise ValueError(f"bernoulli is for 2 classes, not {C}: choose softmax or robust_max.")
        self._vector_output, self.output_names_ = True, ("y",)
        return self._fit(X, self._codes(labels), self._task(), likelihood, C, weights)

    def _codes(self, labels: np.ndarray) -> np.ndarray:
        """Each label's place among the classes (N, 1)."""
        codes = {label: code for code, label in enumerate(self.classes_.tolist())}
        unseen = [label for label in labels.tolist() if label not in codes]
        if unseen:
            raise ValueError(f"There was no class {unseen[0]!r} in fit.")
        return np.array([codes[label] for label in labels.tolist()], np.float64)[:, None]

    def _rows_of(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        labels: Any
        X, labels = validate_data(self, X, y, reset=reset, dtype=np.float64, **self._finite)
        return X, self._codes(labels)

    def _task(self) -> Task:
        return "binary" if len(self.classes_) == 2 else "multiclass"

    def _classes(self) -> tuple:
        return tuple(self.classes_.tolist())

    def _restore_classes(self, record: Archive) -> None:
        self.classes_ = np.asarray(record.classes)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class, in the order of `classes_` (N, C)."""
        latent = self._latent(X)
        return class_probabilities(self.state_.model, latent)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]

    def function_draws(self, X: Any, n_draws: int = 10, seed: int | None = None) -> np.ndarray:
        """Class probabilities along whole functions, coherent in x (S, N, C)."""
        X = self._inputs(X)
        F = function_draws(self.state_.model, X, self._key(seed, 2), n_draws)[-1]
        drawn = [Mixture(f[None], np.zeros_like(f)[None]) for f in F]
        return np.stack([class_probabilities(self.state_.model, f) for f in drawn])
