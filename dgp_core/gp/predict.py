"""What a trained model says: the predictive mixture, whole functions, and what each layer does.

Everything here is in standard units; keys are passed in, and the same key gives the same ε, so that
a picture moves only as far as the parameters do.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

from dgp_core.gp.counts import draw_counts
from dgp_core.gp.layers import Factors, Layer, conditional, factorise, inducing_gram, kl_from_prior
from dgp_core.gp.likelihoods import Counts, StudentT
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import JITTER, MOST_JITTER, DeepGP, propagate

ROWS_AT_ONCE = 2048
"""Rows of one call at the most; fewer are padded to a power of two, so that few shapes compile."""

MOST_DRAWN_ROWS = 2000
"""Rows at which whole functions are drawn, at the most: their joint covariance is dense."""

QUANTILE_DRAWS = 4000
"""Observations drawn per row where the noise is not Gaussian and a quantile has no formula."""

DRAW_JITTER = 1e-7
"""On the diagonal of the joint covariance, times the kernel's variance: 0.03 % of its deviation."""


@jax.jit
def _factorise(model: DeepGP, jitter: jax.Array) -> tuple[tuple[Factors, ...], jax.Array]:
    factors = tuple(factorise(layer, jitter) for layer in model.layers)
    return factors, jnp.isfinite(sum(jnp.sum(leaf) for leaf in jax.tree.leaves(factors)))


def _ready(model: DeepGP) -> tuple[tuple[Factors, ...], jax.Array]:
    """Every layer made ready for rows, with as much jitter as its Cholesky factor needs."""
    jitter = JITTER
    while jitter <= MOST_JITTER:
        used = jnp.asarray(jitter, model.layers[0].inducing.dtype)
        factors, finite = _factorise(model, used)
        if finite:
            return factors, used
        jitter *= 10
    raise ValueError(
        "This model cannot predict: its inducing points have no positive definite covariance. "
        "Train it again with a smaller learning rate, or on scaled inputs."
    )


