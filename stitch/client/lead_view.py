"""What the lead publishes of a run under way: a view and a hint, which never moves backward."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

from stitch.rounds import RoundState
from stitch.wire import Done, Orchestration, Phase, Roster


@dataclass(frozen=True, slots=True)
class LeadView:
    """What the lead publishes of a run under way.

    Attributes:
        roster: the newest.
        base: the newest global; None before pass 0.
        site_status: a word for every expected site.
        state: the round's state.
        opened_at: the store's time at which the attempt opened.
        attempt: which try of the round.
        deadline: when time alone will decide, by the store's clock.
    """

    roster: Roster
    base: int | None
    site_status: Mapping[str, str] = field(default_factory=dict)
    state: RoundState = RoundState.OPEN
    opened_at: datetime | None = None
    attempt: int = 0
    deadline: datetime | None = None

    @property
    def phase(self) -> Phase:
        """What the sites are told is going on."""
        if self.base is None:
            return "initializing"
        busy = (RoundState.AGGREGATING, RoundState.ALIGNING, RoundState.COMMITTING)
        return "aggregating" if self.state in busy else "training"

    def current_pass(self, done: Done | None) -> int:
        """The site pass now wanted; at the end the final one, since nobody trains another."""
        if done is not None:
            return done.final_pass or 0
        return 0 if self.base is None else self.base + 1

    def not_before(self, there: Orchestration) -> Self:
        """The view, with a state that does not go back: whoever changes the roster knows of no start.

        A site that started may also leave. What else is new in the view must be published all the same.
        """
        same = (there.current_pass, there.attempt) == (self.current_pass(None), self.attempt)
        if same and there.state == RoundState.COLLECTING and self.state is RoundState.OPEN:
            return replace(self, state=RoundState.COLLECTING)
        return self

    def is_behind(self, there: Orchestration, *, done: Done | None) -> bool:
        """Whether what is published is newer than this view.

        Args:
            there: what is published.
            done: the end marker, once there is one.
        """
        if done is not None or there.phase == "complete":
            return there.phase == "complete" and done is None
        ours, theirs = (self.current_pass(None), self.attempt), (there.current_pass, there.attempt)
        if theirs != ours:
            return theirs > ours
        return there.state in set(RoundState) and RoundState(there.state).rank > self.state.rank
