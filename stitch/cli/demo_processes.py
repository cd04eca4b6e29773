"""The sites' processes of a demo: started together, watched, and none left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from stitch.cli.demo_plan import Plan
from stitch.files import disk

_ORDERLY_S = 15.0
_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True)
class Ended:
    """How a site's process ended.

    Attributes:
        site: whose it was.
        code: its exit code; on POSIX negative is the signal that killed it.
        said: the last lines it printed.
    """

    site: str
    code: int
    said: tuple[str, ...]


class Processes:
    """One operating-system process a site, in its own process group, while entered.

    Leaving ends them in order: each releases its lane and leaves a state that a re-run continues.
    """

    def __init__(self, plan: Plan, environ: Mapping[str, str]) -> None:
        self._plan = plan
        # What the user's shell says of stores is not the demo's: each project has its own .env.
        self._environ = {name: value for name, value in environ.items() if not name.startswith("STITCH_")}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._logs: list[IO[bytes]] = []

    def __enter__(self) -> Self:
        try:
            for site in self._plan.sites:
                self._start(site)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def alive(self) -> tuple[str, ...]:
        """The sites whose process runs."""
        return tuple(site for site, process in self._running.items() if process.poll() is None)

    def broken(self) -> Ended | None:
        """The first process that ended with an error, if any did."""
        for site, process in self._running.items():
            if process.poll():
                return Ended(site, int(process.returncode), _tail(log_of(self._plan, site)))
        return None

    def end(self) -> None:
        """End every process that still runs, in order if it can, by force if it must."""
        for process in self._running.values():
            if process.stdin and not process.stdin.closed:
                process.stdin.close()  # to the site this is the demo's end
        for process in self._running.values():
            try:
                process.wait(_ORDERLY_S)
            except subprocess.TimeoutExpired:
                process.kill()  # its hook dies with it (law 3)
                process.wait()
        for log in self._logs:
            log.close()

    def _start(self, site: str) -> None:
        log = log_of(self._plan, site)
        with disk(log):
            log.parent.mkdir(exist_ok=True)
            sink = log.open("ab")
        self._logs.append(sink)
        self._running[site] = subprocess.Popen(
            [sys.executable, "-m", "stitch.cli.demo_site"],
            cwd=self._plan.home(site),
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=os.name == "posix",  # Ctrl-C is the demo's, which ends the sites in order
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )


def log_of(plan: Plan, site: str) -> Path:
    """Where a site's process prints."""
    return plan.home(site) / "runs" / "console.log"


def _tail(log: Path) -> tuple[str, ...]:
    """Its error's two lines where it gave them, else the last two lines it printed."""
    with log.open("rb") as source:
        source.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        lines = source.read().decode("utf-8", "replace").splitlines()
    told = [text for text in lines if text.startswith(("error:", "do:"))]
    return tuple(told[-2:] or lines[-2:])
