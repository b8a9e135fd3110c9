"""Which model to believe: held-out scores with their standard errors, and a plain verdict.

Every number is about rows that the model has not seen, in the user's units.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from dgp_core.evaluation.forecast import Forecast, Predictor
from dgp_core.gp.data import Dataset, Task, counted, sample_rows

MOST_SCORED = 10_000
"""Held-out rows of one split that are scored; of more, so many by chance."""

NEGLIGIBLE = 0.01
"""Nats a row below which a difference does not matter, however sure: 1 % of a density."""

ERRORS = 2.0
"""A difference counts from so many standard errors."""

FEWEST_ROWS = 20
"""Held-out rows without which nothing can be said."""

RULE = (
    "Models are compared row by row, by the log-likelihood that they give to what was held out. "
    f"“Better” means more than {ERRORS:g} standard errors, and more than {NEGLIGIBLE:g} nats per "
    f"row (about {100 * NEGLIGIBLE:g} % of probability). Over folds, the standard error allows for "
    "training sets that overlap (Nadeau and Bengio 2003) and, by Student's t, for few folds, and "
    "is never taken smaller than that of the rows; with one split it is that of the rows. Rows of "
    "one held-out group count together, since they are alike: the more groups, the surer."
)


@dataclass(frozen=True, eq=False)
class ScoreCard:
    """How one model did on the held-out rows of one split."""

    model: str
    fold: int
    """0 is the main split; folds count from 1."""
    rows: np.ndarray
    """Which rows of the whole set these are (n,)."""
    n_train: int
    observed: np.ndarray
    """Y (n, P)."""
    forecast: Forecast
    task: Task
    classes: tuple[str, ...]
    scores: dict[str, float]
    seconds_per_step: float | None
    """Measured after training; None where there are no steps."""
    seconds: float | None
    """What the whole fit took."""
    question: str = ""
    """Which rows these are, behind the word "rows"; nothing where they were held out by chance."""
    groups: np.ndarray | None = None
    """The group of each row (n,), where whole groups were held out: their rows are alike."""


def score(
    name: str,
    predictor: Predictor,
    held_out: Dataset,
    *,
    n_train: int,
    fold: int = 0,
    rows: np.ndarray | None = None,
    pad_to: int = 0,
    question: str = "",
    groups: np.ndarray | None = None,
    seconds_per_step: float | None = None,
    seconds: float | None = None,
) -> ScoreCard:
    """A model's card; `rows` are the held-out rows' places in the whole set, `groups` theirs.

    Fewer rows than `pad_to` are padded, so that folds of unequal sizes share compiled programs.
    """
    held, chosen = sample_rows(held_out, MOST_SCORED)
    forecast = predictor(_padded(held, min(pad_to, MOST_SCORED))).take(slice(len(held)))
    return ScoreCard(
        model=name,
        fold=fold,
        rows=chosen if rows is None else np.asarray(rows)[chosen],
        n_train=n_train,
        observed=held.Y,
        forecast=forecast,
        task=held.task,
        classes=held.classes,
        scores=forecast.scores(held.Y),
        seconds_per_step=seconds_per_step,
        seconds=seconds,
        question=question,
        groups=None if groups is None else np.asarray(groups)[chosen],
    )


def _padded(rows: Dataset, n: int) -> Dataset:
    """At least n rows: the first one is repeated behind the last."""
    places = np.arange(max(n, len(rows)))
    places[len(rows) :] = 0
    return rows if len(places) == len(rows) else rows.take(places)


@dataclass(frozen=True)
class Estimate:
    """A number and its standard error."""

    value: float
    error: float
    """NaN where it cannot be had."""
    n: int
    """Folds, or rows of a single split."""


def _by_fold(cards: Iterable[ScoreCard], model: str) -> dict[int, ScoreCard]:
    return {card.fold: card for card in cards if card.model == model}


def _used(folds: Iterable[int]) -> list[int]:
    """The folds where there are two or more, else the one split."""
    folds = sorted(folds)
    numbered = [fold for fold in folds if fold > 0]
    return numbered if len(numbered) >= 2 else folds[:1]


def _counting(cards: list[ScoreCard], model: str) -> list[ScoreCard]:
    """A model's cards that count."""
    own = _by_fold(cards, model)
    return [own[fold] for fold in _used(own)]


