"""Start values; the bound against evidence, collapsed bound and quadrature; its gradient."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dgp_core.gp.kernels import RBF, Linear, Matern32, Sum
from dgp_core.gp.layers import Layer
from dgp_core.gp.likelihoods import LIKELIHOODS, Bernoulli, Counts, Gaussian
from dgp_core.gp.model import (
    DeepGP,
    ModelSpec,
    bound,
    create_model,
    default_dtype,
    expected_log_likelihood,
    factorise_all,
    path_draws,
    propagate,
)
from tests.core.textbook import (
    collapsed_bound,
    expected_gaussian,
    gaussian_kl,
    log_normal,
    optimal_q,
    rbf,
    sparse_conditional,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

KEY = jax.random.key(0)
whole_bound = jax.jit(bound, static_argnames=("n_samples",))


@jax.jit
def marginals(model, X):
    """Every layer's marginals on one sample path."""
    draws = path_draws(KEY, model, len(X))
    return propagate(factorise_all(model), X, draws, model.concatenate)


def toy(rng, n=20, n_inputs=1, n_outputs=1):
    X = rng.uniform(-2, 2, (n, n_inputs))
    slopes = rng.normal(size=(n_inputs, n_outputs))
    return X, np.sin(2 * X @ slopes) + 0.1 * rng.normal(size=(n, n_outputs))


def as_numpy(tree):
    """The same tree in numpy, whose sums need no compilation."""
    return jax.tree.map(np.asarray, tree)


def stirred(model, rng, size=0.3):
    """The model with every leaf moved at random, away from its start."""
    return jax.tree.map(lambda a: jnp.array(a + size * rng.normal(size=a.shape)), as_numpy(model))


# ------------------------------------------------------------------- start values


@pytest.fixture(scope="module")
def started():
    X = np.random.default_rng(1).normal(size=(400, 3))
    return X, create_model(ModelSpec(layers=3, inducing=20), X)


def test_start_values_are_those_of_the_paper(started):
    X, model = started
    first, second, last = model.layers
    for layer in model.layers:
        assert isinstance(layer.kernel, RBF)
        np.testing.assert_allclose(layer.kernel.variance, 2.0)
        np.testing.assert_allclose(layer.kernel.lengthscales, [2.0] * 3)
        np.testing.assert_array_equal(layer.q_mean, 0)
    for layer in (first, second):
        np.testing.assert_allclose(layer.covariance, np.tile(1e-5 * np.eye(20), (3, 1, 1)))
        np.testing.assert_allclose(layer.noise, 1e-5)
        np.testing.assert_array_equal(layer.mean_weights, np.eye(3))
        # Z is carried through the mean function, here the identity.
        np.testing.assert_allclose(layer.inducing, last.inducing)
    np.testing.assert_allclose(last.covariance, [np.eye(20)])
    assert last.mean_weights is None and last.log_noise is None
    assert isinstance(model.likelihood, Gaussian)
    np.testing.assert_allclose(model.likelihood.variance, [0.01])


def test_inducing_inputs_are_k_means_centres(started):
    """At a k-means solution every centre is the mean of the rows that are nearest to it."""
    X, model = started
    Z = np.asarray(model.layers[0].inducing)
    nearest = ((X[:, None] - Z[None]) ** 2).sum(-1).argmin(1)
    spread = ((X - Z[nearest]) ** 2).sum()
    means = np.stack([X[nearest == m].mean(0) for m in range(20)])
    np.testing.assert_allclose(Z, means, atol=0.15)
    random = X[np.random.default_rng(0).choice(400, 20, replace=False)]
    assert spread < 0.8 * ((X[:, None] - random[None]) ** 2).sum(-1).min(1).sum()


def test_leaves_are_strongly_typed(started):
    leaves = jax.tree.leaves(started[1])
    assert all(leaf.dtype == default_dtype() and not leaf.weak_type for leaf in leaves)
    low = create_model(ModelSpec(inducing=5, precision="float32"), started[0])
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(low))


