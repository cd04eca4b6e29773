"""The last thing that happens to a site's model: clip and noise of its delta, and a look at the result.

Hooks of the core, run in a child process. Tensor by tensor, in parts, so memory stays flat.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stitch.errors import EgressRefused, TransformDegenerate
from stitch.learning.beside import beside_tensors
from stitch.learning.streaming import total
from stitch.learning.tensors import ModelReader, ModelWriter, open_model
from stitch.privacy.noise import Noise

PART = 1 << 20
"""Elements that are worked on at a time."""

_INWARD = 1.0 - 2.0**-40
"""What rounding adds to a norm is taken off before."""


@dataclass(frozen=True, slots=True)
class Told:
    """What is told of a delta.

    Attributes:
        names: the tensors that are; the others are the global's.
        scale: what the delta is multiplied by.
        std: the noise's standard deviation; 0 for none.
    """

    names: Sequence[str]
    scale: float
    std: float


def release(
    *,
    model_path: Path,
    global_path: Path,
    out_path: Path,
    privacy: Mapping[str, Any],
    raw_path: Path | None = None,
) -> dict[str, float]:
    """Write what may leave: the global plus the model's delta, clipped and, if asked, with noise.

    Floating-point tensors are one vector d. It is multiplied by min(1, clip / |d|), N(0, (noise clip)^2)
    is added to each coordinate, all in double precision; the sum with the global is cast once. Integers,
    booleans, text and frozen tensors are the global's: no noise can be told for them.

    Args:
        model_path: what the train hook, or the pre_release hook, wrote.
        global_path: the global that it was trained from: same names, shapes and dtypes.
        out_path: where to write.
        privacy: `clip`; `noise`, the noise multiplier, None for no noise; `groups`, None for any;
            `frozen`.
        raw_path: what the pre_release hook was given, if there is one.

    Raises:
        EgressRefused: a tensor is in no group that may leave, or what shall be frozen is not there.
        TransformDegenerate: a value is no number, a tensor is missing or of another shape, or nothing
            was changed that should have been.
    """
    groups, noise, frozen = privacy["groups"], privacy["noise"], privacy["frozen"]
    with open_model(model_path) as model, open_model(global_path) as base:
        require_groups(model.names, groups)
        _require_alive(model, raw_path)
        _require_alike(model, base)
        require_frozen(model.names, frozen)
        moving = floating(model, frozen=frozen)
        norm = delta_norm(model, base, names=moving)
        scale = shrink(norm, clip=privacy["clip"])
        told = Told(moving, scale, privacy["clip"] * noise if noise else 0.0)
        _write(model, base, to=out_path, told=told)
        print(f"the delta's norm was {norm:.6g}, clip {privacy['clip']:g}")  # noqa: T201  into the site's log
        _require_released(out_path, model, groups=groups, noisy=bool(noise))
    return {}


def inspect(
    *, model_path: Path, privacy: Mapping[str, Any], raw_path: Path | None = None
) -> dict[str, float]:
    """Look at a model that leaves as it is.

    Raises:
        EgressRefused, TransformDegenerate: as `release`.
    """
    with open_model(model_path) as model:
        require_groups(model.names, privacy["groups"])
        _require_alive(model, raw_path)
    found = beside_tensors(model_path) if privacy["groups"] is not None else ""
    if found:
        raise EgressRefused(f"the model holds {found}, and [privacy] groups lists all that may leave")
    return {}


def require_groups(names: Iterable[str], groups: Sequence[str] | None) -> None:
    """Every tensor's name must begin with one of `groups`; None allows any.

    Raises:
        EgressRefused: one does not.
    """
    for name in names:
        if groups is not None and not name.startswith(tuple(groups)):
            raise EgressRefused(f"the tensor {name[:60]!a} is in none of the groups that may leave")


def require_frozen(names: Sequence[str], frozen: Sequence[str]) -> None:
    """Each of `frozen` must begin some tensor's name: a misspelt one would freeze nothing.

    Raises:
        EgressRefused: one does not.
    """
    for beginning in frozen:
        if not any(name.startswith(beginning) for name in names):
            raise EgressRefused(f"[privacy] frozen has {beginning[:60]!a}, and no tensor's name begins so")


def delta_norm(model: ModelReader, base: ModelReader, *, names: Iterable[str]) -> float:
    """The L2 norm of these tensors' differences together.

    Raises:
        TransformDegenerate: it is no number, or too large for one.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = total(
            float(np.sum(np.square(delta))) for name in names for delta in deltas(model, base, name=name)
        )
    if not math.isfinite(squares):
        raise TransformDegenerate("the model holds a value that is no number, or far too large")
    return math.sqrt(squares)


