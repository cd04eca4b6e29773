"""A rename is tried again while something on Windows holds the file open, and nowhere else."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from stitch import files
from stitch.files import retried, write_file


def refusing(times: int, number: int = errno.EACCES) -> tuple[Callable[[], None], list[int]]:
    """A rename that fails so many times, and a row of its tries."""
    tries: list[int] = []

    def rename() -> None:
        tries.append(len(tries))
        if len(tries) <= times:
            raise PermissionError(number, "held by a scanner")

    return rename, tries


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(files, "_PAUSE_S", 0.0)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EBUSY, errno.ENOTEMPTY])
def test_a_file_held_open_on_windows_is_renamed_when_it_is_let_go(windows: None, number: int) -> None:
    rename, tries = refusing(3, number)
    retried(rename)
    assert len(tries) == 4


def test_what_never_lets_go_is_an_error_in_the_end(windows: None) -> None:
    rename, tries = refusing(10_000)
    with pytest.raises(PermissionError):
        retried(rename)
    assert 10 < len(tries) < 1000


def test_another_refusal_is_an_error_at_once(windows: None) -> None:
    rename, tries = refusing(1, errno.ENOSPC)
    with pytest.raises(OSError, match="scanner"):
        retried(rename)
    assert len(tries) == 1


def test_elsewhere_a_refusal_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    rename, tries = refusing(1)
    with pytest.raises(PermissionError):
        retried(rename)
    assert len(tries) == 1


def test_a_document_whose_target_is_held_open_is_written_whole(
    windows: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "DONE.json").write_bytes(b"old")
    real_replace, held = Path.replace, [1, 2, 3]

    def replace(path: Path, target: Path) -> Path:
        if held:
            held.pop()
            raise PermissionError(errno.EACCES, "held by a scanner")
        return real_replace(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    write_file(tmp_path / "DONE.json", b"new", durable=True)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("DONE.json", b"new")]
