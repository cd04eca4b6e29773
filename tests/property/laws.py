"""What must hold at the end of every history, whatever happened (docs/protocol.md, the laws)."""

from __future__ import annotations

import hashlib
import json

from stitch import layout
from stitch.layout import Event, PassRef, What
from stitch.mirror import Mirror
from stitch.proof.transcript import Transcript
from stitch.proof.verify import Verification
from stitch.testing.federation import EXT, Federation
from stitch.wire import Done, EventDoc, Orchestration, Seal, Verdict


def check(federation: Federation) -> None:
    """All of them."""
    nothing_was_written_twice(federation)
    every_pass_is_there_once_and_none_beyond(federation)
    the_chain_holds(federation)
    every_input_was_used_once(federation)
    verdicts_agree_with_seals(federation)
    hooks_saw_what_is_sealed(federation)
    events_agree_with_seals(federation)
    scores_are_of_the_globals(federation)
    the_end_is_marked(federation)
    everybody_holds_the_final_global(federation)
    nothing_private_left(federation)
    the_record_is_a_proof(federation)
    assert federation.value() == federation.expected_value()


def nothing_was_written_twice(federation: Federation) -> None:
    """Law 1: every key once, but for the two that may be replaced; models and states with their own bytes."""
    for key, digests in federation.record.written.items():
        found = layout.require(key.partition("/")[2])
        if found.replaced:
            continue
        assert len(set(digests)) == 1, f"{key} had {len(set(digests))} contents"
        if found.what in (What.MODEL, What.ATTACHMENT):
            assert digests[0].startswith(found.digest), key
        else:
            assert len(digests) == 1, f"{key} was written {len(digests)} times"


def every_pass_is_there_once_and_none_beyond(federation: Federation) -> None:
    """Seals of globals 0 to N and of site passes 1 to N; nothing of a pass N+1 anywhere."""
    final = federation.final_pass
    sealed = {key.ref for path in federation.paths() if (key := layout.require(path)).what is What.SEAL}
    wanted = {PassRef(number) for number in range(final + 1)}
    wanted |= {PassRef(number, site) for number in range(1, final + 1) for site in federation.sites}
    assert sealed == wanted
    numbered = {What.SEAL, What.MODEL, What.EVENT, What.VERDICT, What.ABORT, What.ATTACHMENT}
    for path in federation.paths():
        key = layout.require(path)
        assert key.what not in numbered or key.number <= final, f"{path} lies beyond pass {final}"
    for folder in federation.folder.glob("*/*/stitch_store/*/**/pass_*"):
        assert int(folder.name[5:8]) <= final, f"{folder} lies beyond pass {final}"


def the_chain_holds(federation: Federation) -> None:
    """Every global names the seal before it; the first one the manifest. Bases are the globals."""
    before = federation.read(layout.manifest())
    for number in range(federation.final_pass + 1):
        ref = PassRef(number)
        seal, data = _seal(federation, ref), federation.read(ref.seal)
        assert before is not None
        assert seal.round is not None
        assert seal.round.prev_metrics_sha256 == hashlib.sha256(before).hexdigest(), ref.seal
        assert seal.final == (number == federation.final_pass)
        base = _seal(federation, PassRef(number - 1)) if number else None
        assert (seal.base_pass, seal.base_sha256) == (
            (base.pass_id, base.model_sha256) if base else (None, None)
        )
        for site in federation.sites if base else ():
            own = _seal(federation, PassRef(number, site))
            assert base is not None
            assert (own.base_pass, own.base_sha256) == (number - 1, base.model_sha256)
        before = data


def every_input_was_used_once(federation: Federation) -> None:
    """Every sealed site pass is an input of exactly one global, as it is sealed."""
    used = []
    for number in range(1, federation.final_pass + 1):
        record = _seal(federation, PassRef(number)).round
        assert record is not None
        assert not record.excluded
        for one in record.inputs:
            ref = PassRef(one.pass_id, one.site)
            used.append(ref)
            assert ref.number == number
            assert one.model_sha256 == _seal(federation, ref).model_sha256
            assert one.metrics_sha256 == hashlib.sha256(federation.read(ref.seal) or b"").hexdigest()
    assert sorted(used) == sorted(
        PassRef(number, site) for number in range(1, federation.final_pass + 1) for site in federation.sites
    )


