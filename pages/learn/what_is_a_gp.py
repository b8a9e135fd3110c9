"""Lesson 1: a Gaussian process, drawn by hand."""

from contextlib import suppress

import streamlit as st

from dgp_core.gp.data import counted
from dgp_core.live.views.by_hand import GRID, KernelName, gp_by_hand
from pages.figures.by_hand import gp_figure, kernel_figure
from pages.ui.choices import read_points
from pages.ui.lessons import lesson
from pages.ui.session import clicks_taken
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

KERNELS: dict[KernelName, str] = {
    "rbf": "RBF",
    "matern32": "Matérn 3/2",
    "matern12": "Matérn 1/2",
}
LENGTHSCALES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
NOISES = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
EXAMPLE = ((-2.0, -1.0), (-0.5, 0.8), (1.5, 0.3))
MOST_POINTS = 40
HIGHEST = 3.2


def link_points(words: str) -> tuple:
    """The points of a link; a ValueError where they are none."""
    points = tuple(read_points(words))
    if len(points) > MOST_POINTS:
        raise ValueError(f"{MOST_POINTS} points are the most.")
    return tuple(inside(x, y) for x, y in points)


def inside(x: float, y: float) -> tuple[float, float]:
    """The nearest place in the picture."""
    x = min(max(x, float(GRID[0])), float(GRID[-1]))
    return x, min(max(y, -HIGHEST), HIGHEST)


KERNEL = lesson.Hand("gp_kernel", "rbf", tuple(KERNELS))
LENGTHSCALE = lesson.Hand("gp_lengthscale", 1.0, LENGTHSCALES)
NOISE = lesson.Hand("gp_noise", 0.1, NOISES)
POINTS = lesson.Hand("gp_points", (), read=link_points)
SEED = lesson.Hand("gp_seed", 0, range(1000))

ink = page_ink()
memory = st.session_state
memory.setdefault("gp_points", ())
memory.setdefault("gp_seed", 0)


def put(x: float, y: float, near_x: float = 0.0, near_y: float = 0.0) -> None:
    """Puts down a point, or takes away the one that was clicked."""
    rest = tuple(p for p in memory.gp_points if abs(p[0] - x) > near_x or abs(p[1] - y) > near_y)
    memory.gp_full = len(rest) == len(memory.gp_points) == MOST_POINTS
    if len(rest) == len(memory.gp_points) and not memory.gp_full:
        rest = (*rest, inside(x, y))
    memory.gp_points = rest


def clicked(where: dict) -> None:
    """A click in the picture came back from the browser."""
    with suppress(KeyError, TypeError, ValueError):
        put(*(float(where[name]) for name in ("x", "y", "near_x", "near_y")))


def set_points(points: tuple) -> None:
    memory.gp_points, memory.gp_full = points, False


def put_typed() -> None:
    put(memory.gp_x, memory.gp_y)


def gp() -> None:
    """The prior, and what is left of it once points are seen."""
    left, middle, right = st.columns([2, 1, 1], gap="medium")
    kernel = left.segmented_control(
        "Kernel",
        list(KERNELS),
        **lesson.hand(KERNEL, "default"),
        format_func=KERNELS.__getitem__,
        required=True,
        help="What functions are believed in before any point is seen: very smooth ones (RBF), "
        "some that bend more abruptly (Matérn 3/2), or rough ones (Matérn 1/2).",
    )
    lengthscale = middle.select_slider(
        "Lengthscale ℓ",
        LENGTHSCALES,
        **lesson.hand(LENGTHSCALE),
        help="How far one must go in x before f has become another value.",
    )
    noise = right.select_slider(
        "Noise σ",
        NOISES,
        **lesson.hand(NOISE),
        help="How far a point may lie from the function: the standard deviation of what is "
        "measured.",
    )
    points = memory.gp_points
    seen = gp_by_hand(kernel, lengthscale, noise, points, memory.gp_seed)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        lesson.button("Draw others", "casino", lesson.redraw, SEED, key="gp_redraw")
        lesson.button("Three points", "scatter_plot", set_points, EXAMPLE, key="gp_example")
        lesson.button("Clear", "delete", set_points, (), key="gp_clear", disabled=not points)
        with st.popover("Type coordinates", icon=":material/keyboard:"):
            st.number_input("x", float(GRID[0]), float(GRID[-1]), 0.0, 0.1, key="gp_x")
            st.number_input("y", -3.0, 3.0, 1.0, 0.1, key="gp_y")
            st.button(
                "Add a point there", on_click=put_typed, key="gp_put", disabled=lesson.locked()
            )
    wide, narrow = st.columns([5, 2], gap="medium")
    with wide:
        alt = (
            f"Six functions drawn from a GP that has seen {counted(len(points), 'point')}, their "
            "mean and ± 2 standard deviations."
        )
        stage.figure(gp_figure(seen, points, ink), alt, "gp_picture", clicks_taken())
    with narrow:
        alt = "The correlation of f at two inputs, by their distance."
        figure = kernel_figure(kernel, lengthscale, ink)  # pyright: ignore[reportArgumentType]
        stage.figure(figure, alt, "kernel_picture")
    if points:
        evidence = f"{seen.evidence:,.1f}".replace("-", "−")
        st.markdown(
            f"{counted(len(points), 'point')} seen. Log evidence $\\log p(y)$ = **{evidence}** "
            "nats."
        )
        if memory.get("gp_full"):
            st.markdown(f"{MOST_POINTS} points are the most. Click one to take it away.")
    else:
        st.markdown("No point seen yet: this is the prior. **Click in the picture to put one.**")


