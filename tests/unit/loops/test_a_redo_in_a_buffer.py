"""A person asks a site for a new pass while rounds go on without waiting for it."""

from __future__ import annotations

import pytest

from stitch.client.operator import ask_redo
from stitch.layout import PassRef
from stitch.testing.federation import Federation
from tests.unit.loops.buffered import SLOW, WhileTraining, input_of, pass_time_of, policy, until
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import inputs, record_of, settle, start
from tests.unit.loops.proof import prove


@pytest.fixture
def federation(begin: Begin) -> Federation:
    federation = begin(num_passes=6)
    federation.changes["policy"] = policy()
    return federation


def test_a_redo_is_asked_of_the_round_under_way_and_what_came_before_it_is_not_used(
    federation: Federation,
) -> None:
    federation.changes["policy"] = policy(buffer_size=3)
    start(federation, "rush", "nu")
    lead = federation.alive("rush")[0]
    assert ask_redo(lead.client, "nu") == 1
    settle(federation)
    assert federation.seal(PassRef(1, "nu", 1)) is not None
    start(federation, SLOW)
    federation.run()
    first = federation.seal(PassRef(1, "nu"))
    used = input_of(federation, 1, "nu")
    assert used is not None
    assert first is not None
    assert used.model_sha256 != first.model_sha256
    late = [(one.site, one.pass_id, one.model_sha256) for one in record_of(federation, 1).late]
    assert late == [("nu", 1, first.model_sha256)]
    assert prove(federation).complete


def test_a_redo_that_its_round_did_not_wait_for_still_rules_the_old_pass_out(
    federation: Federation,
) -> None:
    federation.changes["policy"] = policy(buffer_size=3)
    start(federation, "rush", SLOW)
    lead = federation.alive("rush")[0]
    federation.alive(SLOW)[0].kill()
    assert ask_redo(lead.client, SLOW) == 1
    pass_time_of(federation, lead)
    assert inputs(record_of(federation, 1)) == ["rush"]
    pass_time_of(federation, lead)
    assert inputs(record_of(federation, 2)) == ["rush"], "stale by 1, and still not what was asked for"
    start(federation, SLOW, "nu")
    federation.run()
    assert prove(federation).complete


def test_a_redone_pass_that_counts_in_a_later_round_is_proven_too(federation: Federation) -> None:
    """Its folder is that of its own round's attempt, not of the attempt that uses it."""
    start(federation, "rush")
    lead, slow = federation.alive("rush")[0], federation.start(SLOW)
    slow.turns()
    assert ask_redo(lead.client, SLOW) == 1
    WhileTraining(federation, SLOW, number=1, do=lambda: pass_time_of(federation, lead))
    slow.turns()
    assert inputs(record_of(federation, 1)) == ["rush"]
    until(federation, 2)
    federation.run()
    used = input_of(federation, 2, SLOW)
    assert used is not None
    assert (used.pass_id, used.staleness) == (1, 1)
    redone = federation.seal(PassRef(1, SLOW, 1))
    assert redone is not None
    assert used.model_sha256 == redone.model_sha256
    assert prove(federation).complete
