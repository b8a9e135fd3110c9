"""Stored starting points: one for every toy of one input, and never stale."""

from dataclasses import fields

import numpy as np
import pytest

from datasets import starts
from datasets.toys import TOYS
from dgp_core.live.run import Run
from dgp_core.live.views import LayerPanel, Panel, View1D, view_1d


def assert_close(stored, computed, tolerance: float) -> None:
    """Every array of two views agrees, to a share of its own range."""
    for field in fields(computed):
        a, b = getattr(stored, field.name), getattr(computed, field.name)
        if isinstance(b, Panel | LayerPanel):
            assert_close(a, b, tolerance)
        elif field.name == "layers":
            assert len(a) == len(b)
            for one, other in zip(a, b, strict=True):
                assert_close(one, other, tolerance)
        elif isinstance(b, str | bool | int):
            assert a == b, field.name
        else:
            a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
            room = tolerance * np.nan_to_num(np.abs(b)).max(initial=1.0)
            np.testing.assert_allclose(a, b, rtol=0, atol=room, err_msg=field.name)


def test_every_toy_of_one_input_has_a_film_that_moves():
    names = [name for name, toy in TOYS.items() if toy.generate(n=4).X.shape[1] == 1]
    assert tuple(names) == starts.NAMES and len(names) >= 8
    for name in names:
        film = starts.film(name)
        assert tuple(view.step for view in film) == starts.STEPS
        moves = [
            np.abs(after.deep.mean - before.deep.mean).max()
            for before, after in zip(film[1:], film[2:], strict=False)
        ]
        assert max(moves) > 0.05 and film[-1].deep.bound > film[1].deep.bound
        assert all(np.isfinite(view.deep.density).all() for view in film)


def test_a_toy_without_a_film_has_none():
    assert starts.film("arm") == [] and starts.film("../films/step") == []


def test_all_films_together_are_small():
    assert sum(file.stat().st_size for file in starts.FOLDER.iterdir()) < 1.5e6


@pytest.mark.parametrize("name", starts.NAMES)
def test_the_first_moment_is_what_a_run_on_that_toy_starts_from(name):
    run = Run(TOYS[name].generate(), starts.MODEL, starts.TRAIN)
    view = view_1d(run, run._snapshot(run._make_start().states))
    assert isinstance(view, View1D)
    assert_close(starts.film(name)[0], view, 0.01)


def test_a_later_moment_is_what_the_present_code_computes():
    """Bytes of density are 0.2 % of its peak; half precision is 0.05 % of a value.

    Not later than this: rounding grows step by step, by step 100 to more than the tolerance.
    """
    place = starts.STEPS.index(45)
    (view,) = starts.record(TOYS["step"].generate(), (45,))
    assert_close(starts.film("step")[place], view, 0.03)


def test_a_film_is_shown_without_any_computation(monkeypatch):
    starts._film.cache_clear()
    monkeypatch.setattr("dgp_core.live.views_1d._compiled", None)
    assert len(starts.film("step")) == len(starts.STEPS)
