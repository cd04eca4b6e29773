"""What a process of an in-process federation has of its machine: locks that die with it, and its heart."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from stitch.clock import Clock
from stitch.errors import StitchError
from stitch.layout import PassRef
from stitch.mirror import Mirror
from stitch.sync.heart import Heart
from stitch.sync.lease import Lease


class ProcessMirror(Mirror):
    """A mirror whose file locks are freed when its process dies, as the system frees them."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._locks: list[contextlib.ExitStack] = []
        self.busy = 0

    @contextlib.contextmanager
    def lock(self, lane: str) -> Iterator[bool]:
        """See `Mirror.lock`."""
        with contextlib.ExitStack() as stack:
            held = stack.enter_context(super().lock(lane))
            self._locks.append(stack)
            yield held

    @contextlib.contextmanager
    def entering(self, ref: PassRef) -> Iterator[None]:
        """See `Mirror.entering`; tells that the process's other loop would wait here."""
        with super().entering(ref):
            self.busy += 1
            try:
                yield
            finally:
                self.busy -= 1

    def drop_locks(self) -> None:
        """Free whatever is held."""
        while self._locks:
            self._locks.pop().close()


class SteppedHeart(Heart):
    """A heart without a thread: it beats when it is started, and when it is asked and due."""

    def __init__(
        self,
        lease: Lease,
        interval_s: float,
        *,
        on_trouble: Callable[[StitchError], None],
        clock: Clock,
        hearts: list[SteppedHeart],
    ) -> None:
        super().__init__(lease, interval_s, on_trouble=on_trouble)
        self._clock = clock
        self._every = interval_s
        self._next: float | None = None
        hearts.append(self)

    def start(self) -> None:
        """See `Heart.start`."""
        if self._next is None:
            self._next = self._clock.monotonic()
            self.beat_if_due()

    def stop(self) -> None:
        """See `Heart.stop`."""
        self._next = None

    def beat_if_due(self) -> None:
        """Beat if an interval has passed since the last beat."""
        now = self._clock.monotonic()
        if self._next is not None and now >= self._next:
            self._next = now + self._every
            if not self.beat():
                self._next = None
