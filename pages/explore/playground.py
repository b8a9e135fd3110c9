"""The playground: a deep model and its single-layer rival, training before your eyes."""

from functools import partial

import numpy as np
import streamlit as st

from datasets.catalogue import entry
from datasets.starts import film_of
from dgp_core.gp.data import counted
from dgp_core.live.run import Run
from pages.figures.boards import SMALL, Look, first_star, playground
from pages.ui import session
from pages.ui.bar import bar, bar_place, dress, state_line
from pages.ui.choices import DATA, KERNELS, OFFERED
from pages.ui.first_visit import first_visit
from pages.ui.glossary_links import Linker
from pages.ui.sentences import in_words
from pages.ui.stage import hosts as stage
from pages.ui.stage.server import Scene
from pages.ui.theme import page_ink
from pages.ui.without_rival import without_rival

TRY = {
    "step": "set the depth to 1 and back to 2, and watch what happens beside the jump.",
    "ramp": "pause early: which half of the curve does the single layer learn first?",
    "sawtooth": "go from depth 2 to 3. Does another layer help with more than one jump?",
    "chirp": "watch the first layer: does it find the bend that makes the wave even, or get lost?",
    "growing_noise": "compare the widths of the two shades at the left and at the right end.",
    "two_branches": "click right of zero: has the deep model's mixture one mode there, or two?",
    "nearly_linear": "go to depth 5 and watch the meters: do needless layers switch off?",
    "composition": "press New seed a few times: does the deep model always find the same layers?",
    "motorcycle": "look at the flat start: which of the two models is surer of it?",
    "arm": "compare the two clouds: which model's predictions lie closer to the line?",
    "ridge": "watch the grid of the first layer: along which direction is it pressed together?",
    "spiral": "follow one colour through the layers: where do the arms come apart?",
    "pinwheel": "look at the middle, where the blades meet: which model is less certain?",
    "rectangles": "wait a minute: no pixel tells by itself, and both models find the shapes. Which "
    "is ahead at step 100, and does the other catch up?",
    "digits": "look at what leaves layer 1: which digits lie together, and which does it confuse?",
    "drawn": "click in the deep model's picture to put down a point, and on a point to take it "
    "away. Leave a gap, or make a cliff.",
    "co2": "zoom into ten years: is the yearly breath there, or only the rise?",
    "seattle_weather": "look at what matters most: the day of the year or the night before?",
    "concrete": "compare the response to age in the two models.",
    "wine_red": "compare the two clouds: is there anything that depth could still find?",
    "boston": "switch the minibatch to 32: how much rougher does the bound become?",
    "nyc_flights": "look at calibration: do intervals of a Gaussian hold for such long tails?",
    "banana": "watch the border: where does each model say that nobody can know?",
    "fashion_mnist": "look at the hidden layers: which clothes lie side by side?",
}
NAMES = {
    "rbf": "RBF (very smooth)",
    "matern12": "Matérn 1/2 (rough)",
    "matern32": "Matérn 3/2",
    "matern52": "Matérn 5/2",
    "rational_quadratic": "Rational quadratic",
    "periodic": "Periodic",
    "linear": "Linear",
    "zero": "Zero",
    "concatenate": "Zero, and x beside it",
    "auto": "As suits the data",
    "gaussian": "Gaussian",
    "student_t": "Student-t (outliers)",
    "poisson": "Poisson",
    "negative_binomial": "Negative binomial",
    "doubly_stochastic": "Doubly stochastic",
    "mean_field": "Mean-field",
    "bernoulli": "Bernoulli",
    "robust_max": "Robust max",
    "softmax": "Softmax",
}


def named(word: str) -> str:
    return NAMES.get(word, word)


