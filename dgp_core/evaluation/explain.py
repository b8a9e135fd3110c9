"""What a fitted model has learnt of its inputs: which matter, and what each does to the output."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import jax
import numpy as np

from dgp_core.evaluation.forecast import from_probabilities
from dgp_core.gp.data import Dataset, Scaler, sample_rows
from dgp_core.gp.domain import Domain
from dgp_core.gp.layers import Layer
from dgp_core.gp.likelihoods import Gaussian
from dgp_core.gp.mixture import Mixture
from dgp_core.gp.model import DeepGP
from dgp_core.gp.predict import (
    all_lengthscales,
    class_probabilities,
    draw_observations,
    log_density,
    predict_latent,
    predict_observed,
)
from dgp_core.tables.recipe import Recipe

MOST_ROWS = 2_000
"""Held-out rows that are permuted, at the most."""

PATHS = 20
"""Sample paths a row: the same for every question, so that differences are of the inputs alone."""

WORK = 6e10
"""Products that one answer may cost, a second or a few; rows are fewer where the model is large."""

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Quantiles of a response."""

SPREAD = (np.arange(50) + 0.5) / 50
"""The quantiles that stand for the distribution of a model that is not a GP."""

REFERENCE_ROWS = 20_000
"""Rows that such a model is asked of for one answer."""

BLOCK = 500
"""Of them at a time."""

SHOWN = 20
"""Single rows whose own curves are kept."""

RELEVANCE_MEANS = (
    "A layer's function changes quickly along an input whose lengthscale is short, and hardly "
    "where it is long. Bars show 1/lengthscale on inputs of unit deviation, the largest as 1. "
    "Inner layers also pass their inputs on by a straight line, so a short bar in the first layer "
    "alone does not make an input useless: read the layers together, and trust the permutations."
)


