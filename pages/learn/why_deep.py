"""Lesson 3: what one stationary kernel cannot do, and what composition adds."""

from functools import partial

import streamlit as st

from datasets.starts import film
from dgp_core.live.views.by_hand import composition
from dgp_core.live.views.prior import PriorMean
from pages.figures.by_hand import composition_figures
from pages.figures.lesson_live import live
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

FIRST: dict[PriorMean, str] = {"linear": "x + g(x)", "zero": "g(x)"}
DRAWS = {name: lesson.Hand(f"compose_{name}", 0, range(1000)) for name in ("first", "second")}
MEAN = lesson.Hand("compose_mean", "linear", tuple(FIRST))
PLACE = lesson.Hand("compose_follow", -1.0, [round(-2 + 0.05 * i, 2) for i in range(81)])

ink = page_ink()
memory = st.session_state
memory.setdefault("compose_first", 0)
memory.setdefault("compose_second", 0)


def by_hand() -> None:
    """Draw a first layer, draw a second, and see what they make together."""
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        for layer, name in (("first", "Draw another f¹"), ("second", "Draw another f²")):
            lesson.button(name, "casino", lesson.redraw, DRAWS[layer], key=f"redraw_{layer}")
    left, right = st.columns(2, gap="medium")
    mean = left.segmented_control(
        "First layer",
        list(FIRST),
        **lesson.hand(MEAN, "default"),
        format_func=FIRST.__getitem__,
        required=True,
        help="With the linear mean function, the layer bends x; with a mean of zero, it replaces "
        "it. Lesson 4 is about that.",
    )
    follow = right.slider(
        "Follow one input x",
        -2.0,
        2.0,
        step=0.05,
        **lesson.hand(PLACE),
        help="The orange diamond: from x to h in the first picture, from h to f in the second.",
    )
    drawn = composition(memory.compose_first, memory.compose_second, mean)
    name = FIRST[mean]  # pyright: ignore[reportArgumentType]
    figures = composition_figures(drawn, follow, name, ink)
    panels = ("first", "A draw of f¹"), ("second", "A draw of f²"), ("both", "f² after f¹")
    for column, figure, (key, words) in zip(
        st.columns(3, gap="medium"), figures, panels, strict=True
    ):
        with column, st.container(gap="xsmall"):
            st.markdown(f"**{words}**")
            stage.figure(figure, f"{words}, and where it takes one input.", f"compose_{key}_map")


