"""Time as a seam: everything that needs an hour or a wait asks a `Clock`.

Nothing here sleeps: waiting is `loops/drive.py`'s alone (docs/architecture.md, Rooms).
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The two readings this machine can give. Neither is compared with another host's (law 6)."""

    def now(self) -> datetime:
        """This machine's wall clock, aware, UTC: for people and `created_at`, never for decisions."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, from an arbitrary zero: for durations on this machine."""
        ...


class SystemClock:
    """The operating system's clocks."""

    def now(self) -> datetime:
        """The wall clock in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """`time.monotonic`, in seconds."""
        return time.monotonic()
