"""How an observation y follows from the last layer's value f, and its expectations over f.

Every class is a pytree with the same methods; (B, P) are the mean and variance of independent
Gaussians q(f), row by row and output by output. Classes are given as their codes in one column.

    expected_log_density   E_q[log p(y|f)], the bound's data term, summed over outputs; softmax
                           estimates it from standard normal draws (B, n_draws)
    log_predictive         log ∫ p(y|f) q(f) df
    log_density, sample    p(y|f) itself, and draws from it
    moments                of y, for measurements and counts
    class_probabilities    of y, for classes
"""

import math
from dataclasses import dataclass, field, fields
from typing import Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln, logsumexp, ndtr

from dgp_core.gp.pytree import leaf, pytree

N_NODES = 20
"""Gauss–Hermite nodes; enough for integrands as wide as the Gaussian they are weighed with."""

N_STEPS = 48
"""Of the trapezoid rule in softmax's integral: for variances of 1, a step of 0.65 and an error of
e^(−π²/0.65)."""


# Python's own floats: a NumPy scalar would turn float32 into float64.
_LOG_2PI, _SQRT_2PI, _SQRT_HALF = math.log(2 * math.pi), math.sqrt(2 * math.pi), math.sqrt(0.5)


class Likelihood(Protocol):
    """What every likelihood can do."""

    @property
    def n_latents(self) -> int: ...
    @classmethod
    def create(cls, n_outputs: int, /, dtype=jnp.float64) -> Self: ...
    @property
    def n_draws(self) -> int: ...
    def expected_log_density(
        self, mean: Array, variance: Array, Y: Array, draws: Array | None
    ) -> Array: ...
    def log_predictive(self, mean: Array, variance: Array, Y: Array) -> Array: ...
    def log_density(self, F: Array, Y: Array) -> Array: ...
    def sample(self, key: Array, F: Array) -> Array: ...


def _normal_nodes() -> tuple[np.ndarray, np.ndarray]:
    """Nodes x and weights w with Σ w g(x) ≈ E[g(ε)], ε ~ N(0, 1)."""
    x, w = np.polynomial.hermite.hermgauss(N_NODES)
    return np.sqrt(2) * x, w / np.sqrt(np.pi)


_NODES, _WEIGHTS = _normal_nodes()


def _deviation(variance: Array) -> Array:
    """√v, with a finite derivative at 0.

    The floor ε^⅔ (ε the type's rounding) is where the error that it brings to an expectation
    equals the rounding error that it leaves in the expectation's derivative by v, ε/√floor.
    """
    floor = float(jnp.finfo(variance.dtype).eps) ** (2 / 3)
    return jnp.sqrt(jnp.maximum(variance, floor))


def _at_nodes(mean: Array, variance: Array) -> tuple[Array, Array]:
    """Values of f at the Gauss–Hermite nodes (20, ...) and the weights (20,)."""
    x, w = jnp.asarray(_NODES, mean.dtype), jnp.asarray(_WEIGHTS, mean.dtype)
    return mean[None] + _deviation(variance)[None] * x.reshape(-1, *[1] * mean.ndim), w


def _around(mode: Array, width: Array) -> tuple[Array, Array]:
    """The same nodes around an integrand's mode, and log weights: Σ e^(weight + log g) is
    ∫ g(f) df / (width √2π)."""
    shape = (-1, *[1] * mode.ndim)
    log_weight = np.log(_WEIGHTS) + 0.5 * _NODES**2
    x, weight = (jnp.asarray(c, mode.dtype).reshape(shape) for c in (_NODES, log_weight))
    return mode[None] + width[None] * x, weight


def _bounded_exp(x: Array) -> Array:
    """exp, continued by its tangent above 80 so that no bound and no gradient overflows."""
    top = jnp.minimum(x, 80.0)
    return jnp.exp(top) * (1.0 + (x - top))


def log_normal_cdf(z: Array) -> Array:
    """log Φ(z), accurate to 1e-9 in the far tail too, with one logarithm.

    Φ(z) = ½ erfc(−z/√2); below −12, Φ(z) ≈ φ(z)/|z| · (1 − 1/z² + 3/z⁴ − 15/z⁶ + 105/z⁸ − 945/z¹⁰).
    """
    cut = -12.0
    below = z < cut
    tail = jnp.where(below, z, cut)
    r = 1.0 / (tail * tail)
    series = 1.0 - r * (1.0 - 3.0 * r * (1.0 - 5.0 * r * (1.0 - 7.0 * r * (1.0 - 9.0 * r))))
    body = 0.5 * jax.lax.erfc(-jnp.where(below, cut, z) * _SQRT_HALF)
    scaled = jnp.where(below, -series / (tail * _SQRT_2PI), body)
    return jnp.log(scaled) - jnp.where(below, 0.5 * tail * tail, 0.0)


