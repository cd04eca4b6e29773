"""PyTorch's `.pt`, read only, through its reader that unpickles nothing but tensors (`weights_only`)."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from stitch.errors import BadModel
from stitch.learning.specs import check_name, spec_of
from stitch.learning.stored import HeldTensor, StoredTensor

_INSTEAD = "Save it as .safetensors or .npz, which every site reads without torch."


def open_pt(path: Path) -> dict[str, StoredTensor]:
    """Load a state dict: a map of names to tensors, flat.

    Returns:
        The tensors by name, in the map's order.

    Raises:
        BadModel: torch is not installed, the file holds something else, or needs more than tensors.
    """
    try:
        torch: Any = importlib.import_module("torch")
    except ImportError as error:
        raise BadModel("a .pt model needs torch, which is not installed", hint=_INSTEAD) from error
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # it raises whatever its unpickler met; none of it may pass for a model
        raise BadModel("torch does not read the model with weights_only", hint=_INSTEAD) from error
    if not isinstance(loaded, dict) or not loaded:
        raise BadModel("the .pt file holds no state dict", hint=_INSTEAD)
    tensors: dict[str, StoredTensor] = {}
    for name, tensor in loaded.items():
        if not isinstance(name, str) or not isinstance(tensor, torch.Tensor):
            raise BadModel("the .pt file holds something else than named tensors", hint=_INSTEAD)
        check_name(name)
        try:
            array = tensor.detach().contiguous().numpy()
        except (TypeError, RuntimeError) as error:
            raise BadModel(f"NumPy has no dtype for {name[:40]!a}", hint=_INSTEAD) from error
        tensors[name] = HeldTensor(array, spec_of(array))
    return tensors
