"""Stored starting points: one for every toy of the playground, and never stale."""

from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from datasets import catalogue, moments, starts
from datasets.toys import GAP_POINTS, drawn
from dgp_core.gp.model import ModelSpec
from dgp_core.live.poor_starts import begin_with
from dgp_core.live.run import Run
from dgp_core.live.views.playground import Relevance, Reliability, TablePanel, view
from pages.ui.choices import Choices, write_points

pytestmark = pytest.mark.usefixtures("quick_compilation")


def assert_close(stored, computed, tolerance: float, name: str = "") -> None:
    """Two trees have the same shape, and every array agrees to a share of its own range."""
    assert type(stored) is type(computed), name
    if is_dataclass(computed):
        for field in fields(computed):
            parts = (getattr(side, field.name) for side in (stored, computed))
            assert_close(*parts, tolerance, f"{name}.{field.name}")
    elif isinstance(computed, tuple):
        assert len(stored) == len(computed), name
        for i, parts in enumerate(zip(stored, computed, strict=True)):
            assert_close(*parts, tolerance, f"{name}[{i}]")
    elif computed is None or isinstance(computed, str | bool | int):
        assert stored == computed, name
    else:
        a, b = np.asarray(stored), np.asarray(computed)
        assert a.dtype == b.dtype and a.shape == b.shape, name
        room = tolerance * np.nan_to_num(np.abs(b)).max(initial=1.0)
        np.testing.assert_allclose(a, b, rtol=0, atol=room, err_msg=name)


def heights(panel) -> np.ndarray:
    """What a model predicts, whatever the view."""
    found = {"mean", "value", "predicted"} & {field.name for field in fields(panel)}
    return getattr(panel, found.pop())


@pytest.mark.parametrize("name", catalogue.names("toy"))
def test_every_toy_has_a_film_that_moves(name):
    film = starts.film(name)
    assert tuple(view.step for view in film) == starts.STEPS
    assert film[-1].deep.bound > film[1].deep.bound
    assert all(np.isfinite(heights(view.deep)).all() for view in film)
    moves = [
        np.abs(heights(after.deep) - heights(before.deep)).max()
        for before, after in zip(film[1:], film[2:], strict=False)
    ]
    assert max(moves) > 0.05


@pytest.mark.parametrize("name", starts.NAMES)
def test_a_film_is_of_what_the_playground_starts_with(name):
    choices = Choices(data=name)
    data = choices.dataset
    assert choices.model == starts.model_of(data)
    ends = {name: getattr(starts.TRAIN, name) for name in ("steps", "tolerance", "patience")}
    assert replace(choices.train, **ends) == starts.TRAIN
    assert starts.film_of(data, choices.model) == tuple(starts.film(name)) != ()


def test_a_lesson_s_narrow_digits_have_a_film_of_their_own():
    choices = Choices(data="digits", width=2, likelihood="robust_max")
    narrow = starts.film_of(choices.dataset, choices.model)
    assert narrow == tuple(starts.film("digits_2")) != tuple(starts.film("digits"))
    assert tuple(view.step for view in narrow) == starts.STEPS
    assert {view.layers[0].width for view in narrow} == {2}
    assert starts.film_of(choices.dataset, replace(choices, width=3).model) == ()


LATER = {
    ("step", 2, "linear", 0): 5000,
    ("ramp", 2, "linear", 0): 6000,
    ("nearly_linear", 2, "linear", 0): 3000,
    ("two_branches", 2, "linear", 0): 3000,
    ("nearly_linear", 4, "zero", 2): 2000,
    ("nearly_linear", 4, "linear", 2): 2000,
}
"""What lessons ask to wait for, by set, depth, mean function and seed."""


@pytest.mark.parametrize(("run", "step"), LATER.items())
def test_a_run_that_a_lesson_asks_to_wait_for_has_the_moment_stored(run, step):
    data, layers, mean, seed = run
    choices = Choices(data=data, layers=layers, mean=mean, seed=seed)
    seen = starts.later_of(choices.dataset, choices.model, choices.train)
    assert seen is not None and seen.step == step
    before = starts.stored_of(choices.dataset, choices.model)
    assert seen.deep.bound > next(one for one in before if one.step == 100).deep.bound
    another = replace(choices.train, learning_rate=0.05)
    assert starts.later_of(choices.dataset, choices.model, another) is None
    other_seed = replace(choices.train, seed=seed + 1)
    assert starts.later_of(choices.dataset, choices.model, other_seed) is None


