"""For the tests of pages."""

import pytest

from dgp_core.live.run import Run


@pytest.fixture
def uncompiled(monkeypatch):
    """Runs of the pages stay as they are before compilation; measured runs are driven by hand."""
    monkeypatch.setattr(Run, "prepare", lambda run: None)
