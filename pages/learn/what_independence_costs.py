"""Lesson 6: layers that are tied to each other, and layers that are made independent."""

from contextlib import suppress
from functools import partial

import numpy as np
import streamlit as st

from datasets.independence import CASES, at_end
from datasets.starts import film
from pages.figures.boards import Look
from pages.figures.independence import measured_figure, with_passage
from pages.figures.scale import markdown_table
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

NUMBER = 6
STAR = lesson.Hand("independence_x", 0.0, [round(-2 + 0.05 * i, 2) for i in range(81)], whole=True)

ink = page_ink()
lesson.take_hands(NUMBER, (STAR,))
look = Look(ink, star=(float(st.session_state.get(STAR.key, STAR.first)),))


def which_row() -> None:
    """The row whose way through the layers is drawn, for both models."""
    st.slider("Row nearest to x", -2.0, 2.0, step=0.05, **lesson.hand(STAR))


def clicked(where: dict) -> None:
    """A click in a prediction chooses the row there."""
    if str(where.get("name")).endswith("/deep"):
        with suppress(KeyError, TypeError, ValueError):
            place = float(np.clip(float(where["x"]), -2.0, 2.0))
            st.session_state[STAR.key] = round(round(place / 0.05) * 0.05, 2)


def between(values: list[float], digits: str) -> str:
    """The smallest and the largest of some measurements."""
    low, high = (f"{value:{digits}}".replace("-", "−") for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def ratios(values: list[float]) -> str:
    """The smallest and the largest of some ratios, which may be of any size."""
    if max(values) < 0.01:
        return "below 0.01"
    return between(values, ",.0f" if min(values) > 100 else ".1f")


def measured_table() -> str:
    """Every case after its last step, over all seeds."""
    ends = [at_end(case) for case in CASES]
    lines = [["after 5,000 steps", "tied", "independent", "same, from noise 1e-5"]]
    lines += [
        ["bound (nats)", *(between([row.bound for row in rows], ".0f") for rows in ends)],
        ["signal-to-noise ratio", *(ratios([row.signal for row in rows]) for rows in ends)],
        ["leaving layer 1 (sd)", *(between([r.first_sd for r in rows], ".2f") for rows in ends)],
        ["coverage (%)", *(between([100 * r.coverage for r in rows], ".0f") for rows in ends)],
        ["log density (nats)", *(between([r.log_density for r in rows], ".1f") for rows in ends)],
    ]
    return markdown_table(lines)


def measured() -> None:
    """What was measured, as a table and over time."""
    st.markdown(measured_table())
    alt = "The signal-to-noise ratio of layer 1 over the steps, of twelve trainings."
    stage.figure(measured_figure(ink), alt, "independence_measured")


HOSTS = (
    (("deep", 285, "What it predicts"), ("passage", 285, "One row, through both layers")),
    (("signal", 260, "Signal-to-noise ratio of layer 1"), ("passage_words", 0, "In numbers")),
)
LESSON = lesson.Lesson(
    number=NUMBER,
    title="What independence costs",
    summary="Layers may be tied to each other, or made independent. What the paper says of it, "
    "and what shows.",
    minutes=20,
    parts=(
        lesson.Words(
            "The exact posterior of a deep GP is out of reach: what leaves one layer is what the "
            "next is a function of, and nobody can integrate over that. So one chooses a *family* "
            "of posteriors and takes its best member, by the bound. The paper's family keeps the "
            "layers tied: given the inducing points, a layer sees exactly what left the one below."
        ),
        lesson.Equation(
            r"q = \prod_{l=1}^{L} p(F^l \mid U^l;\; F^{l-1}, Z^{l-1})\, q(U^l)",
            "The paper's posterior of all F and U: only q(U) is approximate, and every layer's "
            "input is the layer below.",
            "12",
        ),
        lesson.Words(
            "Before it, Damianou and Lawrence (2013) had cut that tie. In their "
            "[mean-field](glossary#mean-field) posterior, what *enters* a layer is a variable of "
            "its own, $h_n^l$, with a Gaussian of its own for every row, whatever left the layer "
            "below."
        ),
        lesson.Equation(
            r"\begin{split} q = &\prod_{l=1}^{L} p(F^l \mid U^l;\; H^{l-1}, Z^{l-1})\, q(U^l) \\ "
            r"&\cdot \prod_{l=1}^{L-1} \prod_{n=1}^{N} \mathcal{N}(h_n^l;\; m_n^l, s_n^l) "
            r"\end{split}",
            "Theirs, with the same sparse layers, and H⁰ = X. F and H of the same layer are "
            "independent of each other.",
        ),
        lesson.Words(
            "Two things follow at once. The second product has $2N(D^1 + \\dots + D^{L-1})$ "
            "numbers to learn: 200 for the hundred rows below, two million for a million rows; "
            "the first has none that grow with $N$. And a new row has no $h$: its prediction must "
            "go through the layers, as the paper's does."
        ),
        lesson.Equation(
            r"\begin{split} \mathcal{L} = &\sum_{n=1}^{N} \mathbb{E}_q\big[\log p(y_n \mid f_n^L)"
            r"\big] - \sum_{l=1}^{L} \mathrm{KL}\big[q(U^l)\,\|\,p(U^l)\big] \\ &- "
            r"\sum_{l=1}^{L-1} \sum_{n=1}^{N} \mathbb{E}_q\,\mathrm{KL}\big[q(h_n^l)\,\|\,"
            r"\mathcal{N}(f_n^l, \sigma_l^2)\big] \end{split}",
            "Their bound: it is lesson 5's, less what it costs that h strays from f. (This last "
            "sum is the entropy of q(h) and the expected log density of h under its layer.)",
        ),
        lesson.Words(
            "## Two layers on the step\n\n"
            "The same model, the same rows, the same seed, trained twice. Take one row and draw "
            "from the posterior what leaves layer 1 and what leaves layer 2 there."
        ),
        lesson.Picture(
            which_row,
            "The training row that both clouds are drawn at. A click in a prediction chooses one "
            "too.",
            (STAR,),
        ),
        lesson.Words("**Tied:** the paper's posterior."),
        lesson.Live(
            name="tied",
            choices=Choices(data="step"),
            paint=partial(with_passage, look=look, names=("deep",)),
            style=(look,),
            hosts=HOSTS,
            says="The cloud's axes each span four standard deviations to either side, so that "
            "only its slant can differ. Signal: the variance over rows of what layer 1 adds to "
            "its mean function; noise: σ₁².",
            film=tuple(film("step")),
        ),
        lesson.Words("**Independent:** mean-field."),
        lesson.Live(
            name="apart",
            choices=Choices(data="step", posterior="mean_field"),
            paint=partial(with_passage, look=look, names=("deep",)),
            style=(look,),
            hosts=HOSTS,
            says="The same pictures, of layers that are independent of each other. This run's "
            "program is compiled for it alone, which takes some seconds.",
            film=tuple(film("step_mean_field")),
        ),
        lesson.Try(
            "Let both train to step 1,000 and compare the clouds at x = 0, at the jump. Then "
            "compare the two curves of the signal-to-noise ratio.",
            "Tied, the cloud is slanted: where layer 1 puts the row further right, layer 2 puts "
            "it further up; the correlation is above 0.5. Independent, the cloud is round: "
            "correlation 0, at every row and every step, by construction. The tied layer 1 has a "
            "signal thousands of times its noise; the independent one hardly five times, because "
            "h may stray from f only as far as the noise allows, and so the noise grows.",
        ),
        lesson.Words(
            "## What was measured\n\n"
            "Both posteriors trained from four seeds for 5,000 steps, as above, and were judged "
            "on 2,000 rows that they had not seen. In the last column mean-field starts with the "
            "noise 1e-5 that the tied layers start with; in the one before, as in this app, with "
            "0.01."
        ),
        lesson.Picture(
            measured,
            "From the smallest to the largest of four seeds: the bound (nats), the signal-to-noise "
            "ratio and the standard deviation of what leaves layer 1, the share of unseen rows in "
            "the central 95 %, and their mean log density. Below: the ratio over the steps.",
            on_paper=measured_table,
        ),
        lesson.Words(
            "**The bound.** Independence costs 4 to 14 nats on these rows. But on three "
            "of four other draws of the data it was the tied model that ended lower: it had got "
            "stuck on its way. A larger family holds a better optimum; it does not promise that "
            "training finds it.\n\n"
            "**The variance.** The paper expects that a posterior without ties underestimates it. "
            "Inside the model it does: what leaves layer 1 is two to three times as sure as when "
            "tied, and on five points, where the exact posterior can be computed by brute force, "
            "q(h) has the right means and a standard deviation that is a fifth to a third too "
            "small. In the band for *new* rows it does **not** show here: these rows pass through "
            "the layers and their noise, and that noise has grown. The coverage is the same, and "
            "the log density is even higher: at the jump the tied model is too sure.\n\n"
            "**Layers turned off.** The paper found that training the mean-field bound turns "
            "layers off: their signal-to-noise ratio tends to zero. It does, from the start with "
            "noise 1e-5, with every seed: layer 1 becomes the identity, and the rows' own h do "
            "what it should have done. From 0.01 it stays on, with a bound that is about 20 nats "
            "higher. So the bound itself prefers the layer on; it is the way there that is barred. "
            "This is another kind of *off* than in lesson 5, where a layer was not needed."
        ),
        lesson.question(
            "Why is the mean-field cloud round at every row?",
            lesson.wrong(
                "Because layer 2 has learned to ignore layer 1.",
                "It does depend on what enters it. But what enters it is h, and the cloud shows "
                "f¹, what left layer 1.",
            ),
            lesson.right(
                "Because h, which enters layer 2, is independent of what left layer 1.",
                "It is a product in the posterior: no training can tie them.",
            ),
            lesson.wrong(
                "Because the noise between the layers is large.",
                "It grew because they are independent, not the other way round. With no noise at "
                "all the cloud would be round too.",
            ),
        ),
        lesson.question(
            "A million rows, minibatches of a thousand, two layers of width 5. Which posterior "
            "has to visit every row to have learned anything about it?",
            lesson.wrong(
                "The tied one: it samples a path for each row.",
                "It needs the path only for the rows of the minibatch, and what it learns is in "
                "q(U), which serves all rows.",
            ),
            lesson.right(
                "Mean-field: ten million numbers belong to single rows.",
                "2 · 1,000,000 · 5. A row that was not visited has a q(h) that knows nothing. "
                "This app trains mean-field on all rows at each step.",
            ),
        ),
        lesson.question(
            "A colleague compares two posteriors by the coverage of held-out rows, finds 94 % and "
            "95 %, and concludes that independence costs nothing. What is missing?",
            lesson.wrong(
                "Nothing: coverage is what counts.",
                "A band can cover 95 % and be wide in the wrong places; and inside, layer 1 was "
                "two to three times too sure.",
            ),
            lesson.right(
                "The log density, the bound, and what happens inside the layers.",
                "Here they point in different directions: the bound against independence, the log "
                "density of new rows for it.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON, clicked)
