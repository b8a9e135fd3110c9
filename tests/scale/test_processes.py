"""Several processes train one model, find one another, and end together."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from dgp_core import archive
from dgp_core.__main__ import main
from dgp_core.training.processes import Launch, LaunchError, busy, find_launch, wait_for_lead
from tests.scale import launch
from tests.scale.launch import ROOT, ends, environment, start

pytestmark = pytest.mark.usefixtures("quick_compilation")

OPTIONS = ["--target", "y", "--layers", "2", "--inducing", "5", "--minibatch", "33"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder, rng = tmp_path_factory.mktemp("processes"), np.random.default_rng(0)
    X = rng.normal(size=(103, 2))
    y = np.sin(X.sum(1)) + 0.1 * rng.normal(size=len(X))
    rows = np.c_[X, y]
    np.savetxt(folder / "DATA.csv", rows, delimiter=",", header="a,b,y", comments="")
    np.save(folder / "rows.npy", rows)
    return folder


@pytest.fixture(scope="module")
def alone(folder) -> Path:
    """What one process makes of it in 100 steps."""
    return fitted(folder, "alone.npz")


def fitted(folder: Path, name: str, *more: str) -> Path:
    out = folder / name
    assert main(fit(folder, out, *more)) == 0
    return out


def fit(folder: Path, out: Path, *more: str) -> list[str]:
    return ["fit", str(folder / "DATA.csv"), *OPTIONS, "--steps=100", *more, f"--out={out}"]


def assert_same_run(one: Path, other: Path) -> None:
    a, b = archive.load(str(one)), archive.load(str(other))
    assert a.progress.steps == b.progress.steps
    np.testing.assert_allclose(a.progress.bound, b.progress.bound, rtol=1e-6)
    for x, y in zip(*(ravel_pytree(r.state.model)[:1] for r in (a, b)), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-6)


def test_two_processes_by_the_line_of_the_readme(folder, alone):
    """The line itself, with this test's file and settings."""
    readme = (ROOT / "README.md").read_text("utf-8")
    [line] = re.findall(r"^for i in .*JAX_PROCESS_ID.*$", readme, re.MULTILINE)
    command = " ".join(fit(folder, folder / "model.npz"))
    line, changed = re.subn(r"fit DATA\.csv .*?--out model\.npz", command, line)
    assert changed == 1
    line = line.replace(".venv/bin/python", sys.executable)
    line = re.sub(r"localhost:\d+", f"localhost:{launch.free_port()}", line)
    done = subprocess.run(
        ["sh", "-c", line], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("rmse") == 1 and "Gloo" not in done.stdout  # one speaks for all
    assert done.stderr.count("The model is in") == 1
    assert_same_run(alone, folder / "model.npz")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "variables"),
    [
        (4, launch.by_hand),
        (2, launch.slurm),
        (2, launch.kubernetes),
        (2, launch.open_mpi_4),
        (2, launch.open_mpi_5),
        (2, launch.mpich),
    ],
)
def test_the_same_command_under_each_launcher(folder, alone, n, variables):
    out = folder / f"{variables.__name__}.npz"
    said = ends(start(n, variables, *fit(folder, out)))
    assert [code for code, *_ in said] == [0] * n, said
    assert_same_run(alone, out)


@pytest.mark.slow
@pytest.mark.parametrize("more", [["--minibatch=all"], ["--minibatch=2"]])
def test_all_rows_and_fewer_rows_than_processes(folder, more):
    expected = fitted(folder, "one.npz", *more)
    said = ends(start(4, launch.by_hand, *fit(folder, folder / "four.npz", *more)))
    assert [code for code, *_ in said] == [0] * 4, said
    assert_same_run(expected, folder / "four.npz")


@pytest.mark.slow
def test_a_file_in_parts(folder):
    def streamed(out: Path) -> list[str]:
        words = ["--target=column 3", *OPTIONS[2:], "--steps=100", f"--out={out}"]
        return ["fit", str(folder / "rows.npy"), *words]

    assert main(streamed(folder / "parts.npz")) == 0
    said = ends(start(2, launch.by_hand, *streamed(folder / "two.npz")))
    assert [code for code, *_ in said] == [0, 0], said
    assert_same_run(folder / "parts.npz", folder / "two.npz")


