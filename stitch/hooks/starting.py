"""Starting a hook's child process, by the means of this platform."""

from __future__ import annotations

import sys

from stitch.hooks.posix import PosixProcess
from stitch.hooks.process import HookProcess, Start


def start_process(start: Start) -> HookProcess:
    """Start a hook's child process for this platform.

    Raises:
        OSError: the process cannot be created.
    """
    if sys.platform == "win32":
        from stitch.hooks.windows import WindowsProcess  # noqa: PLC0415 - ctypes.WinDLL is Windows' alone

        return WindowsProcess(start)
    return PosixProcess(start)
