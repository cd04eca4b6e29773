"""When a round closes under "buffered", and over what: views made at random, and the cases by name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stitch.layout import PassRef
from stitch.rounds import Abort, Attempt, Buffer, Buffered, Close, RoundView, Wait

OPENED = datetime(2026, 1, 1, tzinfo=UTC)
WINDOW = timedelta(minutes=30)
SITES = ("mayo", "nu", "rush", "ucsf")
ROUND = 9


def at(minutes: float) -> datetime:
    return OPENED + timedelta(minutes=minutes)


def view(
    ready: Mapping[str, int],
    *,
    excluded: Mapping[str, str] | None = None,
    consumed: tuple[PassRef, ...] = (),
    expected: tuple[str, ...] = SITES,
) -> RoundView:
    """Sites with the staleness of their sealed pass."""
    refs = {PassRef(ROUND - staleness, site): ROUND - staleness - 1 for site, staleness in ready.items()}
    return RoundView(
        pass_id=ROUND,
        attempt=0,
        expected=frozenset(expected),
        ready=refs,
        excluded=excluded or {},
        consumed=frozenset(consumed),
        opened_at=OPENED,
    )


def judge(seen: RoundView, minute: float = 1, *, size: int = 2, most: int = 3) -> object:
    return Buffered(size, window=WINDOW, max_staleness=most).verdict(seen, at(minute))


def test_it_closes_at_the_size_of_the_buffer_over_fresh_and_stale_passes_alike() -> None:
    assert judge(view({"rush": 0, "nu": 3})) == Close((PassRef(6, "nu"), PassRef(9, "rush")))


def test_it_takes_all_that_is_there_not_only_as_many_as_the_buffer_has() -> None:
    decision = judge(view({"rush": 0, "nu": 1, "mayo": 2}))
    assert isinstance(decision, Close)
    assert len(decision.inputs) == 3


def test_below_it_waits_for_the_window_and_no_longer() -> None:
    decision = judge(view({"rush": 0}), 29.9)
    assert isinstance(decision, Wait)
    assert decision.until == at(30)
    assert decision.on == ("mayo", "nu", "ucsf")
    assert judge(view({"rush": 0}), 30) == Close((PassRef(9, "rush"),))


def test_with_nothing_at_all_it_waits_for_as_long_as_it_takes() -> None:
    """Law 7."""
    decision = judge(view({}), 1_000_000)
    assert isinstance(decision, Wait)
    assert decision.until is None


def test_a_buffer_larger_than_the_federation_closes_when_everybody_has_a_pass() -> None:
    everybody = view({"mayo": 0, "nu": 1, "rush": 0, "ucsf": 2})
    assert isinstance(judge(everybody, size=100), Close)
    assert isinstance(judge(view({"mayo": 0, "nu": 1, "rush": 0}), size=100), Wait)


def test_a_pass_that_is_too_stale_is_excluded_by_name_and_its_site_is_still_waited_for() -> None:
    seen = view({"mayo": 0, "nu": 0, "rush": 4})
    assert judge(seen) == Close(
        (PassRef(9, "mayo"), PassRef(9, "nu")), {"rush": "its pass 5 is 4 behind; at most 3 is allowed"}
    )
    waits = judge(view({"mayo": 0, "nu": 0, "rush": 4, "ucsf": 0}), size=4)
    assert isinstance(waits, Wait)
    assert waits.on == ("rush",)


def test_a_pass_that_was_used_counts_for_nothing_and_neither_does_what_it_superseded() -> None:
    seen = view({"mayo": 1, "nu": 0}, consumed=(PassRef(8, "mayo"),))
    assert isinstance(judge(seen), Wait)
    older = view({"mayo": 2, "nu": 0}, consumed=(PassRef(8, "mayo"),))
    assert isinstance(judge(older), Wait)


def test_of_a_site_with_several_passes_its_newest_counts() -> None:
    seen = view({"mayo": 0, "nu": 0})
    both = RoundView(9, 0, seen.expected, ready={**seen.ready, PassRef(7, "nu"): 6}, opened_at=OPENED)
    assert judge(both) == Close((PassRef(9, "mayo"), PassRef(9, "nu")))


def test_when_all_that_can_come_is_of_no_use_a_redo_is_asked_for() -> None:
    useless = dict.fromkeys(SITES, "wrong seed")
    decision = judge(view(dict.fromkeys(SITES, 0), excluded=useless))
    assert isinstance(decision, Abort)
    assert decision.redo == SITES


def test_a_site_whose_stale_pass_is_refused_trains_again_so_nothing_is_given_up() -> None:
    useless = dict.fromkeys(SITES, "wrong seed")
    decision = judge(view({**dict.fromkeys(SITES, 0), "nu": 1}, excluded=useless), 500)
    assert isinstance(decision, Wait)
    assert decision.on == ("nu",)


def test_an_empty_roster_waits() -> None:
    assert isinstance(judge(view({"nu": 0}, expected=()), 500), Wait)


@st.composite
def views(draw: st.DrawFn) -> RoundView:
    refs = st.builds(PassRef, st.integers(1, ROUND), st.sampled_from((*SITES, "uchicago")))
    ready = draw(st.lists(refs, max_size=8, unique=True))
    expected = draw(st.frozensets(st.sampled_from(SITES)))
    return RoundView(
        pass_id=ROUND,
        attempt=0,
        expected=expected,
        ready={ref: ref.number - 1 for ref in ready},
        excluded=dict.fromkeys(draw(st.frozensets(st.sampled_from(SITES))), "no good"),
        consumed=draw(st.frozensets(refs, max_size=4)),
        opened_at=OPENED,
    )


@given(views(), st.integers(1, 6), st.integers(0, 9), st.floats(0, 100))
def test_whatever_it_sees_it_keeps_its_word(seen: RoundView, size: int, most: int, minute: float) -> None:
    decision = judge(seen, minute, size=size, most=most)
    if isinstance(decision, Close):
        sites = [str(ref.site) for ref in decision.inputs]
        assert sites == sorted(set(sites)), "one a site, in the order of their names"
        assert len(sites) >= 1
        assert set(sites) <= seen.expected - seen.excluded.keys()
        assert not set(sites) & decision.excluded.keys()
        for ref in decision.inputs:
            assert ref in seen.ready
            assert ref not in seen.consumed
            assert ROUND - ref.number <= most
            others = [one for one in (*seen.ready, *seen.consumed) if one.site == ref.site]
            assert ref.number == max(one.number for one in others)
        if len(sites) < size and minute < 30:
            assert seen.expected == set(sites) | (decision.excluded.keys() & seen.expected)
    elif isinstance(decision, Wait):
        assert not seen.expected or decision.on, "somebody is waited for"
        if minute >= 30:
            assert decision.until is None, "one pass is enough by now, and there is none"
    else:
        assert isinstance(decision, Abort)
        assert set(decision.redo) == seen.expected, "nobody else can bring anything"


@given(views(), st.integers(1, 6), st.integers(0, 9))
def test_no_view_in_which_everybody_brought_something_fresh_waits(
    seen: RoundView, size: int, most: int
) -> None:
    """A buffer larger than the federation cannot deadlock."""
    fresh = {PassRef(ROUND, site): ROUND - 1 for site in seen.expected}
    full = RoundView(ROUND, 0, seen.expected, ready=fresh, excluded=seen.excluded, opened_at=OPENED)
    assert not seen.expected or not isinstance(judge(full, size=size, most=most), Wait)


def test_a_pass_from_a_global_that_this_lead_has_not_seen_is_none_of_its_round() -> None:
    """A lead that slept, and whose lane another one took: the site went on with the other one's globals."""
    buffer = Buffer({5: Attempt(5), 6: Attempt(6)})
    assert buffer.newest("rush", [PassRef(5, "rush"), PassRef(7, "rush")]) == PassRef(5, "rush")
    assert buffer.newest("rush", [PassRef(7, "rush")]) is None


