"""What every backend does on a file system: hash while copying, flush, rename, say whose disk failed."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO

from stitch.files import disk_error, retried

CHUNK = 1 << 18
"""Bytes moved at a time: memory of a MiB at once is asked of the system and cleared anew each time, which
costs a large transfer up to half as much again (measured)."""


class own_disk(AbstractContextManager[None]):  # noqa: N801  a verb at its call: `with own_disk("read", path)`
    """Turns an `OSError` on this actor's own disk into a `DiskError` that names the file. Reusable."""

    def __init__(self, what: str, path: Path) -> None:
        self._what = what
        self._path = path

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise disk_error(self._path, error, what=self._what) from error


def sha256_file(path: Path) -> str:
    """The lower-case hex SHA-256 of a file.

    Raises:
        DiskError: the file cannot be read.
    """
    digest = hashlib.sha256()
    with own_disk("read", path), path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def chunks(source: BinaryIO, failures: AbstractContextManager[None]) -> Iterator[bytes]:
    """The stream in pieces of `CHUNK`; what a read raises passes through `failures` (reusable)."""
    while True:
        with failures:
            chunk = source.read(CHUNK)
        if not chunk:
            return
        yield chunk


def write_hashed(
    pieces: Iterable[bytes], target: IO[bytes], *, moved: Callable[[int], None] | None = None
) -> tuple[str, int]:
    """Writes pieces and returns their digest and length; `moved` hears the bytes done so far."""
    digest = hashlib.sha256()
    done = 0
    for chunk in pieces:
        digest.update(chunk)
        target.write(chunk)
        done += len(chunk)
        if moved:
            moved(done)
    return digest.hexdigest(), done


def is_file(found: os.stat_result) -> bool:
    """Whether it is a plain file: a folder, pipe or device under a key's name is no key."""
    return stat.S_ISREG(found.st_mode)


def open_file(path: Path) -> BinaryIO:
    """Open a plain file for reading; whoever may write into a shared folder can put a pipe there.

    Raises:
        IsADirectoryError: it is no plain file. Opening a pipe would wait for ever.
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    if not is_file(os.fstat(handle)):
        os.close(handle)
        raise IsADirectoryError(errno.EISDIR, "no plain file", str(path))
    return os.fdopen(handle, "rb")


def fsync_stream(stream: IO[bytes]) -> None:
    """Flushes a written file to its disk."""
    stream.flush()
    os.fsync(stream.fileno())


def replace_file(source: Path, target: Path) -> None:
    """A rename over the target, tried again while a virus scanner or a reader holds the target on Windows.

    Raises:
        OSError: when it still fails after about two seconds.
    """
    retried(lambda: source.replace(target))


def part_of(target: Path) -> Path:
    """Where the bytes of `target` gather before it appears."""
    return target.with_name(target.name + ".part")
