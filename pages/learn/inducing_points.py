"""Lesson 2: the sparse GP, whose memory is a handful of inducing points."""

from functools import partial

import numpy as np
import streamlit as st

from datasets import catalogue
from datasets.starts import film
from dgp_core.gp.data import counted
from dgp_core.live.views.by_hand import (
    MOST_INDUCING,
    Placement,
    Settings,
    exact_by_hand,
    place_inducing,
    sparse_by_hand,
)
from pages.figures.by_hand import sparse_figure, tightening_figure
from pages.figures.lesson_live import live
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

KERNEL = Settings(deviation=45.0, lengthscale=5.0, noise=23.0)  # near the largest evidence
PLACEMENTS: dict[Placement, str] = {
    "evenly": "Evenly",
    "random": "At random",
    "crowded": "All on the left",
}
COUNT = lesson.Hand("sparse_m", 5, range(1, MOST_INDUCING + 1))
PLACE = lesson.Hand("sparse_placement", "evenly", tuple(PLACEMENTS))

ink = page_ink()


def crash() -> tuple[np.ndarray, np.ndarray, tuple[str, str]]:
    """The motorcycle data about their mean, and the names of their columns."""
    data = catalogue.load("motorcycle")
    y = data.Y[:, 0] - data.Y[:, 0].mean()
    return data.X[:, 0], y, ("milliseconds after impact", "acceleration (g), less its mean")


@st.cache_data(show_spinner=False)
def exact():
    x, y, _ = crash()
    return exact_by_hand(x, y, KERNEL)


@st.cache_data(show_spinner=False)
def sparse(placement: Placement):
    """The sparse GP with 1, 2, … inducing points."""
    x, y, _ = crash()
    return [
        sparse_by_hand(x, y, place_inducing(x, M, placement), KERNEL, exact().x)
        for M in range(1, MOST_INDUCING + 1)
    ]


def by_hand() -> None:
    """The sparse GP over the exact one, and its bound below the evidence."""
    left, right = st.columns(2, gap="medium")
    M = left.slider(
        "Inducing points M",
        1,
        MOST_INDUCING,
        **lesson.hand(COUNT),
        help="How many values u = f(Z) the model may remember.",
    )
    placement = right.segmented_control(
        "Where Z lies",
        list(PLACEMENTS),
        **lesson.hand(PLACE, "default"),
        format_func=PLACEMENTS.__getitem__,
        required=True,
    )
    x, y, names = crash()
    models = sparse(placement)  # pyright: ignore[reportArgumentType]
    chosen, bounds = models[M - 1], np.array([model.bound for model in models])
    wide, narrow = st.columns([3, 2], gap="medium")
    with wide:
        alt = f"The sparse GP of {M} inducing points over the exact GP, with the data."
        stage.figure(sparse_figure(x, y, names, exact(), chosen, ink), alt, "sparse_picture")
    with narrow:
        alt = "The bound by the number of inducing points, below the exact evidence."
        figure = tightening_figure(bounds, exact().evidence, M, ink)
        stage.figure(figure, alt, "tightening_picture")
    gap = exact().evidence - chosen.bound
    st.markdown(
        f"With {counted(M, 'inducing point')}, the bound lies **{gap:,.2f} nats** below "
        "the exact evidence."
    )


