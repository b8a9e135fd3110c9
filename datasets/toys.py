"""Toys: made-up data with a known truth, each chosen to teach one thing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dgp_core.gp.data import Dataset, Task

RECTANGLE, DIGIT = (12, 12), (10, 10)
"""Height and width of a picture: as few pixels as show the shape."""


@dataclass(frozen=True)
class Toy:
    """One generator, (n, noise, seed) -> Dataset, and what a page says about it."""

    name: str
    title: str
    story: str
    """The one thing that it teaches."""
    draw: Callable[[int, float, int], tuple[np.ndarray, np.ndarray]]
    """(n, noise, seed) -> X (N, D), Y (N, 1)."""
    truth: Callable[[np.ndarray, int], np.ndarray] | None = None
    """(X, seed) -> the noiseless outputs (N, K); K > 1 where a row has several right answers."""
    n: int = 150
    """How many rows to draw where nobody says."""
    noise: float = 0.05
    """How much noise to add where nobody says."""
    task: Task = "regression"
    input_names: tuple[str, ...] = ("x",)
    output_name: str = "y"
    classes: tuple[str, ...] = ()
    image: tuple[int, int] | None = None
    """Height and width, where a row is a picture."""

    def generate(self, n: int | None = None, noise: float | None = None, seed: int = 0) -> Dataset:
        """The rows of this seed: the same three numbers always give the same rows."""
        n = self.n if n is None else n
        noise = self.noise if noise is None else noise
        if n != int(n) or n < 2:
            raise ValueError(f"A toy needs at least 2 rows, not {n}.")
        if not 0 <= noise < np.inf:
            raise ValueError(f"The noise must be 0 or more, not {noise}.")
        X, Y = self.draw(int(n), float(noise), seed)
        return Dataset(
            self.name,
            X,
            Y,
            self.input_names,
            (self.output_name,),
            self.task,
            self.story,
            self.classes,
        )


def _curve(f, low: float, high: float, scale=None):
    """Draws y = f(x) + noise · scale(x) · ε at x uniform on [low, high]."""

    def draw(n, noise, seed):
        rng = np.random.default_rng(seed)
        x = np.sort(rng.uniform(low, high, (n, 1)), 0)
        s = noise * (1.0 if scale is None else scale(x))
        return x, f(x) + s * rng.standard_normal((n, 1))

    return draw


def _step(x):
    return np.where(x > 0, 1.0, -1.0)


def _ramp(x):
    return x + np.where(x > 0, 0.4 * np.sin(8 * np.pi * x), 0.0)


def _sawtooth(x):
    return 2 * ((1.5 * x) % 1) - 1


def _chirp(x):
    return np.sin(2 * np.pi * (x + 4 * x**2))


def _sine(x):
    return np.sin(2 * np.pi * x)


def _nearly_linear(x):
    return 0.8 * x + 0.05 * np.sin(2 * x)


def _branches(x):
    """The two roads (N, 2): one road up to x = 0, then f(x) = ± x."""
    fork = np.maximum(x, 0.0)
    return np.hstack([fork, -fork])


def _draw_branches(n, noise, seed):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-1, 1, (n, 1)), 0)
    side = rng.integers(2, size=n)
    f = _branches(x)[np.arange(n), side][:, None]
    return x, f + noise * rng.standard_normal((n, 1))


def _gp_draw(v: np.ndarray, grid: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """A function drawn from a GP with unit RBF kernel: f(x) = k(x, Z) L⁻ᵀ v, with K(Z, Z) = LLᵀ.

    With Z a grid much finer than the lengthscale, v ~ N(0, I) gives f the prior's covariance
    k(x, Z) K⁻¹ k(Z, x') ≈ k(x, x') inside the grid.
    """

    def k(a, b):
        return np.exp(-0.5 * (a - b.T) ** 2)

    L = np.linalg.cholesky(k(grid, grid) + 1e-8 * np.eye(len(grid)))
    w = np.linalg.solve(L.T, v)
    return lambda x: k(x, grid) @ w


def _composition(x: np.ndarray, seed: int) -> np.ndarray:
    """A draw of the two-layer prior: h = x + g(x), f(h), both g and f drawn from a GP."""
    rng = np.random.default_rng([seed, 2])
    Z, H = np.linspace(-5, 5, 41)[:, None], np.linspace(-10, 10, 81)[:, None]
    g = _gp_draw(rng.standard_normal((len(Z), 1)), Z)
    f = _gp_draw(rng.standard_normal((len(H), 1)), H)
    return f(x + g(x))


def _draw_composition(n, noise, seed):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-3, 3, (n, 1)), 0)
    return x, _composition(x, seed) + noise * rng.standard_normal((n, 1))


def _arm(angles: np.ndarray) -> np.ndarray:
    """Distance from a target to the tip of an arm of eight links that bends in a plane.

    Link k points to φ_k = θ_1 + … + θ_k, and the tip is at Σ_k (cos φ_k, sin φ_k) / 8.
    """
    phi = np.cumsum(angles, 1)
    tip = np.stack([np.cos(phi).mean(1), np.sin(phi).mean(1)], 1)
    return np.linalg.norm(tip - [0.25, 0.25], axis=1)[:, None]


def _draw_arm(n, noise, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-np.pi / 2, np.pi / 2, (n, 8))
    return X, _arm(X) + noise * rng.standard_normal((n, 1))


def _ridge(X: np.ndarray) -> np.ndarray:
    """f(x) = exp(−½ (t / 0.15)²) with t = (x1 + 2 x2) / √5: it varies along one direction only."""
    t = X @ np.array([[1.0], [2.0]]) / np.sqrt(5)
    return np.exp(-0.5 * (t / 0.15) ** 2)


def _draw_ridge(n, noise, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, _ridge(X) + noise * rng.standard_normal((n, 1))


TURNS = 1.5
"""How often a spiral's arm goes round on its way from the centre to radius 1."""
BLADES = 5


