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
    # A link that locks a page, or puts it into another, leaves no way to the others.
    locked = st.query_params.get("lock") == "1" or getattr(
        st.session_state.get("display_options"), "lock", False
    )
    st.navigation(
        {
            "Explore": [
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
                st.Page(
                    "pages/explore/your_data.py", title="Your data", icon=":material/upload_file:"
                ),
                st.Page("pages/explore/compare.py", title="Compare", icon=":material/leaderboard:"),
            ],
            "Learn": [
                st.Page("pages/learn/what_is_a_gp.py", title="1 · What is a GP?"),
                st.Page("pages/learn/inducing_points.py", title="2 · Inducing points"),
                st.Page("pages/learn/why_deep.py", title="3 · Why deep?"),
                st.Page("pages/learn/why_not_zero_mean.py", title="4 · Why not zero mean?"),
                st.Page("pages/learn/the_bound.py", title="5 · The bound"),
                st.Page(
                    "pages/learn/what_independence_costs.py", title="6 · What independence costs"
                ),
                st.Page("pages/learn/doubly_stochastic.py", title="7 · Doubly stochastic"),
                st.Page(
                    "pages/learn/prediction_is_a_mixture.py", title="8 · Prediction is a mixture"
                ),
                st.Page("pages/learn/does_depth_help.py", title="9 · Does depth help?"),
                st.Page("pages/learn/classes.py", title="10 · Classes"),
                st.Page("pages/learn/for_practitioners.py", title="11 · For practitioners"),
                st.Page("pages/learn/scale.py", title="12 · Scale"),
                st.Page("pages/learn/results.py", title="13 · Results"),
                st.Page("pages/learn/glossary.py", title="Glossary", url_path="glossary"),
                st.Page("pages/learn/for_teachers.py", title="For teachers"),
            ],
        },
        position="hidden" if locked or st.context.is_embedded else "top",
    ).run()
else:
    from pages.figures.boards import opening
    from pages.ui.classroom.metrics import metrics_route
    from pages.ui.stage.early import early_route
    from pages.ui.stage.sockets import middleware, routes
    from pages.ui.startup import lifespan

    app = st.App(
        __file__,
        lifespan=lifespan,
        routes=[*routes, early_route(opening), metrics_route],
        middleware=middleware,
    )
