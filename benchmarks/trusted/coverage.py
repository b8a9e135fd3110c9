"""Whether intervals hold what they promise, on rows from the same source."""

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.trusted import Row, case, row
from dgp_core import DeepGPRegressor

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]
"""Observations of a mean (N,)."""

NOISES: dict[str, tuple[str | None, Draw]] = {
    "Gaussian noise": (None, lambda rng, m: m + 0.3 * rng.standard_normal(len(m))),
    "outliers, student_t": (
        "student_t",
        lambda rng, m: m + 0.2 * rng.standard_t(2.5, len(m)),
    ),
    "Poisson counts": ("counts", lambda rng, m: rng.poisson(np.exp(2 + m))),
    "overdispersed counts": (
        "counts",
        lambda rng, m: rng.poisson(np.exp(2 + m) * rng.gamma(1.5, 1 / 1.5, len(m))),
    ),
    "overdispersed counts, taken for Poisson's": (
        "poisson",
        lambda rng, m: rng.poisson(np.exp(2 + m) * rng.gamma(1.5, 1 / 1.5, len(m))),
    ),
}


@case("coverage")
def coverage() -> Iterator[Row]:
    """The share of 2,000 new rows inside the 90 % intervals of a model of 400."""
    for name, (likelihood, draw) in NOISES.items():
        rng = np.random.default_rng(0)
        X = rng.uniform(-2, 2, (2400, 2))
        y = draw(rng, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]).astype(float)
        model = DeepGPRegressor(2, likelihood=likelihood, inducing=50, steps=1500)
        model.fit(X[:400], y[:400])
        low, high = model.predict_quantiles(X[400:], [0.05, 0.95])
        inside = float(np.mean((low <= y[400:]) & (y[400:] <= high)))
        chosen = f" ({model.model_spec_.likelihood})" if likelihood == "counts" else ""
        # Intervals of whole numbers hold a little more.
        known = likelihood == "poisson"
        yield row(f"{name}{chosen}: share inside 90 %", inside, *(() if known else (0.96, 0.86)))
