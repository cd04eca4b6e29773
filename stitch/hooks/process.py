"""A hook's child process as its parent holds it: start, wait, end.

`posix` and `windows` do it, `starting` knows which of them. What runs on the other side is `launch`, `guard`
and `child`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, Protocol

LAUNCHER = Path(__file__).with_name("launch.py")

How = Literal["itself", "stopped", "killed", "lost"]


@dataclass(frozen=True, slots=True)
class Start:
    """What a hook's process needs to begin.

    Attributes:
        request: the JSON that `launch` reads; its `mode` is "call", "check" or "command".
        environ: the whole environment of the child.
        cwd: its working directory.
        log: an open binary file, positioned at its end, for stdout and stderr.
        mark: what its environment carries as `RUN_MARK`.
    """

    request: Mapping[str, object]
    environ: Mapping[str, str]
    cwd: Path
    log: IO[bytes]
    mark: str


@dataclass(frozen=True, slots=True)
class Ended:
    """How a hook's process tree ended.

    Attributes:
        code: the exit code; on POSIX a negative number is the signal that killed it.
        how: "itself"; "stopped" or "killed" by us, softly or not; "lost" with its guard.
        left: processes that the hook left behind and that were ended after it.
    """

    code: int
    how: How
    left: int = 0


class HookProcess(Protocol):
    """One started child. It runs none of the hook's code before `release`."""

    @property
    def pid(self) -> int:
        """The id of the process that everything of the hook is below."""
        ...

    def release(self) -> None:
        """Let it run."""
        ...

    def wait(self, seconds: float | None) -> Ended | None:
        """Block until it and all below it ended, or `seconds` passed: then None."""
        ...

    def end(self, grace_s: float) -> Ended:
        """Ask it to end, kill all of it after `grace_s`, wait until nothing is left."""
        ...

    def close(self) -> None:
        """Release what the parent holds; kills what still runs."""
        ...


def encoded(request: Mapping[str, object]) -> bytes:
    """The request as `launch` reads it: its length in ten digits, then JSON."""
    body = json.dumps(request).encode()
    return b"%010d" % len(body) + body
