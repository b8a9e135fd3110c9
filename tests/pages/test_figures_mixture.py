"""Pictures of the mixture: what they show, in words, in both inks."""

import base64
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from dgp_core.gp.model import ModelSpec
from dgp_core.live.views.mixture import along, calibration, mixture_at
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
from pages.figures.palette import DARK, DEEP, LIGHT, SINGLE
from tests.live.views.test_mixture import curve, moment

pytestmark = pytest.mark.usefixtures("quick_compilation")


def values(spec) -> np.ndarray:
    """What `typed` packed, or a plain list."""
    if isinstance(spec, list):
        return np.array(spec)
    flat = np.frombuffer(base64.b64decode(spec["bdata"]), spec["dtype"])
    return flat.reshape([int(n) for n in spec["shape"].split(",")]) if "shape" in spec else flat


def checked(figure: dict) -> dict[str, dict]:
    """The traces by name, once Plotly has passed them and every axis has its words."""
    go.Figure(figure)
    assert figure["layout"]["font"]["color"] in (LIGHT.text, DARK.text)
    traces = {trace["name"]: trace for trace in figure["data"]}
    for trace in figure["data"]:
        assert "hovertemplate" in trace or trace["hoverinfo"] == "skip"
    return traces


def titles(figure: dict) -> tuple[str, str]:
    layout = figure["layout"]
    return layout["xaxis"]["title"]["text"], layout["yaxis"]["title"]["text"]


@pytest.fixture(scope="module")
def gaussian(quick_compilation):  # noqa: F811
    return moment(curve(), ModelSpec(layers=2, inducing=8))


X_STAR = np.array([7.0, 23.0])


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_the_mixture_its_components_its_summary_and_the_rival(gaussian, ink):
    view = mixture_at(*gaussian, X_STAR)
    figure = mixture_figure(view, ink)
    traces = checked(figure)
    assert titles(figure) == ("y", "density")
    deep, rival = traces["deep: the mixture"], traces["single layer"]
    assert deep["line"] == {"color": DEEP, "width": 3, "dash": "solid"}
    assert rival["line"]["color"] == SINGLE and rival["line"]["dash"] == "dash"
    y = values(deep["x"]).astype(float)
    for trace in (deep, rival, traces["Gaussian of the same mean and standard deviation"]):
        assert np.trapezoid(values(trace["y"]), y) == pytest.approx(1.0, abs=5e-3)
    (components,) = [t for name, t in traces.items() if "40 components of weight 1/40" in name]
    taller = int(components["name"].split("drawn ")[1].split()[0])
    gaps = np.flatnonzero(np.isnan(values(components["x"])))
    outlines = zip(
        np.split(values(components["x"]), gaps),
        np.split(values(components["y"]), gaps),
        strict=True,
    )
    summed = sum(
        np.interp(y, x[~np.isnan(x)], h[~np.isnan(x)], left=0, right=0)
        for x, h in outlines
        if np.isfinite(x).any()
    )
    mixture = values(deep["y"])
    np.testing.assert_allclose(summed / taller, mixture, atol=0.02 * mixture.max())
    low, high = figure["layout"]["xaxis"]["range"]
    assert view.frame[0] <= low < view.deep.mean < high <= view.frame[1]

    figure = cdf_figure(view, ink)
    traces = checked(figure)
    assert len(traces) == 3 and "probability" in titles(figure)[1]
    assert np.all(np.diff(values(traces["deep: the mixture"]["y"])) >= 0)
    assert titles(mixture_figure(mixture_at(*gaussian, X_STAR, False), ink))[0] == "y without noise"


def test_variance_is_stacked_from_its_parts(gaussian):
    view, curves = mixture_at(*gaussian, X_STAR), along(*gaussian)
    figure = split_figure(view, LIGHT)
    traces = checked(figure)
    parts = ["between sample paths", "within the last layer", "noise"]
    assert list(traces) == parts and "squared" in titles(figure)[0]
    for name, side in (("deep", view.deep), ("single layer", view.rival)):
        total = sum(t["x"][0] for t in figure["data"] if t["y"] == [name])
        assert total == pytest.approx(side.split.total)
    assert sum(t["showlegend"] for t in figure["data"]) == 3
    assert len({t["marker"]["pattern"]["shape"] for t in traces.values()}) == 3
    assert "between sample paths" in split_words(view.deep.split)

    traces = checked(variance_figure(curves, LIGHT))
    assert set(parts) < set(traces)
    G = len(curves.x)
    top = values(traces["between sample paths"]["y"])[G:][::-1]
    np.testing.assert_allclose(top, curves.deep.total, rtol=1e-5)
    np.testing.assert_allclose(values(traces["total, deep"]["y"]), curves.deep.total, rtol=1e-5)


