"""Lesson 10: classes, and a hidden layer that pulls them apart."""

from functools import partial

import streamlit as st

from datasets.starts import film
from pages.figures.boards import Look
from pages.figures.lesson_live import with_cut, with_nearest
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.theme import page_ink

NUMBER = 10
WANTED = lesson.Hand("want_banana", False, (False, True), whole=True)

lesson.take_hands(NUMBER, (WANTED,))
ink = page_ink()
LOOK = Look(ink)
MAPS = ("deep", "rival", "legend", "layer_0", "layer_1", "bound_words")


def plane(name: str, data: str, says: str) -> lesson.Live:
    """Both models' maps on a set of two inputs, and what the first layer does to the plane."""
    return lesson.Live(
        name=name,
        choices=Choices(data=data),
        paint=partial(with_cut, look=LOOK, names=MAPS),
        style=(ink,),
        hosts=(
            (("deep", 285, "Two layers"), ("rival", 285, "One layer")),
            (("legend", 0, ""),),
            (("layer_0", 196, "What layer 1 does to the plane"),),
            (("cut_words", 0, ""),),
        ),
        says=says,
        film=tuple(film(data)),
    )


def ask() -> None:
    st.toggle("Train on the bananas", **lesson.hand(WANTED))


def banana() -> tuple[lesson.Part, ...]:
    """A run that starts only for those who want it."""
    asked = lesson.Picture(
        ask,
        "4,770 of 5,300 rows, in minibatches of 500. The run starts when you ask for it.",
        (WANTED,),
    )
    if not st.session_state.get(WANTED.key):
        return (asked,)
    live = plane("banana", "banana", "The probability of the second class; half-way is the border.")
    return asked, live


DIGITS = lesson.Live(
    name="digits",
    choices=Choices(data="digits", width=2, likelihood="robust_max", at=1000),
    paint=partial(with_nearest, look=LOOK, names=("deep", "rival")),
    style=(ink,),
    hosts=(
        (("before", 320, "The pixels"), ("after", 320, "What leaves layer 1")),
        (("nearest_words", 0, ""),),
        (("deep", 285, "Two layers"), ("rival", 285, "One layer")),
    ),
    says="Above: 400 of the digits, each at the first two principal components of its 100 pixels, "
    "and at the two numbers that layer 1 makes of them. Below: how often each digit was taken for "
    "each other, on these same digits, which the models were *trained* on; the line between says "
    "how they do on others. The run pauses at step 1,000.",
    film=tuple(film("digits_2")),
)


