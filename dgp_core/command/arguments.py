"""The command line's options."""

import argparse
from collections.abc import Callable
from typing import get_args

import numpy as np

from dgp_core.command.actions import fit, predict, resume, score
from dgp_core.command.training import PROGRAM
from dgp_core.gp.data import Task
from dgp_core.gp.model import Posterior
from dgp_core.gp.splits import SplitWay
from dgp_core.tables.encodings import ENCODINGS
from dgp_core.tables.recipe import Missing, Transform
from dgp_core.tables.table import Decision, Kind


def _number(least: int, most: int = 1 << 53) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} on")
        return int(text)

    return whole


def _rate(least: float, most: float) -> Callable[[str], float]:
    def rate(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least:g} to {most:g}")
        return value

    return rate


def _batch(text: str) -> int | str | None:
    return None if text == "all" else text if text == "plan" else _number(1)(text)


def _decision(text: str) -> Decision:
    name, _, rest = text.rpartition("=")
    kind, _, first = rest.partition(":")
    orders = {"": None, "day": True, "month": False} if kind == "date" else {"": None}
    if not name or kind not in get_args(Kind) or first not in orders:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not NAME=KIND, with a kind of {', '.join(get_args(Kind))}, date:day or "
            "date:month"
        )
    return name, kind, orders[first]


_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|", "space": " "}


def _separator(text: str) -> str:
    found = _SEPARATORS.get(text, text)
    if len(found) != 1 or found in '"\r\n':
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither one character nor one of {', '.join(_SEPARATORS)}"
        )
    return found


def _judge_by(text: str) -> tuple[str, str]:
    way, _, column = text.partition(":")
    if way not in get_args(SplitWay) or (way == "chance") == bool(column):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not chance, latest:COLUMN or groups:COLUMN, with a column of the file"
        )
    return way, column


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        PROGRAM, description="Deep Gaussian processes without a screen.", allow_abbrev=False
    )
    commands = parser.add_subparsers(required=True, metavar="fit | predict | score | resume")

    def command(name: str, action: Callable, *operands: tuple[str, str]):
        sub = commands.add_parser(
            name, help=action.__doc__, description=action.__doc__, allow_abbrev=False
        )
        sub.set_defaults(command=action)
        for operand, meaning in operands:
            sub.add_argument(operand, help=meaning)
        return sub

    table = (
        "data",
        "CSV or TSV (may be gzipped), Parquet, Arrow, Excel or .npy; a folder or a 'glob' of them",
    )
    model = ("model", "a model's file, from here or from the app")

    def read_options(sub: argparse.ArgumentParser) -> None:
        """How a table is read, where the guess is wrong."""
        add = sub.add_argument_group("reading, where the guess is wrong").add_argument
        add("--encoding", choices=list(ENCODINGS), metavar="NAME", help=", ".join(ENCODINGS))
        add("--separator", type=_separator, help=f"one character, or {', '.join(_SEPARATORS)}")
        add("--decimal", choices=[".", ","], help="the decimal mark")
        add(
            "--header",
            action=argparse.BooleanOptionalAction,
            default=None,
            help="whether the first row names the columns",
        )
        add("--sheet", help="of an Excel workbook")

    def run_options(sub: argparse.ArgumentParser) -> None:
        sub.add_argument(
            "--log", metavar="FILE", help="a JSON line for every checkpoint is added to it"
        )
        sub.add_argument(
            "--shards",
            metavar="FOLDER",
            help="where the rows of a file larger than memory are kept in random order; else in "
            "DATA.shuffled beside it",
        )

    sub = command("fit", fit, table)
    read_options(sub)
    sub.epilog = "What is not given is chosen by the size of the data."
    add = sub.add_argument
    add("--target", required=True, action="append", metavar="COLUMN", help="may be given again")
    add("--out", required=True, metavar="MODEL.npz", help="where the model goes")
    add("--task", choices=get_args(Task), help="proposed from the target where it is not given")
    add("--layers", type=_number(1, 100), help="1 is the sparse GP")
    add("--inducing", type=_number(1, 10_000), help="inducing points of every layer")
    add("--kernel", help='rbf, matern52, "rbf*periodic + linear", …')
    add(
        "--posterior",
        choices=[name.replace("_", "-") for name in get_args(Posterior)],
        default="doubly-stochastic",
        help="mean-field makes the layers independent, to see what that costs: %(default)s",
    )
    add(
        "--likelihood",
        help="the task's own; student_t for outliers, negative_binomial for counts that vary much, "
        "robust_max for classes with wrong labels",
    )
    add(
        "--exposure",
        default="",
        metavar="COLUMN",
        help="for counts: what each row's rate is multiplied by, such as hours or people",
    )
    add("--steps", type=_number(0))
    add("--minibatch", type=_batch, default="plan", help="rows a step, or all")
    add("--learning-rate", type=_rate(0, 10))
    add("--natural-rate", type=_rate(0, 1), help="0 leaves everything to Adam")
    add("--seed", type=_number(0, (1 << 32) - 1), default=0, help="%(default)s")
    add("--holdout", type=_rate(0, 0.99), default=0.1, help="the share to judge by: %(default)s")
    add(
        "--judge-by",
        type=_judge_by,
        metavar="chance | latest:COLUMN | groups:COLUMN",
        help="which rows are held out: the latest where there is a date, groups where an "
        "identifier repeats, else by chance",
    )
    add("--missing", choices=get_args(Missing), help="drop rows with holes, or fill the holes")
    add("--transform", choices=get_args(Transform), default="none", help="of the target")
    add("--stream", action="store_true", help="read the file in parts, however small")
    run_options(sub)
    add(
        "--column",
        type=_decision,
        action="append",
        default=[],
        metavar="NAME=KIND",
        help=f"decides a column: {', '.join(get_args(Kind))}; date:day where 1/2 is 1 February, "
        "date:month where it is 2 January; may be given again",
    )

    sub = command("predict", predict, model, table)
    read_options(sub)
    sub.add_argument("--out", required=True, metavar="PREDICTIONS.csv")

    read_options(command("score", score, model, table))

    sub = command("resume", resume, model)
    read_options(sub)
    sub.add_argument("data", nargs="?", help="the model's table, where it is elsewhere now")
    run_options(sub)
    sub.add_argument("--steps", type=_number(0), help="steps in all, those taken included")
    sub.add_argument("--out", metavar="MODEL.npz", help="where the model goes; else where it was")
    return parser
