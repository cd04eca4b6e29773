"""Median, trimmed mean and Krum against the standard library and the definition, and against poison."""

from __future__ import annotations

import statistics
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stitch.errors import ConfigError
from stitch.learning import FedMedian, Krum, MultiKrum, Strategy, TrimmedMean
from stitch.learning.strategies.robust import sort_elements
from tests.unit.learning.rounds import Folders, assert_close, exact

RNG = np.random.default_rng(7)
NAMES = ["a", "b", "c", "d", "e", "f", "g"]


def _models(count: int) -> dict[str, dict[str, NDArray[Any]]]:
    return {
        site: {"w": RNG.normal(size=(2, 3)).astype("f4"), "v": RNG.normal(size=4)} for site in NAMES[:count]
    }


def _round(root: Path, models: dict[str, dict[str, NDArray[Any]]]) -> Folders:
    some = next(iter(models.values()))
    folders = Folders(root, {name: np.zeros_like(array) for name, array in some.items()})
    for place, (site, tensors) in enumerate(models.items()):
        folders.add(site, tensors, n_samples=10**place)
    return folders


def _columns(models: dict[str, dict[str, NDArray[Any]]], name: str) -> list[list[Fraction]]:
    return [list(column) for column in zip(*(exact(t[name]) for t in models.values()), strict=True)]


@pytest.mark.parametrize("count", [1, 2, 5, 6])
def test_the_median_is_that_of_the_standard_library(tmp_path: Path, count: int) -> None:
    models = _models(count)
    folders = _round(tmp_path, models)
    folders.make(FedMedian())
    for name, found in folders.made().items():
        assert_close(found, [statistics.median(column) for column in _columns(models, name)], ulps=1)


@pytest.mark.parametrize(("beta", "count", "cut"), [(0.2, 5, 1), (0.34, 6, 2), (0.0, 4, 0), (0.29, 7, 2)])
def test_the_trimmed_mean_leaves_the_ends_out(tmp_path: Path, beta: float, count: int, cut: int) -> None:
    models = _models(count)
    folders = _round(tmp_path, models)
    folders.make(TrimmedMean(beta=beta))
    for name, found in folders.made().items():
        middles = [sorted(column)[cut : count - cut] for column in _columns(models, name)]
        assert_close(found, [sum(middle) / len(middle) for middle in middles])


@pytest.mark.parametrize("count", range(1, 20))
def test_rows_are_sorted_element_by_element(count: int) -> None:
    """By the 0-1 principle a network that sorts all zeros and ones sorts everything; beyond 12, at random."""
    columns = min(2**count, 4096)
    bits = np.arange(columns) if count <= 12 else RNG.integers(0, 2**count, size=columns)
    rows = [(bits >> place & 1).astype("f4") for place in range(count)]
    wanted = [sorted(column) for column in np.stack(rows).T.tolist()]
    assert np.stack(sort_elements(rows)).T.tolist() == wanted


def test_no_zero_keeps_its_sign(tmp_path: Path) -> None:
    """Which of -0.0 and 0.0 is smaller depends on the processor."""
    for count in (2, 3):
        zeros = {site: {"w": np.array([-0.0])} for site in NAMES[:count]}
        folders = _round(tmp_path / str(count), zeros)
        folders.make(FedMedian())
        assert not np.signbit(folders.made()["w"]).any()


def _by_definition(models: dict[str, dict[str, NDArray[Any]]], *, f: int, keep: int) -> list[str]:
    """Krum's choice in rational arithmetic, from Blanchard et al., section 4."""
    flat = {site: [x for array in tensors.values() for x in exact(array)] for site, tensors in models.items()}
    scores = {}
    for site, own in flat.items():
        apart = sorted(
            sum((x - y) ** 2 for x, y in zip(own, other, strict=True))
            for name, other in flat.items()
            if name != site
        )
        scores[site] = sum(apart[: len(flat) - f - 2])
    return sorted(sorted(flat, key=lambda site: (scores[site], site))[:keep])


@pytest.mark.parametrize(("f", "count"), [(1, 5), (1, 7), (2, 7)])
def test_krum_chooses_the_model_whose_nearest_are_nearest(tmp_path: Path, f: int, count: int) -> None:
    models = _models(count)
    folders = _round(tmp_path, models)
    folders.make(Krum(byzantine=f))
    [chosen] = _by_definition(models, f=f, keep=1)
    assert all(found.tolist() == models[chosen][name].tolist() for name, found in folders.made().items())


@pytest.mark.parametrize(("keep", "count"), [(3, 6), (None, 7)])
def test_multi_krum_averages_the_chosen(tmp_path: Path, keep: int | None, count: int) -> None:
    models = _models(count)
    folders = _round(tmp_path, models)
    answer = folders.make(MultiKrum(byzantine=1, keep=keep))
    chosen = _by_definition(models, f=1, keep=keep or count - 1)
    assert sorted(name.removeprefix("chosen.") for name in answer if "chosen" in name) == chosen
    for name, found in folders.made().items():
        columns = _columns({site: models[site] for site in chosen}, name)
        assert_close(found, [sum(column) / len(chosen) for column in columns])


def test_krum_leaves_out_a_model_whose_distance_no_double_holds(tmp_path: Path) -> None:
    models = _models(4) | {"e": {"w": np.full((2, 3), 3e38, "f4"), "v": np.full(4, 9e153)}}
    folders = _round(tmp_path, models)
    answer = folders.make(MultiKrum(byzantine=1))
    assert sorted(name for name in answer if "chosen" in name) == [f"chosen.{site}" for site in "abcd"]


def test_krum_says_how_many_sites_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has 4 sites") as caught:
        _round(tmp_path, _models(4)).make(Krum(byzantine=1))
    assert "needs 5" in caught.value.hint


@pytest.mark.parametrize("strategy", [FedMedian(), TrimmedMean(), Krum(), MultiKrum()])
def test_one_poisoned_site_of_five_cannot_carry_the_global_away(tmp_path: Path, strategy: Strategy) -> None:
    models = {site: {"w": 1.0 + RNG.normal(size=50) / 100} for site in NAMES[:4]}
    models["z"] = {"w": np.full(50, -1e9)}
    folders = Folders(tmp_path, {"w": np.zeros(50)})
    for site, tensors in models.items():
        folders.add(site, tensors, n_samples=10**6 if site == "z" else 10)
    folders.make(strategy)
    assert np.abs(folders.made()["w"] - 1.0).max() < 0.1


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_stale_model_is_carried_over_to_the_newest_global(tmp_path: Path, dtype: str) -> None:
    folders = Folders(tmp_path, {"w": np.array([10.0], dtype)})
    folders.add("a", {"w": np.array([10.5], dtype)})
    folders.add("b", {"w": np.array([2.75], dtype)}, staleness=1, base={"w": np.array([2.0], dtype)})
    folders.add("c", {"w": np.array([11.0], dtype)})
    folders.make(FedMedian())
    assert folders.made()["w"].tolist() == [10.75]
