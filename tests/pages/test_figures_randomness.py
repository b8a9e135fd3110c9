"""Pictures of the two randomnesses: what they show, in words, in both inks."""

import numpy as np
import pytest

from dgp_core.gp.model import ModelSpec
from dgp_core.live.views.randomness import noise_view, row_alone
from pages.figures.palette import DARK, LIGHT
from pages.figures.randomness import (
    alone_figure,
    bound_spread_figure,
    direction_figure,
    gradient_noise_figure,
    share_figure,
)
from tests.live.views.test_mixture import curve, moment
from tests.pages.test_figures_mixture import checked, titles, values

pytestmark = pytest.mark.usefixtures("quick_compilation")


@pytest.fixture(scope="module")
def noisy(quick_compilation):  # noqa: F811
    return moment(curve(), ModelSpec(layers=2, inducing=5))


@pytest.fixture(scope="module")
def view(noisy):
    return noise_view(*noisy)


@pytest.mark.parametrize("ink", [LIGHT, DARK])
def test_estimates_of_the_bound_around_the_full_one(view, ink):
    figure = bound_spread_figure(view, 5, 8, ink)
    traces = checked(figure)
    assert titles(figure)[0] == "estimate of the bound (nats)"
    assert figure["layout"]["yaxis"]["ticktext"] == [
        "both redrawn",
        "minibatch redrawn",
        "samples ε redrawn",
    ]
    np.testing.assert_allclose(values(traces["all rows, many samples"]["x"]), view.bound, rtol=1e-5)
    spread = view.spreads[5, 8]
    mean = traces["mean of 400, both redrawn"]
    assert mean["x"] == [pytest.approx(spread.both.mean())]
    assert mean["error_x"]["array"] == [pytest.approx(2 * spread.standard_error)]
    symbols = {traces[w]["marker"]["symbol"] for w in figure["layout"]["yaxis"]["ticktext"]}
    assert len(symbols) == 3


@pytest.mark.parametrize(("by", "n", "first"), [("samples", 3, "B = 8"), ("rows", 5, "S = 1")])
def test_noise_against_samples_and_rows(view, by, n, first):
    figure = gradient_noise_figure(view, LIGHT, by=by)
    traces = checked(figure)
    assert len(traces) == n + 1 and next(iter(traces)) == first
    noise = view.gradients[0]
    table = np.sqrt(noise.total) / noise.norm
    expected = table[:, 0] if by == "samples" else table[0]
    np.testing.assert_allclose(values(traces[first]["y"]), expected, rtol=1e-5)
    assert titles(figure)[0] == ("samples S a row" if by == "samples" else "rows B in a minibatch")


def test_shares_add_up(view):
    for group in (0, 3):
        figure = share_figure(view, 2, DARK, group=group)
        traces = checked(figure)
        total = sum(values(trace["y"]) for trace in traces.values())
        np.testing.assert_allclose(total, 1.0, rtol=1e-5)
        assert next(iter(traces.values()))["x"] == ["8", "32", "all 40"]
        assert len({t["marker"]["pattern"]["shape"] for t in traces.values()}) == 3
    assert values(traces["the rows alone"]["y"])[-1] == pytest.approx(0.0, abs=1e-9)


def test_directions_of_every_group(view):
    figure = direction_figure(view, 20, 40, LIGHT)
    bars = checked(figure)["cosine"]
    assert bars["y"][0] == "all parameters" and len(bars["y"]) == len(view.gradients)
    assert bars["x"][0] == pytest.approx(view.gradients[0].cosine[-1, -1])


def test_a_row_alone_and_among_others(noisy):
    answer = row_alone(*noisy, 3)
    traces = checked(alone_figure(answer, LIGHT))
    alone, among = values(traces["alone"]["y"]), values(traces["among all rows"]["y"])
    assert len(alone) == 16
    np.testing.assert_allclose(alone, among, rtol=1e-5, atol=1e-6)
