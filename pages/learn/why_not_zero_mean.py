"""Lesson 4: deep priors of zero mean forget their input; a linear mean forgets more slowly."""

from functools import partial

import numpy as np
import streamlit as st

from datasets import catalogue
from datasets.starts import film
from dgp_core.gp.data import Scaler, counted
from dgp_core.live.views.prior import (
    MOST_LAYERS,
    PriorView,
    linear_mean,
    log_slope_drift,
    prior_view,
)
from pages.figures.lesson_live import live
from pages.figures.prior import (
    draws_figure,
    information_figure,
    kept_figure,
    slope_figure,
    weights_figure,
)
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

DEPTH = lesson.Hand("prior_depth", 1, range(1, MOST_LAYERS + 1))
SEED = lesson.Hand("prior_seed", 0, range(1000))
WIDTHS = range(1, 9)  # of a layer for the 8 inputs of the concrete data
WIDTH = lesson.Hand("prior_width", 2, WIDTHS)
MEANS = {
    "zero": "Mean of zero: each layer replaces x",
    "linear": "Linear mean: each layer bends x",
    "concatenate": "x beside it: each layer sees x again",
}
FLAT, STEEP = 0.1, 10.0
DRIFT = {"zero": log_slope_drift(0.0, 1.0), "linear": log_slope_drift(1.0, 1.0)}
"""What one layer adds to the mean of log |slope| where σ = ℓ."""

ink = page_ink()
memory = st.session_state
memory.setdefault("prior_seed", 0)


def priors() -> tuple[PriorView, ...]:
    return tuple(prior_view(MOST_LAYERS, mean, seed=memory.prior_seed) for mean in MEANS)


def draws() -> None:
    """The same draws with more and more layers, of three priors."""
    left, right = st.columns([4, 1], gap="medium", vertical_alignment="bottom")
    depth = left.slider(
        "Layers",
        1,
        MOST_LAYERS,
        **lesson.hand(DEPTH),
        help="The layers below stay as they are; each step adds one more on top.",
    )
    with right:
        lesson.button("Draw others", "casino", lesson.redraw, SEED, key="prior_redraw")
    for column, seen in zip(st.columns(3, gap="medium"), priors(), strict=True):
        words = MEANS[seen.mean_function]
        with column, st.container(gap="xsmall"):
            st.markdown(f"**{words}**")
            alt = f"Functions of a prior of {counted(depth, 'layer')}. {words}."
            stage.figure(draws_figure(seen, depth, ink, 300), alt, f"prior_{seen.mean_function}")
            st.markdown(steepness(seen, depth))


def steepness(seen: PriorView, depth: int) -> str:
    """How flat and how steep the draws are, and the exact mean of log |slope|."""
    slopes = np.abs(seen.slopes[depth - 1])
    flat, steepest = float(np.mean(slopes < FLAT)), float(slopes.max())
    mean = f"{seen.log_slope_mean[depth - 1]:.2f}".replace("-", "−")
    return (
        f"Flatter than {FLAT:g} on **{flat:.0%}** of the way; steepest slope **{steepest:,.3g}**. "
        f"Mean log slope **{mean}**."
    )


def forgotten() -> None:
    """What is left of the input, by depth; and the slopes at the chosen depth."""
    seen = priors()
    left, right = st.columns(2, gap="medium")
    with left, st.container(gap="xsmall"):
        st.markdown("**What can still be told apart**")
        alt = "Values of f that can be told apart, by the number of layers, for the three priors."
        stage.figure(information_figure(seen, ink, 280), alt, "prior_information")
    with right, st.container(gap="xsmall"):
        depth = memory.get("prior_depth", 1)
        st.markdown(f"**Slopes at {counted(depth, 'layer')}**")
        alt = f"The density of log |slope| at {counted(depth, 'layer')}, for the three priors."
        stage.figure(slope_figure(seen, depth, ink, 280), alt, "prior_slopes")


