"""The thread that beats: it goes on while a hook trains, crashes or swaps, and while we wait."""

from __future__ import annotations

import threading
from collections.abc import Callable

from stitch.errors import LaneLost, StitchError, StoreUnavailable
from stitch.sync.lease import Lease
from stitch.wire.documents import Liveness


class Heart:
    """Beats a lane every interval until stopped or until the lane is lost.

    Args:
        lease: the lane; beating and the loop share its mutex.
        interval_s: seconds between beats.
        on_trouble: told of every failed beat; a `LaneLost` is the last it hears.
    """

    def __init__(self, lease: Lease, interval_s: float, *, on_trouble: Callable[[StitchError], None]) -> None:
        self._lease = lease
        self._interval_s = interval_s
        self._on_trouble = on_trouble
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._state: tuple[Liveness, int | None] = ("idle", None)

    def tell(self, state: Liveness, pass_id: int | None) -> None:
        """What the next beats say this actor is doing."""
        self._state = (state, pass_id)

    def start(self) -> None:
        """Beat now and from now on; calling it again changes nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"heart-{self._lease.lane}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop beating and wait for the beat under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def beat(self) -> bool:
        """Beat once; False when the lane is lost and beating is over."""
        try:
            self._lease.beat(*self._state)
        except LaneLost as error:
            self._on_trouble(error)
            return False
        except StitchError as error:
            self._on_trouble(error)
        except OSError as error:  # a full /tmp must not end the beating
            self._on_trouble(StoreUnavailable(f"the heartbeat could not be written here: {error}"))
        return True

    def _run(self) -> None:
        while self.beat() and not self._stop.wait(self._interval_s):
            pass