def fold_error(values: np.ndarray, test_share: float) -> float:
    """The standard error of a mean over K folds whose training sets overlap.

    √((1/K + n_test/n_train) s²), s² the folds' variance (Nadeau & Bengio 2003): without the second
    term, rows that the folds share would count as new evidence.
    """
    K = len(values)
    return float(np.sqrt((1 / K + test_share) * np.var(values, ddof=1)))


def few_folds(n_folds: int) -> float:
    """By how much Student's t quantile of K − 1 degrees exceeds ERRORS, the Gaussian's."""
    return float(special.stdtrit(n_folds - 1, special.ndtr(ERRORS)) / ERRORS)


def _test_share(cards: Iterable[ScoreCard]) -> float:
    return float(np.mean([len(card.rows) / card.n_train for card in cards]))


def table(cards: Iterable[ScoreCard]) -> dict[str, dict[str, Estimate]]:
    """Every model's scores: over folds where there are two or more, else of the one split."""
    cards = list(cards)
    models = dict.fromkeys(card.model for card in cards)
    return {model: _estimates(_counting(cards, model)) for model in models}


def _estimates(used: list[ScoreCard]) -> dict[str, Estimate]:
    if len(used) == 1:
        card, errors = used[0], _row_errors(used[0])
        n = len(card.rows)
        return {name: Estimate(value, errors[name], n) for name, value in card.scores.items()}
    found = {}
    for name in used[0].scores:
        values = np.array([card.scores[name] for card in used])
        values = values[np.isfinite(values)]  # no AUC on a fold of one class
        value = float(values.mean()) if len(values) else np.nan
        error = fold_error(values, _test_share(used)) if len(values) > 1 else np.nan
        found[name] = Estimate(value, error, len(values))
    return found


PARTS = 20
"""Groups of rows that a jackknife leaves out in turn."""


def _row_errors(card: ScoreCard) -> dict[str, float]:
    """The errors of scores over the rows of one split: the jackknife's, part by part left out.

    √((g − 1)/g Σ_j (s_j − s̄)²), s_j the score without part j. A held-out group is in one part.
    """
    # What is left out together: each row by itself, or all rows of a group.
    alike = np.arange(len(card.rows)) if card.groups is None else card.groups
    _, units = np.unique(alike, return_inverse=True)
    n = units.max(initial=-1) + 1
    g = min(PARTS, n)
    if g < 2:
        return dict.fromkeys(card.scores, np.nan)
    part = (np.random.default_rng(0).permutation(n) % g)[units]
    without = []
    for j in range(g):
        keep = np.flatnonzero(part != j)
        forecast = card.forecast.take(keep)
        without.append(list(forecast.scores(card.observed[keep]).values()))
    errors = np.sqrt((g - 1) * np.var(without, 0))
    return dict(zip(card.scores, errors.tolist(), strict=True))


