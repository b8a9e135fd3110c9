"""One layer: a sparse Gaussian process with whitened inducing variables.

u = L v with Kzz = L Lᵀ, so that p(v) = N(0, I); q(v_p) = N(m_p, S_p), S_p = C_p C_pᵀ, for each
output p on its own. Given the layer's inputs, rows are independent of one another:

    mean      μ(x)  = w(x) + k_xᵀ L⁻ᵀ m                                            (paper, eq. 7)
    variance  σ²(x) = k(x, x) + σ_l² + k_xᵀ Q_p k_x,   Q_p = L⁻ᵀ (S_p − I) L⁻¹      (paper, eq. 8)

Work that no row needs twice is done once a step (`factorise`), and then serves every row
(`conditional`).

No Cholesky factor or triangular solve here or elsewhere is batched by `vmap`: JAX 0.10's batched
LAPACK calls wait, on a thread of XLA's pool, for other threads of that pool, and two at once on two
cores wait for ever. `lax.map` takes one matrix after another.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dgp_core.gp.kernels import Kernel
from dgp_core.gp.pytree import pytree

VARIANCE_FLOOR = 1e-10
"""Rounding may leave k − kᵀK⁻¹k a little below zero; its square root needs a positive number."""


class Normal(NamedTuple):
    """Independent normals: a mean and a variance for every row and output."""

    mean: jax.Array
    variance: jax.Array


class Used(NamedTuple):
    """How much of a padded layer is in use: see `generic.py`."""

    inducing: Any
    """Inducing points in use, the first so many; the others are independent of everything."""
    outputs: Any
    """Outputs in use; the others are zero."""


@pytree
@dataclass(frozen=True)
class Layer:
    """A sparse GP from D inputs to P outputs that share their kernel and inducing inputs."""

    kernel: Kernel
    inducing: jax.Array
    """Z: where the inducing variables sit (M, D)."""
    q_mean: jax.Array
    """m: the mean of q(v) (M, P)."""
    q_factor: jax.Array
    """C: the Cholesky factor of q(v)'s covariance, an output each (P, M, M); lower triangle."""
    mean_weights: jax.Array | None = None
    """W of the mean function w(x) = xW (D, P), frozen; None is a mean of zero."""
    log_noise: jax.Array | None = None
    """log σ_l²: the noise between layers, on the kernel's diagonal; the last layer has none."""
    used: Used | None = None
    """None where all of it is."""
    noise_apart: bool = field(default=False, metadata=dict(static=True))
    """Whether u is of the function without its noise, as where h = f + noise has a q of its own."""

    @property
    def factor(self) -> jax.Array:
        """C, with its upper triangle cleared."""
        return jnp.tril(self.q_factor)

    @property
    def covariance(self) -> jax.Array:
        """S = C Cᵀ (P, M, M)."""
        return self.factor @ self.factor.mT

    @property
    def noise(self) -> jax.Array:
        """σ_l²."""
        zero = jnp.zeros((), self.inducing.dtype)
        return zero if self.log_noise is None else jnp.exp(self.log_noise)


@pytree
@dataclass(frozen=True)
class Factors:
    """A layer made ready for rows."""

    kernel: Kernel
    inducing: jax.Array
    mean_weights: jax.Array | None
    noise: jax.Array
    weights: jax.Array
    """L⁻ᵀ m (M, P), or in the triangular form m itself."""
    spread: jax.Array
    """Q = L⁻ᵀ (S − I) L⁻¹ (P, M, M), or in the triangular form C."""
    cholesky: jax.Array | None
    """L (M, M) in the triangular form, which float32 needs; None in float64."""
    used: Used | None = None


@jax.custom_vjp
def inverse_cholesky(K: jax.Array, known: jax.Array | None = None) -> jax.Array:
    """L⁻¹ for K = L Lᵀ, with a derivative made of three products; `known` is itself, kept."""
    if known is not None:
        return known
    L = lax.linalg.cholesky(K, symmetrize_input=False)
    return lax.linalg.triangular_solve(
        L, jnp.eye(len(K), dtype=K.dtype), left_side=True, lower=True
    )


def _inverse_cholesky_forward(K, known):
    S = inverse_cholesky(K, known)
    return S, S


