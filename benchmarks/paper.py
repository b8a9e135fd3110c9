"""The paper's regression tables, measured again: held-out log-likelihood and RMSE, split by split.

    python -m benchmarks.paper --data DIR --sets kin8nm,energy --models linear,sgp,dgp2 --splits 0-1
    python -m benchmarks.paper --data DIR --whole
    python -m benchmarks.paper --report
    python -m benchmarks.paper --data DIR --inner --recipes "2000 steps,wide" --log FILE.jsonl

DIR holds `.npz` files with X and y, rows in the order that the paper's splits need. Scores are in
the data's own units, scaled by training rows only; the held-out rows of split i are the last tenth
of RandomState(i)'s shuffle.

Every fit is a line of JSON in the log as soon as it ends, and what is there is not fitted again:
a run that was killed goes on where it was. With `--inner`, a tenth of the *training* rows is held
out and scored, and the split's own held-out rows are never looked at: recipes are chosen by these.
A fit's time is that of the processor: other work beside it, or a pause, hardly changes that.
"""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from benchmarks.recipes import CHOSEN, RECIPES, fit, recipe_for
from benchmarks.report import append_row, print_table, provenance, read_rows
from datasets.measured import of_one_recipe
from datasets.printed import Printed, Score, printed
from dgp_core.evaluation.scores import log_likelihood, rmse
from dgp_core.gp.data import Dataset, Scaler, split
from dgp_core.gp.model import ModelSpec
from dgp_core.gp.predict import predict_latent, predict_observed
from dgp_core.gp.references import LeastSquares

HERE = Path(__file__).parent
MEASURED = HERE / "paper.jsonl"
"""One line a set, model and split, all by test rows: what the lessons and the README show."""

TRIED = HERE / "recipe.jsonl"
"""One line a recipe, set, model and split, all by rows held out inside the training part."""

REFERENCE = "2000 steps"
"""The recipe that others are set against: most of them add one thing to it."""

KEY = ("set", "model", "split", "held_out", "recipe")
"""What a fit is known by."""

SMALL, LARGER = ("boston", "concrete", "energy", "wine_red"), ("kin8nm", "power")
WHOLE = [
    (SMALL, ("linear", "sgp", "dgp2", "dgp3"), range(20)),
    (LARGER, ("linear",), range(20)),
    (LARGER, ("sgp", "dgp2", "dgp3"), range(5)),
    ((*SMALL, *LARGER), ("sgp500", "dgp4", "dgp5"), range(5)),
]
"""The tables: sets, models and splits."""


def load(folder: Path, name: str) -> Dataset:
    """One set from a folder of `.npz` files."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        X, y = file["X"], file["y"]
    names = tuple(f"x{d}" for d in range(X.shape[1]))
    return Dataset(name, X, y.reshape(-1, 1), names, ("y",))


def model_spec(name: str) -> ModelSpec:
    """ "sgp" and "sgp500" have one layer with 100 and 500 inducing points, "dgp3" three layers."""
    if name.startswith("dgp"):
        return ModelSpec(layers=int(name[3:]))
    return ModelSpec(layers=1, inducing=int(name[3:] or 100))


def parts(dataset: Dataset, split_number: int, inner: bool) -> tuple[Dataset, Dataset]:
    """Training rows and those that are scored: the split's own, or a tenth of its training part."""
    train_rows, test_rows = split(dataset, 0.9, split_number)
    return split(train_rows, 0.9, split_number) if inner else (train_rows, test_rows)


def measure(dataset: Dataset, model: str, split_number: int, recipe: str, inner: bool) -> dict:
    """Trains one model on one split, and scores it on the held-out rows."""
    train_rows, held_rows = parts(dataset, split_number, inner)
    scaler = Scaler.fit(train_rows)
    rows = scaler(train_rows)
    row = {
        "set": dataset.name,
        "model": model,
        "split": split_number,
        "held_out": "inner" if inner else "test",
        "recipe": "" if model == "linear" else recipe,
    }
    load, start = os.getloadavg()[0], time.process_time()
    if model == "linear":
        mixture = LeastSquares.fit(rows.X, rows.Y).predict(scaler.inputs(held_rows.X))
        took = {"steps": 0}
    else:
        trained = fit(
            recipe_for(recipe, len(rows.X)), model_spec(model), rows.X, rows.Y, split_number
        )
        fitted = trained.state.model
        latent = predict_latent(fitted, scaler.inputs(held_rows.X), jax.random.key(1))
        mixture = predict_observed(fitted, latent)
        took = {
            "bound": trained.bound,
            "steps": trained.steps,
            "row_visits": trained.row_visits,
            "failures": int(trained.state.failures),
            "seed": split_number,
        }
    seconds = time.process_time() - start
    mixture = mixture.affine(scaler.y_scale, scaler.y_mean)
    return {
        **row,
        "loglik": log_likelihood(mixture, held_rows.Y),
        "rmse": rmse(mixture, held_rows.Y),
        **took,
        "processor_seconds": round(seconds, 1),
        "load": round(load, 1),
    }


def numbers(text: str) -> list[int]:
    """ "0-2,5" is 0, 1, 2, 5."""
    parts = [part.split("-") for part in text.split(",")]
    return [i for part in parts for i in range(int(part[0]), int(part[-1]) + 1)]


