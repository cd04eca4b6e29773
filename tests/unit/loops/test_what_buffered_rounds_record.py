"""What buffered rounds put on record: no site can fill it up on its own."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from stitch.config.policy import Policy
from stitch.layout import PassRef
from stitch.rounds import round_seed
from stitch.testing.federation import RUN_ID, Federation
from stitch.testing.processes import Process
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import TWO_OF_THREE, record_of, start

WINDOW_S = 600.0
SLOW = "uchicago"


@pytest.fixture
def federation(begin: Begin) -> Federation:
    federation = begin(num_passes=4)
    federation.changes["policy"] = Policy("buffered", buffer_size=3, window_seconds=WINDOW_S, max_staleness=2)
    return federation


def window_ends(federation: Federation, lead: Process) -> None:
    """The lead alone works meanwhile."""
    for _ in range(int(WINDOW_S / 60) + 4):
        federation.advance(60)
        lead.turns()


def test_passes_that_nobody_asked_for_are_not_recorded_however_many_a_site_writes(
    federation: Federation,
) -> None:
    """A seal has an end: filled up by one site it would be one that nobody can read."""
    start(federation, "rush", SLOW)
    own = json.loads(federation.read(PassRef(1, SLOW).seal) or b"")
    held = federation.folder / "forged.json"
    forged = [PassRef(1, SLOW, redo) for redo in range(1, 40)]
    forged += [PassRef(number, SLOW) for number in range(3, 40)]
    for ref in forged:
        said = {"pass_id": ref.number, "base_pass": ref.number - 1, "round_seed": round_seed(7, ref.number)}
        held.write_text(json.dumps(own | said), encoding="utf-8")
        federation.record.inner.push(held, f"{RUN_ID}/{ref.seal}", mode="create")
    window_ends(federation, federation.alive("rush")[0])
    late = [(one.site, one.pass_id) for one in record_of(federation, 1).late]
    assert late in ([], [(SLOW, 1)]), "at most the one pass that this round asked for"


@pytest.mark.parametrize("require", ["buffered", "quorum"])
def test_a_lead_whose_global_lost_while_it_was_away_takes_the_one_that_was_published(
    federation: Federation, require: str
) -> None:
    """Its own stood in its mirror for good, and told later rounds other things of passes than the chain."""
    if require == "quorum":
        federation.changes["policy"] = TWO_OF_THREE
    first = federation.start("rush")
    federation.start("nu")

    def before(process: Process, what: str, *, key: str) -> None:
        if process is first and what == "push" and "/global/pass_001/model" in key:
            process.kill()

    federation.before = before
    work_until(federation, lambda: not first.alive)
    lost = first.mirror.sealed(PassRef(1))
    assert lost is not None
    second = federation.start("rush", "rush-two", take_over=True)
    work_until(federation, lambda: federation.seal(PassRef(3)) is not None)
    second.kill()
    again = federation.start("rush", take_over=True)
    work_until(federation, lambda: federation.seal(PassRef(4)) is not None)
    held = again.mirror.read(PassRef(1).seal)
    assert held == federation.read(PassRef(1).seal)
    assert held != lost.data
    assert list((again.mirror.root / "local" / "aside").glob("global-pass_001-*"))


def work_until(federation: Federation, there: Callable[[], bool]) -> None:
    for _ in range(200):
        if there():
            return
        federation.advance(60)
        for process in federation.alive():
            process.turns()
    raise AssertionError("it does not come to that")
