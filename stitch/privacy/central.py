"""`mode = "central"`: the lead's aggregate hook, a plain mean of clipped deltas with noise once.

    global_k = global_(k-1) + (sum_i clip(d_i) + N(0, (sigma C)^2 I)) / n

d_i is what site i's model differs by from the global that it was trained from, n the number of sites in
the round, which is public. Equal weights: with weights by `n_samples`, which are data, one site could
move the sum by more than C. Every delta is clipped again, so that no site can break another's promise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stitch.errors import TransformDegenerate
from stitch.learning.tensors import ModelReader, ModelWriter, open_model
from stitch.privacy.noise import Noise
from stitch.privacy.release import delta_norm, floating, parts, shrink

_REDO = (
    'Ask it for a new pass: clif-stitch sites redo SITE. admit = "stitch.learning.check:admit" leaves it out.'
)


@dataclass(frozen=True, slots=True)
class _Input:
    """One site's model, its base, and what its delta is multiplied by."""

    model: ModelReader
    base: ModelReader
    scale: float

    def delta(self, name: str, *, start: int, stop: int) -> NDArray[np.float64]:
        trained = self.model.read_range(name, start=start, stop=stop).astype(np.float64)
        trained -= self.base.read_range(name, start=start, stop=stop)
        trained *= self.scale
        return trained


def aggregate(
    *, site_dir: Path, out_path: Path, global_path: Path, bases_dir: Path, privacy: Mapping[str, Any]
) -> dict[str, float]:
    """The aggregate hook; see the module.

    Args:
        site_dir: `<site>/pass_NNN/` with a model and its seal, as every aggregate hook gets it.
        out_path: where the next global goes.
        global_path: the global that is replaced.
        bases_dir: `pass_NNN/` of each global that an input was trained from.
        privacy: `clip`, `noise`, `frozen`.

    Raises:
        TransformDegenerate: an input has other tensors than the global, or a value that is no number.
    """
    with ExitStack() as stack:
        before = stack.enter_context(open_model(global_path))
        moving = floating(before, frozen=privacy["frozen"])
        inputs = []
        for folder in sorted(site_dir.glob("*/pass_*")):
            model, base = _opened(folder, stack, bases_dir=bases_dir)
            if not model.specs == base.specs == before.specs:
                what = f"{folder.parent.name}'s model has other tensors than the global"
                raise TransformDegenerate(what, hint=_REDO)
            try:
                norm = delta_norm(model, base, names=moving)
            except TransformDegenerate as error:
                raise TransformDegenerate(f"{folder.parent.name}: {error}", hint=_REDO) from error
            inputs.append(_Input(model, base, shrink(norm, clip=privacy["clip"])))
        noise = Noise(privacy["clip"] * privacy["noise"])
        _write(before, inputs, to=out_path, moving=moving, noise=noise)
    return {"sites": len(inputs)}


def _opened(folder: Path, stack: ExitStack, *, bases_dir: Path) -> tuple[ModelReader, ModelReader]:
    """One input and the global that it was trained from."""
    seal = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    [path] = folder.glob("model.*")
    base = bases_dir / f"pass_{seal['base_pass']:03}" / path.name
    return stack.enter_context(open_model(path)), stack.enter_context(open_model(base))


def _write(
    before: ModelReader, inputs: Sequence[_Input], *, to: Path, moving: Sequence[str], noise: Noise
) -> None:
    with ModelWriter(to, specs=before.specs) as out:
        for name, spec in before.specs.items():
            with out.tensor(name, spec) as append:
                if name not in moving:
                    append(before.read(name).reshape(-1))
                    continue
                for start, stop in parts(spec.size):
                    total = np.zeros(stop - start)
                    for one in inputs:
                        total += noise.whole(one.delta(name, start=start, stop=stop))
                    told = (total + noise.draw(total.size)) * (noise.step / len(inputs))
                    told += before.read_range(name, start=start, stop=stop)
                    append(told.astype(spec.dtype))
