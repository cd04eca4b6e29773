"""Pinned files: compared before a site joins, before each training, and when a pass is sealed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from stitch import layout
from stitch.client import Client, Setup
from stitch.config.pins import Pin
from stitch.errors import PinMismatch
from stitch.hooks.inline import FunctionRunner
from stitch.layout import Event, PassRef
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.wire import Join
from tests.unit.loops.actors import SITES, Actors, Loop, aggregate, train

AGREED = {"shared/schema.json": b'{"age": "years"}', "start.txt": b"a warm start"}
PINS = {
    "shared/schema.json": Pin("shared/schema.json", hashlib.sha256(AGREED["shared/schema.json"]).hexdigest()),
    "start": Pin("start.txt", hashlib.sha256(AGREED["start.txt"]).hexdigest(), "pass_0"),
}
SHA = {name: pin.sha256 for name, pin in PINS.items()}
ALWAYS = {"shared/schema.json": SHA["shared/schema.json"]}


class Run:
    """Three sites with the same pins; each has its own copy of the files."""

    def __init__(self, folder: Path) -> None:
        self.actors = Actors(folder)
        self.clients = {site: self.actors.client(site, num_passes=2, pins=PINS)[0] for site in SITES}
        for site in SITES:
            for path, data in AGREED.items():
                self.put(site, path, data)

    def put(self, site: str, path: str, data: bytes) -> None:
        file = self.actors.folder / site / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    def restart(self, site: str, hook: object = train) -> Client:
        """A new process, over the mirror of the last one."""
        before = self.clients[site]
        before.close()
        runner = FunctionRunner({"train": hook, "aggregate": aggregate})  # type: ignore[dict-item]  # a hook
        self.clients[site] = Client(before.settings, Setup(lanes=before.lanes, runner=runner))
        return self.clients[site]

    def until_global(self, number: int) -> None:
        loops: list[Loop] = [Lead(self.clients["rush"]), *(Local(client) for client in self.clients.values())]
        for turn in range(100):
            if self.paths(PassRef(number).seal):
                return
            loops[turn % len(loops)].step()
        raise AssertionError(f"global {number} does not come")

    def paths(self, prefix: str) -> list[str]:
        return [entry.key.removeprefix("trial/") for entry in self.actors.inner.list(f"trial/{prefix}")]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_join_says_what_the_site_holds_itself_to_and_every_seal_what_was_checked(run: Run) -> None:
    run.until_global(2)
    join = run.clients["nu"].documents.read(layout.join("nu", 1), Join)
    assert join is not None
    assert join.doc.pins == SHA
    lead = run.clients["rush"]
    seals = {ref: lead.passes.read_seal(ref) for ref in (PassRef(0), PassRef(1, "nu"), PassRef(2, "nu"))}
    assert {ref: stored and dict(stored.doc.pins) for ref, stored in seals.items()} == {
        PassRef(0): SHA,
        PassRef(1, "nu"): SHA,
        PassRef(2, "nu"): ALWAYS,
    }


@pytest.mark.parametrize("path", AGREED)
@pytest.mark.parametrize("data", [b"other bytes", None], ids=["other", "missing"])
def test_a_site_with_another_file_does_not_join(run: Run, path: str, data: bytes | None) -> None:
    """Scenarios 10 and 11: neither a join document nor a started event."""
    run.until_global(0)
    file = run.actors.folder / "nu" / path
    file.unlink()
    if data is not None:
        file.write_bytes(data)
    for _ in range(2):
        with pytest.raises(PinMismatch, match=file.name):
            Local(run.clients["nu"]).step()
    said = [path for path in run.paths("sites/nu/") if "/lease/" not in path]
    assert said == [layout.heartbeat("sites/nu")]


def test_the_lead_begins_no_run_on_another_file(run: Run) -> None:
    run.put("rush", "start.txt", b"colder")
    with pytest.raises(PinMismatch):
        Lead(run.clients["rush"]).step()
    assert run.paths("global/manifest") == []


def test_a_file_that_changes_between_two_rounds_stops_the_next_training(run: Run) -> None:
    run.until_global(1)
    run.put("nu", "shared/schema.json", b"{}")
    with pytest.raises(PinMismatch):
        Local(run.restart("nu")).step()
    assert run.paths("sites/nu/events/pass_002") == []


def steps(loop: Local) -> None:
    """More turns than a waiting site lets pass before it looks at everything."""
    for _ in range(20):
        loop.step()


def test_the_same_process_looks_again_before_each_training(run: Run) -> None:
    loop = Local(run.clients["nu"])
    run.until_global(0)
    assert loop.step().state == "acted"
    run.until_global(1)
    run.put("nu", "shared/schema.json", b"{}")
    with pytest.raises(PinMismatch):
        steps(loop)
    assert run.paths("sites/nu/events/pass_002") == []


def test_a_file_that_changes_while_a_pass_trains_fails_the_attempt(run: Run) -> None:
    run.until_global(0)

    def swap(*, out_path: Path, **given: object) -> dict[str, int]:
        out_path.write_text("a model", "utf-8")
        run.put("nu", "shared/schema.json", b"{}")
        return {"n_samples": 100}

    with pytest.raises(PinMismatch):
        Local(run.restart("nu", swap)).step()
    assert run.paths(PassRef(1, "nu").folder) == []
    failed = layout.event("nu", 1, name=Event.FAILED)
    assert run.paths("sites/nu/events/pass_001") == [failed, layout.event("nu", 1, name=Event.STARTED)]


def test_the_warm_start_is_of_no_matter_once_pass_1_is_over(run: Run) -> None:
    run.until_global(1)
    for site in SITES:
        run.put(site, "start.txt", b"tidied up")
        run.restart(site)
    run.until_global(2)
    assert run.paths("sites/nu/join/") == [layout.join("nu", 1)]


def test_pins_that_the_run_was_not_begun_with_are_named(run: Run, tmp_path: Path) -> None:
    run.until_global(0)
    other, _ = run.actors.client("nu", num_passes=2, pins={"start": PINS["start"]})
    with pytest.raises(Exception, match=r"other settings: pins\.shared/schema\.json\.sha256") as caught:
        Local(other).step()
    assert type(caught.value).__name__ == "ConfigError"
