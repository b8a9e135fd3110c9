"""The suite's common ground: no silent broadcasting, fixed seeds, and the larger data sets."""

import gc
import hashlib
import os
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from dgp_core.training import compile_cache

# (N,) against (N, 1) is an error, not an (N, N) matrix.
jax.config.update("jax_numpy_rank_promotion", "raise")

# XLA writes its loops by its older way, in half the time; they run as fast. Servers and processes
# that tests start hear of it by the environment, and this one before it compiles anything.
FLAG = "--xla_cpu_use_fusion_emitters=false"
if FLAG not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}".strip()

# One thread a process for XLA: several processes share the cores already, small steps take a third
# less time, and no number changes.
os.environ.setdefault("NPROC", "1")

# Programs that were compiled once serve the suite's other processes, and later runs of it: workers
# and the tests' servers hear of the folder by the environment. JAX's own keys leave out what the
# processor can do.
if not jax.config.jax_compilation_cache_dir:
    machine = hashlib.sha256("\0".join(compile_cache.processor()).encode()).hexdigest()[:16]
    folder = compile_cache.cache_folder().parent / "tests" / machine
    compile_cache.thin(folder.parent)
    if compile_cache.remember_compilations(folder):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

settings.register_profile("suite", derandomize=True, deadline=None)
settings.load_profile("suite")

FILES_AND_CLASSES = (
    "browser/test_your_data.py",
    "browser/test_other_scripts.py",
    "browser/test_lessons_6_to_10.py",
    "browser/test_two_processes.py",
)
"""Half of the browser's tests, by their time: they have a server and a Chromium of their own."""

LONGEST = (
    "browser",
    "browser, files and classes",
    "pages/test_lessons_6_to_10.py",
    "core/test_estimator.py",
    "live/test_live.py",
    "training/test_generic.py",
    "core/test_main.py",
    "pages/test_other_pages.py",
    "pages/test_lesson_links.py",
    "core/test_archive.py",
    "pages/test_lessons_1_to_5.py",
    "gp/test_model.py",
)
"""What takes longest: one process runs all of a file, or of half of the browser's folder."""

SHARED_DATA = Path(__file__).parents[1].parent / "shared" / "data"


def unit(nodeid: str) -> str:
    """What one process runs: a file, or half of the browser's folder, which shares a server."""
    file = nodeid.split("::")[0].removeprefix("tests/")
    if file in FILES_AND_CLASSES:
        return "browser, files and classes"
    return "browser" if file.startswith("browser/") else file


class Units(LoadFileScheduling):
    """Hands out whole units."""

    def _split_scope(self, nodeid: str) -> str:
        return unit(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """One process more than there are cores: those with a browser wait for much of their time."""
    return min(4, 1 + (os.cpu_count() or 1))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log) -> Units:
    return Units(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins with what takes longest, so that processes that share the suite end together."""
    order = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(unit(item.nodeid), len(LONGEST)))


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def fixed_seed():
    """Code that draws from NumPy's global state draws the same in every run."""
    np.random.seed(0)


@pytest.fixture(scope="module", autouse=True)
def programs_of_a_module():
    """Lets compiled programs go with their module: thousands of them are more than XLA bears."""
    yield
    jax.clear_caches()
    gc.collect()


@pytest.fixture(scope="module")
def quick_compilation():
    """Compiles in half the time: for tests of many small functions that each run a few times."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="module")
def what_is_compiled_stays():
    """Fits leave to the next ones what was compiled for them: in a file of tests they are alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dgp_core.live.workshop.MOST_BESIDE", 100_000)
        yield


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of larger data sets beside the project."""
    if not SHARED_DATA.is_dir():
        pytest.skip("the larger data sets (../shared/data) are not on this machine")
    return SHARED_DATA
