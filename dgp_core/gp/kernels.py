"""Covariance functions: how alike two inputs are.

A kernel is a pytree with unconstrained leaves; `gram(X, Z)` is the matrix k(x, z) and `diagonal(X)`
the vector k(x, x). Kernels add and multiply: `RBF.create(2) + Linear.create(2)`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from operator import add, mul
from typing import Protocol, Self

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dgp_core.gp.pytree import leaf, pytree


class Kernel(Protocol):
    """What every kernel offers."""

    def gram(self, X: jax.Array, Z: jax.Array) -> jax.Array: ...
    def diagonal(self, X: jax.Array) -> jax.Array: ...


class _Algebra:
    """Sums and products of kernels."""

    def __add__(self, other):
        return Sum((self, other))

    def __mul__(self, other):
        return Product((self, other))


def _squared_distance(X: jax.Array, Z: jax.Array) -> jax.Array:
    """‖x − z‖² for every pair (N, M).

    One input is subtracted outright. For more, the square is completed inside one product, so that
    its gradient is made of products as well: [x, ‖x‖², 1]·[−2z, 1, ‖z‖²]. Rounding may leave −1e-16
    where x = z, hence the floor.
    """
    if X.shape[1] == 1:
        return (X - Z.T) ** 2
    x2, z2 = jnp.sum(X * X, 1, keepdims=True), jnp.sum(Z * Z, 1, keepdims=True)
    left = jnp.concatenate([X, x2, jnp.ones_like(x2)], 1)
    right = jnp.concatenate([-2 * Z, jnp.ones_like(z2), z2], 1)
    return jnp.maximum(left @ right.T, 0)


@jax.custom_vjp
def _squared_exponential(X: jax.Array, Z: jax.Array, log_variance: jax.Array) -> jax.Array:
    """exp(log σ² − ‖x − z‖²/2) for every pair (N, M), with a derivative made of thin products."""
    return jnp.exp(log_variance - 0.5 * _squared_distance(X, Z))


def _squared_exponential_forward(X, Z, log_variance):
    K = _squared_exponential(X, Z, log_variance)
    return K, (X, Z, K)


def _squared_exponential_backward(residuals, K_bar):
    # With W = K̄ ⊙ K: ∂x = Σ_z w(z − x), ∂z = Σ_x w(x − z), ∂ log σ² = Σ w.
    X, Z, K = residuals
    W = K_bar * K
    over_z = W @ jnp.concatenate([Z, jnp.ones_like(Z[:, :1])], 1)
    over_x = W.T @ jnp.concatenate([X, jnp.ones_like(X[:, :1])], 1)
    X_bar = over_z[:, :-1] - over_z[:, -1:] * X
    Z_bar = over_x[:, :-1] - over_x[:, -1:] * Z
    return X_bar, Z_bar, jnp.sum(over_x[:, -1])


_squared_exponential.defvjp(_squared_exponential_forward, _squared_exponential_backward)


def _distance(r2: jax.Array) -> jax.Array:
    """√r² with a derivative of zero, not infinity, where r = 0."""
    apart = r2 > 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, r2, 1)), 0)


@dataclass(frozen=True)
class Stationary(_Algebra):
    """k(x, z) = σ² κ(r²), r² = Σ_d (x_d − z_d)² / ℓ_d²: a function of the scaled distance alone."""

    log_variance: jax.Array
    """log σ², a scalar."""
    log_lengthscales: jax.Array
    """log ℓ, one an input (D,)."""

    @classmethod
    def create(
        cls, n_inputs: int, variance: float = 2.0, lengthscale: float = 2.0, dtype=jnp.float64
    ) -> Self:
        """A kernel on n inputs with the paper's start values."""
        return cls(
            leaf(np.log(variance), dtype),
            leaf(np.full(n_inputs, np.log(lengthscale)), dtype),
        )

    @property
    def variance(self) -> jax.Array:
        return jnp.exp(self.log_variance)

    @property
    def lengthscales(self) -> jax.Array:
        return jnp.exp(self.log_lengthscales)

    def gram(self, X: jax.Array, Z: jax.Array) -> jax.Array:
        """k(x, z) for every pair (N, M)."""
        scale = jnp.exp(-self.log_lengthscales)[None]
        return self.variance * self.shape(_squared_distance(X * scale, Z * scale))

    def diagonal(self, X: jax.Array) -> jax.Array:
        """k(x, x) = σ²."""
        return jnp.broadcast_to(self.variance, X.shape[:1])

    def shape(self, r2: jax.Array) -> jax.Array:
        """κ(r²), with κ(0) = 1."""
        raise NotImplementedError


