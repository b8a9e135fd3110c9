"""The larger public data sets: download once, check, keep as one memory-mapped file.

A set is one table of numbers, inputs first and the output last, in `<cache>/<name>.npy`. Downloads
go on where they broke off, and nothing gets its final name before it has been checked.
"""

import bz2
import csv
import gzip
import hashlib
import http.client
import os
import shutil
import struct
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

import numpy as np

from dgp_core.gp.data import Dataset, Task

Progress = Callable[[str, int, int | None], None]
"""Called with "download" or "read", how much is done (bytes, rows), and of how much if known."""

TIMEOUT = 30.0
"""Seconds without a byte after which a server counts as stalled."""
ATTEMPTS = 4
PAUSE = 1.0
"""Seconds before the second attempt; twice as long before each further one."""
ROWS = 50_000
"""Rows that are read, checked and written at a time."""


class FetchError(ValueError):
    """A data set could not be had; the sentence says why and what to do."""


def cache_folder() -> Path:
    """Where downloads are kept: $DGP_DATA, else the user's cache folder."""
    if chosen := os.environ.get("DGP_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "dgp-lab"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "dgp-lab"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dgp-lab"


@dataclass(frozen=True)
class Remote:
    """One file on a public server."""

    url: str
    name: str
    """What it is called in the cache folder."""
    digest: str = ""
    """`algorithm:hex` of the whole file, where a true one is known."""


class _Again(Exception):
    """This attempt failed, the next one may not."""


def download(
    remote: Remote,
    path: Path,
    progress: Progress | None = None,
    timeout: float = TIMEOUT,
    pause: float = PAUSE,
) -> None:
    """Bring a file to `path`, going on from `path.part` where an earlier download broke off."""
    part = path.with_name(path.name + ".part")
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise FetchError(f"{part.parent} cannot be written: {e.strerror or e}.") from None
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            _continue(remote.url, part, progress, timeout)
            break
        except _Again as e:
            reason = str(e)
    else:
        kept = _size(part)
        raise FetchError(
            f"{remote.name} could not be downloaded from {remote.url}: {reason} "
            + (f"{kept:,} bytes are kept; the next try goes on from there." if kept else "")
        )
    if remote.digest and (found := _digest(part, remote.digest)) != remote.digest:
        _forget(part)
        raise FetchError(
            f"{remote.url} sent another file than expected (its checksum is {found}, not "
            f"{remote.digest}). It was thrown away; try again, and if that fails too, the file has "
            "been changed at its source."
        )
    os.replace(part, path)
    _tag(part).unlink(missing_ok=True)


def _continue(url: str, part: Path, progress: Progress | None, timeout: float) -> None:
    """One attempt: ask for the bytes that are missing and append them."""
    have = _size(part)
    headers = {"User-Agent": "dgp-lab", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        # The rest of the same file, or the whole of the new one: never a mixture of both.
        if _tag(part).exists():
            headers["If-Range"] = _tag(part).read_text("ascii")
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=timeout
        ) as answer:
            if answer.status != 206:
                have = 0
            elif not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
                _forget(part)
                raise _Again("the server sent another piece than the one asked for.")
            etag = answer.headers.get("ETag", "")
            if etag.startswith('"') and etag.isascii():
                _tag(part).write_text(etag, "ascii")
            else:
                _tag(part).unlink(missing_ok=True)
            length = answer.headers.get("Content-Length", "")
            total = have + int(length) if length.isdigit() else None
            with open(part, "ab" if have else "wb") as out:
                while block := answer.read1(1 << 16):
                    out.write(block)
                    have += len(block)
                    if progress:
                        progress("download", have, total)
    except urllib.error.HTTPError as e:
        e.close()
        if e.code == 416:
            # There is nothing beyond what is kept: the server promised more, or changed the file.
            _forget(part)
            raise _Again("the file is shorter than promised, or has changed.") from None
        sentence = f"the server answered {e.code} ({e.reason})."
        if e.code in (408, 429) or e.code >= 500:
            raise _Again(sentence) from None
        raise FetchError(f"{url} cannot be downloaded: {sentence}") from None
    except TimeoutError:
        raise _Again(f"the server fell silent for {timeout:g} s.") from None
    except urllib.error.URLError as e:
        if isinstance(e.reason, TimeoutError):
            raise _Again(f"the server did not answer for {timeout:g} s.") from None
        raise FetchError(
            f"There is no network, or {url} cannot be reached ({e.reason}). Download it elsewhere "
            f"and put it at {part.with_name(part.name.removesuffix('.part'))}, or give a folder "
            "that holds this set as .npz (X, y)."
        ) from None
    except (http.client.HTTPException, ConnectionError) as e:
        raise _Again(f"the connection broke ({type(e).__name__}).") from None
    except OSError as e:
        raise FetchError(f"{part} cannot be written: {e.strerror or e}.") from None
    if total is not None and have < total:
        raise _Again(f"the connection ended at {have:,} of {total:,} bytes.")
    if not have:
        raise _Again("the server sent an empty file.")


def _tag(part: Path) -> Path:
    return part.with_name(part.name + ".etag")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _tag(part).unlink(missing_ok=True)


def _digest(path: Path, expected: str) -> str:
    algorithm = expected.partition(":")[0]
    with open(path, "rb") as f:
        return f"{algorithm}:{hashlib.file_digest(f, algorithm).hexdigest()}"


@dataclass(frozen=True)
class Fetched:
    """A public set: where it is, how its files become rows, and what must come out."""

    name: str
    title: str
    rows: int | None
    """How many rows there must be; None where it depends on what is asked for."""
    inputs: tuple[str, ...]
    output: str
    story: str
    licence: str
    source: str
    files: Callable[..., tuple[Remote, ...]]
    """The files to download, given the set's own options."""
    read: Callable[[Sequence[Path]], Iterator[np.ndarray]]
    """The downloaded files -> tables (n, D + 1), inputs first, output last."""
    task: Task = "regression"
    classes: tuple[str, ...] = ()
    image: tuple[int, int] | None = None
    output_mean: float | None = None
    """The output's mean to 4 digits: a check where the file's checksum may change."""
    warning: str = ""

    def load(
        self,
        folder: str | os.PathLike | None = None,
        progress: Progress | None = None,
        timeout: float = TIMEOUT,
        pause: float = PAUSE,
        **options: str,
    ) -> Dataset:
        """From `folder/<name>.npz` if a folder is given, else from the cache, else downloaded."""
        if folder is not None:
            X, Y = self._from_npz(Path(folder))
        else:
            with _LOCKS[self.name]:
                table = self._table(progress, timeout, pause, options)
            X, Y = table[:, :-1], table[:, -1:]
        return Dataset(
            self.name, X, Y, self.inputs, (self.output,), self.task, self.story, self.classes
        )

    def _table(self, progress, timeout, pause, options) -> np.ndarray:
        cache = cache_folder()
        stem = "-".join([self.name, *options.values()])
        final = cache / f"{stem}.npy"
        if not final.exists():
            raw = []
            for remote in self.files(**options):
                path = cache / stem / remote.name
                if not path.exists():
                    download(remote, path, progress, timeout, pause)
                raw.append(path)
            self._convert(raw, final, progress)
            shutil.rmtree(cache / stem)
        try:
            table = np.load(final, mmap_mode="r", allow_pickle=False)
        except (ValueError, EOFError):
            table = np.empty(0)
        if table.ndim != 2 or not self._fits(*table.shape):
            raise FetchError(f"{final} is damaged: delete it, and the set is downloaded again.")
        return table

    def _fits(self, rows: int, columns: int) -> bool:
        return columns == len(self.inputs) + 1 and (rows == self.rows if self.rows else rows > 0)

    def _convert(self, raw: Sequence[Path], final: Path, progress: Progress | None) -> None:
        """Stream the rows of the downloaded files into one .npy; files that are wrong set aside."""
        width, rows, total = len(self.inputs) + 1, 0, 0.0
        part = final.with_name(final.name + ".part")
        try:
            with _reading(), open(part, "w+b") as out:
                _header(out, 0, width)
                for chunk in self.read(raw):
                    chunk = np.ascontiguousarray(chunk, np.float64)
                    if chunk.ndim != 2 or chunk.shape[1] != width:
                        raise FetchError(f"it has {chunk.shape[-1]} columns, not {width}")
                    if not np.isfinite(chunk).all():
                        raise FetchError("it has cells that are not numbers")
                    if self.classes and not np.isin(chunk[:, -1], range(len(self.classes))).all():
                        raise FetchError(f"its labels are not 0 to {len(self.classes) - 1}")
                    rows, total = rows + len(chunk), total + chunk[:, -1].sum()
                    if self.rows and rows > self.rows:
                        break
                    out.write(chunk.data)
                    if progress:
                        progress("read", rows, self.rows)
                if not self._fits(rows, width):
                    many = "too many" if self.rows and rows > self.rows else f"{rows:,}"
                    raise FetchError(f"it has {many} rows instead of {self.rows or 'some'}")
                if self.output_mean and not np.isclose(total / rows, self.output_mean, rtol=1e-4):
                    raise FetchError(f"its output's mean is {total / rows:.4g}")
                _header(out, rows, width)
        except (FetchError, *_DAMAGE) as e:
            part.unlink(missing_ok=True)
            for path in raw:
                path.replace(path.with_name(path.name + ".wrong"))
            raise FetchError(
                f"What was downloaded for {self.name} is not that set: {_why(e)}. It was set aside "
                f"as {raw[0].name}.wrong in {raw[0].parent}; try again, and if that fails too, the "
                "file has been changed at its source."
            ) from None
        except OSError as e:
            part.unlink(missing_ok=True)
            raise FetchError(f"{part} cannot be written: {e.strerror or e}.") from None
        os.replace(part, final)

    def _from_npz(self, folder: Path) -> tuple[np.ndarray, np.ndarray]:
        path = folder / f"{self.name}.npz"
        try:
            with open(path, "rb") as f, np.load(f, allow_pickle=False) as z:
                X, y = _rows_of(dict(z))
        except FileNotFoundError:
            raise FetchError(f"{path} is not there: the folder must hold {path.name}.") from None
        except (OSError, TypeError, *_DAMAGE):
            raise FetchError(f"{path} is no .npz file with the arrays X and y.") from None
        if X.ndim != 2 or len(X) != len(y) or y.shape[1:] not in ((), (1,)):
            raise FetchError(f"{path}: X must be (N, D) and y (N,), not {X.shape}, {y.shape}.")
        if not self._fits(len(X), X.shape[1] + 1):
            raise FetchError(
                f"{path} has {X.shape[0]:,} rows and {X.shape[1]} inputs; {self.name} has "
                f"{f'{self.rows:,}' if self.rows else 'some'} rows and {len(self.inputs)} inputs."
            )
        return X, y.reshape(-1, 1)


_LOCKS: dict[str, threading.Lock] = defaultdict(threading.Lock)

_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    KeyError,
    RuntimeError,
    ValueError,
    struct.error,
)
"""What readers raise at a file that is not what it should be; pyarrow's are among them."""


