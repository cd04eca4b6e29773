"""What holds for every strategy: order, bits, buffers, memory, who is left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from stitch.errors import RoundError
from stitch.learning import (
    DiLoCo,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedBuff,
    FedMedian,
    Krum,
    NDArrays,
    Strategy,
    TrimmedMean,
    write_model,
)
from tests.unit.learning.rounds import Folders

RNG = np.random.default_rng(11)
EVERY = [FedAvg(), FedAvgM(), FedAdam(), DiLoCo(), FedBuff(), FedMedian(), TrimmedMean(), Krum()]


def _model() -> dict[str, NDArray[Any]]:
    return {
        "w": RNG.normal(size=(300, 1000)).astype("f4"),  # more than one range
        "bn.running_var": RNG.uniform(0.0, 1.0, size=3).astype("f4"),
        "bn.num_batches_tracked": np.array(RNG.integers(0, 1000)),
        "mask": RNG.uniform(size=5) < 0.5,
        "columns": np.array(["age", "lactate"]),
    }


def _add(folders: Folders, order: list[int]) -> None:
    models = [_seeded(place) for place in range(5)]
    for place in order:
        folders.add(f"site{place}", models[place], n_samples=10 + place)


def _seeded(place: int) -> dict[str, NDArray[Any]]:
    rng = np.random.default_rng(place)
    return {
        name: array + rng.normal(size=array.shape).astype("f4") if array.dtype.kind == "f" else array
        for name, array in START.items()
    }


START = _model()


@pytest.mark.parametrize("strategy", EVERY, ids=lambda one: type(one).__name__)
def test_the_order_of_arrival_changes_no_bit(tmp_path: Path, strategy: Strategy) -> None:
    made, states = set(), set()
    for place, order in enumerate([[0, 1, 2, 3, 4], [4, 2, 0, 3, 1]]):
        folders = Folders(tmp_path / str(place), START)
        _add(folders, order)
        folders.make(strategy)
        made.add(folders.out.read_bytes())
        state = tmp_path / str(place) / "state.npz"
        states.add(state.read_bytes() if state.exists() else b"")
    assert len(made) == len(states) == 1


@pytest.mark.parametrize("strategy", EVERY, ids=lambda one: type(one).__name__)
def test_every_tensor_keeps_its_name_place_shape_and_dtype(tmp_path: Path, strategy: Strategy) -> None:
    folders = Folders(tmp_path, START)
    _add(folders, [0, 1, 2, 3, 4])
    folders.make(strategy)
    made = folders.made()
    assert list(made) == list(START)
    assert {n: (a.shape, a.dtype) for n, a in made.items()} == {
        n: (a.shape, a.dtype) for n, a in START.items()
    }
    assert made["columns"].tolist() == ["age", "lactate"]
    assert not np.array_equal(made["w"], START["w"])


def _buffers(root: Path) -> Folders:
    folders = Folders(root, {"n": np.array([1, 1]), "on": np.array([False]), "w": np.zeros(1)})
    folders.add("a", {"n": np.array([4, 9]), "on": np.array([True]), "w": np.ones(1)}, n_samples=2)
    folders.add("b", {"n": np.array([5, 7]), "on": np.array([False]), "w": np.ones(1)}, n_samples=30)
    folders.add("c", {"n": np.array([9, 8]), "on": np.array([True]), "w": np.ones(1)}, n_samples=30)
    return folders


@pytest.mark.parametrize("strategy", [FedAvg(), FedAdam(), FedBuff()])
def test_integers_and_booleans_are_those_of_the_largest_site(tmp_path: Path, strategy: Strategy) -> None:
    folders = _buffers(tmp_path)
    folders.make(strategy)
    assert folders.made()["n"].tolist() == [5, 7]
    assert folders.made()["on"].tolist() == [False]


def test_a_robust_strategy_takes_the_lower_median_of_integers(tmp_path: Path) -> None:
    folders = _buffers(tmp_path)
    folders.make(FedMedian())
    assert folders.made()["n"].tolist() == [5, 8]
    assert folders.made()["on"].tolist() == [True]


@pytest.mark.parametrize("strategy", [FedAvgM(), FedAdam(), DiLoCo()])
def test_running_statistics_are_averaged_and_never_stepped(tmp_path: Path, strategy: Strategy) -> None:
    folders = Folders(tmp_path, {"bn.running_var": np.array([100.0]), "w": np.zeros(1)})
    folders.add("a", {"bn.running_var": np.array([1.0]), "w": np.ones(1)}, n_samples=1)
    folders.add("b", {"bn.running_var": np.array([4.0]), "w": np.ones(1)}, n_samples=2)
    folders.make(strategy)
    assert folders.made()["bn.running_var"].tolist() == [3.0]
    with np.load(tmp_path / "state.npz", allow_pickle=False) as state:
        assert not [name for name in state.files if "running" in name]


BAD: dict[str, tuple[dict[str, NDArray[Any]], int, str]] = {
    "nan": ({"w": np.array([1.0, np.nan])}, 5, "not finite"),
    "infinite": ({"w": np.array([-np.inf, 0.0])}, 5, "not finite"),
    "shape": ({"w": np.zeros(3)}, 5, "float64"),
    "broadcast": ({"w": np.array(1.0)}, 5, "float64"),
    "dtype": ({"w": np.zeros(2, "f4")}, 5, "float32"),
    "lacks": ({"v": np.zeros(2)}, 5, "no tensor 'w'"),
    "more": ({"w": np.zeros(2), "v": np.zeros(2)}, 5, "the global lacks"),
    "weightless": ({"w": np.zeros(2)}, 0, "zero samples"),
}


@pytest.mark.parametrize(
    "strategy", [FedAvg(), FedAdam(), FedMedian(), Krum()], ids=lambda s: type(s).__name__
)
@pytest.mark.parametrize("fault", BAD)
def test_a_site_whose_model_is_no_good_is_left_out_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], strategy: Strategy, fault: str
) -> None:
    tensors, count, why = BAD[fault]
    made = []
    for place, bad in enumerate((True, False)):
        folders = Folders(tmp_path / str(place), {"w": np.zeros(2)})
        for site in "abcde":
            folders.add(site, {"w": np.array([1.0, 2.0])}, n_samples=5)
        if bad:
            folders.add("bad", tensors, n_samples=count)
        answer = folders.make(strategy)
        made.append(folders.out.read_bytes())
        assert answer["n_samples"] == 25
        assert ("excluded.bad" in answer) is bad
    assert made[0] == made[1]
    told = capsys.readouterr().err
    assert told.startswith("left out: bad: ")
    assert why in told


def test_a_change_beyond_the_bound_is_left_out(tmp_path: Path) -> None:
    folders = Folders(tmp_path, {"w": np.ones(2), "v": np.ones(1, "f4")})
    folders.add("a", {"w": np.array([1.0, 4.0]), "v": np.full(1, 5.0, "f4")})  # a change of norm 5
    folders.add("b", {"w": np.array([1.0, 4.01]), "v": np.full(1, 5.0, "f4")})
    answer = folders.make(FedAvg(), max_norm=5.0)
    assert answer["n_samples"] == 1
    assert "excluded.b" in answer
    assert folders.made()["w"].tolist() == [1.0, 4.0]


def test_a_round_with_nothing_left_is_refused_and_leaves_no_model(tmp_path: Path) -> None:
    folders = Folders(tmp_path, {"w": np.zeros(2)})
    folders.add("a", {"w": np.array([np.nan, 0.0])}, n_samples=5)
    folders.add("b", {"w": np.zeros(2)}, n_samples=0)
    with pytest.raises(RoundError, match=r"a: it is not finite.*; b: zero samples"):
        folders.make(FedAvg())
    assert not folders.out.exists()


EACH = """
import hashlib, sys
from pathlib import Path
import stitch.learning as learning
root = Path(sys.argv[1])
for name in ("FedAvg", "FedAdam", "FedYogi", "DiLoCo", "FedMedian", "TrimmedMean", "MultiKrum"):
    learning.aggregate(site_dir=root / "sites", out_path=root / "new.npz", global_path=root / "global.npz",
                       outer_out_path=root / "state.npz", strategy=getattr(learning, name)(), max_norm=1e9)
    print(name, hashlib.sha256((root / "new.npz").read_bytes()).hexdigest())
