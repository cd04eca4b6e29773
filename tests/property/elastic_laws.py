"""What must hold at the end of a history in which rounds closed without somebody, whatever happened."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from stitch import layout
from stitch.layout import Event, PassRef, What
from stitch.testing.federation import Federation
from stitch.wire import EventDoc, Input, RoundRecord, Seal, Verdict
from tests.property.laws import (
    everybody_holds_the_final_global,
    nothing_private_left,
    nothing_was_written_twice,
    the_end_is_marked,
    the_record_is_a_proof,
)


def check(federation: Federation) -> None:
    """All of them."""
    nothing_was_written_twice(federation)
    globals_are_contiguous_and_chained(federation)
    site_passes_continue_the_chain(federation)
    every_input_is_sealed_and_used_at_most_once(federation)
    verdicts_agree_with_seals(federation)
    hooks_saw_what_is_sealed(federation)
    events_agree_with_seals(federation)
    the_end_is_marked(federation)
    everybody_holds_the_final_global(federation)
    nothing_private_left(federation)
    the_record_is_a_proof(federation)
    the_result_follows_from_the_records(federation)


def globals_are_contiguous_and_chained(federation: Federation) -> None:
    """Globals 0 to N, each naming the seal before it; the first one the manifest."""
    sealed = sorted(ref.number for ref in _sealed(federation) if ref.site is None)
    assert sealed == list(range(federation.final_pass + 1))
    before = federation.read(layout.manifest())
    for number in sealed:
        seal, data = _seal(federation, PassRef(number)), federation.read(PassRef(number).seal)
        assert before is not None
        assert _record(seal).prev_metrics_sha256 == hashlib.sha256(before).hexdigest()
        assert seal.final == (number == federation.final_pass)
        before = data


def site_passes_continue_the_chain(federation: Federation) -> None:
    """Every site pass, used or not, was trained from the global before it; none lies beyond the end."""
    for ref in _sealed(federation):
        if ref.site is None:
            continue
        seal, base = _seal(federation, ref), _seal(federation, PassRef(ref.number - 1))
        assert 1 <= ref.number <= federation.final_pass
        assert (seal.base_pass, seal.base_sha256) == (ref.number - 1, base.model_sha256)
        assert seal.round_seed == base_seed(federation, ref.number)


def base_seed(federation: Federation, number: int) -> int:
    """The seed that the round's own global publishes."""
    return _record(_seal(federation, PassRef(number))).seed


def every_input_is_sealed_and_used_at_most_once(federation: Federation) -> None:
    """An input is a sealed pass of the same round; late ones are used by nobody."""
    used: list[PassRef] = []
    late: list[PassRef] = []
    for number in range(1, federation.final_pass + 1):
        record = _record(_seal(federation, PassRef(number)))
        assert record.policy == "quorum"
        assert len(record.inputs) >= federation.changes["policy"].min_participants
        assert [one.site for one in record.inputs] == sorted({one.site for one in record.inputs})
        assert not {one.site for one in record.inputs} & {one.site for one in record.excluded}
        for one in record.inputs:
            assert (one.pass_id, one.staleness) == (number, 0)
            used.append(_ref_of(federation, one))
        for one in record.late:
            assert one.pass_id < number, "of a round that is closed"
            late.append(_ref_of(federation, one))
    assert len(used) == len(set(used))
    assert not set(used) & set(late)
    assert len(late) == len(set(late)), "recorded once"


def verdicts_agree_with_seals(federation: Federation) -> None:
    """Law 11: the global was made from the first attempt that was neither aborted nor given up."""
    for number in range(1, federation.final_pass + 1):
        record = _record(_seal(federation, PassRef(number)))
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
    digests = {_seal(federation, ref).model_sha256 for ref in _sealed(federation)}
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
    for ref in _sealed(federation):
        if ref.site is None:
            continue
        seal = _seal(federation, ref)
        assert federation.read(layout.event(ref.site, ref.number, name=Event.STARTED, attempt=seal.attempt))
        path = layout.event(ref.site, ref.number, name=Event.COMPLETED, attempt=seal.attempt)
        data = federation.read(path)
        assert data is not None, f"{path} is missing"
        assert EventDoc.parse(data, source=path).model_sha256 == seal.model_sha256


def the_result_follows_from_the_records(federation: Federation) -> None:
    """The final global is what the recorded inputs give, recomputed from nothing but the records."""
    value, hooks = 0.0, federation.hooks
    for number in range(1, federation.final_pass + 1):
        inputs = _record(_seal(federation, PassRef(number))).inputs
        value = hooks.mean({one.site: value + hooks.step(one.site) for one in inputs})
    assert federation.value() == value


def _sealed(federation: Federation) -> list[PassRef]:
    keys = (layout.require(path) for path in federation.paths())
    return [key.ref for key in keys if key.what is What.SEAL and key.ref is not None]


def _ref_of(federation: Federation, one: Input) -> PassRef:
    """The pass that an input names: its folder follows from its hash."""
    for ref in _sealed(federation):
        if (ref.site, ref.number) == (one.site, one.pass_id):
            data = federation.read(ref.seal) or b""
            if hashlib.sha256(data).hexdigest() == one.metrics_sha256:
                assert _seal(federation, ref).model_sha256 == one.model_sha256
                return ref
    raise AssertionError(f"{one.site} has no sealed pass {one.pass_id} with that hash")


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


def _seal(federation: Federation, ref: PassRef) -> Seal:
    seal = federation.seal(ref)
    assert seal is not None, f"{ref.seal} is missing"
    return seal


def _record(seal: Seal) -> RoundRecord:
    assert seal.round is not None
    return seal.round
