"""A run that signs: nothing is believed that its lane's owner did not sign, and each refusal has a name."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from stitch import layout
from stitch.client.carry_list import in_order
from stitch.client.keys import make_key
from stitch.client.operator import change_roster
from stitch.config.policy import Policy
from stitch.config.settings import StoreSettings
from stitch.errors import ConfigError, SignatureRefused, StoreError
from stitch.layout import SIGNED, PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.proof.transcript import Transcript
from stitch.sync.signing import Signs
from stitch.sync.status import Status
from stitch.testing.faulty import Crashed, Fault, FaultyStore, once
from stitch.wire import Done, Seal, sha256
from tests.unit.loops.actors import Loop, finish
from tests.unit.loops.signed import NU, PAIR, Run, forged, over


def test_a_signed_run_ends_and_whatever_decides_has_its_signature(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin()
    finish(run.loops())
    paths = run.paths()
    decides = [path for path in paths if layout.require(path).what in SIGNED]
    assert {layout.require(path).what for path in decides} == SIGNED - {layout.What.ABORT}
    assert [path for path in decides if layout.signature(path, sha256(run.read(path))) not in paths] == []
    assert run.prove().complete
    assert not any(b"PRIVATE" in run.read(path) for path in paths)


def test_a_run_that_does_not_sign_writes_none(tmp_path: Path) -> None:
    run = Run(tmp_path)
    del run.changes["security"]
    for site in PAIR:
        run.start(site)
    finish(run.loops())
    assert [path for path in run.paths() if layout.require(path).what is layout.What.SIGNATURE] == []
    assert b"security" not in run.read(layout.manifest())


def turns(loop: Loop, count: int) -> None:
    for _ in range(count):
        loop.step()


UNSIGNED, STRANGER, UNLISTED = "is not signed", "signed by another key", "no key of nu is on the roster"


def spoil(run: Run, how: str, *, stranger: Signs) -> None:
    """Nu publishes its pass, and somebody puts another in its place."""
    Local(run.clients["nu"]).step()
    while PassRef(1, "nu").seal not in run.paths():
        Local(run.clients["nu"]).step()
    if how == UNLISTED:
        return
    data = forged(run, NU)
    if how == STRANGER:
        run.sign(NU.seal, data, by=stranger)


@pytest.mark.parametrize("how", [UNSIGNED, STRANGER, UNLISTED])
def test_a_pass_that_is_not_its_sites_own_is_waited_for_by_all_expected(tmp_path: Path, how: str) -> None:
    run = Run(tmp_path / "run")
    run.begin(listed=how != UNLISTED)
    spoil(run, how, stranger=make_key(tmp_path))
    loops: list[Loop] = [Lead(run.lead), Local(run.lead)]
    said = [loop.step().why for _ in range(6) for loop in loops]
    assert any(how in why and "nu" in why for why in said), said
    assert PassRef(1).seal not in run.paths()


@pytest.mark.parametrize("how", [UNSIGNED, STRANGER, UNLISTED])
def test_a_quorum_goes_on_without_it_and_says_why(tmp_path: Path, how: str) -> None:
    run = Run(tmp_path / "run", policy=Policy(require="quorum", min_participants=1))
    run.begin(listed=how != UNLISTED)
    spoil(run, how, stranger=make_key(tmp_path))
    loops: list[Loop] = [Lead(run.lead), Local(run.lead)]
    for _ in range(12):
        for loop in loops:
            loop.step()
    seal = Seal.parse(run.read(PassRef(1).seal), source="")
    assert seal.round is not None
    assert [one.site for one in seal.round.inputs] == ["rush"]
    (left,) = seal.round.excluded
    assert left.site == "nu"
    assert how in left.reason


@pytest.mark.parametrize("by", ["nobody", "nu"])
def test_nobody_trains_from_a_global_that_the_lead_did_not_sign(tmp_path: Path, by: str) -> None:
    run = Run(tmp_path)
    run.begin()
    data = forged(run, PassRef(0))
    if by == "nu":
        run.sign(PassRef(0).seal, data, by=run.keys["nu"])
    run.trained.clear()
    local = Local(run.clients["nu"])
    with pytest.raises(SignatureRefused, match=r"global/pass_000/metrics\.json") as refused:
        turns(local, 4)
    assert refused.value.exit_code == 39
    assert run.trained == []
    assert run.clients["nu"].mirror.sealed(PassRef(0)) is None, "it was not even fetched"
    assert not any(path.startswith("sites/nu/events/pass_001.started") for path in run.paths())


def test_a_manifest_that_the_lead_did_not_sign_begins_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin()
    data = run.read(layout.manifest()).replace(b'"root_seed": 1', b'"root_seed": 2')
    run.put(layout.manifest(), data)
    run.sign(layout.manifest(), data, by=run.keys["nu"])
    with pytest.raises(SignatureRefused, match="manifest"):
        Local(run.clients["nu"]).step()
    assert run.clients["nu"].mirror.read(layout.manifest()) is None


def test_a_forged_end_ends_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin()
    now = run.lead.clock.now()
    done = Done.make(
        run_id="trial", final_pass=None, final_metrics_sha256=None, reason="stop", created_at=now
    )
    run.put(layout.done(), done.dump())
    with pytest.raises(SignatureRefused, match=r"DONE\.json is not signed"):
        Local(run.clients["nu"]).step()


def test_a_signature_of_another_place_does_not_count(tmp_path: Path) -> None:
    """A pass of nu, copied to where a redone one would lie, with its signature."""
    run = Run(tmp_path)
    run.begin()
    finish(run.loops())
    redone = PassRef(1, "nu", 1)
    data = run.read(NU.seal)
    run.put(redone.seal, data)
    run.put(layout.signature(redone.seal, sha256(data)), run.read(layout.signature(NU.seal, sha256(data))))
    with pytest.raises(SignatureRefused, match="does not hold for these bytes at this place"):
        run.prove()


def test_a_key_that_was_replaced_counts_for_what_is_old_and_for_nothing_new(tmp_path: Path) -> None:
    run = Run(tmp_path / "run", policy=Policy(require="quorum", min_participants=1))
    run.begin()
    spoil(run, UNLISTED, stranger=run.keys["nu"])
    change_roster(run.lead, "add", site="nu", key=make_key(tmp_path).fingerprint)
    loops: list[Loop] = [Lead(run.lead), Local(run.lead)]
    for _ in range(12):
        for loop in loops:
            loop.step()
    seal = Seal.parse(run.read(PassRef(1).seal), source="")
    assert seal.round is not None
    assert [one.reason for one in seal.round.excluded] == ["it is signed by another key than the roster's"]
    assert run.prove().complete, "its join and its pass were its own when they were made"


def test_a_lane_that_is_carried_by_hand_brings_each_signature_before_its_document(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin()
    finish(run.loops())
    for lane in ("global", "sites/nu"):
        order = [path for path, _ in in_order(run.paths(), lane)]
        decides = [path for path in order if layout.require(path).what in SIGNED]
        assert decides
        for path in decides:
            assert order.index(layout.signature(path, sha256(run.read(path)))) < order.index(path)


def test_a_site_that_is_listed_without_a_key_gives_no_pass(tmp_path: Path) -> None:
    run = Run(tmp_path, policy=Policy(require="quorum", min_participants=1))
    run.begin()
    spoil(run, UNLISTED, stranger=run.keys["nu"])
    change_roster(run.lead, "add", site="nu", key=None)
    for _ in range(12):
        turns(Lead(run.lead), 1)
        turns(Local(run.lead), 1)
    seal = Seal.parse(run.read(PassRef(1).seal), source="")
    assert seal.round is not None
    assert [one.reason for one in seal.round.excluded] == ["the site has no key on the roster"]


def test_in_a_copied_folder_a_signature_may_come_after_its_seal(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.changes["store"] = StoreSettings(synced=True)
    for site in PAIR:
        run.start(site)
    run.begin()
    spoil(run, UNLISTED, stranger=run.keys["nu"])
    beside = layout.signature(NU.seal, sha256(run.read(NU.seal)))
    late = run.read(beside)
    run.remove(beside)
    assert run.start("rush").passes.pull(NU) == (Status.NO_NEW_PASS, None)
    run.put(beside, late)
    status, sealed = run.start("rush").passes.pull(NU)
    assert status is Status.DOWNLOADED
    assert sealed is not None


@pytest.mark.parametrize("ref", [NU, PassRef(0), PassRef(1)], ids=str)
@pytest.mark.parametrize("fault", ["crash_before", "crash_after", "lose_reply", "lose_request"])
def test_what_happens_to_a_seals_signature_is_made_good(tmp_path: Path, ref: PassRef, fault: Fault) -> None:
    """The process dies around it, or the store's answer is lost: the same command goes on."""
    run = Run(tmp_path)
    if ref.number:
        run.begin()
    who = "nu" if ref.site else "rush"
    plan = once(fault, verb="push", containing=f"{ref.folder}/metrics.")
    run.start(who, store=FaultyStore(run.actors.inner, plan))
    with contextlib.suppress(Crashed, StoreError):
        for _ in range(20):
            for loop in run.loops()[:-1] if who == "rush" else run.loops():
                loop.step()
    if fault.startswith("crash"):
        assert ref.seal not in run.paths()
    run.start(who)
    if not ref.number:
        run.begin()
    finish(run.loops())
    assert run.prove().complete


def test_without_its_key_a_site_publishes_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin()
    (tmp_path / "nu/keys/signing.pem").unlink()
    run.start("nu")
    with pytest.raises(ConfigError, match="no signing key here"):
        Local(run.clients["nu"]).step()
    ours = [layout.require(path).what for path in run.paths() if path.startswith("sites/nu")]
    assert not set(ours) & SIGNED


def test_the_lead_begins_no_run_with_another_key_than_the_announced(tmp_path: Path) -> None:
    run = Run(tmp_path)
    (tmp_path / "rush/keys/signing.pem").unlink()
    make_key(tmp_path / "rush")
    run.start("rush")
    with pytest.raises(ConfigError, match="lead_key"):
        run.begin()
    assert not any(layout.require(path).what in SIGNED for path in run.paths())


def test_whoever_verifies_a_signed_run_must_know_the_leads_key(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.begin()
    with pytest.raises(ConfigError, match="is signed"):
        Transcript(over(run.lead, run.actors.inner))
