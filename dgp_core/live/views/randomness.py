"""The two randomnesses of training: the layers' samples ε and the minibatch; what each one moves.

One estimate takes B rows b and S samples a row,

    ℒ(b, ε) = N/B Σ_{i∈b} 1/S Σ_s ℓ_i(ε_is) − KL,    ℓ_i(ε) = E[log p(y_i | f_i^L)] on one path,

and its gradient likewise. Here ε belongs to the row: to redraw the minibatch is to ask other rows,
each with the ε that it has; to redraw ε is to ask the same rows again. A minibatch is a random set
of rows; training's windows over rows shuffled once have the same law, over the shuffles.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dgp_core.gp.layers import kl_from_prior
from dgp_core.gp.model import DeepGP, factorise_all, propagate
from dgp_core.live.views.paths import all_finite, inner_widths, settled

if TYPE_CHECKING:
    from dgp_core.live.run import Run, Snapshot

SAMPLES = (1, 2, 5, 10, 20)
BATCHES = (8, 32, 128)
"""And all rows."""

MOST_ROWS = 200
"""A larger data set is thinned to so many rows, which then are the whole of it."""

REDRAWN = 6
"""Minibatches of the gradient's table."""

RESAMPLED = 3
"""Draws of ε, 20 samples a row each, crossed with every minibatch."""

ESTIMATES = 400
"""Of the bound, for each picture of its distribution."""

BLOCK = 128
"""Rows and samples that the gradient is summed over at once."""


@dataclass(frozen=True, eq=False)
class Spread:
    """Estimates of the bound (K,), one of the two randomnesses redrawn, or both."""

    samples: np.ndarray
    """ε redrawn, the minibatch kept."""
    rows: np.ndarray
    """The minibatch redrawn, every row's ε kept."""
    both: np.ndarray
    of_batch: float
    """The kept minibatch's own bound, which `samples` are estimates of: far from the whole one
    where the rows are few."""
    of_samples: float
    """The bound of all rows with the ε that they keep, which `rows` are estimates of."""

    @property
    def standard_error(self) -> float:
        """Of the mean of `both`."""
        return float(self.both.std(ddof=1) / np.sqrt(len(self.both)))


@dataclass(frozen=True, eq=False)
class GradientNoise:
    """How a group of parameters' gradient varies, for each S and B (A, C)."""

    group: str
    norm: float
    """Of the full gradient: all rows, and 60 samples a row."""
    rows: np.ndarray
    """Variance due to the rows alone, summed over the group's parameters."""
    samples: np.ndarray
    """Due to ε alone."""
    together: np.ndarray
    """Due to which ε meet which rows: it goes when either is averaged."""
    cosine: np.ndarray
    """With the full gradient, the mean over estimates."""

    @property
    def total(self) -> np.ndarray:
        return self.rows + self.samples + self.together

    @property
    def redrawn_samples(self) -> np.ndarray:
        """What redrawing ε moves while the minibatch is kept: E_b Var_ε."""
        return self.samples + self.together

    @property
    def redrawn_rows(self) -> np.ndarray:
        """What redrawing the minibatch moves while ε is kept: E_ε Var_b."""
        return self.rows + self.together


@dataclass(frozen=True, eq=False)
class NoiseView:
    """Both randomnesses at a moment of a run, for the deep model."""

    step: int
    n_rows: int
    """The data's rows, or as many of them as were taken for the whole."""
    samples: tuple[int, ...]
    """S of the table (A,)."""
    batches: tuple[int, ...]
    """B of the table (C,), the last of them all rows."""
    bound: float
    """From all rows, and 60 samples a row."""
    bound_error: float
    """Its own standard error."""
    spreads: dict[tuple[int, int], Spread]
    """Estimates of the bound for each (S, B)."""
    gradients: tuple[GradientNoise, ...]
    """All parameters first, then each group."""


@dataclass(frozen=True, eq=False)
class RowAlone:
    """One row's sampled marginals, asked alone and among all the others, with the same ε."""

    row: int
    alone: tuple[tuple[np.ndarray, np.ndarray], ...]
    """Mean and deviation of each layer's outputs (S, P), no other row there."""
    among: tuple[tuple[np.ndarray, np.ndarray], ...]
    """The same with every row of the data there."""
    difference: float
    """The largest between the two, in deviations: rounding."""


