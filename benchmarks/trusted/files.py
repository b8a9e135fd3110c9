"""Files as people have them: lost headers, likely leaks, old encodings."""

from collections.abc import Iterator

import numpy as np

from benchmarks.trusted import Row, case, row
from dgp_core.tables.leaks import likely_leaks
from dgp_core.tables.table import read_table

NAMES = ("Na", "nA", "NA", "None", "inf", "nan", "?")
"""Names of columns that would be missing values in a row."""

ENCODINGS = {
    "cp1251": ("температура", "цена", "город"),
    "shift_jis": ("気温", "価格", "都市の名前"),
    "gbk": ("温度", "价格", "城市名称"),
    "cp1250": ("łódź", "žena", "město"),
    "mac_roman": ("Größe", "été", "Prix é"),
    "cp1252": ("Größe", "été", "café"),
    "utf-8": ("température", "цена", "価格"),
    "utf-16": ("température", "цена", "価格"),
}
"""Three columns' names in each."""


@case("headers")
def headers() -> Iterator[Row]:
    """Of files with such a name, how many keep their header; a leak is named."""
    kept = 0
    for name in NAMES:
        lines = [f"id,{name},y", *(f"{i},{0.1 * i * i:.2f},{i % 7}" for i in range(40))]
        table = read_table("\n".join(lines).encode(), "f.csv")
        kept += table.rows == 40 and [c.name for c in table.columns] == ["id", name, "y"]
    share = kept / len(NAMES)
    yield row("files that keep a header with a name such as Na or ?", share, least=1.0)
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal(60), rng.standard_normal(60)
    lines = ["x,copy,y", *(f"{a:.4f},{2 * b:.4f},{b:.4f}" for a, b in zip(x, noise, strict=True))]
    table = read_table("\n".join(lines).encode(), "f.csv")
    prepared = table.to_dataset("y", "regression", "drop")
    named = likely_leaks(prepared.dataset, prepared.recipe)
    yield row(
        "a copy of the target is named as a likely leak", float(named == ("copy",)), least=1.0
    )


@case("encodings")
def encodings() -> Iterator[Row]:
    """Names of columns and words in cells that are read as they were written."""
    for encoding, names in ENCODINGS.items():
        lines = [",".join(names), *(f"{i}.5,{i * i},{names[2]}" for i in range(30))]
        table = read_table("\n".join(lines).encode(encoding), "f.csv")
        right = [c.name for c in table.columns] == list(names)
        yield row(f"{encoding}: names are right", float(right), least=1.0)
