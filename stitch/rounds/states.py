"""The states of a round (RFC-0013): derived from files, and checked where this process moves them."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from enum import StrEnum

from stitch.errors import RoundError


class RoundState(StrEnum):
    """Lifecycle of one attempt of a round."""

    OPEN = "open"
    COLLECTING = "collecting"
    AGGREGATING = "aggregating"
    ALIGNING = "aligning"
    COMMITTING = "committing"
    CLOSED = "closed"
    ABORTED = "aborted"

    @property
    def rank(self) -> int:
        """How far an attempt is that is in this state."""
        return list(RoundState).index(self)


_FORWARD = tuple(state for state in RoundState if state is not RoundState.ABORTED)

EDGES: dict[RoundState, frozenset[RoundState]] = {
    state: frozenset({after, RoundState.ABORTED}) for state, after in itertools.pairwise(_FORWARD)
} | {RoundState.CLOSED: frozenset(), RoundState.ABORTED: frozenset()}
"""Where a round may go: one step forward, or to ABORTED; from CLOSED and ABORTED nowhere."""


@dataclass(frozen=True, slots=True)
class RoundFiles:
    """What is on disk and in the store for one attempt.

    Attributes:
        sealed: the global's seal is in the store.
        aborted: an aborted verdict, or an abort marker.
        closed: a closed verdict.
        candidate: the global is sealed locally.
        started: sites that started or sealed their pass.
        needed: how many of them make the round collect (K).
    """

    sealed: bool = False
    aborted: bool = False
    closed: bool = False
    candidate: bool = False
    started: int = 0
    needed: int = 1


def derive(files: RoundFiles) -> RoundState:
    """The state the files say. A sealed global overrules any abort of its round (law 2)."""
    if files.sealed:
        return RoundState.CLOSED
    if files.aborted:
        return RoundState.ABORTED
    if files.closed:
        return RoundState.COMMITTING if files.candidate else RoundState.AGGREGATING
    return RoundState.COLLECTING if files.started >= files.needed else RoundState.OPEN


class RoundMachine:
    """The state of the attempt that this process drives.

    What this process does is checked against `EDGES`; what the files say another one did is adopted.

    Attributes:
        pass_id: the global that the round is to make.
        attempt: which try.
        state: where it is.
    """

    def __init__(self, pass_id: int, attempt: int, *, state: RoundState = RoundState.OPEN) -> None:
        self.pass_id = pass_id
        self.attempt = attempt
        self.state = state

    def to(self, state: RoundState) -> None:
        """Move along one edge.

        Raises:
            RoundError: there is no such edge; the state stays as it was.
        """
        if state not in EDGES[self.state]:
            raise RoundError(
                f"round {self.pass_id}, attempt {self.attempt}: {self.state} cannot become {state}",
                hint="Start the same command again: it derives the state from the files.",
            )
        self.state = state

    def adopt(self, state: RoundState) -> None:
        """Take what the files say; an attempt never goes back to collecting what it collected."""
        if state.rank > self.state.rank:
            self.state = state

    @property
    def ended(self) -> bool:
        """Whether nothing can follow."""
        return not EDGES[self.state]
