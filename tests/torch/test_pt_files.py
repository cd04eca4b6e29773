"""`.pt` files that torch itself wrote: tensors are read as they are, and nothing in the file is run.

A stage of .ci/run of its own: torch is large and in no dependency group.
"""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.errors import BadModel
from stitch.learning import open_model, read_model, write_model

pytestmark = pytest.mark.torch


@pytest.fixture(name="torch")
def _torch() -> Any:
    return importlib.import_module("torch")  # only this stage has it: elsewhere the file is still collected


def _saved(folder: Path, content: Any, **how: Any) -> Path:
    path = folder / "model.pt"
    importlib.import_module("torch").save(content, path, **how)
    return path


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_a_state_dict_is_read_tensor_for_tensor(torch: Any, tmp_path: Path, zipped: bool) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 1))
    path = _saved(tmp_path, network.state_dict(), _use_new_zipfile_serialization=zipped)
    read = read_model(path)
    wanted = network.state_dict()
    assert list(read) == list(wanted)
    for name, tensor in wanted.items():
        assert read[name].dtype == tensor.numpy().dtype
        assert read[name].shape == tuple(tensor.shape)
        assert np.array_equal(read[name], tensor.numpy())
    assert read["1.num_batches_tracked"].dtype == np.int64


def test_ranges_count_in_c_order_whatever_the_strides(torch: Any, tmp_path: Path) -> None:
    path = _saved(tmp_path, {"w": torch.arange(6.0).reshape(2, 3).T})
    with open_model(path) as model:
        assert model.spec("w").shape == (3, 2)
        assert model.read_range("w", start=1, stop=5).tolist() == [3.0, 1.0, 4.0, 2.0]


def test_parameters_with_gradients_and_half_precision_and_masks_are_read(torch: Any, tmp_path: Path) -> None:
    tensors = {
        "w": torch.ones(2, requires_grad=True),
        "half": torch.full((2,), 0.5, dtype=torch.float16),
        "mask": torch.tensor([True, False]),
    }
    read = read_model(_saved(tmp_path, tensors))
    assert {name: array.dtype.name for name, array in read.items()} == {
        "w": "float32",
        "half": "float16",
        "mask": "bool",
    }


class _Runs:
    """What a hostile site would send: unpickling it makes a folder."""

    def __init__(self, place: Path) -> None:
        self._place = str(place)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (self._place,)


@pytest.mark.parametrize("by", ["torch", "pickle"])
def test_code_in_a_file_does_not_run(torch: Any, tmp_path: Path, by: str) -> None:
    hostile = {"w": torch.zeros(1), "more": _Runs(tmp_path / "ran")}
    path = tmp_path / "model.pt"
    if by == "torch":
        torch.save(hostile, path)
    else:
        path.write_bytes(pickle.dumps({"more": _Runs(tmp_path / "ran")}))
    with pytest.raises(BadModel, match="weights_only") as caught:
        open_model(path)
    assert "safetensors" in caught.value.hint
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (lambda torch: {}, "holds no state dict"),
        (lambda torch: [torch.zeros(1)], "holds no state dict"),
        (lambda torch: {"epoch": 3, "state": {"w": torch.zeros(1)}}, "something else than named tensors"),
        (lambda torch: {1: torch.zeros(1)}, "something else than named tensors"),
        (lambda torch: {"w": torch.zeros(2, dtype=torch.bfloat16)}, "no dtype for 'w'"),
        (lambda torch: {"w": torch.zeros(2, 2).to_sparse()}, "no dtype for 'w'"),
        (lambda torch: {"w": torch.nn.Linear(1, 1)}, "weights_only"),
    ],
    ids=["empty", "list", "checkpoint", "numbered", "bfloat16", "sparse", "module"],
)
def test_what_is_no_flat_map_of_tensors_is_refused(
    torch: Any, tmp_path: Path, content: Callable[[Any], Any], told: str
) -> None:
    with pytest.raises(BadModel, match=told):
        open_model(_saved(tmp_path, content(torch)))


def test_a_file_that_was_cut_is_refused(torch: Any, tmp_path: Path) -> None:
    path = _saved(tmp_path, {"w": torch.zeros(1000)})
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadModel, match="weights_only"):
        open_model(path)


def test_a_model_goes_from_torch_to_the_others_and_back(torch: Any, tmp_path: Path) -> None:
    """What docs/hooks.md advises: torch's tensors by way of NumPy, in a file that needs no torch."""
    network = torch.nn.Linear(3, 2)
    for ending in ("npz", "safetensors"):
        place = tmp_path / f"model.{ending}"
        write_model(place, {name: tensor.numpy() for name, tensor in network.state_dict().items()})
        other = torch.nn.Linear(3, 2)
        other.load_state_dict({name: torch.from_numpy(array) for name, array in read_model(place).items()})
        assert all(torch.equal(other.state_dict()[name], mine) for name, mine in network.state_dict().items())
