"""What the lead says of its sites, and that it asks about all of them at once."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from stitch import layout
from stitch.client import Client
from stitch.client.watch import SiteWatch
from stitch.errors import StoreUnavailable
from stitch.hooks.inline import FunctionRunner
from stitch.loops.lead import Lead
from stitch.rounds import Attempt
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.testing import FakeClock
from stitch.testing.lines import Line
from stitch.wire import Heartbeat
from tests.unit.loops.actors import Actors, train

SITES = ("mayo", "nu", "rush", "uchicago")
MINUTE = 60.0


class Look:
    """A lead that has published global 0, and two clocks: the store's, and the lead's own."""

    def __init__(self, folder: Path) -> None:
        self.actors = Actors(folder)
        self.store_clock, self.lead_clock = FakeClock(), FakeClock()
        self.actors.inner = MemoryStore(clock=self.store_clock)
        self.lead = self.actors.client("rush")[0]
        self.lead.clock = self.lead_clock
        self.lead.push_global_model(
            0,
            train(
                global_path=None,
                out_path=self.lead.global_model_path(0),
                data_dir=self.lead.settings.data_dir,
            ),
        )

    def site(self, name: str) -> Client:
        """A site that has global 0 and began to train."""
        client = self.actors.client(name)[0]
        client.pull_global(0)
        client.emit(1, "started")
        return client

    def finish(self, client: Client) -> None:
        metrics = train(
            global_path=client.global_model_path(0),
            out_path=client.model_path(1),
            data_dir=client.settings.data_dir,
        )
        client.push_local_model(1, metrics)

    def pass_time(self, seconds: float) -> None:
        for clock in (self.store_clock, self.lead_clock):
            clock.advance(seconds)


@pytest.fixture
def look(tmp_path: Path) -> Look:
    return Look(tmp_path)


def test_each_site_has_a_word_and_everybody_can_read_it(look: Look) -> None:
    nu, uchicago = look.site("nu"), look.site("uchicago")
    look.finish(nu)
    status = look.lead.refresh_site_status(1)
    assert status == {"nu": "completed", "rush": "never seen", "uchicago": "training"}
    for reader in (look.lead, uchicago):
        view = reader.read_orchestration()
        assert (view["site_status"], view["current_pass"]) == (status, 1)


def test_a_failure_is_seen_when_it_is_time_to_look_again(look: Look) -> None:
    uchicago = look.site("uchicago")
    assert look.lead.refresh_site_status(1)["uchicago"] == "training"
    uchicago.emit(1, "failed", hook="train", exception="ValueError")
    assert look.lead.refresh_site_status(1)["uchicago"] == "training", "lanes are listed once a minute"
    look.pass_time(MINUTE)
    assert look.lead.refresh_site_status(1)["uchicago"] == "failed"
    assert look.lead.read_orchestration()["site_status"]["uchicago"] == "failed"


def test_a_site_that_falls_silent_is_stalled_by_the_store_s_clock(look: Look) -> None:
    uchicago = look.site("uchicago")
    uchicago.heartbeat(1)
    uchicago.seat(uchicago.lane)._heart.stop()
    look.lead_clock.advance(100 * MINUTE)  # law 6: the lead's own hour means nothing
    assert look.lead.refresh_site_status(1)["uchicago"] == "training"
    look.store_clock.advance(7 * MINUTE)
    look.lead_clock.advance(MINUTE)
    assert look.lead.refresh_site_status(1)["uchicago"] == "stalled"


def test_all_have_completed_when_the_last_seal_is_there(look: Look) -> None:
    nu = look.site("nu")
    assert not look.lead.all_completed(1, ["nu"])
    look.finish(nu)
    assert look.lead.all_completed(1, ["nu"])
    assert not look.lead.all_completed(1, ["nu", "uchicago"])


# -- side by side ------------------------------------------------------------------------------------


def meeting(verb: str, sites: int) -> Callable[[str, str], None]:
    """Each of these requests waits for the others: asked one after the other, the first would never end."""
    barrier = threading.Barrier(sites)

    def before(what: str, key: str) -> None:
        if what == verb:
            barrier.wait(timeout=20)

    return before


def watch(before: Callable[[str, str], None], *, readers: int = 8) -> SiteWatch:
    line = Line(MemoryStore(), before)
    lanes = Lanes("trial", {f"sites/{site}": line for site in SITES}, {})
    return SiteWatch(lanes, FakeClock(), heartbeat_minutes=2.0, readers=readers, seen=never)


def never(lane: str, mark: str, *, now: float, ticks: float) -> float:
    """Nothing was seen before."""
    return 0.0


def test_a_heartbeat_alone_is_a_probe_and_a_join_is_somebody(look: Look) -> None:
    look.site("nu")
    probed = layout.heartbeat("sites/uchicago")
    doc = Heartbeat.make(
        run_id=look.lead.settings.run_id, lane="sites/uchicago", nonce="probe", term=0, host="h", beat=0,
        interval_s=60.0, state="released",
    )  # fmt: skip
    Lanes(look.lead.settings.run_id, look.lead.lanes.stores, {}).write(probed, doc.dump(), mode="create")
    status = look.lead.refresh_site_status(1)
    assert (status["uchicago"], status["nu"]) == ("never seen", "training")


def test_the_lead_asks_for_all_seals_at_once() -> None:
    ready = watch(meeting("stat", len(SITES))).ready(Attempt(1), SITES)
    assert (ready.sealed, ready.unreadable) == ({}, {})


def test_the_lead_lists_all_waiting_lanes_at_once() -> None:
    looking = watch(meeting("list", len(SITES)))
    status = looking.status(SITES, ready=looking.ready(Attempt(1), SITES))
    assert status == dict.fromkeys(SITES, "never seen")


def test_no_more_requests_are_under_way_than_there_are_readers() -> None:
    lock, under_way, most, third = threading.Lock(), [0], [0], threading.Barrier(3)

    def before(what: str, key: str) -> None:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        with contextlib.suppress(threading.BrokenBarrierError):  # nobody comes: what should be
            third.wait(timeout=0.3)
        with lock:
            under_way[0] -= 1

    watch(before, readers=2).ready(Attempt(1), SITES)
    assert most[0] <= 2


def test_a_lane_that_cannot_be_read_hides_no_other_and_is_not_missing() -> None:
    """Law 7: unknown is not absent."""

    def before(what: str, key: str) -> None:
        if "sites/nu/" in key:
            raise StoreUnavailable("no answer")

    looking = watch(before)
    ready = looking.ready(Attempt(1), SITES)
    assert dict(ready.unreadable) == {"nu": "no answer"}
    status = looking.status(SITES, ready=ready)
    assert status == {**dict.fromkeys(SITES, "never seen"), "nu": "unreadable"}


def test_the_loop_asks_as_the_watch_does(look: Look) -> None:
    """The lead's own turns look through the same watch, with the readers of its setup."""
    look.lead.runner = FunctionRunner({"train": train})
    assert Lead(look.lead).step().on == ("nu", "rush", "uchicago")
    assert look.lead.watch._readers == look.lead.readers == 8
    look.lead.close()
