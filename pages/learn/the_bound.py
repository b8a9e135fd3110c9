"""Lesson 5: fit against KL, and layers that switch themselves off."""

from functools import partial

import streamlit as st

from datasets.starts import film
from dgp_core.live.views.by_hand import bound_by_hand
from pages.figures.by_hand import belief_figure, sum_figure
from pages.figures.lesson_live import live
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

SEEN, NOISE = 1.5, 0.5
MEAN = lesson.Hand("belief_mean", 0.0, [round(-2 + 0.05 * i, 2) for i in range(101)])
DEVIATION = lesson.Hand("belief_sd", 1.0, [round(0.05 * i, 2) for i in range(1, 41)])

ink = page_ink()


def by_hand() -> None:
    """One unknown, one observation, and a belief that a person sets."""
    left, right = st.columns(2, gap="medium")
    mean = left.slider("Mean m of q(u)", -2.0, 3.0, step=0.05, **lesson.hand(MEAN))
    sd = right.slider(
        "Standard deviation s of q(u)", 0.05, 2.0, step=0.05, **lesson.hand(DEVIATION)
    )
    parts = bound_by_hand(SEEN, NOISE, mean, sd)
    wide, narrow = st.columns([3, 2], gap="medium")
    with wide:
        alt = "The prior, the exact posterior and your q(u), with the one observation."
        figure = belief_figure(SEEN, NOISE, mean, sd, parts, ink)
        stage.figure(figure, alt, "belief_picture")
    with narrow:
        alt = "Fit, KL and bound of your q(u), beside the log evidence."
        stage.figure(sum_figure(parts, ink), alt, "sum_picture")
    text = f"bound **{parts.bound:.2f}** = fit {parts.fit:.2f} − KL {parts.kl:.2f}"
    gap = parts.evidence - parts.bound
    st.markdown(f"{text.replace('-', '−')}; **{gap:.2f}** nats below the log evidence.")


