"""`init --epsilon`: the `[privacy]` table of a new project, and whether its plan can hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from stitch.cli.scaffold import Pace
from stitch.errors import ConfigError
from stitch.files import disk
from stitch.rounds.accountant import Budget
from stitch.rounds.privacy_plan import fit_of

TEMPLATE = "numpy"
"""The template whose models can be opened, and whose first one can be made without data."""

MUCH = 1.0
"""Noise multiplier from which each number carries more noise than the whole clipped delta may be long."""

_COMMENTED = re.compile(r"(?m)^# \[privacy\].*\n(?:# .*\n)*")


@dataclass(frozen=True, slots=True)
class PrivacyPlan:
    """A budget for the passes of a new project.

    Attributes:
        budget: what each site's data may give away over the run.
        noise: the noise multiplier; None takes the least that the passes need.
    """

    budget: Budget
    noise: float | None


def plan_for(
    template: str, *, epsilon: float | None, delta: float, noise: float | None
) -> PrivacyPlan | None:
    """What the options ask for; None without a budget.

    Raises:
        ConfigError: a value is out of its range, there is noise without a budget, or the template's
            models cannot be opened.
    """
    if epsilon is None:
        if noise is not None:
            raise ConfigError("--noise says nothing without --epsilon", hint="Add a budget: --epsilon 8.")
        return None
    if template != TEMPLATE:
        raise ConfigError(
            f"--epsilon has to open the models, and those of the template {template} are opaque",
            hint=f"Use --template {TEMPLATE}, or read docs/privacy.md for a project of your own.",
        )
    if noise is not None and not noise > 0:
        raise ConfigError(f"the noise multiplier is {noise:g}", hint="Wanted: a number above 0, such as 1.5.")
    return PrivacyPlan(Budget(epsilon, delta), noise)


def make_private(root: Path, plan: PrivacyPlan) -> list[str]:
    """Put the table where the template's commented one stands; gives warnings of what cannot come out well.

    Raises:
        DiskError: the settings cannot be written.
    """
    toml = root / "stitch.toml"
    with disk(toml):
        text = _COMMENTED.sub(lambda _: _table(plan), toml.read_text(encoding="utf-8"), count=1)
        toml.write_text(text, encoding="utf-8", newline="\n")
    return _warnings(plan, passes=Pace().num_passes)


def _table(plan: PrivacyPlan) -> str:
    lines = [
        "[privacy]  # clip and noise before anything leaves: docs/privacy.md",
        'mode = "local"',
        "clip = 1.0",
        f"epsilon = {float(plan.budget.epsilon)!r}",
        f"delta = {float(plan.budget.delta)!r}",
        *([] if plan.noise is None else [f"noise_multiplier = {float(plan.noise)!r}"]),
        "data_free_start = true  # global 0 is made with an empty data folder",
        'frozen = ["median", "center", "scale"]  # no site may change them, so nothing is told of them',
    ]
    return "\n".join(lines) + "\n"


def _warnings(plan: PrivacyPlan, *, passes: int) -> list[str]:
    """One sentence each, with what to do."""
    budget = plan.budget
    fit = fit_of(budget, passes=passes, noise=plan.noise)
    if fit.possible < passes:
        permits = f"noise_multiplier {fit.sigma:g} permits {fit.possible} of {passes} passes"
        return [f"{permits} within epsilon {budget.epsilon:g}: take {fit.least:g}, or fewer num_passes."]
    if fit.sigma >= MUCH:
        takes = f"{passes} passes within epsilon {budget.epsilon:g} take noise of {fit.sigma:g} x clip"
        return [f"{takes} on every number: few sites learn next to nothing from that (docs/privacy.md)."]
    return []