def model_controls(locked: bool) -> None:
    """What makes a model: another value starts both again."""
    choices = st.session_state.choices
    st.selectbox(
        "Data set",
        DATA,
        format_func=lambda name: entry(name).title,
        **session.control("data", locked, DATA, "index"),
        help="Toys, real data, or points that you put down yourself. One input shows the whole "
        "prediction, two a map, more a table of pictures.",
    )
    st.slider(
        "Depth",
        min(OFFERED["layers"]),
        max(OFFERED["layers"]),
        **session.control("layers", locked),
        help="Layers L. Each is a Gaussian process of what the one before it gives; with one, the "
        "deep model is its own rival. Another depth starts the run again.",
    )
    st.select_slider(
        "Inducing points",
        OFFERED["inducing"],
        **session.control("inducing", locked),
        help="M: each layer remembers its function by the values u at M inputs Z. More can follow "
        "finer detail, and cost more. Another number starts the run again.",
    )
    with st.expander("More of the model"):
        st.select_slider(
            "Width",
            OFFERED["width"],
            **session.control("width", locked),
            format_func=lambda width: str(width) if width else "inputs",
            help="Outputs of each inner layer; at first as many as there are inputs, 30 at the "
            "most.",
        )
        for l, name in enumerate(choices.kernel_names):
            st.session_state[f"choose_kernel_{l}"] = name
            st.selectbox(
                f"Kernel of layer {l + 1}",
                KERNELS,
                format_func=named,
                key=f"choose_kernel_{l}",
                disabled=locked,
                on_change=session.choose_kernel,
                args=(l,),
                help="What functions the layer believes in before it sees data.",
            )
        st.selectbox(
            "Mean function of inner layers",
            OFFERED["mean"],
            format_func=lambda word: "Linear (identity)" if word == "linear" else named(word),
            **session.control("mean", locked, OFFERED["mean"], "index"),
            help="Linear keeps inputs apart. Zero lets them collapse as depth grows: see Prior.",
        )
        st.selectbox(
            "Posterior",
            choices.posteriors,
            format_func=named,
            **session.control("posterior", locked, choices.posteriors, "index"),
            help="Doubly stochastic keeps the layers tied to each other. Mean-field gives every "
            "row a Gaussian of its own at each inner layer, independent of the layer below, and "
            "trains on all rows at each step: see the lesson What independence costs. A model "
            "saved with it holds a number close to each row's inputs.",
        )
        likelihoods = session.likelihoods(choices)
        st.selectbox(
            "Likelihood",
            likelihoods,
            format_func=named,
            **session.control("likelihood", locked, likelihoods, "index"),
            help="How what is seen comes from the last layer: noise, classes or counts.",
        )


def training_controls(locked: bool) -> None:
    """How the models are trained; rates act at once."""
    st.select_slider(
        "Learning rate",
        OFFERED["rate"],
        **session.control("rate", locked),
        help="How far Adam goes in a step. Acts at once, without a restart.",
    )
    with st.expander("More of the training"):
        st.select_slider(
            "Natural-gradient rate",
            OFFERED["natural"],
            **session.control("natural", locked),
            format_func=lambda rate: f"{rate:g}" if rate else "off",
            help="γ: how far the last layer's q(u) goes towards its best in a step. Acts at once; "
            "switching it on or off starts the run again.",
        )
        st.select_slider(
            "Minibatch",
            OFFERED["batch"],
            **session.control("batch", locked),
            format_func=lambda rows: f"{rows:,}" if rows else "auto",
            help="Rows that a step looks at: B. Auto is all of them up to 1,000, and 500 of more.",
        )
        st.select_slider(
            "Samples",
            OFFERED["samples"],
            **session.control("samples", locked),
            help="Paths S that are drawn through the layers for each row of a step.",
        )


def look_controls(kind: str) -> None:
    """What is shown of the run."""
    if kind == "line":
        st.segmented_control(
            "Show the prediction as",
            OFFERED["shade"],
            format_func=str.capitalize,
            **session.control("shade", says="default"),
            required=True,
            width="stretch",
            help="Density: the mixture itself, darker where it is likelier. Bands: its quantiles, "
            "25 to 75 % and 2.5 to 97.5 %.",
        )
    if kind != "table":
        st.segmented_control(
            "Noise" if kind == "line" else "Map",
            OFFERED["noise"],
            format_func=lambda word: {
                "line": {"with": "With noise", "without": "Without"},
                "plane": {"with": "Mean", "without": "Uncertainty"},
            }[kind][word],
            **session.control("noise", says="default"),
            required=True,
            width="stretch",
            help="With noise, the shade says where new points will fall; without, where the "
            "function itself is."
            if kind == "line"
            else "What is expected, or how unsure the model is of it.",
        )


