"""Fewer bytes and back: how far off int8 may be, and that top_k forgets nothing for good."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.errors import BadModel, TransformDegenerate
from stitch.learning.tensors import read_model, write_model
from stitch.privacy.compress import AT, MEMORY, SCALES, compress, expand

RNG = np.random.default_rng(11)
BASE: dict[str, Any] = {
    "w": RNG.normal(size=(60, 50)).astype(np.float32),
    "b": RNG.normal(size=50),
    "still": np.ones(3),
    "seen": np.array([4]),
}


def trained() -> dict[str, Any]:
    return {
        "w": BASE["w"] + RNG.normal(size=(60, 50)).astype(np.float32) * np.float32(0.01),
        "b": BASE["b"] + RNG.normal(size=50) * 0.1,
        "still": BASE["still"],
        "seen": BASE["seen"] + 5,
    }


def sent(folder: Path, model: Mapping[str, Any], *, ext: str = "npz", **how: Any) -> dict[str, Any]:
    """What the lead gets of a model."""
    (folder / "state").mkdir(exist_ok=True)
    paths = {name: folder / f"{name}.{ext}" for name in ("model", "base", "small", "back")}
    write_model(paths["model"], model)
    write_model(paths["base"], BASE)
    compress(
        model_path=paths["model"],
        global_path=paths["base"],
        out_path=paths["small"],
        state_dir=folder / "state",
        compression={"keep": 0.1, **how},
    )
    expand(model_path=paths["small"], global_path=paths["base"], out_path=paths["back"])
    return read_model(paths["back"])


@pytest.mark.parametrize("ext", ["npz", "safetensors"])
def test_int8_is_off_by_half_a_step_at_most_and_a_quarter_of_the_bytes(tmp_path: Path, ext: str) -> None:
    model = trained()
    back = sent(tmp_path, model, ext=ext, kind="int8")
    assert {name: (one.dtype, one.shape) for name, one in back.items()} == {
        name: (one.dtype, one.shape) for name, one in BASE.items()
    }
    for name in ("w", "b"):
        largest = max(abs(float(d)) for d in (model[name] - BASE[name]).ravel())
        off = np.abs(back[name].astype(float) - model[name]).max()
        assert off <= largest / 254 * (1 + 1e-4) + 1e-7
    assert np.array_equal(back["still"], BASE["still"])
    assert back["seen"] == 9
    small, whole = ((tmp_path / f"{name}.{ext}").stat().st_size for name in ("small", "model"))
    assert small < 0.4 * whole


@pytest.mark.parametrize("kind", ["int8", "top_k"])
def test_a_model_in_another_order_than_the_global_comes_back_as_it_is(tmp_path: Path, kind: str) -> None:
    """A site's own savez may list its tensors in any order; each keeps its own scale."""
    model = trained()
    turned = dict(reversed(list(model.items())))
    for folder in ("usual", "turned"):
        (tmp_path / folder).mkdir()
    usual, back = sent(tmp_path / "usual", model, kind=kind), sent(tmp_path / "turned", turned, kind=kind)
    assert {name: one.tobytes() for name, one in back.items()} == {
        name: one.tobytes() for name, one in usual.items()
    }
    assert np.abs(back["b"] - model["b"]).max() < np.abs(model["b"] - BASE["b"]).max()


def test_top_k_sends_the_largest_and_remembers_the_rest(tmp_path: Path) -> None:
    """Over the passes what was sent and what is kept add up to all that was learned."""
    told = {name: np.zeros(BASE[name].shape) for name in ("w", "b")}
    learned = {name: np.zeros(BASE[name].shape) for name in ("w", "b")}
    for _ in range(4):
        model = trained()
        back = sent(tmp_path, model, kind="top_k")
        for name in ("w", "b"):
            learned[name] += model[name].astype(float) - BASE[name]
            told[name] += back[name].astype(float) - BASE[name]
            assert np.count_nonzero(back[name] != BASE[name]) <= math.ceil(0.1 * BASE[name].size)
    rest = read_model(tmp_path / "state" / MEMORY)
    for name in ("w", "b"):
        assert np.allclose(told[name] + rest[name], learned[name], atol=1e-5)
        assert np.linalg.norm(rest[name]) < np.linalg.norm(learned[name])
    assert (tmp_path / "small.npz").stat().st_size < 0.35 * (tmp_path / "model.npz").stat().st_size


def test_the_first_pass_sends_the_largest_numbers_as_they_are(tmp_path: Path) -> None:
    model = trained()
    back = sent(tmp_path, model, kind="top_k")
    moved = np.abs(model["b"] - BASE["b"])
    largest = sorted(range(50), key=lambda i: -moved[i])[:5]
    assert sorted(np.flatnonzero(back["b"] != BASE["b"])) == sorted(largest)
    assert np.allclose(back["b"][largest], model["b"][largest])


def test_what_cannot_be_compressed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TransformDegenerate, match="other tensors than the global"):
        sent(tmp_path, {**trained(), "more": np.zeros(2)}, kind="int8")
    broken = trained()
    broken["b"][0] = math.nan
    with pytest.raises(TransformDegenerate, match="'b' holds a value that is no number"):
        sent(tmp_path, broken, kind="top_k")


@pytest.mark.parametrize(
    ("kind", "damage", "said"),
    [
        ("int8", {SCALES: np.array([math.nan] * 3)}, "scales of the int8 tensors"),
        ("int8", {SCALES: np.array([1.0])}, "scales of the int8 tensors"),
        ("int8", {SCALES: np.array(["1"] * 3)}, "scales of the int8 tensors"),
        ("int8", {"w": np.zeros(4, np.int8)}, "not int8 of the global's shape"),
        ("top_k", {"b" + AT: np.array([0, 1, 2, 3, 50], np.int32)}, "have no place"),
        ("top_k", {"b" + AT: np.array([-1, 1, 2, 3, 4], np.int32)}, "have no place"),
        ("top_k", {"b": np.zeros(2)}, "have no place"),
        ("top_k", {"b": np.array(["1"] * 5)}, "have no place"),
        ("int8", {"seen": np.array([1.5])}, "is not the global's"),
    ],
)
def test_a_file_that_does_not_fit_the_global_is_refused(
    tmp_path: Path, kind: str, damage: Mapping[str, Any], said: str
) -> None:
    sent(tmp_path, trained(), kind=kind)
    tensors = read_model(tmp_path / "small.npz")
    write_model(tmp_path / "small.npz", {**tensors, **damage})
    with pytest.raises(BadModel, match=said):
        expand(
            model_path=tmp_path / "small.npz",
            global_path=tmp_path / "base.npz",
            out_path=tmp_path / "back.npz",
        )
