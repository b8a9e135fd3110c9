"""Where the training rows lie: against brute force over centres, and on rows that are elsewhere."""

import numpy as np
import pytest

from dgp_core.gp.data import Dataset, Moments, Scaler
from dgp_core.gp.domain import Domain


def fitted(X):
    X = np.asarray(X, float)
    names = tuple(f"x{i}" for i in range(X.shape[1]))
    scaler = Scaler.fit(Dataset("rows", X, np.zeros((len(X), 1)), names, ("y",)))
    return Domain.fit(X, scaler), scaler


def test_the_distance_is_that_to_the_nearest_centre_over_the_radius(rng):
    X = rng.normal(size=(300, 3)) * [1, 10, 0.1]
    domain, scaler = fitted(X)
    assert domain.centres.shape == (60, 3)
    new = 2 * rng.normal(size=(20, 3)) * [1, 10, 0.1]

    def nearest(rows):
        z = (rows - X.mean(0)) / X.std(0)
        return np.sqrt(((z[:, None] - domain.centres[None]) ** 2).sum(2)).min(1)

    np.testing.assert_allclose(domain.radius, np.quantile(nearest(X), 0.99))
    np.testing.assert_allclose(domain.distance(new, scaler), nearest(new) / domain.radius)
    assert np.mean(domain.distance(X, scaler) > 1) == pytest.approx(0.01)
    np.testing.assert_array_equal(domain.low, X.min(0))
    np.testing.assert_array_equal(domain.high, X.max(0))


def test_new_rows_alike_are_inside_and_gaps_and_broken_correlations_are_far(rng):
    z = rng.normal(size=(2000, 1))
    line = np.hstack([z, z + 0.05 * rng.normal(size=z.shape)])
    domain, scaler = fitted(line[:1000])
    assert np.mean(domain.distance(line[1000:], scaler) > 1) < 0.06
    # Each within its range, the two never together.
    assert domain.distance(np.array([[1.5, -1.5]]), scaler) > 3
    two = np.concatenate([rng.normal(-5, 0.3, (200, 1)), rng.normal(5, 0.3, (200, 1))])
    domain, scaler = fitted(two)
    assert domain.distance(np.array([[0.0]]), scaler) > 3
    assert domain.distance(np.array([[5.1]]), scaler) < 1


def test_whole_numbers_and_columns_that_do_not_vary():
    domain, scaler = fitted([[1, 2.5, 7], [3, 1, 7], [2, 1, 7]])
    assert domain.whole.tolist() == [True, False, True]
    assert len(domain.centres) == 1 and domain.centres.shape[1] == 2
    one, scaler = fitted([[4.0]])
    assert one.radius == 1 and one.distance(np.array([[4.0]]), scaler) == 0


def test_ranges_add_up_over_parts(rng):
    X = rng.normal(size=(50, 2))
    total = Moments.of(X[:0]) + Moments.of(X[:20]) + Moments.of(X[20:])
    np.testing.assert_array_equal([total.low, total.high], [X.min(0), X.max(0)])
