"""Folders in the machine's temporary folder: who may look, who tidies up, and when there is no room."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stitch.errors import DiskError
from stitch.files import scratch
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore

_HELD = """
import sys
from stitch.files import scratch
with scratch() as folder:
    (folder / "model").write_bytes(b"a site's model")
    print(folder, flush=True)
    sys.stdin.read()
"""
_HOUR_AGO_S = 4000


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def held(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that is at work in its scratch folder, and that folder."""
    pipe, environ = subprocess.PIPE, {**os.environ, "TMPDIR": str(place), "TEMP": str(place)}
    process = subprocess.Popen([sys.executable, "-c", _HELD], env=environ, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def age(folder: Path) -> None:
    """Nobody has touched it for an hour."""
    then = folder.stat().st_mtime - _HOUR_AGO_S
    os.utime(folder, (then, then))


@pytest.mark.skipif(
    sys.platform == "win32", reason="Windows gives each account a temporary folder of its own"
)
def test_nobody_else_can_look_and_nothing_stays() -> None:
    with scratch() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "model").write_bytes(b"a site's model")
    assert not folder.exists()


def test_what_a_killed_process_left_is_removed_by_the_next_and_no_one_elses(tmp_path: Path) -> None:
    dead, left = held(tmp_path)
    dead.send_signal(signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)
    dead.communicate()
    living, busy = held(tmp_path)
    fresh = left.with_name(f"{left.name}x")
    others = [tmp_path / "stitch-of-somebody", tmp_path / f"stitch-elsewhere-{dead.pid}-abc"]
    for folder in (fresh, *others):
        folder.mkdir()
    for folder in (left, busy, *others):
        age(folder)
    assert (left / "model").exists()
    with scratch():
        assert not left.exists()
        assert all(folder.exists() for folder in (busy, fresh, *others))
    living.communicate("")
    assert living.returncode == 0


def test_a_temporary_folder_that_is_gone_is_said_as_trouble_of_this_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job's own TMPDIR ends with the job, and a full one refuses alike: no defect to be reported."""
    lanes = Lanes("trial", {"global": MemoryStore()}, {})
    lanes.write("global/manifest.json", b"{}", mode="create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(DiskError, match="gone"):
        lanes.read("global/manifest.json", limit=10)
    with pytest.raises(DiskError, match="gone"):
        lanes.write("global/DONE.json", b"{}", mode="create")
