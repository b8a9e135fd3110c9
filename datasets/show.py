"""What a file holds, said on a terminal: `python -m datasets show FILE`."""

import os
import sys

from dgp_core.tables.table import TableError, read_table, report


def show(path: str | os.PathLike) -> int:
    """Print the report of any file; 0, or 2 and a sentence if there is no table in it."""
    try:
        print(report(read_table(path, limits=None)))
    except TableError as error:
        print(error, file=sys.stderr)
        return 2
    return 0
