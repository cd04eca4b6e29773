"""Documents: the first one wins, replies can be lost, two alone are ever replaced (laws 1, 2 and 5)."""

from __future__ import annotations

import pytest

from stitch import layout
from stitch.errors import BadDocument, OutcomeUnknown, UnsupportedKind
from stitch.store.base import Traits
from stitch.store.memory import MemoryStore
from stitch.sync.documents import Stored
from stitch.testing import Call, Fault, once
from stitch.wire import Done, Heartbeat
from tests.unit.sync.conftest import LANE, RUN, Machine, World

BEAT = layout.heartbeat(LANE)


def done(reason: str) -> Done:
    return Done.make(
        run_id=RUN,
        final_pass=1,
        final_metrics_sha256="0" * 64,
        reason=reason,
        created_at="2026-01-01T00:00:00Z",
    )


def beat(machine: Machine, count: int, *, etag: str | None) -> Stored[Heartbeat] | None:
    doc = Heartbeat.make(
        run_id=RUN,
        lane=LANE,
        nonce=machine.host,
        term=1,
        host=machine.host,
        beat=count,
        interval_s=120.0,
        state="idle",
    )
    return machine.documents.replace(BEAT, doc, etag=etag)


def test_the_first_one_wins_and_the_second_uses_what_is_there(world: World) -> None:
    first = world.machine("one").documents.create(layout.done(), done("completed"))
    second = world.machine("two").documents.create(layout.done(), done("stopped by hand"))
    assert (first.ours, second.ours) == (True, False)
    assert second.doc.reason == "completed"
    assert second.data == first.data


def test_repeating_a_create_is_success(world: World) -> None:
    machine = world.machine("one")
    assert machine.documents.create(layout.done(), done("completed")).ours
    assert machine.documents.create(layout.done(), done("completed")).ours


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
def test_a_create_without_a_reply_is_settled_by_reading_back(world: World, fault: Fault) -> None:
    machine = world.machine("one", once(fault, verb="push"))
    stored = machine.documents.create(layout.done(), done("completed"))
    assert stored.ours
    assert world.content(layout.done()) == stored.data


def test_after_a_lost_reply_somebody_else_s_document_is_told_apart(world: World) -> None:
    world.machine("two").documents.create(layout.done(), done("stopped by hand"))
    machine = world.machine("one", once("lose_request", verb="push"))
    assert machine.documents.create(layout.done(), done("completed")).doc.reason == "stopped by hand"


def test_a_store_that_loses_every_request_is_said_so(world: World) -> None:
    def plan(call: Call) -> Fault | None:
        return "lose_request" if call.verb == "push" else None

    with pytest.raises(OutcomeUnknown, match=r"DONE\.json"):
        world.machine("one", plan).documents.create(layout.done(), done("completed"))


def test_the_mirror_keeps_what_was_written_and_what_was_read(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    stored = one.documents.create(layout.done(), done("completed"))
    assert one.mirror.read(layout.done()) == stored.data
    two.documents.read(layout.done(), Done)
    assert two.mirror.read(layout.done()) == stored.data


def test_a_document_that_cannot_be_believed_leaves_the_mirror_as_it_was(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    good = one.documents.create(layout.done(), done("completed"))
    two.documents.read(layout.done(), Done)
    for text, error in ((b"{}", BadDocument), (good.data.replace(b"done/1", b"done/2"), UnsupportedKind)):
        one.lanes.write(layout.done(), text, mode="replace")
        with pytest.raises(error):
            two.documents.read(layout.done(), Done)
        assert two.mirror.read(layout.done()) == good.data


def test_a_replace_goes_only_over_the_version_that_was_seen(world: World) -> None:
    one, two = world.machine("one"), world.machine("two")
    first = beat(one, 1, etag=None)
    assert first is not None
    assert beat(two, 1, etag=None) is None, "none was seen, one is there"
    second = beat(two, 2, etag=first.entry.etag)
    assert second is not None
    assert beat(one, 3, etag=first.entry.etag) is None
    assert world.content(BEAT) == second.data


@pytest.mark.parametrize("fault", ["lose_reply", "lose_request"])
def test_a_replace_without_a_reply_is_settled_by_reading_back(world: World, fault: Fault) -> None:
    first = beat(world.machine("one"), 1, etag=None)
    assert first is not None
    machine = world.machine("one", once(fault, verb="push"))
    stored = beat(machine, 2, etag=first.entry.etag)
    assert (stored is not None) == (fault == "lose_reply")
    if stored is not None:
        assert world.content(BEAT) == stored.data


def test_a_store_that_cannot_compare_is_overwritten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a synced folder the two liveness files are the only ones that may be."""
    plain = Traits(atomic_create=False, compare_and_swap=False, server_time=False, ranged_reads=False)
    monkeypatch.setattr(MemoryStore, "traits", property(lambda store: plain))
    one, two = world.machine("one"), world.machine("two")
    first = beat(one, 1, etag=None)
    assert first is not None
    assert beat(two, 2, etag=first.entry.etag) is not None
    assert beat(one, 3, etag=first.entry.etag) is not None


def test_an_unchanged_document_is_not_read_again(world: World) -> None:
    machine = world.machine("one")
    stored = beat(machine, 1, etag=None)
    assert stored is not None
    assert machine.documents.read(BEAT, Heartbeat, unless=stored.entry.etag) is None
    assert machine.documents.read(BEAT, Heartbeat, unless="another") is not None
