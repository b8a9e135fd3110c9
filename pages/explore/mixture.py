"""Mixture: what a deep GP predicts at one place, and where a Gaussian would not do."""

from contextlib import suppress
from functools import partial

import streamlit as st

from datasets.catalogue import entry
from datasets.toys import fresh_rows
from dgp_core.gp.data import counted
from dgp_core.live.workshop import WorkshopError
from pages.figures.boards import (
    Look,
    calibrations,
    can_look,
    mixtures,
    most_apart,
    place_clicked,
    star_row,
)
from pages.ui import session
from pages.ui.bar import bar, dress, intro, state_line
from pages.ui.choices import Choices, judge_options
from pages.ui.glossary_links import Linker
from pages.ui.sentences import in_words
from pages.ui.stage import hosts as stage
from pages.ui.stage.server import Scene
from pages.ui.theme import page_ink

essay = Linker()

# Of rows drawn anew from a toy, which no model has seen.
FRESH_SEED = 1000
MEASURES = {
    "total_variation": "Total variation",
    "wasserstein": "Wasserstein distance",
}


TRY = {
    "classes": "look where the models disagree most: do the sample paths of the deep one agree "
    "among themselves there?",
    "one": "look at places beside a jump or beyond the data: is the mixture wider than its "
    "Gaussian, skewed, or of two modes?",
    "more": "look where the models disagree most, then train on: does the between-paths part of "
    "the variance shrink there?",
}


def kind_of(run) -> str:
    if run.dataset.classes:
        return "classes"
    return "one" if run.dataset.X.shape[1] == 1 else "more"


def on_click(where: dict) -> None:
    """A click in a curve over the inputs chooses x*."""
    if where.get("name") not in ("main/differ", "main/varies"):
        return
    with suppress(WorkshopError):  # the page says that the run is over
        run = session.workshop().watch(st.session_state.run_id)
        moment = session.shown_moment(run)
        noise = st.session_state.choices.noise == "with"
        place = None if moment is None else place_clicked(run, moment, where, noise)
        if place is not None:
            session.choose_star(place)


def look_there(run, measure) -> None:
    """Goes to where the two models disagree most."""
    moment = session.shown_moment(run)
    if moment is not None:
        noise = st.session_state.choices.noise == "with"
        session.choose_star(most_apart(run, moment, noise, measure))


def choose_place(run) -> None:
    """x* typed as numbers, where there are few inputs."""
    names = run.dataset.input_names
    if len(names) > 2:
        if not st.session_state.choices.star:
            st.caption("With more than two inputs, this is at the median of every input.")
        else:
            st.button(
                "Back to the median row", key="median", on_click=session.choose_star, args=((),)
            )
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


JUDGE_BY = {
    "chance": "chance",
    "latest": "the latest rows by {}",
    "groups": "whole groups of {}",
}


def judge_by(choices: Choices, mine: bool) -> None:
    """Which rows of real data no model learns from; others begin another run."""
    options = judge_options(choices.data)
    if len(options) == 1:
        return

    def title(option: str) -> str:
        way, _, column = option.partition(":")
        return JUDGE_BY[way].format(column)

    way, column = choices.judged_by
    st.session_state.own_judge = f"{way}:{column}" if column else way
    st.selectbox(
        "Judge by",
        options,
        key="own_judge",
        format_func=title,
        on_change=session.choose_judge,
        disabled=not mine,
        width=320,
        help="By chance, the held-out rows are more of the same kind. The latest rows ask for "
        "forecasts, whole groups for groups that no model has seen. Another choice trains both "
        "models anew, without those rows.",
    )


WHICH = {
    "chance": "held out by chance: more rows of the same kind",
    "latest": "the latest by {}: a forecast",
    "groups": "whole groups of {}: groups that neither model knows",
}


def which_rows(choices: Choices) -> str:
    """Which question rows held out of real data answer, in brackets; nothing of a toy's."""
    if not choices.holds_out:
        return ""
    way, column = choices.judged_by
    return f" ({WHICH[way].format(column)})"


@st.cache_resource(show_spinner=False, max_entries=32)
def unseen(name: str, judge: str):
    """Rows that no run has learnt from: a toy's fresh ones, or those held out of real data; none of
    what a person drew.

    The same object at every run of this script, so that its answers are kept too.
    """
    if name == "drawn":
        return None
    if entry(name).kind == "toy":
        return fresh_rows(name, 500, FRESH_SEED)
    return Choices(data=name, judge=judge).held_out


def paint(run, moment, look, measure, fresh):
    """The mixture, and its calibration where rows are held out."""
    elements = mixtures(run, moment, look, measure)
    return elements if fresh is None else elements | calibrations(run, moment, fresh, look.ink)


