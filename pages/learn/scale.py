"""Lesson 12: what a step costs as rows grow, from hundreds to a billion."""

import json
from pathlib import Path

import streamlit as st

from datasets.printed import SECONDS_A_STEP, SYSTEMS, printed
from dgp_core.training.plan import duration
from pages.figures.depth_table import number
from pages.figures.scale import cost_figure, markdown_table, operations
from pages.ui.lessons import lesson
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

# What `python -m benchmarks.speed --workloads A --json` wrote: the paper's profile on this code.
SPEED = Path(__file__).parents[2] / "benchmarks" / "speed.json"
B = 10_000
TAXI_STEPS = 500_000
ROWS = tuple(10**k for k in range(2, 10))
N = lesson.Hand("scale_rows", 10_000, ROWS)
M = lesson.Hand("scale_inducing", 100, (25, 50, 100, 200, 500))
L = lesson.Hand("scale_layers", 2, range(1, 6))
D = lesson.Hand("scale_width", 1, (1, 2, 4, 8, 16, 30))

ink = page_ink()


@st.cache_data(show_spinner=False)
def measured() -> dict[str, dict]:
    """Rows of the benchmark by the paper's names; none where it has left no file."""
    rows = json.loads(SPEED.read_text(encoding="utf-8")) if SPEED.is_file() else []
    named = {}
    for row in rows:
        if row["workload"] == "A":
            one = "sgp" if row["m"] == 100 else f"sgp{row['m']}"
            named[one if row["layers"] == 1 else f"dgp{row['layers']}"] = row
    return named


def cost() -> None:
    """Three costs on log axes."""
    left, right = st.columns(2, gap="medium")
    rows = left.select_slider(
        "Rows N", ROWS, **lesson.hand(N), format_func=lambda n: f"{n:,}", help="All training rows."
    )
    points = right.select_slider("Inducing points M", M.offered, **lesson.hand(M))
    layers = left.select_slider("Layers L", list(L.offered), **lesson.hand(L))
    width = right.select_slider(
        "Width of inner layers", D.offered, **lesson.hand(D), help="The last layer has one output."
    )
    rows, points = int(rows), int(points)  # pyright: ignore[reportArgumentType]
    total = (layers - 1) * width + 1
    figure = cost_figure(rows, points, total, B, ink)
    stage.figure(figure, f"Operations a step for {rows:,} rows, three ways.", "scale_picture")
    st.markdown(in_words(rows, points, total))


def in_words(rows: int, points: int, total: int) -> str:
    """The three costs at N, and the memory of the exact GP's matrix."""
    at = {way: float(value) for way, value in operations(rows, points, total, B).items()}
    gigabytes = 8e-9 * rows**2
    memory = f"{gigabytes:,.0f}" if gigabytes >= 1 else f"{gigabytes:.2g}"
    return (
        f"N = {rows:,}, ΣD = {total}: the exact GP takes {_power(at['exact'])} operations and "
        f"{memory} GB for its matrix, the full bound {_power(at['full'])}, a step of "
        f"{min(rows, B):,} rows {_power(at['minibatch'])}."
    )


def _power(value: float) -> str:
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"${mantissa} \\times 10^{{{int(exponent)}}}$"


def profile() -> str:
    """Seconds of a step: the paper's and ours, in Markdown."""
    lines = [["", "Paper, CPU (8 cores)", "Paper, GPU (K80)", "Ours, CPU (2 cores)"]]
    for system, seconds in SECONDS_A_STEP["cpu"].items():
        row = measured().get(system)
        own = f"{row['ms'] / 1000:.3f} s" if row else "not measured"
        gpu = SECONDS_A_STEP["gpu"][system]
        lines.append([SYSTEMS[system], f"{seconds:.2f} s", f"{gpu:.3f} s", own])
    return markdown_table(lines)


def taxi() -> str:
    """The paper's taxi row, and how long its 500,000 steps take on three machines."""
    lines = [["", "RMSE (s)", "log-likelihood", "500,000 steps: paper's GPU", "ours, 2 cores"]]
    for system, error in printed("taxi", "rmse").items():
        row = measured().get(system)
        own = duration(TAXI_STEPS * row["ms"] / 1000) if row else "not measured"
        score = number(printed("taxi", "loglik")[system].value)
        gpu = duration(TAXI_STEPS * SECONDS_A_STEP["gpu"][system])
        lines.append([SYSTEMS[system], f"{error.value:.1f}", score, gpu, own])
    return markdown_table(lines)


def show_profile() -> None:
    st.markdown(profile())


def show_taxi() -> None:
    st.markdown(taxi())


def load() -> str:
    """How busy the machine was that ours were measured on."""
    loads = [row["load"] for row in measured().values() if "load" in row]
    if not loads:
        return "Ours are not measured on this copy: `python -m benchmarks.speed` does it."
    return (
        "Ours are the best of three runs on a machine with 2 cores and other work on it (load "
        f"{min(loads):g} to {max(loads):g})."
    )


