"""The colours of the theme that a browser has chosen."""

from dataclasses import fields

import streamlit as st

from pages.figures.palette import DARK, LIGHT, Ink, tint


def page_ink() -> Ink:
    """The ink of figures on this page."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def on_paper(figure: str) -> str:
    """A figure's JSON in the ink of the light theme, whichever it was drawn for."""
    for field in fields(Ink):
        night, day = getattr(DARK, field.name), getattr(LIGHT, field.name)
        figure = figure.replace(night, day).replace(_channels(night), _channels(day))
    return figure


def _channels(colour: str) -> str:
    """How a tint of a colour begins."""
    return tint(colour, 0).removesuffix("0)")
