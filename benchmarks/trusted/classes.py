"""Class probabilities: against brute force, and softmax beside robust-max on five sets."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.trusted import Row, case, row
from datasets import catalogue
from datasets.shipped import FILES
from dgp_core import DeepGPClassifier
from dgp_core.gp.likelihoods import RobustMax, Softmax, for_task
from dgp_core.tables.table import read_table

ROWS = 40
"""Of three classes each, at which probabilities are checked."""

WIDTHS = ((0.25, 4.0), (1.0, 5.0), (4.0, 8.0))
"""Variances of q(f), and how far the likeliest class is ahead."""

SPLITS = 3

MOST_ROWS = 400
"""Training rows of a set at the most, so that all five take minutes."""


@case("classes")
def classes() -> Iterator[Row]:
    """log p of every class against a sum over 161³ places of f: the largest error in nats."""
    z = np.linspace(-9.0, 9.0, 161)
    w = np.exp(-0.5 * z * z)
    w /= w.sum()
    weight = w[:, None, None] * w[None, :, None] * w[None, None]
    rng = np.random.default_rng(0)
    for v, gap in WIDTHS:
        m = rng.standard_normal((ROWS, 3)) + [gap, 0.0, 0.0]
        s = np.sqrt(v * np.exp(0.3 * rng.standard_normal((ROWS, 3))))
        truth = np.empty((ROWS, 3))
        for i in range(ROWS):
            f = m[i][:, None] + s[i][:, None] * z
            a, b, c = (np.exp(part - f.max()) for part in f)
            total = a[:, None, None] + b[None, :, None] + c[None, None]
            parts = (a[:, None, None], b[None, :, None], c[None, None])
            truth[i] = [np.sum(weight * part / total) for part in parts]
        found = _probabilities(Softmax.create(3), m, s)
        error = float(np.abs(np.log(found) - np.log(truth)).max())
        yield row(f"softmax, variance {v:g}, gap {gap:g}: nats off at the most", error, 1e-3)
    # The largest of Gaussians is a step in f: draws, of which 4 standard errors are allowed for.
    for narrow in (1.0, 1e-4):
        m = rng.standard_normal((ROWS, 3))
        s = np.sqrt(np.array([1.0, narrow, narrow]) * np.ones((ROWS, 3)))
        n, epsilon = 400_000, 1e-3
        largest = (m + s * rng.standard_normal((n, 1, 3))).argmax(2)
        p = np.stack([(largest == c).mean(0) for c in range(3)], 1)
        truth = (1 - epsilon) * p + epsilon / 2 * (1 - p)
        found = _probabilities(RobustMax.create(3), m, s)
        noise = 4.0 * np.sqrt(np.maximum(p * (1 - p), 1e-9) / n)
        error = float((np.abs(found - truth) - noise).max())
        yield row(
            f"robust-max, rivals' variance {narrow:g}: probability off beyond chance", error, 1e-4
        )


def _probabilities(likelihood: Softmax | RobustMax, m: np.ndarray, s: np.ndarray) -> np.ndarray:
    probabilities = jax.jit(likelihood.class_probabilities)
    return np.asarray(probabilities(jnp.asarray(m), jnp.asarray(s**2)))


def five_sets() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Three or more classes: clean and noisy ones, from 2 inputs to 64."""
    from sklearn import datasets

    sets = {
        name: getattr(datasets, f"load_{name}")(return_X_y=True)
        for name in ("iris", "wine", "digits")
    }
    file = FILES / "seattle_weather.csv"
    weather = read_table(file.read_bytes(), file.name).to_dataset("weather", "multiclass", "drop")
    for data in (catalogue.load("pinwheel"), weather.dataset):
        sets[data.name] = data.X, data.Y[:, 0].astype(int)
    return sets


@case("softmax")
def softmax() -> Iterator[Row]:
    """Held-out log-likelihood a row of both likelihoods of many classes, on the same splits."""
    default, better = for_task("multiclass", 1, 3), 0
    for name, (X, y) in five_sets().items():
        scores = {}
        for likelihood in ("softmax", "robust_max"):
            each = []
            for split in range(SPLITS):
                rows = np.random.default_rng(split).permutation(len(X))
                n = min(MOST_ROWS, int(0.8 * len(X)))
                train, test = rows[:n], rows[n : n + 1000]
                model = DeepGPClassifier(2, inducing=50, steps=600, likelihood=likelihood)
                model.fit(X[train], y[train])
                p = model.predict_proba(X[test])
                place = np.searchsorted(model.classes_, y[test])
                each.append(np.log(p[np.arange(len(test)), place]).mean())
            scores[likelihood] = float(np.mean(each))
            yield row(f"{name}, {likelihood}: held-out log-likelihood", scores[likelihood])
        better += max(scores, key=lambda name: scores[name]) == default
    yield row(f"sets of five on which {default}, the default, is better", float(better), least=3.0)
