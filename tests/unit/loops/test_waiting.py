"""How long the driver waits between turns: quick at first, slower while nothing comes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from stitch.client import Client
from stitch.loops import drive
from stitch.loops.drive import FIRST_WAIT_FAR_S, FIRST_WAIT_NEAR_S, GROWTH
from stitch.rounds import Turn
from tests.unit.loops.actors import Actors


class Scripted:
    """A loop that takes its turns from a list."""

    name = "scripted"

    def __init__(self, states: Iterator[str]) -> None:
        self._states = states

    def step(self) -> Turn:
        return Turn(next(self._states), "as scripted")  # type: ignore[arg-type]  # one of Turn's states


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Actors(tmp_path).client("nu")[0]


def waits(client: Client, states: list[str], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that a driver makes between these turns."""
    made: list[float] = []
    driver = drive._Driver(client, Scripted(iter(states)), tokens=None)  # type: ignore[arg-type]  # stands for a loop
    monkeypatch.setattr(driver, "_pause", made.append)
    driver.run()
    assert driver.error is None
    return made


def test_waits_grow_by_a_ninth_up_to_poll_seconds_and_begin_anew_after_an_act(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = ["waiting"] * 60 + ["acted", "waiting", "done"]
    made = waits(client, states, monkeypatch)
    assert made[0] == FIRST_WAIT_NEAR_S
    assert made[1] == pytest.approx(FIRST_WAIT_NEAR_S * GROWTH)
    assert made[:60] == sorted(made[:60])
    assert made[59] == client.settings.poll_seconds == 30
    assert made[60] == FIRST_WAIT_NEAR_S


def test_a_store_across_a_network_is_asked_once_a_second_at_first(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(client), "far", True)
    assert waits(client, ["waiting", "done"], monkeypatch) == [FIRST_WAIT_FAR_S]


def test_a_pause_ends_when_the_other_loop_has_published_something(client: Client) -> None:
    driver = drive._Driver(client, Scripted(iter(())), tokens=None)  # type: ignore[arg-type]  # stands for a loop
    thread = threading.Thread(target=lambda: driver._pause(3600))
    thread.start()
    while thread.is_alive():
        driver.nudged.set()
        thread.join(0.01)


def test_a_pause_ends_when_the_person_stops_the_run(client: Client) -> None:
    driver = drive._Driver(client, Scripted(iter(())), tokens=None)  # type: ignore[arg-type]  # stands for a loop
    client.stop.set()
    driver._pause(3600)
