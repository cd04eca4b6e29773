"""The ready-made admit hook: what it writes about a model, and when it is itself the one to complain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.errors import BadModel, ConfigError
from stitch.learning import write_model
from stitch.learning.check import admit


def _said(root: Path, model: Any, config: dict[str, object] | None = None) -> str:
    write_model(root / "base.npz", {"w": np.zeros(2, "f4"), "n": np.array([1])})
    path = root / "model.npz"
    if isinstance(model, bytes):
        path.write_bytes(model)
    else:
        write_model(path, model)
    said = root / "reason.txt"
    answer = admit(model_path=path, base_path=root / "base.npz", reason_path=said, config=config)
    assert answer == {}
    return said.read_text(encoding="utf-8") if said.exists() else ""


GOOD = {"w": np.array([3.0, 4.0], "f4"), "n": np.array([7])}


@pytest.mark.parametrize(
    ("model", "config", "reason"),
    [
        (GOOD, None, ""),
        (GOOD, {"max_norm": 5.0, "site": {}}, ""),
        (GOOD, {"max_norm": 4}, "its change has the norm 5, allowed is 4"),
        ({**GOOD, "w": np.array([3.0, np.inf], "f4")}, None, "it is not finite in 'w'"),
        ({**GOOD, "w": np.zeros((2, 1), "f4")}, None, "its 'w' is float32 (2, 1), the global's float32 (2)"),
        ({"w": GOOD["w"]}, None, "it has no tensor 'n'"),
        (b"PK\x05\x06" + bytes(18), None, "it has no tensor 'w'"),
        (b"not an archive", None, "its model file cannot be used: the model is no .npz archive"),
    ],
)
def test_the_reason_is_one_line_for_people(
    tmp_path: Path, model: Any, config: dict[str, object] | None, reason: str
) -> None:
    assert _said(tmp_path, model, config) == reason


def test_a_norm_beyond_a_float_is_beyond_every_bound(tmp_path: Path) -> None:
    model = {"w": np.full(2, 3e38, "f4"), "n": np.array([1])}
    assert _said(tmp_path, model, {"max_norm": 1e30}).startswith("its change has the norm 4.24")
    write_model(tmp_path / "base.npz", {"w": np.zeros(1)})
    write_model(tmp_path / "model.npz", {"w": np.full(1, 1e300)})
    admit(
        model_path=tmp_path / "model.npz",
        base_path=tmp_path / "base.npz",
        reason_path=tmp_path / "r",
        config={"max_norm": 1e30},
    )
    assert "norm inf" in (tmp_path / "r").read_text(encoding="utf-8")


def test_numbers_whose_squares_fit_and_whose_sum_does_not_end_nobodys_round(tmp_path: Path) -> None:
    for name, tensors in (("base", np.zeros(4)), ("model", np.full(4, 9e153))):
        write_model(tmp_path / f"{name}.npz", {"v": tensors, "w": tensors})
    admit(
        model_path=tmp_path / "model.npz",
        base_path=tmp_path / "base.npz",
        reason_path=tmp_path / "r",
        config={"max_norm": 1e30},
    )
    assert "norm inf" in (tmp_path / "r").read_text(encoding="utf-8")


def test_a_base_that_cannot_be_read_blames_no_site(tmp_path: Path) -> None:
    write_model(tmp_path / "model.npz", GOOD)
    (tmp_path / "base.npz").write_bytes(b"")
    with pytest.raises(BadModel):
        admit(model_path=tmp_path / "model.npz", base_path=tmp_path / "base.npz", reason_path=tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_bound_that_is_no_number_is_the_settings_fault(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_norm"):
        _said(tmp_path, GOOD, {"max_norm": "5"})
