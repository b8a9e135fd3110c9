"""Random tables in random dialects come back equal; damaged files give an error with a name."""

import csv
import gzip
import io
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dgp_core.tables.parsing import is_value
from dgp_core.tables.table import (
    Table,
    TableError,
    propose_missing,
    propose_target,
    propose_task,
    read_table,
    report,
)

LETTERS = "abcxyzäéßÅ ,;|\t\n\"'.:-_#%0123456789"


def is_word(text: str) -> bool:
    """A cell that must stay as it is: no value, no spaces around it, no half of a line end."""
    return text == text.strip() and not is_value(text) and not text.startswith(("n_", "#", "%"))


words = st.text(LETTERS, min_size=1, max_size=8).filter(is_word)
numbers = st.one_of(
    st.integers(-(10**9), 10**9).map(float),
    st.floats(-1e9, 1e9, allow_subnormal=False).map(lambda x: round(x, 6)),
)


@st.composite
def tables(draw):
    """A header and columns of numbers or words, with holes."""
    rows = draw(st.integers(2, 20))
    columns = {}
    for i in range(draw(st.integers(2, 5))):
        cell = draw(st.sampled_from([numbers, words]))
        filled = st.lists(st.one_of(st.none(), cell), min_size=rows, max_size=rows)
        columns[f"n_{draw(st.text('abc', max_size=3))}{i}"] = draw(filled.filter(any))
    return columns


@st.composite
def dialects(draw):
    """A way to write a table down."""
    delimiter = draw(st.sampled_from(",;\t| "))
    return {
        "delimiter": delimiter,
        "comma": draw(st.booleans()),
        "quoting": draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])),
        "end": draw(st.sampled_from(["\n", "\r\n", "\r"])),
        "encoding": draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "latin-1"])),
        "missing": draw(st.sampled_from(["NA", "null", "?", "-", "#N/A", "NaN", "missing"])),
        "gzip": draw(st.booleans()),
    }


def spelt(x: float, comma: bool) -> str:
    """Two digits after the decimal comma, so that nobody could take it for thousands."""
    return f"{x:.2f}".replace(".", ",") if comma else repr(x)


def write(columns: dict, dialect: dict) -> bytes:
    file = io.StringIO(newline="")
    # Python's writer leaves \n bare where lines end in \r, and tabs where cells end in spaces.
    bare = dialect["end"] == "\r" or dialect["delimiter"] == " "
    quoting = csv.QUOTE_ALL if bare else dialect["quoting"]
    delimiter = dialect["delimiter"]
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=dialect["end"])
    writer.writerow(columns)
    for row in zip(*columns.values(), strict=True):
        writer.writerow(
            dialect["missing"] if cell is None
            else spelt(cell, dialect["comma"]) if isinstance(cell, float)
            else cell
            for cell in row
        )  # fmt: skip
    data = file.getvalue().encode(dialect["encoding"])
    return gzip.compress(data) if dialect["gzip"] else data


def expected(column: list, comma: bool) -> list:
    """What must come back: numbers as they were spelt, words as they were."""
    if all(isinstance(cell, float) for cell in column if cell is not None):
        return [cell if cell is None else round(cell, 2) if comma else cell for cell in column]
    return column


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), dialects())
def test_a_random_table_comes_back(columns, dialect):
    data = write(columns, dialect)
    table = read_table(data, "random")
    assert list(table.cells) == list(columns)
    for name, column in columns.items():
        cells = table.cells[name]
        if isinstance(cells, np.ndarray):
            got = [None if np.isnan(x) else x for x in cells]
        else:
            got = cells.to_pylist()
        assert got == pytest.approx(expected(column, dialect["comma"]), abs=1e-12)


def use(data: bytes) -> bool:
    """All that a page would do with a file; whether it was a table."""
    try:
        table = read_table(data, "damaged")
        assert isinstance(table, Table) and table.rows > 0 and report(table)
        target = propose_target(table).value
        propose_task(table, target)
        made = table.to_dataset(target, missing=propose_missing(table).value)
        assert np.isfinite(made.dataset.X).all()
        np.testing.assert_array_equal(made.recipe.inputs(table)[made.rows], made.dataset.X)
    except TableError as error:
        assert len(str(error)) > 20
        return False
    return True


def sound_files() -> list[bytes]:
    rng = np.random.default_rng(1)
    colours, answers = ["red", "a;b", "gr\nn"], ["yes", "no", "NA"]
    rows = [
        f'{rng.normal():.4f};"{rng.choice(colours)}";{rng.integers(9)};'
        f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 29):02d};{rng.choice(answers)}"
        for _ in range(60)
    ]
    text = "x;colour;n;when;ok\n" + "\n".join(rows) + "\n"
    file = io.BytesIO()
    x = rng.normal(size=60)
    parquet.write_table(pa.table({"x": x, "y": x**2, "w": ["u", "v", None] * 20}), file)
    return [
        text.encode(),
        text.replace(";", ",").encode("utf-16"),
        text.replace(";", " ").encode("latin-1"),
        gzip.compress(text.encode()),
        file.getvalue(),
    ]


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes changed, cut, doubled, or swapped for those that mean something."""
    out = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(len(out) + 1))
        size = int(rng.integers(1, 30))
        match rng.integers(6):
            case 0:
                out[at : at + 1] = bytes([rng.integers(256)])
            case 1:
                del out[at : at + size]
            case 2:
                out[at:at] = out[at : at + size]
            case 3:
                out[at:at] = rng.bytes(size)
            case 4:
                out[at:at] = rng.choice([b'"', b",", b";", b"\n", b"\r", b"\0", b"\xff", b"1e999"])
            case _:
                del out[at:]
    return bytes(out)


@pytest.mark.parametrize("i", range(5))
def test_damaged_files_raise_nothing_but_the_named_error(i):
    rng = np.random.default_rng(i)
    sound = sound_files()[i]
    assert use(sound)
    slowest = 0.0
    for _ in range(150):
        start = time.perf_counter()
        use(damage(sound, rng))
        slowest = max(slowest, time.perf_counter() - start)
    assert slowest < 10


@settings(max_examples=200)
@given(st.one_of(st.binary(max_size=400), st.text(LETTERS + "\r", max_size=400).map(str.encode)))
def test_noise_raises_nothing_but_the_named_error(data):
    use(data)


@pytest.mark.parametrize(
    "data",
    [
        b"," * 1_000_000,
        b'"' * 1_000_001,
        b'a,b\n"' + b"x\n" * 300_000,
        b"a,b\n" + b"x" * 5_000_000,
        b"1 " * 500_000,
        b"a,b\n" + b'1,"' * 100_000,
        b"\n" * 1_000_000 + b"a,b\n1,2\n3,4",
        b"(" * 100_000 + b",\n1,2\n",
        b"a,b\n" + b"1,2\n" * 50_000 + b"1,2,3\n" * 40_000,
        b"1-1-" * 100_000 + b",2\n3,4\n",
        b"a,b\n" + b"9" * 100_000 + b",1\n2,3\n",
        b"a,b\n1e" + b"9" * 1_000 + b",1\n2,3\n",
    ],
    ids=range(12),
)
def test_pathological_files_do_not_hang(data):
    start = time.perf_counter()
    use(data)
    assert time.perf_counter() - start < 20
