"""A hook's log: opened for its child to append to, followed while it grows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import IO

from stitch.errors import DiskError
from stitch.hooks.call import HookCall
from stitch.hooks.spec import hook_name

_AT_ONCE = 128 * 1024  # bytes followed at a time: the reader never holds up a heartbeat
_TAIL = 4000  # bytes of the log that an error carries where it has no traceback


class HookLog:
    """The log of one run. The child writes to it by its own descriptor, so no pipe can fill up.

    Raises:
        DiskError: the file cannot be opened.
    """

    def __init__(self, call: HookCall, *, on_line: Callable[[str], None] | None) -> None:
        try:
            call.log_path.parent.mkdir(parents=True, exist_ok=True)
            self.file: IO[bytes] = call.log_path.open("ab", buffering=0)
        except OSError as error:
            raise DiskError(f"the hook's log {call.log_path} cannot be written: {error.strerror}") from None
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.file.write(f"--- {call.hook}: {hook_name(call.spec)}, {now} ---\n".encode())
        self._path = call.log_path
        self._begin = self._seen = self.file.tell()
        self._on_line = on_line or _nobody
        self._followed = on_line is not None
        self._partial = b""

    def follow(self) -> None:
        """Hand over the lines written since the last time; of a flood, the newest."""
        if not self._followed:
            return
        size = self._path.stat().st_size
        if size - self._seen > 8 * _AT_ONCE:
            self._on_line(f"... {size - self._seen - _AT_ONCE} bytes more in the log ...")
            self._seen, self._partial = size - _AT_ONCE, b""
        *lines, self._partial = (self._partial + self._read(self._seen, _AT_ONCE)).split(b"\n")
        for line in lines:
            self._emit(line)

    def finish(self, fault: str) -> None:
        """Append what the interpreter said when it crashed, and hand over the rest."""
        self.file.write(fault.encode())
        if self._followed:
            while self._seen < self._path.stat().st_size:
                self.follow()
            if self._partial:
                self._emit(self._partial)
                self._partial = b""

    def tail(self) -> str:
        """The last of what this run printed."""
        size = self._path.stat().st_size
        return self._text(max(self._begin, size - _TAIL))

    def close(self) -> None:
        """Close the file."""
        self.file.close()

    def _text(self, begin: int) -> str:
        with self._path.open("rb") as file:
            file.seek(begin)
            return file.read(_TAIL).decode("utf-8", "replace")

    def _read(self, begin: int, count: int) -> bytes:
        with self._path.open("rb") as file:
            file.seek(begin)
            block = file.read(count)
        self._seen = begin + len(block)
        return block

    def _emit(self, line: bytes) -> None:
        # A progress bar draws over its line with carriage returns: the last drawing is the line.
        text = line.decode("utf-8", "replace").rstrip("\r").rpartition("\r")[2]
        self._on_line(text)


def _nobody(_line: str) -> None:
    """Nobody listens."""
