"""What a deep GP is judged by: linear models and the exact GP.

The formulas are the textbook's, written without the variational layer, so that one can be held
against the other. All models have a zero mean function: give them outputs in standard units.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from dgp_core.gp.kernels import Kernel
from dgp_core.gp.mixture import Mixture

MOST_ROWS = 2_000
"""The largest data set for the exact GP, whose cost grows with the cube of the rows."""

LEAST_NOISE = 1e-6
"""The smallest noise variance that a fit considers."""

RUNAWAY = 20.0
"""Weights of standard inputs beyond this have no finite optimum: the rows can be parted exactly."""

WALL = 1e25
"""What a fit is told where the objective is not finite; its line search then turns back."""


def exact_evidence(kernel: Kernel, noise_variance: Array | float, X: Array, Y: Array) -> Array:
    """log p(Y) = Σ_p log N(y_p; 0, Kxx + σ²I)."""
    N, P = Y.shape
    L = jnp.linalg.cholesky(kernel.gram(X, X) + noise_variance * jnp.eye(N, dtype=X.dtype))
    a = solve_triangular(L, Y, lower=True)
    log_determinant = 2 * jnp.sum(jnp.log(jnp.diagonal(L)))
    return -0.5 * (jnp.sum(a * a) + P * (log_determinant + N * math.log(2 * math.pi)))


def _posterior(
    kernel: Kernel, noise_variance: Array | float, X: Array, Y: Array, X_new: Array
) -> tuple[Array, Array]:
    """Mean K*x (Kxx + σ²I)⁻¹ Y (N*, P) and variance k** − k*x (Kxx + σ²I)⁻¹ kx* (N*,) of f*."""
    L = jnp.linalg.cholesky(kernel.gram(X, X) + noise_variance * jnp.eye(len(X), dtype=X.dtype))
    T = solve_triangular(L, kernel.gram(X, X_new), lower=True)
    mean = T.T @ solve_triangular(L, Y, lower=True)
    return mean, kernel.diagonal(X_new) - jnp.sum(T * T, 0)


@dataclass(frozen=True, eq=False)
class LinearRegression:
    """Least squares: y ~ N(wᵀx + b, σ²), all of maximum likelihood."""

    weights: np.ndarray
    """w (D, P)."""
    intercept: np.ndarray
    """b (P,)."""
    noise_variance: np.ndarray
    """σ² (P,), the training rows' mean squared residual."""

    @classmethod
    def fit(cls, X: np.ndarray, Y: np.ndarray) -> Self:
        """Columns are centred and scaled for the solve, which takes the shortest w of equals."""
        X, Y = _table(X, Y)
        mean, scale = X.mean(0), X.std(0)
        scale = np.where(scale > 1e-12 * np.abs(mean), scale, np.inf)  # a constant has no weight
        w, *_ = np.linalg.lstsq((X - mean) / scale, Y - Y.mean(0), rcond=None)
        w = w / scale[:, None]
        b = Y.mean(0) - mean @ w
        residual = ((Y - X @ w - b) ** 2).mean(0)
        return cls(w, b, np.maximum(residual, np.finfo(np.float64).eps * (1e-300 + Y.var(0))))

    def predict(self, X: np.ndarray) -> Mixture:
        """p(y) at new rows: one Gaussian each."""
        mean = X @ self.weights + self.intercept
        return Mixture(mean[None], np.broadcast_to(self.noise_variance, (1, *mean.shape)))


