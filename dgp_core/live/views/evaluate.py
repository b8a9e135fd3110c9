"""A model made ready for pictures: its layers one by one, by few compiled programs.

Depth is a loop in Python, and the numbers between layers are NumPy's. What is compiled takes one
layer and a fixed number of rows, and serves every model of a size class; a model without one has
programs of its own.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dgp_core.gp.layers import Factors, Layer, Normal, conditional, factorise, inducing_gram
from dgp_core.gp.model import Bound, DeepGP
from dgp_core.gp.predict import residual_roots
from dgp_core.live.views.paths import function_normals, inner_widths, settled
from dgp_core.training.generic import (
    LayerProgram,
    Layout,
    Size,
    columns_of,
    example,
    example_layout,
    layout_of,
    padded_parameters,
)
from dgp_core.training.programs import BUILDERS, Built, Program, programs

if TYPE_CHECKING:
    from dgp_core.live.run import Run, Snapshot

T = TypeVar("T")

ROWS = 2048
"""Rows of one call at the most."""
BLOCK = 128
"""Rows that are computed together; a call has as many blocks as its rows need."""

CURVE = 120
"""Places at which whole functions are drawn."""


class LayerReady(NamedTuple):
    """A layer made ready: L⁻ᵀm, Q, and L itself."""

    weights: Any
    spread: Any
    cholesky: Any
    finite: Any


def _ready(layer: Layer, jitter) -> LayerReady:
    factors = factorise(layer, jitter)
    L = lax.linalg.cholesky(inducing_gram(layer, jitter), symmetrize_input=False)
    total = jnp.sum(factors.weights) + jnp.sum(factors.spread) + jnp.sum(jnp.tril(L))
    return LayerReady(factors.weights, factors.spread, jnp.tril(L), jnp.isfinite(total))


def _marginals(factors: Factors, H, n) -> Normal:
    """`conditional` at the first n rows of H, a block after another."""
    width = factors.weights.shape[1]

    def add(i, q):
        part = conditional(factors, lax.dynamic_slice_in_dim(H, i * BLOCK, BLOCK))
        return jax.tree.map(
            lambda a, b: lax.dynamic_update_slice_in_dim(a, b, i * BLOCK, 0), q, part
        )

    zero = jnp.zeros((len(H), width), H.dtype)
    return lax.fori_loop(0, -(-n // BLOCK), add, Normal(zero, zero))


# For models of a size class.


def _build_ready(size: Size) -> Built:
    state = example(size)[0]
    row = jax.ShapeDtypeStruct(state.parameters.layers.shape[1:], np.float64)
    index, number = jax.ShapeDtypeStruct((), np.int64), jax.ShapeDtypeStruct((), np.float64)

    def ready(row, layout: Layout, l, jitter):
        return _ready(LayerProgram(size, layout).layer(row, l), jitter)

    return Built(ready, (row, example_layout(size), index, number), LayerReady(0, 0, 0, 0))


def _build_marginals(size: Size) -> Built:
    state = example(size)[0]
    M, W, E = size.inducing, size.width, size.entering
    index = jax.ShapeDtypeStruct((), np.int64)
    shapes = (state.parameters.layers.shape[1:], (M, W), (W, M, M), (ROWS, E))
    row, weights, spread, H = (jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes)

    def marginals(row, weights, spread, layout: Layout, l, H, n):
        return _marginals(LayerProgram(size, layout).factors(row, weights, spread, l), H, n)

    arguments = (row, weights, spread, example_layout(size), index, H, index)
    return Built(marginals, arguments, Normal(0, 0))  # pyright: ignore[reportArgumentType]


def _build_roots(size: Size) -> Built:
    state = example(size)[0]
    M, E = size.inducing, size.entering
    index = jax.ShapeDtypeStruct((), np.int64)
    shapes = (state.parameters.layers.shape[1:], (M, M), (CURVE, E))
    row, L, H = (jax.ShapeDtypeStruct(shape, np.float64) for shape in shapes)

    def roots(row, layout: Layout, l, L, H):
        return residual_roots(LayerProgram(size, layout).layer(row, l), L, H)

    return Built(roots, (row, example_layout(size), index, L, H), (0, 0))


BUILDERS |= {"ready": _build_ready, "marginals": _build_marginals, "roots": _build_roots}


# For models of their own.

_own_ready = jax.jit(_ready)
_own_marginals = jax.jit(_marginals)
_own_roots = jax.jit(residual_roots)


class Evaluated:
    """A model whose layers can be asked for anything, in NumPy and in standard units."""

    def __init__(self, model: DeepGP, size: Size | None):
        model = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), model)
        self.model, self.size = model, None if size is None else size.of_layers
        if size is not None:
            self._rows = padded_parameters(model, size).layers[: len(model.layers)].copy()
            self._layout = layout_of(model, size)
            self._columns = columns_of(model, size)
        self._layers: list[LayerReady] = settled(model, self._all_ready)

    def __len__(self) -> int:
        return len(self.model.layers)

    @property
    def layers(self) -> tuple[Layer, ...]:
        return self.model.layers

    @property
    def widths(self) -> tuple[int, ...]:
        """Outputs of every layer but the last."""
        return inner_widths(self.model)

    def _all_ready(self, jitter) -> tuple[list[LayerReady], bool]:
        """Every layer made ready, and whether this jitter was enough."""
        ready = [self._make_ready(l, jitter) for l in range(len(self.layers))]
        return ready, all(bool(layer.finite) for layer in ready)

    def _make_ready(self, l: int, jitter) -> LayerReady:
        if self.size is None:
            return _own_ready(self.layers[l], jitter)
        program = programs().get(Program("ready", self.size))
        return program(self._rows[l], self._layout, np.int64(l), jitter)

    def conditional(self, l: int, H: np.ndarray) -> Normal:
        """The marginals of a layer's outputs at rows H (N, D): mean and variance (N, P)."""
        P = self.layers[l].q_mean.shape[1]
        parts = [self._call(l, H[i : i + ROWS]) for i in range(0, len(H), ROWS)]
        mean, variance = (np.concatenate(part)[:, :P] for part in zip(*parts, strict=True))
        if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
            raise ValueError("This moment cannot be drawn: reset the run with smaller rates.")
        return Normal(mean, variance)  # pyright: ignore[reportArgumentType]

    def _call(self, l: int, H: np.ndarray) -> list[np.ndarray]:
        """Mean and variance at ROWS rows or fewer, the outputs padded to those of the class."""
        ready, n = self._layers[l], np.int64(len(H))
        if self.size is None:
            layer = self.layers[l]
            padded = np.zeros((ROWS, H.shape[1]))
            padded[: len(H)] = H
            factors = Factors(
                layer.kernel,
                layer.inducing,
                layer.mean_weights,
                layer.noise,
                ready.weights,
                ready.spread,
                None,
            )
            q = _own_marginals(factors, padded, n)
        else:
            padded = np.zeros((ROWS, self.size.entering))
            padded[: len(H), self._columns[l]] = H
            program = programs().get(Program("marginals", self.size))
            arguments = (self._rows[l], ready.weights, ready.spread, self._layout, np.int64(l))
            q = program(*arguments, padded, n)
        return [np.asarray(part)[: len(H)] for part in q]

    def mean_function(self, l: int, H: np.ndarray) -> np.ndarray:
        """w(h) at H (…, D): (…, P)."""
        layer = self.layers[l]
        if layer.mean_weights is None:
            return np.zeros((*H.shape[:-1], layer.q_mean.shape[1]))
        return H @ np.asarray(layer.mean_weights)

    def departure(self, l: int, H: np.ndarray, mean: np.ndarray | None = None) -> float:
        """How far a layer is from its mean function at H (…, D): δ/√(δ² + ω²), both root mean
        squares; `mean` is the layer's own there (…, P), where it is known already."""
        mean = np.asarray(self.conditional(l, H).mean) if mean is None else mean
        w = self.mean_function(l, H)
        added, kept = (float(np.mean(part**2)) for part in (mean - w, w))
        return float(np.sqrt(added / (added + kept + np.finfo(float).tiny)))

    def map(self, l: int, entering: np.ndarray, n: int) -> tuple[np.ndarray, ...]:
        """A layer along each of its inputs, the others at the middle of what enters (…, D): places
        (D, n), and mean and deviation there (D, n, P)."""
        rows = entering.reshape(-1, entering.shape[-1])
        low, high = rows.min(0), rows.max(0)
        margin = 0.05 * (high - low) + 1e-6
        grid = np.linspace(low - margin, high + margin, n).T  # (D, n)
        D = len(grid)
        place = np.tile(np.median(rows, 0), (D, n, 1))
        place[np.arange(D), :, np.arange(D)] = grid
        q = self.conditional(l, place.reshape(D * n, D))
        mean, sd = np.asarray(q.mean), np.sqrt(np.asarray(q.variance))
        return grid, mean.reshape(D, n, -1), sd.reshape(D, n, -1)

    def functions(self, l: int, H: np.ndarray, eps_u: np.ndarray, eps_r: np.ndarray) -> np.ndarray:
        """Whole functions of a layer (S, G, P) at H (S, G, D), or (1, G, D) where all enter alike.

        w(h) + Tᵀ(m + C ε_u) + chol(K_hh − TᵀT) ε_r, as `predict.function_draws`.
        """
        layer = self.layers[l]
        roots = [self._roots(l, h) for h in H]
        roots = roots * (len(eps_u) // len(roots))
        C, m = np.tril(np.asarray(layer.q_factor)), np.asarray(layer.q_mean)
        v = m[None] + np.einsum("pij,sjp->sip", C, eps_u)
        M = len(m)
        F = np.stack(
            [T[:M].T @ vs + R @ eps for (T, R), vs, eps in zip(roots, v, eps_r, strict=True)]
        )
        return F + self.mean_function(l, H)

    def function_draws(self, X: np.ndarray, n_draws: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Whole functions of X (G, D) through every layer, always of the same ε: what enters it
        (S, G, D), or (1, G, D) for the first, and what leaves it (S, G, P)."""
        shapes = tuple(layer.q_mean.shape for layer in self.layers)
        H, draws = X[None], []
        for l, (eps_u, eps_r) in enumerate(function_normals(n_draws, len(X), shapes)):
            F = self.functions(l, H, eps_u, eps_r)
            draws.append((H, F))
            H = self.beside(F, np.broadcast_to(X[None], (n_draws, *X.shape)))
        return draws

    def _roots(self, l: int, H: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        L = self._layers[l].cholesky
        if self.size is None:
            found = _own_roots(self.layers[l], L, H)
        elif len(H) <= CURVE:
            # A Cholesky factor's upper left part does not depend on the rows that follow.
            padded = np.zeros((CURVE, self.size.entering))
            padded[:, self._columns[l]] = H[np.minimum(np.arange(CURVE), len(H) - 1)]
            program = programs().get(Program("roots", self.size))
            found = program(self._rows[l], self._layout, np.int64(l), L, padded)
        else:
            M = len(self.layers[l].inducing)
            found = _own_roots(self.layers[l], L[:M, :M], H)
        T, R = (np.asarray(a) for a in found)
        n = len(H)
        return T[:, :n], R[:n, :n]

    def inducing_mean(self, l: int) -> np.ndarray:
        """q(u)'s mean L m + w(Z) (M, P)."""
        layer = self.layers[l]
        mean = self._cholesky(l) @ np.asarray(layer.q_mean)
        return mean + self.mean_function(l, np.asarray(layer.inducing))

    def inducing_sd(self, l: int) -> np.ndarray:
        """q(u)'s deviation √diag(L S Lᵀ) (M, P)."""
        C = np.tril(np.asarray(self.layers[l].q_factor))
        return np.sqrt(np.sum((self._cholesky(l)[None] @ C) ** 2, 2)).T

    def _cholesky(self, l: int) -> np.ndarray:
        M = len(self.layers[l].inducing)
        return self._layers[l].cholesky[:M, :M]

    def beside(self, H: np.ndarray, X: np.ndarray) -> np.ndarray:
        """What enters the next layer: H, and x beside it where the model wants that."""
        return np.concatenate([H, X], -1) if self.model.concatenate else H

    def components(self, X: np.ndarray, draws) -> Normal:
        """q(f^L) on each path (S, G, P), the rows of a path sharing its ε; S is 1 with one layer.

        The first layer sees the same inputs on every path, and is asked once.
        """
        q = self.conditional(0, X)
        mean, variance = q.mean[None], q.variance[None]  # (1 or S, G, P)
        for l, eps in zip(range(1, len(self)), draws, strict=True):
            H = np.asarray(mean + eps[:, None, :] * np.sqrt(variance))
            S, G, _ = H.shape
            H = self.beside(H, np.broadcast_to(X[None], (S, G, X.shape[1])))
            q = self.conditional(l, H.reshape(S * G, -1))
            mean, variance = q.mean.reshape(S, G, -1), q.variance.reshape(S, G, -1)
        return Normal(mean, variance)

    def mean_path(self, X: np.ndarray) -> list[tuple[np.ndarray, Normal]]:
        """What enters each layer and the q that leaves it, where every layer passes on its mean."""
        H, steps = X, []
        for l in range(len(self)):
            q = self.conditional(l, H)
            steps.append((H, q))
            H = self.beside(np.asarray(q.mean), X)
        return steps


def evaluated(run: "Run", snapshot: "Snapshot", which: str = "deep") -> Evaluated:
    """A model of a moment, made ready once for all who draw it."""
    model = snapshot.deep if which == "deep" else snapshot.rival
    return run.gallery.get((snapshot.serial, "ready", which), lambda: Evaluated(model, run.size))


def of_both(run: "Run", snapshot: "Snapshot", look: Callable[[Evaluated, Bound], T]) -> tuple[T, T]:
    """What there is to say of the deep model and of its rival, by each model and its bound; once
    where the model has a single layer, and is its own rival."""
    deep = look(evaluated(run, snapshot), snapshot.deep_bound)
    if len(snapshot.deep.layers) == 1:
        return deep, deep
    return deep, look(evaluated(run, snapshot, "rival"), snapshot.rival_bound)
