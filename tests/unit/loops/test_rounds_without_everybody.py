"""Rounds that go on without absent sites: quorum, deadlines, retries, late passes, redo."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch import layout
from stitch.client.operator import REDO_REQUESTED, ask_redo
from stitch.errors import QuorumNotReached
from stitch.layout import PassRef
from stitch.loops.aborting import BELOW_QUORUM
from stitch.rounds import LATE, UNKNOWN
from stitch.testing.faulty import Call, Fault
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from stitch.wire import Orchestration
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import (
    COLLECT_S,
    OPEN_S,
    elastic,
    inputs,
    pass_time,
    published,
    record_of,
    settle,
    verdict_of,
)


@pytest.fixture
def federation(begin: Begin) -> Federation:
    return elastic(begin(num_passes=2))


def test_a_round_closes_over_a_quorum_at_the_deadline_and_not_before(federation: Federation) -> None:
    """Scenario 20."""
    federation.start("rush")
    federation.start("nu")
    settle(federation)
    pass_time(federation, COLLECT_S - 120)
    assert federation.seal(PassRef(1)) is None
    assert published(federation).deadline is not None
    assert published(federation).state == "collecting"
    pass_time(federation, 180)
    record = record_of(federation, 1)
    assert inputs(record) == ["nu", "rush"]
    assert [(one.site, one.reason) for one in record.excluded] == [("uchicago", LATE)]
    assert record.policy == "quorum"


def test_a_slow_site_never_stalls_the_others_and_continues_at_the_newest_global(
    federation: Federation,
) -> None:
    """Scenario 8: absent for all but the last round, it trains that one alone."""
    federation.start("rush")
    federation.start("nu")
    settle(federation)
    pass_time(federation, COLLECT_S + 120)
    assert federation.seal(PassRef(1)) is not None
    federation.start("uchicago")
    settle(federation)
    federation.run()
    assert inputs(record_of(federation, 2)) == ["nu", "rush", "uchicago"]
    assert federation.seal(PassRef(1, "uchicago")) is None
    assert all(process.finished for process in federation.processes)


def test_below_k_the_attempt_is_aborted_the_global_stands_and_the_round_is_tried_again(
    federation: Federation,
) -> None:
    """Scenario 19, COLLECTING: what was staged counts in the next attempt."""
    lead = federation.start("rush")
    settle(federation)
    before = federation.read(PassRef(0).seal)
    pass_time(federation, OPEN_S + 60)
    first = verdict_of(federation, 1, 0)
    assert first is not None
    assert (first.verdict, first.code, first.redo) == ("aborted", BELOW_QUORUM, ())
    assert "nu, uchicago" in first.reason
    assert federation.read(PassRef(0).seal) == before
    assert federation.seal(PassRef(1)) is None
    assert published(federation).attempt == 1
    assert lead.alive
    trained = federation.seal(PassRef(1, "rush"))
    federation.start("nu")
    settle(federation)
    pass_time(federation, COLLECT_S + 60)
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]
    assert record_of(federation, 1).attempt == 1
    assert federation.seal(PassRef(1, "rush")) == trained, "it was not trained again"


def test_the_lead_stops_with_the_missing_when_the_budget_is_used_and_a_fresh_run_tries_once_more(
    federation: Federation,
) -> None:
    lead = federation.start("rush")
    settle(federation)
    pass_time(federation, 2 * OPEN_S + 120)
    assert isinstance(lead.error, QuorumNotReached)
    assert "nu, uchicago" in str(lead.error)
    assert "2 attempts" in str(lead.error)
    assert [verdict_of(federation, 1, number) is not None for number in range(3)] == [True, True, False]
    again = federation.start("rush")
    settle(federation)
    assert again.alive, "a fresh run always has an attempt"
    federation.start("nu")
    federation.start("uchicago")
    settle(federation)
    assert inputs(record_of(federation, 1)) == ["nu", "rush", "uchicago"], "K ready closes at once"
    assert record_of(federation, 1).attempt == 2


def test_a_lane_that_cannot_be_read_aborts_nothing(tmp_path: Path) -> None:
    """Law 7: unknown, not absent."""

    def plan(process: Process) -> object:
        def fault(call: Call) -> Fault | None:
            hidden = "/sites/nu/" in call.key and process.site == "rush" and broken
            return "unavailable" if hidden else None

        return fault

    broken = True
    federation = elastic(Federation(tmp_path, num_passes=1, plan=plan))  # type: ignore[arg-type]  # a plan
    lead = federation.start("rush")
    settle(federation)
    pass_time(federation, 20 * OPEN_S)
    assert lead.alive
    assert verdict_of(federation, 1, 0) is None
    assert "cannot be read" in lead.loops["lead"].step().why
    federation.start("uchicago")
    settle(federation)
    pass_time(federation, COLLECT_S + 120)
    excluded = record_of(federation, 1).excluded
    assert [(one.site, one.reason) for one in excluded] == [("nu", UNKNOWN)]
    broken = False
    for process in federation.alive():
        process.kill()


def test_a_pass_that_lands_after_the_verdict_is_recorded_as_late_and_never_used(tmp_path: Path) -> None:
    """Scenario 24."""
    late: list[Process] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "aggregate" and late and key == "pass_001":
            one, late[:] = late[0], []
            for _ in range(4):
                one.turns()

    federation = elastic(Federation(tmp_path, num_passes=2, before=before))
    federation.start("rush")
    federation.start("nu")
    settle(federation)
    pass_time(federation, COLLECT_S - 60)
    late.append(federation.start("uchicago"))
    pass_time(federation, 300)
    federation.run()
    assert federation.seal(PassRef(1, "uchicago")) is not None
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]
    assert [(one.site, one.pass_id) for one in record_of(federation, 2).late] == [("uchicago", 1)]
    assert all(one.pass_id == 2 for one in record_of(federation, 2).inputs)


def test_a_site_is_asked_for_a_new_pass_while_the_others_stay_staged(federation: Federation) -> None:
    lead = federation.start("rush")
    federation.start("nu")
    settle(federation)
    kept = federation.seal(PassRef(1, "rush"))
    assert ask_redo(lead.client, "nu") == 1
    settle(federation)
    verdict = verdict_of(federation, 1, 0)
    assert verdict is not None
    assert (verdict.code, verdict.redo) == (REDO_REQUESTED, ("nu",))
    again = federation.seal(PassRef(1, "nu", 1))
    assert again is not None
    assert again.attempt == 2, "a training attempt of its own"
    federation.start("uchicago")
    settle(federation)
    used = {one.site: one for one in record_of(federation, 1).inputs}
    assert used["nu"].model_sha256 == again.model_sha256
    assert kept is not None
    assert used["rush"].model_sha256 == kept.model_sha256
    federation.run()
    assert federation.value() == federation.expected_value()


def test_a_closed_round_can_be_redone_until_its_global_is_sealed(tmp_path: Path) -> None:
    """The candidate under way is given up, and the next attempt uses the new pass."""
    asked: list[int] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "aggregate" and not asked:
            asked.append(ask_redo(process.client, "nu"))

    federation = Federation(tmp_path, num_passes=1, before=before)
    for site in federation.sites:
        federation.start(site)
    federation.run()
    assert asked == [1]
    assert federation.read(layout.abort(1, 0)) is not None
    record = record_of(federation, 1)
    again = federation.seal(PassRef(1, "nu", 2))
    assert again is not None
    assert record.attempt == 2
    assert {one.site: one.model_sha256 for one in record.inputs}["nu"] == again.model_sha256


def test_what_a_round_does_is_published_state_by_state(tmp_path: Path) -> None:
    seen: list[str] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if process.site != "rush":
            return
        data = federations[0].read(layout.orchestration())
        state = Orchestration.parse(data, source="x").state if data else "open"
        if not seen or seen[-1] != state:
            seen.append(state)

    federations = [Federation(tmp_path, num_passes=1, before=before)]
    federation = federations[0]
    federation.start("rush")
    federation.start("nu")
    settle(federation)
    federation.start("uchicago")
    federation.run()
    assert seen[: seen.index("committing") + 1] == ["open", "collecting", "aggregating", "committing"]
