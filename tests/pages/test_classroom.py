"""A class: who comes in, where links lead, and what a server says of itself."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from starlette.requests import HTTPConnection
from streamlit.proto.BackMsg_pb2 import BackMsg

from dgp_core.live import limits, workshop
from pages.ui.classroom.__main__ import NO_NGINX, Process, find_nginx, processes_of, streamlit
from pages.ui.classroom.entrance import COOKIE, NEEDS_WORD, RUBBISH, Entrance
from pages.ui.classroom.metrics import metrics
from pages.ui.classroom.nginx import configuration
from pages.ui.classroom.room import (
    Room,
    check_address,
    check_word,
    invitation,
    invitation_page,
    with_query,
)
from pages.ui.stage.pace import FRAMES_SECONDS, Frames
from pages.ui.stage.server import Server

ADDRESS = "http://10.0.0.7:8501/"
WORDED = Room(ADDRESS, "posterior")
OPEN = Room(ADDRESS)


def connection(path: str, query: str = "", kind: str = "http", **headers: str) -> HTTPConnection:
    listed = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": kind, "path": path, "query_string": query.encode(), "headers": listed}
    scope |= {"client": ("10.0.0.9", 1), "server": ("10.0.0.7", 8501), "scheme": "http"}
    return HTTPConnection(scope | {"method": "GET"} if kind == "http" else scope)


def entrance(room: Room) -> Entrance:
    return Entrance(None, room, room.own_base)


def inside(room: Room) -> str:
    return f"{COOKIE}={room.key}"


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize("path", ["/", "/layers", "/stage/token", "/_stcore/stream", "/early"])
def test_without_the_word_nobody_comes_in(path, kind):
    door = entrance(WORDED)
    refused = door.turned_away(connection(path, kind=kind))
    assert refused is not None and refused.status_code == 403
    assert NEEDS_WORD in bytes(refused.body).decode()
    wrong = door.turned_away(connection(path, kind=kind, cookie=f"{COOKIE}={OPEN.key}"))
    assert wrong is not None and wrong.status_code == 403
    assert door.turned_away(connection(path, kind=kind, cookie=inside(WORDED))) is None
    assert entrance(OPEN).turned_away(connection(path, kind=kind)) is None


def test_the_link_s_word_becomes_a_cookie_and_goes_from_the_address():
    let_in = entrance(WORDED).turned_away(connection("/layers", "word=posterior&data=a,b"))
    assert let_in is not None and let_in.status_code == 303
    assert let_in.headers["location"] == "./layers?data=a,b"
    cookie = let_in.headers["set-cookie"]
    assert WORDED.key in cookie and "HttpOnly" in cookie and "SameSite=lax" in cookie
    assert "posterior" not in cookie and let_in.headers["referrer-policy"] == "no-referrer"


def test_who_is_inside_may_open_an_old_link():
    known = connection("/", "word=another", cookie=inside(WORDED))
    answer = entrance(WORDED).turned_away(known)
    assert answer is not None and answer.status_code == 303


def test_a_word_cannot_be_found_by_trying():
    door = entrance(WORDED)
    codes = [door.turned_away(connection("/", f"word=w{i}")).status_code for i in range(15)]
    assert codes[: limits.MOST_WRONG] == [403] * limits.MOST_WRONG and codes[-1] == 429
    assert door.turned_away(connection("/", "word=posterior")).status_code == 429
    class_behind_a_router = entrance(WORDED)
    right = [class_behind_a_router.turned_away(connection("/", "word=posterior"))] * 40
    assert {answer.status_code for answer in right} == {303}


def test_numbers_need_no_word():
    for path in ("/metrics", "/_stcore/health"):
        assert entrance(WORDED).turned_away(connection(path)) is None


def test_a_socket_of_another_site_is_refused_before_streamlit_sees_it():
    ours = {"host": "lab.example", "origin": "http://lab.example"}
    stream = "/_stcore/stream"
    assert entrance(OPEN).turned_away(connection(stream, kind="websocket", **ours)) is None
    theirs = ours | {"origin": "http://evil.example"}
    answer = entrance(OPEN).turned_away(connection(stream, kind="websocket", **theirs))
    assert answer is not None and answer.status_code == 403

    sent: list[dict] = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message)

    scope = connection(stream, kind="websocket", **theirs).scope
    asyncio.run(entrance(OPEN)(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]


def test_a_newcomer_is_sent_to_the_process_that_answers():
    room = Room("http://lab.example/gp/", "", 3, 4)
    answer = entrance(room).turned_away(connection("/layers", "v=1"))
    assert answer is not None
    assert (answer.status_code, answer.headers["location"]) == (307, "/gp/3/layers?v=1")
    assert entrance(room).turned_away(connection("/gp/3/layers")) is None


def test_a_run_s_link_keeps_its_process_and_settings_lead_anywhere():
    room = Room("http://lab.example/gp/", "posterior", 3, 4)
    page = "http://lab.example/gp/3/layers?v=1"
    assert room.invite(page) == "http://lab.example/gp/3/layers?v=1&word=posterior"
    assert room.anywhere(page) == "http://lab.example/gp/layers?v=1"
    assert room.anywhere("http://lab.example/gp/3?v=1") == "http://lab.example/gp/?v=1"
    assert Room("http://lab.example/gp/").anywhere(page) == page
    assert room.link == "http://lab.example/gp/?word=posterior"


def test_a_process_is_told_of_its_room_by_the_environment(monkeypatch):
    room = Room(ADDRESS, "späße?&", 2, 3)
    for name, value in room.environment().items():
        monkeypatch.setenv(name, value)
    assert Room.of_environment() == room
    assert with_query(ADDRESS, {"word": room.word}) == room.link
    command = streamlit(room, "127.0.0.1", 9).command
    assert "--server.baseUrlPath=2" in command and not any(room.word in part for part in command)


def test_a_run_s_name_begins_with_its_process(monkeypatch):
    assert not re.match(r"\d+-", "x" + workshop.new_id()) and limits.PROCESSES == 1
    monkeypatch.setattr(workshop, "PROCESSES", 4)
    monkeypatch.setattr(workshop, "PROCESS", 3)
    assert re.fullmatch(r"3-[\w-]{22}", workshop.new_id())


@pytest.mark.parametrize("word", ["abc", "two words", "x" * 65, "a\tbcd"])
def test_a_word_that_makes_no_link_is_refused_in_a_sentence(word):
    with pytest.raises(ValueError, match="make class WORD="):
        check_word(word)


@pytest.mark.parametrize("address", ["lab.example", "ftp://lab.example/", "http:///x"])
def test_an_address_that_nobody_can_open_is_refused(address):
    with pytest.raises(ValueError, match="begins with"):
        check_address(address)
    check_address("https://lab.example.org/gp/")


def test_the_room_is_shown_with_what_strangers_could_do():
    for room in (WORDED, OPEN):
        page, terminal = invitation_page(room), invitation(room)
        assert "data:image/svg+xml;base64," in page and "▄" in terminal
        assert room.link in page and room.link in terminal
        assert "not encrypted" in page and "cannot change your runs" in terminal
        assert ("Everybody in this network" in terminal) is (room is OPEN)
    assert "not encrypted" not in invitation(Room("https://lab.example.org/"))
    assert "this machine only" in invitation_page(Room())


def test_make_app_listens_on_this_machine_only():
    root = Path(__file__).parents[2]
    assert 'address = "127.0.0.1"' in (root / ".streamlit" / "config.toml").read_text()
    assert streamlit(OPEN, "0.0.0.0", 8501).command.count("--server.address=0.0.0.0") == 1


NGINX = find_nginx()
NEEDS_NGINX = pytest.mark.skipif(
    NGINX is None, reason="nginx is not on this machine: apt-get install nginx"
)


@NEEDS_NGINX
@pytest.mark.parametrize(("count", "base"), [(1, ""), (2, "/gp"), (12, "")])
def test_nginx_takes_the_configuration(tmp_path, count, base):
    ports = list(range(9001, 9001 + count))
    text = configuration("127.0.0.1:9000", ports, str(tmp_path), base)
    file = tmp_path / "nginx.conf"
    file.write_text(text, encoding="utf-8")
    asked = [NGINX, "-t", "-p", str(tmp_path), "-c", str(file), "-e", "stderr"]
    answer = subprocess.run(asked, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert "proxy_request_buffering off" in text and "access_log off" in text
    assert f"location {base}/{count}/" in text


def test_without_nginx_several_processes_are_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ValueError, match="apt-get install nginx"):
        processes_of(Room(ADDRESS, processes=2), "127.0.0.1", 8501, tmp_path)
    assert "one process" in NO_NGINX


def test_a_process_that_ends_is_started_again():
    process = Process("It", [sys.executable, "-c", ""], {})
    process.start()
    first = process.running
    first.wait()
    assert process.look() == "It has ended (0) and starts again in 0 s."
    assert process.look() == "" and process.running is not first
    process.running.wait()
    assert "in 4 s" in process.look()
    again = process.running
    assert process.look() == "" and process.running is again
    process.wait(time.monotonic())


def test_the_health_address_says_numbers_in_prometheus_format():
    own = Server()
    try:
        own.frames.note()
        lines = metrics(own).splitlines()
    finally:
        own.stop()
    values = {}
    for line in lines:
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP \w+ .+\.|TYPE \w+ (gauge|counter))", line)
        else:
            name, value = re.fullmatch(r'(\w+(?:{\w+="\w+"})?) ([\d.]+)', line).groups()
            values[name] = float(value)
    assert values["dgp_frames_total"] == 1 and values["dgp_queue"] == values["dgp_viewers"] == 0
    assert values["dgp_frames_per_second"] == 1 / FRAMES_SECONDS
    assert values['dgp_runs{state="ready"}'] == 0
    assert values["dgp_memory_bytes"] > 1e7 or not os.path.exists("/proc/self/status")


def test_frames_a_second_are_those_of_lately():
    now = 0.0
    frames = Frames(lambda: now)
    for _ in range(50):
        now += 0.1
        frames.note()
    assert frames.rate() == 50 / FRAMES_SECONDS
    now += 2 * FRAMES_SECONDS
    assert frames.rate() == 0 and frames.total == 50


def test_what_is_no_message_is_refused_before_streamlit_logs_it():
    sent, heard, message = [], [], BackMsg()
    message.rerun_script.query_string = "v=1"
    told = [message.SerializeToString(), b"\xff\xfe rubbish"]

    async def receive():
        return {"type": "websocket.receive", "bytes": told.pop(0)}

    async def send(message):
        sent.append(message)

    async def app(scope, receive, send):
        heard.extend([await receive(), await receive()])

    scope = connection("/_stcore/stream", kind="websocket").scope
    asyncio.run(Entrance(app, OPEN, "")(scope, receive, send))
    assert [one["type"] for one in heard] == ["websocket.receive", "websocket.disconnect"]
    assert sent == [{"type": "websocket.close", "code": 1007, "reason": RUBBISH}]