BY_NUMBERS = {
    "star": "Look at an input x*",
    "row": "Look at a row",
    "inducing": "Move an inducing point",
    "point": "Put down a point, or take it away",
}


def by_numbers(run: Run, kind: str, mine: bool, locked: bool) -> None:
    """What the mouse does in the pictures, by keyboard."""
    data, free = run.dataset, mine and not locked
    offered = ["row" if kind == "table" else "star"]
    offered += ["inducing"] if free and kind != "table" else []
    offered += ["point"] if free and data.name == "drawn" else []
    with st.expander("Type coordinates"):
        what = st.selectbox(
            "Do what", offered, format_func=lambda word: BY_NUMBERS[word], key="number_what"
        )
        if what == "row":
            st.number_input("Row", 1, len(data), key="number_row")
        elif what == "inducing":
            M = run.model.inducing_counts[0]
            st.number_input("Inducing point", 1, M, key="number_inducing", help="From the left.")
        inputs = () if what == "row" else zip(data.input_names, data.X.T, strict=True)
        outputs = ((data.output_names[0], data.Y[:, 0]),) if what == "point" else ()
        for i, (name, values) in enumerate((*inputs, *outputs)):
            st.number_input(name, value=float(np.median(values)), format="%.4g", key=f"number_{i}")
        st.button("Apply", on_click=session.act_by_numbers, args=(what,), key="number_do")


def pictures(run: Run, kind: str, hidden: tuple[str, ...]) -> None:
    """The hosts: predictions and bound above, layers and the mixture below."""
    L = run.model.layers
    above = {
        "deep": (
            5,
            f"**Deep model: {counted(L, 'layer')}**",
            "The predictive mixture, equation (18): $q(f_*^L) \\approx \\frac{1}{S} \\sum_s "
            "q(f_*^L \\mid \\hat f_*^{L-1, s})$.",
        ),
        "rival": (
            5,
            "**Its rival: a single-layer GP**, on the same axes",
            "A sparse GP: $q(f_*) = N(\\tilde\\mu(x_*), \\tilde\\Sigma(x_*, x_*))$, with the "
            "same data, seed and number of inducing points.",
        ),
        "bound": (
            4,
            "**The bound that both climb**",
            "$\\mathcal{L} = \\sum_i E[\\log p(y_i \\mid f_i^L)] - \\sum_l "
            "\\mathrm{KL}[q(U^l) \\,\\|\\, p(U^l)]$, equation (17): fit less KL, in nats.",
        ),
    }
    above = {name: part for name, part in above.items() if name not in hidden}
    widths = [width for width, _, _ in above.values()]
    columns = st.columns(widths, gap="medium", vertical_alignment="bottom")
    for column, (name, (_, words, formula)) in zip(columns, above.items(), strict=True):
        with column:
            stage.titled(words, f"main/{name}", 285, formula)
    with st.container(horizontal=True, horizontal_alignment="distribute", key="words"):
        stage.words("main/legend", 22)
        stage.words("main/bound_words", 22)
    below = {"layers": 10, "mixture": 4}
    below = {name: width for name, width in below.items() if name not in hidden}
    columns = st.columns(list(below.values()), gap="medium") if below else []
    for name, column in zip(below, columns, strict=True):
        with column:
            if name == "layers":
                layer_strip(L)
            else:
                with st.container(gap="xsmall"):
                    stage.words("main/mixture_title", 20)
                    stage.picture("main/mixture", SMALL + 20)
                    stage.words("main/mixture_words", 40)
    if kind == "table":
        table_strip()


