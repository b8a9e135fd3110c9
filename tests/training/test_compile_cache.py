"""Compilations are kept in a folder, found there again, and never a reason to fail."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.monitoring
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

from dgp_core.training import compile_cache
from dgp_core.training import programs as programs_module
from dgp_core.training.compile_cache import cache_folder, remember_compilations
from dgp_core.training.compilers import _Compiler
from dgp_core.training.generic import Size
from dgp_core.training.programs import BUILDERS, UNUSED_SECONDS, Program, Programs, programs
from dgp_core.training.slim import slim

SETTINGS = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


@pytest.fixture
def settings_back():
    """Leaves JAX as it was."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def fresh():
    """The same program each time, and each time unknown to the process."""

    def some_program(x):
        return jnp.sin(x) @ x.T

    return jax.jit(some_program)


def test_a_compilation_is_kept_and_found_again(tmp_path, settings_back):
    hits = []

    def listen(event, **_):
        hits.extend([event] * event.endswith("cache_hits"))

    jax.monitoring.register_event_listener(listen)
    try:
        assert remember_compilations(tmp_path / "new") == tmp_path / "new"
        jax.config.update(SETTINGS[1], 0.0)
        x = jnp.ones((3, 3))
        hits.clear()
        first = fresh()(x)
        files = {file.name for file in (tmp_path / "new").iterdir()}
        assert any("some_program" in name for name in files) and not hits
        assert (fresh()(x) == first).all()
        assert len(hits) == 1
    finally:
        jax.monitoring.unregister_event_listener(listen)


def test_a_stored_program_is_whole_though_jax_has_it_in_its_cache(tmp_path, settings_back):
    programs()  # knows its builders
    remember_compilations(tmp_path / "jax")
    jax.config.update(SETTINGS[1], 0.0)
    ready = Program("ready", Size(25, 1, 1, False, 1, 1, 0, 0))
    zeros = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), BUILDERS["ready"](ready.size).arguments
    )
    for folder in ("first", "second"):
        own = Programs(tmp_path / folder)
        own.store(ready)
        jax.block_until_ready(Programs(tmp_path / folder).get(ready)(*zeros))
        (file,) = (tmp_path / folder).rglob("*.program")
        assert slim(file.read_bytes()) == file.read_bytes()


def test_compilers_store_programs_that_are_slim(tmp_path):
    programs()  # knows its builders
    ready, served = Program("ready", Size(25, 1, 1, False, 1, 1, 0, 0)), threading.Event()
    own = Programs(tmp_path)
    own.employ([ready], served.set)
    try:
        assert served.wait(120) and own.known(ready)
        (file,) = tmp_path.rglob("*.program")
        assert slim(file.read_bytes()) == file.read_bytes()
    finally:
        own.stop()


def test_compilers_stand_back_for_a_run_that_begins_and_go_on_after_it(tmp_path, monkeypatch):
    programs()  # knows its builders
    hold, held_last = _Compiler.hold, {}

    def note(compiler, held):
        held_last[compiler] = held
        hold(compiler, held)

    monkeypatch.setattr(_Compiler, "hold", note)
    size, served = Size(25, 1, 1, False, 1, 1, 0, 0), threading.Event()
    nobodys, wanted = Program("marginals", size), Program("ready", size)
    own = Programs(tmp_path)
    own.employ([], served.set)
    try:
        own.stand_back(True)
        own.prefetch(nobodys)
        own.request([wanted])
        assert served.wait(120) and own.known(wanted)
        assert held_last and all(held_last.values()) and not own.known(nobodys)
        served.clear()
        own.stand_back(False)
        assert served.wait(120) and own.known(nobodys)
    finally:
        own.stop()


def test_an_idle_program_stays_for_a_while_and_longer_where_no_other_is_in_use():
    own, now = Programs(None), time.monotonic()
    size = Size(25, 1, 1, False, 1, 1, 0, 8192)
    wide = Size(25, 16, 16, True, 1, 1, 0, 8192)
    ours, other = Program("train", size), Program("train", wide)
    picture = Program("ready", wide.of_layers)

    def left(since: float, ours_since: float) -> set[Program]:
        """What is still loaded, where the others were last used so long ago."""
        for program, used in ((other, since), (picture, since), (ours, ours_since)):
            own._loaded[program] = (print, now - used)
        own.tidy()
        return set(own._loaded)

    assert left(UNUSED_SECONDS / 2, 0.0) == {ours, other, picture}
    assert left(UNUSED_SECONDS + 1, 0.0) == {ours}
    del own._loaded[ours]
    own._loaded[other] = (print, now - UNUSED_SECONDS - 1)
    own.tidy()
    assert set(own._loaded) == {other}


def test_nothing_is_kept_by_an_import_alone():
    assert jax.config.jax_compilation_cache_dir == os.environ.get("JAX_COMPILATION_CACHE_DIR")


def test_the_folder_is_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "dgp-lab" / "compiled"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for ignored in ("", "not/absolute"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache_folder() == tmp_path / "home" / ".cache" / "dgp-lab" / "compiled"


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path, settings_back):
    before = jax.config.jax_compilation_cache_dir
    (tmp_path / "file").write_text("in the way")
    assert remember_compilations(tmp_path / "file" / "below") is None
    assert jax.config.jax_compilation_cache_dir == before


def test_the_oldest_files_go_when_the_folder_is_full(tmp_path, settings_back, monkeypatch):
    monkeypatch.setattr(compile_cache, "MOST_BYTES", 25)
    for age, name in enumerate(["new", "middle", "old"]):
        (tmp_path / name).write_bytes(b"0123456789")
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    remember_compilations(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["middle", "new"]


def test_threads_that_ask_at_once_get_the_same_programs(monkeypatch):
    """Else a server's compilers may belong to one that nobody else knows, and stand idle."""
    made, together = [], threading.Barrier(8)

    def slowly():
        made.append(time.sleep(0.05))

    def ask(_):
        together.wait(60)
        return programs()

    monkeypatch.setattr(programs_module, "_own", None)
    monkeypatch.setattr(programs_module, "default_folder", slowly)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(ask, range(8)))
    assert len(set(map(id, found))) == len(made) == 1
