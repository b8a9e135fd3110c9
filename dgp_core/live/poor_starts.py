"""Starts that go wrong, to be looked at: inducing inputs anywhere, units as they come, few digits.

Each is a model before its first step, for a run to open; nothing else differs from a good start.
"""

from dataclasses import replace
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from dgp_core.archive import Archive
from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.training.optimise import create_state
from dgp_core.training.train import Progress, TrainSpec

SPREAD = 3.0
"""Standard deviation of inducing inputs that are put anywhere, in those of the data."""

THOUSANDS = 1000.0
"""Millimetres where there were metres."""

Start = Literal["usual", "random Z", "float32", "unscaled"]


def begin_with(
    start: Start, dataset: Dataset, spec: ModelSpec, train: TrainSpec
) -> tuple[Dataset, ModelSpec, Archive | None]:
    """The rows, the model and its start values (None: the usual ones) of a run that starts so."""
    if start == "random Z":
        return dataset, spec, random_inducing(dataset, spec, train)
    if start == "unscaled":
        dataset = replace(dataset, X=THOUSANDS * dataset.X, Y=THOUSANDS * dataset.Y)
        return dataset, spec, unscaled(dataset, spec, train)
    if start == "float32":
        return dataset, replace(spec, precision="float32"), None
    return dataset, spec, None


def random_inducing(dataset: Dataset, spec: ModelSpec, train: TrainSpec) -> Archive:
    """Every layer's Z drawn from N(0, SPREAD²) instead of k-means, whatever the data are."""
    usual = _usual(dataset, spec, train, Scaler.fit(dataset))
    rng = np.random.default_rng(train.seed)
    layers = tuple(
        replace(
            layer,
            inducing=jnp.asarray(
                SPREAD * rng.standard_normal(layer.inducing.shape), layer.inducing.dtype
            ),
        )
        for layer in usual.state.model.layers
    )
    model = replace(usual.state.model, layers=layers)
    return replace(usual, state=create_state(model, jax.random.key(train.seed)))


def unscaled(dataset: Dataset, spec: ModelSpec, train: TrainSpec) -> Archive:
    """The usual start values on numbers that nobody has standardised."""
    D, P = dataset.X.shape[1], dataset.Y.shape[1]
    scaler = Scaler.from_moments(np.zeros(D), np.ones(D), np.zeros(P), np.ones(P), dataset.task)
    return _usual(dataset, spec, train, scaler)


def _usual(dataset: Dataset, spec: ModelSpec, train: TrainSpec, scaler: Scaler) -> Archive:
    """The usual start values for rows in the units of a scaler."""
    X, C = scaler.inputs(dataset.X), max(2, len(dataset.classes))
    model = create_model(spec, X, dataset.Y.shape[1], C, train.seed, dataset.Y)
    return Archive(
        model=spec,
        training=train,
        scaler=scaler,
        state=create_state(model, jax.random.key(train.seed)),
        progress=Progress(),
        task=dataset.task,
        input_names=dataset.input_names,
        output_names=dataset.output_names,
        classes=dataset.classes,
    )
