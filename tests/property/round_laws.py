"""What must hold at the end of a history whose rounds may close without somebody, under any policy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from stitch import layout
from stitch.layout import Event, PassRef, What
from stitch.testing.federation import Federation
from stitch.wire import EventDoc, RoundRecord, Seal, Verdict
from tests.property.laws import (
    everybody_holds_the_final_global,
    nothing_private_left,
    nothing_was_written_twice,
    the_end_is_marked,
    the_record_is_a_proof,
)


def check_rounds(federation: Federation) -> None:
    """All of them."""
    nothing_was_written_twice(federation)
    globals_are_contiguous_and_chained(federation)
    site_passes_continue_the_chain(federation)
    verdicts_agree_with_seals(federation)
    hooks_saw_what_is_sealed(federation)
    events_agree_with_seals(federation)
    the_end_is_marked(federation)
    everybody_holds_the_final_global(federation)
    nothing_private_left(federation)
    the_record_is_a_proof(federation)


def globals_are_contiguous_and_chained(federation: Federation) -> None:
    """Globals 0 to N, each naming the seal before it; the first one the manifest."""
    sealed = sorted(ref.number for ref in sealed_in(federation) if ref.site is None)
    assert sealed == list(range(federation.final_pass + 1))
    before = federation.read(layout.manifest())
    for number in sealed:
        seal, data = seal_of(federation, PassRef(number)), federation.read(PassRef(number).seal)
        assert before is not None
        assert record_of(federation, number).prev_metrics_sha256 == hashlib.sha256(before).hexdigest()
        assert seal.final == (number == federation.final_pass)
        before = data


def site_passes_continue_the_chain(federation: Federation) -> None:
    """Every site pass, used or not, was trained from the global before it; none lies beyond the end."""
    for ref in sealed_in(federation):
        if ref.site is None:
            continue
        seal, base = seal_of(federation, ref), seal_of(federation, PassRef(ref.number - 1))
        assert 1 <= ref.number <= federation.final_pass
        assert (seal.base_pass, seal.base_sha256) == (ref.number - 1, base.model_sha256)
        assert seal.round_seed == base_seed(federation, ref.number)


def base_seed(federation: Federation, number: int) -> int:
    """The seed that the round's own global publishes."""
    return record_of(federation, number).seed


def verdicts_agree_with_seals(federation: Federation) -> None:
    """Law 11: the global was made from the first attempt that was neither aborted nor given up."""
    for number in range(1, federation.final_pass + 1):
        record = record_of(federation, number)
        for attempt in range(record.attempt):
            verdict, _ = _verdict(federation, number, attempt)
            given_up = federation.read(layout.abort(number, attempt)) is not None
            assert verdict.verdict == "aborted" or given_up
        verdict, data = _verdict(federation, number, record.attempt)
        assert verdict.verdict == "closed"
        assert (verdict.inputs, verdict.excluded) == (record.inputs, record.excluded)
        assert (verdict.roster, hashlib.sha256(data).hexdigest()) == (record.roster, record.verdict_sha256)


def hooks_saw_what_is_sealed(federation: Federation) -> None:
    """Law 2: whatever a hook could open are bytes that are sealed, and the inputs those of a verdict."""
    digests = {seal_of(federation, ref).model_sha256 for ref in sealed_in(federation)}
    for one in federation.deliveries:
        assert set(one.inputs.values()) <= digests, one
        if one.hook == "aggregate":
            closed = [
                {entry.site: entry.model_sha256 for entry in verdict.inputs}
                for verdict in _verdicts(federation, one.pass_id)
                if verdict.verdict == "closed"
            ]
            assert dict(one.inputs) in closed


def events_agree_with_seals(federation: Federation) -> None:
    """Each sealed attempt was started, and is completed with what was sealed."""
    for ref in sealed_in(federation):
        if ref.site is None:
            continue
        seal = seal_of(federation, ref)
        assert federation.read(layout.event(ref.site, ref.number, name=Event.STARTED, attempt=seal.attempt))
        path = layout.event(ref.site, ref.number, name=Event.COMPLETED, attempt=seal.attempt)
        data = federation.read(path)
        assert data is not None, f"{path} is missing"
        assert EventDoc.parse(data, source=path).model_sha256 == seal.model_sha256


def sealed_in(federation: Federation) -> list[PassRef]:
    """Every sealed pass, of the globals and of the sites."""
    keys = (layout.require(path) for path in federation.paths())
    return [key.ref for key in keys if key.what is What.SEAL and key.ref is not None]


def seal_of(federation: Federation, ref: PassRef) -> Seal:
    """A seal that must be there."""
    seal = federation.seal(ref)
    assert seal is not None, f"{ref.seal} is missing"
    return seal


def record_of(federation: Federation, number: int) -> RoundRecord:
    """The record of a global's round."""
    record = seal_of(federation, PassRef(number)).round
    assert record is not None
    return record


def _verdict(federation: Federation, number: int, attempt: int) -> tuple[Verdict, bytes]:
    path = layout.verdict(number, attempt)
    data = federation.read(path)
    assert data is not None, f"{path} is missing"
    return Verdict.parse(data, source=path), data


def _verdicts(federation: Federation, number: int) -> Iterator[Verdict]:
    attempt = 0
    while federation.read(layout.verdict(number, attempt)) is not None:
        yield _verdict(federation, number, attempt)[0]
        attempt += 1
