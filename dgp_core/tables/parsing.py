"""Cells of a user's file, from text to numbers and dates; whole columns at a time."""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _arrow_compute

# pyarrow makes its functions at import, where a type checker cannot see them.
pc: Any = _arrow_compute

MISSING = frozenset(
    "na n/a n.a. n.a na. nan null nil none missing - -- --- — – ? ?? . .. nd n/d #n/a #na #null! "
    "#div/0! #value! #ref! #num! #name? <na> <null> (null) [null] nat \\n 1.#qnan -1.#ind "
    "1.#ind -1.#qnan -nan +nan :--- :---: ---: #error!".split()
) | {"", "not available", "no data", "#n/a n/a"}
"""Spellings of a missing cell, in lower case and without the spaces around them."""

_SPELLINGS = sorted(v for s in MISSING for v in {s, s.upper(), s.capitalize(), s.title()})
MISSING_SPELLINGS = sorted({*_SPELLINGS, "NaN", "-NaN", "NaT", "NULL", "n/A", "1.#QNAN", "-1.#IND"})
"""The same in the cases that files use, for readers that compare letter by letter."""

Cells = np.ndarray | pa.DictionaryArray
"""One column: float64 (NaN is missing), datetime64[us] (NaT), or words (null)."""

TRUE = frozenset("true t yes y on 1 1.0 wahr ja vrai oui verdadero sí si vero".split())
FALSE = frozenset("false f no n off 0 0.0 falsch nein faux non falso".split())

WHOLE = 2.0**53
"""Up to here float64 holds every whole number."""

_SIGN = r"^[-+]?"
_POWER = r"([eE][-+]?[0-9]{1,4})?$"
_DOT = _SIGN + r"([0-9]+\.?[0-9]*|\.[0-9]+)" + _POWER
_COMMA = _SIGN + r"([0-9]+|[0-9]*,[0-9]+)" + _POWER
_DOT_GROUPS = _SIGN + r"[0-9]{1,3}([,' ][0-9]{2,3})*[,' ][0-9]{3}(\.[0-9]*)?$"
_COMMA_GROUPS = _SIGN + r"[0-9]{1,3}([.' ][0-9]{3})+(,[0-9]+)?$"
_INFINITE = r"(?i)^[-+]?(inf|infinity|∞)$"
_CODE = r"^[-+]?0[0-9]+$"


def words(cells: pa.Array) -> pa.Array:
    """Text without the spaces around it, null where the cell says that it is missing."""
    trimmed = pc.utf8_trim_whitespace(cells)
    absent = pc.is_in(pc.utf8_lower(trimmed), value_set=pa.array(sorted(MISSING)))
    return pc.if_else(absent, pa.scalar(None, pa.string()), trimmed)


def plain_numbers(cells: pa.Array, decimal_comma: bool) -> np.ndarray | None:
    """A block of cells as float64 (NaN where missing), or None unless all are plain numbers.

    Whole numbers that float64 cannot hold and codes such as 007 are left as text too, so that
    nothing of them is lost; so are points in a file of decimal commas, which separate thousands.
    """
    x = _cast(cells, decimal_comma)
    if x is None:
        cells = words(cells)
        x = _cast(cells, decimal_comma)
    if x is None:
        return None
    known = x[np.isfinite(x)]
    if known.size and (np.abs(known) >= WHOLE).any():
        return None
    # A first look at a few spares most columns the search for codes.
    if (known[:64] == np.floor(known[:64])).all() and (known == np.floor(known)).all():
        if pc.any(pc.match_substring_regex(cells, _CODE)).as_py():
            return None
    return x


