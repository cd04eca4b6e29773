"""The lead's noisy mean against plain Python, and that no site moves it by more than its clip."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.errors import TransformDegenerate
from stitch.learning.tensors import read_model, write_model
from stitch.privacy.central import aggregate

WIDTH = 20_000


def laid(folder: Path, models: dict[str, tuple[int, Any]], bases: dict[int, Any]) -> dict[str, Path]:
    """Inputs and bases as an aggregate hook gets them: by site its base's number and its model."""
    for site, (base, model) in models.items():
        place = folder / "inputs" / site / f"pass_{base + 1:03}"
        place.mkdir(parents=True, exist_ok=True)
        write_model(place / "model.npz", {"w": model, "seen": np.array(9)})
        (place / "metrics.json").write_text(
            json.dumps({"base_pass": base, "n_samples": 10**6}), encoding="utf-8"
        )
    for number, model in bases.items():
        place = folder / "bases" / f"pass_{number:03}"
        place.mkdir(parents=True, exist_ok=True)
        write_model(place / "model.npz", {"w": model, "seen": np.array(1)})
    newest = max(bases)
    return {
        "site_dir": folder / "inputs",
        "bases_dir": folder / "bases",
        "global_path": folder / "bases" / f"pass_{newest:03}" / "model.npz",
        "out_path": folder / "out.npz",
    }


def test_it_is_the_plain_mean_of_clipped_deltas_each_against_its_own_base(tmp_path: Path) -> None:
    old, new = np.zeros(WIDTH), np.full(WIDTH, 5.0)
    models = {"a": (1, new + 0.001), "b": (1, new - 7.0), "c": (0, old + 0.002)}
    paths = laid(tmp_path, models, {0: old, 1: new})
    assert aggregate(**paths, privacy={"clip": 1.0, "noise": 0.01, "frozen": []}) == {"sites": 3}
    out = read_model(paths["out_path"])
    assert out["seen"] == 1
    mean = (0.001 - 1 / math.sqrt(WIDTH) + 0.002) / 3
    left = out["w"] - 5.0 - mean
    assert abs(left.mean()) < 5 * 0.01 / 3 / math.sqrt(WIDTH)
    assert left.std() == pytest.approx(0.01 / 3, rel=0.05)


def test_a_site_that_sends_anything_moves_the_sum_by_no_more_than_its_clip(tmp_path: Path) -> None:
    base = np.zeros(WIDTH)
    models = {"a": (0, base), "b": (0, np.full(WIDTH, 1e9))}
    paths = laid(tmp_path, models, {0: base})
    aggregate(**paths, privacy={"clip": 1.0, "noise": 1e-6, "frozen": []})
    moved = read_model(paths["out_path"])["w"] * 2
    assert math.sqrt(math.fsum(float(x) ** 2 for x in moved)) == pytest.approx(1.0, rel=2e-5)


@pytest.mark.parametrize("worst", [math.nan, 1e200, 9e153])
def test_whose_model_cannot_be_clipped_is_said(tmp_path: Path, worst: float) -> None:
    base = np.zeros(WIDTH)
    paths = laid(tmp_path, {"a": (0, base), "b": (0, np.full(WIDTH, worst))}, {0: base})
    with pytest.raises(TransformDegenerate, match="b: the model holds a value that is no number, or far too"):
        aggregate(**paths, privacy={"clip": 1.0, "noise": 1.0, "frozen": []})


def test_other_tensors_than_the_globals_are_refused(tmp_path: Path) -> None:
    paths = laid(tmp_path, {"a": (0, np.zeros(3))}, {0: np.zeros(4)})
    with pytest.raises(TransformDegenerate, match="a's model has other tensors"):
        aggregate(**paths, privacy={"clip": 1.0, "noise": 1.0, "frozen": []})
