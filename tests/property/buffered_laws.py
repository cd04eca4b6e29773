"""What must hold at the end of a history of buffered rounds, whatever happened."""

from __future__ import annotations

import hashlib

from stitch.config.policy import Policy
from stitch.layout import PassRef
from stitch.testing.federation import Federation
from tests.property.round_laws import check_rounds, record_of


def check(federation: Federation) -> None:
    """All of them."""
    check_rounds(federation)
    every_pass_is_used_at_most_once_and_within_the_bound(federation)
    what_is_left_over_is_recorded_once_and_never_used(federation)
    the_result_follows_from_the_records(federation)


def every_pass_is_used_at_most_once_and_within_the_bound(federation: Federation) -> None:
    """One pass a site and round, newer ones after older ones, each weighted by its staleness."""
    policy = _policy(federation)
    used: dict[str, list[int]] = {}
    for number in range(1, federation.final_pass + 1):
        record = record_of(federation, number)
        inputs = record.inputs
        assert record.policy == "buffered"
        sites = [one.site for one in inputs]
        assert inputs
        assert sites == sorted(set(sites))
        for one in inputs:
            assert one.pass_id > max(used.setdefault(one.site, []), default=0), "each once, in their order"
            used[one.site].append(one.pass_id)
            assert one.staleness == number - one.pass_id
            assert 0 <= one.staleness <= policy.max_staleness
            assert one.weight == policy.weighting.at(one.staleness)


def what_is_left_over_is_recorded_once_and_never_used(federation: Federation) -> None:
    """Superseded and too stale passes."""
    numbers = range(1, federation.final_pass + 1)
    used = {one.metrics_sha256 for number in numbers for one in record_of(federation, number).inputs}
    told = [one for number in numbers for one in record_of(federation, number).late]
    hashes = [one.metrics_sha256 for one in told]
    assert len(hashes) == len(set(hashes))
    assert not set(hashes) & used
    for one in told:
        seals = [federation.read(PassRef(one.pass_id, one.site, redo).seal) for redo in range(10)]
        assert one.metrics_sha256 in {hashlib.sha256(seal).hexdigest() for seal in seals if seal}


def the_result_follows_from_the_records(federation: Federation) -> None:
    """The final global is what the recorded deltas give, each taken against its own base."""
    values, hooks = [0.0], federation.hooks
    for number in range(1, federation.final_pass + 1):
        moved = samples = 0.0
        for one in record_of(federation, number).inputs:
            base = values[one.pass_id - 1]
            moved += one.n_samples * (one.weight or 0.0) * ((base + hooks.step(one.site)) - base)
            samples += one.n_samples
        values.append(values[-1] + moved / samples)
    assert federation.value() == values[-1]


def _policy(federation: Federation) -> Policy:
    policy = federation.changes["policy"]
    assert isinstance(policy, Policy)
    return policy