@dataclass(frozen=True)
class Comparison:
    """The mean difference of two models' log-likelihoods, row by row."""

    one: str
    other: str
    difference: float
    """Nats per row; above 0, `one` is better."""
    error: float
    n_folds: int
    """1 for a single split."""
    n_rows: int
    word: str
    """What `one` is: better, worse, same, or too_few rows to say."""
    unit: tuple[str, ...] = ()
    """A score that a person can picture, of both: ("RMSE", "275", "290")."""
    question: str = ""
    """Which rows they are, behind the word "rows"."""
    agrees: bool = True
    """Whether the model with the better log-likelihood is not the worse one by that score."""
    n_groups: int | None = None
    """Held-out groups, where whole groups were held out."""

    @property
    def amount(self) -> str:
        """The size of the difference in nats, in words."""
        where = f"on {self.n_rows:,} rows" if self.n_folds == 1 else f"over {self.n_folds} folds"
        if self.question:
            where += f" {'of rows ' if self.n_folds > 1 else ''}{self.question}"
        return f"{_with_error(abs(self.difference), self.error)} nats per held-out row, {where}"

    @property
    def by(self) -> str:
        """The same behind "better", in the user's unit too where there is one."""
        if not self.unit:
            return f" by {self.amount}"
        name, *both = self.unit
        one, other = both if self.difference >= 0 else both[::-1]
        if self.agrees:
            return f": {name} {one} against {other} ({self.amount})"
        return f" by {self.amount}, though its {name} is {one} against {other}"

    @property
    def signed(self) -> str:
        """The difference with its sign, and both models' scores in the user's unit."""
        sign = "+" if self.difference >= 0 else "−"
        unit = "{} {} against {}, ".format(*self.unit) if self.unit else ""
        return f"{unit}{sign}{self.amount}"


def compare(cards: Iterable[ScoreCard], one: str, other: str) -> Comparison:
    """How much better one model predicts held-out rows than another, by RULE."""
    cards = list(cards)
    ones, others = _by_fold(cards, one), _by_fold(cards, other)
    folds = _used(ones.keys() & others.keys())
    if not folds:
        raise ValueError(f"{one} and {other} were not scored on the same rows yet.")
    differences = [ones[k].forecast.log_density - others[k].forecast.log_density for k in folds]
    rho = _test_share(ones[k] for k in folds)
    groups = groups_of([ones[k] for k in folds])
    d, error = paired_difference(differences, rho, groups)
    n, n_groups = sum(map(len, differences)), None if groups is None else len(np.unique(groups))
    if n < FEWEST_ROWS or n_groups == 1:
        word = "too_few"
    elif abs(d) <= max(ERRORS * error, NEGLIGIBLE):
        word = "same"
    else:
        word = "better" if d > 0 else "worse"
    unit, gain = _in_units([[own[k] for k in folds] for own in (ones, others)])
    question = ones[folds[0]].question
    agrees = gain == 0 or (gain > 0) == (d >= 0)
    return Comparison(one, other, d, error, len(folds), n, word, unit, question, agrees, n_groups)


def _in_units(pair: list[list[ScoreCard]]) -> tuple[tuple[str, ...], float]:
    """RMSE or accuracy of two models, in words, and by how much the first one is better."""
    for name, title in (("rmse", "RMSE"), ("accuracy", "accuracy")):
        if all(name in card.scores for cards in pair for card in cards):
            a, b = (float(np.mean([card.scores[name] for card in cards])) for cards in pair)
            if name == "accuracy":
                return (title, f"{100 * a:.1f} %", f"{100 * b:.1f} %"), a - b
            return (title, f"{a:,.4g}", f"{b:,.4g}"), b - a
    return (), 0.0


def groups_of(cards: list[ScoreCard]) -> np.ndarray | None:
    """The groups of all rows of these cards, where whole groups were held out."""
    each = [card.groups for card in cards if card.groups is not None]
    return np.concatenate(each) if each and len(each) == len(cards) else None


def grouped_error(values: np.ndarray, groups: np.ndarray) -> float:
    """The standard error of a mean of n rows, those of one of G groups alike in whatever way.

    √(G/(G − 1) Σ_g (Σ_{i∈g} (x_i − x̄))²)/n (Liang and Zeger 1986); infinite for one group.
    """
    _, unit = np.unique(groups, return_inverse=True)
    G = unit.max() + 1
    if G < 2:
        return np.inf
    totals = np.bincount(unit, values - values.mean())
    return float(np.sqrt(G / (G - 1) * (totals**2).sum()) / len(values))


