"""Whether two models have the same tensors; no data is read."""

from __future__ import annotations

from stitch.learning.tensors import ModelReader


def unfit_shape(model: ModelReader, base: ModelReader, *, n_samples: int) -> str:
    """Why a model cannot be counted with the others; "" if it can.

    Args:
        model: the site's.
        base: the global.
        n_samples: as the model's seal says.
    """
    if n_samples == 0:
        return "zero samples"
    missing = [name for name in base.names if name not in model.specs]
    if missing:
        return f"it has no tensor {missing[0][:60]!a}"
    added = [name for name in model.names if name not in base.specs]
    if added:
        return f"it has a tensor {added[0][:60]!a}, which the global lacks"
    for name in base.names:
        if model.spec(name) != base.spec(name):
            return f"its {name[:60]!a} is {model.spec(name)}, the global's {base.spec(name)}"
    return ""