def _cast(cells: pa.Array, decimal_comma: bool) -> np.ndarray | None:
    if decimal_comma:
        known, ends, text = cells.buffers()
        letters = text.to_pybytes() if text else b""
        if b"." in letters or pc.any(pc.ends_with(cells, ",")).as_py():
            return None
        # All cells of a block are one run of letters: one pass over it changes the sign.
        dots = pa.py_buffer(letters.replace(b",", b"."))
        cells = pa.StringArray.from_buffers(
            len(cells), ends, dots, known, cells.null_count, cells.offset
        )
    try:
        return pc.cast(cells, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None


@dataclass(frozen=True, eq=False)
class Numbers:
    """What a set of texts says when it is read as numbers."""

    values: np.ndarray
    """A float64 for each text; NaN where it is no number."""
    notation: str
    """What had to be known to read them, in words; empty for plain numbers."""
    codes: bool
    """Whether some are whole numbers with leading zeros."""
    too_long: bool
    """Whether some are whole numbers that float64 cannot hold."""


def _fits(texts: pa.Array, pattern: str) -> np.ndarray:
    return pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False)


def _floats(texts: pa.Array, pattern: str, *replacements: tuple[str, str]) -> np.ndarray:
    """The texts that match as float64, after the replacements; the others as NaN."""
    fits = _fits(texts, pattern)
    kept = texts.filter(pa.array(fits))
    for old, new in replacements:
        kept = pc.replace_substring_regex(kept, old, new)
    x = np.full(len(texts), np.nan)
    x[fits] = pc.cast(kept, pa.float64()).to_numpy(zero_copy_only=False)
    return x


