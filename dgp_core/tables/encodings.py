"""Text in any encoding to UTF-8: sure signs first, then the decoding whose letters are common."""

import codecs
import re
from collections.abc import Iterator

import charset_normalizer

from dgp_core.tables.limits import SAVE, TableError

HEAD_BYTES = 1 << 18
BLOCK_BYTES = 1 << 22

ENCODINGS = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16, big endian",
    "utf-32-le": "UTF-32",
    "utf-32-be": "UTF-32, big endian",
    "cp1252": "Latin-1 (Windows-1252)",
    "latin-1": "Latin-1",
    "mac_roman": "Mac Roman",
    "cp850": "DOS, Western European (850)",
    "cp1250": "Central European (Windows-1250)",
    "iso8859_2": "Central European (ISO 8859-2)",
    "cp1251": "Cyrillic (Windows-1251)",
    "koi8_r": "Cyrillic (KOI8-R)",
    "cp1253": "Greek (Windows-1253)",
    "cp1254": "Turkish (Windows-1254)",
    "gb18030": "Chinese, simplified (GBK)",
    "big5": "Chinese, traditional (Big5)",
    "cp932": "Japanese (Shift-JIS)",
    "euc_jp": "Japanese (EUC-JP)",
    "cp949": "Korean (EUC-KR)",
}
"""What can be chosen, and its title."""

_WESTERN = "äöüßéèêëàâáãåæçñíîïóôõøœúùûýÿ€°µ§–—‘’“”…«»¿¡"
_LATIN = {
    "cp1252": _WESTERN,
    "mac_roman": _WESTERN,
    "cp1250": "áäąăâćčďéęěëíîłľńňóôöőřśšşťţúůüűýźžż",
    "cp1254": "çğıi̇öşüâîû",
}
_OTHER = {
    "cp1251": "абвгдежзийклмнопрстуфхцчшщъыьэюяёєіїґ№",
    "cp1253": "αβγδεζηθικλμνξοπρσςτυφχψωάέήίόύώ",
}
"""Common letters of the languages that use a one-byte encoding, of Latin and of other script."""
_LEAD_BYTES = {
    "cp949": range(0xB0, 0xC9),
    "gb18030": range(0xB0, 0xD8),
    "big5": range(0xA4, 0xC7),
    "cp932": [*range(0x82, 0x84), *range(0x88, 0x98)],
}
"""Lead bytes of the common characters of a two-byte encoding: its standard's first level, kana."""
_LETTERS_NEEDED = 5
"""Distinct letters that it takes to prefer another script to accented Latin letters."""

BOMS = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte-order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
"""Byte-order marks, the encodings that they tell, and their titles."""
_CONTROL = bytes(b for b in range(32) if b not in b"\t\n\r\f\x1a")


def to_utf8(data: memoryview, encoding: str | None = None) -> tuple[memoryview, str, str, bool]:
    """The text as UTF-8, its encoding and that one's title, and whether the encoding is sure."""
    head = bytes(data[:4096])
    marked = next((bom for bom in BOMS if head.startswith(bom[0])), None)
    if encoding is not None:
        body = data[len(marked[0]) :] if marked and marked[1] == encoding else data
        return _transcode(body, encoding, "was to be read as"), encoding, ENCODINGS[encoding], True
    if marked:
        mark, encoding, title = marked
        return _transcode(data[len(mark) :], encoding, "says that it is"), encoding, title, True
    two_bytes = _utf16_by_zeros(head)
    if _is_utf8(data) and not (b"\0" in head and two_bytes):
        check_text(data)
        return data, "utf-8", "UTF-8", True
    if two_bytes:
        text = _transcode(data, two_bytes, "says that it is")
        return text, two_bytes, "UTF-16 without a mark", True
    check_text(data)
    for encoding in _by_letters(data):
        try:
            text = memoryview(str(data, encoding).encode())
        except UnicodeDecodeError:
            continue
        return text, encoding, ENCODINGS[encoding], False
    raise AssertionError("Latin-1 decodes any bytes.")


