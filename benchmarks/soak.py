"""A server under visitors of every kind, for as long as one likes.

    python -m benchmarks.soak [--minutes 20] [--json FILE]

A server of its own on this machine, and no other. Protocol clients come, play and leave, upload a
file, lose the network and come back; others send rubbish and files that unpack to gigabytes, open a
thousand sockets, ask without end, and start more runs than one browser may have; one well-behaved
watcher counts its frames. The server has been up for two minutes by then. Visitors have machines of
their own: here theirs is a process that gives way to the server, and the watcher's another. Memory
should be flat, the watcher's frames never below 4 a second, the log without an error, and every
abuse refused with a sentence. What is missed is said, and the command then ends with 1.
"""

import argparse
import asyncio
import gzip
import html
import http.client
import io
import json
import multiprocessing
import operator
import os
import random
import re
import secrets
import statistics
import sys
import tempfile
import threading
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from benchmarks.browser import Student, held, row
from benchmarks.report import print_table, write_rows
from benchmarks.waiting import UP
from dgp_core.live.limits import MOST_OWNED, MOST_SOCKETS
from pages.ui.choices import OFFERED
from pages.ui.stage.guard import COOKIE
from tests.browser.app_server import served

NICE = 10
"""Of the visitors' process."""
WINDOW = 10.0
"""Seconds over which the watcher's frames are counted."""
LEAST = 4.0
"""Frames a second that it should never have less than."""
FLAT = 1.15
"""How much the memory of the last quarter may be of the second's: what runs hold varies."""
SOCKETS = 1000
AT_A_TIME = 100
"""Of these that are being opened together."""
SETTLE = 20.0
"""Seconds after the last was tried in which those that are too many should be closed."""
FLOOD = 500
"""Requests of one browser as fast as they are answered: its burst is enough for 100 of these."""
RUNS = MOST_OWNED + 2
"""Runs that one browser asks for at once."""
SENTENCE = re.compile(r"[a-z]{2,} [a-z]+")
BAD = ALLOWED, DUMB = "not refused", "refused without a word"
NAMES = {
    "long": "a message of 1 MB",
    "token": "a wrong token",
    "foreign": "another site's page",
    "bytes": "bytes that are no message",
    "sockets": "a thousand sockets",
    "flood": "requests without end",
    "runs": f"{RUNS} runs of one browser",
    "gzip": "a gzip that unpacks to 400 MB",
    "parquet": "a Parquet of 100 million cells",
    "workbook": "a workbook that unpacks to 200 MB",
}
"""What is not to be allowed, and each time to be refused with a sentence."""
BAD_LINE = re.compile(r"Traceback|\bERROR\b|Exception|Error:")
WAIT = 60.0

random.seed(0)


REFUSAL = re.compile(rb"(This file has|\d+ runs of this browser are) [^.\x00-\x1f]+")
"""What a page says of a file that is too large, and of one run too many."""


class Visitor(Student):
    """A student who may upload a file."""

    def __init__(self, url: str, query: str, page: str = "", browser: str = ""):
        super().__init__(url, query)
        self.page, self.uploader, self.session_id = page, "", ""
        self.refusal = ""
        if browser:
            self.headers = {"Cookie": f"{COOKIE}={browser}"}
        self.file_urls = None
        self.saw_file = threading.Event()

    def ask(self, message: BackMsg) -> None:
        message.rerun_script.page_name = self.page
        super().ask(message)

    def hear(self, message: bytes) -> None:
        super().hear(message)
        with suppress(Exception):  # not every message is of interest
            forward = ForwardMsg.FromString(message)
            if forward.HasField("new_session"):
                self.session_id = forward.new_session.initialize.session_id
            if forward.delta.new_element.HasField("file_uploader"):
                self.uploader = self.uploader or forward.delta.new_element.file_uploader.id
            if forward.HasField("file_urls_response") and forward.file_urls_response.file_urls:
                self.file_urls = forward.file_urls_response.file_urls[0]
        if b"soaked_column" in message:
            self.saw_file.set()
        if found := REFUSAL.search(message):
            self.refusal = self.refusal or html.unescape(found[0].decode(errors="replace"))


