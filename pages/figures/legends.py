"""Legends in HTML, once for pictures that share their marks."""

from dgp_core.tables.plain import plain
from pages.figures.classes import mark
from pages.figures.palette import DEEP, SINGLE, Ink, tint


def key(mark: str, words: str, character: str = "") -> str:
    """One entry: a mark drawn by its style, and words."""
    drawing = f'<span aria-hidden="true" style="{mark}">{character}</span>'
    style = "display:inline-flex;align-items:center;gap:6px;margin-right:16px"
    return f'<span style="{style}">{drawing}{words}</span>'


def stroke(colour: str, width: float, dash: str = "solid") -> str:
    """The style of a line."""
    return f"width:22px;border-top:{width}px {dash} {colour}"


def both_shades(opacity: float) -> str:
    """The style of a shade, half in the deep model's colour and half in its rival's."""
    halves = f"linear-gradient(90deg,{tint(DEEP, opacity)} 50%,{tint(SINGLE, opacity)} 50%)"
    return f"width:22px;height:11px;background:{halves}"


def data_keys(classes: tuple[str, ...], ink: Ink) -> list[str]:
    """The data's entries: one, or one a class."""
    if not classes:
        return [key(f"color:{ink.data}", "data", "●")]
    return [key(mark(c), plain(name)) for c, name in enumerate(classes)]


def legend_row(keys: list[str], ink: Ink) -> str:
    style = f"color:{ink.text};font-size:13px;line-height:1.7;display:flex;flex-wrap:wrap"
    return f'<div style="{style}">{"".join(keys)}</div>'
