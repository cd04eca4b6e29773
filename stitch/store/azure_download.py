"""One large file on its way into `<name>.part`: parallel ranges, one version, resumed after a kill."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from stitch.store.azure_read import RANGE
from stitch.store.base import Entry, Progress
from stitch.store.disk import CHUNK, own_disk

Fetch = Callable[[int, int], Iterator[bytes]]
"""Gives exactly the bytes at (offset, length) of the version, in pieces."""


class Part:
    """The bytes gathered so far of one version.

    `<name>.part.state` beside them names the version and how long a prefix is whole: ranges
    arrive in any order, and a kill leaves holes behind that prefix.
    """

    def __init__(self, path: Path, entry: Entry) -> None:
        self._path = path
        self._state = _state_of(path)
        self._entry = entry
        self._digest = hashlib.sha256()
        self._whole = 0
        self._arrived = 0
        self._lock = threading.Lock()

    @staticmethod
    def left_behind(path: Path) -> str:
        """The etag of the version that an earlier pull left here, or ""."""
        return _read_state(path)[0] if path.exists() else ""

    def resume(self) -> None:
        """Hashes the whole prefix that is there and continues behind it."""
        until = min(_read_state(self._path)[1], self._entry.size)
        with own_disk("read", self._path), self._path.open("r+b") as stream:
            self._take(stream, until)
            stream.truncate(self._whole)
        self._arrived = self._whole

    def begin(self) -> None:
        """Starts anew."""
        with own_disk("write", self._path):
            self._state.unlink(missing_ok=True)
            self._path.write_bytes(b"")
        self._note()

    def fill(self, fetch: Fetch, *, connections: int, progress: Progress | None) -> str:
        """Fetches what is missing and returns the digest of the whole file.

        Args:
            fetch: opens a range.
            connections: ranges under way at a time.
            progress: told of all bytes that are here, resumed ones included.

        Raises:
            DiskError: the part cannot be written.
        """
        flying: deque[tuple[Future[None], int]] = deque()
        pool = ThreadPoolExecutor(connections, thread_name_prefix="stitch-down")
        try:
            with own_disk("read", self._path), self._path.open("rb") as stream:
                stream.seek(self._whole)
                for offset in range(self._whole, self._entry.size, RANGE):
                    length = min(RANGE, self._entry.size - offset)
                    flying.append(
                        (pool.submit(self._fetch, fetch, offset, length, progress), offset + length)
                    )
                while flying:
                    arriving, end = flying.popleft()
                    arriving.result()
                    self._take(stream, end)
                    self._note()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return self._digest.hexdigest()

    def discard(self) -> None:
        """Forgets the part: its bytes are not what the version should hold."""
        self._path.unlink(missing_ok=True)
        self.settle()

    def settle(self) -> None:
        """Removes the state once the part has become the file."""
        self._state.unlink(missing_ok=True)

    def _fetch(self, fetch: Fetch, offset: int, length: int, progress: Progress | None) -> None:
        writing = own_disk("write", self._path)
        with writing:
            sink = self._path.open("r+b", buffering=0)
            sink.seek(offset)
        with sink:
            for piece in fetch(offset, length):
                with writing:
                    sink.write(piece)
                with self._lock:
                    self._arrived += len(piece)
                    if progress:
                        progress(self._arrived, self._entry.size)

    def _take(self, stream: BinaryIO, end: int) -> None:
        """Hashes on to `end`, from the page cache."""
        while self._whole < end and (chunk := stream.read(min(CHUNK, end - self._whole))):
            self._digest.update(chunk)
            self._whole += len(chunk)

    def _note(self) -> None:
        """Remembers the whole prefix. A torn note only means starting anew; small files need none."""
        if self._entry.size > RANGE:
            with own_disk("write", self._state):
                note = json.dumps({"etag": self._entry.etag, "whole": self._whole})
                self._state.write_text(note, encoding="utf-8")


def _state_of(path: Path) -> Path:
    return path.with_name(path.name + ".state")


def _read_state(path: Path) -> tuple[str, int]:
    """(etag, length of the whole prefix) that an earlier pull noted; ("", 0) for none."""
    try:
        found = json.loads(_state_of(path).read_text(encoding="utf-8"))
        return str(found["etag"]), int(found["whole"])
    except (OSError, ValueError, KeyError, TypeError):
        return "", 0