def test_the_newest_pass_that_was_asked_for_counts_unless_it_was_used() -> None:
    buffer = Buffer({5: Attempt(5), 6: Attempt(6)}, {"rush": 5})
    refs = [PassRef(5, "nu"), PassRef(6, "nu"), PassRef(6, "nu", 1), PassRef(5, "rush"), PassRef(4, "rush")]
    assert buffer.newest("nu", refs) == PassRef(6, "nu"), "nobody asked for pass_006.a1"
    assert buffer.newest("rush", refs) is None
    assert buffer.newest("mayo", refs) is None


def test_what_was_asked_to_be_redone_is_never_taken_also_not_by_a_later_round() -> None:
    asked = Attempt(6).after(redo=("nu",), at=OPENED)
    buffer = Buffer({5: Attempt(5), 6: asked, 7: Attempt(7)})
    refs = [PassRef(5, "nu"), PassRef(6, "nu")]
    assert buffer.newest("nu", refs) is None
    assert buffer.newest("nu", [*refs, PassRef(6, "nu", 1)]) == PassRef(6, "nu", 1)
    assert buffer.newest("nu", [*refs, PassRef(7, "nu")]) == PassRef(7, "nu")
    assert buffer.newest("rush", [PassRef(5, "rush")]) == PassRef(5, "rush"), "the others' passes stay"
