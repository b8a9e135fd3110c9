"""A run as a Python script on this library, which trains the same model to the last bit."""

import base64
import zlib
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import numpy as np

from dgp_core.gp.data import Dataset, Task
from dgp_core.gp.model import ModelSpec
from dgp_core.gp.splits import SplitWay
from dgp_core.tables.recipe import Missing, Transform
from dgp_core.tables.table import Decision, Table
from dgp_core.training.train import TrainSpec

MOST_NUMBERS = 2_500_000
"""Numbers that a script holds itself, at the most: some megabytes of text. Every toy and every
shipped set has fewer, so that their scripts run from any folder."""

JudgeBy = tuple[SplitWay, str]
"""How rows are held out, and the column of times or groups."""


@dataclass(frozen=True)
class Named:
    """A set of the collection; where its rows are given, the script holds them itself."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    """What `datasets.catalogue.load` was told besides."""
    dataset: Dataset | None = None
    """The rows: a script with more than MOST_NUMBERS needs the collection."""
    judge_by: JudgeBy = ("chance", "")

    @property
    def _held(self) -> Dataset | None:
        data = self.dataset
        return data if data and data.X.size + data.Y.size <= MOST_NUMBERS else None

    def split_lines(self, fraction: float, seed: int) -> list[str]:
        """The lines that hold rows out."""
        way, column = self.judge_by
        made = f"by = by_input(dataset, {way!r}, {column!r})"
        return [made, f"train_rows, held_rows = by.places(len(dataset), {fraction!r}, {seed!r})"]

    @property
    def split_import(self) -> str:
        return "from dgp_core.gp.splits import by_input"

    @property
    def imports(self) -> tuple[str, ...]:
        if self._held is None:
            return ("from datasets.catalogue import load",)
        return ("import base64", "import zlib", "import numpy as np")

    def lines(self) -> list[str]:
        options = "".join(f", {name}={_literal(value)}" for name, value in self.options.items())
        if wrong := [name for name in self.options if not name.isidentifier()]:
            raise ValueError(f"These are no options of a data set: {wrong}.")
        data = self._held
        if data is None:
            return [
                "# Run this in the project's folder, where the collection is.",
                f"dataset = load({self.name!r}{options})",
                "recipe = None",
            ]
        return [
            "def numbers(text, shape):",
            '    """Numbers as they were packed: eight bytes each, deflated, in base 85."""',
            "    packed = zlib.decompress(base64.b85decode(text))",
            '    return np.frombuffer(packed, "<f8").reshape(shape)',
            "",
            "",
            "dataset = Dataset(",
            f"    {data.name!r},",
            *(
                f"    numbers({_packed(np.ascontiguousarray(a, '<f8').tobytes())}, {a.shape!r}),"
                for a in (data.X, data.Y)
            ),
            f"    input_names={tuple(data.input_names)!r},",
            f"    output_names={tuple(data.output_names)!r},",
            f"    task={data.task!r},",
            f"    classes={_literal(tuple(data.classes))},",
            ")",
            "recipe = None",
        ]


def _packed(content: bytes) -> str:
    """Bytes as text that a script can hold."""
    return repr(base64.b85encode(zlib.compress(content, 9)).decode())


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
    reading: dict[str, Any] = field(default_factory=dict)
    """How the file is to be read, as `read_table` takes it."""
    exposure: str = ""
    """The column that multiplies each row's rate of counts, if there is one."""
    content: bytes | None = None
    """What the script holds in place of the file."""
    judge_by: JudgeBy = ("chance", "")

    def split_lines(self, fraction: float, seed: int) -> list[str]:
        """The lines that hold rows out, and let the training rows alone decide what stands for
        missing cells and which levels are inputs."""
        way, column = self.judge_by
        return [
            f"by = split_by(table, {way!r}, {column!r}, prepared.rows)",
            f"train_rows, held_rows = by.places(len(dataset), {fraction!r}, {seed!r})",
            "prepared = prepared.refit(train_rows)",
            "dataset, recipe = prepared.dataset, json.loads(prepared.recipe.to_json())",
        ]

    @property
    def split_import(self) -> str:
        return "from dgp_core.tables.splitting import split_by"

    @property
    def imports(self) -> tuple[str, ...]:
        common = ("import json", "from dgp_core.tables.table import read_table")
        if self.content is None:
            return (*common, "from pathlib import Path")
        return (*common, "import base64", "import zlib")

    def lines(self) -> list[str]:
        given = "".join(f", {name}={_literal(value)}" for name, value in self.reading.items())
        # A file lies in the script's own folder, from wherever the script is run.
        file = (
            f"Path(__file__).parent / {self.file!r}"
            if self.content is None
            else f"zlib.decompress(base64.b85decode({_packed(self.content)})), {self.file!r}"
        )
        made = [f"table = read_table({file}, limits=None{given})"]
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
            *([f"    exposure={self.exposure!r},"] if self.exposure else []),
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
"""A deep GP and its single-layer rival, trained as in Deep GP Lab{judged}."""

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
    P, C = train.Y.shape[1], max(2, len(rows.classes))
    model = create_model(spec, rows.X, P, C, training.seed, rows.Y)
    state = create_state(model, jax.random.key(training.seed))
    bounds = []
    while int(state.step) < n_steps:
        state, bound = train_chunk(state, batches, training, min(1000, n_steps - int(state.step)))
        bounds.append(bound)
        print(f"step {{int(state.step):,}} of {{n_steps:,}}: bound {{bound.value[-1]:,.2f}}")
    return state, bounds