class Watcher:
    """A visitor who only looks, in a process of its own: when its frames came."""

    def __init__(self, url: str, query: str):
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_look, args=(url, query, other), daemon=True)
        self._process.start()
        self.live, self.frames = 0.0, list[float]()

    def hear(self) -> None:
        """Takes in what it has seen since."""
        while self._pipe.poll():
            self.live, frames = self._pipe.recv()
            self.frames += frames

    def leave(self) -> None:
        """All that it saw is told by now."""
        with suppress(EOFError, OSError):
            self._pipe.send(None)
            self.hear()
        self._process.join(30)


def _look(url: str, query: str, pipe: Connection) -> None:
    """Tells of every frame until it is told to leave; the clock is the machine's."""
    visitor, told = Visitor(url, query), 0
    visitor.start()
    over = False
    while not over:
        over = pipe.poll(0.5)
        frames = visitor.frames[told:]
        told += len(frames)
        pipe.send((visitor.live, frames))
    visitor.over.set()


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
    return f"{frame.code} {frame.reason}" if frame else DUMB


class Soak:
    """The server's address, what visitors did, and how each abuse was answered."""

    def __init__(self, url: str, pid: int, seconds: float):
        if urlsplit(url).hostname != "127.0.0.1":
            raise ValueError("A soak is for a server of this machine only.")
        self.url, self.pid, self.seconds = url, pid, seconds
        self.ws, self.origin = url.replace("http", "ws"), Origin(url)
        self.over = threading.Event()
        self.done: Counter[str] = Counter()
        self.answers: dict[str, Counter[str]] = {}
        self.broken: list[str] = []
        self.most_open = 0
        """Of a thousand sockets, once all were tried."""
        self.memory: list[tuple[float, float]] = []
        self.bombs = {"gzip": gzip_bomb(), "parquet": parquet_bomb(), "workbook": workbook_bomb()}

    def refused(self, abuse: str, sentence: str) -> None:
        self.answers.setdefault(NAMES[abuse], Counter())[sentence] += 1

    # Those who come.

    def come(self) -> None:
        """Plays with a model for a while, and leaves."""
        data = random.choice(("step", "chirp", "sawtooth", "ridge", "spiral"))
        layers = random.choice(OFFERED["layers"])
        student = Visitor(self.url, f"data={data}&layers={layers}&seed={random.randint(0, 9)}")
        student.start()
        if until(lambda: student.live or self.over.is_set()) and student.live:
            self._play(student.token)
        self.over.wait(random.uniform(3, 12))
        student.over.set()
        student.join(10)
        self.done["came, played and left" if student.live else "left before the model trained"] += 1

    def _play(self, token: str) -> None:
        """Presses every button, slides through the history and drags an inducing point."""
        commands = [{"command": {"scene": "main", "word": w}} for w in ("pause", "step", "play")]
        slides = [{"at": at} for at in (0.2, 0.7, None)]
        point = {"name": "main/deep", "index": 0, "y": 0.0}
        drags = [{"move": point | {"x": x / 10}} for x in range(-5, 5)]
        with (
            suppress(ConnectionClosed, OSError, TimeoutError),
            connect(f"{self.ws}/stage/{token}", origin=self.origin, max_size=None) as hand,
        ):
            for message in (*commands, *slides, *drags):
                hand.send(json.dumps(message))
                self.over.wait(0.2)

    def upload(self) -> None:
        """Brings a table of some thousand rows to the page Your data, and leaves."""
        rows = "".join(f"{i},{i % 7},{random.random():.4f}\n" for i in range(5000))
        visitor = self._bring("table.csv", f"soaked_column,b,y\n{rows}".encode())
        if visitor is not None:
            read = visitor.saw_file.is_set()
            self.done["uploaded a table" if read else "saw nothing of the uploaded table"] += 1

    def bomb(self) -> None:
        """Brings small files that would take a great deal of memory."""
        for abuse, content in self.bombs.items():
            if self.over.is_set():
                return
            visitor = self._bring(f"bomb.{abuse}", content)
            if visitor is not None and (visitor.refusal or not self.over.is_set()):
                self.refused(abuse, visitor.refusal or ALLOWED)

    def _bring(self, name: str, content: bytes) -> Visitor | None:
        """Brings a file to the page Your data, and leaves; None where the server asks to wait."""
        visitor = Visitor(self.url, "", "your_data")
        visitor.start()
        try:
            if not until(lambda: visitor.uploader and visitor.session_id):
                raise RuntimeError("The page Your data offered no uploader.")
            asked = BackMsg()
            asked.file_urls_request.request_id = "one"
            asked.file_urls_request.file_names.append(name)
            asked.file_urls_request.session_id = visitor.session_id
            assert visitor.session is not None
            visitor.session.send(asked.SerializeToString())
            if not until(lambda: visitor.file_urls):
                raise RuntimeError("No address to upload to.")
            urls = visitor.file_urls
            assert urls is not None
            status, answer = self._put(urls.upload_url, content)
            if status == 429:
                self.done["upload asked to wait"] += 1
                return None
            if status not in (200, 204):
                raise RuntimeError(f"An upload was answered {status}: {answer}")
            again = BackMsg()
            state = again.rerun_script.widget_states.widgets.add()
            state.id = visitor.uploader
            info = state.file_uploader_state_value.uploaded_file_info.add()
            info.file_id, info.name, info.size = urls.file_id, name, len(content)
            info.file_urls.CopyFrom(urls)
            visitor.ask(again)
            until(lambda: visitor.saw_file.is_set() or visitor.refusal or self.over.is_set())
            return visitor
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
        self._send("long", visitor.token, "x" * 1_000_000)
        for text in ('{"move":', "[]", '{"at": 1e999}', '{"command": {"scene": 3}}', "\x00" * 100):
            self._send("", visitor.token, text)
        self._send("token", "nobody" * 4, "{}")
        self._foreign()
        visitor.over.set()
        with (
            suppress(OSError, TimeoutError),
            connect(f"{self.ws}/_stcore/stream", origin=self.origin, subprotocols=None) as stream,
        ):
            stream.send(random.randbytes(5000))
            self._closed("bytes", stream)
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
            self.refused(abuse, ALLOWED)
        except ConnectionClosed as closed:
            self.refused(abuse, farewell(closed))

    def _foreign(self) -> None:
        """A page of another site asks for a visitor's session."""
        try:
            with connect(f"{self.ws}/_stcore/stream", origin=Origin("http://evil.test")):
                self.refused("foreign", ALLOWED)
        except InvalidStatus as refused:
            self.refused("foreign", bytes(refused.response.body).decode())

    def thousand(self) -> None:
        """Opens a thousand sockets on one token, half of them as one browser, and holds them."""
        visitor = Visitor(self.url, "data=step")
        visitor.start()
        if until(lambda: visitor.ready.is_set() or self.over.is_set()) and visitor.token:
            asyncio.run(self._open(visitor.token))
        visitor.over.set()
        self.over.wait(20)

    async def _open(self, token: str) -> None:
        opening, all_tried = asyncio.Semaphore(AT_A_TIME), asyncio.Event()
        cookie = {"Cookie": f"{COOKIE}={secrets.token_urlsafe(24)}"}
        tried = still_open = 0

        async def one(i: int) -> None:
            nonlocal tried, still_open
            try:
                async with opening:
                    socket = await connect_async(
                        f"{self.ws}/stage/{token}",
                        origin=self.origin,
                        open_timeout=WAIT,
                        additional_headers=cookie if i % 2 else {},
                        max_size=None,
                    )
            except InvalidStatus as refused:
                self.refused("sockets", bytes(refused.response.body).decode() or DUMB)
                return
            except (OSError, TimeoutError, WebSocketException):
                self.refused("sockets", DUMB)
                return
            finally:
                tried += 1
                if tried == SOCKETS:
                    all_tried.set()
            async with socket:
                reading = asyncio.create_task(self._until_closed(socket))
                await all_tried.wait()
                await asyncio.wait([reading], timeout=SETTLE)
                still_open += not reading.done()
                reading.cancel()

        await asyncio.gather(*(one(i) for i in range(SOCKETS)))
        self.done["a thousand sockets"] += 1
        self.most_open = max(self.most_open, still_open)

    async def _until_closed(self, socket) -> None:
        try:
            while True:
                await socket.recv()
        except ConnectionClosed as closed:
            self.refused("sockets", farewell(closed))

    def flood(self) -> None:
        """Asks for first pictures as fast as they are answered, as one browser."""
        place = urlsplit(self.url)
        assert place.hostname is not None
        server = http.client.HTTPConnection(place.hostname, place.port, timeout=WAIT)
        cookie = {"Cookie": f"{COOKIE}={secrets.token_urlsafe(24)}"}
        codes: Counter[int] = Counter()
        for i in range(FLOOD):
            if self.over.is_set():
                return
            server.request("GET", f"/early?dark=0&moment=0&star={i % 3}", headers=cookie)
            answer = server.getresponse()
            sentence = answer.read().decode(errors="replace")
            codes[answer.status] += 1
            if answer.status == 429:
                self.refused("flood", sentence)
        if not codes[429]:
            self.refused("flood", ALLOWED)
        server.close()

    def many_runs(self) -> None:
        """Opens more playgrounds than one browser may have, all of them on its screens."""
        browser, visitors = secrets.token_urlsafe(24), []
        for i in range(RUNS):
            # At a step a second: it is the number that is tried, not the cores.
            visitors.append(Visitor(self.url, f"data=step&speed=1&seed={i % 10}", browser=browser))
            visitors[-1].start()
            until(lambda: visitors[-1].answered.is_set() or visitors[-1].refusal, 10)
        refusals = [visitor.refusal for visitor in visitors if visitor.refusal]
        for sentence in refusals if refusals or self.over.is_set() else [ALLOWED]:
            self.refused("runs", sentence)
        for visitor in visitors:
            visitor.over.set()
        for visitor in visitors:
            visitor.join(10)

    def misbehave(self) -> None:
        acts = (self.lose, self.rubbish, self.bomb, self.flood, self.many_runs, self.thousand)
        for act in acts:
            if not self.over.is_set():
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
        time.sleep(UP)
        watcher = Watcher(self.url, "data=chirp&speed=10")
        if not until(lambda: watcher.hear() or watcher.live, 240):
            raise RuntimeError("The watcher has seen no step.")
        os.nice(NICE)
        # About as many runs at a time as two cores show at this pace: see `benchmarks.classroom`.
        acts = [(self.come, 1.0), (self.upload, 10.0), (self.misbehave, 5.0)]
        threads = [threading.Thread(target=self.repeat, args=a, daemon=True) for a in acts]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        next_line = 0.0
        while (now := time.perf_counter() - began) < self.seconds:
            self.memory.append((now, held(self.pid)))
            watcher.hear()
            if now >= next_line:
                lately = sum(t > time.perf_counter() - WINDOW for t in watcher.frames) / WINDOW
                print(
                    f"{now / 60:5.1f} min  {self.memory[-1][1]:6.0f} MB  {lately:4.1f} frames/s",
                    flush=True,
                )
                next_line += max(15.0, self.seconds / 40)
            time.sleep(1)
        self.over.set()
        watcher.leave()
        for thread in threads:
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
        rows.append(row("of a thousand sockets, open", self.most_open, "", f"≤ {MOST_SOCKETS}"))
        rows += [row(what, count, "", "") for what, count in sorted(self.done.items())]
        for abuse in NAMES.values():
            answers = self.answers.get(abuse, Counter())
            print(abuse, dict(answers), sep=": ")
            refused = sum(
                n for words, n in answers.items() if SENTENCE.search(words) and words not in BAD
            )
            rows.append(row(f"{abuse}: refused with a sentence", refused, "", "≥ 1"))
            rows.append(row("… not, or without a sentence", answers.total() - refused, "", "0"))
        for sentence in self.broken[:10]:
            print(sentence)
        rows.append(row("visitors who met an error", len(self.broken), "", "0"))
        return rows


