"""The predictive mixture at a moment of a run, beside its single-layer rival.

What both say at one input, where they differ most, where the variance comes from, and whether they
keep their word on rows that neither has seen. Everything is in the user's units.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import jax
import numpy as np
from scipy import special

from dgp_core.evaluation.calibration import (
    BINS,
    EDGES,
    count_pit,
    expected_bin_counts,
    inside,
    reliability,
)
from dgp_core.gp.counts import count_log_probability
from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.likelihoods import Bernoulli, Counts, Gaussian, RobustMax, Softmax, StudentT
from dgp_core.gp.mixture import Mixture
from dgp_core.live.views.evaluate import Evaluated, of_both
from dgp_core.live.views.paths import (
    class_names,
    even_normals,
    frame,
    probability_moments,
    varying_input,
    varying_name,
)

if TYPE_CHECKING:
    from dgp_core.live.run import Run, Snapshot

PATHS = 40
"""Components of a deep model's mixture, as in the playground."""

CANDIDATES = 128
"""Places at which the two models are compared."""

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Shares of the central intervals whose coverage is checked."""

SCALES = 16
"""Gaussians that stand for Student's t: a sum over its random precision."""

COUNTS = 128
"""Bars of a count's distribution at the most; above that every second, third, … count is shown."""

LOG_RATES = 1000
"""Cells of f over which counts' probabilities are summed."""

EVEN = 201
"""Places of a density along y that do not depend on the model; the others are where it has mass."""

BESIDE = 0.5
"""How far a candidate lies from a row of the data, in deviations of each input."""

Measure = Literal["total_variation", "wasserstein"]


@dataclass(frozen=True, eq=False)
class VarianceSplit:
    """Var y = Var_s E[y|s] + E_s Var(E[y|f] | s) + E Var(y|f), s a sample path through the layers.

    Each is a number, or one an input (G,). For three classes or more it is the variance of each
    class's indicator, summed over the classes.
    """

    between: np.ndarray
    """What the sample paths of the inner layers disagree about."""
    within: np.ndarray
    """What the last layer leaves open on one path."""
    noise: np.ndarray
    """What no function explains."""

    @property
    def total(self) -> np.ndarray:
        return self.between + self.within + self.noise


@dataclass(frozen=True, eq=False)
class Side:
    """What one model says at one input."""

    components: np.ndarray
    """The density of each sample path along y, or its bars (S, H); each has the weight 1/S."""
    density: np.ndarray
    """Their mean: the mixture (H,)."""
    mean: float
    """Of y, without noise of its rate or probability; NaN for three classes or more."""
    deviation: float
    means: np.ndarray
    """Of each path (S,)."""
    split: VarianceSplit
    """Of y, noise included, whether the picture shows it or not."""
    cdf: np.ndarray | None = None
    """Of the mixture (H,); None for classes, which have no order."""
    summary: np.ndarray | None = None
    """The density of the Gaussian with the mixture's mean and deviation (H,); None for bars."""
    summary_cdf: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class MixtureView:
    """The predictive distributions of both models at one input."""

    step: int
    x: np.ndarray
    """The whole input row (D,)."""
    input_names: tuple[str, ...]
    y_name: str
    kind: Literal["density", "bars"]
    """Bars are probabilities: of counts or of classes."""
    y: np.ndarray
    """Where densities are known, close together where there is mass; or counts or codes (H,)."""
    labels: tuple[str, ...]
    """Of the bars; empty for densities."""
    frame: tuple[float, float]
    """The stretch of y to show, the same at every moment of a run."""
    noise_included: bool
    deep: Side
    rival: Side
    total_variation: float
    """½ ∫ |p − q| dy of the two: the most that they differ on the probability of any event."""
    wasserstein: float | None
    """∫ |P − Q| dy, in y's units: how far mass must be moved; None for classes."""