def table_strip() -> None:
    """What only a table with more than two inputs has."""
    words = {
        "relevance": ("**Which inputs matter**", "$1/\\ell_d$ of the first layer's kernel."),
        "responses": (
            "**One input at a time**",
            "$E[y \\mid x]$ as one $x_d$ moves, the others at their medians.",
        ),
        "calibration": (
            "**Calibration of intervals**",
            "How often $y_i$ lies in the central interval of $p(y_i)$, for each share.",
        ),
    }
    columns = st.columns(3, gap="medium")
    for (name, (title, formula)), column in zip(words.items(), columns, strict=True):
        with column:
            stage.titled(title, f"main/{name}", 285, formula)


def layer_strip(L: int) -> None:
    """A panel for each layer, from the first."""
    per_row = L if L <= 3 else 3
    for first in range(0, L, per_row):
        columns = st.columns(per_row, gap="medium")
        for l, column in zip(range(first, min(L, first + per_row)), columns, strict=False):
            with column, st.container(gap="xsmall"):
                stage.words(f"main/layer_{l}_title", 20)
                stage.picture(f"main/layer_{l}", 176)
                stage.meter(f"main/layer_{l}_meter")


def kind_of(run: Run) -> str:
    return {1: "line", 2: "plane"}.get(int(run.scaler.kept.sum()), "table")


WORDS = {
    "line": "**What you see.** Above, where each model expects new points (shade), its mean "
    "(thick), whole functions drawn from it (thin), and its inducing points (triangles on the "
    "axis{drag}). Click anywhere to see the mixture there. Below, "
    "each layer: left, the map that it has learned, ± 2σ, with its inducing points and what it "
    "believes there; right, what has come out so far, as functions of the input.",
    "plane": "**What you see.** Above, each model's map of the two inputs, with the data and its "
    "inducing points (triangles{drag}). Click anywhere to see the "
    "prediction there. Below, each layer takes a grid and bends it: follow a colour from what "
    "enters to what leaves.",
    "table": "**What you see.** Above, how well each model agrees with the data; click on a row of "
    "numbers to see the mixture there. Below, the rows after each layer; which inputs matter, and "
    "how the prediction answers to one of them at a time; and how often intervals hold the "
    "observed values.",
}

essay = Linker()
session.browser()
first_visit()
session.arrive()
dress()
with in_words("This run could not be started. Reload the page, or choose another data set."):
    run_id, mine = session.current_run()
    run, display = session.workshop().watch(run_id), session.display_options()
    kind, choices = kind_of(run), st.session_state.choices
    seen = Look(
        ink=page_ink(),
        bands=choices.shade == "bands",
        noise=choices.noise == "with",
        star=first_star(run, choices.place),
    )
    film = film_of(run.dataset, run.model)
    paint, style = partial(playground, look=seen), ("playground", seen)
    if "rival" in display.hide:
        paint, style = partial(without_rival, paint), (*style, "no rival")
    session.play({"main": Scene(run_id, paint, style, film)}, session.clicked)
    if "controls" not in display.hide:
        st.sidebar.title("Deep GP Lab", anchor=False)
    session.say()
    session.offer_to_watch(run_id)
    above = bar_place() if "bar" not in display.hide else None
    state_line()
    pictures(run, kind, display.hide)
    if "history" not in display.hide:
        stage.timeline()
    if above is not None:
        bar(run, mine, above)
    if "controls" not in display.hide:
        with st.sidebar:
            if mine:
                model_controls(display.lock)
                training_controls(display.lock)
            else:
                st.markdown("**You are watching**")
                st.markdown(session.choices_in_words(run_id))
                st.caption("Whoever started this run controls it.")
            look_controls(kind)
            by_numbers(run, kind, mine, display.lock)
    if "words" not in display.hide:
        name = run.dataset.name
        words, example = st.columns(2, gap="large")
        free = mine and not display.lock
        drag = ": drag one, and watch the bound answer" if free else ""
        words.markdown(essay.linked(WORDS[kind].replace("{drag}", drag)))
        with example:
            held = (entry(name).N or 0) - len(run.dataset) if choices.holds_out else 0
            rest = f" {held:,} of its rows are held out: Mixture judges by them." if held else ""
            essay.write(f"**{entry(name).title}.** {entry(name).story}{rest}")
            if free:
                essay.write(f"**Try this:** {TRY[name]}")
session.page_made()
