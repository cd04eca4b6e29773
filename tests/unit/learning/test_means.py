"""FedAvg, FedProx, FedBuff and the server's optimisers against rational arithmetic and plain loops."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stitch.learning import (
    DiLoCo,
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedBuff,
    FedProx,
    FedYogi,
    Strategy,
    proximal_gradient,
    proximal_term,
)
from tests.unit.learning.rounds import Folders, assert_close, exact

RNG = np.random.default_rng(20261130)
SAMPLES = {"nu": 1200, "mu": 37, "xi": 580}


def _tensor(dtype: str = "f4") -> NDArray[Any]:
    return RNG.normal(size=(3, 5)).astype(dtype)


MODELS = {site: {"w": _tensor(), "b": _tensor("f8"), "h": _tensor("f2")} for site in SAMPLES}
GLOBAL = {"w": _tensor(), "b": _tensor("f8"), "h": _tensor("f2")}
OLDER = {"w": _tensor(), "b": _tensor("f8"), "h": _tensor("f2")}


def _round(root: Path) -> Folders:
    folders = Folders(root, GLOBAL)
    for site, tensors in MODELS.items():
        folders.add(site, tensors, n_samples=SAMPLES[site])
    return folders


def _mean(name: str, shares: dict[str, int]) -> list[Fraction]:
    columns = zip(*(exact(MODELS[site][name]) for site in shares), strict=True)
    total = sum(shares.values())
    return [sum(x * n for x, n in zip(column, shares.values(), strict=True)) / total for column in columns]


@pytest.mark.parametrize("strategy", [FedAvg(), FedProx(proximal_mu=0.1)])
def test_fedavg_is_the_mean_by_samples(tmp_path: Path, strategy: Strategy) -> None:
    folders = _round(tmp_path)
    answer = folders.make(strategy)
    for name, found in folders.made().items():
        assert found.dtype == GLOBAL[name].dtype
        assert_close(found, _mean(name, SAMPLES), ulps=1)
    assert answer["n_samples"] == 1817


def test_uniform_fedavg_counts_sites_alike(tmp_path: Path) -> None:
    folders = _round(tmp_path)
    folders.make(FedAvg(weighted=False))
    for name, found in folders.made().items():
        assert_close(found, _mean(name, dict.fromkeys(SAMPLES, 1)), ulps=1)


def test_a_stale_pass_counts_by_its_change_against_its_own_base(tmp_path: Path) -> None:
    """Section 6, fault 3, of the asynchronous design: averaging stale models drags the global back."""
    folders = Folders(tmp_path, GLOBAL)
    folders.add("nu", MODELS["nu"], n_samples=10)
    folders.add("xi", MODELS["xi"], n_samples=30, staleness=2, weight=0.5, base=OLDER)
    folders.make(FedAvg())
    for name, found in folders.made().items():
        rows = (GLOBAL[name], MODELS["nu"][name], MODELS["xi"][name], OLDER[name])
        wanted = [
            g + (10 * (x - g) + 30 * Fraction(1, 2) * (y - b)) / 40
            for g, x, y, b in zip(*map(exact, rows), strict=True)
        ]
        assert_close(found, wanted)


@pytest.mark.parametrize(
    ("strategy", "shares", "k"),
    [
        (FedBuff(server_lr=0.5), (1, 1), 2),
        (FedBuff(server_lr=0.5, weighted=True), (Fraction(10, 20), Fraction(30, 20)), 2),
        (FedBuff(server_lr=0.5, buffer_size=4), (1, 1), 4),
        (FedBuff(server_lr=0.5, buffer_size=1), (1, 1), 2),  # never more than the mean
    ],
)
def test_fedbuff_does_not_divide_the_discount_out_again(
    tmp_path: Path, strategy: Strategy, shares: tuple[Fraction, Fraction], k: int
) -> None:
    folders = Folders(tmp_path, GLOBAL)
    folders.add("nu", MODELS["nu"], n_samples=10, staleness=1, weight=0.25, base=OLDER)
    folders.add("xi", MODELS["xi"], n_samples=30, staleness=1, weight=0.25, base=OLDER)
    folders.make(strategy)
    for name, found in folders.made().items():
        rows = (GLOBAL[name], MODELS["nu"][name], MODELS["xi"][name], OLDER[name])
        wanted = [
            g + Fraction(1, 2) * Fraction(1, 4) * (shares[0] * (x - b) + shares[1] * (y - b)) / k
            for g, x, y, b in zip(*map(exact, rows), strict=True)
        ]
        assert_close(found, wanted)


def _element_by_element(
    first: float, step: Callable[[float, list[float]], tuple[float, list[float]]], start: list[float]
) -> list[float]:
    """Three rounds of one element in which the sites' mean change is always `first`."""
    value, state, values = 0.25, start, []
    for _ in range(3):
        moved, state = step(first, state)
        value += moved
        values.append(value)
    return values


