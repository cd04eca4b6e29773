"""A hook's child process on Windows: a job object that dies with its last handle, which is ours.

The child starts suspended, is put into the job, and only then runs: nothing it starts can be
outside (law 3). When STITCH dies, its handle closes and Windows ends the whole job.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import subprocess
import sys
from typing import Any, cast

import psutil

from stitch.hooks.process import LAUNCHER, Ended, Start, encoded

# From winbase.h and winnt.h; `subprocess` has these names on Windows alone.
CREATE_SUSPENDED, CREATE_NEW_PROCESS_GROUP = 0x4, 0x200
_EXTENDED_LIMIT_INFORMATION, _KILL_ON_JOB_CLOSE = 9, 0x2000
_TERMINATED = 0xC000013A  # what Ctrl-Break leaves as exit code
_KILL_WAIT_S = 10.0


class _BasicLimits(ctypes.Structure):
    _fields_ = [
        ("PerProcessUserTimeLimit", ctypes.c_int64),
        ("PerJobUserTimeLimit", ctypes.c_int64),
        ("LimitFlags", ctypes.c_uint32),
        ("MinimumWorkingSetSize", ctypes.c_size_t),
        ("MaximumWorkingSetSize", ctypes.c_size_t),
        ("ActiveProcessLimit", ctypes.c_uint32),
        ("Affinity", ctypes.c_size_t),
        ("PriorityClass", ctypes.c_uint32),
        ("SchedulingClass", ctypes.c_uint32),
    ]


class ExtendedLimits(ctypes.Structure):
    """JOBOBJECT_EXTENDED_LIMIT_INFORMATION."""

    _fields_ = [
        ("BasicLimitInformation", _BasicLimits),
        ("IoInfo", ctypes.c_uint64 * 6),
        ("ProcessMemoryLimit", ctypes.c_size_t),
        ("JobMemoryLimit", ctypes.c_size_t),
        ("PeakProcessMemoryUsed", ctypes.c_size_t),
        ("PeakJobMemoryUsed", ctypes.c_size_t),
    ]


class Job:
    """A job object with kill-on-close.

    Args:
        kernel32: the library, a seam: tests on other systems pass their own.
    """

    def __init__(self, kernel32: Any) -> None:
        self._kernel32 = kernel32
        kernel32.CreateJobObjectW.restype = ctypes.c_void_p
        self._handle = kernel32.CreateJobObjectW(None, None)
        limits = ExtendedLimits()
        limits.BasicLimitInformation.LimitFlags = _KILL_ON_JOB_CLOSE
        done = self._handle and kernel32.SetInformationJobObject(
            ctypes.c_void_p(self._handle),
            _EXTENDED_LIMIT_INFORMATION,
            ctypes.byref(limits),
            ctypes.sizeof(limits),
        )
        if not done:
            raise OSError("Windows refused a job object for the hook")

    def add(self, process_handle: int) -> None:
        """Put a process into the job, and with it all that it will start.

        Raises:
            OSError: Windows refused.
        """
        handles = ctypes.c_void_p(self._handle), ctypes.c_void_p(process_handle)
        if not self._kernel32.AssignProcessToJobObject(*handles):
            raise OSError("Windows refused to put the hook into its job object")

    def kill(self) -> None:
        """End every process in the job."""
        self._kernel32.TerminateJobObject(ctypes.c_void_p(self._handle), 1)

    def close(self) -> None:
        """Close the handle, which ends every process in the job. Again does nothing."""
        if self._handle:
            self._kernel32.CloseHandle(ctypes.c_void_p(self._handle))
            self._handle = None


class WindowsProcess:
    """The launcher (or a command itself) in its job. See `process.HookProcess`."""

    def __init__(self, start: Start) -> None:
        self._request = start.request
        command = start.request["mode"] == "command"
        launch = [sys.executable, str(LAUNCHER), "-"]
        argv = cast("list[str]", start.request["argv"]) if command else launch
        self._job = Job(_kernel32())
        try:
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL if command else subprocess.PIPE,
                stdout=start.log,
                stderr=subprocess.STDOUT,
                cwd=start.cwd,
                env=dict(start.environ),
                creationflags=CREATE_SUSPENDED | CREATE_NEW_PROCESS_GROUP,
            )
            handle = self._popen._handle  # type: ignore[attr-defined]  # noqa: SLF001  Windows' alone, and the one way
            self._job.add(int(handle))
        except BaseException:
            self._job.close()
            raise

    @property
    def pid(self) -> int:
        """The first process's id."""
        return self._popen.pid

    def release(self) -> None:
        """Resume it, and send the request."""
        psutil.Process(self.pid).resume()
        if self._popen.stdin is not None:
            with contextlib.suppress(OSError):  # it died first: `wait` tells how
                self._popen.stdin.write(encoded(self._request))
                self._popen.stdin.close()

    def wait(self, seconds: float | None) -> Ended | None:
        """Block until the hook's first process ended; what it left behind is ended then."""
        try:
            code = self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._job.kill()
        return Ended(code, "itself")

    def end(self, grace_s: float) -> Ended:
        """Ctrl-Break to its group, then the end of the job."""
        with contextlib.suppress(OSError):  # it may have no console to be told through
            self._popen.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))
        ended = self.wait(grace_s)
        if ended is not None:
            return Ended(ended.code, "stopped")
        self._job.kill()
        ended = self.wait(_KILL_WAIT_S)
        return Ended(ended.code if ended else _TERMINATED, "killed")

    def close(self) -> None:
        """Close the job, which kills what still runs."""
        self._job.close()
        self._popen.wait(_KILL_WAIT_S)


def _kernel32() -> Any:
    return ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]  # Windows' alone
