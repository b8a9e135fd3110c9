"""What a deep GP is judged by: linear models and the exact GP.

The formulas are the textbook's, written without the variational layer, so that one can be held
against the other. The exact GP has a zero mean function: give it outputs in standard units.
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
from scipy.special import softmax

from dgp_core.gp.kernels import Kernel
from dgp_core.gp.mixture import Mixture

MOST_ROWS = 2_000
"""The largest data set for the exact GP, whose cost grows with the cube of the rows."""

LEAST_NOISE = 1e-6
"""The smallest noise variance that a fit considers."""

PRECISIONS = (1e-3, 1e6)
"""The prior precisions of standard weights that a fit considers."""

EVIDENCE_STEPS = 10
"""Updates of the prior precision, at the most."""

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
class Standard:
    """Inputs of mean 0 and deviation 1; a constant column becomes zero."""

    mean: np.ndarray
    scale: np.ndarray
    """Infinite for a constant column."""

    @classmethod
    def of(cls, X: np.ndarray) -> Self:
        mean, scale = X.mean(0), X.std(0)
        return cls(mean, np.where(scale > 1e-12 * np.abs(mean), scale, np.inf))

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return (np.asarray(X, np.float64) - self.mean) / self.scale


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """y ~ N(wᵀx + b, σ²), all of maximum likelihood: the Linear column of the paper."""

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
        standard = Standard.of(X)
        w, *_ = np.linalg.lstsq(standard(X), Y - Y.mean(0), rcond=None)
        w = w / standard.scale[:, None]
        b = Y.mean(0) - standard.mean @ w
        residual = ((Y - X @ w - b) ** 2).mean(0)
        return cls(w, b, np.maximum(residual, np.finfo(np.float64).eps * (1e-300 + Y.var(0))))

    def predict(self, X: np.ndarray) -> Mixture:
        """p(y) at new rows: one Gaussian each."""
        mean = X @ self.weights + self.intercept
        return Mixture(mean[None], np.broadcast_to(self.noise_variance, (1, *mean.shape)))


@dataclass(frozen=True, eq=False)
class LinearPosterior:
    """η = wᵀx + b of K outputs, q(w_k, b_k) = N(m_k, S_k) over standard inputs and a one."""

    standard: Standard
    mean: np.ndarray
    """m (D + 1, K); b is the last row."""
    covariance: np.ndarray
    """S (K, D + 1, D + 1)."""
    precision: np.ndarray
    """λ (K,) of the prior w ~ N(0, I/λ)."""

    def __call__(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of η at rows X: two of (N, K)."""
        A = _with_one(self.standard(X))
        return A @ self.mean, np.stack([((A @ S) * A).sum(1) for S in self.covariance], 1)


def _with_one(X: np.ndarray) -> np.ndarray:
    return np.concatenate([X, np.ones((len(X), 1))], 1)


@dataclass(frozen=True, eq=False)
class BayesianLinear:
    """y ~ N(wᵀx + b, σ²), w ~ N(0, I/λ), λ and σ² of largest evidence (MacKay 1992)."""

    posterior: LinearPosterior
    noise_variance: np.ndarray
    """σ² (P,)."""

    @classmethod
    def fit(cls, X: np.ndarray, Y: np.ndarray) -> Self:
        from sklearn.linear_model import BayesianRidge  # a second to load: only where it is fitted

        X, Y = _table(X, Y)
        standard = Standard.of(X)
        A, D = standard(X), X.shape[1]
        scale = np.where(Y.std(0) > 0, Y.std(0), 1.0)
        means, covariances, precisions, noises = [], [], [], []
        for y, s in zip(Y.T, scale, strict=True):
            line = BayesianRidge(max_iter=1000, tol=1e-6).fit(A, (y - y.mean()) / s)
            noise = max(1.0 / line.alpha_, float(np.finfo(np.float64).eps))
            S = np.zeros((D + 1, D + 1))
            S[:D, :D], S[D, D] = line.sigma_, noise / len(A)  # a flat prior of b
            means.append(np.append(line.coef_ * s, y.mean()))
            covariances.append(S * s**2)
            precisions.append(line.lambda_ / s**2)
            noises.append(noise * s**2)
        m, S, precision = np.stack(means, 1), np.stack(covariances), np.array(precisions)
        return cls(LinearPosterior(standard, m, S, precision), np.array(noises))

    def predict(self, X: np.ndarray) -> Mixture:
        """p(y) at new rows, w and b integrated out: one Gaussian each."""
        mean, variance = self.posterior(X)
        return Mixture(mean[None], (variance + self.noise_variance)[None])


