"""Lesson 9: where depth helps, where it does not, and what was measured."""

from functools import partial

import numpy as np
import streamlit as st

from datasets.catalogue import entry
from datasets.measured import regression as measured
from datasets.printed import SETS, Score, printed
from datasets.starts import film
from dgp_core.gp.data import counted
from pages.figures.boards import Look
from pages.figures.depth_table import (
    MODELS,
    SHOW,
    against_one_layer,
    beside,
    depth_figure,
    number,
    summary,
)
from pages.figures.lesson_live import with_layers
from pages.figures.scale import markdown_table
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

REGRESSION = tuple(name for name in SETS if printed(name, "rmse"))
HARM = 0.05
"""Nats per row: less is negligible."""

ink = page_ink()


def sets() -> tuple[str, ...]:
    """Every set of the paper's regression tables; first those that the words are about."""
    return ("kin8nm", "energy", *(n for n in REGRESSION if n not in ("kin8nm", "energy")))


SET = lesson.Hand("depth_set", sets()[0], sets())
WHOSE = lesson.Hand("depth_show", "both", tuple(SHOW))


def pictures() -> None:
    """Picture and table of the chosen set."""
    name = st.segmented_control(
        "Data set", sets(), **lesson.hand(SET, "default"), required=True, width="content"
    )
    show = st.segmented_control(
        "Numbers",
        list(SHOW),
        **lesson.hand(WHOSE, "default"),
        format_func=SHOW.__getitem__,
        required=True,
    )
    if name == "boston":
        st.warning(entry("boston").warning, icon=":material/warning:")
    if show == "ours" and not summary(measured(), name, "loglik"):
        st.markdown("*Not measured here: choose the paper's numbers.*")
        return
    alt = f"Held-out log-likelihood on {name} by model, ours and the paper's."
    stage.figure(depth_figure(measured(), name, show, ink), alt, "depth_picture")
    st.markdown(table(name, show))


def table(name: str, show: str = "both") -> str:
    """Ours and the paper's on a set, model by model, in Markdown."""
    scores: tuple[Score, ...] = ("loglik", "rmse")
    found = {score: summary(measured(), name, score) for score in scores}
    ours = {
        model: {score: number(*found[score][model][:2]) for score in scores}
        for model in found["loglik"]
    }
    titles = {
        model: title + (f", {counted(found['loglik'][model][2], 'split')}" if model in ours else "")
        for model, title in MODELS.items()
    }
    return markdown_table(beside(ours, name, titles if show != "paper" else MODELS, show))


def tables() -> str:
    """Every set's table, for the sheet."""
    return "\n\n".join(f"#### {name}\n\n{table(name)}" for name in sets()).replace("_", r"\_")


def mean_gains(name: str) -> dict[str, tuple[float, int]]:
    """Each deep model's mean gain on one layer of a set, and over how many splits."""
    found = against_one_layer(measured(), name)
    return {m: (float(np.mean([*gains.values()])), len(gains)) for m, gains in found.items()}


def paper_gain(name: str, model: str = "dgp2") -> float:
    """What depth gains on one layer in the paper's table, in nats per row."""
    scores = printed(name, "loglik")
    return scores[model].value - scores["sgp"].value


def two_recipes(name: str) -> str:
    """Both gains of two layers on one, and the single layer that each is measured from."""
    own, paper = summary(measured(), name, "loglik"), printed(name, "loglik")
    if not {"sgp", "dgp2"} <= own.keys():
        return ""
    better = own["sgp"][0] > paper["sgp"].value
    return (
        f"The paper's two layers gain {_signed(paper_gain(name))} nats per row on its one layer "
        f"({number(paper['sgp'].value)} to {number(paper['dgp2'].value)}), ours "
        f"{_signed(mean_gains(name)['dgp2'][0])} ({number(own['sgp'][0])} to "
        f"{number(own['dgp2'][0])}). What differs is the single layer: "
        f"{'ours is better trained' if better else 'the paper’s is better trained'}. {ours(name)}"
    )


def ours(name: str) -> str:
    """What was measured here of depth on a set."""
    parts = [
        f"{MODELS[model].lower()} {_signed(gain)} nats per row ({counted(n, 'split')})"
        for model, (gain, n) in mean_gains(name).items()
    ]
    if not parts:
        return "We have not measured depth on it."
    return f"Ours, against one layer: {', '.join(parts)}."


def whether(name: str) -> str:
    """On how many splits of a set depth has helped, and on how many it has hurt."""
    found = [
        (split, gain)
        for gains in against_one_layer(measured(), name).values()
        for split, gain in gains.items()
    ]
    better = {split for split, gain in found if gain > HARM}
    worse = {split for split, gain in found if gain < -HARM}
    if not found:
        return ""
    if not better and not worse:
        return "Depth has not helped. It has not hurt either."
    return (
        f"By more than {HARM} nats, a deep model is ahead on {len(better)} of "
        f"{len({split for split, _ in found})} splits, and behind on {len(worse) or 'none'}."
    )


