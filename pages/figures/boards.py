"""From a run's moment to everything that a page shows of it: pictures, words and meters.

An element is what one host of a page shows, by its name. A moment is a snapshot of the run, a frame
of a stored film, or None before either.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from datasets.starts import stored_of
from dgp_core.gp.data import Dataset
from dgp_core.live.run import Run, Snapshot
from dgp_core.live.views.layers import layer_history, layers_in_depth
from dgp_core.live.views.mixture import Measure, along, calibration, mixture_at
from dgp_core.live.views.paths import layer_title
from dgp_core.live.views.playground import View1D, View2D, ViewMany, view
from dgp_core.live.views.table import relevance
from pages.figures.layers import What, history_figure, passage_figure
from pages.figures.layers import map_figure as layer_map
from pages.figures.marks import saying, upright
from pages.figures.mixture import (
    cdf_figure,
    coverage_figure,
    disagreement_figure,
    mixture_figure,
    pit_figure,
    split_figure,
    split_words,
    variance_figure,
)
from pages.figures.palette import DARK, LIGHT, Ink
from pages.figures.plane import (
    map_figure,
    plane_data_figure,
    plane_legend,
    recorded_map,
    star_mark,
    warp_figure,
)
from pages.figures.playground import (
    bound_figure,
    data_figure,
    layer_figure,
    legend,
    prediction_figure,
)
from pages.figures.table import (
    ROWS_TRACE,
    agreement_figure,
    calibration_figure,
    hidden_figure,
    outcome_figure,
    pixels_figure,
    relevance_figure,
    response_figure,
    table_legend,
)

Elements = dict[str, dict]
Trace = tuple[np.ndarray, np.ndarray]
"""A bound's parts at every step: fit and KL."""
NOTHING = np.zeros(0), np.zeros((0, 1))
NO_MIXTURE = "The mixture is shown as soon as it is computed."
MOST_STAR = 60
"""Inputs of a place that a person may choose."""
SMALL = 196
"""Height of the pictures of the second row …"""
LINE = 176
"""… and of a layer's there, where the data have one input."""


@dataclass(frozen=True)
class Look:
    """Display options of a run."""

    ink: Ink
    bands: bool = False
    """Quantile bands instead of the density."""
    noise: bool = True
    """Of new points, or of the function alone; on the plane, uncertainty instead of the mean."""
    star: tuple[float, ...] = ()
    """Where the mixture is shown; the middle of the data where there is nothing."""


def playground(run: Run, moment: Any, look: Look) -> Elements:
    """Both models' predictions, the bound, every layer, and the mixture at a place."""
    if moment is None:
        return kept(_before(run, look) | no_mixture(run, look), run.dataset.name)
    seen = view(run, moment, look.noise) if isinstance(moment, Snapshot) else moment
    pixels = _pixels(run, moment, seen) if isinstance(seen, ViewMany) else None
    elements = {
        "bound": _bound(run, moment, look.ink),
        "bound_words": {"text": bound_words(seen)},
        **_kinds(seen)(run, seen, look),
    }
    elements |= (
        mixture(run, moment, look) if isinstance(moment, Snapshot) else no_mixture(run, look)
    )
    elements |= _layer_words(seen)
    if pixels is not None:
        alt = "How much each pixel matters to both models."
        elements["relevance"] = picture(pixels_figure(*pixels, look.ink), alt, look.ink)
        _name_pixels(elements["responses"]["figure"]["layout"], len(pixels[0]))
    return kept(elements, run.dataset.name)


def _name_pixels(layout: dict, side: int) -> None:
    """Axes of pixels by their places in the image."""
    for name, axis in layout.items():
        found = re.fullmatch(r"pixel(\d+)", axis["title"]["text"]) if "xaxis" in name else None
        if found is not None:
            row, column = divmod(int(found[1]), side)
            axis["title"]["text"] = f"row {row + 1}, column {column + 1}"


