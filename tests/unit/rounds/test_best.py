"""Which global is the best, and when patience is used up."""

from __future__ import annotations

import pytest

from stitch.rounds import Best, Goal
from stitch.wire import RoundRecord

SCORES, TRAINING = Goal("auroc", "max", "evaluation", 2), Goal("loss", "min", "train", 2)


def record(*, scores: float | None = None, training: float | None = None, of: int = 0) -> RoundRecord:
    fields = {"policy": "all_expected", "attempt": 0, "roster": 1, "verdict_sha256": None, "inputs": ()}
    means = {} if scores is None else {"auroc": scores}
    return RoundRecord.model_validate(
        {
            **fields,
            "prev_metrics_sha256": "0" * 64,
            "seed": 1,
            "evaluated": {"pass": of, "sites": (), "means": means},
            "train_means": {} if training is None else {"loss": training},
        }
    )


def test_scores_are_of_the_global_before_and_training_is_of_the_global_itself() -> None:
    records = {
        0: record(),
        1: record(scores=0.6, training=0.4, of=0),
        2: record(scores=0.7, training=0.3, of=1),
    }
    assert SCORES.values(records) == {0: 0.6, 1: 0.7}
    assert TRAINING.values(records) == {1: 0.4, 2: 0.3}


@pytest.mark.parametrize(
    ("goal", "values", "best"),
    [
        (SCORES, {0: 0.5, 1: 0.7, 2: 0.7, 3: 0.6}, 1),
        (TRAINING, {1: 0.5, 2: 0.3, 3: 0.3}, 2),
        (SCORES, {0: -0.5}, 0),
        (TRAINING, {4: 0.0, 5: -0.0}, 4),
    ],
)
def test_of_equal_globals_the_earlier_is_the_best(goal: Goal, values: dict[int, float], best: int) -> None:
    assert goal.best(values) == Best(best, goal.metric, values[best])
    assert goal.best(dict(reversed(values.items()))) == goal.best(values)


def test_patience_counts_the_judged_globals_after_the_best_one() -> None:
    assert not SCORES.used_up({0: 0.7, 1: 0.6})
    assert SCORES.used_up({0: 0.7, 1: 0.6, 2: 0.7})
    assert not SCORES.used_up({0: 0.7, 1: 0.6, 2: 0.8})


def test_a_global_that_nobody_judged_wears_out_no_patience() -> None:
    assert not SCORES.used_up({0: 0.7, 5: 0.6})
    assert not SCORES.used_up({})
    assert SCORES.best({}) is None


def test_without_patience_a_run_goes_on() -> None:
    assert not Goal("auroc", "max", "train").used_up({1: 0.9, **dict.fromkeys(range(2, 50), 0.1)})


@pytest.mark.parametrize(
    "table",
    [
        None,
        "auroc",
        {},
        {"best_metric": 3, "mode": "max", "by": "train"},
        {"best_metric": "auroc", "mode": "most", "by": "train"},
        {"best_metric": "auroc", "mode": "max", "by": "somebody"},
    ],
)
def test_a_manifest_with_anything_else_has_no_goal(table: object) -> None:
    assert Goal.of({"evaluation": table}) is None


@pytest.mark.parametrize("patience", [None, True, 0, -1, "2"])
def test_a_patience_that_is_no_count_is_none(patience: object) -> None:
    table = {"best_metric": "auroc", "mode": "max", "by": "train", "patience": patience}
    assert Goal.of({"evaluation": table}) == Goal("auroc", "max", "train", None)
