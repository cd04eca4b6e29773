"""A whole federation in this process: real loops, mirrors and a store, without threads or waiting.

Every turn is taken when the caller says so, hearts beat when time is moved, and the hooks are
functions that add a known number. So a test can drive any order of events, down to single requests,
and the same order gives the same history.

Example:
    federation = Federation(folder, num_passes=2)
    for site in federation.sites:
        federation.start(site)
    federation.run()
    assert federation.value() == federation.expected_value()
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stitch import layout
from stitch.config.hooks import Hooks
from stitch.config.settings import Settings
from stitch.layout import PassRef
from stitch.store.base import Store
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.testing.clocks import FakeClock
from stitch.testing.faulty import Call, Fault, Plan
from stitch.testing.lines import Record
from stitch.testing.processes import Before, Delivery, Process
from stitch.wire import Seal

RUN_ID = "trial"

EXT = "bin"
"""The models' extension. A model is five doubles: four times its value, then a number of its own."""

INTERVAL_S = 120.0
"""Seconds between two beats of a lane."""


@dataclass(frozen=True, slots=True)
class AddOne:
    """Hooks whose result is known: the n-th site adds n to the base, the lead takes the weighted mean.

    No two models have the same bytes, also not of the same pass: as with real training.
    """

    sites: tuple[str, ...]
    stop_at: int | None = None

    def samples(self, site: str) -> int:
        """A site's `n_samples`."""
        return 100 * (1 + self.sites.index(site))

    def step(self, site: str) -> float:
        """What a site's training adds to its base."""
        return 1.0 + self.sites.index(site)

    def mean(self, values: Mapping[str, float]) -> float:
        """The mean, weighted by samples."""
        total = sum(self.samples(site) for site in values)
        return sum(self.samples(site) * values[site] for site in sorted(values)) / total

    def fold(self, onto: float, deltas: Mapping[str, float], *, weights: Mapping[str, float]) -> float:
        """The global that is replaced plus the mean of weighted deltas; the weights do not divide it."""
        total = sum(self.samples(site) for site in deltas)
        moved = sum(self.samples(site) * weights[site] * deltas[site] for site in sorted(deltas))
        return onto + moved / total

    def value(self, final_pass: int) -> float:
        """What global `final_pass` holds in a run without faults."""
        value = 0.0
        for _ in range(final_pass):
            value = self.mean({site: value + self.step(site) for site in self.sites})
        return value


