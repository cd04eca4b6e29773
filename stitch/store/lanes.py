"""The stores of one run, by lane, behind paths relative to the run.

Every lane may lie in a store of its own, because no SAS confines a site to a prefix; with one store
for all, the lanes share it. Reading a lane for which this actor has no store is `StoreDenied`:
the lane is *unknown*, not empty (law 7).
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from stitch import layout
from stitch.errors import BadDocument, EgressRefused, NotFound, StoreDenied, StoreMissing
from stitch.files import disk, retried, scratch
from stitch.store.base import Entry, Mode, Progress, Store, Traits


@dataclass(frozen=True, slots=True)
class Lanes:
    """Where each lane of a run is.

    Attributes:
        run_id: the first component of every key.
        stores: by lane ("global", "sites/<id>").
        heartbeats: stores used to write a lane's heartbeat, where it has a token of its own.
        outbox: a folder that gets a copy of every file before it leaves, for whoever must be shown
            what left; None keeps none.
        writable: the lanes this actor owns (law 1); None for whoever only tests stores.
        rest: the store of every lane that has none of its own: of sites that joined the roster later.
    """

    run_id: str
    stores: Mapping[str, Store]
    heartbeats: Mapping[str, Store]
    outbox: Path | None = None
    writable: frozenset[str] | None = None
    rest: Store | None = None

    def has(self, lane: str) -> bool:
        """Whether this actor has a store for the lane."""
        return lane in self.stores or self.rest is not None

    def store_of(self, path: str) -> Store:
        """The store that holds a path.

        Raises:
            StoreDenied: this actor has no store for that lane.
        """
        lane = layout.lane_of(path)
        store = self.stores.get(lane, self.rest)
        if store is None:
            raise StoreDenied(
                f"no store is configured for the lane {lane}",
                hint="Put its URL into .env (STITCH_STORE, or one of STITCH_STORE_GLOBAL, _SITE, _<ID>).",
            )
        return store

    def traits(self, lane: str) -> Traits:
        """What the lane's store can promise."""
        return self.store_of(f"{lane}/").traits

    def now(self, lane: str) -> datetime:
        """The clock of the lane's store."""
        return self.store_of(f"{lane}/").now()

    def stat(self, path: str) -> Entry | None:
        """`Store.stat`, with a path relative to the run."""
        entry = self.store_of(path).stat(self._key(path))
        return entry and self._relative(entry)

    def list(self, prefix: str) -> Iterator[Entry]:
        """`Store.list` below a lane; the prefix begins with the lane."""
        for entry in self.store_of(prefix).list(self._key(prefix)):
            yield self._relative(entry)

    def pull(self, path: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """`Store.pull`, with a path relative to the run."""
        entry = self.store_of(path).pull(self._key(path), to, unless=unless, progress=progress)
        return self._relative(entry)

    def push(
        self, src: Path, path: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """`Store.push`, with a path relative to the run that the layout must name (law 8).

        Raises:
            BadDocument: the layout does not name the path.
            EgressRefused: the lane is not ours.
        """
        lane = layout.require(path).lane
        if self.writable is not None and lane not in self.writable:
            raise EgressRefused(f"{path} is not ours to write: a lane has one writer (law 1)")
        self._keep_copy(src, path)
        own = self.heartbeats.get(lane) if path == layout.heartbeat(lane) else None
        entry = (own or self.store_of(path)).push(
            src, self._key(path), mode=mode, digest=digest, progress=progress
        )
        return self._relative(entry)

    def read(self, path: str, *, limit: int, unless: str = "") -> tuple[Entry, bytes] | None:
        """A small document's entry and bytes; None when it does not exist.

        With `unless`, an unchanged document gives its entry and no bytes, at the cost of one
        conditional request.

        Raises:
            BadDocument: it is larger than `limit` bytes; it is not fetched then.
        """
        store, key = self.store_of(path), self._key(path)
        with scratch() as folder:
            to = folder / "document"
            guard = _Limit(path, limit)
            try:
                entry = store.pull(key, to, unless=unless, progress=guard)
            except StoreMissing:
                raise
            except NotFound:
                return None
            if unless and entry.etag == unless:
                return self._relative(entry), b""
            if entry.size > limit:
                raise BadDocument(f"{path}: {entry.size} bytes, more than a document may have ({limit})")
            with disk(to):
                return self._relative(entry), to.read_bytes()

    def write(self, path: str, data: bytes, *, mode: Mode) -> Entry:
        """Push a small document from memory."""
        with scratch() as folder:
            src = folder / "document"
            with disk(src):
                src.write_bytes(data)
            return self.push(src, path, mode=mode)

    def _keep_copy(self, src: Path, path: str) -> None:
        """Before the upload: a crash may leave a copy of what never left, and never the reverse."""
        if self.outbox is None:
            return
        copy = self.outbox / self.run_id / layout.mirror_path(path)
        with disk(copy):
            copy.parent.mkdir(parents=True, exist_ok=True)
            # A person's command may publish the same key beside the process that runs.
            whole = copy.with_name(f".{copy.name}.{secrets.token_hex(4)}.tmp")
            try:
                shutil.copyfile(src, whole)
                retried(lambda: whole.replace(copy))
            finally:
                whole.unlink(missing_ok=True)

    def _key(self, path: str) -> str:
        return f"{self.run_id}/{path}"

    def _relative(self, entry: Entry) -> Entry:
        return replace(entry, key=entry.key.removeprefix(f"{self.run_id}/"))


@dataclass(frozen=True, slots=True)
class _Limit:
    """Stops a transfer as soon as it shows itself larger than a document may be."""

    path: str
    limit: int

    def __call__(self, done: int, total: int) -> None:
        if max(done, total) > self.limit:
            raise BadDocument(
                f"{self.path}: {max(done, total)} bytes, more than a document may have ({self.limit})"
            )
