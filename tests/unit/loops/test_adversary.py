"""Rounds under attack: races of a second process, forged passes, lost stores, wrong clocks."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from stitch.client.ended import run_hook
from stitch.client.operator import ask_redo, change_roster, end_run
from stitch.config.settings import Integrity
from stitch.errors import BadDocument, HookFailed, QuorumNotReached, RoundError, StoreDenied
from stitch.hooks.call import HookCall, HookResult
from stitch.layout import PassRef
from stitch.loops import Lead
from stitch.loops.closing import BELOW_QUORUM
from stitch.rounds import UNKNOWN
from stitch.store.base import Entry, Traits
from stitch.store.memory import MemoryStore
from stitch.testing.clocks import FakeClock
from stitch.testing.faulty import Call, Fault
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from stitch.wire import Seal
from tests.unit.loops.actors import Actors
from tests.unit.loops.test_rounds_without_everybody import (
    COLLECT_S,
    OPEN_S,
    TWO_OF_THREE,
    elastic,
    inputs,
    pass_time,
    published,
    record_of,
    settle,
    verdict_of,
)


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    federation = elastic(Federation(tmp_path, num_passes=3))
    yield federation
    for process in federation.alive():
        process.kill()


def start(federation: Federation, *sites: str) -> None:
    for site in sites:
        federation.start(site)
    settle(federation)


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


# -- a site's lane that misbehaves -----------------------------------------------------------------


def test_a_late_seal_that_says_nonsense_of_its_base_ends_no_round(federation: Federation) -> None:
    """A site can write any document into its lane; no round needs this one."""
    start(federation, "rush", "nu")
    pass_time(federation, COLLECT_S + 120)
    assert federation.seal(PassRef(1)) is not None
    honest = federation.seal(PassRef(1, "nu"))
    assert honest is not None
    forged = honest.model_copy(update={"lane": "sites/uchicago", "base_pass": 9})
    federation.lanes().write(PassRef(1, "uchicago").seal, forged.dump(), mode="create")
    pass_time(federation, COLLECT_S + 120)
    assert federation.alive("rush"), federation.processes[0].error
    assert record_of(federation, 2).late == ()


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (b'"created_at": "2', b'"created_at": "0001-01-01T00:00:00+14:00", "x": "2'),
        (b"stitch.metrics/1", b"stitch.metrics/" + b"1" * 5000),
        (b'"metrics": {', b'"metrics": {"\\u001b[31m\\nall is well": 1, '),
    ],
    ids=["a time before all times", "a version of 5000 digits", "a name that colours the screen"],
)
def test_no_document_of_a_site_ends_the_lead_or_writes_on_its_screen(
    federation: Federation, wanted: bytes, given: bytes
) -> None:
    """Whatever a site puts into its lane is refused in one plain line."""
    start(federation, "rush")
    start(federation, "nu")
    honest = federation.read(PassRef(1, "nu").seal)
    assert honest is not None
    forged = honest.replace(b'"lane": "sites/nu"', b'"lane": "sites/uchicago"').replace(wanted, given, 1)
    assert forged.count(given) == 1
    with pytest.raises(BadDocument) as refused:
        Seal.parse(forged, source="metrics.json")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300
    federation.lanes().write(PassRef(1, "uchicago").seal, forged, mode="create")
    pass_time(federation, COLLECT_S + 120)
    assert federation.alive("rush"), federation.processes[0].error
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]


def test_no_site_can_swell_the_verdict_beyond_what_can_be_read(federation: Federation) -> None:
    """A reason for leaving a site out quotes it: a verdict that nobody can read would end the run for all."""
    start(federation, "rush", "nu")
    honest = federation.read(PassRef(1, "nu").seal)
    assert honest is not None
    forged = honest.replace(b'"run_id": "trial"', b'"run_id": "' + "\U000e0001".encode() * 900_000 + b'"')
    forged = forged.replace(b'"lane": "sites/nu"', b'"lane": "sites/uchicago"')
    federation.lanes().write(PassRef(1, "uchicago").seal, forged, mode="create")
    pass_time(federation, COLLECT_S + 120)
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]
    assert len(record_of(federation, 1).excluded[0].reason) < 400


def test_a_store_that_goes_away_after_its_seal_was_seen_holds_up_no_quorum(tmp_path: Path) -> None:
    """Law 7: unknown, and left out at the deadline like a lane that could not be read before."""

    def plan(process: Process) -> object:
        def fault(call: Call) -> Fault | None:
            hidden = process.site == "rush" and "/sites/uchicago/pass_001/model" in call.key
            return "unavailable" if hidden else None

        return fault

    federation = elastic(Federation(tmp_path, num_passes=1, plan=plan))  # type: ignore[arg-type]  # a plan
    start(federation, *federation.sites)
    assert federation.seal(PassRef(1)) is None
    pass_time(federation, COLLECT_S + 180)
    record = record_of(federation, 1)
    assert inputs(record) == ["nu", "rush"]
    assert [(one.site, one.reason) for one in record.excluded] == [("uchicago", UNKNOWN)]


class _HostsClocks(MemoryStore):
    """A synced folder: what a site wrote bears its own machine's hour, here ten days ahead."""

    @property
    def traits(self) -> Traits:
        return replace(super().traits, server_time=False)

    def stat(self, key: str) -> Entry | None:
        entry = super().stat(key)
        if entry is None or "/sites/nu/" not in key:
            return entry
        return replace(entry, modified=entry.modified + timedelta(days=10))


