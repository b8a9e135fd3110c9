"""The page list, and the server that shows it.

Streamlit runs this script for every visit; the server imports it once, for the app itself.
"""

import streamlit as st

if __name__ == "__main__":
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
            st.Page("pages/explore/layers.py", title="Layers", icon=":material/layers:"),
            st.Page("pages/explore/mixture.py", title="Mixture", icon=":material/area_chart:"),
            st.Page("pages/explore/prior.py", title="Prior", icon=":material/gesture:"),
            st.Page(
                "pages/explore/randomness.py",
                title="Two randomnesses",
                icon=":material/casino:",
                url_path="randomness",
            ),
            st.Page("pages/explore/collection.py", title="Data", icon=":material/table_chart:"),
            st.Page("pages/explore/your_data.py", title="Your data", icon=":material/upload_file:"),
            st.Page("pages/explore/compare.py", title="Compare", icon=":material/leaderboard:"),
        ],
        position="top",
    ).run()
else:
    from pages.ui.server import lifespan, routes

    app = st.App(__file__, lifespan=lifespan, routes=routes)
