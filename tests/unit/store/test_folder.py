"""What only a folder store does: durable writes, foreign files, read-only mounts, killed writers."""

import errno
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stitch.errors import StoreDenied, StoreUnavailable
from stitch.store import FolderStore
from stitch.store.disk import replace_file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "share"
    root.mkdir()
    return root


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_bytes(b"content")
    return path


def test_what_desktops_sync_clients_and_killed_writers_leave_is_no_key(root: Path) -> None:
    (root / "a").mkdir()
    for name in (
        ".DS_Store", "desktop.ini", "Thumbs.db", "x.part", "x.tmp", ".stitch-00.tmp", "~$b.xlsx", ".a.lock",
    ):  # fmt: skip
        (root / "a" / name).write_bytes(b"?")
    (root / "a" / "model.npz").write_bytes(b"1")
    assert [entry.key for entry in FolderStore(root).list("")] == ["a/model.npz"]


def test_a_push_leaves_nothing_beside_its_key(root: Path, source: Path) -> None:
    store = FolderStore(root)
    store.push(source, "a/b", mode="create")
    assert [path.name for path in (root / "a").iterdir()] == ["b"]


def test_a_push_is_flushed_before_it_appears(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real_fsync, real_link = os.fsync, os.link

    def fsync(descriptor: int) -> None:
        order.append("flush")
        real_fsync(descriptor)

    def link(old: Path, new: Path) -> None:
        order.append("appear" if new.name == "b" else "probe")
        real_link(old, new)

    store = FolderStore(root)
    assert store.traits.atomic_create
    (root / "a").mkdir()
    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "link", link)
    store.push(source, "a/b", mode="create")
    assert order == ["flush", "appear", "flush"], "the file, its name, the folder"


def test_temporary_files_of_writers_killed_long_ago_are_removed(root: Path, source: Path) -> None:
    (root / "a").mkdir()
    old, young = root / "a" / ".stitch-old.tmp", root / "a" / ".stitch-young.tmp"
    for path in (old, young):
        path.write_bytes(b"?")
    two_days_ago = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    os.utime(old, (two_days_ago, two_days_ago))
    FolderStore(root).push(source, "a/b", mode="create")
    assert not old.exists()
    assert young.exists()


def test_two_versions_of_equal_length_within_one_clock_tick_differ_in_etag(root: Path, source: Path) -> None:
    store = FolderStore(root)
    seen = set()
    for turn in range(200):
        source.write_bytes(f"{turn:07d}".encode())
        seen.add(store.push(source, "heartbeat.json", mode="replace").etag)
    assert len(seen) == 200


def test_a_read_only_mount_can_be_read_and_has_no_clock(
    root: Path, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FolderStore(root).push(source, "a", mode="create")
    real_open = Path.open

    def refuse(path: Path, mode: str = "r", *args: object, **kwargs: object) -> object:
        if path.is_relative_to(root) and mode[0] in "wxa":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real_open(path, mode, *args, **kwargs)  # type: ignore[call-overload]  # handed on

    monkeypatch.setattr(Path, "open", refuse)
    store = FolderStore(root)
    assert store.pull("a", tmp_path / "out").size == 7
    assert not store.traits.server_time
    assert abs(store.now() - datetime.now(UTC)) < timedelta(seconds=5)
    with pytest.raises(StoreDenied, match="cannot write b"):
        store.push(source, "b", mode="create")


def test_a_full_share_is_unavailable_and_leaves_no_trace(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable) as caught:
        FolderStore(root).push(source, "b", mode="create")
    assert "full" in caught.value.hint
    assert list(root.iterdir()) == []


def test_nfs_repeating_a_link_whose_reply_was_lost_is_success(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderStore(root)
    assert store.traits.atomic_create
    real_link = os.link

    def link_twice(old: Path, new: Path) -> None:
        real_link(old, new)
        real_link(old, new)

    monkeypatch.setattr(os, "link", link_twice)
    assert store.push(source, "a", mode="create").size == 7


def test_a_target_held_open_on_windows_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "held").write_bytes(b"old")
    real_replace, held = Path.replace, [1, 2, 3]

    def replace(path: Path, target: Path) -> Path:
        if held:
            held.pop()
            raise PermissionError(errno.EACCES, "held by a scanner")
        return real_replace(path, target)

    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(Path, "replace", replace)
    replace_file(tmp_path / "new", tmp_path / "held")
    assert (tmp_path / "held").read_bytes() == b"new"


def test_a_refused_replace_elsewhere_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(Path, "replace", refuse)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(PermissionError):
        replace_file(tmp_path / "a", tmp_path / "b")