session.browser()
session.arrive("measure")
with in_words("This run could not be shown. Open the playground and start it again."):
    run_id, mine = session.current_run()
    run, choices = session.workshop().watch(run_id), st.session_state.choices
    ink = page_ink()
    look = Look(ink=ink, noise=choices.noise == "with", star=choices.place)
    first = session.linked("measure", tuple(MEASURES), "total_variation")
    measure = st.session_state.get("own_measure", first)
    fresh = unseen(run.dataset.name, choices.judge)
    shows = partial(paint, look=look, measure=measure, fresh=fresh)
    style = ("mixture", look, measure, choices.judged_by)
    session.play({"main": Scene(run_id, shows, style)}, on_click)
    intro(
        "A prediction is a mixture",
        run_id,
        essay.linked(
            "Each sample path through the layers ends in a Gaussian; the prediction is all of them "
            "together: $q(f_*) \\approx \\frac{1}{S} \\sum_s q(f_*^L \\mid \\hat f_*^{L-1, s})$. "
            "It may have a long tail, or two modes, which no single Gaussian has."
        ),
    )
    bar(run, mine)
    state_line()
    session.say()
    choose_place(run)
    stage.words("main/mixture_title", 22)
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(
            "**Density.** Components thin, mixture thick, its Gaussian summary dotted",
            help="The mixture, equation (18): $q(f_*^L) \\approx \\frac{1}{S} \\sum_s "
            "q(f_*^L \\mid \\hat f_*^{L-1, s})$, each component of weight $1/S$.",
        )
        stage.picture("main/mixture", 360)
    with right:
        st.markdown(
            "**The same as cumulative distributions**: the share below each value",
            help="$P(y_* \\le y) = \\frac{1}{S} \\sum_s P_s(y_* \\le y)$.",
        )
        stage.picture("main/cdf", 360)
    st.markdown(
        "**Where does the variance come from?**",
        help="$\\mathrm{Var}\\,y = \\mathrm{Var}_s E[y|s] + E_s \\mathrm{Var}(E[y|f]\\,|\\,s) "
        "+ E\\,\\mathrm{Var}(y|f)$: between sample paths $s$, within the last layer, and noise.",
    )
    stage.picture("main/split", 170)
    stage.words("main/split_words", 22)
    essay.write(f"**Try this:** {TRY[kind_of(run)]}")
    stage.timeline()
    st.subheader("Where do the two models disagree?", anchor=False)
    essay.write(
        "Over the inputs: how far the deep model's distribution is from the single layer's."
        + (" Click in a curve to look there, or let the button find the place." * can_look(run))
    )
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        if not run.dataset.classes:
            measure = st.segmented_control(
                "Measured as",
                tuple(MEASURES),
                format_func=lambda name: MEASURES[name],
                default=first,
                required=True,
                key="own_measure",
                help="Total variation: the largest difference in any event's probability, "
                "½ ∫ |p − q| dy. Wasserstein: how far probability must be moved, ∫ |P − Q| dy, in "
                "units of y.",
            )
            session.link(measure=measure)
        if can_look(run):
            st.button(
                "Look where they disagree most",
                icon=":material/my_location:",
                key="look_there",
                on_click=look_there,
                args=(run, measure),
                disabled=run.model.layers == 1,
                help="Sets x* to the place at which the two distributions are farthest apart.",
            )
    left, right = st.columns(2, gap="medium")
    with left:
        stage.picture("main/differ", 260)
        stage.words("main/most", 22)
    with right:
        stage.picture("main/varies", 260)
    st.subheader(
        "Are the models calibrated?",
        anchor=False,
        help="The probability integral transform of a row is $P(y_i)$, its predictive cumulative "
        "distribution at the observed value: uniform where a model is calibrated.",
    )
    judge_by(choices, mine)
    if fresh is None:
        st.info(
            "This run has learned from every point that you put down, so nothing is left to judge "
            "it by. Choose a toy, whose fresh rows can be drawn, or real data, of which one row in "
            "ten is held out."
        )
    else:
        essay.write(
            f"On {counted(len(fresh), 'row')} that neither model has seen{which_rows(choices)}. "
            "First: the quantile of the observed value (PIT), flat where a model is calibrated. "
            "Second: how often y fell inside an interval, on the diagonal where a model is "
            "calibrated."
        )
        left, right = st.columns(2, gap="medium")
        with left:
            stage.picture("main/pit", 260)
        with right:
            stage.picture("main/coverage", 260)
session.page_made()
dress()
