"""A federation of real processes that tests kill, freeze and start again, over any store."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal

import psutil

from stitch import layout
from stitch.layout import PassRef
from stitch.store.base import Store
from stitch.store.location import StoreOptions
from stitch.store.open import open_store
from tests.e2e.breaking import Break

RUN_ID = "crash-1"
REPO = Path(__file__).parents[2]
WITHIN_S = 90.0
HOSTS = ("this-machine", "other-machine")

_ACTOR = Path(__file__).with_name("actor.py")
_HOOKS = Path(__file__).with_name("project")
_OWN = {
    "rush": (1.0, 100), "nu": (2.5, 60), "uc": (-0.75, 40),
    "emory": (4.0, 30), "ohsu": (0.5, 20), "umn": (-2.0, 50),
}  # fmt: skip


def until(met: Callable[[], object], what: str, *, within_s: float = WITHIN_S) -> None:
    """Poll a condition; fails with `what` was awaited."""
    pause, deadline = threading.Event(), time.monotonic() + within_s
    while not met():
        assert time.monotonic() < deadline, f"not within {within_s:.0f} s: {what}"
        pause.wait(0.02)


@dataclass
class Actor:
    """One actor's process."""

    site: str
    process: psutil.Popen
    log: Path

    @property
    def said(self) -> str:
        """All that it printed."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def code(self) -> int:
        """Its exit code, once it has ended."""
        try:
            return int(self.process.wait(WITHIN_S))
        except psutil.TimeoutExpired:
            raise AssertionError(f"{self.site} does not end; it said: {self.said[-3000:]}") from None

    def is_killed(self) -> None:
        """Wait for the end that a named point or an order brings."""
        code = self.code()
        assert code == -signal.SIGKILL, f"{self.site} ended with {code}; it said: {self.said[-3000:]}"

    def is_frozen(self) -> None:
        """Wait for the sleep that a named point brings."""
        until(lambda: self.process.status() == psutil.STATUS_STOPPED, f"{self.site} sleeps")

    def kill(self) -> None:
        """SIGKILL, now."""
        self.process.kill()
        self.is_killed()

    def ends(self, code: int) -> None:
        """Wait for an end with this exit code."""
        got = self.code()
        assert got == code, f"{self.site} ended with {got}, not {code}; it said: {self.said[-3000:]}"


@dataclass
class Federation:
    """Projects of several sites on this machine, and the processes that work for them.

    Attributes:
        root: where the projects are.
        url: the one store of all lanes.
        sites: the lead first.
        num_passes: as in `stitch.toml`.
        stop_at: the pass whose aggregation asks for an early stop.
        more: further lines at the head of `stitch.toml`.
    """

    root: Path
    url: str = field(repr=False)
    sites: Sequence[str] = ("rush", "nu")
    num_passes: int = 2
    stop_at: int = -1
    more: str = ""
    actors: list[Actor] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store: Store = open_store(self.url, options=StoreOptions())
        self._logs: list[IO[bytes]] = []
        for site in self.sites:
            self.make_project(site)

    # -- projects --------------------------------------------------------------------------------

    def make_project(self, site: str, *, machine: int = 0) -> Path:
        """A site's project folder; `machine` 1 is the same site on another computer."""
        home = self.home(site, machine=machine)
        for folder in ("config", "data/orders"):
            (home / folder).mkdir(parents=True)
        for hooks in _HOOKS.glob("*.py"):
            shutil.copy(hooks, home)
        own, count = _OWN[site]
        (home / "data" / "value.txt").write_text(str(own), encoding="utf-8")
        (home / "data" / "n_samples.txt").write_text(str(count), encoding="utf-8")
        (home / "stitch.toml").write_text(self._toml(), encoding="utf-8")
        site_file = {"site_name": site, "data_directory": "data"}
        (home / "config" / "config.json").write_text(json.dumps(site_file), encoding="utf-8")
        (home / ".env").write_text(f'STITCH_STORE="{self.url}"\n', encoding="utf-8")
        return home

    def _toml(self) -> str:
        return f"""
            run_id = "{RUN_ID}"
            lead = "{self.sites[0]}"
            sites = {json.dumps(list(self.sites))}
            num_passes = {self.num_passes}
            poll_seconds = 0.2
            heartbeat_minutes = 0.02
            root_seed = 7
            {self.more}
            [transfer]
            max_retries = 5
            retry_backoff_seconds = 0.02
            [hooks]
            train = "hooks.py:train"
            aggregate = "hooks.py:aggregate"
            model_ext = "bin"
            [config]
            stop_at = {self.stop_at}
            """

    def home(self, site: str, *, machine: int = 0) -> Path:
        """A site's project folder."""
        return self.root / (f"{site}-{machine}" if machine else site)

    def mirror(self, site: str, *, machine: int = 0) -> Path:
        """A site's mirror of the run."""
        return self.home(site, machine=machine) / "stitch_store" / RUN_ID

    def order(self, site: str, point: str, what: str, *, machine: int = 0) -> None:
        """Have a site's hook do something at a point, once: see `project/hooks.py`."""
        (self.home(site, machine=machine) / "data" / "orders" / point).write_text(what, encoding="utf-8")

    def gate(self, site: str, point: str, *, machine: int = 0) -> Path:
        """Hold a site's hook at a point until the file that this gives is touched."""
        gate = self.root / f"gate-{site}-{machine}-{point}"
        self.order(site, point, f"await {gate}", machine=machine)
        return gate

    def calls(self, site: str, *, machine: int = 0) -> list[str]:
        """Every hook run of a site that began, as "train 1"."""
        log = self.home(site, machine=machine) / "data" / "calls.log"
        return log.read_text(encoding="utf-8").splitlines() if log.exists() else []

    def run_log(self, site: str, *, machine: int = 0) -> str:
        """What a site's actors told people."""
        log = self.home(site, machine=machine) / "runs" / RUN_ID / "run.log"
        return log.read_text(encoding="utf-8") if log.exists() else ""

    def wait_until(self, met: Callable[[], object], what: str) -> None:
        """Poll a condition; failing, tell what the actors said last."""
        try:
            until(met, what)
        except AssertionError as error:
            said = "\n".join(f"{one.site} {one.process.poll()}: {one.said[-800:]}" for one in self.actors)
            raise AssertionError(f"{error}\n{said}") from None

    def hears(self, site: str, text: str, *, machine: int = 0) -> None:
        """Wait until a site's actor has told people this."""
        self.wait_until(lambda: text in self.run_log(site, machine=machine), f'{site} says "{text}"')

    # -- processes -------------------------------------------------------------------------------

    def start(self, site: str, *breaks: Break, machine: int = 0, options: Sequence[str] = ()) -> Actor:
        """Start a site's actor with named points in it."""
        points = [word for spot in breaks for word in ("--break", spot.dump())]
        command = [sys.executable, str(_ACTOR), "--host", HOSTS[machine], *points, *options]
        return self._start(site, command, self.home(site, machine=machine))

    def start_cli(self, site: str, *words: str) -> Actor:
        """Start what a person types: `clif-stitch run --plain`, or other words."""
        command = [sys.executable, "-m", "stitch.cli", *(words or ("run", "--plain"))]
        return self._start(site, command, self.home(site))

    def _start(self, site: str, command: Sequence[str], home: Path) -> Actor:
        log = home / f"said-{len(self.actors)}.txt"
        sink = log.open("wb")
        self._logs.append(sink)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("STITCH_")}
        process = psutil.Popen(
            list(command),
            cwd=home,
            env={**environ, "PYTHONPATH": str(REPO)},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.actors.append(Actor(site, process, log))
        return self.actors[-1]

    def finish(self, *running: Actor) -> None:
        """Start every site that is not among the running, and see that all of them end well."""
        there = {actor.site for actor in running}
        for actor in [*running, *(self.start(site) for site in self.sites if site not in there)]:
            actor.ends(0)

    def end(self) -> None:
        """End whatever still runs, hooks and orphans included, and see that nothing does."""
        family: list[psutil.Process] = [actor.process for actor in self.actors if actor.process.is_running()]
        family += [child for one in list(family) for child in one.children(recursive=True)]
        for notice in (*self.root.glob("*/data/orphan.pid"), *self.root.glob("*/data/hook.pid")):
            family += _ours(notice)
        for process in family:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        _, alive = psutil.wait_procs(family, timeout=20)
        for log in self._logs:
            log.close()
        assert not alive, f"processes survive the test: {alive}"

    # -- the store -------------------------------------------------------------------------------

    def paths(self, prefix: str = "") -> list[str]:
        """The run's paths in the store."""
        return [entry.key.removeprefix(f"{RUN_ID}/") for entry in self.store.list(f"{RUN_ID}/{prefix}")]

    def has(self, path: str) -> bool:
        """Whether the store holds a path of the run."""
        return self.store.stat(f"{RUN_ID}/{path}") is not None

    def read(self, path: str) -> bytes:
        """The stored bytes of a path."""
        with tempfile.TemporaryDirectory() as folder:
            self.store.pull(f"{RUN_ID}/{path}", Path(folder) / "it")
            return (Path(folder) / "it").read_bytes()

    def write(self, path: str, data: bytes, *, mode: Literal["create", "replace"] = "replace") -> None:
        """What no actor would do: put bytes where they do not belong."""
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "it").write_bytes(data)
            self.store.push(Path(folder) / "it", f"{RUN_ID}/{path}", mode=mode)

    def json(self, path: str) -> dict[str, object]:
        """A stored document."""
        document: dict[str, object] = json.loads(self.read(path))
        return document

    def seal(self, pass_id: int, site: str = "") -> dict[str, object]:
        """The seal of a global, or of a site's pass."""
        return self.json(PassRef(pass_id, site or None).seal)

    def wait_for(self, path: str) -> None:
        """Wait until the store holds a path."""
        self.wait_until(lambda: self.has(path), f"{path} in the store")

    def wait_for_seal(self, pass_id: int, site: str = "") -> None:
        """Wait until a pass is sealed in the store."""
        self.wait_for(PassRef(pass_id, site or None).seal)

    def wait_for_site_status(self, site: str, word: str) -> None:
        """Wait until the lead's orchestration says this of a site."""

        def says() -> bool:
            words = self.json(layout.orchestration())["site_status"]
            return isinstance(words, dict) and words.get(site) == word

        self.wait_until(lambda: self.has(layout.orchestration()) and says(), f"{site} is {word}")


def lives(pid: int) -> bool:
    """Whether there is such a process and it runs."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _ours(notice: Path) -> list[psutil.Process]:
    """The process that a hook wrote down, if it is still that one."""
    try:
        process = psutil.Process(int(notice.read_text(encoding="utf-8")))
        begun = process.create_time() <= notice.stat().st_mtime + 1
    except (OSError, ValueError, psutil.Error):
        return []
    return [process] if begun and process.status() != psutil.STATUS_ZOMBIE else []
