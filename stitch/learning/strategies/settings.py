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
        ConfigError: it is outside of them.
    """
    if not low <= value <= high or (open_high and value == high):
        raise ConfigError(
            f"the strategy's option {name} is {value:g}",
            hint=f"It lies between {low:g} and {high:g}" + (", below the latter." if open_high else "."),
        )
    return float(value)


POSITIVE = 1e-300
"""The smallest value of an option that must be more than zero."""
MOST = 1e12
"""Larger than any sensible option."""
