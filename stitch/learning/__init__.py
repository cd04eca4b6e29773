"""What opens models: files tensor by tensor, strategies, the check before them. Hooks import it.

An add-on: the core never imports it. NumPy and the standard library are all it needs.
"""

from __future__ import annotations

from stitch.learning.specs import Spec
from stitch.learning.strategy import FitResult, NDArrays, Round, Strategy
from stitch.learning.tensors import ModelReader, ModelWriter, open_model, read_model, write_model

__all__ = [
    "FitResult",
    "ModelReader",
    "ModelWriter",
    "NDArrays",
    "Round",
    "Spec",
    "Strategy",
    "open_model",
    "read_model",
    "write_model",
]
