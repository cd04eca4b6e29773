"""The services that tests share. One that cannot be started fails its tests: nothing is skipped."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from stitch.testing.azurite import Azurite, shared_azurite


def pytest_configure() -> None:
    """Take back what `nohup` or a shell's background set: tests send these signals to their children."""
    for name in ("SIGINT", "SIGQUIT", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Azurite]:
    """One Azurite for all workers of this test run."""
    meeting = tmp_path_factory.getbasetemp()
    if hasattr(request.config, "workerinput"):
        meeting = meeting.parent
    with shared_azurite(Path(__file__).parent / "services" / "azurite", meeting) as server:
        yield server
