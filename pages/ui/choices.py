"""What a person chose in the playground: the controls' values, and the share link that holds them.

A link is met with goodwill: a value that is not offered becomes the nearest one that is, and a
sentence says so.
"""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from datasets import catalogue
from dgp_core.model import ModelSpec
from dgp_core.train import TrainSpec

VERSION = "1"
STEPS = 20_000

DATA = tuple(
    name
    for name in (*catalogue.names("toy"), "motorcycle")
    if name != "drawn"
    and catalogue.entry(name).D == 1
    and catalogue.entry(name).task == "regression"
)
SPEEDS = {"full": None, "100": 100.0, "10": 10.0, "1": 1.0}
"""Steps a second, by the link's word for them; None is as fast as it goes."""
OFFERED: dict[str, Sequence] = {
    "data": DATA,
    "layers": (1, 2, 3, 4, 5),
    "inducing": (5, 10, 25, 50),
    "rate": (0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
    "natural": (0.0, 0.01, 0.03, 0.1, 0.3),
    "seed": range(1000),
    "speed": tuple(SPEEDS),
}
IN_WORDS = {
    "data": "data set",
    "layers": "depth",
    "inducing": "number of inducing points",
    "rate": "learning rate",
    "natural": "natural-gradient rate",
    "seed": "seed",
    "speed": "speed",
}


@dataclass(frozen=True)
class Choices:
    """Everything that makes a run, and how fast it goes."""

    data: str = "step"
    layers: int = 2
    inducing: int = 25
    rate: float = 0.01
    """Adam's learning rate: less than a fit's, since here it never falls, and jumps would show."""
    natural: float = TrainSpec().natural_rate
    """γ for the last layer's q(u); 0 leaves it to Adam."""
    seed: int = 0
    speed: str = "full"
    """One of SPEEDS."""

    @property
    def shape(self) -> tuple:
        """What cannot change under way: another value is another run."""
        return self.data, self.layers, self.inducing, self.natural > 0

    @property
    def model(self) -> ModelSpec:
        return ModelSpec(layers=self.layers, inducing=self.inducing)

    @property
    def train(self) -> TrainSpec:
        return TrainSpec(
            steps=STEPS,
            learning_rate=self.rate,
            natural_rate=self.natural,
            minibatch=None,
            decay=False,
            seed=self.seed,
        )

    def query(self) -> dict[str, str]:
        """The share link's part after the question mark, every choice in it."""
        own = {field.name: f"{getattr(self, field.name)}" for field in fields(self)}
        return {"v": VERSION, **own}


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
        said = query[field.name]
        value = nearest(said, OFFERED[field.name], field.default)
        taken[field.name] = value
        if not _same(said, value):
            sentences.append(
                f"The link asks for the {IN_WORDS[field.name]} {said[:30]!r}, which is not offered "
                f"here: {value} is taken instead."
            )
    return Choices(**taken), sentences


def nearest(said: str, offered, default):
    """The offered value nearest to what a link says; the default where it makes no sense."""
    if isinstance(default, str):
        near = difflib.get_close_matches(said.strip().lower(), offered, n=1, cutoff=0.5)
        return near[0] if near else default
    try:
        number = float(said)
    except ValueError:
        return default
    if number != number:
        return default
    inside = min(max(number, min(offered)), max(offered))
    return min(offered, key=lambda value: abs(value - inside))


def _same(said: str, value) -> bool:
    if isinstance(value, str):
        return said == value
    try:
        return float(said) == value
    except ValueError:
        return False
