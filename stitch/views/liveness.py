"""When a lane last gave a sign of life, by a clock that may be asked (law 6)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from stitch import layout
from stitch.clock import Clock
from stitch.layout import What
from stitch.store.base import Entry
from stitch.views.reading import LaneFiles
from stitch.views.status import Beat
from stitch.wire import Heartbeat, Term

LATE = 3
"""Heartbeat intervals without a beat after which a lane counts as stalled (law 10)."""


class Liveness:
    """Ages of beats; where the store has no clock, by watching the beat change.

    Args:
        heartbeat_minutes: the run's beat.
        clock: this machine's monotonic clock, for watching.
        watching: whether to fall back on it; not on a mirror, where nobody beats.
    """

    def __init__(self, heartbeat_minutes: float, clock: Clock, *, watching: bool) -> None:
        self._limit = LATE * heartbeat_minutes * 60
        self._clock = clock
        self._watching = watching
        self._first_seen: dict[str, tuple[str, float]] = {}

    def beat(self, files: LaneFiles) -> Beat | None:
        """The lane's newest beat: the heartbeat of its newest term, else that term itself, else none."""
        terms = files.of(What.TERM)
        claim = terms[-1].document if terms else None
        heard = files.document(layout.heartbeat(files.lane), Heartbeat)
        if not isinstance(claim, Term):
            return None  # a beat counts only with the newest term's nonce (law 10): doctor's probe never does
        if heard and heard[0].nonce == claim.nonce:
            return self._aged(files, heard[1], heard[0])
        return self._aged(files, terms[-1].entry, claim)

    def _aged(self, files: LaneFiles, entry: Entry, doc: Heartbeat | Term) -> Beat:
        said = doc if isinstance(doc, Heartbeat) else None
        age, by = self._age(files, entry.modified, f"{doc.nonce} {said.beat if said else 'term'}")
        return Beat(
            at=entry.modified,
            age_s=age,
            age_by=by,
            state=said.state if said else None,
            pass_id=said.pass_id if said else None,
            host=doc.host,
            late=age is not None and age > self._limit,
        )

    def _age(
        self, files: LaneFiles, modified: datetime, identity: str
    ) -> tuple[float | None, Literal["store", "watching"] | None]:
        if files.now is not None:
            return max(0.0, (files.now - modified).total_seconds()), "store"
        if not self._watching:
            return None, None
        tick = self._clock.monotonic()
        known, since = self._first_seen.get(files.lane, ("", tick))
        if known == identity:
            return tick - since, "watching"
        self._first_seen[files.lane] = (identity, tick)
        return None, None
