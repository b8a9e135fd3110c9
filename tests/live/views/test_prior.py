"""Deep priors against closed forms: the kernel, the law of the slope, and what depth does to it."""

import numpy as np
import pytest
from scipy import integrate, stats

from dgp_core.live.views import prior as module
from dgp_core.live.views.prior import (
    SLOPE_STEP,
    features,
    linear_mean,
    log_slope_drift,
    prior_view,
    slope_densities,
    warped_grid,
)


@pytest.mark.parametrize("top", [0.01, 1.0, 8.0, 59.0])
def test_the_features_are_the_kernel_to_the_last_digits(top):
    r = np.linspace(-top, top, 31)
    phi = features(r)
    K = np.exp(-0.5 * (r[:, None] - r[None]) ** 2)
    np.testing.assert_allclose(phi @ phi.T, K, atol=2e-12)
    # Cov(g'(r), g(s)) = ∂k/∂r = −(r − s) k, and Cov(g', g') = (1 − (r − s)²) k.
    slope = module._slopes(phi, r)
    apart = r[:, None] - r[None]
    np.testing.assert_allclose(slope @ phi.T, -apart * K, atol=1e-10)
    np.testing.assert_allclose(slope @ slope.T, (1 - apart**2) * K, atol=1e-8)


def test_slopes_are_the_derivatives_of_the_functions():
    view = prior_view(4, "linear", 0.8, 0.6, n_draws=3, n_grid=4001)
    step = view.x[1] - view.x[0]
    numeric = (view.functions[:, :, 2:] - view.functions[:, :, :-2]) / (2 * step)
    scale = np.abs(view.slopes).max((1, 2), keepdims=True)
    assert (np.abs(numeric - view.slopes[:, :, 1:-1]) / scale).max() < 1e-3


@pytest.mark.parametrize("ratio", [0.3, 1.7])
def test_one_layer_has_a_gaussian_slope_of_variance_σ2_over_l2(ratio):
    t, density = slope_densities(1, "zero", ratio)
    # |N(0, ρ²)| has density 2 N(s; 0, ρ²) at s = e^t, and ds = e^t dt.
    expected = 2 * stats.norm.pdf(np.exp(np.minimum(t, 300)), 0, ratio) * np.exp(t)
    np.testing.assert_allclose(density[0], expected, atol=2e-4)
    view = prior_view(1, "zero", 2.0, 2.0 * ratio, n_draws=400, n_grid=3)
    assert stats.kstest(view.slopes[0, :, 1] / ratio, "norm").pvalue > 0.01
    assert view.slopes[0, :, 1].var() == pytest.approx(ratio**2, rel=0.2)


def test_with_a_mean_of_zero_the_slope_spreads_without_bound():
    """log |N(0, ρ²)| has mean log ρ − (γ + log 2)/2 and variance π²/8, a layer."""
    view = prior_view(10, "zero", 1.0, 0.7, n_draws=2, n_grid=20)
    L = np.arange(1, 11)
    mean = L * (np.log(0.7) - 0.5 * (np.euler_gamma + np.log(2)))
    np.testing.assert_allclose(view.log_slope_mean, mean, rtol=1e-4)
    np.testing.assert_allclose(view.log_slope_deviation, np.sqrt(L * np.pi**2 / 8), rtol=1e-3)
    np.testing.assert_allclose(view.log_slope_density.sum(1) * SLOPE_STEP, 1.0, rtol=1e-9)


def test_with_the_identity_a_slope_is_a_product_of_factors_around_one():
    """The mean of log |N(1, ρ²)| by quadrature; what is left is the last layer's own."""
    ratio = 0.4
    view = prior_view(6, "linear", 1.0, ratio, n_draws=2, n_grid=20)

    def moment(power):
        def integrand(z):
            return np.log(np.abs(1 + ratio * z)) ** power * stats.norm.pdf(z)

        pole = -1 / ratio
        return sum(integrate.quad(integrand, a, b)[0] for a, b in [(-12, pole), (pole, 12)])

    mean, variance = moment(1), moment(2) - moment(1) ** 2
    np.testing.assert_allclose(np.diff(view.log_slope_mean), mean, rtol=1e-3)
    np.testing.assert_allclose(np.diff(view.log_slope_deviation**2), variance, rtol=1e-3)


@pytest.mark.parametrize("mean_function", ["zero", "linear"])
def test_the_slopes_of_drawn_functions_follow_the_density(mean_function):
    """At one input, over independent draws, three layers deep."""
    view = prior_view(3, mean_function, 1.0, 0.8, n_draws=500, n_grid=3)
    t = np.log(np.abs(view.slopes[2, :, 1]))
    shares = np.cumsum(view.log_slope_density[2]) * SLOPE_STEP
    pit = np.interp(t, view.log_slope + 0.5 * SLOPE_STEP, shares)
    assert stats.kstest(pit, "uniform").pvalue > 0.01


def test_one_more_layer_changes_only_that():
    shallow, deep = (prior_view(L, "linear", n_draws=3, n_grid=50) for L in (2, 5))
    np.testing.assert_array_equal(shallow.functions, deep.functions[:2])
    np.testing.assert_array_equal(shallow.hidden, deep.hidden[:2])
    np.testing.assert_allclose(deep.hidden[2], deep.hidden[1] + deep.functions[2])
    zero = prior_view(2, "zero", n_draws=3, n_grid=50)
    np.testing.assert_array_equal(zero.functions[0], shallow.functions[0])  # the same layers


def test_information_is_lost_with_one_and_kept_with_the_other():
    zero, linear = (prior_view(10, mean, 1.0, 0.3) for mean in ("zero", "linear"))
    assert zero.distinct[0] == linear.distinct[0] > 50
    assert np.all(np.diff(zero.distinct[:5]) < 0) and zero.distinct[-1] < 2
    assert linear.distinct[-1] > 0.5 * linear.distinct[0]