LESSON = lesson.Lesson(
    number=5,
    title="The bound: fit against KL",
    summary="One number trains everything. Its two halves pull in opposite directions.",
    minutes=20,
    parts=(
        lesson.Words(
            "Everything that a deep GP learns, it learns by climbing one number: the "
            "[evidence lower bound](glossary#elbo). It is a difference. The *fit* says how well "
            "the model's belief explains the data. The [KL](glossary#kl-divergence) says how far "
            "this belief has moved from the prior, and is taken off as a price. First by hand, "
            "with the smallest model there is: one unknown u with prior N(0, 1), seen once, with "
            "noise, as y = 1.5. The belief q(u) is yours."
        ),
        lesson.Picture(
            by_hand,
            "First: prior (dotted), exact posterior (dashed), your q(u) (solid), and y with its "
            "noise, σ = 0.5. Second: fit and KL make the bound; the dashed line is the log "
            "evidence, which it cannot pass.",
            (MEAN, DEVIATION),
        ),
        lesson.Try(
            "Set m to 1.5 and s to 0.05: believe what you saw, and be sure of it. Then find the m "
            "and s with the highest bound.",
            "Certainty fits best, but costs 3.6 nats of KL, and the bound stays almost 2 nats "
            "below the evidence. The best belief is the exact posterior, m = 1.2 and s = 0.45: "
            "there the bound touches the evidence. It lies between what was seen and what was "
            "believed before.",
        ),
        lesson.Words(
            "The gap between bound and evidence is itself a KL, from your q(u) to the exact "
            "posterior. With kernel and noise as they are, raising the bound moves q towards the "
            "posterior. Kernels and noises are learned by the same bound, with one caution: the "
            "gap is not equally small for all of them, so the ones that it prefers are biased."
        ),
        lesson.Equation(
            r"\begin{split} \log p(y) = \; &\underbrace{\mathbb{E}_{q(u)}[\log p(y \mid u)] - "
            r"\mathrm{KL}[q(u)\,\|\,p(u)]}_{\text{bound}} \\ &+ "
            r"\mathrm{KL}[q(u)\,\|\,p(u \mid y)] \end{split}",
            "The last term is never negative, so the bound is one. The left side does not depend "
            "on q: raising the bound must lower that last term.",
        ),
        lesson.Words(
            "## The same, with layers\n\n"
            "A deep GP has inducing points in every layer, and so a KL for every layer. There is "
            "one fit, at the top, and each layer pays for its own opinions."
        ),
        lesson.Equation(
            r"\begin{split} \mathcal{L} = &\sum_{i=1}^{N} \mathbb{E}_{q(f_i^L)}"
            r"\big[\log p(y_i \mid f_i^L)\big] \\ &- \sum_{l=1}^{L} "
            r"\mathrm{KL}\big[q(U^l)\,\|\,p(U^l; Z^{l-1})\big] \end{split}",
            "The bound of the paper. Its first sum goes over rows, its second over layers.",
            "17",
        ),
        lesson.Words(
            "Below, a model of two layers learns data that are nearly a straight line. Look at the "
            "coloured bands: each is the KL of one layer, taken off the fit (dashed). What remains "
            "is the bound (solid)."
        ),
        lesson.Live(
            name="parts",
            choices=Choices(data="nearly_linear"),
            paint=partial(live, ink=ink),
            style=(ink,),
            hosts=(
                (("state", 0, ""),),
                (("deep", 285, "What it predicts"), ("parts", 285, "Fit, less KL, is the bound")),
                (("bound_words", 0, ""),),
                (("layers_words", 0, ""),),
            ),
            says="Second: from the fit (dashed) down to the bound (solid), a band for the KL of "
            "each layer. Below: how far each inner layer is from its mean function.",
            controls=("data", "layers"),
            offers={"data": ("nearly_linear", "step"), "layers": (1, 2, 3, 4)},
            film=tuple(film("nearly_linear")),
        ),
        lesson.Try(
            "Let the nearly straight data train to step 3,000, and watch the band of layer 1.",
            "At the start the first layer costs 131 nats, and at step 500 still several, although "
            "it bends nothing: inner layers start certain, with variances of $10^{-5}$ where the "
            "prior has 1, and each of the 25 inducing points pays "
            "$\\tfrac12(10^{-5} - 1 - \\log 10^{-5}) = 5.26$ nats for that. Then q(U) relaxes to "
            "the prior: its KL falls below 1 nat, and its meter says that it is off. The deep "
            "model's bound comes within 2 nats of the single layer's.",
        ),
        lesson.Words(
            "## Layers that switch off\n\n"
            "Nobody told the model to be shallow. With the linear mean of lesson 4, a layer whose "
            "q(U) equals its prior pays nothing; and once its kernel's variance has shrunk, it "
            "does nothing but pass its input on. If bending does not raise the fit by more than it "
            "costs, the bound is highest with the layer off. This is why needless depth does "
            "little harm here: a model that is deeper than the data need becomes a shallower one "
            "by itself. It is off because it is not needed. (The paper "
            "says “turned off” of something else: layers that a poor, mean-field bound switches "
            "off although the data need them.)"
        ),
        lesson.Try(
            "Switch the data to **Step** and wait for step 5,000.",
            "Now the first layer keeps more than 10 nats of KL, and it is worth it: the fit rises "
            "by far more. It stays on, and the bound ends more than 50 nats above the single "
            "layer's.",
        ),
        lesson.Try(
            "Go back to the nearly straight data, set the depth to 4, and wait for step 3,000.",
            "All three inner layers switch off, one like another: each KL falls below 1 nat, and "
            "the bound ends within 3 nats of the single layer's.",
        ),
        lesson.question(
            "The KL of a layer is exactly zero. What do you know about it?",
            lesson.right(
                "Its q(U) is its prior: it has learned nothing from the data.",
                "KL is zero only if both are equal. With a linear mean such a layer passes its "
                "input on, blurred by its prior; training then shrinks its kernel's variance "
                "until the blur is gone too.",
            ),
            lesson.wrong(
                "It fits perfectly.",
                "KL says nothing about the fit. It is the price of an opinion, and here none was "
                "bought.",
            ),
            lesson.wrong(
                "Its q(U) has no variance.",
                "A belief without variance is the most expensive of all: its KL is infinite.",
            ),
        ),
        lesson.question(
            "You double the data, drawn from the same source. What happens to fit and KL?",
            lesson.wrong(
                "Both double.",
                "The fit is a sum over rows, the KL is not: there are as many inducing points as "
                "before.",
            ),
            lesson.right(
                "The fit counts about twice as much; the KL grows a little.",
                "More rows can pay for more opinion. That is how evidence overrules the prior, "
                "and why a layer that is off on few rows may switch on with many.",
            ),
            lesson.wrong(
                "The KL is halved, because the model is surer.",
                "Being surer means a narrower q(U), farther from the prior. That costs more KL, "
                "not less.",
            ),
        ),
        lesson.question(
            "A deeper model has a lower bound than a shallow one on the same data. Must it "
            "predict worse?",
            lesson.wrong(
                "Yes: the bound is the evidence.",
                "It is only a lower bound, and the gap may be larger for the deeper model.",
            ),
            lesson.right(
                "No: bounds with different gaps cannot settle it. Held-out data can.",
                "The bound is a good guide while you train one model. Between models, score rows "
                "that neither has seen, as lesson 9 does.",
            ),
            lesson.wrong(
                "No: bounds of different models have different units.",
                "Both are log probabilities of the same data, in nats. The trouble is the gap.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON)