@dataclass(frozen=True, eq=False)
class LogisticRegression:
    """Classes by straight lines: p(y = c) ∝ exp(w_cᵀx + b_c), of maximum likelihood."""

    weights: np.ndarray
    """w (D, C)."""
    intercept: np.ndarray
    """b (C,)."""
    ridge: float
    """λ of the penalty λ/2 |w|² on standard inputs: 0, or 1 where classes can be parted exactly and
    the weights would grow without end."""

    @classmethod
    def fit(cls, X: np.ndarray, codes: np.ndarray, n_classes: int) -> Self:
        """By Newton's method. A class without rows counts as half a row, spread over all."""
        X, Y = _table(X, np.asarray(codes, np.float64).reshape(-1, 1))
        T = (Y == np.arange(n_classes)).astype(np.float64)
        T += np.where(T.any(0), 0.0, 0.5 / len(X))
        total = T[:1].sum()

        def value(eta: np.ndarray) -> tuple[float, np.ndarray]:
            log_p = log_softmax(eta, 1)
            return -float((T * log_p).sum()), total * np.exp(log_p) - T

        def curve(eta: np.ndarray, change: np.ndarray) -> np.ndarray:
            p = softmax(eta, 1)
            return total * p * (change - (p * change).sum(1, keepdims=True))

        log_share = np.log(T.mean(0))
        return cls(*_newton(X, log_share - log_share.mean(), value, curve))

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """The probability of each class (N, C)."""
        return softmax(np.asarray(X, np.float64) @ self.weights + self.intercept, 1)


@dataclass(frozen=True, eq=False)
class PoissonRegression:
    """Counts by straight lines: y ~ Poisson(exp(wᵀx + b)), of maximum likelihood."""

    weights: np.ndarray
    """w (D, P)."""
    intercept: np.ndarray
    """b (P,)."""
    ridge: float
    """As for classes: 0, or 1 where weights would grow without end."""

    @classmethod
    def fit(cls, X: np.ndarray, Y: np.ndarray) -> Self:
        """By Newton's method. Counts that are all zero stand for half a count, spread over rows."""
        X, Y = _table(X, Y)
        Y = Y + np.where(Y.any(0), 0.0, 0.5 / len(X))

        def value(eta: np.ndarray) -> tuple[float, np.ndarray]:
            rate = np.exp(np.minimum(eta, 50.0))
            return float((rate - Y * eta).sum()), rate - Y

        def curve(eta: np.ndarray, change: np.ndarray) -> np.ndarray:
            return np.exp(np.minimum(eta, 50.0)) * change

        return cls(*_newton(X, np.log(Y.mean(0)), value, curve))

    def predict_rate(self, X: np.ndarray) -> np.ndarray:
        """The rate of each row and output (N, P)."""
        eta = np.asarray(X, np.float64) @ self.weights + self.intercept
        return np.exp(np.minimum(eta, 50.0))


def _newton(
    X: np.ndarray, start: np.ndarray, value: Callable, curve: Callable
) -> tuple[np.ndarray, np.ndarray, float]:
    """w (D, K), b (K,) and the ridge at the smallest loss of η = Xw + b (N, K).

    Newton's steps in a trust region, each solved by conjugate gradients, which take the shortest
    step where columns repeat each other. From w = 0 and b = `start`; `value` gives the loss and
    ∂loss/∂η, `curve` the change of that along a change of η.
    """
    mean, scale = X.mean(0), X.std(0)
    scale = np.where(scale > 1e-12 * np.abs(mean), scale, np.inf)  # a constant has no weight
    A = np.concatenate([(X - mean) / scale, np.ones((len(X), 1))], 1)
    shape, N = (A.shape[1], len(start)), len(X)
    theta = np.zeros(shape)
    theta[-1] = start
    penalised = np.ones(shape)
    penalised[-1] = 0.0

    def fitted(ridge: float) -> np.ndarray:
        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            t = flat.reshape(shape)
            loss, slope = value(A @ t)
            penalty = 0.5 * ridge * float((penalised * t * t).sum())
            gradient = A.T @ slope + ridge * penalised * t
            return (loss + penalty) / N, gradient.ravel() / N

        def product(flat: np.ndarray, change: np.ndarray) -> np.ndarray:
            d = change.reshape(shape)
            H = A.T @ curve(A @ flat.reshape(shape), A @ d) + ridge * penalised * d
            return H.ravel() / N

        found = minimize(
            objective,
            theta.ravel(),
            jac=True,
            hessp=product,
            method="trust-ncg",
            options={"gtol": 1e-9, "maxiter": 200},
        )
        return found.x.reshape(shape)

    ridge = 0.0
    best = fitted(ridge)
    if np.abs(best[:-1]).max(initial=0.0) > RUNAWAY:
        ridge = 1.0
        best = fitted(ridge)
    w = best[:-1] / scale[:, None]
    return w, best[-1] - mean @ w, ridge