@pytest.mark.parametrize("measure", ["total_variation", "wasserstein"])
def test_the_farthest_place_is_marked(gaussian, measure):
    curves = along(*gaussian)
    figure = disagreement_figure(curves, measure, DARK)
    traces = checked(figure)
    (most,) = [t for name, t in traces.items() if name.startswith("most")]
    best = curves.most(measure)
    assert most["x"] == [pytest.approx(curves.x[best])] and f"{curves.x[best]:.4g}" in most["name"]
    assert most["y"] == [pytest.approx(curves.values(measure).max())]
    assert titles(figure)[0] == "t0"
    assert ("units of y" in titles(figure)[1]) == (measure == "wasserstein")


def test_with_more_inputs_rows_are_in_order_and_named(gaussian):
    curves = replace(along(*gaussian), x=None)
    figure = disagreement_figure(curves, "total_variation", LIGHT)
    trace = checked(figure)["between deep and single layer"]
    assert np.all(np.diff(values(trace["y"])) <= 0)
    first = curves.rows[curves.most()]
    assert trace["text"][0] == f"same 7, t0 {first[1]:.4g}"
    checked(variance_figure(curves, LIGHT))


def test_calibration_on_held_out_rows(gaussian):
    run, snapshot = gaussian
    check = calibration(run, snapshot, run.dataset)
    figure = pit_figure(check, LIGHT)
    traces = checked(figure)
    assert set(traces) == {
        "95 % of a calibrated model's bars",
        "flat: calibrated",
        "deep",
        "single layer",
    }
    assert values(traces["deep"]["y"]).sum() == 40 and "of 40" in titles(figure)[1]
    assert "pattern" in traces["single layer"]["marker"]
    figure = coverage_figure(check, LIGHT)
    traces = checked(figure)
    np.testing.assert_allclose(values(traces["deep"]["y"]), check.deep.observed, rtol=1e-6)
    assert traces["deep"]["marker"]["symbol"] != traces["single layer"]["marker"]["symbol"]


@pytest.mark.parametrize(
    ("task", "likelihood"),
    [("counts", "poisson"), ("binary", "bernoulli")],
)
def test_counts_and_classes_are_bars(task, likelihood):
    run, snapshot = moment(curve(task), ModelSpec(layers=2, inducing=6, likelihood=likelihood), 0.5)
    view = mixture_at(run, snapshot, X_STAR)
    figure = mixture_figure(view, DARK)
    traces = checked(figure)
    deep = next(t for name, t in traces.items() if name.startswith("deep"))
    assert values(deep["y"]).sum() == pytest.approx(1.0, abs=0.01)
    assert titles(figure) == ("y", "probability")
    assert deep["x"][:2] == {"counts": ["0", "1"], "binary": ["no", "yes"]}[task]
    assert np.all(values(deep["error_y"]["array"]) >= 0)
    figure = cdf_figure(view, DARK)
    if task == "counts":
        assert checked(figure)["deep: the mixture"]["line"]["shape"] == "hv"
    else:
        assert not figure["data"] and "no order" in figure["layout"]["annotations"][0]["text"]
        check = calibration(run, snapshot, run.dataset)
        assert "given" in titles(pit_figure(check, LIGHT))[0]
        assert set(checked(coverage_figure(check, LIGHT))) == {
            "calibrated",
            "deep",
            "single layer",
        }


def test_names_from_outside_are_shown_as_they_are_spelt(gaussian):
    view = replace(mixture_at(*gaussian, X_STAR), y_name="<b>y</b>")
    assert "<b>" not in titles(mixture_figure(view, LIGHT))[0]
    curves = replace(along(*gaussian), x_name="<i>", y_name="<b>")
    figure = disagreement_figure(curves, "wasserstein", LIGHT)
    assert not any("<" in t for t in titles(figure)) and "<i>" not in figure["data"][1]["name"]