def log_gamma_half_step(x: Array) -> Array:
    """log Γ(x + ½) − log Γ(x) for x ≥ 1, to 1e-14, which compiles in a tenth of two log Γ's time.

    Sixteen steps up by Γ(x + 1) = x Γ(x), and from there the asymptotic series
    ½ log x − 1/8x + 1/192x³ − 1/640x⁵ + 17/14336x⁷.
    """
    steps = sum(jnp.log1p(-0.5 / (x + (i + 0.5))) for i in range(16))
    x = x + 16.0
    r = 1.0 / (x * x)
    series = 1 / 8 - r * (1 / 192 - r * (1 / 640 - r * (17 / 14336)))
    return steps + 0.5 * jnp.log(x) - series / x


def log_gamma(x: Array) -> Array:
    """log Γ(x) for x > 0, to 1e-13 of its size, with a derivative that compiles as quickly.

    Eight steps up by Γ(x + 1) = x Γ(x), and from there Stirling's series
    (x − ½) log x − x + ½ log 2π + 1/12x − 1/360x³ + 1/1260x⁵ − 1/1680x⁷ + 1/1188x⁹.
    """
    steps = sum(jnp.log(x + float(i)) for i in range(8))
    x = x + 8.0
    r = 1.0 / (x * x)
    series = 1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188))))
    return (x - 0.5) * jnp.log(x) - x + 0.5 * _LOG_2PI + series / x - steps


def _is_class(Y: Array, n_classes: int) -> Array:
    """Which class (..., C) the code in Y (..., 1) names."""
    shape = (*Y.shape[:-1], n_classes)
    return jnp.broadcast_to(jnp.arange(n_classes), shape) == jnp.broadcast_to(Y[..., :1], shape)


def _of_class(values: Array, Y: Array) -> Array:
    """The entry (...) of values (..., C) that belongs to the observed class.

    A masked sum: the derivative of an index would be a scatter, far slower.
    """
    return jnp.sum(jnp.where(_is_class(Y, values.shape[-1]), values, 0.0), -1)


def _product(factors: Array) -> Array:
    """Π_c of factors (C, ...) in pairs, whose derivative needs no division and no logarithm."""
    while len(factors) > 1:
        half = len(factors) // 2
        pairs = factors[:half] * factors[half : 2 * half]
        factors = jnp.concatenate([pairs, factors[2 * half :]])
    return factors[0]


class _Exact:
    """A likelihood whose expectations need no random numbers."""

    @property
    def n_draws(self) -> int:
        return 0


@pytree
@dataclass(frozen=True)
class Gaussian(_Exact):
    """Measurements with Gaussian noise: p(y|f) = N(y; f, σ²), one σ² an output."""

    log_variance: Array
    """log σ² (P,)."""

    @classmethod
    def create(cls, n_outputs: int, /, dtype=jnp.float64, variance: float = 0.01) -> Self:
        return cls(leaf(np.full(n_outputs, np.log(variance)), dtype))

    @property
    def n_latents(self) -> int:
        return self.log_variance.shape[-1]

    @property
    def variance(self) -> Array:
        return jnp.exp(self.log_variance)

    def log_density(self, F: Array, Y: Array) -> Array:
        return self.log_predictive(F, jnp.zeros_like(F), Y)

    def expected_log_density(
        self, mean: Array, variance: Array, Y: Array, draws: Array | None
    ) -> Array:
        """log N(y; m, σ²) − v / 2σ², summed over outputs."""
        precision = jnp.exp(-self.log_variance)
        constant = jnp.sum(_LOG_2PI + self.log_variance)
        return -0.5 * (((Y - mean) ** 2 + variance) @ precision + constant)

    def log_predictive(self, mean: Array, variance: Array, Y: Array) -> Array:
        """log N(y; m, v + σ²), summed over outputs."""
        mean, total = self.moments(mean, variance)
        return -0.5 * jnp.sum(_LOG_2PI + jnp.log(total) + (Y - mean) ** 2 / total, -1)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        return mean, variance + jnp.broadcast_to(self.variance, variance.shape)

    def sample(self, key: Array, F: Array) -> Array:
        deviation = jnp.broadcast_to(jnp.exp(0.5 * self.log_variance), F.shape)
        return F + deviation * jax.random.normal(key, F.shape, F.dtype)