@dataclass(frozen=True, eq=False)
class BayesianLogistic:
    """Classes by straight lines: p(y = c) ∝ exp(w_cᵀx + b_c), w ~ N(0, I/λ), by Laplace.

    Of two classes, the line of the second against 0; of more, each class's posterior on its own.
    """

    posterior: LinearPosterior
    shares: np.ndarray
    """(C,): 0 where the lines give the probability, else the share of a class without rows, which
    counts as half a row; of one class alone, its share."""

    @classmethod
    def fit(cls, X: np.ndarray, codes: np.ndarray, n_classes: int) -> Self:
        from sklearn.linear_model import LogisticRegression

        X, Y = _table(X, np.asarray(codes, np.float64).reshape(-1, 1))
        y = Y[:, 0].astype(int)
        standard, present = Standard.of(X), np.unique(y)
        A, K = standard(X), len(present)
        shares = np.full(n_classes, 0.5 / (len(X) + 0.5 * (n_classes - K)))
        shares[present] = 0.0 if K > 1 else 1.0 - (n_classes - 1) * shares[0]
        n_lines = {1: 0, 2: 1}.get(K, K)
        model = LogisticRegression(tol=1e-6, max_iter=10_000, warm_start=True)

        def fit(precision: float) -> tuple[np.ndarray, np.ndarray]:
            model.set_params(C=1.0 / precision).fit(A, y)
            theta = np.append(model.coef_.T, np.atleast_2d(model.intercept_), 0)
            p: Any = model.predict_proba(A)
            return theta, p * (1.0 - p) if n_lines > 1 else p[:, :1] * p[:, 1:]

        if K == 1:
            D = A.shape[1] + 1
            empty = LinearPosterior(standard, np.zeros((D, 0)), np.zeros((0, D, D)), np.zeros(0))
            return cls(empty, shares)
        return cls(_laplace(standard, A, n_lines, fit), shares)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        """The probability of each class (N, C): softmax of m_c/√(1 + πv_c/8) (MacKay 1992)."""
        p = np.tile(self.shares, (len(X), 1))
        if not len(self.posterior.covariance):
            return p
        mean, variance = self.posterior(X)
        eta = mean / np.sqrt(1.0 + np.pi * variance / 8)
        if eta.shape[1] == 1:
            eta = np.concatenate([np.zeros_like(eta), eta], 1)
        p[:, self.shares == 0] = softmax(eta, 1) * (1.0 - self.shares.sum())
        return p


@dataclass(frozen=True, eq=False)
class BayesianPoisson:
    """Counts by straight lines: y ~ Poisson(e exp(wᵀx + b)), w ~ N(0, I/λ), by Laplace; e is the
    rows' exposure, or 1."""

    posterior: LinearPosterior
    exposed: np.ndarray | None = None
    """Which column of X is the exposure (D,), where one is; it has no weight."""

    @classmethod
    def fit(cls, X: np.ndarray, Y: np.ndarray, exposed: np.ndarray | None = None) -> Self:
        """Counts that are all zero stand for half a count, spread over the rows.

        With rates y/e and weights e the likelihood is that of the counts: Σ e (η y/e − exp η).
        """
        from sklearn.linear_model import PoissonRegressor

        X, Y = _table(X, Y)
        Y = Y + np.where(Y.any(0), 0.0, 0.5 / len(X))
        standard, e = Standard.of(X), np.ones(len(X))
        if exposed is not None and exposed.any():
            standard = Standard(standard.mean, np.where(exposed, np.inf, standard.scale))
            e = X[:, exposed][:, 0]
        A, lines = standard(X), []
        for y in Y.T:
            model = PoissonRegressor(
                tol=1e-6,
                max_iter=10_000,
            )

            def fit(precision: float, model=model, y=y) -> tuple[np.ndarray, np.ndarray]:
                model.set_params(alpha=precision / e.sum()).fit(A, y / e, e)
                mode = np.append(model.coef_, model.intercept_)[:, None]
                return mode, (e * model.predict(A))[:, None]

            lines.append(_laplace(standard, A, 1, fit))
        mean = np.concatenate([line.mean for line in lines], 1)
        covariance = np.concatenate([line.covariance for line in lines])
        precision = np.concatenate([line.precision for line in lines])
        return cls(LinearPosterior(standard, mean, covariance, precision), exposed)

    def predict_latent(self, X: np.ndarray) -> Mixture:
        """q(η + log e), the logarithm of the rate at new rows: one Gaussian each."""
        mean, variance = self.posterior(X)
        latent = Mixture(mean[None], variance[None])
        return latent if self.exposed is None else latent.shifted(np.log(X[:, self.exposed]))


def _laplace(standard: Standard, A: np.ndarray, n_lines: int, fit: Callable) -> LinearPosterior:
    """The Laplace approximation around the mode, its λ by MacKay's fixed point.

    S_k = (AᵀW_kA + λI)⁻¹, b without a prior; λ ← γ/|w|², γ = Σ_k Σ_d (1 − λ S_k,dd). `fit` takes λ
    and gives the mode (D + 1, K) and the curvature W of −log p(y|η) (N, K).
    """
    D, precision = A.shape[1], 1.0
    one = _with_one(A)
    prior = np.append(np.ones(D), 0.0)
    # A flat prior of b where its curvature vanishes.
    floor = np.append(np.zeros(D), 1e-6)
    mode, S = np.zeros((D + 1, n_lines)), np.zeros((n_lines, D + 1, D + 1))
    for _ in range(EVIDENCE_STEPS):
        mode, W = fit(precision)
        for k in range(n_lines):
            H = (one * W[:, k : k + 1]).T @ one + np.diag(precision * prior + floor)
            S[k] = np.linalg.inv(H)
        gamma = n_lines * D - precision * np.trace(S[:, :D, :D], axis1=1, axis2=2).sum()
        before = precision
        squares = max(float((mode[:-1] ** 2).sum()), 1e-12)
        precision = float(np.clip(gamma / squares, *PRECISIONS))
        if abs(np.log(precision / before)) < 0.1:
            break
    return LinearPosterior(standard, mode, S, np.full(n_lines, before))


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
    from scipy.optimize import minimize  # ten megabytes: only where it is fitted

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