def gzip_bomb() -> bytes:
    file, rows = io.BytesIO(), b"0,1,2\n" * 170_000
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1) as packed:
        for _ in range(400):
            packed.write(rows)
    return file.getvalue()


def parquet_bomb() -> bytes:
    column, file = pa.array(np.zeros(500_000)), io.BytesIO()
    pq.write_table(pa.table({f"c{i}": column for i in range(200)}), file, compression="zstd")
    return file.getvalue()


def workbook_bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("[Content_Types].xml", "<Types/>")
        book.writestr("xl/workbook.xml", "<workbook/>")
        book.writestr("xl/worksheets/sheet1.xml", bytes(200_000_000))
    return file.getvalue()


def judged(rows: list[dict]) -> list[dict]:
    """The same rows, each with whether its aim is met."""
    compare = {"≥": operator.ge, "≤": operator.le, "0": operator.eq}
    for one in rows:
        sign, _, number = one["aim"].rpartition(" ") if one["aim"] else ("", "", "")
        aim = compare.get(sign or number)
        one["met"] = "" if aim is None else "met" if aim(one["value"], float(number)) else "MISSED"
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
    print_table(judged(rows))
    if arguments.json:
        write_rows(arguments.json, rows)
    missed = [one["what"] for one in rows if one["met"] == "MISSED"]
    print(f"Missed: {'; '.join(missed)}" if missed else "Every aim is met.")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
