"""The services that tests share. One that cannot be started fails its tests: nothing is skipped."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stitch.testing.azurite import Azurite, shared_azurite


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Azurite]:
    """One Azurite for all workers of this test run."""
    meeting = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        meeting = meeting.parent
    with shared_azurite(Path(__file__).parent / "services" / "azurite", meeting) as server:
        yield server
