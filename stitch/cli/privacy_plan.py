"""A plan of private passes as a value, in lines for people and in JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass

from stitch.errors import ConfigError
from stitch.rounds.accountant import Budget, rounded_up

KIND = "stitch.privacy_plan/1"
_MOST_SIGMA = 1e9


@dataclass(frozen=True, slots=True)
class Plan:
    """So many passes within a budget.

    Attributes:
        budget: what the data set may give away.
        passes: how many releases are planned.
        noise: the noise multiplier sigma: the noise's standard deviation is sigma times `clip`.
        after: releases made, and the epsilon spent by then.
    """

    budget: Budget
    passes: int
    noise: float
    after: tuple[tuple[int, float], ...]


def make_plan(budget: Budget, *, passes: int, noise: float | None) -> Plan:
    """The plan with this noise, or with the least that is enough, rounded up to four digits.

    Raises:
        ConfigError: the plan is impossible; says what would be possible.
    """
    least = budget.noise(passes)
    sigma = rounded_up(least) if noise is None else noise
    if not 0.0 < sigma <= _MOST_SIGMA:
        raise ConfigError(f"the noise multiplier is {sigma:g}", hint=f"Wanted: above 0, to {_MOST_SIGMA:g}.")
    if not budget.holds([sigma] * passes):
        possible = budget.passes(sigma, most=passes)
        raise ConfigError(
            f"noise_multiplier {sigma:g} permits {possible} of {passes} passes within epsilon "
            f"{budget.epsilon:g}, delta {budget.delta:g}",
            hint=f"Take noise_multiplier {rounded_up(least):g}, or fewer passes.",
        )
    steps = sorted({1, *(max(1, round(passes * part)) for part in (0.25, 0.5, 0.75, 1.0))})
    return Plan(budget, passes, sigma, tuple((n, budget.spent([sigma] * n)) for n in steps))


def as_lines(plan: Plan) -> list[str]:
    """The plan in at most 80 columns, ASCII."""
    budget = plan.budget
    told = {
        "add_remove": "a site's clipped contribution or none cannot be told apart",
        "replace": "any two data sets of a site cannot be told apart",
    }[budget.adjacency]
    return [
        f"{plan.passes} passes within epsilon {budget.epsilon:g}, delta {budget.delta:g}:",
        f"  {told}",
        f"  noise_multiplier  {plan.noise:g}  (standard deviation of the noise / clip)",
        f"  one pass costs    epsilon {plan.after[0][1]:.4g}  (passes add up to less than their sum)",
        "",
        "  after pass   spent     left",
        *(
            f"  {number:>10}   {spent:<7.4g}   {max(0.0, budget.epsilon - spent):.4g}"
            for number, spent in plan.after
        ),
    ]


def as_json(plan: Plan) -> str:
    """The plan as one line of JSON, `stitch.privacy_plan/1`."""
    budget = plan.budget
    return json.dumps(
        {
            "kind": KIND,
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "adjacency": budget.adjacency,
            "passes": plan.passes,
            "noise_multiplier": plan.noise,
            "after": [
                {"passes": number, "spent": spent, "left": max(0.0, budget.epsilon - spent)}
                for number, spent in plan.after
            ],
        }
    )