@pytree
@dataclass(frozen=True)
class StudentT(_Exact):
    """Measurements with outliers: y = f + s·t, t of Student's distribution with ν > 2 degrees."""

    log_scale: Array
    """log s (P,)."""
    log_excess: Array
    """log(ν − 2) (P,); above 2, so that y has a variance."""

    @classmethod
    def create(
        cls, n_outputs: int, /, dtype=jnp.float64, scale: float = 0.1, degrees: float = 4.0
    ) -> Self:
        if not degrees > 2:
            raise ValueError(f"Student's degrees of freedom must start above 2, not at {degrees}.")
        return cls(
            leaf(np.full(n_outputs, np.log(scale)), dtype),
            leaf(np.full(n_outputs, np.log(degrees - 2.0)), dtype),
        )

    @property
    def n_latents(self) -> int:
        return self.log_scale.shape[-1]

    @property
    def scale(self) -> Array:
        return jnp.exp(self.log_scale)

    @property
    def degrees(self) -> Array:
        return 2.0 + jnp.exp(self.log_excess)

    def _log_constant(self) -> Array:
        """log Γ((ν+1)/2) − log Γ(ν/2) − ½ log πν − log s   (P,)."""
        nu = self.degrees
        return log_gamma_half_step(0.5 * nu) - 0.5 * jnp.log(math.pi * nu) - self.log_scale

    def _log_residual(self, F: Array, Y: Array) -> Array:
        """log(1 + (y−f)²/νs²), each output."""
        width = 1.0 / (self.degrees * self.scale**2)
        return jnp.log(1.0 + (Y - F) ** 2 * jnp.broadcast_to(width, F.shape))

    def log_density(self, F: Array, Y: Array) -> Array:
        """log constant − (ν+1)/2 · log(1 + (y−f)²/νs²), summed over outputs."""
        power = 0.5 * (self.degrees + 1.0)
        return jnp.sum(self._log_constant()) - self._log_residual(F, Y) @ power

    def expected_log_density(
        self, mean: Array, variance: Array, Y: Array, draws: Array | None
    ) -> Array:
        """By Gauss–Hermite: good to 1e-6 where v ≤ s², to 1e-2 at 10 s², to tenths at 100 s².

        A trained q is as narrow as the noise or narrower where there are data.
        """
        F, w = _at_nodes(mean, variance)
        power = 0.5 * (self.degrees + 1.0)
        residual = jnp.tensordot(w, self._log_residual(F, Y[None]), 1)
        return jnp.sum(self._log_constant()) - residual @ power

    def log_predictive(self, mean: Array, variance: Array, Y: Array) -> Array:
        """log ∫ Gamma(λ; ν/2, ν/2) N(y; m, v + s²/λ) dλ, summed over outputs.

        Student's t is a Gaussian of random precision λ, and in t = log λ the integrand is smooth
        whatever v/s² is, where p(y|f) can be a spike beside q(f). The trapezoid rule in τ,
        t = √(2/ν) sinh τ, reaches the small λ that explain far outliers.
        """
        tau, h = np.linspace(-5.0, 2.5, 128, retstep=True)
        shape = (-1, *[1] * mean.ndim)
        nodes, slope = (
            jnp.asarray(a, mean.dtype).reshape(shape) for a in (np.sinh(tau), np.cosh(tau))
        )
        nu, s2 = (jnp.broadcast_to(a, mean.shape)[None] for a in (self.degrees, self.scale**2))
        width = jnp.sqrt(2.0 / nu)
        t = width * nodes
        log_prior = 0.5 * nu * (jnp.log(0.5 * nu) + t - jnp.exp(t)) - gammaln(0.5 * nu)
        total = jnp.maximum(variance, 0.0)[None] + s2 * jnp.exp(-t)
        log_normal = -0.5 * (_LOG_2PI + jnp.log(total) + (Y - mean)[None] ** 2 / total)
        log_step = jnp.log(width * slope * float(h))
        return jnp.sum(logsumexp(log_prior + log_normal + log_step, axis=0), -1)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """m and v + s² ν/(ν−2)."""
        noise = self.scale**2 * self.degrees * jnp.exp(-self.log_excess)
        return mean, variance + jnp.broadcast_to(noise, variance.shape)

    def sample(self, key: Array, F: Array) -> Array:
        nu, s = jnp.broadcast_to(self.degrees, F.shape), jnp.broadcast_to(self.scale, F.shape)
        return F + s * jax.random.t(key, nu, F.shape, F.dtype)


