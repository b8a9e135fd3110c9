"""What a picture of a moment needs: computed once, compiled, shared by all who watch it."""

from dgp_core.live.gallery import Gallery
from dgp_core.live.views_1d import (
    ClassPanel,
    LayerPanel,
    Panel,
    View1D,
    has_view_1d,
    view_1d,
)

__all__ = ["ClassPanel", "Gallery", "LayerPanel", "Panel", "View1D", "has_view_1d", "view_1d"]
