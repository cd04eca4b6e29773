"""The round under way, as the lead's process last saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from stitch.client.lead_view import LeadView
from stitch.layout import PassRef
from stitch.mirror import Sealed
from stitch.rounds import Attempt, RoundMachine
from stitch.sync.documents import Stored
from stitch.wire import Roster, Verdict


@dataclass(slots=True)
class Round:
    """Saves requests and nothing else: a fresh process reads all of it from the files (law 4).

    Attributes:
        base: the newest global.
        roster: the newest roster.
        attempt: which attempt, and whose new passes it waits for.
        verdict: that the attempt is closed, once it is.
        opened_at: the store's time at which the attempt opened.
        machine: the attempt's state.
        rejected: sealed passes that cannot be used, and why.
        published: the site status that was published last.
    """

    base: Sealed
    roster: Roster
    attempt: Attempt
    verdict: Stored[Verdict] | None
    opened_at: datetime | None
    machine: RoundMachine
    rejected: dict[PassRef, str] = field(default_factory=dict)
    published: tuple[object, ...] = ()

    @property
    def number(self) -> int:
        """The global this round is to make."""
        return self.attempt.pass_id

    @property
    def expected(self) -> tuple[str, ...]:
        """The sites that the round waits for, sorted."""
        return self.roster.expected_in(self.number, self.attempt.attempt)

    def left_out(self, refs: Mapping[str, PassRef]) -> dict[str, str]:
        """Sites whose pass that counts now cannot be used, and why."""
        return {site: self.rejected[ref] for site, ref in refs.items() if ref in self.rejected}

    def view(self, status: Mapping[str, str] | None = None, *, deadline: datetime | None = None) -> LeadView:
        """What orchestration says of it."""
        return LeadView(
            self.roster,
            self.base.ref.number,
            status or {},
            self.machine.state,
            self.opened_at,
            self.attempt.attempt,
            deadline,
        )