class Counts(_Exact):
    """Counts whose expectation given f is the rate e^(f + offset).

    The offset is the logarithm of the training rows' mean count: f then says by what factor a rate
    differs from the mean, and its prior suits counts of any size. It stays as it is in training.
    Where Y has one column more than there are outputs, that one is the logarithm of each row's
    exposure, and is added too.
    """

    offset: Array
    """(P,)."""

    @property
    def n_latents(self) -> int:
        return self.offset.shape[-1]

    def log_rate(self, F: Array, Y: Array | None = None) -> Array:
        """f + offset, and the rows' log exposure where Y has it."""
        F = F + jnp.broadcast_to(jax.lax.stop_gradient(self.offset), F.shape)
        P = self.n_latents
        if Y is not None and Y.shape[-1] > P:
            F = F + jnp.broadcast_to(Y[..., P:], F.shape)
        return F

    def counted(self, Y: Array) -> Array:
        """The counts alone, without the exposure."""
        return Y[..., : self.n_latents]

    @property
    def sizes(self) -> np.ndarray:
        """r of a negative binomial of variance μ + μ²/r (P,); infinite for Poisson's."""
        return np.full(self.n_latents, np.inf)


def count_offset(Y: np.ndarray | None, n_outputs: int) -> np.ndarray:
    """log of the mean count of the training rows (P,), each divided by its exposure if it has one;
    0 without rows.

    Where hardly any row counted anything, the kernel has room enough below a mean of 0.001.
    """
    if Y is None or not len(Y):
        return np.zeros(n_outputs)
    counts, log_exposure = Y[:, :n_outputs], Y[:, n_outputs:]
    exposure = np.exp(log_exposure).sum(0) if log_exposure.shape[1] else float(len(Y))
    return np.log(np.maximum(counts.sum(0) / exposure, 1e-3))


@pytree
@dataclass(frozen=True)
class Poisson(Counts):
    """Counts: p(y|f) = Poisson(y; e^(f + offset))."""

    offset: Array

    @classmethod
    def create(cls, n_outputs: int, /, dtype=jnp.float64, offset: np.ndarray | float = 0.0) -> Self:
        return cls(leaf(np.broadcast_to(offset, n_outputs), dtype))

    def log_density(self, F: Array, Y: Array) -> Array:
        """y g − e^g − log y!, g = f + offset, summed over outputs."""
        F, Y = self.log_rate(F, Y), self.counted(Y)
        return jnp.sum(Y * F - _bounded_exp(F) - gammaln(Y + 1.0), -1)

    def expected_log_density(
        self, mean: Array, variance: Array, Y: Array, draws: Array | None
    ) -> Array:
        """y m − e^(m + v/2) − log y!, summed over outputs."""
        mean, Y = self.log_rate(mean, Y), self.counted(Y)
        return jnp.sum(Y * mean - _bounded_exp(mean + 0.5 * variance) - gammaln(Y + 1.0), -1)

    def log_predictive(self, mean: Array, variance: Array, Y: Array) -> Array:
        """log ∫ Poisson(y; e^f) N(f; m, v) df by Gauss–Hermite around the integrand's mode.

        The mode is f* = m + vy − w, where w = v e^f* solves w + log w = log v + m + vy; the
        curvature there is (1 + w)/v.
        """
        mean, Y = self.log_rate(mean, Y), self.counted(Y)
        v = _deviation(variance) ** 2
        a = jnp.maximum(jnp.log(v) + mean + v * Y, -80.0)
        w = jnp.where(a > 1.0, a - jnp.log(jnp.maximum(a, 1.0)), jnp.exp(jnp.minimum(a, 0.0)))
        for _ in range(6):  # Newton
            w = w * (1.0 + a - jnp.log(w)) / (1.0 + w)
        mode, width = mean + v * Y - w, jnp.sqrt(v / (1.0 + w))
        F, weight = _around(mode, width)
        log_joint = Y[None] * F - _bounded_exp(F) - 0.5 * (F - mean[None]) ** 2 / v[None]
        log_integral = logsumexp(weight + log_joint, axis=0)
        # The prior's and the proposal's normalising constants: √v against √(v/(1+w)).
        return jnp.sum(log_integral - 0.5 * jnp.log1p(w) - gammaln(Y + 1.0), -1)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """E y = E e^f = e^(m+v/2), and Var y = E e^f + Var e^f."""
        rate = jnp.exp(self.log_rate(mean) + 0.5 * variance)
        return rate, rate + rate**2 * jnp.expm1(variance)

    def sample(self, key: Array, F: Array) -> Array:
        # Above e^40 the whole numbers no longer fit, nor does the noise show.
        rate = jnp.exp(jnp.minimum(self.log_rate(F), 40.0))
        return jax.random.poisson(key, rate).astype(F.dtype)


