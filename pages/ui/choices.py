"""What a person chose in the playground: the controls' values, and the share link that holds them.

A value of a link that is not offered becomes the nearest one that is, and a sentence says so.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from typing import Any

from datasets import catalogue
from datasets.starts import SPLIT
from datasets.toys import FIRST_POINTS
from dgp_core.gp.data import Dataset, counted
from dgp_core.gp.likelihoods import OF_TASK
from dgp_core.gp.mean_field import MOST_ROWS
from dgp_core.gp.model import ModelSpec
from dgp_core.gp.splits import BY_CHANCE, SplitBy, SplitWay, by_input, split_columns
from dgp_core.training.train import TrainSpec

VERSION = "1"
STEPS = 100_000
PATIENCE, TOLERANCE = 20_000, 1e-4
"""A run is over once its bounds gain less than so many nats per row in so many steps."""
MANY_ROWS = 1000
"""Sets of more rows are trained in minibatches, where nobody chose."""
SUITING_BATCH = 500

DATA = (*catalogue.names("toy"), *catalogue.names("shipped"))
SPEEDS = {"full": None, "100": 100.0, "10": 10.0, "1": 1.0}
"""Steps a second, by the link's word for them; None is as fast as it goes."""
KERNELS = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic", "periodic", "linear")
OFFERED: dict[str, Sequence] = {
    "data": DATA,
    "layers": (1, 2, 3, 4, 5),
    "inducing": (5, 10, 25, 50, 100),
    "width": (0, 1, 2, 3, 5, 10),
    "mean": ("linear", "zero", "concatenate"),
    "posterior": ("doubly_stochastic", "mean_field"),
    "likelihood": (
        "auto",
        *dict.fromkeys(name for names in OF_TASK.values() for name in names),
    ),
    "rate": (0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
    "natural": (0.0, 0.01, 0.03, 0.1, 0.3),
    "batch": (0, 10, 32, 100, 500, 2000),
    "samples": (1, 2, 5, 10),
    "seed": range(1000),
    "speed": tuple(SPEEDS),
    "shade": ("density", "bands"),
    "noise": ("with", "without"),
    "at": range(STEPS + 1),
}
IN_WORDS = {
    "data": "data set",
    "layers": "depth",
    "inducing": "number of inducing points",
    "width": "width",
    "kernels": "kernel",
    "mean": "mean function",
    "posterior": "posterior",
    "likelihood": "likelihood",
    "judge": "way to hold rows out",
    "rate": "learning rate",
    "natural": "natural-gradient rate",
    "batch": "minibatch",
    "samples": "number of samples",
    "seed": "seed",
    "speed": "speed",
    "shade": "way of showing predictions",
    "noise": "choice of noise",
    "star": "place x*",
    "at": "step",
    "points": "list of points",
    "layer": "layer",
    "enters": "input of the layer",
    "leaves": "output of the layer",
    "measure": "measure",
    "depth": "depth",
    "swing": "output scale",
    "draw": "draw",
    "redraw": "draw",
    "S": "number of samples S",
    "B": "number of rows B",
    "set": "data set",
    "kind": "kind",
}
MOST_POINTS = 200


@dataclass(frozen=True)
class Choices:
    """Everything that makes a run, how fast it goes, and what is shown of it."""

    data: str = "step"
    layers: int = 2
    inducing: int = 25
    width: int = 0
    """Of inner layers; 0 is as many as there are inputs, 30 at the most."""
    kernels: str = "rbf"
    """A name for all layers, or one for each with commas between."""
    mean: str = "linear"
    posterior: str = "doubly_stochastic"
    likelihood: str = "auto"
    rate: float = 0.01
    """Adam's learning rate: less than a fit's, since here it never falls, and jumps would show."""
    natural: float = TrainSpec().natural_rate
    """γ for the last layer's q(u); 0 leaves it to Adam."""
    batch: int = 0
    """Rows a step; 0 is as suits the data."""
    samples: int = 1
    seed: int = 0
    speed: str = "full"
    """One of SPEEDS."""
    shade: str = "density"
    noise: str = "with"
    """Whether the shade is of new points, or of the function alone."""
    star: str = ""
    """Where the mixture is shown: numbers with commas between, or nothing for the middle."""
    at: int = 0
    """A step at which a new run pauses; 0 goes on."""
    points: str = ""
    """Of the set that a person draws: x_y, with ~ between."""
    judge: str = "auto"
    """How rows of real data are held out: one of `judge_options`, or what suits the data."""

    @property
    def shape(self) -> tuple:
        """Settings that cannot change during a run: another value starts another one."""
        own = (self.data, self.judged_by, self.model, self.minibatch, self.samples)
        return (*own, self.natural > 0, self.points)

    @cached_property
    def _parts(self) -> tuple[Dataset, Dataset | None]:
        if self.data == "drawn":
            return catalogue.load("drawn", points=self.drawn_points), None
        data = catalogue.load(self.data)
        if not self.holds_out:
            return data, None
        train, held = self.split_by.places(len(data), *SPLIT)
        return data.take(train), data.take(held)

    @property
    def judged_by(self) -> tuple[SplitWay, str]:
        """How rows are held out, and by which column: the latest ones where the rows have dates."""
        if self.judge == "auto":
            time = catalogue.entry(self.data).time
            return ("latest", time) if time else ("chance", "")
        way, _, column = self.judge.partition(":")
        return way, column  # pyright: ignore[reportReturnType]

    @property
    def split_by(self) -> SplitBy:
        way, column = self.judged_by
        return BY_CHANCE if way == "chance" else by_input(catalogue.load(self.data), way, column)

    @property
    def holds_out(self) -> bool:
        """Whether rows are held out: of real data, since a toy's can be drawn anew."""
        return catalogue.entry(self.data).kind != "toy"

    @property
    def dataset(self) -> Dataset:
        """What the models learn from."""
        return self._parts[0]

    @property
    def held_out(self) -> Dataset | None:
        """Real rows that they do not learn from."""
        return self._parts[1]

    @property
    def drawn_points(self) -> list[tuple[float, float]]:
        """Of the set that a person draws: the first ones where nobody has begun."""
        return read_points(self.points) or list(FIRST_POINTS)

    @property
    def task(self) -> str:
        return catalogue.entry(self.data).task

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """A kernel a layer: the last one given serves those that have none."""
        given = self.kernels.split(",")
        return tuple(given[min(l, len(given) - 1)] for l in range(self.layers))

    @property
    def model(self) -> ModelSpec:
        likelihood = self.likelihood
        names = self.kernel_names
        return ModelSpec(
            layers=self.layers,
            inducing=self.inducing,
            widths=self.width or None,
            kernels=names[0] if len(set(names)) == 1 else names,
            mean_function=self.mean,  # pyright: ignore[reportArgumentType]
            posterior=self.posterior,  # pyright: ignore[reportArgumentType]
            likelihood=OF_TASK[self.task][0] if likelihood == "auto" else likelihood,
        )

    @property
    def place(self) -> tuple[float, ...]:
        """x* as numbers; nothing where nobody chose."""
        return tuple(float(part) for part in self.star.split(",") if part)

    @property
    def posteriors(self) -> Sequence[str]:
        """Those that these data can have: mean-field has a Gaussian for every row."""
        offered = OFFERED["posterior"]
        return offered if (catalogue.entry(self.data).N or 0) <= MOST_ROWS else offered[:1]

    @property
    def minibatch(self) -> int | None:
        if self.model.mean_field:
            return None
        rows = catalogue.entry(self.data).N or 0
        if self.batch:
            return self.batch if self.batch < rows else None
        return SUITING_BATCH if rows > MANY_ROWS else None

    @property
    def train(self) -> TrainSpec:
        return TrainSpec(
            steps=STEPS,
            learning_rate=self.rate,
            natural_rate=self.natural,
            minibatch=self.minibatch,
            samples=self.samples,
            decay=False,
            tolerance=TOLERANCE,
            patience=PATIENCE,
            seed=self.seed,
        )

    def query(self) -> dict[str, str]:
        """The share link's part after the question mark: the version and every choice."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        left_out = {
            "star": "",
            "points": "",
            "at": 0,
            "judge": "auto",
            "posterior": "doubly_stochastic",
        }
        return {
            "v": VERSION,
            **{name: f"{value}" for name, value in own.items() if value != left_out.get(name)},
        }


@cache
def judge_options(data: str) -> tuple[str, ...]:
    """How rows of a set can be held out: "chance", or a way and a column with a colon between."""
    about = catalogue.entry(data)
    if about.kind == "toy" or about.image:
        return ("chance",)
    found = split_columns(catalogue.load(data))
    first = {about.time} & set(found["latest"])
    times = [*first, *(name for name in found["latest"] if name not in first)]
    return (
        "chance",
        *(f"latest:{name}" for name in times),
        *(f"groups:{name}" for name in found["groups"]),
    )


HIDEABLE = ("controls", "bar", "rival", "bound", "layers", "mixture", "history", "words")
"""Parts of the playground that a teacher's link may leave out."""


REVEALS = ("open", "withheld")
"""What a link may do with "what should happen": open at once, or left to the teacher."""


@dataclass(frozen=True)
class DisplayOptions:
    """Display options of a teacher's link: locked, with parts left out, or in large type."""

    lock: bool = False
    """Controls are shown but cannot be moved, and there is no menu."""
    hide: tuple[str, ...] = ()
    projector: bool = False
    reveal: str = ""
    """One of REVEALS; else "what should happen" is shown after a guess."""
    solutions: bool = False
    """Every answer is given: for teachers, and never in the links that a page offers."""

    def query(self) -> dict[str, str]:
        words = {
            "lock": "1" if self.lock else "",
            "hide": ",".join(self.hide),
            "view": "projector" if self.projector else "",
            "reveal": self.reveal,
            "solutions": "1" if self.solutions else "",
        }
        return {name: value for name, value in words.items() if value}


def read_display_options(query: Mapping[str, str]) -> DisplayOptions:
    """The display options of a link; unknown words are ignored."""
    hidden = query.get("hide", "").split(",")
    return DisplayOptions(
        lock=query.get("lock") == "1",
        hide=tuple(name for name in HIDEABLE if name in hidden),
        projector=query.get("view") == "projector",
        reveal=query.get("reveal", "") if query.get("reveal") in REVEALS else "",
        solutions=query.get("solutions") == "1",
    )


def display_sentences(query: Mapping[str, str]) -> list[str]:
    """A sentence for each display option that this app does not know."""
    hidden = [name for name in query.get("hide", "").split(",") if name]
    unknown = [name for name in hidden if name not in HIDEABLE]
    sentences = []
    if unknown:
        parts = ", ".join(HIDEABLE)
        sentences.append(
            f"The link wants to leave out {', '.join(unknown)[:60]!r}, which is no part of this "
            f"page: it may name {parts}."
        )
    known = {"lock": ("1",), "view": ("projector",), "reveal": REVEALS, "solutions": ("1",)}
    for name, words in known.items():
        if query.get(name, "") not in ("", *words):
            sentences.append(
                f"The link says {name}={query[name][:30]!r}, but only {' and '.join(words)} "
                f"{'is' if len(words) == 1 else 'are'} known."
            )
    return sentences


def not_offered(name: str, text: str, value: Any) -> list[str]:
    """A sentence where a link's value could not be taken as it is."""
    if _same(text, value):
        return []
    instead = f"{value} is taken instead" if value not in ("", 0) else "it is left out"
    return [
        f"The link asks for the {IN_WORDS.get(name, name)} {text[:30]!r}, which is not offered "
        f"here: {instead}."
    ]


def read_query(query: Mapping[str, str]) -> tuple[Choices, list[str]]:
    """The choices of a link, and a sentence for each value that could not be taken as it is."""
    sentences = []
    version = query.get("v", VERSION)
    if version != VERSION:
        sentences.append(
            f"This link is of version {version[:20]!r}, and this app writes version {VERSION}: "
            "what it understood is below."
        )
    taken: dict[str, Any] = {}
    for field in fields(Choices):
        if field.name not in query:
            continue
        text = query[field.name]
        value = READERS.get(field.name, _read_offered)(text, field.name, field.default)
        taken[field.name] = value
        sentences += not_offered(field.name, text, value)
    choices = Choices(**taken)
    D = catalogue.entry(choices.data).D
    if len(choices.place) > D:
        sentences.append(
            f"The link's place x* {choices.star[:30]!r} has {len(choices.place)} numbers, and "
            f"these data have {counted(D, 'input')}: it is left out."
        )
        choices = replace(choices, star="")
    if choices.posterior not in choices.posteriors:
        sentences.append(
            f"The mean-field posterior has a Gaussian for every row, {MOST_ROWS:,} at the most, "
            "and these data have more: the doubly stochastic one is taken instead."
        )
        choices = replace(choices, posterior=choices.posteriors[0])
    if choices.likelihood not in ("auto", *OF_TASK[choices.task]):
        sentences.append(
            f"The likelihood {choices.likelihood} is not for data like these "
            f"({choices.task}): {OF_TASK[choices.task][0]} is taken instead."
        )
        choices = replace(choices, likelihood="auto")
    if choices.judge not in ("auto", *judge_options(choices.data)):
        sentences.append(
            f"The link holds rows out by {choices.judge[:40]!r}, which these data do not have: "
            "what suits them is taken instead."
        )
        choices = replace(choices, judge="auto")
    return choices, sentences


def _read_offered(text: str, name: str, default):
    return nearest(text, OFFERED[name], default)


def _read_kernels(text: str, name: str, default: str) -> str:
    return ",".join(nearest(part, KERNELS, default) for part in text.split(",")[:5])


def _read_star(text: str, name: str, default: str) -> str:
    try:
        numbers = [float(part) for part in text.split(",")[:1000]] if text else []
    except ValueError:
        return default
    return text if all(abs(number) < 1e12 for number in numbers) else default


def _read_points(text: str, name: str, default: str) -> str:
    try:
        return text if 2 <= len(read_points(text)) <= MOST_POINTS else default
    except ValueError:
        return default


def _read_judge(text: str, name: str, default: str) -> str:
    return text[:200]  # whether the data have it is asked once they are known


READERS: dict[str, Callable[[str, str, Any], Any]] = {
    "kernels": _read_kernels,
    "star": _read_star,
    "points": _read_points,
    "judge": _read_judge,
}


def read_points(text: str) -> list[tuple[float, float]]:
    """The points of a link; a ValueError where it has anything else."""
    if not re.fullmatch(r"[-\d.e_~]*", text):
        raise ValueError("Points are written x_y, with ~ between them.")
    pairs = [part.split("_") for part in text.split("~") if part]
    points = [(float(x), float(y)) for x, y in pairs]
    if any(max(abs(x), abs(y)) > 1e6 for x, y in points):
        raise ValueError("Points lie between −1,000,000 and 1,000,000.")
    return points


def write_points(points: Sequence[tuple[float, float]]) -> str:
    """Points as a link holds them, to four digits."""
    return "~".join(f"{x:.4g}_{y:.4g}".replace("e+", "e") for x, y in points)


def nearest(text: str, offered, default):
    """The offered value nearest to what a link says; the default where it makes no sense."""
    if isinstance(default, str):
        near = difflib.get_close_matches(text.strip().lower(), offered, n=1, cutoff=0.5)
        return near[0] if near else default
    try:
        number = float(text)
    except ValueError:
        return default
    if number != number:
        return default
    inside = min(max(number, min(offered)), max(offered))
    return min(offered, key=lambda value: abs(value - inside))


def _same(text: str, value) -> bool:
    if isinstance(value, str):
        return text == value
    try:
        return float(text) == value
    except ValueError:
        return False