@pytest.mark.slow
def test_the_first_process_shuffles_and_the_others_wait(folder):
    np.save(folder / "fresh.npy", np.load(folder / "rows.npy"))

    def streamed(out: str) -> list[str]:
        words = ["--target=column 3", *OPTIONS[2:], "--steps=20", f"--out={folder / out}"]
        return ["fit", str(folder / "fresh.npy"), *words]

    said = ends(start(3, launch.by_hand, *streamed("three.npz")))
    assert [code for code, *_ in said] == [0] * 3, said
    # Whoever reads the file, or measures it, shows a bar.
    assert [("reading" in text, "measuring" in text) for _, _, text in said] == [
        (True, True),
        (False, False),
        (False, False),
    ]
    assert [f.name for f in folder.glob("*fresh.npy.*")] == ["fresh.npy.shuffled"]
    assert main(streamed("after.npz")) == 0
    assert_same_run(folder / "three.npz", folder / "after.npz")


@pytest.mark.slow
def test_the_others_wait_for_longer_than_a_collective_may(tmp_path):
    """With five seconds in the place of XLA's half an hour."""
    script = tmp_path / "wait.py"
    script.write_text(
        "import time\n"
        "from dgp_core.training import processes\n"
        "processes.BUSY_SECONDS = 1.0\n"
        "processes.join()\n"
        "with processes.lead_first():\n"
        "    if processes.is_lead():\n"
        "        time.sleep(12)\n"
        "print(time.time())\n"
    )
    port, flags = launch.free_port(), os.environ.get("XLA_FLAGS", "")
    started = [
        subprocess.Popen(
            [sys.executable, str(script)],
            cwd=ROOT,
            env=environment(
                **launch.by_hand(i, 2, port),
                XLA_FLAGS=f"{flags} --xla_cpu_collective_timeout_seconds=5",
                PYTHONPATH=str(ROOT),
            ),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    said = ends(started, 120)
    assert [code for code, *_ in said] == [0, 0], said
    times = [float(text.splitlines()[-1]) for _, text, _ in said]
    assert abs(times[0] - times[1]) < 5


class TwoProcesses:
    """Collectives of two threads, in the place of two processes'."""

    def __init__(self):
        self.barrier, self.given = threading.Barrier(2, timeout=30), {}
        self.calls = 0

    def least(self, *numbers: int) -> list[int]:
        self.given[threading.current_thread().name == "waiter"] = numbers
        self.barrier.wait()
        found = [min(both) for both in zip(*self.given.values(), strict=True)]
        self.calls += self.barrier.wait() == 0
        return found


def test_who_waits_goes_on_once_the_first_is_done_and_not_before(monkeypatch):
    monkeypatch.setattr("dgp_core.training.processes.BUSY_SECONDS", 0.01)
    pair, order = TwoProcesses(), []

    def wait() -> None:
        wait_for_lead(pair)  # type: ignore[arg-type]
        order.append("waiter")

    waiter = threading.Thread(target=wait, name="waiter")
    waiter.start()
    with pytest.raises(OSError), busy(pair):  # type: ignore[arg-type]
        while pair.calls < 3:  # it is told so again and again
            time.sleep(0.005)
        order.append("first")
        raise OSError("full")
    waiter.join()
    assert order == ["first", "waiter"]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 2])
def test_one_of_four_is_killed_and_another_number_goes_on(folder, victim):
    out = folder / f"killed-{victim}.npz"
    processes = start(4, launch.by_hand, *fit(folder, out, "--steps=100000"))
    wait_for(processes, r"bound")
    processes[victim].kill()
    began = time.monotonic()
    said = ends(processes, 60)
    assert time.monotonic() - began < 30
    for i, (code, _, text) in enumerate(said):
        if i == victim:
            assert code == -signal.SIGKILL
        else:
            assert code == 1 and "another one has ended" in text, text
            assert f"Process {i + 1} of 4" in text and "Traceback" not in text
    kept = archive.load(str(out))
    assert victim == 0 or kept.progress.steps > 0  # the first process saved what was learnt

    alone, steps = folder / f"alone-{victim}.npz", f"--steps={kept.progress.steps + 50}"
    shutil.copy(out, alone)
    assert main(["resume", str(alone), steps]) == 0
    assert [code for code, *_ in ends(start(2, launch.by_hand, "resume", str(out), steps))] == [
        0,
        0,
    ]
    assert_same_run(alone, out)


