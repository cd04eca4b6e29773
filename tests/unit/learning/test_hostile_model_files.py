"""A model file is somebody else's: what it says is checked before anything is made of it."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.errors import BadModel
from stitch.learning import open_model, read_model, write_model


class _Trap:
    """Unpickled, it would write a file: the sign that something of it ran."""

    def __init__(self, at: Path) -> None:
        self.at = at

    def __reduce__(self) -> Any:
        return Path.touch, (self.at,)


def _npy(array: Any, **save: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array, **save)
    return sink.getvalue()


def _archive(path: Path, members: dict[str, bytes], *, how: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def test_a_pickle_in_an_archive_is_refused_and_not_run(tmp_path: Path) -> None:
    trap = np.array([_Trap(tmp_path / "ran")], dtype=object)
    np.savez(tmp_path / "model.npz", w=trap)
    with pytest.raises(BadModel, match="Python objects"):
        open_model(tmp_path / "model.npz")
    _archive(tmp_path / "raw.npz", {"w.npy": pickle.dumps(_Trap(tmp_path / "ran"))})
    with pytest.raises(BadModel, match="no readable header"):
        open_model(tmp_path / "raw.npz")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["../w.npy", "/etc/w.npy", "a/../../w.npy", "a\nb.npy", ".npy", "w.txt"])
def test_a_member_with_an_odd_name_is_refused(tmp_path: Path, name: str) -> None:
    path = _archive(tmp_path / "model.npz", {name: _npy(np.zeros(2))})
    with pytest.raises(BadModel):
        open_model(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_tensors_of_one_name_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr("w.npy", _npy(np.zeros(2)))
        archive.writestr("w.npy", _npy(np.ones(2)))
    with pytest.raises(BadModel, match="twice"):
        open_model(tmp_path / "model.npz")


@pytest.mark.parametrize("shape", ["(4,)", "(1,)", "(1000000000000,)", "(-2,)", "(2, -1)", "(True,)"])
@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_header_that_claims_other_bytes_than_there_are_is_refused(
    tmp_path: Path, shape: str, how: int
) -> None:
    honest = _npy(np.zeros(2, np.float32))
    body = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    body = body.ljust(len(honest) - 10 - 8 - 1) + b"\n"
    lie = honest[:8] + struct.pack("<H", len(body)) + body + honest[-8:]
    with pytest.raises(BadModel):
        read_model(_archive(tmp_path / "model.npz", {"w.npy": lie}, how=how))


@pytest.mark.parametrize("array", [np.zeros(2, complex), np.zeros(2, "M8[s]"), np.zeros(2, [("a", "f4")])])
def test_a_dtype_that_no_model_has_is_refused(tmp_path: Path, array: Any) -> None:
    with pytest.raises(BadModel, match="dtype"):
        open_model(_archive(tmp_path / "model.npz", {"w.npy": _npy(array)}))


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abc":
            archive.writestr(f"{name}.npy", _npy(np.zeros(1000)))
    raw = bytearray(path.read_bytes())
    for at in (i for i in range(len(raw)) if raw[i : i + 4] == b"PK\x01\x02"):
        raw[at + 24 : at + 28] = struct.pack("<I", 2**31)  # the directory's word for the unpacked size
    path.write_bytes(raw)
    with pytest.raises(BadModel, match="unpacks to more"):
        open_model(path)


@pytest.mark.parametrize("ext", ["npz", "safetensors"])
def test_a_file_cut_anywhere_is_refused(tmp_path: Path, ext: str) -> None:
    whole = tmp_path / f"whole.{ext}"
    write_model(whole, {"w": np.arange(5, dtype=np.float32), "n": np.array(3)})
    data, cut = whole.read_bytes(), tmp_path / f"cut.{ext}"
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        with pytest.raises(BadModel):
            read_model(cut)


def test_a_compressed_tensor_that_is_damaged_is_refused(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=4000)
    path = _archive(tmp_path / "model.npz", {"w.npy": _npy(values)}, how=zipfile.ZIP_DEFLATED)
    raw = bytearray(path.read_bytes())
    raw[9000:9040] = bytes(40)
    path.write_bytes(raw)
    with pytest.raises(BadModel):
        read_model(path)


def _safetensors(path: Path, header: object, data: bytes, *, length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


GOOD = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data"),
    [
        pytest.param({"w": {**GOOD, "data_offsets": [0, 4]}}, 4, id="offsets shorter than the shape"),
        pytest.param({"w": {**GOOD, "data_offsets": [8, 0]}}, 8, id="offsets backwards"),
        pytest.param({"w": {**GOOD, "data_offsets": [4, 12]}}, 12, id="a hole"),
        pytest.param({"w": GOOD, "v": GOOD}, 8, id="two in one place"),
        pytest.param({"w": GOOD}, 9, id="bytes behind the end"),
        pytest.param({"w": {**GOOD, "shape": [-1, -2]}}, 8, id="negative lengths"),
        pytest.param({"w": {**GOOD, "shape": [2.0]}}, 8, id="a float as a length"),
        pytest.param({"w": {**GOOD, "shape": [True, 2]}}, 8, id="a boolean as a length"),
        pytest.param({"w": {**GOOD, "dtype": "BF16", "shape": [4]}}, 8, id="a dtype NumPy lacks"),
        pytest.param({"w": {**GOOD, "path": "/etc/passwd"}}, 8, id="an unknown field"),
        pytest.param({"../w": GOOD}, 8, id="a path as a name"),
        pytest.param([], 0, id="a list"),
        pytest.param(b'{"w": 1', 0, id="no JSON"),
        pytest.param(b'{"w": {}, "w": {}}', 0, id="a name twice"),
        pytest.param(b"[" * 100_000, 0, id="deep nesting"),
    ],
)
def test_a_safetensors_header_that_lies_is_refused(tmp_path: Path, header: object, data: int) -> None:
    with pytest.raises(BadModel):
        open_model(_safetensors(tmp_path / "m.safetensors", header, bytes(data)))


@pytest.mark.parametrize("length", [2**63, 10**9, 10])
def test_a_header_longer_than_the_file_is_refused(tmp_path: Path, length: int) -> None:
    path = _safetensors(tmp_path / "m.safetensors", b"{}", b"", length=length)
    with pytest.raises(BadModel, match=r"no \.safetensors"):
        open_model(path)