@dataclass(frozen=True, eq=False)
class ExactGP:
    """A GP without approximation, for up to 2,000 rows."""

    kernel: Kernel
    noise_variance: Array
    X: Array
    Y: Array

    @classmethod
    def fit(
        cls,
        kernel: Kernel,
        X: np.ndarray,
        Y: np.ndarray,
        noise_variance: float = 0.01,
        max_steps: int = 200,
    ) -> Self:
        """Kernel and noise of largest evidence, from the kernel given, by L-BFGS."""
        x, y = map(jnp.asarray, _table(X, Y))
        if len(x) > MOST_ROWS:
            raise ValueError(
                f"The exact GP takes at most {MOST_ROWS:,} rows, not {len(x):,}: "
                "take fewer rows, or the sparse GP."
            )
        start = kernel, _log(noise_variance)
        kernel, log_noise = _maximise(start, x, y, max_steps)
        return cls(kernel, jnp.exp(log_noise), x, y)

    @property
    def evidence(self) -> float:
        """log p(Y) of the training rows."""
        return float(_jitted_evidence(self.kernel, self.noise_variance, self.X, self.Y))

    def predict_latent(self, X: np.ndarray) -> Mixture:
        """p(f) at new rows: one Gaussian each."""
        mean, variance = _jitted_posterior(
            self.kernel, self.noise_variance, self.X, self.Y, jnp.asarray(X)
        )
        return _gaussian(mean, variance)

    def predict(self, X: np.ndarray) -> Mixture:
        """p(y) at new rows: one Gaussian each."""
        f = self.predict_latent(X)
        return Mixture(f.means, f.variances + float(self.noise_variance))


_jitted_evidence = jax.jit(exact_evidence)
_jitted_posterior = jax.jit(_posterior)


@jax.jit
@jax.value_and_grad
def _value_and_grad(parameters: tuple[Any, Array], X: Array, Y: Array) -> Array:
    kernel, log_noise = parameters
    return -exact_evidence(kernel, jnp.exp(log_noise), X, Y)


def _maximise(start: tuple[Any, Array], X: Array, Y: Array, max_steps: int) -> tuple[Any, Array]:
    """Kernel and log σ² of largest evidence by L-BFGS; a failed Cholesky is a wall."""
    leaves, structure = jax.tree.flatten(start)
    ends = np.cumsum([leaf.size for leaf in leaves])[:-1]

    # NumPy's split and join: as JAX operations they would cost more than the evidence itself.
    def join(tree: tuple) -> np.ndarray:
        return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])

    def unflatten(flat: np.ndarray) -> tuple:
        pieces = zip(np.split(flat, ends), leaves, strict=True)
        return structure.unflatten([piece.reshape(leaf.shape) for piece, leaf in pieces])

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = _value_and_grad(unflatten(flat), X, Y)
        slope = join(gradient)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return WALL, np.zeros_like(slope)
        return float(value), slope

    first = join(start)
    if objective(first)[0] == WALL:
        raise ValueError(
            "The fit cannot start: the kernel's matrix is not positive definite here. "
            "Check that inputs and outputs are finite, or start from a larger noise variance."
        )
    bounds = [(-np.inf, np.inf)] * (len(first) - 1) + [(np.log(LEAST_NOISE), np.inf)]
    options = {"maxiter": max_steps}
    result = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return jax.tree.map(jnp.asarray, unflatten(result.x))


def _log(value: float) -> Array:
    """log of a start value, as a float64 leaf."""
    return jnp.asarray(math.log(value), jnp.float64)


def _gaussian(mean: Array, variance: Array) -> Mixture:
    """One component, of one variance for every output."""
    return Mixture(
        np.asarray(mean)[None], np.broadcast_to(np.asarray(variance)[:, None], (1, *mean.shape))
    )


def _table(X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, D) and outputs (N, P) in float64."""
    X, Y = np.asarray(X, np.float64), np.asarray(Y, np.float64)
    if X.ndim != 2 or Y.ndim != 2 or len(X) != len(Y) or len(X) == 0:
        raise ValueError(f"X and Y must be tables of equally many rows: {X.shape}, {Y.shape}.")
    return X, Y
