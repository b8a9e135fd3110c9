"""Encodings, dialects, headers and workbooks: what is guessed or chosen, what may be wrong."""

import datetime
import io
import random
import zipfile

import numpy as np
import openpyxl
import pytest

from dgp_core.tables.encodings import ENCODINGS
from dgp_core.tables.table import Limits, TableError, read_alike, read_table, report

NUMBERS = "\n".join(f"{i}.5,{i * i}" for i in range(30))


# Encodings.

CITIES = {
    "cp1251": "Москва Казань Новосибирск Екатеринбург Самара Омск Ростов Уфа Красноярск Пермь",
    "cp932": "東京 大阪 名古屋 札幌 福岡 横浜 京都 神戸 さいたま 広島 カナダ",
    "gb18030": "北京 上海 广州 深圳 成都 重庆 天津 武汉 西安 南京",
    "big5": "台北 高雄 台中 台南 新竹 基隆 嘉義 臺東 花蓮",
    "cp949": "서울 부산 대구 인천 광주 대전 울산 수원",
    "cp1250": "Łódź Kraków Gdańsk Poznań Wrocław Částá Plzeň Ústí Győr Kaposvár Brno",
    "mac_roman": "Zürich Genève Köln München Saint-Étienne Besançon Málaga Logroño Orléans",
    "cp1252": "Zürich Genève Köln München Saint-Étienne Besançon Málaga Logroño Orléans",
    "utf-16-le": "Zürich Genève Köln München Saint-Étienne Besançon Málaga Logroño Orléans",
}


@pytest.mark.parametrize(
    ("encoding", "header", "known_as"),
    [
        ("cp1251", "температура,цена", "cp1251"),
        ("shift_jis", "気温,価格", "cp932"),
        ("gbk", "温度,价格", "gb18030"),
        ("cp1250", "łódź,žena", "cp1250"),
        ("mac_roman", "Größe,Prix é", "mac_roman"),
        ("latin-1", "größe,stück", "cp1252"),
        ("cp1252", "price in €,naïve café", "cp1252"),
        ("cp1252", "señor,año", "cp1252"),
        ("utf-8", "気温,цена", "utf-8"),
    ],
)
def test_two_names_are_enough_to_tell_an_encoding(encoding, header, known_as):
    table = read_table(f"{header}\n{NUMBERS}".encode(encoding))
    assert list(table.cells) == header.split(",")
    assert table.reading.encoding == known_as and ENCODINGS[known_as] in table.notes[0]
    assert ("encoding" in table.reading.doubtful) == (encoding != "utf-8")


@pytest.mark.parametrize("encoding", CITIES)
@pytest.mark.parametrize("rows", [40, 2000])
def test_a_column_of_cities_is_read_in_its_encoding(encoding, rows):
    names, rng = CITIES[encoding].split(), random.Random(rows)
    cities = [rng.choice(names) for _ in range(rows)]
    text = "city,x\n" + "".join(f"{city},{rng.random():.4f}\n" for city in cities)
    table = read_table(text.encode(encoding))
    assert table.cells["city"].to_pylist() == cities and table.reading.encoding == encoding


def test_letters_far_down_a_file_still_tell_its_encoding():
    text = "x,city\n" + "1,Omsk\n" * 60_000 + "2,Новосибирск\n3,Екатеринбург\n"
    table = read_table(text.encode("cp1251"))
    assert table.cells["city"].to_pylist()[-2:] == ["Новосибирск", "Екатеринбург"]


def test_an_encoding_can_be_chosen():
    data = f"имя,цена\n{NUMBERS}".encode("koi8_r")
    table = read_table(data, encoding="koi8_r")
    assert list(table.cells) == ["имя", "цена"] and "encoding" not in table.reading.doubtful
    with pytest.raises(TableError, match="was to be read as UTF-8, but parts"):
        read_table(data, encoding="utf-8")
    with pytest.raises(TableError, match="The encoding is one of utf-8"):
        read_table(data, encoding="rot13")


# Separators and decimal marks.


@pytest.mark.parametrize(
    "text",
    [
        "full name,home town\nAnn Lee,New York\nBo Chu,Los Angeles\nCy Coe,San Jose\n",
        "room no,floor no\nroom 1,floor 2\nroom 2,floor 3\nroom 4,floor 4\n",
        "item one,item two\nno - 1,no - 3\nno - 2,no - 5\nno - 4,no - 7\n",
    ],
)
def test_two_text_columns_are_split_at_commas_not_at_spaces(text):
    table = read_table(text.encode())
    assert table.reading.separator == "," and list(table.cells) == text.split("\n")[0].split(",")
    rows = [line.split(",") for line in text.splitlines()[1:]]
    assert [table.cells[n].to_pylist() for n in table.cells] == [
        list(c) for c in zip(*rows, strict=True)
    ]


def test_spaces_separate_where_cells_are_numbers_with_decimal_commas():
    table = read_table(b"1,5 2,5\n3,5 4,5\n5,5 1,5\n")
    assert table.reading.separator == " " and table.reading.decimal == ","
    np.testing.assert_array_equal(table.cells["column 2"], [2.5, 4.5, 1.5])


