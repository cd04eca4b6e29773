"""What waiting costs: every request of every turn is counted at the store."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stitch.client import Client
from stitch.config.policy import Policy
from stitch.hooks.inline import FunctionRunner
from stitch.loops.lead import Lead
from stitch.loops.local import QUIET_POLLS, Local
from stitch.store.meter import MeteredStore
from stitch.testing import FakeClock
from tests.unit.loops.actors import Actors, train


@pytest.fixture
def actors(tmp_path: Path) -> Actors:
    return Actors(tmp_path)


def cost(loop: Local | Lead, store: MeteredStore) -> dict[str, int]:
    """The requests of one more turn that finds nothing to do, and how many of them moved nothing."""
    before, unchanged = store.meter.requests.copy(), store.meter.unchanged
    assert loop.step().state == "waiting"
    return {**(store.meter.requests - before), "unchanged": store.meter.unchanged - unchanged}


def costs(loop: Local | Lead, store: MeteredStore, turns: int) -> list[dict[str, int]]:
    """A row of such turns, beginning after one that looked at everything."""
    for _ in range(QUIET_POLLS):
        if sum(cost(loop, store).values()) > 5:
            break
    return [cost(loop, store) for _ in range(turns)]


def silence(client: Client) -> None:
    """Stop the heartbeats, whose requests are not the loop's."""
    for seat in client.seats.values():
        seat._heart.stop()


def settle(loop: Local | Lead) -> None:
    while loop.step().state == "acted":
        pass


def test_a_waiting_site_costs_one_conditional_request_a_poll_and_a_full_look_every_tenth(
    actors: Actors,
) -> None:
    lead_client, _ = actors.client("rush")
    site_client, store = actors.client("nu")
    settle(Lead(lead_client))
    local = Local(site_client)
    settle(local)
    local.step()
    silence(site_client)
    row = costs(local, store, 2 * QUIET_POLLS)
    ask, look = {"pull": 1, "unchanged": 1}, {"pull": 3, "stat": 2, "unchanged": 1}
    assert row == 2 * [*[ask] * (QUIET_POLLS - 1), look]
    lead_client.close()
    site_client.close()


def lead_row(missing: int) -> list[dict[str, int]]:
    """Orchestration's etag, one request for each missing site, and a full look in the tenth turn."""
    ask = {"stat": missing, "pull": 1, "unchanged": 1}
    look = {"stat": missing + 4, "pull": 4, "now": 1, "unchanged": 0}
    return [*[ask] * (QUIET_POLLS - 1), look]


def test_a_waiting_lead_asks_only_about_sites_not_yet_done(actors: Actors) -> None:
    lead_client, store = actors.client("rush")
    lead_client.clock = FakeClock()  # lanes are listed once a minute: none passes here
    site_client, _ = actors.client("nu")
    last_client, _ = actors.client("uchicago")
    lead = Lead(lead_client)
    settle(lead)
    settle(Local(site_client))
    lead.step()
    silence(lead_client)
    assert costs(lead, store, QUIET_POLLS) == lead_row(2)
    settle(Local(last_client))
    assert lead.step().on == ("rush",)
    assert costs(lead, store, QUIET_POLLS) == lead_row(1)
    last_client.close()
    lead_client.close()
    site_client.close()


def test_a_lead_of_buffered_rounds_lists_one_lane_for_each_site_that_may_bring_something_newer(
    actors: Actors,
) -> None:
    """Whatever `max_staleness` is, and however many passes lie there."""
    buffered = Policy("buffered", buffer_size=3, max_staleness=50)
    lead_client, store = actors.client("rush", policy=buffered)
    lead_client.clock = FakeClock()
    site_client, _ = actors.client("nu", policy=buffered)
    lead = Lead(lead_client)
    settle(lead)
    settle(Local(site_client))
    lead.step()
    silence(lead_client)
    row = costs(lead, store, QUIET_POLLS)
    assert row[0] == {"list": 2, "pull": 1, "now": 1, "unchanged": 1}
    assert row[:-1] == [row[0]] * (QUIET_POLLS - 1)
    assert sum(row[-1].values()) < 15, "a full look"
    lead_client.close()
    site_client.close()


def test_a_change_of_orchestration_is_seen_at_the_next_poll(actors: Actors) -> None:
    lead_client, _ = actors.client("rush")
    site_client, _ = actors.client("nu")
    local = Local(site_client)
    assert local.step().state == "waiting"
    assert local.step().state == "waiting"
    settle(Lead(lead_client))
    assert local.step().state == "acted"
    lead_client.close()
    site_client.close()


def test_beats_go_on_while_a_hook_runs(actors: Actors) -> None:
    client, _ = actors.client("rush")
    client.settings = replace(client.settings, heartbeat_minutes=0.02 / 60)
    beats = threading.Event()

    def slow(*, global_path: Path | None, out_path: Path, data_dir: Path) -> dict[str, int]:
        first = actors.inner.stat("trial/global/heartbeat.json")
        for _ in range(1000):
            beats.wait(0.01)
            now = actors.inner.stat("trial/global/heartbeat.json")
            if first is not None and now is not None and now.etag != first.etag:
                break
            first = first or now
        else:
            raise AssertionError("no beat came while the hook ran")
        return train(global_path=global_path, out_path=out_path, data_dir=data_dir)

    client.runner = FunctionRunner({"train": slow})
    assert Lead(client).step().state == "acted"
    client.close()