def _polar(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.hypot(X[:, 0], X[:, 1]), np.arctan2(X[:, 1], X[:, 0])


def _at(radius, angle):
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)


def _spiral(X: np.ndarray) -> np.ndarray:
    """The nearer arm: arm c has angle 2π · turns · r + π c at radius r."""
    r, a = _polar(X)
    return (np.cos(a - 2 * np.pi * TURNS * r) < 0).astype(float)[:, None]


def _draw_spiral(n, noise, seed):
    rng = np.random.default_rng(seed)
    c = np.arange(n) % 2
    r = np.sqrt(rng.uniform(0.02, 1, n))
    X = _at(r, 2 * np.pi * TURNS * r + np.pi * c)
    return X + noise * rng.standard_normal((n, 2)), c[:, None].astype(float)


def _pinwheel(X: np.ndarray) -> np.ndarray:
    """The nearest blade: blade c has angle 2πc / 5 + r at radius r."""
    r, a = _polar(X)
    return (np.round((a - r) * BLADES / (2 * np.pi)) % BLADES)[:, None]


def _draw_pinwheel(n, noise, seed):
    rng = np.random.default_rng(seed)
    c = np.arange(n) % BLADES
    r = rng.uniform(0.3, 2, n)
    X = _at(r, 2 * np.pi * c / BLADES + r)
    return X + noise * rng.standard_normal((n, 2)), c[:, None].astype(float)


def _texture(n: int, rng: np.random.Generator) -> np.ndarray:
    """Cloudy pictures (N, 12, 12) of unit variance: white noise, blurred by a Gaussian of 1 px."""
    height, width = RECTANGLE
    k = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None])
    blur = np.exp(-0.5 * (2 * np.pi * k) ** 2)
    clouds = np.fft.irfft2(
        np.fft.rfft2(rng.standard_normal((n, height, width))) * blur, s=RECTANGLE
    )
    return clouds / clouds.std((1, 2), keepdims=True)


def _draw_rectangles(n, noise, seed):
    """A brighter rectangle, textured, on a textured ground; the noise is the texture's strength."""
    rng = np.random.default_rng(seed)
    size = np.sort(rng.integers(2, 11, (n, 2)), 1)
    size[:, 1] = np.maximum(size[:, 1], size[:, 0] + 2)
    tall = rng.integers(2, size=n)
    h, w = np.where(tall == 1, size[:, 1], size[:, 0]), np.where(tall == 1, size[:, 0], size[:, 1])
    top, left = rng.integers(0, RECTANGLE[0] - h + 1), rng.integers(0, RECTANGLE[1] - w + 1)
    row, column = np.arange(RECTANGLE[0])[None, :, None], np.arange(RECTANGLE[1])[None, None, :]
    h, w, top, left = (v[:, None, None] for v in (h, w, top, left))
    inside = (row >= top) & (row < top + h) & (column >= left) & (column < left + w)
    ground = 0.25 + noise * _texture(n, rng)
    face = 0.75 + noise * _texture(n, rng)
    pictures = np.clip(np.where(inside, face, ground), 0, 1)
    return pictures.reshape(n, -1), tall[:, None].astype(float)