@pytree
@dataclass(frozen=True)
class NegativeBinomial(Counts):
    """Counts that vary more than Poisson's: mean μ = e^(f + offset) and variance μ + μ²/r.

    p(y|f) = Γ(y+r)/(Γ(r) y!) · (μ/(r+μ))^y (r/(r+μ))^r, Poisson's rate times a Gamma(r, r)
    variable; r → ∞ is Poisson's.
    """

    offset: Array
    log_size: Array
    """log r (P,)."""

    @classmethod
    def create(
        cls,
        n_outputs: int,
        /,
        dtype=jnp.float64,
        offset: np.ndarray | float = 0.0,
        size: float = 10.0,
    ) -> Self:
        return cls(
            leaf(np.broadcast_to(offset, n_outputs), dtype),
            leaf(np.full(n_outputs, np.log(size)), dtype),
        )

    @property
    def size(self) -> Array:
        return jnp.exp(self.log_size)

    @property
    def sizes(self) -> np.ndarray:
        return np.exp(np.asarray(self.log_size, np.float64))

    def _log_constant(self, Y: Array) -> Array:
        """log Γ(y+r) − log Γ(r) − log y!, each output."""
        r = self.size
        above = log_gamma(Y + jnp.broadcast_to(r, Y.shape))
        return above - jnp.broadcast_to(log_gamma(r), Y.shape) - gammaln(Y + 1.0)

    def _in_sizes(self, F: Array) -> Array:
        """log μ − log r."""
        return F - jnp.broadcast_to(self.log_size, F.shape)

    def log_density(self, F: Array, Y: Array) -> Array:
        """log constant + y h − (y+r) log(1 + e^h), h = f + offset − log r, summed over outputs."""
        h, Y = self._in_sizes(self.log_rate(F, Y)), self.counted(Y)
        total = Y + jnp.broadcast_to(self.size, Y.shape)
        return jnp.sum(self._log_constant(Y) + Y * h - total * jax.nn.softplus(h), -1)

    def expected_log_density(
        self, mean: Array, variance: Array, Y: Array, draws: Array | None
    ) -> Array:
        """By Gauss–Hermite: log(1 + e^h) is nearly linear over a trained q."""
        h, Y = self._in_sizes(self.log_rate(mean, Y)), self.counted(Y)
        H, w = _at_nodes(h, variance)
        total = Y + jnp.broadcast_to(self.size, Y.shape)
        soft = jnp.tensordot(w, jax.nn.softplus(H), 1)
        return jnp.sum(self._log_constant(Y) + Y * h - total * soft, -1)

    def log_predictive(self, mean: Array, variance: Array, Y: Array) -> Array:
        """log ∫ p(y|f) N(f; m, v) df by Gauss–Hermite around the integrand's mode.

        Its logarithm is concave in f, and the mode lies between m and log y, where p(y|f) has its
        own, no further from m than v·max(y, r): Newton's steps, cut to a shrinking bracket.
        """
        h, Y = self._in_sizes(self.log_rate(mean, Y)), self.counted(Y)
        r = jnp.broadcast_to(self.size, Y.shape)
        v, total = _deviation(variance) ** 2, Y + r
        own = jnp.log(jnp.maximum(Y, 1e-300) / r)
        low = jnp.maximum(jnp.minimum(h, own), h - v * r)
        high = jnp.minimum(jnp.maximum(h, own), h + v * Y)
        x = 0.5 * (low + high)
        for _ in range(30):
            share = jax.nn.sigmoid(x)
            slope = Y - total * share - (x - h) / v
            low, high = jnp.where(slope > 0, x, low), jnp.where(slope > 0, high, x)
            newton = x + slope / (total * share * (1.0 - share) + 1.0 / v)
            x = jnp.where((newton > low) & (newton < high), newton, 0.5 * (low + high))
        share = jax.nn.sigmoid(x)
        precision = 1.0 + v * total * share * (1.0 - share)
        H, weight = _around(x, jnp.sqrt(v / precision))
        log_joint = (
            Y[None] * H - total[None] * jax.nn.softplus(H) - 0.5 * (H - h[None]) ** 2 / v[None]
        )
        log_integral = logsumexp(weight + log_joint, axis=0) - 0.5 * jnp.log(precision)
        return jnp.sum(self._log_constant(Y) + log_integral, -1)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """E y = E μ, and Var y = E[μ + μ²/r] + Var μ, where E μ² = (E μ)² e^v."""
        rate = jnp.exp(self.log_rate(mean) + 0.5 * variance)
        inverse = jnp.broadcast_to(jnp.exp(-self.log_size), rate.shape)
        return rate, rate + rate**2 * (jnp.expm1(variance) + inverse * jnp.exp(variance))

    def sample(self, key: Array, F: Array) -> Array:
        key_gamma, key_count = jax.random.split(key)
        r = jnp.broadcast_to(self.size, F.shape)
        log_factor = jax.random.loggamma(key_gamma, r, F.shape, F.dtype) - jnp.log(r)
        rate = jnp.exp(jnp.minimum(self.log_rate(F) + log_factor, 40.0))
        return jax.random.poisson(key_count, rate).astype(F.dtype)


