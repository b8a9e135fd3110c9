"""Lesson 7: the two randomnesses of training, and why they do no harm."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from datasets.starts import film
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.views.randomness import (
    BATCHES,
    SAMPLES,
    NoiseView,
    Spread,
    noise_view,
    row_alone,
)
from pages.figures.boards import Look
from pages.figures.by_hand import estimates_figure
from pages.figures.lesson_live import chosen
from pages.figures.randomness import alone_figure, bound_spread_figure
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.lessons.link import find
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

NUMBER = 7
ROWS = 100  # of the step data; a minibatch of as many is all of them
PEOPLE = 8  # who average estimates of the bound, each their own
ROUNDING = 1e-15  # below it, the digits of a difference mean nothing
S = lesson.Hand("spread_samples", SAMPLES[0], SAMPLES)
B = lesson.Hand("spread_rows", BATCHES[0], (*BATCHES[:2], ROWS))
ROW = lesson.Hand("alone_row", ROWS // 2, range(ROWS))

ink = page_ink()


def measured(name: str, label: str, waiting: str, measure: Callable[[Run, Snapshot], Any]):
    """What was measured of this run when the button was last pressed; None before that."""
    pressed = st.button(
        label, key=f"measure_{name}", icon=":material/science:", disabled=lesson.locked()
    )
    run_id = st.session_state.get("lesson_runs", {}).get((NUMBER, "noise"))
    run = find(run_id)
    if run is None:
        return None
    if pressed and run.latest is None:
        st.info("The run has not begun yet. Wait until it trains, and press again.")
    elif pressed and run.latest is not None:
        with st.spinner(waiting, show_time=True):
            st.session_state[f"measured_{name}"] = run_id, measure(run, run.latest)
    of, seen = st.session_state.get(f"measured_{name}", (None, None))
    return seen if of == run_id else None


def spread() -> None:
    """Estimates of the bound, redrawn one way and the other."""
    seen = measured(
        "spread",
        "Measure this moment",
        "Redrawing samples and rows. The first time, their code is compiled as well …",
        noise_view,
    )
    if seen is None:
        st.markdown("*Nothing measured yet: let the run train for a moment, then press.*")
        return
    left, right = st.columns(2, gap="medium")
    left.select_slider("Samples per row, S", S.offered, **lesson.hand(S))
    right.select_slider("Rows in a minibatch, B", B.offered, **lesson.hand(B))
    samples, rows = st.session_state[S.key], st.session_state[B.key]
    with left:
        figure = bound_spread_figure(seen, samples, rows, ink)
        alt = f"Estimates of the bound with {samples} samples per row and {rows} rows, three ways."
        stage.figure(figure, alt, "spread_picture")
    with right:
        values = seen.spreads[samples, rows].both.reshape(PEOPLE, -1)
        alt = "Running means of estimates, which come together at the bound."
        stage.figure(estimates_figure(values, seen.bound, ink), alt, "running_picture")
    spread = seen.spreads[samples, rows]
    st.markdown(
        f"At step {seen.step:,}: redrawing ε moves an estimate by **{spread.samples.std():,.1f} "
        f"nats**, redrawing the rows by **{spread.rows.std():,.1f} nats**. {unbiased(seen, spread)}"
    )


def unbiased(seen: NoiseView, spread: Spread) -> str:
    """The mean of the estimates beside the bound, and their distance in standard errors."""
    mean, error = float(spread.both.mean()), spread.standard_error
    apart = abs(mean - seen.bound) / float(np.hypot(error, seen.bound_error))
    sentence = (
        f"The mean of {len(spread.both)} estimates is {mean:,.1f} ± {error:,.1f}, the bound itself "
        f"{seen.bound:,.1f} ± {seen.bound_error:,.1f} (standard errors): **{apart:.1f}** standard "
        "errors apart."
    )
    return sentence.replace("-", "−")


def alone() -> None:
    """One row, asked by itself and among all others."""
    row = st.slider("Row", 0, ROWS - 1, **lesson.hand(ROW))
    answer = measured(
        "alone",
        "Ask this row",
        "Asking. The first time, the question is compiled …",
        partial(row_alone, row=row),
    )
    if answer is None:
        st.markdown("*Nobody has asked yet.*")
        return
    stage.figure(alone_figure(answer, ink), "A row alone and among all rows.", "alone_picture")
    least = answer.difference < ROUNDING
    apart = "less than 1e−15" if least else f"{answer.difference:.0e}".replace("-", "−")
    st.markdown(
        f"Row {answer.row}: the two answers differ by at most **{apart}** standard deviations. "
        "That is rounding."
    )


ELEMENTS = ("deep", "bound", "bound_words", "legend")
LESSON = lesson.Lesson(
    number=NUMBER,
    title="Doubly stochastic",
    summary="Two dice are thrown at every step. Neither is loaded.",
    minutes=20,
    parts=(
        lesson.Words(
            "Training climbs the [bound](glossary#bound). Its larger part, the "
            "[fit](glossary#fit), asks of every row: averaged over all that the layers might do, "
            "how likely is what we saw? That is a sum over $N$ rows, and inside it an average over "
            "endlessly many [sample paths](glossary#sample-path).\n\n"
            "Nobody computes either. At each step we throw two dice. One picks a "
            "[minibatch](glossary#minibatch) of rows. The other picks, for each of these rows, one "
            "path through the layers. The step follows what these few say. Below, a model is "
            "trained that way; its bound trembles, since each step sees only an estimate of it."
        ),
        lesson.Live(
            name="noise",
            choices=Choices(batch=ROWS),
            paint=partial(chosen, look=Look(ink), names=ELEMENTS),
            style=(ink,),
            hosts=(
                (("deep", 285, "The deep model"), ("bound", 285, "Estimates of the bound")),
                (("legend", 0, ""),),
            ),
            says="First: the deep model's prediction as it trains. Second: the bound as each step "
            "estimated it, means of neighbouring steps; below it what the KL takes off.",
            controls=("batch", "samples"),
            offers={"batch": (10, 32, ROWS), "samples": (1, 10)},
            film=tuple(film("step")),
        ),
        lesson.Try(
            "Let it reach step 1,000. Then set **Minibatch** to 10 of the 100 rows, and let it run "
            "to step 1,000 again.",
            "The curve of the bound becomes many times rougher: ten rows stand for a hundred, so "
            "each estimate is off by tens of nats. Yet the model climbs, because the errors point "
            "in no direction on average.",
        ),
        lesson.Words("## The first die: a path through the layers"),
        lesson.Equation(
            r"\hat f_i^{\,l} = \mu^l(\hat f_i^{\,l-1}) + \varepsilon_i^l \odot "
            r"\sqrt{\Sigma^l(\hat f_i^{\,l-1}, \hat f_i^{\,l-1})}, \qquad "
            r"\varepsilon_i^l \sim \mathcal{N}(0, I), \quad \hat f_i^{\,0} = x_i",
            "A sample path: each layer gives a mean and a variance for what enters, and ε says "
            "where in between we land. Since ε is drawn apart from the parameters, the gradient "
            "passes through the path: the reparameterisation trick.",
            "15",
        ),
        lesson.Words("## The second die: which rows"),
        lesson.Equation(
            r"\mathcal{L} \approx \frac{N}{B} \sum_{i \in \text{batch}} \frac{1}{S} \sum_{s=1}^{S} "
            r"\mathbb{E}\big[\log p(y_i \mid f_i^L)\big]_{\text{path } s} \;-\; \sum_{l=1}^{L} "
            r"\mathrm{KL}\big[q(U^l) \,\|\, p(U^l)\big]",
            "What a step computes. $N/B$ makes up for the rows left out. In the last layer no die "
            "is needed: there the average over $f^L$ is known in closed form, or a small integral. "
            "The bound itself, which this estimates, is the paper's equation 17.",
        ),
        lesson.Words(
            "## Unbiased, and how noisy\n\n"
            "*Unbiased* means: averaged over all throws of both dice, the estimate is exactly the "
            "bound. One estimate may be far off; the mean of many is near, within a few of its "
            "standard errors. You need not believe it. Measure it, with the parameters held as "
            "they are now."
        ),
        lesson.Picture(
            spread,
            "First: 400 estimates each, with ε redrawn, the rows redrawn, or both; the dashed line "
            "is the bound from all rows and 60 samples per row. Second: eight people average their "
            "own estimates, and come together at the bound.",
            (S, B),
            shares=("measured_spread",),
        ),
        lesson.Try(
            "Measure. With B = 8, slide S from 1 to 20. Then set S back to 1 and slide B to all "
            "100 rows.",
            "More samples hardly narrow the cloud in which both are redrawn: the rows make nearly "
            "all of its width. More rows do narrow it, and with all rows only the small trembling "
            "of ε is left. If there is time for twenty times the work, spend it on rows.",
        ),
        lesson.Words(
            "## Why one sample per row is enough\n\n"
            "A GP ties all its values together, so one would expect to need a *joint* draw of all "
            "rows, with a covariance of $N \\times N$. Here is the remark that saves us. Given "
            "the [inducing points](glossary#inducing-points), each layer's mean and variance at a "
            "row depend on that row's own input alone. What enters layer 2 at row $i$ is made from "
            "row $i$. So the [marginal](glossary#marginal) of $f_i^L$, all that the fit asks for, "
            "depends on $x_i$ and on no other row."
        ),
        lesson.Equation(
            r"q(f_i^L) = \int \prod_{l=1}^{L} q\big(f_i^l \mid m^l, S^l;\; f_i^{l-1}, Z^{l-1}\big) "
            r"\; df_i^1 \cdots df_i^{L-1}",
            "Only row $i$ appears. Each row throws its own ε, and a hundred rows with one path "
            "each are a hundred independent throws: their errors average out over the rows. (As "
            "printed, the paper's product stops at $L - 1$; the last layer's factor belongs to "
            "it.)",
            "14",
        ),
        lesson.Picture(
            alone,
            "Circles: eight sampled marginals of one row in each layer, with no other row there. "
            "Crosses: the same row with the same ε, among all rows.",
            (ROW,),
            shares=("measured_alone",),
        ),
        lesson.Try(
            "Ask any row. Then take another one, and ask again.",
            "Every cross lies in its circle. The largest difference is below 0.000001 standard "
            "deviations, whichever row you take: the other rows might as well not be there.",
        ),
        lesson.question(
            "The minibatch has 10 of 1,000 rows. Somebody forgets the factor $N/B$. What happens?",
            lesson.wrong(
                "Nothing, since the estimate is unbiased anyway.",
                "It is unbiased only with the factor. Without it, the fit counts a hundred times "
                "too little.",
            ),
            lesson.right(
                "The KL wins: the model stays close to its prior and calls the data noise.",
                "The KL is for the whole data set, the fit now for ten rows. A hundredfold price "
                "on learning keeps q(u) at the prior.",
            ),
            lesson.wrong(
                "Training only becomes slower.",
                "It would converge, but to something else: another weight between fit and KL is "
                "another optimum.",
            ),
        ),
        lesson.question(
            "Why may every row use its own ε, drawn apart from those of its neighbours?",
            lesson.right(
                "Because the fit asks only for marginals, one row at a time.",
                "And a row's marginal depends on its own input alone. To draw a whole function, "
                "as the thin lines of our pictures do, the values must be drawn together.",
            ),
            lesson.wrong(
                "Because neighbouring rows are independent under the model.",
                "They are not: that is the point of a GP. But the fit is a sum over rows, and a "
                "sum of averages does not ask how its terms go together.",
            ),
            lesson.wrong(
                "It may not; it is an approximation that works well.",
                "It is exact, as you measured: alone or among all others, the same marginals.",
            ),
        ),
        lesson.question(
            "With all rows in each step and S = 1, is training still stochastic?",
            lesson.right(
                "Yes: one die is left, the sample paths.",
                "That is why the bound trembles even with all 100 rows. With one layer there is "
                "no path to sample, and both dice are gone.",
            ),
            lesson.wrong(
                "No: all rows give the exact bound.",
                "The sum over rows is exact then, but inside it one path still stands for the "
                "average over all of them.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON)
