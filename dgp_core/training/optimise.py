"""One step uphill: Adam everywhere, natural gradients for the last layer's q(u), and no harm done.

A step that does not end in finite numbers is undone; the next one is tried with more jitter and a
smaller step, and both recover while things go well.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.flatten_util import ravel_pytree

from dgp_core.gp.layers import Used, put, take
from dgp_core.gp.model import JITTER, MOST_JITTER, Bound, DeepGP, Share, weighted_bound
from dgp_core.gp.pytree import leaf, pytree

ADAM = optax.scale_by_adam()

LEAST_CAUTION = 1e-3


class Rates(NamedTuple):
    """Numbers that may change between steps without a new compilation."""

    learning_rate: jax.Array
    """Adam's rate."""
    natural_rate: jax.Array
    """γ of the natural gradients."""
    ramp_steps: jax.Array
    """Steps over which γ climbs to its rate, by a constant factor a step from RAMP_START of it."""
    decay_steps: jax.Array
    """Steps over which both rates fall along a cosine; 0 keeps them as they are."""
    final_fraction: jax.Array
    """What is left of the rates at the end of the fall."""


RAMP_START = 1e-3


@pytree
@dataclass(frozen=True)
class TrainState:
    """The training state: all that the next step depends on."""

    model: DeepGP
    adam: optax.OptState
    """Of all parameters in one vector: a few long operations instead of many short ones."""
    key: jax.Array
    """The run's key; step t uses fold_in(key, t), so that chunks of any length give one run."""
    step: jax.Array
    jitter: jax.Array
    caution: jax.Array
    """A factor on the rates: 1 when all is well, halved by every failure."""
    failures: jax.Array
    """Steps undone so far."""
    streak: jax.Array
    """Steps undone in a row."""


def create_state(model: DeepGP, key: jax.Array) -> TrainState:
    """A model before its first step."""
    dtype = model.layers[0].inducing.dtype
    zero = leaf(0, np.int64)
    moments = leaf(np.zeros(sum(part.size for part in jax.tree.leaves(model))), dtype)
    return TrainState(
        model=model,
        adam=optax.ScaleByAdamState(leaf(0, np.int32), moments, moments),
        key=key,
        step=zero,
        jitter=leaf(JITTER, dtype),
        caution=leaf(1.0, dtype),
        failures=zero,
        streak=zero,
    )


def natural_step(
    mean: jax.Array,
    factor: jax.Array,
    g: jax.Array,
    C_bar: jax.Array,
    rate: jax.Array,
    used: Used | None = None,
) -> tuple[jax.Array, jax.Array]:
    """A natural-gradient step on q(v) = N(m, S = CCᵀ), an output at a time; returns m and C.

    In natural parameters θ₁ = S⁻¹m, θ₂ = −½S⁻¹ the step is θ + γ ∂ℒ/∂η with η₁ = m, η₂ = S + mmᵀ.
    For ℒ = fit − KL, g = ∂fit/∂m (M, P) and G = ∂fit/∂S, the KL's part is in closed form:

        S⁻¹ ← (1−γ) S⁻¹ + γ (I − 2G),      S⁻¹m ← (1−γ) S⁻¹m + γ (g − 2Gm)

    G follows from C̄ = ∂fit/∂C (P, M, M): G = sym(C⁻ᵀ Φ(CᵀC̄) C⁻¹), Φ the lower triangle with half
    its diagonal (Murray 2016). Where the likelihood is log-concave, −G is positive and the new
    covariance is one for any γ ≤ 1; where it is not, an indefinite one shows as NaN, and the step
    is undone.
    """
    eye = np.eye(len(mean), dtype=mean.dtype)
    half = np.tril(np.ones_like(eye)) - 0.5 * eye

    def one(p):
        (m, slope), (C, C_bar_p) = take((mean.T, g.T), p), take((factor, C_bar), p)
        C_inv = lax.linalg.triangular_solve(C, jnp.asarray(eye), left_side=True, lower=True)
        G = C_inv.T @ ((C.T @ C_bar_p) * half) @ C_inv
        G = 0.5 * (G + G.T)
        precision = C_inv.T @ C_inv
        theta = (1 - rate) * (precision @ m) + rate * (slope - 2 * (G @ m))
        precision = (1 - rate) * precision + rate * (eye - 2 * G)
        if used is not None:  # the others stay at the prior, to the last bit
            real = jnp.arange(len(m)) < used.inducing
            precision = jnp.where(real[:, None] & real[None], precision, eye)
        # Λ = U Uᵀ with U upper triangular gives S = C Cᵀ with C = U⁻ᵀ lower triangular.
        U = jnp.flip(jnp.linalg.cholesky(jnp.flip(precision)))
        C = lax.linalg.triangular_solve(U, jnp.asarray(eye), left_side=True, lower=False).T
        return C @ (C.T @ theta), C

    # One output after another, never a batch: see layers.py.
    n_outputs = len(factor) if used is None else used.outputs
    m, C = lax.fori_loop(0, n_outputs, lambda p, new: put(new, p, one(p)), (mean.T, factor))
    return m.T, C