def noise_view(run: "Run", snapshot: "Snapshot", seed: int = 0) -> NoiseView:
    """What moves when ε or the minibatch is redrawn, with parameters as they are now."""
    return run.gallery.get(
        (snapshot.serial, "noise", seed), lambda: _noise_view(run, snapshot, seed)
    )


def row_alone(run: "Run", snapshot: "Snapshot", row: int, n_samples: int = 8) -> RowAlone:
    """Shows that marginals depend on nothing but their own input (paper, section 3.1)."""
    N = len(run.dataset)
    if not 0 <= row < N:
        raise ValueError(f"There is no row {row}: the data have {N}, counted from 0.")
    key = (snapshot.serial, "alone", row, n_samples)
    return run.gallery.get(key, lambda: _row_alone(run, snapshot, row, n_samples))


def _row_alone(run: "Run", snapshot: "Snapshot", row: int, S: int) -> RowAlone:
    model, X = snapshot.deep, run.scaler.inputs(run.dataset.X)
    X, place = _rows_around(X, row)
    rng = np.random.default_rng(0)
    dtype = model.layers[0].inducing.dtype
    draws = [rng.standard_normal((S, len(X), P)).astype(dtype) for P in inner_widths(model)]
    own = [eps[:, place : place + 1] for eps in draws]

    def ask(X, draws):
        X = X.astype(dtype)
        return settled(model, lambda jitter: _marginals(model, X, draws, jitter))

    among = [(m[:, place], s[:, place]) for m, s in ask(X, draws)]
    alone = [(m[:, 0], s[:, 0]) for m, s in ask(X[place : place + 1], own)]
    difference = max(
        float(np.max(np.abs(a - b) / s))
        for (m, s), others in zip(alone, among, strict=True)
        for a, b in zip((m, s), others, strict=True)
    )
    return RowAlone(row, tuple(alone), tuple(among), difference)


