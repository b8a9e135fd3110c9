"""Lesson 8: the prediction of a deep GP is a mixture, and what a Gaussian summary hides."""

from contextlib import suppress
from functools import partial

import numpy as np
import streamlit as st

from datasets.starts import film
from datasets.toys import GAP_POINTS
from pages.figures.boards import Look
from pages.figures.by_hand import bent_figure, bent_mixture
from pages.figures.lesson_live import chosen, with_mixture
from pages.ui.choices import Choices, write_points
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

NUMBER = 8
MIDDLE = lesson.Hand("bent_middle", 0.0, [round(-1 + 0.1 * i, 1) for i in range(21)])
DEVIATION = lesson.Hand("bent_deviation", 0.8, [round(0.1 * i, 1) for i in range(1, 11)])
STEEPNESS = lesson.Hand("bent_steepness", 4.0, [round(0.2 * i, 1) for i in range(1, 41)])
STAR = lesson.Hand("star_7", 0.0, [round(-2 + 0.05 * i, 2) for i in range(81)], whole=True)

ink = page_ink()
lesson.take_hands(NUMBER, (MIDDLE, DEVIATION, STEEPNESS, STAR))


def by_hand() -> None:
    """A Gaussian, bent."""
    left, middle, right = st.columns(3, gap="medium")
    where = left.slider("Mean of h", -1.0, 1.0, step=0.1, **lesson.hand(MIDDLE))
    deviation = middle.slider(
        "Standard deviation of h", 0.1, 1.0, step=0.1, **lesson.hand(DEVIATION)
    )
    steepness = right.slider("Steepness of layer 2", 0.2, 8.0, step=0.2, **lesson.hand(STEEPNESS))
    figure = bent_figure(where, deviation, steepness, ink)
    alt = "A Gaussian belief about h, the layer that bends it, and the mixture that comes out."
    stage.figure(figure, alt, "bent_picture")
    mixture = bent_mixture(where, deviation, steepness)
    mean = round(mixture.mean.item(), 2) + 0.0  # no −0.00
    spread = float(np.sqrt(mixture.variance.item()))
    at_mean = float(np.exp(mixture.log_density(np.array([[mean]]))).item())
    st.markdown(
        f"The summary says y = {mean:.2f} ± {spread:.2f}. At that mean, the mixture's density is "
        f"**{at_mean:.2f}**, the summary's **{0.39894 / spread:.2f}**."
    )


def at_a_place() -> None:
    """The mixture of the run above, where the slider says."""
    st.slider("Place x*", -2.0, 2.0, step=0.05, **lesson.hand(STAR))
    stage.words("gap/mixture_title", 20)
    stage.picture("gap/mixture", 236)
    stage.words("gap/mixture_words", 20)


def clicked(where: dict) -> None:
    """A click in a picture of the gap moves x* there."""
    if str(where.get("name")).startswith("gap/"):
        with suppress(KeyError, TypeError, ValueError):
            place = float(np.clip(float(where["x"]), -2.0, 2.0))
            st.session_state.star_7 = round(round(place / 0.05) * 0.05, 2)


