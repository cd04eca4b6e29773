"""Random misfortune for a whole federation, the same for the same seed; then calm, until it ends."""

from __future__ import annotations

import random
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from stitch.testing.faulty import Call, Crashed, Fault, Plan
from stitch.testing.federation import INTERVAL_S, Federation
from stitch.testing.processes import Process

ROSTER = ("rush", "nu", "uchicago")
LIMIT_S = 3 * INTERVAL_S
MOST_PROCESSES = 3
"""Of one site at once: two on one machine, and one on another."""

RATES: dict[Fault, float] = {
    "lose_request": 0.02,
    "lose_reply": 0.02,
    "unavailable": 0.02,
    "stale_list": 0.02,
    "flip": 0.1,
    "crash_before": 0.004,
    "crash_after": 0.004,
}
DISK_CRASH = 0.004
TURN_INSIDE = 0.03
HOOK_FAILURE = 0.05


class HookTrouble(Exception):
    """A hook of the user fails."""


class Chaos:
    """One history.

    Args:
        seed: decides everything.
        folder: takes the mirrors.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        sites = ROSTER[: self.chance.choice((1, 2, 2, 3, 3))]
        num_passes = self.chance.choice((0, 1, 2, 2, 3))
        self.federation = Federation(
            folder,
            sites=sites,
            num_passes=num_passes,
            stop_at=self.chance.choice((None, None, max(1, num_passes - 1))),
            max_retries=self.chance.choice((0, 0, 2)),
            plan=self._plan,
            before=self._before,
        )
        self.wild = True
        self.left = self.chance.randint(50, 250)
        self.trouble = self.chance.randint(10, 60)
        self.trace: list[str] = []
        self.wiped: list[tuple[str, int]] = []
        self.rates = {fault: rate * self.chance.choice((0, 0.5, 1, 2)) for fault, rate in RATES.items()}
        self.inside = TURN_INSIDE * self.chance.choice((0, 1, 1, 3))
        self.rivalry = self.chance.choice((0.05, 0.5, 0.9))

    def run(self) -> Federation:
        """The whole history."""
        with disk_watched(self):
            for site in self.federation.sites:
                if self.chance.random() < 0.9:
                    self.start(site)
                if self.chance.random() < self.rivalry:
                    self.start(site, f"{site}-two")
            while self.left > 0:
                self.act()
            self.calm_down()
        return self.federation

    def say(self, text: str) -> None:
        """A line of the history."""
        depth = len(self.federation.stack)
        self.trace.append(f"{self.federation.clock.monotonic():9.1f} {'  ' * depth}{text}")

    # -- wild --------------------------------------------------------------------------------------

    def act(self) -> None:
        """Whatever happens next: mostly turns."""
        if self.left <= 0:
            return
        self.left -= 1
        actions = {
            self.take_turn: 70,
            self.pass_time: 12,
            self.start_somewhere: 8,
            self.kill_one: 3,
            self.interrupt_one: 2,
            self.wipe_one: 2,
            self.set_a_clock: 2,
        }
        [action] = self.chance.choices(list(actions), list(actions.values()))
        action()

    def take_turn(self) -> None:
        """A turn of some loop that is not under way."""
        free = [(p, name) for p in self.federation.alive() for name in p.loops if p.can_turn(name)]
        if free:
            process, name = self.chance.choice(free)
            self.say(f"{process} {name} ...")
            process.turn(name)
            self.say(f"{process} {name}: {process.said} {'' if process.alive else '(gone)'}")

    def pass_time(self) -> None:
        """Seconds or minutes; sometimes longer than a lease lasts."""
        self.federation.advance(self.chance.choice((1, 30, 60, INTERVAL_S, LIMIT_S * 1.1)))

    def start_somewhere(self, site: str = "") -> None:
        """A process of a site that has none; sometimes a second one, here or on another machine."""
        site = site or self.chance.choice(self.federation.sites)
        there = len(self.federation.alive(site))
        if there == 0 or (there < MOST_PROCESSES and self.chance.random() < self.rivalry):
            self.start(site, self.chance.choice(("", f"{site}-two")))

    def start(self, site: str, host: str = "") -> None:
        """Start a process, now and then with --take-over."""
        process = self.federation.start(site, host, take_over=self.chance.random() < self.rivalry)
        self.say(f"{process} starts")

    def kill_one(self) -> None:
        """SIGKILL, also in the middle of a request or a hook."""
        if alive := self.federation.alive():
            process = self.chance.choice(alive)
            process.kill()
            self.say(f"{process} is killed")

    def interrupt_one(self) -> None:
        """Ctrl-C."""
        if alive := self.federation.alive():
            process = self.chance.choice(alive)
            self.say(f"{process} is interrupted")
            process.interrupt()

    def wipe_one(self) -> None:
        """Remove the mirror of a machine where nobody works."""
        site = self.chance.choice(self.federation.sites)
        host = self.chance.choice((site, f"{site}-two"))
        if not any(process.host == host for process in self.federation.alive(site)):
            shutil.rmtree(self.federation.settings(site, host).mirror_dir, ignore_errors=True)
            self.wiped.append((host, len(self.federation.processes)))
            self.say(f"the mirror of {site}@{host} is wiped")

    def set_a_clock(self) -> None:
        """A machine's wall clock is set, back or forth."""
        host = self.chance.choice(self.federation.sites)
        self.federation.clock_of(host).jump(self.chance.choice((-86400.0, -3600.0, 60.0, 86400.0)))

    # -- inside turns ------------------------------------------------------------------------------

    def _before(self, process: Process, what: str, *, key: str) -> None:
        if not self.wild:
            return
        hook = what in ("train", "aggregate")
        if hook and self.chance.random() < HOOK_FAILURE:
            self.say(f"{process}: the {what} hook fails at {key}")
            raise HookTrouble(f"patient 4711 broke the {what} hook")
        rate = 0.3 if hook else self.inside * (5 if what == "push" else 1)
        if self.left > 0 and len(self.federation.stack) < 4 and self.chance.random() < rate:
            self._meanwhile(process, f"{what} {key}")

    def _meanwhile(self, process: Process, where: str) -> None:
        """The process is slow, or its machine sleeps, while others go on."""
        process.frozen = self.chance.random() < 0.3
        self.say(f"{process} {'sleeps' if process.frozen else 'is slow'} before {where}")
        for rival in self.federation.alive(process.site):
            if rival is not process and self.chance.random() < self.rivalry:
                rival.turns()  # it does the same work just now
                self.say(f"{rival}: {rival.said}")
        for _ in range(self.chance.choice((0, 1, 2, 5, 10))):
            self.act()
        if process.frozen and self.chance.random() < 0.7:
            self.start_somewhere(process.site)
            self.federation.advance(LIMIT_S * 1.1)
            for _ in range(self.chance.choice((5, 10, 20))):
                self.act()
        process.frozen = False
        self.say(f"{process} goes on with {where}")

    def hit(self, rate: float) -> bool:
        """Whether misfortune strikes; a history has only so much of it."""
        if not self.wild or self.trouble <= 0 or self.chance.random() >= rate:
            return False
        self.trouble -= 1
        return True

    def _plan(self, process: Process) -> Plan:
        def plan(call: Call) -> Fault | None:
            if not self.wild or self.trouble <= 0:
                return None
            drawn = self.chance.random()
            for fault, rate in self.rates.items():
                if fault == "flip" and not (call.verb == "pull" and "/model." in call.key):
                    continue  # TLS guards documents; models are what the hash is for
                drawn -= rate
                if drawn < 0:
                    self.trouble -= 1
                    self.say(f"{process}: {fault} at {call.verb} {call.key}")
                    return fault
            return None

        return plan

    def on_disk(self, path: str, event: str) -> None:
        """A file operation of the process whose turn it is: it may be its last one."""
        stack = self.federation.stack
        if not stack or not path.startswith(str(self.federation.folder)) or "/stitch_store/" not in path:
            return
        process = stack[-1]
        if process.alive and not self.hit(DISK_CRASH):
            return
        if process.alive:
            file = re.sub(r"[0-9a-f]{8}", "*", path.partition("/stitch_store/")[2])  # a random part
            self.say(f"{process}: crash before {event} {file}")
            process.kill()
        raise Crashed(f"{process} is dead")

    # -- calm --------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """No more faults: every site is run again until the run is over for all."""
        self.wild = False
        self.say("calm")
        for _ in range(400):
            for site in self.federation.sites:
                if not self.federation.alive(site) and not self.is_done(site):
                    self.start(site)
            alive = self.federation.alive()
            if not alive:
                return
            for process in alive:
                for name in process.loops:
                    process.turn(name)
                    self.say(f"{process} {name}: {process.said}")
            self.federation.advance(30.0)
        raise AssertionError("the federation does not come to an end")

    def is_done(self, site: str) -> bool:
        """Whether a process saw the end on the site's own machine, whose mirror was not wiped since."""
        since = max((count for host, count in self.wiped if host == site), default=0)
        return any(one.finished for one in self.federation.processes[since:] if one.site == one.host == site)


@contextmanager
def disk_watched(chaos: Chaos) -> Iterator[None]:
    """Tell the history of file operations while it runs."""
    watchers = _watchers()
    watchers.append(chaos)
    try:
        yield
    finally:
        watchers.remove(chaos)


@cache
def _watchers() -> list[Chaos]:
    """The histories under way in this process. An audit hook cannot be taken back: one serves all."""
    watchers: list[Chaos] = []

    def hook(event: str, args: tuple[object, ...]) -> None:
        if watchers and event in ("open", "os.rename", "os.mkdir", "os.remove", "os.link", "shutil.rmtree"):
            watchers[-1].on_disk(str(args[0]), event)

    sys.addaudithook(hook)
    return watchers
