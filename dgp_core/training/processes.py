"""Several processes that train one model: who they are, by the launcher's own variables.

Slurm, Open MPI, MPICH and Kubernetes each tell a process its number and how many there are. JAX
knows Slurm and Open MPI 4 itself; for the others, this says where the first process is.
"""

import os
import socket
import sys
import threading
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import jax

from dgp_core.training.devices import Devices, ProcessLost, all_devices

HEARTBEAT_SECONDS = 20
"""After so long without a sign of life, a process on an accelerator counts as lost."""

BUSY_SECONDS = 60.0
"""How often the first process says that it is still busy: XLA lets a collective wait for half an
hour, and to shuffle a billion rows may take longer."""

FIRST_PORT, PORTS = 61440, 4096
"""Where the first process listens, unless JAX_COORDINATOR_PORT says it: as JAX chooses itself."""


class LaunchError(ValueError):
    """Processes that cannot find one another, in words for whoever started them."""


@dataclass(frozen=True)
class Launcher:
    """The variables by which a launcher tells a process who it is."""

    name: str
    number: str
    count: str
    on_host: str = ""
    """How many of them are on this machine."""
    known_to_jax: tuple[str, ...] = ()
    """Where all of these are set, JAX finds the first process itself."""


LAUNCHERS = (
    Launcher("By hand", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    Launcher("Kubernetes", "JOB_COMPLETION_INDEX", "JAX_NUM_PROCESSES"),
    Launcher(
        "Open MPI",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
        ("OMPI_MCA_orte_hnp_uri", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ),
    Launcher("MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
    Launcher(
        "Slurm",
        "SLURM_PROCID",
        "SLURM_NTASKS",
        known_to_jax=("SLURM_JOB_ID", "SLURM_STEP_NODELIST", "SLURM_LOCALID"),
    ),
)
"""In the order in which they are looked for: mpirun may run inside a job of Slurm's."""


@dataclass(frozen=True)
class Launch:
    """This process among those that train one model."""

    launcher: str
    number: int
    count: int
    address: str | None
    """Of the first process; None where JAX finds it."""


def find_launch(variables: Mapping[str, str]) -> Launch | None:
    """Who this process is by its environment; None where it is the only one."""
    for launcher in LAUNCHERS:
        if launcher.number not in variables or launcher.count not in variables:
            continue
        number, count = _whole(variables, launcher.number), _whole(variables, launcher.count)
        if count < 2:
            return None
        if number >= count:
            raise LaunchError(
                f"{launcher.number} is {number}, but {launcher.count} is {count}: processes are "
                "numbered from 0."
            )
        address = variables.get("JAX_COORDINATOR_ADDRESS")
        if address is None and launcher.known_to_jax:
            if all(name in variables for name in launcher.known_to_jax):
                return Launch(launcher.name, number, count, None)
            if launcher.name == "Slurm":
                return None  # a job's script, outside srun
        if address is None:
            address = _on_this_machine(launcher, variables, count)
        if ":" not in address:
            raise LaunchError(
                f"JAX_COORDINATOR_ADDRESS is {address!r}: it is the first process's host and a "
                "free port there, such as node1:61440."
            )
        return Launch(launcher.name, number, count, address)
    return None


def _whole(variables: Mapping[str, str], name: str) -> int:
    if not variables[name].isdecimal():
        raise LaunchError(f"{name} is {variables[name]!r}, and should be a whole number.")
    return int(variables[name])


def _on_this_machine(launcher: Launcher, variables: Mapping[str, str], count: int) -> str:
    """The first process's address where all are on one machine, children of one launcher."""
    if not launcher.on_host or variables.get(launcher.on_host) != str(count):
        raise LaunchError(
            f"{launcher.name} starts {count} processes, and does not say where the first one is: "
            "set JAX_COORDINATOR_ADDRESS to its host and a free port there, such as node1:61440."
        )
    job = variables.get("PMIX_NAMESPACE") or str(os.getppid())
    port = variables.get("JAX_COORDINATOR_PORT") or FIRST_PORT + zlib.crc32(job.encode()) % PORTS
    return f"localhost:{port}"


_launch: Launch | None = None


def is_lead() -> bool:
    """Whether this process speaks and saves for all."""
    return _launch is None or _launch.number == 0


@contextmanager
def lead_first() -> Iterator[None]:
    """Lets the first process do what the others then find done, such as a file on a shared disk."""
    devices = None if _launch is None else all_devices()
    if devices is None:
        yield
    elif is_lead():
        with busy(devices):
            yield
    else:
        wait_for_lead(devices)
        yield


@contextmanager
def busy(devices: Devices) -> Iterator[None]:
    """Tells the other processes every minute that they must wait, and in the end that it is done,
    however it ended."""
    done, lost = threading.Event(), []

    def tell() -> None:
        try:
            while not done.wait(BUSY_SECONDS):
                devices.least(0)
        except ProcessLost as error:
            lost.append(error)

    thread = threading.Thread(target=tell, name="busy", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if not lost:
            devices.least(1)
    if lost:
        raise lost[0]


def wait_for_lead(devices: Devices) -> None:
    """Returns once the first process is no longer busy."""
    while not devices.least(1)[0]:
        pass


def join() -> None:
    """Meets the other processes, where a launcher has started several; before JAX computes.

    On CPUs they talk to one another by Gloo. Once that stands, JAX's own service is left: it would
    end every process without a word as soon as the first has gone.
    """
    global _launch
    launch = _launch = find_launch(os.environ)
    if launch is None:
        return
    if launch.number == 0 and launch.address is not None:
        _check_port(launch.address)
    if is_lead():
        print(f"Waiting for {launch.count} processes ({launch.launcher}).", file=sys.stderr)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # it would catch SIGTERM
    given = {}
    if launch.address is not None:
        given = {
            "coordinator_address": launch.address,
            "num_processes": launch.count,
            "process_id": launch.number,
            "cluster_detection_method": "deactivate",
        }
    jax.distributed.initialize(heartbeat_timeout_seconds=HEARTBEAT_SECONDS, **given)
    devices = all_devices()
    assert devices is not None
    with _stdout_to_stderr():
        devices.least(0)
    if jax.default_backend() == "cpu":
        jax.distributed.shutdown()


def _check_port(address: str) -> None:
    """JAX would crash on a port that is taken."""
    port = address.rpartition(":")[2]
    try:
        with socket.create_server(("", int(port))):
            pass
    except (OSError, ValueError, OverflowError):
        raise LaunchError(
            f"Port {port} of this machine, where the processes should meet, is not free: name "
            "another in JAX_COORDINATOR_PORT or JAX_COORDINATOR_ADDRESS."
        ) from None


@contextmanager
def _stdout_to_stderr():
    """Gloo prints that it is connected, on the output that holds scores."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
