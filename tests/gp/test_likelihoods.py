"""Every expectation against brute-force integration; gradients at the extremes; draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from dgp_core.gp.likelihoods import (
    LIKELIHOODS,
    Bernoulli,
    Gaussian,
    NegativeBinomial,
    Poisson,
    RobustMax,
    Softmax,
    StudentT,
    for_task,
    log_gamma,
    log_normal_cdf,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
MEAN = np.array([[0.3, -1.2], [-0.5, 0.8], [1.7, 0.1], [0.0, 2.0]])
VARIANCE = np.array([[0.4, 0.05], [1.3, 0.2], [0.01, 0.7], [0.3, 0.09]])


def integral(g, m, v):
    """∫ g(f) N(f; m, v) df by the trapezoid rule on 40,001 points over ±12 deviations."""
    f = m + np.sqrt(v) * np.linspace(-12, 12, 40_001)
    return np.trapezoid(g(f) * stats.norm.pdf(f, m, np.sqrt(v)), f)


def by_entry(g, Y):
    """`integral` of g(f, y, p) for every row and output p (N, 2)."""

    def one(n, p):
        return integral(lambda f: g(f, Y[n, p], p), MEAN[n, p], VARIANCE[n, p])

    return np.array([[one(n, p) for p in range(2)] for n in range(len(Y))])


def test_no_two_likelihoods_have_the_same_structure():
    """Compiled programs are found by it."""
    made = [kind.create(2) for kind in LIKELIHOODS.values()]
    structures = [jax.tree.structure(likelihood) for likelihood in made]
    for i, one in enumerate(structures):
        assert [one == other for other in structures].index(True) == i


MEASURED = np.array([[0.1, -1.0], [2.0, 0.9], [1.7, -3.0], [0.4, 1.2]])
COUNTED = np.array([[0.0, 3.0], [1.0, 7.0], [12.0, 0.0], [2.0, 5.0]])
YES_NO = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])

GAUSSIAN = Gaussian(jnp.log(jnp.array([0.2, 0.5])))
STUDENT = StudentT(jnp.log(jnp.array([0.6, 0.9])), jnp.log(jnp.array([1.5, 6.0])))


def negative_binomial(log_rate, r):
    """SciPy's, of this mean and of the variance μ + μ²/r."""
    return stats.nbinom(r, r / (r + np.exp(log_rate)))


