"""Rounds under attack: races with a second process, ends, restarts, and what is recorded."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stitch.client.ended import run_hook
from stitch.client.operator import ask_redo, change_roster, end_run
from stitch.errors import HookFailed, QuorumNotReached
from stitch.hooks.call import HookCall, HookResult
from stitch.layout import PassRef
from stitch.loops.aborting import BELOW_QUORUM
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from tests.unit.loops.actors import Actors
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import (
    COLLECT_S,
    OPEN_S,
    TWO_OF_THREE,
    elastic,
    inputs,
    pass_time,
    published,
    record_of,
    settle,
    start,
    verdict_of,
)


@pytest.fixture
def federation(begin: Begin) -> Federation:
    return elastic(begin(num_passes=3))


# -- a second process beside the running lead ------------------------------------------------------


def test_a_site_that_another_process_drops_is_not_waited_for_at_the_leads_next_poll(tmp_path: Path) -> None:
    """`sites drop` says "at once"; it must not wait for the lead's tenth look."""
    federation = Federation(tmp_path, num_passes=3)
    start(federation, "rush", "nu")
    settle(federation)
    lead = federation.alive("rush")[0]
    lead.turns()
    assert published(federation).state == "collecting"
    other = federation.start("rush")
    change_roster(other.client, "drop", site="uchicago")
    other.kill()
    assert published(federation).directive.expected == ("nu", "rush")
    lead.turns()
    lead.turns()
    assert federation.seal(PassRef(1)) is not None


def test_a_site_dropped_while_the_lead_pulls_the_inputs_has_no_part_in_the_round(tmp_path: Path) -> None:
    """Law 11: the verdict names the newest roster; pulling may take hours."""
    dropped: list[int] = []

    def before(process: Process, what: str, *, key: str) -> None:
        pulled = what == "pull" and "/sites/uchicago/pass_001/model" in key
        if process.site == "rush" and pulled and not dropped:
            dropped.append(0)
            dropped[0] = change_roster(process.client, "drop", site="uchicago").number

    federation = Federation(tmp_path, num_passes=2, before=before)
    start(federation, *federation.sites)
    assert dropped == [2]
    assert record_of(federation, 1).roster == 2
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]


def test_a_redo_asked_for_while_the_lead_gives_the_attempt_up_is_asked_for_in_the_next(
    federation: Federation,
) -> None:
    start(federation, "rush")
    lead = federation.alive("rush")[0]
    other = federation.start("rush")
    raced: list[bool] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if process is other and what == "push" and key.endswith("rounds/pass_001.a0.json") and not raced:
            raced.append(True)
            attempt, _ = lead.client.attempt_of(1)
            lead.client.abort_attempt(attempt, lead.client.roster(), code=BELOW_QUORUM, reason="too few")

    federation.before = before
    assert ask_redo(other.client, "rush") == 1
    other.kill()
    assert raced
    second = verdict_of(federation, 1, 1)
    assert second is not None
    assert second.redo == ("rush",)


# -- running again ---------------------------------------------------------------------------------


def test_a_run_begun_again_long_after_the_budget_was_used_tries_once_more(federation: Federation) -> None:
    """Law 7: an attempt that ran out while nobody led is not this process's failure."""
    federation.changes["policy"] = replace(TWO_OF_THREE, retry_budget=0)
    first = federation.start("rush")
    settle(federation)
    pass_time(federation, OPEN_S + 60)
    assert isinstance(first.error, QuorumNotReached)
    federation.advance(10 * OPEN_S)
    again = federation.start("rush")
    settle(federation)
    assert again.alive, again.error
    pass_time(federation, OPEN_S + 120)
    assert isinstance(again.error, QuorumNotReached), "its own attempt does count"


def test_a_pass_that_no_aggregation_can_use_can_still_be_asked_for_anew(tmp_path: Path) -> None:
    """A closed round whose hook fails each time must have another way out than the end of the run."""
    bad: list[bool] = [True]

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "aggregate" and bad:
            raise HookFailed("shapes differ: nu", hook="aggregate")

    federation = Federation(tmp_path, num_passes=1, before=before)
    start(federation, *federation.sites)
    assert isinstance(federation.processes[0].error, HookFailed)
    operator = federation.start("rush")
    assert ask_redo(operator.client, "nu") == 1
    operator.kill()
    federation.start("rush")
    settle(federation)
    bad.clear()
    federation.start("rush")
    federation.run()
    assert federation.seal(PassRef(1, "nu", 1)) or federation.seal(PassRef(1, "nu", 2))


def test_a_redo_asked_for_while_the_lead_is_down_and_a_site_that_never_comes_back(tmp_path: Path) -> None:
    federation = Federation(tmp_path, num_passes=2)
    start(federation, "rush", "nu")
    for one in federation.alive():
        one.kill()
    operator = federation.start("rush")
    assert ask_redo(operator.client, "nu") == 1
    assert ask_redo(operator.client, "nu") == 1
    operator.kill()
    start(federation, "rush", "uchicago")
    assert federation.seal(PassRef(1)) is None
    operator = federation.start("rush")
    change_roster(operator.client, "drop", site="nu")
    operator.kill()
    settle(federation)
    settle(federation)
    assert inputs(record_of(federation, 1)) == ["rush", "uchicago"]
    federation.run()


