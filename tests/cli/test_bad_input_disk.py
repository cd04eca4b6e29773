"""A mirror on a disk that is full or read-only: named, nothing half-written, and freed it goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.federation import Federation, Site, unchanged

ROOT = sys.platform == "linux" and os.geteuid() == 0
small_disk = pytest.mark.skipif(not ROOT, reason="a small disk of the test's own is a Linux mount, for root")


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """A file system of the test's own at `folder`: its limits bind root too."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", *options, str(folder)], check=True, capture_output=True, text=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """The folder as it is, but for writing: permissions do not bind root, a mount does."""
    if not ROOT:
        folder.chmod(0o500)
        yield
        folder.chmod(0o700)
        return
    with mounted(folder, "--bind", str(folder)):
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)
        yield


def halves(site: Site) -> list[str]:
    """Whatever a reader could take for a document or a pass, and is not whole."""
    public = [path for path in site.mirror.rglob("*") if path.relative_to(site.mirror).parts[0] != "local"]
    return [
        path.name
        for path in public
        if (path.is_dir() and path.name.startswith("pass_") and not (path / "metrics.json").exists())
        or (path.is_file() and (path.suffix == ".tmp" or not path.stat().st_size))
    ]


@small_disk
def test_a_disk_that_fills_up_while_the_hook_writes_is_told_from_a_broken_hook(
    federation: Federation,
) -> None:
    federation.begin()
    store = federation.nu.root / "stitch_store"
    with mounted(store, "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        federation.nu.hooks("json.dumps(base + 1)", '"9" * 3_000_000')
        with unchanged(federation.store, but=("/events/", "/join/")):
            said = federation.nu.call("run")
        assert said.code == 26
        assert said.cause.startswith(f"the disk is full: {store}")
        assert said.todo == "Free space, then run the same command again."
        assert shutil.disk_usage(store).free > 500_000  # half a model was not left lying
        assert halves(federation.nu) == []
        federation.nu.write_honest_hooks()
        federation.finish_well()


@small_disk
def test_a_disk_that_is_full_already_writes_nothing_half(federation: Federation) -> None:
    federation.begin()
    store = federation.nu.root / "stitch_store"
    with mounted(store, "-t", "tmpfs", "-o", "size=1m", "tmpfs"):
        ballast = store / "ballast"
        for left in (0, 4, 8, 12, 16, 20, 24, 32):  # pages: it fails at one write after the other
            ballast.unlink(missing_ok=True)
            ballast.write_bytes(b"x" * max(0, shutil.disk_usage(store).free - left * 4096))
            said = federation.nu.call("step")
            if said.code == 0:
                break
            assert said.code == 26, said
            assert said.cause.startswith("the disk is full: "), said
            assert halves(federation.nu) == []
        ballast.unlink()
        federation.finish_well()


@pytest.mark.skipif(sys.platform == "win32", reason="a folder's mode says nothing on Windows")
def test_a_read_only_mirror_is_named_and_nothing_is_sent(federation: Federation) -> None:
    federation.begin()
    store = federation.nu.root / "stitch_store"
    store.mkdir()
    with read_only(store):
        with unchanged(federation.store, store):
            for verb in ("run", "step"):
                said = federation.nu.call(verb)
                assert said.code == 26
                assert said.cause.startswith(f"cannot write to {store}/icu/")
                assert re.search(r"\((Read-only file system|Permission denied)\)$", said.cause)
                assert said.todo == (
                    "Make the project folder writable for this account, then run the same command again."
                )
        doctor = federation.nu.call("doctor")
        assert doctor.code == 26
        assert f"FAIL  disk            {store} cannot be written: " in doctor.out
    federation.finish_well()