def test_defaults_are_those_of_the_paper():
    spec = ModelSpec()
    assert spec.inducing_counts == (100, 100) and spec.mean_function == "linear"
    assert spec.inner_widths(7) == (7,) and spec.inner_widths(90) == (30,)
    assert ModelSpec(layers=4, widths=(1, 2, 3)).inner_widths(9) == (1, 2, 3)


def test_mean_weights_identity_padding_and_pca(rng):
    X = rng.normal(size=(200, 4)) @ np.diag([0.1, 3.0, 1.0, 0.02])
    model = create_model(ModelSpec(layers=4, inducing=10, widths=(4, 6, 2)), X)
    same, up, down, last = (layer.mean_weights for layer in model.layers)
    assert last is None
    np.testing.assert_array_equal(same, np.eye(4))
    np.testing.assert_array_equal(up, np.eye(4, 6))
    # Down: the two directions along which the carried rows, X padded with zeros, extend most.
    top = np.linalg.svd(X @ np.eye(4, 6), full_matrices=False)[2][:2].T
    top *= np.sign(top[np.abs(top).argmax(0), [0, 1]])
    np.testing.assert_allclose(down, top, atol=1e-10)
    # Z passes through each of these maps.
    Z = np.asarray(model.layers[0].inducing)
    np.testing.assert_allclose(model.layers[2].inducing, Z @ np.eye(4, 6))
    np.testing.assert_allclose(model.layers[3].inducing, Z @ np.eye(4, 6) @ np.asarray(down))


def test_lengthscales_may_start_as_far_as_rows_are_from_the_mean(rng):
    X = rng.normal(size=(4000, 49))
    X = (X - X.mean(0)) / X.std(0)
    model = create_model(ModelSpec(layers=3, inducing=3, widths=(16, 2), lengthscale=None), X)
    apart = np.sqrt((X**2).sum(1).mean())
    for layer, scale in zip(model.layers, (apart, 4.0, 2.0), strict=True):
        np.testing.assert_allclose(layer.kernel.lengthscales, scale)
    single = ModelSpec(lengthscale=None).single_layer()
    assert single.lengthscale is None and ModelSpec().lengthscale == 2.0


def test_fewer_rows_than_inducing_points(rng):
    X = np.repeat(rng.normal(size=(6, 2)), 3, 0)
    Z = np.asarray(create_model(ModelSpec(layers=1, inducing=15), X).layers[0].inducing)
    assert Z.shape == (15, 2) and len(np.unique(Z, axis=0)) == 15
    assert all(np.isclose(Z, row).all(1).any() for row in np.unique(X, axis=0))


def test_every_layer_may_differ(rng):
    X, _ = toy(rng, 60, 2)
    spec = ModelSpec(
        layers=3, inducing=(5, 7, 9), widths=(3, 1), kernels=("rbf", "matern32", "linear + rbf")
    )
    model = create_model(spec, X, n_outputs=2)
    assert [layer.inducing.shape for layer in model.layers] == [(5, 2), (7, 3), (9, 1)]
    assert [layer.q_factor.shape for layer in model.layers] == [(3, 5, 5), (1, 7, 7), (2, 9, 9)]
    kernels = [layer.kernel for layer in model.layers]
    assert [type(k) for k in kernels] == [RBF, Matern32, Sum]
    assert isinstance(kernels[2].parts[0], Linear)


def test_the_rival_is_one_layer_with_the_last_layers_choices():
    spec = ModelSpec(layers=3, inducing=(5, 7, 9), widths=2, kernels=("rbf", "rbf", "matern52"))
    rival = spec.single_layer()
    assert (rival.layers, rival.inducing_counts, rival.kernel_names) == (1, (9,), ("matern52",))


def test_multiclass_has_a_latent_a_class(rng):
    X, _ = toy(rng, 30, 2)
    model = create_model(ModelSpec(inducing=5, likelihood="softmax"), X, n_classes=4)
    assert model.layers[-1].q_mean.shape == (5, 4)