def test_a_sites_clock_that_runs_ahead_moves_no_deadline(tmp_path: Path) -> None:
    """Law 6: no two hosts' clocks are compared."""
    clock = FakeClock()
    federation = elastic(Federation(tmp_path, num_passes=1, store=_HostsClocks(clock=clock)))
    federation.clock = clock
    start(federation, "rush", "nu")
    pass_time(federation, 2 * COLLECT_S)
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]


class _Denied(MemoryStore):
    """A store whose token has expired."""

    def stat(self, key: str) -> Entry | None:
        raise StoreDenied(f"{key}: 403", hint="The token has expired.")

    def list(self, prefix: str) -> Iterator[Entry]:
        raise StoreDenied(f"{prefix}: 403", hint="The token has expired.")


def test_a_lead_that_may_not_read_a_sites_lane_any_more_looks_for_a_new_token(tmp_path: Path) -> None:
    """operate.md: "A running `run` reads `.env` again and goes on"; one site's token may be renewed alone."""
    actors = Actors(tmp_path)
    client, _ = actors.client("rush")
    client.use(replace(client.lanes, stores={**client.lanes.stores, "sites/nu": _Denied()}))
    looked: list[bool] = []
    client.reopen = lambda: looked.append(True)  # type: ignore[method-assign]  # it would read .env
    lead = Lead(client)
    for _ in range(4):
        lead.step()
    assert looked
    client.close()


def test_a_start_that_cannot_be_looked_at_holds_up_no_quorum(tmp_path: Path) -> None:
    """Where passes are bound to their data, the lead reads each `started` event before the verdict."""

    def plan(process: Process) -> object:
        def fault(call: Call) -> Fault | None:
            read = call.verb == "pull" and "/sites/uchicago/events/pass_001.started" in call.key
            return "unavailable" if read and process.site == "rush" else None

        return fault

    federation = elastic(Federation(tmp_path, num_passes=1, plan=plan))  # type: ignore[arg-type]  # a plan
    federation.changes["integrity"] = replace(Integrity(), commit=True)
    for site in federation.sites:
        data = federation.settings(site).data_dir
        data.mkdir(parents=True)
        (data / "rows.csv").write_text("1,2", "utf-8")
    start(federation, *federation.sites)
    assert federation.seal(PassRef(1)) is None
    pass_time(federation, COLLECT_S + 180)
    assert [(one.site, one.reason) for one in record_of(federation, 1).excluded] == [("uchicago", UNKNOWN)]


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


@pytest.mark.xfail(
    strict=True,
    reason="ask_redo refuses a closed round, and nobody can write the abort marker that would reopen it",
    raises=RoundError,
)
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

    def before(process: Process, what: str, *, key: str) -> None:
        if process.site == "nu" and what == "train":
            for _ in range(20):
                federation.advance(60)
                federation.alive("rush")[0].turn("lead")

    federation = elastic(Federation(tmp_path, num_passes=1, before=before))
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
