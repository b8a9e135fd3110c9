"""Without a screen: fit a model to a file, predict, score, and go on with training.

    python -m dgp_core fit DATA.csv --target y --out model.npz
    python -m dgp_core predict model.npz NEW.csv --out predictions.csv
    python -m dgp_core score model.npz TEST.csv
    python -m dgp_core resume model.npz

Files are read, and models written, as the app does it: what one saves, the other opens.
"""

import signal
import sys

from dgp_core.archive import ArchiveError
from dgp_core.command import actions
from dgp_core.command.arguments import parser
from dgp_core.command.files import Refused
from dgp_core.tables.table import TableError
from dgp_core.training import processes
from dgp_core.training.devices import ProcessLost
from dgp_core.training.rows import RowsError


def main(words: list[str] | None = None) -> int:
    """Does what the command line asks; the exit code is 0, 1 where another process is lost, 2
    after a refusal, 128 + a signal."""
    args = parser().parse_args(words)
    try:
        if args.command in (actions.fit, actions.resume):
            processes.join()
        return args.command(args)
    except (Refused, TableError, RowsError, ArchiveError, processes.LaunchError) as error:
        print(error, file=sys.stderr)
        return 2
    except ProcessLost as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped before there was anything to save.", file=sys.stderr)
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
