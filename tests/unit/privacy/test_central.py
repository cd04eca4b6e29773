"""The lead's noisy mean against plain Python, and that no site moves it by more than its clip."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.errors import BadModel, RoundError
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


PRIVACY = {"clip": 1.0, "noise": 1e-3, "frozen": []}
BAD: dict[str, tuple[Any, str]] = {
    "nan": (np.full(WIDTH, math.nan), "the model holds a value that is no number, or far too large"),
    "infinite": (np.full(WIDTH, -math.inf), "the model holds a value that is no number, or far too large"),
    "too large to square": (np.full(WIDTH, 1e200), "the model holds a value that is no number, or far too"),
    "too large to add": (np.full(WIDTH, 9e153), "the model holds a value that is no number, or far too"),
    "shape": (np.zeros(3), "its 'w' is float64 (3), the global's float64 (20000)"),
    "dtype": (np.zeros(WIDTH, np.float32), "its 'w' is float32 (20000), the global's float64 (20000)"),
}


@pytest.mark.parametrize("fault", BAD)
def test_a_model_that_cannot_be_used_is_left_out_by_name_and_counts_as_no_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], fault: str
) -> None:
    """The others are divided by 3 as if it had sent the global: its data decide nothing else."""
    base, (worst, why) = np.zeros(WIDTH), BAD[fault]
    models = {"a": (0, base + 0.006), "b": (0, worst), "c": (0, base)}
    paths = laid(tmp_path, models, {0: base})
    assert aggregate(**paths, privacy=PRIVACY) == {"sites": 2, "excluded": 1, "excluded.b": 1}
    assert capsys.readouterr().err.startswith(f"left out: b: {why}")
    left = read_model(paths["out_path"])["w"] - 0.006 / 3
    assert abs(left.mean()) < 5 * 1e-3 / 3 / math.sqrt(WIDTH)
    assert left.std() == pytest.approx(1e-3 / 3, rel=0.05)


def test_a_file_that_is_no_model_is_left_out_too(tmp_path: Path) -> None:
    base = np.zeros(WIDTH)
    paths = laid(tmp_path, {"a": (0, base), "b": (0, base)}, {0: base})
    (paths["site_dir"] / "b" / "pass_001" / "model.npz").write_bytes(b"PK no archive")
    assert "excluded.b" in aggregate(**paths, privacy=PRIVACY)


def test_a_round_with_nothing_left_is_refused(tmp_path: Path) -> None:
    paths = laid(tmp_path, {"a": (0, np.full(4, math.nan)), "b": (0, np.zeros(3))}, {0: np.zeros(4)})
    with pytest.raises(RoundError, match=r"no pass can be counted: a: the model holds .*; b: its 'w' is"):
        aggregate(**paths, privacy=PRIVACY)
    assert not paths["out_path"].exists()


def test_a_global_that_cannot_be_read_is_no_sites_fault(tmp_path: Path) -> None:
    base = np.zeros(WIDTH)
    paths = laid(tmp_path, {"a": (0, base), "b": (1, base)}, {0: base, 1: base})
    (paths["bases_dir"] / "pass_000" / "model.npz").write_bytes(b"PK no archive")
    with pytest.raises(BadModel):
        aggregate(**paths, privacy=PRIVACY)


def test_noise_that_a_narrow_dtype_cannot_hold_makes_no_global(tmp_path: Path) -> None:
    base = np.full(100, 60_000, np.float16)
    paths = laid(tmp_path, {"a": (0, base)}, {0: base})
    with pytest.raises(BadModel, match="would not be finite in 'w'") as caught:
        aggregate(**paths, privacy={"clip": 1.0, "noise": 1e5, "frozen": []})
    assert "float32" in caught.value.hint
    assert not paths["out_path"].exists()
