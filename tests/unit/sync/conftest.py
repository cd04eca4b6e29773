"""One run in one store in memory, seen by machines that each have a mirror and a line of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from stitch.config.settings import Egress
from stitch.mirror import Mirror
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.sync.documents import Documents
from stitch.sync.lease import Identity, Lease
from stitch.sync.passes import Limits, Passes
from stitch.testing import FakeClock, FaultyStore, Plan, scripted

RUN = "trial"
LANE = "sites/nu"
INTERVAL_S = 120.0
LIMIT_S = 3 * INTERVAL_S


@dataclass
class Machine:
    """One process's view of the run."""

    world: World
    host: str
    lanes: Lanes
    mirror: Mirror
    documents: Documents
    passes: Passes
    clock: FakeClock

    def lease(
        self,
        *,
        take_over: bool = False,
        mirror: Mirror | None = None,
        tell: Callable[[str], None] = lambda _: None,
    ) -> Lease:
        return Lease(
            LANE,
            documents=self.documents,
            mirror=mirror or self.mirror,
            clock=self.clock,
            identity=Identity(RUN, self.host, INTERVAL_S),
            take_over=take_over,
            tell=tell,
        )


class World:
    """The store, its clock, and the folder of all machines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.store = MemoryStore(clock=self.clock)
        self.clocks: list[FakeClock] = []

    def machine(self, host: str, plan: Plan | None = None, *, min_n: int = 10) -> Machine:
        store = FaultyStore(self.store, plan or scripted({}))
        lanes = Lanes(RUN, dict.fromkeys(("global", "sites/nu", "sites/rush"), store), {})
        mirror = Mirror(self.folder / host / RUN)
        documents = Documents(lanes, mirror)
        limits = Limits(RUN, "bin", 1000, Egress(min_n=min_n))
        passes = Passes(lanes, mirror, documents=documents, limits=limits)
        clock = FakeClock()
        clock.jump(9999.0 * (1 + len(self.clocks)))  # law 6: no two hosts agree on the hour
        self.clocks.append(clock)
        return Machine(self, host, lanes, mirror, documents, passes, clock)

    def advance(self, seconds: float) -> None:
        for clock in (self.clock, *self.clocks):
            clock.advance(seconds)

    def put(self, path: str, data: bytes) -> None:
        """Somebody else writes a key."""
        Lanes(RUN, {"global": self.store, "sites/nu": self.store}, {}).write(path, data, mode="create")

    def content(self, path: str) -> bytes | None:
        got = Lanes(RUN, {"global": self.store, "sites/nu": self.store}, {}).read(path, limit=1 << 20)
        return got and got[1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
