"""Starting points: the first moments of the default model on every toy of one input, as stored.

A first visitor of a fresh server watches them while the real step compiles; nothing is computed to
show them. `python -m datasets.starts` makes the files anew.
"""

from dataclasses import fields
from functools import lru_cache
from pathlib import Path

import numpy as np

from datasets.toys import TOYS
from dgp_core.data import Dataset
from dgp_core.live.run import Run
from dgp_core.live.views import LayerPanel, Panel, View1D, view_1d
from dgp_core.model import ModelSpec
from dgp_core.train import TrainSpec

FOLDER = Path(__file__).parent / "films"

MODEL = ModelSpec(layers=2, inducing=25)
"""What the films show; a page that starts with another model has no film."""

TRAIN = TrainSpec(steps=20_000, learning_rate=0.01, minibatch=None, decay=False)

STEPS = (0, 3, 7, 12, 20, 30, 45, 65, 100, 150, 220, 300)
"""The moments of a film."""

NAMES = tuple(name for name, toy in TOYS.items() if len(toy.input_names) == 1)
"""Toys that have one."""


def record(dataset: Dataset, steps: tuple[int, ...] = STEPS) -> list[View1D]:
    """The moments of a run at these steps, computed now."""
    run, views = Run(dataset, MODEL, TRAIN), []
    run.prepare()
    run.advance()
    for step in steps:
        while run.latest is not None and run.latest.step < step:
            run.step(step - run.latest.step)
            run.advance()
        if run.latest is None or run.latest.step != step:
            raise RuntimeError(f"The run ended before step {step}: {run.reason}")
        views.append(view_1d(run, run.latest))
    return views


def film(name: str) -> list[View1D]:
    """The stored moments of a toy at its defaults, in order; none where the toy has no film."""
    return list(_film(name))


@lru_cache(maxsize=len(NAMES))
def _film(name: str) -> tuple[View1D, ...]:
    path = FOLDER / f"{name}.npz"
    if name not in NAMES or not path.is_file():
        return ()
    data = TOYS[name].generate()
    with np.load(path, allow_pickle=False) as stored:
        arrays = {key: stored[key] for key in stored.files}
    return tuple(_frame(arrays, data, i) for i in range(len(arrays["step"])))


def save(name: str, views: list[View1D]) -> None:
    """Writes a film: half precision, densities as bytes, moments stacked."""
    arrays: dict[str, np.ndarray] = {"step": np.array([view.step for view in views], np.int32)}
    for part, panels in _parts(views).items():
        for field in fields(panels[0]):
            values = np.stack([np.asarray(getattr(panel, field.name)) for panel in panels])
            if field.name == "density":
                top = values.max((1, 2))
                values = np.round(255 * values / top[:, None, None]).astype(np.uint8)
                arrays[f"{part}.density_top"] = top
            elif field.name in SHARED:
                values = values[0]
            elif values.dtype.kind == "f" and values.ndim > 1 and field.name != "kl":
                values = values.astype(np.float16)
            arrays[f"{part}.{field.name}"] = values
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(FOLDER / f"{name}.npz", allow_pickle=False, **arrays)


SHARED = ("x", "levels", "density_y", "title")
"""What is the same at every moment, and kept once."""


def _parts(views: list[View1D]) -> dict[str, list]:
    """Each panel of a view, through all moments."""
    layers = {f"layer{l}": [view.layers[l] for view in views] for l in range(len(views[0].layers))}
    return {"deep": [v.deep for v in views], "rival": [v.rival for v in views], **layers}


def _frame(arrays: dict[str, np.ndarray], data: Dataset, i: int) -> View1D:
    """One moment back from the file."""

    def value(part: str, name: str):
        stored = arrays[f"{part}.{name}"]
        if name in SHARED:
            return str(stored) if name == "title" else stored
        if name == "density":
            return stored[i] * (arrays[f"{part}.density_top"][i] / 255)
        if name == "kl" and stored.ndim > 1:
            return tuple(float(k) for k in stored[i])
        return float(stored[i]) if stored.ndim == 1 else stored[i].astype(np.float64)

    def panel(kind, part: str):
        return kind(**{field.name: value(part, field.name) for field in fields(kind)})

    layers = tuple(panel(LayerPanel, f"layer{l}") for l in range(MODEL.layers))
    return View1D(
        step=int(arrays["step"][i]),
        x=layers[0].x,
        x_name=data.input_names[0],
        y_name=data.output_names[0],
        data_x=data.X[:, 0],
        data_y=data.Y[:, 0],
        deep=panel(Panel, "deep"),
        rival=panel(Panel, "rival"),
        layers=layers,
        noise_included=True,
    )


def main() -> None:
    for name in NAMES:
        save(name, record(TOYS[name].generate()))
        print(f"{name}: {(FOLDER / f'{name}.npz').stat().st_size / 1024:,.0f} KB")


if __name__ == "__main__":
    main()
