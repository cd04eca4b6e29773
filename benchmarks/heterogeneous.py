"""What waiting costs a federation whose sites need minutes, hours or a day for one pass.

    uv run python benchmarks/heterogeneous.py [--sites 10] [--seeds 5] [--svg docs/asynchronous.svg]

Whole federations in this process: the real loops, mirrors and documents, a store in memory, a clock that
stands still until every actor waits, and then jumps to whoever wakes first. So a simulated week takes
seconds, and the same seed gives the same week. What is drawn, for each seed:

- times: a site's usual training time is 20 min x exp(1.2 z), a pass of it that times exp(0.4 z), z normal:
  a long tail, with sites ten times as slow as the median;
- data: logistic regression on 16 features. Each site has a shift and coefficients of its own, and 150 to
  3,000 rows: a model of the quick sites alone is not the best one for all.

The three policies see the same draws. One row each: hours until the pooled loss of all sites has come a given
part of the way from the starting model to the best one (Newton's, on all rows at once), median over the seeds
[min-max]; "never" where 150 globals or a week did not suffice.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import math
import statistics
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stitch.client import Client, Setup
from stitch.config.hooks import Hooks
from stitch.config.policy import Policy
from stitch.config.settings import Egress, Settings
from stitch.config.weighting import Weighting
from stitch.hooks.inline import FunctionRunner
from stitch.layout import GLOBAL, pass_name, site_lane
from stitch.loops import Lead, Local
from stitch.store.lanes import Lanes
from stitch.store.memory import MemoryStore
from stitch.testing import FakeClock
from stitch.testing.machine import SteppedHeart

FEATURES = 16
POLL_S = 120.0
MEDIAN_S = 20 * 60.0
PARTS = (0.6, 0.8, 0.9)
MOST_HOURS, MOST_GLOBALS = 24.0 * 7, 150
POLICIES = {
    "all_expected": Policy(),
    "quorum": Policy(
        "quorum", min_participants=5, open_timeout=3600.0, collect_timeout=3600.0, retry_budget=10**6
    ),
    "buffered": Policy("buffered", buffer_size=3, max_staleness=20, weighting=Weighting("polynomial", 0.5)),
}
COLORS = {"all_expected": "#8b1a1a", "quorum": "#b8860b", "buffered": "#1a5f8b"}

Array = NDArray[np.float64]


class Baton:
    """Threads of which one runs at a time: the one whose time has come; then the clock has that time."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self._waiting: list[tuple[float, int, threading.Semaphore]] = []
        self._order = itertools.count()
        self._idle = threading.Semaphore(0)

    def start(self, work: Callable[[], None]) -> None:
        """Begin a thread, as soon as `run` gives it the baton."""
        turn = self._queue(0.0)

        def act() -> None:
            turn.acquire()
            try:
                work()
            finally:
                self._idle.release()

        threading.Thread(target=act, daemon=True).start()

    def pause(self, seconds: float) -> None:
        """Give the baton away, until so much time has passed."""
        turn = self._queue(seconds)
        self._idle.release()
        turn.acquire()

    def run(self) -> None:
        """Until every thread has ended."""
        while self._waiting:
            at, _, turn = heapq.heappop(self._waiting)
            self.clock.advance(max(0.0, at - self.clock.monotonic()))
            turn.release()
            self._idle.acquire()

    def _queue(self, seconds: float) -> threading.Semaphore:
        turn = threading.Semaphore(0)
        heapq.heappush(self._waiting, (self.clock.monotonic() + seconds, next(self._order), turn))
        return turn


@dataclass(frozen=True)
class Site:
    """Its rows, and how long it usually trains."""

    name: str
    x: Array
    y: Array
    seconds: float


