"""One compiled training step for every model of a size class.

A program of its own for each depth, number of inducing points, kernel and likelihood takes seconds
to compile. Here all of these are data. The layers' parameters are padded to the sizes of a class
and stacked; loops run over the layers, outputs, rows and samples that are in use; kernels and
likelihoods are chosen by number. What is computed for a layer is `layers.py`'s own.

Padding does not touch the result: an inducing point that is not in use has a row of the identity in
Kzz, no covariance with any row, and q at the prior, so that its KL is zero and its gradients are
too; inputs and outputs that are not in use are zero.
"""

import math
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from dgp_core.gp.kernels import KERNELS, AnyKernel
from dgp_core.gp.layers import (
    Factors,
    Layer,
    Normal,
    Used,
    conditional,
    factorise,
    inducing_gram,
    inverse_cholesky,
    kl_from_prior,
    put,
    take,
)
from dgp_core.gp.likelihoods import (
    FAMILIES,
    LIKELIHOOD_PARAMETERS,
    LIKELIHOODS,
    expected_and_gradient,
)
from dgp_core.gp.model import DRAWN_ROWS, Bound, DeepGP, ModelSpec, row_draws
from dgp_core.gp.pytree import pytree
from dgp_core.training.optimise import (
    ADAM,
    Rates,
    TrainState,
    natural_step,
    rates_at,
    recovered,
)
from dgp_core.training.train import LONGEST_CHUNK, TrainSpec, step_keys, window_offset

MOST_LAYERS = 5

Array = Any
"""JAX's, NumPy's, or a shape that stands for one."""


class Size(NamedTuple):
    """A size class: all that a program is compiled for."""

    inducing: int
    """M at the most."""
    width: int
    """Outputs of a layer at the most, the likelihood's latents among them."""
    inputs: int
    """Columns of X at the most."""
    beside: bool
    """Whether there is room for x beside what enters an inner layer."""
    latents: int
    """Outputs of the last layer, exactly."""
    columns: int
    """Of Y, exactly."""
    family: int
    """Of the likelihood, in FAMILIES."""
    rows: int
    """Of X that are stored, at the most."""

    @property
    def entering(self) -> int:
        """Inputs of a layer at the most."""
        return max(self.inputs, self.width + self.inputs * self.beside)

    @property
    def of_layers(self) -> "Size":
        """The class of the layers alone: programs that take no rows of data need no more."""
        return self._replace(latents=1, columns=1, family=0, rows=0)

    @property
    def block(self) -> int:
        """Rows that pass through the layers together: wide layers have more to do with each."""
        return DRAWN_ROWS if self.width <= 5 else 2 * DRAWN_ROWS


INDUCING = (25, 50, 100)
"""Numbers of inducing points that classes are for; the playground's own."""
SMALL = (1, 2, 5, 16, 32)
"""Widths that classes are for."""
SMALL_INPUTS = (1, 2, 16)
"""Numbers of inputs that classes are for; any other has its own."""
ROWS = (8192, 32768)
MOST_WIDE_ROWS = 1 << 22
"""Numbers in X, where a class has more inputs than SMALL_INPUTS."""


def size_of(
    spec: ModelSpec, n_inputs: int, n_latents: int, n_rows: int, n_columns: int, batch: int
) -> Size | None:
    """The smallest class that holds a model and its rows; None where it needs a program of its own.

    A program of its own serves deeper, larger and wider models, sums and products of kernels,
    single precision, and the mean-field posterior, which has parameters for every row.
    """
    if spec.mean_field:
        return None
    widths = (*spec.inner_widths(n_inputs), n_latents)
    M = [m for m in INDUCING if m >= max(spec.inducing_counts)]
    W = [w for w in SMALL if w >= max(widths)]
    D = [d for d in SMALL_INPUTS if d >= n_inputs] or [n_inputs]
    known = all(name in KERNELS for name in spec.kernel_names)
    if not (M and W and known and spec.layers <= MOST_LAYERS and spec.dtype == jnp.float64):
        return None
    small = n_inputs <= SMALL_INPUTS[-1]
    stored = n_rows + (batch if batch < n_rows else 0) + 2 * DRAWN_ROWS
    R = [r for r in ROWS if r >= stored]
    if not small:  # pictures: as many as there are, in powers of two
        R = [1 << (stored - 1).bit_length()]
        if R[0] * n_inputs > MOST_WIDE_ROWS:
            return None
    if not R:
        return None
    width = max(W[0], D[0]) if small else W[0]
    family = next(i for i, names in enumerate(FAMILIES) if spec.likelihood in names)
    # A single input is told apart by a difference, which rounds less than a product would.
    beside = spec.mean_function == "concatenate" or (small and n_inputs > 1)
    return Size(M[0], width, D[0], beside, n_latents, n_columns, family, R[0])