LESSON = lesson.Lesson(
    number=12,
    title="Scale",
    summary="A hundred rows or a billion: what a step costs, and why it stops growing.",
    minutes=15,
    parts=(
        lesson.Words(
            "An exact GP inverts a matrix with a row and a column for every observation: $N^3$ "
            "operations, $N^2$ numbers to hold. A [sparse GP](glossary#sparse-gp) asks $M$ "
            "inducing points instead, layer by layer, so its [bound](glossary#bound) costs "
            "$N M^2$ for every output of every layer. And a [minibatch](glossary#minibatch) asks "
            "only B of the rows (lesson 7): from then on N is gone from the price of a step."
        ),
        lesson.Picture(
            cost,
            "Operations of one step, to leading order, by the number of rows; both axes are "
            "logarithmic, a line a power further up costs a thousand times as much. The minibatch "
            "has 10,000 rows, as in the paper.",
            (N, M, L, D),
        ),
        lesson.Equation(
            r"\underbrace{N^3}_{\text{exact}} \qquad \underbrace{N M^2 (D^1 + \cdots + "
            r"D^L)}_{\text{full bound}} \qquad \underbrace{B M^2 (D^1 + \cdots + "
            r"D^L)}_{\text{a step}}",
            "The paper gives the second, below its equation 17. $D^l$ is the width of layer $l$. "
            "What is left out: factorising $M \\times M$ matrices, $M^3$ a layer, once a step "
            "whatever N is.",
        ),
        lesson.Try(
            "With M = 100, two layers and width 1, slide N from 100 to 1,000,000,000.",
            "At 100 rows the exact GP is the cheapest: up to $M\\sqrt{D^1 + D^2}$, here 141 rows, "
            "$N^3$ is less than $N M^2 (D^1 + D^2)$. At 10,000 rows it costs 5,000 times as much "
            "as the full bound. From there the minibatch's line is flat: at a billion rows a full "
            "bound costs 100,000 such steps, and the exact GP's matrix would fill 8 billion GB.",
        ),
        lesson.Words(
            "## Seconds\n\n"
            "Operations are counted, seconds are measured. The paper's profile has 10,000 rows a "
            "step, 100 inducing points (one row has 500) and widths of 1."
        ),
        lesson.Picture(
            show_profile,
            f"Seconds of one gradient step. {load()} The paper's are from another decade and "
            "other machines: read down the columns, not across.",
            on_paper=profile,
        ),
        lesson.Try(
            "Read down each column. What does a layer cost, and what do 500 inducing points?",
            "Each layer adds about as much as the one before: five cost 6 times as much as one in "
            "the paper's first column. Five times the inducing points should cost 25 times as "
            "much; measured it is 12 times there and 6 times on their GPU, since small matrices "
            "waste part of a machine.",
        ),
        lesson.Words(
            "## A billion rides\n\n"
            "The authors trained on a billion taxi rides in New York: 9 inputs, the journey's time "
            "in seconds to predict, 500,000 steps of 10,000 rows, which is five "
            "[epochs](glossary#epoch). We have not run it here. But a step does not know how many "
            "rows there are, so what it would take can be said."
        ),
        lesson.Picture(
            show_taxi,
            "The paper's held-out scores (printed; we did not run it), and the time of its 500,000 "
            "steps by the measured seconds above. Those are for one input; reading the rows comes "
            "on top.",
            on_paper=taxi,
        ),
        lesson.Try(
            "Compare one layer of 500 inducing points with two layers of 100.",
            "On the paper's GPU the two layers take about a quarter of the time, and their error "
            "is 281 seconds instead of 331. Of the paper's large sets, this is where depth gained "
            "most: five layers lower the error of one by 21 %.",
        ),
        lesson.question(
            "You get ten times as many rows, and keep the minibatch. What does a step cost?",
            lesson.wrong(
                "Ten times as much.",
                "That would be the full bound. A step only ever sees B rows.",
            ),
            lesson.right(
                "As much as before.",
                "B, M and the widths are what they were. An epoch has ten times as many steps, "
                "but nobody says that you need whole epochs.",
            ),
            lesson.wrong("A thousand times as much.", "That would be the exact GP: ten cubed."),
        ),
        lesson.question(
            "With more rows and the same minibatch, does the estimate of the bound per row get "
            "noisier?",
            lesson.wrong(
                "Yes: B is a smaller share of N.",
                "A poll of 1,000 people is as exact for a city as for a country. What counts is "
                "B, and how different the rows are.",
            ),
            lesson.right(
                "No: its error depends on B and on how different the rows are.",
                "The bound itself grows with N, and so does its error in nats. Divided by N, both "
                "stay: that is why minibatches scale.",
            ),
        ),
        lesson.question(
            "You have one layer, and a step may cost two or three times as much. Where do you "
            "spend it first?",
            lesson.wrong(
                "On twice the inducing points.",
                "Twice M costs four times as much; and where the prior is wrong, more points do "
                "not mend it (lesson 3).",
            ),
            lesson.right(
                "On a second layer.",
                "By the paper's two columns, two layers cost 2.6 and 1.7 times as much as one. On "
                "its large sets every deep model beats one layer with 500 inducing points, at "
                "less cost.",
            ),
            lesson.wrong(
                "On all rows at each step.",
                "With N far above B that costs N/B times as much, and buys an exact sum where an "
                "unbiased one is enough.",
            ),
        ),
    ),
)

if __name__ == "__main__":
    lesson.show(LESSON)
