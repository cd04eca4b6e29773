"""Counting what goes through a store, and telling how fast a transfer is."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

from stitch.clock import Clock, SystemClock
from stitch.store.base import Entry, Mode, Progress, Store, Traits

_QUIET = 0.2
"""Seconds between two reports of one transfer."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """How far one file is.

    Attributes:
        key: where from or to.
        direction: as seen from this machine.
        done: bytes moved.
        total: bytes in all.
        rate: bytes a second since it began.
    """

    key: str
    direction: Literal["up", "down"]
    done: int
    total: int
    rate: float


@dataclass(slots=True)
class Meter:
    """Totals since the start.

    Attributes:
        requests: calls by verb (stat, list, pull, push, now), failed ones included.
        unchanged: pulls that found the known version and moved nothing.
        bytes_up: content pushed successfully.
        bytes_down: content pulled successfully.
    """

    requests: Counter[str] = field(default_factory=Counter)
    unchanged: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


class MeteredStore:
    """Passes everything on and keeps count.

    Args:
        store: what is counted.
        heard: called from the transferring thread, a few times a second and at the end of a file.
        clock: for the rate.
    """

    def __init__(
        self, store: Store, *, heard: Callable[[Transfer], None] | None = None, clock: Clock | None = None
    ) -> None:
        self._store = store
        self._heard = heard
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self.meter = Meter()

    @property
    def traits(self) -> Traits:
        """The backend's."""
        return self._store.traits

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        self._count("stat")
        return self._store.stat(key)

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`."""
        self._count("list")
        return self._store.list(prefix)

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`."""
        self._count("pull")
        entry = self._store.pull(key, to, unless=unless, progress=self._reporter(key, "down", progress))
        with self._lock:
            if unless and entry.etag == unless:
                self.meter.unchanged += 1
            else:
                self.meter.bytes_down += entry.size
        return entry

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """See `Store.push`."""
        self._count("push")
        entry = self._store.push(
            src, key, mode=mode, digest=digest, progress=self._reporter(key, "up", progress)
        )
        with self._lock:
            self.meter.bytes_up += entry.size
        return entry

    def now(self) -> datetime:
        """See `Store.now`."""
        self._count("now")
        return self._store.now()

    def _count(self, verb: str) -> None:
        with self._lock:
            self.meter.requests[verb] += 1

    def _reporter(
        self, key: str, direction: Literal["up", "down"], progress: Progress | None
    ) -> Progress | None:
        heard = self._heard
        if heard is None:
            return progress
        began = self._clock.monotonic()
        last = began

        def report(done: int, total: int) -> None:
            nonlocal last
            now = self._clock.monotonic()
            if done >= total or now - last >= _QUIET:
                last = now
                heard(Transfer(key, direction, done, total, done / max(now - began, 1e-6)))
            if progress:
                progress(done, total)

        return report