CASES = {
    "gaussian": (
        GAUSSIAN,
        MEASURED,
        lambda f, y, p: stats.norm.logpdf(y, f, np.sqrt([0.2, 0.5][p])),
        1e-10,
    ),
    "student_t": (
        STUDENT,
        MEASURED,
        lambda f, y, p: stats.t.logpdf(y, [3.5, 8.0][p], f, [0.6, 0.9][p]),
        2e-4,
    ),
    "poisson": (
        Poisson(jnp.array([0.7, -0.4])),
        COUNTED,
        lambda f, y, p: stats.poisson.logpmf(y, np.exp(f + [0.7, -0.4][p])),
        1e-9,
    ),
    "negative_binomial": (
        NegativeBinomial(jnp.array([0.7, -0.4]), jnp.log(jnp.array([0.6, 30.0]))),
        COUNTED,
        lambda f, y, p: negative_binomial(f + [0.7, -0.4][p], [0.6, 30.0][p]).logpmf(y),
        1e-9,
    ),
    "bernoulli": (
        Bernoulli(2),
        YES_NO,
        lambda f, y, p: special.log_ndtr((2 * y - 1) * f),
        1e-7,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_expected_log_density_equals_the_integral(name):
    likelihood, Y, log_p, tolerance = CASES[name]
    ours = jax.jit(likelihood.expected_log_density)(
        jnp.array(MEAN), jnp.array(VARIANCE), jnp.array(Y), KEY
    )
    np.testing.assert_allclose(ours, by_entry(log_p, Y).sum(-1), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_log_predictive_equals_the_integral(name):
    likelihood, Y, log_p, _ = CASES[name]
    ours = jax.jit(likelihood.log_predictive)(jnp.array(MEAN), jnp.array(VARIANCE), jnp.array(Y))
    theirs = np.log(by_entry(lambda f, y, p: np.exp(log_p(f, y, p)), Y)).sum(-1)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_log_density_is_that_of_scipy(name):
    likelihood, Y, log_p, _ = CASES[name]
    theirs = [sum(log_p(MEAN[n, p], Y[n, p], p) for p in range(2)) for n in range(len(Y))]
    ours = jax.jit(likelihood.log_density)(jnp.array(MEAN), jnp.array(Y))
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@pytest.mark.parametrize("degrees", [2.1, 4.0, 30.0, 300.0])
@pytest.mark.parametrize("variance", [1e-8, 1.0, 100.0])
def test_student_predictive_holds_for_spikes_and_far_outliers(degrees, variance):
    likelihood = StudentT.create(1, scale=0.1, degrees=degrees)
    y = np.array([0.0, 0.3, 5.0])
    s = 0.1
    # In the noise's own variable the spike is wide: y − f = s·r.
    r = np.sinh(np.linspace(-16, 16, 40_001))
    slope = np.cosh(np.linspace(-16, 16, 40_001)) * 32 / 40_000
    theirs = [
        np.log(
            np.sum(stats.t.pdf(r, degrees) * stats.norm.pdf(c - s * r, 0, variance**0.5) * slope)
        )
        if variance > 1e-6
        else stats.t.logpdf(c, degrees, 0, s)
        for c in y
    ]
    ours = jax.jit(likelihood.log_predictive)(
        jnp.zeros((3, 1)), jnp.full((3, 1), variance), y[:, None]
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ratio, tolerance", [(0.1, 1e-6), (1.0, 1e-6), (10.0, 1e-2)])
def test_student_expectation_is_as_good_as_it_says(ratio, tolerance):
    likelihood, y = StudentT.create(1), np.array([0.0, 0.5])
    v = ratio * 0.1**2
    theirs = [integral(lambda f, c=c: stats.t.logpdf(c, 4, f, 0.1), 0.0, v) for c in y]
    ours = jax.jit(likelihood.expected_log_density)(
        jnp.zeros((2, 1)), jnp.full((2, 1), v), y[:, None], KEY
    )
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("rival", [0.3, 1.0, 100.0])
def test_robust_max_of_two_classes_is_the_closed_form(rival):
    """P(f₀ > f₁) = Φ((m₀ − m₁)/√(v₀ + v₁))."""
    args = jnp.array([[0.5, 0.0]]), jnp.array([[1.0, rival]])
    ours = RobustMax.create(2).expected_log_density(*args, jnp.zeros((1, 1)), KEY)[0]
    p = stats.norm.cdf(0.5 / np.sqrt(1 + rival))
    expected = p * np.log(1 - 1e-3) + (1 - p) * np.log(1e-3)
    np.testing.assert_allclose(ours, expected, atol=1e-5 * np.log(1e3))


def test_poisson_predictive_holds_for_large_counts_and_wide_q():
    mean, variance = np.array([0.0, 1.0, 3.0, -2.0]), np.array([2.0, 4.0, 0.5, 1e-14])
    y = np.array([400.0, 0.0, 35.0, 1.0])
    theirs = [
        np.log(integral(lambda f, c=c: stats.poisson.pmf(c, np.exp(f)), m, v))
        for m, v, c in zip(mean, variance, y, strict=True)
    ]
    predictive = jax.jit(Poisson.create(1).log_predictive)
    ours = predictive(*(jnp.array(a)[:, None] for a in (mean, variance, y)))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-4)
    one = jnp.ones((400, 1))
    p = jnp.exp(predictive(one, one, jnp.arange(400.0)[:, None]))
    np.testing.assert_allclose(p.sum(), 1.0, atol=1e-3)


def test_moments_are_those_of_the_predictive_density():
    m, v = jnp.array([[0.3]]), jnp.array([[0.4]])
    y = np.linspace(-60, 60, 12_001)
    for likelihood in (Gaussian.create(1, variance=0.3), StudentT.create(1, scale=0.2, degrees=9)):
        rows = jnp.broadcast_to(m, (len(y), 1)), jnp.broadcast_to(v, (len(y), 1))
        density = np.exp(jax.jit(likelihood.log_predictive)(*rows, y[:, None]))
        mean, variance = likelihood.moments(m, v)
        np.testing.assert_allclose(np.trapezoid(density, y), 1.0, atol=1e-6)
        np.testing.assert_allclose(mean[0, 0], np.trapezoid(y * density, y), atol=1e-6)
        second = np.trapezoid((y - 0.3) ** 2 * density, y)
        np.testing.assert_allclose(variance[0, 0], second, rtol=1e-5)
    rate = integral(np.exp, 0.3, 0.4)
    for likelihood, r in ((Poisson.create(1), np.inf), (NegativeBinomial.create(1, size=2.0), 2.0)):
        mean, variance = likelihood.moments(m, v)
        np.testing.assert_allclose(mean[0, 0], rate, rtol=1e-8)
        second = integral(lambda f, r=r: np.exp(f) + (1 + 1 / r) * np.exp(2 * f), 0.3, 0.4)
        np.testing.assert_allclose(variance[0, 0], second - rate**2, rtol=1e-8)


@pytest.mark.parametrize("r", [0.3, 5.0, 1e4])
def test_negative_binomial_predictive_holds_for_large_counts_and_wide_q(r):
    mean, variance = np.array([0.0, 1.0, 3.0, 12.0, 5.0]), np.array([2.0, 4.0, 0.5, 1e-4, 2.0])
    y = np.array([400.0, 0.0, 35.0, 160_000.0, 0.0])
    theirs = [
        np.log(integral(lambda f, c=c: negative_binomial(f, r).pmf(c), m, v))
        for m, v, c in zip(mean, variance, y, strict=True)
    ]
    predictive = jax.jit(NegativeBinomial.create(1, size=r).log_predictive)
    ours = predictive(*(jnp.array(a)[:, None] for a in (mean, variance, y)))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-3)


def test_a_negative_binomial_of_large_size_is_poissons():
    counts = jnp.array(COUNTED)
    for name in ("expected_log_density", "log_predictive"):
        more = (None,) if name == "expected_log_density" else ()
        nearly, poisson = (
            jax.jit(getattr(kind, name))(jnp.array(MEAN), jnp.array(VARIANCE), counts, *more)
            for kind in (NegativeBinomial.create(2, size=1e8), Poisson.create(2))
        )
        np.testing.assert_allclose(nearly, poisson, atol=1e-4)


@pytest.mark.parametrize("kind", [Poisson, NegativeBinomial])
def test_exposure_and_offset_shift_the_log_rate_and_are_not_learnt(kind):
    """Counts of twice the exposure have twice the rate; the offset gets no gradient."""
    mean, variance, Y = (jnp.array(a) for a in (MEAN, VARIANCE, COUNTED))
    log_exposure = jnp.log(jnp.array([[2.0], [0.5], [1.0], [7.0]]))
    exposed = jnp.concatenate([Y, log_exposure], 1)
    likelihood = kind.create(2, offset=np.array([0.3, -0.2]))
    plain = kind.create(2)
    shifted = mean + jnp.array([[0.3, -0.2]]) + log_exposure
    for name in ("expected_log_density", "log_predictive"):
        more = (None,) if name == "expected_log_density" else ()
        ours = jax.jit(getattr(likelihood, name))(mean, variance, exposed, *more)
        theirs = jax.jit(getattr(plain, name))(shifted, variance, Y, *more)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)

    @jax.grad
    def slope(likelihood):
        return likelihood.expected_log_density(mean, variance, Y, None).sum()

    assert not np.any(slope(likelihood).offset)


def test_log_gamma_is_scipys():
    x = np.array([1e-3, 0.1, 0.5, 1.0, 2.0, 7.3, 1e3, 1e7])
    np.testing.assert_allclose(log_gamma(jnp.array(x)), special.gammaln(x), rtol=1e-13, atol=1e-13)
    slope = jax.vmap(jax.grad(log_gamma))(jnp.array(x))
    np.testing.assert_allclose(slope, special.digamma(x), rtol=1e-11, atol=1e-12)


CLASS_MEAN = np.array([[0.3, -0.2, 0.9], [2.0, 0.1, -1.0], [0.0, 0.0, 0.0]])
CLASS_VARIANCE = np.array([[0.5, 0.9, 0.3], [1.0, 1.0, 1.0], [2.0, 0.7, 1.1]])
CLASSES = np.array([[2.0], [1.0], [0.0]])


def largest_by_integration(row, c):
    """P(f_c is the largest) of a row of independent Gaussians."""
    m, v = CLASS_MEAN[row], CLASS_VARIANCE[row]
    others = [j for j in range(3) if j != c]
    return integral(
        lambda f: np.prod([stats.norm.cdf(f, m[j], np.sqrt(v[j])) for j in others], 0), m[c], v[c]
    )


def test_robust_max_expectation_and_probabilities_equal_the_integral():
    likelihood = RobustMax.create(3)
    p = np.array([[largest_by_integration(n, c) for c in range(3)] for n in range(3)])
    np.testing.assert_allclose(p.sum(1), 1.0, atol=1e-9)
    args = jnp.array(CLASS_MEAN), jnp.array(CLASS_VARIANCE)
    right, wrong = np.log(1 - 1e-3), np.log(1e-3 / 2)
    observed = p[np.arange(3), CLASSES[:, 0].astype(int)]
    ours = jax.jit(likelihood.expected_log_density)(*args, jnp.array(CLASSES), KEY)
    np.testing.assert_allclose(ours, observed * right + (1 - observed) * wrong, atol=1e-3)
    probabilities = jax.jit(likelihood.class_probabilities)(*args)
    np.testing.assert_allclose(probabilities, (1 - 1e-3) * p + 5e-4 * (1 - p), atol=1e-4)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-12)


