"""A plan of private passes: the noise that they need, and what is spent as they go."""

from __future__ import annotations

from dataclasses import dataclass

from stitch.errors import ConfigError
from stitch.rounds.accountant import Budget, rounded_up

_MOST_SIGMA = 1e9


@dataclass(frozen=True, slots=True)
class Fit:
    """How far a noise goes within a budget.

    Attributes:
        budget: what the data set may give away.
        passes: how many releases are planned.
        sigma: the noise multiplier: the one that was given, or the least that is enough.
        least: the least with which all passes fit, rounded up to four digits.
    """

    budget: Budget
    passes: int
    sigma: float
    least: float

    @property
    def possible(self) -> int:
        """How many of the passes fit; `sigma` must be above 0."""
        if self.budget.holds([self.sigma] * self.passes):
            return self.passes
        return self.budget.passes(self.sigma, most=self.passes)


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


def fit_of(budget: Budget, *, passes: int, noise: float | None) -> Fit:
    """How the passes fit with this noise, or with the least that is enough for all.

    Raises:
        ConfigError: `passes` is no count.
    """
    least = rounded_up(budget.noise(passes))
    return Fit(budget, passes, least if noise is None else noise, least)


def make_plan(budget: Budget, *, passes: int, noise: float | None) -> Plan:
    """The plan with this noise, or with the least that is enough, rounded up to four digits.

    Raises:
        ConfigError: the plan is impossible; says what would be possible.
    """
    fit = fit_of(budget, passes=passes, noise=noise)
    sigma = fit.sigma
    if not 0.0 < sigma <= _MOST_SIGMA:
        raise ConfigError(f"the noise multiplier is {sigma:g}", hint=f"Wanted: above 0, to {_MOST_SIGMA:g}.")
    if fit.possible < passes:
        raise ConfigError(
            f"noise_multiplier {sigma:g} permits {fit.possible} of {passes} passes within epsilon "
            f"{budget.epsilon:g}, delta {budget.delta:g}",
            hint=f"Take noise_multiplier {fit.least:g}, or fewer passes.",
        )
    steps = sorted({1, *(max(1, round(passes * part)) for part in (0.25, 0.5, 0.75, 1.0))})
    return Plan(budget, passes, sigma, tuple((n, budget.spent([sigma] * n)) for n in steps))
