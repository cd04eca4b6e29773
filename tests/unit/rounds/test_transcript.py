"""A record whose hashes all agree, and which is false all the same: what it says must fit together."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from stitch import layout
from stitch.errors import DigestMismatch, ProtocolError
from stitch.layout import PassRef
from stitch.rounds.chain import Chain
from stitch.rounds.exhibits import Attempts, Exhibit
from stitch.wire import Document, Done, Manifest, Roster, Seal, Verdict, sha256

D = TypeVar("D", bound=Document)
RUN = Path(__file__).parents[2] / "golden" / "run" / "icu-mortality-1"


class Record:
    """The golden run as values; an edit is hashed anew, as a forger with access to everything would."""

    def __init__(self) -> None:
        self.raw: dict[str, dict[str, Any]] = {}
        for path in RUN.rglob("*.json"):
            key = layout.parse(path.relative_to(RUN).as_posix())
            if key is not None and not key.digest:
                self.raw[path.relative_to(RUN).as_posix()] = json.loads(path.read_bytes())
        self.keep_hashes()

    def exhibit(self, path: str, cls: type[D]) -> Exhibit[D]:
        data = json.dumps(self.raw[path]).encode()
        return Exhibit(path, cls.parse(data, source=path), sha256(data))

    def sha256(self, path: str) -> str:
        return sha256(json.dumps(self.raw[path]).encode())

    def seal(self, number: int, site: str = "") -> dict[str, Any]:
        return self.raw[PassRef(number, site or None).seal]

    def verdict(self, number: int, attempt: int = 0) -> dict[str, Any]:
        return self.raw[layout.verdict(number, attempt)]

    def keep_hashes(self) -> None:
        """Make every hash agree again, from the first document on."""
        before = layout.manifest()
        for number in range(3):
            seal = self.seal(number)
            record = seal["round"]
            for one in record["inputs"]:
                own = PassRef(one["pass"], one["site"]).seal
                one["metrics_sha256"] = self.sha256(own) if own in self.raw else one["metrics_sha256"]
            path = layout.verdict(number, record["attempt"])
            if path in self.raw:
                if self.raw[path]["inputs"]:
                    self.raw[path]["inputs"] = record["inputs"]
                record["verdict_sha256"] = self.sha256(path)
            record["prev_metrics_sha256"] = self.sha256(before)
            before = PassRef(number).seal
        self.raw[layout.done()]["final_metrics_sha256"] = self.sha256(before)

    def prove(self) -> None:
        rosters = {
            number: self.exhibit(layout.roster(number), Roster)
            for number in range(1, 9)
            if layout.roster(number) in self.raw
        }
        chain = Chain(self.exhibit(layout.manifest(), Manifest), rosters)
        for number in range(3):
            decided = [a for a in range(5) if layout.verdict(number, a) in self.raw]
            verdicts = {a: self.exhibit(layout.verdict(number, a), Verdict) for a in decided}
            aborted = frozenset(a for a in range(5) if layout.abort(number, a) in self.raw)
            record = chain.extend(self.exhibit(PassRef(number).seal, Seal), Attempts(verdicts, aborted))
            for wanted in record.inputs:
                own = self.exhibit(PassRef(wanted.pass_id, wanted.site).seal, Seal)
                chain.check_input(wanted, own, number=number)
        chain.check_done(self.exhibit(layout.done(), Done))


Forge = Callable[[Record], object]


def inputs(record: Record, number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = record.seal(number)["round"]["inputs"]
    return found


def use_again(record: Record) -> None:
    """Global 2 uses nu's pass 1 once more."""
    inputs(record, 2)[0].update(inputs(record, 1)[0])


def second_roster(record: Record, **sites: str) -> None:
    roster = {**record.raw[layout.roster(1)], "number": 2}
    roster["sites"] = [{"site": site, "state": state} for site, state in sites.items()]
    record.raw[layout.roster(2)] = roster
    for doc in (record.seal(2)["round"], record.verdict(2)):
        doc["roster"] = 2


