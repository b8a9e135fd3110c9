"""The textbook's dense formulas in plain numpy: unwhitened, unhurried, nothing from `dgp_core`."""

import numpy as np
from numpy.linalg import inv, slogdet


def rbf(X, Z, variance=1.0, lengthscales=1.0):
    """σ² exp(−½ Σ_d (x_d − z_d)²/ℓ_d²) for every pair, by plain differences."""
    difference = (X[:, None] - Z[None]) / lengthscales
    return variance * np.exp(-0.5 * (difference**2).sum(-1))


def log_normal(y, mean, covariance):
    """log N(y; mean, covariance)."""
    r = y - mean
    quadratic = r @ np.linalg.solve(covariance, r)
    return -0.5 * (len(y) * np.log(2 * np.pi) + slogdet(covariance)[1] + quadratic)


def gaussian_kl(m, S, prior_mean, prior_covariance):
    """KL[N(m, S) ‖ N(m₀, S₀)] = ½ (tr S₀⁻¹S + dᵀS₀⁻¹d − M + log|S₀| − log|S|)."""
    P, d = inv(prior_covariance), prior_mean - m
    log_ratio = slogdet(prior_covariance)[1] - slogdet(S)[1]
    return 0.5 * (np.trace(P @ S) + d @ P @ d - len(m) + log_ratio)


def sparse_conditional(kxx, Kxz, Kzz, m, S):
    """f(x) with u = f(Z) ~ N(m, S) integrated out, row by row.

    mean  k_xz Kzz⁻¹ m,   variance  k_xx − k_xz Kzz⁻¹ (Kzz − S) Kzz⁻¹ k_zx
    """
    A = Kxz @ inv(Kzz)
    return A @ m, kxx - np.einsum("nm,mk,nk->n", A, Kzz - S, A)


def optimal_q(Kxz, Kzz, y, noise):
    """Titsias' best q(u): S = Kzz Σ Kzz, m = σ⁻² Kzz Σ Kzx y, Σ = (Kzz + σ⁻² Kzx Kxz)⁻¹."""
    sigma = inv(Kzz + Kxz.T @ Kxz / noise)
    return Kzz @ sigma @ Kxz.T @ y / noise, Kzz @ sigma @ Kzz


def collapsed_bound(kxx, Kxz, Kzz, y, noise):
    """log N(y; 0, Qxx + σ²I) − tr(Kxx − Qxx)/2σ², Qxx = Kxz Kzz⁻¹ Kzx."""
    Q = Kxz @ inv(Kzz) @ Kxz.T
    evidence = log_normal(y, np.zeros(len(y)), Q + noise * np.eye(len(y)))
    return evidence - 0.5 * (kxx.sum() - np.trace(Q)) / noise


def expected_gaussian(y, noise, mean, variance):
    """E[log N(y; f, σ²)] over f ~ N(mean, variance), row by row."""
    return -0.5 * (np.log(2 * np.pi * noise) + ((y - mean) ** 2 + variance) / noise)
