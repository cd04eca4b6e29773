"""Writing files so that a crash, a full disk or a virus scanner leaves them whole or absent."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from stitch.errors import DiskError

_TRIES = 40
_PAUSE_S = 0.05
_FULL_BYTES = 64 * 1024
_FREE = "Free space, then run the same command again."
_HELD_OPEN = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.ENOTEMPTY)
_LEFT_BEHIND_S = 3600


def file_sha256(file: Path) -> str:
    """Lower-case hex SHA-256 of a file's bytes."""
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def write_file(file: Path, data: bytes, *, durable: bool) -> None:
    """Write a small file whole or not at all: a temporary sibling, then a rename."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("wb") as sink:
            sink.write(data)
            if durable:
                sink.flush()
                os.fsync(sink.fileno())
        retried(lambda: temporary.replace(file))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        sync_folder(file.parent)


def retried(action: Callable[[], object]) -> None:
    """Run a rename again while a virus scanner or indexer holds the file open (Windows)."""
    pause = threading.Event()
    for attempt in range(_TRIES):
        try:
            action()
        except OSError as error:
            if sys.platform != "win32" or error.errno not in _HELD_OPEN or attempt == _TRIES - 1:
                raise
            pause.wait(_PAUSE_S)
        else:
            return


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; Windows has no such call, and some mounts refuse it."""
    if sys.platform == "win32":
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass  # FUSE and some SMB mounts answer EINVAL: the file itself was flushed before
    finally:
        os.close(handle)


def sync_file(file: Path) -> None:
    """Make a file's bytes durable; only Windows has to be able to write to it."""
    with file.open("rb+" if sys.platform == "win32" else "rb") as handle:
        os.fsync(handle.fileno())


def sync_tree(folder: Path) -> None:
    """Make all files below a folder durable, with their names; links are not followed."""
    for base, _, names in os.walk(folder):
        files = [Path(base, name) for name in names if stat.S_ISREG(os.lstat(Path(base, name)).st_mode)]
        for file in files:
            sync_file(file)
        sync_folder(Path(base))


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder in the machine's temporary folder that this account alone can open, removed at the end.

    A process that is killed leaves its own behind, with whatever models it was looking at: the next one
    of this account removes it.

    Raises:
        DiskError: the temporary folder is full, gone or read-only.
    """
    try:
        place = Path(tempfile.gettempdir())
        folder = Path(tempfile.mkdtemp(prefix=f"{_scratch_name()}{os.getpid()}-", dir=place))
    except OSError as error:
        raise disk_error(Path(error.filename or "TMPDIR"), error) from error
    try:
        _sweep(place)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _scratch_name() -> str:
    """What the folders of this machine begin with: process numbers of others mean nothing here."""
    host = re.sub(r"[^a-z0-9]+", "-", platform.node().lower())[:32]
    return f"stitch-{host}-"


@functools.cache
def _sweep(place: Path) -> None:
    """Once a process: remove what dead processes left there and nobody touched for an hour."""
    name = re.compile(rf"{re.escape(_scratch_name())}(\d{{1,9}})-\w+")
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        now = place.stat().st_mtime  # somebody made a folder in it just now
        for entry in entries:
            found = name.fullmatch(entry.name)
            if found is None or not entry.is_dir(follow_symlinks=False):
                continue
            if now - entry.stat().st_mtime > _LEFT_BEHIND_S and not _lives(int(found[1])):
                shutil.rmtree(entry.path, ignore_errors=True)


def _lives(pid: int) -> bool:
    import psutil  # noqa: PLC0415  rarely needed, and not light

    return psutil.pid_exists(pid)


@contextlib.contextmanager
def disk(path: Path) -> Iterator[None]:
    """Give the operating system's refusals a name and an advice.

    Raises:
        DiskError: full, read-only, forbidden, or failing.
    """
    try:
        yield
    except OSError as error:
        raise disk_error(path, error) from error


def disk_error(path: Path, error: OSError, *, what: str = "write to") -> DiskError:
    """The operating system's refusal as an error with a cause and an advice.

    Args:
        path: what was touched.
        error: the refusal.
        what: what was tried: "write to", "read".
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskError(f"the disk is full: {path}", hint=_FREE)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        hint = "Make the project folder writable for this account, then run the same command again."
        return DiskError(f"cannot {what} {path} ({error.strerror})", hint=hint)
    return DiskError(f"the disk failed at {path}: {error.strerror or error}")


def require_room(folder: Path, *, cause: BaseException) -> None:
    """Say that the disk is full where that is what lies behind another failure.

    Args:
        folder: where the failed work wrote.
        cause: its failure.

    Raises:
        DiskError: hardly a byte is left there.
    """
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    if free < _FULL_BYTES:
        raise DiskError(f"the disk is full: {folder}", hint=_FREE) from cause
