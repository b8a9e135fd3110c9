"""The same fit and the same predictions as command lines, for a terminal."""

import shlex
import zlib
from typing import Any

from dgp_core.gp.model import ModelSpec
from dgp_core.gp.splits import SplitBy
from dgp_core.script import decisions
from dgp_core.tables.reading import first_rows_of_parquet
from dgp_core.tables.table import Table, TableError, propose_target, read_table
from dgp_core.training.plan import Plan
from pages.ui.your_data.upload_state import LoadedTable

HEAD_BYTES = 1 << 20
"""Of a file that is too large: enough to see its columns."""


def large_file_command(source: Any, name: str) -> str:
    """The command for a file that is too large to load, its target proposed by the first rows."""
    try:
        source.seek(0)
        head = source.read(HEAD_BYTES)
        if head.startswith(b"\x1f\x8b"):
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        if head.startswith(b"PAR1"):
            head = first_rows_of_parquet(source)
        else:
            head = head[: head.rfind(b"\n") + 1]
        table = read_table(head, name)
        return fit_command(LoadedTable(table, table, name), propose_target(table).value)
    except (TableError, AttributeError, ValueError, zlib.error):
        return unknown_command(name)


def unknown_command(name: str) -> str:
    """The command for a file of which nothing but its name is known."""
    return f"{_program(name)} \\\n  --target=COLUMN \\\n  --out=model.npz"


def _program(file: str) -> str:
    return f"python -m dgp_core fit {shlex.quote(f'./{file}' if file.startswith('-') else file)}"


def fit_command(
    loaded: LoadedTable,
    target: str,
    task: str | None = None,
    missing: str | None = None,
    transform: str = "none",
    plan: Plan | None = None,
    by: SplitBy | None = None,
    exposure: str = "",
) -> str:
    """The command that trains the same in a terminal."""
    options: list[tuple[str, Any]] = [
        ("target", target),
        ("task", task),
        ("missing", missing),
        ("transform", None if transform == "none" else transform),
        ("exposure", exposure or None),
        *(("column", decision) for decision in _decisions(loaded)),
        *_reading(loaded.read),
    ]
    if by is not None:
        options.append(("judge-by", by.way + (f":{by.column}" if by.column else "")))
    if plan is not None:
        model, train = plan.model, plan.train
        options += [
            ("layers", model.layers),
            ("inducing", model.inducing_counts[0]),
            ("kernel", None if model.kernels == ModelSpec.kernels else model.kernels),
            ("likelihood", model.likelihood),
            ("steps", train.steps),
            ("minibatch", "all" if train.minibatch is None else train.minibatch),
            ("seed", train.seed),
        ]
    options.append(("out", "model.npz"))
    return " \\\n  ".join([_program(loaded.file), *_written(options)])


def _reading(table: Table) -> list[tuple[str, Any]]:
    """How the file is to be read, where that is not guessed."""
    given = dict(table.options.given)
    header = given.pop("header", None)
    named = [] if header is None else [("header" if header else "no-header", "")]
    return [*given.items(), *named]


def _written(options: list[tuple[str, Any]]) -> list[str]:
    """Options as a shell takes them; an empty value is a flag's."""
    return [
        f"--{name}" + (f"={shlex.quote(str(value))}" if value != "" else "")
        for name, value in options
        if value is not None
    ]


def _decisions(loaded: LoadedTable) -> list[str]:
    """Column types that differ from those proposed, as the command line takes them."""
    order = {None: "", True: ":day", False: ":month"}
    return [
        f"{name}={kind}{order[day_first]}"
        for name, kind, day_first in decisions(loaded.read, loaded.decided)
    ]


def predict_command(table: Table) -> str:
    """The command that predicts a file in a terminal."""
    file = f"./{table.name}" if table.name.startswith("-") else table.name
    given = " ".join(_written([*_reading(table), ("out", "predictions.csv")]))
    return f"python -m dgp_core predict model.npz {shlex.quote(file)} {given}"
