"""`heartbeat` and `heartbeating` by hand: who beats, what the beats say, and whose lane it is (law 10)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stitch import layout
from stitch.errors import LaneLost
from stitch.store.memory import MemoryStore
from stitch.wire import Heartbeat
from tests.unit.loops.actors import Actors

LANE = "sites/nu"


@pytest.fixture
def here(tmp_path: Path) -> Actors:
    return Actors(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path, here: Actors) -> Actors:
    """Another machine: another mirror, the same store."""
    actors = Actors(tmp_path / "there")
    actors.inner = here.inner
    return actors


def beat(store: MemoryStore, folder: Path, lane: str = LANE) -> Heartbeat:
    """What the store's heartbeat says now."""
    to = folder / "looked-at"
    store.pull(f"trial/{layout.heartbeat(lane)}", to)
    return Heartbeat.parse(to.read_bytes(), source=lane)


def until(condition: Callable[[], bool], what: str) -> None:
    """The heart beats in a thread of its own."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def test_one_beat_says_what_the_site_is_doing(here: Actors) -> None:
    client, _ = here.client("nu")
    client.heartbeat()
    first = beat(here.inner, here.folder)
    assert (first.lane, first.state, first.pass_id) == (LANE, "idle", None)
    client.heartbeat(3)
    second = beat(here.inner, here.folder)
    assert (second.state, second.pass_id) == ("training", 3)
    assert second.beat > first.beat
    assert second.term == first.term
    client.close()
    assert beat(here.inner, here.folder).state == "released"


def test_the_lead_beats_for_its_own_site_and_not_for_the_global_lane(here: Actors) -> None:
    client, _ = here.client("rush")
    client.heartbeat(1)
    assert beat(here.inner, here.folder, "sites/rush").pass_id == 1
    assert not list(here.inner.list("trial/global/"))
    client.close()


def test_the_first_beat_says_already_what_is_done(here: Actors, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one comes two minutes later."""
    client, _ = here.client("nu")
    said: list[str] = []
    push = here.inner.push

    def listen(src: Path, key: str, **more: object) -> object:
        if key.endswith("heartbeat.json"):
            said.append(Heartbeat.parse(src.read_bytes(), source=key).state)
        return push(src, key, **more)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(here.inner, "push", listen)
    with client.heartbeating(1):
        until(lambda: bool(said), "no beat came")
    client.close()
    assert said[0] == "training"


def test_beats_go_on_while_the_block_trains_and_change_their_word_after_it(here: Actors) -> None:
    client, _ = here.client("nu", heartbeat_minutes=0.02 / 60)
    key = f"trial/{layout.heartbeat(LANE)}"
    with client.heartbeating(2):
        until(lambda: here.inner.stat(key) is not None, "no beat came")
        first = beat(here.inner, here.folder)
        until(lambda: beat(here.inner, here.folder).beat > first.beat + 1, "no other beat came")
        later = beat(here.inner, here.folder)
        assert (later.state, later.pass_id) == ("training", 2)
    until(lambda: beat(here.inner, here.folder).state == "waiting", "the beats still say training")
    client.close()


def test_nobody_beats_or_trains_for_a_site_that_another_process_works_for(
    here: Actors, there: Actors
) -> None:
    holder, _ = here.client("nu")
    holder.heartbeat(1)
    held = beat(here.inner, here.folder)
    rival, _ = there.client("nu")
    entered = False
    with pytest.raises(LaneLost, match="another process on"):
        rival.heartbeat(1)
    with pytest.raises(LaneLost, match="works for sites/nu"), rival.heartbeating(1):
        entered = True
    assert not entered
    assert beat(here.inner, here.folder).nonce == held.nonce
    holder.close()
    rival.heartbeat(1)
    assert beat(here.inner, here.folder).nonce != held.nonce
    rival.close()


def test_a_second_process_of_this_machine_is_told_so(here: Actors) -> None:
    holder, _ = here.client("nu")
    holder.heartbeat()
    with pytest.raises(LaneLost, match="on this machine"):
        here.client("nu")[0].heartbeat()
    holder.close()
