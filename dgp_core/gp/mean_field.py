"""The mean-field posterior of Damianou & Lawrence (2013), to see what independence costs.

The model is the same: h⁰ = x, h^l = f^l(h^{l−1}) + noise of variance σ_l², each f^l a sparse GP.
But what enters a layer has a Gaussian of its own for every row, independent of what left the layer
below:

    q = Π_l p(f^l | u^l; h^{l−1}) q(u^l) · Π_{l<L} Π_n q(h_n^l),      q(h_n^l) = N(m_n^l, s_n^l)

This takes 2N(D¹ + … + D^{L−1}) parameters. The expected log density of h^l under its layer and the
entropy of q(h^l) are together a KL divergence, so that the bound has the form of eq. 17:

    ℒ = Σ_n E_q[log p(y_n | f_n^L)] − Σ_l KL[q(u^l) ‖ p(u^l)]
        − Σ_{l<L} Σ_n E_q KL[q(h_n^l) ‖ N(f_n^l, σ_l²)]

The expectations over f are exact, given a sample of what enters its layer. New rows have no q(h):
their prediction goes through the layers' q(u), as the paper's does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from dgp_core.gp.layers import Factors, Normal, conditional
from dgp_core.gp.pytree import leaf, pytree

MOST_ROWS = 10_000
"""Rows at the most: all of them are trained at each step."""


@pytree
@dataclass(frozen=True)
class Hidden:
    """q(h_n) = N(m_n, s_n) of every training row at one inner layer."""

    mean: jax.Array
    """m (N, P)."""
    log_variance: jax.Array
    """log s (N, P)."""

    @property
    def variance(self) -> jax.Array:
        return jnp.exp(self.log_variance)


def start_hidden(
    X: np.ndarray, maps: Sequence[np.ndarray], concatenate: bool, noise: float, dtype
) -> tuple[Hidden, ...]:
    """q(h) where the layers begin: at x carried through their linear maps, as sure as the noise."""
    H, hidden = X, []
    for W in maps:
        H = H @ W
        hidden.append(Hidden(leaf(H, dtype), leaf(np.full(H.shape, np.log(noise)), dtype)))
        H = np.concatenate([H, X], 1) if concatenate else H
    return tuple(hidden)


def resized(hidden: tuple[Hidden, ...], n: int) -> tuple[Hidden, ...]:
    """Room for n rows, all alike: a pattern to be filled."""
    return jax.tree.map(lambda a: jnp.broadcast_to(a[:1], (n, a.shape[1])), hidden)


def independent_path(
    factors: tuple[Factors, ...],
    hidden: tuple[Hidden, ...],
    X: jax.Array,
    draws: Sequence[jax.Array],
    concatenate: bool = False,
) -> list[Normal]:
    """Each layer's marginals of f^l + noise, given a sample of q(h^{l−1}), whatever left the layer
    below.

    ĥ^l = m^l + ε ⊙ √s^l, ε ~ N(0, 1) for each row and output
    """
    H, marginals = X, []
    for l, factor in enumerate(factors):
        marginals.append(conditional(factor, H))
        if l < len(hidden):
            H = hidden[l].mean + draws[l] * jnp.exp(0.5 * hidden[l].log_variance)
            H = jnp.concatenate([H, X], 1) if concatenate else H
    return marginals


def hidden_kl(hidden: Hidden, left: Normal, noise: jax.Array) -> jax.Array:
    """E_q(f) KL[q(h_n) ‖ N(f_n, σ²)] of each row (N,), given the layer's marginals of f + noise.

    ½ Σ_p [log(σ²/s) − 1 + (s + (m − μ)² + v) / σ²], v the variance of f without the noise
    """
    # left.variance = v + σ²
    m, s = hidden.mean, hidden.variance
    ratio = (s + (m - left.mean) ** 2 + left.variance) / noise
    return 0.5 * jnp.sum(jnp.log(noise) - hidden.log_variance - 2 + ratio, 1)