def paired_difference(
    differences: list[np.ndarray], test_share: float, groups: np.ndarray | None = None
) -> tuple[float, float]:
    """The mean over folds of rows' differences, and its standard error.

    The larger of two: that of the folds' means, for what training sets and folds have in common,
    by Student's t, and that of the rows, since few folds can agree by chance. Rows of a held-out
    group count together, and few groups by Student's t likewise.
    """
    rows = np.concatenate(differences)
    means = np.array([d.mean() for d in differences])
    error = rows.std(ddof=1) / np.sqrt(len(rows)) if len(rows) > 1 else np.inf
    if groups is not None and np.isfinite(together := grouped_error(rows, groups)):
        error = max(error, together * few_folds(len(np.unique(groups))))
    if len(means) > 1:
        error = max(error, fold_error(means, test_share) * few_folds(len(means)))
    return float(means.mean()), float(error)


def scope(comparisons: Sequence[Comparison]) -> str:
    """Which question held-out rows answer, and what one split cannot tell, in words."""
    if not comparisons:
        return ""
    first = comparisons[0]
    asked = (
        f"This is about rows {first.question}."
        if first.question
        else "The rows were held out by chance: this is about more rows of the same kind, not "
        "about later ones or other groups."
    )
    if first.n_folds > 1:
        return asked
    return (
        f"{asked} One split judges these fitted models, not the methods: another split may end "
        "otherwise, which folds would show."
    )


@dataclass(frozen=True)
class Verdict:
    """Which model to use, and why."""

    word: str
    """deep, single, same (use the single layer), linear (neither beats the line), exact or boosting
    (better than all of these), or too_few."""
    sentence: str
    """The headline."""
    comparisons: tuple[Comparison, ...]
    model: str = ""
    """The model that it recommends, by the name of its cards; of too few rows, the deepest."""
    calibration: str = ""
    """Whether the recommended model's uncertainty can be believed, and what to do if not."""
    honest: bool = True
    """Whether the recommended model is not overconfident, as far as these rows can tell."""

    @property
    def scope(self) -> str:
        """Which question these rows answer, and what one split cannot tell."""
        return "" if self.word == "too_few" else scope(self.comparisons)

    @property
    def text(self) -> str:
        """All of it."""
        return " ".join(filter(None, (self.sentence, self.calibration, self.scope)))


OTHERS = {"exact": "the exact GP", "boosting": "gradient boosting"}
"""Models that stand beside, and are recommended where they are better."""


def verdict(
    cards: Iterable[ScoreCard], deep: str = "deep", single: str = "single", linear: str = "linear"
) -> Verdict:
    """The plain answer for a person who must choose, by RULE.

    Where neither GP beats the straight line, that is the answer; else the deep model against the
    single layer, and the simpler of two that are alike. The exact GP and gradient boosting are
    recommended where they are better than that.
    """
    cards = list(cards)
    found = _headline(cards, deep, single, linear)
    models = {"deep": deep, "single": single, "same": single, "linear": linear}
    first = deep if _by_fold(cards, deep) else single
    found = replace(found, model=models.get(found.word, first))
    titles = {deep: "the deep model", single: "the single layer", linear: "the straight line"}
    titles |= OTHERS
    if found.word != "too_few":
        found = _against_others(cards, found, titles)
    sentence = calibration(_counting(cards, found.model))
    if found.word == "too_few":
        sentence = sentence.replace("Its", f"{_capital(titles[found.model])}'s", 1)
    honest = not is_overconfident(_counting(cards, found.model))
    if not honest:
        sentence += _others_honest(cards, found.model, titles)
    return replace(found, calibration=sentence, honest=honest)


def _others_honest(cards: list[ScoreCard], model: str, titles: dict[str, str]) -> str:
    """Which other models are not overconfident, in a sentence."""
    present = {card.model for card in cards} - {model}
    if not present:
        return ""
    names = [name for name in titles if name in present]
    honest = [titles[name] for name in names if not is_overconfident(_counting(cards, name))]
    if not honest:
        return " None of the models is honest here."
    return f" Of the others, {' and '.join(honest)} {'is' if len(honest) == 1 else 'are'} not."


