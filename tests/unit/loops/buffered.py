"""A federation of buffered rounds with one slow site, and looks at what it wrote."""

from __future__ import annotations

from collections.abc import Callable

from stitch.config.policy import Policy
from stitch.config.weighting import Weighting
from stitch.layout import PassRef
from stitch.testing.federation import Federation
from stitch.testing.processes import Process
from stitch.wire import Input
from tests.unit.loops.elastic import record_of

HALF = Weighting("polynomial", 0.5)
WINDOW_S = 3600.0
SLOW = "uchicago"


def policy(**changes: object) -> Policy:
    usual = {"buffer_size": 2, "window_seconds": WINDOW_S, "max_staleness": 2, "weighting": HALF}
    return Policy("buffered", **{**usual, **changes})  # type: ignore[arg-type]  # keys of a policy


class WhileTraining:
    """Lets something happen while a site trains a pass; nobody else waits for it."""

    def __init__(self, federation: Federation, site: str, *, number: int, do: Callable[[], None]) -> None:
        federation.before = self
        self._when = (site, f"pass_{number:03d}")
        self._do = do

    def __call__(self, process: Process, what: str, *, key: str) -> None:
        if what == "train" and (process.site, key) == self._when:
            self._when = ("", "")
            self._do()


def others(federation: Federation, turns: int = 12) -> None:
    """Turns of everybody but the slow site; two rounds a dozen."""
    for _ in range(turns):
        for process in federation.alive():
            if process.site != SLOW:
                process.turns()


def until(federation: Federation, number: int) -> None:
    """The others work until a global is there."""
    for _ in range(100):
        if federation.seal(PassRef(number)) is not None:
            return
        others(federation, 1)
    raise AssertionError(f"there is no global {number}")


def input_of(federation: Federation, number: int, site: str) -> Input | None:
    return next((one for one in record_of(federation, number).inputs if one.site == site), None)


def pass_time_of(federation: Federation, *who: Process) -> None:
    """The window ends while only these work."""
    for _ in range(int(WINDOW_S / 60) + 10):
        federation.advance(60)
        for one in who:
            one.turns()
