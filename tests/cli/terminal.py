"""A terminal of 80 columns that a test types into and reads, as a person would."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WITHIN_S = 120.0
_TICK_S = 0.1
# The child makes the terminal its own, as a shell's is: a hidden question is asked there.
_OWN_IT = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"


class Terminal:
    """A command in a terminal.

    Attributes:
        process: the command's.
        text: all that the terminal was sent so far, control sequences included.
    """

    def __init__(self, process: subprocess.Popen[bytes], reader: int) -> None:
        self.process = process
        self._reader = reader
        self._raw = b""

    @property
    def text(self) -> str:
        return self._raw.decode("utf-8", "replace")

    @property
    def screen(self) -> str:
        """The text without control sequences."""
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def await_text(self, text: str) -> None:
        """Wait until the terminal shows this."""
        until = time.monotonic() + _WITHIN_S
        while text not in self.screen:
            assert time.monotonic() < until, f"waited in vain for {text!r}: {self.screen}"
            assert self._read(), f"ended without {text!r}: {self.screen}"

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        os.write(self._reader, line.encode() + b"\r")

    def end(self) -> int:
        """Read on until the command ends; its exit code."""
        until = time.monotonic() + _WITHIN_S
        while self._read():
            assert time.monotonic() < until, f"it does not end: {self.screen}"
        return self.process.wait(_WITHIN_S)

    def _read(self) -> bool:
        """Take what comes within a tick; False at the end."""
        ready, _, _ = select.select([self._reader], [], [], _TICK_S)
        if not ready:
            return True
        try:
            block = os.read(self._reader, 65536)
        except OSError:  # the other end is closed: it has ended
            return False
        self._raw += block
        return bool(block)


@contextmanager
def terminal(cwd: Path, *command: str) -> Iterator[Terminal]:
    """Run a command with a terminal as its stdin, stdout and stderr; it is ended with the test."""
    reader, writer = os.openpty()
    environ = {name: value for name, value in os.environ.items() if not name.startswith("STITCH_")}
    environ |= {"TERM": "xterm", "COLUMNS": "80", "LINES": "40", "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, "-c", _OWN_IT, *command],
        cwd=cwd,
        env=environ,
        stdin=writer,
        stdout=writer,
        stderr=writer,
    )
    os.close(writer)
    try:
        yield Terminal(process, reader)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(30)
        os.close(reader)
