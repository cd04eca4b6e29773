"""One file on its way into `<name>.part`: streamed, on more connections if the line is slow, resumed.

A fast line is fastest with one plain GET (measured on Azurite: each further range costs the server
time, and hashing keeps up with one stream only). A slow line over a long way is not: there the rest
of the file is split, again and again, until every connection has a segment of its own.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from io import FileIO, RawIOBase
from pathlib import Path

from stitch.clock import Clock
from stitch.errors import DiskError
from stitch.store.base import Entry, Progress
from stitch.store.disk import CHUNK, own_disk

Fetch = Callable[[int, int], Generator[bytes, None, None]]
"""Gives exactly the bytes at (offset, length) of the version, in pieces."""

_Hashing = Callable[[bytes | memoryview], None]
"""Takes the next bytes of the file, in order."""

_FAST = 64 * 1024 * 1024
"""Bytes a second that one connection must bring, or others are opened beside it."""

_PATIENCE = 1.0
"""Seconds before that is judged."""

_SEGMENT = 8 * 1024 * 1024
"""Bytes that a new segment has at least."""

_NOTE_EVERY = 4 * 1024 * 1024
"""Bytes between two notes of how far a download is."""

_WORTH_NOTING = 8 * 1024 * 1024
"""Bytes from which a download is noted: smaller ones are simply made again."""


@dataclass(slots=True)
class _Segment:
    """The bytes from `start` to `end`, of which those before `here` have arrived."""

    start: int
    here: int
    end: int


class Part:
    """The bytes gathered so far of one version.

    `<name>.part.state` beside them names the version and how far each segment has come, so that a
    slow line loses next to nothing to a cut, and a kill at most what came since the last note.

    Args:
        path: the part.
        entry: the version.
        clock: tells how fast the line is.
    """

    def __init__(self, path: Path, entry: Entry, *, clock: Clock) -> None:
        self._path = path
        self._state = _state_of(path)
        self._entry = entry
        self._clock = clock
        self._segments = [_Segment(0, 0, entry.size)]
        self._noted = self._had = 0
        self._began = 0.0
        self._stopped = False
        self._failure: BaseException | None = None
        self._moved = threading.Condition()

    @staticmethod
    def left_behind(path: Path) -> str:
        """The etag of the version that an earlier pull left here, or ""."""
        return _read_state(path)[0] if path.exists() else ""

    def resume(self) -> None:
        """Continues what the state describes, unless somebody has cut the part."""
        _, segments = _read_state(self._path)
        with own_disk("read", self._path):
            size = self._path.stat().st_size
        reached = max((found.here for found in segments if found.here > found.start), default=0)
        if segments and segments[-1].end == self._entry.size and reached <= size:
            self._segments = segments

    def begin(self) -> None:
        """Starts anew."""
        with own_disk("write", self._path):
            self._state.unlink(missing_ok=True)
            self._path.write_bytes(b"")
        self._note()

    def fill(self, fetch: Fetch, *, connections: int, progress: Progress | None) -> str:
        """Fetches what is missing and returns the digest of the whole file.

        Args:
            fetch: opens a stretch of the version.
            connections: stretches under way at a time.
            progress: told of all bytes that are here, resumed ones included.

        Raises:
            DiskError: the part cannot be read or written.
        """
        digest = hashlib.sha256()
        pool = ThreadPoolExecutor(connections, thread_name_prefix="stitch-down")

        def send(segment: _Segment) -> None:
            # The first stretch is hashed as it comes: to read it back costs a fast line a third.
            hashed = digest.update if segment.start == 0 else None
            pool.submit(self._fetch, segment, pieces, hashed, arrived)

        def pieces(segment: _Segment) -> Generator[bytes, None, None]:
            return fetch(segment.here, segment.end - segment.here)

        def arrived() -> None:
            if progress:
                progress(self._here(), self._entry.size)
            self._split_if_slow(connections, send)

        self._began, self._had = self._clock.monotonic(), self._here()
        with own_disk("read", self._path):
            stream = self._path.open("rb", buffering=0)  # a buffer would keep what had not come yet
        try:
            with stream:
                self._hash_all(stream, digest.update, send)
        finally:
            with self._moved:
                self._stopped = True
            pool.shutdown(wait=True, cancel_futures=True)
            with self._moved:
                self._note()
        self._raise_failure()
        return digest.hexdigest()

    def _hash_all(self, stream: FileIO, update: _Hashing, send: Callable[[_Segment], None]) -> None:
        """Sends every segment on its way and hashes the whole, in order."""
        front, *rest = self._segments
        for segment in rest:
            send(segment)
        self._hash(stream, update, front.here)  # what an earlier pull left
        send(front)
        position = self._wait_for(front)
        stream.seek(position)
        while position < self._entry.size:
            here = self._wait_behind(position)
            self._hash(stream, update, here - position)
            position = here

    def _hash(self, stream: FileIO, update: _Hashing, length: int) -> None:
        while length > 0:
            with own_disk("read", self._path):
                chunk = stream.read(min(CHUNK, length))
            if not chunk:
                raise DiskError(f"{self._path} became shorter while it was filled")
            update(chunk)
            length -= len(chunk)

    def discard(self) -> None:
        """Forgets the part: its bytes are not what the version should hold."""
        self._path.unlink(missing_ok=True)
        self.settle()

    def settle(self) -> None:
        """Removes the state once the part has become the file."""
        self._state.unlink(missing_ok=True)

    def _here(self) -> int:
        return sum(segment.here - segment.start for segment in self._segments)

    def _wait_for(self, segment: _Segment) -> int:
        """Waits until a segment is whole; returns where it ends, which a split may have moved."""
        with self._moved:
            while segment.here < segment.end:
                self._raise_failure()
                self._moved.wait()
            return segment.end

    def _wait_behind(self, position: int) -> int:
        """Waits until a byte at `position` has arrived; returns up to where there is no gap."""
        with self._moved:
            while True:
                holder = next(found for found in self._segments if found.start <= position < found.end)
                if holder.here > position:
                    return holder.here
                self._raise_failure()
                self._moved.wait()

    def _split_if_slow(self, connections: int, send: Callable[[_Segment], None]) -> None:
        """Halves the longest missing stretch until every connection has one."""
        passed = self._clock.monotonic() - self._began
        if self._stopped or passed < _PATIENCE or (self._here() - self._had) / passed >= _FAST:
            return
        while True:
            missing = [found for found in self._segments if found.here < found.end]
            longest = max(missing, key=lambda found: found.end - found.here, default=None)
            if longest is None or len(missing) >= connections:
                return
            middle = longest.here + (longest.end - longest.here) // 2
            if longest.end - middle < _SEGMENT:
                return
            fresh = _Segment(middle, middle, longest.end)
            longest.end = middle
            self._segments.insert(self._segments.index(longest) + 1, fresh)
            send(fresh)

    def _raise_failure(self) -> None:
        if self._failure:
            raise self._failure

    def _fetch(
        self,
        segment: _Segment,
        fetch: Callable[[_Segment], Generator[bytes, None, None]],
        hashed: _Hashing | None,
        arrived: Callable[[], None],
    ) -> None:
        try:
            if segment.here < segment.end:
                self._fetch_segment(segment, fetch(segment), hashed, arrived)
        except BaseException as error:  # noqa: BLE001  it is raised in the thread that waits
            with self._moved:
                self._failure = self._failure or error
                self._moved.notify_all()

    def _fetch_segment(
        self,
        segment: _Segment,
        pieces: Generator[bytes, None, None],
        hashed: _Hashing | None,
        arrived: Callable[[], None],
    ) -> None:
        writing = own_disk("write", self._path)
        with writing:
            sink = self._path.open("r+b", buffering=0)
            sink.seek(segment.here)
        with sink, closing(pieces):
            for piece in pieces:
                if self._stopped:
                    return
                with writing:
                    _write(sink, piece)
                with self._moved:
                    whole = self._count(segment, piece, hashed)
                    arrived()
                if whole:
                    return

    def _count(self, segment: _Segment, piece: bytes, hashed: _Hashing | None) -> bool:
        """Counts a piece; whether the segment is whole, which a split may have made shorter."""
        taken = min(len(piece), segment.end - segment.here)
        if hashed:
            hashed(memoryview(piece)[:taken])
        segment.here += taken
        whole = segment.here == segment.end
        if whole or self._here() - self._noted >= _NOTE_EVERY:
            self._note()
            self._moved.notify_all()
        return whole

    def _note(self) -> None:
        """Remembers how far each segment is. A torn note means starting anew."""
        self._noted = self._here()
        if self._entry.size >= _WORTH_NOTING:
            segments = [[found.start, found.here, found.end] for found in self._segments]
            with own_disk("write", self._state):
                self._state.write_text(
                    json.dumps({"etag": self._entry.etag, "segments": segments}), encoding="utf-8"
                )


def _write(sink: RawIOBase, piece: bytes) -> None:
    """Unbuffered, so that what the state says has arrived is with the operating system."""
    view = memoryview(piece)
    while view:
        view = view[sink.write(view) :]


def _state_of(path: Path) -> Path:
    return path.with_name(path.name + ".state")


def _read_state(path: Path) -> tuple[str, list[_Segment]]:
    """(etag, segments) that an earlier pull noted; ("", []) for none that can be used."""
    try:
        found = json.loads(_state_of(path).read_text(encoding="utf-8"))
        segments = [_Segment(int(start), int(here), int(end)) for start, here, end in found["segments"]]
        return str(found["etag"]), segments
    except (OSError, ValueError, KeyError, TypeError):
        return "", []
