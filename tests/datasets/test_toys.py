"""Toys: right shapes, the same rows for the same seed, and a truth that the noiseless rows obey."""

import numpy as np
import pytest

from datasets.toys import TOYS, drawn, fresh_rows, truth
from dgp_core.gp.references import LeastSquares

EXPECTED = {
    "step": (1, "regression"),
    "ramp": (1, "regression"),
    "sawtooth": (1, "regression"),
    "chirp": (1, "regression"),
    "growing_noise": (1, "regression"),
    "two_branches": (1, "regression"),
    "nearly_linear": (1, "regression"),
    "composition": (1, "regression"),
    "arm": (8, "regression"),
    "ridge": (2, "regression"),
    "spiral": (2, "binary"),
    "pinwheel": (2, "multiclass"),
    "rectangles": (144, "binary"),
    "digits": (100, "multiclass"),
}


def test_every_toy_of_the_list_is_there():
    assert {name: (len(t.input_names), t.task) for name, t in TOYS.items()} == EXPECTED


@pytest.mark.parametrize("toy", TOYS.values(), ids=list(TOYS))
def test_a_toy_is_well_formed_and_seeded(toy):
    a, b, c = toy.generate(seed=1), toy.generate(seed=1), toy.generate(seed=2)
    assert a.X.shape == (toy.n, len(toy.input_names)) and a.Y.shape == (toy.n, 1)
    assert np.isfinite(a.X).all() and np.isfinite(a.Y).all()
    assert np.array_equal(a.X, b.X) and np.array_equal(a.Y, b.Y)
    assert not np.array_equal(a.X, c.X)
    assert len(a.story) > 40 and 1 <= a.story.count(".") + a.story.count("?") <= 3
    assert len(toy.generate(n=17)) == 17
    if toy.classes:
        assert set(np.unique(a.Y)) == set(range(len(toy.classes)))


@pytest.mark.parametrize("name", [n for n, t in TOYS.items() if t.truth])
def test_noiseless_rows_lie_on_the_truth(name):
    for seed in (0, 5):
        d = TOYS[name].generate(n=200, noise=0, seed=seed)
        F = truth(name, d.X, seed)
        assert F is not None and F.shape[0] == 200
        # Where a row has several right answers, it must be one of them.
        assert np.abs(d.Y - F).min(1).max() == 0


@pytest.mark.parametrize("name", [n for n, (_, task) in EXPECTED.items() if task == "regression"])
def test_the_noise_has_the_size_asked_for(name):
    scale = 0.1
    a = TOYS[name].generate(n=4000, noise=scale, seed=3)
    F = truth(name, a.X, 3)
    assert F is not None
    r = np.abs(a.Y - F).min(1) if F.shape[1] > 1 else (a.Y - F)[:, 0]
    if name == "growing_noise":
        s = 0.1 + 0.9 * a.X[:, 0]
        left, right = r[a.X[:, 0] < 0.2], r[a.X[:, 0] > 0.8]
        assert right.std() > 3 * left.std()
        assert np.isclose((r / s).std(), scale, rtol=0.05)
    elif F.shape[1] == 1:
        assert np.isclose(r.std(), scale, rtol=0.05) and abs(r.mean()) < 4 * scale / 4000**0.5
    else:
        # Far from the fork the nearer branch is the row's own.
        assert np.isclose(np.sqrt((r[a.X[:, 0] > 0.6] ** 2).mean()), scale, rtol=0.1)


def test_the_two_branches_are_both_taken():
    d = TOYS["two_branches"].generate(n=400, noise=0, seed=0)
    right = d.X[:, 0] > 0
    assert 0.4 < (d.Y[right] > 0).mean() < 0.6 and np.all(d.Y[~right] == 0)


def test_the_composition_has_the_deep_prior_s_covariance():
    """Over many seeds: E[f] = 0, Var[f] = 1, and the two-layer kernel of f at two points.

    Cov[f(x), f(x')] = E exp(−½ (x − x' + g(x) − g(x'))²), with g(x) − g(x') ~ N(0, s²) and
    s² = 2 (1 − k(x, x')), which is exp(−½ d² / (1 + s²)) / √(1 + s²) at d = x − x'.
    """
    x = np.array([[-0.4], [0.6]])
    F = np.hstack([truth("composition", x, seed) for seed in range(3000)])
    s2 = 2 * (1 - np.exp(-0.5))
    expected = np.exp(-0.5 / (1 + s2)) / np.sqrt(1 + s2)
    assert np.abs(F.mean(1)).max() < 0.08
    assert np.allclose((F**2).mean(1), 1, atol=0.12)
    assert np.isclose((F[0] * F[1]).mean(), expected, atol=0.08)


def test_the_arm_s_distance_is_that_of_its_tip():
    """A straight arm ends at (1, 0); bent up by a right angle at its root, at (0, 1)."""
    X = np.zeros((2, 8))
    X[1, 0] = np.pi / 2
    assert np.allclose(truth("arm", X), np.hypot(0.75, 0.25))
    X[0, 4] = np.pi / 2  # half the arm along x, half along y: tip at (0.5, 0.5)
    assert np.allclose(truth("arm", X)[0], np.hypot(0.25, 0.25))


