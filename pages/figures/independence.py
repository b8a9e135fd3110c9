"""What independence costs: a row's way through two layers, and the first layer's noise."""

from functools import lru_cache
from typing import Any

import numpy as np

from datasets import catalogue
from datasets.independence import CASES, FRESH_SEED, SEEDS, stored
from dgp_core.gp.data import Dataset
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.views.independence import Passage, passage_at, signal_history
from dgp_core.live.views.mixture import calibration
from pages.figures.boards import Elements, Look, kept, picture
from pages.figures.lesson_live import chosen
from pages.figures.marks import base_layout, curve, labelled_axis, saying, scatter
from pages.figures.palette import DEEP, SINGLE, Ink, tint

SHOWN = 300
"""Samples that are dots; the correlation is of all of them."""

FRESH = 500
"""Rows that no model has seen, on which the band is judged at every moment."""

RATIO = "signal-to-noise ratio of layer 1"
LEAST, MOST = 1e-5, 1e6
"""Of the axis of signal-to-noise ratios: what is smaller lies at its lower edge."""

LOOKS = {
    "tied": ("tied", DEEP, "solid"),
    "apart": ("independent", SINGLE, "dash"),
    "apart_sure": ("independent, noise 1e-5 at the start", "#CC79A7", "dot"),
}
"""Of what was measured: words, colour and dash."""


def passage_figure(way: Passage, y_name: str, ink: Ink, height: int = 285) -> dict:
    """What leaves layer 2 against what leaves layer 1, at one row, as a cloud of samples.

    Both axes span four standard deviations on either side, so that only the slant differs.
    """
    layout = base_layout(ink, height) | {"showlegend": False}
    axes = ((way.first, "leaves layer 1"), (way.last, f"leaves layer 2 ({y_name})"))
    for name, (values, title) in zip(("xaxis", "yaxis"), axes, strict=True):
        middle, room = float(values.mean()), 4 * float(values.std()) or 1.0
        layout[name] = labelled_axis(ink, title, range=[middle - room, middle + room], nticks=5)
    rows = np.random.default_rng(1).permutation(len(way.first))[:SHOWN]
    marker = {"color": tint(ink.deep if way.tied else ink.single, 0.5), "size": 5}
    hover = "%{x:.3g} leaves layer 1, %{y:.3g} layer 2"
    cloud = scatter(way.first[rows], way.last[rows], "samples", marker, hover)
    return {"data": [cloud], "layout": layout}


def _ratio_layout(ink: Ink, height: int) -> dict:
    layout = base_layout(ink, height)
    layout["xaxis"] = labelled_axis(ink, "step (log scale)", type="log", dtick=1)
    layout["yaxis"] = labelled_axis(
        ink,
        RATIO,
        type="log",
        range=[np.log10(LEAST), np.log10(MOST)],
        dtick=2,
        exponentformat="power",
    )
    return layout


def signal_figure(
    steps: np.ndarray, values: np.ndarray, tied: bool, ink: Ink, height: int = 260
) -> dict:
    """A run's signal-to-noise ratio over its steps."""
    seen = steps > 0  # before the first step, layer 1 adds nothing
    if not seen.any():
        return saying("The curve begins with the first step.", ink, height)
    words, _, dash = LOOKS["tied" if tied else "apart"]
    shown, colour = np.clip(values[seen], LEAST, MOST), ink.deep if tied else ink.single
    hover = f"{words}: " + "%{y:.3g} at step %{x:,.0f}"
    trace = curve(steps[seen], shown, words, colour, 2.4, hover, dash)
    trace["mode"] = "lines" if seen.sum() > 1 else "markers"
    layout = _ratio_layout(ink, height) | {"showlegend": False}
    return {"data": [trace], "layout": layout}


def measured_figure(ink: Ink, height: int = 300) -> dict:
    """The signal-to-noise ratio over the steps, of every training that was stored."""
    traces = []
    for case in CASES:
        words, colour, dash = LOOKS[case]
        for seed in SEEDS:
            rows = [r for r in stored() if (r.case, r.seed, r.draw) == (case, seed, 0)]
            values = np.clip([row.signal for row in rows], LEAST, MOST)
            steps = np.array([row.step for row in rows])
            hover = f"{words}, seed {seed}: " + "%{y:.3g} at step %{x:,.0f}"
            trace = curve(steps, values, words, colour, 1.8, hover, dash, legendgroup=case)
            traces.append(trace | {"showlegend": seed == SEEDS[0]})
    return {"data": traces, "layout": _ratio_layout(ink, height)}


def with_passage(run: Run, moment: Any, look: Look, names: tuple[str, ...]) -> Elements:
    """These elements of the playground, a row's way, the noise over time, and both in words."""
    elements = chosen(run, moment, look, names)
    waiting = saying("The cloud is drawn once the run has begun.", look.ink, 285)
    figures = {
        "passage": (waiting, "No samples yet."),
        "signal": (saying("The curve begins with the first step.", look.ink, 260), "No curve yet."),
    }
    words = "The numbers are known once the run has begun."
    if isinstance(moment, Snapshot):
        way = passage_at(run, moment, look.star[0])
        steps, values = signal_history(run)
        shown = steps <= moment.step
        figures = {
            "passage": (
                passage_figure(way, run.dataset.output_names[0], look.ink),
                f"What leaves layer 2 against what leaves layer 1 at x = {way.x:.2f}, as a cloud.",
            ),
            "signal": (
                signal_figure(steps[shown], values[shown], way.tied, look.ink),
                "The signal-to-noise ratio of layer 1 over the steps.",
            ),
        }
        words = passage_words(run, moment, way)
    own = {name: picture(figure, alt, look.ink) for name, (figure, alt) in figures.items()}
    kept(own, f"{run.dataset.name}{look.star}")
    return elements | own | {"passage_words": {"text": words}}


def passage_words(run: Run, moment: Snapshot, way: Passage) -> str:
    """The slant, the noise and the band in numbers."""
    noise = float(moment.deep.layers[0].noise)
    x, slant = (round(value, 2) + 0.0 for value in (way.x, way.correlation))  # no −0.00
    return (
        f"At the row x = {x:.2f}, the correlation is **{slant:.2f}**; what leaves "
        f"layer 1 has the standard deviation {way.first.std():.2f}. The noise between the layers "
        f"has the variance {noise:.2g}. The central 95 % of the prediction hold "
        f"**{covered(run, moment):.1%}** of {FRESH:,} rows that it has not seen."
    )


@lru_cache(maxsize=1)
def fresh() -> Dataset:
    """Rows of the step that no model has seen."""
    return catalogue.load("step", n=FRESH, seed=FRESH_SEED)


def covered(run: Run, moment: Snapshot) -> float:
    """The share of unseen rows in the central 95 % of the deep model's prediction."""
    pit = calibration(run, moment, fresh()).deep.pit
    assert pit is not None
    return float(np.mean(np.abs(2 * pit - 1) <= 0.95))
