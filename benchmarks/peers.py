"""Against GPyTorch and GPflow/GPflux, in the same run: speed, quality, start, memory, numbers.

    make peers                                     # builds their environments, and runs all of it
    python -m benchmarks.peers --only numbers,steps --workloads C --json FILE
    python -m benchmarks.peers --only targets --data DIR --sets energy --limit 60 --json FILE

    numbers   our bound at a peer's parameters is the peer's, and a peer's at ours is ours
    steps     ms a step on `benchmarks.speed`'s A, B and C: Adam on everything, float64, one sample
    targets   seconds of training until held-out log-likelihood reaches the paper's figures
    first     seconds from starting Python to the end of a first step
    memory    the process's peak

Every library is a process in its own environment; they take turns, a slice of steps each, so that
whatever else the machine does meets all of them. With `--json`, rows of other parts stay.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.paper import load
from benchmarks.report import ROOT, print_table, provenance, write_rows
from benchmarks.speed import WORKLOADS
from datasets.printed import printed
from dgp_core.evaluation.scores import log_likelihood
from dgp_core.gp.data import Scaler, counted, split
from dgp_core.gp.mixture import Mixture

MODELS = Path(__file__).parent / "peer_models"
LIBRARIES = {
    "ours": (Path(sys.executable), "ours.py"),
    "gpytorch": (ROOT / ".venv-peers-torch" / "bin" / "python", "gpytorch_model.py"),
    "gpflux": (ROOT / ".venv-peers-tf" / "bin" / "python", "gpflux_model.py"),
}
"""Each library's Python, and its model; "gpflux" is GPflow's SVGP where there is one layer."""

SLICE = 100
"""Steps between two looks at the held-out rows."""


class Library:
    """A library's process, and what it is asked."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str] | None = None):
        python, file = LIBRARIES[name]
        if not python.is_file():
            raise SystemExit(f"There is no {python.parent.parent.name}: `make peers` builds it.")
        self.name, self.folder = name, folder
        self.process = subprocess.Popen(
            [str(python), str(MODELS / file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT) if name == "ours" else ""}
            | (environment or {}),
        )

    def ask(self, what: str, **arguments) -> dict:
        """One request, and its answer."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"ask": what, **arguments}, default=str) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended while it was asked for {what}.")
        return json.loads(line)

    def prepare(
        self,
        data: Path,
        layers: int,
        inducing: int,
        minibatch: int | None = None,
        natural: bool = False,
    ) -> None:
        """A model at its start values; Adam on every parameter, unless natural gradients do."""
        self.ask(
            "prepare",
            data=data,
            layers=layers,
            inducing=inducing,
            minibatch=minibatch,
            natural=natural,
            seed=0,
        )

    def predict(self, inputs: Path) -> Mixture:
        """The mixture of y at inputs, in standard units."""
        out = self.folder / f"{self.name}-predicted.npz"
        self.ask("predict", data=inputs, out=out)
        with np.load(out) as file:
            return Mixture(file["mean"][..., None], file["variance"][..., None])

    def close(self) -> None:
        """Ends the process: no more requests will come."""
        assert self.process.stdin is not None and self.process.stdout is not None
        with suppress(BrokenPipeError):  # it has ended already
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


@contextmanager
def libraries(names: list[str], folder: Path) -> Iterator[list[Library]]:
    """Processes of these libraries, ended in the end."""
    with ExitStack() as stack:
        started = []
        for name in names:
            started.append(Library(name, folder))
            stack.callback(started[-1].close)
        yield started


def workload(name: str, folder: Path) -> Path:
    """The rows of one of `benchmarks.speed`'s workloads, in a file."""
    n_rows, width, *_ = WORKLOADS[name]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, width))
    Y = np.sin(X.sum(1, keepdims=True)) + 0.1 * rng.standard_normal((n_rows, 1))
    np.savez(folder / f"{name}.npz", X=X, Y=Y)
    return folder / f"{name}.npz"


# The same numbers.