def _by_path(function: Callable, n_rows: int, *paths: jax.Array):
    """A function of each of S sample paths, as many at once as memory should hold."""
    return lax.map(lambda own: function(*own), paths, batch_size=max(1, ROWS_AT_ONCE // n_rows))


@partial(jax.jit, static_argnames=("widths", "n_samples", "concatenate", "shared"))
def _latent_rows(factors, X, key, widths, n_samples, concatenate, shared):
    """Mean and variance of f^L at rows X (B, D) on each of S sample paths: two of (S, B, P)."""
    keys = jax.random.split(key, len(widths))
    draws = [
        jax.random.normal(k, (n_samples, 1 if shared else len(X), P), X.dtype)
        for k, P in zip(keys, widths, strict=True)
    ]
    if not widths:  # one layer has one path
        q = propagate(factors, X, [])[-1]
        return q.mean[None], q.variance[None]
    return _by_path(
        lambda *draws: tuple(propagate(factors, X, draws, concatenate)[-1]), len(X), *draws
    )


def predict_latent(
    model: DeepGP, X: np.ndarray, key: jax.Array, n_samples: int = 100, shared: bool = False
) -> Mixture:
    """q(f*^L): (1/S) Σ_s q(f*^L | f̂*^{L−1}), a mixture of S Gaussians a row (paper, eq. 18).

    With `shared`, the rows of a path share its ε: each row's mixture is as good, smooth in x, and
    its own whatever rows come with it; but errors no longer average out over rows.
    """
    factors, _ = _ready(model)
    X = np.asarray(X)
    dtype = model.layers[0].inducing.dtype
    widths = tuple(layer.q_mean.shape[1] for layer in model.layers[:-1])
    size = min(ROWS_AT_ONCE, max(8, 1 << (len(X) - 1).bit_length()))
    means, variances = [], []
    for i, start in enumerate(range(0, len(X), size)):
        part = X[start : start + size]
        padded = np.concatenate([part, np.repeat(part[:1], size - len(part), 0)])
        mean, variance = _latent_rows(
            factors,
            jnp.asarray(padded, dtype),
            key if shared else jax.random.fold_in(key, i),
            widths,
            n_samples,
            model.concatenate,
            shared,
        )
        means.append(np.asarray(mean)[:, : len(part)])
        variances.append(np.asarray(variance)[:, : len(part)])
    return Mixture(np.concatenate(means, 1), np.concatenate(variances, 1))


@jax.jit
def _moments(likelihood, mean, variance):
    return jax.vmap(likelihood.moments)(mean, variance)


@jax.jit
def _log_predictive(likelihood, mean, variance, Y):
    components = _by_path(lambda m, v: likelihood.log_predictive(m, v, Y), len(Y), mean, variance)
    return logsumexp(components, 0) - jnp.log(len(mean))


@jax.jit
def _class_probabilities(likelihood, mean, variance):
    return jnp.mean(_by_path(likelihood.class_probabilities, mean.shape[1], mean, variance), 0)


def predict_observed(model: DeepGP, latent: Mixture) -> Mixture:
    """The mixture of y*: each component's moments of y, exact where the noise is Gaussian."""
    mean, variance = _moments(model.likelihood, latent.means, latent.variances)
    return Mixture(np.asarray(mean), np.asarray(variance))


def log_density(model: DeepGP, latent: Mixture, Y: np.ndarray) -> np.ndarray:
    """log (1/S) Σ_s ∫ p(y*|f) q_s(f) df for each row (N,), under the likelihood itself."""
    y = jnp.asarray(Y, model.layers[0].inducing.dtype if model.layers else None)
    return np.asarray(_log_predictive(model.likelihood, latent.means, latent.variances, y))


def class_probabilities(model: DeepGP, latent: Mixture) -> np.ndarray:
    """p(y* = c) for each row and class (N, C)."""
    return np.asarray(_class_probabilities(model.likelihood, latent.means, latent.variances))


def draw_observations(
    model: DeepGP, latent: Mixture, rng: np.random.Generator, n_draws: int
) -> np.ndarray:
    """Draws of y in standard units (n_draws, N, P): components by turns, f ~ q_s, y ~ p(y|f).

    For counts and for Student's noise.
    """
    s = np.arange(n_draws) % len(latent.means)
    eps = rng.standard_normal((n_draws, *latent.means.shape[1:]))
    F = latent.means[s] + np.sqrt(latent.variances[s]) * eps
    if isinstance(model.likelihood, Counts):
        log_rate = F + np.asarray(model.likelihood.offset)
        return draw_counts(rng, log_rate, model.likelihood.sizes)
    assert isinstance(model.likelihood, StudentT)
    nu, scale = np.asarray(model.likelihood.degrees), np.asarray(model.likelihood.scale)
    return F + scale * rng.standard_t(np.broadcast_to(nu, F.shape))


def residual(layer: Layer, L: jax.Array, H: jax.Array) -> tuple[jax.Array, jax.Array]:
    """T = L⁻¹ Kzh (M, N), given Kzz = L Lᵀ, and what the inducing variables leave open at H (N, D),
    K_hh − TᵀT."""
    K = layer.kernel.gram(layer.inducing, H)
    if layer.used is not None:
        K = jnp.where(jnp.arange(len(K))[:, None] < layer.used.inducing, K, 0)
    T = lax.linalg.triangular_solve(L, K, left_side=True, lower=True)
    return T, layer.kernel.gram(H, H) - T.T @ T


def residual_roots(layer: Layer, L: jax.Array, H: jax.Array) -> tuple[jax.Array, jax.Array]:
    """What functions of a layer at H (N, D) are drawn with: T, and a Cholesky factor of R."""
    T, R = residual(layer, L, H)
    scale = jnp.mean(layer.kernel.diagonal(H))
    return T, jnp.linalg.cholesky(R + DRAW_JITTER * scale * jnp.eye(len(H), dtype=H.dtype))


def _draw_layer(layer: Layer, L: jax.Array, H: jax.Array, eps_u: jax.Array, eps_r: jax.Array):
    """One function of the layer at H (N, D): w(h) + Tᵀ(m + C ε_u) + chol(K_hh − TᵀT) ε_r."""
    T, root = residual_roots(layer, L, H)
    v = layer.q_mean + jnp.einsum("pij,jp->ip", layer.factor, eps_u)
    F = T.T @ v + root @ eps_r
    return F if layer.mean_weights is None else F + H @ layer.mean_weights


@partial(jax.jit, static_argnames="n_draws")
def _function_draws(model: DeepGP, X, key, jitter, n_draws):
    inputs = jnp.broadcast_to(X[None], (n_draws, *X.shape))
    H, layers_out = inputs, []
    for l, layer in enumerate(model.layers):
        key_u, key_r = jax.random.split(jax.random.fold_in(key, l))
        M, P = layer.q_mean.shape
        eps_u = jax.random.normal(key_u, (n_draws, M, P), X.dtype)
        eps_r = jax.random.normal(key_r, (n_draws, len(X), P), X.dtype)
        L = jnp.linalg.cholesky(inducing_gram(layer, jitter))
        # One draw after another, never a batch: see layers.py.
        F = lax.map(lambda draw, layer=layer, L=L: _draw_layer(layer, L, *draw), (H, eps_u, eps_r))
        layers_out.append(F)
        H = jnp.concatenate([F, inputs], 2) if model.concatenate else F
    return layers_out


def function_draws(
    model: DeepGP, X: np.ndarray, key: jax.Array, n_draws: int = 10
) -> list[np.ndarray]:
    """Whole functions through every layer: f^l(…f¹(x)) at each row of X, (S, N, P_l) a layer.

    Coherent in x and exact in law, up to the noise between layers, which is left out: it is no part
    of a function.
    """
    X = np.asarray(X)
    check_drawn(X)
    _, jitter = _ready(model)
    x = jnp.asarray(X, model.layers[0].inducing.dtype)
    return [np.asarray(F) for F in _function_draws(model, x, key, jitter, n_draws)]


@partial(jax.jit, static_argnames="n_draws")
def _joint_latent(model: DeepGP, X, key, jitter, n_draws):
    *below, last = model.layers
    H = jnp.asarray(X)[None]
    if below:
        F = _function_draws(replace(model, layers=tuple(below)), X, key, jitter, n_draws)[-1]
        H = jnp.concatenate([F, jnp.repeat(H, n_draws, 0)], 2) if model.concatenate else F
    L = jnp.linalg.cholesky(inducing_gram(last, jitter))

    def one(total, H):
        T, R = residual(last, L, H)
        A = jnp.einsum("pij,in->pjn", last.factor, T)  # CᵀT
        mean = T.T @ last.q_mean
        if last.mean_weights is not None:
            mean = mean + H @ last.mean_weights
        return total + R[None] + A.mT @ A, mean

    P = last.q_mean.shape[1]
    total, means = lax.scan(one, jnp.zeros((P, len(X), len(X)), H.dtype), H)
    centred = means - jnp.mean(means, 0, keepdims=True)
    return means, (total + jnp.einsum("snp,smp->pnm", centred, centred)) / len(H)


def joint_latent(
    model: DeepGP, X: np.ndarray, key: jax.Array, n_draws: int = 100
) -> tuple[np.ndarray, np.ndarray]:
    """Mean (N, P) and covariance (P, N, N) of f^L at rows X together.

    Over functions h of the layers below, Cov f = E Cov[f | h] + Cov E[f | h]; with one layer there
    are none, and it is exact.
    """
    check_drawn(X)
    _, jitter = _ready(model)
    x = jnp.asarray(X, model.layers[0].inducing.dtype)
    means, covariance = _joint_latent(model, x, key, jitter, n_draws)
    return np.asarray(means).mean(0), np.asarray(covariance)


def check_drawn(X: np.ndarray) -> None:
    """Refuses more rows than have a joint distribution here."""
    if len(X) > MOST_DRAWN_ROWS:
        raise ValueError(
            f"Functions are drawn at {MOST_DRAWN_ROWS:,} rows at the most, not {len(X):,}: "
            "their joint covariance is dense. Thin the rows."
        )


def at_prior(model: DeepGP) -> DeepGP:
    """The same model before any data: q(v) = N(0, I) in every layer, so that q(f) = p(f)."""

    def layer_at_prior(layer: Layer) -> Layer:
        eye = jnp.eye(len(layer.q_mean), dtype=layer.q_mean.dtype)
        factor = jnp.broadcast_to(eye[None], layer.q_factor.shape)
        return replace(layer, q_mean=jnp.zeros_like(layer.q_mean), q_factor=factor)

    return replace(model, layers=tuple(layer_at_prior(layer) for layer in model.layers))


def prior_draws(
    model: DeepGP, X: np.ndarray, key: jax.Array, n_draws: int = 10
) -> list[np.ndarray]:
    """Whole functions of the prior through every layer, (S, N, P_l) a layer."""
    return function_draws(at_prior(model), X, key, n_draws)


@dataclass(frozen=True)
class LayerView:
    """What a person looks at in one layer."""

    entering: np.ndarray
    """Function draws as they enter the layer (S, N, D_l)."""
    leaving: np.ndarray
    """And as they leave it (S, N, P_l)."""
    grid: np.ndarray | None
    """Inputs over the range that enters (G,), where the layer has a single input."""
    map_mean: np.ndarray | None
    """The layer's own mean over that grid (G, P_l)."""
    map_sd: np.ndarray | None
    """And its deviation, noise between layers included (G, P_l)."""
    inducing: np.ndarray
    """Z (M, D_l)."""
    u_mean: np.ndarray
    """q(u)'s mean, on the layer's own scale and with its mean function added (M, P_l)."""
    u_sd: np.ndarray
    """q(u)'s deviation (M, P_l)."""
    departure: float
    """How far the layer is from its mean function, 0 to 1: δ/√(δ² + ω²), δ the root mean square of
    what the layer adds and ω that of the mean function itself; a mean of zero gives 1."""
    kl: float
    lengthscales: tuple[np.ndarray, ...]
    """Of each part of the kernel that has them (D_l,)."""
    prior_variance: float
    """k(x, x), averaged over what enters."""
    noise: float
    """σ_l²."""


@jax.jit
def _inducing_moments(layer: Layer, jitter):
    """q(u): mean L m + w(Z) and deviation √diag(L S Lᵀ)."""
    L = jnp.linalg.cholesky(inducing_gram(layer, jitter))
    mean = L @ layer.q_mean
    if layer.mean_weights is not None:
        mean = mean + layer.inducing @ layer.mean_weights
    return mean, jnp.sqrt(jnp.sum((L[None] @ layer.factor) ** 2, 2)).T


@jax.jit
def _conditional_and_mean(factors: Factors, X):
    q = conditional(factors, X)
    w = jnp.zeros_like(q.mean) if factors.mean_weights is None else X @ factors.mean_weights
    return q.mean, jnp.sqrt(q.variance), w


_kl = jax.jit(kl_from_prior)


def all_lengthscales(kernel) -> tuple[np.ndarray, ...]:
    parts = getattr(kernel, "parts", (kernel,))
    nested = [all_lengthscales(k) for k in parts if hasattr(k, "parts")]
    own = [np.asarray(k.lengthscales) for k in parts if hasattr(k, "lengthscales")]
    return (*own, *(scale for scales in nested for scale in scales))


def layer_views(
    model: DeepGP, X: np.ndarray, key: jax.Array, n_draws: int = 10, n_grid: int = 128
) -> list[LayerView]:
    """What each layer does to rows X (N, D): its map, its samples, its Z and q(u)."""
    factors, jitter = _ready(model)
    draws = function_draws(model, X, key, n_draws)
    inputs = np.broadcast_to(np.asarray(X)[None], (n_draws, *np.shape(X)))
    entering, views = inputs, []
    for layer, factor, leaving in zip(model.layers, factors, draws, strict=True):
        u_mean, u_sd = _inducing_moments(layer, jitter)
        flat = jnp.asarray(entering.reshape(-1, entering.shape[2]), factor.inducing.dtype)
        mean, _, w = (np.asarray(a) for a in _conditional_and_mean(factor, flat))
        added, kept = np.mean((mean - w) ** 2), np.mean(w**2)
        grid = map_mean = map_sd = None
        if entering.shape[2] == 1:
            low, high = entering.min(), entering.max()
            margin = 0.05 * (high - low) + 1e-6
            grid = np.linspace(low - margin, high + margin, n_grid)
            on_grid = _conditional_and_mean(factor, jnp.asarray(grid[:, None], flat.dtype))
            map_mean, map_sd = np.asarray(on_grid[0]), np.asarray(on_grid[1])
        views.append(
            LayerView(
                entering=entering,
                leaving=leaving,
                grid=grid,
                map_mean=map_mean,
                map_sd=map_sd,
                inducing=np.asarray(layer.inducing),
                u_mean=np.asarray(u_mean),
                u_sd=np.asarray(u_sd),
                departure=float(np.sqrt(added / (added + kept))) if added + kept > 0 else 0.0,
                kl=float(_kl(layer)),
                lengthscales=all_lengthscales(layer.kernel),
                prior_variance=float(jnp.mean(layer.kernel.diagonal(flat))),
                noise=float(layer.noise),
            )
        )
        entering = np.concatenate([leaving, inputs], 2) if model.concatenate else leaving
    return views
