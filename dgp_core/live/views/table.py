"""A moment of a run on three inputs or more: what a table can show of both models.

In the user's units; what lies between layers has none, and stays as the model has it. Rows are
those that the models were trained on, MOST_ROWS of them at the most.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from scipy import special

from dgp_core.evaluation.calibration import Reliability, count_pit, inside, reliability
from dgp_core.gp.counts import draw_counts
from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.kernels import Kernel, Linear, Product, Stationary, Sum
from dgp_core.gp.layers import Normal
from dgp_core.gp.likelihoods import Bernoulli, Counts, RobustMax, Softmax
from dgp_core.gp.model import SKETCH, Bound, DeepGP, principal_axes
from dgp_core.live.views.evaluate import Evaluated, evaluated, of_both
from dgp_core.live.views.paths import (
    Judged,
    Sheet,
    class_names,
    even_normals,
    in_users_units,
    layer_title,
    mixture_probabilities,
    noise_variances,
    noisy,
    padded,
    parts,
    quantiles,
    readable,
    readable_mean,
    shown_rows,
)

if TYPE_CHECKING:
    from dgp_core.live.run import Run, Snapshot

PATHS, FEW_PATHS = 20, 8
"""Components of a deep model's mixture; few where a layer is wider than WIDE."""

WIDE = 10
"""Each output of each layer costs a product of its own at every row of every path."""

MOST_RELEVANT = 20
"""Inputs whose relevance is shown."""

CURVES = 6
"""Inputs that have a response curve."""

CURVE_POINTS = 32
"""Along a response curve."""

BAND = (0.025, 0.975)
"""Quantiles: an interval of 95 %."""

