"""`mode = "central"`: the lead's aggregate hook, a plain mean of clipped deltas with noise once.

    global_k = global_(k-1) + (sum_i clip(d_i) + N(0, (sigma C)^2 I)) / n

d_i is what site i's model differs by from the global that it was trained from, n the number of sites in
the round, which is public. Equal weights: with weights by `n_samples`, which are data, one site could
move the sum by more than C. Every delta is clipped again, so that no site can break another's promise.

A model that cannot be used is left out by name: its delta counts as zero, and n stays the number of passes
that the verdict names. So whatever a site sends is a vector of at most C in the sum, and nothing else.
With the number of those left over as n, one site's data would change what everybody's noise is divided by.
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

from stitch.errors import BadModel, TransformDegenerate
from stitch.learning.aggregation import nothing_left, tell_excluded
from stitch.learning.shapes import unfit_shape
from stitch.learning.tensors import ModelReader, ModelWriter, open_model
from stitch.privacy.noise import Noise
from stitch.privacy.release import delta_norm, floating, parts, shrink

_TOO_NARROW = "Its dtype cannot hold the noise: keep the model in float32, or ask for less noise."


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
        RoundError: no input can be used; no global was written.
        BadModel: a global cannot be read, or the next would not be finite: no site's fault.
    """
    with ExitStack() as stack:
        before = stack.enter_context(open_model(global_path))
        moving = floating(before, frozen=privacy["frozen"])
        inputs, excluded = [], {}
        folders = sorted(site_dir.glob("*/pass_*"))
        for folder in folders:
            seal = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
            [path] = folder.glob("model.*")
            place = bases_dir / f"pass_{seal['base_pass']:03}" / path.name
            base = stack.enter_context(open_model(place))  # outside of what follows: it is no site's fault
            try:
                model = stack.enter_context(open_model(path))
                scale = _scale(model, base, moving=moving, n_samples=seal["n_samples"], clip=privacy["clip"])
                inputs.append(_Input(model, base, scale))
            except (BadModel, TransformDegenerate) as error:
                excluded[folder.parent.name] = str(error)
        metrics = tell_excluded(excluded)
        if not inputs:
            raise nothing_left(excluded)
        noise = Noise(privacy["clip"] * privacy["noise"])
        _write(before, inputs, to=out_path, moving=moving, noise=noise, count=len(folders))
    return {"sites": len(inputs), **metrics}


def _scale(
    model: ModelReader, base: ModelReader, *, moving: Sequence[str], n_samples: int, clip: float
) -> float:
    """What a site's delta is multiplied by.

    Raises:
        BadModel, TransformDegenerate: it cannot be clipped.
    """
    reason = unfit_shape(model, base, n_samples=n_samples)
    if reason:
        raise BadModel(reason)
    return shrink(delta_norm(model, base, names=moving), clip=clip)


def _write(
    before: ModelReader,
    inputs: Sequence[_Input],
    *,
    to: Path,
    moving: Sequence[str],
    noise: Noise,
    count: int,
) -> None:
    """The new global; `count` is n, the left out included."""
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
                    told = (total + noise.draw(total.size)) * (noise.step / count)
                    told += before.read_range(name, start=start, stop=stop)
                    with np.errstate(over="ignore"):  # looked at here: a site would train on from it
                        made = told.astype(spec.dtype)
                    if not np.isfinite(made).all():
                        raise BadModel(
                            f"the new global would not be finite in {name[:60]!a}", hint=_TOO_NARROW
                        )
                    append(made)
