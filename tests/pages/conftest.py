"""For the tests of pages: many small models are compiled, and few steps are taken."""

import jax
import pytest

from dgp_core.live.run import Run


@pytest.fixture(scope="module", autouse=True)
def quick_compilation_of_pages(request):
    """Compiles in half the time, but where lessons train their models for thousands of steps."""
    quick = not request.module.__name__.rpartition(".")[2].startswith("test_lessons")
    jax.config.update("jax_disable_most_optimizations", quick)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture
def uncompiled(monkeypatch):
    """Runs of the pages stay as they are before compilation; measured runs are driven by hand."""
    monkeypatch.setattr(Run, "prepare", lambda run: None)
