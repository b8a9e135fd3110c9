"""What independence costs: one row's way through the layers, and the noise of the first."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dgp_core.live.views.evaluate import Evaluated, evaluated
from dgp_core.live.views.gallery import PerMoment
from dgp_core.live.views.layers import thinned

if TYPE_CHECKING:
    from dgp_core.live.run import Run, Snapshot

PATHS = 1000
"""Samples of a row's way, each of them with its mirror image in the first layer."""


@dataclass(frozen=True, eq=False)
class Passage:
    """What leaves the first and the last layer at one training row, under the posterior q."""

    step: int
    x: float
    """The row's input, in the user's unit."""
    first: np.ndarray
    """f¹ in the model's own units (S,)."""
    last: np.ndarray
    """f^L in y's unit, on the same samples (S,)."""
    tied: bool
    """Whether what enters a layer is what left the one below, with noise."""

    @property
    def correlation(self) -> float:
        return float(np.corrcoef(self.first, self.last)[0, 1])


def passage(model: Evaluated, X: np.ndarray, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples of f¹ and f^L (S, P) at a training row of X (N, D), in standard units.

    f̂^l ~ q(f^l | ĥ^{l−1}); ĥ^l is f̂^l with noise where layers are tied, else drawn from the row's
    own q(h^l).
    """
    rng, hidden = np.random.default_rng(0), model.model.hidden
    inputs = np.repeat(X[row : row + 1], 2 * PATHS, 0)
    H, first = inputs, None
    for l, layer in enumerate(model.layers):
        q, noise = model.conditional(l, H), float(layer.noise)
        eps = rng.standard_normal((PATHS, q.mean.shape[1]))
        # Mirrored in the first layer and there alone: without a tie, no correlation is left.
        eps = np.concatenate([eps, -eps if l == 0 else eps])
        F = np.asarray(q.mean + np.sqrt(np.maximum(q.variance - noise, 0)) * eps)
        first = F if first is None else first
        eps = np.tile(rng.standard_normal((PATHS, q.mean.shape[1])), (2, 1))
        if l < len(hidden):
            H = np.asarray(hidden[l].mean)[row] + np.sqrt(np.asarray(hidden[l].variance)[row]) * eps
        else:
            H = F + np.sqrt(noise) * eps
        H = model.beside(H, inputs)
    assert first is not None
    return first, F


def passage_at(run: "Run", snapshot: "Snapshot", x: float) -> Passage:
    """The way of the training row whose first input is nearest to x, in the user's unit."""
    row = int(np.argmin(np.abs(run.dataset.X[:, 0] - x)))

    def compute() -> Passage:
        model = evaluated(run, snapshot)
        first, last = passage(model, run.scaler.inputs(run.dataset.X), row)
        return Passage(
            step=snapshot.step,
            x=float(run.dataset.X[row, 0]),
            first=first[:, 0],
            last=run.scaler.outputs_back(last)[:, 0],
            tied=not snapshot.deep.hidden,
        )

    return run.gallery.get((snapshot.serial, "passage", row), compute)


def signal_to_noise(model: Evaluated, X: np.ndarray) -> float:
    """The variance over rows X of what the first layer adds to its mean function, μ¹(x) − w(x),
    over that of its noise, σ₁²; a shift that is the same for all rows is no signal."""
    added = np.asarray(model.conditional(0, X).mean) - model.mean_function(0, X)
    return float(np.var(added, axis=0).mean() / model.layers[0].noise)


_ratios = PerMoment()


def signal_history(run: "Run") -> tuple[np.ndarray, np.ndarray]:
    """Steps of moments that a run has kept, and the first layer's signal-to-noise ratio at each."""
    moments, X = thinned(run.history()), run.scaler.inputs(run.dataset.X)
    ratios = [
        _ratios.get(moment, lambda m=moment: signal_to_noise(Evaluated(m.deep, run.size), X))
        for moment in moments
    ]
    return np.array([moment.step for moment in moments]), np.array(ratios)
