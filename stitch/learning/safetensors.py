"""Hugging Face's `.safetensors`: eight bytes of length, a JSON header, the data. Nothing in it runs.

The format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from stitch.errors import BadModel
from stitch.learning.specs import MOST_TENSORS, Array, Spec, check_name, check_shape
from stitch.learning.stored import RawTensor, StoredTensor

_MOST_HEADER = 100_000_000  # bytes, as the reference implementation has it
_METADATA = "__metadata__"
_LENGTH = struct.Struct("<Q")
_COPY = 1 << 22
_DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2",
    "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1",
    "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1",
    "BOOL": "|b1",
}  # fmt: skip
_NAMES = {np.dtype(order): name for name, order in _DTYPES.items()}
_DAMAGED = "The file is damaged or no .safetensors: write it again."


def open_safetensors(path: Path, stack: ExitStack) -> dict[str, StoredTensor]:
    """Open a file and check its header; no data is read.

    Args:
        path: of the file.
        stack: closes what is opened here.

    Returns:
        The tensors by name, in the order of their data.

    Raises:
        BadModel: the header is not what the format asks for, or does not cover the data without a
            hole or an overlap.
    """
    file = stack.enter_context(path.open("rb", buffering=0))
    entries, start = _header_of(file, path.stat().st_size)
    tensors: dict[str, StoredTensor] = {}
    end = 0
    for name, (spec, first, last) in sorted(entries.items(), key=lambda one: (one[1][1], one[1][2])):
        if first != end or last - first != spec.n_bytes:
            raise BadModel(f"the tensor {name[:40]!a} is not where it should be", hint=_DAMAGED)
        end = last
        stored = spec.dtype.newbyteorder("<")
        tensors[name] = RawTensor(file, path, offset=start + first, spec=spec, stored=stored)
    if start + end != path.stat().st_size:
        raise BadModel("the file is longer or shorter than its header says", hint=_DAMAGED)
    return tensors


def _header_of(file: BinaryIO, size: int) -> tuple[dict[str, tuple[Spec, int, int]], int]:
    first = file.read(_LENGTH.size)
    length = _LENGTH.unpack(first)[0] if len(first) == _LENGTH.size else _MOST_HEADER + 1
    if length > min(_MOST_HEADER, size - _LENGTH.size):
        raise BadModel("the model is no .safetensors file", hint=_DAMAGED)
    try:
        header = json.loads(file.read(length).decode("utf-8"), object_pairs_hook=_no_name_twice)
    except (ValueError, RecursionError) as error:
        raise BadModel("the header is no JSON", hint=_DAMAGED) from error
    if not isinstance(header, dict):
        raise BadModel("the header is no map", hint=_DAMAGED)
    header.pop(_METADATA, None)
    if len(header) > MOST_TENSORS:
        raise BadModel(f"the model has {len(header)} tensors", hint=f"At most {MOST_TENSORS} are read.")
    return {name: _entry(name, entry) for name, entry in header.items()}, _LENGTH.size + length


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a name is there twice")
    return entries


def _entry(name: str, entry: object) -> tuple[Spec, int, int]:
    check_name(name)
    match entry:
        case {"dtype": str(kind), "shape": [*shape], "data_offsets": [int(first), int(last)], **rest} if (
            not rest and all(type(length) is int for length in (*shape, first, last))
        ):
            pass
        case _:
            raise BadModel(f"the header's entry of {name[:40]!a} is not readable", hint=_DAMAGED)
    if kind not in _DTYPES:
        hint = "Save it as F32 or F16, or a kind that NumPy has."
        raise BadModel(f"the tensor {name[:40]!a} has the dtype {kind[:12]!a}", hint=hint)
    check_shape(tuple(shape))
    return Spec(tuple(shape), np.dtype(_DTYPES[kind]).newbyteorder("=")), first, last


class SafetensorsSink:
    """Writes a file without metadata, tensors in the order given: the same bytes everywhere.

    Args:
        path: where; what is there is replaced.
        specs: of all tensors, in the order in which they will come. Without them the data are kept in
            a file beside it, since the header comes first.
    """

    def __init__(self, path: Path, *, specs: Mapping[str, Spec] | None) -> None:
        self._path = path
        self._declared = None if specs is None else list(specs)
        self._specs: dict[str, Spec] = {}
        self._file: BinaryIO
        if specs is None:
            self._file = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115  close() closes it
        else:
            self._file = path.open("wb")
            self._file.write(_header(specs))

    def begin(self, name: str, spec: Spec) -> None:
        """Begin a tensor; its bytes follow.

        Raises:
            BadModel: it has the format's own name, or another one was announced here.
        """
        if name == _METADATA:
            raise BadModel(f"a tensor may not be named {_METADATA}", hint="Rename it.")
        if self._declared is not None and self._declared[len(self._specs)] != name:
            raise BadModel(
                f"the tensor {name[:40]!a} comes out of turn", hint="Write in the order announced."
            )
        self._specs[name] = spec

    def append(self, data: Array) -> None:
        """More elements of the tensor, C order."""
        self._file.write(data.view(np.uint8).data)

    def end(self) -> None:
        """The tensor is whole."""

    def close(self) -> None:
        """Finish the file."""
        with self._file:
            if self._declared is not None:
                return
            with self._path.open("wb") as out:
                out.write(_header(self._specs))
                self._file.seek(0)
                while part := self._file.read(_COPY):
                    out.write(part)


def _header(specs: Mapping[str, Spec]) -> bytes:
    entries, offset = {}, 0
    for name, spec in specs.items():
        kind = _NAMES.get(spec.dtype.newbyteorder("<"))
        if kind is None:
            hint = "Write text into .npz, or leave it out."
            raise BadModel(f"a .safetensors file cannot hold {spec.dtype.name[:40]}", hint=hint)
        end = offset + spec.n_bytes
        entries[name] = {"dtype": kind, "shape": list(spec.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=True).encode("ascii")
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text
