"""Lesson 11: how large, how deep, how long, and what goes wrong."""

from dataclasses import dataclass
from functools import partial

import streamlit as st

from datasets.starts import film, film_of
from dgp_core.live.poor_starts import Start, begin_with
from pages.figures.boards import Look
from pages.figures.lesson_live import chosen, with_layers
from pages.ui import session
from pages.ui.choices import Choices
from pages.ui.lessons import lesson
from pages.ui.theme import page_ink

NUMBER = 11
ink = page_ink()
LOOK = Look(ink)
ELEMENTS = ("deep", "bound", "bound_words")


@dataclass(frozen=True)
class Ailment:
    """Something that goes wrong, and how it is told from health."""

    title: str
    ill: Choices
    well: Choices
    start: Start
    do: str
    then: str
    cure: str


AILMENTS = {
    "zero": Ailment(
        "Zero mean",
        Choices(layers=4, mean="zero", at=1000, seed=1),
        Choices(layers=4, at=1000, seed=1),
        "usual",
        "Four layers, inner means zero. Both runs pause at step 1,000.",
        "The ill model predicts a flat line: after four draws around zero, neighbours and "
        "strangers look alike, and there is nothing left to learn from. Its bound is hundreds of "
        "nats lower than the single layer's. The healthy twin has found the jump. (With about "
        "every other seed the ill model gets away in time: luck, where the twin needs none.)",
        "Linear mean functions in inner layers. They are the default here; lesson 4 says why.",
    ),
    "rate": Ailment(
        "Huge learning rate",
        Choices(rate=1.0, at=1000),
        Choices(at=1000),
        "usual",
        "The learning rate is 1 instead of 0.01. Both runs pause at step 1,000.",
        "The first steps throw the parameters far away; what is safe there is to call everything "
        "noise. The prediction is a flat line with a broad shade, the noise is as large as the "
        "data's own standard deviation, and the bound stays where it is: a thousand steps later "
        "it has not come back, while its twin has long found the jump.",
        "0.01 is safe, 0.05 with a rate that falls at the end is quicker. If the bound leaps up "
        "and down, divide by three.",
    ),
    "scale": Ailment(
        "No scaling",
        Choices(at=300),
        Choices(at=300),
        "unscaled",
        "Both columns are in thousandths of their unit, so the step is 2,000 high and 4,000 wide, "
        "and nobody standardises them. Both runs pause at step 300. Then press Play.",
        "At 300 the bound is worse by *millions* of nats. Start values are made for numbers around "
        "one: a lengthscale of 2 is nothing on an axis of 4,000, so no row has a neighbour, and "
        "half-way between two rows the curve is off by hundreds. Later the fit mends itself, but "
        "the first layer never wakes: a deep model in name only.",
        "Scale by the training rows' mean and standard deviation: the app does it for you, and "
        "turns everything back before you see it. Never measure them on test rows.",
    ),
    "random": Ailment(
        "Random Z",
        Choices(data="arm", at=300),
        Choices(data="arm", at=300),
        "random Z",
        "Eight inputs, and the inducing inputs are thrown anywhere, three standard deviations "
        "wide. Both runs pause at step 300.",
        "The ill model lags behind by more than 1,000 nats: in eight dimensions most of the throws "
        "land where no data are, and a point there says nothing about any row. It catches up "
        "slowly, and at step 1,000 still lacks more than 200. With one input you would see no harm "
        "at all: there, every place is near some row.",
        "Start Z at k-means centres of the inputs, and carry it through the mean functions to the "
        "layers above.",
    ),
    "float32": Ailment(
        "float32",
        Choices(at=1000),
        Choices(at=1000),
        "float32",
        "Numbers of 7 digits instead of 16. Both runs pause at step 1,000. Look for a difference.",
        "There is hardly one to see: the bounds differ by less than each of them trembles from "
        "step to step. Half the digits are enough *here*, because the variance is computed in a "
        "form that loses few, and a step that ends in nonsense is undone. Written the obvious "
        "way, $k(x, x) - k_x^\\top K^{-1} k_x$ subtracts two nearly equal numbers, and single "
        "precision turns small variances into negative ones.",
        "float64 on a CPU, where it costs little. On an accelerator, float32 with the triangular "
        "form and some [jitter](glossary#jitter).",
    ),
}