@pytree
@dataclass(frozen=True)
class RBF(Stationary):
    """κ = exp(−r²/2): infinitely smooth."""

    def gram(self, X: jax.Array, Z: jax.Array) -> jax.Array:
        """k(x, z) for every pair (N, M)."""
        scale = jnp.exp(-self.log_lengthscales)[None]
        return _squared_exponential(X * scale, Z * scale, self.log_variance)


@pytree
@dataclass(frozen=True)
class Matern12(Stationary):
    """κ = exp(−r): continuous and rough, an Ornstein–Uhlenbeck process."""

    def shape(self, r2: jax.Array) -> jax.Array:
        return jnp.exp(-_distance(r2))


@pytree
@dataclass(frozen=True)
class Matern32(Stationary):
    """κ = (1 + √3 r) exp(−√3 r): differentiable once."""

    def shape(self, r2: jax.Array) -> jax.Array:
        s = _distance(3 * r2)
        return (1 + s) * jnp.exp(-s)


@pytree
@dataclass(frozen=True)
class Matern52(Stationary):
    """κ = (1 + √5 r + 5r²/3) exp(−√5 r): differentiable twice."""

    def shape(self, r2: jax.Array) -> jax.Array:
        s = _distance(5 * r2)
        return (1 + s + 5 / 3 * r2) * jnp.exp(-s)


@pytree
@dataclass(frozen=True)
class RationalQuadratic(Stationary):
    """κ = (1 + r²/2α)^−α: RBFs of many lengthscales at once."""

    log_alpha: jax.Array
    """log α; large α is the RBF."""

    @classmethod
    def create(
        cls, n_inputs: int, variance: float = 2.0, lengthscale: float = 2.0, dtype=jnp.float64
    ) -> Self:
        """A kernel on n inputs, with α = 1."""
        base = RBF.create(n_inputs, variance, lengthscale, dtype)
        return cls(base.log_variance, base.log_lengthscales, leaf(0.0, dtype))

    def shape(self, r2: jax.Array) -> jax.Array:
        alpha = jnp.exp(self.log_alpha)
        return jnp.exp(-alpha * jnp.log1p(0.5 * r2 / alpha))


@pytree
@dataclass(frozen=True)
class Periodic(Stationary):
    """k = σ² exp(−2 Σ_d sin²(π(x_d − z_d)/p_d) / ℓ_d²): repeats itself exactly (MacKay)."""

    log_periods: jax.Array
    """log p, one an input (D,)."""

    @classmethod
    def create(
        cls, n_inputs: int, variance: float = 2.0, lengthscale: float = 2.0, dtype=jnp.float64
    ) -> Self:
        """A kernel on n inputs, with a period of 1 in each."""
        base = RBF.create(n_inputs, variance, lengthscale, dtype)
        return cls(base.log_variance, base.log_lengthscales, leaf(np.zeros(n_inputs), dtype))

    def gram(self, X: jax.Array, Z: jax.Array) -> jax.Array:
        """k(x, z): an RBF on the circle x ↦ (cos 2πx/p, sin 2πx/p), whose chord is 2 sin(π·)."""
        turn = 2 * jnp.pi * jnp.exp(-self.log_periods)[None]
        scale = jnp.exp(-self.log_lengthscales)[None]

        def circle(X):
            return jnp.concatenate([jnp.cos(turn * X) * scale, jnp.sin(turn * X) * scale], 1)

        return _squared_exponential(circle(X), circle(Z), self.log_variance)


