"""Law 10: one live process per lane, without comparing two hosts' clocks."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from stitch import layout
from stitch.errors import BadDocument, LaneLost, StoreUnavailable
from stitch.store.base import Traits
from stitch.store.memory import MemoryStore
from stitch.sync.lease import Lease
from stitch.testing import Crashed, Fault, Plan, once
from stitch.wire import Heartbeat, Term
from tests.unit.sync.conftest import INTERVAL_S, LANE, LIMIT_S, Machine, World


def held(machine: Machine) -> Lease:
    lease = machine.lease()
    assert lease.acquire() is None
    lease.beat("idle", None)
    return lease


def newest_term(machine: Machine) -> Term:
    number = 1
    while machine.documents.exists(layout.term(LANE, number + 1)):
        number += 1
    stored = machine.documents.read(layout.term(LANE, number), Term)
    assert stored is not None
    return stored.doc


def crash(lease: Lease) -> None:
    """What remains of a process after SIGKILL: no file lock."""
    lease._local.close()


# -- taking a lane ---------------------------------------------------------------------------------


def test_a_free_lane_is_taken_with_term_1(world: World) -> None:
    machine = world.machine("one")
    lease = held(machine)
    assert (lease.term, lease.held) == (1, True)
    term = newest_term(machine)
    assert (term.host, term.interval_s) == ("one", INTERVAL_S)


def test_another_machine_waits_and_says_for_whom(world: World) -> None:
    held(world.machine("one"))
    world.advance(100)
    holder = world.machine("two").lease().acquire()
    assert holder is not None
    assert (holder.host, holder.here, holder.age_s, holder.limit_s) == ("one", False, 100.0, LIMIT_S)


def test_a_term_without_a_heartbeat_counts_as_the_first_one(world: World) -> None:
    assert world.machine("one").lease().acquire() is None
    other = world.machine("two").lease()
    world.advance(LIMIT_S)
    assert other.acquire() is not None
    world.advance(1)
    assert other.acquire() is None
    assert other.term == 2


def test_a_silent_holder_loses_the_lane_only_after_the_limit(world: World) -> None:
    lease = held(world.machine("one"))
    other = world.machine("two").lease()
    world.advance(LIMIT_S / 3)
    lease.beat("training", 1)
    world.advance(LIMIT_S)
    assert other.acquire() is not None, "the limit counts from the last beat"
    world.advance(1)
    assert other.acquire() is None


def test_a_beat_with_another_nonce_keeps_nobody_alive(world: World) -> None:
    """A holder that was deposed goes on beating until it looks: that is not the new holder's beat."""
    machine = world.machine("one")
    lease = held(machine)
    old = machine.documents.read(layout.heartbeat(LANE), Heartbeat)
    assert old is not None
    second = world.machine("two").lease(take_over=True)
    assert second.acquire() is None
    world.advance(LIMIT_S + 1)
    machine.documents.replace(layout.heartbeat(LANE), old.doc, etag=old.entry.etag)
    assert world.machine("three").lease().acquire() is None
    assert lease.held


def test_a_released_lane_is_taken_at_once(world: World) -> None:
    held(world.machine("one")).release()
    other = world.machine("two").lease()
    assert other.acquire() is None
    assert other.term == 2


def test_our_own_earlier_process_is_followed_at_once(world: World) -> None:
    machine = world.machine("one")
    crash(held(machine))
    lease = machine.lease()
    assert lease.acquire() is None
    assert lease.term == 2


def test_a_second_process_on_this_machine_waits_for_the_file_lock(world: World) -> None:
    machine = world.machine("one")
    first = held(machine)
    holder = machine.lease().acquire()
    assert holder is not None
    assert holder.here
    first.release()
    assert machine.lease().acquire() is None


def test_the_same_host_name_with_another_mirror_is_somebody_else(world: World) -> None:
    """Two containers called `localhost`."""
    crash(held(world.machine("one")))
    twin = replace(world.machine("twin"), host="one")
    assert twin.lease().acquire() is not None


