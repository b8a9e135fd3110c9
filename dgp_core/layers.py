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

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dgp_core.kernels import Kernel
from dgp_core.pytree import pytree

VARIANCE_FLOOR = 1e-10
"""Rounding may leave k − kᵀK⁻¹k a little below zero; its square root needs a positive number."""


class Normal(NamedTuple):
    """Independent normals: a mean and a variance for every row and output."""

    mean: jax.Array
    variance: jax.Array


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


@jax.custom_vjp
def inverse_cholesky(K: jax.Array) -> jax.Array:
    """L⁻¹ for K = L Lᵀ, with a derivative made of three products."""
    L = lax.linalg.cholesky(K, symmetrize_input=False)
    return lax.linalg.triangular_solve(
        L, jnp.eye(len(K), dtype=K.dtype), left_side=True, lower=True
    )


def _inverse_cholesky_forward(K):
    S = inverse_cholesky(K)
    return S, S


def _inverse_cholesky_backward(S, S_bar):
    # L̄ = −Sᵀ S̄ Sᵀ and K̄ = sym(L⁻ᵀ Φ(Lᵀ L̄) L⁻¹) (Murray 2016), hence K̄ = −sym(Sᵀ Φ(S̄ Sᵀ) S);
    # Φ keeps the lower triangle and halves the diagonal.
    half = np.tril(np.ones(S.shape, S.dtype)) - 0.5 * np.eye(len(S), dtype=S.dtype)
    K_bar = S.T @ ((S_bar @ S.T) * (-0.5 * half)) @ S
    return (K_bar + K_bar.T,)


inverse_cholesky.defvjp(_inverse_cholesky_forward, _inverse_cholesky_backward)


@jax.custom_vjp
def self_product(R: jax.Array) -> jax.Array:
    """RᵀR for every R (P, M, M), for use where its cotangent is symmetric: ∂R = 2 R Q̄."""
    return R.mT @ R


self_product.defvjp(lambda R: (R.mT @ R, R), lambda R, Q_bar: (2 * (R @ Q_bar),))


@jax.custom_vjp
def quadratic_form(K: jax.Array, Q: jax.Array) -> jax.Array:
    """k_xᵀ Q_p k_x for every row of K (B, M) and every symmetric Q_p of Q (P, M, M): (B, P)."""
    return _quadratic_form_forward(K, Q)[0]


def _quadratic_form_forward(K, Q):
    T = [K @ Qp for Qp in Q]  # P products (B, M)
    return jnp.stack([jnp.sum(Tp * K, 1) for Tp in T], 1), (K, T)


def _quadratic_form_backward(residuals, g):
    # ∂k = 2 Q_p k g_p reuses the forward product; ∂Q_p = K diag(g_p) Kᵀ.
    K, T = residuals
    columns = [g[:, p : p + 1] for p in range(len(T))]
    K_bar = 2 * sum(gp * Tp for gp, Tp in zip(columns, T, strict=True))
    Q_bar = jnp.stack([K.T @ (gp * K) for gp in columns])
    return K_bar, Q_bar


quadratic_form.defvjp(_quadratic_form_forward, _quadratic_form_backward)


def inducing_gram(layer: Layer, jitter: jax.Array | float) -> jax.Array:
    """Kzz with the layer's noise, and jitter in proportion to the kernel, on its diagonal."""
    K = layer.kernel.gram(layer.inducing, layer.inducing)
    scale = jnp.mean(lax.stop_gradient(layer.kernel.diagonal(layer.inducing)))
    return K + (layer.noise + jitter * scale) * jnp.eye(len(K), dtype=K.dtype)


def factorise(
    layer: Layer, jitter: jax.Array | float, covariance: jax.Array | None = None
) -> Factors:
    """What every row needs of a layer.

    Natural gradients differentiate with respect to S itself, and pass it as `covariance`.
    """
    K = inducing_gram(layer, jitter)
    weights = None if layer.mean_weights is None else lax.stop_gradient(layer.mean_weights)
    common = (layer.kernel, layer.inducing, weights, layer.noise)
    if K.dtype == jnp.float32:
        factor = layer.factor if covariance is None else lax.map(jnp.linalg.cholesky, covariance)
        return Factors(*common, layer.q_mean, factor, jnp.linalg.cholesky(K))
    inverse = inverse_cholesky(K)
    if covariance is None:  # Q = (CᵀL⁻¹)ᵀ(CᵀL⁻¹) − L⁻ᵀL⁻¹
        Q = self_product(layer.factor.mT @ inverse) - self_product(inverse)[None]
    else:
        Q = inverse.T @ (covariance - jnp.eye(len(K), dtype=K.dtype)[None]) @ inverse
    return Factors(*common, inverse.T @ layer.q_mean, Q, None)


def conditional(factors: Factors, X: jax.Array) -> Normal:
    """The layer's outputs at each row of X (B, D), row by row: mean and variance (B, P)."""
    K = factors.kernel.gram(X, factors.inducing)
    prior = (factors.kernel.diagonal(X) + factors.noise)[:, None]
    if factors.cholesky is None:
        mean = K @ factors.weights
        variance = prior + quadratic_form(K, factors.spread)
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