def _pixels(run: Run, moment: Any, seen: ViewMany) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Both models' relevance of an image's pixels (side, side); None where rows are no images.

    Of a film's moments, only the most relevant are known.
    """
    D = run.dataset.X.shape[1]
    side, names = round(D**0.5), run.dataset.input_names
    if side * side != D or names != tuple(f"pixel{d}" for d in range(D)):
        return None
    if isinstance(moment, Snapshot):
        places = np.flatnonzero(run.scaler.kept)
        both = [relevance(model.layers[0].kernel) for model in (moment.deep, moment.rival)]
    else:
        places = [int(name.removeprefix("pixel")) for name in seen.relevance.names]
        both = [seen.relevance.deep, seen.relevance.rival]
    pictures = []
    for values in both:
        picture = np.zeros(D)
        picture[places] = values
        pictures.append(picture.reshape(side, side))
    return pictures[0], pictures[1] if len(seen.layers) > 1 else None


def _layer_words(seen: Any) -> Elements:
    """Each layer's title and meter."""
    elements: Elements = {}
    for l, layer in enumerate(seen.layers):
        last = l == len(seen.layers) - 1
        kl = f", KL {layer.kl:,.1f} nats" if np.isfinite(layer.kl) else ""
        elements[f"layer_{l}_title"] = {"text": f"**{_capital(layer.title)}**{kl}"}
        elements[f"layer_{l}_meter"] = {
            "value": float(np.clip(layer.departure, 0, 1)),
            "text": meter_words(layer.departure, last),
        }
    return elements


def opening(
    run: Run, moment: Any, dark: bool, bands: bool, noise: bool, star: tuple[float, ...]
) -> Elements:
    """Both models' predictions in a moment of a film, and nothing else of the playground."""
    look = Look(DARK if dark else LIGHT, bands, noise, first_star(run, star))
    painted = _kinds(moment)(run, moment, look)
    pictures = {name: painted[name] for name in ("deep", "rival")}
    if isinstance(moment, View2D) and len(moment.classes) == 2 and noise:  # there before Plotly is
        for name, picture in pictures.items():
            picture["figure"] = recorded_map(moment, getattr(moment, name), look.ink)
    return pictures


def fit(run: Run, moment: Any, look: Look) -> Elements:
    """Both models' predictions, the bound and the layers, and nothing that a page without the rest
    would have to wait for."""
    if not isinstance(moment, Snapshot):
        return _before(run, look)
    seen = view(run, moment, look.noise)
    elements = {"bound": _bound(run, moment, look.ink), **_kinds(seen)(run, seen, look)}
    shown = {name: elements[name] for name in ("deep", "rival", "bound", "legend")}
    shown |= {name: part for name, part in elements.items() if name.startswith("layer_")}
    return kept(shown | _layer_words(seen), run.dataset.name)


def _bound(run: Run, moment: Any, ink: Ink) -> dict:
    deep, rival, steps = record_of(run, moment)
    figure = bound_figure(deep, rival, ink, steps=steps)
    return picture(figure, "The bounds of both models over the steps.", ink)


def record_of(run: Run, moment: Any) -> tuple[Trace, Trace, np.ndarray | None]:
    """Both models' records so far; of a film's moments only, with their steps, while one plays."""
    if isinstance(moment, Snapshot):
        return *run.record(), None
    past = [
        seen
        for seen in stored_of(run.dataset, run.model)
        if seen.step <= moment.step and np.isfinite(seen.deep.bound)
    ]
    if not past:
        return NOTHING, NOTHING, None
    deep, rival = (
        (np.array([panel.fit for panel in panels]), np.array([panel.kl for panel in panels]))
        for panels in ([seen.deep for seen in past], [seen.rival for seen in past])
    )
    return deep, rival, np.array([float(seen.step) for seen in past])


def _kinds(seen):
    return {View1D: _line, View2D: _plane, ViewMany: _table}[type(seen)]


def _line(run: Run, seen: View1D, look: Look) -> Elements:
    """One input: the whole prediction over x."""
    L, elements = len(seen.layers), {}
    for name, panel, words in (
        ("deep", seen.deep, "The deep model's"),
        ("rival", seen.rival, "The single layer's"),
    ):
        figure = prediction_figure(seen, panel, name == "deep", look.bands, look.ink)
        drag = {"trace": "inducing points"} if name == "deep" else None
        figure["layout"]["meta"] = {**_clicks(run), "drag": drag, "across": "x"}
        if look.star:
            figure["layout"]["shapes"] = [
                upright(look.star[0], look.ink.text, 1, "dot", yref="paper")
            ]
        alt = f"{words} prediction at step {seen.step}, with the data."
        elements[name] = picture(figure, alt, look.ink)
    for l, layer in enumerate(seen.layers):
        figure = layer_figure(layer, seen.x_name, seen.y_name, l == 0, l == L - 1, look.ink)
        alt = f"What {layer.title} does, and what has come out of it."
        elements[f"layer_{l}"] = picture(figure, alt, look.ink)
    elements["legend"] = {"html": legend(look.ink, look.bands, seen)}
    return elements


def _clicks(run: Run) -> dict:
    """What a click in a prediction does: it chooses x*, or puts down a point of the data."""
    return {"click": True} | ({"draws": "data"} if run.dataset.name == "drawn" else {})


