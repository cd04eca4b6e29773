"""What a model file holds beside its tensors: text in a header, bytes between the members of an archive.

Whoever lists the tensors that may leave means that nothing else does.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

_LOCAL = struct.Struct("<26xHH")
_MOST_EXTRA = 36  # bytes: sizes beyond 4 GiB, which NumPy always writes, and a Unix time
_MOST_DESCRIPTOR = 24  # bytes behind a member whose sizes were not known before
_END = 22 + 56 + 20  # bytes: the end of an archive, in its long form as well
_CENTRAL = 46
_DESCRIBED_LATER = 0x8
_FRAMEWORKS = frozenset({"pt", "tf", "flax", "np", "mlx"})


def beside_tensors(path: Path) -> str:
    """What a file that could be opened holds beside its tensors, in a few words; "" for nothing.

    Args:
        path: a `.npz` or `.safetensors`.
    """
    if path.suffix.lower() == ".safetensors":
        return _metadata(path)
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        if archive.comment:
            return "a comment in its archive"
        if any(member.comment or len(member.extra) > _MOST_EXTRA for member in archive.infolist()):
            return "notes beside its arrays"
        size = path.stat().st_size
        if any(gap > most for gap, most in _gaps(archive, file, size=size)):
            return "bytes that are no array"
    return ""


def _metadata(path: Path) -> str:
    """Any metadata, but for the name of the framework that `save_pretrained` writes."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        said = json.loads(file.read(length)).get("__metadata__") or {}
    known = isinstance(said, dict) and set(said) == {"format"} and said["format"] in _FRAMEWORKS
    return "" if not said or known else "metadata in its header"


def _gaps(archive: zipfile.ZipFile, file: BinaryIO, *, size: int) -> Iterator[tuple[int, int]]:
    """How many bytes lie before, between and behind the members, and how many may."""
    end = later = listed = 0
    for member in sorted(archive.infolist(), key=lambda one: one.header_offset):
        yield member.header_offset - end, later
        file.seek(member.header_offset)
        name, extra = _LOCAL.unpack(file.read(_LOCAL.size))
        yield extra, _MOST_EXTRA
        end = member.header_offset + _LOCAL.size + name + extra + member.compress_size
        later = _MOST_DESCRIPTOR if member.flag_bits & _DESCRIBED_LATER else 0
        listed += _CENTRAL + name + len(member.extra)
    yield archive.start_dir - end, later
    yield size - archive.start_dir - listed, _END