@dataclass(frozen=True, eq=False)
class Along:
    """How far the models are apart, and where their variance comes from, at G inputs."""

    step: int
    rows: np.ndarray
    """Whole input rows (G, D)."""
    x: np.ndarray | None
    """The one input that varies, in order (G,); None where there are more, and rows are candidates:
    rows of the data, and places beside them."""
    input_names: tuple[str, ...]
    x_name: str
    y_name: str
    noise_included: bool
    total_variation: np.ndarray
    """(G,)"""
    wasserstein: np.ndarray | None
    """(G,); None for classes."""
    deep: VarianceSplit
    rival: VarianceSplit

    def values(self, measure: Measure) -> np.ndarray:
        """Total variation needs no units and serves every kind of y; but it is 1 wherever two
        narrow densities do not meet, however close they are: then Wasserstein says how far."""
        if measure not in ("total_variation", "wasserstein"):
            raise ValueError("The measures are total_variation and wasserstein.")
        if measure == "total_variation":
            return self.total_variation
        if self.wasserstein is None:
            raise ValueError("Classes have no distances between them: use the total variation.")
        return self.wasserstein

    def most(self, measure: Measure = "total_variation") -> int:
        """Which row has the largest value."""
        return int(np.argmax(self.values(measure)))


@dataclass(frozen=True, eq=False)
class Honesty:
    """Whether one model's probabilities come true on held-out rows."""

    pit: np.ndarray | None
    """cdf(y) of each row (N,): uniform where a model is honest; None for classes. A count takes a
    place at random in its own step of the cdf, always the same."""
    counts: np.ndarray
    """Rows in each of the bins (K,): of the PIT, or of the probability that a class was given."""
    observed: np.ndarray
    """Share of rows inside each central interval (J,); for classes, share of times that a class
    came in each bin (K,), NaN in an empty one."""
    predicted: np.ndarray
    """What that share should be: the nominal levels, or the bin's mean probability."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """Both models' honesty on the same held-out rows."""

    step: int
    n_rows: int
    kind: Literal["pit", "reliability"]
    edges: np.ndarray
    """Of the bins (K + 1,)."""
    expected: tuple[float, float, float]
    """What a bin of the PIT's histogram holds where a model is honest: mean, and 95 % of the time
    between these two."""
    deep: Honesty
    rival: Honesty


def mixture_at(
    run: "Run", snapshot: "Snapshot", x: np.ndarray, noise: bool = True, output: int = 0
) -> MixtureView:
    """Both models' predictive distributions at a whole input row x (D,), in the user's units."""
    x = np.asarray(x, np.float64).reshape(-1)
    D = run.dataset.X.shape[1]
    if len(x) != D or not np.isfinite(x).all():
        raise ValueError(f"The input needs {D} finite numbers, one for each column.")
    _check_output(run, output)
    key = (snapshot.serial, "mixture", tuple(x), noise, output)
    return run.gallery.get(key, lambda: _mixture_at(run, snapshot, x, noise, output))


def along(run: "Run", snapshot: "Snapshot", noise: bool = True, output: int = 0) -> Along:
    """Where the models differ, and where their variance comes from.

    With one input that varies, along it; with more, at rows of the data and places beside them.
    """
    _check_output(run, output)
    key = (snapshot.serial, "along", noise, output)
    return run.gallery.get(key, lambda: _along(run, snapshot, noise, output))


def calibration(run: "Run", snapshot: "Snapshot", heldout: Dataset, output: int = 0) -> Calibration:
    """PIT and coverage of both models on rows that neither was trained on; for classes, the
    reliability of their probabilities."""
    _check_output(run, output)
    if (heldout.X.shape[1], heldout.Y.shape[1]) != (
        run.dataset.X.shape[1],
        run.dataset.Y.shape[1],
    ) or heldout.classes != run.dataset.classes:
        raise ValueError("The held-out rows must have the same columns and classes as the data.")
    if not len(heldout):
        raise ValueError("There are no held-out rows to check the models on: bring at least one.")
    key = (snapshot.serial, "calibration", id(heldout), output)
    # The data set is kept beside its answer, so that nobody else gets its id meanwhile.
    _, answer = run.gallery.get(
        key, lambda: (heldout, _calibration(run, snapshot, heldout, output))
    )
    return answer


