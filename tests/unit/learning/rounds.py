"""Rounds on disk as a hook finds them, and models as plain Python numbers for independent computations."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stitch.learning import Strategy, aggregate

Tensors = Mapping[str, NDArray[Any]]


@dataclass
class Folders:
    """One round's folders; `add` puts an input in, `make` runs the strategy."""

    root: Path
    previous: Tensors
    ext: str = "npz"
    state: Path | None = None
    kept: list[str] = field(default_factory=list)

    def add(self, site: str, tensors: Tensors, **said: Any) -> None:
        """An input; `said` are n_samples, staleness, weight, base (its own, if it is older) and metrics."""
        folder = self.root / "sites" / site / "pass_003"
        folder.mkdir(parents=True)
        np.savez(folder / "model.npz", **tensors)  # type: ignore[arg-type]  # NumPy's stubs are too narrow
        seal = {"n_samples": said.get("n_samples", 1), "metrics": said.get("metrics", {})}
        (folder / "metrics.json").write_text(json.dumps(seal), encoding="utf-8")
        staleness = said.get("staleness", 0)
        note = note_of(site, staleness=staleness, weight=said.get("weight", 1.0))
        (folder / "round.json").write_text(note, encoding="utf-8")
        if "base" in said:
            base = self.root / "bases" / f"pass_{2 - staleness:03d}"
            base.mkdir(parents=True, exist_ok=True)
            np.savez(base / "model.npz", **said["base"])

    def make(self, strategy: Strategy, **more: Any) -> dict[str, float]:
        """Aggregate; the model is then at `out`."""
        np.savez(self.root / "global.npz", **self.previous)  # type: ignore[arg-type]  # as above
        (self.root / "bases").mkdir(exist_ok=True)
        return aggregate(
            site_dir=self.root / "sites",
            out_path=self.out,
            global_path=self.root / "global.npz",
            bases_dir=self.root / "bases",
            strategy=strategy,
            outer_path=self.state,
            outer_out_path=self.root / "state.npz",
            **more,
        )

    @property
    def out(self) -> Path:
        return self.root / "new.npz"

    def made(self) -> dict[str, NDArray[Any]]:
        """What NumPy reads of the new global."""
        with np.load(self.out, allow_pickle=False) as loaded:
            return {name: loaded[name] for name in loaded.files}


def note_of(site: str, *, staleness: int = 0, weight: float = 1.0) -> str:
    """What round 3 says of an input, as docs/hooks.md has it."""
    return json.dumps({"site": site, "base_pass": 2 - staleness, "staleness": staleness, "weight": weight})


def exact(array: NDArray[Any]) -> list[Fraction]:
    """The elements as rational numbers: what is computed of them has no rounding."""
    return [Fraction(float(value)) for value in array.reshape(-1)]


def assert_close(found: NDArray[Any], wanted: Sequence[Fraction | float], *, ulps: int = 2) -> None:
    """Each element within a few units in the last place: of its own for what was cast, of 1 in float64."""
    floor = 1.0 if found.dtype == np.float64 else 0.0
    for got, want in zip(found.reshape(-1).tolist(), wanted, strict=True):
        unit = np.spacing(found.dtype.type(max(abs(float(want)), floor)))
        assert abs(Fraction(got) - Fraction(want)) <= Fraction(float(unit)) * ulps, (got, want)
