"""The paper's regression table, measured again: held-out log-likelihood and RMSE, split by split.

    python -m benchmarks.paper --data DIR --sets kin8nm,energy --models linear,sgp,dgp2 --splits 0-1

DIR holds `.npz` files with X and y, rows in the order that the paper's splits need. Scores are in
the data's own units, scaled by training rows only; the held-out rows of split i are the last tenth
of RandomState(i)'s shuffle.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from benchmarks.report import print_table, write_rows
from datasets.printed import Printed, printed
from dgp_core.evaluation.scores import log_likelihood, rmse
from dgp_core.gp.data import Dataset, Scaler, split
from dgp_core.gp.model import ModelSpec, create_model
from dgp_core.gp.predict import predict_latent, predict_observed
from dgp_core.gp.references import LeastSquares
from dgp_core.training.train import PAPER, TrainSpec, train


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


def measure(dataset: Dataset, model: str, split_number: int, recipe: TrainSpec) -> dict:
    """Trains one model on one split, and scores it on the held-out rows."""
    train_rows, test_rows = split(dataset, 0.9, split_number)
    scaler = Scaler.fit(train_rows)
    rows = scaler(train_rows)
    start = time.perf_counter()
    if model == "linear":
        mixture = LeastSquares.fit(rows.X, rows.Y).predict(scaler.inputs(test_rows.X))
        steps = 0
    else:
        start_model = create_model(model_spec(model), rows.X, seed=split_number)
        state, progress = train(start_model, rows.X, rows.Y, recipe)
        latent = predict_latent(state.model, scaler.inputs(test_rows.X), jax.random.key(1))
        mixture, steps = predict_observed(state.model, latent), progress.steps
    seconds = time.perf_counter() - start
    mixture = mixture.affine(scaler.y_scale, scaler.y_mean)
    return {
        "set": dataset.name,
        "model": model,
        "split": split_number,
        "loglik": log_likelihood(mixture, test_rows.Y),
        "rmse": rmse(mixture, test_rows.Y),
        "seconds": round(seconds, 1),
        "steps": steps,
    }


def numbers(text: str) -> list[int]:
    """ "0-2,5" is 0, 1, 2, 5."""
    parts = [part.split("-") for part in text.split(",")]
    return [i for part in parts for i in range(int(part[0]), int(part[-1]) + 1)]


def summary(rows: list[dict]) -> list[dict]:
    """The mean over splits, its standard error, and what the paper prints."""
    lines = []
    for key in dict.fromkeys((row["set"], row["model"]) for row in rows):
        of_key = [row for row in rows if (row["set"], row["model"]) == key]
        loglik = np.array([row["loglik"] for row in of_key])
        error = np.array([row["rmse"] for row in of_key])
        root = np.sqrt(max(len(of_key) - 1, 1))
        paper = [printed(key[0], score).get(key[1]) for score in ("loglik", "rmse")]
        lines.append(
            {
                "set": key[0],
                "model": key[1],
                "splits": len(of_key),
                "loglik": f"{loglik.mean():.2f} ({loglik.std() / root:.2f})",
                "paper loglik": _printed(paper[0]),
                "rmse": f"{error.mean():.3g} ({error.std() / root:.2g})",
                "paper rmse": _printed(paper[1]),
                "s a split": f"{np.mean([row['seconds'] for row in of_key]):.1f}",
            }
        )
    return lines


def _printed(found: Printed | None) -> str:
    if found is None:
        return "–"
    return f"{found.value:.2f}" + ("" if found.error is None else f" ({found.error:.2f})")


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.paper")
    parser.add_argument("--data", type=Path, required=True, help="a folder of .npz files (X, y)")
    parser.add_argument("--sets", default="kin8nm,energy")
    parser.add_argument("--models", default="linear,sgp,dgp2,dgp3")
    parser.add_argument("--splits", default="0-1", help="such as 0-19 or 0,3")
    parser.add_argument("--recipe", choices=["default", "paper"], default="default")
    parser.add_argument("--steps", type=int, help="instead of the recipe's own number")
    parser.add_argument("--json", type=Path, help="write a row a set, model and split")
    options = parser.parse_args()

    recipe = PAPER if options.recipe == "paper" else TrainSpec()
    if options.steps is not None:
        recipe = replace(recipe, steps=options.steps)
    rows = []
    for name in options.sets.split(","):
        dataset = load(options.data, name)
        for model in options.models.split(","):
            # Least squares is quick, and is the check on the harness: always all 20 splits.
            splits = range(20) if model == "linear" else numbers(options.splits)
            for i in splits:
                rows.append(measure(dataset, model, i, recipe))
                if model != "linear":
                    print({k: v for k, v in rows[-1].items()}, flush=True)
                if options.json:
                    write_rows(options.json, rows)
    print_table(summary(rows))


if __name__ == "__main__":
    main()
