"""Fetching, against a server on this machine that fails, stalls, lies or sends the wrong file."""

import bz2
import dataclasses
import gzip
import hashlib
import io
import socket
import struct
import threading
import time
import tracemalloc
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from datasets import fetch
from datasets.fetch import SETS, FetchError, Remote

SHARED = Path(__file__).parents[3] / "shared" / "data"


class Server(ThreadingHTTPServer):
    """Serves `content`; `plan` says how each request in turn is treated, the last one for good."""

    daemon_threads = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.content: dict[str, bytes] = {}
        self.plan = ["serve"]
        self.etag = '"one"'
        self.asked: list[dict[str, str]] = []
        self.over = threading.Event()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"

    def handle_error(self, request, client_address):
        """A client that hangs up on a stalling server is what is tested, not an error."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        s = self.server
        how = s.plan[min(len(s.asked), len(s.plan) - 1)]
        s.asked.append(dict(self.headers))
        body = s.content[self.path.lstrip("/")]
        start = 0
        wanted = self.headers.get("Range", "")
        same = self.headers.get("If-Range", s.etag) == s.etag
        if wanted and same and how != "ignore range":
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        if how.isdigit():
            return self.send_error(int(how))
        if start >= len(body):
            return self.send_error(416)
        if how == "silent":
            s.over.wait(5)
            return None
        self.send_response(206 if start else 200)
        shift = 1 if how == "other range" else 0
        if start:
            self.send_header("Content-Range", f"bytes {start - shift}-{len(body) - 1}/{len(body)}")
        length = len(body) - start
        claimed = {"claim more": length + 1000, "claim less": length // 2}.get(how, length)
        if how != "no length":
            self.send_header("Content-Length", str(claimed))
        if s.etag:
            self.send_header("ETag", s.etag)
        self.end_headers()
        rest = body[start - shift if start else 0 :]
        if how in ("break", "stall"):
            rest = rest[: len(rest) // 2]
        self.wfile.write(rest)
        self.wfile.flush()
        if how == "stall":
            s.over.wait(5)
        return None


@pytest.fixture
def server():
    s = Server()
    thread = threading.Thread(target=s.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield s
    s.over.set()
    s.shutdown()
    s.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DGP_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def bring(one: fetch.Fetched, timeout=5.0, **options):
    """Load with the patience of a test; a test of a silent server has less of it."""
    return one.load(timeout=timeout, pause=0.01, **options)


def small(name: str, server: Server, contents: dict[str, bytes], rows: int | None, **changes):
    """A set whose files are on the test's server, and small."""
    server.content |= contents
    remotes = tuple(Remote(server.url(file), file) for file in contents)
    changes = {"files": lambda: remotes, "rows": rows, "output_mean": None, **changes}
    return dataclasses.replace(SETS[name], **changes)


RNG = np.random.default_rng(0)
POWER = np.round(RNG.normal(50, 10, (300, 5)), 2)


def text(table, delimiter=",", header="", fmt="%.18g") -> bytes:
    out = io.StringIO()
    np.savetxt(out, table, delimiter=delimiter, header=header, comments="", fmt=fmt)
    return out.getvalue().encode()


CSV = text(POWER, header="AT,V,AP,RH,PE")


@pytest.fixture
def power(server):
    return small("power", server, {"data.csv": CSV}, 300)


