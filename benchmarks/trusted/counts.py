"""Counts of any size: how far the predicted rate is from the true one."""

from collections.abc import Iterator

import numpy as np

from benchmarks.trusted import Row, case, row
from dgp_core import DeepGPRegressor

RATES = (1.0, 30.0, 300.0, 1e3, 1e4, 1e6)
"""Mean counts, with the relative error that 300 rows allow below."""


@case("counts")
def counts() -> Iterator[Row]:
    """Poisson counts of rate r·exp(sin 2x): relative RMSE of the predicted rate."""
    X = np.linspace(-2.0, 2.0, 300)[:, None]
    for rate in RATES:
        truth = rate * np.exp(np.sin(2.0 * X[:, 0]))
        y = np.random.default_rng(0).poisson(truth).astype(float)
        for layers in (1, 2):
            model = DeepGPRegressor(layers, likelihood="poisson", inducing=30, steps=1500).fit(X, y)
            error = float(np.sqrt(np.mean((model.predict(X) / truth - 1.0) ** 2)))
            yield row(
                f"rate {rate:,.0f}, {layers} layers: relative RMSE", error, 0.3 * rate**-0.5 + 0.01
            )