def _as_dot(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """1234.5 and 1,234.5 as numbers, and where thousands are separated."""
    x, grouped = _floats(texts, _DOT), _floats(texts, _DOT_GROUPS, ("[,' ]", ""))
    return np.where(np.isnan(x), grouped, x), ~np.isnan(grouped)


def _as_comma(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """1234,5 and 1.234,5 as numbers, and where thousands are separated."""
    x = _floats(texts, _COMMA, (",", "."))
    grouped = _floats(texts, _COMMA_GROUPS, ("[.' ]", ""), (",", "."))
    return np.where(np.isnan(grouped), x, grouped), ~np.isnan(grouped)


def parse_numbers(texts: pa.Array, weights: np.ndarray, decimal_comma: bool) -> Numbers:
    """Numbers in the notation that most cells fit: decimal point or comma, with or without groups.

    Where both notations fit equally many cells (1,234), the file's other cells decide.
    """
    x = _floats(texts, _DOT)
    odd = np.flatnonzero(np.isnan(x))
    bare, signs = _bare(texts.take(pa.array(odd)))
    dot, dot_grouped = _as_dot(bare)
    comma, comma_grouped = _as_comma(bare)
    use_comma, grouped = False, np.zeros(len(texts), bool)
    if decimal_comma or not np.isnan(comma).all():
        # Plain numbers too may mean something else where the comma is the decimal mark.
        other, other_grouped = _as_comma(texts)
        other[odd], other_grouped[odd] = comma, comma_grouped
        fit_dot = weights.sum() - weights[odd][np.isnan(dot)].sum()
        fit_comma = weights[~np.isnan(other)].sum()
        use_comma = bool(fit_comma > fit_dot or (fit_comma == fit_dot and decimal_comma))
        if use_comma:
            x, grouped = other, other_grouped
    if not use_comma:
        x[odd], grouped[odd] = dot, dot_grouped
    endless = np.where(_fits(bare, _INFINITE), np.inf, np.nan)
    endless[_fits(bare, "^-")] *= -1
    x[odd] = np.where(np.isnan(endless), x[odd], endless)
    read = ~np.isnan(x)

    notation = []
    if use_comma and pc.any(pc.match_substring(texts, ",")).as_py():
        notation.append("the comma is the decimal mark")
    if (grouped & read).any():
        seen = texts.filter(pa.array(grouped & read))
        marks = ((".", "points") if use_comma else (",", "commas"),
                 ("[ \u00a0\u2007\u2009\u202f]", "spaces"), ("['’`´]", "apostrophes"))  # fmt: skip
        used = [w for mark, w in marks if _fits(seen, f"[{mark}]" if mark in ".," else mark).any()]
        notation.append(f"{' and '.join(used)} separate the thousands")
    if (signs & read[odd]).any():
        notation.append("currency and percent signs are taken off")
    long = np.flatnonzero(np.abs(x) >= WHOLE)
    return Numbers(
        x,
        "; ".join(notation),
        bool(_fits(texts, _CODE).any()),
        bool(_fits(texts.take(pa.array(long)), "^[-+]?[0-9]+$").any()),
    )


def _bare(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Texts in ASCII signs and without those of money and percent, and which of them had some."""
    tidy = pc.replace_substring_regex(texts, "[−‒–]", "-")
    tidy = pc.replace_substring_regex(tidy, "[\u00a0\u2007\u2009\u202f]", " ")
    tidy = pc.replace_substring_regex(tidy, "[’`´]", "'")
    bare = pc.replace_substring_regex(tidy, r"^([-+]?)\s*[$€£¥]\s*([-+]?)", r"\1\2")
    bare = pc.replace_substring_regex(bare, r"([0-9.,])\s*[%$€£¥]$", r"\1")
    return bare, pc.not_equal(bare, tidy).to_numpy(zero_copy_only=False)


_TIME = (
    r"(?:[T ]+(?P<H>[0-9]{1,2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:[.,](?P<f>[0-9]{1,9}))?)?"
    r" ?(?P<p>[AaPp]\.?[Mm]\.?)?(?P<z> ?(?:Z|UTC|[-+][0-9]{2}:?(?:[0-9]{2})?))?)?$"
)
_YEAR = r"(?P<y>[0-9]{4}|[0-9]{2})"
_MONTH = r"(?P<b>[A-Za-z]{3,9})\.?"
_DATES = (
    r"^(?P<y>[0-9]{4})[-/.](?P<m>[0-9]{1,2})(?:[-/.](?P<d>[0-9]{1,2}))?" + _TIME,
    r"^(?P<a>[0-9]{1,2})(?P<s>[-/.])(?P<c>[0-9]{1,2})[-/.]" + _YEAR + _TIME,
    r"^(?P<d>[0-9]{1,2})(?:st|nd|rd|th)?[- /.]*" + _MONTH + r"[- /.,]*" + _YEAR + _TIME,
    r"^" + _MONTH + r" (?P<d>[0-9]{1,2})(?:st|nd|rd|th)?,? +(?P<y>[0-9]{4})" + _TIME,
    r"^" + _MONTH + r"[- /]+(?P<y>[0-9]{4})" + _TIME,
)  # fmt: skip
_ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?$"
_MONTHS = {
    name: i % 12 + 1
    for i, name in enumerate(
        "january february march april may june july august september october november december "
        "jan feb mar apr may jun jul aug sep oct nov dec".split()
    )
} | {"sept": 9}
_ANY_DATE = re.compile("|".join(re.sub(r"\?P<\w>", "?:", p) for p in _DATES), re.ASCII)


def looks_like_date(text: str) -> bool:
    """Whether one text is shaped like a date."""
    return _ANY_DATE.match(text) is not None


_NUMBER = re.compile(
    r"[-+−]? ?[$€£¥]? ?[-+]?"
    r"([0-9]{1,3}([ \u00a0\u202f][0-9]{3})+([.,][0-9]*)?|[0-9][0-9.,'’]*|[.,][0-9]+)"
    r"([eE][-+]?[0-9]+)? ?[%$€£¥]?"
    r"|[-+]?(inf|infinity|∞)",
    re.IGNORECASE,
)


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell.strip()) is not None and not cell.rstrip().endswith(",")


def is_value(cell: str) -> bool:
    """Whether a cell is a number, a date or missing, and so hardly a column's name."""
    cell = cell.strip()
    return cell.lower() in MISSING or _is_number(cell) or looks_like_date(cell)


def _civil(y: np.ndarray, m: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Calendar days, NaT where there is no such day."""
    real = (y >= 1) & (y <= 9999) & (m >= 1) & (m <= 12) & (d >= 1) & (d <= 31)
    y, m, d = (np.where(real, part, 1) for part in (y, m, d))
    month = ((y - 1970) * 12 + m - 1).astype("M8[M]")
    day = month.astype("M8[D]") + (d - 1)
    return np.where(real & (day.astype("M8[M]") == month), day, np.datetime64("NaT", "D"))


def compact_dates(x: np.ndarray) -> np.ndarray:
    """Numbers such as 20240131 as calendar days, NaT where there is no such day."""
    whole = np.isfinite(x) & (x == np.floor(x)) & (x >= 19000101) & (x <= 21001231)
    n = np.where(whole, x, 0).astype(np.int64)
    return _civil(n // 10000, n // 100 % 100, n % 100).astype("M8[us]")


@dataclass(frozen=True, eq=False)
class Dates:
    """What a set of texts says when it is read as dates."""

    values: np.ndarray
    """A datetime64[us] for each text; NaT where it is no date."""
    day_first: bool | None
    """Whether 1/2/2024 was read as 1 February; None where the question does not come up."""
    ambiguous: bool
    """Whether every such date could be read both ways."""


def _field(groups: pa.StructArray, name: str, default: int) -> np.ndarray:
    """A named group as whole numbers, `default` where it is absent."""
    if groups.type.get_field_index(name) < 0:
        return np.full(len(groups), default)
    text = pc.fill_null(pc.struct_field(groups, name), "")
    text = pc.if_else(pc.equal(text, ""), str(default), text)
    return pc.cast(text, pa.int64()).to_numpy(zero_copy_only=False)


def _strings(groups: pa.StructArray, name: str) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.struct_field(groups, name), "").to_pylist(), dtype=str)


def parse_dates(texts: pa.Array, weights: np.ndarray, day_first: bool | None = None) -> Dates:
    """Dates and times in the notations that most cells fit; times with a zone are taken to UTC.

    1/2/2024 is read day first or month first as the other cells of the column demand. Where all of
    them could be both, the reading that puts the rows in order wins, then the separator's habit.
    """
    result, rest = _iso_dates(texts)
    doubtful, used = False, None
    for pattern in _DATES:
        groups = pc.extract_regex(texts.take(pa.array(rest)), pattern)
        fits = groups.is_valid().to_numpy(zero_copy_only=False)
        matched, rest = rest[fits], rest[~fits]
        if not matched.size:
            continue
        groups = groups.drop_null()
        y = _field(groups, "y", 0)
        short = pc.less_equal(pc.utf8_length(pc.struct_field(groups, "y")), 2)
        short = short.to_numpy(zero_copy_only=False)
        y = np.where(short, y + np.where(y < 69, 2000, 1900), y)
        if "(?P<b>" in pattern:
            b = np.char.lower(_strings(groups, "b"))
            m = np.array([_MONTHS.get(name, 0) for name in b], np.int64)
            day = _civil(y, m, _field(groups, "d", 1))
        elif "(?P<a>" in pattern:
            a, c = _field(groups, "a", 0), _field(groups, "c", 0)
            by_day, by_month = _civil(y, c, a), _civil(y, a, c)
            w = weights[matched]
            fit_day, fit_month = w[~np.isnat(by_day)].sum(), w[~np.isnat(by_month)].sum()
            doubtful = fit_day == fit_month and bool((by_day != by_month).any())
            used = day_first
            if used is None and fit_day != fit_month:
                used = bool(fit_day > fit_month)
            elif used is None:
                in_order = [
                    bool((np.diff(v) >= np.timedelta64(0, "D")).all()) for v in (by_day, by_month)
                ]
                slashes = (_strings(groups, "s") == "/").all()
                used = in_order[0] if in_order[0] != in_order[1] else not slashes
            day = by_day if used else by_month
        else:
            day = _civil(y, _field(groups, "m", 1), _field(groups, "d", 1))
        result[matched] = day.astype("M8[us]") + _clock(groups)
    return Dates(result, used, doubtful and day_first is None)


def _iso_dates(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Dates of texts in the plainest ISO notation, if all of them exist; and the others' places."""
    fits = _fits(texts, _ISO) & ~_fits(texts, "^0000")
    moments = np.full(len(texts), np.datetime64("NaT", "us"))
    try:
        counts = pc.cast(pc.cast(texts.filter(pa.array(fits)), pa.timestamp("us")), pa.int64())
        moments[fits] = counts.to_numpy(zero_copy_only=False).astype("M8[us]")
    except pa.ArrowInvalid:
        fits = np.zeros(len(texts), bool)
    return moments, np.flatnonzero(~fits)


def _clock(groups: pa.StructArray) -> np.ndarray:
    """The time of day in microseconds, taken to UTC where a zone is given; NaT if impossible."""
    H, M, S = (_field(groups, name, 0) for name in "HMS")
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(groups, "f"), 6, "0"), 0, 6)
    fraction = pc.cast(fraction, pa.int64()).to_numpy(zero_copy_only=False)
    half = pc.utf8_lower(pc.struct_field(groups, "p"))
    noon, morning = _fits(half, "^p"), _fits(half, "^a")
    real = (H <= np.where(noon | morning, 12, 24)) & (M <= 59) & (S <= 60)
    H = np.where(noon & (H < 12), H + 12, np.where(morning & (H == 12), 0, H))
    zone = pc.extract_regex(pc.struct_field(groups, "z"), "(?P<s>[-+])(?P<H>..):?(?P<M>..)?")
    west = pc.equal(pc.fill_null(pc.struct_field(zone, "s"), ""), "-")
    shift = _field(zone, "H", 0) * 60 + _field(zone, "M", 0)
    shift = np.where(west.to_numpy(zero_copy_only=False), -shift, shift)
    clock = (((H * 60 + M - shift) * 60 + S) * 1_000_000 + fraction).astype("m8[us]")
    return np.where(real, clock, np.timedelta64("NaT", "us"))


def weights(column: pa.DictionaryArray) -> np.ndarray:
    """How many cells hold each word of a column."""
    codes = column.indices.drop_null().to_numpy(zero_copy_only=False)
    return np.bincount(codes, minlength=len(column.dictionary))


def spread(column: pa.DictionaryArray, values: np.ndarray, missing: Any) -> np.ndarray:
    """A value for each word as a value for each cell."""
    codes = pc.fill_null(column.indices, len(values)).to_numpy(zero_copy_only=False)
    return np.append(values, np.array([missing], values.dtype))[codes]


def is_missing(cells: Cells) -> np.ndarray:
    """Which cells are missing (N,)."""
    if not isinstance(cells, np.ndarray):
        return cells.is_null().to_numpy(zero_copy_only=False)
    return np.isnat(cells) if cells.dtype.kind == "M" else np.isnan(cells)


def as_numbers(cells: Cells, decimal_comma: bool) -> np.ndarray:
    """A column as finite float64, NaN where a cell is missing or no number."""
    if isinstance(cells, np.ndarray):
        return cells if cells.dtype == np.float64 else np.full(len(cells), np.nan)
    x = parse_numbers(cells.dictionary, weights(cells), decimal_comma).values
    return spread(cells, np.where(np.isinf(x), np.nan, x), np.nan)


def as_dates(cells: Cells, day_first: bool | None) -> np.ndarray:
    """A column as datetime64[us], NaT where a cell is missing or no date."""
    if isinstance(cells, np.ndarray):
        return compact_dates(cells) if cells.dtype == np.float64 else cells
    dates = parse_dates(cells.dictionary, weights(cells), day_first)
    return spread(cells, dates.values, np.datetime64("NaT", "us"))


def spell(x: float) -> str:
    """A number as the shortest text that means it."""
    return str(int(x)) if x == np.floor(x) and abs(x) < 1e15 else repr(float(x))


def as_words(cells: Cells) -> pa.DictionaryArray:
    """A column as words, numbers and dates in their shortest spelling."""
    if isinstance(cells, pa.DictionaryArray):
        return cells
    if cells.dtype == np.float64:
        coded = pa.array(cells, from_pandas=True).dictionary_encode()
        return _respelt(coded, [spell(x) for x in coded.dictionary.to_pylist()])
    coded = pa.array(cells, pa.timestamp("us")).dictionary_encode()
    return _respelt(coded, [str(t).replace(" 00:00:00", "") for t in coded.dictionary.to_pylist()])


def _respelt(coded: pa.DictionaryArray, spelling: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(coded.indices, pa.array(spelling, pa.string()))


def fingerprint(cells: Cells) -> bytes:
    """A digest that columns with the same cells share."""
    if isinstance(cells, np.ndarray):
        return (
            cells.dtype.str.encode()
            + hashlib.blake2b(np.ascontiguousarray(cells).view(np.uint8).data).digest()
        )
    codes = pc.fill_null(cells.indices, -1).to_numpy(zero_copy_only=False)
    return b"words" + hashlib.blake2b(np.ascontiguousarray(codes).view(np.uint8).data).digest()


def known_words(cells: Cells) -> dict[str, int]:
    """Each word that a column holds, with the number of its cells, in the order of the words."""
    column = as_words(cells)
    counts = weights(column)
    # After numbers come words; -0 and 0 are one spelling.
    held: dict[str, int] = {}
    for word, count in zip(column.dictionary.to_pylist(), counts.tolist(), strict=True):
        if count:
            held[word] = held.get(word, 0) + count
    return {word: held[word] for word in in_order(held)}


def in_order(words: Iterable[str]) -> list[str]:
    """Numbers by their size, and then words by the alphabet."""
    return sorted(words, key=_order)


def _order(word: str) -> tuple[bool, float, str]:
    try:
        x = float(word)
    except ValueError:
        return True, 0.0, word
    return (False, x, word) if np.isfinite(x) else (True, 0.0, word)


def as_codes(cells: Cells, levels: tuple[str, ...]) -> tuple[np.ndarray, dict[str, int]]:
    """Each cell's place among the levels (NaN: missing), and the words that are none of them."""
    column = as_words(cells)
    place = {level: float(i) for i, level in enumerate(levels)}
    if isinstance(cells, np.ndarray) and cells.dtype == np.float64:
        # A level that was spelt 1.50 is the number 1.5 here.
        numbers = parse_numbers(pa.array(levels, pa.string()), np.ones(len(levels), int), False)
        for i, x in enumerate(numbers.values):
            if np.isfinite(x):
                place.setdefault(spell(x), float(i))
    return _coded(column, [place.get(word, np.nan) for word in column.dictionary.to_pylist()])


def as_booleans(cells: Cells) -> tuple[np.ndarray, dict[str, int]]:
    """True as 1, false as 0, missing as NaN; and the words that are neither."""
    column = as_words(cells)
    held = [word.lower() for word in column.dictionary.to_pylist()]
    return _coded(column, [1.0 if w in TRUE else 0.0 if w in FALSE else np.nan for w in held])


def _coded(column: pa.DictionaryArray, codes: list[float]) -> tuple[np.ndarray, dict[str, int]]:
    """Each cell's code, by that of its word, and the words without one (NaN), with their counts."""
    each = zip(column.dictionary.to_pylist(), weights(column).tolist(), codes, strict=True)
    unknown = {word: count for word, count, code in each if count and np.isnan(code)}
    return spread(column, np.array(codes, float), np.nan), unknown
