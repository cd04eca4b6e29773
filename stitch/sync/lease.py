"""One live process per lane (law 10).

A file lock on this machine; across machines the newest *term* document names the holder. The lease
saves double work; laws 1, 2 and 11 keep two leads correct without it. Hosts' clocks are never
compared (law 6): a holder's age is the store's time, or how long this process watched the beat
stand still.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn

from stitch import layout
from stitch.clock import Clock
from stitch.errors import LaneLost, OutcomeUnknown, ProtocolError, StoreError
from stitch.mirror import Mirror
from stitch.sync.documents import Documents, Stored
from stitch.wire import Heartbeat, Term
from stitch.wire.documents import Liveness

_ROUNDS = 8
_NO_TERM = "If no other process works for this lane: `clif-stitch run --take-over` goes past that file."


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the lane while we wait.

    Attributes:
        host: the other machine's name, or ours.
        here: another process on this machine.
        age_s: seconds since its last beat; None when not known.
        limit_s: the age at which the lane is free.
    """

    host: str
    here: bool
    age_s: float | None
    limit_s: float

    def said(self, lane: str) -> str:
        """One line for the person whose process waits."""
        if self.here:
            return f"another process on this machine works for {lane}: stop it, or stop this one"
        age = "" if self.age_s is None else f", last beat {self.age_s:.0f} s ago"
        return (
            f"{self.host} holds {lane}{age}; it is free {self.limit_s:.0f} s after the last beat"
            " (--take-over claims it now)"
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we are when we claim a lane; `host` is never enough alone."""

    run_id: str
    host: str
    interval_s: float


class Lease:
    """The claim of one lane by this process. Thread-safe: loop and heartbeat both use it.

    Args:
        lane: "global" or "sites/<id>".
        documents: store access.
        mirror: remembers nonces and holds the file lock.
        clock: this machine's monotonic clock, for stores without a time of their own.
        identity: run, host and beat interval.
        take_over: claim the lane although somebody seems to hold it; counts once.
        tell: told in one line what was passed over.
    """

    def __init__(
        self,
        lane: str,
        *,
        documents: Documents,
        mirror: Mirror,
        clock: Clock,
        identity: Identity,
        take_over: bool = False,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.lane = lane
        self._tell = tell
        self._documents = documents
        self._mirror = mirror
        self._clock = clock
        self._identity = identity
        self._take_over = take_over
        self._mutex = threading.RLock()
        self._local = contextlib.ExitStack()
        self._locked = False
        self._term = 0
        self._nonce = ""
        self._claiming: tuple[int, str] | None = None  # a term we asked for, and no answer yet (law 5)
        self._beats = 0
        self._beat_etag: str | None = None
        self._beaten: datetime | None = None
        self._beaten_here = 0.0
        self.lost = False

    @property
    def held(self) -> bool:
        """Whether this process holds the lane, as far as it knows."""
        return self._term > 0 and not self.lost

    @property
    def term(self) -> int:
        """The number of our term; 0 before the lane is ours."""
        return self._term

    def acquire(self) -> Holder | None:
        """Try once to hold the lane; None on success, else who holds it.

        Raises:
            BadDocument, UnsupportedKind: the newest term cannot be read, and nobody said `take_over`.
        """
        with self._mutex:
            if self.held:
                return None
            if not self.lock_here():
                return Holder(self._identity.host, here=True, age_s=None, limit_s=0.0)
            for _ in range(_ROUNDS):
                number, newest = self._newest()
                holder = self._holder(newest) if newest else None
                if holder is not None:
                    return holder
                if self._claim(number + 1):
                    self._take_over = False
                    return None
            raise LaneLost(f"other processes keep claiming the lane {self.lane}")

    def lock_here(self) -> bool:
        """Hold the file lock of this machine; False while another process here has it."""
        with self._mutex:
            if not self._locked:
                self._locked = self._local.enter_context(self._mirror.lock(self.lane))
            return self._locked

    def still(self) -> None:
        """Look whether the lane is still ours; re-claims it after a pause (law 10).

        Raises:
            LaneLost: a newer term is there.
        """
        with self._mutex:
            following = self._term + 1
            unanswered = self._claiming is not None and self._claiming[0] == following
            taken = not unanswered and self._documents.exists(layout.term(self.lane, following))
            if taken or not self.held:
                self._lose()
            paused = unanswered or self._pause() > 1.5 * self._identity.interval_s
            if paused and not self._claim(following):
                self._lose()

    def beat(self, state: Liveness, pass_id: int | None) -> None:
        """Show that this process lives.

        Raises:
            LaneLost: a newer term is there, or another holder's beat.
        """
        with self._mutex:
            self.still()
            path = layout.heartbeat(self.lane)
            for _ in range(_ROUNDS):
                if self._beat_etag is None:
                    there = self._documents.lanes.stat(path)
                    self._beat_etag = there.etag if there else None
                beat = self._heartbeat(state, pass_id)
                stored = self._documents.replace(path, beat, etag=self._beat_etag)
                if stored is not None:
                    self._beats += 1
                    self._beat_etag = stored.entry.etag
                    self._mark_beaten(stored.entry.modified)
                    return
                self._beat_etag = None
                if self._documents.exists(layout.term(self.lane, self._term + 1)):
                    self._lose()
            raise OutcomeUnknown(f"{path}: the heartbeat cannot be written")

    def release(self) -> None:
        """Say that this process leaves, as far as the store lets it, and free the file lock."""
        with self._mutex:
            if self.held:
                with contextlib.suppress(StoreError, LaneLost):
                    self.beat("released", None)
            self._term = 0
            self._local.close()
            self._locked = False

    # -- inside ----------------------------------------------------------------------------------

    def _newest(self) -> tuple[int, Stored[Term] | None]:
        """The highest number that is taken, 0 for none, and its term; None for one that was passed over."""
        number = 0
        for entry in self._documents.lanes.list(f"{self.lane}/lease/"):
            key = layout.parse(entry.key)
            if key is not None and key.what is layout.What.TERM:
                number = max(number, key.number)
        newest: Stored[Term] | None = None
        number = max(number, 1)
        while True:
            path = layout.term(self.lane, number)
            try:
                found = self._documents.read(path, Term)
            except ProtocolError as error:
                if not self._take_over:
                    raise type(error)(
                        f"{error}: nobody can know who holds {self.lane}", hint=_NO_TERM
                    ) from None
                self._tell(f"{path} cannot be read and was passed over: {error}")
                newest, number = None, number + 1
                continue
            if found is None:
                return number - 1, newest
            newest, number = found, number + 1

    def _holder(self, newest: Stored[Term]) -> Holder | None:
        """Who keeps us from claiming; None when the lane is free for us."""
        term = newest.doc
        found: Stored[Heartbeat] | None = None
        with contextlib.suppress(ProtocolError):  # what is no heartbeat shows no life, and is written over
            found = self._documents.read(layout.heartbeat(self.lane), Heartbeat)
        beat = found if found is not None and found.doc.nonce == term.nonce else None
        released = beat is not None and beat.doc.state == "released"
        # Our own earlier process: its nonce in our mirror, our host, and we hold the file lock.
        mine = term.nonce in self._mirror.nonces(self.lane) and term.host == self._identity.host
        if released or mine or self._take_over:
            return None
        limit = 3 * (beat.doc.interval_s if beat else term.interval_s)
        age = self._age(newest, beat)
        return Holder(term.host, here=False, age_s=age, limit_s=limit) if age <= limit else None

    def _age(self, newest: Stored[Term], beat: Stored[Heartbeat] | None) -> float:
        if self._documents.lanes.traits(self.lane).server_time:
            last = max(newest.entry.modified, beat.entry.modified if beat else newest.entry.modified)
            return max(0.0, (self._documents.lanes.now(self.lane) - last).total_seconds())
        mark = f"{newest.doc.nonce}:{beat.doc.beat if beat else ''}"
        now, ticks = self._clock.now().timestamp(), self._clock.monotonic()
        return self._mirror.watched(self.lane, mark, now=now, ticks=ticks)

    def _claim(self, number: int) -> bool:
        if self._claiming is None or self._claiming[0] != number:
            self._claiming = number, secrets.token_hex(16)
            # Before the term: a crash in between leaves a nonce that means nothing, not a foreign term.
            self._mirror.remember_nonce(self.lane, self._claiming[1])
        nonce = self._claiming[1]
        term = Term.make(
            run_id=self._identity.run_id,
            lane=self.lane,
            term=number,
            nonce=nonce,
            host=self._identity.host,
            interval_s=self._identity.interval_s,
            created_at=self._clock.now(),
        )
        stored = self._documents.create(layout.term(self.lane, number), term)
        self._claiming = None
        if stored.doc.nonce != nonce:
            return False
        self._term, self._nonce, self._beat_etag, self.lost = number, nonce, None, False
        self._mark_beaten(stored.entry.modified)
        return True

    def _mark_beaten(self, modified: datetime) -> None:
        self._beaten = modified
        self._beaten_here = self._clock.monotonic()

    def _pause(self) -> float:
        """Seconds since our last beat, by the store's clock where it has one."""
        if self._beaten is not None and self._documents.lanes.traits(self.lane).server_time:
            return (self._documents.lanes.now(self.lane) - self._beaten).total_seconds()
        return self._clock.monotonic() - self._beaten_here

    def _heartbeat(self, state: Liveness, pass_id: int | None) -> Heartbeat:
        return Heartbeat.make(
            run_id=self._identity.run_id,
            lane=self.lane,
            nonce=self._nonce,
            term=self._term,
            host=self._identity.host,
            beat=self._beats + 1,
            interval_s=self._identity.interval_s,
            state=state,
            pass_id=pass_id,
        )

    def _lose(self) -> NoReturn:
        self.lost = True
        newer: Stored[Term] | None = None
        with contextlib.suppress(StoreError, ProtocolError):
            newer = self._documents.read(layout.term(self.lane, self._term + 1), Term) if self._term else None
        who = f"a process on {newer.doc.host}" if newer else "another process"
        raise LaneLost(f"{who} took over {self.lane}: it holds the lane now")
