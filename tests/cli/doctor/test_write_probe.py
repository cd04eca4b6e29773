"""The write probe: it proves a permission and disturbs nobody (law 10)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from stitch.cli.checks import Check
from stitch.cli.checkup import examine
from stitch.clock import SystemClock
from stitch.config import Settings
from stitch.errors import StoreDenied
from stitch.store.base import Entry, Mode, Progress
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.wire import Heartbeat

BEAT = "icu/sites/nu/events/heartbeat.json"

Project = Callable[..., Path]


def found(root: Path) -> list[Check]:
    return examine(root, {}, clock=SystemClock())


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def beat(root: Path, state: str = "training", *, age_s: float = 0, interval_s: float = 60) -> Path:
    document = Heartbeat.make(
        run_id="icu",
        lane="sites/nu",
        nonce="n",
        term=1,
        host="elsewhere",
        beat=7,
        interval_s=interval_s,
        state=state,
        pass_id=3,
    )
    file = root.parent / "store" / BEAT
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(document.dump())
    then = file.stat().st_mtime - age_s
    os.utime(file, (then, then))
    return file


def test_a_first_probe_leaves_a_beat_of_nobody_and_nothing_else(project: Project) -> None:
    root = project()
    store = root.parent / "store"
    found(root)
    assert [file.relative_to(store).as_posix() for file in store.rglob("*.json")] == [BEAT]
    left = Heartbeat.parse((store / BEAT).read_bytes(), source=BEAT)
    assert (left.term, left.beat, left.state) == (0, 0, "released")


def test_a_live_process_is_left_alone(project: Project) -> None:
    root = project()
    file = beat(root, age_s=30)
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    check = named(found(root), "store sites/nu")
    assert "in use by elsewhere" in check.finding
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


def test_a_dead_process_is_not_made_to_look_alive(project: Project) -> None:
    root = project()
    file = beat(root, age_s=600)
    assert "written" in named(found(root), "store sites/nu").finding
    after = Heartbeat.parse(file.read_bytes(), source=BEAT)
    assert (after.state, after.nonce, after.beat) == ("released", "n", 7)


def test_a_released_beat_is_put_back_as_it_is(project: Project) -> None:
    root = project()
    file = beat(root, "released", age_s=5)
    before = file.read_bytes()
    assert "written" in named(found(root), "store sites/nu").finding
    assert file.read_bytes() == before


def test_a_synced_store_keeps_the_beat_as_it_is(project: Project) -> None:
    root = project("[store]\nsynced = true\n")
    file = beat(root, age_s=600)
    before = file.read_bytes()
    assert "written" in named(found(root), "store sites/nu").finding
    assert file.read_bytes() == before


class ReadOnly(MemoryStore):
    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        del src, mode, digest, progress
        raise StoreDenied(f"{key}: the token may not write")


def test_a_token_that_may_not_write_fails_where_it_must_write(project: Project) -> None:
    store = ReadOnly()

    def lanes(settings: Settings, _: object) -> Lanes:
        stores = {"global": store, f"sites/{settings.site}": store}
        return Lanes(settings.run_id, stores, {})

    checks = examine(project(), {}, clock=SystemClock(), lanes_of=lanes)
    assert named(checks, "store global").state == "ok"
    own = named(checks, "store sites/nu")
    assert (own.state, own.exit_code) == ("fail", StoreDenied.exit_code)
