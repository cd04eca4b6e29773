"""What buffered rounds put on record: no site can fill it up on its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stitch.config.settings import Policy
from stitch.layout import PassRef
from stitch.rounds import round_seed
from stitch.testing.federation import RUN_ID, Federation
from stitch.testing.processes import Process
from tests.unit.loops.elastic import record_of, start

WINDOW_S = 600.0
SLOW = "uchicago"


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    federation = Federation(tmp_path, num_passes=3)
    federation.changes["policy"] = Policy("buffered", buffer_size=3, window_seconds=WINDOW_S, max_staleness=2)
    yield federation
    for process in federation.alive():
        process.kill()


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