def blocks(data: memoryview, size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The bytes in blocks, so that a large file is never copied whole."""
    for start in range(0, len(data), size):
        yield bytes(data[start : start + size])


def _is_utf8(data: memoryview) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for block in blocks(data):
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _utf16_by_zeros(head: bytes) -> str:
    """UTF-16 by its zero bytes: little endian if at odd offsets, big endian if at even ones."""
    pairs = len(head) // 2
    even, odd = head[0 : 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
    if pairs >= 2 and max(even, odd) > 0.4 * pairs and min(even, odd) < 0.1 * pairs:
        return "utf-16-le" if odd > even else "utf-16-be"
    return ""


def _by_letters(data: memoryview) -> list[str]:
    """Encodings from the likeliest on, by the share of common letters, and where these differ
    little, by the coherence and the mess that charset-normalizer finds; Windows-1252 wins ties."""
    sample = _not_ascii(data)
    results = charset_normalizer.from_bytes(
        sample, cp_isolation=[*_LATIN, *_OTHER, *_LEAD_BYTES], language_threshold=0.2
    )
    matches = {match.encoding: match for match in results}
    scores = {}
    for encoding in (*_LATIN, *_OTHER, *_LEAD_BYTES):
        if match := matches.get(encoding):
            scores[encoding] = _common(sample, encoding) + 0.5 * match.coherence - 0.3 * match.chaos
    # Windows-1252 is always a candidate, and the fewer the letters, the better the others must be.
    scores.setdefault("cp1252", _common(sample, "cp1252"))
    letters = sum(not c.isascii() for c in sample.decode("latin-1"))
    scores["cp1252"] += 0.05 + 0.5 / max(letters, 1)
    ranked = sorted(scores, key=lambda e: -scores[e])
    # Latin-1 decodes the five bytes that Windows-1252 lacks.
    ranked.insert(ranked.index("cp1252") + 1, "latin-1")
    return ranked


def _not_ascii(data: memoryview, most: int = 1000) -> bytes:
    """The first distinct cells that hold a byte beyond ASCII."""
    cells: dict[bytes, None] = {}
    for block in blocks(data, 1 << 16):
        if len(cells) < most and not block.isascii():
            parts = re.split(rb'[\r\n\t,;"]+', block)
            cells |= dict.fromkeys(part[:200] for part in parts if not part.isascii())
    return b"\n".join(list(cells)[:most])


def _common(sample: bytes, encoding: str) -> float:
    """The share of characters beyond ASCII that are common in the encoding's languages.

    Accented Latin letters stand alone or in pairs, those of another script not beside ASCII ones.
    """
    text = sample.decode(encoding, "replace").lower()
    foreign = [c for c in text if not c.isascii()]
    if letters := _LATIN.get(encoding):
        runs = re.findall(r"(?<![^\x00-\x7f])[^\x00-\x7f]{1,2}(?![^\x00-\x7f])", text)
        common = [c for run in runs for c in run if c in letters]
        common += re.findall(r"[£²³½¹](?![^\W\d_])", text)
    else:
        apart = re.findall(r"(?<![a-z])[^\x00-\x7f]+(?![a-z])", text)
        common = [c for run in apart for c in run if _is_common(c, encoding)]
        if encoding in _OTHER and len(set(common)) < _LETTERS_NEEDED:
            return 0.0
    return len(common) / max(len(foreign), 1)


def _is_common(c: str, encoding: str) -> bool:
    if letters := _OTHER.get(encoding):
        return c in letters
    return c.encode(encoding, "replace")[0] in _LEAD_BYTES[encoding]


def _transcode(data: memoryview, encoding: str, claim: str) -> memoryview:
    try:
        if encoding == "utf-8":
            text = data if _is_utf8(data) else None
        else:
            text = memoryview(str(data, encoding).encode())
    except UnicodeError:
        text = None
    if text is None:
        title = ENCODINGS[encoding].split(",")[0]
        raise TableError(f"This file {claim} {title}, but parts of it are not. {SAVE}")
    check_text(text)
    return text


def check_text(data: memoryview) -> None:
    """Raises TableError for bytes that are no text, or text that is no table."""
    head = bytes(data[:HEAD_BYTES])
    control = len(head) - len(head.translate(None, _CONTROL))
    if control > max(3, 0.01 * len(head)) or any(b"\0" in block for block in blocks(data)):
        raise TableError(f"This file is not text, so no table can be read from it. {SAVE}")
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml", b"<svg")):
        raise TableError(f"This is a web page or XML, not a table. {SAVE}")
    if re.match(rb'\{\s*["}]|\[\s*[\[{]', start):
        raise TableError(f"This is JSON, not a table. {SAVE}")
