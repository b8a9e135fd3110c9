"""A small file cannot fill the memory: its cells and bytes are counted before they are read."""

import gzip
import io
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from dgp_core.tables.limits import Limits
from dgp_core.tables.table import TableError, read_table
from pages.ui.your_data.commands import large_file_command

LIMITS = Limits(bytes=1_000_000_000)
"""As the page has them."""


def written(table: pa.Table) -> bytes:
    file = io.BytesIO()
    parquet.write_table(table, file, compression="zstd")
    return file.getvalue()


def refused(content: bytes, words: str, limits: Limits = LIMITS, most: int = 2**26) -> None:
    """Refuses a file with these words, without taking much memory for it."""
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(TableError, match=words):
            read_table(content, "x", limits)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < most


def test_a_parquet_of_many_cells_is_refused_by_its_metadata():
    column = pa.array(np.zeros(100_000))
    content = written(pa.table({f"c{i}": column for i in range(700)}))
    assert len(content) < 2_000_000
    refused(content, "70,000,000 cells", most=2**24)


def test_a_parquet_of_long_lists_is_counted_by_its_values():
    lists = pa.ListArray.from_arrays([0, 7_000_000], pa.nulls(7_000_000, pa.int8()))
    refused(written(pa.table({"a": lists, "b": [1.0]})), "cells", replace(LIMITS, cells=6_000_000))


def test_a_parquet_s_words_are_counted_as_they_are_unpacked():
    content = written(pa.table({"a": ["x" * 100_000 + str(i) for i in range(50)]}))
    refused(content, "once unpacked", replace(LIMITS, bytes=1_000_000))


def test_a_gzip_stops_at_its_ratio():
    text = b",".join([b"0"] * 100) + b"\n"
    bomb = gzip.compress(text * 200_000, 9)  # 40 MB in 155 kB
    assert len(bomb) < 200_000
    refused(bomb, "16,000,000 bytes once unpacked")
    rng = np.random.default_rng(0)
    honest = "a,b\n" + "".join(f"{x:.6f},{y:.6f}\n" for x, y in rng.random((2_000, 2)))
    assert read_table(gzip.compress(honest.encode()), "x", LIMITS).rows == 2_000


def test_a_text_s_cells_are_counted_before_they_are_read():
    full = b",".join([b"1"] * 1000) + b"\n"
    text = full.replace(b"1", b"c") + full * 600 + b"1\n" * 70_000  # short rows are filled up
    refused(text, "60,000,000 cells")
    quoted = b'a,b\n"1","2"\n' + b'"1","2"\n' * 10
    refused(quoted, "20 cells", Limits(cells=20))
    assert read_table(b"a,b\n" + b"1,2\n" * 10, "x", Limits(cells=20)).rows == 10


def workbook(**parts: bytes) -> bytes:
    """A workbook with parts of our own beside those of openpyxl."""
    book, file = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["a", "b"])
    book.active.append([1, 2])
    book.save(file)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name.replace("__", "/") + ".xml", content)
    return file.getvalue()


def test_a_workbook_s_parts_are_measured_before_they_are_unpacked():
    assert read_table(workbook(), "x", LIMITS).rows == 1
    refused(workbook(xl__worksheets__s=bytes(151_000_000)), "150,000,000 bytes once unpacked")
    refused(workbook(xl__other=bytes(21_000_000)), "20,000,000 bytes once unpacked")


def test_a_part_that_is_larger_than_it_says_is_not_unpacked():
    content = workbook(xl__other=bytes(5_000_000))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        part = archive.getinfo("xl/other.xml")
    size = part.file_size.to_bytes(4, "little")
    lying = content.replace(size, (10).to_bytes(4, "little"))
    with zipfile.ZipFile(io.BytesIO(lying)) as archive:
        assert archive.getinfo("xl/other.xml").file_size == 10
        with pytest.raises(zipfile.BadZipFile):  # the ten bytes are not what was packed
            archive.read("xl/other.xml")


def test_a_file_that_is_too_large_is_not_read_for_its_command_either():
    wide = io.BytesIO(b",".join([b"c%d" % i for i in range(200_000)]) + b"\n")
    assert "--target=COLUMN" in large_file_command(wide, "wide.csv")
