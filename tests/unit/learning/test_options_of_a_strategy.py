"""What `[strategy]` and the policy say to a strategy that stitch.toml names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stitch.errors import ConfigError
from stitch.learning import BoosterBagging, FedAvg, FedBuff, read_model, write_model
from stitch.learning.bridge import aggregate, build_strategy
from tests.unit.learning.rounds import Folders


def made(
    folder: Path, strategy: Callable[..., Any], options: Mapping[str, Any], **policy: Any
) -> tuple[float, dict[str, Any]]:
    """The one weight of a round over changes of 1 and 5, and the hook's answer."""
    folders = Folders(folder, {})
    folders.add("nu", {"w": np.array([1.0])})
    folders.add("rush", {"w": np.array([5.0])})
    write_model(folder / "global.npz", {"w": np.zeros(1)})
    answer = aggregate(
        site_dir=folder / "sites",
        out_path=folders.out,
        strategy_class=strategy,
        strategy_options=options,
        strategy_defaults=policy,
        train_config={},
        global_path=folder / "global.npz",
        bases_dir=folder,
        pass_id=3,
        round_seed=1,
    )
    return float(read_model(folders.out)["w"][0]), answer


@pytest.mark.parametrize(
    ("options", "policy", "weight"),
    [
        ({}, {}, 6 / 2),
        ({}, {"buffer_size": 4}, 6 / 4),
        ({}, {"buffer_size": 1}, 6 / 2),
        ({"buffer_size": 3}, {"buffer_size": 4}, 6 / 3),
    ],
)
def test_fedbuff_divides_by_the_policys_buffer_unless_told_otherwise(
    tmp_path: Path, options: dict[str, Any], policy: dict[str, Any], weight: float
) -> None:
    assert made(tmp_path, FedBuff, options, **policy)[0] == weight


def test_a_strategy_that_has_no_such_option_is_not_given_it(tmp_path: Path) -> None:
    assert made(tmp_path, FedAvg, {}, buffer_size=4)[0] == 3.0


def test_whose_change_is_too_large_is_left_out(tmp_path: Path) -> None:
    weight, answer = made(tmp_path, FedAvg, {"max_norm": 4.0, "weighted": False})
    assert weight == 1.0
    assert answer["excluded.rush"] == 1


def test_a_strategy_with_a_bound_of_its_own_gets_it(tmp_path: Path) -> None:
    class Bounded(FedAvg):
        def __init__(self, max_norm: str) -> None:
            super().__init__()
            self.bound = max_norm

    built = build_strategy(Bounded, {"max_norm": "my own kind"})
    assert isinstance(built, Bounded)
    assert built.bound == "my own kind"
    assert made(tmp_path, Bounded, {"max_norm": "my own kind"})[0] == 3.0


def test_trees_have_no_norm() -> None:
    with pytest.raises(ConfigError, match="BoosterBagging has no max_norm"):
        build_strategy(BoosterBagging, {"max_norm": 1.0})
