"""A hook's child process on POSIX: the launcher becomes the guard, which dies with us and takes all along."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from typing import IO, cast

from stitch.hooks.process import LAUNCHER, Ended, How, Start, encoded
from stitch.hooks.survivors import end_run

# After the grace the guard kills; this long it may take before the parent does it itself.
_GUARD_WAIT_S = 5.0


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
