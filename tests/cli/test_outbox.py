"""`clif-stitch outbox`: nothing with a number or a weight leaves before a person saw it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.federation import Federation, Site, await_that, unchanged

WAITING = 3
HELD = "pass 1 is held for review"


@pytest.fixture
def held(federation: Federation) -> Federation:
    """The site nu reviews what leaves; its pass 1 is trained and waits."""
    review(federation.nu)
    federation.begin()
    said = federation.nu.call("step", "--exit-code")
    assert said.code == WAITING, said
    assert f"waiting: {HELD}" in said.out
    return federation


def review(site: Site, value: str = "review") -> None:
    """As the privacy officer writes it, into the site's own file alone."""
    file = site.root / "config/config.json"
    site.write("config/config.json", json.dumps(json.loads(file.read_text("utf-8")) | {"outbox": value}))


def left(federation: Federation, site: str = "nu") -> set[str]:
    """Every key of a site's lane."""
    lane = federation.run / "sites" / site
    return {path.relative_to(federation.store).as_posix() for path in lane.rglob("*.json") if path.is_file()}


def shown(site: Site, *words: str) -> dict[str, Any]:
    said = site.call("outbox", "show", *words, "--json")
    assert (said.code, said.err) == (0, "")
    told: dict[str, Any] = json.loads(said.out)
    return told


def test_until_a_person_approves_only_signs_of_life_leave(held: Federation) -> None:
    names = {key.removeprefix("icu/sites/nu/") for key in left(held)}
    assert names == {
        "events/heartbeat.json",
        "events/pass_001.started.json",
        "join/0001.json",
        "lease/term-0001.json",
    }
    with unchanged(held.store, but=("events/heartbeat",)):
        assert held.nu.call("step", "--exit-code").code == WAITING, "and again, without training again"


def test_what_show_lists_is_exactly_what_then_leaves(held: Federation) -> None:
    before = left(held)
    told = shown(held.nu)
    assert told["kind"] == "stitch.outbox/1"
    assert told["store"] == str(held.store)
    (one,) = told["passes"]
    assert (one["pass"], one["state"], one["n_samples"], one["metrics"]) == (1, "held", 50, {"loss": 0.5})
    assert held.nu.call("outbox", "approve", "1").code == 0
    assert held.nu.call("step", "--exit-code").code == 0
    listed = {file["key"] for file in one["files"]}
    new = {key for key in left(held) - before if "/lease/" not in key}
    assert new == listed | {"icu/sites/nu/events/pass_001.completed.json"}
    for file in one["files"]:
        data = (held.store / file["key"]).read_bytes()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file["bytes"], file["sha256"])
    assert shown(held.nu)["passes"] == []
    assert shown(held.nu, "1")["passes"][0]["state"] == "sent"
    federation_ends_well(held)


def test_show_for_a_person_fits_a_console_and_holds_no_token(held: Federation) -> None:
    held.nu.write(".env", 'STITCH_STORE="https://study.blob.core.windows.net/lane?sv=1&sp=r&sig=c2VjcmV0"\n')
    said = held.nu.call("outbox", "show")
    assert said.code == 0
    for text in ("to https://study.blob.core.windows.net/lane:", "n_samples 50", "loss 0.5", "SHA-256 "):
        assert text in said.out
    assert "icu/sites/nu/pass_001/metrics.json" in said.out
    assert "then: clif-stitch outbox approve 1, or clif-stitch outbox refuse 1" in said.out
    assert "sig" not in said.out
    assert said.out.isascii()
    assert max(map(len, said.out.splitlines())) <= 120


def test_nobody_approves_what_nobody_saw(held: Federation) -> None:
    with unchanged(held.store, held.nu.root):
        said = held.nu.call("outbox", "approve", "1")
    assert said.code == 2
    assert said.cause == "pass 1, as it is sealed now, was not shown to anybody yet"
    assert "outbox show" in said.todo


def test_a_refused_pass_is_kept_and_trained_again_and_needs_an_approval_of_its_own(held: Federation) -> None:
    first = shown(held.nu)["passes"][0]
    said = held.nu.call("outbox", "refuse", "1")
    assert said.code == 0
    assert "local/aside/sites-nu-pass_001-1" in said.out.replace("\\", "/")
    aside = held.nu.mirror / "local/aside/sites-nu-pass_001-1/metrics.json"
    assert hashlib.sha256(aside.read_bytes()).hexdigest() == first["seal_sha256"]
    assert held.nu.call("step", "--exit-code").code == WAITING
    second = shown(held.nu)["passes"][0]
    assert (first["attempt"], second["attempt"]) == (1, 2)
    assert second["seal_sha256"] != first["seal_sha256"]
    assert "icu/sites/nu/events/pass_001.started.2.json" in left(held)
    assert held.nu.call("outbox", "approve", "1").code == 0
    federation_ends_well(held)


def test_an_approval_is_of_one_seal(held: Federation) -> None:
    """Approved, and then something is sealed anew under that number: it waits again."""
    shown(held.nu)
    assert held.nu.call("outbox", "approve", "1").code == 0
    (held.nu.mirror / "sites/nu/pass_001").rename(held.nu.root / "lost")
    assert held.nu.call("step", "--exit-code").code == WAITING
    assert not (held.run / "sites/nu/pass_001/metrics.json").exists()
    assert held.nu.call("outbox", "approve", "1").code == 2