@pytest.mark.parametrize(
    ("message", "choice"),
    [
        ("at least 1 layer", dict(layers=0)),
        ("no likelihood 'cauchy'", dict(likelihood="cauchy")),
        ("no mean function", dict(mean_function="cubic")),
        ("inducing has 3 entries for 2 layers", dict(inducing=(1, 2, 3))),
        ("kernels has 1 entries", dict(kernels=("rbf",))),
        ("widths", dict(layers=3, widths=(2,))),
        ("1 inducing point", dict(inducing=0)),
        ("at least 1 output", dict(widths=0)),
        ("lengthscale is above 0", dict(lengthscale=0.0)),
    ],
)
def test_impossible_choices_say_so(message, choice):
    with pytest.raises(ValueError, match=message):
        ModelSpec(**choice)


# ---------------------------------------------------- one layer against the textbook


def single_layer(X, Z, Y, noise, optimal):
    """One layer with kernel σ² = 1.4, ℓ = 0.7 and the textbook's best q(u), or a random one."""
    M, P = len(Z), Y.shape[1]
    K, Kxz = rbf(Z, Z, 1.4, 0.7) + 1e-8 * np.eye(M), rbf(X, Z, 1.4, 0.7)
    L = np.linalg.cholesky(K)
    kernel = RBF(jnp.log(jnp.array(1.4)), jnp.log(jnp.full(X.shape[1], 0.7)))
    if optimal:
        pairs = [optimal_q(Kxz, K, Y[:, p], noise[p]) for p in range(P)]
        # u = Lv: m_v = L⁻¹ m_u and S_v = L⁻¹ S_u L⁻ᵀ.
        m = np.stack([np.linalg.solve(L, m) for m, _ in pairs], 1)
        S = [np.linalg.solve(L, np.linalg.solve(L, S).T) for _, S in pairs]
        C = np.stack([np.linalg.cholesky((s + s.T) / 2) for s in S])
    else:
        rng = np.random.default_rng(5)
        m, C = rng.normal(size=(M, P)), np.tril(rng.normal(size=(P, M, M))) / 2 + np.eye(M)
    layer = Layer(kernel, jnp.array(Z), jnp.array(m), jnp.array(C))
    return DeepGP((layer,), Gaussian(jnp.log(jnp.array(noise)))), K, Kxz


def test_all_inducing_points_and_the_best_q_give_the_exact_evidence(rng):
    X = np.linspace(-3, 3, 12)[:, None]
    Y = np.sin(2 * X) + 0.1 * rng.normal(size=X.shape)
    model, _, _ = single_layer(X, X, Y, [0.2], optimal=True)
    evidence = log_normal(Y[:, 0], np.zeros(12), rbf(X, X, 1.4, 0.7) + 0.2 * np.eye(12))
    ours = whole_bound(model, jnp.array(X), jnp.array(Y), KEY, 12, jitter=1e-8 / 1.4)
    assert float(ours.value) == pytest.approx(evidence, abs=1e-4)


def test_the_best_q_for_given_inducing_points_gives_the_collapsed_bound(rng):
    X, Y = toy(rng, 20, 1, 2)
    Z, noise = np.linspace(-2, 2, 6)[:, None], [0.1, 0.3]
    arguments = (jnp.array(X), jnp.array(Y), KEY, 20)
    model, K, Kxz = single_layer(X, Z, Y, noise, optimal=True)
    collapsed = sum(collapsed_bound(np.full(20, 1.4), Kxz, K, Y[:, p], noise[p]) for p in range(2))
    ours = whole_bound(model, *arguments, jitter=1e-8 / 1.4)
    assert float(ours.value) == pytest.approx(collapsed, rel=1e-8)
    # Nothing is better.
    for _ in range(5):
        moved = replace(
            model.layers[0],
            q_mean=model.layers[0].q_mean + 0.05 * rng.normal(size=(6, 2)),
            q_factor=model.layers[0].q_factor * (1 + 0.05 * rng.normal(size=(2, 6, 6))),
        )
        other = whole_bound(replace(model, layers=(moved,)), *arguments, jitter=1e-8 / 1.4)
        assert float(other.value) < collapsed


