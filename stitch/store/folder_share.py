"""What a mounted folder can do, tried out on it, and its failures put into words."""

from __future__ import annotations

import errno
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import filelock

from stitch.errors import StoreDenied, StoreUnavailable

_NO_LINKS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EINVAL, errno.EACCES}
)
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_LOCK_WAIT = 20.0
"""Seconds: holders keep the lock for a stat and a rename only."""


class share_errors(AbstractContextManager[None]):  # noqa: N801  a context manager, named as it reads
    """Turns an `OSError` of the shared folder into a `StoreError`. Reusable."""

    def __init__(self, what: str, key: str) -> None:
        self._what = what
        self._key = key

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, OSError):
            return
        cause = f"cannot {self._what} {self._key}: {error.strerror or error}"
        if error.errno in _REFUSED:
            raise StoreDenied(
                cause,
                hint="Ask the owner of the shared folder for the right to it; see `clif-stitch doctor`.",
            ) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT if hasattr(errno, "EDQUOT") else errno.ENOSPC):
            raise StoreUnavailable(
                cause, hint="The shared folder is full: ask its owner for space."
            ) from error
        raise StoreUnavailable(
            cause, hint="Is the shared folder still mounted? Re-running continues."
        ) from error


def temporary_name() -> str:
    """A fresh name that no listing shows."""
    return f".stitch-{secrets.token_hex(8)}.tmp"


class Share:
    """A root folder's abilities, each tried once and remembered."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._guard = threading.RLock()
        self._writable: bool | None = None
        self._links: bool | None = None

    @property
    def writable(self) -> bool:
        """Whether this actor may create a file directly under the root."""
        self._try_out()
        return bool(self._writable)

    @property
    def links(self) -> bool:
        """Whether the mount has hard links; assumed where we may not try."""
        self._try_out()
        return bool(self._links)

    @property
    def creates_atomically(self) -> bool:
        """A hard link refuses an existing name, and so does a rename on Windows."""
        return sys.platform == "win32" or self.links

    def probe_time(self) -> datetime:
        """The share's clock: the time its server gives a file written now.

        Raises:
            OSError: the folder cannot be written.
        """
        probe = self._root / temporary_name()
        try:
            probe.write_bytes(b"?")
            return datetime.fromtimestamp(probe.stat().st_mtime, UTC)
        finally:
            probe.unlink(missing_ok=True)

    def _try_out(self) -> None:
        with self._guard:
            if self._writable is None:
                self._writable, self._links = _try_out(self._root)

    @contextmanager
    def exclusive(self, path: Path) -> Iterator[None]:
        """Holds the lock beside `path` against this and, where the mount locks, other machines.

        Raises:
            StoreUnavailable: another process kept it for long.
        """
        lock = filelock.FileLock(path.with_name(f".{path.name}.lock"), timeout=_LOCK_WAIT)
        try:
            # POSIX locks of a network mount do not hold between two threads of one process.
            with self._guard, lock:
                yield
        except filelock.Timeout:
            raise StoreUnavailable(f"{path.name} is locked by another process") from None


def _try_out(root: Path) -> tuple[bool, bool]:
    """(writable, has hard links) of a folder."""
    first, second = root / temporary_name(), root / temporary_name()
    try:
        first.write_bytes(b"?")
    except OSError:
        return False, True
    try:
        os.link(first, second)
    except OSError:
        return True, False
    else:
        return True, True
    finally:
        first.unlink(missing_ok=True)
        second.unlink(missing_ok=True)


def create_without_overwrite(temporary: Path, path: Path, *, links: bool) -> None:
    """Gives a finished file its name, unless that name is taken.

    Raises:
        FileExistsError: it is taken.
        OSError: the share failed.
    """
    if links:
        try:
            os.link(temporary, path)
        except FileExistsError:
            # NFS repeats a link call whose reply was lost: ours then counts two names.
            if temporary.stat().st_nlink == 2 and temporary.samefile(path):
                return
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            return
    if sys.platform != "win32" and path.exists():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    temporary.rename(path)