def test_neighbours_are_correlated_as_the_kernel_says():
    view = prior_view(1, "zero", 0.5, 2.0, n_draws=400, n_grid=60)
    expected = np.exp(-0.5 * (view.distances / 0.5) ** 2)
    assert np.abs(view.correlation[0] - expected).max() < 0.12
    assert view.correlation[0, 0] == pytest.approx(1.0)


def test_a_grid_of_two_inputs_is_warped_layer_by_layer():
    grid = warped_grid(3, "linear", 1.0, 0.4, n_lines=4, n_points=801)
    assert grid.lines.shape == (4, 8, 801, 2) and grid.start.shape == (8, 801, 2)
    np.testing.assert_array_equal(grid.lines[0], grid.start)
    assert np.all(np.diff(grid.start[:4, :, 0], axis=1) > 0)  # first those along the first input
    assert np.all(np.diff(grid.start[4:, :, 1], axis=1) > 0)
    longer = warped_grid(4, "linear", 1.0, 0.4, n_lines=4, n_points=801)
    np.testing.assert_allclose(grid.lines, longer.lines[:4], rtol=1e-12)
    # Where lines cross, both directional derivatives are known: columns of the Jacobian.
    at = np.argmin(np.abs(grid.start[0, :, 0] - grid.start[4, 0, 0]))
    J = [
        (grid.lines[1][k, i + 1] - grid.lines[1][k, i - 1])
        / (grid.start[k, i + 1] - grid.start[k, i - 1])[d]
        for k, i, d in ((1, 1 + at, 0), (4, 267, 1))
    ]
    singular = np.linalg.svd(np.array(J), compute_uv=False)
    expected = np.log10(singular[1] / singular[0])
    assert grid.gradient[1][1, 1 + at] == pytest.approx(expected, abs=0.03)


def test_values_out_of_range_are_met_with_a_sentence():
    with pytest.raises(ValueError, match="from 1 to 10 layers"):
        prior_view(11, "zero")
    with pytest.raises(ValueError, match="zero, linear or concatenate"):
        prior_view(2, "other")  # pyright: ignore
    with pytest.raises(ValueError, match="zero or the identity"):
        warped_grid(2, "concatenate")
    with pytest.raises(ValueError, match="above 0"):
        prior_view(2, "zero", 0.0)
    with pytest.raises(ValueError, match="longer lengthscale"):
        prior_view(3, "zero", 0.01)


@pytest.mark.parametrize(("mean", "ratio"), [(0.0, 1.0), (1.0, 1.0), (1.0, 0.5), (3.0, 0.7)])
def test_the_drift_of_log_slopes_is_its_integral(mean, ratio):
    def density(t, sign):  # of log |s| at e^t, from the side of this sign
        s = np.exp(t)
        return t * s * np.exp(-0.5 * ((sign * s - mean) / ratio) ** 2) / np.sqrt(2 * np.pi) / ratio

    by_hand = sum(integrate.quad(density, -40, 5, (sign,), limit=400)[0] for sign in (-1, 1))
    assert log_slope_drift(mean, ratio) == pytest.approx(by_hand, abs=1e-7)


def test_the_drifts_that_lesson_4_tells():
    assert log_slope_drift(0.0, 1.0) == pytest.approx(-0.5 * (np.euler_gamma + np.log(2)))
    assert log_slope_drift(0.0, 1.0) == pytest.approx(-0.635, abs=5e-4)
    assert log_slope_drift(1.0, 1.0) == pytest.approx(-0.21, abs=5e-3)
    for mean_function, mean in (("zero", 0.0), ("linear", 1.0)):
        exact = prior_view(10, mean_function).log_slope_mean  # by convolution, cell by cell
        assert np.allclose(np.diff(exact), log_slope_drift(mean, 1.0), atol=2e-3)


def test_x_beside_it_is_a_gp_of_both_and_its_slope_the_derivative():
    seen = prior_view(3, "concatenate", n_draws=300, n_grid=41, seed=5)
    fine = prior_view(3, "concatenate", n_draws=4, n_grid=4001, seed=5)
    by_differences = np.gradient(fine.functions[2], fine.x, axis=1)
    assert np.allclose(by_differences[:, 5:-5], fine.slopes[2][:, 5:-5], atol=1e-3)
    assert seen.functions[2].std() == pytest.approx(1.0, abs=0.06)
    # The slope of depth 3 is a mixture of normals over that of depth 2: sampled, and the density.
    rng = np.random.default_rng(0)
    s = rng.standard_normal(400_000)
    for _ in range(2):
        s = np.sqrt(1 + s**2) * rng.standard_normal(len(s))
    t = np.log(np.abs(s))
    assert seen.log_slope_mean[2] == pytest.approx(t.mean(), abs=0.01)
    assert seen.log_slope_deviation[2] == pytest.approx(t.std(), abs=0.01)
    assert np.log(np.abs(seen.slopes[2])).mean() == pytest.approx(t.mean(), abs=0.1)


def test_the_linear_mean_is_pca_where_a_layer_narrows(rng):
    X = rng.standard_normal((200, 4)) @ np.diag([3.0, 2.0, 1.0, 0.5])
    X -= X.mean(0)
    values, vectors = np.linalg.eigh(X.T @ X)
    W, kept = linear_mean(X, 2)
    assert kept == pytest.approx(values[-2:].sum() / values.sum())
    assert np.allclose(np.abs(W.T @ vectors[:, ::-1][:, :2]), np.eye(2), atol=1e-6)
    assert np.array_equal(linear_mean(X, 4)[0], np.eye(4)) and linear_mean(X, 4)[1] == 1.0
