"""What every test of the command line starts from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.federation import Federation, build


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """A lead and a site with honest hooks, nothing run yet, and an empty folder store."""
    return build(tmp_path)
