"""How far training has come, on stderr."""

import sys
from collections.abc import Callable

import numpy as np
from tqdm import tqdm

from dgp_core.training.optimise import TrainState
from dgp_core.training.train import Progress

LOG_SECONDS = 5.0
"""How often a line is written where stderr is no terminal."""


class ProgressBar:
    """Steps, their pace, the bound and the time left: a bar on a terminal, else now and then."""

    def __init__(self, steps: int, taken: int = 0, shown: bool = True):
        self.tqdm = tqdm(
            total=steps,
            initial=taken,
            unit="step",
            disable=not shown,
            file=sys.stderr,
            mininterval=0.1 if sys.stderr.isatty() else LOG_SECONDS,
        )

    def __enter__(self) -> "ProgressBar":
        return self

    def on_chunk(self, state: TrainState, progress: Progress) -> None:
        message = progress.stopped or f"bound {np.mean(progress.bound[-100:]):,.1f}"
        self.tqdm.set_postfix_str(message, refresh=False)
        self.tqdm.update(progress.steps - self.tqdm.n)

    def __exit__(self, *_) -> None:
        self.tqdm.close()


class PassBar:
    """A pass over a large file, with the time left."""

    def __init__(self):
        self.tqdm: tqdm | None = None

    def __enter__(self) -> "PassBar":
        return self

    def begin(self, what: str, total: int, unit: str = "row") -> Callable[[int], None]:
        """A new bar; what it returns is called with how much is done."""
        self.__exit__()
        bar = self.tqdm = tqdm(
            desc=what, total=total, unit=unit, unit_scale=True, file=sys.stderr,
            mininterval=0.1 if sys.stderr.isatty() else LOG_SECONDS,
        )  # fmt: skip

        def done(n: int) -> None:
            if bar.total is not None and n > bar.total:
                bar.total = n  # it was an estimate
            bar.update(n - bar.n)

        return done

    def __exit__(self, *_) -> None:
        if self.tqdm is not None:
            self.tqdm.close()