@pytree
@dataclass(frozen=True)
class Layout:
    """What of a size class a model uses: data to the program, and no parameter."""

    depth: Array
    kinds: Array
    """Each layer's kernel (L,)."""
    used: Used
    """Of each layer (L,)."""
    mean_weights: Array
    """(L, E, W)."""
    noisy: Array
    """Whether a layer has noise (L,)."""
    concatenate: Array
    likelihood: Array
    """Its place in the family."""


@pytree
@dataclass(frozen=True)
class Parameters:
    """Every layer's parameters as a row of numbers (L, n), and the likelihood's (k,)."""

    layers: Array
    likelihood: Array


@pytree
@dataclass(frozen=True)
class GenericState:
    """A `TrainState` in the form that the program of a size class takes."""

    parameters: Parameters
    first: Parameters
    """Adam's mean of gradients."""
    second: Parameters
    """And of their squares."""
    count: Array
    key: Array
    step: Array
    jitter: Array
    caution: Array
    failures: Array
    streak: Array


class Batches(NamedTuple):
    """Training rows, padded to a class's columns and rows."""

    X: Array
    """(R, D): shuffled where minibatches are drawn, the first ones again behind the last."""
    Y: Array
    n: Array
    """How many different rows there are."""
    batch: Array
    """Rows a step: n of them, or fewer."""


@lru_cache
def _layer_form(size: Size):
    """The shapes of a layer's parameters in a class, in the order of their row of numbers."""
    M, W, E = size.inducing, size.width, size.entering
    return {
        "kernel": AnyKernel.parameters(E),
        "inducing": (M, E),
        "log_noise": (),
        "q_mean": (M, W),
        "q_factor": (W, M, M),
    }


def _unravel(size: Size, row) -> dict:
    """A row of numbers, or the part of it before q, as parameters."""
    form, parameters, start = _layer_form(size), {}, 0
    flat = [("kernel", name, shape) for name, shape in form["kernel"].items()]
    flat += [(None, name, shape) for name, shape in form.items() if name != "kernel"]
    parameters["kernel"] = {}
    for group, name, shape in flat:
        end = start + math.prod(shape)
        if end > row.shape[0]:
            break
        into = parameters if group is None else parameters[group]
        into[name], start = row[start:end].reshape(shape), end
    return parameters


def _ravel(parameters: dict) -> list:
    names = ("inducing", "log_noise", "q_mean", "q_factor")
    own = [parameters["kernel"][name] for name in AnyKernel.parameters(0)]
    return [leaf.reshape(-1) for leaf in (*own, *(parameters[name] for name in names))]


def _shapes(size: Size) -> list[tuple[int, ...]]:
    """The shapes of a layer's parameters in order, those of q last."""
    form = _layer_form(size)
    return [*form["kernel"].values(), *(form[n] for n in form if n != "kernel")]


def _n_before_q(size: Size) -> int:
    """Numbers of a layer's row before those of q."""
    return sum(math.prod(shape) for shape in _shapes(size)[:-2])


def _room(shapes):
    """Room for such values of every layer."""
    return jax.tree.map(lambda a: jnp.zeros((MOST_LAYERS, *a.shape), a.dtype), shapes)


