"""Where random histories live."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

RAM_DISK = Path("/dev/shm")  # noqa: S108  every mirror is flushed again and again: a disk would take minutes


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the mirrors, and for what the stores read and write in passing."""
    with tempfile.TemporaryDirectory(dir=RAM_DISK if RAM_DISK.is_dir() else None) as name:
        (Path(name) / "tmp").mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(Path(name) / "tmp"))
        yield Path(name)