def test_softmax_of_two_classes_equals_the_one_dimensional_integral():
    """f₁ − f₀ ~ N(m₁ − m₀, v₀ + v₁), so p(y=1) is a logistic integral."""
    m, v = jnp.array([[0.4, -0.3], [0.0, 3.0]]), jnp.array([[0.6, 1.1], [2.0, 0.1]])
    p = np.array([integral(special.expit, m[n, 1] - m[n, 0], v[n, 0] + v[n, 1]) for n in range(2)])
    probabilities = Softmax(2).class_probabilities(m, v)
    np.testing.assert_allclose(probabilities[:, 1], p, atol=2e-3)
    Y = jnp.array([[1.0], [0.0]])
    log_p = Softmax(2).log_predictive(m, v, Y)
    np.testing.assert_allclose(log_p, jnp.log(probabilities[jnp.arange(2), jnp.array([1, 0])]))
    expected = [
        integral(lambda d: special.log_expit(d), m[0, 1] - m[0, 0], v[0].sum()),
        integral(lambda d: special.log_expit(-d), m[1, 1] - m[1, 0], v[1].sum()),
    ]
    noise = jax.random.normal(KEY, (20_000, *m.shape))
    draws = jax.jit(jax.vmap(lambda e: Softmax(2).expected_log_density(m, v, Y, e)))(noise)
    error = draws.std(0) / np.sqrt(20_000)
    assert np.all(np.abs(draws.mean(0) - np.array(expected)) < 4 * error)
    assert np.all(error < 4e-3)