@pytree
@dataclass(frozen=True)
class Bernoulli(_Exact):
    """Yes or no, coded 1 and 0: p(y=1|f) = Φ(f)."""

    n_outputs: int = field(metadata=dict(static=True))

    @classmethod
    def create(cls, n_outputs: int, /, dtype=jnp.float64) -> Self:
        return cls(n_outputs)

    @property
    def n_latents(self) -> int:
        return self.n_outputs

    def log_density(self, F: Array, Y: Array) -> Array:
        """log Φ(±f), summed over outputs."""
        return jnp.sum(log_normal_cdf((2.0 * Y - 1.0) * F), -1)

    def expected_log_density(
        self, mean: Array, variance: Array, Y: Array, draws: Array | None
    ) -> Array:
        F, w = _at_nodes((2.0 * Y - 1.0) * mean, variance)
        return jnp.sum(jnp.tensordot(w, log_normal_cdf(F), 1), -1)

    def log_predictive(self, mean: Array, variance: Array, Y: Array) -> Array:
        """log Φ(±m/√(1+v)), summed over outputs."""
        return self.log_density(mean / jnp.sqrt(1.0 + variance), Y)

    def class_probabilities(self, mean: Array, variance: Array) -> Array:
        """p(y=0), p(y=1) (B, 2)."""
        if self.n_outputs != 1:
            raise ValueError("Class probabilities need a single yes-or-no output.")
        z = mean / jnp.sqrt(1.0 + variance)
        return jnp.concatenate([ndtr(-z), ndtr(z)], -1)

    def sample(self, key: Array, F: Array) -> Array:
        return (jax.random.uniform(key, F.shape, F.dtype) < ndtr(F)).astype(F.dtype)