class Reference(Protocol):
    """A model that needs no steps, in the data set's units: a straight line, an exact GP, trees."""

    def predict_mean(self, X: np.ndarray) -> np.ndarray: ...

    def predict_quantiles(self, X: np.ndarray, levels: np.ndarray) -> np.ndarray: ...

    def predict_proba(self, X: np.ndarray) -> np.ndarray: ...

    def log_density(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray: ...


@dataclass(frozen=True)
class Group:
    """An input as the user knows it: one column of X, or the several of a category."""

    name: str
    columns: tuple[int, ...]
    """Places in X."""
    labels: tuple[str, ...] = ()
    """The levels of a category, in order; none for a number."""
    marker: int | None = None
    """The column that says where the cell was missing."""

    @property
    def every(self) -> tuple[int, ...]:
        """All of its columns."""
        return self.columns if self.marker is None else (*self.columns, self.marker)

    def at(self, X: np.ndarray, value: float) -> np.ndarray:
        """The rows with this input at a number, or at the level of that place."""
        X = X.copy()
        several = len(self.columns) > 1
        X[:, self.columns] = np.arange(len(self.columns)) == value if several else value
        if self.marker is not None:
            X[:, self.marker] = 0.0
        return X

    def range(self, X: np.ndarray, n_grid: int) -> np.ndarray:
        """Values to try: the levels, or a grid over the middle 98 % of the rows' own."""
        if self.labels:
            return np.arange(len(self.labels), dtype=np.float64)
        x = X[:, self.columns[0]]
        if self.marker is not None and (known := X[:, self.marker] == 0).any():
            x = x[known]
        low, high = np.quantile(x, [0.01, 0.99])
        return np.linspace(low, high, n_grid)


def groups_of(dataset: Dataset, recipe: Recipe | None = None) -> tuple[Group, ...]:
    """The inputs of a data set, a category's columns together where its recipe is known."""
    if recipe is None:
        return tuple(Group(name, (d,)) for d, name in enumerate(dataset.input_names))
    found, start = [], 0
    for column in recipe.inputs_from:
        n = len(column.names)
        own = tuple(range(start, start + n - column.indicator))
        labels = ("no", "yes") if column.kind == "boolean" else column.levels
        marker = start + n - 1 if column.indicator else None
        name = column.column if column.kind in ("category", "boolean") else column.names[0]
        found.append(Group(name, own, labels, marker))
        start += n
    return tuple(found)


def typical_rows(domain: Domain, scaler: Scaler, recipe: Recipe) -> Dataset:
    """The centres of the training rows as rows of their own, to explain a model by whose rows are
    not at hand; a category has the level that is most frequent about a centre."""
    X = scaler.inputs_back(domain.centres)
    Y = np.zeros((len(X), len(recipe.output_names)))
    rows = recipe.dataset("centres", X, Y)
    for group in groups_of(rows, recipe):
        columns = list(group.columns)
        if len(columns) > 1:
            X[:, columns] = np.eye(len(columns))[X[:, columns].argmax(1)]
        elif group.labels:
            X[:, columns] = X[:, columns].round()
        if group.marker is not None:
            X[:, group.marker] = X[:, group.marker].round()
    return rows


@dataclass(frozen=True, eq=False)
class Relevance:
    """How quickly one layer's function changes along each of its inputs."""

    layer: int
    """From 1."""
    names: tuple[str, ...]
    lengthscales: np.ndarray
    """In standard units (D,); of several kernels, the shortest."""
    relevance: np.ndarray
    """1/ℓ, the largest as 1 (D,)."""


def relevance(model: DeepGP, scaler: Scaler, input_names: Sequence[str]) -> tuple[Relevance, ...]:
    """The lengthscales of every layer whose kernel has them; RELEVANCE_MEANS says how to read."""
    outside = tuple(n for n, kept in zip(input_names, scaler.kept, strict=True) if kept)
    names, found = outside, []
    for l, layer in enumerate(model.layers):
        scales = all_lengthscales(layer.kernel)
        if scales:
            shortest = np.min([np.broadcast_to(s, len(names)) for s in scales], 0)
            found.append(Relevance(l + 1, names, shortest, shortest.min() / shortest))
        names = _leaving_names(layer, names, l)
        if model.concatenate:
            names = (*names, *outside)
    return tuple(found)


def _leaving_names(layer: Layer, names: tuple[str, ...], l: int) -> tuple[str, ...]:
    """What leaves a layer: its inputs, warped, where the identity passes them on."""
    P, W = layer.q_mean.shape[1], layer.mean_weights
    if W is None or not np.array_equal(W, np.eye(len(names), P)):
        return tuple(f"output {p + 1} of layer {l + 1}" for p in range(P))
    more = tuple(f"output {p + 1} of layer {l + 1}" for p in range(len(names), P))
    return tuple(n if n.endswith(", warped") else f"{n}, warped" for n in names[:P]) + more


@dataclass(frozen=True)
class Importance:
    """What held-out rows lose where an input is shuffled among them."""

    name: str
    drop: float
    """Of the log-likelihood, nats a row."""
    error: float
    """Of the drop over repeated shuffles."""
    row_error: float
    """Of the drop over rows."""


def importance(
    model: DeepGP | Reference,
    scaler: Scaler,
    held_out: Dataset,
    groups: Sequence[Group],
    repeats: int = 5,
    seed: int = 0,
) -> tuple[Importance, ...]:
    """The drop of held-out log-likelihood when each input is shuffled, the largest first.

    All columns of a category are shuffled together. Two inputs that say the same hide each other.
    """
    most = _affordable(model, len(groups) * repeats)
    rows, _ = sample_rows(held_out, min(most, MOST_ROWS), seed)
    rng = np.random.default_rng(seed)

    def log_p(X: np.ndarray) -> np.ndarray:
        return _log_density(model, scaler, X, rows, seed)

    whole = log_p(rows.X)
    orders = [rng.permutation(len(rows)) for _ in range(repeats)]
    found = []
    for group in groups:
        drops = np.zeros((repeats, len(rows)))
        if (scaler.kept | scaler.exposed)[list(group.every)].any():
            for r, order in enumerate(orders):
                X = rows.X.copy()
                X[:, group.every] = rows.X[order][:, group.every]
                drops[r] = whole - log_p(X)
        over_repeats, over_rows = drops.mean(1), drops.mean(0)
        found.append(
            Importance(
                group.name,
                float(drops.mean()),
                _standard_error(over_repeats),
                _standard_error(over_rows),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.drop))


def _log_density(
    model: DeepGP | Reference, scaler: Scaler, X: np.ndarray, rows: Dataset, seed: int
) -> np.ndarray:
    """log p of what was observed in these rows (n,), their inputs being X."""
    if isinstance(model, DeepGP):
        latent = _latent(model, scaler, X, seed)
        return log_density(model, latent, scaler.outputs(rows.Y))
    if rows.classes:
        return from_probabilities(model.predict_proba(X), rows.Y).log_density
    return model.log_density(X, rows.Y)


@dataclass(frozen=True, eq=False)
class Response:
    """What the output does as one input goes over its range, the others as they are (P outputs).

    For classes, P counts them and numbers are probabilities.
    """

    name: str
    x: np.ndarray
    """Values of the input (G,); the places of `labels` for a category."""
    labels: tuple[str, ...]
    mean: np.ndarray
    """The mean over rows: the partial dependence (G, P)."""
    levels: tuple[float, ...]
    quantiles: np.ndarray
    """Of y over rows, paths and noise (K, G, P); for classes, of the probability over rows."""
    each: np.ndarray
    """Single rows' own means (R, G, P)."""


def response(
    model: DeepGP | Reference,
    scaler: Scaler,
    dataset: Dataset,
    group: Group,
    n_grid: int = 40,
    n_rows: int = 200,
    seed: int = 0,
) -> Response:
    """One input varied over its range, every row's other inputs at their own values."""
    x = group.range(dataset.X, n_grid)
    rows, _ = sample_rows(dataset, min(n_rows, _affordable(model, len(x))), seed)
    R, G = len(rows), len(x)
    X = np.concatenate([group.at(rows.X, value) for value in x])  # grid by grid: (G·R, D)
    means, spread = _answers(model, scaler, X, seed, bool(dataset.classes))
    each = means.reshape(G, R, -1).swapaxes(0, 1)  # (R, G, P)
    if isinstance(spread, Mixture):
        assert isinstance(model, DeepGP)
        quantiles = _quantiles(model, scaler, _pool(spread, G, R), seed)
    else:
        quantiles = np.quantile(_join(spread, G, R), LEVELS, 0)
    return Response(group.name, x, group.labels, each.mean(0), LEVELS, quantiles, each[:SHOWN])


def by_effect(
    model: DeepGP | Reference, scaler: Scaler, dataset: Dataset, groups: Sequence[Group]
) -> tuple[str, ...]:
    """The names of the inputs, those first over whose range the mean changes most."""
    most = {}
    for group in groups:
        mean = response(model, scaler, dataset, group, n_grid=10, n_rows=10).mean
        most[group.name] = float(
            np.max(np.ptp(mean, 0) / (1.0 if dataset.classes else scaler.y_scale))
        )
    return tuple(sorted(most, key=lambda name: -most[name]))


@dataclass(frozen=True, eq=False)
class Map:
    """What the output does as two inputs go over their ranges."""

    names: tuple[str, str]
    x: np.ndarray
    """Values of the first input (G,)."""
    y: np.ndarray
    """Values of the second (H,)."""
    x_labels: tuple[str, ...]
    y_labels: tuple[str, ...]
    mean: np.ndarray
    """The mean over rows (H, G): of y, or of a class's probability."""
    sd: np.ndarray
    """The deviation (H, G): of y over rows, paths and noise; of the probability over rows."""


def two_inputs(
    model: DeepGP | Reference,
    scaler: Scaler,
    dataset: Dataset,
    first: Group,
    second: Group,
    n_grid: int = 25,
    n_rows: int = 50,
    output: int = 0,
    seed: int = 0,
) -> Map:
    """Two inputs varied together; `output` is a column of Y, or a class."""
    x, y = first.range(dataset.X, n_grid), second.range(dataset.X, n_grid)
    cells = len(x) * len(y)
    rows, _ = sample_rows(dataset, min(n_rows, _affordable(model, cells)), seed)
    R = len(rows)
    X = np.concatenate([first.at(second.at(rows.X, v), u) for v in y for u in x])
    means, spread = _answers(model, scaler, X, seed, bool(dataset.classes))
    each = means.reshape(cells, R, -1)
    if isinstance(spread, Mixture):
        assert isinstance(model, DeepGP)
        observed = predict_observed(model, _pool(spread, cells, R))
        observed = observed.affine(scaler.y_scale, scaler.y_mean)
        mean, sd = observed.mean, np.sqrt(observed.variance)
    else:
        mean, sd = each.mean(1), _join(spread, cells, R).std(0)
    shape = (len(y), len(x))
    return Map(
        (first.name, second.name),
        x,
        y,
        first.labels,
        second.labels,
        mean[:, output].reshape(shape),
        sd[:, output].reshape(shape),
    )


def _key(seed: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(seed), 1)


def _affordable(model: DeepGP | Reference, times: int) -> int:
    """Rows that may be asked so many times each, a path: 2 M² P products a layer, and the classes.

    A probability among C classes is an integral of twenty points over C(C − 1) distributions.
    """
    if not isinstance(model, DeepGP):
        return max(16, REFERENCE_ROWS // times)
    each = sum(2 * len(q) ** 2 * q.shape[1] for q in (layer.q_mean for layer in model.layers))
    C = model.likelihood.n_latents
    if hasattr(model.likelihood, "class_probabilities"):
        each += 1000 * C * C
    return int(max(16, WORK / (PATHS * each * times)))


def _answers(
    model: DeepGP | Reference, scaler: Scaler, X: np.ndarray, seed: int, classes: bool
) -> tuple[np.ndarray, Mixture | np.ndarray]:
    """Each row's mean of y, or class probabilities, (N, P); and what varies beside the rows: of
    numbers q(f), or quantiles of y (K, N, P), of classes the probabilities alone (1, N, P)."""
    if not isinstance(model, DeepGP):
        if classes:
            p = model.predict_proba(X)
            return p, p[None]
        parts = [X[i : i + BLOCK] for i in range(0, len(X), BLOCK)]
        quantiles = [model.predict_quantiles(part, SPREAD) for part in parts]
        return model.predict_mean(X), np.concatenate(quantiles, 1)
    latent = _latent(model, scaler, X, seed)
    if hasattr(model.likelihood, "class_probabilities"):
        p = class_probabilities(model, latent)
        return p, p[None]
    mean = predict_observed(model, latent).mean
    return scaler.outputs_back(mean), latent


def _latent(model: DeepGP, scaler: Scaler, X: np.ndarray, seed: int) -> Mixture:
    """q(f) at rows X, their log exposure added."""
    found = predict_latent(model, scaler.inputs(X), _key(seed), PATHS, shared=True)
    return found.shifted(scaler.log_exposure(X))


def _pool(latent: Mixture, n_cells: int, n_rows: int) -> Mixture:
    """The rows of a cell as components of one mixture: (S·R, cells, P)."""
    return Mixture(*(_join(a, n_cells, n_rows) for a in (latent.means, latent.variances)))


def _join(a: np.ndarray, n_cells: int, n_rows: int) -> np.ndarray:
    """(S, cells·R, P) as (S·R, cells, P)."""
    S, _, P = a.shape
    return a.reshape(S, n_cells, n_rows, P).swapaxes(1, 2).reshape(S * n_rows, n_cells, P)


def _quantiles(model: DeepGP, scaler: Scaler, latent: Mixture, seed: int) -> np.ndarray:
    """Quantiles of y (K, G, P), in the user's units."""
    if isinstance(model.likelihood, Gaussian):
        q = predict_observed(model, latent).quantile(np.array(LEVELS))
    else:
        y = draw_observations(model, latent, np.random.default_rng(seed), len(latent.means))
        q = np.quantile(y, LEVELS, 0, method="inverted_cdf")
    return scaler.outputs_back(q)


def _standard_error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
