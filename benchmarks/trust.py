"""Whether models are right, and honest, on data that are not toys: a figure and an aim per case.

    python -m benchmarks.trust [--only counts,streams] [--json FILE]

The cases are the modules of `benchmarks/trusted/`.
"""

import argparse
import time
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from benchmarks import trusted
from benchmarks.report import print_table, write_rows


def main() -> None:
    for module in iter_modules(trusted.__path__):
        import_module(f"{trusted.__name__}.{module.name}")
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", help=f"some of {', '.join(trusted.CASES)}, separated by commas")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else list(trusted.CASES)
    if unknown := [name for name in wanted if name not in trusted.CASES]:
        parser.error(f"no case {', '.join(unknown)}: choose from {', '.join(trusted.CASES)}")
    rows = []
    for name in wanted:
        began = time.perf_counter()
        own = []
        for found in trusted.CASES[name]():
            own.append(found)
            if args.json:  # after every row: what was measured is not lost
                write_rows(args.json, rows + own)
        print(f"{name}: {time.perf_counter() - began:.0f} s")
        print_table(own)
        rows += own
    missed = [row["case"] for row in rows if row["met"] is False]
    print(f"{len(missed)} of {len(rows)} missed" + (f": {'; '.join(missed)}" if missed else ""))


if __name__ == "__main__":
    main()
