"""Pictures told apart, by depth: MNIST, and the rectangles that the lab draws.

    python -m benchmarks.images --data DIR --sets mnist,rectangles --models sgp,dgp2 --steps 10000
    python -m benchmarks.images --report

DIR holds `mnist.npz` (x_train, y_train, x_test, y_test), all 60,000 and 10,000 digits. Rectangles
are drawn as in the playground, 12,000 to train (as in the paper) or 50,000, and 10,000 to test; the
paper's have photographs as grounds, so the two tasks are alike, not the same. A fit is a line of
JSON in the log as soon as it ends, with its accuracy over time; what is there is not fitted again.
"""

import argparse
import os
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

from benchmarks.paper import model_spec
from benchmarks.report import append_row, print_table, provenance, read_rows
from datasets.printed import printed
from datasets.toys import TOYS
from dgp_core.evaluation.scores import class_scores
from dgp_core.gp.data import Dataset, Scaler
from dgp_core.gp.likelihoods import for_task
from dgp_core.gp.model import DeepGP, create_model
from dgp_core.gp.predict import class_probabilities, predict_latent
from dgp_core.training.optimise import TrainState
from dgp_core.training.train import Progress, TrainSpec, train

MEASURED = Path(__file__).parent / "images.jsonl"
RECTANGLES = {"rectangles": 12_000, "rectangles_50000": 50_000}
"""Training pictures, by the set's name."""

TEST_RECTANGLES = 10_000
LOOKS = 12
"""Points of a curve of accuracy over time; their scoring is in its seconds."""

CURVE_ROWS = 2000
"""Test pictures that a curve's points are scored on; the row's own figures are of all."""


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


def rectangles(n_train: int) -> tuple[Dataset, Dataset]:
    """Drawn anew from two seeds."""
    toy = TOYS["rectangles"]
    return toy.generate(n_train, seed=1), toy.generate(TEST_RECTANGLES, seed=2)


def measure(name: str, model: str, folder: Path | None, recipe: TrainSpec) -> dict:
    """Trains one model, and scores it on the test pictures."""
    if name == "mnist":
        if folder is None:
            raise SystemExit("--data names the folder of mnist.npz.")
        train_rows, test_rows = mnist(folder)
    else:
        train_rows, test_rows = rectangles(RECTANGLES[name])
    scaler = Scaler.fit(train_rows)
    rows, X = scaler(train_rows), scaler.inputs(test_rows.X)
    n_classes = len(train_rows.classes)
    spec = replace(model_spec(model), likelihood=for_task(train_rows.task, 1, n_classes))

    def scores(model: DeepGP, n: int | None = None) -> dict[str, float]:
        latent = predict_latent(model, X[:n], jax.random.key(1))
        return class_scores(class_probabilities(model, latent), test_rows.Y[:n])

    curve: list[tuple[float, int, float]] = []

    def look(state: TrainState, progress: Progress) -> None:
        if progress.steps >= (len(curve) + 1) * recipe.steps / LOOKS:
            accuracy = scores(state.model, CURVE_ROWS)["accuracy"]
            curve.append((round(progress.seconds, 1), progress.steps, accuracy))

    load = os.getloadavg()[0]
    begun = create_model(spec, rows.X, n_classes=n_classes)
    state, progress = train(begun, rows.X, rows.Y, recipe, look)
    final = scores(state.model)
    return {
        "set": name,
        "model": model,
        "accuracy": final["accuracy"],
        "loglik": final["log_likelihood"],
        "train": len(train_rows),
        "test": len(test_rows),
        "steps": progress.steps,
        "minibatch": recipe.minibatch,
        "seed": recipe.seed,
        "seconds": round(progress.seconds),
        "curve": curve,
        "load": round(load, 1),
    }


def report(rows: list[dict]) -> list[dict]:
    """A line a fit: ours, the paper's where its set is the same, and whether it is met."""
    lines = []
    for row in rows:
        known = printed(row["set"], "accuracy").get(row["model"])
        ours = 100 * row["accuracy"]
        verdict = None if known is None else round(ours, 1) >= round(known.value, 1)
        lines.append(
            {
                "set": row["set"],
                "train": f"{row['train']:,}",
                "model": row["model"],
                "accuracy, %": f"{ours:.1f}",
                "paper, %": None if known is None else f"{known.value:.1f}",
                "is": {None: None, True: "met", False: "missed"}[verdict],
                "log-likelihood": f"{row['loglik']:.3f}",
                "steps": f"{row['steps']:,}",
                "s": row["seconds"],
            }
        )
    return lines


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.images")
    parser.add_argument("--data", type=Path, help="a folder with mnist.npz")
    parser.add_argument("--sets", default="mnist,rectangles,rectangles_50000")
    parser.add_argument("--models", default="sgp,dgp2,dgp3")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--log", type=Path, default=MEASURED, help="JSON lines to go on from")
    parser.add_argument("--report", action="store_true", help="only print what the log holds")
    options = parser.parse_args()
    known = {(row["set"], row["model"], row["steps"]) for row in read_rows(options.log)}
    for name in [] if options.report else options.sets.split(","):
        for model in options.models.split(","):
            if (name, model, options.steps) in known:
                continue
            row = measure(name, model, options.data, replace(TrainSpec(), steps=options.steps))
            append_row(options.log, row | provenance())
            print({k: v for k, v in row.items() if k != "curve"}, flush=True)
    print_table(report(read_rows(options.log)))


if __name__ == "__main__":
    main()
