"""The columns of a Parquet file."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from dgp_core.tables.dialect import distinct_names
from dgp_core.tables.limits import Limits, TableError, check_size, too_large
from dgp_core.tables.parsing import WHOLE, Cells, pc, words
from dgp_core.tables.plain import visible

DAMAGED = "This Parquet file is damaged or cut short: write it again."


def read_parquet(
    data: memoryview, limits: Limits | None
) -> tuple[dict[str, Cells], dict[str, str], list[str]]:
    """The columns of a Parquet file, the reasons against those of a type that cannot be used, and
    what had to be done."""
    buffer = pa.py_buffer(data)
    try:
        file = parquet.ParquetFile(pa.BufferReader(buffer))
        about, width = file.metadata, len(file.schema_arrow)
        groups = [about.row_group(i) for i in range(about.num_row_groups)]
        chunks = [group.column(j) for group in groups for j in range(group.num_columns)]
        rows = max(about.num_rows, sum(group.num_rows for group in groups))
        # A cell that is a list counts as many times as it has values.
        values = sum(chunk.num_values for chunk in chunks)
        unpacked = sum(chunk.total_uncompressed_size for chunk in chunks)
        text = [f.name for f in file.schema_arrow if pa.types.is_string(f.type)]
    except Exception:
        raise TableError(DAMAGED) from None
    check_size(rows, width, limits, values)
    if limits and unpacked > limits.bytes:
        raise too_large(f"{unpacked:,} bytes once unpacked", limits.bytes)
    if not rows or not width:
        raise TableError("This Parquet file holds no rows: bring one with at least one.")
    cells: dict[str, Cells] = {}
    unusable: dict[str, str] = {}
    try:
        # Words stay dictionary-encoded, so that a small file cannot unfold to fill the memory.
        table = parquet.read_table(pa.BufferReader(buffer), read_dictionary=text, use_threads=True)
        names, notes = distinct_names([str(n) for n in table.column_names], width)
        columns = table.columns[::-1]
        del table
        for name in names:  # each column is let go when it has become cells
            cells[name], reason = from_arrow(columns.pop())
            if reason:
                unusable[name] = reason
    except Exception:
        raise TableError(DAMAGED) from None
    return cells, unusable, ["The file is Parquet.", *notes]


def first_rows_of_parquet(source: Any, rows: int = 1000) -> bytes:
    """A small Parquet file of the first rows of a large one, of which the rest is not read."""
    try:
        source.seek(0)
        batch = next(parquet.ParquetFile(source).iter_batches(rows))
        file = io.BytesIO()
        parquet.write_table(pa.Table.from_batches([batch]), file)
    except Exception:
        raise TableError(DAMAGED) from None
    return file.getvalue()


def _is_text(t: pa.DataType) -> bool:
    return pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)


def from_arrow(column: pa.ChunkedArray) -> tuple[Cells, str]:
    """One Parquet column as numbers, times or words, or the reason why it is none of these."""
    t = column.type
    if pa.types.is_dictionary(t):
        t = t.value_type
    if pa.types.is_boolean(t) or _is_text(t):
        text = pc.cast(column, pa.string())
        return words(text.combine_chunks()).dictionary_encode(), ""
    if pa.types.is_integer(t):
        column = pc.cast(column, t)
        x = pc.cast(column, pa.float64(), safe=False).combine_chunks()
        x = x.to_numpy(zero_copy_only=False)
        if np.nanmax(np.abs(x), initial=0.0) >= WHOLE:
            return pc.cast(column, pa.string()).combine_chunks().dictionary_encode(), ""
        return x, ""
    if pa.types.is_floating(t) or pa.types.is_decimal(t) or pa.types.is_null(t):
        x = pc.cast(pc.cast(column, t), pa.float64(), safe=False).combine_chunks()
        return x.to_numpy(zero_copy_only=False).astype(np.float64), ""
    if pa.types.is_date(t) or pa.types.is_timestamp(t):
        moment = pc.cast(pc.cast(column, t), pa.timestamp("us", getattr(t, "tz", None)), safe=False)
        counts = pc.cast(moment, pa.int64()).combine_chunks()
        known = counts.is_valid().to_numpy(zero_copy_only=False)
        days = pc.fill_null(counts, 0).to_numpy(zero_copy_only=False).astype("M8[us]")
        return np.where(known, days, np.datetime64("NaT", "us")), ""
    return np.full(
        len(column), np.nan
    ), f"cells of type {visible(t)} are no numbers, dates or words"
