"""The accountant against Google's dp-accounting, which computes with privacy loss distributions.

A stage of .ci/run of its own: dp-accounting holds attrs back, so it is not in the dev group.
"""

from __future__ import annotations

from collections import Counter

import pytest

from stitch.rounds.accountant import Adjacency, Budget

pytestmark = pytest.mark.oracle

DELTA = 1e-5


@pytest.mark.parametrize("adjacency", ["add_remove", "replace"])
@pytest.mark.parametrize(
    "sigmas", [[1.0], [2.0] * 10, [5.0] * 10, [6.0023] * 100, [1.5, 2.0, 4.0, 4.0]], ids=str
)
def test_epsilon_is_that_of_privacy_loss_distributions(sigmas: list[float], adjacency: Adjacency) -> None:
    from dp_accounting import GaussianDpEvent, NeighboringRelation  # noqa: PLC0415  only this stage has it
    from dp_accounting.pld import PLDAccountant  # noqa: PLC0415  only this stage has it

    relation = {"add_remove": "ADD_OR_REMOVE_ONE", "replace": "REPLACE_ONE"}[adjacency]
    oracle = PLDAccountant(NeighboringRelation[relation])
    for sigma, times in Counter(sigmas).items():
        oracle.compose(GaussianDpEvent(sigma), times)
    ours = Budget(8.0, DELTA, adjacency).spent(sigmas)
    assert ours == pytest.approx(oracle.get_epsilon(DELTA), rel=1e-6)


def test_renyi_accounting_says_more_never_less() -> None:
    """The usual accountant of DP-SGD is an upper bound; ours lies below it, and not by much."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation  # noqa: PLC0415  only this stage has it
    from dp_accounting.rdp import RdpAccountant  # noqa: PLC0415  only this stage has it

    oracle = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    oracle.compose(GaussianDpEvent(2.0), 10)
    ours = Budget(8.0, DELTA).spent([2.0] * 10)
    assert ours < oracle.get_epsilon(DELTA) < 1.1 * ours
