"""The README's "Measured" tables, made from what the benchmarks left in this folder.

python -m benchmarks.tables             # writes them between the README's two marks
python -m benchmarks.tables --check     # says whether they are as they would be written
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import growth, images, paper
from benchmarks.report import ROOT, read_rows
from datasets.measured import of_one_recipe
from datasets.printed import SYSTEMS

HERE = Path(__file__).parent
BEGIN, END = "<!-- tables: make tables -->", "<!-- end of tables -->"


def markdown(rows: Sequence[dict]) -> str:
    """Rows as a Markdown table: words to the left, figures to the right."""
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    words = {n for n in names if any(isinstance(row.get(n), str) for row in rows)}
    head = [names, [":--" if i == 0 or n in words else "--:" for i, n in enumerate(names)]]
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [*head, *cells])


def _cell(value) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "met" if value else "missed"
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return text.replace("-", "−") if text[:1] == "-" else text


def read(name: str) -> list[dict]:
    """A JSON list in this folder; empty where nothing was measured yet."""
    path = HERE / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []


def regression() -> list[dict]:
    """The paper's tables, ours beside them."""
    lines = paper.report(of_one_recipe(read_rows(paper.MEASURED)))
    names = {"loglik": "log-likelihood", "rmse": "RMSE"}
    table = []
    for line in lines:
        if line["model"] == "linear":
            continue
        row = {"set": line["set"], "model": SYSTEMS[line["model"]]}
        row |= {"recipe": line["recipe"], "splits": line["splits"]}
        for score, words in names.items():
            row |= {words: line[score], f"paper's {words}": line[f"paper {score}"]}
            row[" " * len(row)] = line[f"{score} is"]
        table.append(row)
    return table


def pictures() -> list[dict]:
    """Accuracy on images, and what the paper prints where its set is the same."""
    lines = images.report(read_rows(images.MEASURED))
    return [line | {"model": SYSTEMS[line["model"]]} for line in lines]


def speed() -> list[dict]:
    """A step against its own matrix products."""
    return [
        {
            "workload": row["workload"],
            "layers": row["layers"],
            "M": row["m"],
            "ms a step": row["ms"],
            "its products, ms": row["limit_ms"],
            "times the products": row["ratio_to_limit"],
            "aim": f"≤ {row['aim']:g}",
            "": row["ratio_to_limit"] <= row["aim"],
            "load": row["load"],
        }
        for row in read("speed.json")
    ]


def scale() -> list[dict]:
    """From 1e5 rows to a billion: a step, its waits, memory, and how good it gets."""
    names = {
        "ms a step": "ms a step",
        "waits %": "of it waiting for rows, %",
        "pace of in-memory %": "pace of rows in memory, %",
        "peak MB": "peak, MB",
        "rmse": "RMSE",
        "hours for 500,000 steps (projected)": "hours for 500,000 steps (projected)",
    }
    systems = {"sgp": "SGP", "dgp2": "DGP 2", "boosting": "gradient boosting"}
    order = list(systems)
    rows = sorted(read("scale.json"), key=lambda row: (row["rows"], order.index(row["model"])))
    return [
        {"rows": f"{row['rows']:,}", "model": systems[row["model"]]}
        | {words: row.get(name) for name, words in names.items()}
        | {names["peak MB"]: round(row["peak MB"])}
        for row in rows
    ]


def waiting() -> list[dict]:
    """What a visitor waits for, and what the server holds, where there is an aim."""
    return [
        {
            "what": f"{row['name']}: {row['what']}",
            "measured": row["measured"],
            "aim": row["aim"],
            "": row["met"],
            "detail": row["detail"],
        }
        for row in read("waiting.json")
        if row["aim"]
    ]


def shown(rows: Sequence[dict]) -> list[dict]:
    """Rows without what the file alone needs."""
    hidden = ("part", "commit", "versions", "machine")
    return [{name: row[name] for name in row if name not in hidden} for row in rows]


