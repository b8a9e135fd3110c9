"""One sheet of an Excel workbook as CSV text, so that all else about it is decided as for CSV."""

import csv
import datetime
import io
import warnings
import zipfile

from dgp_core.tables.limits import Limits, TableError, too_large
from dgp_core.tables.plain import visible

DAMAGED = "This Excel workbook is damaged or protected: save it again, or save the sheet as CSV."


def is_workbook(data: memoryview) -> bool:
    """Whether a zip archive is an Excel workbook."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return "xl/workbook.xml" in archive.namelist()
    except (zipfile.BadZipFile, ValueError):
        return False


def sheet_as_csv(
    data: memoryview, limits: Limits | None, sheet: str | None = None
) -> tuple[memoryview, str, tuple[str, ...]]:
    """The first sheet (or the named one) as CSV in UTF-8, its name, and the names of all sheets.

    Formulas give the value that was stored with them, dates are written as in ISO 8601.
    """
    if limits:
        _check_parts(data, limits)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # parts of a workbook that are no cells
            from openpyxl import load_workbook  # seldom needed, and large

            book = load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
            names = tuple(worksheet.title for worksheet in book.worksheets)
            if sheet is not None and sheet not in names:
                listed = ", ".join(f"“{visible(name)}”" for name in names[:20])
                raise TableError(f"There is no sheet “{visible(sheet)}”: choose from {listed}.")
            if not names:
                raise TableError("This Excel workbook has no sheet of cells: save it as CSV.")
            chosen = sheet or names[0]
            return _as_csv(book[chosen], limits), chosen, names
    except TableError:
        raise
    except Exception:  # openpyxl has no error of its own for what it cannot read
        raise TableError(DAMAGED) from None


def _check_parts(data: memoryview, limits: Limits) -> None:
    """Raises TableError where a workbook's parts are too large, by the sizes that it states: more
    of a part than that is never unpacked."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts = [part for part in archive.infolist() if not part.filename.startswith("xl/media/")]
    cells = [p for p in parts if p.filename.startswith(("xl/worksheets/", "xl/sharedStrings"))]
    both = ((cells, limits.sheet_bytes), ([p for p in parts if p not in cells], limits.other_bytes))
    for some, most in both:
        if sum(part.file_size for part in some) > min(most, limits.bytes):
            raise too_large(f"more than {most:,} bytes once unpacked", most)


def _as_csv(worksheet, limits: Limits | None) -> memoryview:
    worksheet.reset_dimensions()  # the size that the file states may be wrong
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    cells = 0
    for n, row in enumerate(worksheet.iter_rows(values_only=True)):
        values = [_spelt(value) for value in row]
        while values and not values[-1]:
            values.pop()
        cells += len(row)
        if limits and len(values) > limits.columns:
            raise too_large(f"{len(values):,} columns", limits.columns)
        if limits and n > limits.rows:
            raise too_large(f"more than {limits.rows:,} rows", limits.rows)
        if limits and cells > limits.sheet_cells:
            most = limits.sheet_cells
            raise too_large(f"more than {most:,} cells in one sheet", most)
        writer.writerow(values)
    return memoryview(file.getvalue().encode())


def _spelt(value: object) -> str:
    """A cell's value as CSV spells it; a date at midnight without its time."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ").removesuffix(" 00:00:00")
    if isinstance(value, datetime.timedelta):
        return repr(value.total_seconds())
    return repr(value) if isinstance(value, float) else str(value)