PEN_STEP = 0.04
"""How far the pen goes from dot to dot, in heights of a digit."""


def _stroke(*corners: tuple[float, float]) -> np.ndarray:
    """Dots (K, 2) along straight lines from corner to corner; x goes right, y down."""
    C = np.array(corners)
    at = np.append(0.0, np.cumsum(np.hypot(*np.diff(C, axis=0).T)))
    t = np.linspace(0, at[-1], int(np.ceil(at[-1] / PEN_STEP)) + 1)
    return np.stack([np.interp(t, at, C[:, 0]), np.interp(t, at, C[:, 1])], 1)


def _arc(x: float, y: float, width: float, height: float, start: float, end: float) -> np.ndarray:
    """Dots along an ellipse around (x, y), from one angle in degrees to another."""
    a = np.radians(np.linspace(start, end, 25))
    return _stroke(*zip(x + width * np.cos(a), y + height * np.sin(a), strict=True))


_DIGITS = (
    (_arc(0.5, 0.5, 0.32, 0.5, 0, 360),),
    (_stroke((0.27, 0.22), (0.55, 0), (0.55, 1)),),
    (_arc(0.5, 0.28, 0.32, 0.28, 190, 395), _stroke((0.76, 0.44), (0.18, 1), (0.86, 1))),
    (_arc(0.45, 0.25, 0.31, 0.25, 200, 450), _arc(0.45, 0.74, 0.35, 0.26, -90, 160)),
    (_stroke((0.68, 1), (0.68, 0), (0.1, 0.68), (0.92, 0.68)),),
    (_stroke((0.8, 0), (0.28, 0), (0.24, 0.45)), _arc(0.47, 0.68, 0.34, 0.32, 225, 510)),
    (
        _stroke((0.68, 0), (0.4, 0.25), (0.23, 0.5), (0.18, 0.72)),
        _arc(0.5, 0.73, 0.32, 0.27, 0, 360),
    ),
    (_stroke((0.15, 0), (0.85, 0), (0.4, 1)),),
    (_arc(0.5, 0.25, 0.27, 0.25, 0, 360), _arc(0.5, 0.75, 0.33, 0.25, 0, 360)),
    (
        _arc(0.5, 0.27, 0.32, 0.27, 0, 360),
        _stroke((0.82, 0.28), (0.77, 0.55), (0.62, 0.8), (0.38, 1)),
    ),
)
"""The strokes of 0 to 9, each in a box of height one."""


