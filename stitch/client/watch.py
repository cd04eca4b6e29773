"""The lead's look at the sites: who has sealed, who works, who is silent, who cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from stitch import layout
from stitch.clock import Clock
from stitch.errors import StoreError
from stitch.layout import Event, PassRef, What
from stitch.rounds import Attempt, Buffer
from stitch.store.base import Entry
from stitch.store.lanes import Lanes
from stitch.views.liveness import LATE
from stitch.views.site_state import Progress, site_state
from stitch.views.status import Beat

A = TypeVar("A")


class Seen(Protocol):
    """See `Mirror.watched`."""

    def __call__(self, lane: str, mark: str, *, now: float, ticks: float) -> float:
        """Seconds since this machine first saw the mark there."""
        ...


@dataclass(frozen=True, slots=True)
class Ready:
    """One look at who has sealed a pass.

    Attributes:
        refs: the sealed pass that counts, by site.
        sealed: the site's seal in the store, by site, with the store's time.
        unreadable: sites whose lane could not be read, and why: unknown, not missing (law 7).
        round_: the round that is looked at.
    """

    refs: Mapping[str, PassRef]
    sealed: Mapping[str, datetime]
    unreadable: Mapping[str, str]
    round_: int

    @property
    def done(self) -> frozenset[str]:
        """Sites of which nothing newer comes before the next global."""
        return frozenset(site for site, ref in self.refs.items() if ref.number == self.round_)


class SiteWatch:
    """Asks only about sites not yet done, in parallel; looks at liveness more rarely.

    Args:
        lanes: the stores.
        clock: this machine's monotonic clock.
        heartbeat_minutes: the beat that sites keep.
        readers: how many lanes are looked at side by side; 1: one after the other, without threads.
        seen: since when this machine knows of something, in seconds: `Mirror.watched`, which outlives us.
    """

    def __init__(
        self, lanes: Lanes, clock: Clock, *, heartbeat_minutes: float, readers: int, seen: Seen
    ) -> None:
        self.lanes = lanes
        self._clock = clock
        self._readers = readers
        self._seen = seen
        self._limit = LATE * heartbeat_minutes * 60
        self._every = min(60.0, heartbeat_minutes * 30)
        self._round: Attempt | None = None
        self._buffer: Buffer | None = None
        self._sealed: dict[str, tuple[PassRef, datetime]] = {}
        self._status: dict[str, str] = {}
        self._started: dict[str, datetime] = {}
        self._asked: set[str] = set()
        self._unlisted: dict[str, str] = {}
        self._looked: float | None = None
        self._beats: dict[str, tuple[str, float]] = {}

    def ready(self, round_: Attempt, expected: Iterable[str], *, buffer: Buffer | None = None) -> Ready:
        """Which sites have sealed the pass that they owe the round; with a buffer, one that it can use.

        One request a site that may still bring something newer.
        """
        if round_ != self._round:
            self._round, self._sealed, self._looked = round_, {}, None
            self._started, self._asked = {}, set()
        self._buffer = buffer
        known = {site for site, (ref, _) in self._sealed.items() if ref.number == round_.pass_id}
        missing = sorted(set(expected) - known)
        unreadable: dict[str, str] = {}
        question = self._stat if buffer is None else self._newest
        for site, answer in zip(missing, self._ask(question, missing), strict=True):
            if isinstance(answer, StoreError):
                unreadable[site] = str(answer)
            elif answer is not None:
                self._sealed[site] = answer
        refs = {site: ref for site, (ref, _) in self._sealed.items()}
        sealed = {site: modified for site, (_, modified) in self._sealed.items()}
        return Ready(refs, sealed, unreadable, round_.pass_id)

    def forget(self, site: str) -> None:
        """Ask about a site again: its seal was there and could not be used."""
        self._sealed.pop(site, None)

    def refresh(self) -> None:
        """Look at the sites' events anew at the next question: something is to be decided by them."""
        self._looked = None

    def started(self, expected: Iterable[str], *, ready: Ready) -> Mapping[str, datetime]:
        """Who has started or sealed, and since when by the store's clock.

        Where a lane's store has no clock, since this machine saw it (law 6).
        """
        self._look(sorted(expected), ready)
        self._ask_when(ready)
        sites = set(expected)
        begun = {site: since for site, since in self._started.items() if site in sites}
        return {**ready.sealed, **begun}

    def _ask_when(self, ready: Ready) -> None:
        """When the sites began whose seal was there before this process looked: once a round for each."""
        unknown = [
            site
            for site in sorted(ready.sealed.keys() - self._started.keys() - self._asked)
            if self.lanes.traits(layout.site_lane(site)).server_time
        ]
        for site, word in zip(unknown, self._ask(self._word, unknown), strict=True):
            if not isinstance(word, StoreError):
                self._asked.add(site)

    def unlisted(self) -> Mapping[str, str]:
        """Sites whose events could not be listed at the last look, and why."""
        return dict(self._unlisted)

    def status(self, expected: Iterable[str], *, ready: Ready) -> dict[str, str]:
        """`site_status` of the orchestration: a word for every expected site.

        Lanes of sites not yet done are listed at most twice a heartbeat.
        """
        sites = sorted(expected)
        self._look(sites, ready)
        status = {site: self._status.get(site, "never seen") for site in sites}
        status |= dict.fromkeys(ready.done, "completed") | dict.fromkeys(ready.unreadable, "unreadable")
        return {site: status[site] for site in sites}

    def _look(self, sites: Sequence[str], ready: Ready) -> None:
        now = self._clock.monotonic()
        if self._looked is not None and now - self._looked < self._every:
            return
        self._looked, self._unlisted = now, {}
        waiting = [site for site in sites if site not in ready.done and site not in ready.unreadable]
        for site, word in zip(waiting, self._ask(self._word, waiting), strict=True):
            self._status[site] = "unreadable" if isinstance(word, StoreError) else str(word)
            if isinstance(word, StoreError):
                self._unlisted[site] = str(word)

    def _ask(self, question: Callable[[str], A], sites: Sequence[str]) -> list[A | StoreError]:
        def safely(site: str) -> A | StoreError:
            try:
                return question(site)
            except StoreError as error:
                return error

        workers = min(self._readers, len(sites))
        if workers < 2:
            return [safely(site) for site in sites]
        with ThreadPoolExecutor(max_workers=workers) as pool:
            return list(pool.map(safely, sites))

    def _stat(self, site: str) -> tuple[PassRef, datetime] | None:
        assert self._round is not None  # noqa: S101  ready() sets it
        ref = self._round.ref(site)
        entry = self.lanes.stat(ref.seal)
        return None if entry is None else (ref, self._time(site, entry))

    def _newest(self, site: str) -> tuple[PassRef, datetime] | None:
        """One list: a slow site's pass has a number that its lane alone knows."""
        assert self._buffer is not None  # noqa: S101  ready() sets it
        found: dict[PassRef, Entry] = {}
        for entry in self.lanes.list(f"{layout.site_lane(site)}/pass_"):
            key = layout.parse(entry.key)
            if key is not None and key.what is What.SEAL and key.ref is not None:
                found[key.ref] = entry
        ref = self._buffer.newest(site, found)
        return None if ref is None else (ref, self._time(site, found[ref]))

    def _time(self, site: str, entry: Entry) -> datetime:
        # Law 6: in a copied folder it bears the hour of the site's own machine, in a shared one whoever may
        # write there can set it. One that lies ahead must move no deadline.
        if entry.modified <= self.lanes.now(layout.GLOBAL):
            return entry.modified
        return self._first_seen(site, "sealed")

    def _first_seen(self, site: str, what: str) -> datetime:
        """When this machine first saw a site's sign of the pass; also when another process of it did.

        A lead whose turns are started by a scheduler would else see everything for the first time, and
        move the deadline with each turn.
        """
        pass_id = self._round.pass_id if self._round else 0
        now = self.lanes.now(layout.GLOBAL)
        lane, ticks = f"{layout.site_lane(site)}/{what}", self._clock.monotonic()
        age = self._seen(lane, f"pass {pass_id}", now=self._clock.now().timestamp(), ticks=ticks)
        return now - timedelta(seconds=age)

    def _word(self, site: str) -> str:
        lane = layout.site_lane(site)
        pass_id = self._round.pass_id if self._round else 0
        begun: dict[tuple[int, str], int] = {}
        beat: Beat | None = None
        seen = False
        for entry in self.lanes.list(f"{lane}/events/"):
            key = layout.parse(entry.key)
            if key is None:
                continue
            seen = seen or key.what is not What.HEARTBEAT
            if key.what is What.HEARTBEAT:
                beat = self._beat(lane, entry.etag, entry.modified)
            elif key.name in (Event.STARTED, Event.FAILED):
                begun[key.number, key.name] = max(begun.get((key.number, key.name), 0), key.attempt)
                if (key.number, key.name) == (pass_id, Event.STARTED):
                    self._note_start(site, entry.modified)
        if not seen:  # a heartbeat alone is doctor's probe; who works has joined
            seen = any(True for _ in self.lanes.list(f"{lane}/join/"))
        worked_on = self._worked_on(site, (number for number, _ in begun))
        started, failed = (begun.get((worked_on, name), 0) for name in (Event.STARTED, Event.FAILED))
        now = Progress(seen, sealed=None, arriving=False, started=started, failed=failed, failure=None)
        return str(site_state(now, beat, wanted=pass_id, finished=False)[0].value)

    def _worked_on(self, site: str, begun: Iterable[int]) -> int:
        """The pass that a site may be at work on: the round's, or a slow one's older one."""
        wanted = self._round.pass_id if self._round else 0
        if self._buffer is None:
            return wanted
        there = self._sealed[site][0].number if site in self._sealed else self._buffer.used.get(site, 0)
        return max((number for number in begun if there < number <= wanted), default=wanted)

    def _note_start(self, site: str, modified: datetime) -> None:
        """The first start of the pass counts; without the store's time, the moment this machine saw it."""
        timed = self.lanes.traits(layout.site_lane(site)).server_time
        if timed and modified <= self.lanes.now(layout.GLOBAL):
            self._started[site] = min(modified, self._started.get(site, modified))
        else:
            self._started.setdefault(site, self._first_seen(site, "started"))

    def _beat(self, lane: str, etag: str, modified: datetime) -> Beat:
        if self.lanes.traits(lane).server_time:
            age = (self.lanes.now(lane) - modified).total_seconds()
        else:
            if self._beats.get(lane, ("", 0.0))[0] != etag:
                self._beats[lane] = (etag, self._clock.monotonic())
            age = self._clock.monotonic() - self._beats[lane][1]
        return Beat(
            at=modified, age_s=age, age_by=None, state=None, pass_id=None, host="", late=age > self._limit
        )
