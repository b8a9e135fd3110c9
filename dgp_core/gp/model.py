"""The deep GP: start values, a sample path through its layers, and the bound."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.cluster.vq import kmeans2
from scipy.linalg import eigh

from dgp_core.gp.data import Scaled
from dgp_core.gp.kernels import create_kernel
from dgp_core.gp.layers import Factors, Layer, Normal, conditional, factorise, kl_from_prior
from dgp_core.gp.likelihoods import (
    LIKELIHOODS,
    Likelihood,
    NegativeBinomial,
    Poisson,
    count_offset,
)
from dgp_core.gp.mean_field import (
    MOST_ROWS,
    Hidden,
    hidden_kl,
    independent_path,
    start_hidden,
)
from dgp_core.gp.pytree import leaf, pytree

MeanFunction = Literal["linear", "zero", "concatenate"]
Posterior = Literal["doubly_stochastic", "mean_field"]
Precision = Literal["auto", "float32", "float64"]

NOISE = {"doubly_stochastic": 1e-5, "mean_field": 1e-2}
"""σ_l² between layers at the start: at 1e-5, q(h) of mean-field could hardly move."""

JITTER = 1e-6
"""Added to Kzz's diagonal, times the kernel's variance."""

MOST_JITTER = 1e-2
"""Where Kzz still has no Cholesky factor with so much added, the step fails."""

SKETCH = 10_000
"""Rows that the start values are measured on, at the most."""

DRAWN_ROWS = 128
"""Rows whose random numbers come from one key."""

MOST_BLOCKS = 1 << 24
"""Blocks of DRAWN_ROWS rows that have keys of their own: two billion rows in a batch."""

BLOCK = 20_000
"""Rows that are propagated together: the B×M matrices of more would take too much memory."""


def default_dtype():
    """float64 on the CPU, float32 on an accelerator."""
    return jnp.float64 if jax.default_backend() == "cpu" else jnp.float32


@dataclass(frozen=True)
class ModelSpec:
    """What a person chose; the data add the rest."""

    layers: int = 2
    """L: 1 is the sparse GP."""
    inducing: int | tuple[int, ...] = 100
    """M, for all layers or for each."""
    widths: int | tuple[int, ...] | None = None
    """Outputs of the inner layers, for all or for each; None is min(30, D)."""
    kernels: str | tuple[str, ...] = "rbf"
    """A kernel's written name, for all layers or for each: "rbf", "rbf*periodic + linear", …"""
    mean_function: MeanFunction = "linear"
    """Of the inner layers. "linear" keeps inputs apart; "zero" and "concatenate" are to teach."""
    likelihood: str = "gaussian"
    lengthscale: float | None = 2.0
    """Every ℓ at the start, as in the paper's experiments; None is √D in a layer of D inputs, as
    far as a row in standard units is from the mean, and no less than 2."""
    precision: Precision = "auto"
    """"auto" is float64 on the CPU, float32 in the triangular form on an accelerator."""
    posterior: Posterior = "doubly_stochastic"
    """"mean_field" gives each row a Gaussian of its own at every inner layer: see mean_field.py."""

    def __post_init__(self):
        def each(name, value, length):
            values = value if isinstance(value, tuple) else (value,) * length
            if len(values) != length:
                raise ValueError(f"{name} has {len(values)} entries for {length} layers.")
            return values

        if self.layers < 1:
            raise ValueError(f"A model needs at least 1 layer, not {self.layers}.")
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(
                f"There is no likelihood {self.likelihood!r}. Choose from {', '.join(LIKELIHOODS)}."
            )
        if self.mean_function not in ("linear", "zero", "concatenate"):
            raise ValueError(
                f"There is no mean function {self.mean_function!r}. "
                "Choose linear, zero or concatenate."
            )
        if self.precision not in ("auto", "float32", "float64"):
            raise ValueError(f"The precision is auto, float32 or float64, not {self.precision!r}.")
        if self.posterior not in ("doubly_stochastic", "mean_field"):
            raise ValueError(
                f"There is no posterior {self.posterior!r}. Choose doubly_stochastic or mean_field."
            )
        if self.lengthscale is not None and not self.lengthscale > 0:
            raise ValueError(f"A lengthscale is above 0, not {self.lengthscale}.")
        each("inducing", self.inducing, self.layers)
        each("kernels", self.kernels, self.layers)
        if min(self.inducing_counts) < 1:
            raise ValueError("A layer needs at least 1 inducing point.")
        if self.widths is not None:
            if min(each("widths", self.widths, self.layers - 1), default=1) < 1:
                raise ValueError("A layer needs at least 1 output.")

    @property
    def inducing_counts(self) -> tuple[int, ...]:
        M = self.inducing
        return M if isinstance(M, tuple) else (M,) * self.layers

    @property
    def kernel_names(self) -> tuple[str, ...]:
        names = self.kernels
        return names if isinstance(names, tuple) else (names,) * self.layers

    def inner_widths(self, n_inputs: int) -> tuple[int, ...]:
        """Outputs of every layer but the last."""
        widths = min(30, n_inputs) if self.widths is None else self.widths
        return widths if isinstance(widths, tuple) else (widths,) * (self.layers - 1)

    def first_lengthscale(self, n_inputs: int) -> float:
        """Where the lengthscales of a layer of D inputs start."""
        return max(2.0, n_inputs**0.5) if self.lengthscale is None else self.lengthscale

    @property
    def mean_field(self) -> bool:
        """Whether inner layers are independent; a single layer has none to be so."""
        return self.posterior == "mean_field" and self.layers > 1

    @property
    def dtype(self):
        return default_dtype() if self.precision == "auto" else jnp.dtype(self.precision)

    def single_layer(self) -> "ModelSpec":
        """The rival: one layer, with the last layer's kernel and as many inducing points."""
        return replace(
            self,
            layers=1,
            inducing=self.inducing_counts[-1],
            widths=None,
            kernels=self.kernel_names[-1],
            posterior="doubly_stochastic",
        )


