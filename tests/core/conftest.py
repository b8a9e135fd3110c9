"""For the tests of the core alone."""

import jax
import pytest


@pytest.fixture(scope="module")
def quick_compilation():
    """Compiles in half the time: for tests of many small functions that each run a few times."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
