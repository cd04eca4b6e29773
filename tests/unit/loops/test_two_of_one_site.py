"""Two processes of one site, on two machines, and what one finds when it is run again later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stitch import layout
from stitch.errors import LaneLost
from stitch.layout import Event, PassRef
from stitch.testing import Federation, Process
from tests.property.laws import check

Trap = Callable[[Process, str, str], bool]


class World(Federation):
    """The lead rush and the site nu; a trap kills the process that walks into it, once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, sites=("rush", "nu"), num_passes=2, before=self._spring)
        self.trap: Trap | None = None

    def kill_at(self, host: str, *, push: str) -> None:
        """Kill the process on a host before it sends a key that ends so."""
        self.trap = lambda process, what, key: process.host == host and what == "push" and key.endswith(push)

    def _spring(self, process: Process, what: str, *, key: str) -> None:
        if self.trap is not None and self.trap(process, what, key):
            self.trap = None
            process.kill()

    def until(self, process: Process, condition: Callable[[], bool]) -> None:
        """Turns of one process, until something holds."""
        for _ in range(100):
            if condition():
                return
            process.turns()
            self.advance(30.0)
        raise AssertionError(f"{process}: {process.said}")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_lead_whose_global_lost_while_it_was_down_takes_the_published_one(world: World) -> None:
    """Law 2: the store's seal holds, also when two globals were published meanwhile."""
    nu = world.start("nu")
    world.kill_at("rush", push="global/pass_001/metrics.json")
    first = world.start("rush")
    for _ in range(50):
        nu.turns()
        first.turns()
    assert not first.alive
    assert first.mirror.sealed(PassRef(1)) is not None, "its candidate is sealed, and not published"
    world.start("rush", "rush-two", take_over=True)
    world.run()
    again = world.start("rush")
    world.run()
    assert again.finished, again.said
    check(world)


def test_a_lead_that_waits_for_an_input_sees_that_another_ended_the_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 4: also without a lease nobody may wait for ever for what the store has left behind."""
    world.kill_at("rush", push="sites/rush/pass_001/metrics.json")
    first = world.start("rush")
    world.until(first, lambda: not first.alive)
    assert first.mirror.sealed(PassRef(1, "rush")) is not None
    second = world.start("rush", "rush-two", take_over=True)
    nu = world.start("nu")
    world.until(nu, lambda: world.seal(PassRef(1, "nu")) is not None or not second.turns())
    world.kill_at("rush-two", push="global/pass_001/metrics.json")
    world.until(second, lambda: not second.alive)
    waiting = world.start("rush", take_over=True)
    for _ in range(3):
        waiting.turn("lead")
    assert "not whole" in waiting.said
    monkeypatch.setattr(waiting, "frozen", True)
    third = world.start("rush", "rush-two", take_over=True)
    world.until(third, lambda: not third.alive or not nu.turns())
    waiting.turn("lead")
    waiting.turn("lead")
    assert isinstance(waiting.error, LaneLost) or waiting.said.startswith("run complete")


def test_a_pass_whose_completed_event_was_lost_is_reported_by_the_next_process(world: World) -> None:
    """Also the last pass, of a run that is over meanwhile: a seal implies `completed`."""
    world.start("rush")
    for number in (1, 2):
        world.kill_at("nu", push=f"pass_{number:03d}.completed.json")
        nu = world.start("nu")
        for _ in range(40):
            for process in world.alive():
                process.turns()
            world.advance(30.0)
        assert not nu.alive
        assert world.seal(PassRef(number, "nu")) is not None
        assert world.read(layout.event("nu", number, name=Event.COMPLETED)) is None
    world.start("nu")
    world.run()
    check(world)