def test_a_running_site_says_that_it_waits_and_goes_on_when_approved(held: Federation) -> None:
    beats = held.run / "sites/nu/events/heartbeat.json"
    with held.lead.running() as lead, held.nu.running() as site:
        site.await_line(HELD)
        await_that(lambda: json.loads(beats.read_bytes())["state"] == "waiting", "its beat", or_end=site)
        assert HELD in held.nu.call("status").out.replace("\n", " ")
        shown(held.nu)
        assert held.nu.call("outbox", "approve", "1").code == 0
        assert (site.said().code, lead.said().code) == (0, 0)


def test_a_running_site_trains_again_when_refused(held: Federation) -> None:
    with held.nu.running() as site:
        site.await_line(HELD)
        assert held.nu.call("outbox", "refuse", "1").code == 0
        site.await_line(" train ")
        await_that(lambda: shown(held.nu)["passes"] != [], "the next attempt", or_end=site)
    assert shown(held.nu)["passes"][0]["attempt"] == 2


def test_no_score_and_no_words_of_a_hook_leave_under_review(held: Federation) -> None:
    for site in (held.lead, held.nu):
        site.toml("aggregate =", 'evaluate = "code/hooks.py:evaluate"\naggregate =')
        site.toml("[transfer]", "[egress]\nerror_messages = true\n[transfer]")
        site.hooks("def aggregate", 'def evaluate(**_):\n    return {"n_samples": 50}\n\n\ndef aggregate')
    shown(held.nu)
    assert held.nu.call("outbox", "refuse", "1").code == 0
    held.nu.hooks("    base =", "    raise ValueError('patient 12345')\n    base =")
    assert held.nu.call("step").code == 11
    failed = json.loads((held.run / "sites/nu/events/pass_001.failed.2.json").read_bytes())
    assert (failed["exception"], failed["message"]) == ("ValueError", None)
    held.nu.hooks("def aggregate", 'def evaluate(**_):\n    return {"n_samples": 50}\n\n\ndef aggregate')
    assert held.nu.call("step", "--exit-code").code == WAITING
    shown(held.nu)
    assert held.nu.call("outbox", "approve", "1").code == 0
    federation_ends_well(held)
    assert (held.run / "sites/rush/events/pass_001.evaluated.json").is_file()
    assert not (held.run / "sites/nu/events/pass_001.evaluated.json").exists()


def test_the_leads_own_training_is_held_as_well_and_globals_are_not(federation: Federation) -> None:
    for site in (federation.lead, federation.nu):
        site.toml("[transfer]", '[egress]\noutbox = "review"\n[transfer]')
    for _ in range(2):
        assert federation.lead.call("step").code == 0
    assert (federation.run / "global/pass_000/metrics.json").is_file()
    assert not (federation.run / "sites/rush/pass_001").exists()
    federation.nu.call("step")
    for site in (federation.lead, federation.nu):
        assert [one["pass"] for one in shown(site)["passes"]] == [1]
        assert site.call("outbox", "approve", "1").code == 0
    federation_ends_well(federation)


@pytest.mark.parametrize(("own", "waits"), [("direct", True), ("review", True)])
def test_a_site_can_add_a_review_and_not_waive_one(federation: Federation, own: str, waits: bool) -> None:
    federation.nu.toml("[transfer]", '[egress]\noutbox = "review"\n[transfer]')
    review(federation.nu, own)
    federation.begin()
    assert (federation.nu.call("step", "--exit-code").code == WAITING) == waits


def test_a_word_that_is_none_is_named(federation: Federation) -> None:
    review(federation.nu, "sometimes")
    said = federation.nu.call("outbox", "show")
    assert said.code == 2
    assert said.cause == "config/config.json: 'outbox' is 'sometimes', wanted \"review\" or \"direct\""


def test_what_was_sent_cannot_be_refused(held: Federation) -> None:
    shown(held.nu)
    held.nu.call("outbox", "approve", "1")
    for state in ("approved", "sent"):
        with unchanged(held.store, held.nu.root, but=("runs/",)):
            said = held.nu.call("outbox", "refuse", "1")
        assert said.code == 36
        assert said.cause == f"pass 1 does not wait for review: it is {state}"
        held.nu.call("step")
    assert "was sent already" in held.nu.call("outbox", "approve", "1").out


def test_a_pass_that_is_not_there_is_named_with_those_that_wait(held: Federation) -> None:
    for verb in ("show", "approve", "refuse"):
        said = held.nu.call("outbox", verb, "7")
        assert said.code == 2
        assert said.cause == "pass 7 is not sealed here; waiting for review: 1"


def test_without_a_review_nothing_waits(federation: Federation) -> None:
    federation.begin()
    assert federation.nu.call("step", "--exit-code").code == 0
    said = federation.nu.call("outbox", "show")
    assert said.code == 0
    assert "nothing waits for review" in said.out


def test_a_wiped_mirror_has_nothing_to_review_that_was_sent(held: Federation) -> None:
    shown(held.nu)
    held.nu.call("outbox", "approve", "1")
    federation_ends_well(held)
    wiped(held.nu.root / "stitch_store")
    assert held.nu.call("run").code == 0
    assert shown(held.nu)["passes"] == []


def wiped(folder: Path) -> None:
    folder.rename(folder.with_name("wiped"))


def federation_ends_well(federation: Federation) -> None:
    federation.finish_well()