"""


def test_the_processor_changes_no_bit(tmp_path: Path) -> None:
    """The same in a process in which NumPy may not use what this processor has beyond the baseline."""
    folders = Folders(tmp_path, START)
    _add(folders, [0, 1, 2, 3, 4])
    np.savez(tmp_path / "global.npz", **START)  # type: ignore[arg-type]  # NumPy's stubs are too narrow
    facts: Any = np.show_config(mode="dicts")
    wide = " ".join(facts["SIMD Extensions"]["found"])
    said = set()
    for without in ("", wide):
        ran = subprocess.run(
            [sys.executable, "-c", EACH, str(tmp_path)],
            env={**os.environ, "NPY_DISABLE_CPU_FEATURES": without},
            capture_output=True,
            check=True,
            text=True,
        )
        said.add(ran.stdout)
    assert len(said) == 1
    assert said.pop().count("\n") == 7


class _Mine(Strategy):
    """A user's own, in the seed's words: a mean discounted by staleness."""

    def aggregate_fit(
        self, global_params: NDArrays, results: list[tuple[NDArrays, int, dict[str, float], int]]
    ) -> NDArrays:
        total = sum(n / (1 + s) for _, n, _, s in results)
        return [
            sum((w[i] * (n / (1 + s)) for w, n, _, s in results), start=np.zeros_like(g)) / total
            for i, g in enumerate(global_params)
        ]


def test_a_strategy_of_ones_own_needs_aggregate_fit_alone(tmp_path: Path) -> None:
    folders = Folders(tmp_path, {"w": np.zeros(2), "n": np.array([3])})
    folders.add("a", {"w": np.array([1.0, 2.0]), "n": np.array([3])}, n_samples=1, metrics={"loss": 2.0})
    folders.add("b", {"w": np.array([3.0, 6.0]), "n": np.array([3])}, n_samples=3, metrics={"loss": 4.0})
    answer = folders.make(_Mine())
    assert folders.made()["w"].tolist() == [2.5, 5.0]
    assert folders.made()["n"].tolist() == [3]
    assert answer == {"n_samples": 4, "loss": 3.5}
    loss, metrics = _Mine().aggregate_evaluate([(2.0, 1, {"auroc": 0.5}), (4.0, 3, {"auroc": 0.9})])
    assert loss == 3.5
    assert metrics == pytest.approx({"auroc": 0.8})


MEASURE = """
import re, sys
from pathlib import Path
import stitch.learning as learning
root = Path(sys.argv[1])
learning.aggregate(site_dir=root / "sites", out_path=root / "new.npz", global_path=root / "global.npz",
                   outer_out_path=root / "state.npz", strategy=getattr(learning, sys.argv[2])())
print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text(encoding="utf-8"))[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc; the code is the same")
@pytest.mark.parametrize("strategy", ["FedAvg", "FedAdam", "FedMedian"])
def test_memory_does_not_grow_with_the_sites(tmp_path: Path, strategy: str) -> None:
    """24 sites of 16 MB each: at most 3 tensors and 100 MiB."""
    size = 4_000_000
    write_model(tmp_path / "global.npz", {"w": np.zeros(size, "f4")})
    write_model(tmp_path / "site.npz", {"w": np.arange(size, dtype="f4")})
    for place in range(24):
        folder = tmp_path / "sites" / f"s{place}" / "pass_001"
        folder.mkdir(parents=True)
        (folder / "model.npz").hardlink_to(tmp_path / "site.npz")
        (folder / "metrics.json").write_text('{"n_samples": 5}', encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path), strategy], capture_output=True, check=True, text=True
    )
    assert int(ran.stdout) <= 3 * size * 4 // 1024 + 100 * 1024
