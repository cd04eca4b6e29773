"""Ctrl-C, SIGTERM and a closed terminal set a stop event; the work then ends in its own order."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Self

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")  # SIGBREAK is Windows' alone, SIGHUP is not Windows'
_CTRL_C = ("SIGINT", "SIGBREAK")


class StopSignals:
    """While entered, a signal asks for an orderly end, and is remembered for the exit code.

    Args:
        quiet: say nothing when a signal comes: there is nothing to put in order.

    Attributes:
        stop: set by the first signal.
        caught: its name; "" while there was none.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.stop = threading.Event()
        self.caught = ""
        self._before: dict[int, object] = {}

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 143 after SIGTERM, 129 after a hangup; 0 when there was no signal."""
        if not self.caught:
            return 0
        return 130 if self.caught in _CTRL_C else 128 + int(getattr(signal, self.caught))

    def __enter__(self) -> Self:
        for name in _NAMES:
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) is signal.SIG_IGN:  # nohup stays nohup
                continue
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # it is what `signal` gave us

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        again = bool(self.caught)
        self.caught = self.caught or signal.Signals(number).name
        self.stop.set()
        if self._quiet:
            return
        text = "still ending: the hook is asked to stop and the lane is released" if again else "ending"
        try:  # not through sys.stderr: its lock may be held by the code we interrupted
            os.write(2, f"\n{text} ...\n".encode("ascii"))
        except OSError:
            return
