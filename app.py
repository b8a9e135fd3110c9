"""The page list, and nothing else."""

import streamlit as st

st.set_page_config(page_title="Deep GP Lab", page_icon="pages/ui/icon.svg", layout="wide")
st.navigation(
    {
        "Explore": [
            st.Page(
                "pages/explore/welcome.py",
                title="Welcome",
                icon=":material/waving_hand:",
                default=True,
            ),
        ],
    },
    position="top",
).run()
