"""Real processes: absent sites, deadlines, aborted attempts, an unsteady hook, an ended run."""

from __future__ import annotations

from typing import Literal

import pytest

from stitch.layout import PassRef, abort, done, verdict
from stitch.rounds import LATE
from tests.e2e.breaking import Break
from tests.e2e.conftest import Build, one_store
from tests.e2e.federation import Federation

THREE = ("rush", "nu", "uc")


def quorum(needed: int, *, open_s: float = 60, collect_s: float = 60, budget: int = 0) -> str:
    return f"""
            [policy]
            require = "quorum"
            min_participants = {needed}
            open_timeout = {open_s}
            collect_timeout = {collect_s}
            retry_budget = {budget}
            """


def inputs(fed: Federation, pass_id: int) -> list[str]:
    record = fed.seal(pass_id)["round"]
    assert isinstance(record, dict)
    return [one["site"] for one in record["inputs"]]


def test_a_round_closes_without_the_absent_who_goes_on_with_the_newest_global(federation: Build) -> None:
    """Scenarios 8 and 20."""
    fed = federation(sites=THREE, num_passes=2, more=quorum(2, collect_s=3))
    lead, nu = fed.start("rush"), fed.start("nu")
    fed.wait_for_seal(1)
    record = fed.seal(1)["round"]
    assert isinstance(record, dict)
    assert inputs(fed, 1) == ["nu", "rush"]
    assert record["excluded"] == [{"site": "uc", "reason": LATE}]
    assert record["policy"] == "quorum"
    fed.finish(lead, nu)
    assert not fed.has(PassRef(1, "uc").seal), "it trains no closed round"
    final = fed.json(done())
    assert final["final_pass"] == 2
    for site in THREE:
        assert (fed.mirror(site) / PassRef(2).seal).read_bytes() == fed.read(PassRef(2).seal)


def test_below_k_the_lead_stops_with_the_missing_and_a_fresh_run_goes_on_with_what_is_staged(
    federation: Build,
) -> None:
    """Scenario 19."""
    fed = federation(sites=THREE, num_passes=1, more=quorum(2, open_s=2))
    before = fed.start_cli("rush")
    before.ends(41)
    assert "nu, uc" in before.said
    aborted = fed.json(verdict(1, 0))
    assert (aborted["verdict"], aborted["code"]) == ("aborted", "quorum_not_reached")
    assert not fed.has(PassRef(1).seal)
    untouched = fed.read(PassRef(0).seal)
    trained = fed.read(PassRef(1, "rush").seal)
    others = [fed.start("nu"), fed.start("uc")]
    for site in ("nu", "uc"):
        fed.wait_for_seal(1, site)
    lead = fed.start("rush")
    for actor in (lead, *others):
        actor.ends(0)
    assert inputs(fed, 1) == ["nu", "rush", "uc"]
    assert fed.read(PassRef(0).seal) == untouched
    assert fed.read(PassRef(1, "rush").seal) == trained
    assert fed.calls("rush").count("train 1") == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lead_that_dies_at_the_abort_comes_to_one_verdict(
    federation: Build, when: Literal["before", "after"]
) -> None:
    fed = federation(sites=THREE, num_passes=1, more=quorum(2, open_s=2, budget=5))
    fed.start("rush", Break("push", "global/rounds/pass_001.a0.json", when)).is_killed()
    assert fed.has(verdict(1, 0)) == (when == "after")
    fed.finish()
    assert inputs(fed, 1) == ["nu", "rush", "uc"] or len(inputs(fed, 1)) == 2
    record = fed.seal(1)["round"]
    assert isinstance(record, dict)
    for attempt in range(record["attempt"]):
        assert fed.json(verdict(1, attempt))["verdict"] == "aborted"
    assert fed.json(verdict(1, record["attempt"]))["verdict"] == "closed"


@one_store
def test_a_lead_that_dies_after_the_verdict_aggregates_the_same_set(federation: Build) -> None:
    """Scenario 25 under a quorum: whoever arrives meanwhile is late, not used."""
    fed = federation(sites=THREE, num_passes=1, more=quorum(2, collect_s=3))
    fed.order("rush", "aggregate-1-half", "kill")
    lead, nu = fed.start("rush"), fed.start("nu")
    lead.is_killed()
    uc = fed.start("uc")
    fed.wait_for_seal(1, "uc")
    frozen = fed.read(verdict(1, 0))
    again = fed.start("rush")
    for actor in (again, nu, uc):
        actor.ends(0)
    assert fed.read(verdict(1, 0)) == frozen
    assert inputs(fed, 1) == ["nu", "rush"]


@one_store
def test_an_unsteady_aggregate_is_computed_again_then_given_up(federation: Build) -> None:
    """Scenario 26: no marker; corrected, the next attempt uses what is staged."""
    fed = federation(num_passes=1, more='[integrity]\nreproduce = "abort"')
    hooks = fed.home("rush") / "hooks.py"
    honest = hooks.read_text(encoding="utf-8")
    end = 'return {"should_stop"'
    unsteady = honest.replace(end, f"out_path.write_bytes(os.urandom(64))\n    {end}")
    assert unsteady != honest
    hooks.write_text(unsteady, encoding="utf-8")
    nu, lead = fed.start("nu"), fed.start_cli("rush")
    lead.ends(42)
    assert fed.json(abort(1, 0))["code"] == "non_deterministic_aggregation"
    assert not fed.paths("global/pass_001/")
    assert fed.calls("rush").count("aggregate 1") == 3
    hooks.write_text(honest, encoding="utf-8")
    fed.finish(nu)
    record = fed.seal(1)["round"]
    assert isinstance(record, dict)
    assert record["attempt"] == 1
    assert fed.calls("nu").count("train 1") == 1


def test_an_ended_run_stops_a_running_hook_and_everybody_with_the_last_global(federation: Build) -> None:
    fed = federation(num_passes=3)
    fed.gate("nu", "train-1-half")
    lead, nu = fed.start_cli("rush"), fed.start_cli("nu")
    fed.wait_until(lambda: "train 1" in fed.calls("nu"), "nu trains")
    fed.wait_for_seal(1, "rush")
    fed.start_cli("rush", "end", "--reason", "the grant is over").ends(0)
    lead.ends(0)
    nu.ends(0)
    marker = fed.json(done())
    assert (marker["final_pass"], marker["reason"]) == (0, "the grant is over")
    assert not fed.paths("sites/nu/pass_")
    assert (fed.mirror("nu") / PassRef(0).seal).exists()