LESSON = lesson.Lesson(
    number=2,
    title="Sparse: inducing points",
    summary="Remember a function by a few of its values, and know what that costs.",
    minutes=20,
    parts=(
        lesson.Words(
            "An exact GP remembers every row it has seen. That is its strength and its price: "
            "$N$ rows cost $N^3$ operations. But look at a smooth curve. A few of its values tell "
            "you nearly all of it; you can fill in the rest by eye. A sparse GP does just that. It "
            "keeps $M$ values $u = f(Z)$ at $M$ [inducing inputs](glossary#inducing-points) $Z$, "
            "and fills in the rest with the kernel.\n\n"
            "Below are 133 measurements of a rider's head in a simulated motorcycle crash: its "
            "acceleration, in g, over the milliseconds after impact. The dashed lines are the "
            "exact GP. The blue one remembers only the triangles."
        ),
        lesson.Picture(
            by_hand,
            "First: data, the exact GP's ± 2 standard deviations (dashed), the sparse GP's mean "
            "and ± 2 standard deviations (blue). Each triangle is an inducing input z with its "
            "bar, the mean of q(u) ± 2 standard deviations. Second: the bound as M grows, below "
            "the exact evidence; what lies far below is cut off.",
            (COUNT, PLACE),
        ),
        lesson.Try(
            "With **Evenly**, slide M slowly from 5 to 20, and read the line below the pictures.",
            "At 5 the bound is more than 100 nats below the evidence, and the blue curve cuts "
            "corners. At 10 less than 3 nats are missing, at 20 less than 0.05, and the blue shade "
            "fills the dashed lines. 133 rows are remembered by 20 values, at no loss you could "
            "measure.",
        ),
        lesson.Words(
            "## What q(u) is\n\n"
            "The model does not know the values u exactly. It holds a belief about them, a "
            "Gaussian [q(u)](glossary#q-u) with a mean $\\mathbf{m}$ and a covariance "
            "$\\mathbf{S}$. These are free numbers, learned like weights. The bars in the picture "
            "are their marginals. Between the inducing inputs the prior does the work: *given* u, "
            "it knows how f goes on."
        ),
        lesson.Equation(
            r"\begin{split} q(f, u) &= p(f \mid u)\; q(u) \\ "
            r"q(u) &= \mathcal{N}(u \mid \mathbf{m}, \mathbf{S}) \end{split}",
            "The approximation keeps the prior's conditional and replaces only the belief about u.",
            "5",
        ),
        lesson.Equation(
            r"\begin{split} \tilde\mu(x) &= m(x) + \alpha(x)^\top (\mathbf{m} - m(Z)), \\ "
            r"\tilde\Sigma(x, x') &= k(x, x') - \alpha(x)^\top "
            r"\big(k(Z, Z) - \mathbf{S}\big)\, \alpha(x'), \\ "
            r"\alpha(x) &= k(Z, Z)^{-1} k(Z, x) \end{split}",
            "What this says of f anywhere. The prior's variance, less what knowing u would remove, "
            "plus what is still uncertain about u. Only an M × M matrix is inverted. (Here $m(x)$ "
            "is the mean function, and $\\mathbf{m}$ the mean of q(u).)",
            "7, 8",
        ),
        lesson.Words(
            "## The bound\n\n"
            "How good is such a summary? We would like the "
            "[evidence](glossary#evidence), but it needs the big matrix. There is something "
            "cheaper that never lies above it: the "
            "[evidence lower bound](glossary#elbo), or simply *the bound*. It goes up when q(u) "
            "explains the data, and down when q(u) strays from the prior. With kernel and noise as "
            "they are, whatever raises it brings the sparse GP nearer to the exact one; the gap is "
            "exactly the [KL divergence](glossary#kl-divergence) between the two posteriors. To "
            "raise it is called variational inference.\n\n"
            "One trick of the trade: with the Cholesky factor $k(Z, Z) = R R^\\top$, the model "
            "learns $v$ instead of $u = R v$. This is called whitening. Its prior is N(0, I), "
            "wherever Z goes, and optimisation is better conditioned."
        ),
        lesson.Equation(
            r"\begin{split} \mathcal{L} &= \sum_{i=1}^N \mathbb{E}_{q(f_i)}"
            r"\big[\log p(y_i \mid f_i)\big] - \mathrm{KL}\big[q(u)\,\|\,p(u)\big] \\ "
            r"&\le\; \log p(y) \end{split}",
            "A sum over rows: this is what later allows minibatches. Lesson 5 takes it apart.",
            "10",
        ),
        lesson.Try(
            "Set M to 12 and go through the three placements of Z.",
            "Evenly, less than 1 nat is missing; at random, more than 10, since chance leaves "
            "holes. All on the left, more than 100 nats are missing: right of the last triangle "
            "the model is back at its prior, however many points it has elsewhere.",
        ),
        lesson.Words(
            "## Let it learn\n\n"
            "Nobody wants to place Z by hand. In the model below, Z, q(u), the kernel and the "
            "noise all climb the bound together, by gradients. The triangles on the axis are its "
            "inducing inputs. You can also take one and drag it."
        ),
        lesson.Live(
            name="drag",
            choices=Choices(data="motorcycle", layers=1, inducing=10),
            paint=partial(live, ink=ink),
            style=(ink,),
            hosts=(
                (("state", 0, ""),),
                (("deep", 285, "A sparse GP that learns"), ("bound", 285, "Its bound")),
                (("bound_words", 0, ""),),
            ),
            says="Shade: where new points are expected. Triangles: inducing inputs; drag one. "
            "Numbers are in standard units, so they differ from those above.",
            controls=("inducing",),
            film=tuple(film("motorcycle_1")),
        ),
        lesson.Try(
            "Let it train to about step 500 and press **Pause**. Drag one of the triangles near "
            "the steep fall, at 15 to 20 ms, to the far right. Then press **Play**.",
            "The bound falls at once by more than 100 nats, although nothing else has changed: the "
            "values u that were learned for one place now stand at another. Within 200 steps "
            "most of the fall is won back.",
        ),
        lesson.question(
            "Why can a bound with 30 inducing points still be far below the evidence?",
            lesson.wrong(
                "Because 30 is too few for 133 rows.",
                "With Z spread evenly, 12 are enough here. How many are needed depends on how "
                "wiggly the function is, not on how many rows there are.",
            ),
            lesson.right(
                "Because they may all lie where they are not needed.",
                "Inducing points know only what is within a lengthscale or two of them. Thirty on "
                "the left say nothing about the right.",
            ),
            lesson.wrong(
                "Because more parameters overfit.",
                "Z and q(u) are parameters of the *approximation*, not of the model. More of them "
                "bring it nearer to the exact posterior, never past it.",
            ),
        ),
        lesson.question(
            "You halve the lengthscale of the data: everything varies twice as fast. How many "
            "inducing points do you need now?",
            lesson.right(
                "About twice as many.",
                "What counts is how many lengthscales the data span. On one input it doubles; on "
                "D inputs it grows like 2 to the power D, which is why inputs with many "
                "dimensions are hard.",
            ),
            lesson.wrong(
                "As many as before, placed better.",
                "Better placement helps only until every stretch of the input has a neighbour.",
            ),
            lesson.wrong(
                "Four times as many.",
                "That would be so on two inputs. On one, it doubles.",
            ),
        ),
        lesson.question(
            "What happens to q(u) at an inducing point where there are no data at all?",
            lesson.wrong(
                "Its bar shrinks to nothing, as it has nothing to do.",
                "A bar of no width would claim that the value is known exactly. That is the "
                "strongest claim of all.",
            ),
            lesson.right(
                "It goes back to the prior p(u).",
                "The fit does not depend on it there, so only the KL pulls, and it pulls towards "
                "the prior: mean zero, full width.",
            ),
            lesson.wrong(
                "It copies its neighbour.",
                "Within a lengthscale it will lean towards its neighbour, by the kernel. Farther "
                "away it knows nothing, and says so.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON)
