"""Ranges are written in their order while the next is computed, and what fails there is not lost."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from stitch.learning import FedAvg, aggregate
from stitch.learning.behind import WriteBehind
from stitch.learning.specs import Array
from stitch.learning.streaming import RANGE
from tests.unit.learning.rounds import Folders


def test_ranges_are_written_in_the_order_in_which_they_were_given() -> None:
    written: list[int] = []
    with WriteBehind() as behind:
        for number in range(50):
            behind.write(lambda part: written.append(int(part[0])), np.array([number]))
        behind.settle()
        assert written == list(range(50))


def test_few_ranges_wait_while_the_disk_is_slow() -> None:
    """The giver is held back: memory does not grow with the model."""
    go, given = threading.Event(), []

    def slowly(part: Array) -> None:
        assert go.wait(30)

    def give(behind: WriteBehind) -> None:
        for number in range(10):
            behind.write(slowly, np.array([number]))
            given.append(number)

    with WriteBehind() as behind:
        giver = threading.Thread(target=give, args=(behind,))
        giver.start()
        giver.join(0.2)
        held = len(given)
        go.set()
        giver.join(30)
    assert held == 2
    assert len(given) == 10


def test_a_write_that_fails_is_told_at_the_latest_when_all_is_settled() -> None:
    def full(part: Array) -> None:
        raise OSError(28, "No space left on device")

    with WriteBehind() as behind:
        behind.write(full, np.zeros(1))
        with pytest.raises(OSError, match="No space"):
            behind.settle()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on a file's size")
def test_a_disk_that_fills_up_leaves_no_global(tmp_path: Path) -> None:
    import resource  # noqa: PLC0415  POSIX only

    model = {"w": np.zeros(3 * RANGE, np.float32)}
    folders = Folders(tmp_path, model)
    for site in ("nu", "rush"):
        folders.add(site, model)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    folders.make(FedAvg())
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * RANGE, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            aggregate(
                site_dir=tmp_path / "sites",
                out_path=folders.out,
                global_path=tmp_path / "global.npz",
                strategy=FedAvg(),
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not folders.out.exists()