LESSON = lesson.Lesson(
    number=1,
    title="What is a Gaussian process?",
    summary="Believe in functions, see a few points, and keep the functions that fit.",
    minutes=15,
    parts=(
        lesson.Words(
            "Most models begin with a formula: a line, a polynomial, a network. A "
            "[Gaussian process](glossary#gaussian-process) begins with a *belief about functions*: "
            "how smooth they are, how fast they vary, how far they go. Before you see any data, "
            "you can draw functions from that belief. The thin lines below are six such draws. "
            "The shade is where f lies with probability 95 % (± 2 standard deviations) at "
            "each x."
        ),
        lesson.Picture(
            gp,
            "First: functions drawn from the GP (thin), their mean (thick) and ± 2 standard "
            "deviations (shade). Click to put a point; click a point to take it away. Second: how "
            "alike f is at two inputs, by their distance. That curve is the kernel.",
            (KERNEL, LENGTHSCALE, NOISE, POINTS, SEED),
        ),
        lesson.Words(
            "## From prior to posterior\n\n"
            "Now click in the picture. Of all the functions that the "
            "[prior](glossary#prior) believed in, only those that pass near your point remain. "
            "Nothing is fitted in the usual sense: no weights move. Functions that disagree with "
            "the data are dropped, and what is left is the [posterior](glossary#posterior). Far "
            "from every point it still looks like the prior, and says so by its wide shade. "
            "This honesty is why people use GPs."
        ),
        lesson.Try(
            "Press **Clear**, then put one point in the middle, at x = 0. Leave ℓ at 1 and σ at "
            "0.1.",
            "All six functions now pass within the noise of your point, and the shade there "
            "shrinks to about a tenth of what it was. Two lengthscales away, at x = ± 2, it is "
            "still within 1 % of its old width: one point teaches nothing there.",
        ),
        lesson.Words(
            "## The kernel is the belief\n\n"
            "Take any finite set of inputs. A Gaussian process says that the values of f there "
            "are jointly Gaussian. All that remains to be said is how they vary together, and the "
            "[kernel](glossary#kernel) says it: $k(x, x')$ is the covariance of $f(x)$ and "
            "$f(x')$. Near inputs have similar values; distant ones know nothing of each other. "
            "“Near” is measured in [lengthscales](glossary#lengthscale)."
        ),
        lesson.Equation(
            r"\begin{bmatrix} f(x) \\ f(x') \end{bmatrix} \sim "
            r"\mathcal{N}\!\left( \begin{bmatrix} m(x) \\ m(x') \end{bmatrix}, "
            r"\begin{bmatrix} k(x,x) & k(x,x') \\ k(x',x) & k(x',x') \end{bmatrix} \right)",
            "$f \\sim \\mathcal{GP}(m, k)$: any two values of f are jointly Gaussian, and so are "
            "any two thousand. Here the mean function m is zero.",
        ),
        lesson.Equation(
            r"k(x, x') = \exp\!\left( -\frac{(x - x')^2}{2 \ell^2} \right)",
            "The RBF kernel, with variance 1: very smooth functions. Those of Matérn 3/2 have a "
            "slope everywhere, but their bends are rough; those of Matérn 1/2 have no slope at "
            "all, and are as rough as a random walk.",
        ),
        lesson.Try(
            "Press **Clear** and shorten the lengthscale from 1 to 0.3. Count how often one "
            "function crosses zero, and press **Draw others** a few times.",
            "With the RBF kernel a draw crosses zero 1/(πℓ) times for each unit of x, on average. "
            "From −3 to 3 that is about 2 crossings at ℓ = 1, and about 6 at ℓ = 0.3.",
        ),
        lesson.Try(
            "Choose the kernel **Matérn 1/2** at ℓ = 1, and compare with **RBF**.",
            "The shade does not change at all, because both have variance 1 everywhere. The "
            "functions do: seen on this grid, a Matérn 1/2 draw travels more than five times as "
            "far up and down as an RBF draw.",
        ),
        lesson.Words(
            "## Seeing data\n\n"
            "Because everything is Gaussian, the posterior has a closed form. Write $K$ for the "
            "kernel's matrix at the inputs that you have seen, and $\\sigma^2$ for the variance "
            "of the noise."
        ),
        lesson.Equation(
            r"\begin{split} \mathbb{E}[f(x_*) \mid y] &= k(x_*, X)\,(K + \sigma^2 I)^{-1} y \\ "
            r"\operatorname{var}[f(x_*) \mid y] &= k(x_*, x_*) - k(x_*, X)\,(K + \sigma^2 I)^{-1} "
            r"k(X, x_*) \end{split}",
            "The mean leans towards the points that are near; the variance falls where there are "
            "any. Note that y is not in the second line: how sure the model is depends only on "
            "where you looked.",
        ),
        lesson.Words(
            "One number judges the whole belief: the [evidence](glossary#evidence), the "
            "probability that the prior gave to what then happened. It is below the picture once "
            "you have put down a point. A kernel that is too stiff cannot explain the points. One "
            "that is too loose could have explained anything, so it gets little credit. In the "
            "next lessons, everything that is learned is learned by raising this number, or a "
            "bound on it.\n\n"
            "There is one catch: the matrix $K$ has as many rows as the data. Inverting it costs "
            "$N^3$ operations, which is too slow beyond a few thousand rows. The next lesson deals "
            "with that."
        ),
        lesson.Try(
            "Press **Three points**. Read the evidence at ℓ = 1 with the noise σ = 0.1, then at "
            "σ = 0.5. Then go back to 0.1, and try ℓ = 3.",
            "These points go up and down, so a stiff function misses them: at ℓ = 3 the evidence "
            "is more than 10 nats lower than at ℓ = 1. Between the two noises at ℓ = 1 it differs "
            "by less than a tenth of a nat: three points are too few to tell noise from signal.",
        ),
        lesson.question(
            "You put two points at the same x, with different y. What does the posterior do?",
            lesson.wrong(
                "It fails: a function has one value at each x.",
                "It would fail without noise. With σ above zero, both points are allowed to lie "
                "beside the function.",
            ),
            lesson.right(
                "It passes between them, and is surer there than after one point.",
                "Each point is the function and some noise. Two measurements at one place "
                "average: the mean goes between, and the variance falls. Try it.",
            ),
            lesson.wrong(
                "It passes through the newer one.",
                "Order means nothing here: the formula treats all points alike.",
            ),
        ),
        lesson.question(
            "You move one point far up, and leave its x as it is. What happens to the shade?",
            lesson.wrong(
                "It widens, because the point is surprising.",
                "A person would be surprised; a GP with a fixed kernel is not. Look at the second "
                "line of the posterior: y does not occur in it. Surprise shows in the evidence, "
                "which falls.",
            ),
            lesson.right(
                "Its width stays the same; only the mean moves.",
                "The variance depends on the inputs alone. This is special to Gaussian noise with "
                "a fixed kernel, and deep models will not have it.",
            ),
            lesson.wrong(
                "It narrows around the point.",
                "It was as narrow before: the point's x has not changed.",
            ),
        ),
        lesson.question(
            "Which belief says “f can change a lot over five units, but hardly within one”?",
            lesson.wrong(
                "A long lengthscale, such as 20.",
                "Then f would still be nearly the same five units away.",
            ),
            lesson.right(
                "A lengthscale of about 2, with a smooth kernel.",
                "Within half a lengthscale the RBF's correlation stays above 0.88; two and a half "
                "lengthscales away it is below 0.05.",
            ),
            lesson.wrong(
                "A lengthscale of about 2, with Matérn 1/2.",
                "The distance is right, but Matérn 1/2 lets f jump about within a short stretch: "
                "at half a lengthscale the correlation is already down to 0.61.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON, clicked)