def test_softmax_of_three_classes_equals_a_large_sample():
    args = jnp.array(CLASS_MEAN), jnp.array(CLASS_VARIANCE)
    noise = np.random.default_rng(0).standard_normal((200_000, 3))
    F = CLASS_MEAN + np.sqrt(CLASS_VARIANCE) * noise[:, None, :]
    sampled = special.softmax(F, -1)
    probabilities = Softmax(3).class_probabilities(*args)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(probabilities, sampled.mean(0), atol=4e-3)
    log_p = special.log_softmax(F, -1)[:, np.arange(3), CLASSES[:, 0].astype(int)]
    expected = Softmax(3).expected_log_density
    eps = jax.random.normal(KEY, (20_000, *CLASS_MEAN.shape))
    draws = jax.jit(jax.vmap(lambda e: expected(*args, jnp.array(CLASSES), e)))(eps)
    error = np.hypot(draws.std(0) / np.sqrt(20_000), log_p.std(0) / np.sqrt(200_000))
    assert np.all(np.abs(draws.mean(0) - log_p.mean(0)) < 4 * error)


def test_bernoulli_probabilities_are_the_probit_integral():
    m, v = jnp.array([[0.7], [-3.0]]), jnp.array([[1.9], [0.2]])
    p = [integral(special.ndtr, float(m[n, 0]), float(v[n, 0])) for n in range(2)]
    probabilities = Bernoulli(1).class_probabilities(m, v)
    np.testing.assert_allclose(probabilities[:, 1], p, rtol=1e-9)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-12)
    with pytest.raises(ValueError, match="single"):
        Bernoulli(2).class_probabilities(jnp.array(MEAN), jnp.array(VARIANCE))


