"""What a site's model must be before it is counted: a reason for leaving it out, or none."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from stitch.errors import BadModel, ConfigError
from stitch.learning.forests import unfit_booster
from stitch.learning.shapes import unfit_shape
from stitch.learning.streaming import RANGE, ranges, sum_of_squares, total
from stitch.learning.tensors import ModelReader, open_model

_TREES = (".txt", ".json")


def unfit_model(
    model: ModelReader, base: ModelReader, *, n_samples: int, max_norm: float | None = None
) -> str:
    """Why a site's model has no part in a round; "" if it has.

    It weighs something, has the tensors of its base by name, shape and dtype, is finite, and is no
    further from its base than asked.

    Args:
        model: the site's.
        base: the global that it was trained from.
        n_samples: as its seal says.
        max_norm: the largest Euclidean norm of the change over all floating-point tensors, if any.
    """
    return unfit_shape(model, base, n_samples=n_samples) or _unfit_values(model, base, max_norm=max_norm)


def _unfit_values(model: ModelReader, base: ModelReader, *, max_norm: float | None) -> str:
    squares: list[float] = []
    try:
        for name, start, stop in _floating(model):
            values = model.read_range(name, start=start, stop=stop)
            if not np.isfinite(values).all():
                return f"it is not finite in {name[:60]!a}"
            if max_norm is not None:
                origin = base.read_range(name, start=start, stop=stop)
                with np.errstate(over="ignore"):
                    squares.append(sum_of_squares(np.subtract(values, origin, dtype=np.float64)))
    except BadModel as error:
        return str(error)
    if max_norm is None:
        return ""
    norm = math.sqrt(total(squares))
    return "" if norm <= max_norm else f"its change has the norm {norm:.4g}, allowed is {max_norm:g}"


def _floating(model: ModelReader) -> Iterator[tuple[str, int, int]]:
    for name, spec in model.specs.items():
        if spec.floating:
            for start, stop in ranges(spec.size, length=RANGE):
                yield name, start, stop


def admit(
    *, model_path: Path, base_path: Path, reason_path: Path, config: Mapping[str, object] | None = None
) -> dict[str, float]:
    """The admit hook: `[hooks] admit = "stitch.learning.check:admit"`.

    It writes the reason of `unfit_model` to `reason_path`, if there is one; of boosted trees (`.txt`,
    `.json`) that of `unfit_booster`. `[config] max_norm` bounds the norm of the change of tensors.

    Args:
        model_path: the site's model.
        base_path: the global that it was trained from.
        reason_path: where the reason goes.
        config: the `[config]` table.

    Returns:
        Nothing to report: an empty map.

    Raises:
        BadModel: the base is not readable, which is no site's fault.
        ConfigError: max_norm is no number above 0.
    """
    bound = (config or {}).get("max_norm")
    if bound is not None and not (isinstance(bound, int | float) and bound > 0):
        raise ConfigError(
            "[config] max_norm is no number above 0", hint="Write max_norm = 10.0, for example."
        )
    if model_path.suffix in _TREES:
        return _said(unfit_booster(model_path, base_path), reason_path)
    with open_model(base_path) as base:
        try:
            with open_model(model_path) as model:
                reason = unfit_model(
                    model, base, n_samples=1, max_norm=None if bound is None else float(bound)
                )
        except BadModel as error:
            reason = f"its model file cannot be used: {error}"
    return _said(reason, reason_path)


def _said(reason: str, path: Path) -> dict[str, float]:
    if reason:
        path.write_text(reason, encoding="utf-8")
    return {}
