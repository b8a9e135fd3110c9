"""Deep Gaussian processes trained by doubly stochastic variational inference.

After Salimbeni & Deisenroth, "Doubly stochastic variational inference for deep Gaussian
processes" (NIPS 2017). Axis letters, here once and for all:

    S samples · N rows · B minibatch · M inducing points · D inputs · P outputs · L layers
"""

import jax

# A global setting, since the context manager does not reach a background thread.
jax.config.update("jax_enable_x64", True)

# ruff: noqa: E402  (the line above comes before anything that makes an array)
from dgp_core.archive import Archive, ArchiveError
from dgp_core.data import Dataset, Scaler, split
from dgp_core.estimator import DeepGPClassifier, DeepGPRegressor
from dgp_core.mixture import Mixture
from dgp_core.model import Bound, DeepGP, ModelSpec, bound, create_model, propagate
from dgp_core.optimise import TrainState, create_state
from dgp_core.predict import (
    LayerView,
    class_probabilities,
    function_draws,
    layer_views,
    log_density,
    predict_latent,
    predict_observed,
    prior_draws,
)
from dgp_core.train import PAPER, Progress, Rows, TrainSpec, resume, train, train_chunk

__all__ = [
    "PAPER",
    "Archive",
    "ArchiveError",
    "Bound",
    "Dataset",
    "DeepGP",
    "DeepGPClassifier",
    "DeepGPRegressor",
    "LayerView",
    "Mixture",
    "ModelSpec",
    "Progress",
    "Rows",
    "Scaler",
    "TrainSpec",
    "TrainState",
    "bound",
    "class_probabilities",
    "create_model",
    "create_state",
    "function_draws",
    "layer_views",
    "log_density",
    "predict_latent",
    "predict_observed",
    "prior_draws",
    "propagate",
    "resume",
    "split",
    "train",
    "train_chunk",
]
