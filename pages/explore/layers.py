"""Layers: what each of them does to what enters it, and what it is worth."""

from functools import partial

import streamlit as st

from dgp_core.live.views.layers import without_layers
from pages.figures.boards import HISTORY, layers
from pages.figures.layers import removal_figure, without_figure
from pages.ui import session
from pages.ui.bar import bar, dress, intro, state_line
from pages.ui.glossary_links import Linker
from pages.ui.sentences import in_words
from pages.ui.stage import hosts as stage
from pages.ui.stage.server import Scene
from pages.ui.theme import page_ink

essay = Linker()

PER_ROW = 3
"""Warped grids side by side."""
HELP = {
    "lengthscales": "$\\ell$ of $k(x, x') = \\sigma^2 \\exp(-\\frac12 \\sum_d (x_d - x_d')^2 / "
    "\\ell_d^2)$, for each input of the layer.",
    "deviation": "$\\sigma$ of the kernel: $\\sqrt{k(x, x)}$.",
    "noise": "$\\sigma_l$ between layers, which the kernel's diagonal absorbs, and the "
    "likelihood's own.",
    "departure": "How far the layer's outputs are from its mean function $m(x) = xW$, as a share.",
    "kl": "$\\mathrm{KL}[q(U^l) \\,\\|\\, p(U^l)]$: what the layer takes off the bound, equation "
    "(17).",
}


def choose_layer(run) -> tuple[int, int, int]:
    """Which layer, and which of its inputs and outputs."""
    L = run.model.layers
    widths = [int(run.scaler.kept.sum()), *run.model.inner_widths(int(run.scaler.kept.sum()))]
    last = max(
        run.dataset.Y.shape[1], len(run.dataset.classes) if len(run.dataset.classes) > 2 else 1
    )
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        layer = st.segmented_control(
            "Layer",
            range(1, L + 1),
            default=session.linked("layer", range(1, L + 1), 1),
            required=True,
            key="own_layer",
            help="From the data (1) to the prediction.",
        )
        layer = min(layer, L) - 1
        n_in, n_out = widths[layer], (widths[layer + 1] if layer + 1 < L else last)
        enters, leaves = one_of("enters", "input", n_in), one_of("leaves", "output", n_out)
    session.link(layer=layer + 1, enters=enters, leaves=leaves)
    return layer, enters - 1, leaves - 1


def one_of(name: str, word: str, n: int) -> int:
    """One of a layer's inputs or outputs, from 1; a layer of one has no choice."""
    first = session.linked(name, range(1, n + 1), 1)
    if n == 1:
        return 1
    return st.selectbox(
        f"What {name}",
        range(1, n + 1),
        index=first - 1,
        format_func=lambda d: f"{word} {d}",
        key=f"own_{name}",
        width=160,
    )


def without(run, ink) -> None:
    """The bound with one inner layer replaced by its mean function."""
    st.subheader("What is a layer worth?", anchor=False)
    essay.write(
        "Take one inner layer out: put its mean function in its place, leave all else as it was "
        "trained, and compute the bound again, from the same rows and the same ε. The fit falls "
        "by what the layer did; its KL is saved. A layer that is switched off can go for nothing."
    )
    if run.model.layers == 1:
        st.info("A model of one layer has no inner layer to remove: choose more on the playground.")
        return
    pressed = st.button("Measure it now", icon=":material/science:", key="measure_without")
    if pressed and run.latest is None:
        st.info("The run has not begun yet: try again in a moment.")
    elif pressed:
        with st.spinner("Computing the bound without each layer …", show_time=True):
            st.session_state.removal = (st.session_state.run_id, without_layers(run, run.latest))
    kept = st.session_state.get("removal")
    if kept is None or kept[0] != st.session_state.run_id:
        return
    removal = kept[1]
    left, right = st.columns(2, gap="medium")
    with left:
        stage.figure(removal_figure(removal, ink), "The bound without each layer.", "removal")
        st.caption(
            f"At step {removal.step:,}, from {removal.n_rows:,} rows and {removal.n_samples} "
            "samples of each."
        )
    with right:
        index = 0
        if len(removal.without) > 1:
            index = st.segmented_control(
                "Without layer",
                range(len(removal.without)),
                default=0,
                required=True,
                format_func=lambda l: f"{l + 1}",
                key="without_which",
            )
        data = run.dataset
        points = (data.X[:, 0], data.Y[:, 0]) if data.X.shape[1] == 1 else None
        if removal.x is None:
            st.info("Pictures of the prediction without a layer need data of one input.")
        else:
            figure = without_figure(removal, index, ink, 285, points)
            stage.figure(figure, "The prediction with and without the layer.", "without")


