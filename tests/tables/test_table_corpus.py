"""Awkward files, each with what must come out: the cells and decisions, or the named error."""

import gzip
import io
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from dgp_core.tables.table import Limits, TableError, read_table

N, D, C, B, X = "number", "date", "category", "boolean", "dropped"


@dataclass
class Good:
    """A file that is a table: its cells, and the kinds and sentences that must be there."""

    data: bytes
    cells: dict
    kinds: str = ""
    """The first letter of each column's kind, x for dropped, in order."""
    says: tuple = ()
    """Words that must be in the notes or in a column's reason."""
    rows_in: int | None = None


@dataclass
class Bad:
    """A file that is none: words of the sentence that must be said."""

    data: bytes
    says: str
    limits: Limits = field(default_factory=Limits)


def pq(**columns) -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


AB = {"a": [1, 3], "b": [2, 4]}
TEN = b"\n".join(b"%d,%d" % (i, i * i % 7) for i in range(10))
DAY = 86_400_000_000


def day(text: str) -> np.datetime64:
    return np.datetime64(text, "us")


CORPUS = {
    # How text is coded and rows end.
    "plain": Good(b"a,b\n1,2\n3,4\n", AB, "nn", ("UTF-8", "commas"), 2),
    "no newline at the end": Good(b"a,b\n1,2\n3,4", AB),
    "windows line ends": Good(b"a,b\r\n1,2\r\n3,4\r\n", AB),
    "old mac line ends": Good(b"a,b\r1,2\r3,4\r", AB),
    "control-z at the end": Good(b"a,b\r\n1,2\r\n3,4\r\n\x1a", AB),
    "utf-8 mark": Good("\ufeffa,b\n1,2\n3,4\n".encode(), AB, says=("byte-order mark",)),
    "utf-16 mark, little": Good("\ufeffa,b\n1,2\n3,4\n".encode("utf-16-le"), AB, says=("UTF-16",)),
    "utf-16 mark, big": Good("\ufeffa,b\n1,2\n3,4\n".encode("utf-16-be"), AB, says=("UTF-16",)),
    "utf-16 without mark": Good("a,b\n1,2\n3,4\n".encode("utf-16-le"), AB, says=("UTF-16",)),
    "utf-32": Good("a,b\n1,2\n3,4\n".encode("utf-32"), AB, says=("UTF-32",)),
    "latin-1": Good(
        "größe;stück\n1;2\n3;4\n".encode("latin-1"),
        {"größe": [1, 3], "stück": [2, 4]},
        says=("Latin-1",),
    ),
    "windows-1252": Good(
        "price in €,b\n1,2\n3,4\n".encode("cp1252"), {"price in €": [1, 3], "b": [2, 4]}
    ),
    "latin-1 that windows lacks": Good(
        b"a\xe4,b\n1,x\x81\n3,y\n", {"aä": [1, 3], "b": ["x\x81", "y"]}, says=("Latin-1",)
    ),
    "greek and chinese": Good("λ,数\n1,2\n3,4\n".encode(), {"λ": [1, 3], "数": [2, 4]}),
    "gzip": Good(gzip.compress(b"a,b\n1,2\n3,4\n"), AB),
    "gzip in two members": Good(gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n"), AB),
    "gzip of utf-16": Good(gzip.compress("a\tb\n1\t2\n3\t4\n".encode("utf-16")), AB),
    # Delimiters.
    "semicolons": Good(b"a;b\n1;2\n3;4\n", AB, says=("semicolons",)),
    "tabs": Good(b"a\tb\n1\t2\n3\t4\n", AB, says=("tabs",)),
    "tabs with empty cells": Good(
        b"a\tb\tc\n1\t\t2\n\t3\t4\n", {"a": [1, None], "b": [None, 3], "c": [2, 4]}
    ),
    "bars": Good(b"a|b\n1|2\n3|4\n", AB, says=("bars",)),
    "spaces": Good(b"a b\n1 2\n3 4\n", AB, says=("spaces",)),
    "aligned with many spaces": Good(b"   a    b\n   1    2\n   3    4\n", AB),
    "spaces and tabs": Good(b"a \t b\n1\t2\n3  4\n", AB),
    "spaces with quoted words": Good(
        b'a b\n1 "two words"\n3 "and more"\n', {"a": [1, 3], "b": ["two words", "and more"]}
    ),
    "excel's sep line": Good(b"sep=;\na;b\n1;2\n3;4\n", AB, says=("semicolons",)),
    "an odd sep": Good(b"sep=^\na^b\n1^2\n3^4\n", AB),
    "a delimiter at every end": Good(
        b"a,b,\n1,2,\n3,4,\n", {**AB, "column 3": [None, None]}, "nnx", ("missing",)
    ),
    "a delimiter at row ends only": Good(b"a,b\n1,2,\n3,4,\n", {**AB, "column 3": [None, None]}),
    "spaces around": Good(b" a , b \n 1 , 2\n3 ,  4 \n", AB),
    "space before a quote": Good(
        b'a, b\n1, "x, y"\n3, "z"\n', {"a": [1, 3], "b": ["x, y", "z"]}
    ),
    "markdown table": Good(
        b"| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
        {"column 1": [None] * 3, "a": [None, 1, 3], "b": [None, 2, 4], "column 4": [None] * 3},
        "xnnx",
    ),
    # Decimal signs and thousands.
    "decimal comma": Good(b"a;b\n1,5;2\n3,25;4\n", {"a": [1.5, 3.25], "b": [2, 4]}, "nn",
                          ("comma is the decimal mark",)),
    "decimal comma, three digits": Good(b"a;b\n1,125;2,5\n3,250;4\n",
                                        {"a": [1.125, 3.25], "b": [2.5, 4]}),
    "decimal comma and points for thousands": Good(
        b"a;b\n1.234,5;7\n12,25;8\n1.000.000;9\n", {"a": [1234.5, 12.25, 1e6], "b": [7, 8, 9]},
        says=("points separate the thousands",)),
    "decimal comma, tabs": Good(b"a\tb\n1,5\t2\n3,25\t4\n", {"a": [1.5, 3.25], "b": [2, 4]}),
    "decimal comma, spaces": Good(b"a b\n1,5 2\n3,25 4\n", {"a": [1.5, 3.25], "b": [2, 4]}),
    "decimal comma in quotes": Good(b'a,b\n"1,5",2\n"3,25",4\n', {"a": [1.5, 3.25], "b": [2, 4]}),
    "thousands in quotes": Good(b'a,b\n"1,234",2\n"1,234,567.5",4\n',
                                {"a": [1234, 1234567.5], "b": [2, 4]},
                                says=("commas separate the thousands",)),
    "thousands by spaces": Good("a;b\n1 234;2\n12\u00a0345,5;4\n".encode(),
                                {"a": [1234, 12345.5], "b": [2, 4]}),
    "thousands by apostrophes": Good(b"a;b\n1'234.5;2\n12;4\n", {"a": [1234.5, 12], "b": [2, 4]},
                                     says=("apostrophes",)),
    "money and percent": Good("a,b\n$1,50%\n-$3,25 %\n€5,1%\n".encode(),
                              {"a": [1, -3, 5], "b": [50, 25, 1]}, says=("signs are taken off",)),
    "exponents and bare points": Good(b"a,b\n1e3,.5\n-2.5E-1,5.\n+7,0\n",
                                      {"a": [1000, -0.25, 7], "b": [0.5, 5, 0]}),
    "a long minus": Good("a,b\n−1,2\n3,4\n".encode(), {"a": [-1, 3], "b": [2, 4]}),
    # Headers.
    "no header": Good(b"1,2\n3,4\n", {"column 1": [1, 3], "column 2": [2, 4]}, "nn",
                      ("no header",)),
    "no header, words too": Good(b"1,x\n3,y\n1,x\n2,x\n",
                                 {"column 1": [1, 3, 1, 2], "column 2": ["x", "y", "x", "x"]}),
    "no header, words only": Good(b"red,yes\nblue,no\nred,yes\n",
                                  {"column 1": ["red", "blue", "red"],
                                   "column 2": ["yes", "no", "yes"]}, "cb"),
    "header over words only": Good(b"colour,ok\nblue,no\nred,yes\nred,no\n",
                                   {"colour": ["blue", "red", "red"], "ok": ["no", "yes", "no"]}),
    "header and one row": Good(b"a,b\n1,2\n", {"a": [1], "b": [2]}),
    "pandas' own columns": Good(b",0,1\n0,1.5,2\n1,3.5,4\n2,1,1\n",
                                {"column 1": [0, 1, 2], "0": [1.5, 3.5, 1], "1": [2, 4, 1]}, "xnn",
                                ("identifier",)),
    "years for names": Good(b"land,1990,1991,1992\nFR,1.5,2,3\nDE,4,5.5,6\nFR,1,2,2\n",
                            {"land": ["FR", "DE", "FR"], "1990": [1.5, 4, 1], "1991": [2, 5.5, 2],
                             "1992": [3, 6, 2]}),
    "R's row names": Good(b'"a" "b"\n"r1" 1 2\n"r2" 3 4\n"r3" 5 1\n',
                          {"column 1": ["r1", "r2", "r3"], "a": [1, 3, 5], "b": [2, 4, 1]}, "xnn"),
    "the same name twice": Good(b"a,a,a (2)\n1,2,5\n3,4,6\n",
                                {"a": [1, 3], "a (3)": [2, 4], "a (2)": [5, 6]}, says=("again",)),
    "empty names": Good(b"a,,b\n1,5,2\n3,7.5,4\n",
                        {"a": [1, 3], "column 2": [5, 7.5], "b": [2, 4]}, "nnn", ("no name",)),
    "a name over two lines": Good(b'"a\nlong",b\n1,2\n3,4\n', {"a long": [1, 3], "b": [2, 4]}),
    "comments above": Good(b"# made by hand\n# in May\na,b\n1,2\n3,4\n", AB, says=("skipped",)),
    "names in the last comment": Good(b"# numpy\n# a b\n1 2\n3 4\n", AB),
    "comments between rows": Good(b"#x\na,b\n1,2\n# stop\n3,4\n", AB, says=("comment",)),
    "a title above": Good(b"Sales 2024\n\na,b,c\n1,2,3\n4,5,7\n",
                          {"a": [1, 4], "b": [2, 5], "c": [3, 7]}, says=("Sales 2024",)),
    "blank lines": Good(b"\n\na,b\n\n1,2\n   \n3,4\n\n", AB),
    "a name that is very long": Good(b"a" * 5000 + b",b\n1,2\n3,4\n",
                                     {"a" * 199 + "…": [1, 3], "b": [2, 4]}),
    "a name with control characters": Good(b"a\x1b[31m,b\n1,2\n3,4\n", {"a [31m": [1, 3],
                                                                        "b": [2, 4]}),
    # Rows and quotes.
    "quoted newlines and quotes": Good(b'a,b\n1,"x\ny"\n3,"he said ""no"", so"\n',
                                       {"a": [1, 3], "b": ["x\ny", 'he said "no", so']}),
    "a quote that never closes": Good(b'a,b\n1,"x\n2,y\n3,z\n',
                                      {"a": [1, 2, 3], "b": ['"x', "y", "z"]},
                                      says=("not closed",)),
    "inches": Good(b'a,b\n1,5" wide\n2,7" wide\n3,y\n',
                   {"a": [1, 2, 3], "b": ['5" wide', '7" wide', "y"]}),
    "short rows": Good(b"a,b,c\n1,2,3\n4,5\n6,7,8\n",
                       {"a": [1, 4, 6], "b": [2, 5, 7], "c": [3, None, 8]},
                       says=("too short", "row 2")),
    "a long row": Good(b"a,b\n1,2\n3,4,5\n6,7\n", {"a": [1, 6], "b": [2, 7]},
                       says=("left out", "row 2"), rows_in=3),
    "a total at the foot": Good(b"a,b\n" + TEN + b"\nTotal: 10 rows\n",
                                {"a": [*map(str, range(10)), "Total: 10 rows"],
                                 "b": [i * i % 7 for i in range(10)] + [None]},
                                "nn", ("Total: 10 rows",)),
    "a late word": Good(b"a,b\n" + TEN + b"\nten,3\n",
                        {"a": [*map(str, range(10)), "ten"],
                         "b": [i * i % 7 for i in range(10)] + [3]}, "nn", ("ten",)),
    # Cells that are missing, endless or true.
    "missing in many spellings": Good(
        ("a,b\n" + "".join(f"{m},1\n1,2\n2,3\n" for m in (
            "NA", "N/A", "n/a", "null", "NULL", "None", "-", "?", "nan", "NaN", "", "#N/A",
            "missing", "Missing", " NA ", ".", "--", "\\N", "#DIV/0!", "<NA>", "NaT",
            '"NA"', '""'))).encode(),
        {"a": [None, 1, 2] * 23, "b": [1, 2, 3] * 23}, "nn"),
    "infinities": Good(b"a,b\n1,2\ninf,3\n-Infinity,4\n5,1\n7,1\n",
                       {"a": [1, None, None, 5, 7], "b": [2, 3, 4, 1, 1]}, "nn",
                       ("2 infinite cells",)),
    "numbers beyond float64": Good(b"a,b\n1e999,2\n3,3\n4,4\n",
                                   {"a": [None, 3, 4], "b": [2, 3, 4]}, says=("infinite",)),
    "yes and no": Good(b"a,b\nyes,1\nNo,2\nYES,3\n", {"a": ["yes", "No", "YES"], "b": [1, 2, 3]},
                       "bn"),
    "true and false, with holes": Good(b"a,b\nTRUE,1\n,2\nFALSE,4\n",
                                       {"a": ["TRUE", None, "FALSE"], "b": [1, 2, 4]}, "bn"),
    "0 and 1": Good(b"a,b\n0,1\n1,2\n0,4\n", {"a": [0, 1, 0], "b": [1, 2, 4]}, "bn"),
    "mostly missing": Good(b"a,b\n1,1\n,2\n,4\n2,5\n,7\n",
                           {"a": [1, None, None, 2, None], "b": [1, 2, 4, 5, 7]}, "xn",
                           ("3 of 5",)),
    # Columns that say little.
    "constant": Good(b"a,b,c\n1,2,x\n1,4,x\n1,5,x\n",
                     {"a": [1, 1, 1], "b": [2, 4, 5], "c": ["x"] * 3}, "xnx", ("Every cell is 1",)),
    "the same column twice": Good(b"a,b,c\n1,2,1\n3,4,3\n", {**AB, "c": [1, 3]}, "nnx",
                                  ("same as in “a”",)),
    "the same words twice": Good(b"a,b,c\nu,2,u\nv,4,v\nu,5,u\n",
                                 {"a": ["u", "v", "u"], "b": [2, 4, 5], "c": ["u", "v", "u"]},
                                 "cnx", ("same as in “a”",)),
    "an identifier": Good(b"user_id,b\n17,2\n4,4\n99,4\n", {"user_id": [17, 4, 99], "b": [2, 4, 4]},
                          "xn", ("identifier",)),
    "a row counter with a real name": Good(b"time,b\n1,2\n2,4\n3,4\n",
                                           {"time": [1, 2, 3], "b": [2, 4, 4]}, "nn",
                                           ("count the rows",)),
    "names of people": Good(b"who,b\nAnn Lee,2\nBo,4\nCy,4\n",
                            {"who": ["Ann Lee", "Bo", "Cy"], "b": [2, 4, 4]}, "xn", ("free text",)),
    "codes with zeros": Good(b"zip,b\n01234,2\n02345,4\n99999,4\n",
                             {"zip": ["01234", "02345", "99999"], "b": [2, 4, 4]}, "xn",
                             ("leading zeros",)),
    "months with zeros": Good(b"month,b\n01,2\n02,4\n12,4\n",
                              {"month": ["01", "02", "12"], "b": [2, 4, 4]}, "nn"),
    "numbers too long": Good(b"a,b\n9007199254740993,2\n9007199254740994,4\n9007199254740995,4\n",
                             {"a": ["9007199254740993", "9007199254740994", "9007199254740995"],
                              "b": [2, 4, 4]}, "xn", ("too long",)),
    "numbers and words": Good(b"a,b\n1,2\n2,4\n3+,4\n1,5\n2,6\n3+,7\n",
                              {"a": ["1", "2", "3+"] * 2, "b": [2, 4, 4, 5, 6, 7]}, "cn",
                              ("mixed",)),
    "too many words": Good(b"a,b\n" + b"".join(b"w%d,%d\n" % (i % 25, i) for i in range(100)),
                           {"a": [f"w{i % 25}" for i in range(100)], "b": list(range(100))}, "cn",
                           ("25 different words: the 19 most frequent",)),
    # Dates.
    "iso dates": Good(b"t,b\n2024-01-31,2\n2024-02-29,4\n", {"t": ["2024-01-31", "2024-02-29"],
                                                             "b": [2, 4]}, "dn"),
    "day first, since 31": Good(b"t,b\n31/01/2024,2\n01/02/2024,4\n",
                                {"t": ["31/01/2024", "01/02/2024"], "b": [2, 4]}, "dn",
                                ("day first",)),
    "month first, since 31": Good(b"t,b\n01/31/2024,2\n02/01/2024,4\n",
                                  {"t": ["01/31/2024", "02/01/2024"], "b": [2, 4]}, "dn",
                                  ("month first",)),
    "day or month": Good(b"t,b\n01/02/2024,2\n05/01/2024,4\n03/04/2024,5\n",
                         {"t": ["01/02/2024", "05/01/2024", "03/04/2024"], "b": [2, 4, 5]}, "dn",
                         ("both ways",)),
    "compact dates": Good(b"t,b\n20240131,2\n20240229,4\n", {"t": [20240131, 20240229],
                                                             "b": [2, 4]}, "dn", ("20240131",)),
    "no date on the 31st of February": Good(
        b"t,b\n" + b"".join(b"2024-01-%02d,%d\n" % (i, i % 3) for i in range(1, 12))
        + b"2024-02-31,1\n",
        {"t": [f"2024-01-{i:02d}" for i in range(1, 12)] + ["2024-02-31"],
         "b": [i % 3 for i in range(1, 12)] + [1]}, "dn", ("2024-02-31",)),
    # Parquet.
    "parquet": Good(pq(a=[1, 3], b=[2.0, None], c=["x", None]),
                    {"a": [1, 3], "b": [2, None], "c": ["x", None]}, "nxx", ("Parquet",)),
    "parquet, odd types": Good(
        pq(a=pa.array([1, 3, 2], pa.uint8()), t=pa.array([0, None, DAY], pa.timestamp("us")),
           z=pa.array([0, 1, 2], pa.timestamp("ns", "Europe/Paris")), f=[True, False, True],
           g=pa.array([[1], [2], []]), e=pa.array(["u", "v", "u"]).dictionary_encode(),
           h=pa.array([1.5, float("inf"), 2], pa.float32()), n=pa.nulls(3),
           d=pa.array([0, 1, 2], pa.date32())),
        {"a": [1, 3, 2], "t": [day("1970-01-01"), None, day("1970-01-02")],
         "z": [day("1970-01-01")] * 3, "f": ["true", "false", "true"], "g": [None] * 3,
         "e": ["u", "v", "u"], "h": [1.5, None, 2], "n": [None] * 3,
         "d": [day("1970-01-01"), day("1970-01-02"), day("1970-01-03")]}, "ndxbxcnxd",
        ("list<", "1 infinite")),
    "parquet, long whole numbers": Good(
        pq(a=[2**60, 2**60 + 1, 3], b=[1, 2, 4]),
        {"a": [str(2**60), str(2**60 + 1), "3"], "b": [1, 2, 4]}, "xn"),
    # No table at all.
    "nothing": Bad(b"", "empty"),
    "blank": Bad(b"\n  \n\n", "blank"),
    "header only": Bad(b"a,b\n", "no rows"),
    "comments only": Bad(b"# a\n# b\n", "no rows"),
    "prose": Bad(b"It was a bright cold day in April, and the clocks\nwere striking thirteen."
                 b" Winston Smith,\nhis chin nuzzled into his breast in an effort to escape\n",
                 "No table"),
    "one column of words": Bad(b"alpha\nbeta\ngamma\n", "No table"),
    "a web page": Bad(b"<!DOCTYPE html><html><body>404, not found</body></html>", "web page"),
    "json": Bad(b'[{"a": 1, "b": 2}, {"a": 3, "b": 4}]', "JSON"),
    "excel": Bad(b"PK\x03\x04" + bytes(100), "Excel"),
    "pdf": Bad(b"%PDF-1.7\n1 0 obj", "PDF"),
    "a picture": Bad(b"\x89PNG\r\n\x1a\n" + bytes(50), "picture"),
    "random bytes": Bad(bytes(range(256)) * 8, "not text"),
    "zero bytes inside": Bad(b"a,b\n1,2\n3,\x00\n", "not text"),
    "gzip cut short": Bad(gzip.compress(b"a,b\n" + TEN)[:-12], "damaged"),
    "gzip of nothing": Bad(gzip.compress(b""), "nothing"),
    "gzip of gzip": Bad(gzip.compress(gzip.compress(b"a,b\n1,2\n")), "inside"),
    "half of utf-16": Bad("a,b\n1,2\n".encode("utf-16") + b"\x00\xd8", "UTF-16"),
    "false utf-8 mark": Bad(b"\xef\xbb\xbfa,b\n\xff,2\n", "UTF-8"),
    "parquet cut short": Bad(pq(a=[1, 2])[:-20], "damaged"),
    "parquet without rows": Bad(pq(a=pa.array([], pa.int64())), "no rows"),
    "uneven everywhere": Bad(b"1 2 3\n4 5\n6 7 8 9\n1\n2 3 4 5 6\n", "No table"),
    "too many rows": Bad(b"a,b\n" + TEN, "9 rows", Limits(rows=9)),
    "too many columns": Bad(b"a,b,c\n1,2,3\n", "3 columns", Limits(columns=2)),
    "too many bytes": Bad(b"a,b\n" + TEN, "20 bytes", Limits(bytes=20)),
    "too many bytes once unpacked": Bad(gzip.compress(b"a,b\n" + b"1,2\n" * 10**5), "unpacked",
                                        Limits(bytes=10**4)),
    "too many rows of parquet": Bad(pq(a=[1, 2, 3]), "3 rows", Limits(rows=2)),
}  # fmt: skip


def plainly(cells) -> list:
    """Cells as Python values, None where missing."""
    if not isinstance(cells, np.ndarray):
        return cells.to_pylist()
    absent = np.isnat(cells) if cells.dtype.kind == "M" else np.isnan(cells)
    return [None if gone else x for x, gone in zip(cells, absent, strict=True)]


def test_the_corpus_is_large():
    assert len(CORPUS) >= 60


@pytest.mark.parametrize("name", CORPUS)
def test_an_awkward_file(name):
    case = CORPUS[name]
    if isinstance(case, Bad):
        with pytest.raises(TableError, match=case.says) as caught:
            read_table(case.data, name, case.limits)
        assert str(caught.value).rstrip()[-1] in ".N" and len(str(caught.value)) < 400
        return
    table = read_table(io.BytesIO(case.data), name)
    assert {title: plainly(cells) for title, cells in table.cells.items()} == case.cells
    assert list(table.cells) == list(case.cells) == [c.name for c in table.columns]
    if case.kinds:
        kinds = "".join("x" if c.kind == "dropped" else c.kind[0] for c in table.columns)
        assert kinds == case.kinds, [(c.name, c.kind, c.reason) for c in table.columns]
    said = " ".join([*table.notes, *(c.reason for c in table.columns)])
    for words in case.says:
        assert words.lower() in said.lower()
    assert all(c.reason for c in table.columns)
    if case.rows_in is not None:
        assert table.rows_in == case.rows_in
    elif not any("left out" in note for note in table.notes):
        assert table.rows_in == table.rows