def _against_others(cards: list[ScoreCard], found: Verdict, titles: dict[str, str]) -> Verdict:
    """The verdict once models that stand beside have had their chance."""
    for name, title in OTHERS.items():
        own = _by_fold(cards, name)
        if not own or not _used(own.keys() & _by_fold(cards, found.model).keys()):
            continue
        c = compare(cards, name, found.model)
        comparisons = (*found.comparisons, c)
        if c.word == "better":
            sentence = (
                f"{_capital(title)} is better here than {titles[found.model]}{c.by}: use {title}. "
                f"Without it: {found.sentence}"
            )
            found = replace(found, word=name, model=name, sentence=sentence)
        found = replace(found, comparisons=comparisons)
    return found


def _headline(cards: list[ScoreCard], deep: str, single: str, linear: str) -> Verdict:
    present = {card.model for card in cards}
    titles = {deep: "the deep model", single: "the single layer"}
    gps = [name for name in (deep, single) if name in present]
    if not gps:
        raise ValueError("No model has been scored yet.")
    by_line = [compare(cards, name, linear) for name in gps if linear in present]
    between = [compare(cards, deep, single)] if len(gps) == 2 else []
    every = (*between, *by_line)
    if not every:
        return Verdict(gps[0], f"There is only {titles[gps[0]]}: nothing to compare it with.", ())
    if any(c.word == "too_few" for c in every):
        return Verdict("too_few", _too_few(every[0]), every)
    if by_line and not any(c.word == "better" for c in by_line):
        best = max(by_line, key=lambda c: c.difference)
        if len(gps) == 1:
            nobody, better = f"{_capital(titles[gps[0]])} does not beat", "it"
        else:
            nobody, better = "Neither model beats", "the better of them"
        alike = between and between[0].word == "same"
        also = ", and there is no difference beyond noise between the two" if alike else ""
        sentence = (
            f"{nobody} the straight line ({better} is at {best.signed}){also}: use the straight "
            "line."
        )
        return Verdict("linear", sentence, every)
    if not between:
        c = by_line[0]
        sentence = f"{_capital(titles[gps[0]])} beats the straight line{c.by}."
        return Verdict(gps[0], sentence, every)
    c = between[0]
    if c.word == "same":
        sentence = (
            f"No difference beyond noise between the deep model and the single layer ({c.signed}): "
            "use the single layer, which is simpler and quicker."
        )
        return Verdict("same", sentence, every)
    winner, loser = (deep, single) if c.word == "better" else (single, deep)
    what = "density" if cards[0].task == "regression" else "probability"
    sentence = (
        f"{_capital(titles[winner])} is better{c.by}; it gives what was observed "
        f"{_times(abs(c.difference))} times the {what} that {titles[loser]} does."
    )
    return Verdict("deep" if c.word == "better" else "single", sentence, every)


CHECKED = 0.9
"""The central interval whose coverage the verdict names."""

REMEDIES = {
    "regression": "a Student-t likelihood, more training steps or conformal widening may help",
    "counts": "counts that vary more than Poisson's do are often the cause: the negative binomial "
    "likelihood or conformal widening may help",
    "binary": "more training steps and more rows may help",
    "multiclass": "the softmax likelihood, if it is not the one already, and more training steps "
    "may help",
}
"""What can be done about an overconfident model of each task."""


@dataclass(frozen=True, eq=False)
class _CameTrue:
    """For each row whether it came as predicted, and how often that should be."""

    right: np.ndarray
    share: float
    groups: np.ndarray | None = None
    """Of each row, where whole groups were held out."""

    @property
    def seen(self) -> float:
        return float(self.right.mean())

    def error(self, share: float) -> float:
        """The standard error of the share that is seen, where this one is the true one."""
        alone = float(np.sqrt(share * (1 - share) / self.right.size))
        if self.groups is None:
            return alone
        return max(alone, grouped_error(self.right.astype(float), self.groups))

    @property
    def probability(self) -> float:
        """Of a share as far from what it should be: by the binomial law, or of groups by t."""
        if self.groups is None:
            return binomial_test(int(self.right.sum()), self.right.size, self.share)
        G = len(np.unique(self.groups))
        if G < 2:
            return 1.0
        t = abs(self.seen - self.share) / self.error(self.share)
        return float(2.0 * special.stdtr(G - 1, -t))


