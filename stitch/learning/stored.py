"""One tensor as it lies in a file, read in ranges: nothing is loaded that is not asked for."""

from __future__ import annotations

import os
import zipfile
import zlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from stitch.errors import BadModel
from stitch.learning.specs import Array, Spec


class StoredTensor(ABC):
    """One tensor of an open model file.

    Attributes:
        spec: its shape and dtype.
    """

    spec: Spec

    @abstractmethod
    def read_range(self, start: int, stop: int) -> Array:
        """Elements `start` to `stop` in C order: a new array, shape (stop - start,)."""

    def close(self) -> None:  # noqa: B027  most open nothing
        """Let go of what reading it opened."""


class RawTensor(StoredTensor):
    """Plain bytes at a place in the file.

    Args:
        file: the open file, unbuffered.
        path: the same, for memory maps.
        offset: of the first byte.
        spec: what the file says; the caller has checked that so many bytes are there.
        stored: the dtype in the file's byte order.
        fortran: whether the first axis varies fastest.
    """

    def __init__(
        self,
        file: BinaryIO,
        path: Path,
        *,
        offset: int,
        spec: Spec,
        stored: np.dtype[Any],
        fortran: bool = False,
    ) -> None:
        self.spec = spec
        self._file, self._path = file, path
        self._offset, self._stored = offset, stored
        self._fortran = fortran and sum(length > 1 for length in spec.shape) > 1

    def read_range(self, start: int, stop: int) -> Array:
        """See `StoredTensor.read_range`."""
        if self._fortran:
            return self._gathered(start, stop)
        at, length = self._offset + start * self._stored.itemsize, (stop - start) * self._stored.itemsize
        self._file.seek(at)
        values = filled(self._file, stop - start, stored=self._stored)
        if hasattr(os, "posix_fadvise"):  # the disk reads what comes next while this is computed with
            os.posix_fadvise(self._file.fileno(), at + length, length, os.POSIX_FADV_WILLNEED)
        return values

    def _gathered(self, start: int, stop: int) -> Array:
        """Whole rows of the first axis around the range, brought into C order."""
        mapped = np.memmap(
            self._path, self._stored, mode="r", offset=self._offset, shape=self.spec.shape, order="F"
        )
        row = self.spec.size // self.spec.shape[0]
        first = start // row
        rows = np.ascontiguousarray(mapped[first : -(-stop // row)], dtype=self.spec.dtype)
        return rows.reshape(-1)[start - first * row : stop - first * row].copy()


class DeflatedTensor(StoredTensor):
    """A compressed member of a zip archive; ranges that follow one another are read in one go.

    Args:
        archive: the open archive.
        member: the array's.
        header: bytes before the data.
        spec, stored, fortran: see `RawTensor`.
    """

    def __init__(
        self,
        archive: zipfile.ZipFile,
        member: zipfile.ZipInfo,
        *,
        header: int,
        spec: Spec,
        stored: np.dtype[Any],
        fortran: bool,
    ) -> None:
        self.spec = spec
        self._archive, self._member, self._header = archive, member, header
        self._stored, self._fortran = stored, fortran
        self._open: IO[bytes] | None = None

    def read_range(self, start: int, stop: int) -> Array:
        """See `StoredTensor.read_range`."""
        try:
            if self._fortran:
                whole = self._bytes(0, self.spec.size).reshape(self.spec.shape, order="F")
                return np.ascontiguousarray(whole).reshape(-1)[start:stop].copy()
            return self._bytes(start, stop)
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise BadModel("a compressed tensor cannot be read", hint="The file is damaged.") from error

    def _bytes(self, start: int, stop: int) -> Array:
        if self._open is None:
            self._open = self._archive.open(self._member)
        self._open.seek(self._header + start * self._stored.itemsize)
        return filled(self._open, stop - start, stored=self._stored)

    def close(self) -> None:
        """End the decompression."""
        if self._open is not None:
            self._open.close()
            self._open = None


class HeldTensor(StoredTensor):
    """An array that is in memory (or mapped) already."""

    def __init__(self, array: Array, spec: Spec) -> None:
        self.spec = spec
        self._array = array

    def read_range(self, start: int, stop: int) -> Array:
        """See `StoredTensor.read_range`."""
        return self._array.reshape(-1)[start:stop].copy()


def filled(file: IO[bytes] | BinaryIO, count: int, *, stored: np.dtype[Any]) -> Array:
    """Read `count` elements from where the file stands, in native byte order.

    Raises:
        BadModel: the file ends before.
    """
    array = np.empty(count, stored)
    wanted = array.view(np.uint8).data if count else memoryview(b"")
    done = 0
    while done < len(wanted):
        got = file.readinto(wanted[done:])  # type: ignore[union-attr]  # both kinds of file have it
        if not got:
            raise BadModel("the file ends within a tensor", hint="It was cut off: write it again.")
        done += got
    return array.astype(stored.newbyteorder("="), copy=False)