def test_parts_of_the_bound_are_the_textbooks(rng):
    """Fit and KL each on its own, for a q(u) that is not the best one."""
    X, Y = toy(rng, 20, 1, 2)
    Z, noise = np.linspace(-2, 2, 6)[:, None], [0.1, 0.3]
    model, K, Kxz = single_layer(X, Z, Y, noise, optimal=False)
    parts = whole_bound(model, jnp.array(X), jnp.array(Y), KEY, 20, jitter=1e-8 / 1.4)
    L, layer = np.linalg.cholesky(K), model.layers[0]
    fit = kl = 0.0
    for p in range(2):
        m, S = L @ np.asarray(layer.q_mean)[:, p], L @ np.asarray(layer.covariance)[p] @ L.T
        mean, variance = sparse_conditional(1.4, Kxz, K, m, S)
        fit += expected_gaussian(Y[:, p], noise[p], mean, variance).sum()
        kl += gaussian_kl(m, S, np.zeros(6), K)
    assert float(parts.fit) == pytest.approx(fit, rel=1e-9)
    assert float(parts.kl[0]) == pytest.approx(kl, rel=1e-9) and parts.kl.shape == (1,)
    assert float(parts.value) == pytest.approx(fit - kl, rel=1e-9)


# ------------------------------------------------------------------- deep models


def test_inner_layers_without_variance_leave_a_single_layer(rng):
    """With identity means and k, σ_l² → 0 inside, layers below the last pass x on as it is."""
    X, Y = toy(rng, 25, 2)
    model = create_model(ModelSpec(layers=3, inducing=8), X)
    last = stirred(model.layers[-1], rng)

    def silenced(layer):
        kernel = replace(layer.kernel, log_variance=jnp.array(-60.0))
        # A whitened q(v) still adds its own √k (L⁻ᵀm): with k → 0 that goes too.
        q_mean = jnp.array(rng.normal(size=layer.q_mean.shape))
        return replace(layer, kernel=kernel, log_noise=jnp.array(-60.0), q_mean=q_mean)

    deep = replace(model, layers=(*map(silenced, model.layers[:-1]), last))
    single = replace(model, layers=(last,))

    @jax.jit
    def evaluate(model):
        return bound(model, jnp.array(X), jnp.array(Y), KEY, 25), marginals(model, new)[-1]

    new = jnp.array(rng.uniform(-2, 2, (6, 2)))
    (ours, path), (rival, alone) = evaluate(deep), evaluate(single)
    # What is left inside is the floor of the variance, 1e-10: a shift of 1e-5.
    assert float(ours.fit) == pytest.approx(float(rival.fit), rel=1e-4)
    assert float(ours.kl[-1]) == float(rival.kl[0])

    np.testing.assert_allclose(path.mean, alone.mean, atol=2e-4)
    np.testing.assert_allclose(path.variance, alone.variance, atol=2e-4)


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@pytest.fixture(scope="module")
def two_layers():
    """A 1-D model of two stirred layers, its data, and the bound's fit by textbook quadrature."""
    rng = np.random.default_rng(11)
    X, Y = toy(rng, 12)
    start = create_model(ModelSpec(layers=2, inducing=5), X)
    model = stirred(start, rng, 0.2)
    inner = replace(
        model.layers[0],
        log_noise=jnp.array(np.log(0.02)),
        q_factor=model.layers[0].q_factor + 0.3 * jnp.eye(5)[None],
    )
    likelihood = Gaussian(jnp.log(jnp.array([0.3])))
    return X, Y, replace(model, layers=(inner, model.layers[1]), likelihood=likelihood)


def dense_marginal(layer, X, noise, jitter=1e-6):
    """A one-output layer's mean and variance at X (N, 1), by the textbook."""
    variance, ell = (float(a) for a in (layer.kernel.variance, layer.kernel.lengthscales[0]))
    Z = np.asarray(layer.inducing)
    K = rbf(Z, Z, variance, ell) + (noise + jitter * variance) * np.eye(len(Z))
    L = np.linalg.cholesky(K)
    C = L @ np.tril(np.asarray(layer.q_factor)[0])
    m = L @ np.asarray(layer.q_mean)[:, 0]
    mean, v = sparse_conditional(variance + noise, rbf(X, Z, variance, ell), K, m, C @ C.T)
    weights = layer.mean_weights
    return (mean if weights is None else mean + X[:, 0] * float(weights[0, 0])), v


