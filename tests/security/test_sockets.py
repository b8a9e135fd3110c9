"""Sockets, messages and requests: none of them can keep the server busy for others."""

import asyncio
import contextlib
import itertools
import json
import socket
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.live.limits import BROWSERS, MESSAGE_BYTES, MOST_OPEN, MOST_SOCKETS
from dgp_core.live.run import Run
from dgp_core.training.train import TrainSpec
from pages.ui.stage import early, guard, sockets
from pages.ui.stage.guard import Budgets, Guard
from pages.ui.stage.server import Scene, server, stop


class Ring:
    """A socket's bell, without its loop."""

    over = False

    def ring(self) -> None:
        pass


X = np.linspace(-1, 1, 40)[:, None]
STEP = Dataset("step", X, X, ("x",), ("y",))


@pytest.fixture(scope="module")
def own():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "prepare", lambda run: None)
        yield server()
        stop()


@pytest.fixture(scope="module")
def address(own):
    """The stage's route behind the guard, served by uvicorn as Streamlit has it serve."""
    app = Guard(Starlette(routes=sockets.routes), Budgets(1e6, 1e6))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(app, port=port, ws="websockets-sansio", ws_max_size=2**28,
                            log_level="error", ws_per_message_deflate=False)  # fmt: skip
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run)
    thread.start()
    until(lambda: serving.started)
    yield f"127.0.0.1:{port}"
    serving.should_exit = True
    thread.join(20)


def opened(address: str, token: str):
    return connect(f"ws://{address}/stage/{token}", origin=f"http://{address}", max_size=2**26)


def until(condition, seconds: float = 20.0) -> None:
    done = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if condition():
            return
        done.wait(0.02)
    raise AssertionError("the condition never came true")


def test_a_viewer_has_four_sockets_the_newest(own, address):
    viewer = own.viewers.get_or_create("tab", "me")
    with contextlib.ExitStack() as stack:
        all_of_them = [stack.enter_context(opened(address, "tab")) for _ in range(12)]
        until(lambda: len(viewer.bells) == MOST_SOCKETS)
        for old in all_of_them[:-MOST_SOCKETS]:
            with pytest.raises(ConnectionClosed) as closed:
                old.recv(20)
            assert closed.value.rcvd.code == 4429 and "newer" in closed.value.rcvd.reason
        assert len(viewer.bells) == MOST_SOCKETS
    until(lambda: not viewer.bells)


def test_a_long_message_is_refused_before_it_has_arrived(own, address):
    viewer = own.viewers.get_or_create("talker", "me")
    with opened(address, "talker") as talker:
        until(lambda: viewer.bells)
        # The head of a frame that announces 100 MB, and of these the first thousand bytes.
        head = b"\x81\xff" + (100_000_000).to_bytes(8, "big") + b"\x00" * 4
        talker.socket.sendall(head + b"x" * 1000)
        with pytest.raises(ConnectionClosed) as closed:
            talker.recv(20)
        assert closed.value.rcvd.code == 1009
    until(lambda: not viewer.bells)


def test_rubbish_is_passed_over(own, address):
    run_id, _ = own.workshop.start(STEP, ModelSpec(inducing=5), TrainSpec(), owner="me")
    viewer = own.viewers.get_or_create("rubbish", "me")
    viewer.scenes = {"main": Scene(run_id, lambda run, moment: {}, ("rubbish",))}
    with opened(address, "rubbish") as talker:
        for text in ("", "[", "[1]", "null", '"drawn"', b"\xff\xfe", b"\x00" * 100, "9" * 400,
                     '{"at": {"x": []}}', '{"at": 1e999}', '{"command": {"scene": [], "word": {}}}',
                     '{"move": {"name": "main/deep", "index": 0, "x": %s, "y": 1}}' % ("9" * 400),
                     '{"move": {"name": "main/deep", "index": -1, "x": 1e308, "y": -1e308}}',
                     '{"move": {"name": 7, "index": true, "x": null}}'):  # fmt: skip
            talker.send(text)
        talker.send(json.dumps({"command": {"scene": "main", "word": "pause"}}))
        until(lambda: not own.workshop.find(run_id).playing)  # all before it was heard
        assert viewer.bells
    own.workshop.drop(run_id, "me")


def test_a_binary_or_long_message_is_measured_where_its_server_cannot(own):
    told = []

    class Fake:
        async def receive(self):
            return {"type": "websocket.receive", "bytes": b"x" * (MESSAGE_BYTES + 1)}

        async def close(self, code, reason):
            told.append((code, reason))

    asyncio.run(sockets._listen(Fake(), own.viewers.get_or_create("a", "b"), asyncio.Event()))
    assert told[0][0] == 1009 and "at the most" in told[0][1]
    assert not guard.limit_messages(lambda: None, 10)


