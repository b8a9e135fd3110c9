"""Lesson 8: where depth helps, where it does not, and what was measured."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import streamlit as st

from datasets.catalogue import entry
from datasets.printed import PRINTED
from datasets.starts import film
from dgp_core.training.plan import counted
from pages.figures.boards import Look
from pages.figures.depth_table import MODELS, against_one_layer, depth_figure, summary
from pages.figures.lesson_live import with_layers
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

# What `python -m benchmarks.paper --json` wrote: one row per set, model and split.
MEASURED = Path(__file__).parents[2] / "benchmarks" / "paper.json"
UNKNOWN = "–"
HARM = 0.05
"""Nats per row: less is negligible."""

ink = page_ink()


@st.cache_data(show_spinner=False)
def measured() -> list[dict]:
    """Rows that were measured; none where the benchmark has left no file."""
    return json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.is_file() else []


def sets() -> tuple[str, ...]:
    """Those on which more than least squares was measured."""
    rows = measured()
    names = dict.fromkeys(row["set"] for row in rows)
    return tuple(name for name in names if len(summary(rows, name, "rmse")) > 1)


SET = lesson.Hand("depth_set", *((sets()[0], sets()) if sets() else ("", ("",))))


def pictures() -> None:
    """A picture of the chosen set."""
    rows = measured()
    if not sets():
        st.markdown("*No measurement is here: `python -m benchmarks.paper` makes it.*")
        return
    name = st.segmented_control(
        "Data set", sets(), **lesson.hand(SET, "default"), required=True, width="content"
    )
    if name == "boston":
        st.warning(entry("boston").warning, icon=":material/warning:")
    printed = {m: PRINTED.get((name, m), (None, None))[0] for m in summary(rows, name, "loglik")}
    alt = f"Held-out log-likelihood on {name} by model, ours and the paper's."
    stage.figure(depth_figure(rows, name, printed, ink), alt, "depth_picture")


def table() -> str:
    """Ours and the paper's, set by set and model by model."""
    lines = [
        "| Data | Model | Splits | Log-likelihood | The paper's | RMSE | The paper's |",
        "|:--|:--|--:|--:|--:|--:|--:|",
    ]
    rows = measured()
    for name in dict.fromkeys(row["set"] for row in rows):
        loglik, error = summary(rows, name, "loglik"), summary(rows, name, "rmse")
        for model, (mean, spread, splits) in loglik.items():
            printed = [_number(value) for value in PRINTED.get((name, model), (None, None))]
            cells = [
                name,
                MODELS[model],
                f"{splits}",
                _number(mean, spread),
                printed[0],
                _number(*error[model][:2]),
                printed[1],
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines).replace("_", r"\_")


def show_table() -> None:
    st.markdown(table())


def _number(value: float | None, error: float = np.nan) -> str:
    if value is None:
        return UNKNOWN
    digits = 3 if abs(value) < 0.1 else 2
    text = f"{value:.{digits}f}" + (f" ({error:.{digits}f})" if np.isfinite(error) else "")
    return text.replace("-", "−")


def mean_gains(name: str) -> dict[str, tuple[float, int]]:
    """Each deep model's mean gain on one layer of a set, and over how many splits."""
    found = against_one_layer(measured(), name)
    return {m: (float(np.mean([*gains.values()])), len(gains)) for m, gains in found.items()}


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
    ahead = {split for split, gain in found if gain > HARM}
    behind = {split for split, gain in found if gain < -HARM}
    if not found:
        return ""
    if not ahead and not behind:
        return "Depth has not helped. It has not hurt either."
    return (
        f"By more than {HARM} nats, a deep model is ahead on {len(ahead)} of "
        f"{len({split for split, _ in found})} splits, and behind on {len(behind) or 'none'}."
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
            f"On those that we have measured, no deep model loses as much as {HARM} nats per row."
        )
    return f"The most that we have seen depth lose on them is {_signed(gain)}: {model} on {name}."


def recipe() -> str:
    """How long the deep models were trained."""
    steps = sorted({row["steps"] for row in measured() if row["model"].startswith("dgp")})
    return " or ".join(f"{n:,}" for n in steps) or "no"


