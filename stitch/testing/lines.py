"""What stands between a process and the store: a line that tells of each request, a record of writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from stitch.store.base import Entry, Mode, Progress, Store, Traits


class Line:
    """One process's line to the store: tells of each request before it is made."""

    def __init__(self, inner: Store, before: Callable[[str, str], None]) -> None:
        self._inner = inner
        self._before = before

    @property
    def traits(self) -> Traits:
        """See `Store.traits`."""
        return self._inner.traits

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        self._before("stat", key)
        return self._inner.stat(key)

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`."""
        self._before("list", prefix)
        return self._inner.list(prefix)

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`."""
        self._before("pull", key)
        return self._inner.pull(key, to, unless=unless, progress=progress)

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """See `Store.push`."""
        self._before("push", key)
        return self._inner.push(src, key, mode=mode, digest=digest, progress=progress)

    def now(self) -> datetime:
        """See `Store.now`."""
        self._before("now", "")
        return self._inner.now()


class Record:
    """The store itself, with a record of every write that reached it.

    Attributes:
        inner: the store.
        written: the digests written to each key, in order.
    """

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.written: dict[str, list[str]] = {}

    @property
    def traits(self) -> Traits:
        """See `Store.traits`."""
        return self.inner.traits

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        return self.inner.stat(key)

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`."""
        return self.inner.list(prefix)

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`."""
        return self.inner.pull(key, to, unless=unless, progress=progress)

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """See `Store.push`."""
        entry = self.inner.push(src, key, mode=mode, digest=digest, progress=progress)
        self.written.setdefault(key, []).append(entry.digest or "")
        return entry

    def now(self) -> datetime:
        """See `Store.now`."""
        return self.inner.now()
