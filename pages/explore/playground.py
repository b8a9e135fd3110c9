"""The playground: a deep model and its single-layer rival, training before your eyes."""

import secrets
from typing import Any

import numpy as np
import streamlit as st

from datasets.catalogue import entry
from datasets.starts import MODEL as FILMED_MODEL
from datasets.starts import film
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.views import LayerPanel, View1D, view_1d
from dgp_core.live.workshop import WorkshopError
from pages.figures.palette import DARK, LIGHT, Ink
from pages.figures.playground import (
    bound_figure,
    data_figure,
    layer_figure,
    legend,
    prediction_figure,
)
from pages.ui import session
from pages.ui.choices import DATA, OFFERED, SPEEDS
from pages.ui.live_chart import live_chart, packed, provide_library
from pages.ui.sentences import in_words

TRY = {
    "step": "set the depth to 1 and back to 2, and watch what happens beside the jump.",
    "ramp": "pause early: which half of the curve does the single layer learn first?",
    "sawtooth": "go from depth 2 to 3. Does another layer help with more than one jump?",
    "chirp": "watch the first layer bend until the wave that enters the second one is even.",
    "growing_noise": "compare the widths of the two shades at the left and at the right end.",
    "two_branches": "look right of zero: has the deep model's shade one hump there, or two?",
    "nearly_linear": "go to depth 5 and watch the meters: do needless layers switch off?",
    "composition": "press New seed a few times: does the deep model always find the same layers?",
    "motorcycle": "look at the flat start: which of the two models is surer of it?",
}

FILM_SECONDS = 0.5
NOTHING = np.zeros(0), np.zeros((0, 1))
Record = tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
# Room for the pictures, as the page's own margins are made for text; and nothing fades between
# two of them.
STYLE = """<style>
[data-testid=stMainBlockContainer] { padding-left: 2rem; padding-right: 2rem; }
[data-testid=stSidebarHeader] { height: 2.5rem; margin-bottom: 0; }
[data-testid=stSidebarUserContent] { padding-top: 0; }
[data-stale=true] { opacity: 1 !important; transition: none !important; }
.st-key-state [data-testid=stMarkdownContainer] { font-variant-numeric: tabular-nums; }
@media (max-width: 640px) {
  [data-testid=stMainBlockContainer] { padding: 4.4rem 1rem 3rem; }
}
</style>"""
# Of the word that says what a run is doing.
COLOURS: dict[str, Any] = {
    "queued": "gray",
    "compiling": "orange",
    "starting": "orange",
    "training": "blue",
    "paused": "gray",
    "finished": "green",
    "stopped": "red",
}


def controls() -> None:
    """What makes a run, and then the rates, which can change under way."""
    st.selectbox(
        "Data set",
        DATA,
        format_func=lambda name: entry(name).title,
        key="choose_data",
        on_change=session.choose,
        help="Each has one input and one output, so that the whole prediction can be seen.",
    )
    st.slider(
        "Depth",
        min(OFFERED["layers"]),
        max(OFFERED["layers"]),
        key="choose_layers",
        on_change=session.choose,
        help="Layers L. Each is a Gaussian process of what the one before it gives; with one, the "
        "deep model is its own rival. Another depth starts the run again.",
    )
    st.segmented_control(
        "Inducing points",
        OFFERED["inducing"],
        key="choose_inducing",
        on_change=session.choose,
        required=True,
        width="stretch",
        help="M: each layer remembers its function by the values u at M inputs Z. More can follow "
        "finer detail, and cost more. Another number starts the run again.",
    )
    st.select_slider(
        "Learning rate",
        OFFERED["rate"],
        key="choose_rate",
        on_change=session.choose,
        help="How far Adam goes in a step. Acts at once, without a restart.",
    )
    st.select_slider(
        "Natural-gradient rate",
        OFFERED["natural"],
        key="choose_natural",
        on_change=session.choose,
        format_func=lambda rate: f"{rate:g}" if rate else "off",
        help="γ: how far the last layer's q(u) goes towards its best in a step. Acts at once; "
        "switching it on or off starts the run again.",
    )