def shrink(norm: float, *, clip: float) -> float:
    """What a delta of this norm is multiplied by, so that its norm is at most `clip`."""
    return 1.0 if norm <= clip * _INWARD else clip / norm * _INWARD


def noised(delta: NDArray[np.float64], noise: Noise) -> NDArray[np.float64]:
    """The delta on the noise's lattice, plus one draw for each coordinate."""
    result: NDArray[np.float64] = (noise.whole(delta) + noise.draw(delta.size)) * noise.step
    return result


def floating(model: ModelReader, *, frozen: Sequence[str] = ()) -> list[str]:
    """The names of the floating-point tensors that are not frozen, as stored."""
    held = tuple(frozen)
    return [name for name in model.names if model.spec(name).floating and not name.startswith(held)]


def deltas(model: ModelReader, base: ModelReader, *, name: str) -> Iterator[NDArray[np.float64]]:
    """One tensor's difference, part by part, in double precision."""
    for start, stop in parts(model.spec(name).size):
        trained = model.read_range(name, start=start, stop=stop).astype(np.float64)
        yield trained - base.read_range(name, start=start, stop=stop).astype(np.float64)


def parts(size: int) -> Iterator[tuple[int, int]]:
    """Ranges of at most `PART` elements that cover `size`."""
    for start in range(0, size, PART):
        yield start, min(size, start + PART)


def _write(model: ModelReader, base: ModelReader, *, to: Path, told: Told) -> None:
    noise = Noise(told.std) if told.std else None
    with ModelWriter(to, specs=model.specs) as out:
        for name, spec in model.specs.items():
            with out.tensor(name, spec) as append:
                if name not in told.names:
                    append(base.read(name).reshape(-1))
                    continue
                start = 0
                for trained in deltas(model, base, name=name):
                    delta = trained * told.scale
                    moved = delta if noise is None else noised(delta, noise)
                    moved += base.read_range(name, start=start, stop=start + delta.size)
                    with np.errstate(over="ignore"):  # a float16 may not hold it: looked at afterwards
                        append(moved.astype(spec.dtype))
                    start += delta.size


def _require_alike(model: ModelReader, base: ModelReader) -> None:
    for name in {**base.specs, **model.specs}:
        ours, theirs = model.specs.get(name), base.specs.get(name)
        if ours != theirs:
            raise TransformDegenerate(
                f"the tensor {name[:60]!a} is {ours or 'missing'}, in the global {theirs or 'missing'}",
                hint="Write the global's names, shapes and dtypes; what is private goes to state_dir.",
            )


def _require_alive(model: ModelReader, raw_path: Path | None) -> None:
    """After a pre_release hook: numbers, and not all of them zero where there were some before."""
    if raw_path is None:
        return
    if not all(np.isfinite(part).all() for part in _floats(model)):
        raise TransformDegenerate("the pre_release hook left a value that is no number")
    if any(part.any() for part in _floats(model)):
        return
    with open_model(raw_path) as raw:
        if any(part.any() for part in _floats(raw)):
            raise TransformDegenerate("the pre_release hook left nothing but zeros")


def _require_released(path: Path, model: ModelReader, *, groups: Sequence[str] | None, noisy: bool) -> None:
    """What was written is looked at once more: it is the file that leaves."""
    with open_model(path) as out:
        require_groups(out.names, groups)
        changed = False
        for name in floating(out):
            for start, stop in parts(out.spec(name).size):
                told = out.read_range(name, start=start, stop=stop)
                if not np.isfinite(told).all():
                    raise TransformDegenerate(f"the tensor {name[:60]!a} cannot hold what was to leave")
                changed = changed or not np.array_equal(told, model.read_range(name, start=start, stop=stop))
        if noisy and not changed:
            raise TransformDegenerate("the noise changed nothing: the model's dtype cannot hold it")


def _floats(model: ModelReader) -> Iterator[NDArray[Any]]:
    for name in floating(model):
        for start, stop in parts(model.spec(name).size):
            yield model.read_range(name, start=start, stop=stop)