def _came_true(cards: list[ScoreCard]) -> _CameTrue | None:
    """What came true of all rows of these cards; None where nothing can be said."""
    if not cards:
        return None
    first, groups = cards[0].forecast, groups_of(cards)
    if first.probabilities is not None:
        p = np.concatenate([np.asarray(card.forecast.probabilities) for card in cards])
        codes = np.concatenate([card.observed[:, 0] for card in cards]).astype(int)
        share = float(np.clip(p.max(1).mean(), 1e-9, 1 - 1e-9))
        return _CameTrue(p.argmax(1) == codes, share, groups)
    if CHECKED not in first.inside:
        return None
    inside = np.concatenate([card.forecast.inside[CHECKED] for card in cards])
    groups = None if groups is None else np.repeat(groups, inside.shape[1])
    return _CameTrue(inside.ravel(), CHECKED, groups)


def is_overconfident(cards: list[ScoreCard]) -> bool:
    """Whether a test of 5 % says that a model is too sure of its held-out rows."""
    found = _came_true(cards)
    return found is not None and found.seen < found.share and found.probability < 0.05


def calibration(cards: list[ScoreCard]) -> str:
    """Whether a model's probabilities came true on its held-out rows, in a sentence."""
    found = _came_true(cards)
    if found is None:
        return ""
    share, seen, n = found.share, found.seen, found.right.size
    classes = cards[0].forecast.probabilities is not None
    words = (
        f"Its likeliest class was given {100 * share:.0f} % on average, and was right in"
        if classes
        else f"Its {100 * share:.0f} % intervals held"
    )
    rows = counted(n, "row")
    error = found.error(seen)
    if found.groups is not None:
        G = len(np.unique(found.groups))
        rows += f" of {counted(G, 'group')}"
    words += f" {100 * seen:.0f} % "
    words += f"± {100 * error:.0f} % of {rows}" if np.isfinite(error) else f"of {rows}"
    if not np.isfinite(error):
        return f"{words}, too few groups to tell."
    if is_overconfident(cards):
        return f"{words}: overconfident; {REMEDIES[cards[0].task]}."
    if found.probability >= 0.05:
        return f"{words}: honest." if classes else f"{words}: as they should."
    return f"{words}: underconfident; more training steps may narrow them."


def binomial_test(k: int, n: int, share: float) -> float:
    """P of a count no likelier than k among n, each right with this probability (two-sided)."""
    i = np.arange(n + 1)
    chosen = special.gammaln(n + 1) - special.gammaln(i + 1) - special.gammaln(n - i + 1)
    log_p = chosen + special.xlogy(i, share) + special.xlog1py(n - i, -share)
    return float(np.exp(log_p[log_p <= log_p[k] + 1e-7]).sum())


def _with_error(value: float, error: float) -> str:
    """A number to the digit that its error is of."""
    digits = 2 if not 0 < error < np.inf else int(np.clip(-np.floor(np.log10(error)), 0, 4))
    return f"{value:,.{digits}f} ± {error:,.{digits}f}"


def _times(nats: float) -> str:
    """e^nats as a person would say it."""
    factor = np.exp(min(nats, 50.0))
    return f"{factor:.2f}" if factor < 10 else f"{factor:,.0f}" if factor < 1e6 else f"{factor:.0e}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _too_few(c: Comparison) -> str:
    if c.n_groups == 1:
        return (
            f"Held out are rows {c.question}, but of 1 group only, which is too few to tell the "
            "models apart: cross-validate over folds, or hold out more groups."
        )
    were = "was" if c.n_rows == 1 else "were"
    return (
        f"Only {counted(c.n_rows, 'row')} {were} held out, too few to tell the models apart: "
        "cross-validate over folds, or bring more rows."
    )