def test_stored_moments_show_what_lessons_3_4_5_and_7_say_of_them():
    """The thresholds of these lessons' own sentences."""
    seen = {}
    for name in ("step_later", "ramp_later", "nearly_linear_later", "two_branches_later"):
        (seen[name],) = starts._film(name)
    ahead = {name: view.deep.bound - view.rival.bound for name, view in seen.items()}
    assert min(ahead["step_later"], ahead["ramp_later"]) > 50
    assert abs(ahead["nearly_linear_later"]) < 2 and seen["nearly_linear_later"].layers[0].kl < 1
    assert seen["step_later"].layers[0].kl > 10
    zero, linear = starts._film("four_zero")[-1], starts._film("four_linear")[-1]
    assert zero.rival.bound - zero.deep.bound > 100
    assert linear.rival.bound - linear.deep.bound < 10


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("motorcycle_1", Choices(data="motorcycle", layers=1, inducing=10)),
        ("gap", Choices(data="drawn", points=write_points(GAP_POINTS), layers=3)),
        ("four_zero", Choices(data="nearly_linear", layers=4, mean="zero", seed=2)),
        ("banana", Choices(data="banana")),
        ("ill_zero", Choices(layers=4, mean="zero", seed=1)),
        ("well_zero", Choices(layers=4, seed=1)),
    ],
)
def test_runs_of_lessons_2_4_7_10_and_11_have_a_film(name, choices):
    film = starts.film(name)
    assert starts.film_of(choices.dataset, choices.model) == tuple(film)
    assert tuple(view.step for view in film) == starts.BRIEF
    run = Run(choices.dataset, choices.model, choices.train)
    assert_close(film[0], view(run, run._snapshot(run._make_start().states)), 0.01)


ILL = {name: take for name, take in starts.FILMS.items() if take.ill}


@pytest.mark.parametrize("name", ILL)
def test_what_is_ill_on_purpose_has_a_film_that_no_other_run_shows(name):
    data, take, film = starts.data_of(name), ILL[name], starts.film(name)
    model, train = starts.model_of(data), replace(starts.TRAIN, **take.train)
    assert not set(map(id, film)) & set(map(id, starts.film_of(data, model)))
    data, model, saved = begin_with(take.start, data, model, train)
    run = Run(data, model, train, saved=saved)
    states = run._make_start().states
    if saved is not None:
        states = (saved.state, *states[1:])
    assert_close(film[0], view(run, run._snapshot(states)), 0.01)
    assert [seen.step for seen in film] == list(starts.BRIEF)


def test_films_show_what_lesson_11_says_of_its_ailments():
    last = {name: starts.film(name)[-1].deep for name in (*ILL, "ill_zero", "well_zero")}
    healthy = {"ill_zero": last["well_zero"], "ill_random": starts.film("arm")[-1].deep}
    usual = starts.film("step")[-1].deep
    behind = {name: healthy.get(name, usual).bound - seen.bound for name, seen in last.items()}
    assert behind["ill_random"] > 1000 and behind["ill_scale"] > 1e6
    assert min(behind["ill_zero"], behind["ill_rate"]) > 100
    assert abs(behind["ill_float32"]) < 20


def test_rectangles_are_told_apart_within_their_film():
    """Of wide and tall by the likelier class: what the playground promises of a minute."""
    for panel in (starts.film("rectangles")[-1].deep, starts.film("rectangles")[-1].rival):
        assert np.trace(panel.confusion) / panel.confusion.sum() > 0.85
    first = {view.step: view for view in starts.film("rectangles")}[100]
    assert first.rival.bound > first.deep.bound


