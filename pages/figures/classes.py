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

SHAPES = (
    "circle(46%)",
    "inset(8%)",
    "polygon(50% 0,100% 50%,50% 100%,0 50%)",
    "polygon(34% 0,66% 0,66% 34%,100% 34%,100% 66%,66% 66%,66% 100%,34% 100%,34% 66%,0 66%,0 34%,"
    "34% 34%)",
    "polygon(22% 0,50% 28%,78% 0,100% 22%,72% 50%,100% 78%,78% 100%,50% 72%,22% 100%,0 78%,28% 50%,"
    "0 22%)",
    "polygon(50% 0,62% 35%,98% 35%,69% 57%,79% 91%,50% 70%,21% 91%,31% 57%,2% 35%,38% 35%)",
    "polygon(50% 0,100% 38%,81% 100%,19% 100%,0 38%)",
    "polygon(5% 0,95% 0,5% 100%,95% 100%)",
    "polygon(0 5%,0 95%,100% 5%,100% 95%)",
)
"""The same as CSS cuts them out of a box: few fonts have a character for each."""

DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")


def colour(code: int) -> str:
    return COLOURS[code % len(COLOURS)]


def symbol(code: int) -> str:
    return SYMBOLS[code % len(SYMBOLS)]


def mark(code: int) -> str:
    """The style of a class's mark in a legend."""
    cut = f"clip-path:{SHAPES[code % len(SHAPES)]}"
    return f"width:11px;height:11px;background:{colour(code)};{cut}"


def dash(code: int) -> str:
    return DASHES[code % len(DASHES)]


def class_marker(code: int, ink: Ink, size: int) -> dict:
    edge = {"color": ink.paper, "width": 0.6}
    return {"symbol": symbol(code), "color": colour(code), "size": size, "line": edge}
