"""The best global of a run, as its files tell."""

from __future__ import annotations

from collections.abc import Sequence

from stitch.rounds import Goal
from stitch.views.global_lane import GlobalLane
from stitch.views.status import BestPass, PassStatus


def best_pass(run: GlobalLane, passes: Sequence[PassStatus], *, whole: bool) -> BestPass | None:
    """The best global; None where globals are not compared, or none could be yet.

    Args:
        run: the lead's lane.
        passes: all of them; the final global's scores stand in no seal and are taken from here.
        whole: every site's lane was read: otherwise the final global is not judged, since a mean over
            some of the sites compares with none over all.
    """
    goal = Goal.of(run.manifest.settings) if run.manifest else None
    if goal is None:
        return None
    records = {number: seal.round for number, seal in run.globals_.items()}
    values = goal.values({number: record for number, record in records.items() if record is not None})
    final = run.done.final_pass if run.done else None
    if goal.by == "evaluation" and final is not None and whole:
        means = next((item.evaluation_means for item in passes if item.pass_id == final), None)
        if means is not None and goal.metric in means.metrics:
            values[final] = means.metrics[goal.metric]
    best = goal.best(values)
    if best is None:
        return None
    since = sum(number > best.pass_id for number in values)
    return BestPass(best.pass_id, goal.metric, goal.mode, goal.by, best.value, since, goal.patience)