class LayerProgram:
    """The layers of a model of a size class, by their index."""

    def __init__(self, size: Size, layout: Layout):
        self.size, self.layout = size, layout

    def kernel_and_noise(self, own: dict, l):
        layout = self.layout
        noise = jnp.where(take(layout.noisy, l), jnp.exp(own["log_noise"]), 0)
        return AnyKernel(take(layout.kinds, l), **own["kernel"]), noise

    def layer(self, row, l) -> Layer:
        own, layout = _unravel(self.size, row), self.layout
        return Layer(
            kernel=AnyKernel(take(layout.kinds, l), **own["kernel"]),
            inducing=own["inducing"],
            q_mean=own["q_mean"],
            q_factor=own["q_factor"],
            mean_weights=None,
            log_noise=jnp.where(take(layout.noisy, l), own["log_noise"], -jnp.inf),
            used=take(layout.used, l),
        )

    def factors(self, before_q, weights, spread, l) -> Factors:
        """A layer's factors: of the parameters before q, and of what was made of q."""
        own, layout = _unravel(self.size, before_q), self.layout
        kernel, noise = self.kernel_and_noise(own, l)
        mean_weights, used = take(layout.mean_weights, l), take(layout.used, l)
        return Factors(kernel, own["inducing"], mean_weights, noise, weights, spread, None, used)

    def entering(self, H, X, l):
        """What enters a layer: x itself, or what left the one below, with x beside it if wanted."""
        E, W, D = self.size.entering, self.size.width, self.size.inputs
        n = min(W, E)
        own = jnp.pad(H[:, :n], ((0, 0), (0, E - n)))
        if E >= W + D:
            beside = jnp.where(self.layout.concatenate, X, 0)
            own = jnp.concatenate([H, beside, own[:, W + D :]], 1)
        return jnp.where(l > 0, own, jnp.pad(X, ((0, 0), (0, E - D))))

    def marginals(self, before_q, weights, spread, H, X, l) -> Normal:
        factors = self.factors(before_q, weights, spread, l)
        return conditional(factors, self.entering(H, X, l))

    def sample(self, q: Normal, eps, l):
        real = jnp.arange(self.size.width)[None] < take(self.layout.used.outputs, l)
        return jnp.where(real, q.mean + eps * jnp.sqrt(jnp.where(real, q.variance, 1)), 0)