def numbers(options: argparse.Namespace, folder: Path) -> Iterator[dict]:
    """Bounds of one model as two libraries compute them: one layer and two, both ways."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    Y = np.sin(2 * X[:, :1]) * X[:, 1:] + 0.1 * rng.standard_normal((80, 1))
    np.savez(folder / "rows.npz", X=X, Y=Y)
    eps = rng.standard_normal(X.shape)
    with libraries(["ours", "gpflux"], folder) as (ours, peer):
        for L, title in ((1, "GPflow's SVGP"), (2, "GPflux's two layers")):
            for owner in (peer, ours):
                owner.prepare(folder / "rows.npz", L, 15)
                owner.ask("steps", n=50)
                path = folder / "parameters.npz"
                owner.ask("parameters", out=path)
                with np.load(path) as file:
                    np.savez(path, **dict(file), X=X, Y=Y, eps_0=eps)
                first, second = (one.ask("bound", parameters=path)["bound"] for one in (ours, peer))
                off = abs(first - second) / max(1.0, abs(second))
                yield {
                    "what": f"{title} at {'its own' if owner is peer else 'our'} parameters",
                    "ours": first,
                    "peer": second,
                    "relative_difference": off,
                    "aim": "≤ 1e-8",
                    "met": off <= 1e-8,
                }


# Speed.


def steps(options: argparse.Namespace, folder: Path) -> Iterator[dict]:
    """The quickest of several slices of every library, which take turns."""
    for name in options.workloads.split(","):
        data = workload(name, folder)
        _, _, cases, n_steps = WORKLOADS[name]
        for L, M in cases if options.cases is None else cases[: options.cases]:
            best = {}
            with libraries(options.libraries, folder) as group:
                for one in group:
                    one.prepare(data, L, M)
                    one.ask("steps", n=min(n_steps, 3))
                    one.ask("steps", n=n_steps)
                for _ in range(options.rounds):
                    for one in group:
                        took = one.ask("steps", n=n_steps)["seconds"] / n_steps
                        best[one.name] = min(took, best.get(one.name, np.inf))
            peers = [seconds for lib, seconds in best.items() if lib != "ours"]
            row: dict = {"what": f"{name}, {counted(L, 'layer')}, M {M}"}
            row |= {f"{lib}_ms": round(1e3 * seconds, 3) for lib, seconds in best.items()}
            if peers and "ours" in best:
                times = min(peers) / best["ours"]
                row |= {"times_faster": round(times, 2), "aim": "≥ 3", "met": times >= 3}
            yield row


# Quality.


def targets(options: argparse.Namespace, folder: Path) -> Iterator[dict]:
    """Seconds of training, compilation included, until held-out rows score the paper's SGP, and its
    DGP 2 less 0.02."""
    if options.data is None:
        raise SystemExit("--data names the folder of .npz files that targets are measured on.")
    for name in options.sets.split(","):
        dataset = load(options.data, name)
        train_rows, test_rows = split(dataset, 0.9, 0)
        scaler = Scaler.fit(train_rows)
        rows = scaler(train_rows)
        data, inputs = folder / f"{name}.npz", folder / f"{name}-test.npz"
        np.savez(data, X=rows.X, Y=rows.Y)
        np.savez(inputs, X=scaler.inputs(test_rows.X))
        paper = printed(name, "loglik")
        for L, system, aim in (
            (1, "SGP", paper["sgp"].value),
            (2, "DGP 2", paper["dgp2"].value - 0.02),
        ):
            seconds = dict.fromkeys(options.libraries, 0.0)
            best = dict.fromkeys(options.libraries, -np.inf)
            reached: dict[str, float] = {}
            with libraries(options.libraries, folder) as group:
                for one in group:
                    one.prepare(
                        data, L, 100, minibatch=1000 if len(rows.X) > 1000 else None, natural=True
                    )
                while waiting := [
                    one
                    for one in group
                    if one.name not in reached and seconds[one.name] < options.limit
                ]:
                    for one in waiting:
                        seconds[one.name] += one.ask("steps", n=SLICE)["seconds"]
                        y = one.predict(inputs).affine(scaler.y_scale, scaler.y_mean)
                        best[one.name] = max(best[one.name], log_likelihood(y, test_rows.Y))
                        if best[one.name] >= aim:
                            reached[one.name] = seconds[one.name]
            row: dict = {"what": f"{name}: {system}'s {aim:.2f}"}
            row |= {f"{lib}_s": _rounded(reached.get(lib)) for lib in options.libraries}
            row |= {f"{lib}_best": round(best[lib], 3) for lib in options.libraries}
            row["limit_s"] = options.limit
            late: float = options.limit
            peers = [reached.get(lib, late) for lib in options.libraries if lib != "ours"]
            if "ours" in reached and peers:
                times = min(peers) / reached["ours"]
                row |= {"times_faster": round(times, 2), "aim": "≥ 5", "met": times >= 5}
            yield row


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)


# Start and memory.


def first(options: argparse.Namespace, folder: Path) -> Iterator[dict]:
    """From starting Python to the end of a first step: workload B, two layers; best of rounds."""
    data = workload("B", folder)
    cache = {"JAX_COMPILATION_CACHE_DIR": str(folder / "compiled")}
    ways: list[tuple[str, str, dict | None]] = [(name, name, None) for name in options.libraries]
    if "ours" in options.libraries:
        ways.append(("ours, compiled before", "ours", cache))
    best: dict[str, float] = {}
    for _ in range(options.rounds):
        for title, name, environment in ways:
            began = time.perf_counter()
            one = Library(name, folder, environment)
            one.prepare(data, 2, 100)
            one.ask("steps", n=1)
            took = time.perf_counter() - began
            one.close()
            best[title] = min(took, best.get(title, np.inf))
    seconds = {f"{title}_s": round(took, 2) for title, took in best.items()}
    yield {"what": "import to first step", **seconds}


def memory(options: argparse.Namespace, folder: Path) -> Iterator[dict]:
    """Each library's peak after some steps of two layers on A and B."""
    for name in options.workloads.split(","):
        data, M = workload(name, folder), WORKLOADS[name][2][0][1]
        row: dict = {"what": f"peak, {name}, 2 layers"}
        for library in options.libraries:
            with libraries([library], folder) as (one,):
                one.prepare(data, 2, M)
                one.ask("steps", n=10)
                row[f"{library}_mb"] = round(one.ask("peak")["mb"])
        yield row