@pytree
@dataclass(frozen=True)
class RobustMax(_Exact):
    """One of C classes, that of the largest latent, but for a share ε of wrong labels.

    p(y|f) = 1−ε where y = argmax f, else ε/(C−1) (Hernández-Lobato et al. 2011).
    """

    n_classes: int = field(metadata=dict(static=True))
    epsilon: float = field(default=1e-3, metadata=dict(static=True))

    @classmethod
    def create(cls, n_classes: int, /, dtype=jnp.float64, epsilon: float = 1e-3) -> Self:
        if n_classes < 2 or not 0 < epsilon < 1:
            raise ValueError("Robust-max needs at least two classes and an ε between 0 and 1.")
        return cls(n_classes, epsilon)

    @property
    def n_latents(self) -> int:
        return self.n_classes

    @property
    def _log_right(self) -> float:
        return float(np.log1p(-self.epsilon))

    @property
    def _log_wrong(self) -> float:
        return float(np.log(self.epsilon / (self.n_classes - 1)))

    def _largest(self, mean: Array, variance: Array, Y: Array) -> Array:
        """P(f_y > f_j for all j ≠ y) = E_{f_y} Π_{j≠y} Φ((f_y − m_j)/√v_j)   (B,).

        Good to 1e-5 where v_j ≥ 0.3 v_y; a far narrower rival is a step between two nodes.
        """
        deviation = _deviation(variance)
        m_y, s_y = _of_class(mean, Y), _of_class(deviation, Y)  # (B,)
        m, scale = mean.T, _SQRT_HALF / deviation.T  # (C, B)
        observed = _is_class(Y, self.n_classes).T

        # Node by node, its values made anew for the derivative: they stay in the cache.
        @jax.checkpoint
        def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
            x, w = node
            cdf = 0.5 * jax.lax.erfc((m - (m_y + s_y * x)[None]) * scale)
            return total + w * _product(jnp.where(observed, 1.0, cdf)), None

        nodes = jnp.asarray(_NODES, mean.dtype), jnp.asarray(_WEIGHTS, mean.dtype)
        return jax.lax.scan(add, jnp.zeros_like(m_y), nodes)[0]

    def log_density(self, F: Array, Y: Array) -> Array:
        right = jnp.argmax(F, -1) == Y[..., 0]
        return jnp.where(right, self._log_right, self._log_wrong).astype(F.dtype)

    def expected_log_density(
        self, mean: Array, variance: Array, Y: Array, draws: Array | None
    ) -> Array:
        """p log(1−ε) + (1−p) log(ε/(C−1)), p the probability that f_y is the largest."""
        p = self._largest(mean, variance, Y)
        return self._log_wrong + p * (self._log_right - self._log_wrong)

    def _each_largest(self, mean: Array, variance: Array) -> Array:
        """P(f_c is the largest) = ∫ N(t; m_c, v_c) Π_{j≠c} Φ((t − m_j)/√v_j) dt   (B, C).

        By Gauss–Legendre between places where any class has mass, so that a narrow rival, which is
        a step to the others, is resolved by places of its own.
        """
        m, s = mean.T, _deviation(variance).T  # (C, B)
        z = jnp.linspace(-6.0, 6.0, 13, dtype=mean.dtype)
        edges = jnp.sort((m[None] + s[None] * z[:, None, None]).reshape(-1, len(mean)), 0)
        x, w = np.polynomial.legendre.leggauss(4)
        half, middle = 0.5 * (edges[1:] - edges[:-1]), 0.5 * (edges[1:] + edges[:-1])
        places = jnp.concatenate([middle + float(a) * half for a in x])
        weights = jnp.concatenate([float(a) * half for a in w])

        def add(total: Array, node: tuple[Array, Array]) -> tuple[Array, None]:
            t, weight = node
            u = (t[None] - m) / s
            log_cdf = log_normal_cdf(jnp.maximum(u, -30.0))
            others = jnp.sum(log_cdf, 0)[None] - log_cdf
            density = jnp.exp(jnp.maximum(-0.5 * u * u, -600.0) + others) / (s * _SQRT_2PI)
            return total + weight[None] * density, None

        return jax.lax.scan(add, jnp.zeros_like(m), (places, weights))[0].T

    def class_probabilities(self, mean: Array, variance: Array) -> Array:
        """(1−ε) p_c + ε/(C−1) (1−p_c), the quadrature's p divided by their sum."""
        p = self._each_largest(mean, variance)
        p = p / jnp.sum(p, -1, keepdims=True)
        return (1 - self.epsilon) * p + self.epsilon / (self.n_classes - 1) * (1.0 - p)

    def log_predictive(self, mean: Array, variance: Array, Y: Array) -> Array:
        return jnp.log(_of_class(self.class_probabilities(mean, variance), Y))

    def sample(self, key: Array, F: Array) -> Array:
        key_wrong, key_shift = jax.random.split(key)
        largest = jnp.argmax(F, -1, keepdims=True)
        wrong = jax.random.uniform(key_wrong, largest.shape, F.dtype) < self.epsilon
        shift = jax.random.randint(key_shift, largest.shape, 1, self.n_classes)
        return jnp.where(wrong, (largest + shift) % self.n_classes, largest).astype(F.dtype)


