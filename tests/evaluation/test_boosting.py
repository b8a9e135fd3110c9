"""Gradient boosting as a distribution: densities that integrate to one and quantiles that hold."""

import numpy as np
import pytest
from scipy import stats

from dgp_core.evaluation.boosting import BoostedClasses, BoostedCount, BoostedNumber, boosted
from dgp_core.gp.data import Dataset


@pytest.fixture(scope="module")
def number() -> tuple[BoostedNumber, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 1))
    y = np.sin(3 * x[:, 0]) + (0.1 + 0.3 * (x[:, 0] > 0)) * rng.standard_normal(400)
    return BoostedNumber.fit(x, y), x[:5]


def test_the_density_is_the_derivative_of_the_quantiles_inverse(number):
    model, x = number
    y = np.linspace(-6, 6, 4001)
    p = np.exp(model.log_density(np.repeat(x, len(y), 0), np.tile(y, len(x))))
    mass = np.trapezoid(p.reshape(len(x), -1), y, axis=1)
    np.testing.assert_allclose(mass, 1.0, atol=2e-3)
    levels = np.array([0.1, 0.4, 0.8])
    q = model.predict_quantiles(x, levels)
    below = np.array([[pi[y <= v].sum() for v in qi] for pi, qi in zip(p.reshape(len(x), -1), q.T,
                                                                       strict=True)])  # fmt: skip
    np.testing.assert_allclose(below * (y[1] - y[0]), np.tile(levels, (len(x), 1)), atol=5e-3)


def test_new_rows_fall_inside_as_often_as_said(number, rng):
    model, _ = number
    x = rng.uniform(-1, 1, (3000, 1))
    y = np.sin(3 * x[:, 0]) + (0.1 + 0.3 * (x[:, 0] > 0)) * rng.standard_normal(3000)
    low, high = model.predict_quantiles(x, np.array([0.05, 0.95]))
    assert 0.84 < np.mean((low <= y) & (y <= high)) < 0.96


def test_counts_that_vary_more_than_poisson_are_negative_binomial(rng):
    m = np.exp(rng.uniform(1, 3, 600))
    y = stats.nbinom(2.0, 2.0 / (2.0 + m)).rvs(random_state=rng)
    model = BoostedCount.fit(np.log(m)[:, None], y.astype(float))
    assert 1.0 < model.size < 4.0
    p = np.exp(model.log_density(np.full((2000, 1), 2.0), np.arange(2000.0)))
    assert p.sum() == pytest.approx(1.0, abs=1e-6)
    q = model.predict_quantiles(np.full((1, 1), 2.0), np.array([0.5]))
    assert p[: int(q[0, 0]) + 1].sum() >= 0.5 > p[: int(q[0, 0])].sum()


def test_classes_that_nobody_can_tell_get_their_share_and_few_rows_a_sentence(rng):
    x, codes = rng.standard_normal((300, 2)), rng.integers(0, 2, 300).astype(float)
    p = BoostedClasses.fit(x, codes, 3).predict_proba(x)
    np.testing.assert_allclose(p.sum(1), 1.0)
    # Trees alone are sure of noise that they have seen; their temperature takes that back.
    assert p[:, 2].max() < 0.2 and np.abs(p[:, 0] - 0.5).mean() < 0.25
    few = Dataset("few", x[:4], x[:4, :1], ("a", "b"), ("y",))
    with pytest.raises(ValueError, match="at least 5 rows"):
        boosted(few)