def test_log_normal_cdf_and_its_slope_hold_in_both_tails():
    z = np.concatenate([np.linspace(-40, 40, 4001), [-1e4, -12.0, np.nextafter(-12, -13), 1e4]])
    np.testing.assert_allclose(log_normal_cdf(jnp.array(z)), special.log_ndtr(z), 1e-10, 1e-15)
    slope = jax.vmap(jax.grad(log_normal_cdf))(jnp.array(z))
    theirs = np.exp(stats.norm.logpdf(z) - special.log_ndtr(z))
    near = np.abs(z) < 100  # further out, the reference itself loses its digits
    np.testing.assert_allclose(slope[near], theirs[near], rtol=1e-7, atol=1e-300)
    np.testing.assert_allclose(slope[z == -1e4], 1e4, rtol=1e-7)


EXTREMES = [(0.0, 0.0), (1e3, 0.0), (-1e3, 1e-30), (50.0, 1e4), (0.0, 1e6), (-1e6, 1.0)]


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_values_and_gradients_are_finite_at_the_extremes(name):
    likelihood = LIKELIHOODS[name].create(3)
    Y = jnp.array([[1.0, 0.0, 1.0]] if name not in ("robust_max", "softmax") else [[1.0]])

    def both(likelihood, mean, variance):
        draws = jnp.ones((1, likelihood.n_draws)) if likelihood.n_draws else None
        expected = likelihood.expected_log_density(mean, variance, Y, draws)
        return expected.sum(), likelihood.log_predictive(mean, variance, Y)

    grad = jax.value_and_grad(both, argnums=(0, 1, 2), has_aux=True)
    for m, v in EXTREMES:
        mean = jnp.array([[m, -m, 0.5 * m]])
        (value, predictive), gradients = jax.jit(grad)(likelihood, mean, jnp.full((1, 3), v))
        for leaf in jax.tree.leaves((value, predictive, gradients)):
            assert jnp.isfinite(leaf).all(), (m, v)


def small_variance_case(name):
    """∂E[log p]/∂v at v = 1e-7, and log p(y|f) for its second derivative."""
    likelihood = LIKELIHOODS[name].create(3, **({"scale": 0.7} if name == "student_t" else {}))
    Y = jnp.array([[1.0]]) if name == "softmax" else jnp.array([[1.0, 0.0, 1.0]])
    mean, variance = jnp.array([[0.4, -0.2, 0.9]]), jnp.full((1, 3), 1e-7)
    slope = jax.grad(lambda v, e: likelihood.expected_log_density(mean, v, Y, e)[0])
    noise = jax.random.normal(KEY, (20_000 if name == "softmax" else 1, 1, 3))
    slopes = jax.jit(jax.vmap(slope, (None, 0)))(variance, noise)
    curvature = jax.jit(jax.hessian(lambda f: likelihood.log_density(f[None], Y)[0]))(mean[0])
    return slopes[:, 0], jnp.diag(curvature)


