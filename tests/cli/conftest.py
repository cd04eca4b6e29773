"""What every test of the command line starts from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.federation import Federation, Site, build


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    """A lead and a site with honest hooks, nothing run yet, and an empty folder store."""
    return build(tmp_path)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Federation:
    """One federation that ran to its end; only looked at."""
    made = build(tmp_path_factory.mktemp("finished"))
    made.finish_well()
    return made


@pytest.fixture
def finished(once: Federation, tmp_path: Path) -> Federation:
    """A copy of it, to alter."""
    for name in ("rush", "nu", "store"):
        shutil.copytree(once.store.parent / name, tmp_path / name)
    return Federation(Site(tmp_path / "rush"), Site(tmp_path / "nu"), tmp_path / "store")