def test_the_ridge_is_constant_along_one_direction():
    X = np.random.default_rng(0).uniform(-1, 1, (50, 2))
    along = np.array([2.0, -1.0])
    assert np.allclose(truth("ridge", X), truth("ridge", X + 0.3 * along))
    assert not np.allclose(truth("ridge", X), truth("ridge", X + 0.3 * np.array([1.0, 2.0])))


def test_rectangles_are_taller_or_wider_as_their_label_says():
    d = TOYS["rectangles"].generate(n=300, noise=0, seed=4)
    bright = d.X.reshape(-1, 12, 12) > 0.5
    height, width = bright.any(2).sum(1), bright.any(1).sum(1)
    assert np.array_equal(bright.sum((1, 2)), height * width)  # one filled rectangle a picture
    assert np.array_equal(height > width, d.Y[:, 0] == 1)
    assert np.abs(height - width).min() >= 2
    noisy = TOYS["rectangles"].generate(n=50, seed=4).X
    assert noisy.min() >= 0 and noisy.max() <= 1 and noisy.std(1).min() > 0


def test_no_pixel_and_no_weighted_sum_of_pixels_tells_tall_from_wide():
    """Of fresh rows, least squares gets as many as a coin does."""
    train, fresh = (TOYS["rectangles"].generate(n=2000, seed=seed) for seed in (1, 2))
    alone = np.corrcoef(fresh.X.T, fresh.Y[:, 0])[-1, :-1]
    assert np.abs(alone).max() < 0.15
    fitted = LeastSquares.fit(train.X, 2 * train.Y - 1).predict(fresh.X)
    assert 0.45 < np.mean((fitted.mean > 0) == (fresh.Y > 0.5)) < 0.55


def test_digits_are_in_their_frame_as_many_of_each_and_can_be_read():
    """Another hand's digit is nearest to a digit of its own kind."""
    known, other = (TOYS["digits"].generate(n=n, seed=seed) for n, seed in ((500, 5), (200, 6)))
    assert known.X.min() >= 0 and known.X.max() <= 1
    assert np.array_equal(np.bincount(known.Y[:, 0].astype(int)), [50] * 10)
    ink = TOYS["digits"].generate(n=500, noise=0, seed=5).X.reshape(-1, *TOYS["digits"].image)
    edges = ink[:, 0].mean(), ink[:, -1].mean(), ink[:, :, 0].mean(), ink[:, :, -1].mean()
    assert max(edges) < 0.75 * ink.mean()
    nearest = np.square(other.X[:, None] - known.X).sum(2).argmin(1)
    assert np.mean(known.Y[nearest, 0] == other.Y[:, 0]) > 0.85


def test_a_bad_size_or_noise_gets_a_sentence():
    with pytest.raises(ValueError, match="at least 2 rows"):
        TOYS["step"].generate(n=1)
    with pytest.raises(ValueError, match="noise must be 0 or more"):
        TOYS["step"].generate(noise=-1)
    with pytest.raises(ValueError, match="noise must be 0 or more"):
        TOYS["step"].generate(noise=float("nan"))


def test_drawn_points_become_a_curve_or_classes():
    points = [(0, 1), (1, 2), (2, 0)]
    curve = drawn(points)
    assert curve.task == "regression" and curve.X.tolist() == [[0], [1], [2]]
    assert curve.Y.tolist() == [[1], [2], [0]]
    two = drawn(points, ["red", "blue", "red"])
    assert two.task == "binary" and two.classes == ("blue", "red")
    assert two.Y.tolist() == [[1], [0], [1]] and two.X.shape == (3, 2)
    assert drawn(points, [0, 1, 2]).task == "multiclass"


@pytest.mark.parametrize(
    ("points", "labels", "sentence"),
    [
        ([], None, "at least two points"),
        ([(0, 1)], None, "at least two points"),
        ([(0, 1), (1, 1)], ["a"], "2 points but 1 labels"),
        ([(0, 1), (1, 1)], ["a", "a"], "second class"),
        ([(0, 1), (1, float("nan"))], None, "finite"),
    ],
)
def test_points_that_make_no_set_get_a_sentence(points, labels, sentence):
    with pytest.raises(ValueError, match=sentence):
        drawn(points, labels)


@pytest.mark.parametrize("name", TOYS)
def test_fresh_rows_are_of_the_same_function(name):
    rows = fresh_rows(name, 50, seed=1000)
    assert len(rows) == 50 and not np.array_equal(rows.X[:5], TOYS[name].generate().X[:5])
    own = truth(name, rows.X)
    if own is None:
        return
    off = np.abs(rows.Y - own).min(1)
    if rows.classes:
        assert (off == 0).mean() > 0.8  # the noise moves inputs across a border
    else:
        assert off.max() < 6 * TOYS[name].noise
