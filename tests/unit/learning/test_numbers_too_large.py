"""Finite numbers of a site that would make the global infinite: it is left out by name, the others finish."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stitch.errors import BadModel, RoundError
from stitch.learning import (
    DiLoCo,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedBuff,
    FedMedian,
    FedProx,
    FedYogi,
    MultiKrum,
    NDArrays,
    Strategy,
    TrimmedMean,
    write_model,
)
from tests.unit.learning.rounds import Folders

HUGE = 1.7e308
HONEST = "abcde"


def _round(root: Path, values: dict[str, float], *, dtype: str = "f8", n_samples: int = 100) -> Folders:
    """Five honest sites, and others with one such number each; more than one tensor."""
    folders = Folders(root, {"w": np.zeros(3, dtype), "b": np.ones(2, "f4")})
    for place, site in enumerate(HONEST):
        tensors: dict[str, NDArray[Any]] = {"w": np.full(3, place + 1, dtype), "b": np.ones(2, "f4")}
        folders.add(site, tensors, n_samples=n_samples)
    for site, value in values.items():
        tensors = {"w": np.array([1, value, 1], dtype), "b": np.ones(2, "f4")}
        folders.add(site, tensors, n_samples=n_samples)
    return folders


def _files(folders: Folders) -> tuple[bytes, bytes]:
    state = folders.root / "state.npz"
    return folders.out.read_bytes(), state.read_bytes() if state.exists() else b""


@pytest.mark.parametrize(
    ("strategy", "value", "dtype"),
    [
        (FedAvg(), HUGE, "f8"),
        (FedProx(proximal_mu=0.1), -HUGE, "f8"),
        (FedAvgM(), HUGE, "f8"),
        (FedAvgM(weighted=False, server_lr=10.0), HUGE, "f8"),
        (FedBuff(server_lr=10.0), HUGE, "f8"),
        (FedBuff(server_lr=10.0), 65504.0, "f2"),
        (DiLoCo(weighted=True), HUGE, "f8"),
        (DiLoCo(outer_lr=10.0), HUGE, "f8"),
        (FedAdam(), 1e200, "f8"),  # the square of a change is kept, and would be infinite for ever
        (FedAdam(), 1e25, "f4"),
        (FedYogi(), 1e25, "f4"),
        (FedAdagrad(), 1e25, "f4"),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Strategy) else str(one),
)
def test_who_would_make_the_global_infinite_is_left_out_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: Strategy, value: float, dtype: str
) -> None:
    made = []
    for values in ({"bad": value}, {}):
        folders = _round(tmp_path / str(len(values)), values, dtype=dtype)
        answer = folders.make(strategy)
        made.append(_files(folders))
        assert answer["n_samples"] == 500
        assert answer.get("excluded.bad") == (1 if values else None)
        assert np.isfinite(folders.made()["w"]).all()
    assert made[0] == made[1]
    told = capsys.readouterr().err
    assert told == "left out: bad: its numbers are too large for a finite global in 'w'\n"


def test_it_is_the_site_without_which_the_global_is_finite(tmp_path: Path) -> None:
    """`few` sends the larger number, and weighs so little that it would harm nobody."""
    folders = Folders(tmp_path, {"w": np.zeros(1)})
    folders.add("few", {"w": np.array([1e305])}, n_samples=1)
    folders.add("many", {"w": np.array([1e300])}, n_samples=10**9)
    folders.add("usual", {"w": np.ones(1)}, n_samples=10)
    answer = folders.make(FedAvg())
    assert "excluded.many" in answer
    assert answer["n_samples"] == 11


def test_of_several_the_largest_goes_first_and_of_equal_ones_the_first_by_id(tmp_path: Path) -> None:
    values = {"v": 1.6e308, "x": HUGE, "y": HUGE, "z": 1.6e308}
    folders = _round(tmp_path, values, n_samples=1)
    answer = folders.make(FedAvg())
    assert {name for name in answer if name.startswith("excluded.")} == {
        "excluded.x",
        "excluded.y",
        "excluded.v",
    }


def test_a_stale_pass_is_judged_by_its_change_against_its_own_base(tmp_path: Path) -> None:
    folders = _round(tmp_path, {})
    base: dict[str, NDArray[Any]] = {"w": np.full(3, -1e308), "b": np.ones(2, "f4")}
    far: dict[str, NDArray[Any]] = {"w": np.full(3, 1e308), "b": np.ones(2, "f4")}
    folders.add("bad", far, staleness=1, weight=0.5, base=base)
    folders.add("good", base, staleness=1, weight=0.5, base=base)
    answer = folders.make(FedBuff())
    assert "excluded.bad" in answer
    assert "excluded.good" not in answer


@pytest.mark.parametrize(
    "strategy", [FedMedian(), TrimmedMean(), MultiKrum()], ids=lambda s: type(s).__name__
)
def test_strategies_against_poisoned_sites_just_do_not_use_it(tmp_path: Path, strategy: Strategy) -> None:
    folders = _round(tmp_path, {"bad": HUGE})
    answer = folders.make(strategy)
    assert "excluded" not in answer
    assert np.abs(folders.made()["w"]).max() <= 5.0


@pytest.mark.parametrize("strategy", [FedMedian(), MultiKrum()], ids=lambda one: type(one).__name__)
def test_a_stale_model_that_cannot_be_carried_over_is_not_called_a_file_that_is_not_finite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: Strategy
) -> None:
    folders = _round(tmp_path, {})
    base: dict[str, NDArray[Any]] = {"w": np.full(3, -1e308), "b": np.ones(2, "f4")}
    folders.add("bad", {"w": np.full(3, 1e308), "b": np.ones(2, "f4")}, staleness=1, base=base)
    folders.make(strategy)
    assert capsys.readouterr().err == "left out: bad: its numbers are too large for a finite global in 'w'\n"


def test_of_multi_krum_only_the_chosen_are_to_blame(tmp_path: Path) -> None:
    """Six honest sites and two of the three others, by id: `z` has the largest number, and is not chosen."""
    folders = _round(tmp_path, {"f": 6.0, "bad": HUGE, "worse": HUGE, "z": -1.75e308})
    answer = folders.make(MultiKrum(byzantine=2, keep=8))
    assert [name for name in answer if name.startswith("excluded.")] == ["excluded.bad"]


def test_nobody_is_named_when_it_would_be_infinite_without_any_change(tmp_path: Path) -> None:
    folders = _round(tmp_path, {})
    folders.state = tmp_path / "before.npz"
    write_model(folders.state, {"v.w": np.full(3, HUGE), "v.b": np.zeros(2, "f4")})
    with pytest.raises(BadModel, match="would not be finite in 'w'"):
        folders.make(FedAvgM(server_lr=2.0))
    assert not folders.out.exists()


def test_a_round_in_which_everybodys_numbers_are_too_large_is_refused(tmp_path: Path) -> None:
    folders = Folders(tmp_path, {"w": np.zeros(1, "f2")})
    folders.add("a", {"w": np.full(1, 60000, "f2")})
    with pytest.raises(RoundError, match="no pass can be counted: a: its numbers are too large"):
        folders.make(FedBuff(server_lr=2.0))
    assert not folders.out.exists()


def test_a_mean_metric_is_finite_where_the_sum_is_not(tmp_path: Path) -> None:
    folders = Folders(tmp_path, {"w": np.zeros(1)})
    for site, loss in (("a", HUGE), ("b", 1.5e308), ("c", HUGE)):
        folders.add(site, {"w": np.ones(1)}, n_samples=100, metrics={"loss": loss, "auroc": 0.75})
    answer = folders.make(FedAvg())
    assert math.isclose(answer["loss"], 1.633333333333333e308, rel_tol=1e-12)
    assert answer["auroc"] == 0.75


class _Plain(Strategy):
    """A user's own, that does not look."""

    def __init__(self, factor: float = 1.0) -> None:
        self._factor = factor

    def aggregate_fit(
        self, global_params: NDArrays, results: list[tuple[NDArrays, int, dict[str, float], int]]
    ) -> NDArrays:
        return [
            sum((w[i] * self._factor for w, _, _, _ in results), start=np.zeros_like(g))
            for i, g in enumerate(global_params)
        ]


def test_a_strategy_of_ones_own_is_spared_models_that_are_not_finite(tmp_path: Path) -> None:
    folders = _round(tmp_path, {"bad": math.nan})
    assert "excluded.bad" in folders.make(_Plain())
    assert folders.made()["w"].tolist() == [15.0, 15.0, 15.0]


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_strategy_of_ones_own_cannot_publish_an_infinite_global(tmp_path: Path) -> None:
    folders = _round(tmp_path, {})
    with pytest.raises(BadModel, match="would not be finite in 'w'"):
        folders.make(_Plain(HUGE))
    assert not folders.out.exists()