@pytest.mark.slow
def test_a_signal_to_one_process_ends_all_and_saves(folder):
    out = folder / "signal.npz"
    processes = start(2, launch.by_hand, *fit(folder, out, "--steps=100000"))
    wait_for(processes, r"bound")
    processes[1].send_signal(signal.SIGTERM)
    said = ends(processes, 60)
    assert [code for code, *_ in said] == [128 + signal.SIGTERM] * 2, said
    assert "after SIGTERM" in said[0][2]
    assert 0 < archive.load(str(out)).progress.steps < 100000


@pytest.mark.slow
def test_processes_with_other_settings_are_refused(folder):
    words, port = fit(folder, folder / "other.npz"), launch.free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "dgp_core", *words, f"--seed={i}"],
            cwd=ROOT,
            env=environment(**launch.by_hand(i, 2, port)),
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(2)
    ]
    for code, _, text in ends(processes, 120):
        assert code == 2 and "not given the same rows and settings" in text


def wait_for(processes: list[subprocess.Popen], pattern: str) -> None:
    """Reads what the first process says until it says this."""
    stream, text = processes[0].stderr, ""
    assert stream is not None
    while not re.search(pattern, text):
        part = os.read(stream.fileno(), 4096).decode()
        assert part, text
        text += part


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (launch.by_hand, Launch("By hand", 1, 4, "localhost:4000")),
        (launch.kubernetes, Launch("Kubernetes", 1, 4, "localhost:4000")),
        (launch.slurm, Launch("Slurm", 1, 4, None)),
        (launch.open_mpi_4, Launch("Open MPI", 1, 4, None)),
        (launch.open_mpi_5, Launch("Open MPI", 1, 4, "localhost:4000")),
        (launch.mpich, Launch("MPICH", 1, 4, "localhost:4000")),
    ],
)
def test_a_launcher_is_known_by_its_variables(variables, expected):
    given = variables(1, 4, 4000)
    assert find_launch(given) == expected
    assert find_launch({**slurm_script(), **given}) == expected  # mpirun inside a job
    assert find_launch(variables(0, 1, 4000)) is None


def slurm_script() -> dict[str, str]:
    """What a job's script has before srun."""
    variables = launch.slurm(0, 4, 4000)
    del variables["SLURM_STEP_NODELIST"], variables["SLURM_STEP_NUM_NODES"]
    return variables


def test_processes_of_one_mpirun_choose_one_port():
    given = [launch.mpich(i, 2, 0) for i in range(2)]
    for variables in given:
        del variables["JAX_COORDINATOR_PORT"]
    addresses = {found.address for v in given if (found := find_launch(v))}
    assert len(addresses) == 1 and 61440 <= int(addresses.pop().rpartition(":")[2]) < 65536


def test_nothing_is_launched_without_a_launcher():
    assert find_launch({}) is None
    assert find_launch(slurm_script()) is None
    assert find_launch({"JOB_COMPLETION_INDEX": "3"}) is None  # pods that each fit their own file


@pytest.mark.parametrize(
    ("variables", "complaint"),
    [
        ({"JAX_PROCESS_ID": "x", "JAX_NUM_PROCESSES": "2"}, "JAX_PROCESS_ID is 'x'"),
        ({"JAX_PROCESS_ID": "2", "JAX_NUM_PROCESSES": "2"}, "numbered from 0"),
        ({"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"}, "set JAX_COORDINATOR_ADDRESS"),
        ({**launch.mpich(0, 4, 1), "MPI_LOCALNRANKS": "2"}, "set JAX_COORDINATOR_ADDRESS"),
        ({**launch.by_hand(0, 2, 1), "JAX_COORDINATOR_ADDRESS": "node1"}, "such as node1:61440"),
    ],
)
def test_what_a_launcher_leaves_out_is_asked_for(variables, complaint):
    with pytest.raises(LaunchError, match=re.escape(complaint)):
        find_launch(variables)


def test_a_taken_port_is_said_before_jax_would_crash(folder, monkeypatch, capsys):
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
        for name, value in launch.by_hand(0, 2, port).items():
            monkeypatch.setenv(name, value)
        assert main(fit(folder, folder / "never.npz")) == 2
    assert f"Port {port}" in capsys.readouterr().err and not (folder / "never.npz").exists()
