"""A store in this process's memory: for tests, simulations and the first minutes of a notebook."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from stitch.clock import Clock, SystemClock
from stitch.errors import AlreadyExists, DigestMismatch, NotFound
from stitch.store.base import Entry, Match, Mode, Progress, Traits
from stitch.store.disk import chunks, own_disk, part_of, replace_file, write_hashed
from stitch.store.keys import check_key


@dataclass(frozen=True, slots=True)
class _Held:
    entry: Entry
    content: bytes


class MemoryStore:
    """A dictionary behind the store contract. Share the object: that is the store.

    Args:
        clock: gives `modified` and `now()`; a fake one makes liveness testable.
    """

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()

    @property
    def traits(self) -> Traits:
        """Everything but resuming, which memory does not need."""
        return Traits(atomic_create=True, compare_and_swap=True, server_time=True, ranged_reads=False)

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        with self._lock:
            held = self._held.get(check_key(key))
        return held.entry if held else None

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`; a snapshot of this moment."""
        with self._lock:
            found = [held.entry for key, held in self._held.items() if key.startswith(prefix)]
        return iter(sorted(found, key=lambda entry: entry.key))

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`."""
        with self._lock:
            held = self._held.get(check_key(key))
        if held is None:
            raise NotFound(f"{key} is not in the store")
        if unless and held.entry.etag == unless:
            return held.entry
        part = part_of(to)
        with own_disk("write", to):
            part.write_bytes(held.content)
            replace_file(part, to)
        if progress:
            progress(held.entry.size, held.entry.size)
        return held.entry

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """See `Store.push`."""
        check_key(key)
        sink = io.BytesIO()
        reading = own_disk("read", src)
        with reading:
            source = src.open("rb")
        with source:
            sent, size = write_hashed(chunks(source, reading), sink)
        if digest and sent != digest:
            raise DigestMismatch(f"{src} changed after it was sealed: nothing was sent as {key}")
        with self._lock:
            self._refuse(key, mode)
            entry = Entry(key=key, size=size, etag=sent, modified=self._clock.now(), digest=sent)
            self._held[key] = _Held(entry, sink.getvalue())
        if progress:
            progress(size, size)
        return entry

    def _refuse(self, key: str, mode: Mode) -> None:
        held = self._held.get(key)
        if mode == "create" and held:
            raise AlreadyExists(f"{key} is already in the store")
        if isinstance(mode, Match) and (held is None or held.entry.etag != mode.etag):
            raise AlreadyExists(f"{key} is not the version that was read")

    def now(self) -> datetime:
        """The injected clock's time."""
        return self._clock.now()
