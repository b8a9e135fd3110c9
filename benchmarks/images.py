"""Pictures told apart, by depth: MNIST, and the rectangles that the lab draws.

    python -m benchmarks.images --data DIR --sets mnist,rectangles --models sgp,dgp2 [--json FILE]

DIR holds `mnist.npz` (x_train, y_train, x_test, y_test), all 60,000 and 10,000 digits. Rectangles
are drawn as in the playground, 12,000 to train (as in the paper) and 10,000 to test; the paper's
have photographs as grounds, so the two tasks are alike, not the same. A row of the file says how a
model was trained and what it scores on the test pictures; what is there is not measured again.
"""

import argparse
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from benchmarks.paper import model_spec
from benchmarks.report import print_table, write_rows
from datasets.toys import TOYS
from dgp_core.evaluation.scores import class_scores
from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.likelihoods import for_task
from dgp_core.gp.model import create_model
from dgp_core.gp.predict import class_probabilities, predict_latent
from dgp_core.training.train import TrainSpec, train

TRAIN_RECTANGLES, TEST_RECTANGLES = 12_000, 10_000
STEPS = {"mnist": 2000, "rectangles": 2000}


def mnist(folder: Path) -> tuple[Dataset, Dataset]:
    """The digits in their standard split."""
    names = tuple(f"pixel {i}" for i in range(784))
    classes = tuple("0123456789")
    with np.load(folder / "mnist.npz", allow_pickle=False) as file:
        parts = [
            (file[f"x_{part}"].reshape(-1, 784) / 255.0, file[f"y_{part}"][:, None].astype(float))
            for part in ("train", "test")
        ]
    train_rows, test_rows = (
        Dataset("mnist", X, Y, names, ("digit",), "multiclass", classes=classes) for X, Y in parts
    )
    return train_rows, test_rows


def rectangles() -> tuple[Dataset, Dataset]:
    """Drawn anew from two seeds."""
    toy = TOYS["rectangles"]
    return toy.generate(TRAIN_RECTANGLES, seed=1), toy.generate(TEST_RECTANGLES, seed=2)


def measure(name: str, model: str, folder: Path, recipe: TrainSpec) -> dict:
    """Trains one model, and scores it on the test pictures."""
    train_rows, test_rows = mnist(folder) if name == "mnist" else rectangles()
    scaler = Scaler.fit(train_rows)
    rows = scaler(train_rows)
    n_classes = len(train_rows.classes)
    likelihood = for_task(train_rows.task, 1, n_classes)
    spec = replace(model_spec(model), likelihood=likelihood)
    load = os.getloadavg()[0]
    start = time.perf_counter()
    begun = create_model(spec, rows.X, n_classes=n_classes)
    state, progress = train(begun, rows.X, rows.Y, recipe)
    seconds = time.perf_counter() - start
    latent = predict_latent(state.model, scaler.inputs(test_rows.X), jax.random.key(1))
    scores = class_scores(class_probabilities(state.model, latent), test_rows.Y)
    return {
        "set": name,
        "model": model,
        "accuracy": scores["accuracy"],
        "loglik": scores["log_likelihood"],
        "train": len(train_rows),
        "test": len(test_rows),
        "steps": progress.steps,
        "minibatch": recipe.minibatch,
        "seconds": round(seconds),
        "load": round(load, 1),
    }


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.images")
    parser.add_argument("--data", type=Path, required=True, help="a folder with mnist.npz")
    parser.add_argument("--sets", default="mnist,rectangles")
    parser.add_argument("--models", default="sgp,dgp2,dgp3")
    parser.add_argument("--steps", type=int, help="instead of a set's own number")
    parser.add_argument("--json", type=Path, help="write a row a set and model")
    options = parser.parse_args()
    rows = json.loads(options.json.read_text()) if options.json and options.json.is_file() else []
    for name in options.sets.split(","):
        for model in options.models.split(","):
            if any((row["set"], row["model"]) == (name, model) for row in rows):
                continue
            recipe = replace(TrainSpec(), steps=options.steps or STEPS[name])
            rows.append(measure(name, model, options.data, recipe))
            print(rows[-1], flush=True)
            if options.json:
                write_rows(options.json, rows)
    print_table(rows)


if __name__ == "__main__":
    main()