@pytest.mark.parametrize("name", ["student_t", "bernoulli", "poisson", "negative_binomial"])
def test_gradient_by_the_variance_is_half_the_curvature_where_it_is_small(name):
    """∂E[g]/∂v = ½ E[g''] → ½ g''(m) as v → 0, which autodiff of log p gives independently."""
    slopes, curvature = small_variance_case(name)
    np.testing.assert_allclose(slopes[0], 0.5 * curvature, rtol=1e-4, atol=1e-5)


def test_softmax_gradient_by_the_variance_is_unbiased():
    slopes, curvature = small_variance_case("softmax")
    error = slopes.std(0) / np.sqrt(len(slopes))
    assert np.all(np.abs(slopes.mean(0) - 0.5 * curvature) < 4 * error)
    assert np.all(error < 0.01)


@pytest.mark.parametrize(
    ("v", "gap", "tolerance"), [(1e-6, 5.0, 1e-6), (0.5, 4.0, 1e-5), (4.0, 8.0, 1e-3)]
)
def test_softmax_probabilities_of_unlikely_classes_are_those_of_brute_force(v, gap, tolerance):
    """Every nat counts: a class of probability e^−9 is as exact as the likely one."""
    mean, variance = np.array([gap, 0.0, 1.0]), v * np.array([1.0, 1.3, 0.7])
    z = np.linspace(-9, 9, 161)
    w = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    f = mean[:, None] + np.sqrt(variance)[:, None] * z
    top, second, third = (np.exp(a - f[0].max()) for a in f)
    total = top[:, None, None] + second[None, :, None] + third[None, None]
    weight = w[:, None, None] * w[None, :, None] * w[None, None]
    each = (top[:, None, None], second[None, :, None], third[None, None])
    expected = np.log([np.sum(weight * part / total) for part in each])
    likelihood = Softmax.create(3)
    rows = jnp.array([mean] * 3), jnp.array([variance] * 3)
    ours = jax.jit(likelihood.log_predictive)(*rows, jnp.arange(3.0)[:, None])
    np.testing.assert_allclose(ours, expected, atol=tolerance)
    p = jax.jit(likelihood.class_probabilities)(*rows)
    np.testing.assert_allclose(np.log(p[0]), expected, atol=tolerance)


@pytest.mark.parametrize("narrow", [1e-2, 1e-4, 1e-8])
def test_robust_max_probabilities_bear_narrow_rivals(narrow):
    """A rival without spread is a step: P(f_0 > f_1, f_2) = E Φ((max(f_1, f_2) − m_0)/s_0)."""
    mean, variance = np.array([[0.3, 0.0, -0.2]]), np.array([[1.0, narrow, narrow]])
    t = np.concatenate(
        [
            np.linspace(-8, 8, 20_001),
            *(m + np.sqrt(narrow) * np.linspace(-9, 9, 20_001) for m in (0, -0.2)),
        ]
    )
    t = np.unique(t)
    normal = stats.norm(mean[0], np.sqrt(variance[0]))
    pdf, cdf = normal.pdf(t[:, None]), normal.cdf(t[:, None])
    p = np.array([np.trapezoid(pdf[:, c] * np.delete(cdf, c, 1).prod(1), t) for c in range(3)])
    expected = (1 - 1e-3) * p + 1e-3 / 2 * (1 - p)
    ours = RobustMax.create(3).class_probabilities(jnp.asarray(mean), jnp.asarray(variance))[0]
    np.testing.assert_allclose(ours, expected, atol=2e-5)
    assert expected[0] == pytest.approx(0.617, abs=0.01)