@pytree
@dataclass(frozen=True)
class Softmax:
    """One of C classes: p(y|f) = e^{f_y} / Σ_j e^{f_j}."""

    n_classes: int = field(metadata=dict(static=True))

    @classmethod
    def create(cls, n_classes: int, /, dtype=jnp.float64) -> Self:
        if n_classes < 2:
            raise ValueError("Softmax needs at least two classes.")
        return cls(n_classes)

    @property
    def n_latents(self) -> int:
        return self.n_classes

    @property
    def n_draws(self) -> int:
        return self.n_classes

    def log_density(self, F: Array, Y: Array) -> Array:
        return _of_class(F, Y) - logsumexp(F, axis=-1)

    def expected_log_density(
        self, mean: Array, variance: Array, Y: Array, draws: Array | None
    ) -> Array:
        """m_y − E[log Σ_j e^{f_j}], the second sampled, without bias, by one mirrored pair m ± ε√v.

        logsumexp is nearly linear over q, and a pair cancels the linear part of its noise for the
        price of one draw; what is left is small beside the noise of the minibatch.
        """
        assert draws is not None
        noise = _deviation(variance) * draws
        pair = logsumexp(mean + noise, axis=-1) + logsumexp(mean - noise, axis=-1)
        return _of_class(mean, Y) - 0.5 * pair

    def _log_probabilities(self, mean: Array, variance: Array) -> Array:
        """log E[softmax(f)] (B, C), unlikely classes as exactly as likely ones.

        softmax(f) is the law of the largest of f_j + g_j, g_j Gumbel's. These are independent, so
        that one integral over the largest, t, is left:
        E softmax(f)_c = ∫ p_c(t) Π_{j≠c} F_j(t) dt,
        F_j(t) = E exp(−e^{f_j − t}),  p_c(t) = F_c'(t) = E e^{f_c − t} exp(−e^{f_c − t})
        By the trapezoid rule in t and Gauss–Hermite in f: good to 1e-5 nats where v ≤ 1, to 2e-4
        at 4, to 0.04 at 16.
        """
        m, s = mean, _deviation(variance)
        # From where the likeliest class has no mass, a tilt by e^f included, to e^−14 of it.
        low = jnp.max(m - s * (6.0 + jnp.minimum(s, 6.0)), -1, keepdims=True) - 3.5
        step = (jnp.max(m + 6.0 * s, -1, keepdims=True) + 14.0 - low) / (N_STEPS - 1)
        half = N_NODES // 2
        nodes = [(float(x), float(w)) for x, w in zip(_NODES[half:], _WEIGHTS[half:], strict=True)]
        tiny = float(jnp.finfo(mean.dtype).tiny)

        def add(total: Array, i: Array) -> tuple[Array, None]:
            at = m - jnp.broadcast_to(low + i * step, m.shape)
            z = jnp.exp(jnp.minimum(at, 80.0))
            cdf, slope = jnp.zeros_like(m), jnp.zeros_like(m)
            for x, w in nodes:
                up = jnp.exp(jnp.minimum(s * x, 80.0))
                for factor in (up, 1.0 / up):
                    weighed = w * jnp.exp(-z * factor)
                    cdf, slope = cdf + weighed, slope + factor * weighed
            log_cdf, log_slope = (jnp.log(jnp.maximum(a, tiny)) for a in (cdf, slope))
            others = jnp.sum(log_cdf, -1, keepdims=True) - log_cdf
            return jnp.logaddexp(total, at + log_slope + others), None

        start = jnp.full_like(mean, -jnp.inf)
        total, _ = jax.lax.scan(add, start, jnp.arange(N_STEPS, dtype=mean.dtype))
        return total - logsumexp(total, axis=-1, keepdims=True)

    def class_probabilities(self, mean: Array, variance: Array) -> Array:
        return jnp.exp(self._log_probabilities(mean, variance))

    def log_predictive(self, mean: Array, variance: Array, Y: Array) -> Array:
        return _of_class(self._log_probabilities(mean, variance), Y)

    def sample(self, key: Array, F: Array) -> Array:
        return jax.random.categorical(key, F, axis=-1)[..., None].astype(F.dtype)


LIKELIHOODS: dict[str, type] = {
    "gaussian": Gaussian,
    "student_t": StudentT,
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "bernoulli": Bernoulli,
    "robust_max": RobustMax,
    "softmax": Softmax,
}


FAMILIES: tuple[tuple[str, ...], ...] = (
    ("gaussian", "student_t", "poisson", "negative_binomial", "bernoulli"),
    ("robust_max", "softmax"),
)
"""Likelihoods that one compiled program serves."""


LIKELIHOOD_PARAMETERS = ("log_variance", "log_scale", "log_excess", "offset", "log_size")


def expected_and_gradient(
    family: int, kind: Array, parameters: Array, mean: Array, variance: Array, Y, weight, draws
):
    """Σ_i w_i E[log p(y_i|f_i)] and its gradient by parameters, mean and variance.

    The likelihood is chosen by its place in the family; `parameters` are those of all kinds.
    """
    P = mean.shape[1]

    def of(name: str):
        def value(parameters, mean, variance):
            rows = parameters.reshape(-1, P)
            own: dict[str, Array] = dict(zip(LIKELIHOOD_PARAMETERS, rows, strict=True))
            kind = LIKELIHOODS[name]
            names = [f.name for f in fields(kind) if f.name in own]
            likelihood = kind(**{n: own[n] for n in names}) if names else kind.create(P)
            return likelihood.expected_log_density(mean, variance, Y, draws) @ weight

        return jax.value_and_grad(value, argnums=(0, 1, 2))

    branches = [of(name) for name in FAMILIES[family]]
    return jax.lax.switch(kind, branches, parameters, mean, variance)


OF_TASK: dict[str, tuple[str, ...]] = {
    "regression": ("gaussian", "student_t"),
    "counts": ("poisson", "negative_binomial"),
    "binary": ("bernoulli",),
    "multiclass": ("softmax", "robust_max"),
}
"""The likelihoods that suit a task; the first is taken where nobody chose."""


def for_task(task: str, n_outputs: int = 1, n_classes: int = 0) -> str:
    """The name of the likelihood that suits a task, where nobody chose one."""
    if task in ("binary", "multiclass") and n_outputs != 1:
        raise ValueError(f"Classes must be given in one column, not in {n_outputs}.")
    if task not in OF_TASK:
        raise ValueError(f"No likelihood for the task {task!r}: use {', '.join(OF_TASK)}.")
    return OF_TASK["binary" if task == "multiclass" and n_classes <= 2 else task][0]
