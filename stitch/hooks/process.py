"""A hook's child process as its parent holds it: start, wait, end. POSIX here, Windows in `windows`.

What runs on the other side is `launch`, `guard` and `child`.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, Protocol, cast

from stitch.hooks.survivors import end_run

LAUNCHER = Path(__file__).with_name("launch.py")

# After the grace the guard kills; this long it may take before the parent does it itself.
_GUARD_WAIT_S = 5.0

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


def start_process(start: Start) -> HookProcess:
    """Start a hook's child process for this platform.

    Raises:
        OSError: the process cannot be created.
    """
    if sys.platform == "win32":
        from stitch.hooks.windows import WindowsProcess  # noqa: PLC0415 - ctypes.WinDLL is Windows' alone

        return WindowsProcess(start)
    return PosixProcess(start)


def encoded(request: Mapping[str, object]) -> bytes:
    """The request as `launch` reads it: its length in ten digits, then JSON."""
    body = json.dumps(request).encode()
    return b"%010d" % len(body) + body


class PosixProcess:
    """The launcher, which becomes the guard, which holds the hook."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._report, report = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [sys.executable, str(LAUNCHER), str(report)],
                stdin=subprocess.PIPE,
                stdout=start.log,
                stderr=subprocess.STDOUT,
                pass_fds=(report,),
                start_new_session=True,
                cwd=start.cwd,
                env=dict(start.environ),
            )
        except BaseException:
            os.close(self._report)
            raise
        finally:
            os.close(report)
        self._commands = cast("IO[bytes]", self._popen.stdin)
        self._said = b""
        self._ended: Ended | None = None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._report, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        """The guard's process id."""
        return self._popen.pid

    def release(self) -> None:
        """Send the request."""
        self._tell(encoded(self._start.request))

    def wait(self, seconds: float | None) -> Ended | None:
        """See `HookProcess.wait`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while self._ended is None:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._selector.select(left):
                return None
            said = os.read(self._report, 4096)
            self._said += said
            if not said:  # the guard is gone, with or without a last word
                self._ended = self._outcome()
        return self._ended

    def end(self, grace_s: float) -> Ended:
        """See `HookProcess.end`."""
        self._tell(b"stop %f\n" % grace_s)
        ended = self.wait(grace_s + _GUARD_WAIT_S)
        if ended is None:  # somebody stopped the guard, or a process cannot be killed
            self._popen.kill()
            end_run(self._start.mark)
            ended = self.wait(_GUARD_WAIT_S) or Ended(-9, "killed")
        return ended

    def close(self) -> None:
        """See `HookProcess.close`."""
        if not self._commands.closed:
            with contextlib.suppress(BrokenPipeError):
                self._commands.close()  # to the guard this is our death: it kills, and ends
        if self.wait(_GUARD_WAIT_S) is None:
            self._popen.kill()
            end_run(self._start.mark)
        self._popen.wait()
        self._selector.close()
        os.close(self._report)

    def _tell(self, data: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died first: `wait` tells how
            self._commands.write(data)
            self._commands.flush()

    def _outcome(self) -> Ended:
        code = self._popen.wait()
        words = self._said.decode("ascii", "replace").split()
        if len(words) != 3:  # STATUS HOW LEFT
            return Ended(code, "lost", left=int(end_run(self._start.mark)))
        status, how, left = words
        return Ended(os.waitstatus_to_exitcode(int(status)), cast(How, how), int(left))