state, bounds = fit(spec)
{rival}
{scores}
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
            stopped=f"reached {{n_steps:,}} step{{'s' if n_steps != 1 else ''}}",
        ),
        task=dataset.task,
        input_names=dataset.input_names,
        output_names=dataset.output_names,
        classes=dataset.classes,
        recipe=recipe,
        source=archive.Source(
            {file},
            len(dataset),
            archive.digest(dataset.X, dataset.Y),
            held_out={held_out},
            split_seed={seed},
            split_way={way},
            split_column={column},
        ),
        domain=Domain.fit(train.X, scaler),
    ),
)
'''

_RIVAL = """rival_state, _ = fit(spec.single_layer())
"""

_BOOSTING = "from dgp_core.evaluation.boosting import boosting_predictor"

_ALL_ROWS = "train = dataset  # all rows"

_SCORES = """# What they are worth on rows that they have not seen.
models = {{{models}}}
about = {{"question": by.rows, "groups": by.groups_of(held_rows)}}
cards = [
    score(name, predictor, held_out, n_train=len(train), **about)
    for name, predictor in (
        *((name, deep_predictor(model, scaler, training.seed)) for name, model in models.items()),
        ("linear", linear_predictor(train)),
        ("boosting", boosting_predictor(train)),
    )
]
for card in cards:
    print(card.model, {{name: round(value, 4) for name, value in card.scores.items()}})
print(verdict(cards).text)
"""

_TRAINING_SCORES = """\
# No row was held out: models seem better than they are on the rows that they learnt from.
models = {{{models}}}
print("On the training rows:")
for name, model in models.items():
    card = score(name, deep_predictor(model, scaler, training.seed), train, n_train=len(train))
    print(name, {{name: round(value, 4) for name, value in card.scores.items()}})
"""


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

    `fraction` of the rows are trained on, split with the training's seed or another one; None is
    all of them.
    `steps` is where the run stood; None is its limit. Names that come from a file are quoted.
    """
    held = isinstance(source, Named) and source._held is not None
    imports = sorted(
        {
            "import jax",
            "from dgp_core import archive",
            *((source.split_import, _BOOSTING) if fraction else ()),
            f"from dgp_core.gp.data import {'Dataset, ' if held else ''}Scaler",
            "from dgp_core.gp.domain import Domain",
            "from dgp_core.evaluation.comparison import score" + (", verdict" if fraction else ""),
            "from dgp_core.evaluation.forecast import deep_predictor"
            + (", linear_predictor" if fraction else ""),
            "from dgp_core.gp.model import ModelSpec, create_model",
            "from dgp_core.training.optimise import create_state",
            "from dgp_core.training.train import Progress, Rows, TrainSpec, train_chunk",
            *source.imports,
        },
        key=lambda line: (line.startswith("from"), line),
    )
    deep = model.layers > 1
    split_seed = train.seed if split_seed is None else split_seed
    rows = _ALL_ROWS
    if fraction is not None:
        taken = "train, held_out = dataset.take(train_rows), dataset.take(held_rows)"
        rows = "\n".join([*source.split_lines(fraction, split_seed), taken])
    way, column = source.judge_by if fraction else ("chance", "")
    models = '"deep": state.model, "single": rival_state.model' if deep else '"single": state.model'
    return _SCRIPT.format(
        imports="\n".join(imports),
        data="\n".join(source.lines()),
        rows=rows,
        way=repr(way),
        column=repr(column),
        model=_call(model),
        train=_call(train),
        steps=train.steps if steps is None else int(steps),
        rival=_RIVAL if deep else "",
        judged="" if fraction is None else ", and judged on held-out rows",
        scores=(_TRAINING_SCORES if fraction is None else _SCORES).format(models=models),
        file=repr(source.file if isinstance(source, Upload) and not source.content else ""),
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