class Federation:
    """Processes of several sites on several machines, around one store.

    Args:
        folder: takes the mirrors, one folder a machine and site; a RAM disk makes it quick.
        store: what they share; by default in memory, with `self.clock`.
        sites: the roster; the first one leads.
        num_passes: passes beyond pass 0.
        stop_at: the aggregate hook ends the run with this pass.
        max_retries: tries of each request after the first one.
        plan: gives each new process the faults of its requests.
        before: called before each request with the process, its verb and key, and in each hook with
            its name and the pass: anything may happen there, turns of other processes included.

    Attributes:
        clock: the store's clock.
        record: every write that reached the store.
        processes: all that were ever started.
        deliveries: what hooks were given.
        changes: settings of processes to come that differ from the usual ones, such as `policy`.
        stack: the processes whose turns are under way, the innermost last.
        scores: whether sites have an evaluate hook, which scores a global by its value.
        central: whether the lead has one more, for its validation set; it does the same.
    """

    def __init__(
        self,
        folder: Path,
        *,
        store: Store | None = None,
        sites: tuple[str, ...] = ("rush", "nu", "uchicago"),
        num_passes: int = 2,
        stop_at: int | None = None,
        max_retries: int = 0,
        plan: Callable[[Process], Plan] | None = None,
        before: Before | None = None,
    ) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.record = Record(store or MemoryStore(clock=self.clock))
        self.hooks = AddOne(sites, stop_at)
        self.sites = sites
        self.num_passes = num_passes
        self.changes: dict[str, Any] = {}
        self.scores = self.central = False
        self.max_retries = max_retries
        self.plan = plan or _no_faults
        self.before = before or _nothing
        self.processes: list[Process] = []
        self.deliveries: list[Delivery] = []
        self.stack: list[Process] = []
        self._clocks: dict[str, FakeClock] = {}
        self._models = 0

    @property
    def final_pass(self) -> int:
        """The pass that the run should end with."""
        stop_at = self.hooks.stop_at
        return self.num_passes if stop_at is None else min(stop_at, self.num_passes)

    def clock_of(self, host: str) -> FakeClock:
        """A machine's clocks; no two machines agree on the hour (law 6)."""
        if host not in self._clocks:
            self._clocks[host] = FakeClock()
            self._clocks[host].jump(3571.0 * (len(self._clocks) - 2))
        return self._clocks[host]

    def settings(self, site: str, host: str = "") -> Settings:
        """A site's settings on one of its machines, by default on its own."""
        root = self.folder / (host or site) / site
        usual = Settings(
            root=root,
            run_id=RUN_ID,
            lead=self.sites[0],
            sites=self.sites,
            site=site,
            num_passes=self.num_passes,
            data_dir=root / "data",
            output_dir=root / "output",
            heartbeat_minutes=INTERVAL_S / 60,
            root_seed=7,
            hooks=Hooks(
                model_ext=EXT,
                evaluate="code/evaluate.py:evaluate" if self.scores else None,
                evaluate_central="code/evaluate.py:evaluate" if self.central else None,
            ),
        )
        return replace(usual, **self.changes)

    def start(self, site: str, host: str = "", *, take_over: bool = False, one_turn: bool = False) -> Process:
        """Start a process of a site, by default on its own machine."""
        settings = self.settings(site, host)
        process = Process(self, settings, host=host or site, take_over=take_over, one_turn=one_turn)
        self.processes.append(process)
        return process

    def scheduled(self, site: str) -> Process:
        """What a scheduler starts: a process that takes one turn of each loop, and has ended."""
        process = self.start(site, one_turn=True)
        process.turns()
        process.interrupt()
        return process

    def alive(self, site: str = "") -> list[Process]:
        """The processes that run, of one site or of all."""
        return [one for one in self.processes if one.alive and site in ("", one.site)]

    def advance(self, seconds: float) -> None:
        """Let time pass everywhere; hearts beat that are due and not frozen."""
        while seconds > 0:
            part = min(seconds, INTERVAL_S / 4)
            seconds -= part
            for clock in (self.clock, *self._clocks.values()):
                clock.advance(part)
            for process in self.alive():
                process.beat()

    def run(self, *, turns: int = 500) -> None:
        """Turn after turn of everybody, until every process has ended.

        Raises:
            AssertionError: they did not end within so many turns.
        """
        for _ in range(turns):
            if not self.alive():
                return
            acted = [turn for one in self.alive() for turn in one.turns() if turn and turn.state == "acted"]
            self.advance(1.0 if acted else 30.0)
        waits = "; ".join(f"{one}: {one.said}" for one in self.alive())
        raise AssertionError(f"the federation does not come to an end: {waits}")

    # -- what is in the store ----------------------------------------------------------------------

    def lanes(self, store: Store | None = None) -> Lanes:
        """The lanes in one store, by default without any process's faults."""
        names = (layout.GLOBAL, *(layout.site_lane(site) for site in self.sites))
        return Lanes(RUN_ID, dict.fromkeys(names, store or self.record.inner), {})

    def paths(self) -> list[str]:
        """Every key of the run in the store, relative to the run."""
        return [entry.key.removeprefix(f"{RUN_ID}/") for entry in self.record.inner.list(f"{RUN_ID}/")]

    def read(self, path: str) -> bytes | None:
        """The bytes of a key."""
        got = self.lanes().read(path, limit=1 << 20)
        return got and got[1]

    def seal(self, ref: PassRef) -> Seal | None:
        """The seal of a pass."""
        data = self.read(ref.seal)
        return None if data is None else Seal.parse(data, source=ref.seal)

    def value(self) -> float:
        """What the final global holds.

        Raises:
            AssertionError: it is not there whole.
        """
        ref = PassRef(self.final_pass)
        seal = self.seal(ref)
        data = self.read(ref.model(seal.model_sha256, EXT)) if seal else None
        if data is None:
            raise AssertionError(f"there is no whole global {ref.number}")
        return _value(data)

    def expected_value(self) -> float:
        """What it holds in a run without faults."""
        return self.hooks.value(self.final_pass)

    # -- the hooks, called by a process --------------------------------------------------------------

    def train(self, site: str, base: Path | None, *, out: Path) -> dict[str, Any]:
        """Train: the base plus the site's number."""
        value = 0.0 if base is None else _value(base.read_bytes()) + self.hooks.step(site)
        self._write(out, value)
        return {"n_samples": self.hooks.samples(site), "value": value}

    def aggregate(self, models: Mapping[str, Path], pass_id: int, *, out: Path) -> dict[str, Any]:
        """Aggregate: the weighted mean."""
        value = self.hooks.mean({site: _value(path.read_bytes()) for site, path in models.items()})
        self._write(out, value)
        return {"value": value, "should_stop": pass_id == self.hooks.stop_at}

    def evaluate(self, site: str, model: Path) -> dict[str, Any]:
        """Evaluate: the model's value less what the site adds, on half of its samples."""
        score = _value(model.read_bytes()) - self.hooks.step(site)
        return {"n_samples": self.hooks.samples(site) // 2, "score": score}

    def aggregate_stale(
        self, site_dir: Path, pass_id: int, *, bases_dir: Path, onto: Path, out: Path
    ) -> dict[str, Any]:
        """Aggregate a buffered round: every delta against its own base, weighted as the round says."""
        deltas, weights = {}, {}
        for path in sorted(site_dir.glob("*/pass_*/model.*")):
            said = json.loads((path.parent / "round.json").read_text("utf-8"))
            base = bases_dir / layout.pass_name(said["base_pass"]) / path.name
            deltas[said["site"]] = _value(path.read_bytes()) - _value(base.read_bytes())
            weights[said["site"]] = said["weight"]
        value = self.hooks.fold(_value(onto.read_bytes()), deltas, weights=weights)
        self._write(out, value)
        return {"value": value, "should_stop": pass_id == self.hooks.stop_at}

    def _write(self, path: Path, value: float) -> None:
        self._models += 1
        path.write_bytes(array("d", [value] * 4 + [float(self._models)]).tobytes())


def _value(model: bytes) -> float:
    return array("d", model)[0]


def _no_faults(process: Process) -> Plan:  # noqa: ARG001  the same for all
    def plan(call: Call) -> Fault | None:  # noqa: ARG001  no call is broken
        return None

    return plan


def _nothing(process: Process, what: str, *, key: str) -> None:
    """The default of `before`."""