@dataclass
class World:
    """What a seed draws: sites, and the losses that any policy is measured by."""

    sites: list[Site]
    start: float = 0.0
    best: float = 0.0

    @classmethod
    def drawn(cls, seed: int, count: int) -> World:
        chance = np.random.default_rng(seed)
        truth = chance.normal(size=FEATURES)
        sites = []
        for number in range(count):
            rows = int(150 * 20 ** chance.random())
            x = chance.normal(size=(rows, FEATURES)) + chance.normal(scale=0.5, size=FEATURES)
            own = truth + chance.normal(scale=0.2, size=FEATURES)
            y = (chance.random(rows) < 1 / (1 + np.exp(-(x @ own) / 2))).astype(float)
            sites.append(Site(f"s{number:02d}", x, y, MEDIAN_S * math.exp(1.2 * chance.normal())))
        world = cls(sites)
        world.start, world.best = world.loss(np.zeros(FEATURES)), world.loss(world.newton())
        return world

    def loss(self, w: Array) -> float:
        """Of all rows of all sites."""
        losses = [float(np.logaddexp(0, -(2 * site.y - 1) * (site.x @ w)).sum()) for site in self.sites]
        return sum(losses) / sum(len(site.y) for site in self.sites)

    def newton(self) -> Array:
        x, y = np.vstack([site.x for site in self.sites]), np.hstack([site.y for site in self.sites])
        w = np.zeros(FEATURES)
        for _ in range(20):
            p = 1 / (1 + np.exp(-(x @ w)))
            w += np.linalg.solve((x.T * (p * (1 - p))) @ x + 1e-9 * np.eye(FEATURES), x.T @ (y - p))
        return w

    def way(self, loss: float) -> float:
        """How far a loss is on the way from the starting model to the best one: 0 to 1."""
        return (self.start - loss) / (self.start - self.best)


@dataclass
class Course:
    """What became of one federation: hours and the way, at each global; and what the globals were made of."""

    points: list[tuple[float, float]] = field(default_factory=list)
    inputs: int = 0
    behind: int = 0

    def hours(self, part: float) -> float:
        return next((hours for hours, way in self.points if way >= part), math.inf)


class Simulation:
    """One federation under one policy."""

    def __init__(self, world: World, policy: Policy, *, seed: int, folder: Path) -> None:
        self.world = world
        self.course = Course()
        self._policy = policy
        self._folder = folder
        self._clock = FakeClock()
        self._baton = Baton(self._clock)
        self._chances = {site.name: np.random.default_rng([seed, n]) for n, site in enumerate(world.sites)}
        self._store = MemoryStore(clock=self._clock)

    def run(self) -> Course:
        """Until the last part of the way is made, or time is up."""
        for site in self.world.sites:
            client = self._client(site)
            loops: list[Lead | Local] = [Local(client)]
            loops += [Lead(client)] if client.settings.is_lead else []
            for loop in loops:
                self._baton.start(partial(self._drive, loop))
        self._baton.run()
        return self.course

    def _drive(self, loop: Lead | Local) -> None:
        while True:
            turn = loop.step()
            if turn.state == "done":
                return
            self._baton.pause(1.0 if turn.state == "acted" else POLL_S)

    def _client(self, site: Site) -> Client:
        names = tuple(one.name for one in self.world.sites)
        settings = Settings(
            root=self._folder / site.name,
            run_id="bench",
            lead=names[0],
            sites=names,
            site=site.name,
            num_passes=5000,
            data_dir=self._folder,
            output_dir=self._folder / site.name / "output",
            heartbeat_minutes=1e6,  # nobody's lane is contested, and no heart beats
            root_seed=1,
            policy=self._policy,
            hooks=Hooks(model_ext="bin"),
            egress=Egress(min_n=0),
        )
        lanes = Lanes("bench", dict.fromkeys((GLOBAL, *map(site_lane, names)), self._store), {})
        heart = partial(SteppedHeart, clock=self._clock, hearts=[])
        runner = FunctionRunner({"train": partial_train(self, site), "aggregate": self._aggregate_hook()})
        setup = Setup(clock=self._clock, lanes=lanes, runner=runner, heart=heart, readers=1)
        return Client(settings, setup)

    def train(self, site: Site, base: Path | None, *, out: Path) -> dict[str, float]:
        """Five steps of gradient descent, and the time that they take."""
        if base is None:
            np.zeros(FEATURES).tofile(out)
            return {"n_samples": len(site.y)}
        w = np.fromfile(base)
        for _ in range(5):
            w -= 0.1 * site.x.T @ (1 / (1 + np.exp(-(site.x @ w))) - site.y) / len(site.y)
        self._baton.pause(site.seconds * math.exp(0.4 * self._chances[site.name].normal()))
        w.tofile(out)
        return {"n_samples": len(site.y)}

    def aggregate(self, site_dir: Path, bases_dir: Path, *, current: Path, out: Path) -> dict[str, float]:
        """Move by every delta from its own base; then look how far the way is."""

        moved, total = np.zeros(FEATURES), 0
        for folder in sorted(site_dir.glob("*/pass_*")):
            seal = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
            said = json.loads((folder / "round.json").read_text(encoding="utf-8"))
            base = np.fromfile(bases_dir / pass_name(said["base_pass"]) / "model.bin")
            moved += seal["n_samples"] * said["weight"] * (np.fromfile(folder / "model.bin") - base)
            total += seal["n_samples"]
            self.course.inputs += 1
            self.course.behind += said["staleness"]
        w = np.fromfile(current) + moved / total
        w.tofile(out)
        hours, way = self._clock.monotonic() / 3600, self.world.way(self.world.loss(w))
        self.course.points.append((hours, way))
        over = way >= PARTS[-1] or hours > MOST_HOURS or len(self.course.points) >= MOST_GLOBALS
        return {"n_samples": total, "should_stop": over}

    def _aggregate_hook(self) -> Callable[..., dict[str, float]]:
        def aggregate(site_dir: Path, out_path: Path, global_path: Path, bases_dir: Path) -> dict[str, float]:
            return self.aggregate(site_dir, bases_dir, current=global_path, out=out_path)

        return aggregate