@pytree
@dataclass(frozen=True)
class Linear(_Algebra):
    """k = Σ_d σ_d² x_d z_d: straight lines through the origin."""

    log_variances: jax.Array
    """log σ², one an input (D,)."""

    @classmethod
    def create(
        cls, n_inputs: int, variance: float = 2.0, lengthscale: float = 1.0, dtype=jnp.float64
    ) -> Self:
        """A kernel on n inputs; a slope has no lengthscale but σ/ℓ."""
        return cls(leaf(np.full(n_inputs, np.log(variance) - 2 * np.log(lengthscale)), dtype))

    @property
    def variances(self) -> jax.Array:
        return jnp.exp(self.log_variances)

    def gram(self, X: jax.Array, Z: jax.Array) -> jax.Array:
        """k(x, z) for every pair (N, M)."""
        return (X * self.variances[None]) @ Z.T

    def diagonal(self, X: jax.Array) -> jax.Array:
        """k(x, x) = Σ_d σ_d² x_d²."""
        return X**2 @ self.variances


@pytree
@dataclass(frozen=True)
class Sum(_Algebra):
    """k = k₁ + k₂ + …: either kind of likeness."""

    parts: tuple

    def gram(self, X: jax.Array, Z: jax.Array) -> jax.Array:
        return reduce(add, [k.gram(X, Z) for k in self.parts])

    def diagonal(self, X: jax.Array) -> jax.Array:
        return reduce(add, [k.diagonal(X) for k in self.parts])


@pytree
@dataclass(frozen=True)
class Product(_Algebra):
    """k = k₁ k₂ …: both kinds of likeness at once."""

    parts: tuple

    def gram(self, X: jax.Array, Z: jax.Array) -> jax.Array:
        return reduce(mul, [k.gram(X, Z) for k in self.parts])

    def diagonal(self, X: jax.Array) -> jax.Array:
        return reduce(mul, [k.diagonal(X) for k in self.parts])


KERNELS = {
    "rbf": RBF,
    "matern12": Matern12,
    "matern32": Matern32,
    "matern52": Matern52,
    "rational_quadratic": RationalQuadratic,
    "periodic": Periodic,
    "linear": Linear,
}


@pytree
@dataclass(frozen=True)
class AnyKernel:
    """One of KERNELS, chosen by a number: a program compiled for it serves them all.

    It holds the parameters of every kind; those of the others do not matter.
    """

    kind: jax.Array
    """The place of the kernel in KERNELS."""
    log_variance: jax.Array
    log_lengthscales: jax.Array
    log_alpha: jax.Array
    log_periods: jax.Array
    log_variances: jax.Array

    @classmethod
    def parameters(cls, n_inputs: int) -> dict[str, tuple[int, ...]]:
        """The shape of each parameter."""
        each = (n_inputs,)
        return {
            "log_variance": (),
            "log_lengthscales": each,
            "log_alpha": (),
            "log_periods": each,
            "log_variances": each,
        }

    def gram(self, X: jax.Array, Z: jax.Array) -> jax.Array:
        """k(x, z) for every pair (N, M)."""
        linear = self.kind == _PLACES["linear"]
        log_scale = jnp.where(linear, 0.5 * self.log_variances, -self.log_lengthscales)
        numbers = self.log_variance, self.log_alpha, log_scale, self.log_periods
        return _any_gram(X, Z, numbers, self.kind)

    def diagonal(self, X: jax.Array) -> jax.Array:
        """k(x, x)."""
        linear = self.kind == _PLACES["linear"]
        stationary = jnp.broadcast_to(jnp.exp(self.log_variance), X.shape[:1])
        return jnp.where(linear, Linear(self.log_variances).diagonal(X), stationary)


_PLACES = {name: i for i, name in enumerate(KERNELS)}


def _periodic_gram(X, Z, numbers) -> jax.Array:
    log_variance, _, log_scale, log_periods = numbers
    return Periodic(log_variance, -log_scale, log_periods).gram(X, Z)


