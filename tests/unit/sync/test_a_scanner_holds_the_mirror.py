"""A pass enters the mirror on Windows although a virus scanner holds what is renamed (law 3)."""

from __future__ import annotations

import errno
import sys
from pathlib import Path

import pytest

from stitch import files
from stitch.layout import PassRef
from stitch.sync.status import Status
from tests.unit.sync.conftest import Machine, World
from tests.unit.sync.test_a_seal_that_is_not_believed_fetches_nothing import publish, seal

REF = PassRef(1, "nu")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every rename of a file or a folder fails twice; the names that were held."""
    rename, tries = Path.rename, dict[tuple[Path, Path], int]()
    names: list[str] = []

    def busy(path: Path, target: Path) -> Path:
        tries[path, target] = tries.get((path, target), 0) + 1
        if tries[path, target] < 3:
            names.append(path.name)
            raise PermissionError(errno.EACCES, "held by a scanner")
        return rename(path, target)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(files, "_PAUSE_S", 0.0)
    monkeypatch.setattr(Path, "rename", busy)
    return names


@pytest.fixture
def machine(world: World) -> Machine:
    return world.machine("reader")


def test_a_download_lands(world: World, machine: Machine, held: list[str]) -> None:
    fits = seal(REF, record=None)
    publish(world, REF, fits)
    status, here = machine.passes.pull(REF)
    assert status is Status.DOWNLOADED
    assert here is not None
    assert here.model.read_bytes() == b"weights"
    assert held == 2 * [fits.model_file] + 2 * ["sites-nu-pass_001"]


def test_a_trained_pass_is_sealed(machine: Machine, held: list[str]) -> None:
    stage = machine.mirror.stage(REF)
    stage.model_path("bin").write_bytes(b"weights")
    assert machine.mirror.seal(stage, seal(REF, record=None)).model.read_bytes() == b"weights"
    assert held == 2 * ["pass"]


def test_work_that_another_seal_beat_is_set_aside(world: World, machine: Machine, held: list[str]) -> None:
    stage = machine.mirror.stage(REF)
    stage.model_path("bin").write_bytes(b"other weights")
    machine.mirror.seal(stage, seal(REF, model=b"other weights", record=None))
    publish(world, REF, seal(REF, record=None))
    status, here, aside = machine.passes.adopt(REF)
    assert status is Status.DOWNLOADED
    assert here is not None
    assert here.model.read_bytes() == b"weights"
    assert aside is not None
    assert (aside / "model.bin").read_bytes() == b"other weights"
    assert "pass_001" in held