def _rows_around(X: np.ndarray, row: int) -> tuple[np.ndarray, int]:
    """At most MOST_ROWS rows with this one among them, and its place."""
    start = int(np.clip(row - MOST_ROWS // 2, 0, max(0, len(X) - MOST_ROWS)))
    return X[start : start + MOST_ROWS], row - start


@jax.jit
def _marginals(model: DeepGP, X, draws, jitter):
    """Mean and deviation of every layer (S, N, P) on each path."""
    factors = factorise_all(model, jitter)

    def path(draws):
        marginals = propagate(factors, X, draws, model.concatenate)
        return [(q.mean, jnp.sqrt(q.variance)) for q in marginals]

    one = [(mean[None], sd[None]) for mean, sd in path([])] if not draws else lax.map(path, draws)
    return one, all_finite(one)


def _noise_view(run: "Run", snapshot: "Snapshot", seed: int) -> NoiseView:
    model, data = snapshot.deep, run.scaler(run.dataset)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(data))[:MOST_ROWS]
    dtype = model.layers[0].inducing.dtype
    X, Y, N = data.X[rows].astype(dtype), data.Y[rows].astype(dtype), len(rows)
    batches = tuple(B for B in BATCHES if B < N) + (N,)
    sizes = [(S, B) for S in SAMPLES for B in batches]
    width = sum(inner_widths(model))
    draws = rng.standard_normal((RESAMPLED, max(SAMPLES), N, width)).astype(dtype)

    pool, kl = settled(model, lambda jitter: _row_terms(model, X, Y, draws, jitter))
    pool = pool * (len(data) / N)  # each row stands for so many
    # The first B of each order, so that a larger minibatch holds the smaller ones.
    orders = np.stack([rng.permutation(N) for _ in range(REDRAWN)])
    own = rng.integers(len(pool), size=(max(SAMPLES), N))  # which ε a row keeps
    spreads = {(S, B): _spread(pool, orders[:1, :B], own[:S], float(kl), rng) for S, B in sizes}
    n_data = np.asarray(len(data), dtype)

    def gradients(S: int, B: int, n_orders: int) -> np.ndarray:
        shape = (np.int64(n_orders), np.int64(S), np.int64(B), n_data)
        numbers = settled(
            model, lambda jitter: _gradients(model, X, Y, draws, orders, *shape, jitter)
        )
        return numbers[:n_orders]  # (b, ε, parameters)

    full = gradients(max(SAMPLES), N, 1).mean((0, 1))
    groups = _groups(model)
    parts = [[_parts(g[:, :, at], full[at]) for _, at in groups] for g in _each(gradients, sizes)]
    table = np.array(parts).reshape(len(SAMPLES), len(batches), len(groups), 4)
    return NoiseView(
        step=snapshot.step,
        n_rows=N,
        samples=SAMPLES,
        batches=batches,
        bound=float(pool.mean(0).sum() - kl),
        bound_error=float(np.sqrt((pool.var(0, ddof=1) / len(pool)).sum())),
        spreads=spreads,
        gradients=tuple(
            GradientNoise(name, float(np.linalg.norm(full[at])), *np.moveaxis(table[:, :, k], 2, 0))
            for k, (name, at) in enumerate(groups)
        ),
    )


def _each(gradients, sizes):
    return (gradients(S, B, REDRAWN) for S, B in sizes)


def _spread(
    pool: np.ndarray, kept: np.ndarray, own: np.ndarray, kl: float, rng: np.random.Generator
) -> Spread:
    """Estimates of the bound from the values ℓ_i(ε) at hand (T, N), one choice redrawn or both.

    What is not redrawn is the kept minibatch (1, B), and the ε that every row keeps (S, N).
    """
    (T, N), S, B = pool.shape, len(own), kept.shape[1]
    redrawn = rng.permuted(np.broadcast_to(np.arange(N), (ESTIMATES, N)), axis=1)[:, :B]

    def estimate(batch, which):  # (1 or K, B) and (K, S, B)
        return N / B * pool[which, batch[:, None]].mean(1).sum(1) - kl

    return Spread(
        samples=estimate(kept, rng.integers(T, size=(ESTIMATES, S, B))),
        rows=estimate(redrawn, own[np.arange(S)[None, :, None], redrawn[:, None]]),
        both=estimate(redrawn, rng.integers(T, size=(ESTIMATES, S, B))),
        of_batch=float(N / B * pool[:, kept[0]].mean(0).sum() - kl),
        of_samples=float(pool[own, np.arange(N)].mean(0).sum() - kl),
    )


def _parts(g: np.ndarray, full: np.ndarray) -> tuple[float, float, float, float]:
    """The variance of estimates g (b, ε, parameters) in two ways and together, and their cosine.

    The analysis of variance of a table with both ways at random: mean squares, and from their
    expectations σ_b² = (MS_b − MS_bε)/E, σ_ε² = (MS_ε − MS_bε)/R, σ_bε² = MS_bε, none below 0.
    """
    R, E, _ = g.shape
    mean = g.mean((0, 1))
    by_rows, by_samples = g.mean(1) - mean, g.mean(0) - mean
    rest = g - mean - by_rows[:, None] - by_samples[None]
    ms_rows = E * (by_rows**2).sum() / (R - 1)
    ms_samples = R * (by_samples**2).sum() / (E - 1)
    ms_rest = (rest**2).sum() / ((R - 1) * (E - 1))
    lengths = np.linalg.norm(g, axis=2) * np.linalg.norm(full)
    cosine = (g @ full / np.maximum(lengths, 1e-300)).mean()
    rows, samples = max(ms_rows - ms_rest, 0.0) / E, max(ms_samples - ms_rest, 0.0) / R
    return float(rows), float(samples), float(ms_rest), float(cosine)


def _trained(model: DeepGP) -> list[tuple[str, list]]:
    """The parameters that training moves, in groups with a name."""
    groups = []
    for l, layer in enumerate(model.layers):
        noise = [] if layer.log_noise is None else [layer.log_noise]
        groups += [
            (f"layer {l + 1}: q(u)", [layer.q_mean, layer.q_factor]),
            (f"layer {l + 1}: inducing inputs", [layer.inducing]),
            (f"layer {l + 1}: kernel and noise", jax.tree.leaves(layer.kernel) + noise),
        ]
    seen = jax.tree.leaves(model.likelihood)
    return groups + ([("likelihood", seen)] if seen else [])


def _groups(model: DeepGP) -> list[tuple[str, slice]]:
    """Every group's place in the vector of all parameters, all of them first."""
    named, start = [], 0
    for name, leaves in _trained(model):
        size = sum(leaf.size for leaf in leaves)
        named.append((name, slice(start, start + size)))
        start += size
    return [("all parameters", slice(0, start)), *named]


def _split_draws(model: DeepGP, eps) -> list:
    """ε of rows (B, ΣP), a part for every inner layer."""
    widths = inner_widths(model)
    return jnp.split(eps, np.cumsum(widths)[:-1], 1) if widths else []


def _expected(model: DeepGP, factors, likelihood, X, Y, eps, key):
    """ℓ_i(ε_i) of each row (B,)."""
    q = propagate(factors, X, _split_draws(model, eps), model.concatenate)[-1]
    draws = jax.random.normal(key, q.mean.shape, q.mean.dtype) if likelihood.n_draws else None
    return likelihood.expected_log_density(q.mean, q.variance, Y, draws)


@jax.jit
def _row_terms(model: DeepGP, X, Y, draws, jitter):
    """ℓ_i(ε) for all draws of ε together (E·S, N), and the KL of all layers."""
    factors = factorise_all(model, jitter)
    E, S, N, width = draws.shape

    def terms(pair):
        index, eps = pair
        key = jax.random.fold_in(jax.random.key(0), index)
        return _expected(model, factors, model.likelihood, X, Y, eps, key)

    pool = lax.map(terms, (jnp.arange(E * S), draws.reshape(E * S, N, width)))
    kl = sum(kl_from_prior(layer) for layer in model.layers)
    return (pool, kl), all_finite((pool, kl))


@jax.jit
def _gradients(model: DeepGP, X, Y, draws, orders, n_orders, S, B, n_data, jitter):
    """The bound's gradient from each minibatch and draw of ε (R, E, parameters).

    The minibatches are the first B of the first n_orders orders of the rows (R, N); S, B and
    n_orders are numbers, so that one compilation serves all. Rows and samples are taken BLOCK at a
    time, and their sum goes back through the layers' factors once.
    """
    factors, back = jax.vjp(lambda model: factorise_all(model, jitter), model)
    (R, N), E = orders.shape, len(draws)
    less = jax.grad(lambda m: sum(kl_from_prior(layer) for layer in m.layers))(model)

    def total(parameters, order, e, i):
        j = i * BLOCK + jnp.arange(BLOCK)
        row, sample = order[j % B], jnp.minimum(j // B, draws.shape[1] - 1)
        key = jax.random.fold_in(jax.random.key(1), e * N + i)
        factors, likelihood = parameters
        eps = draws[e, sample, row]
        terms = _expected(model, factors, likelihood, X[row], Y[row], eps, key)
        return jnp.sum(jnp.where(j < S * B, terms, 0.0))

    def one(index, out):
        order, e = orders[index // E], index % E

        def add(i, sums):
            part = jax.grad(total)((factors, model.likelihood), order, e, i)
            return jax.tree.map(jnp.add, sums, part)

        zero = jax.tree.map(jnp.zeros_like, (factors, model.likelihood))
        sums = lax.fori_loop(0, -(-S * B // BLOCK), add, zero)
        by_factors, by_likelihood = jax.tree.map(lambda g: g * (n_data / (S * B)), sums)
        (through,) = back(by_factors)
        gradient = jax.tree.map(jnp.subtract, through, less)
        gradient = replace(gradient, likelihood=by_likelihood)
        leaves = [leaf.ravel() for _, group in _trained(gradient) for leaf in group]
        return out.at[index].set(jnp.concatenate(leaves))

    n_parameters = sum(leaf.size for _, group in _trained(model) for leaf in group)
    out = jnp.zeros((R * E, n_parameters), X.dtype)
    out = lax.fori_loop(0, n_orders * E, one, out).reshape(R, E, n_parameters)
    return out, all_finite(out)