AILMENT = lesson.Hand("ailment", None, tuple(AILMENTS), whole=True)

lesson.take_hands(NUMBER, (AILMENT,))


def begin(choices: Choices, start: Start) -> str:
    """A run that starts in one of the wrong ways."""
    train = choices.train
    data, model, saved = begin_with(start, choices.dataset, choices.model, train)
    run_id, _ = session.workshop().start(data, model, train, owner=session.browser(), saved=saved)
    run = session.workshop().watch(run_id)
    run.label = choices
    run.play_until(choices.at)
    return run_id


def ward() -> None:
    """Which ailment is switched on."""
    st.segmented_control(
        "Switch on",
        list(AILMENTS),
        format_func=lambda key: AILMENTS[key].title,
        width="content",
        **lesson.hand(AILMENT, "default"),
    )


def twins() -> tuple[lesson.Part, ...]:
    """The chosen ailment: the ill run, the healthy one, and what to look for."""
    key = st.session_state.get("ailment")
    if key is None:
        return ()
    ailment = AILMENTS[key]
    hosts = (
        (("deep", 285, "The deep model"), ("bound", 285, "The bound")),
        (("bound_words", 0, ""),),
        (("layers_words", 0, ""),),
        (("state", 0, ""),),
    )
    paint = partial(with_layers, look=LOOK, names=ELEMENTS)
    ill = lesson.Live(
        name=f"ill_{key}",
        choices=ailment.ill,
        paint=paint,
        style=(ink,),
        hosts=hosts,
        says="First: data, density, functions drawn and mean; with many inputs, predicted against "
        "observed. Second: the deep model's bound, and dashed that of a single layer.",
        film=tuple(film(f"ill_{key}")),
        begin=partial(begin, start=ailment.start),
    )
    well = lesson.Live(
        name=f"well_{key}",
        choices=ailment.well,
        paint=paint,
        style=(ink,),
        hosts=hosts,
        says="The same without the ailment.",
        film=film_of(ailment.well.dataset, ailment.well.model),
    )
    return (
        lesson.Try(ailment.do, ailment.then),
        lesson.Words(f"### Ill: {ailment.title}"),
        ill,
        lesson.Words("### Its healthy twin"),
        well,
        lesson.Words(f"**The cure.** {ailment.cure}"),
    )


def on_paper() -> tuple[lesson.Part, ...]:
    """Every ailment, one after another."""
    return tuple(
        part
        for ailment in AILMENTS.values()
        for part in (
            lesson.Words(f"### {ailment.title}"),
            lesson.Try(ailment.do, ailment.then),
            lesson.Words(f"**The cure.** {ailment.cure}"),
        )
    )


