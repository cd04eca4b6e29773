"""Close policies: when the lead turns site passes into a global. One class a policy."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from stitch.config.policy import Policy
from stitch.errors import ConfigError
from stitch.layout import PassRef
from stitch.rounds.verdict import Abort, Close, Verdict, Wait
from stitch.rounds.view import RoundView

LATE = "not sealed by the deadline"
"""Why a quorum left out a site of which nothing came in time."""

UNKNOWN = "its lane could not be read"
"""Why a quorum left out a site of which nothing is known."""


class ClosePolicy(Protocol):
    """Judges a view at a store time; pure.

    Attributes:
        name: as in `[policy] require`.
        timed: whether the time matters; if not, the store's clock is not asked.
        starts: whether it matters who has started; if not, nobody is asked.
        needed: how many started sites make a round collect (K).
    """

    name: str
    timed: bool
    starts: bool
    needed: int

    def verdict(self, view: RoundView, now: datetime) -> Verdict:
        """What to do with the round as it stands."""
        ...


class AllExpected:
    """Waits for every expected site, without a deadline: absence is never a decision (law 7)."""

    name = "all_expected"
    timed = False
    starts = False
    needed = 1

    def verdict(self, view: RoundView, now: datetime) -> Verdict:  # noqa: ARG002  no deadline, no clock
        """Close when every expected site has a pass; wait otherwise, for as long as it takes."""
        if not view.expected:
            return Wait("the roster is empty")
        if view.missing:
            return Wait(f"waiting for {', '.join(view.missing)}", on=view.missing)
        return Close(view.inputs(), dict(view.excluded))


class Quorum:
    """Closes when everybody is ready, or at a deadline over the K or more that are (RFC-0013, elasticity).

    Whatever is sealed before the verdict counts, also past the deadline. Below K the attempt is
    aborted, unless a lane could not be read: then nobody knows (law 7).

    Args:
        needed: K, how many sites a round needs.
        open_timeout: how long so many may take to start.
        collect_timeout: how long, from then on, their passes are waited for.
    """

    name = "quorum"
    timed = True
    starts = True

    def __init__(self, needed: int, *, open_timeout: timedelta, collect_timeout: timedelta) -> None:
        self.needed = needed
        self._open = open_timeout
        self._collect = collect_timeout

    def verdict(self, view: RoundView, now: datetime) -> Verdict:
        """Close, abort or wait, by the store's clock."""
        missing = view.missing
        if not view.expected:
            return Wait("the roster is empty")
        if not missing and self._enough(view):
            return self._close(view)
        if not missing and view.excluded.keys() & view.expected:
            return self._abort(view)  # nothing else can come but what a redo brings
        until = self._deadline(view, now)
        if now < until:
            whom = ", ".join(missing) or f"more sites: {self.needed} are needed"
            return Wait(f"waiting for {whom}", on=missing, until=until)
        if self._enough(view):
            return self._close(view)
        unknown = tuple(site for site in missing if site in view.unreadable)
        if unknown:
            return Wait(f"{', '.join(unknown)} cannot be read, so nothing is given up", on=unknown)
        return self._abort(view)

    def _enough(self, view: RoundView) -> bool:
        return len(view.ready_sites) >= self.needed

    def _deadline(self, view: RoundView, now: datetime) -> datetime:
        """When the quorum must have started, and once it has, when it must have sealed."""
        opened = view.opened_at or now
        begun = sorted(since for site, since in view.started.items() if site in view.expected)
        if len(begun) < self.needed:
            return opened + self._open
        return max(opened, begun[self.needed - 1]) + self._collect

    def _close(self, view: RoundView) -> Close:
        absent = {site: UNKNOWN if site in view.unreadable else LATE for site in view.missing}
        return Close(view.inputs(), {**view.excluded, **absent})

    def _abort(self, view: RoundView) -> Abort:
        lacking = (*view.missing, *sorted(view.excluded.keys() & view.expected))
        why = f"{len(view.ready_sites)} of the {self.needed} sites that a round needs are ready"
        redo = tuple(sorted(view.excluded.keys() & view.expected))
        return Abort(f"{why}; without {', '.join(lacking)}" if lacking else why, on=lacking, redo=redo)


class Buffered:
    """Closes over what has come, fresh or stale (FedBuff, PAPAYA): nobody waits for the slowest.

    At `size` usable passes; or at the window's end with at least one; or when nothing more can come before
    the next global, so that a buffer larger than the federation stalls nothing. Of a site its newest pass
    alone counts, and none that an earlier round used.

    Args:
        size: how many usable passes close a round.
        window: how long after the attempt opened one pass is enough.
        max_staleness: how many globals may have come since a pass's base.
    """

    name = "buffered"
    timed = True
    starts = False
    needed = 1

    def __init__(self, size: int, *, window: timedelta, max_staleness: int) -> None:
        self.size = size
        self._window = window
        self._most = max_staleness

    def verdict(self, view: RoundView, now: datetime) -> Verdict:
        """Close, wait or, when all there is can be of no use, abort; by the store's clock."""
        if not view.expected:
            return Wait("the roster is empty")
        newest = view.newest()
        behind = {site: view.behind(ref) for site, ref in newest.items()}
        excluded = {site: why for site, why in view.excluded.items() if site in view.expected}
        excluded |= {site: self._too_stale(newest[site], s) for site, s in behind.items() if s > self._most}
        usable = tuple(ref for site, ref in sorted(newest.items()) if site not in excluded)
        # Whoever was trained from an older global trains again; of the others nothing comes before the next.
        over = {site for site in excluded if behind.get(site, 0) == 0}
        missing = tuple(sorted(view.expected - over - {str(ref.site) for ref in usable}))
        until = (view.opened_at or now) + self._window
        if len(usable) >= self.size or (usable and (not missing or now >= until)):
            return Close(usable, excluded)
        if not missing and not usable:
            lacking = tuple(sorted(over))
            return Abort(f"no pass of {', '.join(lacking)} can be used", on=lacking, redo=lacking)
        had = f"{len(usable)} of {min(self.size, len(view.expected))} passes are there; " if usable else ""
        return Wait(f"{had}waiting for {', '.join(missing)}", on=missing, until=until if usable else None)

    def _too_stale(self, ref: PassRef, behind: int) -> str:
        return f"its pass {ref.number} is {behind} behind; at most {self._most} is allowed"


def close_policy(policy: Policy) -> ClosePolicy:
    """The policy that `[policy]` names.

    Raises:
        ConfigError: there is none of that name.
    """
    if policy.require == AllExpected.name:
        return AllExpected()
    if policy.require == Quorum.name:
        return Quorum(
            policy.min_participants,
            open_timeout=timedelta(seconds=policy.open_timeout),
            collect_timeout=timedelta(seconds=policy.collect_timeout),
        )
    if policy.require == Buffered.name:
        return Buffered(
            policy.buffer_size,
            window=timedelta(seconds=policy.window_seconds),
            max_staleness=policy.max_staleness,
        )
    raise ConfigError(
        f'policy.require = "{policy.require}" is not known',
        hint='Use "all_expected", "quorum" or "buffered".',
    )
