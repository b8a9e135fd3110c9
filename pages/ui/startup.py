"""The server's start and end: programs are compiled and modules loaded before anybody comes."""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
from streamlit.runtime.pages_manager import PagesManager
from threadpoolctl import threadpool_limits

from datasets import catalogue
from datasets.starts import film
from dgp_core.live.limits import PROCESS, SWITCH_SECONDS
from dgp_core.live.run import Run, size_programs
from dgp_core.live.views.mixture import mixture_at
from dgp_core.live.views.randomness import noise_view, row_alone
from dgp_core.live.workshop import Workshop, WorkshopError
from dgp_core.training.generic import INDUCING, SMALL_INPUTS, Size
from dgp_core.training.memory import limit_arenas
from dgp_core.training.programs import Program, programs
from pages.ui.choices import DATA, Choices
from pages.ui.session_end import end_sessions
from pages.ui.stage.guard import keep_uploads_in_memory
from pages.ui.stage.server import server, stop


def _rehearse(workshop: Workshop) -> None:
    """Has the run that anybody may watch, and computes its pictures before there is a visitor.

    Nobody waits for it: whoever comes meanwhile has the compilers first.
    """
    first = Choices()
    needed = Run(first.dataset, first.model, first.train).programs
    while programs().coming(p for p in needed if not programs().known(p)):
        if workshop.stopping or all(programs().known(p) for p in needed):
            break
        time.sleep(0.1)
    with suppress(WorkshopError):  # the server stops
        run_id, _ = workshop.start(first.dataset, first.model, first.train)
        run = workshop.watch(run_id)
        run.pause()
        workshop.public = run_id
        film(run.dataset.name)
        while run.latest is None and run.status != "failed" and not workshop.stopping:
            time.sleep(0.1)
            workshop.watch(run_id)
        if run.latest is not None:
            mixture_at(run, run.latest, np.median(run.dataset.X, 0))
            noise_view(run, run.latest)
            row_alone(run, run.latest, len(run.dataset) // 2)


def wanted() -> Iterator[Program]:
    """The programs of everything that the playground offers: what is one choice away from the start
    comes first, and images, which are slow to compile and to train, with other choices last."""
    names = sorted(DATA, key=lambda name: catalogue.entry(name).D or 0)
    choices = [Choices(data=name) for name in names]
    sizes = dict.fromkeys(Run(own.dataset, own.model, own.train).size for own in choices)
    classes = [
        size._replace(inducing=inducing, beside=beside)
        for size in sizes
        if size is not None
        for beside in ((False, True) if size.inputs == 1 else (size.beside,))
        for inducing in INDUCING
    ]

    def effort(size: Size) -> tuple[int, int]:
        away = (size.inducing > INDUCING[0]) + (size.beside and size.inputs == 1)
        return away * (1 + (size.inputs > SMALL_INPUTS[-1])), size.inputs

    for size in sorted(classes, key=effort):
        yield from size_programs(size)


def _prefetch(workshop: Workshop) -> None:
    """Has everything compiled before anybody asks for it; of several processes, by the first."""
    if PROCESS > 1:
        return
    for program in dict.fromkeys(wanted()):
        if workshop.stopping:
            return
        programs().prefetch(program)


def _load() -> None:
    """Imports what pages are made of, which would keep a first visitor waiting for two seconds."""
    import_module("pandas")  # Streamlit's components ask it what a data frame is
    root = Path(__file__).parents[2]
    for folder in ("ui", "figures"):
        for path in (root / "pages" / folder).rglob("*.py"):
            import_module(".".join(path.relative_to(root).with_suffix("").parts))


def leave_cores_to_training() -> None:
    """NumPy's BLAS gets one thread: several spin while they wait for each other, and training has
    the cores. Beside other work, lesson 4's priors took 7.9 s with two threads, 0.6 s with one."""
    threadpool_limits(1, user_api="blas")


@asynccontextmanager
async def lifespan(_app):
    """Loads everything before the first visitor comes, and ends every thread after the last."""
    # The folder pages/ is not Streamlit's own kind, whose scripts it would list by itself: said
    # before the first visit, which may go straight to a page.
    PagesManager.uses_pages_directory = False
    limit_arenas()
    sys.setswitchinterval(SWITCH_SECONDS)
    leave_cores_to_training()
    keep_uploads_in_memory()
    first = Choices()
    workshop = server().workshop
    # Compilers come before the first run: this process would compile for it otherwise.
    programs().employ(Run(first.dataset, first.model, first.train).programs, workshop.wake)
    workshop.employ(partial(_prefetch, workshop), "dgp-prefetch")
    workshop.employ(partial(_rehearse, workshop), "dgp-rehearse")
    _load()
    ending = asyncio.create_task(end_sessions(workshop.lighten))
    yield
    ending.cancel()
    stop()
    programs().stop()