BEFORE: tuple[lesson.Part, ...] = (
    lesson.Words(
        "You have your own data, and an afternoon. This lesson is about the few choices that "
        "matter, in the order in which you will meet them, and about the ways in which a deep "
        "GP goes wrong. Each of these can be switched on below, so that you know its face when "
        "you see it."
    ),
    lesson.Live(
        name="sizes",
        choices=Choices(),
        paint=partial(chosen, look=LOOK, names=ELEMENTS),
        style=(ink,),
        hosts=(
            (("deep", 285, "The deep model"), ("bound", 285, "The bound")),
            (("bound_words", 0, ""),),
        ),
        says="The step, with as many inducing points and layers as you like.",
        controls=("inducing", "layers", "rate"),
        offers={"inducing": (5, 10, 25, 50), "layers": (1, 2, 3), "rate": (0.005, 0.01, 0.05)},
        film=tuple(film("step")),
    ),
    lesson.Words(
        "## How many inducing points?\n\n"
        "As many as the function has features, and then some. In one dimension 10 to 25 are "
        "plenty; for tables of some ten columns, start at 100. The price grows with the square:"
    ),
    lesson.Equation(
        r"\text{cost of a step} = O\big(B\, M^2\, (D^1 + D^2 + \cdots + D^L)\big)",
        "B rows in the minibatch, M inducing points, $D^l$ outputs of layer $l$. Twice as many "
        "inducing points cost four times as much; another layer costs once more of the same.",
    ),
    lesson.Try(
        "Compare 5 inducing points with 25, each at step 1,000.",
        "With 5 the deep model's bound ends lower, but it still finds the jump: two layers use "
        "a few points well. Double M until the bound, or better the held-out score, gains less "
        "than you care about. Then stop.",
    ),
    lesson.Words(
        "## How deep?\n\n"
        "Fit one layer first. It is fast, its bound is tight, and it is the score to beat. "
        "Then two. Two layers bring most of what depth can bring; go to three where two were "
        "clearly better than one. A layer that is not needed usually switches off "
        "(lessons 5 and 9), so what you risk is time more than "
        "[overfitting](glossary#overfitting); held-out rows tell.\n\n"
        "## When to stop?\n\n"
        "When the *smoothed* bound has levelled off. It trembles (lesson 7), so compare the "
        "mean of the last 500 steps with the mean of the 500 before: a gain of less than a "
        "hundredth of a nat a row is not worth waiting for. Let rates fall towards the end. "
        "And look at held-out rows; not to stop early, since the bound does not overfit as a "
        "training error does, but because it is the only score that counts."
    ),
    lesson.Words(
        "## What goes wrong\n\n"
        "Five ailments. Each comes with a healthy twin: same data, same seed, nothing else "
        "changed. Look at both before you read on."
    ),
    lesson.Picture(ward, "Choose one; its two runs start below.", (AILMENT,)),
)
AFTER: tuple[lesson.Part, ...] = (
    lesson.Words(
        "## A check-list\n\n"
        "1. Scale inputs and outputs by the training rows.\n"
        "2. Fit least squares and one layer first: know what there is to beat.\n"
        "3. Z from k-means, linear means inside, RBF kernel, a lengthscale for each input.\n"
        "4. 100 inducing points, two layers, Adam at 0.01, natural gradients for the last "
        "layer.\n"
        "5. Watch the smoothed bound, the noise and the layers. Noise as large as the data's "
        "standard deviation means that nothing was learned.\n"
        "6. Score held-out rows by the mixture: log-likelihood and RMSE, or CRPS, which is in "
        "the units of y. Check [calibration](glossary#calibration) by coverage and PIT.\n"
        "7. Ask what it has learned: relevance says which inputs matter, response curves how, "
        "and quantile bands how sure it is."
    ),
    lesson.question(
        "The bound has been flat for 2,000 steps. The noise variance, in standard units, is 1.0. "
        "What has happened?",
        lesson.wrong(
            "It has converged to a good fit.",
            "In standard units the data have variance 1. Noise of 1 leaves nothing for the "
            "function: the model calls everything noise.",
        ),
        lesson.right(
            "The model has learned nothing: begin again with a smaller rate.",
            "This is the face of the huge learning rate, and of zero means in deep models. If a "
            "single layer too ends there, the inputs may truly say nothing.",
        ),
        lesson.wrong(
            "There are too few inducing points.",
            "Too few make a function too smooth, and the noise somewhat too large. They rarely "
            "leave nothing at all.",
        ),
    ),
    lesson.question(
        "Your table has 11 columns in units from 0.001 to 10,000. Must you do anything?",
        lesson.right(
            "Standardise each column by the training rows.",
            "Then one start value of the lengthscale suits all of them, and a step of one size "
            "does. In this app it is done for you.",
        ),
        lesson.wrong(
            "No: there is a lengthscale for each input, and it will be learned.",
            "It would have to travel from 2 to 20,000 before anything can be seen, and without "
            "seeing anything there is no gradient to travel by.",
        ),
        lesson.wrong(
            "Standardise by all rows, test rows included.",
            "Test rows must not be known to anything. It is a small leak, but it is one.",
        ),
    ),
    lesson.question(
        "Doubling M from 100 to 200 raised the held-out log-likelihood by 0.001 a row. What next?",
        lesson.right(
            "Keep 100: spend the time elsewhere, perhaps on a second layer.",
            "M is no longer what holds the model back. A fourfold price for a thousandth of a nat "
            "is a poor bargain.",
        ),
        lesson.wrong(
            "Go on to 400: more is always better.",
            "The bound never falls with more, but the gain has levelled off and the price has not.",
        ),
    ),
)
LESSON = lesson.Lesson(
    number=NUMBER,
    title="For practitioners",
    summary="How many inducing points, how deep, when to stop, and what goes wrong.",
    minutes=25,
    parts=(*BEFORE, *twins(), *AFTER),
    on_paper=(*BEFORE, *on_paper(), *AFTER),
)

if __name__ == "__main__":
    lesson.show(LESSON)
