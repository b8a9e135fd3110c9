"""Serves a class.

    make class [WORD=…] [PROCESSES=4] [PORT=8501] [ADDRESS=https://lab.example.org/gp/]

One process answers the room itself; several stand behind nginx, each with its own visitors.
"""

import argparse
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
import urllib.request
import webbrowser
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from pages.ui.classroom.nginx import configuration
from pages.ui.classroom.room import Room, check_address, check_word, invitation, own_address

ROOT = Path(__file__).parents[3]
STREAMLIT = (sys.executable, "-m", "streamlit")
MOST_PROCESSES = 64
START_SECONDS = 120.0
STOP_SECONDS = 20.0
LOOK_SECONDS = 0.5
"""How often it is looked whether every process is alive."""
LONGEST_WAIT = 60.0
"""Before a process is started again that has ended several times."""
STEADY_SECONDS = 120.0
"""After which a process that ends is started again at once."""
NO_NGINX = (
    "Several processes need nginx: on Debian and Ubuntu, apt-get install nginx; on a Mac, brew "
    "install nginx. Without it, make class serves the room by one process."
)


@dataclass
class Process:
    """A command that is started again when it ends."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path | None = None
    running: subprocess.Popen | None = None
    began: float = 0.0
    ends: int = 0
    """How often it has ended soon after its start."""
    again: float = 0.0
    """When it is to be started again."""

    def start(self) -> None:
        self.began = time.monotonic()
        with contextlib.ExitStack() as files:
            out = files.enter_context(self.log.open("ab")) if self.log else None
            self.running = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=out or subprocess.DEVNULL,  # Streamlit names its own address there
                stderr=out,
                start_new_session=True,  # Ctrl-C is for this process, which ends the others
            )

    def look(self) -> str:
        """Starts it again where it has ended, and says so; empty where all is well."""
        if self.running is None or self.running.poll() is None:
            return ""
        now = time.monotonic()
        if not self.again:
            self.ends = 0 if now - self.began > STEADY_SECONDS else self.ends + 1
            wait = min(LONGEST_WAIT, 2.0**self.ends) if self.ends > 1 else 0.0
            self.again = now + wait
            code = self.running.returncode
            return f"{self.name} has ended ({code}) and starts again in {wait:.0f} s."
        if now >= self.again:
            self.again = 0.0
            self.start()
        return ""

    def stop(self) -> None:
        if self.running is not None and self.running.poll() is None:
            self.running.terminate()

    def wait(self, deadline: float) -> None:
        """Until it has ended, or else ends it by force."""
        if self.running is None:
            return
        try:
            self.running.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.running.kill()
            self.running.wait()


def streamlit(room: Room, address: str, port: int, options: Sequence[str] = ()) -> Process:
    """One process of the app."""
    command = [*STREAMLIT, "run", "app.py", "--server.headless=true"]
    command += [f"--server.address={address}", f"--server.port={port}"]
    command += [f"--server.baseUrlPath={room.own_base.strip('/')}", "--server.fileWatcherType=none"]
    # Else Streamlit asks another server for this machine's address outside.
    command.append(f"--browser.serverAddress={urlsplit(room.address).hostname}")
    return Process(f"Process {room.process}", [*command, *options], room.environment())


def find_nginx() -> str | None:
    """Its path; Debian keeps it where only root looks for commands."""
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


def upload_mb() -> int:
    """The largest upload that Streamlit takes."""
    settings = tomllib.loads((ROOT / ".streamlit" / "config.toml").read_text(encoding="utf-8"))
    return settings["server"]["maxUploadSize"]


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody listens on."""
    with contextlib.ExitStack() as sockets:
        held = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in held]


def processes_of(room: Room, host: str, port: int, folder: Path) -> list[Process]:
    """Everything that a class is served by."""
    if room.processes == 1:
        return [streamlit(room, host, port)]
    nginx = find_nginx()
    if nginx is None:
        raise ValueError(NO_NGINX)
    ports = free_ports(room.processes)
    folder.chmod(0o711)  # nginx, started by root, works as somebody else
    file = folder / "nginx.conf"
    text = configuration(f"{host}:{port}", ports, str(folder), room.base, upload_mb())
    file.write_text(text, encoding="utf-8")
    front = [nginx, "-p", str(folder), "-c", str(file), "-e", "stderr", "-g", "daemon off;"]
    # A browser with pages of two processes has one cookie against forged requests.
    secret = {"STREAMLIT_SERVER_COOKIE_SECRET": secrets.token_hex(16)}
    apps = [streamlit(replace(room, process=n), "127.0.0.1", own) for n, own in enumerate(ports, 1)]
    for app in apps:
        app.environment |= secret
    return [*apps, Process("nginx", front, {})]


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


@contextlib.contextmanager
def serving(
    room: Room, port: int, host: str = "0.0.0.0", folder: Path | None = None
) -> Iterator[list[Process]]:
    """The class, once every process answers; what ends is started again."""
    over = threading.Event()
    with TemporaryDirectory() as own:
        processes = processes_of(room, host, port, Path(own))
        for process in processes:
            process.log = folder / f"{process.name}.log" if folder else None

        def look() -> None:
            while not over.wait(LOOK_SECONDS):
                for process in processes:
                    if message := process.look():
                        print(message, file=sys.stderr, flush=True)

        try:
            for process in processes:
                process.start()
            _until_all_answer(room, port, processes)
            watch = threading.Thread(target=look, daemon=True)
            watch.start()
            yield processes
            over.set()
            watch.join()
        finally:
            over.set()
            for process in processes:
                process.stop()
            deadline = time.monotonic() + STOP_SECONDS
            for process in processes:
                process.wait(deadline)


def _until_all_answer(room: Room, port: int, processes: list[Process]) -> None:
    deadline = time.monotonic() + START_SECONDS
    waiting = [replace(room, process=n).own_base for n in range(1, room.processes + 1)]
    while waiting := [base for base in waiting if not healthy(f"http://127.0.0.1:{port}{base}")]:
        for process in processes:
            if process.running is not None and process.running.poll() is not None:
                raise RuntimeError(f"{process.name} ended before it answered.")
        if time.monotonic() > deadline:
            raise RuntimeError(f"No answer in {START_SECONDS:.0f} s.")
        time.sleep(0.1)


def is_free(port: int) -> bool:
    """Whether nobody listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name != "nt")
        try:
            probe.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="make class", description=__doc__)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--port", type=int, default=8501)
    parser.add_argument("--address", default="", help="what others open, if a proxy is in front")
    options = parser.parse_args()
    word = os.environ.pop("WORD", "")  # not an argument, which others on this machine could list
    try:
        check_word(word)
        check_address(options.address)
        if not 1 <= options.processes <= MOST_PROCESSES:
            raise ValueError(f"PROCESSES is a number from 1 to {MOST_PROCESSES}.")
        if not is_free(options.port):
            raise ValueError(f"Port {options.port} is taken: make class PORT={options.port + 1}.")
        address = options.address or f"http://{own_address()}:{options.port}/"
        room = Room(address, word, 1, options.processes)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with serving(room, options.port):
            print(invitation(room), flush=True)
            here = replace(room, address=f"http://127.0.0.1:{options.port}{room.base}/room")
            if os.environ.get("DISPLAY") or not sys.platform.startswith("linux"):
                webbrowser.open(here.link)
            threading.Event().wait()
    except KeyboardInterrupt:
        print("\nThe room is closed.")
    except (ValueError, RuntimeError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
