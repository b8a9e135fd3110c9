"""Deep Gaussian processes trained by doubly stochastic variational inference.

After Salimbeni & Deisenroth, "Doubly stochastic variational inference for deep Gaussian
processes" (NIPS 2017). Axis letters, here once and for all:

    S samples · N rows · B minibatch · M inducing points · D inputs · P outputs · L layers
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import scipy.linalg.cython_lapack  # noqa: F401  (JAX's own LAPACK on the CPU)
from threadpoolctl import ThreadpoolController

# A global setting, since the context manager does not reach a background thread.
jax.config.update("jax_enable_x64", True)

# OpenBLAS's threads go on spinning after each small Cholesky factor, and take the cores from XLA:
# a training step was 1.5 times slower with them. NumPy's own copy of OpenBLAS is left as it is.
for _library in ThreadpoolController().lib_controllers:
    if {"scipy", "scipy.libs"} & set(Path(_library.filepath).parent.parts):
        _library.set_num_threads(1)

# ruff: noqa: E402  (the lines above come before anything that makes an array)
from dgp_core.archive import Archive, ArchiveError
from dgp_core.gp.cross_validation import JudgeBy
from dgp_core.gp.data import Dataset, Scaler, split
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import Bound, DeepGP, ModelSpec, bound, create_model, propagate
from dgp_core.gp.predict import (
    LayerView,
    class_probabilities,
    function_draws,
    layer_views,
    log_density,
    predict_latent,
    predict_observed,
    prior_draws,
)
from dgp_core.training.optimise import TrainState, create_state
from dgp_core.training.train import PAPER, Progress, Rows, TrainSpec, resume, train_chunk

if TYPE_CHECKING:
    from dgp_core.estimator import DeepGPClassifier, DeepGPRegressor


def __getattr__(name: str):
    """The estimators when they are asked for: scikit-learn takes a second to load."""
    if name in ("DeepGPClassifier", "DeepGPRegressor"):
        return getattr(import_module("dgp_core.estimator"), name)
    raise AttributeError(f"module 'dgp_core' has no attribute {name!r}")


__all__ = [
    "PAPER",
    "Archive",
    "ArchiveError",
    "Bound",
    "Dataset",
    "DeepGP",
    "DeepGPClassifier",
    "DeepGPRegressor",
    "JudgeBy",
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
    "train_chunk",
]
