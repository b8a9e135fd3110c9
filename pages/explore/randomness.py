"""The two randomnesses: sample paths and minibatches, and what each does to a gradient."""

import streamlit as st

from dgp_core.live.views.randomness import noise_view, row_alone
from pages.figures.randomness import (
    alone_figure,
    bound_spread_figure,
    direction_figure,
    gradient_noise_figure,
    share_figure,
)
from pages.ui import session
from pages.ui.bar import bar, dress, intro, state_line
from pages.ui.glossary_links import Linker
from pages.ui.sentences import in_words
from pages.ui.stage import hosts as stage
from pages.ui.stage.server import Scene
from pages.ui.theme import page_ink

essay = Linker()


def nothing(run, moment):
    """This page draws a moment only when it is asked to."""
    return {}


WAYS = {"samples": ("samples", "minibatch"), "rows": ("minibatch", "samples")}
"""What may be redrawn, in words, and what then stays."""
SHARES = "The sources of the gradient's noise, by the size of the minibatch."
DIRECTIONS = "How well one estimate's direction agrees with the full gradient's."


def measured(run_id: str, run, ink) -> None:
    """What one moment's estimates are like, and how they move when something is redrawn."""
    first = session.linked("redraw", range(1000), 0)
    seed = st.session_state.setdefault("own_redraw", first)
    buttons = st.container(horizontal=True, gap="small")
    with buttons:
        measure = st.button(
            "Measure this moment", type="primary", key="noise_now", icon=":material/science:"
        )
        if st.button(
            "Redraw everything",
            icon=":material/casino:",
            key="noise_again",
            help="Other samples, other minibatches and other rows to draw them from, everywhere on "
            "this page.",
        ):
            seed = st.session_state.own_redraw = (seed + 1) % 1000
            measure = True
    kept = st.session_state.get("noise")
    if measure or kept is None or kept[0] != run_id:
        with st.spinner(
            "Drawing estimates; the first time their code is compiled …", show_time=True
        ):
            moment = run.latest
            kept = (
                run_id,
                noise_view(run, moment, seed),
                row_alone(run, moment, len(run.dataset) // 2),
            )
            st.session_state.noise = kept
    _, view, alone = kept
    st.caption(f"At step {view.step:,}, with {view.n_rows:,} rows.")
    with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
        S = st.select_slider(
            "Samples S",
            view.samples,
            session.linked("S", view.samples, view.samples[0]),
            key="own_S",
            width=260,
            help="Paths through the layers for each row.",
        )
        B = st.select_slider(
            "Rows B in a minibatch",
            view.batches,
            session.linked("B", view.batches, view.batches[0]),
            key="own_B",
            width=260,
            help="The last is all rows: then there is no minibatch to redraw.",
        )
        group = st.selectbox(
            "Gradient of",
            range(len(view.gradients)),
            format_func=lambda g: view.gradients[g].group,
            key="noise_group",
            width=260,
        )
    session.link(S=S, B=B, redraw=seed)
    with buttons:
        moved = redraw(view, S, B)
    st.markdown(
        moved
        or "**Try this:** redraw the samples a few times, then the minibatch. Which moves the "
        "large mark in the picture farther? Then take more rows, or more samples, and redraw again."
    )
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(
            "**Estimates of the bound**, each redrawn many times",
            help="$\\frac{N}{B} \\sum_{i \\in b} \\frac{1}{S} \\sum_s \\ell_i(\\epsilon_{is}) - "
            "\\mathrm{KL}$, an estimate of the bound, equation (17): over minibatches $b$, over "
            "paths $\\epsilon$, over both.",
        )
        now = st.session_state.noise_drawn
        figure = bound_spread_figure(view, S, B, ink, now=now)
        stage.figure(figure, "Estimates of the bound.", "noise_bound")
        st.caption(
            essay.linked(
                "Where both are redrawn, the mean agrees with the bound from all rows and many "
                "samples (dashed), within its error: the estimate is unbiased. Where the minibatch "
                "is kept, estimates gather around that minibatch's own bound, and where the "
                "samples are kept, around the bound with these samples (short lines): what is not "
                "redrawn does not average out."
            )
        )
    with right:
        st.markdown("**Sources of the gradient's noise**")
        stage.figure(share_figure(view, S, ink, group=group), SHARES, "noise_share")
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
        stage.figure(direction_figure(view, S, B, ink), DIRECTIONS, "noise_direction")
    with right:
        st.markdown("**Why one sample per row is enough**")
        stage.figure(alone_figure(alone, ink), "A row alone and among all others.", "noise_alone")
        st.caption(
            essay.linked(
                "A row's marginals depend on its own path alone. Asked by itself or among all "
                "rows, with the same ε, the answers are the same: so no row needs another row's "
                "samples."
            )
        )


def redraw(view, S: int, B: int) -> str:
    """Draws one of the two anew, holds the other, and says how far the estimate moved."""
    drawn = st.session_state.setdefault("noise_drawn", {"samples": 0, "rows": 0})
    moved = ""
    for way, (word, other) in WAYS.items():
        if st.button(
            f"Redraw the {word}",
            icon=":material/casino:",
            key=f"redraw_{way}",
            disabled=way == "rows" and B == view.n_rows,
            help=f"Another draw of the {word}; the {other} as before.",
        ):
            values = getattr(view.spreads[S, B], way)
            before = values[drawn[way] % len(values)]
            drawn[way] += 1
            after = values[drawn[way] % len(values)]
            moved = (
                f"You redrew the **{word}** and kept the {other}: the estimate of the bound went "
                f"from {before:,.1f} to {after:,.1f} nats, by **{after - before:+,.1f}**."
            )
    return moved.replace("-", "−")


session.browser()
session.arrive("S", "B", "redraw")
with in_words("This run could not be measured. Open the playground and start it again."):
    run_id, mine = session.current_run()
    run = session.workshop().watch(run_id)
    ink = page_ink()
    session.play({"main": Scene(run_id, nothing, ("randomness",))})
    intro(
        "The two randomnesses",
        run_id,
        essay.linked(
            "Every gradient is an estimate, twice over: of all rows from a minibatch, and of all "
            "paths through the layers from a few. Redraw the one, and then the other: what moves?"
        ),
    )
    bar(run, mine)
    state_line()
    session.say()
    if run.latest is None:
        st.info("The run has not begun yet: this page needs its first moment.")
        session.wait_for_first_moment(run)
    else:
        measured(run_id, run, ink)
session.page_made()
dress()