def quadrature(X, Y, model):
    """Σ_i ∫ N(h_i; μ(x_i), σ²(x_i)) E[log p(y_i | f²(h_i))] dh_i, by Gauss–Hermite in h."""
    inner, last = model.layers
    mean, variance = dense_marginal(inner, X, float(inner.noise))
    assert variance.min() > 0.01  # the inner layer is not nearly deterministic
    total = 0.0
    for node, weight in zip(NODES, WEIGHTS, strict=True):
        h = mean + node * np.sqrt(variance)
        m, v = dense_marginal(last, h[:, None], 0.0)
        noise = float(model.likelihood.variance[0])
        total += weight * expected_gaussian(Y[:, 0], noise, m, v).sum()
    return total


def fit_at_nodes(model, X, Y):
    """The same integral by the code's own layers, for its gradient."""
    factors = factorise_all(model)

    def at(node):
        draws = [jnp.full(Y.shape, node)]
        return expected_log_likelihood(factors, model.likelihood, X, Y, jnp.ones(len(X)), draws)

    return jnp.sum(jnp.asarray(WEIGHTS) * jax.vmap(at)(jnp.asarray(NODES)))


def test_two_layers_against_quadrature_over_the_inner_one(two_layers):
    X, Y, model = two_layers
    exact = quadrature(X, Y, model)
    given = jax.jit(fit_at_nodes)(model, jnp.array(X), jnp.array(Y))
    assert float(given) == pytest.approx(exact, rel=1e-8)

    # The bound itself, by many sample paths: a mean, with its standard error.
    def fits(n_samples):
        keys = jax.random.split(jax.random.key(4), 500)
        each = jax.vmap(lambda k: bound(model, jnp.array(X), jnp.array(Y), k, 12, n_samples).fit)
        return np.asarray(jax.jit(each)(keys))

    one, many = fits(1), fits(16)
    for values in (one, many):
        assert abs(values.mean() - exact) < 4 * values.std() / np.sqrt(500)
    assert many.std() / np.sqrt(500) < 0.01 * abs(exact)
    # Sixteen paths a row, each drawn apart, make a quarter of the noise.
    assert one.std() / many.std() == pytest.approx(4, rel=0.2)


def test_minibatches_and_samples_are_unbiased_in_value_and_gradient(two_layers):
    """The mean over many minibatches and sample paths is the full-batch integral."""
    X, Y, model = two_layers
    exact = quadrature(X, Y, model)
    exact_gradient = jax.jit(jax.grad(fit_at_nodes))(model, jnp.array(X), jnp.array(Y))

    def estimate(model, key):
        key_rows, key_paths = jax.random.split(key)
        rows = jax.random.choice(key_rows, 12, (4,), replace=False)
        return bound(model, jnp.array(X)[rows], jnp.array(Y)[rows], key_paths, 12, 2).fit

    keys = jax.random.split(jax.random.key(8), 4000)
    values, gradients = jax.jit(jax.vmap(jax.value_and_grad(estimate), in_axes=(None, 0)))(
        model, keys
    )
    error = float(jnp.std(values)) / np.sqrt(len(keys))
    assert abs(float(jnp.mean(values)) - exact) < 4 * error
    for each, expected in zip(
        jax.tree.leaves(gradients), jax.tree.leaves(exact_gradient), strict=True
    ):
        each = np.asarray(each)
        errors = each.std(0) / np.sqrt(len(each))
        # Four standard errors for one number; five, as there are some eighty of them.
        np.testing.assert_array_less(abs(each.mean(0) - expected), 5 * errors + 1e-10)


def test_layers_draw_apart():
    layer = create_model(
        ModelSpec(layers=4, inducing=5), np.random.default_rng(0).normal(size=(50, 1))
    )
    draws = np.concatenate(path_draws(KEY, layer, 2000), 1)
    assert draws.shape == (2000, 3)
    np.testing.assert_allclose(np.corrcoef(draws.T), np.eye(3), atol=0.1)


