"""What a proof holds buffered rounds to: staleness, weight, order; every hash of a lie agrees."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stitch import layout
from stitch.errors import ProtocolError
from tests.unit.rounds.test_transcript import Record, agree, inputs

BUFFERED = {
    "require": "buffered",
    "buffer_size": 1,
    "window_seconds": 60.0,
    "max_staleness": 1,
    "weighting": "polynomial(1.0)",
}


def buffered(record: Record, **policy: object) -> Record:
    """The golden run, as if its rounds had been buffered: all of its passes are fresh."""
    agree(record, policy=BUFFERED | policy)
    for number in range(3):
        record.seal(number)["round"]["policy"] = "buffered"
        for one in inputs(record, number):
            one["weight"] = 1.0
    return record


def stale(record: Record, *, weight: float = 0.5, staleness: int = 1) -> None:
    """Round 1 went without nu, whose pass 1 counts in round 2, instead of its pass 2."""
    late = next(one for one in inputs(record, 1) if one["site"] == "nu")
    inputs(record, 1).remove(late)
    inputs(record, 2)[:] = [one for one in inputs(record, 2) if one["site"] != "nu"]
    inputs(record, 2).insert(0, {**late, "staleness": staleness, "weight": weight})


def test_a_stale_pass_with_the_weight_that_was_agreed_on_holds() -> None:
    record = buffered(Record())
    stale(record)
    record.keep_hashes()
    record.prove()


def test_a_weight_that_differs_in_its_last_digit_alone_is_no_lie() -> None:
    """Powers are the C library's."""
    record = buffered(Record(), weighting="polynomial(0.3)")
    stale(record, weight=0.8122523963562355 * (1 + 1e-15))
    record.keep_hashes()
    record.prove()


def weigh(record: Record) -> None:
    inputs(record, 2)[0]["weight"] = 2.0


def leave_out_the_weight(record: Record) -> None:
    inputs(record, 2)[0]["weight"] = None


def beyond_the_bound(record: Record) -> None:
    agree(record, policy=BUFFERED | {"max_staleness": 0})
    stale(record)


LIES: dict[str, tuple[Callable[[Record], object], str]] = {
    "a weight that nobody agreed on": (weigh, "lets it weigh 2.0, not 1.0"),
    "no weight": (leave_out_the_weight, "lets it weigh None, not 1.0"),
    "a stale pass of full weight": (lambda r: stale(r, weight=1.0), "lets it weigh 1.0, not 0.5"),
    "a stale pass called fresh": (lambda r: stale(r, weight=1.0, staleness=0), "calls it 0 behind, not 1"),
    "staler than was agreed": (beyond_the_bound, "at most 0 is allowed"),
    "a weighting that is none": (
        lambda r: agree(r, policy=BUFFERED | {"weighting": "as we like"}),
        "policy.weighting is none",
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_about_staleness_is_found(lie: str) -> None:
    forge, said = LIES[lie]
    record = buffered(Record())
    forge(record)
    record.keep_hashes()
    with pytest.raises(ProtocolError) as refused:
        record.prove()
    assert said in str(refused.value)


def test_a_second_pass_of_a_number_that_was_used_is_found() -> None:
    """As if a redone pass were used beside the one that it was to replace."""
    record = buffered(Record())
    record.keep_hashes()
    again = {**inputs(record, 1)[0], "staleness": 1, "weight": 0.5, "metrics_sha256": "0" * 64}
    inputs(record, 2)[0] = again
    record.verdict(2)["inputs"] = inputs(record, 2)
    record.seal(2)["round"]["verdict_sha256"] = record.sha256(layout.verdict(2, 0))
    with pytest.raises(ProtocolError, match="uses pass 1 of nu, which pass 1 had superseded"):
        record.prove()


def test_a_weight_under_another_policy_is_found() -> None:
    record = Record()
    inputs(record, 2)[0]["weight"] = 0.5
    record.keep_hashes()
    with pytest.raises(ProtocolError, match="lets it weigh"):
        record.prove()
