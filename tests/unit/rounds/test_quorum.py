"""When a round closes, waits or is given up under "quorum", judged by the store's clock alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from stitch.layout import PassRef
from stitch.rounds import LATE, UNKNOWN, Abort, Close, Quorum, RoundView, Wait

OPENED = datetime(2026, 1, 1, tzinfo=UTC)
OPEN, COLLECT = timedelta(minutes=10), timedelta(minutes=30)
SITES = ("mayo", "nu", "rush", "ucsf")


def at(minutes: float) -> datetime:
    return OPENED + timedelta(minutes=minutes)


def view(
    *ready: str,
    started: Mapping[str, float] | None = None,
    excluded: Mapping[str, str] | None = None,
    unreadable: tuple[str, ...] = (),
    expected: tuple[str, ...] = SITES,
) -> RoundView:
    """Sites whose pass is sealed (at minute 1), and minutes at which others started."""
    begun = {site: at(minute) for site, minute in (started or {}).items()} | dict.fromkeys(ready, at(1))
    return RoundView(
        pass_id=3,
        attempt=0,
        expected=frozenset(expected),
        started=begun,
        ready={PassRef(3, site): 2 for site in ready},
        excluded=excluded or {},
        unreadable=frozenset(unreadable),
        opened_at=OPENED,
    )


def judge(seen: RoundView, minute: float, *, needed: int = 2) -> object:
    return Quorum(needed, open_timeout=OPEN, collect_timeout=COLLECT).verdict(seen, at(minute))


def refs(*sites: str) -> tuple[PassRef, ...]:
    return tuple(PassRef(3, site) for site in sites)


def test_everybody_ready_closes_at_once() -> None:
    assert judge(view(*SITES), 2) == Close(refs(*SITES))


def test_it_waits_for_the_others_until_the_deadline_although_a_quorum_is_ready() -> None:
    decision = judge(view("rush", "nu"), 30.9)
    assert isinstance(decision, Wait)
    assert decision.on == ("mayo", "ucsf")
    assert decision.until == at(1) + COLLECT


def test_at_the_deadline_it_closes_over_those_who_are_ready_and_says_who_was_late() -> None:
    """RFC-0013, elastic completion; scenario 20."""
    assert judge(view("rush", "nu"), 31) == Close(refs("nu", "rush"), {"mayo": LATE, "ucsf": LATE})


def test_the_deadline_runs_from_the_start_that_makes_the_quorum() -> None:
    seen = view("rush", started={"nu": 7, "mayo": 9})
    early = judge(seen, 36.9)
    assert isinstance(early, Wait)
    assert early.until == at(7) + COLLECT
    assert isinstance(judge(seen, 37), Abort)


def test_a_start_from_an_earlier_attempt_does_not_shorten_the_wait() -> None:
    """What is staged counts in the next attempt, and that one has its whole time."""
    decision = judge(view("rush", started={"nu": -600}), 29)
    assert isinstance(decision, Wait)
    assert decision.until == max(OPENED, at(1)) + COLLECT


def test_below_the_quorum_nobody_need_be_waited_for_longer_than_the_open_timeout() -> None:
    """Scenario 19, OPEN."""
    seen = view(started={"nu": 2})
    assert judge(seen, 9.9) == Wait("waiting for mayo, nu, rush, ucsf", on=SITES, until=at(10))
    decision = judge(seen, 10)
    assert isinstance(decision, Abort)
    assert decision.on == SITES
    assert "0 of the 2" in decision.why


def test_below_the_quorum_at_the_collect_deadline_the_missing_are_named() -> None:
    """Scenario 19, COLLECTING."""
    decision = judge(view("rush", started={"nu": 2}), 40)
    assert isinstance(decision, Abort)
    assert decision.on == ("mayo", "nu", "ucsf")


def test_whatever_is_sealed_before_the_verdict_counts_also_past_the_deadline() -> None:
    assert judge(view("rush", "nu", "mayo"), 500) == Close(refs("mayo", "nu", "rush"), {"ucsf": LATE})


def test_a_lane_that_cannot_be_read_is_unknown_so_nothing_is_given_up() -> None:
    """Law 7."""
    decision = judge(view("rush", unreadable=("mayo",)), 500)
    assert isinstance(decision, Wait)
    assert decision.on == ("mayo",)
    assert decision.until is None


def test_a_lane_that_cannot_be_read_does_not_stall_a_quorum() -> None:
    decision = judge(view("rush", "nu", unreadable=("mayo",)), 500)
    assert decision == Close(refs("nu", "rush"), {"mayo": UNKNOWN, "ucsf": LATE})


def test_a_pass_that_cannot_be_used_is_left_out_with_its_reason() -> None:
    seen = view("rush", "nu", "mayo", excluded={"mayo": "zero samples", "ucsf": "wrong seed"})
    assert judge(seen, 2) == Close(refs("nu", "rush"), {"mayo": "zero samples", "ucsf": "wrong seed"})


def test_when_nobody_is_left_to_wait_for_it_is_given_up_at_once_and_a_redo_is_asked_for() -> None:
    seen = view("rush", excluded={"mayo": "x", "nu": "y", "ucsf": "z"})
    decision = judge(seen, 2)
    assert isinstance(decision, Abort)
    assert decision.redo == ("mayo", "nu", "ucsf")


def test_a_site_that_is_not_expected_neither_counts_nor_is_waited_for() -> None:
    seen = view("rush", "nu", expected=("rush",))
    assert judge(seen, 2, needed=1) == Close(refs("rush"))
    assert isinstance(judge(seen, 2), Wait), "more may be added until the deadline"
    assert isinstance(judge(seen, 10), Abort)


def test_an_empty_roster_waits_instead_of_publishing_nothing() -> None:
    assert isinstance(judge(view(expected=()), 500), Wait)


@pytest.mark.parametrize("needed", [1, 2, 3, 4])
def test_it_never_closes_below_k(needed: int) -> None:
    for count in range(len(SITES) + 1):
        for minute in (0, 5, 11, 45, 5000):
            decision = judge(view(*SITES[:count]), minute, needed=needed)
            if isinstance(decision, Close):
                assert len(decision.inputs) >= needed
            if isinstance(decision, Abort):
                assert count < needed
                assert minute >= 10, "not before a deadline"