def test_robust_max_gradient_equals_finite_differences():
    mean, variance, Y = jnp.array(CLASS_MEAN), jnp.array(CLASS_VARIANCE), jnp.array(CLASSES)
    value = jax.jit(lambda m, v: RobustMax.create(3).expected_log_density(m, v, Y, KEY).sum())
    ours = jax.jit(jax.grad(value, (0, 1)))(mean, variance)
    h = 1e-5
    for n, c in np.ndindex(3, 3):
        step = jnp.zeros((3, 3)).at[n, c].set(h)
        by_mean = (value(mean + step, variance) - value(mean - step, variance)) / (2 * h)
        by_variance = (value(mean, variance + step) - value(mean, variance - step)) / (2 * h)
        np.testing.assert_allclose(ours[0][n, c], by_mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(ours[1][n, c], by_variance, rtol=1e-6, atol=1e-8)


def test_draws_follow_the_density():
    n = 20_000
    F = jnp.full((n, 1), 0.4)
    y = Gaussian.create(1, variance=0.3).sample(KEY, F)[:, 0]
    assert stats.kstest(np.asarray(y), stats.norm(0.4, np.sqrt(0.3)).cdf).pvalue > 1e-3
    y = jax.jit(StudentT.create(1, scale=0.5, degrees=3).sample)(KEY, F)[:, 0]
    assert stats.kstest(np.asarray(y), stats.t(3, 0.4, 0.5).cdf).pvalue > 1e-3

    wide = jnp.broadcast_to(jnp.array([[0.4, 1.0, -0.3]]), (n, 3))
    for likelihood, latents in [
        (Poisson.create(1, offset=0.3), F),
        (NegativeBinomial.create(1, offset=0.3, size=0.7), F),
        (Bernoulli(1), F),
        (RobustMax.create(3, epsilon=0.2), wide),
        (Softmax(3), wide),
    ]:
        y = jax.jit(likelihood.sample)(KEY, latents)
        assert y.shape == (n, 1) and y.dtype == latents.dtype
        for c in np.arange(3.0 if latents is wide else 2.0):
            p = float(jnp.exp(likelihood.log_density(latents[:1], jnp.full((1, 1), c)))[0])
            assert abs(float(jnp.mean(y == c)) - p) < 4 * np.sqrt(p * (1 - p) / n)


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_leaves_and_results_keep_their_type(name, dtype):
    likelihood = LIKELIHOODS[name].create(3, dtype)
    assert likelihood.n_latents == 3
    for leaf in jax.tree.leaves(likelihood):
        assert leaf.dtype == dtype and not jax.typeof(leaf).weak_type
    mean, variance = jnp.zeros((2, 3), dtype), jnp.ones((2, 3), dtype)
    Y = jnp.ones((2, 1 if name in ("robust_max", "softmax") else 3), dtype)
    for value in (
        jax.eval_shape(likelihood.expected_log_density, mean, variance, Y, mean),
        jax.eval_shape(likelihood.log_predictive, mean, variance, Y),
        jax.eval_shape(likelihood.log_density, mean, Y),
    ):
        assert value.shape == (2,) and value.dtype == dtype


def test_start_values():
    assert Gaussian.create(2).variance.tolist() == pytest.approx([0.01, 0.01])
    assert StudentT.create(1).degrees.tolist() == pytest.approx([4.0])
    assert RobustMax.create(3).epsilon == 1e-3
    with pytest.raises(ValueError, match="above 2"):
        StudentT.create(1, degrees=2.0)


def test_each_task_has_its_likelihood():
    assert for_task("regression", 3, 0) == "gaussian"
    assert for_task("counts", 1, 0) == "poisson"
    assert for_task("binary", 1, 2) == "bernoulli"
    assert for_task("multiclass", 1, 4) == "softmax"
    with pytest.raises(ValueError, match="one column"):
        for_task("multiclass", 2, 4)
    with pytest.raises(ValueError, match="ranking"):
        for_task("ranking", 1, 0)
