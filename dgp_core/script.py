"""A run as a Python script on this library, which trains the same model to the last bit."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import numpy as np

from dgp_core.gp.data import Task
from dgp_core.gp.model import ModelSpec
from dgp_core.tables.recipe import Missing, Transform
from dgp_core.tables.table import Table
from dgp_core.training.train import TrainSpec

Decision = tuple[str, str, bool | None]
"""A column, its kind, and for dates whether the day comes first."""


@dataclass(frozen=True)
class Named:
    """A set of the collection: a toy's generator, or a shipped or fetched file."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    """What `datasets.catalogue.load` was told besides."""

    @property
    def imports(self) -> tuple[str, ...]:
        return ("from datasets.catalogue import load",)

    def lines(self) -> list[str]:
        options = "".join(f", {name}={_literal(value)}" for name, value in self.options.items())
        if wrong := [name for name in self.options if not name.isidentifier()]:
            raise ValueError(f"These are no options of a data set: {wrong}.")
        return [
            "# Run this in the project's folder, where the collection is.",
            f"dataset = load({self.name!r}{options})",
            "recipe = None",
        ]


@dataclass(frozen=True)
class Upload:
    """A user's file, and what was decided about its columns."""

    file: str
    """Its name; the script looks for it in its own folder."""
    targets: tuple[str, ...]
    task: Task
    missing: Missing = "drop"
    transforms: tuple[Transform, ...] = ()
    """One for each target; none where nothing was done."""
    decisions: tuple[Decision, ...] = ()
    """Columns that are not what the file itself proposes: see `decisions`."""

    @property
    def imports(self) -> tuple[str, ...]:
        return ("import json", "from dgp_core.tables.table import read_table")

    def lines(self) -> list[str]:
        made = [f"table = read_table({self.file!r}, limits=None)"]
        for column, kind, day_first in self.decisions:
            more = "" if day_first is None else f", day_first={day_first!r}"
            made.append(f"table = table.decide({column!r}, {kind!r}{more})")
        transforms = self.transforms or ("none",) * len(self.targets)
        return [
            *made,
            "prepared = table.to_dataset(",
            f"    {self.targets!r},",
            f"    task={self.task!r},",
            f"    missing={self.missing!r},",
            f"    transform={transforms!r},",
            ")",
            "dataset, recipe = prepared.dataset, json.loads(prepared.recipe.to_json())",
        ]


def decisions(before: Table, after: Table) -> tuple[Decision, ...]:
    """What a person changed about the columns of a table."""
    pairs = zip(before.columns, after.columns, strict=True)
    return tuple(
        (new.name, new.kind, new.day_first)
        for old, new in pairs
        if (old.kind, old.day_first) != (new.kind, new.day_first)
    )


_SCRIPT = '''\
"""A deep GP and its single-layer rival, trained as in Deep GP Lab, and judged on held-out rows."""

{imports}

# The data.
{data}
{rows}

# The model, and how it is trained.
spec = {model}
training = {train}
n_steps = {steps}

scaler = Scaler.fit(train)
rows = scaler(train)
batches = Rows.create(rows.X, rows.Y, training.minibatch, spec.dtype, training.seed)


def fit(spec):
    """Training from the start values of the seed: the state at the end, and the bound's parts."""
    model = create_model(spec, rows.X, rows.Y.shape[1], max(2, len(rows.classes)), training.seed)
    state = create_state(model, jax.random.key(training.seed))
    bounds = []
    while int(state.step) < n_steps:
        state, bound = train_chunk(state, batches, training, min(1000, n_steps - int(state.step)))
        bounds.append(bound)
        print(f"step {{int(state.step):,}} of {{n_steps:,}}: bound {{bound.value[-1]:,.2f}}")
    return state, bounds


state, bounds = fit(spec)
{rival}
# What they are worth on rows that they have not seen.
models = {{{models}}}
cards = [
    score(name, deep_predictor(model, scaler, training.seed), held_out, n_train=len(train))
    for name, model in models.items()
]
cards.append(score("linear", linear_predictor(train), held_out, n_train=len(train)))
for card in cards:
    print(card.model, {{name: round(value, 4) for name, value in card.scores.items()}})
print(verdict(cards).text)

# A file that Deep GP Lab and `python -m dgp_core` open.
archive.save(
    "model.npz",
    archive.Archive(
        model=spec,
        training=training,
        scaler=scaler,
        state=state,
        progress=Progress(
            steps=n_steps,
            fit=[bound.fit for bound in bounds],
            kl=[bound.kl for bound in bounds],
            failures=int(state.failures),
            stopped=f"reached {{n_steps:,}} steps",
        ),
        task=dataset.task,
        input_names=dataset.input_names,
        output_names=dataset.output_names,
        classes=dataset.classes,
        recipe=recipe,
        source=archive.Source(
            {file}, len(dataset), archive.digest(dataset.X, dataset.Y), {held_out}, {seed}
        ),
    ),
)
'''

_RIVAL = """rival_state, _ = fit(spec.single_layer())
"""

_ALL_ROWS = """# Trained on all rows: scores on them flatter the model.
train = held_out = dataset"""


def script(
    source: Named | Upload,
    model: ModelSpec,
    train: TrainSpec,
    *,
    fraction: float | None = 0.9,
    split_seed: int | None = None,
    steps: int | None = None,
) -> str:
    """The text of a script that trains what a run trained, as far as it went.

    `fraction` of the rows are trained on, by `split` with the training's seed or another one; None
    is all of them.
    `steps` is where the run stood; None is its limit. Names that come from a file are quoted.
    """
    imports = sorted(
        {
            "import jax",
            "from dgp_core import archive, split" if fraction else "from dgp_core import archive",
            "from dgp_core.gp.data import Scaler",
            "from dgp_core.evaluation.comparison import score, verdict",
            "from dgp_core.evaluation.forecast import deep_predictor, linear_predictor",
            "from dgp_core.gp.model import ModelSpec, create_model",
            "from dgp_core.training.optimise import create_state",
            "from dgp_core.training.train import Progress, Rows, TrainSpec, train_chunk",
            *source.imports,
        },
        key=lambda line: (line.startswith("from"), line),
    )
    deep = model.layers > 1
    split_seed = train.seed if split_seed is None else split_seed
    rows = f"train, held_out = split(dataset, {fraction!r}, seed={split_seed!r})"
    models = '"deep": state.model, "single": rival_state.model' if deep else '"single": state.model'
    return _SCRIPT.format(
        imports="\n".join(imports),
        data="\n".join(source.lines()),
        rows=_ALL_ROWS if fraction is None else rows,
        model=_call(model),
        train=_call(train),
        steps=train.steps if steps is None else int(steps),
        rival=_RIVAL if deep else "",
        models=models,
        file=repr(source.file if isinstance(source, Upload) else ""),
        held_out="0.0" if fraction is None else f"1 - {fraction!r}",
        seed=repr(split_seed),
    )


def _call(spec: ModelSpec | TrainSpec) -> str:
    """A dataclass as the call that makes it, defaults left out."""
    own = [
        f"{f.name}={_literal(getattr(spec, f.name))}"
        for f in fields(spec)
        if f.default is MISSING or getattr(spec, f.name) != f.default
    ]
    return f"{type(spec).__name__}({', '.join(own)})"


def _literal(value: Any) -> str:
    """A value as Python text that evaluates to it and can do nothing else."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, Sequence):
        items = [_literal(item) for item in value]
        if isinstance(value, tuple):
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        return f"[{', '.join(items)}]"
    raise TypeError(f"{type(value).__name__} cannot be written into a script.")
