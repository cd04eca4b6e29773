"""Model files go out as they came in, the same bytes each time; NumPy and hand-made bytes are the judges."""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stitch.errors import BadModel
from stitch.learning import ModelWriter, Spec, open_model, read_model, write_model

TENSORS: dict[str, NDArray[Any]] = {
    "layer/0.weight": np.arange(12, dtype=np.float32).reshape(3, 4) / 7,
    "a.bias": np.array([1.5, -2.5], dtype=np.float64),
    "half": np.array([[0.5], [65504.0]], dtype=np.float16),
    "steps": np.array(2**60 + 1, dtype=np.int64),
    "mask": np.array([True, False, True]),
    "none": np.zeros((0, 3), dtype=np.float32),
    "small": np.array([-128, 127], dtype=np.int8),
}
FORMATS = ["npz", "safetensors"]


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("ext", FORMATS)
def test_names_order_dtypes_and_every_bit_come_back(tmp_path: Path, ext: str) -> None:
    path = tmp_path / f"model.{ext}"
    write_model(path, TENSORS)
    found = read_model(path)
    assert list(found) == list(TENSORS)
    assert all(_same(found[name], TENSORS[name]) for name in TENSORS)


def test_numpy_reads_what_is_written(tmp_path: Path) -> None:
    write_model(tmp_path / "model.npz", {**TENSORS, "columns": np.array(["age", "lactate"])})
    with np.load(tmp_path / "model.npz", allow_pickle=False) as loaded:
        assert all(_same(loaded[name], TENSORS[name]) for name in TENSORS)
        assert loaded["columns"].tolist() == ["age", "lactate"]


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_writes_is_read(tmp_path: Path, save: Any) -> None:
    mixed = {
        **TENSORS,
        "fortran": np.asfortranarray(np.arange(24, dtype=np.float32).reshape(4, 3, 2)),
        "big_endian": np.array([1.25, 3.5], dtype=">f8"),
    }
    save(tmp_path / "model.npz", **mixed)
    found = read_model(tmp_path / "model.npz")
    assert all(np.array_equal(found[name], mixed[name]) for name in mixed)
    assert found["big_endian"].dtype == np.dtype(np.float64)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_ranges_of_a_tensor_are_its_elements_in_c_order(tmp_path: Path, save: Any) -> None:
    tensor = np.random.default_rng(3).normal(size=(5, 4, 3)).astype(np.float32)
    save(tmp_path / "model.npz", c=tensor, f=np.asfortranarray(tensor))
    with open_model(tmp_path / "model.npz") as model:
        for name in ("c", "f"):
            for start, stop in [(0, 60), (0, 7), (7, 31), (31, 60), (3, 3), (12, 24), (1, 2)]:
                part = model.read_range(name, start=start, stop=stop)
                assert part.tolist() == tensor.reshape(-1)[start:stop].tolist()


@pytest.mark.parametrize("ext", FORMATS)
def test_the_same_tensors_give_the_same_bytes_whole_or_in_parts(tmp_path: Path, ext: str) -> None:
    write_model(tmp_path / f"whole.{ext}", TENSORS)
    with ModelWriter(tmp_path / f"parts.{ext}") as writer:  # not announced: by way of a second file
        for name, array in TENSORS.items():
            with writer.tensor(name, Spec(array.shape, array.dtype)) as append:
                for value in array.reshape(-1):
                    append(np.array([value]))
    assert (tmp_path / f"parts.{ext}").read_bytes() == (tmp_path / f"whole.{ext}").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"parts.{ext}", f"whole.{ext}"]


def test_the_bytes_are_those_of_every_other_machine(tmp_path: Path) -> None:
    digests = {}
    for ext in FORMATS:
        write_model(tmp_path / f"model.{ext}", TENSORS)
        digests[ext] = hashlib.sha256((tmp_path / f"model.{ext}").read_bytes()).hexdigest()
    assert digests == {
        "npz": "8e4ff89b8dcdab8ad9a16bf45dfb4aa9246e80a9a54fc430cf49d0a6e8bcb125",
        "safetensors": "cc7c4cf2c6adcc1db86c040827ad653922006979fe50b5b9c8d6992b9dbcc602",
    }


def test_a_safetensors_file_made_by_hand_is_read(tmp_path: Path) -> None:
    header = {
        "__metadata__": {"format": "pt"},
        "b": {"dtype": "I16", "shape": [2], "data_offsets": [8, 12]},
        "a": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
    }
    text = json.dumps(header).encode()
    (tmp_path / "m.safetensors").write_bytes(
        struct.pack("<Q", len(text)) + text + struct.pack("<ff", 1.5, -2.0) + struct.pack("<hh", -3, 4)
    )
    found = read_model(tmp_path / "m.safetensors")
    assert {name: (array.dtype.name, array.tolist()) for name, array in found.items()} == {
        "a": ("float32", [[1.5, -2.0]]),
        "b": ("int16", [-3, 4]),
    }
    assert list(found) == ["a", "b"]


@pytest.mark.parametrize("ext", FORMATS)
def test_half_a_model_is_not_left_behind(tmp_path: Path, ext: str) -> None:
    path = tmp_path / f"model.{ext}"
    specs = {name: Spec((2,), np.dtype(np.float32)) for name in ("a", "b")}
    with pytest.raises(BadModel, match="not every"), ModelWriter(path, specs=specs) as writer:
        writer.write("a", np.zeros(2, np.float32))
    assert not path.exists()
    with (
        pytest.raises(BadModel, match="got 1 of 2"),
        ModelWriter(path, specs=specs) as writer,
        writer.tensor("a", specs["a"]) as append,
    ):
        append(np.zeros(1, np.float32))
    assert not path.exists()


def test_a_format_that_is_not_tensors_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(BadModel, match=r"a \.pkl model"):
        open_model(tmp_path / "model.pkl")
    with pytest.raises(BadModel, match=r"a \.pt model cannot be written"):
        write_model(tmp_path / "model.pt", TENSORS)


def test_a_pt_file_without_torch_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed, wherever this runs
    (tmp_path / "model.pt").write_bytes(b"x")
    with pytest.raises(BadModel, match="needs torch") as caught:
        open_model(tmp_path / "model.pt")
    assert ".safetensors" in caught.value.hint
