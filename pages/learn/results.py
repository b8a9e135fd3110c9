"""Lesson 13: pictures, collisions and rides: what depth bought, in the paper and here."""

import streamlit as st

from datasets.measured import pictures as measured
from datasets.printed import ERRATA, SYSTEMS, Score, printed, size
from pages.figures.scale import markdown_table, systems_figure
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

TITLES: dict[Score, str] = {
    "accuracy": "test accuracy (%)",
    "auc": "area under the ROC curve (AUC)",
    "rmse": "test RMSE, less is better",
}
SETS: dict[str, tuple[str, Score]] = {
    "mnist": ("MNIST", "accuracy"),
    "rectangles_images": ("Rectangles", "accuracy"),
    "rectangles": ("Rectangles drawn here", "accuracy"),
    "higgs": ("HIGGS", "auc"),
    "susy": ("SUSY", "auc"),
    "year": ("Year", "rmse"),
    "airline": ("Airline", "rmse"),
    "taxi": ("Taxi", "rmse"),
}
"""By their names in the collection: words, and the score that the paper prints."""
PAPER_VISITS = 100_000 * 10_000
"""Steps and rows a step of the paper's training on MNIST."""
DEEPEST = ("dgp5", "dgp4", "dgp3", "dgp2")
SET = lesson.Hand("results_set", "mnist", tuple(SETS))

ink = page_ink()


def ours(name: str) -> dict[str, float]:
    """Test accuracy of our models on a set, in per cent; of one fitted again, the last counts."""
    return {row["model"]: 100 * row["accuracy"] for row in measured() if row["set"] == name}


def pictures() -> None:
    """Every system's score on the chosen set."""
    name = st.segmented_control(
        "Data set",
        list(SETS),
        **lesson.hand(SET, "default"),
        format_func=lambda name: SETS[name][0],
        required=True,
        width="content",
    )
    title, score = SETS[name]  # pyright: ignore[reportArgumentType]
    figure = systems_figure(
        printed(name, score), ours(name), TITLES[score], ink, least=score == "rmse"
    )
    stage.figure(figure, f"{title}: {TITLES[score]} of every system.", "results_picture")
    st.markdown(about(name))


def about(name: str) -> str:
    """Sizes, slips, and how ours were trained."""
    rows = [row for row in measured() if row["set"] == name]
    words = []
    if name in ERRATA:
        words.append(f"(An erratum: {ERRATA[name]})")
    if printed(name, SETS[name][1]):
        n, d = size(name)
        words.insert(0, f"{n:,} rows, {d} inputs.")
    if rows:
        steps = ", ".join(
            f"{SYSTEMS[row['model']]} {100 * row['accuracy']:.2f} % after {row['steps']:,} steps "
            f"of {row['minibatch']:,} rows ({row['seconds']} s)"
            for row in rows
        )
        words.append(f"Ours: {steps}.")
    else:
        words.append("We did not run it: all numbers are printed.")
    return " ".join(words)


def gain(name: str) -> tuple[float, float]:
    """What the paper's deepest model gains on SGP and on SGP 500; less error is a gain."""
    _, score = SETS[name]
    found = {system: value.value for system, value in printed(name, score).items()}
    deepest = next(found[system] for system in DEEPEST if system in found)
    sign = -1.0 if score == "rmse" else 1.0
    return sign * (deepest - found["sgp"]), sign * (deepest - found["sgp500"])


def bought() -> str:
    """What depth bought in the paper, set by set, in Markdown."""
    lines = [["Data", "Score", "SGP", "SGP 500", "Deepest DGP", "Gain on SGP", "on SGP 500"]]
    for name, (title, score) in SETS.items():
        found = printed(name, score)
        if found:
            deepest = next(system for system in DEEPEST if system in found)
            cells = [f"{found[system].value:g}" for system in ("sgp", "sgp500", deepest)]
            gains = [f"{value:+.3g}".replace("-", "−") for value in gain(name)]
            words = {"accuracy": "accuracy, %", "auc": "AUC", "rmse": "RMSE"}[score]
            lines.append([title, words, *cells, *gains])
    return markdown_table(lines)


def show_bought() -> None:
    st.markdown(bought())


def mnist_words() -> str:
    """Ours on MNIST, in a sentence."""
    own = ours("mnist")
    if not {"sgp", "dgp2"} <= own.keys():
        return "We have not measured it here."
    visits = max(r["steps"] * r["minibatch"] for r in measured() if r["set"] == "mnist")
    return (
        f"Ours, trained for one {PAPER_VISITS // visits}th of the paper's row visits: "
        f"{own['sgp']:.2f} % with one layer, {own['dgp2']:.2f} % with two. Such a difference says "
        "nothing of depth: a tenth of a per cent is ten digits of 10,000."
    )


