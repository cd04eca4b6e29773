"""A mirror on a disk that is full or read-only: named, nothing half-written, and the old stays readable."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stitch.errors import DiskError
from stitch.layout import PassRef
from stitch.mirror import Mirror
from tests.unit.test_mirror import REF, files, seal_for, sealed, staged

_SIZE = 256 * 1024


@dataclass
class Disk:
    """A disk of 256 KB of the test's own, mounted."""

    folder: Path

    def fill(self) -> None:
        """Leave no room."""
        found = os.statvfs(self.folder)
        (self.folder / "other.bin").write_bytes(b"x" * (found.f_bavail * found.f_frsize))

    def free(self) -> None:
        """Make room again."""
        (self.folder / "other.bin").unlink()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Forbid every write, to root too."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.folder)], check=True)
        yield
        subprocess.run(["mount", "-o", "remount,rw", str(self.folder)], check=True)


class _FullFile(io.FileIO):
    """A file that could be made, on a disk without room for its bytes."""

    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@dataclass
class AsIfDisk(Disk):
    """An ordinary folder that refuses as such a disk would, for accounts that may not mount."""

    refusing: int = 0
    opened: Callable[..., Any] = field(default=io.open)

    def fill(self) -> None:
        """See `Disk`."""
        self.refusing = errno.ENOSPC

    def free(self) -> None:
        """See `Disk`."""
        self.refusing = 0

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """See `Disk`."""
        self.refusing = errno.EROFS
        yield
        self.refusing = 0

    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Refuse below the folder from now on, whenever `refusing` says so."""
        monkeypatch.setattr(io, "open", self._open)
        for name in ("mkdir", "rename", "replace"):
            monkeypatch.setattr(os, name, self._guarded(getattr(os, name), lambda *rest: True))
        monkeypatch.setattr(os, "open", self._guarded(os.open, lambda flags=0, *rest: flags & os.O_RDWR))

    def _open(self, file: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
        if self.refusing and self._is_ours(file) and set(mode) & set("wxa+"):
            if self.refusing == errno.ENOSPC:
                return io.BufferedWriter(_FullFile(file, mode.replace("b", "")))
            raise OSError(self.refusing, os.strerror(self.refusing))
        return self.opened(file, mode, *rest, **more)

    def _guarded(self, real: Callable[..., Any], writes: Callable[..., object]) -> Callable[..., Any]:
        def call(path: Any, *rest: Any, **more: Any) -> Any:
            if self.refusing == errno.EROFS and self._is_ours(path) and writes(*rest):
                raise OSError(self.refusing, os.strerror(self.refusing))
            return real(path, *rest, **more)

        return call

    def _is_ours(self, path: object) -> bool:
        return isinstance(path, str | os.PathLike) and Path(path).is_relative_to(self.folder)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """A small disk: root may mount one, for others a folder stands in for it."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(folder)]
    may = sys.platform == "linux" and os.geteuid() == 0
    if not may or subprocess.run(command, capture_output=True, check=False).returncode:
        made = AsIfDisk(folder)
        made.stand_in(monkeypatch)
        yield made
        return
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_named_and_leaves_nothing_half_written(disk: Disk) -> None:
    mirror = Mirror(disk.folder / "trial")
    stage = staged(mirror)
    disk.fill()
    with pytest.raises(DiskError, match="disk is full") as refused:
        mirror.seal(stage, seal_for(b"weights"))
    assert "Free space" in refused.value.hint
    assert mirror.sealed(REF) is None
    assert not (mirror.root / REF.folder).exists()
    assert "metrics.json" not in " ".join(files(disk.folder))
    disk.free()
    assert mirror.seal(stage, seal_for(b"weights")).model.read_bytes() == b"weights"


def test_a_full_disk_refuses_a_document_and_keeps_the_old_one(disk: Disk) -> None:
    mirror = Mirror(disk.folder / "trial")
    mirror.keep("global/DONE.json", b"old")
    disk.fill()
    with pytest.raises(DiskError, match="disk is full"):
        mirror.keep("global/DONE.json", b"new" * 5000)
    assert mirror.read("global/DONE.json") == b"old"
    assert [name for name in files(disk.folder) if name.endswith(".tmp")] == []


def test_a_read_only_mirror_is_named_and_can_still_be_read(disk: Disk) -> None:
    mirror = Mirror(disk.folder / "trial")
    sealed(mirror)
    with disk.read_only():
        assert mirror.sealed(REF) is not None
        for attempt in (
            lambda: mirror.stage(PassRef(2, "nu")),
            lambda: mirror.keep("global/DONE.json", b"new"),
            lambda: mirror.remember_nonce("global", "mine"),
            lambda: mirror.incoming(PassRef(2)),
            lambda: mirror.set_aside(REF),
        ):
            with pytest.raises(DiskError, match="cannot write") as refused:
                attempt()
            assert "writable" in refused.value.hint
        with pytest.raises(DiskError, match="cannot write"), mirror.lock("sites/nu"):
            pass