look = Look(ink, star=(float(st.session_state.get(STAR.key, STAR.first)),))
LESSON = lesson.Lesson(
    number=NUMBER,
    title="Prediction is a mixture",
    summary="A deep GP's answer is many Gaussians, not one. Sometimes that matters a great deal.",
    minutes=20,
    parts=(
        lesson.Words(
            "Ask one GP for a prediction, and it answers with a Gaussian: a mean and a standard "
            "deviation. Ask a deep GP, and the question has to pass through the layers. The first "
            "layer is not sure what it hands on. It believes in a *range* of values $h$. The "
            "second layer takes each of them somewhere else. What comes out is a Gaussian for "
            "every path: a [mixture](glossary#mixture).\n\nBend a Gaussian by hand, and see what "
            "becomes of it."
        ),
        lesson.Picture(
            by_hand,
            "First: the belief about h (blue hill), the second layer (line), and 40 even sample "
            "paths on it. Second: the mixture that they make, and the Gaussian with its mean and "
            "standard deviation (dotted).",
            (MIDDLE, DEVIATION, STEEPNESS),
        ),
        lesson.Try(
            "Lower the steepness to 0.4. Then raise it to 8. Then, at 8, lower **Standard "
            "deviation of h** to 0.1 and move the mean to 1.",
            "A gentle slope hands a Gaussian on as a Gaussian: the two curves agree. A cliff tears "
            "it in two, and the summary is highest where the mixture is nearly zero. A belief "
            "that is sure, and away from the cliff, comes out with one narrow mode again.",
        ),
        lesson.Equation(
            r"q(f_*^L) \approx \frac{1}{S} \sum_{s=1}^{S} "
            r"q\big(f_*^L \mid m^L, S^L;\; f_*^{(s)\,L-1}, Z^{L-1}\big)",
            "The prediction at a new input: S paths are drawn up to the last layer but one, and "
            "each ends in a Gaussian of its own.",
            "18",
        ),
        lesson.Words(
            "## A trained model\n\n"
            "Here is a cliff that nobody saw: a hundred points on two plains, and between "
            "$x = -0.5$ and $x = 0.5$ nothing. Where does the ground rise? Three layers train on "
            "it. Each thin line is one function that the model thinks possible."
        ),
        lesson.Live(
            name="gap",
            choices=Choices(data="drawn", points=write_points(GAP_POINTS), layers=3),
            paint=partial(
                with_mixture, look=look, names=("deep", "rival", "mixture", "mixture_title")
            ),
            style=(look,),
            hosts=((("deep", 285, "Three layers"), ("rival", 285, "One layer")),),
            says="Data, the density of new points as shade, functions drawn, the mean. The dotted "
            "line is x*: click in a picture to move it.",
            film=tuple(film("gap")),
        ),
        lesson.Picture(
            at_a_place,
            "At x*: 40 components (thin), their mixture (thick), the Gaussian summary (dotted), "
            "and the single layer's prediction (dashed).",
            (STAR,),
        ),
        lesson.Try(
            "Let it train to step 1,000. Set x* to 1.5, in the middle of a plain. Then move it to "
            "0, in the gap.",
            "On the plain there is one mode, and the summary misplaces less than one per cent of "
            "its mass. In the gap there is more than one mode, about a tenth of the summary's mass "
            "is misplaced, and most of the variance is *between* the paths: each of them is sure, "
            "but they do not agree. The single layer is sure as well, of its one smooth slope; its "
            "standard deviation is less than half as large.",
        ),
        lesson.Words(
            "## Where the variance comes from\n\n"
            "A mixture's variance has two parts, [within and between](glossary#variance-split) the "
            "paths, and throwing one of them away is a common bug. Let $\\mu_s$ and "
            "$\\sigma_s^2$ be the mean and the variance on path $s$. Then"
        ),
        lesson.Equation(
            r"\operatorname{Var}[y] = \underbrace{\frac1S \sum_s \sigma_s^2}_{\text{within a path}}"
            r" + \underbrace{\frac1S \sum_s (\mu_s - \bar\mu)^2}_{\text{between paths}} + "
            r"\underbrace{\sigma^2_{\text{noise}}}_{\text{of } y}",
            "The law of total variance. Whoever averages only the paths' variances loses the "
            "middle term, which in the gap is most of it.",
        ),
        lesson.Equation(
            r"\log p(y_*) = \log \frac1S \sum_{s=1}^{S} "
            r"\mathcal{N}\big(y_* \mid \mu_s, \sigma_s^2 + \sigma^2\big) \;\ge\; \frac1S "
            r"\sum_{s=1}^{S} \log \mathcal{N}\big(y_* \mid \mu_s, \sigma_s^2 + \sigma^2\big)",
            "A held-out row is scored by the log of the average, not by the average of the logs. "
            "The second is what one gets by scoring path by path; it is never larger (Jensen's "
            "inequality), and punishes a model for every path that was wrong.",
        ),
        lesson.Words(
            "## What a mixture can do, and what training finds\n\n"
            "A mixture *can* have two modes. That does not mean that training will find them. In "
            "the next data the road forks: right of zero, half of the points go up and half go "
            "down. The best prediction there has two modes at every x. What will the deep GP say?"
        ),
        lesson.Live(
            name="fork",
            choices=Choices(data="two_branches"),
            paint=partial(chosen, look=Look(ink), names=("deep", "bound")),
            style=(ink,),
            hosts=((("deep", 285, "Two layers"), ("bound", 285, "The bound")),),
            says="First: the fork and the deep model's density of new points. Second: both models' "
            "bounds.",
            film=tuple(film("two_branches")),
        ),
        lesson.Try(
            "Guess first. Then let it train to step 3,000.",
            "One broad mode, everywhere: the shade covers both roads and the empty land between "
            "them. The likelihood's noise has swallowed the fork, on the left too, where there is "
            "none. The two bounds end within a few nats of each other: depth has bought nothing. "
            "A path's randomness would have to be kept as large as the fork, and the noise is an "
            "easier explanation.",
        ),
        lesson.Words(
            "So look before you trust: the mixture tells you what this *trained* model believes, "
            "not what the best deep GP would. On most inputs of most data, a summary by mean and "
            "standard deviation is fine. At cliffs, in gaps and at the edges it may not be, and "
            "the mixture costs nothing extra, since you have the paths already."
        ),
        lesson.question(
            "A mixture has two equal modes at −1 and 1, each of standard deviation 0.1. What is "
            "its mean, and how likely is a new point near it?",
            lesson.right(
                "0, and no place between the modes is less likely.",
                "A mean need not be a place where anything happens. The summary 0 ± 1 is correct "
                "as a mean and a standard deviation, and useless as a picture.",
            ),
            lesson.wrong(
                "0, and this is where most new points lie.",
                "That holds for one Gaussian. Here 0 lies ten standard deviations from either "
                "mode.",
            ),
            lesson.wrong(
                "−1 or 1, whichever has more paths.",
                "Those are the modes. The mean is the average of both.",
            ),
        ),
        lesson.question(
            "On a path, the last layer's variance is tiny. Does it follow that the model is sure?",
            lesson.wrong(
                "Yes: the last layer makes the prediction.",
                "It makes one for each path. Forty sure paths that disagree are an unsure model.",
            ),
            lesson.right(
                "No: the paths may disagree.",
                "The part between the paths is invisible on any one of them. In the gap it was "
                "more than four fifths of the variance.",
            ),
        ),
        lesson.question(
            "You score held-out rows by averaging the log densities of 100 paths. Your score is …",
            lesson.wrong(
                "the same as the mixture's, up to sampling noise.",
                "Jensen's inequality does not go away with more paths: the log of an average lies "
                "above the average of logs.",
            ),
            lesson.right(
                "too low, most of all where the paths disagree.",
                "There, some paths give the truth next to no density, and their logs are very "
                "negative. The mixture only needs some paths to be right.",
            ),
            lesson.wrong(
                "too high, since every path is sure of itself.",
                "It goes the other way: a path that is sure and wrong costs much in the average "
                "of logs, and little in the log of the average.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON, clicked)
