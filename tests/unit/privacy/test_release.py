"""What may leave: the clip against sums in plain Python, the noise by its law, and every refusal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.errors import EgressRefused, TransformDegenerate
from stitch.learning.tensors import read_model, write_model
from stitch.privacy import release as module
from stitch.privacy.release import inspect, release

Tensors = Mapping[str, Any]

RNG = np.random.default_rng(3)
BASE: dict[str, Any] = {
    "layer.w": RNG.normal(size=(6, 5)).astype(np.float32),
    "layer.b": RNG.normal(size=5),
    "seen": np.array([3, 4], dtype=np.int64),
    "on": np.array([True, False]),
}


def moved(by: float) -> dict[str, Any]:
    """A model trained from `BASE`."""
    return {
        "layer.w": BASE["layer.w"] + np.float32(by),
        "layer.b": BASE["layer.b"] - by,
        "seen": BASE["seen"] + 100,
        "on": ~BASE["on"],
    }


def released(
    folder: Path,
    model: Tensors,
    *,
    base: Tensors = BASE,
    ext: str = "npz",
    raw: Tensors | None = None,
    **rules: Any,
) -> dict[str, Any]:
    for name, tensors in (("model", model), ("base", base), ("raw", raw)):
        if tensors is not None:
            write_model(folder / f"{name}.{ext}", tensors)
    privacy = {"clip": 1.0, "noise": None, "groups": None, "frozen": [], **rules}
    result = release(
        model_path=folder / f"model.{ext}",
        global_path=folder / f"base.{ext}",
        out_path=folder / f"out.{ext}",
        privacy=privacy,
        raw_path=folder / f"raw.{ext}" if raw is not None else None,
    )
    assert result == {}, "a norm is data: it stays in the site's log"
    return read_model(folder / f"out.{ext}")


def norm(out: Tensors, base: Tensors = BASE) -> float:
    """The delta's length, in plain Python floats."""
    squares = [
        (float(a) - float(b)) ** 2
        for name in ("layer.w", "layer.b")
        for a, b in zip(out[name].ravel(), base[name].ravel(), strict=True)
    ]
    return math.sqrt(math.fsum(squares))


@pytest.mark.parametrize("ext", ["npz", "safetensors"])
@pytest.mark.parametrize("clip", [1e-3, 0.5, 3.0])
def test_a_long_delta_is_shortened_to_the_clip_and_keeps_its_direction(
    tmp_path: Path, ext: str, clip: float
) -> None:
    model = moved(2.0)
    assert norm(model) > clip
    out = released(tmp_path, model, ext=ext, clip=clip)
    assert norm(out) == pytest.approx(clip, rel=1e-4)
    assert norm({**out, "layer.w": BASE["layer.w"]}) <= clip
    assert np.allclose((out["layer.b"] - BASE["layer.b"]) / clip, -2 / norm(model), rtol=1e-6)


def test_a_short_delta_is_left_as_it_is(tmp_path: Path) -> None:
    model = moved(0.01)
    out = released(tmp_path, model, clip=5.0)
    for name in ("layer.w", "layer.b"):
        assert np.allclose(out[name], model[name], rtol=1e-6, atol=1e-8)


def test_what_is_no_floating_point_number_is_the_globals(tmp_path: Path) -> None:
    out = released(tmp_path, moved(1.0))
    assert {name: (array.dtype, array.shape) for name, array in out.items()} == {
        name: (array.dtype, array.shape) for name, array in BASE.items()
    }
    assert np.array_equal(out["seen"], BASE["seen"])
    assert np.array_equal(out["on"], BASE["on"])


def test_frozen_tensors_are_the_globals_and_count_for_nothing(tmp_path: Path) -> None:
    model = {**moved(0.01), "layer.b": BASE["layer.b"] + 1e6}
    out = released(tmp_path, model, clip=5.0, noise=1e-3, frozen=["layer.b"])
    assert np.array_equal(out["layer.b"], BASE["layer.b"])
    assert np.allclose(out["layer.w"] - BASE["layer.w"], 0.01, atol=0.03)


