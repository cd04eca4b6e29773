"""A plan of private passes, in lines for people and in JSON."""

from __future__ import annotations

import json

from stitch.rounds.privacy_plan import Plan

KIND = "stitch.privacy_plan/1"


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
