"""Where the tensors that may leave are listed, a file that holds anything beside them does not leave."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.errors import EgressRefused
from stitch.learning.tensors import write_model
from stitch.privacy.release import inspect

TENSORS: dict[str, Any] = {
    "head.w": np.ones((30, 7), np.float32),
    "head.b": np.zeros(0),
    "head.seen": np.array(3),
}
LISTED = {"groups": ["head."]}
NAMES = b"Smith, Jones"


def npz(path: Path, *, extra: bytes = b"", comment: bytes = b"", hidden: bool = False) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, tensor in TENSORS.items():
            member = zipfile.ZipInfo(f"{name}.npy")
            member.extra = extra
            data = io.BytesIO()
            np.save(data, tensor)
            archive.writestr(member, data.getvalue())
        archive.comment = comment
        if hidden:
            del archive.filelist[1]
    return path


def safetensors(path: Path, metadata: dict[str, str]) -> Path:
    entry = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
    header = json.dumps({"__metadata__": metadata, "head.w": entry}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(12))
    return path


def test_what_writers_write_may_leave(tmp_path: Path) -> None:
    model = tmp_path / "model.npz"
    with model.open("wb") as file:
        np.savez(io.BufferedWriter(_Pipe(file)), **TENSORS)
    inspect(model_path=model, privacy=LISTED)
    np.savez_compressed(model, **TENSORS)
    inspect(model_path=model, privacy=LISTED)
    for name in ("model.npz", "model.safetensors"):
        write_model(tmp_path / name, TENSORS)
        inspect(model_path=tmp_path / name, privacy=LISTED)
    inspect(model_path=safetensors(tmp_path / "model.safetensors", {"format": "pt"}), privacy=LISTED)


def test_text_and_bytes_beside_the_tensors_do_not(tmp_path: Path) -> None:
    file = tmp_path / "model.npz"
    before = npz(file).read_bytes()
    inspect(model_path=file, privacy=LISTED)
    noted = struct.pack("<HH", 0x9999, 4 * len(NAMES)) + 4 * NAMES
    for path in (
        npz(tmp_path / "comment.npz", comment=NAMES),
        npz(tmp_path / "extra.npz", extra=noted),
        npz(tmp_path / "unlisted.npz", hidden=True),
        safetensors(tmp_path / "model.safetensors", {"trained_on": NAMES.decode()}),
    ):
        refused(path)
        inspect(model_path=path, privacy={"groups": None})
    file.write_bytes(NAMES + before)
    refused(file)


def refused(path: Path) -> None:
    with pytest.raises(EgressRefused, match="groups lists all that may leave"):
        inspect(model_path=path, privacy=LISTED)


class _Pipe(io.RawIOBase):
    """Takes bytes in their order alone: sizes then come behind the arrays."""

    def __init__(self, file: io.BufferedWriter) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        return self._file.write(data)  # type: ignore[arg-type]  # any buffer
