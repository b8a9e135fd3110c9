"""Where the training rows lie, without the rows: each input's range, and centres of the rows.

A new row's distance is that to the nearest centre c_k in standard units, over the radius r within
which 99 % of the training rows lie of theirs: d(x) = min_k ‖z(x) − c_k‖ / r. Above 1, the row is
far.
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree

from dgp_core.gp.data import Scaler, sample_places
from dgp_core.gp.model import SKETCH, centres_of

MOST_CENTRES = 100
ROWS_PER_CENTRE = 5
"""A centre is a mean of several rows, never one of them where it can be helped."""
SHARE = 0.99
"""Of the training rows, within the radius of a centre."""


@dataclass(frozen=True, eq=False)
class Domain:
    """The ranges and the centres of the training rows."""

    low: np.ndarray
    """The least value of each input (D,), in the user's units."""
    high: np.ndarray
    whole: np.ndarray
    """Whether every value of an input is a whole number (D,)."""
    centres: np.ndarray
    """By k-means (K, inputs that vary), in standard units."""
    radius: np.ndarray
    """The distance to the nearest centre that 99 % of the rows keep, ()."""

    @classmethod
    def fit(
        cls,
        X: np.ndarray,
        scaler: Scaler,
        low: np.ndarray | None = None,
        high: np.ndarray | None = None,
    ) -> "Domain":
        """Of training rows X (N, D); the range is given where these are a sample of more."""
        rows = X[sample_places(np.arange(len(X)), SKETCH)]
        Z = scaler.inputs(rows)
        K = max(1, min(MOST_CENTRES, len(np.unique(Z, axis=0)) // ROWS_PER_CENTRE))
        centres = centres_of(Z, K, np.random.default_rng(0))
        radius = np.quantile(KDTree(centres).query(Z)[0], SHARE)
        return cls(
            X.min(0) if low is None else low,
            X.max(0) if high is None else high,
            (rows % 1 == 0).all(0),
            centres,
            # Rows that all coincide have one standard deviation for a radius.
            np.asarray(radius if radius > 1e-9 else 1.0),
        )

    def distance(self, X: np.ndarray, scaler: Scaler) -> np.ndarray:
        """How far rows X (N, D) are from the training rows: d(x) (N,)."""
        return KDTree(self.centres).query(scaler.inputs(X))[0] / self.radius