def train_chunk(
    state: GenericState,
    layout: Layout,
    rows: Batches,
    n_data,
    n_steps,
    rates: Rates,
    samples,
    *,
    size: Size,
) -> tuple[GenericState, Bound]:
    """The next n steps of a model of this class, and the bound at each, as `train.train_chunk`."""
    dtype = state.jitter.dtype
    program = LayerProgram(size, layout)
    B, M, W, C, L = size.block, size.inducing, size.width, size.latents, layout.depth
    n_before = _n_before_q(size)
    n_blocks = -(-rows.batch // B)
    zero = jnp.zeros((B, W), dtype)
    drawn = "softmax" in FAMILIES[size.family]

    def block(made, before_q, likelihood_row, key, offset, j, carry):
        """Adds a block of rows on one sample path each: its value and gradients."""
        value_sum, row_sum, bars, inner = carry
        s, c = j // n_blocks, j % n_blocks
        X, Y = (lax.dynamic_slice_in_dim(a, offset + c * B, B) for a in (rows.X, rows.Y))
        weight = (c * B + jnp.arange(B) < rows.batch).astype(dtype)
        own = jax.random.fold_in(key, s)

        def draw(l):
            n = B // DRAWN_ROWS
            return row_draws(own, l, B, W, dtype, c * n)

        # Up through the inner layers: what enters each is kept, and its ε.
        def up(l, carry):
            H, inner = carry
            eps = draw(l)
            weights, spread = take(made, l)
            q = program.marginals(take(before_q, l), weights, spread, H, X, l)
            return program.sample(q, eps, l), put(inner, l, (H, eps))

        last = L - 1
        H, inner = lax.fori_loop(0, last, up, (zero, inner))
        inner = put(inner, last, (H, draw(last) if drawn else zero))

        # Down again: each layer's marginals once more, with the way back through them.
        def down(i, carry):
            l = last - i
            H_bar, value, row_bar, bars = carry
            H, eps = take(inner, l)
            q, back = jax.vjp(
                lambda before_q, made, H: program.marginals(before_q, made[0], made[1], H, X, l),
                take(before_q, l),
                take(made, l),
                H,
            )

            def by_likelihood():
                value, (row_bar, *q_bar) = expected_and_gradient(
                    size.family,
                    layout.likelihood,
                    likelihood_row,
                    q.mean[:, :C],
                    q.variance[:, :C],
                    Y,
                    weight,
                    eps[:, :C],
                )
                return value, row_bar, Normal(*(jnp.pad(a, ((0, 0), (0, W - C))) for a in q_bar))

            def by_sample():
                _, through = jax.vjp(lambda q: program.sample(q, eps, l), q)
                return value, row_bar, through(H_bar)[0]

            value, row_bar, q_bar = lax.cond(l == last, by_likelihood, by_sample)
            before_bar, made_bar, H_bar = back(q_bar)
            own = (before_bar, *made_bar)
            bars = put(bars, l, jax.tree.map(jnp.add, take(bars, l), own))
            return H_bar, value, row_bar, bars

        start = (zero, jnp.zeros((), dtype), jnp.zeros_like(likelihood_row), bars)
        _, value, row_bar, bars = lax.fori_loop(0, L, down, start)
        return value_sum + value, row_sum + row_bar, bars, inner

    def step(i, carry):
        state, record, inner = carry
        key_rows, key_bound = step_keys(state.key, state.step)
        offset = jnp.where(rows.batch < rows.n, window_offset(key_rows, rows.n), 0)
        theta = state.parameters
        before_q = theta.layers[:, :n_before]

        def make(l, carry):
            made, inverses = carry
            layer = program.layer(take(theta.layers, l), l)
            inverse = inverse_cholesky(inducing_gram(layer, state.jitter))
            factors = factorise(layer, state.jitter, inverse)
            return put(made, l, (factors.weights, factors.spread)), put(inverses, l, inverse)

        shapes = jnp.zeros((M, W), dtype), jnp.zeros((W, M, M), dtype)
        made, inverses = lax.fori_loop(
            0, L, make, (_room(shapes), jnp.zeros((MOST_LAYERS, M, M), dtype))
        )
        bars = (jnp.zeros_like(before_q), *_room(shapes))
        start = (jnp.zeros((), dtype), jnp.zeros_like(theta.likelihood), bars, inner)
        add = partial(block, made, before_q, theta.likelihood, key_bound, offset)
        sums = lax.fori_loop(0, samples * n_blocks, add, start)
        fit, row_bar, bars, inner = sums
        scale = n_data / (rows.batch * samples)

        learning_rate, natural_rate = rates_at(rates, state.step)
        speed = learning_rate * state.caution

        def adam(theta, gradient, first, second):
            own = optax.ScaleByAdamState(state.count, first, second)
            update, moments = ADAM.update(gradient, own)
            moments = cast(optax.ScaleByAdamState, moments)
            parts = (jnp.asarray(part) for part in (update, moments.mu, moments.nu))
            update, mu, nu = parts
            return theta + speed * update, mu, nu

        def update(l, carry):
            moved, kl, total = carry
            row = take(theta.layers, l)

            def to_factors(row):
                factors = factorise(program.layer(row, l), state.jitter, take(inverses, l))
                return factors.weights, factors.spread

            before_bar, *own_bars = take(bars, l)
            gradient = jax.vjp(to_factors, row)[1](tuple(own_bars))[0]
            gradient = scale * (gradient + jnp.pad(before_bar, (0, len(row) - n_before)))
            own_kl, kl_bar = jax.value_and_grad(lambda row: kl_from_prior(program.layer(row, l)))(
                row
            )
            natural = (rates.natural_rate > 0) & (l == L - 1)
            gradient = gradient - jnp.where(natural, 0.0, 1.0) * kl_bar
            after, *moments = adam(
                row, gradient, take(state.first.layers, l), take(state.second.layers, l)
            )

            def by_nature(after):
                own, slope = _unravel(size, row), _unravel(size, gradient)
                m, C = natural_step(
                    own["q_mean"],
                    jnp.tril(own["q_factor"]),
                    slope["q_mean"],
                    slope["q_factor"],
                    natural_rate * state.caution,
                    take(layout.used, l),
                )
                return jnp.concatenate([after[:n_before], m.reshape(-1), C.reshape(-1)])

            after = lax.cond(natural, by_nature, lambda after: after, after)
            total = total + jnp.sum(after + 0 * moments[1])
            return put(moved, l, (after, *moments)), put(kl, l, own_kl), total

        start = (theta.layers, state.first.layers, state.second.layers)
        moved, kl, total = lax.fori_loop(
            0, L, update, (start, jnp.zeros(MOST_LAYERS, dtype), jnp.zeros((), dtype))
        )
        own = adam(
            theta.likelihood, scale * row_bar, state.first.likelihood, state.second.likelihood
        )
        parts = Bound(scale * fit, kl)
        good = jnp.isfinite(parts.value + total + jnp.sum(own[0] + 0 * own[2]))
        new = tuple(Parameters(*pair) for pair in zip(moved, own, strict=True))
        old = (theta, state.first, state.second)
        new = jax.tree.map(lambda a, b: jnp.where(good, a, b), new, old)
        state = replace(
            state,
            parameters=new[0],
            first=new[1],
            second=new[2],
            count=state.count + good,
            step=state.step + 1,
            **recovered(state, good),
        )
        return state, put(record, i, parts), inner

    record = Bound(jnp.zeros(LONGEST_CHUNK, dtype), jnp.zeros((LONGEST_CHUNK, MOST_LAYERS), dtype))
    inner = _room((zero, zero))
    state, record, _ = lax.fori_loop(0, n_steps, step, (state, record, inner))
    return state, record


# From a model to its place in a size class, and back.


def columns_of(model: DeepGP, size: Size) -> list[np.ndarray]:
    """Where each layer's inputs stand among those of the class."""
    D = model.layers[0].inducing.shape[1]
    below = [layer.q_mean.shape[1] for layer in model.layers[:-1]]
    beside = size.width + np.arange(D) if model.concatenate else np.arange(0)
    return [np.arange(D), *(np.concatenate([np.arange(P), beside]) for P in below)]


def _kernel_parameters(kernel) -> list[str]:
    return [f.name for f in fields(kernel)]


def _padded_layer(layer: Layer, columns: np.ndarray, size: Size) -> np.ndarray:
    """A layer's parameters as a row of a class, the rest of it zero."""
    form = jax.tree.map(np.zeros, _layer_form(size), is_leaf=lambda a: isinstance(a, tuple))
    M, P = layer.q_mean.shape
    for name in _kernel_parameters(layer.kernel):
        value = np.asarray(getattr(layer.kernel, name))
        if value.ndim:
            form["kernel"][name][columns] = value
        else:
            form["kernel"][name][()] = value
    form["inducing"][:M, columns] = layer.inducing
    form["q_mean"][:M, :P] = layer.q_mean
    form["q_factor"][:P, :M, :M] = layer.q_factor
    if layer.log_noise is not None:
        form["log_noise"][()] = layer.log_noise
    return np.concatenate(_ravel(form))


def _padded(model: DeepGP, size: Size) -> Parameters:
    rows = [
        _padded_layer(layer, columns, size)
        for layer, columns in zip(model.layers, columns_of(model, size), strict=True)
    ]
    rows += [np.zeros_like(rows[0])] * (MOST_LAYERS - len(rows))
    likelihood = np.zeros((len(LIKELIHOOD_PARAMETERS), size.latents))
    for i, name in enumerate(LIKELIHOOD_PARAMETERS):
        if hasattr(model.likelihood, name):
            likelihood[i] = getattr(model.likelihood, name)
    return Parameters(np.stack(rows), likelihood.ravel())


def layout_of(model: DeepGP, size: Size) -> Layout:
    """What of a size class a model uses."""
    layers, kernels = model.layers, list(KERNELS.values())

    def each(values, dtype) -> np.ndarray:
        return np.array([*values, *[0] * (MOST_LAYERS - len(layers))], dtype)

    weights = np.zeros((MOST_LAYERS, size.entering, size.width))
    for l, (layer, columns) in enumerate(zip(layers, columns_of(model, size), strict=True)):
        if layer.mean_weights is not None:
            weights[l, columns, : layer.q_mean.shape[1]] = layer.mean_weights
    names = FAMILIES[size.family]
    return Layout(
        depth=np.int64(len(layers)),
        kinds=each([kernels.index(type(layer.kernel)) for layer in layers], np.int32),
        used=Used(
            each([len(layer.q_mean) for layer in layers], np.int32),
            each([layer.q_mean.shape[1] for layer in layers], np.int32),
        ),
        mean_weights=weights,
        noisy=each([layer.log_noise is not None for layer in layers], bool),
        concatenate=np.bool_(model.concatenate),
        likelihood=np.int32([LIKELIHOODS[n] for n in names].index(type(model.likelihood))),
    )


class _Place(NamedTuple):
    """Where a model's parameters, in the order of `ravel_pytree`, stand in a class's."""

    size: Size
    depth: int
    layers: np.ndarray
    """Places in `Parameters.layers`, and which parameters they are of."""
    layers_of: np.ndarray
    likelihood: np.ndarray
    likelihood_of: np.ndarray

    @classmethod
    def of(cls, model: DeepGP, size: Size) -> "_Place":
        leaves, treedef = jax.tree.flatten(model)
        ends = np.cumsum([leaf.size for leaf in leaves])
        numbered = [
            np.arange(end - leaf.size + 1.0, end + 1.0).reshape(leaf.shape)
            for leaf, end in zip(leaves, ends, strict=True)
        ]
        found = _padded(jax.tree.unflatten(treedef, numbered), size)
        places = [np.flatnonzero(part) for part in (found.layers, found.likelihood)]
        owners = [
            part.ravel()[at].astype(int) - 1
            for part, at in zip((found.layers, found.likelihood), places, strict=True)
        ]
        return cls(size, len(model.layers), places[0], owners[0], places[1], owners[1])

    def pad(self, vector: np.ndarray, at_prior: bool) -> Parameters:
        """A vector of a model's form in that of the class; with `at_prior`, the rest of q is
        N(0, I)."""
        size = self.size
        M, W = size.inducing, size.width
        layers = np.zeros((MOST_LAYERS, sum(math.prod(shape) for shape in _shapes(size))))
        likelihood = np.zeros(len(LIKELIHOOD_PARAMETERS) * size.latents)
        if at_prior:
            factors = layers[: self.depth, -W * M * M :].reshape(self.depth, W, M * M)
            factors[..., :: M + 1] = 1  # their diagonals
        layers.reshape(-1)[self.layers] = vector[self.layers_of]
        likelihood[self.likelihood] = vector[self.likelihood_of]
        return Parameters(layers, likelihood)

    def unpad(self, parameters: Parameters, vector: np.ndarray) -> np.ndarray:
        """The vector, with what the class's parameters hold of it."""
        vector = vector.copy()
        # To read by .flat takes twice as long.
        vector[self.layers_of] = np.asarray(parameters.layers).reshape(-1)[self.layers]
        vector[self.likelihood_of] = np.asarray(parameters.likelihood)[self.likelihood]
        return vector


_places: dict[tuple, _Place] = {}


def _place(model: DeepGP, size: Size) -> _Place:
    leaves, treedef = jax.tree.flatten(model)
    key = (treedef, tuple(leaf.shape for leaf in leaves), size)
    if key not in _places:
        if len(_places) > MOST_PLACES:
            _places.clear()
        _places[key] = _Place.of(model, size)
    return _places[key]


MOST_PLACES = 200


def padded_parameters(model: DeepGP, size: Size) -> Parameters:
    """A model's parameters in the form of its class."""
    return _place(model, size).pad(_vector(model), True)


def _vector(model: DeepGP) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(model)])


