"""What waiting costs: requests are counted at the store (docs/architecture.md, "What waiting costs")."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from stitch.client import Client
from stitch.hooks.inline import FunctionRunner
from stitch.loops.lead import Lead
from stitch.loops.local import QUIET_POLLS, Local
from stitch.store.meter import MeteredStore
from tests.unit.loops.actors import Actors, train


@pytest.fixture
def actors(tmp_path: Path) -> Actors:
    return Actors(tmp_path)


def requests(store: MeteredStore) -> int:
    return sum(store.meter.requests.values())


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
    costs = []
    for _ in range(2 * QUIET_POLLS):
        before = requests(store)
        assert local.step().state == "waiting"
        costs.append(requests(store) - before)
    assert costs.count(1) == 2 * QUIET_POLLS - 2
    assert max(costs) <= 8
    assert store.meter.unchanged >= 2 * QUIET_POLLS - 2
    lead_client.close()
    site_client.close()


def test_a_waiting_lead_asks_only_about_sites_not_yet_done(actors: Actors) -> None:
    lead_client, store = actors.client("rush")
    site_client, _ = actors.client("nu")
    lead = Lead(lead_client)
    settle(lead)
    settle(Local(site_client))
    lead.step()
    silence(lead_client)
    costs = []
    for _ in range(QUIET_POLLS - 2):
        before = requests(store)
        assert lead.step().on == ("rush", "uchicago")
        costs.append(requests(store) - before)
    assert sorted(costs)[len(costs) // 2] <= 2
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