def _written(dots: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The dots of a digit as another hand would put them down: bent, slanted, turned, moved."""
    p = dots - 0.5
    phase, bends = rng.uniform(0, 2 * np.pi, 2), rng.uniform(0.3, 0.8, 2)
    p = p + rng.normal(0, 0.05, 2) * np.sin(2 * np.pi * bends * p[:, ::-1] + phase)
    p = p * rng.uniform((0.55, 0.7), (0.85, 0.88))
    slant, turn = rng.normal(0, 0.2), rng.normal(0, 0.12)
    p = p @ [[1.0, 0.0], [-slant, 1.0]]
    p = p @ [[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]
    return p + 0.5 + rng.uniform(-0.06, 0.06, 2)


def _draw_digits(n, noise, seed):
    """Strokes of a soft pen, of another thickness each time; the noise is that of the pixels."""
    rng = np.random.default_rng(seed)
    c = np.arange(n) % len(_DIGITS)
    y, x = (np.indices(DIGIT).reshape(2, -1, 1) + 0.5) / DIGIT[0]
    X = np.empty((n, x.size))
    for i in range(n):
        p = _written(np.concatenate(_DIGITS[c[i]]), rng)
        distance2 = np.square(x - p[:, 0]) + np.square(y - p[:, 1])
        X[i] = np.exp(-0.5 * distance2.min(1) / rng.uniform(0.035, 0.06) ** 2)
    X = np.clip(X + noise * rng.standard_normal(X.shape), 0, 1)
    return X, c[:, None].astype(float)


def _fixed(f):
    """A truth that is the same for every seed."""
    return lambda X, seed=0: f(X)


def _pixels(image: tuple[int, int]) -> tuple[str, ...]:
    return tuple(f"pixel{i}" for i in range(image[0] * image[1]))


_TOYS = (
    Toy(
        "step",
        "Step",
        "A sudden jump. One smooth GP must blur the jump or ripple beside it; a deep GP can "
        "stretch its first layer there and stay flat elsewhere.",
        _curve(_step, -2, 2),
        _fixed(_step),
        n=100,
    ),
    Toy(
        "ramp",
        "Ramp that turns rough",
        "A straight ramp on the left, fast waves on the right: a jump in smoothness. One "
        "lengthscale cannot suit both halves, so a single layer wobbles where nothing happens.",
        _curve(_ramp, -1, 1),
        _fixed(_ramp),
    ),
    Toy(
        "sawtooth",
        "Sawtooth",
        "Slow rises and sudden falls, again and again. It shows that one warped input is not "
        "always enough: each further jump asks more of the first layer.",
        _curve(_sawtooth, -1, 1),
        _fixed(_sawtooth),
    ),
    Toy(
        "chirp",
        "Chirp",
        "A wave that gets faster. Its lengthscale changes smoothly, so a first layer would only "
        "have to bend the axis until the wave is even. See whether training finds that.",
        _curve(_chirp, 0, 1),
        _fixed(_chirp),
        n=200,
        noise=0.1,
    ),
    Toy(
        "growing_noise",
        "Sine with growing noise",
        "The curve is easy; the noise is not, for it grows from left to right. It shows whether "
        "the band of uncertainty follows the data or is one width everywhere.",
        _curve(_sine, 0, 1, scale=lambda x: 0.1 + 0.9 * x),
        _fixed(_sine),
        n=200,
        noise=0.5,
    ),
    Toy(
        "two_branches",
        "Fork in the road",
        "Right of zero there are two right answers. A Gaussian puts its mean between them, where "
        "nothing ever is; a deep GP's mixture need not be Gaussian, but see whether it finds both.",
        _draw_branches,
        _fixed(_branches),
        n=200,
    ),
    Toy(
        "nearly_linear",
        "Nearly a line",
        "Almost a straight line with plain noise. Depth does not help here, and must not hurt: a "
        "good deep GP falls back to its shallow rival.",
        _curve(_nearly_linear, -3, 3),
        _fixed(_nearly_linear),
        n=100,
        noise=0.2,
    ),
    Toy(
        "composition",
        "Drawn from a deep GP",
        "A function drawn from a two-layer deep GP itself, another one for each seed. Here the "
        "model is exactly right, so what is lost is lost to inference, not to assumptions.",
        _draw_composition,
        lambda X, seed=0: _composition(X, seed),
    ),
    Toy(
        "arm",
        "Arm with eight joints",
        "How far the tip of a robot arm is from a target, given its eight joint angles (as in "
        "kin8nm). Each joint turns all that follow: many inputs, strongly mixed, where layers pay.",
        _draw_arm,
        _fixed(_arm),
        n=1000,
        noise=0.02,
        input_names=tuple(f"theta{i}" for i in range(1, 9)),
        output_name="distance",
    ),
    Toy(
        "ridge",
        "Ridge",
        "Two inputs, but only one slanted direction matters. A first layer can learn to look along "
        "it, where a lengthscale for each input cannot turn.",
        _draw_ridge,
        _fixed(_ridge),
        n=300,
        input_names=("x1", "x2"),
    ),
    Toy(
        "spiral",
        "Two spirals",
        "Two classes wound round each other. Near in the plane is not near along the arm: watch "
        "the first layer unroll them until one cut parts them.",
        _draw_spiral,
        _fixed(_spiral),
        n=300,
        noise=0.02,
        task="binary",
        input_names=("x1", "x2"),
        output_name="arm",
        classes=("first", "second"),
    ),
    Toy(
        "pinwheel",
        "Pinwheel",
        "Five curved blades, five classes. It shows several classes at once, and doubt where the "
        "blades meet in the middle and where no data lie.",
        _draw_pinwheel,
        _fixed(_pinwheel),
        n=400,
        noise=0.08,
        task="multiclass",
        input_names=("x1", "x2"),
        output_name="blade",
        classes=("one", "two", "three", "four", "five"),
    ),
    Toy(
        "rectangles",
        "Tall or wide",
        "Pictures of one rectangle on a cloudy ground: is it taller or wider? No single pixel "
        "tells, and no weighted sum of them, only their relation.",
        _draw_rectangles,
        n=1000,
        noise=0.1,
        task="binary",
        input_names=_pixels(RECTANGLE),
        output_name="shape",
        classes=("wide", "tall"),
        image=RECTANGLE,
    ),
    Toy(
        "digits",
        "Drawn digits",
        "Ten digits, each drawn by a program with another slant, stretch and pen. Pixels of one "
        "digit have little in common; watch a hidden layer bring those of one kind together.",
        _draw_digits,
        n=500,
        noise=0.1,
        task="multiclass",
        input_names=_pixels(DIGIT),
        output_name="digit",
        classes=("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
        image=DIGIT,
    ),
)

TOYS = {toy.name: toy for toy in _TOYS}
"""Every toy that is drawn by a generator, by name."""

DRAWN_STORY = (
    "Points that you put down yourself. Try to make the model fail: a gap, a lone point, a cliff."
)

FIRST_POINTS = (
    (-2.5, -1.0),
    (-1.8, -0.8),
    (-1.0, -1.0),
    (-0.3, 0.9),
    (0.4, 1.2),
    (1.1, 1.0),
    (1.9, 0.2),
    (2.6, -0.6),
)
"""A cliff and a hill, for somebody who draws and has not begun."""


def _gap() -> tuple[tuple[float, float], ...]:
    x = np.concatenate([np.linspace(-2, -0.5, 50), np.linspace(0.5, 2, 50)])
    y = np.sign(x) + 0.05 * np.random.default_rng(0).standard_normal(100)
    return tuple((float(f"{a:.4g}"), float(f"{b:.4g}")) for a, b in zip(x, y, strict=True))


GAP_POINTS = _gap()
"""A hundred points on two plains, none between −0.5 and 0.5; to four digits, as a link has them."""


def truth(name: str, X: np.ndarray, seed: int = 0) -> np.ndarray | None:
    """The noiseless outputs (N, K) of a toy at X, or None where there is no such function."""
    toy = TOYS[name]
    return None if toy.truth is None else toy.truth(np.asarray(X, np.float64), seed)


def fresh_rows(name: str, n: int, seed: int, function_seed: int = 0) -> Dataset:
    """Other rows of the function that `function_seed` has: its inputs and noise drawn anew."""
    rows = TOYS[name].generate(n, seed=seed)
    here, there = (truth(name, rows.X, s) for s in (function_seed, seed))
    if here is None or there is None:
        return rows
    return replace(rows, Y=rows.Y + (here - there)[:, :1])


def drawn(points: Sequence | np.ndarray, labels: Sequence | None = None) -> Dataset:
    """What a person clicked: a curve y(x) through the points, or classes in the plane."""
    P = np.asarray(points, np.float64)
    if P.ndim != 2 or P.shape[1] != 2 or len(P) < 2:
        raise ValueError("Put down at least two points, each with an x and a y.")
    if labels is None:
        return Dataset("drawn", P[:, :1], P[:, 1:], ("x",), ("y",), story=DRAWN_STORY)
    names = [str(label) for label in labels]
    if len(names) != len(P):
        raise ValueError(f"There are {len(P)} points but {len(names)} labels: give each its own.")
    classes = tuple(sorted(set(names)))
    if len(classes) < 2:
        raise ValueError("All points have the same label: put down points of a second class.")
    code = {c: float(i) for i, c in enumerate(classes)}
    Y = np.array([[code[c]] for c in names])
    task: Task = "binary" if len(classes) == 2 else "multiclass"
    return Dataset("drawn", P, Y, ("x1", "x2"), ("class",), task, DRAWN_STORY, classes)
