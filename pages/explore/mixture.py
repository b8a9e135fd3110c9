"""Mixture: what a deep GP predicts at one place, and where a Gaussian would not do."""

from functools import partial

import streamlit as st

from datasets.catalogue import entry, load
from pages.figures.boards import Look, honesty, mixtures, star_row
from pages.figures.palette import ink_for
from pages.ui import session, stage
from pages.ui.bar import bar, dress, intro, state_line
from pages.ui.sentences import in_words
from pages.ui.server import Scene

# Of rows drawn anew from a toy, which no model has seen.
FRESH_SEED = 1000
MEASURES = {
    "total_variation": "Most that they differ on any event",
    "wasserstein": "How far probability must be moved",
}


def on_click() -> None:
    """A click in a curve over the inputs chooses x*."""
    where = st.session_state.stage.click
    if where and where.get("name") in ("main/differ", "main/varies"):
        session.clicked({**where, "y": 0.0})


def choose_place(run) -> None:
    """x* by numbers, for who does not click; all inputs where there are few."""
    names = run.dataset.input_names
    if len(names) > 2:
        st.caption("With more than two inputs, the mixture is shown at the median of every input.")
        return
    place = st.session_state.choices.place
    middle = [float(v) for v in star_row(run, ())]
    values = []
    with st.container(horizontal=True, gap="medium"):
        for d, name in enumerate(names):
            values.append(
                st.number_input(
                    f"x*: {name}",
                    value=place[d] if d < len(place) else middle[d],
                    key=f"star_{d}_{st.session_state.choices.star}",
                    format="%.4g",
                    width=180,
                    help="Where the prediction is looked at; a click in a picture below sets it.",
                )
            )
    star = ",".join(f"{value:.4g}" for value in values)
    if star != ",".join(f"{v:.4g}" for v in (place or middle)):
        session.change(star=star)
        st.rerun()


def held_out(run):
    """Fresh rows of a toy, or nothing where the run has learned from all that there are."""
    found = entry(run.dataset.name)
    if found.kind != "toy" or found.name == "drawn":
        return None
    return load(found.name, n=500, seed=FRESH_SEED)


session.browser()
session.arrive()
with in_words("This run could not be shown. Open the playground and start it again."):
    run_id, mine = session.current_run()
    run, choices = session.workshop().watch(run_id), st.session_state.choices
    ink = ink_for(st.context.theme.type)
    look = Look(ink=ink, noise=choices.noise == "with", star=choices.place)
    measure = st.session_state.get("measure", "total_variation")
    fresh = held_out(run)

    def paint(run, moment):
        elements = mixtures(run, moment, look, measure)
        return elements | honesty(run, moment, fresh, ink) if fresh is not None else elements

    session.play(
        {"main": Scene(run_id, partial(paint), ("mixture", look, measure, fresh is None))}, on_click
    )
    intro(
        "A prediction is a mixture",
        run_id,
        "Each sample path through the layers ends in a Gaussian; the prediction is all of them "
        "together: $q(f_*) \\approx \\frac{1}{S} \\sum_s q(f_*^L \\mid \\hat f_*^{L-1, s})$. It "
        "may have a long tail, or two humps, which no single Gaussian has.",
    )
    bar(run, mine)
    state_line()
    choose_place(run)
    stage.words("main/mixture_title", 22)
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown("**Density.** Components thin, mixture thick, its Gaussian summary dotted")
        stage.picture("main/mixture", 360)
    with right:
        st.markdown("**The same as cumulative distributions**: the share below each value")
        stage.picture("main/cdf", 360)
    st.markdown("**Where does the variance come from?**")
    stage.picture("main/split", 170)
    stage.words("main/split_words", 22)
    stage.timeline()
    st.subheader("Where do the two models disagree?", anchor=False)
    st.markdown(
        "Over the inputs: how far the deep model's distribution is from the single layer's. Click "
        "in a curve to look there."
    )
    if not run.dataset.classes:
        st.segmented_control(
            "Measured as",
            tuple(MEASURES),
            format_func=lambda name: MEASURES[name],
            default="total_variation",
            required=True,
            key="measure",
        )
    left, right = st.columns(2, gap="medium")
    with left:
        stage.picture("main/differ", 260)
        stage.words("main/most", 22)
    with right:
        stage.picture("main/varies", 260)
    st.subheader("Do the probabilities come true?", anchor=False)
    if fresh is None:
        st.info(
            "This run has learned from every row that there is, so nothing is left to judge it by. "
            "Choose a toy, whose fresh rows can be drawn, or bring a file to Your data, which "
            "holds rows out."
        )
    else:
        st.markdown(
            f"On {len(fresh):,} fresh rows that neither model has seen. First: where y fell in the "
            "predicted distribution, flat where a model is honest. Second: how often y fell inside "
            "an interval, on the diagonal where the interval keeps its promise."
        )
        left, right = st.columns(2, gap="medium")
        with left:
            stage.picture("main/pit", 260)
        with right:
            stage.picture("main/coverage", 260)
session.keep_cookie()
dress()
