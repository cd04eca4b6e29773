"""Which global is the best so far, and whether a run's patience is used up: from sealed means alone.

A global for which nobody reported the metric is not judged: it neither improves nor wears out any
patience (law 7: absence decides nothing).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stitch.wire import RoundRecord


@dataclass(frozen=True, slots=True)
class Best:
    """The best of the globals that were judged; of equal ones the earliest."""

    pass_id: int
    metric: str
    value: float


@dataclass(frozen=True, slots=True)
class Goal:
    """By what globals are compared.

    Attributes:
        metric: its name.
        mode: whether more of it is better ("max"), or less.
        by: the means of the sites' scores of a global, or those of the training that it was made of.
        patience: after how many judged globals without a better one the run ends; None: never.
    """

    metric: str
    mode: Literal["max", "min"]
    by: Literal["evaluation", "train"]
    patience: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, object]) -> Goal | None:
        """The goal in a manifest's settings; None where there is none, or none that this version knows."""
        table = settings.get("evaluation")
        said = table if isinstance(table, dict) else {}
        metric, mode, by, patience = (said.get(name) for name in ("best_metric", "mode", "by", "patience"))
        if not isinstance(metric, str) or mode not in ("max", "min") or by not in ("evaluation", "train"):
            return None
        counts = isinstance(patience, int) and not isinstance(patience, bool) and patience > 0
        return cls(metric, mode, by, patience if counts else None)

    def values(self, records: Mapping[int, RoundRecord]) -> dict[int, float]:
        """The metric by global, ascending, as far as the records of these globals tell.

        A record holds the scores of the global before it, and the training that its own was made of.
        """
        found: dict[int, float] = {}
        for number, record in sorted(records.items()):
            of = number - 1 if self.by == "evaluation" else number
            scores = record.evaluated.means if record.evaluated is not None else {}
            means = scores if self.by == "evaluation" else record.train_means or {}
            if self.metric in means:
                found[of] = means[self.metric]
        return found

    def best(self, values: Mapping[int, float]) -> Best | None:
        """The best of them; None where nothing was judged."""
        sign = 1.0 if self.mode == "max" else -1.0
        number = max(values, key=lambda one: (sign * values[one], -one), default=None)
        return None if number is None else Best(number, self.metric, values[number])

    def used_up(self, values: Mapping[int, float]) -> bool:
        """Whether `patience` globals were judged after the best one."""
        best = self.best(values)
        if best is None or self.patience is None:
            return False
        return sum(number > best.pass_id for number in values) >= self.patience


def used_up(settings: Mapping[str, object], records: Mapping[int, RoundRecord | None]) -> bool:
    """Whether the patience in a manifest's settings is used up by the records of these globals."""
    goal = Goal.of(settings)
    known = {number: record for number, record in records.items() if record is not None}
    return goal is not None and goal.used_up(goal.values(known))
