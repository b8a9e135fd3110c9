"""Text that came from outside, made safe to show and to export."""

import csv
import io
import re

import numpy as np

_UNSEEN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]+"
)
# A lone surrogate cannot be written to a terminal or to a file.
_LONE = re.compile(r"[\ud800-\udfff]")
_STRUCTURE = re.compile(r"[&<>\"'`*_~\[\](){}#+!.|$\\^=-]")
# Shorthands that Markdown renderers look for in finished text: emoji, icons, links, arrows.
_SHORTHAND = re.compile(r"(?<=[:@/])|(?<=www)(?=\.)|(?<=[-<>=~])(?=[-<>=])", re.IGNORECASE)
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def visible(text: object, limit: int = 60) -> str:
    """The text on one line: no control, direction or zero-width characters, and not too long."""
    line = " ".join(_UNSEEN.sub(" ", _LONE.sub("\ufffd", str(text)[: 4 * limit])).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def plain(name: object, limit: int = 60) -> str:
    """A column's name (or any text) that Markdown, HTML and Plotly all show as it is spelt.

    Characters that give structure become numeric entities, and a word joiner, which has no width,
    separates the shorthands (`:smile:`, `www.`, `->`) that renderers replace after entities.
    """
    joined = _SHORTHAND.sub("\u2060", visible(name, limit) or "(no name)")
    return _STRUCTURE.sub(lambda m: f"&#{ord(m.group())};", joined)


def _cell(value: object) -> str:
    """One cell of an exported file; text that a spreadsheet would run gets an apostrophe."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else repr(float(value))
    if isinstance(value, np.datetime64):
        return "" if np.isnat(value) else str(value)
    text = _LONE.sub("\ufffd", str(value))
    return "'" + text if text.lstrip(" \u00a0").startswith(_FORMULA) else text


def export_csv(columns: dict[str, np.ndarray]) -> bytes:
    """Named columns as a UTF-8 CSV file in which no text can act as a formula.

    Text (names too) that begins with = + - @ tab or return gets a leading apostrophe; numbers stay
    as they are, and a missing number is an empty cell.
    """
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise ValueError(f"Columns to export must be equally long, not {sorted(lengths)}.")
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow([_cell(str(name)) for name in columns])
    writer.writerows(zip(*([_cell(v) for v in values] for values in columns.values()), strict=True))
    return file.getvalue().encode()
