"""A store in a folder: a local disk, an NFS or SMB share, or a folder that Box Drive or OneDrive syncs."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from stitch.clock import Clock, SystemClock
from stitch.errors import AlreadyExists, DigestMismatch, NotFound, StoreMissing, StoreUnavailable
from stitch.files import sync_folder
from stitch.store.base import Entry, Match, Mode, Progress, Traits
from stitch.store.conflicts import Conflict, find_conflicts
from stitch.store.disk import (
    chunks,
    fsync_stream,
    is_file,
    open_file,
    own_disk,
    part_of,
    replace_file,
    write_hashed,
)
from stitch.store.folder_share import Share, create_without_overwrite, share_errors, temporary_name
from stitch.store.keys import check_key, is_noise
from stitch.store.server_clock import ServerClock

_LEFT_BEHIND = 86_400
"""Seconds after which a temporary file has no writer any more."""


class FolderStore:
    """Keys as files under a root folder that must exist.

    A file is written under a temporary name, flushed, and appears in one step: a hard link for
    "create" (the link call refuses an existing name on every host of a share), a rename for a
    replace. `modified` is the file time that the share's server wrote.

    Args:
        root: the folder. It is never created: a mistyped path must not look like an empty store.
        synced: the folder is copied between machines by Box Drive, OneDrive or the like. Then
            nothing is atomic across machines and times are the writers' own.
        clock: this machine's clocks.
    """

    def __init__(self, root: Path, *, synced: bool = False, clock: Clock | None = None) -> None:
        self._root = root
        self._synced = synced
        self._clock = clock or SystemClock()
        self._server = ServerClock(self._clock)
        self._share = Share(root)
        self._swept: set[Path] = set()
        self._lock = threading.Lock()

    @property
    def traits(self) -> Traits:
        """Tried out on the folder at first use.

        Raises:
            StoreMissing: the root folder is not there.
        """
        self._require_root()
        return Traits(
            atomic_create=not self._synced and self._share.creates_atomically,
            compare_and_swap=not self._synced,
            server_time=not self._synced and self._share.writable,
            ranged_reads=False,
        )

    def stat(self, key: str) -> Entry | None:
        """See `Store.stat`."""
        path = self._path(key)
        with share_errors("read", key):
            try:
                found = path.stat()
            except (FileNotFoundError, NotADirectoryError):
                self._require_root()
                return None
        return _entry(key, found) if is_file(found) else None

    def list(self, prefix: str) -> Iterator[Entry]:
        """See `Store.list`; temporary files, dotfiles and desktop leftovers are not keys."""
        self._require_root()
        with share_errors("list", prefix):
            found = dict(self._walk(prefix))
        return (found[key] for key in sorted(found))

    def conflicts(self, prefix: str) -> tuple[Conflict, ...]:
        """Copies that a sync client or Explorer set aside beside a key, sorted by name.

        They are reported and never read as that key: two machines wrote it (law 10).
        """
        return find_conflicts(entry.key for entry in self.list(prefix))

    def pull(self, key: str, to: Path, *, unless: str = "", progress: Progress | None = None) -> Entry:
        """See `Store.pull`."""
        path = self._path(key)
        reading = share_errors("read", key)
        with reading:
            try:
                source = open_file(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                self._require_root()
                raise NotFound(f"{key} is not in {self._root}") from None
        with source:
            before = _entry(key, os.fstat(source.fileno()))
            if unless and before.etag == unless:
                return before
            part = part_of(to)
            with own_disk("write", to), part.open("wb") as sink:
                digest, size = write_hashed(
                    chunks(source, reading), sink, moved=_reporter(progress, before.size)
                )
            after = _entry(key, os.fstat(source.fileno()))
        if size != before.size or after.etag != before.etag:
            raise StoreUnavailable(f"{key} changed while it was read")
        with own_disk("write", to):
            replace_file(part, to)
        if progress:
            progress(size, size)
        return replace(after, digest=digest)

    def push(
        self, src: Path, key: str, *, mode: Mode, digest: str = "", progress: Progress | None = None
    ) -> Entry:
        """See `Store.push`."""
        path = self._path(key)
        self._require_root()
        with own_disk("read", src):
            total = src.stat().st_size
        if mode == "create" and self.stat(key):
            raise AlreadyExists(f"{key} is already in {self._root}")
        with share_errors("write", key):
            self._make_folder(path.parent)
            with self._temporary(path.parent) as temporary:
                sent = self._fill(src, temporary, _reporter(progress, total))
                if digest and sent != digest:
                    raise DigestMismatch(f"{src} changed after it was sealed: nothing was sent as {key}")
                entry = self._publish(temporary, path, key, mode)
            sync_folder(path.parent)
        if progress:
            progress(entry.size, entry.size)
        return replace(entry, digest=sent)

    def now(self) -> datetime:
        """The share's time: a file is written and its time read, then carried on for a minute.

        A folder that we may only read, and a synced one, give the local clock.
        """
        if not self.traits.server_time:
            return self._clock.now()
        known = self._server.now()
        if known is None:
            with share_errors("write", "a probe file"):
                known = self._share.probe_time()
            self._server.hear(known)
        return known

    def _path(self, key: str) -> Path:
        return self._root.joinpath(*check_key(key).split("/"))

    def _require_root(self) -> None:
        with share_errors("read", str(self._root)):
            if self._root.is_dir():
                return
        raise StoreMissing(
            f"the store folder {self._root} does not exist",
            hint="Check the path, and that the share is mounted; the lead creates the folder once.",
        )

    def _walk(self, prefix: str) -> Iterator[tuple[str, Entry]]:
        """Only the folders that can hold the prefix are read."""
        above = prefix.rpartition("/")[0]
        waiting = [above]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(self._root / folder if folder else self._root) as items:
                    present = [item for item in items if not is_noise(item.name)]
            except (FileNotFoundError, NotADirectoryError):
                continue
            for item in present:
                key = f"{folder}/{item.name}" if folder else item.name
                if item.is_dir():
                    # A link to a folder above would be walked for ever, one to elsewhere is not the store.
                    if not item.is_symlink() and (key.startswith(prefix) or prefix.startswith(key + "/")):
                        waiting.append(key)
                elif key.startswith(prefix):
                    try:
                        found = Path(item.path).stat()
                    except FileNotFoundError:
                        continue
                    if is_file(found):
                        yield key, _entry(key, found)

    def _make_folder(self, folder: Path) -> None:
        missing = [parent for parent in (folder, *folder.parents) if not parent.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for made in missing:
            sync_folder(made.parent)

    @contextmanager
    def _temporary(self, folder: Path) -> Iterator[Path]:
        self._sweep(folder)
        temporary = folder / temporary_name()
        try:
            yield temporary
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)

    def _sweep(self, folder: Path) -> None:
        """Once a folder: removes what killed writers left there more than a day ago."""
        with self._lock:
            if folder in self._swept:
                return
            self._swept.add(folder)
        with suppress(OSError):
            for left in folder.glob(".stitch-*.tmp"):
                if self._clock.now().timestamp() - left.stat().st_mtime > _LEFT_BEHIND:
                    left.unlink(missing_ok=True)

    def _fill(self, src: Path, temporary: Path, moved: Callable[[int], None] | None) -> str:
        reading = own_disk("read", src)
        with reading:
            source = src.open("rb")
        with source, temporary.open("xb") as sink:
            digest, _ = write_hashed(chunks(source, reading), sink, moved=moved)
            fsync_stream(sink)
        _mark_version(temporary)
        return digest

    def _publish(self, temporary: Path, path: Path, key: str, mode: Mode) -> Entry:
        try:
            if mode == "create" and self.traits.atomic_create:
                entry = _entry(key, temporary.stat())
                create_without_overwrite(temporary, path, links=self._share.links)
                return entry
            with self._share.exclusive(path):
                if isinstance(mode, Match):
                    self._require_version(path, key, mode)
                if mode == "create":
                    create_without_overwrite(temporary, path, links=False)
                else:
                    replace_file(temporary, path)
                return _entry(key, path.stat())
        except FileExistsError:
            raise AlreadyExists(f"{key} is already in {self._root}") from None

    def _require_version(self, path: Path, key: str, mode: Match) -> None:
        try:
            present = _entry(key, path.stat()).etag
        except FileNotFoundError:
            present = ""
        if present != mode.etag:
            raise AlreadyExists(f"{key} is not the version that was read")


def _reporter(progress: Progress | None, total: int) -> Callable[[int], None] | None:
    return (lambda done: progress(done, total)) if progress else None


def _entry(key: str, found: os.stat_result) -> Entry:
    return Entry(
        key=key,
        size=found.st_size,
        etag=f"{found.st_mtime_ns:x}-{found.st_size:x}-{found.st_ino:x}",
        modified=datetime.fromtimestamp(found.st_mtime, UTC),
    )


def _mark_version(path: Path) -> None:
    """Makes the file time unlike any other, without moving it by a millisecond.

    A disk's clock may tick every few milliseconds and inodes are reused, so two versions of a
    heartbeat could look equal; equal etags must mean equal bytes.
    """
    with suppress(OSError):
        stamp = path.stat().st_mtime_ns
        os.utime(path, ns=(stamp, stamp - stamp % 1_000_000 + secrets.randbelow(1_000_000)))