def padded_state(state: TrainState, size: Size) -> GenericState:
    """A training state in the form of its class."""
    place, adam = _place(state.model, size), cast(optax.ScaleByAdamState, state.adam)
    return GenericState(
        place.pad(_vector(state.model), True),
        place.pad(np.asarray(adam.mu), False),
        place.pad(np.asarray(adam.nu), False),
        adam.count,
        state.key,
        state.step,
        state.jitter,
        state.caution,
        state.failures,
        state.streak,
    )


def unpadded_state(state: GenericState, before: TrainState, size: Size) -> TrainState:
    """The training state of the same model as the one before it."""
    place, adam = _place(before.model, size), cast(optax.ScaleByAdamState, before.adam)
    vector = place.unpad(state.parameters, _vector(before.model))
    leaves, treedef = jax.tree.flatten(before.model)
    ends = np.cumsum([leaf.size for leaf in leaves])
    leaves = [
        vector[end - leaf.size : end].reshape(leaf.shape)
        for leaf, end in zip(leaves, ends, strict=True)
    ]
    first, second = (
        place.unpad(part, np.asarray(old))
        for part, old in ((state.first, adam.mu), (state.second, adam.nu))
    )
    return TrainState(
        model=jax.tree.unflatten(treedef, leaves),
        adam=optax.ScaleByAdamState(state.count, first, second),
        key=before.key,
        step=state.step,
        jitter=state.jitter,
        caution=state.caution,
        failures=state.failures,
        streak=state.streak,
    )


