"""The end of a run reaches whoever works for it, within a poll: a hook, or the hashing of the data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stitch import layout
from stitch.client import Client
from stitch.client.commitment import Hashes
from stitch.client.operator import change_roster, end_run
from stitch.config.settings import Integrity
from stitch.hooks.call import HookCall, HookName, HookResult, HookStopped
from stitch.loops import Lead, Local
from stitch.loops.central import Central
from stitch.rounds import Turn
from tests.unit.loops.actors import Actors


@dataclass
class Endless:
    """Runs until it is stopped; tells when it has begun, and writes half a model."""

    running: threading.Event
    hook: HookName = "train"

    def run(
        self, call: HookCall, *, stop: threading.Event | None = None, on_line: object = None
    ) -> HookResult:
        assert call.hook == self.hook
        assert call.out_path is not None
        call.out_path.parent.mkdir(parents=True, exist_ok=True)
        call.out_path.write_bytes(b"half a mod")
        assert stop is not None
        self.running.set()
        _until_set(stop)
        raise HookStopped

    def end_survivor(self, work_dir: Path) -> bool:
        return False


def _until_set(stop: threading.Event) -> None:
    """Looks as a runner does: `wait` of an event that has two causes sees one of them."""
    for _ in range(3000):
        if stop.is_set():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it was not ended")


class World:
    """A lead that began a run, a site at work on pass 1 in a thread, and what its turn came to."""

    def __init__(self, folder: Path) -> None:
        actors = Actors(folder)
        self.lead, _ = actors.client("rush")
        self.site, _ = actors.client("nu", poll_seconds=0.02)
        self.local = Local(self.site)
        self.running = threading.Event()
        self.turns: list[Turn] = []

    def work(self) -> threading.Thread:
        for name in ("rush", "nu"):
            (self.lead.settings.root.parent / name / "data" / "vitals.csv").write_bytes(b"id,hr")
        assert Lead(self.lead).step().state == "acted"
        worker = threading.Thread(target=lambda: self.turns.append(self.local.step()))
        worker.start()
        assert self.running.wait(30)
        return worker

    def end(self, worker: threading.Thread) -> None:
        end_run(self.lead, "stop now")
        worker.join(30)
        assert [turn.why for turn in self.turns] == ["the run was ended while a hook worked"]

    def staged(self) -> list[Path]:
        return [path for stage in self.site.mirror.stages(self.site.lane) for path in [stage.folder]]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    for client in (world.lead, world.site):
        client.close()


def committing(client: Client, *, leaves: str | None = None) -> None:
    hooks = replace(client.settings.hooks, leaves=leaves)
    client.settings = replace(client.settings, integrity=Integrity(commit=True), hooks=hooks)


def test_a_running_hook_is_ended_within_a_poll_and_its_half_model_is_gone(world: World) -> None:
    """A hook may run for hours; nobody needs what it would make."""
    world.site.runner = Endless(world.running)
    worker = world.work()
    assert len(world.staged()) == 1
    world.end(worker)
    assert world.staged() == []
    assert world.local.step().state == "done"


def test_a_leaves_hook_is_ended_too(world: World) -> None:
    committing(world.site, leaves="code/leaves.py:leaves")
    world.site.runner = Endless(world.running, "leaves")
    world.end(world.work())
    assert world.staged() == []
    assert world.local.step().state == "done"


def test_the_hashing_of_the_data_is_ended_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    committing(world.site)
    monkeypatch.setattr(Hashes, "_read", _reading(world.running, Hashes._read))
    world.end(world.work())
    assert world.local.step().state == "done"
    assert not world.site.mirror.path("sites/nu/events/pass_001.started.json").exists()


def _reading(running: threading.Event, read: Callable[[Hashes, Path], str]) -> Callable[[Hashes, Path], str]:
    """Reading a cohort that takes hours: it goes on once the end was seen."""

    def slow(hashes: Hashes, path: Path) -> str:
        running.set()
        _until_set(hashes._stop)
        return read(hashes, path)

    return slow


def test_the_leads_own_score_is_not_lost_to_the_end_of_its_training(tmp_path: Path) -> None:
    """Three loops of one process: what the local one leaves behind is not all that lies in its lane."""
    lead, _ = Actors(tmp_path).client("rush", poll_seconds=0.02)
    lead.settings = replace(lead.settings, hooks=replace(lead.settings.hooks, evaluate_central="code/e.py:e"))
    local, trained, inner = Local(lead), Endless(threading.Event()), lead.runner

    class Both(Endless):
        def run(
            self, call: HookCall, *, stop: threading.Event | None = None, on_line: object = None
        ) -> HookResult:
            if call.hook == "evaluate_central":
                assert local.step().why == "the run was ended while a hook worked"
                (call.work_dir / "result.json").write_bytes(b"{}")  # as its child does
                return HookResult(50, {"auroc": 0.7}, False, 0.1)
            if call.optional["pass_id"] == 0:
                return inner.run(call, stop=stop)
            end_run(lead, "stop now")
            return trained.run(call, stop=stop)

    lead.runner = Both(threading.Event())
    (tmp_path / "rush" / "data" / "vitals.csv").write_bytes(b"id,hr")
    assert Lead(lead).step().why == "published global 0"
    lead.fetch_global(0)
    assert Central(lead).step().why == "looked at global 0"
    assert lead.documents.exists(layout.central(0))
    assert lead.mirror.stages(lead.lane) == []
    lead.close()


@pytest.mark.parametrize("change", ["pause", "drop"])
def test_a_site_that_is_paused_or_dropped_finishes_the_pass_it_trains(world: World, change: str) -> None:
    """Only the end of the run ends a hook: a pause may be short, and what was trained can still count."""
    finish = threading.Event()

    class Slow(Endless):
        def run(
            self, call: HookCall, *, stop: threading.Event | None = None, on_line: object = None
        ) -> HookResult:
            self.running.set()
            assert finish.wait(30)
            assert call.out_path is not None
            call.out_path.write_bytes(b"a model")
            assert stop is not None
            assert not stop.is_set()
            return HookResult(100, {}, False, 0.0)

    world.site.runner = Slow(world.running)
    worker = world.work()
    change_roster(world.lead, change, site="nu")  # type: ignore[arg-type]  # one of Change
    worker.join(0.2)
    finish.set()
    worker.join(30)
    assert [turn.why for turn in world.turns] == ["published pass 1"]