def test_tabs_that_are_paused_or_slow_take_nobody_s_frames(own, monkeypatch):
    until(lambda: not own.viewers.connected())
    monkeypatch.setattr(own.painter, "cost", 0.05)
    runs = []
    for i in range(8):
        run_id, _ = own.workshop.start(STEP, ModelSpec(inducing=5), TrainSpec(), owner=str(i))
        viewer = own.viewers.get_or_create(f"slow {i}", str(i))
        viewer.scenes = {"main": Scene(run_id, lambda run, moment: {}, ())}
        viewer.bells.add(Ring())
        runs.append(own.workshop.find(run_id))
    assert own.pause_between() == pytest.approx(8 * 0.05 / 0.5)
    for run in runs[1:]:
        run.set_speed(1.0)
    assert own.pause_between() == pytest.approx((1 + 7 * 0.1) * 0.05 / 0.5)
    for run in runs[1:]:
        run.status = "finished"
    assert own.pause_between() == pytest.approx(0.1)
    for i in range(8):
        own.viewers.forget(f"slow {i}")
    assert not own.viewers.connected()


def test_of_all_moves_the_last_of_each_point_waits_for_a_turn():
    run = Run(STEP, ModelSpec(layers=1, inducing=5), TrainSpec())
    for i in range(10_000):
        run.move_inducing(0, i % 5, np.array([i / 10_000]))
    assert len(run._edits) == 5
    assert {index: round(place[0], 4) for _, index, place in run._edits} == {
        0: 0.9995, 1: 0.9996, 2: 0.9997, 3: 0.9998, 4: 0.9999,
    }  # fmt: skip


def test_a_first_picture_is_painted_once_for_all_that_it_does_not_show():
    painted = []

    def paint(run, moment, *look):
        painted.append(look)
        return {"deep": {"look": look[1:]}}

    ask = early.early_route(paint).endpoint

    async def all_of_them(queries):
        scopes = [{"type": "http", "headers": [], "query_string": q.encode()} for q in queries]
        return await asyncio.gather(*(ask(Request(scope)) for scope in scopes))

    unseen = [f"{name}={value}" for name in ("seed", "at", "batch", "samples", "rate", "natural")
              for value in (1, 2, 10)]  # fmt: skip
    places = [f"star=0.1000{i}" for i in range(4)]
    answers = asyncio.run(all_of_them([f"dark=0&moment=0&{q}" for q in unseen + places]))
    assert all(answer.status_code == 200 for answer in answers)
    assert len(painted) == 4  # two moments, without a place and with one


def test_more_browsers_than_can_be_painted_for_do_without():
    release = threading.Event()
    ask = early.early_route(lambda *a: {"deep": {}} if release.wait(60) else {}).endpoint

    async def many():
        scopes = [
            {"type": "http", "headers": [], "query_string": f"moment=0&star={i / 10}".encode()}
            for i in range(60)
        ]
        asked = [asyncio.ensure_future(ask(Request(scope))) for scope in scopes]
        for refused in itertools.islice(asyncio.as_completed(asked), 60 - early.MOST_WAITING):
            assert (await refused).status_code == 204
        assert sum(one.done() for one in asked) == 60 - early.MOST_WAITING
        release.set()
        return await asyncio.gather(*asked)

    codes = [answer.status_code for answer in asyncio.run(many())]
    assert codes.count(200) == early.MOST_WAITING and codes.count(204) == 60 - early.MOST_WAITING


def test_a_budget_fills_up_at_its_rate():
    now = [0.0]
    budgets = Budgets(rate=2.0, burst=10.0, clock=lambda: now[0])
    assert [budgets.wait("a") for _ in range(10)] == [0.0] * 10
    assert budgets.wait("a") == pytest.approx(0.5) and budgets.wait("b") == 0.0
    assert budgets.wait("a", cost=4.0) == pytest.approx(2.0)
    now[0] = 0.5
    assert budgets.wait("a") == 0.0 and budgets.wait("a") > 0.0
    now[0] = 1000.0
    assert [budgets.wait("a") for _ in range(11)].count(0.0) == 10