LESSON = lesson.Lesson(
    number=NUMBER,
    title="Classes",
    summary="A smooth function, a link, and a hidden layer that pulls classes apart.",
    minutes=20,
    parts=(
        lesson.Words(
            "How does a model of smooth functions say *cat* or *dog*? It learns a function $f$ as "
            "before, any number large or small, and a [likelihood](glossary#likelihood) turns it "
            "into probabilities. Far above zero: surely the second class. Far below: surely the "
            "first. At zero, nobody knows.\n\n"
            "Nothing else changes: the same layers, the same [bound](glossary#bound), the same two "
            "dice. What is new is what depth can do. Here are two spirals, wound round each other:"
        ),
        plane(
            "spiral",
            "spiral",
            "Above: the probability of the second arm over the plane. Below: a grid of inputs and "
            "the data as they enter the first layer, and as they leave it.",
        ),
        lesson.Try(
            "Let it train to step 300, and read the line below the grid.",
            "No straight cut parts the arms as they come: the best by least squares leaves about "
            "three points in ten on the wrong side. After the first layer, one straight cut parts "
            "**all** of them. The layer has unrolled the spiral, and the second has an easy job.",
        ),
        lesson.Try(
            "Go on to step 1,000 and compare the two maps.",
            "The deep model has every training point right. The single layer, with its 25 inducing "
            "points and one lengthscale for each input, is wrong on about one in four.",
        ),
        lesson.Words(
            "## From a number to a probability\n\n"
            "With two classes, one function is enough. The Bernoulli likelihood sends it through "
            "the normal distribution function Φ. The average over what is uncertain about $f$ is "
            "known in closed form, path by path:"
        ),
        lesson.Equation(
            r"p(y = 1 \mid f) = \Phi(f), \qquad p(y_* = 1) = \frac1S \sum_{s=1}^{S} "
            r"\Phi\!\left(\frac{\mu_s}{\sqrt{1 + \sigma_s^2}}\right)",
            "The more uncertain $f$ is, the nearer the probability is to one half: not knowing is "
            "not the same as knowing that it is even, but to a bet it is.",
        ),
        lesson.Words(
            "With $C$ classes there are $C$ functions, and the largest wins. The robust-max "
            "likelihood says so with a grain of doubt, so that a mislabelled row cannot break "
            "anything:"
        ),
        lesson.Equation(
            r"p(y = c \mid f) = \begin{cases} 1 - \epsilon & \text{if } c = \arg\max_k f_k \\ "
            r"\epsilon / (C - 1) & \text{otherwise} \end{cases} \qquad \epsilon = 10^{-3}",
            "The paper uses this likelihood for handwritten digits; it does not say which ε.",
        ),
        lesson.Words(
            "Every kind of answer has its likelihood. A softmax turns the $C$ functions into "
            "probabilities without a winner; counts take the Poisson, whose rate is $e^f$, or the "
            "negative binomial where they vary more; and "
            "measurements with outliers take Student-t noise, which forgives a row that is far "
            "off. The layers below never notice which one it is."
        ),
        lesson.Words(
            "## Where depth has nothing to add\n\n"
            "The banana data are two clouds that overlap. Which model is better here?"
        ),
        *banana(),
        lesson.Try(
            "Train on the bananas to step 300, and compare the maps.",
            "Both models find the same border, with an accuracy of about 90 % each on the rows "
            "that they were trained on. The first layer still works: before it, a straight cut "
            "does little better than a coin, after it, it is right on more than 80 %. But a "
            "single layer can draw this border by itself, and where the clouds overlap no model "
            "can know.",
        ),
        lesson.Words(
            "## Many inputs: digits\n\n"
            "These digits are drawn by a program, each with another slant, stretch, bend and pen, "
            "on 10 × 10 pixels. A hundred inputs have no plane to look at. Their first two "
            "principal components are the flat view in which the rows spread most: do digits of "
            "one kind lie together in it? Beside it, layer 1 has to make do with **two** numbers "
            "for each digit, and the second layer sees nothing else. Which two will it choose?"
        ),
        DIGITS,
        lesson.Try(
            "Let it train to step 300, and compare the two clouds of digits.",
            "By their pixels, the kinds lie on top of each other: four digits in ten are nearest "
            "to the centre of their own kind. After the layer, about seven in ten are. Pixels "
            "spread most by how far a digit leans, which says nothing about what it is. The layer "
            "has learned to spread what does, because the bound pays for it.",
        ),
        lesson.Try(
            "Go on to step 1,000, and look at the two tables.",
            "Eight in ten are nearest to their own kind now. Of the digits that it was trained on, "
            "the deep model has more than four in five right, by two numbers each; the single "
            "layer, which sees all 100 pixels, has nearly all. Of 500 that neither has seen, it is "
            "about seven in ten and nine in ten: training rows flatter every model, the narrow "
            "one most. To pull classes apart is what a hidden layer does; to squeeze a hundred "
            "inputs through two is a price that you need not pay: the playground starts with a "
            "width of 30.",
        ),
        lesson.question(
            "Far from all data, what should a good classifier say?",
            lesson.wrong(
                "The class of the nearest point, with confidence.",
                "That is what many classifiers do, and it is why they are confident about "
                "nonsense.",
            ),
            lesson.right(
                "About one half for each of two classes.",
                "Far away, $f$ returns to its prior: mean zero, large variance. Both push Φ to "
                "one half.",
            ),
            lesson.wrong(
                "Zero for both.",
                "Probabilities add up to one, whatever the model knows.",
            ),
        ),
        lesson.question(
            "After the first layer, the spiral's arms can be parted by a straight cut. Why did "
            "the layer learn that? Nobody told it to.",
            lesson.right(
                "The bound rewards it: a simple last layer has a small KL and fits well.",
                "To part the arms as they come, the last layer would need many bends, and bends "
                "cost. To bend the plane once, and then cut straight, is cheaper.",
            ),
            lesson.wrong(
                "Its mean function is linear, so it makes things linear.",
                "The mean function hands on the plane as it is. The unrolling is what the layer "
                "adds to it.",
            ),
            lesson.wrong(
                "By chance: another seed would not.",
                "How it unrolls depends on the seed. That it does so is what the bound asks for. "
                "Reset with another seed in the playground, and look.",
            ),
        ),
        lesson.question(
            "Two models are right on 90 % of the rows each. Are they equally good?",
            lesson.wrong(
                "Yes: accuracy is what counts.",
                "One may say 51 % and the other 99 %, for the same rows. Accuracy does not see "
                "the difference; anybody who acts on it does.",
            ),
            lesson.right(
                "Not if one says how sure it is and keeps its word.",
                "That is [calibration](glossary#calibration): of all the rows called 80 %, four "
                "in five should come true. The log-likelihood rewards it.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON)
