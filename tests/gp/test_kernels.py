"""Every kernel against its scalar formula; positive definite; gradients finite at repeated rows."""

from math import exp, log, pi, prod, sin, sqrt

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dgp_core.gp.kernels import (
    KERNELS,
    RBF,
    Linear,
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    Product,
    RationalQuadratic,
    Sum,
    create_kernel,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

V, ELL, ALPHA, PERIOD = 1.7, [0.6, 1.9], 0.8, [1.3, 2.4]
LOG = (jnp.log(jnp.array(V)), jnp.log(jnp.array(ELL)))
WRITTEN = [*KERNELS, "rbf*periodic + linear", "matern12 * matern52"]
BOTH = [(name, 3) for name in WRITTEN] + [(name, 1) for name in ("rbf", "matern12", "matern52")]
"""Written names on several inputs, and on one, whose distances are taken by subtraction."""

gram = jax.jit(lambda kernel, X, Z: kernel.gram(X, Z))
diagonal = jax.jit(lambda kernel, X: kernel.diagonal(X))


def distance(x, z):
    return sqrt(sum(((a - b) / l) ** 2 for a, b, l in zip(x, z, ELL, strict=True)))


def rational_quadratic(x, z):
    return V * (1 + distance(x, z) ** 2 / (2 * ALPHA)) ** -ALPHA


def periodic(x, z):
    waves = zip(x, z, ELL, PERIOD, strict=True)
    return V * exp(-2 * sum((sin(pi * (a - b) / p) / l) ** 2 for a, b, l, p in waves))


def linear(x, z):
    return sum(v * a * b for v, a, b in zip([0.5, 3.0], x, z, strict=True))


def matern52(x, z):
    s = sqrt(5) * distance(x, z)
    return V * (1 + s + s * s / 3) * exp(-s)


FORMULAS = [
    (RBF(*LOG), lambda x, z: V * exp(-(distance(x, z) ** 2) / 2)),
    (Matern12(*LOG), lambda x, z: V * exp(-distance(x, z))),
    (
        Matern32(*LOG),
        lambda x, z: V * (1 + sqrt(3) * distance(x, z)) * exp(-sqrt(3) * distance(x, z)),
    ),
    (Matern52(*LOG), matern52),
    (RationalQuadratic(*LOG, jnp.log(jnp.array(ALPHA))), rational_quadratic),
    (Periodic(*LOG, jnp.log(jnp.array(PERIOD))), periodic),
    (Linear(jnp.log(jnp.array([0.5, 3.0]))), linear),
]


@pytest.mark.parametrize(("kernel", "formula"), FORMULAS, ids=lambda k: type(k).__name__)
def test_values_are_those_of_the_scalar_formula(kernel, formula, rng):
    X, Z = rng.normal(size=(5, 2)), rng.normal(size=(4, 2))
    Z[0] = X[0]
    expected = [[formula(x, z) for z in Z] for x in X]
    # A square root turns the rounding of r², 1e-16, into 1e-8 where x = z.
    K = np.asarray(gram(kernel, jnp.array(X), jnp.array(Z)))
    np.testing.assert_allclose(K, expected, atol=1e-7)
    np.testing.assert_allclose(K[1:], expected[1:], atol=1e-13)
    by_row = [formula(x, x) for x in X]
    np.testing.assert_allclose(diagonal(kernel, jnp.array(X)), by_row, rtol=1e-13)


def test_no_two_kernels_have_the_same_structure():
    """Compiled programs are found by it: JAX's own dataclasses of one shape would be mixed up."""
    kernels = [kernel for kernel, _ in FORMULAS]
    parts = (kernels[0], kernels[1])
    structures = [jax.tree.structure(k) for k in (*kernels, Sum(parts), Product(parts))]
    for i, one in enumerate(structures):
        assert [one == other for other in structures].index(True) == i


@pytest.mark.parametrize("name", ["rbf", "matern12"])
def test_one_input_is_subtracted_outright(name):
    """With one input, distances keep all their digits even far from the origin."""
    kernel = create_kernel(name, 1, lengthscale=1.0)
    x, near = np.array([[1e4], [1e4 + 1e-3]]), np.array([[0.0], [1e-3]])
    expected = gram(kernel, jnp.array(near), jnp.array(near))
    np.testing.assert_allclose(gram(kernel, jnp.array(x), jnp.array(x)), expected, atol=1e-11)


@pytest.mark.parametrize(("name", "n_inputs"), BOTH)
def test_positive_definite(name, n_inputs, rng):
    kernel = create_kernel(name, n_inputs, lengthscale=0.7)
    X = jnp.array(rng.normal(size=(25, n_inputs)))
    K = np.asarray(gram(kernel, X, X))
    np.testing.assert_allclose(K, K.T, atol=1e-7)
    np.testing.assert_allclose(np.diag(K), diagonal(kernel, X), atol=1e-6)
    eigenvalues = np.linalg.eigvalsh(K)
    assert eigenvalues.min() > -1e-7 * eigenvalues.max()
    assert np.linalg.matrix_rank(K) > (0 if name == "linear" else n_inputs)


@pytest.mark.parametrize(("name", "n_inputs"), BOTH)
def test_gradients_are_finite_at_repeated_inputs(name, n_inputs):
    kernel = create_kernel(name, n_inputs)
    X = jnp.array(np.repeat([[0.3], [0.3], [-1.1], [0.0]], n_inputs, 1))

    @jax.jit
    def gradient(kernel, X, Z):
        def total(kernel, X, Z):
            return jnp.sum(jnp.sin(kernel.gram(X, Z))) + jnp.sum(kernel.diagonal(X))

        return jax.grad(total, (0, 1, 2))(kernel, X, Z)

    for leaf in map(np.asarray, jax.tree.leaves(gradient(kernel, X, X))):
        assert np.isfinite(leaf).all() and np.abs(leaf).max() < 100


def test_sums_and_products_add_and_multiply(rng):
    X, Z = jnp.array(rng.normal(size=(4, 2))), jnp.array(rng.normal(size=(3, 2)))
    a, b, c = RBF.create(2, 0.5), Matern32.create(2), Linear.create(2)
    values = [np.asarray(gram(k, X, Z)) for k in (a, b, c)]
    diagonals = [np.asarray(diagonal(k, X)) for k in (a, b, c)]
    mixed = a * b + c
    np.testing.assert_allclose(gram(mixed, X, Z), values[0] * values[1] + values[2])
    np.testing.assert_allclose(diagonal(mixed, X), diagonals[0] * diagonals[1] + diagonals[2])
    np.testing.assert_allclose(gram(a + b + c, X, Z), sum(values))
    np.testing.assert_allclose(gram(a * b * c, X, Z), prod(values))


def test_written_names_make_the_kernels_they_say():
    assert isinstance(create_kernel("rbf", 2), RBF)
    kernel = create_kernel(" rbf * periodic+linear ", 3)
    assert isinstance(kernel, Sum)
    product, line = kernel.parts
    assert isinstance(product, Product) and isinstance(line, Linear)
    assert [type(k) for k in product.parts] == [RBF, Periodic]
    assert product.parts[0].log_lengthscales.shape == (3,)


def test_a_sum_starts_with_the_variance_of_one_kernel():
    X = jnp.zeros((2, 1))
    for name in ("rbf", "rbf + matern32", "rbf*matern12 + periodic", "rbf*rbf*rbf"):
        np.testing.assert_allclose(create_kernel(name, 1, variance=3.0).diagonal(X), 3.0)


def test_start_values_are_two():
    kernel = create_kernel("rbf", 3)
    np.testing.assert_allclose(kernel.variance, 2.0)
    np.testing.assert_allclose(kernel.lengthscales, [2.0, 2.0, 2.0])
    assert log(2) == pytest.approx(float(kernel.log_variance))


@pytest.mark.parametrize("name", ["cosine", "", "rbf +", "rbf ** linear"])
def test_unknown_names_are_answered_with_the_choices(name):
    with pytest.raises(ValueError, match="Choose from rbf, matern12"):
        create_kernel(name, 1)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", WRITTEN)
def test_leaves_and_values_keep_their_type(name, dtype):
    kernel = create_kernel(name, 2, dtype=dtype)
    X = jnp.ones((3, 2), dtype)
    made = [jax.eval_shape(kernel.gram, X, X), jax.eval_shape(kernel.diagonal, X)]
    for array in (*map(jax.typeof, jax.tree.leaves(kernel)), *made):
        assert array.dtype == dtype and not array.weak_type


def test_periodic_repeats_itself():
    kernel = Periodic.create(1, lengthscale=0.5)
    X = jnp.linspace(0, 1, 6)[:, None]
    np.testing.assert_allclose(gram(kernel, X, X + 3), gram(kernel, X, X), atol=1e-12)
    half = gram(kernel, X[:1], X[:1] + 0.5)[0, 0]
    assert float(half) == pytest.approx(2 * exp(-2 / 0.5**2))