def _inverse_cholesky_backward(S, S_bar):
    # L̄ = −Sᵀ S̄ Sᵀ and K̄ = sym(L⁻ᵀ Φ(Lᵀ L̄) L⁻¹) (Murray 2016), hence K̄ = −sym(Sᵀ Φ(S̄ Sᵀ) S);
    # Φ keeps the lower triangle and halves the diagonal.
    half = np.tril(np.ones(S.shape, S.dtype)) - 0.5 * np.eye(len(S), dtype=S.dtype)
    K_bar = S.T @ ((S_bar @ S.T) * (-0.5 * half)) @ S
    return K_bar + K_bar.T, None


inverse_cholesky.defvjp(_inverse_cholesky_forward, _inverse_cholesky_backward)


def over_outputs(n_outputs: int, used: Used | None, body):
    """`body(p) -> (part, summand)` for every output in use: the parts stacked, the summands' sum.

    Unrolled, or in a loop where only data say how many outputs are in use.
    """
    if used is None:
        parts, summands = zip(*[body(p) for p in range(n_outputs)], strict=True)
        stack = jax.tree.map(lambda *rows: jnp.stack(rows), *parts)
        return stack, jax.tree.map(lambda *terms: sum(terms[1:], terms[0]), *summands)

    def add(p, carry):
        stack, total = carry
        part, summand = body(p)
        return put(stack, p, part), jax.tree.map(jnp.add, total, summand)

    part, summand = jax.eval_shape(body, 0)
    stack = jax.tree.map(lambda a: jnp.zeros((n_outputs, *a.shape), a.dtype), part)
    total = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), summand)
    return lax.fori_loop(0, used.outputs, add, (stack, total))


def take(stack, index) -> Any:
    """One entry of every array of a tree; `a[index]` would compile to more."""
    return jax.tree.map(lambda a: lax.dynamic_index_in_dim(a, index, 0, keepdims=False), stack)


def put(stack, index, entry) -> Any:
    """The arrays of a tree with one entry replaced; `a.at[index].set` would compile to a loop."""
    return jax.tree.map(lambda a, b: lax.dynamic_update_index_in_dim(a, b, index, 0), stack, entry)


@jax.custom_vjp
def spread(factor: jax.Array, inverse: jax.Array, used: Used | None = None) -> jax.Array:
    """Q_p = L⁻ᵀ (C_p C_pᵀ − I) L⁻¹ (P, M, M), for use where its cotangent is symmetric."""
    return _spread_forward(factor, inverse, used)[0]


def _spread_forward(factor, inverse, used):
    # Q = RᵀR − L⁻ᵀL⁻¹ with R = CᵀL⁻¹
    whole = inverse.T @ inverse

    def output(p):
        R = take(factor, p).T @ inverse
        return (R.T @ R - whole, R), ()

    (Q, R), _ = over_outputs(len(factor), used, output)
    return Q, (factor, inverse, R, used)


def _spread_backward(residuals, Q_bar):
    # R̄ = 2 R Q̄, C̄ = L⁻¹ R̄ᵀ, and of L⁻¹: C R̄ − 2 L⁻¹ Σ_p Q̄_p
    factor, inverse, R, used = residuals

    def output(p):
        Rp, Qp_bar = take((R, Q_bar), p)
        R_bar = 2 * (Rp @ Qp_bar)
        return inverse @ R_bar.T, (take(factor, p) @ R_bar, Qp_bar)

    factor_bar, (by_factor, total) = over_outputs(len(factor), used, output)
    return factor_bar, by_factor - 2 * (inverse @ total), None


spread.defvjp(_spread_forward, _spread_backward)


@jax.custom_vjp
def quadratic_form(K: jax.Array, Q: jax.Array, used: Used | None = None) -> jax.Array:
    """k_xᵀ Q_p k_x for every row of K (B, M) and every symmetric Q_p of Q (P, M, M): (B, P)."""
    return _quadratic_form_forward(K, Q, used)[0]


def _quadratic_form_forward(K, Q, used):
    def output(p):
        T = K @ take(Q, p)
        return (jnp.sum(T * K, 1), T), ()

    (form, T), _ = over_outputs(len(Q), used, output)
    return form.T, (K, T, used)


