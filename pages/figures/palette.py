"""The app's colours: safe for the colour-blind, and each with a second mark beside it."""

from dataclasses import dataclass

DEEP = "#0072B2"
"""The deep model, drawn solid."""
SINGLE = "#D55E00"
"""The single layer, drawn dashed."""
INDUCING = "#009E73"
"""Inducing points, drawn as triangles."""
DRAW = "#56B4E9"
"""Function draws, drawn thin."""
FONT = '"Source Sans", "Segoe UI", Roboto, Helvetica, Arial, sans-serif'


@dataclass(frozen=True)
class Ink:
    """What differs between paper and night: text, grid lines, data and the models' means."""

    text: str
    grid: str
    data: str
    paper: str
    deep: str = DEEP
    """The deep model's mean, which stands out from its shade and its draws …"""
    single: str = SINGLE
    """… and the single layer's."""


LIGHT = Ink(text="#1B2733", grid="#E3E8ED", data="#3A444E", paper="#FFFFFF")
DARK = Ink(
    text="#E4EAF0",
    grid="#2A3540",
    data="#C3CCD5",
    paper="#11161C",
    deep="#8FD0FF",
    single="#FFA768",
)


def tint(colour: str, opacity: float) -> str:
    """A palette colour with an opacity, in the form that Plotly reads."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:g})"
