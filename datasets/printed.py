"""What Salimbeni & Deisenroth (2017) print: every figure of their tables, with slips set right."""

import json
from pathlib import Path
from typing import Literal, NamedTuple

Score = Literal["loglik", "rmse", "auc", "accuracy"]
"""Held-out log-likelihood (nats per row), RMSE, area under the ROC curve, accuracy in per cent."""

SYSTEMS = {
    "linear": "Linear",
    "sgp": "SGP",
    "sgp500": "SGP 500",
    "sgp1000_arcsine": "SGP 1000, arcsine kernel",
    "aepdgp2": "AEPDGP 2",
    "dgp2": "DGP 2",
    "dgp3": "DGP 3",
    "dgp4": "DGP 4",
    "dgp5": "DGP 5",
    "pbp": "PBP",
    "svm": "SVM",
    "dbn3": "DBN-3",
    "bdt": "BDT",
    "nn": "NN",
    "dnn": "DNN",
}
"""The paper's names: SGP and DGP have 100 inducing points a layer where no other number is said."""

ERRATA = {
    "wine_red": "The wine data have 11 inputs, not 22.",
    "naval": "The naval data have 16 inputs, not 26; two of them are constant.",
    "higgs": "HIGGS has 28 inputs, as the text says, not the table's 24.",
    "susy": "SUSY has 5 million rows, not 5.5.",
    "rectangles_images": "The log-likelihood of the rectangles for DGP 2 lacks its minus sign.",
}
"""Slips of the tables by the set that they are about; `printed.json` has them set right."""


class Printed(NamedTuple):
    """A figure, and its standard error where there is one."""

    value: float
    error: float | None = None


_PAPER = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
SETS: tuple[str, ...] = tuple(_PAPER["sets"])
SECONDS_A_STEP: dict[str, dict[str, float]] = _PAPER["seconds_a_step"]
"""By device ("cpu" has 8 cores, "gpu" is a Tesla K80) and system: 10,000 rows, inner widths 1."""


def printed(name: str, score: Score) -> dict[str, Printed]:
    """Every system's score on a set, in the order of SYSTEMS; none where the paper has none."""
    found = _PAPER["sets"].get(name, {}).get(score, {})
    return {system: Printed(*found[system]) for system in SYSTEMS if system in found}


def size(name: str) -> tuple[int, int]:
    """Rows and inputs of a set."""
    return _PAPER["sets"][name]["rows"], _PAPER["sets"][name]["inputs"]