def test_other_rows_and_other_models_have_no_film():
    step, banana = catalogue.load("step"), catalogue.load("banana")
    assert starts.film_of(step, ModelSpec(layers=3, inducing=25)) == ()
    assert starts.film_of(banana, starts.model_of(banana)) == ()  # nothing held out
    points = drawn([(0.0, 0.0), (1.0, 1.0)])
    assert starts.film_of(points, starts.model_of(points)) == ()


def test_a_name_is_no_path():
    assert starts.film("../films/step") == starts.film("motorcycle") == starts.film("") == []


def test_all_films_together_are_small():
    assert sum(file.stat().st_size for file in starts.FOLDER.iterdir()) < 3e6


@pytest.mark.parametrize("name", starts.NAMES)
def test_the_first_moment_is_what_a_run_on_that_toy_starts_from(name):
    data = starts.data_of(name)
    run = Run(data, starts.model_of(data), starts.TRAIN)
    assert_close(starts.film(name)[0], view(run, run._snapshot(run._make_start().states)), 0.01)


@pytest.mark.parametrize(("name", "step"), [("step", 45), ("ridge", 20), ("arm", 20)])
def test_a_later_moment_is_what_the_present_code_computes(name, step):
    """Bytes of a grid are 0.2 % of its range; half precision is 0.05 % of a value.

    Not later than this: rounding grows step by step, by step 100 to more than the tolerance.
    """
    (seen,) = starts.record(name, (step,))
    assert_close(starts.film(name)[starts.STEPS.index(step)], seen, 0.03)


def test_a_film_is_shown_without_any_computation(monkeypatch):
    starts._film.cache_clear()
    for kind in ("one_input", "two_inputs", "table"):
        monkeypatch.setattr(f"dgp_core.live.views.{kind}.evaluated", None)
    monkeypatch.setattr("dgp_core.live.run.create_model", None)
    for name in starts.NAMES:
        assert len(starts.film(name)) == len(starts.STEPS)


# The files.


def panel(**changes) -> TablePanel:
    whole = dict.fromkeys((field.name for field in fields(TablePanel)), None)
    return TablePanel(**{**whole, "bound": 1.0, "fit": np.nan, "kl": (0.5, np.nan)} | changes)  # pyright: ignore


def there_and_back(tmp_path, *views) -> tuple:
    moments.save(tmp_path / "film.npz", views)
    return moments.load(tmp_path / "film.npz")


def test_what_changes_its_shape_comes_back_as_it_was(tmp_path):
    bins = [
        Reliability(*np.linspace(0.1, 0.9, 5 * k).reshape(5, k), np.arange(k) + 300) for k in (1, 3)
    ]
    relevance = [Relevance(names, np.ones(2), np.ones(2), 9) for names in (("a", "b"), ("ü", "a"))]
    views = [
        panel(reliability=bins[0], confusion=np.array([[3, 0], [1, 70_000]])),
        panel(reliability=bins[1], confusion=np.array([[-1, 0], [1, 2]]), kl=(0.25,)),
        panel(reliability=None, confusion=None, kl=relevance[0]),
        panel(reliability=None, confusion=None, kl=relevance[1]),
    ]
    for stored, given in zip(there_and_back(tmp_path, *views), views, strict=True):
        assert_close(stored, given, 1e-3)


@pytest.mark.parametrize("scale", [1.0, 1e-7, 1e6])
def test_numbers_too_large_or_too_fine_for_half_precision_keep_their_shape(tmp_path, rng, scale):
    given = [scale * rng.standard_normal(40) for _ in range(2)]
    far = [1000.0 + 0.01 * v / scale for v in given]
    views = [panel(predicted=v, pit=w) for v, w in zip(given, far, strict=True)]
    for stored, v, w in zip(there_and_back(tmp_path, *views), given, far, strict=True):
        np.testing.assert_allclose(stored.predicted, v, atol=0.005 * np.ptp(v))
        np.testing.assert_allclose(stored.pit, w, atol=0.005 * np.ptp(w))


def test_what_a_film_cannot_hold_is_said(tmp_path):
    with pytest.raises(TypeError, match="cannot hold set"):
        moments.save(tmp_path / "film.npz", [panel(kl={1})])