def public_sets() -> list[dict]:
    """The models of each set, which the case names first."""
    table = []
    for row in read("trust.json"):
        if "seconds" not in row:
            continue
        name, _, model = row["case"].partition(", ")
        table.append(
            {
                "set": name,
                "model": model,
                "log-likelihood": row["figure"],
                "": row["met"] if row["met"] is not None else "",
                "RMSE or log-loss": row["rmse or log-loss"],
                "inside 90 %": row["inside 90 %"],
                "seconds": row["seconds"],
            }
        )
    return table


def peers(part: str) -> list[dict]:
    """A part of the benchmark of peers."""
    return shown([row for row in read("peers.json") if row["part"] == part])


SECTIONS = (
    (
        "The paper's tables",
        "`python -m benchmarks.paper`. Means over splits, standard errors in brackets; met is a "
        "cell no worse than the paper's (over 20 splits) by more than its standard error. Of a few "
        "splits, that says little: they may be easy ones. The recipe “by size and inputs” is the "
        "library's own (`training/plan.py`), chosen by inner rows; “by size” differs in that "
        "lengthscales start at 2, as in the paper, and “default” was 5,000 steps of up to 1,000 "
        "rows. A set is shown by one recipe: that with the most models.",
        regression,
    ),
    (
        "The recipe, by rows held out inside the training part",
        "`python -m benchmarks.paper --inner`. What was tried, and its mean log-likelihood there.",
        lambda: paper.tried(read_rows(paper.TRIED)),
    ),
    ("Pictures", "`python -m benchmarks.images`.", pictures),
    (
        "Ten public sets",
        "`python -m benchmarks.trust --only sets`. Held-out log-likelihood per row of the model "
        "that the verdict recommends, beside what one would use otherwise, on the same rows; ours "
        "should be the best, or within 0.1 nats of it.",
        public_sets,
    ),
    ("A step", "`python -m benchmarks.speed`, float64, Adam on every parameter.", speed),
    (
        "How a step's cost grows",
        "`python -m benchmarks.growth`.",
        lambda: shown(read(growth.MEASURED)),
    ),
    (
        "Scale",
        "`python -m benchmarks.scale --seconds 60`: 60 seconds of training a model and size, "
        "minibatches of 10,000, 100 inducing points; gradient boosting gets at most 10 million "
        "rows, and as long as it takes. Who knows the function has an RMSE of 62.9. Memory is "
        "above that of the import.",
        scale,
    ),
    (
        "Waiting",
        "`python -m benchmarks.waiting`: each part at a server of its own on two cores, its cache "
        "empty at the start; all but “fresh” and “memory” begin once it has been up for two "
        "minutes.",
        waiting,
    ),
    (
        "A class",
        "`python -m benchmarks.class_follow`: a teacher and eight students in Chromium, all on the "
        "server's two cores; seconds until the first and the last student's page shows it.",
        lambda: shown(read("class_follow.json")),
    ),
    (
        "The same numbers as GPflow and GPflux",
        "`python -m benchmarks.peers --only numbers`. Bounds of the same model.",
        lambda: peers("numbers"),
    ),
    (
        "Peers: a step",
        "`python -m benchmarks.peers --only steps`, all in the same run.",
        lambda: peers("steps"),
    ),
    (
        "Peers: seconds to the paper's quality",
        "`python -m benchmarks.peers --only targets`.",
        lambda: peers("targets"),
    ),
    ("Peers: start", "`python -m benchmarks.peers --only first`.", lambda: peers("first")),
    ("Peers: memory", "`python -m benchmarks.peers --only memory`.", lambda: peers("memory")),
)
"""A title, how it is measured, and its rows; a section without rows is left out."""


def tables() -> str:
    """All of them, in Markdown."""
    parts = [
        f"### {title}\n\n{words}\n\n{markdown(rows)}"
        for title, words, of in SECTIONS
        if (rows := of())
    ]
    return "\n\n".join(parts)


def written(text: str) -> str:
    """A README with its tables as they are now."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.split(END)[1]}"


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.tables")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    readme = ROOT / "README.md"
    old = readme.read_text(encoding="utf-8")
    new = written(old)
    if options.check:
        sys.exit("" if new == old else "The README's tables are old: run `make tables`.")
    readme.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