@st.cache_data(show_spinner=False)
def concrete() -> tuple[np.ndarray, tuple[str, ...]]:
    """The inputs of the concrete data in standard units, and their names."""
    data = catalogue.load("concrete")
    return Scaler.fit(data).inputs(data.X), tuple(n.replace("_", " ") for n in data.input_names)


@st.cache_data(show_spinner=False)
def mean_maps() -> list[tuple[np.ndarray, float]]:
    """W, and what it keeps, for every width."""
    return [linear_mean(concrete()[0], width) for width in WIDTHS]


def pca() -> None:
    """The mean function of a layer of fewer outputs than inputs."""
    width = st.slider(
        "Width: outputs of the layer",
        WIDTHS[0],
        WIDTHS[-1],
        **lesson.hand(WIDTH),
        help="The concrete data have 8 inputs: with 8 outputs W is the identity.",
    )
    maps, names = mean_maps(), concrete()[1]
    W, share = maps[width - 1]
    left, right = st.columns(2, gap="medium")
    with left, st.container(gap="xsmall"):
        st.markdown("**W: what goes into each output**")
        alt = f"The weights of 8 inputs in {counted(width, 'output')}."
        stage.figure(weights_figure(W, names, ink), alt, "prior_weights")
    with right, st.container(gap="xsmall"):
        st.markdown("**What is kept**")
        alt = "The share of the inputs' variance that W keeps, by its number of outputs."
        kept = np.array([one for _, one in maps])
        stage.figure(kept_figure(kept, width, ink), alt, "prior_kept")
    st.markdown(f"With {counted(width, 'output')}, $hW$ keeps **{share:.0%}** of the variance.")