# ------------------------------------------------------------- blocks and gradients


def test_blocks_of_rows_sum_to_the_plain_sum(rng, monkeypatch):
    """14 rows on 3 paths in six blocks of 7, or five padded ones of 9, against one block of 42."""
    X, Y = toy(rng, 14)
    model = stirred(create_model(ModelSpec(layers=2, inducing=3), X), rng)

    def fit(model):
        return bound(model, jnp.array(X), jnp.array(Y), KEY, 14, 3).fit

    def traced(function, block):
        monkeypatch.setattr("dgp_core.gp.model.BLOCK", block)
        # A lambda of its own: the size is read while tracing.
        return jax.jit(lambda model: function(model))(model)

    gradient_of_twice = jax.value_and_grad(lambda model: 2 * fit(model))
    plain, gradient = traced(gradient_of_twice, 1000)
    summed, by_blocks = traced(gradient_of_twice, 9)
    assert float(summed) == pytest.approx(float(plain), rel=1e-12)
    for a, b in zip(jax.tree.leaves(by_blocks), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9 * (1 + np.abs(b).max()))
    for block in (7, 9):
        assert float(traced(fit, block)) == pytest.approx(float(plain) / 2, rel=1e-12)


def data_for(name, rng, n=15, n_inputs=2):
    X = rng.uniform(-2, 2, (n, n_inputs))
    if name == "gaussian":
        return X, rng.normal(size=(n, 2)), 2
    if name == "student_t":
        return X, rng.normal(size=(n, 1)), 1
    top = {"poisson": 5, "negative_binomial": 5, "bernoulli": 2}.get(name, 3)
    return X, rng.integers(0, top, (n, 1)).astype(float), 1


CASES = [(name, "linear") for name in LIKELIHOODS]
CASES += [("gaussian", "zero"), ("gaussian", "concatenate")]


@pytest.mark.parametrize(("likelihood", "mean_function"), CASES)
def test_gradient_of_the_whole_bound_by_finite_differences(likelihood, mean_function, rng):
    X, Y, n_outputs = data_for(likelihood, rng)
    width = 3 if likelihood == "gaussian" else 1
    spec = ModelSpec(2, 4, width, likelihood=likelihood, mean_function=mean_function)
    model = stirred(create_model(spec, X, n_outputs, n_classes=3), rng, 0.2)

    @jax.jit
    @jax.value_and_grad
    def value(model):
        # Without jitter, whose scale is a constant by intention.
        return bound(model, jnp.array(X), jnp.array(Y), KEY, 40, n_samples=2, jitter=0.0).value

    direction = jax.tree.map(lambda a: rng.normal(size=a.shape), model)
    frozen = [replace(l, mean_weights=None) for l in direction.layers]
    zero = [None if l.mean_weights is None else 0 * l.mean_weights for l in direction.layers]
    layers = [replace(l, mean_weights=w) for l, w in zip(frozen, zero, strict=True)]
    direction = replace(direction, layers=tuple(layers))
    if isinstance(model.likelihood, Counts):  # frozen too
        own = replace(direction.likelihood, offset=0 * direction.likelihood.offset)
        direction = replace(direction, likelihood=own)

    def along(t):
        moved = jax.tree.map(lambda a, d: jnp.array(a + t * d), as_numpy(model), direction)
        return float(value(moved)[0])

    _, gradient = value(model)
    products = jax.tree.map(lambda g, d: np.sum(g * d), as_numpy(gradient), direction)
    h = 1e-5
    slope = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    assert slope == pytest.approx(sum(jax.tree.leaves(products)), rel=1e-6)
    for layer in gradient.layers:
        np.testing.assert_array_equal(np.triu(layer.q_factor, 1), 0)
        if layer.mean_weights is not None:
            np.testing.assert_array_equal(layer.mean_weights, 0)


