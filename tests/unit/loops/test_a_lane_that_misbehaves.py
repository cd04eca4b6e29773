"""A site's lane that misbehaves: forged documents, stores that go away, clocks that run ahead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from stitch.config.settings import Integrity
from stitch.errors import BadDocument, StoreDenied
from stitch.layout import PassRef
from stitch.loops import Lead
from stitch.rounds import UNKNOWN
from stitch.store.base import Entry, Traits
from stitch.store.memory import MemoryStore
from stitch.testing.clocks import FakeClock
from stitch.testing.faulty import Call, Fault
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from stitch.wire import Seal
from stitch.wire.seal import MAX_COUNT
from tests.unit.loops.actors import Actors
from tests.unit.loops.conftest import Begin
from tests.unit.loops.elastic import COLLECT_S, elastic, inputs, pass_time, record_of, start


@pytest.fixture
def federation(begin: Begin) -> Federation:
    return elastic(begin(num_passes=3))


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


def test_no_site_can_count_so_many_samples_that_no_global_can_be_sealed(federation: Federation) -> None:
    """The sum of all counts is written down after the verdict, when nobody can be left out any more."""
    start(federation, "rush", "nu")
    honest = federation.seal(PassRef(1, "nu"))
    assert honest is not None
    forged = honest.model_copy(update={"lane": "sites/uchicago", "n_samples": MAX_COUNT})
    federation.lanes().write(PassRef(1, "uchicago").seal, forged.dump(), mode="create")
    model = federation.lanes().read(PassRef(1, "nu").model(honest.model_sha256, "bin"), limit=1000)
    assert model is not None
    path = PassRef(1, "uchicago").model(honest.model_sha256, "bin")
    federation.lanes().write(path, model[1], mode="create")
    pass_time(federation, COLLECT_S + 120)
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]
    [left_out] = record_of(federation, 1).excluded
    assert left_out.reason == f"its n_samples is no count of rows: {MAX_COUNT}"


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
    """A folder in which what a site wrote bears an hour ten days ahead."""

    server_time = True

    @property
    def traits(self) -> Traits:
        return replace(super().traits, server_time=self.server_time)

    def stat(self, key: str) -> Entry | None:
        entry = super().stat(key)
        return None if entry is None else self._told(entry)

    def list(self, prefix: str) -> Iterator[Entry]:
        return (self._told(entry) for entry in super().list(prefix))

    def _told(self, entry: Entry) -> Entry:
        ahead = timedelta(days=10) if "/sites/nu/" in entry.key else timedelta(0)
        return replace(entry, modified=entry.modified + ahead)


@pytest.mark.parametrize(
    "server_time", [False, True], ids=["its machine's, in a copied folder", "set by hand"]
)
def test_a_sites_hour_that_lies_ahead_moves_no_deadline(tmp_path: Path, server_time: bool) -> None:
    """Law 6: no two hosts' clocks are compared; and in a shared folder a writer can set the times."""
    clock = FakeClock()
    store = _HostsClocks(clock=clock)
    store.server_time = server_time
    federation = elastic(Federation(tmp_path, num_passes=1, store=store))
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
