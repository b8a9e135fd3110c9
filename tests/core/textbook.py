"""The textbook's formulas in numpy and scipy: unwhitened, unhurried, nothing from `dgp_core`."""

import numpy as np
from numpy.linalg import inv, slogdet
from scipy.stats import norm


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


def mixture_scores(mixture, Y):
    """Every score of Gaussian mixtures; the CRPS as ∫_{t<y} F² dt + ∫_{t>y} (1 − F)² dt."""
    m, s = mixture.means, np.sqrt(mixture.variances)
    low, high = min(Y.min(), (m - 9 * s).min()), max(Y.max(), (m + 9 * s).max())
    pit = norm.cdf(Y, m, s).mean(0)
    crps = []
    for (n, p), y in np.ndenumerate(Y):
        below, above = np.linspace(low, y, 4001), np.linspace(y, high, 4001)
        F, G = (norm.cdf(t[:, None], m[:, n, p], s[:, n, p]).mean(1) for t in (below, above))
        crps.append(np.trapezoid(F**2, below) + np.trapezoid((1 - G) ** 2, above))
    return {
        "log_likelihood": np.log(norm.pdf(Y, m, s).mean(0)).sum(1).mean(),
        "rmse": np.sqrt(np.mean((Y - m.mean(0)) ** 2)),
        "crps": np.mean(crps),
    } | {f"coverage_{k}": np.mean(np.abs(2 * pit - 1) <= k / 100) for k in (50, 90, 95)}