def verdicts_agree_with_seals(federation: Federation) -> None:
    """Law 11: one verdict a round, and the global was made from exactly that."""
    for number in range(1, federation.final_pass + 1):
        path = layout.verdict(number, 0)
        data = federation.read(path)
        assert data is not None
        verdict = Verdict.parse(data, source=path)
        record = _seal(federation, PassRef(number)).round
        assert record is not None
        assert record.inputs == verdict.inputs
        assert record.verdict_sha256 == hashlib.sha256(data).hexdigest()


def the_record_is_a_proof(federation: Federation) -> None:
    """What became of an honest run is proven from its files, whatever happened on the way."""
    proof = Verification(Transcript(federation.lanes())).run()
    assert proof.finished is not None
    assert proof.complete
    assert [one.pass_id for one in proof.passes] == list(range(federation.final_pass + 1))
    assert all(one.summed for one in proof.passes)


def hooks_saw_what_is_sealed(federation: Federation) -> None:
    """Law 2: whatever a hook could open, at whatever process, are the bytes that are sealed."""
    for one in federation.deliveries:
        for site, sha256 in one.inputs.items():
            base = PassRef(one.pass_id - (one.hook == "train"))  # an evaluation is of the global itself
            ref = PassRef(one.pass_id, site) if site else base
            assert sha256 == _seal(federation, ref).model_sha256, f"{one.process}: {ref.folder}"
        if one.hook == "aggregate":
            assert set(one.inputs) == set(federation.sites)


def events_agree_with_seals(federation: Federation) -> None:
    """Each sealed attempt was started, and is completed with what was sealed."""
    for number in range(1, federation.final_pass + 1):
        for site in federation.sites:
            seal = _seal(federation, PassRef(number, site))
            assert federation.read(layout.event(site, number, name=Event.STARTED, attempt=seal.attempt))
            path = layout.event(site, number, name=Event.COMPLETED, attempt=seal.attempt)
            data = federation.read(path)
            assert data is not None, f"{path} is missing"
            event = EventDoc.parse(data, source=path)
            assert (event.model_sha256, event.n_samples) == (seal.model_sha256, seal.n_samples)


def scores_are_of_the_globals(federation: Federation) -> None:
    """Whatever is told of a global is what the site's hook gave for the model that is sealed."""
    for path in federation.paths():
        key = layout.require(path)
        if key.what is not What.EVENT or key.name != Event.EVALUATED:
            continue
        event = EventDoc.parse(federation.read(path) or b"", source=path)
        value = federation.hooks.value(key.number) - federation.hooks.step(event.site)
        assert event.model_sha256 == _seal(federation, PassRef(key.number)).model_sha256, path
        assert event.metrics == {"score": value}, path
        assert event.n_samples == federation.hooks.samples(event.site) // 2


def the_end_is_marked(federation: Federation) -> None:
    """Law 7: DONE names the final pass and its seal; orchestration says so."""
    done = Done.parse(federation.read(layout.done()) or b"", source=layout.done())
    seal = federation.read(PassRef(federation.final_pass).seal) or b""
    assert done.final_pass == federation.final_pass
    assert done.final_metrics_sha256 == hashlib.sha256(seal).hexdigest()
    path = layout.orchestration()
    view = Orchestration.parse(federation.read(path) or b"", source=path)
    assert (view.phase, view.final_pass) == ("complete", federation.final_pass)


def everybody_holds_the_final_global(federation: Federation) -> None:
    """Every process that saw the end has the final global in its mirror."""
    wanted = _seal(federation, PassRef(federation.final_pass))
    for site in federation.sites:
        mirror = Mirror(federation.settings(site).mirror_dir)
        sealed = mirror.sealed(PassRef(federation.final_pass))
        assert sealed is not None, f"{site} does not hold the final global"
        assert sealed.seal == wanted


def nothing_private_left(federation: Federation) -> None:
    """Law 8: a hook's own words stay at the site."""
    for path in federation.paths():
        if not path.endswith(EXT):
            assert b"patient 4711" not in (federation.read(path) or b""), path
            json.loads(federation.read(path) or b"")


def _seal(federation: Federation, ref: PassRef) -> Seal:
    seal = federation.seal(ref)
    assert seal is not None, f"{ref.seal} is missing"
    return seal
