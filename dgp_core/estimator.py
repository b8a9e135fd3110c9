"""Deep GPs with scikit-learn's conventions, in the user's own units.

scikit-learn itself is not needed: where it is loaded, its own error and warning classes are used,
so that its pipelines, searches and checks take these estimators for their own.
"""

import importlib
import inspect
import operator
import sys
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from dgp_core import archive
from dgp_core.archive import Archive, ArchiveError
from dgp_core.gp.data import Dataset, Scaler, Task
from dgp_core.gp.likelihoods import for_task
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import SKETCH, MeanFunction, ModelSpec, Precision, create_model
from dgp_core.gp.predict import (
    LayerView,
    class_probabilities,
    function_draws,
    layer_views,
    log_density,
    predict_latent,
    predict_observed,
)
from dgp_core.training.optimise import TrainState, create_state
from dgp_core.training.train import HOPELESS, Progress, Rows, TrainSpec, resume

MOST_PREDICT_SAMPLES = 10_000
"""Sample paths of one prediction, at the most: more would fill the memory."""

QUANTILE_DRAWS = 4000
"""Observations drawn a row where the noise is not Gaussian and a quantile has no formula."""


class NotFittedError(ValueError, AttributeError):
    """A prediction was asked of a model that has learnt nothing yet."""


def _theirs(name: str, otherwise: type) -> type:
    """scikit-learn's own exception where scikit-learn is loaded."""
    return getattr(sys.modules.get("sklearn.exceptions"), name, otherwise)


class ProgressBar:
    """Steps, their pace, the bound and the time left on stderr, as training goes on.

    One line that is written again and again on a terminal, else a line now and then.
    """

    def __init__(self, steps: int):
        self.steps, self.live = steps, sys.stderr.isatty()
        self.first: tuple[int, float] | None = None
        self.shown = 0.0

    def __call__(self, state: TrainState, progress: Progress) -> None:
        # The first call compiles: it tells nothing of the time that is left.
        steps, seconds = self.first = self.first or (progress.steps, progress.seconds)
        if not self.live and progress.seconds < self.shown + 5:
            return
        self.shown = progress.seconds
        pace = (progress.seconds - seconds) / max(progress.steps - steps, 1)
        rest = pace * (self.steps - progress.steps)
        left = f"{rest:,.0f} s" if rest < 120 else f"{rest / 60:,.0f} min"
        full = round(10 * progress.steps / max(self.steps, 1))
        self.write(
            f"[{'#' * full:10}] {progress.steps:,}/{self.steps:,} steps, "
            f"bound {np.mean(progress.bound[-100:]):,.1f}, "
            + (f"{1 / pace:,.3g} steps/s, {left} left" if pace else "compiled")
        )

    def write(self, line: str) -> None:
        print(f"\r{line:78}" if self.live else line, end="" if self.live else "\n", file=sys.stderr)
        sys.stderr.flush()

    def close(self, progress: Progress) -> None:
        self.write(f"{progress.stopped}, in {progress.seconds:,.1f} s")
        if self.live:
            print(file=sys.stderr)


def _table(X: Any, name: str) -> np.ndarray:
    """Numbers as float64, with scikit-learn's words for what is none."""
    if hasattr(X, "toarray"):
        raise TypeError(f"Sparse data was passed as {name}: make it dense with {name}.toarray().")
    try:
        X = np.asarray(X)
    except ValueError:
        raise ValueError(f"{name} is ragged: every row needs equally many numbers.") from None
    if np.iscomplexobj(X):
        raise ValueError(f"Complex data not supported: {name} must hold real numbers.")
    X = X.astype(np.float64)
    if not np.isfinite(X).all():
        raise ValueError(f"Input {name} contains NaN or infinity: fill or drop such cells first.")
    return X


def _column_names(X: Any) -> list | None:
    """The column names of a data frame; None where there are none or not all are text."""
    names = list(getattr(X, "columns", ()))
    text = [isinstance(name, str) for name in names]
    if any(text) and not all(text):
        raise TypeError(
            "Feature names are only supported if all input features have string names: "
            "convert them with X.columns = X.columns.astype(str)."
        )
    return names if names and all(text) else None