async def _passed(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
    else:
        while (await receive())["type"] != "websocket.disconnect":
            pass


def scope_of(path: str, browser: str = "", client: str = "10.0.0.1", kind: str = "http") -> dict:
    cookie = f"{guard.COOKIE}={browser}".encode() if browser else b""
    return {"type": kind, "method": "GET", "path": path, "query_string": b"", "scheme": kind,
            "headers": [(b"cookie", cookie)], "client": (client, 1)}  # fmt: skip


def answered(app: Guard, scope: dict) -> list[dict]:
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.disconnect"}

    asyncio.run(app(scope, receive, send))
    return sent


def test_a_browser_that_asks_too_much_is_told_when_to_come_back():
    app = Guard(_passed, Budgets(rate=1.0, burst=10.0, clock=lambda: 0.0))
    me, other = "m" * 32, "o" * 32
    codes = [answered(app, scope_of("/early", me))[0]["status"] for _ in range(8)]
    assert codes == [200] * 5 + [429] * 3
    refused = answered(app, scope_of("/early", me))
    assert b"wait a few seconds" in refused[1]["body"]
    assert (b"retry-after", b"3") in refused[0]["headers"]
    assert answered(app, scope_of("/static/js/a.js", me))[0]["status"] == 200  # lies there ready
    assert answered(app, scope_of("/early", other))[0]["status"] == 200
    closed = answered(app, scope_of("/stage/x", me, kind="websocket"))
    assert closed[0]["type"] == "websocket.close" and "wait" in closed[0]["reason"]


def test_new_names_do_not_make_new_budgets_for_ever():
    app = Guard(_passed, Budgets(rate=1.0, burst=10.0, clock=lambda: 0.0))
    names = [f"{i:032d}" for i in range(20 * BROWSERS)]
    codes = [answered(app, scope_of("/early", name))[0]["status"] for name in names]
    assert codes.count(200) == 5 * BROWSERS and codes[-1] == 429
    assert answered(app, scope_of("/early", "n" * 32, "10.0.0.2"))[0]["status"] == 200


def test_a_browser_has_so_many_sockets_at_once():
    app = Guard(_passed, Budgets(1e6, 1e6))
    closed, over = [], asyncio.Event()

    async def many():
        async def send(message):
            closed.append(message)

        async def receive():
            await over.wait()
            return {"type": "websocket.disconnect"}

        async def refused():
            return {"type": "websocket.connect"}

        scope = scope_of("/_stcore/stream", "m" * 32, kind="websocket")
        tasks = [asyncio.create_task(app(scope, receive, send)) for _ in range(MOST_OPEN)]
        await asyncio.sleep(0)
        await app(scope, refused, send)
        over.set()
        await asyncio.gather(*tasks)

    asyncio.run(many())
    assert [message["code"] for message in closed] == [1013] and not app._open


def put(app: Guard, session: str, chunks: list[bytes], stated: int | None = None) -> list[dict]:
    sent, waiting = [], list(chunks)

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request", "body": waiting.pop(0), "more_body": bool(waiting)}

    scope = scope_of(f"/_stcore/upload_file/{session}/1") | {"method": "PUT"}
    if stated is not None:
        scope["headers"] = [(b"content-length", str(stated).encode())]
    asyncio.run(app(scope, receive, send))
    return sent


def test_uploads_have_a_total_for_a_session_and_for_the_server(monkeypatch):
    stored = {"a": {"1": SimpleNamespace(data=b"x" * 60)}}
    manager = SimpleNamespace(file_storage=stored)
    monkeypatch.setattr(guard.runtime, "exists", lambda: True)
    monkeypatch.setattr(
        guard.runtime, "get_instance", lambda: SimpleNamespace(uploaded_file_mgr=manager)
    )
    monkeypatch.setattr(guard, "SESSION_UPLOAD_BYTES", 100)
    monkeypatch.setattr(guard, "SERVER_UPLOAD_BYTES", 130)
    taken = []

    async def app(scope, receive, send):
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return await send({"type": "http.response.start", "status": 400, "headers": []})
            taken.append(len(message["body"]))
            if not message["more_body"]:
                return await _passed(scope, receive, send)

    own = Guard(app, Budgets(1e6, 1e6))
    assert put(own, "a", [b"x" * 40], 40)[0]["status"] == 200
    refused = put(own, "a", [b"x" * 41], 41)
    assert refused[0]["status"] == 413 and b"too large together" in refused[1]["body"]
    assert put(own, "b", [b"x" * 71], 71)[0]["status"] == 413  # the server's
    taken.clear()
    assert put(own, "b", [b"x" * 30] * 4)[0]["status"] == 400  # it had not said how much
    assert sum(taken) <= 70 and not own.uploads._coming
