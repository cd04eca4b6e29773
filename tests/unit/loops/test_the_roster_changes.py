"""The roster changes while a run goes on, and the run is ended for everybody (law 7, law 11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from stitch import layout
from stitch.client.operator import change_roster, end_run
from stitch.errors import ConfigError, ProtocolError
from stitch.layout import PassRef
from stitch.testing.federation import Federation
from stitch.testing.processes import Before, Process
from stitch.wire import Done
from tests.unit.loops.elastic import inputs, record_of, settle, start


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path, num_passes=3)


def lead_of(federation: Federation) -> Process:
    return federation.alive("rush")[0]


@pytest.mark.parametrize("change", ["drop", "pause"])
def test_who_is_dropped_or_paused_is_not_waited_for_any_more_at_once(
    federation: Federation, change: str
) -> None:
    start(federation, "rush", "nu")
    assert federation.seal(PassRef(1)) is None
    roster = change_roster(lead_of(federation).client, change, site="uchicago")  # type: ignore[arg-type]  # one of Change
    settle(federation)
    assert record_of(federation, 1).roster == roster.number == 2
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]


def test_a_paused_site_waits_and_is_back_from_the_next_round_on(federation: Federation) -> None:
    start(federation, "rush", "nu")
    change_roster(lead_of(federation).client, "pause", site="uchicago")
    federation.start("uchicago")
    federation.alive("uchicago")[0].turns()
    assert federation.alive("uchicago")[0].said == "the lead has paused this site"
    federation.before = _resume_in_round_two()
    federation.run()
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]
    assert "uchicago" in inputs(record_of(federation, 3))
    assert federation.seal(PassRef(1, "uchicago")) is None


def _resume_in_round_two() -> Before:
    done: list[bool] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "aggregate" and key == "pass_002" and not done:
            done.append(True)
            roster = change_roster(process.client, "resume", site="uchicago")
            entry = next(one for one in roster.sites if one.site == "uchicago")
            assert (entry.since, entry.since_attempt) == (2, 1)

    return before


def test_a_site_that_joins_is_waited_for_from_the_next_round_on(tmp_path: Path) -> None:
    federation = Federation(tmp_path, num_passes=3, sites=("rush", "nu", "uchicago"))
    start(federation, "rush")
    client = lead_of(federation).client
    change_roster(client, "drop", site="uchicago")
    roster = change_roster(client, "add", site="uchicago", key="ab" * 32)
    added = next(one for one in roster.sites if one.site == "uchicago")
    assert (added.since, added.since_attempt, added.key) == (1, 1, "ab" * 32)
    federation.start("uchicago")
    settle(federation)
    assert federation.seal(PassRef(1, "uchicago")) is None, "it takes part from pass 2 on"
    federation.start("nu")
    federation.run()
    assert inputs(record_of(federation, 1)) == ["nu", "rush"]
    assert inputs(record_of(federation, 2)) == ["nu", "rush", "uchicago"]
    assert record_of(federation, 2).roster == 3


@pytest.mark.parametrize(
    ("change", "site", "said"),
    [
        ("add", "nu", "on the roster already"),
        ("drop", "mayo", "not on the roster"),
        ("pause", "mayo", "not on the roster"),
        ("resume", "nu", "active already"),
    ],
)
def test_a_change_without_sense_is_refused_and_writes_nothing(
    federation: Federation, change: str, site: str, said: str
) -> None:
    start(federation, "rush")
    with pytest.raises(ConfigError, match=said):
        change_roster(lead_of(federation).client, change, site=site)  # type: ignore[arg-type]  # one of Change
    assert federation.read(layout.roster(2)) is None


def test_nobody_left_is_refused(federation: Federation) -> None:
    start(federation, "rush")
    client = lead_of(federation).client
    change_roster(client, "drop", site="nu")
    change_roster(client, "pause", site="uchicago")
    with pytest.raises(ConfigError, match="nobody would be left"):
        change_roster(client, "drop", site="rush")


def test_only_the_lead_may(federation: Federation) -> None:
    start(federation, "rush", "nu")
    site = federation.alive("nu")[0].client
    with pytest.raises(ConfigError, match="only the lead"):
        change_roster(site, "drop", site="uchicago")
    with pytest.raises(ConfigError, match="only the lead"):
        end_run(site, "we want to")


def test_before_the_run_has_begun_there_is_nothing_to_change(federation: Federation) -> None:
    client = federation.start("rush").client
    for act in (lambda: change_roster(client, "drop", site="nu"), lambda: end_run(client, "no")):
        with pytest.raises(ProtocolError, match="not begun"):
            act()


def test_an_ended_run_names_the_last_valid_global_and_everybody_stops_with_it(
    federation: Federation,
) -> None:
    start(federation, "rush", "nu")
    done = end_run(lead_of(federation).client, "the grant is over")
    assert done.final_pass == 0
    federation.start("uchicago")
    federation.run()
    assert all(process.finished for process in federation.processes)
    assert federation.seal(PassRef(1)) is None
    again = end_run(federation.start("rush").client, "another reason")
    assert again == done, "a run ends once"


def test_a_run_ended_while_the_lead_aggregates_publishes_no_further_global(tmp_path: Path) -> None:
    ended: list[Done] = []

    def before(process: Process, what: str, *, key: str) -> None:
        if what == "aggregate" and key == "pass_002" and not ended:
            ended.append(end_run(process.client, "enough"))

    federation = Federation(tmp_path, num_passes=3, before=before)
    for site in federation.sites:
        federation.start(site)
    federation.run()
    assert ended[0].final_pass == 1
    assert federation.seal(PassRef(2)) is None
    assert all(process.finished for process in federation.processes)