def padded_batches(X: np.ndarray, Y: np.ndarray, n: int, batch: int, size: Size) -> Batches:
    """Rows in the order of `train.Rows`, in the form of a class."""

    def padded(rows: np.ndarray, width: int) -> jax.Array:
        room = np.zeros((size.rows, width))
        room[: len(rows), : rows.shape[1]] = rows
        return jax.device_put(room)

    columns = padded(X, size.inputs), padded(Y, size.columns)
    return Batches(*columns, n=np.int64(n), batch=np.int64(batch))


def example(size: Size) -> tuple:
    """What the program of a class is called with: shapes and types alone."""
    number, whole = jax.ShapeDtypeStruct((), np.float64), jax.ShapeDtypeStruct((), np.int64)
    n = sum(math.prod(shape) for shape in _shapes(size))
    parameters = Parameters(
        jax.ShapeDtypeStruct((MOST_LAYERS, n), np.float64),
        jax.ShapeDtypeStruct((len(LIKELIHOOD_PARAMETERS) * size.latents,), np.float64),
    )
    key = jax.eval_shape(lambda: jax.random.key(0))
    state = GenericState(
        parameters,
        parameters,
        parameters,
        jax.ShapeDtypeStruct((), np.int32),
        key,
        whole,
        number,
        number,
        whole,
        whole,
    )
    batches = Batches(
        jax.ShapeDtypeStruct((size.rows, size.inputs), np.float64),
        jax.ShapeDtypeStruct((size.rows, size.columns), np.float64),
        whole,
        whole,
    )
    return (
        state,
        example_layout(size),
        batches,
        number,
        whole,
        jax.tree.map(lambda _: number, TrainSpec().rates),
        whole,
    )


def example_layout(size: Size) -> Layout:
    """The shapes and types of a layout."""

    def each(dtype):
        return jax.ShapeDtypeStruct((MOST_LAYERS,), dtype)

    weights = (MOST_LAYERS, size.entering, size.width)
    return Layout(
        depth=jax.ShapeDtypeStruct((), np.int64),
        kinds=each(np.int32),
        used=Used(each(np.int32), each(np.int32)),
        mean_weights=jax.ShapeDtypeStruct(weights, np.float64),
        noisy=each(bool),
        concatenate=jax.ShapeDtypeStruct((), bool),
        likelihood=jax.ShapeDtypeStruct((), np.int32),
    )