def _several(value: Any) -> Any:
    """One entry for all layers, or a tuple of one for each, as Python's own numbers and text."""
    if isinstance(value, list | tuple | np.ndarray):
        return tuple(_several(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


@partial(jax.jit, static_argnames="n_draws")
def _observations(likelihood, mean, variance, key, n_draws):
    """Observations y ~ p(y|f), f ~ q_s, n for each component: (n, S, N, P)."""
    key_f, key_y = jax.random.split(key)
    eps = jax.random.normal(key_f, (n_draws, *mean.shape), mean.dtype)
    return likelihood.sample(key_y, mean[None] + jnp.sqrt(variance)[None] * eps)


class _DeepGP:
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
        minibatch: int | None = TrainSpec.minibatch,
        samples: int = TrainSpec.samples,
        decay: bool = TrainSpec.decay,
        tolerance: float = TrainSpec.tolerance,
        seconds: float | None = None,
        seed: int = 0,
        predict_samples: int = 100,
        precision: Precision = "auto",
        progress: bool = False,
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
        self.minibatch = minibatch
        self.samples = samples
        self.decay = decay
        self.tolerance = tolerance
        self.seconds = seconds
        self.seed = seed
        self.predict_samples = predict_samples
        self.precision: Precision = precision
        self.progress = progress

    # The learnt part, set by `fit` and `load`.
    model_spec_: ModelSpec
    train_spec_: TrainSpec
    scaler_: Scaler
    state_: TrainState
    progress_: Progress
    n_features_in_: int
    output_names_: tuple[str, ...]
    recipe_: dict | None
    """How a user's table became numbers, as JSON: saved along with the model."""

    _estimator: str
    _likelihoods: tuple[str, ...]

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        parameters = inspect.signature(_DeepGP.__init__).parameters
        return {name: p.default for name, p in parameters.items() if name != "self"}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Every setting by its name."""
        return {name: getattr(self, name) for name in self._defaults()}

    def set_params(self, **params: Any) -> Self:
        """Changes settings by name."""
        for name, value in params.items():
            if name not in self._defaults():
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. "
                    f"Valid parameters are: {', '.join(self._defaults())}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if repr(value) != repr(self._defaults()[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the training rows: a copy that travels holds no data."""
        return {name: value for name, value in vars(self).items() if name != "_rows"}

    def __sklearn_tags__(self):
        """What scikit-learn wants to know; nobody else asks."""
        tags = importlib.import_module("sklearn.utils")
        regressor = self._estimator == "regressor"
        return tags.Tags(
            estimator_type=self._estimator,
            target_tags=tags.TargetTags(required=True, multi_output=regressor),
            regressor_tags=tags.RegressorTags() if regressor else None,
            classifier_tags=None if regressor else tags.ClassifierTags(),
            input_tags=tags.InputTags(),
        )

    def single_layer(self) -> Self:
        """The rival, not yet fitted: one layer with the last one's M and kernel, the same seed."""

        def last(value):
            return value[-1] if isinstance(value, list | tuple | np.ndarray) else value

        one = {"layers": 1, "widths": None}
        one |= {name: last(getattr(self, name)) for name in ("inducing", "kernels")}
        return type(self)(**{**self.get_params(), **one})

    # Settings, checked when they are used.

    def _train_spec(self) -> TrainSpec:
        S = operator.index(self.predict_samples)
        if not 1 <= S <= MOST_PREDICT_SAMPLES:
            raise ValueError(
                f"predict_samples must be from 1 to {MOST_PREDICT_SAMPLES:,}, not {S}."
            )
        steps = TrainSpec.steps if self.steps is None else operator.index(self.steps)
        return TrainSpec(
            steps=steps,
            learning_rate=float(self.learning_rate),
            natural_rate=float(self.natural_rate),
            # A short run climbs within a fifth of its steps.
            ramp_steps=min(TrainSpec.ramp_steps, steps // 5),
            minibatch=None if self.minibatch is None else operator.index(self.minibatch),
            samples=operator.index(self.samples),
            decay=bool(self.decay),
            tolerance=float(self.tolerance),
            seconds=None if self.seconds is None else float(self.seconds),
            seed=operator.index(self.seed),
        )

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
            precision=self.precision,
        )
        if most_inducing is None or max(spec.inducing_counts) <= most_inducing:
            return spec
        return replace(spec, inducing=tuple(min(M, most_inducing) for M in spec.inducing_counts))

    # Data at the door.

    def _inputs(self, X: Any, fitting: bool = False) -> np.ndarray:
        """X as numbers (N, D), checked against what the model was fitted to."""
        names = _column_names(X)
        if not fitting:
            self._check_names(names)
        X = _table(X, "X")
        if X.ndim != 2:
            raise ValueError(
                f"Expected 2D array, got {X.ndim}D array instead. Reshape your data either using "
                "array.reshape(-1, 1) if your data has a single feature or array.reshape(1, -1) "
                "if it contains a single sample."
            )
        for what, size in zip(("sample", "feature"), X.shape, strict=True):
            if size == 0:
                raise ValueError(
                    f"Found array with 0 {what}(s) (shape={X.shape}) while a minimum of 1 is "
                    f"required."
                )
        if fitting:
            self.n_features_in_ = X.shape[1]
            vars(self).pop("feature_names_in_", None)
            if names is not None:
                self.feature_names_in_ = np.asarray(names, dtype=object)
        elif X.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        return X

    def _check_names(self, names: list | None) -> None:
        """A data frame's columns must be those of `fit`, in their order."""
        own = type(self).__name__
        fitted = getattr(self, "feature_names_in_", None)
        if fitted is None and names is not None:
            warnings.warn(
                f"X has feature names, but {own} was fitted without feature names", stacklevel=4
            )
        elif fitted is not None and names is None:
            warnings.warn(
                f"X does not have valid feature names, but {own} was fitted with feature names",
                stacklevel=4,
            )
        elif fitted is not None and names is not None and list(fitted) != names:
            sentences = ["The feature names should match those that were passed during fit."]
            unseen, missing = sorted(set(names) - set(fitted)), sorted(set(fitted) - set(names))
            for sentence, these in (
                ("Feature names unseen at fit time:", unseen),
                ("Feature names seen at fit time, yet now missing:", missing),
            ):
                if these:
                    few = these[:5] + ["..."] * (len(these) > 5)
                    sentences += [sentence, *(f"- {name}" for name in few)]
            if not unseen and not missing:
                sentences += ["Feature names must be in the same order as they were in fit."]
            raise ValueError("\n".join(sentences) + "\n")

    def _outputs(self, y: Any, n_rows: int) -> np.ndarray:
        """y as numbers (N, P); a class as its code."""
        raise NotImplementedError

    def _array(self, y: Any) -> np.ndarray:
        """y as an array of whatever it holds."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        if hasattr(y, "toarray"):
            raise TypeError("Sparse data was passed as y: make it dense with y.toarray().")
        try:
            y = np.asarray(y)
        except ValueError:
            raise ValueError("y is ragged: every row needs equally many numbers.") from None
        if np.iscomplexobj(y):
            raise ValueError("Complex data not supported: y must hold real numbers or labels.")
        return y

    def _check_rows(self, y: np.ndarray, n_rows: int) -> None:
        if np.shape(y)[:1] != (n_rows,):
            raise ValueError(
                "Found input variables with inconsistent numbers of samples: "
                f"{[n_rows, *np.shape(y)[:1]]}. X and y need equally many rows."
            )

    # Fitting.

    def _fit(self, X: np.ndarray, Y: np.ndarray, task: Task, likelihood: str, n_classes: int):
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(X.shape[1])])
        rows = Dataset("rows", X, Y, tuple(names), self.output_names_, task)
        with np.errstate(over="ignore", invalid="ignore"):
            scaler = Scaler.fit(rows)
            X, Y = scaler.inputs(X), scaler.outputs(Y)
        sizes = (X, Y, scaler.x_scale, scaler.y_scale)
        if not all(np.isfinite(size).all() for size in sizes):
            raise ValueError("X or y holds numbers too large to be scaled: change their unit.")
        most = len(np.unique(X, axis=0)) if len(X) <= SKETCH else len(X)
        train_spec = self._train_spec()
        spec = self._model_spec(likelihood, most)
        model = create_model(spec, X, Y.shape[1], n_classes, train_spec.seed)
        self.model_spec_, self.scaler_, self.recipe_ = spec, scaler, None
        self._rows = X, Y
        state = create_state(model, jax.random.key(train_spec.seed))
        return self._train(state, train_spec, Progress())

    def _train(self, state: TrainState, spec: TrainSpec, progress: Progress) -> Self:
        X, Y = self._rows
        rows = Rows.create(X, Y, spec.minibatch, state.jitter.dtype, spec.seed)
        bar = ProgressBar(spec.steps) if self.progress else None
        self.state_, self.progress_ = resume(state, rows, spec, progress, bar)
        self.train_spec_ = spec
        if bar is not None:
            bar.close(self.progress_)
        if int(self.state_.streak) >= HOPELESS:
            warnings.warn(
                f"Training {self.progress_.stopped}. Try a smaller learning rate.",
                _theirs("ConvergenceWarning", UserWarning),
                stacklevel=4,
            )
        return self

    def continue_training(self, steps: int, X: Any = None, y: Any = None) -> Self:
        """So many steps more, from where training stopped; the rates fall towards the new end.

        X and y are those of `fit`; they are needed again only after `load`, since a file holds no
        training rows.
        """
        self._check_fitted()
        if X is not None:
            X = self._inputs(X)
            self._rows = self.scaler_.inputs(X), self.scaler_.outputs(self._outputs(y, len(X)))
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
        self._check_fitted()
        return self

    def _check_fitted(self) -> None:
        if "state_" not in vars(self):
            raise _theirs("NotFittedError", NotFittedError)(
                f"This {type(self).__name__} instance is not fitted yet: call fit(X, y) first."
            )

    # Prediction.

    def _key(self, seed: int | None, purpose: int) -> jax.Array:
        """A key of its own for every purpose; the seed is that of the fit where none is given."""
        seed = self.train_spec_.seed if seed is None else operator.index(seed)
        return jax.random.fold_in(jax.random.key(seed), purpose)

    def _standard(self, X: Any) -> np.ndarray:
        self._check_fitted()
        return self.scaler_.inputs(self._inputs(X))

    def _latent(self, X: Any) -> Mixture:
        """q(f*), standard units. Rows share their ε: a row's prediction is its own alone."""
        X = self._standard(X)
        n_samples = operator.index(self.predict_samples)
        return predict_latent(self.state_.model, X, self._key(None, 1), n_samples, shared=True)

    def log_density(self, X: Any, y: Any) -> np.ndarray:
        """log p(y*) of each row (N,) under the predictive mixture, in the user's units.

        With y = s·z + m, z the model's standard units, log p(y) = log p(z) − Σ_p log s_p.
        """
        latent = self._latent(X)
        Y = self.scaler_.outputs(self._outputs(y, latent.means.shape[1]))
        standard = log_density(self.state_.model, latent, Y)
        return standard - np.log(self.scaler_.y_scale).sum()

    def layer_views(self, X: Any, n_draws: int = 10, seed: int | None = None) -> list[LayerView]:
        """What each layer does to rows X.

        What enters the first layer is in X's units and, for a regression, what leaves the last in
        y's; between them, and in lengthscales and variances, units are the model's own.
        """
        X = self._standard(X)
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
        self._check_fitted()
        named = hasattr(self, "feature_names_in_")
        names = self.feature_names_in_ if named else [f"x{i}" for i in range(self.n_features_in_)]
        archive.save(
            file,
            Archive(
                model=self.model_spec_,
                training=self.train_spec_,
                scaler=self.scaler_,
                state=self.state_,
                progress=self.progress_,
                task=self._task(),
                input_names=tuple(names),
                output_names=self.output_names_,
                classes=self._classes(),
                recipe=self.recipe_,
                settings={
                    "parameters": {n: _several(v) for n, v in self.get_params().items()},
                    "named_inputs": named,
                    "vector_output": self._vector_output,
                },
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
            model._train_spec()
            model._model_spec(model.likelihood or record.model.likelihood)
            if model.likelihood not in (None, record.model.likelihood):
                raise ValueError("its likelihood is not the model's.")
        except (TypeError, ValueError) as error:
            raise ArchiveError(f"In the settings of this estimator: {error}") from error
        model.model_spec_, model.train_spec_ = record.model, record.training
        model.scaler_, model.state_ = record.scaler, record.state
        model.progress_, model.recipe_ = record.progress, record.recipe
        model.n_features_in_ = len(record.input_names)
        if named:
            model.feature_names_in_ = np.asarray(record.input_names, dtype=object)
        model.output_names_ = record.output_names
        model._vector_output = vector and len(record.output_names) == 1
        model._restore_classes(record)
        return model

    _vector_output: bool
    """Whether y was a vector, so that predictions are vectors too."""

    def _restore_classes(self, record: Archive) -> None:
        pass


def _parameters(record: Archive) -> dict[str, Any]:
    """An estimator's settings from what a model was made of."""
    model, training = record.model, record.training
    names = ("layers", "inducing", "widths", "kernels", "mean_function", "likelihood")
    more = ("steps", "learning_rate", "natural_rate", "minibatch", "samples", "decay", "tolerance")
    return {
        **{name: getattr(model, name) for name in names},
        **{name: getattr(training, name) for name in (*more, "seconds", "seed")},
    }


class DeepGPRegressor(_DeepGP):
    """A deep GP for numbers: `fit(X, y)`, then `predict(X)`, in the units of X and y.

    `likelihood` is "gaussian" (the default), "student_t" for outliers or "poisson" for counts;
    `steps=None` is the library's own recipe; `seed` fixes everything that is drawn.
    """

    _estimator = "regressor"
    _likelihoods = ("gaussian", "student_t", "poisson")

    def fit(self, X: Any, y: Any) -> Self:
        """Learns from rows X (N, D) and y, (N,) or (N, P)."""
        names = _column_names(y) or ([y.name] if isinstance(getattr(y, "name", 0), str) else None)
        X = self._inputs(X, fitting=True)
        task = self._task()
        Y = self._outputs(y, len(X))
        self._vector_output = self._array(y).ndim == 1
        self.output_names_ = tuple(names or (f"y{i}" for i in range(Y.shape[1])))
        return self._fit(X, Y, task, self.likelihood or for_task(task), 0)

    def _task(self) -> Task:
        return "counts" if self.likelihood == "poisson" else "regression"

    def _outputs(self, y: Any, n_rows: int) -> np.ndarray:
        Y = _table(self._array(y), "y")
        self._check_rows(Y, n_rows)
        if Y.ndim not in (1, 2) or Y.shape[-1] == 0:
            raise ValueError(f"y should be a 1d array or a table (N, P), not of shape {Y.shape}.")
        Y = Y.reshape(n_rows, -1)
        if self._task() == "counts" and ((Y < 0).any() or (Y % 1 != 0).any()):
            raise ValueError("A Poisson likelihood needs counts: y must be whole numbers from 0.")
        return Y

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        """Values (…, N, P), without P where y was a vector."""
        return values[..., 0] if self._vector_output else values

    def predict_mixture(self, X: Any) -> Mixture:
        """The mixture of y*, in the user's units; exact where the noise is Gaussian."""
        latent = self._latent(X)
        observed = predict_observed(self.state_.model, latent)
        return observed.affine(self.scaler_.y_scale, self.scaler_.y_mean)

    def predict(
        self, X: Any, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """The mean of y* for each row, and its deviation, noise included, where asked."""
        mixture = self.predict_mixture(X)
        mean = self._shaped(mixture.mean)
        return (mean, self._shaped(np.sqrt(mixture.variance))) if return_std else mean

    def predict_quantiles(self, X: Any, levels: Any) -> np.ndarray:
        """The values below which y* lies with these probabilities: (K, N), or (K, N, P).

        From the mixture where the noise is Gaussian, else from observations drawn of it.
        """
        if self.model_spec_.likelihood == "gaussian":
            return self._shaped(self.predict_mixture(X).quantile(levels))
        latent = self._latent(X)
        levels = np.atleast_1d(np.asarray(levels, np.float64))
        if levels.ndim != 1 or not np.all((levels > 0) & (levels < 1)):
            raise ValueError("Quantile levels must lie between 0 and 1, both excluded.")
        S, N, P = latent.means.shape
        n = -(-QUANTILE_DRAWS // S)
        parts = []
        for start in range(0, N, 500):
            part = slice(start, start + 500)
            y = _observations(
                self.state_.model.likelihood,
                latent.means[:, part],
                latent.variances[:, part],
                self._key(None, 3 + start),
                n,
            )
            y = np.asarray(y).reshape(n * S, -1, P)
            parts.append(np.quantile(y, levels, 0, method="inverted_cdf"))
        return self._shaped(self.scaler_.outputs_back(np.concatenate(parts, 1)))

    def function_draws(self, X: Any, n_draws: int = 10, seed: int | None = None) -> np.ndarray:
        """Whole functions, coherent in x and without noise: (S, N), or (S, N, P).

        For counts, the rate e^f. The same seed gives the same draws.
        """
        X = self._standard(X)
        F = function_draws(self.state_.model, X, self._key(seed, 2), n_draws)[-1]
        if self.model_spec_.likelihood == "poisson":
            F = np.exp(F)
        return self._shaped(self.scaler_.outputs_back(F))

    def score(self, X: Any, y: Any) -> float:
        """R²: the share of y's variance that the mean explains, averaged over outputs."""
        mean = np.asarray(self.predict(X))
        Y = self._outputs(y, len(mean))
        mean = mean.reshape(Y.shape)
        rest, whole = ((Y - mean) ** 2).sum(0), ((Y - Y.mean(0)) ** 2).sum(0)
        # A constant output is explained wholly or not at all.
        share = np.where(whole > 0, 1 - rest / np.where(whole > 0, whole, 1), 1.0 * (rest == 0))
        return float(share.mean())


class DeepGPClassifier(_DeepGP):
    """A deep GP for classes: `fit(X, y)`, then `predict(X)` and `predict_proba(X)`.

    `likelihood` is "bernoulli" for two classes and "robust_max" for more where none is chosen;
    "softmax" is the other choice.
    """

    _estimator = "classifier"
    _likelihoods = ("bernoulli", "robust_max", "softmax")

    classes_: np.ndarray

    def fit(self, X: Any, y: Any) -> Self:
        """Learns from rows X (N, D) and a label a row, y (N,)."""
        X = self._inputs(X, fitting=True)
        labels = self._labels(y, len(X))
        try:
            self.classes_ = np.unique(labels)
        except TypeError:
            raise ValueError("Unknown label type: y mixes text and numbers.") from None
        C = len(self.classes_)
        if C < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least 2 classes, but y has 1 class only: "
                f"{self.classes_[0]!r}."
            )
        likelihood = self.likelihood or for_task("multiclass", 1, C)
        if likelihood == "bernoulli" and C > 2:
            raise ValueError(f"bernoulli is for 2 classes, not {C}: choose robust_max or softmax.")
        self._vector_output, self.output_names_ = True, ("y",)
        return self._fit(X, self._codes(labels), self._task(), likelihood, C)

    def _labels(self, y: Any, n_rows: int) -> np.ndarray:
        labels = self._array(y)
        self._check_rows(labels, n_rows)
        if labels.ndim == 2 and labels.shape[1] == 1:
            warnings.warn(
                "A column-vector y was passed when a 1d array was expected. Please change the "
                "shape of y to (n_samples,), for example using ravel().",
                _theirs("DataConversionWarning", UserWarning),
                stacklevel=4,
            )
            labels = labels[:, 0]
        if labels.ndim != 1:
            raise ValueError(f"y should be a 1d array of labels, got shape {labels.shape} instead.")
        if labels.dtype.kind == "O" and any(v is None or v != v for v in labels):
            raise ValueError("Input y contains NaN: every row needs a label.")
        if labels.dtype.kind == "f":
            if not np.isfinite(labels).all():
                raise ValueError("Input y contains NaN or infinity: every row needs a label.")
            if (labels % 1 != 0).any():
                raise ValueError(
                    "Unknown label type: continuous. Classes must be text or whole numbers; "
                    "for other numbers use DeepGPRegressor."
                )
        return labels

    def _codes(self, labels: np.ndarray) -> np.ndarray:
        """Each label's place among the classes (N, 1)."""
        codes = {label: code for code, label in enumerate(self.classes_.tolist())}
        try:
            found = [codes[label] for label in labels.tolist()]
        except (KeyError, TypeError):
            unseen = [label for label in labels.tolist() if label not in codes]
            raise ValueError(f"There was no class {unseen[0]!r} in fit.") from None
        return np.asarray(found, np.float64)[:, None]

    def _outputs(self, y: Any, n_rows: int) -> np.ndarray:
        return self._codes(self._labels(y, n_rows))

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
        X = self._standard(X)
        F = function_draws(self.state_.model, X, self._key(seed, 2), n_draws)[-1]
        drawn = [Mixture(f[None], np.zeros_like(f)[None]) for f in F]
        return np.stack([class_probabilities(self.state_.model, f) for f in drawn])

    def score(self, X: Any, y: Any) -> float:
        """The share of rows whose most probable class is theirs."""
        predicted = self.predict(X)
        return float(np.mean(predicted == self._labels(y, len(predicted))))