def worst(names: tuple[str, ...]) -> str:
    """The least that depth has gained on these sets."""
    found = [
        (gain, MODELS[model].lower(), name)
        for name in names
        for model, (gain, _) in mean_gains(name).items()
    ]
    if not found:
        return ""
    gain, model, name = min(found)
    if gain > -HARM:
        return (
            f"On those of them that we have measured, no deep model loses as much as {HARM} nats "
            "per row."
        )
    return f"The most that we have seen depth lose on them is {_signed(gain)}: {model} on {name}."


def recipe() -> str:
    """How long our models were trained, from the shortest on."""
    lengths = {
        (row["steps"], row.get("row_visits", 1000 * row["steps"]) // row["steps"])
        for row in measured()
        if row["steps"]
    }
    every = (f"{n:,} steps of up to {B:,} rows" for n, B in sorted(lengths))
    return " or ".join(every) or "no steps"


def splits() -> str:
    """How many splits our models have, set by set."""
    found = {n: summary(measured(), n, "loglik") for n in sets()}
    counts = sorted({of["dgp2"][2] for of in found.values() if "dgp2" in of})
    return " to ".join(f"{n}" for n in (counts[0], counts[-1])) if counts else "no"


def few_splits() -> lesson.Question:
    """Whether the splits that were measured on kin8nm tell one layer from two."""
    scores = [r for r in measured() if (r["set"], r["model"]) == ("kin8nm", "dgp2")]
    gain, n = mean_gains("kin8nm").get("dgp2", (0.0, 0))
    spread = np.ptp([row["loglik"] for row in scores]) if scores else 0.0
    sizes = f"{gain:.1f} nats between the models, {spread:.2f} between the splits."
    return lesson.question(
        f"Ours has {n} splits on kin8nm, the paper 20. Is our difference between one and two "
        "layers worth anything?",
        lesson.right(
            "Yes: every split shows it, and it is many times their spread.",
            f"{sizes} For small differences, such as two against three layers, a few splits "
            "say little.",
        ),
        lesson.wrong(
            "No: so few are too few for anything.",
            f"It depends on the size of the difference. Here: {sizes}",
        ),
    )


def _signed(gain: float) -> str:
    return f"{gain:+.2f}".replace("-", "−")


LAYERS = ("deep", "rival", "bound_words", "layers_words")
HOSTS = (
    (("deep", 285, "The deep model"), ("rival", 285, "The single layer")),
    (("bound_words", 0, ""),),
    (("layers_words", 0, ""),),
)
LESSON = lesson.Lesson(
    number=9,
    title="Does depth help?",
    summary="Sometimes much, sometimes not at all; and a second layer may only train better.",
    minutes=20,
    parts=(
        lesson.Words(
            "A deep GP can do all that a single layer can, and more. That is no promise that it "
            "predicts better. Watch two cases first, and then read what was measured. These data "
            "are nearly a straight line:"
        ),
        lesson.Live(
            name="line",
            choices=Choices(data="nearly_linear"),
            paint=partial(with_layers, look=Look(ink), names=LAYERS),
            style=(ink,),
            hosts=HOSTS,
            says="Both predictions on the same data, both bounds as the sums that they are, and "
            "how far each inner layer is from its mean function.",
            controls=("layers",),
            offers={"layers": (1, 2, 3)},
            film=tuple(film("nearly_linear")),
        ),
        lesson.Try(
            "Set the depth to 3 and let it train to step 2,000. Compare the two bounds.",
            "They end within three nats of each other, and so do the pictures. Both inner layers "
            "have switched off: each departs from its mean function by less than one per cent.",
        ),
        lesson.Words("And here is a jump, where a single layer has one lengthscale too few:"),
        lesson.Live(
            name="jump",
            choices=Choices(),
            paint=partial(with_layers, look=Look(ink), names=LAYERS),
            style=(ink,),
            hosts=HOSTS,
            says="The same two models on the step.",
            film=tuple(film("step")),
        ),
        lesson.Try(
            "Let it train to step 1,000, and compare the bounds again.",
            "The deep model is ahead by more than 50 nats. Its first layer is on: it stretches the "
            "axis around the jump, so that the second one sees a gentle slope.",
        ),
        lesson.Words(
            "## What was measured\n\n"
            "Two toys show what may happen, not what does. Only rows that no model has seen can "
            "tell, and only the same rows for everybody. The authors split each data set twenty "
            "times, nine tenths to train and one tenth to test. We take the same splits, and score "
            "the same thing: the [log-likelihood](glossary#log-likelihood) of the held-out rows "
            "under the [mixture](glossary#mixture)."
        ),
        lesson.Equation(
            r"\log p(y_*) = \log \frac{1}{S} \sum_{s=1}^{S} \mathcal{N}\big(y_* \mid "
            r"\mu_s(x_*),\; \sigma_s^2(x_*) + \sigma^2\big)",
            "The score of one held-out row, in the data's own units; 100 paths. A table prints the "
            "mean over rows and splits.",
        ),
        lesson.Picture(
            pictures,
            "Each dot is one split that we measured; the bar is their mean. More is better. A "
            "diamond is the number that the paper prints, its stroke ± 1 standard error. In the "
            "table, beside the [RMSE](glossary#rmse), brackets hold the standard error of the "
            "mean over splits. “Printed” marks a model that we did not run: 500 inducing points, "
            "expectation propagation (AEPDGP 2) and a Bayesian network (PBP) are the paper's; it "
            "trained every GP in both tables with one recipe. Least squares (Linear) is the check "
            "on everything else: it has no luck in it, so it must agree to every printed digit.",
            (SET, WHOSE),
            on_paper=tables,
        ),
        lesson.Words(
            "**Two recipes.** The paper: Adam at 0.01 for everything, 20,000 steps, 10,000 rows a "
            f"step. Ours: natural gradients for the last layer, Adam at 0.05, {recipe()}, "
            "by the set, both rates falling at the end. Both have 100 inducing points.\n\n"
            "**kin8nm** is a robot arm with eight joints. Each joint turns everything beyond it, "
            f"so the truth is a composition, and layers pay. {two_recipes('kin8nm')} A gain of a "
            "tenth of a nat per row, over the 820 held-out rows, is a factor of $e^{82}$ in how "
            "likely they are.\n\n"
            "**energy** asks how much heat a building needs, by eight numbers about its shape. "
            f"{two_recipes('energy')} {whether('energy')} So a gain from depth may be a gain "
            "from a longer climb: before you praise a second layer, train the first one well."
        ),
        lesson.Words(
            "## Where it does not help\n\n"
            "The authors name three sets on which depth makes no difference.\n\n"
            "**boston** is small: 455 rows to train on (and one of its columns is a discredited "
            f"racial measure: use it only to compare with published scores). {ours('boston')}\n\n"
            "**wine** is nearly linear, with much noise: there is little that a bend could add. "
            f"{ours('wine_red')}\n\n"
            "**naval** is so easy for a GP that there is little left to find. In the paper's own "
            f"table one layer has {number(printed('naval', 'loglik')['sgp'].value)}, two have "
            f"{number(printed('naval', 'loglik')['dgp2'].value)}, and five fall to "
            f"{number(*printed('naval', 'loglik')['dgp5'])}: a loss of "
            f"{abs(paper_gain('naval', 'dgp5')):.2f} nats, though with a standard error larger "
            f"than that. {ours('naval')}\n\n"
            "A large model on little data usually *loses*: it learns the noise by heart. What "
            "holds a deep GP back is the [KL](glossary#kl-divergence). A layer has to pay for "
            "every bend in it. Where bends do not raise the fit, they are not bought, and the "
            "layer stays at its [mean function](glossary#mean-function), which hands on what "
            f"enters, as you saw on the line. {worst(('boston', 'wine_red', 'naval'))} That rests "
            f"on {splits()} splits a set, where the paper has 20: it is a reason to try depth, not "
            "a proof that it is safe. Score rows that no model has seen, and read off the layers "
            "whether depth was used.\n\n"
            "The paper says that the deepest model is best on five of the eight sets. Go through "
            "its table: it is on kin8nm, power and protein. On the other five, one layer with 500 "
            "inducing points leads."
        ),
        lesson.question(
            "On your data, three layers score the same as one. What do you conclude?",
            lesson.wrong(
                "Training failed: three layers must be better.",
                "They can be better only if there is something in the data that one layer cannot "
                "say. Look at the layers: if they are off, the model has chosen one.",
            ),
            lesson.right(
                "One layer is enough here. Keep it, or keep three without harm.",
                "That is the wine case. The simpler model is faster; on these rows the deeper one "
                "did not overfit.",
            ),
            lesson.wrong(
                "The deep model overfits.",
                "Then its held-out score would be worse than that of one layer, not equal.",
            ),
        ),
        lesson.question(
            "Why compare held-out log-likelihoods rather than bounds?",
            lesson.wrong(
                "The bound is random and the score is not.",
                "Both are estimated from sample paths. That is not the reason.",
            ),
            lesson.right(
                "Bounds of different models lie below their evidences by different amounts.",
                "A deep model's bound may be far below its evidence, a single layer's close. "
                "Held-out rows ask the question that you care about, and need no bound.",
            ),
            lesson.wrong(
                "The bound ignores the noise.",
                "The noise is in the likelihood, and so in the fit.",
            ),
        ),
        few_splits(),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON)