def test_a_copied_mirror_on_another_host_is_somebody_else(world: World) -> None:
    machine = world.machine("one")
    crash(held(machine))
    copied = world.machine("two")
    shutil.copytree(machine.mirror.root, copied.mirror.root)
    assert copied.lease().acquire() is not None


def test_a_wiped_mirror_waits_for_its_own_old_process(world: World) -> None:
    machine = world.machine("one")
    crash(held(machine))
    shutil.rmtree(machine.mirror.root)
    lease = machine.lease()
    assert lease.acquire() is not None
    world.advance(LIMIT_S + 1)
    assert lease.acquire() is None


def test_take_over_claims_a_lane_that_somebody_holds(world: World) -> None:
    first = held(world.machine("one"))
    second = world.machine("two").lease(take_over=True)
    assert second.acquire() is None
    assert second.term == 2
    with pytest.raises(LaneLost):
        first.still()
    assert not first.held


def test_take_over_counts_once(world: World) -> None:
    lease = world.machine("one").lease(take_over=True)
    assert lease.acquire() is None
    lease.release()
    held(world.machine("two"))
    assert lease.acquire() is not None


def test_of_two_that_claim_at_once_one_holds_the_lane(world: World) -> None:
    """The second create meets the first one's term, looks again and waits."""
    first, second = world.machine("one").lease(), world.machine("two").lease()
    assert first.acquire() is None
    assert second._claim(1) is False
    assert second.acquire() is not None


# -- keeping it --------------------------------------------------------------------------------------


def test_the_nonce_is_remembered_before_the_term_is_there(world: World) -> None:
    """Otherwise a crash in between would lock a site out of its own lane."""
    machine = world.machine("one", once("crash_before", verb="push", containing="/lease/"))
    with pytest.raises(Crashed):
        machine.lease().acquire()
    assert len(machine.mirror.nonces(LANE)) == 1
    assert not machine.documents.exists(layout.term(LANE, 1))


@pytest.mark.parametrize("fault", ["crash_after", "lose_reply"])
def test_a_claim_whose_reply_is_lost_is_ours(world: World, fault: Fault) -> None:
    machine = world.machine("one", once(fault, verb="push", containing="/lease/"))
    lease = machine.lease()
    if fault == "crash_after":
        with pytest.raises(Crashed):
            lease.acquire()
        crash(lease)
        lease = machine.lease()
    assert lease.acquire() is None
    assert newest_term(machine).nonce in machine.mirror.nonces(LANE)


def test_a_short_pause_keeps_the_term(world: World) -> None:
    lease = held(world.machine("one"))
    world.advance(LIMIT_S / 2)
    lease.still()
    assert lease.term == 1


def test_after_more_than_half_the_limit_the_next_term_is_claimed(world: World) -> None:
    lease = held(world.machine("one"))
    world.advance(LIMIT_S / 2 + 1)
    lease.still()
    assert (lease.term, lease.held) == (2, True)
    lease.beat("training", 1)
    lease.still()
    assert lease.term == 2


def test_a_machine_that_slept_while_another_took_over_leaves(world: World) -> None:
    asleep = held(world.machine("one"))
    world.advance(LIMIT_S + 1)
    awake = held(world.machine("two"))
    for look in (asleep.still, lambda: asleep.beat("training", 1)):
        with pytest.raises(LaneLost, match=LANE):
            look()
    awake.still()
    assert awake.held


def test_a_lost_lane_is_not_released_in_the_name_of_its_new_holder(world: World) -> None:
    first = held(world.machine("one"))
    machine = world.machine("two")
    second = machine.lease(take_over=True)
    assert second.acquire() is None
    second.beat("training", 1)
    with pytest.raises(LaneLost):
        first.still()
    first.release()
    beat = machine.documents.read(layout.heartbeat(LANE), Heartbeat)
    assert beat is not None
    assert (beat.doc.host, beat.doc.state) == ("two", "training")


def test_a_beat_goes_only_over_the_version_it_saw(world: World) -> None:
    """Two that both believe to hold the lane: the next beat finds out."""
    first = held(world.machine("one"))
    second = world.machine("two").lease(take_over=True)
    assert second.acquire() is None
    second.beat("training", 1)
    with pytest.raises(LaneLost):
        first.beat("training", 1)