def agree(record: Record, **settings: object) -> None:
    """Begin the run with further settings, whose hash everybody has."""
    manifest = record.raw[layout.manifest()]
    manifest["settings"].update(settings)
    text = json.dumps(manifest["settings"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    manifest["config_sha256"] = sha256(text.encode())
    for raw in record.raw.values():
        if "config_sha256" in raw:
            raw["config_sha256"] = manifest["config_sha256"]


def agree_on_a_pin(record: Record, when: str = "always") -> None:
    agree(record, pins={"schema.json": {"sha256": "1" * 64, "when": when}})


def declare_the_pin(record: Record, *numbers: int) -> None:
    for raw in record.raw.values():
        if raw["kind"] == "stitch.metrics/1" and raw["pass_id"] in numbers:
            raw["pins"] = {"schema.json": "1" * 64}


def make_of_nothing(record: Record) -> None:
    """Global 1 is the lead's own invention: every site was left out."""
    left_out = [{"site": site, "reason": "too late"} for site in ("nu", "rush", "uchicago")]
    for doc in (record.seal(1)["round"], record.verdict(1)):
        doc.update(inputs=[], excluded=left_out)


def agree_on_a_quorum(record: Record, needed: int) -> None:
    agree(record, policy={"require": "quorum", "min_participants": needed})
    for number in range(3):
        record.seal(number)["round"]["policy"] = "quorum"


def agree_on_privacy(
    record: Record, mode: str = "local", *, said: tuple[str, ...] = (), **more: object
) -> None:
    """What all sites' seals say of it is `said`."""
    agree(record, privacy={"mode": mode, "clip": 1.0, "epsilon": 8.0, "delta": 1e-5, **more})
    for raw in record.raw.values():
        if raw["kind"] == "stitch.metrics/1" and raw["lane"] != "global":
            raw["transforms"] = list(said)


def lose_a_roster(record: Record) -> None:
    second_roster(record, rush="active")
    del record.raw[layout.roster(1)]


def next_attempt(record: Record, code: str = "quorum_not_reached") -> None:
    """Round 2 closed in attempt 1, after attempt 0 was aborted."""
    closed = record.raw.pop(layout.verdict(2, 0))
    record.raw[layout.verdict(2, 1)] = {**closed, "attempt": 1}
    record.seal(2)["attempt"] = record.seal(2)["round"]["attempt"] = 1
    if code:
        aborted = {"verdict": "aborted", "code": code, "inputs": [], "excluded": []}
        record.raw[layout.verdict(2, 0)] = {**closed, **aborted}


def give_up(record: Record, attempt: int) -> None:
    record.raw[layout.abort(2, attempt)] = {
        "kind": "stitch.abort/1",
        "run_id": "icu-mortality-1",
        "pass_id": 2,
        "attempt": attempt,
        "code": "not_deterministic",
        "created_at": "2026-11-30T08:00:00Z",
    }


def test_the_golden_run_holds() -> None:
    Record().prove()


LIES: dict[str, tuple[Forge, str]] = {
    "other settings": (lambda r: r.raw["global/manifest.json"]["settings"].update(num_passes=9), "settings"),
    "a roster is gone": (lose_a_roster, "global/roster/0001.json is not there"),
    "another seed": (lambda r: r.seal(1).update(round_seed=5), "its seed is not that of round 1"),
    "another seed in the record": (lambda r: r.seal(1)["round"].update(seed=5), "its seed is not"),
    "another root seed": (lambda r: r.raw["global/manifest.json"].update(root_seed=8), "its seed is not"),
    "another policy": (lambda r: r.seal(1)["round"].update(policy="quorum"), "by another policy"),
    "final too early": (lambda r: r.seal(1)["round"].update(final=True), "its `final` contradicts"),
    "not final at the end": (lambda r: r.seal(2)["round"].update(final=False), "its `final` contradicts"),
    "goes on after a stop": (
        lambda r: r.seal(1)["round"].update(final=True, should_stop=True),
        "follows a final global",
    ),
    "other settings in a global": (lambda r: r.seal(1).update(config_sha256="0" * 64), "other settings"),
    "other settings at a site": (lambda r: r.seal(1, "nu").update(config_sha256="0" * 64), "other settings"),
    "another base": (lambda r: r.seal(2).update(base_pass=0), "its base is not the global before it"),
    "another base model": (lambda r: r.seal(2).update(base_sha256="0" * 64), "its base is not the global"),
    "an unknown roster": (lambda r: r.seal(2)["round"].update(roster=7), "roster/0007.json is not there"),
    "a site that was paused": (
        lambda r: second_roster(r, rush="active", nu="paused", uchicago="active"),
        "uses nu, not active in global/roster/0002.json",
    ),
    "a site was left out": (
        lambda r: second_roster(r, rush="active", nu="active", uchicago="active", mayo="active"),
        "closed without mayo",
    ),
    "an input twice": (use_again, "uses pass 1 of nu, which global 1 has used already"),
    "a site twice": (lambda r: inputs(r, 2).append(dict(inputs(r, 2)[1])), "not one a site"),
    "out of order": (lambda r: inputs(r, 2).reverse(), "not one a site"),
    "made of nothing": (make_of_nothing, "made of 0 passes; a round needs 1"),
    "below the quorum": (lambda r: agree_on_a_quorum(r, 3), "passes; a round needs 3"),
    "no clip": (
        lambda r: agree_on_privacy(r, noise_multiplier=2.0),
        "pass_001/metrics.json: does not say clip:1",
    ),
    "a clip without noise": (lambda r: agree_on_privacy(r, said=("clip:1",)), "does not say gaussian:0.8489"),
    "too little noise": (
        lambda r: agree_on_privacy(r, said=("clip:1", "gaussian:1"), noise_multiplier=2.0),
        "does not say gaussian:2",
    ),
    "no noise at the lead": (
        lambda r: agree_on_privacy(r, "central", said=("clip:1",)),
        "global/pass_001/metrics.json: does not say clip:1",
    ),
    "no verdict": (lambda r: r.raw.pop(layout.verdict(2, 0)), "rounds/pass_002.a0.json is not there"),
    "an aborted verdict": (lambda r: r.verdict(2).update(verdict="aborted"), "aborted, and global 2"),
    "another roster decided": (lambda r: r.verdict(2).update(roster=3), "names another roster"),
    "others excluded": (lambda r: r.verdict(2).update(excluded=[]), "excludes others"),
    "attempts that nobody aborted": (lambda r: next_attempt(r, code=""), "attempt 0 of round 2 was not"),
    "an input of more samples": (lambda r: inputs(r, 1)[0].update(n_samples=999), "names another pass"),
    "another model of an input": (lambda r: inputs(r, 1)[0].update(model_sha256="0" * 64), "another model"),
    "a stale input called fresh": (
        lambda r: r.seal(2, "nu").update(base_pass=0, base_sha256=r.seal(0)["model_sha256"]),
        "a pass from global 0 is pass 1",
    ),
    "a fresh input called stale": (lambda r: inputs(r, 2)[0].update(staleness=1), "calls it 1 behind, not 0"),
    "a base beyond": (lambda r: r.seal(1, "nu").update(base_pass=1), "its base is no global before global 1"),
    "another base of an input": (lambda r: r.seal(1, "nu").update(base_sha256="0" * 64), "another model"),
    "a seed that was not echoed": (lambda r: r.seal(1, "nu").update(round_seed=3), "its round_seed"),
    "pins that were not agreed": (lambda r: r.seal(1, "nu").update(pins={"a": "0" * 64}), "its pins are not"),
    "a pin that was agreed": (agree_on_a_pin, "its pins are not"),
    "no commitment": (lambda r: agree(r, integrity={"commit": True}), "does not commit to its data"),
    "global 0 with a verdict": (lambda r: r.seal(0)["round"].update(attempt=1), "its attempt is not"),
    "DONE too early": (lambda r: r.raw[layout.done()].update(final_pass=1), "does not name the seal"),
    "DONE of nothing": (lambda r: r.raw[layout.done()].update(final_pass=None), "no final pass, and a hash"),
    "stopped early": (
        lambda r: r.raw[layout.done()].update(reason="early_stopped"),
        "its global does not say so",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_whose_hashes_agree_is_found(lie: str) -> None:
    forge, said = LIES[lie]
    record = Record()
    forge(record)
    record.keep_hashes()
    with pytest.raises(ProtocolError) as refused:
        record.prove()
    assert said in str(refused.value)


def test_a_quorum_that_was_reached_and_privacy_that_was_kept_are_no_lies() -> None:
    record = Record()
    agree_on_a_quorum(record, 2)
    agree_on_privacy(record, said=("clip:1", "gaussian:0.8489"))
    record.keep_hashes()
    record.prove()


@pytest.mark.parametrize(("when", "numbers"), [("always", (0, 1, 2)), ("pass_0", (0, 1))])
def test_pins_that_everybody_declares_as_long_as_they_hold_are_no_lie(
    when: str, numbers: tuple[int, ...]
) -> None:
    record = Record()
    agree_on_a_pin(record, when)
    declare_the_pin(record, *numbers)
    record.keep_hashes()
    record.prove()


def test_a_global_of_other_inputs_than_were_decided_is_found() -> None:
    record = Record()
    record.verdict(2)["inputs"] = inputs(record, 2)[:1]
    record.seal(2)["round"]["verdict_sha256"] = record.sha256(layout.verdict(2, 0))
    with pytest.raises(ProtocolError, match="names other inputs than global 2"):
        record.prove()


def test_hashes_that_do_not_agree_are_named_as_such() -> None:
    for path in (
        "global/pass_001/metrics.json",
        "global/rounds/pass_002.a0.json",
        "sites/nu/pass_001/metrics.json",
    ):
        record = Record()
        record.raw[path]["created_at"] = "2026-11-30T09:00:00Z"
        with pytest.raises(DigestMismatch):
            record.prove()


def test_a_round_that_closed_in_its_second_attempt_holds() -> None:
    record = Record()
    next_attempt(record)
    record.keep_hashes()
    record.prove()


def test_an_attempt_given_up_after_its_verdict_counts_as_aborted() -> None:
    record = Record()
    first = dict(record.verdict(2))
    next_attempt(record, code="")
    record.raw[layout.verdict(2, 0)] = first
    record.keep_hashes()
    with pytest.raises(ProtocolError, match="attempt 0 of round 2 was not aborted"):
        record.prove()
    give_up(record, 0)
    record.prove()


def test_a_sealed_global_overrules_an_abort_of_its_own_attempt() -> None:
    """Law 2: a rival lead gave the attempt up while this one sealed it."""
    record = Record()
    give_up(record, 0)
    record.prove()
