"""A server under visitors of every kind, for as long as one likes.

    python -m benchmarks.soak [--minutes 20] [--json FILE]

A server of its own on this machine. Protocol clients come, play and leave, upload a file, lose the
network and come back, send rubbish, and open a thousand sockets, while one well-behaved watcher
counts its frames. Memory should be flat, the watcher's frames never below 4 a second, the log
without an error, and every abuse refused with a sentence.
"""

import argparse
import asyncio
import http.client
import random
import re
import statistics
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from benchmarks.browser import Student, held, row
from benchmarks.report import print_table, write_rows
from pages.ui.choices import OFFERED
from tests.browser.app_server import served

WINDOW = 10.0
"""Seconds over which the watcher's frames are counted."""
LEAST = 4.0
"""Frames a second that it should never have less than."""
FLAT = 1.15
"""How much the memory of the last quarter may be of the second's: what runs hold varies."""
SOCKETS = 1000
BAD_LINE = re.compile(r"Traceback|\bERROR\b|Exception|Error:")
WAIT = 60.0

random.seed(0)


class Visitor(Student):
    """A student who may upload a file."""

    def __init__(self, url: str, query: str, page: str = ""):
        super().__init__(url, query)
        self.page, self.uploader, self.session_id = page, "", ""
        self.file_urls = None
        self.saw_file = threading.Event()

    def ask(self, message: BackMsg) -> None:
        message.rerun_script.page_name = self.page
        super().ask(message)

    def hear(self, message: bytes) -> None:
        super().hear(message)
        with suppress(Exception):  # not every message is of interest
            told = ForwardMsg.FromString(message)
            if told.HasField("new_session"):
                self.session_id = told.new_session.initialize.session_id
            if told.delta.new_element.HasField("file_uploader"):
                self.uploader = self.uploader or told.delta.new_element.file_uploader.id
            if told.HasField("file_urls_response") and told.file_urls_response.file_urls:
                self.file_urls = told.file_urls_response.file_urls[0]
        if b"soaked_column" in message:
            self.saw_file.set()


def until(condition: Callable[[], object], seconds: float = WAIT) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def farewell(closed: ConnectionClosed) -> str:
    """What a socket was told when it was closed."""
    frame = closed.rcvd
    return f"{frame.code} {frame.reason}" if frame else "closed without a word"


