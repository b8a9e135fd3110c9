"""How good a prediction is on rows that the model has not seen."""

from dataclasses import dataclass

import numpy as np

from dgp_core.gp.mixture import Mixture

COVERAGES = (0.5, 0.9, 0.95)
"""The central intervals that are checked."""

EVEN_LEVELS = (np.arange(400) + 0.5) / 400
"""The quantiles by which a distribution without a formula is scored."""


@dataclass(frozen=True, eq=False)
class Draws:
    """A prediction as a sample of it: where the noise is not Gaussian."""

    y: np.ndarray
    """(K, N, P)."""
    independent: bool = True
    """Drawn at random; else the quantiles at the K levels (k − ½)/K."""

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """The smallest draw that a share `level` of them does not exceed (levels, N, P)."""
        return np.quantile(self.y, levels, 0, method="inverted_cdf")

    def pit(self, y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """P(Y < y) + u P(Y = y), u uniform: where predictions are honest, uniform for counts too.

        (Σ_k 1[y_k < y] + u (1 + Σ_k 1[y_k = y])) / (K + 1), since y is one draw more of the same.
        """
        below, equal = (self.y < y).sum(0), (self.y == y).sum(0)
        return (below + rng.uniform(size=below.shape) * (1 + equal)) / (len(self.y) + 1)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """E|Y − y| − ½ E|Y − Y'|, small is good (N, P).

        Σ_{k<l} |y_k − y_l| = Σ_k (2k − K − 1) y_(k) over values in their order. Of independent
        draws there are K(K − 1) pairs; even quantiles, as K² pairs, give the midpoint rule.
        """
        K = len(self.y)
        weight = (2.0 * np.arange(1, K + 1) - K - 1) / (K * (K - self.independent))
        return np.abs(self.y - y).mean(0) - np.tensordot(weight, np.sort(self.y, 0), 1)


def log_likelihood(mixture: Mixture, Y: np.ndarray) -> float:
    """Mean over rows of log p(y), summed over outputs."""
    return float(mixture.log_density(_outputs(mixture, Y)).sum(1).mean())


def rmse(mixture: Mixture, Y: np.ndarray) -> float:
    """Root of the mean squared error of the mixture's mean, over rows and outputs."""
    return float(np.sqrt(np.mean((_outputs(mixture, Y) - mixture.mean) ** 2)))


def accuracy(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Share of rows whose likeliest class is the right one."""
    probabilities, codes = _classes(probabilities, y)
    return float((probabilities.argmax(1) == codes).mean())


def auc(probabilities: np.ndarray, y: np.ndarray) -> float:
    """How often a row of the class is ranked above a row outside it, ties counted as half.

    For several classes the mean over each against the rest, of those that occur; NaN where there
    is only one.
    """
    from sklearn.metrics import roc_auc_score  # a second to load: only where it is used

    probabilities, codes = _classes(probabilities, y)
    occurring = np.unique(codes)
    if len(occurring) < 2:
        return float("nan")
    which = [1] if probabilities.shape[1] == 2 else occurring
    return float(np.mean([roc_auc_score(codes == c, probabilities[:, c]) for c in which]))


def brier(probabilities: np.ndarray, y: np.ndarray) -> float:
    """Mean squared distance Σ_c (p_c − 1[y=c])², halved for two classes, as Brier's is of p₁."""
    probabilities, codes = _classes(probabilities, y)
    n_classes = probabilities.shape[1]
    squared = ((probabilities - np.eye(n_classes)[codes]) ** 2).sum(1).mean()
    return float(squared / 2 if n_classes == 2 else squared)


def log_loss(probabilities: np.ndarray, y: np.ndarray) -> float:
    """−mean log p(y); a certain mistake counts as one of float64's smallest step."""
    probabilities, codes = _classes(probabilities, y)
    p = probabilities[np.arange(len(codes)), codes]
    return float(-np.log(np.maximum(p, np.finfo(np.float64).eps)).mean())


def class_scores(probabilities: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Every score of class probabilities by its name."""
    loss = log_loss(probabilities, y)
    return {
        "log_likelihood": -loss,
        "log_loss": loss,
        "accuracy": accuracy(probabilities, y),
        "auc": auc(probabilities, y),
        "brier": brier(probabilities, y),
    }


def _outputs(mixture: Mixture, Y: np.ndarray) -> np.ndarray:
    """Y as (N, P), which must be the mixture's rows and outputs."""
    Y = np.asarray(Y, np.float64)
    Y = Y[:, None] if Y.ndim == 1 else Y
    if Y.shape != mixture.means.shape[1:]:
        raise ValueError(
            f"The predictions have (rows, outputs) {mixture.means.shape[1:]}, but y has {Y.shape}."
        )
    return Y


def _classes(probabilities: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (N, C) and whole codes (N,) below C; y may be a column."""
    probabilities = np.asarray(probabilities, np.float64)
    codes = np.asarray(y).reshape(-1).astype(int)
    if probabilities.ndim != 2 or len(codes) != len(probabilities):
        raise ValueError(
            f"Probabilities need one row for each of {len(codes)} labels: {probabilities.shape}."
        )
    if len(codes) == 0 or codes.min() < 0 or codes.max() >= probabilities.shape[1]:
        raise ValueError(
            f"Labels must be the codes 0 to {probabilities.shape[1] - 1} of the classes."
        )
    return probabilities, codes
