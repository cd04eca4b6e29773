"""What the lead sees of a round, as a value that a policy can judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from stitch.layout import PassRef


@dataclass(frozen=True, slots=True)
class RoundView:
    """One look at round `pass_id`, attempt `attempt`.

    Attributes:
        pass_id: the global that this round is to make.
        attempt: which try.
        expected: the roster's active sites.
        started: sites known to have started or sealed their pass, and since when by the store's clock.
        ready: sealed site passes and the global each was trained from.
        excluded: sites whose sealed pass cannot be used, and why.
        consumed: passes that an earlier round used.
        unreadable: sites whose lane could not be read: unknown, not missing (law 7).
        aborts: how many attempts this process aborted.
        opened_at: the store's time at which the attempt opened.
        last_global_at: the store's time of the newest global.
    """

    pass_id: int
    attempt: int
    expected: frozenset[str]
    started: Mapping[str, datetime] = field(default_factory=dict)
    ready: Mapping[PassRef, int] = field(default_factory=dict)
    excluded: Mapping[str, str] = field(default_factory=dict)
    consumed: frozenset[PassRef] = frozenset()
    unreadable: frozenset[str] = frozenset()
    aborts: int = 0
    opened_at: datetime | None = None
    last_global_at: datetime | None = None

    @property
    def ready_sites(self) -> frozenset[str]:
        """Expected sites with an unused sealed pass that nothing speaks against."""
        unused = (ref.site for ref in self.ready if ref.site is not None and ref not in self.consumed)
        return frozenset(unused) & self.expected - self.excluded.keys()

    @property
    def missing(self) -> tuple[str, ...]:
        """Expected sites with neither a usable pass nor an unusable one, sorted."""
        return tuple(sorted(self.expected - self.ready_sites - self.excluded.keys()))

    def inputs(self) -> tuple[PassRef, ...]:
        """The unused passes of the ready sites, sorted by site id."""
        sites = self.ready_sites
        usable = (ref for ref in self.ready if ref.site in sites and ref not in self.consumed)
        return tuple(sorted(usable, key=lambda ref: ref.site or ""))

    def newest(self) -> dict[str, PassRef]:
        """The newest pass of each expected site; none of a site whose newest was used already.

        A newer one supersedes what came before it, whatever became of that.
        """
        found: dict[str, PassRef] = {}
        for ref in (*self.ready, *self.consumed):
            if ref.site in self.expected and _order(ref) >= _order(found.get(ref.site, ref)):
                found[ref.site] = ref
        return {site: ref for site, ref in found.items() if ref not in self.consumed}

    def behind(self, ref: PassRef) -> int:
        """The staleness of a ready pass: the global being replaced, less its base."""
        return self.pass_id - 1 - self.ready[ref]


def _order(ref: PassRef) -> tuple[int, int]:
    return ref.number, ref.attempt
