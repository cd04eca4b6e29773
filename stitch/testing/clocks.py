"""Clocks that stand still until they are told otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """A `Clock` whose hands a test moves.

    Args:
        start: the wall clock's first reading, aware.
    """

    def __init__(self, start: datetime = _START) -> None:
        self._now = start.astimezone(UTC)
        self._monotonic = 0.0

    def now(self) -> datetime:
        """The wall clock."""
        return self._now

    def monotonic(self) -> float:
        """Seconds that passed, whatever the wall clock says."""
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass, in seconds.

        Raises:
            ValueError: fewer than none.
        """
        if seconds < 0:
            raise ValueError("time does not pass backwards: jump() sets the wall clock")
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back; no time passes."""
        self._now += timedelta(seconds=seconds)