def mean_and_error(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean over splits, and its standard error where there are two or more."""
    if len(values) < 2:
        return float(np.mean(values)), None
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def met(score: Score, ours: float, paper: Printed) -> bool:
    """Whether ours is no worse than the paper's figure by more than its standard error.

    The paper rounds to two digits, so half of the last one counts as equal.
    """
    worse = paper.value - ours if score == "loglik" else ours - paper.value
    return worse <= (paper.error or 0.0) + 0.005


def report(rows: Sequence[dict]) -> list[dict]:
    """A line a set and model: ours beside the paper's, and whether both scores are met."""
    lines = []
    rows = [row for row in rows if row["held_out"] == "test"]
    for key in dict.fromkeys((row["set"], row["model"]) for row in rows):
        of_key = [row for row in rows if (row["set"], row["model"]) == key]
        line = {"set": key[0], "model": key[1], "splits": len(of_key)}
        scores: tuple[Score, ...] = ("loglik", "rmse")
        for score in scores:
            ours = mean_and_error([row[score] for row in of_key])
            paper = printed(key[0], score).get(key[1])
            line[score] = figure(*ours)
            line[f"paper {score}"] = "–" if paper is None else figure(*paper, digits=2)
            verdict = "–" if paper is None else "met" if met(score, ours[0], paper) else "missed"
            line[f"{score} is"] = verdict
        recipes = dict.fromkeys(row["recipe"] for row in of_key)
        line["recipe"] = ", ".join(filter(None, recipes))
        known = [row["processor_seconds"] for row in of_key if "processor_seconds" in row]
        line["processor s a split"] = f"{np.mean(known):.1f}" if known else "–"
        lines.append(line)
    return lines


def figure(mean: float, error: float | None, digits: int | None = None) -> str:
    """A mean, its standard error in brackets: three digits for small ones; the paper prints two."""
    digits = digits or (3 if abs(mean) < 0.2 else 2)
    return f"{mean:.{digits}f}" + ("" if error is None else f" ({error:.{digits}f})")


def tried(rows: Sequence[dict]) -> list[dict]:
    """A line a recipe, set and model: its mean score on inner held-out rows, less the reference's
    over the splits that both have."""
    lines = []
    inner = {tuple(row[k] for k in KEY): row for row in rows if row["held_out"] == "inner"}
    keys = dict.fromkeys((k[0], k[1], k[4]) for k in inner)
    for name, model, recipe in sorted(keys, key=lambda key: key[:2]):
        of_key = [row for k, row in inner.items() if (k[0], k[1], k[4]) == (name, model, recipe)]
        both = [
            (row["loglik"], inner[name, model, row["split"], "inner", REFERENCE]["loglik"])
            for row in of_key
            if (name, model, row["split"], "inner", REFERENCE) in inner
        ]
        gains = [ours - reference for ours, reference in both]
        lines.append(
            {
                "set": name,
                "model": model,
                "recipe": recipe,
                "splits": len(of_key),
                "loglik": figure(*mean_and_error([row["loglik"] for row in of_key])),
                f"less {REFERENCE}": f"{np.mean(gains):+.3f}" if gains else "–",
                "bound": f"{np.mean([row['bound'] for row in of_key]):.3f}",
                "row visits": f"{np.mean([row['row_visits'] for row in of_key]):,.0f}",
                "steps": f"{np.mean([row['steps'] for row in of_key]):,.0f}",
            }
        )
    return lines


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.paper")
    parser.add_argument("--data", type=Path, help="a folder of .npz files (X, y)")
    parser.add_argument("--sets", default="boston,concrete,energy,wine_red,kin8nm,power")
    parser.add_argument("--models", default="linear,sgp,dgp2,dgp3")
    parser.add_argument("--splits", default="0-19", help="such as 0-19 or 0,3")
    parser.add_argument("--whole", action="store_true", help="all tables, whatever sets are named")
    parser.add_argument("--recipes", default=CHOSEN, help=", ".join(RECIPES))
    parser.add_argument("--inner", action="store_true", help="score rows of the training part")
    parser.add_argument("--log", type=Path, help="JSON lines to go on from, and to add to")
    parser.add_argument("--report", action="store_true", help="only print what the log holds")
    options = parser.parse_args()
    log = options.log or (TRIED if options.inner else MEASURED)
    recipes = options.recipes.split(",")
    if unknown := sorted(set(recipes) - {CHOSEN, *RECIPES}):
        parser.error(f"no recipe {', '.join(unknown)}: there are {CHOSEN}, {', '.join(RECIPES)}")
    if not options.report:
        if options.data is None:
            parser.error("--data names the folder of .npz files; --report needs none")
        run(options, recipes, log)
    rows = read_rows(log)
    print_table(tried(rows) if options.inner else report(of_one_recipe(rows)))


def jobs(options: argparse.Namespace, recipes: list[str]) -> list[tuple[str, str, int, str]]:
    """Every set, model, split and recipe that is asked for, split by split."""
    plan = (
        WHOLE
        if options.whole
        else [(options.sets.split(","), options.models.split(","), numbers(options.splits))]
    )
    found = [
        (name, model, i, recipe)
        for sets, models, splits in plan
        for i in splits
        for name in sets
        for model in models
        for recipe in ([""] if model == "linear" else recipes)
    ]
    return sorted(found, key=lambda job: job[2]) if options.whole else found


def run(options: argparse.Namespace, recipes: list[str], log: Path) -> None:
    """Every fit that the log doesn't hold yet."""
    known = {tuple(row[k] for k in KEY) for row in read_rows(log)}
    held_out = "inner" if options.inner else "test"
    where, dataset = provenance(), None
    for name, model, i, recipe in jobs(options, recipes):
        if (name, model, i, held_out, recipe) in known:
            continue
        if dataset is None or dataset.name != name:
            dataset = load(options.data, name)
        row = measure(dataset, model, i, recipe, options.inner)
        append_row(log, row | where)
        scores = f"{row['loglik']:8.3f} nats  rmse {row['rmse']:7.4f}"
        took = f"{row['steps']:6,} steps {row['processor_seconds']:7.1f} processor s"
        print(f"{name} {model} {i} {recipe}: {scores} {took}", flush=True)


if __name__ == "__main__":
    main()
