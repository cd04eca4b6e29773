"""NumPy's `.npz`: a zip archive with one `.npy` member a tensor. Never a pickle.

The format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np
from numpy.lib import format as npy

from stitch.errors import BadModel
from stitch.learning.specs import MOST_TENSORS, Array, Spec, check_name, check_shape, checked_dtype
from stitch.learning.stored import DeflatedTensor, RawTensor, StoredTensor

_ENDING = ".npy"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say: the time of writing is no part of a model
_LOCAL = struct.Struct("<4s22xHH")
_BOMB_FLOOR = 1 << 30
_BOMB_RATIO = 20
_DAMAGED = "The file is damaged or no .npz: write it with numpy.savez."
_BOMB = "Write it uncompressed with numpy.savez."


def open_npz(path: Path, stack: ExitStack) -> dict[str, StoredTensor]:
    """Open an archive and check what it says of every tensor; no data is read.

    Args:
        path: of the file.
        stack: closes what is opened here.

    Returns:
        The tensors by name, in the archive's order.

    Raises:
        BadModel: it is no such archive, a member is no plain array, or a header lies about its bytes.
    """
    file = stack.enter_context(path.open("rb", buffering=0))
    try:
        archive = stack.enter_context(zipfile.ZipFile(path))
        members = archive.infolist()
        _check_members(members, path.stat().st_size)
        tensors: dict[str, StoredTensor] = {}
        for member in members:
            name = _name_of(member, known=tensors)
            tensors[name] = _tensor(file, path, archive=archive, member=member)
    except (zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, EOFError) as error:
        raise BadModel("the model is no .npz archive", hint=_DAMAGED) from error
    _check_places(members)
    return tensors


def _check_members(members: list[zipfile.ZipInfo], size: int) -> None:
    if len(members) > MOST_TENSORS:
        raise BadModel(f"the model has {len(members)} tensors", hint=f"At most {MOST_TENSORS} are read.")
    if any(member.flag_bits & 0x1 for member in members):
        raise BadModel("a tensor is encrypted", hint=_DAMAGED)
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise BadModel("a tensor is compressed in an unknown way", hint=_BOMB)
    if sum(member.file_size for member in members) > max(_BOMB_FLOOR, _BOMB_RATIO * size):
        raise BadModel(f"the model unpacks to more than {_BOMB_RATIO} times its size", hint=_BOMB)


def _check_places(members: Iterable[zipfile.ZipInfo]) -> None:
    """Members that share bytes make a small file out of a large one: no writer does that."""
    end = 0
    for member in sorted(members, key=lambda one: one.header_offset):
        if member.header_offset < end:
            raise BadModel("two tensors share bytes of the archive", hint=_DAMAGED)
        end = member.header_offset + _LOCAL.size + member.compress_size


def _name_of(member: zipfile.ZipInfo, *, known: dict[str, StoredTensor]) -> str:
    if not member.filename.endswith(_ENDING) or member.orig_filename != member.filename:
        raise BadModel("the archive holds something else than arrays", hint=_DAMAGED)
    name = member.filename.removesuffix(_ENDING)
    check_name(name)
    if name in known:
        raise BadModel(f"the tensor {name[:40]!a} is there twice", hint=_DAMAGED)
    return name


def _tensor(file: BinaryIO, path: Path, *, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> StoredTensor:
    with archive.open(member) as opened:
        shape, fortran, stored = _read_header(opened)
        header = opened.tell()
    check_shape(shape)
    spec = Spec(shape, checked_dtype(stored))
    if header + spec.n_bytes != member.file_size:
        raise BadModel("an array's header does not fit its bytes", hint=_DAMAGED)
    if member.compress_type == zipfile.ZIP_DEFLATED:
        return DeflatedTensor(
            archive, member, header=header, spec=spec, stored=stored, fortran=fortran and len(shape) > 1
        )
    file.seek(member.header_offset)
    signature, name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
    offset = member.header_offset + _LOCAL.size + name + extra
    whole = offset + member.file_size <= path.stat().st_size and member.file_size == member.compress_size
    if signature != b"PK\x03\x04" or not whole:
        raise BadModel("an array lies outside of the file", hint=_DAMAGED)
    return RawTensor(file, path, offset=offset + header, spec=spec, stored=stored, fortran=fortran)


def _read_header(opened: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = npy.read_magic(opened)
        if version == (1, 0):
            return npy.read_array_header_1_0(opened)
        if version == (2, 0):
            return npy.read_array_header_2_0(opened)
    except (ValueError, TypeError, SyntaxError) as error:
        raise BadModel("an array has no readable header", hint=_DAMAGED) from error
    raise BadModel(f"an array is of the .npy version {version[0]}.{version[1]}", hint=_DAMAGED)


class NpzSink:
    """Writes an archive of uncompressed arrays, the same bytes for the same tensors everywhere.

    Args:
        path: where; what is there is replaced.
    """

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_STORED)
        self._open: IO[bytes] | None = None

    def begin(self, name: str, spec: Spec) -> None:
        """Begin a tensor; its bytes follow."""
        member = zipfile.ZipInfo(name + _ENDING, date_time=_EPOCH)
        member.create_system = 3  # zipfile would say where it runs
        member.external_attr = 0o600 << 16
        header = _header(spec)
        # Only where it must: what zipfile writes then changed in Python 3.11.4, and a model's bytes may not.
        large = len(header) + spec.n_bytes > zipfile.ZIP64_LIMIT
        self._open = self._archive.open(member, "w", force_zip64=large)
        self._open.write(header)

    def append(self, data: Array) -> None:
        """More elements of the tensor, C order."""
        assert self._open is not None  # noqa: S101  begin() was called
        self._open.write(data.view(np.uint8).data)

    def end(self) -> None:
        """The tensor is whole."""
        assert self._open is not None  # noqa: S101  begin() was called
        self._open.close()
        self._open = None

    def close(self) -> None:
        """Write what makes it an archive."""
        if self._open is not None:
            self.end()
        self._archive.close()


def _header(spec: Spec) -> bytes:
    """The header of `.npy` version 1.0, written here since NumPy pads it differently over the years."""
    order = spec.dtype.newbyteorder("<").str
    text = f"{{'descr': '{order}', 'fortran_order': False, 'shape': {spec.shape!r}, }}"
    prefix = b"\x93NUMPY\x01\x00"
    padding = -(len(prefix) + 2 + len(text) + 1) % 64
    body = text.encode("latin1") + b" " * padding + b"\n"
    return prefix + struct.pack("<H", len(body)) + body
