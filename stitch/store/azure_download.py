"""One large file on its way into `<name>.part`: parallel ranges, one version, resumed after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

from stitch.errors import DiskError
from stitch.store.azure_read import RANGE
from stitch.store.base import Entry, Progress
from stitch.store.disk import CHUNK, own_disk

Fetch = Callable[[int, int], Iterator[bytes]]
"""Gives exactly the bytes at (offset, length) of the version, in pieces."""

_NOTE_EVERY = 4 * 1024 * 1024
"""Bytes between two notes of how far a download is."""

_WORTH_FLUSHING = 8 * 1024 * 1024
"""Bytes from which a file is flushed range by range, beside the network's work."""


class Part:
    """The bytes gathered so far of one version.

    `<name>.part.state` beside them names the version and how far each range has come, so that a
    slow line loses next to nothing to a cut, and a kill at most what came since the last note.
    """

    def __init__(self, path: Path, entry: Entry) -> None:
        self._path = path
        self._state = _state_of(path)
        self._entry = entry
        self._got = [0] * -(-entry.size // RANGE)
        self._noted = 0
        self._stopped = False
        self._failure: BaseException | None = None
        self._moved = threading.Condition()

    @staticmethod
    def left_behind(path: Path) -> str:
        """The etag of the version that an earlier pull left here, or ""."""
        return _read_state(path)[0] if path.exists() else ""

    def resume(self) -> None:
        """Continues what the state describes."""
        _, got = _read_state(self._path)
        if len(got) == len(self._got) and self._reaches(got):
            self._got = got

    def _reaches(self, got: list[int]) -> bool:
        """Whether the part is as long as its state says: somebody may have cut it."""
        ends = [index * RANGE + length for index, length in enumerate(got) if length]
        with own_disk("read", self._path):
            return self._path.stat().st_size >= max(ends, default=0)

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
        digest = hashlib.sha256()
        reading = own_disk("read", self._path)
        with reading:
            stream = self._path.open("rb")
        pool = ThreadPoolExecutor(connections, thread_name_prefix="stitch-down")
        try:
            for index in range(len(self._got)):
                pool.submit(self._fetch, fetch, index, progress)
            with stream:
                for index in range(len(self._got)):
                    self._follow(index, stream, reading, digest.update)
        finally:
            self._stopped = True
            pool.shutdown(wait=True, cancel_futures=True)
            with self._moved:
                self._note()
        self._raise_failure()
        return digest.hexdigest()

    def discard(self) -> None:
        """Forgets the part: its bytes are not what the version should hold."""
        self._path.unlink(missing_ok=True)
        self.settle()

    def settle(self) -> None:
        """Removes the state once the part has become the file."""
        self._state.unlink(missing_ok=True)

    def _length(self, index: int) -> int:
        return min(RANGE, self._entry.size - index * RANGE)

    def _follow(self, index: int, stream: BinaryIO, reading: own_disk, take: Callable[[bytes], None]) -> None:
        """Hands on a range's bytes as they arrive, from the page cache."""
        taken = 0
        while taken < self._length(index):
            with self._moved:
                while self._got[index] == taken:
                    self._raise_failure()
                    self._moved.wait()
                here = self._got[index]
            while taken < here:
                with reading:
                    chunk = stream.read(min(CHUNK, here - taken))
                if not chunk:
                    raise DiskError(f"{self._path} became shorter while it was filled")
                take(chunk)
                taken += len(chunk)

    def _raise_failure(self) -> None:
        if self._failure:
            raise self._failure

    def _fetch(self, fetch: Fetch, index: int, progress: Progress | None) -> None:
        try:
            self._fetch_range(fetch, index, progress)
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
            with self._moved:
                self._failure = self._failure or error
                self._moved.notify_all()

    def _fetch_range(self, fetch: Fetch, index: int, progress: Progress | None) -> None:
        offset, missing = index * RANGE + self._got[index], self._length(index) - self._got[index]
        if not missing:
            return
        writing = own_disk("write", self._path)
        with writing:
            sink = self._path.open("r+b", buffering=0)
            sink.seek(offset)
        with sink:
            for piece in fetch(offset, missing):
                if self._stopped:
                    return
                with writing:
                    _write(sink, piece)
                self._arrived(index, len(piece), progress)
            if self._entry.size >= _WORTH_FLUSHING:
                with writing:  # while the follower still hashes: the mirror will want it on the disk
                    os.fsync(sink.fileno())

    def _arrived(self, index: int, length: int, progress: Progress | None) -> None:
        with self._moved:
            self._got[index] += length
            self._moved.notify_all()
            here = sum(self._got)
            if here - self._noted >= _NOTE_EVERY or self._got[index] == self._length(index):
                self._note()
            if progress:
                progress(here, self._entry.size)

    def _note(self) -> None:
        """Remembers how far each range is. A torn note means starting anew; small files need none."""
        self._noted = sum(self._got)
        if self._entry.size > RANGE:
            with own_disk("write", self._state):
                note = json.dumps({"etag": self._entry.etag, "range": RANGE, "got": self._got})
                self._state.write_text(note, encoding="utf-8")


def _write(sink: RawIOBase, piece: bytes) -> None:
    """Unbuffered, so that what the state says has arrived is with the operating system."""
    view = memoryview(piece)
    while view:
        view = view[sink.write(view) :]


def _state_of(path: Path) -> Path:
    return path.with_name(path.name + ".state")


def _read_state(path: Path) -> tuple[str, list[int]]:
    """(etag, bytes of each range) that an earlier pull noted; ("", []) for none that can be used."""
    try:
        found = json.loads(_state_of(path).read_text(encoding="utf-8"))
        got = [int(length) for length in found["got"]]
        return (str(found["etag"]), got) if found["range"] == RANGE else ("", [])
    except (OSError, ValueError, KeyError, TypeError):
        return "", []
