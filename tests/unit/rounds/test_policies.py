"""When a round closes under "all_expected": everybody who is expected, for as long as it takes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from stitch.config.policy import Policy
from stitch.errors import ConfigError
from stitch.layout import PassRef
from stitch.rounds import AllExpected, Close, RoundView, Wait, close_policy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CENTURY = datetime(2126, 1, 1, tzinfo=UTC)


def view(
    *ready: PassRef, expected: tuple[str, ...] = ("nu", "rush"), consumed: tuple[PassRef, ...] = ()
) -> RoundView:
    return RoundView(
        pass_id=3,
        attempt=0,
        expected=frozenset(expected),
        ready=dict.fromkeys(ready, 2),
        consumed=frozenset(consumed),
        opened_at=NOW,
    )


def test_it_waits_for_every_expected_site_and_names_those_it_waits_for() -> None:
    decision = AllExpected().verdict(view(PassRef(3, "nu"), expected=("rush", "nu", "ucsf")), NOW)
    assert isinstance(decision, Wait)
    assert decision.on == ("rush", "ucsf")
    assert decision.until is None
    assert "rush, ucsf" in decision.why


def test_absence_is_never_a_decision() -> None:
    """Law 7: a hundred years change nothing."""
    assert isinstance(AllExpected().verdict(view(PassRef(3, "nu")), CENTURY), Wait)


def test_it_closes_over_all_of_them_in_the_order_of_their_ids() -> None:
    decision = AllExpected().verdict(view(PassRef(3, "rush"), PassRef(3, "nu")), NOW)
    assert decision == Close((PassRef(3, "nu"), PassRef(3, "rush")))


def test_a_site_that_is_not_expected_is_no_input() -> None:
    """Dropped or paused: its pass may be there, and is not used."""
    decision = AllExpected().verdict(view(PassRef(3, "rush"), PassRef(3, "nu"), expected=("nu",)), NOW)
    assert decision == Close((PassRef(3, "nu"),))


def test_a_pass_that_an_earlier_round_used_does_not_count_again() -> None:
    used = PassRef(3, "nu")
    decision = AllExpected().verdict(view(used, PassRef(3, "rush"), consumed=(used,)), NOW)
    assert isinstance(decision, Wait)
    assert decision.on == ("nu",)


def test_an_empty_roster_waits_instead_of_publishing_nothing() -> None:
    assert isinstance(AllExpected().verdict(view(expected=()), NOW), Wait)


def test_a_policy_is_found_by_its_name_and_an_unknown_one_is_refused() -> None:
    assert close_policy(Policy()).name == "all_expected"
    assert close_policy(Policy("quorum", min_participants=4)).needed == 4
    with pytest.raises(ConfigError, match="most_of_them"):
        close_policy(Policy("most_of_them"))
