"""How classes are told apart: a colour that the colour-blind can tell, and a symbol beside it."""

from pages.figures.palette import Ink

COLOURS = (
    "#E69F00",
    "#56B4E9",
    "#CC79A7",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#8C8C8C",
)
"""Okabe and Ito's; grey stands for their black, which a dark page would swallow."""

SYMBOLS = ("circle", "square", "diamond", "cross", "x", "star", "pentagon", "hourglass", "bowtie")
"""One more than there are colours, so that no pair returns before the 73rd class; never a triangle,
which is an inducing point."""

SIGNS = ("●", "■", "◆", "✚", "✖", "★", "⬟", "⧗", "⧓")
"""The same as characters."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def colour(code: int) -> str:
    return COLOURS[code % len(COLOURS)]


def symbol(code: int) -> str:
    return SYMBOLS[code % len(SYMBOLS)]


def sign(code: int) -> str:
    return SIGNS[code % len(SIGNS)]


def dash(code: int) -> str:
    return DASHES[code % len(DASHES)]


def class_marker(code: int, ink: Ink, size: int) -> dict:
    edge = {"color": ink.paper, "width": 0.6}
    return {"symbol": symbol(code), "color": colour(code), "size": size, "line": edge}
