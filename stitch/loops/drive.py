"""The one place that waits: drives loops turn after turn, quick at first, slower while nothing comes.

A turn that fails for a reason that may pass (network, token, a file still arriving) is reported and
tried again for `give_up_after`; every other error ends the run with its exit code.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from stitch.client import Client
from stitch.client.tokens import TokenWatch
from stitch.errors import (
    BadDocument,
    ConfigError,
    DigestMismatch,
    DiskError,
    NotFound,
    StitchError,
    Stopped,
    StoreDenied,
    StoreError,
)
from stitch.layout import GLOBAL
from stitch.loops.central import Central
from stitch.loops.lead import Lead
from stitch.loops.local import Local
from stitch.rounds import Turn

FIRST_WAIT_NEAR_S = 0.2
FIRST_WAIT_FAR_S = 1.0
GROWTH = 1.125
"""A wait is about a ninth of what was waited already: late by a ninth, and 40 requests in five minutes."""
_SLICE_S = 0.05

Loop = Local | Lead | Central


@dataclass(frozen=True, slots=True)
class Finished:
    """How a run ended.

    Attributes:
        final_pass: the last global that counts; None when none was published.
        reason: what the end marker says.
    """

    final_pass: int | None
    reason: str


def warn_of_tokens(client: Client, watch: TokenWatch) -> None:
    """Say which store tokens end soon, when it is time to say so."""

    def now() -> datetime:
        try:
            return client.lanes.now(GLOBAL)
        except StoreError:  # why it does not answer is said by the turn that comes next
            return client.clock.now()

    for line in watch.look(client.settings, now):
        client.journal.note(client.lane, "warn", text=line)


def loops_of(client: Client) -> list[Loop]:
    """The loops of this actor: at the lead rounds, own training and own scores, independent of each other."""
    if not client.settings.is_lead:
        return [Local(client)]
    # Under review no number leaves that nobody saw.
    scores = client.settings.hooks.evaluate_central is not None and not client.settings.egress.reviewed
    return [Lead(client), Local(client), *([Central(client)] if scores else [])]


def drive(client: Client, *, loops: Sequence[Loop] | None = None) -> Finished | None:
    """Drive loops, each in a thread of its own, until all are done, one fails, or `client.stop` is set.

    Raises:
        StitchError: the first error that ended a loop; the others were stopped.
    """
    loops = loops_of(client) if loops is None else loops
    drivers = [
        _Driver(client, loop, tokens=None if n else TokenWatch(client.clock)) for n, loop in enumerate(loops)
    ]
    for driver in drivers:
        driver.others = [other for other in drivers if other is not driver]
    threads = [threading.Thread(target=driver.run, name=driver.loop.name) for driver in drivers[1:]]
    try:
        for thread in threads:
            thread.start()
        drivers[0].run()
        for thread in threads:
            thread.join()
    except BaseException:
        client.stop.set()
        raise
    finally:
        for thread in threads:
            thread.join()
        client.close()
    errors = [driver.error for driver in drivers if driver.error is not None]
    if client.lost is not None:
        raise client.lost
    if errors:
        raise errors[0]
    turns = [driver.turn for driver in drivers]
    if any(turn is None or turn.state != "done" for turn in turns):
        return None
    last = turns[0]
    assert last is not None  # noqa: S101  just checked
    return Finished(last.final_pass, last.why.removeprefix("run complete: "))


class _Driver:
    """One loop's thread: turns, waits, and the patience with trouble that may pass."""

    def __init__(self, client: Client, loop: Loop, *, tokens: TokenWatch | None) -> None:
        self.client = client
        self.loop = loop
        self._tokens = tokens
        self.turn: Turn | None = None
        self.error: BaseException | None = None
        self._lane = GLOBAL if isinstance(loop, Lead) else client.lane
        self._ever = False
        self._failing_since: float | None = None
        self._said = ""
        self.nudged = threading.Event()
        self.others: list[_Driver] = []

    def run(self) -> None:
        """Turn after turn; leaves `turn` or `error` behind."""
        try:
            self._run()
        except Stopped:
            return
        except BaseException as error:  # noqa: BLE001  handed to the thread that joins us
            self.error = error
            self.client.stop.set()

    def _run(self) -> None:
        first = FIRST_WAIT_FAR_S if self.client.far else FIRST_WAIT_NEAR_S
        poll = self.client.settings.poll_seconds
        wait = min(first, poll)
        while not self.client.stop.is_set():
            if self._tokens is not None:
                warn_of_tokens(self.client, self._tokens)
            turn = self._turn()
            if turn is not None and turn.state == "done":
                self.turn = turn
                return
            if turn is not None and turn.state == "acted":
                for other in self.others:
                    other.nudged.set()
                wait = min(first, poll)
                continue
            self._pause(wait)
            wait = min(wait * GROWTH, poll)

    def _pause(self, seconds: float) -> None:
        """Wait, but not when this machine's other loop has just published something."""
        self.nudged.clear()
        until = self.client.clock.monotonic() + seconds
        while not self.nudged.is_set() and (left := until - self.client.clock.monotonic()) > 0:
            if self.client.stop.wait(min(left, _SLICE_S)):
                return

    def _turn(self) -> Turn | None:
        """One turn; None when it failed for a reason that may pass."""
        try:
            turn = self.loop.step()
        except (StoreError, DigestMismatch, BadDocument) as error:
            self._be_patient(error)
            return None
        self._ever, self._failing_since = True, None
        told = turn.state == "waiting" and not isinstance(self.loop, Central)  # who scores holds up nobody
        self._say("wait", turn.why if told else "", pass_id=turn.pass_id)
        return turn

    def _be_patient(self, error: StitchError) -> None:
        """Report a trouble that may pass, or raise it when patience is at its end."""
        refused = isinstance(error, StoreDenied | NotFound) and not (
            self._ever or self.client.holds(self._lane)
        )
        if refused or isinstance(error, DiskError):
            raise error
        now = self.client.clock.monotonic()
        self._failing_since = self._failing_since if self._failing_since is not None else now
        if now - self._failing_since >= self.client.settings.give_up_after:
            raise error
        # Causes name the time or the key of each try: one line for each kind of trouble.
        kind = f"{type(error).__name__} {error.hint}"
        self._say("error", f"{error} ({error.hint}) Trying again.", kind=kind)
        if isinstance(error, StoreDenied):
            self._reopen()

    def _reopen(self) -> None:
        try:
            self.client.reopen()
        except ConfigError as error:
            self._say("error", f"{error} ({error.hint})")

    def _say(self, step: str, text: str, *, pass_id: int | None = None, kind: str = "") -> None:
        """A line for people when it, or the kind of thing it says, is a new one."""
        if text and (kind or text) != self._said:
            self.client.journal.note(
                self._lane, "error" if step == "error" else "wait", text=text, pass_id=pass_id
            )
        self._said = kind or text