BLOCK = 256
"""Rows whose quantiles are found together."""

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Central intervals whose coverage is counted."""


@dataclass(frozen=True, eq=False)
class Relevance:
    """How sharply each model's first layer depends on its inputs, the sharpest first.

    1/ℓ for an input of deviation one (a linear kernel's σ); of a kernel with several parts, the
    largest.
    """

    names: tuple[str, ...]
    deep: np.ndarray
    """(K,)."""
    rival: np.ndarray
    n_inputs: int
    """How many there are in all."""


@dataclass(frozen=True, eq=False)
class Response:
    """What both models predict where one input varies and the others stay at their medians."""

    name: str
    x: np.ndarray
    """From the input's first to its 99th hundredth (G,)."""
    deep: np.ndarray
    """The mean of y, the rate, or a class's probability (G,)."""
    deep_band: np.ndarray | None
    """The middle 95 % of new points, or of the rate or probability (2, G); none of several
    classes."""
    rival: np.ndarray
    rival_band: np.ndarray | None


@dataclass(frozen=True, eq=False)
class TablePanel(Judged):
    """What one model says about R rows of its data."""

    predicted: np.ndarray
    """The mean of y or the rate; the probability of the second class, of several the likeliest
    one's (R,)."""
    band: np.ndarray | None
    """The middle 95 % of new points (2, R); none of classes."""
    pit: np.ndarray | None
    """Where in its prediction each y lies: its cdf, even between 0 and 1 if honest (R,)."""
    covered: np.ndarray | None
    """How often y lay inside the central interval of each share (K,)."""
    probabilities: np.ndarray | None
    """Of each class (R, C)."""
    confusion: np.ndarray | None
    """Rows of class i whose likeliest class is j (C, C)."""
    reliability: Reliability | None
    """Of the second class's probability, or of several classes the likeliest one's."""


@dataclass(frozen=True, eq=False)
class HiddenPanel:
    """The rows as they leave one layer, where every layer passes on its mean.

    Two dimensions as they are, more by their first two principal components, a single one above
    the first principal component of the inputs.
    """

    points: np.ndarray
    """(R, 2)."""
    names: tuple[str, str]
    """What the axes mean."""
    width: int
    """Dimensions in all."""
    departure: float
    """How far the layer is from its mean function, 0 to 1; a mean of zero gives 1."""
    kl: float
    """At the last step before this moment; NaN before the first."""
    title: str


@dataclass(frozen=True, eq=False)
class ViewMany:
    """A moment of a run on many inputs, in the user's units."""

    step: int
    y_name: str
    value_name: str
    """What a response curve's height is, in words."""
    classes: tuple[str, ...]
    rows: np.ndarray
    """Which rows of the training data are shown (R,)."""
    n_rows: int
    """How many there are."""
    observed: np.ndarray
    """y of the rows shown; a class is its code (R,)."""
    shares: np.ndarray
    """Of the central intervals that TablePanel.covered counts (K,)."""
    relevance: Relevance
    responses: tuple[Response, ...]
    """Of the inputs most relevant to the deep model."""
    deep: TablePanel
    rival: TablePanel
    layers: tuple[HiddenPanel, ...]
    """Of the deep model, from the first."""


def view_many(run: "Run", snapshot: "Snapshot") -> ViewMany:
    """A moment of a run on any number of inputs; each is computed once and shared."""
    if not len(run.dataset):
        raise ValueError("This view needs rows.")
    return run.gallery.get((snapshot.serial, "many"), lambda: _view_many(run, snapshot))


def relevance(kernel: Kernel) -> np.ndarray:
    """How sharply a kernel depends on each input (D,): 1/ℓ, or σ of a linear one."""
    if isinstance(kernel, Sum | Product):
        return np.max([relevance(part) for part in kernel.parts], 0)
    if isinstance(kernel, Linear):
        return np.exp(0.5 * np.asarray(kernel.log_variances, np.float64))
    assert isinstance(kernel, Stationary)
    return np.exp(-np.asarray(kernel.log_lengthscales, np.float64))


@dataclass(frozen=True, eq=False)
class _Fixed:
    """What is the same at every moment of a run."""

    names: tuple[str, ...]
    """Of the inputs kept."""
    rows: np.ndarray
    X: np.ndarray
    """The rows shown, in standard units (R, D)."""
    y: np.ndarray
    """Their outputs in standard units (R,)."""
    medians: np.ndarray
    """(D,)."""
    low: np.ndarray
    """The first hundredth of each input (D,)."""
    high: np.ndarray
    first_component: np.ndarray
    """Of the rows shown, in standard units (R,)."""
    common_class: int
    """The code of the class that most rows have."""

    @classmethod
    def of(cls, data: Dataset, scaler: Scaler) -> "_Fixed":
        rng = np.random.default_rng(0)
        n = len(data)
        sketch = np.arange(n) if n <= SKETCH else rng.choice(n, SKETCH, replace=False)
        S = scaler.inputs(data.X[sketch])
        low, high = np.quantile(S, (0.01, 0.99), axis=0)
        apart = high > low
        rows = shown_rows(n)
        X = scaler.inputs(data.X[rows])
        axis = principal_axes(X - X.mean(0), 1)[:, 0]
        codes = np.bincount(np.maximum(data.Y[sketch, 0], 0).astype(int)) if data.classes else [1]
        return cls(
            names=tuple(np.array(data.input_names, object)[scaler.kept]),
            rows=rows,
            X=X,
            y=scaler.outputs(data.Y[rows])[:, 0],
            medians=np.median(S, 0),
            low=np.where(apart, low, low - 1.0),
            high=np.where(apart, high, high + 1.0),
            first_component=(X - X.mean(0)) @ axis * np.sign(axis[np.abs(axis).argmax()]),
            common_class=int(np.argmax(codes)),
        )


def _view_many(run: "Run", snapshot: "Snapshot") -> ViewMany:
    data, scaler = run.dataset, run.scaler
    fixed = run.gallery.get("fixed", lambda: _Fixed.of(data, scaler))
    classes = class_names(run)
    sharp = [relevance(model.layers[0].kernel) for model in (snapshot.deep, snapshot.rival)]
    order = np.argsort(-sharp[0], kind="stable")
    top = order[:MOST_RELEVANT]
    curves = order[:CURVES]

    X = np.repeat(fixed.medians[None], len(curves) * CURVE_POINTS, 0)
    for k, d in enumerate(curves):
        part = slice(k * CURVE_POINTS, (k + 1) * CURVE_POINTS)
        X[part, d] = np.linspace(fixed.low[d], fixed.high[d], CURVE_POINTS)
    which = 1 if len(classes) == 2 else fixed.common_class

    def look(model: Evaluated, bound: Bound):
        numbers = _numbers(model, X, fixed)
        panel = _panel(model.model, numbers, fixed, data, scaler, bound)
        return panel, _curves(model.model, numbers, len(fixed.rows), scaler, which)

    (deep, deep_curves), (rival, rival_curves) = of_both(run, snapshot, look)
    kl = np.asarray(snapshot.deep_bound.kl, np.float64)
    units = in_users_units(scaler, X)
    return ViewMany(
        step=snapshot.step,
        y_name=data.output_names[0],
        value_name=_words(snapshot.deep, data.rates.output_names[0], classes, which),
        classes=classes,
        rows=fixed.rows,
        n_rows=len(data),
        observed=data.Y[fixed.rows, 0],
        shares=np.array(SHARES),
        relevance=Relevance(
            tuple(fixed.names[d] for d in top), sharp[0][top], sharp[1][top], len(order)
        ),
        responses=tuple(
            _response(fixed.names[d], units[:, d], deep_curves, rival_curves, k)
            for k, d in enumerate(curves)
        ),
        deep=deep,
        rival=rival,
        layers=_hidden(evaluated(run, snapshot), fixed, data, scaler, kl),
    )


def _words(model: DeepGP, y_name: str, classes: tuple[str, ...], which: int) -> str:
    if classes:
        return f"probability of {classes[which]}"
    return f"expected {y_name}" if isinstance(model.likelihood, Counts) else y_name


@dataclass(frozen=True, eq=False)
class _Numbers:
    """Everything that the pictures of one model need, in its own units: rows first, then curves."""

    latent: Any
    """q(f) on each path, first output (S, G); None of classes with a latent each."""
    levels: Any
    """Quantiles of f, noise included (2, G)."""
    pit: Any
    """(R,), noise included."""
    probabilities: Any
    """Of classes with a latent each (G, C)."""


@jax.jit
def _block_band(means: jax.Array, deviations: jax.Array) -> jax.Array:
    return quantiles(means, deviations, BAND, 24)


def _band(means: np.ndarray, deviations: np.ndarray) -> np.ndarray:
    """A band's quantiles at every row (2, G), a block after another, so that few shapes compile."""
    n = means.shape[1]
    places = np.minimum(np.arange(-(-n // BLOCK) * BLOCK), n - 1).reshape(-1, BLOCK)
    blocks = [_block_band(means[:, rows], deviations[:, rows]) for rows in places]
    return np.concatenate(blocks, 1)[:, :n]


def _numbers(model: Evaluated, curves: np.ndarray, fixed: _Fixed) -> _Numbers:
    """Everything of a model that its pictures need."""
    likelihood, R = model.model.likelihood, len(fixed.X)
    X = padded(fixed.X)
    kept = np.r_[:R, len(X) : len(X) + len(curves)]
    n_paths = _n_paths(model)
    q = model.components(np.concatenate([X, curves]), even_normals(n_paths, model.widths))
    latent = levels = pit = probabilities = None
    if isinstance(likelihood, RobustMax | Softmax):
        probabilities = np.asarray(mixture_probabilities(likelihood, q), np.float64)[kept]
    else:
        latent = Normal(*(np.asarray(a)[:, kept, 0] for a in q))  # pyright: ignore
        means, deviations = noisy(q, noise_variances(model.model, n_paths))
        levels = _band(means[:, kept], deviations[:, kept])
        pit = special.ndtr((fixed.y - means[:, :R]) / deviations[:, :R]).mean(0)
    return _Numbers(latent, levels, pit, probabilities)


def _n_paths(model: Evaluated) -> int:
    return FEW_PATHS if max(model.widths, default=1) > WIDE else PATHS


def _class_probabilities(model: DeepGP, numbers: _Numbers) -> np.ndarray | None:
    """(G, C), or None where y is a measurement or a count."""
    if isinstance(model.likelihood, Bernoulli):
        m, v = numbers.latent
        p = special.ndtr(m / np.sqrt(1.0 + v)).mean(0)
        return np.stack([1 - p, p], 1)
    return numbers.probabilities


def _panel(
    model: DeepGP,
    numbers: _Numbers,
    fixed: _Fixed,
    data: Dataset,
    scaler: Scaler,
    bound: Bound,
) -> TablePanel:
    R = len(fixed.rows)
    y = data.Y[fixed.rows, 0]
    probabilities = _class_probabilities(model, numbers)
    if probabilities is not None:
        p, codes = probabilities[:R], y.astype(int)
        C = p.shape[1]
        best = p.argmax(1)
        predicted = p[:, 1] if C == 2 else p.max(1)
        happened = codes == 1 if C == 2 else codes == best
        return TablePanel(
            predicted=predicted,
            band=None,
            pit=None,
            covered=None,
            probabilities=p,
            confusion=np.bincount(codes * C + best, minlength=C * C).reshape(C, C),
            reliability=reliability(predicted, happened).occupied(),
            **parts(bound),
        )
    m, v = (a[:, :R] for a in numbers.latent)
    if isinstance(model.likelihood, Counts):
        m = m + scaler.log_exposure(data.X[fixed.rows]).sum(1)
        band, pit = _counts(model.likelihood, m, v, y)
    else:
        band, pit = readable(model, scaler, numbers.levels[:, :R]), numbers.pit
    return TablePanel(
        predicted=readable_mean(model, scaler, m, v),
        band=band,
        pit=pit,
        covered=inside(pit, SHARES).mean(1),
        probabilities=None,
        confusion=None,
        reliability=None,
        **parts(bound),
    )


def _counts(
    likelihood: Counts, m: np.ndarray, v: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The middle 95 % of new counts (2, R), and where y lies in its prediction (R,).

    The interval is of rates at even quantiles of f on each path.
    """
    m, size = m + np.asarray(likelihood.offset)[0], float(likelihood.sizes[0])
    S, R = m.shape
    each = -(-160 // S)
    eps = even_normals(S * each, (1,))[0].reshape(each, S, 1)
    log_rates = (m + np.sqrt(v) * eps).reshape(-1, R)
    rng = np.random.default_rng(3)
    drawn = draw_counts(rng, log_rates, size)
    return np.quantile(drawn, BAND, axis=0), count_pit(m, v, y, rng, size)


def _curves(
    model: DeepGP, numbers: _Numbers, R: int, scaler: Scaler, which: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Every response curve on end behind the R rows, and its band."""
    if numbers.probabilities is not None:
        return numbers.probabilities[R:, which], None
    latent = (a[:, R:] for a in numbers.latent)
    return readable_mean(model, scaler, *latent), readable(model, scaler, numbers.levels[:, R:])


def _response(name: str, x: np.ndarray, both_deep, both_rival, k: int) -> Response:
    """The k-th input's curve and band, of both models."""
    part = slice(k * CURVE_POINTS, (k + 1) * CURVE_POINTS)
    (deep, deep_band), (rival, rival_band) = both_deep, both_rival
    return Response(
        name=name,
        x=x[part],
        deep=deep[part],
        deep_band=None if deep_band is None else deep_band[:, part],
        rival=rival[part],
        rival_band=None if rival_band is None else rival_band[:, part],
    )


def _hidden(
    model: Evaluated, fixed: _Fixed, data: Dataset, scaler: Scaler, kl: np.ndarray
) -> tuple[HiddenPanel, ...]:
    """The rows shown as they leave each layer, first to last."""
    L, panels = len(model), []
    linked = isinstance(model.model.likelihood, Bernoulli | Counts | RobustMax | Softmax)
    for l, (H, q) in enumerate(model.mean_path(fixed.X)):
        F, words = np.asarray(q.mean), "what leaves"
        departure = model.departure(l, H, F)
        if l == L - 1:
            words = (
                f"f, of which {data.output_names[0]} follows" if linked else data.output_names[0]
            )
            F = F if linked else F * scaler.y_scale + scaler.y_mean
        sheet = Sheet.of(F, words, "first principal component of the inputs")
        panels.append(
            HiddenPanel(
                points=sheet.place(F, fixed.first_component),
                names=sheet.names,
                width=F.shape[1],
                departure=departure,
                kl=float(kl[l]),
                title=layer_title(l, L),
            )
        )
    return tuple(panels)


def right_on(run: "Run", snapshot: "Snapshot", name: str, data: Dataset) -> tuple[float, float]:
    """The shares of rows with several classes that the deep model and its rival have right; rows
    that they were not trained on, kept with the moment under this name."""

    def share(which: str) -> float:
        model = evaluated(run, snapshot, which)
        X = padded(run.scaler.inputs(data.X))
        q = model.components(X, even_normals(_n_paths(model), model.widths))
        likelihood = model.model.likelihood
        assert isinstance(likelihood, RobustMax | Softmax)
        best = np.asarray(mixture_probabilities(likelihood, q))[: len(data)].argmax(1)
        return float(np.mean(best == data.Y[:, 0]))

    return run.gallery.get(
        (snapshot.serial, "right on", name), lambda: (share("deep"), share("rival"))
    )
