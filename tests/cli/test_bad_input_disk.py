"""A mirror on a disk that is full or read-only: named, nothing half-written, and freed it goes on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.cli.federation import RUN, Federation, unchanged
from tests.cli.places import read_only, small_disk

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="modes and limits of a disk are POSIX")


def halves(store: Path) -> list[str]:
    """Whatever a reader of `stitch_store` could take for a document or a pass, and is not whole."""
    mirror = store / RUN
    public = [path for path in mirror.rglob("*") if path.relative_to(mirror).parts[0] != "local"]
    return [
        path.name
        for path in public
        if (path.is_dir() and path.name.startswith("pass_") and not (path / "metrics.json").exists())
        or (path.is_file() and (path.suffix == ".tmp" or not path.stat().st_size))
    ]


def test_a_disk_that_fills_up_while_the_hook_writes_is_told_from_a_broken_hook(
    federation: Federation,
) -> None:
    federation.begin()
    with small_disk(federation.nu) as disk:
        federation.nu.hooks("json.dumps(base + 1)", '"9" * 3_000_000')
        with unchanged(federation.store, but=("/events/", "/join/")):
            said = federation.nu.call("run")
        assert said.code == 26, said
        assert said.cause.startswith(f"the disk is full: {disk.folder}")
        assert said.todo == "Free space, then run the same command again."
        assert disk.used() < 500_000  # half a model was not left lying
        assert halves(disk.seen) == []
        federation.nu.write_honest_hooks()
        federation.finish_well()


def test_a_disk_that_is_full_already_writes_nothing_half(federation: Federation) -> None:
    federation.begin()
    with small_disk(federation.nu) as disk:
        refused = 0
        for left in (0, 1, 2, 3, 4, 6, 9, 14, 20, 32):  # pages: it fails at one write after the other
            disk.leave(left)
            said = federation.nu.call("step")
            if said.code == 0:
                break
            assert said.code == 26, said
            assert said.cause.startswith("the disk is full: "), said
            assert halves(disk.seen) == []
            refused += 1
        assert refused >= 3
        disk.free()
        federation.finish_well()


def test_a_read_only_mirror_is_named_and_nothing_is_sent(federation: Federation) -> None:
    federation.begin()
    with read_only(federation.nu) as disk:
        with unchanged(federation.store, disk.seen):
            for verb in ("run", "step"):
                said = federation.nu.call(verb)
                assert said.code == 26, said
                assert said.cause.startswith(f"cannot write to {disk.folder}/icu/")
                assert re.search(r"\((Read-only file system|Permission denied)\)$", said.cause)
                assert said.todo == (
                    "Make the project folder writable for this account, then run the same command again."
                )
        doctor = federation.nu.call("doctor")
        assert doctor.code == 26
        assert f"FAIL  disk            {disk.folder} cannot be written: " in doctor.out
    federation.finish_well()
