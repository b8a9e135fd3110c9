"""Several processes of the command at once, as a launcher starts them."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]

Variables = Callable[[int, int, int], dict[str, str]]
"""What a launcher sets for a process: by its number, their count, and a free port."""


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return server.getsockname()[1]


def environment(**more: str) -> dict[str, str]:
    """This one's, for programs that compile quickly."""
    return {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "JAX_PLATFORMS": "cpu", **more}


def start(n: int, variables: Variables, *words: str) -> list[subprocess.Popen]:
    """n processes of the command."""
    port = free_port()
    return [
        subprocess.Popen(
            [sys.executable, "-m", "dgp_core", *words],
            cwd=ROOT,
            env=environment(**variables(i, n, port)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in range(n)
    ]


def ends(processes: list[subprocess.Popen], seconds: float = 300) -> list[tuple[int, str, str]]:
    """Each process's exit code, stdout and stderr."""
    try:
        said = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(p.returncode, *texts) for p, texts in zip(processes, said, strict=True)]


def by_hand(i: int, n: int, port: int) -> dict[str, str]:
    return {
        "JAX_PROCESS_ID": f"{i}",
        "JAX_NUM_PROCESSES": f"{n}",
        "JAX_COORDINATOR_ADDRESS": f"localhost:{port}",
    }


def kubernetes(i: int, n: int, port: int) -> dict[str, str]:
    """What a JobSet's pods have: the index by Kubernetes, the others by the README's YAML."""
    variables = by_hand(i, n, port)
    del variables["JAX_PROCESS_ID"]
    return {**variables, "JOB_COMPLETION_INDEX": f"{i}", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}


def slurm(i: int, n: int, port: int) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": f"{port}",
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_NTASKS": f"{n}",
        "SLURM_PROCID": f"{i}",
        "SLURM_LOCALID": f"{i}",
        "JAX_COORDINATOR_PORT": f"{port}",
    }


def open_mpi_4(i: int, n: int, port: int) -> dict[str, str]:
    return {
        **open_mpi_5(i, n, port),
        "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://127.0.0.1:34911",
    }


def open_mpi_5(i: int, n: int, port: int) -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": f"{i}",
        "OMPI_COMM_WORLD_SIZE": f"{n}",
        "OMPI_COMM_WORLD_LOCAL_RANK": f"{i}",
        "OMPI_COMM_WORLD_LOCAL_SIZE": f"{n}",
        "PMIX_NAMESPACE": "prterun-node1-4711@1",
        "JAX_COORDINATOR_PORT": f"{port}",
    }


def mpich(i: int, n: int, port: int) -> dict[str, str]:
    return {
        "PMI_RANK": f"{i}",
        "PMI_SIZE": f"{n}",
        "MPI_LOCALRANKID": f"{i}",
        "MPI_LOCALNRANKS": f"{n}",
        "JAX_COORDINATOR_PORT": f"{port}",
    }