def _quadratic_form_backward(residuals, g):
    # ∂k = 2 Q_p k g_p reuses the forward product; ∂Q_p = K diag(g_p) Kᵀ.
    K, T, used = residuals

    def output(p):
        gp = lax.dynamic_index_in_dim(g, p, 1)
        return K.T @ (gp * K), 2 * (gp * take(T, p))

    Q_bar, K_bar = over_outputs(len(T), used, output)
    return K_bar, Q_bar, None


quadratic_form.defvjp(_quadratic_form_forward, _quadratic_form_backward)


def inducing_gram(layer: Layer, jitter: jax.Array | float) -> jax.Array:
    """Kzz with the layer's noise, and jitter in proportion to the kernel, on its diagonal.

    Noise that is kept apart from u is left out. A point that is not in use has a row of the
    identity.
    """
    K = layer.kernel.gram(layer.inducing, layer.inducing)
    noise = jnp.zeros_like(layer.noise) if layer.noise_apart else layer.noise
    diagonal = lax.stop_gradient(layer.kernel.diagonal(layer.inducing))
    if layer.used is None:
        scale = jnp.mean(diagonal)
        return K + (noise + jitter * scale) * jnp.eye(len(K), dtype=K.dtype)
    n = layer.used.inducing
    real = jnp.arange(len(K)) < n
    scale = jnp.sum(jnp.where(real, diagonal, 0)) / n
    added = jnp.where(real, noise + jitter * scale, 1)
    K = jnp.where(real[:, None] & real[None], K, 0)
    return K + added[:, None] * jnp.eye(len(K), dtype=K.dtype)


def factorise(layer: Layer, jitter: jax.Array | float, inverse: jax.Array | None = None) -> Factors:
    """What every row needs of a layer; `inverse` is L⁻¹, where it is known already."""
    K = inducing_gram(layer, jitter)
    weights = None if layer.mean_weights is None else lax.stop_gradient(layer.mean_weights)
    common = (layer.kernel, layer.inducing, weights, layer.noise)
    if K.dtype == jnp.float32:
        cholesky = jnp.linalg.cholesky(K)
        return Factors(*common, layer.q_mean, layer.factor, cholesky, layer.used)
    S = inverse_cholesky(K, inverse)
    Q = spread(layer.factor, S, layer.used)
    return Factors(*common, S.T @ layer.q_mean, Q, None, layer.used)


def cross_gram(factors: Factors, X: jax.Array) -> jax.Array:
    """k(x, z) for every row and inducing input (B, M); zero for points that are not in use."""
    K = factors.kernel.gram(X, factors.inducing)
    if factors.used is None:
        return K
    return jnp.where(jnp.arange(K.shape[1])[None] < factors.used.inducing, K, 0)


def conditional(factors: Factors, X: jax.Array) -> Normal:
    """The layer's outputs at each row of X (B, D), row by row: mean and variance (B, P)."""
    K = cross_gram(factors, X)
    prior = (factors.kernel.diagonal(X) + factors.noise)[:, None]
    if factors.cholesky is None:
        mean = K @ factors.weights
        variance = prior + quadratic_form(K, factors.spread, factors.used)
    else:
        # T = L⁻¹ Kzx: k − |t|² + |Cᵀt|² does not cancel as the form above would in float32.
        T = lax.linalg.triangular_solve(factors.cholesky, K.T, left_side=True, lower=True)
        mean = T.T @ factors.weights
        grown = jnp.sum((factors.spread.mT @ T[None]) ** 2, 1).T
        variance = prior - jnp.sum(T * T, 0)[:, None] + grown
    if factors.mean_weights is not None:
        mean = mean + X @ factors.mean_weights
    return Normal(mean, jnp.maximum(variance, VARIANCE_FLOOR))


def kl_from_prior(layer: Layer) -> jax.Array:
    """KL[q(v) ‖ N(0, I)] = ½ Σ_p (|m_p|² + tr S_p − M − log|S_p|)."""
    C, m = layer.factor, layer.q_mean
    diagonal = jnp.sum(C * np.eye(len(m), dtype=m.dtype)[None], 2)  # cheaper here than a gather
    log_determinant = jnp.sum(jnp.log(diagonal**2))
    return 0.5 * (jnp.sum(m * m) + jnp.sum(C * C) - m.size - log_determinant)