@pytree
@dataclass(frozen=True)
class DeepGP:
    """f = f^L ∘ … ∘ f¹, every f^l a sparse GP, and a likelihood for what is seen of it."""

    layers: tuple[Layer, ...]
    likelihood: Likelihood
    concatenate: bool = field(default=False, metadata=dict(static=True))
    """Whether every layer after the first sees the inputs x beside the layer below."""
    hidden: tuple[Hidden, ...] = ()
    """q(h^l) of the training rows at every inner layer, where the posterior is mean-field."""


class Share(NamedTuple):
    """That a device's rows are part of a minibatch which the devices of a mesh's axis share."""

    axis: str
    batch: jax.Array
    """B: rows of the whole minibatch."""


@pytree
@dataclass(frozen=True)
class Bound:
    """The evidence lower bound and its parts."""

    fit: jax.Array
    """Σ_i E_q[log p(y_i | f_i^L)], estimated from a minibatch and sample paths."""
    kl: jax.Array
    """KL[q(U^l) ‖ p(U^l)] of each layer (L,), with that of q(h^l) where the posterior is
    mean-field."""

    @property
    def value(self) -> jax.Array:
        return self.fit - self.kl.sum(-1)


def create_model(
    spec: ModelSpec,
    X: np.ndarray | Scaled,
    n_outputs: int = 1,
    n_classes: int = 2,
    seed: int = 0,
    Y: np.ndarray | None = None,
) -> DeepGP:
    """A model at the start values of the paper's experiments, Z from k-means on X (N, D).

    `n_outputs` counts the columns of Y; `n_classes` matters to the multiclass likelihoods only, and
    Y, of some or all training rows, to counts, whose mean it gives.
    """
    dtype = spec.dtype
    many = spec.likelihood in ("robust_max", "softmax")
    likelihood = LIKELIHOODS[spec.likelihood].create(n_classes if many else n_outputs, dtype=dtype)
    if isinstance(likelihood, Poisson | NegativeBinomial):
        likelihood = replace(likelihood, offset=leaf(count_offset(Y, n_outputs), dtype))
    widths = (*spec.inner_widths(X.shape[1]), likelihood.n_latents)
    concatenate = spec.mean_function == "concatenate" and spec.layers > 1
    apart, noise = spec.mean_field, NOISE[spec.posterior]
    if apart and len(X) > MOST_ROWS:
        raise ValueError(
            "A mean-field posterior has a Gaussian of its own for every row, and trains all of "
            f"them at each step: it takes {MOST_ROWS:,} rows at the most, not {len(X):,}. Take "
            "fewer rows, or the doubly stochastic posterior."
        )

    rng = np.random.default_rng(seed)
    rows = np.asarray(X[rng.permutation(len(X))[:SKETCH]], np.float64)
    starts = {M: centres_of(rows, M, rng) for M in sorted(set(spec.inducing_counts))}
    H, carried, layers, maps = rows, dict(starts), [], []
    for l, (M, name, P) in enumerate(
        zip(spec.inducing_counts, spec.kernel_names, widths, strict=True)
    ):
        last, D = l == spec.layers - 1, H.shape[1]
        W = None if last else _mean_weights(H, P)
        linear, scale = spec.mean_function == "linear", 1.0 if last else np.sqrt(1e-5)
        layers.append(
            Layer(
                kernel=create_kernel(name, D, lengthscale=spec.first_lengthscale(D), dtype=dtype),
                inducing=leaf(carried[M], dtype),
                q_mean=leaf(np.zeros((M, P)), dtype),
                q_factor=leaf(np.tile(scale * np.eye(M), (P, 1, 1)), dtype),
                mean_weights=None if W is None or not linear else leaf(W, dtype),
                log_noise=None if last else leaf(np.log(noise), dtype),
                noise_apart=apart and not last,
            )
        )
        if W is None:
            break
        maps.append(W)
        # Z goes on through the linear map whatever the mean function: with a mean of zero, all
        # inducing inputs of the next layer would fall on one point.
        H, carried = H @ W, {M: Z @ W for M, Z in carried.items()}
        if concatenate:
            H = np.concatenate([H, rows], 1)
            carried = {M: np.concatenate([Z, starts[M]], 1) for M, Z in carried.items()}
    hidden = start_hidden(X[:], maps, concatenate, noise, dtype) if apart else ()
    return DeepGP(tuple(layers), likelihood, concatenate, hidden)


