"""What must hold at the end of a history of rounds that close over a quorum, whatever happened."""

from __future__ import annotations

import hashlib

from stitch.layout import PassRef
from stitch.testing.federation import Federation
from stitch.wire import Input
from tests.property.round_laws import check_rounds, record_of, seal_of, sealed_in


def check(federation: Federation) -> None:
    """All of them."""
    check_rounds(federation)
    every_input_is_sealed_and_used_at_most_once(federation)
    the_result_follows_from_the_records(federation)


def every_input_is_sealed_and_used_at_most_once(federation: Federation) -> None:
    """An input is a sealed pass of the same round; late ones are used by nobody."""
    used: list[PassRef] = []
    late: list[PassRef] = []
    for number in range(1, federation.final_pass + 1):
        record = record_of(federation, number)
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


def the_result_follows_from_the_records(federation: Federation) -> None:
    """The final global is what the recorded inputs give, recomputed from nothing but the records."""
    value, hooks = 0.0, federation.hooks
    for number in range(1, federation.final_pass + 1):
        inputs = record_of(federation, number).inputs
        value = hooks.mean({one.site: value + hooks.step(one.site) for one in inputs})
    assert federation.value() == value


def _ref_of(federation: Federation, one: Input) -> PassRef:
    """The pass that an input names: its folder follows from its hash."""
    for ref in sealed_in(federation):
        if (ref.site, ref.number) == (one.site, one.pass_id):
            data = federation.read(ref.seal) or b""
            if hashlib.sha256(data).hexdigest() == one.metrics_sha256:
                assert seal_of(federation, ref).model_sha256 == one.model_sha256
                return ref
    raise AssertionError(f"{one.site} has no sealed pass {one.pass_id} with that hash")