@contextmanager
def _reading():
    """gzip and bz2 say OSError for damaged data, as a full disk does: tell them apart."""
    try:
        yield
    except OSError as e:
        if e.errno is None:
            raise FetchError("it is damaged") from None
        raise


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, FetchError) else f"it is damaged ({error})"


def _header(out: IO[bytes], rows: int, columns: int) -> None:
    """The .npy header; it keeps its length while rows are added, so that it can be rewritten."""
    out.seek(0)
    shape = {"descr": "<f8", "fortran_order": False, "shape": (rows, columns)}
    np.lib.format.write_array_header_1_0(out, shape)


def _rows_of(arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """X and y of an .npz; Keras' names for a picture set are known too."""
    if "x_train" in arrays:
        X = np.concatenate([arrays["x_train"], arrays["x_test"]])
        y = np.concatenate([arrays["y_train"], arrays["y_test"]])
        return X.reshape(len(X), -1) / 255, y.astype(np.float64)
    X, y = arrays["X"], arrays["y"] if "y" in arrays else arrays["Y"]
    return X.astype(np.float64), y.astype(np.float64)


def _chunks(
    lines: Iterable[bytes],
    delimiter: str | None = ",",
    header: bool = False,
    columns: Sequence[int] | None = None,
) -> Iterator[np.ndarray]:
    """Rows of text as tables of numbers, a bounded number at a time."""
    rows = (line for line in islice(lines, int(header), None) if not line.isspace())
    while block := list(islice(rows, ROWS)):
        yield np.loadtxt(block, comments=None, delimiter=delimiter, usecols=columns, ndmin=2)


def _csv(paths: Sequence[Path], columns: int) -> Iterator[np.ndarray]:
    """The first `columns` columns of a CSV file with a header."""
    with open(paths[0], "rb") as stream:
        yield from _chunks(stream, header=True, columns=range(columns))


@contextmanager
def _member(path: Path, ending: str) -> Iterator[IO[bytes]]:
    """The one file of a zip archive whose name ends so."""
    with zipfile.ZipFile(path) as archive:
        names = [
            n for n in archive.namelist() if n.endswith(ending) and not n.startswith("__MACOSX")
        ]
        if len(names) != 1:
            raise FetchError(f"its archive holds {len(names)} files *{ending}, not 1")
        with archive.open(names[0]) as stream:
            yield stream


def _output_last(chunks: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    """From the output in the first column to the output in the last."""
    for chunk in chunks:
        yield np.roll(chunk, -1, axis=1)


def _read_naval(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    """The 16 measurements and the compressor's decay; the turbine's, the 18th column, is left."""
    with _member(paths[0], "data.txt") as stream:
        yield from _chunks(stream, None, columns=range(17))


def _read_protein(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    with _member(paths[0], "CASP.csv") as stream:
        yield from _output_last(_chunks(stream, header=True))


def _read_year(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    with _member(paths[0], "YearPredictionMSD.txt") as stream:
        yield from _output_last(_chunks(stream))


def _read_collisions(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    """A gzipped CSV inside a zip, unpacked and parsed as it streams by."""
    with _member(paths[0], ".csv.gz") as packed, gzip.GzipFile(fileobj=packed) as stream:
        yield from _output_last(_chunks(stream))


def _read_rectangles(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    for ending in ("_train.amat", "_test.amat"):
        with _member(paths[0], ending) as stream:
            yield from _chunks(stream, None)


# Of the unpacked files, computed from the 70,000 digits in their original order.
_MNIST = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


def _idx(path: Path) -> np.ndarray:
    """An unsigned-byte IDX file: 0, 0, 8, rank, then each axis' length, then the cells."""
    with gzip.open(path) as f:
        content = f.read()
    name = path.name.removesuffix(".gz")
    if hashlib.sha256(content).hexdigest() != _MNIST[name]:
        raise FetchError(f"the checksum of {name} is wrong")
    rank = content[3]
    shape = struct.unpack(f">{rank}I", content[4 : 4 + 4 * rank])
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def _read_mnist(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    for images, labels in zip(paths[::2], paths[1::2], strict=True):
        X, y = _idx(images), _idx(labels)
        yield np.column_stack([X.reshape(len(X), -1) / 255, y])


AIRLINE_ROWS = 800_000
FIRST_MONTHS = frozenset("1234")


def _minutes(clock: float) -> float:
    """1745 -> 1065: from hours and minutes to minutes after midnight."""
    return clock // 100 * 60 + clock % 100


def _read_airline(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    """Flights of January to April 2008 with their plane's age: 800,000 of them, drawn by chance.

    After Hensman, Fusi & Lawrence (2013), who trained on 700,000 and tested on 100,000.
    """
    flights, planes = paths
    with open(planes, encoding="utf-8", newline="") as f:
        first = f.readline()
        f.seek(0)
        table = csv.DictReader(f, delimiter="\t" if "\t" in first else ",")
        built = {row["tailnum"]: row["year"] or "" for row in table}
    built = {tail: int(year) for tail, year in built.items() if year.isdigit() and int(year) > 0}
    kept = array("d")
    with bz2.open(flights, "rt", encoding="latin-1", newline="") as f:
        reader = csv.reader(f)
        place = {name: i for i, name in enumerate(next(reader))}
        month, cancelled, diverted, tail = (
            place[name] for name in ("Month", "Cancelled", "Diverted", "TailNum")
        )
        times = [place["ArrTime"], place["DepTime"]]
        plain = [place[name] for name in ("DayofMonth", "DayOfWeek", "AirTime", "Distance")]
        delay = place["ArrDelay"]
        for row in reader:
            if row[month] not in FIRST_MONTHS or row[cancelled] != "0" or row[diverted] != "0":
                continue
            cells = [*(row[i] for i in plain), *(row[i] for i in times), row[delay]]
            if row[tail] not in built or "NA" in cells or "" in cells:
                continue
            day, weekday, air, miles, arrival, departure, late = map(float, cells)
            age = 2008 - built[row[tail]]
            kept.extend((float(row[month]), day, weekday, age, air, miles))
            kept.extend((_minutes(arrival), _minutes(departure), late))
    numbers = np.frombuffer(kept).reshape(-1, 9)
    rows = np.random.RandomState(0).permutation(len(numbers))[:AIRLINE_ROWS]
    for start in range(0, len(rows), ROWS):
        yield numbers[rows[start : start + ROWS]]


def _read_taxi(paths: Sequence[Path]) -> Iterator[np.ndarray]:
    """Rides inside the city's box that take 10 s to 5 h, as in the paper."""
    import pyarrow.parquet as pq

    places = ["pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude"]
    columns = ["pickup_at", "dropoff_at", *places, "trip_distance"]
    with pq.ParquetFile(paths[0]) as file:
        if missing := set(columns) - set(file.schema_arrow.names):
            raise FetchError(f"it lacks the columns {', '.join(sorted(missing))}")
        for batch in file.iter_batches(ROWS, columns=columns):
            ride = {c: batch.column(c).to_numpy(zero_copy_only=False) for c in columns}
            t = ride["pickup_at"].astype("datetime64[s]")
            end = ride["dropoff_at"].astype("datetime64[s]")
            day, month = t.astype("datetime64[D]"), t.astype("datetime64[M]")
            rest = np.stack([ride[c] for c in (*places, "trip_distance")], 1).astype(np.float64)
            table = np.column_stack(
                [
                    (t - day).astype(np.float64) // 60,
                    # The first day of 1970 was a Thursday; Monday is 0.
                    (day.astype(np.float64) + 3) % 7,
                    (day - month).astype(np.float64) + 1,
                    month.astype(np.float64) % 12 + 1,
                    rest,
                    (end - t).astype(np.float64),
                ]
            )
            low = [10, *(40.5, -74.3) * 2]
            high = [5 * 3600, *(41.0, -73.7) * 2]
            asked = table[:, [-1, 4, 5, 6, 7]]
            inside = ((asked >= low) & (asked <= high)).all(1)
            yield table[inside & np.isfinite(table).all(1) & ~(np.isnat(t) | np.isnat(end))]


_UCI = "https://archive.ics.uci.edu/static/public/"
_DATAVERSE = "https://dataverse.harvard.edu/api/access/datafile/:persistentId?persistentId="
_DIGITS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_RIDES = "https://ursa-labs-taxi-data.s3.us-east-2.amazonaws.com/"
_PIXELS = tuple(f"pixel{i}" for i in range(784))
_CC_BY = "CC BY 4.0"


def _always(*files: Remote) -> Callable[[], tuple[Remote, ...]]:
    return lambda: files


def _taxi_files(month: str = "2015-01") -> tuple[Remote, ...]:
    year, _, number = month.partition("-")
    if not (year.isdigit() and number.isdigit() and 1 <= int(number) <= 12):
        raise FetchError(f"A month is written like 2015-01, not {month!r}.")
    if not "2009-01" <= month <= "2016-06":
        raise FetchError("Rides have coordinates from 2009-01 to 2016-06 only: choose from these.")
    return (Remote(f"{_RIDES}{year}/{number}/data.parquet", "data.parquet"),)


_SETS = (
    Fetched(
        "energy",
        "Energy of buildings",
        768,
        tuple(
            """compactness surface wall roof height orientation glazing
            glazing_distribution""".split()
        ),
        "heating_load",
        "Heat that a building needs, from its shape. It was computed, not measured, so there is "
        "hardly any noise and every bit of structure can be found.",
        _CC_BY,
        "Tsanas & Xifara (2012), UCI 242",
        # The tenth column, the cooling load, is left.
        _always(
            Remote(
                _UCI + "242/data.csv",
                "data.csv",
                "sha256:db44dbe453acd464b5cf65be2fb01a28aa9c5b2630300e65fbe28cde35f5d96f",
            )
        ),
        lambda paths: _csv(paths, 9),
        output_mean=22.3072,
    ),
    Fetched(
        "kin8nm",
        "Robot arm (kin8nm)",
        8192,
        tuple(f"theta{i}" for i in range(1, 9)),
        "distance",
        "The tip of a simulated arm with eight joints: every input turns all later ones, and a "
        "clear gain from depth in the paper.",
        "public (DELVE)",
        "Corke & Ghahramani, DELVE, University of Toronto; OpenML 189",
        _always(
            Remote("https://www.openml.org/data/get_csv/3626/dataset_2175_kin8nm.arff", "data.csv")
        ),
        lambda paths: _csv(paths, 9),
        output_mean=0.714283,
    ),
    Fetched(
        "naval",
        "Naval propulsion",
        11_934,
        tuple(
            """lever speed turbine_torque turbine_rate generator_rate starboard_torque port_torque
            exit_temperature inlet_temperature outlet_temperature exit_pressure inlet_pressure
            outlet_pressure exhaust_pressure injection fuel""".split()
        ),
        "compressor_decay",
        "How worn a frigate's compressor is, from 16 readings of a simulator; two of them never "
        "change. Without noise, the score is limited by arithmetic alone.",
        _CC_BY,
        "Coraddu, Oneto, Ghio, Savio, Anguita & Figari (2014), UCI 316",
        _always(
            Remote(
                _UCI + "316/condition+based+maintenance+of+naval+propulsion+plants.zip",
                "naval.zip",
                "sha256:91a3815da80b5ab7e2d5b82ac82f1c2cbf89182c7a65bcdf240db1e014423cb9",
            )
        ),
        _read_naval,
        output_mean=0.975,
    ),
    Fetched(
        "power",
        "Power plant",
        9568,
        ("temperature", "vacuum", "pressure", "humidity"),
        "output",
        "A power plant's hourly output from the weather: smooth, nearly linear, measured for "
        "years. Good models differ only in the last digits.",
        _CC_BY,
        "Tüfekci (2014); Kaya, Tüfekci & Gürgen (2012), UCI 294",
        _always(
            Remote(
                _UCI + "294/data.csv",
                "data.csv",
                "sha256:3c1fc11025f8424f8d95802d8b7086dffd3f73a552c6dcab3d973620986194b2",
            )
        ),
        lambda paths: _csv(paths, 5),
        output_mean=454.365,
    ),
    Fetched(
        "protein",
        "Protein structure",
        45_730,
        tuple(f"F{i}" for i in range(1, 10)),
        "RMSD",
        "How far a guessed protein is from the true one. Many rows and a rough relation: each "
        "further layer still helps.",
        _CC_BY,
        "Rana (2013), UCI 265",
        _always(
            Remote(
                _UCI + "265/physicochemical+properties+of+protein+tertiary+structure.zip",
                "protein.zip",
                "sha256:ee6536c8cc415dc50d66bd247af7c9bc95c187ab8a4ea0f1f546b127206c1100",
            )
        ),
        _read_protein,
    ),
    Fetched(
        "year",
        "Year of a song",
        515_345,
        tuple(f"timbre{i}" for i in range(1, 91)),
        "year",
        "The year of a song from 90 measures of its sound. The file's first 463,715 rows are for "
        "training: no artist is on both sides.",
        _CC_BY,
        "Bertin-Mahieux (2011), from the Million Song Dataset, UCI 203",
        _always(Remote(_UCI + "203/yearpredictionmsd.zip", "year.zip")),
        _read_year,
    ),
    Fetched(
        "airline",
        "Flight delays of 2008",
        AIRLINE_ROWS,
        tuple("month day day_of_week plane_age air_time distance arr_min dep_min".split()),
        "arr_delay",
        "Delays of 800,000 flights of January to April 2008 (700,000 to train on, 100,000 to "
        "test): the set that showed that GPs can use minibatches.",
        "CC0-1.0",
        "US Bureau of Transportation Statistics, Data Expo 2009, doi:10.7910/DVN/HG7NV7; after "
        "Hensman, Fusi & Lawrence (2013)",
        _always(
            Remote(_DATAVERSE + "doi:10.7910/DVN/HG7NV7/EIR0RA", "2008.csv.bz2"),
            Remote(_DATAVERSE + "doi:10.7910/DVN/HG7NV7/XXSL8A", "plane-data.csv"),
        ),
        _read_airline,
    ),
    Fetched(
        "higgs",
        "HIGGS",
        11_000_000,
        tuple(f"x{i}" for i in range(1, 29)),
        "signal",
        "Simulated collisions: a Higgs boson or background? Eleven million rows show that the cost "
        "of a step does not depend on N. The last 500,000 are for testing.",
        _CC_BY,
        "Whiteson (2014), UCI 280; Baldi, Sadowski & Whiteson (2014)",
        _always(Remote(_UCI + "280/higgs.zip", "higgs.zip")),
        _read_collisions,
        task="binary",
        classes=("background", "signal"),
    ),
    Fetched(
        "susy",
        "SUSY",
        5_000_000,
        tuple(f"x{i}" for i in range(1, 19)),
        "signal",
        "Simulated collisions: supersymmetric particles or background? Five million rows whose "
        "classes overlap, so probabilities matter. The last 500,000 are for testing.",
        _CC_BY,
        "Whiteson (2014), UCI 279; Baldi, Sadowski & Whiteson (2014)",
        _always(Remote(_UCI + "279/susy.zip", "susy.zip")),
        _read_collisions,
        task="binary",
        classes=("background", "signal"),
    ),
    Fetched(
        "taxi",
        "Taxi rides (one month)",
        None,
        (
            "minute_of_day",
            "day_of_week",
            "day_of_month",
            "month",
            *("pickup_latitude", "pickup_longitude", "dropoff_latitude", "dropoff_longitude"),
            "distance",
        ),
        "seconds",
        "How long a yellow cab takes, from when, where from, where to and how far: one month of "
        "the paper's billion rides, over ten million rows. Choose it with month=2015-01.",
        "open data of New York City",
        "NYC Taxi & Limousine Commission; monthly Parquet files with coordinates, Ursa Labs",
        _taxi_files,
        _read_taxi,
    ),
    Fetched(
        "mnist",
        "MNIST digits",
        70_000,
        _PIXELS,
        "digit",
        "Handwritten digits, 60,000 to train on and 10,000 to test: ten classes, 784 inputs, and "
        "the test of whether a GP can be deep on pictures.",
        "CC BY-SA 3.0 (as usually given)",
        "LeCun, Cortes & Burges (1998)",
        _always(*(Remote(f"{_DIGITS}{name}.gz", f"{name}.gz") for name in _MNIST)),
        _read_mnist,
        task="multiclass",
        classes=tuple("0123456789"),
        image=(28, 28),
    ),
    Fetched(
        "rectangles_images",
        "Rectangles on pictures",
        62_000,
        _PIXELS,
        "shape",
        "Tall or wide, with patches of photographs in and around the rectangle: the paper's test "
        "where one layer stays behind and depth pays. The first 12,000 rows are for training.",
        "not stated",
        "Larochelle, Erhan, Courville, Bergstra & Bengio (2007), Université de Montréal",
        _always(
            Remote(
                "http://www.iro.umontreal.ca/~lisa/icml2007data/rectangles_images.zip",
                "rectangles.zip",
                "sha1:2700ba92129ae195e93070d8b27f830323573a57",
            )
        ),
        _read_rectangles,
        task="binary",
        classes=("0", "1"),
        image=(28, 28),
    ),
)

SETS = {entry.name: entry for entry in _SETS}
"""Every set that can be fetched, by name."""