def bound_and_gradient(
    model: DeepGP,
    X,
    Y,
    weight,
    key,
    n_data,
    n_samples: int,
    jitter,
    natural: bool,
    share: Share | None = None,
) -> tuple[Bound, DeepGP]:
    """The bound and its gradient.

    With `natural`, the last layer's KL is left out of the gradient: `natural_step` has it in closed
    form, and the gradient by the last layer's q is then that of the fit alone. Where devices
    share the minibatch, their parts are summed, all in one collective.
    """

    def objective(model: DeepGP):
        parts = weighted_bound(model, X, Y, weight, key, n_data, n_samples, jitter, share)
        trained = jnp.sum(parts.kl[:-1]) if natural else jnp.sum(parts.kl)
        if share is not None:
            trained /= lax.axis_size(share.axis)  # each device adds an equal part of it
        return parts.fit - trained, parts

    gradient, parts = jax.grad(objective, has_aux=True)(model)
    if share is not None:
        summands, unravel = ravel_pytree((gradient, parts.fit))
        gradient, fit = unravel(lax.psum(summands, share.axis))
        parts = replace(parts, fit=fit)
    return parts, gradient


def rates_at(rates: Rates, step: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Adam's rate and γ at a step: the cosine's fall on both, the ramp on γ alone."""
    progress = jnp.where(rates.decay_steps > 0, step / jnp.maximum(rates.decay_steps, 1), 0.0)
    cosine = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(progress, 1.0)))
    fall = rates.final_fraction + (1 - rates.final_fraction) * cosine
    ramp = jnp.clip(1 - step / jnp.maximum(rates.ramp_steps, 1), 0.0, 1.0)
    left = jnp.where(rates.ramp_steps > 0, ramp, 0.0)
    return rates.learning_rate * fall, rates.natural_rate * fall * RAMP_START**left


def train_step(
    state: TrainState,
    X,
    Y,
    weight,
    key,
    n_data,
    rates: Rates,
    n_samples: int,
    natural: bool,
    share: Share | None = None,
) -> tuple[TrainState, Bound]:
    """One step from one minibatch; where it fails, the state before it with more caution."""
    model = state.model
    parts, gradient = bound_and_gradient(
        model, X, Y, weight, key, n_data, n_samples, state.jitter, natural, share
    )
    learning_rate, natural_rate = rates_at(rates, state.step)
    before, unravel = ravel_pytree(model)
    updates, adam = ADAM.update(ravel_pytree(gradient)[0], state.adam)
    after = before + (learning_rate * state.caution).astype(before.dtype) * jnp.asarray(updates)
    if natural:
        last, slope = model.layers[-1], gradient.layers[-1]
        gamma = (natural_rate * state.caution).astype(before.dtype)
        m, C = natural_step(last.q_mean, last.factor, slope.q_mean, slope.q_factor, gamma)
        moved = unravel(after)
        layers = (*moved.layers[:-1], replace(moved.layers[-1], q_mean=m, q_factor=C))
        after = ravel_pytree(replace(moved, layers=layers))[0]

    # One NaN or infinity anywhere makes this sum one (0 · ∞ is NaN): in a parameter, or in Adam's
    # squares, where it would hold that parameter still for good.
    squares = adam.nu  # pyright: ignore[reportAttributeAccessIssue]
    good = jnp.isfinite(parts.value + jnp.sum(after + 0 * squares))

    def keep(new, old):
        return jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)

    return replace(
        state,
        model=unravel(keep(after, before)),
        adam=keep(adam, state.adam),
        step=state.step + 1,
        **recovered(state, good),
    ), parts


def recovered(state, good: jax.Array) -> dict[str, jax.Array]:
    """Jitter, caution and the counts of failures after a step that was good or not."""
    failed = 1 - good.astype(jnp.int64)
    more, less = 10 * state.jitter, 0.9 * state.jitter
    return {
        "jitter": jnp.where(good, jnp.maximum(less, JITTER), jnp.minimum(more, MOST_JITTER)),
        "caution": jnp.where(
            good,
            jnp.minimum(1.05 * state.caution, 1.0),
            jnp.maximum(0.5 * state.caution, LEAST_CAUTION),
        ),
        "failures": state.failures + failed,
        "streak": (state.streak + failed) * failed,
    }
