"""A quorum whose lead is started by a scheduler: every turn is a process of its own, and deadlines hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from stitch.errors import QuorumNotReached
from stitch.layout import PassRef
from stitch.loops.aborting import BELOW_QUORUM
from stitch.store.base import Entry, Traits
from stitch.store.memory import MemoryStore
from stitch.testing.clocks import FakeClock
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import COLLECT_S, OPEN_S, TWO_OF_THREE, elastic, verdict_of

EVERY_S = 120.0


@pytest.fixture
def federation(begin: Begin) -> Federation:
    return elastic(begin(num_passes=1))


def turns(federation: Federation, seconds: float) -> list[Process]:
    """The lead's turns by a scheduler, over so many seconds."""
    done = []
    for _ in range(int(seconds / EVERY_S)):
        federation.advance(EVERY_S)
        done.append(federation.scheduled("rush"))
    return done


def begun(federation: Federation) -> None:
    """Global 0, and the lead's own pass 1."""
    for _ in range(10):
        federation.scheduled("rush")
        if federation.seal(PassRef(1, "rush")) is not None:
            return
    raise AssertionError("the lead does not begin")


@pytest.mark.parametrize("budget", [0, 1])
def test_a_turn_that_uses_up_the_budget_ends_as_run_does(federation: Federation, budget: int) -> None:
    """Each turn is a process of its own: what the turns before gave up is in the files, and counts."""
    federation.changes["policy"] = replace(TWO_OF_THREE, retry_budget=budget)
    begun(federation)
    ended = [one.error for one in turns(federation, (budget + 1) * (OPEN_S + EVERY_S)) if one.error]
    assert len(ended) == 1
    assert isinstance(ended[0], QuorumNotReached)
    assert ended[0].exit_code == 41
    assert "nu, uchicago" in str(ended[0])
    assert f"given up after {budget + 1} attempt" in str(ended[0])
    assert verdict_of(federation, 1, budget) is not None
    assert verdict_of(federation, 1, budget + 1) is None


def test_the_turns_after_it_try_again_and_close_when_enough_are_ready(federation: Federation) -> None:
    federation.changes["policy"] = replace(TWO_OF_THREE, retry_budget=0)
    begun(federation)
    turns(federation, OPEN_S + EVERY_S)
    assert verdict_of(federation, 1, 0) is not None
    for site in ("nu", "uchicago"):
        for _ in range(3):
            federation.scheduled(site)
    assert [one.error for one in turns(federation, 2 * EVERY_S)] == [None, None]
    assert federation.seal(PassRef(1)) is not None


class CopiedFolder(MemoryStore):
    """No clock of its own: a file bears the hour of the machine that wrote it, nu's ten days ahead."""

    @property
    def traits(self) -> Traits:
        return replace(super().traits, server_time=False)

    def stat(self, key: str) -> Entry | None:
        entry = super().stat(key)
        return entry and _dated(entry)

    def list(self, prefix: str) -> Iterator[Entry]:
        return (_dated(entry) for entry in super().list(prefix))


def _dated(entry: Entry) -> Entry:
    ahead = timedelta(days=10) if "/sites/nu/" in entry.key else timedelta()
    return replace(entry, modified=entry.modified + ahead)


@pytest.mark.parametrize("sealed", [False, True], ids=["nu started", "nu sealed"])
def test_in_a_copied_folder_the_deadline_comes_though_every_turn_is_a_new_process(
    tmp_path: Path, sealed: bool
) -> None:
    """Who started is dated by this machine's first look at it, which the mirror remembers."""
    clock = FakeClock()

    def before(process: Process, what: str, *, key: str) -> None:
        if process.site == "nu" and what == "train" and not sealed:
            process.kill()

    federation = elastic(Federation(tmp_path, num_passes=1, store=CopiedFolder(clock=clock), before=before))
    federation.clock = clock
    begun(federation)
    for _ in range(4):
        federation.scheduled("nu")
    assert (federation.seal(PassRef(1, "nu")) is not None) == sealed
    turns(federation, COLLECT_S - EVERY_S)
    assert verdict_of(federation, 1, 0) is None, "not before the deadline"
    turns(federation, 3 * EVERY_S)
    verdict = verdict_of(federation, 1, 0)
    assert verdict is not None
    assert (verdict.verdict, verdict.code) == (("closed", None) if sealed else ("aborted", BELOW_QUORUM))