def test_noise_has_the_clips_scale_on_every_coordinate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PART", 1000)  # so that a tensor has many parts
    base = {"a": np.zeros(30_000), "b": np.zeros((100, 100), np.float32)}
    model = {"a": np.full(30_000, 1.0), "b": np.full((100, 100), -1.0, np.float32)}
    out = released(tmp_path, model, base=base, clip=0.25, noise=4.0)
    for name, sign in (("a", 1), ("b", -1)):
        delta = out[name].astype(float).ravel()
        assert delta.std() == pytest.approx(1.0, rel=0.05)
        assert abs(delta.mean() - sign * 0.25 / math.sqrt(40_000)) < 5 / math.sqrt(delta.size)
        assert abs(np.corrcoef(delta[:1000], delta[1000:2000])[0, 1]) < 0.2
    again = released(tmp_path, model, base=base, clip=0.25, noise=4.0)
    assert not np.array_equal(out["a"], again["a"])


def test_a_tensor_outside_the_allow_list_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(EgressRefused, match=r"'seen' is in none of the groups"):
        released(tmp_path, moved(1.0), groups=["layer.", "on"])
    assert not (tmp_path / "out.npz").exists()
    released(tmp_path, moved(1.0), groups=["layer.", "on", "seen"])
    with pytest.raises(EgressRefused, match=r"'on'"):
        inspect(model_path=tmp_path / "model.npz", privacy={"groups": ["layer.", "seen"]})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e300])
def test_a_value_that_is_no_number_is_refused(tmp_path: Path, value: float) -> None:
    model = moved(1.0)
    model["layer.b"][2] = value
    with pytest.raises(TransformDegenerate, match="no number, or far too large"):
        released(tmp_path, model)
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"layer.b": np.zeros(4)}, r"'layer\.b' is float64 \(4\), in the global float64 \(5\)"),
        ({"layer.b": np.zeros(5, np.float32)}, r"'layer\.b' is float32 \(5\), in the global float64 \(5\)"),
        ({"extra": np.zeros(1)}, r"'extra' is float64 \(1\), in the global missing"),
    ],
)
def test_another_architecture_than_the_globals_is_refused(tmp_path: Path, change: Tensors, said: str) -> None:
    with pytest.raises(TransformDegenerate, match=said):
        released(tmp_path, {**moved(1.0), **change})


def test_a_dtype_that_cannot_hold_the_noise_is_refused(tmp_path: Path) -> None:
    """float16 overflows, or swallows noise far below its spacing: then what leaves is what was trained."""
    tall = {"w": np.full(4, 60_000, np.float16)}
    with pytest.raises(TransformDegenerate, match="cannot hold"):
        released(tmp_path, tall, base=tall, clip=1e6, noise=1.0)
    with pytest.raises(TransformDegenerate, match="changed nothing"):
        released(tmp_path, tall, base=tall, clip=1e-3, noise=1.0)


def test_a_filter_that_left_nothing_is_refused(tmp_path: Path) -> None:
    zeros = {name: np.zeros_like(array) for name, array in BASE.items()}
    with pytest.raises(TransformDegenerate, match="nothing but zeros"):
        released(tmp_path, zeros, raw=moved(1.0), noise=1.0)
    assert released(tmp_path, zeros, base=zeros, raw=zeros)["on"].sum() == 0
    broken = moved(1.0)
    broken["layer.w"][0, 0] = math.nan
    with pytest.raises(TransformDegenerate, match="pre_release hook left a value that is no number"):
        released(tmp_path, broken, raw=moved(1.0))


def test_a_misspelt_frozen_tensor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EgressRefused, match=r"frozen has 'layr', and no tensor's name begins so"):
        released(tmp_path, moved(0.01), clip=5.0, noise=1e-3, frozen=["layer.b", "layr"])
    assert not (tmp_path / "out.npz").exists()
