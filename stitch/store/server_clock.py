"""The store's clock, carried forward from the last time it was heard."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from stitch.clock import Clock

_TRUSTED_FOR = 60.0
"""Seconds a heard time is carried on: two crystals drift by milliseconds in that time."""

_SLEEP_SIGN = 1.0
"""Seconds by which wall and monotonic clock may part before we conclude the machine slept."""


@dataclass(frozen=True, slots=True)
class _Heard:
    server: datetime
    wall: datetime
    monotonic: float


class ServerClock:
    """Remembers what the store's clock said and adds the time passed since.

    The monotonic clock stands still while a Linux machine is suspended. A wall clock that moved
    on by more than it means we slept (or were set), and the store must be asked again (law 6).

    Args:
        clock: this machine's clocks.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heard: _Heard | None = None
        self._lock = threading.Lock()

    def hear(self, server: datetime) -> None:
        """Takes a reading that the store just gave.

        A `Date` is cut to the second, so each reading is a lower bound: the highest holds, and
        `now()` does not step back within a second.
        """
        known = self.now()
        if known is not None and timedelta(0) < known - server < timedelta(seconds=1):
            server = known
        with self._lock:
            self._heard = _Heard(server, self._clock.now(), self._clock.monotonic())

    def now(self) -> datetime | None:
        """The store's time, or None when it has to be asked."""
        with self._lock:
            heard = self._heard
        if heard is None:
            return None
        passed = self._clock.monotonic() - heard.monotonic
        wall = (self._clock.now() - heard.wall).total_seconds()
        if passed > _TRUSTED_FOR or abs(wall - passed) > _SLEEP_SIGN:
            return None
        return heard.server + timedelta(seconds=passed)
