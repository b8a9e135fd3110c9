"""The two randomnesses: sample paths and minibatches, and what each does to a gradient."""

import streamlit as st

from dgp_core.live.noise_view import noise_view, row_alone
from pages.figures.palette import ink_for
from pages.figures.randomness import (
    alone_figure,
    bound_spread_figure,
    direction_figure,
    gradient_noise_figure,
    share_figure,
)
from pages.ui import session, stage
from pages.ui.bar import bar, dress, intro, state_line
from pages.ui.sentences import in_words
from pages.ui.server import Scene


def nothing(run, moment):
    """This page draws a moment only when it is asked to."""
    return {}


session.browser()
session.arrive()
with in_words("This run could not be measured. Open the playground and start it again."):
    run_id, mine = session.current_run()
    run = session.workshop().watch(run_id)
    ink = ink_for(st.context.theme.type)
    session.play({"main": Scene(run_id, nothing, ("randomness",))})
    intro(
        "The two randomnesses",
        run_id,
        "Every gradient is an estimate, twice over: of all rows from a minibatch, and of all paths "
        "through the layers from a few. Redraw the one, and then the other: what moves?",
    )
    bar(run, mine)
    state_line()
    if run.latest is None:
        st.info("The run has not begun yet: this page needs its first moment.")
        st.stop()
    st.session_state.setdefault("noise_seed", 0)
    with st.container(horizontal=True, gap="small"):
        measure = st.button(
            "Measure this moment", type="primary", key="noise_now", icon=":material/science:"
        )
        if st.button("Redraw both", icon=":material/casino:", key="noise_again"):
            st.session_state.noise_seed += 1
            measure = True
    kept = st.session_state.get("noise")
    if measure or kept is None or kept[0] != run_id:
        with st.spinner("Drawing estimates; the first time their code is compiled …"):
            moment = run.latest
            kept = (
                run_id,
                noise_view(run, moment, st.session_state.noise_seed),
                row_alone(run, moment, len(run.dataset) // 2),
            )
            st.session_state.noise = kept
    _, view, alone = kept
    st.caption(f"At step {view.step:,}, with {view.n_rows:,} rows.")
    with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
        S = st.select_slider("Samples S", view.samples, key="noise_samples", width=260)
        B = st.select_slider("Rows B in a minibatch", view.batches, key="noise_batch", width=260)
        group = st.selectbox(
            "Gradient of",
            range(len(view.gradients)),
            format_func=lambda g: view.gradients[g].group,
            key="noise_group",
            width=260,
        )
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**Estimates of the bound**, each redrawn many times")
        stage.figure(bound_spread_figure(view, S, B, ink), "Estimates of the bound.", "noise_bound")
        st.caption(
            "Their means agree with the bound from all rows and many samples, within their errors: "
            "both randomnesses are unbiased."
        )
    with right:
        st.markdown("**What is the gradient's noise due to?**")
        stage.figure(share_figure(view, S, ink, group=group), "Shares of the noise.", "noise_share")
        st.caption("With all rows in the batch, only the samples are left.")
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**More samples**")
        figure = gradient_noise_figure(view, ink, 285, group, "samples")
        stage.figure(figure, "Noise of the gradient against samples.", "noise_by_samples")
    with right:
        st.markdown("**More rows**")
        figure = gradient_noise_figure(view, ink, 285, group, "rows")
        stage.figure(figure, "Noise of the gradient against rows.", "noise_by_rows")
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**Does one estimate point the right way?**")
        stage.figure(direction_figure(view, S, B, ink), "Directions.", "noise_direction")
    with right:
        st.markdown("**Why one sample a row is enough**")
        stage.figure(alone_figure(alone, ink), "A row alone and among all others.", "noise_alone")
        st.caption(
            "A row's marginals depend on its own path alone. Asked by itself or among all rows, "
            "with the same ε, the answers are the same: so no row needs another row's samples."
        )
session.keep_cookie()
dress()
