"""Prior: what a deep GP believes before any data, from one layer to ten."""

import streamlit as st

from dgp_core.gp.data import counted
from dgp_core.live.views.prior import prior_view, warped_grid
from pages.figures.prior import (
    correlation_figure,
    draws_figure,
    information_figure,
    shape_words,
    slope_figure,
    spread_figure,
    warp_figure,
)
from pages.ui import session
from pages.ui.bar import dress
from pages.ui.glossary_links import Linker
from pages.ui.sentences import in_words
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

essay = Linker()

DEEPEST = 10
SCALES = (0.25, 0.5, 1.0, 2.0)
MEANS = {"zero": "zero mean", "linear": "linear mean"}


@st.cache_data(show_spinner=False, max_entries=64)
def views(deviation: float, seed: int):
    """Both priors to the deepest layer; another depth only shows another part of them."""
    return tuple(prior_view(DEEPEST, mean, 1.0, deviation, seed=seed) for mean in MEANS)


@st.cache_data(show_spinner=False, max_entries=64)
def grids(deviation: float, seed: int):
    return tuple(warped_grid(DEEPEST, mean, 1.0, deviation, seed=seed) for mean in MEANS)


session.browser()
session.arrive_alone("depth", "swing", "draw")
session.play({})
with in_words("The prior could not be drawn. Choose another output scale, or draw again."):
    ink = page_ink()
    st.title("Before any data", anchor=False)
    essay.write(
        "What functions does a deep GP expect before it has seen anything? Put layer upon layer "
        "and look. If every layer has a mean of zero, each map sends many inputs to the same "
        "output, and what was lost never comes back: functions get flat stretches with cliffs "
        "between them, and in the end only flat ones. With a linear mean, each layer starts from "
        "what enters it and bends it: the same happens, far more slowly. This is why the paper's "
        "inner layers have one."
    )
    with st.container(horizontal=True, gap="large", vertical_alignment="bottom"):
        depth = st.slider(
            "Depth",
            1,
            DEEPEST,
            session.linked("depth", range(1, DEEPEST + 1), 4),
            key="own_depth",
            width=360,
            help="Layers L of the composition $f^L \\circ \\dots \\circ f^1$.",
        )
        deviation = st.select_slider(
            "Output scale of a layer",
            SCALES,
            session.linked("swing", SCALES, 1.0),
            key="own_swing",
            width=240,
            help="σ: the standard deviation of each layer's function, where its lengthscale is 1. "
            "Large ones fold the inputs over, whatever the mean.",
        )
        seed = st.session_state.setdefault("own_draw", session.linked("draw", range(1000), 0))
        if st.button(
            "Draw again",
            icon=":material/casino:",
            key="prior_again",
            help="Other functions of the same priors.",
        ):
            seed = st.session_state.own_draw = (seed + 1) % 1000
    session.link(depth=depth, swing=deviation, draw=seed)
    session.say()
    both = views(deviation, seed)
    for column, view, name in zip(st.columns(2, gap="medium"), both, MEANS.values(), strict=True):
        with column:
            st.markdown(f"**{name.capitalize()}**, {counted(depth, 'layer')}")
            stage.figure(
                draws_figure(view, depth, ink),
                f"Functions of a prior with {name}.",
                f"prior_{view.mean_function}",
            )
            st.caption(shape_words(view, depth))
    st.info(
        essay.linked(
            "**Try this.** Move the depth from 1 to 10 and follow the thick function: at which "
            "depth does each prior get its first cliffs, and when is one of them flat? Then halve "
            "the output scale, and try again."
        ),
        icon=":material/touch_app:",
    )
    st.subheader("Why? Look at the slope", anchor=False)
    essay.write(
        "The slope of a composition is the product of its layers' slopes. With zero mean each "
        "factor is a Gaussian, often near nothing, so the logarithm of the product spreads ever "
        "wider: almost everywhere flat, and somewhere very steep."
    )
    left, right = st.columns(2, gap="medium")
    with left:
        stage.figure(slope_figure(both, depth, ink), "The density of log |slope|.", "prior_slope")
        stage.figure(
            information_figure(both, ink),
            "Values that can be told apart, by depth.",
            "prior_values",
        )
    with right:
        stage.figure(
            spread_figure(both, ink), "The spread of log |slope| by depth.", "prior_spread"
        )
        stage.figure(
            correlation_figure(both, depth, ink), "How alike neighbours' outputs are.", "prior_corr"
        )
    st.subheader("The same with two inputs", anchor=False)
    essay.write(
        "A grid of two inputs, carried through the layers. With zero mean it is soon folded into "
        "a thread: two inputs became one. A linear mean folds it less, and at a small output scale "
        "leaves it a sheet."
    )
    for column, grid, name in zip(
        st.columns(2, gap="medium"), grids(deviation, seed), MEANS.values(), strict=True
    ):
        with column:
            st.markdown(f"**{name.capitalize()}**")
            stage.figure(
                warp_figure(grid, depth, ink),
                f"A grid after {counted(depth, 'layer')} with {name}.",
                f"prior_grid_{grid.mean_function}",
            )
session.page_made()
dress()