def bar(run: Run, mine: bool, moving: bool) -> None:
    """Play, step, reset: for whoever controls the run; others may start their own."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="bar"):
        if not mine:
            if st.button(
                "Start my own",
                type="primary",
                icon=":material/add:",
                on_click=session.start_my_own,
                key="own",
                help="A run with the same settings, which you control.",
            ):
                st.rerun()
            return
        st.button(
            "Pause" if moving else "Play",
            type="primary",
            icon=":material/pause:" if moving else ":material/play_arrow:",
            on_click=session.wish,
            args=("pause" if moving else "play",),
            key="pause" if moving else "play",
            width=104,
            disabled=run.status in ("finished", "failed"),
            help="Trains both models, or holds them still.",
        )
        st.button(
            "Step",
            icon=":material/skip_next:",
            on_click=session.wish,
            args=("step",),
            key="step",
            disabled=run.status in ("finished", "failed"),
            help="One gradient step of both models, then a pause.",
        )
        st.button(
            "Reset",
            icon=":material/replay:",
            on_click=session.wish,
            args=("reset",),
            key="reset",
            help="Back to the start of the same seed: the same run follows.",
        )
        st.button(
            "New seed",
            icon=":material/casino:",
            on_click=session.new_seed,
            key="seed",
            help=f"Other start values and other noise, on the same data. This is seed "
            f"{run.train.seed}.",
        )
        st.segmented_control(
            "Speed",
            tuple(SPEEDS),
            format_func=lambda word: "Full" if word == "full" else f"{word}/s",
            default=st.session_state.choices.speed,
            key="choose_speed",
            on_change=session.new_speed,
            required=True,
            label_visibility="collapsed",
            help="Steps a second; slow motion shows what a single step does.",
        )


def numbers(run_id: str, snapshot: Snapshot | None, view: View1D | None) -> str:
    """Step, pace and time, in a line that does not jump."""
    if snapshot is None:
        return "step **0**" if view is None else f"recording of step **{view.step}**"
    pace = session.pace(run_id, snapshot)
    return (
        f"step **{snapshot.step:,}** · {pace:,.0f} steps/s · {snapshot.seconds:.1f} s of training"
    )


def packed_view(view: View1D, record: Record, name: str, ink: Ink) -> list[bytes]:
    """Every figure of a moment, packed: deep, rival, bound, and one a layer."""
    bands, L = st.session_state.shade == "Bands", len(view.layers)
    figures = [
        (
            prediction_figure(view, view.deep, True, bands, ink),
            f"The deep model's prediction at step {view.step}, with the data.",
        ),
        (
            prediction_figure(view, view.rival, False, bands, ink),
            f"The single layer's prediction at step {view.step}, with the same data.",
        ),
        (bound_figure(*record, ink), "The bounds of both models over the steps."),
    ]
    for l, layer in enumerate(view.layers):
        figure = layer_figure(layer, view.x_name, view.y_name, l == 0, l == L - 1, ink)
        figures.append((figure, f"What {layer.title} does, and what has come out of it."))
    frame = secrets.token_hex(6)
    for figure, _ in figures:
        figure["layout"]["uirevision"] = name
    return [packed(figure, alt, frame) for figure, alt in figures]


def moment(run_id: str, run: Run, ink: Ink) -> tuple[View1D | None, list[bytes]]:
    """What there is to see now: the run itself, or until it is compiled its film, or the data."""
    name, snapshot = run.dataset.name, run.latest
    style = f"{ink.text}{st.session_state.shade}"
    if snapshot is not None and run.status not in ("waiting", "compiling"):
        session.server().settle()
        view = view_1d(run, snapshot)
        return view, session.server().pictures(
            run, snapshot, style, lambda: packed_view(view, run.record(), name, ink)
        )
    frames = film(name) if run.model == FILMED_MODEL else []
    if not frames:
        return None, waiting_pictures(run, ink)
    view = frames[int(session.film_second(run_id) / FILM_SECONDS) % len(frames)]
    return view, session.server().pictures(
        run, view, style, lambda: packed_view(view, (NOTHING, NOTHING), name, ink)
    )


def waiting_pictures(run: Run, ink: Ink) -> list[bytes]:
    """The data alone, until the start values are there."""
    data = run.dataset
    figure = data_figure(data.X[:, 0], data.Y[:, 0], data.input_names[0], data.output_names[0], ink)
    figure["layout"]["uirevision"] = data.name
    alt = "The data, before any model has seen them."
    return [
        packed(figure, alt, f"data-{data.name}-{ink.text}"),
        packed(figure, alt, f"data-{data.name}-{ink.text}"),
        packed(bound_figure(NOTHING, NOTHING, ink), "No bound yet.", f"none-{ink.text}"),
    ]


def bound_words(view: View1D | None) -> str:
    """The newest bound of each model as the sum that it is."""

    def words(name, panel):
        kl = sum(panel.kl)
        words = f"{name} **{panel.bound:,.0f}** = fit {panel.fit:,.0f} − KL {kl:,.0f}"
        return words.replace("-", "−")

    if view is None or not np.isfinite(view.deep.bound):
        return "The bound is known after the first step."
    if len(view.layers) == 1:
        return words("One layer", view.deep) + "."
    return words("Deep", view.deep) + "; " + words("single", view.rival) + "."


def meter_words(layer: LayerPanel, last: bool) -> str:
    """How far a layer is from its mean function, in words."""
    if last:
        return "How on is it? Wholly: the last layer makes the prediction."
    on = f"{layer.departure:.0%}"
    if layer.departure < 0.05:
        return f"How on is it? {on}: off, it hands on what enters."
    if layer.departure < 0.25:
        return f"How on is it? {on}: it bends the axis a little."
    if layer.departure < 0.6:
        return f"How on is it? {on}: it stretches and squeezes the axis."
    return f"How on is it? {on}: it makes an axis of its own."


def layer_strip(layers: tuple[LayerPanel, ...], contents: list[bytes]) -> None:
    """A panel for each layer, from the first."""
    per_row = len(layers) if len(layers) <= 3 else 3
    for first in range(0, len(layers), per_row):
        row = list(enumerate(layers))[first : first + per_row]
        for (l, layer), column in zip(row, st.columns(per_row, gap="medium"), strict=False):
            with column, st.container(gap="xsmall"):
                kl = f", KL {layer.kl:,.1f} nats" if np.isfinite(layer.kl) else ""
                st.markdown(f"**{layer.title[0].upper()}{layer.title[1:]}**{kl}")
                live_chart(contents[l], key=f"layer_{l}")
                st.progress(
                    min(1.0, max(0.0, layer.departure)),
                    text=meter_words(layer, l == len(layers) - 1),
                )


def show(run_id: str, mine: bool, seconds: float) -> None:
    """The fragment: shows the newest moment, and slows down where many are looking."""
    with in_words("This moment could not be drawn. Reset the run, or try a lower learning rate."):
        show_moment(run_id, mine)
    wanted = session.picture_seconds(session.viewers())
    if not 0.6 < wanted / seconds < 1.6:
        st.rerun(scope="app")


def show_moment(run_id: str, mine: bool) -> None:
    """One moment of the run: the bar, the state, the pictures and their words."""
    ink = DARK if st.context.theme.type == "dark" else LIGHT
    try:
        run, place = session.workshop().watch(run_id), session.workshop().place(run_id)
    except WorkshopError as error:
        st.warning(str(error), icon=":material/hourglass_disabled:")
        if st.button("Start again", type="primary", on_click=session.start_my_own, key="again"):
            st.rerun()
        return
    word, sentence = session.state(run, place)
    bar(run, mine, run.playing and word not in ("finished", "stopped"))
    view, contents = moment(run_id, run, ink)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="state"):
        st.badge(word.capitalize(), color=COLOURS[word], width="content")
        st.markdown(numbers(run_id, run.latest, view), width="content")
        st.caption(sentence, width="content")
    L = run.model.layers
    deep, rival, bound = st.columns((5, 5, 4), gap="medium")
    with deep, st.container(gap="xsmall"):
        st.markdown(f"**Deep model: {L} layers**" if L > 1 else "**Deep model, of one layer**")
        live_chart(contents[0], key="deep")
    with rival, st.container(gap="xsmall"):
        st.markdown("**Its single-layer rival**, on the same axes")
        live_chart(contents[1], key="rival")
    with bound, st.container(gap="xsmall"):
        st.markdown("**The bound that both climb**")
        live_chart(contents[2], key="bound")
    with st.container(horizontal=True, horizontal_alignment="distribute", key="words"):
        st.html(legend(ink, st.session_state.shade == "Bands"), width="content")
        st.caption(bound_words(view), width="content")
    if view is not None:
        layer_strip(view.layers, contents[3:])


provide_library()
session.browser()
session.arrive()
with in_words("This run could not be started. Reload the page, or choose another data set."):
    run_id, mine = session.current_run()
    with st.sidebar:
        st.title("Deep GP Lab", anchor=False)
        st.caption(
            "A Gaussian process of a Gaussian process, and its single-layer rival, training on "
            "the same points."
        )
        if mine:
            controls()
        else:
            st.markdown("**You are watching**")
            st.markdown(session.choices_in_words(run_id))
            st.caption("Whoever started this run controls it.")
        st.segmented_control(
            "Show the prediction as",
            ("Density", "Bands"),
            default="Density",
            key="shade",
            required=True,
            width="stretch",
            help="Density: the mixture itself, darker where new points are likelier, noise "
            "included. Bands: its quantiles, 25 to 75 % and 2.5 to 97.5 %.",
        )
    for sentence in st.session_state.said:
        st.info(sentence, icon=":material/info:")
    seconds = session.picture_seconds(session.viewers())
    st.fragment(show, run_every=seconds)(run_id, mine, seconds)

    name = session.workshop().watch(run_id).dataset.name
    words, example = st.columns(2, gap="large")
    with words:
        st.markdown(
            "**What you see.** Above, where each model expects new points (shade), its mean "
            "(thick), whole functions drawn from it (thin), and its inducing points (triangles on "
            "the axis). Below, each layer: left, the map that it has learned, ± 2σ, with its "
            "inducing points and what it believes there; right, what has come out so far, as "
            "functions of the input."
        )
    with example:
        st.markdown(f"**{entry(name).title}.** {entry(name).story}")
        st.markdown(f"**Try this:** {TRY[name]}")
session.keep_cookie()
st.html(STYLE)
