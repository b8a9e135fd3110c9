"""What a picture of a moment needs: computed once, compiled, shared by all who watch it."""

from typing import TYPE_CHECKING

from dgp_core.live.views.gallery import Gallery
from dgp_core.live.views.one_input import (
    ClassPanel,
    LayerPanel,
    Panel,
    View1D,
    has_view_1d,
    view_1d,
)
from dgp_core.live.views.table import (
    HiddenPanel,
    Relevance,
    Reliability,
    Response,
    TablePanel,
    ViewMany,
    view_many,
)
from dgp_core.live.views.two_inputs import PlanePanel, View2D, WarpPanel, view_2d
from dgp_core.training.generic import Size
from dgp_core.training.programs import Program

if TYPE_CHECKING:
    from dgp_core.live.run import Run, Snapshot

__all__ = [
    "ClassPanel",
    "Gallery",
    "HiddenPanel",
    "LayerPanel",
    "Panel",
    "PlanePanel",
    "Relevance",
    "Reliability",
    "Response",
    "TablePanel",
    "View1D",
    "View2D",
    "ViewMany",
    "WarpPanel",
    "has_view",
    "has_view_1d",
    "view",
    "view_1d",
    "view_2d",
    "view_many",
    "view_programs",
]


def view_programs(size: Size) -> tuple[Program, ...]:
    """The programs that pictures of a size class need."""
    names = ("ready", "marginals", "roots") if size.inputs == 1 else ("ready", "marginals")
    return tuple(Program(name, size.of_layers) for name in names)


def has_view(run: "Run") -> bool:
    """Whether there is anything to draw: a set without rows has no picture."""
    return len(run.dataset) > 0


def view(run: "Run", snapshot: "Snapshot", noise: bool = True) -> View1D | View2D | ViewMany:
    """A moment of a run by the number of its varying inputs: a curve, a plane, or a table.

    Without `noise`, a curve's density and bands are of the function alone; the others differ not.
    """
    n_inputs = int(run.scaler.kept.sum())
    if n_inputs == 1:
        return view_1d(run, snapshot, noise=noise)
    return view_2d(run, snapshot) if n_inputs == 2 else view_many(run, snapshot)