def partial_train(simulation: Simulation, site: Site) -> Callable[..., dict[str, float]]:
    """The train hook of one site."""

    def train(global_path: Path | None, out_path: Path, data_dir: Path) -> dict[str, float]:
        return simulation.train(site, global_path, out=out_path)

    return train


def measure(seeds: Sequence[int], count: int) -> dict[str, list[Course]]:
    """Every policy on every seed's world."""
    found: dict[str, list[Course]] = {name: [] for name in POLICIES}
    for seed in seeds:
        world = World.drawn(seed, count)
        for name, policy in POLICIES.items():
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                found[name].append(Simulation(world, policy, seed=seed, folder=Path(folder)).run())
    return found


def spread(values: Sequence[float]) -> str:
    """Median and range; "never" where it was not reached."""
    low, middle, high = (
        "never" if math.isinf(value) else f"{value:.1f}"
        for value in (min(values), statistics.median(values), max(values))
    )
    return f"{middle} [{low}-{high}]"


def table(found: dict[str, list[Course]]) -> str:
    heads = [f"hours to {part:.0%}" for part in PARTS]
    lines = [f"| policy | globals | passes a global | mean staleness | {' | '.join(heads)} |"]
    lines.append("|" + "---|" * (4 + len(PARTS)))
    for name, courses in found.items():
        globals_ = statistics.median(len(one.points) for one in courses)
        inputs = sum(one.inputs for one in courses)
        each = inputs / sum(len(one.points) for one in courses)
        behind = sum(one.behind for one in courses) / inputs
        hours = " | ".join(spread([one.hours(part) for one in courses]) for part in PARTS)
        lines.append(f"| `{name}` | {globals_:.0f} | {each:.1f} | {behind:.1f} | {hours} |")
    return "\n".join(lines)


def picture(courses: dict[str, Course]) -> str:
    """The way against the hours, of one seed, as SVG; of the slowest policy the beginning alone."""
    width, height, left, bottom = 720, 320, 52, 40
    last = 2 * sorted(course.points[-1][0] for course in courses.values())[-2]

    def place(hours: float, way: float) -> str:
        x = left + (width - left - 12) * hours / last
        return f"{x:.1f},{(height - bottom) - (height - bottom - 12) * max(0.0, way):.1f}"

    box = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {box}>']
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for way in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = place(0, way).partition(",")[2]
        parts.append(f'<line x1="{left}" x2="{width - 12}" y1="{y}" y2="{y}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{way:.0%}</text>')
    for tick in range(6):
        x = place(last * tick / 5, 0).partition(",")[0]
        parts.append(f'<text x="{x}" y="{height - 22}" text-anchor="middle">{last * tick / 5:.0f}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">hours</text>')
    for row, (name, course) in enumerate(courses.items()):
        line = " ".join(place(hours, way) for hours, way in [(0.0, 0.0), *course.points] if hours <= last)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
        at = height - bottom - 54 + 18 * row
        parts.append(f'<text x="{width - 130}" y="{at}" fill="{COLORS[name]}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=5, help="seeds 1 to this")
    parser.add_argument("--svg", type=Path, help="where to draw the first seed's course")
    chosen = parser.parse_args()
    found = measure(range(1, chosen.seeds + 1), chosen.sites)
    print(table(found))
    if chosen.svg:
        first = {name: courses[0] for name, courses in found.items()}
        chosen.svg.write_text(picture(first), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
