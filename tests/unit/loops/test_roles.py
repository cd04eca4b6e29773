"""RFC-0013's `Coordinator` and `Participant`, in one process over a store in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stitch.client import Client, Setup
from stitch.config.policy import Policy
from stitch.config.settings import Settings
from stitch.errors import ConfigError, ProtocolError, RoundError
from stitch.loops import Coordinator, Participant
from stitch.loops.roles import GlobalState
from stitch.rounds import RoundState
from tests.unit.loops.actors import SITES, Actors


def of(client: Client) -> tuple[Settings, Setup]:
    """What a client of the tests was built from."""
    return replace(client.settings, poll_seconds=0.05), client._setup


class Roles:
    """A coordinator and three participants; the lead's own data is a participant's too."""

    def __init__(self, folder: Path, policy: Policy) -> None:
        actors = Actors(folder)
        settings, setup = of(actors.client("rush", policy=policy)[0])
        self.coordinator = Coordinator(settings, setup=setup)
        self.participants: dict[str, Participant] = {}
        for site in SITES:
            settings, setup = of(actors.client(site, policy=policy)[0])
            self.participants[site] = Participant(settings, setup=setup)

    def close(self) -> None:
        for participant in self.participants.values():
            participant.close()
        self.coordinator.client.close()


@pytest.fixture
def roles(tmp_path: Path) -> Iterator[Roles]:
    roles = Roles(tmp_path, Policy("quorum", min_participants=2))
    yield roles
    roles.close()


def test_rounds_run_through_the_states_of_the_rfc(roles: Roles) -> None:
    with pytest.raises(ProtocolError, match="not begun"):
        roles.participants["nu"].join()
    roles.coordinator.run(0)
    assert roles.coordinator.round_state() is RoundState.OPEN
    states = {site: one.join() for site, one in roles.participants.items()}
    assert {state.pass_id for state in states.values()} == {0}
    assert len({state.model_sha256 for state in states.values()}) == 1
    roles.participants["nu"].local_round(states["nu"], states["nu"].round_seed)
    assert roles.coordinator.round_state() is RoundState.OPEN, "one of the two that a round needs"
    seal = roles.participants["rush"].local_round(states["rush"], states["rush"].round_seed)
    assert (seal.base_pass, seal.round_seed) == (0, states["rush"].round_seed)
    assert roles.coordinator.round_state() is RoundState.COLLECTING
    roles.participants["uchicago"].local_round(states["uchicago"], states["uchicago"].round_seed)
    roles.coordinator.run(1)
    after = roles.coordinator.global_state()
    assert after.pass_id == 1
    assert after.model is not None
    assert after.model_sha256 != states["nu"].model_sha256


def test_it_can_run_beside_its_participants(roles: Roles) -> None:
    roles.coordinator.run(0)
    worker = threading.Thread(target=roles.coordinator.run, args=(2,))
    worker.start()
    for number in (1, 2):
        for one in roles.participants.values():
            state = one.join()
            while state.pass_id < number - 1:
                state = one.join()
            one.local_round(state, state.round_seed)
    worker.join(60)
    assert not worker.is_alive()
    assert roles.coordinator.global_state().pass_id == 2


def test_another_seed_or_an_old_global_trains_nothing(roles: Roles) -> None:
    roles.coordinator.run(0)
    state = roles.participants["nu"].join()
    with pytest.raises(RoundError, match="not the seed"):
        roles.participants["nu"].local_round(state, state.round_seed + 1)
    for one in roles.participants.values():
        one.local_round(state, state.round_seed)
    roles.coordinator.run(1)
    with pytest.raises(RoundError, match="not the newest"):
        roles.participants["nu"].local_round(state, state.round_seed)


def test_who_was_absent_recovers_the_newest_global(roles: Roles) -> None:
    """Rejoiner recovery: whatever was missed, it goes on from the newest."""
    roles.coordinator.run(0)
    for site in ("rush", "nu", "uchicago"):
        state = roles.participants[site].join()
        roles.participants[site].local_round(state, state.round_seed)
    roles.coordinator.run(1)
    state = roles.participants["uchicago"].join()
    assert state.pass_id == 1
    assert roles.participants["uchicago"].local_round(state, state.round_seed).base_pass == 1


def test_only_the_lead_coordinates(tmp_path: Path) -> None:
    settings, setup = of(Actors(tmp_path).client("nu")[0])
    with pytest.raises(ConfigError, match="only the lead"):
        Coordinator(settings, setup=setup)


def test_before_the_first_global_there_is_no_model(tmp_path: Path) -> None:
    roles = Roles(tmp_path, Policy())
    roles.coordinator.client.begin()
    state = roles.coordinator.global_state()
    assert state == GlobalState(-1, None, "", roles.coordinator.client.seed(0))
    roles.close()
