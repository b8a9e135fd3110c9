"""Lesson 4: deep priors of zero mean forget their input, and the linear mean that cures them."""

from functools import partial

import streamlit as st

from dgp_core.live.views.prior import MOST_LAYERS, prior_view
from dgp_core.training.plan import counted
from pages.figures.lesson_live import live
from pages.figures.prior import draws_figure, information_figure, slope_figure
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

DEPTH = lesson.Hand("prior_depth", 1, range(1, MOST_LAYERS + 1))
SEED = lesson.Hand("prior_seed", 0, range(1000))

ink = page_ink()
memory = st.session_state
memory.setdefault("prior_seed", 0)


def redraw() -> None:
    memory.prior_seed = (memory.prior_seed + 1) % 1000


def both_priors():
    return tuple(
        prior_view(MOST_LAYERS, mean, seed=memory.prior_seed) for mean in ("zero", "linear")
    )


def draws() -> None:
    """The same draws with more and more layers, with and without a linear mean."""
    left, right = st.columns([4, 1], gap="medium", vertical_alignment="bottom")
    depth = left.slider(
        "Layers",
        1,
        MOST_LAYERS,
        **lesson.hand(DEPTH),
        help="The layers below stay as they are; each step adds one more on top.",
    )
    right.button(
        "Draw others",
        icon=":material/casino:",
        on_click=redraw,
        key="prior_redraw",
        disabled=lesson.locked(),
    )
    for column, seen, words in zip(
        st.columns(2, gap="medium"),
        both_priors(),
        ("Mean of zero: each layer replaces x", "Linear mean: each layer bends x"),
        strict=True,
    ):
        with column, st.container(gap="xsmall"):
            st.markdown(f"**{words}**")
            alt = f"Functions of a prior of {counted(depth, 'layer')}. {words}."
            stage.figure(draws_figure(seen, depth, ink, 300), alt, f"prior_{seen.mean_function}")


def forgotten() -> None:
    """What is left of the input, by depth; and the slopes at the chosen depth."""
    seen = both_priors()
    left, right = st.columns(2, gap="medium")
    with left, st.container(gap="xsmall"):
        st.markdown("**What can still be told apart**")
        alt = "Values of f that can be told apart, by the number of layers, for both priors."
        stage.figure(information_figure(seen, ink, 280), alt, "prior_information")
    with right, st.container(gap="xsmall"):
        depth = memory.get("prior_depth", 1)
        st.markdown(f"**Slopes at {counted(depth, 'layer')}**")
        alt = f"The density of log |slope| at {counted(depth, 'layer')}, for both priors."
        stage.figure(slope_figure(seen, depth, ink, 280), alt, "prior_slopes")


