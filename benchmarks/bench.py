"""A short set of benchmarks, under ten minutes, each aim met or missed.

make bench
python -m benchmarks.bench [--only speed] [--json FILE]

speed     a training step against its own matrix products
linear    least squares on all 20 splits of the sets that come along: the paper's every digit
depth     two layers against one on a split of concrete, by the default recipe
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks import paper
from benchmarks.recipes import CHOSEN
from benchmarks.report import add_row, met, print_table
from benchmarks.speed import measure as measure_step
from datasets.catalogue import load
from datasets.printed import Score, printed

STEPS = (("A", 2, 100), ("B", 2, 100), ("B", 3, 100), ("C", 2, 20))
SHIPPED = ("boston", "concrete", "wine_red")


def speed() -> Iterator[tuple[str, float, str]]:
    """Times a step's products, workload by workload."""
    for workload, L, M in STEPS:
        row = measure_step(workload, L, M)
        what = f"{workload}, {L} layers: {row['ms']:.3g} ms a step, times its products"
        yield what, row["ratio_to_limit"], f"≤ {row['aim']:g}"


def linear() -> Iterator[tuple[str, float, str]]:
    """How far least squares is from the paper's figures, in their last digit."""
    for name in SHIPPED:
        dataset = load(name)
        rows = [paper.measure(dataset, "linear", i, "", inner=False) for i in range(20)]
        scores: tuple[Score, ...] = ("loglik", "rmse")
        off = [
            abs(
                round(sum(row[score] for row in rows) / 20, 2)
                - printed(name, score)["linear"].value
            )
            for score in scores
        ]
        yield f"{name}: least squares, hundredths off the paper's", round(100 * max(off)), "≤ 0"


def depth() -> Iterator[tuple[str, float, str]]:
    """What a second layer gains in nats per held-out row; the paper's gain there is 0.06."""
    dataset = load("concrete")
    one, two = (
        paper.measure(dataset, model, 0, CHOSEN, inner=False)["loglik"] for model in ("sgp", "dgp2")
    )
    yield "concrete, split 0: DGP 2 less SGP, nats per row", two - one, "≥ 0"


PARTS = {part.__name__: part for part in (speed, linear, depth)}


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.bench")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := sorted(set(wanted) - set(PARTS)):
        parser.error(f"no part {', '.join(unknown)}: there are {', '.join(PARTS)}")
    rows = []
    for name in wanted:
        for what, value, aim in PARTS[name]():
            verdict = "met" if met(value, aim) else "missed"
            load = round(os.getloadavg()[0], 1)
            row = {"what": what, "value": value, "aim": aim, "": verdict, "load": load}
            add_row(rows, row, options.json)
    print_table(rows)


if __name__ == "__main__":
    main()