def _plane(run: Run, seen: View2D, look: Look) -> Elements:
    """Two inputs: maps, and every layer as a warped grid."""
    elements = {}
    for name, panel, words in (
        ("deep", seen.deep, "The deep model's"),
        ("rival", seen.rival, "The single layer's"),
    ):
        figure = map_figure(seen, panel, name == "deep", not look.noise, look.ink)
        drag = {"trace": "inducing points", "plane": True} if name == "deep" else None
        figure["layout"]["meta"] = {"click": True, "drag": drag, "follow": ""}
        if len(look.star) == 2:
            figure["data"].append(star_mark(*look.star, look.ink))
        shown = seen.value_name if look.noise else seen.doubt_name
        elements[name] = picture(figure, f"{words} map at step {seen.step}: {shown}.", look.ink)
    for l, layer in enumerate(seen.layers):
        figure = warp_figure(seen, layer, look.ink, SMALL)
        alt = f"A grid of inputs, as it enters and as it leaves {layer.title}."
        elements[f"layer_{l}"] = picture(figure, alt, look.ink)
    elements["legend"] = {"html": plane_legend(seen, look.ink)}
    return elements


def _table(run: Run, seen: ViewMany, look: Look) -> Elements:
    """More inputs: agreement with the data, what matters, responses, calibration."""
    ink = look.ink
    agree = "predicted against observed" if not seen.classes else "classes, true and predicted"
    elements = {}
    for name, panel, words in (
        ("deep", seen.deep, "The deep model"),
        ("rival", seen.rival, "The single layer"),
    ):
        figure = agreement_figure(seen, panel, name == "deep", ink)
        if not seen.classes:
            figure["layout"]["meta"] = {"follow": ROWS_TRACE}
            if can_look(run):
                figure["layout"]["meta"] |= {"click": True, "nearest": ROWS_TRACE}
        elements[name] = picture(figure, f"{words}: {agree}.", ink)
    elements |= {
        "relevance": picture(
            relevance_figure(seen, ink), "How much each input matters to both models.", ink
        ),
        "responses": picture(
            response_figure(seen, ink), "The prediction as one input at a time is varied.", ink
        ),
        "calibration": picture(
            calibration_figure(seen, ink), "Coverage of the predictive intervals.", ink
        ),
        "legend": {"html": table_legend(seen, ink)},
    }
    for l, layer in enumerate(seen.layers):
        alt = f"The rows after {layer.title}, by two directions."
        elements[f"layer_{l}"] = picture(hidden_figure(seen, layer, ink, SMALL), alt, ink)
    return elements


def mixture(run: Run, moment: Snapshot, look: Look) -> Elements:
    """The predictive mixture at x*."""
    x = star_row(run, look.star)
    seen = mixture_at(run, moment, x, look.noise)
    figure = mixture_figure(seen, look.ink, SMALL + 20)
    figure["layout"]["showlegend"] = False
    alt = "The deep model's predictive mixture at x*, its Gaussian summary, and the rival's."
    return {
        "mixture": picture(figure, alt, look.ink),
        "mixture_title": {"text": f"**{_capital(star_words(run, x, bool(look.star)))}**"},
        "mixture_words": {"text": CURVES if seen.kind == "density" else BARS},
    }


def no_mixture(run: Run, look: Look) -> Elements:
    """The mixture's place, before there is one."""
    where = star_words(run, star_row(run, look.star), bool(look.star))
    return {
        **_waiting({"mixture": SMALL + 20}, look.ink),
        "mixture_title": {"text": f"**{_capital(where)}**"},
    }


CURVES = (
    "Components thin, all together thick; dotted, the Gaussian of the same mean and "
    "standard deviation; dashed, the single layer."
)
BARS = "Blue, the deep model and how far its sample paths differ; hatched, the single layer."