def few_splits() -> lesson.Question:
    """Whether the splits that were measured on kin8nm tell one layer from two."""
    scores = [r for r in measured() if (r["set"], r["model"]) == ("kin8nm", "dgp2")]
    gain, n = mean_gains("kin8nm").get("dgp2", (0.0, 0))
    spread = np.ptp([row["loglik"] for row in scores]) if scores else 0.0
    sizes = f"{gain:.1f} nats between the models, {spread:.2f} between the splits."
    return lesson.Question(
        f"Ours has {n} splits on kin8nm, the paper 20. Is our difference between one and two "
        "layers worth anything?",
        (
            (
                "Yes: every split shows it, and it is many times their spread.",
                True,
                f"{sizes} For small differences, such as two against three layers, a few splits "
                "say little.",
            ),
            (
                "No: so few are too few for anything.",
                False,
                f"It depends on the size of the difference. Here: {sizes}",
            ),
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
    number=8,
    title="Does depth help?",
    summary="Sometimes much, sometimes not at all. The second is good news too.",
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
            "diamond is the number in the paper, where we have it at hand. Our deep models were "
            f"trained for {recipe()} steps with 100 inducing points.",
            (SET,),
        ),
        lesson.Words(
            "**kin8nm** is a robot arm with eight joints. Each joint turns everything beyond it, "
            f"so the truth is a composition, and layers pay. {ours('kin8nm')} That is much: over "
            "the 820 held-out rows, a tenth of a nat per row is a factor of $e^{82}$ in how likely "
            "they are.\n\n"
            "**energy** asks how much heat a building needs, by eight numbers about its shape. "
            f"{ours('energy')} {whether('energy')}"
        ),
        lesson.Words("## The table"),
        lesson.Picture(
            show_table,
            "Ours beside the paper's. In brackets: the standard error of the mean over splits. A "
            "dash stands for a number that we do not have at hand, not for one that does not "
            "exist. Least squares (Linear) is the check on everything else: it has no luck in it, "
            "so it must agree to every printed digit.",
            on_paper=table,
        ),
        lesson.Words(
            "## Where it does not help, and why that is good news\n\n"
            "The authors name three sets on which depth makes no difference.\n\n"
            "**boston** is small: 455 rows to train on (and one of its columns is a discredited "
            f"racial measure: use it only to compare with published scores). {ours('boston')}\n\n"
            "**wine** is nearly linear, with much noise: there is little that a bend could add. "
            f"{ours('wine_red')}\n\n"
            "**naval** is so easy for a GP that there is nothing left to find. "
            f"{ours('naval')}\n\n"
            "A large model on little data usually *loses*: it learns the noise by heart. In the "
            "authors' tables a deep GP does not, although nobody holds it back. "
            f"{worst(('boston', 'wine_red', 'naval'))}\n\n"
            "What holds it back is the [KL](glossary#kl-divergence). A layer has to pay for every "
            "bend in it. Where bends do not raise the fit, they are not bought, and the layer "
            "stays at its [mean function](glossary#mean-function), which hands on what enters, as "
            "you saw on the line. Five layers then are one. So you may try depth without fear, "
            "and read off the layers whether it was used."
        ),
        lesson.Question(
            "On your data, three layers score the same as one. What do you conclude?",
            (
                (
                    "Training failed: three layers must be better.",
                    False,
                    "They can be better only if there is something in the data that one layer "
                    "cannot say. Look at the layers: if they are off, the model has chosen one.",
                ),
                (
                    "One layer is enough here. Keep it, or keep three without harm.",
                    True,
                    "That is the wine case. The simpler model is faster; the deeper one did not "
                    "overfit.",
                ),
                (
                    "The deep model overfits.",
                    False,
                    "Then its held-out score would be worse than that of one layer, not equal.",
                ),
            ),
        ),
        lesson.Question(
            "Why compare held-out log-likelihoods rather than bounds?",
            (
                (
                    "The bound is random and the score is not.",
                    False,
                    "Both are estimated from sample paths. That is not the reason.",
                ),
                (
                    "Bounds of different models lie below their evidences by different amounts.",
                    True,
                    "A deep model's bound may be far below its evidence, a single layer's close. "
                    "Held-out rows ask the question that you care about, and need no bound.",
                ),
                (
                    "The bound ignores the noise.",
                    False,
                    "The noise is in the likelihood, and so in the fit.",
                ),
            ),
        ),
        few_splits(),
    ),
)

lesson.show(LESSON)