def test_beats_count_up_and_say_what_is_done(world: World) -> None:
    machine = world.machine("one")
    lease = held(machine)
    lease.beat("training", 4)
    beat = machine.documents.read(layout.heartbeat(LANE), Heartbeat)
    assert beat is not None
    assert (beat.doc.beat, beat.doc.state, beat.doc.pass_id, beat.doc.term) == (2, "training", 4, 1)


def test_a_lost_beat_reply_is_settled_by_reading_back(world: World) -> None:
    lease = held(world.machine("one", once("lose_reply", verb="push", containing="heartbeat")))
    lease.beat("training", 1)
    assert lease.term == 1


def test_an_outage_is_no_loss(world: World) -> None:
    """Nothing that was not seen may end a process (law 7)."""
    faults: list[Plan] = []
    lease = held(world.machine("one", lambda call: faults[0](call) if faults else None))
    faults.append(once("unavailable", verb="stat", containing="term-0002"))
    with pytest.raises(StoreUnavailable):
        lease.still()
    lease.still()
    assert lease.held


def test_a_claim_after_a_pause_whose_reply_never_came_is_still_ours(world: World) -> None:
    """The network comes back slowly after a sleep: no other process was there."""
    failing = [once("lose_reply", verb="push", containing="term-0002")]
    failing.append(once("unavailable", verb="pull", containing="term-0002"))
    machine = world.machine("one", lambda call: next((f for plan in failing if (f := plan(call))), None))
    lease = held(machine)
    world.advance(LIMIT_S / 2 + 1)
    with pytest.raises(StoreUnavailable):
        lease.still()
    lease.still()
    assert lease.held
    lease.beat("training", 1)


# -- a store without a clock of its own --------------------------------------------------------------


def test_without_the_store_s_time_a_newcomer_watches_the_beat_stand_still(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeless = Traits(atomic_create=True, compare_and_swap=True, server_time=False, ranged_reads=False)
    monkeypatch.setattr(MemoryStore, "traits", property(lambda store: timeless))
    lease = held(world.machine("one"))
    machine = world.machine("two")
    other = machine.lease()
    world.advance(10 * LIMIT_S)
    assert other.acquire() is not None, "nobody watched so far"
    machine.clock.advance(LIMIT_S)
    lease.beat("training", 1)
    assert other.acquire() is not None, "it beat"
    machine.clock.advance(LIMIT_S)
    assert other.acquire() is not None
    machine.clock.advance(1)
    assert other.acquire() is None


# -- a term that nobody can read ---------------------------------------------------------------------

GARBAGE = b"\x00 no document"


def spoiled(world: World) -> Lease:
    """A lane whose holder is gone for good, and whose newest term somebody made unreadable."""
    lease = held(world.machine("one"))
    world.put(layout.term(LANE, 2), GARBAGE)
    return lease


def test_a_term_that_cannot_be_read_keeps_the_lane_and_says_what_to_do(world: World) -> None:
    spoiled(world)
    world.advance(10 * LIMIT_S)
    with pytest.raises(BadDocument, match=r"term-0002\.json.*nobody can know who holds sites/nu") as told:
        world.machine("two").lease().acquire()
    assert "--take-over" in told.value.hint
    assert world.content(layout.term(LANE, 3)) is None


def test_take_over_goes_past_a_term_that_cannot_be_read_and_tells_it(world: World) -> None:
    first = spoiled(world)
    said: list[str] = []
    lease = world.machine("two").lease(take_over=True, tell=said.append)
    assert lease.acquire() is None
    assert lease.term == 3
    assert len(said) == 1
    assert "term-0002.json cannot be read and was passed over" in said[0]
    assert world.content(layout.term(LANE, 2)) == GARBAGE, "nothing was overwritten"
    lease.still()
    lease.beat("idle", None)
    with pytest.raises(LaneLost):
        first.still()
    waiting = world.machine("three").lease().acquire()
    assert waiting is not None, "whoever comes next reads the new term"
    assert waiting.host == "two"
