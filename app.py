"""The page list, and nothing else."""

import streamlit as st

st.set_page_config(
    page_title="Deep GP Lab",
    page_icon="pages/ui/icon.svg",
    layout="wide",
    initial_sidebar_state=256,
)
st.navigation(
    [
        st.Page(
            "pages/explore/playground.py",
            title="Playground",
            icon=":material/science:",
            default=True,
        ),
        st.Page("pages/explore/collection.py", title="Data", icon=":material/table_chart:"),
    ],
    position="top",
).run()
