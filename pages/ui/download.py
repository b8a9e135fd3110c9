"""A button that saves a file, and does not run the page's script again."""

from pathlib import PurePath
from typing import Any

import streamlit as st

KINDS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".npz": "application/octet-stream",
    ".py": "text/x-python",
}
"""Of files, by how their names end."""


def download(label: str, data: Any, file: str, icon: str, key: str, **more: Any) -> None:
    """`data` may be a function that makes them when the button is pressed."""
    st.download_button(
        label,
        data,
        file_name=file,
        mime=KINDS[PurePath(file).suffix],
        icon=f":material/{icon}:",
        key=key,
        on_click="ignore",
        **more,
    )
