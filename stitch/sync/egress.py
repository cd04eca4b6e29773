"""Least egress (law 8): what may leave beside the model, decided before anything is sealed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from stitch.config.settings import Egress
from stitch.errors import EgressRefused


def narrow(metrics: Mapping[str, float], allowed: tuple[str, ...] | None) -> dict[str, float]:
    """The metrics that may leave: finite numbers, of the allowed names, sorted by name."""
    names = sorted(metrics if allowed is None else set(metrics) & set(allowed))
    return {name: float(metrics[name]) for name in names if math.isfinite(metrics[name])}


def check_counts(n_samples: int, egress: Egress) -> None:
    """Refuse a pass trained on so few samples that it could point at persons.

    Zero samples say nothing about anybody and may leave; the lead excludes such a pass.

    Raises:
        EgressRefused: 0 < n_samples < min_n.
    """
    if 0 < n_samples < egress.min_n:
        raise EgressRefused(
            f"n_samples is {n_samples}, below the smallest count that may leave ({egress.min_n})",
            hint="Widen the cohort, or agree on another [egress] min_n with the privacy officer.",
        )


def check_model(model: Path, *, ext: str, max_bytes: int) -> None:
    """Refuse a model file that the settings do not allow out.

    Raises:
        EgressRefused: wrong extension, empty, or larger than `max_file_mb`.
    """
    if model.suffix != f".{ext}":
        raise EgressRefused(f"{model.name}: only model.{ext} may leave")
    check_attachment(model, max_bytes=max_bytes)


def check_attachment(file: Path, *, max_bytes: int) -> None:
    """Refuse a file beside the model that the settings do not allow out.

    Raises:
        EgressRefused: empty, or larger than `max_file_mb`.
    """
    size = file.stat().st_size
    if not 0 < size <= max_bytes:
        raise EgressRefused(
            f"{file.name} has {size} bytes; allowed are 1 to {max_bytes}",
            hint="Make the model smaller or raise transfer.max_file_mb at every site.",
        )