def latent(model: Evaluated, X: np.ndarray) -> Mixture:
    """q(f^L) at rows X (N, D) in standard units: PATHS even sample paths, the same for all rows."""
    q = model.components(X, even_normals(PATHS, model.widths))
    return Mixture(np.asarray(q.mean), np.asarray(q.variance))


@dataclass(frozen=True, eq=False)
class _Law:
    """One model's q(f^L) at G rows, and all that is asked of the y that follows from it."""

    likelihood: Gaussian | StudentT | Counts | Bernoulli | RobustMax | Softmax
    latent: Mixture
    """(S, G, P), in standard units."""
    shift: float
    scale: float
    output: int

    @classmethod
    def of(cls, model: Evaluated, X: np.ndarray, scaler: Scaler, output: int) -> "_Law":
        likelihood: Gaussian | StudentT | Counts | Bernoulli | RobustMax | Softmax
        likelihood = model.model.likelihood  # pyright: ignore[reportAssignmentType]
        measured = isinstance(likelihood, Gaussian | StudentT)
        shift, scale = (scaler.y_mean[output], scaler.y_scale[output]) if measured else (0.0, 1.0)
        if isinstance(likelihood, Counts):  # f is then the logarithm of the rate
            shift = _numbers(likelihood.offset)[output]
        return cls(likelihood, latent(model, X), float(shift), float(scale), output)

    @property
    def mean(self) -> np.ndarray:
        """Of f on each path (S, G)."""
        return self.latent.means[:, :, self.output] * self.scale + self.shift

    @property
    def variance(self) -> np.ndarray:
        return self.latent.variances[:, :, self.output] * self.scale**2

    @property
    def many_classes(self) -> bool:
        return isinstance(self.likelihood, RobustMax | Softmax)

    def is_bars(self, noise: bool) -> bool:
        return self.many_classes or (noise and isinstance(self.likelihood, Counts | Bernoulli))

    @property
    def size(self) -> float:
        """r of counts."""
        assert isinstance(self.likelihood, Counts)
        return float(self.likelihood.sizes[self.output])

    def scales(self, noise: bool) -> tuple[np.ndarray, np.ndarray]:
        """Variances of the noise (K,) and their weights: several only for Student's t."""
        likelihood, p = self.likelihood, self.output
        if noise and isinstance(likelihood, Gaussian):
            return np.exp(_numbers(likelihood.log_variance)[p : p + 1]) * self.scale**2, np.ones(1)
        if noise and isinstance(likelihood, StudentT):
            excess, s2 = self._student(likelihood)
            precision, weight = _student_scales(float(2.0 + excess))
            return s2 / precision, weight
        return np.zeros(1), np.ones(1)

    def _student(self, likelihood: StudentT) -> tuple[float, float]:
        """ν − 2 and s² of Student's t."""
        excess = np.exp(_numbers(likelihood.log_excess)[self.output])
        return excess, np.exp(2 * _numbers(likelihood.log_scale)[self.output]) * self.scale**2

    def places(self, g: int, noise: bool, n: int) -> np.ndarray:
        """Values of f close together where row g has mass: at least n a path."""
        v, _ = self.scales(noise)
        widest = np.sqrt(v.max() / v.min()) if v.min() > 0 else 1.0
        deviation = np.sqrt(self.variance[:, g] + v.min())
        reach = np.arcsinh(6.0 * widest)
        z = np.sinh(np.linspace(-reach, reach, max(n, 240 // len(deviation))))
        return (self.mean[:, g, None] + deviation[:, None] * z).ravel()

    def path_cdf(self, g: int, f: np.ndarray, noise: bool) -> np.ndarray:
        """P(f + noise ≤ f) on each path (S, H)."""
        return self._weighted(g, f, noise, lambda z, s: special.ndtr(z))

    def path_density(self, g: int, f: np.ndarray, noise: bool) -> np.ndarray:
        return self._weighted(
            g, f, noise, lambda z, s: np.exp(-0.5 * np.minimum(z * z, 1e3)) / (s * _SQRT_2PI)
        )

    def _weighted(self, g, f, noise, function):
        total = 0.0
        for v, weight in zip(*self.scales(noise), strict=True):
            s = np.sqrt(self.variance[:, g, None] + v)
            total = total + weight * function((f - self.mean[:, g, None]) / s, s)
        return np.asarray(total)

    def to_y(self, f: np.ndarray) -> np.ndarray:
        """What a person reads for f, noise left out: y itself, a rate or a probability."""
        if isinstance(self.likelihood, Bernoulli):
            return special.ndtr(f)
        return np.exp(np.minimum(f, 80.0)) if isinstance(self.likelihood, Counts) else f

    def slope(self, f: np.ndarray) -> np.ndarray:
        """dy/df of that."""
        if isinstance(self.likelihood, Bernoulli):
            return np.exp(-0.5 * f * f) / _SQRT_2PI
        return self.to_y(f) if isinstance(self.likelihood, Counts) else np.ones_like(f)

    def path_bars(self, values: np.ndarray) -> np.ndarray:
        """p(y = value) on each path: (S, G, H)."""
        m, v = self.mean, self.variance
        if isinstance(self.likelihood, Bernoulli):
            p = special.ndtr(m / np.sqrt(1.0 + v))
            return np.stack([1.0 - p, p], 2)
        if isinstance(self.likelihood, Counts):
            return _count_probabilities(m, v, values, self.size)
        S, G, C = self.latent.means.shape
        rows = (a.reshape(S * G, C) for a in (self.latent.means, self.latent.variances))
        return np.asarray(_class_probabilities(self.likelihood, *rows)).reshape(S, G, C)

    def path_means(self) -> np.ndarray:
        """E[y] on each path (S, G); NaN for three classes or more."""
        m, v = self.mean, self.variance
        if self.many_classes:
            return np.full(self.latent.means.shape[:2], np.nan)
        if isinstance(self.likelihood, Bernoulli):
            return special.ndtr(m / np.sqrt(1.0 + v))
        return np.exp(np.minimum(m + 0.5 * v, 80.0)) if isinstance(self.likelihood, Counts) else m

    def split(self) -> VarianceSplit:
        """Var y by the law of total variance, at every row (G,)."""
        m, v = self.mean, self.variance
        if isinstance(self.likelihood, Counts):
            # Given f the moments of y are μ = e^f, log-normal itself, and μ + μ²/r.
            rate = np.exp(np.minimum(m + 0.5 * v, 80.0))
            within = rate**2 * np.expm1(np.minimum(v, 80.0))
            noise = rate + (within + rate**2) / self.size
            return VarianceSplit(rate.var(0), within.mean(0), noise.mean(0))
        if isinstance(self.likelihood, Bernoulli):
            p, square = probability_moments(m, v)
            return VarianceSplit(p.var(0), (square - p**2).mean(0), (p - square).mean(0))
        if self.many_classes:
            p = self.path_bars(np.empty(0))
            square = self._class_squares(p)
            within = np.maximum(square - p**2, 0.0).sum(2).mean(0)
            return VarianceSplit(p.var(0).sum(1), within, (p - square).sum(2).mean(0))
        if isinstance(self.likelihood, StudentT):  # s² ν/(ν−2), without the sum's small error
            excess, s2 = self._student(self.likelihood)
            noise = s2 * (2.0 + excess) / excess
        else:
            variances, weight = self.scales(True)
            noise = variances @ weight
        return VarianceSplit(m.var(0), v.mean(0), np.full(m.shape[1], noise))

    def _class_squares(self, p: np.ndarray) -> np.ndarray:
        """E p(y=c|f)² on each path (S, G, C)."""
        if isinstance(self.likelihood, RobustMax):
            # p(y=c|f) is 1−ε where f_c is the largest, which has probability q, else ε/(C−1).
            right, C = 1.0 - self.likelihood.epsilon, p.shape[2]
            wrong = self.likelihood.epsilon / (C - 1)
            q = (p - wrong) / (right - wrong)
            return q * right**2 + (1.0 - q) * wrong**2
        m, v = self.latent.means, self.latent.variances
        total = np.zeros_like(m)
        nodes = _class_nodes(m.shape[2])
        for node in nodes:
            total += special.softmax(m + np.sqrt(v) * node, 2) ** 2
        return total / len(nodes)


_SQRT_2PI = float(np.sqrt(2 * np.pi))


def _numbers(leaf) -> np.ndarray:
    return np.asarray(leaf, np.float64)


@lru_cache(maxsize=256)
def _student_scales(degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """Precisions λ (K,) and weights with Σ w N(0, 1/λ) ≈ Student's t of that many degrees.

    λ ~ Gamma(ν/2, ν/2), by the trapezoid rule in τ, log λ = √(2/ν) sinh τ, as in the likelihood.
    """
    tau = np.linspace(-4.0, 2.2, SCALES)
    t = np.sqrt(2.0 / degrees) * np.sinh(tau)
    log_prior = 0.5 * degrees * (t - np.exp(t))
    weight = np.exp(log_prior - log_prior.max()) * np.cosh(tau)
    return np.exp(t), weight / weight.sum()


@lru_cache(maxsize=16)
def _class_nodes(n_classes: int) -> np.ndarray:
    """Sobol's points carried to N(0, I) (nodes, C)."""
    from scipy.stats import qmc  # forty megabytes: only where it is used

    cells = qmc.Sobol(n_classes, scramble=False).random(256)
    return special.ndtri(cells + 0.5 / 256)


@jax.jit
def _class_probabilities(likelihood, mean, variance):
    return likelihood.class_probabilities(mean, variance)


def _count_probabilities(
    m: np.ndarray, v: np.ndarray, counts: np.ndarray, size: float
) -> np.ndarray:
    """∫ p(y|f) N(f; m, v) df for every m, v (S, G) of a log-rate f and count: (S, G, H).

    Summed over narrow cells of f, which all of them share: their masses times one table.
    """
    s = np.sqrt(v)
    low, high = max((m - 6 * s).min(), -30.0), min((m + 6 * s).max(), 30.0)
    edges = np.linspace(low, max(high, low + 1e-6), LOG_RATES + 1)
    below = special.ndtr((edges - m[:, :, None]) / s[:, :, None])
    below[:, :, 0], below[:, :, -1] = 0.0, 1.0
    f = 0.5 * (edges[:-1] + edges[1:])[:, None]
    table = np.exp(count_log_probability(counts, f, size))
    return np.diff(below) @ table


def _laws(run: "Run", snapshot: "Snapshot", rows: np.ndarray, output: int) -> tuple[_Law, _Law]:
    X = run.scaler.inputs(rows)
    return of_both(run, snapshot, lambda model, _: _Law.of(model, X, run.scaler, output))


def _check_output(run: "Run", output: int) -> None:
    P = run.dataset.Y.shape[1]
    if not 0 <= output < P:
        raise ValueError(f"There is no output {output}: the data have {P}, counted from 0.")


def _bar_values(run: "Run", laws: tuple[_Law, _Law], output: int) -> np.ndarray:
    """The codes of the classes, or counts from 0 to beyond what data and models expect."""
    names = class_names(run)
    if names:
        return np.arange(len(names), dtype=float)
    top = run.dataset.Y[:, output].max() * 1.5 + 5.0
    for law in laws:
        split = law.split()
        expected = law.path_means().mean(0) + 5.0 * np.sqrt(split.total)
        top = max(top, min(float(expected.max()), 20.0 * top))
    return np.arange(COUNTS) * float(np.ceil(top / (COUNTS - 1)))


def _label(value: float, stride: float) -> str:
    return f"{value:,.0f}" if stride == 1 else f"{value:,.0f} (every {stride:,.0f}th is shown)"


def _mixture_at(run: "Run", snapshot: "Snapshot", x, noise: bool, output: int) -> MixtureView:
    laws = _laws(run, snapshot, x[None], output)
    names = class_names(run)
    if laws[0].is_bars(noise):
        y = _bar_values(run, laws, output)
        stride = y[1] - y[0]
        labels = names or tuple(_label(value, stride) for value in y)
        sides = [_bars(law, y, bool(names)) for law in laws]
        p, q = sides[0].density, sides[1].density
        variation, distance = _bars_apart(p, q, stride, bool(names))
        shown, kind = (float(y[0]) - 0.5 * stride, float(y[-1]) + 0.5 * stride), "bars"
    else:
        labels, kind = (), "density"
        shown = frame(run.dataset.Y[:, output], laws[0].likelihood)
        near = [law.places(0, noise, 24) for law in laws]
        f = np.unique(np.concatenate([*near, _even_places(laws[0], shown)]))
        y = laws[0].to_y(f)
        sides = [_density(law, f, noise) for law in laws]
        variation, distance = _apart(laws, 0, noise)
    return MixtureView(
        step=snapshot.step,
        x=x,
        input_names=run.dataset.input_names,
        y_name=run.dataset.output_names[output],
        kind=kind,
        y=y,
        labels=labels,
        frame=shown,
        noise_included=noise,
        deep=sides[0],
        rival=sides[1],
        total_variation=float(variation),
        wasserstein=None if distance is None else float(distance),
    )


def _even_places(law: _Law, shown: tuple[float, float]) -> np.ndarray:
    """Values of f whose y are even over what is shown, both ends of a link left out."""
    y = np.linspace(*shown, EVEN)
    if isinstance(law.likelihood, Bernoulli):
        return special.ndtri(y[1:-1])
    return np.log(y[1:]) if isinstance(law.likelihood, Counts) else y


def _side(law: _Law, parts: np.ndarray, noise: bool) -> Side:
    """What a model says at the first row, given each path's density or bars (S, H)."""
    split, means = law.split(), law.path_means()[:, 0]
    split = VarianceSplit(split.between[0], split.within[0], split.noise[0])
    variance = split.total if noise else split.between + split.within
    mean, deviation = float(means.mean()), float(np.sqrt(variance))
    return Side(parts, parts.mean(0), mean, deviation, means, split)


def _density(law: _Law, f: np.ndarray, noise: bool) -> Side:
    slope = np.maximum(law.slope(f), 1e-300)
    side = _side(law, law.path_density(0, f, noise) / slope, noise)
    z = (law.to_y(f) - side.mean) / side.deviation
    return replace(
        side,
        cdf=law.path_cdf(0, f, noise).mean(0),
        summary=np.exp(-0.5 * z**2) / (np.sqrt(2 * np.pi) * side.deviation),
        summary_cdf=special.ndtr(z),
    )


def _bars(law: _Law, values: np.ndarray, classes: bool) -> Side:
    side = _side(law, law.path_bars(values)[:, 0], True)
    if classes:
        return side
    cdf = np.cumsum((values[1] - values[0]) * side.density)
    return replace(side, cdf=np.minimum(cdf, 1.0))


def _apart(laws: tuple[_Law, _Law], g: int, noise: bool) -> tuple[float, float]:
    """½ ∫ |p − q| and ∫ |P − Q| dy at row g, from both cdfs at places where there is mass.

    The first is summed over cells, |ΔP − ΔQ| each, and what lies beyond them.
    """
    f = np.sort(np.concatenate([law.places(g, noise, 8) for law in laws]))
    P, Q = (law.path_cdf(g, f, noise).mean(0) for law in laws)
    gap = P - Q
    variation = 0.5 * float(np.abs(np.diff(gap, prepend=0.0, append=0.0)).sum())
    return variation, float(np.trapezoid(np.abs(gap), laws[0].to_y(f)))


def _bars_apart(
    p: np.ndarray, q: np.ndarray, stride: float, classes: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """The same of bars (…, H), each of which stands for so many counts; classes have no order."""
    variation = 0.5 * stride * np.abs(p - q).sum(-1)
    return variation, None if classes else stride**2 * np.abs(np.cumsum(p - q, -1)).sum(-1)


def _along(run: "Run", snapshot: "Snapshot", noise: bool, output: int) -> Along:
    rows, x, name = _candidates(run)
    laws = _laws(run, snapshot, rows, output)
    names = class_names(run)
    if laws[0].is_bars(noise):
        values = _bar_values(run, laws, output)
        stride = values[1] - values[0]
        p, q = (law.path_bars(values).mean(0) for law in laws)
        variation, distance = _bars_apart(p, q, stride, bool(names))
    else:
        pairs = [_apart(laws, g, noise) for g in range(len(rows))]
        variation, distance = np.array(pairs).T
    return Along(
        step=snapshot.step,
        rows=rows,
        x=x,
        input_names=run.dataset.input_names,
        x_name=name,
        y_name=run.dataset.output_names[output],
        noise_included=noise,
        total_variation=variation,
        wasserstein=distance,
        deep=laws[0].split(),
        rival=laws[1].split(),
    )


def _candidates(run: "Run") -> tuple[np.ndarray, np.ndarray | None, str]:
    """Whole inputs: even along the one that varies, else rows of the data and beside them."""
    if varying := varying_input(run, CANDIDATES):
        x, rows = varying
        return rows, x, varying_name(run)
    X, kept = run.dataset.X, run.scaler.kept
    rng = np.random.default_rng(0)
    rows = X[rng.permutation(len(X))[: CANDIDATES // 2]]
    beside = X[rng.integers(len(X), size=CANDIDATES - len(rows))]
    beside = beside + BESIDE * rng.standard_normal(beside.shape) * run.scaler.x_scale * kept
    return np.concatenate([rows, beside]), None, ""


def _calibration(run: "Run", snapshot: "Snapshot", heldout: Dataset, output: int) -> Calibration:
    laws = _laws(run, snapshot, heldout.X, output)
    y, N = heldout.Y[:, output], len(heldout)
    names = class_names(run)
    check = _reliability if names else _pit
    return Calibration(
        step=snapshot.step,
        n_rows=N,
        kind="reliability" if names else "pit",
        edges=EDGES,
        expected=(N / BINS, *expected_bin_counts(N)),
        deep=check(laws[0], y),
        rival=check(laws[1], y),
    )


def _pit(law: _Law, y: np.ndarray) -> Honesty:
    if isinstance(law.likelihood, Counts):
        pit = count_pit(law.mean, law.variance, y, np.random.default_rng(0), law.size)
    else:
        pit = np.array([law.path_cdf(g, y[g : g + 1], True).mean() for g in range(len(y))])
    observed = inside(pit, LEVELS).mean(1)
    return Honesty(pit, np.histogram(pit, EDGES)[0], observed, np.array(LEVELS))


def _reliability(law: _Law, y: np.ndarray) -> Honesty:
    """Of every class's probability at every row; with two classes, of the second's."""
    p = law.path_bars(np.empty(0)).mean(0)
    came = np.arange(p.shape[1])[None] == y[:, None]
    first = 1 if p.shape[1] == 2 else 0
    bins = reliability(p[:, first:].ravel(), came[:, first:].ravel())
    return Honesty(None, bins.counts, bins.observed, bins.predicted)