PARTS = {part.__name__: part for part in (numbers, steps, targets, first, memory)}


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.peers")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    parser.add_argument("--libraries", default=",".join(LIBRARIES))
    parser.add_argument("--workloads", default="A,B,C", help="of steps and memory")
    parser.add_argument("--cases", type=int, help="only the first so many of a workload")
    parser.add_argument("--rounds", type=int, default=3, help="turns of steps and first")
    parser.add_argument("--data", type=Path, help="a folder of .npz files (X, y), for targets")
    parser.add_argument("--sets", default="energy,power,kin8nm", help="of targets")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of a target's training")
    parser.add_argument("--json", type=Path, help="write the rows to a file, beside those there")
    options = parser.parse_args()
    options.libraries = options.libraries.split(",")
    wanted = options.only.split(",")
    if unknown := sorted(set(wanted) - set(PARTS)):
        parser.error(f"no part {', '.join(unknown)}: there are {', '.join(PARTS)}")
    where = provenance()
    rows = json.loads(options.json.read_text()) if options.json and options.json.is_file() else []
    for name in wanted:
        measured = []
        with TemporaryDirectory() as folder:
            for row in PARTS[name](options, Path(folder)):
                load = {"load": round(os.getloadavg()[0], 1)}
                measured.append({"part": name, **row, **load})
                print(measured[-1], flush=True)
                rows = [old for old in rows if (old["part"], old["what"]) != (name, row["what"])]
                rows.append(measured[-1] | where)
                if options.json:
                    write_rows(options.json, rows)
        print_table(measured)


if __name__ == "__main__":
    main()
