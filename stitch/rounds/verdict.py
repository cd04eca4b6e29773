"""What a policy, and what a step, decided."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from stitch.layout import PassRef


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to decide yet.

    Attributes:
        why: one line for a person.
        on: the sites waited for, sorted.
        until: when time alone will change the verdict.
    """

    why: str
    on: tuple[str, ...] = ()
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Close:
    """Aggregate these passes, sorted by site id; `excluded` gives a reason for each site left out."""

    inputs: tuple[PassRef, ...]
    excluded: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Abort:
    """Give this attempt up.

    Attributes:
        why: one line for a person.
        on: the sites that were lacking.
        redo: the sites asked for a new pass.
    """

    why: str
    on: tuple[str, ...] = ()
    redo: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The run is over."""

    why: str


Verdict = Wait | Close | Abort | Done


@dataclass(frozen=True, slots=True)
class Turn:
    """What one step of a loop came to.

    Attributes:
        state: "acted" (look again at once), "waiting", or "done".
        why: one line for a person.
        pass_id: the pass concerned.
        on: the sites waited for.
        final_pass: when done, the last global that counts; None when there is none.
    """

    state: Literal["acted", "waiting", "done"]
    why: str
    pass_id: int | None = None
    on: tuple[str, ...] = ()
    final_pass: int | None = None