def centres_of(rows: np.ndarray, M: int, rng: np.random.Generator) -> np.ndarray:
    """M k-means centres (M, D); where distinct rows are fewer, the rest lie close beside rows."""
    distinct = np.unique(rows, axis=0)
    if len(distinct) <= M:
        beside = rng.choice(distinct, M - len(distinct))
        return np.concatenate([distinct, beside + 0.1 * rng.standard_normal(beside.shape)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a cluster may end up empty; its centre stays
        return kmeans2(rows, rng.choice(distinct, M, replace=False), minit="matrix")[0]


def _mean_weights(H: np.ndarray, width: int) -> np.ndarray:
    """W of an inner layer's mean function: identity, zero padding going up, PCA going down."""
    D = H.shape[1]
    return np.eye(D, width) if width >= D or width > len(H) else principal_axes(H, width)


def principal_axes(X: np.ndarray, n: int) -> np.ndarray:
    """The first n right singular vectors of X (D, n), as eigenvectors of XᵀX: a tenth of what the
    whole decomposition takes for images. The largest component of each is positive: its sign is
    no matter of which LAPACK finds it."""
    D = X.shape[1]
    V = eigh(X.T @ X, subset_by_index=(D - n, D - 1))[1][:, ::-1]
    return V * np.sign(V[np.abs(V).argmax(0), np.arange(n)])


def factorise_all(model: DeepGP, jitter: jax.Array | float = JITTER) -> tuple[Factors, ...]:
    """Every layer made ready for rows."""
    return tuple(factorise(layer, jitter) for layer in model.layers)


def propagate(
    factors: tuple[Factors, ...],
    X: jax.Array,
    draws: Sequence[jax.Array],
    concatenate: bool = False,
) -> list[Normal]:
    """One sample path through the layers: each layer's marginals given the sample below it.

    f̂^l = μ(f̂^{l−1}) + ε ⊙ √Σ(f̂^{l−1}), ε ~ N(0, 1) for each row and output     (paper, eq. 15)
    """
    H, marginals = X, []
    for l, factor in enumerate(factors):
        q = conditional(factor, H)
        marginals.append(q)
        if l < len(factors) - 1:
            H = q.mean + draws[l] * jnp.sqrt(q.variance)
            if concatenate:
                H = jnp.concatenate([H, X], 1)
    return marginals


def row_draws(
    key: jax.Array,
    layer: int,
    n_rows: int,
    n_columns: int,
    dtype,
    first_block: int | jax.Array = 0,
) -> jax.Array:
    """Standard normals (n_rows, n_columns), in each place the same however many there are.

    Every DRAWN_ROWS rows have a key of their own, and their columns come one after another.
    """
    blocks = first_block + jnp.arange(-(-n_rows // DRAWN_ROWS))
    keys = jax.vmap(partial(block_key, key, layer))(blocks)
    draws = jax.vmap(lambda key: jax.random.normal(key, (n_columns, DRAWN_ROWS), dtype))(keys)
    return jnp.swapaxes(draws, 1, 2).reshape(-1, n_columns)[:n_rows]


def draws_from(
    first: jax.Array, key: jax.Array, layer: int, n_rows: int, n_columns: int, dtype
) -> jax.Array:
    """What `row_draws` draws for n rows from row `first` on, without drawing for those before."""
    block, within = first // DRAWN_ROWS, first % DRAWN_ROWS
    draws = row_draws(key, layer, n_rows + DRAWN_ROWS - 1, n_columns, dtype, block)
    return lax.dynamic_slice_in_dim(draws, within, n_rows)


def path_draws(
    key: jax.Array,
    model: DeepGP,
    n_rows: int,
    n_samples: int = 1,
    first: jax.Array | None = None,
) -> tuple[jax.Array, ...]:
    """ε of every inner layer (S·n_rows, P), and last what the likelihood draws, if anything.

    `first` is the place of these rows in a minibatch of which they are a part.
    """
    dtype = model.layers[0].q_mean.dtype
    widths = [layer.q_mean.shape[1] for layer in model.layers[:-1]]

    widths += [model.likelihood.n_draws] if model.likelihood.n_draws else []
    keys = [jax.random.fold_in(key, s) for s in range(n_samples)]
    draw = row_draws if first is None else partial(draws_from, first)
    samples = [tuple(draw(key, l, n_rows, P, dtype) for l, P in enumerate(widths)) for key in keys]
    return jax.tree.map(lambda *parts: jnp.concatenate(parts), *samples)


def block_key(key: jax.Array, layer, block) -> jax.Array:
    """The key of a layer's draws for a block of rows; one hash for both numbers."""
    return jax.random.fold_in(key, layer * MOST_BLOCKS + block)


def expected_log_likelihood(
    factors: tuple[Factors, ...],
    likelihood: Likelihood,
    X: jax.Array,
    Y: jax.Array,
    weight: jax.Array,
    draws: tuple[jax.Array, ...],
    concatenate: bool = False,
) -> jax.Array:
    """Σ_i w_i E_q[log p(y_i | f_i^L)] over these rows, given one sample path a row."""

    def block(parameters, rows):
        factors, likelihood = parameters
        X, Y, weight, draws = rows
        q = propagate(factors, X, draws, concatenate)[-1]
        last = draws[-1] if likelihood.n_draws else None
        return likelihood.expected_log_density(q.mean, q.variance, Y, last) @ weight

    n_blocks = -(-len(X) // BLOCK)
    size = -(-len(X) // n_blocks)
    padding = n_blocks * size - len(X)

    def blocks(a):
        a = jnp.concatenate([a, jnp.broadcast_to(a[:1], (padding, *a.shape[1:]))]) if padding else a
        return a.reshape(n_blocks, size, *a.shape[1:])

    real = jnp.arange(n_blocks * size).reshape(n_blocks, size) < len(X)
    X, Y, weight, draws = jax.tree.map(blocks, (X, Y, weight, draws))
    rows = (X, Y, weight * real if padding else weight, draws)
    return _sum_over_blocks(block, (factors, likelihood), rows)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _sum_over_blocks(block, parameters, rows):
    """Σ_b block(parameters, rows_b); the gradient is summed in the same pass, while b is in cache.

    The sum is a number, so its gradient is known up to a factor before anybody asks for it. Rows
    are data: they get no gradient.
    """
    first = jax.tree.map(lambda a: a[0], rows)
    if len(jax.tree.leaves(rows)[0]) == 1:
        return block(parameters, first)
    total, _ = lax.scan(lambda t, b: (t + block(parameters, b), None), 0 * first[2][0], rows)
    return total


def _sum_over_blocks_forward(block, parameters, rows):
    value_and_grad = jax.value_and_grad(block)
    if len(jax.tree.leaves(rows)[0]) == 1:
        return value_and_grad(parameters, jax.tree.map(lambda a: a[0], rows))

    def add(total, rows):
        return jax.tree.map(jnp.add, total, value_and_grad(parameters, rows)), None

    first = jax.eval_shape(value_and_grad, parameters, jax.tree.map(lambda a: a[0], rows))
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), first)
    return lax.scan(add, zero, rows)[0]


def _sum_over_blocks_backward(block, gradient, cotangent):
    return jax.tree.map(lambda g: cotangent * g, gradient), None


_sum_over_blocks.defvjp(_sum_over_blocks_forward, _sum_over_blocks_backward)


def bound(
    model: DeepGP,
    X: jax.Array,
    Y: jax.Array,
    key: jax.Array,
    n_data: int | jax.Array,
    n_samples: int = 1,
    jitter: jax.Array | float = JITTER,
) -> Bound:
    """The evidence lower bound from a minibatch of n_data rows and n sample paths a row.

    ℒ = N/B Σ_i E_q[log p(y_i | f_i^L)] − Σ_l KL[q(U^l) ‖ p(U^l)]                  (paper, eq. 17)
    """
    weight = jnp.ones(len(X), X.dtype)
    return weighted_bound(model, X, Y, weight, key, n_data, n_samples, jitter)


def weighted_bound(
    model: DeepGP,
    X,
    Y,
    weight,
    key,
    n_data,
    n_samples: int = 1,
    jitter: jax.Array | float = JITTER,
    share: Share | None = None,
) -> Bound:
    """The bound from rows with weights; those of weight 0 are padding.

    A mean-field model has all its rows here, in their order. Where devices share the minibatch, the
    fit is the part that these rows add.
    """
    factors = factorise_all(model, jitter)
    kl = jnp.stack([kl_from_prior(layer) for layer in model.layers])
    if model.hidden:
        fit, apart = independent_fit(factors, model, X, Y, weight, key, n_samples)
        return Bound(fit, kl + apart)
    return Bound(scaled_fit(factors, model, X, Y, weight, key, n_data, n_samples, share), kl)


def independent_fit(
    factors, model: DeepGP, X, Y, weight, key, n_samples: int = 1
) -> tuple[jax.Array, jax.Array]:
    """Σ_n E_q[log p(y_n | f_n^L)] under the mean-field posterior, and the KL of q(h^l) for each
    layer (L,): the last has none."""
    draws = path_draws(key, model, len(X), n_samples)
    padding = len(X) - len(model.hidden[0].mean)

    def every(rows):
        """The rows as often as there are samples, padded as X is."""
        rows = jnp.concatenate([rows, jnp.repeat(rows[-1:], padding, 0)]) if padding else rows
        return jnp.concatenate([rows] * n_samples)

    hidden = jax.tree.map(every, model.hidden)
    X, Y, weight = (jnp.concatenate([rows] * n_samples) for rows in (X, Y, weight / n_samples))
    *left, q = independent_path(factors, hidden, X, draws, model.concatenate)
    kl = [
        hidden_kl(h, f, factor.noise) @ weight
        for h, f, factor in zip(hidden, left, factors[:-1], strict=True)
    ]
    last = draws[-1] if model.likelihood.n_draws else None
    fit = model.likelihood.expected_log_density(q.mean, q.variance, Y, last) @ weight
    return fit, jnp.stack([*kl, jnp.zeros_like(fit)])


def scaled_fit(
    factors,
    model: DeepGP,
    X,
    Y,
    weight,
    key,
    n_data,
    n_samples: int = 1,
    share: Share | None = None,
) -> jax.Array:
    """N/(B S) Σ_i w_i Σ_s E[log p(y_i | f_i^L)]: the bound's first term; samples are more rows.

    Rows of weight 0 are padding; N and B count the others, whatever their weight w_i. Where
    devices share the minibatch, this is the part of the sum that these rows add.
    """
    first = None if share is None else lax.axis_index(share.axis) * len(X)
    draws = path_draws(key, model, len(X), n_samples, first)
    if n_samples > 1:
        X, Y = jnp.tile(X, (n_samples, 1)), jnp.tile(Y, (n_samples, 1))
        weight = jnp.tile(weight, n_samples)
    total = expected_log_likelihood(
        factors, model.likelihood, X, Y, weight, draws, model.concatenate
    )
    # B S
    count = jnp.sum(weight > 0, dtype=weight.dtype) if share is None else share.batch * n_samples
    return total * (n_data / count)
