"""The states of a round (RFC-0013), derived from files; orchestration only publishes them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RoundState(StrEnum):
    """Lifecycle of one attempt of a round."""

    OPEN = "open"
    COLLECTING = "collecting"
    AGGREGATING = "aggregating"
    ALIGNING = "aligning"
    COMMITTING = "committing"
    CLOSED = "closed"
    ABORTED = "aborted"


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
