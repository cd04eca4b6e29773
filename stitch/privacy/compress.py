"""A site's delta in fewer bytes, and back: hooks of the core, one tensor in memory at a time.

`int8` (RFC-0011, section 6): with s = max |d| / 127 of a tensor, each number is sent as round(d / s); it
comes back off by at most s / 2. `top_k` (Aji, Heafield 2017, arXiv:1704.05021, with the memory of Stich,
Cordonnier, Jaggi 2018, arXiv:1809.07599): of d plus what earlier passes kept back, the largest numbers
are sent as they are, and the rest is kept in the site's `state_dir`.

A compressed file has the tensors' names and the model's format. With int8 a tensor is bytes of its own
shape, and `stitch.scales` has one s each, in the order of the global's file, whatever the model's; with
top_k it is a list of numbers, and `<name>.stitch_at` says where they belong. Integers, booleans and texts
are sent as they are (docs/protocol.md, Compressed models).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stitch.errors import BadModel, TransformDegenerate
from stitch.learning.tensors import ModelReader, ModelWriter, open_model
from stitch.privacy.release import floating

SCALES = "stitch.scales"
AT = ".stitch_at"
MEMORY = "stitch_top_k.npz"


def compress(
    *, model_path: Path, global_path: Path, out_path: Path, state_dir: Path, compression: Mapping[str, Any]
) -> dict[str, float]:
    """Write a model's delta in few bytes.

    Args:
        model_path: the model that may leave.
        global_path: the global that it was trained from: the same tensors.
        out_path: where to write.
        state_dir: keeps what top_k does not send.
        compression: `kind` and `keep`.

    Raises:
        TransformDegenerate: other tensors than the global's, or a value that is no number.
    """
    with open_model(model_path) as model, open_model(global_path) as base:
        if model.specs != base.specs:
            raise TransformDegenerate("the model has other tensors than the global: there is no delta")
        if compression["kind"] == "int8":
            _write_int8(model, base, out_path)
        else:
            _write_top_k(model, base, out_path, memory=state_dir / MEMORY, keep=compression["keep"])
    return {}


def expand(*, model_path: Path, global_path: Path, out_path: Path) -> dict[str, float]:
    """Write the model that a compressed file stands for.

    Args:
        model_path: what `compress` wrote.
        global_path: the global that it was trained from.
        out_path: where to write.

    Raises:
        BadModel: the file does not fit the global.
    """
    with open_model(model_path) as small, open_model(global_path) as base:
        scales = small.read(SCALES) if SCALES in small.names else None
        numbers = {name: index for index, name in enumerate(floating(base))}
        with ModelWriter(out_path, specs=base.specs) as out:
            for name, spec in base.specs.items():
                if name not in numbers:
                    out.write(name, _as_sent(small, base, name=name))
                    continue
                told = base.read(name).astype(np.float64)
                if scales is None:
                    _add_listed(small, told, name=name)
                else:
                    told += _bytes(small, name=name, shape=spec.shape) * _scale(scales, numbers[name])
                out.write(name, told.astype(spec.dtype))
    return {}


def _write_int8(model: ModelReader, base: ModelReader, to: Path) -> None:
    scales = []
    with ModelWriter(to) as out:
        for name, delta in _deltas(model, base, out):
            largest = float(np.abs(delta).max()) if delta.size else 0.0
            scale = largest / 127.0 or 1.0
            scales.append(scale)
            out.write(name, np.clip(np.rint(delta / scale), -127, 127).astype(np.int8))
        out.write(SCALES, np.array(scales))


def _write_top_k(model: ModelReader, base: ModelReader, to: Path, *, memory: Path, keep: float) -> None:
    kept = memory.with_name(f"new_{memory.name}")  # the old one is read meanwhile
    with ExitStack() as stack:
        before = stack.enter_context(open_model(memory)) if memory.is_file() else None
        out, rest = stack.enter_context(ModelWriter(to)), stack.enter_context(ModelWriter(kept))
        for name, fresh in _deltas(model, base, out):
            known = before is not None and name in before.names and before.spec(name).shape == fresh.shape
            delta = fresh + before.read(name) if before is not None and known else fresh
            flat = delta.reshape(-1)
            count = min(flat.size, max(1, math.ceil(keep * flat.size)))
            at = (
                np.sort(np.argpartition(-np.abs(flat), count - 1)[:count]) if count else np.zeros(0, np.int64)
            )
            values = flat[at].astype(model.spec(name).dtype)
            out.write(name, values)
            out.write(name + AT, at.astype(np.int64 if flat.size > 2**31 else np.int32))
            flat[at] -= values.astype(np.float64)
            rest.write(name, delta)
    kept.replace(memory)


def _deltas(
    model: ModelReader, base: ModelReader, out: ModelWriter
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """The floating-point tensors' differences, in the global's order; what is none is written as it is."""
    names = floating(base)
    for name in base.names:
        if name not in names:
            out.write(name, model.read(name))
            continue
        delta = model.read(name).astype(np.float64) - base.read(name)
        if not np.isfinite(delta).all():
            raise TransformDegenerate(f"the tensor {name[:60]!a} holds a value that is no number")
        yield name, delta


def _as_sent(small: ModelReader, base: ModelReader, *, name: str) -> NDArray[Any]:
    if small.spec(name) != base.spec(name):
        raise BadModel(f"the tensor {name[:60]!a} is not the global's: {small.spec(name)}")
    return small.read(name)


def _bytes(small: ModelReader, *, name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    spec = small.spec(name)
    if spec.shape != shape or spec.dtype != np.int8:
        raise BadModel(f"the tensor {name[:60]!a} is {spec}, not int8 of the global's shape")
    return small.read(name).astype(np.float64)


def _scale(scales: NDArray[Any], index: int) -> float:
    there = scales.ndim == 1 and index < scales.size and scales.dtype.kind == "f"
    if not there or not math.isfinite(float(scales[index])):
        raise BadModel("the scales of the int8 tensors are missing or no numbers")
    return float(scales[index])


def _add_listed(small: ModelReader, told: NDArray[np.float64], *, name: str) -> None:
    values, at = small.read(name), small.read(name + AT)
    fits = values.ndim == at.ndim == 1 and values.size == at.size
    fits = fits and values.dtype.kind == "f" and at.dtype.kind == "i"
    if not fits or (at.size and not (int(at.min()) >= 0 and int(at.max()) < told.size)):
        raise BadModel(f"the listed numbers of {name[:60]!a} have no place in the global's tensor")
    np.add.at(told.reshape(-1), at, values.astype(np.float64))