LESSON = lesson.Lesson(
    number=4,
    title="Why not zero mean?",
    summary="Stack layers carelessly, and the model forgets its input before it has seen data.",
    minutes=15,
    parts=(
        lesson.Words(
            "In lesson 1 the [mean function](glossary#mean-function) was zero, and nobody missed "
            "anything. So why not stack such layers? Slide the number of layers up, and watch the "
            "thick function of the first picture."
        ),
        lesson.Picture(
            draws,
            "Functions drawn from two deep priors, before any data. The layers are the same draws "
            "in both; in the second, each inner layer adds its input to what it draws.",
            (DEPTH, SEED),
        ),
        lesson.Try(
            "Slide **Layers** from 1 to 10, one at a time.",
            "In the first picture the functions go flat: what varied by 0.57 along x with one "
            "layer (its standard deviation, on average over the draws) varies by less than 0.05 "
            "with ten. Here and there a cliff remains. In the second, they keep varying at every "
            "depth.",
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
            "layer at any place is Gaussian. Slopes multiply, so their logarithms add: a random "
            "walk, one step for each layer. With a mean of zero its drift is downwards: the "
            "typical slope shrinks at every layer, by nearly a half. But the walk also spreads, so "
            "a few places get very steep. Flat, flat, flat, cliff: that is a poor belief about the "
            "world."
        ),
        lesson.Equation(
            r"\begin{split} \log \left| \frac{\mathrm{d} f}{\mathrm{d} x} \right| &= "
            r"\sum_{l=1}^{L} \log \left| \frac{\mathrm{d} f^l}{\mathrm{d} f^{l-1}} \right| \\ "
            r"\mathbb{E} \log |\varepsilon| &= -\tfrac{1}{2}(\gamma + \log 2) \approx -0.635, "
            r"\quad \varepsilon \sim \mathcal{N}(0, 1) \end{split}",
            "A sum of independent terms, one a layer, here for σ = ℓ. γ ≈ 0.577 is Euler's "
            "constant.",
        ),
        lesson.Try(
            "Read the first picture at 1, 5 and 10 layers.",
            "With zero mean, on the draws that the page opens with, about 96 outputs can be told "
            "apart after one layer, about 13 after five, and about 4 after ten. With the linear "
            "mean there are still more than 40 after ten layers.",
        ),
        lesson.Words(
            "## The cure\n\n"
            "Let every inner layer start from what it is given: $f^l(h) = h + g^l(h)$, with g a GP "
            "of zero mean. In other words, give it the mean function $m(h) = h$, the identity. "
            "If widths differ, the mean is $m(h) = hW$ with a fixed matrix W, found by "
            "[PCA](glossary#pca) on the way down or by padding with zeros on the way up. A layer "
            "with nothing to say now passes its input on, and it must *learn* to merge. The last "
            "layer keeps a mean of zero, since it makes the prediction."
        ),
        lesson.Equation(
            r"\begin{split} f^l &\sim \mathcal{GP}(m^l, k^l) \\ m^l(h) &= h\,W^l \;\;\text{for}\; "
            r"l < L, \qquad m^L(h) = 0 \end{split}",
            "The paper's choice, and the default everywhere in this lab. W is not learned.",
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
        lesson.Question(
            "Is the flattening with zero means a matter of a badly chosen lengthscale?",
            (
                (
                    "Yes: with shorter lengthscales the slopes would not shrink.",
                    False,
                    "They would shrink less, or even grow. But the walk still spreads with every "
                    "layer: flat stretches and cliffs drift apart. No lengthscale keeps both away.",
                ),
                (
                    "No: it is the composition of maps that are not one-to-one.",
                    True,
                    "The lengthscale only sets how fast. Each layer still merges inputs, and no "
                    "later layer can part them.",
                ),
                (
                    "No: it comes from too few draws.",
                    False,
                    "Press Draw others as often as you like. The picture of the slopes is exact; "
                    "nothing in it is sampled.",
                ),
            ),
        ),
        lesson.Question(
            "With the linear mean, what does a layer do whose GP part is zero?",
            (
                (
                    "It outputs zero.",
                    False,
                    "That is the layer of zero mean. This one has its input to fall back on.",
                ),
                (
                    "It passes its input on, unchanged.",
                    True,
                    "So a deep model with idle layers is a shallower model. Depth can then do no "
                    "harm by itself, and lesson 5 shows layers that choose to idle.",
                ),
                (
                    "It stops the layers above from learning.",
                    False,
                    "On the contrary: they see what entered it, as if it were not there.",
                ),
            ),
        ),
        lesson.Question(
            "Where have you met the same idea under another name?",
            (
                (
                    "Dropout",
                    False,
                    "Dropout removes units at random. Here nothing is removed: something is added.",
                ),
                (
                    "The skip connections of residual networks",
                    True,
                    "h + g(h) is a residual block. Both keep a straight road open through many "
                    "layers, for what goes up and for the gradients that come down.",
                ),
                (
                    "Weight decay",
                    False,
                    "Weight decay pulls parameters to zero. The mean function says what remains "
                    "when they are.",
                ),
            ),
        ),
    ),
)

lesson.show(LESSON)
