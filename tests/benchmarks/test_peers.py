"""How a peer in an environment of its own is asked, and what is said where there is none."""

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import peers

FAKE = """
import sys
sys.path.insert(0, {folder!r})
from serve import serve

class Model:
    def prepare(self, X, Y, **settings):
        print("a library that chatters")
        self.n = settings["layers"]
    def steps(self, n):
        if n > 100:
            raise MemoryError
    def predict(self, X):
        return X.T + self.n, 0 * X.T + 1
    def parameters(self):
        return {{"Z_0": [[1.0]]}}
    def bound(self, p):
        return float(p["Z_0"].sum())

serve(Model())
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    (tmp_path / "fake.py").write_text(FAKE.format(folder=str(peers.MODELS)))
    monkeypatch.setitem(peers.LIBRARIES, "fake", (Path(sys.executable), "fake.py"))
    monkeypatch.setattr(peers, "MODELS", tmp_path)
    with peers.libraries(["fake"], tmp_path) as (one,):
        yield one


def test_a_library_answers_whatever_it_prints_and_its_end_is_said(library, tmp_path):
    data = tmp_path / "rows.npz"
    np.savez(data, X=np.arange(3.0)[:, None], Y=np.zeros((3, 1)))
    assert library.ask("prepare", data=data, layers=2) == {}
    assert library.ask("steps", n=1)["seconds"] >= 0
    mixture = library.predict(data)
    assert mixture.means.shape == (1, 3, 1) and mixture.means[0, :, 0].tolist() == [2.0, 3.0, 4.0]
    library.ask("parameters", out=tmp_path / "p.npz")
    assert library.ask("bound", parameters=tmp_path / "p.npz") == {"bound": 1.0}
    assert library.ask("peak")["mb"] > 1
    with pytest.raises(RuntimeError, match="fake ended while it was asked for steps"):
        library.ask("steps", n=101)


def test_an_environment_that_is_not_there_has_a_sentence(tmp_path, monkeypatch):
    nowhere = tmp_path / ".venv-peers-none" / "bin" / "python"
    monkeypatch.setitem(peers.LIBRARIES, "none", (nowhere, "none.py"))
    with pytest.raises(SystemExit, match=r"no \.venv-peers-none: `make peers` builds it"):
        peers.Library("none", tmp_path)


def test_workloads_are_those_of_the_benchmark_of_speed(tmp_path):
    with np.load(peers.workload("C", tmp_path)) as file:
        assert file["X"].shape == (100, 1) and file["Y"].shape == (100, 1)