def layers(run: Run, moment: Any, ink: Ink, chosen: int, enters: int, leaves: int) -> Elements:
    """One layer in depth, and what all of them have become over time."""
    if not isinstance(moment, Snapshot):
        waiting = _waiting({"map": 320, "passage": 320, **dict.fromkeys(HISTORY, 240)}, ink)
        return waiting | {
            "layer_words": {"text": "The layers are shown as soon as they are computed."}
        }
    depths = layers_in_depth(run, moment)
    layer = depths[min(chosen, len(depths) - 1)]
    d, p = min(enters, len(layer.names_in) - 1), min(leaves, len(layer.names_out) - 1)
    elements = {
        "map": picture(layer_map(layer, ink, 320, d, p), f"The map of {layer.title}.", ink),
        "passage": picture(
            passage_figure(layer, ink, 320, d, p), f"Samples through {layer.title}.", ink
        ),
        "layer_words": {
            "text": f"**{_capital(layer.title)}**: KL {layer.kl:,.1f} nats. "
            + meter_words(layer.departure, layer.last)
        },
    }
    history = layer_history(run)
    for what, words in HISTORY.items():
        figure = history_figure(history, what, ink, 240)
        elements[what] = picture(figure, f"{words} of every layer over the steps.", ink)
    seen = view(run, moment)
    if isinstance(seen, View2D):
        for l, panel in enumerate(seen.layers):
            alt = f"A grid of inputs, as it enters and as it leaves {panel.title}."
            elements[f"warp_{l}"] = picture(warp_figure(seen, panel, ink, 300), alt, ink)
    return kept(elements, f"{run.dataset.name}{chosen}{d}{p}")


HISTORY: dict[What, str] = {
    "lengthscales": "Lengthscales",
    "deviation": "The kernel's standard deviation",
    "noise": "Noise",
    "departure": "The distance from the mean function",
    "kl": "KL",
}


def mixtures(run: Run, moment: Any, look: Look, measure: Measure) -> Elements:
    """The mixture at x*, its parts, and where along the inputs the two models disagree."""
    if not isinstance(moment, Snapshot):
        heights = {"mixture": 360, "cdf": 360, "split": 170, "differ": 260, "varies": 260}
        return _waiting(heights, look.ink) | {"mixture_title": {"text": NO_MIXTURE}}
    ink, x = look.ink, star_row(run, look.star)
    seen = mixture_at(run, moment, x, look.noise)
    all_along = along(run, moment, look.noise)
    if all_along.wasserstein is None:
        measure = "total_variation"
    differ = disagreement_figure(all_along, measure, ink)
    varies = variance_figure(all_along, ink)
    if can_look(run):
        for figure, sizes in ((differ, all_along.values(measure)), (varies, all_along.deep.total)):
            ranks = np.argsort(-sizes).tolist() if all_along.x is None else None
            figure["layout"]["meta"] = {"click": True, "ranks": ranks}
    most = all_along.rows[all_along.most(measure)]
    apart = (
        "The two distributions are the same"
        if run.model.layers == 1
        else f"Total variation between deep and single layer: {seen.total_variation:.0%}"
    )
    return kept(
        {
            "mixture": picture(mixture_figure(seen, ink, 360), "The mixture at x*.", ink),
            "cdf": picture(cdf_figure(seen, ink, 360), "Cumulative distributions at x*.", ink),
            "split": picture(split_figure(seen, ink), "The variance at x*, by its source.", ink),
            "differ": picture(differ, "How far the models are apart, over the inputs.", ink),
            "varies": picture(varies, "The variance and its sources, over the inputs.", ink),
            "mixture_title": {
                "text": f"**{_capital(star_words(run, x, bool(look.star)))}.** {apart}."
            },
            "split_words": {"text": split_words(seen.deep.split)},
            "most": {"text": f"They are farthest apart at {_place(run, most)}."},
        },
        f"{run.dataset.name}{look.star}",
    )


def calibrations(run: Run, moment: Any, held_out: Dataset, ink: Ink) -> Elements:
    """PIT and coverage of both models on rows that they have not seen."""
    if not isinstance(moment, Snapshot):
        return _waiting({"pit": 260, "coverage": 260}, ink)
    check = calibration(run, moment, held_out)
    return kept(
        {
            "pit": picture(pit_figure(check, ink), "PIT histograms of both models.", ink),
            "coverage": picture(coverage_figure(check, ink), "Coverage of both models.", ink),
        },
        run.dataset.name,
    )


def _waiting(heights: dict[str, int], ink: Ink) -> Elements:
    """Pictures that need the run itself, while its film plays or there is nothing yet."""
    words = "Shown as soon as it is computed."
    return {
        name: picture(saying(words, ink, height), words, ink) for name, height in heights.items()
    }


def _number(value: float) -> str:
    """A number of four digits or more as a person writes it: a year is 1978, not 1.98e+03."""
    if value and not 1e-4 <= abs(value) < 1e9:
        return f"{value:.3g}".replace("-", "−")
    decimals = max(1, 3 - int(np.floor(np.log10(abs(value))))) if value else 1
    return np.format_float_positional(round(value, decimals), trim="-").replace("-", "−")


def _place(run: Run, x: np.ndarray) -> str:
    names = run.dataset.input_names
    shown = [f"{name} = {_number(value)}" for name, value in zip(names, x, strict=True)][:4]
    return ", ".join(shown) + (", …" if len(x) > 4 else "")