def _with_slopes(kernel: type) -> Callable:
    """A kernel's gram, and its derivatives by r² and by log α."""

    def of_distance(r2, log_variance, log_alpha):
        if kernel is RBF:
            return jnp.exp(log_variance - 0.5 * r2)
        given = {"log_alpha": log_alpha} if kernel is RationalQuadratic else {}
        own = kernel(log_variance=log_variance, log_lengthscales=jnp.zeros(1), **given)
        return own.variance * own.shape(r2)

    def stationary(X, Z, numbers):
        log_variance, log_alpha, log_scale, _ = numbers
        scale = jnp.exp(log_scale)[None]
        r2 = _squared_distance(X * scale, Z * scale)
        at = partial(of_distance, log_variance=log_variance)
        # Entry by entry, so that a tangent of ones gives each one's own derivative.
        K, slope = jax.jvp(lambda r2: at(r2, log_alpha=log_alpha), (r2,), (jnp.ones_like(r2),))
        if kernel is not RationalQuadratic:
            return K, slope, jnp.zeros_like(K)
        one = jnp.ones((), r2.dtype)
        return K, slope, jax.jvp(lambda a: at(r2, log_alpha=a), (log_alpha,), (one,))[1]

    def periodic(X, Z, numbers):
        K = _periodic_gram(X, Z, numbers)
        return K, jnp.zeros_like(K), jnp.zeros_like(K)

    def linear(X, Z, numbers):
        K = (X * jnp.exp(2 * numbers[2])[None]) @ Z.T
        return K, jnp.zeros_like(K), jnp.zeros_like(K)

    return {Periodic: periodic, Linear: linear}.get(kernel, stationary)


_GRAMS = tuple(_with_slopes(kernel) for kernel in KERNELS.values())


@jax.custom_vjp
def _any_gram(X: jax.Array, Z: jax.Array, numbers: tuple, kind: jax.Array) -> jax.Array:
    """The gram matrix of the kernel of this number.

    `lax.switch` alone would keep what each kernel's derivative needs, zeros for all but one. Those
    of r² share one derivative here; the periodic kernel is computed again for its own.
    """
    return _any_gram_forward(X, Z, numbers, kind)[0]


def _any_gram_forward(X, Z, numbers, kind):
    K, slope, by_alpha = lax.switch(kind, _GRAMS, X, Z, numbers)
    return K, (X, Z, numbers, kind, K, slope, by_alpha)


def _any_gram_backward(residuals, K_bar):
    X, Z, numbers, kind, K, slope, by_alpha = residuals
    linear = kind == _PLACES["linear"]

    def other():
        # With W = −2 K̄ ⊙ ∂k/∂r²: ∂x = Σ_z w(z − x), ∂z = Σ_x w(x − z); of x·z: ∂x = Σ_z k̄ z.
        scale = jnp.exp(numbers[2])[None]
        x, z, own = X * scale, Z * scale, jnp.where(linear, 0.0, 1.0)
        W = jnp.where(linear, K_bar, -2 * K_bar * slope)
        over_z = W @ jnp.concatenate([z, jnp.ones_like(z[:, :1])], 1)
        over_x = W.T @ jnp.concatenate([x, jnp.ones_like(x[:, :1])], 1)
        x_bar = over_z[:, :-1] - own * over_z[:, -1:] * x
        z_bar = over_x[:, :-1] - own * over_x[:, -1:] * z
        log_scale_bar = jnp.sum(x_bar * x, 0) + jnp.sum(z_bar * z, 0)
        by_variance = own * jnp.sum(K_bar * K)
        by_numbers = by_variance, jnp.sum(K_bar * by_alpha), log_scale_bar, jnp.zeros_like(scale[0])
        return x_bar * scale, z_bar * scale, by_numbers

    def periodic():
        return jax.vjp(_periodic_gram, X, Z, numbers)[1](K_bar)

    return (*lax.cond(kind == _PLACES["periodic"], periodic, other), None)


_any_gram.defvjp(_any_gram_forward, _any_gram_backward)


def create_kernel(
    name: str, n_inputs: int, variance: float = 2.0, lengthscale: float = 2.0, dtype=jnp.float64
):
    """A kernel from its written name: "rbf", or sums of products such as "rbf*periodic + linear".

    The parts of a sum share the variance, so that k(x, x) starts where a single kernel's would.
    """
    terms = [[n.strip() for n in term.split("*")] for term in name.split("+")]
    unknown = [n for term in terms for n in term if n not in KERNELS]
    if unknown:
        raise ValueError(
            f"There is no kernel {unknown[0]!r}. Choose from {', '.join(KERNELS)}, "
            "or join them with + and *."
        )

    def product(factors):
        first, *others = factors
        kernels = [KERNELS[first].create(n_inputs, variance / len(terms), lengthscale, dtype)]
        kernels += [KERNELS[n].create(n_inputs, 1.0, lengthscale, dtype) for n in others]
        return kernels[0] if len(kernels) == 1 else Product(tuple(kernels))

    sums = [product(term) for term in terms]
    return sums[0] if len(sums) == 1 else Sum(tuple(sums))
