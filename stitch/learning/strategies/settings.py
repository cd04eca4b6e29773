"""The limits of a strategy's options."""

from __future__ import annotations

from stitch.errors import ConfigError


def within(name: str, value: float, *, low: float, high: float, open_high: bool = False) -> float:
    """The option's value.

    Args:
        name: of the option.
        value: as given.
        low: the smallest value.
        high: the largest value.
        open_high: whether `high` itself is refused.

    Raises:
        ConfigError: it is no number, or outside of them.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(
            f"the strategy's option {name} is {value!a}, wanted a number",
            hint=f"Write a number without quotes, such as {name} = {max(low, 0.1):g}.",
        )
    end = ", below the latter" if open_high else ""
    if not low <= value <= high or (open_high and value == high):
        raise ConfigError(
            f"the strategy's option {name} is {value:g}",
            hint="It is above 0." if low == POSITIVE else f"It lies between {low:g} and {high:g}{end}.",
        )
    return float(value)


POSITIVE = 1e-300
"""The smallest value of an option that must be more than zero."""
MOST = 1e12
"""Larger than any sensible option."""
