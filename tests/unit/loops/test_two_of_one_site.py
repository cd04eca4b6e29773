"""Two processes of one site, on two machines, and what one finds when it is run again later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stitch import layout
from stitch.layout import Event, PassRef
from stitch.sync.status import Status
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
    second, nu = world.start("rush", "rush-two"), world.start("nu")
    world.kill_at("rush-two", push="global/pass_001/metrics.json")
    world.until(nu, lambda: not any(second.turns()) or not second.alive)
    world.until(second, lambda: not second.alive)
    waiting = world.start("rush", take_over=True)
    monkeypatch.setattr(waiting.client, "pull_site", lambda ref: (Status.NO_NEW_PASS, None))
    waiting.turn("lead")
    assert "not whole" in waiting.said
    waiting.frozen = True
    third = world.start("rush", "rush-two", take_over=True)
    for _ in range(20):
        third.turns()
        nu.turns()
        world.advance(30.0)
    assert third.finished, third.said
    waiting.turn("lead")
    assert waiting.said.startswith("run complete")


def test_a_lead_goes_on_while_its_site_s_lane_is_another_machine_s(world: World) -> None:
    """Law 2: the store's seal holds, also over the lead's own unsent pass, whoever may train here."""
    world.kill_at("rush", push="sites/rush/pass_001/metrics.json")
    world.until(first := world.start("rush"), lambda: not first.alive)
    leading = world.start("rush")
    leading.turn("lead")
    training = world.start("rush", "rush-two", take_over=True)
    training.turn("local")
    world.until(world.start("nu"), lambda: world.seal(PassRef(1, "nu")) is not None)
    leading.turn("local")
    assert "rush-two holds sites/rush" in leading.said
    for _ in range(3):
        leading.turn("lead")
    assert world.seal(PassRef(1)) is not None, leading.said


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


def test_a_lane_with_a_term_that_nobody_can_read_is_taken_over_with_a_word_about_it(world: World) -> None:
    """Without `--take-over` it would stay shut for ever: no heartbeat can age what names no holder."""
    first = world.start("nu")
    first.turns()
    first.kill()
    path = layout.term("sites/nu", 2)
    world.lanes().write(path, b"no document", mode="create")
    waiting = world.start("nu")
    waiting.turns()
    assert "nobody can know who holds sites/nu" in waiting.said
    waiting.kill()
    lead, taker = world.start("rush"), world.start("nu", take_over=True)
    for _ in range(6):
        lead.turns()
        taker.turns()
    assert world.seal(PassRef(1, "nu")) is not None
    log = (taker.client.settings.runs_dir / "run.log").read_text(encoding="utf-8")
    assert f"{path} cannot be read and was passed over" in log