def _signed(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


LESSON = lesson.Lesson(
    number=4,
    title="Why not zero mean?",
    summary="Stack layers carelessly, and the model forgets its input before it has seen data.",
    minutes=20,
    parts=(
        lesson.Words(
            "In lesson 1 the [mean function](glossary#mean-function) was zero, and nobody missed "
            "anything. So why not stack such layers? Slide the number of layers up, and watch the "
            "thick function of the first picture."
        ),
        lesson.Picture(
            draws,
            "Functions drawn from three deep priors, before any data, signal and lengthscale both "
            "1. The first layer is the same draw in all of them. Below each picture: how much of "
            "the way all 20 draws are nearly flat, their steepest slope, and the exact mean of the "
            "logarithm of |slope| at any place.",
            (DEPTH, SEED),
        ),
        lesson.Try(
            "Slide **Layers** from 1 to 10, one at a time.",
            "With a mean of zero the functions go flat: what varied by 0.57 along x with one "
            "layer (its standard deviation, on average over the draws) varies by less than 0.05 "
            "with ten, and more than nine tenths of the way is flatter than 0.1. With the linear "
            "mean they forget more slowly, and in another way: at ten layers about half of the way "
            "is flat too, and between the plains stand cliffs, of slopes in the hundreds. With x "
            "beside it, hardly anything changes after the third layer.",
        ),
        lesson.Words(
            "## A sieve that forgets\n\n"
            "Each layer of zero mean is a bumpy function, and a bumpy function is not one-to-one: "
            "it takes many inputs to the same value. What has been merged stays merged (lesson 3). "
            "So every layer lets a little less of x through, and after ten of them next to nothing "
            "is left. Those who first described this (Duvenaud, Rippel, Adams & Ghahramani, "
            "“Avoiding pathologies in very deep networks”, AISTATS 2014) call it a "
            "[pathology](glossary#pathology). It is in the "
            "*prior*: no data, no optimiser and no bug is to blame."
        ),
        lesson.Picture(
            forgotten,
            "First: of 400 inputs, how many outputs differ by more than 0.02 standard deviations, "
            "on average over 20 draws. Second: how slopes are spread at the depth that you chose "
            "above; the axis is logarithmic, and −5 means a slope below a hundredth.",
        ),
        lesson.Words(
            "The second picture is exact, and worth a thought. With an RBF kernel the slope of one "
            "layer at any place is Gaussian: N(0, σ²/ℓ²) with a mean of zero, N(1, σ²/ℓ²) with the "
            "linear mean, whose own slope is 1. Slopes multiply, so their logarithms add: a random "
            "walk, one step for each layer. Both walks drift downwards, one three times as fast as "
            "the other, and both spread: some places get flatter and flatter, a few get steep. So "
            "a deep prior of either kind believes in plains, and with the linear mean in cliffs "
            "between them. With a mean of zero the drift wins: a cliff needs a long row of large "
            "factors, and in these pictures there is none left at ten layers."
        ),
        lesson.Equation(
            r"\begin{split} \log \left| \frac{\mathrm{d} f}{\mathrm{d} x} \right| &= "
            r"\sum_{l=1}^{L} \log \left| \frac{\mathrm{d} f^l}{\mathrm{d} f^{l-1}} \right|, "
            r"\qquad \varepsilon \sim \mathcal{N}(0, 1) \\ "
            r"\mathbb{E} \log |\varepsilon| &= -\tfrac{1}{2}(\gamma + \log 2) \approx "
            + f"{DRIFT['zero']:.3f}"
            + r" \quad \text{a layer of zero mean} \\ \mathbb{E} \log |1 + \varepsilon| "
            r"&\approx "
            + f"{DRIFT['linear']:.2f}"
            + r" \quad \text{a layer of linear mean} \end{split}",
            "A sum of independent terms, one a layer, here for a signal as large as its "
            "lengthscale, σ = ℓ. γ ≈ 0.577 is Euler's constant. (The last layer has a mean of zero "
            "in both, so at ten layers the sums are ten times the first number, and nine times the "
            "second with the first once.)",
        ),
        lesson.Try(
            "Read the first picture at 1, 5 and 10 layers.",
            "With zero mean, on the draws that the page opens with, about 96 outputs can be told "
            "apart after one layer, about 13 after five, and about 4 after ten. With the linear "
            "mean there are still more than 40 after ten layers, less than half of the 96. With x "
            "beside it there are as many as after one layer, or more.",
        ),
        lesson.Words(
            "## Three ways out\n\n"
            "**The paper's.** Let every inner layer start from what it is given: "
            "$f^l(h) = h + g^l(h)$, with g a GP of zero mean. In other words, give it the mean "
            "function $m(h) = h$, the identity. A layer with nothing to say now passes its input "
            "on, and it must *learn* to merge. The last layer keeps a mean of zero, since it makes "
            "the prediction. This is a slower forgetting, not a cure of the prior: ten layers "
            "forget much of x too. What it changes is where *training* starts: with the GP parts "
            "switched off, x arrives at the top as it was.\n\n"
            "**A smaller signal.** With σ below ℓ each layer bends less, and the linear mean's "
            f"drift all but ends: at σ = ℓ/2 it is {_signed(log_slope_drift(1.0, 0.5))} a layer, "
            f"where a mean of zero has {_signed(log_slope_drift(0.0, 0.5))}. Training can shrink σ "
            "where bends are not needed (lesson 5).\n\n"
            "**Duvenaud's.** Give every layer x beside what comes from below, "
            "$f^l(h, x)$. Nothing can be lost for good, since x comes in again; the third picture "
            "shows it. The price: every layer has more inputs, and the layers are no longer a "
            "plain composition. The playground offers it as “Zero, and x beside it”."
        ),
        lesson.Equation(
            r"\begin{split} f^l &\sim \mathcal{GP}(m^l, k^l) \\ m^l(h) &= h\,W^l \;\;\text{for}\; "
            r"l < L, \qquad m^L(h) = 0 \end{split}",
            "The paper's choice, and the default everywhere in this lab. W is not learned.",
        ),
        lesson.Words(
            "## Where widths differ\n\n"
            "The identity needs as many outputs as inputs. If a layer's [width](glossary#width) is "
            "smaller, W is the "
            "[PCA](glossary#pca) map: the directions in which the data spread most, found once "
            "and then fixed. (The paper calls them left singular vectors; with a row for each "
            "observation they are the right ones.) If it is larger, W pads with zeros. Below are 8 "
            "numbers about mixtures of concrete, and what W makes of them."
        ),
        lesson.Picture(
            pca,
            "First: the weight of each input in each output, blue above zero and orange below. "
            "Second: how much of the inputs' variance is left, by the number of outputs.",
            (WIDTH,),
        ),
        lesson.Try(
            "Slide the width from 1 to 8.",
            "One output keeps 29 % of the variance, two keep 46 %, five keep 88 %. With seven, W "
            "still mixes all inputs; with eight there is nothing to choose, and it is the "
            "identity.",
        ),
        lesson.Words(
            "## What it does to learning\n\n"
            "A prior that forgets is hard to train: at the start, nothing of x reaches the top, so "
            "nothing comes back down to say how to improve. Below is a model of four layers with "
            "a mean of zero, on data that are nearly a straight line: a single layer learns them "
            "in a moment. Watch the bound for a while, then switch the mean to linear."
        ),
        lesson.Live(
            name="zero",
            choices=Choices(data="nearly_linear", layers=4, mean="zero", seed=2),
            paint=partial(live, ink=ink),
            style=(ink,),
            hosts=(
                (("state", 0, ""),),
                (("deep", 285, "Four layers"), ("bound", 285, "The bound that both climb")),
                (("bound_words", 0, ""),),
            ),
            says="First: what the deep model predicts. Second: its bound (blue), and that of a "
            "single layer on the same data (orange).",
            controls=("mean",),
            offers={"mean": ("zero", "linear")},
            film=tuple(film("four_zero")),
        ),
        lesson.Try(
            "Watch the zero mean to step 2,000. Then choose **Linear** and watch again to the same "
            "step.",
            "With a mean of zero the four layers end more than 100 nats below the single layer "
            "(with about every other seed they get away, and still stay tens of nats behind). "
            "The inner layers' KL goes to zero, so they are back at a prior that forgets, and the "
            "prediction is one flat band that knows nothing of x. With the linear mean, the same "
            "four layers come within 10 nats of the single layer.",
        ),
        lesson.question(
            "Is the flattening with zero means a matter of a badly chosen lengthscale?",
            lesson.wrong(
                "Yes: with shorter lengthscales the slopes would not shrink.",
                "They would shrink less, or even grow. But the walk still spreads with every "
                "layer: flat stretches and steep ones drift apart. No lengthscale stops that.",
            ),
            lesson.right(
                "No: it is the composition of maps that are not one-to-one.",
                "The lengthscale only sets how fast. Each layer still merges inputs, and no later "
                "layer can part them.",
            ),
            lesson.wrong(
                "No: it comes from too few draws.",
                "Press Draw others as often as you like. The picture of the slopes is exact; "
                "nothing in it is sampled.",
            ),
        ),
        lesson.question(
            "With the linear mean, what does a layer do whose GP part is zero?",
            lesson.wrong(
                "It outputs zero.",
                "That is the layer of zero mean. This one has its input to fall back on.",
            ),
            lesson.right(
                "It passes its input on, unchanged.",
                "So a deep model with idle layers is a shallower model, and lesson 5 shows layers "
                "that choose to idle.",
            ),
            lesson.wrong(
                "It stops the layers above from learning.",
                "On the contrary: they see what entered it, as if it were not there.",
            ),
        ),
        lesson.question(
            "Where have you met the same idea under another name?",
            lesson.wrong(
                "Dropout",
                "Dropout removes units at random. Here nothing is removed: something is added.",
            ),
            lesson.right(
                "The skip connections of residual networks",
                "h + g(h) is a residual block. Both keep a straight road open through many "
                "layers, for what goes up and for the gradients that come down.",
            ),
            lesson.wrong(
                "Weight decay",
                "Weight decay pulls parameters to zero. The mean function says what remains when "
                "they are.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON)