def checked(server, content=CSV):
    """The same with the checksum that it must have."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    remote = Remote(server.url("data.csv"), "data.csv", digest)
    return small("power", server, {"data.csv": CSV}, 300, files=lambda: (remote,))


def assert_is_power(d):
    assert np.array_equal(d.X, POWER[:, :4]) and np.array_equal(d.Y, POWER[:, 4:])


def test_a_set_is_downloaded_checked_and_kept(server, cache):
    steps = []
    power = checked(server)
    d = bring(power, progress=lambda *step: steps.append(step))
    assert_is_power(d)
    assert d.name == "power" and d.task == "regression" and d.input_names == power.inputs
    assert [p.name for p in cache.iterdir()] == ["power.npy"]
    loaded = [done for stage, done, total in steps if stage == "download"]
    assert loaded == sorted(loaded) and loaded[-1] == len(CSV)
    assert all(total == len(CSV) for stage, _, total in steps if stage == "download")
    assert steps[-1] == ("read", 300, 300)
    server.plan = ["500"]
    assert_is_power(bring(power))
    assert len(server.asked) == 1  # the second load asked nobody


def test_the_rows_are_mapped_from_the_disk_not_copied(power):
    d = bring(power)
    X = d.X
    while isinstance(X, np.ndarray) and not isinstance(X, np.memmap):
        X = X.base
    assert isinstance(X, np.memmap)


@pytest.mark.parametrize("plan", [["500", "503", "serve"], ["silent", "serve"], ["429", "serve"]])
def test_a_passing_fault_is_tried_again(server, power, plan):
    server.plan = plan
    assert_is_power(bring(power, timeout=0.3 if "silent" in plan else 5.0))
    assert len(server.asked) >= len(plan)


@pytest.mark.parametrize(
    ("plan", "sentence"),
    [
        ("500", r"answered 500 \(Internal Server Error\)"),
        ("404", r"answered 404 \(Not Found\)"),
        ("silent", "did not answer|fell silent"),
        ("stall", "fell silent for 0.3 s"),
        ("claim more", "connection ended at|shorter than promised"),
    ],
)
def test_a_lasting_fault_gets_a_sentence_and_no_set(server, power, cache, plan, sentence):
    server.plan = [plan]
    begun = time.monotonic()
    with pytest.raises(FetchError, match=sentence) as e:
        bring(power, timeout=0.3 if plan in ("silent", "stall") else 5.0)
    assert server.url("data.csv") in str(e.value)
    assert time.monotonic() - begun < 10
    assert len(server.asked) == (1 if plan == "404" else fetch.ATTEMPTS)
    assert not (cache / "power.npy").exists() and not (cache / "power" / "data.csv").exists()


@pytest.mark.parametrize("how", ["break", "stall"])
def test_a_download_goes_on_where_it_broke_off(server, how):
    power = checked(server)
    server.plan = [how, "serve"]
    assert_is_power(bring(power, timeout=0.3 if how == "stall" else 5.0))
    half = len(CSV) // 2
    assert "Range" not in server.asked[0] and server.asked[1]["Range"] == f"bytes={half}-"


def test_a_later_call_goes_on_too(server, cache):
    power = checked(server)
    server.plan = ["break", *["500"] * (fetch.ATTEMPTS - 1), "serve"]
    with pytest.raises(FetchError, match="are kept; the next try goes on from there"):
        bring(power)
    assert_is_power(bring(power))
    assert server.asked[-1]["Range"] == f"bytes={len(CSV) // 2}-"
    assert [p.name for p in cache.iterdir()] == ["power.npy"]


@pytest.mark.parametrize("plan", [["break", "ignore range"], ["break", "other range", "serve"]])
def test_an_answer_from_another_place_is_never_glued_on(server, power, plan):
    server.plan = plan
    assert_is_power(bring(power))
    assert len(server.asked) == len(plan) and "Range" in server.asked[1]
    assert "Range" not in server.asked[-1] or plan[-1] == "ignore range"


def test_a_file_that_changes_midway_is_not_mixed(server):
    other = text(POWER + 1, header="AT,V,AP,RH,PE")
    power = small("power", server, {"data.csv": other}, 300)
    server.plan = ["break", *["500"] * (fetch.ATTEMPTS - 1), "serve"]
    with pytest.raises(FetchError):
        bring(power)
    server.content["data.csv"], server.etag = CSV, '"two"'
    assert_is_power(bring(power))
    assert server.asked[-1]["If-Range"] == '"one"'


def test_a_part_longer_than_the_file_is_dropped(server, power, cache):
    (cache / "power").mkdir(parents=True)
    (cache / "power" / "data.csv.part").write_bytes(CSV + b"more of it")
    assert_is_power(bring(power))


def test_without_a_length_the_end_is_the_end(server, power):
    server.plan = ["no length"]
    server.etag = ""
    assert_is_power(bring(power))


def test_a_length_that_is_too_short_is_found_out(server, cache):
    server.plan = ["claim less"]
    with pytest.raises(FetchError, match="another file than expected"):
        bring(checked(server))
    assert not list(cache.rglob("*.part")) and not list(cache.rglob("*.npy"))
    with pytest.raises(FetchError, match="is not that set"):  # also where no checksum is known
        bring(small("power", server, {"data.csv": CSV}, 300))
    server.plan = ["serve"]
    assert_is_power(bring(checked(server)))


def test_a_wrong_checksum_is_refused(server, cache):
    power = checked(server, content=b"what it should be")
    with pytest.raises(FetchError, match="another file than expected.*thrown away"):
        bring(power)
    assert not list(cache.rglob("data.csv*"))


WRONG = {
    "a page": b"<html><body>Please log in</body></html>\n" * 400,
    "empty lines": b"\n" * 400,
    "too few rows": text(POWER[:299], header="AT,V,AP,RH,PE"),
    "too many rows": text(np.tile(POWER, (2, 1)), header="AT,V,AP,RH,PE"),
    "too few columns": text(POWER[:, :4], header="AT,V,AP,RH"),
    "words": CSV.replace(b",", b",x", 40),
    "not a number": CSV.replace(b"\n%.18g," % POWER[5, 0], b"\nnan,"),
    "a hole": CSV.replace(b"\n", b"\n,", 2),
    "bytes": RNG.bytes(5000),
    "other numbers": text(POWER + 1, header="AT,V,AP,RH,PE"),
}


@pytest.mark.parametrize("content", WRONG.values(), ids=list(WRONG))
def test_the_wrong_file_is_set_aside_with_a_sentence(server, cache, content):
    mean = float(POWER[:, 4].mean())
    power = small("power", server, {"data.csv": content}, 300, output_mean=mean)
    with pytest.raises(FetchError, match="is not that set: its? .*data.csv.wrong"):
        bring(power)
    assert {p.name for p in cache.rglob("*") if p.is_file()} == {"data.csv.wrong"}
    server.content["data.csv"] = CSV
    assert_is_power(bring(power))  # and the next try is not fooled by it


def test_reading_stops_at_a_file_without_end(power):
    def endless(paths):
        for _ in range(1000):
            yield POWER
        raise AssertionError("read on and on")

    with pytest.raises(FetchError, match="too many rows instead of 300"):
        bring(dataclasses.replace(power, read=endless))


def test_an_empty_answer_is_no_file(server, power):
    server.content["data.csv"] = b""
    with pytest.raises(FetchError):
        bring(power)


def test_without_a_network_a_sentence_says_what_to_do(server, cache, power):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    remote = Remote(f"http://127.0.0.1:{port}/data.csv", "data.csv")
    lost = dataclasses.replace(power, files=lambda: (remote,))
    with pytest.raises(FetchError, match="There is no network.*folder that holds") as e:
        bring(lost)
    # What it says to do works: the file, put there by hand.
    place = cache / "power" / "data.csv"
    assert str(place) in str(e.value)
    place.write_bytes(CSV)
    assert_is_power(bring(lost))


def test_a_damaged_cache_is_named(cache, power):
    bring(power)
    np.save(cache / "power.npy", POWER[:5])
    with pytest.raises(FetchError, match="power.npy is damaged: delete it"):
        bring(power)
    (cache / "power.npy").write_bytes(b"nothing")
    with pytest.raises(FetchError, match="power.npy is damaged: delete it"):
        bring(power)


def test_two_at_once_download_once(server, power):
    found = []
    threads = [threading.Thread(target=lambda: found.append(bring(power))) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 3 and len(server.asked) == 1
    for d in found:
        assert_is_power(d)


def test_a_cache_that_cannot_be_written_gets_a_sentence(tmp_path, monkeypatch, power):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("DGP_DATA", str(tmp_path / "file"))
    with pytest.raises(FetchError, match="cannot be written"):
        bring(power)


def test_the_cache_folder(monkeypatch, tmp_path):
    assert fetch.cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("DGP_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setattr("sys.platform", "linux")
    assert fetch.cache_folder() == tmp_path / "xdg" / "dgp-lab"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert fetch.cache_folder() == tmp_path / "local" / "dgp-lab"


# Each set's own format.


def archive(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, content in members.items():
            z.writestr(name, content)
    return out.getvalue()


def test_energy_takes_the_heating_load(server):
    T = RNG.normal(size=(40, 10))
    header = ",".join([*(f"X{i}" for i in range(1, 9)), "Y1", "Y2"])
    one = small("energy", server, {"data.csv": text(T, header=header)}, 40)
    d = bring(one)
    assert np.array_equal(d.X, T[:, :8]) and np.array_equal(d.Y, T[:, 8:9])


def test_kin8nm_s_header_may_be_quoted(server):
    T = RNG.normal(size=(40, 9))
    header = ",".join(f'"{n}"' for n in (*SETS["kin8nm"].inputs, "y"))
    d = bring(small("kin8nm", server, {"data.csv": text(T, header=header)}, 40))
    assert np.array_equal(np.hstack([d.X, d.Y]), T)


def test_naval_takes_the_compressor(server):
    T = RNG.normal(size=(40, 18))
    members = {
        "UCI CBM Dataset/data.txt": b"".join(
            b"   " + line + b" \n" for line in text(T, delimiter="   ").splitlines()
        ),
        "UCI CBM Dataset/README.txt": b"words",
        "__MACOSX/UCI CBM Dataset/._data.txt": b"junk",
    }
    d = bring(small("naval", server, {"naval.zip": archive(members)}, 40))
    assert np.array_equal(d.X, T[:, :16]) and np.array_equal(d.Y, T[:, 16:17])


@pytest.mark.parametrize(
    ("name", "member", "header", "width"),
    [("protein", "CASP.csv", True, 10), ("year", "YearPredictionMSD.txt", False, 91)],
)
def test_protein_and_year_have_their_output_first(server, name, member, header, width):
    T = RNG.normal(size=(40, width))
    content = text(T, header=",".join("RMSD" + str(i) for i in range(width)) if header else "")
    content = content if header else content.lstrip(b"\n")
    d = bring(small(name, server, {"a.zip": archive({member: content})}, 40))
    assert np.array_equal(d.X, T[:, 1:]) and np.array_equal(d.Y, T[:, :1])


def collisions(rows: int, inputs: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    return np.column_stack([rng.integers(2, size=rows), rng.normal(size=(rows, inputs))])


@pytest.mark.parametrize("name", ["higgs", "susy"])
def test_collisions_stream_from_a_gz_in_a_zip(server, name, monkeypatch):
    monkeypatch.setattr(fetch, "ROWS", 64)
    T = collisions(300, len(SETS[name].inputs))
    inner = gzip.compress(text(T, fmt="%.18e"))
    d = bring(small(name, server, {"a.zip": archive({f"{name.upper()}.csv.gz": inner})}, 300))
    assert np.array_equal(d.X, T[:, 1:]) and np.array_equal(d.Y, T[:, :1])
    assert d.task == "binary" and d.classes == ("background", "signal")


def test_a_large_set_is_never_whole_in_memory(server, monkeypatch):
    monkeypatch.setattr(fetch, "ROWS", 200)
    T = collisions(20_000, 28)
    inner = gzip.compress(text(T, fmt="%.7e"), 1)
    one = small("higgs", server, {"a.zip": archive({"HIGGS.csv.gz": inner})}, 20_000)
    bring_once = bring(one)  # the download and all imports are behind us
    path = fetch.cache_folder() / "higgs.npy"
    path.unlink()
    del bring_once
    (fetch.cache_folder() / "higgs").mkdir()
    (fetch.cache_folder() / "higgs" / "a.zip").write_bytes(server.content["a.zip"])
    tracemalloc.start()
    try:
        bring(one)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > T.nbytes > 4 * peak


@pytest.mark.parametrize(
    "content",
    [
        b"no zip",
        archive({"HIGGS.csv.gz": b"no gz"}),
        archive({"HIGGS.csv.gz": gzip.compress(text(collisions(50, 28)))[:-200]}),
        archive({"a.csv.gz": b"", "b.csv.gz": b""}),
        archive({"README": b""}),
        archive({"HIGGS.csv.gz": gzip.compress(text(collisions(50, 28)))})[:-30],
        archive({"HIGGS.csv.gz": gzip.compress(text(collisions(50, 28) + 3))}),
    ],
    ids=["no zip", "no gz", "gz cut", "two files", "none", "zip cut", "labels 3 and 4"],
)
def test_damaged_archives_are_named(server, content):
    with pytest.raises(FetchError, match="is not that set"):
        bring(small("higgs", server, {"a.zip": content}, 50))


def test_rectangles_are_training_rows_then_test_rows(server):
    T = np.hstack([RNG.uniform(size=(30, 784)).round(4), RNG.integers(2, size=(30, 1))])
    members = {
        "rectangles_im_test.amat": text(T[10:], delimiter=" "),
        "rectangles_im_train.amat": text(T[:10], delimiter=" "),
    }
    d = bring(small("rectangles_images", server, {"a.zip": archive(members)}, 30))
    assert np.array_equal(np.hstack([d.X, d.Y]), T)


def idx(a: np.ndarray) -> bytes:
    head = bytes([0, 0, 8, a.ndim]) + struct.pack(f">{a.ndim}I", *a.shape)
    return head + a.astype(np.uint8).tobytes()


def test_mnist_is_scaled_and_checked_by_content(server, monkeypatch):
    parts = [RNG.integers(256, size=(6, 28, 28)), np.arange(6)]
    parts += [RNG.integers(256, size=(4, 28, 28)), np.arange(4)]
    files = {}
    for name, part in zip(list(fetch._MNIST), parts, strict=True):
        files[name + ".gz"] = gzip.compress(idx(part))
        monkeypatch.setitem(fetch._MNIST, name, hashlib.sha256(idx(part)).hexdigest())
    d = bring(small("mnist", server, files, 10))
    assert np.array_equal(d.X * 255, np.concatenate(parts[::2]).reshape(10, 784))
    assert d.Y[:, 0].tolist() == [*range(6), *range(4)]
    files["t10k-labels-idx1-ubyte.gz"] = gzip.compress(idx(np.arange(4)[::-1]))
    (fetch.cache_folder() / "mnist.npy").unlink()
    with pytest.raises(FetchError, match="checksum of t10k-labels-idx1-ubyte is wrong"):
        bring(small("mnist", server, files, 10))


COLUMNS = "Month,DayofMonth,DayOfWeek,DepTime,ArrTime,TailNum,AirTime,ArrDelay,Distance"
FLIGHTS = f"""Year,{COLUMNS},Cancelled,Diverted
2008,1,3,4,2003,2211,N1,116,-14,810,0,0
2008,4,30,3,5,1459,N2,40,2,185,0,0
2008,5,1,4,900,1000,N1,40,2,185,0,0
2008,12,1,1,900,1000,N1,40,2,185,0,0
2008,2,1,5,900,1000,N1,40,2,185,1,0
2008,2,1,5,900,1000,N1,40,2,185,0,1
2008,2,1,5,900,NA,N1,40,2,185,0,0
2008,2,1,5,900,1000,N9,40,2,185,0,0
2008,2,1,5,900,1000,N3,40,2,185,0,0
2008,2,1,5,900,1000,N4,40,2,185,0,0
"""
PLANES = "tailnum,type,year\nN1,x,1999\nN2,x,2006\nN3,x,None\nN4,x,0\nN5\n"


@pytest.mark.parametrize("separator", [",", "\t"])
def test_the_airline_joins_flights_and_planes(server, separator):
    files = {
        "2008.csv.bz2": bz2.compress(FLIGHTS.encode()),
        "plane-data.csv": PLANES.replace(",", separator).encode(),
    }
    d = bring(small("airline", server, files, 2))
    rows = sorted(np.hstack([d.X, d.Y]).tolist())
    assert rows == [
        [1, 3, 4, 9, 116, 810, 22 * 60 + 11, 20 * 60 + 3, -14],
        [4, 30, 3, 2, 40, 185, 14 * 60 + 59, 5, 2],
    ]
    assert d.input_names[3:6] == ("plane_age", "air_time", "distance")


def test_the_airline_draws_its_rows_by_chance_but_always_the_same(server, monkeypatch):
    monkeypatch.setattr(fetch, "AIRLINE_ROWS", 20)
    head, row = FLIGHTS.splitlines()[:2]
    lines = [row.replace("-14", str(i)) for i in range(100)]
    files = {"f.bz2": bz2.compress("\n".join([head, *lines]).encode()), "p": PLANES.encode()}
    drawn = []
    for _ in range(2):
        drawn.append(bring(small("airline", server, files, 20)).Y[:, 0].tolist())
        (fetch.cache_folder() / "airline.npy").unlink()
    assert drawn[0] == drawn[1] and len(set(drawn[0])) == 20 and drawn[0] != sorted(drawn[0])


def test_damaged_bz2_and_missing_columns_are_named(server):
    for content in (b"no bz2", bz2.compress(FLIGHTS.encode())[:-9], bz2.compress(b"a,b\n1,2\n")):
        files = {"2008.csv.bz2": content, "plane-data.csv": PLANES.encode()}
        with pytest.raises(FetchError, match="is not that set"):
            bring(small("airline", server, files, 2))


def rides(**columns) -> bytes:
    base = {
        "pickup_at": np.array(
            ["2015-01-15T19:05:39", "2015-01-31T00:00:59", "2015-02-01T10:00"], "datetime64[us]"
        ),
        "dropoff_at": np.array(
            ["2015-01-15T19:23:42", "2015-01-31T00:01:04", "2015-02-01T11:00"], "datetime64[us]"
        ),
        "pickup_latitude": np.array([40.75, 40.7, 40.7], np.float32),
        "pickup_longitude": np.array([-73.99, -73.9, 0], np.float32),
        "dropoff_latitude": np.array([40.76, 40.7, 40.7], np.float32),
        "dropoff_longitude": np.array([-73.97, -73.9, -73.9], np.float32),
        "trip_distance": np.array([1.59, 1, 1], np.float32),
        "passenger_count": np.array([1, 1, 1]),
    }
    out = io.BytesIO()
    table = {k: v for k, v in (base | columns).items() if v is not None}
    pq.write_table(pa.table(table), out)
    return out.getvalue()


def test_taxi_rides_keep_what_is_sane(server):
    """The first ride stays; the second takes 5 s, the third starts in the sea."""
    one = small("taxi", server, {"data.parquet": rides()}, None)
    d = bring(one)
    assert d.X.shape == (1, 9)
    # Thursday the 15th of January 2015, 19:05, for 18 min 3 s.
    expected = [19 * 60 + 5, 3, 15, 1, 40.75, -73.99, 40.76, -73.97, 1.59]
    assert np.allclose(d.X[0], expected, atol=1e-5) and d.Y.tolist() == [[18 * 60 + 3]]


def test_taxi_rides_without_a_time_or_place_are_left(server):
    pickup = pa.array([None, None, None], pa.timestamp("us"))
    with pytest.raises(FetchError, match="0 rows instead of some"):
        bring(small("taxi", server, {"data.parquet": rides(pickup_at=pickup)}, None))
    with pytest.raises(FetchError, match="lacks the columns pickup_latitude"):
        bring(small("taxi", server, {"data.parquet": rides(pickup_latitude=None)}, None))
    with pytest.raises(FetchError, match="is not that set"):
        bring(small("taxi", server, {"data.parquet": b"PAR1 no parquet PAR1"}, None))


def test_taxi_months():
    (remote,) = SETS["taxi"].files(month="2012-11")
    assert remote.url.endswith("/2012/11/data.parquet")
    for month in ("2012-13", "../../etc", "2019-01", "2012"):
        with pytest.raises(FetchError):
            SETS["taxi"].load(month=month)


# A folder of .npz files.


def test_a_folder_of_npz_is_read_instead(tmp_path, power):
    np.savez(tmp_path / "power.npz", X=POWER[:, :4], y=POWER[:, 4])
    assert_is_power(power.load(folder=tmp_path))
    np.savez(tmp_path / "power.npz", X=POWER[:, :4], Y=POWER[:, 4:])
    assert_is_power(power.load(folder=str(tmp_path)))


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        (None, "is not there"),
        ({"X": POWER[:, :4]}, "no .npz file with the arrays X and y"),
        ({"X": POWER[:, :3], "y": POWER[:, 4]}, "300 rows and 3 inputs; power has 300 rows and 4"),
        ({"X": POWER[:9, :4], "y": POWER[:9, 4]}, "9 rows and 4 inputs"),
        ({"X": POWER[:, :4], "y": POWER[:9, 4]}, r"X must be \(N, D\)"),
        ({"X": POWER[:, :4], "y": np.array([{}] * 300)}, "no .npz file"),
        ({"X": POWER[:, :4].astype(str), "y": np.array(["a"] * 300)}, "no .npz file"),
        ({"X": POWER[:, :4], "y": np.full(300, np.nan)}, "finite"),
    ],
)
def test_a_folder_that_does_not_fit_gets_a_sentence(tmp_path, power, arrays, sentence):
    if arrays:
        np.savez(tmp_path / "power.npz", **arrays)
    with pytest.raises(ValueError, match=sentence):
        power.load(folder=tmp_path)


def test_an_npz_that_is_none_gets_a_sentence(tmp_path, power):
    (tmp_path / "power.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(FetchError, match="no .npz file"):
        power.load(folder=tmp_path)


# What is stated, held against the reference rows.


def reference(path: str) -> Path:
    if not (SHARED / path).exists():
        pytest.skip("the reference rows (../shared/data) are not here")
    return SHARED / path


@pytest.mark.parametrize("name", ["energy", "kin8nm", "power"])
def test_the_reference_rows_fit_the_stated_shape_and_mean(name):
    d = SETS[name].load(folder=reference(f"uci/{name}.npz").parent)
    stated = SETS[name].output_mean
    assert stated and np.isclose(d.Y.mean(), stated, rtol=1e-5)


def test_the_power_plant_s_checksum_is_that_of_its_rows():
    with np.load(reference("uci/power.npz"), allow_pickle=False) as z:
        content = text(np.column_stack([z["X"], z["y"]]), header="AT,V,AP,RH,PE", fmt="%g")
    (remote,) = SETS["power"].files()
    assert remote.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_mnist_s_checksums_are_those_of_its_digits():
    with np.load(reference("mnist/mnist.npz"), allow_pickle=False) as z:
        for part, prefix in (("train", "train"), ("test", "t10k")):
            for kind, name in (("x", "images-idx3"), ("y", "labels-idx1")):
                content = idx(z[f"{kind}_{part}"])
                stated = fetch._MNIST[f"{prefix}-{name}-ubyte"]
                assert hashlib.sha256(content).hexdigest() == stated


def test_every_set_says_where_it_comes_from():
    for one in SETS.values():
        for remote in one.files():
            assert remote.url.startswith(("https://", "http://www.iro.umontreal.ca/"))
            algorithm, _, value = remote.digest.partition(":")
            assert not remote.digest or len(value) == {"sha256": 64, "sha1": 40}[algorithm]
        names = [remote.name for remote in one.files()]
        assert len(set(names)) == len(names) and not any("/" in n for n in names)