LESSON = lesson.Lesson(
    number=13,
    title="Results: what depth bought",
    summary="Digits, rectangles, collisions and rides; where layers paid, and where a network won.",
    minutes=15,
    parts=(
        lesson.Words(
            "Lesson 9 looked at eight small tables. The paper goes on to pictures, to collisions "
            "of particles and to very many rows, with the same recipe for all. Here is every "
            "number that it prints of them, beside other people's methods, and ours where we have "
            "measured."
        ),
        lesson.Picture(
            pictures,
            "Every system, the best on top. Diamonds are printed in the paper, dots were measured "
            "here. BDT is boosted trees, NN and DNN a shallow and a deep network, DBN-3 a deep "
            "belief network, SVM a support vector machine.",
            (SET,),
            on_paper=lambda: "\n\n".join(f"**{SETS[n][0]}.** {about(n)}" for n in SETS),
        ),
        lesson.Try(
            "Look at **MNIST**, then at **Rectangles**.",
            "On MNIST one layer has 97.48 % of the test digits right, two have 98.06 % and three "
            f"98.11 %. {mnist_words()} The rectangles (is it taller or wider, on a photograph?) "
            "were made to tell deep from shallow: 76.1 % with one layer, 77.9 % with four, and "
            "500 inducing points help one layer less than a second layer does.",
        ),
        lesson.Words(
            "**Rectangles drawn here** are a task of the same kind, made by a program, with clouds "
            "instead of photographs. It is easier, and there two layers had nothing to add: "
            "compare them only with each other."
        ),
        lesson.Equation(
            r"\mathrm{AUC} = P\big(p_{\text{signal}} > p_{\text{background}}\big)",
            "For two classes, the paper takes the [AUC](glossary#auc) on HIGGS and SUSY: draw one "
            "row of each class; how often has the right one the higher probability? A coin has "
            "0.5.",
        ),
        lesson.Try(
            "Look at **HIGGS**. Which system wins, and how far behind are the deep GPs?",
            "A deep network of five layers, with an AUC of 0.885. DGP 5 has 0.846, ahead of "
            "boosted trees (0.810) and a shallow network (0.816). Every layer helped: 0.785, "
            "0.830, 0.837, 0.841, 0.846.",
        ),
        lesson.Try(
            "Now look at **SUSY**.",
            "All deep GPs have 0.877, one layer 0.875, the deep network 0.876. Depth bought two "
            "thousandths, all of it with the second layer. The classes overlap, so nobody can do "
            "much better.",
        ),
        lesson.Words("## What depth bought"),
        lesson.Picture(
            show_bought,
            "The paper's figures. A gain is a higher accuracy or AUC, or a lower RMSE. (The paper "
            "gives no standard errors for these sets.)",
            on_paper=bought,
        ),
        lesson.Words(
            "Depth never lost on these sets, and on each of them the deepest model beats one layer "
            "of 500 inducing points. How much it gains differs a great deal: a fifth of the error "
            "on the taxi rides, next to nothing on SUSY. And on HIGGS a deep network, built and "
            "tuned for these data, stays ahead."
        ),
        lesson.question(
            "On HIGGS a deep network has an AUC of 0.885 and DGP 5 one of 0.846. What follows?",
            lesson.wrong(
                "Deep GPs cannot learn such data.",
                "They gain with every layer, and were stopped at five, with 100 inducing points "
                "each and no tuning. What they cannot do is not shown.",
            ),
            lesson.right(
                "Here a tuned network ranks better; the paper did not try to win by tuning.",
                "One recipe for all sets was the point. If you only need the ranking and have "
                "eleven million rows, the network is the better tool; say so.",
            ),
            lesson.wrong(
                "The network's probabilities are better too.",
                "The AUC asks only for the order of the rows. Whether the probabilities come true "
                "is [calibration](glossary#calibration), which it does not see.",
            ),
        ),
        lesson.question(
            "On SUSY, 0.877 against 0.875 on about half a million test rows: can that be chance?",
            lesson.wrong(
                "Yes: two thousandths are nothing.",
                "Small is not the same as chance. With so many rows, an AUC near 0.877 has a "
                "standard error of about 0.0005.",
            ),
            lesson.right(
                "Hardly: it is about four standard errors. It is real, and it is tiny.",
                "And both were scored on the same rows, which makes it surer still. Whether two "
                "thousandths are worth a second layer is for you to say.",
            ),
        ),
        lesson.question(
            "On the rectangles, 500 inducing points lift one layer from 76.1 to 76.4 %, a second "
            "layer to 77.3 %. Why?",
            lesson.wrong(
                "500 are still too few for 784 inputs.",
                "More would bring the sparse GP nearer to the exact one; but the exact one has "
                "the same prior.",
            ),
            lesson.right(
                "More points mend the approximation; a layer changes the prior.",
                "As in lesson 3: what is missing is not exactness but a belief in which the "
                "relation of pixels matters, not their values.",
            ),
            lesson.wrong(
                "A second layer has more parameters.",
                "So has a layer with 500 inducing points. Where they are spent is what counts.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON)