LESSON = lesson.Lesson(
    number=3,
    title="Why deep?",
    summary="One kernel has one idea of smoothness. Two layers can have many.",
    minutes=20,
    parts=(
        lesson.Words(
            "A GP with a [stationary kernel](glossary#stationary-kernel) believes the same thing "
            "everywhere: its functions are as smooth on the left as on the right. Real functions "
            "often are not. They jump, they rest, they start to wiggle. Below, two models learn "
            "the same step at the same time: a "
            "[deep GP](glossary#deep-gaussian-process) of two layers, in blue, and its rival, a "
            "single GP, in orange."
        ),
        lesson.Live(
            name="race",
            choices=Choices(),
            paint=partial(live, ink=ink),
            style=(ink,),
            hosts=(
                (("state", 0, ""),),
                (("deep", 285, "Two layers"), ("rival", 285, "One layer")),
                (("bound_words", 0, ""),),
            ),
            says="Shade: where new points are expected. Thick: the mean. Thin: functions drawn "
            "from the model. Triangles: inducing inputs.",
            controls=("data",),
            offers={"data": ("step", "ramp")},
            film=tuple(film("step")),
        ),
        lesson.Words(
            "## Where one kernel fails\n\n"
            "Look at the single layer beside the jump. To be steep in the middle it needs a short "
            "lengthscale. But a short lengthscale holds everywhere, so it also expects wiggles on "
            "the flat parts, and its shade must be wide enough to excuse them. A long lengthscale "
            "would be right on the flat parts and wrong at the jump. There is no good choice: the "
            "kernel has one number for two jobs."
        ),
        lesson.Try(
            "Stay with the step and let both models train to step 5,000. Compare the two bounds in "
            "the line below the pictures.",
            "The deep model's bound ends more than 50 nats above that of the single layer. Its "
            "functions are flat, then steep, then flat, and its shade hugs the data on both sides.",
        ),
        lesson.Try(
            "Choose the other data set, which is calm on the left and wiggles on the right. Be "
            "patient: watch it to step 6,000.",
            "The single layer calls the wiggles noise, and stays there: its shade is one broad "
            "band. The deep model does so too at first. Then its first layer finds out that the "
            "right half must be stretched, the wiggles appear, and its bound rises more than "
            "50 nats above the other.",
        ),
        lesson.Words(
            "## Composition by hand\n\n"
            "How do two smooth layers make something that is not? The first layer takes $x$ to a "
            "new place $h = f^1(x)$. The second is a function of that place. Where the first is "
            "steep, neighbouring inputs are pulled far apart, and the second layer has room to "
            "change a lot between them. Where the first is flat, they arrive together, and "
            "nothing that the second layer does can part them again. Both layers below are drawn "
            "from the *same* smooth kernel. What they make together is not."
        ),
        lesson.Picture(
            by_hand,
            "A draw of the first layer, a draw of the second, and the second after the first. The "
            "diamond is one input on its way.",
            (*DRAWS.values(), MEAN, PLACE),
        ),
        lesson.Try(
            "Move **Follow one input** from left to right, and watch the diamond on f². Then press "
            "**Draw another f¹** and do it again.",
            "Where f¹ is steep, the diamond runs along f²; where f¹ is flat, it rests; where f¹ "
            "turns, it goes back the way it came, and the composition repeats itself as in a "
            "mirror. The slope of the composition is always the product of the two others.",
        ),
        lesson.Equation(
            r"\begin{split} f(x) &= f^L\big(f^{L-1}(\cdots f^1(x))\big) \\ "
            r"\frac{\mathrm{d} f}{\mathrm{d} x} &= \prod_{l=1}^{L} \frac{\mathrm{d} f^l}"
            r"{\mathrm{d} f^{l-1}} \end{split}",
            "A composition, and the chain rule: slopes multiply. A product of moderate slopes can "
            "be very steep here and nearly zero there.",
        ),
        lesson.Equation(
            r"\begin{split} p\big(Y, \{F^l, U^l\}_{l=1}^L\big) = &\prod_{i=1}^N p(y_i \mid f_i^L)"
            r" \\ &\prod_{l=1}^L p(F^l \mid U^l; F^{l-1}, Z^{l-1})\, p(U^l; Z^{l-1}) \end{split}",
            "The whole model, with $F^0 = X$: each layer is a GP whose inputs are the outputs of "
            "the one below, and each has its own inducing points.",
            "11",
        ),
        lesson.Words(
            "(The model also allows a trace of noise between the layers, $\\sigma_l^2$, as part of "
            "each kernel's diagonal.)\n\n"
            "A deep GP is thus *not* a GP. Draw many functions from it, look at two inputs, and "
            "the values there are not jointly Gaussian. This is its gain: it may believe in jumps "
            "and in changing smoothness. It is also its price: the tidy formulas of lesson 1 are "
            "gone, and we shall need samples."
        ),
        lesson.question(
            "Could the single layer learn the step if it had a hundred times more inducing points?",
            lesson.wrong(
                "Yes: it would only need enough of them beside the jump.",
                "Inducing points bring the sparse GP nearer to the exact GP of the same kernel. "
                "Here the exact GP itself is not good at steps.",
            ),
            lesson.right(
                "No: they make the approximation better, not the prior.",
                "The trouble is what the kernel believes. No number of inducing points changes a "
                "belief in one smoothness everywhere.",
            ),
            lesson.wrong(
                "Yes, with smaller steps of the optimiser.",
                "It would arrive at the same place, more slowly.",
            ),
        ),
        lesson.question(
            "The first layer is exactly flat between x = 0 and x = 1. What does the whole model "
            "do there?",
            lesson.right(
                "It is flat too, whatever the second layer is.",
                "All these inputs arrive at the same h, and a function has one value there. What "
                "one layer has merged, no later one can part. Lesson 4 shows what this does to "
                "deep models.",
            ),
            lesson.wrong(
                "Whatever the second layer makes of it.",
                "The second layer sees only h, and h is the same for all of them.",
            ),
            lesson.wrong(
                "It is flat only if the second layer is flat too.",
                "Slopes multiply. Zero times anything is zero.",
            ),
        ),
        lesson.question(
            "If both layers were linear, what would depth add?",
            lesson.right(
                "Nothing: a line of a line is a line.",
                "Depth pays only through bending. A layer that does not bend only passes things "
                "on, and a good method should notice. Lesson 5 shows that it does.",
            ),
            lesson.wrong(
                "Steeper lines than one layer could have.",
                "One line can be as steep as you like.",
            ),
            lesson.wrong(
                "A curve with one bend for each layer.",
                "Lines do not bend, however many you put in a row.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON)