session.browser()
session.arrive("layer", "enters", "leaves")
with in_words("This run could not be shown. Open the playground and start it again."):
    run_id, mine = session.current_run()
    run = session.workshop().watch(run_id)
    ink = page_ink()
    intro(
        "Layer by layer",
        run_id,
        essay.linked(
            "A deep GP is a chain of maps: $f = f^L \\circ \\dots \\circ f^1$. Each layer "
            "bends what enters it, and hands it on. Here is one of them at a time, while it "
            "learns."
        ),
    )
    bar(run, mine)
    state_line()
    chosen = choose_layer(run)
    session.say()
    session.play(
        {
            "main": Scene(
                run_id,
                partial(layers, ink=ink, chosen=chosen[0], enters=chosen[1], leaves=chosen[2]),
                ("layers", ink, *chosen),
            )
        }
    )
    stage.words("main/layer_words", 22)
    left, right = st.columns(2, gap="medium")
    with left:
        st.markdown(
            "**Its map**, mean ± 2σ, with Z and what q(u) believes there ± 2σ",
            help="The layer's function given its inducing values, $q(u) = N(m, S)$ at inputs $Z$: "
            "$\\tilde\\mu(x) = m(x) + \\alpha(x)^\\top (m - m(Z))$ with "
            "$\\alpha(x) = k(Z, Z)^{-1} k(Z, x)$.",
        )
        stage.picture("main/map", 320)
    with right:
        st.markdown(
            "**Samples**: as they enter, and as they leave",
            help="$\\hat f^l = \\tilde\\mu(\\hat f^{l-1}) + \\epsilon \\odot "
            "\\sqrt{\\tilde\\Sigma(\\hat f^{l-1}, \\hat f^{l-1})}$, equation (15): the same "
            "ε at every moment, so that a sample can be followed.",
        )
        stage.picture("main/passage", 320)
    if int(run.scaler.kept.sum()) == 2:
        essay.write(
            "**A grid of inputs through all layers.** Follow a colour, or hover on a point: the "
            "same row is shown in every layer."
        )
        L = run.model.layers
        for start in range(0, L, PER_ROW):
            columns = st.columns(min(PER_ROW, L), gap="medium")
            for l, column in zip(range(start, min(L, start + PER_ROW)), columns, strict=False):
                with column:
                    stage.picture(f"main/warp_{l}", 300)
    essay.write(
        "**Try this:** pause early and move on by the history: which layer leaves its mean "
        "function first? Then take it out below: what was it worth?"
        if run.model.layers > 1
        else "**Try this:** choose depth 2 on the playground and come back: does the first layer "
        "bend its input, or hand it on as it is?"
    )
    stage.timeline()
    st.subheader("What the layers have become", anchor=False)
    essay.write(
        "A lengthscale says how far one must go for the function to change; a standard deviation, "
        "how far it varies. Where a layer's distance from its mean function falls to nothing, it "
        "is switched off: its KL then costs nothing either."
    )
    for first in (0, 3):
        shown = list(HISTORY.items())[first : first + 3]
        for (name, words), column in zip(shown, st.columns(3, gap="medium"), strict=False):
            with column:
                stage.titled(f"**{words}**", f"main/{name}", 240, HELP[name])
    without(run, ink)
session.page_made()
dress()