OPTIMISERS: list[tuple[Strategy, Callable[[float, list[float]], tuple[float, list[float]]], list[float]]] = [
    (
        FedAvgM(momentum=0.5, server_lr=0.25),
        lambda d, s: (0.25 * (0.5 * s[0] + d), [0.5 * s[0] + d]),
        [0.0],
    ),
    (
        DiLoCo(),
        lambda d, s: (0.7 * (d + 0.9 * (0.9 * s[0] + d)), [0.9 * s[0] + d]),
        [0.0],
    ),
    (
        FedAdam(server_lr=0.1, beta_1=0.9, beta_2=0.99, tau=0.001),
        lambda d, s: (
            0.1 * (0.9 * s[0] + 0.1 * d) / (math.sqrt(0.99 * s[1] + 0.01 * d**2) + 0.001),
            [0.9 * s[0] + 0.1 * d, 0.99 * s[1] + 0.01 * d**2],
        ),
        [0.0, 1e-6],
    ),
    (
        FedYogi(server_lr=0.1, beta_1=0.9, beta_2=0.99, tau=0.001),
        lambda d, s: (
            0.1
            * (0.9 * s[0] + 0.1 * d)
            / (math.sqrt(s[1] - 0.01 * d**2 * math.copysign(1, s[1] - d**2)) + 0.001),
            [0.9 * s[0] + 0.1 * d, s[1] - 0.01 * d**2 * math.copysign(1, s[1] - d**2)],
        ),
        [0.0, 1e-6],
    ),
    (
        FedAdagrad(server_lr=0.1, tau=0.001),
        lambda d, s: (0.1 * d / (math.sqrt(s[1] + d**2) + 0.001), [d, s[1] + d**2]),
        [0.0, 1e-6],
    ),
]


@pytest.mark.parametrize(("strategy", "step", "start"), OPTIMISERS, ids=lambda one: type(one).__name__)
def test_an_optimiser_goes_on_from_its_state_for_three_rounds(
    tmp_path: Path, strategy: Strategy, step: Any, start: list[float]
) -> None:
    """Two sites whose changes of each element average to d, for a few d, in float64."""
    changes = np.array([0.5, -0.125, 3e-5, 0.0])
    previous, state = np.full(4, 0.25), None
    wanted = [_element_by_element(float(d), step, start) for d in changes]
    for number in range(3):
        folders = Folders(tmp_path / str(number), {"w": previous}, state=state)
        (tmp_path / str(number)).mkdir()
        folders.add("a", {"w": previous + changes + 0.5}, n_samples=7)
        folders.add("b", {"w": previous + changes - 0.5}, n_samples=7)
        folders.make(strategy)
        previous, state = folders.made()["w"], tmp_path / str(number) / "state.npz"
        assert previous.tolist() == pytest.approx([rounds[number] for rounds in wanted], rel=1e-11, abs=1e-15)


def test_the_state_is_kept_at_least_in_float32_and_named_after_its_tensor(tmp_path: Path) -> None:
    folders = _round(tmp_path)
    folders.make(FedAdam())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as state:
        assert {name: state[name].dtype.name for name in state.files} == {
            "m.w": "float32", "v.w": "float32", "m.b": "float64", "v.b": "float64",
            "m.h": "float32", "v.h": "float32",
        }  # fmt: skip


def test_an_object_used_without_files_remembers_its_state() -> None:
    strategy = FedAvgM(momentum=0.5)
    model = [np.zeros(2)]
    for wanted in (1.0, 2.5, 4.25):
        model = strategy.aggregate_fit(model, [([model[0] + 1.0], 3, {}, 0)])
        assert model[0].tolist() == [wanted, wanted]


def test_the_proximal_term_is_half_mu_times_the_squared_distance() -> None:
    own, start = [np.array([1.0, 2.0]), np.array([3])], [np.array([0.0, 4.0]), np.array([9])]
    assert proximal_term(own, start, mu=0.5) == 0.25 * (1.0 + 4.0)
    assert [g.tolist() for g in proximal_gradient(own, start, mu=0.5)] == [[0.5, -1.0], [0]]
    assert FedProx(proximal_mu=0.5).configure_fit(3, {"epochs": 2}) == {"epochs": 2, "proximal_mu": 0.5}


def test_the_proximal_gradient_is_the_slope_of_the_proximal_term() -> None:
    own, start = [RNG.normal(size=6)], [RNG.normal(size=6)]
    slope = []
    for place in range(6):
        ahead, behind = own[0].copy(), own[0].copy()
        ahead[place] += 1e-6
        behind[place] -= 1e-6
        slope.append((proximal_term([ahead], start, mu=0.3) - proximal_term([behind], start, mu=0.3)) / 2e-6)
    assert proximal_gradient(own, start, mu=0.3)[0].tolist() == pytest.approx(slope, abs=1e-8)
