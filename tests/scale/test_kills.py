"""kill -9 at any moment: `resume` ends bit for bit where the unbroken run does."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dgp_core import archive
from dgp_core.__main__ import main
from tests.core.test_main import ROOT, assert_same

pytestmark = pytest.mark.usefixtures("quick_compilation")

KILLS, STEPS = 20, 30_000

# A checkpoint after every chunk; at the write of one of them, half a file and the end.
PROGRAM = """
import os, signal, sys
from dgp_core.__main__ import main
from dgp_core.command import training

training.CHECKPOINT_SECONDS = 0.0
deadly, out, replace, writes = int(sys.argv[1]), sys.argv[2], os.replace, []

def dying(source, target):
    writes.extend([target] if str(target) == out else [])
    if str(target) == out and len(writes) == deadly:
        os.truncate(source, os.path.getsize(source) // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)

os.replace = dying
sys.exit(main(sys.argv[3:]))
"""


@pytest.fixture
def rows(tmp_path) -> Path:
    """A file sorted by its first column, with a category and a few missing cells."""
    rng, n = np.random.default_rng(0), 600
    x = np.sort(rng.uniform(-2, 2, n))
    kind = rng.choice(["a", "b", "c"], n)
    frame = pd.DataFrame({"x": x, "kind": kind, "y": np.sin(2 * x) + (kind == "a")})
    frame.loc[rng.permutation(n)[:80], "x"] = np.nan
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def fit(rows: Path, out: Path, streamed: bool, steps: int) -> list[str]:
    words = ["fit", str(rows), "--target=y", "--layers=2", "--inducing=5", "--minibatch=32"]
    return [*words, f"--steps={steps}", f"--out={out}", *["--stream"] * streamed]


def begun(words: list[str], out: Path, deadly: int = 0) -> subprocess.Popen:
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
    command = [sys.executable, "-c", PROGRAM, str(deadly), str(out), *words]
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=nowhere, stderr=nowhere)


def test_a_run_killed_while_it_writes_a_checkpoint_goes_on_bit_for_bit(rows, tmp_path, capsys):
    whole, broken, log = (tmp_path / name for name in ("whole.npz", "broken.npz", "log.jsonl"))
    killed = begun(fit(rows, broken, True, 90), broken, deadly=3)
    assert killed.wait(timeout=300) == -signal.SIGKILL
    assert len(list(tmp_path.glob(".broken.npz.*.part"))) == 1
    assert 0 < archive.load(broken).progress.steps < 90
    assert main(fit(rows, whole, True, 90)) == 0
    assert main(["resume", str(broken), f"--log={log}"]) == 0
    assert_same(archive.load(broken), archive.load(whole))
    # The shuffled rows were made once, by the process that was killed.
    assert "reading" not in capsys.readouterr().err
    (line,) = map(json.loads, log.read_text().splitlines())
    bound = archive.load(whole).progress
    fit_, kl = np.concatenate(bound.fit), np.concatenate(bound.kl)
    assert line["step"] == line["steps"] == 90
    assert line["bound"] == pytest.approx(line["fit"] - sum(line["kl"]))
    assert line["fit"] == pytest.approx(fit_[-100:].mean()) and len(line["kl"]) == 2
    np.testing.assert_allclose(line["kl"], kl[-100:].mean(0))
    assert line["held_out"]["rmse"] > 0 and line["rows_per_second"] > 0
    assert line["peak_memory_mb"] > 50 and line["seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "in memory"])
def test_twenty_kills_at_random_moments(rows, tmp_path, streamed):
    """Most of them soon after a checkpoint, some before the first one."""
    chance, steps = random.Random(1), STEPS
    whole, broken = tmp_path / "whole.npz", tmp_path / "broken.npz"
    assert begun(fit(rows, whole, streamed, steps), whole).wait(timeout=900) == 0
    words, places = fit(rows, broken, streamed, steps), []
    for kill in range(KILLS):
        process, seen = begun(words, broken), set()
        # A process writes what it has before it trains; the next write is a checkpoint.
        while process.poll() is None and len(seen) < (3 if kill % 5 else 1 + (kill == 0)):
            seen.add(broken.stat().st_mtime_ns if broken.exists() else 0)
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 1.0))
        process.kill()
        process.wait()
        places.append(archive.load(broken).progress.steps)
        words = ["resume", str(broken)]
    assert places == sorted(places) and len(set(places)) > KILLS // 3
    assert begun(words, broken).wait(timeout=900) == 0
    assert_same(archive.load(broken), archive.load(whole))
