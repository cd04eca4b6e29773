"""`clif-stitch sites` and `clif-stitch end`: what the lead's person does to a run under way."""

from __future__ import annotations

import json

import pytest

from tests.cli.federation import Federation, Said, unchanged


def roster(federation: Federation, number: int) -> dict[str, object]:
    document: dict[str, object] = json.loads(
        (federation.run / f"global/roster/{number:04d}.json").read_text(encoding="utf-8")
    )
    return document


def test_the_roster_is_shown(federation: Federation) -> None:
    assert "not begun" in federation.lead.call("sites").out
    federation.begin()
    shown = federation.lead.call("sites")
    assert (shown.code, shown.err) == (0, "")
    assert [line.split()[:2] for line in shown.out.splitlines()[1:]] == [["nu", "active"], ["rush", "active"]]
    assert federation.nu.call("sites").out == shown.out, "at every site"


def test_a_dropped_site_is_not_waited_for_and_the_run_comes_to_its_end(federation: Federation) -> None:
    federation.begin()
    said = federation.lead.call("sites", "drop", "NU")
    assert (said.code, said.out) == (0, "roster 2: drop nu. Taking part: rush\n")
    assert federation.lead.call("run").code == 0
    seal = json.loads((federation.run / "global/pass_001/metrics.json").read_text(encoding="utf-8"))
    assert [one["site"] for one in seal["round"]["inputs"]] == ["rush"]
    assert seal["round"]["roster"] == 2


def test_the_roster_changes_while_the_lead_runs(federation: Federation) -> None:
    with federation.lead.running() as lead:
        federation.await_key("global/pass_000/metrics.json")
        assert federation.lead.call("sites", "pause", "nu").code == 0
        assert lead.said().code == 0


def test_pause_resume_and_a_new_key_are_recorded(federation: Federation) -> None:
    federation.begin()
    for words in (("pause", "nu"), ("resume", "nu"), ("add", "nu", "--key", "ab" * 32)):
        said = federation.lead.call("sites", *words)
        assert (said.code, said.err) == (0, ""), said
    sites = roster(federation, 4)["sites"]
    assert isinstance(sites, list)
    entry = next(one for one in sites if one["site"] == "nu")
    assert (entry["state"], entry["since"], entry["since_attempt"], entry["key"]) == (
        "active", 1, 1, "ab" * 32,
    )  # fmt: skip
    assert "from pass 1" not in federation.lead.call("sites").out


def test_a_site_is_asked_for_a_new_pass(federation: Federation) -> None:
    federation.begin()
    said = federation.lead.call("sites", "redo", "rush")
    assert (said.code, said.err) == (0, ""), said
    aborted = json.loads((federation.run / "global/rounds/pass_001.a0.json").read_text(encoding="utf-8"))
    assert (aborted["verdict"], aborted["redo"]) == ("aborted", ["rush"])
    lead, site = federation.finish()
    assert (lead.code, site.code) == (0, 0)
    assert (federation.run / "sites/rush/pass_001.a1/metrics.json").is_file()
    final = json.loads((federation.run / "global/pass_001/metrics.json").read_text(encoding="utf-8"))
    assert final["round"]["attempt"] == 1


@pytest.mark.parametrize(
    ("words", "code", "cause"),
    [
        (("drop", "mayo"), 2, "mayo is not on the roster (nu, rush)"),
        (("add", "nu"), 2, "nu is on the roster already"),
        (("resume", "nu"), 2, "nu is active already"),
        (("drop", "Not a site!"), 2, "the site"),
        (("redo", "mayo"), 2, "round 1 does not wait for mayo"),
    ],
)
def test_what_makes_no_sense_is_refused_and_nothing_changes(
    federation: Federation, words: tuple[str, ...], code: int, cause: str
) -> None:
    federation.begin()
    with unchanged(federation.store):
        said = federation.lead.call("sites", *words)
    assert said.code == code
    assert cause in said.cause
    assert said.todo


@pytest.mark.parametrize("words", [("sites", "drop", "rush"), ("end", "--reason", "no")])
def test_only_the_lead_may(federation: Federation, words: tuple[str, ...]) -> None:
    federation.begin()
    with unchanged(federation.store):
        said = federation.nu.call(*words)
    assert said.code == 2
    assert "only the lead (rush)" in said.cause


@pytest.mark.parametrize("words", [("sites", "drop", "nu"), ("end", "--reason", "no")])
def test_before_the_run_has_begun_there_is_nothing_to_do(
    federation: Federation, words: tuple[str, ...]
) -> None:
    with unchanged(federation.store):
        said: Said = federation.lead.call(*words)
    assert said.code == 30
    assert "the run has not begun" in said.cause


def test_a_run_is_ended_once_over_the_newest_global(federation: Federation) -> None:
    federation.begin()
    said = federation.lead.call("end", "--reason", "the grant is over")
    assert (said.code, said.out) == (0, "the run is over with global 0: the grant is over\n")
    again = federation.lead.call("end", "--reason", "another")
    assert again.out == "the run is already over with global 0: the grant is over\n"
    assert "over" in federation.lead.call("sites", "drop", "nu").cause
    lead, site = federation.finish()
    assert (lead.code, site.code) == (0, 0)
    assert not (federation.run / "global/pass_001").exists()
