"""The colours of the theme that a browser has chosen."""

import streamlit as st

from pages.figures.palette import DARK, LIGHT, Ink


def page_ink() -> Ink:
    """The ink of figures on this page."""
    return DARK if st.context.theme.type == "dark" else LIGHT