@pytest.mark.parametrize("elastic_too", [False, True])
def test_a_run_that_is_ended_while_pass_zero_is_made_ends_for_all(tmp_path: Path, elastic_too: bool) -> None:
    ended: list[int | None] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "train" and key == "pass_000" and not ended:
            ended.append(end_run(process.client, "stop").final_pass)

    federation = Federation(tmp_path, num_passes=2, before=before)
    if elastic_too:
        elastic(federation)
    start(federation, *federation.sites)
    federation.run()
    assert ended == [None]
    assert all(one.finished for one in federation.processes)
    again = federation.start("nu")
    federation.run()
    assert again.finished


def test_a_run_that_is_ended_while_a_global_goes_up_ends_for_all_with_the_one_before(
    tmp_path: Path,
) -> None:
    ended: list[int | None] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "push" and key.endswith("global/pass_001/metrics.json") and not ended:
            ended.append(-1)
            ended[0] = end_run(process.client, "stop").final_pass

    federation = Federation(tmp_path, num_passes=3, before=before)
    start(federation, *federation.sites)
    federation.run()
    assert ended == [0]
    assert federation.seal(PassRef(1)) is not None
    assert all(one.finished for one in federation.processes)
    for site in federation.sites:
        federation.start(site)
    federation.run()
    assert all(one.finished for one in federation.processes)


def test_a_lead_that_is_paused_goes_on_leading(federation: Federation) -> None:
    start(federation, "rush", "nu")
    change_roster(federation.alive("rush")[0].client, "pause", site="rush")
    start(federation, "uchicago")
    federation.run()
    assert inputs(record_of(federation, 3)) == ["nu", "uchicago"]


def test_fewer_sites_than_a_round_needs_is_said(federation: Federation) -> None:
    start(federation, "rush")
    lead = federation.alive("rush")[0]
    change_roster(lead.client, "drop", site="nu")
    change_roster(lead.client, "drop", site="uchicago")
    for _ in range(3):
        pass_time(federation, OPEN_S + 60)
    assert isinstance(lead.error, QuorumNotReached)
    assert "sites add" in lead.error.hint


def test_a_lead_that_is_started_again_keeps_the_deadline(tmp_path: Path) -> None:
    """protocol.md: the deadline follows the K-th start, whoever looks at it."""
    seen: list[object] = []

    federation = elastic(Federation(tmp_path, num_passes=1))

    def before(process: Process, what: str, *, key: str) -> None:
        if process.site == "nu" and what == "train":
            for _ in range(20):
                federation.advance(60)
                federation.alive("rush")[0].turn("lead")

    federation.before = before
    start(federation, "rush", "nu")
    for _ in range(2):
        settle(federation)
        seen.append(published(federation).deadline)
        federation.alive("rush")[0].kill()
        federation.start("rush")
    assert seen[0] is not None
    assert seen[0] == seen[1]


# -- what is recorded ------------------------------------------------------------------------------


def test_a_pass_that_a_redo_replaced_is_not_late(federation: Federation) -> None:
    """It was there before the verdict, and the round asked for another one."""
    start(federation, "rush", "nu")
    lead, nu = federation.alive("rush")[0], federation.alive("nu")[0]
    ask_redo(lead.client, "nu")
    nu.kill()
    start(federation, "uchicago")
    pass_time(federation, COLLECT_S + 120)
    assert inputs(record_of(federation, 1)) == ["rush", "uchicago"]
    pass_time(federation, COLLECT_S + 120)
    assert record_of(federation, 2).late == ()


def test_a_late_pass_is_recorded_once_also_when_the_leads_mirror_was_wiped(tmp_path: Path) -> None:
    late: list[Process] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "aggregate" and late and key == "pass_001":
            one, late[:] = late[0], []
            for _ in range(4):
                one.turns()

    federation = elastic(Federation(tmp_path, num_passes=4, before=before))
    lead = federation.start("rush")
    federation.start("nu")
    settle(federation)
    pass_time(federation, COLLECT_S - 60)
    late.append(federation.start("uchicago"))
    federation.advance(300)
    wiped = False
    for _ in range(200):
        if wiped or federation.seal(PassRef(2)) is None:
            federation.advance(30)
            for one in federation.alive():
                one.turns()
        else:
            lead.kill()
            shutil.rmtree(lead.client.settings.mirror_dir)
            lead = federation.start("rush")
            wiped = True
    federation.run()
    recorded = [(one.site, one.pass_id) for n in (1, 2, 3, 4) for one in record_of(federation, n).late]
    assert recorded == [("uchicago", 1)]


# -- a hook under the watch for the end ------------------------------------------------------------


def test_a_store_that_hangs_does_not_keep_a_finished_hook_from_being_sealed(tmp_path: Path) -> None:
    """The watch for the end marker is a courtesy: what was trained for hours must not wait for it."""
    actors = Actors(tmp_path)
    client, _ = actors.client("nu", poll_seconds=0.01)
    asked, answer = threading.Event(), threading.Event()

    def hang(path: str) -> bool:
        asked.set()
        answer.wait(60)
        return False

    client.documents.exists = hang  # type: ignore[method-assign]  # a store that does not answer

    class Quick:
        def run(
            self, call: HookCall, *, stop: threading.Event | None = None, on_line: object = None
        ) -> HookResult:
            assert asked.wait(30)
            return HookResult(100, {}, False, 0.0)

        def end_survivor(self, work_dir: Path) -> bool:
            return False

    client.runner = Quick()
    found: list[HookResult] = []
    worker = threading.Thread(target=lambda: found.append(run_hook(client, None)))  # type: ignore[arg-type]  # not looked at
    worker.start()
    worker.join(10)
    try:
        assert found
    finally:
        answer.set()
        worker.join(30)
        client.close()
