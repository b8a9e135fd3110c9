"""How far training has come, on stderr."""

import sys

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