class Soak:
    """The server's address, what visitors did, and how each abuse was answered."""

    def __init__(self, url: str, pid: int, seconds: float):
        self.url, self.pid, self.seconds = url, pid, seconds
        self.ws, self.origin = url.replace("http", "ws"), Origin(url)
        self.over = threading.Event()
        self.done: Counter[str] = Counter()
        self.answers: dict[str, Counter[str]] = {}
        self.broken: list[str] = []
        self.memory: list[tuple[float, float]] = []

    def refused(self, abuse: str, sentence: str) -> None:
        self.answers.setdefault(abuse, Counter())[sentence] += 1

    # Those who come.

    def come(self) -> None:
        """Plays with a model for a while, and leaves."""
        data = random.choice(("step", "chirp", "sawtooth", "ridge", "spiral"))
        layers = random.choice(OFFERED["layers"])
        student = Visitor(self.url, f"data={data}&layers={layers}&seed={random.randint(0, 9)}")
        student.start()
        until(lambda: student.live or self.over.is_set())
        self.over.wait(random.uniform(3, 12))
        student.over.set()
        student.join(10)
        self.done["came, played and left" if student.live else "left before the model trained"] += 1

    def upload(self) -> None:
        """Brings a table of some thousand rows to the page Your data, and leaves."""
        visitor = Visitor(self.url, "", "your_data")
        visitor.start()
        try:
            if not until(lambda: visitor.uploader and visitor.session_id):
                raise RuntimeError("The page Your data offered no uploader.")
            rows = "".join(f"{i},{i % 7},{random.random():.4f}\n" for i in range(5000))
            content = f"soaked_column,b,y\n{rows}".encode()
            asked = BackMsg()
            asked.file_urls_request.request_id = "one"
            asked.file_urls_request.file_names.append("table.csv")
            asked.file_urls_request.session_id = visitor.session_id
            assert visitor.session is not None
            visitor.session.send(asked.SerializeToString())
            if not until(lambda: visitor.file_urls):
                raise RuntimeError("No address to upload to.")
            urls = visitor.file_urls
            assert urls is not None
            status, said = self._put(urls.upload_url, content)
            if status == 429:
                self.done["upload asked to wait"] += 1
                return
            if status not in (200, 204):
                raise RuntimeError(f"An upload was answered {status}: {said}")
            again = BackMsg()
            state = again.rerun_script.widget_states.widgets.add()
            state.id = visitor.uploader
            info = state.file_uploader_state_value.uploaded_file_info.add()
            info.file_id, info.name, info.size = urls.file_id, "table.csv", len(content)
            info.file_urls.CopyFrom(urls)
            visitor.ask(again)
            read = visitor.saw_file.wait(WAIT)
            self.done["uploaded a table" if read else "saw nothing of the uploaded table"] += 1
        finally:
            visitor.over.set()
            visitor.join(10)

    def _put(self, path: str, content: bytes) -> tuple[int, str]:
        """As a browser does it, with the cookie against forged requests."""
        place = urlsplit(self.url)
        assert place.hostname is not None
        server = http.client.HTTPConnection(place.hostname, place.port, timeout=WAIT)
        server.request("GET", "/_stcore/health")
        first = server.getresponse()
        first.read()
        found = re.search(r"_streamlit_xsrf=([^;]+)", first.getheader("set-cookie") or "")
        token = found[1].strip('"') if found else ""
        body = (
            b'--soak\r\nContent-Disposition: form-data; name="file"; filename="table.csv"\r\n'
            b"Content-Type: text/csv\r\n\r\n" + content + b"\r\n--soak--\r\n"
        )
        headers = {"Content-Type": "multipart/form-data; boundary=soak", "X-Xsrftoken": token}
        headers |= {"Cookie": f"_streamlit_xsrf={token}", "Origin": self.url}
        server.request("PUT", path if path.startswith("/") else f"/{path}", body, headers)
        answer = server.getresponse()
        return answer.status, answer.read(200).decode(errors="replace")

    def lose(self) -> None:
        """Loses the network in the middle of a run, and comes back with the same token."""
        student = Visitor(self.url, "data=step")
        student.start()
        if not until(lambda: student.live or self.over.is_set()) or self.over.is_set():
            student.over.set()
            return
        token = student.token
        assert student.session is not None
        student.session.socket.close()  # no word of farewell
        student.over.set()
        self.over.wait(random.uniform(1, 8))
        with connect(f"{self.ws}/stage/{token}", origin=self.origin, max_size=None) as back:
            try:
                back.recv(timeout=WAIT)
                self.done["lost the network and came back"] += 1
            except ConnectionClosed:
                self.done["lost the network and came back too late"] += 1

    # Those who mean ill.

    def rubbish(self) -> None:
        """Sends what no browser would send, to every address that listens."""
        visitor = Visitor(self.url, "data=step")
        visitor.start()
        if not until(lambda: visitor.ready.is_set() or self.over.is_set()) or self.over.is_set():
            visitor.over.set()
            return
        self._send("a message of 1 MB", visitor.token, "x" * 1_000_000)
        for text in ('{"move":', "[]", '{"at": 1e999}', '{"wish": {"scene": 3}}', "\x00" * 100):
            self._send("", visitor.token, text)
        self._send("a wrong token", "nobody" * 4, "{}")
        self._foreign()
        visitor.over.set()
        with (
            suppress(OSError, TimeoutError),
            connect(f"{self.ws}/_stcore/stream", origin=self.origin, subprotocols=None) as stream,
        ):
            stream.send(random.randbytes(5000))
            self._closed("bytes that are no message", stream)
        for path in ("/%2e%2e/etc/passwd", "/?data=" + "x" * 4000, "/early?moment=-1&data=%00"):
            place = urlsplit(self.url)
            assert place.hostname is not None
            server = http.client.HTTPConnection(place.hostname, place.port, timeout=WAIT)
            server.request("GET", path)
            if server.getresponse().status >= 500:
                self.broken.append(f"{path[:40]} was answered as an error of the server")
            server.close()
        self.done["sent rubbish"] += 1

    def _send(self, abuse: str, token: str, text: str) -> None:
        """Tells a stage's socket something; an abuse should be refused, in words."""
        with (
            suppress(OSError, TimeoutError),
            connect(f"{self.ws}/stage/{token}", origin=self.origin, max_size=None) as socket,
        ):
            with suppress(ConnectionClosed):
                socket.send(text)
            if abuse:
                self._closed(abuse, socket)

    def _closed(self, abuse: str, socket: ClientConnection) -> None:
        """Notes what a socket is told when it is closed."""
        try:
            for _ in range(20):
                socket.recv(timeout=1)
            self.refused(abuse, "not refused")
        except ConnectionClosed as closed:
            self.refused(abuse, farewell(closed))

    def _foreign(self) -> None:
        """A page of another site asks for a visitor's session."""
        try:
            with connect(f"{self.ws}/_stcore/stream", origin=Origin("http://evil.test")):
                self.refused("another site's page", "not refused")
        except InvalidStatus as refused:
            self.refused("another site's page", bytes(refused.response.body).decode())

    def thousand(self) -> None:
        """Opens a thousand sockets on one token, and holds them for a while."""
        visitor = Visitor(self.url, "data=step")
        visitor.start()
        if until(lambda: visitor.ready.is_set() or self.over.is_set()) and visitor.token:
            asyncio.run(self._open(visitor.token))
        visitor.over.set()
        self.over.wait(20)

    async def _open(self, token: str) -> None:
        served_now, places = 0, asyncio.Semaphore(100)

        async def one() -> None:
            nonlocal served_now
            async with places:
                try:
                    socket = await connect_async(
                        f"{self.ws}/stage/{token}", origin=self.origin, open_timeout=WAIT
                    )
                    async with socket:
                        await asyncio.wait_for(socket.recv(), 5)
                        served_now += 1
                        await asyncio.sleep(3)
                except ConnectionClosed as closed:
                    self.refused("a thousand sockets", farewell(closed))
                except InvalidStatus as refused:
                    self.refused("a thousand sockets", bytes(refused.response.body).decode())
                except (OSError, TimeoutError, WebSocketException):
                    self.refused("a thousand sockets", "no answer")

        await asyncio.gather(*(one() for _ in range(SOCKETS)))
        self.done["a thousand sockets"] += 1
        self.done["sockets of these that were sent a frame"] += served_now

    def misbehave(self) -> None:
        for act in (self.lose, self.rubbish, self.thousand):
            act()
            self.over.wait(5)

    # All together.

    def repeat(self, act: Callable[[], None], pause: float) -> None:
        while not self.over.is_set():
            try:
                act()
            except Exception:
                if not self.over.is_set():
                    self.broken.append(f"{act.__name__}: {traceback.format_exc(limit=-2)}")
            self.over.wait(pause)

    def run(self) -> list[dict]:
        watcher = Visitor(self.url, "data=chirp")
        watcher.start()
        if not until(lambda: watcher.live, 240):
            raise RuntimeError("The watcher has seen no step.")
        # About as many runs at a time as two cores show at this pace: see `benchmarks.classroom`.
        acts = [(self.come, 1.0), (self.upload, 10.0), (self.misbehave, 5.0)]
        threads = [threading.Thread(target=self.repeat, args=a, daemon=True) for a in acts]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        next_line = 0.0
        while (now := time.perf_counter() - began) < self.seconds:
            self.memory.append((now, held(self.pid)))
            if now >= next_line:
                lately = sum(t > time.perf_counter() - WINDOW for t in watcher.frames) / WINDOW
                print(
                    f"{now / 60:5.1f} min  {self.memory[-1][1]:6.0f} MB  {lately:4.1f} frames/s",
                    flush=True,
                )
                next_line += max(15.0, self.seconds / 40)
            time.sleep(1)
        self.over.set()
        watcher.over.set()
        for thread in [*threads, watcher]:
            thread.join(30)
        return self.rows([t - began for t in watcher.frames])

    def rows(self, frames: list[float]) -> list[dict]:
        windows = int(self.seconds // WINDOW)
        rates = [sum(k * WINDOW <= t < (k + 1) * WINDOW for t in frames) for k in range(windows)]
        rates = [count / WINDOW for count in rates]

        def between(a: float, b: float) -> float:
            share = [mb for at, mb in self.memory if a <= at / self.seconds < b]
            return statistics.median(share)

        second, last = between(0.25, 0.5), between(0.75, 1.0)
        rows = [
            row("the watcher's frames, least of all windows", min(rates), "1/s", f"≥ {LEAST:g}"),
            row("the watcher's frames, median", statistics.median(rates), "1/s", ""),
            row("memory, second quarter of the time", second, "MB", ""),
            row("memory, last quarter", last, "MB", ""),
            row("memory, last quarter of the second", last / second, "×", f"≤ {FLAT:g}"),
        ]
        rows += [row(what, count, "", "") for what, count in sorted(self.done.items())]
        for abuse, answers in self.answers.items():
            dumb = sum(n for said, n in answers.items() if not re.search(r"[a-z]{2,} [a-z]+", said))
            print(abuse, dict(answers), sep=": ")
            rows.append(row(f"{abuse}: refused without a sentence", dumb, "", "0"))
        for sentence in self.broken[:10]:
            print(sentence)
        rows.append(row("visitors who met an error", len(self.broken), "", "0"))
        return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        with served(log=log) as (url, pid):
            rows = Soak(url, pid, 60 * arguments.minutes).run()
        bad = [line for line in log.read_text().splitlines() if BAD_LINE.search(line)]
        print(*bad[:20], sep="\n")
        rows.append(row("errors in the server's log", len(bad), "", "0"))
    print_table(rows)
    if arguments.json:
        write_rows(arguments.json, rows)


if __name__ == "__main__":
    main()