def kept(elements: Elements, name: str) -> Elements:
    """Zoom and pan survive as long as the picture is of the same thing."""
    for element in elements.values():
        if "figure" in element:
            element["figure"]["layout"]["uirevision"] = name
    return elements


def can_look(run: Run) -> bool:
    """Whether a click may choose x*: a picture of hundreds of inputs has no such place."""
    return run.dataset.X.shape[1] <= MOST_STAR


def place_clicked(run: Run, moment: Snapshot, where: dict, noise: bool) -> np.ndarray | None:
    """The inputs under a click in a curve over them: at its x, or the row of its rank."""
    rows = along(run, moment, noise)
    if rows.x is None:
        row = where.get("row")
        return rows.rows[row] if isinstance(row, int) and 0 <= row < len(rows.rows) else None
    x = where.get("x")
    if not isinstance(x, int | float) or not np.isfinite(x):
        return None
    place = rows.rows[0].copy()
    place[run.scaler.kept] = x
    return place


def most_apart(run: Run, moment: Snapshot, noise: bool, measure: Measure) -> np.ndarray:
    """The inputs at which the two models disagree most."""
    rows = along(run, moment, noise)
    if rows.wasserstein is None:
        measure = "total_variation"
    return rows.rows[rows.most(measure)]


def star_row(run: Run, star: tuple[float, ...]) -> np.ndarray:
    """The inputs at which the mixture is shown: those that were chosen, else the data's middle."""
    # Column by column: a median needs a copy of what it is of.
    medians = run.gallery.get("median", lambda: np.array([np.median(x) for x in run.dataset.X.T]))
    x = medians.copy()
    if len(star) <= len(x):
        x[: len(star)] = star
    return x


def first_star(run: Run, star: tuple[float, ...]) -> tuple[float, ...]:
    """Where x* is marked: the place that was chosen, or of one or two inputs the data's middle."""
    if star or run.dataset.X.shape[1] > 2:
        return star
    return tuple(float(value) for value in star_row(run, ()))


def star_words(run: Run, x: np.ndarray, chosen: bool = True) -> str:
    """Where that is."""
    middle = len(x) > 2 and not chosen
    return f"the mixture at {'the median row' if middle else _place(run, x)}"


def _before(run: Run, look: Look) -> Elements:
    """The data alone, until the start values are there."""
    data, ink, L = run.dataset, look.ink, run.model.layers
    y, places = data.Y[:, 0], np.flatnonzero(run.scaler.kept)
    names = tuple(data.input_names[d] for d in places)
    if len(places) == 1:
        x = data.X[:, places[0]]
        figure = data_figure(x, y, names[0], data.output_names[0], ink, classes=data.classes)
        figure["layout"]["meta"] = _clicks(run)
    elif len(places) == 2:
        X = data.X[:, places]
        figure = plane_data_figure(X, y, names, data.output_names[0], data.classes, ink)
        figure["layout"]["meta"] = _clicks(run)
    else:
        figure = outcome_figure(y, data.output_names[0], data.classes, ink)
    alt = "The data, before any model has seen them."
    return {
        "deep": picture(figure, alt, ink),
        "rival": picture(figure, alt, ink),
        "bound": picture(bound_figure(NOTHING, NOTHING, ink), "No bound yet.", ink),
        "bound_words": {"text": "The bound is known after the first step."},
        **_waiting({f"layer_{l}": LINE if len(places) == 1 else SMALL for l in range(L)}, ink),
        **{f"layer_{l}_title": {"text": f"**{_capital(layer_title(l, L))}**"} for l in range(L)},
    }


def bound_words(seen: Any) -> str:
    """The newest bound of each model as the sum that it is."""

    def words(name, panel):
        kl = sum(panel.kl)
        text = f"{name} **{panel.bound:,.0f}** = fit {panel.fit:,.0f} − KL {kl:,.0f}"
        return text.replace("-", "−")

    if not np.isfinite(seen.deep.bound):
        return "The bound is known after the first step."
    if len(seen.layers) == 1:
        return words("One layer", seen.deep) + "."
    return words("Deep", seen.deep) + "; " + words("single", seen.rival) + "."


def meter_words(departure: float, last: bool) -> str:
    """How far a layer is from its mean function, in words."""
    if last:
        return "The last layer makes the prediction."
    change = f"How much this layer changes its input: {departure:.0%}"
    if departure < 0.05:
        return f"{change}. It is off: it passes its input on."
    return f"{change}."


def picture(figure: dict, alt: str, ink: Ink) -> dict:
    return {"figure": figure, "alt": alt, "paper": ink.paper}


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