def test_concatenation_shows_every_later_layer_the_inputs(rng):
    X, Y = toy(rng, 40, 3)
    model = create_model(ModelSpec(3, 6, widths=2, mean_function="concatenate"), X)
    assert model.concatenate and all(layer.mean_weights is None for layer in model.layers)
    assert [layer.inducing.shape[1] for layer in model.layers] == [3, 5, 5]
    np.testing.assert_allclose(model.layers[1].inducing[:, 2:], model.layers[0].inducing)
    np.testing.assert_allclose(model.layers[2].inducing[:, 2:], model.layers[0].inducing)
    # With a last kernel that sees only the inputs, the layers below make no difference.
    model = stirred(model, rng)
    last = model.layers[-1]
    blind = jnp.array([30.0, 30.0, 0.0, 0.0, 0.0])
    last = replace(last, kernel=replace(last.kernel, log_lengthscales=blind))
    kept = last.inducing[:, 2:]
    alone = replace(last, inducing=kept, kernel=replace(last.kernel, log_lengthscales=jnp.zeros(3)))
    deep = marginals(replace(model, layers=(*model.layers[:2], last)), jnp.array(X))
    single = marginals(replace(model, layers=(alone,)), jnp.array(X))
    assert [q.mean.shape for q in deep] == [(40, 2), (40, 2), (40, 1)]
    np.testing.assert_allclose(deep[-1].mean, single[-1].mean, atol=1e-6)
    parts = whole_bound(model, jnp.array(X), jnp.array(Y), KEY, 40)
    assert parts.kl.shape == (3,) and bool(jnp.isfinite(parts.value))


def test_a_zero_mean_passes_nothing_on_by_itself(rng):
    X, _ = toy(rng, 40, 2)
    model = create_model(ModelSpec(2, 6, mean_function="zero"), X)
    assert model.layers[0].mean_weights is None
    # Inducing inputs of the second layer still lie apart.
    assert len(np.unique(np.asarray(model.layers[1].inducing).round(6), axis=0)) == 6
    inner = marginals(model, jnp.array(X))[0]
    np.testing.assert_array_equal(inner.mean, 0)


def test_outputs_are_independent_gps(rng):
    """Two outputs' bound is the sum of two single-output models that share Z and the kernel."""
    X, Y = toy(rng, 20, 1, 2)
    model = stirred(create_model(ModelSpec(layers=1, inducing=5), X, 2), rng)
    layer = model.layers[0]

    def only(p):
        part = replace(layer, q_mean=layer.q_mean[:, p : p + 1], q_factor=layer.q_factor[p : p + 1])
        noise = Gaussian(model.likelihood.log_variance[p : p + 1])
        return whole_bound(
            DeepGP((part,), noise), jnp.array(X), jnp.array(Y[:, p : p + 1]), KEY, 20
        ).value

    both = whole_bound(model, jnp.array(X), jnp.array(Y), KEY, 20).value
    assert float(both) == pytest.approx(float(only(0) + only(1)), rel=1e-12)


def test_float32_bound_is_near_the_float64_one(rng):
    X, Y = toy(rng, 30, 2)
    model = create_model(ModelSpec(inducing=6), X)
    low = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), as_numpy(model))
    exact = whole_bound(model, jnp.array(X), jnp.array(Y), KEY, 30).value
    ours = whole_bound(low, jnp.array(X, jnp.float32), jnp.array(Y, jnp.float32), KEY, 30).value
    assert ours.dtype == jnp.float32
    # The two precisions draw different sample paths, through layers that hardly vary.
    assert float(ours) == pytest.approx(float(exact), rel=0.02)


def test_the_bound_lies_below_the_evidence_of_a_classifier(rng):
    """One yes-or-no row: log p(y) = log ½, whatever the kernel."""
    model = create_model(ModelSpec(1, 3, likelihood="bernoulli"), rng.normal(size=(9, 1)))
    assert isinstance(model.likelihood, Bernoulli)
    for seed in range(3):
        moved = stirred(model, np.random.default_rng(seed))
        parts = whole_bound(moved, jnp.zeros((1, 1)), jnp.ones((1, 1)), KEY, 1)
        assert float(parts.value) < np.log(0.5)