def test_a_separator_can_be_chosen():
    data = b"a b,c d\n1 2,3 4\n5 6,7 8\n9 1,2 3\n"
    assert list(read_table(data, separator=",").cells) == ["a b", "c d"]
    assert list(read_table(data, separator=" ").cells) == ["a", "b,c", "d"]
    assert read_table(data, separator=",").reading.doubtful == ("header",)
    assert list(read_table(b"a^b\n1^2\n3^4\n", separator="^").cells) == ["a", "b"]
    for wrong in ("", ",,", "\n", '"'):
        with pytest.raises(TableError, match="one character"):
            read_table(data, separator=wrong)


def test_a_decimal_mark_can_be_chosen_and_says_when_it_may_be_wrong():
    data = b"a;b\n1,234;x\n5,678;y\n2,500;x\n"
    guessed = read_table(data)
    assert guessed.reading.doubtful == ("decimal",)
    np.testing.assert_array_equal(guessed.cells["a"], [1.234, 5.678, 2.5])
    chosen = read_table(data, decimal=".")
    assert chosen.reading.doubtful == () and chosen.reading.decimal == "."
    np.testing.assert_array_equal(chosen.cells["a"], [1234, 5678, 2500])
    assert read_table(b"a;b\n1,5;x\n5,25;y\n").reading.doubtful == ()
    with pytest.raises(TableError, match="a point or a comma"):
        read_table(data, decimal="·")


def test_a_plain_file_leaves_no_doubt():
    reading = read_table(f"a,b\n{NUMBERS}".encode()).reading
    assert (reading.format, reading.encoding, reading.separator) == ("text", "utf-8", ",")
    assert reading.header and reading.decimal == "." and reading.doubtful == ()


# Headers.

ELEMENTS = ["RI,Na,Mg,type", "Al,None,inf,type", "?,nA,K,type", '"","Na","nan","type"']


@pytest.mark.parametrize("header", ELEMENTS)
def test_words_for_missing_can_name_columns(header):
    """As in R's fgl, Pottery, Soils, chorSub and toothpaste."""
    rows = "".join(
        f"{i * 0.37 % 5:.2f},{i % 7 + 1.5},{i % 5},{'WinF' if i < 20 else 'Con'}\n"
        for i in range(40)
    )
    table = read_table(f"{header}\n{rows}".encode())
    names = [name.strip('"') or "column 1" for name in header.split(",")]
    assert list(table.cells) == names and table.rows == 40
    assert [c.kind for c in table.columns] == ["number", "number", "number", "category"]


@pytest.mark.parametrize("first", ["NA,NA", "NA,2", "?,x", "NA,x"])
def test_missing_cells_in_the_first_row_make_no_header(first):
    table = read_table(f"{first}\n3,x\n4,y\n5,x\n".encode())
    assert list(table.cells) == ["column 1", "column 2"] and table.rows == 4


def test_a_header_can_be_chosen():
    data = b"red,yes\nblue,no\ngreen,no\n"
    guessed = read_table(data)
    assert guessed.reading.header and "header" in guessed.reading.doubtful
    table = read_table(data, header=False)
    assert list(table.cells) == ["column 1", "column 2"] and table.rows == 3
    assert not table.reading.header and table.reading.doubtful == ()
    years = read_table(b"1990,1995\n1,2\n3,4\n", header=True)
    assert list(years.cells) == ["1990", "1995"] and years.rows == 2


def test_a_row_number_with_a_stray_cell_is_an_identifier():
    rows = "".join(f"{i},{i * 0.37 % 5:.2f}\n" for i in range(1, 41))
    for data in (f"row,x\n{rows}total,3.5\n", f"no,x\n{rows}", f",x\n{rows},3.5\n"):
        table = read_table(data.encode())
        kind = "number" if data.startswith("no,") else "dropped"
        assert table.columns[0].kind == kind, table.columns[0]
        assert kind == "number" or "identifier" in table.columns[0].reason
    lost = read_table(f"rownumber,x\n{rows}".encode(), header=False)
    assert lost.columns[0].kind == "dropped" and "row number" in lost.columns[0].reason
    years = read_table(
        rows.replace("\n", "\n19", 39).replace("1,", "1901,", 1).encode(), header=False
    )
    assert years.columns[0].kind == "number"


# Workbooks.


def workbook(*sheets, **options) -> bytes:
    book = openpyxl.Workbook(**options)
    book.remove(book.active)
    for title, rows in sheets:
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


ROWS = [
    ["when", "who", "x", "ok", "code", "note"],
    [datetime.datetime(2024, 1, 31), "Zoë", 1.5, True, "007", "a,b"],
    [datetime.datetime(2024, 2, 29, 6, 30), "Bo", None, False, "008", 'say "hi"'],
    [datetime.datetime(2024, 3, 1), "Cy", 2 / 3, True, "009", "two\nlines"],
]


