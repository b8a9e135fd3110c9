"""For the tests of pages: many small models are compiled, and few steps are taken."""

from functools import partial

import jax
import pytest

from dgp_core.evaluation import boosting
from dgp_core.live import run, workshop
from dgp_core.live.run import Run
from pages.ui.stage import server
from tests.core.runs import by_chance


@pytest.fixture(scope="module", autouse=True)
def quick_compilation_of_pages(quick_compilation):
    """Compiles in half the time: even lessons' thousands of steps take less than a program does."""


@pytest.fixture
def whole_compilation(quick_compilation):
    """For steps that are so long that slow programs would cost more than quick compiling saves."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture(scope="module", autouse=True)
def fits_share_programs(what_is_compiled_stays):
    """What one fit of a file has had compiled serves the next."""


@pytest.fixture(scope="module", autouse=True)
def soon_idle():
    """Runs that a test has left do not train on beside the next ones for half a minute."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workshop, "IDLE_SECONDS", 3.0)
        yield


@pytest.fixture(scope="module", autouse=True)
def few_trees():
    """Gradient boosting of 10 trees, not 100: it is fitted for every quantile of every fold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "_trees", partial(boosting._trees, max_iter=10))
        yield


@pytest.fixture(scope="module", autouse=True)
def stopped():
    """The server of a file's pages ends with it, and the runs that they have left."""
    yield
    server.stop()


@pytest.fixture
def uncompiled(monkeypatch):
    """Runs of the pages stay as they are before compilation; measured runs are driven by hand."""
    monkeypatch.setattr(Run, "prepare", lambda run: None)


@pytest.fixture(scope="module")
def moved_by_chance():
    """Runs of the pages go on without a compiled step: for what pages do, not what models learn."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "train_chunk", by_chance)
        yield