def test_a_workbook_is_read_as_its_first_sheet_or_a_named_one():
    data = workbook(("first", ROWS), ("zweite", [["a", "b"], [1, 2], [3, "#N/A"]]))
    table = read_table(io.BytesIO(data), "book.xlsx")
    assert [c.kind for c in table.columns] == [
        "date",
        "dropped",
        "number",
        "boolean",
        "dropped",
        "dropped",
    ]
    assert table.cells["who"].to_pylist() == ["Zoë", "Bo", "Cy"]
    np.testing.assert_array_equal(table.cells["x"], [1.5, np.nan, 2 / 3])
    assert table.cells["when"].to_pylist() == ["2024-01-31", "2024-02-29 06:30:00", "2024-03-01"]
    assert table.cells["code"].to_pylist() == ["007", "008", "009"]
    assert table.cells["note"].to_pylist() == ["a,b", 'say "hi"', "two\nlines"]
    assert table.reading.format == "excel" and table.reading.sheet == "first"
    assert table.reading.sheets == ("first", "zweite") and table.reading.doubtful == ()
    assert "sheet “first” was read, the first of 2" in report(table)
    second = read_table(data, sheet="zweite")
    np.testing.assert_array_equal(second.cells["b"], [2, np.nan])
    with pytest.raises(TableError, match="There is no sheet “dritte”.*“first”, “zweite”"):
        read_table(data, sheet="dritte")


def test_a_title_above_a_sheet_is_skipped_and_formulas_give_their_stored_values():
    data = workbook(("s", [["Sales in 2024"], [], ["a", "b"], [1, 2], [3, "=A5*2"]]))
    stored = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(stored, "w") as new:
        for part in old.infolist():
            content = old.read(part)
            new.writestr(
                part, content.replace(b"<v></v>", b"<v>6</v>").replace(b"<v />", b"<v>6</v>")
            )
    table = read_table(stored.getvalue())
    assert list(table.cells) == ["a", "b"] and any("Sales in 2024" in n for n in table.notes)
    np.testing.assert_array_equal(table.cells["b"], [2, 6])


def test_a_workbook_has_limits_and_says_what_is_wrong():
    data = workbook(("s", [["a", "b"], *([i, i * i] for i in range(100))]), ("empty", []))
    for limits, words in (
        (Limits(rows=99), "99 rows"), (Limits(columns=1), "2 columns"),
        (Limits(sheet_cells=150), "150 cells"), (Limits(bytes=len(data)), "once unpacked"),
    ):  # fmt: skip
        with pytest.raises(TableError, match=words):
            read_table(data, limits=limits)
    assert read_table(data, limits=Limits(rows=100, columns=2)).rows == 100
    with pytest.raises(TableError, match="sheet “empty” is empty"):
        read_table(data, sheet="empty")
    with pytest.raises(TableError, match="damaged|zip archive"):
        read_table(data[: len(data) // 2])
    with pytest.raises(TableError, match="zip archive"):
        archive = io.BytesIO()
        np.savez(archive, a=np.zeros(3))
        read_table(archive.getvalue())
    broken = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(broken, "w") as new:
        for part in old.namelist():
            new.writestr(part, old.read(part)[: 40 if "sheet1" in part else None])
    with pytest.raises(TableError, match="damaged"):
        read_table(broken.getvalue())


# Sentences count.


TAIL = b"".join(b"%d.25,%d,a\n" % (i, i % 4) for i in range(30))


def test_one_of_a_kind_is_singular():
    table = read_table(b"# made in May\nx,y,z\n1.5,2,a\n2.5,3,b\n,5,a\nooh,7,b\n" + TAIL)
    told = report(table) + " ".join(table.to_dataset("y", "regression").report)
    one = read_table(b"x,y\n1.5,2\n")
    told += report(one)
    for plural in ("1 rows", "1 cells", "1 lines", "1 inputs", "1 columns", "1 have"):
        assert f" {plural}" not in f" {told}", told
    assert "1 line above the table was skipped" in told and "1 row in the file" in told
    assert "1 cell that is no number counts as missing: “ooh”" in told


def test_a_second_file_is_read_as_the_first_was_told_to_be():
    """Where its columns are found like that; else by a guess."""
    rows = "\n".join(f"{i};{'абв'[i % 3]};{i % 7},5" for i in range(30))
    first = read_table(rows.encode("cp1251"), header=False, encoding="cp1251")
    recipe = first.to_dataset("column 3", "regression").recipe
    assert recipe.reading == {"encoding": "cp1251", "header": False}
    assert type(recipe).from_json(recipe.to_json()) == recipe
    again = read_alike(b"1;\xe1;\n2;\xe0;\n", recipe)
    assert again.rows == 2 and not np.isnan(recipe.inputs(again)).any()
    named = ("номер;имя;цена\n" + rows).encode("cp1251")
    recipe = read_table(named, encoding="cp1251").to_dataset("цена", "regression").recipe
    other = "имя,номер\nа,4\nб,5\n".encode()  # UTF-8
    assert recipe.inputs(read_alike(other, recipe)).shape[0] == 2
    with pytest.raises(TableError, match="lacks “номер”, “имя”"):
        read_alike(other, recipe, encoding="cp1251")
